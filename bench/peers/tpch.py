"""The 22 queries of TPC-H on DuckDB, hobt and ClickHouse, in pairs.

hobt generates the rows into heaps and hands them to the others as CSV, so all have the same. The queries are those of tests/tpch,
translated for DuckDB by bench/tpch_answers.py and from there for ClickHouse here, and the answers are compared by the rules of
tests/tpch/README.md.
"""

import csv
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

from clickhouse import MERGE_TREE, rows_of_clickhouse
from engine_set import loaded_engines
from engines import DATABASE, EngineError, make_fixtures, rows_of_csv
from measure import measure_pairs, summarize

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tpch_answers import QUERIES, TESTS, query_for_duckdb, schema_for_duckdb, statements  # noqa: E402

# How far results of a division may be from each other, as numbers and as a part of themselves.
APPROXIMATE = (Decimal("0.00001"), Decimal("0.000001"))
# What ClickHouse needs said otherwise, by the number of the query, so that it gives the same answers.
CLICKHOUSE_CHANGES = {
    # Numbers with a point are floats, and 0.06 + 0.01 is less than 0.07.
    6: ("0.06 - 0.01 AND 0.06 + 0.01", "CAST('0.05' AS decimal(15, 2)) AND CAST('0.07' AS decimal(15, 2))"),
    # A decimal divided by a decimal has no more digits behind its point than the first.
    8: ("/ SUM(volume)", "/ CAST(SUM(volume) AS double)"),
    # A sum of no rows is 0.
    17: ("SELECT SUM(l_extendedprice) /", "SELECT sumOrNull(l_extendedprice) /"),
}


def table_columns(create):
    """The name of a table and its columns, each with its type, of a statement of tests/tpch/schema.sql."""
    name = re.search(r"CREATE TABLE dbo\.(\w+)", create).group(1)
    return name, re.findall(r"^\s*(\w+)\s+(\w+(?:\([\d, ]+\))?)(?: NOT)? NULL", create, re.MULTILINE)


def export_table(binary, folder, name, columns, path, timeout_s):
    """Writes one of hobt's tables to a file as CSV."""
    # Texts of a fixed length are padded here and not there.
    select = ", ".join(f"RTRIM({column}) AS {column}" if kind.startswith("char") else column for column, kind in columns)
    command = [
        str(binary), "sql", "--data", str(folder), "-Q", f"SET NOCOUNT ON; SELECT {select} FROM {DATABASE}.dbo.{name}",
        "--format", "csv",
    ]
    with open(path, "wb") as file:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.PIPE, timeout=timeout_s, check=False
        )
    if result.returncode != 0:
        raise EngineError(f"exporting {name} failed ({result.returncode}): {result.stderr.decode(errors='replace')}")


def load_peers(duckdb, clickhouse, options, hobt_folder, folder):
    """Makes hobt's tables in DuckDB and, unless it is None, in ClickHouse; gives their rows by name."""
    schema = (TESTS / "schema.sql").read_text()
    for create in schema_for_duckdb(schema):
        duckdb.run(create)
        if clickhouse:
            clickhouse.run(f"{create} {MERGE_TREE}")
    rows = {}
    for create in statements(schema):
        name, columns = table_columns(create)
        path = folder / f"{name}.csv"
        export_table(options.hobt, hobt_folder, name, columns, path, options.timeout)
        source = str(path).replace("'", "''")
        duckdb.run(f"COPY {name} FROM '{source}' (FORMAT csv, HEADER, DELIMITER ',', QUOTE '\"', ESCAPE '\"')")
        if clickhouse:
            clickhouse.load_csv(name, path)
        path.unlink()
        rows[name] = duckdb.count(name)
    duckdb.run("CHECKPOINT")
    return rows


def rules():
    """Of each query its columns in their order, and how each is compared."""
    found = {}
    with open(TESTS / "answers" / "columns.csv", newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["query"], []).append(row["compare"])
    return found


def is_same(rule, theirs, ours):
    """Whether a value of DuckDB's and another engine's text of it are the same by a rule."""
    if theirs is None:
        return ours == ""
    if rule == "text":
        return str(theirs).rstrip() == ours.rstrip()
    if rule in ("integer", "date"):
        return str(theirs) == ours
    theirs, ours = Decimal(str(theirs)), Decimal(ours)
    if rule == "exact":
        return theirs == ours
    return abs(theirs - ours) <= max(APPROXIMATE[0], APPROXIMATE[1] * abs(theirs))


def rows_printed(printed, columns):
    """The rows that hobt printed as CSV, behind the line of the columns' names."""
    # A blank line stands before that, and is a row of one column that is NULL behind it.
    lines = printed.lstrip("\r\n")
    if columns == 1:
        lines = "\n".join(line or '""' for line in lines.splitlines())
    return rows_of_csv(lines, columns)[1:]


def check_answers(name, columns, theirs, engine, ours):
    """Raises EngineError unless DuckDB and the engine of that name have the same rows in the same order."""
    if len(ours) != len(theirs):
        raise EngineError(f"{name}: DuckDB has {len(theirs)} rows, {engine} {len(ours)}")
    for number, (their_row, our_row) in enumerate(zip(theirs, ours), 1):
        if len(our_row) != len(columns) or not all(map(is_same, columns, their_row, our_row)):
            raise EngineError(f"{name}, row {number}: the engines disagree\n  DuckDB {their_row}\n  {engine:<6} {our_row}")


def script(number):
    """The text of one query of tests/tpch."""
    return (TESTS / f"q{number:02}.sql").read_text()


def query_for_hobt(text, scale):
    """One query, with Q11's fraction for the scale factor."""
    (query,) = statements(text)
    fraction = f"{0.0001 / scale:.10f}".rstrip("0")
    return query.replace("* 0.0010", f"* {fraction}")


def query_for_clickhouse(number, text, scale):
    """One query: as DuckDB says it, but for what CLICKHOUSE_CHANGES has for it."""
    query = query_for_duckdb(text, scale)
    before, after = CLICKHOUSE_CHANGES.get(number, ("", ""))
    if before not in query:
        raise EngineError(f"q{number:02} has no {before}, which ClickHouse needs said otherwise")
    return query.replace(before, after) if before else query


def measure_one(engines, number, options):
    """The times of one query."""
    duckdb, hobt, clickhouse = engines
    name, text = f"q{number:02}", script(number)
    columns = rules()[name]
    in_duckdb = query_for_duckdb(text, options.scale)
    in_hobt = f"{query_for_hobt(text, options.scale)}\nOPTION (MAXDOP {options.threads})"
    in_clickhouse = query_for_clickhouse(number, text, options.scale)

    def check_hobt(theirs, printed):
        check_answers(name, columns, theirs, hobt.name, rows_printed(printed, len(columns)))

    def check_clickhouse(theirs, printed):
        check_answers(name, columns, theirs, clickhouse.name, rows_of_clickhouse(printed))

    return measure_pairs(
        name, lambda: duckdb.run(in_duckdb), lambda: hobt.run(in_hobt), options.tpch_pairs, check_hobt,
        clickhouse and (lambda: clickhouse.run(in_clickhouse), check_clickhouse),
    )


def measure_all(engines, options):
    """The times of each query."""
    measures = []
    for number in QUERIES:
        measure = measure_one(engines, number, options)
        print(measure.line(), flush=True)
        measures.append(measure)
    return measures


def run(options, folder):
    """The comparison in `folder`; the report's entries."""
    folder = folder / "tpch"
    print(f"TPC-H: scale factor {options.scale:g}, {options.threads} threads on both sides", flush=True)
    rows = {}

    def load(duckdb, clickhouse):
        rows.update(load_peers(duckdb, clickhouse, options, folder / "hobt", folder))
        return rows

    with loaded_engines(
        options, folder, DATABASE, lambda instance: make_fixtures(options.hobt, instance, options.timeout, "--tpch", str(options.scale)),
        load, lambda hobt: None,
    ) as engines:
        measures = measure_all(engines, options)
        versions = engines.versions()
    return {
        **summarize("tpch", measures),
        "tpch_versions": versions,
        "tpch_settings": {"scale": options.scale, "rows": rows, "threads": options.threads, "pairs": options.tpch_pairs},
    }
