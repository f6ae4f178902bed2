//! How a row's key comes to be.

/// The largest number of rows that one connection numbers.
const NUMBERS: &str = "CAST(1000000000 AS bigint)";

/// One way to make keys.
#[derive(Debug)]
pub(super) struct Key {
    /// As cases are called.
    pub(super) name: &'static str,
    /// The column's type and what else its definition says.
    pub(super) column: &'static str,
    /// The default by which it is made in the server; `None` where the column makes it, or the client does.
    pub(super) default: Option<&'static str>,
    /// What the loop does before the insert.
    pub(super) before: &'static str,
    /// What an insert that names its columns says; `None` if it leaves the column out.
    pub(super) value: Option<String>,
}

impl Key {
    /// Whether `DEFAULT VALUES` makes one.
    pub(super) fn is_made_by_the_table(&self) -> bool {
        self.default.is_some() || self.value.is_none()
    }
}

/// The sequence whose values `bitreverse` reverses.
pub(super) const SEQUENCE: &str = "InsertsSequence";

/// The variables of [`reversed_bits`]: what spreads the bits of a byte, and those to take of what comes of it.
pub(super) const REVERSING: &str = "@spread bigint = 8623620610, @taken bigint = 1136090292240";

/// The 32 bits of `@v` in reverse: byte by byte, each reversed by spreading its bits over a product, masking those that
/// stand in the order wanted, and adding them up by a remainder.
fn reversed_bits() -> String {
    let byte = |divisor: u64| format!("((@v / {divisor} & 255) * @spread & @taken) % 1023");
    let bytes = [(1, 1 << 24), (1 << 8, 1 << 16), (1 << 16, 1 << 8), (1 << 24, 1_u64)];
    bytes.map(|(from, to)| format!("({}) * {to}", byte(from))).join(" + ")
}

/// All keys, the traditional and the scalable ones.
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
