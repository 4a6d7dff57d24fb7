"""Manual removals as tasks: which listing, whose it is, and what to enter. Joined here once for every output.

`with_listings` and `with_people` add columns to a table of alerts; `tasks` reads the rows of such a table. A checklist,
a work queue, a report and an export show the same task in the same words.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.blockers import CALLED
from exposurekit.errors import MissingColumns
from exposurekit.frames import LISTS_DTYPE, TEXT_DTYPE
from exposurekit.text.formatting import is_missing

LISTING = ("name", "age", "locations", "reference_id", "user_fields_required_for_removal")
NOT_ON_FILE = "not on file"
NOT_SHOWN = ("not shown", "none")
NO_VALUES = (
    "Names and what to enter are missing: a history does not keep what people have on file. "
    "Pass exposure= (Python) or --live (command line)."
)
_REQUIRED = "user_fields_required_for_removal"
_OF_PAGES = ("name", "email", "phone_number", "address")  # whom to write to, and what may stand on the page
_USUAL = ("name", "first_name", "last_name", "email", "phone_number", "address", "birth_date")
_FORM_HEADINGS = ("To enter (required)", "Also on file, only if the form asks")
_PAGE_HEADINGS = ("On file, of the kinds that the page contains", "Also on file")
_PAGE_KINDS = {"phone": "phone_number"}
WHICH_NAME = (
    "Search by the name as listed. Name the listing by its reference and link. "
    "As the person's own name, enter the name on file."
)
_URL = re.compile(r"(?i)(?<![@\w.-])(?:https?://)?(?:[a-z0-9-]+\.)+[a-z]{2,}(?:/[^\s<>\"'()]*)?")
_PARTS = ("address1", "address2", "city", "state", "zip", "country")
_ORDER = (
    "name",
    "first_name",
    "middle_name",
    "last_name",
    "alias",
    "birth_date",
    "email",
    "phone_number",
    "address",
)
_LISTED = {"alias": ("first_name", "last_name"), "email": ("address",), "phone_number": ("number",)}
_WORDS = {
    "name": "full name",
    "address": "whole address",
    "email": "e-mail",
    "phone_number": "phone",
    "address1": "street",
    "address2": "street, line 2",
}


@dataclass(frozen=True, slots=True)
class FormValue:
    """One value that a form may ask for.

    Attributes:
        name: What it is called: a field of the specification; ``name`` and ``address`` are whole ones, on one line.
        value: What is on file, or None.
        required: Whether the site requires it for a removal.
        is_alternative: Whether an earlier value of the same field is the one to use.
        is_first_choice: Whether other values of the same field follow.
    """

    name: str
    value: str | None = field(repr=False)
    required: bool = False
    is_alternative: bool = False
    is_first_choice: bool = False

    @property
    def label(self) -> str:
        """The field in words."""
        return _WORDS.get(self.name, self.name.replace("_", " "))

    @property
    def choice_label(self) -> str:
        """The label that also says which of several values to use: ``e-mail (use this one)``, then ``or e-mail``."""
        if self.is_alternative:
            return f"or {self.label}"
        return f"{self.label} (use this one)" if self.is_first_choice else self.label

    @property
    def is_repeated(self) -> bool:
        """Whether the whole name or the whole address says it too, and the site does not require it by itself."""
        return not self.required and self.name in ("first_name", "middle_name", "last_name", *_PARTS)


@dataclass(frozen=True, slots=True)
class Task:
    """One listing, or page, of one person that a human has to have removed.

    Attributes:
        person: Whose it is: the name on file and the id, or what else they are called.
        facts: What tells the listing from any other: pairs of a label and a text.
        address: The listing itself, or the page; None: it has none of its own.
        begin: Where the removal begins, where that is somewhere else.
        entries: What to enter, the required fields first.
        note: What is missing, and how to get it.
        state: How far it is: ``open``, ``started``, ``unable``, ``done``; empty: not known.
    """

    person: str = field(repr=False)
    site: str | None = None
    user_id: int | None = None
    alert_number: int | None = None
    facts: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    address: str | None = field(default=None, repr=False)
    begin: str | None = field(default=None, repr=False)
    entries: tuple[FormValue, ...] = field(default=(), repr=False)
    note: str = ""
    state: str = ""

    @property
    def values_to_enter(self) -> tuple[FormValue, ...]:
        """The values that the form requires; for a page, the values on file of the kinds that the page contains."""
        return tuple(value for value in self.entries if self._comes_first(value))

    @property
    def other_values(self) -> tuple[FormValue, ...]:
        """The other values on file; a form may ask for them."""
        return tuple(value for value in self.entries if not self._comes_first(value))

    @property
    def value_headings(self) -> tuple[str, str]:
        """The headings of `values_to_enter` and of `other_values`."""
        return _FORM_HEADINGS if self.site else _PAGE_HEADINGS

    @property
    def missing_values(self) -> tuple[str, ...]:
        """The labels of the values that the site requires and that are not on file."""
        return tuple(value.label for value in self.entries if value.required and value.value is None)

    @property
    def cannot_start(self) -> str:
        """Why the task cannot be done yet, in words; empty if nothing is missing."""
        if not self.missing_values:
            return ""
        return (
            f"Cannot be done yet: no {' and no '.join(self.missing_values)} on file. Ask the person for it."
        )

    def _comes_first(self, value: FormValue) -> bool:
        return value.required or (self.site is None and value.name in self.page_fields)

    @property
    def page_fields(self) -> tuple[str, ...]:
        """The fields of the specification that a page contains."""
        kinds = dict(self.facts).get("Contains", "") if self.site is None else ""
        return tuple(_PAGE_KINDS.get(kind, kind) for kind in kinds.split(", ") if kind)

    @property
    def values_are(self) -> str:
        """What the values are for: a form asks for them; on a page they may stand."""
        return "Enter" if self.site else "On file"

    @property
    def line(self) -> str:
        """The facts that name the listing, on one line."""
        first = [pair for label in ("Name", "Reference") for pair in self.facts if pair[0] == label]
        rest = [pair for pair in self.facts if pair not in first]
        facts = " · ".join(
            text if label == "Name" else f"{label.lower()} {text}" for label, text in (*first, *rest)
        )
        return facts or self.person


def with_listings(alerts: pd.DataFrame, records: pd.DataFrame, *, by: str = "record_id") -> pd.DataFrame:
    """Alerts, and of each what its listing shows.

    Args:
        alerts: As the service gives them: ``user_id``, ``record_id``.
        records: The same people's, with ``name``, ``age``, ``locations``, ``reference_id`` and
            ``user_fields_required_for_removal``.
        by: The column, beside ``user_id``, that says which record an alert is about.

    Returns:
        The same rows, and these five columns; missing for an alert about a page.

    Raises:
        MissingColumns: A table lacks a column.

    >>> from exposurekit.analysis.tasks import with_listings
    >>> with_listings(exposure.alerts(), exposure.records())["reference_id"].notna().any()
    np.True_
    """
    MissingColumns.check("with_listings", alerts.columns, ("user_id", by))
    MissingColumns.check("with_listings, of records,", records.columns, ("user_id", by, *LISTING))
    known = records.dropna(subset=[by]).drop_duplicates(["user_id", by], keep="last").reset_index(drop=True)
    keys = pd.MultiIndex.from_arrays([known["user_id"].astype("int64"), known[by].astype("int64")])
    wanted = pd.MultiIndex.from_arrays(
        [alerts["user_id"].astype("int64"), alerts[by].astype("Int64").fillna(-1).astype("int64")]
    )
    found_at = keys.get_indexer(wanted)
    places = np.where(alerts[by].notna(), found_at, -1)
    found = {name: known[name].array.take(places, allow_fill=True) for name in LISTING}
    return alerts.assign(**found)


def with_pages(rows: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """The same rows, and of each page the kinds of data that it holds: ``link_contains``; missing where no link says.

    Args:
        rows: Alerts or a work queue: ``user_id``, ``link_url``.
        links: The same people's, with ``url`` and ``contains``.
    """
    pages = zip(links["user_id"].tolist(), links["url"].tolist(), links["contains"].tolist(), strict=True)
    known = {(user_id, url): kinds for user_id, url, kinds in pages if not is_missing(kinds)}
    wanted = zip(rows["user_id"].tolist(), rows["link_url"].tolist(), strict=True)
    return rows.assign(
        link_contains=pd.Series([known.get(one) for one in wanted], rows.index, dtype=LISTS_DTYPE)
    )


def with_people(
    alerts: pd.DataFrame,
    users: pd.DataFrame,
    *,
    aliases: pd.DataFrame,
    emails: pd.DataFrame,
    phone_numbers: pd.DataFrame,
    addresses: pd.DataFrame,
) -> pd.DataFrame:
    """Alerts, and of each whose it is and what a form may ask of them.

    Args:
        alerts: As `with_listings` gives them: the required fields, and the places of the listing, by which one of
            several addresses is chosen.
        users: As `Exposure.users` gives them; and so the others.
        aliases: Their other names.
        emails: Their e-mail addresses.
        phone_numbers: Their phone numbers.
        addresses: Their postal addresses.

    Returns:
        The same rows, and ``person`` (the name on file) and ``form_values`` (a list of texts such as
        ``email: jo@example.com``, of what the site requires first, then the usual fields of opt-out forms;
        ``birth_date: not on file`` where nothing is there; missing for an alert that has no steps).

    Raises:
        MissingColumns: A table lacks a column.

    Source: specification, "Record", ``user_fields_required_for_removal``, and "User".
    """
    MissingColumns.check(
        "with_people", alerts.columns, ("user_id", "site", "opt_out_procedure", "locations", _REQUIRED)
    )
    needed = set(alerts["user_id"].unique().tolist())
    of_lists = {"alias": aliases, "email": emails, "phone_number": phone_numbers}
    profiles = _profiles(needed, users, addresses, of_lists)
    names = {user_id: profile.name for user_id, profile in profiles.items()}
    known: dict[tuple[Any, ...], list[str]] = {}  # a site asks for the same of many listings

    def entered(user_id: int, site: Any, steps: Any, required: Any, locations: Any) -> list[str] | None:
        profile = profiles.get(user_id)
        if profile is None or is_missing(steps) or not len(steps):
            return None
        fields, place, is_page = _fields(required), profile.place(_texts(locations)), _text(site) is None
        key = user_id, fields, place, is_page
        if key not in known:
            known[key] = [*profile.lines(fields, place, is_page=is_page)]
        return known[key]

    columns = ("user_id", "site", "opt_out_procedure", _REQUIRED, "locations")
    values = [entered(*row) for row in zip(*(alerts[name].tolist() for name in columns), strict=True)]
    return alerts.assign(
        person=pd.Series(alerts["user_id"].map(names).to_numpy("object"), alerts.index, dtype=TEXT_DTYPE),
        form_values=pd.Series(values, alerts.index, dtype=LISTS_DTYPE),
    )


def without_people(alerts: pd.DataFrame) -> pd.DataFrame:
    """The same columns as `with_people` adds, with nothing in them: people's data is not known."""
    nothing = pd.Series(pd.NA, alerts.index, dtype=LISTS_DTYPE)
    return alerts.assign(person=pd.Series(index=alerts.index, dtype=TEXT_DTYPE), form_values=nothing)


def tasks(rows: pd.DataFrame) -> list[Task]:
    """The rows of a table of alerts, or of a work queue, as tasks.

    Args:
        rows: ``user_id``, ``alert_number``, and what there is of the columns that `with_listings` and `with_people` add.

    >>> from exposurekit.analysis.tasks import tasks
    >>> tasks(exposure.alerts())[0].user_id in exposure.users()["user_id"].tolist()
    True
    """
    return [_task(row) for row in _dicts(rows)]


def _task(row: Mapping[str, Any]) -> Task:
    user_id = int(row["user_id"])
    name, site, url = _text(row.get("person")), _text(row.get("site")), _text(row.get("url"))
    address = _text(row.get("href")) if site else _text(row.get("link_url")) or url
    return Task(
        person=f"{name} (user {user_id})" if name else f"user {user_id}",
        site=site,
        user_id=user_id,
        alert_number=int(row["alert_number"]),
        facts=tuple(_facts(row, site)),
        address=address,
        begin=url if url and url != address else opt_out_url(_texts(row.get("opt_out_procedure"))),
        entries=tuple(_entries(row)),
        note="" if name else NO_VALUES,
        state=_text(row.get("state")) or "",
    )


def _facts(row: Mapping[str, Any], site: str | None) -> Iterator[tuple[str, str]]:
    if site is None:
        yield "Page", _text(row.get("link_title")) or _text(row.get("link_url")) or "no title"
        if kinds := _texts(row.get("link_contains")):
            yield "Contains", ", ".join(kinds)
        return
    if "name" not in row:
        return
    age, reference = row.get("age"), _text(row.get("reference_id"))
    yield "Name", _text(row.get("name")) or NOT_SHOWN[0]
    yield "Age", NOT_SHOWN[0] if is_missing(age) else str(int(age))  # type: ignore[arg-type]
    yield "Places", "; ".join(_texts(row.get("locations"))) or NOT_SHOWN[0]
    yield "Reference", reference or NOT_SHOWN[1]


def _entries(row: Mapping[str, Any]) -> Iterator[FormValue]:
    required = set(_fields(row.get(_REQUIRED)))
    pairs = [line.partition(": ")[::2] for line in _texts(row.get("form_values"))]
    counts, before = Counter(name for name, _ in pairs), set[str]()
    for name, value in pairs:
        is_alternative = name in before
        before.add(name)
        yield FormValue(
            name,
            None if value == NOT_ON_FILE else value,
            name in required,
            is_alternative,
            counts[name] > 1 and not is_alternative,
        )


def opt_out_url(steps: Sequence[str]) -> str | None:
    """The first address with a path that the steps of an alert name; None if they name none.

    >>> from exposurekit.analysis.tasks import opt_out_url
    >>> opt_out_url(["Open peep.example/opt-out.", "Write to privacy@peep.example."])
    'https://peep.example/opt-out'
    """
    for match in _URL.finditer(" ".join(steps)):
        url = match[0].rstrip(".,;:!?")
        has_scheme = "://" in url
        if has_scheme or "/" in url:
            return url if has_scheme else f"https://{url}"
    return None


def _fields(required: Any) -> tuple[str, ...]:
    """The fields that a site requires, by the names of the specification, each once."""
    return tuple(dict.fromkeys(CALLED.get(name, name) for name in _texts(required)))


@dataclass(slots=True)
class _Profile:
    """What one person has on file."""

    fields: dict[str, list[str]]
    addresses: list[dict[str, str]]

    @property
    def name(self) -> str | None:
        return next(iter(self.fields["name"]), None)

    def place(self, locations: Sequence[str]) -> int:
        """Which of the addresses the listing shows; the first where that is not told."""
        shown = " ".join(locations).casefold()

        def agrees(address: Mapping[str, str]) -> int:
            return sum(
                1
                for part in ("address1", "city", "zip")
                if (one := address.get(part)) and one.casefold() in shown
            )

        each = [agrees(address) for address in self.addresses]
        return each.index(max(each)) if each else -1

    def lines(self, required: Sequence[str], place: int, *, is_page: bool) -> Iterator[str]:
        """The required fields, then the usual ones: in the order of a form."""
        address = self.addresses[place] if place >= 0 else {}
        whole = _whole(address)
        fields = self.fields | {part: [address[part]] for part in _PARTS if part in address}
        fields["address"] = (
            [whole, *(other for one in self.addresses if (other := _whole(one)) != whole)] if whole else []
        )
        there = [name for name in ("middle_name", "alias", *_PARTS) if fields.get(name)]
        usual = _OF_PAGES if is_page else (*_USUAL, *there)
        rest = sorted({*usual} - {*required}, key=_turn)
        for name in (*sorted(required, key=_turn), *rest):
            for value in fields.get(name) or [NOT_ON_FILE]:
                yield f"{name}: {value}"


def _turn(name: str) -> int:
    order = (*_ORDER, *_PARTS)
    return order.index(name) if name in order else len(order)


def _whole(address: Mapping[str, str]) -> str:
    """An address on one line."""
    street = [address[part] for part in ("address1", "address2") if part in address]
    region = " ".join(address[part] for part in ("state", "zip") if part in address)
    return ", ".join(
        [*street, *([address["city"]] if "city" in address else []), *([region] if region else [])]
    )


def _profiles(
    needed: set[int], users: pd.DataFrame, addresses: pd.DataFrame, of_lists: Mapping[str, pd.DataFrame]
) -> dict[int, _Profile]:
    profiles: dict[int, _Profile] = {}
    for row in _dicts(_of(users, needed)):
        fields = {name: [*_some(row.get(name))] for name in ("first_name", "middle_name", "last_name")}
        fields["name"] = [*_some(" ".join(text for texts in fields.values() for text in texts))]
        born = row.get("birth_date")
        fields["birth_date"] = [] if is_missing(born) else [f"{born:%Y-%m-%d}"]
        fields["identification"] = (
            ["on file with the service"] if row.get("identification_on_file") is True else []
        )
        profiles[int(row["user_id"])] = _Profile(fields, [])
    for name, table in of_lists.items():
        for row in _dicts(_of(table, needed)):
            if profile := profiles.get(int(row["user_id"])):
                value = " ".join(text for part in _LISTED[name] for text in _some(row.get(part)))
                profile.fields.setdefault(name, []).extend(_some(value))
    for row in _dicts(_of(addresses, needed)):
        if profile := profiles.get(int(row["user_id"])):
            profile.addresses.append({part: text for part in _PARTS for text in _some(row.get(part))})
    return profiles


def _of(table: pd.DataFrame, needed: set[int]) -> pd.DataFrame:
    return table[table["user_id"].isin(needed)]


def _dicts(table: pd.DataFrame) -> Iterable[dict[str, Any]]:
    """Row by row; each column is unpacked at once."""
    names = [str(name) for name in table.columns]
    return (
        dict(zip(names, row, strict=True))
        for row in zip(*(table[name].tolist() for name in table), strict=True)
    )


def _texts(cell: Any) -> list[str]:
    return [] if is_missing(cell) or isinstance(cell, str) else [str(one) for one in cell if one is not None]


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) and cell.strip() else None


def _some(cell: object) -> Iterator[str]:
    if text := _text(cell):
        yield text.strip()
