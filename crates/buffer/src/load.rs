//! A scan's asynchronous reads straight into frames.
//!
//! A load claims the absent pages of a range, takes frames for them and submits one scatter read for each contiguous
//! piece. Other threads that need one of these pages wait for the load, so a consumer must finish or drop what it
//! started.

use std::sync::Arc;

use hobt_base::PAGE_SIZE;
use hobt_disk::{Completion, CompletionQueue};

use crate::error::BufferError;
use crate::file::PoolFile;
use crate::frames::{LoadClaim, OwnedFrame, PinnedFrames};

/// The most pages of one load.
pub const LOAD_PAGES_MAX: u32 = 64;

/// One scatter read of neighbouring pages.
struct Piece {
    claims: Vec<LoadClaim>,
    read: PinnedFrames,
}

/// The outcome of a load.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LoadOutcome {
    /// Pages that were read damaged, in order. They are not resident. [`PoolFile::read`] reads them again and reports
    /// the damage.
    pub damaged: Vec<u32>,
}

/// Reads under way into frames of the pool.
///
/// Dropping it before it is finished blocks until its queue has nothing in flight, and drops whatever the queue
/// delivers. Every load of that queue must then be dropped too.
pub struct PendingLoad {
    file: PoolFile,
    pieces: Vec<Piece>,
    reads: usize,
    loading: Vec<u32>,
    elsewhere: Vec<u32>,
}

impl PoolFile {
    /// Starts to read the pages of `first..first + count` that are not resident. The reads complete on `queue`, each
    /// with `tag`. Does not block, and never writes a changed page to make room. The pages come in clean and not marked
    /// as used, so that a scan cannot evict pages that other statements use.
    ///
    /// # Errors
    /// [`BufferError::NoFrames`], after which the scan reads into buffers of its own. [`BufferError::OutOfRange`],
    /// [`BufferError::Closed`], [`BufferError::Disk`].
    ///
    /// # Panics
    /// `count` is above [`LOAD_PAGES_MAX`].
    pub fn start_load(
        &self,
        first: u32,
        count: u32,
        queue: &Arc<CompletionQueue>,
        tag: u64,
    ) -> Result<PendingLoad, BufferError> {
        assert!(count <= LOAD_PAGES_MAX, "{count} pages in one load");
        let mut runs: Vec<Vec<LoadClaim>> = Vec::new();
        let mut elsewhere = Vec::new();
        for number in first..first.saturating_add(count) {
            let word = self.registered().words.get(number).map(|cell| cell.load());
            if word.is_some_and(|word| word.is_resident()) {
                continue;
            }
            match self.claim(number)? {
                Some((_, claim)) => match runs.last_mut() {
                    Some(run) if run.last().is_some_and(|last| last.number() + 1 == number) => run.push(claim),
                    _ => runs.push(vec![claim]),
                },
                None => elsewhere.push(number),
            }
        }
        let loading: Vec<u32> = runs.iter().flatten().map(LoadClaim::number).collect();
        let mut frames = match loading.len() {
            0 => Vec::new(),
            pages => self.pool().take_frames_for_scan(pages).ok_or(BufferError::NoFrames)?,
        }
        .into_iter();
        let pieces: Vec<Piece> = runs
            .into_iter()
            .map(|claims| {
                let frames: Vec<OwnedFrame> = frames.by_ref().take(claims.len()).collect();
                let offset = claims[0].page().byte_offset();
                let disk = &*self.registered().disk;
                let read = PinnedFrames::submit(&self.pool().memory, frames, disk, offset, tag, queue);
                Piece { claims, read }
            })
            .collect();
        let file = PoolFile::new(self.pool().clone(), self.registered().clone());
        Ok(PendingLoad { file, reads: pieces.len(), pieces, loading, elsewhere })
    }
}

impl PendingLoad {
    /// The number of reads submitted, each of which completes once. 0 when there was nothing to load.
    pub fn reads(&self) -> usize {
        self.reads
    }

    /// The pages that this load brings, in order.
    pub fn loading(&self) -> &[u32] {
        &self.loading
    }

    /// Pages that another thread is loading or has just loaded: read them through [`PoolFile::read`] later.
    pub fn elsewhere(&self) -> &[u32] {
        &self.elsewhere
    }

    /// Takes one completion: checks its pages and makes them resident. Does not block. Returns the pages that are
    /// damaged.
    ///
    /// # Errors
    /// [`BufferError::Disk`] when the read failed; its pages stay absent.
    ///
    /// # Panics
    /// The completion does not belong to this load.
    pub fn complete(&mut self, completion: Completion) -> Result<Vec<u32>, BufferError> {
        let place = self.pieces.iter().position(|piece| piece.read.is_ended_by(&completion));
        let piece = self.pieces.swap_remove(place.expect("a completion of this load"));
        let frames = piece.read.take_back(&completion);
        if let Err(error) = completion.result {
            self.file.pool().give_back(frames);
            return Err(error.into());
        }
        Ok(self.file.publish(piece.claims, frames))
    }

    /// Takes all completions (or those that [`PendingLoad::complete`] was not given), as [`PendingLoad::complete`]
    /// does.
    ///
    /// # Errors
    /// [`BufferError::Disk`] of the first read that failed. The pages of the other reads are resident.
    ///
    /// # Panics
    /// A completion is missing, or does not belong to this load.
    pub fn finish(mut self, completions: impl IntoIterator<Item = Completion>) -> Result<LoadOutcome, BufferError> {
        let mut outcome = LoadOutcome::default();
        let mut failed = None;
        for completion in completions {
            match self.complete(completion) {
                Ok(damaged) => outcome.damaged.extend(damaged),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        assert!(self.pieces.is_empty(), "a load is finished with all of its completions");
        outcome.damaged.sort_unstable();
        failed.map_or(Ok(outcome), Err)
    }
}

impl Drop for PendingLoad {
    fn drop(&mut self) {
        for piece in self.pieces.drain(..) {
            // First the frames, then the claims: threads that wait for the pages then find them absent and frames free.
            self.file.pool().give_back(piece.read.drain());
        }
    }
}

impl std::fmt::Debug for PendingLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.loading.len() * PAGE_SIZE;
        write!(f, "PendingLoad({:?}, {bytes} bytes in {} reads)", self.file, self.reads)
    }
}
