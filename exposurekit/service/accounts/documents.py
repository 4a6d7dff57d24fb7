"""Documents: the response to Get user, stored encrypted for each user, so that a request reads one row.

The end of a transaction that locked a user writes their document (`consent.lock_user`). A document counts only while it
has its user's version, so it is never older than the rows, and the format of this release: any other is rebuilt from
the rows, and written by a worker when it starts.
It is everything but the user's flags, which change with each scan and are in the user's row.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import sqlalchemy as sql
from sqlalchemy import and_, bindparam
from sqlalchemy.exc import DBAPIError

from exposurekit.contract import codec
from exposurekit.service.accounts import user_items
from exposurekit.service.accounts.user_items import KINDS
from exposurekit.service.models import REMOVAL_FIELDS, record_resource
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import DAMAGED, Session
from exposurekit.service.storage.encrypted_columns import DOCUMENT, PERSON, SECRET
from exposurekit.service.storage.encryption import DecryptionError

FORMAT = 1  # of documents; another one whenever `_without_flags` returns something else for the same rows
INSTANT_FORMAT = "%Y/%m/%d %H:%M:%S +0000"
NAMES = ("first_name", "middle_name", "last_name")

_users, _user_items, _records = tables.users.c, tables.user_items.c, tables.records.c
_links, _history, _documents = tables.links.c, tables.service_history.c, tables.user_documents.c

_log = logging.getLogger("exposurekit.service")


@dataclass(slots=True)  # not frozen: that would cost each request 1 us
class Account:
    """A user's row, encrypted except for the secret."""

    id: int
    secret: str = field(repr=False)
    ciphertext: bytes = field(repr=False)
    is_scanning: bool
    identification_on_file: bool
    version: int = -1  # counts changes of what the API shows; -1: not read


async def get_user(session: Session, account: Account) -> bytes:
    """Return the response to Get user as JSON: from the document, or built from the rows."""
    user = None
    # Not read with the credentials: that would take longer for a user who exists.
    for version, document_format, ciphertext in await session.rows(_DOCUMENT, {"user_id": account.id}):
        if (version, document_format) == (account.version, FORMAT):
            user = session.readable_json(DOCUMENT, account.id, ciphertext)
    if user is None:
        user = codec.encode(await _without_flags(session, account, with_removal_fields=True), "json")
    return b'{"user":%b,"is_scanning":%b,"identification_on_file":%b}}' % (
        user[:-1],
        _JSON[account.is_scanning],
        _JSON[account.identification_on_file],
    )


async def show(session: Session, account: Account, *, with_removal_fields: bool = False) -> dict[str, Any]:
    """Return a user as the specification describes one, with all findings."""
    user = await _without_flags(session, account, with_removal_fields=with_removal_fields)
    return user | _flags(account)


async def show_changed(session: Session, account: Account) -> dict[str, Any]:
    """Return a user as `show` does at the end of a transaction that changed them, and write their document now.

    Both need every row of the user, which takes most of the time of a change.
    """
    user = await write(session, account.id)
    if user is None:
        return await show(session, account)
    session.is_done((write, account.id))
    records = [
        {name: value for name, value in record.items() if name != REMOVAL_FIELDS}
        for record in user["records"]
    ]
    return user | {"records": records} | _flags(account)


async def write(session: Session, user_id: int) -> dict[str, Any] | None:
    """Write a user's document and return it; the user must be locked.

    None: they were erased, or it cannot be built.
    """
    rows = await session.rows(_ROW, {"user_id": user_id})
    if not rows:
        return None
    version, secret, ciphertext = rows[0]
    try:
        account = Account(user_id, session.decrypt(SECRET, user_id, secret), ciphertext, False, False)
        user = await _without_flags(session, account, with_removal_fields=True)
    except DecryptionError:
        return None  # `service check` names the row
    except Exception as fault:  # the change counts; Get user builds its response from the rows
        if isinstance(fault, DBAPIError) and fault.connection_invalidated:
            raise  # the change is lost, too
        _log.error("document=unwritten user=%d fault=%s", user_id, type(fault).__name__)
        return None
    document = {
        "user_id": user_id,
        "new_version": version,
        "new_ciphertext": session.encrypt(DOCUMENT, user_id, user),
    }
    if not await session.run(_UPDATE, document):
        await session.run(_INSERT, document)
    return user


async def missing(session: Session, *, after: int, limit: int) -> Sequence[int]:
    """Return ids above `after` of users who have no document that is up to date."""
    return [row.id for row in await session.all(_MISSING, {"after": after, "limit": limit})]


_JSON = {False: b"false", True: b"true"}


def _flags(account: Account) -> dict[str, bool]:
    return {
        "is_scanning": account.is_scanning,
        "identification_on_file": account.identification_on_file,
    }


async def _without_flags(session: Session, account: Account, *, with_removal_fields: bool) -> dict[str, Any]:
    lists: dict[str, list[dict[str, Any]]] = {
        part: [] for part in (*KINDS, "records", "links", "service_history")
    }
    rows = sorted(await session.rows(_PROFILE_ROWS, {"user_id": account.id}), key=itemgetter(1))
    person = session.decrypt(PERSON, account.id, account.ciphertext)
    plaintexts = iter(
        session.decrypt_readable([(row[0], account.id, row[-1]) for row in rows if row[-1] is not None])
    )
    for part, row_id, state, site, at, ciphertext in rows:
        stored: Any = None if ciphertext is None else next(plaintexts)
        if stored is DAMAGED:
            continue
        resource: dict[str, Any]
        if part == "records":
            resource = record_resource(row_id, site, state, stored, with_removal_fields=with_removal_fields)
        elif part == "service_history":
            resource = {state: at.strftime(INSTANT_FORMAT)}
        else:
            resource = stored if part == "links" else user_items.item_resource(part, row_id, stored)
        lists[part].append(resource)
    return {
        "id": account.id,
        "secret": account.secret,
        "birth_date": person["birth_date"],
        **{name: person[name] for name in NAMES},
        **lists,
    }


_is_document = and_(  # up to date
    _documents.id == _users.id,
    _documents.version == _users.version,
    _documents.format == sql.literal_column(str(FORMAT)),
)
_DOCUMENT: sql.Select[Any] = sql.select(_documents.version, _documents.format, _documents.ciphertext).where(
    _documents.id == bindparam("user_id")
)
_ROW = sql.select(_users.version, _users.secret_ciphertext, _users.ciphertext).where(
    _users.id == bindparam("user_id")
)
_NEW: dict[str, Any] = {
    "version": bindparam("new_version"),
    "format": FORMAT,
    "ciphertext": bindparam("new_ciphertext"),
}
_UPDATE = sql.update(tables.user_documents).where(_documents.id == bindparam("user_id")).values(_NEW)
_INSERT = sql.insert(tables.user_documents).values(id=bindparam("user_id"), **_NEW)
_MISSING = (
    sql.select(_users.id)
    .select_from(tables.users.outerjoin(tables.user_documents, _is_document))
    .where(_documents.id.is_(None), _users.id > bindparam("after"))
    .order_by(_users.id)
    .limit(bindparam("limit"))
)

_NO_TEXT = sql.cast(sql.null(), sql.String)
_NO_INSTANT = sql.cast(sql.null(), tables.Instant)
_NO_BYTES = sql.cast(sql.null(), sql.LargeBinary)


def _part(name: str, *columns: sql.ColumnElement[Any]) -> sql.Select[Any]:
    owner = columns[0].table.c.user_id
    return sql.select(sql.literal_column(f"'{name}'").label("part"), *columns).where(
        owner == bindparam("user_id")
    )


# One statement for the four tables: a round trip costs more than the rows.
_PROFILE_ROWS = sql.union_all(
    sql.select(
        _user_items.kind, _user_items.id, _NO_TEXT, _NO_TEXT, _NO_INSTANT, _user_items.ciphertext
    ).where(_user_items.user_id == bindparam("user_id")),
    _part("records", _records.id, _records.status, _records.site, _NO_INSTANT, _records.ciphertext),
    _part("links", _links.id, _NO_TEXT, _NO_TEXT, _NO_INSTANT, _links.ciphertext),
    _part("service_history", _history.id, _history.event, _NO_TEXT, _history.at, _NO_BYTES),
)
