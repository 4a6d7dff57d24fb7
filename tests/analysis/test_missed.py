"""Missed listings: which listings two ways share, when there is an estimate, and what it is."""

import pandas as pd
import pytest

from exposurekit.analysis import missed
from exposurekit.analysis.missed import INDEPENDENT
from exposurekit.errors import InvalidArgument, MissingColumns

NEAR = "https://near.example/"


def records(pages, user_id=1):
    return pd.DataFrame({"user_id": user_id, "href": [f"{NEAR}{page}" for page in pages]})


def links(pages, user_id=1):
    return pd.DataFrame({"user_id": user_id, "url": [f"{NEAR}{page}" for page in pages]})


def counts(table):
    return dict(zip(table["ways"][:-1], table["listings"][:-1], strict=True))


def estimate(table):
    return table[["listings", "low", "high"]].iloc[-1].tolist()


def test_the_estimate_of_two_ways_is_chapmans():
    """Of 60 and 40 listings with 24 in both: 61 * 41 / 25 - 1 are there, of which 76 were found."""
    table = missed(records(range(60)), links(range(36, 76)))
    assert counts(table) == {
        "site scans alone": 36,
        "web search alone": 16,
        "site scans and web search": 24,
    }
    listings, low, high = estimate(table)
    assert listings == pytest.approx(61 * 41 / 25 - 1 - 76, abs=0.05)
    assert 0 < low < listings < high < 60
    assert table["assumption"].tolist()[-1] == INDEPENDENT
    narrower = missed(records(range(60)), links(range(36, 76)), level=0.5)
    assert low < narrower["low"].iloc[-1] < narrower["high"].iloc[-1] < high


def test_spellings_of_one_address_are_one_listing():
    spellings = [
        "HTTP://www.near.example/3/",
        "https://near.example/3?utm_source=x",
        "https://NEAR.example/3#top",
    ]
    found = pd.DataFrame({"user_id": 1, "url": [*spellings, "https://near.example/4", "no address", None]})
    table = missed(records([3, 3]), found)
    assert counts(table) == {"site scans alone": 0, "web search alone": 1, "site scans and web search": 1}
    # The same page of somebody else is another listing.
    assert counts(missed(records([3]), links([3], user_id=2)))["site scans and web search"] == 0


def test_what_does_not_count_is_named():
    without = pd.concat([records(range(8)), pd.DataFrame({"user_id": 1, "href": [None, " "]})])
    elsewhere = pd.DataFrame({"user_id": 1, "url": [f"https://page.example/{page}" for page in range(20)]})
    with pytest.warns(UserWarning, match="^by hand does not count: of its 20 addresses, none is on a site"):
        table = missed(without, links(range(2, 9)), others={"by hand": elsewhere})
    assert table["reason"].iloc[0] == "2 records without an address left out"
    assert table["reason"].iloc[1:].isna().all()
    assert estimate(table)[0] > 0


def test_pages_on_other_sites_are_out_of_scope():
    """A site scan could not find them, so they say nothing about what it overlooks."""
    elsewhere = pd.DataFrame({"user_id": 1, "url": [f"https://page.example/{page}" for page in range(9)]})
    table = missed(records(range(10)), elsewhere)
    assert counts(table) == {"site scans alone": 10}
    assert (
        table["reason"].iloc[-1]
        == "an estimate needs a second, independent search, and only site scans found any listings"
    )
    assert pd.isna(estimate(table)).all()


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        (range(0), range(5), "no listing has an address"),
        (
            range(20),
            range(16, 30),
            "only 4 of 30 listings were found in more than one way: at least 5 are needed",
        ),
        (
            range(20),
            range(20, 30),
            "only 0 of 30 listings were found in more than one way: at least 5 are needed",
        ),
    ],
)
def test_without_enough_in_common_there_is_a_reason(first, second, reason):
    table = missed(records(first), links(second))
    assert table["reason"].iloc[-1] == reason
    assert pd.isna(estimate(table)).all()
    assert table["assumption"].isna().all()


def test_a_third_way_must_share_listings_too():
    table = missed(records(range(20)), links(range(10, 30)), others={"by hand": links(range(40, 45))})
    assert table["reason"].iloc[-1] == "by hand shares no listing with any other way"
    assert len(table) == 8


def test_nothing_is_missed_if_both_ways_agree():
    table = missed(records(range(50)), links(range(50)))
    assert estimate(table)[:2] == [0, 0]
    assert estimate(table)[2] < 1


def cells(**n):
    """Pages by the ways that find them: ``sw=5`` are found by site scans and web search."""
    pages, start = {way: [] for way in "swh"}, 0
    for ways, count in n.items():
        for way in ways:
            pages[way] += range(start, start + count)
        start += count
    return records(pages["s"]), links(pages["w"]), {"by hand": links(pages["h"])}


def test_dependent_ways_of_three_are_detected():
    """Site scans and web search find the same half, by hand finds 40% of either: 60 of 200 are missed."""
    first, second, others = cells(s=12, w=12, sw=60, h=40, sh=8, wh=8, swh=40)
    table = missed(first, second, others=others)
    assert table["assumption"].iloc[-1] == "site scans and web search depend on each other, and no others"
    listings, low, high = estimate(table)
    assert listings == pytest.approx(60, abs=2)
    assert low < 60 < high
    # Site scans and web search alone would say that little is missed.
    assert estimate(missed(first, second))[2] < 20
    independent = cells(s=64, w=36, sw=64, h=16, sh=16, wh=9, swh=16)
    table = missed(*independent[:2], others=independent[2])
    assert table["assumption"].iloc[-1] == INDEPENDENT
    assert table["ways"].tolist()[3:] == [
        "site scans and web search",
        "site scans and by hand",
        "web search and by hand",
        "site scans, web search and by hand",
        "missed",
    ]


def test_arguments_are_checked():
    first, second = records(range(9)), links(range(9))
    with pytest.raises(InvalidArgument, match="between 0 and 1"):
        missed(first, second, level=95)
    with pytest.raises(InvalidArgument, match="at most 6 ways"):
        missed(first, second, others={str(number): second for number in range(5)})
    with pytest.raises(MissingColumns, match="missed, table by hand, needs the column user_id"):
        missed(first, second, others={"by hand": second.drop(columns="user_id")})
