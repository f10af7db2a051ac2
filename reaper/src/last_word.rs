//! What is left on disk when the supervisor is gone.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

use xioflow_protocol::LastWord;
use xioflow_sys::{AsFd, BorrowedFd, Errno, OpenFlags, fsync, openat, renameat, unlinkat, write};

/// Writes a last word so that a file with its name is whole and survives a power cut.
///
/// # Errors
/// As in the calls it makes: open(2), write(2), fsync(2), rename(2).
pub(crate) fn leave(folder: BorrowedFd<'_>, name: &CStr, word: &LastWord) -> Result<(), Errno> {
    // The bounds on process lists keep it far below the limit of a frame.
    let bytes = word.to_bytes().map_err(|_| Errno::E2BIG)?;
    let temporary = temporary_name(name);
    let written =
        write_durably(folder, &temporary, &bytes).and_then(|()| renameat(folder, &temporary, name));
    if let Err(errno) = written {
        // A leftover would only be in the way; the error that matters is the first.
        let _removed = unlinkat(folder, &temporary);
        return Err(errno);
    }
    fsync(folder)
}

fn temporary_name(name: &CStr) -> CString {
    let mut bytes: Vec<u8> = name.to_bytes().to_vec();
    bytes.extend_from_slice(b".tmp");
    // The name came from a C string, so it has no NUL inside.
    CString::new(bytes).unwrap_or_default()
}

fn write_durably(folder: BorrowedFd<'_>, name: &CStr, bytes: &[u8]) -> Result<(), Errno> {
    // What is in the way is of an earlier attempt, or was put there: opening a pipe would wait for its
    // reader, and writing through a link would be to somebody else's file.
    let _removed = unlinkat(folder, name);
    let file = openat(folder, name, OpenFlags::NEW, 0o600)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(file.as_fd(), rest) {
            Ok(0) => return Err(Errno::EIO),
            Ok(len) => rest = &rest[len..],
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    fsync(file.as_fd())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use xioflow_protocol::{Identity, LAST_WORD_FORMAT, TreeEnd, Usage};
    use xioflow_sys::CWD;

    fn word() -> LastWord {
        LastWord {
            format: LAST_WORD_FORMAT,
            operation_id: "op-1".into(),
            holder: Identity {
                pid: 2,
                start_ticks: 3,
                boot_id: [4; 16],
                pidfd_inode: None,
            },
            root: None,
            released: true,
            launch_failure: None,
            end: TreeEnd {
                exit: None,
                survivors: Vec::new(),
                survivors_total: 0,
                usage: Usage::default(),
                last_signal: Some(9),
                group_empty: None,
            },
            empty: true,
            written_at_ms: 5,
            stopped: true,
            namespace: None,
        }
    }

    #[test]
    fn a_word_is_whole_under_its_name_and_leaves_nothing_else() {
        let path = std::env::temp_dir().join(std::format!("xioflow-word-{}", std::process::id()));
        fs::create_dir_all(&path).expect("folder is made");
        let name = CString::new(path.to_str().expect("text")).expect("no NUL");
        let folder = openat(CWD, &name, OpenFlags::DIRECTORY, 0).expect("folder opens");
        for _ in 0..2 {
            leave(folder.as_fd(), c"op", &word()).expect("written");
            let bytes = fs::read(path.join("op")).expect("file is there");
            assert_eq!(LastWord::from_bytes(&bytes), Ok(word()));
            assert_eq!(fs::read_dir(&path).expect("listed").count(), 1);
        }
        let elsewhere = path.join("elsewhere");
        fs::write(&elsewhere, "theirs").expect("written");
        std::os::unix::fs::symlink(&elsewhere, path.join("op.tmp")).expect("linked");
        leave(folder.as_fd(), c"op", &word()).expect("written");
        assert_eq!(fs::read(&elsewhere).expect("file is there"), b"theirs");
        fs::remove_file(elsewhere).expect("removed");
        fs::create_dir(path.join("dir")).expect("folder is made");
        assert_eq!(leave(folder.as_fd(), c"dir", &word()), Err(Errno::EISDIR));
        assert_eq!(
            fs::read_dir(&path).expect("listed").count(),
            2,
            "a leftover stayed"
        );
        fs::remove_dir_all(&path).expect("removed");
        assert_eq!(leave(folder.as_fd(), c"op", &word()), Err(Errno::ENOENT));
    }
}
