"""Finding by finding: is this the person? Labels go into the history; nothing is decided here."""

from typing import Any

import pandas as pd
from ipywidgets import HTML, Button, HBox, Layout, Text

from exposurekit.analysis.data_quality import MINE, NOT_MINE, UNSURE
from exposurekit.analysis.statuses import is_open
from exposurekit.errors import InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import escaped, link
from exposurekit.widgets import static_html
from exposurekit.widgets.comparing import compared, on_file
from exposurekit.widgets.panel import Panel
from exposurekit.widgets.shortcuts import Keys

KEYS = {"m": MINE, "n": NOT_MINE, "u": UNSURE}
SHOWN = ("site", "status", "name", "age", "locations", "relations", "aliases", "reference_id")


class RecordLabels(Panel):
    """Records one by one, to say of each whether it is about the person: mine, not mine or unsure.

    Begins with those that nobody labelled, of these with the ones that are open. `History.with_labels` and `History.precision` use what is said here.

    Args:
        records: As `Exposure.records` or `History.records` give them, or a part of it.
        history: Where labels are kept.
        exposure: An `Exposure`: then what the person has on file stands beside the finding, with what agrees and what
            differs.

    Raises:
        InvalidArgument: ``records`` is no such table.

    >>> ek.widgets.RecordLabels(exposure.records(), history)
    RecordLabels: ... of ... records labelled
    """

    def __init__(self, records: pd.DataFrame, history: History, *, exposure: Exposure | None = None) -> None:
        if not isinstance(records, pd.DataFrame):
            raise InvalidArgument(
                "records is a table: exposure.records(), history.records(), or a part of one"
            )
        self._history = history
        self.records = history.with_labels(records.reset_index(drop=True))
        self._exposure = exposure
        turn = pd.DataFrame(
            {"label": self.records["label"].notna(), "closed": ~is_open(self.records["status"])}
        )
        self._order = [*turn.sort_values(["label", "closed"], kind="stable").index]
        self._place = 0
        self._about, self._far = HTML(), HTML()
        self._reason = Text(description="Reason", placeholder="why", layout=Layout(width="auto"))
        labels = [
            self._button(label.capitalize(), lambda _, label=label: self.label(label))
            for label in KEYS.values()
        ]
        steps = [self._button("Back", lambda _: self.step(-1)), self._button("Skip", lambda _: self.step(1))]
        does = KEYS | {"j": "skip", "k": "back"}
        row = Layout(flex_flow="row wrap")
        keys = Keys(does, self.callback(self._pressed))
        super().__init__(
            [self._about, HBox(labels, layout=row), self._reason, HBox(steps, layout=row), self._far, keys]
        )
        self._show()

    @property
    def record(self) -> "pd.Series[Any]":
        """The record that is shown.

        Raises:
            InvalidArgument: There is none.
        """
        if not self._order:
            raise InvalidArgument("There is no record to show")
        record: pd.Series[Any] = self.records.loc[self._order[self._place]]
        return record

    def label(self, label: str) -> None:
        """Label the record that is shown, with the reason that stands there, and show the next.

        Raises:
            InvalidArgument: The label is none of the three.

        >>> labels = ek.widgets.RecordLabels(exposure.records(), history)
        >>> labels.label("mine")
        >>> labels
        RecordLabels: ... of ... records labelled
        """
        reason = self._reason.value.strip()
        self._history.label(self.record, label, reason=reason)
        self.records = self.records.copy()
        self.records.loc[self._order[self._place], ["label", "label_reason"]] = [label, reason]
        self._reason.value = ""
        self.step(1)

    def step(self, ahead: int) -> None:
        """Go on by so many records, or back; at either end it stays."""
        self._place = max(0, min(len(self._order) - 1, self._place + ahead))
        self._show()

    def line(self) -> str:
        """How many are labelled, in one line."""
        return (
            f"RecordLabels: {self.records['label'].notna().sum():,} of {len(self.records):,} records labelled"
        )

    def to_html(self) -> str:
        """The first records and their labels.

        >>> "<caption>" in ek.widgets.RecordLabels(exposure.records(), history).to_html()
        True
        """
        columns = ["user_id", "record_id", "site", "status", "label", "label_reason"]
        return f"<section>{static_html.table(self.records.loc[self._order, columns], caption=self.line())}</section>"

    def _button(self, words: str, act: Any) -> Button:
        button = Button(description=words)
        button.on_click(self.callback(act))
        return button

    def _pressed(self, key: str) -> None:
        if key in KEYS:
            self.label(KEYS[key])
        else:
            self.step(1 if key == "j" else -1)

    def _show(self) -> None:
        if not self._order:
            self._about.value = "<p>No records.</p>"
            return
        record = self.record
        said = "nobody said yet" if pd.isna(record["label"]) else str(record["label"])
        person = None if self._exposure is None else on_file(self._exposure, int(record["user_id"]))
        rows = compared(record, person, SHOWN)
        page = f"<p>Page: {link(record['href'])}</p>" if isinstance(record["href"], str) else ""
        self._about.value = (
            f"<p><strong>user {int(record['user_id'])}, record {int(record['record_id'])}</strong>: "
            f"{escaped(said)}</p>{rows}{page}"
        )
        far = f"{self._place + 1:,} of {len(self._order):,} · {self.line()}"
        self._far.value = f'<p role="status">{escaped(far)}</p>'
