//! An operation's id is its idempotency key: at most one execution, whoever asks how often.

use std::time::Duration;

use serde_json::{Value, json};
use xioflow_kit::{Stage, wait};

use crate::contract::{Contract, Level, Outcome};
use crate::document::Document;
use crate::ways::{Client, Event, RefusalKind};
use crate::work::{Input, Work};
use crate::world::{World, assert_gone, assert_one_result};

pub(super) const CONTRACTS: &[Contract] = &[
    Contract {
        number: 18,
        title: "an indeterminate operation is not run again",
        level: Level::Record,
        check: indeterminate_is_final,
    },
    Contract {
        number: 40,
        title: "a duplicate id is refused without harm",
        level: Level::Record,
        check: harmless_duplicate,
    },
    Contract {
        number: 45,
        title: "a recorded result is returned as it was",
        level: Level::Record,
        check: recorded_replay,
    },
    Contract {
        number: 46,
        title: "submissions in flight share one process",
        level: Level::Host,
        check: in_flight_join,
    },
    Contract {
        number: 47,
        title: "every input is part of what an id means",
        level: Level::Record,
        check: fingerprint,
    },
    Contract {
        number: 48,
        title: "an indeterminate result is returned untouched",
        level: Level::Record,
        check: indeterminate_replay,
    },
    Contract {
        number: 64,
        title: "every client can join and cancel the same operation",
        level: Level::Host,
        check: shared_operation,
    },
];

/// What only the asking differs in.
const OF_THE_ASKING: &[&str] = &["replayed", "reused"];

/// The ways in which submissions of this id were answered from the record.
fn replays(client: &dyn Client, id: &str) -> Vec<Value> {
    let events = client.events().into_iter();
    let replayed =
        |event: &Event| event.kind == "OPERATION_REPLAYED" && event.payload["opId"] == id;
    events
        .filter(replayed)
        .map(|event| event.payload["mode"].clone())
        .collect()
}

fn indeterminate_is_final(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let (work, first) = world.indeterminate("unclear", "db", |work| client.submit(work))?;
    first.assert(&json!({ "replayed": false }));
    for _ in 0..2 {
        let again = client.submit(&work)?.wait().expect("the recorded result");
        again.assert(&json!({ "status": "indeterminate", "replayed": true }));
    }
    assert_eq!(world.ran(), ["unclear"]);
    assert_one_result(&*client, "unclear");
    Ok(())
}

fn indeterminate_replay(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let (work, first) = world.indeterminate("unclear", "db", |work| client.submit(work))?;
    let leases = client.leases();
    assert_eq!(leases.len(), 1, "{leases:?}");
    let before = client.record("unclear");
    let again = client.submit(&work)?.wait().expect("the recorded result");
    assert_same(&again, &first);
    assert_eq!(client.leases(), leases);
    assert_eq!(client.record("unclear"), before);
    assert_eq!(replays(&*client, "unclear"), ["indeterminate"]);
    Ok(())
}

/// Both say the same of the operation, byte for byte.
fn assert_same(replayed: &Document, first: &Document) {
    first.assert(&json!({ "replayed": false }));
    replayed.assert(&json!({ "replayed": true }));
    as_recorded(first).assert_same(replayed, OF_THE_ASKING);
}

/// A result without what is known of the caller's shell, which is recorded nowhere.
fn as_recorded(result: &Document) -> Document {
    let mut result = result.clone();
    for name in ["withheld", "withheldTotal"] {
        if let Some(value) = result.0.pointer_mut(&format!("/environment/{name}")) {
            *value = Value::Null;
        }
    }
    result
}

fn harmless_duplicate(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let (original, mut gate) = world.gated("one");
    let original = original.lease("db");
    let running = client.submit(&original)?;
    gate.wait_reached();
    let facts = || (client.record("one"), client.leases());
    let before = facts();
    // The duplicate asks for the same resource, and must not be the one to free it.
    let duplicate = world.traced("one").lease("db");
    let refusal = client.submit(&duplicate)?.wait().expect_err("it is taken");
    if client.works_beside_others() {
        refusal.assert(RefusalKind::IdConflict, &["one"]);
    } else {
        refusal.assert(RefusalKind::DomainLocked, &[]);
    }
    assert_eq!(facts(), before, "the running original was touched");
    gate.open();
    let result = running.wait().expect("a result");
    result.assert(&json!({ "status": "succeeded", "exitCode": 0 }));
    let refusal = client.submit(&duplicate)?.wait().expect_err("it is taken");
    refusal.assert(RefusalKind::IdConflict, &["one"]);
    let (record, leases) = facts();
    let (record, before) = (record.expect("a record"), before.0.expect("a record"));
    assert_eq!(record.process_identity, before.process_identity);
    assert!(record.process_identity.is_some(), "{record:#?}");
    assert_eq!(leases, []);
    let recorded = record.result.expect("a result");
    recorded.assert_same(&as_recorded(&result), OF_THE_ASKING);
    assert_one_result(&*client, "one");
    assert_eq!(world.ran(), ["one"]);
    Ok(())
}

fn recorded_replay(world: &World<'_>) -> Outcome {
    let works = [
        world.traced("fine"),
        world.shell("failed", "printf 'out\\377'; echo err >&2; exit 3"),
        world.fixture("killed", &["die-by-signal", "9"]),
        world.program("missing", "/nonexistent/program"),
        world.fixture("large", &["flood-output", "both", "300000"]),
        world
            .fixture("late", &["sleep"])
            .timeout(Duration::from_millis(50)),
    ];
    let mut first = Vec::new();
    {
        let client = world.client()?;
        for work in &works {
            first.push(client.submit(work)?.wait().expect("a result"));
            let again = client.submit(work)?.wait().expect("the same result");
            assert_same(&again, &first[first.len() - 1]);
        }
    }
    // A later owner of the domain answers the same.
    let client = world.client()?;
    for (work, first) in works.iter().zip(&first) {
        let again = client.submit(work)?.wait().expect("the same result");
        assert_same(&again, first);
        assert_eq!(replays(&*client, &work.id), ["recorded", "recorded"]);
        assert_one_result(&*client, &work.id);
    }
    assert_eq!(world.ran(), ["fine"]);
    Ok(())
}

fn in_flight_join(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let other = client.another()?;
    let (work, mut gate) = world.talking("shared");
    let work = work.lease("db").live();
    let first = client.submit(&work)?;
    let pid = gate.wait_reached();
    let mut joined = other.submit(&work)?;
    let mut leaving = other.submit(&work)?;
    for joiner in [&mut joined, &mut leaving] {
        gate.talk_until_heard(&mut **joiner);
    }
    // Who has joined and does not want to wait any more leaves alone.
    leaving.cancel()?.expect("it waits");
    let refusal = leaving.wait().expect_err("it has left");
    refusal.assert(RefusalKind::JoinAbandoned, &["shared"]);
    assert!(wait::is_alive(pid), "the operation ended with a joiner");
    let record = client.record("shared").expect("a record");
    assert_eq!(record.status, "active", "{record:#?}");
    gate.open();
    let [first, joined] = [first, joined].map(|one| one.wait().expect("a result"));
    first.assert(&json!({ "status": "succeeded", "exitCode": 0, "reused": "executed" }));
    joined.assert(&json!({ "reused": "joined_in_flight" }));
    assert_same(&joined, &first);
    assert_eq!(replays(&*client, "shared"), ["joined"]);
    assert_one_result(&*client, "shared");
    assert_eq!(client.leases(), []);
    assert_eq!(world.ran(), ["shared"]);
    Ok(())
}

fn shared_operation(world: &World<'_>) -> Outcome {
    let one = world.client()?;
    let other = one.another()?;
    for (id, beginner, joiner) in [("this", &one, &other), ("that", &other, &one)] {
        let (work, gate) = world.talking(id);
        let work = work.live();
        let first = beginner.submit(&work)?;
        let pid = gate.wait_reached();
        let mut joined = joiner.submit(&work)?;
        gate.talk_until_heard(&mut *joined);
        // Whoever asks for the end of the operation, it is over for all.
        joiner.cancel(id)?.expect("it is active");
        let [first, joined] = [first, joined].map(|one| one.wait().expect("a result"));
        assert_gone(&[pid]);
        first.assert(&json!({ "status": "cancelled", "terminationReason": "user_cancelled" }));
        assert_same(&joined, &first);
        for client in [&one, &other] {
            assert_one_result(&**client, id);
            let finished = client.cancel(id)?.expect_err("it has ended");
            finished.assert(RefusalKind::AlreadyCompleted, &[id]);
        }
    }
    assert_eq!(world.ran(), ["this", "that"]);
    Ok(())
}

/// One input changed, and what it is called.
type Change = (&'static str, fn(&Stage, Work) -> Work);

const CHANGES: &[Change] = &[
    ("program", |stage, work| Work {
        program: stage
            .program("xioflow-fixture")
            .with_file_name("other")
            .into(),
        ..work
    }),
    ("argument", |_, work| work.args(["more"])),
    ("joined arguments", |_, mut work| {
        let last = work.args.pop().expect("an argument");
        let mut joined = work.args.pop().expect("an argument");
        joined.push(last);
        work.args.push(joined);
        work
    }),
    ("folder", |_, work| Work {
        cwd: "/".into(),
        ..work
    }),
    ("variable", |_, work| work.env("ANOTHER", "1")),
    ("value", |_, mut work| {
        work.env.last_mut().expect("a variable").1.push("x");
        work
    }),
    ("inherited environment", |_, work| Work {
        inherit_env: true,
        ..work
    }),
    ("variable that is passed on", |_, work| Work {
        pass_env: vec!["PATH".into()],
        ..work
    }),
    ("merged streams", |_, work| Work {
        merge_stderr: true,
        ..work
    }),
    ("pid namespace", |_, work| Work {
        enclosed: true,
        ..work
    }),
    ("stop action", |_, work| Work {
        stop_action: Some("true".to_owned()),
        ..work
    }),
    ("input", |_, work| work.stdin("other")),
    ("closed input", |_, work| Work {
        stdin: Input::Closed,
        ..work
    }),
    ("no input", |_, work| Work {
        stdin: Input::Empty,
        ..work
    }),
    ("resource", |_, work| work.lease("another")),
    ("no resource", |_, work| Work {
        leases: Vec::new(),
        ..work
    }),
    ("timeout", |_, work| work.timeout(Duration::from_secs(59))),
    ("no timeout", |_, work| Work {
        timeout: None,
        ..work
    }),
    ("mask", |_, work| Work {
        umask: Some(0o077),
        ..work
    }),
    ("privileges", |_, work| Work {
        no_new_privs: true,
        ..work
    }),
];

/// What decides how much is kept or how it is called is no input of the operation.
const NO_CHANGES: &[Change] = &[
    ("wait", |_, work| work.wait(Duration::from_secs(1))),
    ("grace", |_, work| work.grace(Duration::from_secs(1))),
    ("output limit", |_, work| work.max_output_bytes(4096)),
    ("limit of what is stored", |_, work| Work {
        max_stored_bytes: Some(4096),
        ..work
    }),
    ("order of variables", |_, mut work| {
        work.env.reverse();
        work
    }),
    ("order of resources", |_, mut work| {
        work.leases.reverse();
        work
    }),
    ("name", |_, work| Work {
        name: Some("another".to_owned()),
        ..work
    }),
];

fn fingerprint(world: &World<'_>) -> Outcome {
    let client = world.client()?;
    let work = world
        .traced("same")
        .args(["secret-argument"])
        .env("LAST", "secret-value")
        .stdin("secret-input")
        .lease("one")
        .lease("two")
        .timeout(Duration::from_secs(60));
    client.submit(&work)?.wait().expect("a result");
    let record = client.record("same").expect("a record");
    let mut seen = vec![record.input_fingerprint.clone()];
    for (what, change) in CHANGES {
        // What a way cannot be told cannot differ there.
        let Ok(submitted) = client.submit(&change(world.stage, work.clone())) else {
            continue;
        };
        let refusal = match submitted.wait() {
            Err(refusal) => refusal,
            Ok(result) => panic!("with another {what} it is the same: {result}"),
        };
        refusal.assert(
            RefusalKind::IdConflict,
            &["same", &record.input_fingerprint],
        );
        let requested = requested(&refusal.text);
        assert!(
            !seen.contains(&requested),
            "{what} changes nothing: {refusal}"
        );
        seen.push(requested);
    }
    for (what, change) in NO_CHANGES {
        let Ok(submitted) = client.submit(&change(world.stage, work.clone())) else {
            continue;
        };
        let result = submitted.wait();
        let result = result.unwrap_or_else(|refusal| panic!("{what} is an input: {refusal}"));
        result.assert(&json!({ "replayed": true }));
    }
    assert_eq!(client.record("same"), Some(record));
    assert_eq!(world.ran(), ["same"]);
    assert_hashed(&*client, &seen);
    Ok(())
}

/// The fingerprint in a refusal that is not the recorded one.
fn requested(text: &str) -> String {
    let (_, rest) = text.split_once("requested ").expect("both fingerprints");
    rest.chars()
        .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == ':')
        .collect()
}

/// A fingerprint tells nothing of what it was made of, and neither does an event.
fn assert_hashed(client: &dyn Client, fingerprints: &[String]) {
    for print in fingerprints {
        let digits = print.rsplit(':').next().unwrap_or_default();
        let is_hash = digits.len() == 64 && digits.chars().all(|digit| digit.is_ascii_hexdigit());
        assert!(is_hash, "{print:?} is no hash");
    }
    for event in client.events() {
        let payload = event.payload.to_string();
        assert!(!payload.contains("secret-"), "an input is in {event:#?}");
    }
}
