"""One scan of one site over real HTTP: its queries, its outcome, and what is stored of it."""

import asyncio
from dataclasses import replace

import pytest
from support.services import a_database
from support.small_web import (
    BLOCKED,
    LOOPBACK,
    NO_RESULTS,
    Card,
    Folk,
    by_form,
    definition,
    nobody,
    query,
    results_page,
)

from exposurekit.sandbox.world.asgi import Response, html, redirect, text
from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.findings import candidates
from exposurekit.service.http.client import HttpClient
from exposurekit.service.models import Listing
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.site_scan import (
    CONTROL_MISSING,
    scan_control,
    scan_site,
)
from exposurekit.service.sites.statistics import VALUE_MISSING
from exposurekit.service.storage import tables

SUBJECT = Subject(
    names=(Name("Juniper", "Quillfeather"),), places=(Place("12 Acorn Street", "", "Oakmere", "CA", "95999"),)
)
HERS = Card("r1")
RESIDENT = Card("c1", "Resident Seekfolk")
CONTROL = {"listed": {"first_name": "Resident", "last_name": "Seekfolk"}}
BY_TOWN = {"fields": {"first": "{first_name}", "last": "{last_name}", "town": "{city}"}}


@pytest.fixture
def scan(town, tmp_path):
    """Scan a site of this town once; a site without a delay needs no database."""

    def scan(site, subject=SUBJECT, *, control=False, before=()):
        async def once():
            http = HttpClient(allowed_networks=LOOPBACK, resolve=town.resolve)
            fetcher = PoliteFetcher(http, a_database(tmp_path, key=bytes(32)))
            if control:
                return await scan_control(site, fetcher)
            return await scan_site(site, subject, fetcher, previous=before)

        return asyncio.run(once())

    return scan


def confirms_absence(result):
    """Whether a missing listing that the same query once discovered is gone."""
    query_sent = result.queries[0] if result.queries else {"first": "Juniper", "last": "Quillfeather"}
    listing = Listing(name="Juniper Quillfeather", reference_id="r0", query=query_sent)
    return result.confirms_absence_of(listing)


def references(result):
    return [listing.reference_id for listing in result.listings]


def anyone(reference_id):
    """A site that lists whoever is searched for."""
    return lambda request: results_page(Card(reference_id, "{first} {last}".format_map(request.query)))


def for_her(response, otherwise=None):
    """A site that sends a response to a search for her, and else another, or no results."""
    return lambda request: response if HERS.fits(request) else otherwise or nobody()


async def _marsh():
    for _ in range(400):
        yield b"<p>marsh</p>" * 1000


async def _cut():
    yield b"<ul><li id=r1>"


@pytest.mark.parametrize(
    ("names", "towns", "searched"),
    [
        (1, 7, "Aa Ab Ac Ad Ae Af"),
        (2, 6, "Aa Ba Ab Ac Ad Ae"),
        (3, 3, "Aa Ba Ab Ca Ac Bb"),
        (7, 7, "Aa Ba Ab Ca Ac Da"),
        (7, 1, "Aa Ba Ca Da Ea Fa"),
        (1, 0, "A"),
        (2, 2, "Aa Ba Ab Bb"),
    ],
)
def test_each_name_and_each_town_gets_its_turn(town, scan, names, towns, searched):
    """Many former addresses must not use up the searches under a maiden name."""
    town.opens("Seekfolk", Folk())
    subject = Subject(
        names=tuple(Name("Juniper", letter) for letter in "ABCDEFG"[:names]),
        places=tuple(Place(city=letter) for letter in "abcdefg"[:towns]),
    )
    result = scan(definition(search=BY_TOWN), subject)
    assert [query["last"] + query["town"] for query in result.queries] == searched.split()
    assert result.left_out == max(0, names * max(towns, 1) - 6)


MOODS = {
    "forbidden": (lambda _: html("<p>Go away.</p>", 403), "blocked"),
    "too many questions": (lambda _: html("<p>Later.</p>", 429), "blocked"),
    "a puzzle that looks like success": (lambda _: html(f"<h1>{BLOCKED}</h1>{HERS.html()}"), "blocked"),
    "not found": (lambda _: html(f"<p>{NO_RESULTS}</p>", 404), "not found"),
    "broken": (lambda _: html(f"<p>{NO_RESULTS}</p>", 500), "status 500"),
    "away": (lambda _: Response(status=503), "status 503"),
    "slow": (lambda _: Response(results_page(HERS).body, delay_s=5), "time-out"),
    "rebuilt": (lambda _: html("<div id=app>Loading</div>"), "changed layout"),
    "empty": (lambda _: Response(b""), "changed layout"),
    "no reference": (lambda _: html("<ul><li><b>Juniper Quillfeather</b></ul>"), "changed layout"),
    "huge": (lambda _: Response(parts=_marsh), "too large"),
    "nested": (lambda _: Response(b"<div>" * 100_000 + HERS.html().encode()), "too much"),
    "endless redirect": (lambda request: redirect(request.path + query(request)), "too many redirects"),
    "to the metadata": (lambda _: redirect("http://169.254.169.254/latest/"), "the address is forbidden"),
    "broken encoding": (
        lambda _: Response(b"\xff\xfe\x80<li>\xc3\x28\x00", kind="text/html; charset=x-none"),
        "changed layout",
    ),
    "not what it was packed as": (
        lambda _: Response(results_page(HERS).body, headers=(("content-encoding", "gzip"),)),
        "unreadable",
    ),
    "hung up": (lambda _: Response(headers=(("content-length", "900"),), parts=_cut), "unreadable"),
}


@pytest.mark.parametrize("name", MOODS)
def test_trouble_is_inconclusive(town, scan, name):
    """A block, a time-out, a 404 or a changed layout."""
    mood, reason = MOODS[name]
    town.opens(name, Folk(search=lambda request: mood(request) if HERS.fits(request) else nobody()))
    result = scan(definition(name, search={"timeout_s": 0.3} if name == "slow" else {}))
    assert (result.inconclusive or "").startswith(reason)
    assert (result.trusted, confirms_absence(result), references(result)) == (True, False, [])


def test_a_site_whose_control_fails_is_not_queried_for_users(town, scan):
    town.opens("Seekfolk", Folk([HERS], search=lambda _: html("", 503)))
    result = scan(definition())
    assert (result.inconclusive, result.trusted, confirms_absence(result)) == ("status 503", True, False)
    assert len(town.of("Seekfolk")) == 1
    assert "Juniper Quillfeather" not in town.names("Seekfolk")


def test_a_site_without_a_server_is_unreachable(scan):
    assert scan(definition("Nowhere", politeness={"robots_txt": False})).inconclusive == "unreachable"
    reason = "the site's robots.txt cannot be read: the connection was refused"
    assert scan(definition("Nowhere")).inconclusive == reason


def test_a_working_site_shows_listings_and_absences(town, scan):
    site = town.opens("Seekfolk", Folk([HERS]))
    result = scan(definition())
    assert (references(result), result.trusted, result.inconclusive) == (["r1"], True, None)
    assert references(scan(definition(), Subject(names=SUBJECT.names))) == ["r1"]  # without an address
    site.cards.clear()
    result = scan(definition())
    assert (references(result), confirms_absence(result)) == ([], True)


def test_an_invented_person_is_searched_first_and_differs_each_time(town, scan):
    town.opens("Seekfolk", Folk([HERS]))
    for _ in range(5):
        scan(definition())
    names = town.names("Seekfolk")
    assert names[1::2] == ["Juniper Quillfeather"] * 5
    assert len(set(names[0::2])) == 5
    assert "Juniper Quillfeather" not in names[0::2]


def test_an_invented_person_lives_in_the_users_town(town, scan):
    """A site may list anyone, but only of towns that it has."""
    town.opens("Seekfolk", Folk())
    scan(definition(search=BY_TOWN))
    assert [request.query["town"] for request in town.of("Seekfolk")] == ["Oakmere", "Oakmere"]


ANYONE = {
    "as queried": "{first} {last}",
    "last name first": "{last}, {first}",
    "in capitals, with an initial": "{first} Q. {last}",
}


@pytest.mark.parametrize("spelled", ANYONE)
def test_a_site_that_lists_anyone_is_not_trusted(town, scan, spelled):
    def search(request):
        name = ANYONE[spelled].format_map(request.query)
        return results_page(Card("r9", name.upper() if "capitals" in spelled else name))

    town.opens("Seekfolk", Folk(search=search))
    result = scan(definition())
    assert (result.trusted, confirms_absence(result), references(result)) == (False, False, ["r9"])


def test_a_site_that_suggests_other_people_is_trusted(town, scan):
    suggestion = results_page(Card("r2", "Somebody Otherwick"))
    town.opens("Seekfolk", Folk(search=for_her(results_page(HERS), suggestion)))
    result = scan(definition())
    assert (result.trusted, references(result)) == (True, ["r1"])


ROBOTS = {
    "forbids everything": (text("User-agent: *\nDisallow: /\n"), False),
    "forbids us by name": (text("User-agent: exposurekit\nDisallow: /search\n"), False),
    "forbids another by name": (text("User-agent: otherbot\nDisallow: /\n"), True),
    "forbids another path": (text("User-agent: *\nDisallow: /admin\n"), True),
    "forbids searches by their query": (text("User-agent: *\nDisallow: /search?\n"), False),
    "forbids a parameter": (text("User-agent: *\nDisallow: /*last=\n"), False),
    "forbids all but searches": (text("User-agent: *\nAllow: /search\nDisallow: /\n"), True),
    "is not there": (text("nothing", 404), True),
    "is for members": (text("nothing", 401), True),
    "cannot be reached": (text("User-agent: *\nAllow: /\n", 503), False),
    "goes round": (redirect("/robots.txt"), False),
    "is a page": (html("<h1>Welcome</h1>"), True),
    "is broken": (Response(b"\xff\xfe\x00User-agent\xc3\x28: *\nDisallow: /\n"), True),
    "hangs up": (Response(headers=(("content-length", "900"),), parts=_cut), False),
}


@pytest.mark.parametrize("name", ROBOTS)
def test_robots_txt_is_obeyed(town, scan, name):
    """RFC 9309: a missing file allows everything, an unreachable one nothing."""
    answer, allowed = ROBOTS[name]
    town.opens("Seekfolk", Folk([HERS], robots=answer))
    result = scan(definition())
    assert (result.inconclusive is None, references(result)) == (allowed, ["r1"] if allowed else [])
    assert len(town.of("Seekfolk")) == (2 if allowed else 0)


def test_a_permitted_sites_robots_txt_is_not_fetched(town, scan):
    town.opens("Seekfolk", Folk([HERS], robots=text("User-agent: *\nDisallow: /\n")))
    assert references(scan(definition(politeness={"robots_txt": False}))) == ["r1"]
    assert town.of("Seekfolk", "/robots.txt") == []


def test_only_sites_that_require_a_town_are_queried_for_each(town, scan):
    town.opens("Seekfolk", Folk([Card("r1", town="Oakmere"), Card("r2", town="Fogmantle")]))
    subject = Subject(names=SUBJECT.names, places=(Place(city="Oakmere"), Place(city="Fogmantle")))
    assert references(scan(definition(search=BY_TOWN), subject)) == ["r1", "r2"]
    town.requests.clear()
    scan(definition(), subject)
    assert town.names("Seekfolk").count("Juniper Quillfeather") == 1


def test_a_search_has_the_state_as_code_or_name():
    """The specification has no format of a state: whatever is on file, the site gets what its search takes."""
    fields = {"code": "{state}", "name": "{state_name}"}
    search = definition(search={"fields": fields}).search
    for on_file in ("NC", "nc", " North  carolina "):
        values = Subject(names=(), places=(Place(state=on_file),)).values()
        assert search.query(values) == {"code": "NC", "name": "North Carolina"}
    elsewhere = Subject(names=(), places=(Place(state="Ontario"),)).values()
    assert search.query(elsewhere) == {"code": "Ontario", "name": "Ontario"}


@pytest.mark.parametrize("last_name", ["Otterwick Jr.", "Otterwick, III", "Otterwick junior"])
def test_a_search_has_no_generation(last_name):
    """Sites find nobody under the last name Otterwick Jr., and somebody would seem to be listed nowhere."""
    search = definition(search={"fields": {"name": "{first_name} {last_name}"}}).search
    values = Subject(names=(Name("Paul", last_name),)).values()
    assert search.query(values) == {"name": "Paul Otterwick"}


def test_names_in_the_path_are_searched_and_repeated(town, scan):
    """A person without a value for the path is not searched for, which proves no absence; earlier queries are sent."""
    url = "http://seekfolk.example/people/{first_name}-{last_name}/{state_name}/{city}"
    site = definition(search={"url": url, "fields": {"all": "yes"}})
    paths = []

    def answer(request):
        paths.append(request.path)
        is_hers = request.path == "/people/Juniper-O'Quillfeather/North-Carolina/Oak-Mere"
        return results_page(HERS) if is_hers and request.parameters() == {"all": "yes"} else nobody()

    town.opens("Seekfolk", answer)
    name, places = Name("Juniper", "O'Quillfeather"), (Place(city="Oak  Mere", state="NC"),)
    result = scan(site, Subject(names=(name,), places=places))
    assert (references(result), result.inconclusive, confirms_absence(result)) == (["r1"], None, True)
    moved = Subject(names=(name,), places=(Place(city="Fogmantle", state="NV"),))
    again = scan(site, moved, before=[replace(result.listings[0], reference_id="r0")])
    assert references(again) == ["r1"]
    paths.clear()
    for lacking in ((), (Place(city=" .. ", state="NC"),)):
        nowhere = scan(site, Subject(names=(name,), places=lacking))
        assert (nowhere.inconclusive, confirms_absence(nowhere), paths) == (VALUE_MISSING, False, [])
    lacks_one = Subject(names=(name,), places=(Place(state="NC"), *places))
    assert references(scan(site, lacks_one)) == ["r1"]
    control = {"listed": {"first_name": "Jon", "last_name": "Doe", "city": "Fogmantle", "state": "NV"}}
    with_control = definition(search={"url": url, "fields": {"all": "yes"}}, controls=control)
    earlier = scan(with_control, Subject(names=(name,)), before=result.listings)
    assert (references(earlier), earlier.inconclusive) == (["r1"], None)


def test_every_distinct_query_is_sent_once(town, scan):
    town.opens("Seekfolk", Folk([Card("r1", "Junie Otterwick")]))
    names = (Name("Juniper", "Quillfeather", "Ann"), *SUBJECT.names, *[Name("Junie", "Otterwick")] * 2)
    assert references(scan(definition(), Subject(names=names, places=SUBJECT.places))) == ["r1"]
    assert town.names("Seekfolk")[1:] == ["Juniper Quillfeather", "Junie Otterwick"]


def paged(request):
    """Two listings on the first page, one on each of two more."""
    if request.query.get("last") != "Quillfeather":
        return nobody()
    page = int(request.query.get("page", "1"))
    cards = [Card("r1"), Card("r2")] if page == 1 else [Card(f"r{page + 1}")]
    return results_page(*cards, following=query(request, page=str(page + 1)) if page < 3 else None)


@pytest.mark.parametrize(
    ("pages_max", "fails", "outcome"),
    [
        (3, False, (["r1", "r2", "r3", "r4"], None)),
        (2, False, (["r1", "r2", "r3"], "too many pages")),
        (3, True, (["r1", "r2"], "status 503")),
    ],
)
def test_pages_are_read_up_to_a_limit_or_failure(town, scan, pages_max, fails, outcome):
    def search(request):
        return html("", 503) if fails and "page" in request.query else paged(request)

    town.opens("Seekfolk", Folk(search=search))
    result = scan(definition(search={"pages_max": pages_max}))
    assert (references(result), result.inconclusive) == outcome


def test_one_unreadable_listing_makes_a_scan_inconclusive(town, scan):
    unreadable = results_page(HERS, beside="<li><b>Juniper Q</b></li>")
    town.opens("Seekfolk", Folk(search=for_her(unreadable)))
    result = scan(definition())
    assert (references(result), result.inconclusive) == (["r1"], "unreadable listings")


def test_pages_that_link_to_each_other_are_read_finitely(town, scan):
    def search(request):
        other = query(request, page="b" if request.query.get("page") == "a" else "a")
        return results_page(HERS, following=other) if HERS.fits(request) else nobody()

    town.opens("Seekfolk", Folk(search=search))
    result = scan(definition())
    assert (references(result), result.inconclusive) == (["r1"], "too many pages")
    assert len(town.of("Seekfolk")) == 1 + 3


def test_a_form_is_posted(town, scan):
    town.opens("Seekfolk", Folk([HERS]))
    assert references(scan(definition(search={"method": "post"}))) == ["r1"]
    assert {request.method for request in town.of("Seekfolk")} == {"POST"}
    assert not any(request.query for request in town.of("Seekfolk"))


def test_two_layouts_on_one_page_are_both_read(town, scan):
    other = '<table><tr data-row="r2"><td class=who>Juniper Quillfeather</td><td class=years>42</td></table>'
    town.opens("Seekfolk", Folk(search=for_her(results_page(HERS, beside=other))))
    layouts = {"item": "li, tr", "name": ["b", "td.who"], "reference_id": ["@id", "@data-row"]}
    site = definition(listings=layouts | {"age": [".age", ".years"]})
    assert [(one.reference_id, one.age) for one in scan(site).listings] == [("r1", 42), ("r2", 42)]


def test_a_control_person_is_searched_alone(town, scan):
    town.opens("Seekfolk", Folk([RESIDENT]))
    assert references(scan(definition(controls=CONTROL), control=True)) == ["c1"]
    assert town.names("Seekfolk") == ["Resident Seekfolk"]
    assert scan(definition(), control=True) is None


MOVED = Subject(names=(Name("Marigold", "Otterwick"),), places=(Place(city="Fogmantle", state="CA"),))


def test_the_query_that_discovered_a_listing_is_repeated(town, scan):
    """A new name or address means new queries, and confirms no absence."""
    site = town.opens("Seekfolk", Folk([HERS]))
    [listing] = scan(definition()).listings
    result = scan(definition(), MOVED, before=[listing])
    assert references(result) == ["r1"]
    site.cards.clear()
    result = scan(definition(), MOVED, before=[listing])
    assert (references(result), result.confirms_absence_of(listing)) == ([], True)


def test_only_the_query_that_discovered_a_listing_confirms_its_absence(town, scan):
    town.opens("Seekfolk", Folk([HERS]))
    result = scan(definition(), MOVED)
    assert (references(result), result.inconclusive) == ([], None)
    for query_sent in (None, {"first": "Juniper", "last": "Quillfeather"}):
        unseen = Listing(name="Juniper Quillfeather", reference_id="r1", query=query_sent)
        assert not result.confirms_absence_of(unseen)


def test_the_control_person_is_searched_when_a_listing_is_missing(town, scan):
    """A site that no longer lists its control person confirms no absence."""
    site, controlled = town.opens("Seekfolk", Folk([HERS, RESIDENT])), definition(controls=CONTROL)
    [listing] = scan(controlled).listings
    scan(controlled, before=[listing])
    assert "Resident Seekfolk" not in town.names("Seekfolk")
    site.search = lambda _: nobody()
    result = scan(controlled, before=[listing])
    assert (result.inconclusive, result.confirms_absence_of(listing)) == (CONTROL_MISSING, False)
    site.search = None
    site.cards[:] = [RESIDENT]
    result = scan(controlled, before=[listing])
    assert (result.confirms_absence_of(listing), result.reads_control) == (True, True)


def state(house):
    return [(row.site, row.status, row.absences, row.ciphertext) for row in house.rows()]


@pytest.mark.parametrize("gone_once", [False, True], ids=["listed before", "absent once before"])
def test_inconclusive_scans_change_no_record(house, town, gone_once):
    trouble = {f"{name}s": mood for name, (mood, _) in MOODS.items()}
    sites = {name: town.opens(name, Folk([HERS])) for name in trouble}
    house.has(*map(definition, trouble))
    juniper, other = house.juniper(), house.juniper(first_name="Marigold", last_name="Otterwick")
    house.idle()
    if gone_once:
        for site in sites.values():
            site.cards.clear()
        house.advance(days=7)
    before, alerts = state(house), house.alerts(juniper)
    assert {row[1:3] for row in before} == {("discovered", int(gone_once))}
    assert len(before) == len(trouble)
    house.has(*(definition(name, search={"timeout_s": 0.3} if name == "slows" else {}) for name in trouble))
    for name, site in sites.items():
        site.search = trouble[name]
    house.advance(days=1.5 if gone_once else 8)
    assert state(house) == before
    assert house.alerts(juniper) == alerts
    assert house.records(other) == []
    for name, one in house.health().items():
        assert one.inconclusive_scans, name
        assert one.last_reason.startswith(MOODS[name.removesuffix("s")][1]), name
        assert one.last_good_scan_at < one.last_scan_at, name


def test_listings_of_an_incomplete_scan_become_records(house, town):
    house.has(definition(search={"pages_max": 1}))
    town.opens("Seekfolk", Folk(search=paged))
    juniper = house.scanned_juniper()
    assert set(house.statuses(juniper)) == {"r1", "r2"}
    assert house.health()["Seekfolk"].last_reason == "too many pages"


def test_listings_of_an_untrusted_site_are_quarantined_until_it_recovers(house, town):
    house.has(definition(removal=by_form()))
    site = town.opens("Seekfolk", Folk([HERS]))
    juniper, marigold = house.juniper(), house.juniper(first_name="Marigold", last_name="Otterwick")
    house.idle()
    before = state(house), house.alerts(juniper)
    assert len(before[0]) == 1
    site.search = anyone("r9")
    house.advance(days=7)
    assert (state(house), house.alerts(juniper)) == before
    assert house.records(marigold) == house.alerts(marigold) == []
    quarantined = house.work(candidates.all)
    assert {(one.user_id, one.verdict, one.listing.reference_id) for one in quarantined} == {
        (juniper["id"], "quarantined", "r9"),
        (marigold["id"], "quarantined", "r9"),
    }
    assert house.health()["Seekfolk"].untrusted_scans >= 2
    site.search = None
    site.cards[:] = [Card("r9")]
    house.advance(days=7)
    assert house.statuses(juniper)["r9"] == "pending removal"
    assert house.work(candidates.all) == []  # the site does not list Marigold


def test_a_record_on_an_untrusted_site_is_unchanged(house, town):
    house.has(definition())
    site = town.opens("Seekfolk", Folk([HERS]))
    juniper = house.scanned_juniper()
    before = state(house)
    site.search = anyone("r1")
    house.advance(days=7)
    assert state(house) == before
    assert house.work(candidates.all) == []
    assert house.alert_titles(juniper) == ["New record"]


PERHAPS = Card("perhaps", age=42, locations=())


def test_a_candidate_ends_once_its_site_no_longer_lists_it(house, town):
    house.has(definition())
    site = town.opens("Seekfolk", Folk([replace(PERHAPS, name="Jon Quillfeather")]))
    jon = house.scanned_juniper(first_name="Jon")
    [before] = house.work(candidates.all)
    site.search = lambda _: html(f"<p>{BLOCKED}</p>", 403)
    house.advance(days=7)
    assert [one.id for one in house.work(candidates.all)] == [before.id]
    site.search = None
    house.update(jon, first_name="Jonathan")  # the query that found it is repeated
    house.advance(days=7)
    assert [one.id for one in house.work(candidates.all)] == [before.id]
    site.cards.clear()
    house.advance(days=7)
    assert house.work(candidates.all) == []


def test_a_site_without_its_control_person_ends_no_candidate(house, town):
    house.has(definition(controls=CONTROL))
    site = town.opens("Seekfolk", Folk([PERHAPS, RESIDENT]))
    house.scanned_juniper()
    site.cards.clear()
    house.advance(days=7)
    assert [one.listing.reference_id for one in house.work(candidates.all)] == ["perhaps"]
    site.cards[:] = [RESIDENT]
    house.advance(days=7)
    assert house.work(candidates.all) == []


@pytest.mark.parametrize("rejected", [False, True])
def test_a_candidate_that_no_longer_fits_ends_unless_rejected(house, town, rejected):
    house.has(definition())
    town.opens("Seekfolk", Folk([PERHAPS]))
    juniper = house.scanned_juniper()
    [candidate] = house.work(candidates.all)
    if rejected:
        house.work(lambda work: candidates.reject(work, candidate.id))
    house.update(juniper, birth_date=-420_000_000)
    house.advance(days=7)
    verdicts = [row.verdict for row in house.rows(tables.candidates)]
    assert verdicts == ["rejected"] * rejected


def test_only_matches_become_records_and_possible_ones_candidates(house, town):
    """An operator judges possible matches; they are never removed automatically."""
    house.has(definition(removal=by_form()))
    cards = [
        Card("other", age=71, locations=("Fogmantle, CA",)),
        Card("perhaps", age=42, locations=()),
        Card("hers"),
    ]
    town.opens("Seekfolk", Folk(cards))
    juniper = house.juniper()
    house.advance(days=30)
    assert set(house.statuses(juniper)) == {"hers"}
    [possible] = house.work(candidates.all)
    assert (possible.verdict, possible.listing.reference_id) == ("possible", "perhaps")
    assert {request.form["reference"] for request in town.of("Seekfolk", "/opt-out")} == {"hers"}
    assert len(house.rows(tables.alerts)) == len(house.alerts(juniper))
