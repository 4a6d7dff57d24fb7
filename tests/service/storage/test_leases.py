"""Leases: one worker at a time has a due row, and a late worker changes nothing."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy import insert, select, update
from support.services import START, a_database

from exposurekit.service.accounts import integrators
from exposurekit.service.clock import FrozenClock
from exposurekit.service.storage import leases, tables
from exposurekit.service.storage.database import Database
from exposurekit.service.storage.leases import Lease, LeaseLost

LASTS = timedelta(seconds=30)
USERS = tables.users
SOON = timedelta(minutes=1)


@dataclass
class Desk:
    """Two connections to one database, and a clock."""

    runner: asyncio.Runner
    database: Database
    other: Database
    clock: FrozenClock

    def write(self, function, *arguments, **named):
        async def write():
            async with self.database.writing() as work:
                return await function(work, *arguments, **named)

        return self.runner.run(write())

    def rows(self, *due, integrator_id=1):
        """A row for each of these times, in seconds from now; None: not due."""
        row = {
            "integrator_id": integrator_id,
            "secret_ciphertext": b"",
            "ciphertext": b"",
            "created_at": START,
        }

        async def add(work):
            times = [None if s is None else self.clock.now() + timedelta(seconds=s) for s in due]
            return [await work.add(insert(USERS), row | {"due_at": at}) for at in times]

        return self.write(add)

    def take(self, limit=10, duration=LASTS, **options):
        return self.write(leases.acquire, USERS, limit=limit, duration=duration, **options)

    def take_ids(self, **options):
        return [lease.row_id for lease in self.take(**options)]

    def state(self, row_id):
        query = select(USERS.c.due_at, USERS.c.lease, USERS.c.lease_until, USERS.c.is_scanning)

        return tuple(self.write(lambda work: work.first(query.where(USERS.c.id == row_id))))

    def complete(self, lease, due_at=None, **changes):
        self.write(leases.complete, USERS, lease, due_at=due_at, **changes)

    def count(self):
        return self.write(leases.counts, USERS)

    def later(self, **by):
        self.clock.advance(timedelta(**by))


@pytest.fixture
def desk(store, tmp_path):
    clock = FrozenClock(START)
    first = a_database(tmp_path, clock=clock)
    other = Database(first._url.render_as_string(hide_password=False), vault=first.vault, clock=clock)
    with asyncio.Runner() as runner:
        for database in (first, other):
            runner.run(database.open())
        desk = Desk(runner, first, other, clock)
        desk.write(integrators.add, "acme")
        yield desk
        for database in (first, other):
            runner.run(database.close())


def test_the_longest_due_row_is_leased_first(desk):
    late, never, first, soon, second, third = desk.rows(-1, None, -60, 0.001, -30, -30)
    assert desk.take_ids(limit=2) == [first, second]
    assert desk.take_ids() == [third, late]
    desk.later(milliseconds=1)
    assert desk.take_ids() == [soon]
    assert desk.state(never) == (None, None, None, False)


def test_no_more_rows_than_the_limit_are_leased(desk):
    ids = desk.rows(*[-1] * 5)
    assert desk.take_ids(limit=0) == []
    assert desk.take_ids(limit=3) == ids[:3]
    assert desk.take_ids(limit=3) == ids[3:]
    assert desk.take_ids() == []


def test_a_lease_holder_may_reschedule_and_change_its_row(desk):
    [row] = desk.rows(0)
    [lease] = desk.take()
    desk.complete(lease, START + SOON, is_scanning=True)
    assert desk.state(row) == (START + SOON, None, None, True)
    assert desk.take() == []
    desk.later(minutes=1)
    assert desk.take_ids() == [row]


def test_a_late_worker_may_complete_a_free_row(desk):
    [row] = desk.rows(0)
    [lease] = desk.take()
    desk.later(days=1)
    desk.complete(lease, is_scanning=True)
    assert desk.state(row) == (None, None, None, True)
    desk.later(days=365)
    assert desk.take() == []


def test_a_worker_whose_lease_has_ended_changes_nothing(desk):
    [row] = desk.rows(0)
    [late] = desk.take()
    desk.later(seconds=29.999)
    assert desk.take() == []
    desk.later(seconds=0.001)
    [now] = desk.take()
    assert (now.row_id, late.row_id) == (row, row)
    assert now.token != late.token
    before = desk.state(row)
    with pytest.raises(LeaseLost, match="another worker has the row"):
        desk.complete(late, is_scanning=True)
    with pytest.raises(LeaseLost, match="another worker has the row"):
        desk.write(leases.assert_held, USERS, late)
    desk.write(leases.abandon, USERS, late)
    assert desk.state(row) == before
    assert desk.take() == []
    desk.write(leases.assert_held, USERS, now)
    desk.complete(now)


@pytest.mark.parametrize("is_own_row", [True, False])
def test_a_deleted_or_released_row_has_no_holder(desk, is_own_row):
    [row] = desk.rows(0)
    [lease] = desk.take()
    desk.complete(lease, START)
    wrong = lease if is_own_row else Lease(10**9, lease.token)
    with pytest.raises(LeaseLost):
        desk.write(leases.assert_held, USERS, wrong)
    with pytest.raises(LeaseLost):
        desk.complete(wrong)
    assert desk.state(row)[0] == START


def owners(taken):
    return [lease.integrator_id for lease in taken]


def test_integrators_take_turns(desk):
    """A hundred waiting people of one integrator do not delay the two of another."""
    for name in ("beta", "gamma"):
        desk.write(integrators.add, name)
    many = desk.rows(*range(-1000, -900))
    two = desk.rows(-2, -1, integrator_id=2)
    assert desk.rows(60, integrator_id=3)  # not due
    turns = leases.Turns()
    taken = desk.take(limit=6, turns=turns)
    assert sorted(lease.row_id for lease in taken) == many[:4] + two
    assert Counter(owners(taken)) == {1: 4, 2: 2}
    turns.running = Counter(owners(taken))
    assert owners(desk.take(limit=2, turns=turns)) == [1, 1]
    desk.rows(0, 0, 0, integrator_id=2)
    turns.running = Counter({1: 3, 2: 1})
    assert Counter(owners(desk.take(limit=5, turns=turns))) == {1: 2, 2: 3}
    assert desk.take(limit=0, turns=turns) == []


def rows_of_user(table, user_id, n, due_at):
    """Due rows of a user, in the columns that the table requires."""
    rows = []
    for number in range(n):
        row = {"user_id": user_id, "due_at": due_at + timedelta(milliseconds=number)}
        if table is tables.deliveries:
            row |= {"webhook_id": f"{user_id}-{number}", "state": "pending", "opened_at": START}
        else:
            row |= {"site": "Seekfolk", "reference_digest": b"%d" % number, "status": "discovered"}
            row |= {"ciphertext": b"", "created_at": START, "changed_at": START}
        rows.append(row)
    return rows


@pytest.mark.parametrize("table", [tables.records, tables.deliveries], ids=str)
def test_integrators_take_turns_with_rows_of_users(desk, table):
    """More rows of one integrator wait than are read at once, and the other's are the newest."""
    desk.write(integrators.add, "beta")
    [jane], [wren] = desk.rows(None), desk.rows(None, integrator_id=2)
    many = rows_of_user(table, jane, leases.OLDEST + 20, START - SOON)
    few = rows_of_user(table, wren, 3, START - timedelta(seconds=1))
    desk.write(lambda work: work.run(insert(table), [*many, *few]))
    turns = leases.Turns()

    def take(limit):
        return owners(desk.write(leases.acquire, table, limit=limit, duration=LASTS, turns=turns))

    first = take(4)
    assert Counter(first) == {1: 2, 2: 2}
    turns.running = Counter(first)
    assert take(2) == [1, 1]  # the oldest are all of one; the others were searched for just now
    turns = leases.Turns()
    turns.running = Counter({1: 4, 2: 2})
    assert Counter(take(4)) == {1: 3, 2: 1}
    taken = [take(100) for _ in range(6)]
    assert sum(map(len, taken)) == len(many) - 7
    assert set(owners(desk.write(leases.acquire, table, limit=9, duration=LASTS))) == set()


def test_of_many_integrators_each_gets_its_turn(desk):
    """Also if there are more of them than slots, and each one's rows never end."""
    for number in range(2, 13):
        desk.write(integrators.add, f"number{number}")
    for number in range(1, 13):
        desk.rows(*range(-40, -10), integrator_id=number)
    turns, served = leases.Turns(), Counter()
    running = []
    for _ in range(20):
        turns.running = Counter(owners(running))
        running += desk.take(limit=8 - len(running), turns=turns)
        served.update(owners(running[:3]))
        del running[:3]  # the oldest end
    assert max(served.values()) - min(served.values()) <= 2
    assert len(served) == 12


def test_what_a_wrong_clock_put_off_is_corrected(desk):
    bounds = leases.Bounds(USERS, timedelta(days=7), timedelta(hours=1))
    [leased] = desk.rows(-1)
    desk.later(days=400)
    [wrong] = desk.take()
    assert wrong.row_id == leased
    [late] = desk.rows(60)
    desk.later(days=-400)
    [soon, never] = desk.rows(60, None)
    assert desk.take_ids() == []
    assert desk.write(bounds.are_exceeded)
    correction = desk.write(bounds.enforce)
    assert (correction.rows, correction.ahead) == (2, timedelta(days=400) + LASTS - timedelta(hours=1))
    assert not desk.write(bounds.are_exceeded)
    assert sorted(desk.take_ids()) == [leased, late]
    assert desk.state(soon)[0] == START + timedelta(seconds=60)
    assert desk.state(never)[0] is None
    with pytest.raises(LeaseLost):
        desk.complete(wrong)


def test_leases_acquired_together_are_separate(desk):
    one, other = desk.rows(0, 0)
    first, second = desk.take()
    assert first.token == second.token
    desk.complete(first)
    assert desk.state(other)[1] == second.token
    assert desk.state(one)[1] is None


def test_a_released_row_is_free_and_still_due(desk):
    [row] = desk.rows(-5)
    [lease] = desk.take()
    desk.write(leases.abandon, USERS, lease)
    assert desk.state(row)[:3] == (START - timedelta(seconds=5), None, None)
    assert desk.take_ids() == [row]


def test_a_single_row_may_be_leased_before_it_is_due(desk):
    row, other = desk.rows(60, 0)
    lease = desk.write(leases.acquire_one, USERS, row, duration=LASTS)
    assert lease.row_id == row
    assert desk.take_ids() == [other]
    desk.later(minutes=2)
    [again] = [one for one in desk.take() if one.row_id == row]
    with pytest.raises(LeaseLost):
        desk.complete(lease)
    desk.complete(again)


def test_a_row_is_reported_due_while_it_may_be_leased(desk):
    assert not desk.write(leases.any_due, USERS)
    desk.rows(1, None)
    assert not desk.write(leases.any_due, USERS)
    desk.later(seconds=1)
    assert desk.write(leases.any_due, USERS)
    desk.take()
    assert not desk.write(leases.any_due, USERS)
    desk.later(seconds=30)
    assert desk.write(leases.any_due, USERS)


def test_next_due_is_the_earliest_of_all_tables(desk):
    both = [tables.deliveries, USERS]
    assert desk.write(leases.next_due, both) is None
    desk.rows(None)
    assert desk.write(leases.next_due, both) is None
    desk.rows(120, 60)
    assert desk.write(leases.next_due, both) == START + SOON
    desk.rows(-60)
    assert desk.write(leases.next_due, both) == START - SOON
    desk.take()
    assert desk.write(leases.next_due, both) == START + LASTS
    desk.later(minutes=5)
    assert desk.write(leases.next_due, both) <= START + LASTS
    assert desk.write(leases.any_due, USERS)


def test_the_longest_due_row_is_reported_unless_it_is_leased(desk):
    assert desk.write(leases.oldest_due, USERS) is None
    desk.rows(60, None)
    assert desk.write(leases.oldest_due, USERS) is None
    desk.rows(-60, -120)
    assert desk.write(leases.oldest_due, USERS) == START - 2 * SOON
    desk.take(limit=1)
    assert desk.write(leases.oldest_due, USERS) == START - SOON
    desk.later(seconds=30)
    assert desk.write(leases.oldest_due, USERS) == START - 2 * SOON


def test_rows_are_waiting_due_or_leased_and_counted_once(desk):
    assert desk.count() == {"waiting": 0, "due": 0, "leased": 0}
    desk.rows(60, 90, None)
    leased, run_out = desk.rows(-2, -3)
    desk.rows(-1)
    desk.take(limit=1, duration=timedelta(0))
    desk.take(limit=2)
    assert desk.state(run_out)[1]
    assert desk.count() == {"waiting": 2, "due": 1, "leased": 2}
    desk.later(seconds=30)
    assert desk.count() == {"waiting": 2, "due": 3, "leased": 0}
    assert leased


def test_concurrent_connections_lease_different_rows(desk):
    ids = desk.rows(*[-1] * 20)

    async def take(database):
        taken = []
        while True:
            async with database.writing() as work:
                some = await leases.acquire(work, USERS, limit=3, duration=LASTS)
                await asyncio.sleep(0)
            if not some:
                return taken
            taken += [lease.row_id for lease in some]

    async def at_once():
        return await asyncio.gather(*(take(one) for one in (desk.database, desk.other) for _ in range(3)))

    parts = desk.runner.run(at_once())
    assert sorted(row for part in parts for row in part) == ids
    assert sum(map(bool, parts)) > 1


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_on_postgresql_a_row_being_leased_is_skipped(desk):
    """SKIP LOCKED: the second transaction leases the rest while the first is open."""
    ids = desk.rows(-3, -2, -1)

    async def overlap():
        async with desk.database.writing() as first:
            mine = await leases.acquire(first, USERS, limit=2, duration=LASTS)
            async with asyncio.timeout(5), desk.other.writing() as second:
                yours = await leases.acquire(second, USERS, limit=2, duration=LASTS)
        return [[lease.row_id for lease in part] for part in (mine, yours)]

    assert desk.runner.run(overlap()) == [ids[:2], ids[2:]]


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_a_leased_row_stays_leased_until_the_transaction_ends(desk):  # SQLite has one writer
    [row] = desk.rows(0)
    [lease] = desk.take()
    desk.later(seconds=30)

    async def overlap():
        async with desk.database.writing() as first:
            await leases.assert_held(first, USERS, lease)
            async with asyncio.timeout(5), desk.other.writing() as second:
                taken = await leases.acquire(second, USERS, limit=1, duration=LASTS)
            await leases.complete(first, USERS, lease, due_at=None)
        return taken

    assert desk.runner.run(overlap()) == []
    assert desk.state(row)[0] is None


def test_a_failed_transaction_leases_nothing(desk):
    [row] = desk.rows(0)

    async def fail(work):
        await leases.acquire(work, USERS, limit=1, duration=LASTS)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        desk.write(fail)
    assert desk.take_ids() == [row]


@pytest.mark.parametrize("table", [tables.users, tables.records, tables.deliveries], ids=str)
def test_rows_of_every_work_table_can_be_leased(desk, table):
    assert desk.write(leases.acquire, table, limit=5, duration=LASTS) == []
    assert not desk.write(leases.any_due, table)
    assert desk.write(leases.counts, table) == {"waiting": 0, "due": 0, "leased": 0}


def test_a_cancelled_row_is_lost_to_its_worker(desk):
    [row] = desk.rows(0)
    [lease] = desk.take()
    cancel = update(USERS).where(USERS.c.id == row).values(due_at=None, lease=None, lease_until=None)
    desk.write(lambda work: work.run(cancel))
    with pytest.raises(LeaseLost):
        desk.complete(lease, START)
    assert desk.state(row)[0] is None
