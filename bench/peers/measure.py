"""Times of two engines in pairs: what is timed alternates, so that noise that lasts longer than a pair meets both."""

import hashlib
import math
import statistics
import time

from engines import EngineError

# Runs of each engine before any counts.
WARMING_RUNS = 2


def timed(action):
    """Seconds that `action` takes by the wall clock, and what it returns."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def digest(row):
    """A hash of a result row; the engines must agree on it."""
    return hashlib.sha256("\x1f".join(row).encode()).hexdigest()[:16]


def geometric_mean(values):
    """Of numbers above zero."""
    return math.exp(statistics.fmean(math.log(value) for value in values))


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


def measure_pairs(name, ask_duckdb, ask_hobt, pairs, check):
    """Asks both engines in turn, every second time in the other order, after runs that warm each.

    `check` gets the answers of both after each pair, outside of what is timed, and raises what is wrong with them.
    """
    measure = Measure(name)
    for _ in range(WARMING_RUNS):
        check(ask_duckdb(), ask_hobt())
    for pair in range(pairs):
        sides = [(ask_duckdb, measure.duckdb_s), (ask_hobt, measure.hobt_s)]
        answers = {}
        for ask, times in sides if pair % 2 == 0 else reversed(sides):
            seconds, answers[ask] = timed(ask)
            times.append(seconds)
        check(answers[ask_duckdb], answers[ask_hobt])
    return measure


def measure_query(duckdb, hobt, name, query, pairs):
    """One query that gives one row, on both engines; returns times and the result's hash."""
    seen = []

    def check(theirs, ours):
        seen.append(theirs)
        if ours != theirs or theirs != seen[0]:
            raise EngineError(f"{name}: the engines disagree\n  DuckDB {theirs}, at first {seen[0]}\n  hobt   {ours}")

    measure = measure_pairs(name, lambda: duckdb.query(query), lambda: hobt.query(query), pairs, check)
    return measure, digest(seen[0])
