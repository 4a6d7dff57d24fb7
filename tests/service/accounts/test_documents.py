"""Get user responds from a document, byte for byte as it would from the rows, and never without authentication."""

import asyncio
import random
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest
from sqlalchemy import delete, insert, select, update
from support.services import LISTING, PAGE, SITE, a_service, at_work, json_body

from exposurekit.contract import codec
from exposurekit.errors import ExposureError
from exposurekit.service.accounts import consent, documents, integrators
from exposurekit.service.accounts.documents import Account
from exposurekit.service.api.app import create_app
from exposurekit.service.api.server import running
from exposurekit.service.database_check import Damage, check
from exposurekit.service.findings import removals
from exposurekit.service.findings.findings import discover_link, discover_record
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Database
from exposurekit.service.worker import create_worker

USERS, DOCUMENTS, ITEMS = tables.users, tables.user_documents, tables.user_items


@contextmanager
def beside(service, **options):
    """Another web process with the same database."""
    url = service.database._url.render_as_string(hide_password=False)
    database = Database(url, vault=service.database.vault, clock=service.clock)
    with running(create_app(database, **options)) as base_url:
        yield replace(service, base_url=base_url, database=database)


@pytest.fixture(scope="module")
def second_process(service):
    with beside(service) as process:
        yield process


def response_of(service, user, suffix=""):
    response = service.call("GET", f"/users/{user['id']}{suffix}", user)
    return response.status_code, response.content


def status_of(service, user):
    return response_of(service, user)[0]


def built(service, user, suffix=""):
    """What the response must be: built from the rows, without a document."""

    async def build(work):
        row = await work.first(select(USERS).where(USERS.c.id == user["id"]))
        flags = row.is_scanning, row.identification_on_file
        account = Account(user["id"], user["secret"], row.ciphertext, *flags)
        body = {"user": await documents.show(work, account, with_removal_fields=True)}
        return codec.encode(body, suffix.strip(".") or "json")

    return 200, service.work(build)


def missing(service):
    return service.work(lambda work: documents.missing(work, after=0, limit=1000))


def version_of(service, table, user):
    return service.work(lambda work: work.first(select(table.c.version).where(table.c.id == user["id"])))


def with_findings(service):
    user = service.create(emails="jane@club.example")

    async def discover(work):
        await discover_record(work, user["id"], LISTING, SITE)
        await discover_link(work, user["id"], PAGE)

    service.work(discover)
    return user


def listed(service, suffix="", **params):
    return service.call("GET", f"/users{suffix}", params=params).content


class Life:
    """One integrator's people and the events that happen to them, each in any of the processes."""

    def __init__(self, rng, processes):
        self.rng = rng
        self.processes = processes
        self.people = [processes[0].create() for _ in range(2)]
        self.purged = []

    @property
    def process(self):
        return self.rng.choice(self.processes)

    def step(self, event):
        """Let one event happen to someone."""
        EVENTS[event](self, self.rng.choice(self.people))

    def work(self, function, user, **options):
        with suppress(ExposureError):  # not possible in this state
            self.process.work(lambda work: function(work, user["id"], **options))

    def discover(self, user):
        listing = replace(LISTING, reference_id=str(self.rng.randrange(3)), age=self.rng.randrange(20, 90))
        self.work(discover_record, user, listing=listing, site=SITE)

    def link(self, user):
        page = replace(PAGE, url=f"https://{self.rng.randrange(2)}.example", title=str(self.rng.random()))
        self.work(discover_link, user, page=page)

    def purge(self, user):
        self.work(consent.purge, user)
        self.people.remove(user)
        self.purged.append(user)
        self.people.append(self.process.create())


def of_user(function, **options):
    return lambda life, user: life.work(function, user, **options)


def of_record(function, **options):
    def event(life, user):
        async def change(work, user_id):
            of_user = select(tables.records.c.id).where(tables.records.c.user_id == user_id)
            if ids := sorted(row.id for row in await work.all(of_user)):
                await function(work, life.rng.choice(ids), SITE, **options)

        life.work(change, user)

    return event


def flag(name):
    """As a scan does at its end: the document stays as it is."""

    def event(life, user):
        row = update(tables.users).where(tables.users.c.id == user["id"])
        life.process.work(lambda work: work.run(row.values({name: life.rng.random() < 0.5})))

    return event


def change(**fields):
    def event(life, user):
        values = {name: value(life.rng) if callable(value) else value for name, value in fields.items()}
        life.process.update(user, **values)

    return event


EVENTS = {
    "rename": change(first_name=lambda rng: rng.choice(("Ann", "Bea", "Cleo"))),
    "append": change(emails=lambda rng: f"{rng.randrange(10**6)}@x.example", birth_date=1),
    "clear": change(emails="", middle_name=lambda rng: rng.choice(("", "Q."))),
    "discover": Life.discover,
    "link": Life.link,
    "submit": of_record(removals.submit_removal),
    "verify": of_record(removals.verify_removal, absent=True),
    "refuse": of_record(removals.refuse_removal),
    "activate": of_user(consent.activate),
    "deactivate": of_user(consent.deactivate),
    "consent": of_user(consent.consent, granted_by="themselves"),
    "withdraw": of_user(consent.withdraw, withdrawn_by="themselves"),
    "scan": flag("is_scanning"),
    "identify": flag("identification_on_file"),
    "purge": Life.purge,
}


@pytest.mark.parametrize("seed", range(2))
def test_any_change_is_in_the_next_response_of_every_process(service, second_process, seed):
    rng = random.Random(seed)  # noqa: S311
    life = Life(rng, [service, second_process])
    for _ in range(20):
        life.step(rng.choice((*EVENTS, "discover", "verify")))
        for user in life.people[-2:]:
            suffix = rng.choice(("", ".json", ".xml"))
            expected = built(service, user, suffix)
            assert [response_of(one, user, suffix) for one in (service, second_process)] == [expected] * 2
        for user in life.purged[-1:]:
            assert status_of(service, user) == status_of(second_process, user) == 401
        assert missing(service) == []  # each response was one document


@pytest.mark.parametrize("event", EVENTS)
def test_each_change_is_in_the_next_response(service, second_process, event):
    """The same for one kind of event and one person."""
    life = Life(random.Random(7), [service])  # noqa: S311
    user = life.people[0]
    life.people = [user]
    life.step("discover")
    for _ in range(2):
        life.step(event)
        if life.purged:
            return
        for process in (service, second_process):
            assert response_of(process, user) == built(service, user)
        assert missing(service) == []


def test_a_document_of_another_version_is_not_used(service):
    """As one that was written by a transaction which overlapped."""
    user, other = with_findings(service), service.create(first_name="Other")

    async def swap(work):
        statement = select(DOCUMENTS.c.ciphertext).where(DOCUMENTS.c.id == other["id"])
        wrong = (await work.first(statement)).ciphertext
        of_user = update(DOCUMENTS).where(DOCUMENTS.c.id == user["id"])
        await work.run(of_user.values(version=DOCUMENTS.c.version - 1, ciphertext=wrong))

    service.work(swap)
    assert missing(service) == [user["id"]]
    assert response_of(service, user) == built(service, user)
    service.update(user, first_name="Janet")
    assert missing(service) == []
    assert response_of(service, user) == built(service, user)


def test_a_document_of_another_format_is_not_used(service):
    """As after an upgrade to a release whose response has another form."""
    user = with_findings(service)
    older = update(DOCUMENTS).where(DOCUMENTS.c.id == user["id"]).values(format=documents.FORMAT - 1)
    service.work(lambda work: work.run(older))
    assert missing(service) == [user["id"]]
    assert response_of(service, user) == built(service, user)
    service.update(user, first_name="Janet")
    assert missing(service) == []


def test_a_document_of_another_form_has_another_format(service):
    """Whoever changes this form counts up `documents.FORMAT`: stored documents have the form of before."""
    user = service.get(with_findings(service))["user"]
    assert documents.FORMAT == 1
    assert [*user] == [
        *("id", "secret", "birth_date", "first_name", "middle_name", "last_name"),
        *("aliases", "emails", "phone_numbers", "addresses", "records", "links", "service_history"),
        *("is_scanning", "identification_on_file"),
    ]
    assert [*user["addresses"][0]] == ["id", "address1", "address2", "city", "state", "zip"]
    assert [*user["links"][0]] == ["url", "title", "contains"]
    assert {*user["records"][0]} >= {"id", "site", "status", "user_fields_required_for_removal"}


def test_a_document_that_cannot_be_built_prevents_no_change(store, tmp_path, caplog):
    with a_service(tmp_path) as service:
        user = with_findings(service)
        foreign = {"neither": "of ours"}

        async def write(work):
            ciphertext = work.encrypt("addresses", user["id"], foreign)
            await work.run(update(ITEMS).where(ITEMS.c.kind == "addresses").values(ciphertext=ciphertext))
            await consent.deactivate(work, user["id"])

        service.work(write)
        assert missing(service) == [user["id"]]
        assert "document=unwritten" in caplog.text
        assert "of ours" not in caplog.text


def test_a_damaged_document_costs_nobody_a_response(store, tmp_path, caplog):
    with a_service(tmp_path) as service:
        user = with_findings(service)
        before = response_of(service, user)
        damaged = update(DOCUMENTS).values(ciphertext=b"\x01" + bytes(40))
        service.work(lambda work: work.run(damaged))
        assert response_of(service, user) == before
        assert "damaged=documents" in caplog.text
        problem = "ciphertext cannot be read"
        assert service.work(check)[1] == [Damage("user_documents", user["id"], user["id"], problem)]


def test_a_damaged_row_lets_its_user_change(store, tmp_path):
    """Their name cannot be read, so nobody can write their document: the one of before is out of date."""
    with a_service(tmp_path) as service:
        user = with_findings(service)
        damaged = update(USERS).values(ciphertext=b"\x01" + bytes(40))
        service.work(lambda work: work.run(damaged))
        service.work(lambda work: discover_link(work, user["id"], replace(PAGE, url="https://new.example")))
        assert len(service.get(user, "/links")["links"]) == 2
        assert missing(service) == [user["id"]]
        assert status_of(service, user) == 500


def test_a_change_that_fails_leaves_the_document_as_it_was(service):
    user = with_findings(service)
    before = response_of(service, user)

    async def fail(work):
        await discover_record(work, user["id"], replace(LISTING, reference_id="2"), SITE)
        raise LookupError

    with pytest.raises(LookupError):
        service.work(fail)
    assert missing(service) == []
    assert response_of(service, user) == before == built(service, user)


def test_a_worker_writes_missing_documents(store, tmp_path):
    """As after an upgrade from a version without documents."""
    with a_service(tmp_path) as service:
        users = [with_findings(service) for _ in range(3)] + [service.create() for _ in range(40)]
        before = [response_of(service, user) for user in users]
        service.work(lambda work: work.run(delete(DOCUMENTS)))
        assert len(missing(service)) == 43
        assert [response_of(service, user) for user in users] == before

        async def run_worker():
            running_worker = asyncio.create_task(create_worker(service.database).run())
            try:
                async with asyncio.timeout(60):
                    while True:
                        async with service.database.reading() as work:
                            if not await documents.missing(work, after=0, limit=1):
                                return
                        await asyncio.sleep(0)
            finally:
                running_worker.cancel()
                await asyncio.gather(running_worker, return_exceptions=True)

        asyncio.run(run_worker())
        assert [response_of(service, user) for user in users] == before


def test_a_lock_without_a_change_keeps_the_document(service):
    user = with_findings(service)
    before = version_of(service, USERS, user)
    assert version_of(service, DOCUMENTS, user) == before
    service.work(lambda work: consent.lock_user(work, user["id"], changes=False))
    assert version_of(service, USERS, user) == version_of(service, DOCUMENTS, user) == before


def test_a_purged_user_is_unauthorized_and_unlisted_at_once(service, second_process):
    user = service.create()
    for process in (service, second_process):
        assert status_of(process, user) == 200
        assert user["secret"].encode() in listed(process, limit=1000)
    service.work(lambda work: consent.purge(work, user["id"]))
    for process in (service, second_process):
        assert status_of(process, user) == 401
        assert user["secret"].encode() not in listed(process, limit=1000)


def test_a_document_requires_the_right_credentials(service):
    other = at_work(service.database, lambda work: integrators.add(work, "another"))
    user = service.create()
    assert status_of(service, user) == 200
    assert status_of(service, user | {"secret": "1" * 18}) == 401
    assert status_of(replace(service, credentials=other), user) == 401
    wrong = replace(service, credentials=replace(service.credentials, api_secret="wrong"))
    assert status_of(wrong, user) == wrong.call("GET", "/users").status_code == 401
    assert json_body(replace(service, credentials=other).call("GET", "/users"))["users"] == []
    assert status_of(service, user) == 200


def test_rotated_credentials_are_rejected_at_once(store, tmp_path):
    with a_service(tmp_path) as service:
        user = service.create()
        assert status_of(service, user) == 200
        page = listed(service)
        new = service.work(lambda work: integrators.rotate(work, "acme"))
        assert status_of(service, user) == service.call("GET", "/users").status_code == 401
        renewed = replace(service, credentials=new)
        assert status_of(renewed, user) == 200
        assert listed(renewed) == page


def test_a_lower_id_committed_late_is_listed(store, tmp_path):
    """As with concurrent registrations on PostgreSQL: the count and highest id stay the same."""
    with a_service(tmp_path) as service:
        first, late, last = (service.create() for _ in range(3))

        async def unregister(work):
            row = await work.first(select(tables.users).where(tables.users.c.id == late["id"]))
            await consent.purge(work, late["id"])
            return dict(row._mapping)

        row = service.work(unregister)
        users = json_body(service.call("GET", "/users"))["users"]
        assert [user["id"] for user in users] == [first["id"], last["id"]]

        async def swap(work):
            await consent.purge(work, first["id"])
            await work.add(insert(tables.users), row)

        service.work(swap)
        assert json_body(service.call("GET", "/users"))["users"] == [
            {"id": user["id"], "secret": user["secret"]} for user in (late, last)
        ]
