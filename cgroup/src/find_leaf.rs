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
use crate::place::LeafPlace;
use crate::view::{self, View};

/// What is at the place of a record.
#[derive(Debug)]
pub enum Found {
    /// The leaf itself: its id is the recorded one.
    Leaf(Leaf),
    /// No group is there, and the place is seen as it was recorded: the leaf was removed, so all its
    /// processes have ended or left it before.
    Gone,
    /// Another group is there, and the place is seen as it was recorded: the leaf was removed. What is
    /// there now was not touched.
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
            let view = View::over(leaf.path());
            let leaf = Leaf::new(Arc::new(domain), leaf, name.to_owned(), view)?;
            Ok(Found::Leaf(leaf))
        }
        Ok(other) => Ok(if_same_view(place, other.path(), Found::Stranger)),
        Err(error) if error.is(Errno::NOENT) => Ok(absent(place)),
        Err(error) => Err(error),
    }
}

/// Nothing is there: asks the nearest group above that is.
fn absent(place: &LeafPlace) -> Found {
    for above in place.directory.ancestors().skip(1) {
        match Directory::open(above) {
            Ok(_) => return if_same_view(place, above, Found::Gone),
            Err(error) if error.is(Errno::NOENT) => {}
            Err(_) => break,
        }
    }
    cannot_compare(place)
}

/// What a path leads to proves something only where it is seen as it was recorded: in the same
/// namespace, and through a mount that shows all of it.
fn if_same_view(place: &LeafPlace, seen: &Path, found: Found) -> Found {
    let same = place.namespace.is_some() && place.namespace == view::own_namespace();
    match same && view::shows_namespace(seen) {
        true => found,
        false => cannot_compare(place),
    }
}

fn cannot_compare(place: &LeafPlace) -> Found {
    Found::CannotTell {
        subject: place.directory.clone(),
        errno: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: &str = "00112233445566778899aabbccddeeff";

    #[test]
    fn only_paths_of_leaves_are_opened() {
        let good = format!("/c/xioflow-0011223344556677/{LEAF}");
        assert!(names(Path::new(&good)).is_ok());
        for bad in [
            format!("/c/{LEAF}"),
            format!("/c/system.slice/{LEAF}"),
            format!("c/xioflow-0011223344556677/{LEAF}"),
            format!("/c/xioflow-0011223344556677/../{LEAF}"),
            "/c/xioflow-0011223344556677/leaf".to_owned(),
            "/".to_owned(),
        ] {
            assert!(names(Path::new(&bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_proves_nothing_without_a_hierarchy_above_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let domain = dir.path().join("xioflow-0011223344556677");
        let place = LeafPlace {
            directory: domain.join(LEAF),
            id: 1,
            namespace: view::own_namespace(),
        };
        assert!(matches!(Leaf::open(&place), Ok(Found::CannotTell { .. })));
        std::fs::create_dir_all(&place.directory).expect("a folder of that name");
        assert!(matches!(Leaf::open(&place), Ok(Found::CannotTell { .. })));
        assert!(place.directory.is_dir(), "it was not touched");
    }
}
