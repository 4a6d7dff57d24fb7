"""Whether the numbers can be trusted: findings that are the person's, who was seen well, which sites look broken. Takes no silence for a yes."""

from typing import Any

import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import OTHER, VANISHED
from exposurekit.analysis.data_quality import NEVER, OUTCOMES
from exposurekit.charts.bars import (
    SHOWN,
    annotations,
    as_rows,
    bars,
    join_rows,
    omitted_note,
    points,
    row_labels,
    rows_px,
    tied,
    whiskers,
)
from exposurekit.charts.input import check_input
from exposurekit.charts.theme import (
    BLUE,
    COLOURS,
    GREEN,
    NOT_KNOWN,
    ORANGE,
    PATTERNS,
    PURPLE,
    SKY,
    VERMILION,
    Chart,
    chart,
    count_axis,
    empty_chart,
    label_text,
    percent,
    pluralize,
    short,
)

_SHARES = ("site", "mine", "not mine", "unsure", "unlabelled", "precision", "low", "high")
_HEALTH = ("site", "open", VANISHED, "vanished_at_once", "quiet_days", "is_doubtful")
_LOOKS = dict(
    zip(
        OUTCOMES,
        ((GREEN, "."), (ORANGE, "/"), (VERMILION, "x"), (PURPLE, "\\"), (COLOURS[OTHER], "-")),
        strict=True,
    )
)
_AT_ONCE, _BEFORE = "vanished at once", "vanished at other times"


def precision(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """What share of each site's findings are the person's, with its interval; what nobody labelled is said in grey.

    Args:
        table: As `analysis.precision` gives it, or `History.precision`.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.precision(history.precision())
    Chart('No finding is labelled yet; ... wait')
    """
    check_input("precision", table, _SHARES)
    if table.empty:
        return empty_chart("There are no findings to label", provenance=provenance)
    shown, rows = table.head(SHOWN), table.head(SHOWN).to_dict("records")
    names = [label_text(site) for site in shown["site"]]
    said = [f"{name}<br>{_share(row)}" for name, row in zip(names, rows, strict=True)]
    figure = chart(
        [
            whiskers(shown["low"].tolist(), shown["high"].tolist()),
            points(shown["precision"].tolist(), said, symbol="circle", colour=BLUE),
            annotations([_no_share(row) for row in rows]),
        ],
        finding=_own(table),
        summary=_labelled(table) + omitted_note(len(table) - SHOWN, "site", "sites"),
        provenance=provenance,
        height=rows_px(len(shown)),
    )
    figure.update_xaxes(
        title_text="share of labelled findings that are the person's", range=[-0.02, 1.02], tickformat=".0%"
    )
    return as_rows(
        figure,
        [f"{name} (n {row['mine'] + row['not mine']:,})" for name, row in zip(names, rows, strict=True)],
    )


def _no_share(row: dict[Any, Any]) -> str:
    """Why a site has no share; nothing where it has one."""
    if pd.notna(row["precision"]):
        return ""
    unsure = f"{row['unsure']:,} unsure, " if row["unsure"] else ""
    return f"{unsure}{row['unlabelled']:,} not labelled"


def _share(row: dict[Any, Any]) -> str:
    if pd.isna(row["precision"]):
        return f"share {NOT_KNOWN}, {_no_share(row)}"
    n = row["mine"] + row["not mine"]
    rest = f", {row['unlabelled']:,} not labelled" if row["unlabelled"] else ""
    return f"{percent(row['precision'])} ({percent(row['low'])} to {percent(row['high'])}) of {n:,} labelled{rest}"


def _own(table: pd.DataFrame) -> str:
    mine, other = int(table["mine"].sum()), int(table["not mine"].sum())
    if not mine + other:
        return f"No finding is labelled yet; {pluralize(int(table['unlabelled'].sum()), 'waits', 'wait')}"
    known = table[table["precision"].notna()]
    least = known.iloc[int(known["precision"].argmin())]
    worst = f"; fewest on {short(least['site'])}, {percent(least['precision'])}" if len(known) > 1 else ""
    return f"{mine:,} of {pluralize(mine + other, 'labelled finding')} are the person's{worst}"


def _labelled(table: pd.DataFrame) -> str:
    known = table[table["precision"].notna()]
    rows = zip(row_labels(known, "site"), known.to_dict("records"), strict=True)
    said = f" {join_rows([f'{name}: {_share(row)}' for name, row in rows])}" if len(known) else ""
    without = len(table) - len(known)
    none = f" On {pluralize(without, 'site')} the share is {NOT_KNOWN}." if without else ""
    waiting, unsure = int(table["unlabelled"].sum()), int(table["unsure"].sum())
    counts = f"{pluralize(waiting, 'finding')} not labelled, {unsure:,} unsure."
    return f"{counts}{said}{none} The share is of what was labelled."


def coverage(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """How long ago people were last seen well, and how the last look at them went.

    Args:
        table: As `analysis.coverage` gives it, or `History.coverage`.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.coverage(history.coverage())
    Chart('... seen well within a day...')
    """
    check_input("coverage", table, ("last_seen_well", "people", *OUTCOMES))
    if table.empty or not table["people"].any():
        return empty_chart("There is nobody to be seen", provenance=provenance)
    names = [label_text(when) for when in table["last_seen_well"]]
    figure = chart(
        [_load_counts(outcome, table, names) for outcome in OUTCOMES if table[outcome].any()],
        finding=_observed_note(table),
        summary=_times(table),
        provenance=provenance,
        height=rows_px(len(table)),
        barmode="stack",
    )
    most = int(table["people"].max())
    figure.update_layout(xaxis=count_axis("people, by how the last look at them went", most))
    return as_rows(figure, names)


def _load_counts(outcome: str, table: pd.DataFrame, names: list[str]) -> go.Bar:
    people = [pluralize(n, "person", "people") for n in table[outcome]]
    said = [
        f"last seen well: {name}<br>{n}, last look {outcome}" for name, n in zip(names, people, strict=True)
    ]
    return bars(outcome, table[outcome].tolist(), said, _LOOKS[outcome])


def _observed_note(table: pd.DataFrame) -> str:
    people, well = int(table["people"].sum()), int(table["people"].iloc[0])
    freshest = short(table["last_seen_well"].iloc[0])
    if well == people:
        return f"All {pluralize(people, 'person was', 'people were')} seen well {freshest}"
    never = int(table.loc[table["last_seen_well"] == NEVER, "people"].sum())
    unseen = f"; {never:,} never {'was' if never == 1 else 'were'}" if never else ""
    return f"{well:,} of {pluralize(people, 'person was', 'people were')} seen well {freshest}{unseen}"


def _times(table: pd.DataFrame) -> str:
    rows = [row for row in table.to_dict("records") if row["people"]]
    said = [f"{short(row['last_seen_well'])} {row['people']:,}" for row in rows]
    went = ", ".join(
        f"{int(table[outcome].sum()):,} {outcome}" for outcome in OUTCOMES if table[outcome].any()
    )
    return f"Last seen well: {'; '.join(said)}. Last looks: {went}."


def site_health(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """How many listings of each site are open, and how many vanished in one look; sites that look broken say so.

    Args:
        table: As `analysis.site_health` gives it, or `History.site_health`.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.site_health(history.site_health())
    Chart('No site looks broken...')
    """
    check_input("site_health", table, _HEALTH)
    if table.empty:
        return empty_chart("No site has a listing", provenance=provenance)
    order = ["is_doubtful", "vanished_at_once", "open"]
    ranked = table.sort_values(order, ascending=False, kind="stable", ignore_index=True)
    shown = ranked.head(SHOWN)
    names = [
        label_text(site) + (" (doubtful)" if doubtful else "")
        for site, doubtful in zip(shown["site"], shown["is_doubtful"], strict=True)
    ]
    said = [f"{name}<br>{_how(row)}" for name, row in zip(names, shown.to_dict("records"), strict=True)]
    figure = chart(
        _standing(shown, said),
        finding=_broken(ranked),
        summary=_states(ranked) + omitted_note(len(ranked) - SHOWN, "site", "sites"),
        provenance=provenance,
        height=rows_px(len(shown)),
        barmode="stack",
    )
    figure.update_layout(xaxis=count_axis("listings", int((shown["open"] + shown[VANISHED]).max())))
    return as_rows(figure, names)


def _standing(table: pd.DataFrame, said: list[str]) -> list[go.Bar]:
    doubtful = table["is_doubtful"].astype("bool")
    parts = {
        "open": (table["open"], (BLUE, "")),
        _AT_ONCE: (table["vanished_at_once"].where(~doubtful, 0), (SKY, "\\")),
        f"{_AT_ONCE}, doubtful": (table["vanished_at_once"].where(doubtful, 0), (VERMILION, "x")),
        _BEFORE: (
            (table[VANISHED] - table["vanished_at_once"]).clip(lower=0),
            (COLOURS[OTHER], PATTERNS[OTHER]),
        ),
    }
    return [
        bars(name, n.tolist(), said, look) for name, (n, look) in parts.items() if name == "open" or n.any()
    ]


def _how(row: dict[Any, Any]) -> str:
    quiet = "" if pd.isna(row["quiet_days"]) else f"; nothing changed for {row['quiet_days']:,.1f} days"
    return f"{row['open']:,} open, {row[VANISHED]:,} vanished, {row['vanished_at_once']:,} of them at once{quiet}"


def _broken(table: pd.DataFrame) -> str:
    doubtful = table[table["is_doubtful"].astype("bool")]
    if len(doubtful):
        names = ", ".join(short(site) for site in doubtful["site"].head(3))
        rest = f" and {len(doubtful) - 3:,} more" if len(doubtful) > 3 else ""  # noqa: PLR2004  three are named
        return (
            f"{pluralize(len(doubtful), 'site looks', 'sites look')} broken rather than left: {names}{rest}"
        )
    most = int(table["vanished_at_once"].max())
    first = table[table["vanished_at_once"] == most]
    where = tied(row_labels(first, "site"), "sites")
    largest = f"; the most that vanished at once is {most:,}, on {where}"
    return f"No site looks broken{largest if most else ''}"


def _states(table: pd.DataFrame) -> str:
    rows = zip(row_labels(table, "site"), table.to_dict("records"), strict=True)
    said = [f"{name}{' (doubtful)' if row['is_doubtful'] else ''}: {_how(row)}" for name, row in rows]
    return f"{pluralize(len(table), 'site')}. {join_rows(said)}"
