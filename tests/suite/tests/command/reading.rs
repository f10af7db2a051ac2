//! The verbs that read: documents that parse, beside a live owner, changing no byte.

use rustix::process::Signal;
use serde_json::Value;
use xioflow_kit::{Finished, Stage, each_user};

use crate::{fixture, run, run_alone, sha256_of, shell};

const READERS: [&[&str]; 5] = [
    &["list", "--json"],
    &["show", "known", "--json"],
    &["events", "--json"],
    &["status", "--json"],
    &["logs", "known"],
];

fn read(stage: &Stage, words: &[&str]) -> Finished {
    let finished = stage.xioflow().args(words).finish();
    finished.assert_code(0);
    finished
}

/// Every document on the stream, one or one a line.
fn documents(finished: &Finished) -> Vec<Value> {
    let stream = serde_json::Deserializer::from_slice(&finished.stdout).into_iter();
    stream
        .map(|document| document.unwrap_or_else(|error| panic!("{error}\n{finished}")))
        .collect()
}

#[test]
fn they_know_what_has_run() {
    each_user(|stage| {
        run(stage, &["--op", "known"], &shell("echo out; exit 3"))
            .finish()
            .assert_code(3);
        for words in &READERS[..3] {
            let finished = read(stage, words);
            let documents = documents(&finished);
            assert!(!documents.is_empty(), "{finished}");
            let text = documents.iter().map(Value::to_string).collect::<String>();
            assert!(text.contains("\"known\""), "{words:?} says {text}");
        }
        assert_eq!(documents(&read(stage, READERS[3])).len(), 1);
        read(stage, READERS[4]).assert_stdout("out\n");
    });
}

#[test]
fn they_change_nothing_beside_a_live_owner() {
    each_user(|stage| {
        run(stage, &["--op", "known"], &["echo", "out"])
            .finish()
            .assert_code(0);
        let (words, ready) = fixture(stage, &["sleep"]);
        let owner = run(stage, &["--op", "live"], &words).start();
        stage.wait_ready(&ready);
        let file = stage.domain().join("domain.db");
        let before = sha256_of(&file);
        for words in READERS {
            read(stage, words);
        }
        let listed = read(stage, READERS[0]);
        assert!(
            documents(&listed)[0].to_string().contains("\"live\""),
            "{listed}"
        );
        assert_eq!(
            sha256_of(&file),
            before,
            "a reader has changed the database"
        );
        owner.signal(Signal::INT);
        owner.finish().assert_code(130);
    });
}

#[test]
fn they_work_after_a_crash_and_decide_nothing() {
    let stage = Stage::new();
    run_alone(&stage, &["--op", "known"], &["echo", "out"])
        .finish()
        .assert_code(0);
    let (words, ready) = fixture(&stage, &["sleep"]);
    let owner = run_alone(&stage, &["--op", "lost"], &words).start();
    stage.wait_ready(&ready);
    owner.signal(Signal::KILL);
    drop(owner.finish());
    let file = stage.domain().join("domain.db");
    let before = sha256_of(&file);
    for words in READERS {
        read(&stage, words);
    }
    let shown = read(&stage, &["show", "lost", "--json"]).json().to_string();
    assert!(shown.contains("active"), "only recovery decides: {shown}");
    assert_eq!(
        sha256_of(&file),
        before,
        "a reader has changed the database"
    );
}

#[test]
fn they_have_a_face_for_people() {
    let stage = Stage::new();
    run(&stage, &["--op", "known"], &shell("echo out; exit 3"))
        .finish()
        .assert_code(3);
    for words in [&["list"][..], &["show", "known"], &["events"], &["status"]] {
        let finished = read(&stage, words);
        let text = String::from_utf8_lossy(&finished.stdout);
        assert!(
            !text.is_empty() && !text.contains('\u{1b}'),
            "no colours in a pipe\n{finished}"
        );
    }
}

#[test]
fn the_output_of_a_live_operation_can_be_followed() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["print-then-sleep", "early"]);
    let owner = run(&stage, &["--op", "live"], &words).start();
    stage.wait_ready(&ready);
    let mut follower = stage.xioflow().args(["logs", "live", "--follow"]).start();
    follower.wait_for_output(b"early\n");
    owner.signal(Signal::INT);
    owner.finish().assert_code(130);
    follower.finish().assert_code(0).assert_stdout("early\n");
}

#[test]
fn events_can_be_followed() {
    let stage = Stage::new();
    run(&stage, &["--op", "first"], &["true"])
        .finish()
        .assert_code(0);
    let mut follower = stage
        .xioflow()
        .args(["events", "--follow", "--json"])
        .start();
    follower.wait_for_output(b"\"first\"");
    run(&stage, &["--op", "second"], &["true"])
        .finish()
        .assert_code(0);
    follower.wait_for_output(b"\"second\"");
    follower.signal(Signal::INT);
    let finished = follower.finish();
    assert!(
        documents(&finished).len() >= 6,
        "three events an operation\n{finished}"
    );
}

#[test]
fn an_unknown_operation_is_named() {
    let stage = Stage::new();
    run(&stage, &[], &["true"]).finish().assert_code(0);
    for verb in ["show", "logs"] {
        let finished = stage.xioflow().args([verb, "unknown-op"]).finish();
        finished.assert_stdout("").assert_complains("unknown-op");
        assert!(!finished.status.success(), "{finished}");
    }
}

#[test]
fn reading_makes_no_domain() {
    let stage = Stage::new();
    for words in [
        &["list", "--json"][..],
        &["status", "--json"],
        &["events", "--json"],
    ] {
        stage.xioflow().args(words).finish();
        assert!(!stage.domain().exists(), "{words:?} has made a domain");
    }
}

#[test]
fn doctor_proves_by_doing_and_leaves_nothing() {
    each_user(|stage| {
        let finished = stage.xioflow().args(["doctor", "--json"]).finish();
        finished.assert_code(0);
        let text = finished.json().to_string();
        assert!(text.contains("ready"), "{text}");
        let people = stage.xioflow().arg("doctor").finish();
        people.assert_code(0);
        assert!(!people.stdout.is_empty(), "{people}");
    });
}

#[test]
fn events_of_an_operation_that_is_not_there_are_an_error() {
    let stage = Stage::new();
    run(&stage, &["--op", "there"], &["true"])
        .finish()
        .assert_code(0);
    let of = |id| stage.xioflow().args(["events", "--op", id]).finish();
    of("there").assert_code(0);
    of("nowhere")
        .assert_code(1)
        .assert_complains("no operation nowhere");
}
