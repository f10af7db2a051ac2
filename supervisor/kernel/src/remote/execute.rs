//! Sees an operation that an arbiter executes from its submission to its result, on the thread that
//! waits for it: what comes from the arbiter, and what others wish of the operation.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::Value;
use xioflow_client::{Connection, ConnectionError, Received};
use xioflow_journal::{Query, Records, Stream};
use xioflow_rpc::envelope::{Id, Message};
use xioflow_rpc::method::{Method, Notice};
use xioflow_rpc::operation as rpc;
use xioflow_rpc::refusal::Fault;

use super::Attached;
use super::ask::rpc_manner;
use super::request::{RemoteOutput, millis, prepare};
use crate::caller::Caller;
use crate::control::{Control, Wish};
use crate::error::{ArbiterError, ExecuteError};
use crate::groups::HostMoved;
use crate::operation::{Active, Spec, WhenActive, check_spec, stored_result};
use crate::result::OperationResult;

/// Submits an operation and waits for its result. Its output goes to `output`.
pub(crate) fn execute(
    attached: &Attached,
    mut spec: Spec,
    control: &Arc<Control>,
    output: Option<RemoteOutput>,
) -> Result<OperationResult, ExecuteError> {
    if attached.is_closed() {
        return Err(ExecuteError::DomainClosed);
    }
    check_spec(&spec)?;
    let caller = spec.caller.take().unwrap_or_else(Caller::here);
    spec.command.environment.check_callers(caller.variables())?;
    control.set_operation(&spec.id);
    let told = std::mem::replace(&mut spec.when_active, WhenActive::nobody());
    let kept = spec.max_output_bytes;
    let operation_id = spec.id.clone();
    let prepared = prepare(spec, &caller, output).map_err(|source| ExecuteError::System {
        act: "prepare the descriptors that travel to the arbiter",
        source,
    })?;
    let mut connection = attached.connection().map_err(arbiter)?;
    let descriptors = prepared.descriptors();
    let request = Attached::request(
        &mut connection,
        Method::ExecProcess,
        &prepared.words,
        &descriptors,
    )
    .map_err(|error| broken(&operation_id, error))?;
    // Our copies would keep the pipes open for ever.
    drop(prepared);
    Remote {
        attached,
        connection,
        request,
        operation_id,
        control,
        told,
        kept,
        asked_for_less: false,
        waiting: HashMap::new(),
    }
    .run()
}

/// How an operation over there came to its end.
enum Over {
    /// There was none.
    Refused(Fault),
    /// With a result, or an error instead of one.
    Ended(Box<rpc::Ended>),
}

/// An operation over there.
pub(super) struct Remote<'a> {
    pub(super) attached: &'a Attached,
    pub(super) connection: Connection,
    /// The request that it was submitted, or attached to, with.
    pub(super) request: Id,
    pub(super) operation_id: String,
    pub(super) control: &'a Arc<Control>,
    pub(super) told: WhenActive,
    /// How much output its result is to hold.
    pub(super) kept: usize,
    /// Whether the result that comes may hold less than that.
    pub(super) asked_for_less: bool,
    /// Requests that have no answer yet, and who waits for it.
    pub(super) waiting: HashMap<Id, Option<SyncSender<()>>>,
}

impl Remote<'_> {
    pub(super) fn run(mut self) -> Result<OperationResult, ExecuteError> {
        loop {
            for wish in self.control.take() {
                self.pass_on(wish)?;
            }
            while let Some(message) = self.receive()? {
                if let Some(over) = self.heard(message)? {
                    return self.conclude(over);
                }
            }
            self.sleep()?;
        }
    }

    fn sleep(&self) -> Result<(), ExecuteError> {
        let mut polled = [
            PollFd::from_borrowed_fd(self.connection.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN),
        ];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(ExecuteError::System {
                act: "wait for the arbiter",
                source: errno.into(),
            }),
        }
    }

    fn receive(&mut self) -> Result<Option<Message>, ExecuteError> {
        match self.connection.try_receive() {
            Ok(Received::Message(message)) => Ok(Some(message)),
            Ok(Received::Nothing) => Ok(None),
            Ok(Received::Gone) => Err(self.gone()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn gone(&self) -> ExecuteError {
        ExecuteError::ArbiterLost {
            operation_id: self.operation_id.clone(),
        }
    }

    fn failed(&self, error: ConnectionError) -> ExecuteError {
        broken(&self.operation_id, error)
    }

    /// Tells the arbiter what somebody wishes. Its answers change nothing: what becomes of the operation
    /// is in its result.
    fn pass_on(&mut self, wish: Wish) -> Result<(), ExecuteError> {
        let request = self.request.clone();
        match wish {
            Wish::Stop(stop) => {
                let words = rpc::Stop {
                    request,
                    manner: rpc_manner(stop.manner),
                    grace_ms: Some(millis(stop.grace)),
                };
                self.tell(Method::Stop, &words, None)
            }
            Wish::CloseStream(stream) => {
                let stream = match stream {
                    Stream::Stdout => rpc::Stream::Stdout,
                    Stream::Stderr => rpc::Stream::Stderr,
                };
                let words = rpc::CloseStream { request, stream };
                self.tell(Method::CloseStream, &words, None)
            }
            // That is asked of a domain, which passes it on itself.
            Wish::Stand { .. } => Ok(()),
            Wish::JobControl { suspend, passed_on } => {
                let method = match suspend {
                    true => Method::Suspend,
                    false => Method::Resume,
                };
                self.tell(method, &rpc::JobControl { request }, Some(passed_on))
            }
        }
    }

    fn tell(
        &mut self,
        method: Method,
        words: &impl Serialize,
        whom: Option<SyncSender<()>>,
    ) -> Result<(), ExecuteError> {
        match Attached::request(&mut self.connection, method, words, &[]) {
            Ok(id) => {
                self.waiting.insert(id, whom);
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Takes note of a message; gives the end when it is that.
    fn heard(&mut self, message: Message) -> Result<Option<Over>, ExecuteError> {
        match message {
            Message::Answer { id, result, .. } if id == self.request => {
                self.accepted(read(result)?);
                Ok(None)
            }
            Message::Refusal {
                id: Some(id),
                error,
                ..
            } if id == self.request => Ok(Some(Over::Refused(error))),
            Message::Answer { id, .. } | Message::Refusal { id: Some(id), .. } => {
                if let Some(Some(whom)) = self.waiting.remove(&id) {
                    // Whoever waited may have given up.
                    whom.send(()).ok();
                }
                Ok(None)
            }
            Message::Refusal {
                id: None, error, ..
            } => Err(error.into()),
            Message::Notice { method, params, .. } => match Notice::of(&method) {
                Some(Notice::Result) => Ok(Some(Over::Ended(Box::new(read(params)?)))),
                // Of releases to come, or of no concern here.
                _ => Ok(None),
            },
        }
    }

    fn accepted(&mut self, accepted: rpc::Accepted) {
        self.control.set_joined(accepted.joined);
        if accepted.over {
            return;
        }
        self.told.tell(|| Active {
            operation_id: accepted.operation_id,
            run_id: accepted.run_id,
            joined: accepted.joined,
            host_moved: accepted.host_moved.map(|moved| HostMoved {
                processes: moved.processes,
                to: moved.to.0.into(),
            }),
        });
    }

    fn conclude(self, over: Over) -> Result<OperationResult, ExecuteError> {
        let Self {
            attached,
            connection,
            waiting,
            kept,
            asked_for_less,
            ..
        } = self;
        // An answer that is still to come would be taken for that to the next request.
        if waiting.is_empty() {
            attached.give_back(connection);
        }
        let ended = match over {
            Over::Refused(fault) => return Err(fault.into()),
            Over::Ended(ended) => ended,
        };
        if let Some(fault) = ended.error {
            return Err(fault.into());
        }
        let result: OperationResult = read(ended.result.unwrap_or(Value::Null))?;
        match ended.output_omitted || asked_for_less {
            true => with_output(attached, result, kept),
            false => Ok(result),
        }
    }
}

/// Completes a result whose output was too much to travel, from where it is stored.
fn with_output(
    attached: &Attached,
    result: OperationResult,
    kept: usize,
) -> Result<OperationResult, ExecuteError> {
    let record = Records::Beside(attached.record());
    let id = &result.operation_id;
    let Some(recorded) = record.operation(id)? else {
        return Ok(result);
    };
    let artifacts = attached.folder().join("artifacts");
    let mut stored = stored_result(&recorded, &record.outputs(id)?, &artifacts, kept)?;
    // What is of the asking and not of the record.
    stored.replayed = result.replayed;
    stored.reused = result.reused;
    stored.environment = result.environment;
    Ok(stored)
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ExecuteError> {
    serde_json::from_value(value)
        .map_err(|error| arbiter(ArbiterError::Connection(Box::new(error))))
}

fn arbiter(error: ArbiterError) -> ExecuteError {
    ExecuteError::Arbiter(Box::new(error))
}

fn broken(operation_id: &str, error: ConnectionError) -> ExecuteError {
    match error {
        ConnectionError::Gone => ExecuteError::ArbiterLost {
            operation_id: operation_id.to_owned(),
        },
        other => arbiter(ArbiterError::Connection(Box::new(other))),
    }
}
