//! What recovery would decide, without doing anything: it reads, and neither waits nor signals.

use std::path::Path;

use xioflow_journal::{Query, Stream};

use super::decide::Ruling;
use super::facts::{Attempt, Init, Leaf, Liveness};
use super::unfinished::{Origin, Unfinished};
use super::{Decision, First, settle};
use crate::error::ExecuteError;
use crate::output::artifact_name;

/// What [`Domain::open`](crate::Domain::open) would settle in the domain of this folder, the oldest
/// operation first. For a domain that nobody owns: what an owner has in flight looks unfinished too.
///
/// Where recovery would first wait for a helper or end processes, [`Decision::first`] says so, and the
/// rest is what follows if the helper says nothing, or if all of them can be ended.
///
/// # Errors
/// [`ExecuteError::Read`] if the journal cannot be read.
pub fn preview(journal: &impl Query, folder: &Path) -> Result<Vec<Decision>, ExecuteError> {
    let origin = Origin::of(journal.owner()?.as_ref(), journal)?;
    let (holders, artifacts) = (folder.join("holders"), folder.join("artifacts"));
    let mut decisions = Vec::new();
    for operation in journal.unfinished()? {
        let mut unfinished = Unfinished::new(operation, journal, &holders, &origin)?;
        unfinished.action = unfinished.begun_action(journal, &holders)?.map(Box::new);
        // What is found, before it is pretended that anything was done.
        let evidence = unfinished.evidence();
        let of_action = unfinished
            .action
            .as_mut()
            .and_then(|action| pretend(action));
        let first = pretend(&mut unfinished).or(of_action);
        let (_, mut decision) = settle::conclude(&unfinished, &origin);
        decision.evidence = evidence;
        decision.first = first;
        let len = |stream| stored_len(&artifacts, &decision.operation_id, stream);
        (decision.stdout_bytes, decision.stderr_bytes) = (len(Stream::Stdout), len(Stream::Stderr));
        decisions.push(decision);
    }
    Ok(decisions)
}

/// Goes on as if what comes first had been done; says what that is.
fn pretend(unfinished: &mut Unfinished) -> Option<First> {
    let mut first = None;
    loop {
        match unfinished.ruling() {
            Ruling::Conclude(_) => return first,
            Ruling::Wait => {
                unfinished.observed.waited = true;
                first.get_or_insert(First::WaitForHelper);
            }
            Ruling::Stop => {
                pretend_the_end(unfinished);
                first.get_or_insert(First::StopProcesses);
            }
        }
    }
}

/// One step of those that recovery would take, done with success.
fn pretend_the_end(unfinished: &mut Unfinished) {
    let is_inside = unfinished.is_root_in_leaf();
    let observed = &mut unfinished.observed;
    if observed.leaf == Leaf::Populated {
        observed.leaf = Leaf::Empty;
        if is_inside {
            observed.root = Liveness::Gone;
        }
        return;
    }
    if observed.init == Init::Lives {
        observed.init = Init::Gone;
        observed.root = Liveness::Gone;
    }
    observed.attempt = Attempt::Confirmed;
}

/// How much of a stream stands in its file.
fn stored_len(artifacts: &Path, operation_id: &str, stream: Stream) -> Option<u64> {
    let path = artifacts.join(artifact_name(operation_id, stream));
    let file = path.symlink_metadata().ok()?;
    file.is_file().then_some(file.len())
}
