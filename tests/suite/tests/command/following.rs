//! The verbs that go on: what is new comes as it happens, nothing twice, and no wait has no end.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use xioflow_kit::{Finished, Stage, Started};

use crate::{fixture, run};

fn start<'a>(stage: &'a Stage, words: &[&str]) -> Started<'a> {
    stage.xioflow().args(words).start()
}

fn make_domain(stage: &Stage) {
    run(stage, &["--op", "first"], &["true"])
        .finish()
        .assert_code(0);
}

fn end(follower: Started<'_>) -> Finished {
    follower.signal(Signal::INT);
    follower.finish()
}

/// `(operation, status)` of each line.
fn statuses(finished: &Finished) -> Vec<(String, String)> {
    let lines = serde_json::Deserializer::from_slice(&finished.stdout).into_iter::<Value>();
    let field = |line: &Value, name: &str| line[name].as_str().expect("a text").to_owned();
    lines
        .map(|line| line.unwrap_or_else(|error| panic!("{error}\n{finished}")))
        .map(|line| (field(&line, "operationId"), field(&line, "status")))
        .collect()
}

#[test]
fn a_list_goes_on_with_each_operation_that_changes() {
    let stage = Stage::new();
    make_domain(&stage);
    let mut follower = start(&stage, &["list", "--follow", "--json"]);
    follower.wait_for_output(b"\"first\"");
    let (words, ready) = fixture(&stage, &["sleep"]);
    let second = run(&stage, &["--op", "second"], &words).start();
    stage.wait_ready(&ready);
    follower.wait_for_output(b"\"second\"");
    second.signal(Signal::TERM);
    second.finish().assert_code(143);
    follower.wait_for_output(b"\"cancelled\"");
    for at in 0..20 {
        run(&stage, &["--op", &format!("many-{at}")], &["true"])
            .finish()
            .assert_code(0);
    }
    follower.wait_for_output(b"\"many-19\"");
    let statuses = statuses(&end(follower));
    let of = |id: &str| -> Vec<&str> {
        let of_it = statuses.iter().filter(|(its, _)| its == id);
        of_it.map(|(_, status)| status.as_str()).collect()
    };
    assert_eq!(of("first"), ["done"]);
    let told = of("second");
    assert!(
        matches!(
            told[..],
            ["active", "done"] | ["active", "stopping", "done"]
        ),
        "{told:?}"
    );
    for at in 0..19 {
        let told = of(&format!("many-{at}"));
        assert!(
            matches!(told[..], ["done"] | ["active", "done"]),
            "{told:?}"
        );
    }
}

#[test]
fn a_list_for_people_goes_on_in_columns() {
    let stage = Stage::new();
    make_domain(&stage);
    let mut follower = start(&stage, &["list", "--follow", "--unfinished"]);
    follower.wait_for_output(b"OPERATION");
    run(&stage, &["--op", "later"], &["true"])
        .finish()
        .assert_code(0);
    follower.wait_for_output(b"succeeded");
    let printed = String::from_utf8(end(follower).stdout).expect("text");
    assert!(!printed.contains("first"), "it had ended: {printed}");
    assert!(printed.contains("later"), "{printed}");
}

#[test]
fn events_of_one_operation_end_with_it() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["sleep"]);
    let running = run(&stage, &["--op", "known"], &words).start();
    stage.wait_ready(&ready);
    let mut follower = start(&stage, &["events", "--op", "known", "--follow", "--json"]);
    follower.wait_for_output(b"\n");
    // What others do in between neither ends it nor is in it.
    running.signal(Signal::INT);
    running.finish().assert_code(130);
    let followed = follower.finish();
    followed.assert_code(0);
    let afterwards = stage
        .xioflow()
        .args(["events", "--op", "known", "--follow", "--json"])
        .finish();
    afterwards.assert_code(0).assert_stdout(&followed.stdout);
}

#[test]
fn what_never_comes_is_not_waited_for() {
    let stage = Stage::new();
    make_domain(&stage);
    for words in [
        &["events", "--op", "nowhere", "--follow"][..],
        &["logs", "nowhere", "--follow"],
        &["events", "--op", "nowhere", "--follow", "--wait", "50ms"],
        &["logs", "nowhere", "--follow", "--wait", "50ms"],
    ] {
        let finished = stage.xioflow().args(words).finish();
        finished
            .assert_code(1)
            .assert_complains("no operation nowhere");
    }
}

#[test]
fn what_is_still_to_come_can_be_waited_for() {
    let stage = Stage::new();
    make_domain(&stage);
    let events = ["events", "--op", "later", "--follow", "--wait", "20s"];
    let logs = ["logs", "later", "--follow", "--wait", "20s"];
    let followers = [start(&stage, &events), start(&stage, &logs)];
    // It may come before or after they wait; both have to do.
    run(&stage, &["--op", "other"], &["true"])
        .finish()
        .assert_code(0);
    run(&stage, &["--op", "later"], &["echo", "out"])
        .finish()
        .assert_code(0);
    let [events, logs] = followers.map(Started::finish);
    assert!(events.assert_code(0).elapsed < Duration::from_secs(20));
    logs.assert_code(0).assert_stdout("out\n");
}

#[test]
fn a_wait_is_for_followers() {
    let stage = Stage::new();
    for words in [
        &["events", "--op", "x", "--wait", "1s"][..],
        &["events", "--follow", "--wait", "1s"],
        &["logs", "x", "--wait", "1s"],
    ] {
        stage.xioflow().args(words).finish().assert_code(64);
    }
}
