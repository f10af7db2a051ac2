//! What a pruning tells: totals of everything, and names up to a bound.

use serde::{Deserialize, Serialize};
use xioflow_journal::{PruneReason, Stream};

use super::plan::Need;

/// Files that are named at most, of each kind. Totals count all of them. An operation id can be long, and an
/// arbiter tells all of it in one message.
pub(super) const NAMED_MAX: usize = 256;

/// How many files, and how many bytes they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Tally {
    pub(super) fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }
}

/// A file that was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrunedFile {
    /// The operation.
    pub operation_id: String,
    /// Which of its streams.
    pub stream: Stream,
    /// The name of the file.
    pub artifact: String,
    /// How long it was.
    pub bytes: u64,
    /// What it went for.
    pub reason: PruneReason,
}

/// What stands where a stored file should: it is neither followed nor removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Obstacle {
    /// Its name.
    pub name: String,
    /// What it is: `link`, `folder`, `pipe`, `socket`, `device`.
    pub what: String,
}

/// Files that stay because something needs them, by what that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptFiles {
    /// See [`Need::Unfinished`].
    pub unfinished: Tally,
    /// See [`Need::Indeterminate`].
    pub indeterminate: Tally,
    /// See [`Need::OpenRun`].
    pub open_run: Tally,
}

impl KeptFiles {
    pub(super) fn add(&mut self, need: Need, bytes: u64) {
        let tally = match need {
            Need::Unfinished => &mut self.unfinished,
            Need::Indeterminate => &mut self.indeterminate,
            Need::OpenRun => &mut self.open_run,
        };
        tally.add(bytes);
    }
}

/// What became of the files of the artifacts folder.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    /// Whether nothing was removed and all of this is only what would be.
    pub dry_run: bool,
    /// The files that went, the oldest first; the first 256.
    pub removed: Vec<PrunedFile>,
    /// All that went.
    pub removed_total: Tally,
    /// Files that an earlier pruning or a crash had left behind although nothing refers to them. They went too.
    pub leftovers: Tally,
    /// What stays because something needs it. What only is young enough is not counted here.
    pub kept: KeptFiles,
    /// Things that are no files under the names of stored output, the first 256.
    pub obstacles: Vec<Obstacle>,
    /// All of them.
    pub obstacles_total: u64,
    /// Outputs whose file is gone, though nothing here has removed it.
    pub missing_total: u64,
    /// Names that nothing in the record explains, the first 256. They stay.
    pub unknown: Vec<String>,
    /// All of those.
    pub unknown_total: Tally,
    /// What the stored output took before, without what is unknown.
    pub bytes_before: u64,
    /// What it takes now, or would.
    pub bytes_after: u64,
}

impl Pruned {
    pub(super) fn new(dry_run: bool) -> Self {
        Self {
            dry_run,
            ..Self::default()
        }
    }

    pub(super) fn remove(&mut self, file: PrunedFile) {
        self.removed_total.add(file.bytes);
        self.bytes_after = self.bytes_after.saturating_sub(file.bytes);
        name(&mut self.removed, || file);
    }

    pub(super) fn obstruct(&mut self, file: &str, what: &str) {
        self.obstacles_total += 1;
        name(&mut self.obstacles, || Obstacle {
            name: file.to_owned(),
            what: what.to_owned(),
        });
    }

    pub(super) fn leave_unknown(&mut self, file: &str, bytes: u64) {
        self.unknown_total.add(bytes);
        name(&mut self.unknown, || file.to_owned());
    }
}

/// Names one more, within the bound.
fn name<T>(named: &mut Vec<T>, one: impl FnOnce() -> T) {
    if named.len() < NAMED_MAX {
        named.push(one());
    }
}
