//! What a client makes of what it finds in a domain's folder, and of whoever listens there. The
//! arbiter is a thread of the test that does exactly what the test wants.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde_json::{Value, json};
use xioflow_client::{
    CallError, ConnectError, Connection, ConnectionError, Endpoint, EndpointError, Received,
};
use xioflow_rpc::codec::LineError;
use xioflow_rpc::domain::StatusOf;
use xioflow_rpc::envelope::{Message, Request};
use xioflow_rpc::kernel::Hello;
use xioflow_rpc::method::Method;
use xioflow_rpc::{REPLY_MAX_BYTES, SOCKET_NAME};

const NOBODY: u32 = 65534;

fn hello() -> Hello {
    Hello {
        protocol: 1,
        release: "0.1.0".into(),
        client: "test".into(),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A domain's folder that is gone at the end.
struct Domain {
    folder: tempfile::TempDir,
}

impl Domain {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn socket(&self) -> PathBuf {
        self.path().join(SOCKET_NAME)
    }

    fn connect(&self) -> Result<Connection, ConnectError> {
        Endpoint::open(self.path()).unwrap().connect(&hello())
    }

    fn connect_error(&self) -> ConnectError {
        self.connect().expect_err("there is nothing to connect to")
    }

    /// Connects to an arbiter that does `act` with its end.
    fn connect_to<T: Send>(
        &self,
        act: impl FnOnce(UnixStream) -> T + Send,
    ) -> (Result<Connection, ConnectError>, T) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        thread::scope(|scope| {
            let arbiter = scope.spawn(move || act(listener.accept().unwrap().0));
            let connection = self.connect();
            (connection, arbiter.join().unwrap())
        })
    }
}

fn read_line(stream: &UnixStream) -> Value {
    // Without a buffer: what follows the line is for whoever reads next.
    let (mut line, mut byte) = (Vec::new(), [0]);
    while byte != *b"\n" {
        (&*stream).read_exact(&mut byte).unwrap();
        line.push(byte[0]);
    }
    serde_json::from_slice(&line).unwrap()
}

fn write_line(mut stream: &UnixStream, message: &Value) {
    stream.write_all(format!("{message}\n").as_bytes()).unwrap();
}

fn welcome(protocol: u32, release: &str) -> Value {
    json!({"protocol": protocol, "release": release, "pid": 7, "startedAt": "1970-01-01T00:00:00Z"})
}

fn greet(stream: &UnixStream, result: &Value) -> Value {
    let asked = read_line(stream);
    write_line(
        stream,
        &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}),
    );
    asked
}

/// A connection that was greeted, and the arbiter's end of it.
fn greeted(domain: &Domain) -> (Connection, UnixStream) {
    let (connection, stream) = domain.connect_to(|stream| {
        greet(&stream, &welcome(1, "0.1.0"));
        stream
    });
    (connection.unwrap(), stream)
}

#[test]
fn a_greeting_is_exchanged() {
    let domain = Domain::new();
    let (connection, asked) = domain.connect_to(|stream| greet(&stream, &welcome(1, "0.3.0")));
    let connection = connection.unwrap();
    assert_eq!(connection.welcome().release, "0.3.0");
    assert_eq!(connection.welcome().pid, 7);
    assert_eq!(
        asked,
        json!({"jsonrpc": "2.0", "id": 1, "method": "kernel.hello",
            "params": {"protocol": 1, "release": "0.1.0", "client": "test"}})
    );
}

#[test]
fn where_nobody_listens_there_is_no_arbiter() {
    let domain = Domain::new();
    assert!(matches!(domain.connect_error(), ConnectError::NoArbiter));
    // A socket that its listener has left behind.
    drop(UnixListener::bind(domain.socket()).unwrap());
    assert!(domain.socket().exists());
    assert!(matches!(domain.connect_error(), ConnectError::NoArbiter));
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let domain = Domain::new();
    let missing = Endpoint::open(&domain.path().join("not here"));
    assert!(matches!(missing, Err(EndpointError::Missing { .. })));
    let file = domain.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(
        Endpoint::open(&file),
        Err(EndpointError::NoFolder { .. })
    ));
}

#[test]
fn what_is_no_socket_is_named_and_left_alone() {
    let (domain, other) = (Domain::new(), Domain::new());
    let _listener = UnixListener::bind(other.socket()).unwrap();
    let socket = domain.socket();
    let plant: [(&str, &dyn Fn()); 4] = [
        ("a file", &|| fs::write(&socket, "").unwrap()),
        ("a folder", &|| fs::create_dir(&socket).unwrap()),
        ("a link", &|| symlink(other.socket(), &socket).unwrap()),
        ("a link", &|| symlink("nowhere", &socket).unwrap()),
    ];
    for (expected, plant) in plant {
        plant();
        match domain.connect_error() {
            ConnectError::Endpoint(EndpointError::NoSocket { found, .. }) => {
                assert_eq!(found, expected);
            }
            other => panic!("{expected}: {other}"),
        }
        assert!(socket.symlink_metadata().is_ok(), "{expected} was removed");
        fs::remove_file(&socket)
            .or_else(|_| fs::remove_dir(&socket))
            .unwrap();
    }
}

#[test]
fn a_socket_of_another_user_is_not_connected_to() {
    if !is_root() {
        println!("skipped: only root can make a socket of another user");
        return;
    }
    let domain = Domain::new();
    let listener = UnixListener::bind(domain.socket()).unwrap();
    chown(domain.socket(), Some(NOBODY), None).unwrap();
    let error = domain.connect_error();
    assert!(
        matches!(
            error,
            ConnectError::Endpoint(EndpointError::ForeignSocket {
                owner_uid: NOBODY,
                our_uid: 0,
                ..
            })
        ),
        "{error}"
    );
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "it was connected to");
}

#[test]
fn a_folder_that_others_decide_about_is_refused() {
    let domain = Domain::new();
    for mode in [0o770, 0o702, 0o1777] {
        fs::set_permissions(domain.path(), Permissions::from_mode(mode)).unwrap();
        match Endpoint::open(domain.path()) {
            Err(EndpointError::FolderWritable { mode: found, .. }) => assert_eq!(found, mode),
            other => panic!("{mode:o}: {other:?}"),
        }
    }
    fs::set_permissions(domain.path(), Permissions::from_mode(0o755)).unwrap();
    assert!(Endpoint::open(domain.path()).is_ok());
    if !is_root() {
        println!("skipped: only root can make a folder of another user");
        return;
    }
    chown(domain.path(), Some(NOBODY), None).unwrap();
    let refused = Endpoint::open(domain.path());
    assert!(matches!(
        refused,
        Err(EndpointError::ForeignFolder {
            owner_uid: NOBODY,
            ..
        })
    ));
}

#[test]
fn a_path_can_be_longer_than_the_address_of_a_socket() {
    let domain = Domain::new();
    let deep = domain.path().join("x".repeat(200));
    fs::create_dir(&deep).unwrap();
    let made = domain.path().join("s");
    let listener = UnixListener::bind(&made).unwrap();
    fs::rename(&made, deep.join(SOCKET_NAME)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| greet(&listener.accept().unwrap().0, &welcome(1, "0.1.0")));
        assert!(Endpoint::open(&deep).unwrap().connect(&hello()).is_ok());
    });
}

#[test]
fn a_domain_can_be_named_through_a_link() {
    let (domain, beside) = (Domain::new(), Domain::new());
    let link = beside.path().join("link");
    symlink(domain.path(), &link).unwrap();
    let endpoint = Endpoint::open(&link).unwrap();
    assert_eq!(endpoint.path(), domain.path().canonicalize().unwrap());
    let listener = UnixListener::bind(domain.socket()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| greet(&listener.accept().unwrap().0, &welcome(1, "0.1.0")));
        assert!(endpoint.connect(&hello()).is_ok());
    });
}

#[test]
fn another_protocol_is_named_with_both_releases() {
    for protocol in [0, 2] {
        let domain = Domain::new();
        let (result, _) = domain.connect_to(|stream| greet(&stream, &welcome(protocol, "9.8.7")));
        let Err(ConnectError::Version(mismatch)) = result else {
            panic!("{result:?}");
        };
        assert_eq!(mismatch.theirs.protocol, protocol);
        let said = mismatch.to_string();
        assert!(said.contains("9.8.7") && said.contains("0.1.0"), "{said}");
    }
}

fn refuse(stream: &UnixStream, kind: &str, subject: &Value) {
    let asked = read_line(stream);
    let data = json!({"kind": kind, "subject": subject});
    let error = json!({"code": -32000, "message": "no", "data": data});
    write_line(
        stream,
        &json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}),
    );
}

#[test]
fn a_refusal_of_the_version_is_the_same_as_another_version() {
    let domain = Domain::new();
    let subject = json!({"protocol": 4, "release": "4.0.0", "operations": 2});
    let (result, ()) = domain.connect_to(|stream| refuse(&stream, "version", &subject));
    let Err(ConnectError::Version(mismatch)) = result else {
        panic!("{result:?}");
    };
    assert_eq!(mismatch.theirs.operations, Some(2));
    assert_eq!(mismatch.theirs.release, "4.0.0");
}

#[test]
fn another_refusal_is_given_on() {
    let domain = Domain::new();
    let subject = json!({"differs": ["net namespace"]});
    let (result, ()) = domain.connect_to(|stream| refuse(&stream, "standing", &subject));
    match result {
        Err(ConnectError::Refused(fault)) => assert_eq!(fault.kind(), Some("standing")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_arbiter_that_goes_before_it_has_greeted_is_none() {
    type Way = (&'static str, fn(UnixStream));
    let ways: [Way; 4] = [
        ("without reading", drop),
        ("after reading", |stream| drop(read_line(&stream))),
        ("inside a line", |mut stream| {
            read_line(&stream);
            stream.write_all(b"{\"jsonrpc\":\"2.0\"").unwrap();
        }),
        ("after a first byte", |mut stream| {
            stream.write_all(b"{").unwrap()
        }),
    ];
    for (way, act) in ways {
        let (result, ()) = Domain::new().connect_to(act);
        assert!(
            matches!(result, Err(ConnectError::NoArbiter)),
            "{way}: {result:?}"
        );
    }
}

#[test]
fn who_speaks_otherwise_is_no_arbiter_of_ours() {
    for said in [
        "HTTP/1.1 400 Bad Request\r\n",
        "{}\n",
        "[1]\n",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
    ] {
        let (result, stream) = Domain::new().connect_to(|mut stream| {
            read_line(&stream);
            stream.write_all(said.as_bytes()).unwrap();
            stream
        });
        assert!(
            matches!(result, Err(ConnectError::Garbage { .. })),
            "{said}: {result:?}"
        );
        drop(stream);
    }
}

#[test]
fn a_line_without_end_is_given_up_at_its_bound() {
    let (result, sent) = Domain::new().connect_to(|mut stream| {
        let piece = [b'x'; 1024 * 1024];
        let mut sent = 0;
        // It ends when the client has closed its end.
        while stream.write_all(&piece).is_ok() {
            sent += piece.len();
        }
        sent
    });
    let Err(ConnectError::Garbage { source, .. }) = result else {
        panic!("{result:?}");
    };
    assert!(
        matches!(source, ConnectionError::Line(LineError::TooLong { .. })),
        "{source}"
    );
    // What the socket's own buffers took is not counted by the client.
    let expected = REPLY_MAX_BYTES - 1024 * 1024..=REPLY_MAX_BYTES + 4 * 1024 * 1024;
    assert!(expected.contains(&sent), "{sent}");
}

/// Receives once, with the descriptors that came along.
fn receive_with_descriptors(stream: &UnixStream) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut bytes = vec![0; 1000];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let message = recvmsg(stream, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    bytes.truncate(message.bytes);
    (bytes, descriptors)
}

#[test]
fn descriptors_come_with_the_first_byte_of_a_long_line() {
    let domain = Domain::new();
    let (mut connection, stream) = greeted(&domain);
    let (mut out, tell_out) = std::io::pipe().unwrap();
    let (mut err, tell_err) = std::io::pipe().unwrap();
    let long = "x".repeat(5 * 1024 * 1024);
    let request = Request::new(
        connection.next_id(),
        Method::ExecProcess,
        json!({"long": long}),
    );
    thread::scope(|scope| {
        let arbiter = scope.spawn(|| {
            let (first, descriptors) = receive_with_descriptors(&stream);
            assert!(!first.is_empty() && descriptors.len() == 2);
            for (descriptor, word) in descriptors.into_iter().zip(["out", "err"]) {
                File::from(descriptor).write_all(word.as_bytes()).unwrap();
            }
            let mut rest = Vec::new();
            BufReader::new(&stream)
                .read_until(b'\n', &mut rest)
                .unwrap();
            let line: Value = serde_json::from_slice(&[first, rest].concat()).unwrap();
            assert_eq!(
                line["params"]["long"].as_str().map(str::len),
                Some(long.len())
            );
        });
        let descriptors = [tell_out.as_fd(), tell_err.as_fd()];
        connection.send(&request, &descriptors).unwrap();
        arbiter.join().unwrap();
    });
    drop((tell_out, tell_err));
    let mut said = String::new();
    out.read_to_string(&mut said).unwrap();
    err.read_to_string(&mut said).unwrap();
    assert_eq!(said, "outerr");
}

#[test]
fn what_cannot_be_sent_leaves_the_connection_usable() {
    let domain = Domain::new();
    let (mut connection, stream) = greeted(&domain);
    let null = File::open("/dev/null").unwrap();
    let too_many = [null.as_fd(); 4];
    let request = Request::new(1, Method::Status, StatusOf {});
    let error = connection.send(&request, &too_many).unwrap_err();
    assert!(
        matches!(error, ConnectionError::Descriptors { count: 4 }),
        "{error}"
    );
    let too_long = Request::new(1, Method::ExecProcess, "x".repeat(16 * 1024 * 1024));
    let error = connection.send(&too_long, &[]).unwrap_err();
    assert!(matches!(error, ConnectionError::Encode(_)), "{error}");
    connection.send(&request, &[]).unwrap();
    assert_eq!(read_line(&stream)["method"], "domain.status");
}

#[test]
fn a_call_sets_aside_what_is_not_its_answer() {
    let domain = Domain::new();
    let (mut connection, stream) = greeted(&domain);
    let gap = json!({"jsonrpc": "2.0", "method": "op.gap", "params": {"n": 1}});
    let other = json!({"jsonrpc": "2.0", "id": "other", "result": 2});
    let result: Value = thread::scope(|scope| {
        scope.spawn(|| {
            let asked = read_line(&stream);
            write_line(&stream, &gap);
            write_line(&stream, &other);
            write_line(
                &stream,
                &json!({"jsonrpc": "2.0", "id": asked["id"], "result": 3}),
            );
        });
        connection.call(Method::Status, StatusOf {}, &[]).unwrap()
    });
    assert_eq!(result, 3);
    let first = connection.receive().unwrap().unwrap();
    assert_eq!(serde_json::to_value(first).unwrap(), gap);
    let Received::Message(second) = connection.try_receive().unwrap() else {
        panic!("the second is gone");
    };
    assert_eq!(serde_json::to_value(second).unwrap(), other);
    assert_eq!(connection.try_receive().unwrap(), Received::Nothing);
}

#[test]
fn a_call_that_is_refused_says_why_and_one_without_answer_that_the_arbiter_is_gone() {
    let domain = Domain::new();
    let (mut connection, stream) = greeted(&domain);
    let refused = thread::scope(|scope| {
        scope.spawn(|| refuse(&stream, "invalid", &json!({})));
        connection.call::<_, Value>(Method::Status, StatusOf {}, &[])
    });
    assert!(matches!(&refused, Err(CallError::Refused(fault)) if fault.kind() == Some("invalid")));
    drop(stream);
    let lost = connection.call::<_, Value>(Method::Status, StatusOf {}, &[]);
    assert!(
        matches!(lost, Err(CallError::Connection(ConnectionError::Gone))),
        "{lost:?}"
    );
    assert_eq!(connection.receive().unwrap(), None);
    assert_eq!(connection.try_receive().unwrap(), Received::Gone);
}

#[test]
fn many_messages_come_one_by_one_and_half_a_line_at_the_end_is_an_error() {
    let domain = Domain::new();
    let (mut connection, mut stream) = greeted(&domain);
    let notice = |n: u64| json!({"jsonrpc": "2.0", "method": "op.chunk", "params": n});
    let lines: String = (0..1000).map(|n| format!("{}\n", notice(n))).collect();
    stream.write_all(lines.as_bytes()).unwrap();
    stream.write_all(b"{\"half").unwrap();
    for n in 0..1000 {
        let Some(Message::Notice { params, .. }) = connection.receive().unwrap() else {
            panic!("message {n} is gone");
        };
        assert_eq!(params, n);
    }
    assert_eq!(connection.try_receive().unwrap(), Received::Nothing);
    drop(stream);
    for _ in 0..2 {
        let error = connection.receive().unwrap_err();
        assert!(
            matches!(
                error,
                ConnectionError::Line(LineError::Unfinished { len: 6 })
            ),
            "{error}"
        );
    }
}
