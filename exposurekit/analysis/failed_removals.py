"""Removals that failed, were not carried out in the usual time or were undone, when a request is overdue, and how many requests succeed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.expected_removals import success_rate
from exposurekit.analysis.group_codes import instant, instants
from exposurekit.analysis.stalled_sites import STALLED_DAYS
from exposurekit.analysis.statuses import NOT_OPEN, UNKNOWN, is_open
from exposurekit.analysis.survival import MIN_N
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import MissingColumns
from exposurekit.frames.arrow import categories, texts

_DAY_S = 86_400
GRANTED, REFUSED, IGNORED = "granted", "refused", "ignored"
_USUAL_SHARE = 0.95  # of a site's removals took no longer


def failed_removals(
    transitions: pd.DataFrame,
    records: pd.DataFrame,
    relistings: pd.DataFrame,
    *,
    at: datetime,
    overdue_after: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """Count per site the removals that were requested, and those that failed, were not carried out in the usual time or were undone.

    A request that was made and answered between two runs is in no status that a run observed, so it is not counted.

    Args:
        transitions: Numbers of equal changes of records: ``site``, ``prev_status`` (text; missing: first observation),
            ``status`` (text), ``n`` (int64).
        records: A table as returned by `History.records()`: ``site``, ``status``, ``changed_at`` (UTC).
        relistings: A table as returned by `History.relistings()`: ``site``, ``user_id``, ``key``, ``status``.
        at: The instant to which days are counted.
        overdue_after: The days after which a pending request counts as not carried out in the usual time, by site, as from `overdue_days`;
            of other sites, `STALLED_DAYS`.

    Returns:
        One row per site with a request or a relisting, most bad news first, then by name: ``site`` (text), ``requested``
        (removals, pending when first observed included), ``failed`` (pending, then discovered again), ``without_effect``
        (listings that have been pending removal for at least these days), ``relistings``, ``listed_again`` (distinct
        listings that were listed again), ``open_again`` (of these, the open ones; all int64).

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
    limit = texts(records["site"]).map(dict(overdue_after or {})).astype("float64").fillna(STALLED_DAYS)
    is_pending = (texts(records["status"]) == PENDING_REMOVAL).to_numpy("bool")
    is_old = is_pending & (days >= limit.to_numpy("float64"))
    listings = relistings.drop_duplicates(["user_id", "key"], keep="last")
    by_site = {
        "requested": requests(transitions),
        "failed": transitions["n"].where(is_failure, 0).groupby(transitions["site"].astype("str")).sum(),
        "without_effect": texts(records["site"])[is_old].value_counts(),
        "relistings": texts(relistings["site"]).value_counts(),
        "listed_again": texts(listings["site"]).value_counts(),
        "open_again": texts(listings["site"])[is_open(listings["status"])].value_counts(),
    }
    table = pd.DataFrame(by_site).fillna(0).astype("int64").rename_axis("site")
    table = table[table[["requested", "failed", "relistings"]].any(axis=1)].reset_index()
    table = table.astype({"site": "str"}).assign(
        bad=table["failed"] + table["without_effect"] + table["listed_again"]
    )
    order = ["bad", "requested", "site"]
    return table.sort_values(order, ascending=[False, False, True], ignore_index=True).drop(columns="bad")


def overdue_days(requests: pd.DataFrame) -> "pd.Series[int]":
    """After how many days a pending request is overdue, by site: a day more than 95% of its removals took.

    Args:
        requests: A table as returned by `History.removal_requests`. Sites with fewer than `MIN_N` removals are left out:
            `STALLED_DAYS` holds for them.
    """
    needed = ("site", "requested_after", "requested_at", "ended_at", "end")
    MissingColumns.check("overdue_days", requests, needed)
    is_removed = (requests["end"] == REMOVED) & requests["requested_after"].notna()
    removed = requests[is_removed.to_numpy("bool")]
    days = _calendar_days(removed["requested_at"], removed["ended_at"]).clip(lower=0)
    of_site = days.groupby(categories(removed["site"]), observed=True)
    most = of_site.quantile(_USUAL_SHARE, interpolation="higher")[of_site.size() >= MIN_N]
    return (most + 1).astype("int64").set_axis(most.index.astype("str"))


def outcomes(requests: pd.DataFrame, *, at: datetime) -> "pd.Series[str]":
    """Return the outcome of each request: `GRANTED`, `REFUSED` or `IGNORED`; missing: unknown, or not known yet.

    A request is ignored if it was pending for `overdue_days` or longer (`STALLED_DAYS` at sites without), whether it still
    is or its listing is open again. One that ended sooner, without a removal, was refused.

    Args:
        requests: A table as returned by `History.removal_requests`.
        at: The instant to which the days of pending requests are counted.
    """
    end, site = categories(requests["end"]), categories(requests["site"])
    ended = pd.Series(instants(requests["ended_at"]), requests.index).fillna(instant(at))
    days = _calendar_days(requests["requested_at"], ended)
    is_late = days >= site.map(overdue_days(requests)).astype("float64").fillna(STALLED_DAYS)
    is_granted, is_pending = end == REMOVED, end.isna()
    is_refused = ~is_pending & ~end.isin(NOT_OPEN)
    cases = [is_granted, (is_pending | is_refused) & is_late, is_refused]
    outcome = np.select(cases, [GRANTED, IGNORED, REFUSED], default="")
    return pd.Series(outcome, requests.index, dtype="str").where(outcome != "")


def success_rates(requests: pd.DataFrame, *, at: datetime) -> dict[str, float]:
    """Return the expected share of requests that succeed, by site: (granted + 1) / (decided + 2).

    A site that carried out no request is still given some chance, and a smaller one after twenty requests than
    after one. A site that has decided on no request is not in the result: `work_queue` gives it `UNKNOWN_RATE`.

    Args:
        requests: A table as returned by `History.removal_requests`.
        at: As in `outcomes`.

    Source: rule of succession (Laplace).
    """
    return {site: success_rate(*counts) for site, counts in decisions(requests, at=at).items()}


def decisions(requests: pd.DataFrame, *, at: datetime) -> dict[str, tuple[int, int]]:
    """Return how many requests each site has granted, and on how many it has decided; sites with none are left out.

    Args:
        requests: A table as returned by `History.removal_requests`.
        at: As in `outcomes`.
    """
    outcome = outcomes(requests, at=at).to_numpy("object")
    is_granted = pd.Series(outcome == GRANTED)[pd.notna(outcome)]
    site = categories(requests["site"]).reset_index(drop=True)
    decided = is_granted.groupby(site, observed=True).agg(["sum", "size"])
    rows = zip(decided.index, decided["sum"].tolist(), decided["size"].tolist(), strict=True)
    return {str(site): (int(granted), int(n)) for site, granted, n in rows}


def requests(transitions: pd.DataFrame) -> "pd.Series[int]":
    """Count per site the removals that were requested, as `failed_removals` does; 0 included.

    Args:
        transitions: As in `failed_removals`.
    """
    was, now = (transitions[name].astype("str") for name in ("prev_status", "status"))
    is_request = (now == PENDING_REMOVAL) & (was != UNKNOWN).fillna(value=True)
    return transitions["n"].where(is_request, 0).groupby(transitions["site"].astype("str")).sum()


def _calendar_days(begin: "pd.Series[Any]", end: "pd.Series[Any]") -> "pd.Series[float]":
    """The calendar days from some instants to others."""
    begun, ended = (instants(one).astype("datetime64[D]") for one in (begin, end))
    return pd.Series((ended - begun) / np.timedelta64(1, "D"), begin.index)
