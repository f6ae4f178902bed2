#!/usr/bin/env python3
"""Runs hobt and DuckDB, PostgreSQL, SQLite and a plain loop in turn on the same work, and prints the ratios.

    python3 bench/peers [--only scans|inserts|hashes] [--rows N] [--pairs N] [--json FILE] [--data DIR] [--hobt PATH] [--self-test]

README.md beside this file says what is measured, and how.
"""

import argparse
import hashlib
import json
import math
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import hashes
import inserts
import workload
from engines import DuckDB, EngineError, HobtProcess, export_customers, make_fixtures

ROOT = Path(__file__).resolve().parent.parent.parent


def arguments():
    parser = argparse.ArgumentParser(prog="bench/peers", description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=24_000_000, help="rows of BigData, at least (default 24,000,000)")
    parser.add_argument("--only", choices=("scans", "inserts", "hashes"), help="one of the comparisons alone")
    parser.add_argument("--insert-rows", type=int, default=32_000, help="rows inserted one by one on 64 connections (default 32,000)")
    parser.add_argument("--hash-rows", type=int, default=40_000_000, help="ints that are hashed (default 40,000,000)")
    parser.add_argument("--hash-repeat", type=int, default=15, help="times that they are (default 15)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of builds and of inserts (default 5)")
    parser.add_argument("--query-pairs", type=int, default=15, help="pairs of each query (default 15)")
    parser.add_argument("--threads", type=int, default=2, help="threads of both sides (default 2)")
    parser.add_argument("--hobt", type=Path, default=ROOT / "target" / "release" / "hobt", help="the hobt binary")
    parser.add_argument("--hobt-arg", action="append", default=[], metavar="ARG", help="one more argument of `hobt sql`")
    parser.add_argument("--data", type=Path, help="folder for a temporary folder of data (default the system's)")
    parser.add_argument("--json", type=Path, help="write ratios and raw times to this file")
    parser.add_argument("--timeout", type=float, default=900, help="seconds that one statement may take")
    parser.add_argument("--self-test", action="store_true", help="tiny rows, two pairs; fails unless all ratios are sane")
    parsed = parser.parse_args()
    if parsed.self_test:
        parsed.rows, parsed.pairs, parsed.query_pairs, parsed.insert_rows = 100_000, 2, 3, 640
        parsed.hash_rows, parsed.hash_repeat = 1_000_000, 6
    if parsed.rows < 1 or parsed.insert_rows < 64 or parsed.pairs < 1 or parsed.query_pairs < 1 or parsed.threads < 1 or parsed.hash_rows < 1 or parsed.hash_repeat < 1:
        parser.error("rows, pairs, repetitions and threads are at least 1, rows to insert 64")
    if not parsed.hobt.is_file():
        parser.error(f"there is no {parsed.hobt}; build it (cargo build --release) or name it with --hobt")
    return parsed


def timed(action):
    """Seconds that `action` takes by the wall clock, and what it returns."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def digest(row):
    """A hash of a result row; the engines must agree on it."""
    return hashlib.sha256("\x1f".join(row).encode()).hexdigest()[:16]


class Measure:
    """The times of one thing on both engines."""

    def __init__(self, name):
        self.name = name
        self.duckdb_s = []
        self.hobt_s = []

    def ratios(self):
        return [ours / theirs for ours, theirs in zip(self.hobt_s, self.duckdb_s)]

    def ratio(self):
        return statistics.median(self.ratios())

    def line(self):
        return (
            f"{self.name:<12} DuckDB {statistics.median(self.duckdb_s) * 1000:>10.1f} ms   "
            f"hobt {statistics.median(self.hobt_s) * 1000:>10.1f} ms   "
            f"ratio {self.ratio():.3f} ({min(self.ratios()):.3f} to {max(self.ratios()):.3f}, {len(self.hobt_s)} pairs)"
        )

    def report(self):
        return {
            "ratio_median": self.ratio(),
            "ratio_min": min(self.ratios()),
            "ratio_max": max(self.ratios()),
            "duckdb_s": self.duckdb_s,
            "hobt_s": self.hobt_s,
            "duckdb_s_median": statistics.median(self.duckdb_s),
            "hobt_s_median": statistics.median(self.hobt_s),
        }


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


def measure_query(duckdb, hobt, name, query, pairs):
    """Runs one query on each engine in turn, after two runs that warm each; returns times and the result's hash."""
    measure = Measure(name)
    rows = {}
    for engine in (duckdb, hobt):
        engine.query(query)
        rows[engine.name] = engine.query(query)
    if rows[duckdb.name] != rows[hobt.name]:
        raise EngineError(
            f"{name}: the engines disagree\n  DuckDB {rows[duckdb.name]}\n  hobt   {rows[hobt.name]}"
        )
    for _ in range(pairs):
        for engine, times in ((duckdb, measure.duckdb_s), (hobt, measure.hobt_s)):
            seconds, row = timed(lambda engine=engine: engine.query(query))
            times.append(seconds)
            if row != rows[engine.name]:
                raise EngineError(f"{name}: {engine.name} answered {rows[engine.name]} first and {row} now")
    return measure, digest(rows[duckdb.name])


def memory_bytes():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def processor():
    """The processor's name as Linux has it, else as Python finds it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def run(options, folder):
    """What is asked for, in `folder`; returns the report."""
    comparisons = {"scans": run_scans, "inserts": inserts.run, "hashes": hashes.run}
    report = {}
    for name, compare in comparisons.items():
        if options.only in (None, name):
            report |= compare(options, folder)
    machine = {
        "processor": processor(),
        "processors": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "system": platform.platform(),
        "load_average": os.getloadavg(),
    }
    return {**report, "machine": machine}


def run_scans(options, folder):
    """The comparison with DuckDB; returns the report's entries."""
    customers = folder / "customers.csv"
    hobt_folder = folder / "hobt"
    make_fixtures(options.hobt, hobt_folder, options.timeout)
    customer_rows = export_customers(options.hobt, hobt_folder, customers, options.timeout)
    repeats = math.ceil(options.rows / customer_rows)
    rows = repeats * customer_rows
    print(f"BigData: {repeats:,} x {customer_rows:,} = {rows:,} rows, {options.threads} threads on both sides", flush=True)

    duckdb = DuckDB(folder / "duckdb.db", customers, options.threads)
    hobt = HobtProcess(options.hobt, hobt_folder, options.threads, options.hobt_arg, options.timeout)
    try:
        builds = measure_builds(duckdb, hobt, repeats, options.pairs)
        for engine in (duckdb, hobt):
            if engine.count() != rows:
                raise EngineError(f"{engine.name} built {engine.count()} rows, not {rows}")
        count10, count10_hash = measure_query(duckdb, hobt, "count10", workload.COUNT10, options.query_pairs)
        maxsum, maxsum_hash = measure_query(duckdb, hobt, "maxsum", workload.MAXSUM, options.query_pairs)
        physical_reads = hobt.physical_reads(workload.MAXSUM)
        versions = {"duckdb": duckdb.version(), "hobt": hobt.version(), "python": platform.python_version()}
    finally:
        hobt.close()
        duckdb.close()

    for measure in (builds, count10, maxsum):
        print(measure.line())
    if physical_reads:
        print(f"NOT WARM: the last query of hobt read {physical_reads} pages from the disk; give it more memory")
    return {
        "count10_ratio": count10.ratio(),
        "maxsum_ratio": maxsum.ratio(),
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


def check(report):
    """What --self-test asserts: every ratio is a finite number above zero, but of a difference, which few rows may turn."""
    for name in (name for name in report if name.endswith("_ratio")):
        if not (math.isfinite(report[name]) and (report[name] > 0 or name == "hash_ratio")):
            sys.exit(f"self-test: {name} is {report[name]}")
    print("self-test: ok")


def main():
    options = arguments()
    if options.data:
        options.data.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="hobt-peers-", dir=options.data))
    try:
        report = run(options, folder)
    except EngineError as error:
        sys.exit(f"bench/peers: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.self_test:
        check(report)


if __name__ == "__main__":
    main()
