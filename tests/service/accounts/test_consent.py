"""Standing: nobody is scanned without activation and a recorded consent; and who is purged is forgotten wholly."""

import dataclasses
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, text
from support.services import LISTING, PAGE, SITE, json_body

from exposurekit.service.accounts import consent as accounts_consent
from exposurekit.service.accounts import integrators
from exposurekit.service.accounts.consent import ACTIVATED, DEACTIVATED, NoSuchUser
from exposurekit.service.accounts.users import INSTANT_FORMAT
from exposurekit.service.findings import candidates
from exposurekit.service.findings.candidates import Verdict
from exposurekit.service.findings.findings import discover_link, discover_record
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.leases import LeaseLost
from exposurekit.service.webhooks import delivery, endpoints, outbox
from exposurekit.service.webhooks.endpoints import Callback

LASTS = timedelta(minutes=5)


@pytest.fixture
def jane(service):
    """Somebody for whom the service is active, and who has consented to nothing yet."""
    return service.create()


@pytest.fixture(scope="module")
def attested(service):
    """The same service, asked by an integrator that answers for everybody's consent."""
    credentials = service.work(
        lambda work: integrators.add(work, "zeta", attested_by="Zeta, data protection")
    )
    return dataclasses.replace(service, credentials=credentials)


def do(service, function, user, *arguments, **named):
    return service.work(lambda work: function(work, user["id"], *arguments, **named))


def consent(service, user):
    do(service, accounts_consent.consent, user, granted_by="Jane Doe, by letter")


def withdraw(service, user):
    return do(service, accounts_consent.withdraw, user, withdrawn_by="Jane Doe, by telephone")


def row_of(service, user):
    async def row(work):
        return await work.first(select(tables.users).where(tables.users.c.id == user["id"]))

    return service.work(row)


def consents_of(service, user):
    columns = tables.consents.c

    async def rows(work):
        query = select(
            columns.purpose,
            columns.granted_by,
            columns.granted_at,
            columns.withdrawn_by,
            columns.withdrawn_at,
        )
        return await work.all(query.where(columns.user_id == user["id"]).order_by(columns.id))

    return [tuple(row) for row in service.work(rows)]


def take(service, table, row_id):
    return service.work(lambda work: leases.acquire_one(work, table, row_id, duration=LASTS))


# --- consent ---------------------------------------------------------------------------------------------


def test_a_consent_has_its_source_and_makes_a_scan_due(service, jane):
    """Consent recorded (who, when, for what)."""
    assert consents_of(service, jane) == []
    assert row_of(service, jane).due_at is None
    consent(service, jane)
    now = service.clock.now()
    assert consents_of(service, jane) == [("scan and removal", "Jane Doe, by letter", now, None, None)]
    assert (row_of(service, jane).due_at, service.get(jane)["user"]["is_scanning"]) == (now, True)


def test_a_consent_that_is_in_force_is_not_recorded_twice(service, jane):
    consent(service, jane)
    before = consents_of(service, jane)
    service.clock.advance(timedelta(days=1))
    do(service, accounts_consent.consent, jane, granted_by="somebody else")
    assert consents_of(service, jane) == before


def test_an_attestation_is_recorded_for_each_created_user(attested):
    """Create user starts a scan as the specification says."""
    user = attested.create(**{"async": True})
    now = attested.clock.now()
    assert user["is_scanning"] is True
    assert attested.get(user)["user"]["is_scanning"] is True
    assert consents_of(attested, user) == [("scan and removal", "Zeta, data protection", now, None, None)]
    assert row_of(attested, user).due_at == now


def test_without_an_attestation_scans_wait_for_a_recorded_consent(service, jane):
    """Only with recorded consent."""
    assert jane["is_scanning"] is False
    assert not do(service, accounts_consent.may_scan, jane)
    assert row_of(service, jane).due_at is None


def test_an_attestation_covers_users_created_while_it_holds(service):
    credentials = service.work(lambda work: integrators.add(work, "later"))
    later = dataclasses.replace(service, credentials=credentials)
    scanned = []
    for attested_by in (None, "Later, data protection", None):

        async def attest(work, who=attested_by):
            await integrators.attest(work, "later", attested_by=who)

        service.work(attest)
        scanned.append(later.create(**{"async": True})["is_scanning"])
    assert scanned == [False, True, False]


def test_a_consent_may_be_withdrawn_and_given_again(service, jane):
    """An operator can withdraw it for a person."""
    consent(service, jane)
    given_at = service.clock.now()
    service.clock.advance(timedelta(hours=1))
    assert withdraw(service, jane) == 1
    ended = service.clock.now()
    assert withdraw(service, jane) == 0
    service.clock.advance(timedelta(hours=1))
    do(service, accounts_consent.consent, jane, granted_by="Jane Doe, in person")
    assert consents_of(service, jane) == [
        ("scan and removal", "Jane Doe, by letter", given_at, "Jane Doe, by telephone", ended),
        ("scan and removal", "Jane Doe, in person", service.clock.now(), None, None),
    ]
    assert row_of(service, jane).due_at == service.clock.now()
    assert do(service, accounts_consent.may_scan, jane)


@pytest.mark.parametrize("stop", ["withdraw", "deactivate"])
def test_a_worker_loses_a_user_whose_scans_must_stop(service, jane, stop):
    """And then nothing is scanned or submitted."""
    consent(service, jane)
    site = dataclasses.replace(SITE, removed_by_us=True)
    record_id = do(service, discover_record, jane, LISTING, site)
    leases_held = [
        (tables.users, take(service, tables.users, jane["id"])),
        (tables.records, take(service, tables.records, record_id)),
    ]
    withdraw(service, jane) if stop == "withdraw" else do(service, accounts_consent.deactivate, jane)
    for table, lease in leases_held:
        with pytest.raises(LeaseLost):
            service.work(lambda work, table=table, lease=lease: leases.assert_held(work, table, lease))

        async def due(work, table=table, row_id=lease.row_id):
            return await work.first(select(table.c.due_at, table.c.lease).where(table.c.id == row_id))

        assert tuple(service.work(due)) == (None, None)
    assert service.get(jane)["user"]["is_scanning"] is False
    assert len(service.get(jane, "/records")["records"]) == 1


def test_what_stops_one_person_stops_no_other(service, jane):
    other = service.create()
    for user in (jane, other):
        consent(service, user)
    lease = take(service, tables.users, other["id"])
    withdraw(service, jane)
    do(service, accounts_consent.deactivate, jane)
    service.work(lambda work: leases.assert_held(work, tables.users, lease))
    assert row_of(service, other).due_at == service.clock.now()
    assert len(consents_of(service, other)) == 1
    assert do(service, accounts_consent.may_scan, other)


# --- activation ------------------------------------------------------------------------------------------


def test_the_history_of_the_service_is_told_in_order(service, jane):
    """Specification, "Service history entry"; Where the specification is silent: "service activation"."""
    expected = [{ACTIVATED: service.clock.now().strftime(INSTANT_FORMAT)}]
    for function, name in (
        (accounts_consent.deactivate, DEACTIVATED),
        (accounts_consent.activate, ACTIVATED),
    ) * 2:
        service.clock.advance(timedelta(days=1, seconds=1))
        do(service, function, jane)
        expected.append({name: service.clock.now().strftime(INSTANT_FORMAT)})
        assert service.get(jane)["user"]["service_history"] == expected
    assert [next(iter(entry)) for entry in expected] == [
        *("activated_service_on", "deactivated_service_on", "activated_service_on"),
        *("deactivated_service_on", "activated_service_on"),
    ]


def test_events_within_one_second_are_listed_in_order(service, jane):
    for function in (accounts_consent.deactivate, accounts_consent.activate, accounts_consent.deactivate):
        do(service, function, jane)
    names = [next(iter(entry)) for entry in service.get(jane)["user"]["service_history"]]
    assert names == [ACTIVATED, DEACTIVATED, ACTIVATED, DEACTIVATED]
    assert not do(service, accounts_consent.may_scan, jane)


@pytest.mark.parametrize("function", [accounts_consent.activate, accounts_consent.deactivate])
def test_what_is_so_already_is_not_entered_again(service, jane, function):
    do(service, function, jane)
    before = service.get(jane)["user"]["service_history"]
    service.clock.advance(timedelta(days=1))
    do(service, function, jane)
    assert service.get(jane)["user"]["service_history"] == before


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("consents", [True, False, "no longer", "again"])
@pytest.mark.parametrize("consent_first", [True, False])
def test_a_person_may_be_scanned_while_active_and_consenting_only(
    service, jane, active, consents, consent_first
):
    """Only while the service is activated and only with recorded consent."""
    if not active and not consent_first:
        do(service, accounts_consent.deactivate, jane)
    if consents:
        consent(service, jane)
    if consents in {"no longer", "again"}:
        withdraw(service, jane)
    if consents == "again":
        consent(service, jane)
    if not active and consent_first:
        do(service, accounts_consent.deactivate, jane)
    may = active and consents in {True, "again"}
    assert do(service, accounts_consent.may_scan, jane) is may
    assert (row_of(service, jane).due_at is not None) is may
    assert service.get(jane)["user"]["is_scanning"] is may
    assert do(service, accounts_consent.schedule_scan, jane) is may
    assert (row_of(service, jane).due_at is not None) is may


def test_activation_brings_the_scan_back(service, jane):
    """Not in the specification, "service activation": scanning follows it."""
    consent(service, jane)
    do(service, accounts_consent.deactivate, jane)
    service.clock.advance(timedelta(days=3))
    do(service, accounts_consent.activate, jane)
    assert row_of(service, jane).due_at == service.clock.now()


@pytest.mark.parametrize(("hours", "is_scanning"), [(None, True), (0, True), (-1, True), (1, False)])
def test_a_scan_is_planned_for_now_or_for_later(service, jane, hours, is_scanning):
    consent(service, jane)
    now = service.clock.now()
    at = None if hours is None else now + timedelta(hours=hours)
    assert do(service, accounts_consent.schedule_scan, jane, at)
    assert row_of(service, jane).due_at == (at or now)
    assert service.get(jane)["user"]["is_scanning"] is is_scanning


def test_people_are_counted_by_what_may_be_done_for_them(service):
    before = service.work(accounts_consent.counts)
    users = [service.create() for _ in range(5)]
    for user in users[:3]:
        consent(service, user)
    withdraw(service, users[0])
    consent(service, users[0])
    withdraw(service, users[1])
    for user in users[2:4]:
        do(service, accounts_consent.deactivate, user)
    after = service.work(accounts_consent.counts)
    assert {name: after[name] - before[name] for name in after} == {
        "registered": 5,
        "active": 3,
        "with_consent": 2,
        "may_be_scanned": 1,
    }


# --- purge -----------------------------------------------------------------------------------------------


def fill(service, user):
    """Something in every table that can be about a person."""

    async def fill(work):
        user_id = user["id"]
        await endpoints.set_callback(
            work, service.credentials.integration_name, Callback("https://acme.example/hook")
        )
        await accounts_consent.consent(work, user_id, granted_by="Jane Doe, by letter")
        record_id = await discover_record(work, user_id, LISTING, SITE)
        await discover_link(work, user_id, PAGE)
        listing = dataclasses.replace(LISTING, reference_id="2")
        await candidates.save(work, user_id, SITE.name, listing, Verdict("possible", 0.5, ("the name",)))
        [lease] = await leases.acquire(work, tables.deliveries, limit=1, duration=LASTS) or [None]
        assert lease is None
        row = await work.first(select(tables.deliveries.c.id).where(tables.deliveries.c.user_id == user_id))
        lease = await leases.acquire_one(work, tables.deliveries, row.id, duration=LASTS)
        await outbox.prepare(work, lease)
        await delivery.record_attempt(work, lease, status=500, outcome="status 500")
        await discover_record(work, user_id, dataclasses.replace(listing, reference_id="3"), SITE)
        await accounts_consent.deactivate(work, user_id)
        return record_id

    return service.work(fill)


def everything(service):
    async def everything(work):
        return {table: await work.all(select(table)) for table in tables.metadata.sorted_tables}

    return service.work(everything)


def about(rows, user):
    """The rows that are about a person, table by table."""
    owned = {row.id for row in rows[tables.deliveries] if row.user_id == user["id"]}
    rows_by_table = {}
    for table, some in rows.items():
        if "user_id" in table.c:
            rows_by_table[table.name] = [row for row in some if row.user_id == user["id"]]
        elif table is tables.users:
            rows_by_table[table.name] = [row for row in some if row.id == user["id"]]
        elif table is tables.attempts:
            rows_by_table[table.name] = [row for row in some if row.delivery_id in owned]
    return rows_by_table


PERSONAL = {
    *("users", "user_items", "records", "links", "alerts", "service_history", "consents", "candidates"),
    *("deliveries", "events", "attempts"),
}
FULL = {
    "aliases": [{"first_name": "Janie", "last_name": "Doe"}],
    "emails": [{"address": "jane@doe.example"}],
    "phone_numbers": [{"number": "2025550123"}],
}


def test_purging_deletes_all_rows_of_the_user_and_no_others(service):
    """Leaves nothing of a person in any table."""
    jane, john = service.create(**FULL), service.create(**FULL)
    for user in (jane, john):
        fill(service, user)
    before = everything(service)
    hers = about(before, jane)
    assert hers.keys() == PERSONAL
    assert all(hers.values())
    do(service, accounts_consent.purge, jane)
    after = everything(service)
    assert not any(about(after, jane).values())
    for table, rows in before.items():
        gone = hers.get(table.name, [])
        assert after[table] == [row for row in rows if row not in gone]
    assert service.call("GET", f"/users/{jane['id']}", jane).status_code == 401
    assert json_body(service.call("GET", f"/users/{john['id']}", john))["user"]["id"] == john["id"]


def test_every_table_knows_whose_it_is_or_is_about_nobody():
    """A table that is added must go with its person, or hold nothing of one."""
    cascading = {
        table.name
        for table in tables.metadata.sorted_tables
        for key in table.foreign_keys
        if key.ondelete == "CASCADE" and key.column.table.name in {"users", "deliveries"}
    }
    assert cascading | {"users"} == PERSONAL
    assert {table.name for table in tables.metadata.sorted_tables} - PERSONAL == {
        "integrators",
        "metadata",
        "sites",
    }


def bytes_of(rows):
    """Every sealed value, every digest."""
    return {
        bytes(value) for some in rows.values() for row in some for value in row if isinstance(value, bytes)
    }


def on_disk(service):
    file = Path(service.database._url.database)
    return b"".join(part.read_bytes() for part in file.parent.iterdir() if part.name.startswith(file.name))


def checkpoint(service):
    """What SQLite does by itself from time to time, and when the last connection closes."""
    connection = sqlite3.connect(service.database._url.database)
    assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    connection.close()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_purging_a_person_leaves_nothing_of_them_in_the_file(service):
    """Deleted pages are the database's file too; the write-ahead log holds them until it is written back."""
    jane = service.create(**FULL)
    fill(service, jane)
    hers = {value for value in bytes_of(about(everything(service), jane)) if len(value) >= 32}
    assert len(hers) > 15
    # A value that goes on over several pages has their heads in between.
    pieces = {value[:24] for value in hers} | {value[-24:] for value in hers}
    checkpoint(service)
    assert all(piece in on_disk(service) for piece in pieces)
    do(service, accounts_consent.purge, jane)
    checkpoint(service)
    disk = on_disk(service)
    assert [piece for piece in pieces if piece in disk] == []


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_what_is_deleted_is_overwritten(service):
    """SQLite may be built without it, and then keeps what was deleted in free pages."""

    async def setting(work):
        return (await work.first(text("PRAGMA secure_delete")))[0]

    assert service.work(setting) == 1


def test_the_id_of_a_purged_person_is_never_given_again(service, jane):
    do(service, accounts_consent.purge, jane)
    assert service.create()["id"] > jane["id"]


@pytest.mark.parametrize(
    "step",
    [
        accounts_consent.lock_user,
        accounts_consent.purge,
        accounts_consent.activate,
        accounts_consent.deactivate,
        lambda work, user_id: accounts_consent.consent(work, user_id, granted_by="nobody"),
        lambda work, user_id: accounts_consent.withdraw(work, user_id, withdrawn_by="nobody"),
    ],
    ids=["hold", "purge", "activate", "deactivate", "consent", "withdraw"],
)
def test_a_person_who_is_not_there_has_no_standing(service, jane, step):
    do(service, accounts_consent.purge, jane)
    with pytest.raises(NoSuchUser, match="no user has this id"):
        do(service, step, jane)
    assert not do(service, accounts_consent.may_scan, jane)
    assert not do(service, accounts_consent.schedule_scan, jane)


def test_a_consent_for_something_else_is_none_for_a_scan(service, jane):
    async def other(work):
        row = {
            "user_id": jane["id"],
            "purpose": "a newsletter",
            "granted_by": "Jane Doe",
            "granted_at": work.clock.now(),
        }
        await work.add(insert(tables.consents), row)
        return (await work.first(select(func.count()).where(tables.consents.c.user_id == jane["id"])))[0]

    assert service.work(other) == 1
    assert not do(service, accounts_consent.may_scan, jane)
