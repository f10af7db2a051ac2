//! Many clients with many short commands each, some of which want the same resources or have the same ids.

use std::time::Duration;

use serde_json::{Value, json};
use xioflow_kernel::journal::{OperationStatus, Outcome, Query};
use xioflow_kernel::{Domain, ExecuteError, OperationBuilder, Reuse};
use xioflow_kit::Stage;

use crate::client::{Orders, entering, said, say, shell, start, total};
use crate::serving::Serving;
use crate::{ledger, number, record, recorded, text};

/// Commands of each client, four of each kind.
const TURNS: usize = 20;
/// Resources that the clients share.
const RESOURCES: usize = 8;
/// Clients that have one id with the same inputs.
const SHARERS: usize = 4;
/// Clients that have one id with inputs of their own.
const RIVALS: usize = 2;
/// How many come; `XIOFLOW_TEST_CLIENTS` says otherwise.
const CLIENTS: usize = 200;
/// Long enough for a whole crowd on a slow machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// One client: five kinds of submissions by turns, and how often each came to what.
pub(crate) fn client(orders: &Orders) {
    let (domain, index) = (orders.attach(), orders.number("index"));
    let (mut executed, mut repeated, mut held, mut disputed) = (0, 0, 0, 0);
    for turn in 0..TURNS {
        match submit(orders, &domain, index, turn).run() {
            Ok(result) => {
                assert_eq!(result.status, Outcome::Succeeded, "{result:?}");
                match result.reused {
                    Reuse::Executed => executed += 1,
                    _ => repeated += 1,
                }
            }
            Err(ExecuteError::ResourceConflict { .. }) if turn % 5 == 2 => held += 1,
            Err(ExecuteError::IdConflict { .. }) if turn % 5 == 4 => disputed += 1,
            Err(other) => panic!("turn {turn} of client {index}: {other:?}"),
        }
    }
    let report = json!({
        "executed": executed, "repeated": repeated, "held": held, "disputed": disputed,
    });
    say(&report);
}

fn submit(orders: &Orders, domain: &Domain, index: usize, turn: usize) -> OperationBuilder {
    let ledger = orders.path("ledger");
    let resource = format!("shared:{}", index % RESOURCES);
    let with = |id: &str, command| domain.operation(command).expect("a builder").id(id);
    let plain = |id: &str| with(id, entering(&ledger, id));
    // Whoever holds the resource is the only one, or its folder is there already.
    let alone = |id: &str| {
        let place = orders.path("places").join(&resource);
        let place = text(&place);
        let enters = format!("echo {id} >>{}", ledger.display());
        let script = format!("mkdir {place} && {enters} && rmdir {place}");
        with(id, shell(&script)).lease(&resource)
    };
    match turn % 5 {
        0 => plain(&format!("own-{index}-{turn}")),
        1 => alone(&format!("waits-{index}-{turn}")).wait(PATIENCE),
        2 => alone(&format!("asks-{index}-{turn}")),
        3 => plain(&format!("shared-{}-{turn}", index / SHARERS)),
        _ => {
            let id = format!("disputed-{}-{turn}", index / RIVALS);
            let script = format!("echo {id} >>{}; : {index}", ledger.display());
            with(&id, shell(&script))
        }
    }
}

#[test]
fn everything_of_a_crowd_is_recorded_once() {
    let clients = number("XIOFLOW_TEST_CLIENTS", CLIENTS);
    assert_eq!(clients % SHARERS, 0, "whole groups of clients");
    let stage = Stage::new();
    let arbiter = Serving::start(&stage, &[]);
    let (ledger_path, places) = (stage.path("ledger"), stage.folder("places"));
    let started: Vec<_> = (0..clients)
        .map(|index| {
            let orders = json!({ "index": index, "ledger": ledger_path, "places": places });
            start(&stage, "crowd", &orders, PATIENCE)
        })
        .collect();
    let reports: Vec<Value> = started.into_iter().map(|it| said(&it.finish())).collect();
    let all = |name| total(&reports, name);
    let (of_a_kind, held) = (clients * TURNS / 5, all("held"));
    let distinct = 3 * of_a_kind - held + of_a_kind / SHARERS + of_a_kind / RIVALS;
    assert_eq!(all("executed"), distinct);
    assert_eq!(all("disputed"), of_a_kind - of_a_kind / RIVALS);
    assert_eq!(all("repeated"), of_a_kind - of_a_kind / SHARERS);
    assert_recorded_once(&stage, distinct);
    arbiter.end();
}

/// So many operations, each of which has succeeded and has run once, and nothing of them is left.
fn assert_recorded_once(stage: &Stage, distinct: usize) {
    let (operations, entries) = (recorded(stage), ledger(&stage.path("ledger")));
    assert_eq!((operations.len(), entries.len()), (distinct, distinct));
    for (id, operation) in &operations {
        assert_eq!(operation.status, OperationStatus::Done, "{id}");
        assert_eq!(operation.outcome, Some(Outcome::Succeeded), "{id}");
        assert_eq!(entries.get(id), Some(&1), "{id}");
    }
    assert_eq!(record(stage).leases().expect("readable"), []);
}
