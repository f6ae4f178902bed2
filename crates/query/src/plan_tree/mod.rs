//! What a plan looks like to people: operators by SQL Server's names, what was thought of them and what they did.
//!
//! ```text
//!   execute::explain ── ShownStatement ─┬─ text     SHOWPLAN_TEXT, SHOWPLAN_ALL, STATISTICS PROFILE
//!                        PlanNode       ├─ xml      SHOWPLAN_XML, STATISTICS XML, sys.dm_exec_query_plan
//!                        PlanExpr       └─ draw     a tree in a terminal
//! ```
//! Every form is printed from this one model, which knows no executor and holds nothing of a statement: no table, no
//! lock, no memory but its own.
//!
//! Leaves to others: which operator of the executor is which (`execute::explain`), when a plan is shown
//! (`interpreter`), HTML (crate `hobt`).

mod cost;
mod draw;
mod expression;
mod mark;
mod statement;
mod text;
mod worst;
mod xml;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hobt_access::scan::WorkerReads;

pub use draw::{Drawing, count, counted, draw, memory_text, removed};
pub use expression::{CompareOp, PlanColumn, PlanExpr, TableName};
pub use mark::NodeMark;
pub(crate) use statement::Fnv;
pub use statement::{Body, Figures, ShownStatement, StatisticsRead};
pub use text::{PlanRow, argument, plan_rows};
pub use worst::{Judged, error_of, judge, worst_estimate};
pub use xml::{NAMESPACE, to_xml};

/// An operator of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanNode {
    /// Its number in the statement, from 0, each before those below it.
    pub id: usize,
    /// How it is done: `Hash Match`.
    pub physical: &'static str,
    /// What is done: `Inner Join`.
    pub logical: &'static str,
    /// What is particular to the operator.
    pub detail: Detail,
    /// The table or index that it reads or changes.
    pub object: Option<PlanObject>,
    /// The condition that rows fulfil which it gives, beside those of a seek.
    pub predicate: Option<PlanExpr>,
    /// What joins above want of its rows, as far as it goes by that: `PROBE(a join's bitmap, a column)`.
    pub probes: Vec<PlanExpr>,
    /// Values that it makes, with what they are; `None` where they come from its table.
    pub defined: Vec<(PlanColumn, Option<PlanExpr>)>,
    /// The columns that it gives.
    pub output: Vec<PlanColumn>,
    /// Whether it runs on more than one worker.
    pub is_parallel: bool,
    /// What was thought of it.
    pub estimate: Estimate,
    /// What it did; `None` if it has not run.
    pub actual: Option<Actual>,
    /// The operators whose rows it takes.
    pub children: Vec<PlanNode>,
    /// Who is told its number, of an operator that counts what it does.
    pub mark: Option<NodeMark>,
}

/// What an operator was thought to do.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Estimate {
    /// Rows that it gives in all its executions.
    pub rows: f64,
    /// Rows that it looks at to find them, of an operator that reads a table.
    pub rows_read: Option<f64>,
    /// Rows of its table.
    pub table_rows: Option<f64>,
    /// Pages that it reads.
    pub pages: f64,
    /// Bytes of a row that it gives.
    pub row_bytes: f64,
    /// How often it runs.
    pub executions: f64,
    /// Cost of its reads, of its work, and of it with all below it; in SQL Server's unit.
    pub io: f64,
    /// See `io`.
    pub cpu: f64,
    /// See `io`.
    pub subtree: f64,
}

/// What an operator did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Actual {
    /// By worker. One that ran on one worker alone is worker 0, others begin at 1.
    pub workers: Vec<WorkerActual>,
    /// How often what it held was written to disk because memory was short.
    pub spills: u64,
    /// Bytes so written.
    pub spilled_bytes: u64,
    /// How many workers did that.
    pub spilled_workers: u64,
    /// How often rows were put on disk anew before they fitted: 1 where they did at once.
    pub spill_level: u64,
    /// Rows that filters of joins above left out, of pages that were read, and those that they let pass.
    pub filtered: u64,
    /// See `filtered`.
    pub passed: u64,
    /// Rows of pages that were not read for these filters, about.
    pub skipped: u64,
}

/// What one worker did in an operator.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WorkerActual {
    /// Its number.
    pub worker: usize,
    /// Rows given.
    pub rows: u64,
    /// Rows looked at to find them, where that is another number.
    pub rows_read: Option<u64>,
    /// Rows that went into an aggregate on their page, and no further.
    pub rows_aggregated: Option<u64>,
    /// Batches given, where somebody counts.
    pub batches: Option<u64>,
    /// How often it began.
    pub executions: u64,
    /// Processor time.
    pub cpu: Duration,
    /// From its first work to its last, if that is measured.
    pub elapsed: Option<Duration>,
    /// Pages read, if they are counted for the worker.
    pub reads: Option<WorkerReads>,
}

impl Estimate {
    /// Rows that it gives each time that it runs.
    pub fn rows_at_once(&self) -> f64 {
        self.rows / self.executions.max(1.0)
    }
}

impl Actual {
    /// Rows that all workers gave.
    pub fn rows(&self) -> u64 {
        self.workers.iter().map(|worker| worker.rows).sum()
    }

    /// Rows that all workers looked at; those that they gave where that is the same.
    pub fn rows_read(&self) -> u64 {
        self.workers.iter().map(|worker| worker.rows_read.unwrap_or(worker.rows)).sum()
    }

    /// How often it was begun in all; of a parallel operator each worker does once.
    pub fn executions(&self) -> u64 {
        self.workers.iter().map(|worker| worker.executions).sum()
    }

    /// Processor time of all workers.
    pub fn cpu(&self) -> Duration {
        self.workers.iter().map(|worker| worker.cpu).sum()
    }

    /// Pages looked at and pages read from disk, if they are counted.
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
    /// Whether that is the clustered one.
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

/// A column by which rows are in order.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderColumn {
    /// The column.
    pub column: PlanColumn,
    /// Which way.
    pub is_ascending: bool,
}

/// What a seek is told of a column of its index.
#[derive(Clone, PartialEq, Debug)]
pub struct SeekKey {
    /// The column.
    pub column: PlanColumn,
    /// How it is compared.
    pub op: CompareOp,
    /// With what: one value, or several of which it has one.
    pub values: Vec<PlanExpr>,
}

/// How rows go from workers to workers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exchange {
    /// By the hash of columns.
    Hash,
    /// In turn.
    RoundRobin,
    /// By ranges of columns.
    Range,
    /// To one.
    Gather,
}

/// What is particular to an operator.
#[derive(Clone, PartialEq, Debug)]
pub enum Detail {
    /// Reads a table or index.
    Read {
        /// What is sought; empty for a scan.
        seek: Vec<SeekKey>,
        /// Whether rows come in the order of the index.
        is_ordered: bool,
        /// Whether that is read from its end.
        is_backward: bool,
        /// Whether each entry leads to the table's row.
        looks_up: bool,
        /// Partitions read, and how many there are, of a table that has several.
        partitions: Option<(usize, usize)>,
    },
    /// Joins by hashing.
    HashJoin {
        /// The keys of the side that is hashed first.
        build: Vec<PlanColumn>,
        /// The keys of the other.
        probe: Vec<PlanColumn>,
        /// What else joined rows fulfil.
        residual: Option<PlanExpr>,
    },
    /// Looks its second input up where that pays, and hashes the first where it does not. Children: the outer side,
    /// what is read if it hashes, what is read if it looks up.
    AdaptiveJoin {
        /// The keys of the side that is hashed first, if it hashes.
        build: Vec<PlanColumn>,
        /// The keys of the other.
        probe: Vec<PlanColumn>,
        /// Those of the outer side.
        outer: Vec<PlanColumn>,
        /// What else joined rows fulfil.
        residual: Option<PlanExpr>,
        /// Rows of the outer side up to which it looks up.
        threshold: f64,
        /// Whether it did; `None` before it has run.
        looked_up: Option<bool>,
    },
    /// Looks at every pair, or seeks for each row of the first input.
    NestedLoops {
        /// What the second input gets from the first.
        outer: Vec<PlanColumn>,
    },
    /// Joins what is in order.
    MergeJoin {
        /// The keys of the first input.
        left: Vec<PlanColumn>,
        /// The keys of the second.
        right: Vec<PlanColumn>,
        /// What else joined rows fulfil.
        residual: Option<PlanExpr>,
    },
    /// Aggregates by hashing.
    HashAggregate {
        /// The groups' columns.
        groups: Vec<PlanColumn>,
    },
    /// Aggregates what is in order, or all.
    StreamAggregate {
        /// The groups' columns.
        groups: Vec<PlanColumn>,
    },
    /// Sorts.
    Sort {
        /// By what.
        by: Vec<OrderColumn>,
        /// How many of the first rows are wanted.
        top: Option<u64>,
    },
    /// Gives the first rows.
    Top {
        /// How many; `None` for all behind the offset.
        rows: Option<u64>,
        /// How many are left out before.
        offset: u64,
    },
    /// Rows go to other workers.
    Parallelism {
        /// How.
        exchange: Exchange,
        /// By which columns.
        keys: Vec<PlanColumn>,
        /// The order that they keep.
        by: Vec<OrderColumn>,
    },
    /// Computes over windows.
    Window {
        /// The columns whose values make a partition.
        partition: Vec<PlanColumn>,
    },
    /// Writes rows; the table's other indexes that are changed with it.
    Change {
        /// The indexes beside the one that has the rows.
        indexes: Vec<PlanObject>,
    },
    /// Rows that are there; how many.
    ConstantScan {
        /// How many.
        rows: u64,
    },
    /// A function or view that makes rows.
    TableFunction,
    /// Keeps only rows that fulfil its predicate.
    Filter,
    /// Computes values.
    ComputeScalar,
    /// One input behind the other.
    Concatenation,
    /// Keeps rows for who reads them again.
    Spool {
        /// What is sought in them each time; empty where all are read.
        seek: Vec<SeekKey>,
    },
    /// Several inputs, of which the last gives the rows.
    Sequence,
    /// What has no name of SQL Server's; the executor's own.
    Generic(String),
}

impl PlanNode {
    /// An operator of which nothing more is known.
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

    /// What its rows fulfil, for joins above or by itself.
    pub fn condition(&self) -> Option<PlanExpr> {
        let own = match &self.predicate {
            Some(PlanExpr::Logical { all: true, operands }) => operands.clone(),
            own => own.iter().cloned().collect(),
        };
        PlanExpr::conjunction(own.into_iter().chain(self.probes.iter().cloned()).collect())
    }

    /// This operator and all below it, each before those below it.
    pub fn all(&self) -> Vec<&PlanNode> {
        let mut all = Vec::new();
        let mut open = vec![self];
        while let Some(node) = open.pop() {
            all.push(node);
            open.extend(node.children.iter().rev());
        }
        all
    }

    /// Numbers the operators, and adds up what they cost. For the root, when the tree is whole.
    pub(crate) fn finish(&mut self) {
        self.number();
        cost::price(self);
    }

    /// Numbers the operators, and tells those who count what they do. For the root, when the tree is whole.
    pub(crate) fn number(&mut self) {
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

    /// Whether an adaptive join was thought to look up; `None` of other operators.
    pub fn is_thought_to_look_up(&self) -> Option<bool> {
        match (&self.detail, self.children.first()) {
            (Detail::AdaptiveJoin { threshold, .. }, Some(outer)) => Some(outer.estimate.rows <= *threshold),
            _ => None,
        }
    }

    /// A number that plans of one shape have in common: the operators, and what they read.
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
