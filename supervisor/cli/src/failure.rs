//! What this program says when it cannot do what was asked: one sentence, its causes, a hint, an
//! exit status, and the same as JSON.

use std::error::Error;
use std::fmt::Write;
use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use xioflow_kernel::journal::{
    CommitError, Fault, FileError, OpenError, OwnerRole, ReadError, StorageError,
};
use xioflow_kernel::{
    AdjudicateError, Amount, ArbiterError, DomainError, ExecuteError, InvalidCommand, OutputError,
    PruneError, namespace_remedy,
};

use xioflow_rpc::refusal::kind;

use crate::exit::Code;
use crate::{output, shell};

mod arbiter;

/// A request that was not carried out.
#[derive(Debug)]
pub(crate) struct Failure {
    /// A name for programs.
    kind: String,
    code: Code,
    message: String,
    causes: Vec<String>,
    hint: Option<String>,
    /// Whether a cause is that no more files can be opened.
    out_of_files: bool,
}

/// The kind of a failure to open a domain that somebody owns.
pub(crate) const DOMAIN_LOCKED: &str = "domain_locked";

/// The kind of a failure to read output that was removed to make room.
pub(crate) const OUTPUT_PRUNED: &str = "output_pruned";

/// How many files `run` has open at once at most, rounded up. With less than that allowed, that is
/// what is wrong, also where a cause does not say so.
const OPEN_FILES_NEEDED: u64 = 32;

impl Failure {
    pub(crate) fn new(kind: impl Into<String>, code: Code, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            code,
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            out_of_files: false,
        }
    }

    /// One from an error and everything below it.
    pub(crate) fn of(kind: &'static str, code: Code, error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::new(kind, code, error.to_string()).because(error.source());
        failure.out_of_files |= is_out_of_files(error);
        failure
    }

    /// One from what was tried, and the error that the system gave.
    pub(crate) fn of_act(kind: &'static str, code: Code, act: &str, error: &io::Error) -> Self {
        Self::new(kind, code, act).because(Some(error))
    }

    /// One from trouble of the file system under a domain, which begins with what was tried.
    fn of_storage(kind: &'static str, error: &StorageError) -> Self {
        let (kind, code) = match error.fault {
            Fault::Busy => (kind::JOURNAL_BUSY, Code::Busy),
            _ => (kind, Code::CannotOpen),
        };
        Self::new(kind, code, format!("failed to {error}")).because(error.source())
    }

    fn because(mut self, cause: Option<&(dyn Error + 'static)>) -> Self {
        let mut said = self.message.clone();
        let mut next = cause;
        while let Some(cause) = next {
            self.out_of_files |= is_out_of_files(cause);
            let text = cause.to_string();
            // Some errors repeat their source in their own sentence.
            if !said.contains(&text) {
                said.push_str(&text);
                self.causes.push(text);
            }
            next = cause.source();
        }
        self
    }

    /// Its name for programs.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Its sentence alone.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What to do about it, also where the cause may be that too few files can be opened: not
    /// everybody below says so (SQLite does not).
    fn advice(&self) -> Option<String> {
        let Some(allowed) = getrlimit(Resource::Nofile).current else {
            return self.hint.clone();
        };
        let may_be = matches!(self.code, Code::Internal | Code::CannotOpen);
        if !self.out_of_files && (allowed >= OPEN_FILES_NEEDED || !may_be) {
            return self.hint.clone();
        }
        let limit = format!(
            "up to {OPEN_FILES_NEEDED} open files are needed beside those this was started with, \
             and {allowed} are allowed in all; raise that with `ulimit -n`"
        );
        match &self.hint {
            // Nothing else helps.
            Some(hint) if !self.out_of_files => Some(format!("{hint}; {limit}")),
            _ => Some(limit),
        }
    }

    /// Says it and gives the exit status.
    pub(crate) fn report(&self, as_json: bool) -> Code {
        if as_json {
            self.print_json();
        }
        output::complain(&self.text(self.advice().as_deref()));
        self.code
    }

    /// Prints it as a document.
    pub(crate) fn print_json(&self) {
        // The same words go to standard error, and the exit status says it too.
        output::print_json(&json!({
            "error": {
                "kind": self.kind,
                "message": self.message,
                "causes": self.causes,
                "hint": self.advice(),
                "exitCode": self.code.number(),
            }
        }))
        .ok();
    }

    fn text(&self, hint: Option<&str>) -> String {
        let mut text = self.message.clone();
        for cause in &self.causes {
            // Writing to a String cannot fail.
            write!(text, "\n  cause: {cause}").ok();
        }
        if let Some(hint) = hint {
            write!(text, "\n  hint: {hint}").ok();
        }
        text
    }
}

/// EMFILE is the limit of this process. (ENFILE, that of the system, is nobody's to raise here.)
fn is_out_of_files(error: &(dyn Error + 'static)) -> bool {
    let number = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::raw_os_error);
    number == Some(Errno::MFILE.raw_os_error())
}

/// Who says what can be saved of a damaged file.
fn rescue(error: &FileError) -> Option<String> {
    let path = match error {
        FileError::NotSqlite { path }
        | FileError::Truncated { path, .. }
        | FileError::Damaged { path, .. }
        | FileError::DamagedLog { path } => path,
        FileError::Foreign { .. } | FileError::Newer { .. } | FileError::StrayLog { .. } => {
            return None;
        }
    };
    let folder = shell::path(path.parent()?);
    Some(format!(
        "`xioflow doctor --domain {folder}` says what can be saved of it, and how"
    ))
}

impl From<DomainError> for Failure {
    fn from(error: DomainError) -> Self {
        match error {
            DomainError::Arbiter(error) => Self::of_arbiter(&error),
            DomainError::Connect(error) => error.into(),
            DomainError::StartArbiter(error) => error.into(),
            DomainError::Helper(_) => Self::of("helper_not_found", Code::Internal, &error),
            DomainError::Start(_) | DomainError::Subreaper(_) => {
                Self::of("helper_failed", Code::Internal, &error)
            }
            DomainError::ForeignProc => Self::of("foreign_proc", Code::Internal, &error)
                .hint("mount the /proc of this pid namespace, as `unshare --mount-proc` does"),
            DomainError::NoProc(_) => Self::of("no_proc", Code::Internal, &error).hint(
                "mount all of it: mount -t proc proc /proc (in a unit of systemd ProcSubset=all)",
            ),
            DomainError::Journal(OpenError::Owned { ref owner, .. }) => {
                let role = owner.as_ref().and_then(|note| note.role);
                let hint = match role {
                    Some(OwnerRole::Arbiter) => {
                        "commands run through it without --no-arbiter; `xioflow shutdown` ends it"
                    }
                    _ => "--wait 30s waits for it; --domain DIR uses another domain",
                };
                Self::of(DOMAIN_LOCKED, Code::Busy, &error).hint(hint)
            }
            // What is in the way passes by itself.
            DomainError::Journal(OpenError::Storage(error)) if error.fault == Fault::Busy => {
                Self::of_storage("domain_unavailable", &error)
            }
            DomainError::Journal(OpenError::Storage(error)) => {
                Self::of_storage("domain_unavailable", &error)
                    .hint("--domain DIR uses another folder")
            }
            DomainError::Journal(OpenError::File(ref file)) => {
                let hint = rescue(file);
                Self::of("domain_unavailable", Code::CannotOpen, &error)
                    .hint(hint.unwrap_or_else(|| "--domain DIR uses another folder".to_owned()))
            }
            DomainError::Journal(_) | DomainError::Folder { .. } => {
                Self::of("domain_unavailable", Code::CannotOpen, &error)
                    .hint("--domain DIR uses another folder")
            }
            DomainError::Recovery { .. } => Self::of("recovery_failed", Code::CannotOpen, &error),
        }
    }
}

impl From<ExecuteError> for Failure {
    fn from(error: ExecuteError) -> Self {
        match &error {
            ExecuteError::Invalid(InvalidCommand::EnvAbsent { name }) => {
                let hint = format!("--env {}=VALUE sets it", name.display());
                Self::of("invalid", Code::Usage, &error).hint(hint)
            }
            ExecuteError::Invalid(_)
            | ExecuteError::InvalidId { .. }
            | ExecuteError::InvalidTimeout { .. }
            | ExecuteError::InvalidLimits(_)
            | ExecuteError::InvalidLease { .. } => {
                Self::of("invalid", Code::Usage, &error)
            }
            ExecuteError::IdConflict { .. } => {
                Self::of("operation_id_conflict", Code::IdConflict, &error)
            }
            ExecuteError::RecoveryRequired { .. } => {
                Self::of("recovery_required", Code::Indeterminate, &error)
            }
            ExecuteError::ResourceConflict { holder, .. } => {
                let hint = format!(
                    "--wait 30s waits for it, as long as it runs; `xioflow show {}` says whether it does, and \
                     what to do where its end is not known",
                    shell::word(holder)
                );
                Self::of("resource_conflict", Code::Busy, &error).hint(hint)
            }
            ExecuteError::BudgetExceeded { shortage } => {
                let hint = match shortage.amount {
                    Amount::Memory => "give it a lower --memory, or the domain a greater budget: \
                         `xioflow arbiter --max-total-memory SIZE`",
                    Amount::Output => "give it a lower --max-stored, of which it has one for each stream, or the \
                         domain a greater budget: `xioflow arbiter --max-total-output SIZE`",
                };
                Self::of(kind::BUDGET_EXCEEDED, Code::Unavailable, &error).hint(hint)
            }
            ExecuteError::MemoryUnlimited { .. } => {
                Self::of(kind::MEMORY_UNLIMITED, Code::Usage, &error)
                    .hint("--memory SIZE gives it one, such as --memory 512MiB")
            }
            // This program stops waiting only when it is told to.
            ExecuteError::JoinAbandoned { .. } => {
                Self::of("join_abandoned", Code::Command(130), &error)
            }
            ExecuteError::Refused { .. } => Self::of("refused", Code::No, &error),
            ExecuteError::Arbiter(error) => Self::of_arbiter(error),
            ExecuteError::ArbiterLost { operation_id } => {
                let id = shell::word(operation_id);
                let hint = format!("`xioflow attach {id}` says what became of it");
                Self::of("arbiter_lost", Code::Internal, &error).hint(hint)
            }
            ExecuteError::DomainClosed => Self::of("domain_closed", Code::Busy, &error),
            ExecuteError::RunClosed { .. } => Self::of("run_closed", Code::Internal, &error),
            ExecuteError::Helper(_) => Self::of("helper_failed", Code::Internal, &error)
                .hint("`xioflow doctor` examines the helper"),
            ExecuteError::DriverRefused { call, source, .. } => {
                let errno = source.raw_os_error().unwrap_or_default();
                let remedy = namespace_remedy(call, errno);
                Self::of(kind::DRIVER_REFUSED, Code::Unavailable, &error).hint(remedy)
            }
            ExecuteError::LimitsRefused { remedy, .. } => {
                Self::of(kind::LIMITS_REFUSED, Code::Unavailable, &error).hint(remedy)
            }
            ExecuteError::GroupRefused(refusal) => {
                let failure = Self::of(kind::GROUP_REFUSED, Code::Unavailable, &error);
                match arbiter::group_hint(refusal) {
                    Some(hint) => failure.hint(hint),
                    None => failure,
                }
            }
            ExecuteError::System { .. } => Self::of("system", Code::Internal, &error),
            ExecuteError::Commit(commit) => commit_failure(commit, &error),
            ExecuteError::Read(_) | ExecuteError::Stored(_) => {
                Self::of("journal_unreadable", Code::Internal, &error)
            }
            ExecuteError::NotDetachable { .. } => Self::of("not_detachable", Code::Usage, &error),
            ExecuteError::Unrecorded { .. } => Self::of("not_recorded", Code::Internal, &error)
                .hint("free what the cause names; the next command in this domain settles the operation"),
        }
    }
}

fn commit_failure(commit: &CommitError, error: &(dyn Error + 'static)) -> Failure {
    match commit {
        CommitError::Fenced { .. } => Failure::of("fenced", Code::Busy, error),
        CommitError::Storage(storage) if storage.fault == Fault::Busy => {
            Failure::of(kind::JOURNAL_BUSY, Code::Busy, error)
        }
        _ => Failure::of("journal_failed", Code::Internal, error)
            .hint("nothing of the command ran, unless it says otherwise"),
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::UnknownOperation { .. } => Self::of("not_found", Code::No, &error)
                .hint("`xioflow list` shows those that there are"),
            OutputError::Journal(error) => error.into(),
            OutputError::Pruned { .. } => Self::of(OUTPUT_PRUNED, Code::No, &error)
                .hint("the operation's result still has its hash and its length"),
            OutputError::Changed { .. } => Self::of("output_changed", Code::Internal, &error)
                .hint("what was printed or shown of it is not to be relied on"),
            OutputError::File { .. } | OutputError::Record { .. } => {
                Self::of("output_unreadable", Code::Internal, &error)
                    .hint("the operation's result still has its hash and its length")
            }
        }
    }
}

impl From<AdjudicateError> for Failure {
    fn from(error: AdjudicateError) -> Self {
        match error {
            AdjudicateError::InvalidActor { .. } | AdjudicateError::InvalidNote { .. } => {
                Self::of(kind::INVALID, Code::Usage, &error)
            }
            AdjudicateError::NotFound { .. } => Self::of(kind::NOT_FOUND, Code::No, &error)
                .hint("`xioflow list` shows those that there are"),
            AdjudicateError::NotIndeterminate { .. } => {
                Self::of(kind::NOT_INDETERMINATE, Code::No, &error)
            }
            AdjudicateError::AlreadyAdjudicated { .. } => {
                Self::of(kind::ALREADY_ADJUDICATED, Code::No, &error)
            }
            AdjudicateError::StillAlive { .. } => {
                Self::of(kind::STILL_ALIVE, Code::Indeterminate, &error)
                    .hint("`kill` ends them; abandon_with_residuals leaves them, and records that")
            }
            AdjudicateError::CannotTell { .. } => {
                Self::of(kind::CANNOT_TELL, Code::Indeterminate, &error)
                    .hint("abandon_with_residuals frees the leases all the same")
            }
            AdjudicateError::Commit(ref commit) => commit_failure(commit, &error),
            AdjudicateError::Read(error) => error.into(),
            AdjudicateError::DomainClosed => Self::of(kind::DOMAIN_CLOSED, Code::Busy, &error),
            AdjudicateError::Arbiter(error) => match *error {
                // It may have decided before it went.
                ArbiterError::Lost { .. } => Self::of_arbiter(&error)
                    .hint("`xioflow show` with the operation's id says whether it was decided"),
                _ => Self::of_arbiter(&error),
            },
        }
    }
}

impl From<PruneError> for Failure {
    fn from(error: PruneError) -> Self {
        match error {
            PruneError::DomainClosed => Self::of("domain_closed", Code::Busy, &error),
            PruneError::Folder { .. } => Self::of("domain_unavailable", Code::CannotOpen, &error),
            PruneError::Remove { .. } => Self::of("not_removed", Code::Internal, &error)
                .hint("once what the cause names is mended, pruning again removes it"),
            PruneError::Commit(ref commit) => commit_failure(commit, &error),
            PruneError::Read(error) => error.into(),
            PruneError::Arbiter(error) => Self::of_arbiter(&error),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match &error {
            ReadError::Absent { .. } => Self::of("no_domain", Code::CannotOpen, &error)
                .hint("--domain DIR names another folder; `xioflow run` makes one"),
            ReadError::Storage(error) => Self::of_storage("domain_unreadable", error),
            ReadError::File(file) => {
                let mut failure = Self::of("domain_unreadable", Code::CannotOpen, &error);
                failure.hint = rescue(file);
                failure
            }
            _ => Self::of("domain_unreadable", Code::CannotOpen, &error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xioflow_kernel::Residual;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("inner")]
    struct Inner;

    #[test]
    fn what_refuses_a_decision_is_named_and_is_79() {
        let alive = AdjudicateError::StillAlive {
            operation_id: "op".to_owned(),
            processes: vec![Residual {
                pid: 7,
                command: Some("sleep".to_owned()),
            }],
        };
        let unclear = AdjudicateError::CannotTell {
            operation_id: "op".to_owned(),
            why: "process 7 cannot be looked at".to_owned(),
        };
        for (error, kind, named) in [
            (alive, "still_alive", "sleep (pid 7)"),
            (unclear, "cannot_tell", "process 7"),
        ] {
            let failure = Failure::from(error);
            assert_eq!((failure.kind(), failure.code.number()), (kind, 79));
            assert!(failure.message().contains(named), "{}", failure.message());
        }
        let folder = "/domain".into();
        let lost = Failure::from(AdjudicateError::Arbiter(Box::new(ArbiterError::Lost {
            folder,
        })));
        let hint = lost.hint.expect("it may have been decided");
        assert!(hint.contains("xioflow show"), "{hint}");
    }

    #[test]
    fn damage_leads_to_what_can_be_saved_and_nothing_else_does() {
        let path = std::path::PathBuf::from("/srv/a b/domain.db");
        let cut = || FileError::Truncated {
            path: path.clone(),
            len: 1,
            expected: 2,
        };
        let reading = Failure::from(ReadError::File(cut()));
        let opening = Failure::from(DomainError::Journal(OpenError::File(cut())));
        for failure in [reading, opening] {
            let hint = failure.hint.expect("advice");
            assert!(
                hint.contains("`xioflow doctor --domain '/srv/a b'`"),
                "{hint}"
            );
        }
        let stray = FileError::StrayLog { path };
        assert_eq!(Failure::from(ReadError::File(stray)).hint, None);
    }

    #[test]
    fn causes_stand_below_the_sentence_and_the_hint_last() {
        let failure = Failure::of("x", Code::Internal, &Outer(Inner)).hint("do this");
        assert_eq!(
            failure.text(failure.hint.as_deref()),
            "outer\n  cause: inner\n  hint: do this"
        );
    }
}
