//! The end of a submission or an attachment: its output passed on, and its result told, once.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use xioflow_journal::Stream;
use xioflow_kernel::{ExecuteError, OperationResult, Subscription};
use xioflow_rpc::method::Notice;
use xioflow_rpc::operation::{Ended, INLINE_MAX_BYTES};
use xioflow_rpc::refusal::Fault;

use crate::client::Pending;
use crate::limits::STACK_BYTES;
use crate::pass_on::{Sink, pass_on};
use crate::refusal;
use crate::shared::Shared;

/// Output that is being passed on.
#[derive(Debug)]
pub(crate) struct Passing {
    thread: JoinHandle<()>,
    is_awaited: bool,
}

/// Starts to pass output on.
pub(crate) fn start_passing(
    shared: &Arc<Shared>,
    subscription: Arc<Subscription>,
    mut sink: Sink,
) -> Result<Passing, Fault> {
    let is_awaited = sink.is_awaited();
    let passing = shared.begin_passing();
    let thread = thread::Builder::new()
        .name("xioflow-pass-on".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            pass_on(&subscription, &mut sink);
            // The descriptors are closed before this counts as done.
            drop((sink, subscription));
            drop(passing);
        });
    match thread {
        Ok(thread) => Ok(Passing { thread, is_awaited }),
        Err(error) => Err(refusal::of_act("start a thread", &error)),
    }
}

/// Waits until all of the output is passed on, where that has to be before the result.
pub(crate) fn await_output(passing: Option<Passing>) {
    if let Some(passing) = passing.filter(|it| it.is_awaited) {
        // A panic would have ended the process.
        passing.thread.join().ok();
    }
}

/// Tells the end of a request that was accepted, or refuses one that was not.
pub(crate) fn finish(
    pending: &Pending,
    operation_id: &str,
    result: Result<OperationResult, ExecuteError>,
) {
    match result {
        Ok(result) => tell(pending, ended(pending, result)),
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

fn ended(pending: &Pending, mut result: OperationResult) -> Ended {
    let output_omitted = omit_long_output(&mut result);
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

/// Takes the output out of a result that holds much of it. Everything that is said about it stays.
pub(crate) fn omit_long_output(result: &mut OperationResult) -> bool {
    let kept = [Stream::Stdout, Stream::Stderr].map(|it| result.kept_output(it).len() as u64);
    if kept[0] + kept[1] <= INLINE_MAX_BYTES {
        return false;
    }
    (result.stdout, result.stderr) = (String::new(), String::new());
    (result.stdout_base64, result.stderr_base64) = (None, None);
    true
}
