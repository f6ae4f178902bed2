//! The memory of the frames: one mapping, and what the kernel has put behind it.
//!
//! It gives out addresses and no access: which value may use a frame's bytes is decided in `frames`.

use std::ptr::NonNull;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use hobt_base::PAGE_SIZE;
use hobt_instruments::{Latch, LatchClass};
use hobt_page::PageBytes;

use crate::error::BufferError;
use crate::state::FRAME_BITS;

/// The unit in which the kernel backs frames where it can.
const HUGE_PAGE: usize = 2 << 20;
/// How far ahead [`FrameMemory::back`] looks for a huge page without memory, in huge pages.
const BACKED_AHEAD: usize = 8;

/// The pool's memory: one mapping, touched as it is used, and not unmapped before the end.
///
/// Frames are numbered from 1; frame 0 exists as address space alone and stands for "none" in a state word.
pub(crate) struct FrameMemory {
    mapping: NonNull<u8>,
    mapped: usize,
    first: NonNull<u8>,
    frames: u32,
    /// For each huge page that has frames.
    backing: Vec<Backing>,
}

/// The memory behind a huge page.
struct Backing {
    is_there: AtomicBool,
    /// Held while it is put there, which takes the kernel up to a millisecond.
    grows: Latch<()>,
}

// SAFETY: the mapping is plain memory, owned by this value until it is dropped; the ownership rules of `frames` say
// which value may access which part.
unsafe impl Send for FrameMemory {}
// SAFETY: as above; a shared `FrameMemory` gives out addresses and no access.
unsafe impl Sync for FrameMemory {}

impl FrameMemory {
    /// Reserves address space for `frames` frames.
    ///
    /// # Errors
    /// [`BufferError::Memory`].
    pub(super) fn reserve(frames: u32) -> Result<FrameMemory, BufferError> {
        assert!(frames > 0 && frames < 1 << FRAME_BITS, "{frames} frames do not fit a state word");
        let bytes = (frames as usize + 1) * PAGE_SIZE;
        let mapped = bytes.next_multiple_of(HUGE_PAGE) + HUGE_PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANON | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let mapping =
            unsafe { libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        let refused =
            || BufferError::Memory { bytes: mapped, code: std::io::Error::last_os_error().raw_os_error().unwrap_or(0) };
        if mapping == libc::MAP_FAILED {
            return Err(refused());
        }
        let mapping = NonNull::new(mapping.cast::<u8>()).ok_or_else(refused)?;
        // SAFETY: rounding up to a huge page moves by less than `HUGE_PAGE`, which the mapping has to spare.
        let first = unsafe { mapping.add(mapping.align_offset(HUGE_PAGE)) };
        #[cfg(target_os = "linux")]
        // SAFETY: the range lies in the mapping. Advice changes no contents; a kernel that does not take it says so,
        // and frames are then backed by small pages.
        let _advice = unsafe { libc::madvise(first.as_ptr().cast(), mapped - HUGE_PAGE, libc::MADV_HUGEPAGE) };
        let backing =
            || Backing { is_there: AtomicBool::new(false), grows: Latch::new(LatchClass::BufferPoolGrow, ()) };
        let backing = std::iter::repeat_with(backing).take(bytes.div_ceil(HUGE_PAGE)).collect();
        Ok(FrameMemory { mapping, mapped, first, frames, backing })
    }

    /// Puts memory behind a frame that is about to be read into, a huge page at a time. Otherwise the kernel would do
    /// it during the read, while it holds the ring. Scans' workers take neighbouring frames, so they meet in one huge
    /// page: while one puts memory there, another does so for one further on. Blocks (`LATCH_SH`, `BUFFER_POOL_GROW`)
    /// when there is none.
    pub(crate) fn back(&self, frame: u32) {
        let huge_page = frame as usize * PAGE_SIZE / HUGE_PAGE;
        while !self.backing[huge_page].is_there.load(Acquire) {
            let last = self.backing.len().min(huge_page + BACKED_AHEAD);
            if !(huge_page..last).any(|at| self.try_populate(at)) {
                drop(self.backing[huge_page].grows.read());
            }
        }
    }

    /// Puts memory behind a huge page, unless it is there or another thread is about to.
    fn try_populate(&self, huge_page: usize) -> bool {
        let backing = &self.backing[huge_page];
        if backing.is_there.load(Acquire) {
            return false;
        }
        let Some(_grows) = backing.grows.try_write() else { return false };
        if backing.is_there.load(Acquire) {
            return false;
        }
        #[cfg(target_os = "linux")]
        // SAFETY: there is an entry of `backing` for it, and `reserve` maps as many huge pages from `first` on.
        // Populating changes no contents; where the kernel cannot, memory comes with the first access as ever.
        let _best_effort = unsafe {
            let start = self.first.add(huge_page * HUGE_PAGE).as_ptr();
            libc::madvise(start.cast(), HUGE_PAGE, libc::MADV_POPULATE_WRITE)
        };
        backing.is_there.store(true, Release);
        true
    }

    /// How many frames there are.
    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    pub(super) fn address(&self, frame: u32) -> NonNull<PageBytes> {
        debug_assert!(frame > 0 && frame <= self.frames);
        // SAFETY: frame numbers in words and tokens are at most `frames`, so the address lies in the mapping.
        unsafe { self.first.add(frame as usize * PAGE_SIZE).cast() }
    }
}

impl Drop for FrameMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and every holder of an address into it (guards, pinned frames) also
        // borrows or shares this value.
        let result = unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapped) };
        debug_assert_eq!(result, 0, "unmapping the frames");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_take_neighbouring_frames_have_memory_behind_them() {
        const FRAMES: u32 = 4000;
        let memory = FrameMemory::reserve(FRAMES).expect("memory");
        std::thread::scope(|scope| {
            for first in 1..=3 {
                let memory = &memory;
                scope.spawn(move || {
                    for frame in (first..=FRAMES).step_by(3) {
                        memory.back(frame);
                        let huge_page = frame as usize * PAGE_SIZE / HUGE_PAGE;
                        assert!(memory.backing[huge_page].is_there.load(Acquire), "frame {frame}");
                    }
                });
            }
        });
        assert!(memory.backing.iter().all(|backing| backing.is_there.load(Acquire)));
    }
}
