"""The invented web over real HTTP: its truth is what its sites show."""

import asyncio
import doctest
import string
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import urljoin

import pytest
from support.world_browser import START, UNREADABLE, browsing, one

from exposurekit.sandbox.world import formats, namesakes, opt_out_forms, people, sites, world
from exposurekit.sandbox.world.namesakes import invent_strangers, names_of
from exposurekit.sandbox.world.people import invent
from exposurekit.sandbox.world.sites import SITES
from exposurekit.sandbox.world.world import World
from exposurekit.service.clock import Clock, FrozenClock


@pytest.fixture(scope="module")
def reader():
    """For tests that change nothing."""
    with browsing(40) as browser:
        yield browser


def all_queries(world):
    """Every name and address that someone could be searched for by."""
    for person in (*world.people, *world.strangers):
        names = [(person.first_name, person.last_name)]
        names += [(alias.first_name, alias.last_name) for alias in person.aliases]
        for first, last in names:
            for home in person.addresses:
                yield {"first_name": first, "last_name": last, "city": home.city, "state": home.state}
    for site in world.definitions.values():
        yield site.controls.listed.model_dump()


def read_directly(browser, site):
    """Every reference on the site's pages, from searches for everyone; and the share of unreadable responses."""
    templates = [string.Formatter().parse(template) for template in site.search.fields.values()]
    used = {name for parts in templates for _, name, _, _ in parts if name}
    queries = {
        tuple(sorted((name, value) for name, value in query.items() if name in used))
        for query in all_queries(browser.world)
    }
    with ThreadPoolExecutor(24 if site.search.timeout_s < 1 else 4) as pool:
        answers = list(pool.map(lambda each: browser.search(site, **dict(each)), sorted(queries)))
    unread = sum(not readable for _, readable in answers)
    return {one(row["reference_id"]) for rows, _ in answers for row in rows}, unread / len(answers)


def assert_truth_is_what_can_be_read(browser):
    world, complete = browser.world, 0
    for name in world.definitions.keys() - UNREADABLE:
        visible = {truth.reference_id for truth in world.listings() if truth.site == name and truth.visible}
        listed, unread = read_directly(browser, world.definitions[name])
        assert listed <= visible, name
        if unread == 0:
            assert listed == visible, name
            complete += 1
    assert complete >= 12


@pytest.mark.parametrize("module", [formats, namesakes, opt_out_forms, people, sites, world])
def test_docstring_examples_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.long
def test_the_truth_equals_a_direct_reading_of_all_sites():
    with browsing(5) as browser:
        assert_truth_follows_opt_outs_and_time(browser)


def assert_truth_follows_opt_outs_and_time(browser):
    world = browser.world
    assert_truth_is_what_can_be_read(browser)
    world.advance(days=1)
    for truth in world.listings():
        site = world.definitions[truth.site]
        if truth.visible and truth.person is not None and site.removal.method == "form":
            browser.opt_out(site, truth, world.people[truth.person])
    assert any(request.accepted for request in world.opt_outs)
    assert any(not request.accepted for request in world.opt_outs)
    before = {truth.reference_id for truth in world.listings() if truth.visible}
    for days in (4, 55):
        world.advance(days=days)
        assert_truth_is_what_can_be_read(browser)
    assert before != {truth.reference_id for truth in world.listings() if truth.visible}


def test_a_listing_has_a_name_and_its_own_page(reader):
    world = reader.world
    truths = {(truth.site, truth.reference_id): truth for truth in world.listings()}
    field_counts = defaultdict(int)
    for person in world.people[:8]:
        home = person.addresses[0]
        query = {"first_name": person.first_name, "last_name": person.last_name}
        query |= {"city": home.city, "state": home.state}
        for name in world.reachable:
            site = world.definitions[name]
            for row in reader.search(site, **query)[0]:
                truth = truths[name, one(row["reference_id"])]
                assert " ".join(one(row["name"]).split()) == " ".join(truth.name.split())
                assert row["locations"]
                for field, value in row.items():
                    field_counts[field] += bool(value)
                href = one(row["href"]) if row["href"] else None
                assert (href is None) == (truth.href is None)
                if href is not None:
                    assert urljoin(site.search.url, href) == truth.href
                    page = reader.ask(truth.href)
                    assert page.status_code == 200
                    assert truth.reference_id in page.text
    assert all(field_counts.values()), field_counts


def test_a_listing_that_is_gone_has_no_page(reader):
    plain = {site.name for site in SITES if site.trait is None}
    hidden = [truth for truth in reader.world.listings() if not truth.visible and truth.href]
    statuses = {reader.ask(truth.href).status_code for truth in hidden[:50] if truth.site in plain}
    assert statuses == {404}


def test_a_seed_determines_every_byte():
    def contents(seed):
        with browsing(4, seed=seed) as browser:
            world = browser.world
            bodies = [
                browser.first_page(
                    world.definitions[name], first_name=person.first_name, last_name=person.last_name
                ).content
                for person in world.people
                for name in sorted(world.reachable - {"Umbrella Kin"})
            ]
            return bodies, world.listings(), world.pages()

    first = contents(3)
    assert first == contents(3)
    assert first[1] != contents(4)[1]


def test_the_clock_determines_what_is_listed():
    world = World(100, seed=7, clock=FrozenClock(START))
    first, last = world.listings(), world.listings(START + timedelta(days=90))
    share = sum(truth.visible for truth in first) / len(first)
    assert 0.8 < share < 0.95
    came = sum(not then.visible and now.visible for then, now in zip(first, last, strict=True))
    went = sum(then.visible and not now.visible for then, now in zip(first, last, strict=True))
    assert 0.05 < came / len(first) < 0.2
    assert 0 < went / len(first) < 0.05
    quirks = {quirk for truth in first for quirk in truth.quirks}
    assert quirks == {"nickname", "maiden name", "misspelt", "no age", "age off by one", "former town"}
    world.advance(days=90)
    assert world.listings() == last
    assert world.clock.now() == START + timedelta(days=90)


def test_a_real_clock_cannot_be_advanced():
    with pytest.raises(TypeError, match="FrozenClock"):
        World(1, seed=7, clock=Clock()).advance(days=1)


def test_a_third_of_the_people_have_a_namesake():
    people = invent(300, seed=7)
    others = invent_strangers(people, 7)
    assert len(others) >= len(people)
    by_name = {f"{p.first_name} {p.last_name}": p for p in people}
    namesakes = [(by_name[name], s) for s in others if (name := f"{s.first_name} {s.last_name}") in by_name]
    assert 0.25 < len(namesakes) / len(people) < 0.42
    towns = [p.addresses[0].city == s.addresses[0].city for p, s in namesakes]
    assert 0.1 < sum(towns) / len(towns) < 0.4
    for p, s in namesakes:
        assert p.birth_date is None or abs(p.birth_date - s.birth_date) > 8 * 365 * 86_400
    theirs = [{*p.emails, *p.phone_numbers, *((h.address1, h.city) for h in p.addresses)} for p in people]
    details = [{*s.emails, *s.phone_numbers, *((h.address1, h.city) for h in s.addresses)} for s in others]
    assert set().union(*theirs).isdisjoint(set().union(*details))
    ours = {name for p in people for name in names_of(p)}
    assert all(ours.isdisjoint(names_of(s)) for s in others[len(namesakes) :])


def test_requests_are_counted_by_host(reader):
    before = reader.world.requests["seekfolk.example"]
    for _ in range(3):
        reader.ask("http://SeekFolk.example:8080/search", params={"name": "Nobody Atall"})
    assert reader.world.requests["seekfolk.example"] - before == 3
    assert reader.ask("http://elsewhere.example/").status_code == 502


def test_only_hosts_of_a_running_world_are_resolved(reader):
    [(host, port)] = asyncio.run(reader.world.resolve("seekfolk.example", 80))
    assert host == "127.0.0.1"
    assert port > 0
    for host in ("localhost", "169.254.169.254", "example.com", "seekfolk.example.net"):
        with pytest.raises(OSError, match="no such host"):
            asyncio.run(reader.world.resolve(host, 80))
    with pytest.raises(OSError, match="no such host"):
        asyncio.run(World(1, seed=1, clock=Clock()).resolve("seekfolk.example", 80))


def test_no_repr_contains_a_personal_value(reader):
    world = reader.world
    text = repr((world.listings()[:500], world.pages()[:500], world))
    for person in world.people:
        assert person.last_name not in text
        assert not [email for email in person.emails if email in text]
