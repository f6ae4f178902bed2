//! Expressions of a plan as T-SQL.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use hobt_types::{Collation, SqlType, Value};

use super::{Mapper, column_at};
use hobt_functions::value_text;
use hobt_operators::{CancelExpr, ChooseExpr};
use hobt_showplan::{CompareOp, PlanColumn, PlanExpr};
use hobt_table::Comparand;
use hobt_udf::{Kernel, Operation};

/// The text constants of a statement. Texts are compared by their sort keys, from which the text cannot be recovered.
/// The text of a key is found by trying these constants.
#[derive(Clone, Default, Debug)]
pub struct Texts {
    texts: Vec<String>,
}

/// The collations whose sort keys are tried.
const COLLATIONS: [Collation; 3] =
    [Collation::Latin1GeneralCiAs, Collation::Latin1GeneralCsAs, Collation::Latin1GeneralBin2];

impl Texts {
    /// For these constants.
    pub fn new(texts: Vec<String>) -> Texts {
        Texts { texts }
    }

    /// The constant that has this key.
    fn of_key(&self, key: &[u8]) -> Option<&str> {
        let has_key = |text: &&String| {
            COLLATIONS.iter().any(|collation| {
                let mut known = Vec::new();
                collation.sort_key(text, &mut known);
                known == key
            })
        };
        self.texts.iter().find(has_key).map(String::as_str)
    }
}

/// A text as a constant.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    format!("0x{digits}")
}

impl Mapper<'_> {
    /// `expr` over `columns`.
    pub(super) fn expression(&self, expr: &Arc<dyn PhysicalExpr>, columns: &[PlanColumn]) -> PlanExpr {
        let below = |expr: &Arc<dyn PhysicalExpr>| self.expression(expr, columns);
        if let Some(column) = expr.downcast_ref::<Column>() {
            return PlanExpr::Column(column_at(columns, column.index()));
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return self.constant(literal.value());
        }
        if let Some(checked) = expr.downcast_ref::<CancelExpr>() {
            return below(checked.inner());
        }
        if let Some(choice) = expr.downcast_ref::<ChooseExpr>() {
            return below(choice.case());
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, columns);
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return self.call(call, columns);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return PlanExpr::Not(Box::new(below(not.arg())));
        }
        let null = || PlanExpr::Constant("NULL".to_owned());
        if let Some(is) = expr.downcast_ref::<IsNullExpr>() {
            return PlanExpr::compare(CompareOp::Is, below(is.arg()), null());
        }
        if let Some(is) = expr.downcast_ref::<IsNotNullExpr>() {
            return PlanExpr::compare(CompareOp::IsNot, below(is.arg()), null());
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return below(cast.expr());
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            return PlanExpr::Unary { sign: '-', operand: Box::new(below(negative.arg())) };
        }
        self.compound(expr, columns)
    }

    /// Like [`Mapper::expression`], but a constant is shown as of `sql_type`: the executor represents dates by numbers.
    fn typed(&self, expr: &Arc<dyn PhysicalExpr>, columns: &[PlanColumn], sql_type: Option<SqlType>) -> PlanExpr {
        match (expr.downcast_ref::<Literal>().map(Literal::value), sql_type) {
            (Some(ScalarValue::Int64(Some(ticks))), Some(sql_type)) if sql_type.is_temporal() => {
                PlanExpr::Constant(constant_of(&Value::Int(*ticks), sql_type))
            }
            _ => self.expression(expr, columns),
        }
    }

    /// Expressions with several kinds of operands.
    fn compound(&self, expr: &Arc<dyn PhysicalExpr>, columns: &[PlanColumn]) -> PlanExpr {
        let below = |expr: &Arc<dyn PhysicalExpr>| self.expression(expr, columns);
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            let operand = below(list.expr());
            let sql_type = type_of(list.expr(), columns);
            let (all, op) = if list.negated() { (true, CompareOp::NotEqual) } else { (false, CompareOp::Equal) };
            let one = |value| PlanExpr::compare(op, operand.clone(), self.typed(value, columns, sql_type));
            return PlanExpr::Logical { all, operands: list.list().iter().map(one).collect() };
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            let base = case.expr().map(below);
            let branch = |(when, then): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
                let when = match &base {
                    Some(base) => PlanExpr::compare(CompareOp::Equal, base.clone(), below(when)),
                    None => below(when),
                };
                (when, below(then))
            };
            let otherwise = case.else_expr().map_or_else(|| PlanExpr::Constant("NULL".to_owned()), below);
            let branches = case.when_then_expr().iter().map(branch).collect();
            return PlanExpr::Case { branches, otherwise: Box::new(otherwise) };
        }
        let function = |name: &str, arguments: Vec<PlanExpr>| PlanExpr::Function { name: name.to_owned(), arguments };
        if let Some(subquery) = expr.downcast_ref::<ScalarSubqueryExpr>() {
            let known = self.subqueries.borrow();
            // A subquery is identified by its index, and there is no other access to it.
            #[expect(deprecated)]
            let found = known.iter().find(|(index, _)| *index == subquery.index());
            return found
                .map_or_else(|| PlanExpr::Text("subquery".to_owned()), |(_, column)| PlanExpr::Column(column.clone()));
        }
        if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            return function("like", vec![below(like.expr()), below(like.pattern())]);
        }
        if expr.is::<DynamicFilterPhysicalExpr>() {
            return function("PROBE", expr.children().into_iter().map(below).collect());
        }
        PlanExpr::Text(expr.to_string())
    }

    fn binary(&self, binary: &BinaryExpr, columns: &[PlanColumn]) -> PlanExpr {
        // Both sides have one type.
        let sql_type = type_of(binary.left(), columns).or_else(|| type_of(binary.right(), columns));
        let [left, right] = [binary.left(), binary.right()].map(|side| self.typed(side, columns, sql_type));
        let op = match binary.op() {
            Operator::And | Operator::Or => return joined(*binary.op() == Operator::And, [left, right]),
            Operator::Eq => CompareOp::Equal,
            Operator::NotEq => CompareOp::NotEqual,
            Operator::Lt => CompareOp::Less,
            Operator::LtEq => CompareOp::LessOrEqual,
            Operator::Gt => CompareOp::Greater,
            Operator::GtEq => CompareOp::GreaterOrEqual,
            Operator::IsNotDistinctFrom => CompareOp::Is,
            Operator::IsDistinctFrom => CompareOp::IsNot,
            Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight => {
                let is_left = *binary.op() == Operator::BitwiseShiftLeft;
                let name = if is_left { "left_shift" } else { "right_shift" };
                return PlanExpr::Function { name: name.to_owned(), arguments: vec![left, right] };
            }
            other => {
                let sign = other.to_string().chars().next().unwrap_or('+');
                return PlanExpr::Arithmetic { sign, left: Box::new(left), right: Box::new(right) };
            }
        };
        PlanExpr::compare(op, left, right)
    }

    fn call(&self, call: &ScalarFunctionExpr, columns: &[PlanColumn]) -> PlanExpr {
        let kernel = call.fun().inner().downcast_ref::<Kernel>().map(Kernel::operation);
        let argument = |(place, argument)| {
            self.typed(argument, columns, kernel.and_then(|operation| operation.argument_sql_type(place)))
        };
        let mut arguments: Vec<PlanExpr> = call.args().iter().enumerate().map(argument).collect();
        let Some(operation) = kernel else {
            return PlanExpr::Function { name: call.name().to_owned(), arguments };
        };
        let sign = match operation {
            Operation::SortKey(_) | Operation::BinaryKey | Operation::Nullable(_) if arguments.len() == 1 => {
                return arguments.remove(0);
            }
            Operation::Cast { to, style, .. } if arguments.len() == 1 => {
                let operand = Box::new(arguments.remove(0));
                return PlanExpr::Convert { data_type: to.to_string(), style: style.unwrap_or(0), operand };
            }
            Operation::Binary { operator, .. } if arguments.len() == 2 => {
                let sign = operator.to_string().chars().next().unwrap_or('+');
                let right = Box::new(arguments.remove(1));
                return PlanExpr::Arithmetic { sign, left: Box::new(arguments.remove(0)), right };
            }
            Operation::Junction { all } if !arguments.is_empty() => return joined(*all, arguments),
            Operation::Negate(_) if arguments.len() == 1 => '-',
            Operation::BitNot(_) if arguments.len() == 1 => '~',
            Operation::Function { def, date_part: Some(part), .. } => {
                arguments.insert(0, PlanExpr::Constant(part.name().to_owned()));
                return PlanExpr::Function { name: def.name.to_lowercase(), arguments };
            }
            _ => return PlanExpr::Function { name: call.name().to_owned(), arguments },
        };
        PlanExpr::Unary { sign, operand: Box::new(arguments.remove(0)) }
    }

    /// An aggregate over input rows.
    pub(super) fn aggregate_of(&self, expr: &AggregateFunctionExpr, columns: &[PlanColumn]) -> PlanExpr {
        let name = expr.fun().name().to_uppercase();
        let arguments = expr.expressions();
        let is_of_all = name.starts_with("COUNT") && arguments.iter().all(|argument| argument.is::<Literal>());
        let arguments = match is_of_all {
            true => Vec::new(),
            false => arguments.iter().map(|argument| self.expression(argument, columns)).collect(),
        };
        PlanExpr::Aggregate { name, is_distinct: expr.is_distinct(), arguments }
    }

    /// An aggregate that combines partial results.
    pub(super) fn whole_of(&self, name: &str, part: PlanColumn) -> PlanExpr {
        // Partial counts are added up.
        let name = if name.starts_with("count") { "SUM".to_owned() } else { name.to_uppercase() };
        PlanExpr::Aggregate { name, is_distinct: false, arguments: vec![PlanExpr::Column(part)] }
    }

    /// A constant of DataFusion.
    fn constant(&self, value: &ScalarValue) -> PlanExpr {
        use ScalarValue as S;
        PlanExpr::Constant(match value {
            value if value.is_null() => "NULL".to_owned(),
            S::Utf8(Some(text)) | S::Utf8View(Some(text)) | S::LargeUtf8(Some(text)) => quoted(text),
            S::Binary(Some(bytes)) | S::BinaryView(Some(bytes)) | S::LargeBinary(Some(bytes)) => self.key_text(bytes),
            S::FixedSizeBinary(_, Some(bytes)) => match <[u8; 16]>::try_from(bytes.as_slice()) {
                Ok(guid) => constant_of(&Value::Guid(guid), SqlType::UniqueIdentifier),
                Err(_) => hex(bytes),
            },
            S::Date32(Some(days)) => constant_of(&Value::Int(i64::from(*days)), SqlType::Date),
            S::Boolean(Some(is_true)) => format!("({})", u8::from(*is_true)),
            S::Decimal128(Some(digits), _, scale) => format!("({})", decimal(*digits, *scale)),
            value if value.data_type().is_numeric() => format!("({value})"),
            other => quoted(&other.to_string()),
        })
    }

    /// The text of a sort key, or the key's bytes if no constant has it.
    fn key_text(&self, key: &[u8]) -> String {
        self.texts.of_key(key).map_or_else(|| hex(key), quoted)
    }

    /// The value that a seek compares a column with.
    pub(super) fn comparand(&self, comparand: &Comparand, sql_type: SqlType) -> PlanExpr {
        PlanExpr::Constant(match comparand {
            Comparand::Compared(key) => self.key_text(key),
            Comparand::Unknown => "?".to_owned(),
            Comparand::Value(value) => constant_of(value, sql_type),
        })
    }
}

/// A value as SQL Server's plans show it.
fn constant_of(value: &Value, sql_type: SqlType) -> String {
    match value_text(value, sql_type) {
        _ if *value == Value::Null => "NULL".to_owned(),
        Ok(text) if sql_type.is_numeric() => format!("({text})"),
        Ok(text) if sql_type == SqlType::UniqueIdentifier => format!("{{guid'{text}'}}"),
        Ok(text) => quoted(&text),
        Err(_) => "?".to_owned(),
    }
}

/// The type of an expression's values, where it is known.
fn type_of(expr: &Arc<dyn PhysicalExpr>, columns: &[PlanColumn]) -> Option<SqlType> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return columns.get(column.index())?.sql_type;
    }
    if let Some(checked) = expr.downcast_ref::<CancelExpr>() {
        return type_of(checked.inner(), columns);
    }
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    call.fun().inner().downcast_ref::<Kernel>()?.operation().sql_type()
}

/// A decimal's digits with its point.
fn decimal(digits: i128, scale: i8) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    let sign = if digits < 0 { "-" } else { "" };
    let text = format!("{:0>width$}", digits.unsigned_abs(), width = scale + 1);
    let (whole, part) = text.split_at(text.len() - scale);
    if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") }
}

/// Conditions joined by one operator, nested ones flattened.
fn joined(all: bool, operands: impl IntoIterator<Item = PlanExpr>) -> PlanExpr {
    let mut flat = Vec::new();
    for operand in operands {
        match operand {
            PlanExpr::Logical { all: same, operands } if same == all => flat.extend(operands),
            other => flat.push(other),
        }
    }
    PlanExpr::Logical { all, operands: flat }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_text_that_has_it() {
        let texts = Texts::new(vec!["Ab".to_owned(), "it's".to_owned()]);
        let key = |text: &str| {
            let mut key = Vec::new();
            Collation::default().sort_key(text, &mut key);
            key
        };
        assert_eq!(texts.of_key(&key("it's")), Some("it's"));
        assert_eq!(texts.of_key(&key("other")), None);
    }

    #[test]
    fn decimals_keep_their_point() {
        assert_eq!([decimal(-5, 2), decimal(1234, 2), decimal(7, 0)], ["-0.05", "12.34", "7"]);
    }
}
