"""Check arguments, and join alerts with their listings."""

from numbers import Integral
from typing import Any

import pandas as pd

from exposurekit.analysis import tasks
from exposurekit.errors import InvalidArgument

# The columns that identify an alert's record, the surest first.
_RECORD_COLUMNS = (["record_id"], ["site", "href"], ["site"])


def check_user_id(user_id: object) -> int:
    """Return one user id as an int; only integers of 0 or more are ids."""
    if isinstance(user_id, Integral) and not isinstance(user_id, bool) and 0 <= int(user_id) < 2**63:
        return int(user_id)
    raise InvalidArgument("A user id is an integer of 0 or more, such as 12: take it from the column user_id")


def check_choice(value: Any, allowed: tuple[Any, ...], name: str) -> None:
    """Raise `InvalidArgument` if a value is not allowed."""
    if value not in allowed:
        raise InvalidArgument(f"{name} is one of: {', '.join(map(str, allowed))}")


def keys_of(alerts: pd.DataFrame, names: pd.DataFrame) -> "pd.Series[Any]":
    """Return the key of each alert's record (Int64), where a service gives a record another id at each scan.

    ``names`` have one row per version of a record. The key is that of the record with the alert's ``record_id``, else with
    its ``site`` and ``href``, else with its ``site`` alone; missing where none of these identifies exactly one record.
    """
    types = {"record_id": "Int64", "site": "str", "href": "str"}
    left, right = alerts.astype(types).reset_index(drop=True), names.astype(types | {"key": "Int64"})
    keys: pd.Series[Any] = pd.Series(pd.NA, index=left.index, dtype="Int64")
    for columns in _RECORD_COLUMNS:
        on = ["user_id", *columns]
        pairs = right[[*on, "key"]].dropna().drop_duplicates()
        unambiguous = pairs.drop_duplicates(on, keep=False)
        keys = keys.fillna(left[on].merge(unambiguous, on=on, how="left")["key"])
    return keys


def with_listings(
    alerts: pd.DataFrame, records: pd.DataFrame, names: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Join alerts with their listings: `analysis.tasks.with_listings`; ``names`` as in `keys_of`, if ids change."""
    if names is None:
        return tasks.with_listings(alerts, records)
    keyed = (table.assign(key=keys_of(table, names).array) for table in (alerts, records))
    return tasks.with_listings(*keyed, by="key").drop(columns="key")
