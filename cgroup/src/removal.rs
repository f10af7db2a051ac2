//! Removes an empty leaf together with the groups that the command made in it.
//!
//! The kernel removes a group only when it holds neither a process nor a group, so nothing that
//! lives is harmed. Neighbours: `cursor` walks, `directory` opens nothing that is not inside.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::cursor::Cursor;
use crate::directory::Directory;
use crate::error::GroupError;
use crate::wait;

/// The most steps of one removal: a listing, a removal, or a try that the kernel refused. A group
/// takes three at most, and a leaf is made for 4096 of them; whoever makes groups while they are
/// removed keeps us for a second or two.
const STEPS_MAX: u32 = 32_768;

/// How many names are listed at once.
const BATCH: usize = 1024;

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Whether the group was still there.
    pub was_there: bool,
    /// Groups below it that went with it.
    pub nested: u32,
}

/// Why a group is still there.
#[derive(Debug, thiserror::Error)]
pub enum RemoveError {
    /// It, or a group below it, holds a process.
    #[error("control group {} still holds a process", path.display())]
    Populated {
        /// Its path.
        path: PathBuf,
    },
    /// It holds other groups. Only those below a leaf are removed with it.
    #[error("control group {} still holds other groups", path.display())]
    HasGroups {
        /// Its path.
        path: PathBuf,
    },
    /// New groups were made as fast as they were removed, or there were too many.
    #[error("control group {} still holds other groups after {removed} were removed", path.display())]
    TooMany {
        /// Its path.
        path: PathBuf,
        /// Groups below it that are gone.
        removed: u32,
    },
    /// The kernel refused.
    #[error("remove control group {}", path.display())]
    Refused {
        /// The group, in it or itself.
        path: PathBuf,
        /// EACCES when it belongs to somebody else.
        source: io::Error,
    },
    /// It, or a group in it, could not be looked at: EXDEV when something is mounted there.
    #[error(transparent)]
    Look(#[from] GroupError),
}

impl RemoveError {
    fn refused(path: &Path, errno: Errno) -> Self {
        Self::Refused {
            path: path.to_owned(),
            source: errno.into(),
        }
    }
}

/// Removes a group that must hold no other group.
pub(crate) fn remove_bare(parent: &Directory, name: &OsStr) -> Result<Removed, RemoveError> {
    let path = parent.path().join(name);
    match parent.remove(name) {
        Ok(()) => Ok(removed(0)),
        Err(Errno::NOENT) => Ok(Removed {
            was_there: false,
            nested: 0,
        }),
        Err(Errno::BUSY) if is_populated(&parent.child(name)?)? => {
            Err(RemoveError::Populated { path })
        }
        Err(Errno::BUSY) => Err(RemoveError::HasGroups { path }),
        Err(errno) => Err(RemoveError::refused(&path, errno)),
    }
}

/// Removes a leaf and what is below it.
pub(crate) fn remove_leaf(
    parent: &Directory,
    name: &OsStr,
    leaf: &Directory,
) -> Result<Removed, RemoveError> {
    let mut sweep = Sweep {
        leaf,
        steps_left: STEPS_MAX,
        nested: 0,
    };
    loop {
        sweep.step()?;
        // A group of the same name that is not ours is not touched.
        if parent.child_id(name)? != Some(leaf.id()?) {
            return Ok(Removed {
                was_there: false,
                nested: sweep.nested,
            });
        }
        match parent.remove(name) {
            Ok(()) | Err(Errno::NOENT) => return Ok(removed(sweep.nested)),
            Err(Errno::BUSY) => {
                sweep.check_nobody()?;
                sweep.clear()?;
            }
            Err(errno) => return Err(RemoveError::refused(leaf.path(), errno)),
        }
    }
}

const fn removed(nested: u32) -> Removed {
    Removed {
        was_there: true,
        nested,
    }
}

struct Sweep<'a> {
    leaf: &'a Directory,
    steps_left: u32,
    nested: u32,
}

impl Sweep<'_> {
    fn step(&mut self) -> Result<(), RemoveError> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(RemoveError::TooMany {
            path: self.leaf.path().to_owned(),
            removed: self.nested,
        })?;
        Ok(())
    }

    /// Nothing is removed from under a process, wherever in the leaf it is.
    fn check_nobody(&self) -> Result<(), RemoveError> {
        match is_populated(self.leaf)? {
            true => Err(RemoveError::Populated {
                path: self.leaf.path().to_owned(),
            }),
            false => Ok(()),
        }
    }

    /// Removes what is below the leaf, the deepest first. Whoever made a group meanwhile is met
    /// again: the caller tries the leaf itself and comes back.
    fn clear(&mut self) -> Result<(), RemoveError> {
        let mut cursor = Cursor::new(self.leaf);
        loop {
            self.step()?;
            if self.clear_children(&mut cursor)? {
                continue;
            }
            // A group that vanished under the walk takes the way back with it: from the top again.
            match cursor.up() {
                Ok(Some(name)) => self.remove(cursor.group(), &name).map(|_| ())?,
                Ok(None) => return Ok(()),
                Err(error) if error.is_absence() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Removes the children of a group, and goes down into the first that has children itself.
    /// False when there are none left.
    fn clear_children(&mut self, cursor: &mut Cursor<'_>) -> Result<bool, RemoveError> {
        let names = match cursor.group().children(BATCH) {
            Ok(names) => names,
            Err(error) if error.is_absence() => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        for name in &names {
            self.step()?;
            if !self.remove(cursor.group(), name)? && cursor.down(name)? {
                return Ok(true);
            }
        }
        Ok(!names.is_empty())
    }

    /// Whether the group is gone; false when something is in it that is no process.
    fn remove(&mut self, parent: &Directory, name: &OsStr) -> Result<bool, RemoveError> {
        match parent.remove(name) {
            Ok(()) => {
                self.nested += 1;
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(true),
            Err(Errno::BUSY) => self.check_nobody().map(|()| false),
            Err(errno) => Err(RemoveError::refused(&parent.path().join(name), errno)),
        }
    }
}

fn is_populated(group: &Directory) -> Result<bool, GroupError> {
    Ok(wait::state_now(group)?.is_some_and(|state| state.populated))
}
