//! How an arbiter begins and ends: the socket, idleness, the wishes of clients and of signals.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use serde_json::json;
use xioflow_arbiter::{Ended, ServeError, SocketError, serve};
use xioflow_kernel::DomainOptions;
use xioflow_kernel::journal::{OwnerRole, OwnerState, Reader};
use xioflow_kit::Stage;

use crate::common::{Arbiter, options, shell};

#[test]
fn one_that_nobody_needs_ends_and_gives_everything_back() {
    let stage = Stage::new();
    let mut idle = options(&stage);
    idle.idle = Some(Duration::from_millis(50));
    let arbiter = Arbiter::start_with(&stage, idle);
    let socket = arbiter.socket();
    assert_eq!(arbiter.wait(), Ended::Idle);
    assert!(!socket.exists());
    // The domain can be had at once.
    let helper = stage.program("xioflow-reaper");
    DomainOptions::default()
        .helper(helper)
        .open(stage.domain())
        .unwrap();
}

#[test]
fn a_connection_or_a_detached_operation_keeps_it() {
    let stage = Stage::new();
    let mut idle = options(&stage);
    idle.idle = Some(Duration::from_millis(50));
    let arbiter = Arbiter::start_with(&stage, idle);
    let mut client = arbiter.client();
    // Far longer than it may be idle: the connection keeps it.
    let id = client.submit("sleep 0.3; echo kept", json!({}));
    assert_eq!(client.result(id)["stdout"], "kept\n");
    client.submit(
        "sleep 0.3; touch done",
        json!({ "detached": true, "command": {
            "program": "/bin/sh", "args": ["-c", "sleep 0.3; touch done"], "cwd": stage.path(""),
            "env": [["PATH", "/usr/bin:/bin"]],
        }}),
    );
    drop(client);
    assert_eq!(arbiter.wait(), Ended::Idle);
    assert!(stage.path("done").exists(), "the operation was waited for");
}

#[test]
fn what_is_stale_is_replaced_and_what_was_planted_is_named() {
    let stage = Stage::new();
    fs::create_dir(stage.domain()).unwrap();
    fs::set_permissions(stage.domain(), fs::Permissions::from_mode(0o700)).unwrap();
    let socket = stage.domain().join("kernel.sock");
    // Closed without being removed, as after a kill.
    drop(UnixListener::bind(&socket).unwrap());
    let arbiter = Arbiter::start(&stage);
    let mode = fs::metadata(&socket).unwrap();
    assert!(mode.file_type().is_socket());
    assert_eq!(mode.permissions().mode() & 0o7777, 0o600);
    arbiter.client();
    drop(arbiter);

    fs::write(&socket, "no socket").unwrap();
    let file = serve(&stage.domain(), options(&stage), || ()).unwrap_err();
    assert!(
        matches!(
            &file,
            ServeError::Socket(SocketError::Planted { what: "a file", .. })
        ),
        "{file}"
    );
    assert_eq!(fs::read_to_string(&socket).unwrap(), "no socket");
    fs::remove_file(&socket).unwrap();
    symlink("/dev/null", &socket).unwrap();
    let link = serve(&stage.domain(), options(&stage), || ()).unwrap_err();
    assert!(
        matches!(
            &link,
            ServeError::Socket(SocketError::Planted {
                what: "a symbolic link",
                ..
            })
        ),
        "{link}"
    );
    // It has given the domain up all the same.
    fs::remove_file(&socket).unwrap();
    let arbiter = Arbiter::start(&stage);
    arbiter.client();
    // Whoever finds the domain owned can read that this is an arbiter.
    let owner = Reader::open(stage.domain()).unwrap().owner_state();
    let OwnerState::Held { note: Some(note) } = owner else {
        panic!("{owner:?}")
    };
    assert_eq!(note.role, Some(OwnerRole::Arbiter));
}

#[test]
fn a_socket_that_is_another_ones_by_now_is_left_alone() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let socket = arbiter.socket();
    fs::remove_file(&socket).unwrap();
    let other = UnixListener::bind(&socket).unwrap();
    drop(arbiter);
    assert!(socket.exists());
    drop(other);
}

#[test]
fn a_domain_with_a_long_path_has_a_socket_too() {
    let stage = Stage::new();
    let mut folder = stage.root().join("long");
    for _ in 0..4 {
        folder.push("a".repeat(60));
    }
    let handle = xioflow_arbiter::ShutdownHandle::new().unwrap();
    let mut options = options(&stage);
    options.shutdown = Some(handle.clone());
    let ended = serve(&folder, options, || {
        assert!(folder.join("kernel.sock").exists());
        handle.stop(Duration::ZERO);
    });
    assert_eq!(ended.unwrap(), Ended::Told);
}

#[test]
fn told_to_stop_it_stops_what_runs_and_tells_the_result() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut client, mut other) = (arbiter.client(), arbiter.client());
    let id = client.submit("sleep 600", json!({ "leases": ["one"] }));
    let waits = client.send(
        "op.execProcess",
        shell("true", json!({ "leases": ["one"], "waitMs": 600_000 })),
    );
    let begun = other.call(
        "kernel.shutdown",
        json!({ "running": "stop", "graceMs": 0 }),
    );
    assert_eq!(begun["operations"], 2);
    assert_eq!(client.result(id)["status"], "cancelled");
    let refused = client.answer(waits);
    let told = refused["error"]["data"]["kind"] == "domain_closed"
        || client.result(waits)["status"] == "cancelled";
    assert!(told, "{refused}");
    assert_eq!(arbiter.wait(), Ended::Told);
    client.wait_closed();
    other.wait_closed();
}

#[test]
fn while_it_waits_for_what_runs_that_can_be_cancelled() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut client, mut other) = (arbiter.client(), arbiter.client());
    let id = client.submit("sleep 600", json!({ "operationId": "long" }));
    other.call("kernel.shutdown", json!({ "running": "wait" }));
    assert_eq!(other.call("domain.status", json!({}))["shuttingDown"], true);
    other.call("op.cancel", json!({ "operationId": "long", "graceMs": 0 }));
    assert_eq!(client.result(id)["status"], "cancelled");
    assert_eq!(arbiter.wait(), Ended::Told);
}

#[test]
fn a_client_that_reads_nothing_does_not_keep_it_from_ending() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let mut lazy = arbiter.client();
    lazy.send(
        "op.execProcess",
        shell(
            "head -c 4000000 /dev/zero",
            json!({ "output": "chunks", "operationId": "much" }),
        ),
    );
    let mut other = arbiter.client();
    let id = other.send(
        "op.execProcess",
        shell(
            "head -c 4000000 /dev/zero",
            json!({ "operationId": "much" }),
        ),
    );
    other.ended(id);
    arbiter.shutdown.stop(Duration::ZERO);
    assert_eq!(arbiter.wait(), Ended::Told);
}

#[test]
fn whoever_only_waits_for_what_is_stopped_gets_its_result() {
    let stage = Stage::new();
    let arbiter = Arbiter::start(&stage);
    let (mut first, mut second, mut third) = (arbiter.client(), arbiter.client(), arbiter.client());
    let more = json!({ "operationId": "shared" });
    let executed = first.submit("sleep 600", more.clone());
    let joined = second.submit("sleep 600", more.clone());
    let attached = third.send("op.attach", more);
    third.answer(attached);
    arbiter.shutdown.stop(Duration::ZERO);
    for (client, id) in [
        (&mut first, executed),
        (&mut second, joined),
        (&mut third, attached),
    ] {
        assert_eq!(client.result(id)["status"], "cancelled");
    }
    assert_eq!(arbiter.wait(), Ended::Told);
}
