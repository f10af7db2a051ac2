//! Nothing is served before a greeting, and what is said wrongly has a name.

use std::os::unix::process::CommandExt;

use serde_json::json;
use xioflow_kit::Stage;

use crate::common::{Arbiter, Client, shell};

#[test]
fn the_first_request_greets_and_no_other_does() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.connect();
    for (method, params) in [
        ("op.execProcess", shell("touch ran", json!({}))),
        ("domain.status", json!({})),
        ("kernel.shutdown", json!({ "running": "refuse" })),
    ] {
        let refused = client.refused(method, params);
        assert_eq!(refused["data"]["kind"], "not_greeted", "{method}");
    }
    let welcome = client.greet();
    assert_eq!(welcome["pid"], std::process::id());
    assert_eq!(welcome["protocol"], xioflow_rpc::PROTOCOL_VERSION);
    let hello = json!({ "protocol": 1, "release": "0" });
    let twice = client.refused("kernel.hello", hello);
    assert_eq!(twice["data"]["kind"], "not_greeted");
    // It goes on all the same.
    assert_eq!(client.call("domain.status", json!({}))["connections"], 1);
}

#[test]
fn another_protocol_is_told_who_is_there_and_may_end_it() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.connect();
    let hello = json!({ "protocol": 999, "release": "9.9.9", "client": "later", "news": 1 });
    let refused = client.refused("kernel.hello", hello);
    assert_eq!(refused["data"]["kind"], "version");
    let subject = &refused["data"]["subject"];
    assert_eq!(subject["protocol"], xioflow_rpc::PROTOCOL_VERSION);
    assert_eq!(subject["operations"], 0);
    assert!(subject["release"].is_string());
    let other = client.refused("domain.status", json!({}));
    assert_eq!(other["data"]["kind"], "not_greeted");
    client.call("kernel.shutdown", json!({ "running": "refuse" }));
    arbiter.wait();
    client.wait_closed();
}

#[test]
fn what_is_no_request_is_answered_and_costs_nothing_else() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    for (line, code) in [
        ("", -32700),
        ("nonsense", -32700),
        ("[]", -32600),
        ("{}", -32600),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"domain.status"}"#,
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","method":"domain.status"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":7,"method":"no.such"}"#, -32601),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"op.get","params":{}}"#,
            -32602,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"op.get","params":{"operationId":"a","more":1}}"#,
            -32602,
        ),
        ("\u{0}\u{1}", -32700),
    ] {
        client.say(format!("{line}\n").as_bytes(), &[]);
        let answer = client.receive().unwrap();
        assert_eq!(answer["error"]["code"], code, "{line:?}: {answer}");
    }
    client.say(b"\xff\xfe\n", &[]);
    assert_eq!(client.receive().unwrap()["error"]["code"], -32700);
    assert_eq!(client.call("domain.status", json!({}))["connections"], 1);
}

#[test]
fn two_requests_of_a_connection_cannot_have_one_name() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut client = arbiter.client();
    let id = client.submit("sleep 600", json!({ "operationId": "first" }));
    let again = json!({
        "jsonrpc": "2.0", "id": id, "method": "op.execProcess",
        "params": shell("sleep 600", json!({ "operationId": "second" })),
    });
    client.say(format!("{again}\n").as_bytes(), &[]);
    let answer = client.answer(id);
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    client.call("op.stop", json!({ "request": id, "graceMs": 0 }));
    assert_eq!(client.result(id)["operationId"], "first");
}

/// Where the other half of the next test finds the arbiter.
const SOCKET_VARIABLE: &str = "XIOFLOW_TEST_SOCKET";

#[test]
fn whoever_has_other_rights_is_refused_and_told_which() {
    if !xioflow_kit::running_as_root() {
        eprintln!("skipped: only root can start a process with another group");
        return;
    }
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let other = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "greeting::as_somebody_with_another_group",
            "--ignored",
        ])
        .env(SOCKET_VARIABLE, arbiter.socket())
        .gid(65534)
        .status();
    assert!(other.unwrap().success());
}

#[test]
#[ignore = "the other half of a test, started by it with another group"]
fn as_somebody_with_another_group() {
    let socket = std::env::var_os(SOCKET_VARIABLE).unwrap();
    let mut client = Client::over(std::os::unix::net::UnixStream::connect(socket).unwrap());
    let hello = json!({ "protocol": xioflow_rpc::PROTOCOL_VERSION, "release": "0" });
    let refused = client.refused("kernel.hello", hello);
    assert_eq!(refused["data"]["kind"], "standing");
    let differs = refused["data"]["subject"]["differs"].as_array().unwrap();
    assert!(differs.iter().any(|it| it == "gid"), "{differs:?}");
    client.wait_closed();
}
