//! `BULK INSERT` and `COPY INTO`: an `INSERT` whose query reads files.

use std::sync::Arc;

use hobt_base::{SqlError, errors};
use hobt_catalog::Table;
use hobt_files::FileBatches;
use hobt_tsql::ast::{
    BulkInsert, ChangeTarget, ColumnName, Expression, FileSource, FileTarget, FunctionArguments, FunctionCall,
    Identifier, Insert, InsertSource, ObjectName, Query, QueryBody, Select, SelectItem, Span, TableHint, TableSource,
    TargetName,
};

use super::options::FileOptions;
use crate::direct::learned::Learned;
use crate::event::DoneKind;
use crate::failure::Failure;
use crate::interpreter::{Interpreter, Outcome};
use crate::names::invalid_object;

impl Interpreter<'_> {
    /// Loads files into a table.
    pub(crate) fn bulk_insert(&mut self, bulk: &BulkInsert, span: Span) -> Result<Outcome, Failure> {
        let options = FileOptions::read(&bulk.options).map_err(Failure::of_binding)?;
        let place = self.place(&bulk.target).map_err(Failure::of_binding)?;
        let snapshot = place.database.snapshot();
        let found = snapshot.schema_id(&place.schema).and_then(|schema| snapshot.table(schema, &place.name));
        let table = found.cloned().ok_or_else(|| Failure::of_binding(invalid_object(&bulk.target)))?;
        let insert = insert_of(bulk, &table, &options, span).map_err(Failure::of_binding)?;
        let before = self.state.identity_insert;
        let has_identity = table.columns.iter().any(|column| column.identity.is_some());
        if has_identity {
            self.state.identity_insert = options.keeps_identity.then_some((place.database.id(), table.id));
        }
        self.loads_beside_others = !has_identity;
        self.file_batches = options.batch_rows.map(|_| Arc::new(FileBatches::new(options.max_errors)));
        let done = self.insert_batches(&insert, options.batch_rows);
        (self.loads_beside_others, self.file_batches) = (false, None);
        self.state.identity_insert = before;
        done
    }
}

impl Interpreter<'_> {
    /// Runs the `INSERT` of a load once, or, with `batch_rows`, for so many rows at a time until all are in the table. Each
    /// is a transaction of its own, unless one is open.
    fn insert_batches(&mut self, insert: &Insert, batch_rows: Option<u64>) -> Result<Outcome, Failure> {
        let (Some(batch_rows), Some(batches)) = (batch_rows, self.file_batches.clone()) else {
            return self.insert(insert, false, &mut Learned::default());
        };
        let mut rows = 0;
        loop {
            batches.begin(usize::try_from(batch_rows).unwrap_or(usize::MAX));
            let done = self.insert(insert, false, &mut Learned::default())?;
            rows += done.rows.unwrap_or(0);
            if batches.is_finished() {
                return Ok(Outcome::counted(DoneKind::Insert, rows));
            }
        }
    }
}

/// The `INSERT` that a load is.
fn insert_of(bulk: &BulkInsert, table: &Table, options: &FileOptions, span: Span) -> Result<Insert, SqlError> {
    let mut names = Vec::new();
    let mut items = Vec::new();
    for column in table.columns.iter().filter(|column| column.computed.is_none()) {
        if column.identity.is_some() && !options.keeps_identity {
            continue;
        }
        let name = Identifier { quoted: true, ..Identifier::new(column.name.clone()) };
        let mut value = Expression::Column { name: Box::new(ColumnName { qualifier: None, name: name.clone() }) };
        if let Some(default) = column.default.as_ref().filter(|_| !options.keeps_nulls) {
            value = coalesce(value, hobt_tsql::parse_expression(&default.definition)?, span);
        }
        names.push(name.clone());
        items.push(SelectItem::Value { value, alias: Some(name) });
    }
    if items.is_empty() {
        return Err(errors::BULK_WITHOUT_COLUMNS.with([&table.name]).at(bulk.position));
    }
    let target = FileTarget { name: bulk.target.clone(), columns: Vec::new() };
    let source = FileSource {
        files: bulk.files.clone(),
        options: bulk.options.clone(),
        columns: Vec::new(),
        target: Some(target),
        alias: None,
        span,
    };
    let select = Select {
        distinct: false,
        top: None,
        items,
        into: None,
        from: vec![TableSource::Files(Box::new(source))],
        condition: None,
        group_by: None,
        having: None,
        windows: Vec::new(),
        span,
    };
    let body = QueryBody::Select(Box::new(select));
    let query = Query { with: Vec::new(), body, order_by: Vec::new(), offset: None, span };
    let hints = if options.locks_table { vec![TableHint::TabLock] } else { Vec::new() };
    Ok(Insert {
        with: Vec::new(),
        top: None,
        target: ChangeTarget { name: TargetName::Object(bulk.target.clone()), hints, span },
        columns: names,
        output: None,
        source: InsertSource::Query { query: Box::new(query) },
        options: Vec::new(),
    })
}

/// `COALESCE(value, default)`.
fn coalesce(value: Expression, default: Expression, span: Span) -> Expression {
    Expression::Function {
        call: Box::new(FunctionCall {
            name: ObjectName::simple(Identifier::new("COALESCE")),
            arguments: FunctionArguments::List { distinct: false, values: vec![value, default] },
            ignore_nulls: None,
            within_group: Vec::new(),
            over: None,
            span,
        }),
    }
}
