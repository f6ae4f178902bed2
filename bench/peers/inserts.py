"""Single-row inserts on hobt, PostgreSQL and SQLite, in pairs: rows a second of a loop inside each engine.

On every side a table has a random 128-bit primary key and five more columns, and a row is durable when its transaction has
committed. Both servers run the loop in themselves, one loop a connection, all at once; SQLite is a library, as hobt is.
"""

import json
import os
import pwd
import selectors
import shutil
import sqlite3
import statistics
import subprocess
import time
import uuid
from pathlib import Path

from engines import EngineError

# Rows of a transaction, where there are transactions.
TRANSACTION_ROWS = 1_000
# A row's columns beside its key.
FILLER = "a".ljust(111)

POSTGRES_SETTINGS = {
    "synchronous_commit": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "max_connections": "100",
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "listen_addresses": "''",
}

SCHEMA = """
CREATE TABLE inserts (c1 uuid PRIMARY KEY, c2 timestamp NOT NULL, c3 char(111) NOT NULL, c4 int NOT NULL, c5 int NOT NULL,
                      c6 bigint NOT NULL);
CREATE PROCEDURE insert_rows(wanted bigint, rows_of_a_transaction bigint) LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..wanted LOOP
    INSERT INTO inserts VALUES (gen_random_uuid(), clock_timestamp(), 'a', 1, 2, 42);
    IF i % rows_of_a_transaction = 0 OR i = wanted THEN
      COMMIT;
    END IF;
  END LOOP;
END
$$;
"""


def program_folder():
    """Where PostgreSQL's programs are; installs Debian's package where there are none and this may."""
    for attempt in range(2):
        folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
        if folders and (folders[-1] / "initdb").is_file():
            return folders[-1]
        found = shutil.which("initdb")
        if found:
            return Path(found).resolve().parent
        if attempt == 0 and os.geteuid() == 0 and shutil.which("apt-get"):
            print("installing PostgreSQL", flush=True)
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", "postgresql"]):
                subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    raise EngineError("PostgreSQL is missing: apt-get install postgresql")


class PostgreSQL:
    """A server of its own in a folder, reached by `psql` over a socket in that folder."""

    name = "PostgreSQL"

    def __init__(self, folder, timeout_s):
        self.programs = program_folder()
        self.folder = folder
        self.timeout_s = timeout_s
        folder.mkdir()
        # The server refuses to run as root.
        self.user = None
        if os.geteuid() == 0:
            account = next((name for name in ("postgres", "nobody") if _has_account(name)), None)
            if account is None:
                raise EngineError("PostgreSQL does not run as root, and there is no account postgres or nobody")
            self.user = pwd.getpwnam(account)
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
            # The temporary folder is its maker's alone otherwise.
            folder.parent.chmod(0o711)
        self.data = folder / "data"
        self._do("initdb", "-D", self.data, "-U", "bench", "-A", "trust", "--no-instructions", "-E", "UTF8", "--no-locale")
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in POSTGRES_SETTINGS.items())
        self._do("pg_ctl", "-D", self.data, "-l", folder / "log", "-w", "-o", f"-k {folder}", "start")
        self._query(SCHEMA)

    def _do(self, program, *arguments):
        command = [str(self.programs / program), *(str(argument) for argument in arguments)]
        # A file and no pipe, because the server that is started keeps it open.
        with open(self.folder / "output", "w+b") as output:
            result = subprocess.run(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                timeout=self.timeout_s, check=False, **self._identity(),
            )
            output.seek(0)
            printed = output.read().decode(errors="replace")
        if result.returncode != 0:
            raise EngineError(f"{program} failed ({result.returncode}): {printed}")

    def _identity(self):
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}

    def _psql(self):
        return [str(self.programs / "psql"), "-h", str(self.folder), "-U", "bench", "-d", "postgres",
                "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]

    def _query(self, text):
        result = subprocess.run(
            self._psql(), cwd=self.folder, input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=self.timeout_s, check=False, **self._identity(),
        )
        if result.returncode != 0:
            raise EngineError(f"PostgreSQL refused a batch:\n{text}\n{result.stdout.decode(errors='replace')}")
        return result.stdout.decode().strip()

    def insert(self, connections, rows, in_transactions):
        """Inserts into the emptied table, `rows` in all; rows a second."""
        self._query("TRUNCATE inserts")
        self._query("CHECKPOINT")
        each = max(1, rows // connections)
        often = TRANSACTION_ROWS if in_transactions else 1
        sessions = [
            subprocess.Popen(
                self._psql(), cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                **self._identity(),
            )
            for _ in range(connections)
        ]
        try:
            self._say(sessions, "SELECT 'ready';\n", "ready")
            start = time.perf_counter()
            self._say(sessions, f"CALL insert_rows({each}, {often});\nSELECT 'done';\n", "done")
            elapsed = time.perf_counter() - start
        finally:
            for session in sessions:
                session.stdin.close()
                try:
                    session.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    session.kill()
                    session.wait()
                session.stdout.close()
        found = int(self._query("SELECT count(*) FROM inserts"))
        if found != each * connections:
            raise EngineError(f"PostgreSQL has {found} rows, not {each * connections}")
        return found / elapsed

    def _say(self, sessions, text, answer):
        """Gives all sessions a text, and waits until each has printed a line."""
        for session in sessions:
            session.stdin.write(text.encode())
            session.stdin.flush()
        deadline = time.monotonic() + self.timeout_s
        heard = {session.stdout: b"" for session in sessions}
        with selectors.DefaultSelector() as selector:
            for stream in heard:
                selector.register(stream, selectors.EVENT_READ)
            waiting = len(heard)
            while waiting:
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise EngineError(f"PostgreSQL did not answer within {self.timeout_s} s")
                for key, _ in ready:
                    piece = os.read(key.fileobj.fileno(), 1 << 16)
                    heard[key.fileobj] += piece
                    if answer.encode() + b"\n" in heard[key.fileobj]:
                        selector.unregister(key.fileobj)
                        waiting -= 1
                    elif not piece:
                        raise EngineError(f"a session of PostgreSQL ended: {heard[key.fileobj].decode(errors='replace')}")

    def version(self):
        return self._query("SHOW server_version")

    def close(self):
        self._do("pg_ctl", "-D", self.data, "-w", "-m", "fast", "stop")


def _has_account(name):
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


class SQLite:
    """SQLite in this process: a write-ahead log that is flushed at each commit, and rows in the order of their key."""

    name = "SQLite"

    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        self.runs = 0

    def insert(self, rows):
        """Inserts into a new database, each row committed by itself; rows a second."""
        self.runs += 1
        path = self.folder / f"inserts-{self.runs}.db"
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise EngineError("SQLite keeps no write-ahead log here")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(
                "CREATE TABLE inserts (c1 BLOB PRIMARY KEY, c2 REAL NOT NULL, c3 TEXT NOT NULL, c4 INTEGER NOT NULL, "
                "c5 INTEGER NOT NULL, c6 INTEGER NOT NULL) WITHOUT ROWID"
            )
            start = time.perf_counter()
            for _ in range(rows):
                connection.execute(
                    "INSERT INTO inserts VALUES (?, julianday('now'), ?, 1, 2, 42)", (uuid.uuid4().bytes, FILLER)
                )
            elapsed = time.perf_counter() - start
            (found,) = connection.execute("SELECT COUNT(*) FROM inserts").fetchone()
        finally:
            connection.close()
        if found != rows:
            raise EngineError(f"SQLite has {found} rows, not {rows}")
        for left in self.folder.iterdir():
            left.unlink()
        return rows / elapsed

    def version(self):
        return sqlite3.sqlite_version


class Hobt:
    """The laboratory's INSERT challenge, one case a run, in an instance of its own."""

    name = "hobt"

    def __init__(self, binary, folder, timeout_s):
        self.binary = binary
        self.folder = folder
        self.timeout_s = timeout_s

    def insert(self, connections, rows, in_transactions):
        """Inserts into an empty table, `rows` in all; rows a second."""
        case = f"newid_{connections}_{'tx' if in_transactions else 'auto'}"
        report = self.folder.with_suffix(".json")
        command = [
            str(self.binary), "lab", "run", "inserts", "--case", case, "--rows", str(rows), "--repeat", "1",
            "--data", str(self.folder), "--json", str(report),
        ]
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=self.timeout_s,
            check=False,
        )
        if result.returncode != 0:
            raise EngineError(f"{' '.join(command)} failed:\n{result.stdout.decode(errors='replace')}")
        cases = {found["name"]: found for found in json.loads(report.read_text())["cases"]}
        return cases[case]["rows_per_s_median"]


class Pairs:
    """Rows a second of one thing on hobt and on a peer, pair by pair."""

    def __init__(self, name, peer, hobt_insert, peer_insert):
        self.name = name
        self.peer = peer
        self.inserts = (hobt_insert, peer_insert)
        self.rates = ([], [])

    def run(self, pairs):
        for pair in range(pairs):
            # Every second time in the other order.
            for side in (0, 1) if pair % 2 == 0 else (1, 0):
                os.sync()
                self.rates[side].append(self.inserts[side]())
            print(f"  {self.name} {pair + 1}/{pairs}: {self.peer} {self.rates[1][-1]:,.0f} rows/s, "
                  f"hobt {self.rates[0][-1]:,.0f} rows/s", flush=True)

    def ratios(self):
        return [ours / theirs for ours, theirs in zip(*self.rates)]

    def ratio(self):
        return statistics.median(self.ratios())

    def line(self):
        ours, theirs = (statistics.median(rates) for rates in self.rates)
        ratios = self.ratios()
        return (
            f"{self.name:<22} {self.peer} {theirs:>9,.0f} rows/s   hobt {ours:>9,.0f} rows/s   "
            f"ratio {self.ratio():.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)"
        )

    def report(self):
        return {
            "ratio_median": self.ratio(),
            "ratio_min": min(self.ratios()),
            "ratio_max": max(self.ratios()),
            f"{self.peer.lower()}_rows_per_s": self.rates[1],
            "hobt_rows_per_s": self.rates[0],
        }


def run(options, folder):
    """The whole comparison in `folder`; the report's entries."""
    rows = options.insert_rows
    hobt = Hobt(options.hobt, folder / "hobt-inserts", options.timeout)
    sqlite = SQLite(folder / "sqlite")
    print(f"inserts: {rows:,} rows committed one by one on 64 connections, {rows * 4:,} by thousands on 8, "
          f"{max(1, rows // 16):,} on 1", flush=True)
    postgres = PostgreSQL(folder / "postgresql", options.timeout)
    try:
        def of_postgres(name, connections, count, in_transactions):
            return Pairs(
                name, postgres.name,
                lambda: hobt.insert(connections, count, in_transactions),
                lambda: postgres.insert(connections, count, in_transactions),
            )

        alone = max(1, rows // 16)
        measures = [
            of_postgres("inserts_auto_64", 64, rows, False),
            of_postgres("inserts_tx_8", 8, rows * 4, True),
            Pairs("inserts_auto_1_sqlite", sqlite.name, lambda: hobt.insert(1, alone, False), lambda: sqlite.insert(alone)),
        ]
        for measure in measures:
            measure.run(options.pairs)
        versions = {"postgresql": postgres.version(), "sqlite": sqlite.version()}
    finally:
        postgres.close()
    for measure in measures:
        print(measure.line())
    return {
        **{f"{measure.name}_ratio": measure.ratio() for measure in measures},
        **{measure.name: measure.report() for measure in measures},
        "insert_versions": versions,
        "insert_settings": {"rows": rows, "pairs": options.pairs, "postgresql": POSTGRES_SETTINGS},
    }
