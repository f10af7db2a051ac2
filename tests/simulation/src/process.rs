//! One process of the simulated kernel. Its place in the kernel's list is who it is: numbers are used again,
//! places are not.

use xioflow_facts::ProcessState;
use xioflow_sys::{EndKind, Signal};

/// Who a process is, for ever.
pub(crate) type Who = usize;

/// Whether it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Lives,
    /// It has ended so, and was not waited for.
    Ended(EndKind),
    /// It was waited for, having ended so.
    Gone(EndKind),
}

/// What it is to the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kin {
    /// Somebody else's.
    Stranger,
    /// The helper.
    Helper,
    /// The init of the tree's namespace.
    Init,
    /// One of the tree.
    Member,
}

#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) number: u32,
    pub(crate) parent: Who,
    /// Who has made its group; that one's number is the group's.
    pub(crate) group: Who,
    pub(crate) session: Who,
    pub(crate) start_ticks: u64,
    pub(crate) kin: Kin,
    pub(crate) life: Life,
    /// Whether it has executed a program of its own.
    pub(crate) executed: bool,
    /// In the tree's PID namespace.
    pub(crate) enclosed: bool,
    /// Its first thread has ended, and others have not.
    pub(crate) headless: bool,
    pub(crate) stopped: bool,
    /// Sleeps so that no signal wakes it.
    pub(crate) deep: bool,
    /// Belongs to another user.
    pub(crate) foreign: bool,
    /// Ignores every signal that can be ignored.
    pub(crate) deaf: bool,
    /// Adopts the orphans below it.
    pub(crate) adopts: bool,
    /// Somebody of the tree traces it: its end is shown to its parent when that one lets it go.
    pub(crate) traced: bool,
    /// Does not wait for its children, and lets the system do it.
    pub(crate) careless: bool,
    /// Forks without end.
    pub(crate) swarms: bool,
    /// A signal that takes effect when it wakes or goes on.
    pub(crate) pending: Option<Signal>,
}

impl Process {
    /// A copy of `parent`, as fork(2) makes it.
    pub(crate) fn copy(parent: &Self, parent_is: Who, number: u32, start_ticks: u64) -> Self {
        Self {
            number,
            parent: parent_is,
            start_ticks,
            life: Life::Lives,
            executed: false,
            headless: false,
            stopped: false,
            deep: false,
            adopts: false,
            traced: false,
            pending: None,
            ..parent.clone()
        }
    }

    pub(crate) fn lives(&self) -> bool {
        self.life == Life::Lives
    }

    /// Whether it still has its number.
    pub(crate) fn is_there(&self) -> bool {
        !matches!(self.life, Life::Gone(_))
    }

    pub(crate) fn end(&self) -> Option<EndKind> {
        match self.life {
            Life::Lives => None,
            Life::Ended(how) | Life::Gone(how) => Some(how),
        }
    }

    /// Whether its parent can wait for it.
    pub(crate) fn is_waitable(&self) -> bool {
        matches!(self.life, Life::Ended(_)) && !self.traced
    }

    pub(crate) fn state(&self) -> ProcessState {
        match self.life {
            Life::Ended(_) | Life::Gone(_) => ProcessState::Zombie,
            Life::Lives if self.headless => ProcessState::Zombie,
            Life::Lives if self.deep => ProcessState::Uninterruptible,
            Life::Lives if self.stopped => ProcessState::Stopped,
            Life::Lives => ProcessState::Sleeping,
        }
    }

    /// Itself in a line, for a finding.
    pub(crate) fn told(&self, who: Who) -> String {
        let marks = [
            (self.executed, "executed"),
            (self.headless, "headless"),
            (self.stopped, "stopped"),
            (self.deep, "deep"),
            (self.foreign, "foreign"),
            (self.deaf, "deaf"),
            (self.adopts, "adopts"),
            (self.traced, "traced"),
            (self.careless, "careless"),
            (self.swarms, "swarms"),
        ];
        let marks = marks
            .into_iter()
            .filter_map(|(is, mark)| is.then_some(mark));
        format!(
            "{who}: {:?} {} of {}, group {}, session {}, since {}, {:?}, {:?} {}",
            self.kin,
            self.number,
            self.parent,
            self.group,
            self.session,
            self.start_ticks,
            self.life,
            self.pending,
            marks.collect::<Vec<_>>().join(" ")
        )
    }

    pub(crate) fn threads(&self) -> u32 {
        if self.headless { 2 } else { 1 }
    }
}
