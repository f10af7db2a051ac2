//! What every way of using xioflow offers, as far as it does.
//!
//! The traits have no default answers: a way that cannot do something says so, with the reason.
//! `embedded` is the library in this very process, `arbiter` the same library as a client of a domain that
//! an arbiter owns, `command_line` the program `xioflow`.

mod arbiter;
mod command_line;
mod embedded;

pub use arbiter::ThroughArbiter;
pub use command_line::CommandLine;
pub use embedded::Embedded;

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;
use xioflow_kit::Stage;

use crate::contract::Unsupported;
use crate::document::Document;
use crate::work::Work;

/// A way to have commands run.
pub trait Way: Sync {
    /// Its name: in the table, and on the command line of the suite.
    fn name(&self) -> &'static str;

    /// Comes to the stage's domain as a client.
    ///
    /// # Errors
    /// [`Unsupported`] if these terms cannot be had.
    fn client<'a>(
        &'a self,
        stage: &'a Stage,
        terms: &Terms,
    ) -> Result<Box<dyn Client + 'a>, Unsupported>;
}

/// What a domain is opened with.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "named by what they set")]
pub struct Terms {
    pub max_concurrent_operations: Option<usize>,
    pub max_total_memory_bytes: Option<u64>,
    /// The program that takes the place of the helper.
    pub helper: Option<PathBuf>,
}

/// Somebody who uses a domain.
pub trait Client {
    /// Begins an operation.
    ///
    /// # Errors
    /// [`Unsupported`] if the way has no words for this work.
    fn submit(&self, work: &Work) -> Result<Box<dyn Submitted + '_>, Unsupported>;

    /// Asks for the end of an operation by its id, whoever began it.
    ///
    /// # Errors
    /// [`Unsupported`] if the way cannot name another's operation.
    fn cancel(&self, id: &str) -> Result<Result<(), Refusal>, Unsupported>;

    /// Confirms, in the name of `actor`, that an operation whose end is not known has stopped.
    ///
    /// # Errors
    /// [`Unsupported`] if the way has no words for it.
    fn adjudicate(&self, id: &str, actor: &str) -> Result<Result<(), Refusal>, Unsupported>;

    /// Removes all stored output that nothing needs any more.
    fn prune_all(&self);

    /// Closes the domain to further work.
    ///
    /// # Errors
    /// [`Unsupported`] if the way has no such step.
    fn close(&self) -> Result<(), Unsupported>;

    /// Comes to the same domain once more, beside this client.
    ///
    /// # Errors
    /// [`Unsupported`] if a domain has one client at a time.
    fn another(&self) -> Result<Box<dyn Client + '_>, Unsupported>;

    /// Opens a Run.
    ///
    /// # Errors
    /// [`Unsupported`] if the way has none for its clients.
    fn begin_run(&self) -> Result<Box<dyn HostRun + '_>, Unsupported>;

    /// Whether whoever submits can be killed without the suite.
    ///
    /// # Errors
    /// [`Unsupported`] if that is the suite itself.
    fn can_be_killed(&self) -> Result<(), Unsupported>;

    /// Whether a client may go on while operations of another are running.
    fn works_beside_others(&self) -> bool;

    /// What is recorded of an operation.
    fn record(&self, id: &str) -> Option<Record>;

    /// All events, in their order.
    fn events(&self) -> Vec<Event>;

    /// Who holds what.
    fn leases(&self) -> Vec<Lease>;

    /// What a stored operation printed to standard output.
    fn stored_output(&self, id: &str) -> Vec<u8>;
}

/// A submission that is under way.
pub trait Submitted {
    /// Asks for its end.
    ///
    /// # Errors
    /// [`Unsupported`] if the way cannot.
    fn cancel(&self) -> Result<Result<(), Refusal>, Unsupported>;

    /// Kills the client that submitted it with SIGKILL, so that nobody asks for it any more.
    ///
    /// # Panics
    /// Where [`Client::can_be_killed`] has said no.
    fn kill_client(self: Box<Self>);

    /// Waits until its live output has this in it.
    ///
    /// # Panics
    /// When the output or the time ends first, or the work is not live.
    fn wait_for_output(&mut self, part: &[u8]);

    /// Waits for its answer.
    ///
    /// # Errors
    /// What the way said instead of a result.
    fn wait(self: Box<Self>) -> Ended;
}

/// A Run that its host opens and ends.
pub trait HostRun {
    /// Its id.
    fn id(&self) -> &str;

    /// Begins an operation in it.
    ///
    /// # Errors
    /// [`Unsupported`] if the way has no words for this work.
    fn submit(&self, work: &Work) -> Result<Box<dyn Submitted + '_>, Unsupported>;

    /// Reports success, and says what was recorded.
    ///
    /// # Errors
    /// The refusal.
    fn report_succeeded(&self) -> Result<String, Refusal>;

    /// Reports failure, and says what was recorded.
    ///
    /// # Errors
    /// The refusal.
    fn report_failed(&self) -> Result<String, Refusal>;

    /// What is recorded of it now.
    fn status(&self) -> String;
}

/// The answer to a submission: a result, or why there is none.
pub type Ended = Result<Document, Refusal>;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What a program decides by.
    pub kind: RefusalKind,
    /// What a person reads: it has to name what is involved.
    pub text: String,
}

/// Kinds of refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what stands in the way")]
pub enum RefusalKind {
    ResourceConflict,
    /// More than the domain gives all operations together, or no limit where it has a budget of them.
    OverBudget,
    DomainLocked,
    DomainClosed,
    IdConflict,
    RecoveryRequired,
    RunClosed,
    RunUnfinished,
    NotEnforceable,
    Fenced,
    ArbiterGone,
    NotRecorded,
    NotFound,
    AlreadyCompleted,
    JoinAbandoned,
    StillAlive,
    AlreadyAdjudicated,
    Other,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.text)
    }
}

impl Refusal {
    /// Checks its kind, and that each of these words is in its text.
    ///
    /// # Panics
    /// With the refusal when something is missing.
    pub fn assert(&self, kind: RefusalKind, words: &[&str]) -> &Self {
        assert!(self.kind == kind, "expected {kind:?}, got {self}");
        for word in words {
            assert!(self.text.contains(word), "no {word:?} in {self}");
        }
        self
    }
}

/// What is recorded of an operation.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields of the record, by their names")]
pub struct Record {
    pub status: String,
    pub outcome: Option<String>,
    pub run_id: String,
    pub run_status: Option<String>,
    pub input_fingerprint: String,
    pub required_resources: Vec<String>,
    pub process_identity: Option<Value>,
    pub result: Option<Document>,
}

/// One event of the journal.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the fields of the record, by their names")]
pub struct Event {
    pub seq: i64,
    pub kind: String,
    pub run_id: Option<String>,
    pub operation_id: Option<String>,
    pub payload: Value,
}

/// A held resource.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of the record, by their names")]
pub struct Lease {
    pub resource: String,
    pub operation_id: String,
}
