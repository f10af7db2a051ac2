//! What is asked of the arbiter itself: the greeting, how it stands, its end.

use std::time::Duration;

use xioflow_kernel::{DEFAULT_CANCEL_GRACE, StopManner};
use xioflow_rpc::PROTOCOL_VERSION;
use xioflow_rpc::domain::{InFlight, Status};
use xioflow_rpc::kernel::{Hello, Running, Shutdown, ShutdownBegun};
use xioflow_rpc::refusal::{Fault, kind};

use crate::client::Pending;
use crate::connection::{Phase, Token};
use crate::convert::budget_out;
use crate::convert::millis_or;
use crate::refusal::of_arbiter;
use crate::server::Server;

impl Server {
    pub(crate) fn greet(
        &mut self,
        token: Token,
        hello: &Hello,
        pending: &Pending,
    ) -> Result<(), Fault> {
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

    pub(crate) fn other_protocol(&self, hello: &Hello) -> Fault {
        let message = format!(
            "the arbiter of this domain is release {} and speaks protocol {PROTOCOL_VERSION}, its client is release {} and speaks {}",
            self.welcome.release, hello.release, hello.protocol
        );
        Fault::refused(kind::VERSION, message)
            .about("protocol", PROTOCOL_VERSION)
            .about("release", self.welcome.release.as_str())
            .about("operations", self.shared.sessions.count() as u64)
    }

    pub(crate) fn shut_down(&mut self, asked: &Shutdown, pending: &Pending) -> Result<(), Fault> {
        let operations = self.shared.sessions.count() as u64;
        let grace = millis_or(asked.grace_ms, DEFAULT_CANCEL_GRACE);
        match asked.running {
            Running::Refuse if !self.shared.sessions.close_if_empty() => {
                let message = match operations {
                    1 => "the arbiter executes an operation and goes on".to_owned(),
                    _ => format!("the arbiter executes {operations} operations and goes on"),
                };
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
        self.shared.begin_end();
        self.shared.sessions.close();
        self.domain.close();
    }

    pub(crate) fn stop_all(&self, grace: Duration) {
        let manner = StopManner::Terminate;
        self.shared.sessions.stop_all(manner, grace);
    }

    pub(crate) fn status(&self) -> Result<Status, Fault> {
        let failed = |error| of_arbiter(&error);
        let artifacts = self.domain.artifact_bytes().map_err(failed)?;
        let in_flight = self
            .domain
            .in_flight()
            .map_err(failed)?
            .into_iter()
            .map(|it| {
                let clients = self.shared.sessions.clients_of(&it.operation_id);
                let (clients, detached) = clients.unwrap_or_default();
                InFlight {
                    operation_id: it.operation_id,
                    run_id: it.run_id,
                    clients: clients as u64,
                    detached,
                }
            });
        Ok(Status {
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
            budget: Some(budget_out(self.domain.budget().map_err(failed)?)),
        })
    }
}
