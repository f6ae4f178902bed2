//! Data files below the page level: their two header pages, their locks, the clean flag.
//!
//! Pages 0 and 1 hold the header and its copy. Every write goes to both. A copy that fails its checks is rewritten from
//! the other one when the database is next changed, so a crash between the two writes, or a bad sector, loses nothing.
//! What a crash cannot explain (a file of another database, a file of another version, a truncated file) is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hobt_base::{EXTENT_PAGES, FileId, FilegroupId, HobtId, Lsn, PAGE_SIZE, PageId, crc32c};
use hobt_catalog::{DatabaseFile, Growth};
use hobt_disk::{AlignedBuffer, CopyGuard, Disk, DiskError, DiskFile, OpenOptions};
use hobt_instruments::{Wait, WaitType};
use hobt_log::LogFileLabel;
use hobt_page::{
    AllocationMap, BOOT_COPY_PAGE, BOOT_PAGE, BootPage, FILE_HEADER_COPY_PAGE, FILE_HEADER_PAGE, FileHeader,
    INTERVAL_PAGES, MAP_PAGE_IN_INTERVAL, PageBytes, PageChange, PageDamage, PageHeader, PageType, RESERVED_PAGES,
    apply, seal, verify,
};

use crate::log_file::log_id;

/// A file to be created.
#[derive(Clone, Debug)]
pub(crate) struct FilePlan {
    pub(crate) file: FileId,
    pub(crate) filegroup: FilegroupId,
    pub(crate) name: String,
    /// Absolute and allowed.
    pub(crate) path: PathBuf,
    pub(crate) size_pages: u32,
    pub(crate) growth: Growth,
    pub(crate) max_pages: Option<u32>,
}

/// A data file that is open and locked, with its header.
pub(crate) struct DataFile {
    pub(crate) path: PathBuf,
    pub(crate) disk: Arc<dyn DiskFile>,
    /// In front of the file, whatever `disk` is: what is overwritten passes by the copies of snapshots.
    pub(crate) guard: Arc<CopyGuard>,
    pub(crate) header: FileHeader,
}

/// Why a file cannot be used.
#[derive(Debug)]
pub(crate) enum FileProblem {
    /// The file does not exist, is locked, or the device fails: it may be accessible later.
    Inaccessible(DiskError),
    /// Its content is not valid for this database.
    Invalid(String),
}

impl std::fmt::Display for FileProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FileProblem::Inaccessible(error) => error.fmt(f),
            FileProblem::Invalid(text) => f.write_str(text),
        }
    }
}

/// How long to wait for the lock of a file that is to be opened.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// How often the lock is tried meanwhile.
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// Locks a file, waiting up to [`LOCK_PATIENCE`]. After a process is killed in the middle of transfers, the kernel may
/// release its files only a moment after the process is gone, so a lock that is held is tried again for a while. The
/// system's own blocking lock call has no timeout: this polls, but only if the first attempt finds the file locked.
pub(crate) fn lock_patiently(file: &dyn DiskFile) -> Result<(), DiskError> {
    try_patiently(&|| file.try_lock_exclusive())
}

/// As [`lock_patiently`], for one who only reads, beside others.
pub(crate) fn share_patiently(file: &dyn DiskFile) -> Result<(), DiskError> {
    try_patiently(&|| file.try_lock_shared())
}

fn try_patiently(lock: &dyn Fn() -> Result<(), DiskError>) -> Result<(), DiskError> {
    let mut waits = None;
    let since = Instant::now();
    loop {
        match lock() {
            Err(DiskError::Locked { .. }) if since.elapsed() < LOCK_PATIENCE => {
                waits.get_or_insert_with(|| Wait::begin(WaitType::PreemptiveFileOps));
                std::thread::sleep(LOCK_RETRY);
            }
            other => return other,
        }
    }
}

fn growth_columns(growth: Growth) -> (u32, u32) {
    match growth {
        Growth::None => (0, 0),
        Growth::Pages(pages) => (pages, 0),
        Growth::Percent(percent) => (0, percent),
    }
}

/// Reads page `number` without the pool.
fn read_page(disk: &dyn DiskFile, number: u32) -> Result<Box<PageBytes>, DiskError> {
    let mut buffer = AlignedBuffer::new(PAGE_SIZE)?;
    disk.read_at(&mut buffer, PageId::new(FileId(0), number).byte_offset())?;
    Ok(Box::new(buffer[..].try_into().expect("a page's bytes")))
}

fn write_page(disk: &dyn DiskFile, number: u32, page: &PageBytes) -> Result<(), DiskError> {
    let mut buffer = AlignedBuffer::new(PAGE_SIZE)?;
    buffer.copy_from_slice(page);
    disk.write_at(&buffer, PageId::new(FileId(0), number).byte_offset())
}

/// Decodes one copy of the header.
fn decode_header(page: &PageBytes, number: u32) -> Result<FileHeader, PageDamage> {
    let expected = u32::from_le_bytes([page[0], page[1], page[2], page[3]]);
    let actual = crc32c(&page[4..]);
    if expected != actual {
        return Err(PageDamage::Checksum { expected, actual });
    }
    let header = FileHeader::read(page)?;
    verify(page, PageId::new(header.file, number), header.database_tag())?;
    Ok(header)
}

/// Whether a file does not belong to the database `guid`: its header says so, or the label of a log file, or another
/// process holds its lock. `false` if the file is damaged, because its owner is then unknown, or if it cannot be
/// opened.
pub(crate) fn is_of_another(disk: &dyn Disk, path: &Path, guid: &[u8; 16]) -> bool {
    let options = OpenOptions { create_new: false, read_only: false, direct: true };
    let Ok(file) = disk.open(path, options) else { return false };
    if file.try_lock_exclusive().is_err() {
        return true;
    }
    match DataFile::header_of(&*file) {
        Some(header) => header.database_guid != *guid,
        None => LogFileLabel::read(&*file).is_ok_and(|label| label.is_some_and(|label| label.log != log_id(guid))),
    }
}

/// Reads the header from the first copy of the header that passes its checks.
fn read_header(disk: &dyn DiskFile) -> Result<FileHeader, FileProblem> {
    let mut problems = Vec::new();
    for number in [FILE_HEADER_PAGE, FILE_HEADER_COPY_PAGE] {
        match read_page(disk, number).map(|page| decode_header(&page, number)) {
            Ok(Ok(header)) => return Ok(header),
            // Another version's file is intact, and its other copy has the same version.
            Ok(Err(damage @ PageDamage::Format { .. })) => return Err(invalid(disk.path(), "version", damage)),
            Ok(Err(damage)) => problems.push(damage.to_string()),
            Err(error) => problems.push(error.to_string()),
        }
    }
    Err(invalid(disk.path(), "checksum", problems.join("; of its copy: ")))
}

/// Error 5172.
fn invalid(path: &Path, property: &str, why: impl std::fmt::Display) -> FileProblem {
    FileProblem::Invalid(format!(
        "the header for file '{}' is not a valid database file header. The {property} property is incorrect: {why}",
        path.display()
    ))
}

/// An allocation map page in which only the reserved pages are allocated.
fn empty_map(header: &FileHeader, id: PageId) -> Box<PageBytes> {
    let mut page = Box::new([0; PAGE_SIZE]);
    let header = PageHeader::new(PageType::AllocationMap, id, header.database_tag(), HobtId(0));
    let mut change = |change| {
        let changed = apply(&mut page, None, &change);
        assert!(matches!(changed, Ok(Some(_))), "an empty page takes a map");
    };
    change(PageChange::Format { header });
    let (offset, bytes) = AllocationMap::set_bytes(&[0; PAGE_SIZE], 0, RESERVED_PAGES / EXTENT_PAGES, true);
    change(PageChange::Write { offset, bytes });
    seal(&mut page);
    page
}

impl DataFile {
    /// Creates, locks and sizes a file and writes its header, not clean. Removes the file again if that fails.
    pub(crate) fn create(disk: &dyn Disk, plan: &FilePlan, guid: [u8; 16]) -> Result<DataFile, DiskError> {
        let made = DataFile::create_without_header(disk, plan, guid)?;
        if let Err(error) = made.write_header() {
            drop(made);
            // The first error is the one to report; a file left behind is later refused as existing.
            let _ = disk.remove(&plan.path);
            return Err(error);
        }
        Ok(made)
    }

    /// Creates, locks and sizes a file. Its header is written when the file is whole. Removes the file again if that
    /// fails.
    pub(crate) fn create_without_header(
        disk: &dyn Disk,
        plan: &FilePlan,
        guid: [u8; 16],
    ) -> Result<DataFile, DiskError> {
        let options = OpenOptions { create_new: true, read_only: false, direct: true };
        let file = disk.open(&plan.path, options)?;
        let (growth_pages, growth_percent) = growth_columns(plan.growth);
        let header = FileHeader {
            database_guid: guid,
            file: plan.file,
            filegroup: plan.filegroup,
            size_pages: plan.size_pages,
            growth_pages,
            growth_percent,
            max_pages: plan.max_pages.unwrap_or(0),
            clean: false,
            generation: 0,
            log_end: Lsn(0),
            name: plan.name.clone(),
        };
        let guard = CopyGuard::new(file);
        let opened = Arc::clone(&guard) as Arc<dyn DiskFile>;
        let made = DataFile { path: plan.path.clone(), disk: opened, guard, header };
        let ready = made
            .disk
            .try_lock_exclusive()
            .and_then(|()| made.disk.set_size(u64::from(plan.size_pages) * PAGE_SIZE as u64));
        if let Err(error) = ready {
            drop(made);
            // The first error is the one to report; a file left behind is later refused as existing.
            let _ = disk.remove(&plan.path);
            return Err(error);
        }
        Ok(made)
    }

    /// Completes a new file: writes allocation maps with all pages free, and a header with the database's `generation`.
    /// From now on the database can be opened with the file, even if the statement that adds it fails.
    pub(crate) fn complete(&mut self, generation: u64) -> Result<(), DiskError> {
        for interval in (0..self.header.size_pages).step_by(INTERVAL_PAGES as usize) {
            let number = interval + MAP_PAGE_IN_INTERVAL;
            write_page(&*self.disk, number, &empty_map(&self.header, PageId::new(self.header.file, number)))?;
        }
        self.disk.sync()?;
        self.header.generation = generation;
        self.write_header()
    }

    /// Opens, locks and checks a file that the catalog lists as `file` of the database `guid`.
    pub(crate) fn open(disk: &dyn Disk, path: &Path, file: FileId, guid: [u8; 16]) -> Result<DataFile, FileProblem> {
        let opened = DataFile::open_any(disk, path)?;
        if opened.header.database_guid != guid {
            return Err(invalid(path, "database guid", "the file belongs to another database"));
        }
        if opened.header.file != file {
            let why = format!("the file is number {}, and number {file} is expected", opened.header.file);
            return Err(invalid(path, "file id", why));
        }
        Ok(opened)
    }

    /// Opens, locks and checks a file, of any database.
    pub(crate) fn open_any(disk: &dyn Disk, path: &Path) -> Result<DataFile, FileProblem> {
        let options = OpenOptions { create_new: false, read_only: false, direct: true };
        let file = disk.open(path, options).map_err(FileProblem::Inaccessible)?;
        lock_patiently(&*file).map_err(FileProblem::Inaccessible)?;
        DataFile::of(path, file)
    }

    /// The file `file` of the database `guid`, from what is read as it.
    pub(crate) fn over(
        path: &Path,
        disk: Arc<dyn DiskFile>,
        file: FileId,
        guid: [u8; 16],
    ) -> Result<DataFile, FileProblem> {
        let opened = DataFile::of(path, disk)?;
        match opened.header.database_guid == guid && opened.header.file == file {
            true => Ok(opened),
            false => Err(invalid(path, "database guid", "the file belongs to another database")),
        }
    }

    fn of(path: &Path, file: Arc<dyn DiskFile>) -> Result<DataFile, FileProblem> {
        let size = file.size().map_err(FileProblem::Inaccessible)?;
        let truncated = |header_pages: u32| {
            FileProblem::Invalid(format!(
                "file '{}' appears to have been truncated by the operating system. Expected size is {} KB but actual \
                 size is {} KB",
                path.display(),
                u64::from(header_pages) * 8,
                size / 1024
            ))
        };
        if size < 2 * PAGE_SIZE as u64 {
            return Err(truncated(2));
        }
        let header = read_header(&*file)?;
        if size < u64::from(header.size_pages) * PAGE_SIZE as u64 {
            return Err(truncated(header.size_pages));
        }
        let guard = CopyGuard::new(file);
        Ok(DataFile { path: path.to_path_buf(), disk: Arc::clone(&guard) as Arc<dyn DiskFile>, guard, header })
    }

    /// The header of a file that may not be a data file; `None` if it cannot be read.
    pub(crate) fn header_of(file: &dyn DiskFile) -> Option<FileHeader> {
        DataFile::whole_header_of(file).ok().flatten()
    }

    /// Reads the header of a file that may have none; `None` if neither copy was ever written completely.
    ///
    /// # Errors
    /// The device fails, so it is unknown whether there is a header. The file was written by another version.
    pub(crate) fn whole_header_of(file: &dyn DiskFile) -> Result<Option<FileHeader>, FileProblem> {
        if file.size().map_err(FileProblem::Inaccessible)? < 2 * PAGE_SIZE as u64 {
            return Ok(None);
        }
        let mut unread = None;
        for number in [FILE_HEADER_PAGE, FILE_HEADER_COPY_PAGE] {
            match read_page(file, number).map(|page| decode_header(&page, number)) {
                Ok(Ok(header)) => return Ok(Some(header)),
                // A header that was never written has version 0.
                Ok(Err(damage @ PageDamage::Format { found: 1.. })) => {
                    return Err(invalid(file.path(), "version", damage));
                }
                Ok(Err(_not_whole)) => {}
                Err(error) => unread = Some(error),
            }
        }
        unread.map_or(Ok(None), |error| Err(FileProblem::Inaccessible(error)))
    }

    /// Whether a file's allocation maps are those of a newly created file.
    pub(crate) fn is_all_free(file: &dyn DiskFile, header: &FileHeader) -> bool {
        (0..header.size_pages).step_by(INTERVAL_PAGES as usize).all(|interval| {
            let number = interval + MAP_PAGE_IN_INTERVAL;
            let empty = empty_map(header, PageId::new(header.file, number));
            read_page(file, number).is_ok_and(|page| *page == *empty)
        })
    }

    /// Writes both copies of the header and syncs the file. Each copy is durable before the other is written.
    pub(crate) fn write_header(&self) -> Result<(), DiskError> {
        for number in [FILE_HEADER_PAGE, FILE_HEADER_COPY_PAGE] {
            write_page(&*self.disk, number, &self.header.to_page(number))?;
            self.disk.sync()?;
        }
        Ok(())
    }

    /// Reads one copy of the header, page 0 or 1.
    pub(crate) fn read_header_copy(&self, number: u32) -> Result<Result<FileHeader, PageDamage>, DiskError> {
        Ok(decode_header(&*read_page(&*self.disk, number)?, number))
    }

    /// Rewrites both copies of the header if one of them is as an interrupted write leaves it: torn, or older in the
    /// fields that change while the database is in use. Other damage is left for `DBCC CHECKDB` to report. Returns the
    /// torn copy, if there is one, and its damage.
    pub(crate) fn mend_header_copies(&self) -> Result<Option<(PageId, PageDamage)>, DiskError> {
        for number in [FILE_HEADER_PAGE, FILE_HEADER_COPY_PAGE] {
            let is_cut_off = match self.read_header_copy(number)? {
                Err(damage @ PageDamage::Checksum { .. }) => {
                    self.write_header()?;
                    return Ok(Some((PageId::new(self.header.file, number), damage)));
                }
                Err(_) => false,
                Ok(copy) if copy == self.header => false,
                Ok(copy) => {
                    let FileHeader { clean, generation, log_end, size_pages, .. } = self.header;
                    FileHeader { clean, generation, log_end, size_pages, ..copy } == self.header
                }
            };
            if is_cut_off {
                self.write_header()?;
                break;
            }
        }
        Ok(None)
    }

    /// Rewrites both copies of the boot page if one of them is as an interrupted write leaves it. The file must be the
    /// database's first. Returns the same as [`DataFile::mend_header_copies`].
    pub(crate) fn mend_boot_copies(&self, boot: &BootPage) -> Result<Option<(PageId, PageDamage)>, DiskError> {
        for number in [BOOT_PAGE, BOOT_COPY_PAGE] {
            let is_cut_off = match self.read_boot_copy(number)? {
                Err(damage @ PageDamage::Checksum { .. }) => {
                    self.write_boot(boot)?;
                    return Ok(Some((PageId::new(self.header.file, number), damage)));
                }
                Err(_) => false,
                Ok(copy) if copy == *boot => false,
                Ok(copy) => BootPage { max_stamp: boot.max_stamp, options: boot.options, ..copy } == *boot,
            };
            if is_cut_off {
                self.write_boot(boot)?;
                break;
            }
        }
        Ok(None)
    }

    /// Reads one copy of the boot page. The file must be the database's first.
    pub(crate) fn read_boot_copy(&self, number: u32) -> Result<Result<BootPage, PageDamage>, DiskError> {
        let page = read_page(&*self.disk, number)?;
        let checked = verify(&page, PageId::new(FileId(1), number), self.header.database_tag());
        Ok(checked.and_then(|()| BootPage::read(&page)))
    }

    /// Reads the boot page. The file must be the database's first.
    pub(crate) fn read_boot(&self) -> Result<Result<BootPage, PageDamage>, DiskError> {
        match self.read_boot_copy(BOOT_PAGE)? {
            Ok(boot) => Ok(Ok(boot)),
            // A crash tore a write of this copy. The other copy has the previous contents, or the same.
            Err(damage) => Ok(self.read_boot_copy(BOOT_COPY_PAGE)?.map_err(|_| damage)),
        }
    }

    /// Writes both copies of the boot page. Each is durable before the other is written.
    pub(crate) fn write_boot(&self, boot: &BootPage) -> Result<(), DiskError> {
        for number in [BOOT_PAGE, BOOT_COPY_PAGE] {
            write_page(&*self.disk, number, &boot.to_page(number))?;
            self.disk.sync()?;
        }
        Ok(())
    }

    /// The file as a row of the catalog snapshot.
    pub(crate) fn database_file(&self) -> DatabaseFile {
        let header = &self.header;
        DatabaseFile {
            id: header.file,
            filegroup: header.filegroup,
            name: header.name.clone(),
            path: self.path.clone(),
            growth: match (header.growth_pages, header.growth_percent) {
                (0, 0) => Growth::None,
                (0, percent) => Growth::Percent(percent),
                (pages, _) => Growth::Pages(pages),
            },
            max_pages: (header.max_pages != 0).then_some(header.max_pages),
        }
    }

    /// The file as the access methods expect it.
    pub(crate) fn description(&self) -> hobt_access::DataFileDescription {
        let header = &self.header;
        hobt_access::DataFileDescription {
            file: header.file,
            filegroup: header.filegroup,
            name: header.name.clone(),
            path: self.path.clone(),
            disk: Arc::clone(&self.disk),
            size_pages: header.size_pages,
            growth_pages: header.growth_pages,
            growth_percent: header.growth_percent,
            max_pages: header.max_pages,
        }
    }
}
