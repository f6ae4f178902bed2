//! Sequences: CREATE, ALTER and DROP. `live` hands out their values, `position` computes what follows a value.

mod live;
mod position;

use std::sync::Arc;

use hobt_base::{ObjectId, errors};
use hobt_catalog::{DatabaseSnapshot, Sequence, SequencePosition, SnapshotChange};
use hobt_txn::StatementContext;
use hobt_types::SqlType;

use super::claim::until_locked;
use super::pending::{Name, Sharing};
use super::table::schema_id;
use super::{Change, Database, LockTable};
use crate::definition::check_name;
use crate::error::{EngineError, Result, cannot_drop, name_is_taken};
use hobt_instruments::time_of_day;

pub(super) use live::LiveSequence;
use position::position_after;
pub use position::{SequenceRange, SequenceState};

/// `CREATE SEQUENCE`, everything resolved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceDefinition {
    /// The schema's name.
    pub schema: String,
    /// The sequence's name.
    pub name: String,
    /// The type of its values.
    pub sql_type: SqlType,
    /// The first value; if `None`, the minimum, or the maximum if the step is negative.
    pub start: Option<i128>,
    /// The step.
    pub increment: i128,
    /// The minimum; the type's if absent.
    pub minimum: Option<i128>,
    /// The maximum; the type's if absent.
    pub maximum: Option<i128>,
    /// `CYCLE`.
    pub cycles: bool,
    /// `CACHE n`; 0 is `NO CACHE`, `None` leaves the size to the engine.
    pub cache: Option<i32>,
}

/// `ALTER SEQUENCE`: absent options stay unchanged.
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

impl Database {
    /// Creates a sequence.
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

    /// Changes a sequence. `lock` has locked it exclusively.
    ///
    /// # Errors
    /// 15151, 2801, 11700, 11701, 11703 to 11706; what `lock` returns; a device's error, after which the statement must
    /// be rolled back.
    pub fn alter_sequence(
        self: &Arc<Database>,
        ctx: &StatementContext,
        schema: &str,
        name: &str,
        alteration: &SequenceAlteration,
        lock: &mut LockTable<'_>,
    ) -> Result<()> {
        let missing = || EngineError::Statement(errors::CANNOT_FIND.with([&name]));
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
        // The new bounds may exclude the original start value.
        let start = sequence.start.clamp(sequence.minimum, sequence.maximum);
        let sequence = Arc::new(Sequence { start, ..sequence });
        let written = Arc::clone(&sequence);
        self.write_rows(ctx, |heaps, rows| {
            heaps.delete_sequence(rows, written.id)?;
            heaps.insert_sequence(rows, &written, position)
        })?;
        // If it is undone, the rest of the old sequence's block is handed out after all.
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

    /// Drops a sequence and returns its id. `lock` has locked it exclusively.
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
                return EngineError::Statement(errors::WRONG_OBJECT_KIND.with([
                    &"SEQUENCE",
                    &name,
                    &name,
                    &"table",
                    &"TABLE",
                ]));
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

    /// Claims a sequence's name and finds the sequence, which is locked by `lock`.
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
        until_locked(lock, name, &mut || {
            let change = self.begin(ctx, vec![(Name::object(schema, name), Sharing::Exclusive)])?;
            let snapshot = self.snapshot_of(ctx);
            let sequence = Arc::clone(snapshot.sequence(schema, name).ok_or_else(|| missing(&snapshot))?);
            let ids = vec![sequence.id];
            Ok((change, sequence, ids))
        })
    }

    /// Drops the in-memory state if the rows are rolled back.
    fn forget_sequence_if_undone(self: &Arc<Database>, ctx: &StatementContext, id: ObjectId) {
        let database = Arc::clone(self);
        ctx.on_undo(move || {
            database.sequences.write().remove(&id);
            Ok(())
        });
    }
}

/// 11702.
fn wrong_type(name: &str) -> EngineError {
    EngineError::Statement(errors::SEQUENCE_TYPE.with([&name]))
}

/// Refuses an invalid definition.
fn check(sequence: &Sequence) -> Result<()> {
    let name = &sequence.name;
    let refuse = |error| Err(EngineError::Statement(error));
    let Some((least, greatest)) = Sequence::type_bounds(sequence.sql_type) else { return Err(wrong_type(name)) };
    for (argument, value) in [
        ("START WITH", sequence.start),
        ("INCREMENT BY", sequence.increment),
        ("MINVALUE", sequence.minimum),
        ("MAXVALUE", sequence.maximum),
    ] {
        // A step may be negative even if the type has no negative values.
        let magnitude = if argument == "INCREMENT BY" { value.saturating_abs() } else { value };
        if !(least..=greatest).contains(&magnitude) {
            return refuse(errors::SEQUENCE_ARGUMENT.with([&argument]));
        }
    }
    if sequence.increment == 0 {
        return refuse(errors::SEQUENCE_INCREMENT_ZERO.with([name]));
    }
    if sequence.minimum >= sequence.maximum {
        return refuse(errors::SEQUENCE_BOUNDS.with([name]));
    }
    if sequence.increment.unsigned_abs() > sequence.maximum.abs_diff(sequence.minimum) {
        return refuse(errors::SEQUENCE_INCREMENT.with([name]));
    }
    if !(sequence.minimum..=sequence.maximum).contains(&sequence.start) {
        return refuse(errors::SEQUENCE_START.with([name]));
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use hobt_base::number;

    pub(super) fn sequence(increment: i128, minimum: i128, maximum: i128, cycles: bool) -> Sequence {
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
