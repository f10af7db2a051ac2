//! Whether `/proc` shows a process less of the others than it is allowed to signal.

use core::ffi::CStr;

use xioflow_sys::{AsFd, CWD, OpenFlags, OwnedFd, openat, read};

use crate::CannotTell;
use crate::path::proc_path;

/// The option of a `/proc` that shows processes only to who may trace them, see proc(5). It is listed
/// only where it is set to something.
const HIDING: &[u8] = b"hidepid=";

const CHUNK_LEN: usize = 4096;

/// How much of the list of mounts is read. Hosts with thousands of containers have a megabyte of it.
const LIST_LEN_MAX: usize = 8 * 1024 * 1024;

/// Whether some `/proc` that is mounted here may hide processes.
///
/// # Errors
/// [`CannotTell`] when the list of mounts cannot be read, or not to its end.
///
/// Source: proc(5), "Mount options" and `/proc/[pid]/mountinfo`.
pub fn hides_processes() -> Result<bool, CannotTell> {
    let path = proc_path!("/proc/self/mountinfo");
    let list =
        openat(CWD, path.as_c_str(), OpenFlags::READ, 0).map_err(CannotTell::unreadable(path))?;
    let mut search = Search::new();
    for _ in 0..LIST_LEN_MAX / CHUNK_LEN {
        let len = read(list.as_fd(), search.room()).map_err(CannotTell::unreadable(path))?;
        if len == 0 {
            return Ok(false);
        }
        if search.finds(len) {
            return Ok(true);
        }
    }
    Err(CannotTell::Malformed { path })
}

/// The folder of all processes, to be named in rules.
///
/// # Errors
/// [`CannotTell`] when it cannot be opened.
pub fn processes_folder() -> Result<OwnedFd, CannotTell> {
    const PROC: &CStr = c"/proc";
    openat(CWD, PROC, OpenFlags::DIRECTORY, 0).map_err(CannotTell::unreadable(proc_path!("/proc")))
}

/// Looks for the option in a text that comes in pieces.
struct Search {
    buffer: [u8; HIDING.len() + CHUNK_LEN],
    /// How much of the buffer is kept of the piece before.
    kept: usize,
}

impl Search {
    const fn new() -> Self {
        Self {
            buffer: [0; HIDING.len() + CHUNK_LEN],
            kept: 0,
        }
    }

    /// Where the next piece is put.
    fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.kept..]
    }

    /// Takes the next piece, and says whether the option is there.
    fn finds(&mut self, len: usize) -> bool {
        let text = &self.buffer[..self.kept + len];
        let found = text.windows(HIDING.len()).any(|window| window == HIDING);
        // Its beginning may be the end of this piece.
        let keep = text.len().min(HIDING.len() - 1);
        let from = text.len() - keep;
        self.buffer.copy_within(from..from + keep, 0);
        self.kept = keep;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finds(text: &[u8], piece_len: usize) -> bool {
        let mut search = Search::new();
        text.chunks(piece_len).any(|piece| {
            search.room()[..piece.len()].copy_from_slice(piece);
            search.finds(piece.len())
        })
    }

    #[test]
    fn the_option_is_found_wherever_the_text_is_cut() {
        let plain = b"23 29 0:21 / /proc rw,nosuid shared:14 - proc proc rw\n";
        let hiding = b"23 29 0:21 / /proc rw,nosuid shared:14 - proc proc rw,hidepid=invisible\n";
        for piece_len in 1..=hiding.len() {
            assert!(finds(hiding, piece_len), "in pieces of {piece_len}");
            assert!(!finds(plain, piece_len), "in pieces of {piece_len}");
        }
    }

    #[test]
    fn this_host_is_asked() {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("a list");
        assert_eq!(hides_processes(), Ok(mounts.contains("hidepid=")));
        assert!(processes_folder().is_ok());
    }
}
