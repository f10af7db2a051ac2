//! What the scenarios have executed: commands that leave an effect first, each with what may be said of its end.

use std::time::Duration;

use xioflow_kernel::{Command, DescendantPolicy, Driver, OperationBuilder};

use crate::folder::Folder;

/// How a command ends if nobody interferes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// By itself, with status 0.
    ByItself,
    /// The same, or with [`NO_READER`] when nobody reads what it prints any more.
    Printing,
    /// Not at all: it stays until somebody ends it.
    ByForce,
    /// Its program is not there, so it never begins.
    Never,
}

/// One operation of a scenario; the same words for its submission and for every later one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) id: &'static str,
    /// What follows the effect, in a shell where `$FIXTURE` is the fixture.
    script: &'static str,
    pub(crate) ends: Ends,
    lease: Option<&'static str>,
    timeout: Option<Duration>,
    stored_max: Option<u64>,
    driver: Driver,
}

/// The exit status of the fixture when it cannot print.
pub(crate) const NO_READER: i64 = 99;

/// Names the operation in the environment of each of its processes.
pub(crate) const OPERATION_VARIABLE: &str = "MATRIX_OPERATION";

/// Long enough for whoever has a lease to give it back, and short beside what a process of a case may take: one
/// whose holder ended without proof is not given back.
pub(crate) const LEASE_WAIT: Duration = Duration::from_secs(20);

/// How much of the flood is stored of each stream: less than it prints, and more than the journal keeps.
const FLOOD_STORED_BYTES: u64 = 160 * 1024;

impl Work {
    const fn new(id: &'static str, script: &'static str, ends: Ends) -> Self {
        Self {
            id,
            script,
            ends,
            lease: None,
            timeout: None,
            stored_max: None,
            driver: Driver::Auto,
        }
    }

    /// Prints a line on each stream, and ends.
    pub(crate) const fn brief(id: &'static str) -> Self {
        Self::new(id, "echo out; echo err >&2", Ends::ByItself)
    }

    /// Stays.
    pub(crate) const fn long(id: &'static str) -> Self {
        let script = "echo begun; [ -e over ] || exec $FIXTURE sleep";
        Self::new(id, script, Ends::ByForce)
    }

    /// Stays, in a pid namespace of its own, with others that have left its session.
    pub(crate) const fn enclosed(id: &'static str) -> Self {
        let script = "echo begun; [ -e over ] || { (setsid $FIXTURE sleep &); exec $FIXTURE spawn-tree mixed 5; }";
        Self {
            driver: Driver::PidNamespace,
            ..Self::new(id, script, Ends::ByForce)
        }
    }

    /// Whether nobody can live once its helper is dead.
    pub(crate) fn is_enclosed(&self) -> bool {
        self.driver == Driver::PidNamespace
    }

    /// Ends, and leaves children, a session of its own and a daemon behind.
    pub(crate) const fn escapees(id: &'static str) -> Self {
        let script = "[ -e over ] || exec $FIXTURE --exit 0 spawn-tree mixed 5";
        Self::new(id, script, Ends::ByItself)
    }

    /// Prints more than is stored.
    pub(crate) const fn flood(id: &'static str) -> Self {
        let script = "exec $FIXTURE flood-output both 400000";
        let work = Self::new(id, script, Ends::Printing);
        Self {
            stored_max: Some(FLOOD_STORED_BYTES),
            ..work
        }
    }

    /// Cannot be executed.
    pub(crate) const fn missing(id: &'static str) -> Self {
        Self::new(id, "", Ends::Never)
    }

    pub(crate) const fn lease(self, name: &'static str) -> Self {
        Self {
            lease: Some(name),
            ..self
        }
    }

    pub(crate) const fn timeout(self, timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..self
        }
    }

    /// The command, in this case's folder.
    pub(crate) fn command(&self, folder: &Folder) -> Command {
        let command = match self.ends {
            Ends::Never => Command::new("/nowhere/at-all"),
            Ends::ByItself | Ends::Printing | Ends::ByForce => {
                let script = format!("echo {} >> effects; {}", self.id, self.script);
                Command::new("/bin/sh").args(["-c", &script])
            }
        };
        command
            .driver(self.driver)
            .cwd(folder.path())
            .env("FIXTURE", folder.fixture())
            .env(OPERATION_VARIABLE, self.id)
    }

    /// Finishes a submission of it, which waits this long for its lease. That is no input of an operation.
    pub(crate) fn terms(
        &self,
        mut operation: OperationBuilder,
        wait: Duration,
    ) -> OperationBuilder {
        operation = operation.id(self.id).descendants(DescendantPolicy::Stop);
        if let Some(lease) = self.lease {
            operation = operation.lease(lease).wait(wait);
        }
        if let Some(timeout) = self.timeout {
            operation = operation.timeout(timeout);
        }
        if let Some(max) = self.stored_max {
            operation = operation.max_stored_bytes(max);
        }
        operation
    }
}
