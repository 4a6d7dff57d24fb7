"""The tests' own servers do what they say. Asked with plain httpx and plain sockets."""

import json
import threading
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from xml.etree import ElementTree as ET

import faults
import httpx
import otherwise
import pytest
from otherwise import MANNERS, PEOPLE, XML_MANNERS, Manner

USERS = f"/api/{otherwise.INTEGRATION_NAME}/{otherwise.API_KEY}/v2/users"
NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"


@pytest.fixture
def web():
    with httpx.Client(trust_env=False, timeout=5) as client:
        yield client


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def ask(web, service, path="", person=None, method="GET", **more):
    """One request to the otherwise server; the credentials travel in the query."""
    params = {"api_secret": otherwise.API_SECRET} | ({"secret": person["secret"]} if person else {})
    tail = f"/{person['id']}{path}" if person else path
    return web.request(method, f"{service}{USERS}{tail}.json", params=params | more.pop("params", {}), **more)


# --- otherwise ----------------------------------------------------------------------------------------


def test_plain_manners_give_the_people_as_the_specification_shapes_them(web):
    with otherwise.running() as service:
        for person in PEOPLE:
            user = ask(web, service, person=person).json()["user"]
            beyond = {"alerts", "addresses", "aliases"}
            assert user.items() >= {name: person[name] for name in person.keys() - beyond}.items()
            assert [item["zip"] for item in user["addresses"]] == [
                item["zip"] for item in person["addresses"]
            ]
            assert not any("country" in item for item in user["addresses"])
            assert ask(web, service, "/alerts", person).json() == {"alerts": person["alerts"]}
            assert ask(web, service, "/links", person).json() == {"links": person["links"]}
            listed = ask(web, service, "/records", person).json()["records"]
            assert [item["record"]["id"] for item in listed] == [item["id"] for item in person["records"]]
            assert not any("user_fields_required_for_removal" in item["record"] for item in listed)


@pytest.mark.parametrize("manner", MANNERS.values(), ids=MANNERS)
def test_every_manner_answers_every_reading_operation(web, manner):
    with otherwise.running(manner) as service:
        for person in PEOPLE:
            for path in ("", "/records", "/links", "/alerts"):
                assert ask(web, service, path, person).is_success
            for record in person["records"]:
                assert (
                    ask(web, service, f"/records/{record['id']}", person).json()["record"]["id"]
                    == record["id"]
                )
        assert ask(web, service).is_success
        assert {request.parameters for request in service.requests} == {
            ("api_secret", "secret"),
            ("api_secret",),
        }


@pytest.mark.parametrize("manner", XML_MANNERS.values(), ids=XML_MANNERS)
def test_xml_is_well_formed_and_carries_no_type(web, manner):
    with otherwise.running(manner) as service:
        for person in PEOPLE:
            for path in ("", "/records", "/links", "/alerts"):
                answer = ask(web, service, path, person)
                assert answer.headers["content-type"].startswith("text/xml")
                tree = ET.fromstring(answer.content)  # noqa: S314 our own server's
                assert tree.tag == "answer"
                assert {name for node in tree.iter() for name in node.attrib} <= {NIL}


def test_xml_repeats_elements_and_marks_null(web):
    with otherwise.running(Manner(encoding="xml")) as service:
        user = ET.fromstring(ask(web, service, person=PEOPLE[0]).content).find("user")  # noqa: S314 our own
        assert [node.findtext("address") for node in user.findall("emails")] == [
            "mirabel@example.com",
            "mira.okontan@example.org",
        ]
        assert user.findall("addresses")[1].find("address2").get(NIL) == "true"
        assert user.findtext("addresses/zip") == "01234"
    with otherwise.running(Manner(encoding="xml", xml_style="items", xml_null="empty")) as service:
        user = ET.fromstring(ask(web, service, person=PEOPLE[0]).content).find("user")  # noqa: S314 our own
        assert len(user.findall("emails/item")) == 2
        assert user.findall("addresses/item")[1].find("address2").attrib == {}


def test_the_suffix_chooses_the_encoding_unless_the_manner_does(web):
    with otherwise.running() as service:
        params = {"api_secret": otherwise.API_SECRET}
        assert web.get(f"{service}{USERS}.xml", params=params).content.startswith(b"<?xml")
        assert web.get(f"{service}{USERS}", params=params).json()["count"] == 5
    with otherwise.running(Manner(encoding="json")) as service:
        assert web.get(f"{service}{USERS}.xml", params=params).json()["count"] == 5


def test_pages_are_capped_in_silence(web):
    with otherwise.running(Manner(page_cap=3, count_name=None)) as service:
        first = ask(web, service, params={"limit": 100}).json()
        assert [user["id"] for user in first["users"]] == [101, 102, 103]
        assert list(first) == ["users"]
        rest = ask(web, service, params={"limit": 100, "offset": 3}).json()
        assert [user["id"] for user in rest["users"]] == [104, 107]


def test_one_deviation_shows_where_it_should(web):
    first, second = PEOPLE[:2]
    with otherwise.running(otherwise.OTHERWISE) as service:
        assert ask(web, service).json()["users"][0]["secret"] == int(first["secret"])
        user = ask(web, service, person=second).json()["user"]
        assert user["secret"] == int(second["secret"])
        assert user["birth_date"] == "1958-11-01"
        assert user["identification_onfile"] is True
        assert "identification_on_file" not in user
        assert user["records"][0]["record"]["status"] == "archived"
        assert [item["record"]["reference_id"] for item in user["records"][:2]] == [560228489, "00017"]
        assert "contains" not in user["links"][0]
        assert "x_note" in user["links"][0]
        assert user["addresses"][0]["country"] == "US"
        alert = ask(web, service, "/alerts", first).json()["alerts"][0]
        assert alert["opt_out_procedure"] == " ".join(first["alerts"][0]["opt_out_procedure"])
        assert alert["source_type"] == "breach"
        assert list(alert["source"]) == ["breach"]
    assert first["records"][0]["status"] == "discovered"


def test_credentials_are_checked_wherever_they_travel(web):
    person = PEOPLE[0]
    both = {"api_secret": otherwise.API_SECRET, "secret": person["secret"]}
    headers = {"X-Api-Secret": otherwise.API_SECRET, "X-User-Secret": person["secret"]}
    with otherwise.running() as service:
        url = f"{service}{USERS}/{person['id']}.json"
        ways = ({"params": both}, {"json": both}, {"data": both}, {"headers": headers})
        assert [web.request("PUT", url, **way).status_code for way in ways] == [200] * 4
        assert [(len(seen.query), len(seen.body), len(seen.headers)) for seen in service.requests] == [
            (2, 0, 0),
            (0, 2, 0),
            (0, 2, 0),
            (0, 0, 2),
        ]
        assert web.get(url, params=both | {"secret": "0"}).status_code == 401
        assert web.get(url, params={"secret": person["secret"]}).status_code == 400
        assert web.get(url.replace("key-", "no-"), params=both).status_code == 401
        assert web.get(url.replace("101", "105"), params=both).status_code == 401
    with otherwise.running(Manner(credentials_in="header")) as service:
        url = f"{service}{USERS}/{person['id']}.json"
        assert web.get(url, params=both).status_code == 400
        assert web.get(url, headers=headers).status_code == 200


def test_create_user_appends_a_person_who_can_be_asked_for(web):
    fields = {"first_name": "Oriel", "last_name": "Pask", "birth_date": -86400, "async": False}
    emails = [{"address": "oriel@example.com"}]
    with otherwise.running(Manner(secret="integer")) as service:
        user = ask(web, service, method="POST", json=fields | {"emails": emails}).json()["user"]
        assert [len(user[name]) for name in ("records", "links", "emails")] == [1, 1, 1]
        found = ask(web, service, person=user).json()["user"]
        assert (found["first_name"], found["birth_date"]) == ("Oriel", -86400)
        assert ask(web, service).json()["count"] == 6
        asynchronous = ask(web, service, method="POST", json=fields | {"async": True}).json()["user"]
        assert (asynchronous["is_scanning"], asynchronous["records"]) == (True, [])
        assert ask(web, service, method="POST", json={"first_name": "Oriel"}).status_code == 400
    with otherwise.running() as service:
        assert ask(web, service).json()["count"] == 5


def test_update_user_follows_its_five_rules(web):
    person = PEOPLE[0]
    with otherwise.running() as service:
        changes = {
            "middle_name": "",
            "emails": [{"address": "new@example.com"}, {"id": "11", "address": "other@example.com"}],
            "phone_numbers": [{"id": "21", "_destroy": True}],
        }
        user = ask(web, service, person=person, method="PUT", json=changes).json()["user"]
        assert (user["first_name"], user["middle_name"]) == ("Mirabel", "")
        assert [item["address"] for item in user["emails"]] == [
            "other@example.com",
            "mira.okontan@example.org",
            "new@example.com",
        ]
        assert [item["id"] for item in user["phone_numbers"]] == [22]
        assert "user_fields_required_for_removal" not in user["records"][0]
        wrong = {"first_name": "Nobody", "emails": [{"id": "99", "address": "x@example.com"}]}
        assert ask(web, service, person=person, method="PUT", json=wrong).status_code == 400
        assert ask(web, service, person=person).json()["user"]["first_name"] == "Mirabel"


@pytest.mark.parametrize(
    "fields",
    [
        {"addresses": json.dumps([{"city": "Ash", "state": "UT"}]), "emails": "a@example.com, b@example.com"},
        {"addresses[][city]": "Ash", "emails[][address]": ["a@example.com", "b@example.com"]},
        {
            "addresses[0][city]": "Ash",
            "emails[0][address]": "a@example.com",
            "emails[1][address]": "b@example.com",
        },
    ],
)
def test_form_bodies_of_three_kinds_make_the_same_lists(web, fields):
    with otherwise.running() as service:
        name = {"first_name": "Oriel", "last_name": "Pask"}
        user = ask(web, service, method="POST", data=name | fields).json()["user"]
        assert [item["city"] for item in user["addresses"]] == ["Ash"]
        assert [item["address"] for item in user["emails"]] == ["a@example.com", "b@example.com"]
        assert service.requests[-1].encoding == "application/x-www-form-urlencoded"


def test_refusals_come_in_the_manner_s_shape(web):
    with otherwise.running(Manner(errors="html")) as service:
        assert web.get(f"{service}{USERS}.json").text == "<h1>api_secret is missing</h1>"
    with otherwise.running(Manner(errors="empty")) as service:
        assert web.get(f"{service}{USERS}.json").content == b""


# --- faults -------------------------------------------------------------------------------------------

FAULTY = "/api/acme/key/v2/users"


def create(web, server):
    return web.post(f"{server.base_url}{FAULTY}.json", json={"first_name": "Odalys"})


def test_without_a_script_every_operation_is_answered_well(web):
    paths = {"list_users": "", "get_user": "/12", "list_user_records": "/12/records"}
    paths |= {
        "get_record": "/12/records/120",
        "list_user_links": "/12/links",
        "get_user_alerts": "/12/alerts",
    }
    with faults.running() as server:
        for operation, path in paths.items():
            assert web.get(f"{server.base_url}{FAULTY}{path}.json").json() == faults.BODIES[operation]
        assert web.put(f"{server.base_url}{FAULTY}/12.json", json={}).json() == faults.BODIES["update_user"]
        assert create(web, server).json() == faults.BODIES["create_user"]
        assert web.get(f"{server.base_url}{FAULTY}.json?offset=1").json() == {"count": 1, "users": []}
        assert web.get(f"{server.base_url}/else").status_code == 404
        assert (server.created, server.connections, len(server.requests)) == (1, 1, 10)
        assert server.requests[7].body == b'{"first_name":"Odalys"}'


@pytest.mark.parametrize(
    ("fault", "error", "created"),
    [
        (faults.LoseReply(), httpx.RemoteProtocolError, 1),
        (faults.Cut(20), httpx.RemoteProtocolError, 1),
        (faults.Reset("before"), httpx.TransportError, 0),  # met in writing or in reading, as it falls
        (faults.Reset("after"), httpx.ReadError, 1),
        (faults.Reset("amid"), httpx.ReadError, 1),
        (faults.Garbage(), httpx.RemoteProtocolError, 1),
        (faults.OversizedHeaders(), httpx.RemoteProtocolError, 1),
        (faults.OversizedHeaders(lines="many"), httpx.RemoteProtocolError, 1),
    ],
    ids=repr,
)
def test_a_broken_answer_is_an_error_and_the_next_request_is_well(web, fault, error, created):
    with faults.running([fault]) as server:
        with pytest.raises(error):
            create(web, server)
        assert server.created == created
        assert create(web, server).is_success
        assert server.created == created + 1


def test_a_reset_before_reading_is_shown_to_a_callable_all_the_same(web):
    script = faults.on("create_user", faults.Reset("before"))
    with faults.running(script) as server:
        with pytest.raises(httpx.TransportError):
            create(web, server)
        assert (server.created, server.received) == (0, 1)


def left_hanging(web, server):
    with suppress(httpx.TransportError):
        create(web, server)


def test_a_black_hole_reads_and_never_answers(web):
    with faults.running(faults.always(faults.BlackHole())) as server:
        with pytest.raises(httpx.ReadTimeout):
            web.post(f"{server.base_url}{FAULTY}.json", json={}, timeout=httpx.Timeout(20, read=0.1))
        assert server.created == 1
        hanging = threading.Thread(target=left_hanging, args=(web, server))
        hanging.start()
        while len(server.requests) < 2:
            hanging.join(0.01)
    hanging.join(20)  # it waits for an hour, if the server lets it
    assert not hanging.is_alive()


def test_refusals_are_framed_as_asked(web):
    at = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    script = [
        faults.too_many(7),
        faults.too_many(at),
        faults.unavailable("soon"),
        faults.unavailable(None),
        faults.server_error(),
        faults.refused(401),
        faults.html_page(),
        faults.empty(),
        faults.redirect("http://127.0.0.2:9/"),
    ]
    with faults.running(script) as server:
        answers = [create(web, server) for _ in script]
        assert [answer.status_code for answer in answers] == [429, 429, 503, 503, 500, 401, 200, 200, 302]
        waits = [answer.headers.get("retry-after") for answer in answers[:4]]
        assert (waits[0], waits[2], waits[3]) == ("7", "soon", None)
        assert parsedate_to_datetime(waits[1]) == at
        assert answers[6].text.startswith("<!doctype html>")
        assert answers[7].content == b""
        assert answers[8].headers["location"] == "http://127.0.0.2:9/"
        assert (server.created, server.received, server.connections) == (3, 9, 1)


def test_a_drip_never_ends(web):
    with (
        faults.running([faults.Drip(piece=b"  ", every_s=0)]) as server,
        web.stream("GET", f"{server.base_url}{FAULTY}.json") as answer,
    ):
        pieces = answer.iter_raw()
        assert sum(len(next(pieces)) for _ in range(100)) >= 200
        assert answer.headers["transfer-encoding"] == "chunked"


def test_a_gzip_bomb_is_small_on_the_wire_and_right(web):
    size = (5 << 20) + 123
    with faults.running([faults.GzipBomb(size)]) as server:
        answer = web.get(f"{server.base_url}{FAULTY}.json")
        assert answer.content == bytes(size)
        assert int(answer.headers["content-length"]) < size // 500
    assert len(faults.gzip_zeros(1 << 30)) < 2 << 20
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
    assert unpack.decompress(faults.gzip_zeros(1 << 30), 1 << 20) == bytes(1 << 20)


def test_faults_meet_only_the_operation_they_are_for(web):
    script = faults.on("get_user", faults.server_error(502), None, faults.server_error(504))
    with faults.running(script) as server:
        url = f"{server.base_url}{FAULTY}"
        statuses = [web.get(f"{url}{path}.json").status_code for path in ("", "/12", "/12", "", "/12", "/12")]
        assert statuses == [200, 502, 200, 200, 504, 200]
        assert [request.operation for request in server.requests].count("get_user") == 4
