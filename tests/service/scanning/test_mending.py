"""New selectors from saved pages: what stays, what changes, and what is refused because the pages leave it open."""

from datetime import date

import pytest

from exposurekit.errors import ConfigurationError
from exposurekit.service.accounts.subject import Name
from exposurekit.service.scanning import mending
from exposurekit.service.scanning.field_selectors import Example, personal_words
from exposurekit.service.scanning.listed_person import parse_people
from exposurekit.service.scanning.mending import SavedFiles
from exposurekit.service.scanning.saved_pages import UnusablePage
from exposurekit.service.sites import loader

DAY = date(2026, 11, 1)
DEFINITION = """\
name: Seekfolk
guide: A free directory.
opt_out_procedure: [Open the form.]
opt_out_url: https://seekfolk.example/opt-out
search:
  url: https://seekfolk.example/search
  fields: {name: "{first_name} {last_name}"}
  no_results: Nobody of that name   # as in May
listings:
  item: li.person
  name: h2   # with the middle name
  reference_id: "@data-reference"
  href: a@href
  age: .age
  locations: [.town, .city]
controls: {listed: {first_name: Juniper, last_name: Quillfeather, city: Oakmere, state: CA}}
removal: {method: manual}
"""
PERSON = """
first_name: Juniper
last_name: Quillfeather
city: Oakmere
state: CA
age: 43
locations: ["Oakmere, CA", "Larkspur, NV"]
reference_id: r1
"""
RELATED = "<section><h3>People also searched for</h3><ul>{}</ul></section>"


def card(reference, name="Juniper Quillfeather", age=43, towns=("Oakmere, CA", "Larkspur, NV")):
    places = "".join(f'<span class="place">{town}</span> ' for town in towns)
    return (
        f'<li class="entry" data-reference="{reference}"><h2><a href="/p/{reference}">{name}</a></h2>'
        f'<p class="years">Age {age}</p><div>{places}</div></li>'
    )


OTHER = card("r2", "Juniper B. Quillfeather", 71, ("Elsewhere, OH",))


def page(*parts):
    return f"<!DOCTYPE html><html><body><p>Seekfolk</p>{''.join(parts)}</body></html>".encode()


def results(*cards, more=""):
    return page(f'<ul class="hits">{"".join(cards)}</ul>', more)


def saved_from(address, content):
    return content.replace(b"<html>", f"<!-- saved from url=({len(address):04d}){address} --><html>".encode())


NOBODY = page("<p>Nobody of that name.</p>")


def propose(*listed, absent=NOBODY, person=PERSON, text=DEFINITION):
    people = parse_people(person, "listed.yaml") if person else ()
    return mending.propose(text, "seekfolk.yaml", SavedFiles(listed, (absent,)), people, on=DAY)


def listings(proposal):
    return loader.parsed(proposal.text).listings


def test_only_the_selectors_that_fail_change():
    proposal = propose(results(card("r1"), OTHER))
    assert proposal.problems == ()
    assert proposal.changed == ("listings.item", "listings.age", "listings.locations")
    changed = {
        "  item: li.person": "  item: .entry",
        "  age: .age": "  age: .years",
        "  locations: [.town, .city]": "  locations: .place",
    }
    assert proposal.text.splitlines() == [changed.get(line, line) for line in DEFINITION.splitlines()]


def test_a_definition_that_works_stays_as_it_is():
    text = DEFINITION.replace("li.person", ".entry").replace(".age", ".years").replace(".town", ".place")
    proposal = propose(results(card("r1"), OTHER), text=text)
    assert (proposal.text, proposal.changed, proposal.failures, proposal.problems) == (text, (), (), ())


@pytest.mark.parametrize(
    ("listed", "failure"),
    [
        (results(card("r1"), OTHER, more="<p>Nobody of that name in other states</p>"), "has no listing"),
        (results(OTHER.replace("entry", "person")), "no listing has the values"),
    ],
)
def test_a_listed_person_who_is_not_extracted_is_a_failure(listed, failure):
    """Also where the page says that nobody is listed elsewhere: the definition would verify false removals."""
    assert any(failure in one for one in propose(listed).failures)


@pytest.mark.parametrize("title", ["h3", "b"])
def test_people_in_another_block_are_no_listings(title):
    """Also where the present selectors find the listed person: the others would be listings, too."""
    text = DEFINITION.replace("li.person", ".entry").replace(".age", ".years").replace(".town", ".place")
    related = RELATED.format(card("r8", "Wren Otherwick"), card("r9", "Somebody Otherwise"))
    proposal = propose(results(card("r1"), OTHER, more=related.replace("h3", title)), text=text)
    assert listings(proposal).item == (".hits > .entry",)


def test_advertisements_between_listings_are_no_listings():
    ad = '<li class="entry promo"><a href="https://ads.example">Report about Juniper Quillfeather</a></li>'
    proposal = propose(results(card("r1"), ad, OTHER))
    [item] = listings(proposal).item
    assert item in {"li[data-reference]", ".entry[data-reference]"}


def test_generated_names_are_not_used():
    markup = results(card("r1"), OTHER).decode().replace("entry", "css-1x2y3z").replace("years", "a9__3kZx1")
    proposal = propose(markup.encode())
    assert listings(proposal).item == ("li[data-reference]",)
    assert listings(proposal).age == ('p:lexbor-contains("Age")',)


def test_a_new_text_for_nobody_has_no_name():
    absent = page(
        "<p>Help: nobody is perfect, 24 hours a day</p><h1>We could not find Braithe Quonsettle.</h1>"
    )
    proposal = propose(results(card("r1"), OTHER), absent=absent)
    assert loader.parsed(proposal.text).search.no_results == ("We could not find",)


def test_a_link_to_the_next_page_is_extracted():
    following = '<a href="http://[">More</a> <a class="after" href="?page=2">Next</a>'
    proposal = propose(results(card("r1"), OTHER, more=following))
    assert loader.parsed(proposal.text).search.next == (".after@href",)


ADDRESS = "https://seekfolk.example/people/juniper-quillfeather/"


@pytest.mark.parametrize(
    ("address", "following"), [(ADDRESS, "?page=2"), (ADDRESS, "2"), ("", "/people/juniper-quillfeather/2")]
)
def test_links_are_relative_to_the_page(address, following):
    """A search with names in its path has no address of its own."""
    search = "https://seekfolk.example/people/{first_name}-{last_name}/"
    listed = results(card("r1"), OTHER, more=f'<a class="after" href="{following}">Next</a>').replace(
        b'"/p/', b'"p/'
    )
    if address:
        listed = saved_from(address, listed)
    person = PERSON + "href: p/r1"
    proposal = propose(
        listed, person=person, text=DEFINITION.replace("https://seekfolk.example/search", search)
    )
    assert proposal.problems == ()
    assert loader.parsed(proposal.text).search.next == (".after@href",)


def test_an_address_with_hundreds_of_parameters_is_read():
    address = f"https://seekfolk.example/search?{'&'.join(f'p{number}=1' for number in range(101))}"
    assert propose(
        results(card("r1"), OTHER), absent=saved_from(address, page("<h1>We found nobody</h1>"))
    ).text


SECOND = '<div class="premium"><b>Juniper Quillfeather</b> <i>Report</i></div>'
NEXT = DEFINITION.replace("  no_results", "  next: a.next@href\n  no_results")


@pytest.mark.parametrize(
    ("files", "options", "problem"),
    [
        pytest.param([results(card("r1"))], {"person": None}, "listings.item no stable selector", id="one listing"),
        pytest.param([results(card("r1"), OTHER)], {"person": None}, "listings.age", id="no age given"),
        pytest.param([results(OTHER)], {}, "listings.age has a value that is not on the pages", id="other person"),
        pytest.param([NOBODY], {}, "page 1 lists none of the people given", id="nobody"),
        pytest.param([results(card("r1"), OTHER), NOBODY], {}, "page 2 lists none of the people given", id="second page"),
        pytest.param([results(card("r1"), OTHER, SECOND)], {}, "also listed in another layout", id="second layout"),
        pytest.param(
            [results(card("r1"), OTHER).replace(b"data-reference", b"data-id")],
            {"person": PERSON.replace("reference_id: r1", "")},
            "listings.reference_id extracts nothing",
            id="unknown reference",
        ),
        pytest.param(
            [results(card("r1", towns=("Oakmere, CA",)), OTHER)],
            {"person": PERSON.replace(', "Larkspur, NV"', "")},
            "listings.locations cannot be told from one value",
            id="one value",
        ),
        pytest.param(
            [results(card("r1"), OTHER)], {"absent": page("<p>Welcome.</p>")}, "search.no_results", id="no mark"
        ),
        pytest.param(
            [results(card("r1"), OTHER)], {"absent": results(OTHER)}, "no stable selector", id="somebody"
        ),
        pytest.param([results(card("r1"), OTHER)], {"text": NEXT}, "or delete the key", id="no next page"),
    ],
)  # fmt: skip
def test_what_the_pages_leave_open_is_refused(files, options, problem):
    """No guess: a wrong selector would hide a listing, or report somebody else's."""
    proposal = propose(*files, **options)
    assert proposal.text is None
    assert problem in " ".join(proposal.problems)


def test_swapped_pages_are_named():
    text = DEFINITION.replace("li.person", ".entry").replace(".age", ".years").replace(".town", ".place")
    proposal = propose(NOBODY, absent=results(card("r1"), OTHER), text=text)
    assert "the pages of --listed and --absent may be swapped" in proposal.failures
    assert "the pages of --listed and --absent may be swapped" not in propose(NOBODY, text=text).failures


def test_a_control_that_says_too_little_asks_for_a_description():
    text = DEFINITION.replace(", city: Oakmere, state: CA}}", "}}")
    proposal = propose(results(card("r1"), OTHER), person=None, text=text)
    assert proposal.problems[-1].endswith("describe what it shows with --person FILE")


TOP = (
    '<section class="top"><h4 class="who">Juniper Quillfeather</h4><b class="years">Age 71</b>'
    '<p><i class="place">Oakmere, CA</i> <i class="place">Larkspur, NV</i></p><a data-reference="r2" href="/p/r2">All</a></section>'
)
BOTH = PERSON.replace("\n", "\n  ").replace("  first", "- first") + PERSON.replace("\n", "\n  ").replace(
    "  first", "- first"
).replace("43", "71").replace("r1", "r2")


@pytest.mark.parametrize("wrapped", ["{}", "<div>{}</div>"])
def test_a_single_listing_next_to_another_layout_is_one(wrapped):
    """What is beside a listing of the given people is a listing; what is around one may be a list of them."""
    listed = results(wrapped.format(card("r1")), wrapped.format(TOP))
    text = DEFINITION.replace('"@data-reference"', '["@data-reference", "a@data-reference"]')
    proposal = propose(listed, person=BOTH, text=text)
    assert proposal.problems == ()
    assert listings(proposal).item == (".entry, .top",)
    alone = propose(results(wrapped.format(TOP)), person=PERSON.replace("43", "71").replace("r1", "r2"))
    assert "listings.item no stable selector" in " ".join(alone.problems)


def test_a_list_that_one_layout_does_not_show_is_refused():
    """Nobody knows whether the old selector still finds it there."""
    text = DEFINITION.replace('"@data-reference"', '["@data-reference", "a@data-reference"]')
    text = text.replace("  locations", "  aliases: .aka\n  locations")
    first = card("r1").replace(
        "</div>", '</div><i class="aka">Junie Quillfeather</i><i class="aka">June Quill</i>'
    )
    people = BOTH.replace("age: 43", "age: 43\n  aliases: [Junie Quillfeather, June Quill]")
    proposal = propose(results(first, TOP), person=people, text=text)
    assert proposal.text is None
    assert "listings.aliases" in " ".join(proposal.problems)


def test_an_advertisement_beside_the_second_example_is_excluded():
    """Of two layouts, one is only advertised where another person is listed."""
    ad = '<section class="top promo"><a href="http://reports.example">All about Juniper</a></section>'
    first, second = results(card("r1"), TOP), results(TOP.replace("r2", "r3"), ad, card("r4"))
    text = DEFINITION.replace('"@data-reference"', '["@data-reference", "a@data-reference"]')
    others = BOTH.replace("r1", "r4").replace("r2", "r3")
    proposal = propose(first, second, person=BOTH + others, text=text)
    assert proposal.problems == ()
    assert ":not(.promo)" in listings(proposal).item[0]


def test_a_word_of_an_address_is_no_personal_value():
    street = "12 Acorn Street, Oakmere, CA"
    listed = (
        card("r1", towns=(street, "Larkspur, NV")).replace('"entry"', '""').replace('"place"', '"street"')
    )
    person = PERSON.replace('"Oakmere, CA"', f'"{street}"')
    other = card("r2", towns=("Elsewhere, OH",)).replace('"entry"', '""').replace('"place"', '"street"')
    proposal = propose(page(f'<ul class="street">{listed}{other}</ul>'), person=person)
    assert (proposal.problems, listings(proposal).locations) == ((), (".street",))
    lane = person.replace("Quillfeather", "Street")
    proposal = propose(
        page(f'<ul class="street">{listed}{other}</ul>'.replace("Quillfeather", "Street")), person=lane
    )
    assert proposal.problems or ".street" not in str(listings(proposal))


def test_words_of_towns_that_streets_have_too_are_personal():
    towns = ("Lake Forest, IL", "9 Kite Street, Garden Grove, CA", "Mill Valley, CA", "Fort Lee, NJ")
    example = Example(name=Name("Juniper", "Quillfeather"), values={"locations": towns})
    words = {"lake", "forest", "kite", "garden", "grove", "mill", "valley", "fort", "lee"}
    assert personal_words([example]) == words | {"juniper", "quillfeather"}


def test_a_list_stays_only_if_its_values_are_seen_apart():
    """The old selector finds one element with all values; with one value on the pages, nobody can tell."""

    def cell(reference, *towns):
        places = " ".join(f"<u>{town}</u>" for town in towns)
        return card(reference, towns=()).replace("<div></div>", f'<div class="town">{places}</div>')

    one = PERSON.replace('"Oakmere, CA", "Larkspur, NV"', '"Oakmere, CA"')
    proposal = propose(results(cell("r1", "Oakmere, CA"), cell("r2", "Elsewhere, OH")), person=one)
    assert proposal.problems == (
        "listings.locations cannot be told from one value: give a listing that shows two",
    )
    proposal = propose(results(cell("r1", "Oakmere, CA", "Larkspur, NV"), cell("r2", "Elsewhere, OH")))
    assert (proposal.problems, listings(proposal).locations) == ((), (".town > u",))


def test_no_selector_contains_a_personal_value():
    markup = results(card("r1"), OTHER).decode().replace('"years"', '"quillfeather"')
    markup = markup.replace("<p class", "<b>Oakmere</b><p class").replace("<div>", '<div class="larkspur">')
    following = '<a class="quillfeather" rel="next" href="?page=2">More Quillfeather</a>'
    markup = markup.replace("</ul>", f"</ul>{following}")
    absent = page("<p>Nobody matches in oakmere today</p>")
    proposal = propose(markup.replace("entry", "juniper").encode(), absent=absent)
    assert proposal.problems == ()
    assert listings(proposal).item == ("li[data-reference]",)
    search = loader.parsed(proposal.text).search
    assert (search.next, search.no_results) == (('[rel="next"]@href',), ("Nobody matches in",))
    text = repr((listings(proposal).age, listings(proposal).locations)).lower()
    assert not any(value in text for value in ("quillfeather", "oakmere", "larkspur"))


DRAFT = """\
# Draft of a site definition.
# To write: search.no_results
# To write: listings.item
# To write: listings.name
# To write: listings.reference_id
name: Seekfolk
guide: A free directory.
opt_out_procedure: [Open the form.]
opt_out_url: https://seekfolk.example/opt-out
search: {url: "https://seekfolk.example/search", no_results: [to-be-written]}
listings:
  item: to-be-written
  name: to-be-written
  reference_id: to-be-written
removal: {method: manual}
"""


def test_a_draft_gets_its_selectors():
    proposal = propose(
        results(card("r1-7731"), OTHER.replace("r2", "r2-5520")),
        text=DRAFT,
        person=PERSON.replace("reference_id: r1", ""),
    )
    assert proposal.problems == ()
    site = loader.parsed(proposal.text)
    assert "To write" not in proposal.text
    assert (site.listings.item, site.listings.age) == ((".entry",), (".years",))
    assert (site.listings.reference_id, site.listings.href) == (("@data-reference",), ("a@href",))
    assert site.search.no_results == ("Nobody of that name",)
    # Without an attribute that the link contains, too, the link is the reference.
    plain = (
        results(card("r1"), OTHER).replace(b' data-reference="r1"', b"").replace(b' data-reference="r2"', b"")
    )
    proposal = propose(plain, text=DRAFT, person=PERSON.replace("reference_id: r1", ""))
    assert listings(proposal).reference_id == listings(proposal).href == ("a@href",)


def test_a_person_is_not_in_a_representation():
    [person] = parse_people(PERSON, "listed.yaml")
    assert repr(person) == "ListedPerson()"
    assert "Quillfeather" not in repr(
        (person.example(), person.subject_on(DAY), propose(results(card("r1"), OTHER)))
    )


def test_a_huge_page_is_refused():
    with pytest.raises(UnusablePage, match="too large"):
        propose(page("<p>" * 30_000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("first_name: Juniper", "listed.yaml, line 1: last_name is missing"),
        ("{first_name: A, last_name: B, age: 300}", "line 1: age: should be less than or equal to 125"),
        (
            "- {first_name: A, last_name: B}\n- {first_name: A, last_name: B,\n  agge: 3}",
            "line 3: agge is not a known key; did you mean age?",
        ),
        ("[]", "must have 1 to 10 people"),
        ("a: [", "line 1: is not YAML"),
        ("Juniper Quillfeather", "the person: should have keys and values"),
    ],
)
def test_an_invalid_person_is_reported_without_values(text, message):
    with pytest.raises(ConfigurationError) as error:
        parse_people(text, "listed.yaml")
    assert message in str(error.value)
    assert "Juniper" not in str(error.value)
