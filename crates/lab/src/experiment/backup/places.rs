//! The experiment's databases, and where its backups lie.

use std::fs;
use std::path::PathBuf;

use crate::error::{LabError, Result};
use crate::laboratory::Laboratory;

/// The database that is backed up.
pub(super) const DATABASE: &str = "hobt_lab_backup";
/// The one that is restored.
pub(super) const RESTORED: &str = "hobt_lab_restored";
/// The folder of the backups, in that of the instance.
pub(super) const FOLDER: &str = "hobt_lab_backup";

/// The files of a backup to so many stripes: as a statement names them, and their paths.
pub(super) fn devices(lab: &Laboratory, name: &str, stripes: usize) -> (String, Vec<PathBuf>) {
    let files: Vec<String> = (1..=stripes).map(|stripe| format!("{FOLDER}/{name}_{stripe}.bak")).collect();
    let named: Vec<String> = files.iter().map(|file| format!("DISK = '{file}'")).collect();
    (named.join(", "), files.iter().map(|file| lab.folder().join(file)).collect())
}

/// Removes files.
///
/// # Errors
/// One cannot be removed.
pub(super) fn remove(files: &[PathBuf]) -> Result<()> {
    let remove = |file: &PathBuf| fs::remove_file(file).map_err(LabError::io(format!("removing {}", file.display())));
    files.iter().try_for_each(remove)
}
