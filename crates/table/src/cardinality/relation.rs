//! The rows of a logical plan, and what is known of its columns, from the tables at its leaves up to its root.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use datafusion::common::{Column, NullEquality};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, JoinType, LogicalPlan, Operator, TableScan};
use hobt_types::Collation;

use super::group_sizes::GroupSizes;
use super::meeting::{Meeting, share_below};
use super::references::{Reference, ends_of, references_between, sources_of};
use super::same_values::{same_value, same_values};
use super::share::{Knowledge, only_column, shares_by};
use super::table::TableKnowledge;
use super::wanted::WantedColumn;
use super::width::{RowWidth, TEXT_BYTES};
use super::{UNKNOWN_ROWS, together};
use crate::access_path::{partitions_read, read_predicates};
use crate::{Series, TableRead};
use hobt_udf::SqlAggregate;

/// What is known of a column of some rows.
#[derive(Clone, Debug)]
pub struct ColumnRows {
    /// The number of distinct values.
    pub distinct: f64,
    /// The share of rows that are NULL.
    pub null_share: f64,
    /// The table column that the values come from. Unless more is known, their frequencies are those in the table.
    pub origin: Option<Arc<WantedColumn>>,
    /// The sizes of the groups whose row counts the values are.
    pub counts: Option<Arc<GroupSizes>>,
    /// The fraction of the table's distinct values that conditions on the column itself have left.
    pub cut: f64,
}

impl ColumnRows {
    /// A column with `distinct` distinct values, and no table column as its origin.
    pub fn of(distinct: f64, null_share: f64) -> ColumnRows {
        ColumnRows { distinct, null_share, origin: None, counts: None, cut: 1.0 }
    }

    /// A column of which nothing is known, in `rows` rows. It has the square root of that many values: SQL Server's
    /// guess for an equation.
    pub(crate) fn guess(rows: f64) -> ColumnRows {
        ColumnRows::of(rows.sqrt().max(1.0), 0.0)
    }

    /// The column of the counts of `groups` groups.
    pub fn of_counts(sizes: Arc<GroupSizes>, groups: f64) -> ColumnRows {
        ColumnRows { counts: Some(sizes), ..ColumnRows::guess(groups) }
    }

    /// Whether there has been no condition on the column itself.
    fn is_whole(&self) -> bool {
        self.cut >= 1.0
    }

    /// The share of rows that are not NULL.
    pub(crate) fn not_null(&self) -> f64 {
        1.0 - self.null_share
    }
}

/// An equation between the rows of two relations.
#[derive(Clone, Copy, Debug)]
pub struct Equated<'e> {
    /// The side of the left relation.
    pub left: &'e Expr,
    /// The side of the right relation.
    pub right: &'e Expr,
    /// The foreign key that the equation follows, if any.
    pub reference: Option<Reference>,
    /// How the values of both sides overlap, as far as is known.
    pub meeting: Option<Meeting>,
    /// A number that identifies the two sources that it joins; 0 if they are not known. Equations between the same two
    /// sources may be parts of one key. Those between other sources are independent.
    pub sources: u64,
}

/// The conditions that join two relations.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'j> {
    /// The equations.
    pub equations: &'j [Equated<'j>],
    /// The other conditions.
    pub further: &'j [&'j Expr],
    /// Whether the equations also hold if both sides are NULL.
    pub nulls_are_equal: bool,
}

/// The rows of a plan, and what is known of their columns.
#[derive(Clone, Debug, Default)]
pub struct Relation {
    /// The number of rows.
    pub rows: f64,
    /// The approximate width of a row, in bytes.
    pub width: f64,
    /// The approximate width of a text in it, in bytes, if a table is known that it comes from.
    pub text_bytes: Option<f64>,
    columns: HashMap<Column, ColumnRows>,
}

impl Relation {
    /// A relation with this many rows, and with columns of these names and numbers of distinct values.
    #[cfg(test)]
    pub(super) fn known(rows: f64, columns: &[(&str, f64)]) -> Relation {
        let known = |(name, distinct): &(&str, f64)| (Column::from_name(*name), ColumnRows::of(*distinct, 0.0));
        Relation { rows, width: 8.0, columns: columns.iter().map(known).collect(), ..Relation::default() }
    }

    /// A relation with this many rows and these columns. [`Relation::of_width`] sets the width.
    pub fn new(rows: f64, columns: HashMap<Column, ColumnRows>) -> Relation {
        Relation { rows, columns, ..Relation::default() }
    }

    /// Sets the width of a row, and of a text in it.
    pub fn of_width(self, width: RowWidth, text_bytes: Option<f64>) -> Relation {
        Relation { width: width.bytes(text_bytes.unwrap_or(TEXT_BYTES as f64)), text_bytes, ..self }
    }

    fn of_rows(rows: f64, plan: &LogicalPlan) -> Relation {
        Relation { rows, width: width_of(plan), ..Relation::default() }
    }

    /// The relation with other columns.
    #[must_use]
    pub(crate) fn with_columns(&self, columns: HashMap<Column, ColumnRows>) -> Relation {
        Relation { rows: self.rows, width: self.width, text_bytes: self.text_bytes, columns }
    }

    /// What is known of its columns.
    pub fn columns(&self) -> &HashMap<Column, ColumnRows> {
        &self.columns
    }

    /// Forgets all columns but the wanted ones.
    pub fn of_columns(mut self, wanted: &HashSet<&Column>) -> Relation {
        self.columns.retain(|column, _| wanted.contains(column));
        self
    }

    /// The relation reduced to a share of its rows.
    pub fn kept(mut self, share: f64) -> Relation {
        let before = self.rows.max(1.0);
        self.rows = (self.rows * share).max(if share > 0.0 { 1.0_f64.min(self.rows) } else { 0.0 });
        for column in self.columns.values_mut() {
            column.distinct = distinct_left(column.distinct, before, self.rows);
        }
        self
    }

    /// The relation reduced to the rows that satisfy the conditions.
    pub fn filtered<'c>(self, conditions: impl Iterator<Item = &'c Expr>) -> Relation {
        let conditions: Vec<&Expr> = conditions.collect();
        let shares = shares_by(&conditions, &self);
        let mut left = self.kept(together(shares));
        for condition in conditions {
            left.narrow(condition);
        }
        left
    }

    /// Records what a condition says of single columns of the rows that are left.
    fn narrow(&mut self, condition: &Expr) {
        let (column, distinct, is_null) = match condition {
            Expr::IsNull(inner) => (same_values(inner), Some(1.0), 1.0),
            Expr::IsNotNull(inner) => (same_values(inner), None, 0.0),
            Expr::BinaryExpr(binary) if binary.op.supports_propagation() => {
                let is_one = binary.op == Operator::Eq;
                let (column, constant) = match (same_values(&binary.left), same_values(&binary.right)) {
                    (Some(column), None) => (column, &binary.right),
                    (None, Some(column)) => (column, &binary.left),
                    _ => return,
                };
                let is_constant = is_one && matches!(&**constant, Expr::Literal(..));
                (Some(column), is_constant.then_some(1.0), 0.0)
            }
            _ => return,
        };
        if let Some(known) = column.and_then(|column| self.columns.get_mut(column)) {
            known.null_share = is_null;
            if let Some(most) = distinct.filter(|most| *most < known.distinct) {
                known.cut *= most / known.distinct;
                known.distinct = most;
            }
        }
    }

    /// The number of groups by these expressions.
    pub fn group_count(&self, groups: &[Expr]) -> f64 {
        if groups.is_empty() {
            return 1.0;
        }
        // Columns of one table have no more combinations of values than the table has rows.
        let mut of_tables: Vec<(i32, f64, f64)> = Vec::new();
        let mut others = 1.0;
        for group in groups {
            let known = self.expression(group);
            let Some(heap) = known.origin.as_ref().map(|origin| origin.heap()) else {
                others *= known.distinct;
                continue;
            };
            let id = heap.table().id.0;
            match of_tables.iter_mut().find(|(table, ..)| *table == id) {
                Some((_, distinct, _)) => *distinct *= known.distinct,
                None => of_tables.push((id, known.distinct, heap.expected_rows() as f64)),
            }
        }
        let of_table = |(_, distinct, rows): &(i32, f64, f64)| distinct.min(rows.max(1.0));
        (others * of_tables.iter().map(of_table).product::<f64>()).min(self.rows)
    }

    /// The sizes of the groups by these expressions.
    pub fn group_sizes(&self, groups: &[Expr]) -> GroupSizes {
        let of_one = || {
            let [group] = groups else { return None };
            let column = same_value(group).and_then(|column| self.columns.get(column))?;
            column.origin.as_ref()?.group_sizes(self.rows)
        };
        of_one().unwrap_or_else(|| GroupSizes::of_average(self.rows / self.group_count(groups).max(1.0)))
    }

    /// The join of two relations.
    pub fn joined(&self, other: &Relation, join_type: JoinType, joining: Joining<'_>) -> Relation {
        let Matches { pairs, left: left_matched, right: right_matched } = self.matches(other, joining);
        let (alone, others_alone) = ((self.rows - left_matched).max(0.0), (other.rows - right_matched).max(0.0));
        let (rows, has_left, has_right) = match join_type {
            JoinType::Inner => (pairs, true, true),
            JoinType::Left => (pairs + alone, true, true),
            JoinType::Right => (pairs + others_alone, true, true),
            JoinType::Full => (pairs + alone + others_alone, true, true),
            JoinType::LeftSemi => (left_matched, true, false),
            JoinType::RightSemi => (right_matched, false, true),
            JoinType::LeftAnti => (alone, true, false),
            JoinType::RightAnti => (others_alone, false, true),
            JoinType::LeftMark => (self.rows, true, false),
            JoinType::RightMark => (other.rows, false, true),
        };
        let rows = rows.max(1.0_f64.min(if has_left { self.rows } else { other.rows }));
        // A row without a partner is padded with NULLs.
        let shown_null = |is_left: bool| match join_type {
            JoinType::Left if !is_left => alone / rows.max(1.0),
            JoinType::Right if is_left => others_alone / rows.max(1.0),
            JoinType::Full => {
                if is_left {
                    others_alone / rows.max(1.0)
                } else {
                    alone / rows.max(1.0)
                }
            }
            _ => 0.0,
        };
        let (mut columns, mut width) = (HashMap::new(), 0.0);
        for (has, side, missing) in [(has_left, self, shown_null(true)), (has_right, other, shown_null(false))] {
            if has {
                width += side.width;
                let left = |known: &ColumnRows| ColumnRows {
                    distinct: distinct_left(known.distinct, side.rows.max(1.0), rows.min(side.rows)),
                    null_share: missing + (1.0 - missing) * known.null_share,
                    ..known.clone()
                };
                columns.extend(side.columns.iter().map(|(column, known)| (column.clone(), left(known))));
            }
        }
        // An equation leaves the values that occur on both sides.
        let leaves_equal = matches!(join_type, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi);
        for &Equated { left, right, .. } in joining.equations.iter().filter(|_| leaves_equal) {
            let fewest = self.expression(left).distinct.min(other.expression(right).distinct);
            for side in [left, right] {
                if let Some(known) = same_values(side).and_then(|column| columns.get_mut(column)) {
                    known.distinct = known.distinct.min(fewest).max(1.0);
                    known.null_share = if joining.nulls_are_equal { known.null_share } else { 0.0 };
                }
            }
        }
        Relation { rows, width, columns, ..Relation::default() }
    }

    /// The number of pairs, and of rows of each side that have a partner.
    fn matches(&self, other: &Relation, joining: Joining<'_>) -> Matches {
        let Joining { equations, further, nulls_are_equal } = joining;
        let both = Both(self, other);
        let further = shares_by(further, &both);
        let equal_pairs = self.rows * other.rows * self.share_of_pairs(other, equations, (&[], nulls_are_equal));
        let pairs = self.rows * other.rows * self.share_of_pairs(other, equations, (&further, nulls_are_equal));
        let matched = |is_turned: bool, own: &Relation, others: &Relation| {
            if others.rows <= 0.0 {
                return 0.0;
            }
            let share = equations.iter().map(|&Equated { left, right, reference, meeting, .. }| {
                let (mine, theirs) = if is_turned { (right, left) } else { (left, right) };
                let (mine, theirs) = (own.expression(mine), others.expression(theirs));
                let found = match reference.filter(|reference| reference.is_from_left != is_turned) {
                    Some(reference) => others.rows * reference.share / both_cut(&mine, &theirs),
                    None => match meeting.filter(|_| mine.is_whole() && theirs.is_whole()) {
                        Some(meeting) => meeting.found(is_turned, &theirs),
                        None => theirs.distinct / mine.distinct.max(1.0),
                    },
                };
                let is_value = if nulls_are_equal { 1.0 } else { mine.not_null() };
                found.min(1.0) * is_value
            });
            let equal = own.rows * share.fold(1.0, f64::min);
            if further.is_empty() {
                return equal;
            }
            // At least one of the partners by the equations must satisfy the other conditions.
            let partners = (equal_pairs / equal.max(1.0)).max(1.0);
            equal * (1.0 - (1.0 - together(further.clone())).powf(partners))
        };
        Matches { pairs, left: matched(false, self, other), right: matched(true, other, self) }
    }

    /// The share of all pairs of rows of two relations that satisfy the equations and the `further` conditions.
    fn share_of_pairs(
        &self,
        other: &Relation,
        equations: &[Equated<'_>],
        (further, nulls_are_equal): (&[f64], bool),
    ) -> f64 {
        let mut shares: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut referring = 1.0;
        for each in equations {
            let (left, right) = (self.expression(each.left), other.expression(each.right));
            let not_null = if nulls_are_equal { 1.0 } else { left.not_null() * right.not_null() };
            match each.reference {
                Some(reference) => {
                    let cut = if reference.is_from_left { both_cut(&left, &right) } else { both_cut(&right, &left) };
                    referring *= not_null * reference.share / cut;
                }
                // Each value of the side with fewer of them has an equal one on the other side.
                None => {
                    let meeting = each.meeting.filter(|_| left.is_whole() && right.is_whole());
                    let by_counts = || 1.0 / left.distinct.max(right.distinct).max(1.0);
                    let share = not_null * meeting.map_or_else(by_counts, Meeting::pairs);
                    shares.entry(each.sources).or_default().push(share);
                }
            }
        }
        shares.entry(equations.first().map_or(0, |each| each.sources)).or_default().extend(further);
        referring * shares.into_values().map(together).product::<f64>()
    }
}

/// The fraction of the referenced values that is left. It counts as 1 if no condition is on the referencing column;
/// otherwise the same conditions apply to both sides, and removed values cost no partner.
fn both_cut(referring: &ColumnRows, referred: &ColumnRows) -> f64 {
    if referring.is_whole() { 1.0 } else { referred.cut.max(f64::MIN_POSITIVE) }
}

/// The number of matches between two relations.
struct Matches {
    pairs: f64,
    /// Rows of the left side that have a partner.
    left: f64,
    right: f64,
}

impl Relation {
    /// What is known of an expression; `None` if nothing is known of one of its columns.
    fn of_expr(&self, expr: &Expr) -> Option<ColumnRows> {
        if let Some(column) = same_value(expr) {
            return self.columns.get(column).cloned();
        }
        if let Some(column) = same_values(expr) {
            return self.columns.get(column).map(|known| ColumnRows { origin: None, counts: None, ..known.clone() });
        }
        if let Some(column) = only_column(expr) {
            let known = self.columns.get(column)?;
            let tried = known.origin.as_ref().and_then(|origin| origin.tried(expr));
            return Some(match tried {
                Some(tried) => ColumnRows {
                    distinct: tried.distinct.min(known.distinct),
                    null_share: if tried.null_share > 0.0 { known.null_share } else { 0.0 },
                    ..tried
                },
                None => ColumnRows { origin: None, ..known.clone() },
            });
        }
        None
    }
}

impl Knowledge for Relation {
    fn expression(&self, expr: &Expr) -> ColumnRows {
        self.of_expr(expr).unwrap_or_else(|| made_of(expr, self.rows, &|column| self.columns.get(column).cloned()))
    }

    fn share_of(&self, condition: &Expr) -> Option<f64> {
        let known = self.columns.get(only_column(condition)?)?;
        let of_origin = known.origin.as_ref()?.share(condition, false)?;
        Some(of_origin.in_rows(known.null_share))
    }

    fn share_tried(&self, condition: &Expr) -> Option<f64> {
        let known = self.columns.get(only_column(condition)?)?;
        let of_origin = known.origin.as_ref()?.share(condition, true)?;
        Some(of_origin.in_rows(known.null_share))
    }

    fn share_of_text(&self, _: &Expr, _: &str, _: bool, _: Collation) -> Option<f64> {
        None
    }
}

/// The rows of two relations side by side.
struct Both<'r>(&'r Relation, &'r Relation);

impl Both<'_> {
    fn side(&self, expr: &Expr) -> Option<&Relation> {
        let is_of = |side: &&Relation| expr.column_refs().into_iter().all(|column| side.columns.contains_key(column));
        [self.0, self.1].into_iter().find(is_of)
    }

    /// The share of all pairs that a range comparison of a column of one side with one of the other leaves.
    fn share_in_order(&self, condition: &Expr) -> Option<f64> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
        let (low, high, inclusive) = match op {
            Operator::Lt => (left, right, false),
            Operator::LtEq => (left, right, true),
            Operator::Gt => (right, left, false),
            Operator::GtEq => (right, left, true),
            _ => return None,
        };
        let known = |expr: &Expr| {
            let column = same_value(expr)?;
            let known = self.0.columns.get(column).or_else(|| self.1.columns.get(column))?;
            Some((known, known.origin.as_deref().filter(|_| known.is_whole())?))
        };
        let ((low, low_origin), (high, high_origin)) = (known(low)?, known(high)?);
        Some(share_below(low_origin, high_origin, inclusive)? * low.not_null() * high.not_null())
    }
}

impl Knowledge for Both<'_> {
    fn expression(&self, expr: &Expr) -> ColumnRows {
        if matches!(expr, Expr::Literal(..)) {
            return ColumnRows::of(1.0, 0.0);
        }
        self.side(expr).map_or_else(|| ColumnRows::guess(self.0.rows.max(self.1.rows)), |side| side.expression(expr))
    }

    fn share_of(&self, condition: &Expr) -> Option<f64> {
        match self.side(condition) {
            Some(side) => side.share_of(condition),
            None => self.share_in_order(condition),
        }
    }

    fn share_tried(&self, condition: &Expr) -> Option<f64> {
        self.side(condition)?.share_tried(condition)
    }

    fn share_of_text(&self, _: &Expr, _: &str, _: bool, _: Collation) -> Option<f64> {
        None
    }
}

/// An estimate for an expression over several columns in `rows` rows. The values of a CASE are those of its branches.
/// Any other expression is assumed to have as many values as its columns have together.
pub(super) fn made_of(expr: &Expr, rows: f64, column: &dyn Fn(&Column) -> Option<ColumnRows>) -> ColumnRows {
    match expr {
        Expr::Literal(..) => return ColumnRows::of(1.0, 0.0),
        Expr::Alias(alias) => return made_of(&alias.expr, rows, column),
        Expr::Case(case) => {
            let branches = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
            let distinct: f64 = branches.map(|branch| made_of(branch, rows, column).distinct).sum();
            return ColumnRows::of(distinct.clamp(1.0, rows.max(1.0)), 0.0);
        }
        _ => {}
    }
    let known: Option<Vec<ColumnRows>> = expr.column_refs().into_iter().map(column).collect();
    let Some(known) = known.filter(|known| !known.is_empty()) else { return ColumnRows::guess(rows) };
    let not_null: f64 = known.iter().map(ColumnRows::not_null).product();
    let distinct: f64 = known.iter().map(|each| each.distinct).sum();
    ColumnRows::of(distinct.clamp(1.0, rows.max(1.0)), 1.0 - not_null)
}

/// The number of distinct values among `left` of `rows` rows, if `distinct` values are spread evenly over the rows.
pub fn distinct_left(distinct: f64, rows: f64, left: f64) -> f64 {
    if left >= rows || distinct <= 1.0 {
        return distinct.min(left.max(1.0));
    }
    let each = rows / distinct;
    let lost = (1.0 - left / rows).max(0.0).powf(each);
    (distinct * (1.0 - lost)).clamp(1.0, left.max(1.0))
}

fn width_of(plan: &LogicalPlan) -> f64 {
    RowWidth::of(plan.schema().fields()).bytes(TEXT_BYTES as f64)
}

/// What is known of a plan's rows.
pub fn relation_of(plan: &LogicalPlan) -> Relation {
    match plan {
        LogicalPlan::TableScan(scan) => of_scan(scan, plan),
        LogicalPlan::Filter(filter) => {
            let below = relation_of(&filter.input);
            let known = match &*filter.input {
                LogicalPlan::TableScan(scan) => scan.filters.as_slice(),
                _ => &[],
            };
            below.filtered(split_conjunction(&filter.predicate).into_iter().filter(|each| !known.contains(each)))
        }
        LogicalPlan::Projection(projection) => {
            let below = relation_of(&projection.input);
            renamed(&below, plan, &projection.expr)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let below = relation_of(&alias.input);
            let inner = alias.input.schema().columns();
            let outer = plan.schema().columns();
            let known = |(from, to): (Column, Column)| Some((to, below.columns.get(&from)?.clone()));
            let columns = inner.into_iter().zip(outer).filter_map(known).collect();
            Relation { columns, ..below }
        }
        LogicalPlan::Join(join) => of_join(join),
        LogicalPlan::Aggregate(aggregate) => {
            let below = relation_of(&aggregate.input);
            let rows = below.group_count(&aggregate.group_expr);
            let mut grouped = renamed(&below, plan, &aggregate.group_expr);
            let sizes = Arc::new(below.group_sizes(&aggregate.group_expr));
            let made = plan.schema().columns().into_iter().skip(aggregate.group_expr.len());
            for (name, _) in made.zip(&aggregate.aggr_expr).filter(|(_, expr)| counts_rows(expr)) {
                grouped.columns.insert(name, ColumnRows::of_counts(Arc::clone(&sizes), rows));
            }
            grouped.rows = rows;
            grouped
        }
        LogicalPlan::Distinct(_) => {
            let below = plan.inputs().first().map(|input| relation_of(input)).unwrap_or_default();
            let columns: Vec<Expr> = below.columns.keys().cloned().map(Expr::Column).collect();
            Relation { rows: if columns.is_empty() { below.rows } else { below.group_count(&columns) }, ..below }
        }
        LogicalPlan::Limit(limit) => {
            let below = relation_of(&limit.input);
            let fetch = match limit.get_fetch_type() {
                Ok(datafusion::logical_expr::FetchType::Literal(Some(rows))) => rows as f64,
                _ => below.rows,
            };
            let share = if below.rows > 0.0 { (fetch / below.rows).min(1.0) } else { 1.0 };
            below.kept(share)
        }
        LogicalPlan::Union(union) => {
            let rows = union.inputs.iter().map(|input| relation_of(input).rows).sum();
            Relation::of_rows(rows, plan)
        }
        LogicalPlan::EmptyRelation(empty) => Relation::of_rows(if empty.produce_one_row { 1.0 } else { 0.0 }, plan),
        LogicalPlan::Values(values) => Relation::of_rows(values.values.len() as f64, plan),
        other => match other.inputs().as_slice() {
            [only] => {
                let below = relation_of(only);
                Relation { width: width_of(plan), ..below }
            }
            _ => Relation::of_rows(UNKNOWN_ROWS, plan),
        },
    }
}

/// Whether an expression of an aggregate counts the rows of each group.
fn counts_rows(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => counts_rows(&alias.expr),
        Expr::AggregateFunction(call) => {
            let aggregate = call.func.inner().downcast_ref::<SqlAggregate>();
            !call.params.distinct && aggregate.is_some_and(SqlAggregate::is_count)
        }
        _ => false,
    }
}

/// What is known of the columns that a plan passes on, under their new names.
fn renamed(below: &Relation, plan: &LogicalPlan, exprs: &[Expr]) -> Relation {
    let named = plan.schema().columns().into_iter().zip(exprs);
    let columns = named.filter_map(|(name, expr)| Some((name, below.of_expr(expr)?))).collect();
    Relation { rows: below.rows, width: width_of(plan), columns, ..Relation::default() }
}

fn of_join(join: &Join) -> Relation {
    let (left, right) = (relation_of(&join.left), relation_of(&join.right));
    let further: Vec<&Expr> = join.filter.as_ref().map(split_conjunction).unwrap_or_default();
    let on: Vec<(&Expr, &Expr)> = join.on.iter().map(|(left, right)| (left, right)).collect();
    let ends = ends_of(&on, &join.left, &join.right);
    let known = references_between(&ends).into_iter().zip(Meeting::of_all(&ends)).zip(sources_of(&ends));
    let equated =
        |((left, right), ((reference, meeting), sources))| Equated { left, right, reference, meeting, sources };
    let equations: Vec<Equated<'_>> = on.into_iter().zip(known).map(equated).collect();
    let nulls_are_equal = join.null_equality == NullEquality::NullEqualsNull;
    left.joined(&right, join.join_type, Joining { equations: &equations, further: &further, nulls_are_equal })
}

fn of_scan(scan: &TableScan, plan: &LogicalPlan) -> Relation {
    let Some(heap) = TableRead::of(&scan.source) else {
        let provider = source_as_provider(&scan.source).ok();
        let series = provider.as_ref().and_then(|provider| provider.downcast_ref::<Series>());
        return Relation::of_rows(series.map_or(UNKNOWN_ROWS, |series| series.rows() as f64), plan);
    };
    let (predicates, unread) = read_predicates(&heap, &scan.filters);
    let partitions = partitions_read(&heap, &predicates);
    let knowledge = TableKnowledge::of(&heap, &partitions);
    let rows = knowledge.rows_of(&predicates, &unread);
    let schema = heap.schema();
    let mut columns = HashMap::new();
    for column in plan.schema().columns() {
        let Ok(place) = schema.index_of(&column.name) else { continue };
        let known = knowledge.left_of(place, rows, &predicates);
        let origin = Some(Arc::new(WantedColumn::new(Arc::clone(&heap), place)));
        columns.insert(column, ColumnRows { origin, ..known });
    }
    Relation { rows, width: width_of(plan), columns, ..Relation::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(rows: f64, name: &str, distinct: f64) -> Relation {
        Relation::known(rows, &[(name, distinct)])
    }

    fn equated<'e>(left: &'e Expr, right: &'e Expr, reference: Option<Reference>) -> Equated<'e> {
        Equated { left, right, reference, meeting: None, sources: 0 }
    }

    fn column(name: &str) -> Expr {
        Expr::Column(Column::from_name(name))
    }

    fn by<'j>(equations: &'j [Equated<'j>]) -> Joining<'j> {
        Joining { equations, further: &[], nulls_are_equal: false }
    }

    #[test]
    fn a_key_brings_each_row_of_the_other_side_once() {
        let (fact, dimension) = (relation(1e6, "f", 1e4), relation(1e4, "d", 1e4));
        let joined = fact.joined(&dimension, JoinType::Inner, by(&[equated(&column("f"), &column("d"), None)]));
        assert_eq!(joined.rows, 1e6);
        assert_eq!(joined.width, 16.0);
    }

    #[test]
    fn a_filtered_dimension_brings_its_share() {
        let (fact, dimension) = (relation(1e6, "f", 1e4), relation(1e4, "d", 1e4).kept(0.01));
        let joined = fact.joined(&dimension, JoinType::Inner, by(&[equated(&column("f"), &column("d"), None)]));
        assert!((joined.rows - 1e4).abs() < 1.0, "{}", joined.rows);
        let semi = fact.joined(&dimension, JoinType::LeftSemi, by(&[equated(&column("f"), &column("d"), None)]));
        assert!((semi.rows - 1e4).abs() < 1.0, "{}", semi.rows);
    }

    #[test]
    fn a_foreign_key_brings_one_partner_of_all_that_there_are() {
        let pair = |left: &Relation, right: &Relation, is_from_left| {
            let of_key = |share| Some(Reference { share, is_from_left });
            let (f, d, g, e) = (column("f"), column("d"), column("g"), column("e"));
            let both = match is_from_left {
                true => [equated(&f, &d, of_key(1e-4)), equated(&g, &e, of_key(1.0))],
                false => [equated(&d, &f, of_key(1e-4)), equated(&e, &g, of_key(1.0))],
            };
            let of = |join_type| left.joined(right, join_type, by(&both)).rows;
            (of(JoinType::Inner), of(JoinType::LeftSemi), of(JoinType::RightSemi))
        };
        // Two columns of 100 values each. On the referencing side, 30 % of each are NULL.
        let known = |null_share| ColumnRows::of(100.0, null_share);
        let of = |rows, names: [&str; 2], null_share| {
            let columns = names.map(|name| (Column::from_name(name), known(null_share)));
            Relation { rows, width: 8.0, columns: HashMap::from(columns), ..Relation::default() }
        };
        let (fact, dimension) = (of(1e6, ["f", "g"], 0.0), of(1e4, ["d", "e"], 0.0));
        assert_eq!(pair(&fact, &dimension, true), (1e6, 1e6, 1e4));
        assert_eq!(pair(&dimension, &fact, false), (1e6, 1e4, 1e6));
        let (some, tenth) = (of(1e6, ["f", "g"], 0.3), dimension.kept(0.1));
        let (rows, semi, _) = pair(&some, &tenth, true);
        assert!((rows - 1e5 * 0.49).abs() < 1.0 && (semi - 1e5 * 0.7).abs() < 1.0, "{rows}, {semi}");
    }

    #[test]
    fn equations_with_several_sources_leave_their_shares_each() {
        let (left, right) = (relation(1e6, "a", 1e3), relation(1e3, "b", 1e3));
        let rows = |sources: [u64; 2]| {
            let (a, b) = (column("a"), column("b"));
            let equations = sources.map(|sources| Equated { sources, ..equated(&a, &b, None) });
            left.joined(&right, JoinType::Inner, by(&equations)).rows
        };
        assert!((rows([0b011, 0b101]) - 1e3).abs() < 1e-6);
        assert!((rows([0b011, 0b011]) - 1e6 / 1e3_f64.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn values_go_more_slowly_than_rows() {
        assert_eq!(distinct_left(100.0, 1000.0, 1000.0), 100.0);
        assert!(distinct_left(100.0, 1e6, 1e4) > 99.0);
        assert!((distinct_left(1000.0, 1000.0, 10.0) - 10.0).abs() < 1e-9);
    }
}
