"""A listing is compared with what the person has on file."""

import pandas as pd
import pytest
from support.histories import Person, Service, seen_through

from exposurekit.widgets.person_comparison import compare_in_words, on_file

ADDRESSES = [
    {"id": 1, "address1": "1 Elm St", "city": "York", "state": "PA", "zip": "17401"},
    {"id": 2, "address1": "9 Oak Ave", "city": "Springfield", "state": "Illinois", "zip": ""},
    {"id": 3, "address1": "5 Ash Way", "city": "", "state": "California", "zip": ""},
]
ALIASES = [
    {"id": 1, "first_name": "Juan", "last_name": "García López"},
    {"id": 2, "first_name": "Mary Ann", "last_name": "Quill"},
    {"id": 3, "first_name": "Paul", "last_name": "Otterwick Jr."},
]
PROFILE = {"first_name": "Seán", "last_name": "O\u2019Brien", "addresses": ADDRESSES, "aliases": ALIASES}
AGREES, STATE, DIFFERS = "✓ agrees", "✓ the state agrees", "✗ differs"


@pytest.fixture(scope="module")
def person():
    with seen_through(Service({7: Person(profile=PROFILE)})) as exposure:
        yield on_file(exposure, 7)


def listing(name=None, locations=()):
    return pd.Series({"name": name, "age": None, "locations": [*locations], "aliases": []})


@pytest.mark.parametrize(
    ("name", "result"),
    [
        *(("OBRIEN SEAN", AGREES), ("Sean J. O'Brien", AGREES), ("JUAN GARCIA LOPEZ", AGREES)),
        *(("Paul Otterwick", AGREES), ("OTTERWICK, PAUL II", AGREES), ("Paul Otterwick Sr.", DIFFERS)),
        *(("Mary A Quill", AGREES), ("María García López", DIFFERS), ("Mary Ann Jones", DIFFERS)),
    ],
)
def test_names_agree_by_first_and_last_name(person, name, result):
    assert compare_in_words(listing(name), person) == f"name {result}"


@pytest.mark.parametrize(
    ("location", "result"),
    [
        *(("York, PA", AGREES), ("YORK PA 17401", AGREES), ("2 Elm St, York", AGREES)),
        *(("New York, NY", DIFFERS), ("Springfield, MA", DIFFERS), ("Springfield, IL", AGREES)),
        *(("Oakmere, CA", STATE), ("Oakmere, California", STATE), ("Oakmere, OR", DIFFERS)),
    ],
)
def test_locations_agree_by_city_and_state(person, location, result):
    assert compare_in_words(listing(locations=[location]), person) == f"locations {result}"
