//! What is said where an arbiter cannot be reached, started or served, and where one refuses.

use xioflow_arbiter::ServeError;
use xioflow_client::{CallError, ConnectError, StartError};
use xioflow_kernel::{ArbiterError, GroupRefused, NOT_UNDERSTOOD, NotActive, PauseError};
use xioflow_rpc::refusal::{Fault, kind};
use xioflow_rpc::start::StartFault;

use super::Failure;
use crate::exit::Code;
use crate::shell;

/// The exit status for a kind of refusal.
fn code_of(kind: &str) -> Code {
    match kind {
        kind::VERSION | kind::STANDING => Code::CannotOpen,
        kind::LIMIT
        | kind::RUNNING
        | kind::SHUTTING_DOWN
        | kind::RESOURCE_CONFLICT
        | kind::NOT_BEGUN
        | kind::ENDING
        | kind::FENCED
        | kind::JOURNAL_BUSY
        | kind::DOMAIN_CLOSED => Code::Busy,
        kind::INVALID => Code::Usage,
        kind::NOT_FOUND
        | kind::ALREADY_COMPLETED
        | kind::NOT_INDETERMINATE
        | kind::ALREADY_ADJUDICATED
        | kind::OUTPUT_PRUNED => Code::No,
        kind::OPERATION_ID_CONFLICT => Code::IdConflict,
        kind::RECOVERY_REQUIRED | kind::STILL_ALIVE | kind::CANNOT_TELL => Code::Indeterminate,
        kind::LIMITS_REFUSED => Code::Unavailable,
        kind::JOIN_ABANDONED => Code::Command(130),
        NOT_UNDERSTOOD => Code::Unavailable,
        _ => Code::Internal,
    }
}

/// What a person can do, where the arbiter could not know it.
fn hint_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        kind::STANDING => {
            "an arbiter lends nobody what he does not have; end it by `xioflow shutdown` from where it was \
             started, or use another domain by --domain DIR"
        }
        kind::SHUTTING_DOWN => "try again: the next client starts another arbiter",
        kind::LIMIT => "try again when fewer clients are at work in this domain",
        kind::NOT_FOUND => "`xioflow list` shows those that there are",
        _ => return None,
    })
}

impl Failure {
    /// One from the words of an arbiter.
    fn refused(kind: &str, message: &str, causes: &[String], hint: Option<&str>) -> Self {
        let mut failure = Self::new(kind, code_of(kind), message);
        failure.causes = causes.to_vec();
        failure.hint = hint.or_else(|| hint_of(kind)).map(str::to_owned);
        failure
    }

    /// One from an arbiter that did not do what it was asked.
    pub(super) fn of_arbiter(error: &ArbiterError) -> Self {
        match error {
            ArbiterError::Refused {
                kind,
                message,
                causes,
                hint,
            } => Self::refused(kind, message, causes, hint.as_deref()),
            ArbiterError::Lost { .. } => Self::of("arbiter_lost", Code::Internal, error),
            ArbiterError::Connection(_) => Self::of("arbiter_unreachable", Code::Internal, error)
                .hint("--no-arbiter runs a command without one"),
        }
    }
}

/// What to do about a control group that cannot be had. Where the arbiter has none and this program could have one, it
/// is in the wrong place.
pub(super) fn group_hint(refusal: &GroupRefused) -> Option<String> {
    match refusal.of_arbiter && xioflow_cgroup::Root::find().is_ok() {
        true => Some(
            "the control group of this program is delegated, and the arbiter was started outside of it: `xioflow shutdown` \
             ends that, and the next command starts one in here"
                .to_owned(),
        ),
        false => refusal.remedy.clone(),
    }
}

impl From<ArbiterError> for Failure {
    fn from(error: ArbiterError) -> Self {
        Self::of_arbiter(&error)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault.data {
            Some(data) => Self::refused(
                &data.kind,
                &fault.message,
                &data.causes,
                data.hint.as_deref(),
            ),
            // Our request was no request to it.
            None => Self::new(kind::INTERNAL, Code::Internal, fault.message),
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Refused(fault) => fault.into(),
            ConnectError::Version(_) => Self::of(kind::VERSION, Code::CannotOpen, &error),
            ConnectError::NoArbiter => Self::of("no_arbiter", Code::Internal, &error),
            ConnectError::Endpoint(_) => Self::of("arbiter_untrusted", Code::CannotOpen, &error)
                .hint("--domain DIR uses another folder"),
            ConnectError::Silent { .. } | ConnectError::Garbage { .. } => {
                Self::of("arbiter_unreachable", Code::CannotOpen, &error)
            }
        }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(fault) => fault.into(),
            CallError::Connection(_) => Self::of("arbiter_lost", Code::Internal, &error),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Connect(error) => error.into(),
            StartError::Failed(fault) => fault.into(),
            StartError::Outdated { .. } | StartError::Older { .. } => {
                Self::of(kind::VERSION, Code::CannotOpen, &error)
            }
            StartError::Waiting { .. } | StartError::Ending { .. } | StartError::Slow { .. } => {
                Self::of("arbiter_busy", Code::Busy, &error)
            }
            StartError::Folder(error) => Self::of_storage("domain_unavailable", &error)
                .hint("--domain DIR uses another folder"),
            StartError::System { .. } => Self::of("domain_unavailable", Code::CannotOpen, &error)
                .hint("--domain DIR uses another folder"),
            _ => Self::of("arbiter_start", Code::Internal, &error)
                .hint("--no-arbiter runs a command without one"),
        }
    }
}

/// What the arbiter would have said itself, had it had somebody to say it to.
impl From<StartFault> for Failure {
    fn from(fault: StartFault) -> Self {
        let mut failure = Self::new(fault.kind, Code::Command(fault.exit_code), fault.message);
        (failure.causes, failure.hint) = (fault.causes, fault.hint);
        failure
    }
}

impl From<&Failure> for StartFault {
    fn from(failure: &Failure) -> Self {
        Self {
            kind: failure.kind.clone(),
            message: failure.message.clone(),
            causes: failure.causes.clone(),
            hint: failure.advice(),
            exit_code: failure.code.number(),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Domain(error) => error.into(),
            ServeError::Socket(_) => Self::of("socket", Code::CannotOpen, &error)
                .hint("a file system without sockets has no arbiter; --no-arbiter works there"),
            _ => Self::of("system", Code::Internal, &error),
        }
    }
}

impl From<PauseError> for Failure {
    fn from(error: PauseError) -> Self {
        let kind = match error {
            PauseError::NotActive(error) => return error.into(),
            PauseError::NotBegun { .. } => kind::NOT_BEGUN,
            PauseError::Ending { .. } => kind::ENDING,
            PauseError::Unconfirmed { .. }
            | PauseError::Group { .. }
            | PauseError::Unsupported { .. }
            | PauseError::NoAnswer { .. }
            | PauseError::Record { .. } => kind::NOT_PAUSED,
        };
        Self::of(kind, code_of(kind), &error)
    }
}

impl From<NotActive> for Failure {
    fn from(error: NotActive) -> Self {
        match error {
            NotActive::NotFound { .. } => Self::of(kind::NOT_FOUND, Code::No, &error)
                .hint("`xioflow list` shows those that there are"),
            NotActive::AlreadyCompleted { ref operation_id } => {
                let hint = format!("`xioflow show {}` says how", shell::word(operation_id));
                Self::of(kind::ALREADY_COMPLETED, Code::No, &error).hint(hint)
            }
            NotActive::DomainClosed => Self::of(kind::DOMAIN_CLOSED, Code::Busy, &error),
            NotActive::Read(error) => error.into(),
            NotActive::Arbiter(error) => Self::of_arbiter(&error),
            _ => Self::of(kind::INTERNAL, Code::Internal, &error),
        }
    }
}
