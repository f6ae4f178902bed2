//! `CHECKSUM`, `BINARY_CHECKSUM`, `HASHBYTES`, `NEWID` and `NEWSEQUENTIALID`.
//!
//! The checksums rotate by four bits and combine by exclusive or: over the arguments, and over the bytes of text and
//! binary. `BINARY_CHECKSUM` of an `int` is the number itself, of `'abc'` 26435, of `(1, 2)` 18, as SQL Server gives
//! them. `CHECKSUM` of text goes over its sort key, so that equal texts have equal checksums; its numbers are hobt's
//! own. An 8-byte value combines its halves.

mod sequential;

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::array::{Array, ArrayRef, BinaryViewBuilder, FixedSizeBinaryBuilder, Int32Array, PrimitiveArray};
use arrow::datatypes::{Int32Type, Int64Type};
use hobt_base::SqlError;
use hobt_types::{Collation, MaxLength, SqlType, Value};
use md5::Digest;

use crate::carrier::{array_value, guid_from_sort_order, guid_to_sort_order};
use crate::error::{from_arrow, invalid_argument};
use crate::function::{ArgType, Argument, Call, FunctionDef, Volatility};
use crate::text::code_page;

pub(crate) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("CHECKSUM", (1, usize::MAX), |_| Ok(SqlType::Int), |call| checksum(call, false)),
    FunctionDef::new("BINARY_CHECKSUM", (1, usize::MAX), |_| Ok(SqlType::Int), |call| checksum(call, true)),
    FunctionDef::new("HASHBYTES", (2, 2), hashbytes_type, hashbytes),
    FunctionDef::new("NEWID", (0, 0), |_| Ok(SqlType::UniqueIdentifier), newid)
        .with_volatility(Volatility::Volatile)
        .with_one(|_| Value::Guid(random_guid(&mut rand::rng()))),
    FunctionDef::new("NEWSEQUENTIALID", (0, 0), |_| Ok(SqlType::UniqueIdentifier), sequential::newsequentialid)
        .with_volatility(Volatility::Volatile)
        .with_one(|_| Value::Guid(sequential::next())),
];

/// Folds bytes: rotate by four, then exclusive or.
fn fold_bytes(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0u32, |sum, byte| sum.rotate_left(4) ^ u32::from(*byte))
}

fn halves(value: i64) -> u32 {
    // Truncations that pick the two halves.
    (value as u32) ^ if value < 0 && value >= i64::from(i32::MIN) { 0 } else { (value >> 32) as u32 }
}

fn value_checksum(value: &Value, sql_type: SqlType, binary: bool, collation: Collation) -> u32 {
    match value {
        Value::Null => {
            if binary {
                0
            } else {
                0x7FFF_FFFF
            }
        }
        Value::Int(value) => halves(*value),
        Value::Decimal(value) => halves(*value as i64) ^ halves((*value >> 64) as i64),
        Value::Float(value) => halves(value.to_bits() as i64),
        Value::Text(text) if binary => {
            let mut bytes = Vec::with_capacity(2 * text.len());
            code_page::encode(text.trim_end_matches(' '), sql_type, &mut bytes);
            fold_bytes(&bytes)
        }
        Value::Text(text) => {
            let mut key = Vec::with_capacity(text.len());
            collation.sort_key(text, &mut key);
            fold_bytes(&key)
        }
        Value::Binary(bytes) => fold_bytes(bytes),
        Value::Guid(sorted) => fold_bytes(&guid_from_sort_order(*sorted)),
    }
}

fn argument_checksums(arg: &Argument, call: &Call<'_>, binary: bool) -> Result<Vec<u32>, SqlError> {
    let array = arg.column.array();
    let null = if binary { 0 } else { 0x7FFF_FFFF };
    // The common case, a key column, without a value of its own for each row.
    if let (Some(integers), None) = (array.as_primitive_opt::<Int32Type>(), array.nulls()) {
        return Ok(integers.values().iter().map(|value| *value as u32).collect());
    }
    if let Some(integers) = array.as_primitive_opt::<Int64Type>() {
        return Ok(integers.iter().map(|value| value.map_or(null, halves)).collect());
    }
    (0..array.len())
        .map(|row| Ok(value_checksum(&array_value(array, row, arg.sql_type)?, arg.sql_type, binary, call.collation)))
        .collect()
}

fn checksum(call: &Call<'_>, binary: bool) -> Result<ArrayRef, SqlError> {
    let mut sums = vec![0u32; call.rows];
    for arg in call.args {
        let own = argument_checksums(arg, call, binary)?;
        for (row, sum) in sums.iter_mut().enumerate() {
            *sum = sum.rotate_left(4) ^ own[arg.column.row(row)];
        }
    }
    // The bits as a signed number.
    let signed: PrimitiveArray<Int32Type> = Int32Array::from_iter_values(sums.into_iter().map(|sum| sum as i32));
    Ok(Arc::new(signed))
}

fn hashbytes_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    match args.get(1) {
        Some(arg) if !(arg.sql_type.is_text() || arg.sql_type.is_binary() || arg.is_null_literal()) => {
            Err(invalid_argument(arg.sql_type, 2, "hashbytes"))
        }
        _ => Ok(SqlType::VarBinary(MaxLength::Limited(8000))),
    }
}

type Hash = fn(&[u8], &mut BinaryViewBuilder);

/// The hash of a name in any case; `None` for an unknown one, whose result is NULL.
fn algorithm(name: &str) -> Option<Hash> {
    Some(match name.to_ascii_uppercase().as_str() {
        "MD2" => |bytes, out| out.append_value(md2::Md2::digest(bytes)),
        "MD4" => |bytes, out| out.append_value(md4::Md4::digest(bytes)),
        "MD5" => |bytes, out| out.append_value(md5::Md5::digest(bytes)),
        "SHA" | "SHA1" => |bytes, out| out.append_value(sha1::Sha1::digest(bytes)),
        "SHA2_256" => |bytes, out| out.append_value(sha2::Sha256::digest(bytes)),
        "SHA2_512" => |bytes, out| out.append_value(sha2::Sha512::digest(bytes)),
        _ => return None,
    })
}

fn hashbytes(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    let names = call.texts(0)?;
    let arg = call.arg(1)?;
    let array = arg.column.array();
    let mut builder = BinaryViewBuilder::with_capacity(call.rows);
    let mut known: Option<(String, Option<Hash>)> = None;
    let mut bytes = Vec::new();
    for row in 0..call.rows {
        let hash = match names.get(row) {
            Some(name) if known.as_ref().is_some_and(|(known, _)| known == name) => {
                known.as_ref().and_then(|(_, hash)| *hash)
            }
            Some(name) => known.insert((name.to_string(), algorithm(name))).1,
            None => None,
        };
        let at = arg.column.row(row);
        let Some(hash) = hash.filter(|_| array.is_valid(at)) else {
            builder.append_null();
            continue;
        };
        if let Some(texts) = array.as_string_view_opt() {
            bytes.clear();
            code_page::encode(texts.value(at), arg.sql_type, &mut bytes);
            hash(&bytes, &mut builder);
        } else if let Some(binary) = array.as_binary_view_opt() {
            hash(binary.value(at), &mut builder);
        } else {
            return Err(invalid_argument(arg.sql_type, 2, "hashbytes"));
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// A random guid of version 4, in the sort order that is the carrier's.
fn random_guid(random: &mut impl rand::RngCore) -> [u8; 16] {
    let mut stored = [0u8; 16];
    random.fill_bytes(&mut stored);
    // The version is the high half of the third group, which is stored little-endian.
    stored[7] = stored[7] & 0x0F | 0x40;
    stored[8] = stored[8] & 0x3F | 0x80;
    guid_to_sort_order(stored)
}

/// Random guids of version 4.
fn newid(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
    use rand::SeedableRng;
    let mut random = rand::rngs::StdRng::from_rng(&mut rand::rng());
    let mut builder = FixedSizeBinaryBuilder::with_capacity(call.rows, 16);
    for _ in 0..call.rows {
        builder.append_value(random_guid(&mut random)).map_err(from_arrow)?;
    }
    Ok(Arc::new(builder.finish()))
}
