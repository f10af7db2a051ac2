//! A process with a domain: it submits, and notes what it was told, so that it can be held against the record.

use std::fs;
use std::thread;
use std::time::Duration;

use xioflow_kernel::{
    Arbiter, Canceller, Domain, DomainOptions, ExecuteError, OperationBuilder, OperationResult,
    RunHandle,
};

use crate::folder::Folder;
use crate::work::{LEASE_WAIT, Work};

/// A domain and whoever asks for things in it.
pub(super) struct Host<'a> {
    pub(super) folder: &'a Folder,
    pub(super) domain: Domain,
}

/// A submission in flight.
pub(super) struct Running {
    pub(super) canceller: Canceller,
    thread: thread::JoinHandle<()>,
}

impl Running {
    /// Waits until its end was noted.
    pub(super) fn wait(self) {
        self.thread.join().expect("a submission does not panic");
    }
}

/// How long the lock of a process that is dead may live on: a helper that it was just starting has a copy of
/// every descriptor until it executes its program.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);

/// Opens the domain of a case for this process alone.
pub(super) fn own(folder: &Folder) -> Domain {
    let options = DomainOptions::default()
        .arbiter(Arbiter::Never)
        .wait(LOCK_PATIENCE)
        .helper(folder.helper());
    options.open(folder.domain()).expect("a domain")
}

impl<'a> Host<'a> {
    pub(super) fn alone(folder: &'a Folder) -> Self {
        let domain = own(folder);
        Self { folder, domain }
    }

    /// Submits a work in a Run of its own and waits for its end.
    pub(super) fn run(&self, work: &Work) {
        let operation = self.domain.operation(work.command(self.folder));
        self.finish(work, operation);
    }

    /// The same in a Run that was opened before.
    pub(super) fn run_in(&self, run: &RunHandle, work: &Work) {
        let operation = run.operation(work.command(self.folder));
        self.finish(work, operation);
    }

    fn finish(&self, work: &Work, operation: Result<OperationBuilder, ExecuteError>) {
        let operation = self.noted(work, operation.expect("a descriptor"));
        note_end(self.folder, work.id, &operation.run());
    }

    /// Submits a work and goes on.
    pub(super) fn start(&self, work: &Work) -> Running {
        let operation = self.domain.operation(work.command(self.folder));
        let operation = self.noted(work, operation.expect("a descriptor"));
        let canceller = operation.canceller();
        let (folder, id) = (self.folder.clone(), work.id);
        let thread = thread::spawn(move || note_end(&folder, id, &operation.run()));
        Running { canceller, thread }
    }

    /// A submission that notes when it is on record as running.
    pub(super) fn noted(&self, work: &Work, operation: OperationBuilder) -> OperationBuilder {
        let folder = self.folder.clone();
        work.terms(operation, LEASE_WAIT)
            .when_active(move |active| folder.tell(&format!("active {}", active.operation_id)))
    }
}

/// Notes how a submission ended. A refusal is a fact as well, but of nothing that would be on record.
pub(super) fn note_end(folder: &Folder, id: &str, ended: &Result<OperationResult, ExecuteError>) {
    match ended {
        Ok(result) => folder.tell(&format!("result {id} {}", result.status)),
        Err(error) => folder.tell(&format!("refused {id} {error}")),
    }
    fs::write(folder.ended(id), "").expect("a file of the case");
}
