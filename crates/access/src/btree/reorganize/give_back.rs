//! Gives back free pages at the end of the runs. Pages above the leaves among them are moved before them, then the last
//! runs are shortened, and runs without pages are freed.
//!
//! A scan that began before a page became free has it in its list and may still read it. So nothing is given back while
//! such scans may be running. A later walk does it.

use std::collections::BTreeSet;

use hobt_base::PageId;
use hobt_buffer::ReadCounts;
use hobt_page::{PageChange, PageFlags, PageHeader};

use super::super::BTree;
use super::super::descent::{Fences, Step, Target};
use crate::AccessError;
use crate::change::Part;

impl BTree {
    /// Gives back the free pages of `rest`, which is in the order of addresses, at the end of the runs. Returns the
    /// number of pages.
    pub(super) fn give_back(&self, rest: Vec<PageId>) -> Result<u64, AccessError> {
        if self.notes.is_watched() {
            return Ok(0);
        }
        let (mut free, mut above) = (BTreeSet::new(), Vec::new());
        for (place, id) in rest.into_iter().enumerate() {
            let page = self.read(id)?;
            let header = PageHeader::read(&page).map_err(|damage| self.hobt.damaged(id, damage))?;
            if self.level_of(id, &page)? > 0 {
                above.push((place, id));
            } else if header.flags.contains(PageFlags::FREE) {
                free.insert((place, id));
            }
        }
        for (place, id) in above.into_iter().rev() {
            let Some(&(first, to)) = free.first().filter(|(first, _)| *first < place) else { break };
            if self.hobt.storage().in_one_piece(|| self.move_above(id, to))? {
                free.remove(&(first, to));
                free.insert((place, id));
            }
        }
        let free: BTreeSet<PageId> = free.into_iter().map(|(_, id)| id).collect();
        self.hobt.storage().in_one_piece(|| self.hobt.shorten(&|page| free.contains(&page)))
    }

    /// Moves a page above the leaves to a free page; `false` if it cannot be found from the root.
    fn move_above(&self, id: PageId, to: PageId) -> Result<bool, AccessError> {
        let _moves = self.moves.write();
        let (level, key) = {
            let bytes = self.read(id)?;
            let page = self.index(id, &bytes)?;
            if id == self.root || page.is_empty() {
                return Ok(false);
            }
            (page.level(), page.key(0).map_err(|damage| self.hobt.damaged(id, damage))?.to_vec())
        };
        let found = self.read_down_to(level + 1, Target::Key(&key), &mut Fences::default(), &ReadCounts::default())?;
        let Some(parent) = found.map(|(parent, _)| parent) else { return Ok(false) };
        let mut parent = Step { id: parent, page: self.write(parent)? };
        if self.level_of(parent.id, &parent.page)? != level + 1 {
            return Ok(false);
        }
        let Some(entry) = self.child_changes(&parent, id, to)? else { return Ok(false) };
        let mut from = Step { id, page: self.write(id)? };
        let mut target = Step { id: to, page: self.write(to)? };
        let header = PageHeader::read(&from.page).map_err(|damage| self.hobt.damaged(id, damage))?;
        let mut bytes = Box::new(*from.page);
        PageHeader { page: to, flags: header.flags.without(PageFlags::BULK), ..header }.write(&mut bytes);
        let free = PageChange::Format { header: self.free_header(id) };
        let mut parts = [
            Part { id: to, page: &mut target.page, changes: vec![PageChange::Image { bytes }] },
            Part { id, page: &mut from.page, changes: vec![free] },
            Part { id: parent.id, page: &mut parent.page, changes: entry },
        ];
        Ok(self.hobt.storage().change_together(self.hobt.identity(), &mut parts, None)?.is_some())
    }
}
