"""Stalled sites: those that remove nothing, so that manual work on them can wait."""

from datetime import date, datetime

import pandas as pd

from exposurekit.analysis.statuses import CLOSED, UNKNOWN, is_open
from exposurekit.contract.types import PENDING_REMOVAL

STALLED_REMOVALS, STALLED_DAYS = 3, 14  # this many requests, this long ago, and nothing removed


def stalled_sites(transitions: pd.DataFrame, as_of: datetime) -> dict[str, str]:
    """Return the sites that remove nothing, with the reason: they did not carry out requests so far.

    A site is stalled if at least `STALLED_REMOVALS` removals were requested `STALLED_DAYS` days before ``as_of`` or
    earlier and were not carried out, and no listing ever went from it. A request that was refused is not a reason to
    wait: the service could not remove the listing, so a person has to. Nor is one of a person who left the service, which
    nobody observes any more. ``transitions`` count the records of a ``site`` that went from
    ``prev_status`` (missing: first observation) to ``status`` on a ``day`` (days since 1970-01-01).
    """
    site, status, was = (transitions[name].astype("str") for name in ("site", "status", "prev_status"))
    last_day = (as_of.date() - date(1970, 1, 1)).days - STALLED_DAYS
    is_request = (status == PENDING_REMOVAL) & (transitions["day"] <= last_day)
    is_over = (was == PENDING_REMOVAL) & (is_open(status) | (status == UNKNOWN))
    requests = transitions["n"].where(is_request, 0) - transitions["n"].where(is_over, 0)
    responsive = {*site[status.isin(CLOSED)]}
    return {
        str(name): f"{n:,} removal requests were not carried out within {STALLED_DAYS} days"
        for name, n in requests.groupby(site).sum().items()
        if n >= STALLED_REMOVALS and name not in responsive
    }
