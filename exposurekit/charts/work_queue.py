"""What a removal waits for, whom to ask for what, and what a human must do first. Ranks nothing that its table did not rank."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from numpy.typing import NDArray

from exposurekit.analysis.work_queue import DONE, LISTING, STARTED, TO_DO, UNABLE
from exposurekit.charts.bars import (
    OUTSIDE,
    SHOWN,
    as_rows,
    bars,
    join_rows,
    more,
    omitted_note,
    panels,
    row_labels,
    rows_px,
    tied,
)
from exposurekit.charts.heatmap import DEEP, GREYS, cells, column_labels, grid_px
from exposurekit.charts.input import check_input
from exposurekit.charts.theme import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    Chart,
    chart,
    count_axis,
    empty_chart,
    format_duration,
    label_text,
    pluralize,
    short,
)

_STATES = {STARTED: (ORANGE, "/"), TO_DO: (VERMILION, ""), UNABLE: (GREY, "x"), DONE: (GREEN, ".")}
_BLOCKERS = ("user_id", "field", "records", "unlocks", "is_known")
_ASKS = ("place", "user_id", "fields", "removals", "together")
_QUEUE = ("place", "group", "kind", "state", "user_id", "minutes")


def blockers(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """People and the fields that they lack: how many removals can start with each field alone.

    Fields of which nobody can see whether they are on file stand at the right, in grey.

    Args:
        table: As `analysis.blockers` gives it.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.blockers(analysis.blockers(exposure.records(), exposure.on_file()))
    Chart('...')
    """
    check_input("blockers", table, _BLOCKERS)
    if table.empty:
        return empty_chart("No removal waits for a field", provenance=provenance)
    fields = _by_field(table)
    rows, people = _people(table)
    shown = fields.head(SHOWN)
    figure = chart(
        _missing(rows, shown, people),
        finding=_lacking(fields),
        summary=_fields(fields, int(table["user_id"].nunique())),
        provenance=provenance,
        height=grid_px(len(people)),
    )
    labels = [
        label_text(name) + ("" if known else " (not known)")
        for name, known in zip(shown.index, shown["is_known"], strict=True)
    ]
    said = {"text": "removals that can start with this field alone", "standoff": 12}
    figure.update_xaxes(title=said)
    return column_labels(figure, [label_text(name) for name in people], labels)


def _by_field(table: pd.DataFrame) -> pd.DataFrame:
    """One row a field, those that are known first, and of these what unlocks most."""
    rows = table.assign(people=1, helped=table["unlocks"] > 0)
    found = rows.groupby(rows["field"].astype("str"), dropna=False)[
        ["records", "unlocks", "people", "helped"]
    ].sum()
    found["is_known"] = rows.groupby(rows["field"].astype("str"), dropna=False)["is_known"].all()
    return found.sort_values(["is_known", "unlocks", "records"], ascending=False, kind="stable")


def _people(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table with the row of each person, whose fields unlock most first, all others in one; and their names."""
    sums = table.groupby("user_id")[["unlocks", "records"]].sum()
    ids = sums.sort_values(["unlocks", "records"], ascending=False, kind="stable").index
    row = pd.Index(ids[:SHOWN]).get_indexer(pd.Index(table["user_id"]))
    rest = [more(len(ids) - SHOWN, "people")] if len(ids) > SHOWN else []
    place = np.where(row < 0, SHOWN, row)
    return table.assign(row=place), [*(f"user {one}" for one in ids[:SHOWN]), *rest]


def _missing(rows: pd.DataFrame, fields: pd.DataFrame, people: list[str]) -> list[go.Heatmap]:
    """The cells of fields that can be seen, and those of the others."""
    unlocks, records = (_cells(rows, fields, len(people), name) for name in ("unlocks", "records"))
    names = [label_text(field) for field in fields.index]
    said = [
        [f"{person}, {field}<br>{_cell_text(n, of)}" for field, n, of in zip(names, *row, strict=True)]
        for person, *row in zip(people, unlocks, records, strict=True)
    ]
    full = float(unlocks[:SHOWN].max())  # what all others have together may be deeper than deepest
    known = fields["is_known"].to_numpy("bool")
    return [
        cells(np.where((records > 0) & (known == kind), unlocks, np.nan), said, full=full, scale=scale)
        for kind, scale in ((True, DEEP), (False, GREYS))
        if (known == kind).any()
    ]


def _cells(rows: pd.DataFrame, fields: pd.DataFrame, people: int, name: str) -> NDArray[np.float64]:
    column = pd.Index(fields.index).get_indexer(pd.Index(rows["field"].astype("str")))
    there, n = column >= 0, np.zeros((people, len(fields)))
    np.add.at(n, (rows["row"].to_numpy()[there], column[there]), rows[name].to_numpy("float64")[there])
    return n


def _cell_text(unlocks: float, records: float) -> str:
    return f"{pluralize(int(unlocks), 'removal')} with it alone; {pluralize(int(records), 'listing')} in all"


def _lacking(fields: pd.DataFrame) -> str:
    name, first = short(fields.index[0]), fields.iloc[0]
    if not first["unlocks"]:
        n = int(fields["records"].iloc[0])
        return f"No field alone lets a removal start; {name} is missing for {pluralize(n, 'listing')}"
    n, people = (int(first[one]) for one in ("unlocks", "helped"))
    alike = fields[fields["unlocks"] == n]
    if len(alike) > 1:
        names = tied([short(one) for one in alike.index], "fields")
        return f"{names} are missing most: with each of them alone {pluralize(n, 'removal')} can start"
    return f"{name} is missing most: with it alone {pluralize(n, 'removal')} of {pluralize(people, 'person', 'people')} can start"


def _fields(fields: pd.DataFrame, people: int) -> str:
    rows = zip(
        fields.index, fields["unlocks"], fields["records"], fields["people"], fields["is_known"], strict=True
    )
    said = [
        f"{short(name)}: {pluralize(int(unlocks), 'removal')} with it alone, {pluralize(int(records), 'listing')} of {pluralize(int(of), 'person', 'people')} need it"
        + ("" if known else " (whether it is on file is not known)")
        for name, unlocks, records, of, known in rows
    ]
    return f"{pluralize(people, 'person lacks', 'people lack')} a field. {join_rows(said)}{omitted_note(len(fields) - SHOWN, 'field', 'fields')}"


def best_next_fields(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Whom to ask for what, in order, and how many removals can start by then.

    Args:
        table: As `analysis.best_next_fields` gives it.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.best_next_fields(analysis.best_next_fields(exposure.records(), exposure.on_file()))
    Chart('...')
    """
    check_input("best_next_fields", table, _ASKS)
    if table.empty:
        return empty_chart("No removal waits for a field", provenance=provenance)
    shown = table.head(SHOWN)
    asks = zip(shown["place"], shown["user_id"], shown["fields"], strict=True)
    labels = [f"{place:,}. user {user}: {label_text(fields)}" for place, user, fields in asks]
    figure = chart(
        _asks(shown, labels),
        finding=_ask(table),
        summary=_asked_people(table),
        provenance=provenance,
        height=rows_px(len(shown)),
        barmode="stack",
    )
    figure.update_layout(xaxis=count_axis("removals that can start", int(shown["together"].max())))
    return as_rows(figure, labels)


def _asks(table: pd.DataFrame, labels: list[str]) -> list[go.Bar]:
    """What can start by the asks above, and with each."""
    more, whole = table["removals"], table["together"]
    said = [
        f"{label}<br>{pluralize(n, 'removal')} more, {by_then:,} by then"
        for label, n, by_then in zip(labels, more, whole, strict=True)
    ]
    by_then = [f"{n:,}" for n in whole]
    return [
        bars("by the asks above", (whole - more).tolist(), said, (GREY, "")),
        bars("with this ask", more.tolist(), said, (BLUE, "/"), text=by_then, **OUTSIDE),
    ]


def _ask(table: pd.DataFrame) -> str:
    """The field whose asks free most, in one sentence."""
    asks = table.groupby(table["fields"].astype("str"), sort=False).agg(
        people=("user_id", "nunique"), removals=("removals", "sum")
    )
    best = asks.iloc[int(asks["removals"].argmax())]
    people, removals = int(best["people"]), int(best["removals"])
    whom = pluralize(people, "person", "people")
    return f"Ask {whom} for {short(best.name)}: {pluralize(removals, 'removal')} can start"


def _asked_people(table: pd.DataFrame) -> str:
    rows = zip(table["user_id"], table["fields"], table["removals"], strict=True)
    said = [f"user {user} for {short(fields)}, {pluralize(int(n), 'removal')}" for user, fields, n in rows]
    whole = int(table["together"].iloc[-1])
    rest = omitted_note(len(table) - SHOWN, "ask", "asks")
    return f"With {pluralize(len(table), 'ask')} {pluralize(whole, 'removal')} can start: {join_rows(said)}{rest}"


def work_queue(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the manual work per site or host, in order: how many listings or pages, in which state, and the minutes.

    Args:
        table: As `analysis.work_queue` gives it, or `History.work_queue`.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.work_queue(analysis.work_queue(exposure.steps()))
    Chart('Begin at ...')
    """
    check_input("work_queue", table, _QUEUE)
    if table.empty:
        return empty_chart("Nothing is left to do by hand", provenance=provenance)
    groups = _in_order(table)
    shown = groups.head(SHOWN)
    names = [f"{place:,}. {label_text(name)}" for place, name in enumerate(shown["group"], 1)]
    figure = chart(
        [*(_in_state(state, shown, names) for state in _STATES), _minutes(shown, names)],
        finding=_begin(groups),
        summary=_left(groups, table),
        provenance=provenance,
        height=rows_px(len(names)),
        barmode="stack",
    )
    items = count_axis("listings or pages", int(shown[[*_STATES]].sum(axis=1).max()))
    minutes = count_axis("estimated minutes", float(shown["minutes"].max()))
    return as_rows(panels(figure, items, minutes), names)


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """One row a group, as they come in the table, of the rows that are in it: listings in each state and left, people, minutes."""
    place, groups = pd.factorize(table["group"], use_na_sentinel=False)
    states = pd.crosstab(place, table["state"].astype("str").to_numpy()).reindex(
        columns=[*_STATES], fill_value=0
    )
    left = table["state"].isin((TO_DO, STARTED)).to_numpy()
    people = table["user_id"][left].groupby(place[left]).nunique().reindex(states.index, fill_value=0)
    return states.assign(
        group=groups,
        kind=table["kind"].groupby(place).first(),
        items=states[[TO_DO, STARTED]].sum(axis=1),
        people=people,
        minutes=table["minutes"].groupby(place).sum(),
    )


def _in_state(state: str, groups: pd.DataFrame, names: list[str]) -> go.Bar:
    said = [f"{name}<br>{n:,} {state}" for name, n in zip(names, groups[state], strict=True)]
    return bars(state, groups[state].tolist(), said, _STATES[state])


def _minutes(groups: pd.DataFrame, names: list[str]) -> go.Bar:
    said = [
        f"{name}<br>{pluralize(round(n), 'minute')}" for name, n in zip(names, groups["minutes"], strict=True)
    ]
    text = [f"{n:,.0f}" if n else "" for n in groups["minutes"]]
    at = {"xaxis": "x2", "yaxis": "y", "showlegend": False}
    return bars("minutes", groups["minutes"].tolist(), said, (BLUE, ""), text=text, **OUTSIDE, **at)


def _begin(groups: pd.DataFrame) -> str:
    first = groups.iloc[0]
    if not first["items"]:
        return "Nothing is left that can be done by hand"
    n, people = int(first["items"]), int(first["people"])
    minutes = pluralize(round(first["minutes"]), "minute")
    things = pluralize(n, first["kind"])
    return f"Begin at {short(first['group'])}: {things} of {pluralize(people, 'person', 'people')}, about {minutes}"


def _left(groups: pd.DataFrame, table: pd.DataFrame) -> str:
    states = ", ".join(f"{int(groups[state].sum()):,} {state}" for state in _STATES if groups[state].any())
    n = int((table["kind"] == LISTING).sum())
    things = f"{pluralize(n, 'listing')} and {pluralize(len(table) - n, 'web page')}: {states}"
    time = f"about {format_duration(groups['minutes'].sum())} in all, an estimate"
    return f"{things}; {time}. In order: {_group_list(groups)}"


def _group_list(groups: pd.DataFrame) -> str:
    """The groups in order; of those that do not fit, the largest."""
    waiting = groups[groups["items"] > 0]
    rows = zip(row_labels(waiting, "group"), waiting["items"], waiting["minutes"], strict=True)
    texts = [f"{name} {n:,} in {pluralize(round(minutes), 'minute')}" for name, n, minutes in rows]
    return f"{join_rows(texts)}{omitted_note(len(groups) - SHOWN, 'place', 'places')}"
