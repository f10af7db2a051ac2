//! Replacing this process's program; the vectors for it are made beforehand.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char};
use core::ptr;

use crate::Errno;

/// Strings as execve(2) wants them: an array of pointers that ends with null.
///
/// Made before a fork, because nothing may be allocated after it.
#[derive(Debug)]
pub struct ExecStrings {
    // Each pointer leads into the heap memory of the string with the same index, which never
    // moves: strings are neither added nor changed after construction.
    pointers: Vec<*const c_char>,
    strings: Vec<CString>,
}

impl ExecStrings {
    /// Makes the array.
    #[must_use]
    pub fn new(strings: Vec<CString>) -> Self {
        let mut pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
        pointers.push(ptr::null());
        Self { pointers, strings }
    }

    /// The strings.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &CStr> {
        self.strings.iter().map(CString::as_c_str)
    }
}

/// Runs the program at `path` in place of this one. Comes back only when that failed.
#[must_use]
pub fn execve(path: &CStr, arguments: &ExecStrings, environment: &ExecStrings) -> Errno {
    // SAFETY: `path` is NUL-terminated; both arrays end with null and their pointers lead to
    // NUL-terminated strings that the values own (see `ExecStrings`); all are borrowed. On
    // success nothing of this program is left that could be in a wrong state.
    let failed = unsafe {
        call!(
            execve,
            path.as_ptr(),
            arguments.pointers.as_ptr(),
            environment.pointers.as_ptr()
        )
    };
    failed.err().unwrap_or(Errno::EIO)
}
