//! `op.attach`: the output of an operation that somebody else submitted, and its result, on a thread of its own.

use std::sync::Arc;
use std::thread;

use xioflow_kernel::{Attachment, Domain};
use xioflow_rpc::operation::{Accepted, Attach};
use xioflow_rpc::refusal::Fault;

use crate::chunks::Chunks;
use crate::client::Pending;
use crate::descriptors::Descriptors;
use crate::finish::{Passing, await_output, finish, start_passing};
use crate::inline::Inline;
use crate::limits::STACK_BYTES;
use crate::pass_on::Sink;
use crate::refusal;
use crate::session::Session;
use crate::shared::Shared;

/// An attachment that has been taken.
#[derive(Debug)]
pub(crate) struct Following {
    pub(crate) asked: Attach,
    pub(crate) descriptors: Descriptors,
    pub(crate) pending: Arc<Pending>,
    pub(crate) session: Arc<Session>,
}

/// Follows the operation on a thread of its own.
pub(crate) fn start(shared: &Arc<Shared>, domain: &Arc<Domain>, following: Following) {
    let (of_thread, domain) = (Arc::clone(shared), Arc::clone(domain));
    let (pending, session) = (
        Arc::clone(&following.pending),
        Arc::clone(&following.session),
    );
    let thread = thread::Builder::new()
        .name("xioflow-attach".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || follow(&of_thread, domain, following));
    if let Err(error) = thread {
        shared.sessions.end(&session, || {
            pending.refuse(refusal::of_act("start a thread", &error));
        });
    }
}

fn follow(shared: &Arc<Shared>, domain: Arc<Domain>, following: Following) {
    let Following {
        asked,
        descriptors,
        pending,
        session,
    } = following;
    let attached = begin(shared, &domain, &asked, descriptors, &pending, &session);
    // Before the session ends: the loop may give the domain up then.
    drop(domain);
    match attached {
        Ok((attachment, passing)) => {
            let result = attachment.wait();
            await_output(shared, passing);
            let inline = Inline::of(asked.max_output_bytes);
            shared.sessions.end(&session, || {
                finish(&pending, &asked.operation_id, result, inline);
            });
        }
        Err(fault) => shared.sessions.end(&session, || {
            pending.refuse(fault);
        }),
    }
}

fn begin(
    shared: &Arc<Shared>,
    domain: &Domain,
    asked: &Attach,
    mut descriptors: Descriptors,
    pending: &Arc<Pending>,
    session: &Arc<Session>,
) -> Result<(Attachment, Option<Passing>), Fault> {
    let attachment = domain.attach(&asked.operation_id);
    let attachment = attachment.map_err(|error| refusal::of_not_active(&error))?;
    let mut attachment =
        attachment.max_output_bytes(Inline::of(asked.max_output_bytes).held_bytes());
    session.has_canceller(&attachment.canceller());
    shared.sessions.is_of(session, &asked.operation_id);
    // It waits for the operation of another one from the beginning.
    shared.sessions.has_joined(session);
    pending.answer(Accepted {
        operation_id: asked.operation_id.clone(),
        run_id: attachment.run_id().to_owned(),
        joined: true,
        over: false,
        host_moved: None,
    });
    let sink = Sink::of(asked.output, &mut descriptors, || {
        Chunks::new(Arc::clone(pending))
    });
    let passing = match sink {
        None => None,
        Some(sink) => {
            let subscription = Arc::new(attachment.take_subscription());
            session.has_output(&subscription);
            Some(start_passing(shared, subscription, sink)?)
        }
    };
    Ok((attachment, passing))
}
