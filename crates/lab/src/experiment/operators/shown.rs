//! The work of a query's operators, read from the plan of a run.

use hobt_showplan::{Drawing, PlanNode, ShownStatement, draw};
use serde_json::{Value, json};

/// The most characters of a line of a drawn plan.
const PLAN_WIDTH: usize = 150;

/// An operator that has run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OperatorWork {
    /// `Hash Match (Aggregate)`.
    pub(super) name: String,
    /// The table that it reads.
    table: Option<String>,
    rows: u64,
    pub(super) time_s: f64,
}

impl OperatorWork {
    fn of(node: &PlanNode) -> OperatorWork {
        let name = match node.physical == node.logical {
            true => node.physical.to_owned(),
            false => format!("{} ({})", node.physical, node.logical),
        };
        OperatorWork {
            name,
            table: node.object.as_ref().map(|object| object.table.table.clone()),
            rows: node.actual.as_ref().map_or(0, hobt_showplan::Actual::rows),
            time_s: node.actual.as_ref().map_or(0.0, |actual| actual.cpu().as_secs_f64()),
        }
    }

    /// The name with the table.
    pub(super) fn full_name(&self) -> String {
        match &self.table {
            Some(table) => format!("{} {table}", self.name),
            None => self.name.clone(),
        }
    }
}

/// A statement's operators and what they took.
#[derive(Clone, Debug)]
pub(super) struct Work {
    /// Each before those below it.
    pub(super) operators: Vec<OperatorWork>,
    /// CPU time of the statement's threads, planning included.
    pub(super) cpu_s: f64,
    pub(super) planning_s: f64,
    pub(super) spilled_bytes: u64,
    /// The plan as a tree.
    pub(super) drawn: String,
}

impl Work {
    /// That of a statement that has run with a plan.
    pub(super) fn of(shown: &ShownStatement) -> Option<Work> {
        let nodes = shown.root.as_ref()?.all();
        let spilled = nodes.iter().filter_map(|node| node.actual.as_ref()).map(|actual| actual.spilled_bytes);
        Some(Work {
            operators: nodes.iter().map(|node| OperatorWork::of(node)).collect(),
            cpu_s: shown.figures.as_ref()?.cpu.as_secs_f64(),
            planning_s: shown.compile.1.as_secs_f64(),
            spilled_bytes: spilled.sum(),
            drawn: draw(shown, Drawing { width: Some(PLAN_WIDTH), ..Drawing::default() }),
        })
    }

    /// A time as a share of the CPU time, in percent.
    pub(super) fn percent(&self, time_s: f64) -> f64 {
        time_s / self.cpu_s.max(1e-9) * 100.0
    }

    /// The share of the CPU time that the operators explain.
    pub(super) fn explained_percent(&self) -> f64 {
        self.percent(self.operators_s())
    }

    /// The time of all operators.
    pub(super) fn operators_s(&self) -> f64 {
        self.operators.iter().map(|operator| operator.time_s).sum()
    }

    /// The names of operators that gave rows and recorded no time, each once.
    pub(super) fn untimed(&self) -> Vec<&str> {
        let has_time = |name: &str| self.operators.iter().any(|other| other.name == name && other.time_s > 0.0);
        let mut names: Vec<&str> = Vec::new();
        for operator in self.operators.iter().filter(|operator| operator.rows > 0 && !has_time(&operator.name)) {
            if !names.contains(&operator.name.as_str()) {
                names.push(&operator.name);
            }
        }
        names
    }

    pub(super) fn to_json(&self) -> Value {
        let of_operator = |operator: &OperatorWork| {
            json!({
                "name": operator.name,
                "table": operator.table,
                "rows": operator.rows,
                "time_s": operator.time_s,
                "percent": self.percent(operator.time_s),
            })
        };
        self.operators.iter().map(of_operator).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hobt_showplan::{Actual, Detail, Figures, WorkerActual};

    use super::*;

    fn node(names: (&'static str, &'static str), ms: u64, rows: u64, children: Vec<PlanNode>) -> PlanNode {
        let mut node = PlanNode::new(names.0, names.1, Detail::ComputeScalar);
        let worker = WorkerActual { rows, executions: 1, cpu: Duration::from_millis(ms), ..WorkerActual::default() };
        node.actual = Some(Actual { workers: vec![worker, worker], spilled_bytes: 5, ..Actual::default() });
        node.children = children;
        node
    }

    #[test]
    fn operators_explain_a_share_of_the_cpu_time_and_those_without_time_are_named() {
        let scan = node(("Table Scan", "Table Scan"), 10, 500, vec![]);
        let partial = node(("Hash Match", "Partial Aggregate"), 0, 50, vec![scan]);
        let unused = node(("Compute Scalar", "Compute Scalar"), 0, 0, vec![partial]);
        let root = node(("Hash Match", "Aggregate"), 5, 7, vec![unused]);
        let figures = Figures { cpu: Duration::from_millis(60), ..Figures::default() };
        let compile = (Duration::from_millis(8), Duration::from_millis(6));
        let plain = ShownStatement::plain("SELECT 1", "SELECT");
        let work = Work::of(&ShownStatement { root: Some(root), figures: Some(figures), compile, ..plain });
        let work = work.expect("it has run");
        assert!((work.explained_percent() - 50.0).abs() < 1e-9, "two workers of 10 and of 5 ms");
        assert!((work.percent(work.planning_s) - 10.0).abs() < 1e-9);
        assert_eq!(work.untimed(), ["Hash Match (Partial Aggregate)"]);
        assert_eq!(work.spilled_bytes, 20);
        assert_eq!(work.to_json()[3]["rows"], 1_000);
        assert!(Work::of(&ShownStatement::plain("SELECT 1", "SELECT")).is_none());
    }
}
