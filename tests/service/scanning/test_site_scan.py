"""One look at one site over real HTTP: what it tells, and what it does not."""

import asyncio
import json

import pytest
from support.services import a_database
from support.small_web import (
    ACCEPTED,
    BLOCKED,
    JUNIPER,
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

from exposurekit.sandbox.world.asgi import JSON, Response, html, redirect, text
from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.findings import candidates
from exposurekit.service.http.client import HttpClient
from exposurekit.service.models import Listing
from exposurekit.service.scanning.politeness import PoliteFetcher
from exposurekit.service.scanning.site_scan import CONTROL_MISSING, scan_control, scan_site
from exposurekit.service.storage import tables

SUBJECT = Subject(
    names=(Name("Juniper", "Quillfeather"),), places=(Place("12 Acorn Street", "", "Oakmere", "CA", "95999"),)
)
HERS = Card("r1")


@pytest.fixture
def looked(town, tmp_path):
    """Look once at a site of this town."""

    def looked(site, subject=SUBJECT, *, control=False, before=()):
        async def once():
            # Nothing is kept: a site without a delay needs no turns.
            fetcher = PoliteFetcher(
                HttpClient(allowed_networks=LOOPBACK, resolve=town.resolve),
                a_database(tmp_path, key=bytes(32)),
            )
            return await (
                scan_control(site, fetcher) if control else scan_site(site, subject, fetcher, previous=before)
            )

        return asyncio.run(once())

    return looked


def tells_absence(result):
    """Whether a listing that the very same question found, and that is not there now, is gone."""
    query_sent = result.queries[0] if result.queries else {"first": "Juniper", "last": "Quillfeather"}
    return result.confirms_absence_of(
        Listing(name="Juniper Quillfeather", reference_id="r0", query=query_sent)
    )


def references(result):
    return [listing.reference_id for listing in result.listings]


async def _marsh():
    for _ in range(400):
        yield b"<p>marsh</p>" * 1000


async def _cut():
    yield b"<ul><li id=r1>"


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


def in_a_mood(name):
    return definition(name, search={"timeout_s": 0.3} if name == "slow" else {"timeout_s": 5})


@pytest.mark.parametrize("since", ["from the beginning", "after the control"])
@pytest.mark.parametrize("name", MOODS)
def test_a_site_in_trouble_tells_nothing(town, looked, name, since):
    """A block, a time-out, a 404 or a changed layout is inconclusive."""
    mood, reason = MOODS[name]
    site = town.opens(name, Folk([HERS]))
    site.search = lambda request: (
        mood(request)
        if since == "from the beginning" or request.query.get("last") == "Quillfeather"
        else nobody()
    )
    result = looked(in_a_mood(name))
    assert (result.inconclusive or "").startswith(reason)
    assert (result.trusted, tells_absence(result), references(result)) == (True, False, [])


def test_a_site_whose_control_fails_is_not_asked_for_users(town, looked):
    town.opens("Seekfolk", Folk([HERS], search=lambda _: html("", 503)))
    looked(definition())
    assert len(town.of("Seekfolk")) == 1
    assert "Juniper Quillfeather" not in town.names("Seekfolk")


def test_a_site_that_nobody_serves_is_unreachable(looked):
    assert looked(definition("Nowhere", politeness={"robots_txt": False})).inconclusive == "unreachable"


def test_a_working_site_shows_listings_and_absences(town, looked):
    site = town.opens("Seekfolk", Folk([HERS]))
    result = looked(definition())
    assert (references(result), result.trusted, result.inconclusive) == (["r1"], True, None)
    site.cards.clear()
    result = looked(definition())
    assert (references(result), tells_absence(result)) == ([], True)


def test_an_invented_person_is_searched_first_and_differs_each_time(town, looked):
    """Each scan asks for the invented person first."""
    town.opens("Seekfolk", Folk([HERS]))
    for _ in range(5):
        looked(definition())
    names = town.names("Seekfolk")
    assert names[1::2] == ["Juniper Quillfeather"] * 5
    assert len(set(names[0::2])) == 5
    assert "Juniper Quillfeather" not in names[0::2]


def test_an_invented_person_lives_in_the_users_town(town, looked):
    """A site that lists anybody of a town that it has must not be asked for one that it lacks."""
    town.opens("Seekfolk", Folk())
    looked(definition(search={"fields": {"first": "{first_name}", "last": "{last_name}", "town": "{city}"}}))
    assert [request.query["town"] for request in town.of("Seekfolk")] == ["Oakmere", "Oakmere"]


ANYBODY = {
    "as asked": "{first} {last}",
    "last name first": "{last}, {first}",
    "in capitals, with an initial": "{first} Q. {last}",
}


@pytest.mark.parametrize("spelled", ANYBODY)
def test_a_site_that_lists_anybody_is_not_trusted(town, looked, spelled):
    """A site that answers is distrusted for that scan."""

    def anybody(request):
        name = ANYBODY[spelled].format_map(request.query)
        return results_page(Card("r9", name.upper() if "capitals" in spelled else name))

    town.opens("Seekfolk", Folk(search=anybody))
    result = looked(definition())
    assert (result.trusted, tells_absence(result), references(result)) == (False, False, ["r9"])


def test_a_site_that_shows_others_for_its_control_is_trusted(town, looked):
    """People whom a site thinks may be meant are no listing of somebody invented."""
    other = Card("r2", "Somebody Otherwick")
    town.opens(
        "Seekfolk",
        Folk(
            [HERS], search=lambda request: results_page(HERS) if HERS.fits(request) else results_page(other)
        ),
    )
    result = looked(definition())
    assert (result.trusted, references(result)) == (True, ["r1"])


# --- robots.txt -------------------------------------------------------------------------------------------

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
def test_robots_txt_is_obeyed(town, looked, name):
    """RFC 9309: no file allows everything, one that cannot be reached nothing."""
    answer, allowed = ROBOTS[name]
    town.opens("Seekfolk", Folk([HERS], robots=answer))
    result = looked(definition())
    assert (result.inconclusive is None, references(result)) == (allowed, ["r1"] if allowed else [])
    assert len(town.of("Seekfolk")) == (2 if allowed else 0)


def test_a_permitted_sites_robots_txt_is_not_fetched(town, looked):
    town.opens("Seekfolk", Folk([HERS], robots=text("User-agent: *\nDisallow: /\n")))
    assert references(looked(definition(politeness={"robots_txt": False}))) == ["r1"]
    assert town.of("Seekfolk", "/robots.txt") == []


# --- how a site is asked ----------------------------------------------------------------------------------


def test_a_site_that_needs_a_place_is_asked_for_each(town, looked):
    here, there = Card("r1", town="Oakmere"), Card("r2", town="Fogmantle")
    town.opens("Seekfolk", Folk([here, there]))
    site = definition(search={"fields": {"first": "{first_name}", "last": "{last_name}", "town": "{city}"}})
    subject = Subject(names=SUBJECT.names, places=(Place(city="Oakmere"), Place(city="Fogmantle")))
    assert references(looked(site, subject)) == ["r1", "r2"]
    # A site that asks for none is asked once, however many places there are.
    town.requests.clear()
    looked(definition(), subject)
    assert town.names("Seekfolk").count("Juniper Quillfeather") == 1


def test_every_name_is_asked_for_once(town, looked):
    town.opens("Seekfolk", Folk([Card("r1", "Junie Otterwick")]))
    names = (*SUBJECT.names, Name("Junie", "Otterwick"), Name("Junie", "Otterwick"))
    assert references(looked(definition(), Subject(names=names, places=SUBJECT.places))) == ["r1"]
    assert town.names("Seekfolk")[1:] == ["Juniper Quillfeather", "Junie Otterwick"]


def test_a_person_without_a_place_is_looked_for_too(town, looked):
    town.opens("Seekfolk", Folk([HERS]))
    assert references(looked(definition(), Subject(names=SUBJECT.names))) == ["r1"]


def paged(request):
    """Two listings on the first page, one on each that follows."""
    if request.query.get("last") != "Quillfeather":
        return nobody()
    page = int(request.query.get("page", "1"))
    cards = [Card("r1"), Card("r2")] if page == 1 else [Card(f"r{page + 1}")]
    return results_page(*cards, following=query(request, page=str(page + 1)) if page < 3 else None)


def test_pages_are_read_to_the_last(town, looked):
    town.opens("Seekfolk", Folk(search=paged))
    result = looked(definition())
    assert (references(result), result.inconclusive) == (["r1", "r2", "r3", "r4"], None)


def test_beyond_the_page_limit_findings_count_and_absences_do_not(town, looked):
    town.opens("Seekfolk", Folk(search=paged))
    result = looked(definition(search={"pages_max": 2}))
    assert (references(result), result.inconclusive) == (["r1", "r2", "r3"], "too many pages")


def test_what_stood_on_the_pages_before_the_trouble_was_seen(town, looked):
    town.opens(
        "Seekfolk", Folk(search=lambda request: html("", 503) if "page" in request.query else paged(request))
    )
    result = looked(definition())
    assert (references(result), result.inconclusive) == (["r1", "r2"], "status 503")


def test_listings_of_which_one_cannot_be_read_tell_no_absence(town, looked):
    town.opens(
        "Seekfolk",
        Folk(
            search=lambda request: (
                results_page(HERS, beside="<li><b>Juniper Q</b></li>") if HERS.fits(request) else nobody()
            )
        ),
    )
    result = looked(definition())
    assert (references(result), result.inconclusive) == (["r1"], "unreadable listings")


def test_a_page_that_links_to_itself_is_read_finitely(town, looked):
    def round_(request):
        if not HERS.fits(request):
            return nobody()
        return results_page(
            HERS, following=query(request, page="b" if request.query.get("page") == "a" else "a")
        )

    town.opens("Seekfolk", Folk(search=round_))
    result = looked(definition())
    assert (references(result), result.inconclusive) == (["r1"], "too many pages")
    assert len(town.of("Seekfolk")) == 1 + 3


def test_a_form_is_posted(town, looked):
    town.opens("Seekfolk", Folk([HERS]))
    assert references(looked(definition(search={"method": "post"}))) == ["r1"]
    assert {request.method for request in town.of("Seekfolk")} == {"POST"}
    assert not any(request.query for request in town.of("Seekfolk"))


def test_json_is_read(town, looked):
    def people(request):
        people_found = [{"id": 71, "name": HERS.name, "age": 42}] if HERS.fits(request) else []
        answer = {"people": people_found} | ({} if people_found else {"message": NO_RESULTS})
        return Response(json.dumps(answer).encode(), kind=JSON)

    town.opens("Seekfolk", Folk(search=people))
    extractors = {"item": "people", "name": "name", "reference_id": "id", "age": "age"}
    rest = {"locations": (), "aliases": ()}
    site = definition(search={"answer": "json", "next": ()}, listings=extractors | rest)
    [listing] = looked(site).listings
    assert (listing.reference_id, listing.name, listing.age) == ("71", HERS.name, 42)


def test_two_layouts_on_one_page_are_both_read(town, looked):
    other = '<table><tr data-row="r2"><td class=who>Juniper Quillfeather</td><td class=years>42</td></table>'
    town.opens(
        "Seekfolk",
        Folk(search=lambda request: results_page(HERS, beside=other) if HERS.fits(request) else nobody()),
    )
    layouts = {"item": "li, tr", "name": ["b", "td.who"], "reference_id": ["@id", "@data-row"]}
    site = definition(listings=layouts | {"age": [".age", ".years"]})
    assert [(one.reference_id, one.age) for one in looked(site).listings] == [("r1", 42), ("r2", 42)]


def test_a_control_person_is_searched_alone(town, looked):
    town.opens("Seekfolk", Folk([Card("c1", "Resident Seekfolk")]))
    control = {"listed": {"first_name": "Resident", "last_name": "Seekfolk"}}
    assert references(looked(definition(controls=control), control=True)) == ["c1"]
    assert town.names("Seekfolk") == ["Resident Seekfolk"]
    assert looked(definition(), control=True) is None


MOVED = Subject(names=(Name("Marigold", "Otterwick"),), places=(Place(city="Fogmantle", state="CA"),))


def test_the_query_that_found_a_listing_is_repeated(town, looked):
    """Who took another name, or moved, is asked for otherwise: that alone is no absence."""
    site = town.opens("Seekfolk", Folk([HERS]))
    [listing] = looked(definition()).listings
    result = looked(definition(), MOVED, before=[listing])
    assert references(result) == ["r1"]
    site.cards.clear()
    result = looked(definition(), MOVED, before=[listing])
    assert (references(result), result.confirms_absence_of(listing)) == ([], True)


def test_only_the_query_that_found_a_listing_shows_its_absence(town, looked):
    town.opens("Seekfolk", Folk([HERS]))
    result = looked(definition(), MOVED)
    assert (references(result), result.inconclusive) == ([], None)
    for query_sent in (None, {"first": "Juniper", "last": "Quillfeather"}):
        unseen = Listing(name="Juniper Quillfeather", reference_id="r1", query=query_sent)
        assert not result.confirms_absence_of(unseen)


def test_a_site_that_says_nobody_to_everybody_has_nobody_removed(town, looked):
    """Controls (a person known to be listed)."""
    control = {"listed": {"first_name": "Resident", "last_name": "Seekfolk"}}
    site = town.opens("Seekfolk", Folk([HERS, Card("c1", "Resident Seekfolk")]))
    [listing] = looked(definition(controls=control)).listings
    site.search = lambda _: nobody()
    result = looked(definition(controls=control), before=[listing])
    assert (result.inconclusive, result.confirms_absence_of(listing)) == (CONTROL_MISSING, False)
    site.search = None
    site.cards[:] = [Card("c1", "Resident Seekfolk")]
    assert looked(definition(controls=control), before=[listing]).confirms_absence_of(listing)


def test_where_nothing_is_missing_nobody_else_is_asked_for(town, looked):
    """The control costs a request: it is asked for where something is missing, and only there."""
    control = {"listed": {"first_name": "Resident", "last_name": "Seekfolk"}}
    town.opens("Seekfolk", Folk([HERS, Card("c1", "Resident Seekfolk")]))
    [listing] = looked(definition(controls=control)).listings
    looked(definition(controls=control), before=[listing])
    assert "Resident Seekfolk" not in town.names("Seekfolk")


# --- what is kept of it -----------------------------------------------------------------------------------


def state(house):
    return [(row.site, row.status, row.absences, row.ciphertext) for row in house.rows()]


@pytest.mark.parametrize("gone_once", [False, True], ids=["listed until then", "gone once until then"])
def test_no_trouble_of_a_site_clears_or_accuses_anybody(house, town, gone_once):
    """Inconclusive never clears and never accuses."""
    trouble = {f"{name}s": mood for name, (mood, _) in MOODS.items()}
    sites = {name: town.opens(name, Folk([HERS])) for name in trouble}
    patient = {"timeout_s": 0.3}
    house.has(*(definition(name, search=patient if name == "slows" else {}) for name in trouble))
    juniper, other = house.juniper(), house.juniper(first_name="Marigold", last_name="Otterwick")
    house.idle()
    if gone_once:
        for site in sites.values():
            site.cards.clear()
        house.advance(days=7)
    before, alerts = state(house), house.alerts(juniper)
    assert {row[1:3] for row in before} == {("discovered", int(gone_once))}
    assert len(before) == len(trouble)
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


def test_what_was_seen_before_the_trouble_is_a_record(house, town):
    house.has(definition(search={"pages_max": 1}))
    town.opens("Seekfolk", Folk(search=paged))
    juniper = house.scanned_juniper()
    assert set(house.statuses(juniper)) == {"r1", "r2"}
    assert house.health()["Seekfolk"].last_reason == "too many pages"


def test_a_site_that_lists_anybody_yields_nothing_until_it_recovers(house, town):
    """Its hits are quarantined."""
    house.has(definition(removal=by_form()))
    site = town.opens("Seekfolk", Folk([HERS]))
    juniper, marigold = house.juniper(), house.juniper(first_name="Marigold", last_name="Otterwick")
    house.idle()
    before = state(house), house.alerts(juniper)
    assert len(before[0]) == 1

    def anybody(request):
        return results_page(Card("r9", "{first} {last}".format_map(request.query)))

    site.search = anybody
    house.advance(days=7)
    assert (state(house), house.alerts(juniper)) == before
    assert house.records(marigold) == house.alerts(marigold) == []
    apart = house.work(candidates.all)
    assert {(one.user_id, one.verdict, one.listing.reference_id) for one in apart} == {
        (juniper["id"], "quarantined", "r9"),
        (marigold["id"], "quarantined", "r9"),
    }
    assert house.health()["Seekfolk"].untrusted_scans >= 2
    site.search = None
    site.cards[:] = [Card("r9")]
    house.advance(days=7)
    assert house.statuses(juniper)["r9"] == "pending removal"
    assert [one.user_id for one in house.work(candidates.all)] == [marigold["id"]]


def test_a_record_on_a_site_that_lists_anybody_stays(house, town):
    house.has(definition())
    site = town.opens("Seekfolk", Folk([HERS]))
    juniper = house.scanned_juniper()
    before = state(house)
    site.search = lambda request: results_page(Card("r1", "{first} {last}".format_map(request.query)))
    house.advance(days=7)
    assert state(house) == before
    assert house.work(candidates.all) == []
    assert house.alert_titles(juniper) == ["New record"]


def test_a_namesake_is_no_record_a_doubtful_one_a_candidate(house, town):
    """Weaker ones kept as possible for the operator and never removed by themselves."""
    house.has(definition(removal=by_form()))
    cards = [
        Card("other", age=71, locations=("Fogmantle, CA",)),
        Card("perhaps", age=42, locations=()),
        Card("hers"),
    ]
    site = town.opens("Seekfolk", Folk(cards))
    juniper = house.juniper()
    house.advance(days=30)
    assert set(house.statuses(juniper)) == {"hers"}
    [possible] = house.work(candidates.all)
    assert (possible.verdict, possible.listing.reference_id) == ("possible", "perhaps")
    assert {request.form["reference"] for request in town.of("Seekfolk", "/opt-out")} == {"hers"}
    assert ACCEPTED in site.opt_out(None).body.decode()
    assert len(house.rows(tables.alerts)) == len(house.alerts(juniper))


def test_equal_queries_are_sent_once(town, looked):
    town.opens("Seekfolk", Folk())
    names = (Name("Juniper", "Quillfeather", "Ann"), Name("Juniper", "Quillfeather"))
    looked(definition(), Subject(names=names, places=SUBJECT.places))
    assert town.names("Seekfolk").count("Juniper Quillfeather") == 1


def test_the_house_knows_whom_it_registers():
    assert JUNIPER["first_name"] == SUBJECT.names[0].first
