"""Places on listings: which of them name a street and a town."""

import pytest

from exposurekit.text.us_addresses import street, street_and_town


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("12 Kite Lane, Mothgate, CT 06099", ("12 kite ln", "mothgate")),
        ("12B North Kite Ave., #4, St. Mothgate, ct", ("12b n kite ave", "st mothgate")),
        ("1/2 Kite Rd\nApt 4\nMothgate CT", ("1 2 kite rd", "mothgate")),
        ("12 Kite Lane; Suite 300; New York; NY 10001-0001", ("12 kite ln", "new york")),
        ("12 42nd Street, Washington, DC", ("12 42nd st", "washington")),
        ("12 42nd Street, Washington, District of Columbia, USA", ("12 42nd st", "washington")),
        *(
            (town, None)
            for town in ("Mothgate, CT", "MOTHGATE CT", "Mothgate, CT 06099", "06099 Mothgate", "", ",")
        ),
        ("Kite Lane, Mothgate, CT", None),  # without a house number, many people live there
        ("12 Kite Lane, CT 06099", None),
        ("12 Kite Lane, Apt 4", None),
        ("06099 Mothgate, Connecticut, United States", None),
        ("2026, Mothgate", None),
    ],
)
def test_a_street_needs_a_number_and_a_town(location, expected):
    assert street_and_town(location) == expected


@pytest.mark.parametrize(
    ("written", "short"),
    [
        *(
            ("12 Kite Cove", "12 Kite Cv"),
            ("12 Kite Crossing", "12 Kite Xing"),
            ("12 Kite Point", "12 Kite Pt"),
        ),
        *(("12 Kite Ridge Road", "12 Kite Rdg Rd"), ("12 Lake View Plaza", "12 Lk Vw Plz")),
        *(("12 Fifth Avenue", "12 5th Ave"), ("12 Kite Way", "12 Kite Wy"), ("12 Route 9", "12 Rte 9")),
        ("12 Kite Heights, Second Floor", "12 Kite Hts, 2nd Floor"),
    ],
)
def test_the_postal_abbreviations_of_streets_are_the_same(written, short):
    assert street(written) == street(short) is not None


def test_a_street_that_is_a_number_needs_a_house_number():
    assert (street("42nd Street"), street("First Street"), street("1 First Street")) == (
        None,
        None,
        "1 1st st",
    )
