"""Charts of manual work: blockers, the next fields to ask for, and the work queue."""

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
    UNTICKED,
    annotations,
    bars,
    join_rows,
    names_or_count,
    omitted,
    omitted_note,
    rest_label,
    row_chart,
    row_labels,
)
from exposurekit.charts.heatmap import COLUMN_MAX, GREYS, ORANGES, heatmap, heatmap_px, label_axes
from exposurekit.charts.theme import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    VERMILION,
    Chart,
    chart,
    count_axis,
    empty_chart,
    format_duration,
    label_text,
    short,
)
from exposurekit.text.formatting import pluralize

_LATER = "later"  # open, with a reason to wait
_STATES = {
    STARTED: (ORANGE, "/"),
    TO_DO: (VERMILION, ""),
    _LATER: (PURPLE, "\\"),
    UNABLE: (GREY, "x"),
    DONE: (GREEN, "."),
}
_OPEN_STATES = (STARTED, TO_DO, _LATER)
_BLOCKERS = ("user_id", "field", "records", "unlocks", "is_profile_field")
_REQUESTS = ("rank", "user_id", "fields", "removals", "together")
_PAGES = "Web pages"
_TEXT_ROOM = 1.45  # length of the axis as a multiple of the longest bar: room for its text
_QUEUE = ("rank", "group", "kind", "site", "state", "user_id", "minutes")


def blockers(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the removals that each person's missing fields would unlock alone, as a heat map.

    Fields that no table of a user has, so that they may be on file, are grey, at the right.

    Args:
        table: A table as returned by `analysis.blockers`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.blockers(analysis.blockers(exposure.records(), exposure.on_file()))
    Chart('...')
    """
    check_input("blockers", table, _BLOCKERS)
    if table.empty:
        return empty_chart("No missing field blocks a removal", provenance=provenance)
    fields = _by_field(table)
    rows, people = _people(table)
    drawn = fields.head(MAX_ROWS)
    figure = chart(
        _heatmaps(rows, drawn, people),
        finding=_blockers_finding(fields),
        summary=_blockers_summary(fields, int(table["user_id"].nunique())),
        provenance=provenance,
        height=heatmap_px(len(people)),
    )
    labels = [
        label_text(name, max_length=COLUMN_MAX) + ("" if is_profile_field else "<br>(not in the profile)")
        for name, is_profile_field in zip(drawn.index, drawn["is_profile_field"], strict=True)
    ]
    figure.update_xaxes(title={"text": "removals unlocked by this field alone", "standoff": 12})
    return label_axes(figure, [label_text(name) for name in people], labels)


def _by_field(table: pd.DataFrame) -> pd.DataFrame:
    """One row per field: profile fields first, then by removals unlocked."""
    rows = table.assign(people=1, people_unlocked=table["unlocks"] > 0)
    groups = rows.groupby(rows["field"].astype("str"), dropna=False)
    fields = groups[["records", "unlocks", "people", "people_unlocked"]].sum()
    fields["is_profile_field"] = groups["is_profile_field"].all()
    return fields.sort_values(["is_profile_field", "unlocks", "records"], ascending=False, kind="stable")


def _people(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table with a row number per person, most removals unlocked first, the rest in one; and the row labels."""
    sums = table.groupby("user_id")[["unlocks", "records"]].sum()
    ids = sums.sort_values(["unlocks", "records"], ascending=False, kind="stable").index
    row = pd.Index(ids[:MAX_ROWS]).get_indexer(pd.Index(table["user_id"]))
    rest = [rest_label(len(ids) - MAX_ROWS, "people")] if len(ids) > MAX_ROWS else []
    labels = [*(f"user {user_id}" for user_id in ids[:MAX_ROWS]), *rest]
    return table.assign(row=np.where(row < 0, MAX_ROWS, row)), labels


def _heatmaps(rows: pd.DataFrame, fields: pd.DataFrame, people: list[str]) -> list[go.Heatmap]:
    """One heat map of the profile fields, and a grey one of the others."""
    unlocks, records = (_matrix(rows, fields, len(people), name) for name in ("unlocks", "records"))
    names = [label_text(field) for field in fields.index]
    hover = [
        [f"{person}, {field}<br>{_cell_text(n, total)}" for field, n, total in zip(names, *row, strict=True)]
        for person, *row in zip(people, unlocks, records, strict=True)
    ]
    zmax = float(unlocks[:MAX_ROWS].max())  # the row of the rest may exceed it
    is_profile_field = fields["is_profile_field"].to_numpy("bool")
    return [
        heatmap(
            np.where((records > 0) & (is_profile_field == kind), unlocks, np.nan),
            hover,
            zmax=zmax,
            scale=scale,
        )
        for kind, scale in ((True, ORANGES), (False, GREYS))
        if (is_profile_field == kind).any()
    ]


def _matrix(rows: pd.DataFrame, fields: pd.DataFrame, people: int, name: str) -> NDArray[np.float64]:
    column = pd.Index(fields.index).get_indexer(pd.Index(rows["field"].astype("str")))
    is_drawn, n = column >= 0, np.zeros((people, len(fields)))
    indices = rows["row"].to_numpy()[is_drawn], column[is_drawn]
    np.add.at(n, indices, rows[name].to_numpy("float64")[is_drawn])
    return n


def _cell_text(unlocks: float, records: float) -> str:
    return f"alone unlocks {pluralize(int(unlocks), 'removal')}; required by {pluralize(int(records), 'listing')}"


def _blockers_finding(fields: pd.DataFrame) -> str:
    name, first = short(fields.index[0]), fields.iloc[0]
    if not first["unlocks"]:
        n = int(fields["records"].iloc[0])
        return f"No single field unlocks a removal; {name} is missing for {pluralize(n, 'listing')}"
    n, people = (int(first[column]) for column in ("unlocks", "people_unlocked"))
    tied = fields[fields["unlocks"] == n]
    if len(tied) > 1:
        names = names_or_count([short(field) for field in tied.index], "fields")
        return f"{names} each unlock {pluralize(n, 'removal')}"
    whom = pluralize(people, "person", "people")
    return f"Adding {name} unlocks {pluralize(n, 'removal')} for {whom}"


def _blockers_summary(fields: pd.DataFrame, people: int) -> str:
    rows = zip(
        fields.index,
        fields["unlocks"],
        fields["records"],
        fields["people"],
        fields["is_profile_field"],
        strict=True,
    )
    texts = [
        f"{short(name)}: alone unlocks {pluralize(int(unlocks), 'removal')}, required by {pluralize(int(records), 'listing')} of {pluralize(int(n), 'person', 'people')}"
        + ("" if is_profile_field else " (may be on file)")
        for name, unlocks, records, n, is_profile_field in rows
    ]
    rest = omitted_note(omitted(len(fields) - MAX_ROWS, "field", "fields"))
    return f"{pluralize(people, 'person lacks', 'people lack')} a field. {join_rows(texts)}{rest}"


def best_next_fields(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the next fields to ask for, in order, and the removals that each request unlocks.

    Args:
        table: A table as returned by `analysis.best_next_fields`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.best_next_fields(analysis.best_next_fields(exposure.records(), exposure.on_file()))
    Chart('...')
    """
    check_input("best_next_fields", table, _REQUESTS)
    if table.empty:
        return empty_chart("No field to ask for", provenance=provenance)
    drawn = table.head(MAX_ROWS)
    requests = zip(drawn["rank"], drawn["user_id"], drawn["fields"], strict=True)
    labels = [f"{rank:,}. user {user_id}: {label_text(fields)}" for rank, user_id, fields in requests]
    return row_chart(
        _request_bars(drawn, labels),
        labels,
        count_axis("removals unlocked", int(drawn["together"].max())),
        finding=_request_finding(table),
        summary=_request_summary(table),
        rest=omitted(len(table) - MAX_ROWS, "request", "requests"),
        provenance=provenance,
    )


def _request_bars(table: pd.DataFrame, labels: list[str]) -> list[go.Bar]:
    removals, cumulative = table["removals"], table["together"]
    hover = [
        f"{label}<br>unlocks {pluralize(n, 'removal')}, {total:,} cumulative"
        for label, n, total in zip(labels, removals, cumulative, strict=True)
    ]
    totals = [f"{n:,}" for n in cumulative]
    previous = (cumulative - removals).tolist()
    style = BLUE, "/" if any(previous) else ""
    return [
        bars("previous requests", previous, hover, (GREY, ""), showlegend=any(previous)),
        bars("this request", removals.tolist(), hover, style, text=totals, **TEXT_OUTSIDE),
    ]


def _request_finding(table: pd.DataFrame) -> str:
    requests = table.groupby(table["fields"].astype("str"), sort=False).agg(
        people=("user_id", "nunique"), removals=("removals", "sum")
    )
    best = requests.iloc[int(requests["removals"].argmax())]
    people, removals = int(best["people"]), int(best["removals"])
    whom = pluralize(people, "person", "people")
    return f"Ask {whom} for {short(best.name)}: this unlocks {pluralize(removals, 'removal')}"


def _request_summary(table: pd.DataFrame) -> str:
    rows = zip(table["user_id"], table["fields"], table["removals"], strict=True)
    texts = [
        f"user {user_id} for {short(fields)}, {pluralize(int(n), 'removal')}" for user_id, fields, n in rows
    ]
    total = pluralize(int(table["together"].iloc[-1]), "removal")
    return f"{pluralize(len(table), 'request unlocks', 'requests unlock')} {total}: {join_rows(texts)}"


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
        f"{rank:,}. {label_text(name)}{f' ({_LATER})' if is_later else ''}"
        for rank, (name, is_later) in enumerate(zip(drawn["group"], drawn["is_later"], strict=True), 1)
    ]
    return row_chart(
        [*(_state_bars(state, drawn, names) for state in _STATES), _items(drawn), _minutes(drawn, names)],
        names,
        count_axis("listings or pages", int(drawn[[*_STATES]].sum(axis=1).max())) | UNTICKED,
        right={
            "title": {"text": "estimated time"},
            "range": [0, max(_TEXT_ROOM * float(drawn["minutes"].max()), 1)],
            **UNTICKED,
        },
        finding=_queue_finding(groups),
        summary=_queue_summary(groups, table),
        rest=omitted(len(groups) - MAX_ROWS, "group", "groups"),
        provenance=provenance,
    )


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
    drawn = table["state"].astype("str").mask(is_open & has_reason, _LATER)
    states = pd.crosstab(codes, drawn.to_numpy()).reindex(columns=[*_STATES], fill_value=0)
    items = states[[*_OPEN_STATES]].sum(axis=1)
    return states.assign(
        group=_group_names(table, codes, groups),
        kind=table["kind"].groupby(codes).first(),
        items=items,
        is_later=(items > 0) & (states[_LATER] == items),
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
    whys = groups["why"].tolist() if state == _LATER else [""] * len(names)
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


def _queue_finding(groups: pd.DataFrame) -> str:
    first = groups.iloc[0]
    if not first["items"]:
        return "All manual work is done or marked unable"
    n_first, n_items = int(first["first_items"]), int(first["items"])
    people = pluralize(int(first["people"]), "person", "people")
    items = pluralize(n_items, first["kind"])
    whose = f"{items} of {people}" if n_first == n_items else f"{n_first:,} of {items}, {people}"
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
