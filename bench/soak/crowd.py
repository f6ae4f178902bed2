"""Many connections in one process: the laboratory's experiments on the instance's folder, watched from outside and killed.

`hobt sql` has one session. Until there is a server, the laboratory is what opens many: `updates` (1 to 64 connections on
hot rows), `reader` (a snapshot that stays open while four connections update) and `inserts` (up to 64 connections, a commit
each). Its connections come and go with each case.
"""

import json
import os
import signal
import subprocess
import time

# Experiments, with their arguments. A turn is over when its time is.
CROWDS = [
    ("updates", ["--rows", "640", "--repeat", "1000"]),
    ("reader", ["--rows", "400000", "--repeat", "2"]),
    ("inserts", ["--rows", "6400", "--repeat", "50"]),
]


def run(options, folder, watch, seconds, name, arguments):
    """One experiment for some time, then a kill. What it printed if it ended badly by itself; None if all is well."""
    report = folder.parent / f"crowd-{name}.json"
    with open(folder.parent / f"crowd-{name}.txt", "w+b") as output:
        process = subprocess.Popen(
            [str(options.hobt), "lab", "run", name, *arguments, "--data", str(folder), "--json", str(report)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder.parent,
        )
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline:
            if watch.is_due():
                watch.sample(f"crowd {name}", process.pid)
            time.sleep(0.5)
        ended = process.poll()
        if ended is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return None
        output.seek(0)
        printed = output.read().decode(errors="replace")
    if ended != 0:
        return f"lab run {name} ended with {ended}: {printed[-2000:]}"
    broken = [mark["name"] for mark in json.loads(report.read_text())["marks"] if mark.get("met") is False]
    return f"lab run {name}: marks not met: {broken}" if broken and name == "reader" else None
