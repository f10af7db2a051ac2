//! A domain that is used from several pid or time namespaces: numbers and start times of processes mean
//! something else in each, so what is not found here is not gone.

use rustix::process::Signal;
use serde_json::json;
use xioflow_kit::{Finished, Stage, running_as_root, wait};

use crate::recover::{leave_unknown, signal};
use crate::{assert_fields, run_alone, text};

const LEASE: &str = "port:8080";
const PIDS: &[&str] = &["--pid", "--fork", "--mount-proc"];
const CLOCKS: &[&str] = &["--time", "--boottime", "100000", "--fork"];
const PIDS_WITHOUT_PROC: &[&str] = &["--pid", "--fork"];

/// Runs `xioflow` in namespaces of its own.
fn inside(stage: &Stage, namespaces: &[&str], words: &[&str]) -> Finished {
    let (xioflow, domain) = (stage.program("xioflow"), stage.domain());
    stage
        .run("/usr/bin/unshare")
        .args(namespaces)
        .args([text(&xioflow), "--domain", text(&domain)])
        .args(words)
        .finish()
}

/// Whether we may make such namespaces.
fn can_unshare(stage: &Stage, namespaces: &[&str]) -> bool {
    let tried = || {
        stage
            .run("/usr/bin/unshare")
            .args(namespaces)
            .arg("true")
            .finish()
    };
    running_as_root() && tried().status.success()
}

#[test]
fn what_lives_in_another_namespace_is_neither_gone_nor_stopped() {
    for namespaces in [PIDS, CLOCKS] {
        let stage = Stage::new();
        if !can_unshare(&stage, namespaces) {
            eprintln!("skipped: needs root, and namespaces of its own ({namespaces:?})");
            continue;
        }
        let command = leave_unknown(&stage, "lost", LEASE);
        for words in [
            &["recover", "--dry-run", "--json"][..],
            &["recover", "--json"],
        ] {
            let settled = inside(&stage, namespaces, words).json();
            assert_fields(
                &settled["decisions"][0],
                &json!({ "operationId": "lost", "case": "H", "leases": "kept", "signalled": [] }),
            );
            let evidence = settled["decisions"][0]["evidence"].as_str();
            assert!(evidence.is_some_and(|it| it.contains("another pid or time namespace")));
        }
        let confirm = ["adjudicate", "lost", "confirmed_stopped", "--actor", "jo"];
        let refused = inside(&stage, namespaces, &confirm);
        refused
            .assert_code(79)
            .assert_complains("another pid or time namespace");
        assert!(wait::is_alive(command));
        // Where it was started it is seen.
        let refused = stage.xioflow().args(confirm).finish();
        refused
            .assert_code(79)
            .assert_complains(&command.to_string());
        // Nothing has to be seen for this.
        let abandon = [
            "adjudicate",
            "lost",
            "abandon_with_residuals",
            "--actor",
            "jo",
        ];
        inside(&stage, namespaces, &abandon).assert_code(0);
        signal(command, Signal::KILL);
    }
}

#[test]
fn a_proc_of_another_pid_namespace_is_refused_before_anything_runs() {
    let stage = Stage::new();
    if !can_unshare(&stage, PIDS_WITHOUT_PROC) {
        eprintln!("skipped: needs root, and a pid namespace of its own");
        return;
    }
    let mark = stage.path("mark");
    let run = ["run", "--no-arbiter", "--", "touch", text(&mark)];
    let refused = inside(&stage, PIDS_WITHOUT_PROC, &run);
    refused
        .assert_code(70)
        .assert_complains("/proc shows another pid namespace");
    assert!(!mark.exists() && !stage.domain().exists());
    run_alone(&stage, &[], &["touch", text(&mark)])
        .finish()
        .assert_code(0);
    assert!(mark.exists());
}
