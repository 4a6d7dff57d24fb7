"""People by name or id: their labels, and who matches a typed text."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.text.sanitize import plain

_NAMES_MAX = 5  # names in one line; more people are counted
COMPLETIONS_MAX = 500  # with more people, the completions follow what is typed


@dataclass(frozen=True, slots=True)
class People:
    """The people of an exposure or a history.

    Attributes:
        labels: A name and the id for each id, such as ``Jo Doe (12)``; the id alone without a name.
    """

    labels: Mapping[int, str] = field(repr=False)

    def matching(self, text: str) -> list[int]:
        """The ids of the person with this id or exact name, else of all whose name contains the text.

        >>> from exposurekit.frames.person_lookup import People
        >>> people = People({1: "Jo Doe (1)", 2: "Jo Dean (2)", 12: "Ann Lee (12)"})
        >>> people.matching("jo d"), people.matching("2"), people.matching("ann lee (12)"), people.matching("Zed")
        ([1, 2], [2], [12], [])
        """
        key = _folded(text)
        if key.isdecimal():
            return [one for one in self.labels if str(one) == key]
        folded = {one: _folded(label) for one, label in self.labels.items()}
        exact = [one for one, label in folded.items() if key in (label, label.removesuffix(f" ({one})"))]
        return exact or [one for one, label in folded.items() if key in label]

    def unique_match(self, text: str) -> tuple[int, ...]:
        """Return the only person who matches a text; empty if the text is empty, or none or several match."""
        matches = self.matching(text) if text.strip() else []
        return tuple(matches) if len(matches) == 1 else ()

    def ids(self, people: int | str | Sequence[int | str] | None) -> tuple[int, ...]:
        """The distinct ids of people given by id or name.

        Raises:
            NotFound: Nobody has one of these ids or names.
            InvalidArgument: Several people have a name.
        """
        each = () if people is None else (people,) if isinstance(people, int | str) else people
        return tuple(dict.fromkeys(self._id(person) for person in each))

    def _id(self, person: int | str) -> int:
        matches = self.matching(str(person))
        if not matches:
            raise NotFound("No person here has this id or name")
        if len(matches) > 1:
            raise InvalidArgument(f"{len(matches):,} people match this name: give the id")
        return matches[0]

    def names(self, ids: Sequence[int]) -> str:
        """The labels of people on one line; of many, the first few and a count."""
        labels = [self.labels.get(one, str(one)) for one in ids]
        more = f" and {len(labels) - _NAMES_MAX:,} more" if len(labels) > _NAMES_MAX else ""
        return ", ".join(labels[:_NAMES_MAX]) + more

    def completions(self, text: str) -> list[str]:
        """Labels for the browser to offer: all if they are few, else the first that match the text."""
        labels = list(self.labels.values())
        if len(labels) > COMPLETIONS_MAX and text.strip():
            key = _folded(text)
            labels = [label for label in labels if key in _folded(label)]
        return labels[:COMPLETIONS_MAX]


def labels_of(users: pd.DataFrame) -> dict[int, str]:
    """The label of each user of `Exposure.users`: the name and the id."""
    cells = zip(*(users[name].tolist() for name in ("user_id", "first_name", "last_name")), strict=True)
    return {user_id: _label(user_id, parts) for user_id, *parts in cells}


def _label(user_id: int, parts: Iterable[Any]) -> str:
    name = " ".join(plain(part).strip() for part in parts if isinstance(part, str) and part.strip())
    return f"{name} ({user_id})" if name else str(user_id)


def _folded(text: str) -> str:
    """The text in lower case, without accents and repeated spaces."""
    decomposed = unicodedata.normalize("NFD", text)
    return " ".join("".join(one for one in decomposed if not unicodedata.combining(one)).casefold().split())
