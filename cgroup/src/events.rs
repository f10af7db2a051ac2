//! Notices that something happened in a leaf, without looking again and again.
//!
//! The kernel marks its event files as changed for whoever polls them (kernfs, `POLLPRI`), and an
//! epoll descriptor holds all of a leaf's. Neighbours: `state` and `counters` read what changed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::counters::MemoryCounters;
use crate::directory::Directory;
use crate::error::GroupError;
use crate::flat;
use crate::state::GroupState;
use crate::wait;

/// The files that are watched, where the kernel has them. `memory.events` changes with
/// `memory.events.local` too.
const FILES: [&str; 4] = [
    "cgroup.events",
    "memory.events",
    "pids.events",
    "pids.events.local",
];

/// What changes in a leaf, as a descriptor to wait for.
#[derive(Debug)]
pub struct Events {
    epoll: OwnedFd,
    files: Vec<(&'static str, OwnedFd)>,
}

/// What has changed since the last look; what has not is null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Populated, frozen.
    pub group: Option<GroupState>,
    /// `memory.events`.
    pub memory: Option<MemoryCounters>,
    /// `max` of `pids.events`.
    pub pids_max: Option<u64>,
    /// `max` of `pids.events.local`.
    pub pids_own_max: Option<u64>,
    /// The group was removed.
    pub gone: bool,
}

impl Events {
    pub(crate) fn watch(directory: &Directory) -> Result<Self, GroupError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|errno| GroupError::system("watch a control group", errno))?;
        let mut files = Vec::new();
        for (index, name) in (0u64..).zip(FILES) {
            let file = match directory.file(name) {
                Ok(file) => file,
                Err(error) if error.is_absence() => continue,
                Err(error) => return Err(error),
            };
            let path = || directory.path().join(name);
            epoll::add(&epoll, &file, EventData::new_u64(index), EventFlags::PRI)
                .map_err(|errno| GroupError::read(path(), errno))?;
            files.push((name, file));
        }
        Ok(Self { epoll, files })
    }

    /// Reads what has changed. The first call after [`Leaf::events`](crate::Leaf::events) gives
    /// everything.
    ///
    /// # Errors
    /// [`GroupError::System`].
    pub fn read(&mut self) -> Result<Changes, GroupError> {
        let mut ready: Vec<Event> = Vec::with_capacity(FILES.len());
        let now = Timespec::default();
        retry_on_intr(|| {
            ready.clear();
            epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut ready),
                Some(&now),
            )
        })
        .map_err(|errno| GroupError::system("look what changed in a control group", errno))?;
        let mut changes = Changes::default();
        for event in ready {
            let name = FILES.get(usize::try_from(event.data.u64()).unwrap_or(usize::MAX));
            let file = self.files.iter().find(|(file, _)| Some(file) == name);
            if let Some((name, file)) = file {
                changes.note(name, wait::pread(file));
            }
        }
        Ok(changes)
    }
}

impl Changes {
    fn note(&mut self, name: &str, content: Result<String, Errno>) {
        let Ok(text) = content else {
            self.gone = true;
            return;
        };
        match name {
            "cgroup.events" => self.group = GroupState::parse(&text),
            "memory.events" => self.memory = Some(MemoryCounters::parse(&text)),
            "pids.events" => self.pids_max = flat::number(&text, "max"),
            _ => self.pids_own_max = flat::number(&text, "max"),
        }
    }
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
