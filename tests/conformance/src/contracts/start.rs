//! How a command begins: that it cannot, what it reads, what is refused beforehand.

use serde_json::json;

use crate::contract::{Contract, Level, Outcome, Unsupported};
use crate::ways::RefusalKind;
use crate::work::{Limit, Work};
use crate::world::{World, assert_one_result, kinds};

pub(super) const CONTRACTS: &[Contract] = &[
    Contract {
        number: 1,
        title: "a command that cannot start fails at once",
        level: Level::Command,
        check: cannot_start,
    },
    Contract {
        number: 14,
        title: "one-shot input arrives whole, and may be left unread",
        level: Level::Command,
        check: one_shot_input,
    },
    Contract {
        number: 16,
        title: "a hard limit that cannot be enforced is refused",
        level: Level::Command,
        check: hard_limits,
    },
];

fn cannot_start(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let missing = world.program("missing", "/nonexistent/program").lease("r");
    let result = client.submit(&missing)?.wait().expect("a result");
    result
        .assert(&json!({
            "status": "failed", "exitCode": 127, "signal": null, "residualPids": [],
        }))
        .assert_nothing_invented();
    let message = result.field("spawnFailure")["message"].as_str();
    assert!(
        message.is_some_and(|message| message.contains("/nonexistent/program")),
        "the failure names no program in {result}"
    );
    let events = kinds(&*client, "missing");
    let transition = "OPERATION_STATUS_TRANSITION".to_owned();
    assert!(!events.contains(&transition), "it was active: {events:?}");
    assert_one_result(&*client, "missing");
    let record = client.record("missing").expect("a record");
    assert_eq!(record.status, "done", "{record:#?}");
    assert_eq!(record.process_identity, None, "{record:#?}");
    assert_eq!(client.leases(), []);
    let next = world.traced("next").lease("r");
    let next = client.submit(&next)?.wait().expect("the lease is free");
    next.assert(&json!({ "status": "succeeded", "exitCode": 0 }));
    Ok(())
}

/// More than a pipe holds.
const INPUT_LEN: usize = 4_000_000;

fn one_shot_input(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let input: Vec<u8> = (0..INPUT_LEN).map(|at| at.to_le_bytes()[0]).collect();
    let hash = crate::world::sha256(&input);
    let echo = world.fixture("echo", &["read-stdin"]).stdin(input.clone());
    let echoed = client.submit(&echo)?.wait().expect("a result");
    echoed.assert(&json!({
        "status": "succeeded", "exitCode": 0, "stdoutBytes": INPUT_LEN, "stdoutHash": hash,
    }));
    let deaf = world.fixture("deaf", &["exit", "0"]).stdin(input);
    let unread = client.submit(&deaf)?.wait().expect("a result");
    unread.assert(&json!({ "status": "succeeded", "exitCode": 0, "spawnFailure": null }));
    Ok(())
}

fn hard_limits(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let mut enforced = Vec::new();
    for (id, limit) in [
        ("memory", Limit::Memory),
        ("pids", Limit::Pids),
        ("cpu", Limit::CpuTime),
    ] {
        let work = Work {
            hard_limit: Some(limit),
            ..world.traced(id)
        };
        match client.submit(&work)?.wait() {
            Err(refusal) => {
                refusal.assert(RefusalKind::NotEnforceable, &["nothing ran"]);
                assert_eq!(client.record(id), None);
            }
            // Whoever runs it says how it is held to the limit.
            Ok(result) => {
                let limits = result.field("limits");
                assert!(!limits.is_null(), "it is not enforced, in {result}");
                enforced.push(id);
            }
        }
    }
    assert_eq!(world.ran(), enforced);
    match enforced.is_empty() {
        true => Ok(()),
        false => {
            let here = format!("this host enforces limits of {}", enforced.join(", "));
            Err(Unsupported::in_part(here))
        }
    }
}
