//! The file mode creation mask of this process, which umask(2) tells only by changing it.

use alloc::vec::Vec;
use core::str;

use crate::CannotTell;
use crate::path::proc_path;
use crate::read::read_whole;

/// The mask of this process.
///
/// # Errors
/// [`CannotTell`] where `/proc` does not say, as before Linux 4.7.
///
/// Source: proc_pid_status(5).
pub fn own_umask() -> Result<u32, CannotTell> {
    let path = proc_path!("/proc/self/status");
    let mut status = Vec::new();
    read_whole(&path, &mut status).map_err(CannotTell::unreadable(path))?;
    parse(&status).ok_or(CannotTell::Malformed { path })
}

fn parse(status: &[u8]) -> Option<u32> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(b"Umask:"))?;
    u32::from_str_radix(str::from_utf8(value).ok()?.trim(), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_an_octal_number() {
        assert_eq!(parse(b"Name:\tsh\nUmask:\t0027\nState:\tR"), Some(0o27));
        assert_eq!(parse(b"Name:\tUmask:\t0027\n"), None);
        assert_eq!(parse(b"Umask:\t0o27\n"), None);
    }

    #[test]
    fn this_process_has_one() {
        let mask = own_umask().expect("/proc says");
        assert!(mask <= 0o777, "{mask:o}");
    }
}
