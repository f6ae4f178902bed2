#!/usr/bin/env python3
"""Computes the stored answers of tests/tpch with DuckDB.

Reads the eight `.tbl` files that a TPC-H generator wrote (`|` between fields and at the end of a line), runs
q01.sql to q22.sql, translated from T-SQL by the few rules below, and writes answers/q01.csv to q22.csv and
answers/columns.csv, which says how each column is to be compared. Needs `pip install duckdb`.

    python3 bench/tpch_answers.py --tables DIR [--out DIR] [--scale-factor 0.1]
"""

import argparse
import csv
import datetime
import re
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests" / "tpch"
QUERIES = range(1, 23)


def statements(script):
    """The batches of a T-SQL script, without comments."""
    text = re.sub(r"--[^\n]*", "", script)
    return [batch.strip() for batch in re.split(r"(?im)^\s*GO\s*$", text) if batch.strip()]


def schema_for_duckdb(script):
    """CREATE TABLE statements: DuckDB takes them as they are but for the schema's name and char(n)."""
    for batch in statements(script):
        yield re.sub(r"\bchar\(", "varchar(", batch.replace("dbo.", ""), flags=re.IGNORECASE)


def query_for_duckdb(script, scale_factor):
    """One query: TOP becomes LIMIT, DATEADD an interval, and Q11's fraction follows the scale factor."""
    (query,) = statements(script)
    query = re.sub(r"DATEADD\((\w+),\s*(-?\d+),\s*(CAST\('[0-9-]+' AS date\))\)", r"(\3 + INTERVAL (\2) \1)", query)
    if "DATEADD" in query:
        sys.exit(f"a form of DATEADD that the translation does not know:\n{query}")
    query = query.replace("* 0.0010", f"* {0.0001 / scale_factor:.10f}")
    top = re.search(r"\bTOP \((\d+)\)\s*", query)
    if top:
        query = query.replace(top.group(0), "", 1) + f"\nLIMIT {top.group(1)}"
    return query


def comparison(duckdb_type):
    """How values of a result column of DuckDB's type are to be compared (tests/tpch/README.md)."""
    name = str(duckdb_type).upper()
    if name.startswith("DECIMAL"):
        return "exact"
    if name in ("DOUBLE", "FLOAT"):
        return "approximate"
    if name == "DATE":
        return "date"
    if name == "VARCHAR":
        return "text"
    if name.endswith("INT") or name == "INTEGER":
        return "integer"
    sys.exit(f"a result column of an unexpected type: {duckdb_type}")


def field(value):
    """A value as the answers hold it: NULL empty, dates as in ISO 8601, decimals with all their digits."""
    if value is None:
        return ""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    return str(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", required=True, type=Path, help="folder of region.tbl, nation.tbl, …")
    parser.add_argument("--out", type=Path, default=TESTS / "answers", help="folder of the answers")
    parser.add_argument("--scale-factor", type=float, default=0.1)
    arguments = parser.parse_args()

    import duckdb

    connection = duckdb.connect()
    for create in schema_for_duckdb((TESTS / "schema.sql").read_text()):
        connection.execute(create)
        table = re.match(r"CREATE TABLE (\w+)", create).group(1)
        columns = connection.execute(f"DESCRIBE {table}").fetchall()
        # A line ends in a separator, which a reader of CSV takes for one more, empty, field.
        types = ", ".join(f"'{name}': '{kind}'" for name, kind, *_ in columns) + ", 'end_of_line': 'VARCHAR'"
        source = str(arguments.tables / f"{table}.tbl").replace("'", "''")
        connection.execute(
            f"INSERT INTO {table} SELECT * EXCLUDE (end_of_line) FROM "
            f"read_csv('{source}', delim='|', header=false, quote='', escape='', columns={{{types}}})"
        )
        print(f"{table}: {connection.execute(f'SELECT COUNT(*) FROM {table}').fetchone()[0]} rows")

    arguments.out.mkdir(parents=True, exist_ok=True)
    kinds = [("query", "column", "compare")]
    for number in QUERIES:
        query = query_for_duckdb((TESTS / f"q{number:02}.sql").read_text(), arguments.scale_factor)
        result = connection.execute(query)
        names = [column[0] for column in result.description]
        kinds += [(f"q{number:02}", column[0], comparison(column[1])) for column in result.description]
        rows = result.fetchall()
        with open(arguments.out / f"q{number:02}.csv", "w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([field(value) for value in row] for row in rows)
        print(f"q{number:02}: {len(rows)} rows")
    with open(arguments.out / "columns.csv", "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(kinds)
    print(f"DuckDB {duckdb.__version__}")


if __name__ == "__main__":
    main()
