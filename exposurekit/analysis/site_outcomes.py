"""Site outcomes: what came of the removal requests to each site, in numbers and in words."""

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from exposurekit.analysis.counts import by_site
from exposurekit.analysis.declared_vs_observed import REQUEST_COLUMNS, declared_vs_observed
from exposurekit.analysis.failed_removals import IGNORED, REFUSED, outcomes, overdue_days
from exposurekit.analysis.group_codes import instants, utc_index
from exposurekit.analysis.stalled_sites import STALLED_DAYS
from exposurekit.analysis.statuses import CLOSED, is_open
from exposurekit.analysis.survival import UNREQUESTED
from exposurekit.contract.types import PENDING_REMOVAL, REMOVED
from exposurekit.errors import MissingColumns
from exposurekit.frames.arrow import categories, counts_of
from exposurekit.text.formatting import enumerate_words, pluralize

_COUNTS = ("requested", REFUSED, IGNORED, "listed_again", "not_listed_again", "waiting")
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
        One row per site with a listing, in the order of `by_site`: ``site`` (text), ``verdict`` (text, such as ``removes
        listings, 12 of 17 listed again``), ``open``, ``waiting`` (open listings without a pending request: they wait for a person,
        or for the service), ``waiting_since`` (UTC: since when the first of them waits; missing: none does), ``total``
        (listings, as in `by_site`), ``requested``, ``refused``, ``ignored`` (requests, including those made and answered
        between two runs; see `failed_removals.outcomes`), ``median_days``, ``median_low``, ``median_high`` (Float64: days
        from the request to the verified removal; missing with fewer than five requests), ``declared_days`` (Float64;
        missing: none), ``removed`` (listings), ``listed_again`` (listings that were listed again after they were gone),
        ``not_listed_again`` (listings that are gone and were never listed again; all counts int64), ``overdue_days`` (int64).

    Raises:
        MissingColumns: A table lacks a column.

    >>> at = pd.Timestamp("2026-03-20", tz="UTC")
    >>> records = pd.DataFrame({"user_id": [1, 2], "site": "Seekfolk", "status": "discovered"}).assign(changed_at=at)
    >>> none = history.relistings().head(0)
    >>> requests, declared = history.removal_requests().head(0), history.declared_days().head(0)
    >>> analysis.site_outcomes(records, requests, none, declared, at=at)[["site", "verdict", "waiting"]]
           site                      verdict  waiting
    0  Seekfolk  no removal request seen yet        2
    """
    MissingColumns.check("site_outcomes", records, ("user_id", "site", "status", "changed_at"))
    back = ("user_id", "key", "site", "status")
    MissingColumns.check("site_outcomes, table requests,", requests, REQUEST_COLUMNS)
    MissingColumns.check("site_outcomes, table relistings,", relistings, back)
    MissingColumns.check("site_outcomes, table declared,", declared, ("site", "declared_days"))
    times = declared_vs_observed(requests, declared, level=level).set_index("site")
    table = by_site(records)[["site", "open", "total", REMOVED]]
    site, status = categories(records["site"]), records["status"]
    is_waiting = is_open(status) & (status != PENDING_REMOVAL).to_numpy("bool", na_value=True)
    listings = relistings.drop_duplicates(["user_id", "key"], keep="last")
    is_gone_again = listings["status"].isin(CLOSED).to_numpy("bool")
    returned, gone = categories(listings["site"]), counts_of(site[status.isin(CLOSED).to_numpy("bool")])
    of_request, outcome = categories(requests["site"]), outcomes(requests, at=at)
    counts = {
        "requested": counts_of(of_request),
        REFUSED: counts_of(of_request[outcome == REFUSED]),
        IGNORED: counts_of(of_request[outcome == IGNORED]),
        "listed_again": counts_of(returned),
        "not_listed_again": gone.sub(counts_of(returned[is_gone_again]), fill_value=0),
        "waiting": counts_of(site[is_waiting]),
    }
    for name in _COUNTS:
        table[name] = table["site"].map(counts[name]).fillna(0).astype("int64")
    since = pd.Series(utc_index(instants(records["changed_at"])), records.index)[is_waiting]
    first = since.groupby(site[is_waiting], observed=True).min()
    table["waiting_since"] = utc_index(
        instants(first.set_axis(first.index.astype("str")).reindex(table["site"]))
    )
    for name in _TIMES:
        table[name] = times[name].reindex(table["site"]).array
    table["overdue_days"] = table["site"].map(overdue_days(requests)).fillna(STALLED_DAYS).astype("int64")
    succeeded = counts_of(of_request[(requests["end"] == REMOVED).to_numpy("bool")])
    table["verified"] = table[REMOVED] + table["site"].map(succeeded).fillna(0).astype("int64")
    table["verdict"] = pd.Series([_verdict(row) for row in table.to_dict("records")], dtype="str")
    table.attrs["level"] = level
    return table[
        [
            *("site", "verdict", "open", "waiting", "waiting_since", "total", "requested", REFUSED),
            *(IGNORED, "median_days", "median_low", "median_high", "declared_days", REMOVED),
            *("listed_again", "not_listed_again", "overdue_days"),
        ]
    ]


def is_refusing(outcomes: pd.DataFrame) -> "pd.Series[bool]":
    """Return which sites refused requests or did not carry them out, if none of their listings has gone yet."""
    return (outcomes[REFUSED] + outcomes[IGNORED] > 0) & (
        outcomes["listed_again"] + outcomes["not_listed_again"] == 0
    )


def _verdict(row: Mapping[Hashable, Any]) -> str:
    """What a site does with requests, in words: everything that goes wrong, and whether it is slow."""
    gone = row["listed_again"] + row["not_listed_again"]
    if not gone and not row["requested"]:
        return UNREQUESTED
    if not gone:
        return in_vain(row) or "has removed nothing yet"
    slow = row["takes_longer"] is not pd.NA and bool(row["takes_longer"])
    flaws = [
        f"{row['listed_again']:,} of {gone:,} listed again" if row["listed_again"] else "",
        in_vain(row),
        "slower than declared" if slow else "",
    ]
    flaws = [flaw for flaw in flaws if flaw]
    if not row["verified"]:  # what vanished may be listed again
        return ", ".join((f"{gone:,} vanished, no removal verified", *flaws))
    return f"removes listings, {enumerate_words(flaws)}" if flaws else "removes listings, none listed again"


def in_vain(outcomes: Mapping[Hashable, Any]) -> str:
    """How many requests a site did not carry out, and how many of these it refused, in words; empty if none."""
    refused, ignored = outcomes[REFUSED], outcomes[IGNORED]
    n, of_all = refused + ignored, pluralize(outcomes["requested"], "removal request")
    if not ignored:
        return f"refused {refused:,} of {of_all}" if refused else ""
    return f"did not carry out {n:,} of {of_all}{f' ({refused:,} refused)' if refused else ''}"
