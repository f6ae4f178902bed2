//! `UPDATE` and `DELETE` of a single row by its key: `WHERE` has an equation for each column of a unique index. Also
//! reading such a row.
//!
//! Only expressions are bound here, for [`Formula`](crate::formula::Formula)s: those of the key read no column, the
//! others read the columns of the row. Everything that is not of this simple form returns `None`. The statement is then
//! executed as an ordinary query, which also reports its errors.

use hobt_base::{SqlError, errors};
use hobt_catalog::{Table, TableColumn};
use hobt_functions::common_type;
use hobt_tsql::ast::{Assignment, ColumnName, ComparisonOperator, Condition, Expression, SelectItem, VariableName};
use hobt_types::SqlType;

use super::arithmetic::{binary, operator_of};
use super::bound::{BoundExpr, ExprCollation};
use super::case::bit_of;
use super::convert::implicit;
use super::row_rules::{RowScope, rule_columns};
use super::scope::{Names, same_name};
use super::{Binder, Clause, Site};

/// The row that a condition identifies, and the other expressions on it.
#[derive(Debug)]
pub struct BoundRow {
    /// The values of the key's columns, in its order. Integers may have a different integer type than their columns.
    pub key: Vec<BoundExpr>,
    /// The remaining condition on the row: a `bit`.
    pub rest: Option<BoundExpr>,
    /// The columns that change, by their indexes in the table, and their new values, of the columns' types.
    pub values: Vec<(usize, BoundExpr)>,
    /// The values that are read from the row, each with the variable that it is assigned to, if any.
    pub read: Vec<(Option<VariableName>, BoundExpr)>,
}

/// What a statement does with the row.
#[derive(Clone, Copy)]
pub enum RowUse<'s> {
    /// Changes it; without assignments, deletes it.
    Change(&'s [Assignment]),
    /// Reads it: a select list.
    Read(&'s [SelectItem]),
}

impl Binder<'_> {
    /// Binds the condition of a statement that reads or changes rows of `table`, which is called `name` in it, and its
    /// expressions over the row. `key` has the indexes of a unique index's columns.
    pub fn bind_row_by_key(
        &self,
        table: &Table,
        name: &str,
        key: &[usize],
        condition: &Condition,
        usage: RowUse<'_>,
    ) -> Option<BoundRow> {
        let columns = rule_columns(table).ok()?;
        let rows = self.row_scope(name, &columns).ok()?;
        let conditions = match condition {
            Condition::And { operands } => operands.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut values: Vec<Option<BoundExpr>> = key.iter().map(|_| None).collect();
        let mut others = Vec::new();
        for condition in conditions {
            let named = key_value(condition, name, |column| {
                key.iter().position(|place| same_name(&table.columns[*place].name, column))
            });
            let bound = named.and_then(|(at, value)| Some((at, self.value_of_key(value, &table.columns[key[at]])?)));
            match bound {
                Some((at, value)) if values[at].is_none() => values[at] = Some(value),
                _ => others.push(condition),
            }
        }
        let key = values.into_iter().collect::<Option<Vec<_>>>()?;
        let rest = match others.as_slice() {
            [] => None,
            others => {
                let whole = Condition::And { operands: others.iter().map(|other| (*other).clone()).collect() };
                let position = condition.position();
                Some(bit_of(self.row_condition(&rows, &whole).ok()?, position))
            }
        };
        let (assignments, items) = match usage {
            RowUse::Change(assignments) => (assignments, [].as_slice()),
            RowUse::Read(items) => ([].as_slice(), items),
        };
        let mut set: Vec<(usize, BoundExpr)> = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            let (place, value) = self.assigned_of_row(table, name, &rows, assignment)?;
            if set.iter().any(|(known, _)| *known == place) {
                return None;
            }
            set.push((place, value));
        }
        let read = items.iter().map(|item| self.read_of_row(&rows, item)).collect::<Option<_>>()?;
        Some(BoundRow { key, rest, values: set, read })
    }

    fn read_of_row(&self, rows: &RowScope, item: &SelectItem) -> Option<(Option<VariableName>, BoundExpr)> {
        let (variable, value) = match item {
            SelectItem::Value { value, .. } => (None, value),
            SelectItem::Assign { variable, operator, value } if operator.arithmetic().is_none() => {
                (Some(variable.clone()), value)
            }
            SelectItem::Assign { .. } | SelectItem::Wildcard { .. } => return None,
        };
        let bound = self.row_value(rows, value).ok()?;
        let bound = match &variable {
            Some(variable) => implicit(bound, self.resolver.variable(&variable.value)?.sql_type).ok()?,
            None => bound,
        };
        Some((variable, bound))
    }

    /// The value that a column of a key is equal to. `None` unless the two compare in the column's type, because
    /// otherwise rows with other keys may be equal to the value.
    fn value_of_key(&self, value: &Expression, column: &TableColumn) -> Option<BoundExpr> {
        let bound = self.bind_scalar(value).ok()?;
        if Binder::needs_query(&bound) {
            return None;
        }
        let (collation, column) = (ExprCollation::of_column(column.collation), column.sql_type);
        let both = |is: fn(&SqlType) -> bool| is(&bound.sql_type) && is(&column);
        if both(|sql_type| sql_type.is_text()) {
            // Under another collation than the column's, different texts are equal.
            let met = collation.meet(bound.collation, "equal to").ok()?;
            return (met.collation == collation.collation).then_some(bound);
        }
        if both(|sql_type| sql_type.is_integer() && *sql_type != SqlType::Bit) {
            return Some(bound);
        }
        let compares_as = common_type(bound.sql_type, column).ok()?;
        (compares_as == column).then(|| implicit(bound, column).ok()).flatten()
    }

    fn assigned_of_row(
        &self,
        table: &Table,
        name: &str,
        rows: &RowScope,
        assignment: &Assignment,
    ) -> Option<(usize, BoundExpr)> {
        let named = assignment.column.as_ref().filter(|column| is_of(column, name))?;
        let place = table.column_named(&named.name.value)?;
        let column = &table.columns[place];
        if assignment.variable.is_some() || column.identity.is_some() || column.computed.is_some() {
            return None;
        }
        let names = Names::default();
        let site = Site { scope: &rows.scope, names: &names, clause: Clause::Set, collector: None };
        let bind = || -> Result<BoundExpr, SqlError> {
            let position = assignment.value.position();
            let mut value =
                self.refusing_next_values(errors::NEXT_VALUE_NOT_ALLOWED, || self.expression(&assignment.value, site))?;
            if let Some(operator) = assignment.operator.arithmetic() {
                let current = rows.scope.tables[0].columns[place].bound(position);
                value = binary(current, operator_of(operator), value, position)?;
            }
            self.assign(value, column.sql_type)
        };
        bind().ok().filter(|bound| !Binder::needs_query(bound)).map(|bound| (place, bound))
    }
}

/// The column, found by `place_of`, and the value of a condition `column = value`.
fn key_value<'c>(
    condition: &'c Condition,
    table: &str,
    place_of: impl Fn(&str) -> Option<usize>,
) -> Option<(usize, &'c Expression)> {
    let Condition::Comparison { left, operator: ComparisonOperator::Equal, right, .. } = condition else { return None };
    let place = |side: &Expression| match side {
        Expression::Column { name } if is_of(name, table) => place_of(&name.name.value),
        _ => None,
    };
    match (place(left), place(right)) {
        (Some(at), None) => Some((at, right)),
        (None, Some(at)) => Some((at, left)),
        _ => None,
    }
}

/// Whether a column is unqualified, or qualified with this name of the table.
fn is_of(column: &ColumnName, table: &str) -> bool {
    let qualifier = column.qualifier.as_ref();
    qualifier.is_none_or(|qualifier| qualifier.as_simple().is_some_and(|name| name.is(table)))
}
