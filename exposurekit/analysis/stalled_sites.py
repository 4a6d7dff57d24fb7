"""Stalled sites: those that remove nothing, so that manual work on them can wait."""

from datetime import UTC, datetime, timedelta

import pandas as pd

from exposurekit.analysis.group_codes import instant, instants
from exposurekit.analysis.statuses import CLOSED

STALLED_REMOVALS, STALLED_DAYS = 3, 14  # this many requests, this long ago, and nothing removed


def stalled_sites(requests: pd.DataFrame, transitions: pd.DataFrame, as_of: datetime) -> dict[str, str]:
    """Return the sites that remove nothing, with the reason: they did not carry out requests so far.

    A site is stalled if at least `STALLED_REMOVALS` removals were requested `STALLED_DAYS` days before ``as_of`` or
    earlier and are still pending, and no listing ever went from it. A request that was refused is not a reason to
    wait: the service could not remove the listing, so a person has to. Nor is one of a person who left the service, which
    nobody observes any more. ``requests`` is a table as returned by `History.removal_requests`; ``transitions`` have a row
    for each ``site`` and each ``status`` to which its records went.
    """
    end_of_day = datetime.combine(as_of.date() - timedelta(days=STALLED_DAYS - 1), datetime.min.time(), UTC)
    is_old = instants(requests["requested_at"]) < instant(end_of_day)
    waiting = requests["site"].astype("str")[is_old & requests["end"].isna().to_numpy("bool")]
    responsive = {*transitions["site"].astype("str")[transitions["status"].astype("str").isin(CLOSED)]}
    return {
        str(name): f"{n:,} removal requests were not carried out within {STALLED_DAYS} days"
        for name, n in waiting.value_counts(sort=False).sort_index().items()
        if n >= STALLED_REMOVALS and name not in responsive
    }
