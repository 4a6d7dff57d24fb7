"""Both clients through the same tests, against a service that answers otherwise, over a real socket."""

import asyncio
import copy
import inspect
import json
import threading

import httpx
import pytest
from support import deviating_server, faults
from support.clients import FACES, answering, connected, create_client, json_response, rows
from support.deviating_server import PEOPLE, Manner
from support.deviations import ALL_MANNERS, Meaning, format_of

from exposurekit.client import AsyncClient, Client, calls
from exposurekit.contract.operations import OPERATIONS
from exposurekit.errors import BadRequest, ConfigurationError, InvalidResponse, ScanTimeout, Unauthorized

MIRABEL, AURELIO, TAMSIN, *_ = PEOPLE


@pytest.fixture(scope="module", params=ALL_MANNERS)
def manner(request):
    return ALL_MANNERS[request.param]


@pytest.fixture(scope="module")
def unchanged(manner):
    """A service in this manner, for tests that only read."""
    with deviating_server.running(manner) as service:
        yield service


@pytest.fixture(scope="module", params=FACES)
def face(request):
    return request.param


@pytest.fixture(scope="module")
def client(face, unchanged, manner):
    with connected(face, unchanged, format=format_of(manner)) as client:
        yield client


@pytest.fixture
def writer(face, manner):
    """A client of a service of its own, which it may change."""
    with (
        deviating_server.running(manner) as service,
        connected(face, service, format=format_of(manner)) as client,
    ):
        yield client


@pytest.fixture
def service():
    with deviating_server.running() as service:
        yield service


# --- what a manner's answers mean ---------------------------------------------------------------------


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
    return sorted(
        [
            {name: when.strftime(stamp) for name, when in fields(entry).items() if when}
            for entry in user.service_history
        ],
        key=str,
    )


def assert_is(user, person, meaning, *, inside_get):
    values = fields(user)
    del values["service_history"]
    assert values == meaning.user(person, inside_get=inside_get)
    assert type(user.secret) is type(meaning.secret(person))
    assert history(user) == sorted(person["service_history"], key=str)


# --- the eight operations in every manner -------------------------------------------------------------


def test_list_users_gives_every_key_exactly(client, manner):
    meaning, page = Meaning(manner), client.list_users()
    page_people = PEOPLE[: manner.page_cap]
    assert [(key.id, key.secret) for key in page.users] == [meaning.key(person) for person in page_people]
    assert [type(key.secret) for key in page.users] == [
        type(meaning.secret(person)) for person in page_people
    ]
    counted = len(PEOPLE) if manner.count_of == "all" else len(page_people)
    assert page.count == (counted if manner.count_name else None)


@pytest.mark.parametrize("page_size", [2, 100])
def test_iter_users_gives_everyone_once(client, manner, page_size):
    keys = [(key.id, key.secret) for key in client.iter_users(page_size)]
    assert keys == [Meaning(manner).key(person) for person in PEOPLE]


def test_an_answer_of_unknown_fields_alone_is_no_empty_list(client, manner):
    meaning = Meaning(manner)
    if meaning.leaves_empty_lists_unsaid:
        with pytest.raises(InvalidResponse, match="records is missing"):
            client.list_user_records(meaning.key(TAMSIN))
    else:
        assert client.list_user_records(meaning.key(TAMSIN)) == []


@pytest.mark.parametrize("count_name", [None, "count", "total"])
@pytest.mark.parametrize("count_of", ["all", "page"])
@pytest.mark.parametrize("page_cap", [None, 1, 3, 5])
def test_the_pages_end_whatever_is_counted(face, count_name, count_of, page_cap):
    with (
        deviating_server.running(
            Manner(count_name=count_name, count_of=count_of, page_cap=page_cap)
        ) as service,
        connected(face, service) as client,
    ):
        for page_size in (1, 3, 4, 5, 6):
            assert [key.id for key in client.iter_users(page_size)] == [person["id"] for person in PEOPLE]


def test_get_user_gives_every_field(client, manner):
    meaning = Meaning(manner)
    for person in PEOPLE:
        assert_is(client.get_user(meaning.key(person)), person, meaning, inside_get=True)


def test_records_and_links_and_alerts_give_every_field(client, manner):
    meaning = Meaning(manner)
    for person in PEOPLE:
        if meaning.leaves_empty_lists_unsaid and person is TAMSIN:
            continue
        key = meaning.key(person)
        assert [fields(record) for record in client.list_user_records(key)] == meaning.records(person)
        assert [fields(link) for link in client.list_user_links(key)] == [
            meaning.link(link) for link in person["links"]
        ]
        alerts = [fields(alert) for alert in client.get_user_alerts(key)]
        assert [alert | alert.pop("source") for alert in alerts] == meaning.alerts(person)


def test_get_record_gives_every_field(client, manner):
    meaning = Meaning(manner)
    for person in PEOPLE:
        for index, record in enumerate(person["records"]):
            fetched = client.get_record(meaning.key(person), record["id"])
            assert fields(fetched) == meaning.record(person, index)


def test_update_user_gives_the_user_as_changed(writer, manner):
    meaning = Meaning(manner)
    key = meaning.key(AURELIO)
    assert_is(writer.update_user(key), AURELIO, meaning, inside_get=False)
    changed = AURELIO | {"middle_name": "Wren", "birth_date": -86_400}
    assert_is(
        writer.update_user(key, middle_name="Wren", birth_date=-86_400), changed, meaning, inside_get=False
    )


@pytest.mark.parametrize("asynchronous", [True, False])
def test_create_user_gives_a_user_whose_key_works(writer, asynchronous):
    """Create user, rules 1 and 2."""
    user = writer.create_user(
        first_name="Odalys",
        last_name="Fennimoor",
        addresses=[{"city": "Tall Pines", "state": "OR", "zip": "01234"}],
        emails=["odalys@example.com"],
        asynchronous=asynchronous,
    )
    assert user.is_scanning is asynchronous
    assert len(user.records) == len(user.links) == (0 if asynchronous else 1)
    fetched = writer.get_user(user)
    assert (fetched.key, fetched.addresses[0].zip) == (user.key, "01234")
    assert [email.address for email in fetched.emails] == ["odalys@example.com"]


def test_a_wrong_secret_is_unauthorized_in_every_manner(client):
    with pytest.raises(Unauthorized) as caught:
        client.get_user((101, "1"))
    assert (caught.value.status, caught.value.operation) == (401, "Get user")


def test_an_unknown_record_is_a_bad_request_in_every_manner(client, manner):
    with pytest.raises(BadRequest, match=r"^Get record failed \(400"):
        client.get_record(Meaning(manner).key(MIRABEL), 9999)


# --- asking in other manners --------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["query", "body", "header"])
@pytest.mark.parametrize("body_encoding", ["json", "form"])
def test_credentials_travel_where_they_are_put(face, location, body_encoding):
    person = PEOPLE[0]
    with (
        deviating_server.running() as service,
        connected(face, service, credentials_in=location, body_encoding=body_encoding) as client,
    ):
        client.get_user((person["id"], person["secret"]))
        client.update_user((person["id"], person["secret"]), first_name="Mira")
        read, written = service.requests
    assert bool(read.headers) == bool(written.headers) == (location == "header")
    assert ("secret" in read.query) == (location != "header")
    assert ("secret" in written.query) == (location == "query")
    assert ("secret" in written.body) == (location == "body")


@pytest.mark.parametrize("body_encoding", ["json", "form"])
def test_list_items_are_appended_updated_and_deleted(face, service, body_encoding):
    """Update user, rules 1 to 5, in both encodings of a body."""
    key = (MIRABEL["id"], MIRABEL["secret"])
    with connected(face, service, body_encoding=body_encoding) as client:
        user = client.update_user(
            key,
            middle_name="",
            emails=[
                {"id": 11, "address": "new@example.com"},
                {"id": 12, "_destroy": True},
                "more@example.com",
            ],
            addresses=[{"city": "Oakmere", "state": "CA", "zip": "00501"}],
            birth_date="",
        )
    assert (user.first_name, user.middle_name, user.birth_date) == ("Mirabel", "", None)
    assert [email.address for email in user.emails] == ["new@example.com", "more@example.com"]
    assert user.addresses[-1].zip == "00501"
    assert len(user.phone_numbers) == 2


def test_lists_as_csv_make_the_same_person(face, service):
    with connected(face, service, body_encoding="form", lists="csv") as client:
        user = client.create_user(
            first_name="Odalys",
            last_name="Fennimoor",
            addresses=[{"city": "Tall Pines", "state": "OR"}],
            emails=["a@example.com", "b@example.com"],
            aliases=[{"first_name": "Oda", "last_name": "Moor"}],
        )
    assert [email.address for email in user.emails] == ["a@example.com", "b@example.com"]
    assert [(alias.first_name, alias.last_name) for alias in user.aliases] == [("Oda", "Moor")]


def test_a_client_that_was_closed_opens_again(face, service):
    with connected(face, service) as client:
        assert client.list_users().count == 5
        client.close() if face == "blocking" else client.aclose()
        assert client.list_users().count == 5


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_each_operation_is_a_method_that_explains_itself(kind, operation):
    method, build = getattr(kind, operation.name), getattr(calls, operation.name)
    assert method.__doc__ == build.__doc__
    parameters = list(inspect.signature(method).parameters.values())
    assert parameters[0].name == "self"
    assert parameters[1:] == list(inspect.signature(build).parameters.values())


def test_an_unknown_argument_is_a_type_error(face):
    with connected(face, "https://service.example") as client, pytest.raises(TypeError, match="firstname"):
        client.update_user((101, "x"), firstname="Mira")


# --- waiting for a scan -------------------------------------------------------------------------------


class Scanning:
    """A service whose scan ends at the nth look."""

    def __init__(self, scan_count):
        self.scan_count = scan_count
        self.request_count = 0

    def __call__(self, _request):
        self.request_count += 1
        visible_fields = {name: value for name, value in TAMSIN.items() if name != "alerts"}
        return httpx.Response(
            200, json={"user": visible_fields | {"is_scanning": self.request_count < self.scan_count}}
        )


def test_wait_for_scan_returns_the_user_once_no_scan_runs(face):
    scan = Scanning(scan_count=2)
    with connected(face, "https://service.example", transport=httpx.MockTransport(scan)) as client:
        user = client.wait_for_scan((103, TAMSIN["secret"]))
    assert (user.id, user.is_scanning, scan.request_count) == (103, False, 2)


def test_wait_for_scan_times_out_and_says_the_scan_continues(face):
    scan = Scanning(scan_count=10**9)
    with (
        connected(face, "https://service.example", transport=httpx.MockTransport(scan)) as client,
        pytest.raises(ScanTimeout, match=r"did not finish within 0 s. It continues"),
    ):
        client.wait_for_scan((103, TAMSIN["secret"]), timeout=0)
    assert scan.request_count == 1


# --- probe --------------------------------------------------------------------------------------------

PLAINLY_TOLD = {
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
OTHERWISE_TOLD = {
    "count of users": "none",
    "users on a page without limit": "3",
    "error without an api_secret": "401, not json",
    "type of a user's secret": "integer",
    "identification": "identification_onfile",
    "birth_date": "null, text",
    "records in Get user": "wrapped",
    "statuses": "archived, pending removal, removed, discovered",
    "user_fields_required_for_removal": "7 of 7",
    "links with contains": "0 of 4",
    "alias_type in responses": "2 of 2",
    "opt_out_procedure": "text",
    "alerts with a url": "5 of 5",
    "alerts with a guide": "5 of 5",
}


@pytest.mark.parametrize(
    ("manner", "expected"),
    [
        (Manner(), {}),
        (Manner(count_name="total"), {"count of users": "total"}),
        (Manner(count_name=None), {"count of users": "none"}),
        (Manner(secret="integer"), {"type of a user's secret": "integer"}),
        (Manner(records="bare"), {"records in List user records": "bare"}),
        (Manner(records="wrapped"), {"records in Get user": "wrapped"}),
        (Manner(procedure="string"), {"opt_out_procedure": "text"}),
        (Manner(procedure="null"), {"opt_out_procedure": "null"}),
        (Manner(contains="null"), {"links with contains": "0 of 11"}),
        (Manner(status="archived"), {"statuses": "archived, discovered, pending removal, removed"}),
        (Manner(errors="empty"), {"error without an api_secret": "401, not json"}),
        (Manner(errors="html"), {"error without an api_secret": "401, not json"}),
        (Manner(birth_date="text"), {"birth_date": "null, text"}),
        (Manner(encoding="json"), {"XML responses": "no (InvalidResponse)"}),
        (
            Manner(optional="missing"),
            {
                "alerts with a url": "0 of 11",
                "alerts with a guide": "0 of 11",
                "user_fields_required_for_removal": "0 of 11",
            },
        ),
        (
            Manner(credentials_in="query"),
            {"credentials in headers": "no (BadRequest)"},
        ),
    ],
    ids=str,
)
def test_probe_tells_how_this_service_answers(manner, expected):
    with deviating_server.running(manner) as service, connected("blocking", service) as client:
        table = client.probe()
        assert {request.method for request in service.requests} == {"GET"}
    assert table.columns.tolist() == ["point", "answer"]
    assert dict(zip(table["point"], table["answer"], strict=True)) == PLAINLY_TOLD | expected


def test_probe_says_how_answers_deviate():
    """Not in the specification: each is counted as a deviation."""

    def script(request):
        body = copy.deepcopy(faults.BODIES[request.operation])
        if request.operation == "list_users":
            body["users"] = [{"id": 12, "secret": "ab12"}]
        if request.operation == "get_user":
            body["user"] |= {"middle_name": None, "is_scanning": "true"}
        return json_response(body)

    with faults.running(script) as server, connected("blocking", server.base_url) as client:
        answers = {row["point"]: row["answer"] for row in rows(client.probe())}
    noted = ("middle_name null", "is_scanning text for boolean")
    assert answers["deviations"] == "; ".join(f"Get user: {one} (1 of 1 users)" for one in noted)


@pytest.mark.parametrize(
    ("odd", "statuses", "contains"),
    [
        ({"records": [{"status": "discovered"}, "text"]}, "discovered; 1 of 2 is text, not an object", None),
        ({"records": [{"record": 7}, None]}, "; 1 of 2 is integer, not an object; 1 of 2 is null, not an object", None),
        ({"records": "text", "links": None}, "; 1 of 1 is text, not a list", "; 1 of 1 is null, not a list"),
    ],
)  # fmt: skip
def test_probe_names_what_stands_in_place_of_an_object(odd, statuses, contains):
    """The other items are still told of."""

    def script(request):
        body = copy.deepcopy(faults.BODIES[request.operation])
        if request.operation == "list_users":
            body["users"] = [{"id": 12, "secret": "ab12"}, 7]
        if request.operation == "get_user":
            body["user"] |= odd
            del body["user"]["aliases"]
        return json_response(body)

    with faults.running(script) as server, connected("blocking", server.base_url) as client:
        answers = {row["point"]: row["answer"] for row in rows(client.probe())}
    assert answers["statuses"].removeprefix("unknown: no registered user shows it") == statuses
    assert answers["users on a page without limit"] == "1; 1 of 2 is integer, not an object"
    assert answers["alias_type in responses"].endswith("; 1 of 1 is missing")
    assert contains is None or answers["links with contains"].endswith(contains)
    assert not [answer for answer in answers.values() if "does not match the specification" in answer]


def test_probe_tells_all_deviations_at_once():
    with (
        deviating_server.running(deviating_server.OTHERWISE) as service,
        connected("blocking", service) as client,
    ):
        answers = {row["point"]: row["answer"] for row in rows(client.probe())}
    assert answers.items() >= (OTHERWISE_TOLD | {"statuses": answers["statuses"]}).items()
    assert "archived" in answers["statuses"]


@pytest.mark.parametrize("settings", [{"api_secret": "wrong"}, {"api_key": "wrong"}])
def test_probe_of_a_service_that_refuses_is_refused_at_once(settings):
    with deviating_server.running() as service, connected("blocking", service, **settings) as client:
        with pytest.raises(Unauthorized):
            client.probe()
        assert len(service.requests) == 1


def test_probe_of_a_service_without_people_says_what_nobody_shows():
    with deviating_server.running() as service, connected("blocking", service) as client:
        service.people.clear()
        answers = {row["point"]: row["answer"] for row in rows(client.probe())}
    assert answers["birth_date"] == "unknown: no registered user shows it"
    assert answers["JSON responses"] == "yes"


# --- the transport seam -------------------------------------------------------------------------------


class OnlyBlocking(httpx.BaseTransport):
    """A transport that knows no awaiting."""

    def __init__(self, inner):
        self.inner = inner
        self.threads = set()

    def handle_request(self, request):
        self.threads.add(threading.current_thread().name)
        return self.inner.handle_request(request)

    def close(self):
        self.inner.close()


async def answering_slowly(request):
    return answering(request)


@pytest.mark.parametrize("wrap", [lambda mock: mock, OnlyBlocking])
def test_an_httpx_transport_carries_the_calls(face, wrap):
    transport = wrap(httpx.MockTransport(answering))
    with connected(face, "https://service.example", transport=transport) as client:
        assert [key.id for key in client.iter_users()] == [101, 102]
        assert client.get_user((101, "x")).first_name == "Mirabel"


def test_an_awaiting_handler_carries_the_awaiting_client():
    transport = httpx.MockTransport(answering_slowly)
    with connected("awaiting", "https://service.example", transport=transport) as client:
        assert client.get_user((101, "x")).first_name == "Mirabel"


def test_httpx_own_async_transport_carries_the_awaiting_client(service):
    with connected("awaiting", service, transport=httpx.AsyncHTTPTransport()) as client:
        assert [key.id for key in client.iter_users(2)] == [person["id"] for person in PEOPLE]
        assert client.update_user((101, MIRABEL["secret"]), middle_name="Wren").middle_name == "Wren"


def test_httpx_own_blocking_transport_carries_both(face, service):
    with httpx.HTTPTransport() as transport, connected(face, service, transport=transport) as client:
        assert [key.id for key in client.iter_users(2)] == [person["id"] for person in PEOPLE]


def test_httpx_over_aiohttp_carries_the_awaiting_client(service):
    from httpx_aiohttp import AiohttpTransport

    with connected("awaiting", service, transport=AiohttpTransport()) as client:
        assert [key.id for key in client.iter_users(2)] == [person["id"] for person in PEOPLE]


def test_a_client_that_blocks_refuses_a_transport_that_cannot():
    with (
        connected("blocking", "https://service.example", transport=httpx.AsyncHTTPTransport()) as client,
        pytest.raises(
            ConfigurationError, match="needs a blocking transport; AsyncClient accepts either kind"
        ),
    ):
        client.list_users()


@pytest.mark.parametrize("face", FACES)
def test_a_transport_sees_what_a_socket_would(face):
    requests = []

    def note(request):
        requests.append(request)
        return answering(request)

    with connected(face, "https://service.example", transport=httpx.MockTransport(note)) as client:
        client.update_user((101, "904"), emails=["a@example.com"])
    [request] = requests
    assert (request.method, request.url.path) == ("PUT", "/api/acme/key-otherwise/v2/users/101.json")
    assert request.headers["host"] == "service.example"
    assert json.loads(request.content)["emails"] == [{"address": "a@example.com"}]
    assert request.headers["content-length"] == str(len(request.content))


def test_a_client_is_a_context_that_closes(service):
    with Client(
        str(service), integration_name="acme", api_key="key-otherwise", api_secret="secret-otherwise"
    ) as client:
        assert client.list_users().count == 5
    assert (
        repr(create_client("awaiting", service).client)
        == f"AsyncClient('{service}', integration_name='acme')"
    )


def test_an_awaiting_client_says_that_it_belongs_to_another_loop():
    with deviating_server.running() as service:
        client = AsyncClient(
            str(service), integration_name="acme", api_key="key-otherwise", api_secret="secret-otherwise"
        )

        async def once():
            return (await client.list_users()).count

        with asyncio.Runner() as runner:
            assert runner.run(once()) == 5
            with pytest.raises(ConfigurationError, match="belongs to one event loop"):
                asyncio.run(once())
            runner.run(client.aclose())
