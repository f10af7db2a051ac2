//! The options of the verbs about what an owner left behind.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::duration::parse_duration;

const RECOVER_HELP: &str = "\
What an owner that died has left is settled by evidence: what its helpers saw, and whether the
recorded processes live. Processes of it that can be identified are ended; nothing is run again, and
a second time changes nothing. The same happens whenever a domain is opened to run something; this
verb does only that, and says why.

Exit status:
  0   nothing waits for anybody, whether or not there was something to settle
  79  an operation waits for a person to decide (`xioflow adjudicate`), whenever it was left
  75  somebody else owns the domain, and has no report to show
With --dry-run, 0 and 79 are about what would be.

Examples:
  xioflow recover --dry-run
  xioflow recover --json | jq '.waiting[].operationId'";

const ADJUDICATE_HELP: &str = "\
Verdicts:
  confirmed_stopped       nothing of it runs any more. Refused while a process of it is seen to
                          live, and where that cannot be told
  abandon_with_residuals  whatever may still run of it is nobody's business; what is seen to live
                          is recorded

It frees the leases that the operation has kept, and happens once. The operation stays
indeterminate, since what became of it was not seen, and its id runs nothing any more.

Exit status:
  0   recorded
  1   there is no such operation, or it was adjudicated before, or its end is known
  75  somebody else owns the domain, and takes no requests
  79  refused: something of it lives, or that cannot be told

Examples:
  xioflow recover                                           what waits, why, and what to look for
  xioflow adjudicate deploy-1f3a confirmed_stopped --actor ada --note 'looked with ps'";

#[derive(Debug, Args)]
#[command(after_help = RECOVER_HELP)]
pub(crate) struct RecoverArgs {
    /// Only say what would be decided: nothing is written, waited for or signalled, and an owner is not
    /// disturbed
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// How long to wait for the domain's owner to give it up
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s",
          conflicts_with = "dry_run")]
    pub(crate) wait: Duration,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = ADJUDICATE_HELP)]
pub(crate) struct AdjudicateArgs {
    /// The operation
    #[arg(value_name = "OP")]
    pub(crate) operation: String,

    /// What is decided
    #[arg(value_enum, value_name = "VERDICT", hide_possible_values = true)]
    pub(crate) verdict: Verdict,

    /// Who decides; it is recorded
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: String,

    /// Why; it is recorded
    #[arg(long, value_name = "TEXT")]
    pub(crate) note: Option<String>,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Verdict {
    ConfirmedStopped,
    AbandonWithResiduals,
}
