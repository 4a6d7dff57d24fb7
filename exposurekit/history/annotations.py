"""The analyst's own labels, ticks and notes: what somebody said, apart from what was observed. Newest counts."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
from pydantic import BaseModel

from exposurekit.errors import InvalidArgument
from exposurekit.history import identity
from exposurekit.history.storage.schema import KINDS, TABLES

# A row of a table, or several: a DataFrame, a Series, a mapping, or what `DataFrame.itertuples` gives.
Rows: TypeAlias = "pd.DataFrame | pd.Series[Any] | Mapping[str, Any] | tuple[Any, ...]"

LABEL, TICK, NOTE = "label", "tick", "note"
STEP = "step"  # the kind of what is ticked, beside the kinds of things
LABELS = ("mine", "not mine", "unsure")
TICKS = ("done", "unable", "open")


def rows(thing: Rows) -> list[dict[str, Any]]:
    """The rows that somebody points at: a table's, one row of it, or a mapping with the same names.

    >>> rows({"user_id": 1, "record_id": 2})
    [{'user_id': 1, 'record_id': 2}]
    """
    if isinstance(thing, BaseModel):
        raise InvalidArgument(
            "Point at a row of records(), alerts() or steps(): a single record does not say whose it is"
        )
    if isinstance(thing, pd.DataFrame):
        return [{str(name): value for name, value in row.items()} for row in thing.to_dict("records")]
    if isinstance(thing, pd.Series):
        return [{str(name): value for name, value in thing.items()}]
    if isinstance(thing, Mapping):
        return [dict(thing)]
    if hasattr(thing, "_asdict"):
        return [thing._asdict()]
    raise InvalidArgument(
        "Point at a row of records(), links(), alerts() or steps(), or at several rows as a table"
    )


def key_columns(row: Mapping[str, Any], records_by: str) -> dict[str, Any]:
    """Where a mark belongs: to whom, to what kind of thing, and to which.

    Args:
        row: Of `records`, `links`, `alerts` or `steps`; or one that says ``key`` itself, as of `diff`, `changes`,
            `relistings`, `labels`.
        records_by: ``id``; or ``reference``, where ids change: then a record is told by its ``site`` and
            ``reference_id``, an alert by ``site``, ``href``, ``link_url`` and text, a step by ``site``, ``url``, number
            and text.

    Raises:
        InvalidArgument: The row does not tell.
    """
    told = {name: _value(value) for name, value in row.items()}
    if told.get("user_id") is None:
        raise InvalidArgument("The row has no user_id: take it from records(), links(), alerts() or steps()")
    kind, key = _kind_and_key(told, records_by)
    number = told.get("step_number", told.get("step")) if kind == STEP else None
    return {"user_id": int(told["user_id"]), "kind": kind, "key": key, "step": number}


def _kind_and_key(row: Mapping[str, Any], records_by: str) -> tuple[str, int]:
    by_id = records_by == "id"
    if row.get("key") is not None and ("kind" in row or "record_id" in row):
        return check_annotation(row.get("kind", "record"), (*KINDS, STEP), "kind"), int(row["key"])
    if "step_number" in row and "step" in row:
        about = "record_id" if by_id else "site"
        names = (about, "url", "step_number", "step")
        return STEP, identity.hash64(STEP, *_of(row, names))
    if "text" in row and "html" in row:
        of_source = ("site", "href", "link_url")
        site, href, link_url = map(row.get, of_source) if by_id else _of(row, of_source)
        return "alert", identity.alert_key(
            row.get("record_id"), site, href, link_url, row["text"], by=records_by
        )
    if row.get("record_id") is not None:
        site, reference = ("", "") if by_id else _of(row, ("site", "reference_id"), filled=True)
        return "record", identity.record_key(int(row["record_id"]), site, reference, by=records_by)
    if "title" in row:
        return "link", identity.link_key(row.get("url"), row["title"])
    raise InvalidArgument("The row is not of records(), links(), alerts() or steps(): it lacks their columns")


def _of(row: Mapping[str, Any], names: Iterable[str], *, filled: bool = False) -> list[Any]:
    """What these columns say, which have to be there."""
    for name in names:
        if name not in row or (filled and row[name] is None):
            raise InvalidArgument(
                f"The row has no {name}, by which it is told from others: take it from a whole row"
            )
    return [row[name] for name in names]


def _value(value: Any) -> Any:
    """A cell as a plain value: what is missing is None, a number of numpy's a number."""
    if isinstance(value, list | tuple | dict) or hasattr(value, "__len__"):
        return value
    if value is None or pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def check_annotation(value: str, allowed: tuple[str, ...], what: str) -> str:
    """One of the words that a mark may be.

    Raises:
        InvalidArgument: It is none of them.
    """
    if value not in allowed:
        raise InvalidArgument(f"A {what} is one of: {', '.join(allowed)}")
    return value


def text_values(text: str, what: str) -> str:
    """What somebody wrote, if it is text.

    Raises:
        InvalidArgument: It is not.
    """
    if not isinstance(text, str):
        raise InvalidArgument(f"A {what} is text, such as 'another birth year'")
    return text


def table(
    marks: Iterable[Mapping[str, Any]], *, mark: str, value: str | None, note: str, at: datetime
) -> pa.Table:
    """Marks as the table holds them."""
    made = [{"marked_at": at, "mark": mark, "value": value, "note": note} | dict(one) for one in marks]
    return pa.Table.from_pylist(made, TABLES["marks"].schema)
