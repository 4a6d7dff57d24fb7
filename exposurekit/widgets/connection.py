"""What a notebook is connected to, since when, and what failed. Shows no key and no secret: it is given none."""

from typing import Any

import pandas as pd
from ipywidgets import HTML, Button

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import escaped
from exposurekit.widgets import static_html
from exposurekit.widgets.panel import Panel


class ConnectionPanel(Panel):
    """Where the figures come from, as of when, who could not be loaded; and a button to look again.

    Args:
        exposure: A connection; None: none.
        history: A memory; None: none.

    Raises:
        InvalidArgument: There is neither.

    >>> ek.widgets.ConnectionPanel(exposure, history)
    ConnectionPanel: http://127.0.0.1:... · demo · as of ... people; history: ... runs...
    """

    def __init__(self, exposure: Exposure | None = None, history: History | None = None) -> None:
        if exposure is None and history is None:
            raise InvalidArgument("Give an exposure, a history, or both")
        self._exposure, self._history = exposure, history
        self._about = HTML()
        again = Button(description="Look again", disabled=exposure is None)
        again.on_click(self.callback(self._again))
        super().__init__([self._about, again])
        self._show()

    def line(self) -> str:
        """What it is connected to, in one line."""
        parts = [] if self._exposure is None else [self._exposure.provenance]
        if self._history is not None:
            parts.append(f"history: {self._remembered()}")
        return f"ConnectionPanel: {'; '.join(parts)}"

    def to_html(self) -> str:
        """The same as text and a table.

        >>> "as of" in ek.widgets.ConnectionPanel(exposure).to_html()
        True
        """
        parts = []
        if self._exposure is not None:
            parts.append(f"<p><strong>Service</strong>: {escaped(self._exposure.provenance)}</p>")
            parts.append(_failed(self._exposure.failures()))
        if self._history is not None:
            parts.append(f"<p><strong>History</strong>: {escaped(self._remembered())}</p>")
        return f"<section>{''.join(parts)}</section>"

    def _again(self, _: Any) -> None:
        if self._exposure is not None:
            self._exposure.refresh()
        self._show()

    def _remembered(self) -> str:
        assert self._history is not None  # noqa: S101  asked for by those who know
        try:
            last = self._history.last_run()
        except NotFound:
            return "empty"
        ended = f", the last ended {last.finished_at:%Y-%m-%d %H:%M} UTC" if last.finished_at else ""
        stale = len(self._history.stale())
        return f"{last.seq or 0:,} runs{ended}; {stale:,} people not seen well in the newest look"

    def _show(self) -> None:
        self._about.value = self.to_html()


def _failed(failures: pd.DataFrame) -> str:
    """Who could not be loaded, by what went wrong."""
    if failures.empty:
        return "<p>Everybody was loaded.</p>"
    kinds = failures.groupby(["operation", "error", "reason"], observed=True).size().rename("people")
    return static_html.table(kinds.sort_values(ascending=False).reset_index(), caption="Not loaded")
