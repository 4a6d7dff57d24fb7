"""Export of what is stored about one person: every row of theirs, decrypted, by table.

What reveals nothing about the person is left out: digests, leases, secrets, copies of other rows, and the content of
rejected candidates, which are about somebody else.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import Column, ColumnElement, LargeBinary, Row, Table, bindparam, select

from exposurekit.contract import codec
from exposurekit.service.accounts.consent import NoSuchUser
from exposurekit.service.accounts.subject import EPOCH
from exposurekit.service.findings.candidates import REJECTED
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.encrypted_columns import REQUEST, encrypted_columns

_COPIES = {"user_documents"}  # what Get user returns
_SECRETS = {"users.secret_ciphertext", "mail_requests.ciphertext"}  # of the API, and of addresses for mail
_TECHNICAL = {"user_id", "lease", "lease_until", "version", "integrator_id"}
_INTEGRATOR = (
    select(tables.integrators.c.name)
    .join(tables.users, tables.users.c.integrator_id == tables.integrators.c.id)
    .where(tables.users.c.id == bindparam("user_id"))
)


@dataclass(frozen=True, slots=True)
class PersonExport:
    """What is stored about a person, by table; how many rows that is, and how many values cannot be read."""

    content: Mapping[str, Any] = field(repr=False)
    rows: int
    damaged: int


async def export(session: Session, user_id: int) -> PersonExport:
    """Return what is stored about a person, in the snapshot of a read session; raises `NoSuchUser` if no user has the id."""
    integrator = await session.first(_INTEGRATOR, {"user_id": user_id})
    if integrator is None:
        raise NoSuchUser(user_id)
    exported = {
        table.name: await _rows(session, table, owned, user_id) for table, owned in _tables_of_person(user_id)
    }
    [person] = exported["users"]
    if person.get("content"):
        person["content"] = _with_day_of_birth(person["content"])
    for delivery in exported["deliveries"]:
        if delivery.get("content"):  # the body as text
            delivery["content"] = codec.decode(delivery["content"].encode(), "json")
    tokens = await _tokens(session, user_id)
    for message in exported["mail_messages"]:
        if message.get("content"):
            message["content"] = _without(tokens, message["content"])
    rows = [row for rows in exported.values() for row in rows]
    about = {
        "user_id": user_id,
        "integrator": integrator.name,
        "exported_at": session.clock.now(),
    }
    return PersonExport(about | exported, len(rows), sum(row.get("damaged", False) for row in rows))


def _tables_of_person(user_id: int) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Yield each table about people, apart from copies, and which of its rows are this person's."""
    for table in tables.metadata.sorted_tables:
        owned = tables.of_person(table, user_id)
        if owned is not None and table.name not in _COPIES:
            yield table, owned


async def _rows(
    session: Session, table: Table, owned: ColumnElement[bool], user_id: int
) -> list[dict[str, Any]]:
    """Return a person's rows of a table; ``content`` is what is encrypted, None if it is damaged."""
    rows = await session.all(select(table).where(owned).order_by(table.c.id))
    columns = [column for column in table.c if _is_plain(column)]
    exported = [{column.name: getattr(row, column.name) for column in columns} for row in rows]
    for encrypted, column, _, purpose in encrypted_columns():
        if encrypted is not table or f"{table.name}.{column.name}" in _SECRETS:
            continue
        filled = [
            n
            for n, row in enumerate(rows)
            if getattr(row, column.name) is not None and not _is_of_another(table, row)
        ]
        ciphertexts = [
            (
                purpose if isinstance(purpose, str) else getattr(rows[n], purpose.name),
                user_id,
                getattr(rows[n], column.name),
            )
            for n in filled
        ]
        for n, value in zip(filled, session.decrypt_readable(ciphertexts), strict=True):
            is_damaged = value is DAMAGED
            exported[n] |= {"content": None, "damaged": True} if is_damaged else {"content": value}
    return exported


async def _tokens(session: Session, user_id: int) -> list[str]:
    """Return the tokens in the addresses of a person's requests: whoever has one can write to the service as the site."""
    requests = tables.mail_requests
    rows = await session.all(select(requests.c.ciphertext).where(requests.c.user_id == user_id))
    values = session.decrypt_readable([(REQUEST, user_id, row.ciphertext) for row in rows])
    return [value["token"] for value in values if value is not DAMAGED]


def _without(tokens: Iterable[str], message: str) -> str:
    """Return a message without tokens, also those that quoted-printable breaks over lines."""
    for token in tokens:
        message = re.sub("(?:=\r?\n)?".join(token), "[address token]", message, flags=re.IGNORECASE)
    return message


def _is_of_another(table: Table, row: Row[Any]) -> bool:
    """Return whether an operator decided that a listing is about somebody else."""
    return table is tables.candidates and row.verdict == REJECTED


def _is_plain(column: Column[Any]) -> bool:
    return not isinstance(column.type, LargeBinary) and column.name not in _TECHNICAL


def _with_day_of_birth(person: Mapping[str, Any]) -> dict[str, Any]:
    seconds = person["birth_date"]
    day = None if seconds is None else (EPOCH + timedelta(seconds=seconds)).isoformat()
    return {**person, "birth_date": day}
