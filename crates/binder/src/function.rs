//! Calls of functions by name.

use std::sync::Arc;

use hobt_base::{Position, SqlError, errors};
use hobt_functions::{ArgType, DatePart, FunctionDef, Volatility, lookup};
use hobt_tsql::ast::{Expression, FunctionArguments, FunctionCall};
use hobt_types::SqlType;

use super::aggregate::aggregate_kind;
use super::bound::{BoundExpr, ExprCollation};
use super::folding::{self, Operands};
use super::{Binder, Site, SystemFunction};
use crate::sequence_scope::InDefault;
use hobt_udf::{Kernel, Operation};

/// Functions that are valid only over windows.
const WINDOW_FUNCTIONS: [&str; 10] = [
    "ROW_NUMBER",
    "RANK",
    "DENSE_RANK",
    "NTILE",
    "LAG",
    "LEAD",
    "FIRST_VALUE",
    "LAST_VALUE",
    "PERCENT_RANK",
    "CUME_DIST",
];

impl Binder<'_> {
    /// A call of a function.
    pub(super) fn call(&self, call: &FunctionCall, site: Site<'_>) -> Result<BoundExpr, SqlError> {
        let position = call.span.position;
        let name = call.name.name.value.to_uppercase();
        if call.name.as_simple().is_none() {
            let schema = call.name.schema.as_ref().map(|schema| schema.value.as_str()).unwrap_or_default();
            if !schema.eq_ignore_ascii_case("sys") {
                return Err(errors::NO_COLUMN_OR_FUNCTION.with([&schema, &schema, &call.name.name.value]).at(position));
            }
        }
        if let Some(kind) = aggregate_kind(&name) {
            return match &call.over {
                Some(window) => self.window_aggregate(kind, call, window, site),
                None => self.aggregate(kind, call, site),
            };
        }
        if WINDOW_FUNCTIONS.contains(&name.as_str()) {
            return match &call.over {
                Some(window) => self.window_function(&name, call, window, site),
                None => Err(errors::WINDOW_MISSING.with([&name]).at(position)),
            };
        }
        if call.over.is_some() {
            return Err(errors::NOT_A_WINDOW_FUNCTION.with([&call.name.name.value]).at(position));
        }
        if name == "NEWSEQUENTIALID" && self.progress.in_default.get() != InDefault::Bound {
            return Err(sequential_outside_default().at(position));
        }
        if name == "IDENTITY" {
            return Err(SqlError::not_supported("IDENTITY (…) as a column of SELECT INTO").at(position));
        }
        if matches!(name.as_str(), "GROUPING" | "GROUPING_ID") {
            return self.grouping_function(call, name == "GROUPING_ID", site);
        }
        let FunctionArguments::List { values, .. } = &call.arguments else {
            return self.over_all_columns(&name, position, site);
        };
        let takes_date_part = lookup(&name).is_some_and(|def| def.takes_date_part);
        let (date_part, values) = match (takes_date_part, values.split_first()) {
            (true, Some((first, rest))) => (Some(date_part(first, &name)?), rest),
            _ => (None, values.as_slice()),
        };
        let arguments = values.iter().map(|value| self.expression(value, site)).collect::<Result<Vec<_>, _>>()?;
        match (name.as_str(), arguments.len()) {
            ("ISNULL", 2) => {
                let [value, replacement]: [BoundExpr; 2] =
                    arguments.try_into().map_err(|_| SqlError::internal("ISNULL lost an argument"))?;
                self.is_null_function(value, replacement, position)
            }
            ("ISNULL", _) => Err(errors::FUNCTION_ARGUMENT_COUNT.with([&"isnull", &2]).at(position)),
            ("CHOOSE", 2..) => {
                let mut arguments = arguments;
                let index = arguments.remove(0);
                self.choose(index, arguments, position)
            }
            _ => self.scalar_function(&call.name.name.value, date_part, arguments, position),
        }
    }

    /// `CHECKSUM(*)`: the function over all columns.
    fn over_all_columns(&self, name: &str, position: Position, site: Site<'_>) -> Result<BoundExpr, SqlError> {
        if !matches!(name, "CHECKSUM" | "BINARY_CHECKSUM") {
            return Err(errors::SYNTAX.with([&"*"]).at(position));
        }
        let columns = site.scope.columns().map(|column| column.bound(position)).collect();
        self.scalar_function(name, None, columns, position)
    }

    /// A scalar function of crate `functions` or of the session.
    pub(super) fn scalar_function(
        &self,
        name: &str,
        date_part: Option<DatePart>,
        arguments: Vec<BoundExpr>,
        position: Position,
    ) -> Result<BoundExpr, SqlError> {
        match lookup(name) {
            Some(def) => self.known_function(def, date_part, arguments, position),
            None => self.system_function(name, arguments, position),
        }
        .map_err(|error| error.at(position))
    }

    fn known_function(
        &self,
        def: &'static FunctionDef,
        date_part: Option<DatePart>,
        arguments: Vec<BoundExpr>,
        position: Position,
    ) -> Result<BoundExpr, SqlError> {
        def.check_arity(arguments.len())?;
        let types: Vec<ArgType> = arguments.iter().map(arg_type).collect();
        let result = (def.result_type)(&types)?;
        let texts = arguments.iter().filter(|argument| argument.sql_type.is_text()).map(|text| text.collation);
        let collation = texts
            .map(Ok)
            .reduce(|met: Result<ExprCollation, SqlError>, next| met?.meet(next?, &def.name.to_lowercase()))
            .transpose()?
            .unwrap_or_default();
        let is_constant = arguments.iter().all(|argument| argument.literal.is_some());
        let operation = Operation::Function {
            def,
            arguments: types.iter().map(|argument| argument.sql_type).collect(),
            result,
            collation: collation.collation,
            date_part,
            context: self.context_for(def.volatility),
        };
        let operands = Operands::of(&arguments);
        let expr = Kernel::call(operation, arguments.into_iter().map(|argument| argument.expr).collect(), position);
        let bound = BoundExpr::new(expr, result, true, position).with_collation(collation);
        match def.volatility {
            Volatility::Statement | Volatility::OncePerReference if self.options.keeps_variables => Ok(bound),
            Volatility::Statement | Volatility::OncePerReference if is_constant => {
                self.progress.is_cacheable.set(false);
                let value = self.evaluate(&bound)?;
                Ok(BoundExpr::literal(value, result, position)?.with_collation(collation))
            }
            Volatility::Immutable => Ok(folding::function(bound, operands)),
            _ => Ok(bound),
        }
    }

    fn function_of_session(&self, name: &str, types: &[SqlType]) -> Result<Option<SystemFunction>, SqlError> {
        let capitals = name.to_uppercase();
        let is_it = |(known, of, _): &&(String, Vec<SqlType>, SystemFunction)| *known == capitals && of == types;
        if let Some((_, _, function)) = self.functions.borrow().iter().find(is_it) {
            return Ok(Some(function.clone()));
        }
        let Some(function) = self.resolver.system_function(name, types)? else { return Ok(None) };
        self.functions.borrow_mut().push((capitals, types.to_vec(), function.clone()));
        Ok(Some(function))
    }

    fn system_function(
        &self,
        name: &str,
        arguments: Vec<BoundExpr>,
        position: Position,
    ) -> Result<BoundExpr, SqlError> {
        let types: Vec<SqlType> = arguments.iter().map(|argument| argument.sql_type).collect();
        let Some(function) = self.function_of_session(name, &types)? else {
            return Err(errors::UNKNOWN_FUNCTION.with([&name]));
        };
        self.progress.is_cacheable.set(false);
        let literals: Option<Vec<_>> = arguments.iter().map(|argument| argument.literal.clone()).collect();
        if let Some(values) = literals.filter(|_| function.is_constant) {
            return BoundExpr::literal((function.evaluate)(&values)?, function.result, position);
        }
        let operation = Operation::Rows {
            name: name.to_uppercase(),
            arguments: types,
            result: function.result,
            evaluate: Arc::clone(&function.evaluate),
        };
        let expr = Kernel::call(operation, arguments.into_iter().map(|argument| argument.expr).collect(), position);
        Ok(BoundExpr::new(expr, function.result, true, position))
    }
}

/// Error 302.
pub(super) fn sequential_outside_default() -> SqlError {
    errors::NEWSEQUENTIALID.error()
}

fn arg_type(bound: &BoundExpr) -> ArgType {
    ArgType { sql_type: bound.sql_type, literal: bound.literal.clone(), collation: bound.collation.collation }
}

/// The date part of a date function, which the parser reads as a column.
fn date_part(expression: &Expression, function: &str) -> Result<DatePart, SqlError> {
    let position = expression.position();
    let invalid = || errors::INVALID_PARAMETER_1.with([&function.to_lowercase()]).at(position);
    let Expression::Column { name } = expression else { return Err(invalid()) };
    if name.qualifier.is_some() {
        return Err(invalid());
    }
    DatePart::parse(&name.name.value)
        .ok_or_else(|| errors::UNKNOWN_OPTION.with([&name.name.value, &function.to_lowercase()]).at(position))
}
