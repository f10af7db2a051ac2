//! The options of the verbs about what runs, and about the arbiter that runs it.

use std::time::Duration;

use clap::Args;
use xioflow_arbiter::DEFAULT_WARM_HELPERS;

use crate::count::parse_count;
use crate::duration::{Idle, parse_duration, parse_idle};
use crate::size::parse_size;

const ATTACH_HELP: &str = "\
Exit status: that of the operation, as with `run`. Of its own:
  1  no such operation        130  left by Ctrl-C (SIGTERM 143, SIGHUP 129); the operation goes on";

const CANCEL_HELP: &str = "\
Exit status:
  0  it is being stopped; with --wait, it has ended      79  with --wait: its end cannot be proven
  1  there is no such operation, or it had ended before
  75 its owner is no arbiter, so nobody else can stop it";

const STAND_HELP: &str = "\
In a control group of its own an operation is frozen by the kernel; elsewhere each process gets
SIGSTOP, which is weaker. Its time limit goes on meanwhile, and it can be cancelled.

Exit status:
  0   it stands still, or goes on, now or before         70  it could not be done, and it goes on
  1   there is no such operation, or it has ended
  75  it has not begun, is ending, or its owner is no arbiter";

const SHUTDOWN_HELP: &str = "\
Exit status:
  0   no arbiter serves the domain any more              75  something runs, and nothing was done";

#[derive(Debug, Args)]
#[command(after_help = ATTACH_HELP)]
pub(crate) struct AttachArgs {
    /// The operation
    #[arg(value_name = "OP")]
    pub(crate) operation: String,

    /// Print one JSON document with the result instead of the command's output
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing on standard error but what explains an exit status of ours
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = CANCEL_HELP)]
pub(crate) struct CancelArgs {
    /// The operation
    #[arg(value_name = "OP")]
    pub(crate) operation: String,

    /// How long it may take to end by itself before it is killed; 0s kills it at once [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) grace: Option<Duration>,

    /// Kill it at once
    #[arg(long, conflicts_with = "grace")]
    pub(crate) kill: bool,

    /// Wait for its end
    #[arg(long)]
    pub(crate) wait: bool,

    /// Print one JSON document; with --wait, the result
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = STAND_HELP)]
pub(crate) struct StandArgs {
    /// The operation
    #[arg(value_name = "OP")]
    pub(crate) operation: String,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = SHUTDOWN_HELP)]
pub(crate) struct ShutdownArgs {
    /// Take nothing new, and wait for what runs
    #[arg(long, conflicts_with = "stop")]
    pub(crate) wait: bool,

    /// Take nothing new, and stop what runs
    #[arg(long)]
    pub(crate) stop: bool,

    /// With --stop: how long each operation may take to end by itself [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "stop")]
    pub(crate) grace: Option<Duration>,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ArbiterArgs {
    /// End when it has had no client and no operation for so long; `never` goes on until it is told. For
    /// an arbiter that `run` starts, $XIOFLOW_ARBITER_IDLE says it
    #[arg(long, value_name = "TIME", value_parser = parse_idle, default_value = "30s")]
    pub(crate) idle: Idle,

    /// How long an operation goes on after its client was lost, if nobody else waits for it
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "2s")]
    pub(crate) client_grace: Duration,

    /// How long to wait for the domain's owner to give it up [default: 10s if that is an arbiter, which
    /// may be ending, else not at all]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) wait: Option<Duration>,

    /// How many operations run at once; others wait, as for a lease [default: as many as are asked for]
    #[arg(long, value_name = "N", value_parser = parse_count::<usize>)]
    pub(crate) max_operations: Option<usize>,

    /// What the memory limits of all that runs come to at most; others wait, as for a lease, and each needs a limit
    /// (`run --memory`). $XIOFLOW_MAX_TOTAL_MEMORY says it too, also for an arbiter that `run` starts
    /// [default: whatever they are]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_total_memory: Option<u64>,

    /// What all that runs may store of its output together; others wait, as for a lease.
    /// $XIOFLOW_MAX_TOTAL_OUTPUT says it too, also for an arbiter that `run` starts [default: whatever each may]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_total_output: Option<u64>,

    /// How much stored output may take: where little of it is left, the oldest that nothing needs is removed
    /// before an operation begins. $XIOFLOW_MAX_ARTIFACTS says it too, also for an arbiter that `run`
    /// starts [default: 32GiB, and nothing is removed]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_artifacts: Option<u64>,

    /// How many helpers are started before there is work for them
    #[arg(long, value_name = "N", default_value_t = DEFAULT_WARM_HELPERS, value_parser = parse_count::<usize>)]
    pub(crate) warm_helpers: usize,

    /// Begin a session of its own, and tell whoever has started this whether it listens
    #[arg(long, hide = true)]
    pub(crate) daemon: bool,
}
