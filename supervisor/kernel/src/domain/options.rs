//! How a domain is opened: by this process as its owner, or through the arbiter that owns it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use xioflow_journal::{Journal, OpenError, OpenOptions, OwnerRole, Query};

use super::{Domain, Inner};
use crate::admission::Leases;
use crate::backend::Backend;
use crate::error::{DomainError, ExecuteError};
use crate::flight::Flights;
use crate::groups::Groups;
use crate::helper::{HelperPatience, Helpers, find_helper};
use crate::leases::{Claim, DomainBudget, LeaseTable};
use crate::observe;
use crate::operation::recorded_share;
use crate::output::{Artifacts, DEFAULT_MAX_ARTIFACT_BYTES};
use crate::prune;
use crate::recovery::{self, Recovered};
use crate::remote::{self, Arbiter, Attached};
use crate::unrecorded::Unrecorded;

/// Helpers that wait for work, unless the caller says otherwise.
const DEFAULT_WARM_HELPERS: usize = 1;

/// How often an arbiter may hold the domain and not be there to attach to: it begins or ends.
const ATTACH_ATTEMPTS_MAX: u32 = 3;

/// How long one that ends may take to give the domain up, where that is waited for.
const ENDING_PATIENCE: Duration = Duration::from_secs(10);

/// How a domain is opened.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use xioflow_kernel::DomainOptions;
///
/// # let stage = xioflow_kit::Stage::new();
/// # let (folder, helper) = (stage.domain(), stage.program("xioflow-reaper"));
/// let domain = DomainOptions::default()
///     .helper(helper)
///     .wait(Duration::from_secs(10))
///     .max_concurrent_operations(8)
///     .max_artifact_bytes(2 * 1024 * 1024 * 1024)
///     .open(folder)?;
/// for decision in domain.recovered() {
///     println!("{decision:?}"); // what an earlier owner had left unfinished
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct DomainOptions {
    wait: Duration,
    helper: Option<PathBuf>,
    warm_helpers: usize,
    budget: DomainBudget,
    adopt_orphans: bool,
    patience: HelperPatience,
    max_artifact_bytes: Option<u64>,
    role: OwnerRole,
    arbiter: Arbiter,
}

impl Default for DomainOptions {
    fn default() -> Self {
        Self {
            wait: Duration::ZERO,
            helper: None,
            warm_helpers: DEFAULT_WARM_HELPERS,
            budget: DomainBudget::default(),
            adopt_orphans: false,
            patience: HelperPatience::default(),
            max_artifact_bytes: None,
            role: OwnerRole::Embedded,
            arbiter: Arbiter::default(),
        }
    }
}

impl DomainOptions {
    /// Sets how long to wait for another owner to give the domain up; not at all by default.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Names the helper's program instead of looking for it.
    #[must_use]
    pub fn helper(mut self, program: impl Into<PathBuf>) -> Self {
        self.helper = Some(program.into());
        self
    }

    /// Sets how many helpers wait for work, so that a launch need not start one; 1 by default. With 0 one is
    /// started when the domain is opened, for the first launch, and none in advance after that.
    #[must_use]
    pub fn warm_helpers(mut self, count: usize) -> Self {
        self.warm_helpers = count;
        self
    }

    /// Limits how many operations run at once; there is no limit by default. One whose end could not be proven keeps its
    /// resources, and takes no place.
    #[must_use]
    pub fn max_concurrent_operations(mut self, max: usize) -> Self {
        self.budget.concurrent_max = Some(max);
        self
    }

    /// Limits what the memory limits of running operations may come to, in bytes; there is no limit by default. One that
    /// finds too little of it left waits, as for a lease.
    ///
    /// Every operation must then have a memory limit that is seen to
    /// ([`ExecuteError::MemoryUnlimited`](crate::ExecuteError::MemoryUnlimited)), and none may have one beyond the whole
    /// ([`ExecuteError::BudgetExceeded`](crate::ExecuteError::BudgetExceeded)). One whose end could not be proven keeps
    /// its part, as it keeps its resources.
    #[must_use]
    pub fn max_total_memory_bytes(mut self, max: u64) -> Self {
        self.budget.memory_max_bytes = Some(max);
        self
    }

    /// Limits what running operations may store of their output together, in bytes; there is no limit by default. One
    /// that finds too little of it left waits, as for a lease.
    ///
    /// What one may store is that of its streams together ([`OperationBuilder::max_stored_bytes`](crate::OperationBuilder::max_stored_bytes)):
    /// for one that does not say, a sixteenth of this for each. What stays of it when they have ended is another limit
    /// ([`DomainOptions::max_artifact_bytes`]).
    #[must_use]
    pub fn max_total_output_bytes(mut self, max: u64) -> Self {
        self.budget.output_max_bytes = Some(max);
        self
    }

    /// Makes this process the net below its helpers: it becomes a child subreaper
    /// (`PR_SET_CHILD_SUBREAPER`), and if a helper dies, what it held comes to this process and is
    /// ended here.
    ///
    /// Only for programs that start no children themselves: **every child that is not a helper is
    /// then taken for an orphan and killed.**
    #[must_use]
    pub fn adopt_orphans(mut self, on: bool) -> Self {
        self.adopt_orphans = on;
        self
    }

    /// Sets how long a helper may be silent before it counts as lost.
    #[must_use]
    pub fn helper_patience(mut self, patience: HelperPatience) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how many bytes the files of the artifacts folder may take together; 32 GiB by default.
    ///
    /// They are counted when the domain is opened. Operations share what is left as they write.
    /// When it is used up, commands go on; of each stream 64 KiB are still stored, in the journal,
    /// and its result names the gap. While an operation runs, up to 48 KiB of each stream may stand
    /// in the folder beyond this number.
    ///
    /// A number that was set is a quota: where an operation would find little room left of it, the oldest output
    /// that nothing needs is removed first, at most 64 files for each ([`Domain::prune`] says what is needed).
    /// Without it nothing is ever removed that nobody asked to remove.
    #[must_use]
    pub fn max_artifact_bytes(mut self, max: u64) -> Self {
        self.max_artifact_bytes = Some(max);
        self
    }

    /// Says for whom this process will own the domain; for itself by default. Others read it in the
    /// lock file ([`LockNote::role`](xioflow_journal::LockNote::role)): an arbiter that ends is waited
    /// for where a host that has the domain for itself is not.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let (folder, helper) = (stage.domain(), stage.program("xioflow-reaper"));
    /// use xioflow_kernel::DomainOptions;
    /// use xioflow_kernel::journal::{OwnerRole, OwnerState, Reader};
    ///
    /// let options = DomainOptions::default().helper(helper).role(OwnerRole::Arbiter);
    /// let domain = options.open(&folder)?;
    /// let OwnerState::Held { note: Some(note) } = Reader::open(&folder)?.owner_state() else {
    ///     panic!("this process owns it");
    /// };
    /// assert_eq!(note.role, Some(OwnerRole::Arbiter));
    /// # drop(domain);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn role(mut self, role: OwnerRole) -> Self {
        self.role = role;
        self
    }

    /// Sets who executes the operations. By default that is the arbiter, if one owns the domain, and
    /// else this process.
    ///
    /// An arbiter has options of its own: what is set here of helpers, of limits and of orphans is for a
    /// domain that this process owns. [`Domain::arbiter`] says which it is.
    ///
    /// # Examples
    /// ```
    /// # let stage = xioflow_kit::Stage::new();
    /// # let (folder, program) = (stage.domain(), stage.program("xioflow"));
    /// use xioflow_kernel::{Arbiter, Command, DomainOptions, Starter};
    ///
    /// // The first client starts it; it ends when nobody has needed it for a while.
    /// let starting = DomainOptions::default().arbiter(Arbiter::Start(Starter::new(program)));
    /// let one = starting.open(&folder)?;
    /// let another = DomainOptions::default().open(&folder)?;
    /// assert_eq!(one.arbiter().map(|it| it.pid), another.arbiter().map(|it| it.pid));
    ///
    /// let deploy = || Command::new("/bin/echo").arg("deployed");
    /// let first = one.operation(deploy())?.id("deploy-7").run()?;
    /// let again = another.operation(deploy())?.id("deploy-7").run()?;
    /// assert_eq!((first.replayed, again.replayed), (false, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn arbiter(mut self, arbiter: Arbiter) -> Self {
        self.arbiter = arbiter;
        self
    }

    /// Opens the domain in this folder, making it if it is not there.
    ///
    /// On return this process owns the domain, or is attached to the arbiter that does, and
    /// everything that an earlier owner left unfinished has been settled by evidence; see
    /// [`Domain::recovered`].
    ///
    /// # Errors
    /// [`DomainError`] says by cause what stands in the way. The domain is then as it was.
    pub fn open(&self, folder: impl Into<PathBuf>) -> Result<Domain, DomainError> {
        let folder = folder.into();
        for _ in 0..ATTACH_ATTEMPTS_MAX {
            if let Some(attached) = Attached::open(&folder, &self.arbiter)? {
                return Domain::attached(attached);
            }
            match self.own(folder.clone(), Duration::ZERO) {
                Err(error) if matches!(self.arbiter, Arbiter::Attach) && is_of_arbiter(&error) => {
                    // It has the domain already and does not listen yet, or does not any more.
                    remote::await_start(&folder)?;
                }
                Err(error) if is_owned(&error) => break,
                owned => return owned,
            }
        }
        let wait = match self.arbiter {
            Arbiter::Attach => self.wait.max(ENDING_PATIENCE),
            _ => self.wait,
        };
        match self.own(folder.clone(), wait) {
            // One that was started by hand holds up nobody while it begins; it listens by now.
            Err(error) if is_of_arbiter(&error) => match Attached::open(&folder, &self.arbiter)? {
                Some(attached) => Domain::attached(attached),
                None => Err(error),
            },
            owned => owned,
        }
    }

    fn own(&self, folder: PathBuf, wait: Duration) -> Result<Domain, DomainError> {
        // Before anything is changed. Everything that is told of a process would be told of another.
        match observe::proc_is_ours() {
            Ok(true) => {}
            Ok(false) => return Err(DomainError::ForeignProc),
            Err(reason) => return Err(DomainError::NoProc(reason)),
        }
        observe::boot_is_told().map_err(DomainError::NoProc)?;
        let program = match &self.helper {
            Some(program) => program.clone(),
            None => find_helper()?,
        };
        if self.adopt_orphans {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                .map_err(|source| DomainError::Subreaper(source.into()))?;
        }
        // The first helper starts while the database is opened.
        let helpers = Helpers::new(program, 1, self.warm_helpers)?;
        let options = OpenOptions {
            wait,
            role: self.role,
            ..OpenOptions::default()
        };
        let journal = Journal::open(&folder, &options)?;
        let groups = Groups::new(journal.domain_id(), &folder);
        let max_bytes = self
            .max_artifact_bytes
            .unwrap_or(DEFAULT_MAX_ARTIFACT_BYTES);
        let artifacts = open_artifacts(folder.join("artifacts"), max_bytes)?;
        let (holders, holders_path) = open_holders(folder.join("holders"))?;
        let Recovered { decisions, swept } =
            recovery::recover(&journal, &artifacts, &holders_path, &groups).map_err(|source| {
                DomainError::Recovery {
                    path: folder.clone(),
                    source: Box::new(source),
                }
            })?;
        prune::finish_interrupted(&journal, &artifacts, &decisions).map_err(|source| {
            DomainError::Recovery {
                path: folder.clone(),
                source: Box::new(source.into()),
            }
        })?;
        let leases =
            restore_leases(&journal, self.budget).map_err(|source| DomainError::Recovery {
                path: folder.clone(),
                source: Box::new(source),
            })?;
        let inner = Inner {
            journal,
            leases,
            artifacts: Arc::new(artifacts),
            holders,
            flights: Flights::default(),
            unrecorded: Unrecorded::default(),
            helpers,
            groups,
            adopts_orphans: self.adopt_orphans,
            patience: self.patience,
            has_quota: self.max_artifact_bytes.is_some(),
            pruning: Mutex::new(()),
            folder,
        };
        Ok(Domain {
            backend: Backend::Own(Arc::new(inner)),
            recovered: decisions,
            swept,
        })
    }
}

/// Whether somebody else owns the domain.
fn is_owned(error: &DomainError) -> bool {
    matches!(error, DomainError::Journal(OpenError::Owned { .. }))
}

/// Whether that is an arbiter, by what it says of itself.
fn is_of_arbiter(error: &DomainError) -> bool {
    let DomainError::Journal(OpenError::Owned { owner, .. }) = error else {
        return false;
    };
    let role = owner.as_ref().and_then(|note| note.role);
    role == Some(OwnerRole::Arbiter)
}

fn open_artifacts(path: PathBuf, max_bytes: u64) -> Result<Artifacts, DomainError> {
    Artifacts::open(path.clone(), max_bytes).map_err(|source| DomainError::Folder { path, source })
}

fn open_holders(path: PathBuf) -> Result<(OwnedFd, PathBuf), DomainError> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NOFOLLOW;
    match rustix::fs::open(&path, flags, Mode::empty()) {
        Ok(folder) => Ok((folder, path)),
        Err(error) => Err(DomainError::Folder {
            path,
            source: io::Error::from(error),
        }),
    }
}

/// Held is what the journal says is leased, and what every unfinished operation needs. Only these
/// take a place. Whoever ended without proof has its part of the memory still.
fn restore_leases(journal: &Journal, budget: DomainBudget) -> Result<Leases, ExecuteError> {
    let mut table = LeaseTable::new(budget);
    let unsettled = journal.unsettled()?;
    for lease in unsettled.leases {
        let claim = Claim::of_resources(&[lease.resource_id]);
        table.restore(&lease.operation_id, &claim);
        table.keep(&lease.operation_id);
    }
    for operation in journal.unadjudicated(None)? {
        let claim = Claim {
            resources: Vec::new(),
            share: recorded_share(&operation),
        };
        table.restore(&operation.id, &claim);
        table.keep(&operation.id);
    }
    for operation in unsettled.operations {
        let claim = Claim {
            share: recorded_share(&operation),
            resources: operation.required_resources,
        };
        table.restore(&operation.id, &claim);
    }
    Ok(Leases::new(table))
}
