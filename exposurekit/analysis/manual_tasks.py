"""Manual removal tasks: the listing, the person and the form values, in the same words for every output.

`with_listings` and `with_people` add columns to a table of alerts; `tasks` turns the rows of such a table into `Task`
values, for the checklist, the work queue, reports and exports.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from exposurekit.analysis.blockers import fields_of
from exposurekit.analysis.step_requirements import age_warning, is_named, name_warning, page_warnings
from exposurekit.contract.inputs import ADDRESS_FIELDS
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.frames import LISTS_DTYPE, TEXT_DTYPE
from exposurekit.frames.arrow import is_in, lists_of, take
from exposurekit.text.formatting import is_missing
from exposurekit.text.us_addresses import STATES, address_words, listed_address, state_code, state_of
from exposurekit.text.words import words

LISTING = ("name", "age", "locations", "reference_id", "user_fields_required_for_removal")
NOT_ON_FILE = "not on file"
WITHHELD = "not shown by the listing"  # on file, but the site must not learn it from the opt-out
LISTED_NAME, PAGE_TITLE = "Name as listed", "Title of the page"
AGE, LOCATIONS, REFERENCE, CONTAINS = "Age", "Locations", "Reference", "Contains"
NO_VALUE_TEXTS = ("not shown", "none")  # for a fact that the listing does not show; for a missing reference
NO_VALUES = (
    "Names on file and form values are missing, because a history does not store the profiles of users. "
    "Pass exposure= in Python, or --live on the command line."
)
_REQUIRED = "user_fields_required_for_removal"
_PAGE_FIELDS = ("name", "email", "phone_number", "address")  # what a page may show
_FORM_FIELDS = ("name", "first_name", "last_name", "email", "phone_number", "address", "birth_date")
_FORM_HEADINGS = ("To enter (required)", "Only if the form asks")
_PAGE_HEADINGS = ("On file; check which one is on the page", "Also on file")
_PAGE_KINDS = {"phone": "phone_number"}
WHICH_NAME = (
    "You act for the person: where a step says “your name”, enter theirs, as it is on file. If a form makes you search "
    "for the listing, search for the name as listed; if it asks which listing you mean, give its reference and link."
)
_AS_LISTED = " as listed"  # ends the name of a field whose value is not on file
_URL = re.compile(r"(?i)(?<![@\w.-])(?:https?://)?(?:[a-z0-9-]+\.)+[a-z]{2,}(?:/[^\s<>\"'()]*)?")
_NAME_FIELDS = ("first_name", "middle_name", "last_name")
_FIELD_ORDER = (
    "name",
    *_NAME_FIELDS,
    "alias",
    "birth_date",
    "email",
    "phone_number",
    "address",
    *ADDRESS_FIELDS,
)
_ITEM_COLUMNS = {"alias": ("first_name", "last_name"), "email": ("address",), "phone_number": ("number",)}
# Form values are put together in parts: as Python's texts they take much memory.
_PARTS, _PART_ROWS = 16, 2_500
_OPTIONAL_FIELDS = ("middle_name", "alias", *ADDRESS_FIELDS)  # listed where they are on file
_LABELS = {
    "name": "full name",
    "address": "full address",
    "phone_number": "phone",
    "address1": "street",
    "address2": "street, line 2",
    "reference_id": "reference",
}


def field_label(name: str) -> str:
    """Return a field's name for people.

    >>> from exposurekit.analysis.manual_tasks import field_label
    >>> field_label("birth_date"), field_label("address1")
    ('birth date', 'street')
    """
    return _LABELS.get(name, name.replace("_", " "))


@dataclass(frozen=True, slots=True)
class FormValue:
    """One value that a form may ask for."""

    name: str  # a field of the specification; ``name`` and ``address`` are the full ones, on one line
    value: str | None = field(repr=False)  # None: there is none to enter, see `absence`
    required: bool = False  # by the site, for a removal
    is_alternative: bool = False  # an earlier value of the same field is the one to enter
    is_first_choice: bool = False  # other values of the same field follow
    is_listed: bool = False  # not on file: the listing shows it
    is_withheld: bool = False  # on file, but not shown by the listing: not to be entered

    @property
    def label(self) -> str:
        """The field's name for people; of a value that is not on file, it says that the listing shows it."""
        return f"{field_label(self.name)}{_AS_LISTED if self.is_listed else ''}"

    @property
    def absence(self) -> str:
        """What to write in the place of a value that is missing."""
        return (
            f"the listing shows no {self.label}; enter only what it shows"
            if self.is_withheld
            else NOT_ON_FILE
        )

    @property
    def choice_label(self) -> str:
        """The label that also says which of several values to use: ``email (use this one)``, then ``or email``."""
        if self.is_alternative:
            return f"or {self.label}"
        return f"{self.label} (use this one)" if self.is_first_choice else self.label

    @property
    def is_repeated(self) -> bool:
        """Whether the person's name or the full address contains this value, and the site does not require it."""
        return not self.required and self.name in ("name", *_NAME_FIELDS, *ADDRESS_FIELDS)


@dataclass(frozen=True, slots=True)
class Task:
    """One listing or page of one person, to be removed manually."""

    person: str = field(repr=False)  # the name on file and the id, or a pseudonym
    site: str | None = None
    user_id: int | None = None
    alert_number: int | None = None
    facts: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # labels and texts
    address: str | None = field(default=None, repr=False)  # URL of the listing or page
    begin: str | None = field(default=None, repr=False)  # URL where the removal starts, if another
    entries: tuple[FormValue, ...] = field(default=(), repr=False)  # required fields first
    note: str = ""  # what is missing, and how to get it
    state: str = ""  # open, started, unable or done; empty if not known
    cautions: tuple[str, ...] = field(default=(), repr=False)  # what to check first
    asks_reference: bool = False  # a step asks for the listing's reference
    item_key: int | None = None  # what a history knows its steps by, in a file of ticks

    @property
    def values_to_enter(self) -> tuple[FormValue, ...]:
        """The values that the form requires; for a page, the values on file of the kinds that the page contains."""
        reference = dict(self.facts).get(REFERENCE) if self.asks_reference and self.entries else None
        first = (FormValue("reference_id", reference, required=True),) if reference else ()
        return (*first, *(value for value in self.entries if self._comes_first(value)))

    @property
    def other_values(self) -> tuple[FormValue, ...]:
        """The other values, on file or shown by the listing; a form may ask for them."""
        return tuple(value for value in self.entries if value.value and not self._comes_first(value))

    @property
    def value_headings(self) -> tuple[str, str]:
        """The headings of `values_to_enter` and of `other_values`."""
        return _FORM_HEADINGS if self.site else _PAGE_HEADINGS

    @property
    def missing_values(self) -> tuple[str, ...]:
        """The labels of the values that the site requires and that are not on file."""
        return _missing_labels(self.entries)

    @property
    def cannot_start(self) -> str:
        """Which value the task waits for, in words; empty if nothing is missing."""
        if not self.missing_values:
            return ""
        return f"Cannot start yet: no {' and no '.join(self.missing_values)} on file. Ask the person for it."

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to know before starting: that a value is missing, and the cautions."""
        return (*filter(None, [self.cannot_start]), *self.cautions)

    def _comes_first(self, value: FormValue) -> bool:
        return value.required or (value.value is not None and value.name in self.page_fields)

    @property
    def page_fields(self) -> tuple[str, ...]:
        """The fields of the specification that a page contains."""
        kinds = dict(self.facts).get(CONTAINS, "") if self.site is None else ""
        return tuple(_PAGE_KINDS.get(kind, kind) for kind in kinds.split(", ") if kind)

    @property
    def values_label(self) -> str:
        """The label of the values: to enter into a form, or to look for on a page."""
        return "Enter" if self.site else "On file"

    @property
    def line(self) -> str:
        """The identifying facts on one line."""
        first = [pair for label in (LISTED_NAME, REFERENCE) for pair in self.facts if pair[0] == label]
        rest = [pair for pair in self.facts if pair not in first]
        facts = " · ".join(
            text if label in (LISTED_NAME, PAGE_TITLE) else f"{label.lower()} {text}"
            for label, text in (*first, *rest)
        )
        return facts or self.person


def with_listings(
    alerts: pd.DataFrame,
    records: pd.DataFrame,
    *,
    by: str = "record_id",
    columns: Sequence[str] = LISTING,
) -> pd.DataFrame:
    """Add some columns of each alert's record, which ``user_id`` and ``by`` identify; missing for a page.

    Where ``alerts`` has such a column, its value remains if the alert's record is not in ``records``.
    """
    MissingColumns.check("with_listings", alerts, ("user_id", by))
    MissingColumns.check("with_listings, table records,", records, ("user_id", by, *columns))
    needed = [*dict.fromkeys(("user_id", by, *columns))]
    listings = records.loc[records[by].isin(alerts[by].dropna()), needed]
    listings = listings.drop_duplicates(["user_id", by], keep="last").reset_index(drop=True)
    listing_keys, alert_keys = (
        pd.MultiIndex.from_arrays(
            [table["user_id"].astype("int64"), table[by].astype("Int64").fillna(-1).astype("int64")]
        )
        for table in (listings, alerts)
    )
    rows = np.where(alerts[by].notna(), listing_keys.get_indexer(alert_keys), -1)
    return alerts.assign(**{name: _from_listing(name, alerts, listings, rows) for name in columns})


def _from_listing(name: str, alerts: pd.DataFrame, listings: pd.DataFrame, rows: Any) -> Any:
    if name not in alerts:
        return take(listings[name].array, rows)
    either = pd.concat([listings[name], alerts[name]]).array
    return take(either, np.where(rows < 0, len(listings) + np.arange(len(alerts)), rows))


def with_pages(rows: pd.DataFrame, links: pd.DataFrame) -> pd.DataFrame:
    """Add ``link_contains``, the kinds of data on the page of each alert; missing without a matching link."""
    page = ["user_id", "url"]
    linked = links[is_in(links["url"], rows["link_url"].dropna())].dropna(subset="contains")
    linked = linked.drop_duplicates(page, keep="last").reset_index(drop=True)
    keys = rows[["user_id", "link_url"]].set_axis(page, axis="columns").astype(linked.dtypes[page].to_dict())
    positions = keys.merge(linked[page].assign(at=linked.index), on=page, how="left")["at"]
    kinds = pd.Series(linked["contains"], dtype=LISTS_DTYPE).array
    return rows.assign(link_contains=take(kinds, positions.fillna(-1).to_numpy("int64")))


def with_people(
    alerts: pd.DataFrame,
    users: pd.DataFrame,
    *,
    aliases: pd.DataFrame,
    emails: pd.DataFrame,
    phone_numbers: pd.DataFrame,
    addresses: pd.DataFrame,
) -> pd.DataFrame:
    """Add the person of each alert and the values to enter into the opt-out form, from the tables of an `Exposure`.

    The listing (see `with_listings`) decides which of several addresses is used, and which name: an alias if it has that
    and not the registered one. If it shows an address, and none on file agrees, the one that it shows is used: the site
    must not learn another from the opt-out. Of that, a required part that the listing does not show is not missing if it
    is on file.

    Returns:
        The same rows with ``person`` (the name on file) and ``form_values`` (a list of texts such as
        ``email: jo@example.com``, ``birth_date: not on file``, ``city as listed: Oakmere`` or ``zip: not shown by the
        listing``: first the fields that the site requires, then the
        usual fields of opt-out forms; missing for an alert without steps).

    Source: specification, "Record", ``user_fields_required_for_removal``, and "User".
    """
    MissingColumns.check(
        "with_people", alerts, ("user_id", "site", "opt_out_procedure", "locations", _REQUIRED)
    )
    items = {"alias": aliases, "email": emails, "phone_number": phone_numbers}
    size = max(_PART_ROWS, -(-len(alerts) // _PARTS))
    added = pd.concat(
        [
            _people(part := alerts.iloc[first : first + size], _profiles(part, users, addresses, items))
            for first in range(0, max(1, len(alerts)), size)
        ]
    )
    return alerts.assign(person=added["person"].array, form_values=added["form_values"].array)


def _people(alerts: pd.DataFrame, profiles: Mapping[int, "_Profile"]) -> pd.DataFrame:
    """Return the columns that `with_people` adds to some alerts."""
    cache: dict[tuple[Any, ...], list[str]] = {}  # many listings of a person need the same values

    def form_values(row: tuple[Any, ...]) -> list[str] | None:
        user_id, site, steps, required, locations, listed = row
        profile = profiles.get(user_id)
        if profile is None or is_missing(steps) or not len(steps):
            return None
        fields, addresses = _required_fields(required), profile.possible_addresses(locations)
        name, is_page = profile.best_name(listed), _text(site) is None
        key = user_id, fields, tuple(tuple(one.items()) for one in addresses), name, is_page
        if key not in cache:
            cache[key] = [*profile.lines(fields, addresses, name, is_page=is_page)]
        return cache[key]

    columns = ("user_id", "site", "opt_out_procedure", _REQUIRED, "locations")
    listed = alerts["name"].tolist() if "name" in alerts else [None] * len(alerts)
    rows = zip(*(alerts[name].tolist() for name in columns), listed, strict=True)
    values = [form_values(row) for row in rows]
    names = [profile and profile.name for profile in map(profiles.get, alerts["user_id"].tolist())]
    return pd.DataFrame(
        {
            "person": pd.Series(names, alerts.index, dtype=TEXT_DTYPE),
            "form_values": pd.Series(lists_of(values), alerts.index),
        }
    )


def with_names(table: pd.DataFrame, users: pd.DataFrame) -> pd.DataFrame:
    """Add ``person``, the name on file of each row's user, after ``user_id``; missing where there is none."""
    if table.index.name == "user_id" and "user_id" not in table:
        named = with_names(table.reset_index(), users)
        named.columns.name = table.columns.name
        return named.set_index("user_id")
    MissingColumns.check("with_people", table, ("user_id",))
    names = {int(row["user_id"]): _full_name(row) for row in _dicts(users)}
    if "person" in table and pd.api.types.is_numeric_dtype(table["person"]):
        raise InvalidArgument("the column person has numbers, not names: rename it first")
    named = table.drop(columns="person", errors="ignore")
    person = named["user_id"].map(pd.Series(names, dtype=TEXT_DTYPE)).astype(TEXT_DTYPE)
    named.insert([*named.columns].index("user_id") + 1, "person", person)
    return named


def without_people(alerts: pd.DataFrame) -> pd.DataFrame:
    """Add the columns of `with_people` with missing values, for alerts without personal data."""
    missing = pd.Series(pd.NA, alerts.index, dtype=LISTS_DTYPE)
    return alerts.assign(person=pd.Series(index=alerts.index, dtype=TEXT_DTYPE), form_values=missing)


def tasks(rows: pd.DataFrame, *, as_of: date | None = None) -> list[Task]:
    """Turn the rows of a table of alerts, or of a work queue, into tasks.

    Ages are compared with birth dates on file as of a day; None: no ages are compared.
    """
    return [_task(row, as_of) for row in _dicts(rows)]


def missing_values(rows: pd.DataFrame) -> list[tuple[str, ...]]:
    """The labels of the values that each row requires and that are not on file, as in `Task`."""
    labels: list[tuple[str, ...]] = [()] * len(rows)
    if "form_values" not in rows:
        return labels
    names = [name for name in ("form_values", _REQUIRED) if name in rows]
    positions = np.flatnonzero(rows["form_values"].notna())
    cells = (rows[name].iloc[positions].tolist() for name in names)
    cache: dict[
        tuple[tuple[str, ...], ...], tuple[str, ...]
    ] = {}  # many listings of a person need the same values
    for position, row in zip(positions.tolist(), zip(*cells, strict=True), strict=True):
        key = tuple(tuple(_texts(cell)) for cell in row)
        if key not in cache:
            cache[key] = _missing_labels(_entries(dict(zip(names, key, strict=True))))
        labels[position] = cache[key]
    return labels


def _missing_labels(entries: Iterable[FormValue]) -> tuple[str, ...]:
    missing = (one for one in entries if one.required and one.value is None and not one.is_withheld)
    return tuple(one.label for one in missing)


def _task(row: Mapping[str, Any], as_of: date | None) -> Task:
    user_id = int(row["user_id"])
    name, site, url = _text(row.get("person")), _text(row.get("site")), _text(row.get("url"))
    address = _text(row.get("href")) if site else _text(row.get("link_url")) or url
    steps, entries = _texts(row.get("opt_out_procedure")), tuple(_entries(row))
    cautions = _listing_warnings(row, entries, as_of) if site else page_warnings(str(row.get("link_title")))
    return Task(
        person=f"{name} (user {user_id})" if name else f"user {user_id}",
        site=site,
        user_id=user_id,
        alert_number=int(row["alert_number"]),
        facts=tuple(_facts(row, site)),
        address=address,
        begin=url if url and url != address else opt_out_url(steps),
        entries=entries,
        note="" if name and "form_values" in row else NO_VALUES,
        state=_text(row.get("state")) or "",
        cautions=tuple(cautions),
        asks_reference=bool(site) and any("reference" in step.casefold() for step in steps),
    )


def _listing_warnings(
    row: Mapping[str, Any], entries: Sequence[FormValue], as_of: date | None
) -> Iterator[str]:
    first = {entry.name: entry.value for entry in reversed(entries)}
    own = [(first.get("first_name") or "", first.get("last_name") or "")] if first.get("name") else []
    aliases = [("", entry.value) for entry in entries if entry.name == "alias" and entry.value]
    yield from name_warning(_text(row.get("name")), [*own, *aliases])
    age = row.get("age")
    yield from age_warning(None if is_missing(age) else int(age), first.get("birth_date"), as_of)  # type: ignore[arg-type]


def listed_as(name: str) -> str:
    """Return what stands in the place of a person's name if only listings are known: the name that most of them have."""
    return f"listed as {name}"


def _facts(row: Mapping[str, Any], site: str | None) -> Iterator[tuple[str, str]]:
    if site is None:
        yield PAGE_TITLE, _text(row.get("link_title")) or _text(row.get("link_url")) or "no title"
        if kinds := _texts(row.get("link_contains")):
            yield CONTAINS, ", ".join(kinds)
        return
    if "name" not in row:
        return
    age, reference = row.get("age"), _text(row.get("reference_id"))
    no_value, none = NO_VALUE_TEXTS
    name = _text(row.get("name"))
    if name is None or _text(row.get("person")) != listed_as(name):
        yield LISTED_NAME, name or no_value
    yield AGE, no_value if is_missing(age) else str(int(age))  # type: ignore[arg-type]
    yield LOCATIONS, "; ".join(_texts(row.get("locations"))) or no_value
    yield REFERENCE, reference or none


def _entries(row: Mapping[str, Any]) -> Iterator[FormValue]:
    required = set(_with_address_lines(_required_fields(row.get(_REQUIRED)), ADDRESS_FIELDS))
    is_page = _text(row.get("site")) is None  # which value is right, the page tells
    pairs = [line.partition(": ")[::2] for line in _texts(row.get("form_values"))]
    counts, previous = Counter(name for name, _ in pairs), set[str]()
    for label, value in pairs:
        name = label.removesuffix(_AS_LISTED)
        is_alternative = name in previous
        previous.add(name)
        yield FormValue(
            name,
            None if value in (NOT_ON_FILE, WITHHELD) else value,
            name in required,
            is_alternative and not is_page,
            counts[name] > 1 and not is_alternative and not is_page,
            name != label,
            value == WITHHELD,
        )


def opt_out_url(steps: Sequence[str]) -> str | None:
    """Return the first URL with a path in the steps of an alert; None if there is none."""
    return next((url for step in steps for *_, url in step_urls(step)), None)


def step_urls(step: str) -> Iterator[tuple[int, int, str]]:
    """The addresses with a path, or with a scheme, in a step: start and end in its text, and the URL."""
    for match in _URL.finditer(step):
        url = match[0].rstrip(".,;:!?")
        has_scheme = "://" in url
        if has_scheme or "/" in url:
            yield match.start(), match.start() + len(url), url if has_scheme else f"https://{url}"


def _required_fields(required: Any) -> tuple[str, ...]:
    """The distinct fields that a site requires, by the specification's names."""
    return tuple(dict.fromkeys(field for name in _texts(required) for field in fields_of(name)))


def _with_address_lines(required: Sequence[str], on_file: Iterable[str]) -> tuple[str, ...]:
    """The required fields, with all lines of the address if the street is one of them."""
    lines = [part for part in ADDRESS_FIELDS if part in on_file] if "address1" in required else []
    return tuple(dict.fromkeys((*required, *lines)))


@dataclass(slots=True)
class _Profile:
    fields: dict[str, list[str]]  # those on file
    addresses: list[dict[str, str]]
    aliases: list[dict[str, str]]
    compared: list["_AddressWords"] = field(default_factory=list)  # the addresses, once needed

    @property
    def name(self) -> str | None:
        return next(iter(self.fields.get("name", ())), None)

    def possible_addresses(self, locations: Any) -> Sequence[Mapping[str, str]]:
        """The addresses on file, the one that matches the listing best first, or the one that the listing shows.

        That is if it shows one, and none on file agrees.
        """
        texts = _texts(locations)
        if not self.compared:
            self.compared = [*map(_AddressWords.of, self.addresses)]
        scores = [max(map(one.agreement, texts), default=0) for one in self.compared]
        if not any(scores) and (elsewhere := next(filter(None, map(listed_address, texts)), None)):
            return [elsewhere]
        best = sorted(range(len(scores)), key=lambda number: number != scores.index(max(scores)))
        return [self.addresses[number] for number in best]

    def best_name(self, listed: Any) -> int:
        """The number of the alias that a listing has; -1 for the registered name, also if it has that, too, or neither."""
        text = _text(listed)
        if text is None or not self.aliases:
            return -1
        registered = (next(iter(self.fields.get(part, ())), "") for part in ("first_name", "last_name"))
        if is_named(text, *registered):
            return -1
        fits = (
            len(alias) == len(_ITEM_COLUMNS["alias"]) and is_named(text, *alias.values())
            for alias in self.aliases
        )
        return next((number for number, is_fit in enumerate(fits) if is_fit), -1)

    def _named(self, alias: Mapping[str, str]) -> dict[str, list[str]]:
        """The fields of a name; an alias with the registered first name has the middle name, too."""
        is_same = words(alias["first_name"]) == words(next(iter(self.fields.get("first_name", ())), ""))
        middle = self.fields.get("middle_name", []) if is_same else []
        full = " ".join([alias["first_name"], *middle, alias["last_name"]])
        return {"name": [full], "middle_name": middle} | {part: [text] for part, text in alias.items()}

    def lines(
        self,
        required: tuple[str, ...],
        addresses: Sequence[Mapping[str, str]],
        name_number: int,
        *,
        is_page: bool,
    ) -> Iterator[str]:
        """The required fields, then the usual ones, each in the order of a form."""
        address = addresses[0] if addresses else {}
        is_listed = bool(address) and address not in self.addresses
        listed = {"address", *address} if is_listed else set[str]()
        withheld = (
            {part for one in self.addresses for part in one if part not in address}
            if is_listed
            else set[str]()
        )
        full = _one_line(address)
        fields = self.fields | {part: [text] for part, text in address.items()}
        if name_number >= 0:
            fields |= self._named(self.aliases[name_number])
        if full:
            others = [line for one in addresses if (line := _one_line(one)) != full]
            fields["address"] = [full, *others]
        optional = tuple(name for name in _OPTIONAL_FIELDS if name in fields)
        for name in _in_form_order(required, optional, is_page):
            if name == "middle_name" and fields.get(name) == []:  # another name has another one
                continue
            label = f"{name}{_AS_LISTED if name in listed else ''}"
            for value in fields.get(name) or [WITHHELD if name in withheld else NOT_ON_FILE]:
                yield f"{label}: {value}"


@dataclass(frozen=True, slots=True)
class _AddressWords:
    """An address on file, as it is compared with listed locations: the words of each part, abbreviated."""

    state: str
    street: str
    city: str
    zip: str

    @classmethod
    def of(cls, address: Mapping[str, str]) -> "_AddressWords":
        parts = (" ".join(address_words(address.get(name, ""))) for name in ("address1", "city", "zip"))
        return cls(state_code(address.get("state", "")), *parts)

    def agreement(self, location: str) -> int:
        """How many of street, city and ZIP code a listed location has; 0 if it is in another state."""
        listed_state = state_of(location)
        if listed_state and self.state in STATES and self.state != listed_state:
            return 0
        parts = [" ".join(address_words(part)) for part in re.split(r"[,;\n]", location)]
        line = f" {' '.join(parts)} "
        has_city = any(_is_city(part, self.city) for part in parts)
        return has_city + sum(bool(text) and f" {text} " in line for text in (self.street, self.zip))


def _is_city(part: str, city: str) -> bool:
    """Return whether a part of a location is a city, alone or behind a street, with a state and a ZIP code at most."""
    before, match, after = f" {part} ".partition(f" {city} ")
    is_whole = not before.strip() or before.strip()[0].isdigit()  # New York is not York
    state = " ".join(word for word in after.split() if not word.isdigit())
    return bool(city and match) and is_whole and (not state or state_code(state) in STATES)


@lru_cache(1_000)
def _in_form_order(required: tuple[str, ...], optional: tuple[str, ...], is_page: bool) -> tuple[str, ...]:  # noqa: FBT001
    required = _with_address_lines(required, optional)
    usual = _PAGE_FIELDS if is_page else (*_FORM_FIELDS, *optional)
    rest = sorted({*usual} - {*required}, key=_field_position)
    return (*sorted(required, key=_field_position), *rest)


def _field_position(name: str) -> int:
    return _FIELD_ORDER.index(name) if name in _FIELD_ORDER else len(_FIELD_ORDER)


def _one_line(address: Mapping[str, str]) -> str:
    street = [address[part] for part in ("address1", "address2") if part in address]
    region = " ".join(address[part] for part in ("state", "zip") if part in address)
    return ", ".join(filter(None, [*street, address.get("city"), region]))


def _items(
    table: pd.DataFrame, parts: Sequence[str], profiles: Mapping[int, _Profile]
) -> Iterator[tuple[int, dict[str, str]]]:
    """The items of the users who have a profile, each with the parts that are on file."""
    for row in _user_rows(table, set(profiles)):
        yield int(row["user_id"]), {part: text for part in parts if (text := _stripped(row.get(part)))}


def _profiles(
    alerts: pd.DataFrame, users: pd.DataFrame, addresses: pd.DataFrame, items: Mapping[str, pd.DataFrame]
) -> dict[int, _Profile]:
    user_ids = set(alerts["user_id"].unique().tolist())
    profiles: dict[int, _Profile] = {}
    for row in _user_rows(users, user_ids):
        fields = {name: [text] for name in _NAME_FIELDS if (text := _stripped(row.get(name)))}
        if fields:
            fields["name"] = [" ".join(text for [text] in fields.values())]
        birth_date = row.get("birth_date")
        if not is_missing(birth_date):
            fields["birth_date"] = [f"{birth_date:%Y-%m-%d}"]
        if row.get("identification_on_file") is True:
            fields["identification"] = ["on file with the service"]
        profiles[int(row["user_id"])] = _Profile(fields, [], [])
    for name, table in items.items():
        for row in _user_rows(table, user_ids):
            value = " ".join(text for part in _ITEM_COLUMNS[name] if (text := _stripped(row.get(part))))
            if value and (profile := profiles.get(int(row["user_id"]))):
                profile.fields.setdefault(name, []).append(value)
    for user_id, alias in _items(items["alias"], _ITEM_COLUMNS["alias"], profiles):
        profiles[user_id].aliases.append(alias)
    for user_id, address in _items(addresses, ADDRESS_FIELDS, profiles):
        profiles[user_id].addresses.append(address)
    return profiles


def _full_name(row: Mapping[str, Any]) -> str | None:
    return " ".join(filter(None, (_stripped(row.get(name)) for name in _NAME_FIELDS))) or None


def _user_rows(table: pd.DataFrame, user_ids: set[int]) -> Iterable[dict[str, Any]]:
    return _dicts(table[table["user_id"].isin(user_ids)])


def _dicts(table: pd.DataFrame) -> Iterable[dict[str, Any]]:
    """Yield each row as a dict; faster than `to_dict`, as each column is converted only once."""
    names = [str(name) for name in table.columns]
    rows = zip(*(table[name].tolist() for name in table), strict=True)
    return (dict(zip(names, row, strict=True)) for row in rows)


def _texts(cell: Any) -> list[str]:
    return [] if is_missing(cell) or isinstance(cell, str) else [str(one) for one in cell if one is not None]


def _text(cell: object) -> str | None:
    return cell if isinstance(cell, str) and cell.strip() else None


def _stripped(cell: object) -> str:
    """The text of a cell without surrounding space; empty for a blank or missing one."""
    return cell.strip() if isinstance(cell, str) else ""
