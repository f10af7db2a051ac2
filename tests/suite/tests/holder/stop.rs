//! The stop ladder as it is climbed: what is sent, to whom, when it is over.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Pid, Signal, kill_process};
use xioflow_kit::{Deadline, Holder, Order, Stage, each_user, running_as_root, wait};
use xioflow_protocol::{Exit, Reply, Request, StopPlan, SurvivorEnd, WhyAlive};

use crate::{assert_all_gone, plan, root_exit, rung, signal, signals, until_empty, until_last};

/// Starts a fixture and waits until everything of it stands; its pids, the root's first.
fn standing<'a>(stage: &'a Stage, arguments: &[&str]) -> (Holder<'a>, Vec<u32>) {
    let ready = stage.path("ready");
    let order = Order::fixture(
        stage,
        &[
            &["--ready", ready.to_str().expect("an ASCII path")],
            arguments,
        ]
        .concat(),
    );
    let mut holder = Holder::start(stage);
    holder.run(&order);
    let pids = stage.wait_ready(&ready);
    (holder, pids)
}

#[test]
fn a_kill_ends_every_shape() {
    let shapes: [&[&str]; 6] = [
        &["sleep"],
        &["ignore-signals"],
        &["stop-self"],
        &["escape-setsid", "ignore", "3"],
        &["spawn-tree", "mixed", "30"],
        &["spawn-tree", "chain", "30"],
    ];
    each_user(|stage| {
        for shape in shapes {
            fs::remove_file(stage.path("ready")).ok();
            let (mut holder, pids) = standing(stage, shape);
            holder.send(&Request::Stop(StopPlan::kill(10_000)));
            let (replies, end) = until_empty(&mut holder);
            assert_all_gone(&pids);
            let killed = Exit::Signaled {
                signal: signal::KILL,
                core: false,
            };
            assert_eq!(root_exit(&replies), killed, "{shape:?}");
            assert_eq!(end.exit, Some(killed), "{shape:?}");
            assert_eq!(end.last_signal, Some(signal::KILL), "{shape:?}");
        }
    });
}

#[test]
fn the_rungs_are_climbed_in_order() {
    let stage = Stage::new();
    let record = stage.path("signals");
    let (mut holder, _) = standing(&stage, &["record-signals", record.to_str().expect("ASCII")]);
    holder.send(&Request::Stop(plan(&[
        rung(signal::INT, 200),
        rung(signal::TERM, 200),
    ])));
    let (replies, end) = until_empty(&mut holder);
    assert_eq!(signals(&replies), [signal::INT, signal::TERM, signal::KILL]);
    assert_eq!(end.last_signal, Some(signal::KILL));
    let came = fs::read_to_string(&record).expect("a record of signals");
    let asked: Vec<_> = came.lines().filter(|name| *name != "SIGCONT").collect();
    assert_eq!(asked, ["SIGINT", "SIGTERM"], "{came}");
    assert!(
        came.contains("SIGCONT"),
        "a stopped process would not have noticed: {came}"
    );
}

#[test]
fn a_tree_that_obeys_is_not_killed() {
    each_user(|stage| {
        let (mut holder, _) = standing(stage, &["exit-on", "15", "5"]);
        holder.send(&Request::Stop(plan(&[rung(signal::TERM, 20_000)])));
        let (replies, end) = until_empty(&mut holder);
        assert_eq!(root_exit(&replies), Exit::Exited { code: 5 });
        assert_eq!(signals(&replies), [signal::TERM]);
        assert_eq!(end.last_signal, Some(signal::TERM));
    });
}

#[test]
fn a_stopped_tree_hears_the_first_rung() {
    let stage = Stage::new();
    let (mut holder, pids) = standing(&stage, &["stop-self"]);
    holder.send(&Request::Stop(plan(&[rung(signal::TERM, 20_000)])));
    let (replies, _) = until_empty(&mut holder);
    assert_all_gone(&pids);
    let ended = Exit::Signaled {
        signal: signal::TERM,
        core: false,
    };
    assert_eq!(root_exit(&replies), ended);
}

#[test]
fn a_rung_reaches_those_who_left_the_group() {
    let stage = Stage::new();
    let (mut holder, pids) = standing(&stage, &["spawn-tree", "mixed", "15"]);
    holder.send(&Request::Stop(plan(&[rung(signal::TERM, 20_000)])));
    let (replies, end) = until_empty(&mut holder);
    assert_all_gone(&pids);
    assert_eq!(
        signals(&replies),
        [signal::TERM],
        "one rung was enough for all"
    );
    assert_eq!(end.last_signal, Some(signal::TERM));
}

#[test]
fn a_quicker_plan_takes_the_place_of_a_slower_one() {
    let stage = Stage::new();
    let (mut holder, pids) = standing(&stage, &["ignore-signals"]);
    // Longer than any deadline of a test, so that only the second plan can end it.
    holder.send(&Request::Stop(plan(&[rung(signal::TERM, 600_000)])));
    assert!(matches!(holder.reply(), Reply::Running));
    let first = holder.reply();
    assert!(
        matches!(
            first,
            Reply::Signalled {
                signal: signal::TERM,
                ..
            }
        ),
        "{first:?}"
    );
    holder.send(&Request::Stop(StopPlan::kill(10_000)));
    let (replies, _) = until_empty(&mut holder);
    assert_all_gone(&pids);
    assert_eq!(signals(&replies), [signal::KILL]);
}

#[test]
fn a_slower_plan_does_not_delay_a_quicker_one() {
    let stage = Stage::new();
    let (mut holder, pids) = standing(&stage, &["ignore-signals"]);
    holder.send(&Request::Stop(plan(&[rung(signal::TERM, 300)])));
    holder.send(&Request::Stop(plan(&[rung(signal::TERM, 600_000)])));
    until_empty(&mut holder);
    assert_all_gone(&pids);
}

#[test]
fn a_fork_bomb_is_ended() {
    for variant in [
        &["fork-bomb", "3000"][..],
        &["fork-bomb", "3000", "new-session"],
    ] {
        let stage = Stage::new();
        let (mut holder, _) = standing(&stage, variant);
        holder.send(&Request::Stop(StopPlan::kill(20_000)));
        let (_, end) = until_empty(&mut holder);
        assert_eq!(end.last_signal, Some(signal::KILL));
        let living = stage.living();
        let bombs: Vec<_> = living
            .iter()
            .filter(|one| one.contains("fork-bomb"))
            .collect();
        assert!(bombs.is_empty(), "{bombs:?}");
    }
}

/// An ordinary helper meets a process that became root: it cannot end it, and says so.
#[test]
fn what_may_not_be_signalled_is_reported_with_the_reason() {
    if !running_as_root() {
        eprintln!("skipped: needs root, to make a set-user-ID program");
        return;
    }
    let stage = Stage::ordinary();
    let become_root = stage.path("become-root");
    fs::copy("/usr/bin/setpriv", &become_root).expect("setpriv of util-linux");
    fs::set_permissions(&become_root, fs::Permissions::from_mode(0o4755)).expect("chmod");
    let pid_file = stage.path("pid");
    let script = format!(
        "{} --reuid=0 --regid=0 --clear-groups /bin/sh -c 'echo $$ > {}; exec sleep 60'",
        become_root.display(),
        pid_file.display()
    );
    let mut order = Order::shell(&stage, &script);
    order.launch.no_new_privs = false;
    let mut holder = Holder::start(&stage);
    holder.run(&order);
    let pid = wait::in_folder(&stage.path(""), Deadline::usual(), || {
        fs::read_to_string(&pid_file)
            .ok()?
            .trim()
            .parse::<u32>()
            .ok()
    })
    .expect("a process that became root");
    holder.send(&Request::Stop(StopPlan {
        rungs: Vec::new(),
        kill_ms: 300,
    }));
    let replies = until_last(&mut holder);
    assert!(wait::is_alive(pid));
    let raw = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("not 0");
    kill_process(raw, Signal::KILL).expect("root may");
    let Some(Reply::TreeRemains(end)) = replies.last() else {
        panic!("expected a tree that remains, got {replies:?}");
    };
    let found: Vec<_> = end
        .survivors
        .iter()
        .map(|survivor| (survivor.process.pid, survivor.end))
        .collect();
    assert!(
        found.contains(&(pid, SurvivorEnd::Alive(WhyAlive::Permission))),
        "{found:?}"
    );
    holder.hang_up();
    holder.wait();
}
