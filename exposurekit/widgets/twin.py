"""Static HTML of what widgets show: tables, lists of steps, lines. Trusts no text, and runs nothing."""

from collections.abc import Iterable, Sequence

import pandas as pd

from exposurekit.cells import is_missing, told
from exposurekit.markup import escaped, linked

ROWS = 20
MARKS = {"done": "☑", "unable": "☒", "open": "☐"}


def table(frame: pd.DataFrame, *, caption: str, links: Iterable[str] = ()) -> str:
    """The first rows of a table; says how many there are.

    Args:
        frame: What is shown.
        caption: What it is.
        links: Columns whose addresses may be followed.

    >>> from exposurekit.widgets import twin
    >>> "<b>" in twin.table(pd.DataFrame({"site": ["<b>"]}), caption="sites")
    False
    """
    shown, followed = frame.head(ROWS), set(links)
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in shown.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{linked(value) if name in followed and not is_missing(value) else escaped(told(value))}</td>"
            for name, value in zip(shown.columns, row, strict=True)
        )
        + "</tr>"
        for row in shown.itertuples(index=False)
    )
    more = f" (the first {len(shown)} of {len(frame):,})" if len(frame) > len(shown) else ""
    words = f"<caption>{escaped(caption)}{more}</caption>"
    return f"<table>{words}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def steps(texts: Sequence[str], ticks: Sequence[str], notes: Sequence[str]) -> str:
    """Numbered steps, how far each is, and what was noted.

    >>> from exposurekit.widgets import twin
    >>> twin.steps(["Open the page."], ["done"], [""])
    '<ol><li>☑ Open the page.</li></ol>'
    """
    items = [
        f"<li>{MARKS.get(tick, MARKS['open'])} {escaped(text)}{f' <em>({escaped(note)})</em>' if note else ''}</li>"
        for text, tick, note in zip(texts, ticks, notes, strict=True)
    ]
    return f"<ol>{''.join(items)}</ol>"
