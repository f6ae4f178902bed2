//! Recent requests for the state of a statistics object, with the answers. Two queries over different partitions, or
//! one that is planned again and again, merge once each.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use hobt_base::HobtId;
use hobt_catalog::Statistics;
use hobt_types::statistics::Summary;

use super::part::{LeftParts, Together};

/// How many requests are kept. Each holds two summaries.
const KEPT: usize = 4;

/// The current state of a statistics object.
#[derive(Clone, Debug)]
pub struct StatisticsState {
    /// The distribution of the rows of the requested partitions.
    pub summary: Arc<Summary>,
    /// Rows whose leading column was inserted, deleted or changed since the last update.
    pub modifications: u64,
    /// Rows deleted or changed since the last update: a histogram with rows subtracted is less exact than one that
    /// never had them.
    pub deleted_rows: f64,
}

/// A request: a version of a statistics object, and partitions.
#[derive(Debug)]
pub(super) struct Question {
    /// What the last update gathered. Weak references are enough: while they exist, their addresses are not reused.
    bases: Vec<Weak<Summary>>,
    modified: i64,
    column_count: usize,
    hobts: Vec<HobtId>,
    is_live: bool,
}

impl PartialEq for Question {
    fn eq(&self, other: &Question) -> bool {
        self.modified == other.modified
            && self.column_count == other.column_count
            && self.is_live == other.is_live
            && self.hobts == other.hobts
            && self.bases.len() == other.bases.len()
            && self.bases.iter().zip(&other.bases).all(|(own, other)| own.ptr_eq(other))
    }
}

impl Question {
    pub(super) fn new(statistics: &Statistics, hobts: &[HobtId], is_live: bool) -> Question {
        Question {
            bases: statistics.parts.iter().map(|part| Arc::downgrade(&part.summary)).collect(),
            modified: statistics.modified,
            column_count: statistics.columns.len(),
            hobts: hobts.to_vec(),
            is_live,
        }
    }

    /// The partitions whose parts make up the answer. HOBT 0 is what belongs to no single partition.
    pub(super) fn partitions(&self) -> impl Iterator<Item = HobtId> {
        std::iter::once(HobtId(0)).chain(self.hobts.iter().copied())
    }
}

/// The last requests, the most recent last.
#[derive(Default, Debug)]
pub(super) struct Asked(Vec<Known>);

#[derive(Debug)]
struct Known {
    question: Question,
    /// The bases merged, without those of the partitions `lost`.
    bases: Arc<Summary>,
    lost: Vec<HobtId>,
    /// The version of the changes when the answer was made.
    version: u64,
    state: StatisticsState,
}

impl Asked {
    /// The cached answer, if no changes were recorded since.
    pub(super) fn answer(&mut self, question: &Question, version: u64) -> Option<StatisticsState> {
        let at = self.0.iter().position(|known| known.question == *question)?;
        self.0[at..].rotate_left(1);
        let newest = self.0.last()?;
        (newest.version == version).then(|| newest.state.clone())
    }

    /// Merges the changes into an answer, and caches it in place of the least recently used one.
    pub(super) fn merge(
        &mut self,
        statistics: &Statistics,
        question: Question,
        version: u64,
        left: &LeftParts,
    ) -> StatisticsState {
        let seen = |hobt: &HobtId| left.get(hobt).filter(|_| question.is_live);
        let lost = |hobt: &HobtId| seen(hobt).is_some_and(|left| left.has_lost_base);
        let lost: Vec<HobtId> = question.partitions().filter(lost).collect();
        let before = self.0.iter().position(|known| known.question == question).map(|at| self.0.remove(at));
        let bases = match before {
            Some(known) if known.lost == lost => known.bases,
            _ => Arc::new(merged_bases(statistics, question.partitions().filter(|hobt| !lost.contains(hobt)))),
        };
        let mut together = Together::default();
        together.add_base(Some(&*bases));
        question.hobts.iter().filter_map(seen).for_each(|left| together.add_changes(left));
        let summary =
            if together.is_one() { Arc::clone(&bases) } else { Arc::new(together.summary(question.column_count)) };
        let asked = || question.hobts.iter().filter_map(|hobt| left.get(hobt));
        let modifications: u64 = asked().map(|left| left.modifications).sum();
        let state = StatisticsState {
            summary,
            modifications: modifications.saturating_add(statistics.modified.max(0).cast_unsigned()),
            deleted_rows: asked().map(|left| left.deleted.rows()).sum(),
        };
        if self.0.len() == KEPT {
            self.0.remove(0);
        }
        self.0.push(Known { question, bases, lost, version, state: state.clone() });
        state
    }
}

fn merged_bases(statistics: &Statistics, hobts: impl Iterator<Item = HobtId>) -> Summary {
    let known: HashMap<HobtId, &Summary> = statistics.parts.iter().map(|part| (part.hobt, &*part.summary)).collect();
    let mut bases = Together::default();
    hobts.for_each(|hobt| bases.add_base(known.get(&hobt).copied()));
    bases.summary(statistics.columns.len())
}

#[cfg(test)]
mod tests {
    use hobt_base::ObjectId;
    use hobt_catalog::{StatisticsOrigin, StatisticsPart};
    use hobt_types::statistics::{GatherColumns, Gatherer};
    use hobt_types::{Collation, KeyColumn, SqlType};

    use super::super::part::PartChanges;
    use super::*;

    fn columns() -> GatherColumns {
        GatherColumns::new(KeyColumn::new(SqlType::Int, Collation::default(), true, false).into_iter().collect())
    }

    fn of_rows(rows: i32) -> Arc<Summary> {
        let mut gatherer = Gatherer::new(columns());
        (0..rows).for_each(|row| gatherer.add(&[Some(&row.to_le_bytes())]).expect("an int"));
        Arc::new(gatherer.finish())
    }

    /// Statistics of one column whose partitions, from 1 on, have these numbers of rows.
    fn statistics(rows: &[i32]) -> Statistics {
        let part = |(hobt, rows): (u64, &i32)| StatisticsPart { hobt: HobtId(hobt), summary: of_rows(*rows) };
        Statistics {
            table: ObjectId(1),
            id: 2,
            name: "s".to_owned(),
            origin: StatisticsOrigin::User,
            columns: vec![1],
            filter: None,
            is_incremental: false,
            no_recompute: false,
            auto_drop: false,
            updated: Some(1),
            unfiltered_rows: 0,
            modified: 0,
            sample_millionths: 0,
            parts: (1..).zip(rows).map(part).collect(),
        }
    }

    fn question(statistics: &Statistics, hobts: &[u64]) -> Question {
        let hobts: Vec<HobtId> = hobts.iter().copied().map(HobtId).collect();
        Question::new(statistics, &hobts, true)
    }

    #[test]
    fn several_questions_are_answered_without_merging_again() {
        let known = statistics(&[10, 20, 30]);
        let mut asked = Asked::default();
        let questions: [&[u64]; KEPT] = [&[1], &[2], &[1, 2], &[1, 2, 3]];
        for hobts in questions {
            asked.merge(&known, question(&known, hobts), 5, &LeftParts::new());
        }
        for (hobts, rows) in questions.into_iter().zip([10.0, 20.0, 30.0, 60.0]) {
            let answer = asked.answer(&question(&known, hobts), 5).expect("an answer");
            assert_eq!(answer.summary.rows, rows);
        }
        assert!(asked.answer(&question(&known, &[1]), 6).is_none(), "something was left behind");
        asked.merge(&known, question(&known, &[3]), 5, &LeftParts::new());
        assert!(asked.answer(&question(&known, &[2]), 5).is_none(), "it was not asked for longest");
        assert!(asked.answer(&question(&known, &[1]), 5).is_some());
    }

    #[test]
    fn another_base_is_another_question_however_alike_it_is() {
        let known = statistics(&[10]);
        let mut asked = Asked::default();
        asked.merge(&known, question(&known, &[1]), 0, &LeftParts::new());
        let again = Statistics { parts: known.parts.clone(), ..statistics(&[]) };
        assert!(asked.answer(&question(&again, &[1]), 0).is_some(), "the parts are the same");
        let other = statistics(&[11]);
        drop((known, again));
        assert!(asked.answer(&question(&other, &[1]), 0).is_none());
    }

    #[test]
    fn what_was_left_behind_is_added_to_the_bases_and_those_that_were_lost_are_not() {
        let known = statistics(&[10, 20]);
        let mut came = PartChanges { modifications: 3, ..PartChanges::default() };
        (100..103_i32).for_each(|row| came.note(true, Some(&columns()), &[Some(&row.to_le_bytes())]));
        let mut left: LeftParts = [(HobtId(1), Arc::new(came))].into();
        let mut asked = Asked::default();
        let state = asked.merge(&known, question(&known, &[1, 2]), 1, &left);
        assert_eq!((state.summary.rows, state.modifications), (33.0, 3));
        left.insert(HobtId(2), Arc::new(PartChanges::emptied(20)));
        let state = asked.merge(&known, question(&known, &[1, 2]), 2, &left);
        assert_eq!((state.summary.rows, state.modifications), (13.0, 23));
        assert_eq!(asked.0.len(), 1, "one question, one answer");
    }
}
