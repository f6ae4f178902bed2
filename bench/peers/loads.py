"""LINEITEM from a file into an empty table, by DuckDB's COPY and by hobt's BULK INSERT, in pairs.

The files are DuckDB's own: CSV with a header, Parquet with zstd. Both tables are empty before each load, both loads end when the
rows are durable: DuckDB's with its CHECKPOINT, hobt's with its commit, which syncs what it has written.
"""

import shutil

from engines import DuckDB, EngineError, HobtProcess, make_fixtures
from measure import measure_pairs
from tpch import TESTS, load_peers, statements

# Names, what DuckDB's COPY has for each, and hobt's options.
FORMATS = {
    "csv": ("FORMAT csv, HEADER", "FORMAT = 'CSV', FIRSTROW = 2, TABLOCK"),
    "parquet": ("FORMAT parquet, COMPRESSION zstd", "FORMAT = 'PARQUET', TABLOCK"),
}


def run(options, folder):
    """The comparison in `folder`; the report's entries."""
    folder = folder / "loads"
    folder.mkdir()
    print(f"Loads of LINEITEM: scale factor {options.scale:g}, {options.threads} threads of both", flush=True)
    make_fixtures(options.hobt, folder / "hobt", options.timeout, "--tpch", str(options.scale))
    duckdb = DuckDB(folder / "duckdb.db", options.threads)
    hobt = None
    report = {}
    try:
        rows = load_peers(duckdb, None, options, folder / "hobt", folder)["lineitem"]
        duckdb.run("CREATE TABLE loaded AS SELECT * FROM lineitem LIMIT 0")
        hobt = HobtProcess(
            options.hobt, folder / "hobt", options.threads, [*options.hobt_arg, "--allow", str(folder)], options.timeout
        )
        create = next(text for text in statements((TESTS / "schema.sql").read_text()) if "dbo.lineitem" in text)
        hobt.run(f"EXEC sp_configure 'max degree of parallelism', {options.threads}")
        hobt.run(create.replace("dbo.lineitem", "dbo.loaded"))
        for name, (copy, bulk) in FORMATS.items():
            report |= measure_format(duckdb, hobt, options, folder / f"lineitem.{name}", name, (copy, bulk), rows)
        report["load_settings"] = {"scale": options.scale, "rows": rows, "threads": options.threads}
    finally:
        if hobt is not None:
            hobt.close()
        duckdb.close()
        shutil.rmtree(folder, ignore_errors=True)
    return report


def measure_format(duckdb, hobt, options, path, name, forms, rows):
    copy, bulk = forms
    duckdb.run(f"COPY lineitem TO '{path}' ({copy})")

    def ask_duckdb():
        duckdb.run(f"COPY loaded FROM '{path}' ({copy.replace(', COMPRESSION zstd', '')})")
        duckdb.run("CHECKPOINT")

    def ask_hobt():
        hobt.run(f"BULK INSERT dbo.loaded FROM '{path}' WITH ({bulk})")

    def check(_theirs, _ours):
        sums = "SELECT COUNT(*), SUM(l_orderkey), SUM(l_extendedprice), MAX(l_comment), MIN(l_shipdate) FROM loaded"
        theirs = [str(value) for value in duckdb.run(sums)[0]]
        ours = hobt._row(sums, 5)
        if theirs != ours or theirs[0] != str(rows):
            raise EngineError(f"the engines have loaded different rows: DuckDB {theirs}, hobt {ours}")
        duckdb.run("DELETE FROM loaded")
        duckdb.run("CHECKPOINT")
        hobt.run("TRUNCATE TABLE dbo.loaded")

    measure = measure_pairs(f"{name}_load", ask_duckdb, ask_hobt, options.pairs, check)
    print(measure.line(), flush=True)
    megabytes = path.stat().st_size / 1e6
    return {f"{name}_load_ratio": measure.ratio(), f"{name}_load": {**measure.report(), "file_megabytes": megabytes}}
