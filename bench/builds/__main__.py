"""One build of hobt against another: loads, scans, TPC-H, inserts, changes and lookups, in pairs within one run.

    python3 bench/builds OLD NEW [--only tpch|scans|changes|why] [--rows N] [--scale F] [--pairs N] [--load N]

OLD and NEW are two `hobt` programs. Each keeps its own instance in a temporary folder and lives through the run. Each case
runs on both in turn, every second pair in the other order; printed are the median times and the median of the pairs' ratios,
NEW over OLD, with the least and the greatest. `why` is a cold scan in a new process for each run, by `hobt why`, with the
part of its threads' time that has no name.
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))
import workload
from engines import DATABASE, EngineError, HobtProcess, make_fixtures
from measure import geometric_mean, timed

TPCH = Path(__file__).resolve().parent.parent.parent / "tests" / "tpch"

CUSTOMERS = 18_484
TIMEOUT_S = 600
SERIES = "SELECT value, value, 'some text of a row' FROM GENERATE_SERIES(1, 300000)"


def loop(count, body, transaction=True):
    """A batch that runs `body` with @i from 0, in one transaction or without."""
    begin, end = ("BEGIN TRAN; ", "; COMMIT") if transaction else ("", "")
    return (f"SET NOCOUNT ON; DECLARE @i int = 0, @v int; {begin}"
            f"WHILE @i < {count} BEGIN {body}; SET @i += 1 END{end}")


def compare(name, engines, pairs, run, before=lambda engine: None):
    """Times `run` on both engines in turn, prints the case's line, and returns the ratio."""
    times = ([], [])
    for pair in range(pairs):
        for at in (0, 1) if pair % 2 == 0 else (1, 0):
            before(engines[at])
            times[at].append(timed(lambda at=at: run(engines[at]))[0])
    ratios = sorted(new / old for old, new in zip(*times))
    old, new = (statistics.median(each) * 1000 for each in times)
    print(f"{name:32} old {old:9.1f} ms  new {new:9.1f} ms  new/old {statistics.median(ratios):.3f} "
          f"({ratios[0]:.3f} to {ratios[-1]:.3f}), {pairs} pairs", flush=True)
    return statistics.median(ratios)


def batch(text):
    """A case that sends one batch."""
    return lambda engine: engine.run(text)


def empty(engine):
    """Drops BigData, and lets the system write what it still holds."""
    engine.drop()
    os.sync()


def scans(engines, rows, pairs):
    """Builds BigData and reads it."""
    repeats = math.ceil(rows / CUSTOMERS)
    compare("SELECT INTO, CHECKPOINT", engines, pairs, lambda engine: engine.build(repeats), empty)
    for engine in engines:
        engine.query(workload.COUNT10)
        engine.query(workload.MAXSUM)
    compare("COUNT of ten columns, warm", engines, 2 * pairs, lambda engine: engine.query(workload.COUNT10))
    compare("MAX, SUM, LEN, warm", engines, 2 * pairs, lambda engine: engine.query(workload.MAXSUM))
    compare("COUNT of ten columns, cold", engines, pairs, lambda engine: engine.query(workload.COUNT10),
            batch("CHECKPOINT; DBCC DROPCLEANBUFFERS"))
    compare("GROUP BY text", engines, pairs,
            batch("SELECT Col8, COUNT(*) AS n INTO #g FROM dbo.BigData GROUP BY Col8; DROP TABLE #g"))
    compare("join by text", engines, pairs,
            batch("SELECT COUNT_BIG(*) AS n, SUM(b.Col2) AS s FROM dbo.BigData AS b "
                  "JOIN dbo.DimCustomer AS c ON b.Col11 = c.CustomerAlternateKey"))
    compare("TOP 10 by text", engines, pairs, batch("SELECT TOP 10 Col6, Col2 FROM dbo.BigData ORDER BY Col6, Col2"))


def tpch(engines, pairs):
    """TPC-H's queries, warm."""
    ratios = []
    for path in sorted(TPCH.glob("q[0-9][0-9].sql")):
        query = batch(path.read_text())
        for engine in engines:
            query(engine)
        ratios.append(compare(f"TPC-H {path.stem}", engines, pairs, query))
    print(f"TPC-H, geometric mean of {len(ratios)}: new/old {geometric_mean(ratios):.3f}")


def changes(engines, pairs):
    """Inserts into a heap and a clustered index, changes their rows, and looks rows up."""
    for engine in engines:
        engine.run("CREATE TABLE h (id int NOT NULL, v int NOT NULL, t varchar(40) NOT NULL); "
                   "CREATE TABLE w (id int NOT NULL, v int NOT NULL, t varchar(40) NOT NULL); "
                   "CREATE TABLE c (id int NOT NULL PRIMARY KEY, v int NOT NULL); "
                   "CREATE TABLE x (id int NOT NULL PRIMARY KEY, v int NOT NULL INDEX xv, t varchar(40) NOT NULL INDEX xt)")
        engine.run("CREATE TABLE k (id int NOT NULL PRIMARY KEY, v int NOT NULL, t varchar(20) NOT NULL); "
                   "INSERT INTO k SELECT value, value, CONCAT('row', value) FROM GENERATE_SERIES(1, 1000000)")
    compare("INSERT VALUES x 40,000, heap", engines, 2 * pairs,
            batch(loop(40_000, "INSERT INTO h VALUES (@i, @i, 'some text of a row')")), batch("TRUNCATE TABLE h"))
    compare("INSERT VALUES x 40,000, clustered", engines, pairs,
            batch(loop(40_000, "INSERT INTO c VALUES (@i, @i)")), batch("TRUNCATE TABLE c"))
    compare("UPDATE by key x 20,000", engines, pairs, batch(loop(20_000, "UPDATE c SET v = v + 1 WHERE id = @i")))
    compare("INSERT SELECT 300,000, heap", engines, 2 * pairs, batch(f"INSERT INTO w {SERIES}"),
            batch("TRUNCATE TABLE w"))
    compare("INSERT SELECT 300,000, indexes", engines, 3, batch(f"INSERT INTO x {SERIES}"),
            batch("TRUNCATE TABLE x"))
    compare("DELETE 300,000, taken back", engines, 3, batch("BEGIN TRANSACTION; DELETE x; ROLLBACK"))
    compare("UPDATE 1,000,000, clustered", engines, pairs, batch("UPDATE k SET v = v + 1"))
    compare("MERGE 1,000,000, clustered", engines, pairs,
            batch("MERGE k USING (SELECT value FROM GENERATE_SERIES(1, 1000000)) s ON k.id = s.value "
                  "WHEN MATCHED THEN UPDATE SET v = v + 1;"))
    compare("DELETE 1,000,000, clustered", engines, pairs, batch("DELETE k"),
            batch("TRUNCATE TABLE k; "
                  "INSERT INTO k SELECT value, value, CONCAT('row', value) FROM GENERATE_SERIES(1, 1000000)"))
    compare("UPDATE 300,000, heap", engines, 2 * pairs, batch("UPDATE w SET v = v + 1"))
    compare("DELETE 300,000, heap", engines, pairs, batch("DELETE w"),
            batch(f"TRUNCATE TABLE w; INSERT INTO w WITH (TABLOCK) {SERIES}"))
    for engine in engines:
        engine.run(f"TRUNCATE TABLE w; INSERT INTO w {SERIES}; CREATE INDEX wx ON w (id)")
    compare("RID lookups, 60,000 rows", engines, pairs,
            batch("SELECT SUM(v) AS s FROM w WITH (FORCESEEK) WHERE id BETWEEN 1000 AND 61000"))
    compare("one row by RID x 2,000", engines, pairs,
            batch(loop(2000, "SELECT @v = v FROM w WHERE id = @i * 37", transaction=False)))


def why(binaries, folder, options):
    """A cold scan in a new process, beside `--load` busy programs."""
    query = "SELECT MAX(Col1 + Col2), MAX(LEN(Col6)), SUM(Col5) FROM dbo.BigData"
    folders = [folder / f"why-{at}" for at in (0, 1)]
    for binary, data in zip(binaries, folders):
        make_fixtures(binary, data, TIMEOUT_S, "--rows", str(options.rows))
    figures = ([], [])
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.load)]
    try:
        for pair in range(options.pairs):
            for at in (0, 1) if pair % 2 == 0 else (1, 0):
                command = [str(binaries[at]), "why", "--data", str(folders[at]), "-d", DATABASE, "--cold", "-Q", query]
                run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
                elapsed = re.search(r"^Elapsed ([\d.]+) ms", run.stdout, re.MULTILINE)
                unnamed = re.search(r"unexplained .* (-?[\d.]+) │", run.stdout)
                if not elapsed or not unnamed:
                    raise EngineError(f"hobt why gave no figures:\n{run.stdout}{run.stderr}")
                figures[at].append((float(elapsed.group(1)), float(unnamed.group(1))))
    finally:
        for program in busy:
            program.kill()
    for name, runs in zip(("old", "new"), figures):
        unnamed = sorted(each for _, each in runs)
        print(f"hobt why, cold, {options.load} busy programs: {name} {statistics.median(time for time, _ in runs):.0f} ms, "
              f"unexplained {statistics.median(unnamed):.1f} % ({unnamed[0]:.1f} to {unnamed[-1]:.1f}), {options.pairs} pairs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", choices=["tpch", "scans", "changes", "why"], help="one part alone")
    parser.add_argument("--scale", type=float, default=0.5, help="scale factor of TPC-H")
    parser.add_argument("--rows", type=int, default=6_000_000, help="rows of BigData, at least")
    parser.add_argument("--pairs", type=int, default=9, help="pairs of a case; short cases take twice as many")
    parser.add_argument("--load", type=int, default=0, help="busy programs beside `why`")
    options = parser.parse_args()
    is_asked = lambda part: options.only in (None, part)
    more = ["--tpch", str(options.scale)] if is_asked("tpch") else []
    with tempfile.TemporaryDirectory() as folder:
        if is_asked("why"):
            why((options.old, options.new), Path(folder), options)
        if options.only == "why":
            return
        engines = []
        for name, binary in (("old", options.old), ("new", options.new)):
            make_fixtures(binary, Path(folder) / name, TIMEOUT_S, *more)
            engines.append(HobtProcess(binary, Path(folder) / name, 2, ["--memory", "6000"], TIMEOUT_S))
        try:
            if is_asked("tpch"):
                tpch(engines, options.pairs)
            if is_asked("scans"):
                scans(engines, options.rows, options.pairs)
            if is_asked("changes"):
                changes(engines, options.pairs)
        finally:
            for engine in engines:
                engine.close()


if __name__ == "__main__":
    main()
