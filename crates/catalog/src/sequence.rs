//! Sequences: their rules, and writing and reading their rows.

use hobt_base::ObjectId;
use hobt_txn::StatementContext;
use hobt_types::SqlType;

use crate::check::{BrokenRule, require};
use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::schema::Sequence;
use crate::system::{ObjectRow, SequenceRow, SystemTable, Timestamp};
use crate::type_columns::TypeColumns;

/// The type code of sequences among the objects.
pub(crate) const SEQUENCE_KIND: &str = "SO";

/// The position of a sequence: up to where its values are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencePosition {
    /// The next unused value; if none follows, the last one again.
    pub next: i128,
    /// Whether a value was ever taken.
    pub used: bool,
    /// Whether no value follows the last one.
    pub exhausted: bool,
}

impl Sequence {
    /// The minimum and maximum of a type that sequences can have; `None` for any other type.
    pub fn type_bounds(sql_type: SqlType) -> Option<(i128, i128)> {
        Some(match sql_type {
            SqlType::TinyInt => (0, i128::from(u8::MAX)),
            SqlType::SmallInt => (i128::from(i16::MIN), i128::from(i16::MAX)),
            SqlType::Int => (i128::from(i32::MIN), i128::from(i32::MAX)),
            SqlType::BigInt => (i128::from(i64::MIN), i128::from(i64::MAX)),
            SqlType::Decimal { precision, scale: 0 } => {
                let largest = 10_i128.pow(u32::from(precision)) - 1;
                (-largest, largest)
            }
            _ => return None,
        })
    }

    /// Checks its rules, which guarantee that its arithmetic never overflows.
    pub(crate) fn check(&self) -> Result<(), BrokenRule> {
        let Some((least, greatest)) = Sequence::type_bounds(self.sql_type) else {
            return require(false, &self.name, "a sequence has an integer type");
        };
        let bounds = least <= self.minimum && self.minimum < self.maximum && self.maximum <= greatest;
        let start = (self.minimum..=self.maximum).contains(&self.start);
        let step = self.increment != 0 && self.increment.unsigned_abs() <= self.maximum.abs_diff(self.minimum);
        require(bounds && start && step, &self.name, "a sequence's start and step lie between its bounds")
    }
}

impl SystemHeaps {
    /// Writes the rows of a sequence.
    ///
    /// # Errors
    /// As of any insert.
    pub fn insert_sequence(
        &self,
        ctx: &StatementContext,
        sequence: &Sequence,
        position: SequencePosition,
    ) -> Result<(), CatalogError> {
        self.insert(
            ctx,
            &ObjectRow {
                id: sequence.id.0,
                schema: sequence.schema,
                name: sequence.name.clone(),
                kind: SEQUENCE_KIND.to_owned(),
                created: Timestamp(sequence.created),
                layout_version: 0,
                lock_escalation: 0,
            },
        )?;
        let types = TypeColumns::of(sequence.sql_type);
        self.insert(
            ctx,
            &SequenceRow {
                id: sequence.id.0,
                type_id: types.type_id,
                precision: types.precision,
                start: sequence.start,
                increment: sequence.increment,
                minimum: sequence.minimum,
                maximum: sequence.maximum,
                cycles: sequence.cycles,
                cache: sequence.cache,
                next: position.next,
                used: position.used,
                exhausted: position.exhausted,
            },
        )
    }

    /// Deletes the rows of a sequence.
    ///
    /// # Errors
    /// As of any delete.
    pub fn delete_sequence(&self, ctx: &StatementContext, sequence: ObjectId) -> Result<(), CatalogError> {
        self.delete(ctx, |row: &ObjectRow| row.id == sequence.0)?;
        self.delete(ctx, |row: &SequenceRow| row.id == sequence.0).map(|_| ())
    }

    /// The position of a sequence; `None` if it does not exist.
    ///
    /// # Errors
    /// A page cannot be read, or a row is damaged.
    pub fn sequence_position(&self, sequence: ObjectId) -> Result<Option<SequencePosition>, CatalogError> {
        let rows = self.rows::<SequenceRow>()?;
        let row = rows.into_iter().find(|row| row.id == sequence.0);
        Ok(row.map(|row| SequencePosition { next: row.next, used: row.used, exhausted: row.exhausted }))
    }

    /// Sets the position of a sequence; returns `false` if it does not exist.
    ///
    /// # Errors
    /// As of any change.
    pub fn set_sequence_position(
        &self,
        ctx: &StatementContext,
        sequence: ObjectId,
        position: SequencePosition,
    ) -> Result<bool, CatalogError> {
        let SequencePosition { next, used, exhausted } = position;
        let changed = self.replace(ctx, |row: &SequenceRow| {
            (row.id == sequence.0).then(|| SequenceRow { next, used, exhausted, ..row.clone() })
        })?;
        Ok(changed > 0)
    }
}

/// Builds a sequence from its rows.
pub(crate) fn load_sequence(object: ObjectRow, row: &SequenceRow) -> Result<Sequence, CatalogError> {
    let length = 0;
    let types = TypeColumns { type_id: row.type_id, length, precision: row.precision, scale: 0 };
    let wrong = || damaged(SystemTable::Sequences, format!("'{}' has no type of a sequence", object.name));
    let sql_type = types.sql_type().ok_or_else(wrong)?;
    if !(row.minimum..=row.maximum).contains(&row.next) {
        let what = format!("'{}' stands where it has no value", object.name);
        return Err(damaged(SystemTable::Sequences, what));
    }
    Ok(Sequence {
        id: ObjectId(object.id),
        schema: object.schema,
        name: object.name,
        created: object.created.0,
        sql_type,
        start: row.start,
        increment: row.increment,
        minimum: row.minimum,
        maximum: row.maximum,
        cycles: row.cycles,
        cache: row.cache,
    })
}
