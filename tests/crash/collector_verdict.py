"""What a history must contain after its collectors were killed, beside what it contains: rule by rule."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from support.history_reference import CHANGES, ObservedUser, Reference, Snapshot

from exposurekit.history import History

Report = Mapping[str, Any]
PERSON = ("listed", "last_complete_at", "observed_until", "first_registered_after")
COLUMNS = ("discovered", "pending removal", "removed", "vanished", "unknown")  # of status_over_time
Rules = dict[str, list[object]]


def judge(
    path: Path,
    snapshots: Mapping[str, Mapping[int, ObservedUser]],
    acknowledged: Sequence[Report],
    reads: Sequence[Report],
    errors: Sequence[str],
) -> tuple[dict[str, object], Rules]:
    """Return figures, and for each rule what breaks it.

    Args:
        path: The history.
        snapshots: What each run observes, by its name.
        acknowledged: The reports of the collectors that ended in peace.
        reads: The reports of a reader meanwhile.
        errors: Of processes that ended otherwise.
    """
    with History(path) as history:
        runs = history.runs()
        reference = Reference()
        for row in runs.itertuples():
            span = row.started_at.to_pydatetime(), row.finished_at.to_pydatetime()
            reference.ingest_run(Snapshot(*span, dict(snapshots[row.run])), row.run)
        rules = {
            **_check_tables(history, runs, reference),
            **_check_acknowledged(runs, acknowledged),
            **_check_reads(runs, reference, reads),
            "verify()": sorted(history.verify().items()),
            "nothing is staged": sorted(str(one) for one in (path / "staging").rglob("*")),
            "no process fails": list(errors),
        }
    figures = {
        "runs": len(runs),
        "changes": len(reference.changes),
        "reads": sum("records" in one for one in reads),
    }
    return figures, rules


def _check_tables(history: History, runs: pd.DataFrame, reference: Reference) -> Rules:
    changes = _rows(history.changes(), CHANGES)
    people = _rows(history.people(), ("user_id", *PERSON))
    load_issues = _rows(history.load_issues(), ("seq", "user_id", "what"))
    expected = Counter(tuple(row[name] for name in CHANGES) for row in reference.changes)
    expected_people = Counter(
        (user_id, *(getattr(person, name) for name in PERSON)) for user_id, person in reference.people.items()
    )
    names = [name for name, n in Counter(runs["run"]).items() if n > 1]
    is_consecutive = runs["seq"].tolist() == list(range(1, len(runs) + 1))
    return {
        "each run is stored once": [*names, *([] if is_consecutive else ["seq is not 1, 2, ..."])],
        "no change is lost": list((expected - changes).elements()),
        "no change is added": list((changes - expected).elements()),
        "people are as expected": _difference(people, expected_people),
        "load issues are as expected": _difference(load_issues, Counter(reference.load_issues)),
    }


def _check_acknowledged(runs: pd.DataFrame, acknowledged: Sequence[Report]) -> Rules:
    rows = {row["run"]: row for row in runs.to_dict("records")}
    return {
        "no acknowledged run is lost": [one["run"] for one in acknowledged if one["run"] not in rows],
        "runs are stored as acknowledged": [
            one["run"]
            for one in acknowledged
            if one["run"] in rows and any(rows[one["run"]][name] != value for name, value in one.items())
        ],
    }


def _check_reads(runs: pd.DataFrame, reference: Reference, reads: Sequence[Report]) -> Rules:
    """Whatever was read of a run is true at the end."""
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
        "over time": {at: _by_column(count) for at, count in statuses["record"].items()},
        "sites": {at: _total(count) for at, count in statuses["record"].items()},
        "runs": {row["run"]: row for row in runs.to_dict("records")},
    }
    good = [one for one in reads if "records" in one]
    return {
        "no read fails": [one["error"] for one in reads if "error" in one],
        **{f"reads are true: {name}": list(_wrong(name, truth, good)) for name, truth in tables.items()},
        "reads are true: diff() is consistent": [one for one in good if not one["diff"]],
        "reads are true: verify()": [item for one in good for item in one["verify"].items()],
    }


def _wrong(name: str, truth: Mapping[str, Any], reads: Iterable[Report]) -> Iterator[object]:
    for one in reads:
        for which, value in one[name].items():
            true = truth.get(which)
            if isinstance(true, dict) and name == "runs":
                true = {column: true[column] for column in value}
            if true != value:
                yield which, value, true


def _by_column(count: Counter[str]) -> dict[str, int]:
    """Count statuses as status_over_time does: those without a column of their own together."""
    other = sum(n for status, n in count.items() if status not in COLUMNS)
    return {name: n for name, n in {**count, "other": other}.items() if n and name in (*COLUMNS, "other")}


def _total(count: Counter[str]) -> int:
    return sum(n for status, n in count.items() if status not in {"vanished", "unknown"})


def _difference(actual: Counter[Any], expected: Counter[Any]) -> list[object]:
    return list(itertools.chain((actual - expected).elements(), (expected - actual).elements()))


def _rows(table: pd.DataFrame, names: Sequence[str]) -> Counter[tuple[object, ...]]:
    rows = table[list(names)].astype(object).itertuples(index=False)
    return Counter(tuple(_plain(value) for value in row) for row in rows)


def _plain(value: Any) -> object:
    if value is None or pd.isna(value):
        return None
    return value.to_pydatetime() if isinstance(value, datetime) else value
