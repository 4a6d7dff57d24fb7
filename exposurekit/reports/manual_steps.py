"""Manual work of a report: items grouped by their steps."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from exposurekit.analysis.manual_tasks import Task, tasks
from exposurekit.analysis.step_requirements import NEEDS_DOCUMENT
from exposurekit.analysis.work_queue import DONE, UNABLE
from exposurekit.history.annotations import item_key, rows_of
from exposurekit.reports.model import Removal

_KEY_COLUMNS = ("user_id", "record_id", "site", "url", "opt_out_procedure")  # of which a key is made
_Steps: TypeAlias = tuple[str | None, str | None, tuple[str, ...], str | None]
_Item: TypeAlias = tuple[int, float, float, Task | None]  # user, minutes, chance of success, and what to do


def removals(
    queue: pd.DataFrame, *, records_by: str | None = None, limit: int | None = None, as_of: date | None = None
) -> tuple[Removal, ...]:
    """Group the open items of a work queue that need the same steps and have the same reason, in the queue's order.

    Args:
        queue: A table as returned by `analysis.work_queue`.
        records_by: What identifies a record in the history where ticks of the items are stored; None: the items have no keys.
        limit: The number of items to describe; None for all.
        as_of: The day on which ages are compared with birth dates on file.
    """
    waiting = open_items(queue)
    first = waiting if limit is None else waiting.head(limit)
    described = tasks(first, as_of=as_of)
    if records_by is not None:
        keys = (item_key(row, records_by) for row in rows_of(first[[*_KEY_COLUMNS]]))
        described = [replace(task, item_key=key) for task, key in zip(described, keys, strict=True)]
    groups: dict[_Steps, list[_Item]] = {}
    columns = ("user_id", "minutes", "success_rate", "site", "guide", "opt_out_procedure", "reason")
    rows = waiting if "reason" in waiting else waiting.assign(reason=None)
    for position, (user_id, minutes, rate, site, guide, steps, reason) in enumerate(_cells(rows, *columns)):
        task = described[position] if position < len(described) else None
        key = _text(site), _text(guide), tuple(map(str, steps)), _text(reason)
        groups.setdefault(key, []).append((user_id, minutes, rate, task))
    return tuple(_removal(steps, items) for steps, items in groups.items())


def open_items(queue: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a work queue that are neither done nor marked as unable."""
    return queue[~queue["state"].isin([DONE, UNABLE])]


def as_to_begin(queue: pd.DataFrame, *, has_rates: bool) -> pd.DataFrame:
    """The rows of a work queue in the order of what to do next, with new ranks.

    First the sites where something can begin, be it that a document is asked for, most expected removals per minute
    first; then web pages, then what has to wait, and what is finished.

    Args:
        queue: A table as returned by `analysis.work_queue`.
        has_rates: Whether its success rates are known; else sites that need a document come after the others.
    """
    asks = queue["reason"] == NEEDS_DOCUMENT
    can_begin = queue["reason"].isna() | asks
    group = [queue["site"].astype("str").fillna(""), queue["reason"].astype("str").fillna("")]
    sums = queue[["success_rate", "minutes"]].groupby(group).transform("sum")
    per_minute = sums["success_rate"] / sums["minutes"].clip(lower=1)
    is_finished, is_page = queue["state"].isin([DONE, UNABLE]), queue["site"].isna()
    part = np.select([is_finished, ~can_begin, is_page], [3, 2, 1], default=0)
    rate = per_minute.where(part == 0, 0.0) if has_rates else -asks.astype("float64").where(part == 0, 0.0)
    order = pd.DataFrame({"part": part, "rate": -rate}, index=queue.index)
    ordered = queue.loc[order.sort_values(["part", "rate"], kind="stable").index].reset_index(drop=True)
    return ordered.assign(rank=np.arange(1, len(ordered) + 1))


def whole_minutes(queue: pd.DataFrame) -> "pd.Series[float]":
    """Round the minutes of a queue's rows so that any rows that follow each other add up to their sum, within a minute.

    Each row has what it adds to the rounded sum of the rows before it: rounded one by one, the rows of a group would be
    several minutes off.
    """
    until = np.round(queue["minutes"].cumsum().to_numpy("float64"))
    return pd.Series(np.diff(until, prepend=0.0), queue.index)


def _removal(steps: _Steps, items: list[_Item]) -> Removal:
    people = len({user_id for user_id, *_ in items})
    minutes = sum(minutes for _, minutes, *_ in items)
    expected = sum(rate for *_, rate, _ in items)
    site, guide, texts, reason = steps
    described = tuple(task for *_, task in items if task)
    return Removal(
        site, guide, texts, described, len(items), people, minutes, reason, expected if site else None
    )


def _cells(table: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Iterate over rows of some columns; each column is converted once."""
    return zip(*(table[name].tolist() for name in columns), strict=True)


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) and cell.strip() else None
