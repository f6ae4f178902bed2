//! The position of a reseeded IDENTITY column: up to where its values are taken.
//!
//! The next identity value follows from the table's rows until `DBCC CHECKIDENT … RESEED` sets another one. From then
//! on the catalog stores it, as a long value of the table.

use hobt_base::ObjectId;
use hobt_txn::StatementContext;

use crate::error::{CatalogError, damaged};
use crate::heaps::SystemHeaps;
use crate::long_value::ValueClass;
use crate::system::{SystemTable, ValueRow};

/// The next value of an identity column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdentityPosition {
    /// The next unused value.
    pub next: i128,
    /// Whether the column has had a value.
    pub used: bool,
}

impl IdentityPosition {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.next.to_le_bytes().to_vec();
        bytes.push(u8::from(self.used));
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<IdentityPosition> {
        let (used, next) = bytes.split_last()?;
        Some(IdentityPosition { next: i128::from_le_bytes(next.try_into().ok()?), used: *used != 0 })
    }
}

fn is_of(row: &ValueRow, table: ObjectId) -> bool {
    row.class == ValueClass::Identity as u8 && row.id == table.0
}

impl SystemHeaps {
    /// The position of a table's identity column; `None` if it follows from the table's rows.
    ///
    /// # Errors
    /// A page cannot be read, or the value is damaged.
    pub fn identity_position(&self, table: ObjectId) -> Result<Option<IdentityPosition>, CatalogError> {
        let Some(row) = self.rows::<ValueRow>()?.into_iter().find(|row| is_of(row, table)) else { return Ok(None) };
        let position = row.value.as_deref().and_then(IdentityPosition::from_bytes);
        let wrong = || damaged(SystemTable::Values, format!("table {table} has no position of its identity column"));
        position.map(Some).ok_or_else(wrong)
    }

    /// Sets the position of a table's identity column; with `None` it follows from the table's rows from now on.
    ///
    /// # Errors
    /// As of any change.
    pub fn set_identity_position(
        &self,
        ctx: &StatementContext,
        table: ObjectId,
        position: Option<IdentityPosition>,
    ) -> Result<(), CatalogError> {
        let Some(position) = position else { return self.delete_long(ctx, ValueClass::Identity, table.0) };
        let value = Some(position.to_bytes());
        let change = |row: &ValueRow| is_of(row, table).then(|| ValueRow { value: value.clone(), ..row.clone() });
        if self.replace(ctx, change)? == 0 {
            self.insert_long(ctx, ValueClass::Identity, table.0, 0, value.as_deref())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_from_its_bytes() {
        for (next, used) in [(0, false), (-5, true), (10_i128.pow(37), true)] {
            let position = IdentityPosition { next, used };
            assert_eq!(IdentityPosition::from_bytes(&position.to_bytes()), Some(position));
        }
        assert_eq!(IdentityPosition::from_bytes(&[]), None);
        assert_eq!(IdentityPosition::from_bytes(&[1; 16]), None);
    }
}
