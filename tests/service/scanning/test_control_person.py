"""Controls that the scans of a worker share, over real HTTP."""

import asyncio
from datetime import timedelta

import pytest
from support.services import START, a_database
from support.small_web import KEY, LOOPBACK, Card, Folk, definition, results_page

from exposurekit.sandbox.world.asgi import html
from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.clock import FrozenClock
from exposurekit.service.http.client import HttpClient
from exposurekit.service.models import Listing
from exposurekit.service.scanning.control_person import SHARED_FOR, SharedControls
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.site_scan import CONTROL_MISSING, scan_site

SUBJECT = Subject(names=(Name("Juniper", "Quillfeather"),), places=(Place(city="Oakmere"),))
HERS, RESIDENT = Card("r1"), Card("c1", "Resident Seekfolk")
CONTROL = {"listed": {"first_name": "Resident", "last_name": "Seekfolk"}}
GONE = Listing(
    name="Juniper Quillfeather", reference_id="r0", query={"first": "Juniper", "last": "Quillfeather"}
)


@pytest.fixture
def clock():
    return FrozenClock(START)


@pytest.fixture
def scans(town, tmp_path, clock):
    """Scan a site for her, some times at once, with the controls of one worker."""
    controls = SharedControls()

    def scans(site, times=3, **options):
        async def run():
            http = HttpClient(allowed_networks=LOOPBACK, resolve=town.resolve)
            fetcher = PoliteFetcher(http, a_database(tmp_path, key=KEY, clock=clock))
            return await asyncio.gather(
                *(scan_site(site, SUBJECT, fetcher, controls=controls, **options) for _ in range(times)),
                return_exceptions=True,
            )

        return asyncio.run(run())

    return scans


def invented(town):
    """The invented people whom the site was searched for."""
    return [name for name in town.names("Seekfolk") if name not in {HERS.name, RESIDENT.name}]


def test_scans_share_a_control_for_ten_minutes(town, scans, clock):
    town.opens("Seekfolk", Folk([HERS]))
    site = definition()
    for _ in range(2):
        assert [len(result.listings) for result in scans(site)] == [1] * 3
        clock.advance(SHARED_FOR - timedelta(seconds=1))
    assert len(invented(town)) == 1
    clock.advance(timedelta(seconds=1))
    scans(site)
    assert len({*invented(town)}) == len(invented(town)) == 2
    assert town.names("Seekfolk").count(HERS.name) == 9


def test_each_place_in_the_address_has_its_control(town, scans):
    town.opens("Seekfolk", Folk([HERS]))
    fields = {"first": "{first_name}", "last": "{last_name}", "town": "{city}"}
    scans(definition(search={"fields": fields}))
    scans(definition())
    assert len(invented(town)) == 2


def test_scans_share_no_failed_control(town, scans):
    """A time-out may have been a single one; and a site may list anybody in one scan only."""
    site, folk = definition(), town.opens("Seekfolk", Folk([HERS], search=lambda _: html("", 503)))
    assert {result.inconclusive for result in scans(site)} == {"status 503"}
    assert len(invented(town)) == 3
    folk.search = lambda request: results_page(Card("r9", "{first} {last}".format_map(request.query)))
    assert {result.trusted for result in scans(site)} == {False}
    assert len(invented(town)) == 6
    folk.search = None
    assert {result.trusted for result in scans(site)} == {True}
    assert len(invented(town)) == 7


def test_a_mended_definition_is_controlled_anew(town, scans):
    town.opens("Seekfolk", Folk([HERS]))
    site = definition()
    scans(site)
    scans(site.model_copy())
    assert len(invented(town)) == 2


def test_the_listed_control_person_is_searched_for_each_time(town, scans):
    """A site that begins to answer with empty pages confirms no removal, though it passed just now."""
    folk = town.opens("Seekfolk", Folk([RESIDENT]))
    site = definition(controls=CONTROL)
    assert all(result.confirms_absence_of(GONE) for result in scans(site, previous=[GONE]))
    assert town.names("Seekfolk").count(RESIDENT.name) == 3
    folk.cards.clear()
    missing = scans(site, previous=[GONE])
    assert {result.inconclusive for result in missing} == {CONTROL_MISSING}
    assert len(invented(town)) == 1


def test_scans_do_not_depend_on_one_that_was_cancelled(town, scans):
    checks = []

    async def check():
        checks.append(None)
        await asyncio.sleep(0)
        if len(checks) == 1:
            raise asyncio.CancelledError

    town.opens("Seekfolk", Folk())
    cancelled, *others = scans(definition(politeness={"robots_txt": False}), cancel_check=check)
    assert isinstance(cancelled, asyncio.CancelledError)
    assert [result.inconclusive for result in others] == [None, None]
