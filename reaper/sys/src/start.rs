//! How a freestanding program begins and ends: entry point, memory functions, panic handler.
//!
//! All of it is in macros, so that the symbols (`_start`, `memcpy`, ...) exist only in the program
//! that expands [`freestanding!`](crate::freestanding), never in one that has a C library.

use core::ffi::CStr;
use core::iter;
use core::panic::PanicInfo;

use linux_raw_sys::auxvec::{AT_PAGESZ, AT_SECURE};

use crate::register::Register;
use crate::{
    CWD, DirEntries, Errno, OpenFlags, OwnedFd, RawFd, SingleThread, exit_group, getdents, openat,
};

/// What a program finds when it begins.
#[derive(Debug)]
pub struct Entry {
    arguments: &'static [*const core::ffi::c_char],
    page_size: usize,
    secure: bool,
    descriptors: Result<(), Errno>,
    single_thread: SingleThread,
}

impl Entry {
    /// The arguments, the program's own name first.
    pub fn arguments(&self) -> impl Iterator<Item = &'static CStr> {
        // SAFETY: the kernel put these pointers on the initial stack, each to a NUL-terminated
        // string there; both stay for the life of the program.
        self.arguments
            .iter()
            .map(|&string| unsafe { CStr::from_ptr(string) })
    }

    /// The size of a page, in bytes.
    #[must_use]
    pub const fn page_size(&self) -> usize {
        self.page_size
    }

    /// Whether the program got rights by its file that its caller has not (`AT_SECURE`).
    #[must_use]
    pub const fn secure(&self) -> bool {
        self.secure
    }

    /// Whether every inherited descriptor above 2 was closed before the program began.
    ///
    /// # Errors
    /// What the kernel said when that failed.
    pub const fn inherited_closed(&self) -> Result<(), Errno> {
        self.descriptors
    }

    /// The proof that lets the program fork.
    #[must_use]
    pub fn single_thread(self) -> SingleThread {
        self.single_thread
    }
}

/// Calls the program's main function and ends with its status.
///
/// # Safety
/// `stack` is the stack pointer as the kernel left it at the first instruction, and nothing of
/// the program has run yet.
pub unsafe fn begin(stack: *const usize, main: fn(Entry) -> i32) -> ! {
    // SAFETY: the caller's promise: argc, then argc pointers and null, the environment and
    // null, then pairs that end with AT_NULL; see "Process Initialization" in the psABI.
    let (arguments, auxiliary) = unsafe {
        let count = stack.read();
        let first = stack.add(1);
        let arguments = core::slice::from_raw_parts(first.cast(), count);
        (arguments, Auxiliary::read(first.add(count + 1)))
    };
    let entry = Entry {
        arguments,
        page_size: auxiliary.page_size,
        secure: auxiliary.secure,
        descriptors: close_from(3),
        // SAFETY: the program has just begun, has no C library, and makes no threads.
        single_thread: unsafe { SingleThread::assert() },
    };
    exit_group(main(entry))
}

/// What is taken of the auxiliary vector, see getauxval(3).
struct Auxiliary {
    page_size: usize,
    secure: bool,
}

impl Auxiliary {
    /// Reads what is behind the environment.
    ///
    /// # Safety
    /// `environment` leads to the pointers of the environment on the initial stack.
    unsafe fn read(environment: *const usize) -> Self {
        let mut found = Self {
            page_size: 4096,
            secure: false,
        };
        // SAFETY: the caller's promise; both walks stop at the terminators the kernel wrote.
        unsafe {
            let mut word = environment;
            while word.read() != 0 {
                word = word.add(1);
            }
            word = word.add(1);
            while word.read() != 0 {
                let value = word.add(1).read();
                match word.read() {
                    kind if kind == AT_PAGESZ.register() => found.page_size = value,
                    kind if kind == AT_SECURE.register() => found.secure = value != 0,
                    _ => {}
                }
                word = word.add(2);
            }
        }
        found
    }
}

/// Closes all descriptors from `first` on. Only before anything owns one.
fn close_from(first: u32) -> Result<(), Errno> {
    // SAFETY: takes no pointer. Nothing of the program has run, so no value owns a descriptor.
    match unsafe { call!(close_range, first, u32::MAX, 0u32) } {
        Err(Errno::ENOSYS) => close_listed(first, -1),
        other => other.map(drop),
    }
}

/// Goes on as another life with one descriptor, all others from 3 on closed, and never comes back. For
/// the copy of a process that has nothing to do with what the original holds.
///
/// `life` gets what became of the closing: an error means that some are open still.
pub fn keep_only(kept: OwnedFd, life: fn(Result<(), Errno>, OwnedFd) -> !) -> ! {
    let number = kept.raw().unsigned_abs();
    life(close_around(number), kept)
}

fn close_around(kept: u32) -> Result<(), Errno> {
    for (first, last) in [(3, kept.saturating_sub(1)), (kept + 1, u32::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: takes no pointer. Values that own one of these exist in frames that `keep_only` never goes back
        // to, so none of them is used or dropped; `life` is a plain function and brought none along.
        match unsafe { call!(close_range, first, last, 0u32) } {
            Err(Errno::ENOSYS) => return close_listed(3, kept.cast_signed()),
            other => other.map(drop)?,
        }
    }
    Ok(())
}

/// The same before Linux 5.9, by the list of what is open, and without one that is kept.
fn close_listed(first: u32, kept: RawFd) -> Result<(), Errno> {
    let list = openat(CWD, c"/proc/self/fd", OpenFlags::DIRECTORY, 0)?;
    let own = list.raw().unsigned_abs();
    let mut buffer = [0; 2048];
    loop {
        let entries = getdents(crate::AsFd::as_fd(&list), &mut buffer)?;
        if entries.is_end() {
            return Ok(());
        }
        for number in numbers(entries)
            .filter(|&number| number >= first && number != own && number.cast_signed() != kept)
        {
            // SAFETY: as in the callers; our own list is left out.
            let _closed = unsafe { call!(close, number) };
        }
    }
}

fn numbers(mut entries: DirEntries<'_>) -> impl Iterator<Item = u32> {
    iter::from_fn(move || entries.next()).filter_map(|name| name.to_str().ok()?.parse().ok())
}

/// Ends the program from its panic handler, after one chance to say so.
///
/// A panic inside `report` ends it at once.
pub fn end_in_panic(info: &PanicInfo<'_>, report: fn(&PanicInfo<'_>), status: i32) -> ! {
    use core::sync::atomic::{AtomicBool, Ordering};
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !REPORTED.swap(true, Ordering::Relaxed) {
        report(info);
    }
    exit_group(status)
}

/// Makes a program without a C library of the crate that expands it.
///
/// `main` is a `fn(Entry) -> i32`; when it runs, descriptors above 2 are closed. `panic` is a
/// `fn(&PanicInfo)` that reports, and `panic_status` the exit status after it. The crate has
/// `#![no_std]` and `#![no_main]`, is built with `panic = "abort"`, and is linked with
/// `-nostartfiles -nostdlib -static -no-pie`.
#[macro_export]
macro_rules! freestanding {
    (main = $main:path, panic = $panic:path, panic_status = $status:expr $(,)?) => {
        // SAFETY: the only heap of a program that makes no threads.
        #[global_allocator]
        static HEAP: $crate::Heap = unsafe { $crate::Heap::new() };

        extern "C" fn begin(stack: *const usize) -> ! {
            // SAFETY: called by `_start` alone, with the stack pointer it found.
            unsafe { $crate::start::begin(stack, $main) }
        }

        #[panic_handler]
        fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
            $crate::start::end_in_panic(info, $panic, $status)
        }

        // core and alloc come built for unwinding and refer to these two; with `panic = "abort"`
        // nothing ever calls them.
        // SAFETY: no other definition exists in a program without a C library.
        #[unsafe(no_mangle)]
        extern "C" fn rust_eh_personality() {}

        // SAFETY: as above.
        #[unsafe(no_mangle)]
        extern "C" fn _Unwind_Resume() -> ! {
            $crate::exit_group($status)
        }

        $crate::entry_point!(begin);
        $crate::memory_functions!();
    };
}

/// The first instruction: hands the stack to a Rust function. No frame lies above it.
#[doc(hidden)]
#[macro_export]
macro_rules! entry_point {
    ($begin:path) => {
        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            ".globl _start",
            ".type _start, @function",
            "_start:",
            "xor ebp, ebp",
            "mov rdi, rsp",
            "and rsp, -16",
            "call {begin}",
            "ud2",
            begin = sym $begin,
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            ".globl _start",
            ".type _start, @function",
            "_start:",
            "mov x29, #0",
            "mov x30, #0",
            "mov x0, sp",
            "bl {begin}",
            "brk #1",
            begin = sym $begin,
        );
    };
}

/// The functions that compiled code calls without being asked: memcpy(3) and its kin.
///
/// Written in assembly because the compiler turns such loops in Rust into calls of themselves.
/// x86_64 uses the string instructions, which its processors make fast for long runs.
#[doc(hidden)]
#[macro_export]
macro_rules! memory_functions {
    () => {
        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            ".globl memcpy",
            "memcpy:",
            "mov rax, rdi",
            "mov rcx, rdx",
            "rep movsb",
            "ret",
            // Backwards only when the target begins inside the source.
            ".globl memmove",
            "memmove:",
            "mov rax, rdi",
            "mov rcx, rdx",
            "mov r8, rdi",
            "sub r8, rsi",
            "cmp r8, rdx",
            "jb 2f",
            "rep movsb",
            "ret",
            "2:",
            "lea rsi, [rsi + rcx - 1]",
            "lea rdi, [rdi + rcx - 1]",
            "std",
            "rep movsb",
            "cld",
            "ret",
            ".globl memset",
            "memset:",
            "mov r8, rdi",
            "mov rcx, rdx",
            "mov eax, esi",
            "rep stosb",
            "mov rax, r8",
            "ret",
            ".globl memcmp",
            "memcmp:",
            ".globl bcmp",
            "bcmp:",
            "xor eax, eax",
            "mov rcx, rdx",
            "test rcx, rcx",
            "je 3f",
            "repe cmpsb",
            "je 3f",
            "movzx eax, byte ptr [rdi - 1]",
            "movzx ecx, byte ptr [rsi - 1]",
            "sub ecx, eax",
            "mov eax, ecx",
            "3:",
            "ret",
            ".globl strlen",
            "strlen:",
            "xor eax, eax",
            "4:",
            "cmp byte ptr [rdi + rax], 0",
            "je 5f",
            "inc rax",
            "jmp 4b",
            "5:",
            "ret",
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            ".globl memmove",
            "memmove:",
            "sub x3, x0, x1",
            "cmp x3, x2",
            "b.lo 4f",
            ".globl memcpy",
            "memcpy:",
            "mov x3, x0",
            "2:",
            "cmp x2, #8",
            "b.lo 3f",
            "ldr x4, [x1], #8",
            "str x4, [x3], #8",
            "sub x2, x2, #8",
            "b 2b",
            "3:",
            "cbz x2, 6f",
            "ldrb w4, [x1], #1",
            "strb w4, [x3], #1",
            "sub x2, x2, #1",
            "b 3b",
            "4:",
            "cbz x2, 6f",
            "sub x2, x2, #1",
            "ldrb w4, [x1, x2]",
            "strb w4, [x0, x2]",
            "b 4b",
            "6:",
            "ret",
            ".globl memset",
            "memset:",
            "mov x3, x0",
            "7:",
            "cbz x2, 8f",
            "strb w1, [x3], #1",
            "sub x2, x2, #1",
            "b 7b",
            "8:",
            "ret",
            ".globl memcmp",
            "memcmp:",
            ".globl bcmp",
            "bcmp:",
            "cbz x2, 9f",
            "ldrb w3, [x0], #1",
            "ldrb w4, [x1], #1",
            "sub x2, x2, #1",
            "subs w5, w3, w4",
            "b.eq bcmp",
            "mov w0, w5",
            "ret",
            "9:",
            "mov w0, #0",
            "ret",
            ".globl strlen",
            "strlen:",
            "mov x1, x0",
            "10:",
            "ldrb w2, [x1], #1",
            "cbnz w2, 10b",
            "sub x0, x1, x0",
            "sub x0, x0, #1",
            "ret",
            // The compiler's own runtime refers to getauxval(3) in a constructor that chooses
            // among atomic instructions. Nothing runs constructors here, so it keeps to those
            // that every processor has.
            ".globl getauxval",
            "getauxval:",
            "mov x0, #0",
            "ret",
        );
    };
}
