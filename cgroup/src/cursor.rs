//! A place in the tree of groups below a leaf, with one descriptor however deep it is.
//!
//! Neighbours: `nested` looks with it, `removal` takes groups away.

use std::ffi::{OsStr, OsString};

use crate::directory::Directory;
use crate::error::GroupError;

/// Where the walk is.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    root: &'a Directory,
    /// The group, when it is not the root itself.
    at: Option<Directory>,
    /// The way here: the id of each group that was left, and the name that was entered.
    way: Vec<(u64, OsString)>,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(root: &'a Directory) -> Self {
        Self {
            root,
            at: None,
            way: Vec::new(),
        }
    }

    /// The group where it is.
    pub(crate) fn group(&self) -> &Directory {
        self.at.as_ref().unwrap_or(self.root)
    }

    /// Goes to a child; false when there is none of that name any more.
    pub(crate) fn down(&mut self, name: &OsStr) -> Result<bool, GroupError> {
        let child = match self.group().child(name) {
            Ok(child) => child,
            Err(error) if error.is_absence() => return Ok(false),
            Err(error) => return Err(error),
        };
        self.way.push((self.group().id()?, name.to_owned()));
        self.at = Some(child);
        Ok(true)
    }

    /// Goes back to where it came from, and says which name it comes from; null at the root.
    ///
    /// A group cannot be renamed in version 2, so `..` is where it was entered from; its id is
    /// checked all the same.
    pub(crate) fn up(&mut self) -> Result<Option<OsString>, GroupError> {
        let Some((id, name)) = self.way.pop() else {
            return Ok(None);
        };
        self.at = match self.way.is_empty() {
            true => None,
            false => Some(self.group().parent(id)?),
        };
        Ok(Some(name))
    }
}
