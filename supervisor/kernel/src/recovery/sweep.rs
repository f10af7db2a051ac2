//! Leaves of nobody: groups in the domain's own one that nothing recorded leads to. They are ended, removed and told.
//!
//! Under the domain's lock nobody else makes leaves there. Neighbours: `group` has the recorded ones, `groups` knows
//! which group is the domain's.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xioflow_cgroup::{DomainGroup, Found, Leaf, LeafPlace};
use xioflow_journal::{Journal, Operation, Query, STOP_ACTION_BEGUN};
use xioflow_killpoint as killpoint;

use super::group::Ending;
use super::stop::KILL_PATIENCE;
use super::unfinished::{Legible, Unfinished, legible};
use super::wait::WATCHED_MAX;
use crate::error::ExecuteError;
use crate::groups::Groups;

/// A control group that nothing recorded leads to, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SweptGroup {
    /// Its directory.
    pub directory: PathBuf,
    /// Who was in it and was ended, the first 256.
    pub ended: Vec<u32>,
    /// Whether it is gone. If not, somebody in it could not be ended, or may not be.
    pub removed: bool,
}

/// Ends and removes the leaves in the domain's group that belong neither to these operations nor to one that waits for a
/// decision. The group goes too when nothing is left in it.
pub(super) fn sweep(
    groups: &Groups,
    journal: &Journal,
    all: &[Unfinished],
) -> Result<Vec<SweptGroup>, ExecuteError> {
    // Where groups cannot be had, or looked at, none can be swept.
    let Some(domain) = groups.existing() else {
        return Ok(Vec::new());
    };
    let Ok(leaves) = domain.leaves() else {
        return Ok(Vec::new());
    };
    let leaves: Vec<LeafPlace> = leaves.collect();
    if leaves.is_empty() {
        remove_if_empty(&domain);
        return Ok(Vec::new());
    }
    let Some(recorded) = recorded(journal, all)? else {
        return Ok(Vec::new());
    };
    let of_nobody = leaves.iter().filter(|it| !recorded.contains(&it.id));
    let of_nobody: Vec<&LeafPlace> = of_nobody.collect();
    let until = Instant::now() + KILL_PATIENCE;
    let swept = of_nobody
        .chunks(WATCHED_MAX)
        .flat_map(|some| sweep_these(some, until))
        .collect();
    remove_if_empty(&domain);
    Ok(swept)
}

/// The ids of the groups that operations still have; `None` where one of them cannot be read, so that any group may be
/// its own.
fn recorded(journal: &Journal, all: &[Unfinished]) -> Result<Option<BTreeSet<u64>>, ExecuteError> {
    let mut identities: Vec<Option<Value>> = Vec::new();
    let unfinished = all.iter().map(|it| it.operation.clone());
    for operation in unfinished.chain(journal.unadjudicated(None)?) {
        identities.extend(action_of(journal, &operation)?);
        identities.push(operation.process_identity);
    }
    let mut ids = BTreeSet::new();
    for identity in &identities {
        match legible(identity.as_ref()) {
            Legible::Yes(identity) => ids.extend(identity.cgroup_id),
            Legible::No => {}
            Legible::Illegible => return Ok(None),
        }
    }
    Ok(Some(ids))
}

/// The identity of its stop action, if that has begun.
fn action_of(
    journal: &Journal,
    operation: &Operation,
) -> Result<Option<Option<Value>>, ExecuteError> {
    let events = journal.events(0, Some(&operation.id), None)?;
    let begun = events.iter().find(|it| it.kind == STOP_ACTION_BEGUN);
    Ok(begun.map(|begun| begun.payload.get("processIdentity").cloned()))
}

fn sweep_these(places: &[&LeafPlace], until: Instant) -> Vec<SweptGroup> {
    let found = places.iter().filter_map(|place| match Leaf::open(place) {
        Ok(Found::Leaf(leaf)) => Some(Ending::begin(leaf)),
        // It went away meanwhile, or may not be looked at.
        Ok(Found::Gone | Found::Stranger | Found::CannotTell { .. }) | Err(_) => None,
    });
    let endings: Vec<Ending> = found.collect();
    let finish = |ending: Ending| {
        let (leaf, stopped) = ending.finish(until);
        killpoint::pass(|| "recovery:before-sweep");
        SweptGroup {
            directory: leaf.place().directory.clone(),
            ended: stopped.signalled,
            removed: leaf.remove().is_ok(),
        }
    };
    endings.into_iter().map(finish).collect()
}

/// Another owner makes it again when it needs it.
fn remove_if_empty(domain: &DomainGroup) {
    domain.remove().ok();
}
