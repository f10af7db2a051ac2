//! The table of recovery: what is recorded and what is found, to what follows. Pure; time, files
//! and processes are the caller's (`settle`, `wait`, `stop`).
//!
//! The rule behind every row: leases are freed only by proof that nothing of the operation can act any
//! more. A proof is a helper's word that its tree is gone, the end of the init of the tree's own pid
//! namespace, an empty control group that was the tree's own and that nobody is known to have left, another boot of the
//! same machine, or a gate that never opened. That a process cannot be found proves nothing of those it left behind.

use serde::{Deserialize, Serialize};
use xioflow_journal::{OperationKind, OperationStatus, Outcome, TerminationReason};
use xioflow_protocol::Exit;

use super::facts::{
    Attempt, Fate, Init, Known, Leaf, Liveness, Observed, Provenance, Recorded, Said, Word,
};
use crate::operation::{Cause, outcome_of};

/// What was decided about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing of it ever ran.
    CleanedUnspawned,
    /// Its end was seen by its helper.
    SettledByLastWord,
    /// It is gone, and nobody saw how it ended.
    MarkedDead,
    /// What could be identified of it was ended by recovery. Whether that was all cannot be proven,
    /// so it keeps its leases.
    StoppedAliveProcess,
    /// Its end cannot be proven; it keeps its leases.
    Isolated,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ruling {
    /// The helper is at work, or the kernel, which ends a namespace after its helper: wait for the end of
    /// that, within the time that all of them share.
    Wait,
    /// Somebody of the tree is there, and nobody holds it: end all in its control group, and what else can be
    /// identified.
    Stop,
    /// The operation is settled.
    Conclude(Conclusion),
}

/// How an operation is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Conclusion {
    /// Which row of the table.
    pub case: Case,
    /// What that is called.
    pub verdict: Verdict,
    /// How the operation ended.
    pub status: Outcome,
    /// Why; `None` where that is not known.
    pub reason: Option<TerminationReason>,
    /// How the command itself ended, if its helper saw that.
    pub exit: Option<Exit>,
}

impl Conclusion {
    /// Whether the operation gives its leases back: exactly where its end is proven.
    #[must_use]
    pub const fn frees_leases(&self) -> bool {
        !matches!(self.status, Outcome::Indeterminate)
    }
}

macro_rules! cases {
    ($($(#[$doc:meta])* $name:ident = $letter:literal),+ $(,)?) => {
        /// The rows of the table. A letter never changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Case { $($(#[$doc])* $name),+ }

        impl Case {
            /// All of them, by letter.
            #[cfg(any(test, feature = "rules"))]
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The letter in reports and in the documentation.
            #[must_use]
            pub const fn letter(self) -> char {
                match self { $(Self::$name => $letter),+ }
            }
        }
    };
}

cases! {
    /// The helper saw the whole tree end.
    Told = 'A',
    /// The helper could not end all of it.
    Remains = 'B',
    /// There is a last word, and it cannot be relied on.
    UnusableWord = 'C',
    /// The machine was started since: nothing survives that.
    EarlierBoot = 'D',
    /// The helper still holds the tree, after all the time that it was given.
    HolderLives = 'E',
    /// Nobody holds the tree, and what could be identified of it could not be ended.
    NotEnded = 'F',
    /// The helper died without a word, and the command is gone; others of the tree may live.
    HolderGone = 'G',
    /// Nothing shows what became of helper and tree.
    Unknown = 'H',
    /// The operation is of a kind that this release cannot judge.
    ForeignKind = 'I',
    /// The helper saw that the gate never opened.
    NeverRan = 'J',
    /// The helper saw that the program could not be executed.
    NotExecuted = 'K',
    /// The owner died before the identity of a gated command was recorded, so its gate never opened.
    GateNeverOpened = 'L',
    /// No identity is recorded, and nothing was promised of a gate: the command may run anywhere.
    NoIdentity = 'M',
    /// Nobody held the tree; recovery has ended all of it that could be identified.
    Ended = 'N',
    /// The last word says that nothing is left, and the command lives.
    Contradiction = 'O',
    /// The helper could not end all of the tree, and the machine was started since.
    RemainsOfEarlierBoot = 'P',
    /// The owner ran on another machine, or may still be at work on the domain that this one is a copy of.
    Foreign = 'Q',
    /// A snapshot, which changes nothing outside of its own store.
    Snapshot = 'R',
    /// The helper left no word of use, and the init of the tree's pid namespace has ended.
    NamespaceGone = 'S',
    /// The helper could not end all of the tree, and the init of its pid namespace has ended since.
    RemainsAreGone = 'T',
    /// The helper left no word of use, and nobody lives in the tree's control group.
    GroupEmpty = 'U',
    /// The helper could not end all of the tree, and since then nobody lives in its control group.
    RemainsLeftGroup = 'V',
}

/// Decides one operation.
#[must_use]
pub fn decide(recorded: &Recorded, observed: &Observed) -> Ruling {
    match recorded.kind {
        OperationKind::Process | OperationKind::Service => decide_process(recorded, observed),
        OperationKind::Snapshot if may_be_at_work(recorded) => isolated(Case::Foreign),
        OperationKind::Snapshot => {
            let reason = Some(TerminationReason::CrashDetected);
            settled(Case::Snapshot, Verdict::CleanedUnspawned, reason)
        }
        OperationKind::Rollback
        | OperationKind::Filesystem
        | OperationKind::Gate
        | OperationKind::Custom => isolated(Case::ForeignKind),
    }
}

fn decide_process(recorded: &Recorded, observed: &Observed) -> Ruling {
    let sight = Sight::of(recorded, observed);
    match observed.word {
        Word::Said(_) if is_to_be_emptied(recorded, observed, &sight) => Ruling::Stop,
        Word::Said(said) if said.empty || sight.shows_the_end() => told(recorded, said, &sight),
        Word::Said(_) => isolated(Case::Remains),
        Word::None | Word::Unusable if gate_never_opened(recorded) => {
            let reason = Some(TerminationReason::CrashDetected);
            settled(Case::GateNeverOpened, Verdict::CleanedUnspawned, reason)
        }
        Word::None | Word::Unusable if sight.boot_is_proof() => {
            settled(Case::EarlierBoot, Verdict::MarkedDead, unseen())
        }
        Word::None | Word::Unusable => without_word(recorded, observed, &sight),
    }
}

/// Whether recovery is to end those in the control group: somebody lives in it, and nobody else is there to do it.
fn is_to_be_emptied(recorded: &Recorded, observed: &Observed, sight: &Sight) -> bool {
    sight.leaf == Leaf::Populated
        && sight.holder != Liveness::Alive
        && observed.attempt == Attempt::NotTried
        && !may_be_at_work(recorded)
}

/// What is found, with what can be said of it.
struct Sight {
    holder: Liveness,
    root: Liveness,
    init: Init,
    leaf: Leaf,
}

impl Sight {
    /// What is not recorded cannot be looked at, and what contradicts itself says nothing.
    fn of(recorded: &Recorded, observed: &Observed) -> Self {
        let seen = |known, liveness| match (known, recorded.provenance) {
            // Whatever becomes of it is the business of the original's owner.
            (_, Provenance::Copied) => Liveness::CannotTell,
            (Known::Yes, _) => liveness,
            (Known::No | Known::Illegible, _) => Liveness::CannotTell,
        };
        let holder = seen(recorded.holder, observed.holder);
        let root = seen(recorded.root, observed.root);
        let (init, leaf) = match (recorded.root, recorded.provenance) {
            // Both are recorded with the command. Of another machine nothing is seen here, whatever boot it says
            // it has: a copy of a running machine goes on with the boot of the original.
            (Known::Yes, Provenance::Here | Provenance::Renumbered) => {
                (observed.init, observed.leaf)
            }
            _ => (Init::Untold, Leaf::Untold),
        };
        let of_this_boot = |it| {
            matches!(
                it,
                Liveness::Alive | Liveness::Unreaped | Liveness::Gone | Liveness::Elsewhere
            )
        };
        // All were started by one owner, so one boot cannot be right for some of them only.
        let unlikely = of_this_boot(holder)
            || of_this_boot(root)
            || init != Init::Untold
            || leaf.is_there()
            || recorded.provenance == Provenance::OtherMachine;
        let doubted = |it| match it {
            Liveness::OtherBoot if unlikely => Liveness::CannotTell,
            other => other,
        };
        let says_otherwise = |it| {
            // Nobody outlives the init, and none of them was there before this boot.
            matches!(
                it,
                Liveness::Alive | Liveness::Unreaped | Liveness::OtherBoot
            )
        };
        let init_is_doubted = says_otherwise(root) || holder == Liveness::OtherBoot;
        Self {
            holder: doubted(holder),
            root: doubted(root),
            init: match init {
                Init::Gone if init_is_doubted => Init::Untold,
                other => other,
            },
            leaf: match leaf {
                // Who is outside has left it, and may not be the only one.
                Leaf::Empty | Leaf::Removed if root == Liveness::Alive || init == Init::Lives => {
                    Leaf::Untold
                }
                // Where the world is seen in another way than then, nothing at its place says nothing.
                Leaf::Removed if is_otherwise(root) || is_otherwise(holder) => Leaf::Untold,
                other => other,
            },
        }
    }

    fn boot_is_proof(&self) -> bool {
        self.holder == Liveness::OtherBoot || self.root == Liveness::OtherBoot
    }

    /// Whether nothing of the tree can be left, whatever was left before.
    fn shows_the_end(&self) -> bool {
        self.boot_is_proof() || self.init == Init::Gone || self.leaf.is_over()
    }

    /// Whether somebody of the tree is there, so that its numbers are its own.
    fn found_any(&self) -> bool {
        matches!(self.root, Liveness::Alive | Liveness::Unreaped) || self.init == Init::Lives
    }
}

/// Whether a process is not of the boot, or not of the namespaces, in which it is looked at.
const fn is_otherwise(seen: Liveness) -> bool {
    matches!(seen, Liveness::OtherBoot | Liveness::Elsewhere)
}

/// The helper has said how it ended, and nothing of the tree is left.
fn told(recorded: &Recorded, said: Said, sight: &Sight) -> Ruling {
    // A helper waits for the init of its namespace, and for its control group, before it calls them empty.
    let somebody_lives = match sight.init {
        Init::Gone => false,
        Init::Lives => true,
        Init::Untold => sight.root == Liveness::Alive || sight.leaf.has_somebody(),
    };
    if somebody_lives {
        return isolated(Case::Contradiction);
    }
    let crash = Some(TerminationReason::CrashDetected);
    match said.fate {
        Fate::NeverRan => settled(Case::NeverRan, Verdict::CleanedUnspawned, crash),
        Fate::NotExecuted => {
            let reason = Some(TerminationReason::Completed);
            settled(Case::NotExecuted, Verdict::CleanedUnspawned, reason)
        }
        Fate::Ran { exit, .. } if !said.empty => {
            let (verdict, reason) = match exit {
                Some(_) => (Verdict::SettledByLastWord, crash),
                None => (Verdict::MarkedDead, unseen()),
            };
            let case = match sight.init {
                Init::Gone => Case::RemainsAreGone,
                Init::Untold | Init::Lives if sight.leaf.is_over() => Case::RemainsLeftGroup,
                Init::Untold | Init::Lives => Case::RemainsOfEarlierBoot,
            };
            seen(case, verdict, (Outcome::Failed, reason), exit)
        }
        Fate::Ran { exit, .. } => {
            let cause = cause_of(recorded, said.fate);
            let (status, reason) = outcome_of(exit, cause);
            let verdict = match reason {
                Some(TerminationReason::ExitUnobserved) => Verdict::MarkedDead,
                _ => Verdict::SettledByLastWord,
            };
            seen(Case::Told, verdict, (status, reason), exit)
        }
    }
}

/// Why a tree ended that its helper saw end.
pub(crate) fn cause_of(recorded: &Recorded, fate: Fate) -> Cause {
    match fate {
        Fate::Ran {
            stopped, signalled, ..
        } => match recorded.stop {
            // As in live work: a wish that no signal followed came too late to be the cause.
            Some(reason) if signalled => Cause::Stop(reason),
            _ if stopped => Cause::HostLost,
            _ => Cause::ByItself,
        },
        Fate::NeverRan | Fate::NotExecuted => Cause::HostLost,
    }
}

/// Whether the owner that recorded it may go on with it as if nothing had happened.
fn may_be_at_work(recorded: &Recorded) -> bool {
    match recorded.provenance {
        Provenance::Renumbered | Provenance::Copied => true,
        // It has lost the domain: the next thing that it records is refused, and no gate opens.
        Provenance::Here | Provenance::OtherMachine => false,
    }
}

/// Whether it was promised that nothing runs before the identity is durable, and none ever will be.
fn gate_never_opened(recorded: &Recorded) -> bool {
    !may_be_at_work(recorded)
        && recorded.status == OperationStatus::IntentRegistered
        && recorded.spawn_gated == Some(true)
        && recorded.root == Known::No
}

/// Its helper has said nothing of use, and it may be of this boot.
fn without_word(recorded: &Recorded, observed: &Observed, sight: &Sight) -> Ruling {
    let &Sight {
        holder, init, leaf, ..
    } = sight;
    let found_any = sight.found_any();
    if may_be_at_work(recorded) && (holder == Liveness::Alive || found_any || leaf.has_somebody()) {
        return isolated(Case::Foreign);
    }
    match (holder, init, observed.attempt) {
        (Liveness::Alive, ..) | (_, Init::Lives, _) if !observed.waited => Ruling::Wait,
        _ if is_to_be_emptied(recorded, observed, sight) => Ruling::Stop,
        (_, Init::Gone, _) => settled(Case::NamespaceGone, Verdict::MarkedDead, unseen()),
        (Liveness::Alive, ..) => isolated(Case::HolderLives),
        _ if leaf.is_over() => settled(Case::GroupEmpty, Verdict::MarkedDead, unseen()),
        (_, _, Attempt::NotTried) if found_any => Ruling::Stop,
        _ if leaf.has_somebody() => isolated(Case::NotEnded),
        (_, _, Attempt::Confirmed) => isolated_as(Case::Ended, Verdict::StoppedAliveProcess),
        (_, _, Attempt::Unconfirmed) => isolated(Case::NotEnded),
        (_, _, Attempt::NotTried | Attempt::NothingFound) => {
            isolated(nothing_seen(recorded, observed, holder))
        }
    }
}

/// Which of the reasons it is that nothing can be said.
fn nothing_seen(recorded: &Recorded, observed: &Observed, holder: Liveness) -> Case {
    match (observed.word, holder) {
        _ if recorded.provenance == Provenance::Copied => Case::Foreign,
        _ if recorded.root == Known::No => Case::NoIdentity,
        _ if recorded.provenance == Provenance::OtherMachine => Case::Foreign,
        (Word::Unusable, _) => Case::UnusableWord,
        (_, Liveness::Gone | Liveness::Unreaped) => Case::HolderGone,
        (_, Liveness::Alive | Liveness::OtherBoot | Liveness::Elsewhere | Liveness::CannotTell) => {
            Case::Unknown
        }
    }
}

fn isolated(case: Case) -> Ruling {
    isolated_as(case, Verdict::Isolated)
}

fn isolated_as(case: Case, verdict: Verdict) -> Ruling {
    Ruling::Conclude(Conclusion {
        case,
        verdict,
        status: Outcome::Indeterminate,
        reason: None,
        exit: None,
    })
}

/// Ended, as the helper saw it.
fn seen(
    case: Case,
    verdict: Verdict,
    (status, reason): (Outcome, Option<TerminationReason>),
    exit: Option<Exit>,
) -> Ruling {
    Ruling::Conclude(Conclusion {
        case,
        verdict,
        status,
        reason,
        exit,
    })
}

const fn unseen() -> Option<TerminationReason> {
    Some(TerminationReason::ExitUnobserved)
}

/// Failed, with nothing seen of its exit.
fn settled(case: Case, verdict: Verdict, reason: Option<TerminationReason>) -> Ruling {
    Ruling::Conclude(Conclusion {
        case,
        verdict,
        status: Outcome::Failed,
        reason,
        exit: None,
    })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
