"""Values and conditions in both dialects, drawn at random.

A value knows what decides whether an operation on it means one thing in T-SQL and in DuckDB: its kind, how many digits it may have, whether
sums of it are exact. What means two things is not drawn: arithmetic that may overflow, sums of floats that are no eighths, text of two
collations, decimals whose common type has more than 38 digits.
"""

from typing import NamedTuple

# What can be compared: whole numbers, decimals, floats, dates, points in time, text of a binary collation, and text of the default
# collation, of which only digits and lower-case letters are stored, so that both engines order it alike.
INT, DECIMAL, FLOAT, DATE, TIME, BINARY, LOWER = KINDS = ("int", "decimal", "float", "date", "time", "binary", "lower")
TEXTS = (BINARY, LOWER)
NUMBERS = (INT, DECIMAL, FLOAT)
COLLATION = "Latin1_General_BIN2"
# The digits that every int, bigint and decimal can have.
INT_DIGITS, BIGINT_DIGITS, DECIMAL_DIGITS = 9, 18, 38

LITERALS = {
    INT: ("0", "1", "2", "3", "5", "7", "9", "12", "40", "(-1)", "(-3)"),
    DECIMAL: ("0.00", "1.00", "1.50", "7.25", "(-3.25)", "2.00", "(-0.50)"),
    FLOAT: ("0e0", "1e0", "0.125e0", "2.5e0", "(-2.125e0)", "7e0"),
    DATE: ("2020-01-01", "2020-01-31", "2020-02-29", "1999-12-31", "2024-02-29", "2019-07-04"),
    TIME: ("2020-01-01T00:00:00", "2020-01-01T12:30:00.5", "1999-12-31T23:59:59.997", "2020-02-29T06:00:00"),
    BINARY: ("", "a", "A", "ab", "aB", "Ab", "b", "_x", "zz", "Z", "10", "9"),
    LOWER: ("", "a", "ab", "abc", "b", "ba", "z", "10", "9"),
}
# The ends of int and bigint; values next to them.
ENDS = ("(-2147483648)", "2147483647", "2147483646", "(-9223372036854775807)", "9223372036854775807")
LETTERS = {BINARY: ("a", "b", "B", "A", "1", "x"), LOWER: ("a", "b", "c", "1", "z")}


class Text(NamedTuple):
    """A piece of SQL in both dialects, and the sources that it names."""

    tsql: str
    duckdb: str
    refs: frozenset = frozenset()


def text_of(part):
    """The text of a value, of a text, and of what is written alike in both dialects."""
    if isinstance(part, Text):
        return part
    return Text(str(part), str(part)) if isinstance(part, (str, int)) else part.text


def say(template, *parts, duckdb=None):
    """The template with the parts in it; `duckdb` is DuckDB's template where it is another one."""
    parts = [text_of(part) for part in parts]
    refs = frozenset().union(*(part.refs for part in parts))
    tsql = template.format(*(part.tsql for part in parts))
    return Text(tsql, (duckdb or template).format(*(part.duckdb for part in parts)), refs)


def join_texts(separator, parts):
    """The parts with a separator between."""
    return say(separator.join("{}" for _ in parts), *parts)


class Value(NamedTuple):
    """An expression of a kind."""

    text: Text
    kind: str
    # Digits before the point that it may have, and behind it.
    digits: int = 1
    scale: int = 0
    # Whether sums of it are exact in floats.
    exact: bool = True
    # Whether its type is narrower than int, so that arithmetic has to widen it first.
    narrow: bool = False
    # How many different values it may have: a guess.
    distinct: int = 6


class Scope(NamedTuple):
    """What an expression may name: columns, columns of outer queries, and how deep subqueries may still be in it."""

    values: tuple
    outer: tuple = ()
    depth: int = 0

    def of_kind(self, kind):
        return [value for value in self.values if value.kind == kind]

    def kinds(self):
        return [kind for kind in KINDS if self.of_kind(kind)]


def literal_text(kind, literal):
    """A constant; text of the binary collation has it, because nothing beside it may say so."""
    if kind in (DATE, TIME):
        types = ("date", "date") if kind == DATE else ("datetime2(3)", "timestamp")
        return Text(*(f"CAST('{literal}' AS {name})" for name in types))
    if kind == BINARY:
        return Text(f"'{literal}' COLLATE {COLLATION}", f"'{literal}'")
    return text_of(f"'{literal}'" if kind == LOWER else literal)


def fits(one, other):
    """Whether the common type of two numbers has all digits of both."""
    return max(one.digits, other.digits) + max(one.scale, other.scale) <= DECIMAL_DIGITS


def merged(text, kind, values):
    """A value that is one of the values."""
    return Value(
        text, kind, max(value.digits for value in values), max(value.scale for value in values),
        all(value.exact for value in values), any(value.narrow for value in values), sum(value.distinct for value in values),
    )


def computable(value):
    """An int as arithmetic may take it."""
    if value.digits > INT_DIGITS:
        return say("CAST({} AS bigint)", value)
    return say("CAST({} AS int)", value) if value.narrow else value.text


def comparable(value):
    """A value as MIN and MAX may take it, which refuse bits."""
    return computable(value) if value.narrow else value.text


class Expressions:
    """Draws values and conditions. Subqueries are drawn by who inherits this."""

    def __init__(self, random):
        self.random = random

    def chance(self, of_hundred):
        return self.random.random() * 100 < of_hundred

    def literal(self, kind):
        literal = self.random.choice(LITERALS[kind])
        digits, scale = (2, 2 if kind == DECIMAL else 0) if kind in NUMBERS else (1, 0)
        return Value(literal_text(kind, literal), kind, digits, scale, distinct=1)

    def column(self, kind, scope):
        """A column of the kind; a constant where there is none."""
        outer = [value for value in scope.outer if value.kind == kind]
        if outer and self.chance(12):
            return self.random.choice(outer)
        columns = scope.of_kind(kind)
        return self.random.choice(columns) if columns else self.literal(kind)

    def value(self, kind, scope, depth=2):
        """An expression of the kind."""
        if depth == 0 or self.chance(55):
            return self.column(kind, scope) if self.chance(92) else self.literal(kind)
        if scope.depth > 0 and self.chance(8):
            found = self.scalar_subquery(kind, scope)
            if found:
                return found
        if self.chance(30):
            return self.choice(kind, scope, depth - 1)
        return getattr(self, f"{kind}_value")(scope, depth - 1)

    def scalar_subquery(self, kind, scope):
        raise NotImplementedError

    def subquery_condition(self, scope):
        raise NotImplementedError

    def choice(self, kind, scope, depth):
        """CASE, IIF, COALESCE or NULLIF."""
        one, other = self.value(kind, scope, depth), self.value(kind, scope, depth)
        if not fits(one, other):
            return one
        form = self.random.randrange(6)
        if form == 0:
            return merged(say("COALESCE({}, {})", one, other), kind, (one, other))
        if form == 1 and one.text.refs:
            return one._replace(text=say("NULLIF({}, {})", one, other))
        if form == 2:
            condition = self.condition(scope._replace(depth=0), 1)
            text = say("IIF({}, {}, {})", condition, one, other, duckdb="CASE WHEN {} THEN {} ELSE {} END")
            return merged(text, kind, (one, other))
        if form == 3:
            chosen = self.column(INT, scope)
            return merged(say("CASE {} WHEN {} THEN {} ELSE {} END", chosen, self.literal(INT), one, other), kind, (one, other))
        if form == 4:
            return one._replace(text=say("CASE WHEN {} THEN {} END", self.condition(scope, 1), one))
        return merged(say("CASE WHEN {} THEN {} ELSE {} END", self.condition(scope, 1), one, other), kind, (one, other))

    def int_value(self, scope, depth):
        form = self.random.randrange(9)
        if form >= 5:
            return self.int_of_another_kind(scope, depth)
        one, other = self.value(INT, scope, depth), self.value(INT, scope, depth)
        if form == 4:
            if one.digits > BIGINT_DIGITS:
                return one
            return one._replace(text=say(self.random.choice(("ABS({})", "SIGN({})")), computable(one)), narrow=False)
        template, digits = (
            ("({} + {})", max(one.digits, other.digits) + 1), ("({} - {})", max(one.digits, other.digits) + 1),
            ("({} * {})", one.digits + other.digits), (None, max(one.digits, other.digits)),
        )[form]
        if digits > BIGINT_DIGITS:
            return one
        wide = digits > INT_DIGITS
        operands = [say("CAST({} AS bigint)", value) if wide else computable(value) for value in (one, other)]
        if template:
            text = say(template, *operands)
        elif self.chance(50):
            text = say("({} / NULLIF({}, 0))", *operands, duckdb="({} // NULLIF({}, 0))")
        else:
            text = say("({} % NULLIF({}, 0))", *operands)
        return Value(text, INT, digits, distinct=min(one.distinct * other.distinct, 1000))

    def int_of_another_kind(self, scope, depth):
        """A length, a place, a part of a date, a number of days."""
        texts = [kind for kind in TEXTS if scope.of_kind(kind)]
        if texts and self.chance(50):
            kind = self.random.choice(texts)
            text = self.value(kind, scope, depth)
            if self.chance(50):
                return Value(say("LEN({})", text, duckdb="length({})"), INT, 4)
            letter = self.random.choice(LETTERS[kind])
            return Value(say(f"CHARINDEX('{letter}', {{}})", text, duckdb=f"strpos({{}}, '{letter}')"), INT, 4)
        kind = DATE if scope.of_kind(DATE) or self.chance(50) else TIME
        date = self.value(kind, scope, depth)
        form = self.random.randrange(5)
        if form < 3:
            return Value(say(("YEAR({})", "MONTH({})", "DAY({})")[form], date), INT, 4)
        if kind == TIME:
            return Value(say("DATEPART(hour, {})", date, duckdb="hour({})"), INT, 2)
        unit = ("day", "month")[form - 3]
        other = self.value(DATE, scope, depth)
        return Value(say(f"DATEDIFF({unit}, {{}}, {{}})", date, other, duckdb=f"date_diff('{unit}', {{}}, {{}})"), INT, 7)

    def decimal_value(self, scope, depth):
        form = self.random.randrange(7)
        one = self.value(DECIMAL, scope, depth)
        if form == 0:
            number = self.value(INT, scope, depth)
            if number.digits > INT_DIGITS:
                return one
            return Value(say("CAST({} AS decimal(12, 2))", number), DECIMAL, 10, 2, distinct=number.distinct)
        if one.digits + one.scale > 30:
            return one
        if form == 1:
            return one._replace(text=say("ABS({})", one))
        if form == 2:
            return Value(say(self.random.choice(("FLOOR({})", "CEILING({})")), one), DECIMAL, one.digits + 1, 0)
        if form == 3:
            # DuckDB's has only the digits that are left.
            rounded = f"CAST(ROUND({{}}, 1) AS decimal({one.digits + 1 + one.scale}, {one.scale}))"
            return one._replace(text=say("ROUND({}, 1)", one, duckdb=rounded), digits=one.digits + 1)
        other = self.value(self.random.choice((DECIMAL, DECIMAL, INT)), scope, depth)
        # T-SQL takes an int for a decimal(10, 0), a bigint for a decimal(19, 0).
        digits = other.digits if other.kind == DECIMAL else 10 if other.digits <= INT_DIGITS else 19
        if form == 4:
            precision, scale = one.digits + one.scale + digits + other.scale + 1, one.scale + other.scale
            text = say("({} * {})", one, other)
        else:
            scale = max(one.scale, other.scale)
            precision = max(one.digits, digits) + scale + 1
            text = say(("({} + {})", "({} - {})")[form - 5], one, other)
        return Value(text, DECIMAL, precision - scale, scale) if precision <= DECIMAL_DIGITS else one

    def float_value(self, scope, depth):
        form = self.random.randrange(6)
        one = self.value(FLOAT, scope, depth)
        if form == 0:
            number = self.value(INT, scope, depth)
            text = say("CAST({} AS float)", number, duckdb="CAST({} AS double)")
            return Value(text, FLOAT, number.digits, exact=number.digits <= 6, distinct=number.distinct)
        if form == 1:
            return one._replace(text=say("ABS({})", one))
        other = self.value(FLOAT, scope, depth)
        if form == 2:
            return Value(say("({} * {})", one, other), FLOAT, exact=False)
        if form == 3:
            return Value(say("({} / NULLIF({}, 0e0))", one, other), FLOAT, exact=False)
        return Value(say(("({} + {})", "({} - {})")[form - 4], one, other), FLOAT, exact=one.exact and other.exact)

    def date_value(self, scope, depth):
        form = self.random.randrange(4)
        if form == 0 and scope.of_kind(TIME):
            return Value(say("CAST({} AS date)", self.value(TIME, scope, depth)), DATE)
        date = self.value(DATE, scope, depth)
        if form == 1:
            return Value(say("EOMONTH({})", date, duckdb="last_day({})"), DATE)
        number = self.value(INT, scope, 0)
        if number.digits > 4 or self.chance(30):
            number = self.literal(INT)
        if form == 2:
            text = say("DATEADD(month, {}, {})", number, date, duckdb="CAST({1} + to_months(CAST({0} AS int)) AS date)")
        else:
            text = say("DATEADD(day, {}, {})", number, date, duckdb="({1} + CAST({0} AS int))")
        return Value(text, DATE, distinct=20)

    def time_value(self, scope, depth):
        time, number = self.value(TIME, scope, depth), self.literal(INT)
        return Value(say("DATEADD(hour, {}, {})", number, time, duckdb="({1} + to_hours({0}))"), TIME)

    def binary_value(self, scope, depth):
        return self.text_value(BINARY, scope, depth)

    def lower_value(self, scope, depth):
        return self.text_value(LOWER, scope, depth)

    def text_value(self, kind, scope, depth):
        one, other = self.value(kind, scope, depth), self.value(kind, scope, depth)
        form, length, letter = self.random.randrange(6), self.random.randrange(4), self.random.choice(LETTERS[kind])
        if form == 0:
            return Value(say(f"SUBSTRING({{}}, {1 + length % 2}, {length})", one), kind)
        if form == 1:
            return Value(say(f"{self.random.choice(('LEFT', 'RIGHT'))}({{}}, {length})", one), kind)
        if form == 2:
            return Value(say("CONCAT({}, {})", one, other), kind, distinct=20)
        if form == 3:
            return Value(say("({} + {})", one, other, duckdb="({} || {})"), kind, distinct=20)
        if form == 4:
            return Value(say(f"REPLACE({{}}, '{letter}', '{self.random.choice(('', 'b', 'xy'))}')", one), kind)
        return Value(say("REVERSE({})", one), kind)

    # Conditions.

    def condition(self, scope, depth=2):
        """A condition, as a text."""
        if depth > 0 and self.chance(35):
            one, other = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            form = self.random.randrange(5)
            if form == 4:
                return say("NOT ({})", one)
            return say("({} AND {})" if form == 0 else "({} OR {})", one, other)
        if scope.depth > 0 and self.chance(28):
            return self.subquery_condition(scope)
        return self.plain_condition(scope)

    def plain_condition(self, scope):
        """One without AND, OR, NOT and subqueries."""
        kinds = scope.kinds()
        kind = self.random.choice(kinds) if kinds else INT
        one = self.value(kind, scope, 1) if self.chance(30) else self.column(kind, scope)
        form = self.random.randrange(12)
        negated = "NOT " if self.chance(30) else ""
        if form == 0:
            return say(f"{{}} IS {negated}NULL", one)
        if form == 1:
            return say(f"{{}} {negated}BETWEEN {{}} AND {{}}", one, self.bound(kind, scope, one), self.bound(kind, scope, one))
        if form in (2, 3):
            some = [self.constant(kind, one) for _ in range(self.random.randint(1, 5))]
            if self.chance(8):
                some.append("NULL")
            return say(f"{{}} {negated}IN ({{}})", one, join_texts(", ", some))
        if form in (4, 5) and kind in TEXTS:
            return say(f"{{}} {negated}LIKE '{self.pattern(kind)}'", one)
        other = self.bound(kind, scope, one)
        if kind == INT and self.chance(15):
            number = self.column(self.random.choice((DECIMAL, FLOAT)), scope)
            other = number if fits(one, number) else other
        if form == 6 and self.chance(50):
            return say(f"{{}} IS {negated}DISTINCT FROM {{}}", one, other)
        operator = self.operator()
        if operator == "=" and not text_of(other).refs and self.chance(50):
            operator = "<>"
        return say(f"{{}} {operator} {{}}", one, other)

    def operator(self):
        return self.random.choice(("=", "=", "<>", "<", "<=", ">", ">="))

    def bound(self, kind, scope, beside):
        """What a value is compared with: a constant most often."""
        if self.chance(55):
            return self.constant(kind, beside)
        other = self.value(kind, scope, 1)
        return other if fits(beside, other) else self.constant(kind, beside)

    def constant(self, kind, beside):
        """A constant beside something of its kind; whole numbers are their type's ends at times."""
        if kind == INT and self.chance(6):
            return self.random.choice(ENDS)
        if kind == INT and beside.distinct > 50 and self.chance(80):
            return str(self.random.randrange(int(beside.distinct)))
        if kind == DECIMAL and beside.digits + 2 > DECIMAL_DIGITS:
            # Its common type with a constant that has places behind the point would lose them.
            return self.random.choice(("0", "1", "7", "(-3)"))
        literal = self.random.choice(LITERALS[kind])
        return f"'{literal}'" if kind in TEXTS else literal_text(kind, literal)

    def pattern(self, kind):
        letters = "".join(self.random.choice(LETTERS[kind]) for _ in range(self.random.randint(1, 2)))
        return self.random.choice((f"{letters}%", f"{letters}%", f"%{letters}%", f"%{letters}", f"{letters[0]}_%", letters))
