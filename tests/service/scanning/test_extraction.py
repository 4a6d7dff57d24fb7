"""A site's page read by its definition: what is told, what is inconclusive, and that nothing a site sends raises."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposurekit.service.scanning.extraction import LISTINGS_MAX, TEXT_MAX, read
from exposurekit.service.sites.loader import parsed

URL = "http://seekfolk.example/search?q=1"
HEAD = """
name: Seekfolk
guide: A free directory.
opt_out_procedure: [Open the form.]
opt_out_url: http://seekfolk.example/opt-out
removal: {method: manual}
"""
HTML = parsed(
    HEAD
    + """
search:
  url: http://seekfolk.example/search
  next: a.next@href
  no_results: [Nobody of that name, 0 hits]
  blocked: [unusual traffic, cf-challenge]
listings:
  item: [li.person, div.card]
  name: [h2, .title]
  reference_id: ["@data-id", a@data-ref]
  href: a@href
  age: .age
  relations: .kin
  locations: [.place, .town]
  emails: .mail
  phone_numbers: .tel
  aliases: .aka
"""
)
JSON = parsed(
    HEAD
    + """
search:
  url: http://seekfolk.example/search
  answer: json
  next: links.next
  no_results: '"total": 0'
  blocked: rate limit
listings:
  item: [people, data.people]
  name: full_name || name
  reference_id: id
  href: url
  age: age
  relations: kin[].name
  locations: places
"""
)
ONE = "<li class=person data-id=r1><h2>Juniper Quillfeather</h2>{}</li>"
FULL = ONE.format(
    "<b class=age>Age 41</b><a href='/p/r1?x=1&y=2#top'>more</a><i class=kin>Wren Quillfeather</i><i class=kin>Orson</i>"
    "<p class=town>Oakmere, CA</p><p class=mail>june@example.com</p><p class=tel>(609) 555-0123</p>"
)


def html(text, status=200, url=URL):
    return read(HTML, status=status, url=url, text=text)


def of_json(value):
    return read(JSON, status=200, url=URL, text=value if isinstance(value, str) else json.dumps(value))


def test_a_listing_is_read_whole():
    reading = html(f"<ul>{FULL}</ul><a class=next href='?q=1&page=2'>Next</a>")
    (listing,) = reading.listings
    assert (listing.name, listing.reference_id, listing.age) == ("Juniper Quillfeather", "r1", 41)
    assert listing.href == "http://seekfolk.example/p/r1?x=1&y=2"
    assert listing.relations == ("Wren Quillfeather", "Orson")
    assert listing.locations == ("Oakmere, CA",)
    assert (listing.emails, listing.phone_numbers) == (("june@example.com",), ("(609) 555-0123",))
    assert reading.next == "http://seekfolk.example/search?q=1&page=2"
    assert (reading.outcome, reading.reason, reading.unreadable, reading.has_no_results_mark) == (
        "listings",
        None,
        0,
        False,
    )


def test_another_layout_is_read_by_its_own_selectors():
    page = "<div class=card><p class=title>Wren Otterwick</p><a data-ref=r2>more</a><p class=place>Quillmarsh NJ</p></div>"
    (listing,) = html(page).listings
    assert (listing.name, listing.reference_id, listing.locations) == (
        "Wren Otterwick",
        "r2",
        ("Quillmarsh NJ",),
    )


def test_the_first_selector_that_finds_something_counts():
    (listing,) = html(ONE.format("<i class=town>Oakmere</i><i class=place> </i>")).listings
    assert listing.locations == ("Oakmere",)
    (listing,) = html(ONE.format("<i class=town>Oakmere</i><i class=place>Quillmarsh</i>")).listings
    assert listing.locations == ("Quillmarsh",)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, "not found"), (403, "blocked"), (429, "blocked"), (503, "status 503"), (204, "status 204")],
)
@pytest.mark.parametrize("text", ["", FULL, "Nobody of that name"])
def test_any_other_status_than_200_is_inconclusive(status, reason, text):
    reading = html(text, status=status)
    assert (reading.outcome, reading.reason, reading.listings) == ("inconclusive", reason, ())


@pytest.mark.parametrize("status", [200, 404, 503])
@pytest.mark.parametrize(
    "mark", ["UNUSUAL\n traffic", "<b>unusual</b> traffic", "<div id='cf-challenge'></div>"]
)
def test_a_blocked_mark_wins_over_everything(status, mark):
    reading = html(f"{FULL} Nobody of that name {mark}", status=status)
    assert (reading.outcome, reading.reason) == ("inconclusive", "blocked")


def test_a_no_results_mark_alone_says_that_nobody_is_listed():
    assert html("<p>Sorry: nobody of\n <b>THAT</b> name!").outcome == "no results"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<p>Welcome!",
        "<script>var none = 'Nobody of that name'</script>",
        "<p hidden>Nobody of that name</p>",
        "<!-- 0 hits -->",
        "<p class='0 hits'>",
        '{"total": 0}',
    ],
)
def test_a_page_without_listing_or_marker_has_changed(text):
    reading = html(text)
    assert (reading.outcome, reading.reason) == ("inconclusive", "changed layout")


def test_listings_beside_a_no_results_mark_are_told():
    """Who is shown is listed, whatever stands above it: passing over them would clear somebody."""
    reading = html(f"Nobody of that name. People you may mean: {FULL}")
    assert (reading.outcome, len(reading.listings), reading.has_no_results_mark) == ("listings", 1, True)


def test_a_listing_that_cannot_be_read_is_counted():
    reading = html(f"{FULL}<li class=person data-id=r2><h2> </h2></li><li class=person><h2>Wren</h2></li>")
    assert (len(reading.listings), reading.unreadable) == (1, 2)


def test_a_page_of_unreadable_listings_has_changed():
    reading = html("<li class=person><h2>Wren</h2></li> Nobody of that name")
    assert (reading.outcome, reading.reason, reading.unreadable) == ("inconclusive", "changed layout", 1)


def test_an_overlong_reference_is_not_truncated():
    long = FULL.replace("r1", "r" * (TEXT_MAX + 1), 1)
    assert html(long + FULL).unreadable == 1


def test_more_listings_than_are_read_are_counted_as_unreadable():
    reading = html(FULL * (LISTINGS_MAX + 3))
    assert (len(reading.listings), reading.unreadable) == (LISTINGS_MAX, 3)
    reading = of_json({"people": [{"id": 1, "name": "Wren"}] * (LISTINGS_MAX + 3)})
    assert (len(reading.listings), reading.unreadable) == (LISTINGS_MAX, 3)


@pytest.mark.parametrize(
    ("age_text", "age"),
    [
        ("41", 41),
        ("Age: 41 (born 1984)", 41),
        ("born 1984, 41 years", 41),
        ("0", 0),
        ("125", 125),
        ("126", None),
        ("999 or 40s", 40),
        ("05/1984", None),
        ("1984-05-01", None),
        ("1,984", None),
        ("4.5", None),
        ("unknown", None),
        ("٤١", None),
        ("9" * 5_000, None),
    ],
)
def test_an_age_is_the_first_plausible_whole_number(age_text, age):
    (listing,) = html(ONE.format(f"<b class=age>{age_text}</b>")).listings
    assert listing.age == age


@pytest.mark.parametrize(
    "target",
    [
        "http://elsewhere.example/p",
        "//elsewhere.example/p",
        "javascript:x()",
        "data:text/html,x",
        "mailto:june@example.com",
        "ftp://seekfolk.example/p",
        "http://me:pw@seekfolk.example/p",
        "http://seekfolk.example:8080/p",
        "http://[x/",
        "http://seekfolk.example:port/",
        "http://seekfolk.example.elsewhere.example/",
        "/a b",
        "/" + "p" * 3_000,
        "",
    ],
)
def test_an_address_that_leads_elsewhere_is_dropped(target):
    listing = ONE.format(f"<a href='{target}'>x</a>")
    reading = html(f"{listing}<a class=next href='{target}'>x</a>")
    assert (reading.listings[0].href, reading.next) == (None, None)


@pytest.mark.parametrize(
    ("target", "whole"),
    [
        ("/p/1", "http://seekfolk.example/p/1"),
        ("p/1", "http://seekfolk.example/p/1"),
        ("https://www.seekfolk.example/p", "https://www.seekfolk.example/p"),
        ("http://SEEKFOLK.example:80/p", "http://SEEKFOLK.example:80/p"),
    ],
)
def test_an_address_of_the_site_is_made_whole(target, whole):
    (listing,) = html(ONE.format(f"<a href='{target}'>x</a>")).listings
    assert listing.href == whole


def test_a_page_that_is_its_own_next_has_none():
    assert html(f"{FULL}<a class=next href='{URL}#more'>x</a>").next is None
    assert html(f"{FULL}<a class=next href='#'>x</a>").next is None


def test_texts_are_one_line_without_control_characters_and_bounded():
    name = "Juni\x07per\u202e \n Quill\u00adfeather&nbsp;" + "x" * 1_000
    (listing,) = html(ONE.replace("Juniper Quillfeather", name).format("")).listings
    assert listing.name.startswith("Juniper Quillfeather xxx")
    assert len(listing.name) == TEXT_MAX


def test_a_script_in_a_listing_is_no_text():
    (listing,) = html(ONE.format("").replace("Juniper", "Juniper<script>x()</script>")).listings
    assert listing.name == "Juniper Quillfeather"


def test_json_is_read_by_its_expressions():
    people = [
        {
            "id": 560,
            "name": "Juniper Quillfeather",
            "age": "41",
            "url": "/p/560",
            "kin": [{"name": "Wren"}, {}],
        },
        {
            "id": "x1",
            "full_name": "Wren Quillfeather",
            "age": 7,
            "places": ["Oakmere, CA", None, 5, {"a": 1}],
        },
    ]
    reading = of_json({"data": {"people": people}, "links": {"next": "/search?page=2"}})
    one, other = reading.listings
    assert (one.reference_id, one.age, one.href, one.relations) == (
        "560",
        41,
        "http://seekfolk.example/p/560",
        ("Wren",),
    )
    assert (other.name, other.age, other.locations) == ("Wren Quillfeather", 7, ("Oakmere, CA", "5"))
    assert reading.next == "http://seekfolk.example/search?page=2"


def test_json_marks_are_looked_for_however_they_are_spaced():
    assert of_json('{"people":[],"total":0}').outcome == "no results"
    assert of_json('{"people": [],\n "total"  : 0}').outcome == "no results"
    assert of_json('{"error": "Rate Limit"}').reason == "blocked"


@pytest.mark.parametrize(
    "text",
    [
        '<p>"total": 0</p>',
        '{"total": 0',
        '{"a": [' * 50_000,
        "[" * 900 + "]" * 900,
        '{"people": 5}',
        '{"people": {"name": "Wren"}}',
        '{"people": ["Wren", 5, null, [], {"id": true, "name": 1.5}]}',
        "9" * 10_000,
        "NaN",
        "",
    ],
)
def test_json_of_another_shape_has_changed(text):
    reading = of_json(text)
    assert (reading.outcome, reading.reason) == ("inconclusive", "changed layout")


@pytest.mark.parametrize("text", ["<script>" + "</script " * 40_000, "<title>" + "</title " * 40_000])
def test_a_page_that_is_closed_over_and_over_has_changed(text):
    reading = html(text)
    assert (reading.outcome, reading.reason) == ("inconclusive", "changed layout")


@pytest.mark.parametrize(
    "text",
    [
        "x" * 2_000_001,
        "<div>" * 100_000,
        "<p>" + "".join(f"<b id={number}>" for number in range(400)) + "</p>" + "<p>x</p>" * 3_000,
        "<li class=person data-id=r><h2>" * 600 + "x" * 100_000,
    ],
)
def test_a_page_that_takes_too_much_to_read_is_inconclusive(text):
    reading = html(text)
    assert (reading.outcome, reading.reason) == ("inconclusive", "too much")


PIECES = """
<li class=person data-id=|<h2>|<|>|</li>|"|'|&#0;|&bogus;|<!--|<script>|<title>|<template>|<svg>|<table>|<p class=age>
|<a href=http://[|Nobody of that name|unusual traffic|Wren|41|\0|\ud800
""".strip().split("|")
MARKUP = st.lists(st.sampled_from(PIECES) | st.text(max_size=5)).map("".join)


@given(MARKUP, st.sampled_from([200, 404]))
def test_no_markup_raises_and_nothing_is_cleared_without_a_mark(text, status):
    reading = html(text, status=status)
    assert (reading.outcome == "inconclusive") == (reading.reason is not None)
    assert bool(reading.listings) == (reading.outcome == "listings")
    if reading.outcome == "no results":
        assert status == 200
        assert "0 hits" in text or "Nobody of that name" in text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["people", "data", "name", "id", "age", "kin", "url", "links", "next"]), inner
        )
    ),
    max_leaves=20,
)


@given(VALUES)
def test_no_json_raises(value):
    reading = of_json(value)
    assert (reading.outcome == "inconclusive") == (reading.reason is not None)
    assert all(listing.name and listing.reference_id for listing in reading.listings)
