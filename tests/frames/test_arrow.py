"""Arrow tables become DataFrames without loss."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from exposurekit import frames
from exposurekit.errors import InvalidArgument
from exposurekit.frames import TEXT_DTYPE, arrow
from exposurekit.frames.arrow import texts

LARGE = 9007199254790993  # no float64 is equal


@pytest.mark.parametrize(
    ("kind", "value", "dtype", "full"),
    [
        (pa.int64(), LARGE, "Int64", "int64"),
        (pa.int8(), -1, "Int64", "int8"),
        (pa.uint64(), 2**64 - 1, "UInt64", "uint64"),
        (pa.bool_(), False, "boolean", "bool"),
        (pa.string(), "Seekfolk", "str", "str"),
        (pa.large_string(), "Seekfolk", "str", "str"),
        (pa.string_view(), "Seekfolk", "str", "str"),
        (pa.list_(pa.int64()), [LARGE, None], "list<item: int64>[pyarrow]", "list<item: int64>[pyarrow]"),
    ],
    ids=str,
)
def test_values_next_to_missing_ones_stay_exact(kind, value, dtype, full):
    converted = frames.from_arrow(pa.table({"value": pa.array([value, None], kind)}))["value"]
    assert str(converted.dtype) == dtype
    assert converted[0] == value
    assert pd.isna(converted[1])
    there = pa.table({"value": pa.array([value], kind)})
    assert str(frames.from_arrow(there)["value"].dtype) == full
    assert str(frames.from_arrow(there, is_part=True)["value"].dtype) == dtype


def test_columns_keep_their_names_and_order():
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["b", "a", "b"])
    assert frames.from_arrow(rows).columns.tolist() == ["b", "a", "b"]
    assert frames.from_arrow(rows).to_numpy().tolist() == [[1, 2, 3]]
    assert frames.from_arrow(rows.slice(0, 0)).columns.tolist() == ["b", "a", "b"]


def test_frame_of_polars_keeps_its_values():
    """Polars has texts as views, also in lists and structs, where pandas cannot filter them."""
    at = datetime(2026, 3, 1, tzinfo=UTC)
    frame = pl.DataFrame(
        {
            "site": pl.Series(["A", None], dtype=pl.Categorical),
            "text": ["Straße", None],
            "maybe": [LARGE, None],
            "flag": [True, None],
            "at": [at, None],
            "lists": [["a", "b"], None],
            "parts": [{"n": 1, "text": "a"}, None],
            "pairs": pl.Series([["a", "b"], None], dtype=pl.Array(pl.String, 2)),
            "bytes": [b"a", None],
        }
    )
    converted = frames.from_arrow(frame)
    dtypes = ["category", "str", "Int64", "boolean", "datetime64[us, UTC]"]
    assert converted.dtypes.iloc[:5].astype("str").tolist() == dtypes
    assert not [name for name, dtype in converted.dtypes.items() if "view" in str(dtype)]
    first, second = converted.to_dict("records")
    assert [*first.pop("pairs")] == ["a", "b"]
    assert [*first.pop("lists")] == ["a", "b"]
    assert first == {
        "site": "A",
        "text": "Straße",
        "maybe": LARGE,
        "flag": True,
        "at": pd.Timestamp(at),
        "parts": {"n": 1, "text": "a"},
        "bytes": b"a",
    }
    assert all(pd.isna(value) for value in second.values())
    assert str(converted)  # pandas filters missing values for display
    with pytest.raises(InvalidArgument, match=r"not a single column: series\.to_frame\(\)"):
        frames.from_arrow(frame["maybe"])


@pytest.mark.parametrize("values", [["b", None, "a", "b"], [None], [], [7, 8, 7]])
def test_categories_become_the_text_of_each_row(values):
    column = pd.Series(values, dtype="category", name="site").iloc[::-1]
    pd.testing.assert_series_equal(texts(column), column.astype("str"))


@pytest.mark.parametrize("dtype", ["str", "object", "category"])
@pytest.mark.parametrize("values", [["b", "c"], []])
def test_membership_is_that_of_pandas(dtype, values):
    column = pd.Series(["b", None, "a", "b"], dtype=dtype).iloc[::-1]
    among = pd.Series(values, dtype="str")
    assert arrow.is_in(column, among).tolist() == column.isin(among).tolist()


def test_memory_is_of_the_system_until_an_error():
    @arrow.system_memory()
    def raise_name():
        raise InvalidArgument(pa.default_memory_pool().backend_name)

    before = pa.default_memory_pool().backend_name
    with pytest.raises(InvalidArgument, match="system"):
        raise_name()
    assert pa.default_memory_pool().backend_name == before


def test_memory_is_of_the_system_until_the_last_use_ends():
    """Of two reports that overlap, the one that began first may end first."""
    before = pa.default_memory_pool().backend_name
    first, second = arrow.system_memory(), arrow.system_memory()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == "system" != before
    second.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == before


@pytest.mark.parametrize("chunks", [[], [["b", None]], [["b"], [], ["a", None]]])
@pytest.mark.parametrize("kind", [pa.large_string(), pa.list_(pa.string())])
@pytest.mark.parametrize("at_once", [2, 100])
def test_rows_are_taken_as_pandas_takes_them(chunks, kind, at_once, monkeypatch):
    monkeypatch.setattr(arrow, "_TAKEN_AT_ONCE", at_once)
    texts_or_lists = chunks if kind == pa.large_string() else [[x and [x] for x in one] for one in chunks]
    dtype = TEXT_DTYPE if kind == pa.large_string() else pd.ArrowDtype(kind)
    values = dtype.__from_arrow__(pa.chunked_array(texts_or_lists, kind))
    rows = np.array([*range(len(values)), *[-1] * 3, *reversed(range(len(values)))], "int64")
    for some in (rows, rows[:0]):
        expected = pd.Series(values.take(some, allow_fill=True))
        pd.testing.assert_series_equal(pd.Series(arrow.take(values, some)), expected)
