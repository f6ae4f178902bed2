//! Bottom-up build of a tree, from rows in the order of its key.
//!
//! Leaves are built and written as a heap's loads are ([`crate::Loader`]): in private memory, into runs of their own,
//! each filled up to the fill factor and linked to the next. Only the allocations are logged. Each level above has one
//! page in memory, which is written when it is full. At the end the pages are synced, the runs are added to the tree's,
//! and the root, empty until then, becomes the topmost page. So nothing is visible before, and the undo only restores
//! the root and frees the runs.

use std::sync::Arc;

use hobt_base::{PAGE_SIZE, PageId};
use hobt_page::{
    INDEX_KEY_BYTES_MAX, IndexPage, PageBytes, PageChange, PageDamage, PageFlags, PageHeader, PageType, RowPage, Run,
    RunContents, apply, seal,
};
use hobt_txn::StatementContext;
use hobt_types::shortest_separator;

use super::{BTree, BTreeError};
use crate::load::{LoadedRuns, RunWriter};
use crate::{AccessError, LoadColumn, Loader};

/// Builds an empty tree.
#[derive(Debug)]
pub struct TreeBuilder {
    tree: Arc<BTree>,
    context: Arc<StatementContext>,
    loader: Loader,
}

/// A page above the leaves that is being filled.
struct Above {
    page: Box<PageBytes>,
    /// The separator before its first child; empty for the first page of a level.
    low: Vec<u8>,
}

/// The topmost page, and the runs of the pages below it.
struct Top {
    /// The future content of the root.
    root: Box<PageBytes>,
    /// The runs of the pages between the root and the leaves.
    runs: Vec<Run>,
}

/// The levels above the leaves, built from the leaves so far.
pub(crate) struct LeafChain {
    tree: Arc<BTree>,
    /// The fill factor of leaves, in percent.
    fill: usize,
    writer: Option<RunWriter>,
    levels: Vec<Above>,
    /// The key of the last row so far.
    last_key: Option<Vec<u8>>,
    refused: Option<BTreeError>,
}

impl TreeBuilder {
    /// A builder for a tree without rows, whose leaves are filled to `fill_factor` percent; 0 and 100 leave no room.
    ///
    /// # Errors
    /// The tree has pages beside its root already.
    pub fn new(
        tree: &Arc<BTree>,
        context: &Arc<StatementContext>,
        fill_factor: u8,
    ) -> Result<TreeBuilder, AccessError> {
        if !tree.is_new()? {
            return Err(AccessError::Closed("a tree that has rows is not built again".to_owned()));
        }
        let chain = LeafChain {
            tree: Arc::clone(tree),
            fill: if fill_factor == 0 { 100 } else { usize::from(fill_factor.min(100)) },
            writer: Some(RunWriter::new(Arc::clone(&tree.hobt), Arc::clone(context), RunContents::Rows)),
            levels: Vec::new(),
            last_key: None,
            refused: None,
        };
        let loader = Loader::of_tree(Arc::clone(&tree.hobt), Arc::clone(context), chain);
        Ok(TreeBuilder { tree: Arc::clone(tree), context: Arc::clone(context), loader })
    }

    /// Adds rows, whose keys are above those of all earlier rows. Blocks when too many writes are in flight.
    ///
    /// # Errors
    /// `Duplicate` and `KeyTooLong` as from [`BTree::insert`], possibly reported some rows later; the others as
    /// [`Loader::append`]. The statement is then to be undone.
    ///
    /// # Panics
    /// As [`Loader::append`].
    pub fn append(&mut self, rows: usize, columns: &[LoadColumn<'_>]) -> Result<(), BTreeError> {
        self.loader.append(rows, columns).map_err(|error| self.loader.refusal().unwrap_or(error.into()))
    }

    /// Writes the rest and makes the rows part of the tree. Undone with the statement.
    ///
    /// # Errors
    /// As [`TreeBuilder::append`].
    pub fn finish(self) -> Result<(), BTreeError> {
        let TreeBuilder { tree, context, loader } = self;
        let (loaded, mut chain) = loader.finish_tree()?;
        if let Some(refused) = chain.refused.take() {
            return Err(refused);
        }
        let loaded = loaded?;
        let Some(Top { root, runs: above }) = chain.finish()? else { return Ok(()) };
        let runs = LoadedRuns { runs: loaded.runs.into_iter().chain(above).collect(), rows: loaded.rows };
        let storage = tree.hobt.storage();
        let mut files: Vec<_> = runs.runs.iter().map(|run| run.first.file).collect();
        files.sort_unstable();
        files.dedup();
        for file in files {
            storage.file(file)?.disk().sync().map_err(AccessError::Disk)?;
        }
        tree.hobt.publish(&context, vec![runs])?;
        // In the undo this runs after the root is restored, and before the pages are freed.
        tree.note_remade_on_undo(&context);
        storage.in_one_piece(|| tree.hobt.remake_page(&context, tree.root, &PageChange::Image { bytes: root }))?;
        tree.notes.note_remade();
        Ok(())
    }
}

impl BTree {
    /// Whether it is as after its creation or a truncation: without rows and ghosts, the root its only leaf.
    ///
    /// # Errors
    /// The root is damaged or cannot be read.
    pub fn is_new(&self) -> Result<bool, AccessError> {
        let root = self.read(self.root)?;
        Ok(self.level_of(self.root, &root)? == 0 && self.leaf(self.root, &root)?.row_count() == 0)
    }
}

impl LeafChain {
    /// The maximum number of bytes in use of a leaf, if leaves are not filled completely.
    pub(crate) fn leaf_bytes(&self) -> Option<usize> {
        (self.fill < 100).then_some(PAGE_SIZE * self.fill / 100)
    }

    /// Adds a leaf that has been built. The error only tells that the leaf was refused: the reason is in
    /// [`LeafChain::refusal`].
    pub(crate) fn add_leaf(&mut self, id: PageId, page: &PageBytes) -> Result<(), AccessError> {
        self.try_add_leaf(id, page).map_err(|error| match error {
            BTreeError::Storage(error) => error,
            refused => {
                let what = refused.to_string();
                self.refused = Some(refused);
                AccessError::Closed(what)
            }
        })
    }

    pub(crate) fn refusal(&mut self) -> Option<BTreeError> {
        self.refused.take()
    }

    fn try_add_leaf(&mut self, id: PageId, page: &PageBytes) -> Result<(), BTreeError> {
        let tree = Arc::clone(&self.tree);
        let damaged = |damage| tree.hobt.damaged(id, damage);
        let view = RowPage::open(page, tree.hobt.row_layout()).map_err(damaged)?;
        let before = self.last_key.take();
        let mut separator = Vec::new();
        let (mut key, mut previous) = (Vec::new(), before.clone().unwrap_or_default());
        for slot in 0..view.row_count() {
            tree.key.of_slot(&view, slot, &mut key).map_err(damaged)?;
            if key.len() > INDEX_KEY_BYTES_MAX {
                return Err(BTreeError::KeyTooLong { bytes: key.len() });
            }
            if slot > 0 || before.is_some() {
                match previous.cmp(&key) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => return Err(BTreeError::Duplicate),
                    std::cmp::Ordering::Greater => {
                        let what = "rows that a tree is built from do not come in the order of its key";
                        return Err(AccessError::Closed(what.to_owned()).into());
                    }
                }
            }
            if slot == 0 && before.is_some() {
                separator = shortest_separator(&previous, &key).expect("they were compared").to_vec();
            }
            std::mem::swap(&mut key, &mut previous);
        }
        self.last_key = Some(previous);
        Ok(self.add(0, separator, id)?)
    }

    /// Adds a child to the last page of a level. Level 0 is the one above the leaves.
    fn add(&mut self, level: usize, separator: Vec<u8>, child: PageId) -> Result<(), AccessError> {
        if level == self.levels.len() {
            let page = self.new_page(level, child)?;
            self.levels.push(Above { page, low: separator });
            return Ok(());
        }
        let above = &mut self.levels[level];
        let count = IndexPage::open(&above.page).map_err(|damage| self.tree.hobt.damaged(child, damage))?.len();
        let position = u16::try_from(count).expect("fewer entries than bytes");
        let entry = PageChange::InsertEntry { position, key: separator.clone(), child };
        let added = apply(&mut above.page, None, &entry).map_err(|damage| self.tree.hobt.damaged(child, damage))?;
        if added.is_some() {
            return Ok(());
        }
        let fresh = Above { page: self.new_page(level, child)?, low: separator };
        let full = std::mem::replace(&mut self.levels[level], fresh);
        let (low, id) = (full.low.clone(), self.write(full)?);
        self.add(level + 1, low, id)
    }

    /// A new page whose only child is this one.
    fn new_page(&self, level: usize, child: PageId) -> Result<Box<PageBytes>, AccessError> {
        let mut page = Box::new([0; PAGE_SIZE]);
        let header = self.tree.header(PageType::Index, PageId::default());
        let level = u8::try_from(level + 1).map_err(|_| self.tree.damaged(child, "the level of a page of a tree"))?;
        let header = PageHeader { level, ..header };
        for change in [PageChange::Format { header }, PageChange::SetLeftmost { child }] {
            apply(&mut page, None, &change).map_err(|damage| self.tree.hobt.damaged(child, damage))?;
        }
        Ok(page)
    }

    /// Writes a full page; returns its address.
    fn write(&mut self, above: Above) -> Result<PageId, AccessError> {
        let writer = self.writer.as_mut().expect("there until the end");
        let mut written = (PageId::default(), Ok(()));
        writer.write(|id, lsn, page| {
            page.copy_from_slice(&above.page[..]);
            let set = PageHeader::read(page).map(|header| {
                PageHeader { page: id, lsn, flags: header.flags.with(PageFlags::BULK), ..header }.write(page);
                seal(page);
            });
            written = (id, set);
        })?;
        let (id, set) = written;
        set.map_err(|damage: PageDamage| self.tree.hobt.damaged(id, damage))?;
        Ok(id)
    }

    /// Writes the pages that are not full, except the topmost, which will be the root; `None` if there are no rows.
    fn finish(mut self) -> Result<Option<Top>, AccessError> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            let fresh = Above { page: Box::new([0; PAGE_SIZE]), low: Vec::new() };
            let last = std::mem::replace(&mut self.levels[level], fresh);
            let (low, id) = (last.low.clone(), self.write(last)?);
            level += 1;
            self.add(level, low, id)?;
        }
        let runs = self.writer.take().expect("there until now").finish()?;
        let Some(Above { mut page, .. }) = self.levels.pop() else { return Ok(None) };
        let header = PageHeader::read(&page).map_err(|damage| self.tree.hobt.damaged(self.tree.root, damage))?;
        PageHeader { page: self.tree.root, ..header }.write(&mut page);
        Ok(Some(Top { root: page, runs }))
    }
}
