"""The eight operations as a table, which client calls, service routes and the OpenAPI document use."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from exposurekit import __version__
from exposurekit.contract.inputs import (
    AddressesInput,
    AliasesInput,
    BirthDateInput,
    EmailsInput,
    FlagInput,
    PhoneNumbersInput,
    TextInput,
    integer,
)
from exposurekit.contract.models import (
    AlertsReply,
    LinksReply,
    RecordReply,
    RecordsReply,
    Reply,
    UserPage,
    UserReply,
)
from exposurekit.contract.types import INT64_MAX

VERSION = "v2"
USER_AGENT = f"exposurekit/{__version__}"  # of every request that the client or the service sends
PREFIX = "/api/{integration_name}/{api_key}/" + VERSION
FORMATS = ("json", "xml")
LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX = 100, 1000  # not shown: ours
# not shown: where credentials travel; headers are ours, for those who keep secrets out of URLs
CREDENTIAL_HEADERS = {"api_secret": "X-Api-Secret", "secret": "X-User-Secret"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operation."""

    name: str
    type: Any
    about: str
    required: bool = False


@dataclass(frozen=True)
class Operation:
    """One operation: its title, path, parameters and response."""

    title: str
    method: str
    path: str
    parameters: tuple[Parameter, ...]
    reply: type[Reply]
    about: str

    @cached_property
    def name(self) -> str:
        """Its title as an identifier, such as ``create_user``."""
        return self.title.lower().replace(" ", "_")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of its parameters, in the specification's order."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        """The parameters in its path, after the prefix."""
        return tuple(name for name in self.names if f"{{{name}}}" in self.path)

    @property
    def takes_body(self) -> bool:
        """Whether its parameters travel in a body by default (POST and PUT)."""
        return self.method in {"POST", "PUT"}


ID = integer(0, INT64_MAX)
API_KEY = Parameter("api_key", str, "The integrator's API access key; also a path segment.", required=True)
API_SECRET = Parameter("api_secret", str, "The integrator's secret.", required=True)
SECRET = Parameter("secret", int | str, "The user's secret, exactly as creation returned it.", required=True)
USER_ID = Parameter("user_id", ID, "The user's id from creation.", required=True)

NAMES = (
    Parameter("first_name", TextInput, "First name."),
    Parameter("last_name", TextInput, "Last name."),
    Parameter("middle_name", TextInput, "Middle name."),
)
DETAILS = (
    Parameter(
        "birth_date",
        BirthDateInput,
        "Birth date, unix epoch seconds in UTC; negative before 1970, not in the future.",
    ),
    Parameter("aliases", AliasesInput, "Other names."),
    Parameter("emails", EmailsInput, "Email addresses."),
    Parameter("phone_numbers", PhoneNumbersInput, "Phone numbers."),
    Parameter("addresses", AddressesInput, "Postal addresses."),
)
# not shown: required flags of Create user; the published pages ask for both names and one address
REQUIRED_NAMES = (*(replace(name, required=True) for name in NAMES[:2]), NAMES[2])
REQUIRED_ADDRESSES = Parameter(
    "addresses", AddressesInput, "Postal addresses; at least one with city and state.", required=True
)
_OF_USER = (API_KEY, API_SECRET, USER_ID, SECRET)
_BY_ID = (API_KEY, API_SECRET, replace(USER_ID, name="id"), SECRET)

CREATE_USER = Operation(
    "Create user",
    "POST",
    "/users",
    (
        *(API_KEY, API_SECRET, *REQUIRED_NAMES, *DETAILS[:-1], REQUIRED_ADDRESSES),
        # not shown: default of async; ours is false, and our client always sends it
        Parameter(
            "async", FlagInput, "True: scan in the background. False (default): scan before answering."
        ),
    ),
    UserReply,
    "Register a person. Store the id and the secret: they authenticate later calls.",
)
LIST_USERS = Operation(
    "List users",
    "GET",
    "/users",
    (
        API_KEY,
        API_SECRET,
        Parameter(
            "limit",
            integer(1, LIST_LIMIT_MAX),
            f"Users returned at most; 1 to {LIST_LIMIT_MAX}, default {LIST_LIMIT_DEFAULT}.",
        ),
        Parameter("offset", ID, "Users skipped, in order of id; default 0."),
    ),
    UserPage,
    "The integrator's users, in order of id.",
)
GET_USER = Operation(
    "Get user",
    "GET",
    "/users/{id}",
    _BY_ID,
    UserReply,
    "One user, with records, links and what each record's removal needs.",
)
UPDATE_USER = Operation(
    "Update user",
    "PUT",
    "/users/{id}",
    (*_BY_ID, *NAMES, *DETAILS),
    UserReply,
    "Change a user. Missing parameters change nothing; a blank string clears the field.",
)
LIST_USER_RECORDS = Operation(
    "List user records",
    "GET",
    "/users/{user_id}/records",
    _OF_USER,
    RecordsReply,
    "A user's records.",
)
GET_RECORD = Operation(
    "Get record",
    "GET",
    "/users/{user_id}/records/{id}",
    (*_OF_USER, Parameter("id", ID, "The record's id.", required=True)),
    RecordReply,
    "One record of a user.",
)
LIST_USER_LINKS = Operation(
    "List user links",
    "GET",
    "/users/{user_id}/links",
    _OF_USER,
    LinksReply,
    "A user's links.",
)
GET_USER_ALERTS = Operation(
    "Get user alerts",
    "GET",
    "/users/{user_id}/alerts",
    _OF_USER,
    AlertsReply,
    "A user's alerts; an empty list where there is nothing to alert on.",
)

OPERATIONS = (
    CREATE_USER,
    LIST_USERS,
    GET_USER,
    UPDATE_USER,
    LIST_USER_RECORDS,
    GET_RECORD,
    LIST_USER_LINKS,
    GET_USER_ALERTS,
)
