//! How a command ended is a field of its own, seen by whoever waited, and never changed by a look.

use std::fs;

use serde_json::json;
use xioflow_kit::{Deadline, Stage, each_user};

use crate::{assert_fields, run, run_json, shell, text};

#[test]
fn a_command_that_kills_itself_is_no_success() {
    each_user(|stage| {
        let (finished, document) = run_json(stage, &[], &shell("echo part; kill -KILL $$"));
        finished.assert_code(137);
        let expected = json!({
            "status": "failed", "signal": "SIGKILL", "exitCode": null, "stdout": "part\n",
        });
        assert_fields(&document, &expected);
    });
}

#[test]
fn reading_never_changes_a_record() {
    each_user(|stage| {
        run(stage, &["--op", "four"], &shell("echo out; exit 4"))
            .finish()
            .assert_code(4);
        let read = |words: &[&str]| stage.xioflow().args(words).finish().stdout;
        let looks: [&[&str]; 5] = [
            &["show", "--json", "four"],
            &["logs", "four"],
            &["list", "--json"],
            &["status", "--json"],
            &["events", "--json"],
        ];
        let first: Vec<_> = looks.iter().map(|words| read(words)).collect();
        let second: Vec<_> = looks.iter().map(|words| read(words)).collect();
        assert_eq!(first, second);
        for _ in 0..2 {
            let again = run(stage, &["--op", "four"], &shell("echo out; exit 4")).finish();
            again.assert_code(4).assert_stdout("out\n");
            let shown = stage
                .xioflow()
                .args(["show", "--json", "four"])
                .finish()
                .json();
            assert_eq!(shown["result"]["exitCode"], 4, "{shown:#}");
        }
    });
}

/// How many orphans the command leaves to its helper.
const ORPHANS: usize = 500;
/// How many of them may wait for it at any time.
const ZOMBIES_MAX: usize = 50;

/// Looks at the helper while they end: how many zombies it has, and what it costs.
#[test]
fn five_hundred_orphans_leave_no_zombie() {
    let stage = Stage::new();
    let (go, leave) = (stage.path("go"), stage.path("leave"));
    let script = format!(
        "echo $PPID; until [ -e {go} ]; do sleep 0.01; done
         for i in $(seq {ORPHANS}); do (sleep 0.01 &); done
         echo done; until [ -e {leave} ]; do sleep 0.01; done",
        go = text(&go),
        leave = text(&leave),
    );
    let mut started = run(&stage, &["--op", "orphans"], &shell(&script)).start();
    let helper = started.wait_for_line();
    let helper: u32 = helper.trim().parse().expect("the helper's pid");
    let before = Cost::of(helper);
    fs::write(&go, "").expect("a file of the stage");
    let (mut zombies_most, deadline) = (0, Deadline::usual());
    while !started.has_printed(b"done\n") {
        zombies_most = zombies_most.max(children(helper, "Z"));
        assert!(!deadline.passed(), "the command does not get on");
    }
    // The command stays; its own `sleep` is its own child.
    while children(helper, "") > 1 {
        assert!(!deadline.passed(), "{} are left", children(helper, ""));
    }
    let after = Cost::of(helper);
    fs::write(&leave, "").expect("a file of the stage");
    started.finish().assert_code(0);
    assert!(
        zombies_most <= ZOMBIES_MAX,
        "{zombies_most} zombies at once"
    );
    let shown = stage
        .xioflow()
        .args(["show", "--json", "orphans"])
        .finish()
        .json();
    assert_eq!(shown["result"]["treeSettlement"], "empty", "{shown:#}");
    if let (Some(before), Some(after)) = (before, after) {
        assert_eq!(after.descriptors, before.descriptors);
        let grown = after.resident_kib.saturating_sub(before.resident_kib);
        assert!(grown <= GROWTH_MAX_KIB, "{grown} KiB more than {before:?}");
    }
}

/// What a helper's tables may keep of their largest size.
const GROWTH_MAX_KIB: u64 = 512;

/// What a process holds. A helper is not dumpable, so only root can see it.
#[derive(Debug)]
struct Cost {
    descriptors: usize,
    resident_kib: u64,
}

impl Cost {
    fn of(pid: u32) -> Option<Self> {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))?;
        let resident_kib = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(Self {
            descriptors,
            resident_kib,
        })
    }
}

/// How many children a process has in this state, or in any.
fn children(parent: u32, state: &str) -> usize {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok())
        .filter(|stat| {
            let mut fields = stat
                .rsplit(')')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            let (found, above) = (fields.next(), fields.next());
            above == Some(&parent.to_string()) && found.is_some_and(|it| it.starts_with(state))
        })
        .count()
}
