//! Room in the log: what is reserved, what a flush costs, and who may use up what is left.
//!
//! Invariant: what was begun can be ended. What is reserved finds room, whatever others do, and recovery finds as much
//! for the same at the next opening, which goes on in the block behind the last sound one. So a full log refuses new
//! work, and nothing else.
//!
//! A block is whole units, so a flush of few bytes costs more than their number says. Three things are counted:
//!
//! ```text
//! records   bytes that are reserved, or appended and not written: a quarter more, which covers the header and the
//!           padding of every block of at least ONE_FIFTH_PADDING bytes of records
//! flushes   reserved one by one (a commit, alone): FLUSH_BYTES each, what any block has beside its records
//! ends      of segments, where the next record does not fit: END_BYTES of every segment do not count as room
//! ```
//!
//! A short flush that nothing was reserved for (a page is to be written, a timer has run down) may use up only what is
//! left over, and is refused otherwise ([`LogError::Full`]). What is left over is kept in steps ([`RoomFor`]): new work
//! stops first, then such flushes, then checkpoints, so that a checkpoint runs in a log that is full, and recovery
//! after that.
//!
//! Leaves to others: how records and blocks are written (`log`), how many bytes a change and its undo take (crate
//! `access`).

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::block::{BLOCK_HEADER_BYTES, BLOCK_UNIT, block_bytes};
use crate::log::Log;
use crate::record::{PAYLOAD_BYTES_MAX, record_bytes};
use crate::segments::Segments;
use crate::{LogError, SEGMENT_BYTES_MIN};

/// What a block has beside its records, at most: its header, and zeros up to the next unit.
const FLUSH_BYTES: u64 = (BLOCK_HEADER_BYTES + BLOCK_UNIT) as u64;
/// A block with so many bytes of records is no longer than a quarter more.
const ONE_FIFTH_PADDING: u64 = 4 * FLUSH_BYTES;
/// The end of a segment that may stay empty: the longest record needs a block that does not fit, and the flush that
/// meets the end is cut in two.
const END_BYTES: u64 = block_bytes(record_bytes(PAYLOAD_BYTES_MAX)) as u64 + FLUSH_BYTES;
const _: () = assert!(END_BYTES < SEGMENT_BYTES_MIN, "a segment has room beside its end");

/// Short flushes that a checkpoint finds room for, beside the counts of rows that it saves.
const CHECKPOINT_FLUSHES: u64 = 32;
/// What recovery needs beside what was reserved: short flushes for pages that it writes, and those of its checkpoint.
const RECOVERY_BYTES: u64 = 2 * CHECKPOINT_FLUSHES * FLUSH_BYTES;
/// What new work leaves to what cannot be known beforehand: flushes for pages that are written, and images and
/// descriptions of HOBTs that an undo needs again because a checkpoint has begun since.
const LEEWAY_BYTES: u64 = 1 << 20;

/// What room is wanted for.
#[derive(Clone, Copy, Debug)]
pub enum RoomFor<'a> {
    /// Work that begins: an error undoes it.
    Work,
    /// A flush that could come later: other pages may be written, or more may have been appended by then.
    Later,
    /// A checkpoint, which may free some.
    Checkpoint,
    /// What was reserved with its flush: the end of a transaction.
    End(&'a Reservation),
}

/// Room in the log that a transaction may still need: bytes of records that it is about to append, or that will undo
/// what it has appended, and flushes of its end. It belongs to one log, which it is given back to by [`Log::release`].
#[derive(Debug, Default)]
pub struct Reservation {
    bytes: AtomicU64,
    flushes: AtomicU64,
}

impl Reservation {
    /// How many bytes are reserved.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many flushes are reserved.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Takes up to so many bytes out; how many it had.
    pub(crate) fn take(&self, bytes: u64) -> u64 {
        take(&self.bytes, bytes)
    }
}

/// Takes up to so many out; how many there were.
fn take(from: &AtomicU64, wanted: u64) -> u64 {
    let taken = from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |had| Some(had - wanted.min(had)));
    taken.map_or(0, |had| wanted.min(had))
}

/// What a log counts of its room.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes that blocks can fill: what is free but for the ends of segments. It is one number: bytes and ends in two
    /// would be read between the steps in which a checkpoint adds to them, as more than there is. Below 0 where a
    /// segment is filled into its end.
    usable_bytes: AtomicI64,
    /// Bytes of segments that hold nothing needed, and the rest of the one that is being filled: what views show, and
    /// what says when a checkpoint is due.
    free_bytes: AtomicU64,
    /// Bytes of all reservations.
    reserved_bytes: AtomicU64,
    /// Flushes of all reservations.
    reserved_flushes: AtomicU64,
    /// Bytes of records that the next checkpoint will append.
    checkpoint_bytes: AtomicU64,
    /// Recovery has the log: nothing is left to others.
    is_recovering: AtomicBool,
}

impl Room {
    /// The room of a log with these segments, of which one is being filled and has `rest` bytes left.
    pub(crate) fn new(segments: &Segments, rest: Option<u64>, is_recovering: bool) -> Room {
        let (bytes, count) = segments.free();
        let (bytes, count) = (bytes + rest.unwrap_or(0), count + u64::from(rest.is_some()));
        Room {
            usable_bytes: AtomicI64::new(bytes.cast_signed() - ends(count)),
            free_bytes: AtomicU64::new(bytes),
            reserved_bytes: AtomicU64::new(0),
            reserved_flushes: AtomicU64::new(0),
            checkpoint_bytes: AtomicU64::new(0),
            is_recovering: AtomicBool::new(is_recovering),
        }
    }

    /// The free segments have become others since they were `before`.
    pub(crate) fn follow(&self, before: (u64, u64), now: (u64, u64)) {
        // What wraps is a number that becomes less.
        let bytes = now.0.wrapping_sub(before.0);
        self.usable_bytes.fetch_add(bytes.cast_signed() + ends(before.1) - ends(now.1), Ordering::Relaxed);
        self.free_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A block was written.
    pub(crate) fn written(&self, bytes: u64) {
        self.usable_bytes.fetch_sub(bytes.cast_signed(), Ordering::Relaxed);
        let free = self.free_bytes.fetch_sub(bytes, Ordering::Relaxed);
        debug_assert!(free >= bytes, "a block of {bytes} bytes was written where {free} were free");
    }

    /// The segment that was being filled is full, but for `rest` bytes.
    pub(crate) fn filled(&self, rest: u64) {
        self.usable_bytes.fetch_add(ends(1) - rest.cast_signed(), Ordering::Relaxed);
        self.free_bytes.fetch_sub(rest, Ordering::Relaxed);
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Takes a record that was appended out of a reservation.
    pub(crate) fn appended(&self, reservation: &Reservation, bytes: u64) {
        // Behind the end of the log that has it: see `has_room`.
        self.reserved_bytes.fetch_sub(reservation.take(bytes), Ordering::Release);
    }

    /// Bytes that blocks can fill.
    fn usable(&self) -> u64 {
        u64::try_from(self.usable_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// What blocks will take of what is reserved, and of `unwritten` bytes.
    fn needed(&self, unwritten: u64) -> u64 {
        let records = self.reserved_bytes.load(Ordering::Acquire) + unwritten;
        // One more: what has ended and is not durable is flushed some time.
        let flushes = self.reserved_flushes.load(Ordering::Acquire) + 1;
        with_padding(records) + flushes * FLUSH_BYTES
    }

    /// What is left for other purposes.
    fn left_to_others(&self, room_for: RoomFor<'_>) -> u64 {
        if self.is_recovering.load(Ordering::Relaxed) {
            return 0;
        }
        let of_checkpoint = || {
            let records = self.checkpoint_bytes.load(Ordering::Relaxed);
            CHECKPOINT_FLUSHES * FLUSH_BYTES + with_padding(records)
        };
        match room_for {
            RoomFor::Work => RECOVERY_BYTES + of_checkpoint() + LEEWAY_BYTES,
            RoomFor::Later => RECOVERY_BYTES + of_checkpoint(),
            RoomFor::Checkpoint => RECOVERY_BYTES,
            RoomFor::End(_) => 0,
        }
    }
}

/// Bytes at the ends of so many segments that may stay empty.
fn ends(segments: u64) -> i64 {
    (segments * END_BYTES).cast_signed()
}

/// What a flush of so many bytes of records takes that nothing was counted for.
pub(crate) fn loss(records: u64) -> u64 {
    if records >= ONE_FIFTH_PADDING {
        return 0;
    }
    let block = block_bytes(usize::try_from(records).expect("less than a block")) as u64;
    block.saturating_sub(records + records / 4)
}

fn with_padding(records: u64) -> u64 {
    records + records.div_ceil(4)
}

/// Who pays for a short flush.
pub(crate) enum Paid {
    /// There is room for it beside what others need.
    LeftOver,
    /// It was reserved.
    Reserved,
}

impl Log {
    /// Makes sure that `bytes` more of records can be appended and flushed with others, whatever others do meanwhile:
    /// those that are about to be appended, and those that would undo them. Grows the log if it must.
    ///
    /// # Errors
    /// [`LogError::Full`], or the log has failed.
    pub fn reserve(&self, reservation: &Reservation, bytes: u64) -> Result<(), LogError> {
        self.reserve_for(RoomFor::Work, reservation, bytes, 0)
    }

    /// Reserves `bytes` of records as [`Log::reserve`] does, with as much of the room as `room_for` may use up; and so
    /// many flushes that no other record may share ([`Log::flush_for`] with [`RoomFor::End`]).
    ///
    /// # Errors
    /// As [`Log::reserve`].
    pub fn reserve_for(
        &self,
        room_for: RoomFor<'_>,
        reservation: &Reservation,
        bytes: u64,
        flushes: u64,
    ) -> Result<(), LogError> {
        self.check()?;
        self.room.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.room.reserved_flushes.fetch_add(flushes, Ordering::Relaxed);
        while !self.has_room(room_for, 0) {
            if let Err(error) = self.grow() {
                self.room.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.room.reserved_flushes.fetch_sub(flushes, Ordering::Relaxed);
                return Err(error);
            }
        }
        reservation.bytes.fetch_add(bytes, Ordering::Relaxed);
        reservation.flushes.fetch_add(flushes, Ordering::Relaxed);
        Ok(())
    }

    /// Reserves what recovery will append to undo what is open: `bytes`, or as many as there is room for, which is what
    /// was reserved for the same before the crash. Grows nothing.
    pub fn reserve_up_to(&self, reservation: &Reservation, bytes: u64) {
        let left = self.room.usable().saturating_sub(self.room.needed(self.end().0 - self.durable().0));
        let bytes = bytes.min(left / 5 * 4);
        self.room.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        reservation.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether all that is reserved and not yet written finds room, with `loss` bytes more, in what is free but for the
    /// part that a caller of this kind ([`RoomFor`]) leaves to others.
    pub(crate) fn has_room(&self, room_for: RoomFor<'_>, loss: u64) -> bool {
        // In the order in which room is used up: what is reserved becomes records, these become durable, and blocks
        // take what is free. So what moves on between two looks counts twice, and nothing is left out: each step adds
        // to the later number before it takes from the earlier one, with release.
        let reserved = self.room.needed(0);
        let durable = self.durable().0;
        let unwritten = with_padding(self.end().0 - durable);
        self.room.usable() >= reserved + unwritten + self.room.left_to_others(room_for) + loss
    }

    /// Whether all that is reserved finds room, and what recovery needs beside it. For tests, while nothing is appended
    /// or flushed.
    pub fn has_room_to_end(&self) -> bool {
        self.has_room(RoomFor::End(&Reservation::default()), 0)
    }

    /// Who pays for a flush that loses so many bytes; `None`: there is no room for it, unless the log grows.
    pub(crate) fn payment(&self, room_for: RoomFor<'_>, loss: u64) -> Option<Paid> {
        if loss == 0 {
            return Some(Paid::LeftOver);
        }
        match room_for {
            RoomFor::End(reservation) => {
                if self.has_room(RoomFor::Later, loss) {
                    return Some(Paid::LeftOver);
                }
                if take(&reservation.flushes, 1) == 1 {
                    return Some(Paid::Reserved);
                }
            }
            RoomFor::Work | RoomFor::Later | RoomFor::Checkpoint => {}
        }
        self.has_room(room_for, loss).then_some(Paid::LeftOver)
    }

    /// A flush was made: what was paid for it is used up.
    pub(crate) fn settle(&self, paid: &Paid) {
        if matches!(paid, Paid::Reserved) {
            let flushes = self.room.reserved_flushes.fetch_sub(1, Ordering::Release);
            debug_assert!(flushes > 0, "a flush that was reserved is counted until it is made");
        }
    }

    /// A flush was paid for and cannot be made: it returns to the reservation that paid.
    pub(crate) fn put_back(&self, paid: &Paid, room_for: RoomFor<'_>) {
        if let (Paid::Reserved, RoomFor::End(reservation)) = (paid, room_for) {
            reservation.flushes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Moves up to `bytes` of what one reservation has left to another; how many those were. What is reserved in all
    /// stays.
    pub fn move_reserved(&self, from: &Reservation, to: &Reservation, bytes: u64) -> u64 {
        let moved = from.take(bytes);
        to.bytes.fetch_add(moved, Ordering::Relaxed);
        moved
    }

    /// Moves a flush from one reservation to another, if it has one.
    pub fn move_reserved_flush(&self, from: &Reservation, to: &Reservation) {
        to.flushes.fetch_add(take(&from.flushes, 1), Ordering::Relaxed);
    }

    /// Gives back what is left of a reservation: the transaction has ended.
    pub fn release(&self, reservation: &Reservation) {
        let bytes = reservation.bytes.swap(0, Ordering::Relaxed);
        let flushes = reservation.flushes.swap(0, Ordering::Relaxed);
        self.room.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.room.reserved_flushes.fetch_sub(flushes, Ordering::Relaxed);
    }

    /// The next checkpoint will append so many bytes of records more: new work leaves room for them.
    pub fn expect_of_checkpoint(&self, bytes: u64) {
        self.room.checkpoint_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// They have been appended, or will not be.
    pub fn expect_no_more(&self, bytes: u64) {
        self.room.checkpoint_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Recovery has ended, with its checkpoint, or there was none: from now on new work leaves room for what is open.
    pub fn recovery_ended(&self) {
        self.room.is_recovering.store(false, Ordering::Relaxed);
    }

    /// Bytes that transactions have reserved and not used yet: for their records, and for flushes of their ends.
    pub fn reserved_bytes(&self) -> u64 {
        let flushes = self.room.reserved_flushes.load(Ordering::Relaxed);
        self.room.reserved_bytes.load(Ordering::Relaxed) + flushes * FLUSH_BYTES
    }

    /// Bytes of the log's files that hold nothing needed: free segments, and the rest of the one that is being filled.
    pub fn free_bytes(&self) -> u64 {
        self.room.free_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BLOCK_BYTES_MAX;

    #[test]
    fn a_block_takes_its_records_a_quarter_more_and_what_it_loses() {
        for records in (8..BLOCK_BYTES_MAX - BLOCK_HEADER_BYTES).step_by(8) {
            let (block, counted) = (block_bytes(records) as u64, records as u64 + records as u64 / 4);
            assert!(block <= counted + loss(records as u64), "{records}");
            assert!(loss(records as u64) <= FLUSH_BYTES, "{records}");
        }
    }
}
