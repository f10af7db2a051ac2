//! What is asked of the record has the same documents as the command line.

use serde_json::{Value, json};
use xioflow_kit::Stage;

use crate::common::Arbiter;

fn printed(stage: &Stage, args: &[&str]) -> Value {
    let run = stage.xioflow().args(args).finish();
    run.assert_code(0);
    run.json()
}

#[test]
fn documents_are_those_of_the_command_line() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let id = client.submit(
        "echo out; exit 4",
        json!({ "operationId": "a", "leases": ["x"] }),
    );
    client.result(id);
    let id = client.submit(
        "printf '\\377'",
        json!({ "operationId": "b", "name": "bytes" }),
    );
    client.result(id);
    let running = client.submit("sleep 600", json!({ "operationId": "c" }));

    for name in ["a", "b", "c"] {
        let got = client.call("op.get", json!({ "operationId": name }));
        assert_eq!(got, printed(&stage, &["show", name, "--json"]));
    }
    let listed = client.call("op.list", json!({}));
    assert_eq!(listed, printed(&stage, &["list", "--json"]));
    assert_eq!(listed["operations"].as_array().unwrap().len(), 3);
    let unfinished = client.call("op.list", json!({ "unfinished": true, "limit": 1 }));
    assert_eq!(
        unfinished,
        printed(&stage, &["list", "--unfinished", "--json"])
    );
    let events = client.call("journal.read", json!({}));
    let on_record = printed(&stage, &["events", "--json"]);
    assert_eq!(events["events"], on_record["events"]);
    let last = on_record["events"].as_array().unwrap().last().unwrap()["seq"].clone();
    assert_eq!(events["after"], last);
    let of_a = client.call("journal.read", json!({ "operationId": "a", "limit": 2 }));
    assert_eq!(of_a["events"].as_array().unwrap().len(), 2);
    let next = client.call("journal.read", json!({ "after": last }));
    assert_eq!(next, json!({ "events": [], "after": last }));

    client.call("op.stop", json!({ "request": running, "graceMs": 0 }));
    client.result(running);
}

#[test]
fn what_is_not_there_or_too_much_has_a_name() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let none = client.refused("op.get", json!({ "operationId": "none" }));
    assert_eq!(none["data"]["kind"], "not_found");
    for limit in [0, 1001, u32::MAX] {
        let refused = client.refused("op.list", json!({ "limit": limit }));
        assert_eq!(refused["data"]["kind"], "invalid", "{limit}");
    }
    let output = json!({ "operationId": "none", "stream": "stdout" });
    assert_eq!(
        client.refused("artifacts.read", output)["data"]["kind"],
        "not_found"
    );
    assert_eq!(
        client.call("recovery.lastReport", json!({})),
        json!({ "decisions": [] })
    );
}

#[test]
fn much_output_is_left_out_of_a_document_that_says_so() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let id = client.submit(
        "head -c 3000000 /dev/zero",
        json!({ "operationId": "much" }),
    );
    client.ended(id);
    let got = client.call("op.get", json!({ "operationId": "much" }));
    assert_eq!(got["outputOmitted"], true);
    assert_eq!(got["result"]["stdout"], "");
    assert_eq!(got["result"]["stdoutBytes"], 3_000_000);
    let read =
        json!({ "operationId": "much", "stream": "stdout", "from": 2_999_000, "maxBytes": 5000 });
    let read = client.call("artifacts.read", read);
    assert_eq!(read["len"], 3_000_000);
    assert_eq!(read["complete"], true);
    assert_eq!(
        read["base64"].as_str().unwrap().len(),
        1000_usize.div_ceil(3) * 4
    );
}

#[test]
fn runs_and_tasks_are_opened_found_and_ended() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let task = client.call(
        "task.save",
        json!({ "name": "nightly", "meta": { "a": 1 } }),
    );
    let run = client.call(
        "run.open",
        json!({ "taskId": task["taskId"], "config": {} }),
    );
    let run = run["runId"].clone();
    assert_eq!(
        client.call("run.find", json!({ "runId": run }))["runId"],
        run
    );
    let id = client.submit("sleep 600", json!({ "runId": run }));
    let report = json!({ "runId": run, "status": "succeeded" });
    let refused = client.refused("run.report", report.clone());
    assert_eq!(refused["data"]["kind"], "run_unfinished");
    client.call("op.stop", json!({ "request": id, "graceMs": 0 }));
    assert_eq!(client.result(id)["runId"], run);
    for _ in 0..2 {
        assert_eq!(
            client.call("run.report", report.clone())["status"],
            "succeeded"
        );
    }
    let other = client.refused("run.report", json!({ "runId": run, "status": "cancelled" }));
    assert_eq!(other["data"]["kind"], "run_ended");
    let late = client.refused(
        "op.execProcess",
        crate::common::shell("true", json!({ "runId": run })),
    );
    assert_eq!(late["data"]["kind"], "run_closed");
    assert_eq!(
        client.refused("run.find", json!({ "runId": run }))["data"]["kind"],
        "run_ended"
    );
    for (params, kind) in [
        (
            json!({ "runId": "none", "status": "succeeded" }),
            "run_not_found",
        ),
        (json!({ "runId": run, "status": "failed" }), "invalid"),
        (
            json!({ "runId": run, "status": "failed", "reason": "no such" }),
            "invalid",
        ),
        (json!({ "runId": run, "status": "running" }), "invalid"),
    ] {
        assert_eq!(client.refused("run.report", params)["data"]["kind"], kind);
    }
    assert_eq!(
        client.refused("run.open", json!({ "taskId": "none" }))["data"]["kind"],
        "not_found"
    );
}

#[test]
fn a_subscriber_is_told_what_is_recorded_as_it_is() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut client, mut watcher, mut of_one) =
        (arbiter.client(), arbiter.client(), arbiter.client());
    let id = client.submit("true", json!({ "operationId": "before" }));
    client.result(id);
    let all = watcher.call("journal.subscribe", json!({ "after": 0 }));
    assert_eq!(all["after"], 0);
    of_one.call("journal.subscribe", json!({ "operationId": "after" }));
    let twice = watcher.refused("journal.subscribe", json!({}));
    assert_eq!(twice["data"]["kind"], "invalid");
    let id = client.submit("true", json!({ "operationId": "after" }));
    client.result(id);
    let is_end = |it: &Value| {
        let event = &it["params"]["event"];
        event["type"] == "OPERATION_RESULT_RECORDED" && event["operationId"] == "after"
    };
    watcher.wait_for("the end of it", is_end);
    of_one.wait_for("the end of it", is_end);
    assert!(
        of_one
            .kept
            .iter()
            .all(|it| it["params"]["event"]["operationId"] == "after")
    );
    let on_record = printed(&stage, &["events", "--json"]);
    let told: Vec<_> = watcher
        .kept
        .iter()
        .map(|it| it["params"]["event"].clone())
        .collect();
    let before: Vec<_> = on_record["events"]
        .as_array()
        .unwrap()
        .iter()
        .take(told.len())
        .cloned()
        .collect();
    assert_eq!(told, before);
}
