//! A file as the crate `parquet` reads it: by position, so that threads share it, and never beyond its end.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use hobt_base::{SqlError, errors};
use hobt_instruments::{Wait, WaitType};
use hobt_txn::Progress;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

use crate::source::{cannot_open, cannot_read};

/// A Parquet file.
#[derive(Clone)]
pub(super) struct ParquetBytes {
    file: Arc<File>,
    pub(super) path: Arc<PathBuf>,
    then: Arc<Metadata>,
    progress: Arc<Progress>,
}

impl ParquetBytes {
    /// Opens a file.
    ///
    /// # Errors
    /// 4860, 4861.
    pub(super) fn open(path: &Path, progress: &Arc<Progress>) -> std::result::Result<ParquetBytes, SqlError> {
        let file = File::open(path).map_err(|error| cannot_open(path, &error))?;
        let then = file.metadata().map_err(|error| cannot_open(path, &error))?;
        if !then.is_file() {
            return Err(errors::BULK_FILE_NOT_OPENED.with([&path.display(), &"it is no regular file"]));
        }
        let (file, path, then) = (Arc::new(file), Arc::new(path.to_path_buf()), Arc::new(then));
        Ok(ParquetBytes { file, path, then, progress: Arc::clone(progress) })
    }

    /// The error for a file that cannot be decoded.
    pub(super) fn damaged(&self, error: &ParquetError) -> SqlError {
        errors::BULK_PARQUET_DAMAGED.with([&self.path.display(), error])
    }

    /// Whether the file is as it was opened.
    ///
    /// # Errors
    /// 4862.
    pub(super) fn check_unchanged(&self) -> std::result::Result<(), SqlError> {
        let now = self.file.metadata().map_err(|error| cannot_read(&self.path, &error))?;
        if now.len() != self.then.len() || now.modified().ok() != self.then.modified().ok() {
            return Err(errors::BULK_FILE_CHANGED.with([&self.path.display()]));
        }
        Ok(())
    }
}

impl Length for ParquetBytes {
    fn len(&self) -> u64 {
        self.then.len()
    }
}

impl ChunkReader for ParquetBytes {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<BufReader<From>> {
        Ok(BufReader::new(From { bytes: self.clone(), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // A damaged file may claim any length.
        if start.checked_add(length as u64).is_none_or(|end| end > self.len()) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} of a file of {}", self.len())));
        }
        let mut bytes = vec![0; length];
        let _reads = Wait::begin(WaitType::ImpProvIoWait);
        self.file.read_exact_at(&mut bytes, start)?;
        self.progress.add(length as u64);
        Ok(Bytes::from(bytes))
    }
}

/// A file from a position on.
pub(super) struct From {
    bytes: ParquetBytes,
    at: u64,
}

impl Read for From {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let _reads = Wait::begin(WaitType::ImpProvIoWait);
        let read = self.bytes.file.read_at(out, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
