//! One tree, from its making to its end, in each of the ways that are compared.

use std::env;
use std::error::Error;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use xioflow_kit::namespace::members;
use xioflow_kit::{Holder, Order, Stage, running_as_root, wait as kit_wait};
use xioflow_protocol::{Containment, Reply, Request, StopPlan};

use super::Case;

/// Far beyond what the largest tree takes.
const KILL_MS: u32 = 60_000;

/// Where version 2 of control groups is mounted: alone, or beside the older one.
const HIERARCHIES: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// How a tree came to its end.
pub(super) struct Ended {
    /// From the request to the proof.
    pub(super) took: Duration,
    /// How many lived at the moment of the proof.
    pub(super) alive: usize,
}

/// How a tree is ended.
pub(super) enum Way {
    /// By the kernel, as a whole.
    Cgroup { hierarchy: PathBuf },
    /// By the helper of an ordinary user, or of root.
    Helper { ordinary: bool },
    /// By an ordinary user's, in a PID namespace of its own.
    Namespace,
    /// By an ordinary user's, in a control group as well.
    Group { hierarchy: PathBuf },
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cgroup { .. } => "cgroup.kill",
            Self::Helper { ordinary: true } => "helper",
            Self::Helper { ordinary: false } => "helper of root",
            Self::Namespace => "helper, namespace",
            Self::Group { .. } => "helper, group",
        })
    }
}

/// All of them, the limit first.
pub(super) fn ways() -> Result<[Way; 5], Box<dyn Error>> {
    let hierarchy = HIERARCHIES
        .iter()
        .map(Path::new)
        .find(|it| running_as_root() && it.join("cgroup.procs").exists());
    let hierarchy = hierarchy.ok_or("needs root and control groups of version 2")?;
    // Who loses its parent comes to this process, which takes it up once the time was taken.
    set_child_subreaper(Some(getpid()))?;
    Ok([
        Way::Cgroup {
            hierarchy: hierarchy.to_owned(),
        },
        Way::Helper { ordinary: true },
        Way::Helper { ordinary: false },
        Way::Namespace,
        Way::Group {
            hierarchy: hierarchy.to_owned(),
        },
    ])
}

impl Way {
    /// Makes the tree, and ends it.
    pub(super) fn end(&self, case: Case) -> Result<Ended, Box<dyn Error>> {
        match self {
            Self::Cgroup { hierarchy } => by_cgroup(hierarchy, case),
            Self::Helper { ordinary: true } => {
                by_helper(&Stage::ordinary(), case, Containment::Subreaper, None)
            }
            Self::Helper { ordinary: false } => {
                by_helper(&Stage::new(), case, Containment::Subreaper, None)
            }
            Self::Namespace => by_helper(&Stage::ordinary(), case, Containment::PidNamespace, None),
            Self::Group { hierarchy } => {
                let stage = Stage::ordinary();
                let place = Delegated::make(hierarchy, &stage)?;
                by_helper(&stage, case, Containment::Subreaper, Some(&place))
            }
        }
    }
}

fn by_helper(
    stage: &Stage,
    case: Case,
    containment: Containment,
    place: Option<&Delegated>,
) -> Result<Ended, Box<dyn Error>> {
    let ready = stage.path("ready");
    let mut order = Order::shell(stage, &script(stage, &ready, case));
    order.launch.containment = containment;
    let mut holder = Holder::start(stage);
    if let Some(place) = place {
        place.take_in(holder.pid())?;
        order = order.in_group(&place.leaf.0);
    }
    holder.launch(&order);
    let Reply::Spawned { namespace, .. } = holder.reply() else {
        return Err("the launch failed".into());
    };
    holder.send(&Request::Release);
    kit_wait::file(&ready, kit_wait::Deadline::usual());
    let pids = xioflow_kit::fixture_pids(&ready);
    // As the supervisor asks for it when there is no grace.
    let begun = Instant::now();
    holder.send(&Request::Stop(StopPlan::kill(KILL_MS)));
    while !matches!(holder.reply(), Reply::TreeEmpty(_)) {}
    let took = begun.elapsed();
    // The numbers in the file are those of the namespace.
    let alive = match namespace {
        Some(namespace) => members(namespace.inode).len(),
        None => count_alive(&pids),
    };
    holder.hang_up();
    holder.wait();
    Ok(Ended { took, alive })
}

fn by_cgroup(hierarchy: &Path, case: Case) -> Result<Ended, Box<dyn Error>> {
    let stage = Stage::ordinary();
    let ready = stage.path("ready");
    let group = Group::make(hierarchy)?;
    let root = group.start(&script(&stage, &ready, case))?;
    kit_wait::file(&ready, kit_wait::Deadline::usual());
    let pids = xioflow_kit::fixture_pids(&ready);
    let events = File::open(group.0.join("cgroup.events"))?;
    let begun = Instant::now();
    fs::write(group.0.join("cgroup.kill"), "1")?;
    wait_unpopulated(&events)?;
    let took = begun.elapsed();
    let alive = count_alive(&pids);
    take_up(root)?;
    Ok(Ended { took, alive })
}

/// The same command for everyone.
fn script(stage: &Stage, ready: &Path, case: Case) -> String {
    let deaf = if case.deaf { "trap '' TERM;" } else { "" };
    format!(
        "{deaf} exec {} --ttl 120 --ready {} spawn-tree {} {}",
        stage.fixture().display(),
        ready.display(),
        case.shape,
        case.members
    )
}

fn count_alive(pids: &[u32]) -> usize {
    pids.iter().filter(|pid| kit_wait::is_alive(**pid)).count()
}

/// A group that an ordinary user may use, and one in it for a tree.
struct Delegated {
    // Removed before the one that it is in.
    leaf: Group,
    root: Group,
}

impl Delegated {
    fn make(hierarchy: &Path, stage: &Stage) -> Result<Self, Box<dyn Error>> {
        let root = Group::make(hierarchy)?;
        let leaf = Group::make(&root.0)?;
        for group in [&root.0, &leaf.0] {
            let files = fs::read_dir(group)?.map(|it| it.map(|it| it.path()));
            for path in files.chain([Ok(group.clone())]) {
                chown(path?, stage.user_id(), stage.user_id())?;
            }
        }
        Ok(Self { leaf, root })
    }

    /// Only from within may an ordinary user put processes into the one below.
    fn take_in(&self, pid: u32) -> Result<(), Box<dyn Error>> {
        Ok(fs::write(
            self.root.0.join("cgroup.procs"),
            pid.to_string(),
        )?)
    }
}

/// A control group of our own, removed when it is dropped.
struct Group(PathBuf);

impl Group {
    fn make(hierarchy: &Path) -> Result<Self, Box<dyn Error>> {
        let group = hierarchy.join(format!("xioflow-bench-{}", std::process::id()));
        fs::create_dir(&group)?;
        Ok(Self(group))
    }

    /// Runs a script in the group, as the ordinary user that the helper runs as.
    fn start(&self, script: &str) -> Result<Child, Box<dyn Error>> {
        let enter = "echo $$ >\"$0/cgroup.procs\" && exec setpriv --reuid=65534 --regid=65534 \
                     --clear-groups setsid --wait /bin/sh -c \"$1\"";
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", enter]).arg(&self.0).arg(script);
        shell
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default());
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(shell.spawn()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group that is still inhabited stays, and the next round says so.
        fs::remove_dir(&self.0).ok();
    }
}

fn wait_unpopulated(events: &File) -> Result<(), Box<dyn Error>> {
    let patience = Timespec::try_from(Duration::from_secs(60))?;
    let mut text = [0; 128];
    loop {
        let len = events.read_at(&mut text, 0)?;
        if text[..len].starts_with(b"populated 0") {
            return Ok(());
        }
        let mut changes = [PollFd::new(events, PollFlags::PRI)];
        if poll(&mut changes, Some(&patience))? == 0 {
            return Err("the control group does not become empty".into());
        }
    }
}

/// Waits for the root, and for everyone who came to us from below it.
fn take_up(mut root: Child) -> Result<(), Box<dyn Error>> {
    root.wait()?;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(_) => {}
            Err(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
