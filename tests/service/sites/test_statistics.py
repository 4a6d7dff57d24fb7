"""Health: what each site's looks told, and its turns, across workers."""

import asyncio
from datetime import timedelta

import pytest
from support.services import START, a_database

from exposurekit.service.clock import FrozenClock
from exposurekit.service.sites import statistics
from exposurekit.service.sites.statistics import REASON_MAX, Health
from exposurekit.service.storage.database import Database

DELAY = timedelta(seconds=2)


class Two:
    """Two workers' databases, which are one."""

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

    def looked(self, site="Seekfolk", reason=None, *, trusted=True):
        self.write(statistics.record_scan, site, reason=reason, trusted=trusted)

    def reserve(self, site="Seekfolk", *, delay=DELAY, second=False):
        """Seconds until the turn."""
        at = self.write(statistics.reserve, site, delay=delay, second=second)
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


def test_looks_are_counted_by_what_they_told(two):
    """Site health table (controls, inconclusive rate, last good look)."""
    two.looked()
    two.clock.advance(timedelta(days=1))
    two.looked(reason="blocked")
    two.clock.advance(timedelta(days=1))
    two.looked(trusted=False)
    two.looked(reason="time-out", trusted=False)
    now = START + timedelta(days=2)
    assert two.all() == {"Seekfolk": Health("Seekfolk", 4, 2, 2, now, START, "time-out")}
    assert two.all()["Seekfolk"].inconclusive_rate == 0.5


def test_a_look_that_told_something_takes_the_reason_back(two):
    two.looked(reason="blocked")
    assert (two.all()["Seekfolk"].last_good_scan_at, two.all()["Seekfolk"].last_reason) == (None, "blocked")
    two.looked()
    assert (two.all()["Seekfolk"].last_good_scan_at, two.all()["Seekfolk"].last_reason) == (START, None)


def test_a_site_that_lists_anybody_has_no_good_scan(two):
    two.looked(trusted=False)
    statistics = two.all()["Seekfolk"]
    assert (statistics.last_scan_at, statistics.last_good_scan_at, statistics.inconclusive_rate) == (
        START,
        None,
        0.0,
    )


def test_a_site_that_was_never_looked_at_has_no_rate(two):
    assert two.all() == {}
    two.reserve()
    statistics = two.all()["Seekfolk"]
    assert (statistics.scans, statistics.inconclusive_rate, statistics.last_scan_at) == (0, None, None)


def test_a_long_reason_is_cut(two):
    two.looked(reason="x" * 1000)
    assert two.all()["Seekfolk"].last_reason == "x" * REASON_MAX


def test_sites_are_told_by_name_and_apart(two):
    for site in ("Zeta", "Alpha", "Alpha"):
        two.looked(site)
    assert [(one.site, one.scans) for one in two.all().values()] == [("Alpha", 2), ("Zeta", 1)]


def test_turns_are_spaced_across_workers(two):
    """Rate limited for each site."""
    assert [two.reserve(second=bool(number % 2)) for number in range(4)] == [0, 2, 4, 6]
    two.clock.advance(timedelta(seconds=3))
    assert two.reserve(second=True) == 5
    assert two.reserve("Another") == 0
    two.clock.advance(timedelta(days=1))
    assert [two.reserve(), two.reserve(second=True)] == [0, 2]


def test_turns_that_are_asked_for_at_once_are_nobodys_twice(two):
    async def at_once():
        turns = (
            two.writing(statistics.reserve, "Seekfolk", delay=DELAY, second=bool(n % 2)) for n in range(10)
        )
        return await asyncio.gather(*turns)

    turns = two.runner.run(at_once())
    assert sorted((at - START).total_seconds() for at in turns) == [2 * number for number in range(10)]


def test_looks_that_are_told_at_once_are_all_counted(two):
    async def at_once():
        scans = (
            two.writing(statistics.record_scan, "Seekfolk", reason="blocked", trusted=True, second=n > 4)
            for n in range(10)
        )
        await asyncio.gather(*scans)

    two.runner.run(at_once())
    assert two.all()["Seekfolk"].inconclusive_scans == 10


def test_a_site_without_a_delay_has_no_turns(two):
    assert [two.reserve(delay=timedelta(0)) for _ in range(3)] == [0, 0, 0]
