"""The tables of a run, its marks and its verdict."""

from watch import floor_growth, mean, percentile, slope, tenths

# The engine's own accounts name the pool, plans, versions. What they do not name is code, catalog, threads and the
# allocator's arenas; it may not grow. Large statements and emptied pools raise it for a while, so the lowest values
# of the first and the last third are compared. Arenas settle within some MB, so a rate counts only if it made that difference.
UNNAMED_MB_PER_HOUR = 20
UNNAMED_MB = 12
# The memory setting covers what is named; beside it there are code, stacks and arenas (about 60 MB at the start).
BEYOND_SETTING_MB = 150
# Medians of short statements vary by some 20 % on a machine with other work; half as much again is a drift. The controls
# (a loop on the processor, a durable write) are divided out where they have become slower.
P50_DRIFT = 1.5
# A commit is a durable write and little else. The device has phases of its own, so a write of the machine alone is subtracted
# from each insert; what remains may grow by this.
INSERT_MORE_MS = 1.0
# The 99th percentile is that of a few hundred runs beside checkpoints, and wider.
P99_DRIFT = 3.0
# Data and log grow by steps of 64 MB; the working set of the load does not grow, so half-way all have their size.
GROWTH_MB = 64
# System tables have as many rows at the end as at the beginning; a statement that is just being undone has some pages more.
SYSTEM_PAGES = 32
# Threads that idle groups of workers keep, and files of databases that are being made, come and go.
THREADS_MORE = 8
FILES_MORE = 8
# A close writes 256 MB of pages at most; a recovery reads a log of a few hundred MB.
CLOSE_S = 30
RECOVERY_S = 60
# Share of the long life that warms caches and the allocator, and does not count.
WARM_SHARE = 0.25


def pooled(samples, name):
    return [value for sample in samples for value in sample.get(name, ())]


def drift(samples, name, share):
    """The last quarter's percentile over the first's."""
    quarter = max(1, len(samples) // 4)
    first, last = pooled(samples[:quarter], name), pooled(samples[-quarter:], name)
    before = percentile(first, share)
    return percentile(last, share) / before if before else 1.0


def control_drift(samples, name):
    quarter = max(1, len(samples) // 4)
    before = percentile([sample[name] for sample in samples[:quarter]], 0.5)
    return max(1.0, percentile([sample[name] for sample in samples[-quarter:]], 0.5) / before) if before else 1.0


def own_insert_ms(samples):
    """The median of the probe inserts less a durable write each, of the first quarter and the last."""
    quarter = max(1, len(samples) // 4)
    return tuple(percentile(pooled(part, "insert_own_ms"), 0.5) for part in (samples[:quarter], samples[-quarter:]))


def print_tenths(samples):
    """One line for each tenth of the samples."""
    print(f"{'tenth':>5}{'min':>6}{'RSS':>7}{'named':>7}{'other':>7}{'thr':>5}{'files':>6}{'data':>7}{'log':>6}{'used':>6}"
          f"{'temp':>6}{'spill':>6}{'q p50':>8}{'q p99':>8}{'i p50':>8}{'i p99':>8}{'sys pg':>7}{'plans':>7}{'locks':>6}"
          f"{'ver MB':>7}{'units':>8}{'loop':>7}{'sync':>7}")
    for number, part in enumerate(tenths(samples), 1):
        if not part:
            continue
        last = part[-1]
        viewed = [sample for sample in part if "named_mb" in sample]
        line = (f"{number:>5}{last['at_s'] / 60:>6.1f}{mean([s['rss_mb'] for s in part]):>7.0f}"
                f"{mean([s['named_mb'] for s in viewed]):>7.0f}{mean([s['unnamed_mb'] for s in viewed]):>7.1f}{last['threads']:>5}"
                f"{last['open_files']:>6}{last['data_mb']:>7.0f}{last['log_mb']:>6.0f}"
                f"{mean([s['log_used_kb'] or 0 for s in viewed]) / 1024:>6.0f}{last['tempdb_mb']:>6.0f}{max(s['spill_mb'] for s in part):>6.0f}")
        for name in ("query_ms", "insert_ms"):
            for share in (0.5, 0.99):
                line += f"{percentile(pooled(part, name), share):>8.2f}"
        line += (f"{mean([s['system_pages'] or 0 for s in viewed]):>7.0f}{mean([s['plans'] or 0 for s in viewed]):>7.0f}"
                 f"{mean([s['locks'] or 0 for s in viewed]):>6.1f}"
                 f"{mean([(s['versions_kb'] or 0) / 1024 for s in viewed]):>7.1f}{last['units']:>8,}"
                 f"{mean([s['control_loop_ms'] for s in part]):>7.1f}{mean([s['control_sync_ms'] for s in part]):>7.1f}")
        print(line)


def verdict(options, run):
    """The marks, each as (name, value, bound, met)."""
    long = [sample for sample in run["samples"] if sample["phase"] == "long life"]
    warm = long[int(len(long) * WARM_SHARE):]
    marks = []

    def mark(name, value, bound, met, why=""):
        marks.append({"name": name, "value": value, "bound": bound, "met": bool(met), "why": why})

    if len(warm) >= 4:
        hours = [sample["at_s"] / 3600 for sample in warm]
        low, late, between = floor_growth(warm, "unnamed_mb")
        per_hour = (late - low) / between if between else 0.0
        mark("lowest memory that no account names, MB an hour", round(per_hour, 1), UNNAMED_MB_PER_HOUR,
             per_hour <= UNNAMED_MB_PER_HOUR or late - low <= UNNAMED_MB, f"from {low:.0f} to {late:.0f} MB")
        resident = slope(hours, [sample["rss_mb"] for sample in warm])
        mark("RSS, MB an hour", round(resident, 1), None, True, "for information: the pool fills")
        most = max(sample["anonymous_mb"] for sample in long)
        beyond = most - options.memory
        mark("most memory beyond the setting, MB", round(beyond), BEYOND_SETTING_MB, beyond <= BEYOND_SETTING_MB)
        for name, label, control, share, bound in (
                ("query_ms", "probe query, p50", "control_loop_ms", 0.5, P50_DRIFT),
                ("query_ms", "probe query, p99", "control_loop_ms", 0.99, P99_DRIFT),
                ("insert_ms", "probe insert, p99", "control_sync_ms", 0.99, P99_DRIFT)):
            machine = control_drift(warm, control)
            found = drift(warm, name, share) / machine
            mark(f"{label}, last quarter over first", round(found, 2), bound, found <= bound,
                 f"the machine's part, {machine:.2f}, is divided out")
        before, after = own_insert_ms(warm)
        mark("probe insert beyond a durable write, last quarter less first, ms", round(after - before, 2), INSERT_MORE_MS,
             after - before <= INSERT_MORE_MS, f"median of {before:.2f} and {after:.2f}")
        half = warm[len(warm) // 2]
        for name in ("data_mb", "log_mb", "tempdb_mb"):
            found = warm[-1][name] - half[name]
            mark(f"{name} grown in the last half", round(found, 1), GROWTH_MB, found <= GROWTH_MB)
        for name, label in (("system_pages", "soak"), ("temp_pages", "tempdb"), ("master_pages", "master")):
            found = (warm[-1][name] or 0) - (half[name] or 0)
            mark(f"pages of the system tables of {label} more than half-way", found, SYSTEM_PAGES, found <= SYSTEM_PAGES)
        mark("threads more than when warm", warm[-1]["threads"] - warm[0]["threads"], THREADS_MORE,
             warm[-1]["threads"] - warm[0]["threads"] <= THREADS_MORE)
        mark("open files more than when warm", warm[-1]["open_files"] - warm[0]["open_files"], FILES_MORE,
             warm[-1]["open_files"] - warm[0]["open_files"] <= FILES_MORE)
        for name, bound in (("transactions", 2), ("sessions", 1), ("locks", 8)):
            found = max((sample[name] or 0) for sample in long)
            mark(f"most {name} between units", found, bound, found <= bound, "one session, with nothing open")
    mark("rows lost, doubled or wrong", len(run["wrong"]), 0, not run["wrong"])
    mark("errors that may not be", len(run["unexpected"]), 0, not run["unexpected"])
    mark("ends of the process that may not be", len(run["bad_ends"]), 0, not run["bad_ends"])
    unclean = [line for line in run["checkdb"] if "found 0 allocation errors and 0 consistency errors" not in line]
    mark("CHECKDB runs that found something", len(unclean), 0, not unclean and run["checkdb"], f"of {len(run['checkdb'])}")
    if run["close_s"]:
        mark("longest close, s", round(max(run["close_s"]), 1), CLOSE_S, max(run["close_s"]) <= CLOSE_S)
    if run["recovery_s"]:
        mark("longest start after a kill, s", round(max(run["recovery_s"]), 1), RECOVERY_S, max(run["recovery_s"]) <= RECOVERY_S)
    mark("files left in the spill folder after the last close", run["spill_left"], 0, run["spill_left"] == 0)
    return marks


def show(options, run):
    """Prints everything; whether all marks are met."""
    long = [sample for sample in run["samples"] if sample["phase"] == "long life"]
    print("\nThe long life, by tenths (MB; ms; q: probe query, i: probe insert; loop, sync: the machine by itself)")
    print_tenths(long)
    for phase in sorted({sample["phase"] for sample in run["samples"]} - {"long life", "kills"}):
        samples = [sample for sample in run["samples"] if sample["phase"] == phase]
        first, last = samples[len(samples) // 3], samples[-1]
        print(f"{phase}: {len(samples)} samples, RSS {first['rss_mb']:.0f} MB after a third, {last['rss_mb']:.0f} MB at the end, "
              f"{last['threads']} threads, log {last['log_mb']:.0f} MB")
    print(f"\n{run['kills']} kills and {run['clean_ends']} clean ends, {sum(run['done'].values()):,} units, seed {options.seed}")
    print("units:", ", ".join(f"{name} {count}" for name, count in sorted(run["done"].items())))
    print("errors that had to be:", ", ".join(f"{number}: {count}" for number, count in sorted(run["expected_errors"].items())))
    for what in ("wrong", "bad_ends"):
        for text in run[what][:10]:
            print(f"{what}: {text}")
    seen = {}
    for error in run["unexpected"]:
        seen.setdefault((error["unit"], error["number"]), []).append(error)
    for (unit, number), errors in sorted(seen.items())[:20]:
        print(f"error {number} in {unit}, {len(errors)} times: {errors[0]['text']}\n    {errors[0]['batch'][:200]!r}")
    print("\nfiles at the end:")
    for line in run["file_contents"]:
        print("   ", line)
    marks = verdict(options, run)
    run["marks"] = marks
    for found in marks:
        bound = "" if found["bound"] is None else f", at most {found['bound']}"
        why = f" ({found['why']})" if found["why"] else ""
        print(f"mark: {found['name']} = {found['value']}{bound}: {'met' if found['met'] else 'NOT MET'}{why}")
    return all(found["met"] for found in marks)
