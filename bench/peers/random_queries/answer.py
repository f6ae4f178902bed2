"""Answers of both engines in one form: rows of Python's values, in which equal values of both are equal."""

import datetime
import json
import re
from collections import Counter
from decimal import Decimal
from typing import NamedTuple

from .expression import FLOAT, TIME

# Errors that depend on which rows are evaluated, which is unspecified, and what an engine refuses: hobt's numbers, DuckDB's names.
DECIDES_NOTHING = {
    # Overflows, division by zero, conversions.
    "8115", "220", "232", "517", "8134", "241", "242", "244", "245", "248", "8114", "3623",
    # Not implemented, and a hint that no plan can follow.
    "40517", "8622",
    "OutOfRangeException", "ConversionException", "NotImplementedException", "InternalException", "FatalException", "InvalidInputException",
}
ERROR = re.compile(r"Msg (\d+), Level \d+.*", re.DOTALL)
# Of floats that are a quotient.
DIGITS = 12


class Answer(NamedTuple):
    """Rows, or an error and its text."""

    rows: tuple
    error: str | None = None
    text: str = ""


def read_duckdb(duckdb, query, kinds, most):
    """DuckDB's answer; None where it has more than so many rows."""
    try:
        found = duckdb.connection.execute(query).fetchmany(most + 1)
    except duckdb.module.Error as error:
        return Answer((), type(error).__name__, str(error)[:500])
    if len(found) > most:
        return None
    return Answer(tuple(converted(found, kinds, lambda text: text)))


def read_hobt(section, kinds):
    """hobt's answer, from what it printed for one batch."""
    error = ERROR.search(section)
    if error:
        return Answer((), error[1], error[0][:500])
    rows = [tuple(json.loads(line, parse_float=Decimal).values()) for line in section.splitlines() if line]
    return Answer(tuple(converted(rows, kinds, lambda text: text.replace("T", " "))))


def converted(rows, kinds, point_in_time):
    """The rows with floats as floats, and points in time as texts without zeros at the end."""
    def time_of(value):
        text = point_in_time(str(value))
        return text.rstrip("0").rstrip(".") if "." in text else text

    special = {number: float if kind == FLOAT else time_of for number, kind in enumerate(kinds) if kind in (FLOAT, TIME)}
    dates = {number for number, kind in enumerate(kinds) if kind == "date"}
    if not special and not dates:
        return rows
    return [
        tuple(
            value if value is None else special[number](value) if number in special else str(value) if number in dates else value
            for number, value in enumerate(row)
        )
        for row in rows
    ]


def rounded(rows):
    """The rows with floats cut to the digits that both engines must agree on."""
    return [tuple(float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value for value in row) for row in rows]


def same(one, other, is_ordered):
    """Whether both answers have the same rows, in the same order where that is defined."""
    if one.rows == other.rows:
        return True
    if len(one.rows) != len(other.rows):
        return False
    if is_ordered:
        return rounded(one.rows) == rounded(other.rows)
    return Counter(one.rows) == Counter(other.rows) or Counter(rounded(one.rows)) == Counter(rounded(other.rows))


def difference(one, other, name, other_name):
    """The first rows that only one of two answers has."""
    first, second = Counter(rounded(one.rows)), Counter(rounded(other.rows))
    return (
        f"{len(one.rows)} rows of {name}, {len(other.rows)} of {other_name}; only the first has {shown(first - second)}, "
        f"only the second {shown(second - first)}"
    )


def shown(rows):
    return [tuple(str(value) if isinstance(value, (Decimal, datetime.date)) else value for value in row) for row in list(rows.elements())[:3]]
