"""One construct at a time, repeated in one process: what each repetition leaves in memory, in files and in the catalog.

A mixed load hides a leak of a hundred bytes a statement behind the pool's and the allocator's noise. Here a construct
runs some thousand times. After each round the process's anonymous memory is read, less what `sys.dm_os_memory_clerks` names
(pages of the pool, kept plans, versions, all of which have a bound): the slope over the later rounds is what a repetition
leaves behind.
"""

import shutil
import time
from dataclasses import dataclass
from statistics import median

from engine import Session, file_sizes, process_figures
from watch import FREE_PAGES, slope

# Rounds that warm pools, caches of plans and the allocator's arenas; they do not count.
WARMING_ROUNDS = 5
# Rounds whose slope counts.
ROUNDS = 10
# Bytes of memory that a repetition may leave, by the fit.
BYTES_EACH = 300
# The growth that must stand behind such a slope: arenas go up and down by some MB, and a full store of plans takes some 12 MB
# more than its clerk says.
GROWN_MB = 12
# Pages in use that a repetition may leave, where no row remains: one in a thousand, for a count that is just being changed.
PAGES_EACH = 0.001
# A repetition may become slower by so much; tables that grow get deeper trees, and other work is on the machine.
SLOWER = 2.5
# ... and by so many milliseconds: shorter ones are the machine's other work.
SLOWER_MS = 0.3


@dataclass
class Loop:
    """A construct. `each` runs once a repetition with `{i}` as its number, so that texts differ."""

    name: str
    each: str
    # Repetitions of a round.
    times: int = 300
    setup: str = ""
    # Numbers of errors that it may raise.
    errors: tuple = ()
    # It leaves rows, so its pages may grow.
    grows: bool = False


TABLE = "CREATE TABLE dbo.{0} (id int NOT NULL PRIMARY KEY, v int NOT NULL, s varchar(100) NULL)"

LOOPS = [
    Loop("select_1", "SELECT 1", 3000),
    Loop("distinct_texts", "SELECT {i} + 1 AS c{i}", 3000),
    Loop("long_texts", "SELECT '" + "x" * 20_000 + "{i}'", 300),
    Loop("print", "PRINT 'a{i}'", 3000),
    Loop("variables", "DECLARE @a int = {i}, @b varchar(100) = 'b'; SET @a += 1", 3000),
    Loop("inserts", "INSERT INTO dbo.ins VALUES ({i}, 1, 'abc')", 2000, TABLE.format("ins"), grows=True),
    Loop("insert_delete", "INSERT INTO dbo.insdel VALUES ({i}, 1, 'abc'); "
                          "DELETE dbo.insdel WHERE id = {i}", 1000, TABLE.format("insdel")),
    Loop("updates_by_key", "UPDATE dbo.upd SET v += 1 WHERE id = 1 + {i} % 100", 2000,
         TABLE.format("upd") + "; INSERT INTO dbo.upd SELECT value, 0, 'a' FROM GENERATE_SERIES(1, 100)"),
    Loop("window", "INSERT INTO dbo.win SELECT {i} * 100 + value, 1, REPLICATE('a', 100) FROM GENERATE_SERIES(1, 100); "
                   "DELETE dbo.win WHERE id <= {i} * 100 - 1000", 300,
         TABLE.format("win")),
    Loop("window_heap", "INSERT INTO dbo.wih SELECT {i} * 100 + value, 'abc' FROM GENERATE_SERIES(1, 100); "
                        "DELETE dbo.wih WHERE id <= {i} * 100", 300,
         "CREATE TABLE dbo.wih (id int NOT NULL, s varchar(100) NULL)"),
    Loop("rollback", "BEGIN TRAN; UPDATE dbo.rol SET v += 1; ROLLBACK", 300,
         TABLE.format("rol") + "; INSERT INTO dbo.rol SELECT value, 0, 'a' FROM GENERATE_SERIES(1, 1000)"),
    Loop("savepoints", "BEGIN TRAN; SAVE TRAN s{i}; UPDATE dbo.sav SET v += 1 WHERE id = 1; ROLLBACK TRAN s{i}; COMMIT", 1000,
         TABLE.format("sav") + "; INSERT INTO dbo.sav VALUES (1, 0, '')"),
    Loop("snapshot", "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT COUNT(*) FROM dbo.sna; COMMIT; "
                     "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; UPDATE dbo.sna SET v += 1", 300,
         TABLE.format("sna") + "; INSERT INTO dbo.sna SELECT value, 0, 'a' FROM GENERATE_SERIES(1, 100)"),
    Loop("create_drop_table", TABLE.format("t{i}") + "; INSERT INTO dbo.t{i} VALUES (1, 1, ''); DROP TABLE dbo.t{i}", 150),
    Loop("create_drop_same_table", TABLE.format("same") + "; INSERT INTO dbo.same VALUES (1, 1, ''); DROP TABLE dbo.same", 150),
    Loop("select_into", "SELECT value AS id INTO dbo.into{i} FROM GENERATE_SERIES(1, 2000); DROP TABLE dbo.into{i}", 150),
    Loop("select_into_read", "SELECT value AS id INTO dbo.read{i} FROM GENERATE_SERIES(1, 2000); "
                             "EXEC('SELECT COUNT(*) FROM dbo.read{i} WHERE id > 5'); DROP TABLE dbo.read{i}", 150),
    Loop("temp_table", "CREATE TABLE #t{i} (id int PRIMARY KEY, v int); INSERT INTO #t{i} VALUES (1, 1); DROP TABLE #t{i}", 300),
    Loop("temp_table_same", "CREATE TABLE #t (id int, v int); INSERT INTO #t VALUES (1, 1); SELECT * FROM #t; DROP TABLE #t", 300),
    Loop("table_variable", "DECLARE @t TABLE (id int PRIMARY KEY, v int); INSERT INTO @t VALUES (1, 1); SELECT * FROM @t", 300),
    Loop("create_drop_index", "CREATE INDEX ix{i} ON dbo.idx (v); DROP INDEX ix{i} ON dbo.idx", 100,
         TABLE.format("idx") + "; INSERT INTO dbo.idx SELECT value, value, 'a' FROM GENERATE_SERIES(1, 1000)"),
    Loop("rebuild", "ALTER INDEX ALL ON dbo.reb REBUILD", 100,
         TABLE.format("reb") + "; INSERT INTO dbo.reb SELECT value, value, 'a' FROM GENERATE_SERIES(1, 1000)"),
    Loop("alter_table", "ALTER TABLE dbo.alt ADD c{i} int NULL; ALTER TABLE dbo.alt DROP COLUMN c{i}", 60,
         TABLE.format("alt") + "; INSERT INTO dbo.alt SELECT value, value, 'a' FROM GENERATE_SERIES(1, 100)"),
    Loop("truncate_load", "INSERT INTO dbo.tru SELECT value, value, 'a' FROM GENERATE_SERIES(1, 2000); TRUNCATE TABLE dbo.tru", 100,
         TABLE.format("tru")),
    Loop("statistics", "CREATE STATISTICS st{i} ON dbo.sta (v); UPDATE STATISTICS dbo.sta; DROP STATISTICS dbo.sta.st{i}", 60,
         TABLE.format("sta") + "; INSERT INTO dbo.sta SELECT value, value, 'a' FROM GENERATE_SERIES(1, 1000)"),
    Loop("procedure", "EXEC('CREATE PROCEDURE dbo.p{i} @a int AS SELECT @a + 1'); EXEC dbo.p{i} 5; DROP PROCEDURE dbo.p{i}", 150),
    Loop("view", "EXEC('CREATE VIEW dbo.v{i} AS SELECT 1 AS one'); SELECT * FROM dbo.v{i}; DROP VIEW dbo.v{i}", 150),
    Loop("sequence", "CREATE SEQUENCE dbo.q{i}; SELECT NEXT VALUE FOR dbo.q{i}; DROP SEQUENCE dbo.q{i}", 150),
    Loop("schema", "EXEC('CREATE SCHEMA s{i}'); EXEC('DROP SCHEMA s{i}')", 150),
    Loop("partition", "CREATE PARTITION FUNCTION f{i} (int) AS RANGE RIGHT FOR VALUES (10, 20); "
                      "CREATE PARTITION SCHEME g{i} AS PARTITION f{i} ALL TO "
                      "([PRIMARY]); CREATE TABLE dbo.pt{i} (id int NOT NULL PRIMARY KEY) ON g{i} (id); "
                      "INSERT INTO dbo.pt{i} VALUES (5), (15), (25); "
                      "DROP TABLE dbo.pt{i}; DROP PARTITION SCHEME g{i}; DROP PARTITION FUNCTION f{i}", 60),
    Loop("split_merge", "ALTER PARTITION SCHEME spg NEXT USED [PRIMARY]; ALTER PARTITION FUNCTION spf() SPLIT RANGE (55); "
                        "ALTER PARTITION FUNCTION spf() MERGE RANGE (55)", 60,
         "CREATE PARTITION FUNCTION spf (int) AS RANGE RIGHT FOR VALUES (10, 100); CREATE PARTITION SCHEME spg AS PARTITION spf "
         "ALL TO ([PRIMARY])\nGO\n"
         "CREATE TABLE dbo.sp (id int NOT NULL PRIMARY KEY) ON spg (id); INSERT INTO dbo.sp SELECT value FROM GENERATE_SERIES(1, "
         "200)"),
    Loop("database", "CREATE DATABASE d{i}; DROP DATABASE d{i}", 6),
    Loop("database_used", "CREATE DATABASE e{i}; EXEC('USE e{i}; CREATE TABLE dbo.t (id int PRIMARY KEY); "
                          "INSERT INTO dbo.t VALUES (1)'); DROP DATABASE e{i}", 6),
    Loop("offline_online", "ALTER DATABASE away SET OFFLINE; ALTER DATABASE away SET ONLINE; EXEC('USE away; "
                           "INSERT INTO dbo.t VALUES (1)')", 10,
         "CREATE DATABASE away\nGO\nUSE away\nGO\nCREATE TABLE dbo.t (id int)\nGO\nUSE loops"),
    Loop("add_remove_file", "ALTER DATABASE loops ADD FILE (NAME = f{i}, SIZE = 1MB); ALTER DATABASE loops REMOVE FILE f{i}; "
                            "CHECKPOINT", 6),
    Loop("checkpoint", "UPDATE dbo.chk SET v += 1; CHECKPOINT", 50,
         TABLE.format("chk") + "; INSERT INTO dbo.chk VALUES (1, 0, '')"),
    Loop("checkdb", "DBCC CHECKDB WITH NO_INFOMSGS", 10),
    Loop("duplicate_key", "INSERT INTO dbo.dup VALUES (1, {i}, "
                          "'')", 1000, TABLE.format("dup") + "; INSERT INTO dbo.dup VALUES (1, 0, '')", errors=(2627, )),
    Loop("wrong_name", "SELECT * FROM dbo.nothing{i}", 1000, errors=(208, )),
    Loop("syntax_error", "SELEKT {i}", 1000, errors=(102, 156, 2812)),
    Loop("divide_by_zero", "SELECT 1 / ({i} - {i})", 1000, errors=(8134, )),
    Loop("doomed", "BEGIN TRY BEGIN TRAN; UPDATE dbo.doo SET v += 1; SELECT CAST('x{i}' AS int); "
                   "COMMIT END TRY BEGIN CATCH ROLLBACK END CATCH", 300,
         TABLE.format("doo") + "; INSERT INTO dbo.doo VALUES (1, 0, '')"),
    Loop("long_values", "UPDATE dbo.lon SET s = REPLICATE(CAST('a' AS varchar(max)), 60000) WHERE id = 1; "
                        "UPDATE dbo.lon SET s = 'b' WHERE id = 1", 100,
         "CREATE TABLE dbo.lon (id int PRIMARY KEY, s varchar(max)); INSERT INTO dbo.lon VALUES (1, '')"),
    Loop("sort_join", "SELECT TOP (1) a.value FROM GENERATE_SERIES(1, 5000) AS a JOIN GENERATE_SERIES(1, 5000) AS b ON a.value = "
                      "b.value "
                      "ORDER BY a.value % 97, b.value + {i}", 60),
    Loop("missing_index", "SELECT COUNT(*) FROM dbo.mis WHERE v = {i}", 500,
         TABLE.format("mis") + "; INSERT INTO dbo.mis SELECT value, value, 'a' FROM GENERATE_SERIES(1, 20000)"),
    Loop("views", "SELECT COUNT(*) FROM sys.dm_os_wait_stats; SELECT COUNT(*) FROM sys.dm_exec_query_stats; "
                  "SELECT COUNT(*) FROM sys.objects", 50),
    Loop("nested_transactions", "BEGIN TRAN; BEGIN TRAN; COMMIT; COMMIT", 1000),
    Loop("settings", "EXEC sp_configure 'max degree of parallelism', 1; RECONFIGURE; "
                     "EXEC sp_configure 'max degree of parallelism', 0; RECONFIGURE", 30),
    Loop("merge", "MERGE dbo.mer AS t USING (VALUES ({i}, 5)) AS s (id, v) ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v "
                  "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v, ''); DELETE dbo.mer", 300, TABLE.format("mer")),
    Loop("identity", "INSERT INTO dbo.ide DEFAULT VALUES; "
                     "DELETE dbo.ide", 1000, "CREATE TABLE dbo.ide (id int IDENTITY PRIMARY KEY)"),
    Loop("executesql", "EXEC sp_executesql N'SELECT @a + {i}', N'@a int', 5", 1000),
    Loop("while_loop_same_text", "DECLARE @i int = 0; WHILE @i < 500 BEGIN SET @i += 1; "
                                 "UPDATE dbo.whi SET v += 1 WHERE id = 1 END", 10,
         TABLE.format("whi") + "; INSERT INTO dbo.whi VALUES (1, 0, '')"),
]


def clerks_kb(session):
    """What the engine's own accounts say, by name."""
    answer = session.ask("SELECT '@clerk', name, pages_kb FROM sys.dm_os_memory_clerks")
    return {row[1]: int(row[2]) for row in answer.rows if len(row) == 3}


def pages_used(session):
    """Pages in use of all tables, the system's included, of the database and of tempdb."""
    answer = session.ask("SELECT '@pages', (SELECT SUM(used_page_count) FROM sys.dm_db_partition_stats) + "
                         "(SELECT SUM(used_page_count) FROM tempdb.sys.dm_db_partition_stats)")
    return answer.numbers("pages")[0]


def run_loop(options, folder, loop):
    """Runs a loop in a new instance; its figures."""
    session = Session(options.hobt, folder, options.memory, options.timeout)
    try:
        session.must("CREATE DATABASE loops\nGO\nALTER DATABASE loops SET ALLOW_SNAPSHOT_ISOLATION ON\nGO\nUSE loops")
        if loop.setup:
            session.must(loop.setup)
        anonymous, named, pages, data, seconds, unexpected = [], [], [], [], [], set()
        number = 0
        for _ in range(WARMING_ROUNDS + ROUNDS):
            start = time.perf_counter()
            batches = []
            for _ in range(max(1, int(loop.times * options.loop_scale))):
                number += 1
                batches.append(loop.each.replace("{i}", str(number)))
            answer = session.ask("\nGO\n".join(batches))
            seconds.append(time.perf_counter() - start)
            unexpected |= {error for error in answer.errors if error[0] not in loop.errors}
            anonymous.append(process_figures(session.pid)["anonymous_mb"])
            pages.append(pages_used(session))
            clerks = clerks_kb(session)
            named.append(sum(kb for name, kb in clerks.items() if name != FREE_PAGES) / 1024)
            sizes = file_sizes(folder)
            data.append(sizes["data_mb"] + sizes["tempdb_mb"])
        files = process_figures(session.pid)["open_files"]
        code, _ = session.close()
    except Exception:
        session.kill()
        raise
    each = max(1, int(loop.times * options.loop_scale))
    kept = [whole - part for whole, part in zip(anonymous, named)][WARMING_ROUNDS:]
    rounds = list(range(ROUNDS))
    bytes_each = slope(rounds, kept) * (1 << 20) / each
    pages_each = slope(rounds, pages[WARMING_ROUNDS:]) / each
    grown_mb = median(kept[-3:]) - median(kept[:3])
    first, last = sum(seconds[1:4]) / 3, sum(seconds[-3:]) / 3
    misses = [what for what, is_missed in (
        ("memory", bytes_each > BYTES_EACH and grown_mb > GROWN_MB),
        ("pages", pages_each > PAGES_EACH and not loop.grows),
        ("slower", last > SLOWER * first and (last - first) / each * 1000 > SLOWER_MS),
    ) if is_missed]
    return {
        "misses": misses,
        "name": loop.name,
        "repetitions": each * ROUNDS,
        "bytes_each": bytes_each,
        "grown_mb": grown_mb,
        "pages_each": pages_each,
        "pages": pages,
        "anonymous_mb": anonymous,
        "named_mb": named,
        "data_mb": data,
        "ms_each_first": first / each * 1000,
        "ms_each_last": last / each * 1000,
        "open_files": files,
        "clerks_kb": clerks,
        "exit_code": code,
        "unexpected": sorted(unexpected)[:3],
    }


def run(options, folder):
    """All loops, one after the other; the report's entry."""
    chosen = [loop for loop in LOOPS if not options.loop or loop.name in options.loop]
    print(f"{'loop':<24}{'times':>8}{'bytes each':>12}{'MB grown':>10}{'pages each':>12}{'ms first':>10}{'ms last':>9}{'files':>7}", flush=True)
    results = []
    for loop in chosen:
        place = folder / "loop"
        try:
            found = run_loop(options, place, loop)
        except Exception as error:  # One loop that fails is a finding, not the end of the others.
            print(f"{loop.name:<24} FAILED: {str(error)[:600]}", flush=True)
            results.append({"name": loop.name, "failed": str(error)})
            continue
        finally:
            shutil.rmtree(place, ignore_errors=True)
        results.append(found)
        print(f"{found['name']:<24}{found['repetitions']:>8,}{found['bytes_each']:>12,.0f}{found['grown_mb']:>10.2f}"
              f"{found['pages_each']:>12.4f}{found['ms_each_first']:>10.3f}{found['ms_each_last']:>9.3f}"
              f"{found['open_files']:>7}  {'NOT MET: ' + ', '.join(found['misses']) if found['misses'] else ''} "
              f"{found['unexpected'] or ''}", flush=True)
    return results
