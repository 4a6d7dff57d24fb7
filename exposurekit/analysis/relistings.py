"""What does not last: listings that come back, and looks that grow old. Guesses nothing about what was not seen."""

from datetime import datetime

import numpy as np
import pandas as pd

from exposurekit.analysis.grouping import UTC_INSTANT, aware, instant, instants
from exposurekit.analysis.statuses import CLOSED, UNKNOWN, VANISHED, is_open
from exposurekit.contract.types import REMOVED
from exposurekit.errors import MissingColumns

_DAY_S = 86_400
_THING = ["kind", "user_id", "key"]


def relistings(changes: pd.DataFrame) -> pd.DataFrame:
    """Listings that were gone and are there again: one row for each time.

    Args:
        changes: All changes of each thing concerned, in any order: ``kind``, ``user_id`` (int64), ``key`` (int64),
            ``site`` (text), ``seen_at`` (UTC), ``status``, ``prev_status`` (text; missing: seen for the first time),
            ``episode`` (the number of its span of being open). Where a record's ``key`` is not its id, also
            ``record_id`` (Int64; missing: not known). Links and alerts are left out.

    Returns:
        One row a record each time that it was listed again, ascending by when: ``user_id`` (int64), ``record_id``
        (Int64; as ``changes`` say it, else the ``key``), ``site`` (text), ``removed_at`` (when it was first seen removed or vanished,
        datetime64[us, UTC]; missing where ``changes`` do not hold that), ``was`` (``removed`` where a removal was
        verified while it was gone, ``vanished`` where none was), ``listed_again_at`` (datetime64[us, UTC]),
        ``gone_days`` (days between the two, float64), ``episode`` (the one that begins, int64), ``key`` (int64: which
        record it is, whatever its id).

    Raises:
        MissingColumns: ``changes`` lacks a column.

    >>> changes = pd.DataFrame(
    ...     {
    ...         "kind": "record",
    ...         "user_id": 7,
    ...         "key": 12,
    ...         "site": "Seekfolk",
    ...         "seen_at": pd.to_datetime(["2026-03-01T09:00Z", "2026-03-02T09:00Z", "2026-03-12T21:00Z"]),
    ...         "prev_status": [None, "discovered", "removed"],
    ...         "status": ["discovered", "removed", "discovered"],
    ...         "episode": [1, 1, 2],
    ...     }
    ... )
    >>> analysis.relistings(changes)[["record_id", "site", "was", "gone_days", "episode"]]
       record_id      site      was  gone_days  episode
    0         12  Seekfolk  removed       10.5        2
    """
    needed = (*_THING, "site", "seen_at", "status", "prev_status", "episode")
    MissingColumns.check("relistings", changes.columns, needed)
    rows = _ordered(changes[changes["kind"] == "record"])
    # A span: what follows one open row of a thing, up to the next. What was closed in it is then listed again.
    spans = [rows[name] for name in _THING] + [rows.groupby(_THING)["open"].cumsum() - rows["open"]]
    closed = rows["status"].isin(CLOSED)
    gone_at = rows["seen_at"].where(closed).groupby(spans).transform("min")
    verified = (rows["status"] == REMOVED).groupby(spans).transform("any") | (rows["prev_status"] == REMOVED)
    again = (rows["open"] == 1) & (gone_at.notna() | rows["prev_status"].isin(CLOSED))
    table = rows.assign(
        removed_at=gone_at,
        was=verified.map({True: REMOVED, False: VANISHED}).astype("str"),
        listed_again_at=rows["seen_at"],
        gone_days=(rows["seen_at"] - gone_at).dt.total_seconds() / _DAY_S,
    )
    shown = [
        "user_id",
        "record_id",
        "site",
        "removed_at",
        "was",
        "listed_again_at",
        "gone_days",
        "episode",
        "key",
    ]
    order = ["listed_again_at", "user_id", "key", "episode"]
    return table.loc[again, shown].sort_values(order, ignore_index=True)


def _ordered(changes: pd.DataFrame) -> pd.DataFrame:
    """Each thing's changes as they came. At one instant, an episode begins, goes on and ends."""
    rows = pd.DataFrame(
        {
            **{name: changes[name].astype("str") for name in ("kind", "site", "status", "prev_status")},
            **{name: changes[name].astype("int64") for name in ("user_id", "key", "episode")},
            "record_id": changes["record_id" if "record_id" in changes else "key"].astype("Int64"),
            "seen_at": aware(instants(changes["seen_at"])),
            "open": is_open(changes["status"]).astype("int64"),
        },
    )
    ended, back, on = rows["open"] == 0, rows["prev_status"] == UNKNOWN, is_open(rows["prev_status"])
    step = np.select([ended, on, back], [3, 2, 1], default=0)
    keys = [*_THING, "seen_at", "episode", "step"]
    return rows.assign(step=step).sort_values(keys, ignore_index=True)


def stale(people: pd.DataFrame, *, since: datetime, until: datetime | None = None) -> pd.DataFrame:
    """People whom no look has seen well since some instant.

    Args:
        people: One row a person: ``user_id`` (int64), ``listed`` (bool: the service still lists the person),
            ``whole_at`` (when the last whole look at the person began, UTC; missing: there was none), ``outcome`` and
            ``reason`` (text: what the last look came to).
        since: Whoever was seen well at this instant or later is left out.
        until: The instant to which days are counted; ``since`` where it is left out.

    Returns:
        One row a person, never seen first, then longest ago, then by ``user_id``: ``user_id`` (int64), ``whole_at``
        (datetime64[us, UTC]), ``days`` (since then; float64, missing: never), ``outcome``, ``reason`` (text). Whom
        the service lists no longer is not among them.

    Raises:
        MissingColumns: ``people`` lacks a column.

    >>> people = pd.DataFrame(
    ...     {
    ...         "user_id": [1, 2, 3],
    ...         "listed": True,
    ...         "whole_at": pd.to_datetime(["2026-03-08T06:00Z", "2026-03-01T06:00Z", None]),
    ...         "outcome": ["whole", "failed", "partial"],
    ...         "reason": ["", "no answer in time", "a scan is running"],
    ...     }
    ... )
    >>> analysis.stale(people, since=pd.Timestamp("2026-03-05T06:00Z"))[["user_id", "days", "reason"]]
       user_id  days             reason
    0        3   NaN  a scan is running
    1        2   4.0  no answer in time
    """
    MissingColumns.check("stale", people.columns, ("user_id", "listed", "whole_at", "outcome", "reason"))
    whole_at = instants(people["whole_at"])
    old = people["listed"].to_numpy("bool") & (np.isnat(whole_at) | (whole_at < instant(since)))
    table = pd.DataFrame(
        {
            "user_id": people["user_id"].astype("int64"),
            "whole_at": pd.Series(aware(whole_at), index=people.index, dtype=UTC_INSTANT),
            "days": (instant(until or since) - whole_at) / np.timedelta64(_DAY_S, "s"),
            "outcome": people["outcome"].astype("str"),
            "reason": people["reason"].astype("str"),
        }
    )
    return table[old].sort_values(["whole_at", "user_id"], na_position="first", ignore_index=True)
