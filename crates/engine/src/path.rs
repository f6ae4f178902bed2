//! Where database files may lie.
//!
//! A path is made absolute from the instance's folder and resolved component by component, symbolic links included,
//! before it is compared with the allowed folders. So `..` and links cannot lead outside them. Missing folders are
//! created below the instance's own folder only.

use std::path::{Component, Path, PathBuf};

use hobt_base::{SqlError, errors};
use hobt_disk::Disk;

use crate::error::{EngineError, Result, cannot_create};

/// The subfolder of the instance's folder that queries spill into. Each start of the instance removes spill files
/// there, so no database file may lie there.
pub(crate) const SPILL_FOLDER: &str = "tempdb";

/// The file whose lock shows that an instance is in use.
pub(crate) const LOCK_FILE: &str = "hobt.lock";
/// The file that exists while an instance is being created.
pub(crate) const MAKING_FILE: &str = "hobt.making";

/// The maximum length of a path in bytes, so that it fits a row of the catalog.
const PATH_BYTES_MAX: usize = 4000;

/// The folders that files may lie in.
#[derive(Clone, Debug)]
pub(crate) struct AllowedFolders {
    /// The instance's own folder, resolved; the first.
    own: PathBuf,
    others: Vec<PathBuf>,
    /// Where relative names of files of rows begin.
    rows: PathBuf,
}

fn refuse(path: &Path, why: &str) -> EngineError {
    EngineError::Statement(errors::CANNOT_CREATE_FILE.with([&path.display(), &why]))
}

/// Resolves an absolute path: `.`, `..` and every existing symbolic link in it.
fn resolve(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            other => {
                resolved.push(other);
                let is_link = std::fs::symlink_metadata(&resolved).is_ok_and(|found| found.file_type().is_symlink());
                if is_link {
                    // A dangling link would be created through, wherever it points.
                    resolved = std::fs::canonicalize(&resolved).ok()?;
                }
            }
        }
    }
    Some(resolved)
}

/// The folder of an instance, absolute and resolved.
///
/// # Errors
/// There is no current folder, or a link is dangling.
pub(crate) fn resolve_folder(folder: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(folder)
        .map_err(|error| EngineError::Instance { path: folder.to_path_buf(), reason: error.to_string() })?;
    resolve(&absolute).ok_or_else(|| EngineError::Instance {
        path: folder.to_path_buf(),
        reason: "a symbolic link in its path leads nowhere".to_owned(),
    })
}

/// For file systems that ignore case.
fn lower(path: &Path) -> PathBuf {
    PathBuf::from(path.as_os_str().to_ascii_lowercase())
}

impl AllowedFolders {
    /// `own` is already resolved. Folders of `others` that cannot be resolved allow nothing.
    pub(crate) fn new(own: PathBuf, others: &[PathBuf], rows: Option<&Path>) -> AllowedFolders {
        let others = others.iter().filter_map(|folder| resolve(&own.join(folder))).collect();
        let rows = rows.and_then(|folder| resolve(&own.join(folder))).unwrap_or_else(|| own.clone());
        AllowedFolders { own, others, rows }
    }

    /// The files of rows that a user names, by a path or a pattern that `found` resolves.
    ///
    /// # Errors
    /// 4861: the path, or one of the files, lies outside the allowed folders; those of `found`.
    pub(crate) fn files_of_rows(
        &self,
        path: &Path,
        found: &dyn Fn(&Path) -> std::result::Result<Vec<PathBuf>, SqlError>,
    ) -> std::result::Result<Vec<PathBuf>, SqlError> {
        let outside = || errors::BULK_OUTSIDE.with([&path.display()]);
        let absolute = self.rows.join(path);
        let is_pattern = |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
        let fixed: PathBuf = absolute.components().take_while(|part| !is_pattern(part)).collect();
        let rest: PathBuf = absolute.components().skip_while(|part| !is_pattern(part)).collect();
        if rest.components().any(|part| part == Component::ParentDir) {
            return Err(outside());
        }
        let resolved = resolve(&fixed).filter(|path| self.has_rows(path)).ok_or_else(outside)?;
        // Joining nothing would add a slash.
        let whole = if rest.as_os_str().is_empty() { resolved } else { resolved.join(rest) };
        let files = found(&whole)?.into_iter().map(|file| resolve(&file).filter(|path| self.has_rows(path)));
        files.collect::<Option<Vec<PathBuf>>>().ok_or_else(outside)
    }

    /// The path of a new file of rows that a user names; its folder exists.
    ///
    /// # Errors
    /// 4861: the path lies outside the allowed folders, or names no file.
    pub(crate) fn new_file_of_rows(&self, path: &Path) -> std::result::Result<PathBuf, SqlError> {
        let resolved = resolve(&self.rows.join(path)).filter(|_| path.file_name().is_some());
        let is_for_files = |resolved: &PathBuf| {
            self.has_rows(resolved) && !self.is_for_spilling(resolved) && !self.is_of_instance(resolved)
        };
        resolved.filter(is_for_files).ok_or_else(|| errors::BULK_OUTSIDE.with([&path.display()]))
    }

    /// Whether a resolved path lies where files of rows may.
    fn has_rows(&self, resolved: &Path) -> bool {
        // Files of databases are read by their databases alone.
        let is_of_database = resolved.extension().is_some_and(|extension| {
            ["mdf", "ndf", "ldf"].iter().any(|of_database| extension.eq_ignore_ascii_case(of_database))
        });
        if is_of_database || self.is_for_spilling(resolved) || self.is_of_instance(resolved) {
            return false;
        }
        let folders = [&self.own, &self.rows].into_iter().chain(&self.others);
        folders.into_iter().any(|folder| resolved.starts_with(folder))
    }

    /// The path of a new file that a user names. Creates missing folders below the instance's own.
    ///
    /// # Errors
    /// 5123: the path leaves the allowed folders, names no file, or is too long; its folder does not exist.
    pub(crate) fn place(&self, disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
        let resolved = self.existing(path)?;
        let folder = resolved.parent().expect("a path below a folder has a parent");
        if !disk.exists(folder) {
            if !folder.starts_with(&self.own) {
                return Err(refuse(path, "its folder does not exist"));
            }
            disk.create_directory(folder).map_err(|error| cannot_create(&resolved, &error))?;
        }
        Ok(resolved)
    }

    /// The path of an existing file that a user names.
    ///
    /// # Errors
    /// 5123: the path leaves the allowed folders, names no file, or is too long.
    pub(crate) fn existing(&self, path: &Path) -> Result<PathBuf> {
        let text = path.to_str().ok_or_else(|| refuse(path, "it is not Unicode text"))?;
        let is_blank = path.file_name().is_none_or(|name| name.to_string_lossy().trim().is_empty());
        if text.contains('\0') || is_blank || text.ends_with(['/', '\\']) {
            return Err(refuse(path, "it names no file"));
        }
        let resolved = resolve(&self.own.join(path)).ok_or_else(|| refuse(path, "a symbolic link leads nowhere"))?;
        let is_below = |folder: &PathBuf| resolved.starts_with(folder) && resolved != *folder;
        if !is_below(&self.own) && !self.others.iter().any(is_below) {
            return Err(refuse(path, "it lies outside the allowed folders"));
        }
        if self.is_for_spilling(&resolved) {
            return Err(refuse(path, "that folder is kept for what queries spill"));
        }
        if self.is_of_instance(&resolved) {
            return Err(refuse(path, "the instance has a file of that name itself"));
        }
        if resolved.as_os_str().len() > PATH_BYTES_MAX || resolved.to_str().is_none() {
            return Err(refuse(path, "it is too long, or not Unicode text"));
        }
        Ok(resolved)
    }

    /// Whether a resolved path lies in the folder that queries spill into; also on a file system that ignores case.
    fn is_for_spilling(&self, resolved: &Path) -> bool {
        let folder = self.own.join(SPILL_FOLDER);
        let linked = resolve(&folder).is_some_and(|folder| resolved.starts_with(folder));
        linked || lower(resolved).starts_with(lower(&folder))
    }

    /// Whether a resolved path is, or leads through, a file by which a start detects that the instance is in use or
    /// half made. A database file there would be taken for such a file and removed.
    fn is_of_instance(&self, resolved: &Path) -> bool {
        [LOCK_FILE, MAKING_FILE].iter().any(|name| lower(resolved).starts_with(lower(&self.own.join(name))))
    }

    /// A resolved path in the form that the catalog stores: relative if it lies in the instance's folder, so that the
    /// folder can be moved.
    pub(crate) fn stored(&self, resolved: &Path) -> String {
        let stored = resolved.strip_prefix(&self.own).unwrap_or(resolved);
        stored.to_str().expect("placed paths are Unicode text").to_owned()
    }

    /// The path from the catalog's form. It is not checked against the allowed folders: it was allowed when the file
    /// was created.
    pub(crate) fn path_of(&self, stored: &str) -> PathBuf {
        self.own.join(stored)
    }
}

#[cfg(test)]
mod tests {
    use hobt_disk::{DiskKind, open_disk};

    use super::*;
    use hobt_base::number;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hobt-path-{}-{name}", std::process::id()));
        std::fs::create_dir_all(folder.join("own")).expect("a temporary folder");
        std::fs::create_dir_all(folder.join("other")).expect("a temporary folder");
        resolve_folder(&folder).expect("resolved")
    }

    #[test]
    fn no_path_leaves_the_allowed_folders() {
        let base = folder("leave");
        let disk = open_disk(DiskKind::Threads).expect("a disk");
        let allowed = AllowedFolders::new(base.join("own"), &[], None);
        std::os::unix::fs::symlink(base.join("other"), base.join("own/link")).expect("a link");
        std::os::unix::fs::symlink(base.join("nowhere"), base.join("own/dangling")).expect("a link");
        std::fs::create_dir(base.join("own/tempdb")).expect("a folder");
        std::os::unix::fs::symlink(base.join("own/tempdb"), base.join("own/spills")).expect("a link");
        for path in [
            "../x.mdf",
            "a/../../x.mdf",
            "link/x.mdf",
            "link/../x.mdf",
            "dangling",
            "dangling/x.mdf",
            "/etc/x.mdf",
            "../own2/x.mdf",
            "..",
            ".",
            "",
            "sub/",
            "  ",
            "sub/ ",
            "a\0b",
            "tempdb/datafusion-x/x.mdf",
            "a/../TempDB/x.mdf",
            "spills/x.mdf",
        ] {
            let placed = allowed.place(&*disk, Path::new(path));
            let error = placed.expect_err(path).to_sql_error();
            assert_eq!(error.number, number::CANNOT_CREATE_FILE, "{path}");
        }
        assert!(!base.join("x.mdf").exists());
        std::fs::remove_dir_all(&base).expect("removed");
    }

    #[test]
    fn folders_are_made_below_the_own_one_alone() {
        let base = folder("make");
        let disk = open_disk(DiskKind::Threads).expect("a disk");
        let allowed = AllowedFolders::new(base.join("own"), &[base.join("other")], None);
        let placed = allowed.place(&*disk, Path::new("new/deep/../x.ndf")).expect("allowed");
        assert_eq!(placed, base.join("own/new/x.ndf"));
        assert!(base.join("own/new").is_dir());
        assert_eq!(allowed.stored(&placed), "new/x.ndf");
        assert_eq!(allowed.path_of("new/x.ndf"), placed);
        assert!(allowed.place(&*disk, &base.join("other/new/x.ndf")).is_err());
        let elsewhere = allowed.place(&*disk, &base.join("other/x.ndf")).expect("an allowed folder");
        assert_eq!(allowed.path_of(&allowed.stored(&elsewhere)), elsewhere);
        std::fs::remove_dir_all(&base).expect("removed");
    }
}
