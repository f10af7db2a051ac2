//! What a contract is given: a stage, a way to work in it, and works that do what it needs.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest, Sha256};
use xioflow_kernel::journal::{OperationStatus, Owner, OwnerState, Query, Reader};
use xioflow_kit::{Deadline, Stage, Started, fixture_pids, wait};

use crate::contract::Unsupported;
use crate::document::Document;
use crate::ways::{Client, Event, Submitted, Terms, Way};
use crate::work::Work;

/// The event of a recorded result.
pub(crate) const RESULT: &str = "OPERATION_RESULT_RECORDED";

/// One case's world.
pub struct World<'a> {
    /// Its stage.
    pub stage: &'a Stage,
    way: &'a dyn Way,
}

impl<'a> World<'a> {
    pub(crate) fn new(stage: &'a Stage, way: &'a dyn Way) -> Self {
        Self { stage, way }
    }

    /// A client of the stage's domain with the usual terms.
    pub(crate) fn client(&self) -> Result<Box<dyn Client + '_>, Unsupported> {
        self.way.client(self.stage, &Terms::default())
    }

    pub(crate) fn client_with(&self, terms: &Terms) -> Result<Box<dyn Client + '_>, Unsupported> {
        self.way.client(self.stage, terms)
    }

    /// A program in the stage's environment and folder.
    pub(crate) fn program(&self, id: &str, program: impl Into<OsString>) -> Work {
        let mut work = Work::new(id, program, self.stage.path(""));
        work.env = self.stage.environment();
        work
    }

    pub(crate) fn fixture(&self, id: &str, arguments: &[&str]) -> Work {
        self.program(id, self.stage.fixture()).args(arguments)
    }

    /// A fixture that says when what it promises stands, and the file in which it does.
    pub(crate) fn announced(&self, id: &str, arguments: &[&str]) -> (Work, PathBuf) {
        let ready = self.stage.path(format!("ready-{id}"));
        let words = [&["--ready", text(&ready)], arguments].concat();
        (self.fixture(id, &words), ready)
    }

    pub(crate) fn shell(&self, id: &str, script: &str) -> Work {
        self.program(id, "/bin/sh").args(["-c", script])
    }

    /// A command that leaves a line in `trace` each time it runs.
    pub(crate) fn traced(&self, id: &str) -> Work {
        self.fixture(id, &["append-line", text(&self.trace()), id])
    }

    fn trace(&self) -> PathBuf {
        self.stage.path("trace")
    }

    /// The ids of the traced commands that have run, in their order.
    pub(crate) fn ran(&self) -> Vec<String> {
        let trace = fs::read_to_string(self.trace()).unwrap_or_default();
        trace.lines().map(str::to_owned).collect()
    }

    /// A traced command that says its pid, then waits at a gate of the test's, and exits with 0.
    pub(crate) fn gated(&self, id: &str) -> (Work, Gate) {
        let gate = Gate::new(self.stage, id);
        let script = format!(
            "echo {id} >> {}; echo $$ > {draft}; mv {draft} {}; read line < {}; exit 0",
            text(&self.trace()),
            text(&gate.reached),
            text(&gate.fifo),
            draft = text(&gate.reached.with_extension("draft")),
        );
        (self.shell(id, &script), gate)
    }

    /// The same, once it has printed more than a record has room for.
    pub(crate) fn talking_much(&self, id: &str) -> (Work, Gate) {
        let (talking, gate) = self.talking(id);
        let script = talking.args.last().expect("a script").display();
        (self.shell(id, &format!("seq 400000; {script}")), gate)
    }

    /// A traced command that says its pid, then prints each line that it is told, until `end`.
    pub(crate) fn talking(&self, id: &str) -> (Work, Gate) {
        let gate = Gate::new(self.stage, id);
        let script = format!(
            "exec 3< {}; echo {id} >> {}; echo $$ > {draft}; mv {draft} {}; \
             while read line <&3; do [ $line = end ] && exit 0; echo $line; done",
            text(&gate.fifo),
            text(&self.trace()),
            text(&gate.reached),
            draft = text(&gate.reached.with_extension("draft")),
        );
        (self.shell(id, &script), gate)
    }

    /// The domain's folder of stored output.
    pub(crate) fn artifacts(&self) -> PathBuf {
        self.stage.domain().join("artifacts")
    }

    /// The names of all stored files.
    pub(crate) fn stored_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.artifacts()).expect("the folder of stored output");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        names
    }

    /// Waits until an operation's result is recorded, by the journal's own wake-up.
    pub(crate) fn wait_recorded(&self, id: &str) {
        self.wait_for_record(id, |status| status == OperationStatus::Done);
    }

    /// Waits until an operation is in the record and its status is such a one.
    pub(crate) fn wait_for_record(&self, id: &str, is_it: impl Fn(OperationStatus) -> bool) {
        let deadline = Deadline::usual();
        let reader = self.reader(deadline);
        loop {
            let seen = reader.last_seq().expect("a readable journal");
            let found = reader.operation(id).expect("a readable journal");
            if found.as_ref().is_some_and(|found| is_it(found.status)) {
                return;
            }
            assert!(!deadline.passed(), "not in time: {found:#?}");
            reader
                .changed_since(seen, deadline.left())
                .expect("a readable journal");
        }
    }

    /// A reader of the domain, once it is there.
    fn reader(&self, deadline: Deadline) -> Reader {
        let domain = self.stage.domain();
        let there = || domain.exists().then_some(());
        wait::in_folder(self.stage.root(), deadline, there).expect("a domain");
        wait::file(&domain.join("domain.db"), deadline);
        Reader::open(domain).expect("a domain")
    }

    /// Waits until what a fixture has announced stands, and gives its processes.
    pub(crate) fn standing(&self, ready: &Path) -> Vec<u32> {
        wait::file(ready, Deadline::usual());
        fixture_pids(ready)
    }

    /// Somebody who looks on and has nothing to do with the client.
    pub(crate) fn observer(&self) -> Reader {
        self.reader(Deadline::usual())
    }

    /// The position of the newest event.
    pub(crate) fn last_seq(&self) -> i64 {
        self.observer().last_seq().expect("a readable journal")
    }

    /// Who owns the domain, as the record and the lock file say.
    pub(crate) fn owner(&self) -> (Option<Owner>, OwnerState) {
        let reader = self.observer();
        let row = reader.owner().expect("a readable journal");
        (row, reader.owner_state())
    }

    /// Somebody outside the tree who keeps a command's standard output open.
    pub(crate) fn stranger(&self, pid: u32) -> Stranger<'_> {
        let held = self.stage.path(format!("held-{pid}"));
        let script = format!(
            "exec 3> /proc/{pid}/fd/1 && : > {} && exec sleep 120",
            text(&held)
        );
        let holder = self.stage.run("/bin/sh").args(["-c", &script]).start();
        wait::file(&held, Deadline::usual());
        Stranger(holder)
    }

    /// A finished operation whose end nobody can prove, holding `resource`: a stranger has its
    /// standard output. Its command has run once.
    pub(crate) fn indeterminate<'b>(
        &self,
        id: &str,
        resource: &str,
        submit: impl FnOnce(&Work) -> Result<Box<dyn Submitted + 'b>, Unsupported>,
    ) -> Result<(Work, Document), Unsupported> {
        let (work, mut gate) = self.gated(id);
        let work = work.lease(resource);
        let submitted = submit(&work)?;
        let stranger = self.stranger(gate.wait_reached());
        gate.open();
        let document = submitted.wait().expect("a result");
        stranger.leave();
        assert!(
            document.text("status") == "indeterminate",
            "a stranger holds its output, and yet {document}"
        );
        Ok((work, document))
    }
}

/// Where a command waits until the test lets it go on.
pub(crate) struct Gate {
    reached: PathBuf,
    fifo: PathBuf,
    // Open for both, so that neither this waits for a reader nor what is written is lost.
    writer: File,
}

impl Gate {
    fn new(stage: &Stage, id: &str) -> Self {
        let fifo = stage.path(format!("gate-{id}"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from(0o600), 0).expect("a FIFO");
        let mut both = File::options();
        let writer = both.read(true).write(true).open(&fifo).expect("a FIFO");
        Self {
            reached: stage.path(format!("at-gate-{id}")),
            fifo,
            writer,
        }
    }

    /// Waits until the command is there; its pid.
    pub(crate) fn wait_reached(&self) -> u32 {
        wait::file(&self.reached, Deadline::usual());
        let pid = fs::read_to_string(&self.reached).expect("a pid");
        pid.trim().parse().expect("a pid")
    }

    /// Lets the command go on to its end, also if it is not there yet.
    pub(crate) fn open(&mut self) {
        self.writer.write_all(b"end\n").expect("room in a FIFO");
    }

    /// Has a talking command print until this submission sees something of it: then it has joined.
    pub(crate) fn talk_until_heard(&self, submitted: &mut dyn Submitted) {
        let heard = AtomicBool::new(false);
        let mut writer = self.writer.try_clone().expect("a descriptor");
        thread::scope(|scope| {
            scope.spawn(|| {
                while !heard.load(Ordering::Relaxed) {
                    writer.write_all(b"word\n").expect("room in a FIFO");
                }
            });
            // Also when the wait fails, or the scope would have no end.
            let _end = SetOnDrop(&heard);
            submitted.wait_for_output(b"word\n");
        });
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A process outside the tree of a command that holds the command's output.
pub(crate) struct Stranger<'a>(Started<'a>);

impl Stranger<'_> {
    pub(crate) fn leave(self) {
        self.0.signal(Signal::KILL);
        self.0.finish();
    }
}

/// The kinds of the events of one operation, in order.
pub(crate) fn kinds(client: &dyn Client, id: &str) -> Vec<String> {
    let of_it = |event: &Event| event.operation_id.as_deref() == Some(id);
    let events = client.events().into_iter();
    events.filter(of_it).map(|event| event.kind).collect()
}

/// Checks that an operation has exactly one event of a recorded result.
pub(crate) fn assert_one_result(client: &dyn Client, id: &str) {
    let kinds = kinds(client, id);
    let results = kinds.iter().filter(|kind| *kind == RESULT).count();
    assert!(results == 1, "{results} results of {id} in {kinds:?}");
}

/// Checks that none of these processes lives.
pub(crate) fn assert_gone(pids: &[u32]) {
    let living: Vec<_> = pids.iter().filter(|pid| wait::is_alive(**pid)).collect();
    assert!(living.is_empty(), "of {pids:?} there live {living:?}");
}

/// Ends a process that the test has caused.
pub(crate) fn kill(pid: u32) {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    kill_process(raw.expect("a pid"), Signal::KILL).expect("a process of the test");
    assert!(wait::pid_gone(pid, Deadline::usual()), "{pid} lives on");
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path that is known to be text.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("an ASCII path")
}

/// Longer than any contract takes, for waits that are to be ended by an event.
pub(crate) const LONG: Duration = Duration::from_secs(60);
