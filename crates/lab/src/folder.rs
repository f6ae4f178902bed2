//! Folders for data that nobody needs afterwards.
//!
//! A folder that the laboratory makes carries a mark; only a folder with the mark is ever emptied or removed.

use std::path::{Path, PathBuf};

use crate::error::{LabError, Result};

const MARK: &str = ".hobt-lab";

/// A folder for an instance.
#[derive(Debug)]
pub struct DataFolder {
    path: PathBuf,
    keep: bool,
}

impl DataFolder {
    /// An empty folder of the laboratory's own: created, or emptied when an earlier run has left it. Unless `keep`, it
    /// is removed when this is dropped.
    ///
    /// # Errors
    /// Something that is not the laboratory's lies there.
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
                empty(path).map_err(LabError::io(doing("emptying")))?;
            }
        }
        std::fs::create_dir_all(path).map_err(LabError::io(doing("creating")))?;
        std::fs::write(path.join(MARK), "Made by hobt for an experiment; it may be removed.\n")
            .map_err(LabError::io(doing("marking")))?;
        Ok(DataFolder { path: path.to_path_buf(), keep })
    }

    /// A folder of the user's, with whatever is in it; it stays.
    pub fn of_user(path: &Path) -> DataFolder {
        DataFolder { path: path.to_path_buf(), keep: true }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes what is in a folder, its mark last: an emptying that was cut short can be taken up again.
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
            // What cannot be removed now is emptied by the next run.
            let _removed = empty(&self.path).and_then(|()| std::fs::remove_dir(&self.path));
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
        let first = DataFolder::fresh(&path, true).expect("nothing is there");
        std::fs::create_dir_all(path.join("master")).expect("a folder");
        drop(first);
        assert!(path.join("master").is_dir(), "it was to be kept");
        let second = DataFolder::fresh(&path, false).expect("it is ours");
        assert!(!path.join("master").exists());
        drop(second);
        assert!(!path.exists());
    }
}
