//! Statistics of columns: how many rows, how many different values, which values are frequent.
//!
//! ```text
//! rows ──► Gatherer ──► Summary ┬ rows, NULLs, exact                 Summary::merged: partitions into a table
//!                               ├ a DistinctSketch per prefix        Summary::scaled_to: a sample into the whole
//!                               └ a Histogram of the first column    encode, decode: as bytes
//! ```
//! A [`Gatherer`] is fed by the code that writes or reads rows, at a cost of a few nanoseconds a row. Its [`Summary`]
//! is small, however many rows it has seen, and summaries of parts merge into that of the whole. Keys are those of
//! [`KeyColumn`](crate::KeyColumn), for nullable and ascending columns, so that the bytes of any two values compare:
//! see [`histogram_key`].
//!
//! Done elsewhere: which columns have statistics, when they are gathered and stored, and how estimates are made.

mod codec;
mod distinct;
mod gather;
mod histogram;
mod sorted;
mod summary;
mod units;

pub use codec::{StatisticsDamage, decode, encode};
pub use distinct::{DistinctSketch, hash_key};
pub use gather::{GatherColumns, Gatherer, HISTOGRAM_VALUE_BYTES_MAX, histogram_key, histogram_value};
pub use histogram::{Bound, Histogram, HistogramBuilder, Overlap, STEPS_MAX, Step, merged, overlap, pairs_below};
pub use sorted::SortedGatherer;
pub use summary::{Prefix, Summary};
