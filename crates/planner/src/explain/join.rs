//! Joins.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::logical_expr::Operator;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use hobt_access::Direction;

use super::{Mapped, Mapper, actual, column_at};
use hobt_operators::{Bound, IndexJoinExec, Join, Passing, Role, RowLoopsExec, ShownRanges, Sought, is_exchange, role};
use hobt_showplan::{Actual, CompareOp, Detail, PlanColumn, PlanExpr, PlanNode, SeekKey};

/// SQL Server's name for a kind of join.
fn logical(join: JoinType) -> &'static str {
    match join {
        JoinType::Inner => "Inner Join",
        JoinType::Left => "Left Outer Join",
        JoinType::Right => "Right Outer Join",
        JoinType::Full => "Full Outer Join",
        JoinType::LeftSemi | JoinType::LeftMark => "Left Semi Join",
        JoinType::RightSemi | JoinType::RightMark => "Right Semi Join",
        JoinType::LeftAnti => "Left Anti Semi Join",
        JoinType::RightAnti => "Right Anti Semi Join",
    }
}

/// Like [`logical`], for a join whose sides are shown swapped.
fn turned(logical: &'static str) -> &'static str {
    match logical {
        "Left Outer Join" => "Right Outer Join",
        "Right Outer Join" => "Left Outer Join",
        "Left Semi Join" => "Right Semi Join",
        "Right Semi Join" => "Left Semi Join",
        "Left Anti Semi Join" => "Right Anti Semi Join",
        "Right Anti Semi Join" => "Left Anti Semi Join",
        others => others,
    }
}

impl Mapper<'_> {
    pub(super) fn join(&self, plan: &Arc<dyn ExecutionPlan>, join: Join<'_>) -> Mapped {
        match join {
            Join::Lookup(adaptive) => return self.index_join(plan, adaptive),
            Join::RowLoops(loops) => return self.row_loops(plan, loops),
            Join::Ranges(join) => return self.range_join(plan, &join.shown()),
            Join::Hash(_) | Join::Loops(_) | Join::Cross(_) | Join::Merge(_) => {}
        }
        match plan.children()[..] {
            [left, right] => self.join_of(plan, self.map(left), self.map(right)),
            _ => self.generic(plan),
        }
    }

    fn join_of(&self, plan: &Arc<dyn ExecutionPlan>, left: Mapped, right: Mapped) -> Mapped {
        let sides = (left.columns.as_slice(), right.columns.as_slice());
        let condition = |filter: Option<&JoinFilter>| filter.map(|filter| self.join_condition(filter, sides));
        let places = |projection: Option<&[usize]>| projection.map(<[usize]>::to_vec);
        let (kind, physical, detail, predicate, projection) = match role(plan.as_ref()) {
            Role::Join(Join::Hash(join)) => {
                let build = join.on().iter().map(|(key, _)| self.column_of(key, sides.0)).collect();
                let probe = join.on().iter().map(|(_, key)| self.column_of(key, sides.1)).collect();
                let detail = Detail::HashJoin { build, probe, residual: condition(join.filter()) };
                (*join.join_type(), "Hash Match", detail, None, places(join.projection.as_deref()))
            }
            Role::Join(Join::Loops(join)) => {
                let detail = Detail::NestedLoops { outer: Vec::new() };
                let predicate = condition(join.filter());
                (*join.join_type(), "Nested Loops", detail, predicate, places(join.projection().as_deref()))
            }
            Role::Join(Join::Merge(join)) => {
                let left = join.on().iter().map(|(key, _)| self.column_of(key, sides.0)).collect();
                let right = join.on().iter().map(|(_, key)| self.column_of(key, sides.1)).collect();
                let residual = condition(join.filter().as_ref());
                (join.join_type(), "Merge Join", Detail::MergeJoin { left, right, residual }, None, None)
            }
            _ => (JoinType::Inner, "Nested Loops", Detail::NestedLoops { outer: Vec::new() }, None, None),
        };
        let columns = self.joined_columns(kind, sides);
        let children = vec![left.node, right.node];
        let mut node = self.node(plan, (physical, logical(kind)), detail, children);
        node.predicate = predicate;
        node.defined = self.bitmaps_of(plan).into_iter().map(|bitmap| (bitmap, None)).collect();
        self.mapped(node, columns).projected(projection.as_deref())
    }

    /// The bitmaps that a join makes of its build side's keys.
    fn bitmaps_of(&self, join: &Arc<dyn ExecutionPlan>) -> Vec<PlanColumn> {
        let mut side = join.children().into_iter().next();
        while let Some(plan) = side {
            side = match role(plan.as_ref()) {
                Role::Passes(Passing::Taps(tap)) => return tap.filters().map(|filter| self.bitmap(filter)).collect(),
                Role::Passes(_) => plan.children().into_iter().next(),
                _ if is_exchange(plan) => plan.children().into_iter().next(),
                _ => None,
            };
        }
        Vec::new()
    }

    fn joined_columns(&self, kind: JoinType, (left, right): (&[PlanColumn], &[PlanColumn])) -> Vec<PlanColumn> {
        let marked = |side: &[PlanColumn]| {
            let mut columns = side.to_vec();
            columns.push(self.new_column());
            columns
        };
        match kind {
            JoinType::LeftSemi | JoinType::LeftAnti => left.to_vec(),
            JoinType::RightSemi | JoinType::RightAnti => right.to_vec(),
            JoinType::LeftMark => marked(left),
            JoinType::RightMark => marked(right),
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => [left, right].concat(),
        }
    }

    /// A join's further condition, over columns of both sides.
    fn join_condition(&self, filter: &JoinFilter, (left, right): (&[PlanColumn], &[PlanColumn])) -> PlanExpr {
        let column = |at: &ColumnIndex| match at.side {
            JoinSide::Left => column_at(left, at.index),
            JoinSide::Right => column_at(right, at.index),
            JoinSide::None => PlanColumn::made("mark"),
        };
        let columns: Vec<PlanColumn> = filter.column_indices().iter().map(column).collect();
        self.expression(filter.expression(), &columns)
    }

    /// A join that seeks in its inner table if that is cheaper for the rows that come.
    fn index_join(&self, plan: &Arc<dyn ExecutionPlan>, join: &IndexJoinExec) -> Mapped {
        let shown = join.shown();
        let expected = self.expected(plan);
        let outer = self.map(shown.outer);
        let planned = self.join_over(shown.join, &outer);
        let made = if self.has_run { shown.made.as_ref() } else { None };
        let ran = made.map(|(plan, looked_up)| (self.join_over(plan, &outer), *looked_up));
        let Mapped { node: mut hash, columns } = planned;
        let position = |node: &PlanNode| node.children.iter().position(|child| child.detail != outer_detail());
        let inner_of = |node: &mut PlanNode| position(node).map(|at| node.children.remove(at));
        let is_wrong = |node: &PlanNode| !matches!(node.detail, Detail::HashJoin { .. });
        if is_wrong(&hash) || ran.as_ref().is_some_and(|(ran, _)| is_wrong(&ran.node)) {
            return Mapped { node: hash, columns };
        }
        // The outer side is shown first, whichever side of the join it is.
        let is_turned = position(&hash) == Some(0);
        let Some(mut scanned) = inner_of(&mut hash) else { return Mapped { node: hash, columns } };
        // The seeks of all outer rows count as one execution.
        let mut sought = self.sought(&shown.sought, &outer, (expected.rows, 1.0));
        sought.estimate.row_bytes = scanned.estimate.row_bytes;
        let looked_up = ran.as_ref().map(|(_, looked_up)| *looked_up);
        let mut joined = None;
        if let Some((Mapped { node: mut ran, .. }, looked_up)) = ran {
            joined = ran.actual.take();
            let inner = inner_of(&mut ran);
            let (used, idle) = if looked_up { (&mut sought, &mut scanned) } else { (&mut scanned, &mut sought) };
            did_not_run(idle);
            if let Some(inner) = inner {
                did(used, inner);
            }
        }
        let Detail::HashJoin { build, probe, residual } = std::mem::replace(&mut hash.detail, Detail::Filter) else {
            return Mapped { node: hash, columns };
        };
        let outer_keys = if is_turned { probe.clone() } else { build.clone() };
        let mut node = hash;
        node.logical = if is_turned { turned(node.logical) } else { node.logical };
        node.estimate.rows = expected.rows;
        node.estimate.row_bytes = expected.width;
        let sought_cpu = sought.all().into_iter().filter_map(|node| node.actual.as_ref()).map(Actual::cpu).sum();
        let loops = shown.loops.filter(|_| shown.is_forced);
        node.actual = joined.map(|joined| actual::of_portions(joined, loops, shown.cpu, sought_cpu, looked_up));
        node.mark = Some(shown.mark.clone());
        if shown.is_forced {
            (node.physical, node.detail) = ("Nested Loops", Detail::NestedLoops { outer: outer_keys });
            node.predicate = residual;
            node.children = vec![outer.node, sought];
        } else {
            let threshold = shown.rows_max as f64;
            node.physical = "Adaptive Join";
            node.detail = Detail::AdaptiveJoin { build, probe, outer: outer_keys, residual, threshold, looked_up };
            node.children = vec![outer.node, scanned, sought];
        }
        Mapped { node, columns }
    }

    /// A join that seeks once for each row of the outer side.
    fn row_loops(&self, plan: &Arc<dyn ExecutionPlan>, join: &RowLoopsExec) -> Mapped {
        let shown = join.shown();
        let (outer, inner) = (self.map(shown.outer), self.map(shown.inner));
        let executions = outer.node.estimate.rows.max(1.0);
        let mut sought = self.sought(&shown.sought, &outer, (self.expected(plan).rows, executions));
        sought.estimate.row_bytes = inner.node.estimate.row_bytes;
        let Mapped { node: mut inner, columns: inner_columns } = inner;
        let mut place = &mut inner;
        while !matches!(place.detail, Detail::Read { .. } | Detail::NestedLoops { .. }) && !place.children.is_empty() {
            place = &mut place.children[0];
        }
        sought.predicate = place.predicate.take();
        sought.output = std::mem::take(&mut place.output);
        sought.probes = std::mem::take(&mut place.probes);
        let profiles = shown.profiles.filter(|_| self.has_run);
        if let Some((_, seeks)) = profiles {
            let actual = actual::of_seeks(seeks);
            sought.children.iter_mut().for_each(|child| child.actual = Some(actual.clone()));
            sought.actual = Some(actual);
        }
        *place = sought;
        let column = |at: &ColumnIndex| match at.side {
            JoinSide::None => self.new_column(),
            side if side == shown.inner_side => column_at(&inner_columns, at.index),
            _ => column_at(&outer.columns, at.index),
        };
        let columns = shown.columns.iter().map(column).collect();
        let keys: Vec<PlanColumn> =
            shown.sought.keys.iter().map(|(_, _, key)| self.column_of(key, &outer.columns)).collect();
        let names = ("Nested Loops", logical(shown.join_type));
        let detail = Detail::NestedLoops { outer: super::distinct(&keys) };
        let mut node = self.node(plan, names, detail, vec![outer.node, inner]);
        let sides = match shown.inner_side {
            JoinSide::Left => (inner_columns.as_slice(), outer.columns.as_slice()),
            _ => (outer.columns.as_slice(), inner_columns.as_slice()),
        };
        node.predicate = shown.residual.map(|residual| self.join_condition(residual, sides));
        node.actual = actual::of_profile(profiles.map(|(join, _)| join));
        node.mark = Some(shown.mark.clone());
        self.mapped(node, columns)
    }

    /// A range join: one side is sorted, and each row of the other searches it.
    fn range_join(&self, plan: &Arc<dyn ExecutionPlan>, shown: &ShownRanges<'_>) -> Mapped {
        let join = shown.join;
        let (build, probe) = (self.map(join.left()), self.map(join.right()));
        let key = |bound: &Bound, op: CompareOp| SeekKey {
            column: self.column_of(&bound.key, &build.columns),
            op,
            values: vec![self.expression(&bound.value, &probe.columns)],
        };
        let seek = match shown.bounds[..] {
            // Both bounds are one value.
            [low, high] if low.key.eq(&high.key) && low.value.eq(&high.value) && low.includes && high.includes => {
                vec![key(low, CompareOp::Equal)]
            }
            _ => shown.bounds.iter().map(|bound| key(bound, compared_by(bound.operator()))).collect(),
        };
        let detail = Detail::Spool { seek };
        let rows = self.expected(plan).rows;
        let mut spool = self.node(join.left(), ("Index Spool", "Eager Spool"), detail, vec![build.node]);
        spool.output.clone_from(&build.columns);
        spool.estimate.rows = rows;
        spool.estimate.executions = probe.node.estimate.rows.max(1.0);
        spool.actual = None;
        let outer: Vec<PlanColumn> =
            shown.bounds.iter().map(|bound| self.column_of(&bound.value, &probe.columns)).collect();
        let sides = (build.columns.as_slice(), probe.columns.as_slice());
        let predicate = shown.residual.map(|residual| self.join_condition(residual, sides));
        let kind = *join.join_type();
        let columns = self.joined_columns(kind, sides);
        let detail = Detail::NestedLoops { outer: super::distinct(&outer) };
        let mut node = self.node(plan, ("Nested Loops", turned(logical(kind))), detail, vec![probe.node, spool]);
        node.predicate = predicate;
        let projection = join.projection().as_ref().map(|places| places.to_vec());
        self.mapped(node, columns).projected(projection.as_deref())
    }

    /// Maps a join whose plan contains a stand-in for the outer side.
    fn join_over(&self, plan: &Arc<dyn ExecutionPlan>, outer: &Mapped) -> Mapped {
        if stands_for_outer(plan) {
            let node = PlanNode::new("Generic", "Generic", outer_detail());
            return Mapped { node, columns: outer.columns.clone() };
        }
        match plan.children()[..] {
            [left, right] if joins_sides(plan) => {
                self.join_of(plan, self.join_over(left, outer), self.join_over(right, outer))
            }
            [input] if has_outer(plan) => self.join_over(input, outer),
            _ => self.map(plan),
        }
    }

    /// The seek for the outer side's values, with its estimated rows and executions.
    fn sought(&self, shown: &Sought<'_>, outer: &Mapped, (rows, executions): (f64, f64)) -> PlanNode {
        let key = |(column, op, expr): (PlanColumn, Operator, _)| SeekKey {
            column,
            op: compared_by(op),
            values: vec![self.expression(expr, &outer.columns)],
        };
        let name = super::changed_object(shown.table.database(), shown.table.table()).table;
        let named = |column: usize| super::table_column(&name, &shown.table.table().columns[column]);
        let keys = shown.keys.iter().map(|(column, op, expr)| key((named(*column), *op, *expr))).collect();
        let mut node =
            self.index_read(shown.table, shown.index, &shown.projection, (keys, Direction::Forward), shown.covers);
        let fill = |node: &mut PlanNode| {
            node.estimate.rows = rows;
            node.estimate.executions = executions;
        };
        fill(&mut node);
        node.children.iter_mut().for_each(fill);
        let reads = if shown.covers { &mut node } else { &mut node.children[0] };
        reads.estimate.pages = outer.node.estimate.rows.max(1.0);
        reads.mark = Some(shown.mark.clone());
        reads.estimate.rows_read = Some(rows);
        node
    }
}

/// The comparison of a seek.
fn compared_by(op: Operator) -> CompareOp {
    match op {
        Operator::Gt => CompareOp::Greater,
        Operator::GtEq => CompareOp::GreaterOrEqual,
        Operator::Lt => CompareOp::Less,
        Operator::LtEq => CompareOp::LessOrEqual,
        _ => CompareOp::Equal,
    }
}

/// Whether an operator joins two sides that do not depend on each other, without an order of its own.
fn joins_sides(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let known = role(plan.as_ref());
    matches!(known, Role::Join(Join::Hash(_) | Join::Loops(_) | Join::Merge(_) | Join::Cross(_)))
}

fn stands_for_outer(plan: &Arc<dyn ExecutionPlan>) -> bool {
    matches!(role(plan.as_ref()), Role::Outer(_) | Role::StandIn)
}

/// Whether a stand-in for the outer side is in a plan.
fn has_outer(plan: &Arc<dyn ExecutionPlan>) -> bool {
    stands_for_outer(plan) || plan.children().into_iter().any(has_outer)
}

/// The detail of the stand-in for the outer side in the tree of a join.
fn outer_detail() -> Detail {
    Detail::Generic("outer".to_owned())
}

/// Marks an operator and all below it as not run.
fn did_not_run(node: &mut PlanNode) {
    node.actual = Some(actual::none_at_all());
    node.children.iter_mut().for_each(did_not_run);
}

/// Moves the figures of an operator that ran to the planned one that represents it, and so on for those below.
fn did(planned: &mut PlanNode, ran: PlanNode) {
    planned.actual = ran.actual;
    planned.predicate = ran.predicate.or(planned.predicate.take());
    if !ran.probes.is_empty() {
        planned.probes = ran.probes;
    }
    for (planned, ran) in planned.children.iter_mut().zip(ran.children) {
        did(planned, ran);
    }
}
