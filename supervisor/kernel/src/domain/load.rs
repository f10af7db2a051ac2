//! What the operations that a domain's owner executes use at this moment. `load` looks at one.

use std::collections::BTreeMap;

use xioflow_journal::{Query, ReadError};

use super::{Domain, Inner};
use crate::backend::Backend;
use crate::error::NotActive;
use crate::load::Load;

impl Domain {
    /// What each operation uses that the owner of the domain executes, ordered by id. Those that wait for resources
    /// are among them.
    ///
    /// Each call looks anew and costs a look at every process; between calls nothing is done for it.
    ///
    /// # Errors
    /// [`NotActive::Read`] if the journal cannot be read; [`NotActive::Arbiter`] if an arbiter owns the domain and cannot be asked.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let options = xioflow_kernel::DomainOptions::default().helper(stage.program("xioflow-reaper"));
    /// # let domain = options.open(stage.domain())?;
    /// use std::time::Duration;
    /// use xioflow_kernel::{Command, LoadState, StopManner};
    ///
    /// let running = domain.operation(Command::new("/bin/sleep").arg("600"))?.id("server").start()?;
    /// let load = loop {
    ///     let loads = domain.loads()?;
    ///     match loads.into_iter().find(|load| load.tasks.is_some_and(|tasks| tasks > 0)) {
    ///         Some(load) => break load,
    ///         None => std::thread::yield_now(), // it has not begun yet
    ///     }
    /// };
    /// assert_eq!((load.operation_id.as_str(), load.state), ("server", LoadState::Running));
    /// domain.cancel("server", StopManner::Terminate, Duration::from_secs(2))?;
    /// running.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn loads(&self) -> Result<Vec<Load>, NotActive> {
        match &self.backend {
            Backend::Own(inner) => Ok(inner.loads()?),
            Backend::Attached(attached) => attached.loads(),
        }
    }
}

impl Inner {
    fn loads(&self) -> Result<Vec<Load>, ReadError> {
        let flights = self.flights.list().into_iter();
        let mut loads: BTreeMap<String, Option<Load>> = flights
            .map(|flight| {
                (
                    flight.operation_id.clone(),
                    Some(Load::waiting(flight.operation_id)),
                )
            })
            .collect();
        for operation in self.journal.unfinished()? {
            if let Some(load) = loads.get_mut(&operation.id) {
                *load = Load::of_recorded(&operation);
            }
        }
        Ok(loads.into_values().flatten().collect())
    }
}
