"""Web search on the hosts of people-search sites: which pages are read, and what becomes of them."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import update
from support.small_web import Card, Folk, GatedAnswer, a_house, definition

from exposurekit.sandbox.world.asgi import JSON, Response, html
from exposurekit.service.scanning import scan, websearch
from exposurekit.service.storage import tables

DATA = "<p>Juniper Quillfeather, 12 Acorn Street, Oakmere</p>"
PAGES = {
    "http://www.seekfolk.example/r1/?utm_source=x": DATA,  # her record's
    "http://seekfolk.example/r8": "<p>Juniper Quillfeather</p>",  # may be a namesake's
    "http://seekfolk.example/r9": DATA,  # of no record
    "http://peepfolk.example/r1": DATA,  # of a site that a person searches
    "http://blog.example/": DATA,
}


@pytest.fixture
def house(store, tmp_path, town):
    listed = definition(listings={"href": "@id"})
    saved = definition("Peepfolk", search={"method": "person"})
    with a_house(tmp_path, town.resolve, listed, saved, engine="http://search.example/search") as house:
        yield house


def finds(town, *urls):
    """The search engine returns these results."""
    results = json.dumps({"results": [{"url": url} for url in urls]}).encode()
    town.opens("search", lambda _: Response(results, kind=JSON))


def pages_by_way(house):
    return house.work(lambda work: websearch.pages_by_way(work, ["Seekfolk"]))


def links_of(house, user):
    return sorted(link["url"] for link in house.get(user, "/links")["links"])


def test_a_records_page_is_noted_and_others_are_links(house, town):
    """Both ways of finding a listing are known: so those that neither found can be estimated."""
    pages = {path: (lambda _: html(DATA)) for path in ("/r1/", "/r9")}
    pages |= {"/r8": lambda _: html(PAGES["http://seekfolk.example/r8"])}
    town.opens("Seekfolk", Folk([Card("r1"), Card("r2")], others=pages))
    town.hosts["www.seekfolk.example"] = town.hosts["seekfolk.example"]
    town.opens("Peepfolk", Folk(others={"/r1": lambda _: html(DATA)}))
    town.opens("blog", lambda _: html(DATA))
    finds(town, *PAGES)
    juniper = house.scanned_juniper()
    assert links_of(house, juniper) == ["http://blog.example/", "http://seekfolk.example/r9"]
    assert [row.searched_at is not None for row in house.rows()] == [True, False]
    assert [request for request in town.requests if request.host == "peepfolk.example"] == []
    listings, searched = pages_by_way(house)
    key = juniper["id"]
    assert listings == [(key, f"http://seekfolk.example/r{n}") for n in (1, 2)]
    assert sorted(searched) == [
        (key, "http://blog.example/"),
        (key, "http://seekfolk.example/r1"),
        (key, "http://seekfolk.example/r9"),
    ]


def test_other_names_and_former_places_are_searched_for(house, town):
    queries = []

    def answer(request):
        query = request.parameters()["q"]
        queries.append(query)
        urls = [f"http://blog.example/{len(queries)}", "http://blog.example/same"]
        return Response(json.dumps({"results": [{"url": url} for url in urls]}).encode(), kind=JSON)

    town.opens("search", answer)
    town.opens("blog", lambda _: html("<p>Juniper Otterwick, 3 Kite Lane</p>"))
    juniper = house.scanned_juniper(
        last_name="Quillfeather Jr.",
        aliases=[{"first_name": "Juniper", "last_name": "Otterwick"}, {"last_name": "Moor"}],
        addresses=[
            {"city": "Oakmere", "state": "CA"},
            {"address1": "3 Kite Lane", "city": "Fogmantle", "state": "CA"},
            {"city": "Mothgate", "state": "CT"},
        ],
    )
    assert queries == [
        '"Juniper Quillfeather" Oakmere',
        '"Juniper Otterwick" Oakmere',
        '"Juniper Quillfeather" Fogmantle',
    ]
    assert links_of(house, juniper) == [f"http://blog.example/{end}" for end in (1, 2, 3, "same")]


def test_only_comparable_listings_are_compared(house, town):
    """Not removed ones, or those of people who are damaged or were not scanned since searches note pages."""
    town.opens("Seekfolk", Folk([Card("r1"), Card("r2")], others={"/r1": lambda _: html(DATA)}))
    town.opens("search", lambda _: Response(b'{"results": []}', kind=JSON))
    early = house.scanned_juniper()
    assert pages_by_way(house) == ([(early["id"], f"http://seekfolk.example/r{n}") for n in (1, 2)], [])
    house.clock.advance(timedelta(hours=1))
    finds(town, "http://seekfolk.example/r1")
    juniper, damaged = house.scanned_juniper(), house.scanned_juniper()
    [removed] = [record["id"] for record in house.records(juniper) if record["reference_id"] == "r2"]

    async def change(work):
        await work.run(update(tables.records).filter_by(id=removed).values(status="removed"))
        await work.run(update(tables.users).filter_by(id=damaged["id"]).values(ciphertext=b"damaged"))

    house.work(change)
    page = (juniper["id"], "http://seekfolk.example/r1")
    assert pages_by_way(house) == ([page], [page])
    house.advance(days=7)
    listings, _ = pages_by_way(house)
    assert {user_id for user_id, _ in listings} == {early["id"], juniper["id"]}


@pytest.mark.parametrize(
    ("module", "limit"),
    [(websearch, "PAGES_TIMEOUT_S"), (scan, "SCAN_TIMEOUT_S")],
    ids=["the time for pages ends", "the time of the scan ends"],
)
def test_pages_are_saved_though_another_is_slow(house, town, monkeypatch, module, limit):
    """Pages on a people-search site wait for its scans; what was read elsewhere counts."""
    monkeypatch.setattr(module, limit, 1)
    slow = GatedAnswer(lambda _: html(DATA))
    town.opens("Seekfolk", Folk([Card("r1")], others={"/r9": slow}))
    town.opens("blog", lambda _: html(DATA))
    finds(town, "http://seekfolk.example/r9", "http://blog.example/")
    juniper = house.scanned_juniper()
    assert slow.reached.is_set()
    slow.go.set()
    assert links_of(house, juniper) == ["http://blog.example/"]
    assert house.statuses(juniper) == {"r1": "discovered"}


def test_few_results_of_one_scanned_site_are_read(house, town):
    pages = [f"/p{number}" for number in range(websearch.SITE_RESULTS_MAX + 3)]
    town.opens("Seekfolk", Folk(others={page: lambda _: html(DATA) for page in pages}))
    finds(town, *(f"http://seekfolk.example{page}" for page in pages))
    links = links_of(house, house.scanned_juniper())
    assert links == [f"http://seekfolk.example{page}" for page in pages[: websearch.SITE_RESULTS_MAX]]


def test_a_page_with_several_urls_is_read_once(house, town):
    blog = town.opens("blog", lambda _: html(DATA))
    town.hosts["www.blog.example"] = blog
    finds(town, "http://blog.example/a", "http://www.blog.example/a/", "http://blog.example/a?utm_source=x")
    assert links_of(house, house.scanned_juniper()) == ["http://blog.example/a"]
    assert [
        request.host for request in town.requests if "blog" in request.host and request.path != "/robots.txt"
    ] == ["blog.example"]


def test_no_page_is_a_link_while_its_site_is_unread(house, town):
    """It would be a link and, once the site is scanned, a record, too."""
    site = town.opens("Seekfolk", Folk([Card("r1")], others={"/r1": lambda _: html(DATA)}))
    site.search = lambda _: html("Prove that you are human", 403)
    town.opens("blog", lambda _: html(DATA))
    finds(town, "http://www.seekfolk.example/r1", "http://blog.example/")
    town.hosts["www.seekfolk.example"] = site
    juniper = house.scanned_juniper()
    assert (links_of(house, juniper), house.records(juniper)) == (["http://blog.example/"], [])
    site.search = None
    house.advance(days=7)
    assert links_of(house, juniper) == ["http://blog.example/"]
    assert [row.searched_at is not None for row in house.rows()] == [True]
