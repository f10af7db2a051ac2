//! What is said arrives, however the bytes are cut; what is no message is an error and no panic.

use minicbor::bytes::ByteVec;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use xioflow_protocol::{
    Armour, Containment, Decoder, Descendants, Exit, FRAME_LEN_MAX, FrameError, GroupEntry, Hello,
    Identity, LAST_WORD_FORMAT, LastWord, LastWordError, Launch, LaunchFailure, PidNamespace,
    ProcessNote, ProtocolFault, Reply, Request, ResourceLimit, Rung, Stage, StopPlan, Survivor,
    SurvivorEnd, TreeEnd, Usage, WhyAlive, encode,
};

fn bytes() -> impl Strategy<Value = ByteVec> {
    vec(any::<u8>(), 0..40).prop_map(ByteVec::from)
}

fn plan() -> impl Strategy<Value = StopPlan> {
    let rung = (any::<i32>(), any::<u32>()).prop_map(|(signal, wait_ms)| Rung { signal, wait_ms });
    (vec(rung, 0..4), any::<u32>()).prop_map(|(rungs, kill_ms)| StopPlan { rungs, kill_ms })
}

fn identity() -> impl Strategy<Value = Identity> {
    (
        any::<u32>(),
        any::<u64>(),
        any::<[u8; 16]>(),
        option::of(any::<u64>()),
    )
        .prop_map(|(pid, start_ticks, boot_id, pidfd_inode)| Identity {
            pid,
            start_ticks,
            boot_id,
            pidfd_inode,
        })
}

fn pid_namespace() -> impl Strategy<Value = PidNamespace> {
    (identity(), any::<u64>(), any::<bool>()).prop_map(|(init, inode, user_namespace)| {
        PidNamespace {
            init,
            inode,
            user_namespace,
        }
    })
}

fn hello() -> impl Strategy<Value = Hello> {
    (
        any::<u32>(),
        ".{0,12}",
        option::of(identity()),
        vec(".{0,9}", 0..3),
    )
        .prop_map(|(protocol, release, identity, features)| Hello {
            protocol,
            release,
            identity,
            features,
        })
}

fn launch() -> impl Strategy<Value = Launch> {
    let limit = (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(resource, soft, hard)| {
        ResourceLimit {
            resource,
            soft,
            hard,
        }
    });
    let descendants = prop_oneof![plan().prop_map(Descendants::Stop), Just(Descendants::Wait)];
    let command = (bytes(), vec(bytes(), 0..5), vec(bytes(), 0..5), bytes());
    let child = (
        option::of(any::<u32>()),
        vec(limit, 0..3),
        any::<bool>(),
        any::<i32>(),
        any::<bool>(),
        option::of(any::<i32>()),
        prop_oneof![
            Just(Containment::Subreaper),
            Just(Containment::PidNamespace)
        ],
        any::<bool>(),
    );
    let terms = (descendants, any::<u32>(), plan(), bytes(), ".{0,20}");
    (command, child, terms).prop_map(|(command, child, terms)| Launch {
        program: command.0,
        argv: command.1,
        env: command.2,
        cwd: command.3,
        umask: child.0,
        limits: child.1,
        no_new_privs: child.2,
        oom_score_adj: child.3,
        descendants: terms.0,
        settle_ms: terms.1,
        on_host_loss: terms.2,
        last_word_name: terms.3,
        operation_id: terms.4,
        stdin_closed: child.4,
        nice: child.5,
        containment: child.6,
        group: child.7,
    })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        hello().prop_map(Request::Hello),
        launch().prop_map(Request::Launch),
        Just(Request::Release),
        Just(Request::Discard),
        plan().prop_map(Request::Stop),
        Just(Request::Recorded),
        Just(Request::Suspend),
        Just(Request::Resume),
    ]
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        any::<i32>().prop_map(|code| Exit::Exited { code }),
        (any::<i32>(), any::<bool>()).prop_map(|(signal, core)| Exit::Signaled { signal, core }),
    ]
}

fn note() -> impl Strategy<Value = ProcessNote> {
    (
        any::<u32>(),
        any::<u64>(),
        vec(any::<u8>(), 0..16),
        option::of(any::<u32>()),
    )
        .prop_map(|(pid, ticks, command, uid)| ProcessNote::new(pid, ticks, command, uid))
}

fn failure() -> impl Strategy<Value = LaunchFailure> {
    let stage = prop_oneof![
        Just(Stage::Fork),
        Just(Stage::Session),
        Just(Stage::Signals),
        Just(Stage::Limits),
        Just(Stage::Descriptors),
        Just(Stage::Cwd),
        Just(Stage::Privileges),
        Just(Stage::Confinement),
        Just(Stage::Gate),
        Just(Stage::Exec),
        Just(Stage::Namespace),
        Just(Stage::Group),
    ];
    (stage, any::<i32>(), bytes()).prop_map(|(stage, errno, subject)| LaunchFailure {
        stage,
        errno,
        subject,
    })
}

fn tree_end() -> impl Strategy<Value = TreeEnd> {
    let why = prop_oneof![
        Just(WhyAlive::Uninterruptible),
        Just(WhyAlive::Permission),
        Just(WhyAlive::Unknown)
    ];
    let end = prop_oneof![
        exit().prop_map(SurvivorEnd::Ended),
        Just(SurvivorEnd::GoneUnobserved),
        Just(SurvivorEnd::Unreaped),
        why.prop_map(SurvivorEnd::Alive)
    ];
    let survivor = (note(), end).prop_map(|(process, end)| Survivor { process, end });
    let usage = any::<(u64, u64, u64)>().prop_map(|(user_us, system_us, max_rss_kib)| Usage {
        user_us,
        system_us,
        max_rss_kib,
    });
    (
        option::of(exit()),
        vec(survivor, 0..4),
        any::<u32>(),
        usage,
        option::of(any::<i32>()),
        option::of(any::<bool>()),
    )
        .prop_map(
            |(exit, survivors, survivors_total, usage, last_signal, group_empty)| TreeEnd {
                exit,
                survivors,
                survivors_total,
                usage,
                last_signal,
                group_empty,
            },
        )
}

fn entry() -> impl Strategy<Value = GroupEntry> {
    prop_oneof![Just(GroupEntry::Cloned), Just(GroupEntry::Moved)]
}

fn fault() -> impl Strategy<Value = ProtocolFault> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(ours, theirs)| ProtocolFault::Version { ours, theirs }),
        Just(ProtocolFault::Malformed),
        any::<u32>().prop_map(|claimed| ProtocolFault::TooLong { claimed }),
        Just(ProtocolFault::OutOfOrder),
        any::<u32>().prop_map(|received| ProtocolFault::Descriptors { received }),
        ".{0,30}".prop_map(|what| ProtocolFault::Invalid { what }),
        any::<(u32, Option<u32>)>()
            .prop_map(|(ours, theirs)| ProtocolFault::Stranger { ours, theirs }),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        hello().prop_map(Reply::Hello),
        (identity(), option::of(pid_namespace()), option::of(entry())).prop_map(
            |(root, namespace, group)| Reply::Spawned {
                root,
                namespace,
                group
            }
        ),
        failure().prop_map(Reply::LaunchFailed),
        Just(Reply::Running),
        exit().prop_map(|exit| Reply::RootExited { exit }),
        (vec(note(), 0..4), any::<u32>())
            .prop_map(|(processes, total)| Reply::Survivors { processes, total }),
        any::<(i32, u32)>().prop_map(|(signal, targets)| Reply::Signalled { signal, targets }),
        tree_end().prop_map(Reply::TreeEmpty),
        tree_end().prop_map(Reply::TreeRemains),
        fault().prop_map(Reply::Refused),
        ".{0,30}".prop_map(|message| Reply::Panicked { message }),
        any::<(bool, Option<u32>, bool, Option<u64>)>().prop_map(
            |(no_new_privs, landlock_abi, filter, capabilities)| {
                Reply::Armour(Armour {
                    no_new_privs,
                    landlock_abi,
                    filter,
                    capabilities,
                })
            }
        ),
    ]
}

fn last_word() -> impl Strategy<Value = LastWord> {
    let who = (".{0,20}", identity(), option::of(identity()), any::<bool>());
    let how = (
        option::of(failure()),
        tree_end(),
        any::<bool>(),
        any::<u64>(),
        any::<bool>(),
        option::of(pid_namespace()),
    );
    (who, how).prop_map(|(who, how)| LastWord {
        format: LAST_WORD_FORMAT,
        operation_id: who.0,
        holder: who.1,
        root: who.2,
        released: who.3,
        launch_failure: how.0,
        end: how.1,
        empty: how.2,
        written_at_ms: how.3,
        stopped: how.4,
        namespace: how.5,
    })
}

/// Sends messages through a decoder in pieces of the given lengths, over and over.
fn through<T>(messages: &[T], pieces: &[usize]) -> Vec<T>
where
    T: minicbor::Encode<()> + for<'b> minicbor::Decode<'b, ()>,
{
    let mut stream = Vec::new();
    for message in messages {
        encode(message, &mut stream).expect("short");
    }
    let mut decoder = Decoder::new();
    let mut arrived = Vec::new();
    let mut rest = &stream[..];
    for piece in pieces.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (now, later) = rest.split_at((*piece).min(rest.len()));
        decoder.push(now);
        rest = later;
        while let Some(message) = decoder.next_message().expect("well-formed") {
            arrived.push(message);
        }
    }
    decoder.finish().expect("nothing is left over");
    arrived
}

proptest! {
    #[test]
    fn requests_arrive_however_they_are_cut(
        messages in vec(request(), 1..5),
        pieces in vec(1usize..200, 1..8),
    ) {
        prop_assert_eq!(through(&messages, &pieces), messages);
    }

    #[test]
    fn replies_arrive_however_they_are_cut(
        messages in vec(reply(), 1..5),
        pieces in vec(1usize..200, 1..8),
    ) {
        prop_assert_eq!(through(&messages, &pieces), messages);
    }

    #[test]
    fn an_end_inside_a_frame_is_told(message in request(), cut in any::<prop::sample::Index>()) {
        let mut stream = Vec::new();
        encode(&message, &mut stream).expect("short");
        let len = cut.index(stream.len());
        let mut decoder = Decoder::new();
        decoder.push(&stream[..len]);
        prop_assert_eq!(decoder.next_message::<Request>(), Ok(None));
        let expected = if len == 0 { Ok(()) } else { Err(FrameError::Truncated { received: len }) };
        prop_assert_eq!(decoder.finish(), expected);
    }

    /// A helper of the first release knows fourteen fields. CBOR says in its first byte how many there
    /// are.
    #[test]
    fn a_launch_without_a_nice_value_is_as_it_was_before_there_was_one(launch in launch()) {
        let fields = |launch: &Launch| {
            let mut frame = Vec::new();
            encode(launch, &mut frame).expect("short");
            frame[4]
        };
        let launch = Launch { containment: Containment::Subreaper, group: false, ..launch };
        let before = Launch { nice: None, ..launch.clone() };
        let since = Launch { nice: Some(0), ..launch };
        prop_assert_eq!((fields(&before), fields(&since)), (0x8e, 0x8f));
    }

    /// Helpers and supervisors of before there were namespaces are served as ever.
    #[test]
    fn without_a_namespace_messages_are_as_they_were(launch in launch(), root in identity()) {
        let fields = |launch: &Launch| {
            let mut frame = Vec::new();
            encode(launch, &mut frame).expect("short");
            frame[4..6].to_vec()
        };
        let group = false;
        let before = Launch { nice: Some(0), containment: Containment::Subreaper, group, ..launch };
        let since = Launch { containment: Containment::PidNamespace, ..before.clone() };
        prop_assert_eq!((fields(&before)[0], fields(&since)[0]), (0x8f, 0x90));
        let spawned = minicbor::to_vec(Reply::Spawned { root, namespace: None, group: None }).expect("short");
        // The second variant, with one field.
        prop_assert_eq!(&spawned[..3], &[0x82, 0x01, 0x81]);
    }

    /// The same of those of before there were control groups, with a namespace and without.
    #[test]
    fn without_a_group_messages_are_as_they_were(launch in launch(), end in tree_end()) {
        let fields = |launch: &Launch| {
            let mut frame = Vec::new();
            encode(launch, &mut frame).expect("short");
            frame[4..6].to_vec()
        };
        let before = Launch { nice: Some(0), containment: Containment::PidNamespace, group: false, ..launch };
        let since = Launch { group: true, ..before.clone() };
        prop_assert_eq!((fields(&before)[0], fields(&since)[0]), (0x90, 0x91));
        let end = TreeEnd { last_signal: Some(9), group_empty: None, ..end };
        prop_assert_eq!(minicbor::to_vec(end).expect("short")[0], 0x85);
    }

    #[test]
    fn garbage_is_an_error_or_a_message_but_no_panic(stream in vec(any::<u8>(), 0..300)) {
        let mut decoder = Decoder::new();
        decoder.push(&stream);
        while let Ok(Some(_)) = decoder.next_message::<Request>() {}
        let mut decoder = Decoder::new();
        decoder.push(&stream);
        while let Ok(Some(_)) = decoder.next_message::<Reply>() {}
        let _answer = LastWord::from_bytes(&stream);
    }

    #[test]
    fn garbage_in_a_frame_never_panics(body in vec(any::<u8>(), 0..300)) {
        let mut stream = u32::try_from(body.len()).expect("short").to_le_bytes().to_vec();
        stream.extend_from_slice(&body);
        let mut decoder = Decoder::new();
        decoder.push(&stream);
        let malformed = Err(FrameError::Malformed { len: body.len() });
        match decoder.next_message::<Request>() {
            Ok(message) => prop_assert!(message.is_some()),
            error => prop_assert_eq!(error, malformed),
        }
    }

    #[test]
    fn a_damaged_message_never_panics(
        message in reply(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut stream = Vec::new();
        encode(&message, &mut stream).expect("short");
        let at = at.index(stream.len());
        stream[at] = byte;
        let mut decoder = Decoder::new();
        decoder.push(&stream);
        let _answer = decoder.next_message::<Reply>();
    }

    #[test]
    fn a_claim_that_is_too_long_is_refused_before_its_body(
        claimed in u32::try_from(FRAME_LEN_MAX).expect("fits") + 1..,
    ) {
        let mut decoder = Decoder::new();
        decoder.push(&claimed.to_le_bytes());
        prop_assert_eq!(
            decoder.next_message::<Request>(),
            Err(FrameError::TooLong { claimed })
        );
    }

    #[test]
    fn a_last_word_is_read_as_it_was_written(word in last_word()) {
        let bytes = word.to_bytes().expect("short");
        prop_assert_eq!(LastWord::from_bytes(&bytes), Ok(word));
    }

    #[test]
    fn a_cut_last_word_is_refused(word in last_word(), cut in any::<prop::sample::Index>()) {
        let bytes = word.to_bytes().expect("short");
        let answer = LastWord::from_bytes(&bytes[..cut.index(bytes.len())]);
        prop_assert!(matches!(answer, Err(LastWordError::Foreign | LastWordError::Damaged(_))));
    }
}

#[test]
fn bytes_after_a_message_in_its_frame_are_refused() {
    let mut stream = Vec::new();
    encode(&Request::Release, &mut stream).expect("short");
    stream.push(0);
    let body_len = stream.len() - 4;
    stream[0] += 1;
    let mut decoder = Decoder::new();
    decoder.push(&stream);
    let malformed = Err(FrameError::Malformed { len: body_len });
    assert_eq!(decoder.next_message::<Request>(), malformed);
}

#[test]
fn a_message_at_the_limit_passes_and_one_above_it_does_not() {
    let reply = |len: usize| Reply::Panicked {
        message: "x".repeat(len),
    };
    let mut stream = Vec::new();
    encode(&reply(0), &mut stream).expect("short");
    // What a long string takes beyond its own bytes and those of an empty one: its length.
    let fits = FRAME_LEN_MAX - (stream.len() - 4) - 4;
    stream.clear();
    encode(&reply(fits), &mut stream).expect("at the limit");
    assert_eq!(stream.len(), 4 + FRAME_LEN_MAX);
    let mut decoder = Decoder::new();
    decoder.push(&stream);
    assert_eq!(decoder.next_message(), Ok(Some(reply(fits))));

    stream.clear();
    stream.extend_from_slice(b"before");
    let claimed = u32::try_from(FRAME_LEN_MAX + 1).expect("fits");
    let refused = encode(&reply(fits + 1), &mut stream);
    assert_eq!(refused, Err(FrameError::TooLong { claimed }));
    assert_eq!(stream, b"before", "nothing was added");
}

/// Found by fuzzing: the format stands before the item and in it, and only the first was looked at.
#[test]
fn a_last_word_that_names_two_formats_is_damaged() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let word = last_word()
        .new_tree(&mut runner)
        .expect("a value")
        .current();
    let mut bytes = LastWord { format: 9, ..word }.to_bytes().expect("short");
    bytes[8..12].copy_from_slice(&LAST_WORD_FORMAT.to_le_bytes());
    assert!(matches!(
        LastWord::from_bytes(&bytes),
        Err(LastWordError::Damaged(FrameError::Malformed { .. }))
    ));
}

#[test]
fn a_last_word_of_another_format_is_named() {
    let mut bytes = b"XFLWORD\n".to_vec();
    bytes.extend_from_slice(&77u32.to_le_bytes());
    let refused = Err(LastWordError::Format { found: 77 });
    assert_eq!(LastWord::from_bytes(&bytes), refused);
    assert_eq!(
        LastWord::from_bytes(b"something else"),
        Err(LastWordError::Foreign)
    );
}
