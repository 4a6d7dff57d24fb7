"""Charts of counts: listings by site, user and state, and links by kind of data."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import NOT_STATED, OTHER, UNKNOWN, VANISHED
from exposurekit.analysis.counts import WHOLE
from exposurekit.analysis.statuses import OPEN
from exposurekit.charts.argument_checks import advice, check_input
from exposurekit.charts.bars import (
    MAX_ROWS,
    PERSON,
    Omitted,
    annotations,
    bars,
    group_rest,
    has_names,
    hide_names,
    leaders,
    names_or_count,
    person_labels,
    row_chart,
    row_labels,
)
from exposurekit.charts.heatmap import COLUMN_MAX, heatmap, heatmap_px, label_axes
from exposurekit.charts.theme import (
    BLUE,
    COLOURS,
    PATTERNS,
    Chart,
    chart,
    count_axis,
    definition_lines,
    empty_chart,
    label_text,
    short,
)
from exposurekit.contract.types import REMOVED, STATUSES
from exposurekit.errors import MissingColumns
from exposurekit.text.formatting import enumerate_words, pluralize

_STATUS_COLUMNS = (*STATUSES, OTHER)
_REST_MAX = 2  # times the longest bar: a longer one of the rest is not drawn
_TEXT_ROOM = 1.22  # for "12 of 37 open" behind the longest bar


class _Wording(NamedTuple):
    """The wording of a simple bar chart: ``empty`` is the title without rows, ``not_stated`` counts items without a value."""

    empty: str
    not_stated: tuple[str, str]
    subject: str
    verb: str
    values: str


_NO_KIND = ("1 link does not state its contents", "{n} links do not state their contents")
_KINDS = _Wording("No links", _NO_KIND, "Pages", "show", "kinds")
_NO_STATE = (
    "The state of 1 open listing is not recognised",
    "The state of {n} open listings is not recognised",
)
_STATES = _Wording("No open listings", _NO_STATE, "Open listings", "name", "states")


def by_site(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw listings per site and status as stacked bars, with the number of open listings behind each.

    The site with most open listings is at the top. Sites after the first `MAX_ROWS` share one row.

    Args:
        table: A table as returned by `analysis.by_site` or `History.by_site`.
        provenance: Source and date of the data, shown below the title.

    Returns:
        A figure whose title is the finding. `describe` returns its alternative text.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> figure = charts.by_site(analysis.by_site(exposure.records()), provenance=exposure.provenance)
    >>> [bar.name for bar in figure.data][:2]
    ['discovered', 'pending removal']
    """
    check_input("by_site", table, ("site", OPEN, *_STATUS_COLUMNS, "total"))
    return _stacked(table, "site", "sites", provenance)


def by_user(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw listings per person and status, as `by_site` does.

    People are labelled by the name in ``person``, which `Exposure.with_people` adds; without it, by id.

    Args:
        table: A table as returned by `analysis.by_user`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.by_user(analysis.by_user(exposure.records())).layout.yaxis.ticktext[0].startswith("user ")
    True
    """
    check_input("by_user", table, ("user_id", OPEN, *_STATUS_COLUMNS, "total"))
    counts = table.drop(columns=PERSON, errors="ignore")
    figure = _stacked(counts.assign(user_id=person_labels(table)), "user_id", "people", provenance)
    by_id = counts.assign(user_id=row_labels(table, "user_id"))
    return hide_names(figure, _finding(by_id, "user_id")) if has_names(table) else figure


def user_by_site(matrix: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw open listings per person and site as a heat map of at most `MAX_ROWS` rows and columns, highest counts first.

    People and sites without open listings are left out. People are labelled as in `by_user`.

    Args:
        matrix: A table as returned by `analysis.user_by_site`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: The index of ``matrix`` is not ``user_id``.

    >>> charts.user_by_site(analysis.user_by_site(exposure.records())).data[0].type
    'heatmap'
    """
    check_input("user_by_site", matrix, ())
    if matrix.index.name != "user_id":
        raise MissingColumns(
            "charts.user_by_site", ("user_id (as its index)",), advice=advice("user_by_site")
        )
    labels = pd.Series(person_labels(matrix.reset_index()), matrix.index, dtype="str")
    matrix = matrix.drop(columns=PERSON) if has_names(matrix) else matrix
    if matrix.empty or not matrix.to_numpy().any():
        return empty_chart("No open listings", summary=_sizes(matrix), provenance=provenance)
    drawn = matrix.loc[matrix.any(axis=1), matrix.any(axis=0)].iloc[:MAX_ROWS, :MAX_ROWS]
    sites = [label_text(site) for site in drawn.columns]
    people = [label_text(labels[user_id]) for user_id in drawn.index]
    n = drawn.to_numpy()
    hover = [
        [f"{person}, {site}<br>{count:,} open" for site, count in zip(sites, row, strict=True)]
        for person, row in zip(people, n, strict=True)
    ]
    total, pairs = int(matrix.to_numpy().sum()), int((matrix.to_numpy() > 0).sum())
    figure = chart(
        [heatmap(np.where(n > 0, n, np.nan), hover, zmax=float(n.max()))],
        finding=f"{pluralize(total, 'open listing')} in {pluralize(pairs, 'pair')} of person and site",
        summary=f"{_sizes(matrix)} {_leading_person(matrix, labels.tolist())}.",
        provenance=provenance,
        height=heatmap_px(len(people)),
    )
    return label_axes(figure, people, [label_text(site, max_length=COLUMN_MAX) for site in drawn.columns])


def _leading_person(matrix: pd.DataFrame, people: list[str]) -> str:
    text = leaders(people, matrix.sum(axis=1).tolist(), "people", "open listings")
    return text[0].upper() + text[1:]


def _sizes(matrix: pd.DataFrame) -> str:
    """How many people and sites there are, how many of them have nothing open, and how many rows and columns are left out."""
    sizes = []
    without: list[str] = []
    omitted: list[str] = []
    for has_open, words in (
        (matrix.any(axis=1), ("person", "people")),
        (matrix.any(axis=0), ("site", "sites")),
    ):
        n_open = int(has_open.sum())
        sizes.append(pluralize(len(has_open), *words))
        without += [pluralize(len(has_open) - n_open, *words)] if 0 < n_open < len(has_open) else []
        omitted += [pluralize(n_open - MAX_ROWS, *words)] if n_open > MAX_ROWS else []
    nothing_open = f" Without open listings: {' and '.join(without)}." if without else ""
    not_drawn = f" Not drawn: {', '.join(omitted)}." if omitted else ""
    return f"{' and '.join(sizes)}.{nothing_open}{not_drawn}"


def by_kind(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw links per kind of data as bars, labelled with the number of people.

    Args:
        table: A table as returned by `analysis.by_kind`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.by_kind(analysis.by_kind(exposure.links())).layout.xaxis.title.text
    'links'
    """
    check_input("by_kind", table, ("kind", "links", "people"))
    return _simple_bars(table, "kind", "links", _KINDS, provenance)


def by_state(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw open listings per state as bars, labelled with the number of people.

    Args:
        table: A table as returned by `analysis.by_state`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.by_state(analysis.by_state(exposure.records())).layout.xaxis.title.text
    'listings'
    """
    check_input("by_state", table, ("state", "listings", "people"))
    return _simple_bars(table, "state", "listings", _STATES, provenance)


def _stacked(table: pd.DataFrame, by: str, groups: str, provenance: str) -> Chart:
    if table.empty:
        return empty_chart("No listings", provenance=provenance)
    rows = group_rest(table, by, groups)
    labels = [label_text(group) for group in rows[by]]
    statuses = [status for status in (*STATUSES, OTHER, VANISHED, UNKNOWN) if _is_drawn(status, table)]
    ends = rows[statuses].sum(axis=1).tolist()
    texts = [f"{n:,} of {end:,} open" for n, end in zip(rows[OPEN].tolist(), ends, strict=True)]
    if len(rows) > MAX_ROWS and ends[-1] > _REST_MAX * max(ends[:-1]):  # its bar would dwarf all others
        rows = rows.copy()
        rows.loc[MAX_ROWS, statuses] = 0
        ends[-1], texts[-1] = 0, f"{texts[-1]}, not drawn"
    return row_chart(
        [*(_bar(status, rows, labels) for status in statuses), annotations(texts, ends, name=OPEN)],
        labels,
        count_axis("listings", int(max(ends)), room=_TEXT_ROOM),
        finding=_finding(table, by),
        summary=_summary(table, by, groups),
        provenance=provenance,
    )


def _is_drawn(status: str, table: pd.DataFrame) -> bool:
    return status in STATUSES or (status in table and bool(table[status].any()))


def _bar(status: str, table: pd.DataFrame, labels: list[str]) -> go.Bar:
    hover = [
        f"{name}<br>{n:,} {status}{definition_lines(status)}<br>{n_open:,} open in total"
        for name, n, n_open in zip(labels, table[status], table[OPEN], strict=True)
    ]
    return bars(status, table[status].tolist(), hover, (COLOURS[status], PATTERNS[status]))


def _simple_bars(table: pd.DataFrame, by: str, n_column: str, wording: _Wording, provenance: str) -> Chart:
    if table.empty:
        return empty_chart(wording.empty, provenance=provenance)
    drawn = table.head(MAX_ROWS)
    names, people = row_labels(drawn, by), [pluralize(int(n), "person", "people") for n in drawn["people"]]
    rows = [*zip(names, drawn[n_column].tolist(), people, strict=True)]
    labels = [label_text(name) for name in names]
    hover = [
        f"{label}<br>{n:,} {n_column} of {persons}"
        for label, (_, n, persons) in zip(labels, rows, strict=True)
    ]
    texts = "; ".join(f"{name} {n:,} ({persons})" for name, n, persons in rows)
    return row_chart(
        [
            bars(n_column, drawn[n_column].tolist(), hover, (BLUE, "")),
            annotations([f"{n:,} ({persons})" for _, n, persons in rows], drawn[n_column].tolist()),
        ],
        labels,
        count_axis(n_column, int(drawn[n_column].max()), room=_TEXT_ROOM),
        finding=_most_frequent(table, by, n_column, wording),
        summary=f"{n_column.capitalize()} by {by}: {texts}.",
        rest=Omitted(len(table) - MAX_ROWS, by, f"{by}s"),
        provenance=provenance,
    )


def _most_frequent(table: pd.DataFrame, by: str, n_column: str, wording: _Wording) -> str:
    is_stated = table[by] != NOT_STATED
    n, stated = int(table.loc[~is_stated, n_column].sum()), table[is_stated]
    not_stated = wording.not_stated[n != 1].format(n=f"{n:,}")
    if stated.empty:
        return not_stated
    top = stated.loc[stated[n_column] == stated[n_column].max()]
    each = f"{int(top[n_column].iloc[0]):,}{' each' if len(top) > 1 else ''}"
    subject = f"{not_stated}; the others" if n else wording.subject
    return (
        f"{subject} {wording.verb} {names_or_count(row_labels(top, by), wording.values)} most often ({each})"
    )


def _summary(table: pd.DataFrame, by: str, groups: str) -> str:
    counts = ", ".join(f"{int(table[name].sum()):,} {name}" for name in _STATUS_COLUMNS if table[name].any())
    single = _single_groups(table)
    most = f" Most open: {_first_three(single[single[OPEN] > 0], by)}." if single[OPEN].any() else ""
    one = "site" if groups == "sites" else "person"
    n_groups = f"{pluralize(len(single), one, groups)}{' and others' if len(single) < len(table) else ''}"
    unlisted = _unlisted(table)
    no_longer = f" No longer listed: {', '.join(unlisted)}." if unlisted else ""
    total = int(table["total"].sum())
    listings = f"{pluralize(total, 'listing')} {'on' if groups == 'sites' else 'of'} {n_groups}"
    return f"{listings}{f': {counts}' if counts else ''}.{no_longer}{most}"


def _unlisted(table: pd.DataFrame) -> list[str]:
    """How many listings vanished or are unknown, in words."""
    return [f"{int(table[name].sum()):,} {name}" for name in (VANISHED, UNKNOWN) if _is_drawn(name, table)]


def _single_groups(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of single groups; a row that sums up several has no number of people."""
    return table[table["people"].notna()] if "people" in table else table


def _finding(table: pd.DataFrame, by: str) -> str:
    unlisted = _unlisted(table)
    n_open, whole = int(table[OPEN].sum()), table.attrs.get(WHOLE, {})
    is_part = len(table) < whole.get("rows", 0)
    is_less = is_part and n_open < whole[OPEN]
    these = f" {_these(len(table), by)}" if is_part else ""
    if not table["total"].any() and not unlisted:
        return f"No listings{these}"
    if not n_open:
        n, removed = (int(table[name].sum()) for name in ("total", REMOVED))
        if unlisted:
            return f"No listing{these} is open; {enumerate_words([f'{removed:,} {REMOVED}', *unlisted])}"
        return (
            f"{f'The only listing{these} is' if n == 1 else f'All {n:,} listings{these} are'} removed"
            if n == removed
            else f"No listing{these} is open"
        )
    total = f"{pluralize(n_open, 'listing is', 'listings are')} open"
    if is_less:
        total = (
            f"{n_open:,} of {pluralize(whole[OPEN], 'open listing')} {'is' if n_open == 1 else 'are'}{these}"
        )
    single = _single_groups(table)
    if not single[OPEN].any() or (is_less and len(single) == 1):
        return total
    names, groups = [short(name) for name in single[by]], "sites" if by == "site" else "people"
    most = leaders(names, single[OPEN].tolist(), groups, "open listings")
    return f"{total}; {'of these, ' if is_less else ''}{most}"


def _these(n: int, by: str) -> str:
    """The groups of some rows: ``on these 3 sites``."""
    if by == "site":
        return "on this site" if n == 1 else f"on these {n:,} sites"
    return "of this person" if n == 1 else f"of these {n:,} people"


def _first_three(table: pd.DataFrame, by: str) -> str:
    first = table.head(3)
    rest = table.iloc[3:]
    texts = "; ".join(f"{short(name)} {n:,}" for name, n in zip(first[by], first[OPEN], strict=True))
    tied = int((rest[OPEN] == first[OPEN].iloc[-1]).sum())
    return f"{texts}; and {tied:,} more with {int(first[OPEN].iloc[-1]):,}" if tied else texts
