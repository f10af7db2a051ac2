//! A way that does what the library does, and changes what goes in or what comes out.

use xioflow_conformance::{
    Client, Ended, Event, HostRun, Lease, Record, Refusal, Submitted, Terms, Unsupported, Way,
    Work, ways,
};
use xioflow_kit::Stage;

/// A way with one lie.
#[derive(Clone, Copy)]
pub(crate) struct Liar {
    pub(crate) name: &'static str,
    /// The contracts that have to find it.
    pub(crate) breaks: &'static [u32],
    /// What each of them says then.
    pub(crate) told_by: &'static str,
    pub(crate) terms: fn(Terms) -> Terms,
    pub(crate) work: fn(Work) -> Work,
    pub(crate) ended: fn(Ended) -> Ended,
    pub(crate) events: fn(Vec<Event>) -> Vec<Event>,
    pub(crate) leases: fn(Vec<Lease>) -> Vec<Lease>,
    pub(crate) cancelled: fn(Result<(), Refusal>) -> Result<(), Refusal>,
    pub(crate) adjudicated: fn(Result<(), Refusal>) -> Result<(), Refusal>,
    pub(crate) prune: fn(&dyn Client, &Stage),
    pub(crate) reported: fn(Result<String, Refusal>) -> Result<String, Refusal>,
    pub(crate) record: fn(Option<Record>) -> Option<Record>,
    /// What it does beside its work.
    pub(crate) aside: fn(&Stage),
    /// What it does when it only looks.
    pub(crate) looked: fn(&Stage),
    /// The way that it lies about.
    pub(crate) way: &'static dyn Way,
}

/// Nothing is changed.
pub(crate) const HONEST: Liar = Liar {
    name: "honest",
    breaks: &[],
    told_by: "",
    terms: |terms| terms,
    work: |work| work,
    ended: |ended| ended,
    events: |events| events,
    leases: |leases| leases,
    cancelled: |cancelled| cancelled,
    adjudicated: |adjudicated| adjudicated,
    prune: |client, _| client.prune_all(),
    reported: |reported| reported,
    record: |record| record,
    aside: |_| {},
    looked: |_| {},
    way: &ways::Embedded,
};

impl Way for Liar {
    fn name(&self) -> &'static str {
        self.name
    }

    fn client<'a>(
        &'a self,
        stage: &'a Stage,
        terms: &Terms,
    ) -> Result<Box<dyn Client + 'a>, Unsupported> {
        let terms = (self.terms)(terms.clone());
        let client = self.way.client(stage, &terms)?;
        let liar = self;
        Ok(Box::new(LyingClient {
            liar,
            stage,
            client,
        }))
    }
}

struct LyingClient<'a> {
    liar: &'a Liar,
    stage: &'a Stage,
    client: Box<dyn Client + 'a>,
}

impl Client for LyingClient<'_> {
    fn submit(&self, work: &Work) -> Result<Box<dyn Submitted + '_>, Unsupported> {
        (self.liar.aside)(self.stage);
        let submitted = self.client.submit(&(self.liar.work)(work.clone()))?;
        Ok(Box::new(LyingSubmitted {
            liar: self.liar,
            submitted,
        }))
    }

    fn cancel(&self, id: &str) -> Result<Result<(), Refusal>, Unsupported> {
        self.client.cancel(id).map(self.liar.cancelled)
    }

    fn adjudicate(&self, id: &str, actor: &str) -> Result<Result<(), Refusal>, Unsupported> {
        self.client.adjudicate(id, actor).map(self.liar.adjudicated)
    }

    fn prune_all(&self) {
        (self.liar.prune)(&*self.client, self.stage);
    }

    fn close(&self) -> Result<(), Unsupported> {
        self.client.close()
    }

    fn another(&self) -> Result<Box<dyn Client + '_>, Unsupported> {
        let client = self.client.another()?;
        let (liar, stage) = (self.liar, self.stage);
        Ok(Box::new(LyingClient {
            liar,
            stage,
            client,
        }))
    }

    fn begin_run(&self) -> Result<Box<dyn HostRun + '_>, Unsupported> {
        let run = self.client.begin_run()?;
        let liar = self.liar;
        Ok(Box::new(LyingRun { liar, run }))
    }

    fn can_be_killed(&self) -> Result<(), Unsupported> {
        self.client.can_be_killed()
    }

    fn works_beside_others(&self) -> bool {
        self.client.works_beside_others()
    }

    fn record(&self, id: &str) -> Option<Record> {
        (self.liar.looked)(self.stage);
        (self.liar.record)(self.client.record(id))
    }

    fn events(&self) -> Vec<Event> {
        (self.liar.events)(self.client.events())
    }

    fn leases(&self) -> Vec<Lease> {
        (self.liar.leases)(self.client.leases())
    }

    fn stored_output(&self, id: &str) -> Vec<u8> {
        self.client.stored_output(id)
    }
}

struct LyingSubmitted<'a> {
    liar: &'a Liar,
    submitted: Box<dyn Submitted + 'a>,
}

impl Submitted for LyingSubmitted<'_> {
    fn cancel(&self) -> Result<Result<(), Refusal>, Unsupported> {
        self.submitted.cancel()
    }

    fn kill_client(self: Box<Self>) {
        self.submitted.kill_client();
    }

    fn wait_for_output(&mut self, part: &[u8]) {
        self.submitted.wait_for_output(part);
    }

    fn wait(self: Box<Self>) -> Ended {
        (self.liar.ended)(self.submitted.wait())
    }
}

struct LyingRun<'a> {
    liar: &'a Liar,
    run: Box<dyn HostRun + 'a>,
}

impl HostRun for LyingRun<'_> {
    fn id(&self) -> &str {
        self.run.id()
    }

    fn submit(&self, work: &Work) -> Result<Box<dyn Submitted + '_>, Unsupported> {
        self.run.submit(work)
    }

    fn report_succeeded(&self) -> Result<String, Refusal> {
        (self.liar.reported)(self.run.report_succeeded())
    }

    fn report_failed(&self) -> Result<String, Refusal> {
        (self.liar.reported)(self.run.report_failed())
    }

    fn status(&self) -> String {
        self.run.status()
    }
}
