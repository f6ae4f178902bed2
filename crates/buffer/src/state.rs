//! The state word of a page: 64 bits that say where the page is, how it is latched and whether it changed.
//!
//! ```text
//! bit 0        26        27      28         29        30           40                64
//!     | frame   | LOADING | DIRTY | REFERENCED | WAITERS | latch (10) | version (24)   |
//! ```
//!
//! `frame` 0 means that no frame holds the page. `latch` counts shared holders; [`EXCLUSIVE`] is the exclusive one.
//!
//! | state    | word                            | access to the frame                | leaves it by              |
//! |----------|---------------------------------|------------------------------------|---------------------------|
//! | absent   | frame 0                         | there is none                      | claim → loading           |
//! | loading  | frame 0, LOADING, latch EX      | the claim's owner, whose frame is  | publish → resident, with  |
//! |          |                                 | in no word yet                     | or without a latch;       |
//! |          |                                 |                                    | abandon → absent          |
//! | resident | frame, latch 0                  | optimistic copies only             | share, exclude,           |
//! |          |                                 |                                    | evict if clean → absent   |
//! | shared   | frame, latch 1..=1022           | every holder reads; optimistic     | last release; a sole      |
//! |          |                                 | copies                             | holder evicts if clean    |
//! | excluded | frame, latch EX                 | the holder reads and writes;       | release, downgrade,       |
//! |          |                                 | optimistic copies fail             | discard → absent          |
//!
//! * DIRTY is set by the exclusive holder when it releases the latch, and cleared by a shared holder that has written
//!   the page to disk. A page is written under a shared latch, so it does not change during the write, and a clean
//!   page's bytes are those on disk.
//! * REFERENCED is a hint to the clock and may change in any resident state.
//! * WAITERS says that threads are parked on the word. A waiter sets it while the parking queue is locked and the latch
//!   conflicts with its request. On release, the holder clears it and wakes the first waiter, which sets it again if
//!   others are left (`parking.rs`).
//! * `version` is incremented when an exclusive holder changed the page and when a frame is taken from it. Equal
//!   versions (and no exclusive holder) before and after a copy therefore mean that the copy is whole. It wraps at 2²⁴:
//!   a copy is wrongly accepted only if it sleeps through an exact multiple of 16 million changes of its page. It is
//!   also incremented for an absent page whose extent is freed, which makes its copy in the buffer pool extension void.
//!
//! This file defines the bits. `frames.rs` is the only file that stores a word.

/// Bits of the frame number, so a pool has at most 2²⁶ − 1 frames: 512 GiB.
pub(crate) const FRAME_BITS: u32 = 26;
const FRAME_MASK: u64 = (1 << FRAME_BITS) - 1;
/// A read is under way, or an owner prepares the page.
pub(crate) const LOADING: u64 = 1 << 26;
/// The frame's contents are newer than those on disk.
pub(crate) const DIRTY: u64 = 1 << 27;
/// Used since the clock's hand last passed.
pub(crate) const REFERENCED: u64 = 1 << 28;
/// Threads are parked on this word.
pub(crate) const WAITERS: u64 = 1 << 29;
const LATCH_SHIFT: u32 = 30;
const LATCH_MASK: u64 = 0x3FF << LATCH_SHIFT;
/// One shared holder.
pub(crate) const SHARED_ONE: u64 = 1 << LATCH_SHIFT;
/// The latch field of an exclusive holder.
pub(crate) const EXCLUSIVE: u64 = LATCH_MASK;
const VERSION_SHIFT: u32 = 40;
/// Bits of the version.
pub(crate) const VERSION_BITS: u32 = u64::BITS - VERSION_SHIFT;
const VERSION_MASK: u64 = !0 << VERSION_SHIFT;

const _: () = assert!(FRAME_MASK | LOADING | DIRTY | REFERENCED | WAITERS | LATCH_MASK | VERSION_MASK == u64::MAX);
const _: () = assert!(FRAME_MASK + LOADING + DIRTY + REFERENCED + WAITERS + LATCH_MASK == (1 << VERSION_SHIFT) - 1);

/// A state word's value at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct StateWord(pub(crate) u64);

impl StateWord {
    /// The frame that holds the page; 0 if none does.
    pub(crate) const fn frame(self) -> u32 {
        // The mask leaves 26 bits.
        (self.0 & FRAME_MASK) as u32
    }

    pub(crate) const fn has(self, bits: u64) -> bool {
        self.0 & bits == bits
    }

    pub(crate) const fn with(self, bits: u64) -> StateWord {
        StateWord(self.0 | bits)
    }

    pub(crate) const fn without(self, bits: u64) -> StateWord {
        StateWord(self.0 & !bits)
    }

    /// Neither in a frame nor on its way into one.
    pub(crate) const fn is_absent(self) -> bool {
        self.0 & (FRAME_MASK | LOADING) == 0
    }

    pub(crate) const fn is_resident(self) -> bool {
        self.0 & FRAME_MASK != 0
    }

    pub(crate) const fn is_loading(self) -> bool {
        self.0 & LOADING != 0
    }

    pub(crate) const fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    /// Held exclusively, by a guard or by a load.
    pub(crate) const fn is_exclusive(self) -> bool {
        self.0 & LATCH_MASK == EXCLUSIVE
    }

    pub(crate) const fn is_latched(self) -> bool {
        self.0 & LATCH_MASK != 0
    }

    /// Held by exactly one shared holder.
    pub(crate) const fn is_shared_once(self) -> bool {
        self.0 & LATCH_MASK == SHARED_ONE
    }

    /// Whether one more shared holder fits.
    pub(crate) const fn admits_shared(self) -> bool {
        self.is_resident() && self.0 & LATCH_MASK < EXCLUSIVE - SHARED_ONE
    }

    pub(crate) const fn admits_exclusive(self) -> bool {
        self.is_resident() && !self.is_latched()
    }

    pub(crate) const fn unlatched(self) -> StateWord {
        StateWord(self.0 & !LATCH_MASK)
    }

    pub(crate) const fn version(self) -> u64 {
        self.0 >> VERSION_SHIFT
    }

    /// The version as a number of [`VERSION_BITS`] bits.
    pub(crate) const fn version_number(self) -> u32 {
        // 24 bits.
        self.version() as u32
    }

    pub(crate) const fn next_version(self) -> StateWord {
        StateWord(self.0.wrapping_add(1 << VERSION_SHIFT))
    }

    /// Absent, with only the version left.
    pub(crate) const fn emptied(self) -> StateWord {
        StateWord(self.0 & VERSION_MASK)
    }

    /// Whether a copy taken between two moments, `self` and `after`, saw one whole version in one frame. At the first
    /// moment the page must have been resident and not held exclusively.
    pub(crate) const fn same_contents(self, after: StateWord) -> bool {
        (self.0 ^ after.0) & (FRAME_MASK | LOADING | VERSION_MASK) == 0 && !after.is_exclusive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap_and_versions_wrap_alone() {
        let word = StateWord(7 | DIRTY | SHARED_ONE | VERSION_MASK);
        assert_eq!((word.frame(), word.version()), (7, (1 << 24) - 1));
        let next = word.next_version();
        assert_eq!((next.frame(), next.version()), (7, 0));
        assert!(next.is_dirty() && next.is_shared_once() && !next.is_exclusive());
        assert_eq!(word.emptied().version(), word.version());
        assert!(word.emptied().is_absent());
    }

    #[test]
    fn the_shared_count_never_reaches_the_exclusive_mark() {
        let mut word = StateWord(1);
        let mut holders = 0;
        while word.admits_shared() {
            word = StateWord(word.0 + SHARED_ONE);
            holders += 1;
        }
        assert_eq!(holders, 1022);
        assert!(!word.is_exclusive() && word.is_latched());
    }

    #[test]
    fn a_copy_is_void_when_the_page_moved_changed_or_is_being_changed() {
        let before = StateWord(5 | SHARED_ONE);
        assert!(before.same_contents(before.unlatched().with(REFERENCED | WAITERS | DIRTY)));
        assert!(!before.same_contents(before.with(EXCLUSIVE)));
        assert!(!before.same_contents(before.next_version()));
        assert!(!before.same_contents(before.emptied()));
        assert!(!before.same_contents(StateWord(before.0 + 1)));
    }
}
