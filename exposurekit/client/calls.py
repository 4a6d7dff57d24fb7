"""The eight operations of the specification, as functions that build a `Call`.

`Client` and `AsyncClient` have the same functions as methods, which send the call.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Generic, TypeVar, cast

from pydantic import ValidationError

from exposurekit.client.payloads import Items, set_fields, user_payload
from exposurekit.contract import operations
from exposurekit.contract.models import (
    Alert,
    AlertsReply,
    Link,
    LinksReply,
    Record,
    RecordReply,
    RecordsReply,
    Reply,
    User,
    UserKey,
    UserPage,
    UserReply,
)
from exposurekit.contract.operations import Operation
from exposurekit.errors import InvalidArgument, InvalidResponse

R = TypeVar("R", bound=Reply)
T = TypeVar("T")

PAGE_SIZE = operations.LIST_LIMIT_DEFAULT
_PAGES_MAX = 1_000

Key = UserKey | User | tuple[int, int | str]


@dataclass(frozen=True, slots=True)
class Call(Generic[R, T]):
    """One operation with its arguments. Its repr shows only the operation."""

    operation: Operation
    pick: Callable[[R], T] = field(repr=False)
    values: Mapping[str, Any] = field(repr=False)
    secret: int | str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Call({self.operation.title!r})"

    @property
    def reply(self) -> type[R]:
        """The model of the response."""
        return cast("type[R]", self.operation.reply)

    @property
    def repeatable(self) -> bool:
        """Whether the service may receive the call twice without a different effect.

        Never for Create user. For Update user only if each list item has the id of the item it changes.
        """
        if self.operation.method == "GET":
            return True
        if self.operation is operations.CREATE_USER:
            return False
        items = [item for value in self.values.values() if isinstance(value, list) for item in value]
        return all(item.get("id") and not item.get("_destroy") for item in items)

    @property
    def waits_for_scan(self) -> bool:
        """Whether the service may scan before it responds."""
        return self.operation is operations.CREATE_USER and not self.values.get("async")


def create_user(
    *,
    first_name: str,
    last_name: str,
    addresses: Items,
    middle_name: str | None = None,
    birth_date: int | date | str | None = None,
    aliases: Items = (),
    emails: Items | Iterable[str] = (),
    phone_numbers: Items | Iterable[str] = (),
    asynchronous: bool = True,
) -> Call[UserReply, User]:
    """Register a person. Save the id and secret of the user returned (``user.key``): later calls need them.

    Args:
        first_name: First name.
        last_name: Last name.
        addresses: Postal addresses: dicts with ``address1``, ``address2``, ``city``, ``state``, ``zip``,
            ``country``; at least one with city and state.
        middle_name: Middle name.
        birth_date: Epoch seconds, a date, or a date as a string.
        aliases: Other names: dicts with ``first_name``, ``last_name``, ``alias_type`` (nickname or maiden).
        emails: Email addresses: strings, or dicts with ``address``.
        phone_numbers: Phone numbers: strings of digits, or dicts with ``number``.
        asynchronous: True: the scan runs in the background. False: the call returns after the scan.

    Raises:
        BadRequest: A field is missing or invalid.
        Unauthorized: The api_key or api_secret was not accepted.
        ConnectionFailed: There was no response. If the error's ``maybe_received`` is true, the person may have been
            registered; the call is then not retried, so that nobody is registered twice.

    Source: specification, "Create user".

    >>> user = client.create_user(
    ...     first_name="Juniper", last_name="Quillfeather", addresses=[{"city": "Oakmere", "state": "CA"}]
    ... )
    >>> user.is_scanning in {True, False}
    True
    """
    values = {
        "first_name": first_name,
        "last_name": last_name,
        "middle_name": middle_name,
        **user_payload(birth_date, aliases, emails, phone_numbers, addresses),
        "async": asynchronous,
    }
    return Call(operations.CREATE_USER, lambda reply: reply.user, set_fields(values))


def list_users(limit: int | None = None, offset: int | None = None) -> Call[UserPage, UserPage]:
    """Fetch one page of users' keys, with ``count``: the total number of users (None if the service omits it).

    Args:
        limit: Maximum number of users on the page; None: the service's default.
        offset: Number of users to skip.

    Source: specification, "List users".

    >>> client.list_users(limit=2)
    UserPage(count=..., users=2)
    """
    return Call(operations.LIST_USERS, lambda page: page, set_fields({"limit": limit, "offset": offset}))


def get_user(key: Key) -> Call[UserReply, User]:
    """Fetch one user, with records, links, and the fields that each record's removal requires.

    Args:
        key: A `UserKey` or `User`, as returned by `create_user` or `iter_users`, or a tuple (id, secret).

    Raises:
        Unauthorized: The id and the secret do not match.

    Source: specification, "Get user".

    >>> client.get_user(key).is_scanning
    False
    """
    key = user_key(key)
    return Call(operations.GET_USER, lambda reply: reply.user, {"id": key.id}, key.secret)


def update_user(
    key: Key,
    *,
    first_name: str | None = None,
    last_name: str | None = None,
    middle_name: str | None = None,
    birth_date: int | date | str | None = None,
    aliases: Items | str = (),
    emails: Items | Iterable[str] = (),
    phone_numbers: Items | Iterable[str] = (),
    addresses: Items | str = (),
) -> Call[UserReply, User]:
    """Change a user. Omitted fields and empty lists change nothing; ``""`` clears a field or a list.

    A list item without ``id`` is appended, one with ``id`` is updated, one with ``"_destroy": True`` is deleted.

    Args:
        key: The user's key.
        first_name: First name.
        last_name: Last name.
        middle_name: Middle name.
        birth_date: Epoch seconds, a date, or a date as a string; ``""`` clears it.
        aliases: As for `create_user`, with ``id`` and ``_destroy``.
        emails: As for `create_user`, with ``id`` and ``_destroy``.
        phone_numbers: As for `create_user`, with ``id`` and ``_destroy``.
        addresses: As for `create_user`, with ``id`` and ``_destroy``.

    Raises:
        BadRequest: A field is invalid, or an item's id is unknown; nothing was changed.

    Source: specification, "Update user".

    >>> client.update_user(key, middle_name="Wren").middle_name
    'Wren'
    """
    key = user_key(key)
    values = {
        "id": key.id,
        "first_name": first_name,
        "last_name": last_name,
        "middle_name": middle_name,
        **user_payload(birth_date, aliases, emails, phone_numbers, addresses),
    }
    return Call(operations.UPDATE_USER, lambda reply: reply.user, set_fields(values), key.secret)


def list_user_records(key: Key) -> Call[RecordsReply, list[Record]]:
    """List a user's records, without ``user_fields_required_for_removal``; only `get_user` returns that.

    Source: specification, "List user records".

    >>> len(client.list_user_records(key)) == len(client.get_user(key).records)
    True
    """
    key = user_key(key)
    return Call(operations.LIST_USER_RECORDS, lambda reply: reply.records, {"user_id": key.id}, key.secret)


def get_record(key: Key, record_id: int) -> Call[RecordReply, Record]:
    """Fetch one record of a user.

    Raises:
        BadRequest: The user has no record with this id.

    Source: specification, "Get record".

    >>> record = client.list_user_records(key)[0]
    >>> client.get_record(key, record.id).site == record.site
    True
    """
    key = user_key(key)
    values = {"user_id": key.id, "id": record_id}
    return Call(operations.GET_RECORD, lambda reply: reply.record, values, key.secret)


def list_user_links(key: Key) -> Call[LinksReply, list[Link]]:
    """List the web pages that show the user's data.

    Source: specification, "List user links".

    >>> len(client.list_user_links(key)) == len(client.get_user(key).links)
    True
    """
    key = user_key(key)
    return Call(operations.LIST_USER_LINKS, lambda reply: reply.links, {"user_id": key.id}, key.secret)


def get_user_alerts(key: Key) -> Call[AlertsReply, list[Alert]]:
    """List a user's alerts, each with the manual steps in ``opt_out_procedure`` (empty if there are none).

    Source: specification, "Get user alerts".

    >>> all(alert.source_type in {"record", "link"} for alert in client.get_user_alerts(key))
    True
    """
    key = user_key(key)
    return Call(operations.GET_USER_ALERTS, lambda reply: reply.alerts, {"user_id": key.id}, key.secret)


def user_key(key: Key) -> UserKey:
    """Return the key of a `UserKey`, a `User`, or a tuple (id, secret)."""
    if isinstance(key, UserKey):
        return key
    if isinstance(key, User):
        return key.key
    if isinstance(key, tuple) and len(key) == 2:  # noqa: PLR2004  an id and a secret
        with suppress(ValidationError):
            return UserKey(id=key[0], secret=key[1])
    raise InvalidArgument("key must be a UserKey, a User, or a tuple (id, secret)")


@dataclass(frozen=True, slots=True)
class Paging:
    """The position in List users: the next page to request, and whether it was the last.

    The specification does not say what the default and the maximum of limit are, nor whether count is the total.
    So a short first page may have been capped. The end is an empty page, a page shorter than the first, or a total
    (a count greater than the first page) that has been reached. A count may also be that of the page: a thousand times
    as many users are an error.
    """

    limit: int = PAGE_SIZE
    offset: int = 0
    first_page: int = 0
    count: int | None = None
    done: bool = False

    def after(self, page: UserPage, *, fresh: int) -> "Paging":
        """Return the position after a page with ``fresh`` users that no earlier page had."""
        size = page.size
        offset, first_page = self.offset + size, self.first_page or size
        has_total = page.count is not None and page.count > first_page
        stands_still = fresh == 0 and not (has_total and page.unreadable)
        done = stands_still or (offset >= (page.count or 0) if has_total else size < first_page)
        if not done and page.count is not None and offset > _PAGES_MAX * max(page.count, self.limit):
            raise InvalidResponse(
                f"List users: the pages do not end: {offset:,} users so far, and a count of {page.count:,}"
            )
        return Paging(self.limit, offset, first_page, page.count, done)


def new_keys(page: UserPage, returned_ids: set[int]) -> list[UserKey]:
    """Return the keys that no earlier page had, each once, and add their ids to ``returned_ids``."""
    fresh = {key.id: key for key in reversed(page.users) if key.id not in returned_ids}
    returned_ids.update(fresh)
    return [*reversed(fresh.values())]
