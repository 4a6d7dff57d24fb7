"""Create, list, get and update over HTTP, rule by rule of the specification."""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select
from support.services import JANE, a_database, a_service, at_work, in_event_loop, json_body, opened

from exposurekit.contract.models import UserPage, UserReply
from exposurekit.service.accounts import integrators, user_items, users
from exposurekit.service.errors import ApiError
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database

FULL = {
    "middle_name": "Quentin",
    "birth_date": -86_400,
    "aliases": [{"first_name": "Janie", "last_name": "Doe", "alias_type": "nickname"}],
    "emails": [{"address": "jane@club.example"}],
    "phone_numbers": [{"number": "555 123 4567"}],
    "addresses": [{"address1": "1 Main", "city": "Oakmere", "state": "CA", "zip": "01234", "country": "US"}],
}


def test_a_user_has_the_fields_of_the_specification(service):
    """Create user, rule 3; "User (response object)"."""
    user = service.create(**FULL)
    ids = [user[kind][0].pop("id") for kind in ("aliases", "emails", "phone_numbers", "addresses")]
    assert len(set(ids)) == 4
    assert list(user.items()) == [
        ("id", user["id"]),
        ("secret", user["secret"]),
        ("birth_date", -86_400),
        ("first_name", "Jane"),
        ("middle_name", "Quentin"),
        ("last_name", "Doe"),
        ("aliases", [{"first_name": "Janie", "last_name": "Doe"}]),
        ("emails", [{"address": "jane@club.example"}]),
        ("phone_numbers", [{"number": "5551234567"}]),
        (
            "addresses",
            [{"address1": "1 Main", "address2": None, "city": "Oakmere", "state": "CA", "zip": "01234"}],
        ),
        ("records", []),
        ("links", []),
        ("service_history", [{"activated_service_on": "2026/01/02 03:04:05 +0000"}]),
        ("is_scanning", False),
        ("identification_on_file", False),
    ]


def test_a_secret_has_eighteen_digits_as_text(service):
    """Where the specification is silent: "user secret"."""
    secrets = {service.create()["secret"] for _ in range(20)}
    assert len(secrets) == 20
    assert all(re.fullmatch("[1-9][0-9]{17}", secret) for secret in secrets)


def test_get_user_returns_the_created_user(service):
    """Get user: 200 { user: <User> }."""
    user = service.create(**FULL)
    assert service.get(user)["user"] == user
    assert UserReply.model_validate(service.get(user)).user.id == user["id"]


@pytest.mark.parametrize("async_value", [True, "false", 0, "", None])
def test_async_starts_no_scan_without_consent(service, async_value):
    """Where the specification is silent: "async"."""
    assert service.create(**{"async": async_value})["is_scanning"] is False


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"async": "perhaps"}, "async is invalid: it must be true or false"),
        ({"birth_date": 4_102_444_800}, "birth_date is invalid: it must not be in the future"),
        (
            {"emails": [{"id": 1, "address": "a"}]},
            "emails[0][id] is invalid: the user has no such item",
        ),  # a new user has no items
    ],
)
def test_creating_a_user_with_an_invalid_field_is_a_400(service, fields, error):
    response = service.call("POST", "/users", json=JANE | fields)
    assert (response.status_code, response.json()) == (400, {"error": error})


def test_users_are_listed_by_id_with_count_and_total(tmp_path):
    """List users; Not in the specification: count and total, both the number of all users."""
    with a_service(tmp_path) as service:
        assert json_body(service.call("GET", "/users.json")) == {"count": 0, "total": 0, "users": []}
        keys = [{"id": user["id"], "secret": user["secret"]} for user in [service.create() for _ in range(5)]]
        assert json_body(service.call("GET", "/users")) == {"count": 5, "total": 5, "users": keys}
        page = json_body(service.call("GET", "/users", params={"limit": 2, "offset": 1}))
        assert page == {"count": 5, "total": 5, "users": keys[1:3]}
        assert UserPage.model_validate(page).count == 5
        beyond = json_body(service.call("GET", "/users", params={"offset": 2**63 - 1}))
        assert beyond == {"count": 5, "total": 5, "users": []}


def test_an_integrator_sees_its_own_users_only(service):
    other = at_work(service.database, lambda work: integrators.add(work, "other"))
    user = service.create()
    root = f"{service.base_url}/api/other/{other.api_key}/v2"
    query = {"api_secret": other.api_secret, "secret": user["secret"]}
    assert service.http.get(f"{root}/users", params=query).json()["count"] == 0
    assert service.http.get(f"{root}/users/{user['id']}", params=query).status_code == 401


def test_an_update_appends_changes_and_deletes_items(service):
    """Update user, rules 1 to 5: without id, with id, with _destroy; without id, _destroy is ignored."""
    user = service.create(**FULL | {"emails": "a@x.example,b@x.example"})
    [first, second], [address] = user["emails"], user["addresses"]
    emails = [{"address": "c@x.example"}, {"id": first["id"], "_destroy": True}]
    emails += [{"address": "d@x.example", "_destroy": True}]
    changed = {"zip": "99999", "address1": ""}
    updated = service.update(user, emails=emails, addresses=[{"id": str(address["id"])} | changed])
    assert updated["emails"] == [second, {"id": updated["emails"][1]["id"], "address": "c@x.example"}]
    assert updated["addresses"] == [address | changed]


def test_missing_and_null_fields_are_ignored(service):
    """Update user, rule 4."""
    user = service.create(**FULL)
    assert service.update(user) == user
    assert service.update(user, **dict.fromkeys([*FULL, "first_name", "last_name"])) == user
    assert (
        service.update(user, emails=[], addresses=[{"id": user["addresses"][0]["id"], "zip": None}]) == user
    )


@pytest.mark.parametrize(
    ("name", "cleared"),
    [
        *((name, "") for name in ("first_name", "middle_name", "last_name")),
        *((name, []) for name in ("aliases", "emails", "phone_numbers", "addresses")),
        ("birth_date", None),
    ],
)
def test_a_blank_string_clears_any_field(service, name, cleared):
    """Update user, rule 5; "User": null when unset."""
    user = service.create(**FULL)
    assert service.update(user, **{name: ""}) == user | {name: cleared}


@pytest.mark.parametrize("whose", ["nobody's", "another's", "another list's", "destroyed"])
def test_an_update_with_an_unknown_item_changes_nothing(service, whose):
    """Not in the specification: an update is all or nothing."""
    user, other = service.create(**FULL), service.create(**FULL)
    unknown = {
        "nobody's": 10**15,
        "another's": other["emails"][0]["id"],
        "another list's": user["aliases"][0]["id"],
        "destroyed": user["emails"][0]["id"],
    }[whose]
    items = [{"address": "new@x.example"}, {"id": unknown, "address": "x"}]
    if whose == "destroyed":
        items.insert(0, {"id": unknown, "_destroy": True})
    response = service.call("PUT", f"/users/{user['id']}", user, json={"first_name": "Mary", "emails": items})
    assert response.status_code == 400
    assert response.json() == {"error": f"emails[{len(items) - 1}][id] is invalid: the user has no such item"}
    assert service.get(user)["user"] == user
    assert service.get(other)["user"] == other


def test_a_list_has_a_maximum_of_100_items(service):
    user = service.create(emails=[{"address": f"{number}@x.example"} for number in range(100)])
    response = service.call("PUT", f"/users/{user['id']}", user, json={"emails": "one@more.example"})
    assert (response.status_code, response.json()) == (400, {"error": "emails has more than 100 items"})


def test_the_lists_of_a_user_have_a_maximum_of_text(service):
    """Bytes, not characters."""
    user = service.create(aliases=[{"first_name": "\u674e" * 250, "last_name": "Doe"} for _ in range(80)])
    more = {"emails": [{"address": "\u674e" * 200} for _ in range(10)]}
    response = service.call("PUT", f"/users/{user['id']}", user, json=more)
    problem = "emails is too long: a user's lists have at most 65,536 bytes"
    assert (response.status_code, response.json()) == (400, {"error": problem})
    assert service.update(user, middle_name="Q")["emails"] == user["emails"]


def test_lists_that_are_too_long_may_become_shorter(service, monkeypatch):
    user = service.create(aliases=[{"first_name": "Janie", "last_name": "Doe"}])
    monkeypatch.setattr(user_items, "TEXTS_MAX", 10)
    alias = {"id": user["aliases"][0]["id"]}
    assert service.update(user, aliases=[alias | {"first_name": "Jan"}])["aliases"][0]["first_name"] == "Jan"
    response = service.call(
        "PUT", f"/users/{user['id']}", user, json={"aliases": [alias | {"first_name": "Jane"}]}
    )
    assert response.status_code == 400


def test_concurrent_updates_all_succeed(service):
    user = service.create()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: service.update(user, emails=f"{number}@x.example"), range(16)))
    assert {email["address"] for email in service.get(user)["user"]["emails"]} == {
        f"{number}@x.example" for number in range(16)
    }


def test_a_quota_counts_the_people_an_integrator_has(service):
    first = service.create()
    n = json_body(service.call("GET", "/users"))["count"]
    service.work(lambda work: integrators.set_quota(work, "acme", n + 2))
    with ThreadPoolExecutor(4) as callers:
        calls = [
            callers.submit(service.call, "POST", "/users", json=JANE | {"async": True}) for _ in range(4)
        ]
    answers = sorted((one.result().status_code, one.result().text) for one in calls)
    refusal = f'{{"error":"the quota of {n + 2:,} people is reached: ask the operator to raise it"}}'
    assert [status for status, _ in answers] == [200, 200, 400, 400]
    assert {text for status, text in answers if status == 400} == {refusal}
    assert service.update(first, first_name="Janet")["first_name"] == "Janet"  # whom it has, it keeps
    service.work(lambda work: integrators.set_quota(work, "acme", None))
    assert service.create()["id"]


@in_event_loop
async def test_a_quota_is_exact_among_several_processes(store, tmp_path):
    """Registrations over two connections, and a quota that is set while they run."""
    person = {"first_name": "Jane", "last_name": "Doe"}
    first = a_database(tmp_path)
    second = Database(first._url.render_as_string(hide_password=False), vault=first.vault, clock=first.clock)

    async def create(database):
        async with database.writing() as session:
            await users.create(session, 1, person)

    async def set_quota():
        async with second.writing() as session:
            await integrators.set_quota(session, "acme", 0)  # waits for registrations that have begun
            [(count,)] = await session.all(select(func.count()).select_from(tables.users))
            await integrators.set_quota(session, "acme", count + 2)
            return count + 2

    async with opened(first), opened(second):
        async with first.writing() as session:
            await integrators.add(session, "acme")
        creating = [create(database) for database in (first, second) * 6]
        quota, *results = await asyncio.gather(set_quota(), *creating, return_exceptions=True)
        refusals = [one for one in results if one is not None]
        assert all(isinstance(one, ApiError) and one.status == 400 for one in refusals)
        assert len(results) - len(refusals) == min(quota, len(results))


BODIES = {
    "json": (
        "application/json",
        '{"first_name": "%s", "last_name": "Doe", "async": true, "addresses": [{"city": "Oak", "state": "CA"}]}',
    ),
    "form": (
        "application/x-www-form-urlencoded",
        "first_name=%s&last_name=Doe&async=true&addresses[][city]=Oak&addresses[][state]=CA",
    ),
    "xml": (
        "application/xml",
        """<user><first-name>%s</first-name><last-name>Doe</last-name><async>true</async>
        <addresses type="array"><address><city>Oak</city><state>CA</state></address></addresses></user>""",
    ),
}


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("json", r"Ja\r\nne\rx"), ("form", "Ja%0D%0Ane%0Dx"), ("xml", "Ja&#13;&#10;ne&#13;x")],
)
def test_line_ends_are_accepted_in_every_encoding(service, encoding, text):
    kind, body = BODIES[encoding]
    response = service.call("POST", "/users", content=body % text, headers={"content-type": kind})
    assert json_body(response)["user"]["first_name"] == "Ja\nne\nx"


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("json", '"last_name"'), ("form", "last_name"), ("xml", "<last-name>")],
)
def test_a_name_with_two_values_is_refused_in_every_encoding(service, encoding, name):
    kind, body = BODIES[encoding]
    twice = {"json": '"last_name": "Roe", ', "form": "last_name=Roe&", "xml": "<last-name>Roe</last-name>"}
    ambiguous = (body % "Jane").replace(name, twice[encoding] + name, 1)
    response = service.call("POST", "/users", content=ambiguous, headers={"content-type": kind})
    assert (response.status_code, "given two values" in response.text) == (400, True)


def test_a_name_with_two_values_in_json_text_is_refused(service):
    response = service.call(
        "POST",
        "/users",
        data=JANE
        | {
            "async": "true",
            "emails": '[{"address": "a@b.example", "address": "c@d.example"}]',
            "addresses": '[{"city": "Oak", "state": "CA"}]',
        },
    )
    assert (response.status_code, response.text) == (400, '{"error":"emails is invalid: it must be JSON"}')


def test_destroy_without_its_underscore_deletes_nothing(service):
    """Specification, "Update user": the parameter is `_destroy`."""
    user = service.create(emails=[{"address": "jane@club.example"}])
    item = {"id": user["emails"][0]["id"]}
    assert service.update(user, emails=[item | {"destroy": True}])["emails"] == user["emails"]
    assert service.update(user, emails=[item | {"_destroy": True}])["emails"] == []


def test_a_compressed_body_is_refused(service):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    response = service.call("POST", "/users", content=b"\x1f\x8b", headers=headers)
    assert (response.status_code, "without Content-Encoding" in response.text) == (415, True)
