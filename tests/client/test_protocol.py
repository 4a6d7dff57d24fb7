"""A call as a request, and a response as a model or an error, without any network."""

import gzip
import json
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from hypothesis import assume, given, settings
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


def access(**style):
    return ClientConfig(**ACCESS | style)


def built_request(call, **style):
    return protocol.request(call, access(**style))


def query(request):
    return dict(parse_qsl(urlsplit(request.url).query, keep_blank_values=True, strict_parsing=False))


def form(request):
    return parse_qs(request.body.decode(), keep_blank_values=True)


@EACH
@pytest.mark.parametrize("format", ["json", "xml"])
def test_operation_has_its_method_path_and_format(call, method, path, format):  # noqa: A002
    request = built_request(call, format=format)
    assert request.method == method
    assert urlsplit(request.url).path == f"/api/acme/key-1/v2{path}.{format}"
    assert request.headers["Accept"] == f"application/{format}"


@pytest.mark.parametrize("base_url", ["https://service.example/at/", "https://service.example/at"])
def test_path_of_the_base_url_precedes_the_api_path(base_url):
    assert (
        urlsplit(built_request(calls.list_users(), base_url=base_url).url).path
        == "/at/api/acme/key-1/v2/users.json"
    )


def test_names_and_keys_are_quoted_in_the_path():
    request = built_request(calls.list_users(), integration_name="a/b c", api_key="k?1#é%")
    assert urlsplit(request.url).path == "/api/a%2Fb%20c/k%3F1%23%C3%A9%25/v2/users.json"


@EACH
def test_credentials_are_only_in_the_configured_location(call, method, path):
    secrets = {"api_secret": "s&cret=1 ?"} | ({} if call.secret is None else {"secret": "ab 12/&"})
    request = built_request(call)
    if method == "GET":
        assert query(request) == secrets
        assert request.body is None
    else:
        assert query(request) == {}
        assert json.loads(request.body).items() >= secrets.items()
    request = built_request(call, credentials_in="query")
    assert {name: value for name, value in query(request).items() if "secret" in name} == secrets
    assert b"secret" not in (request.body or b"")
    request = built_request(call, credentials_in="body")  # a GET has none
    assert ("api_secret" in query(request)) == (method == "GET")
    assert (b"api_secret" in (request.body or b"")) == (method != "GET")
    request = built_request(call, credentials_in="header")
    assert request.headers["X-Api-Secret"] == "s&cret=1 ?"
    assert request.headers.get("X-User-Secret") == call.secret
    assert "secret" not in request.url
    assert b"secret" not in (request.body or b"")


def test_integer_secret_is_sent_as_an_integer():
    request = built_request(calls.update_user((12, 904417732051266311), first_name="Oda"))
    assert json.loads(request.body)["secret"] == 904417732051266311
    assert query(built_request(calls.get_user((12, 904417732051266311))))["secret"] == "904417732051266311"


def test_paging_is_sent_in_the_query():
    paging = query(built_request(calls.list_users(3, 0), credentials_in="header"))
    assert paging == {"limit": "3", "offset": "0"}


def test_json_body_contains_only_the_arguments():
    request = built_request(CREATE, credentials_in="header")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body) == PERSON | {"async": True}
    assert json.loads(built_request(UPDATE, credentials_in="header").body) == {
        "first_name": "Oda",
        "middle_name": "",
        "emails": [{"id": "2", "_destroy": True}],
    }


def test_form_has_rails_names_and_addresses_as_json():
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


def test_form_contains_blanks_that_clear_fields():
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
def test_items_that_csv_cannot_express_are_sent_as_objects(changes, field):
    assert field in form(built_request(calls.update_user(KEY, **changes), **CSV))


def test_repr_of_a_request_contains_only_its_method():
    assert repr(built_request(UPDATE)) == "Request(method='PUT')"


def refusal(call, status, body=b"", headers=None, **style):
    """The error, which is the same for a single call and a load."""
    caught = []
    for reader in (protocol.model, protocol.row):
        with pytest.raises(APIStatusError) as error:
            reader(call, access(**style), Response(status, headers or {}, body))
        caught.append(error.value)
    assert str(caught[0]) == str(caught[1])
    return caught[0]


GET = calls.get_user(KEY)


def test_good_response_is_a_user():
    for strict in (True, False):
        response = Response(200, {}, json.dumps(faults.BODIES["get_user"]).encode())
        user = protocol.model(GET, access(strict=strict), response)
        assert (user.id, user.secret) == (12, "ab12")


REDIRECTED = (
    "Redirects are not followed because the path contains the key: set base_url to the final address."
)


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        *((status, APIStatusError, REDIRECTED) for status in (301, 302)),
        (400, BadRequest, "Check the fields you sent."),
        (401, Unauthorized, "Check api_key, api_secret, and the user's id and secret."),
        (403, APIStatusError, ""),
        (404, APIStatusError, "No such path: check base_url, the part before /api/."),
        (405, APIStatusError, ""),
        (413, APIStatusError, "The request is too large."),
        (415, APIStatusError, "The service does not accept this body_encoding: try the other one."),
        (429, APIStatusError, "Too many requests."),
        *((status, APIStatusError, "The service failed: try again later.") for status in (500, 503, 599)),
    ],
)
def test_each_status_has_an_error_with_advice(status, kind, advice):
    error = refusal(GET, status)
    assert type(error) is kind
    assert (error.status, error.operation, error.retry_after_s) == (status, "Get user", None)
    assert str(error) == f"Get user failed ({status}). {advice}".strip()


def test_error_contains_the_requested_wait():
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
def test_reason_is_read_from_any_usual_body(body, format):  # noqa: A002
    error = refusal(CREATE, 400, body, format=format)
    assert str(error) == "Create user failed (400: city is missing). Check the fields you sent."


def test_a_refusal_for_a_quota_blames_no_field():
    body = b'{"error": "the quota of 5 people is reached: ask the operator to raise it"}'
    expected = "Create user failed (400: the quota of 5 people is reached: ask the operator to raise it)."
    assert str(refusal(CREATE, 400, body)) == expected


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\xff\xfe", b"null", b"[]", b"7", b"{", b'{"error": 7}', b'{"fault": "x"}', b"plain text"),
        *(b"<html><body><p>Sorry<br></html>", b"<!DOCTYPE x><error>city</error>"),
        b'{"error": "' + b"x" * 20_000 + b'"}',
    ],
)
def test_body_without_a_reason_is_omitted(body):
    assert str(refusal(CREATE, 400, body)) == "Create user failed (400). Check the fields you sent."


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            b'{"errors": ["city is missing", {"message": "state is missing"}, null]}',
            "city is missing, state is missing",
        ),
        (
            b'{"errors": {"first_name": ["is too long"], "zip": ["is invalid", "is odd"]}}',
            "first_name is too long, zip is invalid, zip is odd",
        ),
        (b'{"error": "the user\'s id or secret is invalid"}', "the user's id or secret is invalid"),
    ],
)
def test_several_reasons_are_joined(body, reason):
    assert f"(400: {reason})" in str(refusal(calls.get_user((12, "not the secret")), 400, body))


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
def test_sent_or_personal_values_are_masked_in_reasons(server_text, masked):
    error = refusal(CREATE, 400, json.dumps({"error": server_text}).encode())
    assert str(error).startswith(f"Create user failed (400: {masked}")


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.sampled_from(["first_name", "last_name", "middle_name"]),
        st.text(st.characters(categories=["L", "Nd"]), min_size=2, max_size=12),
        min_size=1,
    ),
    st.sampled_from(["{} is invalid", "no {} here", "({})", "first_name: {}", "{}"]),
)
def test_no_sent_name_is_in_an_error_message(names, sentence):
    for value in names.values():
        empty = str(refusal(calls.update_user(KEY), 400, json.dumps({"error": sentence.format("")}).encode()))
        assume(value.lower() not in empty.lower() and value.lower() not in error_masking._VOCABULARY)
        body = json.dumps({"error": sentence.format(value)}).encode()
        assert value not in str(refusal(calls.update_user(KEY, **names), 400, body))


LOST = [
    *(TransportFailure.refused(), TransportFailure.disconnected()),
    *(TransportFailure.timeout(), TransportFailure.too_large()),
]


@pytest.mark.parametrize("lost", LOST, ids=[lost.reason for lost in LOST])
@pytest.mark.parametrize("call", [GET, CREATE])
def test_lost_response_states_whether_the_request_may_have_arrived(call, lost):
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


NOT_DESCRIBED = {  # by the place of the problem: the changed fields
    "user.id": [{"id": "12 "}, {"id": "x"}, {"id": 2**63}],
    "user.first_name": [{"first_name": 7}, {"first_name": "\ud83d"}],
    "user.is_scanning": [{"is_scanning": "true"}],
    "user.emails": [{"emails": BODY["user"]["emails"][0]}],
    "records": [{"records": [RECORD, RECORD]}],
    "service_history": [{"service_history": [{"x": 1}]}],
    "user.birth_date": [{"birth_date": int("9" * 4_300)}, {"birth_date": "soon"}],
    "user.addresses": [{"addresses": {"0": {}}}],
}
IS_NULL = {
    "user.secret.int": [{"secret": None}],
    "user.first_name": [{"first_name": None}],
    "user.records.0.site": [{"records": [RECORD | {"site": None}]}],
    "user.records.0.record.site": [{"records": [{"record": RECORD | {"site": None}}]}],
}
MISSING = {
    "user.records.0.name": [{"records": [{"id": 1}]}],
    "user.records.1.record.name": [{"records": [RECORD, {"record": {"id": 1}}]}],
    "user.records.0.id": [{"records": [{"x": 1}]}],
    "user.emails.0.address": [{"emails": [{"id": 1}]}],
}
PROBLEMS = [
    *((body, "it is not JSON") for body in (b"", b"{", b"\x00\xff", b"\x1f\x8b\x08\x00")),
    (b"null", "the whole is null"),
    (b"[]", "the whole is not as described"),
    (b"{}", "user is missing"),
    (b'{"user": null}', "user is null"),
    (b"<html><body>Juniper</body></html>", "it is an HTML page; check base_url"),
    (b"\n <!doctype html><HTML>Juniper", "it is an HTML page; check base_url"),
    *(
        (changed(**one), f"{name} is not as described")
        for name in NOT_DESCRIBED
        for one in NOT_DESCRIBED[name]
    ),
    *((changed(**one), f"{name} is null") for name in IS_NULL for one in IS_NULL[name]),
    *((changed(**one), f"{name} is missing") for name in MISSING for one in MISSING[name]),
]


@pytest.mark.parametrize(("body", "problem"), PROBLEMS)
def test_unreadable_body_error_names_the_field_without_its_value(body, problem):
    strict = access(strict=True)
    for reader in (protocol.model, protocol.row):
        with pytest.raises(InvalidResponse) as caught:
            reader(GET, strict, Response(200, {}, body))
        message = str(caught.value)
        assert message.startswith("Get user: invalid response: ")
        assert ("not JSON" if problem == "it is not JSON" else f"response: {problem}") in message
        assert "Juniper" not in message
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "body", [b"", b"<user>", b"{}", b"<!DOCTYPE a><a/>", b"<answer/>", b"<a><user><id>x</id></user></a>"]
)
def test_unreadable_xml_is_an_invalid_response(body):
    for reader in (protocol.model, protocol.row):
        with pytest.raises(InvalidResponse, match=r"^Get user: invalid response: "):
            reader(GET, access(format="xml"), Response(200, {}, body))


@settings(max_examples=40)
@given(
    st.binary(max_size=300)
    | st.binary(max_size=300).map(gzip.compress)
    | st.text(max_size=200).map(str.encode)
)
def test_any_bytes_raise_a_documented_error(body):
    for format in ("json", "xml"):  # noqa: A001
        for status, kind in ((200, InvalidResponse), (500, APIStatusError)):
            for reader in (protocol.model, protocol.row):
                with pytest.raises(kind):
                    reader(GET, access(format=format), Response(status, {}, body))
