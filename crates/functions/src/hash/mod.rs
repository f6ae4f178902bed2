//! Hash functions: SQL Server's `CHECKSUM`, `BINARY_CHECKSUM` and `HASHBYTES`, and fast `hobt_` functions that
//! distribute well; `NEWID` and `NEWSEQUENTIALID`.

mod checksum;
mod column;
mod crc;
mod hashbytes;
mod murmur;
mod sequential;
mod xxhash;

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryBuilder};
use arrow::datatypes::Int32Type;
use hobt_base::SqlError;
use hobt_types::{SqlType, Value};

use crate::carrier::guid_to_sort_order;
use crate::error::from_arrow;
use crate::function::{Call, FunctionDef, Volatility};
use column::{Algorithm, hash_column};

pub(crate) static FUNCTIONS: &[FunctionDef] = &[
    FunctionDef::new("CHECKSUM", (1, usize::MAX), |_| Ok(SqlType::Int), |call| checksum::checksum(call, false)),
    FunctionDef::new("BINARY_CHECKSUM", (1, usize::MAX), |_| Ok(SqlType::Int), |call| checksum::checksum(call, true)),
    FunctionDef::new("HASHBYTES", (2, 2), hashbytes::result_type, hashbytes::hashbytes),
    FunctionDef::new("HOBT_CRC16", (1, 1), |_| Ok(SqlType::Int), |call| hash_column(call, &crc::CRC16_TABLE)),
    FunctionDef::new("HOBT_CRC16_BITWISE", (1, 1), |_| Ok(SqlType::Int), |call| hash_column(call, &crc::CRC16_BITWISE)),
    FunctionDef::new("HOBT_CRC32", (1, 1), |_| Ok(SqlType::Int), |call| hash_column(call, &crc::CRC32_TABLE)),
    FunctionDef::new("HOBT_CRC32_BITWISE", (1, 1), |_| Ok(SqlType::Int), |call| hash_column(call, &crc::CRC32_BITWISE)),
    FunctionDef::new("HOBT_CRC32C", (1, 1), |_| Ok(SqlType::Int), |call| hash_column(call, &crc::CRC32C_TABLE)),
    FunctionDef::new("HOBT_MURMUR2", (1, 2), |_| Ok(SqlType::Int), |call| hash_column(call, &murmur::MURMUR2)),
    FunctionDef::new("HOBT_MURMUR3", (1, 2), |_| Ok(SqlType::Int), |call| hash_column(call, &murmur::MURMUR3)),
    FunctionDef::new("HOBT_XXHASH3", (1, 2), |_| Ok(SqlType::BigInt), |call| hash_column(call, &xxhash::XXHASH3)),
    FunctionDef::new("HOBT_NO_HASH", (1, 1), |_| Ok(SqlType::Int), |call| hash_column(call, &NO_HASH)),
    FunctionDef::new("NEWID", (0, 0), |_| Ok(SqlType::UniqueIdentifier), newid)
        .with_volatility(Volatility::Volatile)
        .with_one(|_| Value::Guid(random_guid(&mut rand::rng()))),
    FunctionDef::new("NEWSEQUENTIALID", (0, 0), |_| Ok(SqlType::UniqueIdentifier), sequential::newsequentialid)
        .with_volatility(Volatility::Volatile)
        .with_one(|_| Value::Guid(sequential::next())),
];

/// The text's "hash function" that returns 0: what calling one costs.
static NO_HASH: Algorithm<Int32Type> = Algorithm {
    bytes: |_, _| 0,
    ints: |_, values, _| vec![0; values.len()],
    bigints: |_, values, _| vec![0; values.len()],
};

/// A random guid of version 4, in the carrier's sort order.
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
