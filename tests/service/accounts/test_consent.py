"""Consent: a user is scanned only while active and with recorded consent; a purge deletes everything of a user."""

import dataclasses
import sqlite3
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import insert, select, text, update
from support import full_person
from support.full_person import FULL, PERSONAL
from support.services import LISTING, SITE, json_body

from exposurekit.service.accounts import consent as accounts_consent
from exposurekit.service.accounts import integrators
from exposurekit.service.accounts.consent import ACTIVATED, DEACTIVATED, NoSuchUser
from exposurekit.service.accounts.documents import INSTANT_FORMAT
from exposurekit.service.findings.findings import discover_record
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.leases import LeaseLost

LASTS = timedelta(minutes=5)


@pytest.fixture
def jane(service):
    """An active user without consent."""
    return service.create()


@pytest.fixture(scope="module")
def attested(service):
    """The same service, with an integrator who attests every consent."""
    credentials = service.work(
        lambda work: integrators.add(work, "zeta", attested_by="Zeta, data protection")
    )
    return dataclasses.replace(service, credentials=credentials)


def do(service, function, user, *arguments, **named):
    return service.work(lambda work: function(work, user["id"], *arguments, **named))


def consent(service, user):
    do(service, accounts_consent.consent, user, granted_by="Jane Doe, in writing")


def withdraw(service, user):
    return do(service, accounts_consent.withdraw, user, withdrawn_by="Jane Doe, by telephone")


def row_of(service, user):
    query = select(tables.users).where(tables.users.c.id == user["id"])
    return service.work(lambda work: work.first(query))


def consents_of(service, user):
    names = ("purpose", "granted_by", "granted_at", "withdrawn_by", "withdrawn_at")
    query = select(*(tables.consents.c[name] for name in names))
    query = query.where(tables.consents.c.user_id == user["id"]).order_by(tables.consents.c.id)
    return [tuple(row) for row in service.work(lambda work: work.all(query))]


def take(service, table, row_id):
    return service.work(lambda work: leases.acquire_one(work, table, row_id, duration=LASTS))


def test_a_consent_has_its_source_and_makes_a_scan_due(service, jane):
    assert consents_of(service, jane) == []
    assert row_of(service, jane).due_at is None
    consent(service, jane)
    now = service.clock.now()
    assert consents_of(service, jane) == [("scan and removal", "Jane Doe, in writing", now, None, None)]
    assert (row_of(service, jane).due_at, service.get(jane)["user"]["is_scanning"]) == (now, True)


def test_a_valid_consent_is_not_recorded_twice(service, jane):
    consent(service, jane)
    before = consents_of(service, jane)
    service.clock.advance(timedelta(days=1))
    do(service, accounts_consent.consent, jane, granted_by="somebody else")
    assert consents_of(service, jane) == before


def test_an_attestation_is_recorded_for_each_created_user(attested):
    """Specification, "Create user": it starts a scan."""
    user = attested.create(**{"async": True})
    now = attested.clock.now()
    assert user["is_scanning"] is True
    assert attested.get(user)["user"]["is_scanning"] is True
    assert consents_of(attested, user) == [("scan and removal", "Zeta, data protection", now, None, None)]
    assert row_of(attested, user).due_at == now


def test_an_attestation_covers_users_created_during_it(service):
    credentials = service.work(lambda work: integrators.add(work, "later"))
    later = dataclasses.replace(service, credentials=credentials)
    scanned = []
    for attested_by in (None, "Later, data protection", None):
        service.work(partial(integrators.attest, name="later", attested_by=attested_by))
        scanned.append(later.create(**{"async": True})["is_scanning"])
    assert scanned == [False, True, False]


def test_a_consent_may_be_withdrawn_and_renewed(service, jane):
    consent(service, jane)
    granted_at = service.clock.now()
    service.clock.advance(timedelta(hours=1))
    assert withdraw(service, jane) == 1
    ended = service.clock.now()
    assert withdraw(service, jane) == 0
    service.clock.advance(timedelta(hours=1))
    do(service, accounts_consent.consent, jane, granted_by="Jane Doe, in person")
    assert consents_of(service, jane) == [
        ("scan and removal", "Jane Doe, in writing", granted_at, "Jane Doe, by telephone", ended),
        ("scan and removal", "Jane Doe, in person", service.clock.now(), None, None),
    ]
    assert row_of(service, jane).due_at == service.clock.now()
    assert do(service, accounts_consent.may_scan, jane)


@pytest.mark.parametrize("stop", ["withdraw", "deactivate"])
def test_a_worker_loses_a_user_whose_scans_must_stop(service, jane, stop):
    consent(service, jane)
    site = dataclasses.replace(SITE, removed_by_us=True)
    record_id = do(service, discover_record, jane, LISTING, site)
    acquired = [
        (tables.users, take(service, tables.users, jane["id"])),
        (tables.records, take(service, tables.records, record_id)),
    ]
    withdraw(service, jane) if stop == "withdraw" else do(service, accounts_consent.deactivate, jane)
    for table, lease in acquired:
        with pytest.raises(LeaseLost):
            service.work(partial(leases.assert_held, table=table, lease=lease))
        query = select(table.c.due_at, table.c.lease).where(table.c.id == lease.row_id)
        assert tuple(service.work(lambda work, query=query: work.first(query))) == (None, None)
    assert service.get(jane)["user"]["is_scanning"] is False
    assert len(service.get(jane, "/records")["records"]) == 1


def test_stopping_one_user_stops_no_other(service, jane):
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


@pytest.mark.parametrize("interval", [timedelta(), timedelta(days=1, seconds=1)])
def test_the_service_history_is_in_order(service, jane, interval):
    """Specification, "Service history entry"; Where the specification is silent: "service activation"."""
    assert (ACTIVATED, DEACTIVATED) == ("activated_service_on", "deactivated_service_on")
    steps = [(accounts_consent.deactivate, DEACTIVATED), (accounts_consent.activate, ACTIVATED)]
    expected = [{ACTIVATED: service.clock.now().strftime(INSTANT_FORMAT)}]
    for function, name in steps * 2:
        service.clock.advance(interval)
        do(service, function, jane)
        expected.append({name: service.clock.now().strftime(INSTANT_FORMAT)})
        assert service.get(jane)["user"]["service_history"] == expected


@pytest.mark.parametrize("function", [accounts_consent.activate, accounts_consent.deactivate])
def test_a_repeated_activation_or_deactivation_is_not_recorded(service, jane, function):
    do(service, function, jane)
    before = service.get(jane)["user"]["service_history"]
    service.clock.advance(timedelta(days=1))
    do(service, function, jane)
    assert service.get(jane)["user"]["service_history"] == before


@pytest.mark.parametrize("active", [True, False])
@pytest.mark.parametrize("consents", [True, False, "no longer", "again"])
@pytest.mark.parametrize("consent_first", [True, False])
def test_a_user_is_scanned_only_while_active_and_consenting(service, jane, active, consents, consent_first):
    assert jane["is_scanning"] is False
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


def test_users_are_counted_by_activation_and_consent(service):
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


def fill(service, user):
    name = service.credentials.integration_name
    return service.work(lambda work: full_person.fill(work, user["id"], name))


def everything(service):
    async def read(work):
        return {table: await work.all(select(table)) for table in tables.metadata.sorted_tables}

    return service.work(read)


def about(rows, user):
    """The rows about a user, by table."""
    owned = {row.id for row in rows[tables.deliveries] if row.user_id == user["id"]}
    rows_by_table = {}
    for table, some in rows.items():
        if "user_id" in table.c:
            rows_by_table[table.name] = [row for row in some if row.user_id == user["id"]]
        elif table in {tables.users, tables.user_documents}:
            rows_by_table[table.name] = [row for row in some if row.id == user["id"]]
        elif table is tables.attempts:
            rows_by_table[table.name] = [row for row in some if row.delivery_id in owned]
    return rows_by_table


def test_purging_deletes_all_rows_of_the_user_and_no_others(service):
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


def test_every_table_about_users_is_purged_by_cascade():
    cascading = {
        table.name
        for table in tables.metadata.sorted_tables
        for key in table.foreign_keys
        if key.ondelete == "CASCADE" and key.column.table.name in {"users", "deliveries"}
    }
    assert cascading | {"users"} == PERSONAL
    assert {table.name for table in tables.metadata.sorted_tables} - PERSONAL == {
        "audit_entries",  # names people by id
        *("evidence_entries", "evidence_roots"),  # digests, which reveal nothing without the purged evidence
        "integrators",
        "mailboxes",  # the operator's
        "metadata",
        "sites",
    }


def bytes_of(rows):
    """Every ciphertext and digest."""
    return {
        bytes(value) for some in rows.values() for row in some for value in row if isinstance(value, bytes)
    }


def on_disk(service):
    file = Path(service.database._url.database)
    return b"".join(part.read_bytes() for part in file.parent.iterdir() if part.name.startswith(file.name))


def checkpoint(service):
    """SQLite does this from time to time, and when the last connection closes."""
    connection = sqlite3.connect(service.database._url.database)
    assert connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    connection.close()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_purge_leaves_no_bytes_of_the_user(service):
    """Deleted pages remain in the file, and in the write-ahead log until a checkpoint."""
    jane = service.create(**FULL)
    fill(service, jane)
    hers = {value for value in bytes_of(about(everything(service), jane)) if len(value) >= 32}
    assert len(hers) > 15
    # A value on several pages has page headers in between.
    pieces = {value[:24] for value in hers} | {value[-24:] for value in hers}
    checkpoint(service)
    assert all(piece in on_disk(service) for piece in pieces)
    do(service, accounts_consent.purge, jane)
    checkpoint(service)
    disk = on_disk(service)
    assert [piece for piece in pieces if piece in disk] == []


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_deleted_rows_are_overwritten(service):
    """SQLite may be built without this, and then leaves deleted rows in free pages."""
    assert service.work(lambda work: work.first(text("PRAGMA secure_delete")))[0] == 1


def test_the_id_of_a_purged_user_is_never_reused(service, jane):
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
        lambda work, user_id: accounts_consent.rescan(work, [user_id]),
    ],
    ids=["lock", "purge", "activate", "deactivate", "consent", "withdraw", "rescan"],
)
def test_an_unknown_user_raises_error_and_is_never_scanned(service, jane, step):
    do(service, accounts_consent.purge, jane)
    with pytest.raises(
        NoSuchUser, match=r"^no user has the id [0-9]+: exposurekit users list shows the ids$"
    ):
        do(service, step, jane)
    assert not do(service, accounts_consent.may_scan, jane)
    assert not do(service, accounts_consent.schedule_scan, jane)


def test_a_rescan_is_due_only_for_who_may_be_scanned(service, attested, jane):
    mary, zoe = (attested.create(**{"async": True}) for _ in range(2))
    later = service.clock.now() + timedelta(days=6)
    for user in (jane, mary, zoe):
        do(service, accounts_consent.schedule_scan, user)
    next_week = (
        update(tables.users).where(tables.users.c.due_at.is_not(None)).values(due_at=later, is_scanning=False)
    )
    service.work(lambda work: work.run(next_week))
    before = [row_of(service, user).version for user in (jane, mary)]
    assert service.work(lambda work: accounts_consent.rescan(work, [jane["id"], mary["id"]])) == 1
    assert [row_of(service, user).due_at for user in (jane, mary, zoe)] == [None, service.clock.now(), later]
    assert [row_of(service, user).version for user in (jane, mary)] == before  # the API shows no change
    due = service.work(accounts_consent.rescan)
    assert row_of(service, zoe).due_at == service.clock.now()
    rows = service.work(lambda work: work.all(select(tables.users.c.due_at)))
    assert due == sum(row.due_at is not None for row in rows)


def test_a_rescan_repeats_no_scan_that_is_under_way(service, attested):
    user = attested.create(**{"async": True})
    lease = take(service, tables.users, user["id"])
    started = row_of(service, user).due_at
    service.clock.advance(timedelta(minutes=1))
    service.work(lambda work: accounts_consent.rescan(work, [user["id"]]))
    assert (row_of(service, user).due_at, row_of(service, user).lease) == (started, lease.token)


def test_registrations_are_the_newest_with_their_state_and_scans(service, attested, jane):
    zoe = attested.create(**{"async": True})
    do(service, discover_record, zoe, LISTING, SITE)
    do(service, accounts_consent.deactivate, zoe)
    listed = service.work(lambda work: accounts_consent.registrations(work, limit=2))
    assert [(one.user_id, one.integrator) for one in listed] == [(jane["id"], "acme"), (zoe["id"], "zeta")]
    states = [(one.is_active, one.has_consent, one.records, one.next_scan_at) for one in listed]
    assert states == [(True, False, 0, None), (False, True, 1, None)]
    assert listed[0].registered_at <= service.clock.now()


def test_a_consent_for_another_purpose_permits_no_scan(service, jane):
    row = {"user_id": jane["id"], "purpose": "a newsletter", "granted_by": "Jane Doe"}
    row["granted_at"] = service.clock.now()
    service.work(lambda work: work.add(insert(tables.consents), row))
    assert len(consents_of(service, jane)) == 1
    assert not do(service, accounts_consent.may_scan, jane)
