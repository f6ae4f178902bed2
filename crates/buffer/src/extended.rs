//! What the pool does with its extension: switching it on and off, finding copies, giving it what is evicted.
//!
//! How copies are kept, and when one is current, is in `extension.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hobt_base::{DatabaseId, PageId};
use hobt_disk::DiskFile;

use crate::error::BufferError;
use crate::extension::{Extension, ExtensionStatistics, Found, Retired, memory_bytes, places_of};
use crate::frames::{OwnedFrame, PageCell};
use crate::pool::{BufferPool, RegisteredFile};

impl BufferPool {
    /// The memory that an extension of so many bytes takes: its map and its buffers. It has whole batches of 512 KiB,
    /// at least four and at most 8 TiB.
    pub fn extension_memory_bytes(file_bytes: u64) -> u64 {
        memory_bytes(file_bytes)
    }

    /// Switches the extension on, in a file of so many bytes that has room. An extension whose device has failed is
    /// replaced. Nothing of what the file has is read.
    ///
    /// # Errors
    /// [`BufferError::InUse`] when it is on; [`BufferError::Memory`], [`BufferError::Disk`].
    pub fn start_extension(&self, disk: Arc<dyn DiskFile>, file_bytes: u64) -> Result<(), BufferError> {
        let mut slot = self.extension.write();
        if slot.as_ref().is_some_and(|extension| extension.is_usable()) {
            return Err(BufferError::InUse);
        }
        *slot = Some(Arc::new(Extension::new(disk, places_of(file_bytes))?));
        self.is_extended.store(true, Ordering::Release);
        Ok(())
    }

    /// Switches the extension off. Waits for its writes. Returns whether it was on; one whose device failed was.
    pub fn stop_extension(&self) -> bool {
        self.is_extended.store(false, Ordering::Release);
        let stopped = self.extension.write().take();
        if let Some(extension) = &stopped {
            extension.drain();
        }
        stopped.is_some()
    }

    /// The extension's state; `None` if it is off.
    pub fn extension_statistics(&self) -> Option<ExtensionStatistics> {
        self.extension().map(|extension| extension.statistics())
    }

    /// Calls `visit` for each page that the extension has a current copy of.
    pub fn visit_extension(&self, mut visit: impl FnMut(DatabaseId, PageId)) {
        let Some(extension) = self.extension().filter(|extension| extension.is_usable()) else { return };
        let files = self.registered_files();
        extension.visit(|key, version| {
            let file = files.iter().find(|file| file.registration == key.registration());
            let Some((file, cell)) = file.and_then(|file| Some((file, file.words.get(key.number())?))) else { return };
            let word = cell.load();
            if word.is_absent() && word.version_number() == version {
                visit(file.database, PageId::new(file.file(), key.number()));
            }
        });
    }

    /// The extension, if it is on.
    pub(crate) fn extension(&self) -> Option<Arc<Extension>> {
        if !self.is_extended() {
            return None;
        }
        self.extension.read().clone()
    }

    /// Whether there may be copies.
    pub(crate) fn is_extended(&self) -> bool {
        self.is_extended.load(Ordering::Acquire)
    }

    /// The copy of a page that the caller has claimed, if it is current.
    pub(crate) fn find_copy(&self, file: &RegisteredFile, cell: PageCell<'_>) -> Option<Found> {
        let key = file.key(cell.number());
        self.extension()?.find(key, cell.load().version_number())
    }

    /// Gives the extension the pages that have just left these frames.
    pub(crate) fn retire<'a>(
        &self,
        extension: &Extension,
        pages: impl IntoIterator<Item = (&'a OwnedFrame, &'a Retired)>,
    ) {
        extension.reap();
        for (frame, retired) in pages {
            if !extension.is_usable() {
                return;
            }
            if let Some((first, buffer)) = extension.retire(retired, frame.bytes(&self.memory)) {
                extension.write(first, buffer);
            }
        }
    }

    /// Forgets the copies of files that `is_gone`.
    pub(crate) fn forget_copies(&self, is_gone: impl Fn(u32) -> bool) {
        if let Some(extension) = self.extension() {
            extension.forget(is_gone);
        }
    }
}
