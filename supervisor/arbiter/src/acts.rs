//! What is asked of operations: each act that follows from a request, as far as the loop does it. What lasts
//! is in `exec` and `attach`.

use std::sync::Arc;

use xioflow_journal::Query;
use xioflow_kernel::{DEFAULT_CANCEL_GRACE, NotActive};
use xioflow_rpc::codec::RawRequest;
use xioflow_rpc::envelope::Id;
use xioflow_rpc::journal::{Subscribe, Subscribed};
use xioflow_rpc::operation::{Attach, Cancel, CloseStream, Done, ExecProcess, JobControl, Stop};
use xioflow_rpc::refusal::{Fault, kind};

use crate::attach::{self, Following};
use crate::client::Pending;
use crate::connection::Token;
use crate::convert::{manner, millis_or, stream_in};
use crate::descriptors::{Descriptors, Wanted};
use crate::events::Subscriber;
use crate::exec::{self, Submission};
use crate::refusal;
use crate::server::Server;
use crate::session::{self, Key, Session};

impl Server {
    pub(crate) fn exec(
        &mut self,
        token: Token,
        asked: ExecProcess,
        bytes: u64,
        pending: &Arc<Pending>,
    ) -> Result<(), Fault> {
        let wanted = Wanted {
            named: &asked.descriptors,
            stdin: Some(&asked.stdin),
            output: asked.output,
        };
        let (descriptors, session) = self.begin_session(token, &wanted, asked.detached, pending)?;
        let mut taken = self.shared.budget.part();
        if let Err(fault) = taken.more(bytes) {
            self.shared.sessions.end(&session, || ());
            return Err(fault);
        }
        let submission = Submission {
            asked,
            descriptors,
            pending: Arc::clone(pending),
            session,
            taken,
        };
        exec::start(&self.shared, &self.domain, submission);
        Ok(())
    }

    pub(crate) fn attach(
        &mut self,
        token: Token,
        asked: Attach,
        pending: &Arc<Pending>,
    ) -> Result<(), Fault> {
        let wanted = Wanted {
            named: &asked.descriptors,
            stdin: None,
            output: asked.output,
        };
        let (descriptors, session) = self.begin_session(token, &wanted, false, pending)?;
        let following = Following {
            asked,
            descriptors,
            pending: Arc::clone(pending),
            session,
        };
        attach::start(&self.shared, &self.domain, following);
        Ok(())
    }

    /// Takes the descriptors of a request, also of one that is then refused, and begins its session.
    fn begin_session(
        &mut self,
        token: Token,
        wanted: &Wanted<'_>,
        detached: bool,
        pending: &Pending,
    ) -> Result<(Descriptors, Arc<Session>), Fault> {
        let count = wanted.named.len();
        let came = self.connections.get_mut(&token);
        let came = came.and_then(|connection| connection.take_descriptors(count));
        let came = came.ok_or_else(|| {
            refusal::contradictory("fewer descriptors have come than the request names")
        })?;
        wanted.check()?;
        let key = Key {
            connection: token,
            request: pending.id().clone(),
        };
        let session = self.shared.sessions.begin(key, detached);
        let session = session.map_err(refusal::of_no_session)?;
        Ok((Descriptors::of(wanted.named, came), session))
    }

    pub(crate) fn cancel(
        &self,
        token: Token,
        asked: Cancel,
        pending: &Arc<Pending>,
    ) -> Result<(), Fault> {
        let (pending, shared) = (Arc::clone(pending), Arc::clone(&self.shared));
        self.ask(token, move |domain| {
            let (manner, grace) = (
                manner(asked.manner),
                millis_or(asked.grace_ms, DEFAULT_CANCEL_GRACE),
            );
            let cancelled = match domain.cancel(&asked.operation_id, manner, grace) {
                // What still runs while the arbiter ends can be stopped like anything else.
                Err(NotActive::DomainClosed) => {
                    let stop = session::Stop::Asked(manner, grace);
                    match shared.sessions.stop_operation(&asked.operation_id, stop) {
                        true => Ok(()),
                        false => Err(NotActive::DomainClosed),
                    }
                }
                cancelled => cancelled,
            };
            pending.conclude(done(cancelled));
        })
    }

    fn session(&self, token: Token, request: &Id) -> Result<Arc<Session>, Fault> {
        let key = Key {
            connection: token,
            request: request.clone(),
        };
        self.shared.sessions.get(&key).ok_or_else(|| {
            let message = format!(
                "request {request} of this connection has submitted nothing, or that is over"
            );
            Fault::refused(kind::ALREADY_COMPLETED, message)
        })
    }

    pub(crate) fn stop(&self, token: Token, asked: &Stop, pending: &Pending) -> Result<(), Fault> {
        let session = self.session(token, &asked.request)?;
        let grace = millis_or(asked.grace_ms, DEFAULT_CANCEL_GRACE);
        let stop = session::Stop::Asked(manner(asked.manner), grace);
        pending.answer(done(session.stop(stop))?);
        Ok(())
    }

    pub(crate) fn job_control(
        &self,
        token: Token,
        request: &RawRequest,
        pending: &Arc<Pending>,
        suspend: bool,
    ) -> Result<(), Fault> {
        let asked: JobControl = request.decode_params()?;
        let session = self.session(token, &asked.request)?;
        let pending = Arc::clone(pending);
        // It is waited for until the helper was told.
        self.ask(token, move |_| {
            let canceller = session.canceller();
            let outcome = match (canceller, suspend) {
                (None, _) => Err(refusal::invalid("the operation has not been submitted yet")),
                (Some(canceller), true) => done(canceller.suspend()),
                (Some(canceller), false) => done(canceller.resume()),
            };
            pending.conclude(outcome);
        })
    }

    pub(crate) fn close_stream(
        &self,
        token: Token,
        asked: &CloseStream,
        pending: &Pending,
    ) -> Result<(), Fault> {
        let session = self.session(token, &asked.request)?;
        if !session.close_stream(stream_in(asked.stream)) {
            let message = "the output of that request is not passed on, or has ended";
            return Err(refusal::invalid(message));
        }
        pending.answer(Done {});
        Ok(())
    }

    pub(crate) fn subscribe(
        &self,
        token: Token,
        asked: Subscribe,
        pending: &Arc<Pending>,
    ) -> Result<(), Fault> {
        let Some(connection) = self.connections.get(&token) else {
            return Ok(());
        };
        let client = Arc::clone(&connection.client);
        let (events, domain) = (Arc::clone(&self.events), Arc::downgrade(&self.domain));
        self.answer(token, pending, move |it| {
            let after = match asked.after {
                Some(after) => after,
                None => it.journal().last_seq().map_err(|e| refusal::of_read(&e))?,
            };
            let subscriber = Subscriber {
                client,
                after,
                operation_id: asked.operation_id,
            };
            // The loop has it for as long as something is asked.
            let domain = domain.upgrade().ok_or_else(refusal::shutting_down)?;
            events
                .add(&domain, subscriber)
                .map_err(|why| refusal::of_not_subscribed(&why))?;
            Ok(Subscribed { after })
        })
    }
}

fn done(outcome: Result<(), NotActive>) -> Result<Done, Fault> {
    outcome
        .map(|()| Done {})
        .map_err(|error| refusal::of_not_active(&error))
}
