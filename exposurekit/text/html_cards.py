"""What an object shows of itself in a notebook: a small card in plain HTML. Runs nothing, loads nothing, trusts no text."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from exposurekit.text.sanitize import escaped, plain

TEXT_MAX = 600
NAME_MAX = 60
ROWS_MAX = 50
NOT_TOLD = "not told"

# No colour of its own, so that it reads on light and on dark: lines are drawn in the colour of the text.
_BOX = "display:inline-block;max-width:100%;padding:.5em .8em;border:1px solid;border-radius:4px"
_TABLE = "border-collapse:collapse;margin:.3em 0;color:inherit;font:inherit"
_CELL = "text-align:left;vertical-align:top;padding:.1em 1em .1em 0"


def html_card(title: str, facts: Mapping[str, object], *parts: str) -> str:
    """A title, facts under their names, and what else there is to show.

    Args:
        title: What it is.
        facts: What there is to tell, as any values; their text is escaped.
        parts: Markup that `numbered` or `rows` made.

    >>> from exposurekit.text.html_cards import html_card
    >>> "&lt;b&gt;" in html_card("Record 7", {"site": "<b>Seekfolk</b>"})
    True
    """
    body = "".join(
        f'<tr><th scope="row" style="{_CELL}">{escape_cell(name)}</th><td style="{_CELL}">{escape_cell(fact)}</td></tr>'
        for name, fact in facts.items()
    )
    table = f'<table style="{_TABLE}"><tbody>{body}</tbody></table>' if body else ""
    return f'<div style="{_BOX}"><strong>{escape_cell(title)}</strong>{table}{"".join(parts)}</div>'


def rows(title: str, heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """A small table for a card, with its title; beyond 50 rows it says how many more there are.

    >>> from exposurekit.text.html_cards import rows
    >>> rows("by status", ["status", "n"], [("removed", 3)]).count("<td")
    2
    """
    all_lines = [*lines]
    head = "".join(f'<th scope="col" style="{_CELL}">{escape_cell(name)}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{escape_cell(cell)}</td>' for cell in line) + "</tr>"
        for line in all_lines[:ROWS_MAX]
    )
    return (
        f'<table style="{_TABLE}"><caption style="{_CELL};white-space:nowrap">{escape_cell(title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{_more(len(all_lines))}"
    )


def numbered(items: Sequence[str]) -> str:
    """Steps for a card, numbered from 1; beyond 50 it says how many more there are.

    >>> from exposurekit.text.html_cards import numbered
    >>> numbered(["Open the form.", "Press <i>Remove</i>."]).count("<li>")
    2
    """
    listed = "".join(f"<li>{escape_cell(item)}</li>" for item in items[:ROWS_MAX])
    return f"<ol>{listed}</ol>{_more(len(items))}"


def escape_cell(value: object) -> str:
    """A value as a card may have it: short, one line, escaped, and kept from turning the line around it.

    >>> from exposurekit.text.html_cards import escape_cell
    >>> escape_cell(True), escape_cell(None), escape_cell("<script>")
    ('yes', 'not told', '<bdi>&lt;script&gt;</bdi>')
    """
    if value is None:
        return NOT_TOLD
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"<bdi>{escaped(truncate(value, TEXT_MAX))}</bdi>"


def truncate(text: object, most: int) -> str:
    r"""A text in one line of so many characters at most, without control characters.

    >>> from exposurekit.text.html_cards import truncate
    >>> truncate("Seek\nfolk", 6)
    'Seek …'
    """
    line = plain(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def _more(count: int) -> str:
    return f"<p>and {count - ROWS_MAX:,} more</p>" if count > ROWS_MAX else ""
