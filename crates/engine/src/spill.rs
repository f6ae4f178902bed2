//! Files for data that statements spill to disk because it does not fit into memory: a part of `tempdb`.
//!
//! They lie in a folder beside tempdb's data file, hold bytes and not pages, are never synced, and are removed when
//! their owner drops them. Their size and their transfers count as those of tempdb's first file
//! ([`SpillFiles::size_bytes`], [`SpillFiles::transfers`]). Their contents are up to their writers: operators, and the
//! version store.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hobt_disk::{Disk, DiskError, DiskFile, FileSnapshot, OpenOptions, Result, SIMULATED};
use hobt_instruments::schedule::Mutex;
use hobt_instruments::{Wait, WaitType};
use hobt_txn::{SpaceError, VersionFile, VersionSpace};

use crate::path::SPILL_FOLDER;

/// The prefix of their names.
const PREFIX: &str = "spill-";

/// All that exist in this process.
static LIVE: Mutex<Vec<Weak<SpillFiles>>> = Mutex::new(Vec::new());

/// The spill files of an instance.
pub struct SpillFiles {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// The first part of the names: the least number of none of `LIVE` in this folder. A file may be removed by its
    /// owner after its instance is closed and opened again.
    opening: u64,
    size_bytes: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The number of the next file.
    next: u64,
    /// The folder exists, and what a killed process left there is removed.
    is_prepared: bool,
    /// The existing files, by number.
    open: HashMap<u64, Arc<dyn DiskFile>>,
    /// The transfers of the files that were removed.
    removed: FileSnapshot,
}

impl std::fmt::Debug for SpillFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpillFiles").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl SpillFiles {
    /// No files yet, in an instance's folder. Does not access the disk.
    pub(crate) fn new(disk: &Arc<dyn Disk>, instance: &Path) -> Arc<SpillFiles> {
        let folder = instance.join(SPILL_FOLDER);
        let mut live = LIVE.lock();
        live.retain(|files| files.strong_count() > 0);
        // Simulated disks are worlds of their own. Each opening of a real one is another object.
        let may_share =
            |files: &SpillFiles| files.folder == folder && (disk.kind() != SIMULATED || Arc::ptr_eq(&files.disk, disk));
        let taken: Vec<u64> =
            live.iter().filter_map(Weak::upgrade).filter(|files| may_share(files)).map(|files| files.opening).collect();
        let opening = (1..).find(|number| !taken.contains(number)).expect("fewer than there are numbers");
        let (size_bytes, known) = (AtomicU64::new(0), Mutex::default());
        let files = Arc::new(SpillFiles { disk: Arc::clone(disk), folder, opening, size_bytes, known });
        live.push(Arc::downgrade(&files));
        files
    }

    /// The folder that they lie in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Prepares the folder, and tests whether a file can be created. Blocks.
    ///
    /// # Errors
    /// The folder cannot be created, or no file can be created in it.
    pub fn prepare(self: &Arc<SpillFiles>) -> Result<()> {
        self.create().map(drop)
    }

    /// Before the first file, creates the folder and removes what a killed process left there: no other process spills
    /// into the folder of a locked instance.
    fn prepare_folder(&self, known: &mut Known) -> Result<()> {
        if known.is_prepared {
            return Ok(());
        }
        self.disk.create_directory(&self.folder)?;
        for path in self.disk.list(&self.folder)? {
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)) {
                // A file that cannot be removed only takes room.
                let _stays = self.disk.remove(&path);
            }
        }
        known.is_prepared = true;
        Ok(())
    }

    /// Creates an empty file. Blocks.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(self: &Arc<SpillFiles>) -> Result<SpillFile> {
        // Skips names of files that a killed process left and that could not be removed.
        loop {
            let number = {
                let mut known = self.known.lock();
                self.prepare_folder(&mut known)?;
                known.next += 1;
                known.next
            };
            let path = self.folder.join(format!("{PREFIX}{}-{number}", self.opening));
            let file = match self.disk.open(&path, OpenOptions { create_new: true, ..OpenOptions::default() }) {
                Err(DiskError::AlreadyExists { .. }) => continue,
                opened => opened?,
            };
            self.known.lock().open.insert(number, Arc::clone(&file));
            return Ok(SpillFile { files: Arc::clone(self), number, file, size_bytes: Mutex::new(0) });
        }
    }

    /// The size of all existing files in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    /// What was transferred from and to all files since the instance was opened.
    pub fn transfers(&self) -> FileSnapshot {
        let known = self.known.lock();
        let mut sum = known.removed.clone();
        known.open.values().for_each(|file| sum.add(&file.statistics().snapshot()));
        sum
    }
}

impl VersionSpace for SpillFiles {
    fn create_file(self: Arc<SpillFiles>) -> std::result::Result<Box<dyn VersionFile>, SpaceError> {
        Ok(Box::new(self.create().map_err(space_error)?))
    }
}

impl VersionFile for SpillFile {
    fn append(&self, bytes: &[u8]) -> std::result::Result<(), SpaceError> {
        SpillFile::append(self, bytes).map_err(space_error)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::result::Result<(), SpaceError> {
        SpillFile::read_at(self, buffer, offset).map_err(space_error)
    }
}

fn space_error(error: DiskError) -> SpaceError {
    SpaceError { message: error.to_string(), is_full: matches!(error, DiskError::NoSpace { .. }) }
}

/// One spill file, removed when it is dropped.
pub struct SpillFile {
    files: Arc<SpillFiles>,
    number: u64,
    file: Arc<dyn DiskFile>,
    size_bytes: Mutex<u64>,
}

impl std::fmt::Debug for SpillFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpillFile").field("path", &self.file.path()).finish_non_exhaustive()
    }
}

impl SpillFile {
    /// Its path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Its size in bytes.
    pub fn size_bytes(&self) -> u64 {
        *self.size_bytes.lock()
    }

    /// Appends to the file. Blocks, which is an `IO_COMPLETION` wait.
    ///
    /// # Errors
    /// `NoSpace`, `Poisoned`, `Io`. After an error nothing can be written to the file any more.
    pub fn append(&self, bytes: &[u8]) -> Result<()> {
        let mut size = self.size_bytes.lock();
        let wait = Wait::begin_working(WaitType::IoCompletion);
        self.file.write_at(bytes, *size)?;
        drop(wait);
        *size += bytes.len() as u64;
        self.files.size_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Fills `buffer` from `offset` on. Blocks, which is an `IO_COMPLETION` wait.
    ///
    /// # Errors
    /// `OutOfRange` when the file ends before, `Io`.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let _wait = Wait::begin_working(WaitType::IoCompletion);
        self.file.read_at(buffer, offset)
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        // A file that cannot be removed now is removed at the next start.
        let _stays = self.files.disk.remove(self.file.path());
        self.files.size_bytes.fetch_sub(*self.size_bytes.get_mut(), Ordering::Relaxed);
        let mut known = self.files.known.lock();
        known.open.remove(&self.number);
        let transferred = self.file.statistics().snapshot();
        known.removed.add(&transferred);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hobt_disk::{DiskKind, open_disk};

    fn files() -> (Arc<dyn Disk>, Arc<SpillFiles>) {
        let disk = open_disk(DiskKind::from_name("simulated").expect("known")).expect("a disk");
        let files = SpillFiles::new(&disk, Path::new("/instance"));
        (disk, files)
    }

    #[test]
    fn what_was_transferred_stays_counted_and_what_was_stored_does_not() {
        let (disk, files) = files();
        files.prepare().expect("a folder");
        let file = files.create().expect("a file");
        file.append(&[1; 700]).expect("written");
        file.append(&[2; 500]).expect("written");
        let mut end = [0; 600];
        file.read_at(&mut end, 600).expect("read");
        assert_eq!((end[99], end[100]), (1, 2));
        assert_eq!((file.size_bytes(), files.size_bytes()), (1200, 1200));
        let while_open = files.transfers();
        assert_eq!((while_open.writes.count, while_open.writes.bytes, while_open.reads.bytes), (2, 1200, 600));
        let path = file.path().to_owned();
        drop(file);
        assert_eq!((files.size_bytes(), files.transfers()), (0, while_open));
        assert!(!disk.exists(&path));
    }

    #[test]
    fn a_file_that_outlives_its_instance_removes_only_itself() {
        let (disk, files) = files();
        let late = files.create().expect("a file");
        let next = SpillFiles::new(&disk, Path::new("/instance"));
        let file = next.create().expect("a file");
        drop(late);
        assert!(disk.exists(file.path()));
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let (disk, files) = files();
        files.prepare().expect("a folder");
        let left = std::mem::ManuallyDrop::new(files.create().expect("a file"));
        let other = files.folder().join("data.ndf");
        disk.open(&other, OpenOptions { create_new: true, ..OpenOptions::default() }).expect("a user's file");
        let next = SpillFiles::new(&disk, Path::new("/instance"));
        next.prepare().expect("a folder");
        assert!(!disk.exists(left.path()) && disk.exists(&other));
    }
}
