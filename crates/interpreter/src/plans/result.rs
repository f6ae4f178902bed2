//! Plans as result sets, with the columns of Microsoft's pages on `SET SHOWPLAN_…` and `SET STATISTICS …`.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use hobt_functions::{batch_of_values, carrier};
use hobt_types::{MaxLength, SqlType, Value};

use crate::event::{DoneKind, Event, ResultColumn};
use crate::failure::Failure;
use crate::interpreter::Interpreter;
use hobt_showplan::{PlanRow, ShownStatement, plan_rows, to_xml};
use hobt_tsql::ast::SwitchOption;

/// The name of the XML plan column, by which clients recognise it.
const XML_COLUMN: &str = "Microsoft SQL Server 2005 XML Showplan";

const LONG: SqlType = SqlType::NVarChar(MaxLength::Max);
const OPERATOR: SqlType = SqlType::NVarChar(MaxLength::Limited(64));

/// The columns of `SHOWPLAN_ALL`.
const COLUMNS: [(&str, SqlType); 18] = [
    ("StmtText", LONG),
    ("StmtId", SqlType::Int),
    ("NodeId", SqlType::Int),
    ("Parent", SqlType::Int),
    ("PhysicalOp", OPERATOR),
    ("LogicalOp", OPERATOR),
    ("Argument", LONG),
    ("DefinedValues", LONG),
    ("EstimateRows", SqlType::Real),
    ("EstimateIO", SqlType::Real),
    ("EstimateCPU", SqlType::Real),
    ("AvgRowSize", SqlType::Int),
    ("TotalSubtreeCost", SqlType::Real),
    ("OutputList", LONG),
    ("Warnings", SqlType::VarChar(MaxLength::Limited(100))),
    ("Type", OPERATOR),
    ("Parallel", SqlType::Bit),
    ("EstimateExecutions", SqlType::Real),
];

/// A complete result set.
pub(super) struct ResultSet {
    columns: Vec<(&'static str, SqlType)>,
    rows: Vec<Vec<Value>>,
}

/// The result sets of `SHOWPLAN_TEXT`: for each statement, its text and then its operators.
pub(super) fn text(statements: &[ShownStatement]) -> Vec<ResultSet> {
    let mut sets: Vec<ResultSet> = Vec::new();
    let mut was_operator = None;
    for row in plan_rows(statements) {
        let is_operator = row.physical.is_some();
        if was_operator != Some(is_operator) {
            sets.push(ResultSet { columns: vec![("StmtText", LONG)], rows: Vec::new() });
        }
        was_operator = Some(is_operator);
        sets.last_mut().expect("one was begun").rows.push(vec![Value::Text(row.text)]);
    }
    sets
}

/// The result set of `SHOWPLAN_ALL`.
pub(super) fn all(statements: &[ShownStatement]) -> ResultSet {
    let rows = plan_rows(statements).into_iter().map(values).collect();
    ResultSet { columns: COLUMNS.to_vec(), rows }
}

/// The result set of `STATISTICS PROFILE`.
pub(super) fn profile(statements: &[ShownStatement]) -> ResultSet {
    let with_actual = |row: PlanRow| {
        let number = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let actual = row.actual.map_or([Value::Null, Value::Null], |(rows, began)| [number(rows), number(began)]);
        actual.into_iter().chain(values(row)).collect()
    };
    let counted = [("Rows", SqlType::BigInt), ("Executes", SqlType::BigInt)];
    let rows = plan_rows(statements).into_iter().map(with_actual).collect();
    ResultSet { columns: counted.into_iter().chain(COLUMNS).collect(), rows }
}

/// The result set of a plan as XML.
pub(super) fn xml(statements: &[ShownStatement]) -> ResultSet {
    ResultSet { columns: vec![(XML_COLUMN, LONG)], rows: vec![vec![Value::Text(to_xml(statements))]] }
}

fn values(row: PlanRow) -> Vec<Value> {
    let text = |text: Option<String>| text.map_or(Value::Null, Value::Text);
    let name = |name: Option<&'static str>| name.map_or(Value::Null, |name| Value::Text(name.to_owned()));
    let real = |number: Option<f64>| number.map_or(Value::Null, Value::Float);
    let id = |number: usize| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
    vec![
        Value::Text(row.text),
        id(row.statement),
        id(row.node),
        id(row.parent),
        name(row.physical),
        name(row.logical),
        text(row.argument),
        text(row.defined),
        real(row.rows),
        real(row.io),
        real(row.cpu),
        // A row has fewer bytes than an int can hold.
        row.row_bytes.map_or(Value::Null, |bytes| Value::Int(bytes.round().min(f64::from(i32::MAX)) as i64)),
        real(row.subtree),
        text(row.output),
        name(row.warnings),
        Value::Text(row.kind),
        Value::Int(i64::from(row.is_parallel)),
        real(row.executions),
    ]
}

impl Interpreter<'_> {
    /// Sends a result set about plans to the client, even if the statement's own rows go elsewhere.
    ///
    /// # Errors
    /// If the client accepts no more.
    pub(super) fn send_result(&mut self, set: &ResultSet) -> Result<(), Failure> {
        let column = |(name, sql_type): &(&str, SqlType)| ResultColumn {
            name: (*name).to_owned(),
            sql_type: *sql_type,
            nullable: true,
        };
        let field = |(name, sql_type): &(&str, SqlType)| Field::new(*name, carrier(*sql_type), true);
        let schema = Arc::new(Schema::new(set.columns.iter().map(field).collect::<Vec<_>>()));
        let types: Vec<SqlType> = set.columns.iter().map(|(_, sql_type)| *sql_type).collect();
        let batch = batch_of_values(schema, &types, &set.rows)?;
        let rows = set.rows.len() as u64;
        self.send(Event::ResultSet(set.columns.iter().map(column).collect()))?;
        self.send(Event::Rows(batch))?;
        self.send(Event::ResultSetDone { rows })?;
        let row_count = Some(rows).filter(|_| !self.state.options.switch(SwitchOption::NoCount));
        self.send(Event::Done { row_count, kind: DoneKind::Select })
    }
}
