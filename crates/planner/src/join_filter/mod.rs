//! Which joins give the scans below them a filter, and how far down it is pushed.

mod push;
mod rule;
pub use rule::JoinFilterRule;
