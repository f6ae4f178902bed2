"""The 22 queries of TPC-H on DuckDB and on hobt, in pairs.

hobt generates the rows into heaps and hands them to DuckDB as CSV, so both have the same. The queries are those of tests/tpch,
translated for DuckDB by bench/tpch_answers.py, and the answers are compared by the rules of tests/tpch/README.md.
"""

import csv
import re
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

from engines import DATABASE, DuckDB, EngineError, HobtProcess, make_fixtures, rows_of_csv
from measure import geometric_mean, measure_pairs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tpch_answers import QUERIES, TESTS, query_for_duckdb, schema_for_duckdb, statements  # noqa: E402

# How far results of a division may be from each other, as numbers and as a part of themselves.
APPROXIMATE = (Decimal("0.00001"), Decimal("0.000001"))


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


def load_duckdb(duckdb, options, hobt_folder, folder):
    """Makes hobt's tables in DuckDB; gives their rows by name."""
    schema = (TESTS / "schema.sql").read_text()
    for create in schema_for_duckdb(schema):
        duckdb.run(create)
    rows = {}
    for create in statements(schema):
        name, columns = table_columns(create)
        path = folder / f"{name}.csv"
        export_table(options.hobt, hobt_folder, name, columns, path, options.timeout)
        source = str(path).replace("'", "''")
        duckdb.run(f"COPY {name} FROM '{source}' (FORMAT csv, HEADER, DELIMITER ',', QUOTE '\"', ESCAPE '\"')")
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
    """Whether a value of DuckDB's and hobt's text of it are the same by a rule."""
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


def check_answers(name, columns, theirs, printed):
    """Raises EngineError unless both have the same rows in the same order."""
    ours = rows_printed(printed, len(columns))
    if len(ours) != len(theirs):
        raise EngineError(f"{name}: DuckDB has {len(theirs)} rows, hobt {len(ours)}")
    for number, (their_row, our_row) in enumerate(zip(theirs, ours), 1):
        if not all(map(is_same, columns, their_row, our_row)):
            raise EngineError(f"{name}, row {number}: the engines disagree\n  DuckDB {their_row}\n  hobt   {our_row}")


def query_for_hobt(script, scale):
    """One query, with Q11's fraction for the scale factor."""
    (query,) = statements(script)
    fraction = f"{0.0001 / scale:.10f}".rstrip("0")
    return query.replace("* 0.0010", f"* {fraction}")


def measure_all(duckdb, hobt, options):
    """The times of each query."""
    measures = []
    for number in QUERIES:
        name, script = f"q{number:02}", (TESTS / f"q{number:02}.sql").read_text()
        columns = rules()[name]
        in_duckdb = query_for_duckdb(script, options.scale)
        in_hobt = f"{query_for_hobt(script, options.scale)}\nOPTION (MAXDOP {options.threads})"
        measure = measure_pairs(
            name, lambda: duckdb.run(in_duckdb), lambda: hobt.run(in_hobt), options.tpch_pairs,
            lambda theirs, ours: check_answers(name, columns, theirs, ours),
        )
        print(measure.line(), flush=True)
        measures.append(measure)
    return measures


def run(options, folder):
    """The comparison in `folder`; the report's entries."""
    folder = folder / "tpch"
    folder.mkdir()
    print(f"TPC-H: scale factor {options.scale:g}, {options.threads} threads on both sides", flush=True)
    hobt_folder = folder / "hobt"
    make_fixtures(options.hobt, hobt_folder, options.timeout, "--tpch", str(options.scale))
    duckdb = DuckDB(folder / "duckdb.db", options.threads)
    hobt = None
    try:
        rows = load_duckdb(duckdb, options, hobt_folder, folder)
        hobt = HobtProcess(options.hobt, hobt_folder, options.threads, options.hobt_arg, options.timeout)
        for name, count in rows.items():
            if hobt.count(name) != count:
                raise EngineError(f"DuckDB has {count} rows of {name}, hobt {hobt.count(name)}")
        hobt.run("SET NOCOUNT ON")
        measures = measure_all(duckdb, hobt, options)
        versions = {"duckdb": duckdb.version(), "hobt": hobt.version()}
    finally:
        if hobt:
            hobt.close()
        duckdb.close()
        shutil.rmtree(folder, ignore_errors=True)
    ratio = geometric_mean([measure.ratio() for measure in measures])
    slowest = max(measures, key=lambda measure: measure.ratio())
    print(f"tpch         geometric mean of 22 ratios {ratio:.3f}, the greatest {slowest.ratio():.3f} of {slowest.name}")
    return {
        "tpch_geomean_ratio": ratio,
        "tpch_worst_ratio": slowest.ratio(),
        "tpch": {measure.name: measure.report() for measure in measures},
        "tpch_versions": versions,
        "tpch_settings": {"scale": options.scale, "rows": rows, "threads": options.threads, "pairs": options.tpch_pairs},
    }
