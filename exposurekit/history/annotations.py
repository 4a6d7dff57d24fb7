"""Labels, ticks and notes: what an analyst writes about findings and steps, stored beside the observations."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.history import identity, sql
from exposurekit.history.conversion import check_choice, frame
from exposurekit.history.reader import HistoryReader
from exposurekit.history.storage.location import resolve
from exposurekit.history.storage.schema import KINDS, TABLES

# A row of a table, or several: a DataFrame, a Series, a mapping, or a row of `DataFrame.itertuples`.
Rows: TypeAlias = "pd.DataFrame | pd.Series[Any] | Mapping[str, Any] | tuple[Any, ...]"

LABEL, TICK, NOTE = "label", "tick", "note"
STEP = "step"  # the kind of a ticked step, beside the kinds of items
LABELS = ("mine", "not mine", "unsure")
TICKS = ("done", "unable", "open")
_MICROSECOND = timedelta(microseconds=1)


class Annotations:
    """The annotations of one history. The newest label and tick count; notes are all kept."""

    def __init__(self, reader: HistoryReader) -> None:
        self._reader = reader
        self._newest_at: datetime | None = None

    def label(self, record: Rows, label: str, *, reason: str = "") -> int:
        """Label a finding: is it about the person? The newest label counts.

        Args:
            record: A row of `records`, `links` or `alerts`, or several as a table.
            label: ``mine``, ``not mine`` or ``unsure``.
            reason: Why, in your words.

        Returns:
            The number of labelled rows.

        Raises:
            InvalidArgument: The label is none of the three, the reason is no text, or the row cannot be identified.

        >>> history.label(history.records().iloc[0], "not mine", reason="another birth year")
        1
        """
        check_choice(label, LABELS, "label")
        return self._annotate(record, LABEL, label, _text(reason, "reason"))

    def tick(self, step: Rows, state: str = "done", *, note: str = "") -> int:
        """Record the progress of a manual opt-out step. The newest tick counts.

        Args:
            step: A row of `Exposure.steps`, or several as a table.
            state: ``done``, ``unable`` or ``open``.
            note: Anything to add.

        Returns:
            The number of ticked rows.

        Raises:
            InvalidArgument: The state is none of the three, the note is no text, or the row is no step.

        >>> history.tick(exposure.steps().head(2))
        2
        """
        check_choice(state, TICKS, "state")
        return self._annotate(step, TICK, state, _text(note, "note"))

    def note(self, item: Rows, text: str) -> int:
        """Add a note to a record, link, alert or step. All notes are kept.

        Raises:
            InvalidArgument: The note is no text, or empty; or the row cannot be identified.

        >>> history.note(history.records().iloc[0], "requested by post")
        1
        """
        if not _text(text, "note").strip():
            raise InvalidArgument("A note must not be empty")
        return self._annotate(item, NOTE, None, text)

    def rename_site(self, old: str, new: str) -> None:
        """Call a site by another name in every answer, at any time: both names count as one site from now on.

        What was observed stays as it is: ``rename_site(old, old)`` takes a name back. The newest name counts.

        Args:
            old: A name as `records` or `changes` gives it.
            new: The name to use.

        Raises:
            InvalidArgument: A name is no text, or blank; or sites identify records here (``records_by="reference"``).

        >>> history.rename_site("Peoplepile", "People Pile")
        >>> history.site_names().to_numpy().tolist()
        [['Peoplepile', 'People Pile']]
        """
        if not all(_text(name, "site's name").strip() for name in (old, new)):
            raise InvalidArgument("A site's name must not be blank")
        if self._reader.records_by != "id":
            raise InvalidArgument("Sites identify the records of this history, so it cannot rename one")
        store = self._reader.store
        times = store.rows("site_names")["renamed_at"].to_pylist()
        at = max([self._reader.clock(), *(time + _MICROSECOND for time in times)])
        rows = [{"renamed_at": at, "site": old, "name": new}]
        with resolve():
            store.append("site_names", pa.Table.from_pylist(rows, TABLES["site_names"].schema))

    def newest(self, annotation: str) -> pd.DataFrame:
        """Return the newest `LABEL` or `TICK` of each item."""
        rows = self.every(annotation)
        return rows.drop_duplicates(["user_id", "kind", "key"], keep="last").reset_index(drop=True)

    def every(self, annotation: str) -> pd.DataFrame:
        """Return all annotations of a sort, oldest first."""
        rows = frame(self._reader.query(sql.ANNOTATIONS, ("annotations",)))
        rows = rows[rows["mark"] == annotation].drop(columns="mark").reset_index(drop=True)
        return rows.rename(columns={"step": "step_number"})

    def _annotate(self, item: Rows, annotation: str, value: str | None, note: str) -> int:
        keys = [key_columns(row, self._reader.records_by) for row in rows_of(item)]
        if keys:
            at = self._next_instant()
            columns = {"marked_at": at, "mark": annotation, "value": value, "note": note}
            rows = pa.Table.from_pylist([columns | key for key in keys], TABLES["annotations"].schema)
            with resolve():
                self._reader.store.append("annotations", rows)
            self._newest_at = at
        return len(keys)

    def _next_instant(self) -> datetime:
        """Now, or just after the newest annotation, so that the newest counts even if the clock was set back."""
        if self._newest_at is None:
            with suppress(NotFound):  # the first annotation may begin the history
                times = frame(self._reader.query(sql.ANNOTATIONS, ("annotations",)))["marked_at"]
                self._newest_at = None if times.empty else times.max().to_pydatetime()
        now = self._reader.clock()
        return now if self._newest_at is None else max(now, self._newest_at + _MICROSECOND)


def rows_of(item: Rows) -> list[dict[str, Any]]:
    """Convert rows of any accepted type to dicts."""
    if isinstance(item, BaseModel):
        raise InvalidArgument(
            "Pass a row of records(), alerts() or steps(): a single record does not tell whose it is"
        )
    if isinstance(item, pd.DataFrame):
        return [{str(name): value for name, value in row.items()} for row in item.to_dict("records")]
    if isinstance(item, pd.Series):
        return [{str(name): value for name, value in item.items()}]
    if isinstance(item, Mapping):
        return [dict(item)]
    if hasattr(item, "_asdict"):
        return [item._asdict()]
    raise InvalidArgument("Pass a row of records(), links(), alerts() or steps(), or several rows as a table")


def key_columns(row: Mapping[str, Any], records_by: str) -> dict[str, Any]:
    """Return the key of an annotated item: ``user_id``, ``kind``, ``key`` and the number of a ``step``.

    Args:
        row: Of `records`, `links`, `alerts` or `steps`; or one that has a ``key``, as those of `diff`, `changes`,
            `relistings` and `labels`.
        records_by: ``id``; or ``reference``, where ids change: then ``site`` and ``reference_id`` identify a record,
            ``site``, ``href``, ``link_url`` and text an alert, and ``site``, ``url``, number and text a step.

    Raises:
        InvalidArgument: A column is missing.
    """
    values = {name: _plain(value) for name, value in row.items()}
    if values.get("user_id") is None:
        raise InvalidArgument("The row has no user_id: pass a row of records(), links(), alerts() or steps()")
    kind, key = _kind_and_key(values, records_by)
    number = values.get("step_number", values.get("step")) if kind == STEP else None
    return {"user_id": int(values["user_id"]), "kind": kind, "key": key, "step": number}


def _kind_and_key(row: Mapping[str, Any], records_by: str) -> tuple[str, int]:
    by_id = records_by == "id"
    if row.get("key") is not None and ("kind" in row or "record_id" in row):
        kind = row.get("kind", "record")
        check_choice(kind, (*KINDS, STEP), "kind")
        return kind, int(row["key"])
    if "step_number" in row and "step" in row:
        source = "record_id" if by_id else "site"
        return STEP, identity.hash64(STEP, *_required(row, (source, "url", "step_number", "step")))
    if "text" in row and "html" in row:
        names = ("site", "href", "link_url")
        site, href, link_url = map(row.get, names) if by_id else _required(row, names)
        return "alert", identity.alert_key(
            row.get("record_id"), site, href, link_url, row["text"], by=records_by
        )
    if row.get("record_id") is not None:
        site, reference = ("", "") if by_id else _required(row, ("site", "reference_id"))
        return "record", identity.record_key(int(row["record_id"]), site, reference, by=records_by)
    if "title" in row:
        return "link", identity.link_key(row.get("url"), row["title"])
    raise InvalidArgument("The row is not of records(), links(), alerts() or steps(): it lacks their columns")


def _required(row: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    for name in names:
        if name not in row:
            raise InvalidArgument(f"The row has no {name}, which identifies it: pass a complete row")
    return [row[name] for name in names]


def _plain(value: Any) -> Any:
    """A cell as a plain value: None for a missing one, a Python number for one of numpy's."""
    if isinstance(value, list | tuple | dict) or hasattr(value, "__len__"):
        return value
    if value is None or pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def _text(text: str, name: str) -> str:
    if not isinstance(text, str):
        raise InvalidArgument(f"A {name} is text, such as 'another birth year'")
    return text
