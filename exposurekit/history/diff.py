"""The changes between two instants, as a value with an HTML repr."""

from dataclasses import dataclass, field
from datetime import datetime

import pandas as pd

from exposurekit.analysis.diff import OPEN_AFTER, OPEN_BEFORE, STILL_OPEN
from exposurekit.text.html_cards import NAME_MAX, html_card, rows, truncate
from exposurekit.text.times import format_time


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed between two instants.

    All tables count every change in between, so they agree: a listing that was found and removed is new and removed.

    Attributes:
        changes: One row per change: ``user_id``, ``key``, ``record_id`` (of records, Int64), ``site``, ``before``, ``after``, ``what``, ...
        counts: ``what`` and ``n``; the last row is ``still open``: all items that are open at the end.
        by_site: One row per site: ``site``, ``open_before``, ``new``, ..., ``removed``, ..., ``open_after`` (int64).
        why: How the number of open items changed: ``cause``, ``n`` (signed), ``open`` (the running total).
        since: After this instant, UTC.
        until: Until this one, inclusive.
        is_first: Whether nothing had been observed by ``since``, so that everything listed counts as new.

    >>> history.diff(history.last_run().finished_at)
    Diff(... still open)
    """

    changes: pd.DataFrame = field(repr=False)
    counts: pd.DataFrame = field(repr=False)
    by_site: pd.DataFrame = field(repr=False)
    why: pd.DataFrame = field(repr=False)
    since: datetime
    until: datetime
    is_first: bool = False

    @property
    def note(self) -> str:
        """What limits the comparison, in a sentence; empty if nothing does."""
        if not self.is_first:
            return ""
        return f"Nothing had been observed by {format_time(self.since)}: compare with a later time."

    def __repr__(self) -> str:
        pairs = zip(self.counts["what"], self.counts["n"], strict=True)
        parts = [f"{n:,} {truncate(what, NAME_MAX)}" for what, n in pairs if n or what == STILL_OPEN]
        return f"Diff({', '.join(parts)}{f'. {self.note}' if self.note else ''})"

    def _repr_html_(self) -> str:
        counts = [(what, f"{n:,}") for what, n in zip(self.counts["what"], self.counts["n"], strict=True)]
        causes = self.why[["cause", "n", "open"]].itertuples(index=False)
        why = [
            (cause, "" if cause in (OPEN_BEFORE, OPEN_AFTER) else _signed(n), f"{total:,}")
            for cause, n, total in causes
        ]
        each = rows("what happened", ("what", "n"), counts)
        span = {"since": format_time(self.since), "until": format_time(self.until)}
        span |= {"note": self.note} if self.note else {}
        return html_card("Diff", span, each, rows("how many are open, and why", ("cause", "n", "open"), why))


def _signed(n: int) -> str:
    return f"{n:+,}".replace("-", "\N{MINUS SIGN}") if n else "0"
