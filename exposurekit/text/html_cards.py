"""HTML cards: how objects are displayed in notebooks. All text is escaped; no script or image."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

from exposurekit.text.plurals import pluralize
from exposurekit.text.sanitize import escaped, plain

TEXT_MAX = 600
NAME_MAX = 60
ROWS_MAX = 50
UNKNOWN_TEXT = "unknown"
_SPARKLINE = (100, 24)  # its width and height


@cache
def shared_styles() -> str:
    """Return the styles that reports, cards and widgets share: tokens and common parts, below the class ``exposurekit``."""
    return files("exposurekit.text").joinpath("style.css").read_text("utf-8")


@cache
def stylesheet() -> str:
    """Return the style sheet of cards and widgets: `shared_styles`, and their own."""
    return shared_styles() + files("exposurekit.text").joinpath("cards.css").read_text("utf-8")


@cache
def copy_script() -> str:
    """Return the function ``copy`` of reports and widgets, which copies a text."""
    return files("exposurekit.text").joinpath("copy.js").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Table:
    """A small table of a card."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a card shows: facts by name, numbered steps, a note, and small tables. All of it is plain text."""

    facts: Mapping[str, object]
    steps: Sequence[str] = ()
    note: str = ""
    tables: Sequence[Table] = ()


class HtmlCard:
    """Displays an object in a notebook as a card of its `_summary`."""

    def _summary(self) -> Summary:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        summary = self._summary()
        steps = numbered(summary.steps) if summary.steps else ""
        tables = [rows(table.title, table.heads, table.lines) for table in summary.tables if table.lines]
        return html_card(type(self).__name__, summary.facts, steps, *tables, note=summary.note)


def html_card(
    title: str,
    facts: Mapping[str, object],
    *parts: str,
    note: str = "",
    figures: Mapping[str, object] | None = None,
    tables: Mapping[str, int] | None = None,
    calls: Mapping[str, str] | None = None,
) -> str:
    """Return a card with a title, figures, named facts, further parts, and calls to try, under the shared style sheet.

    Args:
        title: The title.
        facts: Values by name, of any type; their text is escaped.
        parts: Markup from `numbered` or `rows`.
        note: Below the title: how current the object is.
        figures: The main figures by name.
        tables: The number of rows of each table.
        calls: What each call does, by its code.
    """
    below = f'<div class="label">{escape_cell(note)}</div>' if note else ""
    content = [
        f'<div><strong class="headline">{escape_cell(title)}</strong>{below}</div>',
        _figures(figures or {}),
        "".join(f"<dt>{escape_cell(name)}</dt><dd>{escape_cell(fact)}</dd>" for name, fact in facts.items()),
        _tables(tables or {}),
        *parts,
        _calls(calls or {}),
    ]
    if content[2]:
        content[2] = f'<dl class="facts">{content[2]}</dl>'
    return f'<style>{stylesheet()}</style><div class="exposurekit object-card">{"".join(content)}</div>'


def _figures(figures: Mapping[str, object]) -> str:
    items = "".join(
        f'<li class="metric"><span class="label">{escape_cell(name)}</span> <strong>{escape_cell(value)}</strong></li>'
        for name, value in figures.items()
    )
    return f'<ul class="metrics">{items}</ul>' if items else ""


def _tables(tables: Mapping[str, int]) -> str:
    items = "".join(
        f"<li>{escape_cell(name)} <strong>{pluralize(n, 'row')}</strong></li>" for name, n in tables.items()
    )
    return f'<ul class="tags">{items}</ul>' if items else ""


def _calls(calls: Mapping[str, str]) -> str:
    items = "".join(
        f'<li><code>{escape_cell(code)}</code> <span class="soft">{escape_cell(action)}</span></li>'
        for code, action in calls.items()
    )
    return f'<div><div class="label">Next</div><ul class="calls">{items}</ul></div>' if items else ""


def rows(title: str, heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a small table for a card; after 50 rows it says how many more there are."""
    all_lines = [*lines]
    head = "".join(f'<th scope="col">{escape_cell(name)}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape_cell(cell)}</td>" for cell in line) + "</tr>"
        for line in all_lines[:ROWS_MAX]
    )
    table = (
        f"<table><caption>{escape_cell(title)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    return scrolling(table, title) + _more(len(all_lines))


def scrolling(table: str, name: str) -> str:
    """Return a table in a box that scrolls if it is too wide, by keys, too; a screen reader says its name."""
    return f'<div class="plain-table" tabindex="0" role="group" aria-label="{escaped(name)}">{table}</div>'


def numbered(items: Sequence[str]) -> str:
    """Return numbered steps for a card; after 50 it says how many more there are."""
    listed = "".join(f"<li>{escape_cell(item)}</li>" for item in items[:ROWS_MAX])
    return f'<ol class="steps">{listed}</ol>{_more(len(items))}'


def sparkline(course: Sequence[float]) -> str:
    """A line of a figure over time, from zero; empty without two points."""
    if len(course) < 2:  # noqa: PLR2004  a point is no line
        return ""
    width, height = _SPARKLINE
    most = max(course) or 1
    points = [
        f"{round(width * position / (len(course) - 1), 1):g},{round(height * (1 - value / most), 1):g}"
        for position, value in enumerate(course)
    ]
    # The line ends outside the picture, so that only its upper edge is drawn; its width needs room at the top.
    start, *_, end = (point.partition(",")[2] for point in points)
    line = f"-9,{height + 9} -9,{start} {' '.join(points)} {width + 9},{end} {width + 9},{height + 9}"
    return (
        f'<svg class="sparkline" viewBox="0 -1 {width} {height + 1}" preserveAspectRatio="none" aria-hidden="true">'
        f'<polyline points="{line}"></polyline></svg>'
    )


def escape_cell(value: object) -> str:
    """Escape a value for a card: short, one line, with its text direction isolated."""
    if value is None:
        return UNKNOWN_TEXT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"<bdi>{escaped(truncate(value, TEXT_MAX))}</bdi>"


def truncate(text: object, most: int) -> str:
    r"""Shorten a text to one line of at most ``most`` characters, without control characters."""
    line = plain(text)
    return line if len(line) <= most else line[: most - 1] + "…"


def _more(count: int) -> str:
    return f"<p>and {count - ROWS_MAX:,} more</p>" if count > ROWS_MAX else ""
