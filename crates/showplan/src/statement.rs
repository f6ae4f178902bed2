//! A statement with its plan and its run-time figures.

use std::time::Duration;

use super::draw::{count, counted, ms};
use super::{PlanNode, TableName};
use crate::MemoryShown;

/// A statement as plans show it.
#[derive(Clone, PartialEq, Debug)]
pub struct ShownStatement {
    /// Its text.
    pub text: String,
    /// SQL Server's name for its kind: `SELECT`.
    pub kind: String,
    /// The plan; `None` for a statement without one.
    pub root: Option<PlanNode>,
    /// The most workers that it may have.
    pub degree: usize,
    /// The elapsed and the processor time of binding and planning it.
    pub compile: (Duration, Duration),
    /// Whether its plan is one of an earlier execution.
    pub is_reused: bool,
    /// The statistics that were made for it first.
    pub statistics_cost: StatisticsCost,
    /// A hash that is equal for texts that differ only in constants.
    pub query_hash: u64,
    /// Its run-time figures, if it has run.
    pub figures: Option<Figures>,
    /// The memory that its operators requested, were granted and held, if it has run with operators that keep rows.
    pub memory: Option<MemoryShown>,
    /// The statistics that its estimates have read.
    pub statistics: Vec<StatisticsRead>,
    /// Statements within it.
    pub body: Body,
}

/// A statistics object in the state in which estimates read it.
#[derive(Clone, PartialEq, Debug)]
pub struct StatisticsRead {
    /// Its table.
    pub table: TableName,
    /// Its name.
    pub name: String,
    /// Rows whose leading column was inserted, deleted or changed since its last update.
    pub modifications: u64,
    /// The percentage of the rows that were sampled.
    pub sampling_percent: f64,
    /// The time of its last update, as `2026-11-23T08:00:00.0000000` in UTC; `None` if there was none.
    pub updated: Option<String>,
}

/// What it cost to make or update statistics before a statement was planned.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StatisticsCost {
    /// Statistics objects that were made or updated.
    pub objects: u64,
    /// From the beginning to the end of each.
    pub elapsed: Duration,
    /// Processor time of all threads, and of the statement's own among them.
    pub cpu: Duration,
    /// Processor time of the statement's own thread.
    pub own_cpu: Duration,
    /// Pages accessed.
    pub logical: u64,
    /// Pages of them that were read from disk.
    pub physical: u64,
}

impl StatisticsCost {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: StatisticsCost) -> StatisticsCost {
        StatisticsCost {
            objects: self.objects + other.objects,
            elapsed: self.elapsed + other.elapsed,
            cpu: self.cpu + other.cpu,
            own_cpu: self.own_cpu + other.own_cpu,
            logical: self.logical + other.logical,
            physical: self.physical + other.physical,
        }
    }

    /// What came after `before`.
    #[must_use]
    pub fn since(self, before: StatisticsCost) -> StatisticsCost {
        StatisticsCost {
            objects: self.objects - before.objects,
            elapsed: self.elapsed.saturating_sub(before.elapsed),
            cpu: self.cpu.saturating_sub(before.cpu),
            own_cpu: self.own_cpu.saturating_sub(before.own_cpu),
            logical: self.logical - before.logical,
            physical: self.physical - before.physical,
        }
    }

    /// It in words; `None` if none was made.
    pub fn text(&self) -> Option<String> {
        let physical = match self.physical {
            0 => String::new(),
            pages => format!(", {} read from disk", count(pages)),
        };
        (self.objects > 0).then(|| {
            format!(
                "statistics made for {} in {} ms, CPU {} ms, {} looked at{physical}",
                counted(self.objects, "column"),
                ms(self.elapsed),
                ms(self.cpu),
                counted(self.logical, "page"),
            )
        })
    }
}

/// The run-time figures of a statement.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Figures {
    /// From its beginning to its end.
    pub elapsed: Duration,
    /// Processor time of all its threads.
    pub cpu: Duration,
    /// Its waits: name, number, time.
    pub waits: Vec<(&'static str, u64, Duration)>,
    /// Rows that it sent or changed.
    pub rows: u64,
}

/// Statements within a statement.
#[derive(Clone, PartialEq, Debug)]
pub enum Body {
    /// None.
    None,
    /// The statements of an `IF` or `WHILE`.
    Branches {
        /// The statements if the condition is true.
        then: Vec<ShownStatement>,
        /// The statements if it is not.
        otherwise: Vec<ShownStatement>,
    },
    /// The statements of a procedure.
    Procedure {
        /// Its name.
        name: String,
        /// Its statements.
        statements: Vec<ShownStatement>,
    },
}

impl ShownStatement {
    /// A statement without a plan.
    pub fn plain(text: impl Into<String>, kind: impl Into<String>) -> ShownStatement {
        ShownStatement {
            text: text.into(),
            kind: kind.into(),
            root: None,
            degree: 1,
            compile: (Duration::ZERO, Duration::ZERO),
            is_reused: false,
            statistics_cost: StatisticsCost::default(),
            query_hash: 0,
            figures: None,
            memory: None,
            statistics: Vec::new(),
            body: Body::None,
        }
    }

    /// About how many bytes it takes.
    pub fn bytes(&self) -> u64 {
        /// Bytes of a name, a list and its entry.
        const NAME: usize = 160;
        let of = |node: &PlanNode| {
            let columns = node.output.len() + 2 * node.defined.len();
            size_of::<PlanNode>() + NAME * (4 + columns)
        };
        let nodes: usize = self.root.as_ref().map_or(0, |root| root.all().into_iter().map(of).sum());
        let statistics = self.statistics.len() * (size_of::<StatisticsRead>() + NAME);
        (size_of::<ShownStatement>() + self.text.len() + nodes + statistics) as u64
    }

    /// A number that is equal for plans of one shape; 0 without a plan.
    pub fn plan_hash(&self) -> u64 {
        self.root.as_ref().map_or(0, PlanNode::shape_hash)
    }
}

/// The hash FNV-1a, which is equal on every machine and after every start.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }

    /// The hash of all that was added.
    pub fn value(self) -> u64 {
        self.0
    }
}
