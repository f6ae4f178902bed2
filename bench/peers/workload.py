"""The statements of the scans, in each engine's dialect.

BigData repeats every customer once per number 1, 2, 3 …: integer columns made from the number, text columns from the
customer, two of them now one address line and now the other.
"""

CUSTOMER_COLUMNS = ("AddressLine1", "AddressLine2", "FirstName", "MiddleName", "LastName", "CustomerAlternateKey")

_COLUMNS = """
       g.id % 24 AS Col1, g.id + 1 AS Col2, g.id + 2 AS Col3, g.id + 3 AS Col4, g.id + 4 AS Col5,
       CASE g.id % 2 WHEN 1 THEN AddressLine1 ELSE AddressLine2 END AS Col6,
       CASE g.id % 7 WHEN 1 THEN AddressLine1 ELSE AddressLine2 END AS Col7,
       FirstName AS Col8, MiddleName AS Col9, LastName AS Col10, CustomerAlternateKey AS Col11"""


def build_on_duckdb(repeats):
    """BigData with `repeats` rows for every customer, as DuckDB says it."""
    return f"""CREATE TABLE BigData AS
WITH generator AS (SELECT range + 1 AS id FROM range({repeats}))
SELECT{_COLUMNS}
FROM generator AS g CROSS JOIN DimCustomer"""


def build_on_clickhouse(repeats, engine):
    """BigData with `repeats` rows for every customer, as ClickHouse says it, in a table of such an engine."""
    return f"""CREATE TABLE BigData {engine} AS
WITH generator AS (SELECT CAST(number + 1 AS bigint) AS id FROM numbers({repeats}))
SELECT{_COLUMNS}
FROM generator AS g CROSS JOIN DimCustomer"""


def build_on_hobt(repeats, threads):
    """BigData with `repeats` rows for every customer, in T-SQL."""
    return f"""WITH generator AS (
    SELECT TOP ({repeats}) ROW_NUMBER() OVER (ORDER BY c1.one) AS id
    FROM (SELECT 1 AS one FROM master.dbo.syscolumns) AS c1 CROSS JOIN master.dbo.syscolumns AS c2
)
SELECT{_COLUMNS}
INTO dbo.BigData
FROM generator AS g CROSS JOIN dbo.DimCustomer
OPTION (MAXDOP {threads})"""


class Query:
    """One query in the dialects. What ClickHouse is not given, it says as DuckDB does."""

    def __init__(self, columns, duckdb, tsql, clickhouse=None):
        self.columns = columns
        self.duckdb = duckdb
        self.tsql = tsql
        self.clickhouse = clickhouse or duckdb


_COUNTS = ", ".join(f"COUNT(Col{n})" for n in range(1, 11))

COUNT10 = Query(10, f"SELECT {_COUNTS} FROM BigData", f"SELECT {_COUNTS.replace('COUNT(', 'COUNT_BIG(')} FROM dbo.BigData")

MAXSUM = Query(
    5,
    "SELECT max(Col1 + Col2), max(Col5), max(length(Col6)), max(Col8), sum(Col3) FROM BigData",
    "SELECT MAX(Col1 + Col2), MAX(Col5), MAX(LEN(Col6)), MAX(Col8), SUM(CAST(Col3 AS bigint)) FROM dbo.BigData",
    "SELECT max(Col1 + Col2), max(Col5), max(char_length(Col6)), max(Col8), sum(Col3) FROM BigData",
)
