//! A delegated root for one test, made below the root that this process was given, and removed with
//! all that is in it. It uses the library only to find that root, so it cannot share its mistakes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use xioflow_cgroup::{DomainGroup, GroupName, Leaf, Limits, Root};

/// Far more than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A root of a test's own.
pub(crate) struct Place {
    pub(crate) root: Root,
    directory: PathBuf,
}

impl Place {
    /// Makes one; null, with a word about it, where this process was given no root.
    pub(crate) fn new() -> Option<Self> {
        Some(Self::below(&found()?))
    }

    /// Makes one below a group that is a root itself.
    pub(crate) fn below(above: &Root) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("xioflow-test-{}-{count}", std::process::id());
        let directory = above.directory().join(name);
        fs::create_dir(&directory).expect("a delegated root takes a group");
        let root = Root::at(&directory).expect("a group in a delegated root is one");
        Self { root, directory }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn domain(&self) -> DomainGroup {
        let name = GroupName::from_digest(b"test-one");
        self.root.domain(name).expect("a root takes a domain")
    }

    pub(crate) fn leaf(&self) -> Leaf {
        let leaf = self.domain().leaf(&Limits::default());
        leaf.expect("a domain takes a leaf")
    }
}

/// Where processes go that stand where controllers have to be handed down: the name that the kit's
/// tests use, so that all of them find the same root again.
pub(crate) const HOST_NAME: &str = "xioflow-test-host";

/// The root that this process was given, whatever tests have moved it to.
pub(crate) fn found() -> Option<Root> {
    let found = Root::find().and_then(|root| match root.directory().parent() {
        Some(above) if root.directory().ends_with(HOST_NAME) => Root::at(above),
        _ => Ok(root),
    });
    match found {
        Ok(root) => Some(root),
        Err(unavailable) => {
            println!("skipped: needs a delegated control group ({unavailable})");
            None
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A thread that panics already must not panic again; what is left is seen by the next reader.
        if let Err(error) = clear(&self.directory) {
            println!("{} is left: {error}", self.directory.display());
        }
    }
}

/// Ends everything in a group and removes it with all below it.
fn clear(group: &Path) -> io::Result<()> {
    let kill = group.join("cgroup.kill");
    if kill.exists() {
        fs::write(kill, "1")?;
    }
    wait_empty(group)?;
    remove(group)
}

fn remove(group: &Path) -> io::Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

fn wait_empty(group: &Path) -> io::Result<()> {
    let events = group.join("cgroup.events");
    let file = fs::File::open(&events)?;
    let mut buffer = [0; 256];
    let long = Timespec::try_from(LONG).expect("it fits");
    loop {
        let len = rustix::io::pread(&file, &mut buffer, 0)?;
        if buffer[..len].starts_with(b"populated 0") {
            return Ok(());
        }
        let mut fds = [PollFd::new(&file, PollFlags::PRI)];
        if rustix::event::poll(&mut fds, Some(&long))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// A process that was put into a group, ended at the latest when it is dropped.
pub(crate) struct Inmate(Child);

impl Inmate {
    /// Runs a script of sh(1) in a group. It waits for a line before it begins, so it is in the group
    /// from its first word.
    pub(crate) fn run(group: &Path, script: &str) -> Self {
        let gated = format!("read -r _; {script}");
        let mut child = Command::new("sh")
            .args(["-c", &gated])
            .current_dir(group)
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh runs");
        fs::write(group.join("cgroup.procs"), child.id().to_string())
            .expect("a group takes a process");
        // Dropping the pipe opens the gate: read(1p) fails at the end of it and the script goes on.
        drop(child.stdin.take());
        Self(child)
    }

    /// One that does nothing until it is ended.
    pub(crate) fn idle(group: &Path) -> Self {
        Self::run(group, "exec sleep 1000")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end; whether it ended by itself, with status 0.
    pub(crate) fn wait(&mut self) -> bool {
        self.0.wait().expect("it is our child").success()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("it is our child").is_none()
    }
}

impl Drop for Inmate {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
