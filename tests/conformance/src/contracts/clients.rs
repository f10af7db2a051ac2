//! Several clients of one domain: what they share, and what becomes of a client's work without it.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use sha2::{Digest, Sha256};
use xioflow_kernel::journal::Query;

use crate::contract::{Contract, Level, Outcome};
use crate::ways::{Lease, RefusalKind};
use crate::world::{World, assert_gone, assert_one_result};

pub(super) const CONTRACTS: &[Contract] = &[
    Contract {
        number: 33,
        title: "leases hold between clients",
        level: Level::Host,
        check: leases_between_clients,
    },
    Contract {
        number: 34,
        title: "a second client joins the first, and both see one record",
        level: Level::Host,
        check: second_client,
    },
    Contract {
        number: 35,
        title: "whoever only looks changes nothing",
        level: Level::Record,
        check: observer,
    },
    Contract {
        number: 36,
        title: "what a lost client had asked for is stopped, and says so",
        level: Level::Stop,
        check: lost_client,
    },
];

fn leases_between_clients(world: &World<'_>) -> Outcome {
    let one = world.client()?;
    let other = one.another()?;
    let (held, mut gate) = world.gated("held");
    let held = one.submit(&held.lease("db"))?;
    gate.wait_reached();
    let refused = world.traced("refused").lease("db");
    let refusal = other.submit(&refused)?.wait().expect_err("it is held");
    refusal.assert(RefusalKind::ResourceConflict, &["db", "held"]);
    let free = world.traced("free").lease("another");
    other.submit(&free)?.wait().expect("nobody has that");
    let lease = Lease {
        resource: "db".to_owned(),
        operation_id: "held".to_owned(),
    };
    assert_eq!(other.leases(), [lease]);
    gate.open();
    held.wait().expect("a result");
    other.submit(&refused)?.wait().expect("it is free now");
    assert_eq!(world.ran(), ["held", "free", "refused"]);
    assert_eq!(one.leases(), []);
    Ok(())
}

fn second_client(world: &World<'_>) -> Outcome {
    let one = world.client()?;
    one.another()?;
    let (first, mut gate) = world.gated("first");
    let first = one.submit(&first)?;
    gate.wait_reached();
    let owner = world.owner();
    let other = one.another()?;
    assert_eq!(world.owner(), owner, "the domain was taken over");
    let second = world.traced("second");
    other.submit(&second)?.wait().expect("a result");
    for client in [&one, &other] {
        let status = |id| client.record(id).map(|record| record.status);
        assert_eq!(status("first").as_deref(), Some("active"));
        assert_eq!(status("second").as_deref(), Some("done"));
    }
    assert_eq!(one.events(), other.events());
    gate.open();
    first.wait().expect("a result");
    assert_eq!(world.owner(), owner, "the domain was taken over");
    Ok(())
}

fn observer(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    client
        .submit(&world.traced("done"))?
        .wait()
        .expect("a result");
    let (running, mut gate) = world.gated("running");
    let running = client.submit(&running.lease("db"))?;
    gate.wait_reached();
    let facts = || (main_file(world), world.owner(), world.last_seq());
    let before = facts();
    for _ in 0..3 {
        assert!(client.record("done").is_some());
        assert_eq!(client.leases().len(), 1);
        assert!(!client.events().is_empty());
        let reader = world.observer();
        assert_eq!(reader.counts().expect("readable").total, 2);
        assert_eq!(reader.unfinished().expect("readable").len(), 1);
    }
    assert_eq!(facts(), before, "looking at it has changed it");
    gate.open();
    running.wait().expect("a result");
    Ok(())
}

/// The hash of the database's main file.
fn main_file(world: &World<'_>) -> Vec<u8> {
    let path: PathBuf = world.stage.domain().join("domain.db");
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Sha256::digest(bytes).to_vec()
}

fn lost_client(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    client.can_be_killed()?;
    // Somebody else keeps whoever executes from having nothing to do.
    let (other, mut gate) = world.gated("other");
    let other = client.submit(&other)?;
    gate.wait_reached();
    let (work, ready) = world.announced("lost", &["spawn-tree", "chain", "4"]);
    let lost = client.submit(&work.lease("db"))?;
    let pids = world.standing(&ready);
    lost.kill_client();
    world.wait_recorded("lost");
    let record = client.record("lost").expect("a record");
    let result = record.result.as_ref().expect("a result");
    result.assert(&json!({ "status": "cancelled", "terminationReason": "client_lost" }));
    assert_gone(&pids);
    assert_one_result(&*client, "lost");
    assert_eq!(client.leases(), []);
    gate.open();
    let result = other.wait().expect("a result");
    result.assert(&json!({ "status": "succeeded", "exitCode": 0 }));
    Ok(())
}
