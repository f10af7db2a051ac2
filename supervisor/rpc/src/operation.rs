//! `op.*`: operations, from the submission to the result.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::envelope::Id;
use crate::limits::Limits;
use crate::refusal::Fault;
use crate::text::Text;

/// `op.execProcess`: submits a command.
///
/// It is answered when the operation is on record as running, or joined, or when its result is there.
/// Later `op.result` comes once, with the same request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExecProcess {
    /// The idempotency key, 1 to 4096 bytes; without one the operation gets a new id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<String>,
    /// Its name, for people; the program's name by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The Run that it belongs to; without one it has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// What is to be run.
    pub command: Command,
    /// What the command takes from whoever asks for it.
    #[serde(default)]
    pub caller: Caller,
    /// Its standard input.
    #[serde(default)]
    pub stdin: Stdin,
    /// Stops it when it has run this long, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long it may take to end by itself then, in milliseconds; 1500 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_grace_ms: Option<u64>,
    /// What everything that it starts may use; without limits by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Exclusive resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leases: Vec<String>,
    /// How long it may wait for them, in milliseconds; not at all by default.
    #[serde(default)]
    pub wait_ms: u64,
    /// How much of each output stream the result holds, in bytes; 10 MiB by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// How much of each output stream is stored, in bytes; by default 4 GiB, and in a domain with a budget of stored
    /// output a sixteenth of that, if it is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_stored_bytes: Option<u64>,
    /// How long its pipes may stay open after its tree is gone, in milliseconds; 2000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain_timeout_ms: Option<u64>,
    /// What becomes of processes that outlive the command.
    #[serde(default)]
    pub descendants: Descendants,
    /// Whether it goes on when nobody waits for it any more.
    #[serde(default)]
    pub detached: bool,
    /// How its output comes while it runs.
    #[serde(default)]
    pub output: Output,
    /// With descriptors or frames: whether output that is stored nowhere is left out for a slow reader. Else the
    /// command waits for that reader, as for the reader of its pipe.
    #[serde(default)]
    pub may_drop: bool,
    /// What the descriptors are that travel with this request, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descriptors: Vec<Descriptor>,
}

/// A command as it will be executed. There is never a shell in between.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    /// The program: a path if it has a slash, else a name to look up.
    pub program: Text,
    /// Its arguments, without the program's own name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<Text>,
    /// Its working directory; a relative one is relative to the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Text>,
    /// Whether it gets the caller's variables.
    #[serde(default)]
    pub inherit_env: bool,
    /// Variables by name; null passes the caller's own value on. The last of a name counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<(Text, Option<Text>)>,
    /// File mode creation mask; the caller's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Whether it may not gain privileges by exec.
    #[serde(default)]
    pub no_new_privs: bool,
    /// Whether both output streams are one pipe.
    #[serde(default)]
    pub merge_stderr: bool,
    /// In what its tree is held.
    #[serde(default, skip_serializing_if = "Driver::is_auto")]
    pub driver: Driver,
    /// What ends work that it may give to others, where it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_action: Option<StopAction>,
}

/// In what the tree of a command is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Driver {
    /// What the arbiter's host gives: `cgroup` where its control group is delegated, else `reaper`.
    #[default]
    Auto,
    /// A helper that adopts every orphan.
    Reaper,
    /// The same, and a control group of its own, below the arbiter's.
    Cgroup,
    /// As `reaper`, and a pid namespace of its own.
    Pidns,
}

impl Driver {
    /// Whether it is the default, which is not written: arbiters of before read what they know.
    #[must_use]
    pub const fn is_auto(&self) -> bool {
        matches!(self, Self::Auto)
    }
}

/// A command that ends work which another one may have given to others, such as `docker rm --force NAME`. It has that
/// command's environment, folder and privileges. Its words are recorded as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StopAction {
    /// The program: a path if it has a slash, else a name to look up. A script takes `/bin/sh` with `-c`.
    pub program: Text,
    /// Its arguments, without the program's own name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<Text>,
    /// When it is due.
    #[serde(default)]
    pub when: StopActionWhen,
    /// How long it may take, in milliseconds; 10000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// When a stop action is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StopActionWhen {
    /// When the command ran and did not come to an exit of its own.
    #[default]
    Stopped,
    /// Whenever it ran.
    Always,
}

/// What a command takes from whoever asks for it. What is left out is the arbiter's own, except for
/// variables, of which it then has none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Caller {
    /// The folder that relative paths start from, and the working directory where none is said. It must
    /// be absolute. Without one, every path has to be absolute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<Text>,
    /// The error number of the caller's folder if it is gone; `folder` is then where it was, and nobody goes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder_gone: Option<i32>,
    /// Its variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(Text, Text)>,
    /// Its file mode creation mask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Its resource limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<ResourceLimit>,
    /// Its nice value, -20 to 19.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
}

/// One limit as in setrlimit(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceLimit {
    /// The number of the resource on this platform (`RLIMIT_*`).
    pub resource: u32,
    /// The soft limit; null is none.
    pub soft: Option<u64>,
    /// The hard limit; null is none.
    pub hard: Option<u64>,
}

/// Where standard input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", tag = "from", deny_unknown_fields)]
pub enum Stdin {
    /// It is empty.
    #[default]
    Null,
    /// There is none: descriptor 0 is not open.
    Closed,
    /// These bytes.
    Bytes {
        /// The bytes, in base64.
        base64: String,
    },
    /// This text.
    Text {
        /// The text.
        text: String,
    },
    /// Bytes of a file in memory whose descriptor travels along. What makes the operation the same are the
    /// bytes.
    Memory,
    /// A file, opened by the arbiter.
    File {
        /// Its path; a relative one is relative to the caller's folder.
        path: Text,
    },
    /// A descriptor that travels along, shared with the caller.
    Descriptor,
    /// The reading end of a pipe that travels along, which the caller writes while the command runs.
    Stream,
}

/// What becomes of processes that outlive the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Descendants {
    /// They are stopped and named.
    #[default]
    Stop,
    /// The operation stays open until they end by themselves.
    Wait,
}

/// How output comes while the operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Not at all: it is in the result, and stored.
    #[default]
    None,
    /// Byte for byte, to the descriptors `stdout` and `stderr`. The arbiter closes each at its end; the
    /// command waits for a slow reader only where nothing is stored any more.
    Descriptors,
    /// In frames, to the descriptor `output`, which the arbiter closes at the end. Otherwise as with
    /// descriptors.
    Frames,
    /// As `op.chunk`. Nobody waits for a slow reader: what comes too fast is dropped, and `op.gap` says
    /// what that was.
    Chunks,
}

/// What a descriptor that travels along is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Descriptor {
    /// The command's standard input.
    Stdin,
    /// Where its standard output goes.
    Stdout,
    /// Where its standard error goes.
    Stderr,
    /// Where both go, in frames.
    Output,
}

/// The answer to [`ExecProcess`] and [`Attach`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Accepted {
    /// The operation.
    pub operation_id: String,
    /// The Run that it belongs to.
    pub run_id: String,
    /// Whether another submission runs it, and this one waits for its result.
    pub joined: bool,
    /// Whether it is over already: it was answered from the record, or could not be started. Its result
    /// comes next.
    #[serde(default)]
    pub over: bool,
    /// What had to be moved for the control group that it needs; absent where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_moved: Option<HostMoved>,
}

/// The processes of the arbiter's control group, its own among them, were moved to one below it, so that it can hand
/// controllers to others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HostMoved {
    /// How many there were.
    pub processes: u32,
    /// Their group now.
    pub to: Text,
}

/// How a stop begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// SIGINT, then SIGTERM, then SIGKILL.
    Interrupt,
    /// SIGTERM, then SIGKILL.
    #[default]
    Terminate,
    /// SIGKILL at once.
    Kill,
}

/// `op.cancel`: stops an operation by its id, whoever started it. Answered at once with [`Done`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cancel {
    /// The operation.
    pub operation_id: String,
    /// How.
    #[serde(default)]
    pub manner: Manner,
    /// How long it may take to end by itself, in milliseconds; 2000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// `op.stop`: stops what a request of this connection submitted. One that has joined the operation of
/// another only stops waiting for it. Answered at once with [`Done`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stop {
    /// The request that submitted it.
    pub request: Id,
    /// How.
    #[serde(default)]
    pub manner: Manner,
    /// How long it may take to end by itself, in milliseconds; 2000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// `op.suspend` and `op.resume`: have the whole tree stand still, or go on. Answered with [`Done`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobControl {
    /// The request that submitted it.
    pub request: Id,
}

/// `op.loads`: what operations use at this moment. It has no parameters. Answered with [`Loads`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadsOf {}

/// The answer to [`LoadsOf`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Loads {
    /// Each operation that the arbiter executes, by id.
    pub operations: Vec<Load>,
}

/// What one operation uses at this moment. What was not seen is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Load {
    /// The operation.
    pub operation_id: String,
    /// Its name; null for one that waits, of which nothing is recorded yet.
    pub name: Option<String>,
    /// Where it is: `waiting`, `running`, `paused` or `stopping`.
    pub state: String,
    /// How long it has been on record, in milliseconds.
    pub age_ms: Option<u64>,
    /// Its processes and threads.
    pub tasks: Option<u64>,
    /// Its memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Its processor time so far, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// Bytes that it has read from disks.
    pub io_read_bytes: Option<u64>,
    /// Bytes that it has written to disks.
    pub io_write_bytes: Option<u64>,
    /// Whether that is all of it.
    pub is_complete: bool,
    /// What it is limited to, in the words of `op.execProcess`; null if it is not.
    pub limits: Option<Value>,
}

/// `op.pause` and `op.unpause`: have every process of an operation stand still, or go on, whoever started it. Answered
/// with [`Standing`] when they do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pause {
    /// The operation.
    pub operation_id: String,
}

/// The answer to [`Pause`]: how the operation stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// By what it stands still: `freeze` (its control group) or `signals` (SIGSTOP); null if it goes on.
    pub paused: Option<String>,
    /// Whether that is so since this request, and was not before.
    pub changed: bool,
    /// How much of its time limit is left, in milliseconds; it goes on meanwhile.
    pub timeout_left_ms: Option<u64>,
}

/// `op.closeStream`: nobody reads this stream any more; the command gets SIGPIPE when it prints more.
/// Answered with [`Done`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloseStream {
    /// The request that submitted it.
    pub request: Id,
    /// The stream.
    pub stream: Stream,
}

/// `op.attach`: sees the output of an operation that the arbiter executes, from its beginning, and waits for its
/// result. Answered with [`Accepted`]; later `op.result` comes once. When a client that attached goes,
/// nothing happens to the operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attach {
    /// The operation.
    pub operation_id: String,
    /// How its output comes.
    #[serde(default)]
    pub output: Output,
    /// What the descriptors are that travel with this request, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub descriptors: Vec<Descriptor>,
    /// How much of each output stream the result holds, in bytes; 10 MiB by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
}

/// Nothing more is to be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Done {}

/// An output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The notice `op.chunk`: a part of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Chunk {
    /// The request that submitted or attached.
    pub request: Id,
    /// The stream.
    pub stream: Stream,
    /// Offset of the first byte in the stream.
    pub offset: u64,
    /// The bytes, in base64.
    pub base64: String,
}

/// The notice `op.gap`: bytes that are not passed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// The request that submitted or attached.
    pub request: Id,
    /// The stream.
    pub stream: Stream,
    /// Offset of the first one.
    pub from: u64,
    /// Offset after the last one.
    pub to: u64,
    /// Why, where they are not stored either; null where `artifacts.read` gives them.
    pub why: Option<String>,
}

/// The notice `op.result`: the end. Exactly one of the last two is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Ended {
    /// The request that submitted or attached.
    pub request: Id,
    /// The operation.
    pub operation_id: String,
    /// The result, as `xioflow run --json` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
    /// Whether the output was left out of the result, since it is more than [`INLINE_MAX_BYTES`]. It is
    /// stored.
    #[serde(default)]
    pub output_omitted: bool,
}

/// How much output, of both streams together, a result holds on this connection.
pub const INLINE_MAX_BYTES: u64 = 1024 * 1024;

/// `artifacts.read`: a part of the stored output of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadOutput {
    /// The operation.
    pub operation_id: String,
    /// The stream.
    pub stream: Stream,
    /// Offset of the first byte; 0 by default.
    #[serde(default)]
    pub from: u64,
    /// At most so many, up to [`INLINE_MAX_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// The answer to [`ReadOutput`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OutputRead {
    /// The bytes, in base64; fewer than asked for at the end and before a gap.
    pub base64: String,
    /// Length of the stream so far, in bytes.
    pub len: u64,
    /// Whether the stream has ended.
    pub complete: bool,
    /// The part of it that was not stored.
    pub gap: Option<(u64, u64)>,
}
