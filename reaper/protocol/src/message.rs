//! The messages, each with the version since which it exists.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use crate::{Exit, Identity, PidNamespace, ProcessNote, StopPlan, Survivor};

/// The greeting of both ends. Its shape never changes; the rest is versioned by it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Hello {
    /// [`crate::PROTOCOL_VERSION`] of the sender.
    #[n(0)]
    pub protocol: u32,
    /// Release of the sender, for people.
    #[n(1)]
    pub release: String,
    /// Who the sender is; the supervisor leaves it out.
    #[n(2)]
    pub identity: Option<Identity>,
    /// Names of what the sender can do beyond its version; unknown names mean nothing.
    #[n(3)]
    pub features: Vec<String>,
}

/// What the supervisor asks. Since version 1.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// The first message of a connection.
    #[n(0)]
    Hello(#[n(0)] Hello),
    /// Prepare this command and hold it at the gate. Once per helper. Its descriptors travel
    /// with the first byte of the frame, in the order of [`LaunchDescriptor`].
    #[n(1)]
    Launch(#[n(0)] Launch),
    /// Open the gate: the record of the launch is durable.
    #[n(2)]
    Release,
    /// Close the gate: nothing of the command may run. Answered by [`Reply::TreeEmpty`].
    #[n(3)]
    Discard,
    /// End the tree. A later plan replaces an earlier one where it is quicker. At the gate it is
    /// a [`Request::Discard`].
    #[n(4)]
    Stop(#[n(0)] StopPlan),
    /// The outcome is durable. Only from supervisors that named [`crate::FEATURE_RECORDED`].
    #[n(5)]
    Recorded,
    /// Stop every process of the tree with SIGSTOP, until [`Request::Resume`]; without effect while the
    /// tree is being ended. Only to helpers that named [`crate::FEATURE_SUSPEND`].
    #[n(6)]
    Suspend,
    /// Continue every process of the tree with SIGCONT. Only to helpers that named
    /// [`crate::FEATURE_SUSPEND`].
    #[n(7)]
    Resume,
}

/// The descriptors of a launch, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchDescriptor {
    /// The command's standard input. It does not travel where the launch says that there is none,
    /// and the others move up.
    Stdin = 0,
    /// The command's standard output.
    Stdout = 1,
    /// The command's standard error.
    Stderr = 2,
    /// The folder where the helper leaves its last word if the supervisor goes away.
    Holders = 3,
    /// The directory of the control group that the command is to be in. It travels only where the launch
    /// asks for it.
    Group = 4,
}

impl LaunchDescriptor {
    /// How many descriptors travel with a launch at most.
    pub const COUNT: usize = 5;
}

/// Everything about one command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Launch {
    /// The program: a path if it has a slash, else a name looked up in the `PATH` of `env`.
    #[n(0)]
    pub program: ByteVec,
    /// Its arguments, the program's own name (`argv[0]`) first.
    #[n(1)]
    pub argv: Vec<ByteVec>,
    /// Its environment, each as `KEY=VALUE`, exactly as it will be.
    #[n(2)]
    pub env: Vec<ByteVec>,
    /// Its working directory, absolute.
    #[n(3)]
    pub cwd: ByteVec,
    /// File mode creation mask; null keeps the helper's.
    #[n(4)]
    pub umask: Option<u32>,
    /// Limits to set in the child before it runs.
    #[n(5)]
    pub limits: Vec<ResourceLimit>,
    /// Whether the command may not gain privileges by exec (`PR_SET_NO_NEW_PRIVS`).
    #[n(6)]
    pub no_new_privs: bool,
    /// What is added to the child's out-of-memory score, so that the kernel picks the command
    /// before its holder.
    #[n(7)]
    pub oom_score_adj: i32,
    /// What becomes of processes that outlive the command.
    #[n(8)]
    pub descendants: Descendants,
    /// How long survivors may take to end by themselves before they count, in milliseconds.
    #[n(9)]
    pub settle_ms: u32,
    /// How the tree is stopped if the supervisor goes away.
    #[n(10)]
    pub on_host_loss: StopPlan,
    /// Name of the file in the holders folder for the last word; one path component.
    #[n(11)]
    pub last_word_name: ByteVec,
    /// The operation, to be named in the last word.
    #[n(12)]
    pub operation_id: String,
    /// Whether the command has no standard input at all: its descriptor 0 is not open.
    #[n(13)]
    pub stdin_closed: bool,
    /// Its nice value, -20 to 19; null keeps the helper's. Only to helpers that named
    /// [`crate::FEATURE_NICE`].
    #[n(14)]
    pub nice: Option<i32>,
    /// In what the command's tree is held. Anything but the default only to helpers that named
    /// [`crate::FEATURE_PID_NAMESPACE`]; the default is not written, so older ones read what they know.
    #[n(15)]
    #[cbor(skip_if = "Containment::is_subreaper")]
    pub containment: Containment,
    /// Whether the tree is in a control group of its own as well, whose directory travels along. Only to
    /// helpers that named [`crate::FEATURE_CONTROL_GROUP`]; not written where it is not so.
    #[n(16)]
    #[cbor(skip_if = "is_not")]
    pub group: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the codec asks by reference"
)]
const fn is_not(asked: &bool) -> bool {
    !*asked
}

/// In what a command's tree is held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub enum Containment {
    /// Below the helper, which is its subreaper.
    #[default]
    #[n(0)]
    Subreaper,
    /// The same, and in a PID namespace of its own, which the kernel ends together with the helper.
    #[n(1)]
    PidNamespace,
}

impl Containment {
    /// Whether it is the default.
    #[must_use]
    pub const fn is_subreaper(&self) -> bool {
        matches!(self, Self::Subreaper)
    }
}

/// What becomes of processes that outlive the command.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Descendants {
    /// They are stopped by this plan, and named.
    #[n(0)]
    Stop(#[n(0)] StopPlan),
    /// The operation stays open until they end by themselves.
    #[n(1)]
    Wait,
}

/// One limit as in setrlimit(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct ResourceLimit {
    /// The resource, `RLIMIT_*`.
    #[n(0)]
    pub resource: u32,
    /// The soft limit.
    #[n(1)]
    pub soft: u64,
    /// The hard limit.
    #[n(2)]
    pub hard: u64,
}

/// What the helper reports. Since version 1.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// The first message of a connection.
    #[n(0)]
    Hello(#[n(0)] Hello),
    /// The command waits at the gate. A pidfd for it travels along where the kernel has them.
    #[n(1)]
    Spawned {
        /// Who the command is.
        #[n(0)]
        root: Identity,
        /// The namespace that was made for it, where the launch asked for one.
        #[n(1)]
        namespace: Option<PidNamespace>,
        /// How it came into its control group, where the launch asked for one.
        #[n(2)]
        group: Option<GroupEntry>,
    },
    /// The command did not start; nothing of it ran. The last reply of its launch.
    #[n(2)]
    LaunchFailed(#[n(0)] LaunchFailure),
    /// The command's program was executed.
    #[n(3)]
    Running,
    /// The command itself ended. Others of its tree may live.
    #[n(4)]
    RootExited {
        /// How.
        #[n(0)]
        exit: Exit,
    },
    /// Processes outlived the command and the settle time.
    #[n(5)]
    Survivors {
        /// The first [`crate::PROCESS_NOTES_MAX`] of them.
        #[n(0)]
        processes: Vec<ProcessNote>,
        /// How many there were in all.
        #[n(1)]
        total: u32,
    },
    /// A rung of the stop ladder was climbed.
    #[n(6)]
    Signalled {
        /// The signal.
        #[n(0)]
        signal: i32,
        /// How many processes, or groups of them, it was sent to.
        #[n(1)]
        targets: u32,
    },
    /// Nothing of the tree is left: waitid(2) answered ECHILD to its subreaper. In a PID namespace its
    /// init was among those that were waited for, and an init ends after everyone in it. A control group
    /// was seen empty as well, unless [`TreeEnd::group_empty`] says that it could not be read.
    #[n(7)]
    TreeEmpty(#[n(0)] TreeEnd),
    /// The ladder is at its end and these could not be ended.
    #[n(8)]
    TreeRemains(#[n(0)] TreeEnd),
    /// The helper will not go on.
    #[n(9)]
    Refused(#[n(0)] ProtocolFault),
    /// The helper broke an invariant of its own; it stops nothing more.
    #[n(10)]
    Panicked {
        /// Where and what, for a bug report.
        #[n(0)]
        message: String,
    },
    /// What the helper has taken from itself, while the command waits at the gate. Only to supervisors
    /// that named [`crate::FEATURE_ARMOUR`].
    #[n(11)]
    Armour(#[n(0)] Armour),
}

/// How a command came into its control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum GroupEntry {
    /// It was made there (`CLONE_INTO_CGROUP`, Linux 5.7).
    #[n(0)]
    Cloned,
    /// It was moved there while it waited at its gate.
    #[n(1)]
    Moved,
}

/// What a helper has taken from itself, as far as its kernel has it and let it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Armour {
    /// Whether it can gain no privileges any more.
    #[n(0)]
    pub no_new_privs: bool,
    /// The version of Landlock that keeps it from files; null without.
    #[n(1)]
    pub landlock_abi: Option<u32>,
    /// Whether a filter keeps it from system calls.
    #[n(2)]
    pub filter: bool,
    /// The capabilities it has kept, a bit for each; null when that could not be told.
    #[n(3)]
    pub capabilities: Option<u64>,
}

/// Why a command did not start.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct LaunchFailure {
    /// The step that failed.
    #[n(0)]
    pub stage: Stage,
    /// The error number of that step.
    #[n(1)]
    pub errno: i32,
    /// What the step was about: a path, an interpreter, a limit; may be empty.
    #[n(2)]
    pub subject: ByteVec,
}

/// The steps between a launch message and the command's first instruction. Their numbers are their order,
/// but for the last two, which came later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Stage {
    /// A process for the command.
    #[n(0)]
    Fork,
    /// A session and process group of its own.
    #[n(1)]
    Session,
    /// Signal dispositions and mask.
    #[n(2)]
    Signals,
    /// Out-of-memory score, resource limits, nice value, file mode mask.
    #[n(3)]
    Limits,
    /// Standard input, output and error.
    #[n(4)]
    Descriptors,
    /// The working directory.
    #[n(5)]
    Cwd,
    /// Dropping capabilities, `no_new_privs`.
    #[n(6)]
    Privileges,
    /// Limits on what may be written.
    #[n(7)]
    Confinement,
    /// The gate, between the helper and the child.
    #[n(8)]
    Gate,
    /// Finding the program and executing it.
    #[n(9)]
    Exec,
    /// A PID namespace of its own: after the fork stage and before the session. The subject says
    /// which call or file refused it.
    #[n(10)]
    Namespace,
    /// Its control group: before the session. The subject says which call or file refused it.
    #[n(11)]
    Group,
}

impl Stage {
    /// The name of the stage in records and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fork => "fork",
            Self::Session => "session",
            Self::Signals => "signals",
            Self::Limits => "limits",
            Self::Descriptors => "descriptors",
            Self::Cwd => "cwd",
            Self::Privileges => "privileges",
            Self::Confinement => "confinement",
            Self::Gate => "gate",
            Self::Exec => "exec",
            Self::Namespace => "namespace",
            Self::Group => "group",
        }
    }
}

/// The end of a tree, with everything that was seen of it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct TreeEnd {
    /// How the command itself ended; null when that was not observed.
    #[n(0)]
    pub exit: Option<Exit>,
    /// Those that outlived it, the first [`crate::PROCESS_NOTES_MAX`].
    #[n(1)]
    pub survivors: Vec<Survivor>,
    /// How many outlived it in all.
    #[n(2)]
    pub survivors_total: u32,
    /// What all that was waited for has used.
    #[n(3)]
    pub usage: Usage,
    /// The strongest signal that was sent by the ladder; null when none was.
    #[n(4)]
    pub last_signal: Option<i32>,
    /// Whether its control group had nobody in it at the end (`populated 0` of `cgroup.events`); null without
    /// one, and where that could not be read.
    #[n(5)]
    pub group_empty: Option<bool>,
}

/// What the processes of a tree used, as wait4(2) adds it up.
///
/// Processes that nobody waited for, or that still live, are not in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub struct Usage {
    /// Processor time in user mode, in microseconds.
    #[n(0)]
    pub user_us: u64,
    /// Processor time in kernel mode, in microseconds.
    #[n(1)]
    pub system_us: u64,
    /// The largest resident set of any one process, in KiB.
    #[n(2)]
    pub max_rss_kib: u64,
}

/// Why the helper refuses its peer.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum ProtocolFault {
    /// The peer speaks another version.
    #[n(0)]
    Version {
        /// The helper's.
        #[n(0)]
        ours: u32,
        /// The peer's.
        #[n(1)]
        theirs: u32,
    },
    /// The bytes were no message.
    #[n(1)]
    Malformed,
    /// The frame was too long.
    #[n(2)]
    TooLong {
        /// The length it claimed, in bytes.
        #[n(0)]
        claimed: u32,
    },
    /// The message is known, but not at this point.
    #[n(3)]
    OutOfOrder,
    /// The launch came with another number of descriptors.
    #[n(4)]
    Descriptors {
        /// How many came.
        #[n(0)]
        received: u32,
    },
    /// A field has a value that no launch can have.
    #[n(5)]
    Invalid {
        /// Which field, and what is wrong with it.
        #[n(0)]
        what: String,
    },
    /// The helper has more rights than an ordinary process of its user, and the peer is somebody else.
    #[n(6)]
    Stranger {
        /// The user who started the helper.
        #[n(0)]
        ours: u32,
        /// The user who made the socket; null where the system does not say.
        #[n(1)]
        theirs: Option<u32>,
    },
}

impl fmt::Display for ProtocolFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { ours, theirs } => write!(
                f,
                "helper speaks protocol version {ours}, the supervisor speaks {theirs}"
            ),
            Self::Malformed => f.write_str("helper received bytes that are no message"),
            Self::TooLong { claimed } => {
                write!(f, "helper received a frame that claims {claimed} bytes")
            }
            Self::OutOfOrder => f.write_str("helper received a message out of its order"),
            Self::Descriptors { received } => write!(
                f,
                "helper received {received} descriptors with a launch, it needs {}, one less where standard \
                 input is closed and one more where a control group is asked for",
                LaunchDescriptor::Group as usize
            ),
            Self::Invalid { what } => write!(f, "helper received an invalid launch: {what}"),
            Self::Stranger { ours, theirs } => {
                write!(
                    f,
                    "helper has rights of its own and serves user {ours} only, the socket is of "
                )?;
                match theirs {
                    Some(theirs) => write!(f, "user {theirs}"),
                    None => f.write_str("an unknown user"),
                }
            }
        }
    }
}
