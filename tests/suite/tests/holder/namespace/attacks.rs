//! A tree against its init: it can end itself and nobody else.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use xioflow_kit::namespace::members;
use xioflow_kit::{Deadline, Holder, Order, Stage, each_user, fixture_pids, wait};
use xioflow_protocol::{Exit, PidNamespace, Request, StopPlan};

use super::{KILLED, assert_nobody, enclosed, fixture, run, stand};
use crate::{root_exit, until_empty};

/// An order for a script that says when it has done what it wanted, and stays.
fn attack(stage: &Stage, script: &str) -> Order {
    let mut order = enclosed(Order::shell(
        stage,
        &format!("{script}\necho > done; sleep 60"),
    ));
    order.launch.no_new_privs = false;
    order
}

/// Waits for an attack to be over, and checks that the init is where it was.
fn assert_in_place(namespace: &PidNamespace, done: &Path) {
    wait::file(done, Deadline::usual());
    wait::until("an init at rest", Deadline::usual(), || {
        wait::state(namespace.init.pid) == Some('S')
    });
    assert!(members(namespace.inode).contains(&namespace.init.pid));
}

/// Lets the script attack, and ends its tree as any other.
fn withstand(stage: &Stage, script: &str) -> String {
    let order = attack(stage, script);
    let mut holder = Holder::start(stage);
    let (_, namespace) = run(&mut holder, &order);
    assert_in_place(&namespace, &stage.path("done"));
    std::fs::remove_file(stage.path("done")).expect("a file of the stage");
    holder.send(&Request::Stop(StopPlan::kill(10_000)));
    until_empty(&mut holder);
    assert_nobody(&namespace);
    String::from_utf8(order.stdout()).expect("text")
}

#[test]
fn its_init_can_be_neither_ended_nor_stopped_nor_frightened() {
    each_user(|stage| {
        let every = "for it in 1 2 3 9 10 13 14 15 19 20 34 64; do kill -$it 1; done";
        assert_eq!(withstand(stage, every), "");
    });
}

/// Whoever may trace it could have it do anything. Root may trace everybody, and ends only itself by it.
#[test]
fn its_init_cannot_be_looked_into_by_an_ordinary_user() {
    let stage = Stage::ordinary();
    // What is asked for at each of these is what tracing asks for.
    let tries = "#!/bin/sh\nfor it in mem environ maps; do (: < /proc/1/$it) && echo $it; done; \
                 ls /proc/1/fd; readlink /proc/1/cwd /proc/1/root /proc/1/ns/mnt; kill -9 1; kill -19 1";
    stage.write("tries", tries, 0o755);
    assert_eq!(withstand(&stage, "./tries 2>/dev/null"), "");
    // With every capability of a namespace below, it is not theirs either.
    let below = "unshare --user --map-root-user ./tries 2>/dev/null";
    assert_eq!(withstand(&stage, below), "");
}

fn outsider(stage: &Stage) -> Child {
    let mut sleep = Command::new("sleep");
    sleep.arg("60").stdin(Stdio::null()).current_dir("/");
    if let Some(user) = stage.user_id() {
        sleep.uid(user).gid(user);
    }
    sleep.spawn().expect("sleep runs")
}

#[test]
fn a_signal_to_everybody_reaches_the_tree_alone() {
    each_user(|stage| {
        let mut outsider = outsider(stage);
        let script = "sleep 60 & setsid sleep 60 & kill -9 -1; wait; exit 4";
        let order = enclosed(Order::shell(stage, script));
        let mut holder = Holder::start(stage);
        let (_, namespace) = run(&mut holder, &order);
        let (replies, end) = until_empty(&mut holder);
        assert_nobody(&namespace);
        // kill(2) leaves out whoever calls it.
        assert_eq!(root_exit(&replies), Exit::Exited { code: 4 });
        assert_eq!((end.survivors_total, end.last_signal), (0, None));
        let lives = outsider.try_wait().expect("ours").is_none();
        outsider.kill().expect("ours");
        outsider.wait().expect("ours");
        assert!(lives, "somebody outside was reached");
    });
}

#[test]
fn one_that_ends_all_others_ends_the_command_too() {
    each_user(|stage| {
        let script = "setsid sh -c 'kill -9 -1' & wait; exit 4";
        let order = enclosed(Order::shell(stage, script));
        let mut holder = Holder::start(stage);
        let (_, namespace) = run(&mut holder, &order);
        let (replies, end) = until_empty(&mut holder);
        assert_nobody(&namespace);
        assert_eq!(root_exit(&replies), KILLED);
        assert_eq!(end.last_signal, None, "the helper sent nothing");
    });
}

#[test]
fn namespaces_below_end_with_it() {
    let mut below = vec!["unshare --user --map-root-user --pid --fork --mount-proc"];
    if xioflow_kit::running_as_root() {
        below.push("unshare --user --map-root-user");
    }
    each_user(|stage| {
        for words in &below {
            let script = format!(
                "{words} sh -c 'setsid sleep 60 & setsid sh -c \"sleep 61 & sleep 62\" & wait' & \
                 until ps -e -o args= | grep -q '[s]leep 62'; do :; done"
            );
            withstand(stage, &script);
        }
    });
}

#[test]
fn a_fork_bomb_is_ended() {
    each_user(|stage| {
        for shape in [
            &["fork-bomb", "3000"][..],
            &["fork-bomb", "3000", "new-session"],
        ] {
            let (order, ready) = fixture(stage, shape);
            let mut holder = Holder::start(stage);
            let (_, namespace) = run(&mut holder, &order);
            stand(&namespace, &ready);
            holder.send(&Request::Stop(StopPlan::kill(30_000)));
            let (_, end) = until_empty(&mut holder);
            assert_nobody(&namespace);
            assert_eq!(end.exit, Some(KILLED));
            std::fs::remove_file(&ready).expect("a file of the stage");
        }
    });
}

/// An init that gets no time of a processor cannot end anybody: then they are ended one by one.
#[test]
fn an_init_that_is_starved_does_not_keep_the_tree_alive() {
    each_user(|stage| {
        let script = "chrt --idle --pid 0 1; renice -n 19 -p 1 >/dev/null; \
                      for it in 1 2 3 4 5 6 7 8; do while :; do :; done & done";
        withstand(stage, script);
    });
}

/// Numbers are used again there as soon as one likes; nobody is taken for another.
#[test]
fn numbers_that_are_used_again_confuse_nobody() {
    let stage = Stage::new();
    if !stage.is_privileged() {
        eprintln!("skipped: needs root, to set the counter of process ids back");
        return;
    }
    let ready = stage.path("ready");
    let again = format!(
        "for it in 1 2 3 4 5 6 7 8 9 10; do echo 10 > /proc/sys/kernel/ns_last_pid; (exit 0); done; \
         echo 1 > /proc/sys/kernel/ns_last_pid; exec {} --ready {} daemonise 3",
        stage.fixture().display(),
        ready.display()
    );
    let mut holder = Holder::start(&stage);
    let (root, namespace) = run(&mut holder, &enclosed(Order::shell(&stage, &again)));
    let tree = stand(&namespace, &ready);
    assert!(tree.contains(&root));
    assert!(
        fixture_pids(&ready).iter().all(|pid| *pid < 100),
        "numbers of the namespace"
    );
    holder.send(&Request::Stop(StopPlan::kill(10_000)));
    until_empty(&mut holder);
    assert_nobody(&namespace);
}
