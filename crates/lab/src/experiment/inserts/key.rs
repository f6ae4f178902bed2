//! The sources of a row's key.

/// The greatest number of rows that one connection numbers.
const NUMBERS: &str = "CAST(1000000000 AS bigint)";

/// A method to generate keys.
#[derive(Debug)]
pub(super) struct Key {
    /// Its name in cases.
    pub(super) name: &'static str,
    /// The column's type and the rest of its definition.
    pub(super) column: &'static str,
    /// The default that generates it in the server. `None` if the column or the client generates it.
    pub(super) default: Option<&'static str>,
    /// What the loop runs before the insert.
    pub(super) before: &'static str,
    /// The value in an insert that names its columns. `None` if the column is omitted.
    pub(super) value: Option<String>,
}

impl Key {
    /// Whether `DEFAULT VALUES` generates a key.
    pub(super) fn is_made_by_the_table(&self) -> bool {
        self.default.is_some() || self.value.is_none()
    }
}

/// The sequence whose values `bitreverse` reverses.
pub(super) const SEQUENCE: &str = "InsertsSequence";

/// The variables of [`reversed_bits`]: the factor that spreads the bits of a byte, and the mask for the product.
pub(super) const REVERSING: &str = "@spread bigint = 8623620610, @taken bigint = 1136090292240";

/// The 32 bits of `@v` in reverse, byte by byte. A byte is reversed by spreading its bits with a multiplication,
/// masking those in the right positions, and adding them up with a remainder.
fn reversed_bits() -> String {
    let byte = |divisor: u64| format!("((@v / {divisor} & 255) * @spread & @taken) % 1023");
    let bytes = [(1, 1 << 24), (1 << 8, 1 << 16), (1 << 16, 1 << 8), (1 << 24, 1_u64)];
    bytes.map(|(from, to)| format!("({}) * {to}", byte(from))).join(" + ")
}

/// All keys: traditional and scalable ones.
pub(super) fn keys() -> [Key; 7] {
    let numbered = |name, value: String| Key { name, column: "bigint", default: None, before: "", value: Some(value) };
    [
        Key {
            name: "newid",
            column: "uniqueidentifier",
            default: Some("NEWID()"),
            before: "",
            value: Some("NEWID()".to_owned()),
        },
        Key { name: "identity", column: "bigint IDENTITY(1,1)", default: None, before: "", value: None },
        Key {
            name: "newsequentialid",
            column: "uniqueidentifier",
            default: Some("NEWSEQUENTIALID()"),
            before: "",
            value: None,
        },
        numbered("session", format!("@@SPID * {NUMBERS} + @i")),
        numbered("appserver", format!("@server * {NUMBERS} + @i")),
        numbered(
            "hash",
            format!("CAST(SUBSTRING(HASHBYTES('SHA1', CAST(@server * {NUMBERS} + @i AS binary(8))), 1, 8) AS bigint)"),
        ),
        Key { before: "SET @v = NEXT VALUE FOR dbo.InsertsSequence;", ..numbered("bitreverse", reversed_bits()) },
    ]
}
