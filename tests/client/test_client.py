"""Both clients through the same tests, against a service whose responses vary, over a real socket."""

import asyncio
import copy
import dataclasses
import inspect
import json
import re
from functools import partial

import httpx
import httpx_aiohttp
import pytest
from support import deviating_server, faults
from support.clients import FACES, connected, create_client, json_response, respond, rows
from support.deviating_server import PEOPLE, Variant
from support.deviations import ALL_VARIANTS, Meaning, format_of
from support.services import a_service

from exposurekit.client import AsyncClient, Client, calls
from exposurekit.contract.operations import OPERATIONS
from exposurekit.errors import (
    BadRequest,
    ConfigurationError,
    ConnectionFailed,
    InvalidResponse,
    ScanTimeout,
    Unauthorized,
)

MIRABEL, AURELIO, TAMSIN, *_ = PEOPLE
IDS = [person["id"] for person in PEOPLE]
offline = partial(connected, base_url="https://service.example")


@pytest.fixture(scope="module", params=ALL_VARIANTS)
def variant(request):
    return ALL_VARIANTS[request.param]


@pytest.fixture(scope="module")
def meaning(variant):
    return Meaning(variant)


@pytest.fixture(scope="module")
def variant_service(variant):
    with deviating_server.running(variant) as service:
        yield service


@pytest.fixture(scope="module", params=FACES)
def face(request):
    return request.param


@pytest.fixture(scope="module")
def client(face, variant_service, variant):
    with connected(face, variant_service, format=format_of(variant)) as client:
        yield client


@pytest.fixture
def service():
    with deviating_server.running() as service:
        yield service


@pytest.fixture(scope="module")
def own_service(tmp_path_factory):
    """The service of this package, which reads a request in each encoding."""
    with a_service(tmp_path_factory.mktemp("service")) as service:
        yield service


def connected_to(service, face, **settings):
    return connected(face, service.base_url, **dataclasses.asdict(service.credentials), **settings)


def fields(resource):
    """A resource's fields as the specification names them, without what a server added."""
    values = {}
    for name in type(resource).model_fields:
        value = getattr(resource, name)
        if isinstance(value, list):
            value = [fields(item) if hasattr(item, "model_fields_set") else item for item in value]
        values[name] = fields(value) if hasattr(value, "model_fields_set") else value
    return values


def history(user):
    stamp = "%Y/%m/%d %H:%M:%S +0000"
    entries = [
        {name: when.strftime(stamp) for name, when in fields(entry).items() if when}
        for entry in user.service_history
    ]
    return sorted(entries, key=str)


def assert_is(user, person, meaning, *, inside_get):
    values = fields(user)
    del values["service_history"]
    assert values == meaning.user(person, inside_get=inside_get)
    assert type(user.secret) is type(meaning.secret(person))
    assert history(user) == sorted(person["service_history"], key=str)


def test_list_users_returns_every_key_exactly(client, variant, meaning):
    page, page_people = client.list_users(), PEOPLE[: variant.page_cap]
    assert [(key.id, key.secret) for key in page.users] == [meaning.key(person) for person in page_people]
    assert {type(key.secret) for key in page.users} == {type(meaning.secret(MIRABEL))}
    total = len(PEOPLE) if variant.count_of == "all" else len(page_people)
    assert page.count == (total if variant.count_name else None)


def test_iter_users_returns_everyone_once(client, meaning):
    assert [(key.id, key.secret) for key in client.iter_users(2)] == [meaning.key(one) for one in PEOPLE]


def test_every_read_operation_returns_every_field(client, meaning):
    for person in PEOPLE:
        key = meaning.key(person)
        assert_is(client.get_user(key), person, meaning, inside_get=True)
        for record in person["records"][:1]:
            assert fields(client.get_record(key, record["id"])) == meaning.record(person, 0)
        if person is TAMSIN and meaning.omits_empty_lists:
            with pytest.raises(
                InvalidResponse, match="records is missing"
            ):  # unknown fields are no empty list
                client.list_user_records(key)
            continue
        assert [fields(record) for record in client.list_user_records(key)] == meaning.records(person)
        assert [fields(link) for link in client.list_user_links(key)] == [*map(meaning.link, person["links"])]
        alerts = [fields(alert) for alert in client.get_user_alerts(key)]
        assert [alert | alert.pop("source") for alert in alerts] == meaning.alerts(person)


def test_changed_and_created_users_are_returned(face, variant, meaning):
    """Create user, rules 1 and 2; Update user."""
    with (
        deviating_server.running(variant) as service,
        connected(face, service, format=format_of(variant)) as client,
    ):
        key = meaning.key(AURELIO)
        assert_is(client.update_user(key), AURELIO, meaning, inside_get=False)
        changes = {"middle_name": "Wren", "birth_date": -86_400}
        assert_is(client.update_user(key, **changes), AURELIO | changes, meaning, inside_get=False)
        for asynchronous in (True, False):
            user = client.create_user(
                first_name="Odalys",
                last_name="Fennimoor",
                addresses=[{"city": "Tall Pines", "state": "OR", "zip": "01234"}],
                emails=["odalys@example.com"],
                asynchronous=asynchronous,
            )
            assert user.is_scanning is asynchronous
            assert len(user.records) == len(user.links) == (0 if asynchronous else 1)
            fetched = client.get_user(user)
            assert (fetched.key, fetched.addresses[0].zip) == (user.key, "01234")
            assert [email.address for email in fetched.emails] == ["odalys@example.com"]


def test_wrong_secrets_and_unknown_records_are_refused(client, meaning):
    with pytest.raises(Unauthorized) as caught:
        client.get_user((101, "1"))
    assert (caught.value.status, caught.value.operation) == (401, "Get user")
    with pytest.raises(BadRequest, match=r"^Get record failed \(400"):
        client.get_record(meaning.key(MIRABEL), 9999)


@pytest.mark.parametrize("body_encoding", ["json", "form"])
def test_list_items_are_appended_updated_and_deleted(face, own_service, body_encoding):
    """Update user, rules 1 to 5, in both encodings of a body."""
    emails = [{"address": "old@example.com"}, {"address": "other@example.com"}]
    jane = own_service.create(middle_name="June", birth_date=0, emails=emails)
    first, second = (email["id"] for email in jane["emails"])
    with connected_to(own_service, face, body_encoding=body_encoding) as client:
        user = client.update_user(
            (jane["id"], jane["secret"]),
            middle_name="",
            emails=[
                {"id": first, "address": "new@example.com"},
                {"id": second, "_destroy": True},
                "more@example.com",
            ],
            addresses=[{"city": "Oakmere", "state": "CA", "zip": "00501"}],
            birth_date="",
        )
    assert (user.first_name, user.middle_name, user.birth_date) == ("Jane", "", None)
    assert [email.address for email in user.emails] == ["new@example.com", "more@example.com"]
    assert [address.zip for address in user.addresses] == ["", "00501"]


def test_lists_as_csv_create_the_same_person(face, own_service):
    with connected_to(own_service, face, body_encoding="form", lists="csv") as client:
        user = client.create_user(
            first_name="Odalys",
            last_name="Fennimoor",
            addresses=[{"city": "Tall Pines", "state": "OR"}],
            emails=["a@example.com", "b@example.com"],
            aliases=[{"first_name": "Oda", "last_name": "Moor"}],
        )
    assert [email.address for email in user.emails] == ["a@example.com", "b@example.com"]
    assert [(alias.first_name, alias.last_name) for alias in user.aliases] == [("Oda", "Moor")]


def test_closed_client_refuses_further_calls(face, service):
    """Opened again, its connections would be closed by nobody."""
    with connected(face, service) as client:
        assert client.list_users().count == 5
        client.close() if face == "blocking" else client.aclose()
        with pytest.raises(ConnectionFailed, match=r"^List users failed: this client is closed") as caught:
            client.list_users()
    assert not caught.value.maybe_received


@pytest.mark.parametrize("is_used", [True, False])
@pytest.mark.parametrize("closes_copy", [True, False])
def test_clients_with_the_same_connections_close_together(service, closes_copy, is_used):
    with connected("blocking", service) as client:
        if is_used:
            client.list_users()
        other = client.with_config(format="xml")
        closed, open_ = (other, client) if closes_copy else (client, other)
        closed.close()
        with pytest.raises(ConnectionFailed, match=r"^List users failed: this client is closed") as caught:
            open_.list_users()
    assert not caught.value.maybe_received


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_operation_methods_have_documentation_and_full_signature(kind, operation):
    method, build = getattr(kind, operation.name), getattr(calls, operation.name)
    assert method.__doc__ == build.__doc__
    parameters = list(inspect.signature(method).parameters.values())
    assert parameters[0].name == "self"
    assert parameters[1:] == list(inspect.signature(build).parameters.values())


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda client: client.update_user((101, "x"), firstname="Mira"), "did you mean first_name?"),
        (
            lambda client: client.create_user("Mira", "Doe"),
            "pass them by name: first_name=, last_name=, addresses=,",
        ),
    ],
)
def test_wrong_arguments_get_a_hint(face, call, hint):
    with offline(face) as client, pytest.raises(TypeError, match=re.escape(hint)):
        call(client)


class Scanning:
    """A service whose scan ends with the nth request."""

    def __init__(self, scan_count):
        self.scan_count = scan_count
        self.request_count = 0

    def __call__(self, _request):
        self.request_count += 1
        user = TAMSIN | {"is_scanning": self.request_count < self.scan_count}
        return httpx.Response(200, json={"user": user})


def scan_client(face, scan):
    return offline(face, transport=httpx.MockTransport(scan))


def test_wait_for_scan_returns_the_user_after_the_scan(face):
    scan = Scanning(scan_count=2)
    with scan_client(face, scan) as client:
        user = client.wait_for_scan((103, TAMSIN["secret"]))
    assert (user.id, user.is_scanning, scan.request_count) == (103, False, 2)


def test_wait_for_scan_timeout_error_states_the_scan_continues(face):
    scan, message = Scanning(scan_count=10**9), r"did not finish within 0 s. It continues"
    with scan_client(face, scan) as client, pytest.raises(ScanTimeout, match=message):
        client.wait_for_scan((103, TAMSIN["secret"]), timeout=0)
    assert scan.request_count == 1


PLAIN_ANSWERS = {
    "count of users": "count",
    "users on a page without limit": "5",
    "limit of 0": "200",
    "error without an api_secret": "401, error",
    "type of a user's secret": "text",
    "identification": "identification_on_file",
    "birth_date": "integer, null",
    "middle_name unset": "text",
    "records in Get user": "bare",
    "statuses": "discovered, pending removal, removed",
    "user_fields_required_for_removal": "11 of 11",
    "links with contains": "11 of 11",
    "alias_type in responses": "0 of 4",
    "records in List user records": "wrapped",
    "opt_out_procedure": "list",
    "alerts with a url": "11 of 11",
    "alerts with a guide": "11 of 11",
    "deviations": "none",
    "JSON responses": "yes",
    "XML responses": "yes",
    "credentials in headers": "yes",
}
COMBINED_ANSWERS = {
    "count of users": "none",
    "users on a page without limit": "3",
    "error without an api_secret": "401, not json",
    "type of a user's secret": "integer",
    "identification": "identification_onfile",
    "birth_date": "null, text",
    "records in Get user": "wrapped",
    "user_fields_required_for_removal": "7 of 7",
    "links with contains": "0 of 4",
    "alias_type in responses": "2 of 2",
    "opt_out_procedure": "text",
    "alerts with a url": "5 of 5",
    "alerts with a guide": "5 of 5",
}


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        (Variant(), {}),
        (Variant(count_name="total"), {"count of users": "total"}),
        (Variant(records="bare"), {"records in List user records": "bare"}),
        (Variant(procedure="null"), {"opt_out_procedure": "null"}),
        (Variant(contains="null"), {"links with contains": "0 of 11"}),
        (Variant(status="archived"), {"statuses": "archived, discovered, pending removal, removed"}),
        (Variant(errors="empty"), {"error without an api_secret": "401, not json"}),
        (Variant(encoding="json"), {"XML responses": "no (InvalidResponse)"}),
        (
            Variant(optional="missing"),
            {f"alerts with a {one}": "0 of 11" for one in ("url", "guide")}
            | {"user_fields_required_for_removal": "0 of 11"},
        ),
        (Variant(credentials_in="query"), {"credentials in headers": "no (BadRequest)"}),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_probe_reports_how_the_service_responds(variant, expected):
    with deviating_server.running(variant) as service, connected("blocking", service) as client:
        table = client.probe()
        assert {request.method for request in service.requests} == {"GET"}
    assert table.columns.tolist() == ["point", "answer"]
    assert dict(zip(table["point"], table["answer"], strict=True)) == PLAIN_ANSWERS | expected


def probe_answers(base_url):
    with connected("blocking", base_url) as client:
        return {row["point"]: row["answer"] for row in rows(client.probe())}


def probe_of_one(change, *more_users):
    """The probe's answers of a service whose one user has changed fields."""

    def script(request):
        body = copy.deepcopy(faults.BODIES[request.operation])
        if request.operation == "list_users":
            body["users"] += more_users
        if request.operation == "get_user":
            change(body["user"])
        return json_response(body)

    with faults.running(script) as server:
        return probe_answers(server.base_url)


def test_probe_counts_users_per_deviation():
    """Not in the specification: each is counted as a deviation."""
    answers = probe_of_one(lambda user: user.update(middle_name=None, is_scanning="true"))
    deviations = ("middle_name null", "is_scanning text for boolean")
    assert answers["deviations"] == "; ".join(f"Get user: {one} (1 of 1 users)" for one in deviations)


@pytest.mark.parametrize(
    ("odd", "statuses", "contains"),
    [
        ({"records": [{"status": "discovered"}, "text"]}, "discovered; 1 of 2 is text, not an object", None),
        ({"records": [{"record": 7}, None]}, "; 1 of 2 is integer, not an object; 1 of 2 is null, not an object", None),
        ({"records": "text", "links": None}, "; 1 of 1 is text, not a list", "; 1 of 1 is null, not a list"),
    ],
)  # fmt: skip
def test_probe_reports_values_that_are_no_objects(odd, statuses, contains):
    answers = probe_of_one(lambda user: (user.update(odd), user.pop("aliases")), 7)
    assert answers["statuses"].removeprefix("unknown: no registered user shows it") == statuses
    assert answers["users on a page without limit"] == "1; 1 of 2 is integer, not an object"
    assert answers["alias_type in responses"].endswith("; 1 of 1 is missing")
    assert contains is None or answers["links with contains"].endswith(contains)
    assert not [answer for answer in answers.values() if "does not match the specification" in answer]


def test_probe_reports_all_deviations_at_once():
    with deviating_server.running(deviating_server.COMBINED) as service:
        answers = probe_answers(service)
    assert answers.items() >= COMBINED_ANSWERS.items()
    assert "archived" in answers["statuses"]


@pytest.mark.parametrize("settings", [{"api_secret": "wrong"}, {"api_key": "wrong"}])
def test_probe_stops_at_the_first_unauthorized_response(service, settings):
    with connected("blocking", service, **settings) as client:
        with pytest.raises(Unauthorized):
            client.probe()
        assert len(service.requests) == 1


def test_probe_of_a_service_without_users_reports_unknown(service):
    service.people.clear()
    answers = probe_answers(service)
    assert answers["birth_date"] == "unknown: no registered user shows it"
    assert answers["JSON responses"] == "yes"


class OnlyBlocking(httpx.BaseTransport):
    handle_request = staticmethod(respond)


async def respond_asynchronously(request):
    return respond(request)


@pytest.mark.parametrize(
    ("face", "transport"),
    [
        *((face, httpx.MockTransport(respond)) for face in FACES),
        *((face, OnlyBlocking()) for face in FACES),
        ("awaiting", httpx.MockTransport(respond_asynchronously)),
    ],
)
def test_custom_transport_carries_the_calls(face, transport):
    with offline(face, transport=transport) as client:
        assert [key.id for key in client.iter_users()] == [101, 102]
        assert client.get_user((101, "x")).first_name == "Mirabel"


@pytest.mark.parametrize(
    ("face", "kind"),
    [
        ("awaiting", httpx.AsyncHTTPTransport),
        ("awaiting", httpx_aiohttp.AiohttpTransport),
        *((face, httpx.HTTPTransport) for face in FACES),
    ],
)
def test_network_transports_of_httpx_carry_the_calls(face, kind, service):
    transport = kind()
    with connected(face, service, transport=transport) as client:
        assert [key.id for key in client.iter_users(2)] == IDS
        assert client.update_user((101, MIRABEL["secret"]), middle_name="Wren").middle_name == "Wren"
    if kind is httpx.HTTPTransport:
        transport.close()


def test_blocking_client_refuses_an_asynchronous_transport():
    message = "needs a blocking transport; AsyncClient accepts either kind"
    with (
        offline("blocking", transport=httpx.AsyncHTTPTransport()) as client,
        pytest.raises(ConfigurationError, match=message),
    ):
        client.list_users()


def test_transport_receives_the_complete_request(face):
    requests = []

    def note(request):
        requests.append(request)
        return respond(request)

    with offline(face, transport=httpx.MockTransport(note)) as client:
        client.update_user((101, "904"), emails=["a@example.com"])
    [request] = requests
    assert (request.method, request.url.path) == ("PUT", "/api/acme/key-otherwise/v2/users/101.json")
    assert request.headers["host"] == "service.example"
    assert json.loads(request.content)["emails"] == [{"address": "a@example.com"}]
    assert request.headers["content-length"] == str(len(request.content))


def test_client_is_a_context_manager(service):
    with create_client("blocking", service) as client:
        assert client.list_users().count == 5
    awaiting = create_client("awaiting", service).client
    assert repr(awaiting) == f"AsyncClient('{service}', integration_name='acme')"


def test_async_client_in_another_event_loop_is_refused(service):
    client = create_client("awaiting", service).client

    async def once():
        return (await client.list_users()).count

    with asyncio.Runner() as runner:
        assert runner.run(once()) == 5
        with pytest.raises(ConfigurationError, match="belongs to one event loop"):
            asyncio.run(once())
        runner.run(client.aclose())
