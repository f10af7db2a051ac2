//! Makes the root hand controllers down: its own processes go to `xioflow-host` first.
//!
//! A group that hands controllers to its children may hold no process itself; the real root may.
//! Some controllers (cpu, pids) the kernel would hand down all the same, but then the root becomes
//! the domain of a threaded subtree and its children take no process: so it is emptied for these
//! too. Several supervisors in one root do this at the same time. Neighbours: `root`, `hand_down`.

use std::ffi::OsStr;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::controller::Controllers;
use crate::directory::Directory;
use crate::error::GroupError;
use crate::flat;
use crate::hand_down;
use crate::name::HOST;
use crate::remedy;
use crate::root::Root;
use crate::verdict::{Shortfall, is_managed};

/// How often the root is emptied before it is given up. Each round moves everybody that is there,
/// and those moved fork elsewhere, so a second round meets only who came meanwhile.
const ROUNDS_MAX: u32 = 32;

/// What was done to the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prepared {
    /// Processes that were moved to `xioflow-host`, the caller's own among them. They stay there.
    pub moved: u32,
    /// What the root hands down now.
    pub enabled: Controllers,
}

/// Why the root does not hand down what is wanted. Processes that were moved stay moved.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The root itself has not got it. Nothing was moved.
    #[error("hand {wanted} down from {}: {shortfall}", directory.display())]
    Lacking {
        /// The root.
        directory: PathBuf,
        /// What is wanted.
        wanted: Controllers,
        /// What is missing.
        shortfall: Shortfall,
        /// The command that mends it, if there is one.
        remedy: Option<String>,
    },
    /// A process could not be moved.
    #[error("move process {pid} to {}", host.display())]
    Move {
        /// The process.
        pid: u32,
        /// Where to.
        host: PathBuf,
        /// Why not.
        source: GroupError,
    },
    /// Processes came as fast as they were moved.
    #[error(
        "control group {} still holds processes after {moved} were moved to {HOST}, and a group \
         that does hands no controllers to its children", directory.display()
    )]
    Crowded {
        /// The root.
        directory: PathBuf,
        /// How many were moved.
        moved: u32,
    },
    /// Anything else that the kernel refused.
    #[error(transparent)]
    Group(#[from] GroupError),
}

impl PrepareError {
    /// The command that mends it, if there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Lacking { remedy, .. } => remedy.as_deref(),
            Self::Move { .. } | Self::Crowded { .. } | Self::Group(_) => None,
        }
    }
}

impl Root {
    /// Makes the root hand these controllers to the groups of domains.
    ///
    /// Where it does so already, and where it is the real root, nothing is moved. Otherwise every
    /// process in it goes to `xioflow-host`, the caller among them, and stays there. Other
    /// supervisors may do the same meanwhile.
    ///
    /// # Errors
    /// [`PrepareError`]; [`PrepareError::Lacking`] before anything is moved.
    pub fn prepare(&self, wanted: Controllers) -> Result<Prepared, PrepareError> {
        let root = &*self.directory;
        self.check(wanted)?;
        let mut moved = 0;
        for _ in 0..ROUNDS_MAX {
            let enabled = hand_down::enabled(root)?;
            let bare = wanted.is_empty() || self.is_real_root() || is_bare(root)?;
            if bare && wanted.without(enabled).is_empty() {
                return Ok(Prepared { moved, enabled });
            }
            if !bare {
                moved += move_processes(root)?;
            }
            match hand_down::enable(root, wanted) {
                Ok(()) | Err(GroupError::HoldsProcesses { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(PrepareError::Crowded {
            directory: root.path().to_owned(),
            moved,
        })
    }

    /// What stands against it, before anything is moved.
    fn check(&self, wanted: Controllers) -> Result<(), PrepareError> {
        let root = &*self.directory;
        let lacking = wanted.without(hand_down::available(root)?);
        let hidden = match self.is_real_root() {
            true => 0,
            false => flat::hidden_processes(&root.read("cgroup.procs")?),
        };
        let Some(shortfall) = self
            .shortfall(lacking, hidden)
            .filter(|_| !wanted.is_empty())
        else {
            return Ok(());
        };
        Err(PrepareError::Lacking {
            directory: root.path().to_owned(),
            wanted,
            shortfall,
            remedy: remedy::for_shortfall(&shortfall, &self.delegation().host),
        })
    }

    fn shortfall(&self, lacking: Controllers, hidden: usize) -> Option<Shortfall> {
        let delegation = self.delegation();
        let hierarchy = delegation.hierarchy.as_ref();
        let held_by_v1 = hierarchy.map_or(Controllers::NONE, |hierarchy| hierarchy.held_by_v1());
        let (v1, rest) = (lacking.and(held_by_v1), lacking.without(held_by_v1));
        let managed = delegation
            .own
            .as_ref()
            .is_some_and(|own| is_managed(own, &delegation.host));
        let stands = [
            (managed, Shortfall::Managed),
            (!v1.is_empty(), Shortfall::HeldByV1(v1)),
            (!rest.is_empty(), Shortfall::NotDelegated(rest)),
            (hidden > 0, Shortfall::HiddenProcesses(hidden)),
        ];
        stands
            .into_iter()
            .find_map(|(stands, it)| stands.then_some(it))
    }

    fn is_real_root(&self) -> bool {
        let own = self.delegation().own.as_ref();
        own.is_some_and(|own| own.is_root.is_yes())
    }
}

/// Whether no process is in the group itself.
fn is_bare(root: &Directory) -> Result<bool, GroupError> {
    Ok(root.read("cgroup.procs")?.is_empty())
}

/// Moves every process of the root down, and says how many there were.
fn move_processes(root: &Directory) -> Result<u32, PrepareError> {
    match root.make(OsStr::new(HOST)) {
        Err(error) if !error.is(Errno::EXIST) => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let host = root.child(OsStr::new(HOST))?;
    let mut moved = 0;
    for pid in flat::processes(&root.read("cgroup.procs")?) {
        match host.write("cgroup.procs", &pid.to_string()) {
            Ok(()) => moved += 1,
            // It has ended, or is ending: then it leaves the group by itself.
            Err(error) if error.is(Errno::SRCH) => {}
            Err(source) => {
                let host = host.path().to_owned();
                return Err(PrepareError::Move { pid, host, source });
            }
        }
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::support::{Inmate, Place};

    /// Moves until nobody is left, as `prepare` does between its tries.
    fn empty(root: &Directory) -> u32 {
        let mut moved = 0;
        for _ in 0..ROUNDS_MAX {
            if is_bare(root).expect("a list") {
                return moved;
            }
            moved += move_processes(root).expect("they can be moved");
        }
        panic!("somebody is left after {moved} were moved");
    }

    fn opened(place: &Place) -> Directory {
        Directory::open(place.directory()).expect("it is there")
    }

    #[test]
    fn all_of_a_root_go_to_its_host_group() {
        let Some(place) = Place::new() else { return };
        let root = opened(&place);
        let mut inmates: Vec<_> = (0..5).map(|_| Inmate::idle(root.path())).collect();
        assert_eq!(empty(&root), 5);
        let host = root.child(OsStr::new(HOST)).expect("it was made");
        let there = flat::processes(&host.read("cgroup.procs").expect("a list"));
        for inmate in &mut inmates {
            assert!(there.contains(&inmate.pid()) && inmate.is_alive());
        }
        assert_eq!(empty(&root), 0, "a second time there is nobody to move");
    }

    #[test]
    fn who_forks_and_ends_meanwhile_is_followed_by_several_at_once() {
        let Some(place) = Place::new() else { return };
        let root = opened(&place);
        let script = "i=0; while [ $i -lt 400 ]; do true & i=$((i+1)); done; exec sleep 1000";
        let _forkers: Vec<_> = (0..2).map(|_| Inmate::run(root.path(), script)).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| empty(&root));
            scope.spawn(|| empty(&opened(&place)));
        });
        assert!(is_bare(&root).expect("a list"));
    }

    #[test]
    fn where_nothing_can_be_handed_down_nobody_is_moved() {
        let Some(place) = Place::new() else { return };
        let root = opened(&place);
        let _inmate = Inmate::idle(root.path());
        let available = hand_down::available(&root).expect("a list");
        let wanted = Controllers::all();
        if wanted.without(available).is_empty() {
            println!("skipped: this root has every controller");
            return;
        }
        let refused = place
            .root
            .prepare(wanted)
            .expect_err("something is missing");
        assert!(
            matches!(refused, PrepareError::Lacking { .. }),
            "{refused:?}"
        );
        assert!(!is_bare(&root).expect("a list"));
        assert!(!root.path().join(HOST).exists());
    }

    #[test]
    fn nothing_wanted_is_nothing_done() {
        let Some(place) = Place::new() else { return };
        let root = opened(&place);
        let _inmate = Inmate::idle(root.path());
        let prepared = place
            .root
            .prepare(Controllers::NONE)
            .expect("nothing to do");
        assert_eq!(prepared.moved, 0);
        assert!(!root.path().join(HOST).exists());
    }

    #[test]
    fn a_host_group_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join(HOST), "").expect("a file in the way");
        fs::write(dir.path().join("cgroup.procs"), "1\n").expect("a fake list");
        let root = Directory::open_plain(dir.path()).expect("a fake root");
        let error = move_processes(&root).expect_err("a file is no group");
        assert!(error.to_string().contains(HOST), "{error}");
    }

    #[test]
    fn one_that_cannot_be_moved_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("cgroup.procs"), "4711\n").expect("a fake list");
        let root = Directory::open_plain(dir.path()).expect("a fake root");
        // The host group of a tree of plain files has no list to write to.
        let error = move_processes(&root).expect_err("nothing takes it");
        assert!(error.to_string().contains("4711"), "{error}");
    }
}
