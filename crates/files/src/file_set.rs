//! Which files a pattern means: one file, all files of a folder, or those whose names match `*`, `?`, `[…]` and `**`.

use std::path::{Path, PathBuf};

use hobt_base::{SqlError, errors};

use crate::source::cannot_open;

/// Files of one pattern, at most.
const FILES_MAX: usize = 100_000;

/// Whether a path is a pattern.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The part of a pattern before the first component with a wildcard: a folder.
pub fn fixed_part(pattern: &Path) -> PathBuf {
    pattern.components().take_while(|part| !is_pattern(&part.as_os_str().to_string_lossy())).collect()
}

/// The files that a path means, in the order of their names. Names that begin with `.` or `_` are left out of folders
/// and matches.
///
/// # Errors
/// 4860: there is no such file, or none that matches; 4861: the folder cannot be read, the pattern is none, or it is a
/// pipe, a device, or the system's own.
pub fn files_of(path: &Path) -> Result<Vec<PathBuf>, SqlError> {
    let text = path.to_string_lossy();
    let missing = || errors::BULK_FILE_MISSING.with([&path.display()]);
    if is_of_system(path) {
        let why = "the system makes up what is in it when it is read, and it may never end";
        return Err(errors::BULK_FILE_NOT_OPENED.with([&path.display(), &why]));
    }
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    // Names that are left out do not count. What is beyond the limit is not looked at.
    let mut add = |found: PathBuf| {
        // A link may lead out of the folder.
        if found.is_file() && is_shown(&found) && !(found.is_symlink() && is_of_system(&found)) {
            files.push(found);
        }
        match files.len() <= FILES_MAX {
            true => Ok(()),
            false => {
                let why = format!("it means more than {FILES_MAX} files");
                Err(errors::BULK_FILE_NOT_OPENED.with([&path.display(), &why]))
            }
        }
    };
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| cannot_open(path, &error))?;
        for entry in entries {
            add(entry.map_err(|error| cannot_open(path, &error))?.path())?;
        }
    } else if is_pattern(&text) {
        let not_a_pattern = |error: glob::PatternError| errors::BULK_FILE_NOT_OPENED.with([&path.display(), &error]);
        for found in glob::glob(&text).map_err(not_a_pattern)? {
            add(found.map_err(|error| cannot_open(path, error.error()))?)?;
        }
    } else if path.exists() {
        let why = "it is a pipe or a device, and files are read more than once";
        return Err(errors::BULK_FILE_NOT_OPENED.with([&path.display(), &why]));
    }
    if files.is_empty() {
        return Err(missing());
    }
    files.sort_unstable();
    Ok(files)
}

/// Whether a path leads into a file system that is no storage. Some of its files look like regular ones, and
/// a read of them never ends.
fn is_of_system(path: &Path) -> bool {
    let place = std::fs::canonicalize(fixed_part(path)).unwrap_or_else(|_| path.to_path_buf());
    ["/proc", "/sys"].iter().any(|system| place.starts_with(system))
}

fn is_shown(path: &Path) -> bool {
    path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with(['.', '_']))
}
