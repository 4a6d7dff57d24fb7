"""Pages of the invented web, saved by a real Chromium as a single file: what a person hands to `users scan`."""

import pytest
from support import jupyter as kit
from support import world_browser

from exposurekit.service.accounts.subject import Subject
from exposurekit.service.scanning import extraction, saved_pages

pytestmark = pytest.mark.long
BLOCKED = "Gatekeep Records"


@pytest.fixture(scope="module")
def web():
    with world_browser.browsing(40) as browser:
        yield browser


@pytest.fixture
def tab(web):
    """A tab whose requests the invented web answers."""
    kit.needs_browser()

    def answer(route):
        response = web.ask(route.request.url)
        route.fulfill(
            status=response.status_code,
            body=response.content,
            content_type=response.headers.get("content-type", ""),
        )

    with kit.chromium() as browser:
        context = browser.new_context()
        context.route("**/*", answer)
        try:
            yield context.new_page()
        finally:
            context.close()


def saved(tab, address):
    """The page at an address as Chromium saves it."""
    tab.goto(address)
    session = tab.context.new_cdp_session(tab)
    return session.send("Page.captureSnapshot", {"format": "mhtml"})["data"].encode()


def subject(person):
    home = person.addresses[0]
    return Subject.from_city(person.first_name, person.last_name, city=home.city, state=home.state)


def searches(web, tab):
    """A site, a person, the page that they would save, and the same page over HTTP."""
    for site in web.world.definitions.values():
        if site.search.method == "get" and site.search.answer == "html":
            for person in web.world.people[:5]:
                values = {**subject(person).values()}
                answer = web.first_page(site, **values)
                address = f"{site.search.url}?{answer.request.url.query.decode()}"
                yield site, person, saved(tab, address), answer


def test_chromium_saves_what_a_scan_reads(web, tab):
    compared = set()
    for site, person, file, answer in searches(web, tab):
        live = extraction.read(site, status=answer.status_code, url=site.search.url, text=answer.text)
        if live.outcome == "inconclusive":
            with pytest.raises(saved_pages.UnusablePage):
                saved_pages.read(site, file)
            continue
        page = saved_pages.read(site, file)
        assert (page.result.outcome, page.result.listings) == (live.outcome, live.listings), site.name
        result = saved_pages.site_result(site, subject(person), [page])
        assert (result.inconclusive is None) == (live.next is None), site.name
        with pytest.raises(saved_pages.UnusablePage, match="for this person"):
            saved_pages.site_result(site, Subject.from_city("Zzyzva", "Qworple"), [page])
        compared.add((site.name, live.outcome))
    assert len(compared) >= 10
    assert BLOCKED not in {name for name, _ in compared}
