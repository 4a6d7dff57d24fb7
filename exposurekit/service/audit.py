"""Audit log: what operators did, as entries that each cover the hash of the one before.

An entry is written in the transaction of the change that it reports. It names integrators, people and other targets by
id, never by name, and holds no secret. Its hash is the vault's fingerprint of its columns and of the previous hash, so
whoever can write to the database but has no key can neither change an entry nor add one unnoticed. Removing the last
entries leaves a shorter, valid log: an operator who keeps the last hash elsewhere notices that, too.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.exc import OperationalError

from exposurekit.service.storage.database import Session
from exposurekit.service.storage.encryption import Vault
from exposurekit.service.storage.tables import audit_entries

NO_HASH = "0" * 64  # what the first entry has as the previous hash
ACTOR_MAX = 200
_LOGIN_UID = Path("/proc/self/loginuid")
_NO_UID = 2**32 - 1
_DOMAIN = "audit entry"
_PAGE = 500  # rows at a time
_LOCK = 5_120_947_731  # an arbitrary number: entries are appended one after another


@dataclass(frozen=True, slots=True)
class Action:
    """What an operator did: the command, what it concerned, and numbers or flags that describe the change."""

    command: str
    target: str | None = None  # such as "user 7"
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored action; `hash` covers every other column."""

    id: int
    at: str  # ISO 8601 in UTC; as text, because the hash covers what is stored
    actor: str
    command: str
    target: str | None
    details: str  # JSON
    previous_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification: the entries that match, and the first one that does not, if any."""

    checked: int
    last_hash: str
    entry: int | None = None
    problem: str | None = None


def operator() -> str:
    """Return the OS user who runs this process, and who logged in, if that is another user.

    That is Linux's login id, which ``su`` and ``sudo`` keep and, once it is set, only root can change. Without one, as in
    a container, ``SUDO_USER`` is a claim: anybody can set it.

    >>> operator() != ""
    True
    """
    try:
        name = _user_name(os.geteuid())
    except AttributeError:  # Windows
        name = os.getlogin()
    who = name
    if (login := _login_name()) is not None:
        who = name if login == name else f"{login} as {name}"
    elif claimed := os.environ.get("SUDO_USER"):
        who = f"{name} (SUDO_USER claims {claimed})"
    return who.encode("utf-8", "replace").decode()[:ACTOR_MAX]  # an environment may hold any bytes


def _login_name() -> str | None:
    try:
        uid = int(_LOGIN_UID.read_bytes())
    except (OSError, ValueError):  # not on Linux
        return None
    return None if uid == _NO_UID else _user_name(uid)


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # in a container
        return f"uid {uid}"


async def append(session: Session, action: Action, *, actor: str) -> Entry:
    """Append an entry, in the transaction of the change and as its last step: other appends wait until it ends."""
    await session.serialize(_LOCK)
    last = await session.first(_LAST)
    columns: dict[str, Any] = {
        "id": 1 if last is None else last.id + 1,
        "at": session.clock.now().isoformat(timespec="microseconds"),
        "actor": actor,
        "command": action.command,
        "target": action.target,
        "details": json.dumps(action.details, sort_keys=True),
        "previous_hash": NO_HASH if last is None else last.hash,
    }
    entry = Entry(**columns, hash=_hash(session.vault, columns))
    await session.run(insert(audit_entries), asdict(entry))
    return entry


async def newest(session: Session, limit: int) -> list[Entry]:
    """Return the newest entries, oldest first."""
    rows = await session.all(select(audit_entries).order_by(audit_entries.c.id.desc()).limit(limit))
    return [Entry(*tuple(row)) for row in reversed(rows)]


async def last_hash(session: Session) -> str:
    """Return the hash of the last entry; `NO_HASH` if there is none."""
    last = await session.first(_LAST)
    return NO_HASH if last is None else str(last.hash)


async def verify(session: Session, *, head: str | None = None) -> Verification:
    """Verify every entry, in order, up to the first that does not match.

    ``head`` is a hash that the log had as its last one before; an entry must still have it.
    """
    checked, before, is_there, size = 0, NO_HASH, head in {None, NO_HASH}, _PAGE
    rows = _ENTRIES
    while True:
        try:
            page = await session.all(rows.limit(size))
        except OperationalError:  # SQLite: a text that is not UTF-8
            if await session.dialect() != "sqlite":
                raise
            if size == 1:
                return Verification(checked, before, checked + 1, "it cannot be read")
            size = 1
            continue
        for entry in (Entry(*tuple(row)) for row in page):
            if problem := _problem(session.vault, entry, checked + 1, before):
                return Verification(checked, before, entry.id, problem)
            checked, before = entry.id, entry.hash
            is_there = is_there or before == head
        if not page:
            break
        rows = _ENTRIES.where(audit_entries.c.id > checked)
    if not is_there:
        problem = "no entry has the hash of --head: the last entries were removed or replaced"
        return Verification(checked, before, None, problem)
    return Verification(checked, before)


def _problem(vault: Vault, entry: Entry, number: int, before: str) -> str | None:
    """Say why an entry does not match; the entries before it do, and the next has this number."""
    if entry.id != number:
        return f"it has the place of entry {number}: entries were removed or inserted before it"
    if entry.previous_hash != before:
        return "it does not follow the entry before it"
    columns = asdict(entry)
    del columns["hash"]
    return None if entry.hash == _hash(vault, columns) else "it was changed"


def _hash(vault: Vault, columns: Mapping[str, Any]) -> str:
    """Return the hash of an entry's other columns; a value of a wrong type, which SQLite can store, matches nothing."""
    ordered: Sequence[Any] = [columns[name] for name in _HASHED]
    return vault.fingerprint(json.dumps(ordered, default=repr), _DOMAIN).hex()


_HASHED = [column.name for column in audit_entries.c if column.name != "hash"]
_LAST = select(audit_entries.c.id, audit_entries.c.hash).order_by(audit_entries.c.id.desc()).limit(1)
_ENTRIES = select(audit_entries).order_by(audit_entries.c.id)
