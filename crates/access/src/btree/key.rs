//! The key of a B+tree: which columns of its rows, in which order, and how each is encoded.
//!
//! ```text
//! in the log: columns u8 | for each: column u16 | type u8 | parameter u16 | flags u8 (1 NULL, 2 descending)
//!             | length u8 and name of the collation
//! ```
//! Uniqueness of the SQL key does not matter here: all keys of a tree differ. If SQL lets keys repeat, a hidden last
//! column makes them differ.

use std::cmp::Ordering;

use hobt_base::compare_bytes;
use hobt_page::{EncodingDamage, EncodingReader, PageBytes, PageDamage, RowImage, RowLayout, RowPage};
use hobt_types::{Collation, KeyColumn, KeyError, MaxLength, SqlType};

/// A column of a tree's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeKeyColumn {
    /// Its index among the columns of the tree's rows.
    pub column: usize,
    /// How it is encoded.
    pub key: KeyColumn,
}

/// The key of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeKey {
    columns: Vec<TreeKeyColumn>,
}

const NULLABLE: u8 = 1;
const DESCENDING: u8 = 2;

/// The numbers of types are stored in logs.
fn type_bytes(sql_type: SqlType) -> (u8, u16) {
    let length = |length| match length {
        MaxLength::Limited(length) => length,
        MaxLength::Max => unreachable!("no key has such a column"),
    };
    match sql_type {
        SqlType::Bit => (1, 0),
        SqlType::TinyInt => (2, 0),
        SqlType::SmallInt => (3, 0),
        SqlType::Int => (4, 0),
        SqlType::BigInt => (5, 0),
        SqlType::Decimal { precision, scale } => (6, u16::from_le_bytes([precision, scale])),
        SqlType::SmallMoney => (7, 0),
        SqlType::Money => (8, 0),
        SqlType::Real => (9, 0),
        SqlType::Float => (10, 0),
        SqlType::Date => (11, 0),
        SqlType::Time { scale } => (12, scale.into()),
        SqlType::SmallDateTime => (13, 0),
        SqlType::DateTime => (14, 0),
        SqlType::DateTime2 { scale } => (15, scale.into()),
        SqlType::Char(n) => (16, n),
        SqlType::VarChar(n) => (17, length(n)),
        SqlType::NChar(n) => (18, n),
        SqlType::NVarChar(n) => (19, length(n)),
        SqlType::Binary(n) => (20, n),
        SqlType::VarBinary(n) => (21, length(n)),
        SqlType::UniqueIdentifier => (22, 0),
    }
}

fn type_of_bytes(number: u8, parameter: u16) -> Option<SqlType> {
    let [low, high] = parameter.to_le_bytes();
    let decoded = match number {
        1 => SqlType::Bit,
        2 => SqlType::TinyInt,
        3 => SqlType::SmallInt,
        4 => SqlType::Int,
        5 => SqlType::BigInt,
        6 => SqlType::Decimal { precision: low, scale: high },
        7 => SqlType::SmallMoney,
        8 => SqlType::Money,
        9 => SqlType::Real,
        10 => SqlType::Float,
        11 => SqlType::Date,
        12 => SqlType::Time { scale: low },
        13 => SqlType::SmallDateTime,
        14 => SqlType::DateTime,
        15 => SqlType::DateTime2 { scale: low },
        16 => SqlType::Char(parameter),
        17 => SqlType::VarChar(MaxLength::Limited(parameter)),
        18 => SqlType::NChar(parameter),
        19 => SqlType::NVarChar(MaxLength::Limited(parameter)),
        20 => SqlType::Binary(parameter),
        21 => SqlType::VarBinary(MaxLength::Limited(parameter)),
        22 => SqlType::UniqueIdentifier,
        _ => return None,
    };
    // Each type has one encoding: what decodes is encoded to the same bytes.
    (type_bytes(decoded) == (number, parameter)).then_some(decoded)
}

impl TreeKey {
    /// A key of these columns, in order of significance.
    ///
    /// # Panics
    /// If there is none, or there are more than 255.
    pub fn new(columns: Vec<TreeKeyColumn>) -> TreeKey {
        assert!((1..=255).contains(&columns.len()), "1 to 255 key columns");
        TreeKey { columns }
    }

    /// Its columns, in order of significance.
    pub fn columns(&self) -> &[TreeKeyColumn] {
        &self.columns
    }

    /// Whether rows of this layout have these columns, with the physical form of their types, and with NULLs only where
    /// the key allows them.
    pub fn fits(&self, rows: &RowLayout) -> bool {
        self.columns.iter().all(|part| {
            rows.columns().get(part.column).is_some_and(|layout| {
                layout.physical == part.key.sql_type().physical() && (part.key.is_nullable() || !layout.nullable)
            })
        })
    }

    /// Appends to `out` the key of these values, which are those of the first columns.
    ///
    /// # Errors
    /// A value is not valid for its column.
    ///
    /// # Panics
    /// If there are more values than columns.
    pub fn encode_prefix(&self, values: &[Option<&[u8]>], out: &mut Vec<u8>) -> Result<(), KeyError> {
        assert!(values.len() <= self.columns.len(), "values of the key");
        self.columns.iter().zip(values).try_for_each(|(part, value)| part.key.encode(*value, out))
    }

    /// The key of a row outside a page.
    ///
    /// # Errors
    /// A value is not valid for its column.
    ///
    /// # Panics
    /// If the row is not one of the tree, or has a key column on pages of its own.
    pub fn of_row(&self, row: &RowImage) -> Result<Vec<u8>, KeyError> {
        let mut key = Vec::new();
        for part in &self.columns {
            assert!(!row.is_pointer(part.column), "key columns stay in their rows");
            part.key.encode(row.value(part.column), &mut key)?;
        }
        Ok(key)
    }

    /// Writes the key of a slot to `out`, replacing its content.
    ///
    /// # Errors
    /// The slot has a value that is not valid for a key column.
    pub fn of_slot(&self, page: &RowPage<'_>, slot: usize, out: &mut Vec<u8>) -> Result<(), PageDamage> {
        out.clear();
        for part in &self.columns {
            let value = page.value(part.column, slot)?;
            let encoded = part.key.encode(value, out);
            encoded.map_err(|_| PageDamage::Structure { rule: "the value of a key column" })?;
        }
        Ok(())
    }

    /// The row with `key` in the image of a leaf; `None` if it has none.
    ///
    /// # Errors
    /// The page is damaged.
    pub(crate) fn row_of(
        &self,
        leaf: &PageBytes,
        rows: &RowLayout,
        key: &[u8],
    ) -> Result<Option<RowImage>, PageDamage> {
        let page = RowPage::open(leaf, rows)?;
        let (mut from, mut to, mut scratch) = (0, page.row_count(), Vec::new());
        while from < to {
            let middle = from.midpoint(to);
            let slot = page.slot_at(middle)?;
            match self.compare_slot(&page, slot, key, &mut scratch)? {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return page.row_image(slot).map(Some),
            }
        }
        Ok(None)
    }

    /// Compares the key of a slot with `key`. `scratch` is a buffer.
    ///
    /// # Errors
    /// The slot has a value that is not valid for a key column.
    pub(super) fn compare_slot(
        &self,
        page: &RowPage<'_>,
        slot: usize,
        key: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<Ordering, PageDamage> {
        if let [part] = self.columns.as_slice()
            && let Some(order) = part.key.compare(page.value(part.column, slot)?, key)
        {
            return Ok(order);
        }
        self.of_slot(page, slot, scratch)?;
        Ok(compare_bytes(scratch, key))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::try_from(self.columns.len()).expect("at most 255"));
        for part in &self.columns {
            let column = u16::try_from(part.column).expect("at most 1024 columns");
            let (number, parameter) = type_bytes(part.key.sql_type());
            let nullable = if part.key.is_nullable() { NULLABLE } else { 0 };
            let descending = if part.key.is_descending() { DESCENDING } else { 0 };
            let collation = part.key.collation().to_string();
            out.extend_from_slice(&column.to_le_bytes());
            out.push(number);
            out.extend_from_slice(&parameter.to_le_bytes());
            out.push(nullable | descending);
            out.push(u8::try_from(collation.len()).expect("a short name"));
            out.extend_from_slice(collation.as_bytes());
        }
    }

    /// Decodes what [`TreeKey::encode`] wrote from the front of `from`; `None` for a count of 0, which a heap has.
    pub(crate) fn decode(from: &mut EncodingReader<'_>) -> Result<Option<TreeKey>, EncodingDamage> {
        let damage = |rule| EncodingDamage { rule };
        let mut columns = Vec::new();
        for _ in 0..from.u8()? {
            let column = usize::from(from.u16()?);
            let sql_type = type_of_bytes(from.u8()?, from.u16()?);
            let (flags, length) = (from.u8()?, from.u8()?);
            let name = std::str::from_utf8(from.bytes(length.into())?).map_err(|_| damage("the collation of a key"))?;
            let collation = Collation::from_name(name).filter(|found| found.to_string() == name);
            if flags & !(NULLABLE | DESCENDING) != 0 {
                return Err(damage("the flags of a key"));
            }
            let key = KeyColumn::new(
                sql_type.ok_or(damage("the type of a key"))?,
                collation.ok_or(damage("the collation of a key"))?,
                flags & NULLABLE != 0,
                flags & DESCENDING != 0,
            );
            columns.push(TreeKeyColumn { column, key: key.ok_or(damage("the type of a key"))? });
        }
        Ok((!columns.is_empty()).then(|| TreeKey::new(columns)))
    }
}

/// The smallest byte string above everything that begins with `prefix`; `None` if there is none.
pub(super) fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_decoded_from_its_bytes_and_nothing_else_is() {
        let types = [
            SqlType::Int,
            SqlType::Decimal { precision: 38, scale: 7 },
            SqlType::DateTime2 { scale: 3 },
            SqlType::VarChar(MaxLength::Limited(900)),
            SqlType::Binary(8000),
        ];
        let collations = [Collation::Latin1GeneralCiAs, Collation::Latin1GeneralCsAs, Collation::Latin1GeneralBin2];
        let columns = types.iter().enumerate().map(|(index, sql_type)| TreeKeyColumn {
            column: 300 * index,
            key: KeyColumn::new(*sql_type, collations[index % 3], index % 2 == 0, index > 2).expect("a key's type"),
        });
        let key = TreeKey::new(columns.collect());
        let mut bytes = Vec::new();
        key.encode(&mut bytes);
        let length = bytes.len();
        bytes.push(9);
        let mut from = EncodingReader::new(&bytes);
        assert_eq!(TreeKey::decode(&mut from), Ok(Some(key)));
        assert_eq!(from.rest(), [9]);
        assert!((0..length).all(|cut| TreeKey::decode(&mut EncodingReader::new(&bytes[..cut])).is_err()));
        for at in 0..length {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                if let Ok(Some(other)) = TreeKey::decode(&mut EncodingReader::new(&bytes[..length])) {
                    let mut again = Vec::new();
                    other.encode(&mut again);
                    assert!(bytes.starts_with(&again), "byte {at}, bit {bit}");
                }
                bytes[at] ^= 1 << bit;
            }
        }
        assert_eq!(TreeKey::decode(&mut EncodingReader::new(&[0])), Ok(None));
    }

    #[test]
    fn behind_a_prefix_is_above_all_that_begins_with_it() {
        assert_eq!(behind_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(behind_prefix(&[1, 0xFF, 0xFF]), Some(vec![2]));
        assert_eq!(behind_prefix(&[0xFF]), None);
        assert_eq!(behind_prefix(&[]), None);
    }
}
