"""Columns of every table: the field they are read from, Arrow type and pandas dtype."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

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


USER_ID = Column("user_id", ID)
TABLES: dict[str, tuple[Column, ...]] = {
    "users": (
        Column("user_id", ID, "id"),
        Column("first_name", TEXT),
        Column("middle_name", TEXT),
        Column("last_name", TEXT),
        Column("birth_date", SECONDS),
        Column("is_scanning", FLAG),
        Column("identification_on_file", FLAG),
    ),
    # In 80 characters pandas shows only the outer columns: site and status come first, and the last ones are narrow.
    "records": (
        Column("site", CATEGORY),
        Column("status", CATEGORY),
        USER_ID,
        Column("name", TEXT),
        Column("href", TEXT),
        Column("relations", TEXTS),
        Column("aliases", TEXTS),
        Column("locations", TEXTS),
        Column("user_fields_required_for_removal", TEXTS),
        Column("reference_id", TEXT),
        Column("age", SMALL),
        Column("record_id", ID, "id"),
    ),
    "links": (USER_ID, Column("url", TEXT), Column("title", TEXT), Column("contains", TEXTS)),
    "alerts": (
        USER_ID,
        Column("alert_number", ID),
        Column("source_type", CATEGORY),
        Column("text", TEXT),
        Column("html", TEXT),
        Column("url", TEXT),
        Column("guide", TEXT),
        Column("opt_out_procedure", TEXTS),
        Column("record_id", MAYBE_ID, "source.record.id"),
        Column("site", CATEGORY, "source.record.site"),
        Column("status", CATEGORY, "source.record.status"),
        Column("href", TEXT, "source.record.href"),
        Column("link_url", TEXT, "source.link.url"),
        Column("link_title", TEXT, "source.link.title"),
    ),
    "steps": (
        USER_ID,
        Column("alert_number", ID),
        Column("step_number", ID),
        Column("step", TEXT),
        Column("source_type", CATEGORY),
        Column("record_id", MAYBE_ID),
        Column("site", CATEGORY),
        Column("status", CATEGORY),
        Column("url", TEXT),
    ),
    "aliases": (
        USER_ID,
        Column("alias_id", MAYBE_ID, "id"),
        Column("first_name", TEXT),
        Column("last_name", TEXT),
        Column("alias_type", CATEGORY),
    ),
    "emails": (USER_ID, Column("email_id", MAYBE_ID, "id"), Column("address", TEXT)),
    "phone_numbers": (USER_ID, Column("phone_number_id", MAYBE_ID, "id"), Column("number", TEXT)),
    "addresses": (
        USER_ID,
        Column("address_id", MAYBE_ID, "id"),
        *(Column(name, TEXT) for name in ("address1", "address2", "city", "state", "zip", "country")),
    ),
    "service_history": (USER_ID, Column("event", CATEGORY), Column("occurred_at", INSTANT)),
    "failures": (
        USER_ID,
        Column("operation", TEXT),
        Column("error", CATEGORY),
        Column("status", SMALL),
        Column("reason", TEXT),
    ),
    "deviations": (
        Column("operation", TEXT),
        Column("field", TEXT),
        Column("kind", TEXT),
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
