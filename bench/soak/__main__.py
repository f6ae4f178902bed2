#!/usr/bin/env python3
"""Lets one instance of hobt live for hours under a mixed load, kills it, and says what grows, drifts or is lost.

    python3 bench/soak --hobt PATH --minutes N [--json FILE] [--seed S] [--memory MB] [--data DIR] [--loops]

README.md beside this file says what runs, what is checked, and what the marks are.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import crowd
import loops
import report
from engine import Died, Hung, Session
from watch import Watch
from work import SCHEMA, Work, Wrong

ROOT = Path(__file__).resolve().parent.parent.parent

# Shares of the time: lives that are killed, many connections, and one life that is not disturbed.
KILLS_SHARE = 0.35
CROWD_SHARE = 0.2
# The lives that end by a kill last about so long, in seconds.
LIFE_S = (15, 150)
# Of a hundred ends in the first part, so many are kills; the others close the input or send SIGTERM.
KILLS_OF_100 = 75
# How often the long life compares rows and runs CHECKDB.
CHECKS = 8


def arguments():
    parser = argparse.ArgumentParser(prog="bench/soak", description=__doc__.splitlines()[0])
    parser.add_argument("--hobt", type=Path, default=ROOT / "target" / "release" / "hobt", help="the hobt binary")
    parser.add_argument("--minutes", type=float, default=120, help="how long (default 120)")
    parser.add_argument("--memory", type=int, default=256, help="memory setting of the instance in MB (default 256)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the load (default 1)")
    parser.add_argument("--data", type=Path, help="folder for a temporary folder of data (default the system's)")
    parser.add_argument("--json", type=Path, help="write samples, figures and marks to this file")
    parser.add_argument("--timeout", type=float, default=300, help="seconds after which a batch is taken to hang")
    parser.add_argument("--keep", action="store_true", help="leave the folder when something is wrong")
    parser.add_argument("--loops", action="store_true", help="run the loops of one construct instead of the mixed load")
    parser.add_argument("--loop", action="append", help="with --loops, these alone")
    parser.add_argument("--loop-scale", type=float, default=1.0, help="with --loops, more or fewer repetitions")
    parser.add_argument("--no-crowd", action="store_true", help="leave the experiments of many connections out")
    parsed = parser.parse_args()
    if not parsed.hobt.is_file():
        parser.error(f"there is no {parsed.hobt}; build it (cargo build --release) or name it with --hobt")
    if parsed.minutes < 1 or parsed.memory < 128:
        parser.error("a run lasts at least a minute, and an instance has at least 128 MB")
    parsed.hobt = parsed.hobt.resolve()
    return parsed


class Soak:
    """A run: the instance's folder, the load, and what was found."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder / "instance"
        self.watch = Watch(self.folder)
        self.work = Work(options.seed)
        self.session = None
        self.kills = self.clean_ends = 0
        self.bad_ends, self.checkdb, self.close_s, self.recovery_s = [], [], [], []

    def open(self):
        start = time.monotonic()
        self.session = Session(self.options.hobt, self.folder, self.options.memory, self.options.timeout, "soak")
        return time.monotonic() - start

    def make(self):
        self.session = Session(self.options.hobt, self.folder, self.options.memory, self.options.timeout)
        self.session.must(SCHEMA)
        self.session.must("USE soak")

    def close(self, by=None):
        code, seconds = self.session.close(by)
        self.close_s.append(seconds)
        self.clean_ends += 1
        if code != (143 if by == signal.SIGTERM else 0):
            self.bad_ends.append(f"a close ended with {code}")

    def verify(self, with_checkdb=True):
        """Compares all rows, and lets the engine check itself."""
        try:
            self.work.check(self.session)
            self.work.check_keys(self.session)
        except Wrong as wrong:
            self.work.wrong.append(f"after {self.watch.now_s():.0f} s: {wrong}")
            if self.options.keep:
                raise
            self._take_over()
        if with_checkdb:
            self.checkdb += self.work.check_database(self.session)

    def _take_over(self):
        """Takes what is there as what must be, so that one fault is told once."""
        model = self.work.model
        self.work.after = None
        model.items = [{} for _ in model.items]
        for row in self.session.ask("SELECT '@c', id, owner, v FROM dbo.items").rows:
            model.items[int(row[2])][int(row[1])] = int(row[3])
        model.loads = {int(r[1]): int(r[2]) for r in self.session.ask("SELECT '@c', batch, COUNT(*) FROM dbo.loads GROUP BY "
                                                                      "batch").rows}
        model.big = self.session.ask("SELECT '@c', MAX(v) FROM dbo.big").numbers("c")[0]
        model.queue = self.session.ask("SELECT '@c', COUNT(*) FROM dbo.queue").numbers("c")[0]
        model.texts = {int(r[1]): int(r[2]) for r in self.session.ask("SELECT '@c', id, LEN(body) FROM dbo.texts").rows}

    def unit(self):
        try:
            name, _ = self.work.step(self.session)
        except Wrong as wrong:
            self.work.wrong.append(f"after {self.watch.now_s():.0f} s in {self.work.unit_name}: {wrong}")
        self.watch.units += 1

    def killed_life(self, seconds):
        """A life of units, and its end at a random moment: usually a kill."""
        random = self.work.random
        is_kill = random.randrange(100) < KILLS_OF_100
        timer = threading.Timer(seconds, self.session.kill) if is_kill else None
        deadline = time.monotonic() + seconds
        if timer:
            timer.start()
        try:
            while is_kill or time.monotonic() < deadline:
                self.unit()
                if self.watch.is_due():
                    self.watch.sample("kills", self.session.pid, self.session, self.work)
        except Died as died:
            if not is_kill or died.status != -signal.SIGKILL:
                self.bad_ends.append(f"in {self.work.unit_name}: {died}")
            self.kills += 1
            self.recovery_s.append(self.open())
            self.work.unit_name = "after a restart"
            self.verify_after_kill()
            return
        finally:
            if timer:
                timer.cancel()
        # A session that ends in the middle of a transaction leaves nothing of it.
        self.work.unit_name = "an open transaction"
        self.work.ask(self.session, "BEGIN TRAN; UPDATE dbo.accounts SET balance = 0; DELETE dbo.items WHERE owner = 1; "
                                    "SELECT 1 AS open_still")
        self.close(random.choice((None, signal.SIGTERM)))
        self.open()
        self.verify(False)

    def verify_after_kill(self):
        self.work.after_restart(self.session)
        self.verify()

    def kills_phase(self, until):
        while time.monotonic() < until:
            left = until - time.monotonic()
            low, high = LIFE_S
            self.killed_life(min(left, self.work.random.uniform(low, min(high, max(low + 5, left / 3)))))

    def crowd_phase(self, seconds):
        for name, parameters in crowd.CROWDS:
            self.close()
            problem = crowd.run(self.options, self.folder, self.watch, seconds / len(crowd.CROWDS), name, parameters)
            if problem:
                self.bad_ends.append(problem)
            self.kills += 1
            self.recovery_s.append(self.open())
            self.verify()
            for row in self.session.ask("SELECT '@d', name FROM sys.databases WHERE database_id > 4 AND name <> 'soak'").rows:
                answer = self.session.ask(f"DBCC CHECKDB ([{row[1]}])")
                self.checkdb += [line for line in answer.printed.splitlines() if line.startswith("CHECKDB found")]
                self.work.unit_name = "the laboratory's database"
                self.work.ask(self.session, f"DROP DATABASE [{row[1]}]")

    def long_life(self, until):
        self.close()
        self.open()
        begun = time.monotonic()
        checked = 0
        self.watch.last = 0.0
        while time.monotonic() < until:
            self.unit()
            if self.watch.is_due():
                self.watch.sample("long life", self.session.pid, self.session, self.work)
            if time.monotonic() - begun > (until - begun) * (checked + 1) / CHECKS:
                checked += 1
                self.verify()
        self.watch.sample("long life", self.session.pid, self.session, self.work)

    def end(self):
        """What the files have in them, a close, and a last look at what was closed."""
        contents = self.session.ask("DBCC SHOWFILESTATS").printed.splitlines()
        contents += self.session.ask("DBCC SQLPERF (LOGSPACE)").printed.splitlines()
        contents += self.session.ask(
            "SELECT OBJECT_NAME(object_id) AS name, SUM(used_page_count) AS pages, SUM(row_count) AS counted FROM "
            "sys.dm_db_partition_stats "
            "GROUP BY object_id HAVING SUM(used_page_count) > 100 ORDER BY pages DESC"
        ).printed.splitlines()
        self.close()
        self.open()
        self.verify()
        self.work.unit_name = "probes"
        found = self.work.ask(self.session, "SELECT '@c', COUNT(*) FROM dbo.probe_inserts").numbers("c")
        if found != [self.watch.probes_inserted] and found != [self.watch.probes_inserted + 1]:
            self.work.wrong.append(f"probe_inserts has {found} rows, acknowledged were {self.watch.probes_inserted}")
        self.close()
        spill = self.folder / "tempdb"
        return contents, len(list(spill.iterdir())) if spill.is_dir() else 0

    def run(self):
        start = time.monotonic()
        seconds = self.options.minutes * 60
        self.make()
        print(f"made after {time.monotonic() - start:.0f} s; kills until minute {seconds * KILLS_SHARE / 60:.1f}", flush=True)
        self.kills_phase(start + seconds * KILLS_SHARE)
        share = 0 if self.options.no_crowd else CROWD_SHARE
        print(f"minute {self.watch.now_s() / 60:.1f}: {self.kills} kills, {len(self.work.wrong)} wrong, "
              f"{len(self.work.unexpected)} errors that may not be", flush=True)
        if share:
            self.crowd_phase(seconds * share)
        print(f"minute {self.watch.now_s() / 60:.1f}: the long life", flush=True)
        self.long_life(start + seconds)
        contents, left = self.end()
        return {"file_contents": contents, "spill_left": left}

    def figures(self):
        return {
            "samples": self.watch.samples, "wrong": self.work.wrong, "unexpected": self.work.unexpected, "bad_ends": self.bad_ends,
            "checkdb": self.checkdb, "close_s": self.close_s, "recovery_s": self.recovery_s, "kills": self.kills,
            "clean_ends": self.clean_ends, "done": self.work.done, "expected_errors": self.work.expected_errors,
            "file_contents": [], "spill_left": 0,
        }


def main():
    options = arguments()
    if options.data:
        options.data.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="hobt-soak-", dir=options.data))
    is_well = False
    try:
        if options.loops:
            result = {"loops": loops.run(options, folder)}
            is_well = all("failed" not in loop and not loop["unexpected"] and not loop["misses"] for loop in result["loops"])
        else:
            soak = Soak(options, folder)
            ended = {}
            try:
                ended = soak.run()
            except (Died, Hung, Wrong, RuntimeError) as error:
                soak.bad_ends.append(f"in {soak.work.unit_name}: {type(error).__name__}: {error}")
            finally:
                if soak.session is not None:
                    soak.session.kill()
            result = soak.figures() | ended
            is_well = report.show(options, result)
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    finally:
        if is_well or not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"kept: {folder}")
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
