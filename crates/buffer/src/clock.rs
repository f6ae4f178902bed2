//! Frames for those who need them: the free list first, then the clock's hand (second chance).
//!
//! The hand goes over frames in batches, one atomic add a batch, so sweeping threads do not meet. It takes what is
//! clean, held by nobody and not used since it last came by; a used page loses its mark. Changed pages are written only
//! when clean ones are short, in runs with their changed neighbours.
//!
//! Pages that a scan's load brings in are not marked, so the hand takes them first; and a load sweeps a bounded number
//! of frames and never writes. So a page that anybody else uses once in a round of the hand stays, however much is
//! scanned, and a load that finds no victim reads past the pool.

use hobt_sync::schedule::{self, Place};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hobt_base::DatabaseId;

use crate::error::BufferError;
use crate::frames::{Evicted, OwnedFrame};
use crate::pool::{BufferPool, RegisteredFile};

/// Frames that a thread examines at a time.
const BATCH: u32 = 64;
/// Frames that a scan's load examines for each that it needs, before it gives up.
const SCAN_EFFORT: usize = 8;
/// Frames that must have been examined before changed pages are written to make room.
const CLEAN_EFFORT: usize = 1024;
/// How long a statement looks for a frame while every one is held.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the hand met.
#[derive(Default)]
struct Sweep {
    taken: Vec<OwnedFrame>,
    dirty: Option<(Arc<RegisteredFile>, u32)>,
}

impl BufferPool {
    /// Exactly `count` frames for a statement that cannot do without. May write changed pages.
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
                // A file that cannot be written keeps its pages; those of other files may still give way.
                match self.write_around(&file, number) {
                    Ok(cleaned) => self.keep(cleaned, count, &mut frames),
                    Err(error) => failed = Some(error),
                }
            }
            if !found && frames.len() < count {
                // Another thread may have given some back.
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

    /// Exactly `count` frames for a scan, or none: without writing, and without looking far.
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
        frames.iter().for_each(|frame| self.memory.back(frame));
        Some(frames)
    }

    /// Moves the hand on by one batch.
    fn sweep(&self) -> Sweep {
        let frames = self.memory.frames();
        let start = self.hand.fetch_add(BATCH, Ordering::Relaxed);
        let batch = (0..BATCH.min(frames)).map(|step| start.wrapping_add(step) % frames + 1);
        let mut sweep = Sweep::default();
        self.visit_owners(batch, |frame, file, cell| match cell.try_evict(frame, true) {
            Evicted::Frame(frame) => sweep.taken.push(frame),
            Evicted::Dirty => sweep.dirty = Some((file.clone(), cell.number())),
            Evicted::No => {}
        });
        self.counters.evicted.add(sweep.taken.len() as u64);
        sweep
    }

    /// Fills `frames` up to `count` and frees the rest.
    fn keep(&self, mut taken: Vec<OwnedFrame>, count: usize, frames: &mut Vec<OwnedFrame>) {
        let missing = (count - frames.len()).min(taken.len());
        frames.extend(taken.drain(..missing));
        if !taken.is_empty() {
            self.give_back(taken);
        }
    }

    /// Empties the frames of clean pages that nobody holds, of one database or of all (`DBCC DROPCLEANBUFFERS`). How
    /// many. Changed pages stay: flush first. Does not wait.
    pub fn drop_clean_buffers(&self, database: Option<DatabaseId>) -> u64 {
        let mut dropped = 0;
        let mut taken = Vec::new();
        for first in (1..=self.memory.frames()).step_by(BATCH as usize) {
            let last = self.memory.frames().min(first + BATCH - 1);
            self.visit_owners(first..=last, |frame, file, cell| {
                if database.is_none_or(|database| database == file.database)
                    && let Evicted::Frame(frame) = cell.try_evict(frame, false)
                {
                    taken.push(frame);
                }
            });
            dropped += taken.len() as u64;
            self.give_back(taken.drain(..));
        }
        dropped
    }
}
