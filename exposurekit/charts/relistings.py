"""Relistings: listings that reappear, by site and previous status, and the days until then."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import VANISHED
from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import (
    MAX_ROWS,
    annotations,
    bars,
    join_rows,
    leaders,
    points,
    rest_label,
    row_chart,
    row_labels,
    whiskers,
)
from exposurekit.charts.theme import (
    BLUE,
    PURPLE,
    Chart,
    count_axis,
    empty_chart,
    label_text,
)
from exposurekit.charts.time_to_removal import median_beside
from exposurekit.contract.types import REMOVED
from exposurekit.text.formatting import NO_VALUE, pluralize

_GONE = "days until listed again"
_AFTER = {REMOVED: "after a verified removal", VANISHED: "without a verified removal"}
_GONE_ROOM = 2.2  # length of the axis as a multiple of the longest range: room for the median


def relistings(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the relistings per site, after a verified removal or without one, and the days that listings were gone.

    The range is that of the days in the table, between two observations. The description adds the fewest and the most days
    that a listing may have been gone, as far as the table has both.

    Args:
        table: A table as returned by `analysis.relistings` or `History.relistings`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.relistings(history.relistings())
    Chart('No relistings')
    """
    check_input("relistings", table, ("site", "previous_status", "gone_days"))
    if table.empty:
        return empty_chart("No relistings", provenance=provenance)
    sites = _by_site(table)
    names = [label_text(site) for site in sites["site"]]
    rows = zip(row_labels(sites, "site"), sites.to_dict("records"), strict=True)
    longest = sites["most"].max()
    return row_chart(
        [
            *(
                _bars(sites, names, status, style)
                for status, style in ((REMOVED, (BLUE, "")), (VANISHED, (PURPLE, "\\")))
                if sites[status].any()
            ),
            annotations([f"{n:,}" for n in sites["n"]], sites["n"].tolist()),
            *_gone_days(sites, names),
        ],
        names,
        count_axis("relistings", int(sites["n"].max())),
        right=count_axis(_GONE, 0 if pd.isna(longest) else float(longest), room=_GONE_ROOM),
        finding=_finding(table, sites),
        summary=join_rows([f"{name}: {_row_text(row)}" for name, row in rows]),
        provenance=provenance,
    )


def _by_site(table: pd.DataFrame) -> pd.DataFrame:
    """Relistings and days gone: one row per site, most relistings first, and one row for the rest."""
    codes, sites = pd.factorize(table["site"].astype("str"), use_na_sentinel=False)
    n = pd.Series(codes).value_counts(sort=True)
    rank = pd.Series(range(len(n)), index=n.index)
    row = rank.reindex(codes).clip(upper=MAX_ROWS).to_numpy()
    is_removed = (table["previous_status"].astype("str") == REMOVED).to_numpy("bool")
    days = pd.Series(table["gone_days"].to_numpy("float64"))
    of_site = days.groupby(row)
    low, high = (
        pd.Series(table[f"gone_days_{end}"].to_numpy("float64")).where(days.notna()).fillna(days)
        if f"gone_days_{end}" in table
        else days
        for end in ("low", "high")
    )
    statistics = pd.DataFrame(
        {
            "n": of_site.size(),
            REMOVED: pd.Series(is_removed).groupby(row).sum(),
            "least": of_site.min(),
            "median": of_site.median(),
            "most": of_site.max(),
            "low": low.groupby(row).min(),
            "high": high.groupby(row).max(),
        }
    )
    names = [
        *sites[n.index[:MAX_ROWS]],
        *([rest_label(len(n) - MAX_ROWS, "sites")] if len(n) > MAX_ROWS else []),
    ]
    return statistics.assign(site=names, **{VANISHED: statistics["n"] - statistics[REMOVED]})


def _bars(sites: pd.DataFrame, names: list[str], status: str, style: tuple[str, str]) -> go.Bar:
    """The relistings of listings that had a status, which is not theirs now: the bar has not its colour."""
    after, counts = _AFTER[status], [pluralize(n, "relisting") for n in sites[status]]
    hover = [f"{name}<br>{n} {after}" for name, n in zip(names, counts, strict=True)]
    return bars(after, sites[status].tolist(), hover, style)


def _gone_days(sites: pd.DataFrame, names: list[str]) -> list[go.Scatter]:
    axes = {"xaxis": "x2", "yaxis": "y"}
    hover = [
        f"{name}<br>{_days_text(row)}" for name, row in zip(names, sites.to_dict("records"), strict=True)
    ]
    longest = sites["most"].max()
    labels = [
        NO_VALUE if pd.isna(days) else median_beside(round(days, 1), most, longest)
        for days, most in zip(sites["median"], sites["most"], strict=True)
    ]
    return [
        whiskers(sites["least"].tolist(), sites["most"].tolist(), name="range", **axes),
        points(sites["median"].tolist(), hover, symbol="circle", colour=BLUE, name="median", **axes),
        annotations(labels, sites["most"].fillna(0).tolist(), **axes),
    ]


def _days_text(row: dict[Any, Any]) -> str:
    if pd.isna(row["median"]):
        return f"days gone: {NO_VALUE}"
    drawn, possible = _range(row["least"], row["most"]), _range(row["low"], row["high"])
    between = f" ({possible} with the time between two runs)" if possible != drawn else ""
    return f"days gone: median {_days(row['median'])}, range {drawn}{between}"


def _range(low: float, high: float) -> str:
    return f"{_days(low)}\N{EN DASH}{_days(high)}"


def _days(days: float) -> str:
    return f"{round(days, 1):,g}"


def _row_text(row: dict[Any, Any]) -> str:
    n = pluralize(int(row["n"]), "relisting")
    return f"{n}, {row[REMOVED]:,} after a verified removal; {_days_text(row)}"


def _finding(table: pd.DataFrame, sites: pd.DataFrame) -> str:
    removed = int(sites[REMOVED].sum())
    single = sites.head(MAX_ROWS)  # without the row of the rest
    most = (
        f"; {leaders(row_labels(single, 'site'), single['n'].tolist(), 'sites', 'relistings')}"
        if len(sites) > 1
        else ""
    )
    n = f"{removed:,} " if removed < len(table) else "all " if removed > 1 else ""
    return f"{pluralize(len(table), 'relisting')}, {n}after a verified removal{most}"
