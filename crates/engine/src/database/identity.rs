//! Where reseeded IDENTITY columns go on, as the catalog keeps it.

use std::sync::Arc;

use hobt_base::ObjectId;
use hobt_catalog::IdentityPosition;
use hobt_txn::StatementContext;

use super::Database;
use crate::error::Result;

impl Database {
    /// Where the identity column of a table goes on; `None` if nobody has reseeded it, and its rows say so.
    ///
    /// # Errors
    /// A page cannot be read, or the value is damaged.
    pub fn identity_position(&self, table: ObjectId) -> Result<Option<IdentityPosition>> {
        self.heaps.identity_position(table).map_err(|error| self.catalog_error(error))
    }

    /// Notes as a part of a statement where the identity column of a table goes on; `None`: its rows say so.
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

    /// Notes, whatever becomes of the open statement, that the values before `position` are taken. In the log before
    /// the rows that have those values, and so durable when they are.
    ///
    /// # Errors
    /// The database cannot be changed; a device's error.
    pub fn note_identity_position(self: &Arc<Database>, table: ObjectId, position: IdentityPosition) -> Result<()> {
        self.check_usable()?;
        self.prepare_to_change()?;
        self.write_rows_alone(|heaps, rows| heaps.set_identity_position(rows, table, Some(position)))
    }
}
