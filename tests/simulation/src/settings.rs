//! What a simulated host is like, from the first bytes of a script, and where it lies on purpose.

use crate::script::Script;

/// The host of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// The tree has a PID namespace of its own.
    pub(crate) enclosed: bool,
    /// The supervisor says when it has recorded the end.
    pub(crate) waits_for_record: bool,
    /// There are no process descriptors.
    pub(crate) lacks_pidfds: bool,
    /// There are no lists of children.
    pub(crate) lacks_children: bool,
    /// Processes of other users are not shown.
    pub(crate) hides: bool,
    /// The helper may signal processes of other users.
    pub(crate) has_authority: bool,
    /// Hundreds want the processor.
    pub(crate) crowded: bool,
    pub(crate) descendants_wait: bool,
    /// Above every number of a process.
    pub(crate) pid_max: u32,
    /// How much happens between two calls, of 256.
    pub(crate) density: u8,
    /// How long a rung waits.
    pub(crate) pace: u8,
    /// After how many calls one of those that fork without end forks.
    pub(crate) calls_per_fork: u32,
}

impl Settings {
    pub(crate) fn read(script: &mut Script) -> Self {
        let flags = script.byte();
        let is_on = |bit: u8| flags >> bit & 1 == 1;
        // The rarer lacks need a second bit, so that most runs are of an ordinary host.
        let rare = script.byte();
        let is_rare = |bit: u8| rare >> bit & 3 == 3;
        Self {
            enclosed: is_on(0) && is_on(1),
            waits_for_record: is_on(2),
            descendants_wait: is_on(3),
            crowded: is_on(4) && is_on(5),
            has_authority: is_on(6) && is_on(7),
            lacks_pidfds: is_rare(0),
            lacks_children: is_rare(2),
            hides: is_rare(4),
            pid_max: 16 + u32::from(script.byte()),
            density: script.byte() / 2,
            pace: script.byte(),
            calls_per_fork: 4 + u32::from(rare >> 6) * 4,
        }
    }
}

/// Where the simulated kernel or supervisor does not tell the truth, so that a promise is broken: each has to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Numbers of children that were not waited for belong to others as well.
    GivesNumbersAway,
    /// A stranger looks like the member of the tree that had its number before.
    LooksLikeBefore,
    /// There are no children, and one lives.
    DeniesChildren,
    /// The root has ended in another way.
    OtherExit,
    /// The command runs before it is let run.
    RunsUnasked,
    /// Nobody tells the helper that a child has ended.
    KeepsDeathsSecret,
    /// Time does not pass.
    ClockStands,
    /// The last word is lost.
    LosesWord,
    /// The supervisor hears the end twice.
    SaysEndTwice,
    /// The supervisor does not hear how the root has ended.
    HidesExit,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::GivesNumbersAway,
        Self::LooksLikeBefore,
        Self::DeniesChildren,
        Self::OtherExit,
        Self::RunsUnasked,
        Self::KeepsDeathsSecret,
        Self::ClockStands,
        Self::LosesWord,
        Self::SaysEndTwice,
        Self::HidesExit,
    ];

    /// The promises, one of which it breaks, in the words of the findings.
    #[must_use]
    pub const fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::GivesNumbersAway | Self::LooksLikeBefore => &["a stranger was signalled"],
            Self::DeniesChildren => &["an empty tree, and somebody lives"],
            Self::OtherExit => &["another exit than the root's"],
            Self::RunsUnasked => &["before it was let run"],
            Self::KeepsDeathsSecret => &["it waits, and a child of it has ended"],
            Self::ClockStands => &["it does not come to an end"],
            Self::LosesWord => &["there is no last word"],
            Self::SaysEndTwice => &["a second end", "after the end"],
            Self::HidesExit => &["an end before the exit of the root"],
        }
    }
}
