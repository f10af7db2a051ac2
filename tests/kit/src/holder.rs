//! The real helper at the other end of a socket, for tests that speak frames to it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use minicbor::bytes::ByteVec;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, shutdown,
    socketpair,
};
use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process, waitid};
use xioflow_protocol::{
    Containment, Decoder, Descendants, Hello, LastWord, Launch, PROTOCOL_VERSION, Reply, Request,
    StopPlan, encode,
};

use crate::stage::Stage;
use crate::wait::{self, Deadline, to_pid};

/// Name of the last word's file in the holders folder of an [`Order`].
const LAST_WORD_NAME: &str = "test.word";

/// A helper that was started by a test.
///
/// Dropping it kills it, so that a failed test leaves none.
#[derive(Debug)]
pub struct Holder<'a> {
    stage: &'a Stage,
    child: Child,
    socket: Option<OwnedFd>,
    decoder: Decoder,
    passed: Vec<OwnedFd>,
}

/// What came from a helper.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub reply: Reply,
    /// Descriptors that came up to it and that no earlier message took.
    pub descriptors: Vec<OwnedFd>,
}

impl<'a> Holder<'a> {
    /// Starts a helper as the supervisor does: socket on descriptor 0, no environment, nothing
    /// on the other two.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(stage: &'a Stage) -> Self {
        Self::start_by(stage, Command::new(stage.program("xioflow-reaper")))
    }

    /// Starts a helper through another program that executes it in its place, for example
    /// `env --ignore-signal=TERM`. The helper's path is added as the last argument.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start_through(stage: &'a Stage, words: &[&str]) -> Self {
        let (program, arguments) = words.split_first().expect("a program to start through");
        let mut command = Command::new(program);
        command.args(arguments).arg(stage.program("xioflow-reaper"));
        Self::start_by(stage, command)
    }

    fn start_by(stage: &'a Stage, mut command: Command) -> Self {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .expect("a socket pair");
        command
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(id) = stage.user_id() {
            command.uid(id).gid(id);
        }
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        stage.watch(&[child.id()]);
        let (socket, decoder, passed) = (Some(ours), Decoder::new(), Vec::new());
        Self {
            stage,
            child,
            socket,
            decoder,
            passed,
        }
    }

    /// The helper's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a message.
    ///
    /// # Panics
    /// When it cannot be sent whole.
    pub fn send(&self, request: &Request) {
        self.send_with(request, &[]);
    }

    /// Sends a message with descriptors on its first byte.
    ///
    /// # Panics
    /// When it cannot be sent whole.
    pub fn send_with(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) {
        let mut frame = Vec::new();
        encode(request, &mut frame).expect("a frame within its limit");
        self.send_bytes(&frame, descriptors);
    }

    /// Sends bytes as they are.
    ///
    /// # Panics
    /// When they cannot be sent whole.
    pub fn send_bytes(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        self.try_send_bytes(bytes, descriptors)
            .expect("send to the helper");
    }

    /// Sends bytes to a helper that may hang up meanwhile.
    ///
    /// # Errors
    /// What sendmsg(2) says, EPIPE when the helper is gone.
    ///
    /// # Panics
    /// After [`Holder::hang_up`].
    pub fn try_send_bytes(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            let added = ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
            assert!(added, "at most 16 descriptors travel with a message");
        }
        let mut sent = 0;
        while sent < bytes.len() {
            let rest = [IoSlice::new(&bytes[sent..])];
            match sendmsg(self.socket(), &rest, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(len) => sent += len,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            }
            ancillary.clear();
        }
        Ok(())
    }

    fn socket(&self) -> &OwnedFd {
        self.socket
            .as_ref()
            .expect("the socket is open until it is hung up")
    }

    /// Takes the next message; `None` when the helper has hung up.
    ///
    /// # Panics
    /// When none comes in time, or one that cannot be read.
    pub fn receive(&mut self) -> Option<Received> {
        let deadline = Deadline::usual();
        loop {
            if let Some(reply) = self
                .decoder
                .next_message()
                .expect("a message of the protocol")
            {
                return Some(Received {
                    reply,
                    descriptors: std::mem::take(&mut self.passed),
                });
            }
            let ready = deadline.poll(&mut [PollFd::new(self.socket(), PollFlags::IN)]);
            assert!(
                ready,
                "the helper says nothing; living: {:?}",
                self.stage.living()
            );
            if !self.fill() {
                self.decoder
                    .finish()
                    .expect("the helper ends between frames");
                return None;
            }
        }
    }

    fn fill(&mut self) -> bool {
        let mut block = vec![0; 64 * 1024];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            self.socket
                .as_ref()
                .expect("the socket is open until it is hung up"),
            &mut [IoSliceMut::new(&mut block)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        );
        let len = match received {
            Ok(message) => message.bytes,
            // The helper left while bytes of ours were unread.
            Err(Errno::CONNRESET) => 0,
            Err(error) => panic!("receive from the helper: {error}"),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.passed.extend(descriptors);
            }
        }
        self.decoder.push(&block[..len]);
        len > 0
    }

    /// Takes the next message, which has to come.
    ///
    /// # Panics
    /// When the helper hangs up instead.
    pub fn reply(&mut self) -> Reply {
        self.receive()
            .expect("the helper hung up where a message was due")
            .reply
    }

    /// Takes everything until the helper hangs up.
    pub fn rest(&mut self) -> Vec<Reply> {
        std::iter::from_fn(|| self.receive())
            .map(|received| received.reply)
            .collect()
    }

    /// Exchanges greetings.
    ///
    /// # Panics
    /// When the helper does not answer with its own.
    pub fn greet(&mut self) -> Hello {
        self.greet_naming(&[])
    }

    /// Exchanges greetings, and names features of this end.
    ///
    /// # Panics
    /// When the helper does not answer with its own greeting.
    pub fn greet_naming(&mut self, features: &[&str]) -> Hello {
        self.send(&Request::Hello(our_hello(features)));
        match self.reply() {
            Reply::Hello(hello) => hello,
            other => panic!("expected a greeting, got {other:?}"),
        }
    }

    /// Greets without waiting for an answer.
    pub fn say_hello(&self) {
        self.send(&Request::Hello(our_hello(&[])));
    }

    /// Greets and sends the order; what the helper answers is the next message.
    pub fn launch(&mut self, order: &Order) {
        self.greet();
        self.send_launch(order);
    }

    /// Sends the order without a greeting.
    pub fn send_launch(&self, order: &Order) {
        let descriptors = order.descriptors.each_ref().map(AsFd::as_fd);
        let mut travelling = descriptors[usize::from(order.launch.stdin_closed)..].to_vec();
        travelling.extend(order.group.as_ref().map(AsFd::as_fd));
        self.send_with(&Request::Launch(order.launch.clone()), &travelling);
    }

    /// Launches, takes the identity of the command at its gate, and opens the gate.
    ///
    /// # Panics
    /// When the command does not come to its gate.
    pub fn run(&mut self, order: &Order) -> u32 {
        let root = self.gate(order);
        self.send(&Request::Release);
        root
    }

    /// Launches and returns the pid of the command that waits at its gate.
    ///
    /// # Panics
    /// When the command does not come to its gate.
    pub fn gate(&mut self, order: &Order) -> u32 {
        self.launch(order);
        match self.reply() {
            Reply::Spawned { root, .. } => {
                self.stage.watch(&[root.pid]);
                root.pid
            }
            other => panic!("expected a command at its gate, got {other:?}"),
        }
    }

    /// Closes our end: for the helper, the host is gone.
    pub fn hang_up(&mut self) {
        self.socket = None;
    }

    /// Says that nothing more will come, but keeps on listening.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn stop_sending(&self) {
        shutdown(self.socket(), Shutdown::Write).expect("shutdown of our half");
    }

    /// Stops the helper, so that what comes meanwhile reaches it all at once.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn freeze(&self) {
        let pid = to_pid(self.pid());
        kill_process(pid, Signal::STOP).expect("stop of our own child");
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), stopped).expect("a child of ours can be waited for");
    }

    /// Lets a stopped helper go on.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn thaw(&self) {
        kill_process(to_pid(self.pid()), Signal::CONT).expect("signal to our own child");
    }

    /// Ends the helper by SIGKILL.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn kill(&mut self) {
        kill_process(to_pid(self.pid()), Signal::KILL).expect("kill of our own child");
        self.wait();
    }

    /// Waits for the helper's end.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        let gone = wait::pid_gone(self.pid(), Deadline::usual());
        assert!(
            gone,
            "the helper does not end; living: {:?}",
            self.stage.living()
        );
        self.child
            .wait()
            .expect("a child of ours can be waited for")
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        // It fails only for a child that has been waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The greeting of a supervisor of this build.
fn our_hello(features: &[&str]) -> Hello {
    Hello {
        protocol: PROTOCOL_VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        identity: None,
        features: features.iter().map(|&name| name.to_owned()).collect(),
    }
}

/// A launch message with its descriptors: null for input, files of the stage for output.
#[derive(Debug)]
pub struct Order {
    /// The message, free to be changed.
    pub launch: Launch,
    /// Input, output, errors, holders folder. The first does not travel where the message says
    /// that standard input is closed.
    pub descriptors: [OwnedFd; 4],
    /// The directory of the control group that the message asks for; see [`Order::in_group`].
    pub group: Option<OwnedFd>,
    stdout: PathBuf,
    stderr: PathBuf,
    holders: PathBuf,
}

impl Order {
    /// An order for a program, by its path, with these arguments.
    ///
    /// # Panics
    /// When its files cannot be made.
    #[must_use]
    pub fn new<S: Into<OsString>>(
        stage: &Stage,
        program: impl AsRef<Path>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        let program = program.as_ref().as_os_str().as_bytes().to_vec();
        let mut argv = vec![program.clone().into()];
        argv.extend(
            arguments
                .into_iter()
                .map(|word| word.into().into_vec().into()),
        );
        let launch = Launch {
            program: program.into(),
            argv,
            env: stage
                .environment()
                .into_iter()
                .map(|(name, value)| join(name, value))
                .collect(),
            cwd: stage.path("").as_os_str().as_bytes().to_vec().into(),
            umask: None,
            limits: Vec::new(),
            no_new_privs: true,
            oom_score_adj: 0,
            descendants: Descendants::Stop(StopPlan::kill(5000)),
            settle_ms: 100,
            on_host_loss: StopPlan::kill(5000),
            last_word_name: LAST_WORD_NAME.as_bytes().to_vec().into(),
            operation_id: "op-test".to_owned(),
            stdin_closed: false,
            nice: None,
            containment: Containment::Subreaper,
            group: false,
        };
        Self::with_files(stage, launch)
    }

    /// An order for the fixture.
    #[must_use]
    pub fn fixture(stage: &Stage, arguments: &[&str]) -> Self {
        Self::new(stage, stage.fixture(), arguments)
    }

    /// An order for a script of sh(1).
    #[must_use]
    pub fn shell(stage: &Stage, script: &str) -> Self {
        Self::new(stage, "/bin/sh", ["-c", script])
    }

    fn with_files(stage: &Stage, launch: Launch) -> Self {
        let holders = stage.folder("holders");
        let stdout = stage.write("order.stdout", "", 0o600);
        let stderr = stage.write("order.stderr", "", 0o600);
        let writable = |path: &Path| File::options().append(true).open(path).expect("a file");
        let descriptors = [
            File::open("/dev/null").expect("/dev/null").into(),
            writable(&stdout).into(),
            writable(&stderr).into(),
            File::open(&holders).expect("the holders folder").into(),
        ];
        Self {
            launch,
            descriptors,
            group: None,
            stdout,
            stderr,
            holders,
        }
    }

    /// The same, for a command in this control group.
    ///
    /// # Panics
    /// When its directory cannot be opened.
    #[must_use]
    pub fn in_group(mut self, directory: &Path) -> Self {
        self.launch.group = true;
        self.group = Some(File::open(directory).expect("a control group").into());
        self
    }

    /// What the command has printed.
    ///
    /// # Panics
    /// When the file cannot be read.
    #[must_use]
    pub fn stdout(&self) -> Vec<u8> {
        fs::read(&self.stdout).expect("the command's output")
    }

    /// What the command has complained about.
    ///
    /// # Panics
    /// When the file cannot be read.
    #[must_use]
    pub fn stderr(&self) -> Vec<u8> {
        fs::read(&self.stderr).expect("the command's complaints")
    }

    /// The folder for the last word.
    #[must_use]
    pub fn holders(&self) -> &Path {
        &self.holders
    }

    /// Waits for the helper's last word and reads it.
    ///
    /// # Panics
    /// When it does not come in time, or is none.
    #[must_use]
    pub fn last_word(&self) -> LastWord {
        let path = self.holders.join(LAST_WORD_NAME);
        wait::file(&path, Deadline::usual());
        let bytes = fs::read(&path).expect("the last word");
        LastWord::from_bytes(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

fn join(name: OsString, value: OsString) -> ByteVec {
    let mut entry = name.into_vec();
    entry.push(b'=');
    entry.extend_from_slice(value.as_bytes());
    entry.into()
}
