//! Inputs to start from: what both ends really say, made by the code that says it.

use xioflow_protocol::{
    Armour, Containment, Descendants, Exit, Hello, Identity, LAST_WORD_FORMAT, LastWord, Launch,
    LaunchFailure, PROTOCOL_VERSION, PidNamespace, ProcessNote, ProtocolFault, Reply, Request,
    ResourceLimit, Rung, Stage, StopPlan, Survivor, SurvivorEnd, TreeEnd, Usage, WhyAlive, encode,
};
use xioflow_rpc::codec;
use xioflow_rpc::envelope::{Id, Message, Request as RpcRequest};
use xioflow_rpc::method::{Method, Notice};
use xioflow_rpc::operation::Stream;
use xioflow_rpc::piece::Header;
use xioflow_rpc::refusal::Fault;
use xioflow_rpc::schema::{answer_example, notice_example, request_example};

use crate::artifacts::BETWEEN;
use crate::{Target, frames, rpc};

/// Pieces of several lengths, so that cuts fall into prefixes and into bodies.
const PIECE_LENS: [u8; 2] = [3, 128];

/// The inputs to start from; each passes.
///
/// # Panics
/// If an example of ours is too long for its own frame.
#[must_use]
pub fn seeds(target: Target) -> Vec<Vec<u8>> {
    match target {
        Target::Frames => frame_seeds(),
        Target::LastWord => last_words()
            .iter()
            .map(|word| word.to_bytes().expect("it is short"))
            .collect(),
        Target::Rpc => rpc_seeds(),
        Target::Artifacts => artifact_seeds(),
        Target::Holder => holder_seeds(),
    }
}

/// Scripts by chance, of some length: the tests of single bytes are for messages.
fn holder_seeds() -> Vec<Vec<u8>> {
    let scripts = (0..60).map(xioflow_simulation::script_of);
    scripts.filter(|script| script.len() >= 400).collect()
}

fn frame_seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for piece_len in PIECE_LENS {
        seeds.push(stream(false, piece_len, &requests()));
        seeds.push(stream(true, piece_len, &replies()));
    }
    // One at a time as well: a mutation that breaks a frame hides those behind it.
    seeds.extend(
        requests()
            .into_iter()
            .map(|request| stream(false, 128, &[request])),
    );
    seeds.extend(
        replies()
            .into_iter()
            .map(|reply| stream(true, 128, &[reply])),
    );
    seeds
}

fn stream<T: minicbor::Encode<()>>(is_reply: bool, piece_len: u8, messages: &[T]) -> Vec<u8> {
    let mut bytes = vec![frames::head(is_reply, piece_len)];
    for message in messages {
        encode(message, &mut bytes).expect("they are short");
    }
    bytes
}

/// Who a process of these examples is.
#[must_use]
pub fn identity(pid: u32) -> Identity {
    Identity {
        pid,
        start_ticks: 12_345,
        boot_id: [7; 16],
        pidfd_inode: Some(99),
    }
}

fn pid_namespace() -> PidNamespace {
    PidNamespace {
        init: identity(10),
        inode: 4_026_532_000,
        user_namespace: true,
    }
}

fn plan() -> StopPlan {
    StopPlan {
        rungs: vec![
            Rung {
                signal: 2,
                wait_ms: 2000,
            },
            Rung {
                signal: 15,
                wait_ms: 1000,
            },
        ],
        kill_ms: 5000,
    }
}

fn requests() -> Vec<Request> {
    let hello = Hello {
        protocol: PROTOCOL_VERSION,
        release: "0.1.0".into(),
        identity: None,
        features: vec!["recorded".into()],
    };
    let bytes = |text: &str| text.as_bytes().to_vec().into();
    let launch = Launch {
        program: bytes("sh"),
        argv: vec![bytes("sh"), bytes("-c"), bytes("exit 3")],
        env: vec![bytes("PATH=/usr/bin")],
        cwd: bytes("/"),
        umask: Some(0o22),
        limits: vec![ResourceLimit {
            resource: 7,
            soft: 256,
            hard: u64::MAX,
        }],
        no_new_privs: true,
        oom_score_adj: 200,
        descendants: Descendants::Stop(plan()),
        settle_ms: 50,
        on_host_loss: StopPlan::kill(5000),
        last_word_name: bytes("op.word"),
        operation_id: "op".into(),
        stdin_closed: false,
        nice: Some(5),
        containment: Containment::Subreaper,
        group: false,
    };
    let waiting = Launch {
        descendants: Descendants::Wait,
        umask: None,
        nice: None,
        containment: Containment::PidNamespace,
        ..launch.clone()
    };
    vec![
        Request::Hello(hello),
        Request::Launch(launch),
        Request::Launch(waiting),
        Request::Release,
        Request::Suspend,
        Request::Resume,
        Request::Stop(plan()),
        Request::Discard,
        Request::Recorded,
    ]
}

fn replies() -> Vec<Reply> {
    let hello = Hello {
        protocol: PROTOCOL_VERSION,
        release: "0.1.0".into(),
        identity: Some(identity(8)),
        features: vec![],
    };
    vec![
        Reply::Hello(hello),
        Reply::Spawned {
            root: identity(9),
            namespace: None,
            group: None,
        },
        Reply::Spawned {
            root: identity(9),
            namespace: Some(pid_namespace()),
            group: Some(xioflow_protocol::GroupEntry::Cloned),
        },
        Reply::LaunchFailed(launch_failure(Stage::Exec)),
        Reply::Running,
        Reply::RootExited {
            exit: Exit::Exited { code: 3 },
        },
        Reply::Survivors {
            processes: vec![note()],
            total: 2,
        },
        Reply::Signalled {
            signal: 15,
            targets: 2,
        },
        Reply::TreeEmpty(tree_end(SurvivorEnd::Ended(Exit::Signaled {
            signal: 9,
            core: false,
        }))),
        Reply::TreeRemains(tree_end(SurvivorEnd::Alive(WhyAlive::Uninterruptible))),
        Reply::Refused(ProtocolFault::Version { ours: 1, theirs: 2 }),
        Reply::Refused(ProtocolFault::Invalid {
            what: "cwd is relative".into(),
        }),
        Reply::Refused(ProtocolFault::Stranger {
            ours: 1000,
            theirs: Some(0),
        }),
        Reply::Panicked {
            message: "serve.rs:1".into(),
        },
        Reply::Armour(Armour {
            no_new_privs: true,
            landlock_abi: Some(7),
            filter: true,
            capabilities: Some(32),
        }),
    ]
}

fn launch_failure(stage: Stage) -> LaunchFailure {
    LaunchFailure {
        stage,
        errno: 2,
        subject: b"no-such-program".to_vec().into(),
    }
}

fn note() -> ProcessNote {
    ProcessNote::new(10, 12_346, b"sleep".to_vec(), Some(1000))
}

fn tree_end(end: SurvivorEnd) -> TreeEnd {
    TreeEnd {
        exit: Some(Exit::Exited { code: 0 }),
        survivors: vec![Survivor {
            process: note(),
            end,
        }],
        survivors_total: 1,
        usage: Usage {
            user_us: 1000,
            system_us: 2000,
            max_rss_kib: 4096,
        },
        last_signal: Some(15),
        group_empty: None,
    }
}

/// What helpers leave: after an end that they saw, one at the gate, a failed launch, a tree that they could not end.
#[must_use]
pub fn last_words() -> Vec<LastWord> {
    let ended = LastWord {
        format: LAST_WORD_FORMAT,
        operation_id: "op".into(),
        holder: identity(8),
        root: Some(identity(9)),
        released: true,
        launch_failure: None,
        end: tree_end(SurvivorEnd::GoneUnobserved),
        empty: true,
        written_at_ms: 1_790_000_000_000,
        stopped: true,
        namespace: None,
    };
    let nothing = TreeEnd {
        exit: None,
        survivors: vec![],
        survivors_total: 0,
        usage: Usage::default(),
        last_signal: None,
        group_empty: None,
    };
    vec![
        LastWord {
            stopped: false,
            end: nothing.clone(),
            ..ended.clone()
        },
        LastWord {
            released: false,
            stopped: true,
            end: nothing.clone(),
            ..ended.clone()
        },
        LastWord {
            launch_failure: Some(launch_failure(Stage::Exec)),
            end: nothing.clone(),
            ..ended.clone()
        },
        LastWord {
            launch_failure: Some(launch_failure(Stage::Gate)),
            end: nothing,
            ..ended.clone()
        },
        LastWord {
            namespace: Some(pid_namespace()),
            ..ended.clone()
        },
        LastWord {
            empty: false,
            end: tree_end(SurvivorEnd::Alive(WhyAlive::Permission)),
            ..ended.clone()
        },
        LastWord {
            end: tree_end(SurvivorEnd::Unreaped),
            ..ended.clone()
        },
        ended,
    ]
}

fn rpc_seeds() -> Vec<Vec<u8>> {
    let lines: Vec<Vec<u8>> = request_lines().chain(message_lines()).collect();
    let mut seeds: Vec<Vec<u8>> = PIECE_LENS
        .iter()
        .map(|len| connection(true, *len, &lines.concat()))
        .collect();
    seeds.extend(lines.iter().map(|line| connection(false, 128, line)));
    let pieces = [
        (Stream::Stdout, false, 0, 5),
        (Stream::Stderr, true, 5, 1 << 40),
    ];
    let pieces = pieces.map(|(stream, is_gap, offset, len)| {
        Header {
            stream,
            is_gap,
            offset,
            len,
        }
        .encode()
    });
    seeds.push(connection(false, 128, &pieces.concat()));
    seeds
}

fn connection(short_lines: bool, piece_len: u8, bytes: &[u8]) -> Vec<u8> {
    [&[rpc::head(short_lines, piece_len)], bytes].concat()
}

fn request_lines() -> impl Iterator<Item = Vec<u8>> {
    Method::ALL.iter().map(|method| {
        line(&RpcRequest::new(
            7,
            *method,
            value(request_example(*method)),
        ))
    })
}

fn message_lines() -> impl Iterator<Item = Vec<u8>> {
    let answers = Method::ALL
        .iter()
        .map(|method| Message::answer("a".into(), value(answer_example(*method))));
    let notices = Notice::ALL
        .iter()
        .map(|notice| Message::notice(*notice, value(notice_example(*notice))));
    let fault = Fault::refused("busy", "the domain is in use").causes(["it is locked".to_owned()]);
    let refusals = [
        Message::refusal(None, fault.clone()),
        Message::refusal(Some(Id::Number(7)), fault),
    ];
    answers
        .chain(notices)
        .chain(refusals)
        .map(|message| line(&message))
}

fn value(example: &str) -> serde_json::Value {
    serde_json::from_str(example).expect("examples are JSON")
}

fn line(message: &impl serde::Serialize) -> Vec<u8> {
    codec::encode(message, xioflow_rpc::REQUEST_MAX_BYTES).expect("they are short")
}

fn artifact_seeds() -> Vec<Vec<u8>> {
    let long = "x".repeat(121);
    let pairs = [
        ("build-7", "build-7-stdout.log"),
        ("Build-7", "build-7"),
        ("../x", "..%2fx"),
        ("caf\u{e9}", "cafe\u{301}"),
        ("", "."),
        ("~a", "a~"),
        ("a\0b", "a"),
        (&long[..120], &long),
    ];
    pairs
        .iter()
        .map(|(one, other)| [one.as_bytes(), &[BETWEEN], other.as_bytes()].concat())
        .collect()
}
