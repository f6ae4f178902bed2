"""DuckDB and hobt behind one face: `drop`, `build`, `run`, `query`, `count`, `version`, `close`, and a `name`.

ClickHouse, which need not be there, is in clickhouse.py.
"""

import contextlib
import csv
import io
import os
import re
import selectors
import subprocess
import threading
import time

import workload

DATABASE = "AdventureWorksDW2014"
# Stands for NULL in the exported customers; no address or name is this.
NULL_MARK = "\\N"
ERROR = re.compile(r"^Msg \d+, Level \d+", re.MULTILINE)


class EngineError(Exception):
    """An engine failed or gave what it should not; the message says which and how."""


class DuckDB:
    """DuckDB inside this process, with its database in a file."""

    name = "DuckDB"

    def __init__(self, path, threads):
        try:
            import duckdb
        except ImportError as error:
            raise EngineError("DuckDB is missing: pip install duckdb") from error
        self.module = duckdb
        self.connection = duckdb.connect(str(path))
        self.connection.execute(f"SET threads = {threads}")

    def load_customers(self, customers):
        """Makes DimCustomer from the file of `export_customers`."""
        source = str(customers).replace("'", "''")
        self.connection.execute(
            "CREATE TABLE DimCustomer AS SELECT * FROM "
            f"read_csv('{source}', header = true, all_varchar = true, nullstr = '{NULL_MARK}', quote = '\"', escape = '\"')"
        )
        self.connection.execute("CHECKPOINT")

    def drop(self):
        self.connection.execute("DROP TABLE IF EXISTS BigData")
        self.connection.execute("CHECKPOINT")

    def build(self, repeats):
        """Builds BigData and makes it durable."""
        self.connection.execute(workload.build_on_duckdb(repeats))
        self.connection.execute("CHECKPOINT")

    def run(self, statement):
        """Runs a statement; its rows, as Python has them."""
        return self.connection.execute(statement).fetchall()

    def query(self, query):
        """The one row of a query, as text."""
        (row,) = self.connection.execute(query.duckdb).fetchall()
        return [str(value) for value in row]

    def count(self, table):
        return self.connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]

    def version(self):
        return self.module.__version__

    def close(self):
        self.connection.close()


class HobtProcess:
    """`hobt sql` as a process that lives as long as the comparison, so that its buffer pool stays warm.

    Batches go to its standard input, each closed by GO, and after each a batch that prints a word of ours: what comes
    before that word is the answer. Times are taken around `query` and `build` by the wall clock; nothing is subtracted
    for the pipes or for the printing batch.
    """

    name = "hobt"

    def __init__(self, binary, folder, threads, arguments, timeout_s, database=DATABASE, output="csv"):
        self.binary = binary
        self.threads = threads
        self.timeout_s = timeout_s
        self.batches = 0
        self.buffer = b""
        self.process = subprocess.Popen(
            [str(binary), "sql", "--data", str(folder), "--format", output, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.run(f"USE {database}")

    def run(self, batch):
        """Sends a batch, waits for its end, returns what it printed; EngineError when it failed."""
        self.batches += 1
        mark = f"done-{self.batches}"
        try:
            self.process.stdin.write(f"{batch}\nGO\nPRINT '{mark}'\nGO\n".encode())
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise EngineError(f"hobt ended: {self._rest()}") from error
        printed = self._read_to(mark)
        if ERROR.search(printed):
            raise EngineError(f"hobt refused a batch:\n{batch}\n{printed}")
        return printed

    def answers(self, batches):
        """Sends batches in one piece; what each printed, errors included."""
        marks = []
        for _ in batches:
            self.batches += 1
            marks.append(f"done-{self.batches}")
        text = "".join(f"{batch}\nGO\nPRINT '{mark}'\nGO\n" for batch, mark in zip(batches, marks)).encode()
        # Both pipes are short: nobody may wait for one while the other is full.
        writer = threading.Thread(target=self._write, args=(text,), daemon=True)
        writer.start()
        printed = [self._read_to(mark) for mark in marks]
        writer.join()
        return printed

    def _write(self, text):
        # Of a process that has ended the reader says what it printed.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.process.stdin.write(text)
            self.process.stdin.flush()

    def _read_to(self, mark):
        pattern = re.compile(rb"^[^\n]*\b" + mark.encode() + rb"\b[^\n]*\r?\n", re.MULTILINE)
        deadline = time.monotonic() + self.timeout_s
        while True:
            found = pattern.search(self.buffer)
            if found:
                printed = self.buffer[: found.start()].decode(errors="replace")
                self.buffer = self.buffer[found.end():]
                return printed
            if not self.selector.select(max(0.0, deadline - time.monotonic())):
                raise EngineError(f"hobt did not answer within {self.timeout_s} s; it printed so far: {self.buffer[-2000:]}")
            piece = os.read(self.process.stdout.fileno(), 1 << 16)
            if not piece:
                raise EngineError(f"hobt ended: {self._rest()}")
            self.buffer += piece

    def _rest(self):
        self.process.wait(timeout=30)
        return f"status {self.process.returncode}, {self.buffer[-2000:].decode(errors='replace')}"

    def drop(self):
        self.run("DROP TABLE IF EXISTS dbo.BigData")

    def build(self, repeats):
        """Builds BigData and makes it durable."""
        self.run(workload.build_on_hobt(repeats, self.threads))
        self.run("CHECKPOINT")

    def query(self, query):
        """The one row of a query, as text."""
        return self._row(f"{query.tsql} OPTION (MAXDOP {self.threads})", query.columns)

    def _row(self, batch, columns):
        printed = self.run(batch)
        rows = rows_of_csv(printed, columns)
        if not rows:
            raise EngineError(f"hobt gave no row of {columns} columns:\n{batch}\n{printed}")
        return rows[-1]

    def count(self, table):
        # Of two columns, so that no message can be taken for the row.
        return int(self._row(f"SELECT 'rows', COUNT_BIG(*) FROM dbo.{table}", 2)[1])

    def physical_reads(self, query):
        """Pages that the query reads from the disk, by SET STATISTICS IO; 0 when all are in memory."""
        self.run("SET STATISTICS IO ON")
        printed = self.run(f"{query.tsql} OPTION (MAXDOP {self.threads})")
        self.run("SET STATISTICS IO OFF")
        found = re.findall(r"(?:physical|read-ahead) reads (\d+)", printed)
        if not found:
            raise EngineError(f"SET STATISTICS IO ON printed no physical reads:\n{printed}")
        return sum(int(pages) for pages in found)

    def version(self):
        result = subprocess.run([str(self.binary), "--version"], stdout=subprocess.PIPE, text=True, check=False)
        return result.stdout.strip() or "unknown"

    def close(self):
        """Ends the process by the end of its input, and by force when that does not help."""
        self.selector.close()
        try:
            self.process.stdin.close()
            self.process.wait(timeout=60)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        finally:
            self.process.stdout.close()


def rows_of_csv(text, columns):
    """The lines of `text` that are CSV rows of so many fields, a line of column names among them."""
    return [row for row in csv.reader(io.StringIO(text)) if len(row) == columns]


def run_hobt(binary, arguments, timeout_s):
    """Runs the binary to its end; returns its standard output."""
    command = [str(binary), *arguments]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise EngineError(f"{' '.join(command)} took more than {timeout_s} s") from error
    output = result.stdout.decode(errors="replace")
    if result.returncode != 0 or ERROR.search(output):
        raise EngineError(f"{' '.join(command)} failed ({result.returncode}):\n{output}{result.stderr.decode(errors='replace')}")
    return output


def make_fixtures(binary, folder, timeout_s, *more):
    """Has hobt create its instance with DimCustomer in it, and what the arguments `more` say."""
    run_hobt(binary, ["lab", "fixtures", "--data", str(folder), *more], timeout_s)


def export_customers(binary, folder, path, timeout_s):
    """Writes hobt's DimCustomer as CSV to `path`, so that both engines start from one table; returns its row count."""
    columns = workload.CUSTOMER_COLUMNS
    select = ", ".join(f"ISNULL({name}, N'{NULL_MARK}') AS {name}" for name in columns)
    query = f"SELECT {select} FROM {DATABASE}.dbo.DimCustomer"
    output = run_hobt(binary, ["sql", "--data", str(folder), "-Q", query, "--format", "csv"], timeout_s)
    rows = [row for row in rows_of_csv(output, len(columns)) if tuple(row) != columns]
    if not rows:
        raise EngineError(f"hobt exported no customer; it printed:\n{output[:2000]}")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return len(rows)
