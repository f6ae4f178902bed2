//! A set of in-memory tables for tests.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{Field, Schema};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionState;
use hobt_base::{SqlError, errors};
use hobt_catalog::PartitionFunction;
use hobt_engine::DatabaseUse;
use hobt_functions::{FunctionContext, array_value, carrier, format_value};
use hobt_tsql::ast::{ColumnKind, FileSource, Identifier, ObjectName, Statement, StatementKind, VariableName};
use hobt_tsql::parse_batch;
use hobt_types::{MaxLength, SqlType, TypedValue, Value};

use super::stored::{CONTEXT, from_one};
use crate::session::{optimize, session_config, session_state};
use hobt_binder::{
    BindOptions, Binder, BoundQuery, InsertTarget, NameResolver, Resolved, ScanHints, SourceColumn, SystemFunction,
    TargetColumn, TypePlace, sql_type,
};
use hobt_table::JoinWay;
use hobt_udf::{NextValues, sql_error_of};

/// Tables, views and functions by their lower-case names.
pub(super) struct World {
    objects: HashMap<String, Resolved>,
    variables: HashMap<String, TypedValue>,
    state: SessionState,
    runtime: tokio::runtime::Runtime,
}

fn invalid_object(name: &str) -> SqlError {
    errors::INVALID_OBJECT.with([&name])
}

impl World {
    /// A world without objects.
    pub(super) fn new() -> World {
        World {
            objects: HashMap::new(),
            variables: HashMap::new(),
            state: session_state(session_config(2, 1024), Arc::new(RuntimeEnv::default()), JoinWay::Free, false),
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .thread_stack_size(hobt_binder::STACK_BYTES)
                .build()
                .unwrap(),
        }
    }

    /// Runs `CREATE TABLE`, `CREATE VIEW`, `CREATE FUNCTION`.
    pub(super) fn create(&mut self, sql: &str) {
        for statement in parse_batch(sql).unwrap().statements {
            match statement.kind {
                StatementKind::CreateTable(table) => {
                    let columns = table.definition.columns.iter().map(|column| {
                        let ColumnKind::Typed(data_type) = &column.kind else { panic!("a computed column") };
                        let sql_type = sql_type(data_type, TypePlace::Declaration).unwrap();
                        let collation = column
                            .collation
                            .as_ref()
                            .map(|name| hobt_types::Collation::from_name(&name.value).expect("a known collation"));
                        let collation = sql_type.is_text().then(|| collation.unwrap_or_default());
                        let nullable = column.nullable.unwrap_or(true);
                        SourceColumn { name: column.name.value.clone(), sql_type, nullable, collation }
                    });
                    self.put(&table.name.name.value, columns.collect(), vec![]);
                }
                StatementKind::CreateView(view) => {
                    let definition = sql.to_string();
                    self.objects
                        .insert(view.name.name.value.to_lowercase(), Resolved::View { definition, database: None });
                }
                StatementKind::CreateFunction(function) => {
                    let definition = sql.to_string();
                    let name = function.name.name.value.to_lowercase();
                    self.objects.insert(name, Resolved::InlineFunction { definition, database: None });
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn put(&mut self, name: &str, columns: Vec<SourceColumn>, batches: Vec<RecordBatch>) {
        let fields: Vec<Field> =
            columns.iter().map(|column| Field::new(&column.name, carrier(column.sql_type), column.nullable)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batches = batches
            .into_iter()
            .map(|batch| RecordBatch::try_new(schema.clone(), batch.columns().to_vec()).unwrap())
            .map(|batch| vec![batch])
            .collect::<Vec<_>>();
        let partitions = if batches.is_empty() { vec![vec![]] } else { batches };
        let source = provider_as_source(Arc::new(MemTable::try_new(schema, partitions).unwrap()));
        self.objects.insert(name.to_lowercase(), Resolved::Table { source, columns });
    }

    /// Creates a table with rows: `world.table("t (a int, b varchar(9))", "(1, 'x'), (2, NULL)")`.
    pub(super) fn table(&mut self, definition: &str, rows: &str) {
        self.create(&format!("CREATE TABLE {definition}"));
        let name = definition.split([' ', '(']).next().unwrap().to_lowercase();
        let Some(Resolved::Table { columns, .. }) = self.objects.get(&name).cloned() else { panic!("no table {name}") };
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let sql = format!("SELECT * FROM (VALUES {rows}) v ({})", names.join(", "));
        let target = InsertTarget {
            table: name.clone(),
            columns: columns
                .iter()
                .map(|column| TargetColumn { name: column.name.clone(), sql_type: column.sql_type })
                .collect(),
        };
        let query = query_of(&sql);
        let bound = Binder::new(self, BindOptions::default()).bind_insert_source(&query, &target).unwrap();
        let batches = self.collect(&bound).unwrap();
        // Two partitions where there are two rows, so that parallel plans have something to merge.
        let batches = batches.into_iter().flat_map(|batch| {
            let half = batch.num_rows() / 2;
            [batch.slice(0, half), batch.slice(half, batch.num_rows() - half)]
        });
        self.put(&name, columns, batches.collect());
    }

    /// Sets a variable.
    pub(super) fn set(&mut self, name: &str, sql_type: SqlType, value: Value) {
        self.variables.insert(name.to_lowercase(), TypedValue { sql_type, value });
    }

    /// Binds a query.
    pub(super) fn bind(&self, sql: &str) -> Result<BoundQuery, SqlError> {
        Binder::new(self, BindOptions::default()).bind_query(&query_of(sql))
    }

    /// Binds, plans and runs a query.
    pub(super) fn collect(&self, bound: &BoundQuery) -> Result<Vec<RecordBatch>, SqlError> {
        let (optimized, _) = optimize(&bound.plan, &self.state)?;
        self.runtime.block_on(async {
            let physical =
                self.state.query_planner().create_physical_plan(&optimized, &self.state).await.map_err(sql_error_of)?;
            let context = Arc::new(datafusion::execution::TaskContext::from(&self.state));
            datafusion::physical_plan::collect(physical, context).await.map_err(sql_error_of)
        })
    }

    /// The physical plan of a query, as text.
    pub(super) fn explain(&self, sql: &str) -> Result<String, SqlError> {
        let bound = self.bind(sql)?;
        let (optimized, _) = optimize(&bound.plan, &self.state)?;
        let physical = self
            .runtime
            .block_on(self.state.query_planner().create_physical_plan(&optimized, &self.state))
            .map_err(sql_error_of)?;
        Ok(datafusion::physical_plan::displayable(physical.as_ref()).indent(false).to_string())
    }

    /// The rows of a query, a line each, values separated by bars.
    pub(super) fn try_rows(&self, sql: &str) -> Result<Vec<String>, SqlError> {
        let bound = self.bind(sql)?;
        let mut rows = Vec::new();
        for batch in self.collect(&bound)? {
            for row in 0..batch.num_rows() {
                let values = bound.columns.iter().zip(batch.columns()).map(|(column, array)| {
                    assert_eq!(array.data_type(), &carrier(column.sql_type), "{sql}");
                    assert!(column.nullable || array.null_count() == 0, "NULL in a column that has none: {sql}");
                    match array_value(array.as_ref(), row, column.sql_type).unwrap() {
                        Value::Null => "NULL".to_string(),
                        _ => format_value(array.as_ref(), row, column.sql_type).unwrap(),
                    }
                });
                rows.push(values.collect::<Vec<_>>().join("|"));
            }
        }
        Ok(rows)
    }

    /// The rows of a query that must succeed.
    pub(super) fn rows(&self, sql: &str) -> Vec<String> {
        self.try_rows(sql).unwrap_or_else(|error| panic!("{sql}\n{} {error}", error.header()))
    }

    /// The rows of a query in any order, sorted as text.
    pub(super) fn sorted_rows(&self, sql: &str) -> Vec<String> {
        let mut rows = self.rows(sql);
        rows.sort();
        rows
    }

    /// The error of a query, from binding or running it.
    pub(super) fn error(&self, sql: &str) -> SqlError {
        match self.try_rows(sql) {
            Ok(rows) => panic!("{sql}\nran: {rows:?}"),
            Err(error) => error,
        }
    }

    /// The types of a query's columns.
    pub(super) fn types(&self, sql: &str) -> String {
        let bound = self.bind(sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
        bound.columns.iter().map(|column| column.sql_type.to_string()).collect::<Vec<_>>().join(" ")
    }
}

/// The query of a `SELECT`.
pub(super) fn query_of(sql: &str) -> hobt_tsql::ast::Query {
    let mut batch = parse_batch(sql).unwrap_or_else(|error| panic!("{sql}\n{error}"));
    match batch.statements.remove(0) {
        Statement { kind: StatementKind::Select(select), .. } => select.query,
        other => panic!("{other:?}"),
    }
}

impl NameResolver for World {
    fn resolve(&self, name: &ObjectName, _: &ScanHints<'_>) -> Result<Resolved, SqlError> {
        let key = name.name.value.to_lowercase();
        self.objects.get(&key).cloned().ok_or_else(|| invalid_object(&name.name.value))
    }

    fn resolve_function(&self, name: &ObjectName, _: &[Option<TypedValue>]) -> Result<Resolved, SqlError> {
        self.resolve(name, &ScanHints::default())
    }

    fn resolve_variable_table(&self, name: &VariableName, _: &ScanHints<'_>) -> Result<Resolved, SqlError> {
        self.objects
            .get(&name.value.to_lowercase())
            .cloned()
            .ok_or_else(|| errors::UNDECLARED_TABLE_VARIABLE.with([&name.value]))
    }

    fn resolve_files(&self, _: &FileSource, _: &[SqlType]) -> Result<Resolved, SqlError> {
        Err(SqlError::not_supported("files in this world"))
    }

    fn partition_function(
        &self,
        _: Option<&Identifier>,
        name: &Identifier,
    ) -> Result<Arc<PartitionFunction>, SqlError> {
        Ok(Arc::new(PartitionFunction {
            id: 1,
            name: name.value.clone(),
            parameter: SqlType::Int,
            collation: None,
            range_right: true,
            boundaries: vec![Value::Int(10), Value::Int(20)],
        }))
    }

    fn variable(&self, name: &str) -> Option<TypedValue> {
        self.variables.get(&name.to_lowercase()).cloned()
    }

    fn global_variable(&self, name: &str) -> Option<TypedValue> {
        name.eq_ignore_ascii_case("@@rowcount").then_some(TypedValue { sql_type: SqlType::Int, value: Value::Int(7) })
    }

    fn system_function(&self, name: &str, arguments: &[SqlType]) -> Result<Option<SystemFunction>, SqlError> {
        let result = SqlType::NVarChar(MaxLength::Limited(128));
        Ok(match (name.to_uppercase().as_str(), arguments) {
            ("DB_NAME", []) => Some(SystemFunction {
                result,
                evaluate: Arc::new(|_| Ok(Value::Text("world".into()))),
                is_constant: true,
            }),
            ("OBJECT_NAME", [SqlType::Int]) => Some(SystemFunction {
                result,
                evaluate: Arc::new(|values| {
                    Ok(match values {
                        [Value::Int(id)] => Value::Text(format!("object {id}")),
                        _ => Value::Null,
                    })
                }),
                is_constant: true,
            }),
            _ => None,
        })
    }

    fn next_values(&self, sequence: &ObjectName) -> Result<NextValues, SqlError> {
        Ok(from_one(sequence))
    }

    fn next_row_value(&self, _: &ObjectName) -> Result<TypedValue, SqlError> {
        Ok(TypedValue { sql_type: SqlType::BigInt, value: Value::Int(1) })
    }

    fn function_context(&self) -> Arc<FunctionContext> {
        Arc::new(CONTEXT)
    }

    fn in_database(&self, _: &DatabaseUse) -> Box<dyn NameResolver + '_> {
        unreachable!("the world is one database")
    }
}
