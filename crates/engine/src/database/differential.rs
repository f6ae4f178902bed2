//! Which extents were written since the last full backup: what a differential backup copies.
//!
//! The pool and the loaders note an extent in memory before they write it. A checkpoint writes the bits to the maps of
//! each file, before recovery begins at that checkpoint. Recovery notes again what its records are of. So after a crash
//! no write is forgotten, and some extents count that were not written.
//!
//! A full backup begins to count anew. Until it is complete, what was counted from the backup before is kept as well,
//! and checkpoints write both together: a backup that fails, or that a crash cuts off, changes nothing. If the maps of
//! the files do not agree on what they count from, because a crash came between their writes, or one cannot be read,
//! there is no base for a differential backup before the next full one. The next checkpoint writes that down
//! ([`NO_BASE`]): the old maps lack what is written from now on, and must not be found again.

use std::collections::BTreeMap;
use std::sync::Arc;

use hobt_access::{DataFile as StoredFile, Storage};
use hobt_backup::{Guid, SetFacts};
use hobt_base::{EXTENT_PAGES, Lsn, PAGE_SIZE, PageId};
use hobt_disk::AlignedBuffer;
use hobt_instruments::schedule::Mutex;
use hobt_page::{EXTENTS_PER_MAP, PageBytes, WrittenMap, WrittenSince};

use super::Database;
use crate::error::Result;

/// What maps say that count from no backup.
const NO_BASE: WrittenSince = WrittenSince { backup: 0, first: Lsn(0) };

/// What written extents are counted from, and what of it is on disk.
#[derive(Debug, Default)]
pub(super) struct Differential(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    since: Option<WrittenSince>,
    /// The maps on disk name a backup, and do not count from it any more.
    has_stale_maps: bool,
    /// For each file, by its id, the bits of before a full backup that is running.
    before: Vec<(u16, Vec<u64>)>,
    /// The version of each map on disk, by its file and its interval: the next one goes over the older of two copies.
    versions: BTreeMap<(u16, u32), u64>,
    /// What the maps on disk have, so that they are written only when that changes.
    on_disk: Vec<(u16, Vec<u64>)>,
}

/// The id of a backup set whose first half names it.
pub(crate) fn set_guid(name: u64) -> Guid {
    let mut guid = [0; 16];
    guid[..8].copy_from_slice(&name.to_le_bytes());
    guid[8..].copy_from_slice(&hobt_base::SplitMix64::new(name).next_u64().to_le_bytes());
    Guid(guid)
}

/// Names what is written to a log from now on, after `before`.
pub(crate) fn new_fork(before: [u8; 16]) -> [u8; 16] {
    let seed = u64::from_le_bytes(*before.first_chunk().expect("sixteen bytes"));
    let time = hobt_instruments::time_of_day().cast_unsigned();
    let mut random = hobt_base::SplitMix64::new(seed ^ time.rotate_left(17));
    let mut fork = [0; 16];
    fork[..8].copy_from_slice(&random.next_u64().to_le_bytes());
    fork[8..].copy_from_slice(&time.to_le_bytes());
    fork
}

/// The first half of a backup set's id.
fn name_of(guid: &Guid) -> u64 {
    u64::from_le_bytes(*guid.0.first_chunk().expect("sixteen bytes"))
}

/// A full backup that is running and will be the base of differential ones.
#[must_use]
pub(crate) struct NewBase {
    database: Option<Arc<Database>>,
}

impl NewBase {
    /// Counts from this backup on, durably.
    pub(crate) fn keep(mut self, facts: &SetFacts) -> Result<()> {
        let Some(database) = self.database.take() else { return Ok(()) };
        // No checkpoint writes the maps meanwhile.
        let _files = database.files.lock();
        let mut state = database.differential.0.lock();
        state.before.clear();
        state.since = Some(WrittenSince { backup: name_of(&facts.guid), first: Lsn(facts.first) });
        state.on_disk.clear();
        state.write(&database.storage)
    }
}

impl Drop for NewBase {
    fn drop(&mut self) {
        // The backup has failed: what was counted before goes on.
        let Some(database) = &self.database else { return };
        // No checkpoint writes the maps before the bits are back.
        let mut state = database.differential.0.lock();
        for (id, bits) in std::mem::take(&mut state.before) {
            if let Some(file) = database.storage.files().iter().find(|file| file.id().0 == id) {
                file.pool_file().written().add(&bits);
            }
        }
    }
}

impl Database {
    /// Begins to count written extents anew, for a full backup that is about to copy pages.
    pub(crate) fn begin_base(self: &Arc<Database>, is_copy_only: bool) -> NewBase {
        if is_copy_only {
            return NewBase { database: None };
        }
        let mut state = self.differential.0.lock();
        for file in self.storage.files() {
            let before = file.pool_file().written().replace(Vec::new());
            state.before.push((file.id().0, before));
        }
        // Their pages may be written before or after they are copied, and committed later.
        for (first, extents) in self.storage.runs_being_loaded() {
            if let Ok(file) = self.storage.file(first.file) {
                file.pool_file().written().note(first.number, extents * EXTENT_PAGES);
            }
        }
        NewBase { database: Some(Arc::clone(self)) }
    }

    /// The backup on which a differential one builds: its id, and the first position that it has. `None` if there is
    /// none.
    pub(crate) fn base(&self) -> Option<(Guid, Lsn)> {
        self.differential.0.lock().since.map(|since| (set_guid(since.backup), since.first))
    }

    /// The runs of extents of a file that are allocated and were written since the last full backup. Those with maps
    /// are among them.
    pub(crate) fn written_runs(&self, file: &StoredFile) -> Vec<(u32, u32)> {
        let bits = self.differential.0.lock().bits_of(file);
        let is_written = |extent: u32| {
            let word = bits.get((extent / 64) as usize).copied().unwrap_or(0);
            extent.is_multiple_of(EXTENTS_PER_MAP) || word >> (extent % 64) & 1 == 1
        };
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (first, count) in file.allocated_runs() {
            for extent in (first..first + count).filter(|extent| is_written(*extent)) {
                match runs.last_mut() {
                    Some((first, count)) if *first + *count == extent => *count += 1,
                    _ => runs.push((extent, 1)),
                }
            }
        }
        runs
    }

    /// Writes the maps, durably, if what they have has changed. Part of a checkpoint, when its pages are written.
    pub(super) fn save_written(&self) -> Result<()> {
        self.differential.0.lock().write(&self.storage)
    }

    /// Reads the maps of a database that is being opened. Recovery has noted in memory what they may lack.
    pub(super) fn read_written(&self) {
        let mut state = self.differential.0.lock();
        let (mut since, mut agree) = (None, true);
        // All are read, since the version of each is needed.
        for file in self.storage.files() {
            match state.read_maps(&self.storage, &file) {
                Some((found, bits)) => {
                    agree &= found.is_none_or(|found| *since.get_or_insert(found) == found);
                    file.pool_file().written().add(&bits);
                }
                None => agree = false,
            }
        }
        state.since = since.filter(|since| agree && *since != NO_BASE);
        state.has_stale_maps = !agree;
    }
}

impl State {
    /// The bits of a file, those of before a running full backup included.
    fn bits_of(&self, file: &StoredFile) -> Vec<u64> {
        let mut bits = file.pool_file().written().bits();
        if let Some((_, before)) = self.before.iter().find(|(id, _)| *id == file.id().0) {
            bits.resize(bits.len().max(before.len()), 0);
            bits.iter_mut().zip(before).for_each(|(word, more)| *word |= more);
        }
        bits
    }

    fn write(&mut self, storage: &Storage) -> Result<()> {
        let since = match self.since {
            Some(since) => since,
            None if self.has_stale_maps => NO_BASE,
            None => return Ok(()),
        };
        let now: Vec<(u16, Vec<u64>)> = storage.files().iter().map(|file| (file.id().0, self.bits_of(file))).collect();
        if now == self.on_disk {
            return Ok(());
        }
        let mut buffer = AlignedBuffer::new(PAGE_SIZE)?;
        for (file, (id, bits)) in storage.files().iter().zip(&now) {
            let same = self.on_disk.iter().any(|known| known.0 == *id && known.1 == *bits);
            if same {
                continue;
            }
            for interval in 0..intervals(file) {
                let from = (interval as usize * WrittenMap::WORDS).min(bits.len());
                let words = &bits[from..(from + WrittenMap::WORDS).min(bits.len())];
                let known = self.versions.get(&(*id, interval)).copied();
                // Where no version is known, an old copy could be taken for a newer one: both are written.
                let next = known.map_or(1..=2, |known| known + 1..=known + 1);
                for version in next {
                    let map = WrittenMap { since, version, bits: words.to_vec() };
                    buffer.copy_from_slice(&*map.to_page(file.id(), interval, storage.database_tag()));
                    let page = PageId::new(file.id(), WrittenMap::page_of(interval, version));
                    file.disk().write_at(&buffer, page.byte_offset())?;
                    self.versions.insert((*id, interval), version);
                }
            }
            file.disk().sync()?;
        }
        self.on_disk = now;
        self.has_stale_maps = false;
        Ok(())
    }

    /// The maps of a file: what they count from, unless none was written yet, and the bits. Keeps the version of each
    /// map that can be read. `None` if they do not agree, or one cannot be read.
    fn read_maps(&mut self, storage: &Storage, file: &StoredFile) -> Option<(Option<WrittenSince>, Vec<u64>)> {
        let (mut since, mut agree, mut bits) = (None, true, Vec::new());
        for interval in 0..intervals(file) {
            match read_map(storage, file, interval) {
                MapRead::Map(map) => {
                    agree &= *since.get_or_insert(map.since) == map.since;
                    self.versions.insert((file.id().0, interval), map.version);
                    bits.extend(map.bits);
                }
                MapRead::New => bits.resize(bits.len() + WrittenMap::WORDS, 0),
                MapRead::Unreadable => agree = false,
            }
        }
        agree.then_some((since, bits))
    }
}

fn intervals(file: &StoredFile) -> u32 {
    (file.size_pages() / EXTENT_PAGES).div_ceil(EXTENTS_PER_MAP)
}

/// The map of an interval on disk.
enum MapRead {
    Map(WrittenMap),
    /// None was written: the file has come, or has grown, since the last checkpoint.
    New,
    Unreadable,
}

fn read_map(storage: &Storage, file: &StoredFile, interval: u32) -> MapRead {
    let Ok(mut buffer) = AlignedBuffer::new(PAGE_SIZE) else { return MapRead::Unreadable };
    let (mut newest, mut is_new): (Option<WrittenMap>, bool) = (None, true);
    for number in WrittenMap::pages(interval) {
        let id = PageId::new(file.id(), number);
        if file.disk().read_at(&mut buffer, id.byte_offset()).is_err() {
            return MapRead::Unreadable;
        }
        let page: &PageBytes = buffer[..].try_into().expect("a page's bytes");
        is_new &= page.iter().all(|byte| *byte == 0);
        let read = WrittenMap::read(page, id, storage.database_tag()).ok();
        let is_newer = |map: &WrittenMap| newest.as_ref().is_none_or(|newest| newest.version < map.version);
        newest = read.filter(is_newer).or(newest);
    }
    match newest {
        Some(map) => MapRead::Map(map),
        None if is_new => MapRead::New,
        None => MapRead::Unreadable,
    }
}
