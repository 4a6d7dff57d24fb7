"""Extraction of listings by a site's definition: results, inconclusive pages, and hostile input."""

import json

import pytest
from hypothesis import given, settings
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


def test_every_field_of_a_listing_is_read():
    reading = html(f"<ul>{FULL}</ul><a class=next href='?q=1&page=2'>Next</a>")
    (listing,) = reading.listings
    assert (listing.name, listing.reference_id, listing.age) == ("Juniper Quillfeather", "r1", 41)
    assert listing.href == "http://seekfolk.example/p/r1?x=1&y=2"
    assert listing.relations == ("Wren Quillfeather", "Orson")
    assert listing.locations == ("Oakmere, CA",)
    assert (listing.emails, listing.phone_numbers) == (("june@example.com",), ("(609) 555-0123",))
    assert reading.next == "http://seekfolk.example/search?q=1&page=2"
    assert (reading.outcome, reading.reason, reading.unreadable) == ("listings", None, 0)
    assert not reading.has_no_results_mark


def test_each_layout_is_read_by_its_own_selectors():
    page = "<div class=card><p class=title>Wren Otterwick</p><a data-ref=r2>more</a><p class=place>Quillmarsh NJ</p></div>"
    (listing,) = html(page).listings
    assert (listing.name, listing.reference_id) == ("Wren Otterwick", "r2")
    assert listing.locations == ("Quillmarsh NJ",)


def test_the_first_selector_that_matches_text_counts():
    (listing,) = html(ONE.format("<i class=town>Oakmere</i><i class=place> </i>")).listings
    assert listing.locations == ("Oakmere",)
    (listing,) = html(ONE.format("<i class=town>Oakmere</i><i class=place>Quillmarsh</i>")).listings
    assert listing.locations == ("Quillmarsh",)


@pytest.mark.parametrize("text", ["", FULL, "Nobody of that name"])
def test_any_status_but_200_is_inconclusive(text):
    reasons = {404: "not found", 403: "blocked", 429: "blocked", 503: "status 503", 204: "status 204"}
    for status, reason in reasons.items():
        reading = html(text, status=status)
        assert (reading.outcome, reading.reason, reading.listings) == ("inconclusive", reason, ())


@pytest.mark.parametrize(
    "mark", ["UNUSUAL\n traffic", "<b>unusual</b> traffic", "<div id='cf-challenge'></div>"]
)
def test_a_blocked_mark_takes_precedence(mark):
    readings = [html(f"{FULL} Nobody of that name {mark}", status=status) for status in (200, 404, 503)]
    assert {(reading.outcome, reading.reason) for reading in readings} == {("inconclusive", "blocked")}


def test_a_no_results_mark_alone_means_no_results():
    assert html("<p>Sorry: nobody of\n <b>THAT</b> name!").outcome == "no results"


def test_listings_beside_a_no_results_mark_count():
    """Ignoring them would clear someone."""
    reading = html(f"Nobody of that name. People you may mean: {FULL}")
    assert (reading.outcome, len(reading.listings), reading.has_no_results_mark) == ("listings", 1, True)


@pytest.mark.parametrize(
    ("read_page", "content", "listings", "unreadable"),
    [
        (html, f"{FULL}<li class=person data-id=r2><h2> </h2></li><li class=person><h2>Wren</h2></li>", 1, 2),
        (html, "<li class=person><h2>Wren</h2></li> Nobody of that name", 0, 1),
        (html, FULL.replace("r1", "r" * (TEXT_MAX + 1), 1) + FULL, 1, 1),  # a reference is not truncated
        (html, FULL * (LISTINGS_MAX + 3), LISTINGS_MAX, 3),
        (of_json, {"people": [{"id": 1, "name": "Wren"}] * (LISTINGS_MAX + 3)}, LISTINGS_MAX, 3),
    ],
    ids=["no name or reference", "none readable", "long reference", "too many", "too many in JSON"],
)
def test_unreadable_listings_are_counted(read_page, content, listings, unreadable):
    reading = read_page(content)
    assert (len(reading.listings), reading.unreadable) == (listings, unreadable)
    assert reading.reason == (None if listings else "changed layout")


@pytest.mark.parametrize(
    ("age_text", "age"),
    [
        *(("41", 41), ("Age: 41 (born 1984)", 41), ("born 1984, 41 years", 41)),
        *(("0", 0), ("125", 125), ("126", None), ("999 or 40", 40)),
        *(
            ("Born Feb 29, 1980 (46)", 46),
            ("born 29th of May", None),
            *(
                ("Age 40s", None),
                ("in her 50\u2019s", None),
                ("65+", None),
                ("over 65", None),
                ("65 or older", None),
            ),
            *(("45-49", None), ("Age: 45 \u2013 49", None), ("Ages 45 to 49", None), ("40s (age 46)", 46)),
            *(("Age 46 - 2 addresses", 46), ("46 - 12 Acorn St", 46), ("46+ years", None)),
            *(("younger than 40", None), ("Born 1980 - 46 years old", 46)),
            ("Juniper 41", 41),
            ("2 addresses, AGE: 46", 46),
        ),
        *(("Lived here 12 years, age 46", 46), ("3 phones, 46 years", 46), ("age 46 (3 addresses)", 46)),
        *(("46 (3 addresses)", 46), ("February 29", None), ("29. Feb. 1980", None), ("Mar 3: 46", 46)),
        *((text, None) for text in ("05/1984", "1984-05-01", "1,984", "4.5", "unknown", "٤١", "9" * 5_000)),
    ],
)
def test_an_age_is_called_one_or_the_first_plausible_number(age_text, age):
    (listing,) = html(ONE.format(f"<b class=age>{age_text}</b>")).listings
    assert listing.age == age


@pytest.mark.parametrize(
    "target",
    [
        *(
            "http://elsewhere.example/p",
            "//elsewhere.example/p",
            "http://seekfolk.example.elsewhere.example/",
        ),
        *("javascript:x()", "data:text/html,x", "mailto:june@example.com", "ftp://seekfolk.example/p"),
        *(
            "http://me:pw@seekfolk.example/p",
            "http://seekfolk.example:8080/p",
            "http://seekfolk.example:port/",
        ),
        *("http://[x/", "/a b", "/" + "p" * 3_000, ""),
    ],
)
def test_a_link_to_another_site_is_dropped(target):
    listing = ONE.format(f"<a href='{target}'>x</a>")
    reading = html(f"{listing}<a class=next href='{target}'>x</a>")
    assert (reading.listings[0].href, reading.next) == (None, None)


@pytest.mark.parametrize(
    "target", ["/p/1", "p/1", "https://www.seekfolk.example/p", "http://SEEKFOLK.example:80/p"]
)
def test_a_link_within_the_site_becomes_absolute(target):
    (listing,) = html(ONE.format(f"<a href='{target}'>x</a>")).listings
    assert listing.href == (target if ":" in target else "http://seekfolk.example/p/1")


def test_a_link_to_the_same_page_is_no_next_page():
    assert html(f"{FULL}<a class=next href='{URL}#more'>x</a>").next is None
    assert html(f"{FULL}<a class=next href='#'>x</a>").next is None


def test_a_name_is_one_line_of_limited_length():
    name = "Juni\x07per<script>x()</script>\u202e \n Quill\u00adfeather&nbsp;" + "x" * 1_000
    (listing,) = html(ONE.replace("Juniper Quillfeather", name).format("")).listings
    assert listing.name.startswith("Juniper Quillfeather xxx")
    assert len(listing.name) == TEXT_MAX


def test_json_is_read_by_its_expressions():
    people = [
        {"id": 560, "name": "Juniper", "age": "41", "url": "/p/560", "kin": [{"name": "Wren"}, {}]},
        {"id": "x1", "full_name": "Wren", "age": 7, "places": ["Oakmere, CA", None, 5, {"a": 1}]},
    ]
    reading = of_json({"data": {"people": people}, "links": {"next": "/search?page=2"}})
    one, other = reading.listings
    assert (one.reference_id, one.age, one.relations) == ("560", 41, ("Wren",))
    assert one.href == "http://seekfolk.example/p/560"
    assert (other.name, other.age, other.locations) == ("Wren", 7, ("Oakmere, CA", "5"))
    assert reading.next == "http://seekfolk.example/search?page=2"


def test_marks_in_json_match_with_any_spacing():
    assert of_json('{"people":[],"total":0}').outcome == "no results"
    assert of_json('{"people": [],\n "total"  : 0}').outcome == "no results"
    assert of_json('{"error": "Rate Limit"}').reason == "blocked"


def test_a_listings_text_is_what_can_be_seen_of_it():
    """Its values may be hidden."""
    other = "<div hidden><li class=person data-id=r2><h2>Wren Quillfeather</h2></div>"
    one, hidden = html(
        ONE.format("<b hidden class=age>41</b> <i style='display:none'>No</i>") + other
    ).listings
    assert (one.excerpt.text, one.age) == ("Juniper Quillfeather", 41)
    assert (hidden.excerpt.text, hidden.name) == ("", "Wren Quillfeather")


CHANGED_PAGES = [
    *("", "<p>Welcome!", "<!-- 0 hits -->", "<p class='0 hits'>", '{"total": 0}'),
    "<script>var none = 'Nobody of that name'</script>",
    "<p hidden>Nobody of that name</p>",
]
CHANGED_JSON = [
    *('<p>"total": 0</p>', '{"total": 0', '{"people": 5}', '{"people": {"name": "Wren"}}', "NaN", ""),
    *('{"a": [' * 50_000, "[" * 900 + "]" * 900, "9" * 10_000),
    '{"people": ["Wren", 5, null, [], {"id": true, "name": 1.5}]}',
]


@pytest.mark.parametrize(
    ("function", "text"),
    [*((html, text) for text in CHANGED_PAGES), *((of_json, text) for text in CHANGED_JSON)],
)
def test_a_page_without_listing_or_mark_has_changed_its_layout(function, text):
    reading = function(text)
    assert (reading.outcome, reading.reason) == ("inconclusive", "changed layout")


@pytest.mark.parametrize(
    "text", ["<div>" * 100_000, "<li class=person data-id=r><h2>" * 600 + "x" * 100_000], ids=len
)
def test_a_page_that_is_too_large_or_nested_is_inconclusive(text):
    reading = html(text)
    assert (reading.outcome, reading.reason) == ("inconclusive", "too much")


PIECES = """
<li class=person data-id=|<h2>|<|>|</li>|"|'|&#0;|&bogus;|<!--|<script>|<title>|<template>|<svg>|<table>|<p class=age>
|<a href=http://[|Nobody of that name|unusual traffic|Wren|41|\0|\ud800
""".strip().split("|")
MARKUP = st.lists(st.sampled_from(PIECES) | st.text(max_size=5)).map("".join)


@settings(max_examples=60)
@given(MARKUP, st.sampled_from([200, 404]))
def test_any_markup_is_read_and_no_results_require_a_mark(text, status):
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


@settings(max_examples=60)
@given(VALUES)
def test_any_json_is_read(value):
    reading = of_json(value)
    assert (reading.outcome == "inconclusive") == (reading.reason is not None)
    assert all(listing.name and listing.reference_id for listing in reading.listings)
