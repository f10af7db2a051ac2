//! What is still done in a panic: the tree is not left alone silently.

use alloc::format;
use alloc::vec::Vec;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;

use xioflow_facts::{Numbers, PID_MAX_LIMIT, children, children_by_number};
use xioflow_protocol::{Reply, encode};
use xioflow_sys::{BorrowedFd, LastResortFd, Pid, Signal, getpid, kill, ppoll, send};

use crate::reap::{Left, harvest};
use crate::system::Linux;

/// How often children are killed before the helper gives up on those that stay.
const SWEEPS_MAX: usize = 100;
const SWEEP_PAUSE: Duration = Duration::from_millis(10);

static CONTROL: LastResortFd = LastResortFd::new();
static HELPER: AtomicU32 = AtomicU32::new(0);

/// Remembers the control socket and who is the helper: a panic in the child is not its own.
pub(crate) fn prepare(control: BorrowedFd<'static>, helper: u32) {
    CONTROL.keep(control);
    HELPER.store(helper, Ordering::Relaxed);
}

/// Forgets it: this is a copy of the helper whose own number may by chance be the helper's, since they
/// are counted in different namespaces.
pub(crate) fn forget() {
    HELPER.store(0, Ordering::Relaxed);
}

/// Ends the tree as far as it can be reached, and tells the supervisor where the helper broke.
///
/// Killing comes first: it needs the least of what may be broken.
pub fn report_panic(info: &PanicInfo<'_>) {
    let helper = HELPER.load(Ordering::Relaxed);
    if helper == 0 || helper != getpid() {
        return;
    }
    kill_children(helper);
    let message = format!("{info}");
    let mut frame = Vec::new();
    if let (Some(control), Ok(())) = (
        CONTROL.get(),
        encode(&Reply::Panicked { message }, &mut frame),
    ) {
        let _sent = send(control, &frame, None);
    }
}

fn kill_children(helper: u32) {
    for _ in 0..SWEEPS_MAX {
        let all = Numbers::all(PID_MAX_LIMIT);
        let listed = children(helper).unwrap_or_else(|_| children_by_number(all));
        for pid in listed.into_iter().filter_map(Pid::new) {
            // EPERM and ESRCH both leave nothing to do.
            let _sent = kill(pid, Signal::KILL);
        }
        if harvest::<Linux>(|_, _| ()) == Left::Nothing {
            return;
        }
        let _waited = ppoll(&mut [], Some(SWEEP_PAUSE));
    }
}
