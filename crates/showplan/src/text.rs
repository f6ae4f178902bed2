//! A plan as rows: `SHOWPLAN_TEXT`, `SHOWPLAN_ALL`, `STATISTICS PROFILE`.
//!
//! The columns are those of Microsoft's page on `SET SHOWPLAN_ALL`. Statements and operators of a batch are numbered
//! together, so that a statement called by another can name it as its parent.

use std::fmt::Display;

use super::{Body, Detail, Exchange, OrderColumn, PlanColumn, PlanNode, SeekKey, ShownStatement};

/// A row of a plan. `None` is NULL.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct PlanRow {
    /// Rows that the operator gave, and how often it was executed, if it has run.
    pub actual: Option<(u64, u64)>,
    /// `StmtText`: the statement, or the operator after a drawn branch.
    pub text: String,
    /// `StmtId`.
    pub statement: usize,
    /// `NodeId`.
    pub node: usize,
    /// `Parent`.
    pub parent: usize,
    /// `PhysicalOp`; `None` for a statement.
    pub physical: Option<&'static str>,
    /// `LogicalOp`.
    pub logical: Option<&'static str>,
    /// `Argument`.
    pub argument: Option<String>,
    /// `DefinedValues`.
    pub defined: Option<String>,
    /// `EstimateRows`.
    pub rows: Option<f64>,
    /// `EstimateIO`.
    pub io: Option<f64>,
    /// `EstimateCPU`.
    pub cpu: Option<f64>,
    /// `AvgRowSize`.
    pub row_bytes: Option<f64>,
    /// `TotalSubtreeCost`.
    pub subtree: Option<f64>,
    /// `OutputList`.
    pub output: Option<String>,
    /// `Warnings`.
    pub warnings: Option<&'static str>,
    /// `Type`: `PLAN_ROW`, or the statement's kind.
    pub kind: String,
    /// `Parallel`.
    pub is_parallel: bool,
    /// `EstimateExecutions`.
    pub executions: Option<f64>,
}

/// The rows of the statements of a batch, in their order.
pub fn plan_rows(statements: &[ShownStatement]) -> Vec<PlanRow> {
    let mut printer = Printer::default();
    statements.iter().for_each(|statement| printer.statement(statement, 0));
    printer.rows
}

#[derive(Default)]
struct Printer {
    rows: Vec<PlanRow>,
    statements: usize,
}

impl Printer {
    fn statement(&mut self, shown: &ShownStatement, parent: usize) {
        self.statements += 1;
        let (statement, node) = (self.statements, self.rows.len() + 1);
        let root = shown.root.as_ref();
        let figures = shown.figures.as_ref();
        self.rows.push(PlanRow {
            actual: figures.map(|figures| (figures.rows, 1)),
            text: shown.text.clone(),
            statement,
            node,
            parent,
            rows: root.map(|root| root.estimate.rows),
            subtree: root.map(|root| root.estimate.subtree),
            kind: shown.kind.clone(),
            ..PlanRow::default()
        });
        if let Some(root) = root {
            self.operator(root, (statement, node), "  ", true);
        }
        let within: Vec<&ShownStatement> = match &shown.body {
            Body::None => Vec::new(),
            Body::Branches { then, otherwise } => then.iter().chain(otherwise).collect(),
            Body::Procedure { statements, .. } => statements.iter().collect(),
        };
        within.into_iter().for_each(|inner| self.statement(inner, node));
    }

    fn operator(&mut self, node: &PlanNode, (statement, parent): (usize, usize), indent: &str, is_last: bool) {
        let id = self.rows.len() + 1;
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let estimate = node.estimate;
        self.rows.push(PlanRow {
            actual: node.actual.as_ref().map(|actual| (actual.rows(), actual.executions())),
            text: format!("{indent}|--{}", operator_text(node)),
            statement,
            node: id,
            parent,
            physical: Some(node.physical),
            logical: Some(node.logical),
            argument: some(argument(node)),
            defined: some(defined_values(node)),
            rows: Some(estimate.rows_at_once()),
            io: Some(estimate.io),
            cpu: Some(estimate.cpu),
            row_bytes: Some(estimate.row_bytes),
            subtree: Some(estimate.subtree),
            output: some(joined(&node.output)),
            warnings: lacks_join_predicate(node).then_some("NO JOIN PREDICATE"),
            kind: "PLAN_ROW".to_owned(),
            is_parallel: node.is_parallel,
            executions: Some(estimate.executions),
        });
        let below = format!("{indent}{}    ", if is_last { ' ' } else { '|' });
        for (at, child) in node.children.iter().enumerate() {
            self.operator(child, (statement, id), &below, at + 1 == node.children.len());
        }
    }
}

/// Whether an operator joins every row with every other.
pub(super) fn lacks_join_predicate(node: &PlanNode) -> bool {
    let has_none =
        node.predicate.is_none() && matches!(&node.detail, Detail::NestedLoops { outer } if outer.is_empty());
    // A side with one row, such as a subquery, needs no condition.
    has_none && node.logical == "Inner Join" && node.children.iter().all(|child| child.estimate.rows > 1.0)
}

fn joined<T: Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An operator with its argument: `Table Scan(OBJECT:([db].[dbo].[t]))`.
pub(super) fn operator_text(node: &PlanNode) -> String {
    let argument = argument(node);
    let is_named = matches!(
        node.detail,
        Detail::HashJoin { .. }
            | Detail::AdaptiveJoin { .. }
            | Detail::NestedLoops { .. }
            | Detail::MergeJoin { .. }
            | Detail::HashAggregate { .. }
            | Detail::Parallelism { .. }
    ) || (node.logical != node.physical
        && matches!(&node.detail, Detail::Spool { seek } if seek.is_empty()));
    match (is_named, argument.is_empty()) {
        (false, true) => node.physical.to_owned(),
        (false, false) => format!("{}({argument})", node.physical),
        (true, true) => format!("{}({})", node.physical, node.logical),
        (true, false) => format!("{}({}, {argument})", node.physical, node.logical),
    }
}

fn defined_values(node: &PlanNode) -> String {
    let value = |(column, expr): &(PlanColumn, Option<super::PlanExpr>)| match expr {
        Some(expr) => format!("{column}={expr}"),
        None => column.to_string(),
    };
    node.defined.iter().map(value).collect::<Vec<_>>().join(", ")
}

fn define(node: &PlanNode) -> String {
    let made = defined_values(node);
    if made.is_empty() { String::new() } else { format!("DEFINE:({made})") }
}

fn order_by(by: &[OrderColumn]) -> String {
    let one = |by: &OrderColumn| format!("{} {}", by.column, if by.is_ascending { "ASC" } else { "DESC" });
    format!("ORDER BY:({})", by.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// A seek's comparison with a column: `[a]=(1)`.
pub(super) fn seek_text(key: &SeekKey) -> String {
    let one = |value: &super::PlanExpr| format!("{}{}{value}", key.column, key.op.sign());
    key.values.iter().map(one).collect::<Vec<_>>().join(" OR ")
}

fn sought(seek: &[SeekKey]) -> String {
    format!("SEEK:({})", seek.iter().map(seek_text).collect::<Vec<_>>().join(" AND "))
}

/// The text in parentheses after an operator's name, without its logical operator.
pub fn argument(node: &PlanNode) -> String {
    let mut parts: Vec<String> = Vec::new();
    if let Some(object) = &node.object {
        parts.push(format!("OBJECT:({object})"));
    }
    let keys = |word: &str, left: &[PlanColumn], right: &[PlanColumn]| match left.is_empty() {
        true => String::new(),
        false => format!("{word}:({})=({})", joined(left), joined(right)),
    };
    let residual = |residual: &Option<super::PlanExpr>| {
        residual.as_ref().map_or(String::new(), |residual| format!("RESIDUAL:({residual})"))
    };
    match &node.detail {
        Detail::Read { seek, is_ordered, is_backward, partitions, looks_up } => {
            let mut text = read_argument(node, parts, seek);
            text.push_str(if *looks_up { " LOOKUP" } else { "" });
            text.push_str(match (is_ordered, is_backward) {
                (false, _) => "",
                (true, false) => " ORDERED FORWARD",
                (true, true) => " ORDERED BACKWARD",
            });
            return text + &partitions.map_or(String::new(), |(read, all)| format!(" PARTITIONS:({read} of {all})"));
        }
        Detail::HashJoin { build, probe, residual: rest }
        | Detail::AdaptiveJoin { build, probe, residual: rest, .. } => {
            parts.extend([keys("HASH", build, probe), residual(rest)]);
        }
        Detail::MergeJoin { left, right, residual: rest } => {
            parts.extend([keys("MERGE", left, right), residual(rest)]);
        }
        Detail::NestedLoops { outer } if !outer.is_empty() => {
            parts.push(format!("OUTER REFERENCES:({})", joined(outer)));
        }
        Detail::HashAggregate { groups } => parts.push(grouped("HASH", groups, define(node))),
        Detail::StreamAggregate { groups } => parts.push(grouped("GROUP BY", groups, define(node))),
        Detail::Sort { by, top } => {
            parts.extend(top.map(|rows| format!("TOP {rows}")));
            parts.push(order_by(by));
        }
        Detail::Top { rows, offset } => {
            parts.extend((*offset > 0).then(|| format!("OFFSET EXPRESSION:(({offset}))")));
            parts.extend(rows.map(|rows| format!("TOP EXPRESSION:(({rows}))")));
        }
        Detail::Parallelism { exchange, keys, by } => {
            parts.extend(match exchange {
                Exchange::Hash => Some("Hash Partitioning".to_owned()),
                Exchange::RoundRobin => Some("RoundRobin Partitioning".to_owned()),
                Exchange::Range => Some("Range Partitioning".to_owned()),
                Exchange::Gather => None,
            });
            parts.extend((!keys.is_empty()).then(|| format!("PARTITION COLUMNS:({})", joined(keys))));
            parts.extend((!by.is_empty()).then(|| order_by(by)));
        }
        Detail::Window { partition } => {
            parts.extend((!partition.is_empty()).then(|| format!("PARTITION BY:({})", joined(partition))));
            parts.push(define(node));
        }
        Detail::Spool { seek } if !seek.is_empty() => parts.push(sought(seek)),
        Detail::ComputeScalar => parts.push(define(node)),
        Detail::Change { indexes } => parts.extend(indexes.iter().map(|index| format!("OBJECT:({index})"))),
        Detail::ConstantScan { rows } if *rows > 1 => parts.push(format!("VALUES:({rows} rows)")),
        Detail::Generic(name) => parts.push(name.clone()),
        _ => {}
    }
    parts.extend(node.condition().map(|condition| format!("WHERE:({condition})")));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

fn grouped(word: &str, groups: &[PlanColumn], define: String) -> String {
    match (groups.is_empty(), define.is_empty()) {
        (true, _) => define,
        (false, true) => format!("{word}:({})", joined(groups)),
        (false, false) => format!("{word}:({}) {define}", joined(groups)),
    }
}

/// The argument of an operator that reads a table, up to the order.
fn read_argument(node: &PlanNode, mut parts: Vec<String>, seek: &[SeekKey]) -> String {
    if !seek.is_empty() {
        parts.push(sought(seek));
    }
    parts.extend(node.condition().map(|condition| format!("WHERE:({condition})")));
    parts.join(", ")
}
