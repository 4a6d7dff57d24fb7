"""Manual work of a report: items grouped by their steps."""

from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd

from exposurekit.analysis.manual_tasks import Task, tasks
from exposurekit.analysis.step_requirements import NEEDS_DOCUMENT
from exposurekit.analysis.work_queue import DONE, UNABLE
from exposurekit.frames.arrow import list_keys
from exposurekit.history.annotations import item_key, rows_of
from exposurekit.reports.model import Removal

_KEY_COLUMNS = ("user_id", "record_id", "site", "url", "opt_out_procedure")  # of which a key is made


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
    names = ["site", "guide", "reason"]
    words = waiting.reindex(columns=names).astype("str")
    words = words.where(words.apply(lambda column: column.str.strip()) != "")
    procedures = waiting["opt_out_procedure"]
    by = words.assign(steps=list_keys(procedures)).groupby([*names, "steps"], sort=False, dropna=False)
    group = by.ngroup().to_numpy("int64")
    order = np.argsort(group, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    sums = waiting[["user_id", "minutes", "success_rate"]]
    return tuple(
        _removal(
            sums.iloc[rows],
            [_text(cell) for cell in words.iloc[rows[0]]],
            tuple(map(str, procedures.iloc[rows[0]])),
            tuple(described[row] for row in rows if row < len(described)),
        )
        for rows in parts
        if len(rows)
    )


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


def _removal(
    rows: pd.DataFrame, words: list[str | None], steps: tuple[str, ...], described: tuple[Task, ...]
) -> Removal:
    site, guide, reason = words
    users, minutes, rates = (rows[name].tolist() for name in ("user_id", "minutes", "success_rate"))
    expected = sum(rates) if site else None
    return Removal(site, guide, steps, described, len(users), len({*users}), sum(minutes), reason, expected)


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) and cell.strip() else None
