"""The engines of one comparison, all with the same rows: DuckDB, hobt and, where `--clickhouse` asks for it, ClickHouse."""

import shutil
from contextlib import ExitStack, closing, contextmanager
from typing import NamedTuple

from clickhouse import ClickHouse, open_clickhouse
from engines import DuckDB, EngineError, HobtProcess, run_hobt


class EngineSet(NamedTuple):
    """The open engines."""

    duckdb: DuckDB
    hobt: HobtProcess
    clickhouse: ClickHouse | None = None

    def all(self):
        """Those that there are."""
        return [engine for engine in self if engine]

    def check_counts(self, rows):
        """Raises EngineError unless every engine has so many rows of each table, by the tables' names."""
        for table, wanted in rows.items():
            for engine in self.all():
                found = engine.count(table)
                if found != wanted:
                    raise EngineError(f"{engine.name} has {found} rows of {table}, not {wanted}")

    def versions(self):
        return {engine.name.lower(): engine.version() for engine in self.all()}


def create_database(options, instance, database):
    """Makes an instance of hobt with an empty database."""
    run_hobt(options.hobt, ["sql", "--data", str(instance), "-Q", f"CREATE DATABASE {database}"], options.timeout)


@contextmanager
def loaded_engines(options, folder, database, make_instance, load_peers, load_hobt):
    """The engines with their rows in `folder`, which is made here, and is removed when the engines are closed.

    `make_instance` gets the folder of hobt's instance and makes it, with the database in it. `load_peers` gets DuckDB and ClickHouse (or
    None), before hobt is open, and gives the rows of each table by its name, which all must have in the end. `load_hobt` gets hobt.
    """
    with ExitStack() as stack:
        folder.mkdir()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        instance = folder / "hobt"
        make_instance(instance)
        duckdb = stack.enter_context(closing(DuckDB(folder / "duckdb.db", options.threads)))
        clickhouse = open_clickhouse(options, folder)
        if clickhouse:
            stack.enter_context(closing(clickhouse))
        rows = load_peers(duckdb, clickhouse)
        hobt = stack.enter_context(closing(HobtProcess(options.hobt, instance, options.threads, options.hobt_arg, options.timeout, database)))
        load_hobt(hobt)
        engines = EngineSet(duckdb, hobt, clickhouse)
        engines.check_counts(rows)
        hobt.run("SET NOCOUNT ON")
        if clickhouse:
            clickhouse.settle()
        yield engines
