//! The delegated root: the group below which all others are made.
//!
//! Neighbours: `delegation` finds it, `prepare` makes it hand controllers down, `domain` is below.

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::controller::Controllers;
use crate::delegation::{Delegation, delegation, delegation_of};
use crate::directory::Directory;
use crate::domain::DomainGroup;
use crate::error::GroupError;
use crate::name::GroupName;
use crate::verdict::Verdict;
use crate::view::View;

/// How often a domain's group is made when another supervisor removes it at the same time.
const MAKE_ATTEMPTS_MAX: u32 = 16;

/// The group that the caller may make others in.
#[derive(Debug, Clone)]
pub struct Root {
    pub(crate) directory: Arc<Directory>,
    delegation: Delegation,
    view: View,
}

/// Why no group can be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("control groups cannot be used here: {verdict}")]
pub struct Unavailable {
    /// What was found; never one that allows it.
    pub verdict: Verdict,
}

impl Unavailable {
    /// The command that mends it, if there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.verdict.remedy()
    }
}

impl Root {
    /// Finds the root that was delegated to the calling process. Reads only.
    ///
    /// It is the process's own group, or the one above when the process was moved to its
    /// `xioflow-host`. The answer is of the moment.
    ///
    /// # Errors
    /// [`Unavailable`] says what is missing and with which command to get it.
    pub fn find() -> Result<Self, Unavailable> {
        Self::from_delegation(delegation())
    }

    /// The same for a group that the caller names, whatever its own is.
    ///
    /// Moving processes into its groups takes write access to a group above both, which is the root
    /// itself where the caller is inside.
    ///
    /// # Errors
    /// [`Unavailable`] says what is missing.
    pub fn at(directory: &Path) -> Result<Self, Unavailable> {
        Self::from_delegation(delegation_of(directory))
    }

    fn from_delegation(delegation: Delegation) -> Result<Self, Unavailable> {
        let (Verdict::Ready { directory } | Verdict::Partial { directory, .. }) =
            &delegation.verdict
        else {
            let verdict = delegation.verdict;
            return Err(Unavailable { verdict });
        };
        match Directory::open(directory) {
            Ok(opened) => {
                let own = delegation.own.as_ref();
                let options = own.map(|own| own.options).unwrap_or_default();
                Ok(Self {
                    directory: Arc::new(opened),
                    view: View::new(options),
                    delegation,
                })
            }
            Err(error) => Err(Unavailable {
                verdict: Verdict::CannotTell {
                    subject: directory.clone(),
                    errno: error.raw_os_error(),
                },
            }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What was found about it, as of then.
    #[must_use]
    pub const fn delegation(&self) -> &Delegation {
        &self.delegation
    }

    /// The controllers that its children can use without [`Self::prepare`], as of when it was found.
    #[must_use]
    pub fn enabled(&self) -> Controllers {
        let own = self.delegation.own.as_ref();
        own.and_then(|own| own.enabled).unwrap_or(Controllers::NONE)
    }

    /// The controllers that it could hand down, as of when it was found; null when that could not
    /// be read.
    #[must_use]
    pub fn available(&self) -> Option<Controllers> {
        self.delegation.own.as_ref()?.available
    }

    /// Opens the group of a domain, and makes it if there is none. Several supervisors may do so at
    /// the same time.
    ///
    /// # Errors
    /// [`GroupError::Make`] or [`GroupError::Open`].
    pub fn domain(&self, name: GroupName) -> Result<DomainGroup, GroupError> {
        let mut attempt = 1;
        loop {
            match self.directory.make(name.as_ref()) {
                Err(error) if !error.is(Errno::EXIST) => return Err(error),
                Ok(()) | Err(_) => {}
            }
            match self.find_domain(name.clone())? {
                Some(domain) => return Ok(domain),
                None if attempt < MAKE_ATTEMPTS_MAX => attempt += 1,
                None => {
                    let path = self.directory().join(name.as_str());
                    return Err(GroupError::open(&path, Errno::NOENT));
                }
            }
        }
    }

    /// Opens the group of a domain; null when there is none.
    ///
    /// # Errors
    /// [`GroupError::Open`]; [`GroupError::NotControlGroup`].
    pub fn find_domain(&self, name: GroupName) -> Result<Option<DomainGroup>, GroupError> {
        match self.directory.child(name.as_ref()) {
            Ok(found) => Ok(Some(DomainGroup::new(
                Arc::clone(&self.directory),
                found,
                name,
                self.view,
            ))),
            Err(error) if error.is(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
