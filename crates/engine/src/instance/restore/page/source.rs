//! What a backup set has of pages that are being restored: copies of them, and their changes in its log.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;

use hobt_backup::{BlockBuffer, Content, Reading, SavedBlock, SetKind, SetReader};
use hobt_base::{FileId, Lsn, PAGE_SIZE, PageId, errors};
use hobt_log::for_each_saved;
use hobt_page::verify;

use super::super::pages::{RestoreProgress, missing_log};
use super::super::{RestoreRequest, Source};
use super::{PageRestore, of_redo};
use crate::error::{EngineError, Result};
use crate::instance::Instance;
use crate::instance::backup::of_read;
use crate::instance::registry::Entry;

impl Instance {
    /// Takes copies of `wanted` from a backup set, and redoes what its log has. A full backup, and a differential one
    /// that the restore begins with, must have all of them.
    pub(super) fn take_from(
        &self,
        request: &RestoreRequest<'_>,
        source: &Source<'_>,
        entry: &Entry,
        wanted: &BTreeSet<PageId>,
        restore: &mut PageRestore,
    ) -> Result<()> {
        let facts = source.facts();
        let reader = SetReader::new(source.media, source.place, Reading::Parts).map_err(of_read)?;
        let progress = RestoreProgress { observe: request.observe, done: AtomicU64::new(0), all: facts.bytes };
        let mut buffer = BlockBuffer::new().map_err(of_read)?;
        while let Some(pass) = reader.next_pass().map_err(of_read)? {
            // A copy of a later pass holds, and comes later.
            let has_one = |content: &Content| pages_of(content, wanted).next().is_some();
            while let Some(block) = reader.next_data_of(pass, &has_one, &mut buffer).map_err(of_read)? {
                for id in pages_of(&block.content, wanted) {
                    self.take_copy(source, entry, &block, id, restore)?;
                }
                progress.add(block.payload.len());
                progress.report()?;
            }
        }
        if let Some(id) = wanted.iter().find(|id| !restore.pages.has(**id)) {
            return Err(EngineError::Statement(errors::PAGE_NOT_IN_BACKUP.with([id])));
        }
        let mut at = facts.first;
        while at < facts.last {
            let block = reader.next_log(at, &mut buffer).map_err(of_read)?.ok_or_else(|| missing_log(source, at))?;
            let mut redone = Ok(());
            let seen = for_each_saved(block.payload, Lsn(at), &mut |record| {
                redone = restore.pages.redo(record);
                redone.is_ok()
            });
            redone.map_err(|error| of_redo(entry, error))?;
            seen.map_err(|_| missing_log(source, at))?;
            progress.add(block.payload.len());
            progress.report()?;
            let next = at.checked_add(block.payload.len() as u64).filter(|next| *next > at);
            at = next.ok_or_else(|| missing_log(source, at))?;
        }
        reader.check_end().map_err(of_read)
    }

    fn take_copy(
        &self,
        source: &Source<'_>,
        entry: &Entry,
        block: &SavedBlock<'_>,
        id: PageId,
        restore: &mut PageRestore,
    ) -> Result<()> {
        let place = (u64::from(id.number) - block.content.first) as usize;
        let page = block.payload.as_chunks::<PAGE_SIZE>().0.get(place);
        let short =
            || EngineError::Statement(errors::BACKUP_SET_DAMAGED.with([&"a block has fewer pages than it says"]));
        let page = page.ok_or_else(short)?;
        let tag = u32::from_le_bytes(*entry.guid.first_chunk().expect("sixteen bytes"));
        if verify(page, id, tag).is_err() {
            return Err(EngineError::Statement(errors::PAGE_DAMAGED_IN_BACKUP.with([&id, &entry.name])));
        }
        match source.facts().kind {
            SetKind::Log => restore.pages.offer(id, page),
            SetKind::Database | SetKind::Differential => restore.pages.put(id, Box::new(*page)),
        }
        Ok(())
    }
}

/// Those of `wanted` that are in a block.
fn pages_of(content: &Content, wanted: &BTreeSet<PageId>) -> impl Iterator<Item = PageId> {
    let file = FileId(content.file);
    let number = |number: u64| PageId::new(file, u32::try_from(number).unwrap_or(u32::MAX));
    let (first, end) = (number(content.first), number(content.first.saturating_add(content.count)));
    wanted.range(first.min(end)..end).copied()
}
