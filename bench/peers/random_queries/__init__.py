"""Random queries that hobt and DuckDB must answer alike; hobt also with one worker and with two, and in every order of joins.

A seed decides its query; a group of seeds shares its tables. What is drawn has one meaning in both dialects (expression.py, query.py), so
any difference is a fault of the generator, of hobt or of DuckDB. Processes share the seeds, each with an instance of hobt and a DuckDB of its own.
"""

from .run import run

__all__ = ["run"]
