//! What is there after a recovery: the record, the files, the effects. Read without the owner's code where
//! that matters: SQLite itself says whether the database is whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use xioflow_kernel::journal::{
    Event, Lease, Operation, OperationFilter, Outcome, Output, Query, Reader, Run,
};

use crate::folder::Folder;

/// The event of a recorded result.
pub(crate) const RESULT: &str = "OPERATION_RESULT_RECORDED";

/// A domain that nobody owns at the moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Picture {
    /// What SQLite finds wrong with the database.
    pub(crate) damage: Vec<String>,
    /// By id.
    pub(crate) operations: BTreeMap<String, Operation>,
    pub(crate) outputs: BTreeMap<String, Vec<Output>>,
    pub(crate) runs: Vec<Run>,
    pub(crate) leases: Vec<Lease>,
    pub(crate) events: Vec<Event>,
    /// Names in the folder of stored output.
    pub(crate) artifacts: Vec<String>,
    /// Names in the folder of last words.
    pub(crate) words: Vec<String>,
    /// Names in the domain's folder.
    pub(crate) files: Vec<String>,
    /// How often each command has run.
    pub(crate) effects: BTreeMap<String, usize>,
}

impl Picture {
    /// Takes one.
    ///
    /// # Panics
    /// If the journal cannot be read.
    pub(crate) fn take(folder: &Folder) -> Self {
        let domain = folder.domain();
        let reader = Reader::open(&domain).expect("a journal that can be read");
        let filter = OperationFilter::default();
        let operations = reader.operations(&filter).expect("operations");
        let outputs = operations.iter().map(|operation| {
            let outputs = reader.outputs(&operation.id).expect("outputs");
            (operation.id.clone(), outputs)
        });
        Self {
            damage: damage(&domain.join("domain.db")),
            outputs: outputs.collect(),
            runs: reader.runs(None).expect("Runs"),
            leases: reader.leases().expect("leases"),
            events: reader.events(0, None, None).expect("events"),
            artifacts: names(&domain.join("artifacts")),
            words: names(&domain.join("holders")),
            files: names(&domain),
            effects: effects(&folder.effects()),
            operations: operations
                .into_iter()
                .map(|one| (one.id.clone(), one))
                .collect(),
        }
    }

    /// The results that are journalled for an operation.
    pub(crate) fn results_of(&self, id: &str) -> usize {
        let is_result =
            |event: &&Event| event.kind == RESULT && event.operation_id.as_deref() == Some(id);
        self.events.iter().filter(is_result).count()
    }

    /// Whether nobody could prove how it ended.
    pub(crate) fn is_unproven(&self, id: &str) -> bool {
        let operation = self.operations.get(id);
        operation.is_some_and(|it| it.outcome == Some(Outcome::Indeterminate))
    }

    /// Whether, besides, nobody has decided about it.
    pub(crate) fn is_isolated(&self, id: &str) -> bool {
        let operation = self.operations.get(id);
        self.is_unproven(id) && operation.is_some_and(|it| it.adjudication.is_none())
    }

    /// The outputs that are recorded to be in this file.
    pub(crate) fn outputs_in(&self, name: &str) -> impl Iterator<Item = &Output> {
        let outputs = self.outputs.values().flatten();
        outputs.filter(move |output| output.artifact.as_deref() == Some(name))
    }

    /// Whether it is recorded that a file was given up.
    pub(crate) fn is_pruned(&self, name: &str) -> bool {
        self.outputs_in(name)
            .any(|output| output.pruned_at_ms.is_some())
    }

    pub(crate) fn effects_of(&self, id: &str) -> usize {
        self.effects.get(id).copied().unwrap_or(0)
    }

    /// A number of a finished operation's recorded result, such as its exit status.
    pub(crate) fn exit_code_of(operation: &Operation) -> Option<i64> {
        operation.result.as_ref()?["exitCode"].as_i64()
    }
}

fn damage(database: &Path) -> Vec<String> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).expect("a database");
    let mut found = lines(&connection, "PRAGMA integrity_check");
    found.retain(|line| line != "ok");
    found.extend(lines(
        &connection,
        "SELECT 'row without its parent in ' || \"table\" FROM pragma_foreign_key_check",
    ));
    found
}

fn lines(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).expect("a question to SQLite");
    let rows = statement
        .query_map([], |row| row.get(0))
        .expect("an answer");
    rows.collect::<Result<_, _>>().expect("text")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder of the domain");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries
        .map(|entry| name(entry).to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

fn effects(path: &Path) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(path).unwrap_or_default().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}
