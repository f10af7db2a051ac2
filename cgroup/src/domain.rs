//! The group of one domain: it holds the leaves of its operations and never a process.
//!
//! Neighbours: `root` makes and finds it, `leaf` is what it is for.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::controller::Controllers;
use crate::directory::Directory;
use crate::error::GroupError;
use crate::hand_down;
use crate::leaf::Leaf;
use crate::limits::Limits;
use crate::name::{self, GroupName};
use crate::place::LeafPlace;
use crate::removal::{self, RemoveError, Removed};
use crate::view::View;

/// How often another name is tried. Names are random: one that is taken has never been seen.
const NAME_ATTEMPTS_MAX: u32 = 4;

/// The most leaves that are listed. A domain has far fewer operations.
const LEAVES_MAX: usize = 65_536;

/// What a command may make below its leaf, so that looking and removing have an end. A system of its
/// own in there, with its services, has some hundred groups, not ten deep.
const GUARDS: [(&str, &str); 2] = [
    ("cgroup.max.descendants", "4096"),
    ("cgroup.max.depth", "64"),
];

/// The group of one domain. Dropping it leaves the group as it is.
#[derive(Debug, Clone)]
pub struct DomainGroup {
    root: Arc<Directory>,
    directory: Arc<Directory>,
    name: GroupName,
    view: View,
}

impl DomainGroup {
    pub(crate) fn new(
        root: Arc<Directory>,
        directory: Directory,
        name: GroupName,
        view: View,
    ) -> Self {
        Self {
            root,
            directory: Arc::new(directory),
            name,
            view,
        }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Makes an empty leaf with these limits.
    ///
    /// # Errors
    /// As [`Leaf::set`], and [`GroupError::Make`]. One that [is an absence](GroupError::is_absence)
    /// means that somebody removed this group meanwhile, and that
    /// [`Root::domain`](crate::Root::domain) makes it again. After an error no leaf is left.
    pub fn leaf(&self, limits: &Limits) -> Result<Leaf, GroupError> {
        limits.check()?;
        self.hand_down(limits.controllers())?;
        let leaf = self.make()?;
        match leaf.guard(&GUARDS).and_then(|()| leaf.set(limits)) {
            Ok(()) => Ok(leaf),
            Err(refused) => {
                // Nobody is in it, so it goes; if not, it is found as a leaf of nobody.
                leaf.remove().ok();
                Err(refused)
            }
        }
    }

    fn make(&self) -> Result<Leaf, GroupError> {
        let mut attempt = 1;
        loop {
            let name = OsString::from(name::random_leaf()?);
            match self.directory.make(&name) {
                Ok(()) => {
                    let leaf = self.directory.child(&name)?;
                    let domain = Arc::clone(&self.directory);
                    return Leaf::new(domain, leaf, name, self.view);
                }
                Err(error) if error.is(Errno::EXIST) && attempt < NAME_ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Hands controllers to the leaves, those that are there included.
    ///
    /// # Errors
    /// [`GroupError::NotHandedDown`] when the root does not hand them to this group:
    /// [`Root::prepare`](crate::Root::prepare) does that. [`GroupError::HoldsProcesses`] when
    /// somebody put a process here.
    pub fn hand_down(&self, wanted: Controllers) -> Result<(), GroupError> {
        hand_down::enable(&self.directory, wanted)
    }

    /// The leaves that are there now, of anybody and nobody. What has no name of a leaf is left out.
    ///
    /// # Errors
    /// [`GroupError::Open`] when the group cannot be listed.
    pub fn leaves(&self) -> Result<impl Iterator<Item = LeafPlace> + use<>, GroupError> {
        let namespace = self.view.namespace;
        let directory = Arc::clone(&self.directory);
        let names = self.directory.children(LEAVES_MAX)?.into_iter();
        let ours = names.filter(|name| name::is_leaf(name));
        Ok(ours.filter_map(move |name| {
            // One that goes away meanwhile is no leaf any more.
            let id = directory.child_id(&name).ok().flatten()?;
            Some(LeafPlace {
                directory: directory.path().join(name),
                id,
                namespace,
            })
        }))
    }

    /// Limits the memory of all leaves together; null lifts it. At the limit the kernel kills one
    /// leaf, not all.
    ///
    /// # Errors
    /// [`GroupError::Write`]: ENOENT when the root does not hand `memory` down.
    pub fn set_memory_max(&self, bytes: Option<u64>) -> Result<(), GroupError> {
        let value = bytes.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
        self.directory.write("memory.max", &value)
    }

    /// Removes the group when it has no leaf.
    ///
    /// # Errors
    /// [`RemoveError::HasGroups`] or [`RemoveError::Populated`] when it has.
    pub fn remove(&self) -> Result<Removed, RemoveError> {
        removal::remove_bare(&self.root, self.name.as_ref())
    }
}
