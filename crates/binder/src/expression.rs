//! Binds expressions that have a value.

use hobt_base::{Position, SqlError, errors};
use hobt_functions::Volatility;
use hobt_tsql::ast::{ColumnName, Expression, Identifier, NiladicFunction, PartitionNumberCall, VariableName};
use hobt_types::SqlType;

use super::bound::{BoundExpr, Coercibility, ExprCollation};
use super::convert::{explicit, implicit};
use super::data_type::{TypePlace, collation_named, sql_type};
use super::extent::check_expression;
use super::literal::bind_literal;
use super::scope::resolve_column;
use super::{Binder, Clause, Site};
use hobt_udf::{Kernel, Operation};

impl Binder<'_> {
    /// Binds an expression.
    pub(super) fn expression(&self, expression: &Expression, site: Site<'_>) -> Result<BoundExpr, SqlError> {
        let is_leaf = matches!(
            expression,
            Expression::Literal { .. }
                | Expression::Variable { .. }
                | Expression::GlobalVariable { .. }
                | Expression::Column { .. }
                | Expression::Niladic { .. }
        );
        if is_leaf {
            return self.any_expression(expression, site);
        }
        let bound = self.within(|| self.any_expression(expression, site))?;
        check_expression(&bound.expr).map_err(|error| error.at(expression.position()))?;
        Ok(bound)
    }

    fn any_expression(&self, expression: &Expression, site: Site<'_>) -> Result<BoundExpr, SqlError> {
        let is_choice = match expression {
            Expression::SimpleCase { .. }
            | Expression::SearchedCase { .. }
            | Expression::Iif { .. }
            | Expression::Coalesce { .. }
            | Expression::NullIf { .. } => true,
            Expression::Function { call } => {
                call.name.as_simple().is_some_and(|name| name.is("ISNULL") || name.is("CHOOSE"))
            }
            _ => false,
        };
        match is_choice {
            true => self.refusing_next_values(errors::NEXT_VALUE_IN_CASE, || self.kind_of_expression(expression, site)),
            false => self.kind_of_expression(expression, site),
        }
    }

    fn kind_of_expression(&self, expression: &Expression, site: Site<'_>) -> Result<BoundExpr, SqlError> {
        match expression {
            Expression::Literal { value, span } => {
                let bound = bind_literal(value, span.position)?;
                Ok(BoundExpr { foldable: self.progress.folds.get(), ..bound })
            }
            Expression::Variable { name } => self.variable(name, site),
            Expression::GlobalVariable { name } => self.global_variable(name),
            Expression::Column { name } => self.column(name, site),
            Expression::Unary { operator, operand, span } => self.unary(*operator, operand, span.position, site),
            Expression::Arithmetic { first, rest } => self.chain(first, rest, site),
            Expression::Function { call } => self.call(call, site),
            Expression::Niladic { function, span } => self.niladic(*function, span.position),
            Expression::Cast { operand, data_type, attempt, span } => {
                let to = sql_type(data_type, TypePlace::Conversion)?;
                explicit(self.expression(operand, site)?, to, None, *attempt, span.position)
            }
            Expression::Convert { data_type, operand, style, attempt, span } => {
                let to = sql_type(data_type, TypePlace::Conversion)?;
                let operand = self.expression(operand, site)?;
                let given = style.as_deref().map(|style| self.style(style, site)).transpose()?;
                let converted = explicit(operand, to, given.flatten(), *attempt, span.position)?;
                match given {
                    // If the style is NULL, the result is NULL.
                    Some(None) => BoundExpr::literal(hobt_types::Value::Null, to, span.position),
                    _ => Ok(converted),
                }
            }
            Expression::SimpleCase { operand, branches, otherwise, span } => {
                self.simple_case(operand, branches, otherwise.as_deref(), span.position, site)
            }
            Expression::SearchedCase { branches, otherwise, span } => {
                self.searched_case(branches, otherwise.as_deref(), span.position, site)
            }
            Expression::Iif { condition, then, otherwise, span } => {
                self.iif(condition, then, otherwise, span.position, site)
            }
            Expression::Coalesce { arguments, span } => self.coalesce(arguments, span.position, site),
            Expression::NullIf { left, right, span } => self.null_if(left, right, span.position, site),
            Expression::Subquery { query, span } => self.scalar_subquery(query, span.position, site),
            Expression::Collate { operand, collation } => self.collate(operand, collation, site),
            Expression::PartitionNumber { call } => self.partition_number(call, site),
            Expression::NextValue { sequence, over, span } => {
                self.next_value(sequence, over.as_deref(), span.position, site)
            }
            Expression::Default { span } => Err(errors::SYNTAX_KEYWORD.with([&"DEFAULT"]).at(span.position)),
        }
    }

    fn column(&self, name: &ColumnName, site: Site<'_>) -> Result<BoundExpr, SqlError> {
        if site.scope.tables.is_empty() && site.names.outer.is_none() && name.qualifier.is_none() {
            let error = match site.clause {
                Clause::Scalar => errors::COLUMN_NAME_NOT_PERMITTED.with([&name.name.value]),
                _ => super::scope::invalid_column(&name.name.value),
            };
            return Err(error.at(name.position()));
        }
        resolve_column(site.scope, site.names.outer, name)
    }

    fn variable(&self, name: &VariableName, site: Site<'_>) -> Result<BoundExpr, SqlError> {
        if let Some(parameters) = &site.names.parameters {
            if let Some(value) = parameters.get(&name.value.to_lowercase()) {
                return Ok(BoundExpr { position: name.position, ..value.clone() });
            }
        } else if let Some(assigned) = &site.names.assigned
            && (site.clause != Clause::Aggregate || assigned.in_subquery)
            && let Some(current) = assigned.current(name)?
        {
            return Ok(current);
        } else if let Some(typed) = self.resolver.variable(&name.value) {
            if self.options.keeps_variables {
                return Ok(parameter(name, typed.sql_type));
            }
            self.progress.reads_variables.set(true);
            let known = BoundExpr::literal(typed.value, typed.sql_type, name.position)?;
            // In other clauses nothing is estimated from it, and a mark would become part of a column's name.
            if !matches!(site.clause, Clause::Where | Clause::On) {
                return Ok(known);
            }
            let known = match self.resolver.assumed(&name.value).map_err(|error| error.at(name.position))? {
                Some(assumed) => known.assuming(assumed)?,
                None => known,
            };
            return Ok(if self.options.names_variables { known.of_variable(&name.value) } else { known });
        }
        Err(errors::UNDECLARED_VARIABLE.with([&name.value]).at(name.position))
    }

    fn global_variable(&self, name: &VariableName) -> Result<BoundExpr, SqlError> {
        let typed = self
            .resolver
            .global_variable(&name.value)
            .ok_or_else(|| errors::UNDECLARED_VARIABLE.with([&name.value]).at(name.position))?;
        if self.options.keeps_variables {
            return Ok(parameter(name, typed.sql_type));
        }
        self.progress.is_cacheable.set(false);
        BoundExpr::literal(typed.value, typed.sql_type, name.position)
    }

    fn niladic(&self, function: NiladicFunction, position: Position) -> Result<BoundExpr, SqlError> {
        let name = match function {
            NiladicFunction::CurrentTimestamp => "GETDATE",
            NiladicFunction::CurrentDate => {
                let now = self.scalar_function("GETDATE", None, vec![], position)?;
                return explicit(now, SqlType::Date, None, false, position);
            }
            NiladicFunction::CurrentUser => "CURRENT_USER",
            NiladicFunction::SessionUser => "SESSION_USER",
            NiladicFunction::SystemUser => "SYSTEM_USER",
            NiladicFunction::User => "USER",
        };
        self.scalar_function(name, None, vec![], position)
    }

    /// The third argument of `CONVERT`, whose value must be known; `None` for NULL.
    fn style(&self, style: &Expression, site: Site<'_>) -> Result<Option<i32>, SqlError> {
        let position = style.position();
        let bound = implicit(self.expression(style, site)?, SqlType::Int)?;
        Ok(match self.evaluate(&bound).map_err(|error| error.at(position))? {
            hobt_types::Value::Int(style) => Some(i32::try_from(style).unwrap_or(0)),
            _ => None,
        })
    }

    fn collate(&self, operand: &Expression, collation: &Identifier, site: Site<'_>) -> Result<BoundExpr, SqlError> {
        let bound = self.expression(operand, site)?;
        if !bound.sql_type.is_text() && !bound.is_untyped_null() {
            return Err(errors::COLLATE_TYPE.with([&bound.sql_type.name()]).at(collation.position));
        }
        let known = collation_named(collation)?;
        Ok(bound.with_collation(ExprCollation { collation: known, coercibility: Coercibility::Explicit }))
    }

    fn partition_number(&self, call: &PartitionNumberCall, site: Site<'_>) -> Result<BoundExpr, SqlError> {
        let position = call.span.position;
        let function = self
            .resolver
            .partition_function(call.database.as_ref(), &call.function)
            .map_err(|error| error.at(position))?;
        let [argument] = call.arguments.as_slice() else {
            return Err(errors::FUNCTION_ARGUMENT_COUNT.with([&function.name, &1]).at(position));
        };
        let argument = implicit(self.expression(argument, site)?, function.parameter)?;
        let expr = Kernel::call(Operation::PartitionNumber(function), vec![argument.expr], position);
        Ok(BoundExpr::new(expr, SqlType::Int, false, position))
    }

    /// The context for one call of a function that draws random numbers: each call in the text has a different seed.
    pub(super) fn context_for(&self, volatility: Volatility) -> std::sync::Arc<hobt_functions::FunctionContext> {
        if volatility != Volatility::Immutable && !self.options.keeps_variables {
            // The context has the time and the seed of this execution.
            self.progress.is_cacheable.set(false);
        }
        if volatility != Volatility::OncePerReference {
            return self.context.clone();
        }
        let place = self.progress.next_name.get();
        self.progress.next_name.set(place + 1);
        let mut context = (*self.context).clone();
        let place = u64::try_from(place).unwrap_or(0);
        context.random_seed ^= place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        std::sync::Arc::new(context)
    }
}

/// A variable that is read at each evaluation.
fn parameter(name: &VariableName, sql_type: SqlType) -> BoundExpr {
    let operation = Operation::Parameter { name: name.value.clone(), sql_type };
    BoundExpr::new(Kernel::call(operation, Vec::new(), name.position), sql_type, true, name.position)
}
