"""Charts of data quality: precision, coverage and site health."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import OTHER, VANISHED
from exposurekit.analysis.data_quality import NEVER, OUTCOMES
from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import (
    MAX_ROWS,
    Omitted,
    annotations,
    bars,
    join_rows,
    names_or_count,
    points,
    row_chart,
    row_labels,
    whiskers,
)
from exposurekit.charts.theme import (
    BLUE,
    BROWN,
    COLOURS,
    GREY,
    PALE_BLUE,
    PATTERNS,
    PURPLE,
    Chart,
    count_axis,
    empty_chart,
    format_interval,
    interval_label,
    label_text,
    short,
)
from exposurekit.text.formatting import NO_VALUE, percent, pluralize

_PRECISION = ("site", "mine", "not mine", "unsure", "unlabelled", "precision", "low", "high")
_HEALTH = ("site", "open", VANISHED, "vanished_at_once", "quiet_days", "is_doubtful")
_OUTCOME_STYLES = dict(
    zip(
        OUTCOMES,
        ((BLUE, "."), (PALE_BLUE, "/"), (PURPLE, "x"), (BROWN, "\\"), (GREY, "-")),
        strict=True,
    )
)
_HEALTH_ROOM = 1.3  # for "12 open, 3 vanished" behind the longest bar
_ONE_RUN, _OTHER_RUNS = "vanished in one run", "vanished in other runs"


def precision(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the precision of each site's listings with its interval; sites without labels get a text instead.

    Args:
        table: A table as returned by `analysis.precision` or `History.precision`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.precision(history.precision())
    Chart('No listing is labelled yet (... unlabelled)')
    """
    check_input("precision", table, _PRECISION)
    if table.empty:
        return empty_chart("No listings to label", provenance=provenance)
    drawn, rows = table.head(MAX_ROWS), table.head(MAX_ROWS).to_dict("records")
    label = interval_label(table)
    names = [label_text(site) for site in drawn["site"]]
    hover = [f"{name}<br>{_precision_text(row, label)}" for name, row in zip(names, rows, strict=True)]
    return row_chart(
        [
            whiskers(drawn["low"].tolist(), drawn["high"].tolist()),
            points(drawn["precision"].tolist(), hover, symbol="circle", colour=BLUE),
            annotations([_no_precision_reason(row) for row in rows]),
        ],
        [
            f"{name} ({pluralize(row['mine'] + row['not mine'], 'label')})"
            for name, row in zip(names, rows, strict=True)
        ],
        {"title": {"text": f"precision, with {label}"}, "range": [-0.02, 1.02], "tickformat": ".0%"},
        finding=_precision_finding(table),
        summary=_precision_summary(table, label),
        rest=Omitted(len(table) - MAX_ROWS, "site", "sites"),
        provenance=provenance,
    )


def _no_precision_reason(row: dict[Any, Any]) -> str:
    if pd.notna(row["precision"]):
        return ""
    unsure = f"{row['unsure']:,} unsure, " if row["unsure"] else ""
    return f"{unsure}{row['unlabelled']:,} unlabelled"


def _precision_text(row: dict[Any, Any], label: str) -> str:
    if pd.isna(row["precision"]):
        return f"precision {NO_VALUE}, {_no_precision_reason(row)}"
    n = row["mine"] + row["not mine"]
    band = format_interval(row["low"], row["high"], percent, label)
    rest = f", {row['unlabelled']:,} unlabelled" if row["unlabelled"] else ""
    return f"precision {percent(row['precision'])}{band}, n = {pluralize(n, 'label')}{rest}"


def _precision_finding(table: pd.DataFrame) -> str:
    mine, n = int(table["mine"].sum()), int((table["mine"] + table["not mine"]).sum())
    if not n:
        return f"No listing is labelled yet ({int(table['unlabelled'].sum()):,} unlabelled)"
    sites = table[table["precision"].notna()]
    lowest = sites.iloc[int(sites["precision"].argmin())]
    lowest_text = (
        f"; lowest on {short(lowest['site'])}, {percent(lowest['precision'])}" if len(sites) > 1 else ""
    )
    return f"Precision {percent(mine / n)} ({mine:,} of {pluralize(n, 'labelled listing')}){lowest_text}"


def _precision_summary(table: pd.DataFrame, label: str) -> str:
    sites = table[table["precision"].notna()]
    rows = zip(row_labels(sites, "site"), sites.to_dict("records"), strict=True)
    texts = (
        f" {join_rows([f'{name}: {_precision_text(row, label)}' for name, row in rows])}"
        if len(sites)
        else ""
    )
    n = len(table) - len(sites)
    missing = f" Precision {NO_VALUE} on {pluralize(n, 'site')}." if n else ""
    unlabelled, unsure = int(table["unlabelled"].sum()), int(table["unsure"].sum())
    counts = f"{pluralize(unlabelled, 'listing')} unlabelled, {unsure:,} unsure."
    return f"{counts}{texts}{missing} Precision is estimated from labelled listings only."


def coverage(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the time since people's last complete load, by the outcome of their last load.

    Args:
        table: A table as returned by `analysis.coverage` or `History.coverage`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.coverage(history.coverage())
    Chart('The data of all ... people is complete and less than a day old')
    """
    check_input("coverage", table, ("last_complete_load", "people", *OUTCOMES))
    if table.empty or not table["people"].any():
        return empty_chart("No people to load", provenance=provenance)
    drawn = table.iloc[: 1 + int(table["people"].to_numpy().nonzero()[0].max())]  # no empty rows at the end
    names = [label_text(age) for age in drawn["last_complete_load"]]
    return row_chart(
        [
            *(_outcome_bars(outcome, drawn, names) for outcome in OUTCOMES if table[outcome].any()),
            annotations([f"{n:,}" for n in drawn["people"]], drawn["people"].tolist()),
        ],
        names,
        count_axis("people, by outcome of their last load", int(table["people"].max())),
        finding=_coverage_finding(table),
        summary=_coverage_summary(table),
        provenance=provenance,
    )


def _outcome_bars(outcome: str, table: pd.DataFrame, names: list[str]) -> go.Bar:
    people = [pluralize(n, "person", "people") for n in table[outcome]]
    hover = [
        f"last complete load: {name}<br>{n}, outcome of the last load: {outcome}"
        for name, n in zip(names, people, strict=True)
    ]
    return bars(outcome, table[outcome].tolist(), hover, _OUTCOME_STYLES[outcome])


def _coverage_finding(table: pd.DataFrame) -> str:
    people, recent = int(table["people"].sum()), int(table["people"].iloc[0])
    age = short(table["last_complete_load"].iloc[0])
    if recent == people:
        whose = f"all {people:,} people" if people > 1 else "the person"
        return f"The data of {whose} is complete and less than a day old"
    never = int(table.loc[table["last_complete_load"] == NEVER, "people"].sum())
    never_loaded = f"; {never:,} never" if never else ""
    were = f"{recent:,} of {pluralize(people, 'person', 'people')} {'was' if recent == 1 else 'were'}"
    return f"{were} loaded completely {age}{never_loaded}"


def _coverage_summary(table: pd.DataFrame) -> str:
    rows = [row for row in table.to_dict("records") if row["people"]]
    ages = [f"{short(row['last_complete_load'])} {row['people']:,}" for row in rows]
    outcomes = ", ".join(
        f"{int(table[outcome].sum()):,} {outcome}" for outcome in OUTCOMES if table[outcome].any()
    )
    return f"Last complete load: {'; '.join(ages)}. Outcome of the last load: {outcomes}."


def site_health(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the open and vanished listings of each site; sites that look broken are marked as doubtful.

    Args:
        table: A table as returned by `analysis.site_health` or `History.site_health`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.site_health(history.site_health())
    Chart('No site looks broken...')
    """
    check_input("site_health", table, _HEALTH)
    if table.empty:
        return empty_chart("No listings", provenance=provenance)
    order = ["is_doubtful", "vanished_at_once", "open"]
    ranked = table.sort_values(order, ascending=False, kind="stable", ignore_index=True)
    drawn = ranked.head(MAX_ROWS)
    names = [
        label_text(site) + (" (doubtful)" if doubtful else "")
        for site, doubtful in zip(drawn["site"], drawn["is_doubtful"], strict=True)
    ]
    hover = [
        f"{name}<br>{_health_text(row)}" for name, row in zip(names, drawn.to_dict("records"), strict=True)
    ]
    ends = (drawn["open"] + drawn[VANISHED]).tolist()
    texts = [_health_label(row) for row in drawn.to_dict("records")]
    return row_chart(
        [*_health_bars(drawn, hover), annotations(texts, ends)],
        names,
        count_axis("listings", int(max(ends)), room=_HEALTH_ROOM),
        finding=_health_finding(ranked),
        summary=_health_summary(ranked),
        rest=Omitted(len(ranked) - MAX_ROWS, "site", "sites"),
        provenance=provenance,
    )


def _health_bars(table: pd.DataFrame, hover: list[str]) -> list[go.Bar]:
    doubtful = table["is_doubtful"].astype("bool")
    parts = {
        "open": (table["open"], (BLUE, "")),
        _ONE_RUN: (table["vanished_at_once"].where(~doubtful, 0), (COLOURS[VANISHED], "\\")),
        f"{_ONE_RUN}, doubtful": (table["vanished_at_once"].where(doubtful, 0), (PURPLE, "x")),
        _OTHER_RUNS: (
            (table[VANISHED] - table["vanished_at_once"]).clip(lower=0),
            (COLOURS[OTHER], PATTERNS[OTHER]),
        ),
    }
    return [
        bars(name, n.tolist(), hover, style)
        for name, (n, style) in parts.items()
        if name == "open" or n.any()
    ]


def _health_label(row: dict[Any, Any]) -> str:
    vanished = f", {row[VANISHED]:,} vanished" if row[VANISHED] else ""
    return f"{row['open']:,} open{vanished}"


def _health_text(row: dict[Any, Any]) -> str:
    quiet = (
        "" if pd.isna(row["quiet_days"]) else f"; no change for {pluralize(int(row['quiet_days']), 'day')}"
    )
    return f"{row['open']:,} open, {row[VANISHED]:,} vanished, {row['vanished_at_once']:,} of them in one run{quiet}"


def _health_finding(table: pd.DataFrame) -> str:
    doubtful = table[table["is_doubtful"].astype("bool")]
    if len(doubtful):
        names = ", ".join(short(site) for site in doubtful["site"].head(3))
        rest = f" and {len(doubtful) - 3:,} more" if len(doubtful) > 3 else ""  # noqa: PLR2004  three are named
        return f"{pluralize(len(doubtful), 'site looks', 'sites look')} broken: {names}{rest}"
    most = int(table["vanished_at_once"].max())
    first = table[table["vanished_at_once"] == most]
    where = names_or_count(row_labels(first, "site"), "sites")
    largest = f"; at most {most:,} vanished in one run, on {where}"
    return f"No site looks broken{largest if most else ''}"


def _health_summary(table: pd.DataFrame) -> str:
    rows = zip(row_labels(table, "site"), table.to_dict("records"), strict=True)
    texts = [
        f"{name}{' (doubtful)' if row['is_doubtful'] else ''}: {_health_text(row)}" for name, row in rows
    ]
    return f"{pluralize(len(table), 'site')}. {join_rows(texts)}"
