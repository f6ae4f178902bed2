//! Random queries over a world's tables.

use hobt_base::SplitMix64;

use super::tree::{Cond, Expr, Family, From, Join, Select, Shape, Type};
use super::world::{World, below, chance, literal};

/// A column that a query can name.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) alias: usize,
    pub(super) name: String,
    pub(super) of: Type,
}

impl Seen {
    pub(super) fn expr(&self) -> Expr {
        Expr::Column { alias: self.alias, name: self.name.clone(), of: self.of }
    }
}

pub(super) struct Generator<'w> {
    pub(super) random: SplitMix64,
    world: &'w World,
    aliases: usize,
    /// Whether the large table may still be read. It is used once per query, so that products stay small.
    may_be_large: bool,
}

const COMPARISONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

impl<'w> Generator<'w> {
    pub(super) fn new(seed: u64, world: &'w World) -> Generator<'w> {
        let mut random = SplitMix64::new(seed);
        let may_be_large = chance(&mut random, 20);
        Generator { random, world, aliases: 0, may_be_large }
    }

    pub(super) fn chance(&mut self, of_hundred: u64) -> bool {
        chance(&mut self.random, of_hundred)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        below(&mut self.random, bound)
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn alias(&mut self) -> usize {
        self.aliases += 1;
        self.aliases
    }

    /// A table in some shape, and its columns.
    pub(super) fn table(&mut self) -> (From, Vec<Seen>) {
        let mut table = self.below(self.world.tables.len());
        if self.world.is_large(table) {
            if self.may_be_large {
                self.may_be_large = false;
            } else {
                table = 0;
            }
        }
        let (alias, shape) = (self.alias(), self.one_of(&Shape::ALL));
        let seen = |column: &super::world::Column| Seen { alias, name: column.name.clone(), of: column.of };
        (From::Table { table, shape, alias }, self.world.tables[table].columns.iter().map(seen).collect())
    }

    /// A derived table or a table.
    fn source(&mut self, depth: usize) -> (From, Vec<Seen>) {
        if depth == 0 || self.chance(80) {
            return self.table();
        }
        let alias = self.alias();
        let query = if self.chance(40) { self.grouped(&[], depth - 1) } else { self.select(&[], depth - 1) };
        let seen = columns_of(&query, alias);
        (From::Derived { query: Box::new(query), alias }, seen)
    }

    /// The FROM clause of a query with one to three sources.
    pub(super) fn from(&mut self, outer: &[Seen], depth: usize) -> (From, Vec<Seen>) {
        let (mut from, mut seen) = self.source(depth);
        let more = [0, 0, 1, 1, 1, 2][self.below(6)];
        for _ in 0..more {
            if depth > 0 && self.chance(15) {
                let visible: Vec<Seen> = seen.iter().chain(outer).cloned().collect();
                let query = self.select(&visible, 0);
                let alias = self.alias();
                seen.extend(columns_of(&query, alias));
                from = From::Apply { outer: self.chance(50), left: Box::new(from), query: Box::new(query), alias };
                continue;
            }
            let (right, of_right) = self.source(depth);
            let kind =
                self.one_of(&[Join::Inner, Join::Inner, Join::Left, Join::Left, Join::Right, Join::Full, Join::Cross]);
            let on = (kind != Join::Cross).then(|| self.on(&seen, &of_right, depth, kind));
            seen.extend(of_right);
            // Sometimes the new side is written first.
            from = match self.chance(80) {
                true => From::join(kind, from, right, on),
                false => From::join(kind, right, from, on),
            };
        }
        (from, seen)
    }

    /// The condition of a join: mostly an equation, and sometimes more.
    pub(super) fn on(&mut self, left: &[Seen], right: &[Seen], depth: usize, kind: Join) -> Cond {
        let both: Vec<Seen> = left.iter().chain(right).cloned().collect();
        let mut conds = Vec::new();
        for _ in 0..1 + self.below(2) {
            let pairs: Vec<(&Seen, &Seen)> = left
                .iter()
                .flat_map(|one| right.iter().map(move |other| (one, other)))
                .filter(|(one, other)| one.of.family() == other.of.family())
                .collect();
            if pairs.is_empty() || self.chance(15) {
                break;
            }
            let (one, other) = pairs[self.below(pairs.len())];
            let op = if self.chance(75) { "=" } else { self.one_of(&COMPARISONS) };
            let sides = (one.expr(), other.expr());
            conds.push(if self.chance(50) {
                Cond::Compare(op, sides.0, sides.1)
            } else {
                Cond::Compare(op, sides.1, sides.0)
            });
        }
        if conds.is_empty() || self.chance(50) {
            // Subqueries in ON of an outer join are not supported in many forms, so they are only used where they are.
            let depth = if kind == Join::Inner { depth.min(1) } else { 0 };
            let cond = self.cond(&both, depth);
            conds.push(cond);
        }
        let last = conds.len() - 1;
        let at = self.below(conds.len());
        conds.swap(at, last);
        if conds.len() == 1 { conds.remove(0) } else { Cond::And(conds) }
    }

    /// A query without groups. `outer` are columns of enclosing queries.
    pub(super) fn select(&mut self, outer: &[Seen], depth: usize) -> Select {
        let (from, seen) = self.from(outer, depth);
        self.select_of(from, &seen, outer, depth)
    }

    /// A query without groups over `from`.
    pub(super) fn select_of(&mut self, from: From, seen: &[Seen], outer: &[Seen], depth: usize) -> Select {
        let visible: Vec<Seen> = seen.iter().chain(outer).cloned().collect();
        let mut items: Vec<Expr> = Vec::new();
        if self.chance(60) {
            items.push(seen[0].expr());
        }
        for _ in 0..1 + self.below(3) {
            let depth = usize::from(self.chance(40));
            items.push(self.any_expr(&visible, depth));
        }
        let filter = (self.chance(55) || !outer.is_empty()).then(|| self.cond(&visible, depth));
        Select::plain(items, from, filter)
    }

    /// A query with groups or aggregates. Its groups come first in the select list.
    pub(super) fn grouped(&mut self, outer: &[Seen], depth: usize) -> Select {
        let (from, seen) = self.from(outer, depth);
        self.grouped_of(from, &seen, outer, depth)
    }

    /// A query with groups over `from`.
    pub(super) fn grouped_of(&mut self, from: From, seen: &[Seen], outer: &[Seen], depth: usize) -> Select {
        let visible: Vec<Seen> = seen.iter().chain(outer).cloned().collect();
        let filter = (self.chance(50) || !outer.is_empty()).then(|| self.cond(&visible, depth));
        let mut group: Vec<Expr> = Vec::new();
        for _ in 0..self.below(3) {
            let column = seen[self.below(seen.len())].expr();
            if !group.contains(&column) {
                group.push(column);
            }
        }
        let mut items: Vec<Expr> = group.iter().cloned().map(Expr::in_one_form).collect();
        for _ in 0..1 + self.below(3) {
            items.push(self.aggregate(seen));
        }
        let having = self.chance(30).then(|| self.having(seen, &group));
        Select { distinct: false, items, from, filter, group, having }
    }

    /// A condition on groups and aggregates.
    pub(super) fn having(&mut self, seen: &[Seen], group: &[Expr]) -> Cond {
        let one = |generator: &mut Self| {
            let value = match group {
                [_, ..] if generator.chance(40) => group[generator.below(group.len())].clone(),
                _ => generator.aggregate(seen),
            };
            let family = value.of().family();
            let other = generator.constant(family);
            match generator.below(4) {
                0 => Cond::Compare(generator.one_of(&COMPARISONS), other, value),
                1 => Cond::Test(generator.one_of(&["{} IS NULL", "{} IS NOT NULL"]), vec![value]),
                _ => Cond::Compare(generator.one_of(&COMPARISONS), value, other),
            }
        };
        let first = one(self);
        match self.below(4) {
            0 => Cond::And(vec![first, one(self)]),
            1 => Cond::Or(vec![first, one(self)]),
            2 => first.not(),
            _ => first,
        }
    }

    /// An aggregate whose result does not depend on the order of rows.
    pub(super) fn aggregate(&mut self, seen: &[Seen]) -> Expr {
        let column = seen[self.below(seen.len())].clone();
        let of = column.of;
        match self.below(6) {
            0 => Expr::form("COUNT(*)", Vec::new(), Type::Int),
            1 => Expr::form("COUNT({})", vec![column.expr()], Type::Int),
            2 => Expr::form("COUNT(DISTINCT {})", vec![column.expr()], Type::Int),
            3 | 4 if of.family() == Family::Number && of != Type::Bit => {
                let wide = if of.is_whole() && of != Type::BigInt { Type::Int } else { of };
                Expr::form("SUM({})", vec![column.expr()], wide)
            }
            at if of != Type::Bit => {
                let template = if at % 2 == 0 { "MIN({})" } else { "MAX({})" };
                Expr::form(template, vec![column.expr()], of).in_one_form()
            }
            _ => Expr::form("COUNT(*)", Vec::new(), Type::Int),
        }
    }

    /// An expression of any family that has a column.
    pub(super) fn any_expr(&mut self, seen: &[Seen], depth: usize) -> Expr {
        let family = seen[self.below(seen.len())].of.family();
        self.expr(family, seen, depth)
    }

    fn type_of(&mut self, family: Family) -> Type {
        let all: Vec<Type> = Type::ALL.into_iter().filter(|of| of.family() == family).collect();
        self.one_of(&all)
    }

    /// A literal with a value of the family, or NULL with a type.
    pub(super) fn constant(&mut self, family: Family) -> Expr {
        let of = self.type_of(family);
        if self.chance(8) {
            return Expr::Null(Some(of));
        }
        // A literal without a cast has a type of its own.
        let (of, is_cast) = match of {
            Type::SmallInt | Type::TinyInt if self.chance(70) => (Type::Int, false),
            Type::Int | Type::Decimal | Type::Float | Type::VarChar | Type::NVarChar | Type::VarBinary => (of, false),
            _ => (of, true),
        };
        Expr::Constant { text: literal(&mut self.random, of), of, is_cast }
    }

    pub(super) fn expr(&mut self, family: Family, seen: &[Seen], depth: usize) -> Expr {
        let columns: Vec<&Seen> = seen.iter().filter(|column| column.of.family() == family).collect();
        let roll = self.below(100);
        if depth == 0 || roll < 55 {
            if columns.is_empty() || roll.is_multiple_of(5) {
                return self.constant(family);
            }
            return columns[self.below(columns.len())].expr();
        }
        match roll {
            55..=62 => self.case(family, seen, depth - 1),
            63..=75 => {
                let template =
                    self.one_of(&["ISNULL({}, {})", "COALESCE({}, {})", "NULLIF({}, {})", "COALESCE({}, {})"]);
                let arguments = vec![self.expr(family, seen, depth - 1), self.expr(family, seen, depth - 1)];
                let of = if template.starts_with("COALESCE") {
                    arguments[0].of().max(arguments[1].of())
                } else {
                    arguments[0].of()
                };
                Expr::form(template, arguments, of)
            }
            76..=80 if depth > 1 => Expr::Query(Box::new(self.single(family, seen))),
            _ => match family {
                Family::Number => self.number(seen, depth - 1),
                Family::Text => self.text(seen, depth - 1),
                Family::Time => {
                    let argument = self.expr(family, seen, depth - 1);
                    let of = argument.of();
                    match self.below(3) {
                        0 => Expr::form("CAST({} AS date)", vec![argument], Type::Date),
                        1 => Expr::form("DATEADD(day, 1, {})", vec![argument], of),
                        _ => Expr::form("DATEADD(month, -1, {})", vec![argument], of),
                    }
                }
                Family::Binary | Family::Guid => self.case(family, seen, depth - 1),
            },
        }
    }

    fn case(&mut self, family: Family, seen: &[Seen], depth: usize) -> Expr {
        let mut whens = Vec::new();
        for _ in 0..1 + self.below(2) {
            whens.push((self.cond(seen, 0), self.expr(family, seen, depth)));
        }
        let other = self.chance(60).then(|| Box::new(self.expr(family, seen, depth)));
        Expr::Case { whens, other }
    }

    /// A number that can be used in arithmetic.
    fn operand(&mut self, seen: &[Seen], depth: usize) -> Expr {
        let expr = self.expr(Family::Number, seen, depth);
        // Bits, and CASE expressions that return them, cannot be added.
        if expr.of().is_whole() && expr.of() != Type::TinyInt && !matches!(expr, Expr::Case { .. }) {
            return expr;
        }
        Expr::form("CAST({} AS int)", vec![expr], Type::Int)
    }

    fn number(&mut self, seen: &[Seen], depth: usize) -> Expr {
        let has = |family: Family| seen.iter().any(|column| column.of.family() == family);
        let (text, time) = (has(Family::Text), has(Family::Time));
        match self.below(9) {
            0 | 1 => {
                let template = self.one_of(&["({} + {})", "({} - {})", "({} * {})"]);
                Expr::form(template, vec![self.operand(seen, depth), self.operand(seen, depth)], Type::Int)
            }
            2 => {
                let template = self.one_of(&["({} % 3)", "({} / 2)", "(- {})", "ABS({})", "({} & 3)"]);
                Expr::form(template, vec![self.operand(seen, depth)], Type::Int)
            }
            3 if text => Expr::form("LEN({})", vec![self.expr(Family::Text, seen, depth)], Type::Int),
            4 if text => Expr::form("TRY_CAST({} AS int)", vec![self.expr(Family::Text, seen, depth)], Type::Int),
            5 if text => Expr::form("CHARINDEX('b', {})", vec![self.expr(Family::Text, seen, depth)], Type::Int),
            6 if time => {
                let template = self.one_of(&["DATEDIFF(day, '2020-01-01', {})", "YEAR({})", "DATEPART(day, {})"]);
                Expr::form(template, vec![self.expr(Family::Time, seen, depth)], Type::Int)
            }
            7 => Expr::form("CAST({} AS decimal(9, 2))", vec![self.expr(Family::Number, seen, depth)], Type::Decimal),
            _ => Expr::form("CAST({} AS bigint)", vec![self.expr(Family::Number, seen, depth)], Type::BigInt),
        }
    }

    fn text(&mut self, seen: &[Seen], depth: usize) -> Expr {
        let argument = self.expr(Family::Text, seen, depth);
        let of = argument.of();
        match self.below(5) {
            0 => Expr::form("UPPER({})", vec![argument], of),
            1 => Expr::form("LEFT({}, 1)", vec![argument], of),
            2 => Expr::form("({} + {})", vec![argument, self.expr(Family::Text, seen, depth)], of),
            3 => Expr::form("CAST({} AS varchar(10))", vec![self.operand(seen, depth)], Type::VarChar),
            _ => Expr::form("SUBSTRING({}, 2, 5)", vec![argument], of),
        }
    }

    /// A scalar subquery: an aggregate, so that it returns one row.
    fn single(&mut self, family: Family, outer: &[Seen]) -> Select {
        let (from, seen) = self.table();
        let visible: Vec<Seen> = seen.iter().chain(outer).cloned().collect();
        let of_family: Vec<&Seen> =
            seen.iter().filter(|column| column.of.family() == family && column.of != Type::Bit).collect();
        let item = match (family, of_family.as_slice()) {
            (Family::Number, []) => Expr::form("COUNT(*)", Vec::new(), Type::Int),
            (_, []) => Expr::form("MAX({})", vec![self.constant(family)], self.type_of(family)).in_one_form(),
            (_, some) => {
                let column = some[self.below(some.len())];
                Expr::form(self.one_of(&["MIN({})", "MAX({})"]), vec![column.expr()], column.of).in_one_form()
            }
        };
        Select::plain(vec![item], from, Some(self.cond(&visible, 0)))
    }

    /// A subquery with one column, and a value to compare with it.
    fn member(&mut self, seen: &[Seen], depth: usize) -> (Expr, Select) {
        let (from, of_query) = self.from(seen, depth.saturating_sub(1));
        let column = of_query[self.below(of_query.len())].clone();
        let visible: Vec<Seen> = of_query.iter().chain(seen).cloned().collect();
        let item = if self.chance(80) { column.expr() } else { self.expr(column.of.family(), &visible, 1) };
        let filter = self.chance(70).then(|| {
            let visible = if self.chance(60) { &visible } else { &of_query };
            self.cond(visible, 0)
        });
        (self.expr(column.of.family(), seen, 1), Select::plain(vec![item], from, filter))
    }

    /// A condition on a value being or not being among a subquery's rows.
    pub(super) fn membership(&mut self, seen: &[Seen], depth: usize) -> Cond {
        let (value, query) = self.member(seen, depth);
        let query = Box::new(query);
        if self.chance(50) {
            return Cond::InQuery { is_not: self.chance(60), value, query };
        }
        Cond::Quantified { op: self.one_of(&COMPARISONS), all: self.chance(50), value, query }
    }

    /// A condition. With `depth` it may contain subqueries.
    pub(super) fn cond(&mut self, seen: &[Seen], depth: usize) -> Cond {
        match self.below(if depth > 0 { 17 } else { 14 }) {
            0 | 1 => Cond::And(vec![self.cond_simple(seen), self.cond_less(seen, depth)]),
            2 | 3 => Cond::Or(vec![self.cond_simple(seen), self.cond_less(seen, depth)]),
            4 => self.cond_less(seen, depth).not(),
            14 => {
                let query = self.select(seen, depth - 1);
                Cond::Exists { is_not: self.chance(50), query: Box::new(query) }
            }
            15 | 16 => self.membership(seen, depth),
            _ => self.cond_simple(seen),
        }
    }

    fn cond_less(&mut self, seen: &[Seen], depth: usize) -> Cond {
        if self.chance(50) { self.cond_simple(seen) } else { self.cond(seen, depth) }
    }

    fn cond_simple(&mut self, seen: &[Seen]) -> Cond {
        let family = seen[self.below(seen.len())].of.family();
        let deep = usize::from(self.chance(35));
        match self.below(12) {
            0 => Cond::Test(self.one_of(&["{} IS NULL", "{} IS NOT NULL"]), vec![self.expr(family, seen, 1)]),
            1 | 2 => {
                let template = self.one_of(&["{} BETWEEN {} AND {}", "{} NOT BETWEEN {} AND {}"]);
                let value = |generator: &mut Self| generator.expr(family, seen, 0);
                Cond::Test(template, vec![value(self), value(self), value(self)])
            }
            3 | 4 => {
                let value = self.expr(family, seen, deep);
                let list = (0..1 + self.below(3)).map(|_| self.constant_or_column(family, seen)).collect();
                Cond::In { is_not: self.chance(40), value, list }
            }
            5 if family == Family::Text => {
                let template = self.one_of(&["{} LIKE 'a%'", "{} NOT LIKE '%b'", "{} LIKE '_'", "{} LIKE '[a-b]'"]);
                Cond::Test(template, vec![self.expr(family, seen, deep)])
            }
            6 | 7 => {
                let (value, constant) = (self.expr(family, seen, deep), self.constant_or_null(family));
                let op = self.one_of(&COMPARISONS);
                if self.chance(50) { Cond::Compare(op, value, constant) } else { Cond::Compare(op, constant, value) }
            }
            8 if self.chance(30) => {
                let op = self.one_of(&COMPARISONS);
                Cond::Compare(op, self.constant(family), self.constant_or_null(family))
            }
            _ => {
                let op = self.one_of(&COMPARISONS);
                Cond::Compare(op, self.expr(family, seen, deep), self.expr(family, seen, deep))
            }
        }
    }

    fn constant_or_null(&mut self, family: Family) -> Expr {
        if self.chance(6) { Expr::Null(None) } else { self.constant(family) }
    }

    fn constant_or_column(&mut self, family: Family, seen: &[Seen]) -> Expr {
        if self.chance(80) { self.constant_or_null(family) } else { self.expr(family, seen, 0) }
    }
}

/// The columns of a derived table.
fn columns_of(query: &Select, alias: usize) -> Vec<Seen> {
    let seen = |(at, item): (usize, &Expr)| Seen { alias, name: format!("c{at}"), of: item.of() };
    query.items.iter().enumerate().map(seen).collect()
}
