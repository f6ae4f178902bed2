//! Removes marks of literals that would change results.
//!
//! The optimiser's rules compare expressions: two equations of one column with different constants leave no row, and
//! two lists of constants are intersected and subtracted as sets. A marked literal is a different expression from the
//! unmarked literal of equal value. So if a column may be compared with constants of different marks, all marks are
//! removed.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

use super::assumed::{mark_text, unmarked};

/// Classes of columns whose values may meet, by their names without the table's name, and the marks of the constants
/// that these columns are compared with for equality or inequality. `None` is an unmarked constant.
#[derive(Default)]
pub(super) struct Meetings {
    /// For each name, another name of its class; the last one refers to itself.
    above: BTreeMap<String, String>,
    marks: Vec<(String, Option<String>)>,
}

impl Meetings {
    pub(super) fn class(&self, name: &str) -> String {
        let mut name = name.to_owned();
        while let Some(above) = self.above.get(&name).filter(|above| **above != name) {
            name.clone_from(above);
        }
        name
    }

    fn unite(&mut self, names: &[String]) {
        let Some(first) = names.first() else { return };
        let class = self.class(first);
        for name in names {
            let other = self.class(name);
            self.above.insert(other, class.clone());
        }
    }

    /// Records columns that are compared with each other and with constants.
    fn compare(&mut self, parts: &[&Expr]) {
        let columns: Vec<String> = parts.iter().flat_map(|part| columns_of(part)).collect();
        self.unite(&columns);
        let Some(column) = columns.first() else { return };
        let constants = parts.iter().filter(|part| columns_of(part).is_empty());
        self.marks.extend(constants.map(|part| (column.clone(), mark_text(part))));
    }

    fn look_at(&mut self, expr: &Expr) {
        match expr {
            Expr::BinaryExpr(binary)
                if matches!(
                    binary.op,
                    Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
                ) =>
            {
                self.compare(&[&binary.left, &binary.right]);
            }
            Expr::InList(list) => {
                let parts: Vec<&Expr> = std::iter::once(&*list.expr).chain(&list.list).collect();
                self.compare(&parts);
            }
            Expr::InSubquery(within) => {
                let mut names = columns_of(&within.expr);
                names.extend(within.subquery.subquery.schema().fields().iter().map(|field| field.name().clone()));
                self.unite(&names);
            }
            Expr::Alias(alias) => {
                let mut names = vec![alias.name.clone()];
                names.extend(columns_of(&alias.expr));
                if names.len() == 1 {
                    self.marks.push((alias.name.clone(), mark_text(&alias.expr)));
                }
                self.unite(&names);
            }
            _ => {}
        }
    }

    pub(super) fn look_at_node(&mut self, node: &LogicalPlan) -> Result<TreeNodeRecursion> {
        match node {
            LogicalPlan::Join(join) => join.on.iter().for_each(|(left, right)| self.compare(&[left, right])),
            LogicalPlan::Union(union) => {
                for (place, field) in union.schema.fields().iter().enumerate() {
                    let of_inputs = union.inputs.iter().map(|input| input.schema().field(place).name().clone());
                    let names: Vec<String> = std::iter::once(field.name().clone()).chain(of_inputs).collect();
                    self.unite(&names);
                }
            }
            _ => {}
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                self.look_at(part);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    }

    fn are_different(&self) -> bool {
        let mut by_class: BTreeMap<String, BTreeSet<&Option<String>>> = BTreeMap::new();
        for (column, mark) in &self.marks {
            by_class.entry(self.class(column)).or_default().insert(mark);
        }
        by_class.values().any(|marks| marks.len() > 1)
    }
}

/// The names of the columns in an expression, including outer references.
pub(super) fn columns_of(expr: &Expr) -> Vec<String> {
    let mut names = Vec::new();
    let _never_fails = expr.apply(|part| {
        if let Expr::Column(column) | Expr::OuterReferenceColumn(_, column) = part {
            names.push(column.name.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    names
}

/// The plan without any marks, if marks in it would change results.
///
/// # Errors
/// If the plan rejects its changed expressions.
pub(super) fn without_harmful(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut meetings = Meetings::default();
    plan.apply_with_subqueries(|node| meetings.look_at_node(node))?;
    if !meetings.are_different() {
        return Ok(plan);
    }
    let plain = |expr: Expr| expr.transform_up(|part| Ok(unmarked(part)));
    plan.transform_down_with_subqueries(|node| node.map_expressions(plain)).map(|made: Transformed<_>| made.data)
}
