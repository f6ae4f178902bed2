//! An allocator that counts what each thread allocates, so that a test can limit it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most that it ever was since it was set back.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted: that of every test binary which uses this crate.
struct CountedAllocator;

#[global_allocator]
static ALLOCATOR: CountedAllocator = CountedAllocator;

fn count(bytes: isize) {
    // A thread that is ending has no counters any more, and is not measured.
    let _counted_or_ending = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is passed on to the system's allocator, and its result returned. Counting allocates nothing: the
// counters are constants at first and have no destructor.
unsafe impl GlobalAlloc for CountedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller's promise is the one that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: as above; the pointer came from `alloc`, so from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work` and returns the most bytes that it had allocated at one time, on this thread.
pub fn allocated_at_most(work: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    work();
    (PEAK.get() - before).max(0).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_counted_and_what_was_freed_is_not() {
        let most = allocated_at_most(|| {
            for _ in 0..10 {
                drop(std::hint::black_box(vec![1_u8; 10_000]));
            }
        });
        assert!((10_000..20_000).contains(&most), "{most}");
    }
}
