"""How counts went, why they moved and where they go. Carries no number across days on which nobody looked."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from exposurekit.analysis import OTHER, UNKNOWN, VANISHED
from exposurekit.charts.area import LINES, areas, lines
from exposurekit.charts.bars import leaders, more, row_labels
from exposurekit.charts.forecast import horizons
from exposurekit.charts.input import check_input
from exposurekit.charts.theme import Chart, chart, empty_chart, pluralize, short
from exposurekit.charts.time_gaps import Stretches, stretches
from exposurekit.charts.waterfall import OPEN, SCORE, cascade
from exposurekit.contract.types import REMOVED

_NO_STATUS = ("period", "at", "site", "user_id", "total", "people", "unseen", VANISHED, UNKNOWN)
_NEEDED = ("period", "at", "total", VANISHED, UNKNOWN)
_GROUPS = {"site": ("site", "sites", "holds", "hold"), "user_id": ("person", "people", "has", "have")}


def status_over_time(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """How many had each status over time, as stacked areas; by site or person, how many are open of the eight fullest.

    A time in which nobody looked is hatched in grey: nothing is carried across it. Where the last look did not see
    everybody well there is a mark.

    Args:
        table: As `analysis.status_over_time` gives it, or `History.status_over_time`; whatever its ``by``.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> figure = charts.status_over_time(history.status_over_time(), provenance=exposure.provenance)
    >>> figure.data[0].name
    'discovered'
    """
    check_input("status_over_time", table, _NEEDED)
    if table.empty:
        return empty_chart("Nobody has looked yet", provenance=provenance)
    by = next((name for name in _GROUPS if name in table), None)
    return _by_status(table, provenance) if by is None else _by_group(table, by, provenance)


def changes(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Why the number of open things moved, as a waterfall; what only came into view, or went out of it, stands apart.

    Args:
        table: As `analysis.changes` gives it: ``why`` of `History.diff`.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> moved = history.diff(history.last_run().finished_at)
    >>> charts.changes(moved.why)
    Chart('... are open, as many as before')
    """
    check_input("changes", table, ("cause", "n", "open"))
    if table.empty:
        return empty_chart("No change is known", provenance=provenance)
    return cascade(table, provenance, OPEN)


def score_changes(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Why a score moved, as a waterfall; what only came into view, or went out of it, stands apart.

    Args:
        table: As `analysis.score_changes` gives it, or `History.score_changes`.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.score_changes(history.score_changes(history.last_run().finished_at))
    Chart('... points in all, as many as before')
    """
    check_input("score_changes", table, ("cause", "n", "score"))
    if table.empty:
        return empty_chart("No change is known", provenance=provenance)
    return cascade(table, provenance, SCORE)


def forecast(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """How many listings are expected to be open, with the interval: of those open now, gone now, and not listed yet.

    Args:
        table: As returned by `analysis.forecast`. Where there is no number, the chart gives the reason instead.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> "no forecast" in charts.describe(charts.forecast(history.forecast()))
    True
    """
    needed = ("days", "open_now", "of_open", "of_gone", "of_new", "open", "low", "high", "beyond", "reason")
    check_input("forecast", table, needed)
    if table.empty:
        return empty_chart("Nothing was asked of the time ahead", provenance=provenance)
    return horizons(table.sort_values("days", ignore_index=True), provenance)


def _by_status(table: pd.DataFrame, provenance: str) -> Chart:
    rows = table.sort_values("period", ignore_index=True)
    when, statuses = stretches(rows["period"]), _statuses(rows)
    figure = chart(
        areas(rows, statuses, when),
        finding=_finding(rows),
        summary=_summary(rows, statuses, when),
        provenance=provenance,
        hovermode="x unified",
    )
    return _dated(figure, "listings" if REMOVED in rows else "things")


def _statuses(table: pd.DataFrame) -> list[str]:
    """What is stacked: every status of the service, and what is no longer listed where there is any."""
    own = [str(name) for name in table if name not in _NO_STATUS and (name != OTHER or table[name].any())]
    return [*own, *(name for name in (VANISHED, UNKNOWN) if table[name].any())]


def _open(table: pd.DataFrame) -> "pd.Series[int]":
    """What is listed and not removed."""
    return table["total"] - table[REMOVED] if REMOVED in table else table["total"]


def _dated(figure: Chart, things: str) -> Chart:
    figure.update_yaxes(title_text=things, rangemode="tozero", tickformat=",d")
    figure.update_xaxes(type="date", title_text="UTC", hoverformat="%Y-%m-%d %H:%M")
    return figure


def _finding(rows: pd.DataFrame) -> str:
    open_, total = _open(rows), int(rows["total"].iloc[-1])
    if not rows["total"].any():
        return "Nothing was listed so far"
    now, most = int(open_.iloc[-1]), int(open_.max())
    of = f"{now:,} of {pluralize(total, 'listing is', 'listings are')} open"
    said = of if REMOVED in rows else f"{now:,} are listed"
    if most == now:
        return f"{said}, as many as ever" if (open_ < now).any() else said
    return f"{said}; the most were {most:,}, on {_day(rows['period'].iloc[int(open_.argmax())])}"


def _summary(rows: pd.DataFrame, statuses: list[str], when: Stretches) -> str:
    ended = ", ".join(f"{int(rows[name].iloc[-1]):,} {short(name)}" for name in statuses)
    return f"{_observed(when)} At the end: {ended}.{_unobserved(rows)}"


def _observed(when: Stretches) -> str:
    """How many periods were looked into, from when to when, and how many were not."""
    missed = when.missed()
    none = pluralize(
        missed, "long break" if when.kind == "look" else f"{when.kind} without a look", _plural(when)
    )
    span = f"{pluralize(len(when.starts), when.kind)} from {_day(when.starts[0])} to {_day(when.starts[-1])}"
    return f"{span}; {none}." if missed else f"{span}, none left out."


def _plural(when: Stretches) -> str:
    return "long breaks" if when.kind == "look" else f"{when.kind}s without a look"


def _unobserved(rows: pd.DataFrame) -> str:
    if "unseen" not in rows or "people" not in rows or pd.isna(rows["unseen"].iloc[-1]):
        return ""
    unseen, people = int(rows["unseen"].iloc[-1]), int(rows["people"].iloc[-1])
    some = int((rows["unseen"].fillna(0) > 0).sum())
    whom = f" The last look saw {people - unseen:,} of {pluralize(people, 'person', 'people')} well"
    return f"{whom}; {pluralize(some, 'time')} somebody was not." if some else f"{whom}."


def _day(at: Any) -> str:
    return str(np.datetime_as_string(pd.Timestamp(at).to_datetime64(), unit="D"))


def _by_group(table: pd.DataFrame, by: str, provenance: str) -> Chart:
    rows = table if table["period"].is_monotonic_increasing else table.sort_values("period", kind="stable")
    place, periods = pd.factorize(rows["period"])
    newest = rows[place == len(periods) - 1]
    newest = newest.assign(open=_open(newest)).sort_values("open", ascending=False, kind="stable")
    counts, when = _counts(rows, by, place, newest[by].head(LINES).tolist()), stretches(pd.Series(periods))
    names = row_labels(newest.head(LINES), by)
    if len(newest) > LINES:
        total = np.bincount(place, weights=_open(rows).to_numpy("float64"), minlength=len(periods))
        counts = np.column_stack([counts, total - np.nansum(counts, axis=1)])
        names.append(more(len(newest) - LINES, _GROUPS[by][1]))
    figure = chart(
        lines(counts, names, when),
        finding=_fullest(newest, by),
        summary=f"{pluralize(len(newest), *_GROUPS[by][:2])}. {_observed(when)} {_ended(names, newest['open'])}",
        provenance=provenance,
        hovermode="x unified",
        legend={"orientation": "v", "x": 1.01, "y": 1, "yanchor": "top"},
        showlegend=True,
    )
    return _dated(figure, "open listings" if REMOVED in rows else "things")


def _fullest(newest: pd.DataFrame, by: str) -> str:
    now, (_, groups, *verbs) = int(newest["open"].sum()), _GROUPS[by]
    most = leaders(row_labels(newest, by), newest["open"].tolist(), groups, *verbs)
    return f"{pluralize(now, 'is', 'are')} open; {most}" if now else "Nothing is open"


def _ended(names: list[str], n: "pd.Series[int]") -> str:
    """How many are open at the end in each group, and in the rest together."""
    last = [*n.head(LINES), *([n.iloc[LINES:].sum()] if len(n) > LINES else [])]
    return f"Open at the end: {'; '.join(f'{name} {int(one):,}' for name, one in zip(names, last, strict=True))}."


def _counts(rows: pd.DataFrame, by: str, place: Any, names: list[Any]) -> NDArray[np.float64]:
    """What is open of some groups, one row a period; NaN where a group was not known yet."""
    chosen = rows[by].isin(names).to_numpy("bool")
    group = pd.Index(names).get_indexer(pd.Index(rows.loc[chosen, by]))
    counts = np.full((int(place.max()) + 1, len(names)), np.nan)
    counts[place[chosen], group] = _open(rows[chosen]).to_numpy("float64")
    return counts
