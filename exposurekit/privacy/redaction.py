"""Redact tables: keep allow-listed columns, then check that no removed value remains in them."""

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import pandas as pd

from exposurekit.errors import Leak
from exposurekit.privacy.personal_data_search import PersonalDataSearch

# Allow-listed columns, kept only if the values have the expected type.
WORDS = frozenset((
    "site", "status", "prev_status", "before", "after", "what", "previous_status", "cause", "presence", "source_type", "kind",
    "contains", "user_fields_required_for_removal", "field", "fields", "event", "alias_type", "operation", "error",
    "outcome", "origin", "scope", "label", "tick", "last_complete_load", "end", "ways", "assumption", "flow",
))  # fmt: skip
INSTANTS = frozenset((
    "occurred_at", "first_seen_at", "changed_at", "not_before", "removed_at", "listed_again_at", "last_complete_at",
    "observed_until", "waiting_since", "first_registered_after", "requested_after", "requested_at", "ended_after", "ended_at",
    "declared_at", "seen_at", "marked_at", "ticked_at", "labelled_at", "started_at", "finished_at",
    "newest_at", "episode_at", "at", "period",
))  # fmt: skip
NUMBERS = frozenset((
    # ids and numbers that the service or a history assigned
    "user_id", "record_id", "alert_number", "step_number", "alias_id", "email_id", "phone_number_id", "address_id",
    "seq", "episode", "day", "rank",
    # counts, durations and flags
    "discovered", "pending removal", "removed", "other", "total", "vanished", "unknown", "people", "sites", "links",
    "listings", "records", "unlocks", "removals", "together", "n", "open", "unseen", "steps", "done", "unable",
    "minutes", "items", "items_per_minute", "listed", "whole", "partial", "failed", "missed", "absent", "unlisted", "late",
    "registered", "complete", "deliveries", "new", "entered_scope", "relisted", "changed", "left_scope",
    "links_new", "links_vanished", "alerts_new", "alerts_vanished", "left_censored", "open_s", "gone_days", "gone_days_low", "gone_days_high", "days",
    "quiet_days", "vanished_at_once", "mine", "not mine", "unsure", "unlabelled", "precision", "low", "high", "open_now",
    "of_open", "of_gone", "of_new", "if_done", "beyond", "left_out", "first_removed", "median_days", "median_low", "median_high", "never",
    "never_low", "never_high", "followed_days", "at_risk", "censored", "survival", "is_scanning",
    "identification_on_file", "is_profile_field", "is_doubtful", "status", "pages", "of_listings", "of_pages", "score",
    "points", "open_before", "open_after", "change", "requested", "without_effect", "relistings", "listed_again", "open_again", "entered scope", "listed again", "left scope", "removal failed", "status changed",
    "declared_days", "due", "overdue", "p_value", "q_value", "takes_longer",
    "waiting", "refused", "ignored", "not_listed_again", "overdue_days", "users", "gap_days", "ticks", "minutes_until", "success_rate",
))  # fmt: skip
# Columns that only some tables have, and that are left out: names somebody gave, notes, addresses, and keys of listings.
PERSONAL = frozenset((
    "run", "source", "inbox", "inbox_until", "webhook_id", "events", "others", "key", "note", "tick_note", "label_reason", "reason", "person", "form_values", "step", "group", "name", "href",
    "link_url", "link_title", "locations", "reference_id", "age", "state",
))  # fmt: skip

# Columns that hold fixed texts beside one of these columns, and possibly personal values in other tables: `state` is a count
# by state or the progress of work, or part of an address; `reason` is about an estimate, or a note on an item of work.
_FIXED_TEXTS: dict[Any, tuple[str, ...]] = {
    "state": ("listings", "items"),
    "reason": ("open_now", "ways"),
    "verdict": ("not_listed_again",),
    "value": ("marked_at",),  # a label or a tick
    "example": ("operation",),  # the type and size of a value
}

_LISTING_KINDS = ("record", "listing")  # beside them `site` is a people-search site, and else a host

# Of the intervals; numbers of open listings before a forecast; days that verifying a removal may take.
_ATTRIBUTES = {"level": float, "past": list, "allowance_days": float}


def redacted(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of a table with allow-listed columns only, none of which holds personal values.

    A column is kept by name, and only if its values have the expected type: ids of the service
    (``user_id``, ``record_id``, ...), counts and shares, instants of observations and actions (no birth dates), and a few
    texts: sites, statuses, kinds of data, names of fields. Names, addresses, email addresses, phone numbers, URLs, titles,
    ages, references, guides, steps, reasons and notes are removed, and so is **every column that is not on the list**, such
    as one that you added. An index that is not on the list is replaced by row numbers. A site that may be the host of a
    page, as in counts of links or alerts, is removed too.

    Ids are the service's own: whoever has access to it can tell who user 12 is. Of a site with few people, readers who know
    them can tell who they are.

    Args:
        frame: Any table of `Exposure`, `History` or `analysis`.

    Returns:
        The same rows in the same order, with the columns that stay, under their names and of their dtypes. Of
        ``attrs`` the level of the intervals and the past of a forecast stay.

    Raises:
        Leak: A column that stays contains a removed value, such as a site that is named like a person.

    >>> redacted(exposure.records()).columns.tolist()
    ['site', 'status', 'user_id', 'user_fields_required_for_removal', 'record_id']
    """
    table = with_harmless_columns(frame)
    assert_redacted(table, frame)
    return table


def with_harmless_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy with the columns of `redacted`, whose texts are not searched for the values of the others."""
    if _is_matrix(frame):
        matrix = frame.select_dtypes("number").copy()
        matrix.attrs.clear()
        return matrix
    columns = [*_harmless_columns(frame)]
    harmless = pd.DataFrame(dict(enumerate(columns)), index=frame.index)
    harmless.columns = pd.Index(
        [str(column.name) for column in columns]
    )  # a joined table may have two of one name
    table = harmless if _stays(frame.index.name, frame.index.to_series()) else harmless.reset_index(drop=True)
    table = _without_hosts(table) if "site" in table else table
    table.attrs = {
        name: frame.attrs[name]
        for name, kind in _ATTRIBUTES.items()
        if _is_numeric(frame.attrs.get(name), kind)
    }
    return table


def find_values(frame: pd.DataFrame, search: PersonalDataSearch) -> None:
    """Search for the personal values of a table; the column names determine their kind."""
    positions: dict[Any, list[int]] = defaultdict(list)  # of a joined table two columns may have one name
    for position, (name, column) in enumerate(frame.items()):
        positions[name].append(position)
        if name in _SINGLE_COLUMNS and not pd.api.types.is_numeric_dtype(column.dtype):
            for value in _unique(column):
                _SINGLE_COLUMNS[str(name)](search, value)
    for columns, add in _COLUMNS_TOGETHER.items():
        for together in itertools.product(*(positions.get(name, ()) for name in columns)):
            for values in frame.iloc[:, [*together]].dropna().drop_duplicates().itertuples(index=False):
                add(search, *values)


def _is_matrix(frame: pd.DataFrame) -> bool:
    """Whether a table counts listings by person and site: its columns are sites."""
    is_named = (frame.index.name, frame.columns.name) == ("user_id", "site")
    return is_named and pd.api.types.is_integer_dtype(frame.index.dtype)


def with_index(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its index as columns; an index that only numbers the rows is dropped."""
    named = table.index.nlevels > 1 or table.index.name is not None
    return table.reset_index(allow_duplicates=True) if named else table


def assert_redacted(table: pd.DataFrame, frame: pd.DataFrame, *, common: Collection[str] = ()) -> None:
    """Check a table that was made of the harmless columns of a frame.

    Args:
        table: The table.
        frame: The frame, with all of its columns.
        common: Texts that many people share, such as the name of a large site: they may stay even if somebody has that name.

    Raises:
        Leak: A text contains a value of a removed column.
    """
    if _is_matrix(frame):
        return
    shareable, original = with_index(table), with_index(frame)
    worded = [column for _, column in shareable.items() if _is_worded(column)]
    search = PersonalDataSearch(
        str(value) for column in worded for value in _unique(column) if value not in common
    )
    find_values(original.drop(columns=[*shareable.columns], errors="ignore"), search)
    if search.kinds:
        raise Leak(
            f"The table would still contain personal data: {', '.join(sorted(search.kinds))}. "
            f"Check the columns: {', '.join(str(column.name) for column in worded)}."
        )


def _is_numeric(value: object, kind: type) -> bool:
    """Whether an attribute is of its kind, and holds numbers only."""
    numbers = [n for pair in value for n in pair] if isinstance(value, list) else [value]
    return isinstance(value, kind) and all(isinstance(n, int | float) for n in numbers)


def _is_worded(column: "pd.Series[Any]") -> bool:
    return not pd.api.types.is_any_real_numeric_dtype(column.dtype) and column.name not in INSTANTS


def _unique(column: "pd.Series[Any]") -> Iterable[Any]:
    return column.explode().dropna().astype("str").unique().tolist()


def _add(kind: str, min_length: int = 0) -> Callable[[PersonalDataSearch, str], None]:
    return lambda search, value: search.add(kind, value) if len(value) >= min_length else None


def _add_url(search: PersonalDataSearch, value: str) -> None:
    """Search for a URL without its scheme; a bare host only if the value on file is one."""
    bare = _SCHEME.sub("", value)
    search.add("URL", bare if bare.partition("/")[2] else value)


_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://(www\.)?", re.IGNORECASE)
_MIN_TITLE = 12  # characters; shorter titles and texts are not personal
_SINGLE_COLUMNS: dict[str, Callable[[PersonalDataSearch, str], None]] = {
    **dict.fromkeys(("name", "relations", "aliases"), PersonalDataSearch.add_full_name),
    "number": PersonalDataSearch.add_phone,
    "address": PersonalDataSearch.add_email,
    "address1": lambda search, value: search.add_address("street", value),
    "locations": lambda search, value: search.add_address("place", value),
    "reference_id": _add("reference"),
    **dict.fromkeys(("href", "url", "link_url"), _add_url),
    **dict.fromkeys(("title", "link_title"), _add("page title", _MIN_TITLE)),
    "text": _add("text of an alert", _MIN_TITLE),
}
_COLUMNS_TOGETHER: dict[tuple[str, ...], Callable[..., None]] = {
    ("first_name", "last_name"): PersonalDataSearch.add_name,
    ("middle_name", "last_name"): PersonalDataSearch.add_name,
    ("first_name", "middle_name", "last_name"): lambda search, *parts: search.add_full_name(" ".join(parts)),
    ("birth_date",): PersonalDataSearch.add_birth_date,
    **dict.fromkeys(
        (("city", "state"), ("city", "zip"), ("zip", "city"), ("address1", "city")),
        lambda search, *parts: search.add_address("address", " ".join(parts)),
    ),
}


def _harmless_columns(frame: pd.DataFrame) -> Iterator["pd.Series[Any]"]:
    for index, name in enumerate(frame.columns):
        values = frame.iloc[:, index]
        if _stays(name, values) or not {*_FIXED_TEXTS.get(name, ())}.isdisjoint(frame.columns):
            yield _without_unused_categories(values)


def _stays(name: Any, values: "pd.Series[Any]") -> bool:
    if not isinstance(name, str):
        return False
    if pd.api.types.is_numeric_dtype(values.dtype):
        return name in NUMBERS
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return name in INSTANTS
    return name in WORDS


def _without_unused_categories(values: "pd.Series[Any]") -> "pd.Series[Any]":
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.remove_unused_categories()
    return values.copy()


def _without_hosts(table: pd.DataFrame) -> pd.DataFrame:
    # The site of a web page is its host, which may be a personal domain.
    if "listed" in table:
        return table.drop(columns="site")
    if "kind" not in table:
        return table
    is_listing = table.loc[:, table.columns == "kind"].isin(_LISTING_KINDS).all(axis="columns")
    table = table.copy(deep=False)
    for position, (name, column) in enumerate([*table.items()]):
        if name == "site":
            table.isetitem(position, column.astype("str").where(is_listing).array)
    return table
