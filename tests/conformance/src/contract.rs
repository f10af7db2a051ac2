//! What a contract is. The contracts themselves are in `contracts`.

use std::fmt;

use crate::world::World;

/// One numbered promise and how it is examined.
#[derive(Debug, Clone, Copy)]
pub struct Contract {
    /// Its number, which never changes its meaning.
    pub number: u32,
    /// The promise in a few words.
    pub title: &'static str,
    /// What kind of promise it is.
    pub level: Level,
    /// Examines it; panics with the documents involved when it is broken.
    pub check: fn(&World<'_>) -> Outcome,
}

/// How the examination of a kept promise ends.
pub type Outcome = Result<(), Unsupported>;

/// A way, or this host, cannot do what a contract is about, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported(String);

impl Unsupported {
    /// Because of this.
    pub fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// What could be examined holds; the rest cannot be, because of this.
    pub fn in_part(reason: impl fmt::Display) -> Self {
        Self(format!("in part: {reason}"))
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Kinds of promises. A way reaches a level when it breaks no contract of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A command is started and answered for.
    Command,
    /// What it prints is kept.
    Output,
    /// Its tree ends, and how is known.
    Stop,
    /// What is recorded of it stays true.
    Record,
    /// A host has several operations, clients and Runs.
    Host,
}

impl Level {
    /// All of them, the most basic first.
    pub const ALL: [Self; 5] = [
        Self::Command,
        Self::Output,
        Self::Stop,
        Self::Record,
        Self::Host,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Output => "output",
            Self::Stop => "stop",
            Self::Record => "record",
            Self::Host => "host",
        }
    }
}
