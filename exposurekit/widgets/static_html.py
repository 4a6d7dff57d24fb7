"""Static HTML of what widgets show: tables, lists of steps, tasks."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pandas as pd

from exposurekit.analysis.manual_tasks import WHICH_NAME, Task
from exposurekit.text.formatting import format_value, is_missing
from exposurekit.text.html_cards import scrolling
from exposurekit.text.sanitize import escaped, isolated, isolated_value, link, link_text, link_with_path
from exposurekit.widgets import task_captions

ROWS = 20
MARKS = {"done": "☑", "unable": "☒", "open": "☐"}


def section(*parts: str) -> str:
    """The content of a widget, under the shared style sheet.

    >>> from exposurekit.widgets import static_html
    >>> static_html.section("<p>3 alerts</p>")
    '<section class="exposurekit"><p>3 alerts</p></section>'
    """
    return f'<section class="exposurekit">{"".join(parts)}</section>'


def table(frame: pd.DataFrame, *, caption: str, links: Iterable[str] = (), total: int | None = None) -> str:
    """The first rows of a table; the caption says which rows of how many.

    Args:
        frame: The table.
        caption: What it contains.
        links: Columns whose addresses become links.
        total: How many rows there are, if ``frame`` has only the first.

    >>> from exposurekit.widgets import static_html
    >>> "<b>" in static_html.table(pd.DataFrame({"site": ["<b>"]}), caption="sites")
    False
    """
    first, link_columns = frame.head(ROWS), set(links)
    total = len(frame) if total is None else total
    kinds = [_kind(first.dtypes.iloc[at]) for at in range(len(first.columns))]
    head = "".join(
        f'<th scope="col"{kind}>{escaped(name)}</th>' for name, kind in zip(first.columns, kinds, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{link(value) if name in link_columns and not is_missing(value) else isolated_value(format_value(value))}</td>"
            for name, value, kind in zip(first.columns, row, kinds, strict=True)
        )
        + "</tr>"
        for row in first.itertuples(index=False)
    )
    more = f" (rows 1 to {len(first)} of {total:,})" if total > len(first) else ""
    content = (
        f"<table><caption>{isolated(caption)}{more}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
    return scrolling(content, caption)


def _kind(dtype: Any) -> str:
    """The class of a column's cells: numbers are aligned to the right."""
    is_number = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype)
    return ' class="number"' if is_number else ""


def steps(texts: Sequence[str], ticks: Sequence[str], notes: Sequence[str]) -> str:
    """Numbered steps with their ticks and notes.

    >>> from exposurekit.widgets import static_html
    >>> static_html.steps(["Open the page."], ["done"], [""])
    '<ol class="steps"><li><span>☑ Open the page.</span></li></ol>'
    """
    items = [
        f"<li><span>{MARKS.get(tick, MARKS['open'])} {isolated(text)}{f' <em>({isolated(note)})</em>' if note else ''}</span></li>"
        for text, tick, note in zip(texts, ticks, notes, strict=True)
    ]
    return f'<ol class="steps">{"".join(items)}</ol>'


def task(removal: Task, *, without: Collection[str] = ()) -> str:
    """The facts of a listing, its links, the values to enter, and its `note_lines`, without some of them.

    >>> from exposurekit.analysis.manual_tasks import Task
    >>> from exposurekit.widgets import static_html
    >>> static_html.task(Task("Jo <b>", facts=(("Age", "46"),)))
    '<p>Person: <strong>Jo &lt;b&gt;</strong></p><dl class="facts"><dt>Age</dt><dd>46</dd></dl>'
    """
    parts = []
    for heading, is_collapsed, rows in task_captions.sections(removal):
        body = _rows(rows)
        if is_collapsed:
            body = f"<details><summary>{isolated(heading)}</summary>{body}</details>"
        elif heading:
            body = f"<p><strong>{isolated(heading)}</strong></p>{body}"
        parts.append(body)
    lines = [line for line in note_lines(removal) if line not in without]
    return f"{person(removal)}{''.join(parts)}{paragraphs(lines)}"


def person(removal: Task) -> str:
    """The person whose listing it is."""
    return f"<p>Person: <strong>{isolated_value(removal.person)}</strong></p>"


def paragraphs(lines: Iterable[str]) -> str:
    """Lines of markup, a paragraph each."""
    return "".join(f"<p>{line}</p>" for line in lines)


def note_lines(removal: Task) -> list[str]:
    """What to know before starting: what is missing, which name to use, and whether links lead nowhere."""
    lines = [f"<strong>{isolated(warning)}</strong>" for warning in removal.warnings]
    if removal.site and removal.facts:
        lines.append(escaped(WHICH_NAME))
    if removal.site and removal.facts and not removal.address:
        lines.append("The listing has no link of its own: find it by name and reference.")
    if any(_is_invented(url) for url in (removal.address, removal.begin)):
        lines.append("Hosts that end in .example are invented: their links lead nowhere.")
    if removal.note:
        lines.append(f"<em>{isolated(removal.note)}</em>")
    return lines


def _is_invented(url: str | None) -> bool:
    text = link_text(url) if url else None
    return text is not None and re.split("[:/?#]", text)[0].endswith(".example")


def _rows(rows: Iterable[task_captions.Row]) -> str:
    facts = "".join(
        f"<dt>{escaped(label)}</dt><dd>{link_with_path(text) if words else isolated_value(text)}</dd>"
        for label, text, _, words in rows
    )
    return f'<dl class="facts">{facts}</dl>' if facts else ""
