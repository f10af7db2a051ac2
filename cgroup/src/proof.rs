//! Proves a delegation by doing: an empty leaf is made, looked at and removed.
//!
//! Neighbour: `delegation` says where. No process is moved, so nothing is limited or stopped.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::answer::Answer;
use crate::controller::Controllers;
use crate::delegation::Delegation;

/// How often another name is tried when one is taken. Names carry our pid, so a taken one was
/// left by a process that had it before and was killed in the middle.
const NAME_ATTEMPTS_MAX: u32 = 16;

/// The longest `cgroup.events` or `cgroup.controllers` that is read, in bytes; both are short lists.
const CONTROL_FILE_LEN_MAX: usize = 4096;

/// What a leaf of the delegated root offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Where the leaf was. It is gone.
    pub leaf: PathBuf,
    /// Controllers that the root hands to its children as it is now.
    pub controllers: Controllers,
    /// Whether the leaf had `cgroup.kill`.
    pub kill_file: Answer,
}

/// Why a leaf could not be proven.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// There is no group to make it in.
    #[error("make a control group: the own group is not visible")]
    NoGroup,
    /// Making or opening it was refused.
    #[error("make control group {}", path.display())]
    Create {
        /// Its path.
        path: PathBuf,
        /// EACCES without delegation, EAGAIN at a limit of depth or number, EROFS on a read-only
        /// mount.
        source: io::Error,
    },
    /// A control file could not be read, or was not there.
    #[error("read {}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A leaf that nobody was moved into says that it is not empty.
    #[error("control group {} was just made and does not say that it is empty", path.display())]
    NotEmpty {
        /// Its path.
        path: PathBuf,
    },
    /// It could not be removed, and is still there.
    #[error("remove control group {}", path.display())]
    Remove {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Makes an empty child of the own group, checks that it says so, and removes it.
///
/// On return the child is gone, also after an error, save [`ProofError::Remove`].
///
/// # Errors
/// [`ProofError`] names the step that failed and the path it failed on.
pub fn prove_leaf(delegation: &Delegation) -> Result<Proof, ProofError> {
    let root = &delegation
        .own
        .as_ref()
        .ok_or(ProofError::NoGroup)?
        .directory;
    let leaf = Leaf::create(root.clone())?;
    let observed = leaf.observe();
    leaf.remove()?;
    observed
}

/// A child group that is removed when dropped.
struct Leaf {
    root: OwnedFd,
    path: PathBuf,
    name: String,
    removed: bool,
}

impl Leaf {
    fn create(root_path: PathBuf) -> Result<Self, ProofError> {
        let failed = |path: PathBuf, errno: Errno| ProofError::Create {
            path,
            source: errno.into(),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&root_path, flags, Mode::empty())
            .map_err(|errno| failed(root_path.clone(), errno))?;
        let mut attempt = 1;
        loop {
            let name = fresh_name();
            let path = root_path.join(&name);
            match rustix::fs::mkdirat(&root, &name, Mode::RWXU) {
                Ok(()) => {
                    return Ok(Self {
                        root,
                        path,
                        name,
                        removed: false,
                    });
                }
                Err(Errno::EXIST) if attempt < NAME_ATTEMPTS_MAX => attempt += 1,
                Err(errno) => return Err(failed(path, errno)),
            }
        }
    }

    fn observe(&self) -> Result<Proof, ProofError> {
        if !says_empty(&self.read("cgroup.events")?) {
            return Err(ProofError::NotEmpty {
                path: self.path.clone(),
            });
        }
        let kill = format!("{}/cgroup.kill", self.name);
        Ok(Proof {
            leaf: self.path.clone(),
            controllers: Controllers::parse(&self.read("cgroup.controllers")?),
            kill_file: Answer::of_existence(rustix::fs::statat(&self.root, kill, AtFlags::empty())),
        })
    }

    fn read(&self, file: &str) -> Result<String, ProofError> {
        let relative = format!("{}/{file}", self.name);
        let failed = |source| ProofError::Read {
            path: self.path.join(file),
            source,
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.root, relative, flags, Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        let mut buffer = [0; CONTROL_FILE_LEN_MAX];
        // The kernel answers a control file of this size in one piece.
        let len = rustix::io::read(&fd, &mut buffer).map_err(|errno| failed(errno.into()))?;
        Ok(String::from_utf8_lossy(&buffer[..len]).into_owned())
    }

    fn remove(mut self) -> Result<(), ProofError> {
        self.removed = true;
        rustix::fs::unlinkat(&self.root, &self.name, AtFlags::REMOVEDIR).map_err(|errno| {
            ProofError::Remove {
                path: self.path.clone(),
                source: errno.into(),
            }
        })
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        if !self.removed {
            // Only a panic comes here; there is nobody left to tell.
            rustix::fs::unlinkat(&self.root, &self.name, AtFlags::REMOVEDIR).ok();
        }
    }
}

fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("xioflow-probe-{}-{count}", std::process::id())
}

fn says_empty(events: &str) -> bool {
    events.lines().any(|line| line == "populated 0")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::delegation::delegation;
    use crate::verdict::Verdict;

    #[test]
    fn only_a_clear_zero_is_empty() {
        assert!(says_empty("populated 0\nfrozen 0\n"));
        assert!(!says_empty("populated 1\nfrozen 0\n"));
        assert!(!says_empty("frozen 0\n"));
        assert!(!says_empty(""));
    }

    #[test]
    fn a_folder_that_is_no_control_group_is_found_out_and_left_clean() {
        let dir = tempfile::tempdir().expect("a folder");
        let leaf = Leaf::create(dir.path().to_owned()).expect("a plain folder can be made");
        assert!(matches!(leaf.observe(), Err(ProofError::Read { .. })));
        leaf.remove().expect("a plain folder can be removed");
        assert_eq!(fs::read_dir(dir.path()).expect("it is a folder").count(), 0);
    }

    #[test]
    fn a_taken_name_is_not_used() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = Leaf::create(dir.path().to_owned()).expect("a first one");
        let second = Leaf::create(dir.path().to_owned()).expect("a second one");
        assert_ne!(first.path, second.path);
        drop((first, second));
        assert_eq!(fs::read_dir(dir.path()).expect("it is a folder").count(), 0);
    }

    #[test]
    fn a_missing_root_is_named() {
        let Err(error) = Leaf::create("/nonexistent/group".into()) else {
            panic!("nothing can be made there");
        };
        assert!(error.to_string().contains("/nonexistent/group"), "{error}");
    }

    #[test]
    fn on_this_host_a_usable_group_takes_a_leaf() {
        let delegation = delegation();
        let (Verdict::Ready { directory } | Verdict::Partial { directory, .. }) =
            &delegation.verdict
        else {
            println!(
                "skipped: no delegated control group here ({:?})",
                delegation.verdict
            );
            return;
        };
        let proof = prove_leaf(&delegation).expect("a delegated group takes a leaf");
        assert_eq!(proof.leaf.parent(), Some(directory.as_path()));
        assert!(!proof.leaf.exists(), "{} was removed", proof.leaf.display());
    }
}
