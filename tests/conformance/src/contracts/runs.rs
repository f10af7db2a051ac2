//! Runs: the order of events in them, what blocks their end, what changes them.

use serde_json::json;

use crate::contract::{Contract, Level, Outcome};
use crate::ways::{Client, Event, RefusalKind};
use crate::world::World;

pub(super) const CONTRACTS: &[Contract] = &[
    Contract {
        number: 17,
        title: "the order of events is the same in every Run",
        level: Level::Record,
        check: order,
    },
    Contract {
        number: 21,
        title: "a Run does not end before its operations",
        level: Level::Host,
        check: blocked_end,
    },
    Contract {
        number: 43,
        title: "a failing operation leaves its Run alone",
        level: Level::Host,
        check: failure_stays_inside,
    },
];

/// What happens in a Run with one operation that has no resources.
const ORDER: [&str; 4] = [
    "OPERATION_INTENT_REGISTERED",
    "OPERATION_STATUS_TRANSITION active",
    "OPERATION_RESULT_RECORDED",
    "RUN_STATUS_TRANSITION succeeded",
];

fn order(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    client
        .submit(&world.traced("own"))?
        .wait()
        .expect("a result");
    let own = client.record("own").expect("a record").run_id;
    assert_order(&*client, &own, "own", &ORDER);
    let leased = world.traced("leased").lease("db");
    client.submit(&leased)?.wait().expect("a result");
    let run = client.record("leased").expect("a record").run_id;
    let [intent, active, result, ended] = ORDER;
    let with_release = [intent, active, result, "RESOURCES_RELEASED", ended];
    assert_order(&*client, &run, "leased", &with_release);
    // The same in a Run of a host, where there are such Runs.
    if let Ok(run) = client.begin_run() {
        let work = world.traced("hosted");
        run.submit(&work)?.wait().expect("a result");
        run.report_succeeded().expect("nothing is open");
        assert_order(&*client, run.id(), "hosted", &ORDER);
    }
    let positions: Vec<_> = client.events().iter().map(|event| event.seq).collect();
    assert!(
        positions.is_sorted_by(|one, next| one < next),
        "{positions:?}"
    );
    Ok(())
}

/// Checks all events of a Run, and that those of its operation are of it.
fn assert_order(client: &dyn Client, run: &str, operation: &str, expected: &[&str]) {
    let events: Vec<_> = client
        .events()
        .into_iter()
        .filter(|event| event.run_id.as_deref() == Some(run))
        .collect();
    let told: Vec<_> = events.iter().map(told).collect();
    assert!(told == expected, "{told:?} of {events:#?}");
    for event in &events[..events.len() - 1] {
        assert_eq!(event.operation_id.as_deref(), Some(operation), "{event:#?}");
    }
    let [intent, active] = [&events[0].payload, &events[1].payload];
    assert_eq!(intent["spawnGated"], json!(true), "{intent:#}");
    assert!(active["processIdentity"]["pid"].is_u64(), "{active:#}");
}

/// The kind of an event, with the status that it is about.
fn told(event: &Event) -> String {
    match event.payload["status"].as_str() {
        Some(status) => format!("{} {status}", event.kind),
        None => event.kind.clone(),
    }
}

fn blocked_end(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let run = client.begin_run()?;
    let (work, mut gate) = world.gated("open");
    let submitted = run.submit(&work)?;
    gate.wait_reached();
    let refusal = run.report_succeeded().expect_err("an operation is open");
    refusal.assert(RefusalKind::RunUnfinished, &[run.id(), "open"]);
    assert_eq!(run.status(), "running");
    gate.open();
    submitted.wait().expect("a result");
    assert_eq!(run.report_succeeded(), Ok("succeeded".to_owned()));
    // Again is no error, and nothing new.
    let events = client.events();
    assert_eq!(run.report_succeeded(), Ok("succeeded".to_owned()));
    assert_eq!(client.events(), events);

    let unclear = client.begin_run()?;
    world.indeterminate("unclear", "db", |work| unclear.submit(work))?;
    assert_eq!(unclear.report_succeeded(), Ok("indeterminate".to_owned()));
    assert_eq!(unclear.status(), "indeterminate");
    Ok(())
}

fn failure_stays_inside(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let run = client.begin_run()?;
    for (id, mode) in [
        ("failed", &["exit", "1"][..]),
        ("killed", &["die-by-signal", "9"]),
    ] {
        let result = run.submit(&world.fixture(id, mode))?.wait();
        result
            .expect("a result")
            .assert(&json!({ "status": "failed" }));
        assert_eq!(run.status(), "running");
    }
    let missing = world.program("missing", "/nonexistent/program");
    run.submit(&missing)?.wait().expect("a result");
    assert_eq!(run.status(), "running");
    assert_eq!(run.report_failed(), Ok("failed".to_owned()));
    let refusal = run.report_succeeded().expect_err("it has ended");
    refusal.assert(RefusalKind::RunClosed, &[run.id(), "failed"]);
    let late = run.submit(&world.traced("late").lease("db"))?.wait();
    late.expect_err("the run has ended")
        .assert(RefusalKind::RunClosed, &[run.id()]);
    assert_eq!(client.record("late"), None);
    assert_eq!(client.leases(), []);
    // Nor is anything answered in it from the record.
    let replay = run.submit(&world.fixture("failed", &["exit", "1"]))?.wait();
    replay
        .expect_err("the run has ended")
        .assert(RefusalKind::RunClosed, &[run.id()]);
    assert_eq!(world.ran(), Vec::<String>::new());
    Ok(())
}
