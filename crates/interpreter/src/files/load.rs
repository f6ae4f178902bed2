//! `BULK INSERT` and `COPY INTO`: an `INSERT` whose query reads files.

use std::sync::Arc;

use hobt_base::{SqlError, errors};
use hobt_catalog::{Table, TableColumn};
use hobt_files::FileBatches;
use hobt_files::format_file::FormatFile;
use hobt_tsql::ast::{
    BulkInsert, ChangeTarget, ColumnName, Expression, FileSource, FileTarget, FunctionArguments, FunctionCall,
    Identifier, Insert, InsertSource, ObjectName, Query, QueryBody, Select, SelectItem, Span, TableHint, TableSource,
    TargetName,
};
use hobt_types::{MaxLength, SqlType};

use super::options::FileOptions;
use super::records::format_file;
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
        let format = format_file(self.environment, &options).map_err(Failure::of_binding)?;
        let insert = insert_of(bulk, &table, &options, format.as_ref(), span).map_err(Failure::of_binding)?;
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
    /// Runs the `INSERT` of a load once, or, with `batch_rows`, for so many rows at a time until all are in the table.
    /// Each is a transaction of its own, unless one is open.
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

/// A column of the table that a load fills.
struct Loaded<'t> {
    column: &'t TableColumn,
    /// The field that fills it, from 0.
    field: usize,
    /// What an empty field stands for, if it is not the column's default.
    default: Option<Expression>,
}

/// The columns that a load fills, and how many fields a row has, if a list does not pick some by number. Without a list
/// and a format file the fields are those of all columns that are not computed, in their order.
///
/// # Errors
/// 207 for a column that is not there; 4828 for a number that no column has.
fn loaded_columns<'t>(
    bulk: &BulkInsert,
    table: &'t Table,
    format: Option<&FormatFile>,
) -> Result<(Vec<Loaded<'t>>, Option<usize>), SqlError> {
    let stored = || table.columns.iter().filter(|column| column.computed.is_none());
    let loaded = |column, field| Loaded { column, field, default: None };
    if let Some(format) = format {
        let mut columns = Vec::new();
        if format.columns.is_empty() {
            for (at, field) in format.fields.iter().enumerate() {
                let Some(number) = field.column else { continue };
                let found = table.columns.iter().find(|column| i64::from(column.id) == i64::from(number));
                let found = found.filter(|column| column.computed.is_none());
                columns.push(loaded(found.ok_or_else(|| errors::FORMAT_FILE_TARGET.with([&(at + 1), &""]))?, at));
            }
        } else {
            for column in &format.columns {
                let place = table.column_named(&column.name);
                let place = place.ok_or_else(|| errors::INVALID_COLUMN.with([&column.name]))?;
                columns.push(loaded(&table.columns[place], column.field));
            }
        }
        return Ok((columns, Some(format.fields.len())));
    }
    if bulk.columns.is_empty() {
        let columns: Vec<Loaded<'t>> = stored().enumerate().map(|(field, column)| loaded(column, field)).collect();
        let fields = columns.len();
        return Ok((columns, Some(fields)));
    }
    let mut columns = Vec::with_capacity(bulk.columns.len());
    for (at, listed) in bulk.columns.iter().enumerate() {
        let place = table.column_named(&listed.name.value);
        let place = place.ok_or_else(|| errors::INVALID_COLUMN.with([&listed.name.value]).at(listed.name.position))?;
        let field = match listed.field {
            None => at,
            Some(number @ 1..=32_767) => number as usize - 1,
            Some(_) => return Err(errors::BULK_ORDINAL.with([&listed.name.value]).at(listed.name.position)),
        };
        columns.push(Loaded { column: &table.columns[place], field, default: listed.default.clone() });
    }
    let has_numbers = bulk.columns.iter().any(|listed| listed.field.is_some());
    let fields = if has_numbers { None } else { Some(columns.len()) };
    Ok((columns, fields))
}

/// A type that takes all values of a kind: a default that is too long for its column is an error of the insert, and a
/// `CAST` to the column's type would cut it.
fn without_bound(sql_type: SqlType) -> SqlType {
    match sql_type {
        SqlType::Char(_) | SqlType::VarChar(_) => SqlType::VarChar(MaxLength::Max),
        SqlType::NChar(_) | SqlType::NVarChar(_) => SqlType::NVarChar(MaxLength::Max),
        SqlType::Binary(_) | SqlType::VarBinary(_) => SqlType::VarBinary(MaxLength::Max),
        other => other,
    }
}

/// The `INSERT` that a load is.
fn insert_of(
    bulk: &BulkInsert,
    table: &Table,
    options: &FileOptions,
    format: Option<&FormatFile>,
    span: Span,
) -> Result<Insert, SqlError> {
    let (loaded, fields) = loaded_columns(bulk, table, format)?;
    let mut names = Vec::new();
    let mut items = Vec::new();
    let mut of_fields = Vec::new();
    for Loaded { column, field, default } in loaded {
        let name = Identifier { quoted: true, ..Identifier::new(column.name.clone()) };
        of_fields.push((name.clone(), field));
        if column.identity.is_some() && !options.keeps_identity {
            continue;
        }
        let mut value = Expression::Column { name: Box::new(ColumnName { qualifier: None, name: name.clone() }) };
        let default = default.map(|default| default.to_string());
        let default = default.or_else(|| column.default.as_ref().map(|default| default.definition.clone()));
        if let Some(default) = default.filter(|_| !options.keeps_nulls) {
            // COALESCE has the type of higher rank, which may be that of the default.
            let of_column = format!("CAST(({default}) AS {})", without_bound(column.sql_type));
            value = coalesce(value, hobt_tsql::parse_expression(&of_column)?, span);
        }
        names.push(name.clone());
        items.push(SelectItem::Value { value, alias: Some(name) });
    }
    if items.is_empty() {
        return Err(errors::BULK_WITHOUT_COLUMNS.with([&table.name]).at(bulk.position));
    }
    let target = FileTarget { name: bulk.target.clone(), columns: of_fields, fields, is_copy: bulk.is_copy };
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
