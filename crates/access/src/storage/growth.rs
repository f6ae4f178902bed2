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

/// Why a file did not grow.
enum Refusal {
    /// It has no growth.
    Fixed,
    /// It has its largest size, in pages.
    AtLimit(u32),
    /// Its disk has no room.
    NoRoom {
        /// The least that it was asked for.
        asked_bytes: u64,
        /// What the operating system says.
        words: String,
    },
}

/// The outcome of an attempt to grow a file.
type Growth = Result<Result<(), Refusal>, AccessError>;

/// The most files that the text of an error describes.
const FILES_DESCRIBED: usize = 4;

fn kilobytes(bytes: u64) -> String {
    format!("{} KB", bytes / 1024)
}

impl Refusal {
    fn of(asked_bytes: u64, error: &DiskError) -> Refusal {
        let words = error.os_error_text().unwrap_or_else(|| error.to_string());
        Refusal::NoRoom { asked_bytes, words }
    }

    /// A clause about the file, with what its disk has now.
    fn describe(&self, file: &DataFile) -> String {
        let name = file.name();
        match self {
            Refusal::Fixed => format!("file '{name}' may not grow (FILEGROWTH = 0)"),
            Refusal::AtLimit(pages) => {
                let limit = kilobytes(u64::from(*pages) * PAGE_SIZE as u64);
                format!("file '{name}' may not grow beyond its MAXSIZE of {limit}")
            }
            Refusal::NoRoom { asked_bytes, words } => {
                let asked = kilobytes(*asked_bytes);
                let free = match file.disk().device_free_bytes().ok() {
                    // A quota, or a limit of the file's size.
                    Some(free) if free >= *asked_bytes => format!("{}, but the system says {words}", kilobytes(free)),
                    Some(free) => kilobytes(free),
                    None => "an unknown number of bytes".to_owned(),
                };
                format!("the disk of file '{name}' has no room left: it was asked for {asked} at least, and has {free}")
            }
        }
    }
}

/// What a filegroup is full of, and why its files did not grow.
fn reason(refused: &[(&Arc<DataFile>, Refusal)]) -> String {
    let size: u64 = refused.iter().map(|(file, _)| u64::from(file.size_pages()) * PAGE_SIZE as u64).sum();
    let free: u64 = refused.iter().map(|(file, _)| u64::from(file.free_extents())).sum();
    let free = kilobytes(free * u64::from(EXTENT_PAGES) * PAGE_SIZE as u64);
    let asked = kilobytes(u64::from(EXTENT_PAGES) * PAGE_SIZE as u64);
    let mut clauses = vec![format!("{asked} at least were asked for, and {free} of {} are free", kilobytes(size))];
    clauses.extend(refused.iter().take(FILES_DESCRIBED).map(|(file, refusal)| refusal.describe(file)));
    if let Some(more) = refused.len().checked_sub(FILES_DESCRIBED).filter(|more| *more > 0) {
        clauses.push(format!("{more} more files did not grow either"));
    }
    clauses.join("; ")
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
        let mut refused = Vec::new();
        // By less than a step only if no disk has room for a step.
        for by in [GrowBy::Step, GrowBy::Less] {
            refused.clear();
            for step in 0..files.len() {
                let file = files[(*turn + step) % files.len()];
                match self.grow_file(file, wanted, by, chain)? {
                    Ok(()) => {
                        *turn = (*turn + step + 1) % files.len();
                        return Ok(());
                    }
                    Err(refusal) => refused.push((file, refusal)),
                }
            }
        }
        let beyond_limits: &[u32] = if purpose == Purpose::Undo { &UNDO_GROWTH_EXTENTS } else { &[] };
        for (place, extents) in (0..refused.len()).flat_map(|place| beyond_limits.iter().map(move |it| (place, it))) {
            let file = refused[place].0;
            let size = file.size_pages() / EXTENT_PAGES * EXTENT_PAGES;
            let Some(target) = size.checked_add(extents * EXTENT_PAGES) else { continue };
            match self.try_size(file, target, chain)? {
                Ok(()) => return Ok(()),
                Err(refusal) => refused[place].1 = refusal,
            }
        }
        Err(AccessError::FilegroupFull { filegroup, reason: reason(&refused) })
    }

    /// Lets this file grow, whose turn it is, by its step or by less, unless it has room meanwhile: another thread may
    /// have done so. A file that cannot grow notes it, and is passed over for a while.
    pub(super) fn grow_one(
        &self,
        file: &Arc<DataFile>,
        wanted: u32,
        chain: Option<&Arc<LogChain>>,
    ) -> Result<(), AccessError> {
        let _no_other_growth = self.growth.lock();
        if file.is_set_aside() || file.free_extents() > 0 {
            return Ok(());
        }
        let mut grown = self.grow_file(file, wanted, GrowBy::Step, chain)?;
        if grown.is_err() {
            grown = self.grow_file(file, wanted, GrowBy::Less, chain)?;
        }
        file.note_growth(grown.is_ok());
        Ok(())
    }

    /// Grows `file` by its growth step, or by `wanted` extents if that is more and the disk has room for them. With
    /// [`GrowBy::Less`] it grows by what the disk has room for, found by halving.
    fn grow_file(&self, file: &Arc<DataFile>, wanted: u32, by: GrowBy, chain: Option<&Arc<LogChain>>) -> Growth {
        let description = &file.description;
        if description.growth_pages == 0 && description.growth_percent == 0 {
            return Ok(Err(Refusal::Fixed));
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
            return Ok(Err(Refusal::AtLimit(limit * EXTENT_PAGES)));
        }
        let half = |next: u32| (size + (next - size) / 2 / EXTENT_PAGES * EXTENT_PAGES).max(size + EXTENT_PAGES);
        let (mut next, last) = match by {
            GrowBy::Step => (target(step.max(u64::from(wanted) * u64::from(EXTENT_PAGES))), least),
            GrowBy::Less => (half(least), size + EXTENT_PAGES),
        };
        loop {
            match self.try_size(file, next, chain)? {
                Err(_) if next > last => next = half(next).max(last),
                tried => return Ok(tried),
            }
        }
    }

    /// Makes a file larger, if its disk has room.
    fn try_size(&self, file: &DataFile, target: u32, chain: Option<&Arc<LogChain>>) -> Growth {
        match self.resize_file(file, target, chain) {
            Ok(()) => {
                file.note_growth(true);
                Ok(Ok(()))
            }
            Err(AccessError::Disk(error @ DiskError::NoSpace { .. })) => {
                let more = target.saturating_sub(file.size_pages());
                Ok(Err(Refusal::of(u64::from(more) * PAGE_SIZE as u64, &error)))
            }
            Err(error) => Err(error),
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
