//! Asks the kernel, and proves the answer by opening a ruleset.
//!
//! Neighbours: `sys` makes the calls, `abi` knows what the numbers mean.

use core::fmt;

use crate::abi::Abi;
use crate::sys;

/// Whether this kernel offers Landlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It does, with this ABI.
    Available(Abi),
    /// The kernel has no Landlock: older than 5.13, built without it, or not Linux (ENOSYS).
    NotBuiltIn,
    /// The kernel has it, but it was left out at boot (EOPNOTSUPP): the `lsm=` parameter or
    /// `CONFIG_LSM` does not name it.
    Disabled,
    /// The kernel answered something else. EPERM is usual where a system call filter, as of a
    /// container, stands between.
    CannotTell {
        /// The error number it answered; 0 if it answered an ABI that cannot be.
        errno: i32,
    },
}

/// Asks the kernel for its Landlock ABI. Changes nothing.
#[must_use]
pub fn support() -> Support {
    judge(sys::abi_version())
}

fn judge(answer: Result<u32, i32>) -> Support {
    match answer {
        Ok(number) => {
            Abi::from_number(number).map_or(Support::CannotTell { errno: 0 }, Support::Available)
        }
        Err(sys::ENOSYS) => Support::NotBuiltIn,
        Err(sys::EOPNOTSUPP) => Support::Disabled,
        Err(errno) => Support::CannotTell { errno },
    }
}

/// A ruleset could not be opened although the kernel names an ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RulesetError {
    /// The ABI whose rights were asked for.
    pub abi: Abi,
    /// The error number of landlock_create_ruleset(2).
    pub errno: i32,
}

impl fmt::Display for RulesetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "open a ruleset with all rights of ABI {}: error {}",
            self.abi, self.errno
        )
    }
}

impl core::error::Error for RulesetError {}

/// Opens a ruleset that handles every file system right of `abi`, and closes it.
///
/// The calling thread is not restricted: that takes landlock_restrict_self(2).
///
/// # Errors
/// [`RulesetError`] with EINVAL if the kernel does not know all these rights, EMFILE or ENOMEM if
/// there is no room for a descriptor, and with whatever a system call filter answers.
pub fn prove_ruleset(abi: Abi) -> Result<(), RulesetError> {
    sys::open_and_close_ruleset(abi.handled_access_fs())
        .map_err(|errno| RulesetError { abi, errno })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_has_its_meaning() {
        assert_eq!(judge(Ok(1)), Support::Available(Abi::V1));
        assert_eq!(judge(Ok(9)), Support::Available(Abi::V9));
        assert_eq!(judge(Err(sys::ENOSYS)), Support::NotBuiltIn);
        assert_eq!(judge(Err(sys::EOPNOTSUPP)), Support::Disabled);
        assert_eq!(judge(Err(1)), Support::CannotTell { errno: 1 });
        assert_eq!(judge(Ok(0)), Support::CannotTell { errno: 0 });
    }

    #[test]
    fn an_unknown_newer_abi_is_kept() {
        let Support::Available(abi) = judge(Ok(1000)) else {
            panic!("ABI 1000 is available")
        };
        assert_eq!(abi.number(), 1000);
        assert!(abi > Abi::V9);
    }

    #[test]
    fn the_kernel_opens_what_its_abi_promises() {
        match support() {
            Support::Available(abi) => assert_eq!(prove_ruleset(abi), Ok(())),
            other => {
                assert!(
                    prove_ruleset(Abi::V1).is_err(),
                    "a ruleset opened despite {other:?}"
                );
            }
        }
    }

    #[test]
    fn the_kernel_refuses_rights_it_does_not_know() {
        const NO_RIGHT_YET: u64 = 1 << 63;
        assert!(sys::open_and_close_ruleset(NO_RIGHT_YET).is_err());
    }

    #[test]
    fn probing_leaves_the_thread_unrestricted() {
        let before = support();
        if let Support::Available(abi) = before {
            prove_ruleset(abi).expect("a ruleset opens");
        }
        let file = std::env::temp_dir().join(std::format!("landlock-{}", std::process::id()));
        std::fs::write(&file, b"still allowed").expect("writing is not restricted");
        std::fs::remove_file(&file).expect("removing is not restricted");
        assert_eq!(support(), before);
    }
}
