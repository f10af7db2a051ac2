//! `adjudicate`: a person decides about an operation whose end nobody saw: once, after a fresh look, by name.

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Finished, Stage, each_user, wait};

use crate::recover::{again_unknown, leave_unknown};
use crate::{assert_fields, run, run_alone};

const LEASE: &str = "port:8080";

fn adjudicate(stage: &Stage, words: &[&str]) -> Finished {
    let who = ["--actor", "jo"];
    stage
        .xioflow()
        .arg("adjudicate")
        .args(words)
        .args(who)
        .finish()
}

/// Leaves an operation without a known end. Whatever could be identified of it was ended.
fn leave_waiting(stage: &Stage, id: &str) {
    let command = leave_unknown(stage, id, LEASE);
    stage.xioflow().arg("recover").finish().assert_code(79);
    assert!(wait::pid_gone(command, Deadline::usual()));
}

fn error(finished: &Finished) -> Value {
    finished.json()["error"].clone()
}

/// Whether a command can have the lease.
fn can_lease(stage: &Stage) -> bool {
    let finished = run(stage, &["--lease", LEASE, "--quiet"], &["true"]).finish();
    assert!(
        [Some(0), Some(75)].contains(&finished.status.code()),
        "{finished}"
    );
    finished.status.success()
}

#[test]
fn a_decision_frees_the_leases_and_is_told_everywhere() {
    each_user(|stage| {
        leave_waiting(stage, "lost");
        for served in [false, true] {
            if served {
                run(stage, &["--quiet"], &["true"]).finish().assert_code(0);
            }
            let status = stage.xioflow().args(["status", "--json"]).finish().json();
            assert_fields(
                &status,
                &json!({ "indeterminateTotal": 1, "unadjudicatedTotal": 1 }),
            );
        }
        assert!(!can_lease(stage), "it is kept until somebody decides");
        let words = [
            "lost",
            "confirmed_stopped",
            "--note",
            "looked by hand",
            "--json",
        ];
        let decided = adjudicate(stage, &words).assert_code(0).json();
        assert_fields(
            &decided,
            &json!({ "operationId": "lost", "freed": [LEASE] }),
        );
        let expected = json!({ "verdict": "confirmed_stopped", "actor": "jo", "note": "looked by hand",
                               "residualPids": [] });
        assert_fields(&decided["adjudication"], &expected);
        assert!(can_lease(stage), "it is free");

        let shown = stage
            .xioflow()
            .args(["show", "lost", "--json"])
            .finish()
            .json();
        assert_eq!(
            shown["outcome"], "indeterminate",
            "how it ended is not known by that"
        );
        assert_eq!(shown["adjudication"], decided["adjudication"]);
        assert_eq!(shown["result"]["adjudication"], decided["adjudication"]);
        assert_eq!(
            shown["result"]["recoveryGuidance"],
            Value::Null,
            "there is nothing left to do"
        );
        let listed = stage.xioflow().arg("list").finish();
        assert!(
            String::from_utf8_lossy(&listed.stdout).contains("lost  ")
                && String::from_utf8_lossy(&listed.stdout).contains("adjudicated")
        );
        let status = stage.xioflow().args(["status", "--json"]).finish().json();
        assert_fields(
            &status,
            &json!({ "indeterminateTotal": 1, "unadjudicatedTotal": 0 }),
        );
        let events = stage
            .xioflow()
            .args(["events", "--op", "lost", "--json"])
            .finish()
            .json();
        let kinds: Vec<&Value> = events["events"]
            .as_array()
            .expect("events")
            .iter()
            .map(|it| &it["type"])
            .collect();
        assert!(
            kinds.ends_with(&[
                &json!("OPERATION_ADJUDICATED"),
                &json!("RESOURCES_RELEASED")
            ]),
            "{kinds:?}"
        );

        // Once, and through the arbiter as without one.
        for served in [true, false] {
            if !served {
                stage.end_arbiters();
            }
            let again = adjudicate(stage, &["lost", "abandon_with_residuals", "--json"]);
            assert_eq!(
                error(again.assert_code(1))["kind"],
                "already_adjudicated",
                "{served}"
            );
            again.assert_complains("confirmed_stopped by \"jo\"");
        }
        stage.xioflow().arg("recover").finish().assert_code(0);
    });
}

#[test]
fn asked_for_again_it_says_that_it_was_decided_and_what_to_do() {
    each_user(|stage| {
        leave_waiting(stage, "lost");
        let again = || {
            let finished = again_unknown(stage, "lost", LEASE).finish();
            finished.assert_code(79).assert_stdout("out\n");
            finished
        };
        let before = again();
        before.assert_complains("xioflow adjudicate lost confirmed_stopped");
        adjudicate(stage, &["lost", "confirmed_stopped"]).assert_code(0);
        let after = again();
        after.assert_complains("adjudicated: confirmed_stopped by \"jo\"");
        after.assert_complains("give it another --op");
        let said = String::from_utf8_lossy(&after.stderr);
        assert!(!said.contains("xioflow adjudicate"), "{said}");
    });
}

/// Prunes what was evidence until then.
#[test]
fn its_output_is_evidence_until_somebody_has_decided() {
    let stage = Stage::new();
    leave_waiting(&stage, "lost");
    let prune = || {
        stage
            .xioflow()
            .args(["prune", "--max-bytes", "0", "--json"])
            .finish()
            .assert_code(0)
            .json()
    };
    let kept = prune();
    assert_eq!(
        (
            &kept["kept"]["indeterminate"]["files"],
            &kept["removedTotal"]["files"]
        ),
        (&json!(1), &json!(0))
    );
    adjudicate(&stage, &["lost", "confirmed_stopped"]).assert_code(0);
    assert_eq!(prune()["removedTotal"]["files"], 1);
}

#[test]
fn what_cannot_be_decided_is_refused_by_name_through_the_arbiter_as_without_one() {
    each_user(|stage| {
        leave_waiting(stage, "lost");
        run_alone(stage, &["--op", "fine", "--quiet"], &["true"])
            .finish()
            .assert_code(0);
        let long = "x".repeat(4097);
        for served in [false, true] {
            if served {
                run(stage, &["--quiet"], &["true"]).finish().assert_code(0);
            }
            let refused = |words: &[&str], code, kind: &str| {
                let words = [&["adjudicate", "--json"], words].concat();
                let refused = stage.xioflow().args(words).finish();
                assert_eq!(
                    refused.assert_code(code).json()["error"]["kind"],
                    kind,
                    "{served}"
                );
            };
            refused(
                &["none", "confirmed_stopped", "--actor", "jo"],
                1,
                "not_found",
            );
            refused(
                &["fine", "confirmed_stopped", "--actor", "jo"],
                1,
                "not_indeterminate",
            );
            refused(
                &["lost", "confirmed_stopped", "--actor", "a\u{7}b"],
                64,
                "invalid",
            );
            refused(
                &[
                    "lost",
                    "confirmed_stopped",
                    "--actor",
                    "jo",
                    "--note",
                    &long,
                ],
                64,
                "invalid",
            );
            refused(&["lost", "confirmed_stopped"], 64, "usage");
            refused(&["lost", "finished", "--actor", "jo"], 64, "usage");
        }
        adjudicate(stage, &["lost", "abandon_with_residuals"])
            .assert_code(0)
            .assert_stdout("operation lost is abandoned, by jo\nfreed: port:8080\n");
    });
}

#[test]
fn an_owner_that_takes_no_requests_is_75() {
    let stage = Stage::new();
    leave_waiting(&stage, "lost");
    let mut started = run_alone(&stage, &[], &["sh", "-c", "echo up; exec sleep 600"]).start();
    started.wait_for_output(b"up");
    let busy = adjudicate(&stage, &["lost", "confirmed_stopped"]);
    busy.assert_code(75)
        .assert_complains(&started.pid().to_string());
    started.signal(Signal::INT);
    started.finish().assert_code(130);
}
