//! `MERGE` as a query: target and source joined, with one row for each row that an action takes.
//!
//! ```text
//!   target FULL JOIN source ON …          only as outer as the clauses need it
//!     ──►  action: which WHEN takes the row, the first that does; rows that none takes are left out
//!     ──►  SELECT place, action, CASE action WHEN 1 THEN … END AS a, …
//! ```
//!
//! A value is computed only for the rows of its own clause. Not done here: `OUTPUT` (`change_output`), detecting that a
//! row is taken twice (error 8672), and executing the actions.

use std::sync::Arc;

use datafusion::common::{Column, JoinType, ScalarValue};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, LogicalPlan, Operator, Projection};
use hobt_base::{SqlError, errors, number};
use hobt_tsql::ast::{Expression, Identifier, Merge, MergeAction, MergeClause, MergeMatch};
use hobt_types::SqlType;

use super::bound::{BoundExpr, BoundQuery};
use super::change::{Parts, Target, check_target_hints, names_for, place_of, rows_of, source_of, written};
use super::change_output::{BoundOutput, OutputTable};
use super::change_values::{cannot_be_modified, set_twice};
use super::from::join;
use super::insert::InsertTarget;
use super::row_by_row::is_row_by_row;
use super::scope::{Scope, ScopeColumn, invalid_column, same_name};
use super::{Binder, Clause, Site, shared};
use crate::subquery_expr::has_subquery;
use hobt_table::{ChangeKind, TableRead, UnseenUse};
use hobt_udf::sql_error_of;

/// The rows of a `MERGE`.
#[derive(Clone, Debug)]
pub struct BoundMerge {
    /// One row for each row that an action takes. Its first column is the position of that row, its second the number
    /// of the action.
    pub query: BoundQuery,
    /// The table that is changed.
    pub table: Arc<TableRead>,
    /// The kinds of the actions, by the number in the second column.
    pub actions: Vec<ChangeKind>,
    /// For each column of the table, the query's column with its new value; empty if rows are only deleted.
    pub after: Vec<usize>,
    /// For each column of the table, the query's column with its old value; `None` if that is not read.
    pub before: Vec<Option<usize>>,
    /// `OUTPUT`.
    pub output: Option<BoundOutput>,
    /// Whether the query returns every row of the target that affects the result, even a row that only keeps a row of
    /// the source from being inserted. The action number of such a row is NULL.
    is_told_of_matched: bool,
}

impl BoundMerge {
    /// As [`BoundChange::watch_unseen`](super::BoundChange::watch_unseen).
    pub fn watch_unseen(&self) {
        let Some(unseen) = self.table.unseen() else { return };
        unseen.use_so(match self.is_told_of_matched && is_row_by_row(&self.query.plan, unseen) {
            true => UnseenUse::Shown,
            false => UnseenUse::Noted,
        });
    }
}

/// The columns that tell which sides a joined row has.
struct Sides {
    place: Column,
    /// NULL if the row has no source row; `None` if every row has one.
    source: Option<Column>,
}

/// The new values of one column: the number of the action, and the value.
type ColumnValues = Vec<(usize, Expr)>;

impl Binder<'_> {
    /// Binds a `MERGE`. `into` has the columns that its `OUTPUT … INTO` fills.
    ///
    /// # Errors
    /// As [`Binder::bind_update`]; also 5324, 10710, 10711 and 10714.
    pub fn bind_merge(&self, merge: &Merge, into: Option<&InsertTarget>) -> Result<BoundMerge, SqlError> {
        check_clauses(&merge.clauses).map_err(|error| error.at(merge.target.span.position))?;
        let (mut target, sides) = self.merged(merge)?;
        let action = Column::new_unqualified(self.fresh("action"));
        let has_idle = may_leave_matched(&merge.clauses);
        // `TOP` counts only rows that an action takes.
        let brings_idle = has_idle && self.options.brings_matched && merge.top.is_none();
        let with_actions = || self.with_actions(&target, &sides, &merge.clauses, (&action, brings_idle));
        target.plan = self.merging_next_values(with_actions)?;
        if let Some(top) = &merge.top {
            target.plan = self.top(target.plan, top, Vec::new(), &target.names)?;
        }
        let mut parts = Parts::default();
        parts.add(self, place_of(&target)?);
        let number = BoundExpr::new(Expr::Column(action.clone()), SqlType::Int, false, target.position);
        parts.add(self, number);
        let actions: Vec<ChangeKind> = merge.clauses.iter().map(|clause| kind_of(&clause.action)).collect();
        let mut after = Vec::new();
        if actions.iter().any(|kind| *kind != ChangeKind::Delete) {
            let values = self.merging_next_values(|| self.merged_values(&target, &merge.clauses))?;
            for (known, values) in target.stored.columns.iter().zip(values) {
                let before = known.bound(target.position);
                let expr = chosen(&action, values, before.expr);
                after.push(parts.add(self, BoundExpr::new(expr, known.sql_type, true, target.position)));
            }
        }
        let mut before = vec![None; target.stored.columns.len()];
        if target.stored.table.is_referenced() {
            for (before, known) in before.iter_mut().zip(&target.stored.columns) {
                *before = Some(parts.add(self, known.bound(target.position)));
            }
        }
        let tables = [OutputTable::Action, OutputTable::Inserted, OutputTable::Deleted];
        let output = self.output_of(merge.output.as_ref(), &tables, &target, &mut before, &mut parts, into)?;
        let (query, _no_values) = self.changes(target.plan.clone(), parts, None)?;
        let is_told_of_matched = brings_idle || !has_idle;
        let table = target.stored.table;
        Ok(BoundMerge { query, table, actions, after, before, output, is_told_of_matched })
    }

    /// The join of target and source, only as outer as the clauses need it.
    fn merged<'p>(&self, merge: &Merge) -> Result<(Target<'p>, Sides), SqlError> {
        let position = merge.target.span.position;
        check_target_hints(&merge.target.hints).map_err(|error| error.at(position))?;
        let mut names = names_for(&merge.with);
        let (target_plan, mut scope) = self.source(&source_of(&merge.target, merge.alias.as_ref()), &names)?;
        names.places = false;
        let stored = match scope.tables.as_slice() {
            [table] => rows_of(&table.stored, &written(&merge.target.name)).map_err(|error| error.at(position))?,
            _ => return Err(SqlError::internal("a target that is several sources")),
        };
        let (mut source_plan, source_scope) = self.source(&merge.source, &names)?;
        let takes = |matched: MergeMatch| merge.clauses.iter().any(|clause| clause.matched == matched);
        let mut source = None;
        if takes(MergeMatch::NotMatchedBySource) {
            let marker = self.fresh("source");
            let mut exprs: Vec<Expr> = source_plan.schema().columns().into_iter().map(Expr::Column).collect();
            exprs.push(Expr::Literal(ScalarValue::Int32(Some(1)), None).alias(&marker));
            let marked = Projection::try_new(exprs, shared(source_plan)).map_err(sql_error_of)?;
            source_plan = LogicalPlan::Projection(marked);
            source = Some(Column::new_unqualified(marker));
        }
        scope.extend(source_scope).map_err(|error| error.at(merge.source.position()))?;
        let site = Site { scope: &scope, names: &names, clause: Clause::On, collector: None };
        let on = self.condition(&merge.condition, site)?;
        let join_type = match (takes(MergeMatch::NotMatchedByTarget), source.is_some()) {
            (false, false) => JoinType::Inner,
            (true, false) => JoinType::Right,
            (false, true) => JoinType::Left,
            (true, true) => JoinType::Full,
        };
        let plan = match join_type {
            JoinType::Inner if has_subquery(&on) => {
                let product = join(target_plan, source_plan, JoinType::Inner, None)?;
                self.filter(product, on)?
            }
            _ => join(target_plan, source_plan, join_type, Some(on))?,
        };
        for table in &mut scope.tables {
            table.columns.iter_mut().for_each(ScopeColumn::pad);
        }
        let sides = Sides { place: stored.place.clone(), source };
        let target = Target { plan, scope, place: 0, stored, names, repeats: true, limit: None, position };
        Ok((target, sides))
    }

    /// The joined rows that some clause takes, with the number of the first one that does. With `brings_idle`, also the
    /// rows with both sides that no clause takes.
    fn with_actions(
        &self,
        target: &Target<'_>,
        sides: &Sides,
        clauses: &[MergeClause],
        (action, brings_idle): (&Column, bool),
    ) -> Result<LogicalPlan, SqlError> {
        let mut branches = Vec::with_capacity(clauses.len());
        for (number, clause) in clauses.iter().enumerate() {
            let mut takes = sides.has(clause.matched);
            if let Some(condition) = &clause.condition {
                let scope = scope_of(clause.matched, target);
                let site = Site { scope: &scope, ..target.site(Clause::Set) };
                let bind = |site: Site<'_>| self.condition(condition, site);
                let condition = bind(site).map_err(|error| of_side(error, clause.matched, target, &bind))?;
                // Evaluated only for rows of its own kind: on others it might fail.
                let otherwise = Expr::Literal(ScalarValue::Boolean(Some(false)), None);
                let branch = (Box::new(takes), Box::new(condition));
                takes = Expr::Case(Case::new(None, vec![branch], Some(Box::new(otherwise))));
            }
            branches.push((Box::new(takes), Box::new(number_of(number))));
        }
        let which = Expr::Case(Case::new(None, branches, None));
        let (plan, mut exprs) = self.unnest_scalars(target.plan.clone(), vec![which])?;
        let mut all: Vec<Expr> = target.plan.schema().columns().into_iter().map(Expr::Column).collect();
        all.extend(exprs.pop().map(|which| which.alias(&action.name)));
        let numbered = LogicalPlan::Projection(Projection::try_new(all, shared(plan)).map_err(sql_error_of)?);
        let mut taken = Expr::IsNotNull(Box::new(Expr::Column(action.clone())));
        if brings_idle {
            let matched = Box::new(sides.has(MergeMatch::Matched));
            taken = Expr::BinaryExpr(BinaryExpr::new(Box::new(taken), Operator::Or, matched));
        }
        Ok(LogicalPlan::Filter(Filter::try_new(taken, shared(numbered)).map_err(sql_error_of)?))
    }

    /// The new values that the clauses give to each of the table's columns.
    fn merged_values(&self, target: &Target<'_>, clauses: &[MergeClause]) -> Result<Vec<ColumnValues>, SqlError> {
        let mut values: Vec<ColumnValues> = vec![Vec::new(); target.stored.columns.len()];
        for (number, clause) in clauses.iter().enumerate() {
            let scope = scope_of(clause.matched, target);
            let site = Site { scope: &scope, ..target.site(Clause::Set) };
            match &clause.action {
                MergeAction::Delete => {}
                MergeAction::Update { assignments } => {
                    for assignment in assignments {
                        if let Some(variable) = &assignment.variable {
                            let what = "A variable that MERGE assigns";
                            return Err(SqlError::not_supported(what).at(variable.position));
                        }
                        let Some(name) = &assignment.column else { continue };
                        let column = self.assigned_column(name, target)?;
                        if values[column.1].iter().any(|(known, _)| *known == number) {
                            return Err(set_twice(&name.name.value).at(name.position()));
                        }
                        let bind = |site: Site<'_>| self.assigned_value(assignment, Some(column), None, target, site);
                        let value = bind(site).map_err(|error| of_side(error, clause.matched, target, &bind))?;
                        values[column.1].push((number, value.expr));
                    }
                }
                MergeAction::Insert { columns, values: given } => {
                    let bind = |site: Site<'_>| self.inserted_row(target, columns, given, site);
                    let row = bind(site).map_err(|error| of_side(error, clause.matched, target, &bind))?;
                    for (values, value) in values.iter_mut().zip(row) {
                        values.push((number, value));
                    }
                }
            }
        }
        Ok(values)
    }

    /// The row of `INSERT (columns) VALUES (…)`, or of `DEFAULT VALUES`, with NULL for an identity value.
    fn inserted_row(
        &self,
        target: &Target<'_>,
        columns: &[Identifier],
        given: &[Expression],
        site: Site<'_>,
    ) -> Result<Vec<Expr>, SqlError> {
        let table = target.stored.table.table();
        let mut listed = Vec::with_capacity(table.columns.len());
        for name in columns {
            let is_named = |known: &&hobt_catalog::TableColumn| same_name(&known.name, &name.value);
            let place = table.columns.iter().position(|known| is_named(&known));
            if table.is_computed(&name.value) {
                return Err(cannot_be_modified(&name.value).at(name.position));
            }
            let place = place.ok_or_else(|| invalid_column(&name.value).at(name.position))?;
            if listed.contains(&place) {
                return Err(set_twice(&name.value).at(name.position));
            }
            if table.columns[place].identity.is_some() {
                return Err(errors::IDENTITY_INSERT_OFF.with([&table.name]).at(name.position));
            }
            listed.push(place);
        }
        if columns.is_empty() && !given.is_empty() {
            let is_given = |place: &usize| {
                let column = &table.columns[*place];
                column.identity.is_none() && column.computed.is_none()
            };
            listed = (0..table.columns.len()).filter(is_given).collect();
        }
        if listed.len() != given.len() {
            return Err(value_count(!columns.is_empty(), listed.len() > given.len()).at(target.position));
        }
        let mut row = Vec::with_capacity(table.columns.len());
        for (place, column) in table.columns.iter().enumerate() {
            let value = match listed.iter().position(|listed| *listed == place).map(|at| &given[at]) {
                Some(Expression::Default { span }) => self.default_value(target, place, span.position)?,
                Some(value) => self.expression(value, site)?,
                None if column.identity.is_some() => BoundExpr::null(target.position)?,
                None => self.default_value(target, place, target.position)?,
            };
            row.push(self.assign(value, column.sql_type)?.expr);
        }
        Ok(row)
    }
}

impl Sides {
    /// Whether a joined row has the sides that a clause requires.
    fn has(&self, matched: MergeMatch) -> Expr {
        let place = || Box::new(Expr::Column(self.place.clone()));
        let source = || self.source.clone().map(|source| Box::new(Expr::Column(source)));
        match (matched, source()) {
            (MergeMatch::NotMatchedByTarget, _) => Expr::IsNull(place()),
            (MergeMatch::NotMatchedBySource, Some(source)) => Expr::IsNull(source),
            (MergeMatch::NotMatchedBySource, None) => Expr::Literal(ScalarValue::Boolean(Some(false)), None),
            (MergeMatch::Matched, None) => Expr::IsNotNull(place()),
            (MergeMatch::Matched, Some(source)) => {
                let source = Expr::IsNotNull(source);
                Expr::BinaryExpr(BinaryExpr::new(Box::new(Expr::IsNotNull(place())), Operator::And, Box::new(source)))
            }
        }
    }
}

/// Whether a target row may match a source row, so that this is not inserted, without being taken by an action itself.
fn may_leave_matched(clauses: &[MergeClause]) -> bool {
    let inserts = clauses.iter().any(|clause| clause.matched == MergeMatch::NotMatchedByTarget);
    let takes_all = |clause: &MergeClause| clause.matched == MergeMatch::Matched && clause.condition.is_none();
    inserts && !clauses.iter().any(takes_all)
}

/// The names that a clause can use: those of both sides, or of the side that its rows have.
fn scope_of(matched: MergeMatch, target: &Target<'_>) -> Scope {
    let (own, others) = target.scope.tables.split_at(1);
    let tables = match matched {
        MergeMatch::Matched => target.scope.tables.clone(),
        MergeMatch::NotMatchedByTarget => others.to_vec(),
        MergeMatch::NotMatchedBySource => own.to_vec(),
    };
    Scope { tables }
}

/// The error of `bind` for a clause whose rows have only one side. A name that is not valid in the clause, but is on
/// the other side, gets a specific error.
fn of_side<T>(
    error: SqlError,
    matched: MergeMatch,
    target: &Target<'_>,
    bind: &dyn Fn(Site<'_>) -> Result<T, SqlError>,
) -> SqlError {
    let entry = match matched {
        MergeMatch::Matched => return error,
        MergeMatch::NotMatchedByTarget => errors::MERGE_NOT_OF_SOURCE,
        MergeMatch::NotMatchedBySource => errors::MERGE_NOT_OF_TARGET,
    };
    if !matches!(error.number, number::MULTI_PART_IDENTIFIER | number::INVALID_COLUMN) {
        return error;
    }
    let name = error.message.split(['"', '\'']).nth(1).unwrap_or_default().to_owned();
    let both = scope_of(MergeMatch::Matched, target);
    let bound = bind(Site { scope: &both, ..target.site(Clause::Set) });
    // The name is on neither side, or is no column of its source.
    if let Err(other) = bound
        && matches!(other.number, number::MULTI_PART_IDENTIFIER | number::INVALID_COLUMN)
    {
        return other;
    }
    SqlError { position: error.position, ..entry.with([&name]) }
}

fn kind_of(action: &MergeAction) -> ChangeKind {
    match action {
        MergeAction::Insert { .. } => ChangeKind::Insert,
        MergeAction::Update { .. } => ChangeKind::Update,
        MergeAction::Delete => ChangeKind::Delete,
    }
}

fn number_of(action: usize) -> Expr {
    Expr::Literal(ScalarValue::Int32(i32::try_from(action).ok()), None)
}

/// A column's value: that of the action that takes the row, or its old value.
fn chosen(action: &Column, values: ColumnValues, before: Expr) -> Expr {
    if values.is_empty() {
        return before;
    }
    let is = |number: usize| {
        let action = Box::new(Expr::Column(action.clone()));
        Box::new(Expr::BinaryExpr(BinaryExpr::new(action, Operator::Eq, Box::new(number_of(number)))))
    };
    let branches = values.into_iter().map(|(number, value)| (is(number), Box::new(value))).collect();
    Expr::Case(Case::new(None, branches, Some(Box::new(before))))
}

/// Errors 109, 110, 213.
fn value_count(is_listed: bool, more_columns: bool) -> SqlError {
    match (is_listed, more_columns) {
        (false, _) => errors::INSERT_COLUMN_COUNT.error(),
        (true, true) => errors::INSERT_MORE_COLUMNS.error(),
        (true, false) => errors::INSERT_FEWER_COLUMNS.error(),
    }
}

/// Checks which actions the clauses have, and in which order.
///
/// # Errors
/// Errors 5324, 10710, 10711, 10714.
fn check_clauses(clauses: &[MergeClause]) -> Result<(), SqlError> {
    for (place, clause) in clauses.iter().enumerate() {
        let name = match clause.matched {
            MergeMatch::Matched => "WHEN MATCHED",
            MergeMatch::NotMatchedByTarget => "WHEN NOT MATCHED",
            MergeMatch::NotMatchedBySource => "WHEN NOT MATCHED BY SOURCE",
        };
        let kind = kind_of(&clause.action);
        let action = match kind {
            ChangeKind::Insert => "INSERT",
            ChangeKind::Update => "UPDATE",
            ChangeKind::Delete => "DELETE",
        };
        let is_insert = kind == ChangeKind::Insert;
        if is_insert != (clause.matched == MergeMatch::NotMatchedByTarget) {
            let entry = if is_insert { errors::MERGE_INSERT_CLAUSE } else { errors::MERGE_CHANGE_CLAUSE };
            return Err(entry.with([&action, &name]));
        }
        for before in clauses[..place].iter().filter(|before| before.matched == clause.matched) {
            if kind_of(&before.action) == kind {
                return Err(errors::MERGE_ACTION_TWICE.with([&action, &name]));
            }
            if before.condition.is_none() {
                return Err(errors::MERGE_CLAUSE_AFTER_ALL.with([&name, &name]));
            }
        }
    }
    Ok(())
}
