//! B+trees: rows in the order of a key, column-wise in the leaves.
//!
//! ```text
//!  run list page · root          root, never moves         level 2   (sep, child) (sep, child) …
//!  the first extent's first two                          ┌────────────┴───────┐
//!                                level 1                 …                    …
//!                                        ┌───────────────┼──────────┐
//!                                leaves  rows (PAX) ──►  rows ──►   rows   linked to the right
//! ```
//! A leaf is a row page with an order of its slots. The pages above have separators of *normalised keys*, bytes whose
//! order is the index's. The pages belong to a [`Hobt`], whose runs, counts and large values a tree uses as a heap
//! does.
//!
//! Rows: an insert puts a row at its position. A delete sets its deleted bit and leaves a *ghost*, which an insert of
//! the same key revives and [`BTree::remove_ghosts`] removes. A statement's changes are undone by key (`undo`).
//!
//! Structure: pages split (`split`), which is not undone. Only `reorganize` merges pages and puts them in order.
//! Latches are coupled from the root down (`descent`), unless a thread's last search ended in the leaf (`finger`). A
//! [`Cursor`] holds no latch between two leaves and continues by key (`cursor`).
//!
//! Left to others: which transaction may change which row when (locks), normalised keys of SQL values (`hobt_types`),
//! hidden columns that make keys differ, when a ghost is no longer needed.

mod build;
mod check;
mod cursor;
mod descent;
mod estimate;
mod finger;
mod ghosts;
mod given_up;
mod key;
mod leaves;
mod pages;
mod ranges;
mod reorganize;
mod rows;
mod seek;
mod split;
mod undo;
mod uniqueifier;
mod visible;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as AtomicOrdering};

use hobt_base::{FilegroupId, HobtId, PageId, SlotId};
use hobt_buffer::ReadCounts;
use hobt_instruments::rank::{Rank, Ranked};
use hobt_instruments::schedule::{Mutex, RwLock};
use hobt_page::{
    INDEX_KEY_BYTES_MAX, PageChange, PageDamage, PageFlags, PageHeader, PageType, RowImage, RowLayout, RowPage,
};
use hobt_txn::StatementContext;
use hobt_txn::locks::{KeyHash, LockMode};

use crate::change::{Identity, Part};
use crate::storage::Purpose;
use crate::{AccessError, Hobt, Storage};
use given_up::GivenUpRoom;
use leaves::SplitNotes;
use pages::FileTable;

pub(crate) use build::LeafChain;
pub use build::TreeBuilder;
pub(crate) use check::Wrong;
pub use check::{TreeFault, TreeFigures};
pub use cursor::{Cursor, Direction, KeyRange, ShowLeaf};
pub(crate) use given_up::{UNDO_SPLIT_BYTES_FIRST, undo_split_bytes};
pub use key::{TreeKey, TreeKeyColumn};
pub(crate) use leaves::LeafList;
pub use ranges::{KeyOfRange, KeysOfRange};
pub use reorganize::{Reorganized, ShowProgress};
pub use seek::{SeekLeaf, SeekValues, TreeSeek};
pub(crate) use undo::KeyChange;

/// Why a row was not inserted into a tree.
#[derive(Debug)]
pub enum BTreeError {
    /// A row with this key exists: error 2601 or 2627. Nothing was changed.
    Duplicate,
    /// The key is longer than a separator may be: error 1946. Nothing was changed.
    KeyTooLong {
        /// Bytes of the key.
        bytes: usize,
    },
    /// The range where the key would be inserted is locked. Nothing was changed. Wait for the lock, and try again.
    RangeLocked {
        /// The key whose lock conflicts.
        key: KeyHash,
        /// The mode in which to lock it.
        mode: LockMode,
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
            BTreeError::RangeLocked { key, .. } => write!(f, "the range that ends at the key {key} is locked"),
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

/// Numbers the trees that are opened.
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// One partition of a B+tree.
pub struct BTree {
    hobt: Arc<Hobt>,
    key: Arc<TreeKey>,
    /// Never given again in this process. A tree that is opened anew has another.
    number: u64,
    root: PageId,
    files: FileTable,
    notes: SplitNotes,
    given_up: GivenUpRoom,
    /// Held by the thread that puts the tree's pages in order.
    reorganizing: Ranked<Mutex<()>>,
    /// Held exclusively while pages get other addresses or rows move to the left, and shared by a thread that relies on
    /// where pages and rows are. Acquired before latches.
    moves: Ranked<RwLock<()>>,
}

impl fmt::Debug for BTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BTree").field("hobt", &self.hobt).field("key", &self.key).finish_non_exhaustive()
    }
}

/// The properties of a tree, apart from where it is stored.
#[derive(Clone, Debug)]
pub struct TreeDescription {
    /// Its id.
    pub id: HobtId,
    /// The filegroup in which its pages are allocated.
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

impl BTree {
    /// Creates an empty tree. Undone with the statement.
    ///
    /// # Errors
    /// The filegroup or the log is full, or the device fails.
    ///
    /// # Panics
    /// If the description is not that of a tree.
    pub fn create(
        storage: &Arc<Storage>,
        description: &TreeDescription,
        context: &StatementContext,
    ) -> Result<Arc<BTree>, AccessError> {
        storage.in_one_piece(|| {
            let identity = |first| description.identity(first);
            let hobt = Hobt::create_list(storage, description.filegroup, context, identity)?;
            let tree = BTree::of_hobt(hobt)?;
            let made = tree.hobt.take_page(Purpose::Work, None, |id, list| {
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
    /// As [`Hobt::open`], or the root is not that of a tree.
    ///
    /// # Panics
    /// If the description is not that of a tree.
    pub fn open(
        storage: &Arc<Storage>,
        description: &TreeDescription,
        run_list: PageId,
    ) -> Result<Arc<BTree>, AccessError> {
        let tree = BTree::of_hobt(Hobt::open_list(storage, description.identity(run_list), true)?)?;
        let reads = ReadCounts::default();
        tree.level_of(tree.root, &*tree.read_counted(tree.root, Some(&reads))?)?;
        tree.hobt.leave_uncharged(&reads);
        Ok(tree)
    }

    /// The tree whose pages a HOBT has.
    pub(crate) fn of_hobt(hobt: Arc<Hobt>) -> Result<Arc<BTree>, AccessError> {
        let list = hobt.run_list();
        let key = hobt.identity().key.clone();
        let key = key.ok_or_else(|| hobt.damaged(list, PageDamage::Structure { rule: "a heap's rows have no key" }))?;
        let root = PageId::new(list.file, list.number + 1);
        Ok(Arc::new(BTree {
            hobt,
            key,
            number: LAST_NUMBER.fetch_add(1, AtomicOrdering::Relaxed) + 1,
            root,
            files: FileTable::new(),
            notes: SplitNotes::default(),
            given_up: GivenUpRoom::default(),
            reorganizing: Ranked::new(Rank::Reorganizing, Mutex::default()),
            moves: Ranked::new(Rank::LeafMoves, RwLock::default()),
        }))
    }

    /// Its HOBT, with its runs, counts and large values.
    pub fn hobt(&self) -> &Arc<Hobt> {
        &self.hobt
    }

    /// Its key.
    pub fn key(&self) -> &Arc<TreeKey> {
        &self.key
    }

    /// Its root, which never moves.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The header of a page that the tree creates.
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
    /// [`BTreeError::KeyTooLong`]. Or a value is not valid for its column, as one may be that was read from a page of
    /// another index: damage that names only the tree.
    ///
    /// # Panics
    /// If the row has other columns than the rows of this tree.
    pub fn key_of(&self, row: &RowImage) -> Result<Vec<u8>, BTreeError> {
        let key = self.key.of_row(row).map_err(|_| self.not_a_key())?;
        if key.len() > INDEX_KEY_BYTES_MAX {
            return Err(BTreeError::KeyTooLong { bytes: key.len() });
        }
        Ok(key)
    }

    /// The error for a row's value that is not valid for its key column.
    pub(super) fn not_a_key(&self) -> AccessError {
        self.damaged(self.root, "the value of a key column of a row that belongs here")
    }

    /// The position in a leaf's order of the row with a key, deleted or not, or where it would be inserted.
    fn find_in(&self, id: PageId, page: &RowPage<'_>, key: &[u8]) -> Result<Result<usize, usize>, AccessError> {
        let mut other = Vec::with_capacity(key.len() + 16);
        let mut compare = |slot: usize| -> Result<_, PageDamage> { self.key.compare_slot(page, slot, key, &mut other) };
        let find = || {
            // Fast path for ascending keys: they belong after all others.
            if let Some(last) = page.row_count().checked_sub(1)
                && compare(page.slot_at(last)?)? == Ordering::Less
            {
                return Ok(Err(last + 1));
            }
            page.find(compare)
        };
        find().map_err(|damage| self.hobt.damaged(id, damage))
    }

    /// Shows the live row with a key: its page, which is held shared meanwhile, and its slot. `None` if there is none.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn find<R>(&self, key: &[u8], show: impl FnOnce(&RowPage<'_>, SlotId) -> R) -> Result<Option<R>, AccessError> {
        let live =
            self.find_or_deleted(key, |page, slot| (!page.is_deleted(usize::from(slot.0))).then(|| show(page, slot)));
        live.map(Option::flatten)
    }

    /// Shows the row with a key like [`BTree::find`], also if it is deleted: its values are there until no transaction
    /// may put it back.
    ///
    /// # Errors
    /// A page is damaged or cannot be read.
    pub fn find_or_deleted<R>(
        &self,
        key: &[u8],
        show: impl FnOnce(&RowPage<'_>, SlotId) -> R,
    ) -> Result<Option<R>, AccessError> {
        let (id, guard) = self.read_leaf_of(key)?;
        let page = self.leaf(id, &guard)?;
        let Ok(position) = self.find_in(id, &page, key)? else { return Ok(None) };
        let slot = page.slot_at(position).map_err(|damage| self.hobt.damaged(id, damage))?;
        Ok(Some(show(&page, SlotId(u16::try_from(slot).expect("a slot of the page")))))
    }

    /// Removes all rows. Undone with the statement, which has the tree for itself.
    ///
    /// # Errors
    /// A page cannot be read or the log is full. The rows are back once the statement is undone.
    pub fn truncate(self: &Arc<BTree>, context: &StatementContext) -> Result<(), AccessError> {
        self.hobt.storage().in_one_piece(|| {
            self.note_remade_on_undo(context);
            self.set_versions_aside(context);
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

    /// Sets the versions of the rows aside. The undo of the truncation restores both.
    fn set_versions_aside(&self, context: &StatementContext) {
        let (store, hobt) = (Arc::clone(self.hobt.storage().versions()), self.hobt.id());
        store.set_keys_aside(hobt);
        let at_commit = Arc::clone(&store);
        // Registered before the rest of the truncation, so that it is undone after it.
        context.on_undo(move || {
            store.put_keys_back(hobt);
            Ok(())
        });
        context.on_commit(move || {
            at_commit.drop_keys_aside(hobt);
            Ok(())
        });
    }

    /// Notes for running scans, when the statement's undo reaches this point, that pages in their lists have other
    /// content.
    fn note_remade_on_undo(self: &Arc<BTree>, context: &StatementContext) {
        let tree = Arc::clone(self);
        context.on_undo(move || {
            tree.notes.note_remade();
            Ok(())
        });
    }

    /// Frees all its extents when the statement commits. From then on the tree cannot be changed through references to
    /// it.
    ///
    /// # Errors
    /// The log is full or has failed.
    pub fn drop_storage(&self, context: &StatementContext) -> Result<(), AccessError> {
        self.hobt.drop_storage(context)
    }
}
