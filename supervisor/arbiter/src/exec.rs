//! `op.execProcess`: from the request to the operation, on a thread of its own.
//!
//! The loop has taken the descriptors and begun the session; everything that may wait is here. `command`
//! says what the request means for the kernel, `finish` tells the result.

use std::sync::Arc;
use std::thread;

use xioflow_kernel::{Domain, ExecuteError, OperationBuilder, OperationResult};
use xioflow_rpc::operation::{Accepted, ExecProcess, HostMoved};
use xioflow_rpc::refusal::Fault;
use xioflow_rpc::text::Text;

use crate::budget::Taken;
use crate::chunks::Chunks;
use crate::client::Pending;
use crate::command;
use crate::descriptors::Descriptors;
use crate::finish::{Passing, await_output, finish, start_passing};
use crate::inline::Inline;
use crate::limits::STACK_BYTES;
use crate::pass_on::Sink;
use crate::refusal;
use crate::session::Session;
use crate::shared::Shared;

/// A submission that has been taken.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) asked: ExecProcess,
    pub(crate) descriptors: Descriptors,
    pub(crate) pending: Arc<Pending>,
    pub(crate) session: Arc<Session>,
    /// What it takes of the memory that all of them have.
    pub(crate) taken: Taken,
}

/// Executes it on a thread of its own.
pub(crate) fn start(shared: &Arc<Shared>, domain: &Arc<Domain>, submission: Submission) {
    let (of_thread, domain) = (Arc::clone(shared), Arc::clone(domain));
    let (pending, session) = (
        Arc::clone(&submission.pending),
        Arc::clone(&submission.session),
    );
    let thread = thread::Builder::new()
        .name("xioflow-op".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || execute(&of_thread, domain, submission));
    if let Err(error) = thread {
        shared.sessions.end(&session, || {
            pending.refuse(refusal::of_act("start a thread", &error));
        });
    }
}

fn execute(shared: &Arc<Shared>, domain: Arc<Domain>, submission: Submission) {
    let Submission {
        asked,
        descriptors,
        pending,
        session,
        mut taken,
    } = submission;
    let inline = Inline::of(asked.max_output_bytes);
    let words = Words {
        asked,
        descriptors,
        taken: &mut taken,
    };
    let prepared = prepare(shared, &domain, words, &pending, &session);
    let executed = prepared.map(|(operation, passing)| {
        let operation_id = operation.operation_id().to_owned();
        (operation_id, operation.run(), passing)
    });
    // Before the session ends: the loop may give the domain up then.
    drop((domain, taken));
    match executed {
        Ok((operation_id, result, passing)) => {
            if result.as_ref().is_err_and(ExecuteError::ends_ownership) {
                shared.note_domain_lost();
            }
            accept_late(&pending, &result);
            await_output(shared, passing);
            shared
                .sessions
                .end(&session, || finish(&pending, &operation_id, result, inline));
        }
        Err(fault) => shared.sessions.end(&session, || {
            pending.refuse(fault);
        }),
    }
}

/// One that was answered from the record, or could not start, was never active.
fn accept_late(pending: &Pending, result: &Result<OperationResult, ExecuteError>) {
    if let Ok(result) = result {
        pending.answer(Accepted {
            operation_id: result.operation_id.clone(),
            run_id: result.run_id.clone(),
            joined: false,
            over: true,
            host_moved: None,
        });
    }
}

/// What was asked, and what came along.
struct Words<'a> {
    asked: ExecProcess,
    descriptors: Descriptors,
    taken: &'a mut Taken,
}

/// Puts the operation together, ready to run.
fn prepare(
    shared: &Arc<Shared>,
    domain: &Domain,
    words: Words<'_>,
    pending: &Arc<Pending>,
    session: &Arc<Session>,
) -> Result<(OperationBuilder, Option<Passing>), Fault> {
    let Words {
        asked,
        mut descriptors,
        taken,
    } = words;
    let may_drop = asked.may_drop;
    let sink = Sink::of(asked.output, &mut descriptors, || {
        Chunks::new(Arc::clone(pending))
    });
    let mut operation = command::operation(domain, asked, descriptors, &shared.own_limits, taken)?;
    session.has_canceller(&operation.canceller());
    shared.sessions.is_of(session, operation.operation_id());
    let passing = match sink {
        None => None,
        Some(sink) => {
            let subscription = Arc::new(match may_drop {
                true => operation.subscribe(),
                false => operation.subscribe_lossless(),
            });
            session.has_output(&subscription);
            Some(start_passing(shared, subscription, sink)?)
        }
    };
    let (told, session, sessions) = (Arc::clone(pending), Arc::clone(session), Arc::clone(shared));
    let operation = operation.when_active(move |active| {
        if active.joined {
            sessions.sessions.has_joined(&session);
        }
        told.answer(Accepted {
            operation_id: active.operation_id,
            run_id: active.run_id,
            joined: active.joined,
            over: false,
            host_moved: active.host_moved.map(|moved| HostMoved {
                processes: moved.processes,
                to: Text(moved.to.into_os_string()),
            }),
        });
    });
    Ok((operation, passing))
}
