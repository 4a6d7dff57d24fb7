"""Who is exposed where: listings by site, person and state, links by what they hold."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import NOT_STATED, OTHER, UNKNOWN, VANISHED
from exposurekit.analysis.questions import advice
from exposurekit.analysis.statuses import OPEN
from exposurekit.charts.bars import (
    SHOWN,
    WITHIN,
    annotations,
    as_rows,
    bars,
    group_rest,
    leaders,
    omitted_note,
    row_labels,
    rows_px,
    tied,
)
from exposurekit.charts.heatmap import cells, column_labels, grid_px
from exposurekit.charts.input import check_input
from exposurekit.charts.theme import (
    BLUE,
    COLOURS,
    PATTERNS,
    Chart,
    chart,
    count_axis,
    empty_chart,
    explained,
    label_text,
    pluralize,
    short,
)
from exposurekit.contract.types import REMOVED, STATUSES
from exposurekit.errors import MissingColumns

_COUNTED = (*STATUSES, OTHER)
_BEHIND = 1.16  # room for "12 open" behind the longest bar


@dataclass(frozen=True, slots=True)
class _Sentences:
    """What a chart of plain bars says.

    Attributes:
        empty: Where there is nothing to count.
        unnamed: One thing, or several, that fall under no name.
        all: All of them.
        show: What those that have one do, before the name that most of them have.
        names: What such names are, in the plural.
    """

    empty: str
    unnamed: tuple[str, str]
    all: str
    show: str
    names: str


_KINDS = _Sentences(
    "No links",
    ("link does not say what it holds", "links do not say what they hold"),
    "Pages",
    "show",
    "kinds",
)
_STATES = _Sentences(
    "No open listings",
    ("open listing names no state", "open listings name no state"),
    "Open listings",
    "place people in",
    "states",
)


def by_site(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Listings on each site, by status, as stacked bars; the site with most open on top, beyond 25 sites the rest in one row.

    Behind each bar stands how many of its listings are open.

    Args:
        table: As `analysis.by_site` gives it, or `History.by_site`.
        provenance: Where the figures come from and as of when; stands below the title.

    Returns:
        A figure whose title says the finding; `describe` gives it as text.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> figure = charts.by_site(analysis.by_site(exposure.records()), provenance=exposure.provenance)
    >>> [bar.name for bar in figure.data][:2]
    ['discovered', 'pending removal']
    """
    check_input("by_site", table, ("site", OPEN, *_COUNTED, "total"))
    return _stacked(table, "site", "sites", provenance)


def by_user(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Listings of each person, by status, as `by_site` draws them. People go by their ids.

    Args:
        table: As `analysis.by_user` gives it.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.by_user(analysis.by_user(exposure.records())).layout.yaxis.ticktext[0].startswith("user ")
    True
    """
    check_input("by_user", table, ("user_id", OPEN, *_COUNTED, "total"))
    people = table.assign(user_id="user " + table["user_id"].astype("str"))
    return _stacked(people, "user_id", "people", provenance)


def user_by_site(matrix: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Open listings of each person on each site, as a heat map of at most 25 by 25, the fullest first.

    Args:
        matrix: As `analysis.user_by_site` gives it.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``matrix`` is no such table: its rows are not people.

    >>> charts.user_by_site(analysis.user_by_site(exposure.records())).data[0].type
    'heatmap'
    """
    check_input("user_by_site", matrix, ())
    if matrix.index.name != "user_id":
        raise MissingColumns(
            "charts.user_by_site", ("user_id (as its index)",), advice=advice("user_by_site")
        )
    if matrix.empty or not matrix.to_numpy().any():
        return empty_chart("No open listings", summary=_sizes(matrix), provenance=provenance)
    shown = matrix.iloc[:SHOWN, :SHOWN]
    sites, people = [label_text(site) for site in shown.columns], [f"user {one}" for one in shown.index]
    n = shown.to_numpy()
    said = [
        [f"{person}, {site}<br>{one:,} open" for site, one in zip(sites, row, strict=True)]
        for person, row in zip(people, n, strict=True)
    ]
    total, full = int(matrix.to_numpy().sum()), int((matrix.to_numpy() > 0).sum())
    figure = chart(
        [cells(np.where(n > 0, n, np.nan), said, full=float(n.max()))],
        finding=f"{pluralize(total, 'open listing')} in {pluralize(full, 'pair')} of person and site",
        summary=f"{_sizes(matrix)} {_fullest(matrix)}.",
        provenance=provenance,
        height=grid_px(len(people)),
    )
    return column_labels(figure, people, sites)


def _fullest(matrix: pd.DataFrame) -> str:
    """Who has most open listings."""
    n = matrix.sum(axis=1)
    said = leaders([f"user {one}" for one in n.index], n.tolist(), "people", "has", "have")
    return said[0].upper() + said[1:]


def _sizes(matrix: pd.DataFrame) -> str:
    """How many people and sites there are, and how many of them are not drawn."""
    people, sites = matrix.shape
    missing = (
        pluralize(max(n - SHOWN, 0), *words) for n, *words in ((people, "person", "people"), (sites, "site"))
    )
    more = f" Not drawn: {', '.join(missing)}." if max(people, sites) > SHOWN else ""
    return f"{pluralize(people, 'person', 'people')} and {pluralize(sites, 'site')}.{more}"


def by_kind(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Links by the kind of data that they hold; beside each, of how many people.

    Args:
        table: As `analysis.by_kind` gives it.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.by_kind(analysis.by_kind(exposure.links())).layout.xaxis.title.text
    'links'
    """
    check_input("by_kind", table, ("kind", "links", "people"))
    return _plain_bars(table, "kind", "links", _KINDS, provenance)


def by_state(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Open listings by the state in which they place people; beside each, how many people.

    The title says how many listings name no state before it says which state is named most.

    Args:
        table: As `analysis.by_state` gives it.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.by_state(analysis.by_state(exposure.records())).layout.xaxis.title.text
    'listings'
    """
    check_input("by_state", table, ("state", "listings", "people"))
    return _plain_bars(table, "state", "listings", _STATES, provenance)


def _stacked(table: pd.DataFrame, by: str, groups: str, provenance: str) -> Chart:
    if table.empty:
        return empty_chart("No listings", provenance=provenance)
    shown = group_rest(table, by, groups)
    labels = [label_text(group) for group in shown[by]]
    drawn = [status for status in (*STATUSES, OTHER, VANISHED, UNKNOWN) if _is_drawn(status, table)]
    ends = shown[drawn].sum(axis=1).tolist()
    behind = annotations([f"{n:,} open" for n in shown[OPEN]], ends, name=OPEN)
    figure = chart(
        [*(_bar(status, shown, labels) for status in drawn), behind],
        finding=_finding(table, by),
        summary=_summary(table, by, groups),
        provenance=provenance,
        height=rows_px(len(shown)),
        barmode="stack",
    )
    figure.update_layout(xaxis=count_axis("listings", int(shown[drawn].sum(axis=1).max()), room=_BEHIND))
    return as_rows(figure, labels)


def _is_drawn(status: str, table: pd.DataFrame) -> bool:
    return status in STATUSES or (status in table and bool(table[status].any()))


def _bar(status: str, table: pd.DataFrame, labels: list[str]) -> go.Bar:
    said = [
        f"{name}<br>{n:,} {status}{explained(status)}<br>{of_these:,} open in all"
        for name, n, of_these in zip(labels, table[status], table[OPEN], strict=True)
    ]
    return bars(status, table[status].tolist(), said, (COLOURS[status], PATTERNS[status]))


def _plain_bars(table: pd.DataFrame, by: str, things: str, says: _Sentences, provenance: str) -> Chart:
    if table.empty:
        return empty_chart(says.empty, provenance=provenance)
    shown = table.head(SHOWN)
    names, people = row_labels(shown, by), [pluralize(int(n), "person", "people") for n in shown["people"]]
    rows = [*zip(names, shown[things].tolist(), people, strict=True)]
    labels = [label_text(name) for name in names]
    words = [f"{label}<br>{n:,} {things} of {of}" for label, (_, n, of) in zip(labels, rows, strict=True)]
    told = "; ".join(f"{name} {n:,} ({of})" for name, n, of in rows)
    figure = chart(
        [bars(things, shown[things].tolist(), words, (BLUE, ""), text=people, **WITHIN)],
        finding=_named_most(table, by, things, says),
        summary=f"{things.capitalize()} by {by}: {told}.{omitted_note(len(table) - SHOWN, by, f'{by}s')}",
        provenance=provenance,
        height=rows_px(len(labels)),
    )
    figure.update_layout(xaxis=count_axis(things, int(shown[things].max())))
    return as_rows(figure, labels)


def _named_most(table: pd.DataFrame, by: str, things: str, says: _Sentences) -> str:
    """How many fall under no name, and then the name that most fall under; a tie has no winner."""
    is_named = table[by] != NOT_STATED
    unnamed, rest = int(table.loc[~is_named, things].sum()), table[is_named]
    without = pluralize(unnamed, *says.unnamed)
    if rest.empty:
        return without
    top = rest.loc[rest[things] == rest[things].max()]
    each = f"{int(top[things].iloc[0]):,}{' each' if len(top) > 1 else ''}"
    who = f"{without}; the others" if unnamed else says.all
    return f"{who} {says.show} {tied(row_labels(top, by), says.names)} most often ({each})"


def _summary(table: pd.DataFrame, by: str, groups: str) -> str:
    counts = ", ".join(f"{int(table[name].sum()):,} {name}" for name in _COUNTED if table[name].any())
    alone = _alone(table)
    besides_most = f" Most open: {_first_three(alone[alone[OPEN] > 0], by)}." if alone[OPEN].any() else ""
    named_groups = f"{len(alone):,} {groups}{' and others' if len(alone) < len(table) else ''}"
    gone = [f"{int(table[name].sum()):,} {name}" for name in (VANISHED, UNKNOWN) if _is_drawn(name, table)]
    besides = f" No longer listed: {', '.join(gone)}." if gone else ""
    total = int(table["total"].sum())
    return f"{total:,} listings {'on' if groups == 'sites' else 'of'} {named_groups}: {counts}.{besides}{besides_most}"


def _alone(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of one site, or person, each: how many people are in several sites together, nobody says."""
    return table[table["people"].notna()] if "people" in table else table


def _finding(table: pd.DataFrame, by: str) -> str:
    if not table["total"].any():
        return "No listings"
    if not table[OPEN].any():
        n, removed = (int(table[name].sum()) for name in ("total", REMOVED))
        return (
            f"{'The only listing is' if n == 1 else f'All {n:,} listings are'} removed"
            if n == removed
            else "No listing is open"
        )
    left = f"{pluralize(int(table[OPEN].sum()), 'listing is', 'listings are')} open"
    alone = _alone(table)
    if not alone[OPEN].any():
        return left
    groups, *verbs = ("sites", "holds", "hold") if by == "site" else ("people", "has", "have")
    return f"{left}; {leaders([short(name) for name in alone[by]], alone[OPEN].tolist(), groups, *verbs)}"


def _first_three(table: pd.DataFrame, by: str) -> str:
    """The three with most open, and how many more have as many as the third."""
    first = table.head(3)
    rest = table.iloc[3:]
    said = "; ".join(f"{short(name)} {n:,}" for name, n in zip(first[by], first[OPEN], strict=True))
    alike = int((rest[OPEN] == first[OPEN].iloc[-1]).sum())
    return f"{said}; and {alike:,} more with {int(first[OPEN].iloc[-1]):,}" if alike else said
