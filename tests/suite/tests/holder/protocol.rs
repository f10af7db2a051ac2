//! What is no conversation is refused by name, before anything runs.

use std::os::fd::{AsFd, BorrowedFd};

use xioflow_kit::{Deadline, Holder, Order, Stage, wait};
use xioflow_protocol::{
    HELPER_EXIT_MISUSE, HELPER_EXIT_OK, HELPER_EXIT_PROTOCOL, Hello, PROTOCOL_VERSION,
    ProtocolFault, Reply, Request, StopPlan, encode,
};

fn traced(stage: &Stage) -> Order {
    let trace = stage.path("trace");
    Order::fixture(
        stage,
        &["append-line", trace.to_str().expect("an ASCII path")],
    )
}

/// Checks that the helper's last message is this refusal, that it ends with the status for
/// broken protocol, and that nothing has run.
fn assert_refuses(stage: &Stage, holder: &mut Holder<'_>, expected: &ProtocolFault) {
    let replies = holder.rest();
    let last = replies
        .last()
        .unwrap_or_else(|| panic!("no refusal, {expected:?} was due"));
    assert_eq!(last, &Reply::Refused(expected.clone()), "{replies:?}");
    assert_eq!(
        holder.wait().code(),
        Some(HELPER_EXIT_PROTOCOL),
        "after {expected:?}"
    );
    assert!(!stage.path("trace").exists(), "the command has run");
}

#[test]
fn it_greets_with_its_version_and_identity() {
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    let hello = holder.greet();
    assert_eq!(hello.protocol, PROTOCOL_VERSION);
    assert_eq!(
        hello.identity.map(|identity| identity.pid),
        Some(holder.pid())
    );
    assert!(!hello.release.is_empty());
    holder.hang_up();
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
}

#[test]
fn another_version_is_refused() {
    let stage = Stage::new();
    for theirs in [0, PROTOCOL_VERSION + 1, u32::MAX] {
        let mut holder = Holder::start(&stage);
        let hello = Hello {
            protocol: theirs,
            release: "9".into(),
            identity: None,
            features: vec![],
        };
        holder.send(&Request::Hello(hello));
        let expected = ProtocolFault::Version {
            ours: PROTOCOL_VERSION,
            theirs,
        };
        assert_refuses(&stage, &mut holder, &expected);
    }
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let stage = Stage::new();
    let frames: [&[u8]; 5] = [
        b"\x00\x00\x00\x00",
        b"\x04\x00\x00\x00\xff\xff\xff\xff",
        b"\x05\x00\x00\x00hello",
        b"\x01\x00\x00\x00\x00",
        // An array that claims 4 GiB of elements must not have memory taken for them.
        b"\x09\x00\x00\x00\x9b\x00\x00\x00\x01\x00\x00\x00\x00",
    ];
    for frame in frames {
        let mut holder = Holder::start(&stage);
        holder.send_bytes(frame, &[]);
        assert_refuses(&stage, &mut holder, &ProtocolFault::Malformed);
        let mut holder = Holder::start(&stage);
        holder.greet();
        holder.send_bytes(frame, &[]);
        assert_refuses(&stage, &mut holder, &ProtocolFault::Malformed);
    }
}

#[test]
fn a_frame_with_bytes_after_its_message_is_refused() {
    let stage = Stage::new();
    let mut frame = Vec::new();
    encode(&Request::Release, &mut frame).expect("a short frame");
    frame[0] += 1;
    frame.push(0);
    let mut holder = Holder::start(&stage);
    holder.greet();
    holder.send_bytes(&frame, &[]);
    assert_refuses(&stage, &mut holder, &ProtocolFault::Malformed);
}

#[test]
fn a_frame_beyond_the_limit_is_refused_unread() {
    let stage = Stage::new();
    let over = u32::try_from(xioflow_protocol::FRAME_LEN_MAX).expect("8 MiB") + 1;
    for claimed in [over, u32::MAX] {
        let mut holder = Holder::start(&stage);
        holder.send_bytes(&claimed.to_le_bytes(), &[]);
        assert_refuses(&stage, &mut holder, &ProtocolFault::TooLong { claimed });
    }
}

#[test]
fn messages_out_of_order_are_refused() {
    let stage = Stage::new();
    let stop = Request::Stop(StopPlan::kill(1000));
    for request in [&Request::Release, &Request::Discard, &stop] {
        let mut holder = Holder::start(&stage);
        holder.send(request);
        assert_refuses(&stage, &mut holder, &ProtocolFault::OutOfOrder);
    }
    let mut holder = Holder::start(&stage);
    holder.send_launch(&traced(&stage));
    assert_refuses(&stage, &mut holder, &ProtocolFault::OutOfOrder);
    let mut holder = Holder::start(&stage);
    holder.greet();
    holder.send(&Request::Release);
    assert_refuses(&stage, &mut holder, &ProtocolFault::OutOfOrder);
}

#[test]
fn a_second_launch_is_refused_and_closes_the_gate() {
    let stage = Stage::new();
    let order = traced(&stage);
    let mut holder = Holder::start(&stage);
    let root = holder.gate(&order);
    holder.send_launch(&order);
    assert_refuses(&stage, &mut holder, &ProtocolFault::OutOfOrder);
    assert!(wait::pid_gone(root, Deadline::usual()));
}

#[test]
fn garbage_at_the_gate_closes_it() {
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    let root = holder.gate(&traced(&stage));
    holder.send_bytes(b"\x02\x00\x00\x00\xff\xff", &[]);
    assert_refuses(&stage, &mut holder, &ProtocolFault::Malformed);
    assert!(wait::pid_gone(root, Deadline::usual()));
}

#[test]
fn garbage_while_the_command_runs_ends_its_tree() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let ready_text = ready.to_str().expect("an ASCII path");
    let order = Order::fixture(&stage, &["--ready", ready_text, "escape-setsid", "2"]);
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    let pids = stage.wait_ready(&ready);
    holder.send_bytes(b"\x02\x00\x00\x00\xff\xff", &[]);
    let replies = holder.rest();
    assert!(
        replies.contains(&Reply::Refused(ProtocolFault::Malformed)),
        "{replies:?}"
    );
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_PROTOCOL));
    crate::assert_all_gone(&pids);
}

#[test]
fn another_number_of_descriptors_is_refused() {
    let stage = Stage::new();
    let order = traced(&stage);
    let four = order.descriptors.each_ref().map(AsFd::as_fd);
    let five = [&four[..], &four[..1]].concat();
    let cases = [
        (false, &four[..0]),
        (false, &four[..3]),
        (false, &five[..]),
        (true, &four[..2]),
        (true, &four[..]),
    ];
    for (stdin_closed, descriptors) in cases {
        let received = u32::try_from(descriptors.len()).expect("a handful");
        let mut holder = Holder::start(&stage);
        holder.greet();
        let mut launch = order.launch.clone();
        launch.stdin_closed = stdin_closed;
        holder.send_with(&Request::Launch(launch), descriptors);
        assert_refuses(
            &stage,
            &mut holder,
            &ProtocolFault::Descriptors { received },
        );
    }
}

#[test]
fn an_end_inside_a_frame_is_no_clean_end() {
    let stage = Stage::new();
    let mut frame = Vec::new();
    encode(&Request::Launch(traced(&stage).launch), &mut frame).expect("a frame");
    for len in [1, 4, 5, frame.len() - 1] {
        let mut holder = Holder::start(&stage);
        holder.greet();
        holder.send_bytes(&frame[..len], &[]);
        holder.stop_sending();
        holder.rest();
        assert_eq!(
            holder.wait().code(),
            Some(HELPER_EXIT_PROTOCOL),
            "{len} bytes"
        );
    }
}

#[test]
fn a_clean_end_before_a_launch_is_none_of_its_business() {
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    holder.hang_up();
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
}

#[test]
fn frames_may_come_in_pieces() {
    let stage = Stage::new();
    let order = traced(&stage);
    let descriptors = order.descriptors.each_ref().map(AsFd::as_fd);
    let mut frame = Vec::new();
    encode(&Request::Launch(order.launch.clone()), &mut frame).expect("a frame");
    let mut holder = Holder::start(&stage);
    holder.greet();
    let none: &[BorrowedFd<'_>] = &[];
    for (index, byte) in frame.iter().enumerate() {
        holder.send_bytes(&[*byte], if index == 0 { &descriptors } else { none });
    }
    assert!(matches!(holder.reply(), Reply::Spawned { .. }));
    holder.send(&Request::Release);
    crate::until_empty(&mut holder);
    assert!(stage.path("trace").exists());
}

#[test]
fn frames_may_come_at_once() {
    let stage = Stage::new();
    let order = traced(&stage);
    let mut holder = Holder::start(&stage);
    let hello = Hello {
        protocol: PROTOCOL_VERSION,
        release: "1".into(),
        identity: None,
        features: Vec::new(),
    };
    send_at_once(
        &holder,
        &order,
        [Request::Hello(hello), Request::Launch(order.launch.clone())],
    );
    assert!(matches!(holder.reply(), Reply::Hello(_)));
    assert!(matches!(holder.reply(), Reply::Spawned { .. }));
    holder.send(&Request::Release);
    crate::until_empty(&mut holder);
    assert!(stage.path("trace").exists());
}

/// No supervisor can have recorded a command that it was not told of yet.
#[test]
fn a_release_that_comes_with_the_launch_is_refused() {
    let stage = Stage::new();
    let order = traced(&stage);
    let mut holder = Holder::start(&stage);
    holder.greet();
    send_at_once(
        &holder,
        &order,
        [Request::Launch(order.launch.clone()), Request::Release],
    );
    assert_refuses(&stage, &mut holder, &ProtocolFault::OutOfOrder);
}

fn send_at_once(holder: &Holder<'_>, order: &Order, requests: [Request; 2]) {
    let mut frames = Vec::new();
    for request in requests {
        encode(&request, &mut frames).expect("a frame");
    }
    holder.send_bytes(&frames, &order.descriptors.each_ref().map(AsFd::as_fd));
}

/// By hand there is no socket to talk over, and the helper says that to whoever tried.
#[test]
fn started_by_hand_it_explains_itself() {
    let stage = Stage::new();
    let run = stage.run(stage.program("xioflow-reaper")).finish();
    run.assert_code(HELPER_EXIT_MISUSE).assert_stdout("");
    assert!(!run.stderr.is_empty(), "{run}");
    let run = stage
        .run(stage.program("xioflow-reaper"))
        .stdin("text")
        .finish();
    run.assert_code(HELPER_EXIT_MISUSE);
}
