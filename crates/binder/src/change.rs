//! `UPDATE` and `DELETE` as queries, which return one row for each row that changes: its RID or key, and its new
//! values.
//!
//! ```text
//!   UPDATE t SET a = s.x FROM t JOIN s ON … WHERE …
//!     ──►  SELECT place, t.a, t.b, …, s.x FROM t JOIN s ON … WHERE …
//! ```
//!
//! The target is the source of `FROM` that the statement names: by its alias, or by its table's name if one source has
//! that table under an alias. If `FROM` does not have the target, it is added as a source. A join can return a row of
//! the target more than once. The executor then uses the first, since T-SQL leaves open which one counts.
//!
//! Not done here: new values and variables (`change_values`), `OUTPUT` (`change_output`), finding the stored rows
//! behind a source (`stored`), changing the rows.

use std::sync::Arc;

use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use hobt_base::{Position, SqlError, errors};
use hobt_tsql::ast::{
    ChangeTarget, CommonTableExpression, Condition, Delete, Identifier, NamedTable, ObjectName, Output, TableAlias,
    TableHint, TableSource, TargetName, Top, Update,
};

use super::bound::{BoundExpr, BoundQuery, ResultColumn};
use super::change_output::{BoundOutput, OutputColumn, OutputTable};
use super::change_values::{BoundValues, NewValues};
use super::hash_join::{all_join_by_hash, no_equations};
use super::insert::InsertTarget;
use super::row_by_row::is_row_by_row;
use super::scope::{Cte, Names, Scope, same_name};
use super::stored::{Stored, StoredRows};
use super::{Binder, Clause, Site, shared, with_cte};
use hobt_table::{RowLimit, TableRead, UnseenUse, place_type};
use hobt_udf::sql_error_of;

/// The rows of an `UPDATE` or `DELETE`.
#[derive(Clone, Debug)]
pub struct BoundChange {
    /// One row for each row to change. Its first column is the position of that row, which is NULL if an outer join has
    /// no row.
    pub query: BoundQuery,
    /// The table that is changed.
    pub table: Arc<TableRead>,
    /// Whether the query can return a row more than once.
    pub repeats: bool,
    /// How many different rows to change; `None` if the query itself has no more than that.
    pub limit: Option<RowLimit>,
    /// For each column of the table, the query's column with its old value; `None` if that is not read.
    pub before: Vec<Option<usize>>,
    /// The new values of the rows; `None` for a `DELETE`.
    pub values: Option<BoundValues>,
    /// `OUTPUT`.
    pub output: Option<BoundOutput>,
}

impl BoundChange {
    /// Sets how the scan treats rows of the target that other transactions are changing. Must be called before the
    /// query is planned.
    pub fn watch_unseen(&self) {
        let Some(unseen) = self.table.unseen() else { return };
        // A percentage needs the count of all rows.
        let is_counted = matches!(self.limit, Some(RowLimit::Percent(_)));
        unseen.use_so(match !is_counted && is_row_by_row(&self.query.plan, unseen) {
            true => UnseenUse::Shown,
            false => UnseenUse::Noted,
        });
    }
}

/// The columns that a query of changes must return.
#[derive(Default)]
pub(super) struct Parts {
    /// The columns, with their names.
    exprs: Vec<(Expr, String)>,
    kinds: Vec<ResultColumn>,
}

impl Parts {
    /// Adds a value, and returns its index among the columns. A column of a source is added only once.
    pub(super) fn add(&mut self, binder: &Binder<'_>, value: BoundExpr) -> usize {
        let is_column = matches!(value.expr, Expr::Column(_));
        if let Some(known) = self.exprs.iter().position(|(known, _)| is_column && *known == value.expr) {
            return known;
        }
        let kind = ResultColumn { name: None, sql_type: value.sql_type, nullable: value.nullable, collation: None };
        self.kinds.push(kind);
        self.exprs.push((value.expr, binder.fresh("part")));
        self.exprs.len() - 1
    }

    /// Adds a column that is read by its name.
    pub(super) fn add_named(&mut self, expr: Expr, name: String) {
        self.exprs.push((expr, name));
    }
}

/// The clauses that `UPDATE` and `DELETE` share.
struct Clauses<'s> {
    with: &'s [CommonTableExpression],
    top: Option<&'s Top>,
    target: &'s ChangeTarget,
    from: &'s [TableSource],
    condition: Option<&'s Condition>,
}

/// The rows of a target.
pub(super) struct Target<'p> {
    pub(super) plan: LogicalPlan,
    pub(super) scope: Scope,
    /// The target's index among the sources.
    pub(super) place: usize,
    pub(super) stored: StoredRows,
    pub(super) names: Names<'p>,
    pub(super) repeats: bool,
    pub(super) limit: Option<RowLimit>,
    pub(super) position: Position,
}

impl Target<'_> {
    pub(super) fn site(&self, clause: Clause) -> Site<'_> {
        Site { scope: &self.scope, names: &self.names, clause, collector: None }
    }
}

impl Binder<'_> {
    /// Binds an `UPDATE`. `into` has the columns that its `OUTPUT … INTO` fills.
    ///
    /// # Errors
    /// As [`Binder::bind_query`]; also 157, 264, 4403, 4405, 4406, 8102 and 8154.
    pub fn bind_update(&self, update: &Update, into: Option<&InsertTarget>) -> Result<BoundChange, SqlError> {
        let target = self.target(&Clauses {
            with: &update.with,
            top: update.top.as_ref(),
            target: &update.target,
            from: &update.from,
            condition: update.condition.as_ref(),
        })?;
        let mut parts = Parts::default();
        parts.add(self, place_of(&target)?);
        let (values, next_values) =
            self.collecting_next_values(|| self.new_values(&update.assignments, &target, &mut parts))?;
        let mut before = vec![None; target.stored.columns.len()];
        let is_referenced = target.stored.table.is_referenced();
        for (column, known) in target.stored.columns.iter().enumerate() {
            if is_referenced || !values.sets(column) {
                before[column] = Some(parts.add(self, known.bound(target.position)));
            }
        }
        let tables = [OutputTable::Inserted, OutputTable::Deleted];
        let output = self.output_of(update.output.as_ref(), &tables, &target, &mut before, &mut parts, into)?;
        let plan = self.with_next_values(target.plan.clone(), next_values)?;
        let (query, values) = self.changes(plan, parts, Some(values))?;
        self.bound_change(target, query, before, values, output)
    }

    /// Binds a `DELETE`; `into` as with [`Binder::bind_update`].
    ///
    /// # Errors
    /// As [`Binder::bind_query`]; also 4403, 4405 and 8154.
    pub fn bind_delete(&self, delete: &Delete, into: Option<&InsertTarget>) -> Result<BoundChange, SqlError> {
        let target = self.target(&Clauses {
            with: &delete.with,
            top: delete.top.as_ref(),
            target: &delete.target,
            from: &delete.from,
            condition: delete.condition.as_ref(),
        })?;
        let mut parts = Parts::default();
        parts.add(self, place_of(&target)?);
        let mut before = vec![None; target.stored.columns.len()];
        if target.stored.table.is_referenced() {
            for (before, known) in before.iter_mut().zip(&target.stored.columns) {
                *before = Some(parts.add(self, known.bound(target.position)));
            }
        }
        let tables = [OutputTable::Deleted];
        let output = self.output_of(delete.output.as_ref(), &tables, &target, &mut before, &mut parts, into)?;
        let (query, values) = self.changes(target.plan.clone(), parts, None)?;
        self.bound_change(target, query, before, values, output)
    }

    /// Binds the `OUTPUT` of a statement over the rows of its target.
    pub(super) fn output_of(
        &self,
        output: Option<&Output>,
        tables: &[OutputTable],
        target: &Target<'_>,
        before: &mut [Option<usize>],
        parts: &mut Parts,
        into: Option<&InsertTarget>,
    ) -> Result<Option<BoundOutput>, SqlError> {
        let Some(output) = output else { return Ok(None) };
        let mut others = target.scope.clone();
        others.tables.remove(target.place);
        let shown = target.scope.tables[target.place].columns.iter().zip(&target.stored.shown);
        let shown: Vec<OutputColumn> =
            shown.map(|(column, stored)| OutputColumn { column: column.clone(), stored: *stored }).collect();
        let bound = self.bind_output(output, tables, &shown, others, parts, into)?;
        for column in bound.deleted_columns() {
            before[column] = Some(parts.add(self, target.stored.columns[column].bound(target.position)));
        }
        Ok(Some(bound))
    }

    fn bound_change(
        &self,
        target: Target<'_>,
        query: BoundQuery,
        before: Vec<Option<usize>>,
        values: Option<BoundValues>,
        output: Option<BoundOutput>,
    ) -> Result<BoundChange, SqlError> {
        let Target { stored, repeats, limit, .. } = target;
        Ok(BoundChange { query, table: stored.table, repeats, limit, before, values, output })
    }

    /// The query whose columns are `parts`.
    pub(super) fn changes(
        &self,
        plan: LogicalPlan,
        parts: Parts,
        values: Option<NewValues>,
    ) -> Result<(BoundQuery, Option<BoundValues>), SqlError> {
        let (exprs, names): (Vec<Expr>, Vec<String>) = parts.exprs.into_iter().unzip();
        let (plan, exprs) = self.unnest_scalars(plan, exprs)?;
        let named: Vec<Expr> = exprs.into_iter().zip(names).map(|(expr, name)| expr.alias(name)).collect();
        let plan = LogicalPlan::Projection(Projection::try_new(named, shared(plan)).map_err(sql_error_of)?);
        let values = values.map(|values| values.over(&plan)).transpose()?;
        let is_cacheable = self.progress.is_cacheable.get();
        Ok((BoundQuery { plan, columns: parts.kinds, into: None, is_cacheable }, values))
    }

    /// Binds the rows that a statement may change.
    fn target<'p>(&self, clauses: &Clauses<'_>) -> Result<Target<'p>, SqlError> {
        let ChangeTarget { name, hints, span } = clauses.target;
        let position = span.position;
        check_target_hints(hints).map_err(|error| error.at(position))?;
        let mut names = names_for(clauses.with);
        let mut sources = clauses.from.to_vec();
        let place = match named_source(name, &sources).map_err(|error| error.at(position))? {
            Some(place) => place,
            None => {
                sources.insert(0, source_of(clauses.target, None));
                0
            }
        };
        let (mut plan, scope) = self.from(&sources, &names)?;
        names.places = false;
        let repeats = scope.tables.len() > 1;
        let source = scope.tables.get(place).ok_or_else(|| SqlError::internal("a source without a place"))?;
        let stored = rows_of(&source.stored, &written(name)).map_err(|error| error.at(position))?;
        let site = Site { scope: &scope, names: &names, clause: Clause::Where, collector: None };
        let predicate = clauses.condition.map(|condition| self.condition(condition, site)).transpose()?;
        if self.options.wants_equations && !all_join_by_hash(&plan, predicate.as_ref()) {
            return Err(no_equations().at(position));
        }
        if let Some(predicate) = predicate {
            plan = self.filter(plan, predicate)?;
        }
        let mut limit = None;
        if let Some(top) = clauses.top {
            if repeats {
                limit = Some(self.row_limit(top, &names)?);
            } else {
                plan = self.top(plan, top, Vec::new(), &names)?;
            }
        }
        Ok(Target { plan, scope, place, stored, names, repeats, limit, position })
    }
}

/// The names that the sources of a changing statement can use: its common table expressions. The sources must also give
/// the positions of their rows.
pub(super) fn names_for<'p>(with: &[CommonTableExpression]) -> Names<'p> {
    let mut names = Names { places: true, ..Names::default() };
    for definition in with {
        let before = names.ctes.clone();
        let cte = Cte { definition: definition.clone(), before: before.clone(), work_table: None };
        names.ctes = with_cte(before, cte);
    }
    names
}

/// Refuses hints that a target may not have.
///
/// # Errors
/// Error 1065.
pub(super) fn check_target_hints(hints: &[TableHint]) -> Result<(), SqlError> {
    if hints.iter().any(|hint| matches!(hint, TableHint::NoLock | TableHint::ReadUncommitted)) {
        return Err(errors::NOLOCK_OF_TARGET.error());
    }
    Ok(())
}

/// The position of the rows to change.
///
/// # Errors
/// If the target is not a stored table.
pub(super) fn place_of(target: &Target<'_>) -> Result<BoundExpr, SqlError> {
    let sql_type = place_type(target.stored.table.table());
    Ok(BoundExpr::new(Expr::Column(target.stored.place.clone()), sql_type, true, target.position))
}

/// The stored rows behind a target.
///
/// # Errors
/// Errors 259, 4403, 4405, 4406, 46519.
pub(super) fn rows_of(stored: &Stored, name: &str) -> Result<StoredRows, SqlError> {
    Err(match stored {
        Stored::Rows(rows) if !rows.table.table().is_system => return Ok((**rows).clone()),
        Stored::Rows(_) | Stored::System => errors::SYSTEM_TABLE_UPDATE.error(),
        Stored::Files => errors::EXTERNAL_NOT_SUPPORTED.with([&"DML Operations"]),
        Stored::Grouped => errors::CHANGE_OF_GROUPED.with([&name]),
        Stored::Joined => errors::CHANGE_OF_JOINED.with([&name]),
        Stored::Computed => derived_field(name),
    })
}

/// Error 4406.
pub(super) fn derived_field(name: &str) -> SqlError {
    errors::CHANGE_OF_DERIVED.with([&name])
}

/// A target's name as messages show it.
pub(super) fn written(name: &TargetName) -> String {
    match name {
        TargetName::Object(name) => name.name.value.clone(),
        TargetName::Variable(name) => name.value.clone(),
    }
}

/// The target as a source of `FROM`.
pub(super) fn source_of(target: &ChangeTarget, alias: Option<&Identifier>) -> TableSource {
    match &target.name {
        TargetName::Object(name) => TableSource::Table(Box::new(NamedTable {
            name: name.clone(),
            alias: alias.cloned(),
            sample: None,
            hints: target.hints.clone(),
            span: target.span,
        })),
        TargetName::Variable(name) => {
            let alias = alias.map(|alias| TableAlias { name: alias.clone(), columns: Vec::new() });
            TableSource::Variable { name: name.clone(), alias }
        }
    }
}

/// The sources between joins and commas, in the order of their scopes.
fn leaves<'s>(sources: &'s [TableSource], all: &mut Vec<&'s TableSource>) {
    for source in sources {
        match source {
            TableSource::Joined { first, rest } => {
                leaves(std::slice::from_ref(first), all);
                rest.iter().for_each(|step| leaves(std::slice::from_ref(&step.source), all));
            }
            other => all.push(other),
        }
    }
}

/// The index of the source that a target names; `None` if there is none.
///
/// # Errors
/// 8154 if several sources have the target's table, each under an alias of its own.
fn named_source(target: &TargetName, sources: &[TableSource]) -> Result<Option<usize>, SqlError> {
    let mut all = Vec::new();
    leaves(sources, &mut all);
    if let Some(place) = all.iter().position(|source| is_called(source, target)) {
        return Ok(Some(place));
    }
    let mut of_table = all.iter().enumerate().filter(|(_, source)| has_table(source, target));
    match (of_table.next(), of_table.next()) {
        (Some(_), Some(_)) => Err(errors::AMBIGUOUS_TABLE.with([&written(target)])),
        (found, _) => Ok(found.map(|(place, _)| place)),
    }
}

/// Whether a source has the target's name.
fn is_called(source: &TableSource, target: &TargetName) -> bool {
    let alias = match (source, target) {
        (TableSource::Table(table), TargetName::Object(_)) if table.alias.is_none() => {
            return has_table(source, target);
        }
        (TableSource::Variable { alias: None, .. }, TargetName::Variable(_)) => return has_table(source, target),
        (TableSource::Table(table), _) => table.alias.as_ref(),
        (TableSource::Derived { alias, .. } | TableSource::Values { alias, .. }, _) => Some(&alias.name),
        (TableSource::Function { alias, .. } | TableSource::Variable { alias, .. }, _) => {
            alias.as_ref().map(|alias| &alias.name)
        }
        (TableSource::Files(files), _) => files.alias.as_ref().map(|alias| &alias.name),
        (TableSource::Joined { .. }, _) => None,
    };
    let TargetName::Object(name) = target else { return false };
    matches!((alias, name.as_simple()), (Some(alias), Some(name)) if same_name(&alias.value, &name.value))
}

/// Whether a source is the target's table, under any alias.
fn has_table(source: &TableSource, target: &TargetName) -> bool {
    match (source, target) {
        (TableSource::Table(table), TargetName::Object(name)) => is_same_object(&table.name, name),
        (TableSource::Variable { name: known, .. }, TargetName::Variable(name)) => same_name(&known.value, &name.value),
        _ => false,
    }
}

/// Whether two names denote one object; a part that one of them omits counts as equal.
fn is_same_object(left: &ObjectName, right: &ObjectName) -> bool {
    let agree = |left: &Option<Identifier>, right: &Option<Identifier>| match (left, right) {
        (Some(left), Some(right)) => same_name(&left.value, &right.value),
        _ => true,
    };
    same_name(&left.name.value, &right.name.value)
        && agree(&left.schema, &right.schema)
        && agree(&left.database, &right.database)
}

#[cfg(test)]
mod tests {
    use hobt_tsql::ast::StatementKind;

    use super::*;

    fn source_that_changes(batch: &str) -> Result<Option<usize>, i32> {
        let parsed = hobt_tsql::parse_batch(batch).expect("a batch that parses");
        let StatementKind::Delete(delete) = &parsed.statements[0].kind else { panic!("not a DELETE: {batch}") };
        named_source(&delete.target.name, &delete.from).map_err(|error| error.number)
    }

    #[test]
    fn a_target_is_an_alias_before_it_is_a_table() {
        for (batch, source) in [
            ("DELETE a FROM t AS a JOIN u AS b ON 1 = 1", Ok(Some(0))),
            ("DELETE b FROM t AS a JOIN u AS b ON 1 = 1", Ok(Some(1))),
            ("DELETE t FROM u, v CROSS JOIN t", Ok(Some(2))),
            ("DELETE dbo.t FROM u JOIN t ON 1 = 1", Ok(Some(1))),
            ("DELETE t FROM u JOIN dbo.t AS a ON 1 = 1", Ok(Some(1))),
            ("DELETE t FROM t AS a JOIN u AS t ON 1 = 1", Ok(Some(1))),
            ("DELETE t FROM t AS a JOIN t ON 1 = 1", Ok(Some(1))),
            ("DELETE t FROM t AS a JOIN t AS b ON 1 = 1", Err(8154)),
            ("DELETE other.t FROM dbo.t AS a", Ok(None)),
            ("DELETE d FROM u CROSS APPLY (SELECT 1 AS a) AS d", Ok(Some(1))),
            ("DELETE @v FROM u, @v", Ok(Some(1))),
            ("DELETE @v FROM u, @v AS x", Ok(Some(1))),
            ("DELETE x FROM u, @v AS x", Ok(Some(1))),
            ("DELETE t FROM u", Ok(None)),
            ("DELETE t", Ok(None)),
        ] {
            assert_eq!(source_that_changes(batch), source, "{batch}");
        }
    }
}
