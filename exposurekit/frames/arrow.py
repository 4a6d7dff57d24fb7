"""Arrow tables to pandas, without loss."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from exposurekit.errors import InvalidArgument

# Arrow's own pool retains what it frees, is slower for many short-lived small arrays, and takes huge pages: the system has
# to clear them, and to make room for them.
POOL = pa.system_memory_pool()
_TAKEN_AT_ONCE = 10_000  # rows
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

    Raises:
        InvalidArgument: ``table`` is a single column, such as a Polars Series.

    >>> import pyarrow as pa
    >>> frames.from_arrow(pa.table({"user_id": [9007199254790993, None]}))["user_id"].tolist()
    [9007199254790993, <NA>]
    """
    try:
        rows = table if isinstance(table, pa.Table) else pa.table(table)
    except pa.ArrowInvalid:  # a single column
        raise InvalidArgument(
            "Pass a table, not a single column: series.to_frame() makes a table of it"
        ) from None
    frame = pd.DataFrame(dict(enumerate(array_of(values, is_part=is_part) for values in rows.columns)))
    frame.columns = pd.Index(rows.column_names, dtype="str")
    return frame


def texts(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Convert a column to text, as ``astype("str")`` does; of categories each is converted once, and not each row.

    >>> from exposurekit.frames.arrow import texts
    >>> texts(pd.Series(["discovered", None], dtype="category")).tolist()
    ['discovered', nan]
    """
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return column.astype("str")
    names = column.cat.categories.astype("str").array
    rows = names.take(column.cat.codes.to_numpy(), allow_fill=True)
    return pd.Series(rows, column.index, name=column.name)


def text_array(column: "pd.Series[Any] | pd.Index[Any]") -> pa.Array:
    """Convert a column of texts to one array of Arrow.

    >>> from exposurekit.frames.arrow import text_array
    >>> text_array(pd.Series(["removed", None])).to_pylist()
    ['removed', None]
    """
    values = pa.array(column.astype("str").array, pa.large_string(), from_pandas=True)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def categories(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """Convert a column of few different texts to categories: what is asked of each is then asked once.

    >>> from exposurekit.frames.arrow import categories
    >>> categories(pd.Series(["removed", None, "removed"])).cat.codes.tolist()
    [0, -1, 0]
    """
    return (
        column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("str").astype("category")
    )


def counts_of(column: "pd.Series[Any]") -> "pd.Series[int]":
    """Count how often each text occurs in a column of `categories`; those that do not occur count zero.

    >>> from exposurekit.frames.arrow import counts_of
    >>> counts_of(pd.Series(["removed", None, "removed"], dtype="category")).to_dict()
    {'removed': 2}
    """
    counts = column.value_counts(sort=False)
    return counts.set_axis(counts.index.astype("str"))


def take(values: Any, rows: NDArray[np.int64]) -> Any:
    """Take rows of a pandas array, as its ``take(rows, allow_fill=True)`` does, with less memory if it is Arrow's.

    >>> from exposurekit.frames.arrow import take
    >>> take(pd.array(["a", "b"], dtype="str"), np.array([1, -1])).tolist()
    ['b', nan]
    """
    if not isinstance(values, pd.arrays.ArrowExtensionArray):
        return values.take(rows, allow_fill=True)
    kind: Any = values.dtype
    array = pa.array(values)
    if isinstance(array, pa.ChunkedArray):  # combine_chunks would use Arrow's own pool
        array = pa.concat_arrays(array.chunks or [pa.array([], array.type)], memory_pool=POOL)
    parts = np.array_split(rows, -(-len(rows) // _TAKEN_AT_ONCE) or 1)  # what is taken grows by copying
    indices = pa.chunked_array([pa.array(part, mask=part < 0, memory_pool=POOL) for part in parts])
    return kind.__from_arrow__(pc.take(array, indices, memory_pool=POOL))


@dataclass(slots=True)
class _PoolUses:
    """The uses of `system_memory` under way, of several threads perhaps, and the pool from before the first."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    count: int = 0
    before: pa.MemoryPool = field(default_factory=pa.default_memory_pool)


_USES = _PoolUses()


@contextlib.contextmanager
def system_memory() -> Iterator[None]:
    """Let all of this process, also pandas, take Arrow's memory from `POOL` meanwhile.

    >>> from exposurekit.frames.arrow import system_memory
    >>> with system_memory():
    ...     pa.default_memory_pool().backend_name
    'system'
    """
    with _USES.lock:
        if not _USES.count:
            _USES.before = pa.default_memory_pool()
            pa.set_memory_pool(POOL)
        _USES.count += 1
    try:
        yield
    finally:
        with _USES.lock:
            _USES.count -= 1
            if not _USES.count:
                pa.set_memory_pool(_USES.before)


def is_in(column: "pd.Series[Any]", values: "pd.Series[Any]") -> NDArray[np.bool_]:
    """Whether each cell is among some values of the same type; pandas would convert each text of these to Python.

    >>> from exposurekit.frames.arrow import is_in
    >>> is_in(pd.Series(["a", None, "b"]), pd.Series(["b", "c"])).tolist()
    [False, False, True]
    """
    if not isinstance(column.dtype, pd.StringDtype):
        return column.isin(values).to_numpy("bool")
    is_among = pc.is_in(text_array(column), value_set=text_array(values), skip_nulls=True)
    among: NDArray[np.bool_] = is_among.to_numpy(zero_copy_only=False)
    return among


def list_keys(lists: "pd.Series[Any]") -> list[bytes]:
    """Return a key for each list of texts, to group equal ones by: lists have no hash.

    >>> from exposurekit.frames.arrow import list_keys
    >>> keys = list_keys(pd.Series([["Open the form.", "Send it."], ["Send it."], ["Send it."]]))
    >>> keys[0] != keys[1] == keys[2]
    True
    """
    cells = pa.array(lists, pa.list_(pa.string()), from_pandas=True)
    flat = pc.list_flatten(cells)
    flat = flat.combine_chunks() if isinstance(flat, pa.ChunkedArray) else flat
    codes = flat.dictionary_encode().indices.to_numpy()
    ends = np.cumsum(pc.list_value_length(cells).fill_null(0).to_numpy()) * codes.itemsize
    data = codes.tobytes()
    return [data[begin:end] for begin, end in pairwise([0, *ends.tolist()])]


def lists_of(values: Sequence[Sequence[str] | None]) -> Any:
    """Return lists of texts as an array of pandas."""
    return pd.arrays.ArrowExtensionArray(pa.array(values, pa.list_(pa.string()), memory_pool=POOL))


def _without_views(kind: pa.DataType) -> pa.DataType:
    """The same type without views of text or bytes, as Polars has them: pandas cannot filter lists and structs of them."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        one_more = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return one_more(_without_views(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_without_views(kind.value_type), kind.list_size)
    if pa.types.is_struct(kind):
        return pa.struct(
            [(kind.field(at).name, _without_views(kind.field(at).type)) for at in range(kind.num_fields)]
        )
    return kind


def array_of(values: pa.ChunkedArray, *, is_part: bool = False) -> Any:
    """Convert one column, as `from_arrow` does, to an array: a Series for each column would take most of the time."""
    kind = _without_views(values.type)
    values = values if kind == values.type else values.cast(kind)
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
