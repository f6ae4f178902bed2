//! The compared functions, as T-SQL expressions over a key.

/// The type of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyType {
    Int,
    Text,
}

/// A function of a key.
pub(super) struct Function {
    pub(super) name: &'static str,
    /// The expression over a key of a type. `None` if there is none.
    hash: fn(&str, KeyType) -> Option<String>,
    /// That expression as an `int` with any value of its range. `None` if the function is not a hash, or equals another
    /// one.
    spread: Option<fn(String) -> String>,
    /// Whether it claims to spread all keys evenly.
    pub(super) claims: bool,
    /// The text's result for it.
    pub(super) text: Option<&'static str>,
}

impl Function {
    const fn new(name: &'static str, hash: fn(&str, KeyType) -> Option<String>) -> Function {
        Function { name, hash, spread: Some(|hash| hash), claims: false, text: None }
    }

    const fn even(self) -> Function {
        Function { claims: true, ..self }
    }

    const fn spread_by(self, spread: Option<fn(String) -> String>) -> Function {
        Function { spread, ..self }
    }

    const fn text(self, text: &'static str) -> Function {
        Function { text: Some(text), ..self }
    }

    /// The expression that is timed. Its remainder chooses a partition.
    pub(super) fn timed(&self, key: &str, of: KeyType) -> Option<String> {
        (self.hash)(key, of)
    }

    /// The `int` whose spread is measured.
    pub(super) fn spread(&self, key: &str, of: KeyType) -> Option<String> {
        let spread = self.spread?;
        Some(spread((self.hash)(key, of)?))
    }
}

/// The text's cast, for keys that are not text.
fn national(key: &str, of: KeyType) -> String {
    match of {
        KeyType::Int => format!("CAST({key} AS nvarchar(10))"),
        KeyType::Text => key.to_owned(),
    }
}

/// A function of the cast key. `None` if the cast makes no difference.
fn of_cast(key: &str, of: KeyType, function: &str) -> Option<String> {
    (of == KeyType::Int).then(|| format!("{function}({})", national(key, of)))
}

/// As in the text: the remainder of the hash's last four bytes by the greatest `int`.
fn hash_bytes(algorithm: &str, key: &str, of: KeyType) -> Option<String> {
    Some(format!("HASHBYTES('{algorithm}', {}) % 2147483647", national(key, of)))
}

fn call(function: &str, key: &str) -> Option<String> {
    Some(format!("{function}({key})"))
}

/// The remainder with which the text "games the test": even over all ranges, with one value in each.
fn modulo(key: &str, of: KeyType) -> Option<String> {
    (of == KeyType::Int).then(|| format!("{key} % 65536"))
}

/// Maps 16 bits to `int`, so that each value is a range of its own.
fn high_half(hash: String) -> String {
    format!("({hash} - 32768) * 65536")
}

/// The low 32 of 64 bits.
fn low_half(hash: String) -> String {
    format!("CAST(CAST({hash} AS binary(8)) AS int)")
}

/// All functions: first those without cost, then the text's in its order, then hobt's own. CRC-16 and CRC-32C claim
/// nothing: a CRC is linear, and regular keys that do not suit its polynomial are spread unevenly.
pub(super) static FUNCTIONS: [Function; 22] = [
    Function::new("no_hash", |key, _| call("hobt_no_hash", key)).spread_by(None).text("nearly what a CRC costs"),
    Function::new("no_hash_of_cast", |key, of| of_cast(key, of, "hobt_no_hash"))
        .spread_by(None)
        .text("the cast is not what HASHBYTES costs"),
    Function::new("modulo", modulo).spread_by(Some(high_half)).text("as CHECKSUM; chi-square 824"),
    Function::new("checksum", |key, _| call("CHECKSUM", key)).text("a tenth of HASHBYTES; does not fill the ranges"),
    Function::new("binary_checksum", |key, _| call("BINARY_CHECKSUM", key)).text("as CHECKSUM"),
    Function::new("checksum_of_cast", |key, of| of_cast(key, of, "CHECKSUM"))
        .text("about 100 ns; better spread, not good"),
    Function::new("binary_checksum_of_cast", |key, of| of_cast(key, of, "BINARY_CHECKSUM")).text("about 100 ns"),
    Function::new("md2", |key, of| hash_bytes("MD2", key, of)).even().text("very inefficient"),
    Function::new("md4", |key, of| hash_bytes("MD4", key, of)).even().text("about 1,000 ns; no nice spread"),
    Function::new("md5", |key, of| hash_bytes("MD5", key, of)).even().text("about 1,000 ns; no nice spread"),
    Function::new("sha", |key, of| hash_bytes("SHA", key, of)).even().text("about 1,000 ns; best spread"),
    Function::new("sha1", |key, of| hash_bytes("SHA1", key, of)).even().text("about 1,000 ns; best spread"),
    Function::new("sha2_256", |key, of| hash_bytes("SHA2_256", key, of)).even(),
    Function::new("sha2_512", |key, of| hash_bytes("SHA2_512", key, of)).even(),
    Function::new("crc16", |key, _| call("hobt_crc16", key)).spread_by(Some(high_half)).text("below HASHBYTES"),
    Function::new("crc16_bitwise", |key, _| call("hobt_crc16_bitwise", key)).spread_by(None).text("above the table's"),
    Function::new("crc32", |key, _| call("hobt_crc32", key)).even().text("below HASHBYTES; excellent spread"),
    Function::new("crc32_bitwise", |key, _| call("hobt_crc32_bitwise", key)).spread_by(None).text("above the table's"),
    Function::new("crc32c", |key, _| call("hobt_crc32c", key)),
    Function::new("murmur2", |key, _| call("hobt_murmur2", key)).even().text("under half of SHA; very good spread"),
    Function::new("murmur3", |key, _| call("hobt_murmur3", key)).even().text("under half of SHA; very good spread"),
    Function::new("xxhash3", |key, _| call("hobt_xxhash3", key)).even().spread_by(Some(low_half)),
];
