//! The history of backups and restores that `msdb` shows. `master` keeps it.

use std::path::PathBuf;

use hobt_backup::{HistoryEntry, MediaLabel, SetFacts};

use crate::error::{Result, of_catalog};
use crate::instance::Instance;

impl Instance {
    /// The history of backups and restores, the oldest entry first, with the numbers of the entries.
    ///
    /// # Errors
    /// `master` cannot be read.
    pub fn backup_history(&self) -> Result<Vec<(i32, HistoryEntry)>> {
        let master = self.master()?;
        let texts = master.heaps().history().map_err(|error| of_catalog("master", error))?;
        // An entry that another version has written in another way is left out.
        Ok(texts.into_iter().filter_map(|(number, text)| Some((number, HistoryEntry::of_text(&text)?))).collect())
    }

    /// Deletes entries of the history.
    ///
    /// # Errors
    /// `master` cannot be changed.
    pub fn delete_backup_history(&self, numbers: &[i32]) -> Result<()> {
        self.master()?.change_and_save(|heaps, ctx| heaps.delete_from_history(ctx, numbers))
    }

    /// Adds an entry to the history, durably.
    ///
    /// # Errors
    /// `master` cannot be changed.
    pub fn note_in_history(&self, entry: &HistoryEntry) -> Result<()> {
        let text = entry.to_text();
        self.master()?.change_and_save(|heaps, ctx| heaps.add_to_history(ctx, &text).map(|_| ()))
    }

    /// Adds a backup to the history.
    pub(super) fn note_backup(
        &self,
        facts: &SetFacts,
        label: MediaLabel,
        position: u32,
        paths: &[PathBuf],
    ) -> Result<()> {
        let paths = paths.iter().map(|path| self.folder.join(path).display().to_string()).collect();
        self.note_in_history(&HistoryEntry::Backup { facts: Box::new(facts.clone()), label, position, paths })
    }
}
