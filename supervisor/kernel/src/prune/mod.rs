//! Removes stored output: for its age, for its size, or because a quota is used up. The record of an operation
//! stays, with the length and the hash of what it printed.
//!
//! `plan` decides, `survey` finds out whose the files of the folder are, `work` removes, `report` is what is told.
//! The journal says first that a file is pruned, and then the file goes. A crash in between leaves a
//! file that nobody needs, which the next opening or the next pruning removes.

mod automatic;
mod plan;
mod report;
mod survey;
mod work;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use xioflow_journal::{CommitError, Journal, LazyReader, ReadError, Records};

use crate::domain::Inner;
use crate::error::ArbiterError;
use crate::flight::Flights;
use crate::output::Artifacts;

pub use plan::{Need, PruneOptions};
pub use report::{KeptFiles, Obstacle, Pruned, PrunedFile, Tally};

pub(crate) use automatic::finish_interrupted;

use plan::Plan;
use survey::Survey;
use work::Work;

/// Why pruning stopped. What had been removed before is removed and recorded.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// The domain was closed.
    #[error("the domain is closed")]
    DomainClosed,
    /// The folder of stored output cannot be read.
    #[error("failed to look through {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file could not be removed. The record calls it pruned; the next pruning tries again.
    #[error("failed to remove {}, which is recorded as pruned", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The journal refused the commit: nothing of that batch was removed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The journal could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The domain's arbiter could not be asked, or had another reason.
    #[error(transparent)]
    Arbiter(Box<ArbiterError>),
}

/// What a pruning works on.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    records: Records<'a>,
    artifacts: &'a Artifacts,
    /// What this process executes, where it is the owner.
    flights: Option<&'a Flights>,
    /// Where it is recorded what was pruned; nothing is removed without it.
    journal: Option<&'a Journal>,
}

impl Place<'_> {
    /// Goes through everything once to see whose it is, and once more to remove.
    fn prune(self, options: &PruneOptions) -> Result<Pruned, PruneError> {
        let mut told = Pruned::new(self.journal.is_none());
        let stored_bytes = Survey::new(self).look_through(&mut told)?;
        let plan = Plan::new(options, stored_bytes, crate::clock::now_ms());
        Work::new(self, plan).work_off(&mut told)?;
        Ok(told)
    }

    fn cannot_look(&self, source: io::Error) -> PruneError {
        PruneError::Folder {
            path: self.artifacts.path().to_owned(),
            source,
        }
    }

    fn cannot_remove(&self, name: &OsStr, source: io::Error) -> PruneError {
        PruneError::Remove {
            path: self.artifacts.path().join(name),
            source,
        }
    }
}

impl Inner {
    /// Removes what the options name, and says what became of every file.
    pub(crate) fn prune(&self, options: &PruneOptions) -> Result<Pruned, PruneError> {
        if self.flights.is_closed() {
            return Err(PruneError::DomainClosed);
        }
        let _alone = self.pruning();
        let place = self.pruning_place();
        let journal = place.journal.filter(|_| !options.dry_run);
        Place { journal, ..place }.prune(options)
    }

    fn pruning_place(&self) -> Place<'_> {
        Place {
            records: Records::Owner(&self.journal),
            artifacts: &self.artifacts,
            flights: Some(&self.flights),
            journal: Some(&self.journal),
        }
    }
}

/// Says what a pruning would remove from the domain in this folder, whoever owns it. Nothing is written,
/// and no owner is disturbed; a folder that cannot be written in will do.
///
/// # Errors
/// [`PruneError::Read`] and [`PruneError::Folder`].
pub fn prune_preview(folder: &Path, options: &PruneOptions) -> Result<Pruned, PruneError> {
    let reader = LazyReader::new(folder);
    let path = reader.get()?.dir().artifacts();
    // Nothing is stored through it, so it has no limit.
    let artifacts = Artifacts::open(path.clone(), u64::MAX)
        .map_err(|source| PruneError::Folder { path, source })?;
    let place = Place {
        records: Records::Beside(&reader),
        artifacts: &artifacts,
        flights: None,
        journal: None,
    };
    place.prune(options)
}
