//! Writes the pages of a backup set to files.
//!
//! The header pages, the boot page and the maps of written extents are left out: they are the restored database's own,
//! and are written when everything else is there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hobt_backup::{BlockBuffer, SavedBlock, SetFacts, SetReader};
use hobt_base::{FileId, PAGE_SIZE, PageId, errors};
use hobt_disk::DiskFile;
use hobt_instruments::schedule::Mutex;
use hobt_instruments::{Wait, WaitType};
use hobt_page::{
    BOOT_COPY_PAGE, BOOT_PAGE, BootPage, FILE_HEADER_COPY_PAGE, FILE_HEADER_PAGE, PageBytes, WrittenMap, verify,
};

use super::Source;
use crate::data_file::DataFile;
use crate::error::{EngineError, Result};
use crate::instance::backup::{ObserveBackup, of_read};
use crate::instance::workers::work_together;

/// Threads that write pages, each one block at a time: so many transfers keep a disk busy.
const WORKERS: usize = 16;

/// The files that pages are restored to.
pub(super) struct Target {
    /// By file id, with the size in pages.
    pub(super) files: HashMap<u16, (Arc<dyn DiskFile>, u32)>,
    pub(super) database_tag: u32,
    /// One thread, so that the order of operations is the same in every run.
    pub(super) is_simulated: bool,
}

impl Target {
    /// Files that are there, made as long as a backup has them: they may have grown before it.
    pub(super) fn over(files: &[DataFile], facts: &SetFacts, is_simulated: bool) -> Result<Target> {
        let mut by_id = HashMap::new();
        for file in files {
            let fact = facts.files.iter().find(|fact| fact.id == file.header.file.0);
            let pages = fact.map_or(0, |fact| fact.pages).max(file.header.size_pages);
            let bytes = u64::from(pages) * PAGE_SIZE as u64;
            if file.disk.size()? < bytes {
                file.disk.set_size(bytes)?;
            }
            by_id.insert(file.header.file.0, (file.disk.clone(), pages));
        }
        Ok(Target { files: by_id, database_tag: files[0].header.database_tag(), is_simulated })
    }
}

/// The progress of a restore.
pub(super) struct RestoreProgress<'a> {
    pub(super) observe: ObserveBackup<'a>,
    pub(super) done: AtomicU64,
    pub(super) all: u64,
}

impl RestoreProgress<'_> {
    pub(super) fn add(&self, bytes: usize) {
        self.done.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> Result<()> {
        let done = self.done.load(Ordering::Relaxed).min(self.all);
        (self.observe)(done, self.all).map_err(EngineError::Statement)
    }
}

/// Writes all pages of a backup set, and syncs the files. Returns the boot page, if it is among them. If it
/// `is_given_up` meanwhile, pages are missing.
pub(super) fn restore_pages(
    reader: &SetReader,
    target: &Target,
    progress: &RestoreProgress<'_>,
    is_given_up: &AtomicBool,
) -> Result<Option<BootPage>> {
    let boot = Mutex::new(None);
    while let Some(pass) = reader.next_pass().map_err(of_read)?
        && !is_given_up.load(Ordering::Relaxed)
    {
        let is_over = AtomicBool::new(false);
        let flags = [&is_over, is_given_up];
        let worker = Worker { reader, target, boot: &boot, flags, done: &progress.done, pass };
        let others = if target.is_simulated { 1 } else { WORKERS };
        work_together(
            ("restore", 1..others),
            &is_over,
            |_| worker.write_all(&mut || Ok(())),
            |_| worker.write_all(&mut || progress.report()),
        )?;
    }
    for (file, _) in target.files.values() {
        file.sync()?;
    }
    Ok(boot.into_inner())
}

struct Worker<'a> {
    reader: &'a SetReader,
    target: &'a Target,
    boot: &'a Mutex<Option<BootPage>>,
    /// When one is set, no further block is taken.
    flags: [&'a AtomicBool; 2],
    done: &'a AtomicU64,
    pass: u32,
}

impl Worker<'_> {
    fn write_all(&self, report: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut buffer = BlockBuffer::new().map_err(of_read)?;
        while self.flags.iter().all(|flag| !flag.load(Ordering::Relaxed)) {
            let Some(block) = self.reader.next_data(self.pass, &mut buffer).map_err(of_read)? else { break };
            self.write(&block)?;
            self.done.fetch_add(block.payload.len() as u64, Ordering::Relaxed);
            report()?;
        }
        Ok(())
    }

    fn write(&self, block: &SavedBlock<'_>) -> Result<()> {
        let content = &block.content;
        let wrong = || {
            let why = format!("pages {}:{} of no file of the database", content.file, content.first);
            EngineError::Statement(errors::BACKUP_SET_DAMAGED.with([&why]))
        };
        let (file, pages) = self.target.files.get(&content.file).ok_or_else(wrong)?;
        let (whole, rest) = block.payload.as_chunks::<PAGE_SIZE>();
        let end = content.first.checked_add(content.count).ok_or_else(wrong)?;
        if !rest.is_empty() || whole.len() as u64 != content.count || end > u64::from(*pages) {
            return Err(wrong());
        }
        let first = u32::try_from(content.first).map_err(|_| wrong())?;
        let mut from = 0;
        for (place, number) in (0..=whole.len()).zip(first..) {
            let is_own = place < whole.len() && self.is_own(content.file, number, &whole[place]);
            if place < whole.len() && !is_own {
                continue;
            }
            if from < place {
                let id = PageId::new(FileId(content.file), first + u32::try_from(from).map_err(|_| wrong())?);
                let bytes = &block.payload[from * PAGE_SIZE..place * PAGE_SIZE];
                let _wait = Wait::begin(WaitType::BackupIo);
                file.write_at(bytes, id.byte_offset())?;
            }
            from = place + 1;
        }
        Ok(())
    }

    /// Whether a page is left out. Notes the boot page.
    fn is_own(&self, file: u16, number: u32, page: &PageBytes) -> bool {
        if file == 1 && (number == BOOT_PAGE || number == BOOT_COPY_PAGE) {
            let id = PageId::new(FileId(1), number);
            let read = verify(page, id, self.target.database_tag).and_then(|()| BootPage::read(page));
            if let Ok(read) = read {
                // The first copy is written first.
                let mut boot = self.boot.lock();
                if number == BOOT_PAGE || boot.is_none() {
                    *boot = Some(read);
                }
            }
            return true;
        }
        let is_header = number == FILE_HEADER_PAGE || number == FILE_HEADER_COPY_PAGE;
        is_header || WrittenMap::is_map(number)
    }
}

/// The error for a block of the log that is missing.
pub(super) fn missing_log(source: &Source<'_>, at: u64) -> EngineError {
    let path = source.media.files().first().map(|file| file.path().to_path_buf()).unwrap_or_default();
    let what = format!("records of the log at {at} are missing in '{}'", path.display());
    EngineError::Statement(errors::BACKUP_SET_DAMAGED.with([&what]))
}
