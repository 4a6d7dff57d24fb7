"""Responses that deviate from the specification: only what deviates is lost, in both clients, frames and XML."""

import contextlib
import copy
import gzip
import html
import json
import re
import warnings
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import faults
from support.clients import AT_ONCE, FACES, connected, json_response, many, with_fields
from support.payloads import ALERT, LINK, RECORD, USER

import exposurekit as ek
from exposurekit import frames
from exposurekit.client import bulk, calls, probe, protocol
from exposurekit.client.config import ClientConfig
from exposurekit.client.retry import Response
from exposurekit.contract import codec
from exposurekit.errors import InvalidResponse

CANARY = "canary"
KEY = (USER["id"], USER["secret"])
ACCESS = ClientConfig("https://service.example", "acme", "key", "secret")
STRICT = ClientConfig("https://service.example", "acme", "key", "secret", strict=True)
XML = ClientConfig("https://service.example", "acme", "key", "secret", format="xml")
CREATE = calls.create_user(first_name="Oda", last_name="Moor", addresses=[{"city": "Oakmere", "state": "CA"}])
GET, ALERTS = calls.get_user(KEY), calls.get_user_alerts(KEY)
# Every field of a user, a record and an alert (33 of them), and of a link.
FIELDS = [
    *((GET, (), name) for name in USER),
    *((GET, ("records", 0), name) for name in RECORD),
    *((GET, ("links", 0), name) for name in LINK),
    *((ALERTS, (), name) for name in ALERT),
    *((ALERTS, ("source", "record"), name) for name in RECORD),
]
MISSING = object()
ODD = {
    "null": None,
    "missing": MISSING,
    "a boolean": True,
    "an integer": 7,
    "a number": 7.5,
    "text": CANARY,
    "a list": [CANARY],
    "an object": {CANARY: CANARY},
}
ODD_VALUES = st.sampled_from([*ODD.values(), [], {}, "", [None], [7], [{}], -1, 2**63, 10**30, "12", "true"])
MAY_BE_ABSENT = {
    *("birth_date", "age", "href", "user_fields_required_for_removal", "url", "contains", "guide"),
    "opt_out_procedure",
}
PROBLEM = r"response: \w.* (is missing|is null|is not as described)$"
ANY_CASE = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def body_of(call, path=(), name=None, value=None):
    """The right response to a call, with one odd field."""
    item = copy.deepcopy(USER if call is GET else ALERT)
    target = item
    for step in path:
        target = target[step]
    if value is MISSING:
        del target[name]
    elif name:
        target[name] = value
    return {"user": item} if call is GET else {"alerts": [item]}


def response(body, format="json"):  # noqa: A002
    return Response(200, {}, codec.encode(body, format))


def both(call, access, outcome):
    """The response as a model, as plain dicts, and the notes."""
    notes = protocol.Notes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = protocol.model(call, access, outcome)
    row = protocol.row(call, access, outcome, notes)
    dumped = read.model_dump() if call is GET else [one.model_dump() for one in read]
    row = row["user" if call is GET else "alerts"]
    return as_in(row, dumped), row, notes


def as_in(row, dump):
    """A dump with the fields of the row only: without those that are not in the specification."""
    if isinstance(row, dict):
        return {name: as_in(inner, dump[name]) for name, inner in row.items()}
    return [*map(as_in, row, dump)] if isinstance(row, list) else dump


def packed(user, alerts):
    """The tables of one person."""
    rows = [{"user_id": USER["id"], "alerts": alerts}]
    return frames.flatten([frames.pack_users([user])], [frames.pack_alerts(rows)])


def others(table, row, *names):
    """A row of a table but for these columns."""
    frame = frames.frame(table, [row[table]])
    return frame.drop(columns=[name for name in names if name in frame]).astype(str).to_dict("records")


@ANY_CASE
@given(st.sampled_from(FIELDS), ODD_VALUES)
def test_odd_field_changes_only_that_field(field, value):
    """Not in the specification: any field null, missing or of another type."""
    call, path, name = field
    outcome = response(body_of(call, path, name, value))
    try:
        dumped, row, notes = both(call, ACCESS, outcome)
    except InvalidResponse as error:
        assert (path, name) == ((), "id")
        assert "user.id is" in str(error)  # noqa: PT017
        assert CANARY not in str(error)  # noqa: PT017
        return
    assert dumped == row
    assert CANARY not in str([(note.field, note.kind, note.example) for note in notes])
    right_user, right_alerts = (
        protocol.row(call, STRICT, response(body_of(call)))["user" if call is GET else "alerts"]
        for call in (GET, ALERTS)
    )
    batches = packed(row, right_alerts) if call is GET else packed(right_user, row)
    right = packed(right_user, right_alerts)
    if call is GET and not path:
        hidden = (name, "user_id") if name == "id" else (name,)
        assert others("users", batches, *hidden) == others("users", right, *hidden)
        for table in ("records", "links", "emails", "addresses", "aliases", "phone_numbers"):
            assert table == name or batches[table].num_rows == right[table].num_rows
        assert batches["service_history"].num_rows == 1 or name == "service_history"
    elif path == ("records", 0) and name != "id":
        assert others("records", batches, name) == others("records", right, name)
    elif path == ("links", 0):
        assert others("links", batches, name) == others("links", right, name)
    elif call is ALERTS and name != "source":
        columns = {"id": "record_id"}.get(name, name)
        assert others("alerts", batches, columns) == others("alerts", right, columns)


@pytest.mark.parametrize(("call", "path", "name"), FIELDS, ids=str)
def test_each_odd_field_is_noted_once_unless_allowed(call, path, name):
    field_path = ("" if call is GET else "alerts.") + ".".join([step for step in path if step != 0] + [name])
    for odd, value in ODD.items():
        body = body_of(call, path, name, value)
        if (path, name) == ((), "id") and odd != "an integer":
            with pytest.raises(InvalidResponse):
                both(call, ACCESS, response(body))
            continue
        _, _, notes = both(call, ACCESS, response(body))
        conforms = body_of(call) == body or _fits(path, name, odd)
        assert {note.field for note in notes} == (set() if conforms else {field_path}), odd


@pytest.mark.parametrize("access", [STRICT, replace(STRICT, format="xml")], ids=["json", "xml"])
@pytest.mark.parametrize(("call", "path", "name"), FIELDS, ids=str)
def test_strict_refuses_what_is_noted_otherwise(call, path, name, access):
    for odd, value in ODD.items():
        if access.format == "xml" and odd == "a number":
            continue  # XML has none
        outcome = response(body_of(call, path, name, value), access.format)
        with contextlib.suppress(InvalidResponse):
            if not protocol.deviations(call, access, outcome):
                assert protocol.model(call, access, outcome)
                assert protocol.row(call, access, outcome)
                continue
        for reader in (protocol.model, protocol.row):
            with pytest.raises(InvalidResponse, match=PROBLEM) as caught:
                reader(call, access, outcome)
            assert CANARY not in str(caught.value)


def _fits(path, name, odd):
    if odd in {"null", "missing"}:
        return name in MAY_BE_ABSENT
    texts = {"relations", "aliases", "locations", "user_fields_required_for_removal", "contains"}
    fits = {
        "a boolean": {"is_scanning", "identification_on_file"},
        "an integer": {"id", "secret", "birth_date", "age"},
        "a number": set(),
        "text": {
            *("secret", "first_name", "middle_name", "last_name", "name", "site", "status", "href"),
            *("reference_id", "url", "title", "text", "html", "guide", "opt_out_procedure", "source_type"),
        },
        "a list": texts | {"opt_out_procedure"},
        "an object": set(),
    }
    return name in fits[odd] and (path, name) != ((), "aliases")


def without_types(content):
    return re.sub(rb' type="(integer|boolean)"', b"", content)


@ANY_CASE
@given(st.sampled_from(FIELDS), st.sampled_from(list(ODD)), st.booleans(), st.booleans())
def test_odd_field_in_xml_changes_only_that_field(field, odd, typed, emptied):
    """``nil="true"``, empty elements, and no type attributes."""
    call, path, name = field
    value = CANARY if odd == "a number" else ODD[odd]
    content = codec.encode(body_of(call, path, name, value), "xml")
    if not typed:
        content = without_types(content)
    if emptied:
        content = content.replace(f">{CANARY}<".encode(), b"><")
    try:
        dumped, row, notes = both(call, XML, Response(200, {}, content))
    except InvalidResponse as error:
        assert (path, name) == ((), "id")
        assert CANARY not in str(error)  # noqa: PT017
        return
    assert dumped == row
    assert CANARY not in str([(note.field, note.kind, note.example) for note in notes])
    if call is GET:
        assert len(row["records"]) == 1 or name in {"records", "id"}
        frames.pack_users([row])


@pytest.mark.parametrize("call", [GET, ALERTS])
def test_conforming_response_has_no_deviation(call):
    xml = codec.encode(body_of(call), "xml")
    for access, content in (
        (ACCESS, codec.encode(body_of(call), "json")),
        (XML, xml),
        (XML, without_types(xml)),
    ):
        dumped, row, notes = both(call, access, Response(200, {}, content))
        assert not notes
        assert dumped == row


def noted(**fields):
    """The user with these fields as read, and the notes."""
    notes = protocol.Notes()
    row = protocol.row(GET, ACCESS, response({"user": USER | fields}), notes)["user"]
    return row, {(note.field, note.kind, note.example): times for note, times in notes.items()}


@pytest.mark.parametrize(
    ("name", "sent", "value", "kind", "example"),
    [
        ("id", "12", 12, "text for integer", "text of 2 digits"),
        ("id", 12.0, 12, "number for integer", "number"),
        ("first_name", 7, "7", "integer for text", "integer of 1 digit"),
        ("is_scanning", "True", True, "text for boolean", "text of 4 characters"),
        ("is_scanning", 0, False, "integer for boolean", "integer of 1 digit"),
        ("is_scanning", "soon", None, "text for boolean, unreadable", "text of 4 characters"),
        ("birth_date", "soon", None, "text for integer, unreadable", "text of 4 characters"),
        ("birth_date", 10**30, None, "integer out of range, unreadable", "integer of 31 digits"),
        ("middle_name", None, None, "null", "null"),
        ("last_name", [CANARY], None, "list for text, unreadable", "list of 1 item"),
    ],
)
def test_value_of_another_type_is_converted_and_noted(*, name, sent, value, kind, example):
    row, notes = noted(**{name: sent})
    assert row[name] == value
    assert notes == {(name, kind, example): 1}


def test_one_item_is_read_as_a_list():
    row, notes = noted(
        emails=USER["emails"][0], records=[RECORD | {"relations": "A B"}], links={"0": LINK, "1": LINK}
    )
    assert [one["address"] for one in row["emails"]] == [USER["emails"][0]["address"]]
    assert (row["records"][0]["relations"], len(row["links"])) == (["A B"], 2)
    assert {(name, kind) for name, kind, _ in notes} == {
        ("emails", "object for list"),
        ("links", "object for list"),
        ("records.relations", "text for list"),
    }


NO_VALUE = {
    "half a surrogate pair": (b'"\\ud83d"', "malformed text for "),
    "a byte that is not UTF-8": (b'"Jos\xe9"', "malformed text for "),
    "5,000 digits": (b"9" * 5_000, "number for "),
    "nested 500 deep": (b"[" * 500 + b"]" * 500, "list for "),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("content", "kind"), NO_VALUE.values(), ids=NO_VALUE)
@pytest.mark.parametrize(
    "path", ["user.middle_name", "user.birth_date", "user.is_scanning", "user.links.title"]
)
def test_invalid_json_value_loses_only_its_field(path, content, kind, face):
    call, reader = GET, protocol.row if face == "blocking" else protocol.model
    *_, name = path.split(".")
    body = json.dumps({"user": USER | {"unknown": 0}}).encode()
    was = b'"%s": ' % name.encode()
    value = body.split(was)[1].split(b",")[0]
    body = body.replace(was + value, was + content, 1).replace(b'"unknown": 0', b'"unknown": ' + content)
    notes = protocol.Notes()
    reader(call, ACCESS, Response(200, {}, body), notes)
    [note] = notes
    assert f"user.{note.field}" == path
    assert note.kind.startswith(kind)
    assert note.kind.endswith(", unreadable")


def test_malformed_step_loses_only_that_step():
    body = json.dumps({"alerts": [ALERT | {"opt_out_procedure": ["a", "\ud83d", "b"]}]}).encode()
    [alert] = protocol.row(ALERTS, ACCESS, Response(200, {}, body), protocol.Notes())["alerts"]
    assert alert["opt_out_procedure"] == ["a", "b"]


@pytest.mark.parametrize("access", [ACCESS, XML], ids=["json", "xml"])
def test_source_without_its_key_is_read_or_noted(access):
    def read_source(source):
        body = body_of(ALERTS, (), "source", source)
        [read], _, notes = both(ALERTS, access, response(body, access.format))
        return read["source"], {(note.field, note.kind) for note in notes}

    for source in ({}, {"record": None}, {"x": 1}):
        read, notes = read_source(source)
        assert read["record"] is None
        assert notes == {("alerts.source", "object without record or link, unreadable")}
    for name, source in (("record", {"id": 11, "site": "Heron"}), ("link", LINK)):
        read, notes = read_source(source)
        assert {field: read[name][field] for field in source} == source
        assert ("alerts.source", "not wrapped") in notes


@pytest.mark.parametrize("entry", [{}, {"x": 1}, {"activated_service_on": None}])
def test_history_entry_of_neither_kind_is_noted(entry):
    row, notes = noted(service_history=[entry, *USER["service_history"]])
    assert len(row["service_history"]) == 1
    kind = "object without activated_service_on or deactivated_service_on, item lost"
    assert [note[:2] for note in notes] == [("service_history", kind)]


@pytest.mark.parametrize("seconds", [1704164645, "1704164645"])
def test_history_entry_may_be_epoch_seconds(seconds):
    row, notes = noted(service_history=[{"activated_service_on": seconds}])
    assert row["service_history"][0]["activated_service_on"].isoformat() == "2024-01-02T03:04:05+00:00"
    assert len(notes) == 1


def test_repeated_record_is_read_once():
    row, notes = noted(records=[RECORD, {"record": RECORD | {"site": "Other"}}, RECORD | {"id": 8}])
    assert [(one["id"], one["site"]) for one in row["records"]] == [(7, RECORD["site"]), (8, RECORD["site"])]
    assert [(field, kind) for field, kind, _ in notes] == [("records", "repeated")]


@pytest.mark.parametrize(
    ("value", "steps", "kind"),
    [
        (12, ["12"], "integer for list"),
        (1.5, ["1.5"], "number for list"),
        (True, [], "boolean for list, unreadable"),
        ({"a": 1}, [], "object for list, unreadable"),
    ],
)
def test_note_states_whether_the_steps_were_read(value, steps, kind):
    [read], _, notes = both(ALERTS, ACCESS, response(body_of(ALERTS, (), "opt_out_procedure", value)))
    assert (read["opt_out_procedure"], [note.kind for note in notes]) == (steps, [kind])


def test_excessive_nesting_is_an_invalid_response():
    for depth in (5_000, 100_000):
        body = b'{"user": ' + b"[" * depth + b"]" * depth + b"}"
        with pytest.raises(InvalidResponse):
            protocol.row(GET, ACCESS, Response(200, {}, body))


@pytest.mark.parametrize("item", [None, 7, CANARY, [RECORD], {}, {"record": None}, RECORD | {"id": None}])
def test_record_without_an_id_loses_only_that_record(item):
    row, notes = noted(records=[RECORD, item, RECORD | {"id": 8}])
    assert [one["id"] for one in row["records"]] == [7, 8]
    assert any(kind.endswith("item lost") for _, kind, _ in notes)


@pytest.mark.parametrize("name", ["emails", "records", "links", "service_history"])
@pytest.mark.parametrize("value", [CANARY, [CANARY]])
def test_text_in_place_of_an_item_is_dropped(name, value):
    for access in (ACCESS, XML):
        read, _, notes = both(GET, access, response({"user": USER | {name: value}}, access.format))
        assert read[name] == []
        assert [note.field for note in notes] == [name]
        assert next(iter(notes)).costs_item


def test_single_call_warns_only_of_dropped_items():
    body = {"records": [{"record": RECORD}, 7]}
    with pytest.warns(UserWarning, match=r"^List user records: .* dropped at records$"):
        models = protocol.model(calls.list_user_records(KEY), ACCESS, response(body))
    assert [record.id for record in models] == [7]
    for call, user in ((GET, USER | {"emails": None}), (CREATE, {"id": 12, "secret": "s"})):
        assert protocol.model(call, ACCESS, response({"user": user})).emails == []


@pytest.mark.parametrize("body", [{"error": "no"}, {"errors": []}, {"x": 1}, {}, [], None, 7, "text"])
@pytest.mark.parametrize("call", [GET, calls.list_user_records(KEY), calls.list_users()])
def test_other_bodies_are_not_read_as_empty(call, body):
    with pytest.raises(InvalidResponse, match="invalid response"):
        protocol.model(call, ACCESS, response(body))


def test_unwrapped_user_or_record_is_read():
    assert protocol.model(GET, ACCESS, response(USER)).id == USER["id"]
    assert protocol.model(calls.get_record(KEY, 7), ACCESS, response(RECORD)).site == RECORD["site"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("access", [ACCESS, STRICT], ids=["lenient", "strict"])
def test_json_is_read_by_its_byte_order_mark(encoding, access):
    """Where the specification is silent: "a JSON body"."""
    content = json.dumps({"user": USER | {"first_name": "Żofia"}}, ensure_ascii=False).encode(encoding)
    encoded = Response(200, {}, content)
    assert protocol.model(GET, access, encoded).first_name == "Żofia"
    assert protocol.row(GET, access, encoded)["user"]["first_name"] == "Żofia"


def test_byte_order_mark_sets_the_byte_order():
    for encoding in ("utf-16-be", "utf-32-be"):
        assert codec.decode("\ufeff{}".encode(encoding), "json") == {}


WHOLE = json.dumps({"user": USER}).encode()
BODIES_WITH_KEY = {
    "nothing else": json.dumps({"user": {"id": 12345, "secret": "ab12"}}).encode(),
    "bare": json.dumps({"id": 12345, "secret": "ab12"}).encode(),
    "deeper": json.dumps({"data": {"user": {"id": 12345, "secret": "ab12"}}}).encode(),
    "cut off": WHOLE[:90],
    "before garbage": WHOLE + b"garbage",
    "before another document": WHOLE + b'{"user": {}}',
    "after another document": b'{"notice": "{}"}' + WHOLE,
    "after a guard": b")]}',\n" + WHOLE,
    "after a notice": b"Notice: {x} at {" + WHOLE,
    "around a control character": WHOLE[:90] + b"\x00" + WHOLE[90:],
    "a number without end": WHOLE.replace(b'"birth_date": 0', b'"birth_date": 1e999'),
    "xml": codec.encode({"user": {"id": 12345, "secret": "ab12"}}, "xml"),
    "html before it": b"<html><style>p { color: red }</style><p>Thanks</p></html>\n" + WHOLE,
    "html around it": b'<!doctype html><body id="7"><pre>' + html.escape(WHOLE.decode()).encode() + b"</pre>",
    "html with many braces before it": b"<html>" + b"<b>{x}</b>" * 200 + b"</html>" + WHOLE,
    "html before xml": b"<html><br></html>" + codec.encode({"user": {"id": 12345, "secret": "ab12"}}, "xml"),
    "xml cut off": b'<hash><user><id type="integer">12345</id><secret>ab12</secret><first-na',
    "a form": b"id=12345&secret=ab12",
    "a form of a user": b"user%5Bid%5D=12345&user%5Bsecret%5D=ab12&user%5Bfirst_name%5D=Oda\n",
    "a form after a notice": b"created: id=12345&secret=ab12",
    "lines": b"status: created\nid: 12345\nsecret: ab12\n",
    "json in json": json.dumps({"body": WHOLE.decode()}).encode(),
    "single quotes": b"{'id': 12345, 'secret': 'ab12'}",
    "utf-16 without a mark": WHOLE.decode().encode("utf-16-le"),
    "the secret beside the user": json.dumps({"user": {"id": 12345}, "secret": "ab12"}).encode(),
    "null elsewhere": json.dumps({"user": dict.fromkeys(USER) | {"id": 12345, "secret": "ab12"}}).encode(),
}


@pytest.mark.parametrize("status", [200, 201, 202, 203, 299])
def test_any_2xx_on_create_user_is_success(status):
    """Where the specification is silent: "status of success"."""
    expected = protocol.model(GET, ACCESS, response({"user": USER})).key
    assert protocol.model(CREATE, ACCESS, Response(status, {}, WHOLE)).key == expected


@pytest.mark.parametrize("content", BODIES_WITH_KEY.values(), ids=BODIES_WITH_KEY)
def test_id_and_secret_of_a_new_user_are_recovered(content):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        key = protocol.model(CREATE, ACCESS, Response(201, {}, content)).key
    assert (key.id, key.secret) == (12345, "ab12")
    with contextlib.suppress(InvalidResponse):
        protocol.model(CREATE, STRICT, Response(201, {}, content))
        return
    with pytest.raises(InvalidResponse, match="save the error's user_key") as caught:
        protocol.model(CREATE, STRICT, Response(201, {}, content))
    key = caught.value.user_key
    assert (key.id, key.secret) == (12345, "ab12")
    assert "ab12" not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{}", b"<html>", b'{"user": {"id": 1', WHOLE[:24], b"id=12345", b"secret=ab12"),
        *(b'{"id": 12345, "secret": "ab', b'{"id": 12345, "secret": 90', b"<id>12345</id><secret>ab"),
    ],
)
def test_create_without_a_key_advises_to_check_first(content):
    message = r"may have been created.*check before you repeat the call"
    with pytest.raises(InvalidResponse, match=message) as caught:
        protocol.model(CREATE, ACCESS, Response(200, {}, content))
    assert caught.value.user_key is None


def test_user_without_a_secret_has_no_key():
    user = protocol.model(GET, ACCESS, response({"user": USER | {"secret": None}}))
    with pytest.raises(InvalidResponse, match="did not have this user's secret"):
        _ = user.key


def test_people_with_one_odd_field_are_all_loaded():
    cases = [
        (path, name, value)
        for call, path, name in FIELDS
        if call is GET
        for value in ODD.values()
        if (path, name) != ((), "id")
    ]

    def fields(number):
        return body_of(GET, *cases[number - 1])["user"] | {"id": number}

    with faults.running(many(range(1, len(cases) + 1), with_fields(fields))) as server:
        exposure = connect(server)
        with pytest.warns(UserWarning, match=r"^responses deviate from the specification in \d+ fields; exp"):
            users = exposure.users()
        assert len(exposure.failures()) == 0
    assert users["user_id"].tolist() == list(range(1, len(cases) + 1))
    table = exposure.deviations().set_index(["operation", "field", "kind"])
    assert table.loc[("Get user", "middle_name", "null"), "users"] == 1
    assert table.loc[("Get user", "records.site", "missing"), "users"] == 1
    unreadable = table.loc[("Get user", "records.age", "text for integer, unreadable")]
    assert unreadable["example"] == "text of 6 characters"
    assert CANARY not in exposure.deviations().to_csv()
    assert set(exposure.on_file()["user_id"]) == set(users["user_id"])
    by_site = ek.analysis.by_site(exposure.records())
    assert by_site["total"].sum() > 0


def connect(server, **how):
    names = {"integration_name": "acme", "api_key": "key", "api_secret": "secret"}
    return ek.connect(server.base_url, **names, retries=AT_ONCE, progress=False, **how)


def test_strict_makes_deviating_users_failures():
    def fields(number):
        return {"middle_name": None if number == 2 else ""}

    with faults.running(many([1, 2], with_fields(fields))) as server:
        exposure = connect(server, strict=True)
        [failure] = exposure.failures().to_dict("records")
    assert (failure["user_id"], failure["error"]) == (2, "InvalidResponse")
    assert failure["reason"].endswith("user.middle_name is null")
    assert len(exposure.deviations()) == 0


@pytest.mark.parametrize("face", FACES)
def test_user_listed_twice_counts_once(face):
    page_users = [{"id": number, "secret": "s"} for number in (1, 1, 2, 3, 2)]

    def script(request):
        start = int(request.query.get("offset", 0))
        return json_response({"count": 5, "users": page_users[start : start + 3]})

    with faults.running(script) as server, connected(face, server.base_url) as client:
        assert [key.id for key in client.iter_users(page_size=3)] == [1, 2, 3]


def test_listed_user_without_a_secret_is_a_failure():
    unreadable = [{"id": 3}, {"id": 4, "secret": None}, {"user": {"id": 5}}, {}, {"id": 2**63, "secret": "s"}]
    page = {"count": 7, "users": [{"user": {"id": 1, "secret": "secret-1"}}, *unreadable, {"id": 1}]}

    def meddle(request, number):
        is_first = request.query.get("offset", "0") == "0"
        return json_response(page if is_first else {"users": []}) if number is None else None

    with faults.running(many([1], meddle)) as server:
        exposure = connect(server)
        with pytest.warns(UserWarning, match="deviate"):
            failures = exposure.failures()
        with pytest.warns(UserWarning, match="deviate"):
            *_, last = connect(server).iter_batches()
    assert repr(exposure).endswith("1 people, 5 more not loaded)")
    assert failures["user_id"].tolist() == [3, 4, 5]
    assert set(failures["operation"]) == {"List users"}
    assert set(failures["reason"]) == {bulk.WITHOUT_KEY}
    deviations = exposure.deviations()
    assert "users wrapped" in (deviations["field"] + " " + deviations["kind"]).tolist()
    listing = last.listing
    assert (listing.returned, listing.is_complete, listing.unreadable > 0) == (1, False, True)


def test_deviations_of_a_list_count_users_instead_of_pages():
    ids = range(1, 121)

    def meddle(request, number):
        if number is not None:
            return None
        offset = int(request.query.get("offset", 0))
        users = [{"id": str(one), "secret": f"secret-{one}"} for one in ids[offset : offset + 100]]
        return json_response({"count": str(len(ids)), "users": users})

    with faults.running(many(ids, meddle)) as server:
        exposure = connect(server)
        with pytest.warns(UserWarning, match="deviate"):
            table = exposure.deviations().set_index("field")["users"]
    assert table["users.id"] == len(ids)
    assert table.isna()["count"]


def test_probe_counts_the_users_of_each_deviation():
    def fields(number):
        records = [RECORD | {"age": "4" * number}, RECORD | {"id": 8, "age": "5"}]
        return {"records": records} | ({"middle_name": None} if number < 3 else {})

    with faults.running(many([1, 2, 3], with_fields(fields))) as server, connect(server).client as client:
        texts = probe.deviations(client)
    assert texts == [
        "Get user: records.age text for integer (3 of 3 users)",
        "Get user: middle_name null (2 of 3 users)",
    ]


BODY = json.dumps(faults.BODIES["get_user"]).encode()


def raw(body, *headers, status="200 OK"):
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def members():
    half = len(BODY) // 2
    return gzip.compress(BODY[:half]) + gzip.compress(BODY[half:])


def chunked(*headers):
    lines = ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", *headers, "", f"{len(BODY):x}", ""]
    return "\r\n".join(lines).encode() + BODY + b"\r\n0\r\n\r\n"


GZIP = "Content-Encoding: gzip"
TRANSPORT = {
    "a script as redirect": (raw(b"", "Location: javascript:alert(1)", status="302 Found"), "APIStatusError"),
    "a redirect to nowhere": (raw(b"", "Location: http://[::1", status="302 Found"), "APIStatusError"),
    "gzip of two members": (raw(members(), GZIP), "User"),
    "gzip and rubbish": (raw(members() + b"xxx", GZIP), "User"),
    "gzip that is cut": (raw(members()[:-12], GZIP), "ConnectionFailed"),
    "no gzip": (raw(BODY, GZIP), "User"),
    "a refusal that is no gzip": (raw(BODY, GZIP, status="401 No"), "Unauthorized"),
    "a refusal in cut gzip": (raw(members()[:-12], GZIP, status="401 No"), "Unauthorized"),
    "a refusal in invalid gzip": (raw(b"\x1f\x8bno", GZIP, status="401 No"), "Unauthorized"),
    "100 kB in one header": (raw(BODY, "X-Long: " + "a" * 99_000), "User"),
    "100 kB of headers": (raw(BODY, *(f"X-{n}: {'a' * 990}" for n in range(99))), "User"),
    "200 headers": (raw(BODY, *(f"X-{n}: a" for n in range(200))), "User"),
    "a megabyte of headers": (raw(BODY, *(f"X-{n}: {'a' * 990}" for n in range(1_000))), "ConnectionFailed"),
    "bytes after the body": (raw(BODY) + b"more bytes", "User"),
    "another answer after the body": (raw(BODY) + raw(b"{}"), "User"),
    "bytes after the last chunk": (chunked() + b"more bytes", "User"),
    "another answer after the last chunk": (chunked() + raw(b"{}"), "User"),
    "chunks that are cut": (chunked()[:-9], "ConnectionFailed"),
    "a length twice": (raw(BODY, f"Content-Length: {len(BODY)}"), "User"),
    "two lengths": (raw(BODY, "Content-Length: 3"), "ConnectionFailed"),
    "a length and chunks": (chunked("Content-Length: 5"), "User"),
    "line feeds alone": (raw(BODY).replace(b"\r\n", b"\n"), "User"),
    "an early hint": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + raw(BODY), "User"),
    "a body without a length": (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, "User"),
}


@pytest.mark.parametrize(("content", "outcome"), TRANSPORT.values(), ids=TRANSPORT)
def test_both_clients_treat_odd_transport_equally(content, outcome):
    outcomes = {}
    for face in FACES:
        with (
            faults.running(faults.always(faults.Garbage(content))) as server,
            connected(face, server.base_url, retries=0) as client,
        ):
            try:
                outcomes[face] = type(client.get_user((12, "ab12"))).__name__
            except ek.ExposureError as error:
                outcomes[face] = type(error).__name__
    assert outcomes == dict.fromkeys(FACES, outcome)


@pytest.mark.parametrize("face", FACES)
def test_bytes_after_a_response_are_not_the_next_one(face):
    script = [faults.Garbage(raw(BODY) + raw(b'{"user": {"id": 666}}')), faults.Well()]
    with faults.running(script) as server, connected(face, server.base_url) as client:
        assert [client.get_user((12, "ab12")).id for _ in range(2)] == [12, 12]
