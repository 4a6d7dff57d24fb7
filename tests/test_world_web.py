"""The make-believe web over real HTTP: its sites differ as they should, and its truth is what can be read there."""

import asyncio
import doctest
import json
import string
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urljoin, urlsplit

import httpx
import jmespath
import pytest
from selectolax.lexbor import LexborHTMLParser

from exposurekit.sandbox.world import formats, opt_out_forms
from exposurekit.sandbox.world import namesakes as world_namesakes
from exposurekit.sandbox.world import world as world_world
from exposurekit.sandbox.world.namesakes import invent_strangers, names_of
from exposurekit.sandbox.world.people import invent
from exposurekit.sandbox.world.sites import SITES
from exposurekit.sandbox.world.world import World, running_world
from exposurekit.service.accounts.subject import Subject
from exposurekit.service.clock import Clock, FrozenClock

START = datetime(2026, 1, 1, 9, tzinfo=UTC)
UNREADABLE = {"Everyname Index", "Gatekeep Records"}


class Browser:
    """A person at a screen: follows what pages say, waits for as long as it takes, keeps no robots.txt."""

    def __init__(self, world, client):
        self.world, self._client = world, client
        [(_, port)] = asyncio.run(world.resolve("anything.example", 80))
        self._at = f"127.0.0.1:{port}"

    def ask(self, url, method="GET", **asked):
        parts = urlsplit(url)
        assert parts.scheme == "http"
        here = parts._replace(netloc=self._at).geturl()
        return self._client.request(method, here, headers={"host": parts.netloc}, **asked)

    def stream(self, url):
        parts = urlsplit(url)
        here = parts._replace(netloc=self._at).geturl()
        return self._client.stream("GET", here, headers={"host": parts.netloc})

    def first_page(self, site, **known):
        search = site.search
        values = dict.fromkeys(Subject(names=()).values(), "") | known
        told = {name: template.format(**values) for name, template in search.fields.items()}
        return self.ask(search.url, search.method, **{"params" if search.method == "get" else "data": told})

    def search(self, site, **known):
        """The listings of all pages of an answer, and whether it could be read."""
        answer, rows = self.first_page(site, **known), []
        while True:
            found = rows_of(site, answer)
            rows += found
            if not found and not (answer.status_code == 200 and site.search.no_results[0] in answer.text):
                return rows, False
            url = urlsplit(str(answer.url))._replace(netloc=urlsplit(site.search.url).netloc).geturl()
            following = next_of(site, answer)
            if not following:
                return rows, True
            answer = self.ask(urljoin(url, following))

    def opt_out(self, site, listing, person, **changed):
        home = person.addresses[0]
        values = {
            "reference_id": listing.reference_id,
            "first_name": person.first_name,
            "last_name": person.last_name,
            "birth_date": formats.born_on(person.birth_date).isoformat() if person.birth_date else "",
            "email": person.emails[0] if person.emails else "",
            **vars(home),
            **changed,
        }
        removal = site.removal
        data = {name: template.format(**values) for name, template in removal.fields.items()}
        if removal.page:
            hidden = LexborHTMLParser(self.ask(removal.page).text).css("input[type=hidden]")
            data |= {field.attributes["name"]: field.attributes["value"] for field in hidden}
        return self.ask(removal.url, "POST", data=data)


def picked(node, selectors):
    for selector in selectors:
        css, _, attribute = selector.partition("@")
        nodes = node.css(css) if css else [node]
        values = [n.attributes.get(attribute) if attribute else n.text(strip=True) for n in nodes]
        if any(values):
            return [value for value in values if value]
    return []


def rows_of(site, answer):
    wanted = site.listings
    names = [name for name in type(wanted).model_fields if name != "item"]
    if site.search.answer == "json":
        told = answer.json()
        return [
            {name: jmespath.search(" || ".join(getattr(wanted, name)) or "''", each) for name in names}
            for each in jmespath.search(wanted.item[0], told)
        ]
    page = LexborHTMLParser(answer.text)
    return [
        {name: picked(each, getattr(wanted, name)) for name in names} for each in page.css(wanted.item[0])
    ]


def next_of(site, answer):
    if not site.search.next:
        return None
    if site.search.answer == "json":
        return jmespath.search(site.search.next[0], answer.json())
    return next(iter(picked(LexborHTMLParser(answer.text), site.search.next)), None)


def one(value):
    return value[0] if isinstance(value, list) else value


@contextmanager
def browsing(people=10, *, seed=7, at=START, hostile=True):
    with (
        running_world(people, seed=seed, clock=FrozenClock(at), hostile=hostile) as world,
        httpx.Client(timeout=10, trust_env=False) as client,
    ):
        yield Browser(world, client)


@pytest.fixture
def browser():
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="module")
def reader():
    """For tests that change nothing."""
    with browsing(40) as browser:
        yield browser


def everything_asked(world):
    """Every name that somebody could be looked for by, with every place that makes a difference."""
    for person in (*world.people, *world.strangers):
        names = [(person.first_name, person.last_name)]
        names += [(alias.first_name, alias.last_name) for alias in person.aliases]
        for first, last in names:
            for home in person.addresses:
                yield {"first_name": first, "last_name": last, "city": home.city, "state": home.state}
    for site in world.definitions.values():
        yield site.controls.listed.model_dump()


def seen_directly(browser, site):
    """Every reference that the site's own pages show, by asking for everybody; and the names it hid that day."""
    wanted = {
        name for t in site.search.fields.values() for _, name, _, _ in string.Formatter().parse(t) if name
    }
    asked = {
        tuple(sorted((k, v) for k, v in each.items() if k in wanted))
        for each in everything_asked(browser.world)
    }
    with ThreadPoolExecutor(24 if site.search.timeout_s < 1 else 4) as pool:
        answers = list(pool.map(lambda each: browser.search(site, **dict(each)), sorted(asked)))
    unread = sum(not readable for _, readable in answers)
    return {one(row["reference_id"]) for rows, _ in answers for row in rows}, unread / len(answers)


def assert_truth_is_what_can_be_read(browser):
    world, complete = browser.world, 0
    for name in world.definitions.keys() - UNREADABLE:
        there = {truth.reference_id for truth in world.listings() if truth.site == name and truth.visible}
        seen, unread = seen_directly(browser, world.definitions[name])
        assert seen <= there, name
        if unread == 0:
            assert seen == there, name
            complete += 1
    assert complete >= 12


@pytest.mark.parametrize(
    "module", [opt_out_forms, formats, world_namesakes, world_world], ids=lambda module: module.__name__
)
def test_the_examples_in_the_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.long
def test_the_truth_is_what_a_direct_reading_of_all_sites_shows_at_any_instant(browser):
    world = browser.world
    assert_truth_is_what_can_be_read(browser)
    world.advance(days=1)
    for truth in world.listings():
        site = world.definitions[truth.site]
        if truth.visible and truth.person is not None and site.removal.method == "form":
            browser.opt_out(site, truth, world.people[truth.person])
    assert any(asked.accepted for asked in world.opt_outs)
    assert any(not asked.accepted for asked in world.opt_outs)
    before = {truth.reference_id for truth in world.listings() if truth.visible}
    for days in (4, 55):
        world.advance(days=days)
        assert_truth_is_what_can_be_read(browser)
    assert before != {truth.reference_id for truth in world.listings() if truth.visible}


def test_a_listing_shows_what_its_person_is_called_and_leads_to_its_own_page(reader):
    world = reader.world
    truths = {(truth.site, truth.reference_id): truth for truth in world.listings()}
    shown = defaultdict(int)
    for person in world.people[:12]:
        home = person.addresses[0]
        for name in world.reachable:
            site = world.definitions[name]
            rows, _ = reader.search(
                site,
                first_name=person.first_name,
                last_name=person.last_name,
                city=home.city,
                state=home.state,
            )
            for row in rows:
                truth = truths[name, one(row["reference_id"])]
                assert " ".join(one(row["name"]).split()) == " ".join(truth.name.split())
                assert row["locations"]
                for field, value in row.items():
                    shown[field] += bool(value)
                href = one(row["href"]) if row["href"] else None
                assert (href is None) == (truth.href is None)
                if href is not None:
                    assert urljoin(site.search.url, href) == truth.href
                    page = reader.ask(truth.href)
                    assert page.status_code == 200
                    assert truth.reference_id in page.text
    assert all(shown.values()), shown


def test_a_listing_that_is_gone_has_no_page(reader):
    hidden = [truth for truth in reader.world.listings() if not truth.visible and truth.href]
    assert hidden
    host = {site.name: site for site in SITES}
    for truth in hidden[:50]:
        if host[truth.site].trait is None:
            assert reader.ask(truth.href).status_code == 404


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others():
    def told(seed):
        with browsing(8, seed=seed) as browser:
            world = browser.world
            bodies = [
                browser.first_page(
                    world.definitions[name], first_name=person.first_name, last_name=person.last_name
                ).content
                for person in world.people
                for name in sorted(world.reachable - {"Umbrella Kin"})
            ]
            return bodies, world.listings(), world.pages()

    assert told(3) == told(3)
    assert told(3)[1] != told(4)[1]


def test_the_clock_says_what_is_there_and_some_listings_come_and_go_by_themselves():
    world = World(200, seed=7, clock=FrozenClock(START))
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


def test_a_clock_that_runs_by_itself_cannot_be_advanced():
    with pytest.raises(TypeError, match="FrozenClock"):
        World(1, seed=7, clock=Clock()).advance(days=1)


def test_a_third_of_the_people_have_a_namesake_who_shares_nothing_but_name_and_perhaps_town():
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
    held = [{*s.emails, *s.phone_numbers, *((h.address1, h.city) for h in s.addresses)} for s in others]
    assert set().union(*theirs).isdisjoint(set().union(*held))
    ours = {name for p in people for name in names_of(p)}
    assert all(ours.isdisjoint(names_of(s)) for s in others[len(namesakes) :])


def test_requests_are_counted_for_each_host(browser):
    for _ in range(3):
        browser.ask("http://SeekFolk.example:8080/search", params={"name": "Nobody Atall"})
    assert browser.world.requests["seekfolk.example"] == 3
    assert browser.ask("http://elsewhere.example/").status_code == 502


def test_only_hosts_of_the_world_are_resolved_and_only_while_it_is_served(browser):
    [(host, port)] = asyncio.run(browser.world.resolve("seekfolk.example", 80))
    assert host == "127.0.0.1"
    assert port > 0
    for host in ("localhost", "169.254.169.254", "example.com", "seekfolk.example.net"):
        with pytest.raises(OSError, match="no such host"):
            asyncio.run(browser.world.resolve(host, 80))
    with pytest.raises(OSError, match="no such host"):
        asyncio.run(world_world.World(1, seed=1, clock=Clock()).resolve("seekfolk.example", 80))


def test_no_representation_holds_a_personal_value(reader):
    world = reader.world
    shown = repr((world.listings()[:500], world.pages()[:500], world))
    for person in world.people:
        assert person.last_name not in shown
        assert not [email for email in person.emails if email in shown]
    assert json.dumps(shown)
