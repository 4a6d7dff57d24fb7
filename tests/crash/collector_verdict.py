"""What a history ought to hold after its collectors were killed, beside what it holds: rule by rule. Kills nobody."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from support.history_reference import ObservedUser, Reference, Snapshot

from exposurekit.history import History

OutputLine = Mapping[str, Any]
CHANGES = (
    *("seq", "seen_at", "day", "kind", "user_id", "key", "site", "status", "prev_status", "episode"),
    *("episode_at", "open_s", "not_before", "left_censored"),
)
PERSON = ("listed", "last_complete_at", "observed_until", "first_registered_after")
NAMED = ("discovered", "pending removal", "removed", "vanished", "unknown")
Rules = dict[str, list[object]]


def judged(
    path: Path,
    snapshots: Mapping[str, Mapping[int, ObservedUser]],
    acknowledged: Sequence[OutputLine],
    read: Sequence[OutputLine],
    deaths: Sequence[str],
) -> tuple[dict[str, object], Rules]:
    """Figures, and for each rule what breaks it.

    Args:
        path: The history.
        looks: What each run ought to have seen, by its name.
        acknowledged: What each collector said that ended in peace.
        read: What a reader said meanwhile.
        deaths: What ended by itself.
    """
    with History(path) as history:
        runs = history.runs()
        reference = _reference(runs, snapshots)
        rules = {
            **_kept(history, runs, reference),
            **_told(runs, acknowledged),
            **_read(runs, reference, read),
            "verify()": sorted(history.verify().items()),
            "staged still": sorted(str(one) for one in (path / "staging").rglob("*")),
            "ended by itself": list(deaths),
        }
    figures = {
        "runs": len(runs),
        "changes": len(reference.changes),
        "looks of the reader": sum("records" in one for one in read),
    }
    return figures, rules


def _reference(runs: pd.DataFrame, snapshots: Mapping[str, Mapping[int, ObservedUser]]) -> Reference:
    reference = Reference()
    for row in runs.itertuples():
        span = row.started_at.to_pydatetime(), row.finished_at.to_pydatetime()
        reference.ingest_run(Snapshot(*span, dict(snapshots[row.run])), row.run)
    return reference


def _kept(history: History, runs: pd.DataFrame, reference: Reference) -> Rules:
    """Everything that the history holds, against the reference."""
    changes = _rows(history.changes(), CHANGES)
    people = _rows(history.people(), ("user_id", *PERSON))
    load_issues = _rows(history.load_issues(), ("seq", "user_id", "what"))
    expected = Counter(tuple(row[name] for name in CHANGES) for row in reference.changes)
    names = [name for name, many in Counter(runs["run"]).items() if many > 1]
    return {
        "runs that are there twice": [*names, *_gaps(runs)],
        "changes that were not kept": list((expected - changes).elements()),
        "changes that never were": list((changes - expected).elements()),
        "people who stand otherwise": _unlike(
            people,
            Counter(
                (user_id, *(getattr(person, name) for name in PERSON))
                for user_id, person in reference.people.items()
            ),
        ),
        "load issues that are others": _unlike(load_issues, Counter(reference.load_issues)),
    }


def _gaps(runs: pd.DataFrame) -> list[object]:
    return [] if runs["seq"].tolist() == list(range(1, len(runs) + 1)) else ["seq is not 1, 2, ..."]


def _told(runs: pd.DataFrame, acknowledged: Sequence[OutputLine]) -> Rules:
    rows = {row["run"]: row for row in runs.to_dict("records")}
    return {
        "acknowledged, and lost": [one["run"] for one in acknowledged if one["run"] not in rows],
        "acknowledged, and kept otherwise": [
            one["run"]
            for one in acknowledged
            if one["run"] in rows and any(rows[one["run"]][name] != value for name, value in one.items())
        ],
    }


def _read(runs: pd.DataFrame, reference: Reference, read: Sequence[OutputLine]) -> Rules:
    """Whatever was ever read of a run is what is true of it at the end."""
    rows_at = {
        at.isoformat(): {kind: reference.as_of(kind, at.to_pydatetime()) for kind in ("record", "link")}
        for at in runs["finished_at"]
    }
    statuses = {
        kind: {at: Counter(row["status"] for row in rows_at[at][kind].values()) for at in rows_at}
        for kind in ("record", "link")
    }
    tables = {
        "records": statuses["record"],
        "links": statuses["link"],
        "over time": {at: _columns(count) for at, count in statuses["record"].items()},
        "sites": {at: _total(count) for at, count in statuses["record"].items()},
        "runs": {row["run"]: row for row in runs.to_dict("records")},
    }
    good = [one for one in read if "records" in one]
    return {
        "errors of the reader": [one["error"] for one in read if "error" in one],
        **{f"read otherwise: {name}": list(_otherwise(name, truth, good)) for name, truth in tables.items()},
        "read: two answers of diff() that do not agree": [one for one in good if not one["diff"]],
        "read: verify() found what was not so": [item for one in good for item in one["verify"].items()],
    }


def _otherwise(name: str, truth: Mapping[str, Any], read: Iterable[OutputLine]) -> Iterator[object]:
    for one in read:
        for which, value in one[name].items():
            true = truth.get(which)
            if isinstance(true, dict) and name == "runs":
                true = {column: true[column] for column in value}
            if true != value:
                yield which, value, true


def _columns(count: Counter[str]) -> dict[str, int]:
    """As a table counts statuses: those without a column of their own together."""
    other = sum(n for status, n in count.items() if status not in NAMED)
    return {name: n for name, n in {**count, "other": other}.items() if n and name in (*NAMED, "other")}


def _total(count: Counter[str]) -> int:
    return sum(n for status, n in count.items() if status not in {"vanished", "unknown"})


def _unlike(actual: Counter[Any], expected: Counter[Any]) -> list[object]:
    return list(itertools.chain((actual - expected).elements(), (expected - actual).elements()))


def _rows(table: pd.DataFrame, names: Sequence[str]) -> Counter[tuple[object, ...]]:
    rows = table[list(names)].astype(object).itertuples(index=False)
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: Any) -> object:
    if value is None or pd.isna(value):
        return None
    return value.to_pydatetime() if isinstance(value, datetime) else value
