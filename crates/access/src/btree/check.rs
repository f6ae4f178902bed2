//! Checks whether a tree is consistent, and collects its figures.
//!
//! A check reads all pages. Keys ascend within a leaf and from leaf to leaf and are between the separators above them,
//! levels decrease by one, each leaf names the next one, each page of the runs is reached once, and the number of live
//! rows is the count. Nothing may change the tree meanwhile. `REORGANIZE` waits for the check before it moves pages.

use hobt_base::{PAGE_SIZE, PageId};
use hobt_page::{PageDamage, PageFlags, PageHeader, check_index_page, check_row_page};

use super::BTree;
use crate::AccessError;
use crate::page_set::PageSet;

/// The figures of a tree.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TreeFigures {
    /// Pages of each level, the leaves first. The length is the number of levels.
    pub pages: Vec<u64>,
    /// Live rows.
    pub rows: u64,
    /// Deleted rows that are not removed yet.
    pub ghosts: u64,
    /// Bytes in use of all leaves together.
    pub leaf_bytes: u64,
    /// Leaves whose next is not the next page of its file.
    pub fragments: u64,
    /// Pages of the runs that are free.
    pub free: u64,
}

impl TreeFigures {
    /// The number of levels.
    pub fn depth(&self) -> usize {
        self.pages.len()
    }

    /// How full the leaves are, of 1.
    pub fn fill(&self) -> f64 {
        let leaves = self.pages.first().copied().unwrap_or_default();
        // Counts of bytes and pages are far below 2^52.
        self.leaf_bytes as f64 / (leaves * PAGE_SIZE as u64) as f64
    }

    /// The part of the leaves whose next leaf is not the next page, of 1.
    pub fn fragmentation(&self) -> f64 {
        let leaves = self.pages.first().copied().unwrap_or_default();
        self.fragments as f64 / leaves.saturating_sub(1).max(1) as f64
    }
}

/// How a page of a tree contradicts other pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeFault {
    /// Its keys do not ascend.
    KeyOrder,
    /// A key of it, or a separator, is not between the separators above it.
    OutsideParent,
    /// It is not one level below its parent.
    Level {
        /// The page that leads to it.
        parent: PageId,
    },
    /// Two pages lead to it, or one page twice.
    TwoParents {
        /// The other page that leads to it.
        parent: PageId,
    },
    /// A page leads to it, and it does not belong to the tree.
    ForeignChild {
        /// The page that leads to it.
        parent: PageId,
    },
    /// The page that it names as the next is not the leaf with the next keys.
    NextLeaf {
        /// The page that it names; page 0 of file 0 for none.
        next: PageId,
    },
    /// No page leads to it.
    Unreached,
}

impl TreeFault {
    /// The broken rule.
    pub fn rule(self) -> &'static str {
        match self {
            TreeFault::KeyOrder => "the order of a page's keys",
            TreeFault::OutsideParent => "keys between the separators of the page above",
            TreeFault::Level { .. } => "the level of a page of a tree",
            TreeFault::TwoParents { .. } => "a page of a tree to which one page leads",
            TreeFault::ForeignChild { .. } => "a child that is a page of the tree",
            TreeFault::NextLeaf { .. } => "a leaf's next is the one with the next keys",
            TreeFault::Unreached => "a page of a tree's runs to which the root leads",
        }
    }
}

/// The fault of a page of a tree.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Wrong {
    /// In the page by itself.
    Damage(PageDamage),
    /// Between the page and others.
    Tree(TreeFault),
}

impl From<PageDamage> for Wrong {
    fn from(damage: PageDamage) -> Wrong {
        Wrong::Damage(damage)
    }
}

impl From<TreeFault> for Wrong {
    fn from(fault: TreeFault) -> Wrong {
        Wrong::Tree(fault)
    }
}

/// Called for each page that is read; an error ends the check.
pub(crate) type EachPage<'w> = &'w dyn Fn() -> Result<(), AccessError>;

struct Walk<'w> {
    each: EachPage<'w>,
    figures: TreeFigures,
    wrong: Vec<(PageId, Wrong)>,
    /// The pages of the runs. Those in the set were reached.
    reached: PageSet,
    /// The last leaf, and the next leaf that it names.
    last_leaf: Option<(PageId, PageId)>,
}

impl Walk<'_> {
    fn note(&mut self, page: PageId, wrong: impl Into<Wrong>) {
        self.wrong.push((page, wrong.into()));
    }
}

impl BTree {
    /// Reads all pages. Other threads may change the tree meanwhile: the figures count each page at its own moment, and
    /// contradictions that such changes can cause are ignored.
    ///
    /// # Errors
    /// A page cannot be read, or the tree contradicts itself.
    pub fn figures(&self) -> Result<TreeFigures, AccessError> {
        let (figures, wrong) = self.check(&|| Ok(()))?;
        let may_change =
            |wrong: &Wrong| matches!(wrong, Wrong::Tree(TreeFault::Unreached | TreeFault::NextLeaf { .. }));
        match wrong.into_iter().find(|(_, wrong)| !may_change(wrong)) {
            Some((page, Wrong::Damage(damage))) => Err(self.hobt.damaged(page, damage)),
            Some((page, Wrong::Tree(fault))) => {
                Err(self.hobt.damaged(page, PageDamage::Structure { rule: fault.rule() }))
            }
            None => Ok(figures),
        }
    }

    /// Checks the whole tree; the list has the faults.
    ///
    /// # Errors
    /// A page cannot be read; what `each` returns.
    pub(crate) fn check(&self, each: EachPage<'_>) -> Result<(TreeFigures, Vec<(PageId, Wrong)>), AccessError> {
        let _stay = self.moves.read();
        let runs = self.hobt.runs();
        let reached = PageSet::empty(runs.iter().map(|run| (run.first.file, run.row_pages())));
        let mut walk = Walk { each, figures: TreeFigures::default(), wrong: Vec::new(), reached, last_leaf: None };
        self.walk(&mut walk, self.root, None, &[], None)?;
        if let Some((id, next)) = walk.last_leaf.filter(|(_, next)| *next != PageId::default()) {
            walk.note(id, TreeFault::NextLeaf { next });
        }
        let Walk { mut figures, mut wrong, reached, .. } = walk;
        for id in reached.others() {
            match self.is_free(id) {
                Ok(true) => figures.free += 1,
                Ok(false) => wrong.push((id, TreeFault::Unreached.into())),
                Err(AccessError::Damaged { page, damage, .. }) => wrong.push((page, damage.into())),
                Err(error) => return Err(error),
            }
        }
        Ok((figures, wrong))
    }

    /// Whether a page was emptied by `REORGANIZE`.
    fn is_free(&self, id: PageId) -> Result<bool, AccessError> {
        let page = self.read(id)?;
        let header = PageHeader::read(&page).map_err(|damage| self.hobt.damaged(id, damage))?;
        Ok(self.level_of(id, &page)? == 0 && header.flags.contains(PageFlags::FREE))
    }

    /// Continues at a page to which `above` leads: that page, and the level that its children should have.
    fn walk(
        &self,
        walk: &mut Walk<'_>,
        id: PageId,
        above: Option<(PageId, u8)>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Result<(), AccessError> {
        let parent = above.map_or(id, |(parent, _)| parent);
        if !walk.reached.insert(id) {
            if walk.reached.is_of_runs(id) {
                walk.note(id, TreeFault::TwoParents { parent });
            } else {
                walk.note(id, TreeFault::ForeignChild { parent });
            }
            return Ok(());
        }
        (walk.each)()?;
        // A copy: pages below are read without a latch on the pages above.
        let page = match self.read(id).map(|page| Box::new(*page)) {
            Ok(page) => page,
            Err(AccessError::Damaged { page, damage, .. }) => {
                walk.note(page, damage);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let level = match self.level_of(id, &page) {
            Ok(level) if above.is_none_or(|(_, expected)| expected == level) => level,
            Ok(_) => {
                walk.note(id, TreeFault::Level { parent });
                return Ok(());
            }
            Err(AccessError::Damaged { damage, .. }) => {
                walk.note(id, damage);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let levels = &mut walk.figures.pages;
        levels.resize(levels.len().max(usize::from(level) + 1), 0);
        levels[usize::from(level)] += 1;
        let children = if level == 0 {
            self.walk_leaf(walk, id, &page, low, high).map(|()| Vec::new())
        } else {
            self.children(&page, low, high)
        };
        match children {
            Err(wrong) => walk.note(id, wrong),
            Ok(children) => {
                for (index, (child, from)) in children.iter().enumerate() {
                    let to = children.get(index + 1).map(|(_, key)| key.as_slice()).or(high);
                    self.walk(walk, *child, Some((id, level - 1)), from, to)?;
                }
            }
        }
        Ok(())
    }

    /// The children of a page, each with the lower bound of its keys.
    fn children(
        &self,
        page: &hobt_page::PageBytes,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Result<Vec<(PageId, Vec<u8>)>, Wrong> {
        check_index_page(page)?;
        let view = hobt_page::IndexPage::open(page)?;
        let mut children = vec![(view.leftmost(), low.to_vec())];
        for index in 0..view.len() {
            let (key, child) = view.entry(index)?;
            children.push((child, key.to_vec()));
        }
        let first = children.get(1).map(|(_, key)| key.as_slice());
        let last = children.last().filter(|_| children.len() > 1).map(|(_, key)| key.as_slice());
        let is_bounded =
            first.is_none_or(|first| low < first) && last.is_none_or(|last| high.is_none_or(|high| last < high));
        if is_bounded { Ok(children) } else { Err(TreeFault::OutsideParent.into()) }
    }

    fn walk_leaf(
        &self,
        walk: &mut Walk<'_>,
        id: PageId,
        page: &hobt_page::PageBytes,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Result<(), Wrong> {
        let rows = self.hobt.row_layout();
        let header = PageHeader::read(page)?;
        if let Some((before, next)) = walk.last_leaf.replace((id, header.next)) {
            if next != id {
                walk.note(before, TreeFault::NextLeaf { next });
            }
            let is_neighbour = before.file == id.file && before.number + 1 == id.number;
            walk.figures.fragments += u64::from(!is_neighbour);
        }
        if header.flags.contains(PageFlags::FREE) {
            return Err(PageDamage::Structure { rule: "a leaf to which the root leads, which is not free" }.into());
        }
        check_row_page(page, rows)?;
        let view = hobt_page::RowPage::open(page, rows)?;
        let (mut key, mut previous) = (Vec::new(), Vec::new());
        for (position, slot) in view.order().enumerate() {
            self.key.of_slot(&view, slot?, &mut key)?;
            if position > 0 && key <= previous {
                return Err(TreeFault::KeyOrder.into());
            }
            if key.as_slice() < low || high.is_some_and(|high| key.as_slice() >= high) {
                return Err(TreeFault::OutsideParent.into());
            }
            std::mem::swap(&mut key, &mut previous);
        }
        let variable = (0..rows.columns().len()).filter(|&column| rows.variable_rank(column).is_some());
        let variable = variable.map(|column| view.variable_used(column)).sum();
        let bytes = rows.page_bytes_bound(view.row_count(), variable).min(PAGE_SIZE);
        walk.figures.leaf_bytes += bytes as u64;
        walk.figures.rows += (view.row_count() - view.deleted_count()) as u64;
        walk.figures.ghosts += view.deleted_count() as u64;
        Ok(())
    }
}
