//! Makes the root hand controllers down: its own processes go to `xioflow-host` first.
//!
//! A group that hands controllers to its children may hold no process itself (the real root may).
//! Several supervisors in one root do this at the same time. Neighbours: `root`, `hand_down`.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::controller::Controllers;
use crate::directory::Directory;
use crate::error::GroupError;
use crate::flat;
use crate::hand_down;
use crate::name::HOST;
use crate::root::Root;

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

/// Why the root hands nothing down. Processes that were moved stay moved.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A process could not be moved.
    #[error("move process {pid} to {}", host.display())]
    Move {
        /// The process; 0 stands for one outside the caller's pid namespace.
        pid: u32,
        /// Where to.
        host: PathBuf,
        /// Why not.
        source: io::Error,
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

impl Root {
    /// Makes the root hand these controllers to the groups of domains. What it hands down already
    /// stays, and then nothing is moved.
    ///
    /// # Errors
    /// [`PrepareError`]; [`GroupError::NotHandedDown`] names what the root itself was not given.
    pub fn prepare(&self, wanted: Controllers) -> Result<Prepared, PrepareError> {
        let root = &*self.directory;
        let mut moved = 0;
        for _ in 0..ROUNDS_MAX {
            if wanted.without(hand_down::enabled(root)?).is_empty() {
                let enabled = hand_down::enabled(root)?;
                return Ok(Prepared { moved, enabled });
            }
            if !self.is_real_root() {
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

    fn is_real_root(&self) -> bool {
        let own = self.delegation().own.as_ref();
        own.is_some_and(|own| own.is_root.is_yes())
    }
}

fn move_processes(root: &Directory) -> Result<u32, PrepareError> {
    let processes = flat::processes(&root.read("cgroup.procs")?);
    if processes.is_empty() {
        return Ok(0);
    }
    match root.make(OsStr::new(HOST)) {
        Err(error) if !error.is(Errno::EXIST) => return Err(error.into()),
        Ok(()) | Err(_) => {}
    }
    let host = root.child(OsStr::new(HOST))?;
    let mut moved = 0;
    for pid in processes {
        match host.write("cgroup.procs", &pid.to_string()) {
            Ok(()) => moved += 1,
            // It has ended, or is ending: then it leaves the group by itself.
            Err(error) if error.is(Errno::SRCH) => {}
            Err(error) => {
                return Err(PrepareError::Move {
                    pid,
                    host: host.path().to_owned(),
                    source: io::Error::from_raw_os_error(
                        error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
                    ),
                });
            }
        }
    }
    Ok(moved)
}
