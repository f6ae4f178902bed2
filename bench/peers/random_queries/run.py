"""Sends random queries to hobt and DuckDB, and compares the answers.

Each query is sent to hobt with one worker, with all, and in one or two other orders of joins: the written one (FORCE ORDER), sources of each FROM
exchanged, both. The first answer is compared with DuckDB's, the others with the first. Some queries go to hobt in one piece, so that the pipe
costs little.
"""

import multiprocessing
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from random import Random
from typing import NamedTuple

from engine_set import create_database
from engines import DuckDB, EngineError, HobtProcess

from .answer import DECIDES_NOTHING, difference, read_duckdb, read_hobt, same
from .query import ANSWER_ROWS, Queries
from .world import BIG_ROWS, SCHEME, SEEDS_OF_A_WORLD, big_table, tables_of

DATABASE = "random_queries"
# Queries that go to hobt in one piece, and how often progress is said.
AT_ONCE = 25
MEMORY_MB = "1024"
# Orders of joins that a query of few sources is sent in, beside the chosen one; any other is sent in one.
FEW_SOURCES, ORDERS = 3, 2
# Rows that an order of joins may make which is another than the one drawn, and which hobt has to keep.
PAIRS = 50_000_000
# Failures that are printed with their scripts.
FAILURES_SHOWN = 20
# AVG of decimals is cut off behind six digits in T-SQL, and a float in DuckDB: here it is made of the digits of the sum.
AVERAGE = (
    "CREATE MACRO average_6(total, many) AS CAST(CAST(replace(CAST(CAST(total AS DECIMAL(38, 6)) AS VARCHAR), '.', '') AS HUGEINT) // many "
    "AS DECIMAL(38, 0)) * 0.000001"
)
KEYS = f"CREATE PARTITION FUNCTION {SCHEME}(int) AS RANGE RIGHT FOR VALUES (1, 20, 100, 1000)"
ON_KEYS = f"CREATE PARTITION SCHEME {SCHEME} AS PARTITION {SCHEME} ALL TO ([PRIMARY])"


class Case(NamedTuple):
    """A query of a seed, its texts for hobt by what is particular to them, that for DuckDB, and DuckDB's answer."""

    seed: int
    tables: frozenset
    kinds: list
    is_ordered: bool
    tsql: dict
    duckdb: str
    theirs: object


class Tally:
    """What happened."""

    def __init__(self):
        self.queries = self.statements = self.compared = self.alone = self.rows = self.on_big = 0
        # Errors that decide nothing: numbers of hobt, names of DuckDB's.
        self.errors = Counter()
        self.undecided = 0
        self.failures = []

    def add(self, other):
        for name in ("queries", "statements", "compared", "alone", "rows", "on_big", "undecided"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.errors += other.errors
        self.failures += other.failures


class World:
    """The tables of a group of seeds in both engines."""

    def __init__(self, number):
        self.number = number
        self.big = big_table(Random("the big table"))
        self.tables = tables_of(Random(f"world {number}"))

    def scripts(self, names):
        """The statements that make the tables of these names, for hobt and for DuckDB."""
        some = [table for table in (*self.tables, self.big) if table.name in names]
        tsql = [KEYS, ON_KEYS] + [statement for table in some for statement in table.tsql]
        return tsql, [AVERAGE] + [statement for table in some for statement in table.duckdb]

    def load(self, duckdb, hobt, has_big):
        """Makes the tables anew, and the big one where it is not there yet."""
        for table in self.tables if has_big else (self.big, *self.tables):
            duckdb.run(f"DROP TABLE IF EXISTS {table.name}")
            for statement in table.duckdb:
                duckdb.run(statement)
            hobt.run("\nGO\n".join([f"DROP TABLE IF EXISTS {table.name}", *table.tsql]))


def draw(seed, world, attempt=0):
    """The statement of a seed."""
    return Queries(Random(f"query {seed} {attempt}"), world.tables, world.big).statement()


def case_of(seed, world, duckdb, threads):
    """The query of a seed with DuckDB's answer. Where that has no rows, another is drawn most often: joins of many tables tend to have none."""
    attempts = Random(f"attempts {seed}").choice((1, 3, 3, 3))
    for attempt in range(attempts):
        statement = draw(seed, world, attempt)
        theirs = read_duckdb(duckdb, statement.written().duckdb, statement.kinds, ANSWER_ROWS)
        if theirs is None or theirs.error or theirs.rows:
            break
    query, kinds, is_ordered = None, statement.kinds, statement.is_ordered
    if theirs is None:
        # It has many rows, which are counted and summed instead.
        query, kinds, is_ordered = statement.digest(), statement.digest_kinds(), False
        theirs = read_duckdb(duckdb, statement.written(query).duckdb, kinds, ANSWER_ROWS)
    written = statement.written(query)
    tsql = {"one worker": f"{written.tsql} OPTION (MAXDOP 1)", f"{threads} workers": f"{written.tsql} OPTION (MAXDOP {threads})"}
    if statement.is_joined:
        random = Random(f"order {seed}")
        turned = statement.turned(random, query).tsql
        orders = {
            "joins as written": f"{written.tsql} OPTION (FORCE ORDER)",
            "sources in another order": turned,
            "sources in another order, joined as written": f"{turned} OPTION (FORCE ORDER)",
        }
        if statement.pairs > PAIRS:
            del orders["sources in another order, joined as written"]
        # Planning many joins takes long.
        some = ORDERS if statement.sources <= FEW_SOURCES else 1
        tsql |= {what: orders[what] for what in random.sample(sorted(orders), some)}
    return Case(seed, statement.tables, kinds, is_ordered, tsql, written.duckdb, theirs)


def judge(case, world, sections, tally):
    """Compares what hobt printed for each text of a case with DuckDB's answer and with each other."""
    answers = {what: read_hobt(section, case.kinds) for what, section in zip(case.tsql, sections)}
    tally.queries += 1
    tally.statements += len(answers)
    tally.on_big += "big" in case.tables
    errors = {answer.error for answer in (*answers.values(), case.theirs) if answer.error is not None}
    wrong = []
    for what, answer in answers.items():
        if answer.error is not None and answer.error not in DECIDES_NOTHING:
            wrong.append((what, f"hobt: {answer.text}"))
    if case.theirs.error is not None and case.theirs.error not in DECIDES_NOTHING:
        wrong.append(("DuckDB", f"DuckDB: {case.theirs.text}"))
    for error in errors:
        tally.errors[str(error)] += 1
    tally.undecided += bool(errors)
    sound = [(what, answer) for what, answer in answers.items() if answer.error is None]
    if sound:
        first, answer = sound[0]
        tally.rows += len(answer.rows)
        for what, other in sound[1:]:
            if not same(answer, other, case.is_ordered):
                wrong.append((f"{first} and {what}", difference(answer, other, "hobt", "hobt")))
        tally.alone += len(sound) - 1
        if case.theirs.error is None:
            tally.compared += 1
            if not same(case.theirs, answer, case.is_ordered):
                wrong.append((f"DuckDB and {first}", difference(case.theirs, answer, "DuckDB", "hobt")))
    if wrong:
        tally.failures.append((case.seed, [what for what, _ in wrong]))
        if len(tally.failures) <= FAILURES_SHOWN:
            print(failure(case, world, wrong), flush=True)


def failure(case, world, wrong):
    """What is wrong with a case, and the scripts that show it."""
    tsql, duckdb = world.scripts(case.tables)
    lines = [f"random: seed {case.seed} failed"]
    lines += [f"  {what}: {found}" for what, found in wrong]
    lines.append(f"-- T-SQL of seed {case.seed}")
    lines += [f"{statement}\nGO" for statement in tsql]
    lines += [f"-- {what}\n{text}\nGO" for what, text in case.tsql.items()]
    lines.append(f"-- DuckDB of seed {case.seed}")
    lines += [f"{statement};" for statement in (*duckdb, case.duckdb)]
    return "\n".join(lines)


class Engines:
    """One hobt and one DuckDB, opened again when one of them ends."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        folder.mkdir()
        create_database(options, folder / "hobt", DATABASE)
        self.hobt, self.duckdb = self._open_hobt(), self._open_duckdb()
        self.hobt.run(f"{KEYS}\nGO\n{ON_KEYS}")
        self.world = None

    def _open_hobt(self):
        arguments = self.options.hobt_arg
        if "--memory" not in arguments:
            # Without it each instance takes half of the machine's.
            arguments = ["--memory", MEMORY_MB, *arguments]
        hobt = HobtProcess(self.options.hobt, self.folder / "hobt", self.options.threads, arguments, self.options.timeout, DATABASE, "jsonl")
        hobt.run("SET NOCOUNT ON")
        return hobt

    def _open_duckdb(self):
        duckdb = DuckDB(":memory:", 1)
        duckdb.run("SET enable_progress_bar = false")
        duckdb.run(AVERAGE)
        return duckdb

    def load(self, world):
        world.load(self.duckdb, self.hobt, self.world is not None)
        self.world = world

    def open_duckdb_again(self):
        """After an error that ends a database of DuckDB's."""
        self.duckdb = self._open_duckdb()
        for table in (self.world.big, *self.world.tables):
            for statement in table.duckdb:
                self.duckdb.run(statement)

    def open_hobt_again(self):
        """After an end of the process, or none of an answer: the tables are still there."""
        # A process that hangs would leave who writes to it waiting.
        self.hobt.process.kill()
        self.hobt.close()
        self.hobt = self._open_hobt()

    def close(self):
        self.duckdb.close()
        self.hobt.close()


def answer_cases(engines, cases, tally):
    """Sends the texts of some cases to hobt, and judges the answers."""
    texts = [text for case in cases for text in case.tsql.values()]
    try:
        sections = iter(engines.hobt.answers(texts))
    except EngineError as error:
        engines.open_hobt_again()
        if len(cases) == 1:
            tally.queries += 1
            tally.failures.append((cases[0].seed, ["hobt ended"]))
            print(failure(cases[0], engines.world, [("hobt", str(error))]), flush=True)
            return
        # Which one it was shows when each is sent alone.
        for case in cases:
            answer_cases(engines, [case], tally)
        return
    for case in cases:
        judge(case, engines.world, [next(sections) for _ in case.tsql], tally)


def run_share(options, folder, share):
    """The worlds of one process: the seeds of each, first and one behind the last."""
    tally, started, shown = Tally(), time.monotonic(), 0
    with closing(Engines(options, folder)) as engines:
        for first, end in share:
            engines.load(World(first // SEEDS_OF_A_WORLD))
            for start in range(first, end, AT_ONCE):
                cases = []
                for seed in range(start, min(end, start + AT_ONCE)):
                    case = case_of(seed, engines.world, engines.duckdb, options.threads)
                    if case.theirs.error in ("FatalException", "InternalException"):
                        engines.open_duckdb_again()
                    cases.append(case)
                answer_cases(engines, cases, tally)
            if tally.queries - shown >= 2_000:
                shown = tally.queries
                print(f"random: {shown:,} queries of one process in {time.monotonic() - started:.0f} s, {len(tally.failures)} failures", flush=True)
    return tally


def shares(first, queries, processes):
    """The seeds by worlds, dealt to processes."""
    worlds, end = [], first + queries
    while first < end:
        after = min(end, (first // SEEDS_OF_A_WORLD + 1) * SEEDS_OF_A_WORLD)
        worlds.append((first, after))
        first = after
    return [share for share in (worlds[process::processes] for process in range(processes)) if share]


def run(options, folder):
    """The comparison in `folder`; the report's entries."""
    folder = folder / "random"
    folder.mkdir()
    started, seed, queries = time.monotonic(), options.seed, options.queries
    processes = options.processes or os.cpu_count() or 1
    print(f"random: {queries:,} queries from seed {seed}, {processes} processes, {options.threads} workers", flush=True)
    tally, parts = Tally(), shares(seed, queries, processes)
    # DuckDB's threads do not live through a fork.
    with ProcessPoolExecutor(len(parts), mp_context=multiprocessing.get_context("spawn")) as pool:
        for part in pool.map(run_share, *zip(*[(options, folder / str(number), share) for number, share in enumerate(parts)])):
            tally.add(part)
    seconds = time.monotonic() - started
    errors = ", ".join(f"{many:,} of {error}" for error, many in tally.errors.most_common()) or "none"
    print(
        f"random       {tally.queries:,} queries ({tally.statements:,} statements of hobt, {tally.rows:,} rows) in {seconds:.0f} s: "
        f"{tally.compared:,} answers compared with DuckDB's and {tally.alone:,} with hobt's own; "
        f"{tally.undecided:,} queries with errors that decide nothing ({errors}); {len(tally.failures)} failures", flush=True,
    )
    if tally.failures:
        print("random: failed seeds: " + ", ".join(str(seed) for seed, _ in sorted(tally.failures)[:200]), file=sys.stderr, flush=True)
    return {
        "random_queries": tally.queries,
        "random_statements": tally.statements,
        "random_compared": tally.compared,
        "random_compared_alone": tally.alone,
        "random_undecided": tally.undecided,
        "random_errors": dict(tally.errors),
        "random_failures": len(tally.failures),
        "random_failed_seeds": sorted(seed for seed, _ in tally.failures),
        "random_on_big": tally.on_big,
        "random_settings": {
            "seed": seed, "processes": processes, "threads": options.threads, "seconds": seconds, "big_rows": BIG_ROWS,
        },
    }
