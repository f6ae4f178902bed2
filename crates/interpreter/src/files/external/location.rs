//! Where the rows of a `CREATE EXTERNAL TABLE AS SELECT` go: a new file, in a folder that is there or is made.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hobt_base::{SqlError, errors};
use hobt_engine::Instance;
use hobt_files::{Compression, FileKind, FileName, is_pattern};

/// The file in a folder that is made for it.
const PART: &str = "part-1";

/// A file that is to be written. Unless it is kept, the folders that were made for it are removed when it is dropped.
#[derive(Debug)]
pub(super) struct NewLocation {
    /// The file.
    pub(super) file: PathBuf,
    /// What the table reads: the file, or its folder.
    pub(super) location: PathBuf,
    /// Folders that were made, the outer ones first.
    made: Vec<PathBuf>,
    is_kept: bool,
}

/// The kind of file that a location names, if it names a file and no folder.
pub(super) fn kind_of(location: &str) -> Option<FileKind> {
    if location.ends_with(['/', '\\']) { None } else { FileName::of(Path::new(location)).kind }
}

impl NewLocation {
    /// A file of this kind at a location that the user gives: under that name if it is one of a file, and else in a
    /// folder, which is made if it is not there. Blocks on the disk.
    ///
    /// # Errors
    /// 15841 for a pattern, 15842 if the file is there or the folder has files, 15840 for another thing than a folder,
    /// 15856 if the system refuses, 4861 outside of the allowed folders.
    pub(super) fn make(
        instance: &Instance,
        location: &str,
        kind: FileKind,
        compression: Compression,
    ) -> Result<NewLocation, SqlError> {
        if is_pattern(location) {
            return Err(errors::EXTERNAL_LOCATION_PATTERN.with([&location]));
        }
        let path = instance.writable_file(Path::new(location))?;
        let exists = || errors::EXTERNAL_LOCATION_EXISTS.with([&location]);
        let refused = |error: io::Error| errors::EXTERNAL_FILE_NOT_WRITTEN.with([&path.display(), &error]);
        if kind_of(location).is_some() {
            return match fs::symlink_metadata(&path) {
                Ok(_) => Err(exists()),
                Err(_) => Ok(NewLocation { file: path.clone(), location: path, made: Vec::new(), is_kept: false }),
            };
        }
        let mut new = NewLocation {
            file: path.join(part_name(kind, compression)),
            location: path.clone(),
            made: Vec::new(),
            is_kept: false,
        };
        match fs::metadata(&path) {
            Ok(found) if !found.is_dir() => return Err(errors::EXTERNAL_LOCATION_NO_FOLDER.with([&location])),
            Ok(_) => {
                if fs::read_dir(&path).map_err(refused)?.next().is_some() {
                    return Err(exists());
                }
            }
            Err(_) => {
                let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
                for folder in missing.into_iter().rev() {
                    fs::create_dir(folder).map_err(refused)?;
                    new.made.push(folder.to_path_buf());
                    // Or a power failure leaves the table without its folder.
                    if let Some(parent) = folder.parent() {
                        fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(refused)?;
                    }
                }
            }
        }
        Ok(new)
    }

    /// Keeps the folders that were made.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for NewLocation {
    fn drop(&mut self) {
        if !self.is_kept {
            // A folder that is not empty stays: it has files of another program.
            let _all_gone = self.made.iter().rev().try_for_each(fs::remove_dir);
        }
    }
}

fn part_name(kind: FileKind, compression: Compression) -> String {
    let ending = match kind {
        FileKind::Csv => "csv",
        FileKind::Tsv => "tsv",
        FileKind::Psv => "psv",
        FileKind::Json => "json",
        FileKind::JsonLines => "jsonl",
        FileKind::Parquet => "parquet",
    };
    let outer = match compression {
        Compression::None => "",
        Compression::Gzip => ".gz",
        Compression::Zstd => ".zst",
    };
    format!("{PART}.{ending}{outer}")
}
