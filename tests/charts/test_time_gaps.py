"""Spans of time with and without observations: no number is carried over a gap."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exposurekit.charts.time_gaps import observed_spans

TUESDAY = pd.Timestamp("2026-03-03", tz="UTC")


@settings(max_examples=40)
@given(st.sets(st.integers(0, 60), min_size=1))
def test_observed_and_unobserved_spans_cover_the_whole(chosen):
    chosen = chosen | {0, 1}  # Mondays alone would be weeks, and first days months
    when = observed_spans(pd.Series(TUESDAY + pd.to_timedelta(sorted(chosen), unit="D")))
    assert len(chosen) + when.count_unobserved() == max(chosen) - min(chosen) + 1
    at, row = when.line()
    assert {int(one) for one in row} == {*range(len(chosen)), -1}
    assert not (np.diff(at.astype("M8[s]")) < np.timedelta64(0, "s")).any()


@pytest.mark.parametrize(
    ("periods", "kind", "last"),
    [
        (["2026-03-02"], "day", "2026-03-03"),
        (["2026-03-02", "2026-03-09", "2026-03-23"], "week", "2026-03-30"),
        (["2026-01-01", "2026-02-01", "2026-04-01"], "month", "2026-05-01"),
        (["2026-03-02T06:00", "2026-03-02T18:00", "2026-03-05T06:00"], "run", "2026-03-05T18:00"),
    ],
    ids=["day", "week", "month", "run"],
)
def test_a_row_is_valid_for_its_period(periods, kind, last):
    when = observed_spans(pd.Series(pd.to_datetime(periods, utc=True, format="ISO8601")))
    assert when.kind == kind
    assert when.ends[-1] == np.datetime64(last)
    assert when.count_unobserved() == (0 if len(periods) == 1 else 1)


def test_a_run_counts_until_the_next_except_over_long_gaps():
    at = pd.to_datetime(
        ["2026-03-02T06:00", "2026-03-02T12:00", "2026-03-02T18:00", "2026-03-09T06:00"], utc=True
    )
    when = observed_spans(pd.Series(at))
    assert (when.ends - when.starts == np.timedelta64(6, "h")).all()
    assert when.count_unobserved() == 1
