"""Who is exposed where: listings by site, person and state, links by what they hold."""

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import OTHER, UNKNOWN, VANISHED
from exposurekit.charts.figure import (
    BLUE,
    COLOURS,
    PATTERNS,
    Chart,
    chart,
    counted,
    named,
    nothing,
    several,
    short,
)
from exposurekit.charts.grid import across, cells, grid_px
from exposurekit.charts.rows import SHOWN, WITHIN, bars, called, in_rows, left_out, rows_px, together
from exposurekit.contract.values import REMOVED, STATUSES
from exposurekit.errors import MissingColumns

_COUNTED = (*STATUSES, OTHER)


def by_site(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Listings on each site, by status, as stacked bars; beyond 25 sites the rest stand together.

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
    MissingColumns.check("charts.by_site", table.columns, ("site", *_COUNTED, "total"))
    return _stacked(table, "site", "sites", provenance)


def by_user(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Listings of each person, by status, as stacked bars; beyond 25 people the rest stand together. People are told by id.

    Args:
        table: As `analysis.by_user` gives it.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.by_user(analysis.by_user(exposure.records())).layout.yaxis.ticktext[0].startswith("user ")
    True
    """
    MissingColumns.check("charts.by_user", table.columns, ("user_id", *_COUNTED, "total"))
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
    if matrix.index.name != "user_id":
        raise MissingColumns("charts.user_by_site", ("user_id (as its index)",))
    if matrix.empty or not matrix.to_numpy().any():
        return nothing("No open listings", summary=_sizes(matrix), provenance=provenance)
    shown = matrix.iloc[:SHOWN, :SHOWN]
    sites, people = [named(site) for site in shown.columns], [f"user {one}" for one in shown.index]
    n = shown.to_numpy()
    said = [
        [f"{person}, {site}<br>{one:,} open" for site, one in zip(sites, row, strict=True)]
        for person, row in zip(people, n, strict=True)
    ]
    total, full = int(matrix.to_numpy().sum()), int((matrix.to_numpy() > 0).sum())
    figure = chart(
        [cells(np.where(n > 0, n, np.nan), said, full=float(n.max()))],
        finding=f"{several(total, 'open listing')} in {several(full, 'pair')} of person and site",
        summary=f"{_sizes(matrix)} Most: user {matrix.index[0]}, {int(matrix.iloc[0].sum())}.",
        provenance=provenance,
        height=grid_px(len(people)),
    )
    return across(figure, people, sites)


def _sizes(matrix: pd.DataFrame) -> str:
    """How many people and sites there are, and how many of them are not drawn."""
    people, sites = matrix.shape
    missing = (
        several(max(n - SHOWN, 0), *words) for n, *words in ((people, "person", "people"), (sites, "site"))
    )
    more = f" Not drawn: {', '.join(missing)}." if max(people, sites) > SHOWN else ""
    return f"{several(people, 'person', 'people')} and {several(sites, 'site')}.{more}"


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
    MissingColumns.check("charts.by_kind", table.columns, ("kind", "links", "people"))
    said = {True: "Pages show {most} most often", False: "No links"}
    return _plain_bars(table, "kind", "links", said, provenance)


def by_state(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Open listings by the state in which they place people; beside each, how many people.

    Args:
        table: As `analysis.by_state` gives it.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.by_state(analysis.by_state(exposure.records())).layout.xaxis.title.text
    'listings'
    """
    MissingColumns.check("charts.by_state", table.columns, ("state", "listings", "people"))
    said = {True: "Open listings place people in {most} most often", False: "No open listings"}
    return _plain_bars(table, "state", "listings", said, provenance)


def _stacked(table: pd.DataFrame, by: str, groups: str, provenance: str) -> Chart:
    if table.empty:
        return nothing("No listings", provenance=provenance)
    shown = together(table, by, groups)
    labels = [named(group) for group in shown[by]]
    drawn = [status for status in (*STATUSES, OTHER, VANISHED, UNKNOWN) if _is_drawn(status, table)]
    figure = chart(
        [_bar(status, shown, labels) for status in drawn],
        finding=_finding(table, by),
        summary=_summary(table, by, groups),
        provenance=provenance,
        height=rows_px(len(shown)),
        barmode="stack",
    )
    figure.update_layout(xaxis=counted("listings", int(shown[drawn].sum(axis=1).max())))
    return in_rows(figure, labels)


def _is_drawn(status: str, table: pd.DataFrame) -> bool:
    return status in STATUSES or (status in table and bool(table[status].any()))


def _bar(status: str, table: pd.DataFrame, labels: list[str]) -> go.Bar:
    said = [f"{name}<br>{n:,} {status}" for name, n in zip(labels, table[status], strict=True)]
    return bars(status, table[status].tolist(), said, (COLOURS[status], PATTERNS[status]))


def _plain_bars(table: pd.DataFrame, by: str, things: str, said: dict[bool, str], provenance: str) -> Chart:
    if table.empty:
        return nothing(said[False], provenance=provenance)
    shown = table.head(SHOWN)
    names, people = called(shown, by), [several(int(n), "person", "people") for n in shown["people"]]
    rows = [*zip(names, shown[things].tolist(), people, strict=True)]
    labels = [named(name) for name in names]
    words = [f"{label}<br>{n:,} {things} of {of}" for label, (_, n, of) in zip(labels, rows, strict=True)]
    told = "; ".join(f"{name} {n:,} ({of})" for name, n, of in rows)
    figure = chart(
        [bars(things, shown[things].tolist(), words, (BLUE, ""), text=people, **WITHIN)],
        finding=said[True].format(most=names[0]),
        summary=f"{things.capitalize()} by {by}: {told}.{left_out(len(table) - SHOWN, by, f'{by}s')}",
        provenance=provenance,
        height=rows_px(len(labels)),
    )
    figure.update_layout(xaxis=counted(things, int(shown[things].max())))
    return in_rows(figure, labels)


def _summary(table: pd.DataFrame, by: str, groups: str) -> str:
    counts = ", ".join(f"{int(table[name].sum()):,} {name}" for name in _COUNTED if table[name].any())
    alone = _alone(table)
    top = alone.head(3)
    most = "; ".join(f"{short(name)} {total}" for name, total in zip(top[by], top["total"], strict=True))
    besides_most = f" Most in all: {most}." if most else ""
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
    unremoved = table["total"] - table[REMOVED]
    if not unremoved.any():
        return f"All {int(table['total'].sum())} listings are removed"
    left = f"{several(int(unremoved.sum()), 'listing is', 'listings are')} not removed yet"
    of_one = unremoved[_alone(table).index]
    if not of_one.any():
        return left
    has = "holds" if by == "site" else "has"
    return f"{left}; {short(_alone(table)[by].iloc[int(of_one.argmax())])} {has} most, {int(of_one.max())}"
