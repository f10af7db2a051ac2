//! The host is gone: the helper ends the tree and leaves its last word.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use xioflow_kit::{Deadline, Holder, Order, Stage, each_user, wait};
use xioflow_protocol::{Exit, HELPER_EXIT_OK, LAST_WORD_FORMAT, StopPlan, SurvivorEnd};

use crate::{assert_all_gone, pids_of, plan, rung, signal, sorted};

/// Starts a tree, hangs up once it stands, and returns its order and pids.
fn lose<'a>(
    stage: &'a Stage,
    arguments: &[&str],
    on_host_loss: StopPlan,
) -> (Holder<'a>, Order, Vec<u32>) {
    let ready = stage.path("ready");
    let common = ["--ready", ready.to_str().expect("an ASCII path")];
    let mut order = Order::fixture(stage, &[&common, arguments].concat());
    order.launch.on_host_loss = on_host_loss;
    let mut holder = Holder::start(stage);
    holder.run(&order);
    let pids = stage.wait_ready(&ready);
    holder.hang_up();
    (holder, order, pids)
}

#[test]
fn the_whole_tree_is_ended_and_the_last_word_says_so() {
    each_user(|stage| {
        let (mut holder, order, pids) = lose(
            stage,
            &["spawn-tree", "mixed", "20"],
            StopPlan::kill(10_000),
        );
        let word = order.last_word();
        assert_all_gone(&pids);
        assert_eq!(word.format, LAST_WORD_FORMAT);
        assert_eq!(word.operation_id, "op-test");
        assert_eq!(word.holder.pid, holder.pid());
        assert_eq!(word.root.as_ref().map(|root| root.pid), Some(pids[0]));
        assert!(word.released && word.empty && word.stopped, "{word:?}");
        assert_eq!(word.launch_failure, None);
        let killed = Exit::Signaled {
            signal: signal::KILL,
            core: false,
        };
        assert_eq!(word.end.exit, Some(killed));
        assert_eq!(word.end.last_signal, Some(signal::KILL));
        assert!(
            word.written_at_ms > 1_700_000_000_000,
            "milliseconds since 1970"
        );
        assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    });
}

#[test]
fn no_draft_of_the_last_word_stays() {
    let stage = Stage::new();
    let (mut holder, order, _) = lose(&stage, &["sleep"], StopPlan::kill(10_000));
    holder.wait();
    let entries = fs::read_dir(order.holders()).expect("the holders folder");
    let names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["test.word"]);
}

#[test]
fn an_exit_after_the_loss_is_still_an_observed_one() {
    let stage = Stage::new();
    let on_loss = plan(&[rung(signal::TERM, 20_000)]);
    let (_holder, order, _) = lose(&stage, &["exit-on", "15", "9"], on_loss);
    let word = order.last_word();
    assert_eq!(word.end.exit, Some(Exit::Exited { code: 9 }));
    assert_eq!(word.end.last_signal, Some(signal::TERM));
    assert!(word.empty && word.stopped);
}

#[test]
fn survivors_of_a_tree_whose_root_has_gone_are_named() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let arguments = [
        "--exit",
        "3",
        "--ready",
        ready.to_str().expect("ASCII"),
        "daemonise",
        "ignore",
        "2",
    ];
    let mut order = Order::fixture(&stage, &arguments);
    order.launch.descendants = xioflow_protocol::Descendants::Wait;
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    let pids = stage.wait_ready(&ready);
    crate::until_survivors(&mut holder);
    holder.hang_up();
    let word = order.last_word();
    assert_all_gone(&pids);
    assert_eq!(
        word.end.exit,
        Some(Exit::Exited { code: 3 }),
        "the exit before the loss"
    );
    assert_eq!(pids_of(&word.end.survivors), sorted(pids[1..].to_vec()));
    let alive = |end| matches!(end, SurvivorEnd::Alive(_));
    assert!(
        !word
            .end
            .survivors
            .iter()
            .any(|survivor| alive(survivor.end))
    );
}

/// The helper learns of the loss by its own answer, not by reading.
#[test]
fn a_host_that_leaves_before_it_is_greeted_is_noticed() {
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    holder.freeze();
    holder.say_hello();
    holder.hang_up();
    holder.thaw();
    assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
}

/// The same with a tree: its root ends, which the helper tries to tell before it reads.
#[test]
fn a_loss_that_is_noticed_by_an_answer_ends_the_tree() {
    let stage = Stage::new();
    let (ready, gate) = (stage.path("ready"), stage.path("gate"));
    let script = format!(
        "{} --exit 0 --ready {} daemonise ignore 2; until [ -e {} ]; do :; done; exit 3",
        stage.fixture().display(),
        ready.display(),
        gate.display()
    );
    let mut order = Order::shell(&stage, &script);
    order.launch.descendants = xioflow_protocol::Descendants::Wait;
    let mut holder = Holder::start(&stage);
    let root = holder.run(&order);
    let pids = stage.wait_ready(&ready);
    holder.freeze();
    fs::write(&gate, "").expect("a file of the stage");
    assert!(wait::pid_gone(root, Deadline::usual()));
    holder.hang_up();
    holder.thaw();
    let word = order.last_word();
    assert_all_gone(&pids);
    assert_eq!(word.end.exit, Some(Exit::Exited { code: 3 }));
    assert!(word.empty && word.stopped, "{word:?}");
}

#[test]
fn half_a_frame_of_a_lost_host_is_a_loss_too() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let ready_text = ready.to_str().expect("an ASCII path");
    let order = Order::fixture(&stage, &["--ready", ready_text, "escape-setsid", "2"]);
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    let pids = stage.wait_ready(&ready);
    holder.send_bytes(b"\x40\x00\x00", &[]);
    holder.hang_up();
    let word = order.last_word();
    assert_all_gone(&pids);
    assert!(word.empty && word.stopped, "{word:?}");
}

#[test]
fn a_tree_is_ended_where_no_last_word_can_be_written() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let ready_text = ready.to_str().expect("an ASCII path");
    let order = Order::fixture(&stage, &["--ready", ready_text, "escape-setsid", "2"]);
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    let pids = stage.wait_ready(&ready);
    fs::remove_dir(order.holders()).expect("an empty folder");
    holder.hang_up();
    let status = holder.wait();
    assert_all_gone(&pids);
    assert_eq!(status.code(), Some(xioflow_protocol::HELPER_EXIT_SYSTEM));
}

#[test]
fn signals_for_the_session_of_the_host_do_not_reach_the_helper() {
    let stage = Stage::new();
    let mut holder = Holder::start(&stage);
    holder.greet();
    let helper = raw(holder.pid());
    assert_eq!(
        rustix::process::getsid(Some(helper)).ok(),
        Some(helper),
        "a session of its own"
    );
}

#[test]
fn a_helper_that_is_told_to_end_takes_its_tree_along() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let stage = Stage::new();
        let ready = stage.path("ready");
        let words = [
            "--ready",
            ready.to_str().expect("ASCII"),
            "escape-setsid",
            "ignore",
            "2",
        ];
        let order = Order::fixture(&stage, &words);
        let mut holder = Holder::start(&stage);
        holder.run(&order);
        let pids = stage.wait_ready(&ready);
        kill_process(raw(holder.pid()), signal).expect("a helper of ours");
        let (replies, _) = crate::until_empty(&mut holder);
        assert_all_gone(&pids);
        let killed = Exit::Signaled {
            signal: signal::KILL,
            core: false,
        };
        assert_eq!(crate::root_exit(&replies), killed);
    }
}

fn raw(pid: u32) -> Pid {
    i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a pid")
}
