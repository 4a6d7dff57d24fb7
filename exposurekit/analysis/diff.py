"""What changed between two instants, and why the total moved. Never calls a removal what nobody verified."""

from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis.grouping import instant, instants
from exposurekit.analysis.statuses import CLOSED, UNKNOWN, VANISHED, is_open
from exposurekit.contract.types import REMOVED
from exposurekit.errors import InvalidArgument, MissingColumns

OPEN_BEFORE, OPEN_AFTER = "open before", "open after"
NEW, INTO_VIEW, AGAIN = "new", "came into view", "listed again"
OUT_OF_VIEW, CHANGED, UNCHANGED = "out of view", "status changed", "unchanged"
OPENED = (NEW, INTO_VIEW, AGAIN)
ENDED = (REMOVED, VANISHED, OUT_OF_VIEW)
WHAT = (*OPENED, CHANGED, *ENDED, UNCHANGED)


def changes(transitions: pd.DataFrame, a: datetime, b: datetime, *, open_before: int) -> pd.DataFrame:
    """Why the number of open things moved, after ``a`` and until ``b``: a waterfall.

    Args:
        transitions: One row a group of changes: ``at`` (when seen, UTC), ``prev_status`` (text; missing: seen for the
            first time), ``status`` (text), ``left_censored`` (bool: was there at the first look at its person),
            ``n`` (int64). Those of other times do not count.
        a: After this instant ...
        b: ... and until this one, itself included. Without a zone they are UTC.
        open_before: How many were open at ``a``.

    Returns:
        Eight rows, always these, in this order: ``cause`` (text), ``n`` (signed, int64, things), ``open`` (how many are
        then open: the running sum of ``n``, int64). Causes: ``open before``; ``new`` (first seen, and open);
        ``came into view`` (open at the first look at its person, or when the service lists the person again);
        ``listed again`` (was removed or vanished); ``removed``; ``vanished``; ``out of view`` (the service lists its
        person no longer); ``open after``, whose ``n`` is 0. What changes from one open status to another moves
        nothing; a thing that came and went counts as both.

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
        raise InvalidArgument("changes are asked for from an instant until a later one")
    at = instants(transitions["at"])
    within = transitions[(at > instant(a)) & (at <= instant(b))]
    n = within["n"].astype("int64").groupby(_cause_of_change(within)).sum()
    signs = dict.fromkeys(OPENED, 1) | dict.fromkeys(ENDED, -1)
    steps = [sign * int(n.get(cause, 0)) for cause, sign in signs.items()]
    table = pd.DataFrame({"cause": [OPEN_BEFORE, *signs, OPEN_AFTER], "n": [open_before, *steps, 0]})
    return table.assign(open=table["n"].cumsum())


def _cause_of_change(transitions: pd.DataFrame) -> NDArray[np.str_]:
    """Why each change moved the number of open things; empty where it did not."""
    before, after = transitions["prev_status"].astype("str"), transitions["status"].astype("str")
    was, now = is_open(before), is_open(after)
    opened, ended = now & ~was, was & ~now
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
    """What each thing that changed came to, between two instants: net, not step by step.

    Args:
        changed: One row a thing that changed in between: ``before`` (its status then; text, missing: not known),
            ``after`` (its status now, text), ``left_censored`` (bool: was there at the first look at its person), and
            whatever says which thing it is (``kind``, ``user_id``, ``key``, ``site``).

    Returns:
        The same rows and columns, and ``what`` (text), the first of these that holds:

        1. ``unchanged``: before and after are the same; it changed, and changed back
        2. ``out of view``: after is unknown, the service lists its person no longer
        3. ``came into view``: before is unknown; or the thing was not known, and was there at the first look at its
           person. Whatever it is now: a baseline is never new, and never removed
        4. ``removed``: after is removed
        5. ``vanished``: after is vanished; nobody verified a removal
        6. and of what is open after: ``new`` (not known before), ``listed again`` (before removed or vanished),
           ``status changed`` (open before).

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
    }
    what = np.select([np.asarray(case) for case in cases.values()], [*cases], default=CHANGED)
    return changed.assign(what=pd.Series(what, index=changed.index, dtype="str"))


def diff_counts(diff: pd.DataFrame, unchanged: int) -> pd.DataFrame:
    """How many things came to what, between two instants.

    Args:
        diff: As `diff` gives it. Needs ``what``.
        unchanged: How many things, known at both instants, did not change at all.

    Returns:
        Eight rows, always these, in this order: ``what`` (text): ``new``, ``came into view``, ``listed again``,
        ``status changed``, ``removed``, ``vanished``, ``out of view``, ``unchanged``; ``n`` (int64, things).

    Raises:
        MissingColumns: ``diff`` lacks a column.

    >>> analysis.diff_counts(pd.DataFrame({"what": ["new", "new", "removed"]}), 40).query("n > 0")
            what   n
    0        new   2
    4    removed   1
    7  unchanged  40
    """
    MissingColumns.check("diff_counts", diff.columns, ("what",))
    n = diff["what"].value_counts().reindex([*WHAT], fill_value=0).astype("int64")
    n[UNCHANGED] += unchanged
    return pd.DataFrame({"what": [*WHAT], "n": n.to_numpy()})
