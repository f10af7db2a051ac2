//! What people do about a domain: `op.adjudicate` decides about operations whose end cannot be proven,
//! `artifacts.prune` removes stored output.

use serde::{Deserialize, Serialize};

/// `op.adjudicate`: decides about an operation whose end cannot be proven, once. Its leases are freed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Adjudicate {
    /// The operation.
    pub operation_id: String,
    /// What is decided.
    pub verdict: Verdict,
    /// Who decides, for the record: 1 to 256 bytes without control characters.
    pub actor: String,
    /// Why, for the record, in at most 4096 bytes.
    #[serde(default)]
    pub note: Option<String>,
}

/// What can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing of the operation runs any more. Refused while something is seen to live, and where that cannot
    /// be told.
    ConfirmedStopped,
    /// Whatever may still run is nobody's business any more. What is seen to live is recorded.
    AbandonWithResiduals,
}

/// The answer to [`Adjudicate`]: what was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Adjudicated {
    /// The operation.
    pub operation_id: String,
    /// What was decided.
    pub verdict: Verdict,
    /// By whom.
    pub actor: String,
    /// Why.
    pub note: Option<String>,
    /// Processes that were seen to live.
    pub residual_pids: Vec<u32>,
    /// When, in milliseconds since 1970.
    pub decided_at_ms: i64,
}

/// `artifacts.prune`: removes stored output that nothing needs. The record of its operations stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prune {
    /// Output whose operation ended longer ago than this goes, in milliseconds; by default none goes for its age.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_ms: Option<u64>,
    /// The oldest goes until what is left takes no more than so many bytes; by default none goes for its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Removes nothing, and tells what would be removed.
    #[serde(default)]
    pub dry_run: bool,
}

/// The answer to [`Prune`]. Totals count everything; of each kind the first 256 are named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pruned {
    /// Whether nothing was removed and all of this is only what would be.
    pub dry_run: bool,
    /// Files that went, the oldest result first.
    pub removed: Vec<PrunedFile>,
    /// All that went.
    pub removed_total: Tally,
    /// Files that an earlier pruning or a crash had left although nothing refers to them. They went too.
    pub leftovers: Tally,
    /// Files that stay because something needs them.
    pub kept: Kept,
    /// Things that are no files under the names of stored output. They stay.
    pub obstacles: Vec<Obstacle>,
    /// All of those.
    pub obstacles_total: u64,
    /// Outputs whose file is gone, though it was not pruned.
    pub missing_total: u64,
    /// Names that nothing in the record explains. They stay.
    pub unknown: Vec<String>,
    /// All of those.
    pub unknown_total: Tally,
    /// What the stored output took before, in bytes, without what is unknown.
    pub bytes_before: u64,
    /// What it takes now, or would.
    pub bytes_after: u64,
}

/// How many files, and how many bytes they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A file that was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PrunedFile {
    /// The operation.
    pub operation_id: String,
    /// Which of its streams.
    pub stream: crate::operation::Stream,
    /// The name of the file.
    pub artifact: String,
    /// How long it was, in bytes.
    pub bytes: u64,
    /// What it went for: `age`, `size` or `quota`.
    pub reason: String,
}

/// Files that stay because something needs them, by what that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Kept {
    /// Their operations have no result yet.
    pub unfinished: Tally,
    /// The end of their operations cannot be proven, and nobody has decided about it.
    pub indeterminate: Tally,
    /// The Runs of their operations are open.
    pub open_run: Tally,
}

/// What stands where a stored file should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Obstacle {
    /// Its name.
    pub name: String,
    /// What it is: `link`, `folder`, `pipe`, `socket`, `device`.
    pub what: String,
}
