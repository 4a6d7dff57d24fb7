"""Time as it was looked into: stretches of periods that follow on one another, and the gaps between them.

Where nobody looked nothing is drawn; no number is carried across a gap.
"""

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
_LONG = 2  # times the usual distance between looks: after that nobody looked


@dataclass(frozen=True, slots=True)
class Stretches:
    """When each row holds, ascending; a row whose end is the next one's start is followed by it.

    Attributes:
        starts: UTC, without a zone.
        ends: Likewise.
        kind: What a row is: a ``look``, ``day``, ``week`` or ``month``.
    """

    starts: Instants
    ends: Instants
    kind: str

    @property
    def _is_last(self) -> NDArray[np.bool_]:
        """Whether nothing follows on a row."""
        return np.append(self.starts[1:] > self.ends[:-1], np.ones(min(len(self.starts), 1), "bool"))

    def line(self) -> tuple[Texts, Ints]:
        """A line in steps: its instants, and the row of each; the row -1 breaks it."""
        points = np.where(self._is_last, 3, 1)  # where it starts, where it ends, and the break
        row = np.repeat(np.arange(len(self.starts)), points)
        step = np.arange(len(row)) - np.repeat(np.cumsum(points) - points, points)
        at = np.where(step == 0, self.starts[row], self.ends[row])
        return texts(at), np.where(step == 2, -1, row)  # noqa: PLR2004  the break

    def outline(self) -> tuple[Texts, Ints, NDArray[np.bool_]]:
        """Around each stretch: instants, the row of each (-1: a break), and whether it is on the lower side."""
        last = np.flatnonzero(self._is_last)
        first = np.append(-1, last)[: len(last)] + 1
        there = [np.arange(2 * start, 2 * end + 2) for start, end in zip(first, last, strict=True)]
        corner = np.concatenate([_NONE, *(part for one in there for part in (one, one[::-1], _BREAK))])
        lower = [np.repeat([False, True, False], [len(one), len(one), 1]) for one in there]
        row = corner // 2
        at = np.where(corner % 2 == 1, self.ends[row], self.starts[row])
        return texts(at), row, np.concatenate([_NONE.astype("bool"), *lower])

    def gaps(self) -> "Stretches":
        """The stretches in between, in which nobody looked."""
        after = np.flatnonzero(self._is_last[:-1])
        return Stretches(self.ends[after], self.starts[after + 1], self.kind)

    def missed(self) -> int:
        """How many days, weeks or months, or long breaks between looks, nobody looked in."""
        gaps = self.gaps()
        if self.kind == "look":
            return len(gaps.starts)
        unit = {"day": "D", "week": "D", "month": "M"}[self.kind]
        n = (gaps.ends.astype(f"M8[{unit}]") - gaps.starts.astype(f"M8[{unit}]")).astype("int64").sum()
        return int(n) // (_WEEK_DAYS if self.kind == "week" else 1)


def stretches(periods: "pd.Series[Any]") -> Stretches:
    """When each row of a table over time holds.

    A day, a week and a month hold until the next begins. A look holds until the next one, but not for much longer than
    looks usually lie apart.

    Args:
        periods: The start of each row's period, UTC; each once, ascending.

    >>> days = pd.to_datetime(pd.Series(["2026-03-02", "2026-03-03", "2026-03-07"]))
    >>> from exposurekit.charts.time_gaps import stretches
    >>> stretches(days).kind, stretches(days).missed()
    ('day', 3)
    """
    starts = pd.to_datetime(periods, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")
    kind = _kind(starts)
    if kind == "month":
        return Stretches(starts, (starts.astype("M8[M]") + _MONTH).astype("M8[us]"), kind)
    if kind != "look":
        return Stretches(starts, starts + _DAY * (_WEEK_DAYS if kind == "week" else 1), kind)
    apart = np.diff(starts)
    usual = np.quantile(apart.astype("int64"), 0.5, method="lower").astype("m8[us]") if len(apart) else _DAY
    following = np.append(starts[1:], starts[-1:] + usual)
    return Stretches(starts, np.where(following - starts > _LONG * usual, starts + usual, following), kind)


def texts(at: Instants) -> Texts:
    """Instants as Plotly reads them."""
    return np.datetime_as_string(at, unit="s")


def _kind(starts: Instants) -> str:
    """What the rows are, by where they begin. Rows that all begin on Mondays are weeks, a single one is a day."""
    days = starts.astype("M8[D]")
    if (days != starts).any():
        return "look"
    if len(starts) > 1 and (days == days.astype("M8[M]")).all():
        return "month"
    mondays = ((days.astype("int64") + _MONDAY) % _WEEK_DAYS == 0).all()
    return "week" if len(starts) > 1 and mondays else "day"
