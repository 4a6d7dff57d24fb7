"""Exposure score: a weighted sum of a person's open listings and pages, and the causes of its changes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.diff import AGAIN, CHANGED, ENTERED_SCOPE, FAILED, LEFT_SCOPE, NEW, diff
from exposurekit.analysis.statuses import OTHER, VANISHED, is_open
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED, STATUSES
from exposurekit.errors import InvalidArgument, MissingColumns

PAGE = "page"
# Points per open listing by its status, and per page. A convention, not a measurement; `weights` overrides it.
WEIGHTS: Mapping[str, float] = {DISCOVERED: 3.0, PENDING_REMOVAL: 2.0, OTHER: 3.0, PAGE: 1.0}
SCORE_BEFORE, SCORE_AFTER = "score before", "score after"
CAUSES = (NEW, ENTERED_SCOPE, AGAIN, FAILED, CHANGED, REMOVED, VANISHED, LEFT_SCOPE)
_ITEM = {"user_id", "key", "left_censored"}  # columns that name an item


def score(
    records: pd.DataFrame, links: pd.DataFrame, *, weights: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """Score the exposure of each person: points per open listing, by status, and per page.

    ``score = 3 x discovered + 2 x pending removal + 3 x other + 1 x pages``, with the weights of ``analysis.WEIGHTS``.
    A listing without a status counts as ``other``. Removed, vanished and unknown listings have no points.

    Args:
        records: A table as returned by `Exposure.records()` or `History.records()`. Needs ``user_id``, ``status``.
        links: A table as returned by `Exposure.links()` or `History.links()`. Needs ``user_id``. If it has a column
            ``presence``, pages that are no longer listed do not count.
        weights: Overrides for ``discovered``, ``pending removal``, ``other``, ``page``: points, zero or more.

    Returns:
        One row per person with a listing or a page, most points first, then by id: ``user_id`` (int64), ``listings``
        (open, int64), ``pages`` (int64), ``of_listings``, ``of_pages``, ``score`` (points, float64). Sum ``score`` to
        get the score of all people.

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: A weight is negative, infinite, or has an unknown name.

    >>> table = analysis.score(exposure.records(), exposure.links())
    >>> bool((table["score"] == table["of_listings"] + table["of_pages"]).all())
    True
    """
    MissingColumns.check("score", records, ("user_id", "status"))
    MissingColumns.check("score", links, ("user_id",))
    all_weights = check_weights(weights)
    is_listed = is_open(links["presence"].astype("str")) if "presence" in links else np.ones(len(links), bool)
    points = _points(records["status"], all_weights, page=False)
    listings = pd.DataFrame({"user_id": records["user_id"], "points": points})
    open_listings = listings[is_open(records["status"])]
    totals = open_listings.groupby("user_id")["points"].agg(["size", "sum"])
    pages = links.loc[is_listed, "user_id"].value_counts()
    user_ids = pd.concat([records["user_id"], links["user_id"]]).astype("int64").unique()
    people = pd.Index(np.sort(user_ids), name="user_id")
    table = pd.DataFrame(index=people)
    table["listings"] = totals["size"].reindex(people, fill_value=0).astype("int64")
    table["pages"] = pages.reindex(people, fill_value=0).astype("int64")
    table["of_listings"] = totals["sum"].reindex(people, fill_value=0.0).astype("float64")
    table["of_pages"] = table["pages"] * all_weights[PAGE]
    table["score"] = table["of_listings"] + table["of_pages"]
    return table.sort_values("score", ascending=False, kind="stable").reset_index()


def score_changes(
    records: pd.DataFrame,
    links: pd.DataFrame,
    *,
    score_before: float,
    weights: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Explain the change of a score between two instants, as a waterfall of causes.

    Args:
        records: Changes of records, as returned by `diff`. Needs ``before``, ``after``, ``what``. If it names the items
            (``user_id``, ``key``, ``left_censored``), several changes of one item count as one, from its first status
            to its last: a listing found and removed in between changes no score. With ``n``, each row stands for so
            many items.
        links: Changes of links, likewise.
        score_before: Points at the first instant.
        weights: As in `score`.

    Returns:
        Always ten rows, in this order: ``cause`` (text), ``points`` (signed), ``score`` (running sum; both int64, or
        float64 if a weight is not whole). Causes: ``score before``; ``new``; ``entered scope``; ``listed again``; ``removal failed``; ``status changed`` (from one
        open status to another); ``removed``; ``vanished``; ``left scope``; ``score after``, whose ``points`` are 0.

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: As for `score`.

    >>> moved = pd.DataFrame({"before": ["discovered"], "after": ["removed"], "what": ["removed"]})
    >>> table = analysis.score_changes(moved, moved.head(0), score_before=9)
    >>> table.query("points != 0")
              cause  points  score
    0  score before       9      9
    6       removed      -3      6
    """
    all_weights = check_weights(weights)
    effects = dict.fromkeys(CAUSES, 0.0)
    for changes, page in ((records, False), (links, True)):
        MissingColumns.check("score_changes", changes, ("before", "after", "what"))
        items = _first_to_last(changes)
        sides = (items[side].astype("str") for side in ("after", "before"))  # missing: not observed then
        after, before = (_points(one, all_weights, page=page).where(one.notna(), 0.0) for one in sides)
        effect = (after - before) * items.get("n", 1)
        for cause, points in effect.groupby(items["what"].astype("str")).sum().items():
            if cause in effects:  # unchanged items have no effect
                effects[str(cause)] += float(points)
    table = pd.DataFrame(
        {"cause": [SCORE_BEFORE, *effects, SCORE_AFTER], "points": [score_before, *effects.values(), 0.0]}
    )
    is_whole = float(score_before).is_integer() and all(map(float.is_integer, all_weights.values()))
    table = table.astype({"points": "int64" if is_whole else "float64"})
    return table.assign(score=table["points"].cumsum())


def total_score(
    records: pd.DataFrame, links: pd.DataFrame, *, weights: Mapping[str, float] | None = None
) -> float:
    """Return the sum of all people's scores from how many items went from which status to which, ever.

    Args:
        records: ``prev_status`` (missing: observed for the first time), ``status`` and ``n``, of records.
        links: Likewise, of links.
        weights: As in `score`.

    Returns:
        Points.

    Raises:
        InvalidArgument: As for `score`.

    >>> moves = pd.DataFrame({"prev_status": [None, "discovered"], "status": ["discovered", "removed"], "n": [5, 2]})
    >>> total_score(moves, moves.head(0))
    9.0
    """
    all_weights, total = check_weights(weights), 0.0
    for transitions, page in ((records, False), (links, True)):
        for side, sign in (("status", 1), ("prev_status", -1)):
            statuses = transitions[side].astype("str")
            points = _points(statuses, all_weights, page=page).where(statuses.notna(), 0.0)
            total += sign * float((points * transitions["n"]).sum())
    return total


def _first_to_last(changes: pd.DataFrame) -> pd.DataFrame:
    """Merge each item's changes into one, from its first status to its last, if the table names items."""
    if not {*changes.columns} >= _ITEM:
        return changes
    first, last = (changes.drop_duplicates(["user_id", "key"], keep=end) for end in ("first", "last"))
    return diff(first.assign(after=last["after"].to_numpy()))


def check_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Return `WEIGHTS` with these overrides, or raise `InvalidArgument`."""
    overrides = dict(weights or {})
    if unknown := sorted(map(str, overrides.keys() - WEIGHTS.keys())):
        raise InvalidArgument(f"unknown weights: {', '.join(unknown)}. Use {', '.join(WEIGHTS)}")
    all_weights = {name: float(points) for name, points in (dict(WEIGHTS) | overrides).items()}
    if not all(0 <= points < np.inf for points in all_weights.values()):
        raise InvalidArgument("invalid weight: pass a finite number of points, zero or more")
    return all_weights


def _points(status: "pd.Series[Any]", weights: Mapping[str, float], *, page: bool) -> "pd.Series[Any]":
    """The points of each item while it is open: by status for a listing, constant for a page."""
    if page:
        points = pd.Series(weights[PAGE], index=status.index)
    else:
        points = status.map({name: weights[name] for name in STATUSES if name in weights}).astype("float64")
    return points.fillna(weights[OTHER]).where(is_open(status), 0.0)
