//! Which file of a filegroup gives the next run, and how long the run is.
//!
//! With more files runs grow more slowly, and only a short run takes more than a small part of its file's free space.
//! So each file has its share of every table, and not only of all tables together.

use std::sync::Arc;

use hobt_base::FilegroupId;

use super::{DataFile, Storage};

/// If several files have room, a run is at most this fraction (one in so many) of its file's free space. That bounds
/// how far a file's share can be from its due.
const RUNS_IN_FREE_SPACE: u32 = 16;
/// Any run may be this long all the same, or as long as a HOBT's first run: a scan reads so much at once, and a tree
/// whose leaves are in runs of one extent each counts as fragmented.
const RUN_EXTENTS_FREE: u32 = 8;

impl Storage {
    /// Takes a run from the file whose turn it is. Each file gains credit for the dealt extents in proportion to its
    /// free space, and the file that gives them pays. The turn is that of the file whose credit is the largest part of
    /// its free space. The credits of the files sum to zero.
    pub(super) fn deal(&self, files: &[Arc<DataFile>], wanted: u32) -> Option<(Arc<DataFile>, u32, u32)> {
        let run_extents_free = self.settings().run_extents_first.max(RUN_EXTENTS_FREE);
        let _turn = self.dealing.lock();
        let free_extents = |file: &DataFile| if file.is_set_aside() { 0 } else { file.free_extents() };
        let free: Vec<u32> = files.iter().map(|file| free_extents(file)).collect();
        let with_room = || files.iter().zip(&free).filter(|(_, free)| **free > 0);
        let (file, file_free) = with_room().max_by(|(one, one_free), (other, other_free)| {
            let part = |file: &DataFile, free: u32| *file.credit.lock() / f64::from(free);
            // Of equal files the largest, and of these the first.
            let by_free = one_free.cmp(other_free).then(std::cmp::Ordering::Greater);
            part(one, **one_free).total_cmp(&part(other, **other_free)).then(by_free)
        })?;
        let is_shared = with_room().count() > 1;
        let longest = if is_shared { (file_free / RUNS_IN_FREE_SPACE).max(run_extents_free) } else { u32::MAX };
        let (first, count) = file.free.lock().take(wanted.min(longest))?;
        let total: f64 = free.iter().copied().map(f64::from).sum();
        for (each, free) in files.iter().zip(&free) {
            *each.credit.lock() += f64::from(count) * f64::from(*free) / total;
        }
        *file.credit.lock() -= f64::from(count);
        Some((Arc::clone(file), first, count))
    }

    /// The length of a HOBT's run after one of `extents`.
    pub(crate) fn next_run(&self, filegroup: FilegroupId, extents: u32) -> u32 {
        let files = self.files.read().iter().filter(|file| file.gives_extents_of(filegroup)).count();
        self.settings().next_run(extents, u32::try_from(files).unwrap_or(u32::MAX))
    }
}
