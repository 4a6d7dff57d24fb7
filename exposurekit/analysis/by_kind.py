"""What is exposed, and where: the kinds of data that pages show, the states where listings place people."""

import re
from typing import Any

import pandas as pd

from exposurekit.analysis.statuses import is_open
from exposurekit.errors import MissingColumns
from exposurekit.text.us_addresses import STATES

NOT_TOLD = "not told"

_CODES = {name.upper(): code for code, name in STATES.items()} | {code: code for code in STATES}
_COUNTRIES = (" USA", " US", " UNITED STATES OF AMERICA", " UNITED STATES")
_ZIP = re.compile(r" [0-9]{5}(-[0-9]{4})?$")


def by_kind(links: pd.DataFrame) -> pd.DataFrame:
    """What kinds of personal data the pages hold, and of how many people.

    Args:
        links: As `Exposure.links` gives them, or a history; one row a link. Needs ``contains``, ``user_id``; where it
            has a ``standing``, links that are no longer listed do not count.

    Returns:
        One row a kind, most links first, then by name: ``kind`` (text), ``links``, ``people`` (int64). A link that
        holds several kinds counts in each. Links of which nobody said what they hold, or that hold nothing named,
        stand in the last row, ``not told``: that is not the same as holding nothing.

    Raises:
        MissingColumns: ``links`` lacks a column.

    Source: specification, "Link".

    >>> analysis.by_kind(exposure.links()).columns.tolist()
    ['kind', 'links', 'people']
    """
    MissingColumns.check("by_kind", links.columns, ("contains", "user_id"))
    listed = links[is_open(links["standing"])] if "standing" in links else links
    kinds = listed["contains"].reset_index(drop=True).explode().astype("str")
    named = kinds.where(kinds.str.strip() != "").fillna(NOT_TOLD)
    return _counted("kind", named, listed, "links")


def by_state(records: pd.DataFrame) -> pd.DataFrame:
    """Where the open listings place people, by state.

    Args:
        records: As `Exposure.records` gives them, or a history; one row a listing. Needs ``locations``, ``status``,
            ``user_id``. What is removed or gone does not count.

    Returns:
        One row a state, most listings first, then by name: ``state`` (two letters), ``listings``, ``people`` (int64).
        A listing that names several states counts in each, and once in each. A state is told behind a comma, by its
        letters or its name ("Oakmere, CA 01234", "Oakmere, California, USA"); listings of which no place tells one
        stand in the last row, ``not told``.

    Raises:
        MissingColumns: ``records`` lacks a column.

    Source: specification, "Record"; the letters by USPS Publication 28, Appendix B.

    >>> analysis.by_state(exposure.records()).columns.tolist()
    ['state', 'listings', 'people']
    """
    MissingColumns.check("by_state", records.columns, ("locations", "status", "user_id"))
    listed = records[is_open(records["status"])]
    places = listed["locations"].reset_index(drop=True).explode().astype("str")
    states = places.map({place: state_of(place) for place in places.dropna().unique()})
    return _counted("state", states.astype("str").fillna(NOT_TOLD), listed, "listings")


def state_of(place: str) -> str | None:
    """The letters of the state that a place lies in: what stands behind its last comma, but for ZIP and country.

    >>> from exposurekit.analysis.by_kind import state_of
    >>> state_of("Oakmere, California, USA"), state_of("Oakmere")
    ('CA', None)
    """
    text = " ".join(["", *place.upper().replace(".", "").replace(",", " , ").split()])
    for country in _COUNTRIES:
        text = text.removesuffix(country)
    text = _ZIP.sub("", text.rstrip(" ,")).rstrip(" ,")
    _, comma, state = text.rpartition(" , ")
    return _CODES.get(state) if comma else None


def _counted(name: str, values: "pd.Series[Any]", rows: pd.DataFrame, things: str) -> pd.DataFrame:
    """How many rows, and people, each value has; a row is told by its place, which is the index of the values."""
    ids = rows["user_id"].astype("int64").to_numpy()
    pairs = pd.DataFrame({"row": values.index, name: values.to_numpy()}).drop_duplicates()
    told = pairs.loc[pairs[name] != NOT_TOLD, "row"]
    # What is told of a thing in one place is told: only those of which nothing is stand apart.
    pairs = pairs[(pairs[name] != NOT_TOLD) | ~pairs["row"].isin(told)]
    found = pairs.assign(user_id=ids[pairs["row"].to_numpy("int64")]).groupby(name)
    counts = pd.DataFrame({things: found["row"].nunique(), "people": found["user_id"].nunique()})
    table = counts.astype("int64").rename_axis(name).reset_index().astype({name: "str"})
    last = (table[name] == NOT_TOLD).to_numpy()
    order = table.assign(last=last).sort_values(["last", things, name], ascending=[True, False, True]).index
    return table.loc[order].reset_index(drop=True)
