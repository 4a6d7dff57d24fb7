"""Politeness to a site: robots.txt, spaced requests across workers, and limited concurrency."""

import asyncio
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta

import pytest
from support.services import START, a_database
from support.small_web import KEY, LOOPBACK, Card, Folk, definition, html_page, nobody

from exposurekit.sandbox.world.asgi import Response, redirect, text
from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.clock import Clock, FrozenClock
from exposurekit.service.http.client import HttpClient
from exposurekit.service.scanning.politeness import PoliteFetcher, RetryLater, RobotsDisallowed
from exposurekit.service.scanning.site_scan import scan_site
from exposurekit.service.sites.definition import Politeness

SUBJECT = Subject(names=(Name("Juniper", "Quillfeather"),), places=(Place(city="Oakmere"),))
URL = "http://seekfolk.example/search"
SEARCH = Politeness(delay_s=0, concurrency=2)


class PassingClock(Clock):
    """Time passes only while someone sleeps; records the end of each sleep."""

    def __init__(self, at=START):
        self._now = at
        self.reached: list[datetime] = []

    def now(self):
        return self._now

    async def sleep(self, seconds):
        until = self._now + timedelta(seconds=seconds)
        await asyncio.sleep(0)
        self._now = max(self._now, until)
        self.reached.append(until)


@pytest.fixture
def politely(store, town, tmp_path):
    """Run a coroutine with one fetcher per worker; each has its own connection to the database."""

    def politely(function, *, clock=None, workers=1):
        async def run():
            async with AsyncExitStack() as stack:
                fetchers = []
                for _ in range(workers):
                    database = a_database(tmp_path, key=KEY, clock=clock or FrozenClock(START))
                    await database.open()
                    stack.push_async_callback(database.close)
                    http = HttpClient(allowed_networks=LOOPBACK, resolve=town.resolve)
                    fetchers.append(PoliteFetcher(http, database))
                return await asyncio.wait_for(function(*fetchers), 20)

        return asyncio.run(run())

    return politely


async def ask(fetcher, url=URL, politeness=SEARCH, **options):
    async with fetcher.session("Seekfolk", politeness) as caller:
        return (await caller.fetch(url, **options)).status


def test_robots_txt_is_fetched_once_a_day(politely, town):
    clock = FrozenClock(START)
    site = town.opens("Seekfolk", Folk(robots=text("User-agent: *\nDisallow: /admin\n")))

    async def days(fetcher):
        await ask(fetcher)
        clock.advance(timedelta(hours=23, minutes=59))
        await ask(fetcher)
        assert len(town.of("Seekfolk", "/robots.txt")) == 1
        site.robots = text("User-agent: *\nDisallow: /\n")
        clock.advance(timedelta(minutes=1))
        with pytest.raises(RobotsDisallowed):
            await ask(fetcher)
        assert len(town.of("Seekfolk", "/robots.txt")) == 2
        site.robots = text("", 404)
        clock.advance(timedelta(days=1))
        await ask(fetcher)

    politely(days, clock=clock)
    assert len(town.of("Seekfolk")) == 3


def test_concurrent_sessions_fetch_robots_txt_once(politely, town):
    town.opens("Seekfolk", Folk(robots=text("User-agent: *\nDisallow: /admin\n")))
    many = Politeness(delay_s=0, concurrency=8)

    async def together(fetcher):
        answers = await asyncio.gather(*(ask(fetcher, politeness=many) for _ in range(8)))
        assert answers == [200] * 8

    politely(together)
    assert (len(town.of("Seekfolk", "/robots.txt")), len(town.of("Seekfolk"))) == (1, 8)


def test_each_host_has_a_robots_txt_of_its_own(politely, town):
    town.opens("Seekfolk", Folk(robots=text("User-agent: *\nDisallow: /\n")))
    town.opens("Elsewhere", Folk())

    async def both(fetcher):
        with pytest.raises(RobotsDisallowed):
            await ask(fetcher)
        return await ask(fetcher, "http://elsewhere.example/search")

    assert politely(both) == 200


def test_a_forbidden_page_is_not_fetched_and_reserves_no_turn(politely, town):
    town.opens("Seekfolk", Folk(robots=text("User-agent: *\nDisallow: /*?secret=\n")))
    clock = PassingClock()

    async def conversation(fetcher):
        with pytest.raises(RobotsDisallowed):
            await ask(fetcher, politeness=Politeness(delay_s=5), params={"secret": "x"})
        return await ask(fetcher, politeness=Politeness(delay_s=5), params={"name": "x"})

    assert politely(conversation, clock=clock) == 200
    assert (len(town.of("Seekfolk")), clock.reached) == (1, [])


@pytest.mark.parametrize("status", [503, 429])
def test_an_unreadable_robots_txt_is_fetched_again_after_ten_minutes(politely, town, status):
    """RFC 9309: until then nothing is allowed."""
    clock = FrozenClock(START)
    site = town.opens("Seekfolk", Folk(robots=text("", status)))

    async def minutes(fetcher):
        for wait in (timedelta(), timedelta(minutes=9, seconds=59)):
            clock.advance(wait)
            with pytest.raises(RobotsDisallowed, match=rf"robots\.txt cannot be read: status {status}$"):
                await ask(fetcher)
        assert len(town.of("Seekfolk", "/robots.txt")) == 1
        site.robots = text("User-agent: *\nDisallow: /admin\n")
        clock.advance(timedelta(seconds=1))
        return await ask(fetcher)

    assert politely(minutes, clock=clock) == 200
    assert (len(town.of("Seekfolk", "/robots.txt")), len(town.of("Seekfolk"))) == (2, 1)


@pytest.mark.parametrize("where", ["/private/r1", "http://elsewhere.example/private/r1"])
def test_a_redirect_to_a_forbidden_page_is_not_followed(politely, town, where):
    rules = text("User-agent: *\nDisallow: /private\n")
    hosts = [town.opens(name, Folk(robots=rules)) for name in ("Seekfolk", "Elsewhere")]
    for one in hosts:
        one.others["/private/r1"] = lambda _: nobody()
    hosts[0].search = lambda _: redirect(where)

    async def conversation(fetcher):
        with pytest.raises(RobotsDisallowed, match="disallows"):
            await ask(fetcher)
        assert await ask(fetcher, politeness=Politeness(delay_s=0, robots_txt=False)) == 200

    politely(conversation)
    assert [len(town.of(name, "/private/r1")) for name in ("Seekfolk", "Elsewhere")].count(1) == 1


def test_a_site_is_scanned_soon_after_a_clock_was_ahead(politely, town):
    town.opens("Seekfolk", Folk())
    slowly = Politeness(delay_s=7, robots_txt=False)
    clock = PassingClock()

    async def scans(fetcher):
        clock._now += timedelta(minutes=63)
        await ask(fetcher, politeness=slowly)
        clock._now -= timedelta(minutes=63)
        clock.reached.clear()
        await ask(fetcher, politeness=slowly)

    politely(scans, clock=clock)
    assert clock.reached == [START + timedelta(seconds=14)]


def test_a_cancelled_site_scan_leaves_at_most_one_turn(politely, town):
    """Turns are rows: those of cancelled scans would block a site forever."""
    town.opens("Seekfolk", Folk(search=lambda _: Response(delay_s=30)))
    site = definition(politeness={"delay_s": 10})

    async def cancelled(fetcher):
        for _ in range(5):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await scan_site(site, SUBJECT, fetcher)
        return await fetcher.reserve("Seekfolk", site.politeness)

    assert politely(cancelled) <= START + timedelta(seconds=50)


def test_requests_after_a_slow_response_are_still_spaced(politely, town):
    """Turns that passed during the response are not made up for."""
    clock, sent = PassingClock(), []

    def search(_):
        sent.append(clock.now())
        if len(sent) == 1:
            clock._now += timedelta(seconds=20)  # so long the site takes
        return html_page(len(sent))

    town.opens("Seekfolk", Folk(search=search))
    site = definition(politeness={"delay_s": 3}, search={"pages_max": 5})
    politely(lambda fetcher: scan_site(site, SUBJECT, fetcher), clock=clock)
    seconds = [(moment - START).total_seconds() for moment in sent]
    assert seconds == [0, 20, 23, 26, 29]


def test_each_redirect_waits_its_turn_and_is_checked(politely, town):
    """Consent may be withdrawn while a request waits its turn."""
    clock, checks = PassingClock(), []
    site = town.opens("Seekfolk", Folk(search=lambda _: redirect("/found")))
    site.others["/found"] = lambda _: nobody()

    async def cancel_check():
        checks.append((clock.now(), len(town.requests)))
        if clock.now() >= START + timedelta(seconds=14):
            raise LookupError

    async def hops(fetcher):
        slowly = Politeness(delay_s=7, robots_txt=False)
        async with fetcher.session("Seekfolk", slowly, cancel_check=cancel_check) as caller:
            assert (await caller.fetch(URL)).status == 200
            with pytest.raises(LookupError):
                await caller.fetch(URL)

    politely(hops, clock=clock)
    assert checks == [(START + timedelta(seconds=7 * number), number) for number in range(3)]
    assert len(town.requests) == 2


@pytest.mark.parametrize(
    ("crawl_delay", "delay_s", "waited"),
    [("7", 2, 7), ("7", 9, 9), ("7", 0, 7), ("3600", 2, 60), ("x", 2, 2)],
)
def test_a_crawl_delay_is_respected(politely, town, crawl_delay, delay_s, waited):
    town.opens("Seekfolk", Folk(robots=text(f"User-agent: *\nCrawl-delay: {crawl_delay}\n")))
    clock = PassingClock()

    async def twice(fetcher):
        for _ in range(2):
            await ask(fetcher, politeness=Politeness(delay_s=delay_s))

    politely(twice, clock=clock)
    assert clock.reached == [START + timedelta(seconds=waited)]


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("after", ["3600", "Fri, 02 Jan 2026 04:04:05 GMT"])
def test_a_site_that_asks_to_retry_later_is_left_alone(politely, town, status, after):
    """RFC 9110, 10.2.3: seconds or a date."""
    assert START + timedelta(hours=1) == datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC)
    site = town.opens(
        "Seekfolk", Folk(search=lambda _: Response(b"", status, headers=(("Retry-After", after),)))
    )
    town.opens("Elsewhere", Folk())
    clock = PassingClock()

    async def conversation(fetcher):
        assert await ask(fetcher) == status
        clock._now += timedelta(minutes=58)
        with pytest.raises(RetryLater):
            await ask(fetcher)
        result = await scan_site(definition(), SUBJECT, fetcher)
        assert result.inconclusive == "the site asks to retry later"
        assert (await scan_site(definition("Elsewhere"), SUBJECT, fetcher)).inconclusive is None
        site.search = None
        clock._now += timedelta(minutes=1, seconds=30)
        assert (len(town.of("Seekfolk")), clock.reached) == (1, [])
        assert await ask(fetcher) == 200

    politely(conversation, clock=clock)
    assert clock.reached == [START + timedelta(hours=1)]


@pytest.mark.parametrize(
    ("status", "after"),
    [(429, ""), (429, "soon"), (429, "-5"), (200, "3600"), (503, "Fri, 02 Jan 1926 04:04:05 -0000")],
)
def test_other_responses_do_not_delay_requests(politely, town, status, after):
    town.opens("Seekfolk", Folk(search=lambda _: Response(b"", status, headers=(("Retry-After", after),))))

    async def twice(fetcher):
        return [await ask(fetcher) for _ in range(2)]

    assert politely(twice) == [status] * 2


def test_a_site_can_ask_to_wait_for_one_day(politely, town):
    after = "9" * 400
    town.opens("Seekfolk", Folk(search=lambda _: Response(b"", 429, headers=(("Retry-After", after),))))
    clock = FrozenClock(START)

    async def days(fetcher):
        await ask(fetcher)
        clock.advance(timedelta(days=1))
        return await ask(fetcher)

    assert politely(days, clock=clock) == 429


@pytest.mark.parametrize(("delay_s", "clock"), [(60, FrozenClock(START)), (0, PassingClock())])
def test_a_frozen_clock_or_no_delay_delays_no_scan(politely, town, delay_s, clock):
    town.opens("Seekfolk", Folk([Card("r1")]))
    site = definition(politeness={"delay_s": delay_s})

    async def scan_often(fetcher):
        return await asyncio.gather(*(scan_site(site, SUBJECT, fetcher) for _ in range(5)))

    assert [len(one.listings) for one in politely(scan_often, clock=clock)] == [1] * 5
    assert getattr(clock, "reached", []) == []


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_site_gets_no_more_connections_than_its_limit(politely, town, concurrency):
    open_now, open_counts, full = 0, [], asyncio.Event()

    async def parts():
        nonlocal open_now
        open_now += 1
        open_counts.append(open_now)
        if open_now == concurrency:
            full.set()
        await full.wait()
        await asyncio.sleep(0.02)  # the site's response time
        open_now -= 1
        yield nobody().body

    town.opens("Seekfolk", Folk(search=lambda _: Response(parts=parts)))
    site = definition(politeness={"delay_s": 0, "concurrency": concurrency})

    async def crowd(fetcher):
        await asyncio.gather(*(scan_site(site, SUBJECT, fetcher) for _ in range(8)))

    politely(crowd)
    assert (max(open_counts), len(town.of("Seekfolk"))) == (concurrency, 16)


def test_a_slow_site_delays_no_other(politely, town):
    town.opens("Slow", Folk(search=lambda _: Response(delay_s=30)))
    town.opens("Seekfolk", Folk())

    async def both(fetcher):
        slow = definition("Slow", politeness={"delay_s": 0, "concurrency": 1}, search={"timeout_s": 60})
        waiting = asyncio.create_task(scan_site(slow, SUBJECT, fetcher))
        result = await scan_site(definition(), SUBJECT, fetcher)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return result

    assert politely(both).inconclusive is None
