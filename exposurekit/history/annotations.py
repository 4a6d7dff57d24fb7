"""Labels, ticks and notes: what an analyst writes about findings and steps, and tables joined with them."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from numbers import Real
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from pydantic import BaseModel

from exposurekit import frames
from exposurekit.analysis import step_minutes
from exposurekit.analysis.selection import select_or_warn
from exposurekit.contract.ticks_file import BYTES_MAX, parse_ticks
from exposurekit.errors import InvalidArgument, MissingColumns, NotFound
from exposurekit.frames.arrow import from_arrow
from exposurekit.history import record_keys, sql
from exposurekit.history.reader import HistoryReader
from exposurekit.history.storage.location import resolve
from exposurekit.history.storage.schema import KINDS, TABLES
from exposurekit.system.named_files import read_bytes
from exposurekit.text.formatting import is_missing, pluralize
from exposurekit.text.urls import host

# A row of a table, or several: a DataFrame, a Series, a mapping, or a row of `DataFrame.itertuples`.
Rows: TypeAlias = "pd.DataFrame | pd.Series[Any] | Mapping[str, Any] | tuple[Any, ...]"

LABEL, TICK, NOTE = "label", "tick", "note"
MINUTES = "minutes"  # of a step, on its listing
STEP = "step"  # the kind of a ticked step, beside the kinds of items
LABELS = ("mine", "not mine", "unsure")
TICKS = ("done", "unable", "open")
DECLARED_DAYS_MAX = 3_650
MINUTES_MAX = 7 * 24 * 60
_MICROSECOND = timedelta(microseconds=1)
_TICK_COLUMNS = {"value": "tick", "note": "tick_note", "marked_at": "ticked_at"}
_LABEL_COLUMNS = {"value": "label", "note": "label_reason", "marked_at": "labelled_at"}
_ITEM_COLUMNS = ("site", "record_id", "reference_id")  # of what is annotated, as far as it has them
_ABOUT_ANOTHER = (("text", "html"), ("step_number", "step"))  # columns of an alert and of a step


@dataclass(frozen=True, slots=True)
class ImportedTicks:
    """The result of importing a file of ticks.

    Attributes:
        new: The items that it marked as done.
        unchanged: Those that were done before, or that somebody marked later than in the report.
        unknown: Those that the history does not have, or whose steps have changed since.
    """

    new: int
    unchanged: int
    unknown: int

    def __str__(self) -> str:
        parts = [f"{pluralize(self.new, 'item')} marked as done"]
        parts += [f"{self.unchanged:,} unchanged: done before, or marked later"] if self.unchanged else []
        parts += (
            [f"{self.unknown:,} not in this history, or changed since the report"] if self.unknown else []
        )
        return "; ".join(parts)


class PersonalData(Protocol):
    """Adds what people have on file to alerts; an `Exposure` does."""

    def with_people(self, table: pd.DataFrame, /) -> pd.DataFrame:
        """Return the alerts with ``person`` and ``form_values``."""


class Annotations:
    """The annotations of one history. The newest label and tick count; notes are all kept."""

    def __init__(self, reader: HistoryReader) -> None:
        self._reader = reader
        self._newest_at: datetime | None = None

    def label(self, record: Rows, label: str, *, reason: str = "") -> int:
        """Label a finding: is it about the person? The newest label counts.

        Args:
            record: A row of `records` or `links`, or several as a table. A row of `alerts`, `steps`, `work_queue` or `plan`
                stands for its listing or page.
            label: ``mine``, ``not mine`` or ``unsure``.
            reason: Why, in your words.

        Returns:
            The number of labelled rows.

        Raises:
            InvalidArgument: The label is not one of the three, the reason is not text, or the row cannot be identified.

        >>> history.label(history.records().iloc[0], "not mine", reason="another birth year")
        1
        """
        InvalidArgument.check("label", label, LABELS)
        findings = [_finding(row) for row in rows_of(record)]
        return self._annotate(findings, LABEL, label, _text(reason, "reason"))

    def tick(self, step: Rows, state: str = "done", *, note: str = "", minutes: float | None = None) -> int:
        """Record the progress of manual opt-out steps. The newest tick counts.

        Args:
            step: A row of `Exposure.steps`, or several as a table. A row of `work_queue`, `plan` or `alerts` stands for all
                steps of its alert.
            state: ``done``, ``unable`` or ``open``.
            note: Anything to add.
            minutes: How long it took, all rows together, if that was timed: `timed_steps` lists it, and `step_minutes`
                learns from it.

        Returns:
            The number of ticked steps.

        Raises:
            InvalidArgument: The state is not one of the three, the note is not text, the minutes are not a number, or a row is
                neither a step nor an alert with steps; nothing is ticked.

        >>> history.tick(exposure.steps().head(2))
        2
        >>> first = history.work_queue().head(1)
        >>> history.tick(first) == first["steps"].item()
        True
        """
        InvalidArgument.check("state", state, TICKS)
        if minutes is not None and not (_is_number(minutes) and 0 <= minutes < MINUTES_MAX):
            raise InvalidArgument(f"minutes are a number from 0 to {MINUTES_MAX - 1:,}, or None")
        steps = [one for row in rows_of(step) for one in _steps_in(row)]
        if any(key_columns(one, self._reader.records_by)["kind"] != STEP for one in steps):
            raise InvalidArgument("A row has no steps: pass rows of steps(), work_queue() or plan()")
        return self._annotate(steps, TICK, state, _text(note, "note"), minutes=minutes)

    def import_ticks(self, file: str | os.PathLike[str]) -> ImportedTicks:
        """Mark the items as done that somebody ticked in a report, from the file that *Save ticks* there wrote.

        An item is recognized by its listing and all its steps. The same file again changes nothing, and steps that were
        marked later than in the report stay as they are. An item that was unticked since an import is not in the file, and
        stays done: ``tick(item, "open")`` reopens it.

        Returns:
            How many items are ``new``, ``unchanged`` and ``unknown`` here.

        Raises:
            ConfigurationError: The file cannot be read.
            InvalidArgument: It is not a file of ticks, or the history has none of its items; nothing is marked.
            NotFound: The history is empty.

        >>> history.import_ticks("ticks.json").unknown
        0
        """
        ticks, records_by = parse_ticks(read_bytes(Path(file), BYTES_MAX)), self._reader.records_by
        ticked_at = {(one.user_id, one.item): one.ticked_at for one in ticks}
        alerts = self._reader.alerts()
        of_people = alerts["user_id"].isin([one.user_id for one in ticks])
        rows = rows_of(alerts[of_people & (alerts["opt_out_procedure"].list.len() > 0)])
        items = {(row["user_id"], item_key(row, records_by)): _steps_in(row) for row in rows}
        imported = items.keys() & ticked_at
        if ticked_at and not imported:
            raise InvalidArgument(
                f"The history has none of the {pluralize(len(ticked_at), 'ticked item')}: the report is of another service, "
                "or its manual work has changed since"
            )
        newest, now = self.newest(TICK), self._reader.clock()
        marks = {(row["user_id"], row["kind"], row["key"]): row for row in rows_of(newest)}
        added: list[dict[str, Any]] = []
        n_new = 0
        for item in sorted(imported):
            at = min(ticked_at[item], now)  # by the clock of a browser
            steps = [key_columns(step, records_by) for step in items[item]]
            before = [marks.get((step["user_id"], step["kind"], step["key"])) for step in steps]
            new = [
                step
                for step, mark in zip(steps, before, strict=True)
                if mark is None or (mark["value"] != "done" and mark["marked_at"] < at)
            ]
            added += [step | {"marked_at": at, "mark": TICK, "value": "done", "note": ""} for step in new]
            n_new += bool(new)
        self._append(added)
        return ImportedTicks(n_new, len(imported) - n_new, len(ticked_at) - len(imported))

    def note(self, item: Rows, text: str) -> int:
        """Add a note to a record, link, alert or step. All notes are kept.

        Raises:
            InvalidArgument: The note is not text, or is empty; or the row cannot be identified.

        >>> history.note(history.records().iloc[0], "requested by post")
        1
        """
        if not _text(text, "note").strip():
            raise InvalidArgument("A note must not be empty")
        return self._annotate(rows_of(item), NOTE, None, text)

    def rename_site(self, old: str, new: str) -> None:
        """Call a site by another name in every answer, at any time: both names count as one site from now on.

        What was observed stays as it is: ``rename_site(old, old)`` takes a name back. The newest name counts. A warning says
        so if no listing was ever on the old site.

        Args:
            old: A name as `records` or `changes` gives it.
            new: The name to use.

        Raises:
            InvalidArgument: A name is not text, or is blank; or sites identify records here (``records_by="reference"``).

        >>> history.rename_site("Seekfolk", "Seek Folk")
        >>> history.site_names().to_numpy().tolist()
        [['Seekfolk', 'Seek Folk']]
        >>> history.rename_site("Seekfolk", "Seekfolk")  # takes the name back
        """
        if not all(_text(name, "site's name").strip() for name in (old, new)):
            raise InvalidArgument("A site's name must not be blank")
        if self._reader.records_by != "id":
            raise InvalidArgument("Sites identify the records of this history, so it cannot rename one")
        self._warn_of_unlisted([old])
        store = self._reader.store
        with resolve(), store.changing("site_names"):
            times = store.rows("site_names")["renamed_at"].to_pylist()
            at = max([self._reader.clock(), *(time + _MICROSECOND for time in times)])
            rows = [{"renamed_at": at, "site": old, "name": new}]
            store.append("site_names", pa.Table.from_pylist(rows, TABLES["site_names"].schema))

    def declare_days(self, days: Mapping[str, float | None] | pd.DataFrame, *, source: str = "") -> int:
        """Note how many days a site, or its owner, declares to need for a removal; `declared_vs_observed` compares them.

        Sites declare them in their terms, and their owners in registries of brokers. ``exposurekit sites list --json`` has
        those in the definitions of your own service. The newest days of a site count.

        Args:
            days: The days by site, as `records` names it, or a table with the columns ``site`` and ``declared_days``. In a
                mapping, None takes a site's days back, and a warning names sites that no listing was ever on; missing days in
                a table are skipped. Case does not matter.
            source: Where they are declared.

        Returns:
            The number of sites.

        Raises:
            InvalidArgument: A name is blank, or days are not between 0 and 3,650.
            MissingColumns: The table lacks a column.

        >>> history.declare_days({"Seekfolk": 7, "Nosy Heron": 30}, source="the sites' terms, March 2026")
        2
        """
        declared = _declared(days)
        if isinstance(days, Mapping):  # a table is a registry, and may have sites where nobody is listed
            self._warn_of_unlisted(site for site, value in declared.items() if value is not None)
        store = self._reader.store
        with resolve(), store.changing("declared_days"):
            times = store.rows("declared_days")["declared_at"].to_pylist()
            at = max([self._reader.clock(), *(time + _MICROSECOND for time in times)])
            columns = {"declared_at": at, "source": _text(source, "source")}
            rows = [columns | {"site": site, "days": days} for site, days in declared.items()]
            if rows:
                store.append("declared_days", pa.Table.from_pylist(rows, TABLES["declared_days"].schema))
        return len(declared)

    def _warn_of_unlisted(self, sites: Iterable[str]) -> None:
        """Warn of sites that no listing was ever on, with the closest name."""
        try:
            upto = self._reader.latest().upto
            # A site's earlier names are in no newest record.
            listed = self._reader.transitions("record", ("site",), "", upto)["site"].dropna()
        except NotFound:  # nothing was begun there yet
            return
        renamed = self._reader.store.rows("site_names")["site"].to_pylist()
        names = pd.DataFrame({"site": [*listed, *renamed]}, dtype="str")
        select_or_warn(names, {"site": [*sites]})

    def labels(self) -> pd.DataFrame:
        """List the newest label of each item: ``user_id``, ``site``, ``record_id``, ``reference_id``, ``value``, ``note``, ...

        >>> history.labels().columns.tolist()[:5]
        ['user_id', 'site', 'record_id', 'reference_id', 'value']
        """
        return self._described(self.newest(LABEL), "value")

    def ticks(self, *, exposure: PersonalData | None = None) -> pd.DataFrame:
        """List the newest tick of each step.

        Args:
            exposure: An `Exposure`, for ``person``, which a history does not store.

        Returns:
            One row per ticked step: ``user_id``, ``person`` (with ``exposure``), ``site``, ``record_id`` (Int64),
            ``reference_id``, ``label`` (of the listing), ``step_number`` and ``step`` (its text), ``value`` (``done``,
            ``unable`` or ``open``), ``note``, ``marked_at`` (UTC), ``kind``, ``key``.

        >>> history.ticks().columns.tolist()[4:7]
        ['label', 'step_number', 'step']
        """
        ticks = self._described(self.newest(TICK), "step_number", "step", "value")
        ticks.insert(4, "label", self._labels_of(ticks))
        return ticks if exposure is None else exposure.with_people(ticks)

    def timed_steps(self) -> pd.DataFrame:
        """List the minutes of the steps that were timed, oldest first: by `tick`, or by a checklist that learns minutes.

        Returns:
            One row per tick and step: ``user_id``, ``site`` (the host of a page), ``kind`` (``record`` or ``link``) and
            ``key`` (of the listing or page), ``step_number``, ``minutes`` (float64; steps that were ticked at once share
            theirs equally), ``marked_at`` (UTC).

        >>> history.timed_steps()["minutes"].sum()
        np.float64(0.0)
        """
        return self._reader.frame(sql.TIMED_STEPS, ("annotations",))

    def step_minutes(self) -> pd.DataFrame:
        """Estimate how many minutes a step takes on each site, from timed ticks: `analysis.step_minutes`.

        `work_queue` and `plan` use them, and assume the usual minutes for other sites.

        >>> history.step_minutes().columns.tolist()
        ['site', 'ticks', 'minutes']
        """
        return step_minutes(self.timed_steps())

    def minutes_by_site(self) -> dict[str, float]:
        """Return the minutes of `step_minutes` by site; empty if nothing was timed, or there is no history yet.

        >>> history.minutes_by_site()
        {...}
        """
        with suppress(NotFound):
            table = self.step_minutes()
            return dict(zip(table["site"].tolist(), table["minutes"].tolist(), strict=True))
        return {}

    def notes(self) -> pd.DataFrame:
        """List all notes, oldest first: ``user_id``, ``site``, ``record_id``, ``reference_id``, ``note``, ``marked_at``, ...

        What was noted with a tick or a label, such as in a checklist, is in `ticks` and `labels`.

        >>> history.notes().columns.tolist()[4:6]
        ['step_number', 'note']
        """
        return self._described(self.every(NOTE), "step_number")

    def with_ticks(self, steps: pd.DataFrame) -> pd.DataFrame:
        """Join the newest tick of each step, and the newest label of its listing or page, to steps.

        Args:
            steps: A table as returned by `Exposure.steps`.

        Returns:
            The same rows, and ``tick`` (``done``, ``unable`` or ``open``; missing: no tick), ``tick_note`` (text),
            ``ticked_at`` (UTC), ``label`` (``mine``, ``not mine`` or ``unsure``; missing: no label).

        Raises:
            InvalidArgument: The rows are not steps.

        >>> len(history.with_ticks(exposure.steps())) == len(exposure.steps())
        True
        """
        ticked = self._join(steps, self.newest(TICK), STEP, _TICK_COLUMNS)
        return ticked.assign(label=self._labels_of(ticked))

    def with_labels(self, records: pd.DataFrame | None = None) -> pd.DataFrame:
        """Join the newest label to records: are they about the person?

        Args:
            records: A table as returned by `Exposure.records` or `records`; None: `records` now.

        Returns:
            The same rows, and ``label`` (``mine``, ``not mine`` or ``unsure``; missing: no label), ``label_reason``
            (text), ``labelled_at`` (UTC).

        Raises:
            InvalidArgument: The rows are not records.

        >>> "label" in history.with_labels().columns
        True
        """
        rows = self._reader.records() if records is None else records
        return self._join(rows, self.newest(LABEL), "record", _LABEL_COLUMNS)

    def newest(self, annotation: str) -> pd.DataFrame:
        """Return the newest `LABEL` or `TICK` of each item."""
        rows = self.every(annotation)
        return rows.drop_duplicates(["user_id", "kind", "key"], keep="last").reset_index(drop=True)

    def every(self, annotation: str) -> pd.DataFrame:
        """Return all annotations of a sort, oldest first."""
        rows = self._reader.frame(sql.ANNOTATIONS, ("annotations",))
        rows = rows[rows["mark"] == annotation].drop(columns="mark").reset_index(drop=True)
        return rows.rename(columns={"step": "step_number"})

    def _annotate(
        self,
        items: list[dict[str, Any]],
        annotation: str,
        value: str | None,
        note: str,
        *,
        minutes: float | None = None,
    ) -> int:
        keys = [key_columns(row, self._reader.records_by) for row in items]
        if keys:
            at = self._next_instant()
            columns = {"marked_at": at, "mark": annotation, "value": value, "note": note}
            rows = [columns | key for key in keys]
            if minutes is not None:
                timed = {"marked_at": at, "mark": MINUTES, "value": f"{minutes / len(items):.4f}"}
                rows += [timed | _listing_columns(row, self._reader.records_by) for row in items]
            self._append(rows)
            self._newest_at = at
        return len(keys)

    def _append(self, rows: list[dict[str, Any]]) -> None:
        if rows:
            store = self._reader.store
            with resolve(), store.changing("annotations"):
                store.append("annotations", pa.Table.from_pylist(rows, TABLES["annotations"].schema))

    def _next_instant(self) -> datetime:
        """Now, or just after the newest annotation, so that the newest counts even if the clock was set back."""
        if self._newest_at is None:
            with suppress(NotFound):  # the first annotation may begin the history
                times = from_arrow(self._reader.query(sql.ANNOTATIONS, ("annotations",)))[
                    "marked_at"
                ]  # not a cached answer
                self._newest_at = None if times.empty else times.max().to_pydatetime()
        now = self._reader.clock()
        return now if self._newest_at is None else max(now, self._newest_at + _MICROSECOND)

    def _labels_of(self, steps: pd.DataFrame) -> "pd.Series[str]":
        """The newest label of each step's record or page; of a page only if the steps have its title."""
        newest, is_listing = self.newest(LABEL), steps["record_id"].notna()
        columns = [name for name in ("user_id", "record_id", "site", "reference_id") if name in steps]
        items = {"record": steps.loc[is_listing, columns]}
        if {"link_url", "link_title"} <= {*steps}:
            pages = steps.loc[~is_listing, ["user_id", "link_url", "link_title"]]
            items["link"] = pages.rename(columns={"link_url": "url", "link_title": "title"})
        labels = [
            pd.Series(
                self._join(rows, newest, kind, _LABEL_COLUMNS)["label"].to_numpy("object"),
                rows.index,
                dtype="str",
            )
            for kind, rows in items.items()
        ]
        of_items: pd.Series[str] = pd.concat(labels).reindex(steps.index)
        return of_items

    def _described(self, annotations: pd.DataFrame, *columns: str) -> pd.DataFrame:
        """Add the columns that identify each annotated item to people; missing where it was never observed."""
        added, keys = [*_ITEM_COLUMNS, "step"], ["user_id", "kind", "key"]
        items = [self._items_of(str(kind), rows, added) for kind, rows in annotations.groupby("kind")]
        details = pd.concat([annotations[keys].head(0), *items]).reindex(columns=[*keys, *added])
        types = annotations[keys].dtypes.to_dict() | dict.fromkeys(added, "str") | {"record_id": "Int64"}
        table = annotations.merge(details.drop_duplicates(keys).astype(types), on=keys, how="left")
        return table[["user_id", *_ITEM_COLUMNS, *columns, "note", "marked_at", "kind", "key"]]

    def _items_of(self, kind: str, annotations: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
        try:
            table = self._reader.alerts() if kind == STEP else getattr(self._reader, f"{kind}s")()
        except NotFound:  # the first annotation may begin the history
            return pd.DataFrame()
        rows = table[table["user_id"].isin(annotations["user_id"])]
        rows = frames.steps_from_alerts(rows) if kind == STEP else rows
        keys = pd.DataFrame(self._keys(rows, kind), columns=["user_id", "kind", "key"])
        return keys.assign(**{name: rows[name].astype("object").array for name in columns if name in rows})

    def _join(
        self, rows: pd.DataFrame, annotations: pd.DataFrame, kind: str, names: Mapping[str, str]
    ) -> pd.DataFrame:
        columns = [*names.values()]
        of_kind = annotations[annotations["kind"] == kind].rename(columns=names)
        of_kind = of_kind[["user_id", "key", *columns]]
        self._keys(rows.head(1), kind)  # one row is enough to check the kind
        # Keys are computed only for rows of users with annotations.
        positions = np.flatnonzero(rows["user_id"].isin(of_kind["user_id"]))
        keys = pd.DataFrame(self._keys(rows.iloc[positions], kind), columns=["user_id", "key"]).astype(
            "int64"
        )
        joined = keys.merge(of_kind, on=["user_id", "key"], how="left").set_axis(positions)
        joined = joined.reindex(range(len(rows)))
        return rows.assign(**{name: joined[name].array for name in columns})

    def _keys(self, rows: pd.DataFrame, kind: str) -> list[dict[str, Any]]:
        keys = [key_columns(row, self._reader.records_by) for row in rows_of(rows)]
        if any(key["kind"] != kind for key in keys):
            raise InvalidArgument(f"These rows are not {kind}s: pass rows of {kind}s()")
        return keys


def _declared(days: Mapping[str, float | None] | pd.DataFrame) -> dict[str, float | None]:
    """Check the days that sites declare; the last ones of a site count."""
    if isinstance(days, pd.DataFrame):
        MissingColumns.check("declare_days", days, ("site", "declared_days"))
        rows = days.dropna(subset=["site", "declared_days"])
        days = dict(zip(rows["site"].tolist(), rows["declared_days"].tolist(), strict=True))
    if not isinstance(days, Mapping):
        raise InvalidArgument(
            "Pass days by site, such as {'Seekfolk': 7}, or a table with site and declared_days"
        )
    declared: dict[str, float | None] = {}
    for site, value in days.items():
        if not _text(site, "site's name").strip():
            raise InvalidArgument("A site's name must not be blank")
        if value is not None and not (_is_number(value) and 0 <= value <= DECLARED_DAYS_MAX):
            raise InvalidArgument(f"Declared days are a number from 0 to {DECLARED_DAYS_MAX:,}, or None")
        declared[site.strip()] = None if value is None else float(value)
    return declared


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


def _steps_in(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps that a row stands for: itself; or, if it is an alert's, those of its ``opt_out_procedure``."""
    procedure: Any = row.get("opt_out_procedure")
    if "step_number" in row or is_missing(procedure) or not len(procedure):
        return [row]
    return [row | {"step_number": number, "step": text} for number, text in enumerate(procedure, 1)]


def _finding(row: dict[str, Any]) -> dict[str, Any]:
    """The listing or page that a row of alerts, of steps or of a work queue is about; any other row as it is."""
    if "link_url" not in row and not any({*names} <= row.keys() for names in _ABOUT_ANOTHER):
        return row
    if not is_missing(row.get("record_id")):
        return {name: row[name] for name in ("user_id", *_ITEM_COLUMNS) if name in row}
    if is_missing(row.get("link_url")) and is_missing(row.get("link_title")):
        return row  # of a kind that the specification does not name
    page = {"url": row.get("link_url"), "title": row.get("link_title")}
    return {name: row[name] for name in ("user_id",) if name in row} | page


def key_columns(row: Mapping[str, Any], records_by: str) -> dict[str, Any]:
    """Return the key of an annotated item: ``user_id``, ``kind``, ``key`` and the number of a ``step``.

    The row is of `records`, `links`, `alerts` or `steps`; or it has a ``key``, as those of `diff`, `changes`, `relistings`
    and `labels`. Where ids change, ``site`` and ``reference_id`` identify a record, ``site``, ``href``, ``link_url`` and
    text an alert, and ``site``, ``url``, number and text a step.
    """
    values = {name: _plain(value) for name, value in row.items()}
    if values.get("user_id") is None:
        raise InvalidArgument("The row has no user_id: pass a row of records(), links(), alerts() or steps()")
    kind, key = _kind_and_key(values, records_by)
    number = values.get("step_number", values.get("step")) if kind == STEP else None
    return {"user_id": int(values["user_id"]), "kind": kind, "key": key, "step": number}


def item_key(row: Mapping[str, Any], records_by: str) -> int:
    """Return the key of an alert, or of a row of a work queue, by its steps: what a file of ticks knows it by."""
    keys = (key_columns(step, records_by)["key"] for step in _steps_in(dict(row)))
    return record_keys.hash64("ticked", *keys)


def _listing_columns(row: Mapping[str, Any], records_by: str) -> dict[str, Any]:
    """The key of the listing or page of a step, and its site or host as a ``note``."""
    values = {name: _plain(value) for name, value in row.items()}
    site, page, title = (values.get(name) for name in ("site", "link_url", "link_title"))
    if page is None and title is None:  # of a kind that the specification does not name
        page = values.get("url")
    if values.get("record_id") is None:
        kind, key = "link", record_keys.link_key(page, title)
    else:
        record_id, reference = int(values["record_id"]), values.get("reference_id")
        kind, key = "record", record_keys.record_key(record_id, site, reference, by=records_by)
    columns = {"user_id": int(values["user_id"]), "kind": kind, "key": key, "step": values.get("step_number")}
    return columns | {"note": site or host(page or values.get("url")).removeprefix("www.")}


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _kind_and_key(row: Mapping[str, Any], records_by: str) -> tuple[str, int]:
    by_id = records_by == "id"
    if row.get("key") is not None and ("kind" in row or "record_id" in row):
        kind = row.get("kind", "record")
        InvalidArgument.check("kind", kind, (*KINDS, STEP))
        return kind, int(row["key"])
    if "step_number" in row and "step" in row:
        source = "record_id" if by_id else "site"
        return STEP, record_keys.hash64(STEP, *_required(row, (source, "url", "step_number", "step")))
    if "text" in row and "html" in row:
        names = ("site", "href", "link_url")
        site, href, link_url = map(row.get, names) if by_id else _required(row, names)
        return "alert", record_keys.alert_key(
            row.get("record_id"), site, href, link_url, row["text"], by=records_by
        )
    if row.get("record_id") is not None:
        site, reference = ("", "") if by_id else _required(row, ("site", "reference_id"))
        return "record", record_keys.record_key(int(row["record_id"]), site, reference, by=records_by)
    if "title" in row:
        return "link", record_keys.link_key(row.get("url"), row["title"])
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
