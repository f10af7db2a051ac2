//! The options of `run`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::limits::LimitArgs;
use crate::duration::parse_duration;
use crate::size::parse_size;

const RUN_HELP: &str = "\
Exit status:
  the command's own, and
  128+N  it was ended by signal N       126, 127  it cannot be executed, was not found
  124    its --timeout was over         130       cancelled by Ctrl-C (SIGTERM 143, SIGHUP 129)
  64     usage                          69        asked for what this host cannot enforce
  70     internal error                 73        the domain cannot be opened
  75     busy: --lease or domain held   76        --op was used with other inputs
  79     its end cannot be proven
  Each of the codes that are ours comes with a line on standard error.

Examples:
  xioflow run -- cargo test
  xioflow run --op deploy-1f3a --timeout 10m -- ./deploy.sh     at most one execution, ever
  xioflow run --json -- make | jq .treeSettlement
  xioflow run --lease port:8080 --wait 30s -- npm start
  xioflow run --memory 2GiB --pids 256 --limits soft -- make -j
  systemd-run --user --scope -p Delegate=yes xioflow run -- make   in a control group
  xioflow run --driver pidns -- ./untrusted-build.sh      ended by the kernel, whoever dies
  xioflow run --timeout 20m --stop-action 'docker rm -f build-7' -- docker run --name build-7 img
  xioflow attach $(xioflow run --detach -- make)";

/// Above the options that are understood and refused.
const NOT_YET: &str = "Not in this release (refused with exit status 69, nothing runs)";

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

    /// How long it may take to end by itself before it is killed; 0s kills it at once [default: 2s when
    /// cancelled, 1500ms after a timeout]
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
    /// reads it [default: 4GiB, and never more than a sixteenth of the domain's budget of output]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_stored: Option<u64>,

    /// With --no-arbiter: how much the stored output of the domain may take, as of `xioflow arbiter`
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "no_arbiter")]
    pub(crate) max_artifacts: Option<u64>,

    /// What becomes of processes that outlive the command
    #[arg(long, value_enum, default_value_t = Descendants::Stop)]
    pub(crate) descendants: Descendants,

    /// What ends work that the command may give to a daemon outside of its tree, such as a container
    /// engine: a script of /bin/sh, run once when the command was stopped, timed out or killed, after
    /// its tree has ended. It has the command's variables and folder. Its words are recorded as they
    /// are: name secrets by variables
    #[arg(long, value_name = "SCRIPT")]
    pub(crate) stop_action: Option<OsString>,

    /// When the stop action is due
    #[arg(long, value_enum, default_value_t = StopActionWhen::Stopped, requires = "stop_action")]
    pub(crate) stop_action_when: StopActionWhen,

    /// How long the stop action may take; the leases are held meanwhile
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s", requires = "stop_action")]
    pub(crate) stop_action_timeout: Duration,

    /// How the tree is held [default: $XIOFLOW_DRIVER, else auto]
    #[arg(long, value_enum)]
    pub(crate) driver: Option<Driver>,

    /// Let no program of the command gain privileges (sudo, su, set-user-ID programs): then an
    /// unprivileged helper can end everything it starts
    #[arg(long)]
    pub(crate) no_new_privs: bool,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

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

    /// Print the operation's id once it runs, and leave it running; `xioflow attach` follows it. Its
    /// output is stored. The end of this program, or of its terminal, does not reach it
    #[arg(long, conflicts_with = "no_arbiter")]
    pub(crate) detach: bool,

    /// Own the domain for as long as the command runs, instead of having its arbiter run it. The
    /// command is then below this program, in its control group, and nobody else can use the domain
    #[arg(long)]
    pub(crate) no_arbiter: bool,

    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StopActionWhen {
    /// When the command did not come to an exit of its own
    Stopped,
    /// Whenever it ran
    Always,
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
    /// What this host gives: cgroup where the own control group is delegated, else reaper; the result
    /// says which. As root in the root of the whole hierarchy it is reaper
    Auto,
    /// A helper that adopts every orphan, and ends the tree when this program dies
    Reaper,
    /// The same, and a control group of its own: one write ends all of it, whoever is in it, and what
    /// is left when this program and the helper are killed at once is found by whoever comes next.
    /// It is made below the group of the arbiter, or of this program with --no-arbiter. Exit status 69
    /// where none can be made, with what to do
    Cgroup,
    /// A process-id namespace of its own, and a control group where auto would take one: nothing lives even when helper and supervisor are killed at
    /// once. The command sees other process ids; without privilege, files of other users are nobody's
    /// and setuid programs (sudo) do not work. Exit status 69 where the host forbids it
    Pidns,
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
