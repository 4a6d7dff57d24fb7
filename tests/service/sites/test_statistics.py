"""Site statistics: outcomes of scans, and turns of requests, across workers."""

import asyncio
from datetime import timedelta

import pytest
from support.services import START, a_database

from exposurekit.service import workers
from exposurekit.service.clock import FrozenClock
from exposurekit.service.sites import statistics
from exposurekit.service.sites.statistics import CHANGED_LAYOUT, REASON_MAX, VALUE_MISSING, Health
from exposurekit.service.storage.database import Database

DELAY = timedelta(seconds=2)


class Two:
    """Two workers' connections to one database."""

    def __init__(self, runner, directory):
        self.runner = runner
        self.clock = FrozenClock(START)
        self.first = a_database(directory, clock=self.clock)
        address = self.first._url.render_as_string(hide_password=False)
        self.second = Database(address, vault=self.first.vault, clock=self.clock)
        for database in (self.first, self.second):
            runner.run(database.open())

    def write(self, function, *arguments, second=False, **named):
        return self.runner.run(self.writing(function, *arguments, second=second, **named))

    async def writing(self, function, *arguments, second=False, **named):
        async with (self.second if second else self.first).writing() as work:
            return await function(work, *arguments, **named)

    def record(self, site="Seekfolk", reason=None, *, trusted=True, reads_listings=False):
        self.write(
            statistics.record_scan, site, reason=reason, trusted=trusted, reads_listings=reads_listings
        )

    def reserve(self, site="Seekfolk", *, delay=DELAY, concurrency=1, second=False):
        """Reserve a turn and return the seconds until then."""
        at = self.write(statistics.reserve, site, delay=delay, concurrency=concurrency, second=second)
        return (at - self.clock.now()).total_seconds()

    def all(self):
        return {one.site: one for one in self.write(statistics.all)}


@pytest.fixture
def two(store, tmp_path):
    with asyncio.Runner() as runner:
        two = Two(runner, tmp_path)
        yield two
        for database in (two.first, two.second):
            runner.run(database.close())


def test_scans_are_counted_by_outcome(two):
    assert two.all() == {}
    two.record()
    two.clock.advance(timedelta(days=1))
    two.record(reason="blocked")
    two.clock.advance(timedelta(days=1))
    two.record(trusted=False)
    two.record(reason="time-out", trusted=False)
    now = START + timedelta(days=2)
    assert two.all() == {"Seekfolk": Health("Seekfolk", 4, 2, 2, now, START, "time-out")}
    assert two.all()["Seekfolk"].inconclusive_rate == 0.5


def test_a_good_scan_clears_the_reason(two):
    two.record(reason="x" * 1000)
    health = two.all()["Seekfolk"]
    assert (health.last_good_scan_at, health.last_reason) == (None, "x" * REASON_MAX)
    two.record()
    health = two.all()["Seekfolk"]
    assert (health.last_good_scan_at, health.last_reason) == (START, None)


def test_a_changed_layout_remains_until_listings_are_read(two):
    """A scan for somebody whom the site does not list says nothing about how it shows others."""
    reasons = []
    for reason, reads in (
        (CHANGED_LAYOUT, False),
        (None, False),
        ("blocked", False),
        (None, False),
        (None, True),
    ):
        two.record(reason=reason, reads_listings=reads)
        reasons.append(two.all()["Seekfolk"].last_reason)
    assert reasons == [CHANGED_LAYOUT] * 4 + [None]


def test_an_untrusted_scan_is_no_good_scan(two):
    two.record("Untrusted", trusted=False)
    two.reserve("Unscanned")
    untrusted, unscanned = two.all()["Untrusted"], two.all()["Unscanned"]
    assert (untrusted.last_scan_at, untrusted.last_good_scan_at) == (START, None)
    assert (unscanned.last_scan_at, unscanned.scans) == (None, 0)
    assert (untrusted.inconclusive_rate, unscanned.inconclusive_rate) == (0.0, None)


def test_what_a_person_lacks_is_no_fault_of_a_site(two):
    two.record(reason="blocked")
    before = two.all()
    two.record(reason=VALUE_MISSING)
    assert two.all() == before
    two.record(reason=VALUE_MISSING, trusted=False)
    assert two.all()["Seekfolk"].untrusted_scans == 1


def test_sites_are_separate_and_sorted_by_name(two):
    for site in ("Zeta", "Alpha", "Alpha"):
        two.record(site)
    assert [(one.site, one.scans) for one in two.all().values()] == [("Alpha", 2), ("Zeta", 1)]


def test_turns_are_spaced_across_workers(two):
    assert [two.reserve(second=bool(number % 2)) for number in range(4)] == [0, 2, 4, 6]
    two.clock.advance(timedelta(seconds=3))
    assert two.reserve(second=True) == 5
    assert two.reserve("Another") == 0
    two.clock.advance(timedelta(days=1))
    assert [two.reserve(), two.reserve(second=True)] == [0, 2]


@pytest.mark.parametrize("minutes", [2, 10, 63, 300])
def test_a_turn_that_a_clock_ahead_reserved_delays_nobody(two, minutes):
    ahead = timedelta(minutes=minutes)
    two.clock.advance(ahead)
    assert [two.reserve(concurrency=3), two.reserve(concurrency=3)] == [0, 2]
    two.clock.advance(-ahead)
    assert [two.reserve(concurrency=3), two.reserve(concurrency=3)] == [6, 8]
    two.clock.advance(timedelta(seconds=10))
    assert two.reserve(concurrency=3) == 0


@pytest.mark.parametrize(("running", "expected"), [(1, 60), (4, 240)])
def test_the_turns_of_all_running_workers_are_plausible(two, running, expected):
    for number in range(running):
        two.write(workers.note, f"worker {number}")
    minute = timedelta(minutes=1)
    turns = [two.reserve(delay=minute) for _ in range(running + 2)]
    assert turns == [60 * number for number in range(running + 2)]
    two.clock.advance(-timedelta(hours=1))
    for number in range(running):
        two.write(workers.note, f"worker {number}")
    assert two.reserve(delay=minute) == expected


@pytest.mark.parametrize(("running", "concurrency"), [(1, 1), (1, 4), (3, 4)])
def test_turns_after_a_clock_correction_are_apart(two, running, concurrency):
    """As many requests may wait as all workers make at a time, beside those that waited before the correction."""
    minute, waiting = timedelta(minutes=1), running * concurrency
    two.clock.advance(timedelta(hours=5))
    for _ in range(waiting):
        two.reserve(delay=minute, concurrency=concurrency)
    two.clock.advance(-timedelta(hours=5))
    for number in range(running):
        two.write(workers.note, f"worker {number}")
    turns = [two.reserve(delay=minute, concurrency=concurrency) for _ in range(waiting)]
    assert turns == [60 * (waiting + number) for number in range(waiting)]


def test_concurrent_reservations_get_different_turns(two):
    async def concurrently():
        turns = (
            two.writing(statistics.reserve, "Seekfolk", delay=DELAY, concurrency=5, second=bool(n % 2))
            for n in range(10)
        )
        return await asyncio.gather(*turns)

    turns = two.runner.run(concurrently())
    assert sorted((at - START).total_seconds() for at in turns) == [2 * number for number in range(10)]


def test_concurrent_scans_are_all_counted(two):
    async def concurrently():
        scans = (
            two.writing(statistics.record_scan, "Seekfolk", reason="blocked", trusted=True, second=n > 4)
            for n in range(10)
        )
        await asyncio.gather(*scans)

    two.runner.run(concurrently())
    assert two.all()["Seekfolk"].inconclusive_scans == 10


def test_a_site_without_a_delay_has_no_turns(two):
    assert [two.reserve(delay=timedelta(0)) for _ in range(3)] == [0, 0, 0]
