//! What else lies in the folder: last words of helpers, and copies of the database from before migrations.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde_json::json;
use xioflow_kernel::journal::{OperationStatus, Query, ReadError, Reader};
use xioflow_protocol::LastWord;

use super::super::report::{Finding, with_causes};
use super::unsettled::cannot_read;
use super::{NAMED_MAX, said};
use crate::output::printable;
use crate::shell;
use crate::size::format_size;

/// Longest file that is read as a last word, in bytes; a real one is far below.
const WORD_LEN_MAX: u64 = 1024 * 1024;

/// What became of the operations that the words are about.
#[derive(Default)]
struct Words {
    settled: u64,
    waiting: u64,
    unusable: Vec<String>,
    unusable_total: u64,
}

pub(super) fn last_words(reader: &Reader) -> Finding {
    let holders = reader.dir().holders();
    let mut words = Words::default();
    match words.read_all(reader, &holders) {
        Ok(()) => {}
        Err(Unread::Folder(error)) => {
            let what = format!("read {}: {}", holders.display(), with_causes(&error));
            return Finding::cannot_tell(what);
        }
        Err(Unread::Record(error)) => return cannot_read(&error),
    }
    let facts = json!({
        "waiting": words.waiting,
        "settled": words.settled,
        "unusable": words.unusable,
        "unusableTotal": words.unusable_total,
    });
    let said = match (words.waiting, words.settled, words.unusable_total) {
        (0, 0, 0) => "none".to_owned(),
        (waiting, settled, unusable) => {
            let names = match unusable {
                0 => String::new(),
                _ => format!(" ({})", said(&words.unusable, unusable)),
            };
            format!(
                "{waiting} to be read, {settled} that have been, {unusable} that say nothing{names}"
            )
        }
    };
    match words.unusable_total {
        0 => Finding::ready(said),
        _ => Finding::weaker(said),
    }
    .with_facts(facts)
}

enum Unread {
    Folder(io::Error),
    Record(ReadError),
}

impl Words {
    fn read_all(&mut self, reader: &Reader, holders: &Path) -> Result<(), Unread> {
        for entry in fs::read_dir(holders).map_err(Unread::Folder)? {
            let entry = entry.map_err(Unread::Folder)?;
            // Only a file is opened: a pipe would be waited for.
            let is_file = entry.file_type().is_ok_and(|it| it.is_file());
            let Some(word) = is_file.then(|| read(&entry.path())).flatten() else {
                self.unusable_total += 1;
                if self.unusable.len() < NAMED_MAX {
                    self.unusable
                        .push(printable(&entry.file_name().to_string_lossy()));
                }
                continue;
            };
            let operation = reader
                .operation(&word.operation_id)
                .map_err(Unread::Record)?;
            match operation {
                Some(operation) if operation.status != OperationStatus::Done => self.waiting += 1,
                _ => self.settled += 1,
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Option<LastWord> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(WORD_LEN_MAX).read_to_end(&mut bytes).ok()?;
    LastWord::from_bytes(&bytes).ok()
}

pub(super) fn backups(reader: &Reader) -> Finding {
    let root = reader.dir().root();
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) => return Finding::cannot_tell(format!("read {}: {error}", root.display())),
    };
    let mut backups = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let version = name
            .strip_prefix("domain.db.v")
            .and_then(|it| it.parse::<u32>().ok());
        if let (Some(version), Ok(metadata)) = (version, entry.metadata()) {
            backups.push((version, name, metadata.len()));
        }
    }
    backups.sort_unstable();
    let facts = json!({
        "backups": backups.iter().map(|(version, name, bytes)| json!({
            "version": version, "file": name, "bytes": bytes,
        })).collect::<Vec<_>>(),
    });
    if backups.is_empty() {
        return Finding::ready("none: no earlier release has written here").with_facts(facts);
    }
    let names: Vec<String> = backups
        .iter()
        .map(|(_, name, bytes)| format!("{name} ({})", format_size(*bytes)))
        .collect();
    let detail = format!(
        "{}, from before migrations; when the new version has proven itself, `rm` them in {}",
        names.join(", "),
        shell::path(root)
    );
    Finding::ready(detail).with_facts(facts)
}
