"""An operation asked once, as a value: request out, reply in. Decides everything, sends nothing.

Each function below is one operation of the specification; `Client` and `AsyncClient` have them as methods.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from exposurekit.client.payloads import Items, given_fields, user_payload
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
from exposurekit.errors import InvalidArgument

R = TypeVar("R", bound=Reply)
T = TypeVar("T")

PAGE_SIZE = operations.LIST_LIMIT_DEFAULT

Key = UserKey | User | tuple[int, int | str]


@dataclass(frozen=True, slots=True)
class Call(Generic[R, T]):
    """One operation with its values. Its repr names the operation alone."""

    operation: Operation
    reply: type[R] = field(repr=False)
    pick: Callable[[R], T] = field(repr=False)
    values: Mapping[str, Any] = field(repr=False)
    secret: int | str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Call({self.operation.title!r})"

    @property
    def repeatable(self) -> bool:
        """Whether reaching the service twice does no more than reaching it once.

        Never for Create user. For Update user only where each list item names the item that it changes.
        """
        if self.operation.method == "GET":
            return True
        if self.operation is operations.CREATE_USER:
            return False
        items = [item for value in self.values.values() if isinstance(value, list) for item in value]
        return all(item.get("id") and not item.get("_destroy") for item in items)

    @property
    def waits_for_scan(self) -> bool:
        """Whether the service may scan before it answers."""
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
    """Register a person. Keep the id and secret of the answer (``user.key``): later calls need them.

    Args:
        first_name: First name.
        last_name: Last name.
        addresses: Postal addresses, each a dict of ``address1``, ``address2``, ``city``, ``state``, ``zip``,
            ``country``; at least one with city and state.
        middle_name: Middle name.
        birth_date: Epoch seconds, a date, or a date as text.
        aliases: Other names: dicts of ``first_name``, ``last_name``, ``alias_type`` (nickname or maiden).
        emails: E-mail addresses: texts, or dicts of ``address``.
        phone_numbers: Phone numbers: texts of digits, or dicts of ``number``.
        asynchronous: True: the scan runs in the background. False: it ends before the answer comes.

    Raises:
        BadRequest: A field is missing or invalid.
        Unauthorized: The api_key or api_secret was not accepted.
        ConnectionFailed: No answer came. The person may have been registered all the same where the error's
            ``maybe_received`` is true; the call is not repeated then, so that nobody is registered twice.

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
    return Call(operations.CREATE_USER, UserReply, _user, given_fields(values))


def list_users(limit: int | None = None, offset: int | None = None) -> Call[UserPage, UserPage]:
    """One page of the users' keys, with ``count``: how many there are in all (None where the service is silent).

    Args:
        limit: Users on the page at most; None leaves it to the service.
        offset: Users skipped.

    Source: specification, "List users".

    >>> client.list_users(limit=2)
    UserPage(count=..., users=2)
    """
    return Call(operations.LIST_USERS, UserPage, _itself, given_fields({"limit": limit, "offset": offset}))


def get_user(key: Key) -> Call[UserReply, User]:
    """One user, with records, links, and the fields that each record's removal needs.

    Args:
        key: What `create_user` or `iter_users` gave: a `UserKey`, a `User`, or (id, secret).

    Raises:
        Unauthorized: The id and the secret do not belong together.

    Source: specification, "Get user".

    >>> client.get_user(key).is_scanning
    False
    """
    key = user_key(key)
    return Call(operations.GET_USER, UserReply, _user, {"id": key.id}, key.secret)


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
    """Change a user. What is left out stays, and an empty list changes nothing; ``""`` clears a field or a list.

    List items without ``id`` are appended, with ``id`` updated, with ``"_destroy": True`` deleted.

    Args:
        key: The user's key.
        first_name: First name.
        last_name: Last name.
        middle_name: Middle name.
        birth_date: Epoch seconds, a date, or a date as text; ``""`` clears it.
        aliases: As for `create_user`, with ``id`` and ``_destroy``.
        emails: As for `create_user`, with ``id`` and ``_destroy``.
        phone_numbers: As for `create_user`, with ``id`` and ``_destroy``.
        addresses: As for `create_user`, with ``id`` and ``_destroy``.

    Raises:
        BadRequest: A field is invalid or an item's id unknown; then nothing was changed.

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
    return Call(operations.UPDATE_USER, UserReply, _user, given_fields(values), key.secret)


def list_user_records(key: Key) -> Call[RecordsReply, list[Record]]:
    """A user's records; ``user_fields_required_for_removal`` comes with `get_user` alone.

    Source: specification, "List user records".

    >>> len(client.list_user_records(key)) == len(client.get_user(key).records)
    True
    """
    key = user_key(key)
    return Call(operations.LIST_USER_RECORDS, RecordsReply, _records, {"user_id": key.id}, key.secret)


def get_record(key: Key, record_id: int) -> Call[RecordReply, Record]:
    """One record of a user.

    Raises:
        BadRequest: The user has no record of this id.

    Source: specification, "Get record".

    >>> record = client.list_user_records(key)[0]
    >>> client.get_record(key, record.id).site == record.site
    True
    """
    key = user_key(key)
    values = {"user_id": key.id, "id": record_id}
    return Call(operations.GET_RECORD, RecordReply, _record, values, key.secret)


def list_user_links(key: Key) -> Call[LinksReply, list[Link]]:
    """The web pages where the user's data was found.

    Source: specification, "List user links".

    >>> len(client.list_user_links(key)) == len(client.get_user(key).links)
    True
    """
    key = user_key(key)
    return Call(operations.LIST_USER_LINKS, LinksReply, _links, {"user_id": key.id}, key.secret)


def get_user_alerts(key: Key) -> Call[AlertsReply, list[Alert]]:
    """A user's alerts, with the steps for a human in ``opt_out_procedure``; empty where there are none.

    Source: specification, "Get user alerts".

    >>> all(alert.source_type in {"record", "link"} for alert in client.get_user_alerts(key))
    True
    """
    key = user_key(key)
    return Call(operations.GET_USER_ALERTS, AlertsReply, _alerts, {"user_id": key.id}, key.secret)


def user_key(key: Key) -> UserKey:
    """A user's key from whatever holds one."""
    if isinstance(key, UserKey):
        return key
    if isinstance(key, User):
        return key.key
    if isinstance(key, tuple) and len(key) == 2:  # noqa: PLR2004  an id and a secret
        with suppress(ValidationError):
            return UserKey(id=key[0], secret=key[1])
    raise InvalidArgument("a user's key is a UserKey, a User, or a pair of id and secret")


@dataclass(frozen=True, slots=True)
class Paging:
    """Where a walk through List users stands: what to ask next, and when to stop.

    not shown: the default and the maximum of limit, whether a count comes, and of what. So a first page that is
    short may be capped, and a count of its size the page's own: the end is an empty page, one shorter than the
    first, or a count that is more than a page's.
    """

    limit: int = PAGE_SIZE
    offset: int = 0
    first_page: int = 0
    count: int | None = None
    done: bool = False

    def after(self, page: UserPage, *, fresh: int) -> "Paging":
        """The next place, after a page of which ``fresh`` users had not been seen before."""
        size = page.size
        offset, first_page = self.offset + size, self.first_page or size
        counted = page.count is not None and page.count > first_page
        done = fresh == 0 or (offset >= (page.count or 0) if counted else size < first_page)
        return Paging(self.limit, offset, first_page, page.count, done)


def unlisted(page: UserPage, listed: set[int]) -> list[UserKey]:
    """The keys of a page that no page before it had, each once; ``listed`` grows by them."""
    fresh = [key for key in {key.id: key for key in reversed(page.users)}.values() if key.id not in listed]
    listed.update(key.id for key in fresh)
    return fresh[::-1]


def _itself(reply: UserPage) -> UserPage:
    return reply


def _user(reply: UserReply) -> User:
    return reply.user


def _records(reply: RecordsReply) -> list[Record]:
    return reply.records


def _record(reply: RecordReply) -> Record:
    return reply.record


def _links(reply: LinksReply) -> list[Link]:
    return reply.links


def _alerts(reply: AlertsReply) -> list[Alert]:
    return reply.alerts
