//! `NEWSEQUENTIALID`: guids each of which is greater than all before it.
//!
//! ```text
//!   in the order in which guids are compared:
//!   node, 6 bytes │ clock sequence, 2 │ version 1 and the time in 100 ns, 8
//! ```
//!
//! The node and the clock sequence are random, drawn once per process run; a bit of the node marks it as random. If two
//! guids would have the same time, the time is incremented by one. Source: RFC 9562, section 5.1, in the byte order
//! that SQL Server uses.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryBuilder};
use hobt_base::SqlError;
use rand::RngCore;

use crate::error::from_arrow;
use crate::function::Call;

/// From 1582-10-15 to 1970-01-01, in 100 ns.
const GREGORIAN: u64 = 122_192_928_000_000_000;
/// Version 1, above the 60 bits of the time.
const VERSION: u64 = 1 << 60;

/// The earliest time of the next guid.
static NEXT: AtomicU64 = AtomicU64::new(0);
static NODE: OnceLock<[u8; 8]> = OnceLock::new();

fn node() -> &'static [u8; 8] {
    NODE.get_or_init(|| {
        let mut node = [0; 8];
        rand::rng().fill_bytes(&mut node);
        node[0] |= 1;
        node[6] = node[6] & 0x3F | 0x80;
        node
    })
}

/// Reserves `count` times for the caller and returns the first one.
fn take_times(count: u64) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = GREGORIAN + u64::try_from(since.as_nanos() / 100).unwrap_or(0);
    let mut first = now;
    let take = |next: u64| {
        first = next.max(now);
        Some(first + count)
    };
    // The update never fails.
    let _previous = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    first
}

/// A guid for each row, in the carrier's sort order.
pub(super) fn newsequentialid(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let first = take_times(call.rows as u64);
    let mut builder = FixedSizeBinaryBuilder::with_capacity(call.rows, 16);
    for time in first..first + call.rows as u64 {
        builder.append_value(guid_of(time)).map_err(from_arrow)?;
    }
    Ok(Arc::new(builder.finish()))
}

/// One guid, as [`newsequentialid`] generates them.
pub(super) fn next() -> [u8; 16] {
    guid_of(take_times(1))
}

fn guid_of(time: u64) -> [u8; 16] {
    let mut guid = [0; 16];
    guid[..8].copy_from_slice(node());
    guid[8..].copy_from_slice(&(VERSION | time & (VERSION - 1)).to_be_bytes());
    guid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_never_given_twice() {
        let (first, second) = (take_times(1000), take_times(1));
        assert!(second >= first + 1000);
        assert_eq!(node()[0] & 1, 1, "a node that is no network card's");
    }
}
