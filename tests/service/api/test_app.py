"""The API over HTTP: authentication, routing, encodings, and errors."""

import http.client
import json
import re
import socket
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from sqlalchemy import delete, update
from support.services import JANE, a_service, json_body, stored_in

import exposurekit
from exposurekit.contract import codec
from exposurekit.contract.operations import OPERATIONS
from exposurekit.contract.schema import shape_of_model
from exposurekit.service.accounts import users
from exposurekit.service.errors import ApiError
from exposurekit.service.storage import tables

KEY = "the integration name or the api_key is not accepted"
SECRET = "the api_secret is not accepted"
USER = "the user's id or secret is not accepted"


def path_of(operation, user):
    ids = {"user_id": user["id"], "id": user["record_id"] if "user_id" in operation.names else user["id"]}
    return operation.path.format(**ids)


def status_and_error(response):
    return response.status_code, response.json()["error"]


def post(service, content, media_type):
    return service.call("POST", "/users", content=content, headers={"content-type": media_type})


every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
of_one_user = pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if "secret" in one.names], ids=lambda operation: operation.name
)


@every_operation
@pytest.mark.parametrize("wrong", ["name", "key", "both", "empty key"])
def test_an_unknown_name_or_key_is_checked_first(service, jane, operation, wrong):
    """Authentication, rule 3: missing or invalid api_key gives 401."""
    name = "acme" if "key" in wrong else "nobody"
    key = {"name": service.credentials.api_key, "empty key": ""}.get(wrong, "wrong")
    url = f"{service.base_url}/api/{name}/{key}/v2{path_of(operation, jane)}"
    bodies = {}, {"content": "{", "headers": {"content-type": "application/json"}}
    responses = [service.http.request(operation.method, url, **body) for body in bodies]
    assert [status_and_error(response) for response in responses] == [(401, KEY)] * 2


def test_the_person_of_the_manual_is_registered_with_every_value(service):
    manual = (Path(exposurekit.__file__).parent / "service" / "README.md").read_text()
    person = json.loads(re.search(r"```json\n(.*?)```", manual, re.DOTALL)[1])
    person["api_secret"] = service.credentials.api_secret
    url = f"{service.base_url}/api/acme/{service.credentials.api_key}/v2/users.json"
    response = service.http.post(url, json=person | {"async": True})
    assert response.status_code == 200, response.text
    user = response.json()["user"]
    for name in ("addresses", "emails", "aliases"):
        [stored], [sent] = user[name], person[name]
        assert {key: stored[key] for key in sent} == sent
    assert user["phone_numbers"][0]["number"] == "5555550123"
    for name in ("birth_date", "first_name", "middle_name", "last_name"):
        assert user[name] == person[name]


@every_operation
def test_a_missing_or_wrong_secret_is_an_error(service, jane, operation):
    """Not in the specification: missing api_secret or secret -> 400."""
    url = service.root + path_of(operation, jane)
    names = ["api_secret", "secret"] if "secret" in operation.names else ["api_secret"]
    missing = service.http.request(operation.method, url)
    assert status_and_error(missing) == (400, ", ".join(f"{name} is missing" for name in names))
    query = {"api_secret": "wrong", "secret": jane["secret"]}
    assert status_and_error(service.http.request(operation.method, url, params=query)) == (401, SECRET)


@of_one_user
def test_unknown_users_and_wrong_secrets_get_the_same_response(service, jane, operation):
    """Authentication, rule 3: a user id and secret that do not match give 401."""
    wrong = service.call(operation.method, path_of(operation, jane), {"secret": "123456789012345678"})
    unknown = service.call(operation.method, path_of(operation, jane | {"id": 2**62}), jane)
    other = service.call(operation.method, path_of(operation, jane), service.create())
    assert status_and_error(wrong) == (401, USER)
    assert wrong.content == unknown.content == other.content
    responses = [{**response.headers, "date": ""} for response in (wrong, unknown, other)]
    assert responses[0] == responses[1] == responses[2]


@of_one_user
@pytest.mark.parametrize(
    "wrong", ["x", "-1", "1e3", "\N{FULLWIDTH DIGIT NINE}", str(2**63), "%20", "1" * 400]
)
def test_an_invalid_id_is_a_400(service, jane, operation, wrong):
    name = "user_id" if "user_id" in operation.names else "id"
    path = operation.path.replace(f"{{{name}}}", wrong).replace("{id}", "1")
    assert status_and_error(service.call(operation.method, path, jane)) == (400, f"{name} is invalid")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("x", f"it must be an integer from 0 to {2**63 - 1}"),
        ("0", "the user has no such record"),
        (str(2**63), f"it must be an integer from 0 to {2**63 - 1}"),
        ("%20", "the user has no such record"),
    ],
)
def test_an_invalid_record_id_is_a_400(service, jane, wrong, reason):
    """Not in the specification: record id unknown -> 400."""
    response = service.call("GET", f"/users/{jane['id']}/records/{wrong}", jane)
    assert status_and_error(response) == (400, f"id is invalid: {reason}")


@pytest.mark.parametrize("wrong", [[], {}, True, 1.5])
def test_a_secret_may_be_an_integer_but_nothing_else(service, jane, wrong):
    """Update user: "secret | integer as declared"."""
    body, url = {"api_secret": service.credentials.api_secret}, f"{service.root}/users/{jane['id']}"
    response = service.http.put(url, json=body | {"secret": wrong})
    assert status_and_error(response) == (400, "secret is invalid")
    updated = json_body(service.http.put(url, json=body | {"secret": int(jane["secret"])}))
    assert updated["user"]["id"] == jane["id"]


def test_credentials_may_be_sent_in_headers(service, jane):
    headers = {"X-Api-Secret": service.credentials.api_secret, "X-User-Secret": jane["secret"]}
    assert service.http.get(f"{service.root}/users/{jane['id']}", headers=headers).status_code == 200


@pytest.mark.parametrize("where", ["query", "body", "header"])
def test_two_values_for_one_name_are_rejected(service, jane, where):
    """Not in the specification: the same name in two places with two values -> 400."""
    both = {"api_secret": service.credentials.api_secret, "secret": jane["secret"], "id": jane["id"]}
    options = {
        "query": {"params": [*both.items(), ("secret", "1")]},
        "body": {"params": both, "json": {"id": jane["id"] + 1}},
        "header": {"params": both, "headers": {"X-User-Secret": "1"}},
    }[where]
    response = service.http.put(f"{service.root}/users/{jane['id']}", **options)
    assert response.status_code == 400
    assert "two" in response.json()["error"]


def test_the_same_value_may_be_sent_twice(service, jane):
    values = {"api_secret": service.credentials.api_secret, "secret": jane["secret"]}
    values |= {"id": jane["id"], "api_key": service.credentials.api_key}
    response = service.http.put(f"{service.root}/users/{jane['id']}", params=values, json=values)
    assert response.status_code == 200


PERSON = {
    "first_name": "Jane",
    "last_name": "Doe",
    "addresses": [{"city": "Oakmere", "state": "CA"}, {"city": "Fernhill", "state": "NY"}],
    "emails": [{"address": "a@x.example"}, {"address": "b@x.example"}],
}
RAILS = [
    ("first_name", "Jane"),
    ("last_name", "Doe"),
    ("addresses[][city]", "Oakmere"),
    ("addresses[][state]", "CA"),
    ("addresses[][city]", "Fernhill"),
    ("addresses[][state]", "NY"),
    ("emails[0][address]", "a@x.example"),
    ("emails[1][address]", "b@x.example"),
]
FLAT = [
    ("first_name", "Jane"),
    ("last_name", "Doe"),
    ("addresses", json.dumps(PERSON["addresses"])),
    ("emails", "a@x.example, b@x.example"),
]
XML = """<?xml version="1.0" encoding="UTF-8"?>
<user><first-name>Jane</first-name><last_name>Doe</last_name>
<addresses type="array"><address><city>Oakmere</city><state>CA</state></address>
<address><city>Fernhill</city><state>NY</state></address></addresses>
<emails><email><address>a@x.example</address></email><email><address>b@x.example</address></email></emails></user>"""
XML_TYPE = "application/xml; charset=utf-8"
FORM = {"content-type": "application/x-www-form-urlencoded"}
BODIES = {
    "json": {"json": PERSON},
    "form": {"content": urlencode(RAILS), "headers": FORM},
    "flat form": {"content": urlencode(FLAT), "headers": FORM},
    "multipart": {"files": [(name, (None, value)) for name, value in RAILS]},
    "xml": {"content": XML, "headers": {"content-type": "application/xml; charset=utf-8"}},
    "text xml": {"content": XML, "headers": {"content-type": "text/xml"}},
    "query": {"params": FLAT},
    "query and body": {"params": FLAT[:2], "json": {name: PERSON[name] for name in ("addresses", "emails")}},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_user_may_be_created_in_every_encoding(service, body):
    """Where the specification is silent: "where parameters travel"."""
    headers = {"X-Api-Secret": service.credentials.api_secret, **body.get("headers", {})}
    user = json_body(service.http.post(f"{service.root}/users", **body | {"headers": headers}))["user"]
    assert [{key: one[key] for key in ("city", "state")} for one in user["addresses"]] == PERSON["addresses"]
    assert [{"address": one["address"]} for one in user["emails"]] == PERSON["emails"]


@pytest.mark.parametrize("body", ['{"first_name": "Canary"}', '\n [{"first_name": "Canary"}]'])
def test_json_sent_as_a_form_names_its_content_type(service, body):
    headers = FORM | {"X-Api-Secret": service.credentials.api_secret}
    response = service.http.post(f"{service.root}/users", content=body, headers=headers)
    problem = "not a form: it looks like JSON; send it with Content-Type: application/json"
    assert status_and_error(response) == (400, problem)


def test_a_query_with_braces_is_no_json(service):
    headers = {"X-Api-Secret": service.credentials.api_secret}
    assert service.http.get(f"{service.root}/users?{{x}}=1", headers=headers).status_code == 200


def test_an_empty_element_clears_and_an_empty_array_does_not(service):
    """Update user, rule 5, in XML."""
    user = service.create(middle_name="Q", emails="a@x.example", aliases="Janie Doe", birth_date=5)
    body = (
        '<hash><middle-name/><emails></emails><aliases type="array"/><last-name nil="true"/><birth-date></birth-date>'
        f'<addresses type="array"><address><id type="integer">{user["addresses"][0]["id"]}</id><city/></address>'
        "</addresses></hash>"
    )
    headers = {"content-type": "application/xml"}
    response = service.call("PUT", f"/users/{user['id']}", user, content=body, headers=headers)
    cleared = user | {"middle_name": "", "emails": [], "birth_date": None}
    assert json_body(response)["user"] == cleared | {"addresses": [user["addresses"][0] | {"city": ""}]}


@pytest.mark.parametrize("operation", OPERATIONS[1:], ids=lambda operation: operation.name)
def test_responses_in_json_and_xml_have_the_same_content(service, jane, operation):
    """Specification: each path ends with an optional suffix selecting the encoding."""
    path = path_of(operation, jane)
    bare = service.call(operation.method, path, jane)
    as_json = service.call(operation.method, path + ".json", jane)
    as_xml = service.call(operation.method, path + ".xml", jane)
    accepted = service.call(operation.method, path, jane, headers={"accept": "application/xml"})
    assert [one.headers["content-type"] for one in (bare, as_json)] == ["application/json"] * 2
    assert [one.headers["content-type"] for one in (as_xml, accepted)] == [XML_TYPE] * 2
    assert bare.content == as_json.content
    assert as_xml.content == accepted.content
    shape = shape_of_model(operation.reply)
    one, other = (
        operation.reply.model_validate(codec.decode(response.content, encoding, shape))
        for response, encoding in ((as_json, "json"), (as_xml, "xml"))
    )
    assert one.model_dump(exclude={"total"}) == other.model_dump(exclude={"total"})


def test_the_suffix_takes_precedence_over_the_accept_header(service):
    response = service.call("GET", "/users.json", headers={"accept": "application/xml"})
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path", ["/users.csv", "/users/1.html", "/users/", "/people", "/users/1/records/1.5", "/users/1/2"]
)
def test_an_unknown_path_or_suffix_is_a_404(service, path):
    assert status_and_error(service.call("GET", path)) == (404, "there is nothing at this path")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/users", {"GET", "HEAD", "POST"}),
        ("POST", "/users/1.json", {"GET", "HEAD", "PUT"}),
        ("PUT", "/users/1/records", {"GET", "HEAD"}),
        ("PATCH", "/users/1/alerts.xml", {"GET", "HEAD"}),
        ("TRACE", "/users", {"GET", "HEAD", "POST"}),
    ],
)
def test_another_method_is_a_405_with_the_allowed_ones(service, method, path, allowed):
    response = service.call(method, path)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == allowed


def test_errors_are_in_the_requested_encoding(service):
    """Where the specification is silent: "error body"."""
    response = service.http.get(f"{service.root}/users.xml")
    assert response.headers["content-type"] == XML_TYPE
    assert response.text == (
        '<?xml version="1.0" encoding="UTF-8"?>\n<error>\n  <message>api_secret is missing</message>\n</error>\n'
    )
    assert service.call("PATCH", "/users.xml").text.startswith("<?xml")
    assert service.call("GET", "/nowhere.xml").text.startswith("<?xml")


@every_operation
def test_no_response_may_be_cached_or_sniffed(service, jane, operation):
    for secret in ({"secret": "wrong"}, jane):
        response = service.call(operation.method, path_of(operation, jane), secret)
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"


INVALID_JSON = (
    *("{", "[]", '{"birth_date": NaN}', '{"birth_date": 1e999}', "[" * 100_000, '{"first_name": "\\ud800"}'),
    *('{"birth_date": ' + "9" * 100_000 + "}", '{"birth_date": "2020-01-01' + " " * 100_000 + 'x y"}'),
    b'{"first_name": "\xff"}',
    *('{"a": [' + "[]," * 10_000 + "1]}", '{"a": [' + ("[" * 50 + "]" * 50 + ",") * 250 + "1]}"),
)
INVALID_XML = (
    *("<hash>", '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "<a>" * 1000 + "</a>" * 1000),
    "<hash><emails>" + "<a/>" * 30_000 + "</emails></hash>",
)
INVALID_FORMS = (
    "first_name=%FF",
    b"first_name=\xff",
    "a=1&" * 6000,
    "addresses=[" + "[]," * 10_000 + "1]",
    "emails[][address]=a&emails=b",
)
PART = '--b\r\ncontent-disposition: form-data; name="{}"\r\n\r\n{}\r\n--b--\r\n'


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        *((content, "application/json", 400) for content in INVALID_JSON),
        *((content, "application/xml", 400) for content in INVALID_XML),
        *((content, FORM["content-type"], 400) for content in INVALID_FORMS),
        ("a", "multipart/form-data", 400),
        ("a", "multipart/form-data; boundary=b", 400),
        (PART.format("first_name", "\xff").encode("latin-1"), "multipart/form-data; boundary=b", 400),
        ("first_name: Jane", "application/yaml", 415),
        ("first_name=Jane", "", 415),
        (b"x" * (2**18 + 1), "application/json", 413),
        (b"x" * (2**18 + 1), "text/plain", 413),
    ],
    ids=str,
)
def test_an_unreadable_body_is_rejected(service, content, media_type, status):
    response = post(service, content, media_type)
    assert response.status_code == status, response.text


def test_a_file_upload_is_rejected(service):
    response = service.call("POST", "/users", files={"first_name": ("a.txt", b"Jane")})
    assert status_and_error(response) == (400, "not a complete multipart form of plain fields in UTF-8")


def test_a_body_just_within_the_limit_is_read(service):
    body = json.dumps(JANE | {"padding": ""}).encode()
    body = body[:-2] + b"x" * (2**18 - len(body)) + body[-2:]
    assert post(service, body, "application/json").status_code == 200


def test_a_body_without_a_length_is_counted_as_it_arrives(service):
    response = service.call("POST", "/users", content=(b"x" * 2**16 for _ in range(40)))
    assert status_and_error(response) == (413, "the body must not be larger than 256 KiB")


@contextmanager
def unfinished(service, size, sent):
    """A request that has sent a part of its body."""
    address = urlsplit(service.root)
    with closing(http.client.HTTPConnection(address.hostname, address.port, timeout=10)) as connection:
        connection.putrequest("POST", address.path + "/users")
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", str(size))
        connection.endheaders(sent)
        yield connection


def test_a_body_that_does_not_arrive_times_out(tmp_path):
    with a_service(tmp_path, body_timeout_s=0.05) as service, unfinished(service, 10, b"{") as connection:
        response = connection.getresponse()
        assert (response.status, json.load(response)) == (400, {"error": "the body did not arrive in time"})


def test_a_body_that_does_not_end_makes_way_for_others(tmp_path):
    with a_service(tmp_path, body_memory_max=2_000) as service:
        with unfinished(service, 2_000, b"{" + b" " * 1_980) as connection:
            for _ in range(20):  # meanwhile the service reads what was sent
                assert service.call("GET", "/users").status_code == 200
            assert service.create()["first_name"] == "Jane"
            response = connection.getresponse()
            assert (response.status, response.headers["retry-after"]) == (503, "5")
        response = service.call("POST", "/users", json=JANE | {"padding": "x" * 2_000})
        assert (response.status_code, response.headers["retry-after"]) == (503, "5")
        assert service.create()["first_name"] == "Jane"


def test_health_needs_no_key_and_asks_the_database(tmp_path):
    with stored_in("sqlite"), a_service(tmp_path) as service:
        address = f"{service.base_url}/health"
        assert service.http.get(address).json() == {"status": "ok"}
        refused = service.http.post(address)
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
        (tmp_path / "service.db").rename(tmp_path / "elsewhere.db")
        service.becomes_unavailable()
        assert service.http.get(address).status_code == 503
        (tmp_path / "elsewhere.db").rename(tmp_path / "service.db")
        assert service.http.get(address).status_code == 200


def test_a_cut_connection_does_not_disturb_the_service(service):
    address = urlsplit(service.root)
    with socket.create_connection((address.hostname, address.port)) as caller:
        caller.sendall(
            f"POST {address.path}/users HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode()
        )
    assert service.call("GET", "/users").status_code == 200


def test_an_internal_error_is_a_500_without_details(tmp_path):
    with a_service(tmp_path) as service:
        user = service.create()

        async def spoil(work):
            await work.run(update(tables.users), {"ciphertext": b"spoiled"})
            await work.run(delete(tables.user_documents))

        service.work(spoil)
        broken = service.call("GET", f"/users/{user['id']}", user)
        assert status_and_error(broken) == (500, "the service failed")
        assert broken.headers["cache-control"] == "no-store"
        assert service.call("GET", f"/users/{user['id']}.xml", user).text.startswith("<?xml")
        assert service.call("GET", "/users").status_code == 200


def test_a_head_is_a_get_without_a_body(service, jane):
    response = service.call("HEAD", f"/users/{jane['id']}", jane)
    assert (response.status_code, response.content) == (200, b"")


def test_a_truncated_form_changes_nothing(service):
    """Not in the specification: an update is all or nothing."""
    user = service.create()
    part = PART.removesuffix("--b--\r\n")
    cut = part.format("last_name", "New") + part.format("first_name", "New")[:-5]
    headers = {"content-type": "multipart/form-data; boundary=b"}
    assert service.call("PUT", f"/users/{user['id']}", user, content=cut, headers=headers).status_code == 400
    assert service.get(user)["user"]["last_name"] == user["last_name"]


def test_two_headers_with_different_secrets_are_rejected(service):
    headers = [("X-Api-Secret", service.credentials.api_secret), ("X-Api-Secret", "other")]
    response = service.http.get(f"{service.root}/users", headers=headers)
    assert status_and_error(response) == (400, "api_secret is given two different values")


def test_no_user_is_created_for_a_deleted_integrator(service):
    """Authentication preceded the deletion."""

    async def create(work):
        await users.create(work, 10**9, {"first_name": "A", "last_name": "B", "addresses": None})

    with pytest.raises(ApiError, match="not accepted") as refusal:
        service.work(create)
    assert refusal.value.status == 401


def test_a_locked_database_is_a_503_with_retry_after(tmp_path):
    with stored_in("sqlite"), a_service(tmp_path, store={"busy_timeout_s": 0.2}) as service:
        [file] = tmp_path.glob("*.db")
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            response = service.call("POST", "/users", json=JANE)
            other.execute("ROLLBACK")
        assert status_and_error(response) == (503, "the database is not available")
        assert response.headers["retry-after"] == "5"
        assert service.call("POST", "/users", json=JANE).status_code == 200
