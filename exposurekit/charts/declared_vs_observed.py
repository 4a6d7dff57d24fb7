"""Chart of the days to removal that sites declare, and that were observed."""

from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis import MIN_N
from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import (
    MAX_ROWS,
    Omitted,
    join_rows,
    names_or_count,
    points,
    row_chart,
    row_labels,
)
from exposurekit.charts.theme import (
    GREY,
    Chart,
    empty_chart,
    interval_label,
    label_text,
)
from exposurekit.charts.time_to_removal import (
    format_days,
    longest_days,
    median_axis,
    median_text,
    median_traces,
)
from exposurekit.text.formatting import pluralize

_COLUMNS = (
    *("site", "declared_days", "n", "left_out", "median_days", "median_low", "median_high", "never"),
    *("followed_days", "due", "overdue", "takes_longer"),
)


def declared_vs_observed(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the median days from request to removal of each site, with its interval, and the days that it declares.

    Sites that take longer than they declare are marked. Those without a request are not drawn.

    Args:
        table: A table as returned by `analysis.declared_vs_observed` or `History.declared_vs_observed`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.declared_vs_observed(history.declared_vs_observed())
    Chart(...)
    """
    check_input("declared_vs_observed", table, _COLUMNS)
    requested = table[(table["n"] > 0) | (table["left_out"] > 0)]
    if requested.empty:
        return empty_chart("No removal was requested yet", provenance=provenance)
    drawn = requested.head(MAX_ROWS)
    rows, label = drawn.to_dict("records"), interval_label(table)
    names = [label_text(row["site"]) for row in rows]
    declared = drawn["declared_days"].astype("Float64").to_numpy("float64", na_value=np.nan)
    most = max(longest_days(drawn), *declared[~np.isnan(declared)], 1)
    hover = [f"{name}<br>{_row_text(row, label)}" for name, row in zip(names, rows, strict=True)]
    *medians, beside = median_traces(drawn, names, most, np.nan_to_num(declared).tolist())
    beside.text = [f"{text}{_mark(rows[row])}" for text, row in zip(beside.text, beside.y, strict=True)]
    figure = row_chart(
        [
            *medians,
            beside,
            points(declared.tolist(), hover, symbol="line-ns", colour=GREY, name="declared"),
        ],
        [f"{name} ({pluralize(row['n'], 'request')})" for name, row in zip(names, rows, strict=True)],
        median_axis("days from request to removal", most),
        finding=_finding(table),
        summary=_summary(requested, label, n_without=len(table) - len(requested)),
        rest=Omitted(len(requested) - MAX_ROWS, "site", "sites"),
        provenance=provenance,
    )
    line = {"size": 16, "line": {"width": 3, "color": GREY}}
    figure.update_traces(marker=line, selector={"name": "declared"})
    return figure


def _mark(row: dict[Any, Any]) -> str:
    return ", late" if _takes_longer(row) else ""


def _takes_longer(row: dict[Any, Any]) -> bool:
    return bool(pd.notna(row["takes_longer"]) and row["takes_longer"])


def _row_text(row: dict[Any, Any], label: str) -> str:
    """What a site declares, what was observed, and how much of it was late."""
    median = median_text(row, label)
    if pd.isna(row["declared_days"]):
        return f"{median}; no declared days recorded"
    declared = f"declares {format_days(row['declared_days'])}; {median}"
    if row["due"] < MIN_N:
        return f"{declared}; too few requests to judge"
    longer = "; takes longer" if _takes_longer(row) else ""
    return f"{declared}; {row['overdue']:,} of {pluralize(int(row['due']), 'request')} overdue{longer}"


def _finding(table: pd.DataFrame) -> str:
    judged = table[table["takes_longer"].notna()]
    longer = judged[judged["takes_longer"].astype("bool")]
    if not table["declared_days"].notna().any():
        return "Declared vs observed days: no declared days are recorded"
    if judged.empty:
        return "Declared vs observed days: too few requests to judge any site"
    n, n_longer = len(judged), len(longer)
    names = names_or_count(row_labels(longer, "site"), "sites")
    if n == 1:
        slower = f"slower than it declares: {names}" if n_longer else "not slower than it declares"
        return f"The only site that can be judged is {slower}"
    if not n_longer:
        return f"None of the {n:,} sites that can be judged is slower than it declares"
    are = "is slower than it declares" if n_longer == 1 else "are slower than they declare"
    return f"Of the {n:,} sites that can be judged, {n_longer:,} {are}: {names}"


def _summary(table: pd.DataFrame, label: str, *, n_without: int) -> str:
    rows = zip(row_labels(table, "site"), table.to_dict("records"), strict=True)
    allowance = table.attrs.get("allowance_days")
    days = f" and the {format_days(allowance)} that verification may take" if allowance else ""
    without = f" Not drawn: {pluralize(n_without, 'site')} without a request." if n_without else ""
    return (
        f"{join_rows([f'{name}: {_row_text(row, label)}' for name, row in rows])} A request is overdue if its listing was "
        f"still pending after the declared days{days}. A site takes longer if significantly more than half of its due "
        f"requests are overdue (corrected for the number of sites).{without}"
    )
