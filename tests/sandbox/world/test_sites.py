"""The sites of the invented web over real HTTP: each behaviour and layout that real sites have."""

from urllib.parse import urljoin

import httpx
import pytest
from selectolax.lexbor import LexborHTMLParser
from support.world_browser import START, UNREADABLE, browsing, next_of, one, rows_of

from exposurekit.sandbox.world.asgi import Request
from exposurekit.sandbox.world.search_pages import SLOW_S
from exposurekit.sandbox.world.sites import DEFINITIONS, SITES
from exposurekit.sandbox.world.world import World
from exposurekit.service.clock import FrozenClock
from exposurekit.service.scanning.extraction import read
from exposurekit.service.sites.loader import directory

NOBODY = {"first_name": "Zzyzva", "last_name": "Qworple", "city": "Mothgate", "state": "CT"}


@pytest.fixture(scope="module")
def reader():
    """For tests that change nothing."""
    with browsing(40) as browser:
        yield browser


def name_of(person):
    return {"first_name": person.first_name, "last_name": person.last_name}


def test_every_site_lists_its_control_and_no_invented_person(reader):
    for name in reader.world.reachable:
        site = reader.world.definitions[name]
        rows, readable = reader.search(site, **site.controls.listed.model_dump())
        assert len(rows) == 1 or not readable, name
        assert reader.search(site, **NOBODY)[0] == [], name


IN_WORDS = {2: "two days", 7: "a week", 10: "ten days", 30: "thirty days"}


def test_sites_say_within_how_many_days_they_remove(reader):
    """So that a user finds the declared days where a demo has them from."""
    declared = reader.world.declared_days
    for name, days in declared.items():
        definition = reader.world.definitions[name]
        assert IN_WORDS[days] in " ".join([definition.guide, *definition.opt_out_procedure])
    later = {
        name for name, days in declared.items() if days < reader.world.definitions[name].removal.declared_days
    }
    assert later == {"Doorbell Almanac"}


def test_one_site_lists_anyone(reader):
    site = reader.world.definitions["Everyname Index"]
    [row], _ = reader.search(site, **NOBODY)
    assert row["name"] == ["Zzyzva Qworple"]
    assert row["locations"] == ["Mothgate, CT"]
    assert reader.search(site, **NOBODY)[0] == [row]
    assert not [truth for truth in reader.world.listings() if truth.site == site.name]


def test_one_site_blocks_with_a_403_or_with_a_puzzle(reader):
    site = reader.world.definitions["Gatekeep Records"]
    answers = [reader.first_page(site, **name_of(person)) for person in reader.world.people]
    assert {answer.status_code for answer in answers} == {200, 403}
    assert all(any(mark in answer.text for mark in site.search.blocked) for answer in answers)


def test_one_site_forbids_robots_and_the_others_allow_scans(reader):
    for name, site in reader.world.definitions.items():
        robots = reader.ask(urljoin(site.search.url, "/robots.txt"))
        assert robots.status_code in {200, 404}
        assert ("Disallow: /\n" in robots.text) == (name == "Hushledger")
    assert reader.world.reachable == reader.world.definitions.keys() - UNREADABLE - {"Hushledger"}


def test_one_site_is_slow_and_sometimes_too_slow(reader):
    site = reader.world.definitions["Umbrella Kin"]
    people = {
        (person.first_name, person.last_name) for person in (*reader.world.people, *reader.world.strangers)
    }
    delays = {
        (first, last): reader.world.respond(
            Request("GET", "umbrellakin.example", "/tree", {"first": first, "last": last})
        ).delay_s
        for first, last in people
    }
    late = [name for name, delay_s in delays.items() if delay_s > site.search.timeout_s]
    assert 0.02 < len(late) / len(people) < 0.25
    assert min(delays.values()) == SLOW_S
    params = dict(zip(("first", "last"), late[0], strict=True))
    with pytest.raises(httpx.ReadTimeout):
        reader.ask("http://umbrellakin.example/tree", params=params, timeout=site.search.timeout_s)


def test_one_site_is_sometimes_down_and_sometimes_redesigned():
    with browsing(10) as browser:
        site = browser.world.definitions["Pigeonloft Public"]
        outcomes = set()
        for _ in range(40):
            for person in browser.world.people[:5]:
                answer = browser.first_page(site, **name_of(person))
                is_readable = bool(rows_of(site, answer)) or site.search.no_results[0] in answer.text
                outcomes.add((answer.status_code, is_readable))
            browser.world.advance(days=1)
    assert outcomes == {(200, True), (200, False), (404, False)}


@pytest.mark.parametrize(("name", "size"), [("Lanternpost People", 2), ("Mothlight Finder", 1)])
def test_some_sites_list_page_by_page(reader, name, size):
    site, pages = reader.world.definitions[name], []
    for person in reader.world.people:
        answer = reader.first_page(site, **name_of(person))
        pages.append((len(rows_of(site, answer)), next_of(site, answer) is not None))
        rows, readable = reader.search(site, **name_of(person))
        assert readable
        assert len({one(row["reference_id"]) for row in rows}) == len(rows)
    assert max(rows for rows, _ in pages) == size
    assert {further for _, further in pages} == {True, False}


def test_one_site_mixes_two_layouts_on_one_page(reader):
    site = reader.world.definitions["Nosy Heron"]
    tags = {
        node.tag
        for person in reader.world.people
        for node in LexborHTMLParser(reader.first_page(site, **name_of(person)).text).css(
            site.listings.item[0]
        )
    }
    assert tags == {"article", "div"}


def test_sites_differ_in_methods_formats_and_encodings(reader):
    searches = [site.search for site in reader.world.definitions.values()]
    assert {search.method for search in searches} == {"get", "post"}
    assert {search.answer for search in searches} == {"html", "json"}
    wrong = reader.ask("http://whomsoever.example/find", params={"last": "Quill"})
    assert wrong.status_code == 405
    assert reader.ask("http://seekfolk.example/search", params={"name": " "}).status_code == 400
    old = reader.ask("http://crumbtrail.example/")
    assert old.headers["content-type"] == "text/html; charset=iso-8859-1"


def test_the_shipped_definitions_extract_the_sites_listings(reader):
    world = reader.world
    assert directory(DEFINITIONS) == world.definitions
    outcomes = set()
    for site in world.definitions.values():
        for person in world.people[:6] if site.search.timeout_s > 1 else world.people[:1]:
            home = person.addresses[0]
            answer = reader.first_page(site, **name_of(person), city=home.city, state=home.state)
            result = read(site, status=answer.status_code, url=site.search.url, text=answer.text)
            outcomes.add((site.name, result.outcome))
            references = {one(row["reference_id"]) for row in rows_of(site, answer)}
            assert {listing.reference_id for listing in result.listings} == references
            assert not result.unreadable
    inconclusive = {site for site, outcome in outcomes if outcome == "inconclusive"}
    assert inconclusive <= {"Gatekeep Records", "Pigeonloft Public"}
    assert {outcome for _, outcome in outcomes} == {"listings", "no results", "inconclusive"}


@pytest.mark.parametrize("people", [0, 1, 2])
def test_a_world_may_be_small(people):
    world = World(people, seed=7, clock=FrozenClock(START))
    assert len(world.people) == people
    assert len({truth.name for truth in world.listings()}) >= len(SITES) - 1
    assert world.pages()
