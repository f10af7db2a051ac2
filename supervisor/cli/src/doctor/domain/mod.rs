//! `xioflow doctor --domain`: examines one domain, its record and its files, and changes nothing. It works beside an
//! owner and in a folder that cannot be written in.
//!
//! `place` looks at the folder, `record` at the database and at who owns it, `unsettled` at what waits for somebody,
//! `files` at stored output, `rest` at what else lies there. Each finding comes with the command that mends it.

mod files;
mod place;
mod record;
mod rest;
mod unsettled;

use std::fmt::Display;
use std::path::Path;

use xioflow_kernel::journal::Reader;

use super::report::{Check, Finding, Report, Subject};

/// Names in the facts of one check at most.
const NAMED_MAX: usize = 256;

/// Names in its sentence at most.
const SAID_MAX: usize = 3;

/// A question about a domain whose record can be read.
struct Examination {
    id: &'static str,
    title: &'static str,
    /// Whether the domain is not sound without it.
    required: bool,
    look: fn(&Reader, &mut dyn Progress) -> Finding,
}

/// Who is told how far a long check is.
pub(crate) trait Progress {
    /// So many files and bytes have been read.
    fn at(&mut self, files: u64, bytes: u64);
}

const EXAMINATIONS: [Examination; 8] = [
    Examination {
        id: "integrity",
        title: "integrity of the record",
        required: true,
        look: |reader, _| record::integrity(reader),
    },
    Examination {
        id: "owner",
        title: "owner",
        required: false,
        look: |reader, _| record::owner(reader),
    },
    Examination {
        id: "unfinished",
        title: "unfinished operations",
        required: false,
        look: |reader, _| unsettled::unfinished(reader),
    },
    Examination {
        id: "indeterminate",
        title: "ends that are not known",
        required: false,
        look: |reader, _| unsettled::indeterminate(reader),
    },
    Examination {
        id: "stored-output",
        title: "stored output",
        required: true,
        look: files::stored,
    },
    Examination {
        id: "other-files",
        title: "other files",
        required: false,
        look: |reader, _| files::strangers(reader),
    },
    Examination {
        id: "last-words",
        title: "last words of helpers",
        required: false,
        look: |reader, _| rest::last_words(reader),
    },
    Examination {
        id: "backups",
        title: "backups",
        required: false,
        look: |reader, _| rest::backups(reader),
    },
];

/// Examines the domain in this folder.
pub(crate) fn examine_domain(folder: &Path, progress: &mut dyn Progress) -> Report {
    let mut checks = vec![
        Check::new("folder", "folder", true, place::folder(folder)),
        Check::new("free-space", "free space", false, place::free_space(folder)),
    ];
    let opened = Reader::open(folder);
    let finding = record::database(folder, opened.as_ref());
    checks.push(Check::new("database", "database", true, finding));
    if let Ok(reader) = opened {
        checks.extend(EXAMINATIONS.iter().map(|row| {
            let finding = (row.look)(&reader, progress);
            Check::new(row.id, row.title, row.required, finding)
        }));
    }
    Report::new(Subject::Domain, checks)
}

/// How many there are of what has this name when it is one.
fn counted<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let plural = if number == N::from(1) { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Some names for a sentence, and how many more there are.
fn said(names: &[String], total: u64) -> String {
    let mut said = names
        .iter()
        .take(SAID_MAX)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let more = total.saturating_sub(names.len().min(SAID_MAX) as u64);
    if more > 0 {
        said.push_str(&format!(" and {more} more"));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(0_u64, "file"), "0 files");
        assert_eq!(counted(1_u64, "file"), "1 file");
        assert_eq!(counted(2_i64, "event"), "2 events");
    }

    #[test]
    fn a_sentence_names_a_few() {
        let names: Vec<String> = (0..5).map(|at| at.to_string()).collect();
        assert_eq!(said(&names[..2], 2), "0, 1");
        assert_eq!(said(&names, 5), "0, 1, 2 and 2 more");
        assert_eq!(said(&names, 1000), "0, 1, 2 and 997 more");
    }
}
