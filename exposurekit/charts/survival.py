"""How long removals take, and what comes back. Never calls a listing removed that only vanished."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import UNKNOWN, VANISHED
from exposurekit.charts.bars import (
    SHOWN,
    annotations,
    as_rows,
    bars,
    join_rows,
    leaders,
    more,
    panels,
    points,
    row_labels,
    rows_px,
    whiskers,
)
from exposurekit.charts.input import check_input
from exposurekit.charts.medians import medians
from exposurekit.charts.survival_curves import curves
from exposurekit.charts.theme import (
    BLUE,
    COLOURS,
    NOT_KNOWN,
    PATTERNS,
    Chart,
    chart,
    count_axis,
    empty_chart,
    label_text,
    pluralize,
)
from exposurekit.contract.types import REMOVED

_TIMES = ("n", "left_out", "median_days", "median_low", "median_high")
_NEVER = ("never", "never_low", "never_high", "followed_days")
_ENDS = (REMOVED, VANISHED, UNKNOWN, "open")
_CURVE = ("days", "at_risk", "censored", "survival", "low", "high")


def time_to_removal(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """In how many days half of each site's listings are removed, and what share is not removed at all, with intervals.

    Where half were not removed there is an arrow where the watching ended, and no number.

    Args:
        table: As `analysis.time_to_removal` gives it, or `History.time_to_removal`; whatever its ``by``.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.time_to_removal(history.time_to_removal())
    Chart('...')
    """
    check_input("time_to_removal", table, (*_TIMES, *_NEVER))
    if table.empty:
        return empty_chart("No listing was followed yet", provenance=provenance)
    return medians(table, _group(table, (*_TIMES, *_NEVER, *_ENDS)), provenance)


def survival(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """The share of listings not yet removed, by age, as curves in steps with their bands; of groups, the six largest.

    Args:
        table: As `analysis.survival` gives it, or `History.survival`; whatever its ``by``.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.survival(history.survival(left_censored=True)).layout.yaxis.title.text
    'share not removed'
    """
    check_input("survival", table, _CURVE)
    if table.empty:
        return empty_chart("No listing was followed yet", provenance=provenance)
    return curves(table, _group(table, (*_CURVE, REMOVED)), provenance)


def _group(table: pd.DataFrame, known: tuple[str, ...]) -> str | None:
    """The column that says whose each row is; none where it is everybody's."""
    return next((name for name in table.columns if name not in known), None)


def relistings(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """How often listings came back on each site, after a verified removal or without one, and after how long.

    Args:
        table: As `analysis.relistings` gives it, or `History.relistings`.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.relistings(history.relistings())
    Chart('No listing came back')
    """
    check_input("relistings", table, ("site", "previous_status", "gone_days"))
    if table.empty:
        return empty_chart("No listing came back", provenance=provenance)
    sites = _returned(table)
    names = [label_text(site) for site in sites["site"]]
    figure = chart(
        [*(_times(sites, names, was) for was in (REMOVED, VANISHED)), *_removed_row(sites, names)],
        finding=_came_back(table, sites),
        summary=join_rows(
            [
                f"{name}: {_relisted_row(row)}"
                for name, row in zip(row_labels(sites, "site"), sites.to_dict("records"), strict=True)
            ]
        ),
        provenance=provenance,
        height=rows_px(len(sites)),
        barmode="stack",
    )
    longest = sites["most"].max()
    days = count_axis("days gone: median and range", 0 if pd.isna(longest) else float(longest))
    return as_rows(
        panels(figure, count_axis("times a listing came back", int(sites["n"].max())), days), names
    )


def _returned(table: pd.DataFrame) -> pd.DataFrame:
    """One row a site, most times first, and one for all others: how often, and after how long."""
    place, sites = pd.factorize(table["site"].astype("str"), use_na_sentinel=False)
    n = pd.Series(place).value_counts(sort=True)
    rank = pd.Series(range(len(n)), index=n.index)
    row = rank.reindex(place).clip(upper=SHOWN).to_numpy()
    removed = (table["previous_status"].astype("str") == REMOVED).to_numpy("bool")
    days = pd.Series(table["gone_days"].to_numpy("float64")).groupby(row)
    found = pd.DataFrame(
        {
            "n": days.size(),
            REMOVED: pd.Series(removed).groupby(row).sum(),
            "least": days.min(),
            "median": days.median(),
            "most": days.max(),
        }
    )
    names = [*sites[n.index[:SHOWN]], *([more(len(n) - SHOWN, "sites")] if len(n) > SHOWN else [])]
    return found.assign(site=names, **{VANISHED: found["n"] - found[REMOVED]})


def _times(sites: pd.DataFrame, names: list[str], was: str) -> go.Bar:
    times = [pluralize(n, "time") for n in sites[was]]
    said = [f"{name}<br>{n} after it had been {was}" for name, n in zip(names, times, strict=True)]
    return bars(f"had been {was}", sites[was].tolist(), said, (COLOURS[was], PATTERNS[was]))


def _removed_row(sites: pd.DataFrame, names: list[str]) -> list[go.Scatter]:
    at = {"xaxis": "x2", "yaxis": "y"}
    said = [f"{name}<br>{_after(row)}" for name, row in zip(names, sites.to_dict("records"), strict=True)]
    unknown = [NOT_KNOWN if pd.isna(days) else "" for days in sites["median"]]
    return [
        whiskers(sites["least"].tolist(), sites["most"].tolist(), **at),
        points(sites["median"].tolist(), said, symbol="circle", colour=BLUE, **at),
        annotations(unknown, None, **at),
    ]


def _after(row: dict[Any, Any]) -> str:
    if pd.isna(row["median"]):
        return f"gone for how long is {NOT_KNOWN}"
    return f"gone for {row['median']:,.1f} days, {row['least']:,.1f} to {row['most']:,.1f}"


def _relisted_row(row: dict[Any, Any]) -> str:
    return f"{pluralize(int(row['n']), 'time')}, {row[REMOVED]:,} after a verified removal; {_after(row)}"


def _came_back(table: pd.DataFrame, sites: pd.DataFrame) -> str:
    removed = int(sites[REMOVED].sum())
    alone = sites.head(SHOWN)  # the row behind them is of several sites
    most = (
        f"; {leaders(row_labels(alone, 'site'), alone['n'].tolist(), 'sites', 'has', 'have')}"
        if len(sites) > 1
        else ""
    )
    return f"Listings came back {pluralize(len(table), 'time')}, {removed:,} of them after a verified removal{most}"
