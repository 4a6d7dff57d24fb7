"""Data quality: precision of labelled listings, coverage of users, people with stale data, and sites that look broken."""

from datetime import datetime
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.group_codes import UTC_INSTANT, instant, instants, utc_index
from exposurekit.analysis.statuses import OTHER, VANISHED, is_open
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.frames.arrow import texts

MINE, NOT_MINE, UNSURE = "mine", "not mine", "unsure"
UNLABELLED = "unlabelled"
NEVER = "never"
AGES = {"within a day": 1.0, "within a week": 7.0, "within a month": 30.0, "longer ago": np.inf}
WHOLE = "whole"  # the outcome of a complete load
OUTCOMES = (WHOLE, "partial", "failed", "missed", OTHER)
_DAY_S = 86_400
_SKEW_DAYS = 1  # by which clocks of several machines may differ
DOUBTFUL_MIN, DOUBTFUL_SHARE = 5, 0.5  # from these on, a site whose listings vanish together is doubtful
_HEALTH = (
    *("site", "open", VANISHED, "vanished_at_once", "newest_at", "changed_at", "quiet_days", "is_doubtful"),
)


def precision(records: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Estimate the precision of each site: the share of labelled listings that belong to the user.

    Args:
        records: One row per listing: ``site`` and ``label`` (``mine``, ``not mine``, ``unsure``; missing: unlabelled).
        level: Confidence level of the interval, between 0 and 1.

    Returns:
        One row per site, most labels ``mine`` or ``not mine`` first, then by name: ``site`` (text), ``mine``,
        ``not mine``, ``unsure``, ``unlabelled`` (int64), ``precision`` (``mine`` divided by ``mine`` plus ``not mine``,
        float64, 0 to 1; missing without either), ``low``, ``high`` (its interval). The estimate describes the labelled
        sample: if you label only suspicious listings, it is too low.

    Raises:
        MissingColumns: ``records`` lacks a column.
        InvalidArgument: ``level`` is not between 0 and 1.

    Source: Wilson's score interval, J. Am. Stat. Assoc. 22 (1927), 209.

    >>> records = pd.DataFrame({"site": "Seekfolk", "label": ["mine"] * 9 + ["not mine", None]})
    >>> analysis.precision(records)[["mine", "unlabelled", "precision", "low", "high"]].round(3)
       mine  unlabelled  precision    low   high
    0     9           1        0.9  0.596  0.982
    """
    MissingColumns.check("precision", records, ("site", "label"))
    if not 0 < level < 1:
        raise InvalidArgument("invalid level: it must be between 0 and 1, such as 0.95")
    label = records["label"].astype("str").fillna(UNLABELLED)
    columns = [MINE, NOT_MINE, UNSURE, UNLABELLED]
    table = pd.crosstab(texts(records["site"]), label).reindex(columns=columns, fill_value=0)
    table = table.astype("int64").rename_axis(index="site", columns=None).reset_index()
    table = table.astype({"site": "str"})
    n = table[MINE] + table[NOT_MINE]
    table = table.assign(**_wilson(table[MINE], n, level))
    table = table.loc[(-n).sort_values(kind="stable").index].reset_index(drop=True)
    table.attrs["level"] = level  # for the chart's labels
    return table


def coverage(people: pd.DataFrame, *, at: datetime) -> pd.DataFrame:
    """Count people by the time since their last complete load and by the outcome of their last load.

    Args:
        people: A table as returned by `History.people()`; one row per person: ``listed`` (bool), ``last_complete_at`` (start of
            the last complete load, UTC; missing: none), ``outcome`` (text: outcome of the last load). People whom the
            service no longer lists do not count.
        at: The instant from which to count back. UTC if it has no time zone.

    Returns:
        Always five rows, in this order: ``last_complete_load`` (time since the last complete load: ``within a day``,
        ``within a week``, ``within a month``, ``longer ago``, ``never``; ``longer ago`` also if it is dated more than a
        day after ``at``, because a clock was ahead: its time is not known), then people by the outcome of their last load:
        ``whole`` (complete), ``partial`` (a scan was running), ``failed``, ``missed`` (the user list ended before
        them), ``other`` (missing from one user list, known only from a webhook, or dated before an earlier load), and ``people`` (their sum; all
        int64).

    Raises:
        MissingColumns: ``people`` lacks a column.

    >>> people = pd.DataFrame({"listed": True, "last_complete_at": pd.to_datetime([None, "2026-03-08T06:00Z"])})
    >>> table = analysis.coverage(people.assign(outcome=["failed", "whole"]), at=pd.Timestamp("2026-03-08T12:00Z"))
    >>> table.loc[table["people"] > 0, ["last_complete_load", "whole", "failed"]]
      last_complete_load  whole  failed
    0   within a day      1       0
    4          never      0       1
    """
    MissingColumns.check("coverage", people, ("listed", "last_complete_at", "outcome"))
    listed = people[people["listed"].astype("bool")]
    days = (instant(at) - instants(listed["last_complete_at"])) / np.timedelta64(_DAY_S, "s")
    days = np.where(days < -_SKEW_DAYS, np.inf, days)
    age_row = np.where(np.isnan(days), len(AGES), np.searchsorted([*AGES.values()], days))
    outcome = listed["outcome"].astype("str")
    outcome = outcome.where(outcome.isin(OUTCOMES), OUTCOMES[-1])
    counts = pd.crosstab(age_row, outcome.to_numpy())
    table = counts.reindex(index=range(len(AGES) + 1), columns=[*OUTCOMES], fill_value=0).astype("int64")
    table.insert(0, "last_complete_load", pd.Series([*AGES, NEVER], dtype="str"))
    table = table.rename_axis(index=None, columns=None)
    return table.assign(people=table[[*OUTCOMES]].sum(axis=1))


def site_health(records: pd.DataFrame, *, at: datetime) -> pd.DataFrame:
    """Find sites that probably cannot be parsed any more: many of their listings vanished in one run.

    Single listings end all the time. If half of a site's open listings vanish unverified in one run, the site or its
    definition has more likely changed.

    Args:
        records: A table as returned by `History.records()`: ``site``, ``status``, ``first_seen_at``, ``changed_at``
            (UTC).
        at: The instant to which days are counted.

    Returns:
        One row per site, doubtful ones first, then by name: ``site`` (text), ``open``, ``vanished`` (records, int64),
        ``vanished_at_once`` (most records that vanished at one instant, int64), ``newest_at`` (first observation of the newest
        record), ``changed_at`` (last change of any record; datetime64[us, UTC]), ``quiet_days`` (whole days since then,
        float64), ``is_doubtful`` (bool: five or more records vanished at one instant, and they were at least half of
        the open ones).

    Raises:
        MissingColumns: ``records`` lacks a column.

    >>> bool(analysis.site_health(history.records(), at=pd.Timestamp.now(tz="UTC"))["is_doubtful"].any())
    False
    """
    MissingColumns.check("site_health", records, ("site", "status", "first_seen_at", "changed_at"))
    rows = pd.DataFrame(
        {
            "site": records["site"].astype("str").to_numpy(),
            "open": is_open(records["status"]),
            VANISHED: (records["status"].astype("str") == VANISHED).to_numpy(),
            "newest_at": utc_index(instants(records["first_seen_at"])),
            "changed_at": utc_index(instants(records["changed_at"])),
        }
    )
    sums = {"open": "sum", VANISHED: "sum", "newest_at": "max", "changed_at": "max"}
    counts = dict.fromkeys(("open", VANISHED, "vanished_at_once"), "int64")
    table = rows.groupby("site").agg(sums).join(_largest_drops(rows)).astype(counts)
    days = (instant(at) - instants(table["changed_at"])) / np.timedelta64(_DAY_S, "s")
    table["quiet_days"] = np.maximum(np.floor(days), 0)
    table = table.reset_index().astype({"site": "str"})[[*_HEALTH]]
    return table.sort_values(["is_doubtful", "site"], ascending=[False, True], ignore_index=True)


def _largest_drops(rows: pd.DataFrame) -> pd.DataFrame:
    """For each site, the most records that vanished at one instant, and whether any drop was doubtful."""
    added = rows[["site"]].assign(at=rows["newest_at"], n=1, vanished=0)
    ended = rows[["site"]].assign(at=rows["changed_at"], n=-1, vanished=rows[VANISHED].astype("int64"))
    steps = pd.concat([added, ended[~rows["open"]]]).groupby(["site", "at"]).sum()
    open_before = steps["n"].groupby("site").cumsum() - steps["n"]
    is_doubtful = (steps["vanished"] >= DOUBTFUL_MIN) & (steps["vanished"] >= DOUBTFUL_SHARE * open_before)
    drops = pd.DataFrame({"vanished_at_once": steps["vanished"], "is_doubtful": is_doubtful})
    return drops.groupby("site").max()


def _wilson(hits: "pd.Series[Any]", totals: "pd.Series[Any]", level: float) -> dict[str, Any]:
    """A share and its Wilson interval; missing if the total is 0."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    n = totals.where(totals > 0).astype("float64")
    share = hits / n
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # Rounding may push a limit just past a share of 0 or 1.
    low, high = np.minimum(middle - half, share), np.maximum(middle + half, share)
    return {"precision": share, "low": low.clip(lower=0), "high": high.clip(upper=1)}


def stale(people: pd.DataFrame, *, since: datetime, until: datetime | None = None) -> pd.DataFrame:
    """List the people without a complete load since some instant.

    A complete load after ``until`` was made by a clock that was ahead. When it was is not known: it counts unless a
    later load of the person did not.

    Args:
        people: One row per person: ``user_id`` (int64), ``listed`` (bool: the service still lists the person),
            ``last_complete_at`` (start of the last complete load, UTC; missing: none), ``outcome`` and ``reason`` (text: how
            the last load of the person ended, and why).
        since: People with a complete load at or after this instant are left out.
        until: The instant to which days are counted; default: ``since``, and then no clock was ahead.

    Returns:
        One row per person whom the service still lists, those without a known time first, then longest ago, then by
        ``user_id``: ``user_id`` (int64), ``last_complete_at`` (datetime64[us, UTC]; missing: never), ``days`` (since
        then; float64, missing: never, or the clock was ahead), ``outcome``, ``reason`` (text).

    Raises:
        MissingColumns: ``people`` lacks a column.

    >>> reasons = ["", "no answer in time", "a scan is running"]
    >>> people = pd.DataFrame({"user_id": [1, 2, 3], "outcome": ["whole", "failed", "partial"], "reason": reasons})
    >>> last_complete_at = pd.to_datetime(["2026-03-08T06:00Z", "2026-03-01T06:00Z", None])
    >>> people = people.assign(listed=True, last_complete_at=last_complete_at)
    >>> analysis.stale(people, since=pd.Timestamp("2026-03-05T06:00Z"))[["user_id", "days", "reason"]]
       user_id  days             reason
    0        3   NaN  a scan is running
    1        2   4.0  no answer in time
    """
    MissingColumns.check("stale", people, ("user_id", "listed", "last_complete_at", "outcome", "reason"))
    last_complete_at = instants(people["last_complete_at"])
    is_ahead = np.zeros(len(people), "bool") if until is None else last_complete_at > instant(until)
    is_outdated = is_ahead & (people["outcome"].astype("str") != WHOLE).to_numpy("bool")
    is_stale = people["listed"].to_numpy("bool") & (
        np.isnat(last_complete_at) | (last_complete_at < instant(since)) | is_outdated
    )
    days = (instant(until or since) - last_complete_at) / np.timedelta64(_DAY_S, "s")
    table = pd.DataFrame(
        {
            "user_id": people["user_id"].astype("int64"),
            "last_complete_at": pd.Series(utc_index(last_complete_at), index=people.index, dtype=UTC_INSTANT),
            "days": np.where(is_ahead, np.nan, days),
            "outcome": people["outcome"].astype("str"),
            "reason": people["reason"].astype("str"),
        }
    )
    ordered = table.assign(has_days=table["days"].notna())[is_stale].sort_values(
        ["has_days", "last_complete_at", "user_id"], na_position="first", ignore_index=True
    )
    return ordered.drop(columns="has_days")
