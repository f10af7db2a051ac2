//! A domain whose storage fails, an operation in it that leaves a mark when it runs, and what must hold
//! of both when the storage works again.

use std::fs;
use std::path::PathBuf;

use rusqlite::{Connection, OpenFlags};
use xioflow_kit::{Finished, Run, Stage};

/// What a command may have ended in, for its caller, that was hit by a fault of the storage: the
/// command's own success, a failure of ours, or a domain that could not be opened.
const TOLD: [i32; 3] = [0, 70, 73];

pub(crate) struct World<'a> {
    pub(crate) stage: &'a Stage,
    /// What is under test here, for messages.
    pub(crate) title: String,
    pub(crate) domain: PathBuf,
    marks: PathBuf,
}

impl<'a> World<'a> {
    /// A domain that does not exist yet.
    pub(crate) fn new(stage: &'a Stage, title: impl Into<String>) -> Self {
        let folder = stage.folder("world");
        fs::remove_dir_all(&folder).expect("a folder of ours");
        stage.folder("world");
        Self {
            stage,
            title: title.into(),
            domain: folder.join("domain"),
            marks: folder.join("marks"),
        }
    }

    /// A script that leaves a mark, prints more than the journal takes, and succeeds.
    pub(crate) fn script(&self) -> String {
        let marks = self.marks.display();
        format!("echo ran >>'{marks}'; head -c 300000 /dev/zero | tr '\\0' x")
    }

    /// The words of the operation.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = "run --no-arbiter --op a --lease disk -- sh -c";
        let words = words.split(' ').map(str::to_owned);
        words.chain([self.script()]).collect()
    }

    /// A run of the program in the domain.
    pub(crate) fn xioflow(&self) -> Run<'a> {
        self.stage.xioflow().env("XIOFLOW_DOMAIN", &self.domain)
    }

    /// How often the operation has run.
    pub(crate) fn marks(&self) -> usize {
        fs::read_to_string(&self.marks).map_or(0, |text| text.lines().count())
    }

    /// What was told while the storage failed: an end that is ours, in words, with a file.
    pub(crate) fn told(&self, finished: &Finished) {
        let complaint = String::from_utf8_lossy(&finished.stderr);
        let code = finished.status.code();
        self.expect(finished, !complaint.contains("panicked"), "nothing panics");
        let known = code.is_some_and(|code| TOLD.contains(&code));
        self.expect(finished, known, "the exit status is one of ours");
        if code != Some(0) {
            let named = complaint.contains(&*self.domain.to_string_lossy());
            self.expect(finished, named, "the message names the file");
        } else {
            let ran = self.marks() == 1;
            self.expect(finished, ran, "what is told to have succeeded ran once");
        }
        self.expect(finished, self.marks() <= 1, "nothing runs twice");
    }

    /// With storage that works again: asked for once more, the operation has one effect in all,
    /// what was told stands, and nothing is unfinished or held. Says how it is recorded.
    pub(crate) fn holds(&self, told: &Finished) -> String {
        let before = self.marks();
        let again = self.xioflow().args(self.words()).finish();
        let recorded = self.ask("SELECT outcome FROM operations WHERE id = 'a'");
        if told.status.code() == Some(0) {
            self.expect(&again, recorded == "succeeded", "what was told is recorded");
        }
        if recorded == "succeeded" {
            self.expect(&again, self.marks() == 1, "it ran once");
        } else {
            let same = self.marks() == before;
            self.expect(&again, same, "what is recorded is not run again");
        }
        let unfinished = self.ask("SELECT count(*) || '' FROM operations WHERE status <> 'done'");
        self.expect(&again, unfinished == "0", "nothing is unfinished");
        let held = self.ask("SELECT count(*) || '' FROM resource_leases");
        let kept = recorded == "indeterminate";
        self.expect(
            &again,
            (held != "0") == kept,
            "a lease is kept if and only if the end is unknown",
        );
        let sound = self.ask("PRAGMA integrity_check");
        self.expect(&again, sound == "ok", "the database is whole");
        recorded
    }

    #[track_caller]
    pub(crate) fn expect(&self, finished: &Finished, holds: bool, what: &str) {
        assert!(holds, "{}: not true that {what}\n{finished}", self.title);
    }

    /// One text of the record.
    pub(crate) fn ask(&self, question: &str) -> String {
        let path = self.domain.join("domain.db");
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let database = database.expect("a database");
        let answer = database.query_row(question, [], |row| row.get(0));
        answer.unwrap_or_else(|error| panic!("{}: {question}: {error}", self.title))
    }
}
