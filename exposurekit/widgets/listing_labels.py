"""Labels: record by record, whether it belongs to the person; labels are stored in the history."""

from typing import Any

import pandas as pd
from ipywidgets import HTML, HBox, Text

from exposurekit.analysis.data_quality import MINE, NOT_MINE, UNSURE
from exposurekit.analysis.statuses import is_open
from exposurekit.errors import InvalidArgument
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import isolated, link_with_path
from exposurekit.widgets import static_html
from exposurekit.widgets.panel import Panel, with_classes
from exposurekit.widgets.person_comparison import OnFile, compare, compare_in_words, on_file
from exposurekit.widgets.shortcuts import Keys

KEYS = {"m": MINE, "n": NOT_MINE, "u": UNSURE}
BUTTONS = {MINE: "This is them", NOT_MINE: "This is somebody else", UNSURE: "Unsure"}
FIELDS = ("site", "status", "name", "age", "locations", "relations", "aliases", "reference_id")


class RecordLabels(Panel):
    """Records one by one, to label ``mine``, ``not mine`` or ``unsure``.

    Unlabelled records come first, open ones before closed ones. `History.with_labels` and `History.precision` use the
    labels.

    Args:
        records: A table as returned by `Exposure.records()` or `History.records()`, or some of its rows.
        history: Stores the labels.
        exposure: An `Exposure`: then each record is compared with what the person has on file.

    Raises:
        InvalidArgument: ``records`` is not a table of records.

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
        self._people: dict[int, OnFile | None] = {}
        keys = pd.DataFrame(
            {"label": self.records["label"].notna(), "closed": ~is_open(self.records["status"])}
        )
        self._order = [*keys.sort_values(["label", "closed"], kind="stable").index]
        self._index = 0
        self._about, self._status = with_classes(HTML(), "exposurekit-about"), HTML()
        self._reason = Text(description="Reason", placeholder="why")
        labels = [
            self.button(
                words, lambda _, label=label: self.label(label), kind="primary" if label == MINE else ""
            )
            for label, words in BUTTONS.items()
        ]
        turn = [self.button("Back", lambda _: self.step(-1)), self.button("Skip", lambda _: self.step(1))]
        actions = {key: BUTTONS[label].lower() for key, label in KEYS.items()} | {"j": "skip", "k": "back"}
        keys_box = Keys(actions, self.callback(self._key_pressed))
        super().__init__(
            [
                *(self._status, self._about, with_classes(HBox([self._reason]), "exposurekit-row")),
                *(with_classes(HBox([*labels, *turn]), "exposurekit-row"), keys_box),
            ]
        )
        self._show()

    @property
    def record(self) -> "pd.Series[Any]":
        """The displayed record.

        Raises:
            InvalidArgument: There is no record to show.
        """
        if not self._order:
            raise InvalidArgument("There is no record to show")
        record: pd.Series[Any] = self.records.loc[self._order[self._index]]
        return record

    def label(self, label: str) -> None:
        """Label the displayed record with the reason in the box, and display the next one.

        Raises:
            InvalidArgument: The label is not one of the three.

        >>> labels = ek.widgets.RecordLabels(exposure.records(), history)
        >>> labels.label("mine")
        >>> labels
        RecordLabels: ... of ... records labelled
        """
        reason = self._reason.value.strip()
        self._history.label(self.record, label, reason=reason)
        self.records = self.records.copy()
        self.records.loc[self._order[self._index], ["label", "label_reason"]] = [label, reason]
        self.step(1)

    def step(self, ahead: int) -> None:
        """Go forward by some records, or back; stop at either end."""
        self._index = max(0, min(len(self._order) - 1, self._index + ahead))
        self._show()

    def line(self) -> str:
        """How many records are labelled."""
        return f"RecordLabels: {self._counts()}"

    def _counts(self) -> str:
        return f"{self.records['label'].notna().sum():,} of {len(self.records):,} records labelled"

    def to_html(self) -> str:
        """The first records, labelled ones first, with their labels and how they compare with the person.

        >>> "<caption>" in ek.widgets.RecordLabels(exposure.records(), history).to_html()
        True
        """
        is_labelled = self.records["label"].notna()
        order = [*self.records.index[is_labelled], *(row for row in self._order if not is_labelled[row])]
        first = self.records.loc[order[: static_html.ROWS]]
        columns = ["site", "name", "age", "label", "label_reason", "status"]
        table = first[columns].rename(columns={"name": "name as listed", "label_reason": "reason"})
        people = [self._person(int(user_id)) for user_id in first["user_id"]]
        names = [_name(person, user_id) for person, user_id in zip(people, first["user_id"], strict=True)]
        table.insert(0, "person", names)
        if self._exposure is not None:
            rows = zip((first.loc[row] for row in first.index), people, strict=True)
            table["compared"] = [compare_in_words(record, person) for record, person in rows]
        else:
            table.insert(1, "record_id", first["record_id"])
        return static_html.section(static_html.table(table, caption=self._counts(), total=len(order)))

    def _key_pressed(self, key: str) -> None:
        if key in KEYS:
            self.label(KEYS[key])
        else:
            self.step(1 if key == "j" else -1)

    def _show(self) -> None:
        if not self._order:
            self._about.value = '<p class="empty">No records.</p>'
            return
        record = self.record
        is_labelled = not pd.isna(record["label"])
        reason = record["label_reason"]
        self._reason.value = reason if is_labelled and isinstance(reason, str) else ""
        label = f"labelled {record['label']}" if is_labelled else "not labelled yet"
        person = self._person(int(record["user_id"]))
        question = f"Is this {_name(person, record['user_id'])}?"
        page = f"<p>Link: {link_with_path(record['href'])}</p>" if isinstance(record["href"], str) else ""
        self._about.value = (
            f'<h2 class="headline">{isolated(question)}</h2>'
            f'<p class="label">{isolated(label)} '
            f"(user {int(record['user_id'])}, record {int(record['record_id'])})</p>"
            f"{compare(record, person, FIELDS)}{page}"
        )
        n_labelled = int(self.records["label"].notna().sum())
        status = f"{self._index + 1:,} of {len(self._order):,} · {self._counts()}"
        self._status.value = (
            f'<p class="label" role="status">{isolated(status)}</p>'
            f'<progress max="{len(self.records)}" value="{n_labelled}" aria-label="records labelled"></progress>'
        )

    def _person(self, user_id: int) -> OnFile | None:
        if self._exposure is None:
            return None
        if user_id not in self._people:
            self._people[user_id] = on_file(self._exposure, user_id)
        return self._people[user_id]


def _name(person: OnFile | None, user_id: int) -> str:
    return person.names_in_full[0] if person is not None and person.names_in_full else f"user {int(user_id)}"
