"""Changes between two instants: one by one, as counts, per site, and as a waterfall of causes."""

from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.group_codes import Ints, add_counts, column_codes, group_codes, instant, instants
from exposurekit.analysis.statuses import CLOSED, UNKNOWN, VANISHED, is_open
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument, MissingColumns

OPEN_BEFORE, OPEN_AFTER = "open before", "open after"
NEW, ENTERED_SCOPE, AGAIN = "new", "entered scope", "listed again"
LEFT_SCOPE, CHANGED, FAILED = "left scope", "status changed", "removal failed"
STILL_OPEN = "still open"
OPENED = (NEW, ENTERED_SCOPE, AGAIN)
ENDED = (REMOVED, VANISHED, LEFT_SCOPE)
WHAT = (*OPENED, FAILED, CHANGED, *ENDED)
# Other changes leave the number of open items alone.
_SIGNS = dict.fromkeys(OPENED, 1) | dict.fromkeys(ENDED, -1)


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
        ``n``, int64). The causes are ``open before``, those of `diff` that open or end an item, and ``open after``,
        whose ``n`` is 0. A removal that is verified after its item had vanished counts as ``removed``, and no longer
        as ``vanished``: if it vanished before the period, ``vanished`` is positive.

    Raises:
        MissingColumns: ``transitions`` lacks a column.
        InvalidArgument: ``b`` is before ``a``.

    >>> moves = {"prev_status": [None, "discovered"], "status": ["discovered", "removed"], "n": [2, 5]}
    >>> at = pd.to_datetime(["2026-03-02T09:00Z", "2026-03-03T09:00Z"])
    >>> transitions = pd.DataFrame(moves).assign(at=at, left_censored=[False, True])
    >>> moved = analysis.changes(transitions, pd.Timestamp("2026-03-01"), pd.Timestamp("2026-03-04"), open_before=9)
    >>> moved[moved["n"] != 0]
             cause  n  open
    0  open before  9     9
    1          new  2    11
    4      removed -5     6
    """
    needed = ("at", "prev_status", "status", "left_censored", "n")
    MissingColumns.check("changes", transitions, needed)
    if instant(b) < instant(a):
        raise InvalidArgument("invalid period: b is before a. Pass the earlier instant first")
    at = instants(transitions["at"])
    within = _classified(transitions[(at > instant(a)) & (at <= instant(b))], "prev_status", "status")
    totals = _totals(within.assign(before=within["prev_status"]), n="n").iloc[0]
    steps = [sign * int(totals[cause]) for cause, sign in _SIGNS.items()]
    table = pd.DataFrame({"cause": [OPEN_BEFORE, *_SIGNS, OPEN_AFTER], "n": [open_before, *steps, 0]})
    return table.assign(open=table["n"].cumsum())


def _classified(changed: pd.DataFrame, before: str, after: str) -> pd.DataFrame:
    """The changes that count, each with ``what`` happened; twice if an item was first observed when it had ended."""
    # Each combination is classified once: millions of changes have a few dozen.
    number, combinations = _combinations(changed[[before, after, "left_censored"]])
    was, now, left_censored = combinations
    what = _what(was.astype("str"), now.astype("str"), left_censored.astype("bool"))
    times = np.bincount(what.index, minlength=len(was))
    row = np.repeat(np.arange(len(changed)), times[number])
    is_second = np.diff(row, prepend=-1) == 0
    of_row = (np.cumsum(times) - times)[number[row]] + is_second
    table = changed if (times == 1).all() else changed.take(row)
    return table.assign(what=what.array.take(of_row))


def _combinations(table: pd.DataFrame) -> tuple[Ints, list["pd.Series[Any]"]]:
    """Number the distinct combinations of values: return each row's number, and the columns of the combinations."""
    codes, values = zip(*(pd.factorize(table[name], use_na_sentinel=False) for name in table), strict=True)
    shape = [max(1, len(distinct)) for distinct in values]
    flat: Ints = np.ravel_multi_index(codes, shape).astype("int64")
    number, cells = pd.factorize(flat)
    positions = np.unravel_index(cells, shape)
    return number, [pd.Series(distinct.take(at)) for distinct, at in zip(values, positions, strict=True)]


def _what(was: "pd.Series[Any]", now: "pd.Series[Any]", left_censored: "pd.Series[Any]") -> "pd.Series[Any]":
    """What happened in each change that counts, by its index; twice if its item was first observed when it had ended."""
    is_first = was.isna() & ~left_censored
    cases = {
        LEFT_SCOPE: now == UNKNOWN,
        REMOVED: now == REMOVED,
        VANISHED: now == VANISHED,
        NEW: is_first,
        ENTERED_SCOPE: was.isna() | (was == UNKNOWN),
        AGAIN: was.isin(CLOSED),
        FAILED: (was == PENDING_REMOVAL) & (now == DISCOVERED),
    }
    what = pd.Series(np.select([*cases.values()], [*cases], default=CHANGED), dtype="str")
    is_verified = (was == VANISHED) & (now == REMOVED)
    # Missing: it was not observed then.
    was_or_is_open = (was.notna() & is_open(was)) | (now.notna() & is_open(now))
    counts = (was_or_is_open | is_verified) & (was != now)
    came_and_went = is_first & now.isin(CLOSED)
    new = pd.Series(NEW, index=what.index[came_and_went], dtype="str")
    happened: pd.Series[Any] = pd.concat([new, what[counts | came_and_went]])
    return happened.sort_index(kind="stable")


def _totals(diff: pd.DataFrame, *, by: str | None = None, n: str | None = None) -> pd.DataFrame:
    """Items per kind of change (columns) and group (rows): what vanished, and was verified later, was removed."""
    names, group = group_codes(diff, by)
    what, before = diff["what"].astype("str"), diff["before"].astype("str")
    numbers: Ints = np.ones(len(diff), "int64") if n is None else diff[n].to_numpy("int64")
    cells = np.zeros((len(names), len(WHAT)), "int64")
    add_counts(cells, (group, column_codes(what, WHAT)), numbers)
    is_verified = ((what == REMOVED) & (before == VANISHED)).to_numpy()
    vanished = np.full(is_verified.sum(), WHAT.index(VANISHED))
    add_counts(cells, (group[is_verified], vanished), -numbers[is_verified])
    return pd.DataFrame(cells, index=pd.Index(names), columns=[*WHAT])


def diff(changed: pd.DataFrame) -> pd.DataFrame:
    """Classify the changes of items between two instants, so that they add up to the change in open items.

    Args:
        changed: One row per change: ``before`` (the status that the item had, text; missing: not observed before),
            ``after`` (its new status, text), ``left_censored`` (bool: already present when its user was first loaded),
            and columns that identify the item (``kind``, ``user_id``, ``key``, ``site``).

    Returns:
        The same columns, and ``what`` (text): ``new`` (first observed, also if it is gone by now), ``entered scope``
        (already open when its user was first loaded, or listed again by the service), ``listed again`` (removed or
        vanished before), ``removal failed`` (pending removal before, and discovered again), ``status changed`` (from one
        open status to another), ``removed`` (also if it had vanished, and is verified now), ``vanished`` (without a
        verified removal), or ``left scope`` (the service no longer lists the user).

        One row per change. An item that had already ended when it was first observed has two: ``new``, and ``removed``
        or ``vanished``. Other changes between two statuses that are not open do not count, nor does an item that was
        already removed when its user was first loaded.

    Raises:
        MissingColumns: ``changed`` lacks a column.

    >>> changes = {"before": [None, "discovered", None], "after": ["discovered", "vanished", "removed"]}
    >>> analysis.diff(pd.DataFrame(changes).assign(left_censored=False))["what"].tolist()
    ['new', 'vanished', 'new', 'removed']
    """
    MissingColumns.check("diff", changed, ("before", "after", "left_censored"))
    return _classified(changed, "before", "after")


def diff_counts(diff: pd.DataFrame, still_open: int) -> pd.DataFrame:
    """Count the changes between two instants by kind.

    Args:
        diff: A table as returned by `diff`. Needs ``before`` and ``what``.
        still_open: Number of items that are open at the later instant.

    Returns:
        Always nine rows, in this order: ``what`` (text): ``new``, ``entered scope``, ``listed again``,
        ``removal failed``, ``status changed``, ``removed``, ``vanished``, ``left scope``, ``still open``; ``n`` (int64).
        ``vanished`` is less those that were verified as removed afterwards, as in `changes`.

    Raises:
        MissingColumns: ``diff`` lacks a column.

    >>> changes = pd.DataFrame({"before": [None, None, "discovered"], "what": ["new", "new", "removed"]})
    >>> analysis.diff_counts(changes, 40).query("n > 0")
             what   n
    0         new   2
    5     removed   1
    8  still open  40
    """
    MissingColumns.check("diff_counts", diff, ("before", "what"))
    return pd.DataFrame({"what": [*WHAT, STILL_OPEN], "n": [*_totals(diff).iloc[0], still_open]})


def diff_by_site(diff: pd.DataFrame, open_before: pd.DataFrame) -> pd.DataFrame:
    """Count per site how many items were open before and after, and what happened in between.

    Args:
        diff: A table as returned by `diff`; needs ``site``, ``before`` and ``what``.
        open_before: The sites at the earlier instant, as returned by `counts`; needs ``site`` and ``open``.

    Returns:
        One row per site that has or had items, most open after first: ``site`` (text); ``open_before`` + ``new`` +
        ``entered scope`` + ``listed again`` - ``removed`` - ``vanished`` - ``left scope`` = ``open_after``; ``change``
        (``open_after`` less ``open_before``), ``removal failed`` and ``status changed`` (int64, items). ``vanished``
        is net, as in `changes`.

    Raises:
        MissingColumns: A table lacks a column.

    >>> changes = pd.DataFrame({"site": ["A", "A"], "before": [None, "discovered"], "after": ["discovered", "removed"]})
    >>> by_site = pd.DataFrame({"site": ["A"], "open": [4]})
    >>> table = analysis.diff_by_site(analysis.diff(changes.assign(left_censored=False)), by_site)
    >>> table[["open_before", "new", "removed", "open_after"]]
       open_before  new  removed  open_after
    0            4    1        1           4
    """
    MissingColumns.check("diff_by_site", diff, ("site", "before", "what"))
    MissingColumns.check("diff_by_site", open_before, ("site", "open"))
    first = open_before.assign(site=open_before["site"].astype("str")).set_index("site")["open"]
    happened = _totals(diff, by="site")
    sites = first.index.union(happened.index.astype("str")).rename("site")
    table = happened.reindex(sites, fill_value=0).rename_axis(columns=None)
    table.insert(0, "open_before", first.reindex(sites, fill_value=0))
    table["change"] = sum(sign * table[what] for what, sign in _SIGNS.items())
    table["open_after"] = table["open_before"] + table["change"]
    table = table.astype("int64").reset_index().astype({"site": "str"})
    table = table.sort_values(["open_after", "open_before", "site"], ascending=[False, False, True])
    columns = ["site", "open_before", *_SIGNS, "open_after", "change", FAILED, CHANGED]
    return table[columns].reset_index(drop=True)
