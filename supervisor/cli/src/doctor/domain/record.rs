//! The database: whether this release can read it, whether it is whole, and who owns it.

use std::path::Path;

use serde_json::json;
use xioflow_kernel::journal::{
    APPLICATION_ID, FileError, OwnerRole, OwnerState, Query, ReadError, Reader, SCHEMA_VERSION,
};

use super::super::report::{Finding, with_causes};
use super::place::begin;
use super::{counted, said};
use crate::output::printable;
use crate::shell;

pub(super) fn database(folder: &Path, opened: Result<&Reader, &ReadError>) -> Finding {
    match opened {
        Ok(reader) => readable(reader),
        Err(error) => unreadable(folder, error),
    }
}

fn readable(reader: &Reader) -> Finding {
    let asked = reader
        .counts()
        .and_then(|counts| Ok((counts, reader.last_seq()?)));
    let (counts, last_seq) = match asked {
        Ok(answers) => answers,
        Err(error) => return unreadable(reader.dir().root(), &error),
    };
    let detail = format!(
        "{} and {} can be read",
        counted(counts.total, "operation"),
        counted(last_seq, "event")
    );
    Finding::ready(detail).with_facts(json!({
        "operations": counts.total,
        "unfinished": counts.unfinished,
        "indeterminate": counts.indeterminate,
        "unadjudicated": counts.unadjudicated,
        "lastSeq": last_seq,
        "knownVersion": SCHEMA_VERSION,
    }))
}

fn unreadable(folder: &Path, error: &ReadError) -> Finding {
    let (what, remedy) = match error {
        ReadError::Absent { .. } => ("absent", Some(begin(folder))),
        ReadError::LogUnreadable { .. } => ("log_unreadable", None),
        ReadError::File(FileError::Newer { .. }) => ("newer", None),
        ReadError::File(FileError::Foreign { .. }) => ("foreign", None),
        ReadError::File(FileError::NotSqlite { .. }) => ("not_sqlite", Some(rescue(folder))),
        ReadError::File(FileError::Truncated { .. }) => ("truncated", Some(rescue(folder))),
        ReadError::File(FileError::Damaged { .. }) => ("damaged", Some(rescue(folder))),
        ReadError::File(FileError::DamagedLog { .. }) => {
            ("damaged_log", Some(set_log_aside(folder)))
        }
        ReadError::Data(_) => ("data", Some(rescue(folder))),
        _ => ("storage", Some(rescue(folder))),
    };
    let detail = with_causes(error);
    Finding::missing(detail)
        .with_facts(json!({ "problem": what }))
        .with_remedy(remedy)
}

/// What can be done about a log that SQLite would pass over: it is kept, and the domain goes on without it.
fn set_log_aside(folder: &Path) -> String {
    let (at, aside) = (
        shell::path(folder),
        shell::path(&suffixed(folder, ".damaged-log")),
    );
    format!(
        "mv {at}/domain.db-wal {aside}   # what was recorded since the database was last written back is in it alone"
    )
}

/// What can be done about a damaged database, in an order that loses nothing: all is done with copies, so each step can
/// be tried again.
fn rescue(folder: &Path) -> String {
    let at = shell::path(folder);
    let copy = shell::path(&suffixed(folder, ".copy"));
    let new = shell::path(&suffixed(folder, ".rescued"));
    let files = ["", "-wal", "-shm"].map(|suffix| format!("{new}/domain.db{suffix}"));
    // From the file's header, which is read where SQLite reads nothing any more.
    let version = format!("$(od -An -tu4 --endian=big -j60 -N4 {copy}/domain.db)");
    [
        format!("xioflow --domain {at} shutdown --wait   # and let nothing run in it until the end"),
        format!("cp -a {at} {copy} && cp -a {at} {new} && rm -f {}", files.join(" ")),
        format!("sqlite3 {copy}/domain.db .recover | sqlite3 {new}/domain.db   # if this sqlite3 can do that; if not:"),
        format!(
            "(sqlite3 {copy}/domain.db .dump | sed 's/^ROLLBACK.*/COMMIT;/'; \
             echo \"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version};\") | sqlite3 {new}/domain.db"
        ),
        format!("xioflow doctor --domain {new}   # if it is sound, put it in the place of {at}"),
        format!("ls {at}/domain.db.v*   # if not: a copy from before a migration, which lacks what came after it"),
        "xioflow --domain ANOTHER run -- true   # or begin anew; what ran before would run again then".to_owned(),
    ]
    .join("\n")
}

fn suffixed(folder: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(super) fn owner(reader: &Reader) -> Finding {
    match reader.owner_state() {
        OwnerState::Free => Finding::ready("nobody owns it at this moment"),
        OwnerState::Held { note: None } => {
            Finding::weaker("somebody owns it, and does not say who")
        }
        OwnerState::Held { note: Some(note) } => {
            let role = match note.role {
                Some(OwnerRole::Arbiter) => "the arbiter",
                Some(OwnerRole::Embedded) => "a program of its own",
                None => "some program",
            };
            let detail = format!(
                "{role}, process {} on {}, owns it since {}",
                note.owner_pid, note.hostname, note.acquired_at
            );
            let facts = serde_json::to_value(&note).unwrap_or_default();
            Finding::ready(detail).with_facts(facts)
        }
        OwnerState::CannotTell { why } => Finding::cannot_tell(why),
    }
}

/// What SQLite and the rules of the record find in all of it.
pub(super) fn integrity(reader: &Reader) -> Finding {
    let root = reader.dir().root();
    let report = match reader.check_integrity(|_| {}) {
        Ok(report) => report,
        Err(error) => return unreadable(root, &error),
    };
    let facts = serde_json::to_value(&report).unwrap_or_default();
    let problems: Vec<String> = report
        .problems
        .iter()
        .map(|it| printable(&it.what))
        .collect();
    let finding = match problems.len() as u64 {
        0 => Finding::ready("every page, every reference and every rule of the record holds"),
        total => {
            let more = if report.is_cut {
                "; there are more"
            } else {
                ""
            };
            Finding::missing(format!("{}{more}", said(&problems, total)))
                .with_remedy(Some(rescue(root)))
        }
    };
    finding.with_facts(facts)
}
