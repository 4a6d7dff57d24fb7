"""Minutes of manual work: what a step takes, learned for each site from timed ticks, and what was spent."""

import math

import numpy as np
import pandas as pd

from exposurekit.analysis.group_codes import instants
from exposurekit.errors import InvalidArgument, MissingColumns

STEP_MINUTES = 2.0
# A step that only waits takes no minutes; one that then says what to do takes some.
_VERBS = (
    r"answer|call|check(?!\s+back)|choose|click|complete|confirm|contact|copy|e-?mail|enter|fill|follow|go|open|press|reply|request"
    "|search|select|send|sign|submit|type|upload|use|verify|write"
)
_THEN = rf"(?!.*(?:[,;.\n]|\b(?:and|then)\b)\s*(?:then\s+)?(?:{_VERBS})\b)"
WAITING = rf"(?is)^{_THEN}\s*(?:please\s+|then\s+)?(?:(?:wait|await)\b|(?:allow|come back|check back)\b.*\b(?:hour|day|week|month)s?\b)"
PAUSE_MINUTES = 30.0  # a longer time is a pause
CATCH_UP_MINUTES = 0.05  # a tick so soon after the last one records work that was done before
# What is known before anything was timed, in logarithms of minutes: how much ticks on a site differ, and sites from the
# default; and how many ticks and sites that counts for.
_WITHIN, _BETWEEN = 0.6**2, 0.5**2
_WITHIN_TICKS, _BETWEEN_SITES = 4, 2
_LEAST = 0.01  # variance between sites


def step_minutes(timed: pd.DataFrame, *, default: float = STEP_MINUTES) -> pd.DataFrame:
    """Estimate how many minutes a step takes on each site, from timed ticks.

    A site with few ticks has about the default, one with many their mean. The first tick of a visit says nothing about a
    step, since it includes opening the site, nor does a pause of more than 30 minutes, or a tick within three seconds of
    the last.

    Args:
        timed: A table as returned by `History.timed_steps`: ``site`` (text; the host of a page), ``minutes`` (of a step),
            ``marked_at`` (UTC). Steps that were ticked at once are one tick.
        default: Minutes per step that are assumed without ticks.

    Returns:
        One row per site with a tick that counts, by name: ``site``, ``ticks`` (that count, int64), ``minutes`` (of a step,
        float64).

    Raises:
        MissingColumns: ``timed`` lacks a column.
        InvalidArgument: ``default`` is not a positive number.

    Source: empirical Bayes estimates of normal means, on logarithms: Efron and Morris, J. Am. Stat. Assoc. 70 (1975), 311.

    >>> at = pd.date_range("2026-03-01T09:00Z", periods=31, freq="1min")
    >>> timed = pd.DataFrame({"site": "Seekfolk", "minutes": 1.0, "marked_at": at})
    >>> analysis.step_minutes(timed).round(1)
           site  ticks  minutes
    0  Seekfolk     30      1.0
    """
    MissingColumns.check("step_minutes", timed, ("site", "minutes", "marked_at"))
    if not (math.isfinite(default) and default > 0):
        raise InvalidArgument("invalid default: pass a positive number of minutes")
    ticks = _ticks(timed)
    logs = np.log(ticks["minutes"].to_numpy("float64"))
    sites = pd.DataFrame({"site": ticks["site"], "log": logs}).groupby("site")["log"]
    n, mean = sites.size().to_numpy("float64"), sites.mean().to_numpy("float64")
    squares = float(((logs - sites.transform("mean").to_numpy("float64")) ** 2).sum())
    within = (squares + _WITHIN_TICKS * _WITHIN) / (n.sum() - len(n) + _WITHIN_TICKS)
    # The mean of a lognormal distribution is above its median.
    centre = math.log(default) - within / 2
    excess = float(((mean - centre) ** 2 - within / np.maximum(n, 1)).sum())
    between = max((excess + _BETWEEN_SITES * _BETWEEN) / (len(n) + _BETWEEN_SITES), _LEAST)
    weight = between / (between + within / np.maximum(n, 1))
    minutes = np.exp(centre + weight * (mean - centre) + within / 2)
    table = pd.DataFrame({"site": sites.size().index.to_numpy(), "ticks": n, "minutes": minutes})
    return table.astype({"site": "str", "ticks": "int64", "minutes": "float64"})


def minutes_spent(timed: pd.DataFrame) -> tuple[float, int]:
    """Return the minutes that were spent without pauses, and the number of listings and pages that they were spent on.

    Args:
        timed: A table as returned by `History.timed_steps`.

    >>> timed = pd.DataFrame({"user_id": 1, "kind": "record", "key": 7, "minutes": [2.0, 1.5]})
    >>> analysis.minutes_spent(timed.assign(marked_at=pd.date_range("2026-03-01", periods=2, tz="UTC")))
    (3.5, 1)
    """
    total = timed.groupby("marked_at")["minutes"].transform("sum")
    worked = timed[total <= PAUSE_MINUTES]
    return float(worked["minutes"].sum()), len(worked[["user_id", "kind", "key"]].drop_duplicates())


def _ticks(timed: pd.DataFrame) -> pd.DataFrame:
    """The site and the minutes per step of each tick that follows another on its site."""
    rows = pd.DataFrame(
        {
            "site": timed["site"].astype("str").to_numpy(),
            "minutes": timed["minutes"].to_numpy("float64"),
            "at": instants(timed["marked_at"]),
        }
    ).dropna()
    ticks = (
        rows.groupby(["at", "site"])["minutes"].agg(["mean", "sum"]).reset_index().sort_values(["at", "site"])
    )
    gap = ticks["at"].diff().dt.total_seconds() / 60
    # A checklist saves what was ticked at once by state and note, one right after the other.
    follows = (ticks["site"] == ticks["site"].shift()) & gap.between(CATCH_UP_MINUTES, PAUSE_MINUTES)
    is_work = ticks["mean"].ge(CATCH_UP_MINUTES) & ticks["sum"].le(PAUSE_MINUTES)
    counted: pd.DataFrame = ticks.loc[follows & is_work, ["site", "mean"]]
    return counted.rename(columns={"mean": "minutes"})
