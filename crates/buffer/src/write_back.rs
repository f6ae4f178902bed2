//! Writing changed pages. A checkpoint writes all of them in file order; the clock writes one with its neighbours.
//!
//! A run of changed neighbours is copied into a buffer under shared latches, sealed there and written at once. The
//! latches are held until the write has completed: readers go on, writers of these pages wait, and no page is evicted
//! or written again while an older version of it is being written. Only the first page of a run is waited for, while no
//! other latch is held. A neighbour that is held exclusively ends the run.
//!
//! Write-ahead: before a page is written, the log is made durable up to the record of its last change. A log that has
//! no room for a short flush refuses the flush to the clock, which then tries other pages, but not to a checkpoint.

use hobt_instruments::planted::{self, Bug};
use std::ops::Range;
use std::sync::atomic::Ordering;

use hobt_base::PAGE_SIZE;
use hobt_instruments::{Wait, WaitType};
use hobt_log::RoomFor;
use hobt_page::{PageBytes, PageHeader, seal};

use crate::error::BufferError;
use crate::extension::Retired;
use crate::file::PoolFile;
use crate::frames::{Latched, OwnedFrame, PageCell, SharedGuard};
use crate::pool::{BufferPool, RegisteredFile};

/// The most bytes of one write.
pub(crate) const WRITE_BYTES_MAX: usize = 512 << 10;
const RUN_MAX: usize = WRITE_BYTES_MAX / PAGE_SIZE;

impl BufferPool {
    /// Writes every page of the file that is changed at the time of the call, and makes the file durable. Returns the
    /// number of pages written. Blocks, and waits for pages that are held exclusively.
    ///
    /// # Errors
    /// [`BufferError::Disk`]; pages that were not written stay changed.
    pub fn flush_file(&self, file: &PoolFile) -> Result<u64, BufferError> {
        self.flush_registered(file.registered(), RoomFor::Later)
    }

    /// Like [`BufferPool::flush_file`], for a checkpoint: its log flushes may use more of the log's room.
    ///
    /// # Errors
    /// As [`BufferPool::flush_file`].
    pub fn flush_for_checkpoint(&self, file: &PoolFile) -> Result<u64, BufferError> {
        self.flush_registered(file.registered(), RoomFor::Checkpoint)
    }

    /// Like [`BufferPool::flush_file`], for all files.
    ///
    /// # Errors
    /// As [`BufferPool::flush_file`].
    pub fn flush_all(&self) -> Result<u64, BufferError> {
        self.registered_files().iter().map(|file| self.flush_registered(file, RoomFor::Later)).sum()
    }

    fn flush_registered(&self, file: &RegisteredFile, room_for: RoomFor<'_>) -> Result<u64, BufferError> {
        if file.disk.wants_notice() {
            file.disk.notice(&changed_ranges(file))?;
        }
        let mut written = 0;
        for segment in file.words.segments() {
            let mut pages = segment.pages().peekable();
            while let Some(cell) = pages.next() {
                // A writer sets DIRTY when it releases its latch, so exclusive holders are waited for. A page that is
                // being loaded has no changes yet.
                let word = cell.load();
                let may_be_changing = word.is_resident() && word.is_exclusive();
                if may_be_changing && planted::has(Bug::CheckpointSkipsHeldPages) {
                    continue;
                }
                if !word.is_dirty() && !may_be_changing {
                    continue;
                }
                let Latched::Guard(first) = cell.share_quietly() else { continue };
                if !cell.load().is_dirty() {
                    continue;
                }
                let mut run = vec![first];
                while run.len() < RUN_MAX
                    && let Some(guard) = pages.peek().and_then(|&next| share_dirty(next))
                {
                    run.push(guard);
                    pages.next();
                }
                self.write_run(file, &run, room_for)?;
                written += run.len() as u64;
            }
        }
        file.disk.sync()?;
        Ok(written)
    }

    /// Writes a changed page with the changed pages around it, and then takes the frames of those that are not in use.
    pub(crate) fn write_around(&self, file: &RegisteredFile, number: u32) -> Result<Vec<OwnedFrame>, BufferError> {
        let Some(segment) = file.words.segment(number) else { return Ok(Vec::new()) };
        let Some(middle) = share_dirty(segment.cell(number)) else { return Ok(Vec::new()) };
        let neighbour = |number: Option<u32>| {
            let number = number.filter(|&number| segment.holds(number))?;
            share_dirty(segment.cell(number))
        };
        let mut run = Vec::with_capacity(RUN_MAX);
        run.push(middle);
        let mut before = number;
        while run.len() < RUN_MAX / 2
            && let Some(guard) = neighbour(before.checked_sub(1))
        {
            before -= 1;
            run.push(guard);
        }
        run.reverse();
        let mut last = number;
        while run.len() < RUN_MAX
            && let Some(guard) = neighbour(last.checked_add(1))
        {
            last += 1;
            run.push(guard);
        }
        self.write_run(file, &run, RoomFor::Later)?;
        let extension = self.extension();
        let pages: Vec<u32> = run.iter().map(|guard| guard.page().number).collect();
        let evicted = run.into_iter().zip(pages).filter_map(|(guard, number)| Some((guard.evict()?, number)));
        let mut retired = Vec::new();
        let taken: Vec<OwnedFrame> = evicted
            .map(|((frame, version), number)| {
                let is_used = self.was_used(frame.number());
                retired.push(Retired { key: file.key(number), version, is_used });
                frame
            })
            .collect();
        if let Some(extension) = extension {
            self.retire(&extension, taken.iter().zip(&retired));
        }
        self.counters.evicted.add(taken.len() as u64);
        Ok(taken)
    }

    /// Writes neighbouring pages, which the caller holds, and marks them clean. The log has their changes first.
    fn write_run(
        &self,
        file: &RegisteredFile,
        run: &[SharedGuard<'_>],
        room_for: RoomFor<'_>,
    ) -> Result<(), BufferError> {
        let Some(first) = run.first() else { return Ok(()) };
        if file.frozen.load(Ordering::Acquire) {
            return Err(BufferError::Frozen);
        }
        let mut buffer = self.staging.take(WRITE_BYTES_MAX)?;
        buffer.set_len(run.len() * PAGE_SIZE);
        for (copy, guard) in buffer.chunks_exact_mut(PAGE_SIZE).zip(run) {
            let copy: &mut PageBytes = copy.try_into().expect("chunks of a page");
            copy.copy_from_slice(&guard[..]);
            seal(copy);
        }
        if let Some(log) = &file.log {
            let newest = run.iter().map(|guard| PageHeader::lsn_of(guard)).max().unwrap_or_default();
            if newest.0 > 0
                && !planted::has(Bug::PagesBeforeLog)
                && let Err(error) = log.flush_for(room_for, newest)
            {
                self.staging.give(buffer);
                return Err(BufferError::Log(error));
            }
        }
        file.written.note(first.page().number, u32::try_from(run.len()).unwrap_or(u32::MAX));
        let wait = Wait::begin_working(WaitType::WriteCompletion);
        let written = file.disk.write_at(&buffer, first.page().byte_offset());
        drop(wait);
        self.staging.give(buffer);
        // Once more: a full backup may have begun to count while the write was under way, and have read the old page.
        file.written.note(first.page().number, u32::try_from(run.len()).unwrap_or(u32::MAX));
        written?;
        run.iter().for_each(SharedGuard::mark_clean);
        self.counters.written.add(run.len() as u64);
        Ok(())
    }
}

/// The bytes of a file's pages that are changed now.
fn changed_ranges(file: &RegisteredFile) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for segment in file.words.segments() {
        for cell in segment.pages().filter(|cell| cell.load().is_dirty()) {
            let from = u64::from(cell.number()) * PAGE_SIZE as u64;
            let upto = from + PAGE_SIZE as u64;
            match ranges.last_mut() {
                Some(last) if last.end == from => last.end = upto,
                _ => ranges.push(from..upto),
            }
        }
    }
    ranges
}

/// Shared access to a page if it is dirty and can be latched without waiting. Does not count as use.
fn share_dirty(cell: PageCell<'_>) -> Option<SharedGuard<'_>> {
    if !cell.load().is_dirty() {
        return None;
    }
    let Latched::Guard(guard) = cell.try_share_quietly() else { return None };
    // Another thread may have written it in between.
    cell.load().is_dirty().then_some(guard)
}
