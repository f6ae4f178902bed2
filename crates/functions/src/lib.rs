//! T-SQL's scalar functions, casts, arithmetic and aggregates as vectorised Arrow kernels.
//!
//! Every value has a SQL type and is stored in that type's [`carrier()`]. The binder asks [`type_rules`] for result
//! types and [`function::lookup`] for functions. The executor calls the kernels: [`arithmetic`], [`cast`], [`like`],
//! [`sort_keys`], [`aggregate`]. A NULL operand results in NULL and never raises an error, whatever bytes are under it.
//!
//! Not here: expressions and their evaluation order, three-valued logic, comparison of carriers (a plain comparison
//! after text was converted by [`sort_keys`]), and everything specific to a query engine.

pub mod aggregate;
mod arguments;
pub mod arithmetic;
pub(crate) mod ascii;
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
mod values;
pub mod watch;

pub use ascii::views::ascii_views;
pub use carrier::{array_value, carrier, output_array, output_field, output_type, value_to_array, values_to_array};
pub use cast::cast_array;
pub use column::Column;
pub use date::{DatePart, round_to_datetime};
pub use determinism::{is_call_deterministic, is_conversion_deterministic};
pub use error::invalid_argument;
pub use format::format_value;
pub use function::{ArgType, Argument, Call, FunctionContext, FunctionDef, Volatility, lookup};
pub use text::{split, split_ordinals};
pub use type_rules::{BinaryOperator, common_type};
pub use values::{batch_of_values, convert_value, value_text};

/// The functions, by subject.
static TABLES: [&[FunctionDef]; 5] =
    [text::FUNCTIONS, conditional::FUNCTIONS, math::FUNCTIONS, hash::FUNCTIONS, date::FUNCTIONS];
