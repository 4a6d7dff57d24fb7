"""The changes between two instants, as a value with an HTML repr."""

from dataclasses import dataclass, field
from datetime import datetime

import pandas as pd

from exposurekit.history.times import format_time
from exposurekit.text.html_cards import NAME_MAX, html_card, rows, truncate


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed between two instants.

    ``things``, ``counts`` and ``by_site`` compare the two ends: an item that was removed, listed again and removed once
    more counts once. ``why`` counts every move in between, so its ``new`` can be larger.

    Attributes:
        things: One row per item that changed: ``user_id``, ``key``, ``site``, ``before``, ``after``, ``what``, ...
        counts: ``what`` and ``n``, ``unchanged`` included.
        by_site: One row per site: ``site``, ``open_before``, ``open_after``, ``change``, ``new``, ``removed``, ... (int64).
        why: How the number of open items changed: ``cause``, ``n`` (signed), ``open`` (the running total).
        since: After this instant, UTC.
        until: Until this one, inclusive.

    >>> history.diff(history.last_run().finished_at)
    Diff(... unchanged)
    """

    things: pd.DataFrame = field(repr=False)
    counts: pd.DataFrame = field(repr=False)
    by_site: pd.DataFrame = field(repr=False)
    why: pd.DataFrame = field(repr=False)
    since: datetime
    until: datetime

    def __repr__(self) -> str:
        pairs = zip(self.counts["what"], self.counts["n"], strict=True)
        return f"Diff({', '.join(f'{n:,} {truncate(what, NAME_MAX)}' for what, n in pairs if n) or 'nothing known'})"

    def _repr_html_(self) -> str:
        counts = [(what, f"{n:,}") for what, n in zip(self.counts["what"], self.counts["n"], strict=True)]
        causes = self.why[["cause", "n", "open"]].itertuples(index=False)
        why = [(cause, f"{n:+,}" if n else "0", f"{total:,}") for cause, n, total in causes]
        each = rows("things, each once: then and now", ("what", "n"), counts)
        span = {"since": format_time(self.since), "until": format_time(self.until)}
        return html_card(
            "Diff", span, each, rows("why: every move in between", ("cause", "n", "then open"), why)
        )
