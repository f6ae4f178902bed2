//! Sequences: CREATE, ALTER and DROP, and who hands out their values.
//!
//! ```text
//!   row of sysseqs:  next = 150          nothing is known to be taken from here on
//!   block in memory: 100, 101, … 149     `taken` says how many of it are
//! ```
//!
//! A value is one atomic addition to `taken`. Who finds the block used up moves `next` behind another block, durably, before
//! anybody sees a value of that: so no value comes twice, whatever is rolled back or crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use hobt_base::{ObjectId, number};
use hobt_catalog::{DatabaseSnapshot, Sequence, SequencePosition, SnapshotChange};
use hobt_txn::StatementContext;
use hobt_types::SqlType;
use parking_lot::Mutex;

use super::pending::{Name, Sharing};
use super::table::{cannot_drop, name_is_taken, schema_id};
use super::{Change, Database, LockTable};
use crate::clock::time_of_day;
use crate::definition::check_name;
use crate::error::{EngineError, Result};

/// Values that are taken at a time where `CACHE` gives no number.
const CACHE_DEFAULT: i32 = 50;
/// How often a sequence may be another one by the time that it is locked.
const CLAIM_ATTEMPTS: usize = 20;

/// `CREATE SEQUENCE`, everything resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceDefinition {
    /// The schema's name.
    pub schema: String,
    /// The sequence's name.
    pub name: String,
    /// The type of its values.
    pub sql_type: SqlType,
    /// The first value; `None` for the least one, or the greatest where the step is negative.
    pub start: Option<i128>,
    /// The step.
    pub increment: i128,
    /// The least value; the type's if absent.
    pub minimum: Option<i128>,
    /// The greatest value; the type's if absent.
    pub maximum: Option<i128>,
    /// `CYCLE`.
    pub cycles: bool,
    /// `CACHE n`; 0 is `NO CACHE`, `None` a size of the engine's choice.
    pub cache: Option<i32>,
}

/// `ALTER SEQUENCE`: what is absent stays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SequenceAlteration {
    /// `RESTART [WITH x]`; the inner `None` is the first value.
    pub restart: Option<Option<i128>>,
    /// `INCREMENT BY`.
    pub increment: Option<i128>,
    /// `MINVALUE`; the inner `None` is the type's.
    pub minimum: Option<Option<i128>>,
    /// `MAXVALUE`; the inner `None` is the type's.
    pub maximum: Option<Option<i128>>,
    /// `CYCLE`.
    pub cycles: Option<bool>,
    /// `CACHE`, as in a definition.
    pub cache: Option<Option<i32>>,
}

/// Where a sequence is, as `sys.sequences` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceState {
    /// The last value that was taken, or the one that comes first.
    pub current: i128,
    /// Whether a value was ever taken.
    pub used: bool,
    /// Whether there is no value behind the last one.
    pub exhausted: bool,
}

/// A range of values that were taken together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceRange {
    /// Its first value.
    pub first: i128,
    /// Its last value.
    pub last: i128,
    /// How often the sequence began again inside the range.
    pub cycles: u64,
}

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
pub(super) struct LiveSequence {
    definition: Arc<Sequence>,
    block: ArcSwap<Block>,
    /// What the row says; whoever holds it may fill the block.
    position: Mutex<SequencePosition>,
}

/// 11728.
fn is_exhausted(name: &str) -> EngineError {
    EngineError::statement(
        number::SEQUENCE_EXHAUSTED,
        format!(
            "The sequence object '{name}' has reached its minimum or maximum value. Restart the sequence object to allow new \
             values to be generated."
        ),
    )
}

/// Where a sequence begins again.
fn beginning(sequence: &Sequence) -> i128 {
    if sequence.increment > 0 { sequence.minimum } else { sequence.maximum }
}

/// How many values there are from `next` on, that one among them.
fn values_from(sequence: &Sequence, next: i128) -> u128 {
    let limit = if sequence.increment > 0 { sequence.maximum } else { sequence.minimum };
    next.abs_diff(limit) / sequence.increment.unsigned_abs() + 1
}

/// The value `steps` behind `from`, which lies between the sequence's bounds.
fn value_at(sequence: &Sequence, from: i128, steps: u64) -> i128 {
    from + sequence.increment * i128::from(steps)
}

/// Where a sequence is behind `count` values from `next` on, of which there are as many.
fn position_behind(sequence: &Sequence, next: i128, count: u64) -> SequencePosition {
    let last = value_at(sequence, next, count - 1);
    match values_from(sequence, last) {
        1 if sequence.cycles => SequencePosition { next: beginning(sequence), used: true, exhausted: false },
        1 => SequencePosition { next: last, used: true, exhausted: true },
        _ => SequencePosition { next: last + sequence.increment, used: true, exhausted: false },
    }
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

    fn state(&self) -> SequenceState {
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
    /// Makes a sequence.
    ///
    /// # Errors
    /// 2714, 2760, 103, 11700 to 11703, 11705, 11706; a device's error, after which the statement must be rolled back.
    pub fn create_sequence(
        self: &Arc<Database>,
        ctx: &StatementContext,
        definition: &SequenceDefinition,
    ) -> Result<Arc<Sequence>> {
        let name = &definition.name;
        check_name(name)?;
        let schema = schema_id(&self.snapshot_of(ctx), &definition.schema)?;
        let claims = vec![(Name::object(schema, name), Sharing::Exclusive), (Name::Schema(schema), Sharing::Shared)];
        let change = self.begin(ctx, claims)?;
        let snapshot = self.snapshot_of(ctx);
        schema_id(&snapshot, &definition.schema)?;
        if snapshot.has_object(schema, name) {
            return Err(name_is_taken(name));
        }
        let (least, greatest) = Sequence::type_bounds(definition.sql_type).ok_or_else(|| wrong_type(name))?;
        let minimum = definition.minimum.unwrap_or(least);
        let maximum = definition.maximum.unwrap_or(greatest);
        let by_default = if definition.increment > 0 { minimum } else { maximum };
        let sequence = Sequence {
            id: self.next_object_id(&snapshot),
            schema,
            name: name.clone(),
            created: time_of_day(),
            sql_type: definition.sql_type,
            start: definition.start.unwrap_or(by_default),
            increment: definition.increment,
            minimum,
            maximum,
            cycles: definition.cycles,
            cache: definition.cache,
        };
        check(&sequence)?;
        let sequence = Arc::new(sequence);
        let position = SequencePosition { next: sequence.start, used: false, exhausted: false };
        let written = Arc::clone(&sequence);
        self.write_rows(ctx, |heaps, rows| heaps.insert_sequence(rows, &written, position))?;
        self.forget_sequence_if_undone(ctx, sequence.id);
        change.add(SnapshotChange::AddSequence(Arc::clone(&sequence)));
        Ok(sequence)
    }

    /// Changes a sequence, which `lock` has locked against all who use it.
    ///
    /// # Errors
    /// 15151, 2801, 11700, 11701, 11703 to 11706; what `lock` returns; a device's error, after which the statement must be
    /// rolled back.
    pub fn alter_sequence(
        self: &Arc<Database>,
        ctx: &StatementContext,
        schema: &str,
        name: &str,
        alteration: &SequenceAlteration,
        lock: &mut LockTable<'_>,
    ) -> Result<()> {
        let missing = || {
            let text =
                format!("Cannot alter the sequence '{name}', because it does not exist or you do not have permission.");
            EngineError::statement(number::CANNOT_FIND, text)
        };
        let (change, old) = self.claim_sequence(ctx, schema, name, lock, &|_| missing())?;
        let state = self.live_sequence(&old)?.state();
        let (least, greatest) = Sequence::type_bounds(old.sql_type).ok_or_else(|| wrong_type(name))?;
        let sequence = Sequence {
            increment: alteration.increment.unwrap_or(old.increment),
            minimum: alteration.minimum.map_or(old.minimum, |minimum| minimum.unwrap_or(least)),
            maximum: alteration.maximum.map_or(old.maximum, |maximum| maximum.unwrap_or(greatest)),
            cycles: alteration.cycles.unwrap_or(old.cycles),
            cache: alteration.cache.unwrap_or(old.cache),
            ..(*old).clone()
        };
        check(&Sequence { start: sequence.minimum, ..sequence.clone() })?;
        let position = match alteration.restart {
            Some(restart) => {
                let next = restart.unwrap_or(sequence.start);
                check(&Sequence { start: next, ..sequence.clone() })?;
                SequencePosition { next, used: false, exhausted: false }
            }
            None => position_after(&sequence, state)?,
        };
        // Bounds may leave the value out at which the sequence once began.
        let start = sequence.start.clamp(sequence.minimum, sequence.maximum);
        let sequence = Arc::new(Sequence { start, ..sequence });
        let written = Arc::clone(&sequence);
        self.write_rows(ctx, |heaps, rows| {
            heaps.delete_sequence(rows, written.id)?;
            heaps.insert_sequence(rows, &written, position)
        })?;
        // If it is undone, what was left of the old one's block is handed out after all.
        let (database, id) = (Arc::clone(self), sequence.id);
        let before = self.sequences.write().remove(&id);
        ctx.on_undo(move || {
            let mut sequences = database.sequences.write();
            sequences.remove(&id);
            sequences.extend(before.map(|before| (id, before)));
            Ok(())
        });
        change.add(SnapshotChange::AddSequence(sequence));
        Ok(())
    }

    /// Drops a sequence, which `lock` has locked against all who use it. Gives its id.
    ///
    /// # Errors
    /// 3701, 3705, 2801; what `lock` returns; a device's error, after which the statement must be rolled back.
    pub fn drop_sequence(
        self: &Arc<Database>,
        ctx: &StatementContext,
        schema: &str,
        name: &str,
        lock: &mut LockTable<'_>,
    ) -> Result<ObjectId> {
        let (change, sequence) = self.claim_sequence(ctx, schema, name, lock, &|snapshot| {
            let schema = snapshot.schema_id(schema).unwrap_or_default();
            if let Some(module) = snapshot.module(schema, name) {
                return super::module::wrong_kind("SEQUENCE", module);
            }
            if snapshot.table(schema, name).is_some() {
                let text =
                    format!("Cannot use DROP SEQUENCE with '{name}' because '{name}' is a table. Use DROP TABLE.");
                return EngineError::statement(number::WRONG_OBJECT_KIND, text);
            }
            cannot_drop("sequence object", name)
        })?;
        let id = sequence.id;
        self.write_rows(ctx, |heaps, rows| heaps.delete_sequence(rows, id))?;
        let database = Arc::clone(self);
        ctx.on_commit(move || {
            database.sequences.write().remove(&id);
            Ok(())
        });
        change.add(SnapshotChange::RemoveSequence(id));
        Ok(id)
    }

    /// As with a table, see [`Database::drop_table`]: the lock is waited for without the name in hand.
    fn claim_sequence(
        self: &Arc<Database>,
        ctx: &StatementContext,
        schema: &str,
        name: &str,
        lock: &mut LockTable<'_>,
        missing: &dyn Fn(&DatabaseSnapshot) -> EngineError,
    ) -> Result<(Change, Arc<Sequence>)> {
        let snapshot = self.snapshot_of(ctx);
        let schema = snapshot.schema_id(schema).ok_or_else(|| missing(&snapshot))?;
        let mut locked = None;
        for _ in 0..CLAIM_ATTEMPTS {
            let change = self.begin(ctx, vec![(Name::object(schema, name), Sharing::Exclusive)])?;
            let snapshot = self.snapshot_of(ctx);
            let sequence = Arc::clone(snapshot.sequence(schema, name).ok_or_else(|| missing(&snapshot))?);
            if locked == Some(sequence.id) {
                return Ok((change, sequence));
            }
            change.release();
            lock(sequence.id)?;
            locked = Some(sequence.id);
        }
        let text = format!("The definition of '{name}' changed again and again while the statement waited for it.");
        Err(EngineError::statement(number::DEFINITION_CHANGED, text))
    }

    /// What is in memory follows rows that are taken back.
    fn forget_sequence_if_undone(self: &Arc<Database>, ctx: &StatementContext, id: ObjectId) {
        let database = Arc::clone(self);
        ctx.on_undo(move || {
            database.sequences.write().remove(&id);
            Ok(())
        });
    }

    fn live_sequence(&self, sequence: &Arc<Sequence>) -> Result<Arc<LiveSequence>> {
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

    /// Writes how far values are taken: durable when this returns, or a part of the transaction that made the sequence what
    /// it is.
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
        let write = |heaps: &hobt_catalog::SystemHeaps, rows: &StatementContext| {
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

/// The next value of a sequence.
fn next_value(sequence: &Sequence, position: SequencePosition) -> Result<i128> {
    match position.exhausted {
        false => Ok(position.next),
        // `CYCLE` came by an `ALTER`.
        true if sequence.cycles => Ok(beginning(sequence)),
        true => Err(is_exhausted(&sequence.name)),
    }
}

/// `count` values from a position on.
fn range_of(sequence: &Sequence, position: SequencePosition, count: u64) -> Result<SequenceRange> {
    let first = next_value(sequence, position)?;
    let here = values_from(sequence, first);
    let count = u128::from(count);
    if count <= here {
        let last = value_at(sequence, first, u64::try_from(count - 1).unwrap_or(u64::MAX));
        return Ok(SequenceRange { first, last, cycles: 0 });
    }
    if !sequence.cycles {
        let text = format!(
            "The requested range for sequence object '{}' exceeds the maximum or minimum limit. Retry with a smaller range.",
            sequence.name
        );
        return Err(EngineError::statement(number::SEQUENCE_RANGE, text));
    }
    let rest = count - here - 1;
    let round = values_from(sequence, beginning(sequence));
    let steps = u64::try_from(rest % round).unwrap_or(u64::MAX);
    let cycles = u64::try_from(rest / round + 1).unwrap_or(u64::MAX);
    Ok(SequenceRange { first, last: value_at(sequence, beginning(sequence), steps), cycles })
}

/// Where an altered sequence goes on.
fn position_after(sequence: &Sequence, state: SequenceState) -> Result<SequencePosition> {
    let current = state.current;
    if !(sequence.minimum..=sequence.maximum).contains(&current) {
        let text = format!(
            "The current value '{current}' for sequence object '{}' must be between the minimum and maximum value of the \
             sequence object.",
            sequence.name
        );
        return Err(EngineError::statement(number::SEQUENCE_CURRENT, text));
    }
    Ok(match state.used {
        true => position_behind(sequence, current, 1),
        false => SequencePosition { next: current, used: false, exhausted: false },
    })
}

fn sequence_is_gone(name: &str) -> EngineError {
    EngineError::statement(number::INVALID_OBJECT, format!("Invalid object name '{name}'."))
}

/// 11702.
fn wrong_type(name: &str) -> EngineError {
    let text = format!(
        "The sequence object '{name}' must be of data type int, bigint, smallint, tinyint, or decimal or numeric with a scale \
         of 0, or any user-defined data type that is based on one of the integer data types listed above."
    );
    EngineError::statement(number::SEQUENCE_TYPE, text)
}

/// Refuses a definition that cannot be.
fn check(sequence: &Sequence) -> Result<()> {
    let name = &sequence.name;
    let refuse = |number, text| Err(EngineError::statement(number, text));
    let Some((least, greatest)) = Sequence::type_bounds(sequence.sql_type) else { return Err(wrong_type(name)) };
    for (argument, value) in [
        ("START WITH", sequence.start),
        ("INCREMENT BY", sequence.increment),
        ("MINVALUE", sequence.minimum),
        ("MAXVALUE", sequence.maximum),
    ] {
        // A step may lead down also where no value is negative.
        let magnitude = if argument == "INCREMENT BY" { value.saturating_abs() } else { value };
        if !(least..=greatest).contains(&magnitude) {
            let text = format!("An invalid value was specified for argument '{argument}' for the given data type.");
            return refuse(number::SEQUENCE_ARGUMENT, text);
        }
    }
    if sequence.increment == 0 {
        let text = format!("The increment for sequence object '{name}' cannot be zero.");
        return refuse(number::SEQUENCE_INCREMENT_ZERO, text);
    }
    if sequence.minimum >= sequence.maximum {
        let text = format!("The minimum value for sequence object '{name}' must be less than its maximum value.");
        return refuse(number::SEQUENCE_BOUNDS, text);
    }
    if sequence.increment.unsigned_abs() > sequence.maximum.abs_diff(sequence.minimum) {
        let text = format!(
            "The absolute value of the increment for sequence object '{name}' must be less than or equal to the difference \
             between the minimum and maximum value of the sequence object."
        );
        return refuse(number::SEQUENCE_INCREMENT, text);
    }
    if !(sequence.minimum..=sequence.maximum).contains(&sequence.start) {
        let text = format!(
            "The start value for sequence object '{name}' must be between the minimum and maximum value of the sequence \
             object."
        );
        return refuse(number::SEQUENCE_START, text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(increment: i128, minimum: i128, maximum: i128, cycles: bool) -> Sequence {
        Sequence {
            id: ObjectId(1),
            schema: 1,
            name: "s".to_owned(),
            created: 0,
            sql_type: SqlType::Int,
            start: minimum,
            increment,
            minimum,
            maximum,
            cycles,
            cache: None,
        }
    }

    fn at(next: i128) -> SequencePosition {
        SequencePosition { next, used: true, exhausted: false }
    }

    #[test]
    fn the_last_value_is_followed_by_none_or_the_first() {
        assert_eq!(values_from(&sequence(3, 1, 10, false), 4), 3);
        assert_eq!(values_from(&sequence(-3, 1, 10, false), 10), 4);
        let behind = position_behind(&sequence(3, 1, 10, false), 4, 3);
        assert_eq!((behind.next, behind.exhausted), (10, true));
        assert_eq!(position_behind(&sequence(3, 1, 10, true), 4, 3), at(1));
        assert_eq!(position_behind(&sequence(-4, 1, 10, true), 6, 2), at(10));
        assert_eq!(position_behind(&sequence(1, 1, 10, false), 4, 3), at(7));
    }

    #[test]
    fn a_range_goes_round_as_often_as_it_must() {
        let range = |cycles, next, count| range_of(&sequence(1, 1, 5, cycles), at(next), count).ok();
        let of = |first, last, cycles| Some(SequenceRange { first, last, cycles });
        assert_eq!(range(false, 2, 4), of(2, 5, 0));
        assert_eq!(range(false, 2, 5), None);
        assert_eq!(range(true, 2, 5), of(2, 1, 1));
        assert_eq!(range(true, 2, 9), of(2, 5, 1));
        assert_eq!(range(true, 2, 10), of(2, 1, 2));
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let refused = |sequence: Sequence| check(&sequence).map_err(|error| error.to_sql_error().number);
        assert_eq!(refused(sequence(1, 1, 2, false)), Ok(()));
        assert_eq!(refused(sequence(0, 1, 2, false)), Err(number::SEQUENCE_INCREMENT_ZERO));
        assert_eq!(refused(sequence(2, 1, 2, false)), Err(number::SEQUENCE_INCREMENT));
        assert_eq!(refused(sequence(1, 2, 2, false)), Err(number::SEQUENCE_BOUNDS));
        assert_eq!(refused(sequence(1, 1, 1 << 40, false)), Err(number::SEQUENCE_ARGUMENT));
        assert_eq!(refused(Sequence { start: 9, ..sequence(1, 1, 2, false) }), Err(number::SEQUENCE_START));
        assert_eq!(
            refused(Sequence { sql_type: SqlType::Float, ..sequence(1, 1, 2, false) }),
            Err(number::SEQUENCE_TYPE)
        );
    }
}
