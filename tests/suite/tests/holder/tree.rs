//! Whatever the shape of a tree: all of it is ended, all of it is named, and only then is the
//! tree called empty.

use xioflow_kit::{Holder, Order, Stage, each_user, fixture_pids};
use xioflow_protocol::{Descendants, Exit, Reply, Request, StopPlan, SurvivorEnd, TreeEnd};

use crate::{assert_all_gone, pids_of, root_exit, signal, signals, sorted, until_empty};

/// What became of a tree whose root exited by itself.
struct Ended {
    replies: Vec<Reply>,
    end: TreeEnd,
    /// All pids but the root's, as the fixture itself reported them.
    members: Vec<u32>,
}

/// Runs a fixture that makes a tree and exits with 3, up to the proof of emptiness.
fn run_tree(stage: &Stage, arguments: &[&str]) -> Ended {
    let ready = stage.path("ready");
    let ready_text = ready.to_str().expect("an ASCII path");
    let common = ["--exit", "3", "--ready", ready_text];
    let order = Order::fixture(stage, &[&common, arguments].concat());
    let mut holder = Holder::start(stage);
    holder.run(&order);
    let replies = crate::until_last(&mut holder);
    let pids = fixture_pids(&ready);
    let Some(Reply::TreeEmpty(end)) = replies.last() else {
        panic!("expected an empty tree, got {replies:?}");
    };
    assert_all_gone(&pids);
    assert_eq!(
        root_exit(&replies),
        Exit::Exited { code: 3 },
        "the real exit is kept"
    );
    assert_eq!(end.exit, Some(Exit::Exited { code: 3 }));
    let end = end.clone();
    Ended {
        replies,
        end,
        members: sorted(pids[1..].to_vec()),
    }
}

fn announced(replies: &[Reply]) -> (Vec<u32>, u32) {
    let announced: Vec<_> = replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::Survivors { processes, total } => Some((processes, *total)),
            _ => None,
        })
        .collect();
    assert_eq!(
        announced.len(),
        1,
        "survivors are announced once: {replies:?}"
    );
    let (processes, total) = announced[0];
    (
        sorted(processes.iter().map(|process| process.pid).collect()),
        total,
    )
}

#[test]
fn every_escapee_is_ended_and_named() {
    let shapes: [&[&str]; 8] = [
        &["escape-setsid", "3"],
        &["daemonise", "3"],
        &["hold-pipe", "3"],
        &["escape-setsid", "ignore", "2"],
        &["daemonise", "ignore", "2"],
        &["headless", "3"],
        &["spawn-tree", "chain", "20"],
        &["spawn-tree", "mixed", "20"],
    ];
    each_user(|stage| {
        for shape in shapes {
            let Ended {
                replies,
                end,
                members,
            } = run_tree(stage, shape);
            let total = u32::try_from(members.len()).expect("a small tree");
            assert_eq!(announced(&replies), (members.clone(), total), "{shape:?}");
            assert_eq!(
                (pids_of(&end.survivors), end.survivors_total),
                (members, total)
            );
            for survivor in &end.survivors {
                assert_eq!(*survivor.process.command, *b"xioflow-fixture", "{shape:?}");
                assert_eq!(
                    survivor.process.uid,
                    Some(stage.user_id().unwrap_or(own_uid()))
                );
                let killed = Exit::Signaled {
                    signal: signal::KILL,
                    core: false,
                };
                let seen = matches!(survivor.end, SurvivorEnd::Ended(exit) if exit == killed);
                let unseen = survivor.end == SurvivorEnd::GoneUnobserved;
                assert!(seen || unseen, "{shape:?}: {survivor:?}");
            }
            assert_eq!(end.last_signal, Some(signal::KILL), "{shape:?}");
        }
    });
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn a_large_tree_is_counted_in_full_and_named_in_part() {
    let stage = Stage::new();
    for shape in ["flat", "mixed"] {
        let Ended {
            replies,
            end,
            members,
        } = run_tree(&stage, &["spawn-tree", shape, "600"]);
        assert_eq!(members.len(), 600);
        assert_eq!(end.survivors_total, 600, "{shape}");
        let (named, total) = announced(&replies);
        assert_eq!(
            (named.len(), total),
            (xioflow_protocol::PROCESS_NOTES_MAX, 600),
            "{shape}"
        );
        assert!(named.iter().all(|pid| members.contains(pid)), "{shape}");
        assert!(
            end.survivors.len() <= xioflow_protocol::PROCESS_NOTES_MAX,
            "{shape}"
        );
    }
}

#[test]
fn a_deep_chain_is_ended() {
    let stage = Stage::new();
    let Ended { end, members, .. } = run_tree(&stage, &["spawn-tree", "chain", "200"]);
    assert_eq!((members.len(), end.survivors_total), (200, 200));
}

#[test]
fn a_stopped_survivor_is_ended() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let fixture = stage.fixture();
    // The shell leaves a stopped child behind as soon as the child has stopped.
    let script = format!(
        "{fixture} --ready {ready} stop-self & until grep -q '^State:.T' /proc/$!/status; do :; \
         done; exit 3",
        fixture = fixture.display(),
        ready = ready.display()
    );
    let mut holder = Holder::start(&stage);
    let order = Order::shell(&stage, &script);
    holder.run(&order);
    let (_, end) = until_empty(&mut holder);
    let pids = fixture_pids(&ready);
    assert_all_gone(&pids);
    assert_eq!(pids_of(&end.survivors), pids);
    assert_eq!(end.exit, Some(Exit::Exited { code: 3 }));
}

#[test]
fn children_that_end_within_the_settle_time_are_no_survivors() {
    let stage = Stage::new();
    // A reader at the end of a pipe ends just after its writer.
    let mut order = Order::shell(&stage, "cat /proc/self/stat | cat & exit 0");
    order.launch.settle_ms = 10_000;
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    let (replies, end) = until_empty(&mut holder);
    assert_eq!(
        (end.survivors_total, end.last_signal),
        (0, None),
        "{replies:?}"
    );
    assert!(signals(&replies).is_empty());
}

#[test]
fn descendants_may_be_waited_for() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let ready_text = ready.to_str().expect("an ASCII path");
    let arguments = [
        "--ttl",
        "1",
        "--exit",
        "3",
        "--ready",
        ready_text,
        "daemonise",
        "2",
    ];
    let mut order = Order::fixture(&stage, &arguments);
    order.launch.descendants = Descendants::Wait;
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    let (replies, end) = until_empty(&mut holder);
    assert_all_gone(&fixture_pids(&ready));
    assert_eq!(root_exit(&replies), Exit::Exited { code: 3 });
    assert!(
        signals(&replies).is_empty(),
        "they ended by themselves: {replies:?}"
    );
    assert_eq!(end.last_signal, None);
}

#[test]
fn waiting_for_descendants_can_be_ended() {
    let stage = Stage::new();
    let ready = stage.path("ready");
    let arguments = [
        "--exit",
        "3",
        "--ready",
        ready.to_str().expect("ASCII"),
        "daemonise",
        "2",
    ];
    let mut order = Order::fixture(&stage, &arguments);
    order.launch.descendants = Descendants::Wait;
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    let pids = stage.wait_ready(&ready);
    crate::until_survivors(&mut holder);
    holder.send(&Request::Stop(StopPlan::kill(10_000)));
    let (_, end) = until_empty(&mut holder);
    assert_all_gone(&pids);
    assert_eq!(end.last_signal, Some(signal::KILL));
    assert_eq!(
        pids_of(&end.survivors),
        sorted(pids[1..].to_vec()),
        "they are named"
    );
}

#[test]
fn nothing_of_the_stage_lives_after_the_proof() {
    each_user(|stage| {
        let Ended { end, .. } = run_tree(stage, &["spawn-tree", "mixed", "50"]);
        assert_eq!(end.survivors_total, 50);
        let living = stage.living();
        // The helper itself may still be leaving.
        let others: Vec<_> = living
            .iter()
            .filter(|one| one.contains("fixture"))
            .collect();
        assert!(others.is_empty(), "{others:?}");
    });
}
