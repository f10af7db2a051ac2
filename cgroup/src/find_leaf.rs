//! Opens the leaf of a record again: it, nothing, or something else of the same name.
//!
//! Neighbours: `place` is the record, `leaf` what comes of it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::directory::Directory;
use crate::error::GroupError;
use crate::leaf::Leaf;
use crate::name::{self, GroupName};
use crate::place::{self, LeafPlace};

/// What is at the place of a record.
#[derive(Debug)]
pub enum Found {
    /// The leaf itself: its id is the recorded one.
    Leaf(Leaf),
    /// No group is there, and the place is seen as it was recorded: the leaf was removed, so all its
    /// processes have ended or left it before.
    Gone,
    /// Another group is there. Not touched. The recorded one was removed.
    Stranger,
    /// Nothing can be said: the place cannot be looked at, or is seen in another way than then.
    CannotTell {
        /// What stands in the way.
        subject: PathBuf,
        /// The error number; null when the place is seen in another namespace or through another
        /// mount.
        errno: Option<i32>,
    },
}

impl Leaf {
    /// Opens the leaf that was recorded during this boot. Reads only.
    ///
    /// # Errors
    /// [`GroupError::NotOurs`] when no leaf of ours can be at such a path. Whatever else stands in
    /// the way is [`Found::CannotTell`].
    pub fn open(place: &LeafPlace) -> Result<Found, GroupError> {
        let (domain, name) = names(&place.directory)?;
        Ok(match open(place, domain, name) {
            Ok(found) => found,
            Err(error) => Found::CannotTell {
                subject: place.directory.clone(),
                errno: error.raw_os_error(),
            },
        })
    }
}

/// The directory of the domain's group and the name of the leaf.
fn names(directory: &Path) -> Result<(&Path, &OsStr), GroupError> {
    let leaf = directory.file_name().filter(|leaf| name::is_leaf(leaf));
    let domain = directory.parent();
    let domain_name = domain.and_then(Path::file_name).and_then(GroupName::parse);
    match (domain, domain_name, leaf) {
        (Some(domain), Some(_), Some(leaf)) if directory.is_absolute() => Ok((domain, leaf)),
        _ => Err(GroupError::NotOurs {
            path: directory.to_owned(),
        }),
    }
}

fn open(place: &LeafPlace, domain: &Path, name: &OsStr) -> Result<Found, GroupError> {
    let domain = match Directory::open(domain) {
        Ok(domain) => domain,
        Err(error) if error.is(Errno::NOENT) => return Ok(absent(place)),
        Err(error) => return Err(error),
    };
    match domain.child(name) {
        Ok(leaf) if leaf.id()? == place.id => {
            let namespace = place::own_namespace();
            let leaf = Leaf::new(Arc::new(domain), leaf, name.to_owned(), namespace)?;
            Ok(Found::Leaf(leaf))
        }
        Ok(_) => Ok(Found::Stranger),
        Err(error) if error.is(Errno::NOENT) => Ok(absent(place)),
        Err(error) => Err(error),
    }
}

/// A path where nothing is proves something only in the namespace where it was recorded, and where
/// version 2 is still mounted.
fn absent(place: &LeafPlace) -> Found {
    let unknown = |subject: &Path| Found::CannotTell {
        subject: subject.to_owned(),
        errno: None,
    };
    if place.namespace.is_none() || place.namespace != place::own_namespace() {
        return unknown(&place.directory);
    }
    for above in place.directory.ancestors().skip(1) {
        match Directory::open(above) {
            Ok(_) => return Found::Gone,
            Err(error) if error.is(Errno::NOENT) => {}
            Err(_) => return unknown(above),
        }
    }
    unknown(&place.directory)
}
