//! Reduction of failures: each step omits something or replaces the whole by a part. It is kept if the failure stays
//! the same.

use super::relations::Case;
use super::tree::{Cond, Expr, From, Join, Select, Shape};
use super::world::World;

/// The lists with one part omitted, with at least `least` parts.
fn without_one<T: Clone>(all: &[T], least: usize) -> Vec<Vec<T>> {
    if all.len() <= least {
        return Vec::new();
    }
    let without = |at: usize| all.iter().enumerate().filter(move |(other, _)| *other != at).map(|(_, one)| one.clone());
    (0..all.len()).map(|at| without(at).collect()).collect()
}

/// The lists with one part reduced.
fn with_one_smaller<T: Clone>(all: &[T], smaller: impl Fn(&T) -> Vec<T>) -> Vec<Vec<T>> {
    let mut lists = Vec::new();
    for (at, one) in all.iter().enumerate() {
        for small in smaller(one) {
            let mut list = all.to_vec();
            list[at] = small;
            lists.push(list);
        }
    }
    lists
}

fn exprs(value: &Expr) -> Vec<Expr> {
    let mut all = Vec::new();
    match value {
        Expr::Column { .. } | Expr::Constant { .. } | Expr::Null(_) => {}
        Expr::Form { template, arguments, of } => {
            all.extend(arguments.iter().filter(|argument| argument.of().family() == of.family()).cloned());
            let form = |arguments| Expr::Form { template, arguments, of: *of };
            all.extend(with_one_smaller(arguments, exprs).into_iter().map(form));
        }
        Expr::Case { whens, other } => {
            all.extend(other.iter().map(|other| (**other).clone()));
            all.extend(whens.iter().map(|(_, then)| then.clone()));
            let case = |whens| Expr::Case { whens, other: other.clone() };
            all.extend(without_one(whens, 1).into_iter().map(case));
            let smaller = |(when, then): &(Cond, Expr)| {
                let whens = conds(when).into_iter().map(|when| (when, then.clone()));
                whens.chain(exprs(then).into_iter().map(|then| (when.clone(), then))).collect()
            };
            all.extend(with_one_smaller(whens, smaller).into_iter().map(case));
            if let Some(other) = other {
                all.push(Expr::Case { whens: whens.clone(), other: None });
                let smaller = |other| Expr::Case { whens: whens.clone(), other: Some(Box::new(other)) };
                all.extend(exprs(other).into_iter().map(smaller));
            }
        }
        Expr::Query(query) => all.extend(selects(query).into_iter().map(|query| Expr::Query(Box::new(query)))),
    }
    all
}

fn boxed(query: &Select) -> impl Iterator<Item = Box<Select>> {
    selects(query).into_iter().map(Box::new)
}

fn conds(condition: &Cond) -> Vec<Cond> {
    let mut all = Vec::new();
    match condition {
        Cond::Compare(op, left, right) => {
            all.extend(exprs(left).into_iter().map(|left| Cond::Compare(op, left, right.clone())));
            all.extend(exprs(right).into_iter().map(|right| Cond::Compare(op, left.clone(), right)));
        }
        Cond::Test(template, values) => {
            all.extend(with_one_smaller(values, exprs).into_iter().map(|values| Cond::Test(template, values)));
        }
        Cond::In { is_not, value, list } => {
            let of = |value: Expr, list: Vec<Expr>| Cond::In { is_not: *is_not, value, list };
            all.extend(without_one(list, 1).into_iter().map(|list| of(value.clone(), list)));
            all.extend(exprs(value).into_iter().map(|value| of(value, list.clone())));
        }
        Cond::And(list) | Cond::Or(list) => {
            all.extend(list.iter().cloned());
            let smaller = without_one(list, 1).into_iter().chain(with_one_smaller(list, conds));
            let is_and = matches!(condition, Cond::And(_));
            all.extend(smaller.map(|list| if is_and { Cond::And(list) } else { Cond::Or(list) }));
        }
        Cond::Not(one) => {
            all.push((**one).clone());
            all.extend(conds(one).into_iter().map(Cond::not));
        }
        Cond::Exists { is_not, query } => {
            all.extend(boxed(query).map(|query| Cond::Exists { is_not: *is_not, query }));
        }
        Cond::InQuery { is_not, value, query } => {
            let of = |value: &Expr, query| Cond::InQuery { is_not: *is_not, value: value.clone(), query };
            all.extend(boxed(query).map(|query| of(value, query)));
            all.extend(exprs(value).iter().map(|value| of(value, query.clone())));
        }
        Cond::Quantified { op, all: is_all, value, query } => {
            let of = |value: &Expr, query| Cond::Quantified { op, all: *is_all, value: value.clone(), query };
            all.extend(boxed(query).map(|query| of(value, query)));
            all.extend(exprs(value).iter().map(|value| of(value, query.clone())));
        }
        Cond::IsUnknown(one) => all.extend(conds(one).into_iter().map(Cond::unknown)),
        Cond::InCase(one) => all.push((**one).clone()),
    }
    all
}

fn froms(from: &From) -> Vec<From> {
    let mut all = Vec::new();
    match from {
        From::Table { table, shape, alias } if *shape != Shape::Heap => {
            all.push(From::Table { table: *table, shape: Shape::Heap, alias: *alias });
        }
        From::Table { .. } => {}
        From::Derived { query, alias } => {
            if let (From::Table { table, shape, .. }, true) = (&query.from, query.group.is_empty()) {
                all.push(From::Table { table: *table, shape: *shape, alias: *alias });
            }
            all.extend(boxed(query).map(|query| From::Derived { query, alias: *alias }));
        }
        From::Join { kind, left, right, on } => {
            all.extend([(**left).clone(), (**right).clone()]);
            let of =
                |kind, left: &From, right: &From, on: Option<Cond>| From::join(kind, left.clone(), right.clone(), on);
            if !matches!(kind, Join::Inner | Join::Cross) {
                all.push(of(Join::Inner, left, right, on.clone()));
            }
            let smaller = on.iter().flat_map(conds);
            all.extend(smaller.map(|on| of(*kind, left, right, Some(on))));
            all.extend(froms(left).iter().map(|left| of(*kind, left, right, on.clone())));
            all.extend(froms(right).iter().map(|right| of(*kind, left, right, on.clone())));
        }
        From::Apply { outer, left, query, alias } => {
            all.push((**left).clone());
            let of = |left: &From, query: Box<Select>| From::Apply {
                outer: *outer,
                left: Box::new(left.clone()),
                query,
                alias: *alias,
            };
            all.extend(boxed(query).map(|query| of(left, query)));
            all.extend(froms(left).iter().map(|left| of(left, query.clone())));
        }
    }
    all
}

/// All queries that are one step smaller.
fn selects(query: &Select) -> Vec<Select> {
    let with = |change: &dyn Fn(&mut Select)| {
        let mut changed = query.clone();
        change(&mut changed);
        changed
    };
    let mut all = Vec::new();
    if query.filter.is_some() {
        all.push(with(&|query| query.filter = None));
    }
    if query.having.is_some() {
        all.push(with(&|query| query.having = None));
    }
    if query.distinct {
        all.push(with(&|query| query.distinct = false));
    }
    all.extend(froms(&query.from).into_iter().map(|from| with(&|query| query.from = from.clone())));
    // Items are omitted from the end, so the others keep their names.
    all.extend(without_one(&query.items, 1).into_iter().rev().map(|items| with(&|query| query.items = items.clone())));
    all.extend(without_one(&query.group, 0).into_iter().map(|group| with(&|query| query.group = group.clone())));
    let filters = query.filter.iter().flat_map(conds);
    all.extend(filters.map(|filter| with(&|query| query.filter = Some(filter.clone()))));
    let havings = query.having.iter().flat_map(conds);
    all.extend(havings.map(|having| with(&|query| query.having = Some(having.clone()))));
    let items = with_one_smaller(&query.items, exprs);
    all.extend(items.into_iter().map(|items| with(&|query| query.items = items.clone())));
    all
}

/// All cases that are one step smaller.
pub(super) fn cases(case: &Case) -> Vec<Case> {
    let queries = selects(&case.query).into_iter().map(|query| Case { query, ..case.clone() });
    let conditions = conds(&case.condition).into_iter().map(|condition| Case { condition, ..case.clone() });
    queries.chain(conditions).collect()
}

/// Worlds with fewer rows and columns: first halves and quarters of a table's rows are removed, then single ones.
pub(super) fn worlds(world: &World, tables: &[usize]) -> Vec<World> {
    let mut all = Vec::new();
    for at in tables {
        let rows = &world.tables[*at].rows;
        let mut step = rows.len();
        while step > 0 {
            for from in (0..rows.len()).step_by(step) {
                let mut cut = world.clone();
                cut.tables[*at].rows.drain(from..(from + step).min(rows.len()));
                all.push(cut);
            }
            step /= 2;
        }
        for column in 1..world.tables[*at].columns.len() {
            let mut cut = world.clone();
            cut.tables[*at] = world.tables[*at].without_column(column);
            all.push(cut);
        }
    }
    all
}
