//! The result of an operation as programs read it: one document, camelCase.
//!
//! What was not observed is null, never a plausible value.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use xioflow_journal::{Adjudication, Gap, Outcome, Output, Stream, TerminationReason};

use crate::delegation::Delegated;
use crate::driver::Driver;
use crate::limits::{LimitEvents, LimitsReport, UsageReport};
use crate::names::{errno_name, errno_text};
use crate::stop_action::StopActionResult;
use crate::views;

/// How the tree of a command was found after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeSettlement {
    /// Nothing of what the command started was left that had to be ended: whoever outlived it ended by itself.
    /// Like `Reaped` this says nothing of work that it gave to others: [`OperationResult::delegated`].
    Empty,
    /// What of its tree was left was ended, and is named as far as it was seen.
    Reaped,
    /// It could not be seen.
    Unverified,
}

/// What the statement about the tree rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Every orphan came to our subreaper, and it has no child left (waitid(2): ECHILD): of what this tree
    /// started nothing is left.
    SubreaperTree,
    /// The tree had a pid namespace of its own, whose init has ended: by then the kernel has ended and
    /// waited for everybody in it, pid_namespaces(7).
    PidNamespace,
    /// The tree had a control group of its own, and the kernel says that nobody is in it any more (`populated 0`).
    /// Where its helper lived to see the end, that had no child left either.
    ContainmentCgroup,
    /// Only the command itself is known.
    DirectChild,
    /// Nothing can be said.
    Unknown,
}

/// Whether an exit was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// By the process that waited for it.
    Observed,
    /// By nobody.
    Unobserved,
}

/// Where a result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// From an execution that this submission caused.
    #[default]
    Executed,
    /// From one that another submission had caused and this one joined while it ran.
    JoinedInFlight,
    /// From the record of an earlier one.
    ReplayedRecorded,
}

/// Why a command did not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpawnFailure {
    /// The step that failed: `fork`, `session`, `signals`, `limits`, `descriptors`, `cwd`,
    /// `privileges`, `confinement`, `gate`, `exec`, or `stdin` for an input that cannot be opened.
    pub stage: String,
    /// The error number of that step.
    pub errno: i32,
    /// Its name, such as `ENOENT`.
    pub code: String,
    /// What the step was about: a path, an interpreter, a limit.
    pub subject: Option<String>,
    /// All of it as a sentence.
    pub message: String,
    /// What to do about it, where that does not follow from the rest.
    #[serde(default)]
    pub hint: Option<String>,
}

/// What became of a process that outlived the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SurvivorRecord {
    /// Process id.
    pub pid: u32,
    /// Start time in clock ticks after boot; with the boot id, its identity.
    pub start_ticks: u64,
    /// The program's name as the kernel has it; never its arguments.
    pub command: String,
    /// User id, where it could be read.
    pub uid: Option<u32>,
    /// How it ended: `exited`, `signaled`, `gone` (its own parent waited for it), `unreaped` (a
    /// zombie that somebody else has to wait for), or `alive`.
    pub end: String,
    /// Its exit status, if it exited and that was seen.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if that was seen.
    pub signal: Option<String>,
    /// Why it could not be ended: `uninterruptible`, `permission`, `unknown`.
    pub why_alive: Option<String>,
}

/// A process that holds the other end of an output pipe although the tree is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PipeHolder {
    /// Process id.
    pub pid: u32,
    /// The program's name.
    pub command: String,
    /// The number of the descriptor in that process.
    pub descriptor: u32,
    /// `stdout` or `stderr`.
    pub stream: String,
}

/// How a running operation was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StopRecord {
    /// Why.
    pub reason: TerminationReason,
    /// The strongest signal that was sent, null if it ended before any was.
    pub last_signal: Option<String>,
}

/// The identity of a process in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: u32,
    /// Process group, where it is known; the command leads its own.
    pub pgid: Option<u32>,
    /// Start time in clock ticks after boot, field 22 of `/proc/<pid>/stat`.
    pub start_ticks: u64,
    /// The boot it belongs to.
    pub boot_id: String,
    /// Inode of its pidfd, where the kernel makes that unique for the boot.
    pub pidfd_inode: Option<u64>,
    /// Start time as an instant, derived from the ticks; null when the boot time is not known.
    pub os_start_time: Option<String>,
    /// SHA-256 over program and arguments: for audits, never evidence of identity.
    pub command_fingerprint: Option<String>,
    /// In which namespaces its number and its start time mean it: those of its supervisor. Null where the
    /// system did not say, and in records of releases that did not ask.
    #[serde(default)]
    pub namespaces: Option<ProcessNamespaces>,
    /// The pid namespace that its tree was given for its own; null where it was given none, and in the
    /// identity of a helper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<TreeNamespace>,
    /// The control group that its tree was given for its own, as a path of the supervisor's mount namespace; null
    /// where it was given none, and in the identity of a helper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_path: Option<String>,
    /// The id of that group: the inode of its directory, which the kernel gives no other group of this boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_id: Option<u64>,
    /// The inode of the control group namespace that the path is of; null where the system did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_namespace: Option<u64>,
}

/// A pid namespace that holds the tree of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TreeNamespace {
    /// Its first process, which belongs to the helper and dies with it. Numbers are those of the supervisor's
    /// namespace.
    pub init: Box<ProcessIdentity>,
    /// Its inode, by which namespaces(7) tells it from others.
    pub inode: u64,
    /// Whether a user namespace was made with it, because there was no privilege to make it otherwise.
    pub user_namespace: bool,
}

/// Namespaces by the inodes that namespaces(7) gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessNamespaces {
    /// The pid namespace.
    pub pid: u64,
    /// The time namespace; null where the kernel has none.
    pub time: Option<u64>,
}

/// The environment of a command by the names of its variables. Values can be secrets and are
/// nowhere but in the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentNames {
    /// Whether that of the caller was passed on.
    pub inherited: bool,
    /// Variables that were given with a value, sorted, the first 256.
    pub set: Vec<String>,
    /// Variables of the caller's that were passed on by name, likewise.
    pub passed: Vec<String>,
    /// Variables of the caller's that the command did not get, likewise. They are not recorded:
    /// null for a result that comes from the record.
    #[serde(default)]
    pub withheld: Option<Vec<String>>,
    /// How many those are in all; null likewise.
    #[serde(default)]
    pub withheld_total: Option<u32>,
}

/// The result of one operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationResult {
    /// The operation.
    pub operation_id: String,
    /// The Run that executed it.
    pub run_id: String,
    /// How it ended.
    pub status: Outcome,
    /// The command's exit status; null if it did not exit or nobody saw it.
    pub exit_code: Option<i32>,
    /// The signal that ended the command; null likewise.
    pub signal: Option<String>,
    /// Whether it dumped core; null without a signal.
    pub core_dumped: Option<bool>,
    /// Why it ended.
    pub termination_reason: Option<TerminationReason>,
    /// Why it did not start.
    pub spawn_failure: Option<SpawnFailure>,
    /// Whether its exit was seen.
    pub evidence: Evidence,
    /// What was left of its tree.
    pub tree_settlement: Option<TreeSettlement>,
    /// What that rests on.
    pub scope: Scope,
    /// In what the tree was held, or would have been, had it started: never `auto`. Null where that is not
    /// recorded.
    #[serde(default)]
    pub driver: Option<Driver>,
    /// Whether no program of the command could gain privileges. Null where that is not recorded.
    #[serde(default)]
    pub no_new_privs: Option<bool>,
    /// Processes that outlived the command, the first 256.
    pub survivors: Vec<SurvivorRecord>,
    /// How many outlived it in all.
    pub survivors_total: u32,
    /// Whether survivors were ended.
    pub residual_processes_reaped: bool,
    /// Those that could not be ended.
    pub residual_pids: Vec<u32>,
    /// Those that have ended but are still in the process table, since somebody outside the tree
    /// (a tracer) has to wait for them first. They can do nothing any more.
    #[serde(default)]
    pub unreaped_pids: Vec<u32>,
    /// Who still holds an output pipe after the tree was gone.
    pub held_open_by: Vec<PipeHolder>,
    /// Work that may live outside of its tree, the first 16: what was seen of programs and sockets that hand work
    /// to others. An empty list says that nothing of the kind was seen, and not that there is none; null that
    /// nobody looked: nothing of the command ran, or its supervisor died.
    #[serde(default)]
    pub delegated: Option<Vec<Delegated>>,
    /// How it was stopped, if it was.
    pub stop: Option<StopRecord>,
    /// What became of what was declared to be done then; null where nothing was.
    #[serde(default)]
    pub stop_action: Option<StopActionResult>,
    /// Processor time of everything that was waited for, in milliseconds.
    pub cpu_time_ms: Option<u64>,
    /// Largest resident set of one process, in bytes.
    pub peak_memory_bytes: Option<u64>,
    /// Where the two above come from: `wait4`; null when nothing was observed.
    pub usage_source: Option<String>,
    /// The limits on what it may use, and what became of them; null without limits, and where its supervisor died.
    #[serde(default)]
    pub limits: Option<LimitsReport>,
    /// What all of it has used together; null where nobody counted: without a control group of its own and without
    /// limits, and where its supervisor died.
    #[serde(default)]
    pub usage: Option<UsageReport>,
    /// How often its control group met limits; null without a control group.
    #[serde(default)]
    pub limit_events: Option<LimitEvents>,
    /// Why what it used could not be seen to the end, where its processes had to be looked at for that.
    #[serde(default)]
    pub resource_sampling_error: Option<String>,
    /// What was printed to standard output, within the limit, as text.
    #[serde(default)]
    pub stdout: String,
    /// The same for standard error.
    #[serde(default)]
    pub stderr: String,
    /// Base64 of the kept bytes, when they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// The same for standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Whether bytes are missing in `stdout` or `stderr`.
    pub is_truncated: bool,
    /// Whether bytes are missing in `stdout`.
    pub stdout_truncated: bool,
    /// Whether bytes are missing in `stderr`.
    pub stderr_truncated: bool,
    /// Whether both streams were read to their end. False when one was given up, because a stranger holds it or
    /// its reader is gone; null when nobody can tell: the supervisor died before, and what was still in a pipe
    /// then was seen by nobody. What is said of the output is then of what was found.
    #[serde(default)]
    pub output_complete: Option<bool>,
    /// How many bytes were printed to standard output.
    pub stdout_bytes: u64,
    /// How many bytes were printed to standard error.
    pub stderr_bytes: u64,
    /// How many lines that were, an unfinished last one included; null where nobody counted.
    pub stdout_lines: Option<u64>,
    /// The same for standard error.
    pub stderr_lines: Option<u64>,
    /// SHA-256 of the stored file; without a file, of what the journal holds: everything printed,
    /// or all of it but the gap. Null after a storage error.
    pub stdout_hash: Option<String>,
    /// The same for standard error.
    pub stderr_hash: Option<String>,
    /// File in the artifacts folder that holds all of it, or everything before the gap; null when
    /// the journal holds what is stored, and when the file was pruned.
    pub stdout_ref: Option<String>,
    /// The same for standard error.
    pub stderr_ref: Option<String>,
    /// When the file was removed to make room, RFC 3339; null while it is there, and where there never was one. Its
    /// length and its hash stay as they were.
    #[serde(default)]
    pub stdout_pruned_at: Option<String>,
    /// The same for standard error.
    #[serde(default)]
    pub stderr_pruned_at: Option<String>,
    /// The part that was printed and not stored, because the room for it was used up, as offsets in
    /// the stream; null when all is stored. What came after it is in the journal.
    pub stdout_gap: Option<Gap>,
    /// The same for standard error.
    pub stderr_gap: Option<Gap>,
    /// What went wrong with storing it.
    pub stdout_spill_error: Option<String>,
    /// The same for standard error.
    pub stderr_spill_error: Option<String>,
    /// The first of the two files.
    pub output_ref: Option<String>,
    /// The hash of standard output, else of standard error.
    pub output_hash: Option<String>,
    /// The first of the two storage errors.
    pub spill_error: Option<String>,
    /// Why the end cannot be proven; also what else went wrong, when the helper was lost.
    pub reason: Option<String>,
    /// What somebody can do about that; null once somebody has decided.
    pub recovery_guidance: Option<String>,
    /// By which row of recovery's table an earlier owner's operation was settled, a letter; null where the
    /// supervisor that began it saw its end.
    #[serde(default)]
    pub recovery_case: Option<char>,
    /// What somebody decided later about an end that could not be proven; null where nobody has.
    #[serde(default)]
    pub adjudication: Option<Adjudication>,
    /// The longest time by which the supervisor missed a deadline of this operation, in
    /// milliseconds, if that was a second or more: it was stopped, or the machine was overloaded.
    /// What was due in that time was decided once, afterwards.
    #[serde(default)]
    pub supervisor_gap_ms: Option<u64>,
    /// How long the machine slept while it ran, in milliseconds, if that was a second or more.
    /// Timeouts do not count that time.
    #[serde(default)]
    pub suspended_ms: Option<u64>,
    /// The time limit that was in force, in milliseconds; null without one.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Which variables its environment had; null where the submission was not seen.
    #[serde(default)]
    pub environment: Option<EnvironmentNames>,
    /// From the submission to the result, in milliseconds; null when this process did not see both.
    pub duration_ms: Option<u64>,
    /// When the result was made, RFC 3339.
    pub completed_at: String,
    /// Whether this is the recorded result of an earlier execution.
    #[serde(default)]
    pub replayed: bool,
    /// The same in full: whether it was executed for this submission, joined or replayed.
    #[serde(default)]
    pub reused: Reuse,
}

impl EnvironmentNames {
    fn as_recorded(&self) -> Self {
        Self {
            withheld: None,
            withheld_total: None,
            ..self.clone()
        }
    }
}

impl SpawnFailure {
    /// Makes one from the step, its error number, and what it was about.
    #[must_use]
    pub fn new(stage: &str, errno: i32, subject: Option<String>) -> Self {
        let (code, text) = (errno_name(errno), errno_text(errno));
        let is_too_long = stage == "exec" && code == "E2BIG";
        let hint = match code.as_str() {
            _ if is_too_long => Some("pass it on standard input, or in a file"),
            "EPERM" if stage == "limits" => Some(
                "a hard limit above that of the process which runs the command needs privilege; lower it \
                 with `ulimit -H` where the command is asked for, or run it where the limit is higher",
            ),
            "EACCES" if stage == "limits" => Some(
                "a nice value below that of the process which runs the command needs privilege; raise it \
                 with nice(1) where the command is asked for, or run it where it is lower",
            ),
            "EMFILE" => Some("raise the limit of open files with `ulimit -n`"),
            _ => None,
        };
        let message = match (stage, &subject) {
            ("exec", Some(subject)) if is_too_long => {
                format!("cannot execute the program with {subject}: {text} ({code})")
            }
            ("exec", Some(subject)) => format!("cannot execute {subject}: {text} ({code})"),
            ("cwd", Some(subject)) => {
                format!("cannot enter the working directory {subject}: {text} ({code})")
            }
            ("stdin", Some(subject)) => {
                format!("cannot open {subject} for standard input: {text} ({code})")
            }
            ("stdin", None) => format!("cannot open standard input: {text} ({code})"),
            (stage, Some(subject)) => format!("failed at {stage} ({subject}): {text} ({code})"),
            (stage, None) => format!("failed at {stage}: {text} ({code})"),
        };
        Self {
            stage: stage.to_owned(),
            errno,
            code,
            subject,
            message,
            hint: hint.map(str::to_owned),
        }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }

    /// Whether the program itself was not found, as against found and not executable.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.stage == "exec" && matches!(self.code.as_str(), "ENOENT" | "ENOTDIR")
    }
}

/// The output of an operation as it goes into a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamPart {
    /// What is kept, within the limit.
    pub(crate) kept: Vec<u8>,
    /// Whether bytes are missing in it.
    pub(crate) truncated: bool,
    /// Everything else that is known.
    pub(crate) output: Output,
}

impl OperationResult {
    /// What a statement about the whole tree rests on.
    pub(crate) fn tree_scope(&self) -> Scope {
        self.driver.unwrap_or_default().scope()
    }

    /// Fills in one stream.
    pub(crate) fn set_stream(&mut self, part: StreamPart) {
        let StreamPart {
            kept,
            truncated,
            output,
        } = part;
        let (text, base64) = as_text(kept);
        let is_stdout = output.stream == Stream::Stdout;
        macro_rules! set {
            ($($stdout:ident, $stderr:ident = $value:expr;)+) => {
                $(if is_stdout { self.$stdout = $value } else { self.$stderr = $value })+
            };
        }
        set! {
            stdout, stderr = text;
            stdout_base64, stderr_base64 = base64;
            stdout_truncated, stderr_truncated = truncated;
            stdout_bytes, stderr_bytes = output.total_bytes;
            stdout_lines, stderr_lines = output.lines;
            stdout_hash, stderr_hash = output.sha256;
            stdout_ref, stderr_ref = output.artifact.filter(|_| output.pruned_at_ms.is_none());
            stdout_pruned_at, stderr_pruned_at = output.pruned_at_ms.map(views::time);
            stdout_gap, stderr_gap = output.gap;
            stdout_spill_error, stderr_spill_error = output.spill_error;
        }
        self.aggregate();
    }

    fn aggregate(&mut self) {
        self.is_truncated = self.stdout_truncated || self.stderr_truncated;
        self.spill_error = self
            .stdout_spill_error
            .clone()
            .or_else(|| self.stderr_spill_error.clone());
        // A reference to a part of the output would look like one to all of it.
        let whole = self.spill_error.is_none();
        let first = |one: &Option<String>, other: &Option<String>| {
            one.clone().or_else(|| other.clone()).filter(|_| whole)
        };
        self.output_ref = first(&self.stdout_ref, &self.stderr_ref);
        self.output_hash = first(&self.stdout_hash, &self.stderr_hash);
    }

    /// What the result holds of a stream, exactly: the bytes that `stdout` and `stderr` show as text.
    #[must_use]
    pub fn kept_output(&self, stream: Stream) -> Cow<'_, [u8]> {
        let (text, base64) = match stream {
            Stream::Stdout => (&self.stdout, &self.stdout_base64),
            Stream::Stderr => (&self.stderr, &self.stderr_base64),
        };
        let exact = base64
            .as_ref()
            .and_then(|base64| STANDARD.decode(base64).ok());
        exact.map_or(Cow::Borrowed(text.as_bytes()), Cow::Owned)
    }

    /// The result as it is recorded: everything but the text of the output, which is stored once,
    /// beside it, what is decided later, and what is about the caller and not about the operation.
    pub(crate) fn as_recorded(&self) -> Self {
        Self {
            environment: self.environment.as_ref().map(EnvironmentNames::as_recorded),
            stdout: String::new(),
            stderr: String::new(),
            stdout_base64: None,
            stderr_base64: None,
            adjudication: None,
            ..self.clone()
        }
    }
}

/// Bytes as text; those that are not UTF-8 also in a form that loses nothing.
fn as_text(bytes: Vec<u8>) -> (String, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => {
            let bytes = error.into_bytes();
            (
                String::from_utf8_lossy(&bytes).into_owned(),
                Some(STANDARD.encode(&bytes)),
            )
        }
    }
}
