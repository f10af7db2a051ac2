//! A real arbiter in this process, and clients that speak with it line by line.

use std::io::{self, BufRead, BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use xioflow_arbiter::{ArbiterOptions, Ended, ServeError, ShutdownHandle, serve};
use xioflow_kit::{Deadline, Stage};
use xioflow_rpc::{PROTOCOL_VERSION, SOCKET_NAME};

/// An arbiter that serves the stage's domain until it is dropped.
pub(crate) struct Arbiter {
    pub(crate) folder: PathBuf,
    pub(crate) shutdown: ShutdownHandle,
    thread: Option<JoinHandle<Result<Ended, ServeError>>>,
}

pub(crate) fn options(stage: &Stage) -> ArbiterOptions {
    ArbiterOptions {
        idle: None,
        client_grace: Duration::from_millis(300),
        helper: Some(stage.program("xioflow-reaper")),
        ..ArbiterOptions::default()
    }
}

impl Arbiter {
    pub(crate) fn start(stage: &Stage) -> Self {
        Self::start_with(stage, options(stage))
    }

    pub(crate) fn start_with(stage: &Stage, mut options: ArbiterOptions) -> Self {
        let shutdown = ShutdownHandle::new().unwrap();
        options.shutdown = Some(shutdown.clone());
        let folder = stage.domain();
        let (tell, ready) = mpsc::channel();
        let of_thread = folder.clone();
        let thread =
            std::thread::spawn(move || serve(&of_thread, options, move || tell.send(()).unwrap()));
        if ready.recv_timeout(Deadline::USUAL).is_err() {
            panic!("no arbiter: {:?}", thread.join());
        }
        Self {
            folder,
            shutdown,
            thread: Some(thread),
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET_NAME)
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(mut self) -> Ended {
        let ended = self.thread.take().unwrap().join().unwrap();
        ended.unwrap()
    }

    /// A connection that has not greeted.
    pub(crate) fn connect(&self) -> Client {
        Client::over(UnixStream::connect(self.socket()).unwrap())
    }

    /// One that has.
    pub(crate) fn client(&self) -> Client {
        let mut client = self.connect();
        client.greet();
        client
    }
}

impl Drop for Arbiter {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.shutdown.stop(Duration::ZERO);
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}

/// A client that says and reads whole lines.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    reader: BufReader<UnixStream>,
    next: i64,
    /// Messages that came while another one was waited for.
    pub(crate) kept: Vec<Value>,
}

impl Client {
    pub(crate) fn over(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(Deadline::USUAL)).unwrap();
        stream.set_write_timeout(Some(Deadline::USUAL)).unwrap();
        Self {
            reader: BufReader::new(stream.try_clone().unwrap()),
            stream,
            next: 1,
            kept: Vec::new(),
        }
    }

    pub(crate) fn greet(&mut self) -> Value {
        self.call(
            "kernel.hello",
            json!({ "protocol": PROTOCOL_VERSION, "release": "test", "client": "test" }),
        )
    }

    /// Sends a request; gives its id.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> i64 {
        self.send_with(method, params, &[])
    }

    pub(crate) fn send_with(
        &mut self,
        method: &str,
        params: Value,
        descriptors: &[BorrowedFd<'_>],
    ) -> i64 {
        let id = self.next;
        self.next += 1;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.say(format!("{line}\n").as_bytes(), descriptors);
        id
    }

    /// Says bytes of any kind, with descriptors.
    pub(crate) fn say(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let parts = [IoSlice::new(bytes)];
        let sent = sendmsg(&self.stream, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
        (&self.stream).write_all(&bytes[sent..]).unwrap();
    }

    /// The next message; none at the end of the connection, also where that is inside a message.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(_) if !line.ends_with('\n') => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// The first message that fits, now or later.
    pub(crate) fn wait_for(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.kept.iter().position(&fits) {
            return self.kept.remove(at);
        }
        loop {
            let message = self
                .receive()
                .unwrap_or_else(|| panic!("{what} did not come; kept {:?}", self.kept));
            if fits(&message) {
                return message;
            }
            self.kept.push(message);
        }
    }

    /// The answer or refusal to a request, whole.
    pub(crate) fn answer(&mut self, id: i64) -> Value {
        self.wait_for("an answer", |it| it["id"] == id)
    }

    /// Asks, and gives the result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Asks, and gives the error.
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer["error"].is_object(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// Submits a shell script with more parameters; gives the request's id once it was accepted.
    pub(crate) fn submit(&mut self, script: &str, more: Value) -> i64 {
        self.submit_with(script, more, &[])
    }

    pub(crate) fn submit_with(
        &mut self,
        script: &str,
        more: Value,
        descriptors: &[BorrowedFd<'_>],
    ) -> i64 {
        let id = self.send_with("op.execProcess", shell(script, more), descriptors);
        let answer = self.answer(id);
        assert!(answer["error"].is_null(), "{script}: {answer}");
        id
    }

    /// The news of the end of a request.
    pub(crate) fn ended(&mut self, id: i64) -> Value {
        let message = self.wait_for("op.result", |it| {
            let is_end = it["method"] == "op.result" && it["params"]["request"] == id;
            is_end || (it["id"] == id && it["error"].is_object())
        });
        assert!(message["error"].is_null(), "{message}");
        message["params"].clone()
    }

    /// Its result.
    pub(crate) fn result(&mut self, id: i64) -> Value {
        let ended = self.ended(id);
        assert!(ended["error"].is_null(), "{ended}");
        ended["result"].clone()
    }

    /// Waits until the arbiter has ended the connection.
    pub(crate) fn wait_closed(&mut self) {
        while let Some(message) = self.receive() {
            self.kept.push(message);
        }
    }
}

/// Parameters of a submission of a shell script.
pub(crate) fn shell(script: &str, more: Value) -> Value {
    let mut params = json!({
        "command": {
            "program": "/bin/sh",
            "args": ["-c", script],
            "cwd": "/",
            "env": [["PATH", "/usr/local/bin:/usr/bin:/bin"]],
        },
    });
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    params
}

/// A pipe whose ends both block.
pub(crate) fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap()
}

/// Reads a pipe to its end.
pub(crate) fn read_all(end: impl AsFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut file = std::fs::File::from(end.as_fd().try_clone_to_owned().unwrap());
    io::Read::read_to_end(&mut file, &mut bytes).unwrap();
    bytes
}
