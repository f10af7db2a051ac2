//! An arbiter that is killed at any moment while its clients work: each of them gets an answer, the next
//! one settles what was left, and nothing is done twice.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use xioflow_kernel::journal::{Operation, OperationStatus, Outcome, OwnerState, Query, Reader};
use xioflow_kernel::{Domain, DomainError, ExecuteError};
use xioflow_kit::{Chance, Deadline, Stage, each_user, wait};

use crate::client::{Orders, said, say, shell, start, total};
use crate::{number, record, recorded};

/// How often it is killed; `XIOFLOW_TEST_KILLS` says otherwise.
const KILLS: usize = 20;
/// Clients that work meanwhile.
const CLIENTS: usize = 6;
/// When it is killed at the latest, from the moment when it serves.
const MOMENTS: Duration = Duration::from_millis(250);
/// How long a client has to its end in all.
const PATIENCE: Duration = Duration::from_secs(180);

/// One client: submits one operation after the other until it is told to stop. One whose arbiter was lost
/// is submitted once more, by the same id, which answers it from the record or executes it.
pub(crate) fn client(orders: &Orders) {
    let (index, stop, ledger) = (
        orders.number("index"),
        orders.path("stop"),
        orders.path("ledger"),
    );
    let mut domain = open(orders);
    let (mut asked, mut lost) = (0, 0);
    while !stop.exists() {
        let id = format!("{index}-{asked}");
        asked += 1;
        while !is_answered(&domain, &id, &ledger) {
            lost += 1;
            domain = open(orders);
        }
    }
    say(&json!({ "asked": asked, "lost": lost }));
}

/// Submits it; false if its arbiter went away meanwhile.
fn is_answered(domain: &Domain, id: &str, ledger: &Path) -> bool {
    // Half of them go on for a while after what they do, so that many are in the middle of it.
    let goes_on = match id.ends_with(['0', '2', '4', '6', '8']) {
        true => "sleep 0.1",
        false => ":",
    };
    let script = format!("echo {id} >>{}; {goes_on}", ledger.display());
    let operation = domain.operation(shell(&script)).expect("a builder");
    match operation.id(id).lease("port:1").wait(PATIENCE).run() {
        Ok(_) => true,
        Err(ExecuteError::ArbiterLost { operation_id }) => {
            assert_eq!(operation_id, id);
            false
        }
        // Before it was submitted.
        Err(ExecuteError::Arbiter(error)) if is_loss(&error.to_string()) => false,
        Err(other) => panic!("{id}: {other:?}"),
    }
}

fn is_loss(error: &str) -> bool {
    error.contains("is gone; the next client starts another one")
}

/// Comes to the arbiter, which may be killed while it greets or before it serves. Each time somebody
/// says so.
fn open(orders: &Orders) -> Domain {
    let begun = Instant::now();
    loop {
        match orders.starting().open(orders.path("domain")) {
            Ok(domain) => return domain,
            Err(error @ (DomainError::Arbiter(_) | DomainError::StartArbiter(_))) => {
                say(&json!({ "again": format!("{error:?}") }));
                assert!(begun.elapsed() < PATIENCE, "{error:?}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_killed_arbiter_leaves_answers_and_nothing_else() {
    each_user(|stage| {
        let (ledger, stop) = (stage.path("ledger"), stage.path("stop"));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let orders = json!({ "index": index, "ledger": ledger, "stop": stop });
                start(stage, "persistent", &orders, PATIENCE)
            })
            .collect();
        let mut moments = Chance::new();
        let mut last = None;
        for _ in 0..number("XIOFLOW_TEST_KILLS", KILLS) {
            last = Some(kill_next(stage, last, moments.within(MOMENTS)));
        }
        std::fs::write(&stop, "").expect("a file of the stage");
        let reports: Vec<Value> = clients.into_iter().map(|it| said(&it.finish())).collect();
        let (asked, lost) = (total(&reports, "asked"), total(&reports, "lost"));
        assert!(lost > 0, "nobody has noticed anything: {reports:?}");
        let on_record = recorded(stage);
        assert_eq!(on_record.len(), asked);
        let outcomes = on_record.values().map(|it| it.outcome);
        let done = outcomes
            .filter(|it| *it == Some(Outcome::Succeeded))
            .count();
        eprintln!("{asked} asked for, {lost} losses, {done} done");
        let entries = crate::ledger(&ledger);
        for (id, operation) in &on_record {
            assert_settled(operation, entries.get(id).copied().unwrap_or(0));
        }
        assert_eq!(record(stage).leases().expect("readable"), []);
    });
}

/// Waits for an arbiter other than the last one, and kills it a moment later.
fn kill_next(stage: &Stage, last: Option<u32>, moment: Duration) -> u32 {
    let mut pid = last;
    wait::until("the next arbiter", Deadline::usual(), || {
        pid = owner(stage);
        pid.is_some() && pid != last
    });
    let pid = pid.expect("there is one");
    assert!(
        !wait::pid_gone(pid, Deadline::after(moment)),
        "{pid} has ended by itself"
    );
    stage
        .run("kill")
        .args(["-9", &pid.to_string()])
        .finish()
        .assert_code(0);
    assert!(wait::pid_gone(pid, Deadline::usual()));
    pid
}

/// Who owns the domain now, if anybody does.
fn owner(stage: &Stage) -> Option<u32> {
    match Reader::open(stage.domain()).ok()?.owner_state() {
        OwnerState::Held { note: Some(note) } => Some(note.owner_pid),
        _ => None,
    }
}

/// One with a result has done what it says, and none has done it twice.
fn assert_settled(operation: &Operation, times: usize) {
    assert_eq!(operation.status, OperationStatus::Done, "{operation:?}");
    match operation.outcome {
        Some(Outcome::Succeeded) => assert_eq!(times, 1, "{operation:?}"),
        Some(_) => assert!(times <= 1, "{times} times {operation:?}"),
        None => panic!("no outcome: {operation:?}"),
    }
}
