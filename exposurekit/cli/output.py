"""Lists on a terminal or as JSON. The only place of the command that lays anything out in columns."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from exposurekit.text.sanitize import plain

Row = Mapping[str, Any]
NAMES_MISSING = (
    "Names and what to enter are missing, because a history does not keep what people have on file. "
    "Add --live to take them from the service."
)


def label_of(file: Path) -> str:
    r"""A file's name, on one line, and with nothing in it that a terminal would obey or cannot write.

    >>> label_of(Path("a\nError: b\x1bc.html"))
    'a Error: bc.html'
    """
    return plain(click.format_filename(file))


def print_json(value: Any) -> None:
    """One line of JSON; instants in UTC, as ISO 8601 has them."""
    click.echo(json.dumps(value, default=_state_text))


def print_rows(rows: Sequence[Row], *, as_json: bool, none: str) -> None:
    """Rows with the same keys: as JSON, or in columns under their names; ``none`` is said where there are none."""
    if as_json:
        print_json(rows)
    elif rows:
        print_columns(rows)
    else:
        click.echo(none, err=True)


def print_columns(rows: Sequence[Row]) -> None:
    """Rows in columns, under the names of their keys."""
    heads = [name.replace("_", " ") for name in rows[0]]
    cells = [heads, *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "; ".join(map(_cell, value)) or "-"
    return "-" if value is None else plain(value)


def _state_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{type(value).__name__} is not for JSON")
