"""Exposed data by kind of data (from links) and by state (from listings)."""

from typing import Any

import pandas as pd

from exposurekit.analysis.statuses import is_open
from exposurekit.errors import MissingColumns
from exposurekit.text.formatting import exploded
from exposurekit.text.us_addresses import state_of

NOT_STATED = "not stated"


def by_kind(links: pd.DataFrame) -> pd.DataFrame:
    """Count links and people per kind of personal data.

    Args:
        links: A table as returned by `Exposure.links()` or `History.links()`; one row per link. Needs ``contains``,
            ``user_id``. If it has a column ``presence``, links that are no longer listed do not count.

    Returns:
        One row per kind, most links first, then by name: ``kind`` (text), ``links``, ``people`` (int64). A link with
        several kinds counts once in each. The last row, ``not stated``, counts the links whose ``contains`` is missing
        or empty: they may hold any kind.

    Raises:
        MissingColumns: ``links`` lacks a column.

    Source: specification, "Link".

    >>> analysis.by_kind(exposure.links()).columns.tolist()
    ['kind', 'links', 'people']
    """
    MissingColumns.check("by_kind", links, ("contains", "user_id"))
    listed = links[is_open(links["presence"])] if "presence" in links else links
    kinds = exploded(listed["contains"].reset_index(drop=True)).astype("str")
    stated = kinds.where(kinds.str.strip() != "").fillna(NOT_STATED)
    return _count("kind", stated, listed, "links")


def by_state(records: pd.DataFrame) -> pd.DataFrame:
    """Count open listings and people per state.

    Args:
        records: A table as returned by `Exposure.records()` or `History.records()`; one row per listing. Needs
            ``locations``, ``status``, ``user_id``. Only open listings count.

    Returns:
        One row per state, most listings first, then by name: ``state`` (two letters), ``listings``, ``people`` (int64).
        A listing with several states counts once in each. A state is recognised at the end, by its code or its name
        ("Oakmere, CA 01234", "Oakmere, California, USA", "OAKMERE CA"), also if the code may be a country's; the last
        row, ``not stated``, counts the listings without one.

    Raises:
        MissingColumns: ``records`` lacks a column.

    Source: specification, "Record"; codes from USPS Publication 28, Appendix B.

    >>> analysis.by_state(exposure.records()).columns.tolist()
    ['state', 'listings', 'people']
    """
    MissingColumns.check("by_state", records, ("locations", "status", "user_id"))
    listed = records[is_open(records["status"])]
    locations = exploded(listed["locations"].reset_index(drop=True)).astype("str")
    states = locations.map({location: state_of(location) for location in locations.dropna().unique()})
    return _count("state", states.astype("str").fillna(NOT_STATED), listed, "listings")


def _count(name: str, values: "pd.Series[Any]", rows: pd.DataFrame, n_column: str) -> pd.DataFrame:
    """Count rows and people per value; the index of `values` is the row number."""
    ids = rows["user_id"].astype("int64").to_numpy()
    pairs = pd.DataFrame({"row": values.index, name: values.to_numpy()}).drop_duplicates()
    rows_with_value = pairs.loc[pairs[name] != NOT_STATED, "row"]
    # A row counts as "not stated" only if it has no other value.
    pairs = pairs[(pairs[name] != NOT_STATED) | ~pairs["row"].isin(rows_with_value)]
    groups = pairs.assign(user_id=ids[pairs["row"].to_numpy("int64")]).groupby(name)
    counts = pd.DataFrame({n_column: groups["row"].nunique(), "people": groups["user_id"].nunique()})
    table = counts.astype("int64").rename_axis(name).reset_index().astype({name: "str"})
    last = (table[name] == NOT_STATED).to_numpy()
    order = table.assign(last=last).sort_values(["last", n_column, name], ascending=[True, False, True]).index
    return table.loc[order].reset_index(drop=True)
