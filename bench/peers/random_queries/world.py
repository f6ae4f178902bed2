"""The tables that a group of seeds shares, with the same rows in both engines.

Six tables have from no rows to some thousand, and the seventh, the same in every world, so many that all workers read it. In hobt each is a heap,
a clustered or a partitioned table, with or without a primary key and further indexes. Values are few, so that they match; some are NULL.
"""

from typing import NamedTuple

from .expression import BINARY, COLLATION, DATE, DECIMAL, FLOAT, INT, LITERALS, LOWER, TIME, literal_text

# Making the tables costs as much as some queries.
SEEDS_OF_A_WORLD = 250
BIG_ROWS = 200_000
# Rows of one INSERT with VALUES.
ROWS_AT_ONCE = 300
SCHEME = "keys"


class Column(NamedTuple):
    """A column: its types in both engines, and what is true of its values, as in `expression.Value`."""

    name: str
    kind: str
    tsql: str
    duckdb: str
    digits: int = 1
    scale: int = 0
    narrow: bool = False


class Table(NamedTuple):
    """A table: its columns, how many rows it has, and the statements that make it, for hobt and for DuckDB."""

    name: str
    columns: tuple
    rows: int
    # How many different values the column k has.
    keys: int
    tsql: list
    duckdb: list


def columns_of(random):
    """The columns of a table. All have `id`, which is unique, and `k`; others are left out at times."""
    wide = random.choice(((18, 4), (28, 6), (5, 0)))
    narrow = random.choice(("smallint", "tinyint", "int"))
    unicode = random.choice(("varchar(20)", "nvarchar(20)"))
    binary = random.choice(("varchar(20)", "nvarchar(20)"))
    others = [
        Column("g", INT, narrow, "smallint" if narrow == "tinyint" else narrow, 2, narrow=narrow != "int"),
        Column("i", INT, "int", "int", 10),
        Column("b", INT, "bigint", "bigint", 19),
        Column("d", DECIMAL, "decimal(9, 2)", "decimal(9, 2)", 7, 2),
        Column("e", DECIMAL, "decimal({}, {})".format(*wide), "decimal({}, {})".format(*wide), wide[0] - wide[1], wide[1]),
        Column("f", FLOAT, "float", "double", 6),
        Column("t", DATE, "date", "date"),
        Column("m", TIME, "datetime2(3)", "timestamp"),
        Column("s", BINARY, f"{binary} COLLATE {COLLATION}", "varchar"),
        Column("u", LOWER, unicode, "varchar"),
        Column("w", INT, "bit", "smallint", 1, narrow=True),
    ]
    kept = [column for column in others if random.random() < 0.75]
    return (Column("id", INT, "int", "int", 6), Column("k", INT, "int", "int", 6), *kept)


def literal_of(random, column, number, keys):
    """A value of a column in the row with a number, in both dialects."""
    name, tsql = column.name, column.tsql
    if name == "id":
        return str(number), str(number)
    if name == "k":
        return (str(random.randrange(keys)),) * 2
    if name == "w":
        return (str(random.randrange(2)),) * 2
    if name == "i":
        return (random.choice(("-2147483648", "-2147483647", "-1", "0", "1", "7", "2147483646", "2147483647")),) * 2
    if name == "b":
        return (random.choice(("-9223372036854775807", "-4294967296", "-1", "0", "2", "5", "4294967296", "9223372036854775807")),) * 2
    if name == "g":
        return (str(random.randint(0 if tsql == "tinyint" else -3, 6)),) * 2
    if name == "d":
        return (random.choice(("0.00", "1.00", "1.50", "-3.25", "7.25", "2.00", "-0.50", "9999999.99", "-9999999.99")),) * 2
    if name == "e":
        some = ("0", "1", "7", "-3", "2", "99999") if column.scale == 0 else ("0", "1.5", "-3.25", "7.25", "0.0001", "-12345.6789", "2")
        return (random.choice(some),) * 2
    if name == "f":
        return (f"{random.randint(-40, 40) / 8}e0",) * 2
    literal = random.choice(LITERALS[column.kind])
    if column.kind == DATE and random.random() < 0.001:
        literal = random.choice(("0001-01-01", "9999-12-31"))
    if column.kind == BINARY and tsql.startswith("n") and random.random() < 0.1:
        literal = random.choice("éΩ")
        return f"N'{literal}'", f"'{literal}'"
    text = literal_text(column.kind, literal)
    return text.tsql.removesuffix(f" COLLATE {COLLATION}"), text.duckdb


def nullable_of(random, columns):
    """The names of the columns that may be NULL."""
    return {column.name for column in columns if column.name != "id" and random.random() < 0.75}


def definition(name, columns, nullable, of_hobt, behind=""):
    columns = (f"{c.name} {c.tsql if of_hobt else c.duckdb}{'' if c.name in nullable else ' NOT'} NULL" for c in columns)
    return f"CREATE TABLE {name} ({', '.join(columns)}){behind}"


def shape(random, name, columns):
    """Where the rows of a table lie in hobt: what stands behind its definition, and the indexes made after it."""
    after, form = [], random.randrange(6)
    names = [column.name for column in columns]
    behind = f" ON {SCHEME} (k)" if form == 5 else ""
    if form == 1:
        after.append(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
    if form == 2:
        after.append(f"CREATE CLUSTERED INDEX c ON {name} ({random.choice(names[1:])}, id)")
    if form == 3:
        after.append(f"CREATE UNIQUE CLUSTERED INDEX c ON {name} (k, id)")
    if form == 4:
        after.append(f"ALTER TABLE {name} ADD PRIMARY KEY NONCLUSTERED (id)")
    for number in range(random.choice((0, 0, 1, 2))):
        key = random.sample(names, random.randint(1, 2))
        rest = [column for column in names if column not in key]
        included = f" INCLUDE ({random.choice(rest)})" if rest and random.random() < 0.4 else ""
        after.append(f"CREATE INDEX x{number} ON {name} ({', '.join(key)}){included}")
    return behind, after


def small_table(random, name, rows):
    """A table of rows that are drawn one by one."""
    columns, keys = columns_of(random), max(3, rows // random.choice((1, 2, 4)))
    nullable = nullable_of(random, columns)
    nulls = random.choice((0.03, 0.15, 0.4))
    literals = [
        [("NULL", "NULL") if c.name in nullable and random.random() < nulls else literal_of(random, c, number + 1, keys) for c in columns]
        for number in range(rows)
    ]
    behind, after = shape(random, name, columns)
    scripts = []
    for of_hobt in (True, False):
        script = [definition(name, columns, nullable, of_hobt, behind if of_hobt else "")]
        lines = ["(" + ", ".join(literal[not of_hobt] for literal in row) + ")" for row in literals]
        for first in range(0, rows, ROWS_AT_ONCE):
            script.append(f"INSERT INTO {name} VALUES " + ",\n".join(lines[first:first + ROWS_AT_ONCE]))
        scripts.append(script)
    return Table(name, columns, rows, keys, scripts[0] + after, scripts[1])


def formula(random, column, keys):
    """A column of a table that is made from the numbers of its rows, in both dialects; `n` is the number."""
    step = random.choice((7, 31, 101, 7919, 104729))
    if column.kind not in (INT, DECIMAL) and random.random() < 0.6:
        some = [literal_text(column.kind, literal) for literal in LITERALS[column.kind]]
        return tuple(
            f"CASE n * {step} % {len(some)} " + " ".join(f"WHEN {at} THEN {text[of]}" for at, text in enumerate(some)) + " END" for of in (0, 1)
        )
    whole = {"id": "n", "k": f"n * {step} % {keys}", "g": f"n * {step} % 7", "w": f"n / 3 % 2", "i": f"n * {step} % 100003 - 5000"}
    if column.name in whole:
        text = f"CAST({whole[column.name]} AS int)"
        return text, text.replace(" / ", " // ")
    if column.name == "b":
        return (f"n * {step} % 1000 * 1000000007",) * 2
    if column.kind == DECIMAL and column.scale == 0:
        return (f"CAST(n * {step} % 2001 - 1000 AS {column.tsql})",) * 2
    if column.kind == DECIMAL:
        return (f"CAST(CAST(n * {step} % 2001 - 1000 AS decimal(9, 0)) * 0.25 AS {'decimal(9, 2)' if column.name == 'd' else column.tsql})",) * 2
    if column.kind == FLOAT:
        return f"CAST(n * {step} % 801 - 400 AS float) / 8", f"CAST(n * {step} % 801 - 400 AS double) / 8"
    if column.kind == DATE:
        return (
            f"DATEADD(day, CAST(n * {step} % 900 AS int), CAST('2019-06-01' AS date))",
            f"CAST('2019-06-01' AS date) + CAST(n * {step} % 900 AS int)",
        )
    if column.kind == TIME:
        return (
            f"DATEADD(hour, CAST(n * {step} % 9000 AS int), CAST('2019-06-01' AS datetime2(3)))",
            f"CAST('2019-06-01' AS timestamp) + to_hours(CAST(n * {step} % 9000 AS int))",
        )
    letters = "aAbBcXz_19" if column.kind == BINARY else "aabbcxz019"
    return (f"CONCAT(SUBSTRING('{letters}', CAST(1 + n * {step} % 10 AS int), 1), n * {step} % 37)",) * 2


def made_table(random, name, rows, keys, all_columns=None):
    """A table whose rows follow from their numbers."""
    columns = all_columns or columns_of(random)
    nullable = nullable_of(random, columns)
    formulas = []
    for column in columns:
        tsql, duckdb = formula(random, column, keys)
        if column.name in nullable:
            every = random.choice((5, 13, 101))
            tsql, duckdb = (f"CASE WHEN n % {every} <> 0 THEN {text} END" for text in (tsql, duckdb))
        formulas.append((tsql, duckdb))
    behind, after = shape(random, name, columns)
    tsql, duckdb = (", ".join(texts) for texts in zip(*formulas))
    # Rows in an order that is no column's.
    numbers = f"(SELECT value AS n FROM GENERATE_SERIES(CAST(1 AS bigint), CAST({rows} AS bigint))) AS numbers"
    return Table(
        name, columns, rows, keys,
        [definition(name, columns, nullable, True, behind), f"INSERT {name} WITH (TABLOCK) SELECT {tsql} FROM {numbers}", *after],
        [definition(name, columns, nullable, False), f"INSERT INTO {name} SELECT {duckdb} FROM (SELECT range AS n FROM range(1, {rows + 1}))"],
    )


def tables_of(random):
    """The tables of a world, smallest first, but for the big one."""
    sizes = (random.choice((0, 0, 1, 3)), random.randint(5, 14), random.randint(30, 70), random.randint(120, 300), random.randint(400, 600))
    small = [small_table(random, f"t{number}", rows) for number, rows in enumerate(sizes)]
    rows = random.randint(2_000, 6_000)
    return (*small, made_table(random, "t5", rows, random.choice((rows, rows // 3))))


def big_table(random):
    """The table that all worlds have."""
    return made_table(random, "big", BIG_ROWS, 50_000)
