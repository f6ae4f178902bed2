//! The list of a tree's leaves, for a scan of all of them in any order, and notes of which leaves are split meanwhile.
//!
//! The pages of level 1 name the leaves, with the separators between them. A scan reads these pages when it begins and
//! reads the leaves as a heap's scan reads its runs. From before the first of these reads on, the tree notes which
//! leaves are split ([`SplitNotes`]). A note is made while the leaf is held exclusively. So a scan that has read a page
//! and then finds no note of it has read all rows between its separators. If there is a note, the rows are looked up by
//! key.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hobt_base::{FileId, PageId};
use hobt_buffer::ReadCounts;
use hobt_instruments::schedule::Mutex;
use hobt_txn::{IoCounts, StatementContext};

use super::BTree;
use super::descent::{Fences, Target};
use crate::AccessError;
use crate::read_ahead::{ReadAhead, add_reads};

/// Pages of level 1 that are read ahead.
const AHEAD_PAGES: usize = 64;
/// The maximum number of slots for each leaf when leaves are sorted by address. A tree's pages may have other pages
/// between them.
const SLOTS_OF_LEAF: usize = 8;
/// The entry of a slot whose page is not a leaf.
const NO_RANK: u32 = u32::MAX;

/// Counts splits of leaves, and notes which leaves these are while a scan watches.
#[derive(Default)]
pub(super) struct SplitNotes {
    /// How many there have been since the tree was opened.
    made: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    watchers: usize,
    /// The notes since the first watcher, in order.
    notes: Vec<Note>,
}

#[derive(Clone, Copy)]
enum Note {
    /// Some rows of this leaf have moved to another page.
    Split(PageId),
    /// All pages have other content.
    Remade,
}

impl SplitNotes {
    /// The number of times that rows of a leaf have moved to another page since the tree was opened. For a thread that
    /// holds a leaf, and finds what it found when it held the leaf before, the leaf has kept its bounds.
    pub(super) fn shape(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    fn note(&self, note: Note) {
        let mut kept = self.kept.lock();
        if kept.watchers > 0 {
            kept.notes.push(note);
        }
        // After the note: a thread that sees the number finds the note.
        self.made.fetch_add(1, Ordering::Release);
    }

    /// Whether a scan is running that has a list of leaves.
    pub(super) fn is_watched(&self) -> bool {
        self.kept.lock().watchers > 0
    }

    /// Notes that some rows of this leaf have moved to another page. The leaf is still held exclusively.
    pub(super) fn note_split(&self, leaf: PageId) {
        self.note(Note::Split(leaf));
    }

    /// Notes that all pages have other content. They are not used for anything else yet.
    pub(super) fn note_remade(&self) {
        self.note(Note::Remade);
    }
}

/// The splits since a scan began, as far as it has read the notes.
#[derive(Default)]
struct Known {
    until: u64,
    split: HashSet<PageId>,
    is_remade: bool,
}

/// Makes a tree note its splits.
struct Watch {
    tree: Arc<BTree>,
    since: u64,
    known: Mutex<Known>,
}

impl Watch {
    fn begin(tree: &Arc<BTree>) -> Watch {
        let mut kept = tree.notes.kept.lock();
        kept.watchers += 1;
        let since = tree.notes.made.load(Ordering::Relaxed);
        let known = Mutex::new(Known { until: since, ..Known::default() });
        Watch { tree: Arc::clone(tree), since, known }
    }

    fn is_split(&self, leaf: PageId) -> bool {
        let notes = &self.tree.notes;
        let made = notes.made.load(Ordering::Acquire);
        if made == self.since {
            return false;
        }
        let mut known = self.known.lock();
        if known.until < made {
            let kept = notes.kept.lock();
            let made = notes.made.load(Ordering::Relaxed);
            let new = usize::try_from(made - known.until).expect("as many notes as are kept");
            for note in &kept.notes[kept.notes.len() - new..] {
                match note {
                    Note::Split(leaf) => drop(known.split.insert(*leaf)),
                    Note::Remade => known.is_remade = true,
                }
            }
            known.until = made;
        }
        known.is_remade || known.split.contains(&leaf)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut kept = self.tree.notes.kept.lock();
        kept.watchers -= 1;
        if kept.watchers == 0 {
            kept.notes = Vec::new();
        }
    }
}

#[derive(Clone, Copy)]
struct Leaf {
    page: PageId,
    /// Its position in the order of keys.
    rank: u32,
}

/// The leaves of a tree, in the order of their addresses, with the bounds of each one's keys.
pub(crate) struct LeafList {
    watch: Watch,
    leaves: Vec<Leaf>,
    /// The separators between the leaves in the order of keys, concatenated.
    separators: Vec<u8>,
    /// Where each separator ends.
    ends: Vec<usize>,
    context: Arc<StatementContext>,
    /// Bytes in the statement's memory account.
    held_bytes: u64,
}

impl fmt::Debug for LeafList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeafList").field("leaves", &self.leaves.len()).finish_non_exhaustive()
    }
}

impl Drop for LeafList {
    fn drop(&mut self) {
        self.context.memory().shrink(self.held_bytes);
    }
}

impl LeafList {
    /// Reads the leaves of a tree, which notes splits from now until the list is dropped. Blocks on reads, many at once
    /// if it `reads_ahead`.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or the statement has too little memory for the list.
    pub(crate) fn read(
        tree: &Arc<BTree>,
        context: &Arc<StatementContext>,
        counts: &IoCounts,
        reads_ahead: bool,
    ) -> Result<LeafList, AccessError> {
        let mut list = LeafList {
            watch: Watch::begin(tree),
            leaves: Vec::new(),
            separators: Vec::new(),
            ends: Vec::new(),
            context: Arc::clone(context),
            held_bytes: 0,
        };
        list.make_room()?;
        let reads = ReadCounts::default();
        let read = list.read_levels(&reads, counts, reads_ahead);
        add_reads(counts, &reads);
        read?;
        list.leaves = by_address(std::mem::take(&mut list.leaves));
        Ok(list)
    }

    /// Allocates room for as many leaves as the tree has pages, so that a long list is not reallocated again and again.
    fn make_room(&mut self) -> Result<(), AccessError> {
        let pages = self.watch.tree.hobt.data_pages();
        self.hold(pages * (size_of::<Leaf>() + size_of::<usize>()) as u64)?;
        let pages = usize::try_from(pages).expect("fewer pages than bytes of memory");
        self.leaves.reserve(pages);
        self.ends.reserve(pages);
        Ok(())
    }

    /// Adds bytes to the statement's memory account.
    fn hold(&mut self, bytes: u64) -> Result<(), AccessError> {
        self.context.memory().grow(bytes)?;
        self.held_bytes += bytes;
        Ok(())
    }

    fn read_levels(&mut self, reads: &ReadCounts, counts: &IoCounts, reads_ahead: bool) -> Result<(), AccessError> {
        let tree = Arc::clone(&self.watch.tree);
        let mut ahead = None;
        let mut low = Vec::new();
        loop {
            let mut fences = Fences::default();
            // The level above names the next pages.
            let above = if reads_ahead { tree.read_down_to(2, Target::Key(&low), &mut fences, reads)? } else { None };
            if let Some((id, above)) = above {
                let damaged = |damage| tree.hobt.damaged(id, damage);
                let page = tree.index(id, &above)?;
                let first = page.child_index(&low).map_err(damaged)?;
                let last = (first + AHEAD_PAGES).min(page.len());
                let children: Result<Vec<PageId>, _> = (first..=last).map(|index| page.child(index)).collect();
                let children = children.map_err(damaged)?;
                let until =
                    if last < page.len() { Some(page.key(last).map_err(damaged)?.to_vec()) } else { fences.high };
                drop(above);
                let ahead = ahead.get_or_insert_with(|| ReadAhead::new(tree.hobt.storage().pool()));
                ahead.start(tree.hobt.storage(), &children, counts);
                ahead.settle();
                while let Some(next) = self.add_level_one(&tree, &low, reads)? {
                    low = next;
                    if until.as_ref().is_some_and(|until| *until <= low) {
                        break;
                    }
                }
                if until.is_none() {
                    return Ok(());
                }
                continue;
            }
            match self.add_level_one(&tree, &low, reads)? {
                Some(next) => low = next,
                None => return Ok(()),
            }
        }
    }

    /// Adds the leaves below the page of level 1 to which `low` belongs, from `low` on. Returns the lower bound of the
    /// next page of level 1.
    fn add_level_one(
        &mut self,
        tree: &Arc<BTree>,
        low: &[u8],
        reads: &ReadCounts,
    ) -> Result<Option<Vec<u8>>, AccessError> {
        if self.context.is_cancelled() {
            return Err(AccessError::Cancelled);
        }
        let mut fences = Fences::default();
        let Some((id, bytes)) = tree.read_down_to(1, Target::Key(low), &mut fences, reads)? else {
            // The root is the only leaf.
            self.push(low, tree.root);
            return Ok(None);
        };
        let page = tree.index(id, &bytes)?;
        let damaged = |damage| tree.hobt.damaged(id, damage);
        let first = page.child_index(low).map_err(damaged)?;
        let before = self.separators.len();
        self.push(low, page.child(first).map_err(damaged)?);
        for index in first..page.len() {
            let (separator, child) = page.entry(index).map_err(damaged)?;
            self.push(separator, child);
        }
        self.hold((self.separators.len() - before) as u64)?;
        Ok(fences.high)
    }

    /// Adds the next leaf in the order of keys, whose keys are from `separator` on.
    fn push(&mut self, separator: &[u8], page: PageId) {
        let rank = u32::try_from(self.leaves.len()).expect("fewer leaves than pages");
        if rank > 0 {
            self.separators.extend_from_slice(separator);
            self.ends.push(self.separators.len());
        }
        self.leaves.push(Leaf { page, rank });
    }

    /// How many leaves there are.
    pub(crate) fn len(&self) -> usize {
        self.leaves.len()
    }

    /// The page of a leaf, by its index in the list.
    pub(crate) fn page(&self, place: usize) -> PageId {
        self.leaves[place].page
    }

    /// The bounds of a leaf's keys.
    pub(crate) fn bounds(&self, place: usize) -> (&[u8], Option<&[u8]>) {
        let rank = self.leaves[place].rank as usize;
        let separator = |index: usize| {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            &self.separators[start..self.ends[index]]
        };
        let low = if rank == 0 { &[][..] } else { separator(rank - 1) };
        (low, (rank < self.ends.len()).then(|| separator(rank)))
    }

    /// Whether a leaf may have been split since the list was begun. The caller has read its page before.
    pub(crate) fn is_split(&self, place: usize) -> bool {
        self.watch.is_split(self.page(place))
    }
}

/// Sorts leaves by address: by a slot for each page if they are close together, as those of one tree are, otherwise by
/// comparison.
fn by_address(mut leaves: Vec<Leaf>) -> Vec<Leaf> {
    let mut spans: Vec<(FileId, Range<u32>)> = Vec::new();
    for Leaf { page, .. } in &leaves {
        match spans.iter_mut().find(|(file, _)| *file == page.file) {
            Some((_, pages)) => *pages = pages.start.min(page.number)..pages.end.max(page.number.saturating_add(1)),
            None => spans.push((page.file, page.number..page.number.saturating_add(1))),
        }
    }
    spans.sort_unstable_by_key(|(file, _)| *file);
    if spans.iter().map(|(_, pages)| pages.len()).sum::<usize>() <= SLOTS_OF_LEAF * leaves.len() {
        let mut sorted = Vec::with_capacity(leaves.len());
        for (file, pages) in spans {
            let mut ranks = vec![NO_RANK; pages.len()];
            for Leaf { page, rank } in leaves.iter().filter(|leaf| leaf.page.file == file) {
                ranks[(page.number - pages.start) as usize] = *rank;
            }
            let there = pages.zip(ranks).filter(|(_, rank)| *rank != NO_RANK);
            sorted.extend(there.map(|(number, rank)| Leaf { page: PageId::new(file, number), rank }));
        }
        // If a page is there twice, the tree is broken, which is not repaired here.
        if sorted.len() == leaves.len() {
            return sorted;
        }
    }
    leaves.sort_unstable_by_key(|leaf| leaf.page);
    leaves
}

impl BTree {
    /// How many leaves it has; reads the pages above them.
    ///
    /// # Errors
    /// One is damaged or cannot be read.
    pub fn leaf_pages(&self) -> Result<u64, AccessError> {
        let (reads, mut leaves, mut low) = (ReadCounts::default(), 0, Vec::new());
        loop {
            let mut fences = Fences::default();
            let Some((id, bytes)) = self.read_down_to(1, Target::Key(&low), &mut fences, &reads)? else { return Ok(1) };
            leaves += self.index(id, &bytes)?.len() as u64 + 1;
            match fences.high {
                Some(high) => low = high,
                None => return Ok(leaves),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_come_in_the_order_of_their_addresses() {
        let orders: [&[(u16, u32)]; 7] = [
            &[],
            &[(1, 7)],
            &[(1, 1), (1, 2), (1, 3), (1, 4)],
            &[(1, 16), (2, 17), (2, 18), (1, 9), (2, 16), (1, 8)],
            // Far from each other.
            &[(1, 1 << 30), (2, 4), (1, 1), (2, 1 << 31), (1, u32::MAX)],
            &[(1, 9), (1, 8), (1, 7), (1, 3)],
            // One is there twice.
            &[(1, 5), (1, 6), (1, 5), (1, 7)],
        ];
        for order in orders {
            let pages: Vec<PageId> = order.iter().map(|(file, number)| PageId::new(FileId(*file), *number)).collect();
            let leaf = |(rank, page): (usize, &PageId)| Leaf { page: *page, rank: rank as u32 };
            let leaves = by_address(pages.iter().enumerate().map(leaf).collect());
            let mut sorted = pages.clone();
            sorted.sort_unstable();
            assert_eq!(leaves.iter().map(|leaf| leaf.page).collect::<Vec<_>>(), sorted);
            assert!(leaves.iter().all(|leaf| pages[leaf.rank as usize] == leaf.page), "{pages:?}");
        }
    }
}
