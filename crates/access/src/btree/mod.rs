//! B+trees: rows in the order of a key, column-wise in the leaves.
//!
//! ```text
//!  run list page · root          root, never moves         level 2   (sep, child) (sep, child) …
//!  the first extent's first two                          ┌────────────┴───────┐
//!                                level 1                 …                    …
//!                                        ┌───────────────┼──────────┐
//!                                leaves  rows (PAX) ──►  rows ──►   rows   linked to the right
//! ```
//! A leaf is a row page with its slots' order; what stands above are separators of *normalised keys*, bytes whose order
//! is the index's. The pages are of a [`Hobt`], whose runs, counts and long values a tree uses as a heap does.
//!
//! Rows: an insert puts a row at its place, a delete sets its deleted bit and leaves a *ghost*, which an insert of the
//! same key brings to life and [`BTree::remove_ghosts`] takes away. What a statement did is undone by key (`undo`).
//! Structure: pages split (`split`) and are not undone, nor joined again when they empty. Latches are coupled from the
//! root down (`descent`); a [`Cursor`] holds none between two leaves and goes by keys (`cursor`).
//!
//! Leaves to others: who may change which row when (locks), what makes keys of SQL's values (`hobt_types`), hidden
//! columns that make keys differ, when nobody needs a ghost any more.

mod build;
mod check;
mod cursor;
mod descent;
mod key;
mod leaves;
mod pages;
mod split;
mod undo;
mod visible;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use hobt_base::{FilegroupId, HobtId, PageId, SlotId, Stamp};
use hobt_page::{
    INDEX_KEY_BYTES_MAX, PageChange, PageDamage, PageFlags, PageHeader, PageType, RowImage, RowLayout, RowPage,
};
use hobt_txn::{Before, LogChain, StatementContext};

use crate::change::{Identity, Logged, Part};
use crate::hobt::newest_writer;
use crate::log_record::Undo;
use crate::{AccessError, Hobt, Storage};
use descent::{Fences, Step, Target};
use leaves::SplitNotes;
use pages::FileTable;
use split::Wanted;

pub(crate) use build::LeafChain;
pub use build::TreeBuilder;
pub use check::TreeFigures;
pub use cursor::{Cursor, Direction, KeyRange, ShowLeaf};
pub use key::{TreeKey, TreeKeyColumn};
pub(crate) use leaves::LeafList;
pub(crate) use undo::KeyChange;

/// Bytes of log that a row's undo may need for pages that it splits: a split's and that of the page above.
const UNDO_SPLIT_BYTES: usize = 8 * hobt_base::PAGE_SIZE;

/// Why a row did not come into a tree.
#[derive(Debug)]
pub enum BTreeError {
    /// A row with this key is there: error 2601 or 2627. Nothing was changed.
    Duplicate,
    /// The key is longer than a separator may be: error 1946. Nothing was changed.
    KeyTooLong {
        /// Bytes of the key.
        bytes: usize,
    },
    /// Anything else.
    Storage(AccessError),
}

impl fmt::Display for BTreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BTreeError::Duplicate => f.write_str("a row with this key is there already"),
            BTreeError::KeyTooLong { bytes } => {
                write!(f, "a key of {bytes} bytes is longer than the {INDEX_KEY_BYTES_MAX} that an index can have")
            }
            BTreeError::Storage(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BTreeError {}

impl From<AccessError> for BTreeError {
    fn from(error: AccessError) -> BTreeError {
        BTreeError::Storage(error)
    }
}

/// One partition of a B+tree.
pub struct BTree {
    hobt: Arc<Hobt>,
    key: Arc<TreeKey>,
    root: PageId,
    files: FileTable,
    notes: SplitNotes,
}

impl fmt::Debug for BTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BTree").field("hobt", &self.hobt).field("key", &self.key).finish_non_exhaustive()
    }
}

/// What a tree is, apart from where it lies.
#[derive(Clone, Debug)]
pub struct TreeDescription {
    /// Its id.
    pub id: HobtId,
    /// Where its pages are allocated.
    pub filegroup: FilegroupId,
    /// All columns of its rows; the layout is [ordered](RowLayout::ordered).
    pub rows: Arc<RowLayout>,
    /// The version of the layout, for its pages' headers.
    pub layout_version: u32,
    /// Its key.
    pub key: Arc<TreeKey>,
}

impl TreeDescription {
    /// # Panics
    /// The columns are not those of a tree: the caller made them.
    fn identity(&self, run_list: PageId) -> Identity {
        assert!(self.rows.is_ordered(), "the rows of a tree have an order");
        assert!(self.key.fits(&self.rows), "the columns of a key are those of its rows");
        let rows = Arc::clone(&self.rows);
        let identity = Identity::new(self.id, run_list, self.filegroup, rows, self.layout_version);
        identity.with_key(Some(Arc::clone(&self.key)))
    }
}

/// What became of a row that was to come into a leaf.
enum Put {
    Done,
    Duplicate,
    NoRoom,
}

impl BTree {
    /// Makes an empty tree. Undone with the statement.
    ///
    /// # Errors
    /// The filegroup or the log is full, or the device fails.
    ///
    /// # Panics
    /// If the description is none of a tree.
    pub fn create(
        storage: &Arc<Storage>,
        description: &TreeDescription,
        context: &StatementContext,
    ) -> Result<Arc<BTree>, AccessError> {
        storage.in_one_piece(|| {
            let identity = |first| description.identity(first);
            let hobt = Hobt::create_list(storage, description.filegroup, context, identity)?;
            let tree = BTree::of_hobt(hobt)?;
            let made = tree.hobt.take_page(|id, list| {
                assert_eq!(id, tree.root, "the first page that the run gives");
                let mut root = tree.create_page(id)?;
                let header = tree.empty_root();
                let mut parts = [list, Part { id, page: &mut root, changes: vec![PageChange::Format { header }] }];
                Ok(storage.change_together(tree.hobt.identity(), &mut parts, None)?.is_some())
            })?;
            assert!(made, "a page that is made anew has room");
            Ok(tree)
        })
    }

    /// Opens a tree whose run list starts at `run_list`.
    ///
    /// # Errors
    /// As [`Hobt::open`], or the root is none of a tree.
    ///
    /// # Panics
    /// If the description is none of a tree.
    pub fn open(
        storage: &Arc<Storage>,
        description: &TreeDescription,
        run_list: PageId,
    ) -> Result<Arc<BTree>, AccessError> {
        let tree = BTree::of_hobt(Hobt::open_list(storage, description.identity(run_list), true)?)?;
        tree.level_of(tree.root, &*tree.read(tree.root)?)?;
        Ok(tree)
    }

    /// The tree whose pages a HOBT has.
    pub(crate) fn of_hobt(hobt: Arc<Hobt>) -> Result<Arc<BTree>, AccessError> {
        let list = hobt.run_list();
        let key = hobt.identity().key.clone();
        let key = key.ok_or_else(|| hobt.damaged(list, PageDamage::Structure { rule: "a heap's rows have no key" }))?;
        let root = PageId::new(list.file, list.number + 1);
        Ok(Arc::new(BTree { hobt, key, root, files: FileTable::new(), notes: SplitNotes::default() }))
    }

    /// Its runs, counts and long values.
    pub fn hobt(&self) -> &Arc<Hobt> {
        &self.hobt
    }

    /// Its key.
    pub fn key(&self) -> &Arc<TreeKey> {
        &self.key
    }

    /// Its root, which stays where it is.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The header of a page that the tree makes.
    fn header(&self, page_type: PageType, id: PageId) -> PageHeader {
        PageHeader {
            layout_version: self.hobt.layout_version(),
            ..PageHeader::new(page_type, id, self.hobt.storage().database_tag(), self.hobt.id())
        }
    }

    fn empty_root(&self) -> PageHeader {
        let capacity = self.hobt.row_layout().capacity_for(0).max(1);
        PageHeader { capacity, flags: PageFlags::ORDERED, ..self.header(PageType::Row, self.root) }
    }

    /// The normalised key of a row.
    ///
    /// # Errors
    /// [`BTreeError::KeyTooLong`].
    ///
    /// # Panics
    /// If it is no row of this tree.
    pub fn key_of(&self, row: &RowImage) -> Result<Vec<u8>, BTreeError> {
        let key = self.key.of_row(row).expect("a row of this tree, whose values are of their types");
        if key.len() > INDEX_KEY_BYTES_MAX {
            return Err(BTreeError::KeyTooLong { bytes: key.len() });
        }
        Ok(key)
    }

    /// Where in a leaf's order the row with a key is, deleted or not, or would be.
    fn find_in(&self, id: PageId, page: &RowPage<'_>, key: &[u8]) -> Result<Result<usize, usize>, AccessError> {
        let mut other = Vec::with_capacity(key.len() + 16);
        let mut compare = |slot: usize| -> Result<_, PageDamage> {
            self.key.of_slot(page, slot, &mut other)?;
            Ok(other.as_slice().cmp(key))
        };
        let find = || {
            // Keys that rise come behind all others.
            if let Some(last) = page.row_count().checked_sub(1)
                && compare(page.slot_at(last)?)? == Ordering::Less
            {
                return Ok(Err(last + 1));
            }
            page.find(compare)
        };
        find().map_err(|damage| self.hobt.damaged(id, damage))
    }

    /// Inserts a row. Undone with the statement. Blocks on latches, and on allocation where a page is split.
    ///
    /// # Errors
    /// [`BTreeError`]; the row is not there then.
    ///
    /// # Panics
    /// If it is no row of this tree.
    pub fn insert(self: &Arc<BTree>, context: &StatementContext, row: &RowImage) -> Result<(), BTreeError> {
        let key = self.key_of(row)?;
        self.hobt.storage().in_one_piece(|| {
            let moved = self.hobt.move_out(context, row)?;
            let row = moved.as_ref().unwrap_or(row);
            self.make_room(context, &key, row, |step| self.put(context, step, &key, row))
        })
    }

    /// Lets `put` try the leaf of a key until there is room.
    fn make_room(
        &self,
        context: &StatementContext,
        key: &[u8],
        row: &RowImage,
        mut put: impl FnMut(&mut Step<'_>) -> Result<Put, AccessError>,
    ) -> Result<(), BTreeError> {
        let answer = |put| match put {
            Put::Done => Some(Ok(())),
            Put::Duplicate => Some(Err(BTreeError::Duplicate)),
            Put::NoRoom => None,
        };
        loop {
            let mut step = self.write_leaf(key)?;
            if let Some(done) = answer(put(&mut step)?) {
                return done;
            }
            drop(step);
            let mut path = self.write_path(key)?;
            // Somebody may have made room meanwhile.
            if let Some(done) = answer(put(path.last_mut().expect("a path ends in a leaf"))?) {
                return done;
            }
            self.split(path, Wanted { key, row }, None, Some(context))?;
        }
    }

    fn put(
        self: &Arc<BTree>,
        context: &StatementContext,
        step: &mut Step<'_>,
        key: &[u8],
        row: &RowImage,
    ) -> Result<Put, AccessError> {
        let chain = self.hobt.storage().chain_of(context);
        let writer = self.begin_change(context, step)?;
        let view = self.leaf(step.id, &step.page)?;
        let change = match self.find_in(step.id, &view, key)? {
            Err(position) => {
                let position = u16::try_from(position).expect("a position of the page");
                PageChange::InsertRow { position, row: row.clone(), writer }
            }
            Ok(position) => {
                let slot = view.slot_at(position).map_err(|damage| self.hobt.damaged(step.id, damage))?;
                if !view.is_deleted(slot) {
                    return Ok(Put::Duplicate);
                }
                let slot = SlotId(u16::try_from(slot).expect("a slot of the page"));
                if !self.replace_slot(context, chain.as_ref(), step, slot, key, row)? {
                    return Ok(Put::NoRoom);
                }
                PageChange::SetDeleted { slot, deleted: false, writer }
            }
        };
        let undo = Undo::RemoveKey { key: key.to_vec() };
        let counting = self.hobt.begin_counting();
        let logged = Logged::of(chain.as_ref()).undone_by(&undo).rows(1);
        let Some(changed) = self.hobt.change(&mut step.page, step.id, &change, logged)? else {
            return Ok(Put::NoRoom);
        };
        context.put_key_version(self.hobt.storage().versions(), self.hobt.id(), key, Before::Absent);
        self.hobt.count_rows(1);
        drop(counting);
        self.undo_with(context, chain, changed.lsn, KeyChange::Inserted { key: key.to_vec() });
        Ok(Put::Done)
    }

    /// To be called before a leaf is changed: keeps what readers need to know of it who do not see who loaded it. Its youngest
    /// writer once the statement has changed it.
    fn begin_change(&self, context: &StatementContext, step: &Step<'_>) -> Result<Stamp, AccessError> {
        let header = PageHeader::read(&step.page).map_err(|damage| self.hobt.damaged(step.id, damage))?;
        if header.flags.contains(PageFlags::BULK) {
            self.put_loaded_versions(context, step.id, &step.page)?;
        }
        Ok(newest_writer(&header, context))
    }

    /// A leaf that was built whole says by its stamp alone who sees it; from its first change on its keys do.
    fn put_loaded_versions(
        &self,
        context: &StatementContext,
        id: PageId,
        page: &hobt_page::PageBytes,
    ) -> Result<(), AccessError> {
        let (store, loader) = (self.hobt.storage().versions(), PageHeader::newest_writer_of(page));
        context.put_loaded_key_versions(store, loader, self.hobt.id(), || {
            let view = self.leaf(id, page)?;
            let key_of = |slot| {
                let mut key = Vec::new();
                self.key.of_slot(&view, slot, &mut key).map(|()| key).map_err(|damage| self.hobt.damaged(id, damage))
            };
            (0..view.row_count()).map(key_of).collect()
        })
    }

    /// Puts a row in the place of another with its key, a ghost or not; whether there was room.
    fn replace_slot(
        self: &Arc<BTree>,
        context: &StatementContext,
        chain: Option<&Arc<LogChain>>,
        step: &mut Step<'_>,
        slot: SlotId,
        key: &[u8],
        row: &RowImage,
    ) -> Result<bool, AccessError> {
        let view = self.leaf(step.id, &step.page)?;
        let before = view.row_image(usize::from(slot.0)).map_err(|damage| self.hobt.damaged(step.id, damage))?;
        if before == *row {
            return Ok(true);
        }
        if let Some(chain) = chain.filter(|_| row.byte_count() < before.byte_count()) {
            // Others may have taken the room by then that the row gives up now.
            chain.reserve(UNDO_SPLIT_BYTES)?;
        }
        let is_ghost = view.is_deleted(usize::from(slot.0));
        let writer = self.begin_change(context, step)?;
        let change = PageChange::ReplaceRow { slot, row: row.clone(), writer };
        let undo = Undo::ReplaceKey { key: key.to_vec(), row: before };
        let logged = Logged::of(chain).undone_by(&undo);
        let Some(changed) = self.hobt.change(&mut step.page, step.id, &change, logged)? else { return Ok(false) };
        let Undo::ReplaceKey { key, row } = undo else { unreachable!("made above") };
        let (store, hobt) = (self.hobt.storage().versions(), self.hobt.id());
        store.keep_row(hobt, &key, &row);
        let before = if is_ghost { Before::Absent } else { Before::Row(Arc::new(row.clone())) };
        context.put_key_version(store, hobt, &key, before);
        self.undo_with(context, chain.cloned(), changed.lsn, KeyChange::Replaced { key, row });
        Ok(true)
    }

    fn undo_with(
        self: &Arc<BTree>,
        context: &StatementContext,
        chain: Option<Arc<LogChain>>,
        lsn: hobt_base::Lsn,
        done: KeyChange,
    ) {
        let (tree, writer) = (Arc::clone(self), context.stamp());
        context.on_undo(move || tree.hobt.storage().end(|| tree.undo_change(chain.as_ref(), lsn, &done, writer)));
    }

    /// Deletes the row with a key; whether there was one. Undone with the statement.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or the log is full.
    pub fn delete(self: &Arc<BTree>, context: &StatementContext, key: &[u8]) -> Result<bool, AccessError> {
        self.hobt.storage().in_one_piece(|| {
            let chain = self.hobt.storage().chain_of(context);
            let mut step = self.write_leaf(key)?;
            let Some(slot) = self.live_slot(step.id, &step.page, key)? else { return Ok(false) };
            let writer = self.begin_change(context, &step)?;
            let change = PageChange::SetDeleted { slot, deleted: true, writer };
            let undo = Undo::RestoreKey { key: key.to_vec() };
            let counting = self.hobt.begin_counting();
            let logged = Logged::of(chain.as_ref()).undone_by(&undo).rows(-1);
            let changed = self.hobt.change(&mut step.page, step.id, &change, logged)?.expect("a bit has room");
            context.put_key_version(self.hobt.storage().versions(), self.hobt.id(), key, Before::Present);
            self.hobt.count_rows(-1);
            drop(counting);
            self.undo_with(context, chain, changed.lsn, KeyChange::Deleted { key: key.to_vec() });
            Ok(true)
        })
    }

    /// Replaces the row that has the key of `row`; whether there was one. Undone with the statement.
    ///
    /// # Errors
    /// [`BTreeError`], but not `Duplicate`; the row is as it was then.
    ///
    /// # Panics
    /// If it is no row of this tree.
    pub fn replace(self: &Arc<BTree>, context: &StatementContext, row: &RowImage) -> Result<bool, BTreeError> {
        let key = self.key_of(row)?;
        self.hobt.storage().in_one_piece(|| {
            let moved = self.hobt.move_out(context, row)?;
            let row = moved.as_ref().unwrap_or(row);
            let chain = self.hobt.storage().chain_of(context);
            let mut was_there = true;
            self.make_room(context, &key, row, |step| {
                let Some(slot) = self.live_slot(step.id, &step.page, &key)? else {
                    was_there = false;
                    return Ok(Put::Done);
                };
                let has_room = self.replace_slot(context, chain.as_ref(), step, slot, &key, row)?;
                Ok(if has_room { Put::Done } else { Put::NoRoom })
            })?;
            Ok(was_there)
        })
    }

    /// The slot of the live row with a key in its leaf.
    fn live_slot(&self, id: PageId, page: &hobt_page::PageBytes, key: &[u8]) -> Result<Option<SlotId>, AccessError> {
        let view = self.leaf(id, page)?;
        let Ok(position) = self.find_in(id, &view, key)? else { return Ok(None) };
        let slot = view.slot_at(position).map_err(|damage| self.hobt.damaged(id, damage))?;
        Ok((!view.is_deleted(slot)).then(|| SlotId(u16::try_from(slot).expect("a slot of the page"))))
    }

    /// Shows the live row with a key: its page, which is held shared meanwhile, and its slot. `None` if there is none.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn find<R>(&self, key: &[u8], show: impl FnOnce(&RowPage<'_>, SlotId) -> R) -> Result<Option<R>, AccessError> {
        let (id, page) = self.read_leaf(Target::Key(key), None, None)?;
        let Some(slot) = self.live_slot(id, &page, key)? else { return Ok(None) };
        Ok(Some(show(&self.leaf(id, &page)?, slot)))
    }

    /// Takes the ghosts of the leaf to which `key` belongs away, of which the caller says that nobody needs them: no
    /// transaction that deleted a row of this leaf is open, and no reader goes back before it. How many there were, and the key
    /// from which on the next leaf's rows are; `None` for that if there is no next one. Not undone.
    ///
    /// # Errors
    /// A page is damaged or cannot be read, or the log is full.
    pub fn remove_ghosts(&self, key: &[u8]) -> Result<(usize, Option<Vec<u8>>), AccessError> {
        self.hobt.storage().in_one_piece(|| {
            let mut fences = Fences::default();
            let mut step = self.write_leaf_between(key, Some(&mut fences))?;
            let view = self.leaf(step.id, &step.page)?;
            let ghosts = view.deleted_count();
            if ghosts > 0 {
                let header = PageHeader::read(&step.page).map_err(|damage| self.hobt.damaged(step.id, damage))?;
                let (to, writer) = (header.row_count, header.newest_writer);
                let change = PageChange::KeepRows { from: 0, to, drop_deleted: true, writer };
                let kept = self.hobt.change(&mut step.page, step.id, &change, Logged::structure())?;
                assert!(kept.is_some(), "fewer rows than there were have room");
            }
            Ok((ghosts, fences.high))
        })
    }

    /// Takes all rows away. Undone with the statement, which alone has the tree.
    ///
    /// # Errors
    /// A page cannot be read or the log is full; the rows are there still once the statement is undone.
    pub fn truncate(self: &Arc<BTree>, context: &StatementContext) -> Result<(), AccessError> {
        self.hobt.storage().in_one_piece(|| {
            self.note_remade_on_undo(context);
            let first = self.hobt.runs()[0];
            let pages = (first.row_pages().start..first.used_end()).map(|number| PageId::new(first.first.file, number));
            for id in pages.rev() {
                let header = PageHeader { page: id, ..self.empty_root() };
                self.hobt.remake_page(context, id, &PageChange::Format { header })?;
            }
            self.hobt.truncate_to(context, |first| hobt_page::Run { used: 2, ..first })?;
            self.notes.note_remade();
            Ok(())
        })
    }

    /// Pages that were a scan's are others once the statement is undone, up to here.
    fn note_remade_on_undo(self: &Arc<BTree>, context: &StatementContext) {
        let tree = Arc::clone(self);
        context.on_undo(move || {
            tree.notes.note_remade();
            Ok(())
        });
    }

    /// Frees all its extents when the statement commits. Whoever still has the tree then cannot change it any more.
    ///
    /// # Errors
    /// The log is full or has failed.
    pub fn drop_storage(&self, context: &StatementContext) -> Result<(), AccessError> {
        self.hobt.drop_storage(context)
    }
}
