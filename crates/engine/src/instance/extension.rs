//! The buffer pool extension of an instance: its file, its memory, its state.
//!
//! The file's name is removed as soon as the file is open. So nothing is left behind, however the process ends. What is
//! copied there and when is decided in `hobt-buffer`.

use std::path::{Path, PathBuf};

use hobt_access::AccessError;
use hobt_base::{PAGE_SIZE, errors};
use hobt_buffer::{BufferError, BufferPool, ExtensionStatistics};
use hobt_disk::{DiskError, OpenOptions};
use hobt_txn::MemoryAccount;

use super::Instance;
use super::plan::in_use;
use crate::error::{EngineError, Result, cannot_create};

/// An extension is at most so many times as large as the pool, as in SQL Server.
const TIMES_POOL_MAX: u64 = 32;
const MEGABYTE: u64 = 1 << 20;

/// An extension that was switched on.
#[derive(Debug)]
pub(super) struct Extension {
    path: PathBuf,
    bytes: u64,
    /// Held for as long as the pool has the map.
    _memory: MemoryAccount,
}

/// The extension as views show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExtensionDescription {
    /// The path that the user gave, resolved. There is no such name any more.
    pub path: PathBuf,
    /// The size of its file in bytes.
    pub bytes: u64,
    /// What the pool says of it.
    pub statistics: ExtensionStatistics,
}

impl Instance {
    /// Switches the buffer pool extension on, in a new file of so many bytes. Lasts until it is switched off or the
    /// instance is closed. One whose device has failed is replaced. Blocks while the file is allocated.
    ///
    /// # Errors
    /// 872 it is on, 868 the file is no larger than the pool, 864 it is more than 32 times as large; 5170, 5123, 5149,
    /// 1834 as for a database's files; 701 for the memory of its map.
    pub fn start_buffer_pool_extension(&self, path: &Path, bytes: u64) -> Result<()> {
        let _alone = self.definitions.lock();
        let is_usable = |found: ExtensionStatistics| found.failed.is_none();
        if self.pool().extension_statistics().is_some_and(is_usable) {
            return Err(EngineError::Statement(errors::EXTENSION_ENABLED.error()));
        }
        let pool_bytes = self.pool().statistics().frames * PAGE_SIZE as u64;
        if bytes <= pool_bytes {
            return Err(EngineError::Statement(errors::EXTENSION_TOO_SMALL.with([&pool_bytes.div_ceil(MEGABYTE)])));
        }
        let largest = pool_bytes.saturating_mul(TIMES_POOL_MAX);
        if bytes > largest {
            let pages = |bytes: u64| bytes / PAGE_SIZE as u64;
            return Err(EngineError::Statement(errors::EXTENSION_TOO_LARGE.with([&pages(bytes), &pages(largest)])));
        }
        let path = self.allowed.place(&*self.disk, path)?;
        if let Some(owner) = self.owner_of(&path) {
            return Err(in_use(&path, &owner));
        }
        self.end_extension();
        let memory = MemoryAccount::new(&self.memory, "Buffer pool extension");
        let refused = |error| EngineError::from(AccessError::OutOfMemory(error));
        memory.grow(BufferPool::extension_memory_bytes(bytes)).map_err(refused)?;
        let options = OpenOptions { create_new: true, read_only: false, direct: true };
        let file = self.disk.open(&path, options).map_err(|error| cannot_create(&path, &error))?;
        // Before the file gets its size, which may take long.
        let removed = self.disk.remove(&path);
        removed.and_then(|()| file.set_size(bytes)).map_err(|error: DiskError| cannot_create(&path, &error))?;
        self.pool().start_extension(file, bytes).map_err(|error| match error {
            BufferError::Disk(error) => EngineError::from(error),
            error => EngineError::Statement(errors::OUT_OF_MEMORY.with([&error])),
        })?;
        *self.extension.lock() = Some(Extension { path, bytes, _memory: memory });
        Ok(())
    }

    /// Switches the buffer pool extension off. Returns whether it was on. Waits for its writes.
    pub fn stop_buffer_pool_extension(&self) -> bool {
        let _alone = self.definitions.lock();
        self.end_extension()
    }

    /// The buffer pool extension, if it was switched on.
    pub fn buffer_pool_extension(&self) -> Option<ExtensionDescription> {
        let extension = self.extension.lock();
        let Extension { path, bytes, .. } = extension.as_ref()?;
        let statistics = self.pool().extension_statistics()?;
        Some(ExtensionDescription { path: path.clone(), bytes: *bytes, statistics })
    }

    /// Releases the extension: first the pool's part, then its memory.
    pub(super) fn end_extension(&self) -> bool {
        let was_on = self.pool().stop_extension();
        *self.extension.lock() = None;
        was_on
    }
}
