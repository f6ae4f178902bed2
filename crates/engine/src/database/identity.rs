//! The next values of reseeded IDENTITY columns, as the catalog stores them.

use std::sync::Arc;

use hobt_base::ObjectId;
use hobt_catalog::IdentityPosition;
use hobt_txn::StatementContext;

use super::Database;
use crate::error::Result;

impl Database {
    /// The next value of a table's identity column; `None` if it was not reseeded, so that it follows from the rows.
    ///
    /// # Errors
    /// A page cannot be read, or the value is damaged.
    pub fn identity_position(&self, table: ObjectId) -> Result<Option<IdentityPosition>> {
        self.heaps.identity_position(table).map_err(|error| self.catalog_error(error))
    }

    /// Records the next value of a table's identity column as a part of a statement; `None`: it follows from the rows.
    ///
    /// # Errors
    /// The database cannot be changed; a device's error, after which the statement must be rolled back.
    pub fn set_identity_position(
        self: &Arc<Database>,
        ctx: &StatementContext,
        table: ObjectId,
        position: Option<IdentityPosition>,
    ) -> Result<()> {
        self.check_usable()?;
        self.prepare_to_change()?;
        self.write_rows(ctx, |heaps, rows| heaps.set_identity_position(rows, table, position))
    }

    /// Records that the values before `position` are taken, even if the open statement is undone. The record is in the
    /// log before the rows with those values, and so is durable when they are.
    ///
    /// # Errors
    /// The database cannot be changed; a device's error.
    pub fn note_identity_position(self: &Arc<Database>, table: ObjectId, position: IdentityPosition) -> Result<()> {
        self.check_usable()?;
        self.prepare_to_change()?;
        self.write_rows_alone(|heaps, rows| heaps.set_identity_position(rows, table, Some(position)))
    }
}
