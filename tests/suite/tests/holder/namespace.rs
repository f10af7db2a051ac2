//! A tree in a PID namespace of its own: held as ever, and ended by the kernel whoever dies.
//!
//! What the command finds there is in `inside`, what the tree tries against its init in `attacks`, and whom a
//! killed helper leaves in `killed`. Hosts that forbid namespaces are in `refused`.

mod attacks;
mod inside;
mod killed;
mod refused;

use std::collections::BTreeSet;

use xioflow_kit::namespace::{inner_pid, members};
use xioflow_kit::{Deadline, Holder, Order, Stage, each_user, wait};
use xioflow_protocol::{
    Containment, Descendants, Exit, FEATURE_PID_NAMESPACE, HELPER_EXIT_OK, PidNamespace, Reply,
    Request, Stage as Step, StopPlan, Survivor, SurvivorEnd,
};

use crate::{plan, root_exit, rung, signal, signals, until_empty, until_failure, until_survivors};

const KILLED: Exit = Exit::Signaled {
    signal: signal::KILL,
    core: false,
};

/// The same order, for a tree in a namespace of its own.
fn enclosed(mut order: Order) -> Order {
    order.launch.containment = Containment::PidNamespace;
    order
}

/// Launches; the command waits at its gate.
fn gate(holder: &mut Holder<'_>, order: &Order) -> (u32, PidNamespace) {
    let hello = holder.greet();
    assert!(hello.features.iter().any(|it| it == FEATURE_PID_NAMESPACE));
    holder.send_launch(order);
    match holder.reply() {
        Reply::Spawned {
            root,
            namespace: Some(namespace),
            group: None,
        } => (root.pid, namespace),
        other => panic!("no command in a namespace: {other:?}"),
    }
}

fn run(holder: &mut Holder<'_>, order: &Order) -> (u32, PidNamespace) {
    let gated = gate(holder, order);
    holder.send(&Request::Release);
    gated
}

/// A fixture in a namespace, and the file that says when it stands. The numbers in it are the namespace's.
fn fixture(stage: &Stage, arguments: &[&str]) -> (Order, std::path::PathBuf) {
    let ready = stage.path("ready");
    let common = ["--ready", ready.to_str().expect("an ASCII path")];
    let order = Order::fixture(stage, &[&common, arguments].concat());
    (enclosed(order), ready)
}

/// Waits for a fixture that stands, and says who is in its namespace but the init.
fn stand(namespace: &PidNamespace, ready: &std::path::Path) -> BTreeSet<u32> {
    wait::file(ready, Deadline::usual());
    tree_of(namespace)
}

fn tree_of(namespace: &PidNamespace) -> BTreeSet<u32> {
    let everybody = members(namespace.inode).into_iter();
    everybody.filter(|it| *it != namespace.init.pid).collect()
}

/// Checks that at this very moment nobody is in it.
fn assert_nobody(namespace: &PidNamespace) {
    let inside = members(namespace.inode);
    assert!(inside.is_empty(), "{inside:?} live in {namespace:?}");
}

#[test]
fn its_init_is_of_the_helper_and_outside_of_the_tree() {
    each_user(|stage| {
        let (order, ready) = fixture(stage, &["daemonise", "3"]);
        let mut holder = Holder::start(stage);
        let (root, namespace) = run(&mut holder, &order);
        let tree = stand(&namespace, &ready);
        assert_eq!(tree.len(), 4, "the root and three others");
        assert_eq!(inner_pid(namespace.init.pid), Some(1));
        assert_eq!(inner_pid(root), Some(2));
        assert_eq!(namespace.user_namespace, !stage.is_privileged());
        let name = std::fs::read_to_string(format!("/proc/{}/comm", namespace.init.pid));
        assert_eq!(name.expect("alive").trim_end(), "xioflow-init");
        holder.send(&Request::Stop(StopPlan::kill(10_000)));
        let (replies, end) = until_empty(&mut holder);
        assert_nobody(&namespace);
        assert_eq!(root_exit(&replies), KILLED);
        assert_eq!(
            (end.survivors_total, end.last_signal),
            (0, Some(signal::KILL))
        );
        // One signal, to the init.
        let sent = Reply::Signalled {
            signal: signal::KILL,
            targets: 1,
        };
        assert!(replies.contains(&sent), "{replies:?}");
    });
}

#[test]
fn every_escapee_is_ended_and_named_by_its_number_outside() {
    let shapes: [&[&str]; 8] = [
        &["escape-setsid", "3"],
        &["daemonise", "ignore", "3"],
        &["hold-pipe", "3"],
        &["headless", "3"],
        &["spawn-tree", "chain", "20"],
        &["spawn-tree", "mixed", "20"],
        &[
            "shapes", "siblings", "3", "silent", "2", "deaf", "2", "stopped", "2",
        ],
        &[
            "shapes",
            "subreapers",
            "2",
            "traced",
            "2",
            "groups",
            "2",
            "threads",
            "2",
        ],
    ];
    each_user(|stage| {
        for shape in shapes {
            let (mut order, _) = fixture(stage, &[&["--exit", "3"], shape].concat());
            // Named at leisure, so that it can be seen who they are before they end.
            order.launch.descendants = Descendants::Wait;
            let mut holder = Holder::start(stage);
            let (_, namespace) = run(&mut holder, &order);
            until_survivors(&mut holder);
            let tree = tree_of(&namespace);
            holder.send(&Request::Stop(StopPlan::kill(10_000)));
            let (_, end) = until_empty(&mut holder);
            assert_nobody(&namespace);
            assert_eq!(end.exit, Some(Exit::Exited { code: 3 }), "{shape:?}");
            let named: BTreeSet<_> = end.survivors.iter().map(|it| it.process.pid).collect();
            assert_eq!(named, tree, "{shape:?}");
            for survivor in &end.survivors {
                let how = survivor.end;
                assert_eq!(*survivor.process.command, *b"xioflow-fixture", "{shape:?}");
                assert!(
                    how == SurvivorEnd::Ended(KILLED) || how == SurvivorEnd::GoneUnobserved,
                    "{shape:?}: {survivor:?}"
                );
            }
        }
    });
}

/// Nobody is signalled: the init leaves when it has nobody left, and that is the proof.
#[test]
fn descendants_may_end_by_themselves() {
    each_user(|stage| {
        let ttl = ["--ttl", "1", "--exit", "3", "daemonise", "2"];
        let (mut order, _) = fixture(stage, &ttl);
        order.launch.descendants = Descendants::Wait;
        let mut holder = Holder::start(stage);
        let (_, namespace) = run(&mut holder, &order);
        let (replies, end) = until_empty(&mut holder);
        assert_nobody(&namespace);
        assert_eq!(root_exit(&replies), Exit::Exited { code: 3 });
        assert!(signals(&replies).is_empty(), "{replies:?}");
        assert_eq!((end.survivors_total, end.last_signal), (2, None));
    });
}

/// Siblings of the root are the helper's children, and not their init's: it must not leave while they live.
#[test]
fn nobody_is_ended_because_the_init_is_alone() {
    each_user(|stage| {
        let parts = ["--ttl", "1", "--exit", "3", "shapes", "siblings", "3"];
        let (mut order, _) = fixture(stage, &parts);
        order.launch.descendants = Descendants::Wait;
        let mut holder = Holder::start(stage);
        let (_, namespace) = run(&mut holder, &order);
        until_survivors(&mut holder);
        assert_eq!(tree_of(&namespace).len(), 3);
        let (replies, end) = until_empty(&mut holder);
        assert!(signals(&replies).is_empty(), "{replies:?}");
        let own = |survivor: &Survivor| survivor.end == SurvivorEnd::Ended(KILLED);
        assert!(
            end.survivors.iter().all(own),
            "by their own timers: {end:?}"
        );
    });
}

#[test]
fn those_who_end_within_the_settle_time_are_no_survivors() {
    let stage = Stage::new();
    let mut order = enclosed(Order::shell(&stage, "cat /proc/self/stat | cat & exit 0"));
    order.launch.settle_ms = 10_000;
    let mut holder = Holder::start(&stage);
    run(&mut holder, &order);
    let (replies, end) = until_empty(&mut holder);
    assert_eq!(
        (end.survivors_total, end.last_signal),
        (0, None),
        "{replies:?}"
    );
}

#[test]
fn an_end_by_itself_is_seen_where_the_kernel_tells() {
    let stage = Stage::new();
    let script = "(sleep 0.4; exit 9) & exit 3";
    let mut order = enclosed(Order::shell(&stage, script));
    order.launch.descendants = Descendants::Wait;
    let mut holder = Holder::start(&stage);
    run(&mut holder, &order);
    let (_, end) = until_empty(&mut holder);
    let survivor = end
        .survivors
        .iter()
        .find(|it| *it.process.command == *b"sh")
        .expect("the subshell");
    let seen = SurvivorEnd::Ended(Exit::Exited { code: 9 });
    let expected = match kernel_tells_ends() {
        true => seen,
        false => SurvivorEnd::GoneUnobserved,
    };
    assert_eq!(survivor.end, expected);
}

/// Since Linux 6.15 a pidfd tells how a process ended that others have waited for.
fn kernel_tells_ends() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_str().expect("ASCII").to_owned();
    let mut numbers = release.split('.').map(|it| it.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

#[test]
fn the_rungs_reach_everybody_but_the_init() {
    each_user(|stage| {
        let (order, ready) = fixture(stage, &["escape-setsid", "ignore", "2"]);
        let mut holder = Holder::start(stage);
        let (_, namespace) = run(&mut holder, &order);
        stand(&namespace, &ready);
        holder.send(&Request::Stop(plan(&[rung(signal::TERM, 200)])));
        let (replies, end) = until_empty(&mut holder);
        assert_nobody(&namespace);
        assert_eq!(signals(&replies), [signal::TERM, signal::KILL]);
        let term = Exit::Signaled {
            signal: signal::TERM,
            core: false,
        };
        assert_eq!(end.exit, Some(term), "the root does not ignore it");
    });
}

#[test]
fn it_stands_still_and_goes_on() {
    each_user(|stage| {
        let (order, ready) = fixture(stage, &["escape-setsid", "2"]);
        let mut holder = Holder::start(stage);
        let (_, namespace) = run(&mut holder, &order);
        let tree = stand(&namespace, &ready);
        let all_are = |state| tree.iter().all(|pid| wait::state(*pid) == Some(state));
        holder.send(&Request::Suspend);
        wait::until("a stop", Deadline::usual(), || all_are('T'));
        assert_ne!(
            wait::state(namespace.init.pid),
            Some('T'),
            "it has to adopt"
        );
        holder.send(&Request::Resume);
        wait::until("going on", Deadline::usual(), || all_are('S'));
        holder.send(&Request::Stop(StopPlan::kill(10_000)));
        until_empty(&mut holder);
    });
}

#[test]
fn what_is_not_let_run_leaves_nothing() {
    each_user(|stage| {
        for request in [Request::Discard, Request::Stop(StopPlan::kill(5000))] {
            let trace = stage.path("trace");
            let words = ["append-line", trace.to_str().expect("an ASCII path")];
            let order = enclosed(Order::fixture(stage, &words));
            let mut holder = Holder::start(stage);
            let (_, namespace) = gate(&mut holder, &order);
            holder.send(&request);
            let (_, end) = until_empty(&mut holder);
            assert_nobody(&namespace);
            assert_eq!((end.exit, end.survivors_total), (None, 0));
            assert!(!trace.exists(), "the command has run");
        }
    });
}

#[test]
fn a_launch_that_fails_there_says_where_as_ever() {
    each_user(|stage| {
        let mut order = enclosed(Order::fixture(stage, &["exit", "0"]));
        order.launch.cwd = b"/nonexistent".to_vec().into();
        let mut holder = Holder::start(stage);
        holder.launch(&order);
        let failure = until_failure(&mut holder);
        assert_eq!((failure.stage, failure.errno), (Step::Cwd, 2));
        holder.hang_up();
        assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    });
}

#[test]
fn the_last_word_names_it() {
    each_user(|stage| {
        let (order, ready) = fixture(stage, &["daemonise", "2"]);
        let mut holder = Holder::start(stage);
        let (_, namespace) = run(&mut holder, &order);
        stand(&namespace, &ready);
        holder.hang_up();
        let word = order.last_word();
        assert_nobody(&namespace);
        assert!(word.empty && word.stopped, "{word:?}");
        assert_eq!(word.end.exit, Some(KILLED));
        assert_eq!(word.namespace, Some(namespace));
        assert_eq!(holder.wait().code(), Some(HELPER_EXIT_OK));
    });
}

/// A helper of ours was told to go on with what it knows; a supervisor that asks for nothing gets no namespace.
#[test]
fn nobody_gets_one_unasked() {
    let stage = Stage::new();
    let order = Order::fixture(&stage, &["exit", "0"]);
    let mut holder = Holder::start(&stage);
    holder.launch(&order);
    match holder.reply() {
        Reply::Spawned { namespace, .. } => assert_eq!(namespace, None),
        other => panic!("no command at its gate: {other:?}"),
    }
}
