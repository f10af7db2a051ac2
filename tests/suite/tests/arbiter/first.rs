//! Many clients at once where there is no arbiter yet: one comes of it.

use std::fs;

use serde_json::{Value, json};
use xioflow_kit::{Deadline, Stage, wait};

use crate::client::{Orders, said, say, start};
use crate::number;

/// Clients that come at once.
const CLIENTS: usize = 50;
/// How often, each time to a domain that nobody has used; `XIOFLOW_TEST_ROUNDS` says otherwise.
const ROUNDS: usize = 30;

/// One client: waits for all others to be there, and comes to the arbiter.
pub(crate) fn client(orders: &Orders) {
    say(&json!({ "here": true }));
    wait::file(&orders.path("go"), Deadline::after(Deadline::USUAL * 4));
    let domain = orders.starting().open(orders.path("domain"));
    let domain = domain.expect("an arbiter");
    let arbiter = domain.arbiter().expect("it was to be started");
    say(&json!({ "pid": arbiter.pid, "started": arbiter.was_started }));
}

#[test]
fn however_many_come_at_once_there_is_one_arbiter() {
    let stage = Stage::new();
    for round in 0..number("XIOFLOW_TEST_ROUNDS", ROUNDS) {
        let domain = stage.path(format!("domain-{round}"));
        if round % 2 == 0 {
            stage
                .run("mkdir")
                .args(["-m", "700"])
                .arg(&domain)
                .finish()
                .assert_code(0);
        }
        let go = stage.path(format!("go-{round}"));
        let orders = json!({ "domain": domain, "go": go });
        assert_one(&stage, &orders, &go);
        let log = fs::read_to_string(domain.join("arbiter.log")).expect("its log");
        assert_eq!(log, "", "round {round}");
        stage.end_arbiters();
    }
}

/// Has them come, and looks whose clients they are.
fn assert_one(stage: &Stage, orders: &Value, go: &std::path::Path) {
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|_| start(stage, "first", orders, Deadline::USUAL * 4))
        .collect();
    for client in &mut clients {
        client.wait_for_output(b"here");
    }
    fs::write(go, "").expect("a file of the stage");
    let reports: Vec<Value> = clients.into_iter().map(|it| said(&it.finish())).collect();
    let arbiters = stage.arbiters();
    assert_eq!(arbiters.len(), 1, "{arbiters:?}");
    let theirs = |report: &&Value| report["pid"] == arbiters[0];
    assert_eq!(
        reports.iter().filter(theirs).count(),
        CLIENTS,
        "{reports:?}"
    );
    let starters = reports.iter().filter(|report| report["started"] == true);
    assert_eq!(starters.count(), 1, "{reports:?}");
}
