//! The way of one command through an arbiter: greeting, submission, output, result, end.

use std::os::fd::AsFd;

use crate::common::{Arbiter, pipe, read_all, shell};
use serde_json::json;
use xioflow_arbiter::Ended;
use xioflow_kit::Stage;

#[test]
fn a_command_is_accepted_and_its_result_comes_once() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let id = client.submit(
        "echo out; echo err >&2; exit 3",
        json!({ "operationId": "one" }),
    );
    let result = client.result(id);
    assert_eq!(result["operationId"], "one");
    assert_eq!(result["exitCode"], 3);
    assert_eq!(result["stdout"], "out\n");
    assert_eq!(result["stderr"], "err\n");
    // Again it is answered from the record, in the same way.
    let id = client.submit(
        "echo out; echo err >&2; exit 3",
        json!({ "operationId": "one" }),
    );
    let again = client.result(id);
    assert_eq!(again["reused"], "replayed_recorded");
    assert_eq!(again["stdout"], "out\n");
    assert!(client.kept.is_empty(), "{:?}", client.kept);
}

#[test]
fn output_goes_to_the_descriptors_that_came_along_and_their_end_is_seen() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let ((out, to_out), (err, to_err)) = (pipe(), pipe());
    let more = json!({ "output": "descriptors", "descriptors": ["stdout", "stderr"] });
    let id = client.submit_with(
        "echo one; echo two >&2",
        more,
        &[to_out.as_fd(), to_err.as_fd()],
    );
    drop((to_out, to_err));
    assert_eq!(read_all(out), b"one\n");
    assert_eq!(read_all(err), b"two\n");
    assert_eq!(client.result(id)["exitCode"], 0);
}

#[test]
fn whoever_asks_can_stop_it_by_its_id_or_by_its_request() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut client, mut other) = (arbiter.client(), arbiter.client());
    let id = client.submit("sleep 600", json!({ "operationId": "long" }));
    other.call("op.cancel", json!({ "operationId": "long", "graceMs": 0 }));
    assert_eq!(client.result(id)["status"], "cancelled");
    let late = other.refused("op.cancel", json!({ "operationId": "long" }));
    assert_eq!(late["data"]["kind"], "already_completed");
    let none = other.refused("op.cancel", json!({ "operationId": "none" }));
    assert_eq!(none["data"]["kind"], "not_found");

    // Without a wait for the acceptance: the stop finds it all the same.
    let id = client.send("op.execProcess", shell("sleep 600", json!({})));
    client.call("op.stop", json!({ "request": id, "manner": "kill" }));
    assert_eq!(client.result(id)["status"], "cancelled");
}

#[test]
fn it_refuses_to_end_while_something_runs_and_ends_when_told_to_wait() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let socket = arbiter.socket();
    let (mut client, mut other) = (arbiter.client(), arbiter.client());
    let (gate, open) = pipe();
    let more = json!({ "stdin": { "from": "descriptor" }, "descriptors": ["stdin"] });
    let id = client.submit_with("read line", more, &[gate.as_fd()]);
    let refused = other.refused("kernel.shutdown", json!({ "running": "refuse" }));
    assert_eq!(refused["data"]["kind"], "running");
    assert_eq!(refused["data"]["subject"]["operations"], 1);
    let begun = other.call("kernel.shutdown", json!({ "running": "wait" }));
    assert_eq!(begun["operations"], 1);
    let late = other.refused("op.execProcess", shell("true", json!({})));
    assert_eq!(late["data"]["kind"], "shutting_down");
    drop(open);
    assert_eq!(client.result(id)["exitCode"], 1);
    assert_eq!(arbiter.wait(), Ended::Told);
    client.wait_closed();
    assert!(!socket.exists());
}

#[test]
fn a_command_has_what_its_caller_has() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let nofile = rustix::process::Resource::Nofile as u32;
    let caller = json!({
        "folder": stage.path(""),
        "variables": [["PATH", "/usr/bin:/bin"], ["MARK", "mine"], ["OTHER", "not"]],
        "umask": 0o027,
        "nice": 5,
        "limits": [{ "resource": nofile, "soft": 123, "hard": 456 }],
    });
    let script = "pwd; umask; nice; ulimit -Sn; ulimit -Hn; echo $MARK $OTHER; cat";
    stage.write("in", "input\n", 0o600);
    let id = client.send(
        "op.execProcess",
        json!({
            "command": {
                "program": "/bin/sh", "args": ["-c", script],
                "env": [["PATH", null], ["MARK", null]],
            },
            "stdin": { "from": "file", "path": "in" },
            "caller": caller,
        }),
    );
    let here = stage.path("");
    let expected = format!(
        "{}\n0027\n5\n123\n456\nmine\ninput\n",
        here.display().to_string().trim_end_matches('/')
    );
    assert_eq!(client.result(id)["stdout"], expected);
    // One that says nothing gets the limit that this process was started with, and nothing of its variables.
    let id = client.submit("ulimit -Sn; env", json!({ "command": {
        "program": "/bin/sh", "args": ["-c", "echo \"$HOME\"; command -p env"], "cwd": "/", "inheritEnv": true,
    }}));
    let stdout = client.result(id)["stdout"].as_str().unwrap().to_owned();
    assert!(!stdout.contains("HOME="), "{stdout}");
    // Where nothing is said of a folder, no path can be relative.
    for command in [
        json!({ "program": "/bin/true" }),
        json!({ "program": "/bin/true", "cwd": "work" }),
    ] {
        let refused = client.refused("op.execProcess", json!({ "command": command }));
        assert_eq!(refused["data"]["kind"], "invalid");
    }
    let gone = json!({ "folder": "/was/here", "folderGone": 2 });
    let id = client.send(
        "op.execProcess",
        json!({ "command": { "program": "/bin/true" }, "caller": gone }),
    );
    assert_eq!(client.result(id)["spawnFailure"]["code"], "ENOENT");
}
