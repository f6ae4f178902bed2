"""Forty ordinary queries on DuckDB, hobt and ClickHouse, in pairs: what people run all day.

One table of facts and one of a dimension. All engines make the same rows by the same formulas. Every query gives few rows, so that
no side's time is that of sending them, and the answers are compared.
"""

from decimal import Decimal, InvalidOperation

from clickhouse import MERGE_TREE, rows_of_clickhouse
from engine_set import create_database, loaded_engines
from engines import EngineError, rows_of_csv
from measure import measure_pairs, summarize

# Rows of the facts unless --rows says else.
ROWS = 10_000_000
DATABASE = "operators"
# Different values: of the facts' key to the dimension, of the short text, of the long one.
KEYS, CITIES, WORDS = 1_000, 300, 1_000_000
# Rows of the dimension: a tenth of its keys is that of facts.
DIMENSION = 10 * KEYS
# How far sums of floats may be from each other, as a part of themselves.
APPROXIMATE = Decimal("0.000000001")

_COLUMNS = """
    id bigint NOT NULL, k int NOT NULL, u int NOT NULL, city varchar(30) NOT NULL, word varchar(30) NOT NULL,
    d date NOT NULL, amount decimal(12, 2) NOT NULL, price {float} NOT NULL, digits varchar(12) NOT NULL, note varchar(60) NULL
"""

# Multipliers that have no divisor in common with what is divided by: values come in no order, and equally often.
_VALUES = {
    "k": "CAST({n} * 48271 % {keys} AS int)",
    "u": "CAST({n} * 7919 % {prime} AS int)",
    "city": "CONCAT('City of ', {n} * 7919 % {cities})",
    "word": "CONCAT('w', {n} * 104729 % {words}, 'x')",
    "amount": "CAST(CAST({n} * 1299709 % 1000000 AS decimal(12, 2)) / 100 AS decimal(12, 2))",
    "price": "CAST({n} * 15485863 % 100000 AS {float}) / 7",
    "digits": "CAST({n} * 32452843 % 10000000 AS varchar(12))",
    "note": "CASE WHEN {n} % 50 = 0 THEN NULL WHEN {n} % 97 = 3 THEN CONCAT('a note with a needle in it ', {n} % 1013) "
            "ELSE CONCAT('a note without it, number ', {n} % 1013) END",
}
# A prime above any number of rows that is asked for here, so that every u is another one.
_PRIME = 2_147_483_647


def values(n, day, float_type):
    """The columns of the row whose number is `n`, as a list of expressions."""
    given = {"n": n, "keys": KEYS, "cities": CITIES, "words": WORDS, "prime": _PRIME, "float": float_type}
    filled = {name: text.format(**given) for name, text in _VALUES.items()}
    return ", ".join([n, filled["k"], filled["u"], filled["city"], filled["word"], day] + [
        filled[name] for name in ("amount", "price", "digits", "note")
    ])


class Operator:
    """One query: its name, and how each engine says it: DuckDB as hobt, and ClickHouse as DuckDB, unless told otherwise."""

    def __init__(self, name, tsql, duckdb=None, clickhouse=None):
        self.name = name
        self.tsql = tsql
        self.duckdb = duckdb or tsql
        self.clickhouse = clickhouse or self.duckdb


def queries():
    """The forty."""
    top3 = "SELECT COUNT(*), SUM(CAST(u AS bigint)) FROM (SELECT u, ROW_NUMBER() OVER (PARTITION BY k ORDER BY u DESC) AS place FROM S) AS r"
    return [
        Operator("count", "SELECT COUNT(*) FROM S"),
        Operator("sum_max_min", "SELECT SUM(CAST(k AS bigint)), MAX(u), MIN(amount) FROM S"),
        Operator("range", "SELECT COUNT(*), MAX(id) FROM S WHERE u BETWEEN 500000000 AND 700000000"),
        Operator("date_range", "SELECT COUNT(*), SUM(amount) FROM S WHERE d >= '2018-01-01' AND d < '2018-04-01'"),
        Operator("equal", "SELECT COUNT(*), MAX(u) FROM S WHERE k = 77"),
        Operator("in_list", "SELECT COUNT(*), MAX(u) FROM S WHERE k IN (3, 77, 123, 200, 451, 612, 801, 999)"),
        Operator("text_equal", "SELECT COUNT(*), MAX(u) FROM S WHERE city = 'City of 42'"),
        Operator("like_prefix", "SELECT COUNT(*), MAX(u) FROM S WHERE word LIKE 'w123%'"),
        Operator("like_infix", "SELECT COUNT(*), MAX(u) FROM S WHERE note LIKE '%needle%'"),
        Operator("group_int", "SELECT k, COUNT(*), SUM(amount) FROM S GROUP BY k ORDER BY k"),
        Operator("group_int_all", "SELECT COUNT(*), MAX(n) FROM (SELECT u, COUNT(*) AS n FROM S GROUP BY u) AS g"),
        Operator("group_text", "SELECT city, COUNT(*), SUM(amount) FROM S GROUP BY city ORDER BY city"),
        Operator("group_text_many", "SELECT COUNT(*), MAX(n) FROM (SELECT word, COUNT(*) AS n FROM S GROUP BY word) AS g"),
        Operator("group_two", "SELECT COUNT(*), MAX(n) FROM (SELECT k, city, COUNT(*) AS n FROM S GROUP BY k, city) AS g"),
        Operator("group_month", "SELECT YEAR(d), MONTH(d), SUM(amount) FROM S GROUP BY YEAR(d), MONTH(d) ORDER BY 1, 2"),
        Operator(
            "group_substring",
            "SELECT SUBSTRING(word, 1, 3), COUNT(*) FROM S GROUP BY SUBSTRING(word, 1, 3) ORDER BY 1",
        ),
        Operator("distinct_int", "SELECT COUNT(DISTINCT u) FROM S"),
        Operator("distinct_text", "SELECT COUNT(DISTINCT word) FROM S"),
        Operator("top_int", "SELECT TOP 10 u, id FROM S ORDER BY u DESC", "SELECT u, id FROM S ORDER BY u DESC LIMIT 10"),
        Operator("top_text", "SELECT TOP 10 word, id FROM S ORDER BY word, id", "SELECT word, id FROM S ORDER BY word, id LIMIT 10"),
        Operator(
            "row_number_int",
            "SELECT COUNT(*), SUM(CAST(u AS bigint)) FROM (SELECT u, ROW_NUMBER() OVER (ORDER BY u) AS place FROM S) AS r WHERE place % 1000 = 1",
        ),
        Operator(
            "row_number_text",
            "SELECT COUNT(*), SUM(id) FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY city ORDER BY word, id) AS place FROM S) AS r "
            "WHERE place % 1000 = 1",
        ),
        Operator(
            "running_sum", "SELECT MAX(total), COUNT(*) FROM (SELECT SUM(amount) OVER (PARTITION BY k ORDER BY id) AS total FROM S) AS r"
        ),
        Operator(
            "lag", "SELECT SUM(CAST(step AS bigint)) FROM (SELECT u - LAG(u) OVER (PARTITION BY k ORDER BY id) AS step FROM S) AS r",
            # The first of a partition has a NULL before it, where ClickHouse has 0 unless the type has NULLs.
            clickhouse="SELECT SUM(step) FROM (SELECT u - lag(toNullable(u)) OVER (PARTITION BY k ORDER BY id) AS step FROM S) AS r",
        ),
        Operator("top_3_of_each", f"{top3} WHERE place <= 3"),
        Operator("join_selective", "SELECT COUNT(*), SUM(S.amount) FROM S JOIN D ON S.k = D.k WHERE D.grp = 7"),
        Operator("join_all", "SELECT D.grp, COUNT(*), SUM(S.amount) FROM S JOIN D ON S.k = D.k GROUP BY D.grp ORDER BY D.grp"),
        Operator("join_text", "SELECT COUNT(*), SUM(S.amount) FROM S JOIN D ON S.city = D.city"),
        Operator("semi", "SELECT COUNT(*), MAX(u) FROM S WHERE EXISTS (SELECT 1 FROM D WHERE D.k = S.k AND D.grp < 50)"),
        Operator("anti", "SELECT COUNT(*), MAX(u) FROM S WHERE NOT EXISTS (SELECT 1 FROM D WHERE D.k = S.k AND D.grp < 50)"),
        Operator(
            "case_sums",
            "SELECT SUM(CASE WHEN k < 100 THEN amount ELSE 0 END), SUM(CASE WHEN k >= 500 THEN 1 ELSE 0 END), "
            "SUM(CASE WHEN d < '2019-01-01' THEN amount ELSE -amount END) FROM S",
        ),
        Operator("upper_replace", "SELECT MAX(UPPER(word)), SUM(LEN(REPLACE(note, 'it', 'them'))) FROM S"),
        Operator("to_text", "SELECT MAX(CAST(u AS varchar(12))), MAX(LEN(CAST(amount AS varchar(20)))) FROM S"),
        Operator("from_text", "SELECT SUM(CAST(CAST(digits AS int) AS bigint)) FROM S"),
        Operator(
            "decimal_float",
            "SELECT SUM(amount * 2 + k), AVG(price * 1.5 / (k + 1)) FROM S",
        ),
        Operator(
            "datediff", "SELECT SUM(CAST(DATEDIFF(day, d, '2025-12-31') AS bigint)), MAX(DATEDIFF(month, d, '2025-12-31')) FROM S",
            "SELECT sum(date_diff('day', d, DATE '2025-12-31')), max(date_diff('month', d, DATE '2025-12-31')) FROM S",
        ),
        Operator(
            "union", "SELECT COUNT(*) FROM (SELECT k FROM S UNION SELECT k FROM D) AS b",
            clickhouse="SELECT COUNT(*) FROM (SELECT k FROM S UNION DISTINCT SELECT k FROM D) AS b",
        ),
        Operator(
            "except", "SELECT COUNT(*) FROM (SELECT word FROM S WHERE k < 500 EXCEPT SELECT word FROM S WHERE k >= 990) AS b",
            clickhouse="SELECT COUNT(*) FROM (SELECT word FROM S WHERE k < 500 EXCEPT DISTINCT SELECT word FROM S WHERE k >= 990) AS b",
        ),
        Operator(
            "rollup", "SELECT COUNT(*), SUM(n) FROM (SELECT city, k % 10 AS rest, COUNT(*) AS n FROM S GROUP BY ROLLUP (city, k % 10)) AS g"
        ),
        Operator(
            "string_agg",
            "SELECT MAX(LEN(all_words)) FROM (SELECT k, STRING_AGG(CAST(word AS varchar(max)), ',') AS all_words FROM S GROUP BY k) AS g",
            "SELECT MAX(LEN(all_words)) FROM (SELECT k, string_agg(word, ',') AS all_words FROM S GROUP BY k) AS g",
        ),
    ]


def load_duckdb(duckdb, rows):
    duckdb.run(f"CREATE TABLE S ({_COLUMNS.format(float='double')})")
    day = "DATE '2015-01-01' + CAST(range * 31337 % 3650 AS int)"
    duckdb.run(f"INSERT INTO S SELECT {values('range', day, 'double')} FROM range(1, {rows + 1})")
    duckdb.run("CREATE TABLE D (k int NOT NULL, grp int NOT NULL, city varchar(30) NOT NULL)")
    duckdb.run(f"INSERT INTO D SELECT range, range % 100, CONCAT('City of ', range) FROM range({DIMENSION})")
    # As hobt has them: LEN.
    duckdb.run("CREATE MACRO LEN(t) AS length(rtrim(t))")
    duckdb.run("CHECKPOINT")


def load_clickhouse(clickhouse, rows):
    clickhouse.run(f"CREATE TABLE S ({_COLUMNS.format(float='double')}) {MERGE_TREE}")
    day = "CAST('2015-01-01' AS date) + CAST(number * 31337 % 3650 AS int)"
    clickhouse.run(f"INSERT INTO S SELECT {values('number', day, 'double')} FROM numbers(1, {rows})")
    clickhouse.run(f"CREATE TABLE D (k int NOT NULL, grp int NOT NULL, city varchar(30) NOT NULL) {MERGE_TREE}")
    clickhouse.run(f"INSERT INTO D SELECT number, number % 100, CONCAT('City of ', number) FROM numbers({DIMENSION})")
    # As hobt has them: LEN.
    clickhouse.run("CREATE OR REPLACE FUNCTION LEN AS (t) -> char_length(trimRight(t))")


def load_hobt(hobt, rows):
    hobt.run(f"CREATE TABLE S ({_COLUMNS.format(float='float')})")
    day = "DATEADD(day, CAST(value * 31337 % 3650 AS int), CAST('2015-01-01' AS date))"
    series = f"GENERATE_SERIES(CAST(1 AS bigint), CAST({rows} AS bigint))"
    hobt.run(f"INSERT S WITH (TABLOCK) SELECT {values('value', day, 'float')} FROM {series}")
    hobt.run("CREATE TABLE D (k int NOT NULL, grp int NOT NULL, city varchar(30) NOT NULL)")
    hobt.run(f"INSERT D SELECT value, value % 100, CONCAT('City of ', value) FROM GENERATE_SERIES(0, {DIMENSION - 1})")
    hobt.run("CHECKPOINT")


def is_same(theirs, ours):
    """Whether a value of DuckDB's and another engine's text of it are the same: as text, or as numbers that are near each other."""
    if theirs is None:
        return ours == ""
    if str(theirs) == ours:
        return True
    try:
        theirs, ours = Decimal(str(theirs)), Decimal(ours)
    except InvalidOperation:
        return False
    return abs(theirs - ours) <= APPROXIMATE * abs(theirs)


def rows_of_hobt(printed, columns):
    """The rows that hobt printed as CSV, behind the line of the columns' names."""
    # A line of a single column may be a message's, or blank.
    return [row for row in rows_of_csv(printed, columns) if row != [""]][1:]


def check_answers(name, theirs, engine, ours):
    """Raises EngineError unless DuckDB and the engine of that name have the same rows in the same order."""
    if len(ours) != len(theirs):
        raise EngineError(f"{name}: DuckDB has {len(theirs)} rows, {engine} {len(ours)}: {theirs[:3]}, {ours[:3]}")
    for number, (their_row, our_row) in enumerate(zip(theirs, ours), 1):
        if len(our_row) != len(their_row) or not all(map(is_same, their_row, our_row)):
            raise EngineError(f"{name}, row {number}: the engines disagree\n  DuckDB {their_row}\n  {engine:<6} {our_row}")


def measure_one(engines, query, options):
    """The times of one query."""
    duckdb, hobt, clickhouse = engines
    in_hobt = f"{query.tsql} OPTION (MAXDOP {options.threads})"

    def check_hobt(theirs, printed):
        check_answers(query.name, theirs, hobt.name, rows_of_hobt(printed, len(theirs[0])))

    def check_clickhouse(theirs, printed):
        check_answers(query.name, theirs, clickhouse.name, rows_of_clickhouse(printed))

    return measure_pairs(
        query.name, lambda: duckdb.run(query.duckdb), lambda: hobt.run(in_hobt), options.operator_pairs, check_hobt,
        clickhouse and (lambda: clickhouse.run(query.clickhouse), check_clickhouse),
    )


def measure_all(engines, options):
    """The times of each query."""
    measures = []
    for query in queries():
        measure = measure_one(engines, query, options)
        print(measure.line(), flush=True)
        measures.append(measure)
    return measures


def run(options, folder):
    """The comparison in `folder`; the report's entries."""
    rows = options.rows or ROWS
    print(f"operators: {rows:,} facts, {options.threads} threads on both sides", flush=True)

    def load_peers(duckdb, clickhouse):
        load_duckdb(duckdb, rows)
        if clickhouse:
            load_clickhouse(clickhouse, rows)
        return {"S": rows, "D": DIMENSION}

    with loaded_engines(
        options, folder / "operators", DATABASE, lambda instance: create_database(options, instance, DATABASE), load_peers,
        lambda hobt: load_hobt(hobt, rows),
    ) as engines:
        measures = measure_all(engines, options)
        versions = engines.versions()
    return {
        **summarize("operators", measures),
        "operators_versions": versions,
        "operators_settings": {"rows": rows, "threads": options.threads, "pairs": options.operator_pairs},
    }
