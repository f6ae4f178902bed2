//! The rows of sequences (definition and position) and of constraints.

use super::field::{Field, Timestamp};
use super::rows::system_row;
use super::{FieldDefinition, SystemRow, SystemTable, Value};

system_row! {
    /// A sequence; its name is in the row of its object.
    SequenceRow, SystemTable::Sequences => {
        /// The object.
        id: i32 = "id",
        /// `system_type_id` of its values.
        type_id: u8 = "xtype",
        /// The precision of a decimal.
        precision: u8 = "prec",
        /// The first value.
        start: i128 = "startval",
        /// The step.
        increment: i128 = "increment",
        /// The minimum.
        minimum: i128 = "minval",
        /// The maximum.
        maximum: i128 = "maxval",
        /// `CYCLE`.
        cycles: bool = "iscycling",
        /// `CACHE n`; 0 for `NO CACHE`, NULL if no size was given.
        cache: Option<i32> = "cachesize",
        /// Its position: no value from this one on is known to be taken.
        next: i128 = "nextval",
        /// Whether a value was ever taken.
        used: bool = "isused",
        /// Whether no value follows the last one.
        exhausted: bool = "isexhausted",
    }
}

system_row! {
    /// A CHECK or FOREIGN KEY constraint; the text of a check is a long value.
    ConstraintRow, SystemTable::Constraints => {
        /// The constraint's object id.
        id: i32 = "id",
        /// The table.
        table: i32 = "parentid",
        /// 1 `CHECK`, 2 `FOREIGN KEY`.
        kind: u8 = "type",
        /// Its name.
        name: String = "name",
        /// When it was created.
        created: Timestamp = "created",
        /// 1 its name was generated, 2 disabled, 4 not trusted, 8 not for replication.
        status: i32 = "status",
        /// The id of the column that a check was written at.
        column: Option<i32> = "colid",
        /// The table that a foreign key refers to.
        referenced: Option<i32> = "refid",
        /// The index there.
        referenced_index: Option<i32> = "refindid",
        /// `ON DELETE`: 0 `NO ACTION`, 1 `CASCADE`, 2 `SET NULL`, 3 `SET DEFAULT`.
        on_delete: u8 = "ondelete",
        /// `ON UPDATE`, with the same values.
        on_update: u8 = "onupdate",
    }
}

system_row! {
    /// A column of a foreign key.
    ForeignKeyColumnRow, SystemTable::ForeignKeyColumns => {
        /// The referring table.
        table: i32 = "parentid",
        /// The constraint.
        constraint: i32 = "id",
        /// Its place in the key, from 1.
        place: i32 = "keyno",
        /// The id of the referring column.
        column: i32 = "colid",
        /// The id of the column referred to.
        referenced: i32 = "refcolid",
    }
}
