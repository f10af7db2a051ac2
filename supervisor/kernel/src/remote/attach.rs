//! Another's operation, attached to through the arbiter that executes it.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use xioflow_client::Connection;
use xioflow_rpc::envelope::{Id, Message};
use xioflow_rpc::method::Method;
use xioflow_rpc::operation as rpc;

use super::Attached;
use super::execute::Remote;
use super::fault::not_active;
use crate::control::Control;
use crate::error::{ArbiterError, ExecuteError, NotActive};
use crate::operation::WhenActive;
use crate::result::OperationResult;

/// What a client has of it.
#[derive(Debug)]
pub(crate) struct RemoteAttachment {
    attached: Arc<Attached>,
    connection: Connection,
    request: Id,
    accepted: rpc::Accepted,
}

impl RemoteAttachment {
    /// Attaches; the output goes to `output`. The result that comes holds nothing of it.
    pub(crate) fn new(
        attached: &Arc<Attached>,
        operation_id: &str,
        output: &OwnedFd,
    ) -> Result<Self, NotActive> {
        let words = rpc::Attach {
            operation_id: operation_id.to_owned(),
            output: rpc::Output::Frames,
            descriptors: vec![rpc::Descriptor::Output],
            max_output_bytes: Some(0),
        };
        let mut connection = attached.connection().map_err(no_arbiter)?;
        let request = Attached::request(&mut connection, Method::Attach, &words, &[output.as_fd()])
            .map_err(|error| no_arbiter(attached.broken(error)))?;
        let accepted = accepted(attached, &mut connection, &request, operation_id)?;
        Ok(Self {
            attached: Arc::clone(attached),
            connection,
            request,
            accepted,
        })
    }

    pub(crate) fn operation_id(&self) -> &str {
        &self.accepted.operation_id
    }

    pub(crate) fn run_id(&self) -> &str {
        &self.accepted.run_id
    }

    /// Waits for its result, which is to hold so many bytes of each stream.
    pub(crate) fn wait(
        self,
        control: &Arc<Control>,
        kept: usize,
    ) -> Result<OperationResult, ExecuteError> {
        Remote {
            attached: &self.attached,
            connection: self.connection,
            request: self.request,
            operation_id: self.accepted.operation_id,
            control,
            told: WhenActive::nobody(),
            kept,
            // How much that is was not known when it was asked for.
            asked_for_less: true,
            waiting: HashMap::new(),
        }
        .run()
    }
}

/// Waits for the answer to the request.
fn accepted(
    attached: &Attached,
    connection: &mut Connection,
    request: &Id,
    operation_id: &str,
) -> Result<rpc::Accepted, NotActive> {
    loop {
        match connection.receive() {
            Ok(Some(Message::Answer { id, result, .. })) if id == *request => {
                return serde_json::from_value(result)
                    .map_err(|error| no_arbiter(ArbiterError::Connection(Box::new(error))));
            }
            Ok(Some(Message::Refusal { error, .. })) => {
                return Err(not_active(error, operation_id));
            }
            // Nothing else was asked on this connection.
            Ok(Some(_)) => {}
            Ok(None) => return Err(no_arbiter(attached.lost())),
            Err(error) => return Err(no_arbiter(attached.broken(error))),
        }
    }
}

fn no_arbiter(error: ArbiterError) -> NotActive {
    NotActive::Arbiter(Box::new(error))
}
