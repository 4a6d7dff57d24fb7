"""Declared against observed: who takes longer than declared, from requests that were observed in intervals."""

from math import comb

import numpy as np
import pandas as pd
import pytest

from exposurekit.analysis import declared_vs_observed
from exposurekit.errors import InvalidArgument

NOW = pd.Timestamp("2026-03-31T12:00Z")
COLUMNS = ["requested_after", "requested_at", "ended_after", "ended_at", "end", "observed_until"]


def at(days):
    """So many days after the first request."""
    return pd.NaT if days is None else NOW - pd.Timedelta(days=60) + pd.Timedelta(days=days)


def requests(*rows, site="Near"):
    """Requests of day 0: the last day on which each was pending, how it ended, the last day of its person, and how many."""
    cells = [
        [at(-1), at(0), at(last), at(None if last is None else last + 1), end, at(observed)]
        for last, end, observed, n in rows
        for _ in range(n)
    ]
    return pd.DataFrame(cells, columns=COLUMNS).assign(site=site).astype({"end": "str"})


def answer(table, days=7, **options):
    declared = pd.DataFrame({"site": table["site"].unique(), "declared_days": float(days)})
    return declared_vs_observed(table, declared, **options)


def counted(*rows, days=7, **options):
    [row] = answer(requests(*rows), days, **options).to_dict("records")
    return row["due"], row["overdue"]


def test_a_request_is_overdue_only_if_observed_pending():
    """Of seven declared days and two to verify: pending on day nine is in time, as it is nine days old."""
    assert counted((9, "removed", 60, 5)) == (5, 0)
    assert counted((10, "removed", 60, 5)) == (5, 5)
    assert counted((None, None, 60, 5)) == (5, 5)  # still pending
    # Pending on day 3, removed by day 30: nobody looked between.
    table = requests((3, "removed", 60, 5)).assign(ended_at=at(30))
    assert answer(table)[["due", "overdue"]].to_numpy().tolist() == [[5, 0]]


def test_requests_that_tell_nothing_do_not_count():
    """Recent ones, quick or not; people who left; requests that were refused; and those older than the first run."""
    assert counted((1, "removed", 9, 5), (None, None, 9, 5)) == (0, 0)
    assert counted((3, "unknown", 60, 5), (3, "discovered", 60, 5)) == (0, 0)
    assert counted((20, "unknown", 60, 5), (20, "discovered", 60, 5)) == (10, 10)
    assert counted((3, "vanished", 60, 5)) == (5, 0)  # in the site's favour
    older = requests((20, "removed", 60, 6)).assign(requested_after=pd.NaT)
    [row] = answer(older).to_dict("records")
    assert (row["due"], row["n"], row["left_out"], row["removed"]) == (0, 0, 6, 0)
    assert pd.isna([row["median_days"], row["p_value"], row["takes_longer"]]).all()


def test_the_p_value_is_that_of_a_sign_test():
    for late, early in ((9, 3), (6, 6), (0, 5), (40, 20)):
        [row] = answer(requests((20, "removed", 60, late), (3, "removed", 60, early))).to_dict("records")
        n = late + early
        exact = sum(comb(n, hits) for hits in range(late, n + 1)) / 2**n
        assert row["p_value"] == pytest.approx(exact)
        assert row["q_value"] == row["p_value"]  # there is one site
    many = answer(requests((20, "removed", 60, 3_000), (3, "removed", 60, 1_000)))
    assert 0 <= many["p_value"].iloc[0] < 1e-100


def test_q_values_are_corrected_for_the_number_of_sites():
    """The same site is one of one, or one of twenty."""
    late = requests((20, "removed", 60, 8), (3, "removed", 60, 1), site="Late")
    others = [
        requests((3, "removed", 60, 4), (20, "removed", 60, 4), site=f"Site {number}") for number in range(19)
    ]
    alone, among = answer(late), answer(pd.concat([late, *others]))
    assert alone["takes_longer"].tolist() == [True]
    assert not among["takes_longer"].any()
    by_site = among.set_index("site")
    assert by_site["q_value"]["Late"] == pytest.approx(20 * by_site["p_value"]["Late"])
    assert (among["q_value"] >= among["p_value"]).all()
    assert among["q_value"].is_monotonic_increasing
    assert among["site"].iloc[0] == "Late"


def test_medians_count_from_the_request():
    """From the end of one gap to that of another: twelve to fourteen days."""
    [row] = answer(requests((12, "removed", 60, 20))).to_dict("records")
    assert row["median_low"] <= row["median_days"] <= row["median_high"]
    assert 12 <= row["median_days"] <= 13
    # Removed between the same two runs as requested.
    at_once = requests((-1, "removed", 60, 20)).assign(ended_at=at(0))
    [row] = answer(at_once).to_dict("records")
    assert row["median_days"] < 1
    assert (row["due"], row["overdue"], row["removed"]) == (20, 0, 20)


def test_sites_match_in_any_case_and_none_is_lost():
    declared = pd.DataFrame({"site": [" NEAR ", "Elsewhere", "Nothing"], "declared_days": [7, 30, None]})
    table = declared_vs_observed(
        pd.concat([requests((20, "removed", 60, 9)), requests((3, "removed", 60, 2), site="Quiet")]), declared
    ).set_index("site")
    assert table["declared_days"].dropna().to_dict() == {"Near": 7, "Elsewhere": 30}
    assert table["n"].to_dict() == {"Near": 9, "Elsewhere": 0, "Quiet": 2}
    assert table["takes_longer"].dropna().to_dict() == {"Near": True}


@pytest.mark.parametrize(
    "options",
    [{"allowance_days": -1}, {"allowance_days": np.nan}, {"false_discovery_rate": 0}, {"level": 95}],
)
def test_numbers_out_of_range_are_refused(options):
    with pytest.raises(InvalidArgument, match=r"^invalid "):
        answer(requests((20, "removed", 60, 9)), **options)
