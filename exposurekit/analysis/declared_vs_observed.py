"""Declared against observed: which sites take longer to remove listings than they, or their owners, declare."""

from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.group_codes import instants
from exposurekit.analysis.statuses import UNKNOWN, VANISHED
from exposurekit.analysis.survival import ENTERED, FIRST_REMOVED, MIN_N, OPEN, Floats, time_to_removal
from exposurekit.contract.types import REMOVED
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.frames.arrow import categories

# A removal is verified by absences on two days, the first of which may be sought up to a day after it.
ALLOWANCE_DAYS = 2.0
FALSE_DISCOVERY_RATE = 0.05
REQUEST_COLUMNS = (
    "site",
    "requested_after",
    "requested_at",
    "ended_after",
    "ended_at",
    "end",
    "observed_until",
)
_TIMES = (
    *("site", "n", "left_out", REMOVED, "median_days", "median_low", "median_high", "never"),
    "followed_days",
)
_COUNTS = ("n", "left_out", REMOVED, "due", "overdue")
_FLOWS = (FIRST_REMOVED, REMOVED, VANISHED, UNKNOWN, OPEN, ENTERED)
_DAY = np.timedelta64(1, "D")


def declared_vs_observed(
    requests: pd.DataFrame,
    declared: pd.DataFrame,
    *,
    allowance_days: float = ALLOWANCE_DAYS,
    false_discovery_rate: float = FALSE_DISCOVERY_RATE,
    level: float = 0.95,
) -> pd.DataFrame:
    """Compare the median days from a removal request to its verified removal with the days that each site declares.

    A site takes longer than it declares if significantly more than half of its due requests were still pending after
    the declared days and the allowance (sign test). A request is due once it was observed for longer than that, so a
    recent one counts for neither side. A listing that vanished in between, or that a run could have seen and did not,
    counts as on time.

    Args:
        requests: A table as returned by `History.removal_requests`; one row per request: ``site``; ``requested_after``
            and ``requested_at`` (UTC: the request was made between these two observations; ``requested_after`` is missing
            if it is older than the first), ``ended_after`` and ``ended_at`` (likewise its end), ``end`` (the next status
            of the record; missing: still pending), ``observed_until`` (the last observation of its person).
        declared: One row per site: ``site`` and ``declared_days`` (days). Case does not matter. See
            `History.declare_days`.
        allowance_days: Days that the service may take to verify a removal, which are not the site's.
        false_discovery_rate: The expected share of sites in ``takes_longer`` that in truth do not, at most.
        level: Confidence level of the median's interval, between 0 and 1.

    Returns:
        One row per site of either table, those that take longer first, then the least ``q_value``, then by name: ``site``
        (text), ``declared_days`` (Float64; missing: none), ``n`` (requests that were observed from their start),
        ``left_out`` (older ones), ``removed`` (int64), ``median_days``, ``median_low``, ``median_high`` (Float64, days from
        request to verified removal, as in `time_to_removal`; missing with fewer than five requests), ``never`` (float64),
        ``followed_days`` (Int64), ``due`` (requests that were observed for longer than the declared days and the
        allowance), ``overdue`` (of these, still pending then; int64), ``p_value`` (Float64; of ``overdue`` or more if half
        of the removals are on time; missing with fewer than five ``due``), ``q_value`` (Float64; adjusted for the number of
        sites), ``takes_longer`` (boolean; missing: not tested).

    Requests are taken as independent. Where a site removes many listings at once, they say less than their number. Days
    that a request waits for a confirmation by a person are counted as the site's.

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: ``allowance_days`` is negative, or ``false_discovery_rate`` or ``level`` is not between 0 and 1.

    Source: sign test of the median (Conover, Practical Nonparametric Statistics, 3rd ed., 3.4). Benjamini and Hochberg,
    J. R. Stat. Soc. B 57 (1995), 289.

    >>> days = pd.to_datetime(["2026-03-01", "2026-03-02", "2026-03-20", "2026-03-21", "2026-04-30"], utc=True)
    >>> columns = ["requested_after", "requested_at", "ended_after", "ended_at", "observed_until"]
    >>> requests = pd.DataFrame([days] * 12, columns=columns).assign(site="Seekfolk", end="removed")
    >>> declared = pd.DataFrame({"site": ["Seekfolk"], "declared_days": [7]})
    >>> [row] = analysis.declared_vs_observed(requests, declared).to_dict("records")
    >>> row["median_days"], row["due"], row["overdue"], row["takes_longer"]
    (19.0, 12, 12, True)
    """
    MissingColumns.check("declared_vs_observed", requests, REQUEST_COLUMNS)
    MissingColumns.check("declared_vs_observed, table declared,", declared, ("site", "declared_days"))
    if not 0 <= allowance_days < np.inf:
        raise InvalidArgument("invalid allowance_days: pass a number of days, zero or more")
    if not 0 < false_discovery_rate < 1:
        raise InvalidArgument("invalid false_discovery_rate: it must be between 0 and 1, such as 0.05")
    times = time_to_removal(request_life_table(requests), level=level)[[*_TIMES]]
    table = _with_declared(times, declared)
    limit = table.set_index("site")["declared_days"].astype("float64") + allowance_days
    table = table.merge(_overdue(requests, limit), on="site", how="left")
    table[[*_COUNTS]] = table[[*_COUNTS]].fillna(0).astype("int64")
    pairs = zip(table["overdue"].tolist(), table["due"].tolist(), strict=True)
    p_value = np.array([_upper_tail(*pair) if pair[1] >= MIN_N else np.nan for pair in pairs], "float64")
    for name, values in (("p_value", p_value), ("q_value", _adjusted(p_value))):
        table[name] = pd.array(values, dtype="Float64")
    table["takes_longer"] = table["q_value"] <= false_discovery_rate
    keys = table.assign(
        is_in_time=~table["takes_longer"].fillna(value=False), name=table["site"].str.casefold()
    )
    order = keys.sort_values(["is_in_time", "q_value", "declared_days", "name"], kind="stable").index
    table = table.loc[order].reset_index(drop=True)
    table.attrs["level"], table.attrs["allowance_days"] = level, float(allowance_days)
    return table


def _with_declared(times: pd.DataFrame, declared: pd.DataFrame) -> pd.DataFrame:
    """Add the declared days to the times of each site, and add the sites without times."""
    names = declared["site"].astype("str")
    days = pd.DataFrame({"name": names, "declared_days": declared["declared_days"].astype("Float64")})
    days = days.assign(key=names.str.strip().str.casefold()).dropna(subset="declared_days")
    days = days.drop_duplicates("key", keep="last")
    table = times.assign(key=times["site"].str.casefold()).merge(days, on="key", how="outer")
    table["site"] = table["site"].fillna(table["name"]).astype("str")
    return table[["site", "declared_days", *_TIMES[1:]]]


def request_life_table(requests: pd.DataFrame) -> pd.DataFrame:
    """The life table of removal requests for `time_to_removal`: each enters, and ends or is still pending.

    Args:
        requests: As in `declared_vs_observed`. A request that was refused counts as pending until then.
    """
    requested_at, ended_at = (instants(requests[name]) for name in ("requested_at", "ended_at"))
    requested_after, observed = (instants(requests[name]) for name in ("requested_after", "observed_until"))
    end = requests["end"]
    is_removed, is_gone, is_left = ((end == name).to_numpy("bool") for name in (REMOVED, VANISHED, UNKNOWN))
    cases = [is_removed & (ended_at <= requested_at), is_removed, is_gone, is_left]
    flow = np.select(cases, range(len(cases)), default=_FLOWS.index(OPEN))
    exit_at = np.where(np.isnat(ended_at), observed, ended_at)
    columns = {"site": categories(requests["site"]).array, "left_censored": np.isnat(requested_after)}
    entries = pd.DataFrame(
        {"days": 0, "flow": _FLOWS.index(ENTERED), "gap_days": _days(requested_after, requested_at)} | columns
    )
    exits = pd.DataFrame({"days": _days(requested_at, exit_at), "flow": flow, "gap_days": 0} | columns)
    equal = ["site", "days", "flow", "left_censored", "gap_days"]
    table = pd.concat([entries, exits]).groupby(equal, observed=True).size().rename("n").reset_index()
    table["flow"] = pd.Series(np.array(_FLOWS, "object")[table["flow"]], dtype="str")
    return table.astype({"site": "str", "days": "int64", "gap_days": "int64"})


def _days(begin: Any, end: Any) -> Any:
    """Calendar days between instants; 0 if one is missing, or the end comes first."""
    days = (end.astype("datetime64[D]") - begin.astype("datetime64[D]")) / _DAY
    return np.nan_to_num(np.maximum(days, 0)).astype("int64")


def _overdue(requests: pd.DataFrame, limit: "pd.Series[float]") -> pd.DataFrame:
    """Per site, the requests that were observed beyond the limit, and those of them that were pending beyond it."""
    requested_at = instants(requests["requested_at"])
    site = categories(requests["site"])
    most = site.map(limit).to_numpy("float64")
    end, ended_after = categories(requests["end"]), instants(requests["ended_after"])
    observed = (instants(requests["observed_until"]) - requested_at) / _DAY
    pending = np.where(end.isna(), observed, np.nan_to_num((ended_after - requested_at) / _DAY))
    is_overdue = pending > most
    # A person who left, or a request that was refused before, says nothing about the days that a removal takes.
    tells = end.isna() | end.isin((REMOVED, VANISHED)) | is_overdue
    is_due = ~np.isnat(instants(requests["requested_after"])) & (observed > most) & tells.to_numpy("bool")
    counts = pd.DataFrame({"site": site.array, "due": is_due, "overdue": is_due & is_overdue})
    return (
        counts.groupby("site", as_index=False, observed=True)[["due", "overdue"]]
        .sum()
        .astype({"site": "str"})
    )


def _upper_tail(hits: int, n: int) -> float:
    """The probability of at least this many hits in n tries, if each has a chance of one half."""
    ratios = np.log((n - np.arange(n)) / np.arange(1, n + 1))  # of neighbouring binomial coefficients
    logs = np.concatenate([[0.0], np.cumsum(ratios)]) - n * np.log(2)
    return float(min(np.exp(logs[hits:]).sum(), 1.0))


def _adjusted(p_values: Floats) -> Floats:
    """Return the q-values of Benjamini and Hochberg; NaN stays, and does not count."""
    q_values = np.full(len(p_values), np.nan)
    order = np.argsort(p_values)[: int((~np.isnan(p_values)).sum())]
    ranked = p_values[order] * len(order) / np.arange(1, len(order) + 1)
    q_values[order] = np.minimum.accumulate(ranked[::-1])[::-1]
    return q_values
