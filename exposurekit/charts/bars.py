"""Charts with a row for each group: names at the side, from the top down, and no more rows than one can read.

Counts nothing, and never leaves a group out without a word.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from exposurekit.charts.theme import GREY, Chart, escape, patterned, pluralize, short

SHOWN, TOLD = 25, 10
NAMED_AT_ONCE = 2  # of those who tie: of more, how many they are says enough
PANELS = ((0.0, 0.6), (0.68, 1.0))
OUTSIDE = {"textposition": "outside", "cliponaxis": False}  # figures behind bars
WITHIN = {"textposition": "auto", "cliponaxis": False}  # in them, where there is room
_ROW_PX, _REST_PX = 26, 190


def rows_px(n: int) -> int:
    """How high a chart of so many rows is."""
    return _REST_PX + _ROW_PX * max(n, 2)


def as_rows(figure: Chart, labels: Sequence[str]) -> Chart:
    """From the top down. Rows stand by number: two names that are cut alike stay two rows."""
    places = [*range(len(labels))]
    room = [len(labels) - 0.5, -0.5]
    figure.update_yaxes(range=room, automargin=True, tickvals=places, ticktext=[*labels], showgrid=False)
    return figure


def panels(figure: Chart, left: dict[str, Any], right: dict[str, Any]) -> Chart:
    """Two axes side by side over the same rows."""
    figure.update_layout(xaxis2=figure.layout.xaxis, yaxis={"anchor": "x"})
    figure.update_layout(
        xaxis=left | {"domain": PANELS[0]}, xaxis2=right | {"domain": PANELS[1], "anchor": "y"}
    )
    return figure


def group_rest(table: pd.DataFrame, by: str, groups: str) -> pd.DataFrame:
    """The first rows as they are; in one more row the sums of the rest."""
    if len(table) <= SHOWN:
        return table
    rest = table.iloc[SHOWN:]
    row = {by: more(len(rest), groups), **rest.drop(columns=by).sum().to_dict()}
    return pd.concat([table.head(SHOWN), pd.DataFrame([row])], ignore_index=True)


def more(n: int, groups: str) -> str:
    """The name of the row in which the rest stands: ``175 more sites``."""
    return f"{n:,} more {groups}"


def omitted_note(n: int, one: str, many: str) -> str:
    """What to say of rows that cannot be put together, and are not drawn; nothing where all are."""
    return f" Not drawn: {pluralize(n, f'more {one}', f'more {many}')}." if n > 0 else ""


def row_labels(table: pd.DataFrame, by: str | None) -> list[str]:
    """What each row is called, in words: by its site, as a user; without a column everybody's."""
    if by is None:
        return ["all listings"] * len(table)
    return [f"user {one}" if by == "user_id" else short(one) for one in table[by]]


def join_rows(rows: Sequence[str]) -> str:
    """The first rows in words; of the others, how many there are."""
    rest = f"; and {len(rows) - TOLD:,} more in the table" if len(rows) > TOLD else ""
    return f"{'; '.join(rows[:TOLD])}{rest}."


def tied(names: Sequence[str], groups: str) -> str:
    """One name, or two; of more, how many there are: nobody wins a tie.

    >>> from exposurekit.charts.bars import tied
    >>> tied(["A"], "sites"), tied(["A", "B"], "sites"), tied(["A", "B", "C"], "sites")
    ('A', 'A and B', '3 sites')
    """
    return " and ".join(names) if len(names) <= NAMED_AT_ONCE else f"{len(names):,} {groups}"


def leaders(names: Sequence[str], n: Sequence[float], groups: str, has: str, have: str) -> str:
    """Who has most, and how many; those who have as many are named together.

    >>> from exposurekit.charts.bars import leaders
    >>> leaders(["A", "B", "C"], [4, 2, 1], "sites", "holds", "hold")
    'A holds most, 4'
    >>> leaders(["A", "B", "C"], [4, 4, 1], "sites", "holds", "hold")
    'A and B hold most, 4 each'
    >>> leaders(["A", "B"], [4, 4], "sites", "holds", "hold")
    'each of 2 sites holds 4'
    """
    most = max(n)
    said = f"{most:,.1f}".removesuffix(".0")
    first = [name for name, one in zip(names, n, strict=True) if one == most]
    if len(first) == 1:
        return f"{first[0]} {has} most, {said}"
    if len(first) == len(names):
        return f"each of {len(names):,} {groups} {has} {said}"
    return f"{tied(first, groups)} {have} most, {said} each"


def bars(name: str, n: Sequence[float], said: Sequence[str], look: tuple[str, str], **more: Any) -> go.Bar:
    """A bar from the left in each row, in a colour and a pattern. What is said of it is `named` by then."""
    return go.Bar(
        name=name,
        y=[*range(len(n))],
        x=[*n],
        orientation="h",
        customdata=[*said],
        hovertemplate="%{customdata}<extra></extra>",
        marker=patterned(*look),
        **more,
    )


def whiskers(low: Sequence[Any], high: Sequence[Any], **look: Any) -> go.Scatter:
    """A line from low to high in each row; where either is missing there is none."""
    x, y = [], []
    for place, (start, end) in enumerate(zip(low, high, strict=True)):
        if pd.notna(start) and pd.notna(end):
            x += [start, end, None]
            y += [place, place, None]
    line = {"color": GREY, "width": 2}
    return go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False, **look)


def points(at: Sequence[Any], said: Sequence[str], *, symbol: str, colour: str, **look: Any) -> go.Scatter:
    """A mark in each row, at its number; where that is missing there is none. What is said is `named` by then."""
    places = [place for place, one in enumerate(at) if pd.notna(one)]
    return go.Scatter(
        x=[at[place] for place in places],
        y=places,
        mode="markers",
        marker={"symbol": symbol, "color": colour, "size": 10},
        cliponaxis=False,
        showlegend=False,
        customdata=[said[place] for place in places],
        hovertemplate="%{customdata}<extra></extra>",
        **look,
    )


def annotations(said: Sequence[str], at: Sequence[float] | None = None, **look: Any) -> go.Scatter:
    """Words in the rows that have some; from where each row says, or from the beginning."""
    places = [place for place, text in enumerate(said) if text]
    return go.Scatter(
        x=[at[place] if at else 0 for place in places],
        y=places,
        mode="text",
        text=[f"  {escape(said[place])}" for place in places],
        textposition="middle right",
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
        **look,
    )
