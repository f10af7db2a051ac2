//! Dishonest variants: after a true recovery something is done to the domain that no product may do. Each
//! has to be found, by the promise that it breaks; else that promise could not fail.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Command, Stdio};

use rusqlite::Connection;

use crate::folder::Folder;
use crate::work::OPERATION_VARIABLE;

/// A way to be wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lie {
    pub(crate) name: &'static str,
    /// The case it is told about, as `<scenario>/<label>#<n>/<whom>`.
    pub(crate) about: &'static str,
    /// The promise that has to find it.
    pub(crate) promise: &'static str,
    deed: Deed,
}

/// What is done.
#[derive(Debug, Clone, Copy)]
enum Deed {
    /// A statement in the database after the recovery.
    Sql(&'static str),
    /// The same after everything was submitted again.
    LaterSql(&'static str),
    /// A command's effect once more, after the recovery.
    Effect(&'static str),
    /// The same after everything was submitted again.
    LaterEffect(&'static str),
    /// A process of this operation that lives on.
    Process(&'static str),
    /// A file in the domain's folder.
    File(&'static str),
    /// The decisions are told with this verdict.
    Verdict(&'static str),
}

const OWNER: &str = "cancel/supervisor:process-running#1/owner";
const BOTH: &str = "cancel/supervisor:process-running#1/both";
const ENDED: &str = "complete/close:before-release#1/owner";

const fn lie(name: &'static str, about: &'static str, promise: &'static str, deed: Deed) -> Lie {
    Lie {
        name,
        about,
        promise,
        deed,
    }
}

/// All of them.
pub(crate) const LIES: &[Lie] = &[
    lie("leaves-it-active", OWNER, "I1", Deed::Sql(UNFINISH)),
    lie("keeps-a-lease", ENDED, "I2", Deed::Sql(LEASE)),
    lie(
        "frees-everything",
        BOTH,
        "kept",
        Deed::Sql("DELETE FROM resource_leases"),
    ),
    lie("leaves-a-process", OWNER, "I3", Deed::Process("long")),
    lie("runs-it-again", ENDED, "I4", Deed::Effect("brief")),
    lie(
        "runs-what-is-on-no-record",
        "complete/open:locked#1/owner",
        "I4",
        Deed::Effect("brief"),
    ),
    lie(
        "makes-up-a-success",
        OWNER,
        "I5",
        Deed::Sql("UPDATE operations SET outcome = 'succeeded'"),
    ),
    lie("makes-up-an-exit", BOTH, "seen", Deed::Sql(EXIT)),
    lie("records-a-result-twice", ENDED, "I6", Deed::Sql(RESULT)),
    lie("marks-it-dead", OWNER, "I7", Deed::Verdict("marked_dead")),
    lie(
        "runs-it-again-when-asked",
        ENDED,
        "I8",
        Deed::LaterEffect("brief"),
    ),
    lie("isolates-needlessly", OWNER, "needless", Deed::Sql(ISOLATE)),
    lie("explains-nothing", BOTH, "explained", Deed::Sql(UNEXPLAIN)),
    lie("blames-the-weather", BOTH, "explained", Deed::Sql(MISBLAME)),
    lie(
        "forgets-what-it-told",
        ENDED,
        "told",
        Deed::Sql("UPDATE runs SET status = 'failed'"),
    ),
    lie(
        "leaves-a-spool-file",
        ENDED,
        "files",
        Deed::File("artifacts/brief-stdout.log"),
    ),
    lie(
        "leaves-a-last-word",
        ENDED,
        "files",
        Deed::File("holders/brief.word"),
    ),
    lie("damages-the-record", ENDED, "whole", Deed::Sql(ORPHAN)),
    lie(
        "changes-its-mind",
        OWNER,
        "settled",
        Deed::LaterSql("UPDATE operations SET outcome = 'succeeded'"),
    ),
];

const UNFINISH: &str = "UPDATE operations SET status = 'active', outcome = NULL, result_json = NULL, finished_at_ms = NULL";
const LEASE: &str = "INSERT INTO resource_leases (resource_id, operation_id, acquired_at_ms) VALUES ('db', 'brief', 1)";
const EXIT: &str = "UPDATE operations SET result_json = json_set(result_json, '$.exitCode', 0)";
const RESULT: &str =
    "INSERT INTO journal_events (run_id, operation_id, type, payload_json, timestamp_ms)
    SELECT run_id, operation_id, type, payload_json, timestamp_ms FROM journal_events
    WHERE type = 'OPERATION_RESULT_RECORDED'";
const ISOLATE: &str = "UPDATE operations SET outcome = 'indeterminate'";
const MISBLAME: &str =
    "UPDATE operations SET result_json = json_set(result_json, '$.reason', 'it rained')";
const UNEXPLAIN: &str = "UPDATE operations SET result_json = json_remove(result_json, '$.reason')";
const ORPHAN: &str =
    "PRAGMA foreign_keys = OFF; UPDATE operations SET run_id = 'none' WHERE id = 'own'";

/// The lie of this name.
pub(crate) fn named(name: &str) -> Option<Lie> {
    LIES.iter().find(|lie| lie.name == name).copied()
}

impl Lie {
    pub(crate) fn tell_after_recovery(self, folder: &Folder) {
        match self.deed {
            Deed::Sql(sql) => alter(folder, sql),
            Deed::Effect(id) => effect(folder, id),
            Deed::Process(id) => leave_process(folder, id),
            Deed::File(name) => {
                fs::write(folder.domain().join(name), "x").expect("room for a byte")
            }
            Deed::Verdict(verdict) => retell(folder, verdict),
            Deed::LaterSql(_) | Deed::LaterEffect(_) => {}
        }
    }

    pub(crate) fn tell_after_resubmission(self, folder: &Folder) {
        match self.deed {
            Deed::LaterSql(sql) => alter(folder, sql),
            Deed::LaterEffect(id) => effect(folder, id),
            Deed::Sql(_)
            | Deed::Effect(_)
            | Deed::Process(_)
            | Deed::File(_)
            | Deed::Verdict(_) => {}
        }
    }
}

/// Nobody owns the domain at this moment. What the schema itself forbids is done past it.
fn alter(folder: &Folder, sql: &str) {
    let database = Connection::open(folder.domain().join("domain.db")).expect("a database");
    let guards = "SELECT 'DROP TRIGGER ' || name FROM sqlite_schema WHERE type = 'trigger'
                  UNION ALL SELECT 'DROP INDEX ' || name FROM sqlite_schema WHERE type = 'index' AND sql NOT NULL";
    let mut statement = database.prepare(guards).expect("a question to SQLite");
    let rows = statement
        .query_map([], |row| row.get::<_, String>(0))
        .expect("an answer");
    let drops: Vec<String> = rows.collect::<Result<_, _>>().expect("text");
    drop(statement);
    let all = format!(
        "PRAGMA ignore_check_constraints = ON; {}; {sql}",
        drops.join("; ")
    );
    database
        .execute_batch(&all)
        .expect("a lie that SQLite takes");
}

fn effect(folder: &Folder, id: &str) {
    let mut effects = File::options()
        .append(true)
        .create(true)
        .open(folder.effects())
        .expect("effects");
    effects
        .write_all(format!("{id}\n").as_bytes())
        .expect("room for a line");
}

/// Whoever runs the case ends it.
#[expect(
    clippy::zombie_processes,
    reason = "the case waits for all of its children"
)]
fn leave_process(folder: &Folder, id: &str) {
    Command::new(folder.fixture())
        .args(["--ttl", "60", "sleep"])
        .env(OPERATION_VARIABLE, id)
        .stdin(Stdio::null())
        .spawn()
        .expect("a fixture");
}

fn retell(folder: &Folder, verdict: &str) {
    let told = fs::read_to_string(folder.decisions()).expect("decisions");
    let mut decisions: serde_json::Value = serde_json::from_str(&told).expect("decisions");
    for decision in decisions.as_array_mut().expect("a list") {
        decision["verdict"] = verdict.into();
    }
    fs::write(folder.decisions(), decisions.to_string()).expect("a file of the case");
}
