"""What came of the removal requests to each site, in numbers and in words."""

from datetime import timedelta

import pandas as pd
import pytest
from support.histories import DAWN

from exposurekit.analysis import site_outcomes
from exposurekit.analysis.failed_removals import outcomes, overdue_days, success_rates
from exposurekit.analysis.stalled_sites import STALLED_DAYS

NONE = pd.DataFrame({"site": pd.Series(dtype="str"), "declared_days": pd.Series(dtype="Float64")})


def day(number):
    return DAWN + timedelta(days=number)


def requests(*rows):
    """Removal requests: the day of each, the day of its end (None: pending), and how it ended."""
    table = pd.DataFrame(
        {
            "site": "Gate",
            "requested_after": [day(begin - 1) for begin, _, _ in rows],
            "requested_at": [day(begin) for begin, _, _ in rows],
            "ended_after": [None if end is None else day(end - 1) for _, end, _ in rows],
            "ended_at": [None if end is None else day(end) for _, end, _ in rows],
            "end": [status for _, _, status in rows],
        }
    ).assign(observed_until=day(40))
    return table.astype({"end": "str", "site": "str"})


def outcome(statuses, *rows, listed_again=0, declared=NONE, at=40):
    """The row of one site with listings in these statuses, of which the first were listed again."""
    records = pd.DataFrame({"user_id": range(len(statuses)), "site": "Gate", "status": statuses})
    records["changed_at"] = [day(number) for number in range(len(statuses))]
    back = records.head(listed_again).assign(key=range(listed_again))
    [row] = site_outcomes(records, requests(*rows), back, declared, at=day(at)).to_dict("records")
    return row


GONE = [(0, 2, "removed")] * 6


@pytest.mark.parametrize(
    ("verdict", "statuses", "rows", "options"),
    [
        ("no removal request seen yet", ["discovered"] * 2, [], {}),
        (
            "did not carry out 3 of 3 removal requests (2 refused)",
            ["discovered"] * 3,
            [*[(0, 5, "discovered")] * 2, (0, 14, "discovered")],
            {},
        ),
        ("has removed nothing yet", ["pending removal"], [(39, None, None)], {}),
        (
            "did not carry out 1 of 1 removal request",
            ["pending removal"],
            [(20, None, None)],
            {},
        ),
        ("removes listings, none listed again", ["removed"] * 6, GONE, {}),
        ("5 vanished, no removal verified", ["vanished"] * 5, [], {}),
        ("5 vanished, no removal verified, 2 of 5 listed again", ["vanished"] * 5, [], {"listed_again": 2}),
        ("removes listings, none listed again", ["vanished"] * 5, GONE, {}),
        ("removes listings, 2 of 6 listed again", ["removed"] * 6, GONE, {"listed_again": 2}),
        (
            "removes listings, refused 1 of 7 removal requests",
            ["removed"] * 6,
            [*GONE, (0, 2, "discovered")],
            {},
        ),
        (
            "removes listings, did not carry out 1 of 7 removal requests",
            [*["removed"] * 6, "pending removal"],
            [*GONE, (36, None, None)],
            {},
        ),
        (
            "removes listings, slower than declared",
            ["removed"] * 9,
            [(0, 20, "removed")] * 9,
            {"declared": pd.DataFrame({"site": ["gate"], "declared_days": [7.0]})},
        ),
    ],
)
def test_verdict_says_what_came_of_requests(verdict, statuses, rows, options):
    assert outcome(statuses, *rows, **options)["verdict"] == verdict


def test_listings_gone_for_good_were_never_listed_again():
    row = outcome(["discovered", "removed", "removed", "pending removal"], *GONE, listed_again=2)
    assert (row["open"], row["removed"], row["total"]) == (2, 2, 4)
    assert (row["listed_again"], row["not_listed_again"]) == (
        2,
        1,
    )  # one of those listed again was removed again
    assert (row["waiting"], row["waiting_since"]) == (1, day(0))


def test_days_count_from_the_request():
    row = outcome(["removed"] * 6, *GONE)
    assert row["requested"] == 6
    assert row["median_low"] <= row["median_days"] <= row["median_high"]
    assert 1 <= row["median_days"] <= 2


def test_success_rates_are_shrunk_towards_one_half():
    decided = [(0, 5, "discovered"), (20, None, None), (39, None, None), (0, 1, "unknown")]
    assert outcomes(requests(*decided), at=day(40)).fillna("").tolist() == ["refused", "ignored", "", ""]
    assert success_rates(requests(*decided), at=day(40)) == {"Gate": 1 / 4}
    assert success_rates(requests(*GONE), at=day(40)) == {"Gate": 7 / 8}
    undecided = requests(
        (39, None, None), (0, 5, "vanished")
    )  # a vanished listing may be listed again: no removal was verified
    assert success_rates(undecided, at=day(40)) == {}
    twice = pd.concat([requests(*GONE, (39, None, None))] * 2)  # of two histories: the index is ignored
    assert success_rates(twice, at=day(40)) == {"Gate": 13 / 14}


def test_request_is_overdue_by_the_times_of_its_own_site():
    assert overdue_days(requests(*GONE)).to_dict() == {"Gate": 3}
    assert overdue_days(requests(*GONE[:4], (0, 9, "discovered"))).empty  # too few removals
    row = outcome(["pending removal"], *GONE[:4], (27, None, None))
    assert (row["overdue_days"], row["ignored"]) == (STALLED_DAYS, 0)
    long = [(0, 27, "removed"), *[(0, 14, "removed")] * 9]
    assert overdue_days(requests(*long)).to_dict() == {"Gate": 28}
