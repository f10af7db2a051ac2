//! Whether a file system honours open file description locks, which make a domain's owner.
//!
//! Neighbour: `domain_filesystem` passes the folder. The real lock is the journal's.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

/// Locks the file twice through two openings. Says whether the second was refused while the first
/// held, and granted once it was gone: both are what an owner relies on.
pub(super) fn excludes(path: &Path) -> io::Result<bool> {
    let open = || File::options().write(true).open(path);
    let (first, second) = (open()?, open()?);
    if !try_lock(&first)? {
        return Ok(false);
    }
    let refused = !try_lock(&second)?;
    drop(first);
    let granted = try_lock(&second)?;
    Ok(refused && granted)
}

/// Takes a lock on the whole file; false if another opening holds one.
fn try_lock(file: &File) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file()?)) {
        Ok(_) => Ok(true),
        // Which of the two it is differs between systems (fcntl(2)).
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn whole_file() -> io::Result<libc::flock> {
    let short = |constant: libc::c_int| {
        libc::c_short::try_from(constant).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    Ok(libc::flock {
        l_type: short(libc::F_WRLCK)?,
        l_whence: short(libc::SEEK_SET)?,
        l_start: 0,
        // 0 means to the end, wherever that will be.
        l_len: 0,
        // Has to be 0 for these locks (fcntl(2)).
        l_pid: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_openings_exclude_each_other_and_the_lock_goes_with_its_opening() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert!(excludes(file.path()).expect("locks work in the temporary folder"));
        assert!(excludes(file.path()).expect("and again"));
    }

    #[test]
    fn one_that_is_held_elsewhere_is_no_proof() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let holder = File::options()
            .write(true)
            .open(file.path())
            .expect("an opening");
        assert!(try_lock(&holder).expect("a free file"));
        assert!(!excludes(file.path()).expect("the question can be put"));
    }
}
