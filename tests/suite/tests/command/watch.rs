//! `list --watch`: what runs and what it uses, for people and for programs, and the terminal is given back.

use rustix::process::Signal;
use serde_json::{Value, json};
use xioflow_kit::{Deadline, Stage, Started, wait};

use crate::{assert_fields, fixture, run, run_alone, shell};

fn look(stage: &Stage) -> Value {
    let words = ["list", "--watch", "--json", "--times", "1"];
    let finished = stage.xioflow().args(words).finish();
    finished.assert_code(0).assert_stderr("");
    finished.json()
}

fn begin<'a>(stage: &'a Stage, id: &str, alone: bool) -> Started<'a> {
    let (words, ready) = fixture(stage, &["escape-setsid", "2"]);
    let options = ["--op", id, "--driver", "reaper"];
    let run = match alone {
        false => run(stage, &options, &words),
        true => run_alone(stage, &options, &words),
    };
    let started = run.start();
    stage.wait_ready(&ready);
    started
}

fn end(client: Started<'_>) {
    client.signal(Signal::TERM);
    client.finish();
}

#[test]
fn what_runs_is_seen_with_what_it_uses_whoever_owns_the_domain() {
    for alone in [false, true] {
        let stage = Stage::new();
        let client = begin(&stage, "tree", alone);
        let line = look(&stage);
        let [operation] = line["operations"].as_array().expect("a list").as_slice() else {
            panic!("{line}");
        };
        let expected = json!({
            "operationId": "tree", "state": "running", "isComplete": true, "milliCpus": null,
            "ioReadBytes": null, "ioWriteBytes": null, "limits": null,
        });
        assert_fields(operation, &expected);
        assert!(operation["tasks"].as_u64() >= Some(2), "{line}");
        assert!(operation["memoryBytes"].as_u64() > Some(0), "{line}");
        assert!(
            operation["cpuMs"].is_u64() && operation["ageMs"].is_u64(),
            "{line}"
        );
        end(client);
        assert_eq!(look(&stage)["operations"], json!([]));
    }
}

#[test]
fn what_waits_and_what_stands_still_is_told_apart() {
    let stage = Stage::new();
    let (words, ready) = fixture(&stage, &["sleep"]);
    let options = ["--op", "holder", "--lease", "x", "--driver", "reaper"];
    let holder = run(&stage, &options, &words).start();
    stage.wait_ready(&ready);
    let options = ["--op", "waiter", "--lease", "x", "--wait", "10m"];
    let waiter = run(&stage, &options, &["true"]).start();
    let pause = stage.xioflow().args(["pause", "holder"]).finish();
    pause.assert_code(0);
    let states = || -> Vec<(Value, Value)> {
        let line = look(&stage);
        let operations = line["operations"].as_array().expect("a list").iter();
        let mut states: Vec<_> = operations
            .map(|it| (it["operationId"].clone(), it["state"].clone()))
            .collect();
        states.sort_by_key(|(id, _)| id.to_string());
        states
    };
    let expected = [("holder", "paused"), ("waiter", "waiting")];
    let expected = expected.map(|(id, state)| (json!(id), json!(state)));
    wait::until("the other waits", Deadline::usual(), || {
        states() == expected
    });
    end(holder);
    waiter.finish().assert_code(0);
}

#[test]
fn a_share_of_processors_comes_with_the_second_look() {
    let stage = Stage::new();
    let words = shell(": > ready; while :; do :; done");
    let client = run(&stage, &["--op", "hot", "--driver", "reaper"], &words).start();
    wait::file(&stage.path("ready"), Deadline::usual());
    let words = [
        "list",
        "--watch",
        "--json",
        "--times",
        "2",
        "--interval",
        "500ms",
    ];
    let finished = stage.xioflow().args(words).finish();
    finished.assert_code(0);
    let lines: Vec<Value> = serde_json::Deserializer::from_slice(&finished.stdout)
        .into_iter()
        .map(|line| line.expect("one document a line"))
        .collect();
    let shares: Vec<&Value> = lines
        .iter()
        .map(|it| &it["operations"][0]["milliCpus"])
        .collect();
    assert_eq!((lines.len(), shares[0]), (2, &Value::Null), "{finished}");
    assert!(shares[1].as_u64() > Some(0), "{finished}");
    end(client);
}

#[test]
fn lines_are_plain_where_there_is_no_terminal() {
    let stage = Stage::new();
    let client = begin(&stage, "tree", false);
    let words = ["list", "--watch", "--times", "2", "--interval", "100ms"];
    let finished = stage.xioflow().args(words).finish();
    finished.assert_code(0).assert_stderr("");
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "a head, and a line of each look: {text}");
    assert!(
        lines[0].starts_with("OPERATION") && lines[2].starts_with("tree"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text:?}");
    end(client);
}

#[test]
fn a_terminal_is_as_it_was_after_ctrl_c() {
    let stage = Stage::new();
    let client = begin(&stage, "tree", false);
    let words = ["list", "--watch", "--interval", "100ms"];
    let mut terminal = stage.xioflow().args(words).start_on_terminal();
    terminal.wait_for("\x1b[?1049h\x1b[?25l");
    terminal.wait_for("tree");
    terminal.type_in(b"\x03");
    terminal.wait_for("\x1b[?25h\x1b[?1049l");
    let (code, _) = terminal.finish();
    assert_eq!(code, Some(130));
    end(client);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let stage = Stage::new();
    for words in [
        &["list", "--watch", "--follow"][..],
        &["list", "--watch", "--limit", "3"],
        &["list", "--times", "3"],
        &["list", "--watch", "--interval", "10ms"],
    ] {
        stage.xioflow().args(words).finish().assert_code(64);
    }
}
