"""Relistings: listings that reappear after a removal."""

from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.group_codes import UTC_INSTANT, instants, utc_index
from exposurekit.analysis.statuses import CLOSED, UNKNOWN, VANISHED, is_open
from exposurekit.contract.types import REMOVED
from exposurekit.errors import MissingColumns

_DAY_S = 86_400
_ITEM = ["kind", "user_id", "key"]
_COLUMNS: dict[str, Any] = {
    "user_id": "int64",
    "record_id": "Int64",
    "site": "str",
    "removed_at": UTC_INSTANT,
    "previous_status": "str",
    "listed_again_at": UTC_INSTANT,
    "gone_days": "float64",
    "gone_days_low": "float64",
    "gone_days_high": "float64",
    "episode": "int64",
    "key": "int64",
}


def relistings(changes: pd.DataFrame) -> pd.DataFrame:
    """List each time that a removed or vanished listing was listed again.

    Args:
        changes: All changes of each item concerned, in any order: ``kind``, ``user_id`` (int64), ``key`` (int64),
            ``site`` (text), ``seen_at`` (UTC), ``status``, ``prev_status`` (text; missing: first observation),
            ``episode`` (number of the open span). Optional: ``left_censored`` (bool: there already when its user was
            first loaded), ``not_before`` (UTC: the change came after it, and by ``seen_at``; missing: not known), and, if a
            record's ``key`` is not its id, ``record_id`` (Int64; missing: not known). Links and alerts are ignored.

    Returns:
        One row per relisting, ascending by time: ``user_id`` (int64), ``record_id`` (Int64; from ``changes``, else the
        ``key``), ``site`` (text), ``removed_at`` (first observation as removed or vanished, datetime64[us, UTC];
        missing if not in ``changes``), ``previous_status`` (``removed`` if a removal was verified while it was gone, else
        ``vanished``), ``listed_again_at`` (datetime64[us, UTC]), ``gone_days`` (days between the two, float64; missing
        if it was gone already when its user was first loaded, so for longer than is known), ``gone_days_low`` and
        ``gone_days_high`` (float64; the fewest and the most days that it may have been gone, as each of the two came between
        two observations; missing: not known), ``episode`` (the new one, int64), ``key`` (int64: identifies the record, even
        if its id changes).

    Raises:
        MissingColumns: ``changes`` lacks a column.

    >>> moves = {"prev_status": [None, "discovered", "removed"], "status": ["discovered", "removed", "discovered"]}
    >>> seen_at = pd.to_datetime(["2026-03-01T09:00Z", "2026-03-02T09:00Z", "2026-03-12T21:00Z"])
    >>> changes = pd.DataFrame(moves).assign(seen_at=seen_at, episode=[1, 1, 2])
    >>> changes = changes.assign(kind="record", user_id=7, key=12, site="Seekfolk")
    >>> analysis.relistings(changes)[["record_id", "site", "previous_status", "gone_days", "episode"]]
       record_id      site previous_status  gone_days  episode
    0         12  Seekfolk         removed       10.5        2
    """
    needed = (*_ITEM, "site", "seen_at", "status", "prev_status", "episode")
    MissingColumns.check("relistings", changes, needed)
    if changes.empty:
        return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in _COLUMNS.items()})
    rows = _sort(changes[changes["kind"] == "record"])
    # A span runs from one open row of an item up to the next; if it was closed in between, the next is a relisting.
    spans = [rows[name] for name in _ITEM] + [rows.groupby(_ITEM)["open"].cumsum() - rows["open"]]
    closed = rows["status"].isin(CLOSED)
    gone_at = rows["seen_at"].where(closed).groupby(spans).transform("min")
    verified = (rows["status"] == REMOVED).groupby(spans).transform("any") | (rows["prev_status"] == REMOVED)
    is_baseline = closed & rows["prev_status"].isna() & rows["left_censored"]
    is_censored = is_baseline.groupby(spans).transform("any")
    is_relisted = (rows["open"] == 1) & (gone_at.notna() | rows["prev_status"].isin(CLOSED))
    first_gone = closed & (rows["seen_at"] == gone_at)
    gone_after = rows["not_before"].where(first_gone).groupby(spans).transform("min")
    table = rows.assign(
        removed_at=gone_at,
        previous_status=verified.map({True: REMOVED, False: VANISHED}).astype("str"),
        listed_again_at=rows["seen_at"],
        gone_days=_days(gone_at, rows["seen_at"]).where(~is_censored),
        gone_days_low=_days(gone_at, rows["not_before"]).clip(lower=0),
        gone_days_high=_days(gone_after, rows["seen_at"]).where(~is_censored),
    )
    order = ["listed_again_at", "user_id", "key", "episode"]
    return table.loc[is_relisted, [*_COLUMNS]].sort_values(order, ignore_index=True)


def _days(begin: "pd.Series[Any]", end: "pd.Series[Any]") -> "pd.Series[float]":
    return (end - begin).dt.total_seconds() / _DAY_S


def _sort(changes: pd.DataFrame) -> pd.DataFrame:
    """Sort the changes of each item by time; at one instant an episode begins, continues and ends, in this order."""
    left_censored = changes.get("left_censored", pd.Series(data=False, index=changes.index))
    not_before = changes.get("not_before", pd.Series(pd.NaT, index=changes.index))
    rows = pd.DataFrame(
        {
            **{name: changes[name].astype("str") for name in ("kind", "site", "status", "prev_status")},
            **{name: changes[name].astype("int64") for name in ("user_id", "key", "episode")},
            "record_id": changes["record_id" if "record_id" in changes else "key"].astype("Int64"),
            "seen_at": utc_index(instants(changes["seen_at"])),
            "not_before": utc_index(instants(not_before)),
            "left_censored": left_censored.astype("bool"),
            "open": is_open(changes["status"]).astype("int64"),
        }
    )
    previous = rows["prev_status"]  # missing: this is the first observation
    ends, resumes, continues = rows["open"] == 0, previous == UNKNOWN, previous.notna() & is_open(previous)
    step = np.select([ends, continues, resumes], [3, 2, 1], default=0)
    keys = [*_ITEM, "seen_at", "episode", "step"]
    return rows.assign(step=step).sort_values(keys, ignore_index=True)
