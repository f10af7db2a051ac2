//! Settles what an earlier owner left unfinished, before anything is admitted.
//!
//! It decides by evidence (`decide` is the table): what is recorded, the helper's last word, and whether
//! the recorded processes live. It waits for helpers that are still at work (`wait`), ends what is
//! left without one (`stop`), and runs nothing. Killed at any step and run again it comes to the
//! same end; on a settled domain it changes nothing.

#[cfg_attr(
    not(feature = "rules"),
    expect(unreachable_pub, reason = "public for `rules`, which is a feature")
)]
mod decide;
mod drafts;
#[cfg_attr(
    not(feature = "rules"),
    expect(unreachable_pub, reason = "public for `rules`, which is a feature")
)]
mod facts;
mod group;
mod namespace;
mod preview;
#[cfg_attr(
    not(feature = "rules"),
    expect(unreachable_pub, reason = "public for `rules`, which is a feature")
)]
mod runs;
mod settle;
mod stop;
mod stop_action;
mod sweep;
mod tell;
mod unfinished;
mod wait;
mod word;

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use xioflow_journal::{Change, Journal, OpenRun, Outcome, Query};
use xioflow_killpoint as killpoint;

use crate::error::ExecuteError;
use crate::groups::Groups;
use crate::output::Artifacts;
use crate::result::ProcessIdentity;

pub use decide::Verdict;
pub use preview::preview;
pub use sweep::SweptGroup;

pub(crate) use facts::{Init, Leaf, Liveness};
pub(crate) use group::{
    look_at as look_at_group, members as members_of_group, place_of as group_of,
    remove as remove_group,
};
pub(crate) use unfinished::{Legible, legible};
pub(crate) use word::{Found, Parties, read as read_word};

/// The pure part, for models of the whole.
#[cfg(feature = "rules")]
pub(crate) mod rules {
    pub use super::decide::{Case, Conclusion, Ruling, decide};
    pub use super::facts::{
        Attempt, Fate, Init, Known, Leaf, Liveness, Observed, Provenance, Recorded, Said, Word,
    };
    pub use super::runs::{RunFacts, converge};
    pub use super::word::word_of;
}

use decide::Ruling;
use runs::{RunFacts, converge};
use settle::Settled;
use stop::Stopped;
use unfinished::{Origin, Unfinished};

/// Operations whose results are recorded in one commit, more where they belong to one Run.
const COMMIT_OPERATIONS: usize = 64;

/// Runs that are ended in one commit.
const COMMIT_RUNS: usize = 256;

/// What was decided about one operation, and on what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The operation.
    pub operation_id: String,
    /// The case, a letter of the table in the documentation of recovery.
    pub case: char,
    /// What follows.
    pub verdict: Verdict,
    /// How the operation ended, as far as it is known.
    pub status: Outcome,
    /// What became of the leases that it had.
    pub leases: LeasesAre,
    /// What it rests on, as a sentence.
    pub evidence: String,
    /// Who got a signal from recovery, the first 256.
    pub signalled: Vec<u32>,
    /// How much of its standard output had reached the disk, in bytes; null where there is no file.
    pub stdout_bytes: Option<u64>,
    /// The same for standard error.
    pub stderr_bytes: Option<u64>,
    /// What is to be done by hand, for a stop action that was due and is not known to have succeeded.
    #[serde(default)]
    pub guidance: Option<String>,
    /// Only in a preview: what recovery would do first. The rest is then what follows if the helper says
    /// nothing, or if everybody can be ended.
    #[serde(default)]
    pub first: Option<First>,
}

/// What recovery has done.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) decisions: Vec<Decision>,
    pub(crate) swept: Vec<SweptGroup>,
}

/// What became of leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeasesAre {
    /// Others can have what was leased.
    Freed,
    /// Nobody can, until somebody adjudicates the operation.
    Kept,
}

/// What recovery does before it concludes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum First {
    /// It waits for a helper that is at work, or for the end of the pid namespace that it held.
    WaitForHelper,
    /// It ends processes that are identified and that nobody holds.
    StopProcesses,
}

/// Settles every unfinished operation, and ends the Runs that nobody can end any more.
pub(crate) fn recover(
    journal: &Journal,
    artifacts: &Artifacts,
    holders: &Path,
    groups: &Groups,
) -> Result<Recovered, ExecuteError> {
    let origin = Origin::of(journal.before(), journal)?;
    let mut all = Vec::new();
    for operation in journal.unsettled()?.operations {
        all.push(Unfinished::new(operation, journal, holders, &origin)?);
    }
    let open = open_runs(journal)?;
    converge_others(journal, &open, origin.died)?;
    let owners = stop_action::lay_beside(&mut all, journal, holders)?;
    killpoint::pass(|| "recovery:before-wait");
    wait_for_helpers(&mut all);
    killpoint::pass(|| "recovery:waited");
    stop_the_rest(&mut all);
    let swept = sweep::sweep(groups, journal, &all)?;
    killpoint::pass(|| "recovery:stopped");
    stop_action::put_back(&mut all, owners);
    let decisions = settle_all(journal, artifacts, &all, &open, &origin)?;
    group::remove_settled(&all);
    killpoint::pass(|| "recovery:groups-removed");
    word::remove_settled(holders, |operation_id| Ok(journal.operation(operation_id)?))?;
    drafts::remove(holders, journal)?;
    killpoint::pass(|| "recovery:words-removed");
    Ok(Recovered { decisions, swept })
}

/// Lets the helpers that are at work come to their end, within one time for all, and then the namespaces
/// that they held.
fn wait_for_helpers(all: &mut [Unfinished]) {
    let until = Instant::now() + wait::HOLDER_PATIENCE;
    let waits = |it: &&Unfinished| it.ruling() == Ruling::Wait;
    let at_work: Vec<&ProcessIdentity> = all
        .iter()
        .filter(waits)
        .filter_map(|it| it.holder.as_ref())
        .collect();
    wait::wait_for_holders(&at_work, until);
    look_again(all, false);
    let is_ending = |it: &&Unfinished| waits(it) && it.observed.holder != Liveness::Alive;
    let inits = all.iter().filter(is_ending).filter_map(Unfinished::init);
    wait::wait_for_inits(&inits.collect::<Vec<_>>());
    look_again(all, true);
}

/// Looks again at those that were waited for.
fn look_again(all: &mut [Unfinished], waited: bool) {
    for unfinished in all.iter_mut().filter(|it| it.ruling() == Ruling::Wait) {
        unfinished.observed.waited = waited;
        unfinished.look();
    }
}

/// Ends what is identified and has no holder, all of it side by side.
fn stop_the_rest(all: &mut [Unfinished]) {
    let mut of_these: Vec<&mut Unfinished> = all
        .iter_mut()
        .filter(|it| it.ruling() == Ruling::Stop)
        .collect();
    group::end_leaves(&mut of_these);
    of_these.retain(|it| it.ruling() == Ruling::Stop);
    namespace::end_inits(&mut of_these);
    // With the init gone there is nobody left, as in an empty group.
    of_these.retain(|it| it.ruling() == Ruling::Stop);
    let roots: Vec<&ProcessIdentity> = of_these.iter().filter_map(|it| it.root.as_ref()).collect();
    let stopped = stop::stop_all(&roots);
    // Each of them has a root, or the ruling would be another.
    for (unfinished, stopped) in of_these.iter_mut().zip(stopped) {
        unfinished.observed.attempt = stopped.attempt;
        let before = std::mem::replace(&mut unfinished.stopped, Stopped::NOTHING);
        unfinished.stopped = before.then(stopped);
    }
}

/// Records the results, those of one Run together with its end.
fn settle_all(
    journal: &Journal,
    artifacts: &Artifacts,
    all: &[Unfinished],
    open: &HashMap<String, OpenRun>,
    origin: &Origin,
) -> Result<Vec<Decision>, ExecuteError> {
    let mut by_run: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (at, unfinished) in all.iter().enumerate() {
        let run_id = unfinished.operation.run_id.as_str();
        let place = *places.entry(run_id).or_insert_with(|| {
            by_run.push((run_id, Vec::new()));
            by_run.len() - 1
        });
        by_run[place].1.push(at);
    }
    let mut decisions: Vec<(usize, Decision)> = Vec::with_capacity(all.len());
    let mut changes = Vec::new();
    let mut operations = 0;
    for (run_id, members) in by_run {
        let mut unclear = 0;
        operations += members.len();
        for at in members {
            let Settled {
                change,
                decision,
                is_proven,
            } = settle::settle(artifacts, &all[at], origin);
            unclear += u64::from(!is_proven);
            changes.push(change);
            decisions.push((at, decision));
        }
        changes.extend(open.get(run_id).and_then(|run| end_of(run, unclear)));
        if operations >= COMMIT_OPERATIONS {
            journal.commit(std::mem::take(&mut changes))?;
            operations = 0;
        }
    }
    if !changes.is_empty() {
        journal.commit(changes)?;
    }
    decisions.sort_unstable_by_key(|(at, _)| *at);
    Ok(decisions
        .into_iter()
        .map(|(_, decision)| decision)
        .collect())
}

fn open_runs(journal: &Journal) -> Result<HashMap<String, OpenRun>, ExecuteError> {
    let open = journal.open_runs()?;
    Ok(open.into_iter().map(|it| (it.run.id.clone(), it)).collect())
}

/// The end of a Run all of whose operations were just settled.
fn end_of(run: &OpenRun, newly_unclear: u64) -> Option<Change> {
    end_run(
        run,
        &RunFacts {
            unfinished: 0,
            unclear: run.unadjudicated + newly_unclear,
            owner_died: true,
            ..RunFacts::of(run)
        },
    )
}

/// Ends the Runs none of whose operations is unfinished, where their owner died.
fn converge_others(
    journal: &Journal,
    open: &HashMap<String, OpenRun>,
    owner_died: bool,
) -> Result<(), ExecuteError> {
    let end = |run: &OpenRun| {
        let facts = RunFacts {
            owner_died,
            ..RunFacts::of(run)
        };
        end_run(run, &facts)
    };
    let changes: Vec<Change> = open.values().filter_map(end).collect();
    for some in changes.chunks(COMMIT_RUNS) {
        journal.commit(some.to_vec())?;
    }
    Ok(())
}

fn end_run(run: &OpenRun, facts: &RunFacts) -> Option<Change> {
    let (status, reason) = converge(facts)?;
    Some(Change::EndRun {
        run_id: run.run.id.clone(),
        status,
        reason,
    })
}

impl RunFacts {
    fn of(run: &OpenRun) -> Self {
        Self {
            status: run.run.status,
            operations: run.operations,
            unfinished: run.unfinished,
            unclear: run.unadjudicated,
            owner_died: false,
        }
    }
}
