"""How much of a statement's time `hobt why` leaves unexplained: of each ordinary query and each of TPC-H. No peer is asked.

Each is run in a process of its own, so that its pages come from the disk, and the first one on a column makes statistics.
"""

import re
from contextlib import closing

import operators
import tpch
from engine_set import create_database
from engines import EngineError, HobtProcess, make_fixtures, run_hobt

# Statements that take less are not judged: a tick of the system's clock is much of them.
LEAST_MS = 100.0
ELAPSED = re.compile(r"^Elapsed ([\d.,]+) ms", re.MULTILINE)
UNEXPLAINED = re.compile(r"unexplained\s*┆\s*┆\s*[\d.,]+\s*┆\s*([\d.]+)")


def statements(options):
    """The name of each statement, its text, and whether it is of TPC-H."""
    yield from ((query.name, f"{query.tsql} OPTION (MAXDOP {options.threads})", False) for query in operators.queries())
    for number in range(1, 23):
        yield f"q{number:02}", tpch.query_for_hobt(tpch.script(number), options.scale), True


def explained(options, instance, database, text):
    """The elapsed time of a statement in ms, and the percentage of its threads' time that is left unexplained."""
    printed = run_hobt(options.hobt, ["why", "--data", str(instance), "-d", database, "-Q", text], options.timeout)
    elapsed, rest = ELAPSED.search(printed), UNEXPLAINED.search(printed)
    if not (elapsed and rest):
        raise EngineError(f"hobt why printed no figures of {text}:\n{printed[:2000]}")
    return float(elapsed[1].replace(",", "")), float(rest[1])


def run(options, folder):
    """The comparison in `folder`; the report's entries."""
    folder = folder / "why"
    folder.mkdir()
    rows = options.rows or operators.ROWS
    print(f"why: {rows:,} facts, TPC-H of scale factor {options.scale:g}, what hobt leaves unexplained", flush=True)
    ordinary, of_tpch = folder / "ordinary", folder / "tpch"
    create_database(options, ordinary, operators.DATABASE)
    process = HobtProcess(options.hobt, ordinary, options.threads, options.hobt_arg, options.timeout, operators.DATABASE)
    with closing(process) as hobt:
        operators.load_hobt(hobt, rows)
    make_fixtures(options.hobt, of_tpch, options.timeout, "--tpch", str(options.scale))
    found = {}
    for name, text, is_tpch in statements(options):
        instance, database = (of_tpch, tpch.DATABASE) if is_tpch else (ordinary, operators.DATABASE)
        elapsed, rest = explained(options, instance, database, text)
        found[name] = {"elapsed_ms": elapsed, "unexplained_percent": rest}
        print(f"{name:<16} {elapsed:9.1f} ms   {rest:4.1f} % unexplained", flush=True)
    judged = {name: one["unexplained_percent"] for name, one in found.items() if one["elapsed_ms"] >= LEAST_MS}
    worst = max(judged, key=judged.get, default=None)
    if worst:
        print(f"why          of {len(judged)} that take {LEAST_MS:g} ms the most unexplained is {judged[worst]:.1f} %, of {worst}")
    return {"why": found, "why_worst_unexplained_percent": judged.get(worst, 0.0)}
