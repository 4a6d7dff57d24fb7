"""Columns of every table: the field they are read from, Arrow type and pandas dtype."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from exposurekit.contract.inputs import ADDRESS_FIELDS

UTC = pa.timestamp("us", "UTC")
TEXT_DTYPE = pd.StringDtype(na_value=np.nan)
LISTS_DTYPE = pd.ArrowDtype(pa.list_(pa.string()))
# Columns of alerts that their steps include: the listing, the person, and what to enter.
DETAILS = (
    *("name", "age", "locations", "reference_id", "href", "link_title", "link_url", "guide"),
    *("user_fields_required_for_removal", "person", "form_values"),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a column, in Arrow and in pandas."""

    arrow: pa.DataType
    dtype: Any


ID = Kind(pa.int64(), np.dtype("int64"))
MAYBE_ID = Kind(pa.int64(), pd.Int64Dtype())
TEXT = Kind(pa.large_string(), TEXT_DTYPE)  # as in pandas: no copy at the end
CATEGORY = Kind(pa.string(), "category")
TEXTS = Kind(pa.list_(pa.string()), LISTS_DTYPE)
SMALL = Kind(pa.int16(), pd.Int16Dtype())
FLAG = Kind(pa.bool_(), pd.BooleanDtype())
SECONDS = Kind(pa.int64(), pd.DatetimeTZDtype("us", "UTC"))
INSTANT = Kind(UTC, pd.DatetimeTZDtype("us", "UTC"))


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, its type, and the field it is read from (dots separate nested fields)."""

    name: str
    kind: Kind
    source: str = ""

    @property
    def path(self) -> list[str]:
        """The path of the field in the resource."""
        return (self.source or self.name).split(".")


def _columns(kind: Kind, *names: str, within: str = "") -> tuple[Column, ...]:
    """Columns of one type, which are read from fields of their names, or of their names within another field."""
    return tuple(Column(name, kind, within and f"{within}.{name}") for name in names)


USER_ID = Column("user_id", ID)
TABLES: dict[str, tuple[Column, ...]] = {
    "users": (
        Column("user_id", ID, "id"),
        *_columns(TEXT, "first_name", "middle_name", "last_name"),
        Column("birth_date", SECONDS),
        *_columns(FLAG, "is_scanning", "identification_on_file"),
    ),
    # In 80 characters pandas shows only the outer columns: site and status come first, and the last ones are narrow.
    "records": (
        *_columns(CATEGORY, "site", "status"),
        USER_ID,
        *_columns(TEXT, "name", "href"),
        *_columns(TEXTS, "relations", "aliases", "locations", "user_fields_required_for_removal"),
        Column("reference_id", TEXT),
        Column("age", SMALL),
        Column("record_id", ID, "id"),
    ),
    "links": (USER_ID, *_columns(TEXT, "url", "title"), Column("contains", TEXTS)),
    "alerts": (
        *_columns(ID, "user_id", "alert_number"),
        Column("source_type", CATEGORY),
        *_columns(TEXT, "text", "html", "url", "guide"),
        Column("opt_out_procedure", TEXTS),
        Column("record_id", MAYBE_ID, "source.record.id"),
        *_columns(CATEGORY, "site", "status", within="source.record"),
        Column("href", TEXT, "source.record.href"),
        Column("link_url", TEXT, "source.link.url"),
        Column("link_title", TEXT, "source.link.title"),
    ),
    "steps": (
        *_columns(ID, "user_id", "alert_number", "step_number"),
        Column("step", TEXT),
        Column("source_type", CATEGORY),
        Column("record_id", MAYBE_ID),
        *_columns(CATEGORY, "site", "status"),
        Column("url", TEXT),
    ),
    "aliases": (
        USER_ID,
        Column("alias_id", MAYBE_ID, "id"),
        *_columns(TEXT, "first_name", "last_name"),
        Column("alias_type", CATEGORY),
    ),
    "emails": (USER_ID, Column("email_id", MAYBE_ID, "id"), Column("address", TEXT)),
    "phone_numbers": (USER_ID, Column("phone_number_id", MAYBE_ID, "id"), Column("number", TEXT)),
    "addresses": (USER_ID, Column("address_id", MAYBE_ID, "id"), *_columns(TEXT, *ADDRESS_FIELDS)),
    "service_history": (USER_ID, Column("event", CATEGORY), Column("occurred_at", INSTANT)),
    "failures": (
        USER_ID,
        Column("operation", TEXT),
        Column("error", CATEGORY),
        Column("status", SMALL),
        Column("reason", TEXT),
    ),
    "deviations": (
        *_columns(TEXT, "operation", "field", "kind"),
        Column("users", MAYBE_ID),
        Column("example", TEXT),
    ),
}
# What an alert's own record shows, for a record that the user's records lack.
SOURCE_RECORD = (
    Column("name", TEXT, "source.record.name"),
    Column("age", SMALL, "source.record.age"),
    Column("locations", TEXTS, "source.record.locations"),
    Column("reference_id", TEXT, "source.record.reference_id"),
    Column("user_fields_required_for_removal", TEXTS, "source.record.user_fields_required_for_removal"),
)
