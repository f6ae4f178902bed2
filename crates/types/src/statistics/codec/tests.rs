//! Summaries encoded and decoded, and bytes that are not summaries.

use std::sync::Arc;

use hobt_base::SplitMix64;

use super::*;
use crate::statistics::Gatherer;
use crate::{Collation, KeyColumn, MaxLength, SqlType};

/// Summaries of all shapes: none, few, many rows; sketches exact, listed and whole; NULLs, long strings.
fn summaries() -> Vec<Summary> {
    let types = [SqlType::VarChar(MaxLength::Limited(8000)), SqlType::Int];
    let columns: Arc<[KeyColumn]> = types
        .iter()
        .map(|sql_type| KeyColumn::new(*sql_type, Collation::Latin1GeneralCiAs, true, false).expect("a key's type"))
        .collect();
    let summary = |rows: i32| {
        let mut gatherer = Gatherer::new(columns.clone());
        for row in 0..rows {
            let text = if row % 500 == 3 { "long ".repeat(900) } else { format!("text {}", row % 2000) };
            let value = (row % 7 > 0).then_some(text.as_bytes());
            gatherer.add(&[value, Some(&row.to_le_bytes())]).expect("a row");
        }
        gatherer.finish()
    };
    let mut summaries: Vec<Summary> = [0, 1, 100, 513, 3_000, 40_000].into_iter().map(summary).collect();
    summaries.push(summaries[4].scaled_to(1e6));
    summaries.push(Summary::merged(&[&summaries[3], &summaries[5]]));
    summaries.push(Summary::default());
    summaries
}

fn encoded(summary: &Summary) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(summary, &mut bytes);
    bytes
}

/// Bytes with a right checksum, so that the checks after it are reached.
fn sealed(mut content: Vec<u8>) -> Vec<u8> {
    content.truncate(content.len() - 4);
    let checksum = crc32c(&content);
    content.extend_from_slice(&checksum.to_le_bytes());
    content
}

#[test]
fn what_is_encoded_is_decoded() {
    let mut forms = [false; 3];
    for summary in summaries() {
        let bytes = encoded(&summary);
        assert_eq!(decode(&bytes).as_ref(), Ok(&summary));
        assert_eq!(encoded(&decode(&bytes).expect("a summary")), bytes);
        for prefix in &summary.prefixes {
            let mut sketch = Vec::new();
            push_sketch(&prefix.distinct, &mut sketch);
            forms[usize::from(sketch[0])] = true;
        }
    }
    assert_eq!(forms, [true; 3], "each form of a sketch was tried");
}

#[test]
fn what_is_cut_short_or_goes_on_is_refused() {
    for summary in &summaries()[..5] {
        let bytes = encoded(summary);
        let step = bytes.len().div_ceil(800);
        for end in (0..bytes.len()).step_by(step) {
            assert!(decode(&bytes[..end]).is_err());
            if end < bytes.len() - 4 {
                let mut content = bytes[..end].to_vec();
                content.extend_from_slice(&[0; 4]);
                assert!(decode(&sealed(content)).is_err());
            }
        }
        let mut longer = bytes.clone();
        longer.insert(bytes.len() - 4, 0);
        assert_eq!(decode(&sealed(longer)), Err(StatisticsDamage::Trailing));
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    let bytes = encoded(&summaries()[2]);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(decode(&damaged).is_err(), "at {at}");
    }
}

/// Damage with a right checksum, as a user could write it, gives an error or a usable summary.
#[test]
fn damage_never_panics() {
    let valid: Vec<Vec<u8>> = summaries().iter().map(encoded).collect();
    let mut random = SplitMix64::new(11);
    let mut decoded = 0;
    for _ in 0..6_000 {
        let mut bytes = valid[random.below(valid.len() as u64) as usize].clone();
        for _ in 0..=random.below(4) {
            // Lengths and forms are at the beginning.
            let bound = if random.below(2) == 0 { bytes.len() } else { bytes.len().min(200) };
            let at = random.below(bound as u64) as usize;
            bytes[at] = [0, 1, 0xFF, random.next_u64() as u8][random.below(4) as usize];
        }
        if let Ok(summary) = decode(&sealed(bytes)) {
            decoded += 1;
            work_with(&summary);
        }
    }
    assert!(decoded > 100, "some damage is bearable, {decoded}");
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random.below(300)).map(|_| random.next_u64() as u8).collect();
        bytes.insert(0, VERSION);
        bytes.extend_from_slice(&[0; 4]);
        if let Ok(summary) = decode(&sealed(bytes)) {
            work_with(&summary);
        }
    }
}

fn work_with(summary: &Summary) {
    let whole = Summary::merged(&[summary, summary, &summary.scaled_to(1e7)]);
    let histogram = &summary.histogram;
    for step in whole.histogram.steps() {
        let bound = Some((step.key.as_slice(), true));
        assert!(histogram.rows_between(bound, None) >= 0.0);
        assert!(histogram.distinct_between(None, bound) >= 0.0);
        assert!(histogram.rows_equal(&step.key).is_none_or(|rows| rows >= 0.0));
    }
    assert!(histogram.subtract(&whole.histogram).rows() >= 0.0);
    let bytes = encoded(&whole);
    assert!(bytes.len() > 4);
}
