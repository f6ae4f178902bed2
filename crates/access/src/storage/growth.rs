//! How data files grow: in turn, by their steps, or by what their disks have.
//!
//! Which file gives a run is decided in `deal`.

use std::sync::Arc;

use hobt_base::{EXTENT_PAGES, FileId, FilegroupId, Lsn, PAGE_SIZE};
use hobt_disk::DiskError;
use hobt_instruments::planted::{self, Bug};
use hobt_instruments::schedule::{self, Place};
use hobt_log::{NewRecord, Reservation};
use hobt_txn::LogChain;

use super::{DataFile, Purpose, Storage};
use crate::AccessError;
use crate::change::Logged;
use crate::log_record::{encode_grow, kind};

/// By how many extents a file grows beyond its limit for an undo: the first, or the second if the disk has no room for
/// that.
const UNDO_GROWTH_EXTENTS: [u32; 2] = [8, 1];

/// By how much a file grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GrowBy {
    /// By its step at least.
    Step,
    /// By less, if the disk has no room for the step.
    Less,
}

impl Storage {
    /// Grows one file of the filegroup, in turn, for a run that `chain` is to log. For an undo, a file may grow beyond
    /// its limit if none may grow otherwise.
    pub(super) fn grow(
        &self,
        filegroup: FilegroupId,
        purpose: Purpose,
        files: &[Arc<DataFile>],
        wanted: u32,
        chain: Option<&Arc<LogChain>>,
    ) -> Result<(), AccessError> {
        let mut turns = self.growth.lock();
        let files: Vec<&Arc<DataFile>> = files.iter().filter(|file| !file.is_set_aside()).collect();
        if files.iter().any(|file| file.free_extents() > 0) {
            return Ok(());
        }
        let turn = turns.entry(filegroup).or_default();
        let mut reason = "its files may not grow any more: add a file (ALTER DATABASE … ADD FILE)".to_owned();
        let no_space = |file: &DataFile| format!("the disk of file '{}' has no room left", file.name());
        // By less than a step only if no disk has room for a step.
        for (by, step) in
            [GrowBy::Step, GrowBy::Less].into_iter().flat_map(|by| (0..files.len()).map(move |it| (by, it)))
        {
            let file = files[(*turn + step) % files.len()];
            match self.grow_file(file, wanted, by, chain) {
                Ok(true) => {
                    *turn = (*turn + step + 1) % files.len();
                    return Ok(());
                }
                Ok(false) => {}
                Err(AccessError::Disk(DiskError::NoSpace { .. })) => reason = no_space(file),
                Err(error) => return Err(error),
            }
        }
        let beyond_limits: &[u32] = if purpose == Purpose::Undo { &UNDO_GROWTH_EXTENTS } else { &[] };
        for (file, extents) in files.into_iter().flat_map(|file| beyond_limits.iter().map(move |count| (file, count))) {
            let size = file.size_pages() / EXTENT_PAGES * EXTENT_PAGES;
            let Some(target) = size.checked_add(extents * EXTENT_PAGES) else { continue };
            match self.resize_file(file, target, chain) {
                Err(AccessError::Disk(DiskError::NoSpace { .. })) => reason = no_space(file),
                resized => return resized,
            }
        }
        Err(AccessError::FilegroupFull { filegroup, reason })
    }

    /// Grows `file` by its growth step, or by `wanted` extents if that is more and the disk has room for them. With
    /// [`GrowBy::Less`] it grows by what the disk has room for, found by halving. Returns `false` if it may not grow.
    fn grow_file(
        &self,
        file: &Arc<DataFile>,
        wanted: u32,
        by: GrowBy,
        chain: Option<&Arc<LogChain>>,
    ) -> Result<bool, AccessError> {
        let description = &file.description;
        if description.growth_pages == 0 && description.growth_percent == 0 {
            return Ok(false);
        }
        let size = file.size_pages() / EXTENT_PAGES * EXTENT_PAGES;
        let step = match u64::from(description.growth_pages) {
            0 => u64::from(size) * u64::from(description.growth_percent) / 100,
            pages => pages,
        };
        let limit = if description.max_pages == 0 { u32::MAX } else { description.max_pages } / EXTENT_PAGES;
        let target = |pages: u64| {
            let extents = u64::from(size / EXTENT_PAGES) + pages.div_ceil(u64::from(EXTENT_PAGES)).max(1);
            u32::try_from(extents).unwrap_or(u32::MAX).min(limit) * EXTENT_PAGES
        };
        let least = target(step);
        if least <= size {
            return Ok(false);
        }
        let half = |next: u32| (size + (next - size) / 2 / EXTENT_PAGES * EXTENT_PAGES).max(size + EXTENT_PAGES);
        let (mut next, last) = match by {
            GrowBy::Step => (target(step.max(u64::from(wanted) * u64::from(EXTENT_PAGES))), least),
            GrowBy::Less => (half(least), size + EXTENT_PAGES),
        };
        loop {
            match self.resize_file(file, next, chain) {
                Err(AccessError::Disk(DiskError::NoSpace { .. })) if next > last => next = half(next).max(last),
                resized => return resized.map(|()| true),
            }
        }
    }

    /// Makes a file larger. That is never undone, whatever becomes of `chain`. If `chain` uses the reservation of
    /// another chain, so does this.
    ///
    /// The record is appended before other threads see the new size, so that their records of the new pages come after
    /// it. A checkpoint may begin between the two: it reads the size by [`Storage::settled_size_pages`].
    fn resize_file(&self, file: &DataFile, target: u32, chain: Option<&Arc<LogChain>>) -> Result<(), AccessError> {
        file.disk().set_size(u64::from(target) * PAGE_SIZE as u64)?;
        self.format_maps(file, file.size_pages(), target, Logged::structure_of(Logged::of(chain)))?;
        if let Some(log) = &self.log {
            let payload = encode_grow(file.id(), target);
            let record = NewRecord { kind: kind::GROW, transaction: 0, previous: Lsn(0), payload: &payload };
            let own = Reservation::default();
            let paid = chain.and_then(|chain| Some((chain, chain.paid_reservation()?)));
            match paid {
                Some((chain, _)) => chain.reserve(payload.len())?,
                None => log.reserve(&own, payload.len())?,
            }
            log.log().append_always(&record, paid.map_or(&own, |(_, reservation)| reservation))?;
        }
        schedule::point(Place::Growth);
        file.free.lock().resize(target);
        Ok(())
    }

    /// The number of pages of a file while no file is growing: all growth that the log has before is included.
    ///
    /// # Errors
    /// There is no such file.
    pub fn settled_size_pages(&self, file: FileId) -> Result<u32, AccessError> {
        let _none_grows = (!planted::has(Bug::SizeSavedWhileGrowing)).then(|| self.growth.lock());
        Ok(self.file(file)?.size_pages())
    }
}
