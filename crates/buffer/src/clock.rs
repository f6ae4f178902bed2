//! Finding frames: the free list first, then the clock's hand (second chance).
//!
//! The hand goes over frames in batches, one atomic add a batch, so sweeping threads do not meet. It takes frames of
//! pages that are clean, not held and not used since its last pass. A used page only loses its REFERENCED bit. Changed
//! pages are written only when clean ones are short, in runs with their changed neighbours.
//!
//! Pages that a scan's load brings in are not marked as used, so the hand takes them first. A load examines a bounded
//! number of frames and never writes. So a page that other work uses once in a round of the hand stays, however much is
//! scanned, and a load that finds no victim reads past the pool.
//!
//! With a buffer pool extension the hand notes which pages it has found used: these are copied when they leave
//! (`extension.rs`).

use hobt_instruments::schedule::{self, Place};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hobt_base::DatabaseId;

use crate::error::BufferError;
use crate::extension::Retired;
use crate::frames::{Evicted, OwnedFrame};
use crate::pool::{BufferPool, RegisteredFile};

/// Frames that a thread examines at a time.
const BATCH: u32 = 64;
/// Frames that a scan's load examines for each that it needs, before it fails.
const SCAN_EFFORT: usize = 8;
/// Frames that are examined before changed pages are written to make room.
const CLEAN_EFFORT: usize = 1024;
/// How long a statement searches for a frame while all frames are held.
const PATIENCE: Duration = Duration::from_secs(5);

/// What one batch of the hand found.
#[derive(Default)]
struct Sweep {
    taken: Vec<OwnedFrame>,
    dirty: Option<(Arc<RegisteredFile>, u32)>,
}

impl BufferPool {
    /// Takes exactly `count` frames for a statement that needs them. May write changed pages.
    ///
    /// # Errors
    /// [`BufferError::NoFrames`] when every frame stays held; [`BufferError::Disk`] when a changed page cannot be
    /// written.
    pub(crate) fn take_frames(&self, count: usize) -> Result<Vec<OwnedFrame>, BufferError> {
        let mut frames = Vec::with_capacity(count);
        self.pop_free(count, &mut frames);
        let mut examined = 0;
        let (mut deadline, mut failed) = (None, None);
        while frames.len() < count {
            let sweep = self.sweep();
            examined += BATCH as usize;
            let found = !sweep.taken.is_empty();
            self.keep(sweep.taken, count, &mut frames);
            let effort = CLEAN_EFFORT.min(self.memory.frames() as usize);
            if let Some((file, number)) = sweep.dirty.filter(|_| frames.len() < count && examined >= effort) {
                // If a file cannot be written, its pages stay; pages of other files may still be evicted.
                match self.write_around(&file, number) {
                    Ok(cleaned) => self.keep(cleaned, count, &mut frames),
                    Err(error) => failed = Some(error),
                }
            }
            if !found && frames.len() < count {
                // Another thread may have returned some.
                let missing = count - frames.len();
                self.pop_free(missing, &mut frames);
            }
            // Two rounds without enough: every frame is held, or used as fast as the hand turns.
            if frames.len() < count && examined > 2 * (self.memory.frames() + BATCH) as usize {
                let deadline = *deadline.get_or_insert_with(|| schedule::now() + PATIENCE);
                if failed.is_some() || schedule::now() >= deadline {
                    self.give_back(frames);
                    return Err(failed.unwrap_or(BufferError::NoFrames));
                }
                if !schedule::wait(Place::Frames) {
                    std::thread::yield_now();
                }
            }
        }
        Ok(frames)
    }

    /// Takes exactly `count` frames for a scan, or none. Writes nothing, and examines only a few frames.
    pub(crate) fn take_frames_for_scan(&self, count: usize) -> Option<Vec<OwnedFrame>> {
        let mut frames = Vec::with_capacity(count);
        self.pop_free(count, &mut frames);
        let mut examined = 0;
        while frames.len() < count && examined < SCAN_EFFORT * count {
            let sweep = self.sweep();
            self.keep(sweep.taken, count, &mut frames);
            examined += BATCH as usize;
        }
        if frames.len() < count {
            self.give_back(frames);
            return None;
        }
        // In order of address: neighbours then reach the device as one piece, which halves the time of a read.
        frames.sort_unstable_by_key(OwnedFrame::number);
        frames.iter().for_each(|frame| self.memory.back(frame.number()));
        Some(frames)
    }

    /// Moves the hand on by one batch.
    fn sweep(&self) -> Sweep {
        let frames = self.memory.frames();
        let start = self.hand.fetch_add(BATCH, Ordering::Relaxed);
        let batch = (0..BATCH.min(frames)).map(|step| start.wrapping_add(step) % frames + 1);
        let mut sweep = Sweep::default();
        let extension = self.extension();
        let is_extended = extension.is_some();
        let mut retired = Vec::new();
        self.visit_owners(batch, |frame, file, cell| match cell.try_evict(frame, true) {
            Evicted::Frame(taken, version) => {
                if is_extended {
                    let is_used = self.was_used(frame);
                    retired.push(Retired { key: file.key(cell.number()), version, is_used });
                }
                sweep.taken.push(taken);
            }
            Evicted::Spared if is_extended => self.note_used(frame),
            Evicted::Dirty => sweep.dirty = Some((file.clone(), cell.number())),
            Evicted::Spared | Evicted::No => {}
        });
        if let Some(extension) = extension {
            self.retire(&extension, sweep.taken.iter().zip(&retired));
        }
        self.counters.evicted.add(sweep.taken.len() as u64);
        sweep
    }

    /// Fills `frames` up to `count`, and returns the rest to the free list.
    fn keep(&self, mut taken: Vec<OwnedFrame>, count: usize, frames: &mut Vec<OwnedFrame>) {
        let missing = (count - frames.len()).min(taken.len());
        frames.extend(taken.drain(..missing));
        if !taken.is_empty() {
            self.give_back(taken);
        }
    }

    /// Empties the frames of clean pages that are not held, of one database or of all (`DBCC DROPCLEANBUFFERS`), and
    /// forgets their copies in the extension.
    /// Returns how many. Changed pages stay: flush first. Does not wait.
    pub fn drop_clean_buffers(&self, database: Option<DatabaseId>) -> u64 {
        let mut dropped = 0;
        let mut taken = Vec::new();
        for first in (1..=self.memory.frames()).step_by(BATCH as usize) {
            let last = self.memory.frames().min(first + BATCH - 1);
            self.visit_owners(first..=last, |frame, file, cell| {
                if database.is_none_or(|database| database == file.database)
                    && let Evicted::Frame(frame, _) = cell.try_evict(frame, false)
                {
                    taken.push(frame);
                }
            });
            dropped += taken.len() as u64;
            self.give_back(taken.drain(..));
        }
        let files = self.registered_files();
        let is_meant = |registration: u32| {
            let of_registration = files.iter().find(|file| file.registration == registration);
            database.is_none() || of_registration.is_some_and(|file| Some(file.database) == database)
        };
        self.forget_copies(is_meant);
        dropped
    }
}
