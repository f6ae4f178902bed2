"""BigData built on DuckDB and on hobt, and scanned there and on ClickHouse, in pairs."""

import math
import os
import platform

import workload
from clickhouse import open_clickhouse
from engine_set import EngineSet
from engines import DuckDB, HobtProcess, export_customers, make_fixtures
from measure import Measure, measure_query, ratio_entries, timed

# Rows of BigData, at least, unless --rows says else.
ROWS = 24_000_000


def measure_builds(duckdb, hobt, repeats, pairs):
    """Builds BigData on each engine in turn; the last table of each stays for the queries."""
    measure = Measure("select_into")
    for pair in range(pairs):
        for engine, times in ((duckdb, measure.duckdb_s), (hobt, measure.hobt_s)):
            engine.drop()
            # What the other engine left to be written is not this one's to pay for.
            os.sync()
            seconds, _ = timed(lambda engine=engine: engine.build(repeats))
            times.append(seconds)
        print(f"  build {pair + 1}/{pairs}: DuckDB {measure.duckdb_s[-1]:.2f} s, hobt {measure.hobt_s[-1]:.2f} s", flush=True)
    return measure


def run(options, folder):
    """The comparison in `folder`; returns the report's entries."""
    customers = folder / "customers.csv"
    hobt_folder = folder / "hobt"
    make_fixtures(options.hobt, hobt_folder, options.timeout)
    customer_rows = export_customers(options.hobt, hobt_folder, customers, options.timeout)
    repeats = math.ceil((options.rows or ROWS) / customer_rows)
    rows = repeats * customer_rows
    print(f"BigData: {repeats:,} x {customer_rows:,} = {rows:,} rows, {options.threads} threads on both sides", flush=True)

    duckdb = DuckDB(folder / "duckdb.db", options.threads)
    hobt = HobtProcess(options.hobt, hobt_folder, options.threads, options.hobt_arg, options.timeout)
    clickhouse = None
    try:
        duckdb.load_customers(customers)
        builds = measure_builds(duckdb, hobt, repeats, options.pairs)
        clickhouse = open_clickhouse(options, folder)
        if clickhouse:
            clickhouse.load_customers(customers)
            clickhouse.build(repeats)
            clickhouse.settle()
        engines = EngineSet(duckdb, hobt, clickhouse)
        engines.check_counts({"BigData": rows})
        count10, count10_hash = measure_query(engines, "count10", workload.COUNT10, options.query_pairs)
        maxsum, maxsum_hash = measure_query(engines, "maxsum", workload.MAXSUM, options.query_pairs)
        physical_reads = hobt.physical_reads(workload.MAXSUM)
        versions = {**engines.versions(), "python": platform.python_version()}
    finally:
        hobt.close()
        duckdb.close()
        if clickhouse:
            clickhouse.close()

    for measure in (builds, count10, maxsum):
        print(measure.line())
    if physical_reads:
        print(f"NOT WARM: the last query of hobt read {physical_reads} pages from the disk; give it more memory")
    return {
        **ratio_entries("count10", count10),
        **ratio_entries("maxsum", maxsum),
        "select_into_ratio": builds.ratio(),
        "select_into": builds.report(),
        "count10": {**count10.report(), "result_hash": count10_hash},
        "maxsum": {**maxsum.report(), "result_hash": maxsum_hash},
        "versions": versions,
        "settings": {
            "rows": rows,
            "customers": customer_rows,
            "threads": options.threads,
            "pairs": options.pairs,
            "query_pairs": options.query_pairs,
            "hobt_arguments": options.hobt_arg,
            "hobt_physical_reads_when_warm": physical_reads,
        },
    }
