"""Static HTML of what widgets show: tables, lists of steps, lines. Trusts no text, and runs nothing."""

from collections.abc import Iterable, Sequence
from numbers import Integral, Real

import pandas as pd

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
            f"<td>{linked(value) if name in followed and not is_missing(value) else cell(value)}</td>"
            for name, value in zip(shown.columns, row, strict=True)
        )
        + "</tr>"
        for row in shown.itertuples(index=False)
    )
    more = f" (the first {len(shown)} of {len(frame):,})" if len(frame) > len(shown) else ""
    words = f"<caption>{escaped(caption)}{more}</caption>"
    return f"<table>{words}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def cell(value: object) -> str:
    """One value as text; what is missing is told by a dash.

    >>> from exposurekit.widgets import twin
    >>> twin.cell(None), twin.cell(["a", "b"]), twin.cell(1234567)
    ('—', 'a, b', '1,234,567')
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        return escaped(", ".join(map(str, value)))
    if is_missing(value):
        return "—"
    if isinstance(value, pd.Timestamp):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, Integral) and not isinstance(value, bool):
        return f"{int(value):,}"
    if isinstance(value, Real) and not isinstance(value, bool):
        return f"{float(value):,.3g}"
    return escaped(value)


def is_missing(value: object) -> bool:
    """Whether a cell holds nothing; a list never does.

    >>> from exposurekit.widgets import twin
    >>> twin.is_missing(pd.NA), twin.is_missing([]), twin.is_missing("")
    (True, False, False)
    """
    return not hasattr(value, "__len__") and bool(pd.isna(value))  # type: ignore[call-overload]


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
