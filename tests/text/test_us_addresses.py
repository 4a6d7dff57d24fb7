"""Places on listings: which of them name a street and a town."""

import pytest

from exposurekit.text.us_addresses import street_and_town


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
