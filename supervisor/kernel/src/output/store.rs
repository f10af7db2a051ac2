//! Stores one stream: its file as far as there is room, its hash, its last bytes, its lines. At the
//! end it decides where the bytes stay; what is missing is named and never an error.

use std::sync::Arc;

use xioflow_journal::{Gap, Output, Stream};

use super::digest::StreamHash;
use super::folder::Artifacts;
use super::head_tail::Kept;
use super::lines::LineCount;
use super::room::{CONTENT_MAX_BYTES, Room};
use super::spool::Spool;
use super::tail::{StoredSoFar, Tail};

/// What is stored of one stream.
#[derive(Debug)]
pub(crate) struct Store {
    stream: Stream,
    spool: Spool,
    room: Room,
    /// Over what is in the file; none once that is not all that should be there.
    hash: Option<StreamHash>,
    tail: Arc<Tail>,
    lines: LineCount,
    total: u64,
}

/// What was stored, and a file that is not needed once the output is in the journal.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) output: Output,
    pub(crate) leftover: Option<Spool>,
}

impl Store {
    /// Makes the store of a stream that may take `stream_max` bytes.
    pub(crate) fn new(
        artifacts: Arc<Artifacts>,
        stem: &str,
        stream: Stream,
        stream_max: u64,
    ) -> Self {
        let budget = Arc::clone(artifacts.budget());
        Self {
            stream,
            spool: Spool::new(artifacts, stem, stream),
            room: Room::new(stream_max, budget),
            hash: Some(StreamHash::new()),
            tail: Arc::default(),
            lines: LineCount::default(),
            total: 0,
        }
    }

    /// Where it is stored, for reading beside the writing: to be asked once something was written.
    /// None if it cannot be.
    pub(crate) fn so_far(&self) -> Option<StoredSoFar> {
        self.spool.error().is_none().then(|| StoredSoFar {
            file: self.spool.handle(),
            tail: Arc::clone(&self.tail),
        })
    }

    /// Whether all that has come so far is in the file.
    pub(crate) fn has_all(&self) -> bool {
        self.spool.error().is_none() && self.room.written() == self.total
    }

    /// Takes the next bytes of the stream; says how many of them went to the file. Those are to be
    /// hashed.
    pub(crate) fn write(&mut self, piece: &[u8]) -> usize {
        self.total += piece.len() as u64;
        self.lines.add(piece);
        // Never more than the piece is long, so it fits.
        let admitted = self.room.admit(piece.len() as u64);
        let head_len = usize::try_from(admitted).unwrap_or(piece.len());
        let (head, rest) = piece.split_at(head_len);
        if !rest.is_empty() {
            self.tail.keep(rest, self.total, self.room.tail_max());
        }
        if !head.is_empty() && !self.spool.write(head) {
            // A hash over a part of the bytes would look like one over all of them.
            self.hash = None;
            self.room.close();
            self.tail.clear();
        }
        head_len
    }

    /// Hashes the first `len` bytes of a piece that was written, and gives back a buffer to read
    /// into: the same one or another.
    pub(crate) fn hash(&mut self, piece: Vec<u8>, len: usize) -> Vec<u8> {
        match &mut self.hash {
            Some(hash) if len == piece.len() => hash.add(piece),
            Some(hash) if len > 0 => {
                drop(hash.add(piece[..len].to_vec()));
                piece
            }
            _ => piece,
        }
    }

    /// The part between the file and the last bytes.
    fn gap(&self) -> Option<Gap> {
        let from = self.room.written();
        let to = self.total - self.tail.len();
        (from < to).then_some(Gap { from, to })
    }

    /// Ends the storing and decides where the bytes stay. `kept` is what memory holds of them.
    pub(crate) fn finish(mut self, kept: &Kept) -> Finished {
        let mut output = self.unplaced();
        if self.spool.error().is_none() {
            self.place(&mut output, kept);
        }
        if let Some(error) = self.spool.error() {
            let small = !kept.truncated && self.total <= CONTENT_MAX_BYTES;
            output = Output {
                content: small.then(|| kept.bytes.clone()),
                spill_error: Some(error.to_owned()),
                ..self.unplaced()
            };
            // A part that looks like the whole is worse than none, and on a full disk the record
            // of the operation needs the room.
            let len = self.spool.discard();
            self.room.release(len);
        }
        let leftover = output.artifact.is_none() && output.spill_error.is_none();
        Finished {
            // Removed only after the commit: until then it is all that a crash would leave.
            leftover: leftover.then_some(self.spool),
            output,
        }
    }

    fn unplaced(&self) -> Output {
        Output {
            stream: self.stream,
            total_bytes: self.total,
            lines: Some(self.lines.total()),
            sha256: None,
            artifact: None,
            content: None,
            gap: None,
            spill_error: None,
            pruned_at_ms: None,
        }
    }

    fn place(&mut self, output: &mut Output, kept: &Kept) {
        output.gap = self.gap();
        let tail = self.tail.to_vec();
        if self.room.written() + tail.len() as u64 <= CONTENT_MAX_BYTES {
            self.place_in_journal(output, kept, tail);
        } else {
            self.place_in_file(output, tail);
        }
    }

    /// A little is kept with the result, beginning and end in one.
    fn place_in_journal(&mut self, output: &mut Output, kept: &Kept, tail: Vec<u8>) {
        let mut content = if output.gap.is_none() && !kept.truncated {
            kept.bytes.clone()
        } else {
            let mut content = self.spool.read_back(self.room.written());
            content.extend_from_slice(&tail);
            content
        };
        content.shrink_to_fit();
        output.sha256 = self.hash_with(tail);
        output.content = Some(content);
        self.room.release(0);
    }

    /// The beginning stays in the file. Its end goes there too if nothing is missing in between;
    /// else into the journal, so that each offset of the file is one of the stream.
    fn place_in_file(&mut self, output: &mut Output, tail: Vec<u8>) {
        output.artifact = Some(self.spool.name().to_owned());
        if output.gap.is_some() {
            output.sha256 = self.hash_with(Vec::new());
            output.content = Some(tail);
        } else {
            if !tail.is_empty() {
                self.spool.write(&tail);
            }
            output.sha256 = self.hash_with(tail);
        }
        self.spool.sync();
        let tail_len = output.content.as_ref().map_or(0, Vec::len) as u64;
        let missing = output.gap.map_or(0, |gap| gap.missing_bytes());
        self.room.release(self.total - missing - tail_len);
    }

    fn hash_with(&mut self, tail: Vec<u8>) -> Option<String> {
        let mut hash = self.hash.take()?;
        if !tail.is_empty() {
            drop(hash.add(tail));
        }
        Some(hash.finish())
    }
}
