//! Parts of a plan that are there twice are computed once: a view or a common table expression that a query names
//! twice, a subquery over what its outer query reads.
//!
//! ```text
//!   Join                                 Join
//!     Filter                               Filter
//!       Aggregate ─ …t                       Spool ─ Aggregate ─ … t
//!     MAX                          ►       MAX
//!       Aggregate ─ … t                      SpoolRead
//! ```
//! Copies are looked for when all other rules have run. Where these have made a copy cheaper than the others, by a
//! lookup for a few rows or the keys of a join, it differs, and is computed for itself.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateOutputMode};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use hobt_operators::{
    Alike, HeldBatches, Join, JoinFilter, KeyTapExec, Passing, Role, ScanExec, SeekExec, SpoolExec, SpoolReadExec, role,
};
use hobt_table::{StatementRun, TableRead};

use crate::expected::Expectations;
use crate::rewrite::rewritten;

type Plan = Arc<dyn ExecutionPlan>;

/// Trace flag 30005: each part is computed wherever it is needed.
const NEVER_HOLD: i32 = 30_005;
/// Trace flag 30006: parts that are there twice are computed once, however many rows they read and give.
const ALWAYS_HOLD: i32 = 30_006;

/// Parts that read fewer rows cost less than the tasks that hold them.
const READ_MIN: f64 = 10_000.0;
/// Rows that may have to be held on disk must be so many times fewer than those that are read.
const FEWER: f64 = 8.0;

/// Computes copies once. It runs after all other rules.
#[derive(Debug, Default)]
pub(crate) struct SpoolRule;

impl PhysicalOptimizerRule for SpoolRule {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let mut tables = Vec::new();
        let Some(table) = read_twice(&plan, &mut tables).filter(|table| !table.run().has_trace_flag(NEVER_HOLD)) else {
            return Ok(plan);
        };
        let expected = Expectations::default();
        let copies = copies_of(&plan, table.run(), &expected);
        if copies.is_empty() { Ok(plan) } else { with_spools(&plan, &copies, &expected) }
    }

    crate::named_rule!("hobt_spools");
}

/// The table that a leaf reads.
fn read_by(leaf: &Plan) -> Option<&Arc<TableRead>> {
    match role(leaf.as_ref()) {
        Role::Scan(scan) => Some(scan.table()),
        Role::Seek(seek) => Some(seek.table()),
        Role::ScanAggregate(aggregate) => {
            let mut scan = aggregate.input();
            while let Some(below) = scan.children().first() {
                scan = below;
            }
            scan.downcast_ref::<ScanExec>().map(ScanExec::table)
        }
        _ => None,
    }
}

/// How many rows a leaf reads, about.
fn rows_read(leaf: &Plan) -> f64 {
    match role(leaf.as_ref()) {
        Role::Scan(scan) => scan.table().rows_read_of(scan.partitions()).unwrap_or(0.0),
        Role::Seek(seek) => seek.path().rows,
        _ => read_by(leaf).map_or(0.0, |table| table.expected_rows() as f64),
    }
}

/// The first table that two leaves read alike.
fn read_twice<'p>(plan: &'p Plan, tables: &mut Vec<&'p Arc<TableRead>>) -> Option<&'p Arc<TableRead>> {
    if let Some(table) = read_by(plan) {
        if tables.iter().any(|known| known.reads_as(table)) {
            return Some(table);
        }
        tables.push(table);
    }
    plan.children().into_iter().find_map(|below| read_twice(below, tables))
}

/// A part of a plan that could be computed once.
struct Part<'p> {
    plan: &'p Plan,
    /// Its place in the order in which operators come before their inputs, and how many operators it has.
    at: usize,
    operators: usize,
    /// How many rows are in the tables that it reads.
    read: f64,
    leaves: usize,
}

impl Part<'_> {
    /// Whether one of two parts is in the other.
    fn meets(&self, other: &Part<'_>) -> bool {
        let has = |a: &Part<'_>, b: &Part<'_>| (a.at..a.at + a.operators).contains(&b.at);
        has(self, other) || has(other, self)
    }
}

/// The parts of which all rows are read, larger ones before those that are in them.
#[derive(Default)]
struct Parts<'p> {
    parts: Vec<Part<'p>>,
    operators: usize,
}

impl<'p> Parts<'p> {
    /// Adds the parts of `plan`. `is_whole`: all of its rows are read, whatever they are. Returns how many rows are in
    /// the tables that it reads, and how many leaves.
    fn add(&mut self, plan: &'p Plan, is_whole: bool) -> (f64, usize) {
        let at = self.operators;
        self.operators += 1;
        if read_by(plan).is_some() {
            return (rows_read(plan), 1);
        }
        let role = role(plan.as_ref());
        let is_part = is_made_of_all(&role) || (is_whole && (is_final(&role) || matches!(role, Role::Join(_))));
        let place = self.parts.len();
        if is_part {
            self.parts.push(Part { plan, at, operators: 0, read: 0.0, leaves: 0 });
        }
        let (mut read, mut leaves) = (0.0, 0);
        for (input, below) in plan.children().into_iter().enumerate() {
            // Run for one round, or one portion of rows, after the other.
            if input > 0 && matches!(role, Role::Recursion | Role::Join(Join::Lookup(_))) {
                continue;
            }
            let of_input = self.add(below, reads_all(plan, &role, input, is_whole));
            read += of_input.0;
            leaves += of_input.1;
        }
        if is_part {
            let operators = self.operators - at;
            self.parts[place] = Part { operators, read, leaves, ..self.parts[place] };
        }
        (read, leaves)
    }
}

/// Whether an operator gives groups that are complete, and all of them.
fn is_final(role: &Role<'_>) -> bool {
    let is_it = |group: &AggregateExec| group.mode().output_mode() == AggregateOutputMode::Final;
    matches!(role, Role::Group(group) if is_it(group) && group.limit_options().is_none())
}

/// Whether it does so after it has read all of its input.
fn is_made_of_all(role: &Role<'_>) -> bool {
    is_final(role) && matches!(role, Role::Group(group) if *group.input_order_mode() == InputOrderMode::Linear)
}

/// Whether an operator reads all rows of an input. `is_whole`: all of its own are read.
fn reads_all(plan: &Plan, role: &Role<'_>, input: usize, is_whole: bool) -> bool {
    match role {
        Role::Limit { fetch: Some(_), .. } => false,
        Role::Sort(_) | Role::Spool => true,
        Role::Group(group) if *group.input_order_mode() == InputOrderMode::Linear => group.limit_options().is_none(),
        Role::Join(Join::Hash(_) | Join::Loops(_) | Join::Cross(_) | Join::Ranges(_)) if input == 0 => true,
        Role::Subqueries(_) if input > 0 => true,
        _ => is_whole && plan.fetch().is_none(),
    }
}

/// Parts that give the same rows, and the filters of joins that they do without.
struct Copies<'p> {
    parts: Vec<&'p Plan>,
    without: Vec<Arc<JoinFilter>>,
}

/// The largest parts that are there several times and are worth to be held.
fn copies_of<'p>(plan: &'p Plan, run: &StatementRun, expected: &Expectations) -> Vec<Copies<'p>> {
    let mut parts = Parts::default();
    parts.add(plan, true);
    let parts = parts.parts;
    let mut all = Vec::new();
    let mut taken: Vec<&Part<'_>> = Vec::new();
    for (place, first) in parts.iter().enumerate() {
        if taken.iter().any(|known| known.meets(first)) {
            continue;
        }
        let mut copies = Copies { parts: vec![first.plan], without: Vec::new() };
        let mut others = Vec::new();
        for other in &parts[place + 1..] {
            let is_free = !first.meets(other) && !taken.iter().any(|known| known.meets(other));
            if !is_free || other.operators != first.operators || other.leaves != first.leaves || first.leaves == 0 {
                continue;
            }
            let Some(alike) = Alike::of(first.plan, other.plan) else { continue };
            if alike.outer_filters().iter().all(|filter| is_of(filter, plan, &[first.plan, other.plan])) {
                copies.parts.push(other.plan);
                copies.without.extend(alike.outer_filters().iter().cloned());
                others.push(other);
            }
        }
        if others.is_empty() || !(run.has_trace_flag(ALWAYS_HOLD) || is_worth(first, run, expected)) {
            continue;
        }
        taken.push(first);
        taken.extend(others);
        all.push(copies);
    }
    all
}

/// Whether the keys of a filter are those of one of `parts`, which a join outside reads as they are.
fn is_of(filter: &Arc<JoinFilter>, plan: &Plan, parts: &[&Plan]) -> bool {
    let is_tapped = plan.exists(|node| {
        let tap = node.downcast_ref::<KeyTapExec>();
        let is_its = tap.is_some_and(|tap| tap.filters().any(|known| Arc::ptr_eq(known, filter)));
        Ok(is_its && node.children().first().is_some_and(|below| is_passed(below, parts)))
    });
    is_tapped.unwrap_or(false)
}

/// Whether `plan` gives the rows of one of `parts`.
fn is_passed(plan: &Plan, parts: &[&Plan]) -> bool {
    let role = role(plan.as_ref());
    let passes = matches!(role, Role::Passes(Passing::Yields | Passing::Hides(_) | Passing::Taps(_)))
        || matches!(role, Role::Exchange(_) | Role::Project(_));
    parts.iter().any(|part| Arc::ptr_eq(part, plan))
        || (passes && plan.fetch().is_none() && plan.children().first().is_some_and(|below| is_passed(below, parts)))
}

/// Whether it costs less to hold the rows of a part than to compute them again.
fn is_worth(part: &Part<'_>, run: &StatementRun, expected: &Expectations) -> bool {
    let given = expected.of(part.plan);
    let fits = || given.rows * given.width <= HeldBatches::memory_share(run) as f64;
    part.read >= READ_MIN && (given.rows * FEWER <= part.read || (given.rows <= part.read && fits()))
}

/// The plan with a spool in place of the first part of each group, and its readers in place of the others.
fn with_spools(plan: &Plan, all: &[Copies<'_>], expected: &Expectations) -> Result<Plan> {
    let place = |node: &Plan| {
        let of = |copies: &Copies<'_>| copies.parts.iter().position(|part| Arc::ptr_eq(part, node));
        all.iter().enumerate().find_map(|(number, copies)| Some((number, copies, of(copies)?)))
    };
    let replaced = Arc::clone(plan).transform_down(|node| {
        let Some((number, copies, copy)) = place(&node) else { return Ok(Transformed::no(node)) };
        let made: Plan = if copy == 0 {
            Arc::new(SpoolExec::new(without(node, &copies.without)?, number))
        } else {
            Arc::new(SpoolReadExec::new(number, node.properties(), expected.of(&node)))
        };
        Ok(Transformed::new(made, true, TreeNodeRecursion::Jump))
    });
    let dropped: Vec<_> = all.iter().flat_map(|copies| copies.without.iter().cloned()).collect();
    untapped(replaced.data()?, dropped)
}

/// The plan without the operators that collect keys for filters, of those in `dropped`, that no leaf has any more.
fn untapped(plan: Plan, mut dropped: Vec<Arc<JoinFilter>>) -> Result<Plan> {
    plan.apply(|leaf| {
        let filters = match role(leaf.as_ref()) {
            Role::Scan(scan) => scan.filters(),
            Role::Seek(seek) => seek.filters(),
            _ => &[],
        };
        dropped.retain(|known| !filters.iter().any(|used| Arc::ptr_eq(known, &used.filter)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if dropped.is_empty() {
        return Ok(plan);
    }
    rewritten(plan, |node| Ok(node.downcast_ref::<KeyTapExec>().map(|tap| tap.without(&dropped))))
}

/// A plan whose leaves are without some filters of joins.
fn without(plan: Plan, filters: &[Arc<JoinFilter>]) -> Result<Plan> {
    if filters.is_empty() {
        return Ok(plan);
    }
    let bare = plan.transform_up(|leaf| {
        if let Some(scan) = leaf.downcast_ref::<ScanExec>() {
            return Ok(Transformed::yes(Arc::new(scan.without(filters)) as Plan));
        }
        Ok(match leaf.downcast_ref::<SeekExec>() {
            Some(seek) => Transformed::yes(Arc::new(seek.without(filters)) as Plan),
            None => Transformed::no(leaf),
        })
    });
    bare.data()
}
