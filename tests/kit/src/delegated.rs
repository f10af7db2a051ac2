//! A place below the process's own control group in which xioflow may make groups, as a service manager delegates
//! one. Made, looked at and removed here; `stage` removes what a test has made, whatever became of the test.

use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::run::Run;
use crate::stage::Stage;
use crate::wait::Deadline;

/// What a test says, before the reason, that needs such a place and cannot have one.
pub const MISSING: &str = "skipped: needs a control group to make groups in";

/// Where processes go that stand where controllers have to be handed down.
const HOST_NAME: &str = "xioflow-test-host";

/// The controllers that limits of xioflow need.
const CONTROLLERS: [&str; 4] = ["cpu", "memory", "pids", "io"];

/// How often processes are moved that were born meanwhile where controllers have to be handed down.
const MOVES_MAX: usize = 20;

/// A delegated root of one test: `xioflow` that runs in it finds itself there and may make groups below.
#[derive(Debug)]
pub struct Delegated<'a> {
    stage: &'a Stage,
    directory: PathBuf,
}

impl<'a> Delegated<'a> {
    /// Makes one for the stage's user, with the controllers that the own group has to give. The stage ends what is
    /// in it and removes it, and finds fault with a group of an operation that is left.
    ///
    /// # Errors
    /// The reason, where no group can be made or handed over, or where there is no hierarchy of version 2.
    pub fn new(stage: &'a Stage) -> Result<Self, String> {
        let own = own_directory()?;
        hand_down(&own);
        let directory = own.join(stage.unique_name());
        let refused = |what: &str, error: io::Error| {
            format!("{what} {} is refused: {error}", directory.display())
        };
        fs::create_dir(&directory).map_err(|error| refused("making", error))?;
        stage.remove_group_at_end(&directory);
        if let Some(id) = stage.user_id() {
            // What is delegated, by the kernel's own list: the files of its limits stay the giver's.
            for name in [
                "",
                "cgroup.procs",
                "cgroup.threads",
                "cgroup.subtree_control",
            ] {
                chown(directory.join(name), Some(id), Some(id))
                    .map_err(|error| refused("handing over", error))?;
            }
        }
        Ok(Self { stage, directory })
    }

    /// The same, or the line that says why the test is skipped, printed.
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    #[must_use]
    pub fn or_skip(stage: &'a Stage) -> Option<Self> {
        Self::new(stage)
            .inspect_err(|why| eprintln!("{MISSING}: {why}"))
            .ok()
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether it can hand on a controller, such as `memory`.
    #[must_use]
    pub fn has(&self, controller: &str) -> bool {
        has_word(&self.directory.join("cgroup.controllers"), controller)
    }

    /// Whether it can hand on all of these; if not, prints that the test is skipped, and for want of what.
    #[expect(clippy::print_stderr, reason = "a skipped test says so")]
    #[must_use]
    pub fn has_or_skip(&self, controllers: &[&str]) -> bool {
        let lacking: Vec<&str> = controllers
            .iter()
            .copied()
            .filter(|it| !self.has(it))
            .collect();
        if !lacking.is_empty() {
            eprintln!(
                "skipped: needs the controllers {} to hand on",
                lacking.join(", ")
            );
        }
        lacking.is_empty()
    }

    /// A run of `xioflow` in it, with the stage's domain.
    pub fn xioflow(&self) -> Run<'a> {
        self.run(self.stage.program("xioflow"))
    }

    /// A run of any program in it, as the stage's user. It has the number that the run's start gives.
    pub fn run(&self, program: impl Into<std::ffi::OsString>) -> Run<'a> {
        Run::in_group(self.stage, program.into(), &self.directory)
    }

    /// The groups of operations in it.
    #[must_use]
    pub fn leaves(&self) -> Vec<PathBuf> {
        leaves(&self.directory)
    }
}

/// Who is in a group, not in those below it. Nobody is in one that is gone.
#[must_use]
pub fn processes(group: &Path) -> Vec<u32> {
    let list = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    list.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Waits until nobody is in a group or below it; false when the deadline passes first.
#[must_use]
pub fn is_empty(group: &Path, deadline: Deadline) -> bool {
    // Without the file it is gone, and a group can only go when it is empty.
    let Ok(mut events) = fs::File::open(group.join("cgroup.events")) else {
        return true;
    };
    loop {
        let mut text = String::new();
        let read = events
            .seek(SeekFrom::Start(0))
            .and_then(|_| events.read_to_string(&mut text));
        if read.is_err() || text.lines().any(|line| line == "populated 0") {
            return true;
        }
        if !deadline.poll(&mut [PollFd::new(&events, PollFlags::PRI)]) {
            return false;
        }
    }
}

/// What a test has left in its delegated root, as text. All of it is ended and removed.
pub(crate) fn remove(directory: &Path) -> Vec<String> {
    let mut left = Vec::new();
    if !is_empty(directory, Deadline::after(Duration::from_secs(5))) {
        let groups = tree(directory);
        let of_group = |group: &PathBuf| {
            let show = |pid| format!("process {pid} in the group {}", group.display());
            processes(group).into_iter().map(show).collect::<Vec<_>>()
        };
        left.extend(groups.iter().flat_map(of_group));
    }
    let groups = leaves(directory);
    left.extend(groups.iter().map(|it| format!("group {}", it.display())));
    // Below 5.14 there is no such file, and whoever is left was named above.
    fs::write(directory.join("cgroup.kill"), "1").ok();
    if !is_empty(directory, Deadline::usual()) {
        left.push(format!("living processes in {}", directory.display()));
    }
    for group in tree(directory).iter().rev() {
        match fs::remove_dir(group) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                left.push(format!("group {} ({error})", group.display()));
            }
            _ => {}
        }
    }
    left
}

fn leaves(directory: &Path) -> Vec<PathBuf> {
    let name_of = |path: &Path| path.file_name()?.to_str().map(str::to_owned);
    let is_domain = |path: &PathBuf| name_of(path).is_some_and(|it| it.starts_with("xioflow-"));
    let is_leaf = |path: &PathBuf| name_of(path).is_some_and(|it| it.len() == 32);
    let domains = below(directory).into_iter().filter(is_domain);
    domains
        .flat_map(|domain| below(&domain))
        .filter(is_leaf)
        .collect()
}

/// The group and all below it, each before those below it.
fn tree(directory: &Path) -> Vec<PathBuf> {
    let mut all = vec![directory.to_owned()];
    let mut at = 0;
    while at < all.len() {
        all.extend(below(&all[at]));
        at += 1;
    }
    all
}

fn below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let folders = entries
        .filter_map(Result::ok)
        .filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

/// The own group of this process, where it was before it was moved out of the way.
fn own_directory() -> Result<PathBuf, String> {
    let memberships = fs::read_to_string("/proc/self/cgroup").expect("/proc is mounted");
    let own = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .ok_or("this system has no control groups of version 2")?;
    let table = fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let (root, point) = table
        .lines()
        .find_map(unified_mount)
        .ok_or("no hierarchy of version 2 is mounted")?;
    let inner = Path::new(own)
        .strip_prefix(root)
        .map_err(|_| format!("the own group {own} is outside of what is mounted at {point}"))?;
    let own = Path::new(point).join(inner);
    match own.parent() {
        Some(parent) if own.file_name().is_some_and(|name| name == HOST_NAME) => {
            Ok(parent.to_owned())
        }
        _ => Ok(own),
    }
}

/// The root and the mount point of a hierarchy of version 2.
fn unified_mount(line: &str) -> Option<(&str, &str)> {
    let (left, right) = line.split_once(" - ")?;
    let mut words = left.split(' ').skip(3);
    right.starts_with("cgroup2 ").then_some(())?;
    Some((words.next()?, words.next()?))
}

/// Enables in the own group what it may hand on. Where processes stand in the way, this one among them, they are
/// moved below; several tests may do so at once. What is refused is not handed on, which [`Delegated::has`] says.
fn hand_down(own: &Path) {
    let wanted = CONTROLLERS
        .iter()
        .filter(|it| has_word(&own.join("cgroup.controllers"), it))
        .filter(|it| !has_word(&own.join("cgroup.subtree_control"), it));
    let wanted: Vec<_> = wanted.collect();
    if !wanted.is_empty() && own.join("cgroup.type").exists() {
        // With processes in it the kernel would take cpu and pids all the same, and make it the root of a threaded
        // subtree: its children take no processes then, and no memory controller. The real root alone has no type.
        step_aside(own);
    }
    for controller in wanted {
        let enable = || fs::write(own.join("cgroup.subtree_control"), format!("+{controller}"));
        for _ in 0..MOVES_MAX {
            match enable() {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => step_aside(own),
                _ => break,
            }
        }
    }
}

fn step_aside(own: &Path) {
    let host = own.join(HOST_NAME);
    fs::create_dir(&host).ok();
    for pid in processes(own) {
        // Who has ended meanwhile needs no move; who may not be moved stays, and the controllers stay away.
        fs::write(host.join("cgroup.procs"), pid.to_string()).ok();
    }
}

fn has_word(file: &Path, word: &str) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().any(|it| it == word)
}
