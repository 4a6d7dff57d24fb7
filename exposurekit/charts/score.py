"""Chart of the exposure score per person."""

import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.argument_checks import check_input
from exposurekit.charts.bars import (
    Omitted,
    annotations,
    bars,
    has_names,
    hide_names,
    join_rows,
    leaders,
    person_labels,
    row_chart,
    row_labels,
    whole_ties,
)
from exposurekit.charts.changes import amount
from exposurekit.charts.theme import (
    BLUE,
    GREY,
    Chart,
    count_axis,
    definition_lines,
    empty_chart,
    label_text,
)
from exposurekit.text.formatting import pluralize

_PARTS = {"listings": ("of_listings", (BLUE, "")), "web pages": ("of_pages", (GREY, "/"))}


def score(table: pd.DataFrame, *, provenance: str = "") -> Chart:
    """Draw the score of each person in points, for listings and pages, for at most twelve people.

    People with as many points are drawn together, or not at all. They are labelled as in `by_user`.

    Args:
        table: A table as returned by `analysis.score` or `History.score`.
        provenance: As in `by_site`.

    Raises:
        MissingColumns: ``table`` lacks a column.

    >>> charts.score(analysis.score(exposure.records(), exposure.links()))
    Chart('... points in total; ... the most points: ...')
    """
    check_input("score", table, ("user_id", "of_listings", "of_pages", "score"))
    if not table["score"].any():
        return empty_chart("Nobody is exposed", provenance=provenance)
    drawn = table.head(whole_ties(table["score"].tolist()))
    people = person_labels(drawn)
    labels = [label_text(person) for person in people]
    texts = [f"{person}: {amount(n)}" for person, n in zip(people, drawn["score"], strict=True)]
    figure = row_chart(
        [*(_bar(part, drawn, labels) for part in _PARTS), _totals(drawn)],
        labels,
        count_axis("points", int(drawn["score"].max())),
        finding=_finding(table, person_labels(table)),
        summary=f"Points of {pluralize(len(table), 'person', 'people')}: {join_rows(texts)}",
        rest=Omitted(len(table) - len(drawn), "person", "people"),
        provenance=provenance,
    )
    return hide_names(figure, _finding(table, row_labels(table, "user_id"))) if has_names(table) else figure


def _finding(table: pd.DataFrame, people: list[str]) -> str:
    leading = leaders(people, table["score"].tolist(), "people", "points")
    return f"{amount(table['score'].sum())} points in total; {leading}"


def _totals(table: pd.DataFrame) -> go.Scatter:
    scores = table["score"].tolist()
    return annotations([amount(n) for n in scores], scores)


def _bar(part: str, table: pd.DataFrame, labels: list[str]) -> go.Bar:
    column, style = _PARTS[part]
    hover = [
        f"{label}<br>{amount(n)} points for {part}{definition_lines('score')}"
        for label, n in zip(labels, table[column], strict=True)
    ]
    return bars(part, table[column].tolist(), hover, style)
