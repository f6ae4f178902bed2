//! `NEXT VALUE FOR`: in a query, a column for each sequence that the query names; outside a query, a value.
//!
//! ```text
//!   SELECT a, NEXT VALUE FOR s, NEXT VALUE FOR s + 1 FROM t
//!     ──►  SELECT a, n, n + 1 FROM (SELECT *, next_value(s) AS n FROM t)
//! ```
//!
//! A stack decides which clauses may ask for a value: a select list or a `SET` pushes a collector, and a clause that
//! must not name a sequence pushes a refusal.

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use hobt_base::{Entry, Position, SqlError, errors, number};
use hobt_tsql::ast::{Expression, FunctionArguments, FunctionCall, Identifier, ObjectName, Window};
use hobt_types::SqlType;

use super::bound::BoundExpr;
use super::{Binder, Clause, Site, shared};
use crate::body::QueryUse;
use crate::sequence_scope::{InDefault, NextValueColumn, SequenceScope, Wrapped};
use hobt_udf::{Kernel, Operation, sql_error_of};

impl Binder<'_> {
    /// Runs `bind` with its own scope on the stack, and returns the collected sequences too.
    fn in_sequence_scope<T>(
        &self,
        scope: SequenceScope,
        bind: impl FnOnce() -> Result<T, SqlError>,
    ) -> Result<(T, Vec<NextValueColumn>), SqlError> {
        self.progress.sequences.borrow_mut().push(scope);
        let result = bind();
        let collected = match self.progress.sequences.borrow_mut().pop() {
            Some(SequenceScope::Collect(collected)) => collected,
            _ => Vec::new(),
        };
        Ok((result?, collected))
    }

    /// Runs `bind`, in which sequences are refused.
    pub(super) fn refusing_next_values<T>(
        &self,
        refusal: Entry<0>,
        bind: impl FnOnce() -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let is_refused = matches!(self.progress.sequences.borrow().last(), Some(SequenceScope::Refuse(_)));
        if is_refused {
            return bind();
        }
        self.in_sequence_scope(SequenceScope::Refuse(refusal), bind).map(|(result, _)| result)
    }

    /// Runs `bind` and collects its sequences, for a `SET` or the like.
    pub(super) fn collecting_next_values<T>(
        &self,
        bind: impl FnOnce() -> Result<T, SqlError>,
    ) -> Result<(T, Vec<NextValueColumn>), SqlError> {
        self.in_sequence_scope(SequenceScope::Collect(Vec::new()), bind)
    }

    /// Runs `bind` for the rows of a `MERGE`, in which only defaults may name sequences.
    pub(super) fn merging_next_values<T>(&self, bind: impl FnOnce() -> Result<T, SqlError>) -> Result<T, SqlError> {
        let inside = || self.refusing_next_values(errors::NEXT_VALUE_IN_MERGE, bind);
        self.in_sequence_scope(SequenceScope::Inline, inside).map(|(result, _)| result)
    }

    /// Records that a `SELECT` is being bound; returns whether its list may name sequences.
    pub(super) fn enter_select(&self, usage: QueryUse) -> bool {
        match self.progress.wrapped.get() {
            Wrapped::Outside => {
                self.progress.wrapped.set(Wrapped::Inside);
                true
            }
            Wrapped::Inside => {
                self.progress.wrapped.set(Wrapped::No);
                true
            }
            Wrapped::No => usage == QueryUse::Statement,
        }
    }

    /// Runs `bind` for the items of a select list, which may name sequences if `allowed`.
    pub(super) fn items_with_next_values<T>(
        &self,
        allowed: bool,
        bind: impl FnOnce() -> Result<T, SqlError>,
    ) -> Result<(T, Vec<NextValueColumn>), SqlError> {
        match allowed {
            true => self.collecting_next_values(bind),
            false => self.refusing_next_values(errors::NEXT_VALUE_NOT_ALLOWED, bind).map(|result| (result, Vec::new())),
        }
    }

    /// Refuses sequences in a select list with clauses that exclude them.
    pub(super) fn check_next_values(
        &self,
        columns: &[NextValueColumn],
        distinct: bool,
        limited: bool,
        ordered: bool,
    ) -> Result<(), SqlError> {
        let entry = match columns {
            [] => return Ok(()),
            _ if distinct => errors::NEXT_VALUE_WITH_DISTINCT,
            _ if limited => errors::NEXT_VALUE_WITH_TOP,
            columns if ordered && columns.iter().any(|column| column.number.is_none()) => {
                errors::NEXT_VALUE_WITH_ORDER_BY
            }
            _ => return Ok(()),
        };
        Err(entry.error())
    }

    /// Runs `bind` for a column's DEFAULT, which may use some functions that are not allowed elsewhere.
    pub(super) fn within_default<T>(
        &self,
        place: InDefault,
        bind: impl FnOnce() -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let before = self.progress.in_default.replace(place);
        let result = bind();
        self.progress.in_default.set(before);
        result
    }

    /// `NEXT VALUE FOR sequence`.
    pub(super) fn next_value(
        &self,
        sequence: &ObjectName,
        over: Option<&Window>,
        position: Position,
        site: Site<'_>,
    ) -> Result<BoundExpr, SqlError> {
        if self.options.keeps_variables {
            return Err(SqlError::not_supported("NEXT VALUE FOR in what is bound once").at(position));
        }
        let refuse = |entry: Entry<0>| Err(entry.error().at(position));
        match site.clause {
            Clause::Where | Clause::On | Clause::GroupBy | Clause::Having | Clause::OrderBy | Clause::Output => {
                return refuse(errors::NEXT_VALUE_IN_CLAUSE);
            }
            Clause::Aggregate => return refuse(errors::NEXT_VALUE_IN_AGGREGATE),
            Clause::Select | Clause::Set | Clause::Scalar => {}
        }
        if let Some(entry) = self.refusal() {
            return refuse(entry);
        }
        let in_default = self.progress.in_default.get() != InDefault::No;
        // A default is evaluated in the context of the statement around it, if there is one.
        let is_collected =
            self.progress.sequences.borrow().iter().any(|scope| !matches!(scope, SequenceScope::Refuse(_)));
        if site.clause == Clause::Scalar && !(is_collected && in_default) {
            if over.is_some() {
                return refuse(errors::NEXT_VALUE_OVER_NOT_ALLOWED);
            }
            self.progress.is_cacheable.set(false);
            let value = self.resolver.next_row_value(sequence)?;
            return BoundExpr::literal(value.value, value.sql_type, position);
        }
        let number = match over {
            None => None,
            Some(_) if site.clause != Clause::Select => return refuse(errors::NEXT_VALUE_OVER_NOT_ALLOWED),
            Some(window) if !window.partition_by.is_empty() => return refuse(errors::NEXT_VALUE_PARTITIONED),
            Some(window) if window.order_by.is_empty() && window.base.is_none() => {
                return refuse(errors::NEXT_VALUE_EMPTY_OVER);
            }
            Some(window) => Some(self.row_number(window, position, site)?),
        };
        let values = self.resolver.next_values(sequence)?;
        self.progress.is_cacheable.set(false);
        let column = Column::new_unqualified(self.fresh("next_value"));
        let bound = |column: &Column, sql_type: SqlType| {
            BoundExpr::new(Expr::Column(column.clone()), sql_type, false, position)
        };
        let mut scopes = self.progress.sequences.borrow_mut();
        let collected = match scopes.iter_mut().rev().find(|scope| !matches!(scope, SequenceScope::Refuse(_))) {
            Some(SequenceScope::Collect(collected)) => collected,
            Some(SequenceScope::Inline) => {
                let sql_type = values.result;
                let call = Kernel::call(Operation::NextValue(values), Vec::new(), position);
                return Ok(BoundExpr::new(call, sql_type, false, position));
            }
            _ => return refuse(errors::NEXT_VALUE_NOT_ALLOWED),
        };
        if let Some(known) = collected.iter().find(|known| known.values.name == values.name) {
            if known.number != number {
                return refuse(errors::NEXT_VALUE_OVER_DIFFERS);
            }
            return Ok(bound(&known.column, known.values.result));
        }
        let shown = bound(&column, values.result);
        collected.push(NextValueColumn { values, number, column });
        Ok(shown)
    }

    /// The error if no sequence may be named here. A default is not refused for the clause around it, except
    /// with 11741; the statement decides.
    fn refusal(&self) -> Option<Entry<0>> {
        let in_default = self.progress.in_default.get() != InDefault::No;
        let scopes = self.progress.sequences.borrow();
        match scopes.last() {
            Some(SequenceScope::Refuse(number)) if !in_default || number.number == number::NEXT_VALUE_IN_CASE => {
                Some(*number)
            }
            _ if self.progress.nesting.get() > 0 => Some(errors::NEXT_VALUE_NOT_ALLOWED),
            _ => None,
        }
    }

    /// `ROW_NUMBER()` over a window.
    fn row_number(&self, window: &Window, position: Position, site: Site<'_>) -> Result<Expr, SqlError> {
        let call = FunctionCall {
            name: ObjectName::simple(Identifier::new("ROW_NUMBER")),
            arguments: FunctionArguments::List { distinct: false, values: Vec::<Expression>::new() },
            ignore_nulls: None,
            within_group: Vec::new(),
            over: None,
            span: hobt_tsql::ast::Span { position, ..Default::default() },
        };
        Ok(self.window_function("ROW_NUMBER", &call, window, site)?.expr)
    }

    /// The rows of a plan, with the values of the collected sequences.
    pub(super) fn with_next_values(
        &self,
        plan: LogicalPlan,
        columns: Vec<NextValueColumn>,
    ) -> Result<LogicalPlan, SqlError> {
        if columns.is_empty() {
            return Ok(plan);
        }
        let mut exprs: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        for NextValueColumn { values, number, column } in columns {
            let arguments = number.into_iter().collect();
            let call = Kernel::call(Operation::NextValue(values), arguments, Position::default());
            exprs.push(call.alias(column.name));
        }
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?))
    }
}
