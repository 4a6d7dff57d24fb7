"""Site outcomes: what came of the removal requests to each site, in numbers and in words."""

from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.counts import by_site
from exposurekit.analysis.declared_vs_observed import REQUEST_COLUMNS, declared_vs_observed
from exposurekit.analysis.failed_removals import overdue_days
from exposurekit.analysis.group_codes import instants, utc_index
from exposurekit.analysis.statuses import CLOSED, UNKNOWN, is_open
from exposurekit.analysis.survival import UNREQUESTED
from exposurekit.analysis.work_queue import STALLED_DAYS
from exposurekit.contract.types import PENDING_REMOVAL, REMOVED
from exposurekit.errors import MissingColumns
from exposurekit.frames.arrow import texts
from exposurekit.text.formatting import enumerate_words, pluralize

_DAY = np.timedelta64(1, "D")
_COUNTS = ("requested", "failed", "overdue", "came_back", "never_back", "waiting")
_TIMES = ("median_days", "median_low", "median_high", "declared_days", "takes_longer")


def site_outcomes(
    records: pd.DataFrame,
    requests: pd.DataFrame,
    relistings: pd.DataFrame,
    declared: pd.DataFrame,
    *,
    at: Any,
    level: float = 0.95,
) -> pd.DataFrame:
    """Say for each site what came of the removal requests to it: its numbers, and a verdict in words.

    Args:
        records: A table as returned by `History.records()`: ``user_id``, ``site``, ``status``, ``changed_at`` (UTC).
        requests: A table as returned by `History.removal_requests`.
        relistings: A table as returned by `History.relistings`: ``user_id``, ``key``, ``site``, ``status``.
        declared: As in `declared_vs_observed`; no rows: no site declares anything.
        at: The instant to which days are counted.
        level: Confidence level of the median's interval, between 0 and 1.

    Returns:
        One row per site with a listing, in the order of `by_site`: ``site`` (text), ``verdict`` (text, such as ``removes,
        but 12 of 17 came back``), ``open``, ``waiting`` (open listings without a pending request: they wait for a person,
        or for the service), ``waiting_since`` (UTC: since when the first of them waits; missing: none does), ``total``
        (listings, as in `by_site`), ``requested``, ``failed`` (requests, as in `failed_removals`; one that was made and
        answered between two runs counts here), ``median_days``, ``median_low``, ``median_high`` (Float64: days from the
        request to the verified removal; missing with fewer than five requests), ``declared_days`` (Float64; missing:
        none), ``overdue`` (requests that are pending for `overdue_days` or longer), ``removed`` (listings), ``came_back``
        (listings that were listed again after they were gone), ``never_back`` (listings that are gone and were never
        listed again; all counts int64), ``overdue_days`` (int64).

    Raises:
        MissingColumns: A table lacks a column.

    >>> at = pd.Timestamp("2026-03-20", tz="UTC")
    >>> records = pd.DataFrame({"user_id": [1, 2], "site": "Seekfolk", "status": "discovered"}).assign(changed_at=at)
    >>> none = history.relistings().head(0)
    >>> requests, declared = history.removal_requests().head(0), history.declared_days().head(0)
    >>> analysis.site_outcomes(records, requests, none, declared, at=at)[["site", "verdict", "waiting"]]
           site              verdict  waiting
    0  Seekfolk  no request seen yet        2
    """
    MissingColumns.check("site_outcomes", records, ("user_id", "site", "status", "changed_at"))
    back = ("user_id", "key", "site", "status")
    MissingColumns.check("site_outcomes, table requests,", requests, REQUEST_COLUMNS)
    MissingColumns.check("site_outcomes, table relistings,", relistings, back)
    MissingColumns.check("site_outcomes, table declared,", declared, ("site", "declared_days"))
    times = declared_vs_observed(requests, declared, level=level).set_index("site")
    table = by_site(records)[["site", "open", "total", REMOVED]]
    site, status = texts(records["site"]), texts(records["status"])
    is_waiting = is_open(status) & (status != PENDING_REMOVAL).to_numpy("bool")
    listings = relistings.drop_duplicates(["user_id", "key"], keep="last")
    is_gone_again = listings["status"].isin(CLOSED).to_numpy("bool")
    gone, gone_again = site[status.isin(CLOSED)].value_counts(), listings.loc[is_gone_again, "site"]
    limits = overdue_days(requests)
    of_request, end = texts(requests["site"]), texts(requests["end"])
    pending_days = _days(requests["requested_at"], at)
    limit = of_request.map(limits).fillna(STALLED_DAYS).to_numpy("float64")
    counts = {
        "requested": of_request.value_counts(),
        "failed": of_request[end.notna() & ~end.isin((*CLOSED, UNKNOWN))].value_counts(),
        "overdue": of_request[end.isna().to_numpy("bool") & (pending_days >= limit)].value_counts(),
        "came_back": listings["site"].astype("str").value_counts(),
        "never_back": gone.sub(gone_again.astype("str").value_counts(), fill_value=0),
        "waiting": site[is_waiting].value_counts(),
    }
    for name in _COUNTS:
        table[name] = table["site"].map(counts[name]).fillna(0).astype("int64")
    since = pd.Series(utc_index(instants(records["changed_at"])), records.index)[is_waiting]
    first = since.groupby(site[is_waiting].to_numpy()).min()
    table["waiting_since"] = utc_index(instants(first.reindex(table["site"])))
    for name in _TIMES:
        table[name] = times[name].reindex(table["site"]).array
    table["overdue_days"] = table["site"].map(limits).fillna(STALLED_DAYS).astype("int64")
    judged = table.assign(is_refusing=is_refusing(table)).to_dict("records")
    table["verdict"] = pd.Series([_verdict(row) for row in judged], dtype="str")
    table.attrs["level"] = level
    return table[
        [
            *("site", "verdict", "open", "waiting", "waiting_since", "total", "requested", "failed"),
            *("median_days", "median_low", "median_high", "declared_days", "overdue", REMOVED),
            *("came_back", "never_back", "overdue_days"),
        ]
    ]


def is_refusing(outcomes: pd.DataFrame) -> "pd.Series[bool]":
    """Return which sites refused requests, if none of their listings has gone yet."""
    return (outcomes["failed"] > 0) & (outcomes["came_back"] + outcomes["never_back"] == 0)


def _verdict(row: dict[Any, Any]) -> str:
    """What a site does with requests, in words: everything that goes wrong, and whether it is slow."""
    gone = row["came_back"] + row["never_back"]
    if not gone and not row["requested"]:
        return UNREQUESTED
    if not gone:
        if row["is_refusing"]:
            return f"refused {row['failed']:,} of {pluralize(row['requested'], 'request')}"
        return (
            "has removed nothing, and requests had no effect" if row["overdue"] else "has removed nothing yet"
        )
    slow = row["takes_longer"] is not pd.NA and bool(row["takes_longer"])
    flaws = [
        f"{row['came_back']:,} of {gone:,} came back" if row["came_back"] else "",
        f"{row['failed']:,} of {row['requested']:,} requests failed" if row["failed"] else "",
        f"{row['overdue']:,} without effect" if row["overdue"] else "",
        "slower than it declares" if slow else "",
    ]
    flaws = [flaw for flaw in flaws if flaw]
    return f"removes, but {enumerate_words(flaws)}" if flaws else "removes, none came back"


def _days(begin: "pd.Series[Any]", at: Any) -> Any:
    """Calendar days from instants to a later one."""
    until = np.datetime64(pd.Timestamp(at).tz_convert(None), "D")
    begun: Any = instants(begin).astype("datetime64[D]")
    return (until - begun) / _DAY
