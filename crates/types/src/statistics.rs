//! Statistics of columns: how many rows, how many different values, which values are frequent.
//!
//! ```text
//! rows ──► Gatherer ──► Summary ┬ rows, NULLs, exact                 Summary::merged: partitions into a table
//!                               ├ a DistinctSketch per prefix        Summary::scaled_to: a sample into the whole
//!                               └ a Histogram of the first column    encode, decode: as bytes
//! ```
//! A [`Gatherer`] is fed by whoever writes or reads rows, a few nanoseconds a row; its [`Summary`] is small, whatever
//! it has seen, and summaries of parts merge into that of the whole. Keys are those of
//! [`KeyColumn`](crate::KeyColumn), of columns that may be NULL and ascend, so that the bytes of two values from
//! anywhere compare: see [`histogram_key`].
//!
//! Leaves to others: which columns have statistics, when they are gathered and stored, and what an estimate is made of.

mod codec;
mod distinct;
mod gather;
mod histogram;
mod sorted;
mod summary;

pub use codec::{StatisticsDamage, decode, encode};
pub use distinct::{DistinctSketch, hash_key};
pub use gather::{GatherColumns, Gatherer, HISTOGRAM_VALUE_BYTES_MAX, histogram_key, histogram_value};
pub use histogram::{Bound, Histogram, HistogramBuilder, Overlap, STEPS_MAX, Step, merged, overlap, pairs_below};
pub use sorted::SortedGatherer;
pub use summary::{Prefix, Summary};
