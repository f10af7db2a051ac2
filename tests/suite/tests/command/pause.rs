//! `pause` and `resume`: an operation of another client stands still, everybody can see that, and it ends as ever.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use xioflow_kit::{Deadline, Finished, Stage, Started, each_user, wait};

use crate::{assert_fields, fixture, run, run_alone};

const BUSY: i32 = 75;

fn asked(stage: &Stage, words: &[&str]) -> Finished {
    stage.xioflow().args(words.to_vec()).finish()
}

/// An operation whose tree is there, held without a control group.
fn begin<'a>(stage: &'a Stage, id: &str, alone: bool) -> (Started<'a>, Vec<u32>) {
    let (words, ready) = fixture(stage, &["escape-setsid", "2"]);
    let options = ["--op", id, "--driver", "reaper"];
    let run = match alone {
        false => run(stage, &options, &words),
        true => run_alone(stage, &options, &words),
    };
    (run.start(), stage.wait_ready(&ready))
}

fn wait_still(pids: &[u32]) {
    wait::until("standstill", Deadline::usual(), || {
        pids.iter().all(|pid| wait::state(*pid) == Some('T'))
    });
}

#[test]
fn it_stands_still_for_everybody_to_see_and_goes_on() {
    each_user(|stage| {
        let (client, pids) = begin(stage, "tree", false);
        let paused = asked(stage, &["pause", "tree"]);
        paused.assert_code(0).assert_stderr("");
        let told = String::from_utf8_lossy(&paused.stdout).into_owned();
        assert!(told.contains("SIGSTOP to each process"), "{told}");
        wait_still(&pids);
        let again = asked(stage, &["pause", "tree", "--json"]);
        let expected = json!({
            "operationId": "tree", "paused": "signals", "changed": false, "timeoutLeftMs": null,
        });
        assert_eq!(again.assert_code(0).json(), expected);

        let shown = asked(stage, &["show", "tree", "--json"]).json();
        assert_fields(&shown["pause"], &json!({ "means": "signals" }));
        let listed = asked(stage, &["list"]);
        assert!(
            String::from_utf8_lossy(&listed.stdout).contains(" paused "),
            "{listed}"
        );
        let status = asked(stage, &["status", "--json"]).json();
        assert_fields(&status, &json!({ "pausedTotal": 1 }));
        let status = asked(stage, &["status"]);
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(text.contains("(1 unfinished of which 1 paused, "), "{text}");

        asked(stage, &["resume", "tree"])
            .assert_code(0)
            .assert_stdout("operation tree goes on\n");
        asked(stage, &["resume", "tree"])
            .assert_code(0)
            .assert_stdout("operation tree was not paused\n");
        let shown = asked(stage, &["show", "tree", "--json"]).json();
        assert_eq!(shown["pause"], json!(null));
        asked(stage, &["pause", "tree"]).assert_code(0);
        asked(stage, &["cancel", "tree", "--wait"]).assert_code(0);
        assert!(pids.iter().all(|pid| !wait::is_alive(*pid)));
        client.finish();
        let late = asked(stage, &["pause", "tree"]);
        late.assert_code(1).assert_complains("has already ended");
        let unknown = asked(stage, &["resume", "nobody"]);
        unknown
            .assert_code(1)
            .assert_complains("no operation nobody");
        stage.end_arbiters();
        std::fs::remove_dir_all(stage.domain()).expect("the stage's domain");
        std::fs::remove_file(stage.path("ready")).ok();
    });
}

/// What executes for itself has no ear. It is said how it can be done all the same.
#[test]
fn an_owner_that_takes_no_requests_is_named() {
    let stage = Stage::new();
    let (client, _) = begin(&stage, "tree", true);
    for (verb, hint) in [("pause", "kill -TSTP"), ("resume", "kill -CONT")] {
        let refused = asked(&stage, &[verb, "tree"]);
        refused.assert_code(BUSY).assert_complains(hint);
        refused.assert_complains(&client.pid().to_string());
    }
    client.signal(Signal::TERM);
    client.finish();
}

/// The arbiter that paused it dies. Its helper has the tree end, and the next owner settles it.
#[test]
fn what_stands_still_ends_with_its_owner() {
    let stage = Stage::new();
    let (client, pids) = begin(&stage, "tree", false);
    asked(&stage, &["pause", "tree"]).assert_code(0);
    wait_still(&pids);
    for arbiter in stage.arbiters() {
        let arbiter = Pid::from_raw(i32::try_from(arbiter).expect("a pid")).expect("a pid");
        kill_process(arbiter, Signal::KILL).expect("it is there");
    }
    for pid in pids {
        assert!(wait::pid_gone(pid, Deadline::usual()), "{pid} stands still");
    }
    client.finish();
    let shown = asked(&stage, &["show", "tree", "--json"]).json();
    assert_fields(&shown, &json!({ "status": "done", "pause": null }));
}
