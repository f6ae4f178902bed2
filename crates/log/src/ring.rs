//! Records between their append and their flush: a ring of 64-bit words, and a tail word that allocates space in it.
//!
//! One `fetch_add` on the tail reserves a record's space. The record is copied word by word, its first word last: a
//! non-zero first word says that the record is complete. The flushing thread copies records out in order and resets
//! their words to zero for the next lap.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use hobt_base::Lsn;

use crate::record::{NewRecord, PAYLOAD_BYTES_MAX, Record, first_word, length_of, read_record, record_bytes};

/// Bits of the tail that hold the position, in words.
const POSITION_BITS: u32 = 52;
const _: () = assert!(crate::LSN_MAX.0 < 8 << POSITION_BITS);
const POSITION_MASK: u64 = (1 << POSITION_BITS) - 1;

/// The number of an epoch, the time between two checkpoints' beginnings. It wraps only after far more checkpoints than
/// can begin between a read of it and an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EpochNumber(pub(crate) u16);

/// The reserved space of a record, in bytes from the log's beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

#[derive(Debug)]
pub(crate) struct Ring {
    /// `[epoch: 12 | position in words: 52]`.
    tail: AtomicU64,
    words: Box<[AtomicU64]>,
    /// The position up to which words have been copied out and are zero again, in bytes.
    copied: AtomicU64,
    /// The position up to which words may be about to be copied out: a reader that has read them cannot know whether
    /// they were still there.
    copying: AtomicU64,
}

impl Ring {
    /// An empty ring of `bytes` bytes (a power of two) whose first record will be at `start`.
    pub(crate) fn new(bytes: usize, start: u64) -> Ring {
        assert!(bytes.is_power_of_two() && start.is_multiple_of(8), "a ring of {bytes} bytes from {start}");
        let words = (0..bytes / 8).map(|_| AtomicU64::new(0)).collect();
        let (copied, copying) = (AtomicU64::new(start), AtomicU64::new(start));
        Ring { tail: AtomicU64::new(start / 8), words, copied, copying }
    }

    /// Bytes that fit into the ring.
    pub(crate) fn capacity(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// The position after the last reserved space.
    pub(crate) fn end(&self) -> u64 {
        (self.tail.load(Ordering::Acquire) & POSITION_MASK) * 8
    }

    /// The epoch of the next record.
    pub(crate) fn epoch(&self) -> EpochNumber {
        EpochNumber((self.tail.load(Ordering::Acquire) >> POSITION_BITS) as u16)
    }

    /// Reserves the next `bytes` bytes. Returns them with their epoch.
    pub(crate) fn take(&self, bytes: usize) -> (Place, EpochNumber) {
        place(self.tail.fetch_add(bytes as u64 / 8, Ordering::AcqRel), bytes)
    }

    /// Reserves the next `bytes` bytes as the first of the next epoch. Returns them with that epoch.
    pub(crate) fn take_in_next_epoch(&self, bytes: usize) -> (Place, EpochNumber) {
        // Wrapping discards a carry out of the epoch.
        let before = self.tail.fetch_add((1 << POSITION_BITS) + bytes as u64 / 8, Ordering::AcqRel);
        let (place, epoch) = place(before, bytes);
        (place, EpochNumber((epoch.0 + 1) & (u16::MAX >> 4)))
    }

    /// Whether the words of a place are free if everything before `copied` has been copied out, including the words'
    /// contents of one lap before.
    pub(crate) fn has_room(&self, place: Place, copied: u64) -> bool {
        place.end <= copied + self.capacity()
    }

    /// A position and an epoch packed into one word, as in the tail.
    pub(crate) fn packed(epoch: EpochNumber, position: u64) -> u64 {
        (u64::from(epoch.0) << POSITION_BITS) | (position / 8)
    }

    /// The epoch and position of such a word.
    pub(crate) fn unpacked(word: u64) -> (EpochNumber, u64) {
        (EpochNumber((word >> POSITION_BITS) as u16), (word & POSITION_MASK) * 8)
    }

    /// Copies a record into its space and publishes it. The space must be free and is written only once.
    pub(crate) fn publish(&self, place: Place, record: &NewRecord<'_>) {
        debug_assert_eq!(place.end - place.start, record_bytes(record.payload.len()) as u64, "the record's own place");
        let put = |offset: u64, word: u64| self.word(place.start + offset).store(word, Ordering::Relaxed);
        // Whoever reads a word of this lap in place of the last one's finds in `copying` that that one has gone.
        fence(Ordering::Release);
        put(8, record.transaction);
        put(16, record.previous.0);
        let (whole, rest) = record.payload.as_chunks::<8>();
        for (offset, chunk) in (24u64..).step_by(8).zip(whole) {
            put(offset, u64::from_le_bytes(*chunk));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            put(24 + whole.len() as u64 * 8, u64::from_le_bytes(last));
        }
        self.word(place.start).store(first_word(record.kind, record.payload.len()), Ordering::Release);
    }

    /// Fills reserved space that is no longer needed.
    pub(crate) fn publish_nothing(&self, place: Place) {
        let bytes = (place.end - place.start) as usize;
        fence(Ordering::Release);
        self.word(place.start + 8).store(0, Ordering::Relaxed);
        self.word(place.start + 16).store(0, Ordering::Relaxed);
        // The bytes in between are zero since the previous lap.
        let first = first_word(crate::record::NOTHING, bytes - crate::record::RECORD_HEADER_BYTES);
        self.word(place.start).store(first, Ordering::Release);
    }

    /// The number of bytes of whole records that are published after the last copy and fit `limit`, and whether a
    /// published record does not fit. Called by the thread that copies.
    pub(crate) fn published(&self, limit: usize) -> (usize, bool) {
        let start = self.copied.load(Ordering::Relaxed);
        let mut bytes = 0;
        loop {
            // After a whole lap comes the first of these records again.
            let length = if bytes as u64 == self.capacity() { 0 } else { self.length_at(start + bytes as u64) };
            if length == 0 || bytes + length > limit {
                return (bytes, length != 0);
            }
            bytes += length;
        }
    }

    /// The length of the record at a position; 0 if it is not published.
    fn length_at(&self, position: u64) -> usize {
        length_of(self.word(position).load(Ordering::Acquire))
    }

    /// Copies whole published records after the last copy, as many as fit `target`, and frees their words. Returns the
    /// number of bytes. Called by one thread at a time.
    pub(crate) fn copy_out(&self, target: &mut [u8]) -> usize {
        let start = self.copied.load(Ordering::Relaxed);
        self.copying.store(start + target.len() as u64, Ordering::Relaxed);
        // Before the words are cleared: `read` loads them first and `copying` behind a fence.
        fence(Ordering::Release);
        let mut at = 0;
        loop {
            let length = self.length_at(start + at as u64);
            if length == 0 || at + length > target.len() {
                break;
            }
            for (offset, bytes) in (at as u64..).step_by(8).zip(target[at..at + length].as_chunks_mut::<8>().0) {
                // Two steps suffice: no other thread writes here until `copied` says that the words are free.
                let word = self.word(start + offset);
                *bytes = word.load(Ordering::Relaxed).to_le_bytes();
                word.store(0, Ordering::Relaxed);
            }
            at += length;
        }
        self.copied.store(start + at as u64, Ordering::Release);
        at
    }

    /// The published record at `lsn`; `None` if it was copied out, or may be at this moment.
    pub(crate) fn read(&self, lsn: Lsn) -> Option<Record> {
        if lsn.0 < self.copied() || lsn.0 >= self.end() {
            return None;
        }
        let length = self.length_at(lsn.0);
        if length == 0 || length > record_bytes(PAYLOAD_BYTES_MAX) {
            return None;
        }
        let words = (0..length as u64).step_by(8).map(|offset| self.word(lsn.0 + offset).load(Ordering::Relaxed));
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        fence(Ordering::Acquire);
        if lsn.0 < self.copying.load(Ordering::Relaxed) {
            return None;
        }
        read_record(&bytes, lsn)
    }

    /// The position up to which records were copied out.
    pub(crate) fn copied(&self) -> u64 {
        self.copied.load(Ordering::Acquire)
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.words[(position / 8) as usize & (self.words.len() - 1)]
    }
}

fn place(tail_before: u64, bytes: usize) -> (Place, EpochNumber) {
    let start = (tail_before & POSITION_MASK) * 8;
    (Place { start, end: start + bytes as u64 }, EpochNumber((tail_before >> POSITION_BITS) as u16))
}

#[cfg(test)]
mod tests {
    use hobt_base::SplitMix64;

    use super::*;

    fn record(payload: &[u8]) -> NewRecord<'_> {
        NewRecord { kind: 7, transaction: 11, previous: Lsn(5), payload }
    }

    fn put(ring: &Ring, payload: &[u8]) -> u64 {
        let (place, _) = ring.take(record_bytes(payload.len()));
        assert!(ring.has_room(place, ring.copied()));
        ring.publish(place, &record(payload));
        place.start
    }

    #[test]
    fn records_come_out_as_they_went_in_over_many_laps() {
        let ring = Ring::new(1024, 4096);
        let mut random = SplitMix64::new(1);
        let mut out = [0; 1024];
        for _ in 0..1000 {
            let payload: Vec<u8> = (0..random.below(200)).map(|_| random.next_u64() as u8).collect();
            let start = put(&ring, &payload);
            let copied = ring.copy_out(&mut out);
            assert_eq!(copied, record_bytes(payload.len()));
            let read = read_record(&out[..copied], Lsn(start)).expect("a record");
            assert_eq!((read.kind, read.transaction, read.previous), (7, 11, Lsn(5)));
            assert_eq!(read.payload, payload);
        }
        assert!(ring.words.iter().all(|word| word.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn nothing_comes_out_past_a_record_that_is_not_published() {
        let ring = Ring::new(1024, 8);
        put(&ring, b"one");
        let (late, _) = ring.take(record_bytes(3));
        put(&ring, b"three");
        let mut out = [0; 1024];
        assert_eq!(ring.copy_out(&mut out), record_bytes(3));
        ring.publish(late, &record(b"two"));
        let copied = ring.copy_out(&mut out);
        assert_eq!(copied, record_bytes(3) + record_bytes(5));
        assert_eq!(read_record(&out, Lsn(late.start)).expect("a record").payload, b"two");
    }

    #[test]
    fn what_fits_is_copied_and_the_rest_stays() {
        let ring = Ring::new(1024, 8);
        put(&ring, &[1; 40]);
        put(&ring, &[2; 40]);
        let mut out = [0; 100];
        assert_eq!(ring.copy_out(&mut out), record_bytes(40));
        assert_eq!(ring.copy_out(&mut out), record_bytes(40));
        assert_eq!(ring.copy_out(&mut out), 0);
    }

    #[test]
    fn a_place_without_room_is_known() {
        let ring = Ring::new(256, 8);
        let (first, _) = ring.take(200);
        let (second, _) = ring.take(64);
        assert!(ring.has_room(first, ring.copied()) && !ring.has_room(second, ring.copied()));
        ring.publish_nothing(first);
        assert_eq!(ring.copy_out(&mut [0; 256]), 200);
        assert!(ring.has_room(second, ring.copied()));
    }

    #[test]
    fn the_epoch_divides_places_exactly() {
        let ring = Ring::new(1 << 20, 8);
        std::thread::scope(|scope| {
            let takers: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| (0..2000).map(|_| ring.take(8)).collect::<Vec<(Place, EpochNumber)>>()))
                .collect();
            let begins: Vec<(Place, EpochNumber)> = (0..50).map(|_| ring.take_in_next_epoch(8)).collect();
            let places = takers.into_iter().flat_map(|taker| taker.join().expect("no panic"));
            for (place, epoch) in places {
                let begun = begins.iter().filter(|(begin, _)| begin.start < place.start).count();
                assert_eq!(usize::from(epoch.0), begun);
            }
        });
    }
}
