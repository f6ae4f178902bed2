"""Times of engines in pairs: what is timed alternates, so that noise that lasts longer than a pair meets all.

A pair is one time of DuckDB and one of hobt, and one of ClickHouse where that is asked, too.
"""

import hashlib
import math
import statistics
import time

from engines import EngineError

# Runs of each engine before any counts.
WARMING_RUNS = 2
# Runs of ClickHouse before those: it compiles what it is asked for the fourth time, which takes a tenth of a second.
CLICKHOUSE_WARMING_RUNS = 3


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


def spread(ratios):
    """The ratios' median and extremes, in words."""
    return f"ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)"


class Measure:
    """The times of one thing on the engines. ClickHouse has none unless it was asked."""

    def __init__(self, name):
        self.name = name
        self.duckdb_s = []
        self.hobt_s = []
        self.clickhouse_s = []

    def ratios(self):
        return [ours / theirs for ours, theirs in zip(self.hobt_s, self.duckdb_s)]

    def ratio(self):
        return statistics.median(self.ratios())

    def clickhouse_ratios(self):
        return [ours / theirs for ours, theirs in zip(self.hobt_s, self.clickhouse_s)]

    def clickhouse_ratio(self):
        return statistics.median(self.clickhouse_ratios())

    def line(self):
        line = (
            f"{self.name:<12} DuckDB {statistics.median(self.duckdb_s) * 1000:>10.1f} ms   "
            f"hobt {statistics.median(self.hobt_s) * 1000:>10.1f} ms   {spread(self.ratios())}"
        )
        if self.clickhouse_s:
            line += f"   ClickHouse {statistics.median(self.clickhouse_s) * 1000:>10.1f} ms   {spread(self.clickhouse_ratios())}"
        return line

    def report(self):
        report = {
            "ratio_median": self.ratio(),
            "ratio_min": min(self.ratios()),
            "ratio_max": max(self.ratios()),
            "duckdb_s": self.duckdb_s,
            "hobt_s": self.hobt_s,
            "duckdb_s_median": statistics.median(self.duckdb_s),
            "hobt_s_median": statistics.median(self.hobt_s),
        }
        if self.clickhouse_s:
            report |= {
                "clickhouse_ratio_median": self.clickhouse_ratio(),
                "clickhouse_ratio_min": min(self.clickhouse_ratios()),
                "clickhouse_ratio_max": max(self.clickhouse_ratios()),
                "clickhouse_s": self.clickhouse_s,
                "clickhouse_s_median": statistics.median(self.clickhouse_s),
            }
        return report


def ratio_entries(prefix, measure):
    """The report's entries of one measure's ratios: `PREFIX_ratio`, and `PREFIX_clickhouse_ratio` where that was asked."""
    entries = {f"{prefix}_ratio": measure.ratio()}
    if measure.clickhouse_s:
        entries[f"{prefix}_clickhouse_ratio"] = measure.clickhouse_ratio()
    return entries


def summarize(name, measures):
    """Prints the geometric mean of many queries' ratios and the greatest; gives the report's entries, of each query its times, too."""
    entries = _mean_and_worst(name, "", measures, Measure.ratio)
    if all(measure.clickhouse_s for measure in measures):
        entries |= _mean_and_worst(name, "clickhouse_", measures, Measure.clickhouse_ratio)
    return {**entries, name: {measure.name: measure.report() for measure in measures}}


def _mean_and_worst(name, peer, measures, ratio_of):
    mean = geometric_mean([ratio_of(measure) for measure in measures])
    slowest = max(measures, key=ratio_of)
    over = " over ClickHouse" if peer else ""
    print(f"{name:<12} geometric mean of {len(measures)} ratios{over} {mean:.3f}, the greatest {ratio_of(slowest):.3f} of {slowest.name}")
    return {f"{name}_{peer}geomean_ratio": mean, f"{name}_{peer}worst_ratio": ratio_of(slowest)}


def measure_pairs(name, ask_duckdb, ask_hobt, pairs, check, clickhouse=None):
    """Asks the engines in turn, every second time in the other order, after runs that warm each.

    `check` gets the answers of DuckDB and of hobt after each pair, outside of what is timed, and raises what is wrong with them.
    `clickhouse`, unless it is None, is how ClickHouse is asked, and such a check of DuckDB's answer and its.
    """
    measure = Measure(name)
    sides = [(ask_duckdb, measure.duckdb_s), (ask_hobt, measure.hobt_s)]
    checks = [(ask_hobt, check)]
    if clickhouse:
        ask_clickhouse, check_clickhouse = clickhouse
        sides.append((ask_clickhouse, measure.clickhouse_s))
        checks.append((ask_clickhouse, check_clickhouse))
        for _ in range(CLICKHOUSE_WARMING_RUNS):
            ask_clickhouse()
    for pair in range(-WARMING_RUNS, pairs):
        answers = {}
        for ask, times in reversed(sides) if pair > 0 and pair % 2 else sides:
            seconds, answers[ask] = timed(ask)
            if pair >= 0:
                times.append(seconds)
        for ask, agree in checks:
            agree(answers[ask_duckdb], answers[ask])
    return measure


def measure_query(engines, name, query, pairs):
    """One query that gives one row, on the engines; returns times and the result's hash."""
    seen = []

    def check_against(engine):
        def check(theirs, other):
            seen.append(theirs)
            if other != theirs or theirs != seen[0]:
                raise EngineError(
                    f"{name}: the engines disagree\n  DuckDB {theirs}, at first {seen[0]}\n  {engine.name:<6} {other}"
                )
        return check

    duckdb, hobt, clickhouse = engines
    third = clickhouse and (lambda: clickhouse.query(query), check_against(clickhouse))
    measure = measure_pairs(name, lambda: duckdb.query(query), lambda: hobt.query(query), pairs, check_against(hobt), third)
    return measure, digest(seen[0])
