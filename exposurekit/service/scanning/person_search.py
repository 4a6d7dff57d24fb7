"""Find registered people by a name or an email address, such as for a request that does not state an id."""

import re
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select

from exposurekit.service.accounts import users
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.matching.name_matching import names_fit
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Session
from exposurekit.service.storage.encryption import DecryptionError
from exposurekit.text.words import words

_ADDRESS = re.compile(r"""[<(\[]?([^\s<>()\[\]{},;:"]+@[^\s<>()\[\]{},;:"]+)[>)\]]?""")


@dataclass(frozen=True, slots=True)
class PersonMatch:
    """A registered person, without personal data."""

    user_id: int
    integrator: str
    registered_at: datetime
    records: int


@dataclass(frozen=True, slots=True)
class PersonMatches:
    """The people who match, and how many could not be compared, because their data is damaged."""

    people: tuple[PersonMatch, ...]
    unreadable: int


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """What a request states: email addresses, and a name (empty without a word of two letters)."""

    addresses: frozenset[str]
    name: str

    @classmethod
    def of(cls, text: str) -> "SearchTerms":
        """Read a text such as ``Jane Doe <jane@example.com>``."""
        name = _ADDRESS.sub(" ", text).strip(" ,;:\t\r\n")
        # A letter alone would match every middle initial; a name in Chinese may be one character. Digits alone are no name.
        parts = (word for word in words(name) if not word.isdecimal())
        is_name = any(len(word) > 1 or not word.isascii() for word in parts)
        addresses = frozenset(address.strip("'.").casefold() for address in _ADDRESS.findall(text))
        return cls(addresses, name if is_name else "")


async def find(session: Session, terms: SearchTerms) -> PersonMatches:
    """Return everybody with one of the addresses or the name; similar names match as in a scan. Decrypts all people."""
    people, unreadable = [], 0
    for row in await session.all(_EVERYBODY):
        try:
            subject = await users.get_subject(session, row.user_id)
        except DecryptionError:
            unreadable += 1
            continue
        if subject is not None and _matches(subject, terms):
            people.append(PersonMatch(*tuple(row)))
    return PersonMatches(tuple(people), unreadable)


def _matches(subject: Subject, terms: SearchTerms) -> bool:
    if any(email.strip().casefold() in terms.addresses for email in subject.emails):
        return True
    if not terms.name:
        return False
    parts = set(words(terms.name))
    names = [set(words(f"{name.first} {name.middle} {name.last}")) for name in subject.names]
    return any(parts <= name for name in names) or names_fit(subject.names, terms.name) is not None


_users, _records = tables.users.c, tables.records.c
_COUNT = select(func.count()).where(_records.user_id == _users.id).scalar_subquery()
_EVERYBODY = (
    select(_users.id.label("user_id"), tables.integrators.c.name, _users.created_at, _COUNT)
    .join(tables.integrators, tables.integrators.c.id == _users.integrator_id)
    .order_by(_users.id)
)
