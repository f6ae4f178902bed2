//! How often an index was used, and when last: `sys.dm_db_index_usage_stats`.
//!
//! The counters are a part of the index's definition, so a holder of the definition needs no search for them. Each
//! processor has its own counters, behind a spinlock of its own (`OPT_IDX_STATS`; in SQL Server that spinlock is shared
//! by all). A statement pays for one free lock and two writes to a cache line that is not shared.

use std::fmt;
use std::sync::{Arc, OnceLock};

use hobt_instruments::{Sharded, Spinlock, SpinlockName, time_of_day_coarse};

/// What a statement does with an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexUse {
    /// It reads ranges of its keys.
    Seek,
    /// It reads all of it.
    Scan,
    /// It follows the references of another index to its rows.
    Lookup,
    /// It changes it.
    Update,
}

/// On whose behalf an index is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexUser {
    /// A statement of a user.
    User,
    /// The engine itself: it reads rows to build another index from them.
    System,
}

/// The uses of an index of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IndexUses {
    /// The number of statements.
    pub count: u64,
    /// When the last of them used it: 100 ns since 1970-01-01 UTC.
    pub last: Option<i64>,
}

/// The uses of an index by one of [`IndexUser`], in the order of [`IndexUse`].
pub type IndexUsesByKind = [IndexUses; 4];

type Counts = [IndexUsesByKind; 2];

/// The counters of one processor.
struct Cell(Spinlock<Counts>);

impl Default for Cell {
    fn default() -> Cell {
        Cell(Spinlock::new(SpinlockName::OptIdxStats, Counts::default()))
    }
}

/// The uses of an index since its table was loaded from the catalog: since the database was opened, or the index was
/// created. Clones share the counters, so an index keeps them when its definition changes.
#[derive(Clone, Default)]
pub struct IndexUsage(Arc<OnceLock<Sharded<Cell>>>);

impl IndexUsage {
    /// Counts a statement. Blocks other threads only that long.
    pub fn note(&self, used: IndexUse, user: IndexUser) {
        let cells = self.0.get_or_init(Sharded::new);
        let now = time_of_day_coarse();
        let mut counts = cells.own().0.lock();
        let uses = &mut counts[user as usize][used as usize];
        uses.count += 1;
        uses.last = Some(now);
    }

    /// What was counted, by user and kind; `None` if nothing was.
    pub fn uses(&self) -> Option<[IndexUsesByKind; 2]> {
        let cells = self.0.get()?;
        let mut sums = Counts::default();
        for cell in cells.iter() {
            let counts = *cell.0.lock();
            for (sum, uses) in sums.iter_mut().flatten().zip(counts.iter().flatten()) {
                sum.count += uses.count;
                sum.last = sum.last.max(uses.last);
            }
        }
        Some(sums)
    }
}

/// Usage is no part of an index's definition, so all are equal.
impl PartialEq for IndexUsage {
    fn eq(&self, _: &IndexUsage) -> bool {
        true
    }
}

impl fmt::Debug for IndexUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IndexUsage").field(&self.uses()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{IndexUsage, IndexUse, IndexUser};

    #[test]
    fn uses_of_all_threads_add_up_and_clones_share_them() {
        let usage = IndexUsage::default();
        assert_eq!(usage.uses(), None);
        std::thread::scope(|scope| {
            for _ in 0..5 {
                let usage = usage.clone();
                scope.spawn(move || (0..100).for_each(|_| usage.note(IndexUse::Update, IndexUser::User)));
            }
        });
        usage.note(IndexUse::Scan, IndexUser::System);
        let [user, system] = usage.uses().expect("it was used");
        assert_eq!(user.map(|uses| uses.count), [0, 0, 0, 500]);
        assert_eq!(system.map(|uses| uses.count), [0, 1, 0, 0]);
        assert!(user[3].last.is_some() && user[0].last.is_none());
    }
}
