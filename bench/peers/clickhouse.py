"""ClickHouse inside this process (chdb), with its tables in files, behind the face that engines.py gives the others.

It stands beside DuckDB where SELECTs are timed, and only when `--clickhouse` asks for it: its tables, MergeTree without a key, are
loaded before anything is timed. How its dialect differs is said by the comparisons, each for its own statements.
"""

import csv
import io
import os
import time

import workload
from engines import NULL_MARK, EngineError

# Behind each CREATE TABLE.
MERGE_TREE = "ENGINE = MergeTree ORDER BY tuple()"
# Answers as SQL has them and as the other engines print them: an outer join gives NULLs, a decimal has all its digits, NULL is empty.
SETTINGS = {"join_use_nulls": 1, "output_format_decimal_trailing_zeros": 1, "format_csv_null_representation": "''"}
# How long the tables' parts may be merged after the load.
MERGE_S_MAX = 120


def import_chdb():
    """The module; EngineError when there is none."""
    try:
        import chdb.session
    except ImportError as error:
        raise EngineError("ClickHouse is missing, which --clickhouse asks for: pip install chdb") from error
    return chdb


def open_clickhouse(options, folder):
    """ClickHouse with its tables in the folder; None unless it is asked for."""
    return ClickHouse(folder / "clickhouse", options.threads) if options.clickhouse else None


class ClickHouse:
    """One session over one folder."""

    name = "ClickHouse"

    def __init__(self, path, threads):
        self.module = import_chdb()
        self.session = self.module.session.Session(str(path))
        for setting, value in {"max_threads": threads, **SETTINGS}.items():
            self.run(f"SET {setting} = {value}")

    def load_csv(self, table, path, null=""):
        """Loads a table from a file with a line of names, whose NULLs are such a text."""
        # Blanks at the ends of a text are part of it, as they are for the other engines.
        self.run(
            f"INSERT INTO {table} SELECT * FROM file({literal(str(path))}, CSVWithNames) "
            f"SETTINGS input_format_csv_trim_whitespaces = 0, format_csv_null_representation = {literal(null)}"
        )

    def load_customers(self, customers):
        """Makes DimCustomer from the file of `export_customers`."""
        self.run(f"CREATE TABLE DimCustomer ({', '.join(f'{name} text NULL' for name in workload.CUSTOMER_COLUMNS)}) {MERGE_TREE}")
        self.load_csv("DimCustomer", customers, NULL_MARK)

    def build(self, repeats):
        self.run(workload.build_on_clickhouse(repeats, MERGE_TREE))

    def run(self, statement):
        """Runs a statement; its rows as CSV without a line of names."""
        try:
            return self.session.query(statement, "CSV").data()
        except self.module.ChdbError as error:
            raise EngineError(f"ClickHouse refused a statement:\n{statement}\n{error}") from error

    def query(self, query):
        """The one row of a query, as text."""
        (row,) = rows_of_clickhouse(self.run(query.clickhouse))
        return row

    def count(self, table):
        return int(self.run(f"SELECT COUNT(*) FROM {table}"))

    def settle(self):
        """Waits until the parts that the load left are merged and written, and lets none be merged later, in the others' time."""
        deadline = time.monotonic() + MERGE_S_MAX
        while int(self.run("SELECT COUNT(*) FROM system.merges")):
            if time.monotonic() > deadline:
                raise EngineError(f"ClickHouse has merged what was loaded for more than {MERGE_S_MAX} s")
            time.sleep(0.1)
        self.run("SYSTEM STOP MERGES")
        os.sync()

    def version(self):
        (row,) = rows_of_clickhouse(self.run("SELECT version()"))
        return f"{row[0]} (chdb {self.module.__version__})"

    def close(self):
        self.session.close()


def literal(text):
    """A text as ClickHouse reads it in a statement."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def rows_of_clickhouse(printed):
    """The rows of what `run` gave, as text. A blank line is a row of one column that is NULL."""
    return [row or [""] for row in csv.reader(io.StringIO(printed))]
