//! What a process does to become a helper, before its first message.
//!
//! The order matters: nothing is opened before inherited descriptors are gone, and signals are
//! blocked before anything could be lost by one.

use alloc::boxed::Box;
use alloc::format;

use xioflow_facts::{StatLine, boot_id, pid_max, read_stat};
use xioflow_protocol::{
    HELPER_EXIT_MISUSE, HELPER_EXIT_OK, HELPER_EXIT_SYSTEM, Identity, PROTOCOL_VERSION,
};
use xioflow_sys::{
    AsFd, BorrowedFd, CWD, Clock, Entry, Errno, FileKind, OpenFlags, OwnedFd, Signal, SignalFd,
    SignalSet, StandardFd, chdir, dup3, duplicate_above, fstat, getegid, geteuid, getgid, getpid,
    getuid, now, openat, pidfd_open, set_child_subreaper, set_dumpable, set_mask, setsid, signalfd,
    write,
};

use crate::authority;
use crate::emergency;
use crate::serve::Server;
use crate::system::Linux;
use crate::targets::Helper;

/// Release of the helper, for people.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The signals that reach the loop. All others stay blocked and mean nothing to the helper.
const HEARD: SignalSet = SignalSet::EMPTY
    .with(Signal::CHLD)
    .with(Signal::TERM)
    .with(Signal::INT)
    .with(Signal::HUP);

/// What the rest of the helper works with.
#[derive(Debug)]
pub(crate) struct Ground<'fd> {
    pub(crate) control: BorrowedFd<'fd>,
    pub(crate) signals: SignalFd,
    pub(crate) helper: Helper,
    pub(crate) identity: Identity,
    pub(crate) page_size: usize,
    /// Who made the socket, where that is nobody this helper serves; `None` inside where that is not known.
    pub(crate) stranger: Option<Option<u32>>,
}

/// The helper from its first instruction to its exit status.
pub fn main(entry: Entry) -> i32 {
    if let Some(status) = answer_by_hand(&entry) {
        return status;
    }
    match prepare(&entry) {
        Ok(ground) => Server::<Linux>::new(ground, entry.single_thread()).run(),
        Err(_) => HELPER_EXIT_SYSTEM,
    }
}

/// Answers someone who started the helper without a supervisor.
fn answer_by_hand(entry: &Entry) -> Option<i32> {
    match entry.arguments().nth(1).map(core::ffi::CStr::to_bytes) {
        Some(b"--version" | b"-V") => {
            let version = format!("xioflow-reaper {RELEASE} (protocol {PROTOCOL_VERSION})\n");
            tell(StandardFd::Output, &version);
            Some(HELPER_EXIT_OK)
        }
        Some(b"--help" | b"-h") => {
            tell(
                StandardFd::Output,
                "xioflow-reaper holds the processes of one xioflow operation. \
                 It is started by xioflow and speaks over its descriptor 0; \
                 run commands with `xioflow run -- COMMAND`.\n",
            );
            Some(HELPER_EXIT_OK)
        }
        _ if is_of_another_user(entry) => {
            tell(
                StandardFd::Error,
                "xioflow-reaper must not be set-user-ID or set-group-ID: its commands would be that \
                 user's. Take the bit away (chmod u-s,g-s), and give it a capability instead \
                 (setcap cap_kill+p).\n",
            );
            Some(HELPER_EXIT_MISUSE)
        }
        None if is_socket() => None,
        _ => {
            tell(
                StandardFd::Error,
                "xioflow-reaper is started by xioflow, not by hand: descriptor 0 must be its \
                 socket. Run commands with `xioflow run -- COMMAND`.\n",
            );
            Some(HELPER_EXIT_MISUSE)
        }
    }
}

/// Whether its file gave it the identity of somebody else.
fn is_of_another_user(entry: &Entry) -> bool {
    entry.secure() && (getuid() != geteuid() || getgid() != getegid())
}

fn tell(to: StandardFd, text: &str) {
    // Someone who closed the descriptor does not want to be told.
    let _written = write(to.borrow(), text.as_bytes());
}

fn is_socket() -> bool {
    fstat(StandardFd::Input.borrow()).is_ok_and(|stat| stat.kind == FileKind::Socket)
}

fn prepare(entry: &Entry) -> Result<Ground<'static>, Errno> {
    entry.inherited_closed()?;
    authority::keep_only(entry.secure())?;
    set_mask(SignalSet::ALL);
    // Only after this are 0, 1 and 2 certainly taken, and new descriptors above them.
    let control = duplicate_above(StandardFd::Input.borrow(), 3)?;
    close_standard()?;
    let signals = signalfd(HEARD)?;
    lead_session()?;
    set_child_subreaper()?;
    set_dumpable(false)?;
    chdir(c"/")?;
    let (helper, identity) = who_we_are()?;
    // The socket is needed to the last moment, also by a panic.
    let control: &'static OwnedFd = Box::leak(Box::new(control));
    let control = control.as_fd();
    emergency::prepare(control, helper.pid);
    let stranger = authority::serves(control).err();
    Ok(Ground {
        control,
        signals,
        helper,
        identity,
        page_size: entry.page_size(),
        stranger,
    })
}

/// Puts nothing at 0, 1 and 2: what the supervisor had there is not the helper's.
fn close_standard() -> Result<(), Errno> {
    let null = {
        let first = openat(CWD, c"/dev/null", OpenFlags::READ_WRITE, 0)?;
        // One of the three may have been closed, and then this took its place.
        if first.raw() > 2 {
            first
        } else {
            duplicate_above(first.as_fd(), 3)?
        }
    };
    StandardFd::ALL
        .into_iter()
        .try_for_each(|standard| dup3(null.as_fd(), standard))
}

fn lead_session() -> Result<(), Errno> {
    match setsid() {
        // Already the leader of a group, so nobody's job control reaches it by accident.
        Ok(()) | Err(Errno::EPERM) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Without `/proc` the helper could neither name nor find a process, so it does not begin.
fn who_we_are() -> Result<(Helper, Identity), Errno> {
    let pid = getpid();
    let mut line = StatLine::new();
    let stat = read_stat(pid, &mut line)
        .ok()
        .flatten()
        .ok_or(Errno::ENOENT)?;
    let boot_id = boot_id().map_err(|_| Errno::ENOENT)?;
    let helper = Helper {
        pid,
        group: stat.group,
        session: stat.session,
        pid_max: pid_max(),
        begun: now(Clock::Monotonic),
    };
    let identity = Identity {
        pid,
        start_ticks: stat.start_ticks,
        boot_id,
        // Recovery waits for a helper that lives, and must not take another one for it.
        pidfd_inode: pidfd_open(pid)
            .ok()
            .and_then(|pidfd| xioflow_facts::pidfd_inode(pidfd.as_fd())),
    };
    Ok((helper, identity))
}
