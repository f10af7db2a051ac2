//! Error numbers, as errno(3) names them.

use core::fmt;

use linux_raw_sys::errno as raw;

/// The error number of a system call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(i32);

macro_rules! named {
    ($($name:ident)*) => {
        impl Errno {$(
            #[doc = concat!("`", stringify!($name), "` of errno(3).")]
            #[expect(clippy::cast_possible_wrap, reason = "error numbers are below 4096")]
            pub const $name: Self = Self(raw::$name as i32);
        )*}
    };
}

named! {
    E2BIG EACCES EAGAIN EBADF EBUSY ECHILD ECONNRESET EEXIST EFAULT EINTR EINVAL EIO EISDIR ELOOP
    EMFILE ENAMETOOLONG ENFILE ENODEV ENOENT ENOEXEC ENOMEM ENOSYS ENOTDIR ENOTTY EOPNOTSUPP ENXIO EPERM
    EPIPE EPROTO ESRCH ESTALE ETIMEDOUT ETXTBSY
}

impl Errno {
    /// Makes an error number from its integer.
    #[must_use]
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// The number as an integer.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl From<syscalls::Errno> for Errno {
    fn from(errno: syscalls::Errno) -> Self {
        Self(errno.into_raw())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = syscalls::Errno::new(self.0);
        match (known.name(), known.description()) {
            (Some(name), Some(description)) => write!(f, "{description} ({name})"),
            _ => write!(f, "error number {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match syscalls::Errno::new(self.0).name() {
            Some(name) => f.write_str(name),
            None => write!(f, "Errno({})", self.0),
        }
    }
}

impl core::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn an_error_reads_as_a_sentence_with_its_name() {
        assert_eq!(
            format!("{}", Errno::ENOENT),
            "No such file or directory (ENOENT)"
        );
        assert_eq!(format!("{}", Errno::from_raw(4000)), "error number 4000");
        assert_eq!(format!("{:?}", Errno::ECHILD), "ECHILD");
    }
}
