"""When half are removed, row by row, and what share is not removed at all. Never draws a time that was not reached."""

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.bars import (
    SHOWN,
    annotations,
    as_rows,
    join_rows,
    omitted_note,
    panels,
    points,
    row_labels,
    rows_px,
    whiskers,
)
from exposurekit.charts.theme import (
    BLUE,
    GREY,
    NOT_KNOWN,
    VERMILION,
    Chart,
    chart,
    count_axis,
    interval,
    label_text,
    percent,
    pluralize,
)


def medians(table: pd.DataFrame, by: str | None, provenance: str) -> Chart:
    """The figure of `charts.time_to_removal`, of a table with a row or more."""
    shown = table.head(SHOWN)
    names = [label_text(name) for name in row_labels(shown, by)]
    figure = chart(
        [*_middles(shown, names), *_nevers(shown, names)],
        finding=_halves(table),
        summary=_of_rows(shown, by) + omitted_note(len(table) - SHOWN, "site", "sites"),
        provenance=provenance,
        height=rows_px(len(shown)),
    )
    room = 1.4 if shown["median_days"].isna().any() else 1  # for words behind the arrows
    most = shown[["median_days", "median_high", "followed_days"]].max().max()
    days = count_axis("days until half are removed", room * (0 if pd.isna(most) else int(most)))
    shares = {"range": [-0.02, 1.45], "tickvals": [0, 0.5, 1], "tickformat": ".0%"}
    panels(figure, days, shares | {"title": {"text": "share not removed"}})
    labels = [f"{name} (n {n:,})" for name, n in zip(names, shown["n"], strict=True)]
    return as_rows(figure, labels)


def _middles(table: pd.DataFrame, names: list[str]) -> list[go.Scatter]:
    median, low, high, end = (
        table[name].astype("Float64").to_numpy("float64", na_value=np.nan).tolist()
        for name in ("median_days", "median_low", "median_high", "followed_days")
    )
    is_open = [pd.isna(top) for top in high]
    far = [stop if without else top for top, stop, without in zip(high, end, is_open, strict=True)]
    near = [middle if pd.isna(least) else least for middle, least in zip(median, low, strict=True)]
    after = [stop if without else None for stop, without in zip(end, is_open, strict=True)]
    said = [f"{name}<br>{_half(row)}" for name, row in zip(names, table.to_dict("records"), strict=True)]
    return [
        whiskers(near, far),
        points(after, said, symbol="triangle-right", colour=GREY),
        points(median, said, symbol="circle", colour=BLUE),
        annotations(
            [_no_median(row) for row in table.to_dict("records")],
            [0 if pd.isna(stop) else stop for stop in end],
        ),
    ]


def _no_median(row: dict[Any, Any]) -> str:
    """Why a row has no median; nothing where it has one."""
    if pd.notna(row["median_days"]):
        return ""
    if not row["n"]:
        return f"none seen from its start, {row['left_out']:,} left out"
    return f"not reached in {pluralize(int(row['followed_days']), 'day')}"


def _half(row: dict[Any, Any]) -> str:
    if pd.isna(row["median_days"]):
        return f"half removed: {_no_median(row)}"
    band = interval(row["median_low"], row["median_high"], "{:,}".format)
    return f"half removed in {pluralize(int(row['median_days']), 'day')}{band}"


def _nevers(table: pd.DataFrame, names: list[str]) -> list[go.Scatter]:
    rows = table.to_dict("records")
    said = [f"{name}<br>{_not_removed(row)}" for name, row in zip(names, rows, strict=True)]
    at = {"xaxis": "x2", "yaxis": "y"}
    never, low, high = (table[name].tolist() for name in ("never", "never_low", "never_high"))
    shares = [percent(one) for one in never]
    return [
        whiskers(low, high, **at),
        points(never, said, symbol="diamond", colour=VERMILION, **at),
        annotations(shares, [1.05] * len(shares), **at),
    ]


def _not_removed(row: dict[Any, Any]) -> str:
    if pd.isna(row["never"]):
        return f"share not removed: {NOT_KNOWN}"
    band = interval(row["never_low"], row["never_high"], percent)
    return f"{percent(row['never'])}{band} not removed after {pluralize(int(row['followed_days']), 'day')}"


def _halves(table: pd.DataFrame) -> str:
    reached = table["median_days"].dropna()
    several_rows = len(table) > 1
    if reached.empty:
        n = int(table["n"].sum())
        where = f" on any of {len(table):,} sites" if several_rows else ""
        return f"Half of the listings were not removed{where}" if n else "No listing was seen from its start"
    least, most = int(reached.min()), int(reached.max())
    days = f"{least:,} to {pluralize(most, 'day')}" if most > least else pluralize(most, "day")
    if not several_rows:
        return f"Half of the listings are removed in {days}"
    rest = len(table) - len(reached)
    also = f"; on {rest:,} half were not removed yet" if rest else ""
    return f"On {len(reached):,} of {len(table):,} sites half of the listings are removed in {days}{also}"


def _of_rows(table: pd.DataFrame, by: str | None) -> str:
    rows = zip(row_labels(table, by), table.to_dict("records"), strict=True)
    said = [f"{name}: {_half(row)}, {_not_removed(row)}, n {row['n']:,}" for name, row in rows]
    left = int(table["left_out"].sum())
    also = (
        f" {pluralize(left, 'listing was', 'listings were')} there at the first look, and left out."
        if left
        else ""
    )
    return f"{join_rows(said)}{also}"
