//! Committed row changes for statistics. Every statement that changes rows records their values, by statistics object
//! and partition, and hands the record over when it commits. So statistics are as current as the rows.
//!
//! ```text
//! base      what the last update gathered, in the catalog      ┐
//! inserted  rows inserted since                                ├─ of each partition; merged on request
//! deleted   rows deleted since                                 ┘
//! ```
//! An update of the statistics gathers a new base, and drops the changes recorded before it began with the old one. A
//! partition that was truncated has lost its base. The changes are only in memory until the database is closed, which
//! folds them into the base. After a crash, a partition's row count shows how much is missing.

use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::{HobtId, ObjectId};
use hobt_catalog::Statistics;
use hobt_instruments::schedule::{Mutex, RwLock};
use hobt_txn::StatementContext;
use hobt_types::statistics::Summary;

use super::super::Database;
use super::asked::{Asked, Question, StatisticsState};
use super::changes::NotedTable;
use super::part::{LeftParts, PartChanges, Together};

/// The committed changes for the statistics of a database.
#[derive(Default, Debug)]
pub(crate) struct LiveStatistics {
    objects: RwLock<HashMap<(ObjectId, i32), Arc<Tail>>>,
    /// What is recorded for tables, kept for the next statement.
    pub(super) noted: RwLock<HashMap<ObjectId, Arc<NotedTable>>>,
}

/// The committed changes for one statistics object.
///
/// Commits take only `left`, which is never held while merging. A request holds `asked`, so that of several equal
/// requests only one merges. It copies only references out of `left`: a commit that changes a part which is being
/// merged changes a copy of it.
#[derive(Default, Debug)]
pub(super) struct Tail {
    left: Mutex<Left>,
    asked: Mutex<Asked>,
}

#[derive(Default, Debug)]
struct Left {
    parts: LeftParts,
    /// Incremented with each possible change of `parts`.
    version: u64,
}

impl Left {
    fn parts_mut(&mut self) -> &mut LeftParts {
        self.version += 1;
        &mut self.parts
    }
}

impl Tail {
    /// Changes the parts, by partition.
    pub(super) fn change(&self, change: impl FnOnce(&mut LeftParts)) {
        change(self.left.lock().parts_mut());
    }

    /// Removes and returns the parts of some partitions. If the statement is undone, they are put back, with what was
    /// added since.
    fn take(
        self: &Arc<Tail>,
        ctx: &StatementContext,
        hobts: impl IntoIterator<Item = HobtId>,
    ) -> Vec<(HobtId, Arc<PartChanges>)> {
        let mut left = self.left.lock();
        let parts = left.parts_mut();
        let taken: Vec<_> = hobts.into_iter().filter_map(|hobt| Some((hobt, parts.remove(&hobt)?))).collect();
        drop(left);
        if !taken.is_empty() {
            let (tail, before) = (Arc::clone(self), taken.clone());
            ctx.on_undo(move || {
                tail.change(|parts| put_back(parts, before));
                Ok(())
            });
        }
        taken
    }

    fn part(&self, hobt: HobtId) -> Option<Arc<PartChanges>> {
        self.left.lock().parts.get(&hobt).cloned()
    }

    fn state(&self, statistics: &Statistics, question: Question) -> StatisticsState {
        let mut asked = self.asked.lock();
        let (version, parts) = {
            let left = self.left.lock();
            if let Some(known) = asked.answer(&question, left.version) {
                return known;
            }
            let part = |hobt: HobtId| Some((hobt, Arc::clone(left.parts.get(&hobt)?)));
            (left.version, question.partitions().filter_map(part).collect::<LeftParts>())
        };
        asked.merge(statistics, question, version, &parts)
    }
}

fn put_back(parts: &mut LeftParts, taken: Vec<(HobtId, Arc<PartChanges>)>) {
    for (hobt, mut before) in taken {
        if let Some(since) = parts.remove(&hobt) {
            Arc::make_mut(&mut before).merge(Arc::unwrap_or_clone(since));
        }
        parts.insert(hobt, before);
    }
}

impl LiveStatistics {
    pub(super) fn tail(&self, table: ObjectId, id: i32) -> Arc<Tail> {
        if let Some(found) = self.objects.read().get(&(table, id)) {
            return Arc::clone(found);
        }
        Arc::clone(self.objects.write().entry((table, id)).or_default())
    }

    fn find(&self, table: ObjectId, id: i32) -> Option<Arc<Tail>> {
        self.objects.read().get(&(table, id)).cloned()
    }

    /// The statistics objects that have changes, in an order that is the same in every run.
    pub(super) fn changed(&self) -> Vec<(ObjectId, i32)> {
        let objects = self.objects.read();
        let is_changed = |tail: &Tail| tail.left.lock().parts.values().any(|part| !part.is_empty());
        let mut keys: Vec<_> = objects.iter().filter(|(_, tail)| is_changed(tail)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// Takes the changes of a statistics object. They are put back if the statement is undone.
    pub(super) fn take(&self, ctx: &StatementContext, table: ObjectId, id: i32) -> LeftParts {
        let tail = self.tail(table, id);
        let hobts: Vec<HobtId> = tail.left.lock().parts.keys().copied().collect();
        tail.take(ctx, hobts).into_iter().collect()
    }

    /// Drops the changes of a partition.
    pub(super) fn forget_part(&self, table: ObjectId, id: i32, hobt: HobtId) {
        if let Some(tail) = self.find(table, id) {
            tail.change(|parts| {
                parts.remove(&hobt);
            });
        }
    }

    /// Drops the changes of a statistics object, or of all objects of a table.
    pub(crate) fn forget(&self, table: ObjectId, id: Option<i32>) {
        self.objects.write().retain(|(of, each), _| *of != table || id.is_some_and(|id| id != *each));
        if id.is_none() {
            self.noted.write().remove(&table);
        }
    }

    /// Records that all rows of partitions are gone.
    pub(crate) fn truncated(&self, table: ObjectId, ids: impl Iterator<Item = i32>, hobts: &[HobtId]) {
        for id in ids {
            self.tail(table, id).change(|parts| {
                for hobt in hobts {
                    let modifications = parts.get(hobt).map_or(0, |part| part.modifications);
                    parts.insert(*hobt, Arc::new(PartChanges::emptied(modifications)));
                }
            });
        }
    }
}

impl Database {
    /// The current statistics of some partitions of a table, given by their HOBTs: what the last update gathered, and
    /// the changes since, unless the database's options say that statistics are not maintained.
    pub fn statistics_state(&self, statistics: &Statistics, hobts: &[HobtId]) -> StatisticsState {
        let question = Question::new(statistics, hobts, self.options().statistics.is_maintained);
        self.live_statistics.tail(statistics.table, statistics.id).state(statistics, question)
    }

    /// The current statistics of one partition only. For HOBT 0, the part of the whole table, nothing of other parts is
    /// included.
    pub(crate) fn part_now(&self, statistics: &Statistics, hobt: HobtId) -> Summary {
        let is_live = self.options().statistics.is_maintained;
        let tail = self.live_statistics.find(statistics.table, statistics.id);
        let changes = tail.and_then(|tail| tail.part(hobt)).filter(|_| is_live);
        let base = statistics.part(hobt).map(|base| &**base);
        Together::of_part(base, changes.as_deref()).summary(statistics.columns.len())
    }

    /// To be called before rows are gathered for an update of a statistics object: the changes of these partitions are
    /// dropped with the old base, if the statement commits.
    pub fn begin_statistics_update(
        self: &Arc<Database>,
        ctx: &StatementContext,
        statistics: &Statistics,
        hobts: &[HobtId],
    ) {
        let tail = self.live_statistics.tail(statistics.table, statistics.id);
        tail.take(ctx, hobts.iter().copied());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_do_not_wait_for_who_merges_and_leave_what_is_merged_as_it_was() {
        let tail = Tail::default();
        let hobt = HobtId(1);
        tail.change(|parts| drop(parts.insert(hobt, Arc::new(PartChanges::emptied(1)))));
        let merged = tail.part(hobt).expect("a part");
        let merging = tail.asked.lock();
        tail.change(|parts| Arc::make_mut(parts.entry(hobt).or_default()).modifications += 5);
        drop(merging);
        assert_eq!((merged.modifications, tail.part(hobt).map(|part| part.modifications)), (1, Some(6)));
    }
}
