"""A table of TPC-H into a file, by DuckDB's COPY and by hobt's writers, in pairs.

Both have the same rows (see tpch.py). Both live through the run, so that their caches are warm, and write to the same folder. hobt
syncs its file before it gives it its name, and DuckDB does not. `csv_export_ratio` counts that as hobt's time; the ratio with DuckDB's
file synced, too, is `csv_export_synced_ratio`.
"""

import os
import shutil
import subprocess

from engines import DATABASE, DuckDB, EngineError, make_fixtures
from measure import measure_pairs
from tpch import load_peers

# Names, and what DuckDB's COPY has for it.
FORMATS = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet, COMPRESSION zstd"}


class Exporter:
    """The example `export_rate`: one export for each line of its input."""

    def __init__(self, program, folder, query, path):
        command = [str(program), str(folder), DATABASE, query, str(path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self):
        """Exports once; the rows and bytes that it says."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise EngineError(f"export_rate ended with status {self.process.wait(timeout=30)}")
        _, rows, size, _ = line.split(", ")
        return int(rows.split()[0]), int(size.split()[0])

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=300)


def sync(path):
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def run(options, folder):
    """The comparison in `folder`; the report's entries."""
    program = options.hobt.parent / "examples" / "export_rate"
    if not program.is_file():
        raise EngineError(f"there is no {program}: cargo build --release -p hobt-cli --example export_rate")
    folder = folder / "exports"
    folder.mkdir()
    print(f"Exports of LINEITEM: scale factor {options.scale:g}, {options.threads} threads of DuckDB", flush=True)
    make_fixtures(options.hobt, folder / "hobt", options.timeout, "--tpch", str(options.scale))
    duckdb = DuckDB(folder / "duckdb.db", options.threads)
    report = {}
    try:
        rows = load_peers(duckdb, None, options, folder / "hobt", folder)["lineitem"]
        # As DuckDB has them: texts of a fixed length without their padding.
        names = [name for (name,) in duckdb.run("SELECT column_name FROM (DESCRIBE lineitem)")]
        trimmed = {"l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode"}
        select = ", ".join(f"RTRIM({name}) AS {name}" if name in trimmed else name for name in names)
        for name, copy in FORMATS.items():
            report |= measure_format(duckdb, options, folder, name, copy, f"SELECT {select} FROM dbo.lineitem", rows, program)
        report["export_settings"] = {"scale": options.scale, "rows": rows, "threads": options.threads}
    finally:
        duckdb.close()
        shutil.rmtree(folder, ignore_errors=True)
    return report


def measure_format(duckdb, options, folder, name, copy, query, rows, program):
    theirs, ours = folder / f"theirs.{name}", folder / f"ours.{name}"
    exporter = Exporter(program, folder / "hobt", query, ours)

    def ask_duckdb(syncs):
        duckdb.run(f"COPY lineitem TO '{theirs}' ({copy})")
        if syncs:
            sync(theirs)

    def check(_, written):
        if written[0] != rows:
            raise EngineError(f"hobt exported {written[0]} rows of {rows}")
        if name == "csv" and theirs.stat().st_size != ours.stat().st_size:
            raise EngineError(f"DuckDB wrote {theirs.stat().st_size} bytes, hobt {ours.stat().st_size}")
        theirs.unlink()
        os.sync()

    report = {}
    try:
        for syncs, key in ((False, f"{name}_export"), (True, f"{name}_export_synced")):
            measure = measure_pairs(key, lambda syncs=syncs: ask_duckdb(syncs), exporter.run, options.tpch_pairs, check)
            print(measure.line(), flush=True)
            report |= {f"{key}_ratio": measure.ratio(), key: measure.report()}
    finally:
        exporter.close()
    return report
