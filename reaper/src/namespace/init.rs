//! The first process of a namespace: a copy of the helper that adopts, waits, and ends with the helper.
//!
//! Two things end it when the helper is gone, however that died: a signal of the kernel's, and the end of the
//! lifeline, which also covers a helper that died before the signal was asked for. It has no descriptor
//! but the lifeline and the one that signals are read from, wakes up only when somebody has ended, and nobody in
//! its namespace can end it, stop it or look into it: signals are blocked and without effect on an init, and
//! it is not dumpable.

use xioflow_facts::{StatLine, read_own_stat};
use xioflow_sys::{
    AsFd, BorrowedFd, Capabilities, Errno, OwnedFd, POLLIN, PollFd, Signal, SignalFd, SignalSet,
    capset, exit_group, ppoll, recv, send, set_name, set_parent_death_signal, signalfd,
};

use crate::armour;
use crate::emergency;
use crate::reap::{Left, harvest};
use crate::system::Linux;

/// It is ready, and when it started in eight bytes after that.
pub const READY: u8 = b'A';
const FAILED: u8 = b'F';
/// It may leave when it is alone.
pub const DISMISSED: &[u8] = b"D";

/// What an init says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It adopts, and ends with the helper.
    Ready {
        /// When it started.
        start_ticks: u64,
    },
    /// It cannot.
    Failed(Errno),
}

/// The helper's side: takes the word, `None` when there is none yet.
pub(super) fn listen(lifeline: BorrowedFd<'_>) -> Option<Word> {
    let mut record = [0; 16];
    let received = match recv(lifeline, &mut record) {
        Ok(received) => &record[..received.len],
        Err(Errno::EAGAIN | Errno::EINTR) => return None,
        // It is gone.
        Err(errno) => return Some(Word::Failed(errno)),
    };
    Some(parse(received))
}

fn parse(record: &[u8]) -> Word {
    match record.split_first() {
        Some((&READY, ticks)) => ticks
            .try_into()
            .map_or(Word::Failed(Errno::EPROTO), |ticks| Word::Ready {
                start_ticks: u64::from_le_bytes(ticks),
            }),
        Some((&FAILED, errno)) => Word::Failed(errno.try_into().map_or(Errno::EPROTO, |errno| {
            Errno::from_raw(i32::from_le_bytes(errno))
        })),
        Some(_) => Word::Failed(Errno::EPROTO),
        // The end: it died.
        None => Word::Failed(Errno::ESRCH),
    }
}

/// The helper's side: tells the init to leave when it is alone.
pub(super) fn dismiss(lifeline: BorrowedFd<'_>) {
    // One that is gone has left already.
    let _sent = send(lifeline, DISMISSED, None);
}

/// The init's whole life. `kept` says whether all other descriptors were closed.
pub(super) fn live(kept: Result<(), Errno>, lifeline: OwnedFd) -> ! {
    // What the helper would do in a panic is not ours to do.
    emergency::forget();
    match kept.and_then(|()| prepare()) {
        Ok((signals, start_ticks)) => {
            tell(&lifeline, READY, &start_ticks.to_le_bytes());
            serve(&signals, &lifeline);
        }
        Err(errno) => {
            tell(&lifeline, FAILED, &errno.raw().to_le_bytes());
            // With its end the root ends, which would look like a reason of its own.
            wait_for_the_end(&lifeline);
        }
    }
    exit_group(0)
}

fn prepare() -> Result<(SignalFd, u64), Errno> {
    // Nothing that an init of ours does needs a privilege.
    capset(Capabilities::default())?;
    set_parent_death_signal(Signal::KILL)?;
    set_name(c"xioflow-init")?;
    let signals = signalfd(SignalSet::EMPTY.with(Signal::CHLD))?;
    let mut line = StatLine::new();
    let stat = read_own_stat(&mut line).map_err(|_| Errno::ENOENT)?;
    armour::put_on_init();
    Ok((signals, stat.start_ticks))
}

fn tell(lifeline: &OwnedFd, what: u8, number: &[u8]) {
    let mut record = [0; 9];
    record[0] = what;
    record[1..=number.len()].copy_from_slice(number);
    // Without a reader there is nobody to tell, and the end of the lifeline is seen next.
    let _sent = send(lifeline.as_fd(), &record[..=number.len()], None);
}

/// Waits for whoever it has adopted, until it is told that nobody else is left and has no child itself, or
/// the helper is gone.
fn serve(signals: &SignalFd, lifeline: &OwnedFd) {
    let mut dismissed = false;
    loop {
        let left = harvest::<Linux>(|_, _| ());
        if dismissed && left == Left::Nothing {
            return;
        }
        let mut fds = [
            PollFd::new(Some(signals.as_fd()), POLLIN),
            PollFd::new(Some(lifeline.as_fd()), POLLIN),
        ];
        let at_once = (left == Left::More).then_some(core::time::Duration::ZERO);
        // An error leaves the results at nothing, and the next round asks again.
        let _ready = ppoll(&mut fds, at_once);
        if fds[0].happened() != 0 {
            while let Ok(Some(_)) = signals.next() {}
        }
        if fds[1].happened() != 0 {
            match hear(lifeline) {
                Told::Nothing => {}
                Told::Leave => dismissed = true,
                Told::End => return,
            }
        }
    }
}

enum Told {
    Nothing,
    Leave,
    End,
}

fn hear(lifeline: &OwnedFd) -> Told {
    let mut record = [0; 8];
    match recv(lifeline.as_fd(), &mut record) {
        Ok(received) if &record[..received.len] == DISMISSED => Told::Leave,
        Err(Errno::EAGAIN | Errno::EINTR) => Told::Nothing,
        Ok(_) | Err(_) => Told::End,
    }
}

fn wait_for_the_end(lifeline: &OwnedFd) {
    loop {
        let _ready = ppoll(&mut [PollFd::new(Some(lifeline.as_fd()), POLLIN)], None);
        if matches!(hear(lifeline), Told::End) {
            return;
        }
    }
}
