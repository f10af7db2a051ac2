//! The options of `prune`.

use std::time::Duration;

use clap::{ArgGroup, Args};

use crate::duration::parse_duration;
use crate::size::parse_size;

const PRUNE_HELP: &str = "\
Removed are files of stored output, never records: `show` and `list` say what they did, with the
length and the hash of what was printed. Output stays while its operation is unfinished, or
indeterminate and not adjudicated, or while its Run is open. Names that nothing in the record
explains stay as well, and are listed.

Exit status:
  0   done
  70  a file could not be removed
  75  somebody else owns the domain, and takes no requests

Examples:
  xioflow prune --max-age 30d --max-bytes 10GiB
  xioflow prune --max-age 7d --dry-run";

#[derive(Debug, Args)]
#[command(after_help = PRUNE_HELP)]
#[command(group = ArgGroup::new("what").args(["max_age", "max_bytes", "dry_run"]).required(true).multiple(true))]
pub(crate) struct PruneArgs {
    /// Remove output of operations that ended longer ago than this (12h, 7d)
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    pub(crate) max_age: Option<Duration>,

    /// Remove the oldest output until the rest takes no more than this (512MiB, 10GiB)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_bytes: Option<u64>,

    /// Remove nothing, and say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
