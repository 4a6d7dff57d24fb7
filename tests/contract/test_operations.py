"""The eight operations: paths, parameters and replies are the specification's, written out once more by hand."""

import pytest
from pydantic import TypeAdapter

from exposurekit.contract.models import (
    AlertsReply,
    LinksReply,
    RecordReply,
    RecordsReply,
    UserPage,
    UserReply,
)
from exposurekit.contract.operations import (
    CREDENTIAL_HEADERS,
    FORMATS,
    LIST_LIMIT_DEFAULT,
    LIST_LIMIT_MAX,
    OPERATIONS,
    PREFIX,
    VERSION,
)

OF_USER = "api_key! api_secret! user_id! secret!"
DETAILS = "birth_date aliases emails phone_numbers addresses"
# Title, method, path, parameters (! required), reply. The specification leaves open which are required on Create user.
SPECIFIED = [
    (
        "Create user",
        "POST",
        "/users",
        f"api_key! api_secret! first_name! last_name! middle_name {DETAILS}! async",
        UserReply,
    ),
    ("List users", "GET", "/users", "api_key! api_secret! limit offset", UserPage),
    ("Get user", "GET", "/users/{id}", "api_key! api_secret! id! secret!", UserReply),
    (
        "Update user",
        "PUT",
        "/users/{id}",
        f"api_key! api_secret! id! secret! first_name last_name middle_name {DETAILS}",
        UserReply,
    ),
    ("List user records", "GET", "/users/{user_id}/records", OF_USER, RecordsReply),
    ("Get record", "GET", "/users/{user_id}/records/{id}", f"{OF_USER} id!", RecordReply),
    ("List user links", "GET", "/users/{user_id}/links", OF_USER, LinksReply),
    ("Get user alerts", "GET", "/users/{user_id}/alerts", OF_USER, AlertsReply),
]
TYPES = {
    **dict.fromkeys(("api_key", "api_secret", "first_name", "middle_name", "last_name"), "string"),
    **dict.fromkeys(("id", "user_id", "limit", "offset"), "integer"),
    "secret": "integer or string",
    "birth_date": "integer or null",
    "async": "boolean",
    "aliases": "array of AliasItem",
    "emails": "array of EmailItem",
    "phone_numbers": "array of PhoneNumberItem",
    "addresses": "array of AddressItem",
}


def type_of(parameter):
    schema = TypeAdapter(parameter.type).json_schema()
    if "anyOf" in schema:
        return " or ".join(option["type"] for option in schema["anyOf"])
    items = schema.get("items", {}).get("$ref", "").rpartition("/")[2]
    return f"{schema['type']} of {items}" if items else schema["type"]


@pytest.mark.parametrize(
    ("operation", "specified"),
    list(zip(OPERATIONS, SPECIFIED, strict=True)),
    ids=[row[0] for row in SPECIFIED],
)
def test_an_operation_is_as_specified(operation, specified):
    """Specification, "Endpoints"."""
    parameters = " ".join(f"{parameter.name}{'!' * parameter.required}" for parameter in operation.parameters)
    assert (operation.title, operation.method, operation.path, parameters, operation.reply) == specified


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_each_parameter_has_its_type_and_says_what_it_is(operation):
    assert {parameter.name: type_of(parameter) for parameter in operation.parameters} == {
        name: TYPES[name] for name in operation.names
    }
    assert all(parameter.about for parameter in operation.parameters)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_name_is_its_title_as_a_client_method(operation):
    assert operation.name == operation.title.lower().replace(" ", "_")


def test_all_paths_have_one_prefix():
    """Specification, "Endpoints" and "Versioning"."""
    assert PREFIX.format(integration_name="acme", api_key="k") == "/api/acme/k/v2"
    assert (VERSION, FORMATS) == ("v2", ("json", "xml"))


@pytest.mark.parametrize(
    ("name", "path_names"),
    [
        ("create_user", ()),
        ("list_users", ()),
        ("get_user", ("id",)),
        ("update_user", ("id",)),
        ("list_user_records", ("user_id",)),
        ("get_record", ("user_id", "id")),
        ("list_user_links", ("user_id",)),
        ("get_user_alerts", ("user_id",)),
    ],
)
def test_an_operation_knows_which_parameters_its_path_holds(name, path_names):
    [operation] = [operation for operation in OPERATIONS if operation.name == name]
    assert operation.path_names == path_names


def test_creating_and_updating_alone_take_a_body():
    assert [operation.name for operation in OPERATIONS if operation.takes_body] == [
        "create_user",
        "update_user",
    ]


def test_creating_and_listing_alone_take_no_user_secret():
    """Specification, "Authentication", rule 4."""
    assert [operation.name for operation in OPERATIONS if not operation.of_one_user] == [
        "create_user",
        "list_users",
    ]


def test_no_two_operations_share_method_and_path():
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS) == 8


def test_the_contract_records_what_the_specification_leaves_open():
    """Where the specification is silent: "List users" and "Asking"."""
    assert (LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX) == (100, 1000)
    assert CREDENTIAL_HEADERS.keys() == {"api_secret", "secret"}
