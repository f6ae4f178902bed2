//! T-SQL's scalar functions, casts, arithmetic and aggregates as vectorised Arrow kernels.
//!
//! Every value has a SQL type and travels in that type's [`carrier()`]. The binder asks [`type_rules`] for result types
//! and [`function::lookup`] for functions, and the executor calls the kernels: [`arithmetic`], [`cast`], [`like`],
//! [`sort_keys`], [`aggregate`]. A NULL gives NULL and never raises an error, whatever lies under it.
//!
//! Leaves to others: expressions and their evaluation order, three-valued logic, comparison of carriers (a plain
//! comparison once text has gone through [`sort_keys`]), and everything that names a query engine.

pub mod aggregate;
mod arguments;
pub mod arithmetic;
pub mod carrier;
pub mod cast;
mod column;
mod conditional;
pub mod date;
mod decimal;
mod determinism;
mod error;
pub mod format;
pub mod function;
mod hash;
pub mod like;
mod math;
pub mod sort_keys;
mod text;
pub mod type_rules;
pub mod watch;

pub use carrier::{array_value, carrier, output_array, output_field, output_type, value_to_array};
pub use cast::cast_array;
pub use column::Column;
pub use date::DatePart;
pub use determinism::{is_call_deterministic, is_conversion_deterministic};
pub use error::invalid_argument;
pub use format::format_value;
pub use function::{ArgType, Argument, Call, FunctionContext, FunctionDef, Volatility, lookup};
pub use text::{split, split_ordinals};
pub use type_rules::{BinaryOperator, common_type};

/// The functions, by subject.
static TABLES: [&[FunctionDef]; 5] =
    [text::FUNCTIONS, conditional::FUNCTIONS, math::FUNCTIONS, hash::FUNCTIONS, date::FUNCTIONS];
