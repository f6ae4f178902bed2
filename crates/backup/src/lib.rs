//! The format of backups.
//!
//! ```text
//! media set   one file, or several (stripes), which are used together
//! file        label | backup set | backup set | …
//! backup set  begin | blocks of data and log | end          in every file of the media set
//! block       header in 4 KiB | payload, at most 1 MiB, in whole units of 4 KiB
//! ```
//! A block has its own position, the id of its media set, the number of its backup set, and its ordinal there, so that
//! a missing, moved or foreign block is noticed. A CRC-32C covers the header and the payload as stored. A payload may
//! be compressed with zstd, each on its own, so that several threads compress.
//!
//! A backup set without its end was cut short. It is not listed, and the next backup set takes its place.
//!
//! Left to others: what is copied and when (crate `engine`), the meaning of pages and of log records.

mod block;
mod error;
mod facts;
#[cfg(test)]
mod fuzz;
mod read_ahead;
mod reader;
mod set_reader;
mod writer;

pub use block::{BlockBuffer, BlockKind, Content, PAYLOAD_BYTES_MAX, Packed};
pub use error::BackupError;
pub use facts::{DataFileFact, Guid, HistoryEntry, LogFileFact, MediaLabel, SetFacts, SetKind};
pub use reader::{Media, SetPlace};
pub use set_reader::{Reading, SavedBlock, SetReader};
pub use writer::{MediaWriter, Opening, SetWriter};
