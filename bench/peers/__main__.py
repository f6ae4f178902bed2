#!/usr/bin/env python3
"""Runs hobt and DuckDB, ClickHouse, PostgreSQL, SQLite and a plain loop in turn on the same work, and prints the ratios.

    python3 bench/peers [--only scans|inserts|hashes|star|tpch|operators|exports|loads|why|random] [--rows N] [--scale F] [--pairs N] [--clickhouse]
                         [--json FILE] [--data DIR] [--hobt PATH] [--self-test]

README.md beside this file says what is measured, and how.
"""

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

import exports
import hashes
import inserts
import loads
import operators
import random_queries
import scans
import self_test
import star
import tpch
import why
from clickhouse import import_chdb
from engines import EngineError

ROOT = Path(__file__).resolve().parent.parent.parent

COMPARISONS = {
    "scans": scans.run,
    "inserts": inserts.run,
    "hashes": hashes.run,
    "star": star.run,
    "tpch": tpch.run,
    "operators": operators.run,
    "exports": exports.run,
    "loads": loads.run,
    "why": why.run,
    "random": random_queries.run,
}


def arguments():
    parser = argparse.ArgumentParser(prog="bench/peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=int,
        help=f"rows of BigData, at least (default {scans.ROWS:,}), of the star's facts (default {star.ROWS:,}), and of the facts of the "
        f"ordinary queries (default {operators.ROWS:,})",
    )
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of TPC-H (default 1)")
    parser.add_argument("--only", choices=tuple(COMPARISONS), help="one of the comparisons alone")
    parser.add_argument("--insert-rows", type=int, default=32_000, help="rows inserted one by one on 64 connections (default 32,000)")
    parser.add_argument("--hash-rows", type=int, default=40_000_000, help="ints that are hashed (default 40,000,000)")
    parser.add_argument("--hash-repeat", type=int, default=15, help="times that they are (default 15)")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of builds, of inserts and of loads (default 5)")
    parser.add_argument("--query-pairs", type=int, default=15, help="pairs of each query (default 15)")
    parser.add_argument("--tpch-pairs", type=int, default=5, help="pairs of each query of TPC-H and of each export (default 5)")
    parser.add_argument("--operator-pairs", type=int, default=5, help="pairs of each ordinary query (default 5)")
    parser.add_argument("--queries", type=int, default=2_000, help="random queries (default 2,000)")
    parser.add_argument("--seed", type=int, default=0, help="the first random query's seed; each next one has the next (default 0)")
    parser.add_argument("--processes", type=int, help="processes that send random queries (default one for each processor)")
    parser.add_argument(
        "--clickhouse", action="store_true",
        help="ask ClickHouse, too, where SELECTs are timed: scans, star, tpch, operators (pip install chdb)",
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of both sides (default 2)")
    parser.add_argument("--hobt", type=Path, default=ROOT / "target" / "release" / "hobt", help="the hobt binary")
    parser.add_argument("--hobt-arg", action="append", default=[], metavar="ARG", help="one more argument of `hobt sql`")
    parser.add_argument("--data", type=Path, help="folder for a temporary folder of data (default the system's)")
    parser.add_argument("--json", type=Path, help="write ratios and raw times to this file")
    parser.add_argument("--timeout", type=float, default=900, help="seconds that one statement may take")
    parser.add_argument("--self-test", action="store_true", help="checks this program, then runs it on few rows; fails unless all ratios are sane")
    parsed = parser.parse_args()
    if parsed.self_test:
        # As few as a build without optimization does within two minutes, as many as give each query some.
        parsed.rows, parsed.pairs, parsed.query_pairs, parsed.insert_rows = 70_000, 1, 2, 640
        parsed.hash_rows, parsed.hash_repeat, parsed.scale, parsed.tpch_pairs = 500_000, 6, 0.005, 1
        parsed.operator_pairs, parsed.queries = 1, 300
    counts = (
        parsed.pairs, parsed.query_pairs, parsed.tpch_pairs, parsed.threads, parsed.hash_rows, parsed.hash_repeat, parsed.rows or 1,
        parsed.operator_pairs, parsed.queries, parsed.processes or 1,
    )
    if min(counts) < 1 or parsed.rows == 0 or parsed.insert_rows < 64 or parsed.seed < 0:
        parser.error("rows, pairs, repetitions, queries, processes and threads are at least 1, rows to insert 64, a seed 0")
    if not 0.001 <= parsed.scale <= 1000:
        parser.error("the scale factor is between 0.001 and 1000")
    if not parsed.hobt.is_file():
        parser.error(f"there is no {parsed.hobt}; build it (cargo build --release) or name it with --hobt")
    return parsed


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


def comparisons(options):
    """The names of what is asked for."""
    return [name for name in COMPARISONS if options.only in (None, name)]


def run(options, folder):
    """What is asked for, in `folder`; returns the report."""
    report = {}
    for name in comparisons(options):
        report |= COMPARISONS[name](options, folder)
    machine = {
        "processor": processor(),
        "processors": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "system": platform.platform(),
        "load_average": os.getloadavg(),
    }
    return {**report, "machine": machine}


def main():
    options = arguments()
    if options.self_test:
        self_test.check_parts()
    if options.data:
        options.data.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="hobt-peers-", dir=options.data))
    try:
        if options.clickhouse:
            # What is missing is said before anything is built.
            import_chdb()
        report = run(options, folder)
    except EngineError as error:
        sys.exit(f"bench/peers: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.self_test:
        self_test.check_report(report, comparisons(options), options.clickhouse)
    if report.get("random_failures"):
        sys.exit(f"bench/peers: {report['random_failures']} random queries failed")


if __name__ == "__main__":
    main()
