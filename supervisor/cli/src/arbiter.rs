//! How this program comes to the arbiter of a domain: attached to, or started from this same program.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use xioflow_client::{ConnectError, Connection, Endpoint, EndpointError, Starter};
use xioflow_kernel::{Arbiter, Domain, DomainError, DomainOptions, HELPER_VARIABLE};
use xioflow_rpc::PROTOCOL_VERSION;
use xioflow_rpc::kernel::Hello;

use crate::duration::{Idle, parse_idle};
use crate::exit::Code;
use crate::failure::Failure;
use crate::size::parse_size;

/// Environment variable that says after how long an arbiter ends that this program starts.
pub(crate) const IDLE_VARIABLE: &str = "XIOFLOW_ARBITER_IDLE";

/// An environment variable that says a size, for this program and for an arbiter that it starts.
pub(crate) struct SizeVariable(&'static str);

/// How much stored output may take.
pub(crate) const MAX_ARTIFACTS: SizeVariable = SizeVariable("XIOFLOW_MAX_ARTIFACTS");

/// What the memory limits of running operations may come to.
pub(crate) const MAX_TOTAL_MEMORY: SizeVariable = SizeVariable("XIOFLOW_MAX_TOTAL_MEMORY");

/// What running operations may store of their output.
pub(crate) const MAX_TOTAL_OUTPUT: SizeVariable = SizeVariable("XIOFLOW_MAX_TOTAL_OUTPUT");

impl SizeVariable {
    /// The size, if one was said: by an option, or else by the environment.
    pub(crate) fn or_said(&self, asked: Option<u64>) -> Result<Option<u64>, Failure> {
        let named = env::var_os(self.0).filter(|text| !text.is_empty());
        let Some(text) = named.filter(|_| asked.is_none()) else {
            return Ok(asked);
        };
        let size = parse_size(&text.to_string_lossy());
        size.map(Some).map_err(|why| {
            let message = format!("{} is no size: {why}", self.0);
            Failure::new("usage", Code::Usage, message)
        })
    }
}

/// What this program says of itself.
pub(crate) fn hello() -> Hello {
    Hello {
        protocol: PROTOCOL_VERSION,
        release: env!("CARGO_PKG_VERSION").to_owned(),
        client: "xioflow".to_owned(),
    }
}

/// How this program starts an arbiter: it is one itself.
pub(crate) fn starter() -> Result<Starter, Failure> {
    let program = env::current_exe().map_err(|error| {
        Failure::of_act(
            "arbiter",
            Code::Internal,
            "failed to find this program, which would be started as the arbiter",
            &error,
        )
        .hint("only /proc says where it is; mount it: mount -t proc proc /proc")
    })?;
    let mut starter = Starter::new(program);
    starter.idle = idle()?;
    // It starts in another folder.
    let helper = env::var_os(HELPER_VARIABLE).map(PathBuf::from);
    let helper = helper.map(|path| std::path::absolute(&path).unwrap_or(path));
    starter
        .variables
        .extend(helper.map(|path| (HELPER_VARIABLE.into(), path.into())));
    for variable in [MAX_ARTIFACTS, MAX_TOTAL_MEMORY, MAX_TOTAL_OUTPUT] {
        let said = variable.or_said(None)?.map(|max| max.to_string());
        let said = said.map(|max| (variable.0.into(), max.into()));
        starter.variables.extend(said);
    }
    Ok(starter)
}

/// After how long it ends, if that was said.
fn idle() -> Result<Option<Duration>, Failure> {
    let Some(text) = env::var_os(IDLE_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match parse_idle(&text.to_string_lossy()) {
        Ok(Idle(time)) => Ok(Some(time.unwrap_or(Duration::MAX))),
        Err(why) => Err(Failure::new(
            "usage",
            Code::Usage,
            format!("{IDLE_VARIABLE} is no time: {why}"),
        )),
    }
}

/// Opens the domain through its arbiter, which is started if there is none.
pub(crate) fn open(folder: &Path) -> Result<Domain, Failure> {
    let options = DomainOptions::default().arbiter(Arbiter::Start(starter()?));
    Ok(options.open(folder)?)
}

/// Opens the domain through its arbiter, if one serves it.
pub(crate) fn attached(folder: &Path) -> Result<Option<Domain>, Failure> {
    if connect(folder)?.is_none() {
        return Ok(None);
    }
    let domain = DomainOptions::default()
        .arbiter(Arbiter::Attach)
        .open(folder);
    match domain {
        Ok(domain) if domain.arbiter().is_some() => Ok(Some(domain)),
        // It ended between the two looks.
        Ok(_) | Err(DomainError::Journal(_)) => Ok(None),
        Err(error) => Err(error.into()),
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
