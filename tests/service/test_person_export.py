"""The export of a person has every row and every value that is stored about them, and nothing of others."""

import asyncio
import dataclasses
import json

import pytest
from sqlalchemy import select, update
from support import full_person
from support.full_person import FULL, PERSONAL
from support.services import LISTING, PAGE, SITE

from exposurekit.service import person_export
from exposurekit.service.accounts import consent
from exposurekit.service.accounts.consent import NoSuchUser
from exposurekit.service.findings import candidates
from exposurekit.service.findings.candidates import Assessment
from exposurekit.service.storage import tables

PERSON = {"first_name": "Juniper", "middle_name": "Jo", "last_name": "Quill", "birth_date": 477_446_400}


@pytest.fixture
def user(service):
    """A person with rows in every table."""
    user = service.create(**(FULL | PERSON))
    name = service.credentials.integration_name
    service.work(lambda work: full_person.fill(work, user["id"], name))
    return user


@pytest.fixture
def juniper(user):
    return user["id"]


def exported(service, user_id):
    async def export():
        async with service.database.reading() as session:
            return await person_export.export(session, user_id)

    return asyncio.run(export())


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    return {leaf for one in value for leaf in leaves(one)} if isinstance(value, list) else {value}


def test_an_export_has_all_that_is_stored(service, juniper):
    export = exported(service, juniper)
    content = export.content
    about = (content["user_id"], content["integrator"], content["exported_at"])
    assert about == (juniper, service.credentials.integration_name, service.clock.now())
    assert content["users"][0]["content"] == PERSON | {"birth_date": "1985-02-17"}
    values = leaves(json.loads(json.dumps(content, default=str)))
    assert leaves(FULL) - {None} <= values
    assert {LISTING.reference_id, LISTING.href, PAGE.url, "Jane Doe, in writing", "pending"} <= values
    [consented] = content["consents"]
    assert (consented["granted_by"], consented["granted_at"]) == ("Jane Doe, in writing", service.clock.now())
    [message] = content["mail_messages"]
    assert message["content"].endswith("Hello")
    [request] = content["mail_requests"]
    assert "content" not in request
    sent = [one["content"] for one in content["deliveries"] if one["state"] == "pending"]
    assert [(one["user_id"], "discovered_records" in one["events"]) for one in sent] == [(juniper, True)]
    assert content["evidence"][0]["content"]["pages"] == []
    assert export.rows == sum(len(rows) for rows in content.values() if isinstance(rows, list))
    assert export.damaged == 0


def test_every_table_about_people_is_exported_but_copies(service, juniper):
    content = exported(service, juniper).content
    with_rows = {name for name, rows in content.items() if isinstance(rows, list) and rows}
    assert with_rows == PERSONAL - {"user_documents"}
    [attempt] = content["attempts"]
    assert attempt["delivery_id"] in {one["id"] for one in content["deliveries"]}
    assert (attempt["status"], attempt["outcome"]) == (500, "status 500")


def test_an_export_contains_no_secret_and_nobody_else(service, user, juniper):
    john = service.create(first_name="Johnathan", last_name="Someone")
    export = exported(service, juniper)
    text = json.dumps(export.content, default=str)
    [request] = service.work(lambda work: work.all(tables.mail_requests.select().filter_by(user_id=juniper)))
    [token] = service.work(_tokens(request))
    for hidden in (user["secret"], john["secret"], "Johnathan", "Someone", token):
        assert hidden not in text
    assert token[9:] not in text.lower()
    assert "To: optout+[address token]@privacy.example" in text
    assert "\\r\\n[address token]\\r\\nHello" in text  # where quoted-printable had broken it
    assert "secret" not in text
    assert "Quill" not in repr(export)


def test_a_rejected_candidate_is_exported_without_its_listing(service, juniper):
    """It is about somebody else, whose data it contains."""
    namesake = dataclasses.replace(LISTING, name="Juniper Namesake", reference_id="9")

    async def reject(work):
        await candidates.save(work, juniper, SITE.name, namesake, Assessment("possible", 0.4, ("the age",)))
        listed = await candidates.all(work, user_id=juniper, limit=9)
        [one] = [one for one in listed if one.listing.name == namesake.name]
        await candidates.reject(work, one.id)
        return one.id

    before = [one["content"] for one in exported(service, juniper).content["candidates"]]
    rejected = service.work(reject)
    export = exported(service, juniper)
    undecided = [one for one in export.content["candidates"] if one["verdict"] == "possible"]
    assert [one["content"] for one in undecided] == before
    [row] = [one for one in export.content["candidates"] if one not in undecided]
    assert row == {
        "id": rejected,
        "site": SITE.name,
        "verdict": "rejected",
        "score": 0.4,
        "observed_at": service.clock.now(),
    }
    assert "Namesake" not in json.dumps(export.content, default=str)


def _tokens(request):
    async def tokens(work):
        return [work.decrypt("mail requests", request.user_id, request.ciphertext)["token"]]

    return tokens


def test_a_damaged_value_costs_that_value(service, juniper):
    damage = update(tables.records).filter_by(user_id=juniper).values(ciphertext=b"\1" + bytes(60))
    service.work(lambda work: work.run(damage))
    export = exported(service, juniper)
    records = export.content["records"]
    assert [(one["content"], one["damaged"]) for one in records] == [(None, True)] * len(records)
    assert export.damaged == len(records)
    assert export.content["users"][0]["content"]["last_name"] == "Quill"


def test_an_export_is_one_snapshot_beside_changes(service, juniper):
    """It waits for no change of the person, and a change between two of its tables is not in it."""
    before = exported(service, juniper)

    async def export():
        async with service.database.reading() as session, service.database.writing() as work:
            await session.first(select(tables.users.c.id))
            await consent.consent(work, juniper, granted_by="Juniper, later")
            await consent.withdraw(work, juniper, withdrawn_by="Juniper, later")
            return await person_export.export(session, juniper)

    assert asyncio.run(export()) == before
    assert exported(service, juniper).content["consents"][-1]["withdrawn_by"] == "Juniper, later"


def test_nobody_cannot_be_exported(service):
    with pytest.raises(NoSuchUser):
        exported(service, 2**40)
