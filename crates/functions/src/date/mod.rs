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

pub use calendar::holds_moment;
pub(crate) use calendar::{
    BASE_DAY, BASE_TICKS, TICKS_PER_DAY, TICKS_PER_SECOND, datetime_in_range, round_to_datetime, split,
};
pub(crate) use functions::FUNCTIONS;
pub(crate) use parse::{DateError, parse};
pub use part::DatePart;
pub(crate) use style::to_text;
