//! Whether output that is read whole still is what was recorded. `stored` does the reading.

use sha2::{Digest, Sha256};
use xioflow_journal::{Gap, Output};

use super::digest::hex;
use super::stored::{OutputError, OutputReader};

/// Hashes what is read of a stream, from its first byte on, and compares that with the record.
///
/// A hash is over all that is stored, so a part of it cannot be compared: whoever reads the whole
/// stream in order notices bytes that have changed on the disk, at the price of hashing them.
#[derive(Debug, Clone, Default)]
pub struct OutputCheck {
    hash: Sha256,
    /// Where the next bytes have to stand.
    next: u64,
    /// What was left out, and the hash of what came before it.
    skipped: Option<(Gap, Sha256)>,
    is_out_of_order: bool,
}

impl OutputCheck {
    /// Takes bytes that were read at this offset of the stream.
    pub fn take(&mut self, at: u64, bytes: &[u8]) {
        if at > self.next && self.skipped.is_none() {
            let gap = Gap {
                from: self.next,
                to: at,
            };
            self.skipped = Some((gap, self.hash.clone()));
            self.next = at;
        }
        self.is_out_of_order |= at != self.next;
        self.hash.update(bytes);
        self.next = at + bytes.len() as u64;
    }

    /// Compares, if all was taken that the record's hash is over.
    ///
    /// # Errors
    /// [`OutputError::Changed`] if the bytes are others.
    pub fn conclude(&self, output: &OutputReader) -> Result<(), OutputError> {
        let Some(record) = output.record() else {
            return Ok(());
        };
        let (Some(recorded), Some(hash)) = (&record.sha256, self.hash_as_in(record)) else {
            return Ok(());
        };
        let found = hex(&hash.finalize());
        if found == *recorded {
            return Ok(());
        }
        Err(OutputError::Changed {
            place: output.place(),
            recorded: recorded.clone(),
            found,
        })
    }

    /// The hash of what the record's is over: the file, or else all that the journal holds.
    fn hash_as_in(&self, record: &Output) -> Option<Sha256> {
        if self.is_out_of_order {
            return None;
        }
        let is_in_file = record.artifact.is_some();
        match (record.gap, &self.skipped) {
            (Some(gap), Some((skipped, before))) if is_in_file && skipped.from == gap.from => {
                Some(before.clone())
            }
            (Some(gap), None) if is_in_file || gap.to == record.total_bytes => {
                (self.next == gap.from).then(|| self.hash.clone())
            }
            (gap, skipped) => {
                let is_all = gap == skipped.as_ref().map(|(gap, _)| *gap);
                (is_all && self.next == record.total_bytes).then(|| self.hash.clone())
            }
        }
    }
}
