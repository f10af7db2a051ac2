//! How this program comes to the arbiter of a domain.

use std::path::Path;

use xioflow_client::{ConnectError, Connection, Endpoint, EndpointError};
use xioflow_rpc::PROTOCOL_VERSION;
use xioflow_rpc::kernel::Hello;

use crate::failure::Failure;

/// What this program says of itself.
pub(crate) fn hello() -> Hello {
    Hello {
        protocol: PROTOCOL_VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        client: "xioflow".to_owned(),
    }
}

/// A connection to the domain's arbiter, if one serves it.
pub(crate) fn connect(folder: &Path) -> Result<Option<Connection>, Failure> {
    connect_by(folder, |endpoint| endpoint.connect(&hello()))
}

/// The same to one of any release, to be told nothing but to end.
pub(crate) fn connect_to_end(folder: &Path) -> Result<Option<Connection>, Failure> {
    connect_by(folder, |endpoint| endpoint.connect_to_end(&hello()))
}

fn connect_by(
    folder: &Path,
    connect: impl FnOnce(&Endpoint) -> Result<Connection, ConnectError>,
) -> Result<Option<Connection>, Failure> {
    let connected = Endpoint::open(folder)
        .map_err(ConnectError::from)
        .and_then(|endpoint| connect(&endpoint));
    match connected {
        Ok(connection) => Ok(Some(connection)),
        // Whether there is a domain at all is the record's question.
        Err(ConnectError::NoArbiter | ConnectError::Endpoint(EndpointError::Missing { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
