//! Signals: numbers, masks, dispositions, and the descriptor they are read from.

use core::ptr;

use linux_raw_sys::general as raw;

use crate::{AsFd, BorrowedFd, Errno, OwnedFd};

/// `_NSIG`, the number of signals; the same on the architectures we know.
const SIGNALS: i32 = 64;

/// The kernel's sigset has one bit for each.
const SET_LEN: usize = 8;

/// A signal's number, 1 to 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(i32);

macro_rules! named {
    ($($short:ident = $name:ident)*) => {
        impl Signal {$(
            #[doc = concat!("`", stringify!($name), "` of signal(7).")]
            #[expect(clippy::cast_possible_wrap, reason = "signal numbers are small")]
            pub const $short: Self = Self(raw::$name as i32);
        )*}
    };
}

named! {
    HUP = SIGHUP INT = SIGINT KILL = SIGKILL TERM = SIGTERM CHLD = SIGCHLD CONT = SIGCONT
    STOP = SIGSTOP USR1 = SIGUSR1 PIPE = SIGPIPE
}

impl Signal {
    /// Checks a number.
    #[must_use]
    pub const fn new(number: i32) -> Option<Self> {
        if number >= 1 && number <= SIGNALS {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Every signal there is.
    pub fn all() -> impl Iterator<Item = Self> {
        (1..=SIGNALS).map(Self)
    }
}

/// A set of signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalSet(u64);

impl SignalSet {
    /// None.
    pub const EMPTY: Self = Self(0);
    /// All; SIGKILL and SIGSTOP cannot be blocked and are passed over by the kernel.
    pub const ALL: Self = Self(u64::MAX);

    /// The set with one more.
    #[must_use]
    pub const fn with(self, signal: Signal) -> Self {
        Self(self.0 | (1 << (signal.0 - 1)))
    }
}

/// Blocks exactly these signals in this thread.
pub fn set_mask(blocked: SignalSet) {
    let old = ptr::null_mut::<u64>();
    // SAFETY: the kernel reads one 64-bit set, which is local; the old one is not asked for.
    let answer = unsafe {
        call!(
            rt_sigprocmask,
            raw::SIG_SETMASK,
            &raw const blocked.0,
            old,
            SET_LEN
        )
    };
    debug_assert!(answer.is_ok(), "the arguments are constant");
}

/// Gives a signal its default disposition; SIGKILL and SIGSTOP always have it.
///
/// # Errors
/// As in sigaction(2), for no signal that can be changed.
pub fn default_disposition(signal: Signal) -> Result<(), Errno> {
    if signal == Signal::KILL || signal == Signal::STOP {
        return Ok(());
    }
    // SAFETY: all zero is SIG_DFL (a null handler) without flags, restorer or mask.
    let default: raw::kernel_sigaction = unsafe { core::mem::zeroed() };
    let old = ptr::null_mut::<u8>();
    // SAFETY: the kernel reads one `kernel_sigaction`, which is local; the default action runs no
    // code of this program, so no handler's contract is at stake.
    unsafe { call!(rt_sigaction, signal.0, &raw const default, old, SET_LEN) }.map(drop)
}

/// Opens a descriptor that yields the blocked signals of `set`; it never blocks a reader.
///
/// # Errors
/// As in signalfd(2).
pub fn signalfd(set: SignalSet) -> Result<SignalFd, Errno> {
    let flags = raw::O_CLOEXEC | raw::O_NONBLOCK;
    // SAFETY: the kernel reads one 64-bit set, which is local; the descriptor is new.
    unsafe {
        let returned = call!(signalfd4, -1i32, &raw const set.0, SET_LEN, flags)?;
        Ok(SignalFd(OwnedFd::from_call(returned)))
    }
}

/// A descriptor that signals are read from.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Size of `signalfd_siginfo`, see signalfd(2).
const SIGINFO_LEN: usize = 128;

/// A signal that was read, and who sent it where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signalled {
    /// Which.
    pub signal: Signal,
    /// The sender's process id; 0 when the kernel sent it.
    pub sender: u32,
}

impl SignalFd {
    /// Takes the next pending signal, or `None` when there is none.
    ///
    /// # Errors
    /// As in read(2) on a signalfd.
    pub fn next(&self) -> Result<Option<Signalled>, Errno> {
        let mut info = [0u8; SIGINFO_LEN];
        match crate::read(self.as_fd(), &mut info) {
            Ok(_) => Ok(parse(&info)),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

fn parse(info: &[u8; SIGINFO_LEN]) -> Option<Signalled> {
    let word = |at: usize| [info[at], info[at + 1], info[at + 2], info[at + 3]];
    // ssi_signo is the first word, ssi_pid the fourth.
    let signal = Signal::new(i32::from_ne_bytes(word(0)))?;
    Some(Signalled {
        signal,
        sender: u32::from_ne_bytes(word(12)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pid, getpid};

    #[test]
    fn numbers_outside_the_range_are_no_signals() {
        assert_eq!(Signal::new(0), None);
        assert_eq!(Signal::new(-9), None);
        assert_eq!(Signal::new(65), None);
        assert_eq!(Signal::new(9), Some(Signal::KILL));
        assert_eq!(Signal::all().count(), 64);
    }

    #[test]
    fn a_blocked_signal_is_read_with_its_sender() {
        // The mask belongs to this test's own thread; the signal is sent to that thread's
        // process, and every other thread of the harness has it blocked only if it inherited
        // the mask, so it is sent to the thread itself.
        set_mask(SignalSet::EMPTY.with(Signal::USR1));
        let signals = signalfd(SignalSet::EMPTY.with(Signal::USR1)).expect("signalfd opens");
        assert_eq!(signals.next(), Ok(None));
        // SAFETY: takes no pointer; a thread may signal itself.
        unsafe {
            let thread = call!(gettid).expect("a thread has a number");
            call!(tgkill, getpid(), thread, Signal::USR1.number()).expect("sent");
        }
        let got = signals.next().expect("readable").expect("pending");
        assert_eq!(
            got,
            Signalled {
                signal: Signal::USR1,
                sender: getpid()
            }
        );
        assert!(Pid::new(got.sender).is_some());
    }
}
