//! `DBCC CLONEDATABASE`: creates a read-only database with the definitions and statistics of another one, and no rows.
//!
//! Its files have the logical names of the source's and new paths, in the instance's folder, as SQL Server makes them.
//! A crash before the end leaves a database that is not marked as a clone.

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::PathBuf;

use hobt_base::{FilegroupId, errors};
use hobt_catalog::{DatabaseFile, DatabaseSnapshot};

use super::create::{is_system, new_guid};
use super::{DatabaseUse, Instance};
use crate::definition::{DatabaseDefinition, FileDefinition, FilegroupDefinition};
use crate::error::{EngineError, Result};
use crate::log_description::LogDescription;
use crate::options::DatabaseOptions;

/// The maximum length in bytes that a logical name, which has up to 128 characters, takes in a file name: file systems
/// allow that, with room for a suffix.
const STEM_BYTES_MAX: usize = 200;

/// What a clone contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CloneOptions {
    /// The statistics of tables and indexes.
    pub with_statistics: bool,
    /// Whether it was verified, and is marked so.
    pub is_verified: bool,
}

impl Instance {
    /// Creates a clone. `verify` checks the clone before it is made read-only.
    ///
    /// # Errors
    /// 3708 the source is one of the instance's own; those of [`Instance::create_database`] and of `verify`; 1105 or a
    /// device's error. Nothing is left then.
    pub fn clone_database(
        &self,
        source: &DatabaseUse,
        name: &str,
        options: CloneOptions,
        verify: &mut dyn FnMut(&DatabaseUse) -> Result<()>,
    ) -> Result<()> {
        if is_system(source.id()) {
            return Err(EngineError::Statement(errors::CLONE_OF_SYSTEM_DATABASE.with([&source.name()])));
        }
        source.check_usable()?;
        let created = self.create_database(&definition_of(source, name))?;
        let filled = self.fill_clone(source, &created.database, options, verify);
        if filled.is_err() {
            drop(created);
            // The first error is the one to report.
            let _ = self.drop_database(name);
        }
        filled
    }

    fn fill_clone(
        &self,
        source: &DatabaseUse,
        clone: &DatabaseUse,
        options: CloneOptions,
        verify: &mut dyn FnMut(&DatabaseUse) -> Result<()>,
    ) -> Result<()> {
        self.alter(clone, |ctx| clone.database().copy_definitions(ctx, source.database(), options.with_statistics))?;
        clone.database().pass_used_ids();
        verify(clone)?;
        let of_source = source.options();
        self.set_options(clone, |own| {
            *own = DatabaseOptions {
                is_read_only: true,
                is_clone: true,
                is_verified_clone: options.is_verified,
                has_log_chain: false,
                ..of_source
            };
        })
    }
}

/// The files and filegroups of a clone.
fn definition_of(source: &DatabaseUse, name: &str) -> DatabaseDefinition {
    let snapshot = source.snapshot();
    // A random number, as SQL Server appends one, that no other file name has.
    let [first, second, third, fourth, ..] = new_guid();
    let number = u32::from_le_bytes([first, second, third, fourth]);
    let taken = RefCell::default();
    let placed = |logical: &str, ending: &str| FileDefinition {
        name: Some(logical.to_owned()),
        path: Some(PathBuf::from(format!("{}_{number}.{ending}", stem(logical, &mut taken.borrow_mut())))),
        ..FileDefinition::default()
    };
    let ending = |file: &DatabaseFile| if file.id.0 == 1 { "mdf" } else { "ndf" };
    let files = |filegroup: FilegroupId| -> Vec<FileDefinition> {
        files_of(&snapshot, filegroup, &|file| placed(&file.name, ending(file)))
    };
    let further = snapshot.filegroups.iter().filter(|filegroup| filegroup.id != FilegroupId(1));
    let filegroups = further.map(|filegroup| FilegroupDefinition {
        name: filegroup.name.clone(),
        is_default: filegroup.is_default,
        files: files(filegroup.id),
    });
    let log = LogDescription::of(source.storage()).map_or_else(Vec::new, |log| log.files);
    DatabaseDefinition {
        name: name.to_owned(),
        primary: files(FilegroupId(1)),
        filegroups: filegroups.collect(),
        log: log.iter().map(|file| placed(&file.name, "ldf")).collect(),
    }
}

/// The beginning of a file's name on disk: the logical name without path separators, not too long, and different from
/// all that are `taken`, also on file systems that ignore case.
fn stem(logical: &str, taken: &mut HashSet<String>) -> String {
    let clean = logical.replace(['/', '\\', '\0'], "_");
    let end = clean.floor_char_boundary(STEM_BYTES_MAX);
    let mut stem = clean[..end].to_owned();
    let mut further = 1;
    while !taken.insert(stem.to_lowercase()) {
        further += 1;
        stem = format!("{}_{further}", &clean[..end]);
    }
    stem
}

fn files_of(
    snapshot: &DatabaseSnapshot,
    filegroup: FilegroupId,
    placed: &dyn Fn(&DatabaseFile) -> FileDefinition,
) -> Vec<FileDefinition> {
    let mut files: Vec<&DatabaseFile> = snapshot.files.iter().filter(|file| file.filegroup == filegroup).collect();
    files.sort_by_key(|file| file.id);
    files.into_iter().map(placed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_alike_without_slashes_are_not_alike_on_disk() {
        let mut taken = HashSet::new();
        let stems: Vec<String> =
            ["a/b", "a_b", "A_B", "a_b_2", "a\\b"].iter().map(|name| stem(name, &mut taken)).collect();
        assert_eq!(stems, ["a_b", "a_b_2", "A_B_3", "a_b_2_2", "a_b_4"]);
        assert_eq!(stem(&"ä".repeat(128), &mut taken).len(), STEM_BYTES_MAX);
    }
}
