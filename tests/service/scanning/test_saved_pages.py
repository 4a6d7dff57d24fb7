"""Pages that a person saved in a browser: from a listing to its removal, and what is refused."""

from contextlib import suppress
from email.message import EmailMessage

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.small_web import BLOCKED, Card, by_form, definition, nobody, results_page
from support.world_browser import browsing

from exposurekit.sandbox.world.webhook_receiver import PATH, Integrator
from exposurekit.service.accounts import consent
from exposurekit.service.api.server import running
from exposurekit.service.findings.removals import submit_removal
from exposurekit.service.scanning import saved_pages, search_queue
from exposurekit.service.scanning.saved_pages import UnusablePage
from exposurekit.service.webhooks import endpoints

SITE = definition(search={"method": "person"})
HERS, SOMEBODY = Card("r1"), Card("r9", "Somebody Otherwick")
ADDRESS = "http://seekfolk.example/search?first=Juniper&last=Quillfeather"
BOUNDARY = "----MultipartBoundary--a1b2c3----"


def html(page, address=None):
    """A page as a browser saves it; with its address, as Chromium does with a complete page."""
    mark = f"<!-- saved from url=({len(address):04d}){address} -->\n" if address else ""
    body = page if isinstance(page, bytes) else page.body
    if body.rstrip().endswith(b"</html>"):
        return body
    return b"<!DOCTYPE html>\n" + mark.encode() + b"<html><body>" + body + b"</body></html>\n"


def mhtml(page, address=ADDRESS, *, charset="utf-8", encoding="quoted-printable"):
    """A page as Chromium saves it as a single file, with a picture."""
    part = EmailMessage()
    part.set_content(html(page).decode(), "html", charset=charset, cte=encoding)
    part["Content-Location"] = address
    picture = "Content-Type: image/png\r\nContent-Location: http://seekfolk.example/r1.png\r\n\r\nnone\r\n"
    head = (
        "From: <Saved by Blink>\r\n"
        f"Snapshot-Content-Location: {address}\r\n"
        "Subject: Seekfolk\r\nMIME-Version: 1.0\r\n"
        f'Content-Type: multipart/related;\r\n\ttype="text/html";\r\n\tboundary="{BOUNDARY}"\r\n\r\n\r\n'
    )
    parts = [part.as_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"), picture.encode()]
    mark = f"--{BOUNDARY}\r\n".encode()
    return head.encode() + mark + (b"\r\n" + mark).join(parts) + f"\r\n--{BOUNDARY}--\r\n".encode()


FORMATS = pytest.mark.parametrize(
    "saved", [html, lambda page: html(page, ADDRESS), mhtml], ids=["html", "complete", "mhtml"]
)


def scan(house, user, *files, site=SITE):
    pages = [saved_pages.read(site, file) for file in files]
    return house.work(lambda work: saved_pages.scan_saved(work, user["id"], site, pages))


@pytest.fixture
def juniper(house, town):
    """Juniper, of a site whose search only a person can open."""
    house.has(SITE)
    return house.scanned_juniper()


@FORMATS
def test_a_listing_is_discovered_on_a_saved_page(house, town, juniper, saved):
    """Get user shows the record, with an alert, as after a scan."""
    result = scan(house, juniper, saved(results_page(HERS, SOMEBODY)))
    assert (result.listings, result.discovered, result.absences) == (2, 1, 0)
    [record] = house.get(juniper)["user"]["records"]
    assert (record["reference_id"], record["status"]) == ("r1", "discovered")
    assert house.alert_titles(juniper) == ["New record"]
    assert scan(house, juniper, saved(results_page(HERS))).confirmed == 1
    assert house.statuses(juniper) == {"r1": "discovered"}
    assert town.requests == []


@pytest.mark.parametrize("saved", [lambda page: html(page, ADDRESS), mhtml], ids=["complete", "mhtml"])
def test_two_absences_on_different_days_remove_a_record(house, town, juniper, saved):
    """Pending removal -> absent from two saved pages -> removed; two on one day count once."""
    scan(house, juniper, saved(results_page(HERS)))
    [row] = house.rows()
    house.work(lambda work: submit_removal(work, row.id, SITE.site()))
    assert scan(house, juniper, saved(nobody())).absences == 1
    house.advance(hours=9)
    second = scan(house, juniper, saved(nobody()))
    assert (second.missing, second.absences) == (1, 0)
    assert house.statuses(juniper) == {"r1": "pending removal"}
    house.advance(days=3)
    assert scan(house, juniper, saved(results_page(HERS))).confirmed == 1
    assert house.rows()[0].absences == 0
    for removed in (0, 1):
        house.advance(days=1.5)
        assert scan(house, juniper, saved(results_page(SOMEBODY))).removed == removed
    assert house.get(juniper)["user"]["records"][0]["status"] == "removed"
    assert scan(house, juniper, saved(results_page(HERS))).discovered == 1
    titles = ["New record", "Opt-out submitted", "Removal verified", "Listed again"]
    assert house.alert_titles(juniper) == titles
    assert town.requests == []


def test_events_of_a_saved_page_are_delivered(house, juniper):
    integrator = Integrator(endpoints.new_secret())
    with running(integrator.app) as base_url:
        callback = endpoints.Callback(base_url + PATH, integrator.secret)
        house.work(lambda work: endpoints.set_callback(work, "acme", callback))
        scan(house, juniper, mhtml(results_page(HERS)))
        house.advance(hours=1)
        house.work(lambda work: endpoints.set_callback(work, "acme", None))
    assert integrator.items == {"new_alerts": 1, "discovered_records": 1}


def paged(number, *cards, following=None):
    address = ADDRESS + (f"&page={number}" if number > 1 else "")
    return mhtml(results_page(*cards, following=following), address)


def test_absences_count_if_all_pages_of_a_search_are_saved(house, juniper):
    """Unknown is not zero: a page that is missing may have the listing."""
    first, second = paged(1, SOMEBODY, following=f"{ADDRESS}&page=2"), paged(2, SOMEBODY)
    scan(house, juniper, mhtml(results_page(HERS)))
    incomplete = [
        [first],
        [second],
        [first, paged(3, SOMEBODY)],
        [first, first],
        [mhtml(nobody(), f"{ADDRESS}&page=9")],  # beyond the last page
        [html(results_page(Card("r9", locations=("Elsewhere, NV",))))],
    ]
    for pages in incomplete:
        result = scan(house, juniper, *pages)
        assert (result.incomplete, result.absences) == ("pages are missing", 0)
    assert house.rows()[0].absences == 0
    assert scan(house, juniper, second, first, first).absences == 1


def test_a_listing_counts_as_absent_from_its_own_search_only(house, juniper):
    """A page of her alias does not show that the listing under her name is gone."""
    juniper = house.juniper(aliases=[{"first_name": "June", "last_name": "Quill"}])
    scan(house, juniper, mhtml(results_page(HERS)))
    alias = "http://seekfolk.example/search?first=June&last=Quill"
    assert scan(house, juniper, mhtml(nobody(), alias)).absences == 0
    assert scan(house, juniper, mhtml(nobody(), alias), mhtml(nobody())).absences == 1


def test_pages_of_searches_with_names_in_the_path_are_recognized(house, juniper):
    url = "http://seekfolk.example/people/{first_name}-{last_name}/{state}/{city}"
    site = definition(search={"method": "person", "url": url, "fields": {}}, listings={"href": "a@href"})
    address = "http://seekfolk.example/people/juniper-quillfeather/ca/oakmere"
    assert scan(house, juniper, mhtml(results_page(HERS), address), site=site).discovered == 1
    assert scan(house, juniper, mhtml(nobody(), address), site=site).absences == 1
    with pytest.raises(UnusablePage, match="search for this person"):
        scan(house, juniper, mhtml(nobody(), address.replace("oakmere", "fogmantle")), site=site)
    [entry] = house.work(lambda work: search_queue.queue(work, {site.name: site}, limit=5))
    assert entry.address == "http://seekfolk.example/people/Juniper-Quillfeather/CA/Oakmere"
    listed = html(results_page(HERS).body.replace(b"<b>", b"<a href=p/1></a><b>"))
    [listing] = saved_pages.read(site, listed).result.listings
    assert listing.href == "http://seekfolk.example/p/1"


OTHERS = "http://seekfolk.example/search?first=Somebody&last=Otherwick"
REFUSED = {
    "another person": (mhtml(nobody(), OTHERS), "does not show the results of a search for this person"),
    "another person's listings": (html(results_page(SOMEBODY)), "search for this person"),
    "another first name": (
        mhtml(
            html(b"Juniper Quillfeather: " + nobody().body),
            ADDRESS.partition("&")[0].replace("Juniper", "John"),
        ),
        "search for this person",
    ),
    "nobody in particular": (html(nobody()), "search for this person"),
    "bot check": (mhtml(results_page(HERS, beside=BLOCKED)), "the site's bot check"),
    "another site": (
        mhtml(nobody(), ADDRESS.replace("seekfolk", "nosyheron")),
        "of another site than Seekfolk",
    ),
    "another page": (mhtml(html(b"<p>About us</p>")), "neither listings nor the text of search.no_results"),
    "truncated": (html(nobody(), ADDRESS)[:-12], "not a whole page"),
    "truncated MHTML": (mhtml(nobody())[:-90], "incomplete MHTML"),
    "no HTML": (mhtml(nobody()).replace(b"text/html; ", b"text/plain; "), "first part is not HTML"),
    "empty": (b"", "not a whole page"),
    "too large": (b" " * (saved_pages.FILE_BYTES_MAX + 1), "larger than 10 MiB"),
    "too much markup": (mhtml(html(b"<i></i>" * 30_000)), "too large to be read"),
}


@pytest.mark.parametrize(("file", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_page_that_cannot_be_used_changes_nothing(house, juniper, file, reason):
    scan(house, juniper, mhtml(results_page(HERS)))
    before = house.get(juniper), house.rows()
    with pytest.raises(UnusablePage, match=reason) as error:
        scan(house, juniper, mhtml(nobody()), file)
    assert (house.get(juniper), house.rows()) == before
    for value in ("Juniper", "Quillfeather", "Otherwick", "http"):
        assert value not in str(error.value)


def test_nobody_is_scanned_without_consent(house, juniper):
    house.work(lambda work: consent.withdraw(work, juniper["id"], withdrawn_by="the person"))
    with pytest.raises(UnusablePage, match="consent is not recorded"):
        scan(house, juniper, mhtml(results_page(HERS)))
    assert house.records(juniper) == []


def test_a_site_of_any_method_can_be_saved(house, town):
    """Where a site blocks scans for some time, a saved page counts like a scan."""
    site = definition(removal=by_form())
    house.has(site)
    juniper = house.juniper()
    assert scan(house, juniper, mhtml(results_page(HERS)), site=site).discovered == 1


@pytest.mark.parametrize(
    ("charset", "encoding"), [("koi8-r", "base64"), ("utf-8", "8bit"), ("windows-1251", "quoted-printable")]
)
def test_the_part_states_its_charset(charset, encoding):
    saved = mhtml(results_page(Card("r1", "Юна Перова")), charset=charset, encoding=encoding)
    assert [listing.name for listing in saved_pages.read(SITE, saved).result.listings] == ["Юна Перова"]


def test_an_address_is_of_the_web_or_ignored():
    for address in (
        "file:///home/juniper/page.html",
        "cid:frame-1",
        "http://[",
        "http://seekfolk.example:x/",
    ):
        assert saved_pages.read(SITE, mhtml(nobody(), address)).address is None


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_files_are_read_or_refused(data):
    """No input raises anything else."""
    whole = data.draw(st.sampled_from([mhtml(results_page(HERS)), html(results_page(HERS), ADDRESS)]))
    at = data.draw(st.integers(0, len(whole)))
    noise = data.draw(
        st.binary(max_size=60) | st.sampled_from([b'";', b"\r\n\r\n", b"--", BOUNDARY.encode(), b"<"])
    )
    with suppress(UnusablePage):
        saved_pages.read(SITE, whole[:at] + noise + whole[at + data.draw(st.integers(0, 40)) :])


def test_pages_of_the_invented_web_are_read():
    """Every site with a page of results in HTML, by GET and by POST."""
    saved = 0
    with browsing(6) as browser:
        for site in browser.world.definitions.values():
            control = site.controls.listed
            answer = browser.first_page(site, **control.model_dump())
            if (
                site.search.answer == "json"
                or answer.status_code != 200
                or control.first_name not in answer.text
            ):
                continue
            address = site.search.url + (
                "?" + answer.url.query.decode() if site.search.method == "get" else ""
            )
            page = saved_pages.read(site, mhtml(answer.content, address))
            result = saved_pages.site_result(site, control.subject(), [page])
            assert [listing.name for listing in result.listings], site.name
            assert result.inconclusive is None, site.name
            saved += 1
    assert saved >= 8
