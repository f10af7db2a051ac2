//! The options of the verbs that only read.

use std::ops::Range;
use std::time::Duration;

use clap::Args;

use crate::count::parse_count;
use crate::duration::{parse_duration, parse_interval};
use crate::range::{Lines, parse_bytes, parse_lines};

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_count::<usize>)]
    pub(crate) limit: usize,

    /// Only unfinished ones
    #[arg(long)]
    pub(crate) unfinished: bool,

    /// Go on: one line for each operation that is new or has changed; the newest comes last
    #[arg(long)]
    pub(crate) follow: bool,

    /// What runs and what it uses, again and again; Ctrl-C ends it
    #[arg(long, conflicts_with_all = ["follow", "limit", "unfinished"])]
    pub(crate) watch: bool,

    /// With --watch: how often
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "2s", requires = "watch")]
    pub(crate) interval: Duration,

    /// With --watch: at most so many times
    #[arg(long, value_name = "N", value_parser = parse_count::<u64>, requires = "watch")]
    pub(crate) times: Option<u64>,

    /// Print one JSON document; with --follow or --watch, one a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The operation
    #[arg(value_name = "OP")]
    pub(crate) operation: String,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The operation
    #[arg(value_name = "OP")]
    pub(crate) operation: String,

    /// Standard error instead of standard output
    #[arg(long)]
    pub(crate) stderr: bool,

    /// Only bytes FROM up to TO, counted from 0, without TO itself; `FROM-` is all from there on
    #[arg(long, value_name = "FROM-TO", value_parser = parse_bytes, group = "part")]
    pub(crate) bytes: Option<Range<u64>>,

    /// Only lines A to B, counted from 1, both included; `A` is one line, `A-` all from there on
    #[arg(long, value_name = "A-B", value_parser = parse_lines, group = "part")]
    pub(crate) lines: Option<Lines>,

    /// Only the last N lines
    #[arg(long, value_name = "N", group = "part", value_parser = parse_count::<u64>)]
    pub(crate) tail: Option<u64>,

    /// Both streams of an operation that has ended, in the order in which they were read; each line
    /// begins with `out| ` or `err| `
    #[arg(long, conflicts_with_all = ["stderr", "part", "text", "follow"])]
    pub(crate) both: bool,

    /// As a text to read instead of byte for byte: the last frame of redrawn lines only, no terminal
    /// control, no invalid characters
    #[arg(long)]
    pub(crate) text: bool,

    /// Go on while the operation runs
    #[arg(long, conflicts_with_all = ["bytes", "lines"])]
    pub(crate) follow: bool,

    /// With --follow: how long to wait for an operation that is not there yet
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s",
          requires = "follow")]
    pub(crate) wait: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Only those of one operation
    #[arg(long, value_name = "ID")]
    pub(crate) op: Option<String>,

    /// Only those after this position
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = parse_count::<i64>)]
    pub(crate) after: i64,

    /// Go on as new ones come; with --op, until that operation has ended
    #[arg(long)]
    pub(crate) follow: bool,

    /// With --follow and --op: how long to wait for an operation that is not there yet
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s",
          requires_all = ["follow", "op"])]
    pub(crate) wait: Duration,

    /// Print one JSON document; with --follow, one on each line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

const DOCTOR_HELP: &str = "\
Nothing is changed. Each gap comes with its remedy, as a command.

Exit status:
  0   commands can run under supervision here; with --domain, the domain is sound
  1   not so

Examples:
  xioflow doctor
  xioflow doctor --domain
  xioflow doctor --json | jq '.checks[] | select(.verdict != \"ready\")'";

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
