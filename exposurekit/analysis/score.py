"""One number for how exposed a person is, and why it moved. A sum of weights that stand here, and that anybody may change."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.diff import AGAIN, CHANGED, INTO_VIEW, NEW, OUT_OF_VIEW
from exposurekit.analysis.statuses import OTHER, VANISHED, is_open
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED, STATUSES
from exposurekit.errors import InvalidArgument, MissingColumns

PAGE = "page"
# Points for each open listing by its status, and for each page. Not measured: a choice, which `weights` replaces.
WEIGHTS: Mapping[str, float] = {DISCOVERED: 3.0, PENDING_REMOVAL: 2.0, OTHER: 3.0, PAGE: 1.0}
SCORE_BEFORE, SCORE_AFTER = "score before", "score after"
CAUSES = (NEW, INTO_VIEW, AGAIN, CHANGED, REMOVED, VANISHED, OUT_OF_VIEW)


def score(
    records: pd.DataFrame, links: pd.DataFrame, *, weights: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """How exposed each person is: points for every open listing, by its status, and for every page.

    ``score = 3 x discovered + 2 x pending removal + 3 x other + 1 x pages``, with the weights as they stand in
    ``analysis.WEIGHTS``. They are a choice: what is removed, vanished or unknown has no points.

    Args:
        records: As `Exposure.records` or `History.records` give them. Needs ``user_id``, ``status``.
        links: As `Exposure.links` or `History.links` give them. Needs ``user_id``; where it has a ``standing``, pages
            that are no longer listed do not count.
        weights: Others for some of ``discovered``, ``pending removal``, ``other``, ``page``: points, zero or more.

    Returns:
        One row a person of whom there is a listing or a page, most points first, then by id: ``user_id`` (int64),
        ``listings`` (open, int64), ``pages`` (int64), ``of_listings``, ``of_pages``, ``score`` (points, float64). The
        score of a fleet is the sum.

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: A weight is negative, without end, or of nothing that is known.

    >>> table = analysis.score(exposure.records(), exposure.links())
    >>> bool((table["score"] == table["of_listings"] + table["of_pages"]).all())
    True
    """
    MissingColumns.check("score", records.columns, ("user_id", "status"))
    MissingColumns.check("score", links.columns, ("user_id",))
    weighed = check_weights(weights)
    is_listed = is_open(links["standing"].astype("str")) if "standing" in links else np.ones(len(links), bool)
    of_one = _points(records["status"].astype("str"), weighed, page=False)
    listings = pd.DataFrame({"user_id": records["user_id"], "points": of_one})
    found = (
        listings[is_open(records["status"].astype("str"))].groupby("user_id")["points"].agg(["size", "sum"])
    )
    pages = links.loc[is_listed, "user_id"].value_counts()
    people = pd.Index(sorted({*records["user_id"], *links["user_id"]}), dtype="int64", name="user_id")
    table = pd.DataFrame(index=people)
    table["listings"] = found["size"].reindex(people, fill_value=0).astype("int64")
    table["pages"] = pages.reindex(people, fill_value=0).astype("int64")
    table["of_listings"] = found["sum"].reindex(people, fill_value=0.0).astype("float64")
    table["of_pages"] = table["pages"] * weighed[PAGE]
    table["score"] = table["of_listings"] + table["of_pages"]
    return table.sort_values("score", ascending=False, kind="stable").reset_index()


def score_changes(
    records: pd.DataFrame,
    links: pd.DataFrame,
    *,
    score_before: float,
    weights: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """Why a score moved between two instants: which part each cause has.

    Args:
        records: What became of records, as `diff` gives it. Needs ``before``, ``after``, ``what``.
        links: The same of links.
        score_before: Points at the first instant.
        weights: As of `score`.

    Returns:
        Nine rows, always these, in this order: ``cause`` (text), ``n`` (points, signed, float64), ``score`` (points
        by then: the running sum, float64). Causes: ``score before``; ``new``; ``came into view``; ``listed again``;
        ``status changed`` (from one open status to another); ``removed``; ``vanished``; ``out of view``;
        ``score after``, whose ``n`` is 0.

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: As of `score`.

    >>> moved = pd.DataFrame({"before": ["discovered"], "after": ["removed"], "what": ["removed"]})
    >>> table = analysis.score_changes(moved, moved.head(0), score_before=9)
    >>> table.query("n != 0")
              cause    n  score
    0  score before  9.0    9.0
    5       removed -3.0    6.0
    """
    weighed = check_weights(weights)
    moved = dict.fromkeys(CAUSES, 0.0)
    for things, page in ((records, False), (links, True)):
        MissingColumns.check("score_changes", things.columns, ("before", "after", "what"))
        after, before = (
            _points(things[side].astype("str"), weighed, page=page) for side in ("after", "before")
        )
        for cause, points in (after - before).groupby(things["what"].astype("str")).sum().items():
            if cause in moved:  # what came back to where it was moved nothing
                moved[str(cause)] += float(points)
    table = pd.DataFrame(
        {"cause": [SCORE_BEFORE, *moved, SCORE_AFTER], "n": [score_before, *moved.values(), 0.0]}
    )
    table = table.astype({"n": "float64"})
    return table.assign(score=table["n"].cumsum())


def check_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """All weights: those that are given, and for the rest the usual ones.

    Raises:
        InvalidArgument: One is negative, without end, or of nothing that is known.

    >>> from exposurekit.analysis.score import check_weights
    >>> check_weights({"page": 0})["page"]
    0.0
    """
    given = dict(weights or {})
    if strange := sorted(map(str, given.keys() - WEIGHTS.keys())):
        raise InvalidArgument(f"There are weights for {', '.join(WEIGHTS)}; not for {', '.join(strange)}")
    weighed = {name: float(points) for name, points in (dict(WEIGHTS) | given).items()}
    if not all(0 <= points < np.inf for points in weighed.values()):
        raise InvalidArgument("A weight is a number of points, zero or more")
    return weighed


def _points(status: "pd.Series[Any]", weights: Mapping[str, float], *, page: bool) -> "pd.Series[Any]":
    """Of each thing while it is open: of a listing by its status, of a page always the same."""
    if page:
        points = pd.Series(weights[PAGE], index=status.index)
    else:
        points = status.map({name: weights[name] for name in STATUSES if name in weights}).astype("float64")
    return points.fillna(weights[OTHER]).where(is_open(status), 0.0)
