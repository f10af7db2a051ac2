//! The first bytes of a write-ahead log: whether SQLite will read what follows them. The format is
//! <https://www.sqlite.org/walformat.html>.
//!
//! SQLite passes over a log whose header is wrong as if it were empty, and so over commits that
//! somebody was told of. It syncs the header before it writes the first frame, so no crash and no
//! power failure leaves frames behind a header that is not whole: that is damage.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::folder::open_plain;
use crate::header::FileError;

/// How much of a log its header takes.
pub(crate) const LOG_HEADER_LEN: usize = 32;

/// Of these bytes the header holds the sum.
const SUMMED: usize = 24;
/// Their sum is of little-endian words.
const MAGIC_LITTLE: u32 = 0x377f_0682;
/// Their sum is of big-endian words.
const MAGIC_BIG: u32 = 0x377f_0683;
/// An owner that begins its log anew may be writing the header while a reader looks at it.
const LOOKS: u32 = 3;

/// Refuses a log that holds frames which SQLite would pass over. A log that cannot be opened is
/// left to SQLite, which says why.
pub(crate) fn check(log: &Path) -> Result<(), FileError> {
    let Ok(file) = open_plain(log) else {
        return Ok(());
    };
    let is_damaged = || -> io::Result<bool> {
        if file.metadata()?.len() <= LOG_HEADER_LEN as u64 {
            return Ok(false);
        }
        let mut header = [0; LOG_HEADER_LEN];
        file.read_exact_at(&mut header, 0)?;
        Ok(!is_whole(&header))
    };
    // What cannot be read here fails in SQLite as well, by the name of its error.
    match (0..LOOKS).all(|_| is_damaged().unwrap_or(false)) {
        true => Err(FileError::DamagedLog {
            path: log.to_owned(),
        }),
        false => Ok(()),
    }
}

/// Whether a header has a magic number and the sum that it says.
fn is_whole(header: &[u8; LOG_HEADER_LEN]) -> bool {
    let big = |at: usize| word(header, at, u32::from_be_bytes);
    let read: fn([u8; 4]) -> u32 = match big(0) {
        MAGIC_LITTLE => u32::from_le_bytes,
        MAGIC_BIG => u32::from_be_bytes,
        _ => return false,
    };
    let (mut first, mut second) = (0_u32, 0_u32);
    for at in (0..SUMMED).step_by(8) {
        first = first
            .wrapping_add(word(header, at, read))
            .wrapping_add(second);
        second = second
            .wrapping_add(word(header, at + 4, read))
            .wrapping_add(first);
    }
    (first, second) == (big(SUMMED), big(SUMMED + 4))
}

fn word(header: &[u8; LOG_HEADER_LEN], at: usize, read: fn([u8; 4]) -> u32) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[at..at + 4]);
    read(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;
    use std::fs;

    /// A log that SQLite itself has written.
    fn written(folder: &Path) -> Vec<u8> {
        let database = folder.join("x.db");
        let connection = Connection::open(&database).unwrap();
        connection
            .pragma_update(None, "journal_mode", "WAL")
            .unwrap();
        connection.execute_batch("CREATE TABLE t (x)").unwrap();
        fs::read(folder.join("x.db-wal")).unwrap()
    }

    #[test]
    fn a_header_that_sqlite_writes_is_whole_and_no_bit_of_it_can_change() {
        let folder = tempfile::tempdir().unwrap();
        let log = written(folder.path());
        let header: [u8; LOG_HEADER_LEN] = log[..LOG_HEADER_LEN].try_into().unwrap();
        assert!(is_whole(&header));
        for bit in 0..8 * LOG_HEADER_LEN {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&flipped), "bit {bit}");
        }
        assert!(!is_whole(&[0; LOG_HEADER_LEN]));
    }

    #[test]
    fn only_frames_behind_a_wrong_header_are_damage() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = written(folder.path());
        let path = folder.path().join("log");
        assert_eq!(check(&path), Ok(()), "there is none");
        log[9] ^= 1;
        for (len, is_damaged) in [
            (0, false),
            (20, false),
            (32, false),
            (33, true),
            (log.len(), true),
        ] {
            fs::write(&path, &log[..len]).unwrap();
            assert_eq!(check(&path).is_err(), is_damaged, "{len} bytes");
        }
    }
}
