//! The last words of helpers, as files in the holders folder.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use xioflow_journal::{Operation, OperationStatus, Outcome};
use xioflow_killpoint as killpoint;
use xioflow_protocol::{Identity, LastWord, Survivor, SurvivorEnd};

use super::facts::{Said, Word};
use super::tell::fate_of;
use crate::error::ExecuteError;
use crate::helper::check_word;
use crate::observe::{self, parse_boot_id};
use crate::plain_file;
use crate::result::ProcessIdentity;

/// Longest file that is read as a last word, in bytes; a real one is far below.
const WORD_LEN_MAX: u64 = 1024 * 1024;

/// What was found where a last word would be.
#[derive(Debug)]
pub(crate) enum Found {
    /// The last word of this operation's helper.
    Said(Box<LastWord>),
    /// No file.
    None,
    /// A file that says nothing that can be relied on.
    Unusable(String),
}

impl Found {
    /// As far as it decides anything.
    pub(super) fn summary(&self) -> Word {
        match self {
            Self::None => Word::None,
            Self::Unusable(_) => Word::Unusable,
            Self::Said(word) => Word::Said(Said {
                fate: fate_of(word),
                empty: word.empty,
            }),
        }
    }

    pub(crate) fn said(&self) -> Option<&LastWord> {
        match self {
            Self::Said(word) => Some(word),
            Self::None | Self::Unusable(_) => None,
        }
    }

    pub(super) fn why_unusable(&self) -> Option<&str> {
        match self {
            Self::Unusable(why) => Some(why),
            Self::Said(_) | Self::None => None,
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Said(_) => f.write_str("the helper left its last word"),
            Self::None => f.write_str("the helper left no last word"),
            Self::Unusable(why) => write!(f, "the helper's last word cannot be used ({why})"),
        }
    }
}

/// Whether somebody whom the helper could not end may live, inside of the tree's control group or outside.
pub(super) fn may_live_outside(word: &LastWord) -> bool {
    let end = &word.end;
    let lives = |survivor: &Survivor| {
        let process = &survivor.process;
        matches!(survivor.end, SurvivorEnd::Alive(_))
            && observe::look_at(process.pid).map_or_else(
                || observe::is_there(process.pid),
                |met| met.start_ticks == process.start_ticks && !met.has_ended,
            )
    };
    let are_all_named = usize::try_from(end.survivors_total) == Ok(end.survivors.len());
    !word.empty && (!are_all_named || end.survivors.is_empty() || end.survivors.iter().any(lives))
}

/// Who is recorded of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parties<'a> {
    pub(crate) holder: Option<&'a ProcessIdentity>,
    pub(crate) root: Option<&'a ProcessIdentity>,
}

/// Reads the last word on an operation, by the helper that is recorded of it.
///
/// An id can have had a helper before that one: of a submission that was never recorded, because its
/// supervisor died before the gate opened. What that helper leaves, however late, has the same name.
pub(crate) fn read(path: &Path, operation_id: &str, parties: Parties<'_>) -> Found {
    match read_file(path) {
        Ok(word) => judge(word, operation_id, parties),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::None,
        Err(error) => Found::Unusable(error.to_string()),
    }
}

/// Says whether a last word can be relied on, for this operation. Pure.
fn judge(word: LastWord, operation_id: &str, parties: Parties<'_>) -> Found {
    if word.operation_id != operation_id {
        return Found::Unusable(format!("it is about operation {}", word.operation_id));
    }
    let impossible = |what| format!("it has {what}");
    let judged = check_word(&word).map_err(impossible);
    match judged.and_then(|()| whose(&word, parties).map_err(str::to_owned)) {
        Ok(()) => Found::Said(Box::new(word)),
        Err(why) => Found::Unusable(why),
    }
}

/// What a last word comes to for the operation whose helper and command are recorded like this.
#[cfg(feature = "rules")]
#[must_use]
pub fn word_of(
    word: LastWord,
    operation_id: &str,
    holder: Option<&ProcessIdentity>,
    root: Option<&ProcessIdentity>,
) -> Word {
    judge(word, operation_id, Parties { holder, root }).summary()
}

fn whose(word: &LastWord, parties: Parties<'_>) -> Result<(), &'static str> {
    match (parties.holder, parties.root, &word.root) {
        (Some(holder), _, _) if is(holder, &word.holder) => Ok(()),
        (Some(_), _, _) => Err("it is of another helper than the recorded one"),
        (None, Some(root), Some(told)) if is(root, told) => Ok(()),
        (None, Some(_), _) => Err("it is about another process than the recorded one"),
        (None, None, _) => Err("nothing recorded tells whose it is"),
    }
}

/// Whether both are the same process. An inode that only one of them has tells nothing.
fn is(recorded: &ProcessIdentity, told: &Identity) -> bool {
    let inodes = recorded.pidfd_inode.zip(told.pidfd_inode);
    recorded.pid == told.pid
        && recorded.start_ticks == told.start_ticks
        && parse_boot_id(&recorded.boot_id) == Some(told.boot_id)
        && inodes.is_none_or(|(one, other)| one == other)
}

fn read_file(path: &Path) -> io::Result<LastWord> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells the difference, however long the file is by now.
    let mut file = plain_file::open(path)?.take(WORD_LEN_MAX + 1);
    if file.read_to_end(&mut bytes)? as u64 > WORD_LEN_MAX {
        return Err(io::Error::other("it is too long"));
    }
    LastWord::from_bytes(&bytes).map_err(io::Error::other)
}

/// Removes the last words that nobody needs any more: those on operations whose end is known, and those
/// on commands that never got past their gate and were never recorded. One on an operation whose end is
/// not known is evidence for whoever adjudicates it.
pub(super) fn remove_settled(
    holders: &Path,
    find: impl Fn(&str) -> Result<Option<Operation>, ExecuteError>,
) -> Result<(), ExecuteError> {
    let failed = |source| ExecuteError::System {
        act: "read the holders folder",
        source,
    };
    for entry in fs::read_dir(holders).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // What is not a last word is not ours to remove.
        let Ok(word) = read_file(&path) else { continue };
        let settled = match find(&word.operation_id)? {
            Some(operation) => is_told(&operation),
            None => !word.released,
        };
        if settled {
            killpoint::pass(|| "word:before-remove");
            // One that stays behind is removed the next time.
            drop(fs::remove_file(&path));
            killpoint::pass(|| "word:after-remove");
        }
    }
    Ok(())
}

fn is_told(operation: &Operation) -> bool {
    let is_clear = operation.outcome != Some(Outcome::Indeterminate);
    operation.status == OperationStatus::Done && (is_clear || operation.adjudication.is_some())
}
