//! Transformations of trees: a rewriter transforms each part, from the innermost outwards.

use super::tree::{Cond, Expr, From, Select};

/// Transforms expressions, conditions and sources whose parts have already been rewritten.
pub(super) trait Rewriter {
    fn expr(&mut self, expr: Expr) -> Expr {
        expr
    }

    fn cond(&mut self, cond: Cond) -> Cond {
        cond
    }

    fn from(&mut self, from: From) -> From {
        from
    }
}

pub(super) fn select(by: &mut dyn Rewriter, query: &Select) -> Select {
    Select {
        distinct: query.distinct,
        items: query.items.iter().map(|item| expr(by, item)).collect(),
        from: from(by, &query.from),
        filter: query.filter.as_ref().map(|filter| cond(by, filter)),
        group: query.group.iter().map(|value| expr(by, value)).collect(),
        having: query.having.as_ref().map(|having| cond(by, having)),
    }
}

fn boxed(by: &mut dyn Rewriter, query: &Select) -> Box<Select> {
    Box::new(select(by, query))
}

pub(super) fn from(by: &mut dyn Rewriter, source: &From) -> From {
    let rewritten = match source {
        From::Table { .. } => source.clone(),
        From::Derived { query, alias } => From::Derived { query: boxed(by, query), alias: *alias },
        From::Join { kind, left, right, on } => {
            From::join(*kind, from(by, left), from(by, right), on.as_ref().map(|on| cond(by, on)))
        }
        From::Apply { outer, left, query, alias } => {
            let left = Box::new(from(by, left));
            From::Apply { outer: *outer, left, query: boxed(by, query), alias: *alias }
        }
    };
    by.from(rewritten)
}

fn exprs(by: &mut dyn Rewriter, values: &[Expr]) -> Vec<Expr> {
    values.iter().map(|value| expr(by, value)).collect()
}

pub(super) fn expr(by: &mut dyn Rewriter, value: &Expr) -> Expr {
    let rewritten = match value {
        Expr::Column { .. } | Expr::Constant { .. } | Expr::Null(_) => value.clone(),
        Expr::Form { template, arguments, of } => Expr::form(template, exprs(by, arguments), *of),
        Expr::Case { whens, other } => Expr::Case {
            whens: whens.iter().map(|(when, then)| (cond(by, when), expr(by, then))).collect(),
            other: other.as_ref().map(|other| Box::new(expr(by, other))),
        },
        Expr::Query(query) => Expr::Query(boxed(by, query)),
    };
    by.expr(rewritten)
}

fn conds(by: &mut dyn Rewriter, all: &[Cond]) -> Vec<Cond> {
    all.iter().map(|one| cond(by, one)).collect()
}

pub(super) fn cond(by: &mut dyn Rewriter, condition: &Cond) -> Cond {
    let rewritten = match condition {
        Cond::Compare(op, left, right) => Cond::Compare(op, expr(by, left), expr(by, right)),
        Cond::Test(template, values) => Cond::Test(template, exprs(by, values)),
        Cond::In { is_not, value, list } => Cond::In { is_not: *is_not, value: expr(by, value), list: exprs(by, list) },
        Cond::And(all) => Cond::And(conds(by, all)),
        Cond::Or(all) => Cond::Or(conds(by, all)),
        Cond::Not(one) => cond(by, one).not(),
        Cond::Exists { is_not, query } => Cond::Exists { is_not: *is_not, query: boxed(by, query) },
        Cond::InQuery { is_not, value, query } => {
            Cond::InQuery { is_not: *is_not, value: expr(by, value), query: boxed(by, query) }
        }
        Cond::Quantified { op, all, value, query } => {
            Cond::Quantified { op, all: *all, value: expr(by, value), query: boxed(by, query) }
        }
        Cond::IsUnknown(one) => cond(by, one).unknown(),
        Cond::InCase(one) => Cond::InCase(Box::new(cond(by, one))),
    };
    by.cond(rewritten)
}

/// Exchanges operands, and replaces conditions with equivalent ones.
pub(super) struct Turned;

fn turned_operator(op: &'static str) -> &'static str {
    match op {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        other => other,
    }
}

impl Rewriter for Turned {
    fn cond(&mut self, cond: Cond) -> Cond {
        match cond {
            Cond::Compare(op, left, right) => Cond::Compare(turned_operator(op), right, left),
            Cond::Test("{} BETWEEN {} AND {}", values) => {
                let [value, low, high]: [Expr; 3] = values.try_into().expect("three operands");
                Cond::And(vec![Cond::Compare(">=", value.clone(), low), Cond::Compare(">=", high, value)])
            }
            Cond::Test("{} NOT BETWEEN {} AND {}", values) => {
                let [value, low, high]: [Expr; 3] = values.try_into().expect("three operands");
                Cond::Or(vec![Cond::Compare(">", low, value.clone()), Cond::Compare(">", value, high)])
            }
            Cond::In { is_not: false, value, list } => {
                Cond::Or(list.into_iter().map(|one| Cond::Compare("=", one, value.clone())).collect())
            }
            Cond::In { is_not: true, value, list } => {
                Cond::And(list.into_iter().map(|one| Cond::Compare("<>", one, value.clone())).collect())
            }
            Cond::And(mut all) => {
                all.reverse();
                Cond::And(all)
            }
            Cond::Or(mut all) => {
                all.reverse();
                Cond::Or(all)
            }
            Cond::Not(one) => match *one {
                Cond::And(all) => Cond::Or(all.into_iter().map(Cond::not).collect()),
                Cond::Or(all) => Cond::And(all.into_iter().map(Cond::not).collect()),
                other => other.not(),
            },
            Cond::InQuery { is_not: false, value, query } => Cond::Quantified { op: "=", all: false, value, query },
            Cond::InQuery { is_not: true, value, query } => Cond::Quantified { op: "<>", all: true, value, query },
            other => other,
        }
    }
}

/// Exchanges the sides of joins: `LEFT` becomes `RIGHT`.
pub(super) struct Swapped;

impl Rewriter for Swapped {
    fn from(&mut self, from: From) -> From {
        use super::tree::Join;
        match from {
            From::Join { kind, left, right, on } => {
                let kind = match kind {
                    Join::Left => Join::Right,
                    Join::Right => Join::Left,
                    other => other,
                };
                From::Join { kind, left: right, right: left, on }
            }
            other => other,
        }
    }
}

/// Puts conditions of joins inside a `CASE`, where no equation is recognised.
pub(super) struct JoinsInCase;

impl Rewriter for JoinsInCase {
    fn from(&mut self, from: From) -> From {
        match from {
            From::Join { kind, left, right, on: Some(on) } => {
                From::Join { kind, left, right, on: Some(Cond::InCase(Box::new(on))) }
            }
            other => other,
        }
    }
}

/// Replaces all columns of an alias.
pub(super) struct Columns<F> {
    pub(super) alias: usize,
    pub(super) to: F,
}

impl<F: Fn(&str, super::tree::Type) -> Expr> Rewriter for Columns<F> {
    fn expr(&mut self, expr: Expr) -> Expr {
        match &expr {
            Expr::Column { alias, name, of } if *alias == self.alias => (self.to)(name, *of),
            _ => expr,
        }
    }
}

/// Reads tables from another of their shapes.
pub(super) struct Reshaped<'r>(pub(super) &'r mut hobt_base::SplitMix64);

impl Rewriter for Reshaped<'_> {
    fn from(&mut self, from: From) -> From {
        use super::tree::Shape;
        match from {
            From::Table { table, alias, .. } => {
                From::Table { table, shape: Shape::ALL[super::world::below(self.0, Shape::ALL.len())], alias }
            }
            other => other,
        }
    }
}
