//! Adding files to a running log and removing them.
//!
//! To add a file, first create it completely ([`NewLogFile::make`]), then add it to the caller's list of files, then
//! let it join. A file that is listed and has not joined joins when the log is opened. To remove a file, its removal is
//! first noted in the first file's header, then it is taken off the list, then it is released. At the next opening, the
//! list shows how far an interrupted removal came.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use hobt_disk::{DiskError, DiskFile};

use crate::file_header::FileHeader;
use crate::room::RoomFor;
use crate::segments::{OpenFile, create_file};
use crate::{LSN_FIRST, Log, LogError, LogFile};

/// A file of a log.
#[derive(Clone)]
pub struct LogFileRow {
    /// Its id.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// The file.
    pub disk: Arc<dyn DiskFile>,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its growth step in bytes.
    pub growth_bytes: u64,
    /// Its maximal size in bytes.
    pub bytes_max: u64,
}

/// The identity of a log file, from its own header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFileLabel {
    /// The id of its log.
    pub log: u64,
    /// Its id.
    pub id: u16,
    /// Whether it is the first one.
    pub is_first: bool,
    /// The number of the log's files, if it is the first one.
    pub files: u32,
}

impl LogFileLabel {
    /// Reads the label of a file; `None` if it is not a log file, or is damaged.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(disk: &dyn DiskFile) -> Result<Option<LogFileLabel>, DiskError> {
        match FileHeader::read(disk) {
            Ok(header) => Ok(Some(LogFileLabel {
                log: header.log,
                id: header.id,
                is_first: header.place == 0,
                files: header.files,
            })),
            Err(LogError::Disk(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }
}

/// A complete file that is not yet part of its log.
pub struct NewLogFile(OpenFile);

impl std::fmt::Debug for NewLogFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NewLogFile").field(&self.0.disk.path()).finish()
    }
}

impl NewLogFile {
    /// Creates a file for `log`. Blocks while the file is filled with zeros.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn make(log: &Log, file: &LogFile) -> Result<NewLogFile, LogError> {
        let segments = log.segments.lock();
        let last = segments.files.iter().map(|file| file.header.place).max().unwrap_or(0);
        drop(segments);
        create_file(file, (log.id(), 0), (last + 1, 0), LSN_FIRST, &AtomicBool::new(false)).map(NewLogFile)
    }
}

/// The result of taking a file off a list that is kept elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unlisted<E> {
    /// The list is without it.
    Done,
    /// The list is as before.
    Failed(E),
    /// Unknown before the next start.
    Unknown(E),
}

impl Log {
    /// The files, the first one first.
    pub fn files(&self) -> Vec<LogFileRow> {
        let segments = self.segments.lock();
        let row = |file: &OpenFile| LogFileRow {
            id: file.header.id,
            name: file.header.name.clone(),
            disk: Arc::clone(&file.disk),
            bytes: file.header.file_bytes(),
            growth_bytes: file.header.growth_bytes,
            bytes_max: file.header.bytes_max,
        };
        segments.files.iter().map(row).collect()
    }

    /// Adds a file to the log. Records are written there when the segments before it are used. Durable when it returns.
    /// No other file of the log has its id, and none that is being removed.
    ///
    /// # Errors
    /// The header of the first file cannot be written; the log has then failed.
    pub fn join(&self, file: NewLogFile) -> Result<(), LogError> {
        let _alone = self.growing.lock();
        let mut segments = self.segments.lock();
        self.check()?;
        let first = &mut segments.files[0];
        first.header.files += 1;
        let disk = Arc::clone(&first.disk);
        first.header.write_both(&*disk).inspect_err(|error| self.fail(error))?;
        let before = segments.free();
        segments.add_file(file.0);
        self.room.follow(before, segments.free());
        Ok(())
    }

    /// Releases a file that holds nothing needed. In between, `unlist` takes it off the list of files, durably. No lock
    /// of the log is held then: the list is in another database, whose checkpoint may wait for this log to grow.
    ///
    /// If it is not known whether the file is listed, it stays set aside, and the next opening follows the list.
    ///
    /// # Errors
    /// [`LogError::FileInUse`]: it is the first, holds records, or reservations need its room, or there is no such
    /// file, or another one is being removed. The error of `unlist`. The header of the first file cannot be written;
    /// the log has then failed.
    pub fn remove_file<E: From<LogError>>(&self, id: u16, unlist: impl FnOnce() -> Unlisted<E>) -> Result<(), E> {
        self.set_aside(id)?;
        match unlist() {
            Unlisted::Done => Ok(self.finish_removal(id)?),
            Unlisted::Failed(error) => {
                // If this fails, the log has failed, and the next opening follows the list.
                let _first_error_counts = self.take_back();
                Err(error)
            }
            Unlisted::Unknown(error) => Err(error),
        }
    }

    fn finish_removal(&self, id: u16) -> Result<(), LogError> {
        let _alone = self.growing.lock();
        let mut segments = self.segments.lock();
        self.check()?;
        let Some(file) = segments.files.iter().position(|file| file.header.id == id) else { return Ok(()) };
        segments.remove_file(file);
        segments.files[0].header.files -= 1;
        drop(segments);
        self.note_removal(0)
    }

    /// Undoes [`Log::set_aside`].
    fn take_back(&self) -> Result<(), LogError> {
        let _alone = self.growing.lock();
        self.note_removal(0)?;
        let mut segments = self.segments.lock();
        let before = segments.free();
        segments.put_back();
        self.room.follow(before, segments.free());
        Ok(())
    }

    /// Stops writes to a file and its growth, and notes in the first header that it is being removed.
    fn set_aside(&self, id: u16) -> Result<(), LogError> {
        let _alone = self.growing.lock();
        let mut segments = self.segments.lock();
        self.check()?;
        let place = segments.files.iter().position(|file| file.header.id == id);
        let why = match place {
            _ if segments.files[0].header.removing != 0 => "another file is being removed",
            None => "the log has no such file",
            Some(0) => "it is the first one",
            Some(file) if segments.is_used(file) => "it holds records that are still needed",
            Some(file) => {
                let before = segments.free();
                segments.set_aside(file);
                let less = segments.free();
                self.room.follow(before, less);
                drop(segments);
                if self.has_room(RoomFor::Work, 0) {
                    return self.note_removal(id);
                }
                self.segments.lock().put_back();
                self.room.follow(less, before);
                "what open transactions have reserved needs its room"
            }
        };
        Err(LogError::FileInUse { why })
    }

    fn note_removal(&self, id: u16) -> Result<(), LogError> {
        let mut segments = self.segments.lock();
        self.check()?;
        let first = &mut segments.files[0];
        first.header.removing = id;
        let disk = Arc::clone(&first.disk);
        first.header.write_both(&*disk).inspect_err(|error| self.fail(error))
    }
}
