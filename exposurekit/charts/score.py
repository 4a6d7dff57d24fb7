"""How exposed people are, in points."""

import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.bars import (
    SHOWN,
    as_rows,
    bars,
    join_rows,
    leaders,
    omitted_note,
    row_labels,
    rows_px,
)
from exposurekit.charts.input import check_input
from exposurekit.charts.theme import (
    BLUE,
    GREY,
    Chart,
    chart,
    count_axis,
    empty_chart,
    explained,
    label_text,
    pluralize,
)
from exposurekit.charts.waterfall import amount

_PARTS = {"listings": ("of_listings", (BLUE, "")), "pages": ("of_pages", (GREY, "/"))}


def score(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """How exposed each person is, in points: of listings, and of pages; beyond 25 people the rest are not drawn.

    Args:
        table: As `analysis.score` gives it, or `History.score`.
        provenance: As of `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.score(analysis.score(exposure.records(), exposure.links()))
    Chart('... points in all; user ... has most, ...')
    """
    check_input("score", table, ("user_id", "of_listings", "of_pages", "score"))
    if not table["score"].any():
        return empty_chart("Nobody is exposed", provenance=provenance)
    shown = table.head(SHOWN)
    people = row_labels(shown, "user_id")
    labels = [label_text(person) for person in people]
    points = [amount(n) for n in shown["score"]]
    said = [f"{person} {n}" for person, n in zip(people, points, strict=True)]
    figure = chart(
        [_bar(part, shown, labels) for part in _PARTS],
        finding=f"{amount(table['score'].sum())} points in all; "
        + leaders(row_labels(table, "user_id"), table["score"].tolist(), "people", "has", "have"),
        summary=f"Points of {pluralize(len(table), 'person', 'people')}: {join_rows(said)}"
        f"{omitted_note(len(table) - SHOWN, 'person', 'people')}",
        provenance=provenance,
        height=rows_px(len(shown)),
        barmode="stack",
    )
    figure.update_layout(xaxis=count_axis("points", int(shown["score"].max())))
    return as_rows(figure, labels)


def _bar(part: str, table: pd.DataFrame, labels: list[str]) -> go.Bar:
    column, look = _PARTS[part]
    said = [
        f"{label}<br>{amount(n)} points of {part}{explained('score')}"
        for label, n in zip(labels, table[column], strict=True)
    ]
    return bars(part, table[column].tolist(), said, look)
