//! The former contents of a file: a file that goes on being written, as it was at one moment.
//!
//! ```text
//!   writes ──► CopyGuard ──► the file                       FormerView ◄── reads
//!                  │  before a block is overwritten first        │
//!                  └──► FormerBlocks ── copied? ── yes ──► the copy file
//!                            ▲                     └─ no ──► the file as it is now
//! ```
//!
//! A [`CopyGuard`] is in front of a file for as long as that is open. From the moment at which a [`FormerBlocks`] is
//! given to it, a block is copied to the copy file, durably, before it is overwritten for the first time. Writes are
//! kept out at that moment ([`CopyGuard::hold`]), so that several files have one moment together.
//!
//! A copy file is a header and batches, one behind the other: a block with the numbers of the copied blocks and
//! checksums, and the blocks. A batch is durable before the first of its blocks is overwritten, and before the next
//! one begins. So at an opening the first batch that does not check ends the file, and nothing of it is needed,
//! unless batches follow it: then it is damaged, and the moment lost. The blocks of earlier batches need not be read
//! for that.
//!
//! If a copy fails, the copy file is removed, durably, and the write goes on: the moment is lost, and the file is not
//! held up by a copy of it.
//!
//! The map in memory takes as much as that of an overlay.
//!
//! Left to others: what makes the contents of that moment whole, which is recovery.

mod blocks;
mod guard;
#[cfg(test)]
mod tests;
mod view;

pub use blocks::{FormerBlocks, FormerIdentity};
pub use guard::{CopyGuard, HeldGuard};
