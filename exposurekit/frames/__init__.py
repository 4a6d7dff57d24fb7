"""The threshold: what the contract validated becomes tables, and tables become DataFrames. Fetches nothing.

Rows become Arrow in batches, Arrow becomes pandas at the end: a person's dicts live no longer than their batch.

::

    columns    every table's columns and dtypes      building    the tables themselves
"""

from exposurekit.frames.building import (
    EVENTS,
    OF_USER,
    Tables,
    flatten,
    frame,
    of_alerts,
    of_items,
    of_rows,
    of_users,
    people,
    steps_of,
    told,
)
from exposurekit.frames.columns import CATEGORY, DETAILS, LISTS_DTYPE, TABLES, TEXT_DTYPE, Column

__all__ = [
    "CATEGORY",
    "DETAILS",
    "EVENTS",
    "LISTS_DTYPE",
    "OF_USER",
    "TABLES",
    "TEXT_DTYPE",
    "Column",
    "Tables",
    "flatten",
    "frame",
    "of_alerts",
    "of_items",
    "of_rows",
    "of_users",
    "people",
    "steps_of",
    "told",
]


def __dir__() -> list[str]:
    return [*__all__]
