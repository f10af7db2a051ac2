//! Reads what is stored of one stream, by offsets of the stream: from the journal, from a file,
//! while the operation runs or long after it, and around a part that was not stored.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xioflow_journal::{Event, Gap, OperationStatus, Output, PruneReason, Query, ReadError, Stream};

use super::check::OutputCheck;
use super::folder::is_file_name;
use super::head_tail::{HeadTail, Kept};
use super::spool::artifact_name;
use crate::{plain_file, views};

/// What is read of a stored file at once.
const READ_LEN: usize = 64 * 1024;

/// The event that says why a file was removed.
const PRUNED_EVENT: &str = "OUTPUT_PRUNED";

/// Why output cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// There is no such operation.
    #[error("there is no operation {operation_id} in this domain")]
    UnknownOperation {
        /// What was asked for.
        operation_id: String,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] ReadError),
    /// It was removed to make room. What is recorded of it stays: its length, its lines, its hash.
    #[error("{stream} of operation {operation_id} was pruned on {pruned_at}{}", (*reason).map_or("", by))]
    Pruned {
        /// The operation.
        operation_id: String,
        /// Which of its streams.
        stream: Stream,
        /// When, RFC 3339.
        pruned_at: String,
        /// What for, if the record says it.
        reason: Option<PruneReason>,
    },
    /// The stored file cannot be read.
    #[error("failed to read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The stored bytes are not those that were recorded; see [`OutputCheck`].
    #[error("{place} holds other bytes than were recorded (SHA-256 {found}, recorded {recorded})")]
    Changed {
        /// What holds them: a file, or the journal.
        place: String,
        /// The recorded hash.
        recorded: String,
        /// The hash of what is there.
        found: String,
    },
    /// The journal holds less of the output than it says.
    #[error("the journal holds this output up to byte {at} only, and says that there is more")]
    Record {
        /// Where it ends, as an offset of the stream.
        at: u64,
    },
}

fn by(reason: PruneReason) -> &'static str {
    match reason {
        PruneReason::Age => ", for its age",
        PruneReason::Size => ", by size",
        PruneReason::Quota => ", to make room for a new operation",
    }
}

/// What there is at one offset of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Stored bytes, up to this offset at least.
    Stored {
        /// The offset.
        to: u64,
    },
    /// Bytes that were printed and not stored, up to this offset.
    Missing {
        /// The offset.
        to: u64,
    },
    /// Nothing, or nothing yet.
    End,
}

/// One output stream of one operation, as it is stored.
#[derive(Debug)]
pub struct OutputReader {
    /// None while the operation runs: the file grows.
    record: Option<Output>,
    path: PathBuf,
    file: Option<File>,
}

impl OutputReader {
    /// Opens a stream of an operation, whether that runs or has ended. Of a running one it shows
    /// what has been written so far, and goes on showing more; open it again once the operation
    /// is done, since the end of its output may be stored elsewhere.
    ///
    /// # Errors
    /// [`OutputError`] says by cause why it cannot be read. A stream that printed nothing can.
    pub fn open(
        journal: &impl Query,
        artifacts: &Path,
        operation_id: &str,
        stream: Stream,
    ) -> Result<Self, OutputError> {
        // Twice: a file that is not there may have moved into the journal a moment ago.
        for _ in 0..2 {
            if is_done(journal, operation_id)? {
                break;
            }
            let path = artifacts.join(artifact_name(operation_id, stream));
            match plain_file::open(&path) {
                Ok(file) => return Ok(Self::running(path, Some(file))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(OutputError::File { path, source }),
            }
        }
        if !is_done(journal, operation_id)? {
            return Ok(Self::running(PathBuf::new(), None));
        }
        match Self::of_record(journal, artifacts, operation_id, stream) {
            // It may have been pruned since its record was read.
            Err(OutputError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Self::of_record(journal, artifacts, operation_id, stream)
            }
            opened => opened,
        }
    }

    /// Opens a stream of an operation that has ended.
    fn of_record(
        journal: &impl Query,
        artifacts: &Path,
        operation_id: &str,
        stream: Stream,
    ) -> Result<Self, OutputError> {
        let mut outputs = journal.outputs(operation_id)?.into_iter();
        match outputs.find(|output| output.stream == stream) {
            Some(output) => match output.pruned_at_ms {
                Some(at_ms) => Err(pruned(journal, operation_id, stream, at_ms)?),
                None => Self::recorded(output, artifacts),
            },
            None => Ok(Self {
                record: Some(silent(stream)),
                path: PathBuf::new(),
                file: None,
            }),
        }
    }

    fn running(path: PathBuf, file: Option<File>) -> Self {
        Self {
            record: None,
            path,
            file,
        }
    }

    /// Opens what a record refers to.
    pub(crate) fn recorded(output: Output, artifacts: &Path) -> Result<Self, OutputError> {
        let (path, file) = match &output.artifact {
            None => (PathBuf::new(), None),
            Some(artifact) => {
                let path = artifacts.join(artifact);
                match open_artifact(artifact, &path) {
                    Ok(file) => (path, Some(file)),
                    Err(source) => return Err(OutputError::File { path, source }),
                }
            }
        };
        Ok(Self {
            record: Some(output),
            path,
            file,
        })
    }

    /// Whether the operation has ended, so that the stream does not grow any more.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.record.is_some()
    }

    /// How many bytes the stream has so far, those that were not stored included.
    ///
    /// # Errors
    /// [`OutputError::File`] if the file of a running operation cannot be examined.
    pub fn len(&self) -> Result<u64, OutputError> {
        match (&self.record, &self.file) {
            (Some(output), _) => Ok(output.total_bytes),
            (None, None) => Ok(0),
            (None, Some(file)) => match file.metadata() {
                Ok(metadata) => Ok(metadata.len()),
                Err(source) => Err(self.failed(source)),
            },
        }
    }

    /// Whether it has none.
    ///
    /// # Errors
    /// Those of [`OutputReader::len`].
    pub fn is_empty(&self) -> Result<bool, OutputError> {
        Ok(self.len()? == 0)
    }

    /// How many lines it has, an unfinished last one included; `None` while the operation runs,
    /// and for records of releases that did not count.
    #[must_use]
    pub fn line_count(&self) -> Option<u64> {
        self.record.as_ref().and_then(|output| output.lines)
    }

    /// What is recorded of it; `None` while the operation runs.
    pub(super) fn record(&self) -> Option<&Output> {
        self.record.as_ref()
    }

    /// What holds it, for messages.
    pub(super) fn place(&self) -> String {
        match &self.file {
            Some(_) => self.path.display().to_string(),
            None => "the journal".to_owned(),
        }
    }

    /// The part that was not stored because the room for it was used up.
    #[must_use]
    pub fn gap(&self) -> Option<Gap> {
        self.record.as_ref().and_then(|output| output.gap)
    }

    /// What went wrong with storing it, if something did.
    #[must_use]
    pub fn spill_error(&self) -> Option<&str> {
        self.record
            .as_ref()
            .and_then(|output| output.spill_error.as_deref())
    }

    /// What there is at an offset.
    ///
    /// # Errors
    /// Those of [`OutputReader::len`].
    pub fn extent(&self, at: u64) -> Result<Extent, OutputError> {
        let len = self.len()?;
        let lost = self.record.as_ref().is_some_and(is_lost);
        Ok(match self.gap() {
            _ if at >= len => Extent::End,
            _ if lost => Extent::Missing { to: len },
            Some(gap) if at < gap.from => Extent::Stored { to: gap.from },
            Some(gap) if at < gap.to => Extent::Missing { to: gap.to },
            _ => Extent::Stored { to: len },
        })
    }

    /// Reads stored bytes from an offset of the stream: as many as fit `buffer` and stand there
    /// together. None at the end, and none where [`OutputReader::extent`] says that they are missing.
    ///
    /// # Errors
    /// [`OutputError::File`] if the file cannot be read, or is shorter than its record says;
    /// [`OutputError::Record`] if the journal holds less than it says.
    pub fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<usize, OutputError> {
        let Extent::Stored { to } = self.extent(at)? else {
            return Ok(0);
        };
        let len = usize::try_from(to - at).map_or(buffer.len(), |there| there.min(buffer.len()));
        let buffer = &mut buffer[..len];
        match &self.record {
            Some(output) if !in_file(output, at) => match read_content(output, at, buffer) {
                0 if !buffer.is_empty() => Err(self.ended_early(at)),
                len => Ok(len),
            },
            _ => self.read_file(at, buffer),
        }
    }

    fn read_file(&self, at: u64, buffer: &mut [u8]) -> Result<usize, OutputError> {
        let Some(file) = &self.file else {
            return Ok(0);
        };
        match file.read_at(buffer, at) {
            Ok(0) if !buffer.is_empty() => Err(self.ended_early(at)),
            Ok(len) => Ok(len),
            Err(source) => Err(self.failed(source)),
        }
    }

    pub(super) fn ended_early(&self, at: u64) -> OutputError {
        if self.record.as_ref().is_some_and(|it| !in_file(it, at)) {
            return OutputError::Record { at };
        }
        let what = format!("it ends at byte {at}, before its record does");
        self.failed(io::Error::new(io::ErrorKind::UnexpectedEof, what))
    }

    fn failed(&self, source: io::Error) -> OutputError {
        OutputError::File {
            path: self.path.clone(),
            source,
        }
    }
}

fn is_done(journal: &impl Query, operation_id: &str) -> Result<bool, OutputError> {
    match journal.operation(operation_id)? {
        Some(operation) => Ok(operation.status == OperationStatus::Done),
        None => Err(OutputError::UnknownOperation {
            operation_id: operation_id.to_owned(),
        }),
    }
}

/// Opens a stored file. What the record calls it is believed only as far as it is the name of a file in that
/// folder: somebody may have written to the database.
pub(super) fn open_artifact(name: &str, path: &Path) -> io::Result<File> {
    if is_file_name(OsStr::new(name)) {
        return plain_file::open(path);
    }
    Err(io::Error::other("its record names no file of this folder"))
}

/// What is said of output that was pruned.
fn pruned(
    journal: &impl Query,
    operation_id: &str,
    stream: Stream,
    at_ms: i64,
) -> Result<OutputError, ReadError> {
    let events = journal.events(0, Some(operation_id), None)?;
    let of_stream = |event: &Event| {
        event.kind == PRUNED_EVENT && event.payload["stream"].as_str() == Some(stream.as_str())
    };
    let event = events.into_iter().find(of_stream);
    let reason = event.and_then(|event| event.payload["reason"].as_str()?.parse().ok());
    Ok(OutputError::Pruned {
        operation_id: operation_id.to_owned(),
        stream,
        pruned_at: views::time(at_ms),
        reason,
    })
}

/// A stream without a row printed nothing.
fn silent(stream: Stream) -> Output {
    Output {
        stream,
        total_bytes: 0,
        lines: Some(0),
        sha256: None,
        artifact: None,
        content: None,
        gap: None,
        spill_error: None,
        pruned_at_ms: None,
    }
}

/// Whether nothing of it is anywhere.
fn is_lost(output: &Output) -> bool {
    output.artifact.is_none() && output.content.is_none()
}

/// Whether an offset, which is stored, stands in the file and not in the content.
fn in_file(output: &Output, at: u64) -> bool {
    output.artifact.is_some() && output.gap.is_none_or(|gap| at < gap.from)
}

fn read_content(output: &Output, at: u64, buffer: &mut [u8]) -> usize {
    let before = match output.gap {
        Some(gap) if output.artifact.is_some() => gap.to,
        Some(gap) if at >= gap.to => gap.missing_bytes(),
        _ => 0,
    };
    let content = output.content.as_deref().unwrap_or_default();
    let rest = usize::try_from(at - before)
        .ok()
        .and_then(|at| content.get(at..))
        .unwrap_or_default();
    let len = rest.len().min(buffer.len());
    buffer[..len].copy_from_slice(&rest[..len]);
    len
}

/// What a result holds of a recorded stream. One that cannot be read is that stream's storage
/// error; everything else of its record stays as it is.
pub(crate) fn read_back(output: &mut Output, artifacts: &Path, limit: usize) -> Kept {
    let mut kept = HeadTail::new(limit);
    if output.pruned_at_ms.is_some() {
        // What came behind a gap is in the journal, and stays.
        let tail = output.content.as_deref().unwrap_or_default();
        kept.skip(output.total_bytes.saturating_sub(tail.len() as u64));
        kept.push(tail);
        return kept.finish();
    }
    let read = OutputReader::recorded(output.clone(), artifacts)
        .and_then(|reader| keep_both_ends(&reader, &mut kept));
    if let Err(error) = read {
        output.spill_error = Some(error.to_string());
        kept = HeadTail::new(limit);
        kept.skip(output.total_bytes);
    }
    kept.finish()
}

/// Reads what the limit needs: the beginning and the end. Where that is all, it must be what was
/// recorded.
fn keep_both_ends(reader: &OutputReader, kept: &mut HeadTail) -> Result<(), OutputError> {
    let len = reader.len()?;
    let mut check = OutputCheck::default();
    keep_range(reader, len.min(kept.head_max() as u64), kept, &mut check)?;
    let from = kept.resume_at(len);
    kept.skip(from - kept.total());
    keep_range(reader, len, kept, &mut check)?;
    check.conclude(reader)
}

fn keep_range(
    reader: &OutputReader,
    to: u64,
    kept: &mut HeadTail,
    check: &mut OutputCheck,
) -> Result<(), OutputError> {
    let mut buffer = vec![0; READ_LEN];
    while kept.total() < to {
        let at = kept.total();
        match reader.extent(at)? {
            Extent::End => break,
            Extent::Missing { to: end } => kept.skip(end.min(to) - at),
            Extent::Stored { .. } => {
                let wanted = usize::try_from(to - at).unwrap_or(READ_LEN).min(READ_LEN);
                match reader.read_at(at, &mut buffer[..wanted])? {
                    0 => return Err(reader.ended_early(at)),
                    len => {
                        check.take(at, &buffer[..len]);
                        kept.push(&buffer[..len]);
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "stored_tests.rs"]
mod tests;
