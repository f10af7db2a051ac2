//! Resources: exclusive, waited for in order, and never freed while nobody knows.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use xioflow_kit::Deadline;

use crate::contract::{Contract, Level, Outcome, Unsupported};
use crate::ways::{Client, Lease, RefusalKind, Terms};
use crate::work::Work;
use crate::world::{Gate, LONG, World};

pub(super) const CONTRACTS: &[Contract] = &[
    Contract {
        number: 6,
        title: "a stop that is not confirmed keeps its lease",
        level: Level::Record,
        check: unconfirmed_stop,
    },
    Contract {
        number: 7,
        title: "conflicts are named, and waiters served in order",
        level: Level::Record,
        check: conflicts,
    },
    Contract {
        number: 13,
        title: "operations without resources count as well",
        level: Level::Host,
        check: concurrency,
    },
    Contract {
        number: 39,
        title: "memory limits are added up, and who finds too little waits",
        level: Level::Host,
        check: total_memory,
    },
];

/// A helper that is asked to stop its tree, and says that some of it remains.
const REMAINS: &str = "hear-hello,say-hello,hear-launch,say-spawned,hear-release,say-running,hear-stop,say-signalled+exited+remains";

fn unconfirmed_stop(world: &World<'_>) -> Outcome {
    let helper = false_helper(world, REMAINS);
    {
        let client = world.client_with(&Terms {
            helper: Some(helper),
            ..Terms::default()
        })?;
        let work = world.traced("stuck").lease("db");
        let submitted = client.submit(&work)?;
        world.wait_for_record("stuck", |_| true);
        submitted.cancel()?.expect("it is active");
        let result = submitted.wait().expect("a result");
        result.assert(&json!({ "status": "indeterminate", "terminationReason": null }));
        assert!(!result.field("reason").is_null(), "no reason in {result}");
        assert_held(&*client);
    }
    // The next owner holds it as well.
    let client = world.client()?;
    assert_held(&*client);
    let other = world.traced("other").lease("db");
    let refusal = client.submit(&other)?.wait().expect_err("it is held");
    refusal.assert(RefusalKind::ResourceConflict, &["db", "stuck"]);
    assert_eq!(client.record("other"), None);
    let free = world.traced("free").lease("another");
    client.submit(&free)?.wait().expect("another one is free");
    assert_eq!(world.ran(), ["free"]);
    Ok(())
}

/// A name under which the false helper follows a script.
fn false_helper(world: &World<'_>, script: &str) -> PathBuf {
    let program = world.stage.program("xioflow-false-helper");
    let helper = program.with_file_name(script);
    fs::hard_link(program, &helper).expect("another name for it");
    helper
}

fn assert_held(client: &dyn Client) {
    let lease = Lease {
        resource: "db".to_owned(),
        operation_id: "stuck".to_owned(),
    };
    assert_eq!(client.leases(), [lease]);
    let record = client.record("stuck").expect("a record");
    assert_eq!(
        record.outcome.as_deref(),
        Some("indeterminate"),
        "{record:#?}"
    );
    assert_eq!(
        record.run_status.as_deref(),
        Some("indeterminate"),
        "{record:#?}"
    );
}

fn conflicts(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    if !client.works_beside_others() {
        return conflict_with_the_past(world, &*client);
    }
    let (holder, mut gate) = world.gated("holder");
    let holding = client.submit(&holder.lease("db"))?;
    gate.wait_reached();
    let refused = world.traced("refused").lease("db");
    let refusal = client.submit(&refused)?.wait().expect_err("it is held");
    refusal.assert(
        RefusalKind::ResourceConflict,
        &["db", "holder", "waited ", " ms"],
    );
    assert_eq!(client.record("refused"), None);
    let names = ["one", "two", "three"];
    let mut waiting = Vec::new();
    for name in names {
        // The mark is free, but reserved for who waits for it beside the resource.
        let mark = format!("mark-{name}");
        let waiter = world.traced(name).lease("db").lease(&mark).wait(LONG);
        waiting.push(client.submit(&waiter)?);
        wait_reserved(world, &*client, &mark, name)?;
    }
    gate.open();
    holding.wait().expect("a result");
    for waiter in waiting {
        let result = waiter.wait().expect("a result");
        result.assert(&json!({ "status": "succeeded", "exitCode": 0 }));
    }
    let served: Vec<_> = world.ran();
    let served: Vec<&str> = served.iter().map(String::as_str).collect();
    assert_eq!(served, ["holder", "one", "two", "three"]);
    assert_eq!(client.leases(), []);
    Ok(())
}

/// Waits until a request for the mark, without waiting, is refused because of that waiter.
pub(super) fn wait_reserved(
    world: &World<'_>,
    client: &dyn Client,
    mark: &str,
    waiter: &str,
) -> Result<(), Unsupported> {
    let deadline = Deadline::usual();
    for turn in 0.. {
        let id = format!("probe-{waiter}-{turn}");
        let probe = world.fixture(&id, &["exit", "0"]).lease(mark);
        match client.submit(&probe)?.wait() {
            Err(refusal) => {
                refusal.assert(RefusalKind::ResourceConflict, &[mark, waiter]);
                return Ok(());
            }
            Ok(_) => assert!(!deadline.passed(), "{waiter} never waits"),
        }
    }
    unreachable!("the turns have no end")
}

/// Where commands do not run side by side, a conflict is one with what an indeterminate operation
/// keeps, or with the owner of the domain.
fn conflict_with_the_past(world: &World<'_>, client: &dyn Client) -> Outcome {
    world.indeterminate("holder", "db", |work| client.submit(work))?;
    let refused = world.traced("refused").lease("db");
    let refusal = client.submit(&refused)?.wait().expect_err("it is held");
    refusal.assert(
        RefusalKind::ResourceConflict,
        &["db", "holder", "waited ", " ms"],
    );
    assert_eq!(client.record("refused"), None);
    let (running, mut gate) = world.gated("running");
    let running = client.submit(&running)?;
    gate.wait_reached();
    let beside = world.traced("beside");
    let refusal = client.submit(&beside)?.wait().expect_err("it is in use");
    refusal.assert(RefusalKind::DomainLocked, &["process"]);
    assert_eq!(client.record("beside"), None);
    gate.open();
    running.wait().expect("a result");
    Err(Unsupported::in_part(
        "conflicts are named; who waits for the domain itself has no order",
    ))
}

fn concurrency(world: &World<'_>) -> Outcome {
    let client = world.client_with(&Terms {
        max_concurrent_operations: Some(1),
        ..Terms::default()
    })?;
    let (first, mut gate): (_, Gate) = world.gated("first");
    let first = client.submit(&first)?;
    gate.wait_reached();
    let refusal = client
        .submit(&world.traced("refused"))?
        .wait()
        .expect_err("one is enough");
    refusal.assert(
        RefusalKind::ResourceConflict,
        &["domain:max_concurrent_ops", "first"],
    );
    assert_eq!(client.record("refused"), None);
    let second = client.submit(&world.traced("second").wait(LONG))?;
    gate.open();
    first.wait().expect("a result");
    second.wait().expect("a result");
    assert_eq!(world.ran(), ["first", "second"]);
    Ok(())
}

const MIB: u64 = 1 << 20;

fn total_memory(world: &World<'_>) -> Outcome {
    let client = world.client_with(&Terms {
        max_total_memory_bytes: Some(1000 * MIB),
        ..Terms::default()
    })?;
    let limited = |work: Work, mib: u64| Work {
        watched_memory_bytes: Some(mib * MIB),
        ..work
    };
    let (first, mut gate): (_, Gate) = world.gated("first");
    let first = client.submit(&limited(first, 600))?;
    gate.wait_reached();
    let refused = |id, mib| -> Result<_, Unsupported> {
        let work = match mib {
            Some(mib) => limited(world.traced(id), mib),
            None => world.traced(id),
        };
        // However long it would wait.
        let work = if mib == Some(500) {
            work
        } else {
            work.wait(LONG)
        };
        let refusal = client
            .submit(&work)?
            .wait()
            .expect_err("there is too little");
        assert_eq!(client.record(id), None);
        Ok(refusal)
    };
    let too_little = refused("second", Some(500))?;
    too_little.assert(
        RefusalKind::ResourceConflict,
        &["domain:max_total_memory", "first"],
    );
    refused("greedy", Some(1001))?.assert(RefusalKind::OverBudget, &["memory"]);
    refused("unlimited", None)?.assert(RefusalKind::OverBudget, &["memory limit"]);
    let beside = client.submit(&limited(world.traced("beside"), 400))?;
    beside.wait().expect("a result");
    let second = client.submit(&limited(world.traced("second").wait(LONG), 500))?;
    gate.open();
    first.wait().expect("a result");
    second.wait().expect("a result");
    assert_eq!(world.ran(), ["first", "beside", "second"]);
    Ok(())
}
