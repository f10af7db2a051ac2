//! The rows of a domain, as plain values. Nothing here touches SQLite.
//!
//! Times are wall clock, milliseconds since 1970: for people, never for decisions. What another
//! part of the system owns (identities, results, budgets) is JSON text to the journal.

mod change;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use change::{Change, Finish, NewOperation};

/// Declares an enum whose variants have a fixed name in the database and in JSON.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$vmeta])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in the database and in JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(UnknownName { of: stringify!($name), found: text.to_owned() }),
                }
            }
        }
    };
}

/// A stored name that this release does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a known {of}")]
pub struct UnknownName {
    /// The kind of name that was expected.
    pub of: &'static str,
    /// What was found.
    pub found: String,
}

named! {
    /// Where a Run is in its life. The last four are terminal and never change.
    RunStatus {
        /// Recorded, not begun.
        Queued = "queued",
        /// Being prepared.
        Starting = "starting",
        /// At work.
        Running = "running",
        /// Being stopped.
        Stopping = "stopping",
        /// Its host reported success.
        Succeeded = "succeeded",
        /// Its host reported failure, or it was found broken after a crash.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// What became of it cannot be proven.
        Indeterminate = "indeterminate",
    }
}

impl RunStatus {
    /// Whether no other status can follow.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::Indeterminate
        )
    }
}

named! {
    /// What an operation does.
    OperationKind {
        /// Runs a command.
        Process = "process",
        /// Changes one file.
        Filesystem = "filesystem",
        /// Waits for a decision.
        Gate = "gate",
        /// Belongs to the host.
        Custom = "custom",
        /// Keeps a command running.
        Service = "service",
        /// Captures a workspace.
        Snapshot = "snapshot",
        /// Restores a workspace.
        Rollback = "rollback",
    }
}

named! {
    /// Where an operation is in its life.
    OperationStatus {
        /// Known, nothing recorded of it that matters.
        Pending = "pending",
        /// Its intent and its leases are durable; it has no process.
        IntentRegistered = "intent_registered",
        /// Its process is known and may run.
        Active = "active",
        /// It is being stopped.
        Stopping = "stopping",
        /// It has a result.
        Done = "done",
    }
}

named! {
    /// By what a paused operation stands still.
    PauseMeans {
        /// Its control group is frozen: the kernel runs nothing of it.
        Freeze = "freeze",
        /// Each of its processes was sent SIGSTOP.
        Signals = "signals",
    }
}

/// That an operation stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// By what.
    pub means: PauseMeans,
    /// Since when, in milliseconds since 1970.
    pub since_ms: i64,
}

named! {
    /// How an operation ended.
    Outcome {
        /// It did what it should.
        Succeeded = "succeeded",
        /// It did not.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
        /// What became of it cannot be proven; its leases are kept.
        Indeterminate = "indeterminate",
    }
}

named! {
    /// Why an operation or a Run ended.
    TerminationReason {
        /// By itself.
        Completed = "completed",
        /// Somebody asked.
        UserCancelled = "user_cancelled",
        /// Its time was over.
        TimedOut = "timed_out",
        /// Something more important needed its resources.
        ResourcePreempted = "resource_preempted",
        /// The supervisor died and nothing shows how it went on.
        CrashDetected = "crash_detected",
        /// It is gone, and nobody saw how it ended.
        ExitUnobserved = "exit_unobserved",
        /// It used more memory than it might.
        MemoryExceeded = "memory_exceeded",
        /// It used more processor time than it might.
        CpuExceeded = "cpu_exceeded",
        /// It had more processes than it might.
        PidsExceeded = "pids_exceeded",
        /// It printed more than it might.
        OutputExceeded = "output_exceeded",
        /// Its client went away.
        ClientLost = "client_lost",
    }
}

named! {
    /// For whom a process owns a domain.
    OwnerRole {
        /// For itself: it executes what it was started for, and serves nobody.
        Embedded = "embedded",
        /// For others: it is the arbiter of the domain.
        Arbiter = "arbiter",
    }
}

named! {
    /// One of a command's two output streams.
    Stream {
        /// Standard output.
        Stdout = "stdout",
        /// Standard error.
        Stderr = "stderr",
    }
}

named! {
    /// How a submission was answered without running anything.
    ReplayMode {
        /// It joined the same operation in flight.
        Joined = "joined",
        /// It got the recorded result.
        Recorded = "recorded",
        /// It got an indeterminate result, untouched.
        Indeterminate = "indeterminate",
    }
}

named! {
    /// What somebody found out about an operation whose end could not be proven.
    AdjudicationVerdict {
        /// Nothing of it lives any more.
        ConfirmedStopped = "confirmed_stopped",
        /// Something of it may live, and is left alone.
        AbandonWithResiduals = "abandon_with_residuals",
    }
}

named! {
    /// Why a stored output was removed.
    PruneReason {
        /// It was older than asked for.
        Age = "age",
        /// The stored output took more room than asked for.
        Size = "size",
        /// A new operation needed its room.
        Quota = "quota",
    }
}

/// A body of work that Runs belong to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Unique in the domain.
    pub id: String,
    /// For people.
    pub name: String,
    /// When it was first recorded.
    pub created_at_ms: i64,
    /// Whatever its host keeps with it.
    pub meta: Value,
}

/// One attempt at a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Unique in the domain.
    pub id: String,
    /// The task it belongs to.
    pub task_id: String,
    /// Who runs it, for people.
    pub owner: String,
    /// Where it is.
    pub status: RunStatus,
    /// Why it ended; null while it has not.
    pub termination_reason: Option<TerminationReason>,
    /// When it began.
    pub started_at_ms: i64,
    /// When it ended; null while it has not.
    pub ended_at_ms: Option<i64>,
    /// Its configuration, already sanitised by the caller.
    pub config: Value,
}

/// One operation with everything that is recorded of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// Chosen by the caller, unique in the domain: the idempotency key.
    pub id: String,
    /// The Run it belongs to.
    pub run_id: String,
    /// What it does.
    pub kind: OperationKind,
    /// For people.
    pub name: String,
    /// Hash over everything that makes it the same operation.
    pub input_fingerprint: String,
    /// Where it is.
    pub status: OperationStatus,
    /// Names of the resources it holds while it runs.
    pub required_resources: Vec<String>,
    /// Folders that it may write.
    pub mutation_roots: Vec<String>,
    /// The token it was admitted under.
    pub capability_id: Option<String>,
    /// Its time limit.
    pub timeout_ms: Option<u64>,
    /// Its budget.
    pub resource_budget: Option<Value>,
    /// The first stored output file.
    pub output_ref: Option<String>,
    /// Who its process is; null until that is known.
    pub process_identity: Option<Value>,
    /// Who holds its process; null until that is known.
    pub holder: Option<Value>,
    /// Whether it was promised that nothing runs before its identity is durable. Evidence:
    /// written once, never inferred.
    pub spawn_gated: Option<bool>,
    /// When it was recorded.
    pub created_at_ms: i64,
    /// When its result was recorded.
    pub finished_at_ms: Option<i64>,
    /// How it ended; null while it has not.
    pub outcome: Option<Outcome>,
    /// Its result without its output, as the kernel wrote it.
    pub result: Option<Value>,
    /// What was decided later about an end that could not be proven; null where nobody has
    /// decided, and where there was nothing to decide.
    pub adjudication: Option<Adjudication>,
    /// That it stands still; null while it runs, and while it is being stopped.
    pub pause: Option<Pause>,
}

/// A decision, made once and by somebody with a name, about an operation whose end could not be
/// proven. The outcome stays `indeterminate`; what it held is free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Adjudication {
    /// What was found out.
    pub verdict: AdjudicationVerdict,
    /// Who decided.
    pub actor: String,
    /// What they had to say.
    pub note: Option<String>,
    /// Processes of it that were seen alive.
    pub residual_pids: Vec<u32>,
    /// When.
    pub decided_at_ms: i64,
}

/// What is kept of one output stream of a finished operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Which stream.
    pub stream: Stream,
    /// How many bytes the command wrote to it.
    pub total_bytes: u64,
    /// How many lines that were, an unfinished last one included; null where nobody counted.
    pub lines: Option<u64>,
    /// SHA-256 in hexadecimal over the file, or over `content` where there is no file; null after
    /// a storage error.
    pub sha256: Option<String>,
    /// Name of the file in the artifacts folder; null when there is none. It holds all of the
    /// stream, or everything before the gap.
    pub artifact: Option<String>,
    /// What is kept here. Without a file: all of the stream but its gap. Beside one: what comes
    /// after the gap.
    pub content: Option<Vec<u8>>,
    /// The part that was not stored, because the room for it was used up; null where all was.
    pub gap: Option<Gap>,
    /// What went wrong with storing it.
    pub spill_error: Option<String>,
    /// When its file was given up to make room; null while it is kept, and without a file.
    pub pruned_at_ms: Option<i64>,
}

/// A part of a stream that was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// Offset of its first byte in the stream.
    pub from: u64,
    /// Offset after its last byte; larger than `from`.
    pub to: u64,
}

impl Gap {
    /// How many bytes are missing.
    #[must_use]
    pub const fn missing_bytes(&self) -> u64 {
        self.to - self.from
    }
}

/// One entry of the append-only record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Position, strictly increasing, never used twice.
    pub seq: i64,
    /// The Run it belongs to.
    pub run_id: Option<String>,
    /// The operation it belongs to.
    pub operation_id: Option<String>,
    /// What happened, as an upper-case name.
    #[serde(rename = "type")]
    pub kind: String,
    /// The facts.
    pub payload: Value,
    /// When.
    pub timestamp_ms: i64,
}

/// A resource that an operation holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    /// The resource.
    pub resource_id: String,
    /// Its holder.
    pub operation_id: String,
    /// Since when.
    pub acquired_at_ms: i64,
}

/// The owner of a domain, past or present.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// A new one for each opening.
    pub owner_id: String,
    /// Strictly increasing over the life of the domain.
    pub epoch: i64,
    /// Its process id, for people.
    pub pid: u32,
    /// Its host's name, for people.
    pub hostname: String,
    /// When it took the domain.
    pub acquired_at_ms: i64,
    /// When it gave the domain back; null while it holds it or if it died.
    pub released_at_ms: Option<i64>,
}
