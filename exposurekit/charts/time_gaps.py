"""Observed time spans and the gaps between them; charts carry no number across a gap."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Instants = NDArray[np.datetime64]
Ints = NDArray[np.int64]
Texts = NDArray[np.str_]
_DAY, _MONTH = np.timedelta64(1, "D"), np.timedelta64(1, "M")
_WEEK_DAYS = 7
_MONDAY = 3  # day 0, 1970-01-01, was a Thursday
_NONE, _BREAK = np.empty(0, "int64"), np.array([-1])
_GAP_FACTOR = 2  # times the median interval between runs: a longer one is a gap


@dataclass(frozen=True, slots=True)
class ObservedSpans:
    """The time span of each row, ascending; rows are contiguous if one ends where the next starts.

    Attributes:
        starts: UTC, without a zone.
        ends: UTC, without a zone.
        kind: The unit of a row: ``run``, ``day``, ``week`` or ``month``.
    """

    starts: Instants
    ends: Instants
    kind: str

    @property
    def _is_last(self) -> NDArray[np.bool_]:
        """Whether a gap, or the end, follows each row."""
        return np.append(self.starts[1:] > self.ends[:-1], np.ones(min(len(self.starts), 1), "bool"))

    def line(self) -> tuple[Texts, Ints]:
        """The points of a step line: instants and row numbers; row -1 breaks the line."""
        points = np.where(self._is_last, 3, 1)  # start, end and break; only the start before a contiguous row
        row = np.repeat(np.arange(len(self.starts)), points)
        step = np.arange(len(row)) - np.repeat(np.cumsum(points) - points, points)
        at = np.where(step == 0, self.starts[row], self.ends[row])
        return iso_texts(at), np.where(step == 2, -1, row)  # noqa: PLR2004  the break

    def outline(self) -> tuple[Texts, Ints, NDArray[np.bool_]]:
        """The outline around contiguous rows: instants, row numbers (-1: a break), and whether a point is at the bottom."""
        last = np.flatnonzero(self._is_last)
        first = np.append(-1, last)[: len(last)] + 1
        tops = [np.arange(2 * start, 2 * end + 2) for start, end in zip(first, last, strict=True)]
        corner = np.concatenate([_NONE, *(part for top in tops for part in (top, top[::-1], _BREAK))])
        lower = [np.repeat([False, True, False], [len(top), len(top), 1]) for top in tops]
        row = corner // 2
        at = np.where(corner % 2 == 1, self.ends[row], self.starts[row])
        return iso_texts(at), row, np.concatenate([_NONE.astype("bool"), *lower])

    def gaps(self) -> "ObservedSpans":
        """The gaps between contiguous rows."""
        before_gap = np.flatnonzero(self._is_last[:-1])
        return ObservedSpans(self.ends[before_gap], self.starts[before_gap + 1], self.kind)

    def count_unobserved(self) -> int:
        """The number of days, weeks or months without an observation; for runs, the number of gaps."""
        gaps = self.gaps()
        if self.kind == "run":
            return len(gaps.starts)
        unit = {"day": "D", "week": "D", "month": "M"}[self.kind]
        n = (gaps.ends.astype(f"M8[{unit}]") - gaps.starts.astype(f"M8[{unit}]")).astype("int64").sum()
        return int(n) // (_WEEK_DAYS if self.kind == "week" else 1)


def observed_spans(periods: "pd.Series[Any]") -> ObservedSpans:
    """Return the time span of each row of a table over time.

    A day, week or month lasts until the next one begins. A run lasts until the next run, but at most twice the median
    interval between runs; after a longer interval it lasts one median interval.

    Args:
        periods: The start of each row's period, UTC; unique and ascending.

    >>> days = pd.to_datetime(pd.Series(["2026-03-02", "2026-03-03", "2026-03-07"]))
    >>> from exposurekit.charts.time_gaps import observed_spans
    >>> observed_spans(days).kind, observed_spans(days).count_unobserved()
    ('day', 3)
    """
    starts = pd.to_datetime(periods, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")
    kind = _kind(starts)
    if kind == "month":
        return ObservedSpans(starts, (starts.astype("M8[M]") + _MONTH).astype("M8[us]"), kind)
    if kind != "run":
        return ObservedSpans(starts, starts + _DAY * (_WEEK_DAYS if kind == "week" else 1), kind)
    intervals = np.diff(starts)
    median = (
        np.quantile(intervals.astype("int64"), 0.5, method="lower").astype("m8[us]")
        if len(intervals)
        else _DAY
    )
    following = np.append(starts[1:], starts[-1:] + median)
    ends = np.where(following - starts > _GAP_FACTOR * median, starts + median, following)
    return ObservedSpans(starts, ends, kind)


def iso_texts(at: Instants) -> Texts:
    """Format instants as ISO 8601, as Plotly expects them."""
    return np.datetime_as_string(at, unit="s")


def _kind(starts: Instants) -> str:
    """Infer the unit of the rows from their starts: weeks if all are Mondays; a single row is a day."""
    days = starts.astype("M8[D]")
    if (days != starts).any():
        return "run"
    if len(starts) > 1 and (days == days.astype("M8[M]")).all():
        return "month"
    mondays = ((days.astype("int64") + _MONDAY) % _WEEK_DAYS == 0).all()
    return "week" if len(starts) > 1 and mondays else "day"
