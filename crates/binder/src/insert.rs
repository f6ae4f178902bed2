//! The rows of an `INSERT`, converted to the types of the columns that take them.

use datafusion::common::Column;
use datafusion::logical_expr::{LogicalPlan, Projection};
use hobt_base::{SqlError, errors};
use hobt_functions::type_rules::{check_implicit, declared_length};
use hobt_tsql::ast::{Expression, Query};
use hobt_types::{MaxLength, SqlType};

use super::bound::{BoundExpr, BoundQuery, ResultColumn};
use super::convert::{explicit, implicit};
use super::function::sequential_outside_default;
use super::scope::Names;
use super::{Binder, shared};
use crate::body::{BodyColumn, QueryUse};
use crate::sequence_scope::{InDefault, Wrapped};
use hobt_udf::{Kernel, NextValues, Operation, sql_error_of};

/// A column that takes values.
#[derive(Clone, Debug)]
pub struct TargetColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
}

/// The columns of an `INSERT`'s list, in its order.
#[derive(Clone, Debug)]
pub struct InsertTarget {
    /// The table's name, for messages.
    pub table: String,
    /// The columns.
    pub columns: Vec<TargetColumn>,
}

/// A value, converted to the type of the column that takes it.
///
/// Text and binary longer than the column keep their own length and type, so that the consumer of the rows can refuse
/// them (2628). Values that fit are padded as the column's type requires.
///
/// # Errors
/// 206 and 257 if T-SQL does not convert implicitly.
fn assign(bound: BoundExpr, to: SqlType) -> Result<BoundExpr, SqlError> {
    let from = bound.sql_type;
    if bound.is_untyped_null() || from == to {
        return implicit(bound, to);
    }
    let same_family = (from.is_text() && to.is_text()) || (from.is_binary() && to.is_binary());
    if !same_family {
        return implicit(bound, to);
    }
    check_implicit(from, to).map_err(|error| error.at(bound.position))?;
    let fits = match (declared_length(from), declared_length(to)) {
        (_, Some(MaxLength::Max)) => true,
        (Some(MaxLength::Limited(a)), Some(MaxLength::Limited(b))) => a <= b,
        _ => false,
    };
    let position = bound.position;
    // From a national type to another one, a character can become a question mark or two bytes, so the column's own
    // length decides.
    let longest = match (to, fits) {
        (_, true) => to,
        (SqlType::Char(_) | SqlType::VarChar(_), false) => SqlType::VarChar(MaxLength::Max),
        (SqlType::NChar(_) | SqlType::NVarChar(_), false) => SqlType::NVarChar(MaxLength::Max),
        _ => SqlType::VarBinary(MaxLength::Max),
    };
    explicit(bound, longest, None, false, position)
}

impl Binder<'_> {
    /// Binds the query of `INSERT … SELECT`, with each column converted to its target's type.
    ///
    /// The result's columns have the targets' names. If the type of one is longer than its target's, the code that
    /// stores the values must check and pad them (error 2628).
    ///
    /// # Errors
    /// 120 and 121 for a wrong number of columns; 206, 257 for types that do not convert.
    pub fn bind_insert_source(&self, query: &Query, target: &InsertTarget) -> Result<BoundQuery, SqlError> {
        let (plan, values) = self.insert_source(query, target)?;
        self.assigned(plan, values, target)
    }

    /// The plan of a query, and the values of its columns, one for each column of the target.
    fn insert_source(&self, query: &Query, target: &InsertTarget) -> Result<(LogicalPlan, Vec<BoundExpr>), SqlError> {
        let body = self.query(query, &Names::default(), QueryUse::Statement)?;
        let position = query.span.position;
        if body.columns.len() != target.columns.len() {
            let entry = match body.columns.len() < target.columns.len() {
                true => errors::SELECT_FEWER_ITEMS,
                false => errors::SELECT_MORE_ITEMS,
            };
            return Err(entry.error().at(position));
        }
        let values = body.columns.iter().map(|column| column.bound(position)).collect();
        Ok((body.plan, values))
    }

    /// As [`Binder::bind_insert_source`], for a query that the interpreter has wrapped around the statement's own. The
    /// inner query may name sequences where it could by itself, and the added values are DEFAULTs. `identity` is the
    /// index of a column with row numbers from 1, and the identity values that replace these.
    ///
    /// # Errors
    /// As [`Binder::bind_insert_source`].
    pub fn bind_wrapped_insert_source(
        &self,
        query: &Query,
        target: &InsertTarget,
        identity: Option<&(usize, NextValues)>,
    ) -> Result<BoundQuery, SqlError> {
        self.progress.wrapped.set(Wrapped::Outside);
        let bound = self.within_default(InDefault::Bound, || self.insert_source(query, target));
        self.progress.wrapped.set(Wrapped::No);
        let (plan, mut values) = bound?;
        if let Some((place, identity)) = identity {
            let number = values[*place].expr.clone();
            let value = Kernel::call(Operation::NextValue(identity.clone()), vec![number], query.span.position);
            values[*place] = BoundExpr::new(value, identity.result, false, query.span.position);
        }
        self.assigned(plan, values, target)
    }

    /// Checks the DEFAULT of a column that is to be created, so that an invalid one is refused at once. Takes no value
    /// of a sequence.
    ///
    /// # Errors
    /// 128 for a column's name; 302; 1046 for a subquery; 206 and 257 for a type that does not convert.
    pub fn check_default(&self, default: &Expression, to: SqlType) -> Result<(), SqlError> {
        let position = default.position();
        let is_sequential = |expression: &Expression| {
            matches!(expression, Expression::Function { call }
                if call.name.as_simple().is_some_and(|name| name.is("NEWSEQUENTIALID")))
        };
        if is_sequential(default) {
            let fits = to == SqlType::UniqueIdentifier;
            return if fits { Ok(()) } else { Err(sequential_outside_default().at(position)) };
        }
        let check = || self.within_default(InDefault::Checked, || self.bind_scalar(default));
        let (bound, _sequences) = self.collecting_next_values(check)?;
        super::row_rules::no_subquery(&bound.expr, position)?;
        assign(bound, to).map(|_| ())
    }

    /// Binds a column's DEFAULT for a single row.
    ///
    /// # Errors
    /// As [`Binder::bind_scalar`].
    pub fn bind_default(&self, default: &Expression) -> Result<BoundExpr, SqlError> {
        self.within_default(InDefault::Bound, || self.bind_scalar(default))
    }

    /// Binds a row of `INSERT … VALUES`, with each value separately converted to its target's type. `default` gives the
    /// value of `DEFAULT` for the column with this index in the target.
    ///
    /// # Errors
    /// 109 and 110 for a wrong number of values; 206, 257 for types that do not convert.
    pub fn bind_insert_row(
        &self,
        row: &[Expression],
        target: &InsertTarget,
        default: &mut dyn FnMut(usize) -> Result<BoundExpr, SqlError>,
    ) -> Result<Vec<BoundExpr>, SqlError> {
        if row.len() != target.columns.len() {
            let entry = match row.len() < target.columns.len() {
                true => errors::INSERT_MORE_COLUMNS,
                false => errors::INSERT_FEWER_COLUMNS,
            };
            return Err(entry.error().at(row.first().map(Expression::position).unwrap_or_default()));
        }
        let mut values = Vec::with_capacity(row.len());
        for (place, (value, column)) in row.iter().zip(&target.columns).enumerate() {
            let bound = match value {
                Expression::Default { .. } => default(place)?,
                other => self.bind_scalar(other)?,
            };
            values.push(assign(bound, column.sql_type)?);
        }
        Ok(values)
    }

    /// Converts a value to the type of a column or variable, as an assignment does.
    ///
    /// # Errors
    /// Errors 206, 257.
    pub fn assign(&self, bound: BoundExpr, to: SqlType) -> Result<BoundExpr, SqlError> {
        assign(bound, to)
    }

    /// Converts a value to the type of a variable or parameter. Text that is too long is truncated without an error.
    ///
    /// # Errors
    /// Errors 206, 257.
    pub fn convert(&self, bound: BoundExpr, to: SqlType) -> Result<BoundExpr, SqlError> {
        implicit(bound, to)
    }

    fn assigned(
        &self,
        plan: LogicalPlan,
        values: Vec<BoundExpr>,
        target: &InsertTarget,
    ) -> Result<BoundQuery, SqlError> {
        let mut exprs = Vec::with_capacity(values.len());
        let mut columns: Vec<ResultColumn> = Vec::with_capacity(values.len());
        for (value, column) in values.into_iter().zip(&target.columns) {
            let value = assign(value, column.sql_type)?;
            let name = self.fresh(&column.name);
            exprs.push(value.expr.alias(&name));
            let bound = BodyColumn {
                name: Some(column.name.clone()),
                column: Column::new_unqualified(name),
                sql_type: value.sql_type,
                nullable: value.nullable,
                collation: value.collation,
                untyped_null: false,
                literal: None,
            };
            columns.push(bound.result());
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, shared(plan)).map_err(sql_error_of)?);
        Ok(BoundQuery { plan, columns, into: None, is_cacheable: self.progress.is_cacheable.get() })
    }
}
