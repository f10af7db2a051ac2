//! Arguments of a system call as the registers they travel in.

use crate::BorrowedFd;

/// A value that fits one register of a system call.
pub(crate) trait Register: Copy {
    /// The register's content.
    fn register(self) -> usize;
}

macro_rules! as_register {
    ($($kind:ty),*) => {$(
        impl Register for $kind {
            #[expect(
                clippy::allow_attributes,
                reason = "which of the casts is lossy depends on the type"
            )]
            #[allow(
                clippy::cast_sign_loss,
                clippy::cast_possible_truncation,
                reason = "a register carries the bit pattern: negative numbers in two's complement"
            )]
            fn register(self) -> usize {
                self as usize
            }
        }
    )*};
}

as_register!(i32, u32, i64, u64, usize);

impl<T> Register for *const T {
    fn register(self) -> usize {
        self as usize
    }
}

impl<T> Register for *mut T {
    fn register(self) -> usize {
        self as usize
    }
}

impl Register for BorrowedFd<'_> {
    fn register(self) -> usize {
        self.raw().register()
    }
}

/// Makes the system call named first with the arguments after it.
///
/// Must stand in an `unsafe` block whose comment argues for this call.
macro_rules! call {
    ($name:ident $(, $argument:expr)* $(,)?) => {
        ::syscalls::syscall!(
            ::syscalls::Sysno::$name $(, $crate::register::Register::register($argument))*
        )
        .map_err($crate::Errno::from)
    };
}
