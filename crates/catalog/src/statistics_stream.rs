//! The contents of a statistics object as the bytes of `STATS_STREAM`. They can be loaded into statistics of another
//! table, over columns of the same types.
//!
//! ```text
//! 01 00 00 00 │ 'hobt' │ columns u32 │ type, length, precision, scale (u8, i16, u8, u8) of each │
//! rows of the table i64 │ updated i64 │ summary … │ CRC-32C of all before u32
//! ```
//! Numbers are little-endian. The format is hobt's own, except for its first four bytes, by which scripts recognise it.

use std::fmt;

use hobt_base::crc32c;
use hobt_types::SqlType;
use hobt_types::statistics::{Summary, decode, encode};

use crate::type_columns::TypeColumns;

const START: [u8; 8] = [1, 0, 0, 0, b'h', b'o', b'b', b't'];
const TYPE_BYTES: usize = 5;

/// The content of a `STATS_STREAM`.
#[derive(Clone, PartialEq, Debug)]
pub struct StatisticsStream {
    /// The types of the columns.
    pub types: Vec<SqlType>,
    /// Rows of the table when it was updated.
    pub unfiltered_rows: i64,
    /// When it was updated: 100 ns since 1970-01-01 UTC.
    pub updated: i64,
    /// A summary of the rows.
    pub summary: Summary,
}

/// Why bytes are not a `STATS_STREAM`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamDamage(&'static str);

impl fmt::Display for StreamDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for StreamDamage {}

fn type_bytes(sql_type: SqlType) -> [u8; TYPE_BYTES] {
    let types = TypeColumns::of(sql_type);
    let length = types.length.to_le_bytes();
    [types.type_id, length[0], length[1], types.precision, types.scale]
}

fn type_of(bytes: &[u8; TYPE_BYTES]) -> Option<SqlType> {
    let length = i16::from_le_bytes([bytes[1], bytes[2]]);
    TypeColumns { type_id: bytes[0], length, precision: bytes[3], scale: bytes[4] }.sql_type()
}

impl StatisticsStream {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = START.to_vec();
        let columns = u32::try_from(self.types.len()).expect("statistics have few columns");
        bytes.extend_from_slice(&columns.to_le_bytes());
        self.types.iter().for_each(|sql_type| bytes.extend_from_slice(&type_bytes(*sql_type)));
        bytes.extend_from_slice(&self.unfiltered_rows.to_le_bytes());
        bytes.extend_from_slice(&self.updated.to_le_bytes());
        encode(&self.summary, &mut bytes);
        let sum = crc32c(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the content from bytes.
    ///
    /// # Errors
    /// They are truncated, changed, or something else.
    pub fn decode(bytes: &[u8]) -> Result<StatisticsStream, StreamDamage> {
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or(StreamDamage("it is cut short"))?;
        let rest = body.strip_prefix(&START).ok_or(StreamDamage("it does not begin as one of hobt does"))?;
        if crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(StreamDamage("it is cut short or changed"));
        }
        let short = StreamDamage("it is too short for its columns");
        let (columns, mut rest) = rest.split_first_chunk::<4>().ok_or(short)?;
        let columns = usize::try_from(u32::from_le_bytes(*columns)).map_err(|_| short)?;
        let mut types = Vec::new();
        for _ in 0..columns {
            let (bytes, behind) = rest.split_first_chunk::<TYPE_BYTES>().ok_or(short)?;
            types.push(type_of(bytes).ok_or(StreamDamage("a column's type is unknown"))?);
            rest = behind;
        }
        let (rows, rest) = rest.split_first_chunk::<8>().ok_or(short)?;
        let (updated, rest) = rest.split_first_chunk::<8>().ok_or(short)?;
        let summary = decode(rest).map_err(|_| StreamDamage("its histogram contradicts itself"))?;
        if types.is_empty() || summary.prefixes.len() != types.len() {
            return Err(StreamDamage("it is of another number of columns than it says"));
        }
        let unfiltered_rows = i64::from_le_bytes(*rows).max(0);
        Ok(StatisticsStream { types, unfiltered_rows, updated: i64::from_le_bytes(*updated), summary })
    }
}
