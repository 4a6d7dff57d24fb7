"""The eight operations: paths, parameters and replies are the specification's, written out once more by hand."""

import pytest
from pydantic import TypeAdapter

from exposurekit.contract import models
from exposurekit.contract import operations as contract
from exposurekit.contract.operations import OPERATIONS

OF_USER = "api_key! api_secret! user_id! secret!"
DETAILS = "birth_date aliases emails phone_numbers addresses"
# Title, method, path, parameters (! required), reply. The specification leaves open which are required on Create user.
CREATE = f"api_key! api_secret! first_name! last_name! middle_name {DETAILS}! async"
UPDATE = f"api_key! api_secret! id! secret! first_name last_name middle_name {DETAILS}"
SPECIFIED = [
    ("Create user", "POST", "/users", CREATE, models.UserReply),
    ("List users", "GET", "/users", "api_key! api_secret! limit offset", models.UserPage),
    ("Get user", "GET", "/users/{id}", "api_key! api_secret! id! secret!", models.UserReply),
    ("Update user", "PUT", "/users/{id}", UPDATE, models.UserReply),
    ("List user records", "GET", "/users/{user_id}/records", OF_USER, models.RecordsReply),
    ("Get record", "GET", "/users/{user_id}/records/{id}", f"{OF_USER} id!", models.RecordReply),
    ("List user links", "GET", "/users/{user_id}/links", OF_USER, models.LinksReply),
    ("Get user alerts", "GET", "/users/{user_id}/alerts", OF_USER, models.AlertsReply),
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


PATH_NAMES = {"create_user": (), "list_users": (), "get_user": ("id",), "update_user": ("id",)}
PATH_NAMES["get_record"] = ("user_id", "id")


def type_of(parameter):
    schema = TypeAdapter(parameter.type).json_schema()
    if "anyOf" in schema:
        return " or ".join(option["type"] for option in schema["anyOf"])
    items = schema.get("items", {}).get("$ref", "").rpartition("/")[2]
    return f"{schema['type']} of {items}" if items else schema["type"]


@pytest.mark.parametrize(("operation", "specified"), [*zip(OPERATIONS, SPECIFIED, strict=True)])
def test_operation_is_as_specified(operation, specified):
    """Specification, "Endpoints"."""
    parameters = " ".join(f"{parameter.name}{'!' * parameter.required}" for parameter in operation.parameters)
    assert (operation.title, operation.method, operation.path, parameters, operation.reply) == specified


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_names_and_parameters_of_an_operation(operation):
    assert operation.name == operation.title.lower().replace(" ", "_")
    types = {parameter.name: type_of(parameter) for parameter in operation.parameters}
    assert types == {name: TYPES[name] for name in operation.names}
    assert all(parameter.about for parameter in operation.parameters)
    assert operation.path_names == PATH_NAMES.get(operation.name, ("user_id",))
    assert operation.takes_body == (operation.name in {"create_user", "update_user"})
    # Specification, "Authentication", rule 4
    assert ("secret" in operation.names) == (operation.name not in {"create_user", "list_users"})


def test_all_paths_have_one_prefix():
    """Specification, "Endpoints" and "Versioning"."""
    assert contract.PREFIX.format(integration_name="acme", api_key="k") == "/api/acme/k/v2"
    assert (contract.VERSION, contract.FORMATS) == ("v2", ("json", "xml"))


def test_no_two_operations_share_method_and_path():
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS) == 8


def test_choices_where_the_specification_is_silent():
    """Where the specification is silent: "List users" and "Asking"."""
    assert (contract.LIST_LIMIT_DEFAULT, contract.LIST_LIMIT_MAX) == (100, 1000)
    assert contract.CREDENTIAL_HEADERS.keys() == {"api_secret", "secret"}
