//! The end of a submission or an attachment: its output passed on, and its result told, once.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use xioflow_kernel::{ExecuteError, OperationResult, Subscription};
use xioflow_rpc::method::Notice;
use xioflow_rpc::operation::Ended;
use xioflow_rpc::refusal::Fault;

use crate::client::Pending;
use crate::inline::Inline;
use crate::limits::{FAREWELL_PATIENCE, STACK_BYTES};
use crate::pass_on::{Sink, pass_on};
use crate::refusal;
use crate::shared::Shared;

/// Output that is being passed on.
#[derive(Debug)]
pub(crate) struct Passing {
    /// Its other end is closed when all is passed on. None where nobody waits for that.
    done: Option<OwnedFd>,
}

/// Starts to pass output on.
pub(crate) fn start_passing(
    shared: &Arc<Shared>,
    subscription: Arc<Subscription>,
    mut sink: Sink,
) -> Result<Passing, Fault> {
    let no_pipe = |errno: Errno| refusal::of_act("make a pipe", &errno.into());
    let (done, end) = match sink.is_awaited() {
        true => Some(pipe_with(PipeFlags::CLOEXEC).map_err(no_pipe)?).unzip(),
        false => (None, None),
    };
    let passing = shared.begin_passing();
    let thread = thread::Builder::new()
        .name("xioflow-pass-on".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            pass_on(&subscription, &mut sink);
            // The descriptors are closed before this counts as done.
            drop((sink, subscription));
            drop((passing, end));
        });
    match thread {
        Ok(_) => Ok(Passing { done }),
        Err(error) => Err(refusal::of_act("start a thread", &error)),
    }
}

/// Waits until all of the output is passed on, where that has to be before the result. A terminal that was
/// stopped holds up the end of the arbiter no longer than any other reader.
pub(crate) fn await_output(shared: &Shared, passing: Option<Passing>) {
    let Some(done) = passing.and_then(|passing| passing.done) else {
        return;
    };
    let ends = PollFd::from_borrowed_fd(shared.ends(), PollFlags::IN);
    let mut either = [PollFd::new(&done, PollFlags::IN), ends];
    while poll(&mut either, None) == Err(Errno::INTR) {}
    // Where it is done, this returns at once.
    let patience = Timespec::try_from(FAREWELL_PATIENCE).ok();
    let mut done = [PollFd::new(&done, PollFlags::IN)];
    while poll(&mut done, patience.as_ref()) == Err(Errno::INTR) {}
}

/// Tells the end of a request that was accepted, or refuses one that was not.
pub(crate) fn finish(
    pending: &Pending,
    operation_id: &str,
    result: Result<OperationResult, ExecuteError>,
    inline: Inline,
) {
    match result {
        Ok(result) => tell(pending, ended(pending, result, inline)),
        Err(error) => {
            if let Some(fault) = pending.refuse(refusal::of_execute(&error)) {
                tell(pending, failed(pending, operation_id, fault));
            }
        }
    }
}

/// A result that is too long for a message in spite of its bounds is told without it.
fn tell(pending: &Pending, ended: Ended) {
    let (operation_id, told) = (
        ended.operation_id.clone(),
        pending.outgoing().notify(Notice::Result, ended),
    );
    if !told {
        let too_long = xioflow_rpc::codec::EncodeError::TooLong {
            max_bytes: xioflow_rpc::REPLY_MAX_BYTES,
        };
        let ended = failed(pending, &operation_id, refusal::of_reply(&too_long));
        pending.outgoing().notify(Notice::Result, ended);
    }
}

fn failed(pending: &Pending, operation_id: &str, fault: Fault) -> Ended {
    Ended {
        request: pending.id().clone(),
        operation_id: operation_id.to_owned(),
        result: None,
        error: Some(fault),
        output_omitted: false,
    }
}

fn ended(pending: &Pending, mut result: OperationResult, inline: Inline) -> Ended {
    let output_omitted = inline.omit_what_is_too_much(&mut result);
    let operation_id = result.operation_id.clone();
    match serde_json::to_value(result) {
        Ok(result) => Ended {
            request: pending.id().clone(),
            operation_id,
            result: Some(result),
            error: None,
            output_omitted,
        },
        Err(error) => {
            let fault = Fault::new(xioflow_rpc::refusal::code::INTERNAL, error.to_string());
            failed(pending, &operation_id, fault)
        }
    }
}
