"""Changes between two instants: per item, as counts, and as a waterfall of causes."""

from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.grouping import instant, instants
from exposurekit.analysis.statuses import CLOSED, UNKNOWN, VANISHED, is_open
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument, MissingColumns

OPEN_BEFORE, OPEN_AFTER = "open before", "open after"
NEW, INTO_VIEW, AGAIN = "new", "came into view", "listed again"
OUT_OF_VIEW, CHANGED, UNCHANGED = "out of view", "status changed", "unchanged"
FAILED = "removal failed"
OPENED = (NEW, INTO_VIEW, AGAIN)
ENDED = (REMOVED, VANISHED, OUT_OF_VIEW)
WHAT = (*OPENED, FAILED, CHANGED, *ENDED, UNCHANGED)


def changes(transitions: pd.DataFrame, a: datetime, b: datetime, *, open_before: int) -> pd.DataFrame:
    """Explain the change in the number of open items after ``a`` and up to ``b``, as a waterfall.

    Args:
        transitions: One row per set of equal changes: ``at`` (when observed, UTC), ``prev_status`` (text; missing:
            first observation), ``status`` (text), ``left_censored`` (bool: already present when its user was first
            loaded), ``n`` (int64). Changes outside the period are ignored.
        a: Start of the period, exclusive. UTC if it has no time zone.
        b: End of the period, inclusive.
        open_before: Number of open items at ``a``.

    Returns:
        Always eight rows, in this order: ``cause`` (text), ``n`` (signed, int64, items), ``open`` (running sum of
        ``n``, int64). Causes: ``open before``; ``new`` (first observed in the period); ``came into view`` (already open
        when its user was first loaded, or listed again by the service); ``listed again`` (removed or vanished before);
        ``removed``; ``vanished``; ``out of view`` (the service no longer lists the user); ``open after``, whose ``n``
        is 0. A change from one open status to another does not count; an item that appeared and ended counts twice.

    Raises:
        MissingColumns: ``transitions`` lacks a column.
        InvalidArgument: ``b`` is before ``a``.

    >>> transitions = pd.DataFrame(
    ...     {
    ...         "at": pd.to_datetime(["2026-03-02T09:00Z", "2026-03-03T09:00Z"]),
    ...         "prev_status": [None, "discovered"],
    ...         "status": ["discovered", "removed"],
    ...         "left_censored": [False, True],
    ...         "n": [2, 5],
    ...     }
    ... )
    >>> moved = analysis.changes(transitions, pd.Timestamp("2026-03-01"), pd.Timestamp("2026-03-04"), open_before=9)
    >>> moved[moved["n"] != 0]
             cause  n  open
    0  open before  9     9
    1          new  2    11
    4      removed -5     6
    """
    needed = ("at", "prev_status", "status", "left_censored", "n")
    MissingColumns.check("changes", transitions.columns, needed)
    if instant(b) < instant(a):
        raise InvalidArgument("invalid period: b is before a. Pass the earlier instant first")
    at = instants(transitions["at"])
    within = transitions[(at > instant(a)) & (at <= instant(b))]
    n = within["n"].astype("int64").groupby(_cause_of_change(within)).sum()
    signs = dict.fromkeys(OPENED, 1) | dict.fromkeys(ENDED, -1)
    steps = [sign * int(n.get(cause, 0)) for cause, sign in signs.items()]
    table = pd.DataFrame({"cause": [OPEN_BEFORE, *signs, OPEN_AFTER], "n": [open_before, *steps, 0]})
    return table.assign(open=table["n"].cumsum())


def _cause_of_change(transitions: pd.DataFrame) -> NDArray[np.str_]:
    """The cause of each change in the number of open items; empty if a change left it as it was."""
    before, after = transitions["prev_status"].astype("str"), transitions["status"].astype("str")
    was_open, is_open_now = is_open(before), is_open(after)
    opened, ended = is_open_now & ~was_open, was_open & ~is_open_now
    baseline = before.isna() & transitions["left_censored"].astype("bool")
    cases = {
        INTO_VIEW: opened & (baseline | (before == UNKNOWN)),
        AGAIN: opened & before.isin(CLOSED),
        NEW: opened & before.isna(),
        REMOVED: ended & (after == REMOVED),
        VANISHED: ended & (after == VANISHED),
        OUT_OF_VIEW: ended & (after == UNKNOWN),
    }
    return np.select([np.asarray(case) for case in cases.values()], [*cases], default="")


def diff(changed: pd.DataFrame) -> pd.DataFrame:
    """Classify the net change of each item between two instants.

    Args:
        changed: One row per item that changed: ``before`` (status at the first instant, text; missing: not observed
            yet), ``after`` (status at the second instant, text), ``left_censored`` (bool: already present when its user
            was first loaded), and columns that identify the item (``kind``, ``user_id``, ``key``, ``site``).

    Returns:
        The same rows and columns, and ``what`` (text), the first of these that applies:

        1. ``unchanged``: changed and changed back
        2. ``out of view``: after is unknown, because the service no longer lists the user
        3. ``came into view``: before is unknown; or the item was already present when its user was first loaded. Such
           an item never counts as new or removed, whatever its status is now
        4. ``removed``: after is removed
        5. ``vanished``: after is vanished, without a verified removal
        6. otherwise, for items that are open now: ``new`` (not observed before), ``listed again`` (removed or vanished
           before), ``removal failed`` (pending
           removal before, and discovered again), ``status changed`` (open before).

    Raises:
        MissingColumns: ``changed`` lacks a column.

    >>> things = {"before": [None, "discovered", "removed"], "after": ["discovered", "vanished", "discovered"]}
    >>> analysis.diff(pd.DataFrame(things).assign(left_censored=False))["what"].tolist()
    ['new', 'vanished', 'listed again']
    """
    MissingColumns.check("diff", changed.columns, ("before", "after", "left_censored"))
    before, after = changed["before"].astype("str"), changed["after"].astype("str")
    baseline = before.isna() & changed["left_censored"].astype("bool")
    cases = {
        UNCHANGED: before == after,
        OUT_OF_VIEW: after == UNKNOWN,
        INTO_VIEW: (before == UNKNOWN) | baseline,
        REMOVED: after == REMOVED,
        VANISHED: after == VANISHED,
        NEW: before.isna(),
        AGAIN: before.isin(CLOSED),
        FAILED: (before == PENDING_REMOVAL) & (after == DISCOVERED),
    }
    what = np.select([np.asarray(case) for case in cases.values()], [*cases], default=CHANGED)
    return changed.assign(what=pd.Series(what, index=changed.index, dtype="str"))


def diff_counts(diff: pd.DataFrame, unchanged: int) -> pd.DataFrame:
    """Count the items per kind of change between two instants.

    Args:
        diff: A table as returned by `diff`. Needs ``what``.
        unchanged: Number of items, observed by both instants, that never changed in between.

    Returns:
        Always nine rows, in this order: ``what`` (text): ``new``, ``came into view``, ``listed again``,
        ``removal failed``, ``status changed``, ``removed``, ``vanished``, ``out of view``, ``unchanged``; ``n`` (int64, items).

    Raises:
        MissingColumns: ``diff`` lacks a column.

    >>> analysis.diff_counts(pd.DataFrame({"what": ["new", "new", "removed"]}), 40).query("n > 0")
            what   n
    0        new   2
    5    removed   1
    8  unchanged  40
    """
    MissingColumns.check("diff_counts", diff.columns, ("what",))
    n = diff["what"].value_counts().reindex([*WHAT], fill_value=0).astype("int64")
    n[UNCHANGED] += unchanged
    return pd.DataFrame({"what": [*WHAT], "n": n.to_numpy()})


def diff_by_site(diff: pd.DataFrame, open_after: pd.DataFrame) -> pd.DataFrame:
    """Count per site how many items were open before and after, and what happened in between.

    Args:
        diff: A table as returned by `diff`; needs ``site``, ``before``, ``after`` and ``what``.
        open_after: The sites at the later instant, as returned by `counts`; needs ``site`` and ``open``.

    Returns:
        One row per site that has or had items, most open after first: ``site`` (text), ``open_before``, ``open_after``,
        ``change`` (``open_after`` less ``open_before``), then one column per value of ``what`` but ``unchanged`` (int64,
        items).

    Raises:
        MissingColumns: A table lacks a column.

    >>> things = pd.DataFrame({"site": ["A", "A"], "before": [None, "discovered"], "after": ["discovered", "removed"]})
    >>> by_site = analysis.counts(
    ...     pd.DataFrame({"site": ["A"], "prev_status": [None], "status": ["discovered"], "n": [4]}), by="site"
    ... )
    >>> from exposurekit.analysis.diff import diff_by_site
    >>> diff_by_site(analysis.diff(things.assign(left_censored=False)), by_site)[["open_before", "open_after", "new"]]
       open_before  open_after  new
    0            4           4    1
    """
    MissingColumns.check("diff_by_site", diff.columns, ("site", "before", "after", "what"))
    MissingColumns.check("diff_by_site", open_after.columns, ("site", "open"))
    site = diff["site"].astype("str")
    change = is_open(diff["after"]).astype("int64") - is_open(diff["before"]).astype("int64")
    happened = pd.crosstab(site, diff["what"].astype("str").to_numpy()).reindex(
        columns=[what for what in WHAT if what != UNCHANGED], fill_value=0
    )
    now = open_after.assign(site=open_after["site"].astype("str")).set_index("site")["open"]
    sites = now.index.union(happened.index).rename("site")
    table = pd.DataFrame({"open_after": now.reindex(sites, fill_value=0)}, index=sites)
    table["change"] = pd.Series(change, index=site).groupby(level=0).sum().reindex(sites, fill_value=0)
    table["open_before"] = table["open_after"] - table["change"]
    table = table.join(happened).fillna(0).astype("int64").reset_index().astype({"site": "str"})
    table = table.sort_values(["open_after", "open_before", "site"], ascending=[False, False, True])
    return table[["site", "open_before", "open_after", "change", *happened.columns]].reset_index(drop=True)
