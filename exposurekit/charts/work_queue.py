"""The work queue: manual removals by group, with their minutes."""

import math
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from exposurekit.analysis.work_queue import DONE, LISTING, PAGE, STARTED, TO_DO, UNABLE
from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import (
    MAX_ROWS,
    TEXT_OUTSIDE,
    Omitted,
    annotations,
    bars,
    join_rows,
    row_chart,
    row_labels,
)
from exposurekit.charts.theme import (
    BLUE,
    GREY,
    PALE_BLUE,
    PALE_GREY,
    PURPLE,
    Chart,
    count_axis,
    empty_chart,
    format_duration,
    label_text,
    short,
)
from exposurekit.text.formatting import pluralize

NOT_STARTED = "to do"  # what a work queue calls open, which elsewhere means online
LATER = "later"  # open, with a reason to wait
_STATES = {
    STARTED: (PURPLE, "/"),
    NOT_STARTED: (BLUE, ""),
    LATER: (PALE_BLUE, "\\"),
    UNABLE: (GREY, "x"),
    DONE: (PALE_GREY, "."),
}
_OPEN_STATES = (STARTED, NOT_STARTED, LATER)
_PAGES = "Web pages"
_TEXT_ROOM = 1.45  # length of the axis as a multiple of the longest bar: room for its text
_STEPS = (5, 10, 15, 30, 60, 120, 240, 480)  # minutes between ticks
_TICKS_MAX = 3  # they stand side by side on a phone, too
_QUEUE = ("rank", "group", "kind", "site", "state", "user_id", "minutes")


def work_queue(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the alerts of each opt-out group by state, in order of the queue, and the minutes left.

    Open alerts with a ``reason`` to wait are drawn as later, and a group of nothing else is named so.

    If there are listings too, all web pages form one group.

    Args:
        table: A table as returned by `analysis.work_queue` or `History.work_queue`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.work_queue(analysis.work_queue(exposure.steps()))
    Chart('Start with ...')
    """
    check_input("work_queue", table, _QUEUE)
    if table.empty:
        return empty_chart("No manual work left", provenance=provenance)
    groups = _by_group(_merge_pages(table))
    drawn = groups.head(MAX_ROWS)
    names = [
        f"{label_text(name)}{f' ({LATER})' if is_later else ''}"
        for name, is_later in zip(drawn["group"], drawn["is_later"], strict=True)
    ]
    return row_chart(
        [*(_state_bars(state, drawn, names) for state in _STATES), _items(drawn), _minutes(drawn, names)],
        names,
        count_axis("listings or pages", int(drawn[[*_STATES]].sum(axis=1).max())),
        right=_time_axis(float(drawn["minutes"].max())),
        finding=_queue_finding(groups, is_alone=table["user_id"].nunique() < 2),  # noqa: PLR2004  one person's
        summary=_queue_summary(groups, table),
        rest=Omitted(len(groups) - MAX_ROWS, "group", "groups"),
        provenance=provenance,
    )


def _time_axis(most: float) -> dict[str, Any]:
    """The axis of estimated times, with at most `_TICKS_MAX` ticks at round ones."""
    step = next((one for one in _STEPS if most <= _TICKS_MAX * one), math.ceil(most / _TICKS_MAX / 60) * 60)
    ticks = [*range(0, math.ceil(most) + 1, step)]
    return {
        "title": {"text": "estimated time"},
        "range": [0, max(_TEXT_ROOM * most, 1)],
        "tickvals": ticks,
        "ticktext": ["0", *map(format_duration, ticks[1:])],
    }


def _merge_pages(table: pd.DataFrame) -> pd.DataFrame:
    """Beside listings, put all web pages into one group: each host has few, and all have the same steps."""
    is_page = (table["kind"] == PAGE).to_numpy("bool")
    if is_page.all():
        return table
    group, site = table["group"].astype("object"), table["site"].astype("object")
    return table.assign(group=group.mask(is_page, _PAGES), site=site.mask(is_page, _PAGES))


def _by_group(table: pd.DataFrame) -> pd.DataFrame:
    codes, groups = pd.factorize(table["group"], use_na_sentinel=False)
    is_open = table["state"].isin((TO_DO, STARTED)).to_numpy()
    has_reason = _has_reason(table)
    drawn = table["state"].astype("str").replace(TO_DO, NOT_STARTED).mask(is_open & has_reason, LATER)
    states = pd.crosstab(codes, drawn.to_numpy()).reindex(columns=[*_STATES], fill_value=0)
    items = states[[*_OPEN_STATES]].sum(axis=1)
    return states.assign(
        group=_group_names(table, codes, groups),
        kind=table["kind"].groupby(codes).first(),
        items=items,
        is_later=(items > 0) & (states[LATER] == items),
        why=_reasons(table[is_open & has_reason], codes[is_open & has_reason], states.index),
        minutes=table["minutes"].groupby(codes).sum(),
        **_startable(table, codes, is_open, states.index),
    )


def _has_reason(table: pd.DataFrame) -> NDArray[np.bool_]:
    return table["reason"].notna().to_numpy("bool") if "reason" in table else np.zeros(len(table), "bool")


def _reasons(later: pd.DataFrame, codes: NDArray[np.intp], groups: pd.Index) -> "pd.Series[str]":
    """The reason to wait in each group; empty if its first and last have not the same."""
    reasons = (later["reason"] if len(later) else pd.Series(dtype="str")).astype("str").groupby(codes)
    only = reasons.first().where(reasons.first() == reasons.last())
    return only.reindex(groups).fillna("")


def _group_names(table: pd.DataFrame, codes: NDArray[np.intp], groups: "pd.Index[Any]") -> list[Any]:
    """The name of each group: of its only site; else of the host that several sites share, or of the pages' host."""
    sites = table["site"].astype("object")
    first = sites.groupby(codes).first()
    is_one_site = (sites == first.reindex(codes).to_numpy()).groupby(codes).all() & ~first.duplicated(
        keep=False
    )
    names = first.where(is_one_site, groups)
    return names.tolist()


def _startable(
    table: pd.DataFrame, codes: NDArray[np.intp], is_open: NDArray[np.bool_], groups: pd.Index
) -> dict[str, pd.Series]:
    """What can be done first in each group: what nothing speaks against, or all of it where something always does."""
    doubtful = _has_reason(table)
    is_first = is_open & (~doubtful | np.isin(codes, codes[is_open & ~doubtful], invert=True))
    first = table[is_first].groupby(codes[is_first])
    sums = {
        "first_items": first.size(),
        "people": first["user_id"].nunique(),
        "first_minutes": first["minutes"].sum(),
    }
    return {name: column.reindex(groups, fill_value=0) for name, column in sums.items()}


def _state_bars(state: str, groups: pd.DataFrame, names: list[str]) -> go.Bar:
    whys = groups["why"].tolist() if state == LATER else [""] * len(names)
    n = groups[state].tolist()
    hover = [
        f"{name}<br>{count:,} {state}{f': {label_text(why)}' if why else ''}"
        for name, count, why in zip(names, n, whys, strict=True)
    ]
    return bars(state, n, hover, _STATES[state], showlegend=any(n))


def _items(groups: pd.DataFrame) -> go.Scatter:
    n = groups[[*_STATES]].sum(axis=1).tolist()
    return annotations([f"{items:,}" for items in n], n)


def _minutes(groups: pd.DataFrame, names: list[str]) -> go.Bar:
    durations = [format_duration(minutes) for minutes in groups["minutes"]]
    hover = [f"{name}<br>{duration}" for name, duration in zip(names, durations, strict=True)]
    text = [
        duration if minutes else "" for duration, minutes in zip(durations, groups["minutes"], strict=True)
    ]
    axes = {"xaxis": "x2", "yaxis": "y", "showlegend": False}
    return bars("minutes", groups["minutes"].tolist(), hover, (BLUE, ""), text=text, **TEXT_OUTSIDE, **axes)


def _queue_finding(groups: pd.DataFrame, *, is_alone: bool) -> str:
    first = groups.iloc[0]
    if not first["items"]:
        return "All manual work is done or marked unable"
    n_first, n_items = int(first["first_items"]), int(first["items"])
    items = pluralize(n_items, first["kind"])
    people = "" if is_alone else pluralize(int(first["people"]), "person", "people")
    if n_first == n_items:
        whose = " of ".join(filter(None, (items, people)))
    else:
        whose = ", ".join(filter(None, (f"{n_first:,} of {items}", people)))
    return f"Start with {short(first['group'])}: {whose}, about {format_duration(first['first_minutes'])}"


def _queue_summary(groups: pd.DataFrame, table: pd.DataFrame) -> str:
    states = ", ".join(f"{int(groups[state].sum()):,} {state}" for state in _STATES if groups[state].any())
    n = int((table["kind"] == LISTING).sum())
    items = f"{pluralize(n, 'listing')} and {pluralize(len(table) - n, 'web page')}: {states}"
    minutes = f"about {format_duration(groups['minutes'].sum())} in total (estimated)"
    to_do = groups[groups["items"] > 0]
    rows = zip(row_labels(to_do, "group"), to_do["items"], to_do["minutes"], strict=True)
    texts = join_rows([f"{name} {n:,} in {format_duration(minutes)}" for name, n, minutes in rows])
    return f"{items}; {minutes}. In order: {texts}"
