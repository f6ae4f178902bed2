//! `CHECKSUM` and `BINARY_CHECKSUM`.
//!
//! Both rotate by four bits and combine by exclusive or, over the arguments, and over the bytes of text and binary.
//! NULL is 2³¹ − 1, an integer its value, an 8-byte value its halves, a guid its bytes.
//!
//! `BINARY_CHECKSUM` of text uses SQL Server's bytes of it. `CHECKSUM` uses weights, so that equal texts have equal
//! checksums: SQL Server's weights for `char` and `varchar` under the default collation ([`SIGN_FIRST`] and below), the
//! bytes under a binary collation, and the collation's own sort key otherwise (those results are hobt's own).
//!
//! The weights are derived from SQL Server's results for all pairs of characters, published in the repository
//! neilodonuts/tsql-checksum-javascript. They differ where hobt's `=` is wider: `ß` equals `ss`, `æ` equals `ae`, and
//! `š`, `œ` and `ž` have the weights of their capitals.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{Int32Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::{Collation, SqlType, Value};

use crate::carrier::{array_value, guid_from_sort_order};
use crate::column::Column;
use crate::function::{Argument, Call};
use crate::text::code_page;

/// The value for NULL.
const OF_NULL: u32 = 0x7FFF_FFFF;

/// The weight of `:`, the first sign after the digits. The weight of an earlier sign is its own number.
const SIGN_FIRST: u16 = 48;
const DIGIT_FIRST: u16 = 132;
const LETTER_FIRST: u16 = 142;

/// The weight of each byte of code page 1252. The accent is stored above the eight bits of the letter.
static WEIGHTS: [u16; 256] = weights();

const fn weights() -> [u16; 256] {
    /// À to ß: the letters, and below the accents; 0 for a character that is not an accented letter.
    const ACCENTED: &[u8; 32] = b"AAAAAA\0CEEEEIIII\0NOOOOO\0OUUUUY\0\0";
    const ACCENTS: [u16; 32] =
        [2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 0, 1, 1, 2, 3, 4, 5, 0, 6, 1, 2, 3, 4, 1, 0, 0];
    let mut table = [0; 256];
    let mut sign = SIGN_FIRST;
    let mut byte = 0;
    while byte < 256 {
        let character = byte as u8;
        table[byte] = match character {
            0..=47 => character as u16,
            b'0'..=b'9' => DIGIT_FIRST + (character - b'0') as u16,
            b'A'..=b'Z' => LETTER_FIRST + (character - b'A') as u16,
            b'a'..=b'z' => LETTER_FIRST + (character - b'a') as u16,
            0xD0 | 0xF0 => LETTER_FIRST + 26,
            0xDE | 0xFE => LETTER_FIRST + 27,
            // ÿ, at the position of ß among the capitals.
            0xFF => (LETTER_FIRST + 24) | (2 << 8),
            _ if character >= 0xC0 && ACCENTED[(character & 0x1F) as usize] != 0 => {
                let at = (character & 0x1F) as usize;
                (LETTER_FIRST + (ACCENTED[at] - b'A') as u16) | (ACCENTS[at] << 8)
            }
            _ => {
                sign += 1;
                sign - 1
            }
        };
        // These are two letters each, and have no weight of their own.
        if matches!(character, 0xC6 | 0xDF | 0xE6) {
            sign -= 1;
        }
        byte += 1;
    }
    assert!(sign == DIGIT_FIRST, "signs run up to the digits");
    // The capitals of š, œ and ž, which are equal to them here.
    table[0x9A] = table[0x8A];
    table[0x9C] = table[0x8C];
    table[0x9E] = table[0x8E];
    table
}

/// One step: rotate by four, then exclusive or.
fn fold(sum: u32, next: u32) -> u32 {
    sum.rotate_left(4) ^ next
}

/// Folds bytes. Eight of them rotate the sum once around, so their contribution does not depend on the sum before them.
fn fold_bytes(bytes: &[u8]) -> u32 {
    let (chunks, rest) = bytes.as_chunks::<8>();
    let each = |bytes: &[u8], sum| bytes.iter().fold(sum, |sum, byte| fold(sum, u32::from(*byte)));
    each(rest, chunks.iter().fold(0, |sum, chunk| sum ^ each(chunk, 0)))
}

/// Folds the weights of bytes of code page 1252.
fn fold_weights(bytes: &[u8]) -> u32 {
    let weight = |byte: u8| u32::from(WEIGHTS[usize::from(byte)]);
    bytes.iter().fold(0, |sum, &byte| match byte {
        0xC6 | 0xE6 => fold(fold(sum, weight(b'a')), weight(b'e')),
        0xDF => fold(fold(sum, weight(b's')), weight(b's')),
        _ => fold(sum, weight(byte)),
    })
}

fn halves(value: i64) -> u32 {
    // Truncating casts that select the two halves.
    (value as u32) ^ if value < 0 && value >= i64::from(i32::MIN) { 0 } else { (value >> 32) as u32 }
}

/// The checksum of a text. `bytes` is a buffer that is reused between calls.
fn of_text(text: &str, sql_type: SqlType, binary: bool, collation: Collation, bytes: &mut Vec<u8>) -> u32 {
    bytes.clear();
    let by_bytes = binary || collation == Collation::Latin1GeneralBin2;
    let by_weights = collation == Collation::Latin1GeneralCiAs && !sql_type.is_national();
    if by_bytes || by_weights {
        code_page::encode(text.trim_end_matches(' '), sql_type, bytes);
    } else {
        collation.sort_key(text, bytes);
    }
    if by_bytes || !by_weights { fold_bytes(bytes) } else { fold_weights(bytes) }
}

fn of_value(value: &Value, sql_type: SqlType, binary: bool, collation: Collation) -> u32 {
    match value {
        Value::Null => OF_NULL,
        Value::Int(value) => halves(*value),
        Value::Decimal(value) => halves(*value as i64) ^ halves((*value >> 64) as i64),
        Value::Float(value) => halves(value.to_bits() as i64),
        Value::Text(text) => of_text(text, sql_type, binary, collation, &mut Vec::new()),
        Value::Binary(bytes) => fold_bytes(bytes),
        Value::Guid(sorted) => fold_bytes(&guid_from_sort_order(*sorted)),
    }
}

fn of_argument(arg: &Argument, call: &Call<'_>, binary: bool) -> Result<Vec<u32>, SqlError> {
    let array = arg.column.array();
    // The common cases, without creating a value for each row.
    if let Some(integers) = array.as_primitive_opt::<Int32Type>() {
        return Ok(match array.nulls() {
            None => integers.values().iter().map(|value| value.cast_unsigned()).collect(),
            Some(_) => integers.iter().map(|value| value.map_or(OF_NULL, i32::cast_unsigned)).collect(),
        });
    }
    if let Some(integers) = array.as_primitive_opt::<Int64Type>() {
        return Ok(integers.iter().map(|value| value.map_or(OF_NULL, halves)).collect());
    }
    if let Some(texts) = array.as_string_view_opt() {
        let mut bytes = Vec::new();
        let mut one = |text| of_text(text, arg.sql_type, binary, call.collation, &mut bytes);
        return Ok(texts.iter().map(|text| text.map_or(OF_NULL, &mut one)).collect());
    }
    (0..array.len())
        .map(|row| Ok(of_value(&array_value(array, row, arg.sql_type)?, arg.sql_type, binary, call.collation)))
        .collect()
}

/// `CHECKSUM`, or `BINARY_CHECKSUM` if `binary`.
pub(super) fn checksum(call: &Call<'_>, binary: bool) -> Result<ArrayRef, SqlError> {
    let mut sums: Option<Vec<u32>> = None;
    for arg in call.args {
        let own = of_argument(arg, call, binary)?;
        sums = Some(match (sums, &arg.column) {
            (None, Column::Array(_)) => own,
            (None, Column::Scalar(_)) => vec![own[0]; call.rows],
            (Some(mut sums), column) => {
                sums.iter_mut().enumerate().for_each(|(row, sum)| *sum = fold(*sum, own[column.row(row)]));
                sums
            }
        });
    }
    Ok(Arc::new(Int32Array::from_iter_values(sums.unwrap_or_default().into_iter().map(u32::cast_signed))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varchar(text: &str) -> i32 {
        let sql_type = SqlType::VarChar(hobt_types::MaxLength::Max);
        of_text(text, sql_type, false, Collation::default(), &mut Vec::new()).cast_signed()
    }

    #[test]
    fn weights_are_those_that_sql_server_answers_with() {
        // From the published results of SQL Server, which differ for Æ, ß, š, œ and ž.
        let known = [
            ("\u{1}", 1),
            ("!", 33),
            ("/", 47),
            ("0", 132),
            ("9", 141),
            (":", 48),
            ("@", 54),
            ("A", 142),
            ("z", 167),
            ("[", 55),
            ("`", 60),
            ("{", 61),
            ("\u{7F}", 65),
            ("€", 66),
            ("Š", 76),
            ("Ÿ", 97),
            ("\u{A0}", 98),
            ("¿", 129),
            ("À", 654),
            ("á", 910),
            ("Å", 1934),
            ("ç", 400),
            ("Ë", 1426),
            ("Ì", 406),
            ("ï", 1174),
            ("Ð", 168),
            ("ñ", 411),
            ("Ò", 412),
            ("Ö", 1436),
            ("×", 130),
            ("ø", 1692),
            ("Ù", 418),
            ("ü", 1186),
            ("Ý", 422),
            ("þ", 169),
            ("÷", 131),
            ("ÿ", 678),
            ("A0", 2148),
            (" A", 654),
            ("A\u{1}", 2273),
        ];
        for (text, checksum) in known {
            assert_eq!(varchar(text), checksum, "{text:?}");
        }
    }

    #[test]
    fn equal_texts_have_equal_checksums() {
        let key = |text: &str| {
            let mut key = Vec::new();
            Collation::default().sort_key(text, &mut key);
            key
        };
        let characters: Vec<String> = (1..=255u8).map(|byte| code_page::decode_byte(byte).to_string()).collect();
        let texts = || characters.iter().cloned().chain(["ss", "SS", "ae", "AE", "a ", " "].map(str::to_owned));
        let all: Vec<(Vec<u8>, i32, String)> = texts().map(|text| (key(&text), varchar(&text), text)).collect();
        for (key, checksum, text) in &all {
            for (other_key, other_checksum, other) in &all {
                assert!(key != other_key || checksum == other_checksum, "{text:?} = {other:?}");
            }
        }
    }
}
