//! Relations that hold for any rows: pairs of batches that mean the same in two formulations.
//!
//! Partitioning a query by a condition, its negation and its being unknown is from Rigger and Su ("Finding bugs in
//! database systems via query partitioning", OOPSLA 2020). Comparing a count with a condition that no rule recognises
//! is also theirs ("Detecting optimization bugs … via non-optimizing reference engine construction", ESEC/FSE 2020).

use hobt_base::SplitMix64;

use super::generate::{Generator, Seen};
use super::rewrite::{self, Columns, JoinsInCase, Reshaped, Swapped, Turned};
use super::tree::{Cond, Expr, From, Join, Printer, Select, Type};
use super::world::{World, below};

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Relation {
    /// `Q` equals the union of `Q WHERE p`, `Q WHERE NOT p` and `Q WHERE p` is unknown.
    PartsOfRows,
    /// As [`Relation::PartsOfRows`], for aggregates, which are summed up.
    PartsOfGroups,
    /// As [`Relation::PartsOfRows`], for `HAVING`.
    PartsOfHaving,
    /// A cross product equals the joins on `p`, on `NOT p` and on `p` unknown.
    PartsOfProduct,
    /// `COUNT(*) … WHERE p` equals the sum of `CASE WHEN p THEN 1`.
    Counted,
    /// `p` equals `CASE WHEN p THEN 1 END = 1`, in WHERE and ON.
    InCase,
    /// An outer join equals the inner join and the rows without a partner.
    OuterAndUnmatched,
    /// `LEFT` equals `RIGHT` with the sides exchanged.
    SidesExchanged,
    /// Operands are exchanged, and `BETWEEN` and `IN` written out.
    OperandsExchanged,
    /// Constants, variables and parameters are equivalent.
    Variables,
    /// Heaps, indexes and partitions are equivalent.
    Shapes,
    /// One worker and two are equivalent.
    Workers,
    /// The second execution, which has the plan of the first, equals one that is planned anew.
    Again,
    /// A query by parameters, whose plan is that of other values, equals one that is planned anew for each.
    Values,
    /// Hints change nothing.
    Hints,
    /// A query is equivalent to its derived table, its common table expression, and a table filled by it.
    Wrapped,
    /// `EXCEPT`, `INTERSECT` and `UNION` of two queries.
    Sets,
    /// `TOP` and `OFFSET` split one order in two.
    Cut,
    /// `APPLY` is equivalent to a join.
    Applied,
    /// `IN`, `ANY` and `ALL` are equivalent to `EXISTS`.
    Members,
}

impl Relation {
    pub(super) const ALL: [Relation; 20] = [
        Relation::PartsOfRows,
        Relation::PartsOfGroups,
        Relation::PartsOfHaving,
        Relation::PartsOfProduct,
        Relation::Counted,
        Relation::InCase,
        Relation::OuterAndUnmatched,
        Relation::SidesExchanged,
        Relation::OperandsExchanged,
        Relation::Variables,
        Relation::Shapes,
        Relation::Workers,
        Relation::Again,
        Relation::Values,
        Relation::Hints,
        Relation::Wrapped,
        Relation::Sets,
        Relation::Cut,
        Relation::Applied,
        Relation::Members,
    ];
}

/// A query, and the other data for a relation. Everything else follows from `seed`.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Case {
    pub(super) relation: Relation,
    pub(super) seed: u64,
    pub(super) query: Select,
    pub(super) condition: Cond,
}

/// Two lists of batches with the same rows in total, in any order or in the given one.
pub(super) struct Sides {
    pub(super) left: Vec<String>,
    pub(super) right: Vec<String>,
    pub(super) is_ordered: bool,
}

fn sides(left: impl Into<Vec<String>>, right: impl Into<Vec<String>>) -> Option<Sides> {
    Some(Sides { left: left.into(), right: right.into(), is_ordered: false })
}

/// The declaration of a printer's variables, with the values that `value` gives for their types and constants.
fn declared(variables: &[(String, String)], mut value: impl FnMut(&str, &str) -> String) -> String {
    let numbered = (1..).zip(variables);
    let each: Vec<String> = numbered.map(|(at, (of, text))| format!("@v{at} {of} = {}", value(of, text))).collect();
    format!("DECLARE {};", each.join(", "))
}

/// The execution of a query with a printer's variables as parameters.
fn executed(query: &str, variables: &[(String, String)]) -> String {
    let types: Vec<String> = (1..).zip(variables).map(|(at, (of, _))| format!("@v{at} {of}")).collect();
    let names: Vec<String> = (1..).zip(variables).map(|(at, _)| format!("@v{at}")).collect();
    let quoted = query.replace('\'', "''");
    format!("EXEC sp_executesql N'{quoted}', N'{}', {}", types.join(", "), names.join(", "))
}

/// Another value of a variable's type, of those that columns have; sometimes NULL or the same.
fn other_value(of: &str, value: &str, random: &mut SplitMix64) -> String {
    let number = below(random, 9);
    match of.split('(').next().unwrap_or_default() {
        _ if below(random, 12) == 0 => "NULL".to_owned(),
        "tinyint" | "smallint" | "int" | "bigint" => number.to_string(),
        "decimal" | "numeric" | "money" => format!("{number}.5"),
        "date" | "datetime" | "datetime2" => format!("'2020-01-0{}'", number + 1),
        "varchar" | "nvarchar" => ["'a'", "'A'", "'b'", "''", "'ab '"][number % 5].to_owned(),
        _ => value.to_owned(),
    }
}

fn text(query: &Select) -> String {
    Printer::default().select(query)
}

/// The three parts for a condition: true, false, unknown.
fn parts(condition: &Cond) -> [Cond; 3] {
    [condition.clone(), condition.clone().not(), condition.clone().unknown()]
}

impl Case {
    /// The case of a seed.
    pub(super) fn of(seed: u64, world: &World) -> Case {
        let mut generator = Generator::new(seed, world);
        let relation = generator.one_of(&Relation::ALL);
        let depth = generator.below(3);
        let (query, seen) = match relation {
            Relation::PartsOfProduct | Relation::OuterAndUnmatched | Relation::Applied => {
                join(&mut generator, relation)
            }
            Relation::Cut => plain(&mut generator),
            _ => {
                let (from, seen) = generator.from(&[], depth);
                let grouped = match relation {
                    Relation::PartsOfGroups | Relation::PartsOfHaving => true,
                    Relation::PartsOfRows | Relation::Counted | Relation::Sets | Relation::Members => false,
                    _ => generator.chance(30),
                };
                let query = if grouped {
                    generator.grouped_of(from, &seen, &[], depth)
                } else {
                    generator.select_of(from, &seen, &[], depth)
                };
                (query, seen)
            }
        };
        let query = distinct(&mut generator, relation, query);
        let condition = match relation {
            Relation::PartsOfHaving => generator.having(&seen, &query.group),
            Relation::Members => generator.membership(&seen, depth.max(1)),
            Relation::PartsOfProduct | Relation::OuterAndUnmatched | Relation::Applied => on(&query),
            _ => generator.cond(&seen, depth),
        };
        Case { relation, seed, query, condition }
    }

    /// The two sides to compare. `None` if the relation does not apply to this query.
    pub(super) fn sides(&self, world: &World) -> Option<Sides> {
        let mut random = SplitMix64::new(self.seed ^ 0x51DE5);
        let query = &self.query;
        let same = |other: &Select| sides([text(query)], [text(other)]);
        match self.relation {
            Relation::PartsOfRows => self.parts_of_rows(),
            // With other collations, one form of text may stand for more than one group.
            Relation::PartsOfGroups if !world.has_default_collation() => None,
            Relation::PartsOfGroups => self.parts_of_groups(),
            Relation::PartsOfHaving => {
                let whole = Select { having: None, ..query.clone() };
                let part = |part: Cond| text(&Select { having: Some(part), ..query.clone() });
                sides([text(&whole)], parts(&self.condition).map(part))
            }
            Relation::PartsOfProduct => self.parts_of_product(),
            Relation::Counted => self.counted(),
            Relation::InCase => {
                let plain = query.only(self.condition.clone());
                let hidden =
                    Select { filter: plain.filter.clone().map(|one| Cond::InCase(Box::new(one))), ..plain.clone() };
                let hidden =
                    if below(&mut random, 2) == 0 { rewrite::select(&mut JoinsInCase, &hidden) } else { hidden };
                sides([text(&plain)], [text(&hidden)])
            }
            Relation::OuterAndUnmatched => self.outer_and_unmatched(world),
            Relation::SidesExchanged => same(&rewrite::select(&mut Swapped, query)),
            Relation::OperandsExchanged => same(&rewrite::select(&mut Turned, query)),
            Relation::Variables => self.variables(&mut random),
            Relation::Values => self.values(&mut random),
            Relation::Shapes => same(&rewrite::select(&mut Reshaped(&mut random), query)),
            Relation::Workers => sides([text(query) + " OPTION (MAXDOP 1)"], [text(query) + " OPTION (MAXDOP 2)"]),
            Relation::Again => {
                let anew = text(query) + " OPTION (RECOMPILE)";
                sides([anew.clone(), anew], [text(query), text(query)])
            }
            Relation::Hints => {
                let hint = HINTS[below(&mut random, HINTS.len())];
                sides([text(query)], [format!("{} OPTION ({hint})", text(query))])
            }
            Relation::Wrapped => self.wrapped(&mut random),
            Relation::Sets => self.sets(&mut random),
            Relation::Cut => self.cut(&mut random),
            Relation::Applied => self.applied(),
            Relation::Members => self.members(),
        }
    }

    fn parts_of_rows(&self) -> Option<Sides> {
        let whole = text(&self.query);
        let each = parts(&self.condition).map(|part| text(&self.query.only(part)));
        if self.query.distinct {
            return sides([whole], [each.join("\n  UNION ")]);
        }
        if self.seed.is_multiple_of(2) { sides([whole], each) } else { sides([whole], [each.join("\n  UNION ALL ")]) }
    }

    /// Counts and sums of the parts are added up. The minimum is the minimum of the minimums.
    fn parts_of_groups(&self) -> Option<Sides> {
        let whole = Select { having: None, ..self.query.clone() };
        let groups = whole.group.len();
        let combined = |(at, item): (usize, &Expr)| match item {
            _ if at < groups => Some(format!("x.c{at} AS c{at}")),
            Expr::Form { template, arguments, .. } => {
                let inner = match arguments.first() {
                    Some(Expr::Form { template, .. }) => template,
                    _ => template,
                };
                let all = [*template, *inner].concat();
                let function = match all {
                    all if all.contains("DISTINCT") => return None,
                    all if all.contains("MIN(") => "MIN",
                    all if all.contains("MAX(") => "MAX",
                    _ => "SUM",
                };
                Some(format!("{function}(x.c{at}) AS c{at}"))
            }
            _ => None,
        };
        let items: Option<Vec<String>> = whole.items.iter().enumerate().map(combined).collect();
        let each = parts(&self.condition).map(|part| text(&whole.only(part)));
        let by: Vec<String> = (0..groups).map(|at| format!("x.c{at}")).collect();
        let by = if by.is_empty() { String::new() } else { format!(" GROUP BY {}", by.join(", ")) };
        let parts = each.join("\n  UNION ALL ");
        sides([text(&whole)], [format!("SELECT {} FROM ({parts}) AS x{by}", items?.join(", "))])
    }

    fn parts_of_product(&self) -> Option<Sides> {
        let From::Join { left, right, .. } = &self.query.from else { return None };
        let of = |kind: Join, on: Option<Cond>| {
            let from = From::join(kind, (**left).clone(), (**right).clone(), on);
            text(&Select { from, ..self.query.clone() })
        };
        sides([of(Join::Cross, None)], parts(&self.condition).map(|part| of(Join::Inner, Some(part))))
    }

    fn counted(&self) -> Option<Sides> {
        let count = Expr::form("COUNT(*)", Vec::new(), Type::Int);
        let one = |text: &str| Expr::Constant { text: text.to_owned(), of: Type::Int, is_cast: false };
        let told = Expr::Case { whens: vec![(self.condition.clone(), one("1"))], other: Some(Box::new(one("0"))) };
        let Select { from, filter, .. } = self.query.clone();
        let counted = Select::plain(vec![count], from.clone(), filter.clone()).only(self.condition.clone());
        let told = text(&Select::plain(vec![told], from, filter));
        sides([text(&counted)], [format!("SELECT ISNULL(SUM(q.c0), 0) FROM ({told}) AS q")])
    }

    /// Both sides must be tables: rows without a partner are selected by `NOT EXISTS`, with NULL for the other side's
    /// columns.
    fn outer_and_unmatched(&self, world: &World) -> Option<Sides> {
        let From::Join { kind, left, right, .. } = &self.query.from else { return None };
        // A NULL does not have the column's collation.
        if !world.has_default_collation() {
            return None;
        }
        let outer = Select {
            from: From::join(*kind, (**left).clone(), (**right).clone(), Some(self.condition.clone())),
            ..self.query.clone()
        };
        let inner = From::join(Join::Inner, (**left).clone(), (**right).clone(), Some(self.condition.clone()));
        let inner = Select { from: inner, ..self.query.clone() };
        let unmatched = |kept: &From, lost: &From| {
            let From::Table { alias, .. } = lost else { return None };
            let to = |_: &str, of: Type| Expr::Null(Some(of));
            let of_kept = rewrite::select(&mut Columns { alias: *alias, to }, &self.query);
            let one = Expr::Constant { text: "1".to_owned(), of: Type::Int, is_cast: false };
            let partner = Select::plain(vec![one], lost.clone(), Some(self.condition.clone()));
            let alone = Cond::Exists { is_not: true, query: Box::new(partner) };
            Some(text(&Select { from: kept.clone(), ..of_kept }.only(alone)))
        };
        let mut all = vec![text(&inner)];
        if matches!(kind, Join::Left | Join::Full) {
            all.push(unmatched(left, right)?);
        }
        if matches!(kind, Join::Right | Join::Full) {
            all.push(unmatched(right, left)?);
        }
        sides([text(&outer)], all)
    }

    fn variables(&self, random: &mut SplitMix64) -> Option<Sides> {
        let query = self.query.only(self.condition.clone());
        let mut printer = Printer { with_variables: true, ..Printer::default() };
        let with_variables = printer.select(&query);
        if printer.variables.is_empty() {
            return None;
        }
        let declared = declared(&printer.variables, |_, value| value.to_owned());
        let batch = if below(random, 2) == 0 {
            format!("{declared} {with_variables}")
        } else {
            format!("{declared} {}", executed(&with_variables, &printer.variables))
        };
        sides([text(&query)], [batch])
    }

    fn values(&self, random: &mut SplitMix64) -> Option<Sides> {
        let query = self.query.only(self.condition.clone());
        let mut printer = Printer { with_variables: true, ..Printer::default() };
        let with_variables = printer.select(&query);
        if printer.variables.is_empty() {
            return None;
        }
        let executed = executed(&with_variables, &printer.variables);
        let (mut anew, mut again) = (Vec::new(), Vec::new());
        for execution in 0..4 {
            let declared = declared(&printer.variables, |of, value| match execution {
                2 => value.to_owned(),
                _ => other_value(of, value, random),
            });
            anew.push(format!("{declared} {with_variables} OPTION (RECOMPILE)"));
            again.push(format!("{declared} {executed}"));
        }
        sides(anew, again)
    }

    fn wrapped(&self, random: &mut SplitMix64) -> Option<Sides> {
        let query = text(&self.query);
        let wrapped = match below(random, 4) {
            0 => format!("SELECT * FROM ({query}) AS q"),
            1 => format!("WITH q AS ({query}) SELECT * FROM q"),
            2 => format!("SELECT * INTO #q FROM ({query}) AS q; SELECT * FROM #q; DROP TABLE #q"),
            _ => format!(
                "WITH q AS ({query}) SELECT q.* FROM (SELECT 1 AS one) AS o LEFT JOIN q ON 1 = 1 WHERE o.one = 1
                 AND EXISTS (SELECT * FROM q AS r) UNION ALL SELECT * FROM q WHERE 1 = 0"
            ),
        };
        sides([query], [wrapped])
    }

    fn sets(&self, random: &mut SplitMix64) -> Option<Sides> {
        let one = Select { distinct: false, ..self.query.clone() };
        let other = Select { filter: Some(self.condition.clone()), ..one.clone() };
        let different = Select { distinct: true, ..one.clone() };
        let (one, other) = (text(&one), text(&other));
        match below(random, 3) {
            0 => sides([text(&different)], [format!("{one}\n  EXCEPT {other}"), format!("{one}\n  INTERSECT {other}")]),
            1 => sides(
                [format!("{one}\n  UNION {other}")],
                [format!("SELECT DISTINCT * FROM ({one}\n  UNION ALL {other}) AS q")],
            ),
            _ => sides([format!("{one}\n  INTERSECT {other}")], [format!("{one}\n  EXCEPT ({one}\n  EXCEPT {other})")]),
        }
    }

    /// The first items are a key of the rows, so the order is total.
    fn cut(&self, random: &mut SplitMix64) -> Option<Sides> {
        let names: Vec<usize> = (0..self.query.items.len()).collect();
        let first = below(random, names.len());
        let order: Vec<String> = std::iter::once(first)
            .chain(names.iter().copied().filter(|at| *at != first))
            .map(|at| format!("c{at}{}", if below(random, 3) == 0 { " DESC" } else { "" }))
            .collect();
        let order = format!(" ORDER BY {}", order.join(", "));
        let whole = text(&self.query) + &order;
        let rows = [0, 1, 2, 5, 40][below(random, 5)];
        let other = text(&rewrite::select(&mut Reshaped(random), &self.query));
        let top = other.replacen("SELECT ", &format!("SELECT TOP ({rows}) "), 1) + &order;
        let rest = format!("{other}{order} OFFSET {rows} ROWS FETCH NEXT 1000000 ROWS ONLY");
        Some(Sides { left: vec![whole], right: vec![top, rest], is_ordered: true })
    }

    /// The right side, a table, becomes an `APPLY` with the join's condition.
    fn applied(&self) -> Option<Sides> {
        let From::Join { kind, left, right, .. } = &self.query.from else { return None };
        let From::Table { table, shape, alias } = **right else { return None };
        let join = From::join(*kind, (**left).clone(), (**right).clone(), Some(self.condition.clone()));
        let join = Select { from: join, ..self.query.clone() };
        let inside = alias + 1000;
        let mut names = Vec::new();
        for item in self.query.items.iter().chain(self.columns_of(alias).iter()) {
            if let Expr::Column { alias: of, name, of: sql_type } = item
                && *of == alias
                && !names.iter().any(|(known, _)| known == name)
            {
                names.push((name.clone(), *sql_type));
            }
        }
        let named = |name: &str, of: Type| {
            let at = names.iter().position(|(known, _)| known == name).expect("all of its columns");
            Expr::Column { alias, name: format!("c{at}"), of }
        };
        let inner = |name: &str, of: Type| Expr::Column { alias: inside, name: name.to_owned(), of };
        let condition = rewrite::cond(&mut Columns { alias, to: inner }, &self.condition);
        let items: Vec<Expr> = names.iter().map(|(name, of)| inner(name, *of)).collect();
        if items.is_empty() {
            return None;
        }
        let query = Select::plain(items, From::Table { table, shape, alias: inside }, Some(condition));
        let of_all = rewrite::select(&mut Columns { alias, to: named }, &self.query);
        let from = From::Apply { outer: *kind == Join::Left, left: left.clone(), query: Box::new(query), alias };
        sides([text(&join)], [text(&Select { from, ..of_all })])
    }

    /// All columns of an alias that the query names.
    fn columns_of(&self, alias: usize) -> Vec<Expr> {
        struct Gathered(usize, Vec<Expr>);
        impl rewrite::Rewriter for Gathered {
            fn expr(&mut self, expr: Expr) -> Expr {
                if matches!(&expr, Expr::Column { alias, .. } if *alias == self.0) {
                    self.1.push(expr.clone());
                }
                expr
            }
        }
        let mut gathered = Gathered(alias, Vec::new());
        rewrite::select(&mut gathered, &self.query);
        gathered.1
    }

    fn members(&self) -> Option<Sides> {
        let (op, all, value, query) = match self.condition.clone() {
            Cond::InQuery { is_not: false, value, query } => ("=", false, value, query),
            Cond::InQuery { is_not: true, value, query } => ("<>", true, value, query),
            Cond::Quantified { op, all, value, query } => (op, all, value, query),
            _ => return None,
        };
        let compared = Cond::Compare(op, value, query.items[0].clone());
        let found = if all { not_true(compared) } else { compared };
        let exists = Cond::Exists { is_not: all, query: Box::new(query.only(found)) };
        sides([text(&self.query.only(self.condition.clone()))], [text(&self.query.only(exists))])
    }
}

/// Whether a condition is false or unknown.
fn not_true(cond: Cond) -> Cond {
    Cond::Or(vec![cond.clone().not(), cond.unknown()])
}

const HINTS: [&str; 12] = [
    "LOOP JOIN",
    "HASH JOIN",
    "MERGE JOIN",
    "LOOP JOIN, MAXDOP 1",
    "MERGE JOIN, FORCE ORDER",
    "HASH JOIN, MAXDOP 1",
    "FORCE ORDER",
    "LOOP JOIN, HASH JOIN",
    "RECOMPILE",
    "USE HINT('HOBT_DISABLE_JOIN_FILTER')",
    "OPTIMIZE FOR UNKNOWN",
    "FORCE ORDER, LOOP JOIN",
];

fn distinct(generator: &mut Generator<'_>, relation: Relation, mut query: Select) -> Select {
    let may_be = query.group.is_empty() && !matches!(relation, Relation::Cut | Relation::PartsOfGroups);
    let may_be = may_be && relation != Relation::PartsOfHaving;
    let is_aggregate = matches!(query.items.last(), Some(Expr::Form { template, .. }) if template.contains("COUNT("));
    if relation == Relation::Sets || (may_be && !is_aggregate && generator.chance(20)) {
        query.items = query.items.into_iter().map(Expr::in_one_form).collect();
        query.distinct = may_distinct(relation);
    }
    query
}

/// Relations that partition rows not only by WHERE depend on the number of duplicates.
fn may_distinct(relation: Relation) -> bool {
    !matches!(relation, Relation::PartsOfProduct | Relation::OuterAndUnmatched)
}

fn on(query: &Select) -> Cond {
    match &query.from {
        From::Join { on: Some(on), .. } => on.clone(),
        _ => unreachable!("these relations are of joins"),
    }
}

/// A join of two tables, or of a join and a table if only the right side must be a table.
fn join(generator: &mut Generator<'_>, relation: Relation) -> (Select, Vec<Seen>) {
    let (left, mut seen) = match relation {
        Relation::OuterAndUnmatched => generator.table(),
        _ => generator.from(&[], 0),
    };
    let (right, of_right) = generator.table();
    let kind = match relation {
        Relation::PartsOfProduct => Join::Inner,
        Relation::Applied => generator.one_of(&[Join::Inner, Join::Left]),
        _ => generator.one_of(&[Join::Left, Join::Right, Join::Full]),
    };
    let on = generator.on(&seen, &of_right, 0, kind);
    seen.extend(of_right);
    let query = generator.select_of(From::join(kind, left, right, Some(on)), &seen, &[], 0);
    (query, seen)
}

/// A query over tables. Its first items are a key of its rows.
fn plain(generator: &mut Generator<'_>) -> (Select, Vec<Seen>) {
    let (mut from, mut seen) = generator.table();
    let mut keys = vec![seen[0].clone()];
    for _ in 0..generator.below(3) {
        let (right, of_right) = generator.table();
        let kind = generator.one_of(&[Join::Inner, Join::Left, Join::Full]);
        let on = generator.on(&seen, &of_right, 0, kind);
        keys.push(of_right[0].clone());
        seen.extend(of_right);
        from = From::join(kind, from, right, Some(on));
    }
    let mut query = generator.select_of(from, &seen, &[], 1);
    let rest = std::mem::take(&mut query.items);
    query.items = keys.iter().map(Seen::expr).chain(rest).collect();
    (query, seen)
}
