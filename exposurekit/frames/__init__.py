"""DataFrames from validated objects: batches of rows are packed into Arrow and converted to pandas at the end.

::

    schema    columns and dtypes of every table       build    build the tables
    arrow     Arrow tables to pandas
    key_access  tables by name in brackets, with completion
    people    find people by name or id
"""

from exposurekit.frames.arrow import from_arrow
from exposurekit.frames.build import (
    EVENTS,
    OF_USER,
    Tables,
    flatten,
    frame,
    from_alerts,
    from_items,
    from_users,
    of_rows,
    pack_alerts,
    pack_users,
    procedures_from_steps,
    steps_from_alerts,
)
from exposurekit.frames.schema import (
    CATEGORY,
    DETAILS,
    LISTS_DTYPE,
    SOURCE_RECORD,
    TABLES,
    TEXT_DTYPE,
    Column,
)

__all__ = [
    "CATEGORY",
    "DETAILS",
    "EVENTS",
    "LISTS_DTYPE",
    "OF_USER",
    "SOURCE_RECORD",
    "TABLES",
    "TEXT_DTYPE",
    "Column",
    "Tables",
    "flatten",
    "frame",
    "from_alerts",
    "from_arrow",
    "from_items",
    "from_users",
    "of_rows",
    "pack_alerts",
    "pack_users",
    "procedures_from_steps",
    "steps_from_alerts",
]


def __dir__() -> list[str]:
    return [*__all__]
