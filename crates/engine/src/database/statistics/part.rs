//! Statistics of one partition's rows: what the last update gathered, what was inserted since, what was deleted.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use hobt_base::HobtId;
use hobt_types::statistics::{GatherColumns, Summary};

use super::accumulated::Accumulated;

/// The committed changes of one partition's rows.
#[derive(Clone, Default, Debug)]
pub(super) struct PartChanges {
    /// Whether the base describes rows that are gone.
    pub(super) has_lost_base: bool,
    pub(super) inserted: Accumulated,
    pub(super) deleted: Accumulated,
    /// Rows whose leading column was inserted, deleted or changed.
    pub(super) modifications: u64,
}

/// Committed changes, by partition.
pub(super) type LeftParts = HashMap<HobtId, Arc<PartChanges>>;

impl PartChanges {
    /// The changes of a partition all of whose rows are gone.
    pub(super) fn emptied(modifications: u64) -> PartChanges {
        PartChanges { has_lost_base: true, modifications, ..PartChanges::default() }
    }

    /// Records an inserted or deleted row. Without `columns` it is only counted.
    pub(super) fn note(&mut self, inserts: bool, columns: Option<&GatherColumns>, values: &[Option<&[u8]>]) {
        let rows = if inserts { &mut self.inserted } else { &mut self.deleted };
        if let Some(columns) = columns {
            rows.add(columns, values);
        }
    }

    /// Whether it describes any rows.
    pub(super) fn says_something(&self) -> bool {
        self.has_lost_base || !self.inserted.is_empty() || !self.deleted.is_empty()
    }

    /// Whether nothing was changed.
    pub(super) fn is_empty(&self) -> bool {
        self.modifications == 0 && !self.says_something()
    }

    /// Adds later changes.
    pub(super) fn merge(&mut self, later: PartChanges) {
        if later.has_lost_base {
            *self = later;
            return;
        }
        self.inserted.merge(later.inserted);
        self.deleted.merge(later.deleted);
        self.modifications += later.modifications;
    }

    /// Whether all rows are gone: the number deleted equals `base_rows` and those inserted since.
    pub(super) fn has_lost_all(&self, base_rows: impl FnOnce() -> f64) -> bool {
        let deleted = self.deleted.rows();
        if deleted <= 0.0 || deleted < self.inserted.rows() {
            return false;
        }
        let base_rows = if self.has_lost_base { 0.0 } else { base_rows() };
        deleted >= base_rows + self.inserted.rows()
    }

    /// Makes it small, however many rows it describes.
    pub(super) fn settle_if_many(&mut self) {
        self.inserted.settle_if_many();
        self.deleted.settle_if_many();
    }

    /// The approximate memory it holds in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<PartChanges>() + self.inserted.held_bytes() + self.deleted.held_bytes()
    }
}

/// Summaries that together describe some partitions.
#[derive(Default)]
pub(super) struct Together<'a> {
    present: Vec<Cow<'a, Summary>>,
    gone: Vec<Cow<'a, Summary>>,
}

impl<'a> Together<'a> {
    /// For one partition: its base and its changes.
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

    /// Adds what was inserted and deleted since.
    pub(super) fn add_changes(&mut self, left: &'a PartChanges) {
        self.present.extend(left.inserted.summaries());
        self.gone.extend(left.deleted.summaries());
    }

    /// Whether it is a single unchanged summary.
    pub(super) fn is_one(&self) -> bool {
        self.present.len() == 1 && self.gone.is_empty()
    }

    /// Merges all of it into one summary of `column_count` columns.
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
