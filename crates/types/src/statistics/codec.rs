//! A summary as bytes.
//!
//! ```text
//! summary     version 02 │ prefixes u16 │ rows f64 │ sampled rows f64 │ the prefixes │ histogram │ CRC-32C of all u32
//! prefix      bytes │ counted rows │ counted distinct │ counted once │ seen distinct │ growth, each f64
//!             │ sketch
//! sketch      00 │ count u16 │ hashes u64, ascending                                exact
//!             01 │ registers, a byte each                                          16,384 bytes
//!             02 │ count u16 │ number of the register u16, register u8, ascending   where most are empty
//! histogram   steps u16 │ the steps
//! step        00: NULL │ key             │ range rows │ equal rows │ distinct range rows, each f64
//!             01       │ key │ value     │ likewise
//! key, value  length u32 │ bytes
//! ```
//! All numbers are little-endian. Bytes come from tables, but also from users' `STATS_STREAM`. Any bytes decode to a
//! summary or an error, and allocations are proportional to their length.

use std::fmt;

use hobt_base::crc32c;

use super::distinct::{EXACT_MAX, REGISTERS, is_register};
use super::histogram::ROWS_MAX;
use super::{DistinctSketch, Histogram, Prefix, Step, Summary};

const VERSION: u8 = 2;
const EXACT: u8 = 0;
const WHOLE: u8 = 1;
const LISTED: u8 = 2;
/// How many registers may be listed. Above the maximum, storing all registers takes less space. Below the minimum, a
/// sketch is exact and has no registers. The minimum also limits how much small input can grow: a list unfolds to at
/// most 22 times its size.
const LISTED_MIN: usize = 256;
const LISTED_MAX: usize = REGISTERS / 3;

/// Why bytes are not statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatisticsDamage {
    /// The bytes end too early.
    Short,
    /// There are bytes after the end.
    Trailing,
    /// The version or a form is unknown.
    Version,
    /// The checksum is wrong, so the bytes were changed.
    Checksum,
    /// A count is above its limit.
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
///
/// # Panics
/// When it has more than 65,535 columns.
pub fn encode(summary: &Summary, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(VERSION);
    push_count(summary.prefixes.len(), out);
    push_numbers(&[summary.rows, summary.sampled_rows], out);
    for prefix in &summary.prefixes {
        let Prefix { distinct, bytes, counted_rows, counted_distinct, counted_once, seen_distinct, growth } = prefix;
        push_numbers(&[*bytes, *counted_rows, *counted_distinct, *counted_once, *seen_distinct, *growth], out);
        push_sketch(distinct, out);
    }
    push_count(summary.histogram.steps().len(), out);
    for step in summary.histogram.steps() {
        out.push(u8::from(step.value.is_some()));
        push_bytes(&step.key, out);
        if let Some(value) = &step.value {
            push_bytes(value, out);
        }
        push_numbers(&[step.range_rows, step.equal_rows, step.distinct_range_rows], out);
    }
    let checksum = crc32c(&out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

fn push_count(count: usize, out: &mut Vec<u8>) {
    let count = u16::try_from(count).expect("steps, columns and listed registers are few");
    out.extend_from_slice(&count.to_le_bytes());
}

fn push_numbers(numbers: &[f64], out: &mut Vec<u8>) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).expect("keys and values of steps are cut");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn push_sketch(sketch: &DistinctSketch, out: &mut Vec<u8>) {
    let Some(registers) = sketch.registers() else {
        let hashes = sketch.exact().unwrap_or_default();
        out.push(EXACT);
        push_count(hashes.len(), out);
        hashes.iter().for_each(|hash| out.extend_from_slice(&hash.to_le_bytes()));
        return;
    };
    let filled = || (0_u16..).zip(registers).filter(|(_, register)| **register > 0);
    let count = filled().count();
    if (LISTED_MIN..=LISTED_MAX).contains(&count) {
        out.push(LISTED);
        push_count(count, out);
        for (number, register) in filled() {
            out.extend_from_slice(&number.to_le_bytes());
            out.push(*register);
        }
        return;
    }
    out.push(WHOLE);
    out.extend_from_slice(registers);
}

/// Decodes the summary in `bytes`.
///
/// # Errors
/// The bytes are not a summary.
pub fn decode(bytes: &[u8]) -> Result<Summary, StatisticsDamage> {
    let (content, checksum) = bytes.split_last_chunk::<4>().ok_or(StatisticsDamage::Short)?;
    if content.first().is_some_and(|version| *version != VERSION) {
        return Err(StatisticsDamage::Version);
    }
    if crc32c(content) != u32::from_le_bytes(*checksum) {
        return Err(StatisticsDamage::Checksum);
    }
    let mut reader = Reader(content);
    let [_version] = reader.chunk()?;
    let prefix_count = reader.count()?;
    let [rows, sampled_rows] = reader.numbers()?;
    let mut prefixes = Vec::new();
    for _ in 0..prefix_count {
        let [bytes, counted_rows, counted_distinct, counted_once, seen_distinct, growth] = reader.numbers()?;
        let distinct = reader.sketch()?;
        prefixes.push(Prefix { distinct, bytes, counted_rows, counted_distinct, counted_once, seen_distinct, growth });
    }
    let step_count = reader.count()?;
    let mut steps = Vec::new();
    for _ in 0..step_count {
        steps.push(reader.step()?);
    }
    if !reader.0.is_empty() {
        return Err(StatisticsDamage::Trailing);
    }
    Ok(Summary { rows, sampled_rows, prefixes, histogram: Histogram::new(steps)? })
}

/// The bytes still to be read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], StatisticsDamage> {
        let (taken, left) = self.0.split_at_checked(length).ok_or(StatisticsDamage::Short)?;
        self.0 = left;
        Ok(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], StatisticsDamage> {
        let (taken, left) = self.0.split_first_chunk().ok_or(StatisticsDamage::Short)?;
        self.0 = left;
        Ok(*taken)
    }

    fn count(&mut self) -> Result<usize, StatisticsDamage> {
        Ok(usize::from(u16::from_le_bytes(self.chunk()?)))
    }

    fn numbers<const N: usize>(&mut self) -> Result<[f64; N], StatisticsDamage> {
        let mut numbers = [0.0; N];
        for number in &mut numbers {
            *number = f64::from_le_bytes(self.chunk()?);
            if !(0.0..=ROWS_MAX).contains(number) {
                return Err(StatisticsDamage::Number);
            }
        }
        Ok(numbers)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, StatisticsDamage> {
        let length = u32::from_le_bytes(self.chunk()?);
        let length = usize::try_from(length).map_err(|_| StatisticsDamage::Short)?;
        Ok(self.take(length)?.to_vec())
    }

    fn step(&mut self) -> Result<Step, StatisticsDamage> {
        let [form] = self.chunk()?;
        let key = self.bytes()?;
        let value = match form {
            0 => None,
            1 => Some(self.bytes()?),
            _ => return Err(StatisticsDamage::Version),
        };
        let [range_rows, equal_rows, distinct_range_rows] = self.numbers()?;
        Ok(Step { key, value, range_rows, equal_rows, distinct_range_rows })
    }

    fn sketch(&mut self) -> Result<DistinctSketch, StatisticsDamage> {
        let [form] = self.chunk()?;
        match form {
            EXACT => self.exact_sketch(),
            WHOLE => self.whole_sketch(),
            LISTED => self.listed_sketch(),
            _ => Err(StatisticsDamage::Version),
        }
    }

    fn exact_sketch(&mut self) -> Result<DistinctSketch, StatisticsDamage> {
        let count = self.count()?;
        if count > EXACT_MAX {
            return Err(StatisticsDamage::Count);
        }
        let mut sketch = DistinctSketch::default();
        let mut before = 0;
        for _ in 0..count {
            let hash = u64::from_le_bytes(self.chunk()?);
            if hash <= before {
                return Err(StatisticsDamage::Order);
            }
            sketch.add(hash);
            before = hash;
        }
        Ok(sketch)
    }

    fn whole_sketch(&mut self) -> Result<DistinctSketch, StatisticsDamage> {
        let registers = Box::new(self.chunk::<REGISTERS>()?);
        if !registers.iter().copied().all(is_register) {
            return Err(StatisticsDamage::Number);
        }
        Ok(DistinctSketch::from_registers(registers))
    }

    fn listed_sketch(&mut self) -> Result<DistinctSketch, StatisticsDamage> {
        let count = self.count()?;
        if !(LISTED_MIN..=LISTED_MAX).contains(&count) {
            return Err(StatisticsDamage::Count);
        }
        let listed = self.take(count * 3)?;
        let mut registers = Box::new([0; REGISTERS]);
        let mut least = 0;
        for one in listed.chunks_exact(3) {
            let number = usize::from(u16::from_le_bytes([one[0], one[1]]));
            if number < least || number >= REGISTERS {
                return Err(StatisticsDamage::Order);
            }
            if one[2] == 0 || !is_register(one[2]) {
                return Err(StatisticsDamage::Number);
            }
            registers[number] = one[2];
            least = number + 1;
        }
        Ok(DistinctSketch::from_registers(registers))
    }
}

#[cfg(test)]
mod tests;
