//! Indexes that statements would have used if they existed: `sys.dm_db_missing_index_…`.
//!
//! A statement that scans a table records the index that it would have sought instead. The counters are in a group of
//! their own, which the statement's plan keeps. The groups of a table are dropped when its definition changes, and
//! nothing outlives the instance. Spinlocks (`OPT_IDX_STATS`) protect all of it.

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{DatabaseId, ObjectId};
use hobt_instruments::{Spinlock, SpinlockName, time_of_day_coarse};

/// The number of indexes that are remembered, the same as in SQL Server; further ones are not.
const GROUPS_MAX: usize = 600;

/// An index that does not exist. Columns are identified by their ids.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MissingIndex {
    /// The database of its table.
    pub database: DatabaseId,
    /// Its table.
    pub table: ObjectId,
    /// Key columns that conditions compare for equality, in the order of the table.
    pub equality: Vec<i32>,
    /// Key columns after these, which range conditions restrict.
    pub inequality: Vec<i32>,
    /// Further columns that are read.
    pub included: Vec<i32>,
}

/// What statements would have gained from an index.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MissingIndexUses {
    /// Plans made that would have used it.
    pub compiles: u64,
    /// Seeks that would have replaced scans.
    pub seeks: u64,
    /// When the last of these scans began: 100 ns since 1970-01-01 UTC.
    pub last_seek: Option<i64>,
    /// The sum of what the scans cost, by the optimiser's estimate.
    pub cost_sum: f64,
    /// The sum of the percentages by which the cost would have decreased.
    pub impact_sum: f64,
}

impl MissingIndexUses {
    /// The mean per seek of a sum over all seeks.
    pub fn mean(&self, sum: f64) -> f64 {
        // Counts are far below 2^52.
        if self.seeks == 0 { 0.0 } else { sum / self.seeks as f64 }
    }
}

/// A missing index, and what statements would have gained from it.
pub struct MissingIndexGroup {
    handle: i32,
    index: MissingIndex,
    uses: Spinlock<MissingIndexUses>,
}

impl std::fmt::Debug for MissingIndexGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MissingIndexGroup").field("index", &self.index).finish_non_exhaustive()
    }
}

impl MissingIndexGroup {
    /// Its number, unique in the instance.
    pub fn handle(&self) -> i32 {
        self.handle
    }

    /// The index.
    pub fn index(&self) -> &MissingIndex {
        &self.index
    }

    /// What statements would have gained from it.
    pub fn uses(&self) -> MissingIndexUses {
        *self.uses.lock()
    }

    /// Records a scan that a seek would have replaced: its cost by the optimiser's estimate, and by how many percent
    /// the cost would have decreased.
    pub fn note_seek(&self, cost: f64, impact: f64) {
        let now = time_of_day_coarse();
        let mut uses = self.uses.lock();
        uses.seeks += 1;
        uses.last_seek = Some(now);
        uses.cost_sum += cost;
        uses.impact_sum += impact;
    }
}

#[derive(Default)]
struct Known {
    groups: HashMap<MissingIndex, Arc<MissingIndexGroup>>,
    last_handle: i32,
}

/// All missing indexes of the instance.
pub struct MissingIndexes(Spinlock<Known>);

impl Default for MissingIndexes {
    fn default() -> MissingIndexes {
        MissingIndexes(Spinlock::new(SpinlockName::OptIdxStats, Known::default()))
    }
}

impl MissingIndexes {
    /// Records a plan that would use an index. Returns the group to count its scans in, or `None` if the limit is
    /// reached and the index is not remembered.
    pub fn note_plan(&self, index: MissingIndex) -> Option<Arc<MissingIndexGroup>> {
        let group = self.group_of(index)?;
        group.uses.lock().compiles += 1;
        Some(group)
    }

    fn group_of(&self, index: MissingIndex) -> Option<Arc<MissingIndexGroup>> {
        let mut known = self.0.lock();
        if let Some(group) = known.groups.get(&index) {
            return Some(Arc::clone(group));
        }
        if known.groups.len() >= GROUPS_MAX {
            return None;
        }
        known.last_handle = known.last_handle.checked_add(1)?;
        let uses = Spinlock::new(SpinlockName::OptIdxStats, MissingIndexUses::default());
        let group = Arc::new(MissingIndexGroup { handle: known.last_handle, index: index.clone(), uses });
        known.groups.insert(index, Arc::clone(&group));
        Some(group)
    }

    /// All groups, in the order in which they were first recorded.
    pub fn groups(&self) -> Vec<Arc<MissingIndexGroup>> {
        let mut groups: Vec<_> = self.0.lock().groups.values().map(Arc::clone).collect();
        groups.sort_by_key(|group| group.handle);
        groups
    }

    pub(crate) fn forget_table(&self, database: DatabaseId, table: ObjectId) {
        self.0.lock().groups.retain(|index, _| (index.database, index.table) != (database, table));
    }

    pub(crate) fn forget_database(&self, database: DatabaseId) {
        self.0.lock().groups.retain(|index, _| index.database != database);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(database: u16, table: i32, column: i32) -> MissingIndex {
        MissingIndex {
            database: DatabaseId(database),
            table: ObjectId(table),
            equality: vec![column],
            inequality: Vec::new(),
            included: Vec::new(),
        }
    }

    #[test]
    fn what_is_known_of_a_table_goes_with_its_definition_and_handles_are_used_once() {
        let all = MissingIndexes::default();
        let first = all.note_plan(on(5, 1, 1)).expect("there is room");
        first.note_seek(2.0, 50.0);
        first.note_seek(4.0, 100.0);
        all.note_plan(on(5, 2, 1));
        all.note_plan(on(6, 1, 1));
        let again = all.note_plan(on(5, 1, 1)).expect("it is known");
        let uses = again.uses();
        assert_eq!((uses.compiles, uses.seeks), (2, 2));
        assert_eq!((uses.mean(uses.cost_sum), uses.mean(uses.impact_sum)), (3.0, 75.0));
        all.forget_table(DatabaseId(5), ObjectId(1));
        assert_eq!(all.groups().iter().map(|group| group.handle()).collect::<Vec<_>>(), [2, 3]);
        all.forget_database(DatabaseId(6));
        assert_eq!(all.groups().len(), 1);
        assert_eq!(all.note_plan(on(5, 1, 1)).map(|group| group.handle()), Some(4));
    }

    #[test]
    fn no_more_are_remembered_than_the_most() {
        let all = MissingIndexes::default();
        let most = i32::try_from(GROUPS_MAX).expect("a few hundred");
        assert!((0..most).all(|column| all.note_plan(on(5, 1, column)).is_some()));
        assert!(all.note_plan(on(5, 1, most)).is_none());
        assert!(all.note_plan(on(5, 1, 0)).is_some());
    }
}
