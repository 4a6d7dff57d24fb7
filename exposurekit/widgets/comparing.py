"""A finding beside what the person has on file: what agrees, what differs, and what cannot be compared."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from exposurekit.analysis.by_kind import state_of
from exposurekit.errors import NotFound
from exposurekit.exposure import Exposure
from exposurekit.text.formatting import format_value, is_missing
from exposurekit.text.sanitize import escaped

AGREES, DIFFERS, UNKNOWN = "✓ agrees", "✗ differs", ""
NO_PERSON = "The person is not shown: pass exposure= for what they have on file."


@dataclass(frozen=True, slots=True)
class OnFile:
    """What one person has on file, as far as a listing can be compared with it."""

    names: tuple[str, ...] = field(repr=False)
    born: datetime | None = field(repr=False)
    places: tuple[str, ...] = field(repr=False)
    states: frozenset[str] = field(repr=False)
    cities: tuple[str, ...] = field(repr=False)

    def age(self, at: datetime) -> int | None:
        """How old they are; None where no birth date is on file."""
        if self.born is None:
            return None
        had_birthday = (at.month, at.day) >= (self.born.month, self.born.day)
        return at.year - self.born.year - (not had_birthday)


def on_file(exposure: Exposure, user_id: int) -> OnFile | None:
    """What a person has on file; None where they are not among those loaded."""
    try:
        [user] = exposure.users(user_id).to_dict("records")
    except (NotFound, ValueError):
        return None
    aliases, addresses = exposure.aliases(user_id), exposure.addresses(user_id)
    names = [_joined(user.get(part) for part in ("first_name", "middle_name", "last_name"))]
    names += [_joined((row["first_name"], row["last_name"])) for row in aliases.to_dict("records")]
    rows = addresses.to_dict("records")
    places = [_joined((row["address1"], row["city"], row["state"], row["zip"]), ", ") for row in rows]
    states = frozenset(str(row["state"]).upper() for row in rows if not is_missing(row["state"]))
    cities = tuple(str(row["city"]).casefold() for row in rows if not is_missing(row["city"]))
    born = None if is_missing(user["birth_date"]) else user["birth_date"].to_pydatetime()
    return OnFile(tuple(filter(None, names)), born, tuple(filter(None, places)), states, cities)


def compared(record: "pd.Series[Any]", person: OnFile | None, shown: Sequence[str]) -> str:
    """A table of the listing, and beside it the person; signs and words say what agrees, and no colour alone."""
    if person is None:
        rows = "".join(_row(name, format_value(record[name])) for name in shown)
        return f"<table>{rows}</table><p><em>{NO_PERSON}</em></p>"
    beside = _beside(record, person)
    head = "".join(f'<th scope="col">{words}</th>' for words in ("", "the listing", "on file", ""))
    rows = "".join(_row(name, format_value(record[name]), *beside.get(name, ("", UNKNOWN))) for name in shown)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _row(name: str, *cells: str) -> str:
    marked = "".join(
        f"<td>{f'<strong>{escaped(cell)}</strong>' if cell in (AGREES, DIFFERS) else escaped(cell)}</td>"
        for cell in cells
    )
    return f'<tr><th scope="row">{escaped(name)}</th>{marked}</tr>'


def _beside(record: "pd.Series[Any]", person: OnFile) -> dict[str, tuple[str, str]]:
    """What is on file for each field of a listing, and whether it agrees."""
    age = person.age(datetime.now(UTC))
    born = "" if person.born is None else f"{age} (born {person.born:%Y-%m-%d})"
    names = "; ".join(person.names)
    return {
        "name": (names or "not on file", _of(_words(record["name"]), map(_words, person.names))),
        "age": (born or "not on file", _ages(record["age"], age)),
        "locations": ("; ".join(person.places) or "not on file", _places(record["locations"], person)),
        "aliases": (names or "not on file", _aliases(record["aliases"], person)),
    }


def _of(said: frozenset[str], known: Iterable[frozenset[str]]) -> str:
    """Whether a name has all the words of one that is on file but a middle one, or the other way round."""
    each = [one for one in known if one]
    if not said or not each:
        return UNKNOWN
    return AGREES if any(_same(said, one) for one in each) else DIFFERS


def _same(said: frozenset[str], known: frozenset[str]) -> bool:
    return said <= known or known <= said or len(_full(said) & _full(known)) > 1


def _full(words: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in words if len(word) > 1)


def _ages(listed: Any, age: int | None) -> str:
    if is_missing(listed) or age is None:
        return UNKNOWN
    return AGREES if abs(int(listed) - age) <= 1 else DIFFERS  # a site may round, or be a year old


def _places(listed: Any, person: OnFile) -> str:
    places = [*_texts(listed)]
    if not places or not person.places:
        return UNKNOWN
    cities = any(city in place.casefold() for place in places for city in person.cities)
    states = {state for place in places if (state := state_of(place))} & person.states
    return AGREES if cities else "✓ the state agrees" if states else DIFFERS


def _aliases(listed: Any, person: OnFile) -> str:
    each = [_words(one) for one in _texts(listed)]
    if not each:
        return UNKNOWN
    known = [*map(_words, person.names)]
    return AGREES if any(_of(one, known) == AGREES for one in each) else DIFFERS


def _words(name: Any) -> frozenset[str]:
    return frozenset(re.findall(r"[^\W\d_]+", name.casefold())) if isinstance(name, str) else frozenset()


def _texts(cell: Any) -> Iterator[str]:
    if not is_missing(cell) and not isinstance(cell, str):
        yield from (str(one) for one in cell if one is not None)


def _joined(parts: Iterable[Any], by: str = " ") -> str:
    return by.join(str(part).strip() for part in parts if isinstance(part, str) and part.strip())
