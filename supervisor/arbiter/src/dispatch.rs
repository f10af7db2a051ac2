//! What a request means: which act follows, here on the loop or on another thread. `own`, `acts`, `answers`
//! and `upkeep` have them.

use std::sync::Arc;

use serde::Serialize;
use xioflow_kernel::Domain;
use xioflow_rpc::codec::{RawRequest, Rejected, decode_request};
use xioflow_rpc::domain::{LastReportOf, StatusOf};
use xioflow_rpc::method::Method;
use xioflow_rpc::operation::{ExecProcess, LoadsOf};
use xioflow_rpc::refusal::{Fault, code, kind};

use crate::answers;
use crate::client::Pending;
use crate::connection::{Phase, Token};
use crate::refusal;
use crate::server::Server;
use crate::upkeep;

/// A line that was looked at: a request, and what a submission asks for.
#[derive(Debug)]
pub(crate) struct ReadLine {
    request: Result<RawRequest, Rejected>,
    submission: Submitted,
}

/// What a line asks to be executed.
#[derive(Debug)]
struct Submitted {
    /// None where it is another request.
    asked: Option<Result<Box<ExecProcess>, Fault>>,
    /// Length of the line.
    bytes: u64,
}

impl ReadLine {
    /// Reads it. The only request that can be long in earnest is a submission.
    pub(crate) fn of(line: &[u8]) -> Self {
        let request = decode_request(line);
        let is_submission =
            |request: &&RawRequest| Method::of(&request.method) == Some(Method::ExecProcess);
        let submission = request.as_ref().ok().filter(is_submission);
        let submission = submission.map(|request| request.decode_params().map(Box::new));
        Self {
            request,
            submission: Submitted {
                asked: submission,
                bytes: line.len() as u64,
            },
        }
    }
}

impl Server {
    /// Carries a line out, or says why not.
    pub(crate) fn take_request(&mut self, token: Token, line: ReadLine) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let request = match line.request {
            Ok(request) => request,
            Err(rejected) => {
                let outgoing = &connection.client.outgoing;
                outgoing.refuse(rejected.id, rejected.fault);
                // How many of those that came were its own cannot be told, and the next request would
                // get them.
                if connection.has_descriptors() {
                    connection.phase = Phase::Dismissed;
                }
                return;
            }
        };
        connection.has_taken = false;
        let pending = Arc::new(Pending::new(&connection.client, request.id.clone()));
        if let Err(fault) = self.carry_out(token, &request, line.submission, &pending) {
            pending.refuse(fault);
            self.part_from_stray_descriptors(token, &request);
        }
    }

    /// A request that was refused before it had taken its descriptors may have had some, and the next one
    /// would get them.
    fn part_from_stray_descriptors(&mut self, token: Token, request: &RawRequest) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let may_have = matches!(
            Method::of(&request.method),
            Some(Method::ExecProcess | Method::Attach) | None
        );
        if may_have && !connection.has_taken && connection.has_descriptors() {
            connection.phase = Phase::Dismissed;
        }
    }

    fn carry_out(
        &mut self,
        token: Token,
        request: &RawRequest,
        submission: Submitted,
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
                pending.answer(self.status()?);
                Ok(())
            }
            Method::ExecProcess => {
                let asked = submission.asked.unwrap_or_else(|| request.decode_params());
                self.exec(token, *asked?, submission.bytes, pending)
            }
            Method::Attach => self.attach(token, request.decode_params()?, pending),
            Method::Cancel => self.cancel(token, request.decode_params()?, pending),
            Method::Stop => self.stop(token, &request.decode_params()?, pending),
            Method::Suspend => self.job_control(token, request, pending, true),
            Method::Resume => self.job_control(token, request, pending, false),
            Method::Loads => {
                let LoadsOf {} = request.decode_params()?;
                self.answer(token, pending, answers::loads)
            }
            Method::Pause => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::pause(it, &asked))
            }
            Method::Unpause => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::unpause(it, &asked))
            }
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
            Method::Adjudicate => {
                let asked = request.decode_params()?;
                self.answer(token, pending, |it| upkeep::adjudicate(it, asked))
            }
            Method::Prune => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| upkeep::prune(it, &asked))
            }
            Method::LastReport => {
                let LastReportOf {} = request.decode_params()?;
                self.answer(token, pending, answers::last_report)
            }
            Method::ReadEvents => {
                let asked = request.decode_params()?;
                self.answer(token, pending, move |it| answers::events(it, &asked))
            }
            Method::Subscribe => self.subscribe(token, request.decode_params()?, pending),
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

    /// Answers a question beside the loop.
    pub(crate) fn answer<R: Serialize>(
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
