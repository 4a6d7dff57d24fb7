"""Time to removal, compared with published estimates and with a count of each episode by hand."""

import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.survival_calibration import GAPS, calibration
from support.tables import shape

from exposurekit.analysis import MIN_N, precision, survival, time_to_removal
from exposurekit.errors import InvalidArgument

# Weeks in remission with 6-mercaptopurine; + was still in remission at the last observation. Freireich et al., Blood 21 (1963),
# 699; Gehan, Biometrika 52 (1965), 203.
REMISSION = "6 6 6 6+ 7 9+ 10 10+ 11+ 13 16 17+ 19+ 20+ 22 23 25+ 32+ 32+ 34+ 35+"
# Klein and Moeschberger, Survival Analysis, 2nd ed., table 4.1A: time, at risk, events, survival, standard error.
PUBLISHED = [
    (6, 21, 3, 0.857, 0.0764),
    (7, 17, 1, 0.807, 0.0869),
    (10, 15, 1, 0.753, 0.0963),
    (13, 12, 1, 0.690, 0.1068),
    (16, 11, 1, 0.627, 0.1141),
    (22, 7, 1, 0.538, 0.1282),
    (23, 6, 1, 0.448, 0.1346),
]
Z = 1.959964
COLUMNS = {"site": "str", "days": "int64", "flow": "str", "left_censored": "bool", "n": "int64"}
SUMMARY = {
    "site": "str",
    **dict.fromkeys(["n", "removed", "first_removed", "vanished", "unknown", "open", "left_out"], "int64"),
    **dict.fromkeys(["median_days", "median_low", "median_high"], "Float64"),
    **dict.fromkeys(["never", "never_low", "never_high"], "float64"),
    "followed_days": "Int64",
}
CURVE = {
    **dict.fromkeys(["days", "at_risk", "removed", "censored"], "int64"),
    **dict.fromkeys(["survival", "low", "high"], "float64"),
}
ENDS = ["removed", "vanished", "unknown", "open"]
# An episode: site, age when first watched, days watched, how it ended, left-censored, how many are alike.
EPISODES = st.lists(
    st.tuples(
        st.sampled_from(["A", "B"]),
        st.integers(0, 9) | st.just(0),
        st.integers(0, 12),
        st.sampled_from(ENDS),
        st.booleans(),
        st.integers(1, 5),
    ),
    max_size=12,
)


def flows(*rows):
    return pd.DataFrame(rows, columns=[*COLUMNS]).astype(COLUMNS)


def flows_of(episodes):
    rows = []
    for site, age, days, end, censored, n in episodes:
        rows.append((site, age, "returned" if age else "entered", censored, n))
        rows.append((site, age + days, end, censored, n))
    return flows(*rows)


def whole(*ended, site="A"):
    """Episodes that were observed from their start: (days, end, how many)."""
    return flows_of([(site, 0, days, end, False, n) for days, end, n in ended])


def remission():
    weeks = [(int(week.rstrip("+")), "open" if "+" in week else "removed", 1) for week in REMISSION.split()]
    return whole(*weeks)


def test_the_curve_is_the_published_one():
    curve = survival(remission())
    events = curve[curve["removed"] > 0]
    points = events.round({"survival": 3})[["days", "at_risk", "removed", "survival"]]
    assert [*points.itertuples(index=False, name=None)] == [row[:4] for row in PUBLISHED]


@pytest.mark.parametrize(("days", "share", "error"), [(row[0], row[3], row[4]) for row in PUBLISHED])
def test_the_band_is_that_of_the_published_standard_errors(days, share, error):
    """Klein and Moeschberger, 4.3: S^(1/theta) and S^theta, theta = exp(z sigma / ln S), sigma = error / S."""
    curve = survival(remission()).set_index("days")
    theta = math.exp(Z * error / share / math.log(share))
    assert curve.loc[days, "low"] == pytest.approx(share ** (1 / theta), abs=0.002)
    assert curve.loc[days, "high"] == pytest.approx(share**theta, abs=0.002)


def test_the_median_has_the_interval_of_brookmeyer_and_crowley():
    """Median 23 weeks, from 13 on: where the lower limit comes down to a half, and the upper one never does."""
    [row] = time_to_removal(remission()).to_dict("records")
    assert (row["median_days"], row["median_low"], row["median_high"]) == (23, 13, None)
    assert (row["n"], row["removed"], row["open"], row["followed_days"]) == (21, 9, 12, 35)
    assert row["never"] == pytest.approx(0.448, abs=0.0005)
    assert (row["never_low"], row["never_high"]) == pytest.approx((0.1881, 0.6801), abs=0.0001)


@pytest.mark.parametrize("n", [7, 10])
def test_removed_listings_give_the_median_an_upper_limit(n):
    """All are removed between the runs of two days, so half are removed at most one gap after them."""
    life_table = whole((7, "removed", n - 1), (8, "removed", 1)).assign(gap_days=1.0)
    [row] = time_to_removal(life_table).to_dict("records")
    assert row["median_days"] < row["median_high"] <= 8 + 1


def test_median_of_too_few_removed_has_no_upper_limit():
    life_table = whole((7, "removed", 6), (9, "open", 5)).assign(gap_days=1.0)
    [row] = time_to_removal(life_table).to_dict("records")
    assert (row["median_days"] > 6, pd.isna(row["median_high"])) == (True, True)


def by_hand(episodes, level_z=Z):
    """Yield the estimate, episode by episode: (age, at risk, removed, censored, share, low, high)."""
    watched = [(age, age + days, end) for _, age, days, end, _, n in episodes for _ in range(n)]
    share, greenwood = 1.0, 0.0
    for age in sorted({begin for begin, _, _ in watched} | {end for _, end, _ in watched}):
        at_risk = sum(begin <= age <= end for begin, end, _ in watched)
        removed = sum(end == age and how == "removed" for _, end, how in watched)
        censored = sum(end == age and how != "removed" for _, end, how in watched)
        share *= 1 - removed / at_risk
        greenwood += removed / (at_risk * (at_risk - removed)) if removed < at_risk else 0
        low = high = math.nan
        if 0 < share < 1:
            width = level_z * math.sqrt(greenwood) / math.log(share)
            low, high = share ** math.exp(-width), share ** math.exp(width)
        yield age, at_risk, removed, censored, share, low, high


def first(curve, column):
    return next((row[0] for row in curve if row[column] <= 0.5 + 1e-9), None)


@settings(max_examples=25)
@given(EPISODES, st.booleans())
def test_the_curve_equals_a_count_by_hand(episodes, left_censored):
    table = survival(flows_of(episodes), by="site", left_censored=left_censored)
    assert shape(table) == {"site": "str"} | CURVE
    followed = [episode for episode in episodes if left_censored or not episode[4]]
    expected = [
        (site, *row)
        for site in ("A", "B")
        for row in by_hand([episode for episode in followed if episode[0] == site])
    ]
    assert [tuple(row) for row in table.itertuples(index=False)] == [
        (*row[:5], *(pytest.approx(value, abs=1e-6, nan_ok=True) for value in row[5:])) for row in expected
    ]


@settings(max_examples=25)
@given(EPISODES, st.booleans())
def test_each_summary_agrees_with_its_curve(episodes, left_censored):
    table = time_to_removal(flows_of(episodes), left_censored=left_censored)
    assert shape(table) == SUMMARY
    assert set(table["site"]) == {episode[0] for episode in episodes}
    for row in table.to_dict("records"):
        of_site = [episode for episode in episodes if episode[0] == row["site"]]
        followed = [episode for episode in of_site if left_censored or not episode[4]]
        left_out = [episode for episode in of_site if episode not in followed]
        assert row["n"] == sum(episode[5] for episode in followed if episode[1] == 0)
        assert row["left_out"] == sum(episode[5] for episode in left_out if episode[1] == 0)
        assert {end: row[end] for end in ENDS} == {
            end: sum(episode[5] for episode in followed if episode[3] == end) for end in ENDS
        }
        curve = [*by_hand(followed)]
        last = curve[-1] if curve else (None, *[math.nan] * 6)
        assert row["followed_days"] == last[0]
        shares = row["never"], row["never_low"], row["never_high"]
        if row["n"] < MIN_N:
            assert pd.isna([row["median_days"], row["median_low"], row["median_high"], *shares]).all()
            continue
        assert row["median_days"] == first(curve, 4)
        # Where the curve is 0, Greenwood's formula is undefined, and the lower limit is 0.
        assert row["median_low"] == first([(*age[:5], age[5] if age[4] else 0) for age in curve], 5)
        if all(age[4] for age in curve):
            assert row["median_high"] == first(curve, 6)
        if last[4] in {0, 1}:
            assert shares[0] == pytest.approx(last[4], abs=1e-6)
            assert 0 <= shares[1] < shares[2] <= 1
        else:
            assert shares == pytest.approx(last[4:], abs=1e-6, nan_ok=True)


def test_an_absent_or_out_of_scope_record_is_no_removal():
    [row] = time_to_removal(whole((3, "vanished", 5), (4, "unknown", 2), (9, "open", 3))).to_dict("records")
    assert (row["removed"], row["vanished"], row["unknown"], row["open"]) == (0, 5, 2, 3)
    assert (row["never"], row["median_days"]) == (1.0, None)


def test_records_of_the_first_run_are_left_out_and_counted():
    flow_table = flows_of(
        [("A", 0, 5, "removed", True, 7), ("A", 0, 9, "removed", False, 5), ("B", 0, 3, "open", True, 5)]
    )
    left = time_to_removal(flow_table).set_index("site")
    assert left["n"].to_dict() == {"A": 5, "B": 0}
    assert left["left_out"].to_dict() == {"A": 7, "B": 5}
    assert left["median_days"].to_dict() == {"A": 9, "B": None}
    with_censored = time_to_removal(flow_table, left_censored=True).set_index("site")
    assert with_censored["n"].to_dict() == {"A": 12, "B": 5}
    assert with_censored["left_out"].to_dict() == {"A": 0, "B": 0}
    assert with_censored.loc["A", "median_days"] == 5


def test_a_return_into_scope_is_at_risk_from_then_on():
    curve = survival(flows_of([("A", 0, 2, "unknown", False, 4), ("A", 5, 4, "removed", False, 4)]))
    assert curve[["days", "at_risk"]].to_numpy().tolist() == [[0, 4], [2, 4], [5, 4], [9, 4]]
    assert time_to_removal(flows_of([("A", 5, 4, "removed", False, 4)]))["n"].tolist() == [0]


def test_a_record_that_returns_within_its_first_day_counts_once():
    flow_table = flows(
        ("A", 0, "entered", True, 5),
        ("A", 0, "unknown", True, 5),
        ("A", 0, "returned", True, 5),
        ("A", 6, "removed", True, 5),
    )
    [row] = time_to_removal(flow_table, left_censored=True).to_dict("records")
    assert (row["n"], row["unknown"], row["removed"], row["never"]) == (5, 5, 5, 0)
    assert time_to_removal(flow_table)["left_out"].tolist() == [5]
    assert survival(flow_table, left_censored=True)["at_risk"].tolist() == [10, 5]


@pytest.mark.parametrize(("n", "has_estimate"), [(4, False), (5, True)])
def test_fewer_than_five_listings_give_no_estimate(n, has_estimate):
    table = time_to_removal(whole((2, "removed", n - 1), (9, "open", 1)), by=None)
    estimates = table[["median_days", "median_low", "never", "never_low", "never_high"]]
    assert estimates.notna().to_numpy().tolist() == [[has_estimate] * 5]
    assert (table["n"].tolist(), table["removed"].tolist()) == ([n], [n - 1])


def test_a_half_is_a_half_however_the_fractions_round():
    """23/24 x 22/23 x ... x 12/13 comes out a hair above a half."""
    flow_table = whole(*[(day, "removed", 1) for day in range(1, 13)], (20, "open", 12))
    assert survival(flow_table)["survival"].iloc[-1] > 0.5
    assert time_to_removal(flow_table)["median_days"].tolist() == [12]


@pytest.mark.parametrize(("level", "narrower"), [(0.5, True), (0.99, False)])
def test_a_higher_level_is_a_wider_band(level, narrower):
    usual, other = survival(remission()), survival(remission(), level=level)
    inside = other["low"].iloc[5] > usual["low"].iloc[5], other["high"].iloc[5] < usual["high"].iloc[5]
    assert inside == (narrower, narrower)


@pytest.mark.parametrize("level", [0, 1, -1, 95, math.nan])
def test_a_level_is_a_share(level):
    labelled = pd.DataFrame({"site": "A", "label": ["mine"]})
    for question, table in ((survival, remission()), (time_to_removal, remission()), (precision, labelled)):
        with pytest.raises(InvalidArgument, match="between 0 and 1"):
            question(table, level=level)


def test_groups_sort_by_size_and_the_whole_has_no_name():
    sizes = {"b": 2, "a": 2, "c": 3}
    flow_table = pd.concat([whole((5, "removed", n), site=site) for site, n in sizes.items()])
    assert time_to_removal(flow_table)["site"].tolist() == ["c", "a", "b"]
    together = time_to_removal(flow_table, by=None)
    assert together.columns.tolist() == [name for name in SUMMARY if name != "site"]
    assert together["n"].tolist() == [7]
    assert survival(flow_table).columns.tolist() == [*CURVE]
    people = time_to_removal(flow_table.assign(user_id=2**62 + 1), by="user_id")
    assert people["user_id"].tolist() == [2**62 + 1]


def test_no_flows_give_zero_listings():
    together = time_to_removal(flows(), by=None)
    assert together["n"].tolist() == [0]
    assert together["never"].isna().all()
    assert shape(time_to_removal(flows())) == SUMMARY


@pytest.mark.parametrize(("end", "low", "high"), [("removed", 0, 1 - 0.025**0.05), ("open", 0.025**0.05, 1)])
def test_a_share_of_0_or_1_has_an_interval(end, low, high):
    """Of 20: one minus 0.025 ** (1/20) is the limit of Clopper and Pearson."""
    [row] = time_to_removal(whole((3, end, 20))).to_dict("records")
    assert (row["never_low"], row["never_high"]) == pytest.approx((low, high))


def weekly(*rows):
    """Listings that weekly runs observed: (days, flow, n), all new."""
    entered = ("A", 0, "entered", False, sum(n for *_, n in rows))
    table = flows(entered, *(("A", days, flow, False, n) for days, flow, n in rows))
    return table.assign(gap_days=7 * (table["flow"] == "entered"))


def test_listings_removed_between_two_runs_count():
    """Removals within a week: 40 of 100 before the next run, which is half a week after they came, and 40 a week later."""
    table = time_to_removal(weekly((0, "first_removed", 40), (7, "removed", 40), (14, "open", 20)))
    [row] = table.to_dict("records")
    assert (row["n"], row["removed"], row["first_removed"], row["open"]) == (100, 80, 40, 20)
    assert row["median_days"] == pytest.approx(3.5 + 7 * (60 - 50) / (60 - 20), abs=0.05)
    assert row["median_low"] < 3.5
    assert row["median_high"] > 7


@pytest.mark.parametrize("gap", [GAPS[0], GAPS[-1]])
@pytest.mark.parametrize("kind", ["exponential, 3.5 days", "Weibull 0.6, 3.5 days", "30% never"])
def test_intervals_contain_the_true_median_and_share(kind, gap):
    """Twenty-five worlds; `python tests/support/survival_calibration.py` prints the table of two hundred of every kind."""
    row = calibration(kind, gap, worlds=25)
    assert row["median"] >= 0.88
    assert row["never"] >= 0.84
