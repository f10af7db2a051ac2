//! What a request means: which act follows, here on the loop or on another thread.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use xioflow_kernel::{DEFAULT_CANCEL_GRACE, Domain, NotActive};
use xioflow_rpc::PROTOCOL_VERSION;
use xioflow_rpc::codec::{RawRequest, decode_request};
use xioflow_rpc::domain::{InFlight, LastReportOf, Status, StatusOf};
use xioflow_rpc::kernel::{Hello, Running, Shutdown, ShutdownBegun};
use xioflow_rpc::method::Method;
use xioflow_rpc::operation::{Attach, Cancel, CloseStream, Done, ExecProcess, JobControl, Stop};
use xioflow_rpc::refusal::{Fault, code, kind};

use crate::answers;
use crate::attach::{self, Following};
use crate::client::Pending;
use crate::connection::{Phase, Token};
use crate::convert::{manner, millis_or, stream_in};
use crate::descriptors::{Descriptors, Wanted};
use crate::exec::{self, Submission};
use crate::refusal;
use crate::server::Server;
use crate::session::{self, Key, Session};

impl Server {
    /// Carries a line out, or says why not.
    pub(crate) fn take_request(&mut self, token: Token, line: &[u8]) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let request = match decode_request(line) {
            Ok(request) => request,
            Err(rejected) => {
                connection
                    .client
                    .outgoing
                    .refuse(rejected.id, rejected.fault);
                // How many of those that came were its own cannot be told, and the next request would
                // get them.
                if connection.has_descriptors() {
                    connection.phase = Phase::Dismissed;
                }
                return;
            }
        };
        let pending = Arc::new(Pending::new(&connection.client, request.id.clone()));
        if let Err(fault) = self.carry_out(token, &request, &pending) {
            pending.refuse(fault);
            self.part_from_stray_descriptors(token, &request);
        }
    }

    /// A request that was refused before its descriptors were taken may have had some.
    fn part_from_stray_descriptors(&mut self, token: Token, request: &RawRequest) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let may_have = matches!(
            Method::of(&request.method),
            Some(Method::ExecProcess | Method::Attach) | None
        );
        if may_have && connection.has_descriptors() {
            connection.phase = Phase::Dismissed;
        }
    }

    fn carry_out(
        &mut self,
        token: Token,
        request: &RawRequest,
        pending: &Arc<Pending>,
    ) -> Result<(), Fault> {
        let Some(method) = Method::of(&request.method) else {
            let message = format!("there is no method {:?}", request.method);
            return Err(Fault::new(code::METHOD_NOT_FOUND, message));
        };
        self.check_phase(token, method)?;
        match method {
            Method::Hello => self.greet(token, &request.decode_params()?, pending),
            Method::Shutdown => self.shut_down(&request.decode_params()?, pending),
            Method::Status => {
                let StatusOf {} = request.decode_params()?;
                pending.answer(self.status());
                Ok(())
            }
            Method::ExecProcess => self.exec(token, request.decode_params()?, pending),
            Method::Attach => self.attach(token, request.decode_params()?, pending),
            Method::Cancel => self.cancel(token, request.decode_params()?, pending),
            Method::Stop => self.stop(token, &request.decode_params()?, pending),
            Method::Suspend => self.job_control(token, request, pending, true),
            Method::Resume => self.job_control(token, request, pending, false),
            Method::CloseStream => self.close_stream(token, &request.decode_params()?, pending),
            Method::SaveTask => {
                let asked = request.decode_params()?;
                self.answer(token, pending, |it| answers::save_task(it, asked))
            }
            Method::OpenRun => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::open_run(it, &asked))
            }
            Method::FindRun => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::find_run(it, &asked))
            }
            Method::ReportRun => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::report_run(it, &asked))
            }
            Method::GetOperation => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::operation(it, &asked))
            }
            Method::ListOperations => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::operations(it, &asked))
            }
            Method::ReadOutput => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::output(it, &asked))
            }
            Method::LastReport => {
                let LastReportOf {} = request.decode_params()?;
                self.answer(token, pending, answers::last_report)
            }
            Method::ReadEvents => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::events(it, &asked))
            }
            Method::Subscribe => Err(Fault::new(code::METHOD_NOT_FOUND, "not yet")),
        }
    }

    /// The first request greets, and no other does.
    fn check_phase(&self, token: Token, method: Method) -> Result<(), Fault> {
        let phase = self.connections.get(&token).map(|it| it.phase);
        let message = match (phase, method) {
            (Some(Phase::New), Method::Hello) => return Ok(()),
            (Some(Phase::New), _) => "the first request of a connection is kernel.hello",
            (_, Method::Hello) => "this connection has greeted before",
            (Some(Phase::Greeted), _) | (Some(Phase::OtherProtocol), Method::Shutdown) => {
                return Ok(());
            }
            (Some(Phase::OtherProtocol), _) => {
                "with another protocol, kernel.shutdown is all that can be asked"
            }
            (Some(Phase::Dismissed) | None, _) => "this connection is over",
        };
        Err(Fault::refused(kind::NOT_GREETED, message))
    }

    fn greet(&mut self, token: Token, hello: &Hello, pending: &Pending) -> Result<(), Fault> {
        let Some(connection) = self.connections.get_mut(&token) else {
            return Ok(());
        };
        if let Err(fault) = connection.peer.judge(&self.own) {
            connection.phase = Phase::Dismissed;
            return Err(fault);
        }
        if hello.protocol != PROTOCOL_VERSION {
            connection.phase = Phase::OtherProtocol;
            return Err(self.other_protocol(hello));
        }
        connection.phase = Phase::Greeted;
        pending.answer(&self.welcome);
        Ok(())
    }

    fn other_protocol(&self, hello: &Hello) -> Fault {
        let message = format!(
            "the arbiter of this domain is release {} and speaks protocol {PROTOCOL_VERSION}, its client is release {} and speaks {}",
            self.welcome.release, hello.release, hello.protocol
        );
        Fault::refused(kind::VERSION, message)
            .about("protocol", PROTOCOL_VERSION)
            .about("release", self.welcome.release.as_str())
            .about("operations", self.shared.sessions.count() as u64)
    }

    fn shut_down(&mut self, asked: &Shutdown, pending: &Pending) -> Result<(), Fault> {
        let operations = self.shared.sessions.count() as u64;
        let grace = millis_or(asked.grace_ms, DEFAULT_CANCEL_GRACE);
        match asked.running {
            Running::Refuse if !self.shared.sessions.close_if_empty() => {
                let message = format!("the arbiter executes {operations} operations and goes on");
                return Err(Fault::refused(kind::RUNNING, message)
                    .hint("wait for them, or stop them")
                    .about("operations", operations));
            }
            Running::Refuse | Running::Wait => self.begin_end(),
            Running::Stop => {
                self.begin_end();
                self.stop_all(grace);
            }
        }
        pending.answer(ShutdownBegun { operations });
        Ok(())
    }

    /// Takes nothing new from now on. What waits for resources is told so, what runs goes on.
    pub(crate) fn begin_end(&mut self) {
        self.ending.begin();
        self.shared.sessions.close();
        self.domain.close();
    }

    pub(crate) fn stop_all(&self, grace: Duration) {
        let manner = xioflow_kernel::StopManner::Terminate;
        self.shared.sessions.stop_all(manner, grace);
    }

    fn status(&self) -> Status {
        let artifacts = self.domain.artifact_bytes();
        let in_flight = self.domain.in_flight().into_iter().map(|it| {
            let clients = self.shared.sessions.clients_of(&it.operation_id);
            let (clients, detached) = clients.unwrap_or_default();
            InFlight {
                operation_id: it.operation_id,
                run_id: it.run_id,
                clients: clients as u64,
                detached,
            }
        });
        Status {
            pid: self.welcome.pid,
            release: self.welcome.release.clone(),
            started_at: self.welcome.started_at.clone(),
            idle_ms: self
                .idle_limit
                .map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            shutting_down: self.ending.has_begun(),
            connections: self.connections.len() as u64,
            in_flight: in_flight.collect(),
            artifact_bytes: artifacts.used,
            artifact_max_bytes: artifacts.max,
        }
    }

    fn exec(
        &mut self,
        token: Token,
        asked: ExecProcess,
        pending: &Arc<Pending>,
    ) -> Result<(), Fault> {
        let wanted = Wanted {
            named: &asked.descriptors,
            stdin: Some(&asked.stdin),
            output: asked.output,
        };
        let (descriptors, session) = self.begin_session(token, &wanted, asked.detached, pending)?;
        let submission = Submission {
            asked,
            descriptors,
            pending: Arc::clone(pending),
            session,
        };
        exec::start(&self.shared, &self.domain, submission);
        Ok(())
    }

    fn attach(&mut self, token: Token, asked: Attach, pending: &Arc<Pending>) -> Result<(), Fault> {
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

    fn cancel(&self, token: Token, asked: Cancel, pending: &Arc<Pending>) -> Result<(), Fault> {
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

    fn session(
        &self,
        token: Token,
        request: &xioflow_rpc::envelope::Id,
    ) -> Result<Arc<Session>, Fault> {
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

    fn stop(&self, token: Token, asked: &Stop, pending: &Pending) -> Result<(), Fault> {
        let session = self.session(token, &asked.request)?;
        let grace = millis_or(asked.grace_ms, DEFAULT_CANCEL_GRACE);
        let stop = session::Stop::Asked(manner(asked.manner), grace);
        pending.answer(done(session.stop(stop))?);
        Ok(())
    }

    fn job_control(
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

    fn close_stream(
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

    /// Answers a question beside the loop.
    fn answer<R: Serialize>(
        &self,
        token: Token,
        pending: &Arc<Pending>,
        question: impl FnOnce(&Domain) -> Result<R, Fault> + Send + 'static,
    ) -> Result<(), Fault> {
        let pending = Arc::clone(pending);
        self.ask(token, move |domain| pending.conclude(question(domain)))
    }

    /// Has something answered beside the loop.
    pub(crate) fn ask(
        &self,
        token: Token,
        question: impl FnOnce(&Domain) + Send + 'static,
    ) -> Result<(), Fault> {
        self.questions
            .ask(&self.domain, token, question)
            .map_err(|error| refusal::of_act("start a thread", &error))
    }
}

fn done(outcome: Result<(), NotActive>) -> Result<Done, Fault> {
    outcome
        .map(|()| Done {})
        .map_err(|error| refusal::of_not_active(&error))
}
