//! Dates and times: the calendar, text forms and the functions over them.
//!
//! Not here: conversions between types ([`crate::cast`]).

mod add;
mod calendar;
mod construct;
mod difference;
mod extract;
mod functions;
mod parse;
mod part;
mod style;

pub(crate) use calendar::{BASE_DAY, BASE_TICKS, TICKS_PER_DAY, TICKS_PER_SECOND, datetime_in_range, split};
pub use calendar::{holds_moment, round_to_datetime};
pub(crate) use functions::FUNCTIONS;
pub(crate) use parse::{DateError, parse};
pub use part::DatePart;
pub(crate) use style::to_text;
