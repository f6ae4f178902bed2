//! Room in the log: what is reserved, what a flush costs, and which callers may use the rest.
//!
//! Invariant: what was begun can be ended. Reserved records find room, whatever other threads do. At the next opening
//! recovery finds as much room for them, because it continues in the block after the last sound one. So a full log
//! refuses new work, and nothing else.
//!
//! A block consists of whole units, so a flush of few bytes costs more than these bytes. Three things are counted:
//!
//! ```text
//! records   bytes that are reserved, or appended and not written: a quarter more, which covers the header and the
//!           padding of every block of at least ONE_FIFTH_PADDING bytes of records
//! flushes   reserved one by one (a commit, alone): FLUSH_BYTES each, what any block has beside its records
//! ends      of segments, where the next record does not fit: END_BYTES of every segment do not count as room
//! ```
//!
//! A short flush without a reservation (to write a page, or after a timer has expired) may use only the room that is
//! left, and otherwise is refused ([`LogError::Full`]). The room left is kept in steps ([`RoomFor`]): new work stops
//! first, then such flushes, then checkpoints. So a checkpoint can run in a full log, and recovery after that.
//!
//! Done elsewhere: how records and blocks are written (`log`), how many bytes a change and its undo take (crate
//! `access`).

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::block::{BLOCK_HEADER_BYTES, BLOCK_UNIT, block_bytes};
use crate::log::Log;
use crate::record::{PAYLOAD_BYTES_MAX, record_bytes};
use crate::segments::Segments;
use crate::{LogError, SEGMENT_BYTES_MIN};

/// What a block has besides its records, at most: its header, and zeros up to the next unit.
const FLUSH_BYTES: u64 = (BLOCK_HEADER_BYTES + BLOCK_UNIT) as u64;
/// A block with this many bytes of records is at most a quarter longer than they are.
const ONE_FIFTH_PADDING: u64 = 4 * FLUSH_BYTES;
/// The part at the end of a segment that may stay empty: the longest record may need a block that does not fit, and the
/// flush that meets the end is cut in two.
const END_BYTES: u64 = block_bytes(record_bytes(PAYLOAD_BYTES_MAX)) as u64 + FLUSH_BYTES;
const _: () = assert!(END_BYTES < SEGMENT_BYTES_MIN, "a segment has room beside its end");

/// Short flushes for which a checkpoint finds room, besides the row counts that it saves.
const CHECKPOINT_FLUSHES: u64 = 32;
/// What recovery needs besides the reservations: short flushes for pages that it writes, and those of its checkpoint.
const RECOVERY_BYTES: u64 = 2 * CHECKPOINT_FLUSHES * FLUSH_BYTES;
/// What new work leaves for needs that cannot be known in advance: flushes for pages that are written, and images and
/// descriptions of HOBTs that an undo needs again because a checkpoint has begun since.
const LEEWAY_BYTES: u64 = 1 << 20;
/// By how much an opening grows the log so that an undo can wait until the database is open: filling more with zeros
/// takes seconds.
const OPENING_GROWTH_BYTES_MAX: u64 = 512 << 20;

/// The purpose for which room is needed.
#[derive(Clone, Copy, Debug)]
pub enum RoomFor<'a> {
    /// New work, which an error undoes.
    Work,
    /// A flush that can be delayed: other pages may be written, or more may have been appended by then.
    Later,
    /// A checkpoint, which may free room.
    Checkpoint,
    /// The end of a transaction, whose flush was reserved.
    End(&'a Reservation),
}

/// Room in the log that a transaction may still need: bytes of records that it is about to append or that will undo
/// what it has appended, and flushes of its end. It belongs to one log. [`Log::release`] returns it to the log.
#[derive(Debug, Default)]
pub struct Reservation {
    bytes: AtomicU64,
    flushes: AtomicU64,
}

impl Reservation {
    /// The number of reserved bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of reserved flushes.
    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Takes out up to `bytes`. Returns how many it took.
    pub(crate) fn take(&self, bytes: u64) -> u64 {
        take(&self.bytes, bytes)
    }
}

/// Takes out up to `wanted`. Returns how many it took.
fn take(from: &AtomicU64, wanted: u64) -> u64 {
    let taken = from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |had| Some(had - wanted.min(had)));
    taken.map_or(0, |had| wanted.min(had))
}

/// The counts of a log's room.
#[derive(Debug)]
pub(crate) struct Room {
    /// Bytes that blocks can fill: the free room without the ends of segments. It is one number: if bytes and ends were
    /// two, a reader could see them between the steps of a checkpoint's update, as more room than there is. Negative if
    /// a segment is filled into its end.
    usable_bytes: AtomicI64,
    /// Bytes of segments that hold nothing needed, and the rest of the one being filled. Views show it, and it decides
    /// when a checkpoint is due.
    free_bytes: AtomicU64,
    /// Bytes of all reservations.
    reserved_bytes: AtomicU64,
    /// Flushes of all reservations.
    reserved_flushes: AtomicU64,
    /// Bytes of records that the next checkpoint will append.
    checkpoint_bytes: AtomicU64,
    /// The log is in recovery: no room is left for others.
    is_recovering: AtomicBool,
}

impl Room {
    /// The room of a log with these segments. `rest` is what is left of the one being filled, if there is one.
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

    /// Updates the counts after the free segments have changed from `before` to `now`.
    pub(crate) fn follow(&self, before: (u64, u64), now: (u64, u64)) {
        // The subtraction wraps if the number decreases.
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

    /// The segment being filled is finished, with `rest` bytes left over.
    pub(crate) fn filled(&self, rest: u64) {
        self.usable_bytes.fetch_add(ends(1) - rest.cast_signed(), Ordering::Relaxed);
        self.free_bytes.fetch_sub(rest, Ordering::Relaxed);
    }

    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Takes an appended record out of a reservation.
    pub(crate) fn appended(&self, reservation: &Reservation, bytes: u64) {
        // After the log's end includes the record: see `has_room`.
        self.reserved_bytes.fetch_sub(reservation.take(bytes), Ordering::Release);
    }

    /// Bytes that blocks can fill.
    fn usable(&self) -> u64 {
        u64::try_from(self.usable_bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Bytes that blocks will need for the reservations and for `unwritten` bytes of records.
    fn needed(&self, unwritten: u64) -> u64 {
        let records = self.reserved_bytes.load(Ordering::Acquire) + unwritten;
        // One more: a transaction that has ended without being durable yet is flushed at some time.
        let flushes = self.reserved_flushes.load(Ordering::Acquire) + 1;
        with_padding(records) + flushes * FLUSH_BYTES
    }

    /// What a caller of this kind must leave for others.
    fn left_to_others(&self, room_for: RoomFor<'_>) -> u64 {
        if self.is_recovering.load(Ordering::Relaxed) { 0 } else { self.left_when_open(room_for) }
    }

    /// What a caller of this kind must leave for others once the database is open.
    fn left_when_open(&self, room_for: RoomFor<'_>) -> u64 {
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

/// Bytes at the ends of this many segments that may stay empty.
fn ends(segments: u64) -> i64 {
    (segments * END_BYTES).cast_signed()
}

/// Bytes that a flush of this many bytes of records takes without their having been counted.
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

/// What pays for a short flush.
pub(crate) enum Paid {
    /// There is room for it besides what others need.
    LeftOver,
    /// It was reserved.
    Reserved,
}

impl Log {
    /// Reserves room so that `bytes` more of records can be appended, and flushed together with others, whatever other
    /// threads do meanwhile. `bytes` counts the records that are about to be appended, and those that would undo them.
    /// Grows the log if necessary.
    ///
    /// # Errors
    /// [`LogError::Full`], or the log has failed.
    pub fn reserve(&self, reservation: &Reservation, bytes: u64) -> Result<(), LogError> {
        self.reserve_for(RoomFor::Work, reservation, bytes, 0)
    }

    /// Reserves `bytes` of records as [`Log::reserve`] does; `room_for` says how much of the room it may use. Also
    /// reserves `flushes` flushes that are not shared with other records ([`Log::flush_for`] with [`RoomFor::End`]).
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

    /// Reserves what recovery will append to undo open transactions: `bytes`, or as many as there is room for, which is
    /// what was reserved for them before the crash. Does not grow the log.
    pub fn reserve_up_to(&self, reservation: &Reservation, bytes: u64) {
        let left = self.room.usable().saturating_sub(self.room.needed(self.end().0 - self.durable().0));
        let bytes = bytes.min(left / 5 * 4);
        self.room.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        reservation.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reserves for each of these transactions the bytes that its undo appends while the database is in use, if there
    /// is room for all of them beside what work leaves for others then. Grows the log by a little if necessary: its
    /// next checkpoint would have. Returns whether it has reserved; if not, nothing is.
    pub fn reserve_behind_opening(&self, all: &[(&Reservation, u64)]) -> bool {
        let wanted: u64 = all.iter().map(|(_, bytes)| with_padding(*bytes)).sum();
        let at_first = self.file_bytes();
        loop {
            let unwritten = self.end().0 - self.durable().0;
            let needed = self.room.needed(unwritten) + wanted + self.room.left_when_open(RoomFor::Work);
            let missing = needed.saturating_sub(self.room.usable());
            if missing == 0 {
                break;
            }
            let grown = self.file_bytes() - at_first;
            if grown + missing > OPENING_GROWTH_BYTES_MAX || self.grow().is_err() {
                return false;
            }
        }
        for (reservation, bytes) in all {
            self.room.reserved_bytes.fetch_add(*bytes, Ordering::Relaxed);
            reservation.bytes.fetch_add(*bytes, Ordering::Relaxed);
        }
        true
    }

    /// Whether everything reserved or not yet written, and `loss` bytes more, finds room in the usable room without the
    /// part that a caller of this kind ([`RoomFor`]) leaves for others.
    pub(crate) fn has_room(&self, room_for: RoomFor<'_>, loss: u64) -> bool {
        // Read in the order in which room is used: reservations become records, these become durable, and blocks take
        // the free room. So what changes state between two reads counts twice, and nothing is missed: each step adds to
        // the later number before it subtracts from the earlier one, with release.
        let reserved = self.room.needed(0);
        let durable = self.durable().0;
        let unwritten = with_padding(self.end().0 - durable);
        self.room.usable() >= reserved + unwritten + self.room.left_to_others(room_for) + loss
    }

    /// Whether everything reserved finds room, and what recovery needs besides. For tests, while nothing is appended or
    /// flushed.
    pub fn has_room_to_end(&self) -> bool {
        self.has_room(RoomFor::End(&Reservation::default()), 0)
    }

    /// What pays for a flush that loses this many bytes. `None` if there is no room for it unless the log grows.
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

    /// A flush was made. Its payment is used up.
    pub(crate) fn settle(&self, paid: &Paid) {
        if matches!(paid, Paid::Reserved) {
            let flushes = self.room.reserved_flushes.fetch_sub(1, Ordering::Release);
            debug_assert!(flushes > 0, "a flush that was reserved is counted until it is made");
        }
    }

    /// A flush was paid for and cannot be made. The payment returns to its reservation.
    pub(crate) fn put_back(&self, paid: &Paid, room_for: RoomFor<'_>) {
        if let (Paid::Reserved, RoomFor::End(reservation)) = (paid, room_for) {
            reservation.flushes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Moves up to `bytes` from one reservation to another. Returns how many it moved. The total of all reservations is
    /// unchanged.
    pub fn move_reserved(&self, from: &Reservation, to: &Reservation, bytes: u64) -> u64 {
        let moved = from.take(bytes);
        to.bytes.fetch_add(moved, Ordering::Relaxed);
        moved
    }

    /// Moves a flush from one reservation to another, if the first has one.
    pub fn move_reserved_flush(&self, from: &Reservation, to: &Reservation) {
        to.flushes.fetch_add(take(&from.flushes, 1), Ordering::Relaxed);
    }

    /// Returns the rest of a reservation to the log, after the transaction has ended.
    pub fn release(&self, reservation: &Reservation) {
        let bytes = reservation.bytes.swap(0, Ordering::Relaxed);
        let flushes = reservation.flushes.swap(0, Ordering::Relaxed);
        self.room.reserved_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.room.reserved_flushes.fetch_sub(flushes, Ordering::Relaxed);
    }

    /// Announces that the next checkpoint will append `bytes` more of records, so that new work leaves room for them.
    pub fn expect_of_checkpoint(&self, bytes: u64) {
        self.room.checkpoint_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Withdraws what [`Log::expect_of_checkpoint`] announced: the records have been appended, or will not be.
    pub fn expect_no_more(&self, bytes: u64) {
        self.room.checkpoint_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Recovery has ended with its checkpoint, or was not needed. From now on new work leaves room for open
    /// transactions.
    pub fn recovery_ended(&self) {
        self.room.is_recovering.store(false, Ordering::Relaxed);
    }

    /// Bytes that transactions have reserved and not yet used: for their records, and for flushes of their ends.
    pub fn reserved_bytes(&self) -> u64 {
        let flushes = self.room.reserved_flushes.load(Ordering::Relaxed);
        self.room.reserved_bytes.load(Ordering::Relaxed) + flushes * FLUSH_BYTES
    }

    /// Bytes of the log's files that hold nothing needed: free segments, and the rest of the one being filled.
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
