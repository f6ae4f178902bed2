//! `INSERT … SELECT`. A query that does not list all columns is wrapped into one that does, so the executor always
//! receives complete rows.

use std::sync::Arc;

use hobt_base::SqlError;
use hobt_tsql::ast::{
    ColumnName, Expression, FunctionArguments, FunctionCall, Identifier, Insert, Literal, ObjectName, Offset,
    OrderItem, Query, QueryBody, Select, SelectItem, Span, TableAlias, TableSource, Window,
};

use super::{Write, locks_table, with_tables_of};
use crate::failure::Failure;
use crate::insert_target::Target;
use crate::interpreter::Interpreter;
use crate::names::UsedTable;
use crate::query::{bind_options, one_stream};
use crate::stored_table::stored_batch;
use hobt_binder::{BindOptions, Binder, BoundQuery, QueryHints, TargetColumn};
use hobt_operators::{HeldBatches, insert_held};
use hobt_table::{StatementRun, Writes};

/// The name of the wrapped query.
const SOURCE: &str = "inserted_rows";

impl Interpreter<'_> {
    pub(super) fn insert_from_query(
        &mut self,
        run: &Arc<StatementRun>,
        write: &Write,
        insert: &Insert,
        query: &Query,
        hints: &QueryHints,
    ) -> Result<u64, Failure> {
        let target = &write.target;
        let options = bind_options(hints);
        let query = with_tables_of(insert, query);
        let parallel = locks_table(insert);
        let is_whole = target.listed().iter().copied().eq(0..target.table.columns.len());
        if is_whole {
            let bind = |binder: &Binder<'_>| {
                binder.limited(binder.bind_insert_source(&query, target.columns())?, insert.top.as_ref())
            };
            let rows = self.insert_bound(run, options, &bind, write, parallel)?;
            self.reseed_by_table(run, target)?;
            return Ok(rows);
        }
        let identity = target.table.columns.iter().position(|column| column.identity.is_some());
        let identity = match identity.filter(|_| target.explicit_identity().is_none()) {
            Some(place) => {
                self.check_implicit_identity(&target.place.database, &target.table)?;
                Some((place, self.identity_values(run, target, &target.table.columns[place])?))
            }
            None => None,
        };
        let wrapped = wrap(target, query, identity.is_some())?;
        let all = hobt_binder::InsertTarget {
            table: target.table.name.clone(),
            columns: target
                .table
                .columns
                .iter()
                .map(|column| TargetColumn { name: column.name.clone(), sql_type: column.sql_type })
                .collect(),
        };
        let bind = |binder: &Binder<'_>| {
            let bound = binder.bind_wrapped_insert_source(&wrapped, &all, identity.as_ref())?;
            binder.limited(bound, insert.top.as_ref())
        };
        let rows = self.insert_bound(run, options, &bind, write, parallel)?;
        if let Some(last) = identity.and_then(|(_, values)| values.taken_by(rows)) {
            self.note_identity(last);
        }
        self.reseed_by_table(run, target)?;
        Ok(rows)
    }

    /// Makes the identity continue after the table's greatest value, if the query supplied identity values.
    fn reseed_by_table(&mut self, run: &Arc<StatementRun>, target: &Target) -> Result<(), Failure> {
        self.reseed(run, target, |this, column| this.last_identity(&target.place, column))
    }

    /// Runs a bound query into the target, and returns the inserted rows through `OUTPUT`.
    fn insert_bound(
        &mut self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        bind: &dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>,
        write: &Write,
        parallel: bool,
    ) -> Result<u64, Failure> {
        let Some(sink) = &write.sink else { return self.insert_query(run, options, bind, &write.store, parallel) };
        let mut held = HeldBatches::new(run);
        let prepared = self.prepare(run, options, bind, &one_stream)?;
        self.follow(run, &prepared, Writes::OneByOne, 1.0);
        self.run_prepared(run, prepared, &mut |batch| held.keep(stored_batch(&write.store, &batch)?))?;
        run.begin_writing(held.row_count());
        let rows = insert_held(run, &write.store, held.row_count(), held.batches()?)?;
        self.put_out_inserted(run, sink, held.batches()?)?;
        Ok(rows)
    }

    /// Checks the query's number of columns. Without a column list, a mismatch is 213; with one, the binder raises 120
    /// or 121. Returns the tables that the query reads.
    pub(super) fn check_width(
        &self,
        run: &Arc<StatementRun>,
        options: BindOptions,
        target: &Target,
        query: &Query,
    ) -> Result<Vec<UsedTable>, Failure> {
        let names = self.names(run);
        let binder = Binder::new(&names, options);
        if target.is_explicit {
            binder.bind_insert_source(query, target.columns()).map_err(Failure::of_binding)?;
        } else {
            let bound = binder.bind_query(query).map_err(Failure::of_binding)?;
            let width = bound.columns.len();
            if width != target.listed().len() {
                return Err(Failure::of_binding(target.wrong_width(width).at(query.span.position)));
            }
        }
        drop(binder);
        Ok(names.into_used())
    }
}

/// Wraps a query with the listed columns into one with all columns of the table. In place of identity values it returns
/// row numbers.
fn wrap(target: &Target, mut query: Query, numbers_identity: bool) -> Result<Query, SqlError> {
    let span = query.span;
    let with = std::mem::take(&mut query.with);
    let has_limit = matches!(&query.body, QueryBody::Select(select) if select.top.is_some()) || query.offset.is_some();
    if !has_limit && !query.order_by.is_empty() {
        match numbers_identity {
            // In a subquery, ORDER BY is only kept together with OFFSET.
            true => query.offset = Some(all_rows(span)),
            false => query.order_by.clear(),
        }
    }
    let names: Vec<Identifier> =
        (1..=target.listed().len()).map(|place| Identifier::new(format!("c{place}"))).collect();
    let mut items = Vec::with_capacity(target.table.columns.len());
    for (place, column) in target.table.columns.iter().enumerate() {
        let value = match target.listed().iter().position(|listed| *listed == place) {
            Some(listed) => {
                Expression::Column { name: Box::new(ColumnName { qualifier: None, name: names[listed].clone() }) }
            }
            None => match &column.default {
                _ if numbers_identity && column.identity.is_some() => row_number(span),
                Some(default) => hobt_tsql::parse_expression(&default.definition)?,
                _ => Expression::Literal { value: Literal::Null, span },
            },
        };
        items.push(SelectItem::Value { value, alias: Some(Identifier::new(column.name.clone())) });
    }
    let alias = TableAlias { name: Identifier::new(SOURCE), columns: names };
    let select = Select {
        distinct: false,
        top: None,
        items,
        into: None,
        from: vec![TableSource::Derived { query: Box::new(query), alias, span }],
        condition: None,
        group_by: None,
        having: None,
        windows: vec![],
        span,
    };
    Ok(Query { with, body: QueryBody::Select(Box::new(select)), order_by: Vec::new(), offset: None, span })
}

/// `OFFSET 0 ROWS FETCH NEXT 9223372036854775807 ROWS ONLY`.
fn all_rows(span: Span) -> Offset {
    let integer = |value: i64| Expression::Literal { value: Literal::Integer(value), span };
    Offset { skip: integer(0), fetch: Some(integer(i64::MAX)) }
}

/// `ROW_NUMBER() OVER (ORDER BY (SELECT NULL))`.
fn row_number(span: Span) -> Expression {
    let order = vec![OrderItem { value: no_order(span), descending: false }];
    Expression::Function {
        call: Box::new(FunctionCall {
            name: ObjectName::simple(Identifier::new("ROW_NUMBER")),
            arguments: FunctionArguments::List { distinct: false, values: Vec::new() },
            ignore_nulls: None,
            within_group: Vec::new(),
            over: Some(Window { order_by: order, ..Window::default() }),
            span,
        }),
    }
}

/// `(SELECT NULL)`: requests no order.
fn no_order(span: Span) -> Expression {
    let select = Select {
        distinct: false,
        top: None,
        items: vec![SelectItem::Value { value: Expression::Literal { value: Literal::Null, span }, alias: None }],
        into: None,
        from: Vec::new(),
        condition: None,
        group_by: None,
        having: None,
        windows: vec![],
        span,
    };
    let query =
        Query { with: Vec::new(), body: QueryBody::Select(Box::new(select)), order_by: Vec::new(), offset: None, span };
    Expression::Subquery { query: Box::new(query), span }
}
