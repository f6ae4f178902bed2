//! Folders for temporary data.
//!
//! A folder created by the laboratory contains a mark file. Only a folder with the mark is ever emptied or removed. A
//! process that uses the folder holds a lock on the mark. A folder that is to be kept loses its mark, and belongs to
//! the user from then on.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};

const MARK: &str = ".hobt-lab";

/// A folder for an instance.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    keep: bool,
    /// The mark, locked. `None` for a user's folder.
    mark: Option<File>,
}

impl DataFolder {
    /// An empty folder that belongs to the laboratory. It is created, or emptied if an interrupted earlier run has left
    /// it. When this is dropped, the folder is removed, or given to the user if `keep` is set.
    ///
    /// # Errors
    /// If the folder contains anything else, or another process uses it.
    pub fn fresh(path: &Path, keep: bool) -> Result<DataFolder> {
        let doing = |what: &str| format!("{what} the folder {}", path.display());
        if path.exists() {
            let is_empty =
                path.is_dir() && std::fs::read_dir(path).map_err(LabError::io(doing("reading")))?.next().is_none();
            if !is_empty && !path.join(MARK).is_file() {
                return Err(LabError::Input(format!(
                    "{} is not empty and was not made by this command. Name another folder with --data, or remove it \
                     yourself.",
                    path.display()
                )));
            }
            if !is_empty {
                let _unused_by_others = locked(path)?;
                empty(path).map_err(LabError::io(doing("emptying")))?;
            }
        }
        std::fs::create_dir_all(path).map_err(LabError::io(doing("creating")))?;
        std::fs::write(path.join(MARK), "Made by hobt for an experiment; it may be removed.\n")
            .map_err(LabError::io(doing("marking")))?;
        Ok(DataFolder { path: path.to_path_buf(), keep, mark: Some(locked(path)?) })
    }

    /// A user's folder with its contents. It is kept.
    pub fn of_user(path: &Path) -> DataFolder {
        DataFolder { path: path.to_path_buf(), keep: true, mark: None }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Locks the mark of a folder.
fn locked(path: &Path) -> Result<File> {
    let mark = File::open(path.join(MARK)).map_err(LabError::io(format!("reading the mark of {}", path.display())))?;
    match mark.try_lock() {
        Ok(()) => Ok(mark),
        Err(_) => Err(LabError::Input(format!(
            "{} is used by another hobt at this moment. Name another folder with --data, or wait.",
            path.display()
        ))),
    }
}

/// Empties a folder. The mark is removed last, so an interrupted run can be repeated.
fn empty(path: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == MARK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    std::fs::remove_file(path.join(MARK))
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        if !self.keep {
            // If removal fails now, the next run empties the folder.
            let _removed = empty(&self.path).and_then(|()| std::fs::remove_dir(&self.path));
        } else if self.mark.is_some() {
            // If the mark cannot be removed, the folder remains the laboratory's.
            let _removed = std::fs::remove_file(self.path.join(MARK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("hobt-folder-{}-{name}", std::process::id()))
    }

    #[test]
    fn what_is_not_ours_is_refused_and_stays() {
        let path = place("foreign");
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("thesis.txt"), "years of work").expect("a file");
        let error = DataFolder::fresh(&path, false).expect_err("it is not empty").to_string();
        assert!(error.contains("--data"), "{error}");
        assert!(path.join("thesis.txt").is_file());
        std::fs::remove_dir_all(&path).expect("removed");
        std::fs::write(&path, "").expect("a file in the folder's place");
        assert!(DataFolder::fresh(&path, false).is_err());
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn what_is_ours_is_emptied_and_removed() {
        let path = place("own");
        let first = DataFolder::fresh(&path, false).expect("nothing is there");
        std::fs::create_dir_all(path.join("master")).expect("a folder");
        let error = DataFolder::fresh(&path, false).expect_err("somebody uses it").to_string();
        assert!(error.contains("another hobt"), "{error}");
        assert!(path.join("master").is_dir());
        // What an interrupted run leaves: the mark, unlocked.
        let mark = std::fs::read(path.join(MARK)).expect("a mark");
        drop(first);
        assert!(!path.exists());
        std::fs::create_dir_all(path.join("master")).expect("a folder");
        std::fs::write(path.join(MARK), mark).expect("a mark");
        let second = DataFolder::fresh(&path, false).expect("it is ours");
        assert!(!path.join("master").exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn what_is_kept_is_the_users() {
        let path = place("kept");
        let first = DataFolder::fresh(&path, true).expect("nothing is there");
        std::fs::create_dir_all(path.join("master")).expect("a folder");
        drop(first);
        assert!(DataFolder::fresh(&path, false).is_err());
        assert!(path.join("master").is_dir());
        std::fs::remove_dir_all(&path).expect("removed");
    }
}
