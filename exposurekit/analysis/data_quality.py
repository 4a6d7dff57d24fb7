"""Whether the numbers can be trusted: what an analyst said of findings, who was seen well, which sites look broken."""

from datetime import datetime
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.grouping import aware, instant, instants
from exposurekit.analysis.statuses import OTHER, VANISHED, is_open
from exposurekit.errors import InvalidArgument, MissingColumns

MINE, NOT_MINE, UNSURE = "mine", "not mine", "unsure"
UNLABELLED = "unlabelled"
NEVER = "never"
AGES = {"within a day": 1.0, "within a week": 7.0, "within a month": 30.0, "longer ago": np.inf}
OUTCOMES = ("whole", "partial", "failed", "missed", OTHER)
_DAY_S = 86_400
MANY, MOST = 5, 0.5
_HEALTH = (
    "site",
    "open",
    VANISHED,
    "vanished_at_once",
    "newest_at",
    "changed_at",
    "quiet_days",
    "is_doubtful",
)


def precision(records: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """What share of each site's findings are about the person, as far as somebody said.

    Args:
        records: One row a finding: ``site`` and ``label`` (``mine``, ``not mine``, ``unsure``; missing: nobody said),
            as `History.with_labels` gives them.
        level: Of the interval, between 0 and 1.

    Returns:
        One row a site, most labelled mine or not mine first, then by name: ``site`` (text), ``mine``, ``not mine``,
        ``unsure``, ``unlabelled`` (int64), ``precision`` (mine of mine and not mine, float64, 0 to 1; missing where
        there is none of either), ``low``, ``high`` (its interval). The figure is of what was labelled: whoever labels
        only what looks wrong will find a low one.

    Raises:
        MissingColumns: ``records`` lacks a column.
        InvalidArgument: ``level`` is not between 0 and 1.

    Source: the interval by Wilson, J. Am. Stat. Assoc. 22 (1927), 209.

    >>> records = pd.DataFrame({"site": "Seekfolk", "label": ["mine"] * 9 + ["not mine", None]})
    >>> analysis.precision(records)[["mine", "unlabelled", "precision", "low", "high"]].round(3)
       mine  unlabelled  precision    low   high
    0     9           1        0.9  0.596  0.982
    """
    MissingColumns.check("precision", records.columns, ("site", "label"))
    if not 0 < level < 1:
        raise InvalidArgument("level is between 0 and 1, such as 0.95")
    label = records["label"].astype("str").fillna(UNLABELLED)
    columns = [MINE, NOT_MINE, UNSURE, UNLABELLED]
    table = pd.crosstab(records["site"].astype("str"), label).reindex(columns=columns, fill_value=0)
    table = (
        table.astype("int64").rename_axis(index="site", columns=None).reset_index().astype({"site": "str"})
    )
    share = _wilson(table[MINE], table[MINE] + table[NOT_MINE], level)
    table = table.assign(**share)
    order = (-(table[MINE] + table[NOT_MINE])).sort_values(kind="stable").index
    return table.loc[order].reset_index(drop=True)


def coverage(people: pd.DataFrame, *, at: datetime) -> pd.DataFrame:
    """How long ago everybody was last seen well, and how the last look at them went.

    Args:
        people: One row a person, as `History.people` gives them: ``listed`` (bool), ``whole_at`` (when the last whole
            look began, UTC; missing: there was none), ``outcome`` (text: how the last look went). Whom the service no
            longer lists does not count.
        at: The instant to which time is counted. Without a zone it is UTC.

    Returns:
        Five rows, always these, in this order: ``last_seen_well`` (``within a day``, ``within a week``, ``within a
        month``, ``longer ago``, ``never``), and how many people by how the last look went: ``whole``, ``partial`` (a
        scan was running), ``failed``, ``missed`` (the list broke off before them), ``other`` (absent from the list
        once, or known from a webhook alone), ``people`` (their sum; all int64).

    Raises:
        MissingColumns: ``people`` lacks a column.

    >>> people = pd.DataFrame({"listed": True, "whole_at": pd.to_datetime([None, "2026-03-08T06:00Z"])})
    >>> table = analysis.coverage(people.assign(outcome=["failed", "whole"]), at=pd.Timestamp("2026-03-08T12:00Z"))
    >>> table.loc[table["people"] > 0, ["last_seen_well", "whole", "failed"]]
      last_seen_well  whole  failed
    0   within a day      1       0
    4          never      0       1
    """
    MissingColumns.check("coverage", people.columns, ("listed", "whole_at", "outcome"))
    known = people[people["listed"].astype("bool")]
    days = (instant(at) - instants(known["whole_at"])) / np.timedelta64(_DAY_S, "s")
    place = np.where(np.isnan(days), len(AGES), np.searchsorted([*AGES.values()], days))
    outcome = known["outcome"].astype("str")
    went = outcome.where(outcome.isin(OUTCOMES), OUTCOMES[-1])
    counts = pd.crosstab(place, went.to_numpy())
    table = counts.reindex(index=range(len(AGES) + 1), columns=[*OUTCOMES], fill_value=0).astype("int64")
    table.insert(0, "last_seen_well", pd.Series([*AGES, NEVER], dtype="str"))
    table = table.rename_axis(index=None, columns=None)
    return table.assign(people=table[[*OUTCOMES]].sum(axis=1))


def site_health(records: pd.DataFrame, *, at: datetime) -> pd.DataFrame:
    """Which sites look as if they could not be read, rather than as if people had left them.

    A listing that ends one day is a listing that ended; when half of a site's open ones vanish unverified in one look,
    the site, or its reader, has more likely changed.

    Args:
        records: As `History.records` gives them: ``site``, ``status``, ``first_seen_at``, ``changed_at`` (UTC).
        at: The instant to which days are counted.

    Returns:
        One row a site, doubtful ones first, then by name: ``site`` (text), ``open``, ``vanished`` (records, int64),
        ``vanished_at_once`` (the most that vanished at one instant, int64), ``newest_at`` (when a record was last seen for the
        first time), ``changed_at`` (when anything last changed; datetime64[us, UTC]), ``quiet_days`` (since then,
        float64), ``is_doubtful`` (bool: at some instant five or more vanished, and these were half or more of what was
        open until then).

    Raises:
        MissingColumns: ``records`` lacks a column.

    >>> bool(analysis.site_health(history.records(), at=pd.Timestamp.now(tz="UTC"))["is_doubtful"].any())
    False
    """
    MissingColumns.check("site_health", records.columns, ("site", "status", "first_seen_at", "changed_at"))
    rows = pd.DataFrame(
        {
            "site": records["site"].astype("str").to_numpy(),
            "open": is_open(records["status"]),
            VANISHED: (records["status"].astype("str") == VANISHED).to_numpy(),
            "newest_at": aware(instants(records["first_seen_at"])),
            "changed_at": aware(instants(records["changed_at"])),
        }
    )
    found = rows.groupby("site")
    table = found.agg({"open": "sum", VANISHED: "sum", "newest_at": "max", "changed_at": "max"})
    table = table.join(_together(rows)).astype(
        {"open": "int64", VANISHED: "int64", "vanished_at_once": "int64"}
    )
    table["quiet_days"] = (instant(at) - instants(table["changed_at"])) / np.timedelta64(_DAY_S, "s")
    table = table.reset_index().astype({"site": "str"})[[*_HEALTH]]
    return table.sort_values(["is_doubtful", "site"], ascending=[False, True], ignore_index=True)


def _together(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each site: the most that vanished at one instant, and whether that ever was too much of what was open then."""
    came = rows[["site"]].assign(at=rows["newest_at"], n=1, gone=0)
    went = rows[["site"]].assign(at=rows["changed_at"], n=-1, gone=rows[VANISHED].astype("int64"))
    moves = pd.concat([came, went[~rows["open"]]]).groupby(["site", "at"]).sum()
    before = moves["n"].groupby("site").cumsum() - moves["n"]
    much = (moves["gone"] >= MANY) & (moves["gone"] >= MOST * before)
    return pd.DataFrame({"vanished_at_once": moves["gone"], "is_doubtful": much}).groupby("site").max()


def _wilson(hits: "pd.Series[Any]", of: "pd.Series[Any]", level: float) -> dict[str, Any]:
    """A share and its interval; missing where there is nothing to share."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    n = of.where(of > 0).astype("float64")
    share = hits / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # Rounding may carry a limit a hair past the share where that is 0 or 1.
    low, high = np.minimum(middle - half, share), np.maximum(middle + half, share)
    return {"precision": share, "low": low.clip(lower=0), "high": high.clip(upper=1)}
