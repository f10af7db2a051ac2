//! The account of a launch is not lost: where both ends name the feature, the helper stays until
//! it hears that its account is recorded, and leaves a last word if it never does.

use std::fs;

use xioflow_kit::{Deadline, Holder, Order, Stage, each_user, wait};
use xioflow_protocol::{
    Exit, FEATURE_RECORDED, HELPER_EXIT_OK, HELPER_EXIT_PROTOCOL, ProtocolFault, Reply, Request,
};

use crate::{root_exit, until_last};

/// Starts a helper and says that this supervisor will record its account.
fn helper(stage: &Stage) -> Holder<'_> {
    let mut holder = Holder::start(stage);
    let hello = holder.greet_naming(&[FEATURE_RECORDED]);
    assert!(
        hello.features.iter().any(|name| name == FEATURE_RECORDED),
        "{hello:?}"
    );
    holder
}

/// Runs the order up to the last message of its launch.
fn account(holder: &mut Holder<'_>, order: &Order) -> Vec<Reply> {
    holder.send_launch(order);
    let first = holder.reply();
    assert!(matches!(first, Reply::Spawned { .. }), "{first:?}");
    holder.send(&Request::Release);
    until_last(holder)
}

fn no_word(order: &Order) -> bool {
    fs::read_dir(order.holders())
        .expect("the holders folder")
        .next()
        .is_none()
}

#[test]
fn it_stays_until_its_account_is_recorded() {
    each_user(|stage| {
        let order = Order::fixture(stage, &["exit", "7"]);
        let mut holder = helper(stage);
        let replies = account(&mut holder, &order);
        assert_eq!(root_exit(&replies), Exit::Exited { code: 7 });
        assert!(
            wait::is_alive(holder.pid()),
            "it has not heard that its account is recorded"
        );
        holder.send(&Request::Recorded);
        assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
        assert_eq!(holder.rest(), []);
        assert!(no_word(&order), "what is recorded needs no last word");
    });
}

#[test]
fn an_account_that_is_not_recorded_becomes_the_last_word() {
    each_user(|stage| {
        let order = Order::fixture(stage, &["exit", "7"]);
        let mut holder = helper(stage);
        account(&mut holder, &order);
        holder.hang_up();
        let word = order.last_word();
        assert_eq!(word.end.exit, Some(Exit::Exited { code: 7 }));
        assert!(word.released && word.empty && !word.stopped, "{word:?}");
        assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    });
}

/// The account waits in the socket of a supervisor that dies without having read it.
#[test]
fn an_account_that_is_not_even_read_becomes_the_last_word() {
    let stage = Stage::new();
    let order = Order::fixture(&stage, &["exit", "7"]);
    let mut holder = helper(&stage);
    holder.send_launch(&order);
    let Reply::Spawned { root, .. } = holder.reply() else {
        panic!("no command at its gate")
    };
    holder.send(&Request::Release);
    assert!(wait::pid_gone(root.pid, Deadline::usual()));
    holder.hang_up();
    let word = order.last_word();
    assert_eq!(word.end.exit, Some(Exit::Exited { code: 7 }));
    assert!(word.released && word.empty, "{word:?}");
}

#[test]
fn a_launch_that_fails_after_the_release_is_an_account_too() {
    let stage = Stage::new();
    let program = stage.write("tool", "#!/bin/sh\n", 0o755);
    let order = Order::new::<&str>(&stage, &program, []);
    let mut holder = helper(&stage);
    holder.send_launch(&order);
    assert!(matches!(holder.reply(), Reply::Spawned { .. }));
    fs::remove_file(&program).expect("a file of the stage");
    holder.send(&Request::Release);
    assert!(matches!(holder.reply(), Reply::LaunchFailed(_)));
    holder.hang_up();
    let word = order.last_word();
    assert!(word.launch_failure.is_some() && word.empty, "{word:?}");
}

#[test]
fn a_launch_that_never_stood_at_its_gate_leaves_no_word() {
    let stage = Stage::new();
    let order = Order::new::<&str>(&stage, "/nonexistent/program", []);
    let mut holder = helper(&stage);
    holder.send_launch(&order);
    // A supervisor that reads of the failure leaves as well, perhaps before the child was waited for.
    holder.hang_up();
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    assert!(no_word(&order), "nothing is recorded that it could settle");
}

#[test]
fn whoever_does_not_name_the_feature_is_not_waited_for() {
    let stage = Stage::new();
    let order = Order::fixture(&stage, &["exit", "7"]);
    let mut holder = Holder::start(&stage);
    holder.greet();
    account(&mut holder, &order);
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    assert!(no_word(&order));
}

#[test]
fn unknown_features_mean_nothing() {
    let stage = Stage::new();
    let order = Order::fixture(&stage, &["exit", "7"]);
    let mut holder = Holder::start(&stage);
    holder.greet_naming(&["of-a-later-release", ""]);
    account(&mut holder, &order);
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
}

#[test]
fn nothing_is_recorded_before_there_is_an_account() {
    let stage = Stage::new();
    let trace = stage.path("trace");
    let words = ["append-line", trace.to_str().expect("an ASCII path")];
    let idle = helper(&stage);
    idle.send(&Request::Recorded);
    let mut waiting = helper(&stage);
    waiting.send_launch(&Order::fixture(&stage, &words));
    assert!(matches!(waiting.reply(), Reply::Spawned { .. }));
    waiting.send(&Request::Recorded);
    for mut holder in [idle, waiting] {
        let replies = holder.rest();
        let refused = Reply::Refused(ProtocolFault::OutOfOrder);
        assert!(replies.contains(&refused), "{replies:?}");
        assert_eq!(holder.wait().code(), Some(HELPER_EXIT_PROTOCOL));
    }
    assert!(!trace.exists());
}
