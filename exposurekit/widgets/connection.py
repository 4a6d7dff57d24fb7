"""Connection panel: the service, the history, and the users who could not be loaded."""

from typing import Any

import pandas as pd
from ipywidgets import HTML

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import escaped
from exposurekit.widgets import static_html
from exposurekit.widgets.panel import Panel


class ConnectionPanel(Panel):
    """The source of the figures, the users who could not be loaded, and a button to load again.

    Args:
        exposure: A connection, or None.
        history: A history, or None.

    Raises:
        InvalidArgument: Neither is given.

    >>> ek.widgets.ConnectionPanel(exposure, history)
    ConnectionPanel: simulated service with invented people · demo · as of ... people; history: ... runs...
    """

    def __init__(self, exposure: Exposure | None = None, history: History | None = None) -> None:
        if exposure is None and history is None:
            raise InvalidArgument("Give an exposure, a history, or both")
        self._exposure, self._history = exposure, history
        self._about = HTML()
        super().__init__([self._about, self.button("Load again", self._reload, disabled=exposure is None)])
        self._show()

    def line(self) -> str:
        """The service and the history, in one line."""
        parts = [] if self._exposure is None else [self._exposure.provenance]
        if self._history is not None:
            parts.append(f"history: {self._history_summary()}")
        return f"ConnectionPanel: {'; '.join(parts)}"

    def to_html(self) -> str:
        """The service, the history, and a table of users who could not be loaded.

        >>> "as of" in ek.widgets.ConnectionPanel(exposure).to_html()
        True
        """
        facts, failures = [], ""
        if self._exposure is not None:
            facts.append(("Service", self._exposure.provenance))
            failures = _load_failures(self._exposure.failures())
        if self._history is not None:
            facts.append(("History", self._history_summary()))
        rows = "".join(f"<dt>{name}</dt><dd>{escaped(text)}</dd>" for name, text in facts)
        return static_html.section(
            f'<h2 class="headline">Connection</h2><dl class="facts">{rows}</dl>', failures
        )

    def _reload(self, _: Any) -> None:
        if self._exposure is not None:
            self._exposure.refresh()
        self._show()

    def _history_summary(self) -> str:
        assert self._history is not None  # noqa: S101  called with a history only
        try:
            last = self._history.last_run()
        except NotFound:
            return "empty"
        ended = f", the last ended {last.finished_at:%Y-%m-%d %H:%M} UTC" if last.finished_at else ""
        stale = len(self._history.stale())
        return f"{last.seq or 0:,} runs{ended}; {stale:,} people not loaded completely in the newest run"

    def _show(self) -> None:
        self._about.value = self.to_html()


def _load_failures(failures: pd.DataFrame) -> str:
    if failures.empty:
        return '<p class="label">All users were loaded.</p>'
    kinds = failures.groupby(["operation", "error", "reason"], observed=True).size().rename("people")
    return static_html.table(kinds.sort_values(ascending=False).reset_index(), caption="Not loaded")
