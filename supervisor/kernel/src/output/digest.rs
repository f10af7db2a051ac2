//! SHA-256 over a stream, beside the writing of it once there is much to hash.
//!
//! Hashing runs at about 1 GB/s a core, as slow as everything else of a drain together. Little
//! output is hashed where it is; more of it goes to a thread of its own, which holds a bounded
//! number of pieces.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use sha2::{Digest, Sha256};

/// Bytes after which a thread pays for itself.
const INLINE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Pieces on their way to the thread. Two keep it busy while the drain reads a third.
const PIECES_MAX: usize = 2;

/// A hash that is being made.
#[derive(Debug)]
pub(crate) struct StreamHash {
    place: Place,
    hashed: u64,
}

#[derive(Debug)]
enum Place {
    Here(Sha256),
    Beside {
        pieces: SyncSender<Vec<u8>>,
        used: Receiver<Vec<u8>>,
        thread: JoinHandle<Sha256>,
    },
}

impl StreamHash {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::Here(Sha256::new()),
            hashed: 0,
        }
    }

    /// Adds the bytes of `piece`, and gives back a buffer to read into: the same one or another.
    pub(crate) fn add(&mut self, piece: Vec<u8>) -> Vec<u8> {
        self.hashed += piece.len() as u64;
        if self.hashed > INLINE_MAX_BYTES {
            self.move_beside();
        }
        match &mut self.place {
            Place::Here(hash) => {
                hash.update(&piece);
                piece
            }
            Place::Beside { pieces, used, .. } => {
                // The thread lives until `finish` drops the sender.
                pieces
                    .send(piece)
                    .expect("the hashing thread receives until it is told to stop");
                used.try_recv().unwrap_or_default()
            }
        }
    }

    fn move_beside(&mut self) {
        let Place::Here(hash) = &self.place else {
            return;
        };
        let (pieces, to_hash) = sync_channel::<Vec<u8>>(PIECES_MAX);
        let (give_back, used) = sync_channel(PIECES_MAX + 1);
        let mut moved = hash.clone();
        let thread = thread::Builder::new()
            .name("xioflow-hash".to_owned())
            .spawn(move || {
                for piece in to_hash {
                    moved.update(&piece);
                    // A full way back only means that the drain has buffers enough.
                    drop(give_back.try_send(piece));
                }
                moved
            });
        // Without a thread the hash is slower, not wrong.
        if let Ok(thread) = thread {
            self.place = Place::Beside {
                pieces,
                used,
                thread,
            };
        }
    }

    /// The hash in hexadecimal.
    pub(crate) fn finish(self) -> String {
        let hash = match self.place {
            Place::Here(hash) => hash,
            Place::Beside { pieces, thread, .. } => {
                drop(pieces);
                thread.join().expect("hashing bytes does not panic")
            }
        };
        hex(&hash.finalize())
    }
}

/// Bytes in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_here_and_beside() {
        let piece = vec![7_u8; 700_001];
        let mut hash = StreamHash::new();
        let mut plain = Sha256::new();
        for _ in 0..12 {
            drop(hash.add(piece.clone()));
            plain.update(&piece);
        }
        assert!(matches!(hash.place, Place::Beside { .. }));
        assert_eq!(hash.finish(), hex(&plain.finalize()));
    }

    #[test]
    fn nothing_has_the_hash_of_nothing() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(StreamHash::new().finish(), empty);
    }
}
