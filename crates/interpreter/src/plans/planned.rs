//! Plans of statements that do not run: bound, locked and planned as if they ran, but not executed.

use std::sync::Arc;

use hobt_base::{Position, SqlError};
use hobt_tsql::ast::{Condition, Expression, Insert, InsertSource, Merge, QueryHint, SelectStatement};

use super::constant_rows;
use crate::change::Change;
use crate::failure::Failure;
use crate::insert::{locks_table, with_tables_of};
use crate::interpreter::Interpreter;
use crate::output_clause::OutputTarget;
use crate::query::{assigns, bind_options, into_of, one_stream};
use hobt_binder::{BindOptions, Binder, BoundChange, BoundMerge, BoundQuery, QueryHints};
use hobt_operators::insert_plan;
use hobt_planner::{FinishPlan, Texts, changes, explain, fills_new};
use hobt_showplan::{PlanNode, StatisticsRead, TableName};

/// A plan, and the number of workers that it may use.
pub(super) struct Planned {
    pub(super) root: PlanNode,
    pub(super) degree: usize,
    pub(super) statistics: Vec<StatisticsRead>,
}

impl Planned {
    /// The plan of a `VALUES` list.
    fn constant(rows: u64) -> Planned {
        Planned { root: constant_rows(rows, false), degree: 1, statistics: Vec::new() }
    }
}

/// Binds a query.
type Bind<'b> = &'b dyn Fn(&Binder<'_>) -> Result<BoundQuery, SqlError>;

impl Interpreter<'_> {
    /// Plans the query that `bind` binds, under these hints.
    fn planned(&mut self, hints: &[QueryHint], text: &str, bind: Bind<'_>) -> Result<Planned, Failure> {
        let hints = QueryHints::read(hints).map_err(Failure::of_binding)?;
        self.planned_by(&hints, bind_options(&hints), text, bind, &one_stream)
    }

    fn planned_by(
        &mut self,
        hints: &QueryHints,
        options: BindOptions,
        text: &str,
        bind: Bind<'_>,
        finish: FinishPlan<'_>,
    ) -> Result<Planned, Failure> {
        let run = self.new_run(Some(hints))?;
        let planned = self.in_run(&run, |this| {
            let planned = this.plan(&run, options, bind, finish, false)?;
            let texts = Texts::new(hobt_tsql::text_constants(text));
            let degree = run.degree();
            let root = explain(planned.plan(), &texts, false, degree);
            Ok(Planned { root, degree, statistics: run.statistics_read() })
        });
        // The cost of planning is not a cost of running.
        self.scope.cost = None;
        planned
    }

    pub(super) fn planned_select(&mut self, select: &SelectStatement, text: &str) -> Result<Planned, Failure> {
        let bind = |binder: &Binder<'_>| match assigns(&select.query) {
            true => binder.bind_assignments(&select.query).map(|bound| bound.query),
            false => binder.bind_query(&select.query),
        };
        let Some(into) = into_of(&select.query) else { return self.planned(&select.options, text, &bind) };
        let (place, _) = self.new_table_place(&into.name)?;
        let hints = QueryHints::read(&select.options).map_err(Failure::of_binding)?;
        let mut planned = self.planned_by(&hints, bind_options(&hints), text, &bind, &Ok)?;
        let (database, schema) = (place.database.name().to_owned(), place.schema);
        planned.root = fills_new(TableName { database, schema, table: into.name.name.value.clone() }, planned.root);
        Ok(planned)
    }

    /// The plan of a condition. `None` if it needs no query.
    pub(super) fn planned_condition(
        &mut self,
        condition: &Condition,
        position: Position,
        text: &str,
    ) -> Result<Option<Planned>, Failure> {
        let needs_query = {
            let names = self.names_alone();
            let binder = Binder::new(&names, BindOptions::default());
            Binder::needs_query(&binder.bind_condition(condition, position).map_err(Failure::of_binding)?)
        };
        if !needs_query {
            return Ok(None);
        }
        let bind = |binder: &Binder<'_>| binder.bind_scalar_query(binder.bind_condition(condition, position)?);
        self.planned(&[], text, &bind).map(Some)
    }

    /// The plan of an expression outside a query. `None` if it needs no query.
    pub(super) fn planned_value(&mut self, value: &Expression, text: &str) -> Result<Option<Planned>, Failure> {
        let needs_query = {
            let names = self.names_alone();
            let binder = Binder::new(&names, BindOptions::default());
            Binder::needs_query(&binder.bind_scalar(value).map_err(Failure::of_binding)?)
        };
        if !needs_query {
            return Ok(None);
        }
        let bind = |binder: &Binder<'_>| binder.bind_scalar_query(binder.bind_scalar(value)?);
        self.planned(&[], text, &bind).map(Some)
    }

    pub(super) fn planned_insert(&mut self, insert: &Insert, text: &str) -> Result<Planned, Failure> {
        let target = self.insert_target(insert)?;
        let mut planned = match &insert.source {
            InsertSource::Query { query } => {
                let query = with_tables_of(insert, query);
                let hints = QueryHints::read(&insert.options).map_err(Failure::of_binding)?;
                let parallel = locks_table(insert);
                let store = target.store()?;
                let bind = |binder: &Binder<'_>| {
                    binder.limited(binder.bind_insert_source(&query, target.columns())?, insert.top.as_ref())
                };
                let finish = |plan| insert_plan(plan, &store, parallel);
                self.planned_by(&hints, bind_options(&hints), text, &bind, &finish)?
            }
            InsertSource::Values { rows } => Planned::constant(rows.len() as u64),
            InsertSource::DefaultValues | InsertSource::Execute { .. } => Planned::constant(1),
        };
        let (database, table) = target.table();
        planned.root = changes("INSERT", &database, &table, None, planned.root);
        Ok(planned)
    }

    pub(super) fn planned_change(&mut self, change: Change<'_>, text: &str) -> Result<Planned, Failure> {
        let into = match change.output() {
            Some(output) => self.output_target(output)?,
            None => None,
        };
        let columns = into.as_ref().map(OutputTarget::columns);
        let bound: std::cell::RefCell<Option<BoundChange>> = std::cell::RefCell::default();
        let mut planned = self.planned(change.options(), text, &|binder| {
            let change = change.bind(binder, columns)?;
            let query = change.query.clone();
            *bound.borrow_mut() = Some(change);
            Ok(query)
        })?;
        let bound = bound.into_inner().ok_or_else(|| SqlError::internal("a change that was not bound"))?;
        let (kind, changed) = match &bound.values {
            Some(values) => ("UPDATE", Some(values.columns().collect::<Vec<_>>())),
            None => ("DELETE", None),
        };
        let table = &bound.table;
        planned.root = changes(kind, table.database(), table.table(), changed.as_deref(), planned.root);
        Ok(planned)
    }

    pub(super) fn planned_merge(&mut self, merge: &Merge, text: &str) -> Result<Planned, Failure> {
        let hints = QueryHints::read(&merge.options).map_err(Failure::of_binding)?;
        let options = BindOptions { brings_matched: self.state.options.row_count == 0, ..bind_options(&hints) };
        let into = match &merge.output {
            Some(output) => self.output_target(output)?,
            None => None,
        };
        let columns = into.as_ref().map(OutputTarget::columns);
        let bound: std::cell::RefCell<Option<BoundMerge>> = std::cell::RefCell::default();
        let bind = |binder: &Binder<'_>| {
            let merge = binder.bind_merge(merge, columns)?;
            let query = merge.query.clone();
            *bound.borrow_mut() = Some(merge);
            Ok(query)
        };
        let mut planned = self.planned_by(&hints, options, text, &bind, &one_stream)?;
        let bound = bound.into_inner().ok_or_else(|| SqlError::internal("a MERGE that was not bound"))?;
        let table = &bound.table;
        let (database, table) = (table.database().clone(), Arc::clone(table.table()));
        planned.root = changes("MERGE", &database, &table, None, planned.root);
        Ok(planned)
    }
}
