//! Hands out the values of sequences.
//!
//! ```text
//!   row of sysseqs:  next = 150          no value from here on is known to be taken
//!   block in memory: 100, 101, … 149     `taken` is how many of it are handed out
//! ```
//!
//! A value is one atomic addition to `taken`. A thread that finds the block used up moves `next` past another block,
//! durably, before any value of that block is handed out. So no value is handed out twice, even after roll-backs and
//! crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use hobt_base::errors;
use hobt_catalog::{Sequence, SequencePosition, SystemHeaps};
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::Mutex;
use hobt_txn::StatementContext;

use super::super::Database;
use super::position::{SequenceRange, SequenceState, next_value, position_behind, range_of, value_at, values_from};
use crate::error::{EngineError, Result};

/// How many values are taken at a time if `CACHE` gives no number.
const CACHE_DEFAULT: i32 = 50;

/// Values that are taken from the row and not all handed out yet.
#[derive(Debug)]
struct Block {
    first: i128,
    count: u64,
    /// How many are handed out. May exceed `count` when the block is used up.
    taken: AtomicU64,
    /// The value before the first one, for reading the current value.
    before: i128,
}

/// A sequence in use.
#[derive(Debug)]
pub(in super::super) struct LiveSequence {
    definition: Arc<Sequence>,
    block: ArcSwap<Block>,
    /// The position in the row. The thread that holds the lock may fill the block.
    position: Ranked<Mutex<SequencePosition>>,
}

impl LiveSequence {
    fn new(definition: Arc<Sequence>, position: SequencePosition) -> LiveSequence {
        // For a sequence that has restarted, the value before the first one is unknown.
        let before = match position.used && !position.exhausted {
            true => position.next.saturating_sub(definition.increment).clamp(definition.minimum, definition.maximum),
            false => position.next,
        };
        let block = Block { first: position.next, count: 0, taken: AtomicU64::new(0), before };
        LiveSequence {
            definition,
            block: ArcSwap::from_pointee(block),
            position: Ranked::new(Rank::SequencePosition, Mutex::new(position)),
        }
    }

    /// Takes up to `wanted` values of the block. Returns the first one and their number, or `None` if the block is used
    /// up.
    fn take(&self, block: &Block, wanted: u64) -> Option<(i128, u64)> {
        // Checked first, so that the counter of a used-up block does not grow without limit.
        if block.taken.load(Ordering::Relaxed) >= block.count {
            return None;
        }
        let from = block.taken.fetch_add(wanted, Ordering::Relaxed);
        (from < block.count).then(|| (value_at(&self.definition, block.first, from), wanted.min(block.count - from)))
    }

    pub(super) fn state(&self) -> SequenceState {
        let position = *self.position.lock();
        let block = self.block.load();
        let taken = block.taken.load(Ordering::Relaxed).min(block.count);
        let current = match taken {
            0 => block.before,
            taken => value_at(&self.definition, block.first, taken - 1),
        };
        SequenceState { current, used: position.used, exhausted: position.exhausted && taken == block.count }
    }
}

impl Database {
    pub(super) fn live_sequence(&self, sequence: &Arc<Sequence>) -> Result<Arc<LiveSequence>> {
        let is_it = |live: &&Arc<LiveSequence>| Arc::ptr_eq(&live.definition, sequence);
        if let Some(live) = self.sequences.read().get(&sequence.id).filter(is_it) {
            return Ok(Arc::clone(live));
        }
        let mut sequences = self.sequences.write();
        if let Some(live) = sequences.get(&sequence.id).filter(is_it) {
            return Ok(Arc::clone(live));
        }
        let position = self.heaps.sequence_position(sequence.id).map_err(|error| self.catalog_error(error))?;
        let position = position.ok_or_else(|| sequence_is_gone(&sequence.name))?;
        let live = Arc::new(LiveSequence::new(Arc::clone(sequence), position));
        sequences.insert(sequence.id, Arc::clone(&live));
        Ok(live)
    }

    /// Takes `count` values of a sequence on which the caller holds `Sch-S`, and passes them to `take` in runs: the
    /// first value and the number of values, each one step after the one before. Blocks on the log once per block.
    ///
    /// # Errors
    /// 11728, before or after some values were taken; a device's error.
    pub fn take_sequence_values(
        self: &Arc<Database>,
        ctx: &StatementContext,
        sequence: &Arc<Sequence>,
        count: u64,
        take: &mut dyn FnMut(i128, u64),
    ) -> Result<()> {
        let live = self.live_sequence(sequence)?;
        let mut left = count;
        while left > 0 {
            let block = live.block.load_full();
            match live.take(&block, left) {
                Some((first, taken)) => {
                    take(first, taken);
                    left -= taken;
                }
                None => self.fill_block(ctx, &live, &block, left)?,
            }
        }
        Ok(())
    }

    /// Replaces the block `used` by another one, unless another thread has done so.
    fn fill_block(
        self: &Arc<Database>,
        ctx: &StatementContext,
        live: &LiveSequence,
        used: &Arc<Block>,
        wanted: u64,
    ) -> Result<()> {
        let mut position = live.position.lock();
        if !Arc::ptr_eq(&live.block.load(), used) {
            return Ok(());
        }
        let sequence = &live.definition;
        let next = next_value(sequence, *position)?;
        let cache = u64::from(sequence.cache.unwrap_or(CACHE_DEFAULT).unsigned_abs()).max(1);
        let count = u64::try_from(values_from(sequence, next)).unwrap_or(u64::MAX).min(cache.max(wanted));
        let behind = position_behind(sequence, next, count);
        self.note_position(ctx, sequence, behind)?;
        let before = match used.count {
            0 => used.before,
            count => value_at(sequence, used.first, count - 1),
        };
        *position = behind;
        live.block.store(Arc::new(Block { first: next, count, taken: AtomicU64::new(0), before }));
        Ok(())
    }

    /// Takes a range of `count` consecutive values, at least one, for `sp_sequence_get_range`.
    ///
    /// # Errors
    /// 11732 if fewer are left and the sequence does not cycle; 11728; a device's error.
    pub fn take_sequence_range(
        self: &Arc<Database>,
        ctx: &StatementContext,
        sequence: &Arc<Sequence>,
        count: u64,
    ) -> Result<SequenceRange> {
        let live = self.live_sequence(sequence)?;
        let mut position = live.position.lock();
        let block = live.block.load_full();
        // The rest of the block belongs to the range; no value of it is handed out any more.
        let taken = block.taken.swap(u64::MAX / 2, Ordering::Relaxed).min(block.count);
        let rest = (taken < block.count).then(|| SequencePosition {
            next: value_at(sequence, block.first, taken),
            used: true,
            exhausted: false,
        });
        let from = rest.unwrap_or(*position);
        let put_back = |error| {
            let left = block.count - taken;
            let before = if taken == 0 { block.before } else { value_at(sequence, block.first, taken - 1) };
            let first = value_at(sequence, block.first, taken);
            live.block.store(Arc::new(Block { first, count: left, taken: AtomicU64::new(0), before }));
            error
        };
        let range = range_of(sequence, from, count).map_err(put_back)?;
        let behind = position_behind(sequence, range.last, 1);
        self.note_position(ctx, sequence, behind).map_err(put_back)?;
        *position = behind;
        let empty = Block { first: behind.next, count: 0, taken: AtomicU64::new(0), before: range.last };
        live.block.store(Arc::new(empty));
        Ok(range)
    }

    /// Writes up to where values are taken. Durable on return, or a part of the transaction that created or changed the
    /// sequence.
    fn note_position(
        self: &Arc<Database>,
        ctx: &StatementContext,
        sequence: &Arc<Sequence>,
        position: SequencePosition,
    ) -> Result<()> {
        self.check_usable()?;
        self.prepare_to_change()?;
        let id = sequence.id;
        let mut found = false;
        let is_published = self.snapshot().sequences.get(&id).is_some_and(|known| Arc::ptr_eq(known, sequence));
        let write = |heaps: &SystemHeaps, rows: &StatementContext| {
            found = heaps.set_sequence_position(rows, id, position)?;
            Ok(())
        };
        if is_published {
            self.write_rows_alone(write)?;
            // With delayed durability this commit was delayed too, and a crash would hand out the same values again.
            self.flush_log()?;
        } else {
            self.write_rows(ctx, write)?;
            self.forget_sequence_if_undone(ctx, id);
        }
        if found { Ok(()) } else { Err(sequence_is_gone(&sequence.name)) }
    }

    /// The current state of a sequence.
    ///
    /// # Errors
    /// A page cannot be read, or the sequence was dropped.
    pub fn sequence_state(&self, sequence: &Arc<Sequence>) -> Result<SequenceState> {
        Ok(self.live_sequence(sequence)?.state())
    }
}

fn sequence_is_gone(name: &str) -> EngineError {
    EngineError::Statement(errors::INVALID_OBJECT.with([&name]))
}
