//! What recovery knows of one unfinished operation, as plain values: what is recorded of it, and
//! what is found in the world. `decide` says what follows.

use std::fmt;

use xioflow_journal::{OperationKind, OperationStatus, TerminationReason};
use xioflow_protocol::Exit;

/// Whether a fact is in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Known {
    /// It is not there.
    No,
    /// Something is there that this release cannot read.
    Illegible,
    /// It is.
    Yes,
}

/// What is recorded, as far as it decides anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Recorded {
    /// What the operation does.
    pub kind: OperationKind,
    /// How far it had come.
    pub status: OperationStatus,
    /// Whether it was promised that nothing runs before the identity is durable.
    pub spawn_gated: Option<bool>,
    /// The identity of the command.
    pub root: Known,
    /// The identity of its helper.
    pub holder: Known,
    /// Why it was to be stopped, if that is recorded.
    pub stop: Option<TerminationReason>,
    /// Where it was recorded.
    pub provenance: Provenance,
}

/// Where an operation was recorded, which says what a look at processes is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provenance {
    /// In this domain, on this machine.
    Here,
    /// By an owner on a machine of another name, which sees the same file. What another boot would
    /// prove is only proven of one's own machine.
    OtherMachine,
    /// In a file that had another device number: the system was started again, or this is a snapshot
    /// of a file system. What lives may be watched over by the owner of the original.
    Renumbered,
    /// In the file that this one is a copy of, whose owner may be at work at this moment.
    Copied,
}

#[cfg(any(test, feature = "rules"))]
impl Provenance {
    /// Every answer.
    pub const ALL: [Self; 4] = [
        Self::Here,
        Self::OtherMachine,
        Self::Renumbered,
        Self::Copied,
    ];
}

/// Whether a recorded process is still the one that it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// It is, and lives.
    Alive,
    /// It is, and has ended; nobody has waited for it, so its number still is its own.
    Unreaped,
    /// It has ended. Its number may be another's by now.
    Gone,
    /// It belongs to an earlier boot.
    OtherBoot,
    /// It belongs to this boot and to another pid or time namespace, where its number and its start time mean
    /// something else than here. Nothing that is found here tells of it.
    Elsewhere,
    /// The system does not say.
    CannotTell,
}

#[cfg(any(test, feature = "rules"))]
impl Liveness {
    /// Every answer.
    pub const ALL: [Self; 6] = [
        Self::Alive,
        Self::Unreaped,
        Self::Gone,
        Self::OtherBoot,
        Self::Elsewhere,
        Self::CannotTell,
    ];
}

impl fmt::Display for Liveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alive => "lives",
            Self::Unreaped => "has ended, and nobody has waited for it",
            Self::Gone => "is gone",
            Self::OtherBoot => "belongs to an earlier boot",
            Self::Elsewhere => "belongs to another pid or time namespace",
            Self::CannotTell => "cannot be looked at",
        })
    }
}

/// The init of the pid namespace that the tree was given for its own.
///
/// It dies with its helper, and its end is a proof: before it ends the kernel kills everybody in the
/// namespace, and waits until each of them was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Init {
    /// There is none, or the system does not say how it is with it.
    Untold,
    /// It lives, or is still ending those in its namespace.
    Lives,
    /// It has ended, and with it everybody in its namespace.
    Gone,
}

impl Init {
    /// Every answer.
    #[cfg(any(test, feature = "rules"))]
    pub const ALL: [Self; 3] = [Self::Untold, Self::Lives, Self::Gone];

    /// What a look at the recorded process comes to.
    #[must_use]
    pub const fn of(seen: Liveness) -> Self {
        match seen {
            Liveness::Alive => Self::Lives,
            // A zombie has ended all the same: the kernel makes it one when its namespace is empty.
            Liveness::Unreaped | Liveness::Gone => Self::Gone,
            Liveness::OtherBoot | Liveness::Elsewhere | Liveness::CannotTell => Self::Untold,
        }
    }
}

/// The control group that the tree was given for its own.
///
/// Whoever is born in it stays in it, unless somebody moves it. So an empty one is proof for all of the tree but those
/// who have left it on purpose: while one of these is known, it counts as not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Leaf {
    /// There is none, or the system does not say how it is with it, or somebody of the tree lives outside of it.
    Untold,
    /// It is there, and somebody lives in it.
    Populated,
    /// Recovery has ended all in it, and somebody lives in it after all the time for that.
    Stuck,
    /// It is there, and nobody lives in it.
    Empty,
    /// It was removed, which the kernel allows only when nobody lives in it.
    Removed,
}

impl Leaf {
    /// Every answer.
    #[cfg(any(test, feature = "rules"))]
    pub const ALL: [Self; 5] = [
        Self::Untold,
        Self::Populated,
        Self::Stuck,
        Self::Empty,
        Self::Removed,
    ];

    /// Whether somebody lives in it.
    #[must_use]
    pub const fn has_somebody(self) -> bool {
        matches!(self, Self::Populated | Self::Stuck)
    }

    /// Whether nobody lives in it.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Empty | Self::Removed)
    }

    /// Whether it was seen, which is possible in the boot that made it only.
    #[must_use]
    pub const fn is_there(self) -> bool {
        matches!(self, Self::Populated | Self::Stuck | Self::Empty)
    }
}

/// What stands where the helper's last word would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// Nothing.
    None,
    /// Something that cannot be relied on: damaged, in a newer format, of another operation, or of
    /// another helper than the recorded one.
    Unusable,
    /// The last word of the recorded helper.
    Said(Said),
}

/// What a last word says, as far as it decides anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Said {
    /// What became of the command.
    pub fate: Fate,
    /// Whether nothing of the tree was left.
    pub empty: bool,
}

/// What became of a command, by its helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It never got past its gate: nothing of it ran.
    NeverRan,
    /// The program could not be executed: nothing of it ran.
    NotExecuted,
    /// It ran.
    Ran {
        /// How it ended; `None` if the helper did not see that.
        exit: Option<Exit>,
        /// Whether the helper ended the tree because its supervisor was gone.
        stopped: bool,
        /// Whether the helper sent any signal to end the tree, for whatever reason.
        signalled: bool,
    },
}

/// What came of recovery's own attempt to end what it could identify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attempt {
    /// There was none.
    NotTried,
    /// Nobody was left who could be identified.
    NothingFound,
    /// Everybody who could be identified is gone.
    Confirmed,
    /// Somebody is left.
    Unconfirmed,
}

#[cfg(any(test, feature = "rules"))]
impl Attempt {
    /// Every result.
    pub const ALL: [Self; 4] = [
        Self::NotTried,
        Self::NothingFound,
        Self::Confirmed,
        Self::Unconfirmed,
    ];
}

/// What is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Observed {
    /// The helper's last word. It is read after the look at the helper, who writes it before it goes.
    pub word: Word,
    /// The recorded helper.
    pub holder: Liveness,
    /// The init of the tree's own pid namespace. It is looked at before the command: whoever is in the
    /// namespace after it has ended was never in it.
    pub init: Init,
    /// The tree's own control group. It is looked at before the command: a command that lives although nobody was in
    /// the group is outside of it.
    pub leaf: Leaf,
    /// The recorded command.
    pub root: Liveness,
    /// Whether a helper that lives, or the kernel that ends a namespace, has had its time.
    pub waited: bool,
    /// What recovery has tried itself.
    pub attempt: Attempt,
}
