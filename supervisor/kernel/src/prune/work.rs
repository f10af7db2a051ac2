//! Works a plan off: page by page of the record, one commit for each page, and the files after it.

use std::ffi::OsStr;

use xioflow_journal::{Change, CommitError, Journal, KeptBecause, PruneReason, Query, StoredFile};

use super::plan::{Need, Plan, Ruling, Stored};
use super::report::{Pruned, PrunedFile};
use super::{Place, PruneError};
use crate::output::{FileId, Found};

/// Outputs that are looked at, and removed, together. It bounds the memory that a pruning takes.
pub(super) const PAGE_LEN: usize = 256;

/// How much is done at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) looked_at: usize,
    pub(super) removed: usize,
}

/// A pruning under way.
#[derive(Debug)]
pub(super) struct Work<'a> {
    place: Place<'a>,
    plan: Plan,
    /// What goes with the next commit.
    batch: Vec<(PrunedFile, FileId)>,
}

impl<'a> Work<'a> {
    pub(super) fn new(place: Place<'a>, plan: Plan) -> Self {
        Self {
            place,
            plan,
            batch: Vec::new(),
        }
    }

    /// Goes through all output, the oldest result first.
    pub(super) fn work_off(self, told: &mut Pruned) -> Result<(), PruneError> {
        let all = Bounds {
            looked_at: usize::MAX,
            removed: usize::MAX,
        };
        self.work_within(all, false, told)
    }

    /// Goes through the oldest output, as long as the bounds allow, and with `only_until_done` only until the
    /// plan is fulfilled.
    pub(super) fn work_within(
        mut self,
        mut left: Bounds,
        only_until_done: bool,
        told: &mut Pruned,
    ) -> Result<(), PruneError> {
        let mut after = None;
        while left.looked_at > 0 && !(only_until_done && self.plan.is_done()) {
            let len = PAGE_LEN.min(left.looked_at);
            let page = self.place.records.stored_files(after.as_ref(), len)?;
            let Some(last) = page.last() else { break };
            after = Some(last.clone());
            left.looked_at -= page.len();
            for file in page {
                if self.batch.len() < left.removed {
                    self.consider(file, told)?;
                }
            }
            left.removed -= self.batch.len();
            self.conclude_batch(told)?;
            if left.removed == 0 {
                break;
            }
        }
        Ok(())
    }

    fn consider(&mut self, output: StoredFile, told: &mut Pruned) -> Result<(), PruneError> {
        let found = self.place.artifacts.look(OsStr::new(&output.artifact));
        let file = match found {
            Ok(Found::File(file)) => file,
            Ok(Found::Nothing) => {
                told.missing_total += 1;
                return Ok(());
            }
            // The survey has named it.
            Ok(Found::Other(_)) => return Ok(()),
            Err(source) => return Err(self.place.cannot_look(source)),
        };
        let need = output.kept_because().map(Need::from);
        if let Some(need) = need {
            told.kept.add(need, file.bytes);
        }
        let stored = Stored {
            bytes: file.bytes,
            finished_at_ms: output.finished_at_ms,
            need,
        };
        if let Ruling::Remove(reason) = self.plan.rule(&stored) {
            self.batch.push((doomed(output, &file, reason), file));
        }
        Ok(())
    }

    /// Records that these are pruned, and then removes them.
    fn conclude_batch(&mut self, told: &mut Pruned) -> Result<(), PruneError> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        let Some(journal) = self.place.journal else {
            batch.into_iter().for_each(|(file, _)| told.remove(file));
            return Ok(());
        };
        let artifacts = self.place.artifacts;
        let mut failed = None;
        for (file, looked_at) in record(journal, batch)? {
            let name = OsStr::new(&file.artifact);
            match artifacts.remove(name, &looked_at) {
                Ok(_) => told.remove(file),
                Err(source) => {
                    failed.get_or_insert_with(|| self.place.cannot_remove(name, source));
                }
            }
        }
        // Otherwise a power loss could bring files of many batches back, and the next opening looks for those of
        // the last ones only.
        let synced = artifacts.sync().map_err(|it| self.place.cannot_look(it));
        failed.map_or(synced, Err)
    }
}

/// Records that the files of a batch are pruned, and gives back those for which the journal did.
fn record(
    journal: &Journal,
    batch: Vec<(PrunedFile, FileId)>,
) -> Result<Vec<(PrunedFile, FileId)>, CommitError> {
    match journal.commit(batch.iter().map(|(file, _)| change(file)).collect()) {
        Ok(_) => return Ok(batch),
        Err(CommitError::Rejected(_)) => {}
        Err(error) => return Err(error),
    }
    // One of them has become needed since it was looked at. The others go alone.
    let mut recorded = Vec::new();
    for (file, looked_at) in batch {
        match journal.commit(vec![change(&file)]) {
            Ok(_) => recorded.push((file, looked_at)),
            Err(CommitError::Rejected(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(recorded)
}

fn change(file: &PrunedFile) -> Change {
    Change::PruneOutput {
        operation_id: file.operation_id.clone(),
        stream: file.stream,
        reason: file.reason,
    }
}

fn doomed(output: StoredFile, file: &FileId, reason: PruneReason) -> PrunedFile {
    PrunedFile {
        operation_id: output.operation_id,
        stream: output.stream,
        artifact: output.artifact,
        bytes: file.bytes,
        reason,
    }
}

impl From<KeptBecause> for Need {
    fn from(why: KeptBecause) -> Self {
        match why {
            KeptBecause::Indeterminate => Self::Indeterminate,
            KeptBecause::OpenRun => Self::OpenRun,
        }
    }
}
