"""The document at /openapi.json describes every response."""

import zlib

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CHECKS, load_all_checks
from support.services import JANE

from exposurekit.contract import models
from exposurekit.contract.operations import OPERATIONS, PREFIX
from exposurekit.service.api import openapi, schemas

pytestmark = pytest.mark.long  # hundreds of requests for each operation

load_all_checks()
NAMES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)


@pytest.fixture
def described(request):
    request.node._nodeid = None  # schemathesis sets it for the time of an operation
    return schemathesis.openapi.from_dict(openapi.document())


# What a path with .json returns is part of what is described without a suffix, as a test below states. The cases are
# generated as the test runs: each process that collects the tests would take seconds for them.
DESCRIBED = schemathesis.pytest.from_fixture("described").exclude(path_regex=r"\.json$")


def test_the_service_serves_the_document(service):
    response = service.http.get(f"{service.base_url}/openapi.json")
    assert response.status_code == 200
    assert response.json() == openapi.document()


@pytest.fixture(scope="module")
def session():
    """Connections that stay open for thousands of cases."""
    with requests.Session() as session:
        session.trust_env = False  # it would look for a proxy before each of them
        yield session


@DESCRIBED.parametrize()
@pytest.mark.usefixtures("service", "jane")
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_response_is_as_described(case, service, session, jane):
    """Some requests are sent as generated, which are mostly rejected; most are sent with valid credentials."""
    lot = zlib.crc32(repr((case.path_parameters, case.query, case.body)).encode("utf-8", "replace"))
    if lot % 5:
        ids = {"user_id": jane["id"], "id": jane["record_id"] if "{user_id}" in case.path else jane["id"]}
        path_values = {"integration_name": "acme", "api_key": service.credentials.api_key, **ids}
        secrets = {"api_secret": service.credentials.api_secret, "secret": jane["secret"]}
        case.path_parameters = {name: path_values[name] for name in case.path_parameters}
        case.query = dict(case.query or {}) | secrets
        if lot % 2 and case.method == "POST" and isinstance(case.body, dict):
            case.body = case.body | JANE
    response = case.call(base_url=service.base_url, session=session)
    case.validate_response(response, checks=[CHECKS.get_one(name) for name in NAMES])


def test_each_operation_has_a_path_with_each_suffix():
    """Specification, "Endpoints"."""
    paths = openapi.document()["paths"]
    for operation in OPERATIONS:
        for suffix in ("", ".json", ".xml"):
            assert operation.method.lower() in paths[PREFIX + operation.path + suffix]
    assert sum(len(methods) for methods in paths.values()) == 3 * len(OPERATIONS)


def test_a_json_path_returns_the_json_of_the_bare_path():
    paths = openapi.document()["paths"]
    for operation in OPERATIONS:
        bare, as_json = (
            paths[PREFIX + operation.path + suffix][operation.method.lower()] for suffix in ("", ".json")
        )
        assert json_of(bare["responses"]) == json_of(as_json["responses"]) == as_json["responses"]
        differing = {"operationId": None, "responses": None}
        assert bare | differing == as_json | differing


def json_of(responses):
    return {
        status: response | {"content": {"application/json": response["content"]["application/json"]}}
        for status, response in responses.items()
    }


@pytest.mark.parametrize(
    ("name", "model", "beyond"),
    [
        ("Alias", models.Alias, {"alias_type"}),
        ("Email", models.Email, set()),
        ("PhoneNumber", models.PhoneNumber, set()),
        ("Address", models.Address, {"country"}),
        ("Record", models.Record, {"user_fields_required_for_removal"}),
        ("RecordInUser", models.Record, set()),
        ("Link", models.Link, set()),
        ("AlertOnRecord", models.Alert, set()),
        ("AlertOnLink", models.Alert, set()),
        ("User", models.User, set()),
        ("UserInFull", models.User, set()),
        ("UserKey", models.UserKey, set()),
    ],
)
def test_resources_have_the_fields_of_the_contract(name, model, beyond):
    """Not in the specification: alias_type and country are stored, not sent."""
    assert set(schemas.RESOURCES[name]["properties"]) == set(model.model_fields) - beyond


def test_every_reference_resolves():
    document = openapi.document()

    def references(node):
        if isinstance(node, dict):
            yield from [node["$ref"]] if "$ref" in node else []
            node = list(node.values())
        if isinstance(node, list):
            for inner in node:
                yield from references(inner)

    names = {reference.removeprefix("#/components/schemas/") for reference in references(document)}
    assert names <= document["components"]["schemas"].keys()
