"""A session of `hobt sql` over a pipe, and what one may ask the system about its process."""

import csv
import io
import os
import re
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

# The first line of an error; the next line has its text.
ERROR = re.compile(r"^Msg (\d+), Level (\d+), State \d+.*\n(.*)", re.MULTILINE)
# Rows that a query wants to be found begin with this cell.
MARK = "@"


class Died(Exception):
    """The process ended while it was asked something. `status` is what it ended with, `printed` what it said last."""

    def __init__(self, status, printed):
        super().__init__(f"the process ended with status {status}; it printed last: {printed[-1500:]}")
        self.status = status
        self.printed = printed


class Hung(Exception):
    """A batch has not ended within the time it may take."""


@dataclass
class Answer:
    """What a batch printed: its marked rows, its errors as (number, text), and the seconds it took."""

    printed: str
    seconds: float
    errors: list = field(default_factory=list)
    rows: list = field(default_factory=list)

    def row(self, name):
        """The cells behind the mark of the one row of this name; None when there is none."""
        found = [row[1:] for row in self.rows if row[0] == MARK + name]
        return found[0] if len(found) == 1 else None

    def numbers(self, name):
        row = self.row(name)
        return None if row is None else [int(cell or 0) for cell in row]


class Session:
    """A process of `hobt sql` with its one session. Batches go in by a pipe, and a printed word ends each answer."""

    def __init__(self, binary, folder, memory_mb, timeout_s, database=None):
        self.timeout_s = timeout_s
        self.batches = 0
        self.buffer = bytearray()
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            [str(binary), "sql", "--data", str(folder), "--memory", str(memory_mb), "--format", "csv"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        # What is asked may be longer than the pipe takes while the answer is not read: both go on by turns.
        os.set_blocking(self.process.stdin.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        if database:
            # A database that must be recovered is recovered here, so this is also the first wait.
            self.must(f"USE {database}")

    @property
    def pid(self):
        return self.process.pid

    def ask(self, batch, timeout_s=None):
        """Runs a batch and returns its answer, errors included. Died or Hung when there is none."""
        self.batches += 1
        mark = f"answered-{self.batches}"
        start = time.perf_counter()
        printed = self._exchange(f"{batch}\nGO\nPRINT '{mark}'\nGO\n".encode(), mark, timeout_s or self.timeout_s)
        seconds = time.perf_counter() - start
        errors = [(int(number), text) for number, level, text in ERROR.findall(printed) if int(level) > 10]
        rows = []
        if MARK in printed:
            rows = [row for row in csv.reader(io.StringIO(printed)) if row and row[0].startswith(MARK)]
        return Answer(printed, seconds, errors, rows)

    def must(self, batch, timeout_s=None):
        """As `ask`, for a batch that may not fail."""
        answer = self.ask(batch, timeout_s)
        if answer.errors:
            raise RuntimeError(f"a batch failed that may not: {answer.errors}\n{batch[:2000]}")
        return answer

    def _exchange(self, text, mark, timeout_s):
        """Writes a text and reads up to the mark's line; what was printed before it."""
        pattern = re.compile(rb"^[^\n]*\b" + mark.encode() + rb"\b[^\n]*\r?\n", re.MULTILINE)
        deadline = time.monotonic() + timeout_s
        rest = memoryview(text)
        searched = 0
        self.selector.register(self.process.stdin, selectors.EVENT_WRITE)
        try:
            while True:
                found = pattern.search(self.buffer, searched)
                if found:
                    printed = self.buffer[: found.start()].decode(errors="replace")
                    self.buffer = self.buffer[found.end():]
                    return printed
                # The mark's line may have come in part.
                searched = self.buffer.rfind(b"\n") + 1
                ready = self.selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    last = bytes(self.buffer[-1500:]).decode(errors="replace")
                    raise Hung(f"no answer within {timeout_s} s; printed so far: {last}")
                for key, _ in ready:
                    if key.fileobj is self.process.stdin:
                        rest = rest[os.write(key.fd, rest[: 1 << 16]):]
                        if not rest:
                            self.selector.unregister(self.process.stdin)
                        continue
                    piece = os.read(key.fd, 1 << 16)
                    if not piece:
                        raise self._died()
                    self.buffer += piece
        except BrokenPipeError as error:
            raise self._died() from error
        finally:
            if rest and self.selector.get_map():
                self.selector.unregister(self.process.stdin)

    def _died(self):
        self.process.wait(timeout=60)
        try:
            # What was still in the pipe.
            while piece := os.read(self.process.stdout.fileno(), 1 << 16):
                self.buffer += piece
        except (OSError, ValueError):
            pass
        self._release()
        return Died(self.process.returncode, self.buffer.decode(errors="replace"))

    def _release(self):
        self.selector.close()
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except (BrokenPipeError, ValueError):
                pass

    def kill(self):
        """Ends the process as a crash would. Whoever waits for an answer gets Died."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)

    def close(self, by=None):
        """Ends the process by the end of its input, or by a signal; the exit code, and seconds it took."""
        start = time.monotonic()
        if by is not None:
            os.kill(self.process.pid, by)
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(timeout=self.timeout_s)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.process.wait()
            raise Hung(f"the instance did not close within {self.timeout_s} s") from error
        finally:
            self._release()
        return self.process.returncode, time.monotonic() - start


def process_figures(pid):
    """Resident bytes (of them those of no file), threads and open files of a process; None when it is gone."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
        return {
            "rss_mb": int(status["VmRSS"].split()[0]) / 1024,
            "anonymous_mb": int(status["RssAnon"].split()[0]) / 1024,
            "threads": int(status["Threads"]),
            "open_files": len(os.listdir(f"/proc/{pid}/fd")),
        }
    except (OSError, KeyError, ValueError):
        return None


def file_sizes(folder):
    """Megabytes of an instance's files by kind. A file that goes while it is looked at counts nothing."""
    sizes = {"data_mb": 0.0, "log_mb": 0.0, "tempdb_mb": 0.0, "spill_mb": 0.0, "files": 0}
    for path in Path(folder).rglob("*"):
        try:
            if not path.is_file():
                continue
            size = path.stat().st_size / (1 << 20)
        except OSError:
            continue
        if path.name.startswith("hobt."):
            continue
        sizes["files"] += 1
        if path.parent.name == "tempdb":
            sizes["spill_mb"] += size
        elif path.name == "tempdb.mdf":
            sizes["tempdb_mb"] += size
        elif path.suffix == ".ldf":
            sizes["log_mb"] += size
        else:
            sizes["data_mb"] += size
    return sizes
