"""Compare a listing with what the person has on file: what agrees, and what differs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from exposurekit.analysis.step_requirements import is_named
from exposurekit.errors import NotFound
from exposurekit.exposure import Exposure
from exposurekit.text.formatting import MISSING, format_value, is_missing
from exposurekit.text.html_cards import scrolling
from exposurekit.text.sanitize import escaped, isolated_value
from exposurekit.text.us_addresses import STATES, state_of
from exposurekit.text.words import words

AGREES, DIFFERS, UNKNOWN = "✓ agrees", "✗ differs", ""
_LABELS = {
    "name": "name as listed",
    "reference_id": "reference",
}
NO_PERSON = "The person's data is missing: pass exposure= to compare the listing with what is on file."


@dataclass(frozen=True, slots=True)
class OnFile:
    """What one person has on file, to compare a listing with."""

    names: tuple[tuple[str, str], ...] = field(repr=False)  # each as first and last name
    names_in_full: tuple[str, ...] = field(repr=False)
    born: datetime | None = field(repr=False)
    addresses: tuple[str, ...] = field(repr=False)
    towns: tuple[tuple[list[str], str | None], ...] = field(repr=False)  # the words of a city, and the state

    def age(self, at: datetime) -> int | None:
        """Their age; None without a birth date on file."""
        if self.born is None:
            return None
        had_birthday = (at.month, at.day) >= (self.born.month, self.born.day)
        return at.year - self.born.year - (not had_birthday)


def on_file(exposure: Exposure, user_id: int) -> OnFile | None:
    """What a person has on file; None if they were not loaded."""
    try:
        [user] = exposure.users(user_id).to_dict("records")
    except (NotFound, ValueError):
        return None
    aliases, addresses = exposure.aliases(user_id), exposure.addresses(user_id)
    both = [
        (_text(row["first_name"]), _text(row["last_name"])) for row in (user, *aliases.to_dict("records"))
    ]
    full = [
        _joined(user.get(part) for part in ("first_name", "middle_name", "last_name")),
        *map(_joined, both[1:]),
    ]
    rows = addresses.to_dict("records")
    addresses_on_file = [
        _joined((row[part] for part in ("address1", "address2", "city", "state", "zip")), ", ")
        for row in rows
    ]
    towns = tuple((words(_text(row["city"])), state_of(f", {_text(row['state'])}")) for row in rows)
    born = None if is_missing(user["birth_date"]) else user["birth_date"].to_pydatetime()
    names = tuple(filter(any, both))
    return OnFile(names, tuple(filter(None, full)), born, tuple(filter(None, addresses_on_file)), towns)


def compare(record: "pd.Series[Any]", person: OnFile | None, fields: Sequence[str]) -> str:
    """An HTML table of the listing and the person; words and signs say what agrees, not only colour."""
    if person is None:
        rows = "".join(
            _row(_LABELS.get(name, name), format_value(record[name]) or MISSING) for name in fields
        )
        return f'{scrolling(f"<table>{rows}</table>", "the listing")}<p class="label">{NO_PERSON}</p>'
    on_file = _comparison(record, person)
    head = "".join(f'<th scope="col">{words}</th>' for words in ("", "the listing", "on file", ""))
    rows = "".join(
        _row(_LABELS.get(name, name), format_value(record[name]), *on_file.get(name, ("", UNKNOWN)))
        for name in fields
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return scrolling(table, "the listing and the person on file")


def compare_in_words(record: "pd.Series[Any]", person: OnFile | None) -> str:
    """What agrees and what differs, on one line; empty if the person is not known."""
    if person is None:
        return ""
    comparison = _comparison(record, person)
    return "; ".join(f"{name} {result}" for name, (_, result) in comparison.items() if result != UNKNOWN)


def _row(label: str, *cells: str) -> str:
    markup = "".join(
        f"<td>{f'<strong>{isolated_value(cell)}</strong>' if cell.startswith(('✓', '✗')) else isolated_value(cell)}</td>"
        for cell in cells
    )
    return f'<tr><th scope="row">{escaped(label)}</th>{markup}</tr>'


def _comparison(record: "pd.Series[Any]", person: OnFile) -> dict[str, tuple[str, str]]:
    """What is on file for each field of a listing, and whether it agrees."""
    age = person.age(datetime.now(UTC))
    born = "" if person.born is None else f"{age} (born {person.born:%Y-%m-%d})"
    names = "; ".join(person.names_in_full)
    aliases = _compare_names([*_texts(record["aliases"])], person)
    name = _compare_names([_text(record["name"])], person)
    if name == DIFFERS and aliases == AGREES:
        name = "✓ an alias agrees"
    return {
        "name": (names or "not on file", name),
        "age": (born or "not on file", _compare_ages(record["age"], age)),
        "locations": (
            "; ".join(person.addresses) or "not on file",
            _compare_locations(record["locations"], person),
        ),
        "aliases": (names or "not on file", aliases),
    }


def _compare_names(listed: Sequence[str], person: OnFile) -> str:
    """Whether one of the listed names is a name of the person."""
    listed = [name for name in listed if name.strip()]
    if not listed or not person.names:
        return UNKNOWN
    agrees = any(is_named(name, *on_file) for name in listed for on_file in person.names)
    return AGREES if agrees else DIFFERS


def _compare_ages(listed: Any, age: int | None) -> str:
    if is_missing(listed) or age is None:
        return UNKNOWN
    difference = abs(int(listed) - age)
    if difference == 1:  # a site may round, or be a year old
        return "✓ agrees within 1 year"
    return AGREES if difference == 0 else DIFFERS


def _compare_locations(listed: Any, person: OnFile) -> str:
    locations = [*_texts(listed)]
    if not locations or not person.addresses:
        return UNKNOWN
    if any(_is_in(location, city, state) for location in locations for city, state in person.towns):
        return AGREES
    states = {state_of(location) for location in locations} & {state for _, state in person.towns}
    return "✓ the state agrees" if states - {None} else DIFFERS


def _is_in(location: str, city: list[str], state: str | None) -> bool:
    """Whether a location is in a city; in another state there may be one of the same name."""
    if not city or len({state, state_of(location)} - {None}) > 1:
        return False
    return any(_without_state(words(part)) == city for part in location.split(","))


def _without_state(part: list[str]) -> list[str]:
    """The words of a city, without the ZIP code and the code of the state behind it."""
    while len(part) > 1 and (part[-1].isdecimal() or part[-1].upper() in STATES):
        part = part[:-1]
    return part


def _texts(cell: Any) -> Iterator[str]:
    if not is_missing(cell) and not isinstance(cell, str):
        yield from (str(one) for one in cell if one is not None)


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else ""


def _joined(parts: Iterable[Any], by: str = " ") -> str:
    return by.join(str(part).strip() for part in parts if isinstance(part, str) and part.strip())
