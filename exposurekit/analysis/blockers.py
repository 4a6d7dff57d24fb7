"""Blockers: fields that a site requires for a removal and that the person does not have on file."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate, groupby, islice
from operator import itemgetter

import numpy as np
import pandas as pd

from exposurekit.analysis.group_codes import Ints
from exposurekit.analysis.statuses import is_open
from exposurekit.contract.inputs import ADDRESS_FIELDS
from exposurekit.contract.types import PENDING_REMOVAL
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.text.formatting import exploded

# spec does not list the names a site may use; these are the fields of a user and their common aliases
FIELD_ALIASES = {
    "identification_on_file": "identification",
    "address": "email",
    "addresses": "address1",
    "aliases": "alias",
    "emails": "email",
    "email_address": "email",
    "number": "phone_number",
    "phone": "phone_number",
    "phones": "phone_number",
    "phone_numbers": "phone_number",
    "street": "address1",
    "street_address": "address1",
    "zip_code": "zip",
    "dob": "birth_date",
    "date_of_birth": "birth_date",
}
_FULL_NAMES = ("name", "full_name")
_USER_FIELDS = ("first_name", "middle_name", "last_name", "birth_date")
FIELDS = (*_USER_FIELDS, "identification", "email", "phone_number", "alias", *ADDRESS_FIELDS)
_REQUIRED = "user_fields_required_for_removal"
MissingSets = Counter[frozenset[str]]  # sets of missing fields, with the number of records that lack each set


def fields_of(name: str) -> tuple[str, ...]:
    """Return the fields, by the specification's names, for a name that a site uses.

    >>> fields_of("dob"), fields_of("full_name")
    (('birth_date',), ('first_name', 'last_name'))
    """
    return ("first_name", "last_name") if name in _FULL_NAMES else (FIELD_ALIASES.get(name, name),)


def on_file(
    users: pd.DataFrame,
    *,
    addresses: pd.DataFrame,
    emails: pd.DataFrame,
    phone_numbers: pd.DataFrame,
    aliases: pd.DataFrame,
) -> pd.DataFrame:
    """List the fields that each person has on file, without their values.

    Args:
        users: A table as returned by `Exposure.users()`.
        addresses: A table as returned by `Exposure.addresses()`; a field counts if any address has it.
        emails: Any row counts as ``email``.
        phone_numbers: Any row counts as ``phone_number``.
        aliases: Any row counts as ``alias``.

    Returns:
        One row per person and field, ascending: ``user_id`` (int64) and ``field`` (text; the specification's name, and
        ``identification`` for people who have one on file).

    Raises:
        MissingColumns: A table lacks a column.

    Source: specification, "User".

    >>> exposure.on_file().columns.tolist()
    ['user_id', 'field']
    """
    MissingColumns.check("on_file", users, ("user_id", *_USER_FIELDS, "identification_on_file"))
    columns = [
        *((users, name, name) for name in _USER_FIELDS),
        *((addresses, name, name) for name in ADDRESS_FIELDS),
        (emails, "address", "email"),
        (phone_numbers, "number", "phone_number"),
        *((aliases, name, "alias") for name in ("first_name", "last_name")),
    ]
    people: dict[str, list[Ints]] = {field: [] for _, _, field in columns}
    for table, column, field in columns:
        people[field].append(_people_with(table, column, field))
    has_identification = users["identification_on_file"].astype("boolean").fillna(False).to_numpy("bool")
    people["identification"] = [users["user_id"].to_numpy("int64")[has_identification]]
    ids = {field: np.unique(np.concatenate(parts)) for field, parts in people.items()}
    table = pd.DataFrame(
        {
            "user_id": np.concatenate([*ids.values()]),
            "field": pd.Series(np.repeat([*ids], [*map(len, ids.values())]), dtype="str"),
        }
    )
    return table.sort_values(["user_id", "field"], ignore_index=True)


def blockers(records: pd.DataFrame, on_file: pd.DataFrame) -> pd.DataFrame:
    """List the missing fields that block removals, and how many removals each field unlocks.

    Args:
        records: A table as returned by `Exposure.records()`. Needs ``user_id``, ``site``, ``status``,
            ``user_fields_required_for_removal``. Only open records without a pending removal count. A record without
            a list of required fields blocks nothing.
        on_file: A table as returned by `Exposure.on_file()`.

    Returns:
        One row per person and missing field, most unlocked removals first: ``user_id`` (int64), ``field`` (text),
        ``records`` (that require it), ``unlocks`` (records that lack only this field), ``sites`` (with such records;
        all int64), ``is_profile_field`` (bool; False: no table of a user has this field, so it may be on file). Aliases of a
        field are replaced by the specification's name.

    Raises:
        MissingColumns: A table lacks a column.

    Source: specification, "Record", ``user_fields_required_for_removal``.

    >>> analysis.blockers(exposure.records(), exposure.on_file()).columns.tolist()
    ['user_id', 'field', 'records', 'unlocks', 'sites', 'is_profile_field']
    """
    missing = _missing_fields("blockers", records, on_file)
    is_only = missing.groupby("record")["field"].transform("size") == 1
    groups = missing.assign(is_only=is_only).groupby(["user_id", "field"])
    table = pd.DataFrame(
        {"records": groups.size(), "unlocks": groups["is_only"].sum(), "sites": groups["site"].nunique()}
    )
    table = table.astype("int64").reset_index().astype({"field": "str"})
    table["is_profile_field"] = table["field"].isin(FIELDS)
    order = ["unlocks", "records", "user_id", "field"]
    return table.sort_values(order, ascending=[False, False, True, True], ignore_index=True)


def best_next_fields(records: pd.DataFrame, on_file: pd.DataFrame, *, asks: int = 10) -> pd.DataFrame:
    """Rank the requests for missing fields that unlock the most removals per field.

    Each row asks one person for every field that one of their records lacks. Rows are chosen greedily, as in a weighted
    set cover: the next request is the one that unlocks the most records per field. Ties are broken by more records,
    then by field names, then by id.

    Args:
        records: As in `blockers`.
        on_file: As in `blockers`.
        asks: Maximum number of rows.

    Returns:
        One row per request, in order: ``rank`` (from 1), ``user_id`` (both int64), ``fields`` (text, joined by
        ", "), ``removals`` (that this request unlocks, int64), ``together`` (cumulative sum, int64).

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: ``asks`` is less than one.

    Source: Chvatal, A greedy heuristic for the set-covering problem, Math. Oper. Res. 4 (1979), 233.

    >>> required = [["birth_date"], ["birth_date"], ["zip", "email"]]
    >>> records = pd.DataFrame({"user_id": [1, 1, 2], "user_fields_required_for_removal": required})
    >>> records = records.assign(site=["Seekfolk", "Peoplepile", "Seekfolk"], status="discovered")
    >>> filled = pd.DataFrame({"user_id": [2], "field": ["zip"]})
    >>> analysis.best_next_fields(records, filled)
       rank  user_id      fields  removals  together
    0      1        1  birth_date         2         2
    1      2        2       email         1         3
    """
    if asks < 1:
        raise InvalidArgument("invalid asks: it must be at least 1")
    missing = _missing_fields("best_next_fields", records, on_file)
    best = [*islice(_greedy_requests(_missing_sets(missing)), asks)]
    removals = [gain for _, gain, _ in best]
    table = pd.DataFrame(
        {
            "rank": range(1, len(best) + 1),
            "user_id": [user_id for user_id, _, _ in best],
            "fields": [", ".join(sorted(fields)) for _, _, fields in best],
            "removals": removals,
            "together": [*accumulate(removals)],
        }
    )
    integers = dict.fromkeys(("rank", "user_id", "removals", "together"), "int64")
    return table.astype({**integers, "fields": "str"})


def _missing_sets(missing: pd.DataFrame) -> dict[int, MissingSets]:
    """Count, for each person, the records that lack each distinct set of fields."""
    rows = zip(*(missing[name].tolist() for name in ("record", "user_id", "field")), strict=True)
    people: defaultdict[int, MissingSets] = defaultdict(Counter)
    for (_, user_id), fields in groupby(rows, key=itemgetter(0, 1)):  # the rows of a record are adjacent
        people[user_id][frozenset(field for _, _, field in fields)] += 1
    return people


def _greedy_requests(people: dict[int, MissingSets]) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Yield the user to ask, the number of records unlocked and the fields, best request first.

    A request changes nothing for other people, so each person's best request stays in the heap until it is chosen.
    """
    heap = [(*_best_request(sets), user_id) for user_id, sets in people.items()]
    heapq.heapify(heap)
    while heap:
        _, negative_gain, fields, user_id = heapq.heappop(heap)
        yield user_id, -negative_gain, frozenset(fields)
        remaining: MissingSets = Counter()
        for missing, n in people[user_id].items():
            remaining[missing - {*fields}] += n
        del remaining[frozenset()]
        people[user_id] = remaining
        if remaining:
            heapq.heappush(heap, (*_best_request(remaining), user_id))


def _best_request(sets: MissingSets) -> tuple[float, int, tuple[str, ...]]:
    """The set of fields that unlocks the most records per field; gains are negative, so the minimum is the best."""
    gains = {fields: -sum(n for missing, n in sets.items() if missing <= fields) for fields in sets}
    return min((gains[fields] / len(fields), gains[fields], tuple(sorted(fields))) for fields in gains)


def _missing_fields(question: str, records: pd.DataFrame, on_file: pd.DataFrame) -> pd.DataFrame:
    """One row per record and required field that is not on file: ``record`` (row number), ``field``, ..."""
    MissingColumns.check(question, records, ("user_id", "site", "status", _REQUIRED))
    MissingColumns.check(f"{question}, table on_file,", on_file, ("user_id", "field"))
    blocked = records[is_open(records["status"]) & (records["status"].astype("str") != PENDING_REMOVAL)]
    required = pd.DataFrame(
        {
            "user_id": blocked["user_id"].to_numpy("int64"),
            "site": blocked["site"].astype("str").to_numpy(),
            "record": range(len(blocked)),
        }
    )
    fields = exploded(blocked[_REQUIRED].reset_index(drop=True)).rename("field")
    required = required.join(fields).dropna(subset="field")
    required["field"] = required["field"].astype("str").replace(FIELD_ALIASES)
    is_full_name = required["field"].isin(_FULL_NAMES)
    if is_full_name.any():
        both = [required[is_full_name].assign(field=part) for part in ("first_name", "last_name")]
        required = pd.concat([required[~is_full_name], *both])
    available = on_file[["user_id", "field"]].astype({"user_id": "int64", "field": "str"}).drop_duplicates()
    joined = required.drop_duplicates().merge(
        available, on=["user_id", "field"], how="left", indicator="source"
    )
    return joined[joined["source"] == "left_only"].drop(columns="source")


def _people_with(table: pd.DataFrame, column: str, field: str) -> Ints:
    """The people with a value in a column, as often as they have one."""
    MissingColumns.check(f"on_file, field {field},", table, ("user_id", column))
    value = table[column]
    is_filled = value.notna().to_numpy("bool") & (value.astype("str").str.strip() != "").to_numpy("bool")
    return table["user_id"].to_numpy("int64")[is_filled]
