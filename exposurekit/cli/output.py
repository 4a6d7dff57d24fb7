"""Print rows as columns or JSON."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from wcwidth import wcswidth

from exposurekit.text.sanitize import plain

Row = Mapping[str, Any]


def label_of(file: Path) -> str:
    r"""Return a file's name on one line, without control characters or characters that the terminal cannot print.

    >>> label_of(Path("a\nError: b\x1bc.html"))
    'a Error: bc.html'
    """
    return plain(click.format_filename(file))


def print_json(value: Any) -> None:
    """Print one line of JSON; times are ISO 8601 in UTC, and a dataclass is its fields."""
    click.echo(json.dumps(value, default=_as_json))


def json_document(value: Any) -> bytes:
    """Return JSON for people to read, with the values of `print_json`."""
    return (json.dumps(value, default=_as_json, ensure_ascii=False, indent=2) + "\n").encode()


def print_rows(rows: Sequence[Row], *, as_json: bool, none: str) -> None:
    """Print rows as JSON or in columns; if there are none, print the message ``none``."""
    if as_json:
        print_json(rows)
    elif rows:
        print_columns(rows)
    else:
        click.echo(none, err=True)


def fields(value: Any, *names: str) -> dict[str, Any]:
    """Return attributes of an object by name."""
    return {name: getattr(value, name) for name in names}


def print_columns(rows: Sequence[Row]) -> None:
    """Print rows in columns under their keys."""
    headers = [name.replace("_", " ") for name in rows[0]]
    cells = [headers, *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(wcswidth, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (cell + " " * (width - wcswidth(cell)) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(padded).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return "; ".join(map(_cell, value)) or "-"
    return "-" if value is None else plain(value)


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
