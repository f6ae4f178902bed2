//! The row of a sequence: what it is, and how far its values are taken.

use super::field::Field;
use super::rows::system_row;
use super::{FieldDefinition, SystemRow, SystemTable, Value};

system_row! {
    /// A sequence; its name stands among the objects.
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
        /// The least value.
        minimum: i128 = "minval",
        /// The greatest value.
        maximum: i128 = "maxval",
        /// `CYCLE`.
        cycles: bool = "iscycling",
        /// `CACHE n`; 0 for `NO CACHE`, NULL where no size was given.
        cache: Option<i32> = "cachesize",
        /// Where it stands: the next value of which nobody knows.
        next: i128 = "nextval",
        /// Whether a value was ever taken.
        used: bool = "isused",
        /// Whether there is no value behind the last one.
        exhausted: bool = "isexhausted",
    }
}
