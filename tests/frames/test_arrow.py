"""Arrow tables become DataFrames without loss."""

import pandas as pd
import pyarrow as pa
import pytest

from exposurekit import frames

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
