//! What must hold after a crash and a recovery, whoever died and where: I1 to I8, and what else was promised.
//! Pure: judged is a [`Picture`] and what the harness saw.

use std::collections::BTreeMap;

use xioflow_kernel::journal::{Operation, OperationStatus, Outcome, TerminationReason};
use xioflow_kernel::{Decision, Verdict};

use crate::picture::Picture;
use crate::point::Whom;
use crate::work::{Ends, NO_READER, Work};

/// A promise that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Breach {
    /// Its short name, as in `docs/testing.md`.
    pub(crate) promise: &'static str,
    pub(crate) what: String,
}

/// A process that lives although it should not, unless it was isolated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Living {
    pub(crate) pid: u32,
    /// The operation it is of, if that can be read.
    pub(crate) operation: Option<String>,
    pub(crate) command: String,
}

/// What the harness has seen up to the first recovery.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) works: &'a [Work],
    pub(crate) whom: Whom,
    pub(crate) picture: &'a Picture,
    pub(crate) decisions: &'a [Decision],
    /// Who lived on although helper and owner were dead and its namespace was to end with them.
    pub(crate) outlived: &'a [Living],
    /// What the scenario's processes were told.
    pub(crate) told: &'a str,
    pub(crate) living: &'a [Living],
}

/// What came of submitting everything again.
#[derive(Debug)]
pub(crate) struct Again<'a> {
    pub(crate) before: &'a Picture,
    pub(crate) after: &'a Picture,
    /// What the second recovery decided.
    pub(crate) decisions: &'a [Decision],
    /// By operation: whether it was answered from the record.
    pub(crate) replayed: &'a BTreeMap<String, bool>,
}

/// Gathers breaches.
struct Judge(Vec<Breach>);

impl Judge {
    fn expect(&mut self, promise: &'static str, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            let what = what();
            self.0.push(Breach { promise, what });
        }
    }
}

/// Judges a domain after its recovery.
pub(crate) fn after_recovery(seen: &Seen<'_>) -> Vec<Breach> {
    let mut judge = Judge(Vec::new());
    let picture = seen.picture;
    judge.expect("whole", picture.damage.is_empty(), || {
        picture.damage.join("; ")
    });
    for work in seen.works {
        let effects = picture.effects_of(work.id);
        judge.expect("I4", effects <= 1, || {
            format!("{} ran {effects} times", work.id)
        });
        match picture.operations.get(work.id) {
            Some(operation) => judge_operation(&mut judge, seen, work, operation),
            None => judge.expect("I4", effects == 0, || {
                format!("{} ran and is on no record", work.id)
            }),
        }
    }
    judge_leases(&mut judge, picture);
    judge_processes(&mut judge, seen);
    judge_decisions(&mut judge, seen);
    judge_told(&mut judge, seen);
    judge_files(&mut judge, picture, true);
    judge.0
}

fn judge_operation(judge: &mut Judge, seen: &Seen<'_>, work: &Work, operation: &Operation) {
    let (id, picture) = (work.id, seen.picture);
    let is_done = operation.status == OperationStatus::Done;
    judge.expect("I1", is_done, || format!("{id} is {}", operation.status));
    let (results, due) = (picture.results_of(id), usize::from(is_done));
    judge.expect("I6", results == due, || {
        format!("{id} has {results} results")
    });
    let Some(outcome) = operation.outcome else {
        return;
    };
    let code = Picture::exit_code_of(operation);
    let effects = picture.effects_of(id);
    let succeeded = outcome == Outcome::Succeeded;
    judge.expect(
        "I5",
        !succeeded || (effects == 1 && code == Some(0)),
        || format!("{id} succeeded with status {code:?} and {effects} effects"),
    );
    judge.expect("seen", is_possible(work, code, effects), || {
        format!("{id} is said to have ended with {code:?}, which nobody can have seen")
    });
    let text = |key: &str| operation.result.as_ref().and_then(|it| it[key].as_str());
    let isolated = outcome == Outcome::Indeterminate;
    // Only where a helper has died can that be, so the reason speaks of it.
    let is_reason = text("reason").is_some_and(|said| said.contains("helper"));
    let is_guided = text("recoveryGuidance").is_some_and(|said| !said.is_empty());
    judge.expect("explained", !isolated || (is_reason && is_guided), || {
        let (reason, guidance) = (text("reason"), text("recoveryGuidance"));
        format!("{id} is indeterminate for {reason:?}, and what to do is {guidance:?}")
    });
    // A living owner sees the end of a namespace only once somebody has waited for the command, and the process
    // of a case waits for nobody before its owner has ended.
    let is_provable = work.is_enclosed() && seen.whom.ends_owner();
    let may_be_unclear = seen.whom.ends_helper() && !is_provable;
    judge.expect("needless", !isolated || may_be_unclear, || {
        format!(
            "{id} is indeterminate, and its end can be known: {:?}",
            text("reason")
        )
    });
}

/// Whether somebody can have seen this exit status: commands of the matrix exit with 0 or not at all, and
/// those that are not there with what a shell would say.
fn is_possible(work: &Work, code: Option<i64>, effects: usize) -> bool {
    match (work.ends, code) {
        (_, None) => true,
        (Ends::ByItself, Some(code)) => code == 0 && effects == 1,
        (Ends::Printing, Some(code)) => [0, NO_READER].contains(&code) && effects == 1,
        (Ends::ByForce, Some(_)) => false,
        (Ends::Never, Some(code)) => code == 127 && effects == 0,
    }
}

fn judge_leases(judge: &mut Judge, picture: &Picture) {
    for lease in &picture.leases {
        let holder = &lease.operation_id;
        judge.expect("I2", picture.is_isolated(holder), || {
            format!("{holder} has a lease")
        });
    }
    let isolated = |it: &&Operation| picture.is_isolated(&it.id);
    for operation in picture.operations.values().filter(isolated) {
        let held = |name: &String| {
            let mut leases = picture.leases.iter();
            leases.any(|lease| lease.resource_id == *name && lease.operation_id == operation.id)
        };
        let holds = operation.required_resources.iter().all(held);
        judge.expect("kept", holds, || {
            format!("{} is indeterminate and its leases are free", operation.id)
        });
    }
}

/// A process lives only if its operation is isolated.
fn judge_processes(judge: &mut Judge, seen: &Seen<'_>) {
    for living in seen.outlived {
        judge.expect("I3", false, || {
            format!("{living:?} outlived its namespace's holder")
        });
    }
    for living in seen.living {
        let id = living.operation.as_ref();
        let is_unproven = id.is_some_and(|id| seen.picture.is_unproven(id));
        judge.expect("I3", is_unproven, || {
            let Living {
                pid,
                operation,
                command,
            } = living;
            format!("{pid} ({command}) of {operation:?} lives")
        });
    }
}

fn judge_decisions(judge: &mut Judge, seen: &Seen<'_>) {
    for decision in seen.decisions {
        let id = &decision.operation_id;
        judge.expect("explained", !decision.evidence.is_empty(), || {
            format!("{id} was decided on nothing")
        });
        let result = seen
            .picture
            .operations
            .get(id)
            .and_then(|it| it.result.as_ref());
        let reason = result.and_then(|it| it["terminationReason"].as_str());
        let is_dead = decision.verdict == Verdict::MarkedDead;
        let unobserved = TerminationReason::ExitUnobserved.as_str();
        judge.expect("I7", !is_dead || reason == Some(unobserved), || {
            format!("{id} is marked dead for {reason:?}")
        });
    }
}

/// What somebody was told is on record.
fn judge_told(judge: &mut Judge, seen: &Seen<'_>) {
    let operation = |id: &str| seen.picture.operations.get(id);
    for line in seen.told.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let holds = match words[..] {
            ["active", id] => operation(id).is_some(),
            ["result", id, status] => operation(id)
                .and_then(|it| it.outcome)
                .is_some_and(|it| it.as_str() == status),
            ["run", id, status] => {
                let run = seen.picture.runs.iter().find(|run| run.id == id);
                run.is_some_and(|run| run.status.as_str() == status || status == "running")
            }
            ["adjudicated", id] => operation(id).is_some_and(|it| it.adjudication.is_some()),
            ["pruned", name] => seen.picture.is_pruned(name),
            // Nothing was promised.
            ["refused" | "lost" | "closed", ..] => true,
            _ => false,
        };
        judge.expect("told", holds, || format!("not on record: {line}"));
    }
}

/// Every stored file is of a result, and nothing half made is left.
fn judge_files(judge: &mut Judge, picture: &Picture, is_first: bool) {
    let due = |name: &String| picture.outputs_in(name).any(|it| it.pruned_at_ms.is_none());
    for name in &picture.artifacts {
        judge.expect("files", due(name), || format!("{name} belongs to nothing"));
    }
    let outputs = picture.outputs.values().flatten();
    for name in outputs.filter_map(|output| output.artifact.as_ref()) {
        let is_there = picture.artifacts.contains(name);
        judge.expect("files", is_there == due(name), || format!("{name} is gone"));
    }
    // Nobody waits for the helper of an operation that was never recorded, or that has its result: its last word may
    // come after the first recovery. The next opening removes it.
    for name in picture.words.iter().filter(|_| !is_first) {
        let operation = name.strip_suffix(".word").unwrap_or_default();
        let is_evidence = picture.is_unproven(operation);
        judge.expect("files", is_evidence, || format!("{name} stays behind"));
    }
    for name in picture.files.iter().filter(|name| name.contains(".new")) {
        judge.expect("files", false, || format!("{name} stays behind"));
    }
}

/// Judges a domain after everything was submitted again.
pub(crate) fn after_resubmission(again: &Again<'_>, works: &[Work]) -> Vec<Breach> {
    let mut judge = Judge(Vec::new());
    judge_files(&mut judge, again.after, false);
    judge.expect("settled", again.decisions.is_empty(), || {
        format!("a second recovery decided again: {:?}", again.decisions)
    });
    for work in works {
        let id = work.id;
        let (before, after) = (again.before.effects_of(id), again.after.effects_of(id));
        let known = again.before.operations.get(id);
        let may_run = known.is_none() && before == 0;
        let due = before + usize::from(may_run && again.ran(id));
        judge.expect("I8", after == due, || {
            format!("{id} ran {before} times, and then {after}")
        });
        let replayed = again.replayed.get(id).copied().unwrap_or(true);
        judge.expect("I8", known.is_none() || replayed, || {
            format!("{id} was executed again")
        });
        let results = again.after.results_of(id);
        judge.expect("I6", results <= 1, || format!("{id} has {results} results"));
        let Some(known) = known else { continue };
        let now = again.after.operations.get(id);
        judge.expect("settled", now == Some(known), || {
            format!("{id} has changed: {now:?}")
        });
    }
    judge.0
}

impl Again<'_> {
    /// Whether it was executed now, with its effect.
    fn ran(&self, id: &str) -> bool {
        let outcome = self.after.operations.get(id).and_then(|it| it.outcome);
        self.replayed.get(id) == Some(&false) && outcome == Some(Outcome::Succeeded)
    }
}
