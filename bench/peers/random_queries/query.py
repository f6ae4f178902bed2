"""Queries in both dialects, drawn at random over the tables of a world.

What stands in each FROM is kept as a tree, and the texts have a mark in its place, so that one query can be said with its sources in several
orders. Guesses of how many rows a join has keep queries small.
"""

import math
import re
from typing import NamedTuple

from .expression import (
    BIGINT_DIGITS, DATE, DECIMAL, DECIMAL_DIGITS, FLOAT, INT, KINDS, TEXTS, TIME, Expressions, Scope, Text, Value,
    comparable, computable, fits, join_texts, literal_text, say, text_of,
)
from .source import CROSS, CROSS_APPLY, FULL, INNER, LEFT, OUTER_APPLY, RIGHT, Join, Source, source_of_table

# Rows that a join may have, by guess; those with the big table, whose rows are hashed and not compared, more.
JOIN_ROWS, BIG_JOIN_ROWS = 15_000, 400_000
# Pairs of rows that a join without an equation compares.
PAIRS = 100_000
# Rows that an answer may have; longer ones are counted and summed by both engines.
ANSWER_ROWS = 1_500
# Sources of a whole query: planning takes longer than reading the few rows.
SOURCES = (1, 2, 2, 3, 3, 4, 5, 8)
# One query in so many may read the big table.
BIG_EVERY = 40
# ROLLUP, CUBE and GROUPING SETS with a set of no keys have a row for it also where there are no rows at all, as SQL Server's documents say by
# their equivalence with UNION ALL. For an engine that has none, set this to False, and a HAVING leaves such rows out.
TOTALS_OF_NOTHING = True
FROM_MARK = re.compile("\x01(\\d+)\x02")


class Query(NamedTuple):
    """A query as a part of others."""

    text: Text
    # Its columns, named c1, c2, …: their kinds and what else is known of them.
    columns: tuple
    rows: float


class Statement(NamedTuple):
    """A whole query, how to render it, and how to compare its answers."""

    with_text: Text | None
    query: Query
    froms: tuple
    is_ordered: bool
    tables: frozenset

    @property
    def kinds(self):
        return [column.kind for column in self.query.columns]

    @property
    def sources(self):
        return sum(len(tree.sources()) for tree in self.froms)

    @property
    def pairs(self):
        """How many rows the worst order of joins makes."""
        return max((math.prod(max(1, source.rows) for source in tree.sources()) for tree in self.froms), default=1)

    @property
    def is_joined(self):
        return any(isinstance(tree, Join) for tree in self.froms)

    def _render(self, query, froms):
        whole = say("{} {}", self.with_text, query) if self.with_text else query
        return render_froms(whole, froms)

    def written(self, query=None):
        """The query as it was drawn, in both dialects."""
        return self._render(query or self.query.text, self.froms)

    def turned(self, random, query=None):
        """The query with the sources of each FROM in another order."""
        return self._render(query or self.query.text, [tree.turned(random) for tree in self.froms])

    def digest(self):
        """A query of one row: how many rows this one has, and of each column how many values, the least and the greatest."""
        parts = ["COUNT(*)"]
        for number, column in enumerate(self.query.columns, 1):
            value = f"CAST(q.c{number} AS int)" if column.narrow else f"q.c{number}"
            parts += [f"COUNT(q.c{number})", f"MIN({value})", f"MAX({value})"]
        return say(f"SELECT {', '.join(f'{part} AS d{n}' for n, part in enumerate(parts, 1))} FROM ({{}}) AS q", self.query.text)

    def digest_kinds(self):
        return [INT] + [kind for column in self.kinds for kind in (INT, column, column)]


def render_froms(text, froms):
    """The text with each mark replaced by what stands in that FROM."""
    rendered = {}

    def fill(dialect, match):
        number = int(match[1])
        if number not in rendered:
            rendered[number] = froms[number].render()
        return FROM_MARK.sub(lambda inner: fill(dialect, inner), getattr(rendered[number], dialect))

    return Text(*(FROM_MARK.sub(lambda match: fill(dialect, match), getattr(text, dialect)) for dialect in ("tsql", "duckdb")))


def descending(value, is_descending):
    """An item of ORDER BY; NULL is the least in T-SQL."""
    if is_descending:
        return say("{} DESC", value, duckdb="{} DESC NULLS LAST")
    return say("{}", value, duckdb="{} ASC NULLS FIRST")


class Queries(Expressions):
    """Draws queries over tables."""

    def __init__(self, random, tables, big):
        super().__init__(random)
        self.tables = list(tables)
        self.big = big if random.randrange(BIG_EVERY) == 0 else None
        self.has_big = False
        self.sources_left = random.choice(SOURCES)
        self.froms = []
        self.aliases = 0
        # Whether the last GROUP BY has several sets of keys.
        self.has_sets = False
        self.ctes = []
        self.used = set()

    def statement(self):
        """A whole query."""
        with_text = None
        if self.sources_left > 1 and self.chance(10):
            definitions = [self._cte(f"n{number}") for number in range(self.random.choice((1, 1, 2)))]
            with_text = say("WITH {}", join_texts(", ", definitions))
        form = self.random.randrange(100)
        if form < 12:
            query, is_ordered = self.top(2), True
        elif form < 28 and self.sources_left > 1:
            query, is_ordered = self.set_operation(2), False
        else:
            query, is_ordered = self.block(2), False
        return Statement(with_text, query, tuple(self.froms), is_ordered, frozenset(self.used))

    def _cte(self, name):
        query = self.block(1)
        self.ctes.append((name, query))
        return say(f"{name} AS ({{}})", query.text)

    def block(self, depth, want=None):
        """A SELECT: of rows, of groups or with windows."""
        form = self.random.randrange(100)
        if form < 42:
            return self.rows(depth, want)
        if form < 82:
            return self.groups(depth, want)
        return self.windows(depth, want)

    # FROM.

    def alias(self):
        self.aliases += 1
        return f"a{self.aliases}"

    def from_tree(self, depth, most=5, is_inner=False):
        """Joins of one to `most` sources; the big table among them at times."""
        count = max(1, min(most, self.sources_left, self.random.choice((1, 1, 2, 2, 2, 3, 3, 4, 5))))
        with_big = self.big is not None and not self.has_big and not is_inner
        self.has_big |= with_big
        tree = self.source(depth, self.big if with_big else None)
        for _ in range(count - 1):
            tree = self.join(tree, depth, is_inner)
        return tree

    def source(self, depth, table=None, most=None):
        """A table or a derived table."""
        alias = self.alias()
        self.sources_left -= 1
        if table is None and depth > 0 and self.sources_left > 0 and self.chance(18):
            query = self.set_operation(depth - 1) if self.chance(20) else self.block(depth - 1)
            if self.chance(15):
                query = self.top(depth - 1)
            if most is None or query.rows <= most:
                return self.source_of_query(alias, say(f"({{}}) AS {alias}", query.text), query)
        if table is None and self.ctes and self.chance(60):
            name, query = self.random.choice(self.ctes)
            return self.source_of_query(alias, say(f"{name} AS {alias}"), query)
        if table is None:
            some = [table for table in self.tables if most is None or table.rows <= most] or self.tables[:2]
            table = self.random.choice(some[-4:] if self.chance(60) else some)
        self.used.add(table.name)
        return source_of_table(alias, table)

    def source_of_query(self, alias, text, query):
        values = tuple(
            column._replace(
                text=Text(f"{alias}.c{number}", f"{alias}.c{number}", frozenset([alias])), distinct=max(1, min(column.distinct, query.rows))
            )
            for number, column in enumerate(query.columns, 1)
        )
        return Source(alias, text, values, tuple(value.text for value in values), query.rows)

    def join(self, left, depth, is_inner):
        """One more join, so that the rows stay few."""
        limit = BIG_JOIN_ROWS if self.has_big and not is_inner else JOIN_ROWS
        for attempt in range(4):
            kind = self.random.choices((INNER, LEFT, RIGHT, FULL, CROSS, CROSS_APPLY), (44, 20, 8, 9, 7, 5))[0]
            if kind == CROSS_APPLY and not is_inner and depth > 0 and self.sources_left > 0:
                return self.apply(left, depth)
            most = (None, 700, 100, 20)[attempt]
            right = self.source(depth if attempt == 0 else 0, most=most)
            if self.sources_left > 0 and self.chance(14) and kind not in (CROSS, CROSS_APPLY):
                right = self.join(right, 0, True)
            pairs = max(1, left.rows) * max(1, right.rows)
            if kind in (CROSS, CROSS_APPLY):
                if pairs <= limit // 5:
                    return Join(CROSS, left, right, None, pairs)
                kind = INNER
            condition, part = self.join_condition(left, right, kind, pairs)
            if condition is None:
                continue
            rows = max(pairs * part, left.rows if kind in (LEFT, FULL) else 0, right.rows if kind in (RIGHT, FULL) else 0)
            if rows <= limit:
                return Join(kind, left, right, condition, rows)
        return left

    def join_condition(self, left, right, kind, pairs):
        """A condition between both sides, and the part of the pairs that meet it, by guess; None where there is none that fits."""
        choices = [(one, other) for one in left.values for other in right.values if meet(one, other)]
        if not choices:
            return None, 1.0
        choices.sort(key=selective)
        one, other = self.random.choice(choices[:4] if self.chance(70) else choices)
        if self.chance(10) and pairs <= PAIRS and kind != FULL:
            operator, part = self.random.choice(("<", ">=", "<>", "<=")), 0.5
        else:
            operator, part = "=", 1.0 / max(one.distinct, other.distinct)
        condition = say(f"{{}} {operator} {{}}", one, other) if self.chance(50) else say(f"{{1}} {mirrored(operator)} {{0}}", one, other)
        if self.chance(22):
            one, other = self.random.choice(choices)
            condition = say(f"{{}} AND {{}} {self.operator()} {{}}", condition, one, other)
        if self.chance(18):
            condition = say("{} AND {}", condition, self.condition(Scope(left.values + right.values), 1))
        return condition, part

    def apply(self, left, depth):
        """CROSS APPLY and OUTER APPLY of a few rows, or of an aggregate."""
        alias, kind = self.alias(), self.random.choice((CROSS_APPLY, OUTER_APPLY))
        outer = left.values
        if self.chance(50):
            inner = self.from_tree(0, 1, is_inner=True)
            aggregate = self.aggregate(Scope(inner.values))
            where = self.correlation(inner, outer)
            query = Query(say("SELECT {} AS c1 FROM {} WHERE {}", aggregate, self.mark(inner), where), (aggregate,), 1)
        else:
            inner = self.from_tree(0, 1, is_inner=True)
            columns = self.random.sample(inner.values, min(2, len(inner.values)))
            where, count = self.correlation(inner, outer), self.random.randint(1, 3)
            items = self.items(columns)
            order = self.order_by_number(columns)
            text = say(
                f"SELECT TOP ({count}) {{}} FROM {{}} WHERE {{}} ORDER BY {{}}", items, self.mark(inner), where, order,
                duckdb=f"SELECT {{}} FROM {{}} WHERE {{}} ORDER BY {{}} LIMIT {count}",
            )
            query = Query(text, tuple(columns), count)
        source = self.source_of_query(alias, say(f"({{}}) AS {alias}", query.text), query)
        return Join(kind, left, source, None, left.rows * query.rows)

    def mark(self, tree):
        """What stands for a tree in FROM until the query is rendered."""
        self.froms.append(tree)
        return f"\x01{len(self.froms) - 1}\x02"

    # WHERE.

    def from_and_where(self, depth):
        """The tree, and FROM and WHERE as a text."""
        tree = self.from_tree(depth)
        scope = Scope(tree.values, (), depth)
        conditions = []
        if isinstance(tree, Join) and tree.kind == INNER and self.chance(15):
            # Conditions of joins in WHERE.
            conditions.append(tree.condition)
            tree = tree._replace(kind=CROSS, condition=None)
        if self.chance(58):
            conditions.append(self.condition(scope))
        where = say(" WHERE {}", join_texts(" AND ", [say("({})", one) for one in conditions])) if conditions else ""
        return tree, say("FROM {}{}", self.mark(tree), where)

    # SELECT of rows.

    def items(self, values):
        return join_texts(", ", [say(f"{{}} AS c{number}", value) for number, value in enumerate(values, 1)])

    def select_list(self, scope, want):
        if want:
            return [self.wanted(kind, digits, scale, scope) for kind, digits, scale in want]
        kinds = scope.kinds()
        return [self.value(self.random.choice(kinds if self.chance(95) else KINDS), scope) for _ in range(self.random.choice((1, 2, 2, 3, 4)))]

    def wanted(self, kind, digits, scale, scope):
        """A value that a decimal of so many digits can be united with."""
        value = self.value(kind, scope)
        return value if max(value.digits, digits) + max(value.scale, scale) <= DECIMAL_DIGITS else self.literal(kind)

    def rows(self, depth, want):
        tree, behind = self.from_and_where(depth)
        values = self.select_list(Scope(tree.values, (), depth), want)
        distinct = "DISTINCT " if self.chance(18) else ""
        return Query(say(f"SELECT {distinct}{{}} {{}}", self.items(values), behind), tuple(values), tree.rows)

    # Groups.

    def key(self, scope):
        """What rows are grouped by: a column, or an expression of one."""
        kind = self.random.choice(scope.kinds())
        column = self.random.choice(scope.of_kind(kind))
        if self.chance(60):
            return column
        if kind == INT and column.digits <= BIGINT_DIGITS:
            return Value(say("({} % {})", computable(column), str(self.random.choice((2, 3, 5)))), INT, column.digits)
        if kind in (DATE, TIME):
            return Value(say(self.random.choice(("YEAR({})", "MONTH({})")), column), INT, 4)
        if kind in TEXTS:
            return Value(say("SUBSTRING({}, 1, 1)", column), kind)
        instead = literal_text(kind, "1e0" if kind == FLOAT else "1")
        return column._replace(text=say("CASE WHEN {} IS NULL THEN {} ELSE {} END", column, instead, column))

    def aggregate(self, scope):
        """An aggregate of the rows; none of what is in it has a subquery or belongs to another query."""
        scope = Scope(scope.values)
        form, kinds = self.random.randrange(12), scope.kinds()
        distinct = "DISTINCT " if self.chance(15) else ""
        kind = self.random.choice(kinds)
        if form == 0:
            return Value(say("COUNT(*)"), INT, 7)
        if form <= 2:
            return Value(say(f"COUNT({distinct}{{}})", self.value(kind, scope, 1)), INT, 7)
        if form <= 5:
            value = self.value(kind, scope, 1)
            return value._replace(text=say(self.random.choice(("MIN({})", "MAX({})")), comparable(value)), distinct=9)
        numbers = [kind for kind in kinds if kind in (INT, DECIMAL, FLOAT)]
        if form == 11 and any(kind in TEXTS for kind in kinds):
            return self.string_agg(scope, self.random.choice([kind for kind in kinds if kind in TEXTS]))
        value = self.value(self.random.choice(numbers or [INT]), scope, 1)
        return self.average(value, distinct) if form >= 9 else as_bigint(self.sum(value, distinct))

    def string_agg(self, scope, kind):
        column = self.random.choice(scope.of_kind(kind))
        text = say(
            "STRING_AGG(CAST({} AS nvarchar(max)), ',') WITHIN GROUP (ORDER BY {})", column, column,
            duckdb="string_agg({}, ',' ORDER BY {} NULLS FIRST)",
        )
        return Value(text, kind, distinct=50)

    def sum(self, value, distinct=""):
        if value.kind == INT:
            if value.digits <= 12:
                text = say(f"SUM({distinct}CAST({{}} AS bigint))", value)
                return Value(text, INT, BIGINT_DIGITS, distinct=50)
            return Value(say(f"SUM({distinct}CAST({{}} AS decimal(38, 0)))", value), DECIMAL, DECIMAL_DIGITS, 0, distinct=50)
        if value.kind == DECIMAL:
            return value._replace(text=say(f"SUM({distinct}{{}})", value), digits=DECIMAL_DIGITS - value.scale, distinct=50)
        if not value.exact:
            return value._replace(text=say("MAX({})", comparable(value)), distinct=9)
        return value._replace(text=say(f"SUM({distinct}{{}})", value), distinct=50)

    def average(self, value, distinct=""):
        """AVG: of whole numbers it cuts off, of decimals it has six digits behind the point, which DuckDB computes from sum and count."""
        total, count = f"SUM({distinct}{{0}})", f"COUNT({distinct}{{0}})"
        if value.kind == INT and value.digits <= BIGINT_DIGITS:
            text = say(f"AVG({distinct}CAST({{}} AS bigint))", value, duckdb=f"CAST({total} // {count} AS bigint)")
            return Value(text, INT, value.digits, distinct=50)
        if value.kind == DECIMAL and value.scale <= 6 and value.digits <= 12:
            text = say(f"AVG({distinct}{{}})", value, duckdb=f"average_6({total}, {count})")
            return Value(text, DECIMAL, DECIMAL_DIGITS - 6, 6, distinct=50)
        if value.kind == FLOAT and value.exact:
            return Value(say(f"AVG({distinct}{{}})", value), FLOAT, exact=False, distinct=50)
        return value._replace(text=say("MIN({})", comparable(value)), distinct=9)

    def groups(self, depth, want):
        """GROUP BY of up to three keys, also ROLLUP, CUBE and GROUPING SETS, with HAVING; or aggregates of all rows."""
        tree, behind = self.from_and_where(depth)
        scope = Scope(tree.values)
        keys = []
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 2, 3))):
            key = self.key(scope)
            if key.text not in [other.text for other in keys]:
                keys.append(key)
        aggregates = [self.aggregate(scope) for _ in range(self.random.choice((1, 1, 2, 3)))]
        grouped, more = self.grouping(keys)
        inside = Scope(tuple(keys + aggregates + more))
        conditions = [self.condition(inside, 1)] if self.chance(25) else []
        if self.has_sets and not TOTALS_OF_NOTHING:
            conditions.append(say("COUNT(*) > 0"))
        having = say(" HAVING {}", join_texts(" AND ", [say("({})", one) for one in conditions])) if conditions else ""
        if want:
            values = [self.wanted(kind, digits, scale, inside) for kind, digits, scale in want]
        else:
            values = [value for value in keys if self.chance(90)] + aggregates + more
            if self.chance(20):
                values.append(self.value(self.random.choice(inside.kinds()), inside, 1))
            elif keys and not self.has_sets and self.chance(12):
                values.append(self.window_of_groups(keys, aggregates))
        distinct = "DISTINCT " if self.chance(5) else ""
        rows = 1
        for key in keys:
            rows *= key.distinct
        text = say(f"SELECT {distinct}{{}} {{}}{{}}{{}}", self.items(values), behind, grouped, having)
        return Query(text, tuple(values), min(rows, tree.rows) if keys else 1)

    def grouping(self, keys):
        """GROUP BY, and values that only it has."""
        self.has_sets = False
        if not keys:
            return "", []
        names, form = join_texts(", ", keys), self.random.randrange(100)
        self.has_sets = form >= 78
        if form < 78:
            return say(" GROUP BY {}", names), []
        more = [Value(say("GROUPING({})", key), INT, 1) for key in keys if self.chance(40)]
        if form < 88:
            return say(" GROUP BY ROLLUP ({})", names), more
        if form < 93:
            return say(" GROUP BY CUBE ({})", names), more
        sets = ["()"] * self.chance(40) + [say("({})", key) for key in keys] + [say("({})", names)] * (len(keys) > 1)
        return say(" GROUP BY GROUPING SETS ({})", join_texts(", ", sets)), more

    def window_of_groups(self, keys, aggregates):
        """A window over groups, whose order all keys together make total."""
        order = join_texts(", ", [descending(value, self.chance(40)) for value in keys])
        numbers = [value for value in aggregates if value.kind == INT and value.digits <= 12]
        if numbers and self.chance(50):
            return as_bigint(Value(say("SUM(CAST({} AS bigint)) OVER (ORDER BY {})", numbers[0], order), INT, BIGINT_DIGITS))
        return Value(say("ROW_NUMBER() OVER (ORDER BY {})", order), INT, 6)

    # Windows.

    def windows(self, depth, want):
        tree, behind = self.from_and_where(depth)
        scope = Scope(tree.values, (), depth)
        values = self.select_list(scope, want)
        if not want:
            # Which of two equal rows comes first may be another one in another window.
            most = self.random.choice((1, 1, 2)) if all(source.is_unique for source in tree.sources()) else 1
            values = values[:3] + [self.window(tree, Scope(tree.values)) for _ in range(most)]
        return Query(say("SELECT {} {}", self.items(values), behind), tuple(values), tree.rows)

    def window(self, tree, scope):
        """A window function; its order is total where the answer depends on that."""
        parts = self.random.sample(scope.values, min(self.random.choice((0, 1, 1, 2)), len(scope.values)))
        partition = say("PARTITION BY {} ", join_texts(", ", parts)) if parts else ""
        keys = list(tree.key)
        self.random.shuffle(keys)
        total = join_texts(", ", [descending(key, self.chance(40)) for key in keys])
        loose = descending(self.random.choice(scope.values), self.chance(40))
        over, value = say("OVER ({}ORDER BY {})", partition, total), self.value(self.random.choice(scope.kinds()), scope, 1)
        form = self.random.randrange(9)
        if form <= 1:
            return Value(say("ROW_NUMBER() {}", over), INT, 6, distinct=100)
        if form == 2:
            return Value(say(f"{self.random.choice(('RANK', 'DENSE_RANK'))}() OVER ({{}}ORDER BY {{}})", partition, loose), INT, 6, distinct=50)
        if form == 3:
            return Value(say(f"NTILE({self.random.randint(1, 5)}) {{}}", over), INT, 2)
        if form in (4, 5):
            function, step = self.random.choice(("LAG", "LEAD")), self.random.randint(1, 3)
            return value._replace(text=say(f"{function}({{}}, {step}) {{}}", value, over))
        frame = self.frame()
        if form == 6:
            function = self.random.choice(("FIRST_VALUE", "LAST_VALUE"))
            return value._replace(text=say(f"{function}({{}}) OVER ({{}}ORDER BY {{}}{frame})", value, partition, total))
        aggregated = self.windowed(value)
        if self.chance(25):
            return as_bigint(aggregated._replace(text=say("{} OVER ({})", aggregated, partition)))
        if self.chance(25):
            # Rows that are equal in the order are in one another's frame.
            return as_bigint(aggregated._replace(text=say("{} OVER ({}ORDER BY {})", aggregated, partition, loose)))
        return as_bigint(aggregated._replace(text=say(f"{{}} OVER ({{}}ORDER BY {{}}{frame})", aggregated, partition, total)))

    def windowed(self, value):
        """An aggregate that a window may have."""
        form = self.random.randrange(5)
        if form == 0:
            return Value(say("COUNT(*)"), INT, 7, distinct=50)
        if form == 1:
            return Value(say("COUNT({})", value), INT, 7, distinct=50)
        if form == 2 or value.kind not in (INT, DECIMAL, FLOAT):
            return value._replace(text=say(self.random.choice(("MIN({})", "MAX({})")), comparable(value)))
        return self.sum(value)

    def frame(self):
        start = self.random.choice(("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW"))
        end = self.random.choice(("CURRENT ROW", "1 FOLLOWING", "3 FOLLOWING", "UNBOUNDED FOLLOWING"))
        return self.random.choice(("", f" ROWS BETWEEN {start} AND {end}", f" ROWS BETWEEN {start} AND {end}"))

    # TOP, sets.

    def order_by_number(self, columns):
        """All columns of the select list, so that only equal rows have no order."""
        numbers = list(range(1, len(columns) + 1))
        self.random.shuffle(numbers)
        return join_texts(", ", [descending(f"c{number}", self.chance(40)) for number in numbers])

    def top(self, depth):
        """TOP, or OFFSET and FETCH, of a total order."""
        query = self.block(depth)
        order, count = self.order_by_number(query.columns), self.random.choice((0, 1, 2, 5, 10, 40))
        if self.chance(25):
            skipped = self.random.choice((0, 1, 3, 10))
            text = say(
                f"{{}} ORDER BY {{}} OFFSET {skipped} ROWS FETCH NEXT {max(count, 1)} ROWS ONLY", query.text, order,
                duckdb=f"{{}} ORDER BY {{}} LIMIT {max(count, 1)} OFFSET {skipped}",
            )
        else:
            inside = say("SELECT * FROM ({}) AS q", query.text) if self.chance(30) else query.text
            head = "SELECT DISTINCT " if inside.tsql.startswith("SELECT DISTINCT ") else "SELECT "
            ordered = say(f"{{}} ORDER BY {{}}", inside, order, duckdb=f"{{}} ORDER BY {{}} LIMIT {count}")
            text = ordered._replace(tsql=f"{head}TOP ({count}) " + ordered.tsql[len(head):])
        return Query(text, query.columns, min(query.rows, count))

    def set_operation(self, depth):
        """UNION, UNION ALL, EXCEPT and INTERSECT of two or three queries."""
        query = self.block(depth)
        for _ in range(self.random.choice((1, 1, 2))):
            want = [(column.kind, column.digits, column.scale) for column in query.columns]
            other = self.block(max(0, depth - 1), want=want)
            operator = self.random.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
            columns = tuple(
                Value(
                    text_of(""), one.kind, max(one.digits, two.digits), max(one.scale, two.scale), one.exact and two.exact,
                    one.narrow or two.narrow, one.distinct + two.distinct,
                )
                for one, two in zip(query.columns, other.columns)
            )
            query = Query(say(f"{{}} {operator} {{}}", query.text, other.text), columns, query.rows + other.rows)
        return query

    # Subqueries.

    def correlation(self, tree, outer):
        """A condition between a subquery's tables and the query around it."""
        pairs = [(one, other) for one in tree.values for other in outer if meet(one, other)]
        if not pairs:
            return say("1 = 1")
        pairs.sort(key=selective)
        one, other = self.random.choice(pairs[:5] if self.chance(70) else pairs)
        operator = "=" if self.chance(88) or tree.rows > 300 else self.operator()
        condition = say(f"{{}} {operator} {{}}", one, other)
        if self.chance(30):
            condition = say("{} AND {}", condition, self.condition(Scope(tree.values, tuple(outer)), 1))
        return condition

    def subquery_tree(self):
        """FROM of a subquery: one or two tables, none of them the big one."""
        return self.from_tree(0, self.random.choice((1, 1, 2)), is_inner=True)

    def subquery_where(self, tree, scope, of_hundred):
        """WHERE of a subquery that is correlated so often."""
        conditions = []
        if self.chance(of_hundred):
            conditions.append(self.correlation(tree, scope.values))
        if self.chance(50) or not conditions:
            conditions.append(self.condition(Scope(tree.values, (), scope.depth - 1), 1))
        return join_texts(" AND ", [say("({})", one) for one in conditions])

    def scalar_subquery(self, kind, scope):
        if self.sources_left < 1:
            return None
        tree = self.subquery_tree()
        inside = Scope(tree.values)
        if kind in inside.kinds() and self.chance(60):
            value = self.value(kind, inside, 1)
            aggregate = value._replace(text=say(self.random.choice(("MIN({})", "MAX({})")), comparable(value)))
        elif kind == INT:
            aggregate = self.aggregate(inside)
        else:
            return None
        if aggregate.kind != kind:
            return None
        where = self.subquery_where(tree, scope, 70)
        return aggregate._replace(text=say("(SELECT {} FROM {} WHERE {})", aggregate, self.mark(tree), where))

    def subquery_condition(self, scope):
        """EXISTS, IN, ANY, ALL and their negations; another condition where the query is long enough."""
        if self.sources_left < 1:
            return self.plain_condition(scope)
        tree = self.subquery_tree()
        form, negated = self.random.randrange(10), "NOT " if self.chance(45) else ""
        if form < 5:
            text = say("SELECT 1 FROM {} WHERE {}", self.mark(tree), self.subquery_where(tree, scope, 90))
            return say(f"{negated}EXISTS ({{}})", text)
        kinds = [kind for kind in scope.kinds() if kind in Scope(tree.values).kinds()]
        kind = self.random.choice(kinds or [INT])
        one, other = self.column(kind, scope), self.column(kind, Scope(tree.values))
        if not other.text.refs or not fits(one, other):
            return self.plain_condition(scope)
        where = self.subquery_where(tree, scope, 35)
        if self.chance(12) and form < 9:
            group = say("SELECT {} FROM {} WHERE {} GROUP BY {} HAVING COUNT(*) > 1", other, self.mark(tree), where, other)
            return say(f"{{}} {negated}IN ({{}})", one, group)
        inner = say("SELECT {} FROM {} WHERE {}", other, self.mark(tree), where)
        if form < 9:
            return say(f"{{}} {negated}IN ({{}})", one, inner)
        return say(f"{{}} {self.operator()} {self.random.choice(('ANY', 'ALL'))} ({{}})", one, inner)


def as_bigint(value):
    """A sum of bigints, which in DuckDB has 38 digits, so that decimals beside it would lose places."""
    return value._replace(text=say("{}", value, duckdb="CAST({} AS bigint)")) if value.kind == INT else value


def meet(one, other):
    """Whether two columns can be compared, and mean the same in both engines then."""
    return one.kind == other.kind and fits(one, other)


def selective(pair):
    """Pairs of columns that both have many values come first: they meet, and not in all rows."""
    return -min(pair[0].distinct, pair[1].distinct), -max(pair[0].distinct, pair[1].distinct)


def mirrored(operator):
    return {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
