//! How far down a plan a filter goes: to every scan below if rows whose key is not in the set make no difference there.
//!
//! A filter goes through operators that pass rows on or drop rows one by one, and through groups and windows whose rows
//! all have one key. In a join it goes to the side that has the key, if the join does not output rows of the other side
//! without a partner. If the key is a joined column, it also goes to the other side: rows that equal no wanted key are
//! not wanted either. So the filter of one dimension reaches another dimension that is joined by the same key.
//!
//! It does not go below operators that lock rows or wait for them (`LockRowsExec`, `UnseenRowsExec`): a row that
//! another transaction is changing may be wanted after the change even if it was not before.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::joins::utils::{ColumnIndex, build_join_schema};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};

use crate::expected::Expectations;
use hobt_operators::{Join, JoinFilter, LeafFilter, Role, RowLoopsExec, joined_column, role, substituted};
use hobt_table::TableRead;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// A filter on its way down, and the compared expression over the columns of the current plan.
#[derive(Clone)]
pub(super) struct Pushed {
    pub(super) filter: Arc<JoinFilter>,
    pub(super) key: Expr,
    /// The estimated rows of the side that makes the filter.
    pub(super) rows: Option<usize>,
}

impl Pushed {
    fn of(&self, key: Expr) -> Pushed {
        Pushed { key, ..self.clone() }
    }
}

/// Pushes filters down. Keeps the outer sides of the index joins around the current plan, which are siblings of their
/// joins.
#[derive(Default)]
pub(super) struct Pusher {
    outers: Vec<(Plan, Plan)>,
    expected: Expectations,
}

impl Pusher {
    /// The estimated number of rows of a plan.
    pub(super) fn rows_of(&self, plan: &Plan) -> usize {
        self.expected.of(plan).rows.ceil() as usize
    }

    /// The plan with the filter at its scans; `None` if it reaches none.
    pub(super) fn push(&mut self, plan: &Plan, pushed: &Pushed) -> Result<Option<Plan>> {
        if plan.fetch().is_some() {
            return Ok(None);
        }
        match role(plan.as_ref()) {
            Role::Scan(scan) => {
                let filter = leaf_filter(scan.table(), scan.projection(), scan.table().expected_rows(), pushed);
                Ok(filter.map(|filter| Arc::new(scan.filtered(filter)) as Plan))
            }
            Role::Seek(seek) => {
                // Conditions leave at most the estimated rows. A seek that is done for each row of a loop has no
                // ranges to estimate.
                let rows = match seek.path().ranges.is_empty() {
                    true => seek.table().expected_rows(),
                    false => seek.path().rows as u64,
                };
                let filter = leaf_filter(seek.table(), seek.projection(), rows, pushed);
                let filter = filter.filter(|_| !seek.has_limit());
                Ok(filter.map(|filter| Arc::new(seek.filtered(filter)) as Plan))
            }
            Role::Join(join) => self.push_to_join(plan, join, pushed),
            Role::Outer(_) => self.push_to_outer(plan, pushed),
            Role::Union => {
                let sides: Vec<(usize, Pushed)> = (0..plan.children().len()).map(|at| (at, pushed.clone())).collect();
                self.push_to_children(plan, &sides)
            }
            Role::Locks(_) | Role::Unseen(_) => Ok(None),
            of_one_input => match of_one_input.over_input(&pushed.key) {
                Some(key) => self.push_to_children(plan, &[(0, pushed.of(key))]),
                None => Ok(None),
            },
        }
    }

    fn push_to_join(&mut self, plan: &Plan, join: Join<'_>, pushed: &Pushed) -> Result<Option<Plan>> {
        match join {
            Join::Hash(join) => self.push_through_join(plan, join, pushed),
            Join::RowLoops(loops) => self.push_through_loops(plan, loops, pushed),
            Join::Loops(join) => self.push_through_comparison(plan, join, pushed),
            Join::Ranges(join) => self.push_through_comparison(plan, join.loops(), pushed),
            Join::Lookup(_) => self.beside_outer(plan, |pusher, join| pusher.push(join, pushed)),
            Join::Cross(_) | Join::Merge(_) => Ok(None),
        }
    }

    /// The plan with filters at scans of some of its inputs; `None` if no filter reaches a scan.
    fn push_to_children(&mut self, plan: &Plan, wanted: &[(usize, Pushed)]) -> Result<Option<Plan>> {
        let mut children: Vec<Plan> = plan.children().into_iter().map(Arc::clone).collect();
        let mut is_taken = false;
        for (at, pushed) in wanted {
            if let Some(child) = self.push(&children[*at], pushed)? {
                children[*at] = child;
                is_taken = true;
            }
        }
        if !is_taken {
            return Ok(None);
        }
        over(plan, children).map(Some)
    }

    fn push_through_join(&mut self, plan: &Plan, join: &HashJoinExec, pushed: &Pushed) -> Result<Option<Plan>> {
        // With NULLs, `NOT IN` depends on whether the other side has rows at all.
        if join.null_aware {
            return Ok(None);
        }
        let Some((side, key)) = side_of(join, &pushed.key) else { return Ok(None) };
        if !shows_alone(*join.join_type(), side) {
            return Ok(None);
        }
        let (own, other) = if side == JoinSide::Left { (0, 1) } else { (1, 0) };
        let of_sides = |(left, right): &(Expr, Expr)| match side {
            JoinSide::Left => (Arc::clone(left), Arc::clone(right)),
            _ => (Arc::clone(right), Arc::clone(left)),
        };
        // If rows without a partner are in the output, a row that loses its partner becomes another row. The operators
        // between this join and the one that wants the keys must not see that.
        let needs_partners = matches!(join.join_type(), JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi);
        let mut wanted = Vec::new();
        for (mine, theirs) in join.on().iter().map(of_sides).filter(|(mine, _)| needs_partners && mine == &key) {
            let is_alike = mine.data_type(&plan.children()[own].schema())?
                == theirs.data_type(&plan.children()[other].schema())?;
            wanted.extend(is_alike.then(|| (other, pushed.of(theirs))));
        }
        wanted.push((own, pushed.of(key)));
        self.push_to_children(plan, &wanted)
    }

    /// Pushes to a side of a join without equations.
    fn push_through_comparison(
        &mut self,
        plan: &Plan,
        join: &NestedLoopJoinExec,
        pushed: &Pushed,
    ) -> Result<Option<Plan>> {
        let (left, right) = (join.left().schema(), join.right().schema());
        let (_, mut columns) = build_join_schema(&left, &right, join.join_type());
        if let Some(projection) = join.projection() {
            columns = projection.iter().map(|&place| columns[place].clone()).collect();
        }
        let Some((side, key)) = side_among(&columns, (&left, &right), &pushed.key) else { return Ok(None) };
        if !shows_alone(*join.join_type(), side) {
            return Ok(None);
        }
        self.push_to_children(plan, &[(usize::from(side == JoinSide::Right), pushed.of(key))])
    }

    /// Pushes to the outer side of loops, or into their seeks if the join outputs no row without a partner.
    fn push_through_loops(&mut self, plan: &Plan, loops: &RowLoopsExec, pushed: &Pushed) -> Result<Option<Plan>> {
        let shown = loops.shown();
        let sides = (&shown.outer.schema(), &shown.inner.schema());
        let schemas = if shown.inner_side == JoinSide::Left { (sides.1, sides.0) } else { sides };
        let Some((side, key)) = side_among(shown.columns, schemas, &pushed.key) else { return Ok(None) };
        if side != shown.inner_side {
            return self.push_to_children(plan, &[(0, pushed.of(key))]);
        }
        if shown.join_type != JoinType::Inner {
            return Ok(None);
        }
        let inner = self.push(shown.inner, &pushed.of(key))?;
        inner.map(|inner| Ok(Arc::new(loops.with_inner(inner)?) as Plan)).transpose()
    }

    /// Applies `act` to the join of an index join, and takes over the outer side if `act` has changed it.
    pub(super) fn beside_outer(
        &mut self,
        plan: &Plan,
        act: impl FnOnce(&mut Pusher, &Plan) -> Result<Option<Plan>>,
    ) -> Result<Option<Plan>> {
        let [outer, join] = plan.children()[..] else { return Ok(None) };
        self.outers.push((Arc::clone(plan), Arc::clone(outer)));
        let join = act(self, join);
        let outer = self.outers.pop();
        match (join?, outer) {
            (Some(join), Some((_, outer))) => over(plan, vec![outer, join]).map(Some),
            _ => Ok(None),
        }
    }

    /// Pushes to the outer side that a node stands for.
    fn push_to_outer(&mut self, stand_in: &Plan, pushed: &Pushed) -> Result<Option<Plan>> {
        let Some(at) = self.outers.iter().position(|(join, _)| is_outer_of(join, stand_in)) else { return Ok(None) };
        let outer = Arc::clone(&self.outers[at].1);
        let Some(outer) = self.push(&outer, pushed)? else { return Ok(None) };
        self.outers[at].1 = outer;
        Ok(Some(Arc::clone(stand_in)))
    }
}

/// Whether an operator stands for the outer side of an index join.
fn is_outer_of(join: &Plan, stand_in: &Plan) -> bool {
    matches!(role(join.as_ref()), Role::Join(Join::Lookup(join)) if join.is_outer(stand_in))
}

/// A plan over other inputs, with its properties recomputed.
pub(super) fn over(plan: &Plan, children: Vec<Plan>) -> Result<Plan> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(plan).replace_children(children, options)
}

/// The filter at a read of a table's columns `projection`, of about `rows` rows; `None` if it is not worth it or does
/// not apply.
fn leaf_filter(table: &TableRead, projection: &[usize], rows: u64, pushed: &Pushed) -> Option<LeafFilter> {
    let is_worth_it = pushed.rows.is_none_or(|of_build| of_build as u64 <= rows);
    if !is_worth_it || !table.run().uses_join_filters() {
        return None;
    }
    let column = joined_column(&pushed.key, table.table(), projection)?;
    Some(LeafFilter { filter: Arc::clone(&pushed.filter), column, key: Arc::clone(&pushed.key) })
}

/// The side of a join that has all columns of an expression over its output, and the expression over that side's
/// columns.
fn side_of(join: &HashJoinExec, key: &Expr) -> Option<(JoinSide, Expr)> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let (_, mut columns) = build_join_schema(&left, &right, join.join_type());
    if let Some(projection) = &join.projection {
        columns = projection.iter().map(|&place| columns[place].clone()).collect();
    }
    side_among(&columns, (&left, &right), key)
}

/// Like [`side_of`], with the mapping `columns` from the join's output to its sides.
fn side_among(
    columns: &[ColumnIndex],
    (left, right): (&SchemaRef, &SchemaRef),
    key: &Expr,
) -> Option<(JoinSide, Expr)> {
    let at = |output: usize| columns.get(output);
    let side = at(collect_columns(key).iter().next()?.index())?.side;
    let schema = match side {
        JoinSide::Left => left,
        JoinSide::Right => right,
        JoinSide::None => return None,
    };
    let of_side = |output| {
        at(output)
            .filter(|column| column.side == side)
            .map(|column| Arc::new(Column::new(schema.field(column.index).name(), column.index)) as Expr)
    };
    Some((side, substituted(key, &of_side)?))
}

/// Whether each output row of a join contains a row of this side: without that row, its output rows are gone too.
fn shows_alone(join_type: JoinType, side: JoinSide) -> bool {
    match join_type {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => side == JoinSide::Left,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => side == JoinSide::Right,
        JoinType::Full => false,
    }
}
