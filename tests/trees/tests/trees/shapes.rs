//! Each shape alone: all of it is counted, all of it is ended, and none lives when that is said.

use xioflow_kit::{Stage, each_user};
use xioflow_protocol::{Exit, Rung, StopPlan};

use crate::alone;
use crate::held::{Ended, Held, KILLED, kill};

/// Shapes whose number does not change by itself, with how many there are of each beside the root.
const STEADY: [(&str, usize, u32); 17] = [
    ("flat", 40, 40),
    ("chain", 40, 40),
    ("sessions", 20, 20),
    ("daemons", 20, 20),
    ("mixed", 40, 40),
    ("deaf", 10, 10),
    ("stopped", 10, 10),
    ("traced", 6, 12),
    ("suspended", 6, 12),
    ("zombies", 6, 6),
    ("siblings", 10, 10),
    ("silent", 6, 12),
    ("signalling", 6, 12),
    ("subreapers", 6, 18),
    ("groups", 4, 12),
    ("threads", 6, 6),
    ("namespaces", 4, 8),
];

/// Shapes whose number changes all the time.
const RESTLESS: [(&str, &str); 4] = [
    ("comets", "10"),
    ("wanderers", "10"),
    ("bomb", "1000"),
    ("escaping-bomb", "1000"),
];

/// Whether this host lets an ordinary command have this shape; says so where it does not.
#[expect(
    clippy::print_stdout,
    reason = "what is skipped is told on standard output"
)]
fn can_be(stage: &Stage, name: &str) -> bool {
    let scope = || std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let can = match name {
        "namespaces" => {
            let unshare = stage
                .run("unshare")
                .args(["--user", "--pid", "--fork", "true"]);
            unshare.finish().status.success()
        }
        "traced" => {
            stage.is_privileged() || scope().is_ok_and(|it| it.trim() == "0") || scope().is_err()
        }
        _ => true,
    };
    if !can {
        println!("skipped: the kernel forbids the shape {name:?} to this user");
    }
    can
}

fn natural_end(stage: &Stage, parts: &[&str]) -> Ended {
    let words = [&["--exit", "3", "shapes"], parts].concat();
    let ended = Held::launch(stage, &words).ended();
    assert_eq!(ended.exit, Exit::Exited { code: 3 }, "{parts:?}");
    ended
}

#[test]
fn what_outlives_its_root_is_counted_and_ended() {
    let _one = alone();
    each_user(|stage| {
        for (name, count, members) in STEADY {
            if !can_be(stage, name) {
                continue;
            }
            let ended = natural_end(stage, &[name, &count.to_string()]);
            assert_eq!(ended.announced, members, "{name}");
            assert_eq!(ended.end.survivors_total, members, "{name}");
            eprintln!("{name}: {:?}", ended.took);
        }
    });
}

#[test]
fn what_is_killed_with_its_root_is_gone() {
    let _one = alone();
    each_user(|stage| {
        for (name, count, members) in STEADY {
            if !can_be(stage, name) {
                continue;
            }
            let words = ["shapes", name, &count.to_string()];
            let held = Held::launch(stage, &words);
            let pids = held.stand();
            assert_eq!(u32::try_from(pids.len()), Ok(members + 1), "{name}");
            let ended = held.stop(kill());
            assert_eq!(ended.exit, KILLED, "{name}");
            eprintln!("{name}: {:?}", ended.took);
        }
    });
}

/// Who is asked first has time to do worse.
#[test]
fn what_is_asked_before_it_is_killed_is_gone() {
    let _one = alone();
    let plan = StopPlan {
        rungs: vec![Rung {
            signal: 15,
            wait_ms: 100,
        }],
        kill_ms: 60_000,
    };
    each_user(|stage| {
        for name in [
            "hydras",
            "escaping-hydras",
            "deaf",
            "stopped",
            "suspended",
            "comets",
        ] {
            let held = Held::launch(stage, &["shapes", name, "4"]);
            held.stand();
            let ended = held.stop(plan.clone());
            assert_eq!(
                ended.exit,
                Exit::Signaled {
                    signal: 15,
                    core: false
                },
                "{name}"
            );
            eprintln!("{name}: {:?}", ended.took);
        }
    });
}

#[test]
fn what_never_stands_still_is_gone() {
    let _one = alone();
    each_user(|stage| {
        for (name, count) in RESTLESS {
            let held = Held::launch(stage, &["shapes", name, count]);
            held.stand();
            let ended = held.stop(kill());
            assert_eq!(ended.exit, KILLED, "{name}");
            eprintln!("{name}: stopped in {:?}", ended.took);
        }
    });
}

/// How many there are changes from moment to moment, so only that there were some can be asked for.
#[test]
fn what_never_stands_still_is_gone_after_its_root() {
    let _one = alone();
    each_user(|stage| {
        for (name, count) in RESTLESS {
            let ended = natural_end(stage, &[name, count]);
            assert!(ended.end.survivors_total > 0, "{name}");
            eprintln!("{name}: ended in {:?}", ended.took);
        }
    });
}
