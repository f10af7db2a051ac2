//! What the threads of one user share: the stage, the domain, where the effects of commands are counted, and
//! which clients are at work.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use xioflow_kernel::journal::{Operation, OperationFilter, Query, Reader};
use xioflow_kit::{Run, Stage};

use crate::disk::Disk;

/// The place of one user's soak.
#[derive(Debug)]
pub(crate) struct Ground<'a> {
    pub(crate) stage: &'a Stage,
    /// A small disk of its own below the domain, where this user can have one.
    pub(crate) disk: Option<Disk<'a>>,
    clients: Mutex<Vec<Option<u32>>>,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl<'a> Ground<'a> {
    pub(crate) fn new(stage: &'a Stage, clients: usize) -> Self {
        Self {
            stage,
            disk: Disk::below(stage),
            clients: Mutex::new(vec![None; clients]),
            is_over: Mutex::new(false),
            over: Condvar::new(),
        }
    }

    /// The domain's folder.
    pub(crate) fn domain(&self) -> PathBuf {
        match &self.disk {
            Some(disk) => disk.path().join("domain"),
            None => self.stage.domain(),
        }
    }

    /// The program on this domain.
    pub(crate) fn xioflow(&self) -> Run<'a> {
        self.stage
            .xioflow()
            .env("XIOFLOW_DOMAIN", self.domain())
            .deadline(Duration::from_secs(180))
    }

    /// To this file each command adds its operation's id, as the one effect that it has.
    pub(crate) fn ledger(&self) -> PathBuf {
        self.stage.path("ledger")
    }

    /// How often each operation has had its effect.
    pub(crate) fn effects(&self) -> HashMap<String, usize> {
        let mut times = HashMap::new();
        for line in fs::read_to_string(self.ledger())
            .unwrap_or_default()
            .lines()
        {
            *times.entry(line.to_owned()).or_default() += 1;
        }
        times
    }

    /// The record, which somebody else may be writing.
    pub(crate) fn record(&self) -> Option<Reader> {
        Reader::open(self.domain()).ok()
    }

    /// Everything on record.
    pub(crate) fn recorded(&self) -> Vec<Operation> {
        let record = self.record().expect("a domain");
        record
            .operations(&OperationFilter::default())
            .expect("a readable record")
    }

    /// Says which process is this client's now.
    pub(crate) fn at_work(&self, index: usize, pid: Option<u32>) {
        locked(&self.clients)[index] = pid;
    }

    /// The processes of clients at work.
    pub(crate) fn clients(&self) -> Vec<u32> {
        locked(&self.clients).iter().flatten().copied().collect()
    }

    /// Ends the work.
    pub(crate) fn stop(&self) {
        *locked(&self.is_over) = true;
        self.over.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        *locked(&self.is_over)
    }

    /// Lets time pass, or less if the work ends meanwhile.
    pub(crate) fn pause(&self, time: Duration) {
        let guard = locked(&self.is_over);
        let waited = self.over.wait_timeout_while(guard, time, |over| !*over);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A path that is known to be text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("an ASCII path")
}
