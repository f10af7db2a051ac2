//! Filters of system calls: the steps a filter is made of, and how a thread puts one on.

use alloc::vec::Vec;

use linux_raw_sys::ptrace as raw;

use crate::Errno;

/// The system calls of this architecture, by name and number.
pub use syscalls::Sysno;

/// The architecture whose calls [`Sysno`] numbers, as the kernel names it to a filter.
#[cfg(target_arch = "x86_64")]
pub const AUDIT_ARCH: u32 = raw::AUDIT_ARCH_X86_64;
/// The architecture whose calls [`Sysno`] numbers, as the kernel names it to a filter.
#[cfg(target_arch = "aarch64")]
pub const AUDIT_ARCH: u32 = raw::AUDIT_ARCH_AARCH64;

/// What a filter is shown of a call, in words of 32 bits, by their offsets in `struct seccomp_data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterWord {
    /// The number of the call.
    Call,
    /// The architecture whose number that is.
    Architecture,
    /// The lower half of an argument, 0 to 5.
    Argument(u8),
}

/// How the word that was loaded last is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterTest {
    /// Whether it is this number.
    Equal(u32),
    /// Whether it is another number.
    Differs(u32),
    /// Whether it is this number or a higher one.
    AtLeast(u32),
    /// Whether it is a higher number.
    Above(u32),
    /// Whether it has one of these bits.
    AnyOf(u32),
}

/// One step of a filter. It only ever goes forward, and ends at an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterStep {
    /// Loads a word.
    Load(FilterWord),
    /// Compares it, and leaves out so many of the next steps.
    Jump {
        /// The comparison.
        test: FilterTest,
        /// How many steps are left out when it holds.
        holds: u8,
        /// How many when it does not.
        fails: u8,
    },
    /// The call is made.
    Allow,
    /// The call is not made, and its caller gets this error.
    Refuse(Errno),
}

const SET_MODE_FILTER: u32 = 1;
/// Leaves the processor's guess about loads after stores on, as it is for everybody else. Before
/// Linux 5.16 a filter would switch it off and make its thread slow.
const FLAG_SPEC_ALLOW: u32 = 1 << 2;
const ANSWER_ALLOW: u32 = 0x7fff_0000;
const ANSWER_ERRNO: u32 = 0x0005_0000;

impl FilterWord {
    const fn offset(self) -> u32 {
        match self {
            Self::Call => 0,
            Self::Architecture => 4,
            // Both architectures keep the lower half first.
            Self::Argument(at) => 16 + 8 * at as u32,
        }
    }
}

impl FilterStep {
    fn encode(self) -> raw::sock_filter {
        let (code, jt, jf, k) = match self {
            Self::Load(word) => {
                let code = raw::BPF_LD | raw::BPF_W | raw::BPF_ABS;
                (code, 0, 0, word.offset())
            }
            Self::Jump { test, holds, fails } => {
                let (kind, jt, jf, operand) = match test {
                    FilterTest::Equal(operand) => (raw::BPF_JEQ, holds, fails, operand),
                    FilterTest::Differs(operand) => (raw::BPF_JEQ, fails, holds, operand),
                    FilterTest::AtLeast(operand) => (raw::BPF_JGE, holds, fails, operand),
                    FilterTest::Above(operand) => (raw::BPF_JGT, holds, fails, operand),
                    FilterTest::AnyOf(operand) => (raw::BPF_JSET, holds, fails, operand),
                };
                (raw::BPF_JMP | kind | raw::BPF_K, jt, jf, operand)
            }
            Self::Allow => (raw::BPF_RET | raw::BPF_K, 0, 0, ANSWER_ALLOW),
            Self::Refuse(errno) => {
                let answer = ANSWER_ERRNO | errno.raw().unsigned_abs();
                (raw::BPF_RET | raw::BPF_K, 0, 0, answer)
            }
        };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the codes of instructions have 16 bits"
        )]
        let code = code as u16;
        raw::sock_filter { code, jt, jf, k }
    }
}

/// Puts a filter on this thread, for ever. What it forks later wears it too; what it has forked does
/// not.
///
/// # Errors
/// ENOSYS before Linux 3.17; EINVAL for steps that are no filter, and from a kernel without filters;
/// EACCES without `no_new_privs` and without `CAP_SYS_ADMIN`.
///
/// Source: seccomp(2).
pub fn put_on_filter(steps: &[FilterStep]) -> Result<(), Errno> {
    let mut program: Vec<_> = steps.iter().map(|step| step.encode()).collect();
    match set_filter(&mut program, FLAG_SPEC_ALLOW) {
        // The flag came with Linux 4.17.
        Err(Errno::EINVAL) => set_filter(&mut program, 0),
        other => other,
    }
}

fn set_filter(program: &mut [raw::sock_filter], flags: u32) -> Result<(), Errno> {
    let program = raw::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel reads `len` instructions from a slice that is borrowed for the call and has
    // just as many; it copies them and keeps no pointer.
    unsafe { call!(seccomp, SET_MODE_FILTER, flags, &raw const program) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::string::String;

    const HALF: &str = "XIOFLOW_TEST_FILTERED";

    /// A process of its own: nobody takes a filter off again.
    #[test]
    fn a_filter_answers_in_place_of_the_kernel() {
        let test = std::env::current_exe().expect("a program");
        let mut half = Command::new(test);
        half.args(["--exact", "seccomp::tests::filtered", "--ignored"]);
        let output = half.env(HALF, "1").output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
    }

    #[test]
    #[ignore = "the half of another test that wears a filter"]
    fn filtered() {
        if std::env::var_os(HALF).is_none() {
            return;
        }
        let refuse = |call: Sysno, errno| {
            [
                FilterStep::Jump {
                    test: FilterTest::Equal(u32::try_from(call.id()).expect("small")),
                    holds: 0,
                    fails: 1,
                },
                FilterStep::Refuse(errno),
            ]
        };
        let mut steps = alloc::vec![FilterStep::Load(FilterWord::Call)];
        steps.extend(refuse(Sysno::getppid, Errno::ENOSYS));
        steps.extend(refuse(Sysno::setsid, Errno::ESTALE));
        steps.push(FilterStep::Allow);
        crate::set_no_new_privs().expect("always");
        put_on_filter(&steps).expect("a kernel with filters");
        assert_eq!(crate::setsid(), Err(Errno::ESTALE));
        assert_eq!(crate::getppid(), 0, "which is what an error is told as");
        assert_eq!(crate::getpid(), std::process::id());
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        // Without privilege the kernel looks at no filter of a thread that may still gain some; that lasts, so it is for a
        // thread of its own.
        let refused = std::thread::spawn(|| {
            crate::set_no_new_privs().expect("always");
            // It does not end at an answer.
            let steps = [FilterStep::Load(FilterWord::Call)];
            assert!(matches!(
                put_on_filter(&steps),
                Err(Errno::EINVAL | Errno::ENOSYS)
            ));
            assert_eq!(put_on_filter(&[]), Err(Errno::EINVAL));
        });
        refused.join().expect("no panic inside");
    }
}
