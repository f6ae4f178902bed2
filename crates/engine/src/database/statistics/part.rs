//! What is known of one partition's rows: what the last update gathered, what came since, what went.

use std::borrow::Cow;

use hobt_types::statistics::{GatherColumns, Summary};

use super::accumulated::Accumulated;

/// What changes of rows leave behind of one partition.
#[derive(Clone, Default, Debug)]
pub(super) struct PartChanges {
    /// Whether what the base says of the partition is of rows that are gone.
    pub(super) has_lost_base: bool,
    pub(super) inserted: Accumulated,
    pub(super) deleted: Accumulated,
    /// Rows whose leading column was inserted, deleted or changed.
    pub(super) modifications: u64,
}

impl PartChanges {
    /// What is left behind of a partition when all of its rows are gone.
    pub(super) fn emptied(modifications: u64) -> PartChanges {
        PartChanges { has_lost_base: true, modifications, ..PartChanges::default() }
    }

    /// Notes a row that came or went; without `columns` it is counted alone.
    pub(super) fn note(&mut self, inserts: bool, columns: Option<&GatherColumns>, values: &[Option<&[u8]>]) {
        let rows = if inserts { &mut self.inserted } else { &mut self.deleted };
        if let Some(columns) = columns {
            rows.add(columns, values);
        }
    }

    /// Whether it says anything of the rows themselves.
    pub(super) fn says_something(&self) -> bool {
        self.has_lost_base || !self.inserted.is_empty() || !self.deleted.is_empty()
    }

    /// Whether nothing was changed.
    pub(super) fn is_empty(&self) -> bool {
        self.modifications == 0 && !self.says_something()
    }

    /// Takes in what happened later.
    pub(super) fn merge(&mut self, later: PartChanges) {
        if later.has_lost_base {
            *self = later;
            return;
        }
        self.inserted.merge(later.inserted);
        self.deleted.merge(later.deleted);
        self.modifications += later.modifications;
    }

    /// Whether all rows are gone: as many were deleted as `base_rows` and those inserted since.
    pub(super) fn has_lost_all(&self, base_rows: impl FnOnce() -> f64) -> bool {
        let deleted = self.deleted.rows();
        if deleted <= 0.0 || deleted < self.inserted.rows() {
            return false;
        }
        let base_rows = if self.has_lost_base { 0.0 } else { base_rows() };
        deleted >= base_rows + self.inserted.rows()
    }

    /// Makes it small, however many rows it is of.
    pub(super) fn settle_if_many(&mut self) {
        self.inserted.settle_if_many();
        self.deleted.settle_if_many();
    }

    /// Bytes that it holds, about.
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<PartChanges>() + self.inserted.held_bytes() + self.deleted.held_bytes()
    }
}

/// Summaries that together make up some partitions.
#[derive(Default)]
pub(super) struct Together<'a> {
    present: Vec<Cow<'a, Summary>>,
    gone: Vec<Cow<'a, Summary>>,
}

impl<'a> Together<'a> {
    /// Of one partition: its base and what was left behind of it.
    pub(super) fn of_part(base: Option<&'a Summary>, left: Option<&'a PartChanges>) -> Together<'a> {
        let mut together = Together::default();
        together.add_base(base.filter(|_| left.is_none_or(|left| !left.has_lost_base)));
        left.iter().for_each(|left| together.add_changes(left));
        together
    }

    /// Adds what an update gathered.
    pub(super) fn add_base(&mut self, base: Option<&'a Summary>) {
        self.present.extend(base.map(Cow::Borrowed));
    }

    /// Adds what came and what went since.
    pub(super) fn add_changes(&mut self, left: &'a PartChanges) {
        self.present.extend(left.inserted.summaries());
        self.gone.extend(left.deleted.summaries());
    }

    /// Whether it is one summary, as it is.
    pub(super) fn is_one(&self) -> bool {
        self.present.len() == 1 && self.gone.is_empty()
    }

    /// All of it as one, of so many columns.
    pub(super) fn summary(self, column_count: usize) -> Summary {
        let Together { mut present, gone } = self;
        let summary = match present.as_slice() {
            [] => Summary::empty(column_count),
            [_] => present.remove(0).into_owned(),
            _ => merged(&present),
        };
        if gone.is_empty() { summary } else { summary.without(&merged(&gone)) }
    }
}

fn merged(summaries: &[Cow<'_, Summary>]) -> Summary {
    let all: Vec<&Summary> = summaries.iter().map(|summary| &**summary).collect();
    Summary::merged(&all)
}
