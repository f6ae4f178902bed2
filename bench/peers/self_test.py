"""What `--self-test` asserts: of a tiny run's report, and of the program's own parts, which need no engine."""

import contextlib
import io
import math
import sys
from decimal import Decimal
from random import Random

import operators
import tpch
from clickhouse import literal, rows_of_clickhouse
from engines import EngineError
from measure import CLICKHOUSE_WARMING_RUNS, WARMING_RUNS, Measure, measure_pairs, summarize
from random_queries.answer import Answer, read_hobt, same
from random_queries.run import World, draw
from random_queries.world import SEEDS_OF_A_WORLD

# The ratios of each comparison, and those that `--clickhouse` adds.
RATIOS = {
    "scans": ("select_into", "count10", "maxsum"),
    "inserts": ("inserts_auto_64", "inserts_tx_8", "inserts_auto_1_sqlite"),
    "hashes": ("hash",),
    "star": ("star", "star_all_days"),
    "tpch": ("tpch_geomean", "tpch_worst"),
    "operators": ("operators_geomean", "operators_worst"),
    "exports": ("csv_export", "csv_export_synced", "parquet_export", "parquet_export_synced"),
    "loads": ("csv_load", "parquet_load"),
    "why": (),
    "random": (),
}
CLICKHOUSE_RATIOS = {
    "scans": ("count10_clickhouse", "maxsum_clickhouse"),
    "star": ("star_clickhouse", "star_all_days_clickhouse"),
    "tpch": ("tpch_clickhouse_geomean", "tpch_clickhouse_worst"),
    "operators": ("operators_clickhouse_geomean", "operators_clickhouse_worst"),
}


def check_report(report, comparisons, with_clickhouse):
    """The report has the ratios of the comparisons and no others, each a finite number above zero, but of a difference, which few rows may turn."""
    wanted = {f"{name}_ratio" for comparison in comparisons for name in RATIOS[comparison]}
    if with_clickhouse:
        wanted |= {f"{name}_ratio" for comparison in comparisons for name in CLICKHOUSE_RATIOS.get(comparison, ())}
    found = {name for name in report if name.endswith("_ratio")}
    if found != wanted:
        sys.exit(f"self-test: the report lacks {sorted(wanted - found)} and has {sorted(found - wanted)}")
    for name in sorted(found):
        if not (math.isfinite(report[name]) and (report[name] > 0 or name == "hash_ratio")):
            sys.exit(f"self-test: {name} is {report[name]}")
    if "random" in comparisons:
        _check_random_report(report)
    print("self-test: ok")


def _check_random_report(report):
    """Nearly all of the random queries were compared, with several answers of hobt for each."""
    queries = report["random_queries"]
    _equal("failures of random queries", report["random_failures"], 0)
    if queries < 100 or report["random_undecided"] > queries / 20 or report["random_compared"] < queries * 0.9:
        sys.exit(f"self-test: of {queries} random queries {report['random_compared']} were compared, {report['random_undecided']} failed")
    if report["random_statements"] < 3 * queries:
        sys.exit(f"self-test: {queries} random queries are only {report['random_statements']} statements")


def check_parts():
    """The parts, before any engine is started."""
    _check_rounds()
    _check_ratios()
    _check_disagreements()
    _check_dialects()
    _check_random_queries()


def _equal(what, found, wanted):
    if found != wanted:
        sys.exit(f"self-test: {what}: {found}, not {wanted}")


def _check_rounds():
    """Every engine is asked once a round, every second round backwards, and its answer is compared."""
    for third in (False, True):
        asked, compared = [], []
        names = ["duckdb", "hobt", "clickhouse"][:2 + third]
        asks = [lambda name=name: asked.append(name) or name for name in names]
        measure = measure_pairs(
            "rounds", asks[0], asks[1], 3, lambda *answers: compared.append(answers),
            (asks[2], lambda *answers: compared.append(answers)) if third else None,
        )
        first = ["clickhouse"] * (CLICKHOUSE_WARMING_RUNS * third)
        _equal("the order of a comparison", asked, first + names * WARMING_RUNS + names + names[::-1] + names)
        _equal("the answers compared", compared, [("duckdb", name) for name in names[1:]] * (WARMING_RUNS + 3))
        _equal("the times", [len(measure.duckdb_s), len(measure.hobt_s), len(measure.clickhouse_s)], [3, 3, 3 * third])


def _check_ratios():
    """A ratio is hobt's time over the peer's, the median of the rounds', and the mean of many is geometric."""
    measures = []
    for name, hobt_s in (("one", [2.0, 9.0, 2.0]), ("two", [8.0, 8.0, 1.0])):
        measure = Measure(name)
        measure.duckdb_s, measure.hobt_s, measure.clickhouse_s = [1.0, 1.0, 1.0], hobt_s, [4.0, 4.0, 4.0]
        measures.append(measure)
    with contextlib.redirect_stdout(io.StringIO()):
        entries = summarize("self_test", measures)
    found = {key: round(value, 9) for key, value in entries.items() if key.endswith("_ratio")}
    _equal("the ratios", found, {
        "self_test_geomean_ratio": 4.0, "self_test_worst_ratio": 8.0,
        "self_test_clickhouse_geomean_ratio": 1.0, "self_test_clickhouse_worst_ratio": 2.0,
    })
    _equal("a query's entry", entries["self_test"]["one"]["clickhouse_ratio_median"], 0.5)


def _check_disagreements():
    """Other answers are found, whichever engine gives them."""
    theirs = [(1, "a"), (2, "b")]
    cases = [
        ([["1", "a"], ["2.0", "b"]], True), ([["1", "a"], ["2", "c"]], False), ([["1", "a"]], False), ([["1", "a"], ["2"]], False),
    ]
    for ours, agrees in cases:
        for check in (
            lambda rows: operators.check_answers("self_test", theirs, "an engine", rows),
            lambda rows: tpch.check_answers("self_test", ["exact", "text"], theirs, "an engine", rows),
        ):
            try:
                check(ours)
                found = True
            except EngineError:
                found = False
            _equal(f"whether {ours} is {theirs}", found, agrees)
    for is_same in (operators.is_same, lambda theirs, ours: tpch.is_same("exact", theirs, ours)):
        _equal("whether NULL is 0, or nothing", [is_same(None, "0"), is_same(None, "")], [False, True])
    _equal("rows of ClickHouse", rows_of_clickhouse('1,"a ""b"""\n,c\n'), [["1", 'a "b"'], ["", "c"]])
    _equal("a NULL of ClickHouse", rows_of_clickhouse("\n"), [[""]])


def _check_dialects():
    """Each of the queries is there, and those of TPC-H that ClickHouse needs said otherwise still have what is replaced."""
    _equal("the operators' names", len({query.name for query in operators.queries()}), 40)
    _equal("a text with a quote", literal("it's \\N"), r"'it\'s \\N'")
    changed = [
        number for number in tpch.QUERIES
        if tpch.query_for_clickhouse(number, tpch.script(number), 1) != tpch.query_for_duckdb(tpch.script(number), 1)
    ]
    _equal("the queries that are changed for ClickHouse", changed, sorted(tpch.CLICKHOUSE_CHANGES))


def _check_random_queries():
    """A seed gives one query, other orders of FROM keep its sources and conditions, and other answers are found."""
    for seed in range(40):
        world = World(seed // SEEDS_OF_A_WORLD)
        statement = draw(seed, world)
        _equal(f"random query {seed}, drawn again", draw(seed, world).written(), statement.written())
        for tree in statement.froms:
            turned = tree.turned(Random(seed))
            for what, of in (("sources", lambda tree: [source.alias for source in tree.sources()]), ("words", words)):
                _equal(f"{what} of random query {seed} in another order", sorted(of(turned)), sorted(of(tree)))
    rows = read_hobt('{"c1":1,"c2":1.50,"c3":0.5}\n{"c1":null,"c2":0,"c3":-0.0}\n', ["int", "decimal", "float"])
    theirs = Answer(((None, 0, 0.0), (1, Decimal("1.5"), 0.5)))
    _equal("whether rows in any order are the same", [same(theirs, rows, False), same(theirs, rows, True)], [True, False])
    first, second = theirs.rows
    for other in ((first,), (first, first, second), (first, (1, Decimal("1.5"), 0.25)), ((1, 0, 0.0), second)):
        _equal(f"whether {other} are the same", same(Answer(other), rows, False), False)
    _equal("an error", read_hobt('{"c1":Msg 8115, Level 16, State 2, Server x, Line 1\nArithmetic overflow', ["int"]).error, "8115")


def words(tree):
    """What the conditions of a tree say."""
    if not hasattr(tree, "kind"):
        return []
    condition = tree.condition.tsql if tree.condition else ""
    for piece in ("(", ")", " AND "):
        condition = condition.replace(piece, " ")
    return words(tree.left) + words(tree.right) + condition.split()
