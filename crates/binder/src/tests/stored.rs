//! Stored tables for golden tests: an instance on a simulated disk, with a database of a shop. The planner's tests have
//! it, too.

use std::sync::Arc;

use hobt_base::{SessionId, SqlError, errors};
use hobt_catalog::{IndexOptions, PartitionFunction, row_image};
use hobt_disk::{SimulatedConfig, SimulatedDisk};
use hobt_engine::{
    ColumnDefinition, DataSpaceDefinition, DatabaseDefinition, DatabaseUse, IndexDefinition, Instance,
    InstanceSettings, KeyKind, TableDefinition, TableWriter,
};
use hobt_functions::FunctionContext;
use hobt_table::{RunSettings, StatementRun, TableRead};
use hobt_tsql::ast::{FileSource, Identifier, ObjectName, VariableName};
use hobt_types::{MaxLength, SqlType, TypedValue, Value};
use hobt_udf::NextValues;

use hobt_binder::{NameResolver, Resolved, ScanHints, SourceColumn, SystemFunction};

const VIEW: &str = "CREATE VIEW dbo.big_orders AS SELECT id, customer, total FROM dbo.orders WHERE total > 100";
const FUNCTION: &str = "CREATE FUNCTION dbo.lines_of (@order int) RETURNS TABLE AS RETURN SELECT line, product, \
                        quantity * price AS amount FROM dbo.item WHERE order_id = @order";

/// The shop's tables, and one statement that reads them.
pub(crate) struct Shop {
    database: DatabaseUse,
    /// The statement.
    pub(crate) run: Arc<StatementRun>,
}

/// The clock and the seed of a statement.
pub(crate) const CONTEXT: FunctionContext = FunctionContext { now_local: 0, now_utc: 0, random_seed: 42 };

/// A sequence whose values begin at 1 with each statement.
pub(crate) fn from_one(sequence: &ObjectName) -> NextValues {
    let take = |count: u64, take: &mut dyn FnMut(i128, u64)| {
        take(1, count);
        Ok(())
    };
    NextValues::new(sequence.name.value.clone(), SqlType::BigInt, 1, Arc::new(take))
}

fn text(length: u16) -> SqlType {
    SqlType::VarChar(MaxLength::Limited(length))
}

fn key(name: &str, columns: &[&str]) -> IndexDefinition {
    IndexDefinition { constraint: Some(KeyKind::Primary), ..index(name, columns, &[]) }
}

fn index(name: &str, columns: &[&str], included: &[&str]) -> IndexDefinition {
    IndexDefinition {
        name: Some(name.to_owned()),
        is_clustered: None,
        columns: columns.iter().map(|&column| (column.to_owned(), false)).collect(),
        included: included.iter().map(|&column| column.to_owned()).collect(),
        data_space: DataSpaceDefinition::Default,
        constraint: None,
        options: IndexOptions::default(),
        drops_existing: false,
    }
}

/// Makes a table: its name, its columns (a `?` behind a name allows NULL), its indexes, the number of its rows.
type MakeTable<'m> = &'m dyn Fn(&str, &[(&str, SqlType)], Vec<IndexDefinition>, i64);

fn make_tables(make: MakeTable<'_>) {
    let (int, money) = (SqlType::Int, SqlType::Decimal { precision: 9, scale: 2 });
    let customer = [("id", int), ("name", text(30)), ("city?", text(20)), ("since", SqlType::Date)];
    make("customer", &customer, vec![key("pk_customer", &["id"])], 50);
    let orders = [("id", int), ("customer?", int), ("placed", SqlType::DateTime2 { scale: 3 }), ("total", money)];
    let by_customer = index("by_customer", &["customer", "placed"], &["total"]);
    make("orders", &orders, vec![key("pk_orders", &["id"]), by_customer], 2000);
    let item = [("order_id", int), ("line", int), ("product", int), ("quantity", SqlType::SmallInt), ("price", money)];
    make("item", &item, vec![key("pk_item", &["order_id", "line"])], 3000);
    let title = SqlType::NVarChar(MaxLength::Limited(40));
    make("product", &[("id", int), ("title?", title), ("kind", SqlType::Char(1))], vec![], 30);
    let (float, bit) = (SqlType::Float, SqlType::Bit);
    let event = [("at", int), ("until", int), ("what?", text(8000)), ("weight?", float), ("done", bit)];
    make("event", &event, vec![], 400);
}

/// A value of a column, which follows from the row's number.
fn value(sql_type: SqlType, row: i64) -> Value {
    match sql_type {
        SqlType::Decimal { .. } => Value::Decimal(i128::from(row) * 125),
        SqlType::Float => Value::Float(row as f64 / 4.0),
        SqlType::Bit => Value::Int(row % 2),
        SqlType::SmallInt => Value::Int(row % 10),
        SqlType::DateTime2 { .. } => Value::Int(row * 36_000_000_000),
        sql_type if sql_type.is_text() => Value::Text(["a", "b", "c"][(row % 3) as usize].to_owned()),
        _ => Value::Int(row),
    }
}

impl Shop {
    /// Opens an instance in memory and fills the database. Plans are for one worker, so that they are alike on every
    /// machine.
    pub(crate) fn open() -> Shop {
        let disk = SimulatedDisk::start(SimulatedConfig::default()).expect("a disk in memory");
        let settings =
            InstanceSettings { memory_bytes: Some(64 << 20), pool_bytes: Some(8 << 20), ..InstanceSettings::default() };
        let instance = Instance::open_on(disk, "/shop".as_ref(), settings).expect("an instance");
        let definition = DatabaseDefinition { name: "shop".to_owned(), ..DatabaseDefinition::default() };
        let database = instance.create_database(&definition).expect("a database").database;
        make_tables(&|name, columns, indexes, rows| {
            let column = |(name, sql_type): &(&str, SqlType)| {
                ColumnDefinition::new(name.trim_end_matches('?'), *sql_type, name.ends_with('?'))
            };
            let definition = TableDefinition {
                schema: "dbo".to_owned(),
                name: name.to_owned(),
                columns: columns.iter().map(column).collect(),
                data_space: DataSpaceDefinition::Default,
                indexes,
            };
            fill(&instance, &database, &definition, rows);
        });
        let settings = RunSettings { max_dop: Some(1), ..RunSettings::default() };
        let run = StatementRun::new(&instance, SessionId(51), None, Arc::default(), settings).expect("a statement");
        Shop { database, run }
    }
}

fn fill(instance: &Instance, database: &DatabaseUse, definition: &TableDefinition, rows: i64) {
    let ctx = instance.statement_context(SessionId(51), 1, Arc::default()).expect("the instance is open");
    let table = database.create_table(&ctx, definition).expect("a table");
    instance.end_statement(&ctx, true, &[]).expect("committed");
    let ctx = instance.statement_context(SessionId(51), 1, Arc::default()).expect("the instance is open");
    let writer = TableWriter::open(database, &database.snapshot(), Arc::clone(&table)).expect("a new table");
    for row in 0..rows {
        let types = table.columns.iter().map(|column| column.sql_type);
        let mut values: Vec<Value> = types.clone().map(|sql_type| value(sql_type, row)).collect();
        match table.name.as_str() {
            "orders" => values[1] = Value::Int(row % 50),
            "item" => {
                (values[0], values[1], values[2]) = (Value::Int(row / 3), Value::Int(row % 3), Value::Int(row % 30))
            }
            "event" => values[1] = Value::Int(row + 5),
            _ => {}
        }
        writer.insert(&ctx, 0, &row_image(types, &values).expect("values of the columns")).expect("a new key");
    }
    instance.end_statement(&ctx, true, &[]).expect("committed");
}

impl NameResolver for Shop {
    fn resolve(&self, name: &ObjectName, hints: &ScanHints<'_>) -> Result<Resolved, SqlError> {
        let word = &name.name.value;
        if word == "big_orders" {
            return Ok(Resolved::View { definition: VIEW.to_owned(), database: None });
        }
        let snapshot = self.database.snapshot();
        let unknown = || errors::INVALID_OBJECT.with([word]);
        let table = Arc::clone(snapshot.table(1, word).ok_or_else(unknown)?);
        let column = |column: &hobt_catalog::TableColumn| SourceColumn {
            name: column.name.clone(),
            sql_type: column.sql_type,
            nullable: column.nullable,
            collation: column.collation,
        };
        let columns = table.columns.iter().map(column).collect();
        let read = TableRead::new(self.database.clone(), table, Arc::clone(&self.run), hints.places, false);
        Ok(Resolved::Table { source: read, columns })
    }

    fn resolve_function(&self, name: &ObjectName, _: &[Option<TypedValue>]) -> Result<Resolved, SqlError> {
        match name.name.value.as_str() {
            "lines_of" => Ok(Resolved::InlineFunction { definition: FUNCTION.to_owned(), database: None }),
            other => Err(errors::INVALID_OBJECT.with([&other])),
        }
    }

    fn resolve_variable_table(&self, name: &VariableName, _: &ScanHints<'_>) -> Result<Resolved, SqlError> {
        Err(errors::UNDECLARED_TABLE_VARIABLE.with([&name.value]))
    }

    fn resolve_files(&self, _: &FileSource, _: &[SqlType]) -> Result<Resolved, SqlError> {
        Err(SqlError::not_supported("files in this shop"))
    }

    fn partition_function(
        &self,
        _: Option<&Identifier>,
        name: &Identifier,
    ) -> Result<Arc<PartitionFunction>, SqlError> {
        Err(errors::INVALID_OBJECT.with([&name.value]))
    }

    fn variable(&self, name: &str) -> Option<TypedValue> {
        let (sql_type, value) = match name {
            "@n" => (SqlType::Int, Value::Int(7)),
            "@name" => (text(30), Value::Text("a".to_owned())),
            _ => return None,
        };
        Some(TypedValue { sql_type, value })
    }

    fn global_variable(&self, name: &str) -> Option<TypedValue> {
        (name == "@@rowcount").then_some(TypedValue { sql_type: SqlType::Int, value: Value::Int(1) })
    }

    fn system_function(&self, _: &str, _: &[SqlType]) -> Result<Option<SystemFunction>, SqlError> {
        Ok(None)
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
        unreachable!("the shop is one database")
    }
}
