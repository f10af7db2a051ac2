//! The heap of a freestanding program: talc over pages asked from the kernel.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::ptr;

use linux_raw_sys::general as raw;
use talc::locking::AssumeUnlockable;
use talc::{OomHandler, Span, Talc, Talck};

use crate::Errno;

/// Memory that needs no system call: enough for an ordinary launch.
const ARENA_LEN: usize = 128 * 1024;

/// The least that is asked from the kernel at a time.
const GROWTH_LEN: usize = 256 * 1024;

/// The heap. For programs with one thread only; see [`crate::freestanding!`].
pub struct Heap {
    talc: Talck<AssumeUnlockable, Pages>,
}

// Zero pages of the program's own image: they cost nothing until they are touched.
#[repr(align(4096))]
struct Arena(UnsafeCell<[u8; ARENA_LEN]>);

// SAFETY: the bytes are reached only through the one `Heap` of a single-threaded program, which
// takes their address and never reads them as an array.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_LEN]));

impl Heap {
    /// An empty heap.
    ///
    /// # Safety
    /// At most one exists in a program, and it is used by one thread only: it takes no lock.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self {
            talc: Talc::new(Pages {
                arena_is_free: true,
            })
            .lock(),
        }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").finish_non_exhaustive()
    }
}

// SAFETY: each call is passed on unchanged to talc, which upholds the contract of `GlobalAlloc`.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.talc.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.talc.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.talc.realloc(memory, layout, new_size) }
    }
}

#[derive(Debug)]
struct Pages {
    arena_is_free: bool,
}

impl OomHandler for Pages {
    fn handle_oom(talc: &mut Talc<Self>, layout: Layout) -> Result<(), ()> {
        let span = if talc.oom_handler.arena_is_free {
            talc.oom_handler.arena_is_free = false;
            Span::from_base_size(ARENA.0.get().cast(), ARENA_LEN)
        } else {
            let len = layout.size().saturating_add(layout.align()).max(GROWTH_LEN);
            // talc keeps its own notes at both ends of a span.
            let len = len.saturating_add(4096).next_multiple_of(4096);
            Span::from_base_size(map_pages(len).map_err(drop)?, len)
        };
        // SAFETY: the span is memory that nobody else uses: the arena, given out once, or pages
        // that the kernel has just mapped; both stay for the life of the program.
        unsafe { talc.claim(span) }.map(drop)
    }
}

fn map_pages(len: usize) -> Result<*mut u8, Errno> {
    let protection = raw::PROT_READ | raw::PROT_WRITE;
    let flags = raw::MAP_PRIVATE | raw::MAP_ANONYMOUS;
    // SAFETY: an anonymous mapping at an address of the kernel's choice replaces nothing.
    let address = unsafe {
        call!(
            mmap,
            ptr::null_mut::<u8>(),
            len,
            protection,
            flags,
            -1i32,
            0usize
        )
    }?;
    Ok(ptr::with_exposed_provenance_mut(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_beyond_the_arena_and_taken_back() {
        // SAFETY: the only heap in this test program, used by this thread alone.
        let heap = unsafe { Heap::new() };
        let layout = Layout::from_size_align(3 * ARENA_LEN, 64).expect("a valid layout");
        for round in 0..200u8 {
            // SAFETY: the layout is not empty; what is allocated is written inside its bounds
            // and given back with the same layout.
            unsafe {
                let memory = heap.alloc(layout);
                assert!(!memory.is_null());
                memory.write_bytes(round, layout.size());
                assert_eq!(memory.add(layout.size() - 1).read(), round);
                heap.dealloc(memory, layout);
            }
        }
        let small = Layout::from_size_align(24, 8).expect("a valid layout");
        // SAFETY: as above.
        unsafe {
            let a = heap.alloc(small);
            let b = heap.alloc(small);
            assert!(!a.is_null() && !b.is_null() && a != b);
            heap.dealloc(a, small);
            heap.dealloc(b, small);
        }
    }
}
