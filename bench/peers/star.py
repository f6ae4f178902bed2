"""The star query of the text on ascending keys, on DuckDB, hobt and ClickHouse, in pairs.

A fact table of ten days and a dimension of 100,000 customers, with the text's columns. All engines make the same rows by the
same formulas, day after day, as the text loads them.
"""

from clickhouse import MERGE_TREE
from engine_set import create_database, loaded_engines
from measure import measure_query, ratio_entries
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
        f"SELECT C.shoe_size, SUM(measure) FROM {facts} F JOIN {customers} C ON F.customer_sk = C.customer_sk "
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


def load_clickhouse(clickhouse, rows):
    clickhouse.run(f"CREATE TABLE Fact ({_COLUMNS.format(text='varchar', money='decimal(19, 4)')}) {MERGE_TREE}")
    clickhouse.run(f"CREATE TABLE DimCustomer (customer_sk INT NOT NULL, shoe_size INT NOT NULL) {MERGE_TREE}")
    clickhouse.run(f"INSERT INTO DimCustomer SELECT number, 36 + number % 15 FROM numbers({CUSTOMERS})")
    # 0.0001 is a float there, and the amounts are not.
    facts = _FACTS.replace("REPLICATE(", "repeat(").replace("* 0.0001", "/ 10000").format(n="number")
    for day, first, last in days(rows):
        clickhouse.run(f"INSERT INTO Fact SELECT {day}, {facts} FROM numbers({first}, {last + 1 - first})")


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
    print(f"star: {rows:,} facts of {DAYS} days, {CUSTOMERS:,} customers, {options.threads} threads on both sides", flush=True)

    def load_peers(duckdb, clickhouse):
        load_duckdb(duckdb, rows)
        if clickhouse:
            load_clickhouse(clickhouse, rows)
        return {"Fact": rows, "DimCustomer": CUSTOMERS}

    with loaded_engines(
        options, folder / "star", DATABASE, lambda instance: create_database(options, instance, DATABASE), load_peers,
        lambda hobt: load_hobt(hobt, rows),
    ) as engines:
        one_day, one_day_hash = measure_query(engines, "star", ONE_DAY, options.query_pairs)
        all_days, all_days_hash = measure_query(engines, "star, all", ALL_DAYS, options.query_pairs)
        physical_reads = engines.hobt.physical_reads(ALL_DAYS)
        versions = engines.versions()
    for measure in (one_day, all_days):
        print(measure.line())
    if physical_reads:
        print(f"NOT WARM: the last star query of hobt read {physical_reads} pages from the disk; give it more memory")
    return {
        **ratio_entries("star", one_day),
        **ratio_entries("star_all_days", all_days),
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
