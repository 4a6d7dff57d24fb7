"""The service at its door: who is let in, in which order, in which encodings, and what it says when it says no."""

import http.client
import json
import socket
import sqlite3
from contextlib import closing
from urllib.parse import urlencode, urlsplit

import pytest
from sqlalchemy import update
from support.services import JANE, LISTING, PAGE, SITE, a_service, json_body, stored_in

from exposurekit.contract import codec
from exposurekit.contract.operations import OPERATIONS
from exposurekit.contract.schema import shape_of_model
from exposurekit.service.accounts import users
from exposurekit.service.errors import ApiError
from exposurekit.service.findings.findings import discover_link, discover_record
from exposurekit.service.storage import tables

KEY = "the integration name or the api_key is not accepted"
SECRET = "the api_secret is not accepted"
USER = "the user's id or secret is not accepted"


@pytest.fixture(scope="module")
def jane(service):
    user = service.create(emails="jane@club.example", middle_name="Quentin")

    async def find(work):
        user["record_id"] = await discover_record(work, user["id"], LISTING, SITE)
        await discover_link(work, user["id"], PAGE)

    service.work(find)
    return user


def path_of(operation, user):
    ids = {"user_id": user["id"], "id": user["record_id"] if "user_id" in operation.names else user["id"]}
    return operation.path.format(**ids)


def status_and_error(response):
    return response.status_code, response.json()["error"]


every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
of_one_user = pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.of_one_user], ids=lambda operation: operation.name
)


@every_operation
@pytest.mark.parametrize("wrong", ["name", "key", "both", "empty key"])
def test_an_unknown_name_or_key_comes_before_everything(service, jane, operation, wrong):
    """Authentication, rule 3: missing or invalid api_key gives 401."""
    name = "acme" if "key" in wrong else "nobody"
    key = {"name": service.credentials.api_key, "empty key": ""}.get(wrong, "wrong")
    url = f"{service.base_url}/api/{name}/{key}/v2{path_of(operation, jane)}"
    bare = service.http.request(operation.method, url)
    broken = service.http.request(
        operation.method, url, content="{", headers={"content-type": "application/json"}
    )
    assert status_and_error(bare) == status_and_error(broken) == (401, KEY)


@every_operation
def test_a_missing_secret_is_a_400(service, jane, operation):
    """Not in the specification: missing api_secret or secret -> 400."""
    response = service.http.request(operation.method, service.root + path_of(operation, jane))
    names = ["api_secret", "secret"] if operation.of_one_user else ["api_secret"]
    assert status_and_error(response) == (400, ", ".join(f"{name} is missing" for name in names))


@every_operation
def test_a_wrong_api_secret_is_a_401(service, jane, operation):
    query = {"api_secret": "wrong", "secret": jane["secret"]}
    response = service.http.request(operation.method, service.root + path_of(operation, jane), params=query)
    assert status_and_error(response) == (401, SECRET)


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
def test_an_id_that_is_none_is_a_400(service, jane, operation, wrong):
    name = "user_id" if "user_id" in operation.names else "id"
    path = operation.path.replace(f"{{{name}}}", wrong).replace("{id}", "1")
    assert status_and_error(service.call(operation.method, path, jane)) == (400, f"{name} is invalid")


@pytest.mark.parametrize("wrong", ["x", "0", str(2**63), "%20"])
def test_a_record_id_that_is_none_is_a_400(service, jane, wrong):
    """Not in the specification: record id unknown -> 400."""
    response = service.call("GET", f"/users/{jane['id']}/records/{wrong}", jane)
    assert status_and_error(response) == (400, "id is invalid")


@pytest.mark.parametrize("wrong", [[], {}, True, 1.5])
def test_a_secret_that_is_no_text_is_a_400(service, jane, wrong):
    body = {"api_secret": service.credentials.api_secret, "secret": wrong}
    response = service.http.put(f"{service.root}/users/{jane['id']}", json=body)
    assert status_and_error(response) == (400, "secret is invalid")


def test_a_secret_may_be_sent_as_an_integer(service, jane):
    """Update user: "secret | integer as declared"."""
    body = {"api_secret": service.credentials.api_secret, "secret": int(jane["secret"])}
    assert (
        json_body(service.http.put(f"{service.root}/users/{jane['id']}", json=body))["user"]["id"]
        == jane["id"]
    )


def test_credentials_may_travel_in_headers(service, jane):
    headers = {"X-Api-Secret": service.credentials.api_secret, "X-User-Secret": jane["secret"]}
    assert service.http.get(f"{service.root}/users/{jane['id']}", headers=headers).status_code == 200


@pytest.mark.parametrize("where", ["query", "body", "header"])
def test_one_name_with_two_values_is_refused(service, jane, where):
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


def test_one_name_with_one_value_in_many_places_is_fine(service, jane):
    both = {"api_secret": service.credentials.api_secret, "secret": jane["secret"]}
    told_twice = both | {"id": jane["id"], "api_key": service.credentials.api_key}
    response = service.http.put(f"{service.root}/users/{jane['id']}", params=told_twice, json=told_twice)
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
def test_a_person_may_be_told_in_every_encoding(service, body):
    """Where the specification is silent: "where parameters travel"."""
    headers = {"X-Api-Secret": service.credentials.api_secret, **body.get("headers", {})}
    user = json_body(service.http.post(f"{service.root}/users", **body | {"headers": headers}))["user"]
    assert [(one["city"], one["state"]) for one in user["addresses"]] == [
        ("Oakmere", "CA"),
        ("Fernhill", "NY"),
    ]
    assert [one["address"] for one in user["emails"]] == ["a@x.example", "b@x.example"]


def test_an_empty_element_clears_and_an_empty_array_does_not(service):
    """Update user, rule 5, in XML."""
    user = service.create(middle_name="Q", emails="a@x.example", aliases="Janie Doe", birth_date=5)
    body = (
        '<hash><middle-name/><emails></emails><aliases type="array"/><last-name nil="true"/><birth-date></birth-date>'
        f'<addresses type="array"><address><id type="integer">{user["addresses"][0]["id"]}</id><city/></address>'
        "</addresses></hash>"
    )
    headers = {"content-type": "application/xml"}
    updated = json_body(service.call("PUT", f"/users/{user['id']}", user, content=body, headers=headers))[
        "user"
    ]
    cleared = user | {"middle_name": "", "emails": [], "birth_date": None}
    assert updated == cleared | {"addresses": [user["addresses"][0] | {"city": ""}]}


@pytest.mark.parametrize("operation", OPERATIONS[1:], ids=lambda operation: operation.name)
def test_every_answer_is_the_same_in_json_and_xml(service, jane, operation):
    """Specification: each path ends with an optional suffix selecting the encoding."""
    path = path_of(operation, jane)
    bare = service.call(operation.method, path, jane)
    as_json = service.call(operation.method, path + ".json", jane)
    as_xml = service.call(operation.method, path + ".xml", jane)
    accepted = service.call(operation.method, path, jane, headers={"accept": "application/xml"})
    assert [one.headers["content-type"] for one in (bare, as_json)] == ["application/json"] * 2
    assert [one.headers["content-type"] for one in (as_xml, accepted)] == ["application/xml"] * 2
    assert bare.content == as_json.content
    assert as_xml.content == accepted.content
    one, other = (
        operation.reply.model_validate(
            codec.decode(response.content, told_in, shape_of_model(operation.reply))
        )
        for response, told_in in ((as_json, "json"), (as_xml, "xml"))
    )
    assert one.model_dump(exclude={"total"}) == other.model_dump(exclude={"total"})


def test_the_suffix_comes_before_the_accept_header(service):
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
        ("BREW", "/users/1/alerts.xml", {"GET", "HEAD"}),
    ],
)
def test_another_method_is_a_405_that_says_which_are_taken(service, method, path, allowed):
    response = service.call(method, path)
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == allowed


def test_errors_are_in_the_requested_encoding(service):
    """Where the specification is silent: "error body"."""
    response = service.http.get(f"{service.root}/users.xml")
    assert response.headers["content-type"] == "application/xml"
    assert response.text == (
        '<?xml version="1.0" encoding="UTF-8"?>\n<error>\n  <message>api_secret is missing</message>\n</error>\n'
    )
    assert service.call("PATCH", "/users.xml").text.startswith("<?xml")
    assert service.call("GET", "/nowhere.xml").text.startswith("<?xml")


@every_operation
def test_no_answer_may_be_cached_or_guessed_at(service, jane, operation):
    for secret in ({"secret": "wrong"}, jane):
        response = service.call(operation.method, path_of(operation, jane), secret)
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [
        ("{", "application/json", 400),
        ("[]", "application/json", 400),
        ('{"birth_date": NaN}', "application/json", 400),
        ('{"birth_date": 1e999}', "application/json", 400),
        ("[" * 100_000, "application/json", 400),
        ('{"birth_date": ' + "9" * 100_000 + "}", "application/json", 400),
        (b'{"first_name": "\xff"}', "application/json", 400),
        ('{"first_name": "\\ud800"}', "application/json", 400),
        ("<hash>", "application/xml", 400),
        ('<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>', "application/xml", 400),
        ("<a>" * 1000 + "</a>" * 1000, "application/xml", 400),
        ("first_name=%FF", "application/x-www-form-urlencoded", 400),
        (b"first_name=\xff", "application/x-www-form-urlencoded", 400),
        ("a=1&" * 6000, "application/x-www-form-urlencoded", 400),
        ("emails[][address]=a&emails=b", "application/x-www-form-urlencoded", 400),
        ("a", "multipart/form-data", 400),
        ("a", "multipart/form-data; boundary=b", 400),
        (
            b'--b\r\ncontent-disposition: form-data; name="first_name"\r\n\r\n\xff\r\n--b--\r\n',
            "multipart/form-data; boundary=b",
            400,
        ),
        ('{"birth_date": "2020-01-01' + " " * 100_000 + 'x y"}', "application/json", 400),
        ("<hash><emails>" + "<a/>" * 30_000 + "</emails></hash>", "application/xml", 400),
        ("first_name: Jane", "application/yaml", 415),
        ("first_name=Jane", "", 415),
        (b"x" * (2**20 + 1), "application/json", 413),
        (b"x" * (2**20 + 1), "text/plain", 413),
    ],
    ids=str,
)
def test_a_body_that_cannot_be_read_is_refused(service, content, media_type, status):
    response = service.call("POST", "/users", content=content, headers={"content-type": media_type})
    assert response.status_code == status, response.text


def test_a_file_is_no_parameter(service):
    response = service.call("POST", "/users", files={"first_name": ("a.txt", b"Jane")})
    assert status_and_error(response) == (400, "not a complete multipart form of plain fields in UTF-8")


def test_a_body_just_within_the_limit_is_read(service):
    body = json.dumps(JANE | {"padding": ""}).encode()
    body = body[:-2] + b"x" * (2**20 - len(body)) + body[-2:]
    headers = {"content-type": "application/json"}
    assert service.call("POST", "/users", content=body, headers=headers).status_code == 200


def test_a_body_without_a_length_is_counted_as_it_arrives(service):
    response = service.call("POST", "/users", content=(b"x" * 2**16 for _ in range(40)))
    assert status_and_error(response) == (413, "the body must not be larger than 1048576 bytes")


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path):
    with a_service(tmp_path, body_timeout_s=0.05) as service:
        address = urlsplit(service.base_url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=10)
        connection.putrequest("POST", urlsplit(service.root).path + "/users")
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", "10")
        connection.endheaders(b"{")
        response = connection.getresponse()
        assert (response.status, json.load(response)) == (400, {"error": "the body did not arrive in time"})
        connection.close()


def test_a_caller_who_hangs_up_harms_nobody(service):
    address = urlsplit(service.base_url)
    with socket.create_connection((address.hostname, address.port)) as caller:
        path = urlsplit(service.root).path
        caller.sendall(f"POST {path}/users HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{{".encode())
    assert service.call("GET", "/users").status_code == 200


def test_a_fault_inside_is_a_500_that_says_nothing(tmp_path):
    with a_service(tmp_path) as service:
        user = service.create()

        async def spoil(work):
            await work.run(update(tables.users), {"ciphertext": b"spoiled"})

        service.work(spoil)
        broken = service.call("GET", f"/users/{user['id']}", user)
        assert status_and_error(broken) == (500, "the service failed")
        assert broken.headers["cache-control"] == "no-store"
        assert service.call("GET", f"/users/{user['id']}.xml", user).text.startswith("<?xml")
        assert service.call("GET", "/users").status_code == 200


def test_a_head_is_a_get_without_a_body(service, jane):
    response = service.call("HEAD", f"/users/{jane['id']}", jane)
    assert (response.status_code, response.content) == (200, b"")


def test_a_form_that_was_cut_changes_nothing(service):
    """Not in the specification: an update is all or nothing."""
    user = service.create()
    part = '--b\r\ncontent-disposition: form-data; name="{}"\r\n\r\n{}\r\n'
    cut = part.format("last_name", "New") + part.format("first_name", "New")[:-5]
    headers = {"content-type": "multipart/form-data; boundary=b"}
    assert service.call("PUT", f"/users/{user['id']}", user, content=cut, headers=headers).status_code == 400
    assert service.get(user)["user"]["last_name"] == user["last_name"]


def test_a_stranger_is_refused_before_the_body_is_read(service):
    response = service.http.post(
        f"{service.base_url}/api/nobody/nothing/v2/users",
        content="<!DOCTYPE a><a/>",
        headers={"content-type": "application/xml"},
    )
    assert response.status_code == 401


def test_a_secret_in_two_headers_with_two_values_is_refused(service):
    headers = [("X-Api-Secret", service.credentials.api_secret), ("X-Api-Secret", "other")]
    response = service.http.get(f"{service.root}/users", headers=headers)
    assert status_and_error(response) == (400, "api_secret is given two different values")


def test_no_user_is_created_for_a_deleted_integrator(service):
    """The gate was passed before it was removed."""

    async def create(work):
        await users.create(work, 10**9, {"first_name": "A", "last_name": "B", "addresses": None})

    with pytest.raises(ApiError, match="not accepted") as refusal:
        service.work(create)
    assert refusal.value.status == 401


def test_a_locked_database_is_an_error_that_asks_to_retry(tmp_path):
    with stored_in("sqlite"), a_service(tmp_path, store={"busy_timeout_s": 0.2}) as service:
        [file] = tmp_path.glob("*.db")
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            response = service.call("POST", "/users", json=JANE)
            other.execute("ROLLBACK")
        assert status_and_error(response) == (503, "the database is not available")
        assert response.headers["retry-after"] == "5"
        assert service.call("POST", "/users", json=JANE).status_code == 200
