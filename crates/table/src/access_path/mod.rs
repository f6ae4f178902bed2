//! How a statement reads the rows of a table: by a scan, or by a seek in one of its indexes.
//!
//! A seek needs conditions on the first columns of an index's key. The number of its rows is estimated in the tree
//! itself, from the position of its bounds among the entries of the pages above the leaves. So the estimate is correct
//! after any load.

mod closed;
mod joined_ends;
mod key_filter;
mod key_number;
mod lookup;
mod missing;
mod predicate;
mod text_condition;

use std::ops::Bound;
use std::sync::Arc;

use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::split_conjunction;
use hobt_access::{BTree, KeyRange, RowStore};
use hobt_base::{SqlError, errors};
use hobt_catalog::{Index, IndexKind, IndexLeaf, LeafColumn, PartitionFunction, Table};
use hobt_engine::DatabaseUse;
use hobt_txn::locks::FIRST_ATTEMPT;
use hobt_types::{KeyColumn, SqlType, Value};

use crate::TableRead;
use crate::cardinality::TableKnowledge;
pub use closed::Closed;
use closed::HasTrees;
pub(crate) use closed::trees_of;
pub use joined_ends::JoinedBound;
pub use key_filter::{number_keys, wanted_keys, wanted_partitions};
pub(crate) use key_number::number_of;
pub use key_number::{for_each_key, has_number, is_number};
pub use lookup::{JoinedBy, JoinedColumn, KeyForm, Lookup};
pub use missing::{Missing, missing_to};
pub(crate) use predicate::is_wider_text;
pub use predicate::{ColumnPredicate, Comparand, Limit, Test};
pub use text_condition::{TextCondition, equal_texts, text_conditions};

/// The most ranges that value lists may produce. If there would be more, no further list is used.
const RANGES_MAX: usize = 1024;
/// The cost of descending from a root to a leaf, in pages.
const DESCENT_PAGES: f64 = 3.0;
/// The cost of fetching a row by its RID or clustered key, in pages of a sequential scan.
const LOOKUP_PAGES: f64 = 4.0;

/// The access that a hint asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessHint {
    /// None.
    #[default]
    Free,
    /// `INDEX(0)`, `FORCESCAN`: all of the table.
    Scan,
    /// `INDEX(n)`: the index at this position in the table's list.
    Index(usize),
    /// `FORCESEEK`: any index, or the one at this position in the table's list.
    Seek(Option<usize>),
}

impl AccessHint {
    /// Whether ranges of the index at this position may be read.
    fn lets_seek(self, at: usize) -> bool {
        match self {
            AccessHint::Free | AccessHint::Seek(None) => true,
            AccessHint::Index(asked) | AccessHint::Seek(Some(asked)) => asked == at,
            AccessHint::Scan => false,
        }
    }

    /// Whether all of the index at this position may be read. This is neither a seek nor a scan of the table.
    pub fn lets_read_all(self, at: usize) -> bool {
        match self {
            AccessHint::Free => true,
            AccessHint::Index(asked) => asked == at,
            AccessHint::Scan | AccessHint::Seek(_) => false,
        }
    }

    /// Whether the hint asks for a seek.
    pub fn forces_seek(self) -> bool {
        matches!(self, AccessHint::Seek(_))
    }
}

/// How a table is read.
#[derive(Clone, Debug)]
pub enum AccessPath {
    /// All rows of these partitions.
    Scan {
        /// The partitions that are read, from 0.
        partitions: Vec<usize>,
    },
    /// Ranges of an index.
    Seek(Arc<SeekPath>),
}

/// Whether a condition fixes the column to one value, under the collation of the column's indexes.
pub fn is_one_value(predicate: &ColumnPredicate, column: usize, table: &Table) -> bool {
    let collation = table.columns[column].collation;
    predicate.column == column
        && predicate.collation.is_none_or(|by| Some(by) == collation)
        && match &predicate.test {
            Test::Equal(values) => values.len() == 1,
            Test::Null => true,
            Test::Range { .. } | Test::Never => false,
        }
}

/// Ranges of an index of a table.
#[derive(Clone, Debug)]
pub struct SeekPath {
    /// The index's position in the table's list.
    pub index: usize,
    /// The leaf that its trees have.
    pub leaf: IndexLeaf,
    /// The trees that are read, each with the index of its partition.
    pub trees: Vec<(usize, Arc<BTree>)>,
    /// The ranges in each tree, ascending and disjoint.
    pub ranges: Vec<KeyRange>,
    /// Whether the leaves have all columns that are read.
    pub covers: bool,
    /// The expected number of rows.
    pub rows: f64,
    /// The expected cost, in pages of a sequential scan.
    pub pages: f64,
}

impl SeekPath {
    /// What operators above are made for: the index, how many trees and ranges are read, and whether rows are fetched.
    pub fn shape(&self) -> (usize, usize, usize, bool) {
        (self.index, self.trees.len(), self.ranges.len(), self.covers)
    }
}

impl HasTrees for SeekPath {
    fn index(&self) -> usize {
        self.index
    }

    fn trees(&mut self) -> &mut Vec<(usize, Arc<BTree>)> {
        &mut self.trees
    }
}

/// The predicates on single columns of `table` in `conditions`.
pub fn predicates(table: &TableRead, conditions: &[Expr]) -> Vec<ColumnPredicate> {
    let schema = table.schema();
    conditions.iter().flat_map(|condition| predicate::predicates(table.table(), &schema, condition)).collect()
}

/// The predicates on single columns of `table` in `conditions`, as estimates assume them, and the conditions without
/// any.
pub fn read_predicates<'c>(table: &TableRead, conditions: &'c [Expr]) -> (Vec<ColumnPredicate>, Vec<&'c Expr>) {
    let schema = table.schema();
    let (mut all, mut unread) = (Vec::new(), Vec::new());
    for condition in conditions.iter().flat_map(conjuncts) {
        let found = predicate::assumed_predicates(table.table(), &schema, condition);
        if found.is_empty() {
            unread.push(condition);
        }
        all.extend(found);
    }
    (all, unread)
}

/// The conditions that AND joins.
fn conjuncts(condition: &Expr) -> Vec<&Expr> {
    let parts = |each| match predicate::all_of(each) {
        Some(parts) => parts.iter().flat_map(conjuncts).collect(),
        None => vec![each],
    };
    split_conjunction(condition).into_iter().flat_map(parts).collect()
}

/// The column whose text an expression is, in its own type or a wider one.
pub(crate) fn text_column(table: &TableRead, expr: &Expr) -> Option<usize> {
    predicate::text_column(table.table(), &table.schema(), expr)
}

/// The partitions of the heap or clustered index that a scan under these conditions reads.
pub fn partitions_read(table: &TableRead, predicates: &[ColumnPredicate]) -> Vec<usize> {
    let base = table.table().base_index();
    partitions_of(table.database(), base, predicates).unwrap_or_else(|_| (0..base.partitions.len()).collect())
}

/// The predicates on single columns of a table.
#[derive(Clone, Copy)]
pub struct Wanted<'p> {
    /// Those that the rows must satisfy.
    pub predicates: &'p [ColumnPredicate],
    /// The predicates that estimates assume instead, if they differ.
    pub assumed: Option<&'p [ColumnPredicate]>,
}

/// Chooses how to read the columns `projection` of the rows of `table` that satisfy `wanted`. A hint that forces a seek
/// is not an error here if no seek is found: a join may still provide one, which is known only when the plan is made.
///
/// # Errors
/// If an index cannot be opened.
pub fn choose(table: &TableRead, projection: &[usize], wanted: Wanted<'_>) -> Result<AccessPath, SqlError> {
    choose_with(table, projection, wanted, false)
}

/// As [`choose`], if the ranges that are read are locked. A seek with few rows is then preferred whatever its cost,
/// because a scan would lock more rows and make other transactions wait.
///
/// # Errors
/// As [`choose`].
pub fn choose_to_lock(table: &TableRead, projection: &[usize], wanted: Wanted<'_>) -> Result<AccessPath, SqlError> {
    choose_with(table, projection, wanted, true)
}

fn choose_with(
    table: &TableRead,
    projection: &[usize],
    wanted: Wanted<'_>,
    locks_ranges: bool,
) -> Result<AccessPath, SqlError> {
    let predicates = wanted.predicates;
    let definition = table.table();
    let base = definition.base_index();
    let partitions = partitions_of(table.database(), base, predicates)?;
    // A seek uses one worker, a scan may use several. So the cost is compared with reading all remaining partitions.
    let scanned = if locks_ranges { table.data_pages()? } else { table.data_pages_of(&partitions)? };
    let scan = AccessPath::Scan { partitions };
    if predicates.is_empty() || table.hint() == AccessHint::Scan {
        return Ok(scan);
    }
    let mut best: Option<SeekPath> = None;
    for (at, index) in definition.indexes.iter().enumerate() {
        if index.kind == IndexKind::Heap || index.options.is_disabled || !table.hint().lets_seek(at) {
            continue;
        }
        let Some(path) = seek(table, at, index, projection, wanted)? else { continue };
        if best.as_ref().is_none_or(|known| path.pages < known.pages) {
            best = Some(path);
        }
    }
    let Some(path) = best else { return Ok(scan) };
    let is_forced = matches!(table.hint(), AccessHint::Seek(_) | AccessHint::Index(_))
        || (locks_ranges && path.rows < f64::from(FIRST_ATTEMPT));
    Ok(if is_forced || path.pages < scanned { AccessPath::Seek(Arc::new(path)) } else { scan })
}

/// Error 8622, with the hint to remove or another remedy.
pub fn no_plan_for_hints(way_out: &str) -> SqlError {
    errors::NO_PLAN_FOR_HINTS.with([&way_out])
}

/// Error 8622 for a table with a FORCESEEK hint that no index can satisfy.
pub fn no_seek(table: &TableRead) -> SqlError {
    let definition = table.table();
    let sought = |index: &Index| {
        let column = &definition.columns[index.key.first()?.column];
        Some(format!("[{}] of index [{}]", column.name, index.name.as_deref().unwrap_or("")))
    };
    let usable = |(at, index): &(usize, &Index)| !index.options.is_disabled && table.hint().lets_seek(*at);
    let columns: Vec<String> =
        definition.indexes.iter().enumerate().filter(usable).filter_map(|(_, i)| sought(i)).collect();
    let name = &definition.name;
    no_plan_for_hints(&match columns.is_empty() {
        true => format!("Take FORCESEEK away from table '{name}': it has no index to seek in."),
        false => format!(
            "Take FORCESEEK away from table '{name}', or compare a column by which it can be sought: {}.",
            columns.join(", ")
        ),
    })
}

/// The partitions of an index that may have rows which satisfy the conditions.
fn partitions_of(
    database: &DatabaseUse,
    index: &Index,
    predicates: &[ColumnPredicate],
) -> Result<Vec<usize>, SqlError> {
    let mut wanted: Vec<usize> = (0..index.partitions.len()).collect();
    let snapshot = database.snapshot();
    let Some((column, function)) = snapshot.partitioning_of(&index.data_space) else { return Ok(wanted) };
    for predicate in predicates.iter().filter(|predicate| predicate.column == column) {
        wanted.retain(|partition| may_have(function, *partition, &predicate.test));
    }
    Ok(wanted)
}

fn may_have(function: &PartitionFunction, partition: usize, test: &Test) -> bool {
    let place = |comparand: &Comparand| match comparand {
        Comparand::Value(value) => Some(function.partition_of(value)),
        Comparand::Compared(_) | Comparand::Unknown => None,
    };
    match test {
        Test::Never => false,
        Test::Null => function.partition_of(&Value::Null) == partition,
        Test::Equal(values) => values.iter().any(|value| place(value).is_none_or(|place| place == partition)),
        Test::Range { low, high } => {
            let from = low.as_ref().and_then(|(value, _)| place(value)).unwrap_or(0);
            let to = high.as_ref().and_then(|(value, _)| place(value)).unwrap_or(usize::MAX);
            (from..=to).contains(&partition)
        }
    }
}

/// A seek in one index; `None` if there is no condition on its first column.
fn seek(
    table: &TableRead,
    at: usize,
    index: &Index,
    projection: &[usize],
    wanted: Wanted<'_>,
) -> Result<Option<SeekPath>, SqlError> {
    let definition = table.table();
    let Some(leaf) = definition.index_leaf(index) else { return Ok(None) };
    let Some(ranges) = ranges_of(definition, index, &leaf, wanted.predicates) else { return Ok(None) };
    let trees = trees_of(table.database(), index, &partitions_of(table.database(), index, wanted.predicates)?)?;
    let covers = covers(definition, index, &leaf, projection);
    // The trees of a cloned database have no rows to estimate from.
    let is_told =
        |(_, tree): &(usize, Arc<BTree>)| !table.database().database().is_expected_otherwise(tree.hobt().id());
    let estimated =
        |trees: &[(usize, Arc<BTree>)], ranges: Option<&[KeyRange]>, predicates: &[ColumnPredicate]| match ranges
            .filter(|_| trees.iter().all(is_told))
        {
            Some(ranges) => within(table, trees, ranges),
            None => Ok(thought_within(table, trees, index, predicates, ranges.map_or(1, <[KeyRange]>::len))),
        };
    let (rows, pages) = match wanted.assumed {
        None => estimated(&trees, Some(&ranges), wanted.predicates)?,
        Some(assumed) => {
            let trees = trees_of(table.database(), index, &partitions_of(table.database(), index, assumed)?)?;
            let ranges = ranges_of(definition, index, &leaf, assumed);
            estimated(&trees, ranges.as_deref(), assumed)?
        }
    };
    let pages = if covers { pages } else { pages + rows * LOOKUP_PAGES };
    Ok(Some(SeekPath { index: at, leaf, trees, ranges, covers, rows, pages }))
}

/// The rows of ranges in trees, and the pages that reading them costs, estimated in the trees.
fn within(table: &TableRead, trees: &[(usize, Arc<BTree>)], ranges: &[KeyRange]) -> Result<(f64, f64), SqlError> {
    let (mut rows, mut pages) = (0.0, 0.0);
    for (_, tree) in trees {
        // As estimates for scans count them, with or without `PAGECOUNT`.
        let all_pages = table.database().database().expected_data_pages(&RowStore::Tree(Arc::clone(tree))) as f64;
        for range in ranges {
            let part = tree.estimate(range).map_err(|error| table.sql_error(error))?;
            rows += part * tree.hobt().row_count() as f64;
            pages += part * all_pages + DESCENT_PAGES;
        }
    }
    Ok((rows, pages))
}

/// The number of rows and pages that estimates assume for trees.
fn counts_of(table: &TableRead, trees: &[(usize, Arc<BTree>)]) -> (f64, f64) {
    let counts = || trees.iter().map(|(_, tree)| table.expected(&RowStore::Tree(Arc::clone(tree))));
    let rows = counts().map(|counts| counts.rows as f64).sum();
    (rows, counts().map(|counts| counts.data_pages as f64).sum())
}

/// The rows and pages of ranges that estimates do not know, from statistics.
fn thought_within(
    table: &TableRead,
    trees: &[(usize, Arc<BTree>)],
    index: &Index,
    assumed: &[ColumnPredicate],
    ranges: usize,
) -> (f64, f64) {
    let is_fixed = |column: usize| {
        assumed.iter().any(|predicate| predicate.column == column && is_one_value(predicate, column, table.table()))
    };
    let columns: Vec<usize> = index.key.iter().map(|part| part.column).collect();
    let fixed = columns.iter().take_while(|column| is_fixed(**column)).count();
    // A seek uses no key columns after the first range.
    let used = &columns[..(fixed + 1).min(columns.len())];
    let tests: Vec<ColumnPredicate> = assumed.iter().filter(|test| used.contains(&test.column)).cloned().collect();
    let (all, pages) = counts_of(table, trees);
    let knowledge = TableKnowledge::of(table, &partitions_read(table, assumed));
    let rows = knowledge.rows_of(&tests, &[]).min(all.max(1.0));
    let part = if all > 0.0 { rows / all } else { 0.0 };
    (rows, pages * part + DESCENT_PAGES * (trees.len() * ranges) as f64)
}

/// Whether an index's leaves have all columns that are read. Only those of the base (heap or clustered index) have the
/// row's RID column.
pub fn covers(table: &Table, index: &Index, leaf: &IndexLeaf, projection: &[usize]) -> bool {
    index.kind == IndexKind::Clustered
        || projection.iter().all(|&column| column < table.columns.len() && leaf.position_of(column).is_some())
}

/// The ranges of an index's keys that conditions leave, ascending and disjoint. `None` if there is no condition on its
/// first column.
fn ranges_of(table: &Table, index: &Index, leaf: &IndexLeaf, predicates: &[ColumnPredicate]) -> Option<Vec<KeyRange>> {
    if predicates.iter().any(|predicate| predicate.test == Test::Never) {
        return Some(Vec::new());
    }
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    for (depth, part) in index.key.iter().enumerate() {
        let key = &leaf.key.columns()[depth].key;
        let definition = &table.columns[part.column];
        let usable = |predicate: &&ColumnPredicate| {
            predicate.column == part.column
                && predicate.collation.is_none_or(|collation| Some(collation) == definition.collation)
        };
        let of_column = || predicates.iter().filter(usable).map(|predicate| &predicate.test);
        let values = of_column().find_map(|test| match test {
            Test::Equal(values) if values.len() * prefixes.len() <= RANGES_MAX => Some(values.clone()),
            Test::Null => Some(vec![Comparand::Value(Value::Null)]),
            _ => None,
        });
        if let Some(values) = values {
            let mut longer = Vec::with_capacity(prefixes.len() * values.len());
            for prefix in &prefixes {
                for value in &values {
                    let mut key_bytes = prefix.clone();
                    value.encode(definition.sql_type, key, &mut key_bytes)?;
                    longer.push(key_bytes);
                }
            }
            longer.sort_unstable();
            longer.dedup();
            prefixes = longer;
            continue;
        }
        let Some(ends) = Ends::of(definition.sql_type, key, of_column()) else {
            return (depth > 0).then(|| prefixes.iter().map(|prefix| KeyRange::prefix(prefix)).collect());
        };
        return Some(prefixes.iter().map(|prefix| ends.behind(prefix)).collect());
    }
    Some(prefixes.iter().map(|prefix| KeyRange::prefix(prefix)).collect())
}

/// The range of a key column: each end normalised, with whether it is inclusive.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Ends {
    from: Option<(Vec<u8>, bool)>,
    to: Option<(Vec<u8>, bool)>,
}

impl Ends {
    /// The range that tests of a column leave; `None` if none of them gives a range.
    fn of<'t>(sql_type: SqlType, key: &KeyColumn, tests: impl Iterator<Item = &'t Test>) -> Option<Ends> {
        let (mut low, mut high): (Option<Limit>, Option<Limit>) = (None, None);
        for test in tests {
            if let Test::Range { low: from, high: to } = test {
                // The first of several bounds. The conditions are evaluated again above.
                low = low.or_else(|| from.clone());
                high = high.or_else(|| to.clone());
            }
        }
        if low.is_none() && high.is_none() {
            return None;
        }
        let encoded = |limit: Option<Limit>| -> Option<Option<(Vec<u8>, bool)>> {
            let Some((value, is_in)) = limit else { return Some(None) };
            let mut bytes = Vec::new();
            value.encode(sql_type, key, &mut bytes)?;
            Some(Some((bytes, is_in)))
        };
        let (first, last) = if key.is_descending() { (high, low) } else { (low, high) };
        Some(Ends { from: encoded(first)?, to: encoded(last)? })
    }

    /// The keys with `prefix` followed by values in this range.
    fn behind(&self, prefix: &[u8]) -> KeyRange {
        let bound = |end: &Option<(Vec<u8>, bool)>| -> Bound<Vec<u8>> {
            match end {
                Some((bytes, true)) => Bound::Included([prefix, bytes].concat()),
                Some((bytes, false)) => Bound::Excluded([prefix, bytes].concat()),
                None if prefix.is_empty() => Bound::Unbounded,
                None => Bound::Included(prefix.to_vec()),
            }
        };
        let (from, to) = (bound(&self.from), bound(&self.to));
        KeyRange::new(from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice))
    }
}

impl AccessPath {
    /// Whether it reads all rows of the table, or of some of its partitions.
    pub fn is_whole(&self) -> bool {
        match self {
            AccessPath::Scan { partitions } => !partitions.is_empty(),
            AccessPath::Seek(path) => path.is_whole(),
        }
    }
}

impl SeekPath {
    /// All rows of these partitions of the table, in the order of an index. `None` if the index does not have the same
    /// partitions.
    ///
    /// # Errors
    /// If a tree cannot be opened.
    pub fn whole(
        table: &TableRead,
        at: usize,
        projection: &[usize],
        partitions: &[usize],
    ) -> Result<Option<SeekPath>, SqlError> {
        let definition = table.table();
        let index = &definition.indexes[at];
        let Some(leaf) = definition.index_leaf(index).filter(|_| !index.options.is_disabled) else { return Ok(None) };
        let is_all = partitions.len() == definition.base_index().partitions.len();
        let is_aligned =
            definition.is_aligned(index) && definition.base_index().partitions.len() == index.partitions.len();
        let all: Vec<usize> = (0..index.partitions.len()).collect();
        let trees = match (is_aligned, is_all) {
            (true, _) => trees_of(table.database(), index, partitions)?,
            (false, true) => trees_of(table.database(), index, &all)?,
            (false, false) => return Ok(None),
        };
        let covers = covers(definition, index, &leaf, projection);
        let (rows, leaves) = counts_of(table, &trees);
        let pages = if covers { leaves } else { leaves + rows * LOOKUP_PAGES };
        Ok(Some(SeekPath { index: at, leaf, trees, ranges: vec![KeyRange::all()], covers, rows, pages }))
    }

    /// Restricts the path to keys whose first column is not NULL. The path is unchanged if that column cannot be NULL.
    #[must_use]
    pub fn without_nulls(self) -> SeekPath {
        let mut null = Vec::new();
        let key = self.leaf.key.columns()[0].key;
        if key.encode(None, &mut null).is_err() {
            return self;
        }
        let (from, to) = match key.is_descending() {
            false => (Bound::Excluded(null.as_slice()), Bound::Unbounded),
            true => (Bound::Unbounded, Bound::Excluded(null.as_slice())),
        };
        SeekPath { ranges: vec![KeyRange::new(from, to)], ..self }
    }

    /// The average number of rows on a page of the index.
    pub fn page_rows(&self) -> f64 {
        let count = |of: fn(&BTree) -> u64| self.trees.iter().map(|(_, tree)| of(tree)).sum::<u64>() as f64;
        count(|tree| tree.hobt().row_count()) / count(|tree| tree.hobt().data_pages()).max(1.0)
    }

    /// Whether it reads the whole index.
    pub fn is_whole(&self) -> bool {
        self.ranges.len() == 1 && self.ranges[0] == KeyRange::all()
    }

    /// The position of a column of the table in the leaves; `None` if the leaves do not have it.
    pub fn leaf_column(&self, column: usize) -> Option<usize> {
        self.leaf.columns.iter().position(|each| *each == LeafColumn::Table(column))
    }
}
