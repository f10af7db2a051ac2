//! The library as a client: an arbiter of the stage owns the domain, and executes. What such a host does and
//! hears is what an embedded one does and hears.

use rustix::process::Signal;
use xioflow_kernel::{Arbiter, DomainOptions, HELPER_VARIABLE};
use xioflow_kit::{Stage, Started};

use super::embedded::Host;
use super::{Client, Event, HostRun, Lease, Record, Refusal, Submitted, Terms, Way};
use crate::contract::Unsupported;
use crate::work::Work;

/// The library `xioflow-kernel`, attached to `xioflow arbiter`.
#[derive(Debug, Clone, Copy)]
pub struct ThroughArbiter;

impl Way for ThroughArbiter {
    fn name(&self) -> &'static str {
        "arbiter"
    }

    fn client<'a>(
        &'a self,
        stage: &'a Stage,
        terms: &Terms,
    ) -> Result<Box<dyn Client + 'a>, Unsupported> {
        let arbiter = Serving::start(stage, terms);
        let domain = DomainOptions::default()
            .arbiter(Arbiter::Attach)
            .open(stage.domain())
            .unwrap_or_else(|error| panic!("open {}: {error:?}", stage.domain().display()));
        let serving = domain.arbiter().map(|arbiter| arbiter.pid);
        assert_eq!(serving, arbiter.pid(), "somebody else owns the domain");
        let host = Host { domain };
        Ok(Box::new(Guest {
            host,
            _arbiter: arbiter,
        }))
    }
}

/// An arbiter that serves the stage's domain, until this is dropped.
pub(super) struct Serving<'a>(Option<Started<'a>>);

impl<'a> Serving<'a> {
    pub(super) fn start(stage: &'a Stage, terms: &Terms) -> Self {
        let helper = terms.helper.clone();
        let mut arbiter = stage
            .xioflow()
            .args(["arbiter", "--idle", "never", "--domain"])
            .arg(stage.domain())
            // A false helper must not be started before it is needed.
            .args(["--warm-helpers", if helper.is_none() { "1" } else { "0" }])
            .env(
                HELPER_VARIABLE,
                helper.unwrap_or_else(|| stage.program("xioflow-reaper")),
            );
        if let Some(max) = terms.max_concurrent_operations {
            arbiter = arbiter.args(["--max-operations", &max.to_string()]);
        }
        if let Some(max) = terms.max_total_memory_bytes {
            arbiter = arbiter.args(["--max-total-memory", &max.to_string()]);
        }
        let mut arbiter = arbiter.start();
        arbiter.wait_for_complaint(b"serving");
        Self(Some(arbiter))
    }

    fn pid(&self) -> Option<u32> {
        self.0.as_ref().map(Started::pid)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let Some(arbiter) = self.0.take() else {
            return;
        };
        // A case that has failed says so, and its stage ends the arbiter.
        if !std::thread::panicking() {
            arbiter.signal(Signal::TERM);
            arbiter.finish().assert_code(0);
        }
    }
}

/// A client of an arbiter that was started for it, and ends after it.
struct Guest<'a> {
    host: Host,
    _arbiter: Serving<'a>,
}

impl Client for Guest<'_> {
    fn submit(&self, work: &Work) -> Result<Box<dyn Submitted + '_>, Unsupported> {
        self.host.submit(work)
    }

    fn cancel(&self, id: &str) -> Result<Result<(), Refusal>, Unsupported> {
        self.host.cancel(id)
    }

    fn adjudicate(&self, id: &str, actor: &str) -> Result<Result<(), Refusal>, Unsupported> {
        self.host.adjudicate(id, actor)
    }

    fn prune_all(&self) {
        self.host.prune_all();
    }

    fn close(&self) -> Result<(), Unsupported> {
        self.host.close()
    }

    fn another(&self) -> Result<Box<dyn Client + '_>, Unsupported> {
        let folder = self.host.domain.folder();
        let domain = DomainOptions::default()
            .open(folder)
            .expect("a second client");
        Ok(Box::new(Host { domain }))
    }

    fn begin_run(&self) -> Result<Box<dyn HostRun + '_>, Unsupported> {
        self.host.begin_run()
    }

    fn can_be_killed(&self) -> Result<(), Unsupported> {
        self.host.can_be_killed()
    }

    fn works_beside_others(&self) -> bool {
        self.host.works_beside_others()
    }

    fn record(&self, id: &str) -> Option<Record> {
        self.host.record(id)
    }

    fn events(&self) -> Vec<Event> {
        self.host.events()
    }

    fn leases(&self) -> Vec<Lease> {
        self.host.leases()
    }

    fn stored_output(&self, id: &str) -> Vec<u8> {
        self.host.stored_output(id)
    }
}
