"""Blockers: missing fields by person, and the next fields to ask for."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from exposurekit.analysis.manual_tasks import field_label
from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import (
    MAX_ROWS,
    TEXT_OUTSIDE,
    Omitted,
    bars,
    join_rows,
    names_or_count,
    rest_label,
    row_chart,
)
from exposurekit.charts.heatmap import BLUES, COLUMN_MAX, GREYS, heatmap, heatmap_px, label_axes
from exposurekit.charts.theme import (
    BLUE,
    GREY,
    Chart,
    chart,
    count_axis,
    empty_chart,
    label_text,
    short,
)
from exposurekit.text.formatting import pluralize

_BLOCKERS = ("user_id", "field", "records", "unlocks", "is_profile_field")
_REQUESTS = ("rank", "user_id", "fields", "removals", "together")


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
        for kind, scale in ((True, BLUES), (False, GREYS))
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
    whose = f", for {people:,} people" if people > 1 else ""
    return (
        f"Adding {short(field_label(str(fields.index[0])))} would let {pluralize(n, 'removal')} start{whose}"
    )


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
    rest = Omitted(len(fields) - MAX_ROWS, "field", "fields").note(MAX_ROWS)
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
        rest=Omitted(len(table) - MAX_ROWS, "request", "requests"),
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
