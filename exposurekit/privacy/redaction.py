"""What may be shown of a table to those who may not see people's data: an allow-list, and a last look at what it lets through."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd

from exposurekit.errors import Leak
from exposurekit.privacy.detector import PersonalDataMatcher

# What stays, by its name, and only where it holds what the name says.
WORDS = frozenset((
    "site", "status", "prev_status", "before", "after", "what", "previous_status", "cause", "presence", "source_type", "kind",
    "contains", "user_fields_required_for_removal", "field", "fields", "event", "alias_type", "operation", "error",
    "outcome", "origin", "scope", "label", "tick", "last_seen_well",
))  # fmt: skip
INSTANTS = frozenset((
    "occurred_at", "first_seen_at", "changed_at", "not_before", "removed_at", "listed_again_at", "last_complete_at",
    "observed_until", "first_registered_after", "seen_at", "marked_at", "ticked_at", "labelled_at", "started_at", "finished_at",
    "newest_at", "episode_at", "at", "period",
))  # fmt: skip
NUMBERS = frozenset((
    # which one, of those that the service or a history numbered
    "user_id", "record_id", "alert_number", "step_number", "alias_id", "email_id", "phone_number_id", "address_id",
    "seq", "episode", "day", "place",
    # how many, or how long, or whether
    "discovered", "pending removal", "removed", "other", "total", "vanished", "unknown", "people", "sites", "links",
    "listings", "records", "unlocks", "removals", "together", "n", "moves", "open", "unseen", "steps", "done", "unable",
    "minutes", "items", "items_per_minute", "listed", "whole", "partial", "failed", "missed", "absent", "unlisted", "late",
    "registered", "complete", "deliveries", "new", "entered_scope", "relisted", "changed", "left_scope",
    "links_new", "links_vanished", "alerts_new", "alerts_vanished", "left_censored", "open_s", "gone_days", "days",
    "quiet_days", "vanished_at_once", "mine", "not mine", "unsure", "unlabelled", "precision", "low", "high", "open_now",
    "of_open", "of_gone", "of_new", "beyond", "left_out", "median_days", "median_low", "median_high", "never",
    "never_low", "never_high", "followed_days", "at_risk", "censored", "survival", "is_scanning",
    "identification_on_file", "is_known", "is_doubtful", "status", "pages", "of_listings", "of_pages", "score",
))  # fmt: skip


def redacted(frame: pd.DataFrame) -> pd.DataFrame:
    """A copy of a table without personal values: what is known to be harmless stays, whatever else there is goes.

    Columns stay by name, and only where they hold what the name says: ids that the service gave (``user_id``,
    ``record_id``, ...: numbers), counts and shares (numbers), instants of what was seen or done (no birth dates), and a
    few words: sites, statuses, kinds of data, names of fields. Names, addresses, e-mails, phones, URLs, titles, ages,
    references, guides, steps, reasons and notes go, and so does **every column that is not known here**, such as one
    that you added. So does an index that is not known: rows are then numbered anew. Where a site may be the host of a page,
    as where links or alerts are counted, it goes too.

    Ids are the service's own: who has that can tell who user 12 is. And where few people are at a site, those who know
    them can tell them.

    Args:
        frame: Any table of `Exposure`, `History` or `analysis`.

    Returns:
        The same rows in the same order, with the columns that stay, under their names and of their dtypes.

    Raises:
        Leak: What stays tells what goes: a site that is called as a person is, say.

    >>> from exposurekit.privacy.redaction import redacted
    >>> redacted(exposure.records()).columns.tolist()
    ['site', 'status', 'user_id', 'user_fields_required_for_removal', 'record_id']
    """
    if _is_matrix(frame):
        matrix = frame.select_dtypes("number").copy()
        matrix.attrs.clear()
        return matrix
    harmless = pd.DataFrame(dict(_harmless_columns(frame)), index=frame.index)
    table = harmless if _stays(frame.index.name, frame.index.to_series()) else harmless.reset_index(drop=True)
    table = _without_hosts(table) if "site" in table else table
    _check(with_index(table), with_index(frame))
    return table


def values_in(frame: pd.DataFrame, matcher: PersonalDataMatcher) -> PersonalDataMatcher:
    """Add what a table tells of people, by the names of its columns: names, addresses, pages, days of birth.

    >>> from exposurekit.privacy.detector import PersonalDataMatcher
    >>> from exposurekit.privacy.redaction import values_in
    >>> len(values_in(exposure.records(), PersonalDataMatcher())) > 0
    True
    """
    for columns, add in _TOLD_BY.items():
        for name in columns:
            if name in frame and not pd.api.types.is_numeric_dtype(frame[name].dtype):
                for value in _unique(frame[name]):
                    add(matcher, value)
    for columns, add_all in _TOLD_TOGETHER.items():
        if {*columns} <= {*frame.columns}:
            for values in frame[[*columns]].dropna().drop_duplicates().itertuples(index=False):
                add_all(matcher, *values)
    return matcher


def _is_matrix(frame: pd.DataFrame) -> bool:
    """Whether it counts people's listings by site: its columns are sites."""
    is_named = (frame.index.name, frame.columns.name) == ("user_id", "site")
    return is_named and pd.api.types.is_integer_dtype(frame.index.dtype)


def with_index(table: pd.DataFrame) -> pd.DataFrame:
    """A table with what its index tells as columns; one that only numbers the rows tells nothing.

    >>> from exposurekit.privacy.redaction import with_index
    >>> with_index(pd.DataFrame({"n": [3]}, pd.Index(["Seekfolk"], name="site"))).columns.tolist()
    ['site', 'n']
    """
    named = table.index.nlevels > 1 or table.index.name is not None
    return table.reset_index(allow_duplicates=True) if named else table


def _check(table: pd.DataFrame, frame: pd.DataFrame) -> None:
    """See that no word that stays is one that went."""
    worded = [column for _, column in table.items() if _is_worded(column)]
    text = "\n".join(str(value) for column in worded for value in _unique(column))
    words = [column.name for column in worded]
    if leaks := values_in(frame.drop(columns=[*table.columns]), PersonalDataMatcher(within=text)).search(
        text
    ):
        raise Leak(
            f"What is left of the table would tell personal data: {', '.join(sorted(leaks))}. "
            f"One of its columns says it: {', '.join(map(str, words))}."
        )


def _is_worded(column: "pd.Series[Any]") -> bool:
    return not pd.api.types.is_any_real_numeric_dtype(column.dtype) and column.name not in INSTANTS


def _unique(column: "pd.Series[Any]") -> Iterable[Any]:
    return column.explode().dropna().astype("str").unique().tolist()


def _adding(kind: str, min_length: int = 0) -> Callable[[PersonalDataMatcher, str], None]:
    return lambda matcher, value: matcher.add(kind, value) if len(value) >= min_length else None


def _add_page(matcher: PersonalDataMatcher, value: str) -> None:
    """As it stands, and, where it names more than a host, without how it is reached."""
    matcher.add("address of a page", value)
    bare = _SCHEME.sub("", value)
    if bare.partition("/")[2]:
        matcher.add("address of a page", bare)


_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*://(www\.)?", re.IGNORECASE)
_LETTERS_OF_TITLE = 12  # "A page" is nobody's
_TOLD_BY: dict[tuple[str, ...], Callable[[PersonalDataMatcher, str], None]] = {
    ("name", "relations", "aliases"): PersonalDataMatcher.add_full_name,
    ("number",): PersonalDataMatcher.add_phone,
    ("address",): PersonalDataMatcher.add_email,
    ("address1",): lambda matcher, value: matcher.add_address("street", value),
    ("locations",): lambda matcher, value: matcher.add_address("place", value),
    ("reference_id",): _adding("reference"),
    ("href", "url", "link_url"): _add_page,
    ("title", "link_title"): _adding("title of a page", _LETTERS_OF_TITLE),
    ("text",): _adding("text of an alert", _LETTERS_OF_TITLE),
}
_TOLD_TOGETHER: dict[tuple[str, ...], Callable[..., None]] = {
    ("first_name", "last_name"): PersonalDataMatcher.add_name,
    ("middle_name", "last_name"): PersonalDataMatcher.add_name,
    ("first_name", "middle_name", "last_name"): lambda matcher, *parts: matcher.add_full_name(
        " ".join(parts)
    ),
    ("birth_date",): PersonalDataMatcher.add_birth_date,
    **dict.fromkeys(
        (("city", "state"), ("city", "zip"), ("zip", "city"), ("address1", "city")),
        lambda matcher, *parts: matcher.add_address("address", " ".join(parts)),
    ),
}


def _harmless_columns(frame: pd.DataFrame) -> Iterator[tuple[str, "pd.Series[Any]"]]:
    for index, name in enumerate(frame.columns):
        values = frame.iloc[:, index]
        # `state` counts listings by state, or says how far an item of the work queue is; else it may be an address.
        if _stays(name, values) or (name == "state" and {"listings", "items"} & {*frame.columns}):
            yield name, _alone(values)


def _stays(name: Any, values: "pd.Series[Any]") -> bool:
    if not isinstance(name, str):
        return False
    if pd.api.types.is_numeric_dtype(values.dtype):
        return name in NUMBERS
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return name in INSTANTS
    return name in WORDS


def _alone(values: "pd.Series[Any]") -> "pd.Series[Any]":
    """A copy; of categories those alone that it holds."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.remove_unused_categories()
    return values.copy()


def _without_hosts(table: pd.DataFrame) -> pd.DataFrame:
    """What is listed, rather than open or removed, may be a page: its site is a host then, and may be a person's own."""
    if "listed" in table:
        return table.drop(columns="site")
    if "kind" not in table:
        return table
    return table.assign(site=table["site"].astype("str").where(table["kind"].astype("str") == "record"))
