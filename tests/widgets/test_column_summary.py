"""The header of a column has a histogram or the most frequent values, and the share of missing values."""

import numpy as np
import pandas as pd
import pytest
from support import widget_controls as kit

from exposurekit.widgets.column_summary import BINS, ROWS_MAX, TOP, summarize


def summary(values):
    [summary] = summarize(pd.DataFrame({"column": values}))
    return summary


def test_numbers_have_a_histogram_from_the_least_to_the_greatest():
    numbers = summary([1, 1, 1, 10, None])
    assert (len(numbers["bars"]), numbers["bars"][0], numbers["bars"][-1]) == (BINS, 1.0, 1 / 3)
    assert (numbers["range"], numbers["missing"], numbers["is_number"]) == (["1", "10"], "20%", True)


@pytest.mark.parametrize(
    "values",
    [
        *([7], [0.0, 0.0], [np.inf, 1.0], [np.finfo("float64").max, -1.7e308]),
        *([2**53 + 1, 2**53 + 1], [2**53, 2**53 + 2], [2**63 - 1, 2**63 - 2], [0.0, 5e-324]),
    ],
)
def test_a_histogram_of_odd_numbers_has_a_full_bar(values):
    assert max(summary(values)["bars"]) == 1.0


def test_dates_have_a_histogram_of_days():
    dates = summary(pd.to_datetime(["2026-03-01", "2026-03-09"], utc=True))
    assert (dates["range"], dates["bars"][0]) == (["2026-03-01", "2026-03-09"], 1.0)


def test_texts_have_their_most_frequent_values():
    texts = summary([*"aaabbc", "d", None])
    assert [value for value, *_ in texts["top"]] == ["a", "b", "c"]
    assert texts["top"][0][1:] == [pytest.approx(3 / 7), "43%"]
    assert (len(texts["top"]), texts["note"], texts["missing"]) == (TOP, "1 more", "12%")


def test_distinct_texts_are_counted():
    assert summary([*"abcdef"])["note"] == "6 distinct"


@pytest.mark.parametrize("values", [[], [None, None], [["a"], ["b"]], [1j, 2j], [{"a": 1}, {}]])
def test_other_values_have_no_histogram(values):
    assert summary(pd.Series(values, dtype=object))["bars"] == []


def test_a_large_table_is_estimated_from_evenly_spread_rows():
    summaries = summarize(kit.records(3 * ROWS_MAX))
    assert all("estimated from 2,000 rows" in one["note"] for one in summaries)
    assert not any("more estimated" in one["note"] for one in summaries)
