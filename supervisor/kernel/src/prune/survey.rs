//! Goes through the folder and finds out whose each file is. Only what the record explains is counted as
//! stored output; only what it explains as needless is removed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;

use xioflow_journal::{OperationStatus, Output, Query, ReadError, Records, Stream};

use super::plan::Need;
use super::report::Pruned;
use super::{Place, PruneError};
use crate::output::{FileId, Found, artifact_name};

/// How the record explains a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// It is the stored output of an operation.
    Stored,
    /// An operation that has no result yet writes it, or is just being recorded.
    Unfinished,
    /// The output was pruned, or moved into the journal: the file should be gone.
    Needless,
    /// Not at all.
    Unknown,
}

/// A walk through the folder.
#[derive(Debug)]
pub(super) struct Survey<'a> {
    place: Place<'a>,
    unfinished: Unfinished,
}

/// Names of the files that unfinished operations write, as of a position of the journal.
#[derive(Debug, Default)]
struct Unfinished {
    names: HashSet<String>,
    as_of: Option<i64>,
}

/// Why the walk ended.
#[derive(Debug)]
enum Stopped {
    Folder(io::Error),
    Prune(PruneError),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Folder(error)
    }
}

impl From<ReadError> for Stopped {
    fn from(error: ReadError) -> Self {
        Self::Prune(error.into())
    }
}

impl<'a> Survey<'a> {
    pub(super) fn new(place: Place<'a>) -> Self {
        Self {
            place,
            unfinished: Unfinished::default(),
        }
    }

    /// Looks at every name, removes what is needless, and says how many bytes are stored: those of finished
    /// operations and of unfinished ones.
    pub(super) fn look_through(mut self, told: &mut Pruned) -> Result<u64, PruneError> {
        let place = self.place;
        let mut stored_bytes = 0;
        let walked = place.artifacts.for_each(|name, found| {
            stored_bytes += self.look_at(name, found, told)?;
            Ok(())
        });
        match walked {
            Ok(()) => {}
            Err(Stopped::Prune(error)) => return Err(error),
            Err(Stopped::Folder(source)) => return Err(place.cannot_look(source)),
        }
        told.bytes_before = stored_bytes + told.leftovers.bytes;
        told.bytes_after = stored_bytes;
        Ok(stored_bytes)
    }

    /// How many bytes of stored output stand under a name.
    fn look_at(&mut self, name: &OsStr, found: Found, told: &mut Pruned) -> Result<u64, Stopped> {
        let shown = name.to_string_lossy();
        let bytes = match &found {
            Found::File(file) => file.bytes,
            Found::Other(_) | Found::Nothing => 0,
        };
        let claim = match name.to_str() {
            Some(name) => self.claim(name, bytes)?,
            // No name of ours is like that.
            None => Claim::Unknown,
        };
        match (claim, found) {
            // It went while we looked.
            (_, Found::Nothing) => {}
            (Claim::Unknown, Found::File(file)) => told.leave_unknown(&shown, file.bytes),
            (Claim::Unknown, Found::Other(_)) => told.leave_unknown(&shown, 0),
            (_, Found::Other(what)) => told.obstruct(&shown, what),
            (Claim::Stored, Found::File(file)) => return Ok(file.bytes),
            (Claim::Unfinished, Found::File(file)) => {
                told.kept.add(Need::Unfinished, file.bytes);
                return Ok(file.bytes);
            }
            (Claim::Needless, Found::File(file)) => {
                self.remove(name, &file)?;
                told.leftovers.add(file.bytes);
            }
        }
        Ok(0)
    }

    fn remove(&self, name: &OsStr, file: &FileId) -> Result<(), Stopped> {
        if self.place.journal.is_none() {
            return Ok(());
        }
        match self.place.artifacts.remove(name, file) {
            Ok(_) => Ok(()),
            Err(source) => Err(Stopped::Prune(self.place.cannot_remove(name, source))),
        }
    }

    fn claim(&mut self, name: &str, bytes: u64) -> Result<Claim, ReadError> {
        if let Some(output) = self.place.records.output_in(name)? {
            return Ok(match output.pruned_at_ms {
                Some(_) => Claim::Needless,
                None => Claim::Stored,
            });
        }
        if self.unfinished.has(name, self.place.records)? {
            return Ok(Claim::Unfinished);
        }
        self.moved(name, bytes)
    }

    /// Whether it is what is left of output that is in the journal now. That is told by the name, where the
    /// operation's id can be read from it.
    fn moved(&self, name: &str, bytes: u64) -> Result<Claim, ReadError> {
        let Some((id, stream)) = named_after(name) else {
            return Ok(Claim::Unknown);
        };
        let records = self.place.records;
        // Its own owner removes it right after the commit.
        if self.place.flights.is_some_and(|it| it.get(id).is_some()) {
            return Ok(Claim::Unfinished);
        }
        let is_done = |status| status == OperationStatus::Done;
        if !records.operation(id)?.is_some_and(|it| is_done(it.status)) {
            return Ok(Claim::Unknown);
        }
        let mut outputs = records.outputs(id)?.into_iter();
        let output = outputs.find(|output| output.stream == stream);
        Ok(match is_needless(output.as_ref(), bytes) {
            true => Claim::Needless,
            false => Claim::Unknown,
        })
    }
}

/// Whether a file of so many bytes, of a stream of a finished operation, is one too many: everything that is
/// stored of the stream is in the journal, or nothing was printed and its owner died before the first byte.
pub(super) fn is_needless(output: Option<&Output>, bytes: u64) -> bool {
    match output {
        Some(output) => {
            output.artifact.is_none() && output.content.is_some() && output.spill_error.is_none()
        }
        None => bytes == 0,
    }
}

/// The operation whose stream a file of this name would hold, if it can be read from the name.
fn named_after(name: &str) -> Option<(&str, Stream)> {
    Stream::ALL.iter().find_map(|stream| {
        let id = name.strip_suffix(&format!("-{stream}.log"))?;
        (artifact_name(id, *stream) == name).then_some((id, *stream))
    })
}

impl Unfinished {
    /// Whether an unfinished operation writes a file of this name. Asked again where the journal has gone on:
    /// an operation that began meanwhile is one.
    fn has(&mut self, name: &str, records: Records<'_>) -> Result<bool, ReadError> {
        if self.names.contains(name) {
            return Ok(true);
        }
        let now = records.last_seq()?;
        if self.as_of == Some(now) {
            return Ok(false);
        }
        self.as_of = Some(now);
        let operations = records.unfinished()?;
        let names = operations.iter().flat_map(|operation| {
            let name = |stream: &Stream| artifact_name(&operation.id, *stream);
            Stream::ALL.iter().map(name)
        });
        self.names.extend(names);
        Ok(self.names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_readable_name_leads_back_to_its_operation() {
        assert_eq!(named_after("a-stdout.log"), Some(("a", Stream::Stdout)));
        let tricky = "a-stdout.log-stderr.log";
        assert_eq!(named_after(tricky), Some(("a-stdout.log", Stream::Stderr)));
        let hashed = artifact_name("../../etc/passwd", Stream::Stdout);
        assert_eq!(named_after(&hashed), None);
        for none in [
            "",
            "-stdout.log",
            "a.log",
            "a-stdout.log.bak",
            ".a-stdout.log",
        ] {
            assert_eq!(named_after(none), None, "{none}");
        }
    }
}
