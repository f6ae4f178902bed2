"""What is sampled while the load runs, and the arithmetic on it."""

import os
import time

from engine import file_sizes, process_figures

# Seconds between samples.
EVERY_S = 10
# Runs of each probe at a sample.
QUERY_PROBES = 30
INSERT_PROBES = 10

PROBE_QUERY = "SELECT '@p', COUNT(*), SUM(v) FROM dbo.probe WHERE id BETWEEN 5000 AND 5099"
PROBE_ANSWER = [100, sum(range(5000, 5100))]
PROBE_INSERT = "INSERT INTO dbo.probe_inserts (pad) VALUES ('probe')"
VIEWS = """
SELECT '@locks', COUNT(*) FROM sys.dm_tran_locks
SELECT '@sessions', COUNT(*) FROM sys.dm_exec_sessions
SELECT '@transactions', COUNT(*) FROM sys.dm_tran_active_transactions
SELECT '@versions_kb', SUM(reserved_space_kb) FROM sys.dm_tran_version_store_space_usage
SELECT '@plans', COUNT(*) FROM sys.dm_exec_cached_plans
SELECT '@log_used_kb', SUM(cntr_value) FROM sys.dm_os_performance_counters
WHERE counter_name LIKE 'Log File(s) Used Size%' AND instance_name = 'soak'
SELECT '@databases', COUNT(*) FROM sys.databases
SELECT '@objects', COUNT(*) FROM sys.objects
SELECT '@system_pages', SUM(used_page_count) FROM sys.dm_db_partition_stats WHERE object_id < 100
SELECT '@master_pages', SUM(used_page_count) FROM master.sys.dm_db_partition_stats
SELECT '@temp_pages', SUM(used_page_count) FROM tempdb.sys.dm_db_partition_stats
SELECT '@clerk', name, pages_kb FROM sys.dm_os_memory_clerks
"""
VIEW_NUMBERS = (
    "locks", "sessions", "transactions", "versions_kb", "plans", "log_used_kb", "databases", "objects", "system_pages",
    "master_pages", "temp_pages",
)
# The clerk of what the pool has not touched: no memory of the process yet.
FREE_PAGES = "Free pages"


def slope(xs, ys):
    """The least-squares slope of `ys` over `xs`; 0 where there is nothing to fit."""
    count = len(xs)
    if count < 2:
        return 0.0
    mean_x, mean_y = sum(xs) / count, sum(ys) / count
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / spread if spread else 0.0


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def mean(values):
    return sum(values) / len(values) if values else 0.0


def floor_growth(samples, name):
    """The lowest value of the first third, that of the last third, and the hours between the two thirds' middles."""
    third = max(1, len(samples) // 3)
    first, last = samples[:third], samples[-third:]
    hours = (last[third // 2]["at_s"] - first[third // 2]["at_s"]) / 3600
    return min(sample[name] for sample in first), min(sample[name] for sample in last), hours


def tenths(samples):
    """The samples in ten parts of equal time; parts may be empty."""
    if not samples:
        return []
    first, last = samples[0]["at_s"], samples[-1]["at_s"]
    width = max((last - first) / 10, 1e-9)
    parts = [[] for _ in range(10)]
    for sample in samples:
        parts[min(9, int((sample["at_s"] - first) / width))].append(sample)
    return parts


class Watch:
    """The samples of a run."""

    def __init__(self, folder):
        self.folder = folder
        self.started = time.monotonic()
        self.samples = []
        self.last = 0.0
        self.units = 0
        self.probes_inserted = 0
        self.control = None

    def now_s(self):
        return time.monotonic() - self.started

    def is_due(self):
        return time.monotonic() - self.last >= EVERY_S

    def sample(self, phase, pid, session=None, work=None):
        """Takes a sample: of the process and its files, and with a session of the views and the probes."""
        self.last = time.monotonic()
        figures = process_figures(pid)
        if figures is None:
            return
        sample = {"at_s": self.now_s(), "phase": phase, "pid": pid, "units": self.units, "load": os.getloadavg()[0]}
        sample |= figures | file_sizes(self.folder) | self._controls()
        if session is not None:
            answer = work.ask(session, VIEWS)
            for name in VIEW_NUMBERS:
                numbers = answer.numbers(name)
                sample[name] = numbers[0] if numbers else None
            clerks = {row[1]: int(row[2]) for row in answer.rows if row[0] == "@clerk"}
            sample["named_mb"] = sum(kb for name, kb in clerks.items() if name != FREE_PAGES) / 1024
            sample["unnamed_mb"] = sample["anonymous_mb"] - sample["named_mb"]
            sample["clerks_kb"] = clerks
            sample["query_ms"] = []
            for _ in range(QUERY_PROBES):
                answer = work.ask(session, PROBE_QUERY)
                if answer.numbers("p") != PROBE_ANSWER:
                    work.wrong.append(f"the probe query gave {answer.printed[-300:]}")
                sample["query_ms"].append(answer.seconds * 1000)
            sample["insert_ms"], sample["sync_ms"] = [], []
            for _ in range(INSERT_PROBES):
                # Beside each insert a durable write of the machine alone: a device takes 0.3 or 4 ms, in phases of its own.
                sample["sync_ms"].append(self._durable_write_ms())
                sample["insert_ms"].append(work.ask(session, PROBE_INSERT).seconds * 1000)
                self.probes_inserted += 1
            sample["insert_own_ms"] = [max(0.0, one - other) for one, other in zip(sample["insert_ms"], sample["sync_ms"])]
        self.samples.append(sample)

    def _controls(self):
        """What the machine gives without an engine, at this moment: a loop on a processor, and a durable write."""
        start = time.perf_counter()
        total = 0
        for number in range(100_000):
            total += number
        loop_ms = (time.perf_counter() - start) * 1000
        return {"control_loop_ms": loop_ms, "control_sync_ms": self._durable_write_ms()}

    def _durable_write_ms(self):
        """Milliseconds of a write of 4 KiB into a file that has its size, and its sync."""
        if self.control is None:
            self.control = open(self.folder.parent / "control", "w+b", buffering=0)
        start = time.perf_counter()
        os.pwrite(self.control.fileno(), bytes(4096), 0)
        os.fdatasync(self.control.fileno())
        return (time.perf_counter() - start) * 1000
