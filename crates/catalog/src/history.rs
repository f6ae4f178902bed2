//! The history of backups and restores, in `master`: texts of which the engine knows the form.

use std::sync::atomic::Ordering;

use hobt_txn::StatementContext;

use crate::error::CatalogError;
use crate::heaps::SystemHeaps;
use crate::long_value::{LongValues, ValueClass};
use crate::system::ValueRow;

/// The class in rows.
const CLASS: u8 = ValueClass::History as u8;

impl SystemHeaps {
    /// The entries of the history, by their numbers. For `master` alone.
    ///
    /// # Errors
    /// The rows cannot be read, or are damaged.
    pub fn history(&self) -> Result<Vec<(i32, String)>, CatalogError> {
        let rows = self.rows::<ValueRow>()?.into_iter().filter(|row| row.class == CLASS).collect::<Vec<_>>();
        let mut numbers: Vec<i32> = rows.iter().map(|row| row.id).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut values = LongValues::assemble(rows)?;
        numbers.into_iter().map(|id| Ok((id, values.take_text(ValueClass::History, id, 0)?))).collect()
    }

    /// Adds an entry to the history. Returns its number.
    ///
    /// # Errors
    /// As of any insert; the statement's roll-back undoes it.
    pub fn add_to_history(&self, ctx: &StatementContext, entry: &str) -> Result<i32, CatalogError> {
        // The caller excludes others. The entries are read once: they may be many, and long.
        let mut last = self.last_in_history.load(Ordering::Relaxed);
        if last == 0 {
            self.visit(&mut |row: ValueRow, _, _| last = last.max(if row.class == CLASS { row.id } else { 0 }))?;
        }
        let number = last.saturating_add(1);
        self.last_in_history.store(number, Ordering::Relaxed);
        self.insert_long(ctx, ValueClass::History, number, 0, Some(entry.as_bytes()))?;
        Ok(number)
    }

    /// Deletes entries of the history by their numbers.
    ///
    /// # Errors
    /// As of any delete; the statement's roll-back undoes it.
    pub fn delete_from_history(&self, ctx: &StatementContext, numbers: &[i32]) -> Result<(), CatalogError> {
        self.delete(ctx, |row: &ValueRow| row.class == CLASS && numbers.contains(&row.id)).map(|_| ())
    }
}
