//! Reaching what others have started: `shutdown`, `status`, and the arbiter as a program.

use rustix::process::Signal;
use serde_json::Value;
use xioflow_kit::{Deadline, Finished, Stage, each_user, wait};

const BUSY: i32 = 75;

fn xioflow(stage: &Stage, words: &[&str]) -> Finished {
    stage.xioflow().args(words).finish()
}

fn status(stage: &Stage) -> Value {
    let finished = xioflow(stage, &["status", "--json"]);
    finished.assert_code(0);
    finished.json()
}

#[test]
fn an_arbiter_can_be_started_by_hand() {
    each_user(|stage| {
        let arbiter = stage.xioflow().args(["arbiter", "--idle", "never"]).start();
        wait::until("an arbiter", Deadline::usual(), || {
            stage.domain().join("domain.db").exists() && status(stage)["arbiter"].is_object()
        });
        assert_eq!(stage.arbiters(), [arbiter.pid()]);
        assert_eq!(status(stage)["arbiter"]["pid"], arbiter.pid());
        let second = stage.xioflow().args(["arbiter", "--wait", "0s"]).finish();
        second
            .assert_code(BUSY)
            .assert_complains(&arbiter.pid().to_string());
        arbiter.signal(Signal::TERM);
        arbiter.finish().assert_code(0).assert_stdout("");
        xioflow(stage, &["shutdown"])
            .assert_code(0)
            .assert_complains("no arbiter");
    });
}

#[test]
fn only_a_client_starts_a_daemon() {
    let stage = Stage::new();
    let by_hand = stage.xioflow().args(["arbiter", "--daemon"]).finish();
    by_hand.assert_code(64).assert_complains("--daemon");
    assert!(!stage.domain().exists());
}
