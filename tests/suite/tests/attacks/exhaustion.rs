//! A tree that takes all there is: processes, memory, the helper's own folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use xioflow_kit::{Stage, each_user, running_as_root};

use crate::{assert_fields, assert_gone, leave_three, run};

/// At the user's limit of processes nobody can fork any more; helper and supervisor need no new process to end what
/// is there and to record it.
#[test]
fn at_the_limit_of_processes_a_tree_is_ended_and_recorded() {
    let stage = Stage::ordinary();
    let script = format!(
        "ulimit -u 120; {} fork-bomb 2000 new-session",
        stage.fixture().display()
    );
    let options = ["--op", "bomb", "--timeout", "1s", "--grace", "0s"];
    let finished = run(&stage, &options, &script).finish();
    let expected = json!({
        "status": "failed", "terminationReason": "timed_out", "scope": "subreaper_tree", "residualPids": [],
    });
    assert_fields(&finished.json(), &expected);
    assert!(
        stage.living().is_empty(),
        "{:?}\n{finished}",
        stage.living()
    );
    let recorded = stage.xioflow().args(["show", "bomb", "--json"]).finish();
    assert_fields(
        &recorded.assert_code(0).json(),
        &json!({ "outcome": "failed" }),
    );
}

/// A control group of version 1 for memory, removed with the value.
struct Group(PathBuf);

impl Group {
    fn new(name: &str, bytes: u64) -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup/memory").join(name);
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        let limit = |file| fs::write(group.0.join(file), bytes.to_string()).is_ok();
        let both = limit("memory.limit_in_bytes");
        // Without an account of swap there is none to be kept from.
        limit("memory.memsw.limit_in_bytes");
        both.then_some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Who is in it has ended; were it not so, the test would have said more already.
        fs::remove_dir(&self.0).ok();
    }
}

/// The kernel ends the command: its score is above that of its helper and of its supervisor.
#[test]
fn out_of_memory_ends_the_command_and_not_its_holder() {
    let stage = Stage::new();
    let name = format!("xioflow-test-{}", std::process::id());
    let group = running_as_root()
        .then(|| Group::new(&name, 64 << 20))
        .flatten();
    let Some(group) = group else {
        eprintln!("skipped: needs root, and control groups of version 1 for memory");
        return;
    };
    let ready = stage.path("ready");
    let xioflow = stage.program("xioflow");
    let eat = "head -c 512M /dev/zero | tail -c 256M >/dev/null";
    let script = format!("{}; {eat}; exit 3", leave_three(&stage, &ready));
    let enter = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", group.0.display());
    let finished = stage
        .run("sh")
        .args(["-c", &enter, "sh"])
        .arg(xioflow)
        .args(["run", "--no-arbiter", "--json", "--", "sh", "-c", &script])
        .finish();
    assert_gone(&stage, &ready, &finished);
    let events = fs::read_to_string(group.0.join("memory.oom_control")).unwrap_or_default();
    let killed = events
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "));
    assert_ne!(killed, Some("0"), "nobody ran out of memory: {events}");
    let result = finished.json();
    let expected =
        json!({ "scope": "subreaper_tree", "treeSettlement": "reaped", "residualPids": [] });
    assert_fields(&result, &expected);
    assert_ne!(result["terminationReason"], "crash_detected", "{result:#}");
}

/// What lies in the domain belongs to the same user. A tree that removes the folder of last words is ended, and the owner
/// that lives needs no last word.
#[test]
fn a_folder_of_last_words_that_is_gone_is_not_missed_while_the_owner_lives() {
    each_user(|stage| {
        let ready = stage.path("ready");
        let script = format!(
            "rm -rf {}/holders; {}; exit 3",
            stage.domain().display(),
            leave_three(stage, &ready)
        );
        let finished = run(stage, &[], &script).finish();
        assert_gone(stage, &ready, &finished);
        let expected = json!({
            "exitCode": 3, "scope": "subreaper_tree", "treeSettlement": "reaped", "survivorsTotal": 3,
        });
        assert_fields(&finished.assert_code(3).json(), &expected);
    });
}
