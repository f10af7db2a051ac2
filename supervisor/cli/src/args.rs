//! The command line, with the help that teaches it. The options of each verb are in the files below.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

mod limits;
mod live;
mod prune;
mod read;
mod run;
mod settle;

pub(crate) use live::{ArbiterArgs, AttachArgs, CancelArgs, ShutdownArgs, StandArgs};
pub(crate) use prune::PruneArgs;
pub(crate) use read::{DoctorArgs, EventsArgs, ListArgs, LogsArgs, ShowArgs, StatusArgs};
#[cfg(test)]
use run::Confine;
pub(crate) use run::{Descendants, Driver, RunArgs, StopActionWhen};
pub(crate) use settle::{AdjudicateArgs, RecoverArgs, Verdict};

const HELP: &str = "\
Exit status of run, attach, cancel, pause, resume, shutdown, recover, adjudicate, prune and
doctor: their own pages, such as `xioflow run --help`. Of the others:
  0   done                            1   no such operation
  64  usage                           70  not printed whole, or an internal error
  73  there is no domain, or it cannot be opened or read
  75  the domain is held by somebody else";

/// How long the lines of help are at most, those that are laid out by hand among them.
const LINE_MAX: usize = 100;

/// Runs commands under supervision: the whole process tree is held, every outcome is recorded.
#[derive(Debug, Parser)]
#[command(
    name = "xioflow",
    version,
    max_term_width = LINE_MAX,
    after_help = HELP,
    subcommand_required = true
)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Folder of the domain [default: $XIOFLOW_DOMAIN, else .xioflow at the top of the git work
    /// tree, else .xioflow here]
    // Of `doctor` alone it may come without a folder; see `Cli::parsed`.
    #[arg(long, global = true, value_name = "DIR", num_args = 0..=1)]
    domain: Option<Option<PathBuf>>,

    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Cli {
    /// Reads the command line.
    ///
    /// # Errors
    /// Those of the parser, help and version among them.
    pub(crate) fn parsed() -> Result<Self, clap::Error> {
        Self::try_parse().and_then(Self::checked)
    }

    /// To examine the domain is a wish of its own, and so needs no folder. Everywhere else one was forgotten.
    fn checked(self) -> Result<Self, clap::Error> {
        match (&self.domain, &self.verb) {
            (Some(None), verb) if !matches!(verb, Verb::Doctor(_)) => {
                let message = "a value is required for '--domain <DIR>' but none was supplied";
                Err(Self::command().error(ErrorKind::InvalidValue, message))
            }
            _ => Ok(self),
        }
    }

    /// The folder that was named.
    pub(crate) fn domain(&self) -> Option<&Path> {
        self.domain.as_ref()?.as_deref()
    }

    /// Whether the domain was spoken of at all.
    pub(crate) fn names_domain(&self) -> bool {
        self.domain.is_some()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a command, hold its whole tree, record how it ended
    Run(Box<RunArgs>),
    /// Follow an operation from its first byte to its end, and end as it does
    Attach(AttachArgs),
    /// Stop an operation, whoever started it
    Cancel(CancelArgs),
    /// Have an operation stand still, whoever started it
    Pause(StandArgs),
    /// Have a paused operation go on
    Resume(StandArgs),
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
    /// Settle what an owner that died has left, and say on what evidence
    Recover(RecoverArgs),
    /// Decide about an operation whose end cannot be proven
    Adjudicate(AdjudicateArgs),
    /// Remove stored output by age and size
    Prune(PruneArgs),
    /// Say what this host can do, by doing it; with --domain, examine a domain instead
    Doctor(DoctorArgs),
    /// End the domain's arbiter
    Shutdown(ShutdownArgs),
    /// Serve the domain to many clients; usually started by `run`
    Arbiter(ArbiterArgs),
}

impl Verb {
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Attach(args) => args.json,
            Self::Cancel(args) => args.json,
            Self::Pause(args) | Self::Resume(args) => args.json,
            Self::List(args) => args.json,
            Self::Show(args) => args.json,
            Self::Logs(_) | Self::Arbiter(_) => false,
            Self::Events(args) => args.json,
            Self::Status(args) => args.json,
            Self::Recover(args) => args.json,
            Self::Adjudicate(args) => args.json,
            Self::Prune(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Shutdown(args) => args.json,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_that_is_laid_out_by_hand_fits_its_lines() {
        let mut command = Cli::command();
        command.build();
        let of_verbs = command
            .get_subcommands()
            .filter_map(clap::Command::get_after_help);
        for help in of_verbs.chain(command.get_after_help()) {
            for line in help.to_string().lines() {
                assert!(
                    line.chars().count() <= LINE_MAX,
                    "it is broken elsewhere: {line}"
                );
            }
        }
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
    fn only_doctor_takes_a_domain_without_a_folder() {
        let parsed = |words: &str| Cli::try_parse_from(words.split(' ')).and_then(Cli::checked);
        let doctor = parsed("xioflow doctor --domain").unwrap();
        assert!(doctor.names_domain() && doctor.domain().is_none());
        for named in [
            "doctor --domain d",
            "--domain d list",
            "--domain=d run -- x",
            "show op --domain d",
        ] {
            let cli = parsed(&format!("xioflow {named}")).unwrap();
            assert_eq!(cli.domain(), Some(Path::new("d")), "{named}");
        }
        assert!(!parsed("xioflow doctor").unwrap().names_domain());
        for forgotten in [
            "list --domain",
            "run --domain -- true",
            "status --domain --json",
        ] {
            let error = parsed(&format!("xioflow {forgotten}")).unwrap_err();
            assert!(
                error.to_string().contains("--domain <DIR>"),
                "{forgotten}: {error}"
            );
        }
    }

    #[test]
    fn pruning_is_told_what_may_go() {
        let parsed = |words: &str| Cli::try_parse_from(words.split(' '));
        assert!(parsed("xioflow prune").is_err());
        assert!(parsed("xioflow prune --json").is_err());
        for told in [
            "--max-age 7d",
            "--max-bytes 1GiB",
            "--max-age 12h --max-bytes 0",
            "--dry-run",
        ] {
            assert!(parsed(&format!("xioflow prune {told}")).is_ok(), "{told}");
        }
        for wrong in ["--max-age 7", "--max-bytes 1.5GiB", "--max-age -1d"] {
            assert!(
                parsed(&format!("xioflow prune {wrong}")).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_decision_has_one_of_two_names_and_somebody_who_made_it() {
        let parsed = |words: &str| Cli::try_parse_from(words.split(' '));
        assert!(parsed("xioflow adjudicate op confirmed_stopped --actor jo").is_ok());
        assert!(parsed("xioflow adjudicate op abandon_with_residuals --actor jo --note x").is_ok());
        for wrong in ["op confirmed_stopped", "op ok --actor jo", "op --actor jo"] {
            assert!(
                parsed(&format!("xioflow adjudicate {wrong}")).is_err(),
                "{wrong}"
            );
        }
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
