//! The command line, with the help that teaches it.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::count::{parse_count, parse_number};
use crate::duration::parse_duration;
use crate::range::{Lines, parse_bytes, parse_lines};
use crate::size::parse_size;

const RUN_HELP: &str = "\
Exit status:
  the command's own, and
  128+N  it was ended by signal N       126, 127  it cannot be executed, was not found
  124    its --timeout was over         130       cancelled by Ctrl-C (SIGTERM 143, SIGHUP 129)
  64     usage                          69        asked for what this host cannot enforce
  70     internal error                 73        the domain cannot be opened
  75     busy: domain or --lease held   76        --op was used with other inputs
  79     its end cannot be proven
  Each of the codes that are ours comes with a line on standard error.

Examples:
  xioflow run -- cargo test
  xioflow run --op deploy-1f3a --timeout 10m -- ./deploy.sh     at most one execution, ever
  xioflow run --json -- make | jq .treeSettlement
  xioflow run --lease port:8080 --wait 30s -- npm start";

const HELP: &str = "\
Exit status of run: its own page, `xioflow run --help`. Of the others:
  0   done                            1   no such operation; doctor: not ready
  64  usage                           70  not printed whole, or an internal error
  73  there is no domain, or it cannot be read";

/// Above the options that are understood and refused.
const NOT_YET: &str = "Not in this release (refused with exit status 69, nothing runs)";

/// Runs commands under supervision: the whole process tree is held, every outcome is recorded.
#[derive(Debug, Parser)]
#[command(
    name = "xioflow",
    version,
    max_term_width = 100,
    after_help = HELP,
    subcommand_required = true
)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Folder of the domain [default: $XIOFLOW_DOMAIN, else .xioflow at the top of the git work
    /// tree, else .xioflow here]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) domain: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a command, hold its whole tree, record how it ended
    Run(Box<RunArgs>),
    /// List operations, the newest first
    List(ListArgs),
    /// Show one operation with everything that is recorded of it
    Show(ShowArgs),
    /// Print what an operation printed, byte for byte, or a part of it
    Logs(LogsArgs),
    /// Print the journal's events
    Events(EventsArgs),
    /// Say who owns the domain and what is going on in it
    Status(StatusArgs),
    /// Say what this host can do, by doing it
    Doctor(DoctorArgs),
}

impl Verb {
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::List(args) => args.json,
            Self::Show(args) => args.json,
            Self::Logs(_) => false,
            Self::Events(args) => args.json,
            Self::Status(args) => args.json,
            Self::Doctor(args) => args.json,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArgs {
    /// Name the operation, with 1 to 4096 bytes of any kind: the same id again returns the
    /// recorded result and runs nothing
    #[arg(long, value_name = "ID")]
    pub(crate) op: Option<String>,

    /// Stop it when it has run this long (30s, 10m, 1h30m)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,

    /// How long it may take to end by itself before it is killed [default: 2s when cancelled,
    /// 1500ms after a timeout]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) grace: Option<Duration>,

    /// Working directory of the command [default: here]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// Set a variable (K=V), or pass this program's own through (K), which must be set then; may be
    /// repeated, and the last of a name counts. Results name variables and never show values
    #[arg(long, value_name = "K[=V]")]
    pub(crate) env: Vec<OsString>,

    /// Begin with an empty environment instead of this one
    #[arg(long)]
    pub(crate) clear_env: bool,

    /// Standard input: `null` (empty), `closed` (none at all, as after `<&-`), `inherit`, or a
    /// file (one of these names is ./NAME); a FIFO is waited for until it has a writer
    #[arg(long, value_name = "FROM", default_value = "null")]
    pub(crate) stdin: OsString,

    /// Give the command one pipe for both streams: all it prints is its standard output, in exact
    /// order. Otherwise each stream keeps its own order, and the order between them is not known
    #[arg(long)]
    pub(crate) merge_stderr: bool,

    /// Hold an exclusive resource while it runs; may be repeated. `workspace:write:DIR` overlaps
    /// with folders in and around DIR
    #[arg(long, value_name = "NAME")]
    pub(crate) lease: Vec<String>,

    /// How long to wait for the domain and for leases
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    pub(crate) wait: Duration,

    /// How much of each output stream --json holds; what is stored has a limit of its own
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "10MiB")]
    pub(crate) max_output: u64,

    /// How much of each output stream is stored on disk: the beginning and the last bytes. A command
    /// that prints more goes on, and all of it still passes through: beyond this, at the pace of whoever
    /// reads it
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "4GiB")]
    pub(crate) max_stored: u64,

    /// What becomes of processes that outlive the command
    #[arg(long, value_enum, default_value_t = Descendants::Stop)]
    pub(crate) descendants: Descendants,

    /// How the tree is held
    #[arg(long, value_enum, default_value_t = Driver::Auto)]
    pub(crate) driver: Driver,

    /// Memory limit of the tree
    #[arg(long, help_heading = NOT_YET, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) memory: Option<u64>,

    /// Limit of the number of processes
    #[arg(long, help_heading = NOT_YET, value_name = "N", value_parser = parse_count::<u64>)]
    pub(crate) pids: Option<u64>,

    /// Limit of processors used at once
    #[arg(long, help_heading = NOT_YET, value_name = "N", value_parser = parse_number)]
    pub(crate) cpus: Option<f64>,

    /// Limit of processor time
    #[arg(long, help_heading = NOT_YET, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) cpu_time: Option<Duration>,

    /// How limits are enforced
    #[arg(long, help_heading = NOT_YET, value_enum)]
    pub(crate) limits: Option<Limits>,

    /// Confine where it may write
    #[arg(long, help_heading = NOT_YET, value_name = "DRIVER", num_args = 0..=1,
          require_equals = true, default_missing_value = "auto", value_enum)]
    pub(crate) confine: Option<Confine>,

    /// A folder that a confined command may write; may be repeated
    #[arg(long, help_heading = NOT_YET, value_name = "DIR")]
    pub(crate) write: Vec<PathBuf>,

    /// Print one JSON document with the result instead of the command's output
    #[arg(long)]
    pub(crate) json: bool,

    /// With --json: each stream also as a text to read, stdoutView and stderrView, with the last
    /// frame of redrawn lines only and without terminal control; what that leaves out is counted
    #[arg(long, requires = "json")]
    pub(crate) text_view: bool,

    /// Say nothing on standard error but what explains an exit status of ours
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Return at once and leave it running
    #[arg(long, help_heading = NOT_YET)]
    pub(crate) detach: bool,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Descendants {
    /// They are stopped and named
    Stop,
    /// The operation stays open until they end by themselves
    Wait,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    /// The strongest that this host allows
    Auto,
    /// A helper that adopts every orphan
    Reaper,
    /// A control group of its own (not in this release)
    Cgroup,
    /// A process-id namespace of its own (not in this release)
    Pidns,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Limits {
    /// By the kernel
    Hard,
    /// By watching and stopping
    Soft,
    /// Not at all; only recorded
    Observe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Confine {
    /// The first that works
    Auto,
    /// Landlock
    Landlock,
    /// bubblewrap
    Bubblewrap,
    /// sandbox-runtime
    Srt,
    /// macOS's sandbox-exec
    SandboxExec,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = parse_count::<usize>)]
    pub(crate) limit: usize,

    /// Only unfinished ones
    #[arg(long)]
    pub(crate) unfinished: bool,

    /// Print one JSON document
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
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Only those of one operation
    #[arg(long, value_name = "ID")]
    pub(crate) op: Option<String>,

    /// Only those after this position
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = parse_count::<i64>)]
    pub(crate) after: i64,

    /// Go on as new ones come
    #[arg(long)]
    pub(crate) follow: bool,

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

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_follows_the_dashes_is_the_commands() {
        let cli = Cli::try_parse_from(["xioflow", "run", "--", "make", "--json"]).unwrap();
        let Verb::Run(run) = cli.verb else {
            panic!("not a run")
        };
        assert!(!run.json);
        assert_eq!(run.command, ["make", "--json"]);
    }

    #[test]
    fn confinement_takes_its_driver_after_an_equals_sign_only() {
        let cli = Cli::try_parse_from(["xioflow", "run", "--confine", "true"]).unwrap();
        let Verb::Run(run) = cli.verb else {
            panic!("not a run")
        };
        assert_eq!(run.confine, Some(Confine::Auto));
        assert_eq!(run.command, ["true"]);
    }
}
