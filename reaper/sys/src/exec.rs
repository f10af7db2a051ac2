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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EndKind, Ended, Fork, SingleThread, exit_group, fork, wait};

    fn strings(all: &[&CStr]) -> ExecStrings {
        ExecStrings::new(all.iter().map(|&string| string.into()).collect())
    }

    /// Runs `child` in a copy of this process, and says how that ended.
    fn in_a_copy(child: impl FnOnce() -> i32) -> EndKind {
        // SAFETY: the harness has other threads, so what runs in the copy makes system calls
        // and nothing else: it allocates nothing, takes no lock and uses no C library.
        let proof = unsafe { SingleThread::assert() };
        match fork(&proof).expect("a copy can be made") {
            Fork::Child => exit_group(child()),
            Fork::Parent { child, pidfd } => {
                assert!(pidfd.is_some(), "every kernel this is tested on has pidfds");
                let Ended { how, pid } = wait(child).expect("our child").expect("it ends");
                assert_eq!(pid, child.number());
                how
            }
        }
    }

    #[test]
    fn a_copy_ends_with_its_own_status() {
        assert_eq!(in_a_copy(|| 7), EndKind::Exited { code: 7 });
    }

    #[test]
    fn a_program_gets_its_arguments_and_its_environment() {
        let arguments = strings(&[
            c"sh",
            c"-c",
            c"[ \"$1/$A\" = one/two ] && exit 3",
            c"x",
            c"one",
        ]);
        let environment = strings(&[c"A=two"]);
        let how = in_a_copy(|| execve(c"/bin/sh", &arguments, &environment).raw());
        assert_eq!(how, EndKind::Exited { code: 3 });
    }

    #[test]
    fn a_program_that_cannot_run_leaves_the_copy_as_it_was() {
        let none = strings(&[]);
        let how = in_a_copy(|| execve(c"/nowhere", &none, &none).raw());
        assert_eq!(
            how,
            EndKind::Exited {
                code: Errno::ENOENT.raw()
            }
        );
    }
}
