//! What the model is made of: the durable record, the processes, and the owners with what they have in memory. `world` and
//! `owner` say what moves.

use xioflow_journal::{Outcome, RunStatus, TerminationReason};
use xioflow_kernel::rules::{Case, Conclusion, Observed, Said};
use xioflow_protocol::Exit;

/// Operations of a state at most.
pub const OPS_MAX: usize = 2;

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// The operations, each with its row and its processes.
    pub ops: Vec<Op>,
    /// The owners that live, the older one first. A crash takes one out.
    pub owners: Vec<Owner>,
    /// The epoch in the record: that of the newest owner.
    pub epoch: u8,
    /// Whether the newest owner has the lock. Without it, another one can come.
    pub locked: bool,
    /// Which boot of the machine this is.
    pub boot: u8,
    /// What may still go wrong.
    pub left: Budget,
    /// A commit was refused because a newer owner has the domain.
    pub fenced: bool,
    /// A commit of an owner that was not the newest has changed the record.
    pub stale_write: bool,
}

/// How often what can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// An owner is killed.
    pub crashes: u8,
    /// A helper is killed, or cannot write its last word.
    pub losses: u8,
    /// The power fails.
    pub power: u8,
    /// The lock is lost while its owner lives: its file was removed, or the owner was stopped on a copy.
    pub locks: u8,
    /// Somebody asks that an operation be cancelled.
    pub cancels: u8,
    /// A command leaves a process behind in a session of its own.
    pub strays: u8,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Op {
    /// Its row in the record.
    pub row: Option<Row>,
    /// Its processes and files.
    pub world: World,
}

/// What is durable of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// Whether the identities of command and helper are recorded.
    pub identity: bool,
    /// The epoch of the owner that launched it.
    pub epoch: u8,
    /// The boot that it belongs to.
    pub boot: u8,
    /// Whether it holds its lease.
    pub lease: bool,
    /// Why it was to be stopped.
    pub stop: Option<TerminationReason>,
    /// Whether its status is the last one.
    pub done: bool,
    /// Its result.
    pub result: Option<Ending>,
    /// How often a result was recorded.
    pub results: u8,
    /// Whether somebody has adjudicated it.
    pub adjudicated: bool,
    /// Its Run.
    pub run: RunStatus,
}

/// A result, in an owner's memory or in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ending {
    /// How it ended.
    pub outcome: Outcome,
    /// The exit that was observed.
    pub exit: Option<Exit>,
    /// Whether it says that nothing of the command ran.
    pub unspawned: bool,
    /// The row of the table, if recovery has made it.
    pub case: Option<Case>,
    /// The epoch of the owner that has made it.
    pub by: u8,
}

/// The processes of an operation, and the file that its helper leaves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The helper.
    pub helper: Helper,
    /// The owner at the other end of its socket, by its epoch; it may be dead.
    pub peer: u8,
    /// What that owner has asked and the helper has not read.
    pub asked: Asked,
    /// What the helper has said.
    pub said: Vec<Reply>,
    /// The command.
    pub root: Root,
    /// A process that the command has left behind.
    pub stray: Stray,
    /// Whether the helper was told to open the gate.
    pub gate_opened: bool,
    /// Whether the helper has sent a signal to end the tree.
    pub signalled: bool,
    /// Whether it did so because its supervisor was gone.
    pub host_lost: bool,
    /// How often the command's effect has happened, by any launch of it.
    pub effects: u8,
    /// The file with the last word.
    pub word: WordFile,
    /// An earlier helper of the same id, whose launch was never recorded, has still to leave its last word.
    pub ghost: bool,
}

/// A helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Helper {
    /// There was none.
    None,
    /// It holds the command at its gate.
    AtGate,
    /// It holds a tree that runs.
    Holding,
    /// It ends the tree.
    Stopping,
    /// It has made its account, and waits until that is recorded or its supervisor is gone.
    Over(Said),
    /// It has gone by itself.
    Left,
    /// It was killed.
    Killed,
}

impl Helper {
    /// Whether its process lives.
    #[must_use]
    pub const fn lives(self) -> bool {
        !matches!(self, Self::None | Self::Left | Self::Killed)
    }
}

/// Messages to the helper that it has not read, in the order in which it will.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Asked {
    /// To open the gate.
    pub release: bool,
    /// To end the tree.
    pub stop: bool,
    /// To leave: its account is recorded.
    pub recorded: bool,
}

/// Messages of the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The program was executed.
    Running,
    /// The program could not be executed.
    LaunchFailed,
    /// The command has ended.
    Exited(Exit),
    /// Nothing is left.
    Empty,
    /// Something is left.
    Remains,
}

/// The command itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Root {
    /// There is none.
    None,
    /// It waits at its gate; nothing of the program ran.
    Gated,
    /// It runs, and has had its effect or not.
    Running {
        /// Whether it has.
        acted: bool,
    },
    /// It has ended.
    Ended {
        /// How.
        exit: Exit,
        /// Whether its helper saw that.
        seen: bool,
    },
    /// It ended at its gate.
    NeverRan,
}

/// A process that the command leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stray {
    /// There is none.
    None,
    /// It lives.
    Alive,
    /// It has ended.
    Gone,
}

/// The file with the last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordFile {
    /// It is not there.
    None,
    /// The recorded helper has written it.
    Own(Said),
    /// A helper of the same id has written it whose launch was never recorded: nothing ran.
    Foreign,
}

/// An owner of the domain, or one that believes it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its epoch.
    pub epoch: u8,
    /// A commit was refused: it writes nothing more, and takes nothing new.
    pub poisoned: bool,
    /// Whether it has settled what it found, and admits.
    pub serving: bool,
    /// What it has in memory of each operation.
    pub minds: Vec<Mind>,
}

/// What an owner has in memory of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mind {
    /// Nothing.
    Idle,
    /// Recovery has looked at the helper.
    LookedAtHelper(Look),
    /// Recovery has looked at everything.
    Looked(Look),
    /// Recovery has written the result; it is not durable yet.
    Concluding(Conclusion),
    /// The helper has reported that the command stands at its gate.
    Gated,
    /// The first commit is written; it is not durable yet.
    Opening,
    /// The first commit is durable.
    Open,
    /// The helper was told to open the gate.
    Released {
        /// How many replies were taken.
        heard: u8,
        /// How far a wish to cancel has come.
        cancel: Cancel,
    },
    /// The result is made.
    Ended(Ending),
    /// The second commit is written; it is not durable yet.
    Closing(Ending),
}

/// What recovery has seen, and whether it has waited or tried something before that.
pub type Look = Observed;

/// A wish to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cancel {
    /// There is none.
    No,
    /// It is recorded.
    Recorded,
    /// The helper was told.
    Told,
}

impl State {
    /// A domain that nobody owns, with operations that nobody has submitted.
    #[must_use]
    pub fn begin(ops: usize, left: Budget) -> Self {
        let world = World {
            helper: Helper::None,
            peer: 0,
            asked: Asked::default(),
            said: Vec::new(),
            root: Root::None,
            stray: Stray::None,
            gate_opened: false,
            signalled: false,
            host_lost: false,
            effects: 0,
            word: WordFile::None,
            ghost: false,
        };
        Self {
            ops: vec![Op { row: None, world }; ops],
            owners: Vec::new(),
            epoch: 0,
            locked: false,
            boot: 0,
            left,
            fenced: false,
            stale_write: false,
        }
    }

    /// Whether the owner of this epoch lives.
    #[must_use]
    pub fn owner_lives(&self, epoch: u8) -> bool {
        self.owners.iter().any(|owner| owner.epoch == epoch)
    }
}

impl World {
    /// Whether anything of it may have effects: it runs, or has left something that does.
    #[must_use]
    pub fn may_act(&self) -> bool {
        matches!(self.root, Root::Running { .. }) || self.stray == Stray::Alive
    }
}
