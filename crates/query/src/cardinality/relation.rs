//! The rows of a logical plan, and what is known of its columns: from the tables at its leaves up to its root.

use std::collections::{BTreeMap, HashMap, HashSet};

use datafusion::common::Column;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, TableScan};
use hobt_types::Collation;

use super::references::{Reference, references};
use super::table::TableKnowledge;
use super::{Knowledge, UNKNOWN_CONDITION, only_column, share_by, together};
use crate::access_path::{partitions_read, read_predicates};
use crate::source::HeapTable;

/// Rows of a source of which nothing is known.
const UNKNOWN_ROWS: f64 = 1000.0;

/// What is known of a column of some rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ColumnRows {
    /// Different values.
    pub(crate) distinct: f64,
    /// The share of rows that are NULL.
    pub(crate) null_share: f64,
}

impl ColumnRows {
    /// Of one of which nothing is known, in so many rows: as many values as the root, SQL Server's guess for an
    /// equation.
    pub(super) fn guess(rows: f64) -> ColumnRows {
        ColumnRows { distinct: rows.sqrt().max(1.0), null_share: 0.0 }
    }
}

/// An equation between the rows of two relations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Equated<'e> {
    pub(super) left: &'e Expr,
    pub(super) right: &'e Expr,
    pub(super) reference: Option<Reference>,
    /// The two sources that it joins, as a set; 0 where nobody knows. Equations of the same two may be parts of one
    /// key, those of others leave their shares each.
    pub(super) sources: u64,
}

/// What is known of some rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relation {
    /// How many there are.
    pub(crate) rows: f64,
    /// About how wide one is, in bytes.
    pub(crate) width: f64,
    columns: HashMap<Column, ColumnRows>,
}

impl Relation {
    /// So many rows, with so many different values in columns of these names.
    #[cfg(test)]
    pub(super) fn known(rows: f64, columns: &[(&str, f64)]) -> Relation {
        let known = |(name, distinct): &(&str, f64)| {
            (Column::from_name(*name), ColumnRows { distinct: *distinct, null_share: 0.0 })
        };
        Relation { rows, width: 8.0, columns: columns.iter().map(known).collect() }
    }

    fn of_rows(rows: f64, plan: &LogicalPlan) -> Relation {
        Relation { rows, width: width_of(plan), columns: HashMap::new() }
    }

    /// The same, of whose columns no others are known any more.
    pub(super) fn of_columns(mut self, wanted: &HashSet<&Column>) -> Relation {
        self.columns.retain(|column, _| wanted.contains(column));
        self
    }

    /// The same rows, of which only this share is left.
    fn kept(mut self, share: f64) -> Relation {
        let before = self.rows.max(1.0);
        self.rows = (self.rows * share).max(if share > 0.0 { 1.0_f64.min(self.rows) } else { 0.0 });
        for column in self.columns.values_mut() {
            column.distinct = distinct_left(column.distinct, before, self.rows);
        }
        self
    }

    /// The rows of two relations side by side where `equations` hold, and `further` conditions of which nothing is
    /// known.
    pub(super) fn joined(
        &self,
        other: &Relation,
        join_type: JoinType,
        equations: &[Equated<'_>],
        further: usize,
    ) -> Relation {
        let pairs = self.rows * other.rows * self.share_of_pairs(other, equations, further);
        let matched = |rows: f64, is_turned: bool, own: &Relation, others: &Relation| {
            let share = equations.iter().map(|&Equated { left, right, reference, .. }| {
                let (mine, theirs) = if is_turned { (right, left) } else { (left, right) };
                let (mine, theirs) = (own.expression(mine), others.expression(theirs));
                let found = match reference.filter(|reference| reference.is_from_left != is_turned) {
                    Some(reference) => others.rows * reference.share,
                    None => theirs.distinct / mine.distinct.max(1.0),
                };
                found.min(1.0) * (1.0 - mine.null_share)
            });
            rows * share.fold(1.0, f64::min) * UNKNOWN_CONDITION.powi(i32::try_from(further.min(4)).unwrap_or(4))
        };
        let left_matched = || matched(self.rows, false, self, other);
        let right_matched = || matched(other.rows, true, other, self);
        let (rows, has_left, has_right) = match join_type {
            JoinType::Inner => (pairs, true, true),
            JoinType::Left => (pairs.max(self.rows), true, true),
            JoinType::Right => (pairs.max(other.rows), true, true),
            JoinType::Full => (pairs.max(self.rows).max(other.rows), true, true),
            JoinType::LeftSemi => (left_matched(), true, false),
            JoinType::RightSemi => (right_matched(), false, true),
            JoinType::LeftAnti => ((self.rows - left_matched()).max(1.0), true, false),
            JoinType::RightAnti => ((other.rows - right_matched()).max(1.0), false, true),
            JoinType::LeftMark => (self.rows, true, false),
            JoinType::RightMark => (other.rows, false, true),
        };
        let rows = rows.max(1.0_f64.min(self.rows * other.rows));
        let (mut columns, mut width) = (HashMap::new(), 0.0);
        for (has, side) in [(has_left, self), (has_right, other)] {
            if has {
                width += side.width;
                let left = |known: &ColumnRows| {
                    let distinct = distinct_left(known.distinct, side.rows.max(1.0), rows.min(side.rows));
                    ColumnRows { distinct, ..*known }
                };
                columns.extend(side.columns.iter().map(|(column, known)| (column.clone(), left(known))));
            }
        }
        // An equation leaves the values that both sides have.
        for &Equated { left, right, .. } in equations {
            let fewest = self.expression(left).distinct.min(other.expression(right).distinct);
            for side in [left, right] {
                if let Expr::Column(column) = side
                    && let Some(known) = columns.get_mut(column)
                {
                    known.distinct = known.distinct.min(fewest).max(1.0);
                }
            }
        }
        Relation { rows, width, columns }
    }

    /// The share of all pairs of rows of two relations that is left of them.
    fn share_of_pairs(&self, other: &Relation, equations: &[Equated<'_>], further: usize) -> f64 {
        let mut shares: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut referring = 1.0;
        for each in equations {
            let (left, right) = (self.expression(each.left), other.expression(each.right));
            let not_null = (1.0 - left.null_share) * (1.0 - right.null_share);
            match each.reference {
                Some(reference) => referring *= not_null * reference.share,
                // Each value of the side with fewer of them has its like on the other.
                None => {
                    let share = not_null / left.distinct.max(right.distinct).max(1.0);
                    shares.entry(each.sources).or_default().push(share);
                }
            }
        }
        let unknown = std::iter::repeat_n(UNKNOWN_CONDITION, further);
        shares.entry(equations.first().map_or(0, |each| each.sources)).or_default().extend(unknown);
        referring * shares.into_values().map(together).product::<f64>()
    }
}

impl Knowledge for Relation {
    /// Of one column what is known of that.
    fn expression(&self, expr: &Expr) -> ColumnRows {
        let known = only_column(expr).and_then(|only| self.columns.get(only)).copied();
        known.unwrap_or_else(|| ColumnRows::guess(self.rows))
    }

    fn share_of_text(&self, _: &Expr, _: &str, _: bool, _: Collation) -> Option<f64> {
        None
    }
}

/// Different values among `left` of `rows` rows that have `distinct` of them, spread evenly.
pub(super) fn distinct_left(distinct: f64, rows: f64, left: f64) -> f64 {
    if left >= rows || distinct <= 1.0 {
        return distinct.min(left.max(1.0));
    }
    let each = rows / distinct;
    let lost = (1.0 - left / rows).max(0.0).powf(each);
    (distinct * (1.0 - lost)).clamp(1.0, left.max(1.0))
}

fn width_of(plan: &LogicalPlan) -> f64 {
    let field_bytes = |data_type: &arrow::datatypes::DataType| data_type.primitive_width().unwrap_or(32) as f64;
    plan.schema().fields().iter().map(|field| field_bytes(field.data_type())).sum()
}

/// What is known of a plan's rows.
pub(crate) fn relation_of(plan: &LogicalPlan) -> Relation {
    match plan {
        LogicalPlan::TableScan(scan) => of_scan(scan, plan),
        LogicalPlan::Filter(filter) => {
            let below = relation_of(&filter.input);
            let known = match &*filter.input {
                LogicalPlan::TableScan(scan) => scan.filters.as_slice(),
                _ => &[],
            };
            let shares = split_conjunction(&filter.predicate)
                .into_iter()
                .filter(|condition| !known.contains(condition))
                .map(|condition| share_by(condition, &below));
            let share = together(shares.collect());
            below.kept(share)
        }
        LogicalPlan::Projection(projection) => {
            let below = relation_of(&projection.input);
            renamed(&below, plan, &projection.expr)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let below = relation_of(&alias.input);
            let inner = alias.input.schema().columns();
            let outer = plan.schema().columns();
            let known = |(from, to): (Column, Column)| Some((to, *below.columns.get(&from)?));
            let columns = inner.into_iter().zip(outer).filter_map(known).collect();
            Relation { columns, ..below }
        }
        LogicalPlan::Join(join) => of_join(join),
        LogicalPlan::Aggregate(aggregate) => {
            let below = relation_of(&aggregate.input);
            let distinct: f64 = aggregate.group_expr.iter().map(|expr| below.expression(expr).distinct).product();
            let rows = if aggregate.group_expr.is_empty() { 1.0 } else { distinct.min(below.rows) };
            let mut grouped = renamed(&below, plan, &aggregate.group_expr);
            grouped.rows = rows;
            grouped
        }
        LogicalPlan::Distinct(_) => {
            let below = plan.inputs().first().map(|input| relation_of(input)).unwrap_or_default();
            let distinct: f64 = below.columns.values().map(|column| column.distinct).product();
            Relation { rows: if below.columns.is_empty() { below.rows } else { distinct.min(below.rows) }, ..below }
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

/// What is known of columns that a plan passes on, by the names that it gives them.
fn renamed(below: &Relation, plan: &LogicalPlan, exprs: &[Expr]) -> Relation {
    let named = plan.schema().columns().into_iter().zip(exprs);
    let columns = named.filter_map(|(name, expr)| {
        let mut inner = expr;
        while let Expr::Alias(alias) = inner {
            inner = &alias.expr;
        }
        Some((name, *below.columns.get(only_column(inner)?)?))
    });
    Relation { rows: below.rows, width: width_of(plan), columns: columns.collect() }
}

fn of_join(join: &Join) -> Relation {
    let (left, right) = (relation_of(&join.left), relation_of(&join.right));
    let further = join.filter.as_ref().map_or(0, |filter| split_conjunction(filter).len());
    let on: Vec<(&Expr, &Expr)> = join.on.iter().map(|(left, right)| (left, right)).collect();
    let references = references(&on, &join.left, &join.right);
    let equated = |((left, right), reference)| Equated { left, right, reference, sources: 0 };
    let equations: Vec<Equated<'_>> = on.into_iter().zip(references).map(equated).collect();
    left.joined(&right, join.join_type, &equations, further)
}

fn of_scan(scan: &TableScan, plan: &LogicalPlan) -> Relation {
    let provider = source_as_provider(&scan.source).ok();
    let Some(heap) = provider.as_ref().and_then(|provider| provider.downcast_ref::<HeapTable>()) else {
        return Relation::of_rows(UNKNOWN_ROWS, plan);
    };
    let (predicates, unread) = read_predicates(heap, &scan.filters);
    let partitions = partitions_read(heap, &predicates);
    let knowledge = TableKnowledge::of(heap, &partitions);
    let rows = knowledge.rows_of(&predicates, &unread);
    let schema = datafusion::catalog::TableProvider::schema(heap);
    let mut columns = HashMap::new();
    for column in plan.schema().columns() {
        let Ok(place) = schema.index_of(&column.name) else { continue };
        let known = knowledge.column(place);
        let distinct = distinct_left(known.distinct, knowledge.rows.max(1.0), rows);
        columns.insert(column, ColumnRows { distinct, null_share: known.null_share });
    }
    Relation { rows, width: width_of(plan), columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(rows: f64, name: &str, distinct: f64) -> Relation {
        Relation::known(rows, &[(name, distinct)])
    }

    fn equated<'e>(left: &'e Expr, right: &'e Expr, reference: Option<Reference>) -> Equated<'e> {
        Equated { left, right, reference, sources: 0 }
    }

    fn column(name: &str) -> Expr {
        Expr::Column(Column::from_name(name))
    }

    #[test]
    fn a_key_brings_each_row_of_the_other_side_once() {
        let (fact, dimension) = (relation(1e6, "f", 1e4), relation(1e4, "d", 1e4));
        let joined = fact.joined(&dimension, JoinType::Inner, &[equated(&column("f"), &column("d"), None)], 0);
        assert_eq!(joined.rows, 1e6);
        assert_eq!(joined.width, 16.0);
    }

    #[test]
    fn a_filtered_dimension_brings_its_share() {
        let (fact, dimension) = (relation(1e6, "f", 1e4), relation(1e4, "d", 1e4).kept(0.01));
        let joined = fact.joined(&dimension, JoinType::Inner, &[equated(&column("f"), &column("d"), None)], 0);
        assert!((joined.rows - 1e4).abs() < 1.0, "{}", joined.rows);
        let semi = fact.joined(&dimension, JoinType::LeftSemi, &[equated(&column("f"), &column("d"), None)], 0);
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
            let of = |join_type| left.joined(right, join_type, &both, 0).rows;
            (of(JoinType::Inner), of(JoinType::LeftSemi), of(JoinType::RightSemi))
        };
        // Two columns of 100 values each, of which each has 30 % of NULLs on the referring side.
        let known = |null_share| ColumnRows { distinct: 100.0, null_share };
        let of = |rows, names: [&str; 2], null_share| {
            let columns = names.map(|name| (Column::from_name(name), known(null_share)));
            Relation { rows, width: 8.0, columns: HashMap::from(columns) }
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
            left.joined(&right, JoinType::Inner, &equations, 0).rows
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
