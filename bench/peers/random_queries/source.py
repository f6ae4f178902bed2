"""What stands in FROM: sources, joins of them, and other orders of the same joins."""

from typing import NamedTuple

from .expression import DATE, INT, Text, Value, join_texts, say

INNER, LEFT, RIGHT, FULL, CROSS = "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"
CROSS_APPLY, OUTER_APPLY = "CROSS APPLY", "OUTER APPLY"
MIRRORED = {LEFT: RIGHT, RIGHT: LEFT, FULL: FULL}
APPLIES_ON_DUCKDB = {CROSS_APPLY: "CROSS JOIN LATERAL", OUTER_APPLY: "LEFT JOIN LATERAL"}


class Source(NamedTuple):
    """A table or a query with an alias."""

    alias: str
    text: Text
    values: tuple
    # Columns that tell its rows apart, as far as they differ.
    key: tuple
    # A guess.
    rows: float
    # Whether no two of its rows have the same key.
    is_unique: bool = False

    def sources(self):
        return [self]

    def render(self):
        return self.text

    def turned(self, _random):
        return self


class Join(NamedTuple):
    """A join; its condition is None for a cross join and for APPLY."""

    kind: str
    left: "Source | Join"
    right: "Source | Join"
    condition: Text | None
    rows: float

    def sources(self):
        return self.left.sources() + self.right.sources()

    @property
    def values(self):
        return self.left.values + self.right.values

    @property
    def key(self):
        return self.left.key + self.right.key

    def render(self):
        right = self.right.render()
        if isinstance(self.right, Join):
            right = say("({})", right)
        if self.kind in APPLIES_ON_DUCKDB:
            on_duckdb = f"{{}} {APPLIES_ON_DUCKDB[self.kind]} {{}}{' ON TRUE' if self.kind == OUTER_APPLY else ''}"
            return say(f"{{}} {self.kind} {{}}", self.left.render(), right, duckdb=on_duckdb)
        if self.condition is None:
            return say("{} CROSS JOIN {}", self.left.render(), right)
        return say(f"{{}} {self.kind} {{}} ON {{}}", self.left.render(), right, self.condition)

    def turned(self, random):
        """Joins of the same rows in another order: the sides of outer joins exchanged, inner joins of the same sources in any order."""
        if self.kind in APPLIES_ON_DUCKDB:
            return self._replace(left=self.left.turned(random))
        if self.kind in MIRRORED:
            left, right = self.left.turned(random), self.right.turned(random)
            if random.random() < 0.5:
                return self._replace(left=left, right=right)
            return self._replace(kind=MIRRORED[self.kind], left=right, right=left)
        sides, conditions = [], []
        collect_inner(self, sides, conditions)
        sides = [side.turned(random) for side in sides]
        return joined(shuffled(sides, conditions, random), conditions)


def collect_inner(node, sides, conditions):
    """The sides and conditions of inner and cross joins that are one another's."""
    if isinstance(node, Join) and node.kind in (INNER, CROSS):
        collect_inner(node.left, sides, conditions)
        collect_inner(node.right, sides, conditions)
        if node.condition:
            conditions.append(node.condition)
    else:
        sides.append(node)


def aliases_of(sides):
    return {source.alias for side in sides for source in side.sources()}


def shuffled(sides, conditions, random):
    """The sides in another order, in which a condition joins each to those before it as far as possible: else all pairs of rows are made."""
    all_aliases, waiting = aliases_of(sides), list(sides)
    order = [waiting.pop(random.randrange(len(waiting)))]
    while waiting:
        seen = aliases_of(order)
        near = [
            side for side in waiting
            if any(
                condition.refs & all_aliases <= seen | aliases_of([side]) and condition.refs & seen and condition.refs & aliases_of([side])
                for condition in conditions
            )
        ]
        order.append(random.choice(near or waiting))
        waiting = [side for side in waiting if side is not order[-1]]
    return order


def joined(sides, conditions):
    """Inner joins of the sides in their order, each condition at the first join that has all its sources."""
    aliases = aliases_of(sides)
    left, waiting = sides[0], list(conditions)
    seen = {source.alias for source in left.sources()}
    for side in sides[1:]:
        seen |= {source.alias for source in side.sources()}
        ready = [condition for condition in waiting if condition.refs & aliases <= seen]
        waiting = [condition for condition in waiting if condition not in ready]
        condition = join_texts(" AND ", [say("({})", one) for one in ready]) if ready else None
        left = Join(INNER if ready else CROSS, left, side, condition, left.rows)
    return left


def source_of_table(alias, table):
    """A source that is a table of the world."""
    values = tuple(
        Value(
            Text(f"{alias}.{c.name}", f"{alias}.{c.name}", frozenset([alias])), c.kind, c.digits, c.scale, narrow=c.narrow,
            distinct=distinct_of(c, table),
        )
        for c in table.columns
    )
    return Source(alias, say(f"{table.name} AS {alias}"), values, (values[0].text,), table.rows, True)


def distinct_of(column, table):
    if column.name in ("id", "k"):
        return max(1, table.rows if column.name == "id" else table.keys)
    return 2 if column.name == "w" else 6 if column.kind in (INT, DATE) else 9
