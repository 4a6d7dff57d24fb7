"""What may be shown of a table to those who may not see people's data: an allow-list. Knows no value, only names and types."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

# What stays, by its name, and only where it holds what the name says.
WORDS = frozenset((
    "site", "status", "prev_status", "before", "after", "what", "was", "cause", "standing", "source_type", "kind",
    "contains", "user_fields_required_for_removal", "field", "fields", "event", "alias_type", "operation", "error",
    "outcome", "origin", "scope", "label", "tick", "last_seen_well",
))  # fmt: skip
INSTANTS = frozenset((
    "occurred_at", "first_seen_at", "changed_at", "not_before", "removed_at", "listed_again_at", "whole_at",
    "looked_until", "known_from", "seen_at", "marked_at", "ticked_at", "labelled_at", "started_at", "finished_at",
    "newest_at", "episode_at", "at", "period",
))  # fmt: skip
NUMBERS = frozenset((
    # which one, of those that the service or a history numbered
    "user_id", "record_id", "alert_number", "step_number", "alias_id", "email_id", "phone_number_id", "address_id",
    "seq", "episode", "day", "place",
    # how many, or how long, or whether
    "discovered", "pending removal", "removed", "other", "total", "vanished", "unknown", "people", "sites", "links",
    "listings", "records", "unlocks", "removals", "together", "n", "open", "unseen", "steps", "done", "unable",
    "minutes", "listings_a_minute", "listed", "whole", "partial", "failed", "missed", "absent", "unlisted", "late",
    "registered", "complete", "deliveries", "new", "came_into_view", "relisted", "changed", "out_of_view",
    "links_new", "links_vanished", "alerts_new", "alerts_vanished", "left_censored", "open_s", "gone_days", "days",
    "quiet_days", "at_once", "mine", "not mine", "unsure", "unlabelled", "precision", "low", "high", "open_now",
    "of_open", "of_gone", "of_new", "beyond", "left_out", "median_days", "median_low", "median_high", "never",
    "never_low", "never_high", "followed_days", "at_risk", "censored", "survival", "is_scanning",
    "identification_on_file", "is_known", "is_doubtful", "status",
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

    >>> from exposurekit.redaction import redacted
    >>> redacted(exposure.records()).columns.tolist()
    ['user_id', 'record_id', 'site', 'status', 'user_fields_required_for_removal']
    """
    if (frame.index.name, frame.columns.name) == ("user_id", "site"):  # the matrix: its columns are sites
        matrix = frame.select_dtypes("number").copy()
        matrix.attrs.clear()
        return matrix
    kept = pd.DataFrame(dict(_known(frame)), index=frame.index)
    table = kept if _stays(frame.index.name, frame.index.to_series()) else kept.reset_index(drop=True)
    return _without_hosts(table) if "site" in table else table


def _known(frame: pd.DataFrame) -> Iterator[tuple[str, "pd.Series[Any]"]]:
    for place, name in enumerate(frame.columns):
        values = frame.iloc[:, place]
        # `state` is how far a removal is, or where listings are; without listings it may be a person's address.
        if _stays(name, values) or (name == "state" and "listings" in frame):
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
