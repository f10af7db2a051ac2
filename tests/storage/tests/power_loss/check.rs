//! Opens what a power failure has left, with the real program, and looks whether it is true.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use sha2::{Digest, Sha256};
use xioflow_kit::{Finished, Run, Stage, running_as_root};
use xioflow_storage::disk::{Found, Tree};
use xioflow_storage::recording::{Event, What};

/// Puts another boot in the place of this one, as a machine has after its power came back.
const BOOT: &str = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;
/// What a last word says of an operation's end. Its output is no part of it.
const END: [&str; 5] = [
    "status",
    "exitCode",
    "signal",
    "terminationReason",
    "evidence",
];
/// What of the output nobody may be told otherwise later.
const OUTPUT: [&str; 5] = [
    "stdoutBytes",
    "stdoutHash",
    "stdoutRef",
    "stderrHash",
    "stderrRef",
];

/// What somebody was told up to a moment.
#[derive(Debug, Clone, Default, Hash)]
pub(crate) struct Facts {
    told: BTreeMap<OsString, Vec<u8>>,
    helpers_ended: usize,
}

impl Facts {
    /// Those of all events.
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut facts = Self::default();
        for event in events {
            facts.learn(&event.what);
        }
        facts
    }

    pub(crate) fn learn(&mut self, what: &What) {
        match what {
            What::Told(name, bytes) => {
                let told = self.told.entry(name.clone()).or_default();
                told.extend_from_slice(bytes);
            }
            What::Ended(program) if program.ends_with("xioflow-reaper") => self.helpers_ended += 1,
            What::Ended(_) | What::Changed(..) => {}
        }
    }

    /// A document that was told to its end.
    pub(crate) fn json(&self, name: &str) -> Option<Value> {
        serde_json::from_slice(self.told.get(&OsString::from(name))?).ok()
    }

    /// The operations that have shown that they ran, or whose result was told.
    fn operations(&self) -> impl Iterator<Item = &str> {
        let names = self.told.keys().filter_map(|name| name.to_str());
        names.filter_map(|name| name.strip_prefix("effect."))
    }

    /// The results that were told.
    fn answers(&self) -> impl Iterator<Item = (&str, Value)> {
        let names = self.told.keys().filter_map(|name| name.to_str());
        names.filter_map(|name| {
            let (kind, operation) = name.split_once('.')?;
            match (kind, self.json(name)?) {
                ("answer", result) => Some((operation, result)),
                ("shown", mut shown) => Some((operation, shown["result"].take())),
                _ => None,
            }
        })
    }
}

/// One disk that a power failure has left, in its place.
struct Remains<'a> {
    stage: &'a Stage,
    title: &'a str,
    domain: PathBuf,
    boot_id: PathBuf,
}

/// Looks at what is left: whole, true, and usable.
pub(crate) fn check(
    stage: &Stage,
    title: &str,
    tree: &Tree,
    facts: &Facts,
    settled: &Option<(String, Value)>,
) {
    let folder = stage.folder("disk");
    put(&folder, tree);
    let remains = Remains {
        stage,
        title,
        domain: folder.join("domain"),
        boot_id: stage.write("boot", "00000000-0000-4000-8000-000000000001\n", 0o644),
    };
    remains.read_as_it_is(facts);
    let fresh = remains.run_fresh();
    remains.expect(&fresh, fresh.status.code() == Some(0), "it is usable");
    remains.all_is_settled();
    remains.facts_are_kept(facts);
    if let Some((operation, shown)) = settled.as_ref().filter(|_| facts.helpers_ended > 0) {
        remains.says_the_same(operation, &shown["result"], &END);
    }
    fs::remove_dir_all(&folder).expect("a folder of ours");
}

fn put(folder: &Path, tree: &Tree) {
    for (name, found) in tree {
        let path = folder.join(name);
        match found {
            Found::File(content) => fs::write(&path, content).expect("a file"),
            Found::Folder(inside) => {
                fs::create_dir(&path).expect("a folder");
                put(&path, inside);
            }
        }
    }
}

impl Remains<'_> {
    /// Becomes the next owner, on a machine that was booted again.
    fn run_fresh(&self) -> Finished {
        let program = self.stage.program("xioflow");
        let run = if running_as_root() {
            let run = self.stage.run("unshare");
            let run = run.args(["--mount", "sh", "-c", BOOT]);
            run.arg(&self.boot_id).arg(program)
        } else {
            self.stage.run(program)
        };
        self.finish(run.args(["run", "--no-arbiter", "--op", "fresh", "--", "true"]))
    }

    fn xioflow(&self, words: &[&str]) -> Finished {
        self.finish(self.stage.xioflow().args(words))
    }

    fn finish(&self, run: Run<'_>) -> Finished {
        let finished = run.env("XIOFLOW_DOMAIN", &self.domain).finish();
        let lives = finished.status.code().is_some_and(|code| code < 128);
        let complaint = String::from_utf8_lossy(&finished.stderr);
        let panicked = complaint.contains("panicked");
        self.expect(&finished, lives && !panicked, "nothing panics");
        finished
    }

    #[track_caller]
    fn expect(&self, finished: &Finished, holds: bool, what: &str) {
        assert!(holds, "{}: not true that {what}\n{finished}", self.title);
    }

    fn json(&self, words: &[&str]) -> Value {
        let finished = self.xioflow(words);
        let document = serde_json::from_slice(&finished.stdout);
        document.unwrap_or_else(|error| panic!("{}: {error}\n{finished}", self.title))
    }

    /// Who only reads must see what was told before anybody has repaired anything.
    fn read_as_it_is(&self, facts: &Facts) {
        let list = self.xioflow(&["list", "--json"]);
        let listed = String::from_utf8_lossy(&list.stdout).into_owned();
        for operation in facts.operations() {
            let id = format!("\"operationId\": \"{operation}\"");
            self.expect(&list, listed.contains(&id), "a reader sees what ran");
        }
    }

    /// Nothing is unfinished or lost, nothing holds a lease that should not, and the database is whole.
    fn all_is_settled(&self) {
        let events = self.xioflow(&["events", "--json"]);
        self.expect(
            &events,
            events.status.code() == Some(0),
            "events can be read",
        );
        let database = self.domain.join("domain.db");
        let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let database = database.expect("a database");
        for (ask, expected) in [
            ("PRAGMA integrity_check", "ok"),
            ("SELECT count(*) || '' FROM pragma_foreign_key_check", "0"),
            (
                "SELECT count(*) || '' FROM operations WHERE status <> 'done'",
                "0",
            ),
            ("SELECT count(*) || '' FROM resource_leases", "0"),
        ] {
            let found: String = database.query_row(ask, [], |row| row.get(0)).expect(ask);
            assert_eq!(found, expected, "{}: {ask}", self.title);
        }
        self.files_are_what_is_recorded(&database);
    }

    fn files_are_what_is_recorded(&self, database: &Connection) {
        let ask = "SELECT artifact, sha256, spill_error FROM operation_outputs \
                   WHERE artifact NOT NULL AND pruned_at_ms IS NULL";
        let mut outputs = database.prepare(ask).expect(ask);
        let rows = outputs.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        for row in rows.expect(ask) {
            let (name, hash, error): (String, Option<String>, Option<String>) = row.expect(ask);
            let content = fs::read(self.domain.join("artifacts").join(&name));
            let found = content.as_deref().map(hex).map_err(ToString::to_string);
            let is_told = error.is_some() && hash.is_none();
            let title = self.title;
            assert!(
                is_told || hash.is_some() && found.as_ref().ok() == hash.as_ref(),
                "{title}: {name} is recorded as {hash:?} ({error:?}), and there is {found:?}"
            );
        }
    }

    fn facts_are_kept(&self, facts: &Facts) {
        for (operation, answer) in facts.answers() {
            let keys = [END, OUTPUT].concat();
            self.says_the_same(operation, &answer, &keys);
            let logs = self.xioflow(&["logs", operation]);
            let whole = answer["stdoutHash"] == Value::String(hex(&logs.stdout));
            self.expect(&logs, whole, "the output that was told of is there");
        }
    }

    fn says_the_same(&self, operation: &str, answer: &Value, keys: &[&str]) {
        let shown = self.json(&["show", operation, "--json"]);
        for key in keys {
            let title = format!("{}: {key} of {operation}", self.title);
            assert_eq!(shown["result"][key], answer[key], "{title}");
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
