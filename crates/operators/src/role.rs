//! What each operator does with rows: the one place that tells operators apart.
//!
//! Estimates, shown plans, memory grants, join filters and ordered scans ask [`role`], and match on the answer. An
//! operator that is new to plans gets its role here. The compiler then names the places that have to decide about it,
//! and until then [`without_role`] finds it in every plan that a debug build prepares.
//!
//! ```text
//!   no input     Scan  Seek  ScanAggregate  Constant  Made  WorkTable  Outer  SpoolRead  StandIn
//!   one input    Passes  Exchange  Unseen  Locks  Filter  Project  Sort  Limit  Group  Window  Unnest  Spool
//!   several      Join  Union  Recursion  Subqueries
//! ```

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::work_table::WorkTableExec;

use super::again::AgainExec;
use super::aggregate_scan::AggregateScanExec;
use super::cancel::CancelExec;
use super::columns::{is_of_all_partitions, substituted};
use super::fence::FenceExec;
use super::file_scan::FileScanExec;
use super::index_join::{IndexJoinExec, InnerExec, OuterExec, ReplayExec, RowLoopsExec};
use super::join_filter::KeyTapExec;
use super::kept::hole::Hole;
use super::lock_rows::LockRowsExec;
use super::range_join::RangeJoinExec;
use super::rank_limit::RankLimitExec;
use super::scan_exec::ScanExec;
use super::seek_exec::SeekExec;
use super::sort_input::ShortBatchesExec;
use super::spill_join::OnceStreamExec;
use super::spool::{SpoolExec, SpoolReadExec};
use super::unordered::{Hides, UnorderedExec};
use super::unseen_rows::UnseenRowsExec;

/// What an operator does with the rows of its inputs. The input of an operator with one is its first child.
#[derive(Clone, Copy, Debug)]
pub enum Role<'p> {
    /// Reads a table, or some of its partitions.
    Scan(&'p ScanExec),
    /// Reads ranges of an index.
    Seek(&'p SeekExec),
    /// Reads a table and aggregates its rows, one row a worker.
    ScanAggregate(&'p AggregateScanExec),
    /// Gives so many rows without a column.
    Constant(u64),
    /// Gives rows that are in memory, computed or read from files: a system view, `GENERATE_SERIES`, `OPENROWSET`.
    Made,
    /// Gives the rows of a recursion's last round.
    WorkTable,
    /// Stands for the outer side of an index join, which its join reads.
    Outer(&'p OuterExec),
    /// Computes rows that other places of the plan read too.
    Spool,
    /// Reads the rows of a [`Role::Spool`].
    SpoolRead(&'p SpoolReadExec),
    /// Gives rows that were read before: of the outer side of an index join, of a file of a join that spills. Or stands
    /// for the input of an operator that is kept between executions, and never runs.
    StandIn,
    /// Gives each row of its input once, unchanged.
    Passes(Passing<'p>),
    /// Moves rows between workers.
    Exchange(Exchange<'p>),
    /// Adds rows that other transactions are changing.
    Unseen(&'p UnseenRowsExec),
    /// Locks rows, reads them again, and leaves some out.
    Locks(&'p LockRowsExec),
    /// Leaves out rows.
    Filter(&'p FilterExec),
    /// Computes the columns of each row.
    Project(&'p ProjectionExec),
    /// Orders rows; keeps all of its input, or the first rows.
    Sort(&'p SortExec),
    /// Gives the rows behind `skip`, at most `fetch`.
    Limit {
        /// Rows that are left out first.
        skip: usize,
        /// Rows that are given then; `None` is all.
        fetch: Option<usize>,
    },
    /// Gives a row for each group.
    Group(&'p AggregateExec),
    /// Adds columns that depend on the rows of a partition.
    Window {
        /// The columns.
        windows: &'p [Arc<dyn WindowExpr>],
        /// Whether all rows of a partition are kept until its last.
        keeps_partition: bool,
    },
    /// Gives a row for each element of a list in a row.
    Unnest,
    /// Joins two inputs.
    Join(Join<'p>),
    /// Gives the rows of all inputs.
    Union,
    /// Gives the rows of its first input, and then those of its second for the rows of the last round, until there are
    /// none.
    Recursion,
    /// Gives the rows of its input, after it has computed values of subqueries, which are its further children.
    Subqueries(&'p ScalarSubqueryExec),
    /// Has no role yet.
    Unknown,
}

/// Why an operator stands in a plan that gives each row of its input once, unchanged.
#[derive(Clone, Copy, Debug)]
pub enum Passing<'p> {
    /// Yields to other tasks.
    Yields,
    /// Ends if the statement is cancelled.
    Cancels,
    /// Collects keys for the filters of scans.
    Taps(&'p KeyTapExec),
    /// Reads an index join's inner table, by a scan or by a seek.
    Reads(&'p InnerExec),
    /// Can be run a second time.
    Repeats,
    /// Hides the order of the rows, or what else is known of them.
    Hides(Hides),
    /// Cuts long batches.
    Shortens,
    /// Leaves out rows that a rank above will; of each partition those that come late.
    Ranks,
    /// Holds a rule back; is in no plan that runs.
    Fences,
}

/// How rows move between workers.
#[derive(Clone, Copy, Debug)]
pub enum Exchange<'p> {
    /// To as many workers as its partitioning says.
    Spread(&'p RepartitionExec),
    /// To one.
    Gather,
    /// To one, in the order of the inputs.
    Merge(&'p SortPreservingMergeExec),
}

/// A join by its method.
#[derive(Clone, Copy, Debug)]
pub enum Join<'p> {
    /// The left side is kept in a hash table.
    Hash(&'p HashJoinExec),
    /// The left side is kept, and read for each row of the right side.
    Loops(&'p NestedLoopJoinExec),
    /// As [`Join::Loops`], without a condition.
    Cross(&'p CrossJoinExec),
    /// Both sides come in order.
    Merge(&'p SortMergeJoinExec),
    /// The left side is kept in order, and each row of the right side searches it.
    Ranges(&'p RangeJoinExec),
    /// The first child is the outer side. The second joins a [`Role::Outer`] for it with the inner table, of which it
    /// looks up few rows or reads all.
    Lookup(&'p IndexJoinExec),
    /// The child is the outer side; the inner side is sought in for each of its rows.
    RowLoops(&'p RowLoopsExec),
}

/// What an operator does.
pub fn role(plan: &dyn ExecutionPlan) -> Role<'_> {
    let of_table = reads_table(plan);
    of_table.or_else(|| of_one_input(plan)).or_else(|| join(plan).map(Role::Join)).unwrap_or_else(|| other(plan))
}

fn reads_table(plan: &dyn ExecutionPlan) -> Option<Role<'_>> {
    let scan = plan.downcast_ref().map(Role::Scan);
    scan.or_else(|| plan.downcast_ref().map(Role::Seek)).or_else(|| plan.downcast_ref().map(Role::ScanAggregate))
}

fn of_one_input(plan: &dyn ExecutionPlan) -> Option<Role<'_>> {
    let by_row = plan.downcast_ref().map(Role::Project).or_else(|| plan.downcast_ref().map(Role::Filter));
    let known = by_row
        .or_else(|| passing(plan).map(Role::Passes))
        .or_else(|| exchange(plan).map(Role::Exchange))
        .or_else(|| plan.downcast_ref().map(Role::Sort))
        .or_else(|| plan.downcast_ref().map(Role::Group))
        .or_else(|| plan.downcast_ref().map(Role::Locks))
        .or_else(|| plan.downcast_ref().map(Role::Unseen));
    if known.is_some() {
        return known;
    }
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return Some(Role::Limit { skip: limit.skip(), fetch: limit.fetch() });
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return Some(Role::Limit { skip: 0, fetch: Some(limit.fetch()) });
    }
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return Some(Role::Window { windows: window.window_expr(), keeps_partition: true });
    }
    let window = plan.downcast_ref::<BoundedWindowAggExec>()?;
    Some(Role::Window { windows: window.window_expr(), keeps_partition: false })
}

fn passing(plan: &dyn ExecutionPlan) -> Option<Passing<'_>> {
    if let Some(tap) = plan.downcast_ref() {
        return Some(Passing::Taps(tap));
    }
    if let Some(inner) = plan.downcast_ref() {
        return Some(Passing::Reads(inner));
    }
    if let Some(hiding) = plan.downcast_ref::<UnorderedExec>() {
        return Some(Passing::Hides(hiding.hides()));
    }
    let tests = [
        (plan.is::<CooperativeExec>(), Passing::Yields),
        (plan.is::<CancelExec>(), Passing::Cancels),
        (plan.is::<AgainExec>(), Passing::Repeats),
        (plan.is::<ShortBatchesExec>(), Passing::Shortens),
        (plan.is::<RankLimitExec>(), Passing::Ranks),
        (plan.is::<FenceExec>(), Passing::Fences),
    ];
    tests.into_iter().find_map(|(is_it, passing)| is_it.then_some(passing))
}

fn exchange(plan: &dyn ExecutionPlan) -> Option<Exchange<'_>> {
    let spread = plan.downcast_ref().map(Exchange::Spread);
    let merge = spread.or_else(|| plan.downcast_ref().map(Exchange::Merge));
    merge.or_else(|| plan.is::<CoalescePartitionsExec>().then_some(Exchange::Gather))
}

fn join(plan: &dyn ExecutionPlan) -> Option<Join<'_>> {
    let equal = plan.downcast_ref().map(Join::Hash).or_else(|| plan.downcast_ref().map(Join::Merge));
    let looked_up =
        equal.or_else(|| plan.downcast_ref().map(Join::Lookup)).or_else(|| plan.downcast_ref().map(Join::RowLoops));
    looked_up
        .or_else(|| plan.downcast_ref().map(Join::Ranges))
        .or_else(|| plan.downcast_ref().map(Join::Loops))
        .or_else(|| plan.downcast_ref().map(Join::Cross))
}

fn other(plan: &dyn ExecutionPlan) -> Role<'_> {
    let known = plan.downcast_ref().map(Role::Subqueries).or_else(|| plan.downcast_ref().map(Role::Outer));
    let known = known.or_else(|| plan.downcast_ref().map(Role::SpoolRead));
    let tests = [
        (plan.is::<SpoolExec>(), Role::Spool),
        (plan.is::<PlaceholderRowExec>(), Role::Constant(1)),
        (plan.is::<EmptyExec>(), Role::Constant(0)),
        (plan.is::<UnionExec>() || plan.is::<InterleaveExec>(), Role::Union),
        (plan.is::<ReplayExec>() || plan.is::<OnceStreamExec>() || plan.is::<Hole>(), Role::StandIn),
        (plan.is::<UnnestExec>(), Role::Unnest),
        (plan.is::<RecursiveQueryExec>(), Role::Recursion),
        (plan.is::<WorkTableExec>(), Role::WorkTable),
        // `DataSourceExec` is of a crate that hobt does not name.
        (plan.is::<LazyMemoryExec>() || plan.is::<FileScanExec>() || plan.name() == "DataSourceExec", Role::Made),
    ];
    known.or_else(|| tests.into_iter().find_map(|(is_it, role)| is_it.then_some(role))).unwrap_or(Role::Unknown)
}

/// The name of an operator in a plan that has no role, if there is one.
pub fn without_role(plan: &Arc<dyn ExecutionPlan>) -> Option<&str> {
    match role(plan.as_ref()) {
        Role::Unknown => Some(plan.name()),
        _ => plan.children().into_iter().find_map(without_role),
    }
}

impl Role<'_> {
    /// Whether an operator holds rows, which it spills if memory is short, or shares with one that does.
    pub fn holds_rows(&self) -> bool {
        match self {
            Role::Sort(_) | Role::Group(_) => true,
            Role::Join(join) => !matches!(join, Join::Lookup(_) | Join::RowLoops(_)),
            Role::Window { keeps_partition, .. } => *keeps_partition,
            Role::Scan(_) | Role::Seek(_) | Role::ScanAggregate(_) => false,
            Role::Constant(_) | Role::Made | Role::WorkTable | Role::Outer(_) | Role::StandIn => false,
            Role::Passes(_) | Role::Exchange(_) | Role::Unseen(_) | Role::Locks(_) => false,
            // The statement holds them.
            Role::Spool | Role::SpoolRead(_) => false,
            Role::Filter(_) | Role::Project(_) | Role::Limit { .. } => false,
            Role::Unnest | Role::Union | Role::Recursion | Role::Subqueries(_) | Role::Unknown => false,
        }
    }

    /// An expression over the rows of an operator with one input as one over its input's rows. `None` if rows of the
    /// input must not be told apart by it: if the operator joins, skips, or mixes rows of different values. Whether it
    /// has a limit (`fetch`) is the caller's to ask.
    pub fn over_input(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
        let unchanged = || Some(Arc::clone(expr));
        match self {
            Role::Passes(Passing::Yields | Passing::Hides(_) | Passing::Taps(_) | Passing::Reads(_)) => unchanged(),
            Role::Unseen(_) => unchanged(),
            Role::Exchange(_) | Role::Sort(_) => unchanged(),
            Role::Project(projection) => {
                substituted(expr, &|at| projection.expr().get(at).map(|item| Arc::clone(&item.expr)))
            }
            Role::Filter(filter) => match filter.projection() {
                Some(places) => at_places(expr, places, &filter.input().schema()),
                None => unchanged(),
            },
            Role::Locks(locks) if !locks.has_limit() => {
                let input = locks.children().first().map(|input| input.schema())?;
                at_places(expr, locks.output(), &input)
            }
            Role::Group(aggregate) => {
                let groups = aggregate.group_expr();
                if groups.has_grouping_set() || aggregate.limit_options().is_some() {
                    return None;
                }
                substituted(expr, &|at| groups.expr().get(at).map(|(expr, _)| Arc::clone(expr)))
            }
            Role::Window { windows, .. } => is_of_all_partitions(expr, windows).then(unchanged)?,
            Role::Scan(_) | Role::Seek(_) | Role::ScanAggregate(_) | Role::Constant(_) => None,
            Role::Made | Role::WorkTable | Role::Outer(_) | Role::StandIn => None,
            Role::Passes(_) | Role::Locks(_) => None,
            // Others read the rows too.
            Role::Spool | Role::SpoolRead(_) => None,
            Role::Limit { .. } | Role::Unnest | Role::Join(_) | Role::Union | Role::Recursion => None,
            Role::Subqueries(_) | Role::Unknown => None,
        }
    }
}

/// An expression over some columns of `input`, which stand at `places` there.
fn at_places(expr: &Arc<dyn PhysicalExpr>, places: &[usize], input: &SchemaRef) -> Option<Arc<dyn PhysicalExpr>> {
    let column = |at: &usize| Arc::new(Column::new(input.field(*at).name(), *at)) as Arc<dyn PhysicalExpr>;
    substituted(expr, &|at| places.get(at).map(column))
}

/// Whether an operator without a limit only spreads or gathers rows, in no order.
pub fn is_exchange(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let moves = matches!(
        role(plan.as_ref()),
        Role::Exchange(Exchange::Spread(_) | Exchange::Gather) | Role::Passes(Passing::Yields)
    );
    moves && plan.fetch().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use arrow::datatypes::Schema;
    use datafusion::physical_plan::explain::ExplainExec;

    /// The operators that the files of a folder define, but for those that answer type tests as another operator.
    fn operators_in(folder: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("the crate's sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                operators_in(&path, found);
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("a source file");
            for part in source.split("\nimpl ExecutionPlan for ").skip(1) {
                let (name, body) = part.split_once(" {").expect("a body");
                let body = body.split("\n}\n").next().unwrap_or_default();
                if !body.contains("stands_for!") && !body.contains("fn downcast_delegate") {
                    found.push(name.to_owned());
                }
            }
        }
    }

    #[test]
    fn each_operator_of_this_crate_has_a_role() {
        let mut found = Vec::new();
        operators_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        assert!(found.len() > 10, "{found:?}");
        let table = include_str!("role.rs");
        let table = table.split("#[cfg(test)]").next().unwrap_or_default();
        for operator in found {
            let is_named = table.contains(&format!("::<{operator}>")) || table.contains(&format!("&'p {operator}"));
            assert!(is_named, "{operator} has no role");
        }
    }

    #[test]
    fn an_operator_without_a_role_is_found_anywhere_in_a_plan() {
        let schema = Arc::new(Schema::empty());
        let unknown: Arc<dyn ExecutionPlan> = Arc::new(ExplainExec::new(Arc::clone(&schema), Vec::new(), false));
        let above: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(unknown));
        assert_eq!(without_role(&above), Some("ExplainExec"));
        assert_eq!(without_role(&(Arc::new(EmptyExec::new(schema)) as Arc<dyn ExecutionPlan>)), None);
    }
}
