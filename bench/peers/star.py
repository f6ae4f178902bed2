"""The star query of the text on ascending keys, on DuckDB and on hobt, in pairs.

A fact table of ten days and a dimension of 100,000 customers, with the text's columns. Both engines make the same rows by the
same formulas, day after day, as the text loads them.
"""

import shutil

from engines import DuckDB, EngineError, HobtProcess, run_hobt
from measure import measure_query
from workload import Query

# Rows of the fact table unless --rows says else.
ROWS = 50_000_000
CUSTOMERS = 100_000
DAYS = 10
FIRST_DAY = 20010101
# The day that came last, which is the one asked for.
DAY = FIRST_DAY + DAYS - 1
DATABASE = "star"

_COLUMNS = "date_sk INT NOT NULL, customer_sk INT NOT NULL, payload {text} NOT NULL, measure {money} NULL"
# 48,271 and 7,919 have no divisor in common with what they are divided by: customers and amounts come in no order, and equally often.
_FACTS = (
    f"CAST(CAST({{n}} * 48271 AS bigint) % {CUSTOMERS} AS int), REPLICATE('X', 80), "
    "CAST(CAST(CAST({n} * 7919 AS bigint) % 10000000 AS decimal(19, 4)) * 0.0001 AS decimal(19, 4))"
)


def _query(facts, customers):
    select = (
        f"SELECT C.shoe_size, SUM(Measure) FROM {facts} F JOIN {customers} C ON F.customer_sk = C.customer_sk "
        "WHERE {day}C.shoe_size = 43 GROUP BY C.shoe_size"
    )
    return [select.format(day=day) for day in (f"F.date_sk = {DAY} AND ", "")]


_DUCKDB, _TSQL = _query("Fact", "DimCustomer"), _query("dbo.Fact", "dbo.DimCustomer")
ONE_DAY, ALL_DAYS = (Query(2, duckdb, tsql) for duckdb, tsql in zip(_DUCKDB, _TSQL))


def days(rows):
    """Of each day its number, its first row's and its last row's, from 1."""
    for day in range(DAYS):
        yield FIRST_DAY + day, rows * day // DAYS + 1, rows * (day + 1) // DAYS


def load_duckdb(duckdb, rows):
    duckdb.run(f"CREATE TABLE Fact ({_COLUMNS.format(text='varchar', money='decimal(19, 4)')})")
    duckdb.run("CREATE TABLE DimCustomer (customer_sk INT NOT NULL, shoe_size INT NOT NULL)")
    duckdb.run(f"INSERT INTO DimCustomer SELECT range, 36 + range % 15 FROM range({CUSTOMERS})")
    facts = _FACTS.replace("REPLICATE(", "repeat(").format(n="range")
    for day, first, last in days(rows):
        duckdb.run(f"INSERT INTO Fact SELECT {day}, {facts} FROM range({first}, {last + 1})")
    duckdb.run("CHECKPOINT")


def load_hobt(hobt, rows):
    """The text's tables and indexes, with the years of its partition function and of its rows made to agree."""
    borders = ", ".join(str(day) for day, _, _ in days(rows))
    hobt.run(f"CREATE PARTITION FUNCTION pf_daily (int) AS RANGE RIGHT FOR VALUES ({borders})")
    hobt.run("CREATE PARTITION SCHEME ps_daily AS PARTITION pf_daily ALL TO ([PRIMARY])")
    hobt.run(f"CREATE TABLE dbo.Fact ({_COLUMNS.format(text='char(80)', money='money')})")
    hobt.run("CREATE CLUSTERED INDEX scan_me ON dbo.Fact (date_sk) ON ps_daily (date_sk)")
    hobt.run("CREATE TABLE dbo.DimCustomer (customer_sk INT NOT NULL, shoe_size INT NOT NULL)")
    hobt.run("CREATE UNIQUE CLUSTERED INDEX CIX ON dbo.DimCustomer (customer_sk)")
    hobt.run(f"INSERT dbo.DimCustomer SELECT value, 36 + value % 15 FROM GENERATE_SERIES(0, {CUSTOMERS - 1})")
    for day, first, last in days(rows):
        series = f"GENERATE_SERIES(CAST({first} AS bigint), CAST({last} AS bigint))"
        hobt.run(f"INSERT dbo.Fact WITH (TABLOCK) SELECT {day}, {_FACTS.format(n='value')} FROM {series}")
    hobt.run("CHECKPOINT")


def run(options, folder):
    """The comparison in `folder`; the report's entries."""
    rows = options.rows or ROWS
    folder = folder / "star"
    folder.mkdir()
    print(f"star: {rows:,} facts of {DAYS} days, {CUSTOMERS:,} customers, {options.threads} threads on both sides", flush=True)
    run_hobt(options.hobt, ["sql", "--data", str(folder / "hobt"), "-Q", f"CREATE DATABASE {DATABASE}"], options.timeout)
    duckdb = DuckDB(folder / "duckdb.db", options.threads)
    hobt = HobtProcess(options.hobt, folder / "hobt", options.threads, options.hobt_arg, options.timeout, DATABASE)
    try:
        load_duckdb(duckdb, rows)
        load_hobt(hobt, rows)
        for engine in (duckdb, hobt):
            if engine.count("Fact") != rows:
                raise EngineError(f"{engine.name} has {engine.count('Fact')} facts, not {rows}")
        one_day, one_day_hash = measure_query(duckdb, hobt, "star", ONE_DAY, options.query_pairs)
        all_days, all_days_hash = measure_query(duckdb, hobt, "star, all", ALL_DAYS, options.query_pairs)
        physical_reads = hobt.physical_reads(ALL_DAYS)
        versions = {"duckdb": duckdb.version(), "hobt": hobt.version()}
    finally:
        hobt.close()
        duckdb.close()
        shutil.rmtree(folder, ignore_errors=True)
    for measure in (one_day, all_days):
        print(measure.line())
    if physical_reads:
        print(f"NOT WARM: the last star query of hobt read {physical_reads} pages from the disk; give it more memory")
    return {
        "star_ratio": one_day.ratio(),
        "star_all_days_ratio": all_days.ratio(),
        "star": {**one_day.report(), "result_hash": one_day_hash},
        "star_all_days": {**all_days.report(), "result_hash": all_days_hash},
        "star_versions": versions,
        "star_settings": {
            "rows": rows,
            "customers": CUSTOMERS,
            "days": DAYS,
            "threads": options.threads,
            "query_pairs": options.query_pairs,
            "hobt_physical_reads_when_warm": physical_reads,
        },
    }
