//! Which descriptors this process has open, whoever opened them.

use alloc::vec::Vec;

use crate::CannotTell;
use crate::lists::list_numbers;
use crate::path::proc_path;

/// The numbers of all that are open. One that another thread opens or closes meanwhile may be among
/// them or not, and the one through which the list is read, which is closed by then, may be too.
///
/// # Errors
/// [`CannotTell`] where `/proc` does not say.
pub fn open_descriptors() -> Result<Vec<u32>, CannotTell> {
    let path = proc_path!("/proc/self/fd");
    list_numbers(path).map_err(CannotTell::unreadable(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn one_that_is_open_is_among_them() {
        let file = std::fs::File::open("/dev/null").expect("opened");
        let number = u32::try_from(file.as_raw_fd()).expect("a descriptor");
        assert!(open_descriptors().expect("/proc says").contains(&number));
    }
}
