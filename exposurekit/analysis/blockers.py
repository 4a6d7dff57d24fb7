"""What a removal still waits for: fields that a site asks for and that a person has not on file. Fills in nothing."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate, groupby, islice
from operator import itemgetter

import pandas as pd

from exposurekit.analysis.statuses import is_open
from exposurekit.contract.types import PENDING_REMOVAL
from exposurekit.errors import InvalidArgument, MissingColumns

# not shown: the complete set of names; these are the fields of a user, and what else they are called
CALLED = {
    "identification_on_file": "identification",
    "address": "email",
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
_OF_USERS = ("first_name", "middle_name", "last_name", "birth_date")
_OF_ADDRESSES = ("address1", "address2", "city", "state", "zip", "country")
FIELDS = (*_OF_USERS, "identification", "email", "phone_number", "alias", *_OF_ADDRESSES)
Lacking = Counter[frozenset[str]]


def on_file(
    users: pd.DataFrame,
    *,
    addresses: pd.DataFrame,
    emails: pd.DataFrame,
    phone_numbers: pd.DataFrame,
    aliases: pd.DataFrame,
) -> pd.DataFrame:
    """Which fields of each person are filled.

    Args:
        users: As `Exposure.users` gives them; and so the others.
        addresses: Of several addresses each fills what it has.
        emails: Any fills ``email``.
        phone_numbers: Any fills ``phone_number``.
        aliases: Any fills ``alias``.

    Returns:
        One row a person and field, ascending: ``user_id`` (int64), ``field`` (text): the specification's name, and
        ``identification`` for who has that on file. No value of any field.

    Raises:
        MissingColumns: A table lacks a column.

    Source: specification, "User".

    >>> exposure.on_file().columns.tolist()
    ['user_id', 'field']
    """
    MissingColumns.check("on_file", users.columns, ("user_id", *_OF_USERS, "identification_on_file"))
    parts = [_filled(users, name, name) for name in _OF_USERS]
    there = users["identification_on_file"].astype("boolean").fillna(False).to_numpy("bool")
    parts.append(users.loc[there, ["user_id"]].assign(field="identification"))
    parts += [_filled(addresses, name, name) for name in _OF_ADDRESSES]
    parts += [
        _filled(emails, "address", "email"),
        _filled(phone_numbers, "number", "phone_number"),
        *(_filled(aliases, name, "alias") for name in ("first_name", "last_name")),
    ]
    table = pd.concat(parts).drop_duplicates().sort_values(["user_id", "field"], ignore_index=True)
    return table.astype({"user_id": "int64", "field": "str"})


def blockers(records: pd.DataFrame, on_file: pd.DataFrame) -> pd.DataFrame:
    """Which fields removals wait for, and how many would start with each.

    Args:
        records: As `Exposure.records` gives them. Needs ``user_id``, ``site``, ``status``,
            ``user_fields_required_for_removal``. Only those count that are open and not under way, and that tell what
            they require: where nobody told, nothing is known to be missing.
        on_file: As `Exposure.on_file` gives it.

    Returns:
        One row a person and missing field, most unlocked first: ``user_id`` (int64), ``field`` (text), ``records``
        (that require it), ``unlocks`` (of these, the ones that lack nothing else), ``sites`` (where they are; all
        int64), ``is_known`` (bool; False: a field that no table of a user shows, so that it may be on file). Fields
        that are called in several ways are put under the specification's name.

    Raises:
        MissingColumns: A table lacks a column.

    Source: specification, "Record", ``user_fields_required_for_removal``.

    >>> analysis.blockers(exposure.records(), exposure.on_file()).columns.tolist()
    ['user_id', 'field', 'records', 'unlocks', 'sites', 'is_known']
    """
    missing = _missing("blockers", records, on_file)
    alone = missing.groupby("record")["field"].transform("size") == 1
    found = missing.assign(alone=alone).groupby(["user_id", "field"])
    table = pd.DataFrame(
        {"records": found.size(), "unlocks": found["alone"].sum(), "sites": found["site"].nunique()}
    )
    table = table.astype("int64").reset_index().astype({"field": "str"})
    table["is_known"] = table["field"].isin(FIELDS)
    order = ["unlocks", "records", "user_id", "field"]
    return table.sort_values(order, ascending=[False, False, True, True], ignore_index=True)


def best_next_fields(records: pd.DataFrame, on_file: pd.DataFrame, *, asks: int = 10) -> pd.DataFrame:
    """Whom to ask for what, so that the most removals can start for the fewest questions.

    Each row asks one person for all that one of their records lacks: of all such asks the one that frees the most of
    their records a field. That is the greedy way of a set cover: near the best, and easy to follow. Of asks that are as
    good, one that frees more comes first, then by the names of the fields, then by id.

    Args:
        records: As `blockers` takes them.
        on_file: Likewise.
        asks: How many rows at most.

    Returns:
        One row an ask, in order: ``place`` (from 1), ``user_id`` (both int64), ``fields`` (text, joined by ", "),
        ``removals`` (that can start then, int64), ``together`` (with all rows above, int64).

    Raises:
        MissingColumns: A table lacks a column.
        InvalidArgument: ``asks`` is less than one.

    Source: Chvatal, A greedy heuristic for the set-covering problem, Math. Oper. Res. 4 (1979), 233.

    >>> records = pd.DataFrame(
    ...     {
    ...         "user_id": [1, 1, 2],
    ...         "site": ["Seekfolk", "Peoplepile", "Seekfolk"],
    ...         "status": "discovered",
    ...         "user_fields_required_for_removal": [["birth_date"], ["birth_date"], ["zip", "email"]],
    ...     }
    ... )
    >>> filled = pd.DataFrame({"user_id": [2], "field": ["zip"]})
    >>> analysis.best_next_fields(records, filled)
       place  user_id      fields  removals  together
    0      1        1  birth_date         2         2
    1      2        2       email         1         3
    """
    if asks < 1:
        raise InvalidArgument("asks is one or more")
    missing = _missing("best_next_fields", records, on_file)
    best = [*islice(_asks(_lacking(missing)), asks)]
    removals = [gain for _, gain, _ in best]
    table = pd.DataFrame(
        {
            "place": range(1, len(best) + 1),
            "user_id": [user_id for user_id, _, _ in best],
            "fields": [", ".join(sorted(fields)) for _, _, fields in best],
            "removals": removals,
            "together": [*accumulate(removals)],
        }
    )
    whole = dict.fromkeys(("place", "user_id", "removals", "together"), "int64")
    return table.astype({**whole, "fields": "str"})


def _lacking(missing: pd.DataFrame) -> dict[int, Lacking]:
    """What the records of each person lack: each different lack, and how many records have it."""
    rows = zip(*(missing[name].tolist() for name in ("record", "user_id", "field")), strict=True)
    people: defaultdict[int, Lacking] = defaultdict(Counter)
    for (_, user_id), fields in groupby(rows, key=itemgetter(0, 1)):  # the rows of a record stand together
        people[user_id][frozenset(field for _, _, field in fields)] += 1
    return people


def _asks(people: dict[int, Lacking]) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Whom to ask, how many records that frees, and for what: the best ask of anybody, again and again.

    An ask changes nothing for other people, so each keeps their best one until it is theirs.
    """
    waiting = [(*_best(lacking), user_id) for user_id, lacking in people.items()]
    heapq.heapify(waiting)
    while waiting:
        _, lost, fields, user_id = heapq.heappop(waiting)
        yield user_id, -lost, frozenset(fields)
        left: Lacking = Counter()
        for lack, n in people[user_id].items():
            left[lack - {*fields}] += n
        del left[frozenset()]
        people[user_id] = left
        if left:
            heapq.heappush(waiting, (*_best(left), user_id))


def _best(lacking: Lacking) -> tuple[float, int, tuple[str, ...]]:
    """The ask of one person that frees the most records a field: smaller is better, so what it frees is negative."""
    freed = {ask: -sum(n for lack, n in lacking.items() if lack <= ask) for ask in lacking}
    return min((freed[ask] / len(ask), freed[ask], tuple(sorted(ask))) for ask in freed)


def _missing(question: str, records: pd.DataFrame, on_file: pd.DataFrame) -> pd.DataFrame:
    """One row a record and field that it requires and the person has not: ``record`` (its place), ``field``, ..."""
    required = "user_fields_required_for_removal"
    MissingColumns.check(question, records.columns, ("user_id", "site", "status", required))
    MissingColumns.check(f"{question}, of what is on file,", on_file.columns, ("user_id", "field"))
    waiting = records[is_open(records["status"]) & (records["status"].astype("str") != PENDING_REMOVAL)]
    asked = pd.DataFrame(
        {
            "user_id": waiting["user_id"].to_numpy("int64"),
            "site": waiting["site"].astype("str").to_numpy(),
            "record": range(len(waiting)),
            "field": waiting[required].to_numpy(),
        }
    )
    asked = asked.explode("field").dropna(subset="field")
    asked["field"] = asked["field"].astype("str").replace(CALLED)
    have = on_file[["user_id", "field"]].astype({"user_id": "int64", "field": "str"}).drop_duplicates()
    found = asked.drop_duplicates().merge(have, on=["user_id", "field"], how="left", indicator="there")
    return found[found["there"] == "left_only"].drop(columns="there")


def _filled(table: pd.DataFrame, column: str, field: str) -> pd.DataFrame:
    """Who has anything but a blank in a column."""
    MissingColumns.check(f"on_file, of {field},", table.columns, ("user_id", column))
    value = table[column]
    there = value.notna() & (value.astype("str").str.strip() != "")
    return table.loc[there, ["user_id"]].assign(field=field)
