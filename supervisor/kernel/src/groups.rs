//! The control groups of a domain: where they are, and a leaf for each operation that is to have one.
//!
//! Neighbours: `driver` says which operations those are, `operation/group` has the leaf of one that
//! runs. The only caller of `xioflow-cgroup` for these.

use std::error::Error;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};
use xioflow_cgroup::{
    Controllers, DomainGroup, GroupName, HOST_GROUP, Leaf, Limits, Root, Unavailable,
};

/// Why no control group can be had, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRefused {
    /// What is missing or was refused, as a fragment.
    pub problem: String,
    /// What to do about it, where anything helps.
    pub remedy: Option<String>,
    /// Whether it is the arbiter of the domain that lacks it, and not this process.
    pub of_arbiter: bool,
}

impl fmt::Display for GroupRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)?;
        match self.of_arbiter {
            true => f.write_str(" (of the arbiter, whose group counts)"),
            false => Ok(()),
        }
    }
}

impl GroupRefused {
    fn of_error(error: &dyn Error) -> Self {
        let mut problem = error.to_string();
        let mut next = error.source();
        while let Some(cause) = next {
            problem = format!("{problem}: {cause}");
            next = cause.source();
        }
        Self {
            problem,
            remedy: None,
            of_arbiter: false,
        }
    }
}

impl From<Unavailable> for GroupRefused {
    fn from(unavailable: Unavailable) -> Self {
        Self {
            problem: unavailable.verdict.to_string(),
            remedy: unavailable.remedy().map(str::to_owned),
            of_arbiter: false,
        }
    }
}

/// The processes of the delegated root were moved, so that it can hand controllers to its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMoved {
    /// How many there were; this process or the arbiter is one of them.
    pub processes: u32,
    /// Their group now.
    pub to: PathBuf,
}

/// The groups of one domain. They are looked for when somebody first wants one, and again when what was found
/// does not do.
#[derive(Debug)]
pub(crate) struct Groups {
    name: GroupName,
    looked: Mutex<Option<Looked>>,
}

#[derive(Debug, Clone)]
enum Looked {
    Found {
        root: Box<Root>,
        /// Made with the first leaf.
        domain: Option<DomainGroup>,
    },
    Refused(GroupRefused),
}

impl Groups {
    /// Those of the domain with this identity in this folder. Looks at nothing.
    pub(crate) fn new(domain_id: &str, folder: &Path) -> Self {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let mut hash = Sha256::new();
        for part in [domain_id.as_bytes(), real.as_os_str().as_bytes()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest = hash.finalize();
        let mut name = [0; 8];
        name.copy_from_slice(&digest[..8]);
        Self {
            name: GroupName::from_digest(&name),
            looked: Mutex::new(None),
        }
    }

    /// The delegated root of this process.
    pub(crate) fn root(&self) -> Result<Root, GroupRefused> {
        match self.looked().get_or_insert_with(look) {
            Looked::Found { root, .. } => Ok(root.as_ref().clone()),
            Looked::Refused(refused) => Err(refused.clone()),
        }
    }

    /// Whether a driver that takes a group where there is one takes one here.
    ///
    /// The root of the whole hierarchy is nobody's: what an owner that was killed leaves there, nobody takes away
    /// with its scope. Who wants a group there says so.
    pub(crate) fn are_offered(&self) -> bool {
        self.root()
            .is_ok_and(|root| is_real_root(&root) == Some(false))
    }

    /// The group of the domain as it is now; `None` where there is none, or where it cannot be looked at.
    pub(crate) fn existing(&self) -> Option<DomainGroup> {
        let root = self.root().ok()?;
        root.find_domain(self.name.clone()).ok()?
    }

    /// Makes a leaf with these limits. Their controllers were handed down before ([`Self::hand_down`]).
    pub(crate) fn leaf(&self, limits: &Limits) -> Result<Leaf, GroupRefused> {
        self.try_twice(|domain| {
            domain
                .leaf(limits)
                .map_err(|error| GroupRefused::of_error(&error))
        })
    }

    /// Has the root hand controllers to the groups of its domains, for which its own processes may have to be moved
    /// ([`Self::must_move`] says it before).
    pub(crate) fn hand_down(&self, wanted: Controllers) -> Result<Option<HostMoved>, GroupRefused> {
        let root = self.root()?;
        let prepared = root.prepare(wanted).map_err(|error| GroupRefused {
            remedy: root.delegation().verdict.remedy().map(str::to_owned),
            ..GroupRefused::of_error(&error)
        })?;
        Ok((prepared.moved > 0).then(|| HostMoved {
            processes: prepared.moved,
            to: root.directory().join(HOST_GROUP),
        }))
    }

    /// From where processes would have to be moved before these controllers can be had. `None` too where they cannot
    /// be had at all.
    pub(crate) fn must_move(&self, wanted: Controllers) -> Option<PathBuf> {
        let moves = |root: &Root| {
            let lacking = wanted.without(root.enabled());
            // The real root hands controllers down with processes in it.
            !lacking.is_empty() && is_real_root(root) != Some(true)
        };
        if wanted.is_empty() || !moves(&self.root().ok()?) {
            return None;
        }
        // Somebody may have seen to it since the first look.
        let root = Root::find().ok()?;
        moves(&root).then(|| root.directory().to_owned())
    }

    /// Removes the domain's group if nothing is in it. Another owner may have removed it, or left something there.
    pub(crate) fn close(&self) {
        if let Some(Looked::Found {
            domain: Some(domain),
            ..
        }) = &*self.looked()
        {
            domain.remove().ok();
        }
    }

    /// Does something in the domain's group: as it was found before, or after another look. This process may have
    /// been moved meanwhile, and the group removed.
    fn try_twice<T>(
        &self,
        mut act: impl FnMut(&DomainGroup) -> Result<T, GroupRefused>,
    ) -> Result<T, GroupRefused> {
        let mut looked = self.looked();
        if let Some(Looked::Found {
            domain: Some(domain),
            ..
        }) = &*looked
            && let Ok(done) = act(domain)
        {
            return Ok(done);
        }
        let found = looked.insert(look());
        match found {
            Looked::Refused(refused) => Err(refused.clone()),
            Looked::Found { root, domain } => {
                let group = root
                    .domain(self.name.clone())
                    .map_err(|error| GroupRefused::of_error(&error))?;
                let group = domain.insert(group);
                act(group)
            }
        }
    }

    fn looked(&self) -> MutexGuard<'_, Option<Looked>> {
        // What was found is put there whole.
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look() -> Looked {
    match Root::find() {
        Ok(root) => Looked::Found {
            root: Box::new(root),
            domain: None,
        },
        Err(unavailable) => Looked::Refused(unavailable.into()),
    }
}

/// Whether it is the root of the whole hierarchy; `None` where that could not be seen.
fn is_real_root(root: &Root) -> Option<bool> {
    root.delegation().own.as_ref()?.is_root.known()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_a_name_of_its_own_that_stays() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let name = |id: &str, at: &Path| Groups::new(id, at).name;
        assert_eq!(name("a", folder.path()), name("a", folder.path()));
        assert_ne!(name("a", folder.path()), name("b", folder.path()));
        assert_ne!(name("a", folder.path()), name("a", other.path()));
    }

    #[test]
    fn a_folder_that_is_reached_by_a_link_is_the_same() {
        let stage = tempfile::tempdir().unwrap();
        let real = stage.path().join("real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, stage.path().join("link")).unwrap();
        let by_link = Groups::new("a", &stage.path().join("link"));
        assert_eq!(by_link.name, Groups::new("a", &real).name);
    }
}
