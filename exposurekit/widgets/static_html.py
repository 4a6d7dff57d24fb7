"""Static HTML of what widgets show: tables, lists of steps, lines. Trusts no text, and runs nothing."""

from collections.abc import Iterable, Sequence

import pandas as pd

from exposurekit.analysis.tasks import NOT_ON_FILE, Task
from exposurekit.text.formatting import format_value, is_missing
from exposurekit.text.sanitize import escaped, link

ROWS = 20
MARKS = {"done": "☑", "unable": "☒", "open": "☐"}


def table(frame: pd.DataFrame, *, caption: str, links: Iterable[str] = ()) -> str:
    """The first rows of a table; says how many there are.

    Args:
        frame: What is shown.
        caption: What it is.
        links: Columns whose addresses may be followed.

    >>> from exposurekit.widgets import static_html
    >>> "<b>" in static_html.table(pd.DataFrame({"site": ["<b>"]}), caption="sites")
    False
    """
    shown, followed = frame.head(ROWS), set(links)
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in shown.columns)
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{link(value) if name in followed and not is_missing(value) else escaped(format_value(value))}</td>"
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

    >>> from exposurekit.widgets import static_html
    >>> static_html.steps(["Open the page."], ["done"], [""])
    '<ol><li>☑ Open the page.</li></ol>'
    """
    items = [
        f"<li>{MARKS.get(tick, MARKS['open'])} {escaped(text)}{f' <em>({escaped(note)})</em>' if note else ''}</li>"
        for text, tick, note in zip(texts, ticks, notes, strict=True)
    ]
    return f"<ol>{''.join(items)}</ol>"


def task(about: Task) -> str:
    """Which listing, whose it is, and what to enter.

    >>> from exposurekit.analysis.tasks import Task
    >>> from exposurekit.widgets import static_html
    >>> static_html.task(Task("Jo <b>", facts=(("Age", "46"),)))
    '<p>Whose: <strong>Jo &lt;b&gt;</strong></p><table><tbody><tr><th scope="row">Age</th><td>46</td></tr></tbody></table>'
    """
    rows = [(label, escaped(text)) for label, text in about.facts]
    rows += [("Listing" if about.site else "Open", link(about.address))] if about.address else []
    rows += [("Begin at", link(about.begin))] if about.begin else []
    rows += [
        (f"{about.values_label} {label}", escaped(NOT_ON_FILE if text is None else text))
        for label, text in entries(about)
    ]
    return f"<p>Whose: <strong>{escaped(about.person)}</strong></p>{_rows(rows)}{note(about)}"


def links(about: Task) -> str:
    """Whose it is, and the pages to open, with what a reader has to know beside the facts."""
    listing = "Listing" if about.site else "Open"
    pages = [(listing, about.address), ("Begin at", about.begin)]
    shown = "".join(f"<p>{label}: {link(page)}</p>" for label, page in pages if page)
    none = (
        ""
        if about.address
        else "<p>The listing has no address of its own: find it by name and reference.</p>"
    )
    return f"<p>Whose: <strong>{escaped(about.person)}</strong></p>{shown or none}{note(about)}"


def entries(about: Task) -> list[tuple[str, str | None]]:
    """What to enter: labels, those of required fields with an asterisk, and values."""
    return [(f"{one.label}{' *' if one.required else ''}", one.value) for one in about.entries]


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    cells = "".join(
        f'<tr><th scope="row">{escaped(label)}</th><td>{markup}</td></tr>' for label, markup in rows
    )
    return f"<table><tbody>{cells}</tbody></table>" if cells else ""


def note(about: Task) -> str:
    """What marks mean, and what is missing."""
    required = "<p>* required by the site</p>" if any(one.required for one in about.entries) else ""
    return required + (f"<p><em>{escaped(about.note)}</em></p>" if about.note else "")
