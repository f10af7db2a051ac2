//! Paths below `/proc`, made without memory from a heap.

use core::ffi::CStr;
use core::fmt::{self, Write};

/// Longer than any path below `/proc` that is asked for here.
const PATH_LEN: usize = 64;

/// A path below `/proc`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ProcPath {
    // NUL-terminated: the last byte is never written.
    bytes: [u8; PATH_LEN],
    len: usize,
}

impl ProcPath {
    /// Writes the path that the arguments format to.
    #[must_use]
    pub(crate) fn new(path: fmt::Arguments<'_>) -> Self {
        let mut made = Self {
            bytes: [0; PATH_LEN],
            len: 0,
        };
        let fits = made.write_fmt(path).is_ok();
        debug_assert!(fits, "a path of numbers fits {PATH_LEN} bytes");
        made
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

impl Write for ProcPath {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        if end >= PATH_LEN {
            return Err(fmt::Error);
        }
        self.bytes[self.len..end].copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl fmt::Display for ProcPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_c_str().to_str().unwrap_or_default())
    }
}

impl fmt::Debug for ProcPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats a [`ProcPath`].
macro_rules! proc_path {
    ($($argument:tt)*) => { $crate::path::ProcPath::new(format_args!($($argument)*)) };
}

pub(crate) use proc_path;
