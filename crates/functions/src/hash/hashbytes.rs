//! `HASHBYTES`: MD2 to SHA-512 of SQL Server's bytes of text and binary, of any length.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder};
use hobt_base::SqlError;
use hobt_types::{MaxLength, SqlType};
use md5::Digest;

use crate::error::invalid_argument;
use crate::function::{ArgType, Call};
use crate::text::code_page;

/// `varbinary(8000)`; 8116 for an argument that is neither text nor binary.
pub(super) fn result_type(args: &[ArgType]) -> Result<SqlType, SqlError> {
    match args.get(1) {
        Some(arg) if !(arg.sql_type.is_text() || arg.sql_type.is_binary() || arg.is_null_literal()) => {
            Err(invalid_argument(arg.sql_type, 2, "hashbytes"))
        }
        _ => Ok(SqlType::VarBinary(MaxLength::Limited(8000))),
    }
}

type Hash = fn(&[u8], &mut BinaryViewBuilder);

/// The hash function with a name, ignoring case; `None` for an unknown one, whose result is NULL.
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

/// The hash of each value by the named algorithm.
pub(super) fn hashbytes(call: &Call<'_>) -> Result<ArrayRef, SqlError> {
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
