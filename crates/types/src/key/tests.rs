//! Keys against the order of the values that they were made from.

use std::cmp::Ordering;

use hobt_base::SplitMix64;

use super::*;

const TYPES: [SqlType; 27] = [
    SqlType::Bit,
    SqlType::TinyInt,
    SqlType::SmallInt,
    SqlType::Int,
    SqlType::BigInt,
    SqlType::Decimal { precision: 5, scale: 2 },
    SqlType::Decimal { precision: 15, scale: 0 },
    SqlType::Decimal { precision: 38, scale: 10 },
    SqlType::SmallMoney,
    SqlType::Money,
    SqlType::Real,
    SqlType::Float,
    SqlType::Date,
    SqlType::Time { scale: 7 },
    SqlType::SmallDateTime,
    SqlType::DateTime,
    SqlType::DateTime2 { scale: 3 },
    SqlType::Char(4),
    SqlType::VarChar(MaxLength::Limited(9)),
    SqlType::NChar(4),
    SqlType::NVarChar(MaxLength::Limited(9)),
    SqlType::VarChar(MaxLength::Limited(8000)),
    SqlType::NVarChar(MaxLength::Limited(4000)),
    SqlType::Binary(3),
    SqlType::VarBinary(MaxLength::Limited(5)),
    SqlType::VarBinary(MaxLength::Limited(8000)),
    SqlType::UniqueIdentifier,
];

fn columns(random: &mut SplitMix64, count: usize) -> Vec<KeyColumn> {
    let collations = [Collation::Latin1GeneralCiAs, Collation::Latin1GeneralCsAs, Collation::Latin1GeneralBin2];
    (0..count)
        .map(|_| {
            let sql_type = TYPES[random.below(TYPES.len() as u64) as usize];
            let collation = collations[random.below(3) as usize];
            KeyColumn::new(sql_type, collation, random.below(2) == 0, random.below(2) == 0).expect("a key's type")
        })
        .collect()
}

/// A value as a page holds it, from few different ones, so that equal ones occur.
fn value(random: &mut SplitMix64, column: &KeyColumn) -> Option<Vec<u8>> {
    if column.nullable && random.below(4) == 0 {
        return None;
    }
    let pick = |random: &mut SplitMix64, from: &[i128]| from[random.below(from.len() as u64) as usize];
    Some(match column.sql_type {
        sql_type if sql_type.is_text() => {
            let characters = ['a', 'A', 'b', 'ß', 'é', 'e', ' ', '\0', '\u{1}', '\t', '中', 'Ω', 'ω', '\u{10000}'];
            let mut text = String::new();
            for _ in 0..random.below(5) {
                text.push(characters[random.below(characters.len() as u64) as usize]);
            }
            text.into_bytes()
        }
        sql_type if sql_type.is_binary() => {
            (0..random.below(5)).map(|_| [0, 1, 2, 0xFE, 0xFF][random.below(5) as usize]).collect()
        }
        SqlType::Real => {
            let numbers = [0.0, -0.0, 1.0, -1.0, f32::MIN, f32::MAX, f32::MIN_POSITIVE, -1e-45, f32::INFINITY];
            let number = if random.below(2) == 0 {
                numbers[random.below(numbers.len() as u64) as usize]
            } else {
                f32::from_bits(random.next_u64() as u32)
            };
            (if number.is_nan() { 0.5 } else { number }).to_le_bytes().to_vec()
        }
        SqlType::Float => {
            let numbers = [0.0, -0.0, 1.0, -1.0, f64::MIN, f64::MAX, f64::MIN_POSITIVE, -5e-324, f64::NEG_INFINITY];
            let number = if random.below(2) == 0 {
                numbers[random.below(numbers.len() as u64) as usize]
            } else {
                f64::from_bits(random.next_u64())
            };
            (if number.is_nan() { 0.5 } else { number }).to_le_bytes().to_vec()
        }
        sql_type => {
            let width = sql_type.physical().width().expect("of fixed length");
            let wide = (i128::from(random.next_u64()) << 64) | i128::from(random.next_u64());
            let number = match random.below(3) {
                0 => pick(random, &[0, 1, -1, 255, 256, -256, 65_535, i128::MAX, i128::MIN]),
                1 => random.below(5) as i128 - 2,
                _ => wide,
            };
            number.to_le_bytes()[..width].to_vec()
        }
    })
}

/// The order of two values in SQL, from their meaning.
fn compare(column: &KeyColumn, left: Option<&[u8]>, right: Option<&[u8]>) -> Ordering {
    let order = match (left, right) {
        (None, _) | (_, None) => left.is_some().cmp(&right.is_some()),
        (Some(left), Some(right)) => match column.sql_type {
            SqlType::Bit | SqlType::TinyInt | SqlType::UniqueIdentifier => left.cmp(right),
            SqlType::Real => {
                let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().unwrap());
                number(left).partial_cmp(&number(right)).expect("no NaN")
            }
            SqlType::Float => {
                let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
                number(left).partial_cmp(&number(right)).expect("no NaN")
            }
            sql_type if sql_type.is_text() => {
                let text = |bytes| std::str::from_utf8(bytes).unwrap();
                column.collation.compare(text(left), text(right))
            }
            sql_type if sql_type.is_binary() => {
                let padded = |bytes: &[u8]| [bytes, &[0; 8][..]].concat()[..8].to_vec();
                padded(left).cmp(&padded(right))
            }
            _ => {
                let number = |bytes: &[u8]| {
                    let sign = if bytes[bytes.len() - 1] & 0x80 == 0 { 0 } else { 0xFF };
                    let mut wide = [sign; 16];
                    wide[..bytes.len()].copy_from_slice(bytes);
                    i128::from_le_bytes(wide)
                };
                number(left).cmp(&number(right))
            }
        },
    };
    if column.descending { order.reverse() } else { order }
}

fn key(columns: &[KeyColumn], values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut key = Vec::new();
    for (column, value) in columns.iter().zip(values) {
        column.encode(value.as_deref(), &mut key).expect("a value of the column");
    }
    key
}

#[test]
fn keys_compare_as_their_values_do() {
    let mut random = SplitMix64::new(31);
    let mut equal = 0;
    for round in 0..6000 {
        let columns = columns(&mut random, 1 + round % 3);
        let rows: Vec<Vec<Option<Vec<u8>>>> =
            (0..12).map(|_| columns.iter().map(|column| value(&mut random, column)).collect()).collect();
        let keys: Vec<Vec<u8>> = rows.iter().map(|row| key(&columns, row)).collect();
        for (left, left_key) in rows.iter().zip(&keys) {
            for (right, right_key) in rows.iter().zip(&keys) {
                let order = columns
                    .iter()
                    .zip(left.iter().zip(right))
                    .map(|(column, (left, right))| compare(column, left.as_deref(), right.as_deref()))
                    .find(|order| order.is_ne())
                    .unwrap_or(Ordering::Equal);
                assert_eq!(left_key.cmp(right_key), order, "{columns:?}: {left:?} and {right:?}");
                equal += usize::from(order.is_eq() && left != right);
                // No key is a prefix of another, unless they are equal.
                assert!(!right_key.starts_with(left_key) || order.is_eq());
                let separator = shortest_separator(left_key, right_key);
                assert_eq!(separator.is_some(), order.is_lt());
                if let Some(separator) = separator {
                    assert!(left_key.as_slice() < separator && separator <= right_key.as_slice());
                    let shorter = &separator[..separator.len() - 1];
                    assert!(left_key.as_slice() >= shorter, "a shorter one divides them too");
                }
            }
        }
    }
    assert!(equal > 1000, "{equal} pairs of equal values that differ");
}

#[test]
fn a_value_is_compared_with_a_key_as_its_key_is() {
    let mut random = SplitMix64::new(11);
    let mut compared = 0;
    for round in 0..20_000 {
        let column = columns(&mut random, 1).remove(0);
        let (one, other) = (value(&mut random, &column), value(&mut random, &column));
        let (left, right) = (key(&[column], std::slice::from_ref(&one)), key(&[column], &[other]));
        if let Some(order) = column.compare(one.as_deref(), &right) {
            assert_eq!(order, left.cmp(&right), "{column:?}, round {round}");
            // A prefix of a key is below it.
            assert_eq!(column.compare(one.as_deref(), &left[..left.len() - 1]), Some(Ordering::Greater));
            compared += 1;
        }
    }
    assert!(compared > 1_000, "only {compared}");
}

#[test]
fn every_type_is_a_key_but_those_without_a_limit() {
    for sql_type in TYPES {
        assert!(KeyColumn::new(sql_type, Collation::default(), true, false).is_some(), "{sql_type}");
    }
    let max = MaxLength::Max;
    for sql_type in [SqlType::VarChar(max), SqlType::NVarChar(max), SqlType::VarBinary(max)] {
        assert!(KeyColumn::new(sql_type, Collation::default(), true, false).is_none(), "{sql_type}");
    }
}

#[test]
fn what_is_no_value_leaves_the_key_as_it_was() {
    let column = |sql_type, nullable| KeyColumn::new(sql_type, Collation::default(), nullable, true).expect("a key");
    let mut key = vec![7];
    assert_eq!(column(SqlType::Int, false).encode(None, &mut key), Err(KeyError::Null));
    assert_eq!(column(SqlType::Int, true).encode(Some(&[1, 2, 3]), &mut key), Err(KeyError::Width));
    let text = column(SqlType::VarChar(MaxLength::Limited(9)), true);
    assert_eq!(text.encode(Some(&[b'a', 0xFF]), &mut key), Err(KeyError::Text));
    assert_eq!(key, [7]);
}

#[test]
fn the_bytes_are_those_that_indexes_hold() {
    let key = |sql_type, nullable, descending, bytes: &[u8]| {
        let mut key = Vec::new();
        let column = KeyColumn::new(sql_type, Collation::Latin1GeneralBin2, nullable, descending).expect("a key");
        column.encode(Some(bytes), &mut key).expect("a value");
        key
    };
    let varbinary = SqlType::VarBinary(MaxLength::Limited(9));
    assert_eq!(key(SqlType::Int, false, false, &1i32.to_le_bytes()), [0x80, 0, 0, 1]);
    assert_eq!(key(SqlType::Int, true, true, &(-1i32).to_le_bytes()), [0xFE, 0x80, 0, 0, 0]);
    assert_eq!(key(SqlType::VarChar(MaxLength::Limited(9)), true, false, b"ab  "), [1, b'a', b'b', 0]);
    assert_eq!(key(varbinary, false, false, &[0, 1, 2, 0]), [1, 1, 1, 2, 2, 0]);
    assert_eq!(key(varbinary, false, true, &[]), [0xFF]);
    assert_eq!(key(SqlType::Float, false, false, &(-0.0f64).to_le_bytes()), [0x80, 0, 0, 0, 0, 0, 0, 0]);
}
