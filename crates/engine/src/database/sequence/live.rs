//! Who hands out the values of sequences.
//!
//! ```text
//!   row of sysseqs:  next = 150          nothing is known to be taken from here on
//!   block in memory: 100, 101, … 149     `taken` says how many of it are
//! ```
//!
//! A value is one atomic addition to `taken`. Who finds the block used up moves `next` behind another block, durably,
//! before anybody sees a value of that: so no value comes twice, whatever is rolled back or crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use hobt_base::number;
use hobt_catalog::{Sequence, SequencePosition, SystemHeaps};
use hobt_sync::schedule::Mutex;
use hobt_txn::StatementContext;

use super::super::Database;
use super::position::{SequenceRange, SequenceState, next_value, position_behind, range_of, value_at, values_from};
use crate::error::{EngineError, Result};

/// Values that are taken at a time where `CACHE` gives no number.
const CACHE_DEFAULT: i32 = 50;

/// Values that are taken from the row and not yet handed out.
#[derive(Debug)]
struct Block {
    first: i128,
    count: u64,
    /// How many are handed out; more than `count` once it is used up.
    taken: AtomicU64,
    /// The value before the first one, for those who only look.
    before: i128,
}

/// A sequence in use.
#[derive(Debug)]
pub(in super::super) struct LiveSequence {
    definition: Arc<Sequence>,
    block: ArcSwap<Block>,
    /// What the row says; whoever holds it may fill the block.
    position: Mutex<SequencePosition>,
}

impl LiveSequence {
    fn new(definition: Arc<Sequence>, position: SequencePosition) -> LiveSequence {
        // Nobody knows the value before the first one of a sequence that has just begun again.
        let before = match position.used && !position.exhausted {
            true => position.next.saturating_sub(definition.increment).clamp(definition.minimum, definition.maximum),
            false => position.next,
        };
        let block = Block { first: position.next, count: 0, taken: AtomicU64::new(0), before };
        LiveSequence { definition, block: ArcSwap::from_pointee(block), position: Mutex::new(position) }
    }

    /// Takes up to `wanted` values of the block: the first one, and how many; `None` if it is used up.
    fn take(&self, block: &Block, wanted: u64) -> Option<(i128, u64)> {
        // Looked at before, so that the counter of a block that is used up does not run away.
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

    /// Takes `count` values of a sequence that the caller holds `Sch-S` on, and hands them to `take` in runs: the first
    /// value, how many there are, each a step behind the one before. Blocks on the log once a block.
    ///
    /// # Errors
    /// 11728, before or behind some values; a device's error.
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

    /// Puts another block in the place of `used`, unless somebody has.
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

    /// Takes a range of `count` values, at least one, that follow one another, for `sp_sequence_get_range`.
    ///
    /// # Errors
    /// 11732 where there are fewer and the sequence does not begin again; 11728; a device's error.
    pub fn take_sequence_range(
        self: &Arc<Database>,
        ctx: &StatementContext,
        sequence: &Arc<Sequence>,
        count: u64,
    ) -> Result<SequenceRange> {
        let live = self.live_sequence(sequence)?;
        let mut position = live.position.lock();
        let block = live.block.load_full();
        // What is left of the block belongs to the range; nobody takes of it any more.
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

    /// Writes how far values are taken: durable when this returns, or a part of the transaction that made the sequence
    /// what it is.
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
            // Where commits are delayed this one was too, and a crash would bring the same values again.
            self.flush_log()?;
        } else {
            self.write_rows(ctx, write)?;
            self.forget_sequence_if_undone(ctx, id);
        }
        if found { Ok(()) } else { Err(sequence_is_gone(&sequence.name)) }
    }

    /// Where a sequence is.
    ///
    /// # Errors
    /// A page cannot be read, or the sequence was dropped.
    pub fn sequence_state(&self, sequence: &Arc<Sequence>) -> Result<SequenceState> {
        Ok(self.live_sequence(sequence)?.state())
    }
}

fn sequence_is_gone(name: &str) -> EngineError {
    EngineError::statement(number::INVALID_OBJECT, format!("Invalid object name '{name}'."))
}
