//! What has to hold when all is over, as the record tells it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use xioflow_kernel::journal::{Operation, OperationStatus, Outcome, Query};
use xioflow_kit::{Deadline, wait};

use crate::ground::Ground;
use crate::victims;
use crate::worker::{Told, no_panic};

/// How many of the operations are asked for once more.
const REPEATED_MAX: usize = 25;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    asked: usize,
    answered: usize,
    recorded: usize,
    succeeded: usize,
    failed: usize,
    cancelled: usize,
    indeterminate: usize,
    effects: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} operations asked for, {} answered, {} on record ({} succeeded, {} failed, {} cancelled, {} \
             indeterminate), {} effects",
            self.asked,
            self.answered,
            self.recorded,
            self.succeeded,
            self.failed,
            self.cancelled,
            self.indeterminate,
            self.effects
        )
    }
}

/// Compares what the clients were told, what the commands have done, and what is on record.
pub(crate) fn examine(ground: &Ground<'_>, told: &[Told]) -> Figures {
    let record: HashMap<String, Operation> = ground
        .recorded()
        .into_iter()
        .map(|it| (it.id.clone(), it))
        .collect();
    let effects = ground.effects();
    let asked: HashSet<&str> = told.iter().map(|it| it.id.as_str()).collect();
    for id in record.keys().chain(effects.keys()) {
        assert!(asked.contains(id.as_str()), "nobody has asked for {id}");
    }
    for id in effects.keys() {
        assert!(
            record.contains_key(id),
            "{id} had its effect and is not on record"
        );
    }
    for operation in record.values() {
        examine_operation(operation, effects.get(&operation.id).copied().unwrap_or(0));
    }
    for told in told {
        examine_answer(told, record.get(&told.id));
    }
    let is_held = ground
        .record()
        .expect("a domain")
        .leases()
        .expect("readable");
    assert_eq!(is_held, [], "leases that nobody needs");
    examine_domain(ground);
    nobody_lives(ground, &record);
    repeat(ground, &record, &effects);
    figures(told, &record, &effects)
}

fn examine_operation(operation: &Operation, effects: usize) {
    assert_eq!(operation.status, OperationStatus::Done, "{operation:?}");
    assert!(effects <= 1, "{effects} effects of {operation:?}");
    let outcome = operation.outcome.expect("what is done has an outcome");
    match outcome {
        Outcome::Succeeded => {
            assert_eq!(effects, 1, "it has not done it: {operation:?}");
            let result = operation.result.as_ref().expect("a result");
            assert_eq!(result["exitCode"], 0, "{operation:?}");
            assert_eq!(result["evidence"], "observed", "{operation:?}");
        }
        Outcome::Indeterminate => {
            let result = operation.result.as_ref().expect("a result");
            assert!(result["reason"].is_string(), "not explained: {operation:?}");
            assert!(
                operation.adjudication.is_some(),
                "not settled: {operation:?}"
            );
        }
        Outcome::Failed | Outcome::Cancelled => {}
    }
}

/// An answer is on record, and the record is what was answered.
fn examine_answer(told: &Told, recorded: Option<&Operation>) {
    let Some(code) = told.code else { return };
    let Some(recorded) = recorded else {
        panic!("answered with {code} and not on record: {told:?}");
    };
    let outcome = recorded.outcome.expect("it is done");
    match code {
        0 => assert_eq!(outcome, Outcome::Succeeded, "{told:?}: {recorded:?}"),
        79 => assert!(is_unseen(recorded), "{told:?}: {recorded:?}"),
        _ => assert!(
            matches!(outcome, Outcome::Failed | Outcome::Cancelled),
            "{told:?}: {recorded:?}"
        ),
    }
}

/// Whether nobody has seen how it ended, though it may be known that it did.
fn is_unseen(operation: &Operation) -> bool {
    let result = operation.result.as_ref().expect("a result");
    operation.outcome == Some(Outcome::Indeterminate)
        || (result["exitCode"].is_null() && result["signal"].is_null())
}

/// The database is whole, every stored file is referred to, and no program has panicked.
fn examine_domain(ground: &Ground<'_>) {
    let domain = ground.domain();
    let examined = ground
        .xioflow()
        .args(["doctor", "--json", "--domain"])
        .arg(&domain);
    examined.finish().assert_code(0);
    let log = fs::read_to_string(domain.join("arbiter.log")).unwrap_or_default();
    assert!(!log.contains("panicked at"), "{log}");
}

/// What a settled operation has left is ended here only where it was settled as such.
fn nobody_lives(ground: &Ground<'_>, record: &HashMap<String, Operation>) {
    for operation in record.values() {
        let Some(leader) = victims::leader(operation) else {
            continue;
        };
        let is_open = operation.outcome == Some(Outcome::Indeterminate);
        let members = victims::session(ground, leader);
        assert!(
            members.is_empty() || is_open,
            "{members:?} live of {operation:?}"
        );
        for victim in members {
            victim.signal(Signal::KILL);
        }
    }
    // Escapees of trees that lost helper and arbiter at once end by themselves.
    let deadline = Deadline::after(Duration::from_secs(20));
    assert!(
        ground.stage.wait_empty(deadline),
        "left: {:?}",
        ground.stage.living()
    );
    let helpers = victims::helpers(ground);
    assert!(
        helpers.is_empty(),
        "helpers without an arbiter: {helpers:?}"
    );
}

/// Whatever is asked for again is answered from the record.
fn repeat(
    ground: &Ground<'_>,
    record: &HashMap<String, Operation>,
    effects: &HashMap<String, usize>,
) {
    for id in record.keys().take(REPEATED_MAX) {
        let shown = ground.xioflow().args(["show", "--json"]).arg(id).finish();
        shown.assert_code(0);
        let document: Value = shown.json();
        assert!(document.is_object(), "{document}");
        let again = ground.xioflow().args(["run", "--op"]).arg(id);
        let again = again.args(["--", "/bin/sh", "-c", "echo never"]).finish();
        no_panic(&again);
        again.assert_code(76);
    }
    ground.stage.end_arbiters();
    assert_eq!(&ground.effects(), effects, "something was done twice");
    wait::until("the last owner's end", Deadline::usual(), || {
        victims::arbiter(ground).is_none()
    });
}

fn figures(
    told: &[Told],
    record: &HashMap<String, Operation>,
    effects: &HashMap<String, usize>,
) -> Figures {
    let count = |outcome| {
        record
            .values()
            .filter(|it| it.outcome == Some(outcome))
            .count()
    };
    Figures {
        asked: told.len(),
        answered: told.iter().filter(|it| it.code.is_some()).count(),
        recorded: record.len(),
        succeeded: count(Outcome::Succeeded),
        failed: count(Outcome::Failed),
        cancelled: count(Outcome::Cancelled),
        indeterminate: count(Outcome::Indeterminate),
        effects: effects.len(),
    }
}
