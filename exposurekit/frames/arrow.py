"""Arrow tables to pandas, without loss."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyarrow as pa

_TEXT: Any = pd.StringDtype(na_value=np.nan)
_NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype(), pa.bool_(): pd.BooleanDtype()}


@runtime_checkable
class ArrowTable(Protocol):
    """A table of any library that speaks Arrow, such as Polars, PyArrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows, as a PyCapsule."""


def from_arrow(table: ArrowTable, *, is_part: bool = False) -> pd.DataFrame:
    """Convert an Arrow table to pandas; pandas alone would round large integers in columns with missing values.

    Args:
        table: A table of any library that speaks Arrow.
        is_part: Whether the rows are a part of a larger table: its dtypes then do not depend on the rows, and integers
            and booleans are always nullable.

    Returns:
        The same columns. Text is ``str``; integers with missing values are ``Int64`` or ``UInt64``, and booleans with
        missing values ``boolean``; lists and structs are Arrow's; other missing values are NaN, NaT or None.

    >>> import pyarrow as pa
    >>> frames.from_arrow(pa.table({"user_id": [9007199254790993, None]}))["user_id"].tolist()
    [9007199254790993, <NA>]
    """
    rows = table if isinstance(table, pa.Table) else pa.table(table)
    frame = pd.DataFrame(dict(enumerate(array_of(values, is_part=is_part) for values in rows.columns)))
    frame.columns = pd.Index(rows.column_names, dtype="str")
    return frame


def array_of(values: pa.ChunkedArray, *, is_part: bool = False) -> Any:
    """Convert one column, as `from_arrow` does, to an array: a Series for each column would take most of the time."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        if not (is_part or values.null_count):
            return values.to_numpy()
        wide = kind if kind in _NULLABLE else pa.int64()
        return values.cast(wide).to_pandas(types_mapper=_NULLABLE.get).array
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        return pd.arrays.ArrowExtensionArray(values)
    if pa.types.is_string(kind):
        return _TEXT.__from_arrow__(values)
    if pa.types.is_timestamp(kind) and kind.tz == "UTC":
        return pd.DatetimeTZDtype(kind.unit, "UTC").__from_arrow__(values)
    return values.to_pandas().array
