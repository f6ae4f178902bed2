//! The work files of a restore of pages: what is known of them, between two statements.
//!
//! ```text
//!  0 magic "HOBTPAGE" | 8 version u32 | 12 checksum u32 (CRC-32C of all that follows) | 16 bytes that follow u64
//! 24 writes u64 | 32 position u64 | 40 base u64 | 48 the database's guid
//! 64 the pages (RolledPages::encode) | zeros up to the next 4 KiB
//! ```
//! There are two, beside the first data file, and they are written in turn. A crash in the middle of a write leaves the
//! other one, and the statement is repeated.

use std::path::PathBuf;

use hobt_access::RolledPages;
use hobt_base::{Lsn, crc32c, errors};
use hobt_disk::{AlignedBuffer, DiskError, DiskFile, OpenOptions, SECTOR_SIZE};

use super::PageRestore;
use crate::error::{EngineError, Result, cannot_create};
use crate::instance::Instance;
use crate::instance::registry::Entry;

const MAGIC: [u8; 8] = *b"HOBTPAGE";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
/// Bytes of a work file, at most: those of a thousand pages, and of what is known of their rows.
const WORK_BYTES_MAX: u64 = 256 << 20;

impl Instance {
    /// What was written last; `None` if there is nothing.
    ///
    /// # Errors
    /// A device's error.
    pub(super) fn read_page_restore(&self, entry: &Entry) -> Result<Option<PageRestore>> {
        let mut newest: Option<PageRestore> = None;
        for path in work_files(entry) {
            if !self.disk.exists(&path) {
                continue;
            }
            let file = self.disk.open(&path, OpenOptions { create_new: false, read_only: true, direct: true })?;
            let bytes = file.size()? / SECTOR_SIZE as u64 * SECTOR_SIZE as u64;
            let Ok(bytes) = usize::try_from(bytes) else { continue };
            if bytes < HEADER_BYTES || bytes as u64 > WORK_BYTES_MAX || !is_work_file(&*file, &entry.guid)? {
                continue;
            }
            let mut buffer = AlignedBuffer::new(bytes)?;
            file.read_at(&mut buffer, 0)?;
            let read = decode(&buffer, &entry.guid);
            newest = match (newest, read) {
                (Some(one), Some(other)) if one.writes > other.writes => Some(one),
                (one, other) => other.or(one),
            };
        }
        Ok(newest)
    }

    /// Writes it, durably.
    pub(super) fn write_page_restore(&self, entry: &Entry, restore: &mut PageRestore) -> Result<()> {
        restore.writes += 1;
        let [even, odd] = work_files(entry);
        let path = if restore.writes.is_multiple_of(2) { even } else { odd };
        let encoded = encode(restore, &entry.guid);
        let mut buffer = AlignedBuffer::new(encoded.len().next_multiple_of(SECTOR_SIZE))?;
        buffer[..encoded.len()].copy_from_slice(&encoded);
        buffer[encoded.len()..].fill(0);
        let failed = |error| cannot_create(&path, &error);
        let create_new = !self.disk.exists(&path);
        let file = self.disk.open(&path, OpenOptions { create_new, read_only: false, direct: true }).map_err(failed)?;
        if !is_work_file(&*file, &entry.guid).map_err(failed)? {
            return Err(EngineError::Statement(errors::FILE_EXISTS.with([&path.display()])));
        }
        file.write_at(&buffer, 0).map_err(failed)?;
        file.sync().map_err(failed)?;
        self.sync_folders(&[path.as_path()])
    }

    /// Removes the work files, if there are any.
    pub(in crate::instance) fn forget_page_restore(&self, entry: &Entry) {
        // A file of that name that is none of these stays.
        let is_one = |path: &PathBuf| {
            let found = self.disk.open(path, OpenOptions { create_new: false, read_only: true, direct: true });
            found.is_ok_and(|file| is_work_file(&*file, &entry.guid).unwrap_or(false))
        };
        let paths: Vec<PathBuf> = work_files(entry).into_iter().filter(is_one).collect();
        if !paths.is_empty() {
            self.remove_files(paths.iter().map(PathBuf::as_path));
        }
    }
}

/// Whether a file is a work file of the database with this guid, or was about to become one when a crash came.
fn is_work_file(file: &dyn DiskFile, guid: &[u8; 16]) -> std::result::Result<bool, DiskError> {
    let size = file.size()?;
    if size < SECTOR_SIZE as u64 {
        return Ok(size == 0);
    }
    let mut first = AlignedBuffer::new(SECTOR_SIZE)?;
    file.read_at(&mut first, 0)?;
    let is_its = first[..8] == MAGIC && first[48..64] == *guid;
    Ok(is_its || first.iter().all(|byte| *byte == 0))
}

/// The paths of the two files.
fn work_files(entry: &Entry) -> [PathBuf; 2] {
    let first = entry.files.lock().first().map(|(_, path)| path.clone()).unwrap_or_default();
    ["pages1", "pages2"].map(|ending| first.with_added_extension(ending))
}

fn encode(restore: &PageRestore, guid: &[u8; 16]) -> Vec<u8> {
    let pages = restore.pages.encode();
    let mut out = vec![0; HEADER_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let bytes = (HEADER_BYTES - 24 + pages.len()) as u64;
    for (at, number) in [(16, bytes), (24, restore.writes), (32, restore.position.0), (40, restore.base)] {
        out[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    out[48..64].copy_from_slice(guid);
    out.extend_from_slice(&pages);
    let checksum = crc32c(&out[16..]);
    out[12..16].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// What the bytes say of this database; `None` if they were not written completely, or are of another one.
fn decode(bytes: &[u8], guid: &[u8; 16]) -> Option<PageRestore> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
    let of_four = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if header[..8] != MAGIC || of_four(8) != VERSION || header[48..64] != *guid {
        return None;
    }
    let end = usize::try_from(number(16)).ok()?.checked_add(24)?;
    let all = bytes.get(16..end)?;
    if crc32c(all) != of_four(12) {
        return None;
    }
    let pages = RolledPages::decode(bytes.get(HEADER_BYTES..end)?)?;
    Some(PageRestore { pages, position: Lsn(number(32)), base: number(40), writes: number(24) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_work_file_is_whole_or_nothing() {
        let guid = [7; 16];
        let restore = PageRestore { pages: RolledPages::default(), position: Lsn(4096), base: 9, writes: 3 };
        let mut bytes = encode(&restore, &guid);
        bytes.resize(4096, 0);
        let read = decode(&bytes, &guid).expect("what was written");
        assert_eq!((read.position, read.base, read.writes), (Lsn(4096), 9, 3));
        assert!(decode(&bytes, &[8; 16]).is_none(), "of another database");
        for at in 0..80 {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(at >= 72 || decode(&changed, &guid).is_none(), "byte {at}");
        }
    }
}
