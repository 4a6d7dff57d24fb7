"""People by name or id: what each is called in a list, and whom a typed text means. Shows nothing."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.exposure import Exposure
from exposurekit.history import History
from exposurekit.text.sanitize import plain

_NAMED = 5  # of several people in one line: more are counted
OFFERED = 500  # completions at once: with more people these narrow as somebody types


@dataclass(frozen=True, slots=True)
class People:
    """Everybody who can be picked.

    Attributes:
        labels: For each id a name and the id, such as ``Jo Doe (12)``; the id alone where no name is known.
    """

    labels: Mapping[int, str] = field(repr=False)

    def matching(self, text: str) -> list[int]:
        """The people whom a text means: the one with this id or exact name, else all whose name contains it.

        >>> from exposurekit.widgets.people import People
        >>> people = People({1: "Jo Doe (1)", 2: "Jo Dean (2)", 12: "Ann Lee (12)"})
        >>> people.matching("jo d"), people.matching("2"), people.matching("ann lee (12)"), people.matching("Zed")
        ([1, 2], [2], [12], [])
        """
        wanted = _folded(text)
        if wanted.isdecimal():
            return [one for one in self.labels if str(one) == wanted]
        folded = {one: _folded(label) for one, label in self.labels.items()}
        exact = [one for one, label in folded.items() if wanted in (label, label.removesuffix(f" ({one})"))]
        return exact or [one for one, label in folded.items() if wanted in label]

    def meant(self, text: str) -> tuple[int, ...]:
        """The one person whom a text means; nobody where it is empty, or means nobody or several."""
        found = self.matching(text) if text.strip() else []
        return tuple(found) if len(found) == 1 else ()

    def ids(self, given: int | str | Sequence[int | str] | None) -> tuple[int, ...]:
        """The ids of those who are given by id or name, each once.

        Raises:
            NotFound: Nobody has one of these ids or names.
            InvalidArgument: A name is that of several people.
        """
        each = () if given is None else (given,) if isinstance(given, int | str) else given
        return tuple(dict.fromkeys(self._id(one) for one in each))

    def _id(self, given: int | str) -> int:
        found = self.matching(str(given))
        if not found:
            raise NotFound("No person here has this id or name")
        if len(found) > 1:
            raise InvalidArgument(f"{len(found):,} people match this name: give the id")
        return found[0]

    def names(self, ids: Sequence[int]) -> str:
        """What people are called, in one line; of many, the first, and how many more there are."""
        labels = [self.labels.get(one, str(one)) for one in ids]
        more = f" and {len(labels) - _NAMED:,} more" if len(labels) > _NAMED else ""
        return ", ".join(labels[:_NAMED]) + more

    def completions(self, text: str) -> list[str]:
        """Labels to offer: all where they are few, else the first of those that a text matches."""
        labels = list(self.labels.values())
        if len(labels) > OFFERED and text.strip():
            wanted = _folded(text)
            labels = [label for label in labels if wanted in _folded(label)]
        return labels[:OFFERED]


def people(exposure: Exposure | None, history: History | None) -> People:
    """Everybody whom an exposure or a history knows; a history has no names."""
    labels: dict[int, str] = {}
    if history is not None:
        labels = {one: str(one) for one in history.people()["user_id"].tolist()}
    if exposure is not None:
        table = exposure.users()
        names = zip(*(table[name].tolist() for name in ("user_id", "first_name", "last_name")), strict=True)
        labels |= {one: _label(one, parts) for one, *parts in names}
    return People(dict(sorted(labels.items())))


def _label(user_id: int, parts: Iterable[Any]) -> str:
    name = " ".join(plain(part).strip() for part in parts if isinstance(part, str) and part.strip())
    return f"{name} ({user_id})" if name else str(user_id)


def _folded(text: str) -> str:
    """A text without case, accents and doubled spaces."""
    apart = unicodedata.normalize("NFD", text)
    return " ".join("".join(one for one in apart if not unicodedata.combining(one)).casefold().split())
