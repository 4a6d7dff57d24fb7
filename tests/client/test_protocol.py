"""A call as a request, and an answer as a reply or an error. No byte moves here."""

import gzip
import json
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import faults

from exposurekit.client import calls, error_masking, protocol
from exposurekit.client.config import ClientConfig
from exposurekit.client.retry import Response, TransportFailure
from exposurekit.errors import APIStatusError, BadRequest, ConnectionFailed, InvalidResponse, Unauthorized

KEY = (12, "ab 12/&")
ACCESS = {
    "base_url": "https://service.example",
    "integration_name": "acme",
    "api_key": "key-1",
    "api_secret": "s&cret=1 ?",
}
PERSON = {
    "first_name": "Odalys",
    "last_name": "Fennimoor",
    "addresses": [{"city": "Tall Pines", "state": "OR", "zip": "01234"}],
}
CREATE = calls.create_user(**PERSON)
UPDATE = calls.update_user(KEY, first_name="Oda", middle_name="", emails=[{"id": 2, "_destroy": True}])
PATHS = [
    (CREATE, "POST", "/users"),
    (calls.list_users(), "GET", "/users"),
    (calls.get_user(KEY), "GET", "/users/12"),
    (UPDATE, "PUT", "/users/12"),
    (calls.list_user_records(KEY), "GET", "/users/12/records"),
    (calls.get_record(KEY, 120), "GET", "/users/12/records/120"),
    (calls.list_user_links(KEY), "GET", "/users/12/links"),
    (calls.get_user_alerts(KEY), "GET", "/users/12/alerts"),
]
EACH = pytest.mark.parametrize(("call", "method", "path"), PATHS, ids=[repr(call) for call, *_ in PATHS])


def access(**manner):
    return ClientConfig(**ACCESS | manner)


def built_request(call, **manner):
    return protocol.request(call, access(**manner))


def query(request):
    return dict(parse_qsl(urlsplit(request.url).query, keep_blank_values=True, strict_parsing=False))


def form(request):
    return parse_qs(request.body.decode(), keep_blank_values=True)


# --- asking -------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("format", ["json", "xml"])
def test_each_operation_has_its_method_path_and_format(call, method, path, format):  # noqa: A002
    request = built_request(call, format=format)
    assert request.method == method
    assert urlsplit(request.url).path == f"/api/acme/key-1/v2{path}.{format}"
    assert request.headers["Accept"] == f"application/{format}"


@pytest.mark.parametrize("base_url", ["https://service.example/at/", "https://service.example/at"])
def test_a_mounted_service_is_found_below_its_base_url(base_url):
    assert (
        urlsplit(built_request(calls.list_users(), base_url=base_url).url).path
        == "/at/api/acme/key-1/v2/users.json"
    )


def test_names_and_keys_are_quoted_in_the_path():
    request = built_request(calls.list_users(), integration_name="a/b c", api_key="k?1#é%")
    assert urlsplit(request.url).path == "/api/a%2Fb%20c/k%3F1%23%C3%A9%25/v2/users.json"


@EACH
def test_credentials_are_in_the_query_or_the_body_by_method(call, method, path):
    request = built_request(call)
    secrets = {"api_secret": "s&cret=1 ?"} | ({} if call.secret is None else {"secret": "ab 12/&"})
    if method == "GET":
        assert query(request) == secrets
        assert request.body is None
    else:
        assert query(request) == {}
        assert json.loads(request.body).items() >= secrets.items()


@EACH
def test_credentials_in_query_are_in_the_query_always(call, method, path):
    request = built_request(call, credentials_in="query")
    assert query(request).items() >= {"api_secret": "s&cret=1 ?"}.items()
    assert ("secret" in query(request)) == (call.secret is not None)
    assert b"secret" not in (request.body or b"")


@EACH
def test_credentials_in_body_need_a_body(call, method, path):
    request = built_request(call, credentials_in="body")
    assert ("api_secret" in query(request)) == (method == "GET")
    assert (b"api_secret" in (request.body or b"")) == (method != "GET")


@EACH
def test_credentials_in_headers_are_nowhere_else(call, method, path):
    request = built_request(call, credentials_in="header")
    assert request.headers["X-Api-Secret"] == "s&cret=1 ?"
    assert request.headers.get("X-User-Secret") == call.secret
    assert "secret" not in request.url
    assert b"secret" not in (request.body or b"")


def test_without_a_secret_in_hand_none_is_sent():
    assert "secret" not in query(built_request(calls.list_users()))


def test_an_integer_secret_goes_back_as_an_integer():
    request = built_request(calls.update_user((12, 904417732051266311), first_name="Oda"))
    assert json.loads(request.body)["secret"] == 904417732051266311
    assert query(built_request(calls.get_user((12, 904417732051266311))))["secret"] == "904417732051266311"


def test_paging_travels_in_the_query():
    assert query(built_request(calls.list_users(3, 0), credentials_in="header")) == {
        "limit": "3",
        "offset": "0",
    }


def test_a_json_body_holds_what_was_given_and_no_more():
    request = built_request(CREATE, credentials_in="header")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body) == PERSON | {"async": True}
    assert json.loads(built_request(UPDATE, credentials_in="header").body) == {
        "first_name": "Oda",
        "middle_name": "",
        "emails": [{"id": "2", "_destroy": True}],
    }


def test_a_form_has_rails_names_and_addresses_as_json():
    call = calls.create_user(
        **PERSON, emails=["a@x.example"], aliases=[{"first_name": "Oda", "last_name": "F"}]
    )
    request = built_request(call, body_encoding="form")
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    fields = form(request)
    assert json.loads(fields.pop("addresses")[0]) == PERSON["addresses"]
    assert fields == {
        "first_name": ["Odalys"],
        "last_name": ["Fennimoor"],
        "async": ["true"],
        "api_secret": ["s&cret=1 ?"],
        "emails[][address]": ["a@x.example"],
        "aliases[][first_name]": ["Oda"],
        "aliases[][last_name]": ["F"],
    }


def test_a_form_keeps_a_blank_that_clears():
    assert form(built_request(UPDATE, body_encoding="form"))["middle_name"] == [""]


CSV = {"body_encoding": "form", "lists": "csv"}


def test_csv_lists_are_comma_separated():
    call = calls.create_user(
        **PERSON,
        emails=["a@x.example", "b@x.example"],
        phone_numbers=["0207"],
        aliases=[{"first_name": "Oda", "last_name": "F"}, {"last_name": "Moor"}],
    )
    fields = form(built_request(call, **CSV))
    assert fields["emails"] == ["a@x.example,b@x.example"]
    assert fields["phone_numbers"] == ["0207"]
    assert fields["aliases"] == ["Oda F,Moor"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"emails": [{"id": 2, "address": "a@x.example"}]}, "emails[][id]"),
        ({"aliases": [{"first_name": "O", "last_name": "F, Jr"}]}, "aliases[][first_name]"),
        ({"aliases": [{"first_name": "O", "alias_type": "nickname"}]}, "aliases[][alias_type]"),
    ],
)
def test_what_csv_would_lose_is_sent_as_objects(changes, field):
    assert field in form(built_request(calls.update_user(KEY, **changes), **CSV))


def test_a_request_shows_its_method_alone():
    assert repr(built_request(UPDATE)) == "Request(method='PUT')"


# --- answers ------------------------------------------------------------------------------------------


def read(call, status=200, body=b"", headers=None, **manner):
    return protocol.model(call, access(**manner), Response(status, headers or {}, body))


def refusal(call, status, body=b"", headers=None, **manner):
    """The error, which is the same for the single call and for bulk."""
    caught = []
    for reader in (protocol.model, protocol.row):
        with pytest.raises(APIStatusError) as error:
            reader(call, access(**manner), Response(status, headers or {}, body))
        caught.append(error.value)
    assert str(caught[0]) == str(caught[1])
    return caught[0]


GET = calls.get_user(KEY)


def test_a_good_answer_is_a_reply():
    user = read(GET, body=json.dumps(faults.BODIES["get_user"]).encode())
    assert (user.id, user.secret) == (12, "ab12")


@pytest.mark.parametrize(
    ("status", "kind", "todo"),
    [
        (
            301,
            APIStatusError,
            "Redirects are not followed because the path contains the key: set base_url to the final address.",
        ),
        (
            302,
            APIStatusError,
            "Redirects are not followed because the path contains the key: set base_url to the final address.",
        ),
        (400, BadRequest, "Check the fields you sent."),
        (401, Unauthorized, "Check api_key, api_secret, and the user's id and secret."),
        (403, APIStatusError, ""),
        (404, APIStatusError, "No such path: check base_url, the part before /api/."),
        (405, APIStatusError, ""),
        (413, APIStatusError, "The request is too large."),
        (415, APIStatusError, "The service does not accept this body_encoding: try the other one."),
        (429, APIStatusError, "Too many requests."),
        (500, APIStatusError, "The service failed: try again later."),
        (503, APIStatusError, "The service failed: try again later."),
        (599, APIStatusError, "The service failed: try again later."),
    ],
)
def test_each_status_is_an_error_that_says_what_to_do(status, kind, todo):
    error = refusal(GET, status)
    assert type(error) is kind
    assert (error.status, error.operation, error.retry_after_s) == (status, "Get user", None)
    assert str(error) == f"Get user failed ({status}). {todo}".strip()


def test_a_refusal_tells_how_long_the_service_asks_to_wait():
    error = refusal(GET, 429, headers={"retry-after": "90"})
    assert error.retry_after_s == 90
    assert str(error).endswith("Too many requests. The service asks to wait 90 s.")


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": "city is missing"}',
        b'{"errors": "city is missing"}',
        b'{"errors": ["city is missing"]}',
        b'{"errors": [{"message": "city is missing"}]}',
        b'{"error": {"message": "city is missing", "code": 7}}',
        b'{"message": "city is missing"}',
        b'"city is missing"',
        b"<error><message>city is missing</message></error>",
        b'<?xml version="1.0"?>\n<hash><error>city is missing</error></hash>',
        b"<errors><error>city is missing</error></errors>",
        b"<h1>city is missing</h1>",
    ],
)
@pytest.mark.parametrize("format", ["json", "xml"])
def test_a_reason_is_read_from_any_usual_body(body, format):  # noqa: A002
    error = refusal(CREATE, 400, body, format=format)
    assert str(error) == "Create user failed (400: city is missing). Check the fields you sent."


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"7",
        b"{",
        b'{"error": 7}',
        b'{"fault": "x"}',
        b"<html><body><p>Sorry<br></html>",
        b"plain text",
        b'{"error": "' + b"x" * 20_000 + b'"}',
        b"<!DOCTYPE x><error>city</error>",
    ],
)
def test_a_body_without_a_reason_gives_none(body):
    assert str(refusal(CREATE, 400, body)) == "Create user failed (400). Check the fields you sent."


def test_several_reasons_stand_beside_each_other():
    body = b'{"errors": ["city is missing", {"message": "state is missing"}, null]}'
    assert "(400: city is missing, state is missing)" in str(refusal(CREATE, 400, body))


@pytest.mark.parametrize(
    ("server_text", "masked"),
    [
        ("Odalys is too short", "*** is too short"),
        ("ODALYS FENNIMOOR is too short", "*** *** is too short"),
        ("no such city: Tall Pines", "no such city: ***"),
        ("key-1 is blocked", "*** is blocked"),
        ("s&cret=1 ? is wrong", "*** is wrong"),
        ("see a@x.example", "see ***"),
        ("see https://service.example/api/acme/key-1/v2", "see ***"),
        ("'whatever it is' is invalid", "*** is invalid"),
        ('"whatever it is" is invalid', "*** is invalid"),
        ("no such place: tall", "no such place: ***"),
        ("call (413) 555-0101 now", "call (*** now"),
        ("token 9f8e7d6c5b4a3f is old", "token *** is old"),
        ("city\nis\x1b[31m", "city is[***"),
        ("city " * 100, ("city " * 100)[:200]),
    ],
)
def test_what_was_sent_or_looks_personal_is_masked_in_reasons(server_text, masked):
    error = refusal(CREATE, 400, json.dumps({"error": server_text}).encode())
    assert str(error).startswith(f"Create user failed (400: {masked}")


@given(
    st.dictionaries(
        st.sampled_from(["first_name", "last_name", "middle_name"]),
        st.text(st.characters(categories=["L", "Nd"]), min_size=2, max_size=12),
        min_size=1,
    ),
    st.sampled_from(["{} is invalid", "no {} here", "({})", "first_name: {}", "{}"]),
)
def test_no_name_that_was_sent_stands_in_a_message(names, sentence):
    for value in names.values():
        empty = str(refusal(calls.update_user(KEY), 400, json.dumps({"error": sentence.format("")}).encode()))
        assume(value.lower() not in empty.lower() and value.lower() not in error_masking._VOCABULARY)
        body = json.dumps({"error": sentence.format(value)}).encode()
        assert value not in str(refusal(calls.update_user(KEY, **names), 400, body))


LOST = [
    TransportFailure.refused(),
    TransportFailure.disconnected(),
    TransportFailure.timeout(),
    TransportFailure.too_large(),
]


@pytest.mark.parametrize("lost", LOST, ids=[lost.reason for lost in LOST])
@pytest.mark.parametrize("call", [GET, CREATE])
def test_a_lost_response_says_whether_the_request_may_have_arrived(call, lost):
    with pytest.raises(ConnectionFailed) as caught:
        protocol.model(call, access(), lost)
    error = caught.value
    assert (error.operation, error.maybe_received) == (call.operation.title, lost.maybe_received)
    assert str(error).startswith(f"{call.operation.title} failed: {lost.reason}.")
    assert ("check before you repeat it" in str(error)) == (lost.maybe_received and not call.repeatable)
    assert ("Is the service running" in str(error)) == (not lost.maybe_received)


BODY = faults.BODIES["get_user"]
RECORD = BODY["user"]["records"][0]


def changed(**fields):
    return json.dumps({"user": BODY["user"] | fields}).encode()


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "it is not JSON"),
        (b"{", "it is not JSON"),
        (b"\x00\xff", "it is not JSON"),
        (b"\x1f\x8b\x08\x00", "it is not JSON"),
        (b"null", "the whole is not as described"),
        (b"[]", "the whole is not as described"),
        (b"{}", "user is missing"),
        (b'{"user": null}', "user is not as described"),
        (changed(id=12), None),
        (changed(id="12 "), "user.id is not as described"),
        (changed(first_name=7), "user.first_name is not as described"),
        (changed(is_scanning="true"), "user.is_scanning is not as described"),
        (changed(emails=BODY["user"]["emails"][0]), "user.emails is not as described"),
        (changed(records=[RECORD, RECORD]), "records is not as described"),
        (changed(service_history=[{"x": 1}]), "service_history is not as described"),
        (changed(first_name="\ud83d"), "user.first_name is not as described"),
        (changed(birth_date=int("9" * 4_300)), "user.birth_date is not as described"),
        (changed(id="x"), "user.id is not as described"),
        (changed(id=2**63), "user.id is not as described"),
        (changed(secret=None), "user.secret.int is not as described"),
        (changed(first_name=None), "user.first_name is not as described"),
        (changed(birth_date="soon"), "user.birth_date is not as described"),
        (changed(records=[{"id": 1}]), "user.records.0.name is missing"),
        (changed(records=[RECORD | {"site": None}]), "user.records.0.site is not as described"),
        (
            changed(records=[{"record": RECORD | {"site": None}}]),
            "user.records.0.record.site is not as described",
        ),
        (changed(records=[RECORD, {"record": {"id": 1}}]), "user.records.1.record.name is missing"),
        (changed(records=[{"x": 1}]), "user.records.0.id is missing"),
        (changed(emails=[{"id": 1}]), "user.emails.0.address is missing"),
        (changed(addresses={"0": {}}), "user.addresses is not as described"),
        (b"<html><body>Juniper</body></html>", "it is an HTML page; check base_url"),
        (b"\n <!doctype html><HTML>Juniper", "it is an HTML page; check base_url"),
    ],
)
def test_an_unreadable_body_says_where_and_never_what(body, problem):
    strict = access(strict=True)
    for reader in (protocol.model, protocol.row):
        if problem is None:
            reader(GET, strict, Response(200, {}, body))
            continue
        with pytest.raises(InvalidResponse) as caught:
            reader(GET, strict, Response(200, {}, body))
        message = str(caught.value)
        if problem == "it is not JSON":
            assert message.startswith("Get user: invalid response: ")
            assert "not JSON" in message
        else:
            assert message.startswith(f"Get user: invalid response: {problem}")
        assert "Juniper" not in message
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "body", [b"", b"<user>", b"{}", b"<!DOCTYPE a><a/>", b"<answer/>", b"<a><user><id>x</id></user></a>"]
)
def test_unreadable_xml_is_unreadable_alike(body):
    for reader in (protocol.model, protocol.row):
        with pytest.raises(InvalidResponse, match=r"^Get user: invalid response: "):
            reader(GET, access(format="xml"), Response(200, {}, body))


@given(
    st.binary(max_size=300)
    | st.binary(max_size=300).map(gzip.compress)
    | st.text(max_size=200).map(str.encode)
)
def test_any_bytes_are_an_error_of_ours(body):
    for format in ("json", "xml"):  # noqa: A001
        for status, kind in ((200, InvalidResponse), (500, APIStatusError)):
            for reader in (protocol.model, protocol.row):
                with pytest.raises(kind):
                    reader(GET, access(format=format), Response(status, {}, body))


def test_errors_by_field_are_told_by_field():
    body = b'{"errors": {"first_name": ["is too long"], "zip": ["is invalid", "is odd"]}}'
    assert "400: first_name is too long, zip is invalid, zip is odd)" in str(refusal(GET, 400, body))


def test_a_word_of_every_service_is_no_value_to_mask():
    call = calls.get_user((12, "not the secret"))
    error = refusal(call, 401, b'{"error": "the user\'s id or secret is not accepted"}')
    assert "401: the user's id or secret is not accepted)" in str(error)
