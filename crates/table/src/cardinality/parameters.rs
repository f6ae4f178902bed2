//! Literals that stand for variables: a plan that was made for some values can be made again for others.
//!
//! The literal of a variable in WHERE or ON has the variable's name in its metadata, which the optimiser passes on. A
//! plan may be made for other values if nothing else in it depends on them. Rules look at constants in many ways: they
//! compute with them, compare them with each other, find contradictions. So a variable is a parameter only where they
//! have nothing to find: it is not NULL, it is compared with one column of its own type, and nothing else restricts
//! that column, but for the other end of a range.
//!
//! ```text
//!   WHERE k = @k AND d >= @from AND d < @to        parameters
//!   WHERE k = @k + 1, k = @k OR d = @d, k IN (…), k = @k AND k < 9        none
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

use super::marks::{Meetings, columns_of};
use hobt_udf::{Kernel, Operation};

/// The key of the entry in a literal's metadata.
const KEY: &str = "hobt_parameter";

/// For each parameter, the value of its literals.
pub type ParameterValues = BTreeMap<String, ScalarValue>;

/// How often each name occurs.
pub type NameCounts = BTreeMap<String, usize>;

/// The parameters of a plan.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Parameters {
    /// How often each occurs.
    pub counts: NameCounts,
    /// The values that the plan is made for.
    pub values: ParameterValues,
}

/// A literal that stands for the value of a variable, under a name; any other expression as it is.
pub fn parameter(expr: Expr, name: &str) -> Expr {
    let Expr::Literal(value, metadata) = expr else { return expr };
    let mut entries = metadata.map_or_else(BTreeMap::new, |metadata| metadata.inner().clone());
    entries.insert(KEY.to_owned(), name.to_owned());
    Expr::Literal(value, Some(FieldMetadata::from(entries)))
}

fn name_of(expr: &Expr) -> Option<&String> {
    let Expr::Literal(_, Some(metadata)) = expr else { return None };
    metadata.inner().get(KEY)
}

/// The name of a literal of a physical plan, in its metadata.
fn name_in(expr: &dyn PhysicalExpr) -> Option<(String, FieldMetadata)> {
    expr.downcast_ref::<Literal>()?;
    let field = expr.return_field(&Schema::empty()).ok()?;
    let name = field.metadata().get(KEY)?.clone();
    Some((name, FieldMetadata::from(field.metadata())))
}

fn count(names: &mut NameCounts, name: &str) {
    *names.entry(name.to_owned()).or_default() += 1;
}

/// The parameters in conditions.
pub fn parameters_in(conditions: &[Expr]) -> NameCounts {
    let mut names = NameCounts::new();
    for condition in conditions {
        let _never_fails = condition.apply(|part| {
            name_of(part).into_iter().for_each(|name| count(&mut names, name));
            Ok(TreeNodeRecursion::Continue)
        });
    }
    names
}

/// The parameters in an expression of a physical plan.
pub fn parameters_of(expr: &Arc<dyn PhysicalExpr>) -> NameCounts {
    let mut names = NameCounts::new();
    let _never_fails = expr.apply(|part| {
        name_in(part.as_ref()).into_iter().for_each(|(name, _)| count(&mut names, &name));
        Ok(TreeNodeRecursion::Continue)
    });
    names
}

/// A condition with other values of its parameters.
///
/// # Errors
/// None in practice.
pub fn with_values(condition: &Expr, values: &ParameterValues) -> Result<Expr> {
    let other = |part: Expr| {
        let value = name_of(&part).and_then(|name| values.get(name)).cloned();
        Ok(match (value, part) {
            (Some(value), Expr::Literal(_, metadata)) => Transformed::yes(Expr::Literal(value, metadata)),
            (_, part) => Transformed::no(part),
        })
    };
    condition.clone().transform_up(other).map(|made| made.data)
}

/// An expression of a physical plan with other values of its parameters.
///
/// # Errors
/// None in practice.
pub fn with_values_of(expr: &Arc<dyn PhysicalExpr>, values: &ParameterValues) -> Result<Arc<dyn PhysicalExpr>> {
    let other = |part: Arc<dyn PhysicalExpr>| {
        let known = name_in(part.as_ref()).and_then(|(name, metadata)| Some((values.get(&name)?.clone(), metadata)));
        Ok(match known {
            Some((value, metadata)) => {
                let literal = Literal::new_with_metadata(value, Some(metadata));
                Transformed::yes(Arc::new(literal) as Arc<dyn PhysicalExpr>)
            }
            None => Transformed::no(part),
        })
    };
    Arc::clone(expr).transform_up(other).map(|made| made.data)
}

/// One comparison of a column with a parameter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Equal,
    Low,
    High,
}

/// What is said of the columns of a plan.
#[derive(Default)]
struct Said {
    meetings: Meetings,
    /// Comparisons with parameters: the column, the name, and how it is compared.
    compared: Vec<(String, String, Side)>,
    /// Columns that other conditions are about.
    otherwise: Vec<String>,
    /// How often each name occurs in all, and its value.
    all: NameCounts,
    values: ParameterValues,
}

impl Said {
    fn look_at(&mut self, node: &LogicalPlan) -> Result<TreeNodeRecursion> {
        self.meetings.look_at_node(node)?;
        node.apply_expressions(|expr| {
            for (name, number) in parameters_in(std::slice::from_ref(expr)) {
                *self.all.entry(name).or_default() += number;
            }
            expr.apply(|part| {
                if let (Some(name), Expr::Literal(value, _)) = (name_of(part), part) {
                    self.values.insert(name.clone(), value.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        match node {
            LogicalPlan::Filter(filter) => {
                let conditions = split_conjunction(&filter.predicate);
                conditions.into_iter().for_each(|condition| self.look_at_condition(condition, filter.input.schema()));
            }
            LogicalPlan::Join(join) => {
                let conditions = join.filter.iter().flat_map(split_conjunction);
                let others = conditions.filter(|condition| !is_equation_of_columns(condition));
                self.otherwise.extend(others.flat_map(columns_of));
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn look_at_condition(&mut self, condition: &Expr, schema: &DFSchema) {
        match compared(condition, schema) {
            Some(found) => self.compared.push(found),
            None if is_equation_of_columns(condition) => {}
            None => self.otherwise.extend(columns_of(condition)),
        }
    }

    /// The names that are parameters.
    fn parameters(&self) -> BTreeSet<&String> {
        let mut sides: BTreeMap<String, Vec<Side>> = BTreeMap::new();
        for (column, _, side) in &self.compared {
            sides.entry(self.meetings.class(column)).or_default().push(*side);
        }
        let otherwise: BTreeSet<String> = self.otherwise.iter().map(|column| self.meetings.class(column)).collect();
        let is_alone = |column: &String| {
            let class = self.meetings.class(column);
            let mut sides = sides.get(&class).cloned().unwrap_or_default();
            sides.sort_unstable();
            !otherwise.contains(&class) && matches!(sides.as_slice(), [_] | [Side::Low, Side::High])
        };
        let mut found = NameCounts::new();
        for (_, name, _) in self.compared.iter().filter(|(column, ..)| is_alone(column)) {
            count(&mut found, name);
        }
        self.all.iter().filter(|(name, all)| found.get(*name) == Some(*all)).map(|(name, _)| name).collect()
    }
}

/// The column, the parameter and the comparison of a condition that compares just these, in one type.
fn compared(condition: &Expr, schema: &DFSchema) -> Option<(String, String, Side)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = condition else { return None };
    let (column, literal, op) = match name_of(right) {
        Some(_) => (left, right, *op),
        None => (right, left, op.swap()?),
    };
    let name = name_of(literal)?;
    let Expr::Literal(value, _) = &**literal else { return None };
    let [of] = columns_of(column).try_into().ok()?;
    let is_plain = match &**column {
        Expr::Column(_) => true,
        // The key by which a text or a binary value compares.
        Expr::ScalarFunction(call) => {
            let operation = call.func.inner().downcast_ref::<Kernel>().map(Kernel::operation);
            let is_key = matches!(operation, Some(Operation::SortKey(_) | Operation::BinaryKey));
            is_key && matches!(call.args.as_slice(), [Expr::Column(_)])
        }
        _ => false,
    };
    let is_same = column.get_type(schema).ok()? == value.data_type();
    let side = match op {
        Operator::Eq => Side::Equal,
        Operator::Gt | Operator::GtEq => Side::Low,
        Operator::Lt | Operator::LtEq => Side::High,
        _ => return None,
    };
    (is_plain && is_same && is_inner(value)).then(|| (of, name.clone(), side))
}

/// Whether a value may be that of a parameter: not NULL, nor an end of its type, beyond which rules know that there is
/// nothing, and of a type all of whose values are ordered.
pub fn is_inner(value: &ScalarValue) -> bool {
    let is_ordered = !matches!(
        value.data_type(),
        DataType::Boolean | DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null
    );
    let ends = [ScalarValue::min(&value.data_type()), ScalarValue::max(&value.data_type())];
    is_ordered && !value.is_null() && ends.iter().flatten().all(|end| end != value)
}

fn is_equation_of_columns(condition: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return false };
    [left, right].iter().all(|side| columns_of(side).len() == 1 && name_of(side).is_none())
}

/// The parameters of a plan; and the plan with names only at literals that are parameters, if it has others.
///
/// # Errors
/// If the plan rejects its changed expressions.
pub fn with_parameters(plan: &LogicalPlan) -> Result<(Option<LogicalPlan>, Parameters)> {
    // Most plans have no names, and what is said of their columns need not be known.
    if !has_names(plan)? {
        return Ok((None, Parameters::default()));
    }
    let mut said = Said::default();
    plan.apply_with_subqueries(|node| said.look_at(node))?;
    let names: BTreeSet<String> = said.parameters().into_iter().cloned().collect();
    let (all, mut found) = (said.all.len(), Parameters { counts: said.all, values: said.values });
    found.counts.retain(|name, _| names.contains(name));
    found.values.retain(|name, _| names.contains(name));
    if all == found.counts.len() {
        return Ok((None, found));
    }
    let plain = |part: Expr| match part {
        Expr::Literal(value, Some(metadata)) if metadata.inner().get(KEY).is_some_and(|name| !names.contains(name)) => {
            let mut entries = metadata.inner().clone();
            entries.remove(KEY);
            let left = (!entries.is_empty()).then(|| FieldMetadata::from(entries));
            Ok(Transformed::yes(Expr::Literal(value, left)))
        }
        other => Ok(Transformed::no(other)),
    };
    let made =
        plan.clone().transform_down_with_subqueries(|node| node.map_expressions(|expr| expr.transform_up(plain)))?;
    Ok((Some(made.data), found))
}

fn has_names(plan: &LogicalPlan) -> Result<bool> {
    let mut is_any = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            is_any |= expr.exists(|part| Ok(name_of(part).is_some()))?;
            Ok(if is_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit, table_scan};

    fn named(value: i32, name: &str) -> Expr {
        parameter(lit(value), name)
    }

    /// The names that are parameters under a condition on columns `a`, `b`, `c` and the bigint `w`.
    fn parameters_under(condition: Expr) -> Vec<String> {
        let int = |name| Field::new(name, DataType::Int32, true);
        let schema = Schema::new(vec![int("a"), int("b"), int("c"), Field::new("w", DataType::Int64, true)]);
        let plan = table_scan(Some("t"), &schema, None).and_then(|scan| scan.filter(condition));
        let plan = plan.and_then(LogicalPlanBuilder::build).expect("a plan");
        let (fewer, names) = with_parameters(&plan).expect("a plan");
        let plan = fewer.unwrap_or(plan);
        let mut left = NameCounts::new();
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                left.extend(parameters_in(std::slice::from_ref(expr)));
                Ok(TreeNodeRecursion::Continue)
            })
        })
        .expect("looking does not fail");
        assert_eq!(left, names.counts, "only parameters keep their names");
        names.counts.into_keys().collect()
    }

    #[test]
    fn what_is_compared_with_one_column_alone_is_a_parameter() {
        let (p, q) = (named(5, "@p"), named(9, "@q"));
        assert_eq!(parameters_under(col("a").eq(p.clone()).and(col("b").gt(q.clone()))), ["@p", "@q"]);
        assert_eq!(parameters_under(col("a").gt_eq(p.clone()).and(q.clone().gt(col("a")))), ["@p", "@q"]);
        assert_eq!(parameters_under(p.clone().eq(col("a")).and(col("b").in_list(vec![lit(1)], false))), ["@p"]);
    }

    #[test]
    fn what_rules_could_compute_with_is_none() {
        let (p, q) = (named(5, "@p"), named(9, "@q"));
        let none = [
            col("a").eq(p.clone()).and(col("a").eq(q.clone())),
            col("a").eq(p.clone()).and(col("a").lt(lit(9))),
            col("a").gt(p.clone()).and(col("a").gt(q.clone())),
            col("a").eq(p.clone()).or(col("b").eq(q.clone())),
            col("a").eq(p.clone() + lit(1)),
            col("a").not_eq(p.clone()),
            col("w").eq(p.clone()),
            (col("a") + col("b")).eq(p.clone()),
            col("a").in_list(vec![p.clone(), q.clone()], false),
            col("a").eq(parameter(lit(ScalarValue::Int32(None)), "@p")),
            col("a").eq(named(i32::MAX, "@p")),
            // The columns are one.
            col("a").eq(p.clone()).and(col("b").eq(q.clone())).and(col("a").eq(col("b"))),
        ];
        for condition in none {
            assert_eq!(parameters_under(condition.clone()), Vec::<String>::new(), "{condition}");
        }
        let mixed = col("a").eq(p.clone()).and(col("b").eq(q.clone() + lit(1)));
        assert_eq!(parameters_under(mixed), ["@p"]);
        let twice = col("a").eq(p.clone()).and(col("b").eq(p + lit(1)));
        assert_eq!(parameters_under(twice), Vec::<String>::new());
    }

    #[test]
    fn other_values_take_the_place_of_those_of_the_same_name() {
        let condition = col("a").eq(named(5, "@p")).and(col("b").eq(lit(5)));
        let values = ParameterValues::from([("@p".to_owned(), ScalarValue::Int32(Some(7)))]);
        let other = with_values(&condition, &values).expect("a condition");
        assert_eq!(other, col("a").eq(named(7, "@p")).and(col("b").eq(lit(5))));
        assert_eq!(with_values(&other, &ParameterValues::new()).expect("a condition"), other);
    }
}
