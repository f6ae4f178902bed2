//! A summary as bytes.

use std::fmt;

use super::Summary;

/// Why bytes are no statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatisticsDamage {
    /// They end too early.
    Short,
    /// They go on behind the end.
    Trailing,
    /// They are of a version, or of a form, that is not known.
    Version,
    /// They were changed: the checksum is another.
    Checksum,
    /// There is more of something than there can be.
    Count,
    /// Steps or hashes are not in ascending order.
    Order,
    /// A number is negative, not finite or too high.
    Number,
}

impl fmt::Display for StatisticsDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StatisticsDamage::Short => "statistics that end too early",
            StatisticsDamage::Trailing => "statistics with bytes behind their end",
            StatisticsDamage::Version => "statistics of an unknown version",
            StatisticsDamage::Checksum => "statistics whose checksum is wrong",
            StatisticsDamage::Count => "statistics with more steps or columns than there can be",
            StatisticsDamage::Order => "statistics whose steps or hashes do not ascend",
            StatisticsDamage::Number => "statistics with a number that is negative, not finite or too high",
        })
    }
}

impl std::error::Error for StatisticsDamage {}

/// Appends a summary's bytes to `out`.
pub fn encode(summary: &Summary, out: &mut Vec<u8>) {
    out.extend_from_slice(&summary.rows.to_le_bytes());
}

/// The summary that bytes stand for.
///
/// # Errors
/// They are none's.
pub fn decode(bytes: &[u8]) -> Result<Summary, StatisticsDamage> {
    let rows = bytes.first_chunk().ok_or(StatisticsDamage::Short)?;
    Ok(Summary { rows: f64::from_le_bytes(*rows), ..Summary::default() })
}
