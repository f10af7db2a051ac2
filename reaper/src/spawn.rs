//! The ordered script of the child between fork and exec.
//!
//! Everything it needs was made before the fork: it allocates nothing, takes no lock, and returns
//! errors instead of panicking. Its calls, in order: prctl (dumpable); in a PID namespace unshare, mount
//! twice, prctl (bounding set) and capset; setsid, rt_sigprocmask,
//! the file of the out-of-memory score, prlimit, setpriority, umask, dup3 three times (fcntl once
//! instead, where there is no standard input), close_range, chdir, prctl
//! (no_new_privs, ambient set), capget, capset, looks at the program, the gate, execve.
//! Dispositions are the default already: the helper resets its own before it forks.

use core::ffi::CStr;
use core::fmt::{self, Write};

use xioflow_protocol::{
    Containment, GATE_CLOSED_EXIT, GroupEntry, LaunchFailure, ResourceLimit, Stage,
};
use xioflow_sys::{
    AsFd, CWD, Capabilities, Errno, Fork, OpenFlags, OwnedFd, Pid, SignalSet, SingleThread,
    StandardFd, capget, capset, chdir, clear_ambient_capabilities, close_on_exec,
    close_on_exec_from, dup3, execve, exit_group, fork, openat, read, set_dumpable, set_mask,
    set_no_new_privs, setpriority, setrlimit, setsid, umask, write,
};

use crate::authority;
use crate::emergency;
use crate::gate::{Door, Failure, Keeper, Subject, gate};
use crate::launch::{Command, Standard};
use crate::lookup;
use crate::namespace::{self, Namespace};

/// The highest out-of-memory score there is, see proc(5).
const OOM_SCORE_ADJ_MAX: i32 = 1000;

/// A child on its way to the gate.
#[derive(Debug)]
pub struct Spawned {
    /// How it came into its control group, if it is to be in one.
    pub entry: Option<GroupEntry>,
    /// The namespace that it is in, if it has one of its own.
    pub namespace: Option<Namespace>,
    /// Its number.
    pub child: Pid,
    /// Means it for ever, where the kernel has such descriptors.
    pub pidfd: Option<OwnedFd>,
    /// The gate that it comes to.
    pub keeper: Keeper,
}

/// Makes the child, and before it the namespace that it is to be in. It prepares itself and then waits
/// at the gate.
pub(crate) fn spawn(
    proof: &SingleThread,
    command: &Command,
    standard: &Standard,
) -> Result<Spawned, LaunchFailure> {
    let namespace = match command.containment {
        Containment::Subreaper => None,
        Containment::PidNamespace => Some(namespace::make(proof)?),
    };
    let (keeper, door) = gate().map_err(not_forked)?;
    let (forked, entry) = match &command.group {
        Some(group) => group
            .fork(proof)
            .map(|(forked, entry)| (forked, Some(entry)))?,
        None => (fork(proof).map_err(not_forked)?, None),
    };
    match forked {
        Fork::Parent { child, pidfd } => Ok(Spawned {
            entry,
            namespace,
            child,
            pidfd,
            keeper,
        }),
        Fork::Child => {
            let surroundings = namespace.as_ref().map(Namespace::user_namespace);
            // With copies of the helper's ends neither the gate nor the init's lifeline would be seen to end.
            drop((keeper, namespace));
            emergency::forget();
            run(command, standard, surroundings, &door)
        }
    }
}

fn not_forked(errno: Errno) -> LaunchFailure {
    LaunchFailure {
        stage: Stage::Fork,
        errno: errno.raw(),
        subject: alloc::vec::Vec::new().into(),
    }
}

/// `surroundings` says for a namespace of the tree's own whether a user namespace was made with it.
fn run(command: &Command, standard: &Standard, surroundings: Option<bool>, door: &Door) -> ! {
    let mut subject = Subject::new();
    match prepare(command, standard, surroundings, &mut subject) {
        Err(failure) => door.fail(failure, &subject),
        Ok(program) => {
            if door.wait() {
                let errno = execve(program, &command.argv, &command.env);
                describe_exec(command, program, errno, &mut subject);
                door.fail(
                    Failure {
                        stage: Stage::Exec,
                        errno,
                    },
                    &subject,
                );
            }
        }
    }
    exit_group(GATE_CLOSED_EXIT)
}

fn prepare<'c>(
    command: &'c Command,
    standard: &Standard,
    surroundings: Option<bool>,
    subject: &mut Subject,
) -> Result<&'c CStr, Failure> {
    // What the helper's file gave it is not the command's. Before it is dumpable, so that nobody who may look into it
    // sees a process with rights.
    authority::renounce().map_err(Failure::of(Stage::Privileges))?;
    // The helper is not dumpable, which would make the child's files in /proc root's.
    set_dumpable(true).map_err(Failure::of(Stage::Privileges))?;
    // Before all else: files in /proc are those of the namespace then, and what a user namespace gives is given up
    // before anything is opened by it. What confines the command later comes after it, and is entered from inside.
    if let Some(user_namespace) = surroundings {
        namespace::enter(user_namespace, subject)?;
    }
    setsid().map_err(Failure::of(Stage::Session))?;
    set_mask(SignalSet::EMPTY);
    // Before the limits: it opens a file, and one of few open files would forbid that.
    add_oom_score(command.oom_score_adj, subject)?;
    for limit in &command.limits {
        set_limit(limit, subject)?;
    }
    // After the limits, of which one says how far down it may go.
    if let Some(nice) = command.nice {
        set_nice(nice, subject)?;
    }
    if let Some(mask) = command.umask {
        umask(mask);
    }
    set_standard(standard).map_err(Failure::of(Stage::Descriptors))?;
    subject.set(command.cwd.to_bytes());
    chdir(&command.cwd).map_err(Failure::of(Stage::Cwd))?;
    subject.set(b"");
    drop_privileges(command.no_new_privs).map_err(Failure::of(Stage::Privileges))?;
    lookup::find(command, subject).map_err(Failure::of(Stage::Exec))
}

fn set_limit(limit: &ResourceLimit, subject: &mut Subject) -> Result<(), Failure> {
    let ResourceLimit {
        resource,
        soft,
        hard,
    } = *limit;
    setrlimit(resource, soft, hard).map_err(|errno| {
        let _fits = write!(
            subject,
            "{}: soft {}, hard {}",
            limit_name(resource),
            Bound(soft),
            Bound(hard)
        );
        Failure {
            stage: Stage::Limits,
            errno,
        }
    })
}

fn set_nice(nice: i32, subject: &mut Subject) -> Result<(), Failure> {
    setpriority(nice).map_err(|errno| {
        let _fits = write!(subject, "nice value {nice}");
        Failure {
            stage: Stage::Limits,
            errno,
        }
    })
}

/// One limit in words: the highest number is none, `RLIM_INFINITY`.
struct Bound(u64);

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("unlimited"),
            bound => fmt::Display::fmt(&bound, f),
        }
    }
}

/// The names of resources in getrlimit(2), by their numbers.
fn limit_name(resource: u32) -> &'static str {
    const NAMES: [&str; 16] = [
        "RLIMIT_CPU",
        "RLIMIT_FSIZE",
        "RLIMIT_DATA",
        "RLIMIT_STACK",
        "RLIMIT_CORE",
        "RLIMIT_RSS",
        "RLIMIT_NPROC",
        "RLIMIT_NOFILE",
        "RLIMIT_MEMLOCK",
        "RLIMIT_AS",
        "RLIMIT_LOCKS",
        "RLIMIT_SIGPENDING",
        "RLIMIT_MSGQUEUE",
        "RLIMIT_NICE",
        "RLIMIT_RTPRIO",
        "RLIMIT_RTTIME",
    ];
    usize::try_from(resource)
        .ok()
        .and_then(|at| NAMES.get(at))
        .copied()
        .unwrap_or("unknown resource")
}

/// Adds to the score that the child has from its parent.
fn add_oom_score(added: i32, subject: &mut Subject) -> Result<(), Failure> {
    if added == 0 {
        return Ok(());
    }
    match write_oom_score(added) {
        // Without /proc there is no score to set.
        Err(Errno::ENOENT) | Ok(()) => Ok(()),
        Err(errno) => {
            let _fits = write!(subject, "out-of-memory score, changed by {added}");
            Err(Failure {
                stage: Stage::Limits,
                errno,
            })
        }
    }
}

fn write_oom_score(added: i32) -> Result<(), Errno> {
    let file = openat(CWD, c"/proc/self/oom_score_adj", OpenFlags::READ_WRITE, 0)?;
    let mut text = [0; 16];
    let len = read(file.as_fd(), &mut text)?;
    let now = core::str::from_utf8(&text[..len])
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let now: i32 = now.ok_or(Errno::EPROTO)?;
    let wanted = now
        .saturating_add(added)
        .clamp(-OOM_SCORE_ADJ_MAX, OOM_SCORE_ADJ_MAX);
    if wanted == now {
        return Ok(());
    }
    let mut digits = Subject::new();
    let _fits = write!(digits, "{wanted}");
    write(file.as_fd(), digits.as_bytes()).map(drop)
}

/// Puts the command's descriptors at 0, 1 and 2. Theirs are above, since the helper holds those
/// three itself, so none is overwritten before it was used.
fn set_standard(standard: &Standard) -> Result<(), Errno> {
    match &standard.input {
        Some(input) => dup3(input.as_fd(), StandardFd::Input)?,
        // What the helper has there ends with the exec. Closed now, it would leave its number to
        // the next file that is opened on the way.
        None => close_on_exec(StandardFd::Input.borrow())?,
    }
    dup3(standard.output.as_fd(), StandardFd::Output)?;
    dup3(standard.error.as_fd(), StandardFd::Error)?;
    match close_on_exec_from(3) {
        // An older kernel: all of ours are close-on-exec from birth, this only makes it certain.
        Ok(()) | Err(Errno::ENOSYS | Errno::EINVAL) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The command gets no capability from the helper, by any of the ways that lead over exec.
fn drop_privileges(no_new_privs: bool) -> Result<(), Errno> {
    if no_new_privs {
        set_no_new_privs()?;
    }
    match clear_ambient_capabilities() {
        // Before Linux 4.3 there is no such set.
        Ok(()) | Err(Errno::EINVAL) => {}
        Err(errno) => return Err(errno),
    }
    let sets = capget()?;
    match sets.inheritable {
        0 => Ok(()),
        _ => capset(Capabilities {
            inheritable: 0,
            ..sets
        }),
    }
}

/// Says what execve(2) refused, in words where the path alone would not tell.
fn describe_exec(command: &Command, program: &CStr, errno: Errno, subject: &mut Subject) {
    if errno != Errno::E2BIG {
        return subject.set(program.to_bytes());
    }
    let strings = command.argv.iter().chain(command.env.iter());
    let bytes: usize = strings.map(|string| string.to_bytes_with_nul().len()).sum();
    subject.set(b"");
    let _fits = write!(
        subject,
        "{} arguments and {} environment variables: {bytes} bytes together",
        command.argv.iter().len(),
        command.env.iter().len()
    );
}
