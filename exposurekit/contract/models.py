"""Models of the specification's resources: User, Record, Link, Alert, ...

Validation follows the specification; `contract.lenient` also reads responses that deviate from it. A field whose type
includes None is null if such a response has no value. Unknown fields remain in ``model_extra``; unknown statuses,
source types and kinds of data remain text.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Annotated, Any, ClassVar

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    PrivateAttr,
    ValidationError,
)
from pydantic_core import CoreSchema, core_schema

from exposurekit.contract.types import (
    DESCRIBED,
    Age,
    BirthDate,
    Flag,
    Id,
    Instant,
    Number,
    Secret,
    Steps,
    Text,
    Texts,
)
from exposurekit.errors import InvalidResponse
from exposurekit.text.html_cards import NAME_MAX, HtmlCard, Summary, Table, truncate

_KINDS_MAX = 12
BARE, WRAPPED = "bare-record", "wrapped-record"  # in error locations; no field has these names


class Resource(HtmlCard, BaseModel):
    """The base class of all resources: frozen, with unknown fields, and a repr and a card without personal data.

    A notebook is saved and shared with its output: personal data is only in `model_dump`.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        coerce_numbers_to_str=True,  # reference_id, zip and number are text even where a server sends digits
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,  # bulk loads read rows and need few of these models
    )
    repr_fields: ClassVar[tuple[str, ...]] = ("id",)

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        """Yield ids, states and counts, and no personal data."""
        for name in self.repr_fields:
            value = getattr(self, name)
            if isinstance(value, str):
                yield name, truncate(value, NAME_MAX)
            else:
                yield name, len(value) if isinstance(value, list) else value

    def _summary(self) -> Summary:
        return Summary(self._facts())

    def _facts(self) -> Mapping[str, object]:
        return {_words(name): value for name, value in self.__repr_args__()}


def _words(name: str) -> str:
    return name.replace("_", " ")


class UserKey(Resource):
    """A user's id and secret, which every operation on one user needs. An item of List users.

    >>> UserKey(id=12, secret="000123")
    UserKey(id=12)
    """

    id: Id
    secret: Secret


class Alias(Resource):
    """Another name of a user."""

    id: Number
    first_name: Text
    last_name: Text
    alias_type: str | None = None  # not shown: whether responses carry it; read where they do


class Email(Resource):
    """An email address of a user."""

    id: Number
    address: Text


class PhoneNumber(Resource):
    """A phone number of a user, digits as text."""

    id: Number
    number: Text


class Address(Resource):
    """A postal address of a user."""

    id: Number
    address1: Text
    address2: str | None = None
    city: Text
    state: Text
    zip: Text
    country: str | None = None  # not shown: whether responses carry it; read where they do


class Record(Resource):
    """A listing about a user on a people-search site, which can be submitted for removal.

    >>> client.get_user(key).records[0]
    Record(id=..., site='...', status='...')
    """

    repr_fields: ClassVar[tuple[str, ...]] = ("id", "site", "status")

    id: Id
    name: Text
    site: Text
    status: Text
    age: Age | None = None
    href: str | None = None
    relations: Texts
    aliases: Texts
    locations: Texts
    reference_id: Text
    user_fields_required_for_removal: list[str] | None = None  # None: unknown (only Get user has it)

    def _facts(self) -> Mapping[str, object]:
        required = self.user_fields_required_for_removal
        fields = required if required is None else ", ".join(required[:_KINDS_MAX]) or "nothing"
        counts = {name: len(getattr(self, name) or ()) for name in ("relations", "aliases", "locations")}
        return {**super()._facts(), **counts, "removal requires": fields}


def _or_wrapped(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
    bare = handler(source)
    around = core_schema.typed_dict_schema({"record": core_schema.typed_dict_field(bare)})
    wrapped = core_schema.no_info_after_validator_function(itemgetter("record"), around)
    return core_schema.union_schema([(bare, BARE), (wrapped, WRAPPED)], mode="left_to_right")


# Bare inside a user, wrapped as {"record": ...} in lists and single responses; both are read everywhere.
AnyRecord = Annotated[Record, GetPydanticSchema(_or_wrapped)]


class Link(Resource):
    """A web page where user data was found.

    >>> Link(url="https://page.example", title="A page", contains=["email"]).contains
    ['email']
    """

    repr_fields: ClassVar[tuple[str, ...]] = ("contains",)

    url: str | None = None
    title: Text
    contains: list[str] | None = None  # None: unknown (webhook items omit it)

    def _facts(self) -> Mapping[str, object]:
        return {"contains": None if self.contains is None else ", ".join(self.contains[:_KINDS_MAX])}


class AlertRecord(Record):
    """The record that an alert is about; it may lack an id, because the alert is usable without it."""

    id: Number  # type: ignore[assignment]  # wider than a record's own


AnyAlertRecord = Annotated[AlertRecord, GetPydanticSchema(_or_wrapped)]


class AlertSource(Resource):
    """The source of an alert: a record or a link."""

    repr_fields: ClassVar[tuple[str, ...]] = ()

    record: AnyAlertRecord | None = None
    link: Link | None = None


class Alert(Resource):
    """An event for a user: an opt-out submitted, a removal verified, exposure found on a link, ...

    >>> client.get_user_alerts(key)[0].source_type
    'record'
    """

    repr_fields: ClassVar[tuple[str, ...]] = ("source_type", "opt_out_procedure")

    text: Text
    html: Text
    url: str | None = None
    guide: str | None = None
    opt_out_procedure: Steps = Field(default=None, validate_default=True)
    source_type: Text
    source: Annotated[AlertSource, DESCRIBED]

    def _facts(self) -> Mapping[str, object]:
        about: dict[str, object] = {"about": self.source_type}
        if (record := self.source.record) is not None:
            about |= {"record": record.id, "site": record.site, "status": record.status}
        return {**about, "guide": self.guide}

    def _summary(self) -> Summary:
        steps = self.opt_out_procedure or ()
        note = "" if steps else "No steps: the service lists none to be done by hand."
        return Summary(self._facts(), steps, note)


class ServiceHistoryEntry(Resource):
    """When the service was activated or deactivated for a user; one of the two fields is set."""

    repr_fields: ClassVar[tuple[str, ...]] = ("activated_service_on", "deactivated_service_on")

    activated_service_on: Instant | None = None
    deactivated_service_on: Instant | None = None


class User(Resource):
    """A registered person, with all findings. Source: specification, "User".

    >>> client.get_user(key)
    User(id=..., records=..., links=..., is_scanning=False)
    """

    repr_fields: ClassVar[tuple[str, ...]] = ("id", "records", "links", "is_scanning")

    id: Id
    secret: Annotated[Secret | None, DESCRIBED]
    birth_date: BirthDate = None
    first_name: Text
    middle_name: Text
    last_name: Text
    aliases: Annotated[list[Alias], DESCRIBED]
    emails: Annotated[list[Email], DESCRIBED]
    phone_numbers: Annotated[list[PhoneNumber], DESCRIBED]
    addresses: Annotated[list[Address], DESCRIBED]
    records: Annotated[list[AnyRecord], DESCRIBED]
    links: Annotated[list[Link], DESCRIBED]
    service_history: Annotated[list[ServiceHistoryEntry], DESCRIBED]
    is_scanning: Flag
    identification_on_file: Flag = Field(
        validation_alias=AliasChoices("identification_on_file", "identification_onfile")
    )

    @property
    def key(self) -> UserKey:
        """The id and secret, which later calls about this user need.

        Raises:
            InvalidResponse: The response had no secret.
        """
        if self.secret is None:
            raise InvalidResponse(
                "The response did not have this user's secret: take the key from iter_users()"
            )
        return UserKey(id=self.id, secret=self.secret)

    def _facts(self) -> Mapping[str, object]:
        on_file = ("aliases", "emails", "phone_numbers", "addresses")
        counts = {_words(name): len(getattr(self, name)) for name in on_file}
        flags = {"identification on file": self.identification_on_file, "is scanning": self.is_scanning}
        return {"id": self.id, **counts, **flags, "records": len(self.records), "links": len(self.links)}

    def _summary(self) -> Summary:
        statuses = Counter(record.status for record in self.records).most_common(_KINDS_MAX)
        kinds = Counter(kind for link in self.links for kind in link.contains or ()).most_common(_KINDS_MAX)
        tables = (
            Table("records by status", ("status", "records"), statuses),
            Table("links by what they hold", ("kind", "links"), kinds),
        )
        return Summary(self._facts(), tables=tables)


class Reply(Resource):
    """The outermost object of a response."""

    repr_fields: ClassVar[tuple[str, ...]] = ()


class UserReply(Reply):
    """``{user: <User>}``."""

    user: User


class UserPage(Reply):
    """One page of List users: keys, and the total number of users (None: not reported)."""

    repr_fields: ClassVar[tuple[str, ...]] = ("count", "users")

    # not shown: count or total; both are read
    count: Id | None = Field(default=None, validation_alias=AliasChoices("count", "total"))
    users: list[UserKey]
    _unreadable: int = PrivateAttr(default=0)
    _without_secret: list[int] = PrivateAttr(default_factory=list)

    @property
    def unreadable(self) -> int:
        """Number of further users on the page whose id or secret could not be read."""
        return self._unreadable

    @property
    def without_secret(self) -> list[int]:
        """Ids of those of them who have an id."""
        return self._without_secret

    @property
    def size(self) -> int:
        """Number of users on the page, readable or not."""
        return len(self.users) + self._unreadable

    def without(self, items: list[Any]) -> "UserPage":
        """Return the page with items that could not be read."""
        page = self.model_copy()
        page._unreadable, page._without_secret = len(items), []  # noqa: SLF001  of the same class
        for item in items:
            with suppress(ValidationError, AttributeError):
                user = item.get("user", item)
                page._without_secret.append(UserKey(id=user.get("id"), secret=0).id)  # noqa: SLF001
        return page


class RecordsReply(Reply):
    """``{records: [{record: <Record>}, ...]}``."""

    records: Annotated[list[AnyRecord], DESCRIBED]


class RecordReply(Reply):
    """``{record: <Record>}``."""

    record: AnyRecord


class LinksReply(Reply):
    """``{links: [<Link>, ...]}``."""

    links: Annotated[list[Link], DESCRIBED]


class AlertsReply(Reply):
    """``{alerts: [<Alert>, ...]}``."""

    alerts: Annotated[list[Alert], DESCRIBED]
