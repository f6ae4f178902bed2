//! Room in leaves that open transactions have given up, and that the undo of their changes needs again.
//!
//! A row that gets shorter leaves room. If another transaction has taken that room by the time of the undo, the leaf is
//! split, for which the log must have room whatever happens. As long as the room is not taken, nothing is reserved:
//! what a leaf held before fits into it again. So before a transaction takes room in a leaf, or puts its rows together
//! with those of another leaf, it *settles* the leaf: it reserves room in the log for the transactions that gave up
//! room there, and is refused if there is none. A transaction's first shortened row in a leaf is counted with a whole
//! split, and that only once until the leaf is split, however often it is settled.
//!
//! The notes of a leaf are read and changed only while the leaf is held exclusively, except that the notes of ended
//! transactions may be removed at any time. A transaction that recovery undoes has none: no other takes room in a tree
//! that it has changed before it is undone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use hobt_base::{PAGE_SIZE, PageId};
use hobt_instruments::schedule::Mutex;
use hobt_log::LogError;
use hobt_txn::LogChain;

/// Bytes of log that the undo of a transaction's first shortened row may need: splits of the root, of the page above
/// the leaf and of the leaf, and a run for the new pages, with a page of the run list. Each of these may log images of
/// four pages.
pub(crate) const UNDO_SPLIT_BYTES_FIRST: usize = 20 * PAGE_SIZE;
/// Bytes of log that the undo of a transaction's first shortened row in each leaf may need, beside
/// [`UNDO_SPLIT_BYTES_FIRST`]: of the pages above the leaf, and of a run, it needs only a share.
const UNDO_SPLIT_BYTES: usize = 8 * PAGE_SIZE;
/// As [`UNDO_SPLIT_BYTES`], for further shortened rows of a leaf, for each byte by which they get shorter. A split
/// leaves at least a quarter of a page free, which is filled again before the next split.
const UNDO_SPLIT_BYTES_PER_BYTE: usize = UNDO_SPLIT_BYTES / (PAGE_SIZE / 4);

/// As many bytes of log as [`GivenUpRoom::note`] counts for a row that gets shorter by `room` bytes, the first of its
/// leaf or a further one.
pub(crate) fn undo_split_bytes(room: usize, is_first: bool) -> usize {
    if is_first { UNDO_SPLIT_BYTES } else { (room * UNDO_SPLIT_BYTES_PER_BYTE).min(UNDO_SPLIT_BYTES) }
}

/// The room that one transaction has given up in one leaf.
#[derive(Clone)]
struct GivenUp {
    /// Dead when the transaction has ended.
    chain: Weak<LogChain>,
    /// Bytes of log that its undo needs if the room is taken, beside those that are reserved already. 0: the leaf was
    /// settled since its last shortened row.
    log_bytes: usize,
}

#[derive(Default)]
struct Leaves {
    by_page: HashMap<PageId, Vec<GivenUp>>,
    /// Accesses since the notes of ended transactions were last removed.
    looks: usize,
}

impl Leaves {
    /// Removes the notes of ended transactions, whenever that costs no more than the accesses since.
    fn tidy(&mut self) {
        self.looks += 1;
        if self.looks > 16 + 2 * self.by_page.len() {
            self.looks = 0;
            self.by_page.retain(|_, all| {
                all.retain(|one| one.chain.strong_count() > 0);
                !all.is_empty()
            });
        }
    }
}

/// The room that was given up in the leaves of a tree.
#[derive(Default)]
pub(super) struct GivenUpRoom {
    leaves: Mutex<Leaves>,
    /// The number of leaves with notes. While it is 0, no lock is taken to look for notes.
    count: AtomicUsize,
}

impl GivenUpRoom {
    /// Notes that the transaction of `chain` gives up `room` bytes in a leaf. Returns the bytes of memory that the note
    /// takes.
    ///
    /// # Errors
    /// The log has no room for the first undo of a transaction, or has failed: nothing is noted.
    pub(super) fn note(&self, leaf: PageId, chain: &Arc<LogChain>, room: usize) -> Result<usize, LogError> {
        // With the first leaf: splits above the leaves, and a row that does not fit although its room was not taken.
        chain.reserve_once_for_undo(UNDO_SPLIT_BYTES_FIRST)?;
        self.with_leaves(|leaves| {
            let all = leaves.by_page.entry(leaf).or_default();
            match all.iter_mut().find(|one| std::ptr::eq(one.chain.as_ptr(), Arc::as_ptr(chain))) {
                Some(one) => {
                    one.log_bytes += undo_split_bytes(room, false);
                    Ok(0)
                }
                None => {
                    all.push(GivenUp { chain: Arc::downgrade(chain), log_bytes: undo_split_bytes(room, true) });
                    Ok(size_of::<(PageId, Vec<GivenUp>)>() + size_of::<GivenUp>())
                }
            }
        })
    }

    /// To be called before room is taken in a leaf: reserves for the transactions that gave some up. May make the log
    /// grow.
    ///
    /// # Errors
    /// The log has no room for that, or has failed: the room is not to be taken.
    pub(super) fn settle(&self, leaf: PageId) -> Result<(), LogError> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let due = |leaves: &mut Leaves| {
            let is_due = leaves.by_page.get(&leaf)?.iter().any(|one| one.log_bytes > 0);
            if is_due { leaves.by_page.remove(&leaf) } else { None }
        };
        // Not under the lock: the log may grow.
        let Some(mut all) = self.with_leaves(due) else { return Ok(()) };
        let mut reserved = Ok(());
        for one in &mut all {
            reserved = one.chain.upgrade().map_or(Ok(()), |chain| chain.reserve(one.log_bytes));
            if reserved.is_err() {
                break;
            }
            one.log_bytes = 0;
        }
        self.with_leaves(|leaves| leaves.by_page.insert(leaf, all));
        reserved
    }

    /// As [`GivenUpRoom::settle`], before rows of a leaf are put together with those of another.
    pub(super) fn settle_to_move(&self, leaf: PageId) -> Result<(), LogError> {
        self.settle(leaf)?;
        if self.count.load(Ordering::Relaxed) > 0 {
            self.with_leaves(|leaves| leaves.by_page.remove(&leaf));
        }
        Ok(())
    }

    /// To be called before rows of a leaf move to a page that has room for all of them. What is settled is forgotten:
    /// either page may have to be split by the undo.
    pub(super) fn copy(&self, leaf: PageId, to: PageId) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.with_leaves(|leaves| {
                if let Some(all) = leaves.by_page.get_mut(&leaf) {
                    all.retain(|one| one.log_bytes > 0);
                    let all = all.clone();
                    leaves.by_page.entry(to).or_default().extend(all);
                }
            });
        }
    }

    fn with_leaves<R>(&self, look: impl FnOnce(&mut Leaves) -> R) -> R {
        let mut leaves = self.leaves.lock();
        leaves.tidy();
        let result = look(&mut leaves);
        self.count.store(leaves.by_page.len(), Ordering::Relaxed);
        result
    }
}
