//! Index seeks for joins. An index whose first columns are joined by equality is read only at the values of the outer
//! side.
//!
//! ```text
//!   ON b.x = a.x AND b.y = 3 AND b.z < 9, an index (x, y, z) of b
//!       each value of a.x:   key(x) key(3)   then up to key(9)        one range of the index
//! ```
//! A join without an equation may bound a column instead, by the values of each row (`joined_ends.rs`):
//!
//! ```text
//!   ON b.x BETWEEN a.lo AND a.hi, an index (x) of b
//!       each row of a:       from key(a.lo) to key(a.hi)              one range of the index
//! ```
//! The rows found are a superset of those that join, and the join evaluates all its conditions again. So only values
//! that certainly have no partner are left out: NULL, and values that the column's type does not have.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{Decimal128Type, Int16Type, Int32Type, Int64Type};
use hobt_access::{BTree, KeyRange};
use hobt_base::SqlError;
use hobt_catalog::{Index, IndexKind, IndexLeaf, Table, value_to_bytes};
use hobt_functions::array_value;
use hobt_types::{Collation, KeyColumn, SqlType, Value};

use super::closed::HasTrees;
use super::joined_ends::{JoinedBound, JoinedEnds};
use super::predicate::{ColumnPredicate, Comparand, Test, is_wider_text};
use super::{DESCENT_PAGES, Ends, LOOKUP_PAGES, SeekPath, covers, partitions_of, trees_of};
use crate::TableRead;
use hobt_udf::Operation;

/// The most values of a column that conditions may list, per range.
const KNOWN_MAX: usize = 16;
/// How many ranges are sampled to estimate the rows of all.
const SAMPLES: usize = 16;

/// How values of the outer side of an equation are related to those of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyForm {
    /// They are of the column's type.
    Value,
    /// The bytes by which a text or binary compares.
    Compared,
    /// Integers of a wider type.
    Widened,
    /// Decimals with this many more digits after the point.
    Scaled(u32),
}

/// A column of the inner table that a join compares with values of the outer side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinedColumn {
    /// Its index in the table.
    pub column: usize,
    /// The form in which the column's values are compared.
    pub form: KeyForm,
    /// The collation under which text compares.
    pub collation: Option<Collation>,
}

impl JoinedColumn {
    /// The column itself.
    pub fn plain(column: usize) -> JoinedColumn {
        JoinedColumn { column, form: KeyForm::Value, collation: None }
    }

    /// The column behind an operation, if comparisons of the result are comparisons of the column.
    pub fn applied(self, operation: &Operation, declared: SqlType) -> Option<JoinedColumn> {
        let is_plain = self.form == KeyForm::Value;
        match operation {
            Operation::SortKey(collation) if is_plain => {
                Some(JoinedColumn { form: KeyForm::Compared, collation: Some(*collation), ..self })
            }
            Operation::BinaryKey if is_plain => Some(JoinedColumn { form: KeyForm::Compared, ..self }),
            Operation::Nullable(_) => Some(self),
            // Converted text is used only through its sort key, which the conversion keeps.
            Operation::Cast { from, to, style: None, attempt: false } => {
                (is_plain && declared == *from && is_wider_text(*from, *to)).then_some(self)
            }
            _ => None,
        }
    }
}

/// What a join says of columns of the inner table.
#[derive(Clone, Copy)]
pub struct JoinedBy<'j> {
    /// The columns that equal values of the outer side.
    pub equal: &'j [JoinedColumn],
    /// The columns that values of the outer side bound.
    pub bounded: &'j [JoinedBound],
}

/// The source of the value of a column of an index's key.
#[derive(Clone, Debug)]
enum Part {
    /// The equation at position `at` of the list that the lookup was made for.
    Joined { at: usize, form: KeyForm, sql_type: SqlType, key: KeyColumn },
    /// Conditions: one of these normalised values.
    Known(Vec<Vec<u8>>),
}

/// A plan to look up the rows of a table that join rows of an outer side.
#[derive(Clone, Debug)]
pub struct Lookup {
    index: usize,
    leaf: IndexLeaf,
    trees: Vec<(usize, Arc<BTree>)>,
    covers: bool,
    /// The leading columns of the key.
    parts: Vec<Part>,
    /// The range that conditions give for the column after them.
    ends: Option<Ends>,
    /// The range that each row of the outer side gives for that column.
    joined_ends: Option<JoinedEnds>,
    /// Whether a range has at most one row in all trees together.
    is_unique: bool,
}

impl HasTrees for Lookup {
    fn index(&self) -> usize {
        self.index
    }

    fn trees(&mut self) -> &mut Vec<(usize, Arc<BTree>)> {
        &mut self.trees
    }
}

impl Lookup {
    /// The best index of `table` for looking up rows by `joined` that satisfy `predicates`; the columns `projection`
    /// are read. `None` if no index begins with joined columns.
    ///
    /// # Errors
    /// If an index cannot be opened.
    pub fn choose(
        table: &TableRead,
        projection: &[usize],
        predicates: &[ColumnPredicate],
        joined: JoinedBy<'_>,
    ) -> Result<Option<Lookup>, SqlError> {
        let mut best: Option<Lookup> = None;
        for (at, index) in table.table().indexes.iter().enumerate() {
            if index.kind == IndexKind::Heap || index.options.is_disabled || !table.hint().lets_seek(at) {
                continue;
            }
            let Some(found) = Lookup::of_index(table, at, index, projection, predicates, joined)? else { continue };
            if best.as_ref().is_none_or(|known| found.rank() > known.rank()) {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// Whether what is looked up follows from joined rows alone, and not from conditions.
    pub fn is_of_joined_rows(&self, table: &Table) -> bool {
        let is_joined = |part: &Part| matches!(part, Part::Joined { .. });
        let has_all = table.indexes.get(self.index).is_some_and(|index| index.partitions.len() == 1);
        has_all && self.ends.is_none() && self.parts.iter().all(is_joined)
    }

    /// The rank of a lookup among others, before values are known; the greatest is the best.
    fn rank(&self) -> (bool, usize, usize, bool, bool) {
        (self.is_unique, self.parts.len(), self.used_bounds().count(), self.covers, self.ends.is_some())
    }

    fn of_index(
        table: &TableRead,
        at: usize,
        index: &Index,
        projection: &[usize],
        predicates: &[ColumnPredicate],
        joined: JoinedBy<'_>,
    ) -> Result<Option<Lookup>, SqlError> {
        let definition = table.table();
        let Some(leaf) = definition.index_leaf(index) else { return Ok(None) };
        let (mut parts, mut ends, mut joined_ends, mut known) = (Vec::new(), None, None, 1);
        for (depth, part) in index.key.iter().enumerate() {
            let key = leaf.key.columns()[depth].key;
            let column = &definition.columns[part.column];
            let fits =
                |collation: Option<Collation>| collation.is_none_or(|collation| Some(collation) == column.collation);
            let is_here = |joined: &JoinedColumn| joined.column == part.column && fits(joined.collation);
            if let Some(at) = joined.equal.iter().position(is_here) {
                let form = joined.equal[at].form;
                parts.push(Part::Joined { at, form, sql_type: column.sql_type, key });
                continue;
            }
            let usable = |predicate: &&ColumnPredicate| predicate.column == part.column && fits(predicate.collation);
            let tests = || predicates.iter().filter(usable).map(|predicate| &predicate.test);
            match tests().find_map(|test| known_values(test, column.sql_type, &key)) {
                Some(values) if values.len() * known <= KNOWN_MAX => {
                    known *= values.len();
                    parts.push(Part::Known(values));
                }
                _ => {
                    ends = Ends::of(column.sql_type, &key, tests());
                    joined_ends = JoinedEnds::of(column.sql_type, key, joined.bounded, is_here);
                    break;
                }
            }
        }
        if joined_ends.is_none() && !parts.iter().any(|part| matches!(part, Part::Joined { .. })) {
            return Ok(None);
        }
        let wanted = partitions_of(table.database(), index, predicates)?;
        let trees = trees_of(table.database(), index, &wanted)?;
        let covers = covers(definition, index, &leaf, projection);
        let is_unique = index.options.is_unique && parts.len() == index.key.len() && known == 1;
        Ok(Some(Lookup { index: at, leaf, trees, covers, parts, ends, joined_ends, is_unique }))
    }

    /// The index's position in the table's list.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The table columns whose values equations give, in the order of [`Lookup::used`].
    pub fn joined_columns(&self, table: &Table) -> Vec<usize> {
        let key = table.indexes[self.index].key.iter().map(|part| part.column);
        let joined = self.parts.iter().zip(key).filter(|(part, _)| matches!(part, Part::Joined { .. }));
        joined.map(|(_, column)| column).collect()
    }

    /// The layout of the index's leaves.
    pub fn leaf(&self) -> &IndexLeaf {
        &self.leaf
    }

    /// The number of trees in which each range is looked up.
    pub fn tree_count(&self) -> usize {
        self.trees.len()
    }

    /// The equations that it uses, by their positions in the list that it was made for.
    pub fn used(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts.iter().filter_map(|part| match part {
            Part::Joined { at, .. } => Some(*at),
            Part::Known(_) => None,
        })
    }

    /// The bounds that it uses, by their positions in the list that it was made for.
    pub fn used_bounds(&self) -> impl Iterator<Item = usize> + '_ {
        self.joined_ends.iter().flat_map(JoinedEnds::used)
    }

    /// The table column of the bounds that it uses.
    pub fn bounded_column(&self, table: &Table) -> Option<usize> {
        self.joined_ends.as_ref().map(|_| table.indexes[self.index].key[self.parts.len()].column)
    }

    /// The cost of looking up `rows` rows of the outer side that find `found` rows in all, in pages.
    pub fn pages_of(&self, rows: f64, found: f64) -> f64 {
        let lookup = if self.covers { 0.0 } else { LOOKUP_PAGES };
        rows * DESCENT_PAGES * self.trees.len().max(1) as f64 + found * lookup
    }

    /// How many rows of the outer side can be looked up at a cost of `pages` pages.
    pub fn rows_within(&self, pages: f64) -> usize {
        let lookup = if self.covers || !self.is_unique { 0.0 } else { LOOKUP_PAGES };
        // The result is far below the range of the cast.
        (pages / (DESCENT_PAGES * self.trees.len().max(1) as f64 + lookup)) as usize
    }

    /// Adds the key prefixes that `rows` rows join. `values` has an array for each equation in [`Lookup::used`]. With
    /// `nulls_are_equal`, NULL has partners.
    ///
    /// # Errors
    /// If a value is of another type than the equation's.
    pub fn add_prefixes(
        &self,
        values: &[ArrayRef],
        rows: usize,
        nulls_are_equal: bool,
        prefixes: &mut Vec<Vec<u8>>,
    ) -> Result<(), SqlError> {
        for row in 0..rows {
            prefixes.append(&mut self.prefixes_of(values, row, nulls_are_equal)?);
        }
        Ok(())
    }

    /// The key prefixes that one row joins; see [`Lookup::add_prefixes`].
    fn prefixes_of(&self, values: &[ArrayRef], row: usize, nulls_are_equal: bool) -> Result<Vec<Vec<u8>>, SqlError> {
        let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
        let mut arrays = values.iter();
        for part in &self.parts {
            match part {
                Part::Joined { form, sql_type, key, .. } => {
                    let array = arrays.next().expect("an array for each equation");
                    let mut bytes = Vec::new();
                    if !encode(*form, *sql_type, key, array, row, nulls_are_equal, &mut bytes)? {
                        return Ok(Vec::new());
                    }
                    prefixes.iter_mut().for_each(|prefix| prefix.extend_from_slice(&bytes));
                }
                Part::Known(values) => {
                    let longer = prefixes.iter();
                    prefixes = longer
                        .flat_map(|prefix| values.iter().map(move |value| [prefix, &value[..]].concat()))
                        .collect();
                }
            }
        }
        Ok(prefixes)
    }

    /// The disjoint ranges of the index for one row. `values` has the arrays of the equations (see
    /// [`Lookup::add_prefixes`]), followed by one for each bound in [`Lookup::used_bounds`].
    ///
    /// # Errors
    /// If a value is of another type than the column that it is compared with.
    pub fn ranges_of_row(
        &self,
        values: &[ArrayRef],
        row: usize,
        nulls_are_equal: bool,
    ) -> Result<Vec<KeyRange>, SqlError> {
        let prefixes = self.prefixes_of(values, row, nulls_are_equal)?;
        let Some(joined) = &self.joined_ends else {
            return Ok(prefixes.iter().map(|prefix| self.range(prefix)).collect());
        };
        let bounds = &values[self.used().count()..];
        let Some(ends) = joined.of_row(bounds, row, self.ends.as_ref())? else { return Ok(Vec::new()) };
        Ok(prefixes.iter().map(|prefix| ends.behind(prefix)).collect())
    }

    /// The keys with a prefix, followed by values in the range that conditions give.
    fn range(&self, prefix: &[u8]) -> KeyRange {
        match &self.ends {
            Some(ends) => ends.behind(prefix),
            None => KeyRange::prefix(prefix),
        }
    }

    /// A path over the index without any ranges yet.
    pub fn path_without_ranges(&self) -> SeekPath {
        let (leaf, trees) = (self.leaf.clone(), self.trees.clone());
        let (ranges, rows, pages) = (Vec::new(), 0.0, 0.0);
        SeekPath { index: self.index, leaf, trees, ranges, covers: self.covers, rows, pages }
    }

    /// The ranges of the index with these prefixes, as a path to read. Its rows and cost are estimated from some of the
    /// ranges.
    ///
    /// # Errors
    /// If a page of the index is damaged or cannot be read.
    pub fn path(&self, table: &TableRead, mut prefixes: Vec<Vec<u8>>) -> Result<SeekPath, SqlError> {
        prefixes.sort_unstable();
        prefixes.dedup();
        let ranges: Vec<KeyRange> = prefixes.iter().map(|prefix| self.range(prefix)).collect();
        let sample = || ranges.iter().step_by(ranges.len().div_ceil(SAMPLES).max(1));
        let scale = ranges.len() as f64 / sample().count().max(1) as f64;
        let (mut rows, mut pages, mut span) = (0.0, 0.0, 0.0);
        for (_, tree) in &self.trees {
            let leaves = tree.hobt().data_pages() as f64;
            for range in sample() {
                let part = scale * tree.estimate(range).map_err(|error| table.sql_error(error))?;
                rows += part * tree.hobt().row_count() as f64;
                pages += part * leaves;
            }
            pages += DESCENT_PAGES * ranges.len() as f64;
            if let (Some(first), Some(last)) = (prefixes.first(), prefixes.last()) {
                let all = whole_span(first, last);
                span += tree.estimate(&all).map_err(|error| table.sql_error(error))? * leaves + DESCENT_PAGES;
            }
        }
        // If the values are close together, the whole span between them is read.
        let is_dense = self.covers && span < pages;
        let (ranges, pages) = match (prefixes.first(), prefixes.last()) {
            (Some(first), Some(last)) if is_dense => (vec![whole_span(first, last)], span),
            _ => (ranges, pages),
        };
        let pages = if self.covers { pages } else { pages + rows * LOOKUP_PAGES };
        let (leaf, trees) = (self.leaf.clone(), self.trees.clone());
        Ok(SeekPath { index: self.index, leaf, trees, ranges, covers: self.covers, rows, pages })
    }
}

/// All keys from those with the prefix `first` to those with the prefix `last`.
fn whole_span(first: &[u8], last: &[u8]) -> KeyRange {
    KeyRange::new(std::ops::Bound::Included(first), std::ops::Bound::Included(last))
}

/// The normalised values that a test lists; `None` if it lists none.
fn known_values(test: &Test, sql_type: SqlType, key: &KeyColumn) -> Option<Vec<Vec<u8>>> {
    let values = match test {
        Test::Equal(values) => values.clone(),
        Test::Null => vec![Comparand::Value(Value::Null)],
        Test::Range { .. } | Test::Never => return None,
    };
    let encoded = values.iter().map(|value| {
        let mut bytes = Vec::new();
        value.encode(sql_type, key, &mut bytes).map(|()| bytes)
    });
    let mut encoded: Vec<Vec<u8>> = encoded.collect::<Option<_>>()?;
    encoded.sort_unstable();
    encoded.dedup();
    Some(encoded)
}

/// Appends the normalised key of a value of the outer side; returns `false` if no row can have it.
pub(super) fn encode(
    form: KeyForm,
    sql_type: SqlType,
    key: &KeyColumn,
    array: &ArrayRef,
    row: usize,
    nulls_are_equal: bool,
    out: &mut Vec<u8>,
) -> Result<bool, SqlError> {
    if array.is_null(row) {
        return Ok(nulls_are_equal && key.encode(None, out).is_ok());
    }
    let other = || SqlError::internal(format!("a join compares {sql_type:?} with {}", array.data_type()));
    let value = match form {
        KeyForm::Compared => {
            let views = array.as_binary_view_opt().map(|views| views.value(row));
            let bytes = views.or_else(|| array.as_binary_opt::<i32>().map(|bytes| bytes.value(row)));
            key.encode_compared(bytes.ok_or_else(other)?, out);
            return Ok(true);
        }
        KeyForm::Value => array_value(array.as_ref(), row, sql_type)?,
        KeyForm::Widened => Value::Int(integer(array, row).ok_or_else(other)?),
        KeyForm::Scaled(digits) => {
            let unscaled = array.as_primitive_opt::<Decimal128Type>().ok_or_else(other)?.value(row);
            let unit = 10_i128.checked_pow(digits).ok_or_else(other)?;
            if unscaled % unit != 0 {
                return Ok(false);
            }
            match (sql_type, i64::try_from(unscaled / unit)) {
                (SqlType::Decimal { .. }, _) => Value::Decimal(unscaled / unit),
                (_, Ok(number)) => Value::Int(number),
                // The value is beyond the range of integers.
                (_, Err(_)) => return Ok(false),
            }
        }
    };
    // A value that the column's type cannot hold is in no row.
    let Ok(bytes) = value_to_bytes(sql_type, &value) else { return Ok(false) };
    Ok(key.encode(bytes.as_deref(), out).is_ok())
}

fn integer(array: &ArrayRef, row: usize) -> Option<i64> {
    let small = array.as_primitive_opt::<Int16Type>().map(|array| i64::from(array.value(row)));
    let middle = || array.as_primitive_opt::<Int32Type>().map(|array| i64::from(array.value(row)));
    small.or_else(middle).or_else(|| array.as_primitive_opt::<Int64Type>().map(|array| array.value(row)))
}
