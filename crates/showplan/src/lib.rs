//! The model of a plan that users see: operators by SQL Server's names, their estimates and their run-time figures.
//!
//! ```text
//!   planner's explain ── ShownStatement ─┬─ text     SHOWPLAN_TEXT, SHOWPLAN_ALL, STATISTICS PROFILE
//!                         PlanNode       ├─ xml      SHOWPLAN_XML, STATISTICS XML, sys.dm_exec_query_plan
//!                         PlanExpr       └─ draw     a tree in a terminal
//! ```
//! Every format is printed from this one model. It does not depend on an executor, and holds nothing of a statement: no
//! table, no lock, and only its own memory.
//!
//! Leaves to others: the mapping from the executor's operators (`planner`), when a plan is shown
//! (`interpreter`), HTML (crate `cli`).

mod cost;
mod draw;
mod expression;
mod mark;
mod memory;
mod statement;
mod text;
mod worst;
mod xml;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hobt_access::scan::WorkerReads;

pub use draw::{Drawing, count, counted, draw, memory_text, ms, removed};
pub use expression::{CompareOp, PlanColumn, PlanExpr, TableName};
pub use mark::NodeMark;
pub use memory::MemoryShown;
pub use statement::{Body, Figures, Fnv, ShownStatement, StatisticsCost, StatisticsRead};
pub use text::{PlanRow, argument, plan_rows};
pub use worst::{Judged, error_of, judge, worst_estimate};
pub use xml::{NAMESPACE, to_xml};

/// An operator of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanNode {
    /// Its number in the statement, from 0. An operator is numbered before those below it.
    pub id: usize,
    /// The method: `Hash Match`.
    pub physical: &'static str,
    /// The operation: `Inner Join`.
    pub logical: &'static str,
    /// Properties of this kind of operator.
    pub detail: Detail,
    /// The table or index that it reads or changes.
    pub object: Option<PlanObject>,
    /// The condition on the rows that it gives, beside those of a seek.
    pub predicate: Option<PlanExpr>,
    /// The filters of joins above on its rows, as far as it applies them: `PROBE(a join's bitmap, a column)`.
    pub probes: Vec<PlanExpr>,
    /// Values that it makes, with their expressions; `None` for columns of its table.
    pub defined: Vec<(PlanColumn, Option<PlanExpr>)>,
    /// The columns that it gives.
    pub output: Vec<PlanColumn>,
    /// Whether it runs on more than one worker.
    pub is_parallel: bool,
    /// Its estimate.
    pub estimate: Estimate,
    /// Its run-time figures; `None` if it has not run.
    pub actual: Option<Actual>,
    /// The operators whose rows it takes.
    pub children: Vec<PlanNode>,
    /// The mark that gets its number, if the operator has counters.
    pub mark: Option<NodeMark>,
}

/// An operator's estimate.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Estimate {
    /// Rows that it gives in all its executions.
    pub rows: f64,
    /// For an operator that reads a table: rows that it reads to find them.
    pub rows_read: Option<f64>,
    /// Rows of its table.
    pub table_rows: Option<f64>,
    /// Pages that it reads.
    pub pages: f64,
    /// Bytes per row that it gives.
    pub row_bytes: f64,
    /// How often it is executed.
    pub executions: f64,
    /// Cost of its reads, of its work, and of its whole subtree; in SQL Server's unit.
    pub io: f64,
    /// See `io`.
    pub cpu: f64,
    /// See `io`.
    pub subtree: f64,
}

/// An operator's run-time figures.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Actual {
    /// By worker. A single worker is worker 0; several are numbered from 1.
    pub workers: Vec<WorkerActual>,
    /// How often it wrote held rows to disk because memory was short.
    pub spills: u64,
    /// Bytes written so.
    pub spilled_bytes: u64,
    /// How many workers did so.
    pub spilled_workers: u64,
    /// How often rows were repartitioned to disk before they fitted: 1 if once was enough.
    pub spill_level: u64,
    /// Of the rows of pages that were read: how many the filters of joins above left out, and how many they let pass.
    pub filtered: u64,
    /// See `filtered`.
    pub passed: u64,
    /// About how many rows were on pages that were not read because of these filters.
    pub skipped: u64,
}

/// The run-time figures of one worker of an operator.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WorkerActual {
    /// Its number.
    pub worker: usize,
    /// Rows given.
    pub rows: u64,
    /// Rows read to find them, if the number differs.
    pub rows_read: Option<u64>,
    /// Rows that went into an aggregate on their page, and no further.
    pub rows_aggregated: Option<u64>,
    /// Batches given, if they are counted.
    pub batches: Option<u64>,
    /// How often it was executed.
    pub executions: u64,
    /// Processor time.
    pub cpu: Duration,
    /// From its first work to its last, if that is measured.
    pub elapsed: Option<Duration>,
    /// Pages read, if they are counted for the worker.
    pub reads: Option<WorkerReads>,
}

impl Estimate {
    /// Rows that it gives in each execution.
    pub fn rows_at_once(&self) -> f64 {
        self.rows / self.executions.max(1.0)
    }
}

impl Actual {
    /// Rows that all workers gave.
    pub fn rows(&self) -> u64 {
        self.workers.iter().map(|worker| worker.rows).sum()
    }

    /// Rows that all workers read; where that is not counted, the rows that they gave.
    pub fn rows_read(&self) -> u64 {
        self.workers.iter().map(|worker| worker.rows_read.unwrap_or(worker.rows)).sum()
    }

    /// How often it was executed in all; each worker of a parallel operator counts.
    pub fn executions(&self) -> u64 {
        self.workers.iter().map(|worker| worker.executions).sum()
    }

    /// Processor time of all workers.
    pub fn cpu(&self) -> Duration {
        self.workers.iter().map(|worker| worker.cpu).sum()
    }

    /// Pages accessed and pages read from disk, if they are counted.
    pub fn reads(&self) -> Option<(u64, u64)> {
        let reads = self.workers.iter().filter_map(|worker| worker.reads);
        reads.map(|reads| (reads.logical, reads.physical + reads.read_ahead)).reduce(|a, b| (a.0 + b.0, a.1 + b.1))
    }
}

/// A table or one of its indexes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanObject {
    /// The table.
    pub table: Arc<TableName>,
    /// The index; `None` for a heap.
    pub index: Option<String>,
    /// Whether the index is the clustered one.
    pub is_clustered: bool,
}

/// `[db].[schema].[table].[index]`.
impl fmt::Display for PlanObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.table)?;
        match &self.index {
            Some(index) => write!(f, ".{}", bracketed(index)),
            None => Ok(()),
        }
    }
}

/// A name in brackets.
pub(crate) fn bracketed(name: &str) -> String {
    format!("[{}]", name.replace(']', "]]"))
}

/// A column of an order.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderColumn {
    /// The column.
    pub column: PlanColumn,
    /// Whether the order is ascending.
    pub is_ascending: bool,
}

/// A seek's comparison with a column of its index.
#[derive(Clone, PartialEq, Debug)]
pub struct SeekKey {
    /// The column.
    pub column: PlanColumn,
    /// How it is compared.
    pub op: CompareOp,
    /// The values that it is compared with. If there are several, it may equal any of them.
    pub values: Vec<PlanExpr>,
}

/// How an exchange distributes rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exchange {
    /// By the hash of columns.
    Hash,
    /// Round robin.
    RoundRobin,
    /// By ranges of columns.
    Range,
    /// To one worker.
    Gather,
}

/// Properties of the kinds of operators.
#[derive(Clone, PartialEq, Debug)]
pub enum Detail {
    /// Reads a table or index.
    Read {
        /// The comparisons of a seek; empty for a scan.
        seek: Vec<SeekKey>,
        /// Whether rows come in the order of the index.
        is_ordered: bool,
        /// Whether the index is read backward.
        is_backward: bool,
        /// Whether each index entry is followed to the table's row.
        looks_up: bool,
        /// For a partitioned table: how many partitions are read, and how many there are.
        partitions: Option<(usize, usize)>,
    },
    /// Joins by hashing.
    HashJoin {
        /// The keys of the side that is hashed first.
        build: Vec<PlanColumn>,
        /// The keys of the other side.
        probe: Vec<PlanColumn>,
        /// Further conditions on joined rows.
        residual: Option<PlanExpr>,
    },
    /// Looks up its second input if that is cheaper, and otherwise hashes the first. Children: the outer side, the
    /// input for hashing, the input for lookups.
    AdaptiveJoin {
        /// The keys of the side that is hashed first, if it hashes.
        build: Vec<PlanColumn>,
        /// The keys of the other side.
        probe: Vec<PlanColumn>,
        /// The keys of the outer side.
        outer: Vec<PlanColumn>,
        /// Further conditions on joined rows.
        residual: Option<PlanExpr>,
        /// The most rows of the outer side for which it does lookups.
        threshold: f64,
        /// Whether it did lookups; `None` before it has run.
        looked_up: Option<bool>,
    },
    /// Compares every pair, or seeks for each row of the first input.
    NestedLoops {
        /// The columns that the second input takes from the first.
        outer: Vec<PlanColumn>,
    },
    /// Joins ordered inputs.
    MergeJoin {
        /// The keys of the first input.
        left: Vec<PlanColumn>,
        /// The keys of the second input.
        right: Vec<PlanColumn>,
        /// Further conditions on joined rows.
        residual: Option<PlanExpr>,
    },
    /// Aggregates by hashing.
    HashAggregate {
        /// The groups' columns.
        groups: Vec<PlanColumn>,
    },
    /// Aggregates ordered input, or all rows as one group.
    StreamAggregate {
        /// The groups' columns.
        groups: Vec<PlanColumn>,
    },
    /// Sorts.
    Sort {
        /// The sort keys.
        by: Vec<OrderColumn>,
        /// How many of the first rows are wanted.
        top: Option<u64>,
    },
    /// Gives the first rows.
    Top {
        /// How many; `None` for all after the offset.
        rows: Option<u64>,
        /// How many are skipped first.
        offset: u64,
    },
    /// Moves rows to other workers.
    Parallelism {
        /// The method.
        exchange: Exchange,
        /// The columns by which rows are distributed.
        keys: Vec<PlanColumn>,
        /// The order that is kept.
        by: Vec<OrderColumn>,
    },
    /// Computes over windows.
    Window {
        /// The columns that define a partition.
        partition: Vec<PlanColumn>,
    },
    /// Changes rows, in the table and in the indexes affected.
    Change {
        /// The indexes beside the base index.
        indexes: Vec<PlanObject>,
    },
    /// Gives constant rows.
    ConstantScan {
        /// How many.
        rows: u64,
    },
    /// A function or view that produces rows.
    TableFunction,
    /// Keeps only rows that fulfil its predicate.
    Filter,
    /// Computes values.
    ComputeScalar,
    /// Gives one input after the other.
    Concatenation,
    /// Keeps rows that are read repeatedly.
    Spool {
        /// The comparisons of a search in them; empty if all are read.
        seek: Vec<SeekKey>,
    },
    /// Runs several inputs, of which the last gives the rows.
    Sequence,
    /// An operator of the executor without a SQL Server name.
    Generic(String),
}

impl PlanNode {
    /// An operator without further properties.
    pub fn new(physical: &'static str, logical: &'static str, detail: Detail) -> PlanNode {
        PlanNode {
            id: 0,
            physical,
            logical,
            detail,
            object: None,
            predicate: None,
            probes: Vec::new(),
            defined: Vec::new(),
            output: Vec::new(),
            is_parallel: false,
            estimate: Estimate { executions: 1.0, ..Estimate::default() },
            actual: None,
            children: Vec::new(),
            mark: None,
        }
    }

    /// The condition on its rows, including the filters of joins above.
    pub fn condition(&self) -> Option<PlanExpr> {
        let own = match &self.predicate {
            Some(PlanExpr::Logical { all: true, operands }) => operands.clone(),
            own => own.iter().cloned().collect(),
        };
        PlanExpr::conjunction(own.into_iter().chain(self.probes.iter().cloned()).collect())
    }

    /// This operator and all below it; an operator comes before those below it.
    pub fn all(&self) -> Vec<&PlanNode> {
        let mut all = Vec::new();
        let mut open = vec![self];
        while let Some(node) = open.pop() {
            all.push(node);
            open.extend(node.children.iter().rev());
        }
        all
    }

    /// Numbers the operators, and computes their costs. Called on the root when the tree is complete.
    pub fn finish(&mut self) {
        self.number();
        cost::price(self);
    }

    /// Numbers the operators, and tells their marks. Called on the root when the tree is complete.
    pub fn number(&mut self) {
        self.number_from(&mut 0);
    }

    fn number_from(&mut self, next: &mut usize) {
        self.id = *next;
        *next += 1;
        if let Some(mark) = &self.mark {
            mark.tell(self.id, (self.estimate.rows, self.estimate.rows_read));
        }
        self.children.iter_mut().for_each(|child| child.number_from(next));
    }

    /// Whether an adaptive join was estimated to do lookups; `None` for other operators.
    pub fn is_thought_to_look_up(&self) -> Option<bool> {
        match (&self.detail, self.children.first()) {
            (Detail::AdaptiveJoin { threshold, .. }, Some(outer)) => Some(outer.estimate.rows <= *threshold),
            _ => None,
        }
    }

    /// A number that is equal for plans of one shape: with equal operators and equal tables and indexes.
    pub fn shape_hash(&self) -> u64 {
        let mut hash = Fnv::default();
        for node in self.all() {
            hash.add(node.physical.as_bytes());
            hash.add(node.logical.as_bytes());
            hash.add(&(node.children.len() as u64).to_le_bytes());
            if let Some(object) = &node.object {
                hash.add(object.to_string().as_bytes());
            }
        }
        hash.value()
    }
}
