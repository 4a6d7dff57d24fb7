"""Convert between Arrow tables and pandas, and check the ids that callers give. Asks nothing."""

import contextlib
from collections.abc import Iterable
from numbers import Integral
from typing import Any

import pandas as pd
import pyarrow as pa

from exposurekit.analysis import tasks
from exposurekit.errors import InvalidArgument

People = int | Iterable[int] | None
_POINTS = (["record_id"], ["site", "href"], ["site"])


def one_id(user_id: object) -> int:
    """The id of one person: a whole number, and nothing that only reads like one.

    Raises:
        InvalidArgument: It is none.

    >>> one_id(np.int64(3))
    3
    """
    if isinstance(user_id, Integral) and not isinstance(user_id, bool) and 0 <= int(user_id) < 2**63:
        return int(user_id)
    raise InvalidArgument(
        "The id of a person is a whole number of 0 or more, such as 12: take it from user_id"
    )


def ids(user: Any) -> list[int]:
    """One id of a person, or several, as `Exposure` takes them.

    Raises:
        InvalidArgument: These are no ids.

    >>> ids(np.int64(3)), ids([1, 2])
    ([3], [1, 2])
    """
    found: list[int] = []
    if not isinstance(user, str | bytes | bool | pd.DataFrame):
        several = list(user) if isinstance(user, Iterable) else [user]
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            found = [int(one) for one in several]
        if found == several and all(-(2**63) <= one < 2**63 for one in found):
            return found
    raise InvalidArgument("user is the id of a person, or a list of ids")


def frame(table: pa.Table) -> pd.DataFrame:
    """As pandas shows it: text is str, what is missing NaN or NaT; numbers of which some are missing are Int64.

    >>> frame(pa.table({"n": [1, None], "text": ["a", None]})).dtypes.map(str).tolist()
    ['Int64', 'str']
    """
    return pd.DataFrame({name: series(table[name]) for name in table.column_names})


def series(values: pa.ChunkedArray) -> Any:
    """One column of `frame`.

    >>> series(pa.chunked_array([[True, False]])).tolist()
    [True, False]
    """
    if pa.types.is_integer(values.type) and values.null_count:
        return values.cast(pa.int64()).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    if pa.types.is_list(values.type):
        return pd.Series(pd.arrays.ArrowExtensionArray(values))
    if pa.types.is_string(values.type):
        return values.to_pandas().astype("str")
    return values.to_pandas()


def keys_of(alerts: pd.DataFrame, named: pd.DataFrame) -> "pd.Series[Any]":
    """Which record each alert is about, where a service gives a record another id at each scan.

    Args:
        alerts: ``user_id``, ``record_id`` (as it was when the alert was written), ``site``, ``href``.
        named: One row for each time that a record said something else: these columns, and ``key``.

    Returns:
        Int64, one for each alert, in its order: the key that its id points at, else its site and page, else its site
        alone; missing where none of these points at one record, and one only.

    >>> named = pd.DataFrame({"user_id": 1, "record_id": [5, 6], "site": ["a", "b"], "href": None, "key": [70, 80]})
    >>> keys_of(named.assign(record_id=[6, 9]).drop(columns="key"), named).tolist()
    [80, 80]
    """
    asked = alerts.astype({"record_id": "Int64", "site": "str", "href": "str"}).reset_index(drop=True)
    known = named.astype({"record_id": "Int64", "site": "str", "href": "str", "key": "Int64"})
    found: pd.Series[Any] = pd.Series(pd.NA, index=asked.index, dtype="Int64")
    for names in _POINTS:
        on = ["user_id", *names]
        pairs = known[[*on, "key"]].dropna().drop_duplicates()
        sure = pairs.drop_duplicates(on, keep=False)
        found = found.fillna(asked[on].merge(sure, on=on, how="left")["key"])
    return found


def with_listings(
    alerts: pd.DataFrame, records: pd.DataFrame, named: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Alerts, and what the listing of each shows: `analysis.tasks.with_listings`; ``named`` as of `keys_of`, or None."""
    if named is None:
        return tasks.with_listings(alerts, records)
    keyed = (table.assign(key=keys_of(table, named).array) for table in (alerts, records))
    return tasks.with_listings(*keyed, by="key").drop(columns="key")
