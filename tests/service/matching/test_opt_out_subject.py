"""The name and the address of an opt-out: those of the listing, and no others of the person."""

import pytest

from exposurekit.service.accounts.subject import Name, Place, Subject
from exposurekit.service.matching.opt_out_subject import as_listed

ANN = Subject(
    names=(
        Name("Ann", "Otterwick", "Bea"),
        Name("Ann", "Quillfen"),
        Name("Nan", "Otterwick-Moor"),
        Name("Wren", "Moor"),
    ),
    places=(
        Place("9 Acorn Road", "", "Springfield", "MA", "01101"),
        Place("1 Kite Street", "Apt 4", "Springfield", "Illinois", "62701"),
        Place("7 Moth Lane", "", "York", "PA", "17401"),
        Place("7 Moth Lane", "", "New York", "NY", "10001"),
    ),
)


def values(name="Ann Otterwick", locations=(), aliases=()):
    return as_listed(ANN, {"name": name, "aliases": [*aliases], "locations": [*locations]}).values()


@pytest.mark.parametrize(
    ("locations", "address1", "city", "state"),
    [
        (["Springfield, IL"], "1 Kite Street", "Springfield", "Illinois"),
        (["Springfield, MA", "1 KITE ST., SPRINGFIELD, IL"], "1 Kite Street", "Springfield", "Illinois"),
        (["Springfield, MA", "Springfield, IL"], "9 Acorn Road", "Springfield", "MA"),
        (["Springfield"], "9 Acorn Road", "Springfield", "MA"),
        (["62701"], "1 Kite Street", "Springfield", "Illinois"),
        (["Springfield, 62701"], "1 Kite Street", "Springfield", "Illinois"),
        (["New York, NY"], "7 Moth Lane", "New York", "NY"),
        (["7 Moth Ln, New York, NY"], "7 Moth Lane", "New York", "NY"),
    ],
)
def test_an_opt_out_has_the_address_that_agrees_best(locations, address1, city, state):
    of = values(locations=locations)
    assert (of["address1"], of["city"], of["state"]) == (address1, city, state)


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("Oakmere, CA", ("", "Oakmere", "CA", "")),
        ("Oakmere CA 95999", ("", "Oakmere", "CA", "95999")),
        ("New Oakmere, west virginia 25999-1234, USA", ("", "New Oakmere", "WV", "25999")),
        ("Buffalo, New York 14099", ("", "Buffalo", "NY", "14099")),
        ("12 Acorn St., Apt. 4, Oakmere, CA 95999", ("12 Acorn St, Apt 4", "Oakmere", "CA", "95999")),
        ("12 Acorn St Oakmere, CA", ("12 Acorn St Oakmere", "", "CA", "")),
        ("Springfield, OH", ("", "Springfield", "OH", "")),
    ],
)
def test_an_opt_out_from_elsewhere_has_what_the_listing_shows(location, address):
    """The site must not learn where the person lives from the request to be forgotten."""
    of = values(locations=["somewhere", location])
    assert tuple(of[name] for name in ("address1", "city", "state", "zip")) == address


@pytest.mark.parametrize("locations", [[], ["4 addresses"], ["CA"]])
def test_without_a_listed_place_the_current_address_is_stated(locations):
    assert values(locations=locations)["address1"] == "9 Acorn Road"


@pytest.mark.parametrize(
    ("name", "aliases", "stated"),
    [
        ("OTTERWICK, ANN B", [], "Ann Bea Otterwick"),
        ("Ann Quillfen", [], "Ann Bea Quillfen"),
        ("Quillfen Ann", ["Ann Otterwick"], "Ann Bea Quillfen"),
        ("Nan Otterwick-Moor", [], "Nan Bea Otterwick-Moor"),
        ("Wren Moor", [], "Wren Moor"),
        ("Zeb Fennimoor", ["Wren Moor"], "Wren Moor"),
        ("Zeb Fennimoor", [], "Ann Bea Otterwick"),
    ],
)
def test_an_opt_out_has_the_listed_name(name, aliases, stated):
    of = values(name, aliases=aliases)
    assert " ".join(filter(None, (of["first_name"], of["middle_name"], of["last_name"]))) == stated
