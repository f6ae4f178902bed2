//! A file that appears under its name when it is complete, or not at all.
//!
//! It is written under a temporary name in the same folder. While it grows, a thread of its own asks the system to
//! write what is there to the device, so that little is left to wait for at the end.
//!
//! Not here: what is in the file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::error::{Result, WriteError};

/// After so many bytes the system is asked to write them.
const SYNC_BYTES: u64 = 32 << 20;

/// Tells the temporary names of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A file under a temporary name. It is removed when it is dropped, unless it was published.
#[derive(Debug)]
pub(super) struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    replaces: bool,
    file: File,
    /// Bytes written.
    length: u64,
    /// Bytes of which the thread that syncs was told.
    told: u64,
    syncing: Option<Syncing>,
    is_published: bool,
}

/// The thread that syncs while the file grows.
#[derive(Debug)]
struct Syncing {
    more: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl Syncing {
    /// `None` if the system starts no thread: then all is synced at the end.
    fn begin(file: &File) -> Option<Syncing> {
        let file = file.try_clone().ok()?;
        let (more, wanted) = sync_channel(1);
        let sync = move || wanted.iter().try_for_each(|()| file.sync_data());
        let thread = std::thread::Builder::new().name("file sync".to_owned()).spawn(sync).ok()?;
        Some(Syncing { more, thread })
    }

    /// Waits for the sync that runs.
    fn end(self) -> io::Result<()> {
        drop(self.more);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl NewFile {
    /// Creates the file under a temporary name. Blocks on the disk.
    ///
    /// # Errors
    /// If the folder is missing, the system refuses, `path` is there and no regular file, or it is there and is not to
    /// be replaced.
    pub(super) fn create(path: &Path, replaces: bool) -> Result<NewFile> {
        check(path, replaces)?;
        let Some(name) = path.file_name() else {
            return Err(WriteError::Unfit(format!("{} names no file", path.display())));
        };
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let temporary = path.with_file_name(hidden);
        let file = File::options().write(true).create_new(true).open(&temporary).map_err(WriteError::io(path))?;
        let syncing = Syncing::begin(&file);
        let path = path.to_path_buf();
        Ok(NewFile { path, temporary, replaces, file, length: 0, told: 0, syncing, is_published: false })
    }

    /// The name that it gets.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes written so far.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Makes what was written durable. Blocks on the disk.
    pub(super) fn sync(&mut self) -> Result<()> {
        let early = self.syncing.take().map_or(Ok(()), Syncing::end);
        early.and_then(|()| self.file.sync_all()).map_err(WriteError::io(&self.path))
    }

    /// Gives the file its name. It is to be synced before. Blocks on the disk.
    ///
    /// # Errors
    /// If the name was taken meanwhile, or the system refuses.
    pub(super) fn publish(mut self) -> Result<()> {
        check(&self.path, self.replaces)?;
        // A link is refused if the name was taken since the check, and a renaming is not. Some file systems have no
        // links.
        let is_linked = !self.replaces
            && match fs::hard_link(&self.temporary, &self.path) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(WriteError::Exists(self.path.clone()));
                }
                Err(_) => false,
            };
        if !is_linked {
            fs::rename(&self.temporary, &self.path).map_err(WriteError::io(&self.path))?;
            self.is_published = true;
        }
        File::open(folder_of(&self.path)).and_then(|folder| folder.sync_all()).map_err(WriteError::io(&self.path))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.length += count as u64;
        if self.length - self.told >= SYNC_BYTES
            && let Some(syncing) = &self.syncing
        {
            self.told = self.length;
            // A request that waits syncs these bytes, too. A thread that has ended has an error, which `sync` reports.
            let _waits_or_ended = syncing.more.try_send(());
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_published {
            // Where the system does not remove it there is nobody to tell: the error that led here is being reported.
            let _kept = fs::remove_file(&self.temporary);
        }
    }
}

/// The folder that has the file.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file may be written under this name. Asks the system, and creates nothing.
///
/// # Errors
/// As those of creating it, as far as they can be told before.
pub(super) fn check(path: &Path, replaces: bool) -> Result<()> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(WriteError::Unfit(format!("there is no folder {}", folder.display())));
    }
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(WriteError::Unfit(format!("{} is a folder", path.display()))),
        Ok(found) if !found.is_file() => {
            Err(WriteError::Unfit(format!("{} is a device or a pipe, and no file", path.display())))
        }
        Ok(_) if !replaces => Err(WriteError::Exists(path.to_path_buf())),
        _ => Ok(()),
    }
}
