"""Chart of the listings that each way found, and of those that none found."""

from typing import Any

import pandas as pd

from exposurekit.analysis.missed import MISSED
from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import annotations, bars, join_rows, points, row_chart, whiskers
from exposurekit.charts.theme import (
    BLUE,
    PURPLE,
    Chart,
    count_axis,
    empty_chart,
    escape,
    format_interval,
    interval_label,
    label_text,
    short,
)
from exposurekit.text.formatting import pluralize
from exposurekit.text.sanitize import plain


def missed(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw how many listings each combination of ways found, and the estimate of those that none found.

    Args:
        table: A table as returned by `analysis.missed` or `History.missed`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.missed(analysis.missed(exposure.records(), exposure.links()))
    Chart(...)
    """
    check_input("missed", table, ("ways", "listings", "low", "high", "assumption", "reason"))
    if table.empty:
        return empty_chart("No listings", provenance=provenance)
    rows, label = table.to_dict("records"), interval_label(table)
    names = [label_text(row["ways"]) for row in rows]
    hover = [f"{name}<br>{escape(_row_text(row, label))}" for name, row in zip(names, rows, strict=True)]
    is_estimate = (table["ways"] == MISSED).to_numpy("bool")
    listings, low, high = (table[name].astype("Float64") for name in ("listings", "low", "high"))
    counts = listings.mask(is_estimate).fillna(0).tolist()
    ends = pd.concat([listings, high], axis=1).max(axis=1).fillna(0).tolist()
    return row_chart(
        [
            bars("found", counts, hover, (BLUE, "")),
            whiskers(low.tolist(), high.tolist(), name=label),
            points(
                listings.where(is_estimate).tolist(),
                hover,
                symbol="circle",
                colour=PURPLE,
                name="estimate",
            ),
            annotations([_amount(row) for row in rows], ends),
        ],
        names,
        count_axis("listings", max(ends), room=1.2),
        finding=_finding(table),
        summary=_summary(rows, label),
        provenance=provenance,
    )


def _finding(table: pd.DataFrame) -> str:
    """The estimate in a sentence, or why there is none."""
    rows = table.to_dict("records")
    last = rows[-1]
    if last["ways"] != MISSED or pd.isna(last["listings"]):
        reason = f": {plain(last['reason'])}" if isinstance(last["reason"], str) else ""
        return f"The number of missed listings cannot be estimated{reason}"
    n = sum(int(row["listings"]) for row in rows[:-1] if pd.notna(row["listings"]))
    band = format_interval(last["low"], last["high"], "{:,.0f}".format, interval_label(table))
    return f"{pluralize(n, 'listing')} found; an estimated {last['listings']:,.0f}{band} missed"


def _row_text(row: dict[Any, Any], label: str) -> str:
    if row["ways"] != MISSED:
        return pluralize(0 if pd.isna(row["listings"]) else int(row["listings"]), "listing")
    if pd.isna(row["listings"]):
        return f"no estimate: {plain(row['reason'])}" if isinstance(row["reason"], str) else "no estimate"
    band = format_interval(row["low"], row["high"], "{:,.0f}".format, label)
    return f"an estimated {row['listings']:,.0f}{band}"


def _amount(row: dict[Any, Any]) -> str:
    if row["ways"] == MISSED:
        return "no estimate" if pd.isna(row["listings"]) else f"about {row['listings']:,.0f}"
    return f"{0 if pd.isna(row['listings']) else row['listings']:,.0f}"


def _summary(rows: list[dict[Any, Any]], label: str) -> str:
    texts = join_rows([f"{short(row['ways'])}: {_row_text(row, label)}" for row in rows])
    assumption = rows[-1]["assumption"]
    if not isinstance(assumption, str):
        return texts
    return (
        f"{texts} The estimate assumes that {plain(assumption)} and that each listing could be found in every way. If some are "
        "hard to find in every way, more are missed than estimated."
    )
