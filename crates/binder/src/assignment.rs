//! `SELECT @v = x, …`: the values of the variables, computed row by row and from left to right.
//!
//! A value that reads a variable which its own `SELECT` assigns depends on the rows before it, so no plan can compute
//! it. While such a value is bound, the variable is a placeholder. The plan then returns the columns and subqueries
//! that the value reads. When a row arrives, the value is computed from these columns and the current values of the
//! variables:
//!
//! ```text
//! SELECT @s = COALESCE(@s + ', ', '') + name, @n = n + 1 FROM t
//!     plan      NULL AS expr_1, n + 1 AS expr_2, name AS part_3
//!     each row  @s := COALESCE(@s + ', ', '') + part_3; @n := expr_2
//! ```
//!
//! If no value does that, only the last row counts. Outside the select list, and within aggregates, a variable has the
//! value from before the statement.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use hobt_base::{Position, SqlError, errors};
use hobt_functions::{array_value, carrier, value_to_array};
use hobt_tsql::ast::{Select, SelectItem, VariableName};
use hobt_types::{SqlType, TypedValue};

use super::Binder;
use super::bound::{BoundExpr, BoundQuery};
use super::scope::same_name;
use crate::body::BodyColumn;
use crate::item::Item;
use crate::subquery_expr::plan_of;
use hobt_udf::{external, sql_error_of};

/// A variable that a `SELECT` assigns.
#[derive(Clone, Debug)]
pub(super) struct AssignedVariable {
    pub(super) name: VariableName,
    /// Its value before the statement.
    pub(super) before: TypedValue,
}

/// The variables that the enclosing `SELECT` assigns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assigned<'p> {
    pub(super) variables: &'p [AssignedVariable],
    /// Whether the expression is in a subquery of that `SELECT`.
    pub(super) in_subquery: bool,
}

impl Assigned<'_> {
    /// The variable, as it is when the current row is processed; `None` if it is not assigned.
    ///
    /// # Errors
    /// "Not supported" in a subquery, whose rows are computed before those of the `SELECT`.
    pub(super) fn current(&self, name: &VariableName) -> Result<Option<BoundExpr>, SqlError> {
        let Some(variable) = self.variables.iter().find(|known| known.is(name)) else {
            return Ok(None);
        };
        if self.in_subquery {
            return Err(in_subquery(&name.value).at(name.position));
        }
        Ok(Some(variable.placeholder(name.position)))
    }
}

impl AssignedVariable {
    pub(super) fn is(&self, name: &VariableName) -> bool {
        same_name(&self.name.value, &name.value)
    }

    pub(super) fn sql_type(&self) -> SqlType {
        self.before.sql_type
    }

    pub(super) fn placeholder(&self, position: Position) -> BoundExpr {
        let field = Field::new(column_of(&self.name.value), carrier(self.sql_type()), true);
        let expr = Expr::Placeholder(Placeholder::new_with_field(column_of(&self.name.value), Some(field.into())));
        BoundExpr::new(expr, self.sql_type(), true, position)
    }
}

/// The column of a variable, beside the plan's columns, whose names never begin with `@`.
pub(super) fn column_of(variable: &str) -> String {
    variable.to_lowercase()
}

fn in_subquery(variable: &str) -> SqlError {
    SqlError::not_supported(format!("A subquery that reads {variable}, which the SELECT around it assigns,"))
}

/// Whether an expression, or a subquery in it, reads a variable that its `SELECT` assigns.
pub(super) fn reads_assigned(expr: &Expr) -> bool {
    let reads = |node: &Expr| matches!(node, Expr::Placeholder(_)) || plan_of(node).is_some_and(plan_reads_assigned);
    // The closure never returns an error.
    expr.exists(|node| Ok(reads(node))).unwrap_or(true)
}

fn plan_reads_assigned(plan: &LogicalPlan) -> bool {
    let mut found = false;
    let visited = plan.apply(|node| {
        node.apply_expressions(|expr| {
            found |= reads_assigned(expr);
            Ok(TreeNodeRecursion::Continue)
        })
    });
    found || visited.is_err()
}

/// The values of a `SELECT` of which some must be computed row by row.
#[derive(Debug, Default)]
pub(super) struct RowValues {
    /// The values over the plan's columns and the placeholders; `None` for an item that the plan computes.
    pub(super) values: Vec<Option<Expr>>,
    /// The columns that the plan must return for them, with their names.
    pub(super) parts: Vec<(Expr, String)>,
}

impl RowValues {
    /// Whether the item with this index is computed row by row.
    pub(super) fn has(&self, place: usize) -> bool {
        self.values.get(place).is_some_and(Option::is_some)
    }

    /// Whether the plan computes every item.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty() && !self.values.iter().any(Option::is_some)
    }
}

/// One assignment.
#[derive(Clone, Debug)]
pub(super) struct Assignment {
    variable: usize,
    /// An expression over the columns of the plan and the placeholders.
    value: Expr,
    position: Position,
}

/// The assignments of a bound `SELECT`.
#[derive(Debug, Default)]
pub(super) struct Assignments {
    pub(super) variables: Vec<AssignedVariable>,
    pub(super) steps: Vec<Assignment>,
}

impl Binder<'_> {
    /// The variables that a `SELECT` assigns, each once.
    ///
    /// # Errors
    /// 137 if one is not declared.
    pub(super) fn assigned_variables(&self, select: &Select) -> Result<Vec<AssignedVariable>, SqlError> {
        let assigned = select.items.iter().filter_map(|item| match item {
            SelectItem::Assign { variable, .. } => Some(variable),
            _ => None,
        });
        self.variables_named(assigned)
    }

    /// Variables by their names, each once.
    ///
    /// # Errors
    /// 137 if one is not declared.
    pub(super) fn variables_named<'n>(
        &self,
        names: impl Iterator<Item = &'n VariableName>,
    ) -> Result<Vec<AssignedVariable>, SqlError> {
        let mut variables: Vec<AssignedVariable> = Vec::new();
        for variable in names {
            if variables.iter().any(|known| known.is(variable)) {
                continue;
            }
            let before = self
                .resolver
                .variable(&variable.value)
                .ok_or_else(|| errors::UNDECLARED_VARIABLE.with([&variable.value]).at(variable.position))?;
            variables.push(AssignedVariable { name: variable.clone(), before });
        }
        Ok(variables)
    }

    /// Removes the values that depend on earlier rows from the select list, and leaves NULL in their place.
    ///
    /// # Errors
    /// "Not supported" if a subquery reads an assigned variable.
    pub(super) fn take_row_values(&self, items: &mut [Item]) -> Result<RowValues, SqlError> {
        let mut taken = RowValues::default();
        for item in items {
            let value = reads_assigned(&item.value.expr).then(|| {
                let null = BoundExpr::literal(hobt_types::Value::Null, item.value.sql_type, item.value.position)?;
                let expr = std::mem::replace(&mut item.value.expr, null.expr);
                self.take_parts(expr, &mut taken.parts).map_err(|error| error.at(item.value.position))
            });
            taken.values.push(value.transpose()?);
        }
        // A subquery that reads an assigned variable itself.
        let reads = |(part, _): &(Expr, String)| match plan_of(part) {
            Some(plan) => plan_reads_assigned(plan),
            None => false,
        };
        match taken.parts.iter().any(reads) {
            true => Err(in_subquery("a variable")),
            false => Ok(taken),
        }
    }

    /// Replaces the columns and subqueries in a value by columns of their own, which are added to `parts`.
    fn take_parts(&self, expr: Expr, parts: &mut Vec<(Expr, String)>) -> Result<Expr, SqlError> {
        let rewritten = expr.transform_down(|node| {
            if !matches!(node, Expr::Column(_)) && plan_of(&node).is_none() {
                return Ok(Transformed::no(node));
            }
            if let Expr::InSubquery(within) = &node
                && reads_assigned(&within.expr)
            {
                return Err(external(in_subquery("a variable")));
            }
            let known = parts.iter().find(|(part, _)| *part == node).map(|(_, name)| name.clone());
            let name = known.unwrap_or_else(|| {
                let name = self.fresh("part");
                parts.push((node, name.clone()));
                name
            });
            Ok(Transformed::new(Expr::Column(Column::new_unqualified(name)), true, TreeNodeRecursion::Jump))
        });
        rewritten.map(|rewritten| rewritten.data).map_err(sql_error_of)
    }

    /// The assignments of a select list, whose values are columns of the plan or computed row by row.
    pub(super) fn assignments(
        &self,
        select: &Select,
        variables: Vec<AssignedVariable>,
        row_values: RowValues,
        columns: &[BodyColumn],
    ) -> Assignments {
        let mut values = row_values.values.into_iter();
        let mut steps = Vec::with_capacity(columns.len());
        for (item, column) in select.items.iter().zip(columns) {
            let value = values.next().flatten().unwrap_or_else(|| Expr::Column(column.column.clone()));
            let SelectItem::Assign { variable, value: text, .. } = item else { continue };
            let place = variables.iter().position(|known| known.is(variable));
            steps.extend(place.map(|variable| Assignment { variable, value, position: text.position() }));
        }
        Assignments { variables, steps }
    }
}

/// An expression over columns and variables, compiled for batches that have both.
pub(super) fn physical(value: Expr, columns: &DFSchema) -> Result<Arc<dyn PhysicalExpr>, SqlError> {
    let value = value.transform_down(|node| match node {
        Expr::Placeholder(variable) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(variable.id)))),
        other => Ok(Transformed::no(other)),
    });
    let value = value.map_err(sql_error_of)?.data;
    let context = PhysicalPlanningContext::default();
    create_physical_expr(&value, columns, &ExecutionProps::new(), &context).map_err(sql_error_of)
}

/// One assignment, compiled.
#[derive(Clone, Debug)]
struct Step {
    variable: usize,
    value: Arc<dyn PhysicalExpr>,
    position: Position,
}

/// A `SELECT` that assigns variables: its query, and the values of the variables after the rows processed so far.
#[derive(Clone, Debug)]
pub struct BoundAssignments {
    /// The query that returns the rows.
    pub query: BoundQuery,
    /// Whether a row's values depend on the rows before it; otherwise only the last row counts.
    pub is_row_by_row: bool,
    variables: Vec<AssignedVariable>,
    steps: Vec<Step>,
    /// The columns of the query, then the variables.
    schema: SchemaRef,
    /// The values of the variables; `None` before the first row.
    current: Option<Vec<ArrayRef>>,
}

impl BoundAssignments {
    pub(super) fn new(query: BoundQuery, assignments: Assignments) -> Result<BoundAssignments, SqlError> {
        let Assignments { variables, steps } = assignments;
        let is_row_by_row = steps.iter().any(|step| reads_assigned(&step.value));
        let mut fields: Vec<Field> = Vec::new();
        for field in query.plan.schema().fields() {
            fields.push(field.as_ref().clone().with_nullable(true));
        }
        for variable in &variables {
            fields.push(Field::new(column_of(&variable.name.value), carrier(variable.sql_type()), true));
        }
        let schema = Arc::new(Schema::new(fields));
        let named = DFSchema::try_from(Arc::clone(&schema)).map_err(sql_error_of)?;
        let steps = steps.into_iter().map(|step| {
            let value = physical(step.value, &named)?;
            Ok(Step { variable: step.variable, value, position: step.position })
        });
        let steps = steps.collect::<Result<_, SqlError>>()?;
        Ok(BoundAssignments { query, is_row_by_row, variables, steps, schema, current: None })
    }

    /// Processes rows of the query.
    ///
    /// # Errors
    /// Those of the values; what earlier rows assigned is kept.
    pub fn take(&mut self, batch: &RecordBatch) -> Result<(), SqlError> {
        let rows = batch.num_rows();
        let first = if self.is_row_by_row { 0 } else { rows.saturating_sub(1) };
        for row in first..rows {
            self.take_row(&batch.slice(row, 1))?;
        }
        Ok(())
    }

    fn take_row(&mut self, row: &RecordBatch) -> Result<(), SqlError> {
        let current = match &mut self.current {
            Some(current) => current,
            None => {
                let before =
                    self.variables.iter().map(|variable| value_to_array(&variable.before.value, variable.sql_type()));
                self.current.insert(before.collect::<Result<_, _>>()?)
            }
        };
        for step in &self.steps {
            let columns = row.columns().iter().chain(current.iter()).cloned().collect();
            let options = RecordBatchOptions::new().with_row_count(Some(1));
            let seen = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
                .map_err(|error| SqlError::internal(error.to_string()))?;
            let value = step.value.evaluate(&seen).and_then(|value| value.into_array(1));
            current[step.variable] = value.map_err(|error| sql_error_of(error).at(step.position))?;
        }
        Ok(())
    }

    /// The variables and their values, if there was a row.
    ///
    /// # Errors
    /// An internal error if a value is not of its variable's type.
    pub fn values(&self) -> Result<Vec<(&VariableName, TypedValue)>, SqlError> {
        let current = self.current.iter().flatten();
        let values = self.variables.iter().zip(current).map(|(variable, array)| {
            let sql_type = variable.sql_type();
            Ok((&variable.name, TypedValue { sql_type, value: array_value(array.as_ref(), 0, sql_type)? }))
        });
        values.collect()
    }
}

/// Refuses a value that must be known before any row, but reads an assigned variable.
///
/// # Errors
/// "Not supported".
pub(super) fn check_known(bound: &BoundExpr) -> Result<(), SqlError> {
    let mut variable = None;
    let visited = bound.expr.apply(|node| {
        if let Expr::Placeholder(found) = node {
            variable = Some(found.id.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    match variable {
        None => visited.map(|_| ()).map_err(sql_error_of),
        Some(name) => {
            let what = format!("{name}, which the SELECT assigns, where a constant is needed,");
            Err(SqlError::not_supported(what).at(bound.position))
        }
    }
}
