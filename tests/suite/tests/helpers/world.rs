//! A domain with a helper that follows a script, and what the process has before and after it.

use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use xioflow_kernel::journal::{Outcome, Query};
use xioflow_kernel::{
    Command, Domain, DomainOptions, ExecuteError, HelperLost, HelperPatience, LinkError,
    OperationBuilder, OperationResult,
};
use xioflow_kit::{Deadline, Stage, wait};

/// The tests count the descriptors and children of the whole process, so one runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// The operation that meets the false helper.
pub(crate) const ID: &str = "op";
/// What it holds.
pub(crate) const LEASE: &str = "db";

/// What a helper is told and answers up to the release.
pub(crate) const TO_THE_GATE: &str = "hear-hello,say-hello,hear-launch,say-spawned,hear-release";

/// Patience for tests of silence: far more than anything takes, and not long to wait for.
pub(crate) const SHORT: HelperPatience = HelperPatience {
    launch: Duration::from_millis(1500),
    report: Duration::from_millis(1500),
    stop: Duration::from_millis(500),
};

/// A test's world.
pub(crate) struct World {
    pub(crate) stage: Stage,
    pub(crate) domain: Domain,
    helper: PathBuf,
    options: DomainOptions,
    descriptors: usize,
    _alone: Alone,
}

/// The right to be the only test.
struct Alone(#[expect(dead_code, reason = "held, not read")] MutexGuard<'static, ()>);

impl Drop for Alone {
    /// Undoes, before the next test begins, what a domain that adopts orphans has made of this process.
    fn drop(&mut self) {
        rustix::process::set_child_subreaper(None).expect("nothing refuses that");
    }
}

impl World {
    pub(crate) fn new(script: &str) -> Self {
        Self::with(script, DomainOptions::default())
    }

    pub(crate) fn impatient(script: &str) -> Self {
        Self::with(script, DomainOptions::default().helper_patience(SHORT))
    }

    pub(crate) fn with(script: &str, options: DomainOptions) -> Self {
        // A failed test has left the count as it was, or says so itself.
        let alone = Alone(ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        let stage = Stage::new();
        let descriptors = descriptors();
        let helper = stage.root().join("bin").join(script);
        fs::hard_link(stage.program("xioflow-false-helper"), &helper).expect("a name of 255 bytes");
        // No helper in advance: the first one is there when the domain is open, each next one is
        // started when it is needed, and can be another program.
        let options = options.helper(&helper).warm_helpers(0);
        let domain = options.open(stage.domain()).expect("a domain");
        Self {
            stage,
            domain,
            helper,
            options,
            descriptors,
            _alone: alone,
        }
    }

    /// A command in the stage's environment.
    pub(crate) fn fixture(&self, words: &[&str]) -> Command {
        let command = Command::new(self.stage.fixture())
            .args(words.to_vec())
            .cwd(self.stage.path(""));
        let environment = self.stage.environment().into_iter();
        environment.fold(command, |command, (name, value)| command.env(name, value))
    }

    /// A command that leaves a line in the stage's `trace` each time it runs.
    pub(crate) fn traced(&self) -> Command {
        let trace = self.stage.path("trace");
        self.fixture(&["append-line", trace.to_str().expect("an ASCII path")])
    }

    pub(crate) fn times_run(&self) -> usize {
        fs::read_to_string(self.stage.path("trace")).map_or(0, |trace| trace.lines().count())
    }

    /// An operation with the id and the lease of all tests here.
    pub(crate) fn operation(&self, command: Command) -> OperationBuilder {
        let operation = self.domain.operation(command).expect("a builder");
        operation.id(ID).lease(LEASE)
    }

    /// Runs a traced command as that operation.
    pub(crate) fn run(&self) -> Result<OperationResult, ExecuteError> {
        in_time(self.operation(self.traced()))
    }

    /// What the helpers have done: process ids and words.
    pub(crate) fn done(&self) -> Vec<(u32, String)> {
        let text = fs::read_to_string(self.diary()).unwrap_or_default();
        text.lines().map(parse).collect()
    }

    /// Waits until a helper has done this, and says which.
    pub(crate) fn wait_done(&self, what: &str) -> u32 {
        let diary = self.diary();
        let found = wait::in_folder(diary.parent().expect("a folder"), Deadline::usual(), || {
            let done = self.done().into_iter();
            done.rev().find(|(_, done)| done == what)
        });
        found
            .unwrap_or_else(|| panic!("no helper has {what:?}: {:?}", self.done()))
            .0
    }

    fn diary(&self) -> PathBuf {
        let mut name = self.helper.clone().into_os_string();
        name.push(".done");
        name.into()
    }

    /// From now on the helper that is started is the true one.
    fn use_true_helper(&self) {
        let beside = self.helper.with_extension("true");
        fs::hard_link(self.stage.program("xioflow-reaper"), &beside).expect("another name");
        fs::rename(beside, &self.helper).expect("the name of the false one");
    }

    /// The helper failed while nothing had run: nothing is recorded, nothing is held, and the same
    /// id runs with the next helper.
    pub(crate) fn assert_nothing_happened(self) {
        assert_eq!(self.times_run(), 0, "it ran: {:?}", self.done());
        let journal = self.domain.journal();
        assert_eq!(journal.operation(ID).expect("readable"), None);
        assert_eq!(journal.leases().expect("readable"), []);
        self.assert_helpers_gone();
        self.use_true_helper();
        let result = self.run().expect("a result with a true helper");
        assert_eq!((result.status, self.times_run()), (Outcome::Succeeded, 1));
        self.close();
    }

    /// The operation has an end that is known: nothing is held, its id is answered from the record,
    /// and the domain goes on.
    pub(crate) fn assert_settled(self, result: &OperationResult) {
        assert_ne!(result.status, Outcome::Indeterminate, "{result:?}");
        self.assert_recorded(result);
        assert_eq!(self.domain.journal().leases().expect("readable"), []);
        self.use_true_helper();
        let next = self.domain.operation(self.fixture(&["exit", "0"]));
        let next = in_time(next.expect("a builder").lease(LEASE)).expect("a result");
        assert_eq!(next.status, Outcome::Succeeded);
        self.close();
    }

    /// Nobody knows how the operation ended: it says so, keeps what it holds also for the next
    /// owner, its id is answered from the record, and the domain goes on.
    pub(crate) fn assert_indeterminate(self, result: &OperationResult, why: &str) {
        assert_eq!(result.status, Outcome::Indeterminate, "{result:?}");
        let reason = result.reason.as_deref().unwrap_or_default();
        assert!(reason.contains(why), "{reason:?} does not say {why:?}");
        assert!(result.recovery_guidance.is_some());
        self.assert_recorded(result);
        self.use_true_helper();
        self.assert_held();
        let free = in_time(
            self.domain
                .operation(self.fixture(&["exit", "0"]))
                .expect("a builder"),
        );
        assert_eq!(free.expect("a result").status, Outcome::Succeeded);
        let again = self.reopen();
        again.assert_held();
        again.close();
    }

    fn assert_recorded(&self, result: &OperationResult) {
        let ran = self.times_run();
        assert!(ran <= 1);
        let again = in_time(self.operation(self.traced()));
        // Only the command of `run` is the same one; another has its own fingerprint.
        if let Ok(again) = again {
            assert!(again.replayed);
            assert_eq!(again.status, result.status);
            assert_eq!(again.reason, result.reason);
        }
        assert_eq!(self.times_run(), ran, "it ran again");
        let recorded = self.domain.journal().operation(ID).expect("readable");
        assert_eq!(
            recorded.expect("it is recorded").outcome,
            Some(result.status)
        );
    }

    fn assert_held(&self) {
        let next = self.domain.operation(self.fixture(&["exit", "0"]));
        let error = in_time(next.expect("a builder").lease(LEASE)).expect_err("it is held");
        let ExecuteError::ResourceConflict { holder, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(holder, ID);
    }

    /// The same domain for the next owner.
    fn reopen(self) -> Self {
        let Self {
            stage,
            domain,
            helper,
            options,
            descriptors,
            _alone,
        } = self;
        drop(domain);
        let domain = options.open(stage.domain()).expect("the domain again");
        assert_eq!(domain.recovered(), [], "nothing was left to settle");
        Self {
            stage,
            domain,
            helper,
            options,
            descriptors,
            _alone,
        }
    }

    /// One that is not needed any more is ended at once, and not when the domain is closed.
    fn assert_helpers_gone(&self) {
        gone(&self.done());
    }

    /// Closes the domain and counts: what the process had before it has now, and no child.
    pub(crate) fn close(self) {
        let helpers = self.done();
        drop(self.domain);
        gone(&helpers);
        // Who starts the next helper collects those that were left to themselves.
        let next = self.options.open(self.stage.path("next"));
        drop(next.expect("another domain"));
        assert_eq!(children(), "", "children are left");
        assert_eq!(descriptors(), self.descriptors, "descriptors are left");
    }
}

fn gone(helpers: &[(u32, String)]) {
    for (pid, done) in helpers {
        assert!(wait::pid_gone(*pid, Deadline::usual()), "{pid} {done}");
    }
}

fn parse(line: &str) -> (u32, String) {
    let (pid, what) = line.split_once(' ').expect("a process id and words");
    (pid.parse().expect("a process id"), what.to_owned())
}

/// Runs an operation that must not take for ever.
pub(crate) fn in_time(operation: OperationBuilder) -> Result<OperationResult, ExecuteError> {
    let (sender, receiver) = mpsc::channel();
    let worker = thread::spawn(move || sender.send(operation.run()).is_ok());
    let result = receiver.recv_timeout(Deadline::USUAL).expect("it hangs");
    // The thread's descriptors are closed when it is over.
    assert!(worker.join().expect("no panic"), "somebody receives");
    result
}

/// What happened to the helper of an operation that was not recorded.
pub(crate) fn lost(error: ExecuteError) -> HelperLost {
    match error {
        ExecuteError::Helper(LinkError::Lost(lost)) => lost,
        other => panic!("{other:?}"),
    }
}

/// Lets a stopped process go on. The supervisor may have done so before: then it can have heard of its
/// end, and be gone.
pub(crate) fn thaw(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a pid");
    match kill_process(pid, Signal::CONT) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => panic!("{pid:?} is not continued: {error}"),
    }
}

/// Ends a process that a test has caused.
pub(crate) fn kill(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .expect("a pid");
    // It may have ended meanwhile.
    kill_process(pid, Signal::KILL).ok();
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd")
        .expect("/proc is mounted")
        .count()
}

/// The pids of all children, zombies among them.
fn children() -> String {
    let tasks = fs::read_dir("/proc/self/task").expect("/proc is mounted");
    let lists = tasks.map(|task| task.expect("a thread").path().join("children"));
    lists
        .map(|list| fs::read_to_string(list).unwrap_or_default())
        .collect()
}
