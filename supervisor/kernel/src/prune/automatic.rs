//! What is removed without being asked for: what an interrupted pruning left, and the oldest output of a domain
//! whose host has set a limit that is reached.

use std::ffi::OsStr;

use xioflow_journal::{Journal, Query, ReadError, Stream};

use super::plan::Plan;
use super::report::Pruned;
use super::survey::is_needless;
use super::work::{Bounds, PAGE_LEN, Work};
use crate::domain::Inner;
use crate::output::{Artifacts, Found, artifact_name};
use crate::recovery::Decision;

/// Room that an operation finds when it begins, in bytes, where the limit allows it; of a small limit a part. Where
/// running operations have a budget for their output, it is that, if it is more.
const ROOM_WANTED_BYTES: u64 = 64 * 1024 * 1024;

/// The part.
const ROOM_SHARE: u64 = 2;

/// What one submission does for that at most: it is not to wait for others' output.
const BOUNDS: Bounds = Bounds {
    looked_at: 4 * PAGE_LEN,
    removed: 64,
};

/// So many events back, an opening looks for files that were to be removed when their remover died. The
/// files go right after the commit, so it was among the last.
const EVENTS_LOOKED_AT: u32 = 2048;

impl Inner {
    /// Removes the oldest output that nothing needs, if the domain has a quota and has little room left. What
    /// cannot be removed costs nobody his command: its output is then stored as far as there is room.
    pub(crate) fn make_room(&self) {
        let budget = self.artifacts.budget().now();
        let promised = self.leases.budget().output_max_bytes.unwrap_or(0);
        let wanted = ROOM_WANTED_BYTES.max(promised).min(budget.max / ROOM_SHARE);
        if !self.has_quota || budget.free() >= wanted {
            return;
        }
        let _alone = self.pruning();
        // Whoever was before us may have made it.
        let free = self.artifacts.budget().now().free();
        let plan = Plan::for_room(wanted.saturating_sub(free));
        let mut told = Pruned::new(false);
        Work::new(self.pruning_place(), plan)
            .work_within(BOUNDS, true, &mut told)
            .ok();
    }
}

/// Removes files that are recorded as pruned and stand there still, and files of output that is in the journal
/// now: of the newest results, and of those that were just `recovered`. One that cannot be removed stays; the
/// next pruning names it.
pub(crate) fn finish_interrupted(
    journal: &Journal,
    artifacts: &Artifacts,
    recovered: &[Decision],
) -> Result<(), ReadError> {
    for artifact in journal.pruned_lately(EVENTS_LOOKED_AT)? {
        let name = OsStr::new(&artifact);
        if let Ok(Found::File(file)) = artifacts.look(name) {
            artifacts.remove(name, &file).ok();
        }
    }
    let lately = journal.settled_lately(EVENTS_LOOKED_AT)?;
    let recovered = recovered.iter().map(|decision| &decision.operation_id);
    for id in lately.iter().chain(recovered) {
        remove_needless(journal, artifacts, id)?;
    }
    Ok(())
}

/// Removes the files of a finished operation that hold nothing which the journal does not.
fn remove_needless(journal: &Journal, artifacts: &Artifacts, id: &str) -> Result<(), ReadError> {
    for stream in Stream::ALL {
        let name = artifact_name(id, *stream);
        let name = OsStr::new(&name);
        // Nearly always there is none, and nothing has to be asked.
        let Ok(Found::File(file)) = artifacts.look(name) else {
            continue;
        };
        let outputs = journal.outputs(id)?;
        let output = outputs.iter().find(|output| output.stream == *stream);
        if is_needless(output, file.bytes) {
            artifacts.remove(name, &file).ok();
        }
    }
    Ok(())
}
