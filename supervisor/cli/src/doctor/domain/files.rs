//! Stored output: each file against its record, and what else lies among them.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use xioflow_kernel::journal::{Output, Query, ReadError, Reader};
use xioflow_kernel::{PruneOptions, Pruned, StoredFileState, check_stored_file, prune_preview};

use super::super::report::{Finding, with_causes};
use super::unsettled::cannot_read;
use super::{NAMED_MAX, Progress, counted, said};
use crate::output::printable;
use crate::shell;
use crate::size::format_size;

/// Files that are asked for at once.
const PAGE_LEN: usize = 256;

/// What the files of a domain came to.
#[derive(Default)]
struct Files {
    total: u64,
    bytes: u64,
    unhashed: u64,
    wrong: Vec<Value>,
    wrong_names: Vec<String>,
    wrong_total: u64,
}

pub(super) fn stored(reader: &Reader, progress: &mut dyn Progress) -> Finding {
    let mut files = Files::default();
    if let Err(error) = files.check_all(reader, progress) {
        return cannot_read(&error);
    }
    let facts = json!({
        "files": files.total,
        "bytes": files.bytes,
        "withoutHash": files.unhashed,
        "wrongTotal": files.wrong_total,
        "wrong": files.wrong,
    });
    let all = format!(
        "{}, {}",
        counted(files.total, "file"),
        format_size(files.bytes)
    );
    let finding = match files.wrong_total {
        0 => Finding::ready(format!("{all}: each is what was recorded")),
        wrong => {
            let names = said(&files.wrong_names, wrong);
            Finding::missing(format!("{wrong} of {all}: {names}"))
                .with_remedy(files.look_at(reader.dir().root()))
        }
    };
    finding.with_facts(facts)
}

impl Files {
    /// Nothing here can bring back what is gone; whoever has a copy of the file can tell that it is the right one.
    fn look_at(&self, folder: &Path) -> Option<String> {
        let id = self.wrong.first()?["operationId"].as_str()?;
        Some(format!(
            "xioflow --domain {} show {}   # has the hash and the length; only a copy of the file brings it back",
            shell::path(folder),
            shell::word(&printable(id))
        ))
    }

    fn check_all(&mut self, reader: &Reader, progress: &mut dyn Progress) -> Result<(), ReadError> {
        let artifacts = reader.dir().artifacts();
        let mut after = None;
        loop {
            let page = reader.stored_files(after.as_ref(), PAGE_LEN)?;
            let Some(last) = page.last().cloned() else {
                return Ok(());
            };
            for file in page {
                let Some(output) = reader.output_in(&file.artifact)? else {
                    continue;
                };
                let (files, before) = (self.total, self.bytes);
                let mut read = 0;
                let state = check_stored_file(&artifacts, &output, &mut |len| {
                    read += len;
                    progress.at(files, before + read);
                });
                self.total += 1;
                self.bytes += read;
                progress.at(self.total, self.bytes);
                // It may have been pruned since the page was read.
                let pruned = matches!(state, StoredFileState::Missing)
                    && reader
                        .output_in(&file.artifact)?
                        .is_none_or(|it| it.pruned_at_ms.is_some());
                if !pruned {
                    self.take(&file.operation_id, &output, &state);
                }
            }
            after = Some(last);
        }
    }

    fn take(&mut self, operation_id: &str, output: &Output, state: &StoredFileState) {
        let (what, detail) = match state {
            StoredFileState::Whole => return,
            StoredFileState::Unhashed => {
                self.unhashed += 1;
                return;
            }
            StoredFileState::Missing => ("missing", "is gone".to_owned()),
            StoredFileState::Length { found, recorded } => {
                ("length", format!("has {found} bytes instead of {recorded}"))
            }
            StoredFileState::Altered { .. } => {
                ("altered", "has other content than recorded".to_owned())
            }
            StoredFileState::Unreadable(error) => ("unreadable", with_causes(error)),
        };
        let artifact = output.artifact.as_deref().unwrap_or_default();
        self.wrong_total += 1;
        if self.wrong.len() < NAMED_MAX {
            self.wrong_names
                .push(format!("{} {detail}", printable(artifact)));
            self.wrong.push(json!({
                "operationId": operation_id,
                "stream": output.stream.as_str(),
                "artifact": artifact,
                "problem": what,
                "detail": detail,
            }));
        }
    }
}

pub(super) fn strangers(reader: &Reader) -> Finding {
    // Old enough for nothing to go, so that only what is needless anyway is told.
    let nothing = PruneOptions {
        max_age: Some(Duration::MAX),
        dry_run: true,
        ..PruneOptions::default()
    };
    match prune_preview(reader.dir().root(), &nothing) {
        Ok(pruned) => judge(reader, &pruned),
        Err(error) => Finding::cannot_tell(with_causes(&error)),
    }
}

fn judge(reader: &Reader, pruned: &Pruned) -> Finding {
    let facts = json!({
        "unknown": pruned.unknown,
        "unknownTotal": pruned.unknown_total,
        "obstacles": pruned.obstacles,
        "obstaclesTotal": pruned.obstacles_total,
        "leftovers": pruned.leftovers,
    });
    let mut said_of = Vec::new();
    let (unknown, leftovers) = (pruned.unknown_total, pruned.leftovers);
    if pruned.obstacles_total > 0 {
        let names: Vec<String> = pruned
            .obstacles
            .iter()
            .map(|it| format!("{} is a {}", printable(&it.name), it.what))
            .collect();
        said_of.push(said(&names, pruned.obstacles_total));
    }
    if unknown.files > 0 {
        let names: Vec<String> = pruned.unknown.iter().map(|it| printable(it)).collect();
        said_of.push(format!(
            "{} that nothing in the record explains ({}): {}",
            unknown.files,
            format_size(unknown.bytes),
            said(&names, unknown.files)
        ));
    }
    if leftovers.files > 0 {
        said_of.push(format!(
            "{} that nothing refers to any more ({})",
            leftovers.files,
            format_size(leftovers.bytes)
        ));
    }
    if said_of.is_empty() {
        return Finding::ready("none among the stored output").with_facts(facts);
    }
    let remedy = (leftovers.files > 0).then(|| {
        format!(
            "xioflow --domain {} prune --max-age 36500d   # removes those that nothing refers to",
            shell::path(reader.dir().root())
        )
    });
    Finding::weaker(said_of.join("; "))
        .with_facts(facts)
        .with_remedy(remedy)
}
