//! The base of all other crates: ids and units as newtypes, the table of errors and the error that reaches a user,
//! a clock and a random source.
//!
//! Nothing here allocates pages, reads files or knows SQL. A number that counts one thing cannot be used for a number
//! that counts another: `PageId`, `SlotId`, `HobtId` and so on do not convert into each other.

mod bytes;
mod checksum;
mod clock;
mod currency;
mod entry;
mod error;
pub mod errors;
mod ids;
mod random;
mod units;

pub use bytes::compare_bytes;
pub use checksum::crc32c;
pub use clock::{Clock, ManualClock, SystemClock};
pub use currency::is_currency_sign;
pub use entry::Entry;
pub use error::{Position, SqlError};
pub use errors::number;
pub use ids::{
    DatabaseId, FileId, FilegroupId, HobtId, IndexId, Lsn, ObjectId, PageId, PartitionNumber, SessionId, SlotId, Stamp,
};
pub use random::SplitMix64;
pub use units::{EXTENT_PAGES, EXTENT_SIZE, PAGE_SIZE};
