"""Relistings: listings that came back after a removal; removals that failed; and people whose data is stale."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.group_codes import UTC_INSTANT, instant, instants, utc_index
from exposurekit.analysis.statuses import CLOSED, UNKNOWN, VANISHED, is_open
from exposurekit.analysis.survival import MIN_N
from exposurekit.analysis.work_queue import STALLED_DAYS
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import MissingColumns

_DAY_S = 86_400
_USUAL_SHARE = 0.95  # of a site's removals took no longer
WHOLE = "whole"  # the outcome of a complete load
_ITEM = ["kind", "user_id", "key"]
_COLUMNS: dict[str, Any] = {
    "user_id": "int64",
    "record_id": "Int64",
    "site": "str",
    "removed_at": UTC_INSTANT,
    "previous_status": "str",
    "listed_again_at": UTC_INSTANT,
    "gone_days": "float64",
    "episode": "int64",
    "key": "int64",
}


def relistings(changes: pd.DataFrame) -> pd.DataFrame:
    """List each time that a removed or vanished listing was listed again.

    Args:
        changes: All changes of each item concerned, in any order: ``kind``, ``user_id`` (int64), ``key`` (int64),
            ``site`` (text), ``seen_at`` (UTC), ``status``, ``prev_status`` (text; missing: first observation),
            ``episode`` (number of the open span). Optional: ``left_censored`` (bool: there already when its user was
            first loaded), and, if a record's ``key`` is not its id, ``record_id`` (Int64; missing: not known). Links and
            alerts are ignored.

    Returns:
        One row per relisting, ascending by time: ``user_id`` (int64), ``record_id`` (Int64; from ``changes``, else the
        ``key``), ``site`` (text), ``removed_at`` (first observation as removed or vanished, datetime64[us, UTC];
        missing if not in ``changes``), ``previous_status`` (``removed`` if a removal was verified while it was gone, else
        ``vanished``), ``listed_again_at`` (datetime64[us, UTC]), ``gone_days`` (days between the two, float64; missing
        if it was gone already when its user was first loaded, so for longer than is known), ``episode`` (the new one,
        int64), ``key`` (int64: identifies the record, even if its id changes).

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
    table = rows.assign(
        removed_at=gone_at,
        previous_status=verified.map({True: REMOVED, False: VANISHED}).astype("str"),
        listed_again_at=rows["seen_at"],
        gone_days=((rows["seen_at"] - gone_at).dt.total_seconds() / _DAY_S).where(~is_censored),
    )
    order = ["listed_again_at", "user_id", "key", "episode"]
    return table.loc[is_relisted, [*_COLUMNS]].sort_values(order, ignore_index=True)


def failed_removals(
    transitions: pd.DataFrame,
    records: pd.DataFrame,
    relistings: pd.DataFrame,
    *,
    at: datetime,
    overdue_after: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """Count per site the removals that were requested, and those that failed, had no effect or were undone.

    A request that was made and answered between two runs is in no status that a run observed, so it is not counted.

    Args:
        transitions: Numbers of equal changes of records: ``site``, ``prev_status`` (text; missing: first observation),
            ``status`` (text), ``n`` (int64).
        records: A table as returned by `History.records()`: ``site``, ``status``, ``changed_at`` (UTC).
        relistings: A table as returned by `History.relistings()`: ``site``, ``user_id``, ``key``, ``status``.
        at: The instant to which days are counted.
        overdue_after: The days after which a pending request is without effect, by site, as from `overdue_days`; of other
            sites, `STALLED_DAYS`.

    Returns:
        One row per site with a request or a relisting, most bad news first, then by name: ``site`` (text), ``requested``
        (removals, pending when first observed included), ``failed`` (pending, then discovered again), ``without_effect``
        (listings that have been pending removal for at least these days), ``relistings``, ``came_back`` (distinct
        listings that were listed again), ``open_now`` (of these, the open ones; all int64).

    Raises:
        MissingColumns: A table lacks a column.

    >>> moves = {"prev_status": [None, "pending removal"], "status": ["pending removal", "discovered"], "n": [7, 2]}
    >>> at, transitions = pd.Timestamp("2026-03-20", tz="UTC"), pd.DataFrame(moves).assign(site="Seekfolk")
    >>> records = pd.DataFrame({"site": ["Seekfolk"], "status": ["pending removal"]}).assign(changed_at=at)
    >>> none = pd.DataFrame(columns=["site", "user_id", "key", "status"])
    >>> analysis.failed_removals(transitions, records, none, at=at)[["site", "requested", "failed"]]
           site  requested  failed
    0  Seekfolk          7       2
    """
    MissingColumns.check("failed_removals", transitions, ("site", "prev_status", "status", "n"))
    MissingColumns.check("failed_removals, table records,", records, ("site", "status", "changed_at"))
    back = ("site", "user_id", "key", "status")
    MissingColumns.check("failed_removals, table relistings,", relistings, back)
    was, now = (transitions[name].astype("str") for name in ("prev_status", "status"))
    is_failure = (was == PENDING_REMOVAL) & (now == DISCOVERED)
    days = (instant(at) - instants(records["changed_at"])) / np.timedelta64(_DAY_S, "s")
    limit = (
        records["site"].astype("str").map(dict(overdue_after or {})).astype("float64").fillna(STALLED_DAYS)
    )
    is_pending = (records["status"].astype("str") == PENDING_REMOVAL).to_numpy("bool")
    is_old = is_pending & (days >= limit.to_numpy("float64"))
    listings = relistings.drop_duplicates(["user_id", "key"], keep="last")
    by_site = {
        "requested": requests(transitions),
        "failed": transitions["n"].where(is_failure, 0).groupby(transitions["site"].astype("str")).sum(),
        "without_effect": records["site"].astype("str")[is_old].value_counts(),
        "relistings": relistings["site"].astype("str").value_counts(),
        "came_back": listings["site"].astype("str").value_counts(),
        "open_now": listings["site"].astype("str")[is_open(listings["status"])].value_counts(),
    }
    table = pd.DataFrame(by_site).fillna(0).astype("int64").rename_axis("site")
    table = table[table[["requested", "failed", "relistings"]].any(axis=1)].reset_index()
    table = table.astype({"site": "str"}).assign(
        bad=table["failed"] + table["without_effect"] + table["came_back"]
    )
    order = ["bad", "requested", "site"]
    return table.sort_values(order, ascending=[False, False, True], ignore_index=True).drop(columns="bad")


def overdue_days(requests: pd.DataFrame) -> "pd.Series[int]":
    """After how many days a pending request is overdue, by site: a day more than 95 % of its removals took.

    Args:
        requests: A table as returned by `History.removal_requests`. Sites with fewer than `MIN_N` removals are left out:
            `STALLED_DAYS` holds for them.
    """
    needed = ("site", "requested_after", "requested_at", "ended_at", "end")
    MissingColumns.check("overdue_days", requests, needed)
    is_removed = (requests["end"].astype("str") == REMOVED) & requests["requested_after"].notna()
    removed = requests[is_removed.to_numpy("bool")]
    ended, begun = (instants(removed[name]).astype("datetime64[D]") for name in ("ended_at", "requested_at"))
    days = pd.Series((ended - begun) / np.timedelta64(1, "D")).clip(lower=0)
    of_site = days.groupby(removed["site"].astype("str").to_numpy())
    most = of_site.quantile(_USUAL_SHARE, interpolation="higher")[of_site.size() >= MIN_N]
    return (most + 1).astype("int64")


def requests(transitions: pd.DataFrame) -> "pd.Series[int]":
    """Count per site the removals that were requested, as `failed_removals` does; 0 included.

    Args:
        transitions: As in `failed_removals`.
    """
    was, now = (transitions[name].astype("str") for name in ("prev_status", "status"))
    is_request = (now == PENDING_REMOVAL) & (was != UNKNOWN).fillna(value=True)
    return transitions["n"].where(is_request, 0).groupby(transitions["site"].astype("str")).sum()


def _sort(changes: pd.DataFrame) -> pd.DataFrame:
    """Sort the changes of each item by time; at one instant an episode begins, continues and ends, in this order."""
    left_censored = changes.get("left_censored", pd.Series(data=False, index=changes.index))
    rows = pd.DataFrame(
        {
            **{name: changes[name].astype("str") for name in ("kind", "site", "status", "prev_status")},
            **{name: changes[name].astype("int64") for name in ("user_id", "key", "episode")},
            "record_id": changes["record_id" if "record_id" in changes else "key"].astype("Int64"),
            "seen_at": utc_index(instants(changes["seen_at"])),
            "left_censored": left_censored.astype("bool"),
            "open": is_open(changes["status"]).astype("int64"),
        }
    )
    previous = rows["prev_status"]  # missing: this is the first observation
    ends, resumes, continues = rows["open"] == 0, previous == UNKNOWN, previous.notna() & is_open(previous)
    step = np.select([ends, continues, resumes], [3, 2, 1], default=0)
    keys = [*_ITEM, "seen_at", "episode", "step"]
    return rows.assign(step=step).sort_values(keys, ignore_index=True)


def stale(people: pd.DataFrame, *, since: datetime, until: datetime | None = None) -> pd.DataFrame:
    """List the people without a complete load since some instant.

    A complete load after ``until`` was made by a clock that was ahead. When it was is not known: it counts unless a
    later load of the person did not.

    Args:
        people: One row per person: ``user_id`` (int64), ``listed`` (bool: the service still lists the person),
            ``last_complete_at`` (start of the last complete load, UTC; missing: none), ``outcome`` and ``reason`` (text: how
            the last load of the person ended, and why).
        since: People with a complete load at or after this instant are left out.
        until: The instant to which days are counted; default: ``since``, and then no clock was ahead.

    Returns:
        One row per person whom the service still lists, those without a known time first, then longest ago, then by
        ``user_id``: ``user_id`` (int64), ``last_complete_at`` (datetime64[us, UTC]; missing: never), ``days`` (since
        then; float64, missing: never, or the clock was ahead), ``outcome``, ``reason`` (text).

    Raises:
        MissingColumns: ``people`` lacks a column.

    >>> reasons = ["", "no answer in time", "a scan is running"]
    >>> people = pd.DataFrame({"user_id": [1, 2, 3], "outcome": ["whole", "failed", "partial"], "reason": reasons})
    >>> last_complete_at = pd.to_datetime(["2026-03-08T06:00Z", "2026-03-01T06:00Z", None])
    >>> people = people.assign(listed=True, last_complete_at=last_complete_at)
    >>> analysis.stale(people, since=pd.Timestamp("2026-03-05T06:00Z"))[["user_id", "days", "reason"]]
       user_id  days             reason
    0        3   NaN  a scan is running
    1        2   4.0  no answer in time
    """
    MissingColumns.check("stale", people, ("user_id", "listed", "last_complete_at", "outcome", "reason"))
    last_complete_at = instants(people["last_complete_at"])
    is_ahead = np.zeros(len(people), "bool") if until is None else last_complete_at > instant(until)
    is_outdated = is_ahead & (people["outcome"].astype("str") != WHOLE).to_numpy("bool")
    is_stale = people["listed"].to_numpy("bool") & (
        np.isnat(last_complete_at) | (last_complete_at < instant(since)) | is_outdated
    )
    days = (instant(until or since) - last_complete_at) / np.timedelta64(_DAY_S, "s")
    table = pd.DataFrame(
        {
            "user_id": people["user_id"].astype("int64"),
            "last_complete_at": pd.Series(utc_index(last_complete_at), index=people.index, dtype=UTC_INSTANT),
            "days": np.where(is_ahead, np.nan, days),
            "outcome": people["outcome"].astype("str"),
            "reason": people["reason"].astype("str"),
        }
    )
    ordered = table.assign(has_days=table["days"].notna())[is_stale].sort_values(
        ["has_days", "last_complete_at", "user_id"], na_position="first", ignore_index=True
    )
    return ordered.drop(columns="has_days")
