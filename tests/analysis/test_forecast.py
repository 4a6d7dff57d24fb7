"""Survival and the forecast, compared with lifelines, with a chain that can be solved, and with simulated worlds."""

import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, product
from math import comb

import numpy as np
import pandas as pd
import pytest
from support.forecast_calibration import calibration
from support.simulated_lives import AT, KINDS, Life
from support.tables import shape

from exposurekit.analysis import forecast, survival, time_to_removal
from exposurekit.errors import InvalidArgument

NOW = datetime(2026, 6, 30, 23, 59, 59, 999_999, tzinfo=UTC)  # as of a day: its end
DAY = timedelta(days=1)
FLOWS = {"days": "int64", "flow": "str", "left_censored": "bool", "n": "int64"}
RECORDS = {
    "user_id": "int64",
    "status": "str",
    **dict.fromkeys(["first_seen_at", "changed_at"], "datetime64[us, UTC]"),
    "episode": "int64",
    "left_censored": "bool",
}
EXPECTED = ["of_open", "of_gone", "of_new"]
FORECAST = {
    **dict.fromkeys(["days", "open_now"], "int64"),
    **dict.fromkeys([*EXPECTED, "open", "low", "high"], "float64"),
    "beyond": "int64",
    "reason": "str",
}
ENDS = ["removed", "vanished", "unknown", "open"]


def flows(*rows):
    return pd.DataFrame(rows, columns=[*FLOWS]).astype(FLOWS)


def records(*rows):
    """Records as (user, status, days since first seen, days since it changed), observed from their start."""
    table = pd.DataFrame(rows, columns=[*RECORDS][:4]).assign(episode=1, left_censored=False)
    for name in ("first_seen_at", "changed_at"):
        table[name] = [NOW - timedelta(days=float(days)) for days in table[name]]
    return table.astype(RECORDS)


def removed_at_first(n, days):
    """Records that were removed when their user was first loaded, so many days ago, and still are."""
    return records(*[(1, "removed", days, days)] * n).assign(episode=0, left_censored=True)


def back(*days):
    """Relistings by days gone; all of them today."""
    gone_days = pd.Series(days, dtype="float64")
    removed_at = pd.Series([NOW - timedelta(days=day) for day in gone_days.fillna(0)])
    removed_at = removed_at.astype("datetime64[us, UTC]").where(gone_days.notna())
    columns = {"removed_at": removed_at, "listed_again_at": NOW, "gone_days": gone_days}
    return pd.DataFrame(columns).astype({"listed_again_at": "datetime64[us, UTC]"})


def episodes(seed, n=300):
    """Random spans of being open: first and last day, and how each ended; one outlasts all."""
    chance = np.random.default_rng(seed)
    begun = np.where(chance.random(n) < 0.7, 0, chance.integers(1, 30, n))
    columns = {"begun": begun, "ended": begun + chance.geometric(0.05, n), "how": chance.choice(ENDS, n)}
    last = pd.DataFrame({"begun": [0], "ended": [500], "how": ["open"]})
    return pd.concat([pd.DataFrame(columns), last], ignore_index=True)


def flows_of(spans, *, left_censored=False):
    entered = [(days, "returned" if days else "entered", left_censored, 1) for days in spans["begun"]]
    left = zip(spans["ended"], spans["how"], strict=True)
    return flows(*entered, *((days, how, left_censored, 1) for days, how in left))


def fitted(spans, *, level=0.95, ended=("removed",)):
    # Whoever enters at an age is at risk at it, here: lifelines takes them in after what ends then.
    entry = np.maximum(spans["begun"] - 0.5, 0)
    observed = spans["how"].isin(ended)
    from lifelines import KaplanMeierFitter  # not above: that costs each process of the tests two seconds

    return KaplanMeierFitter(alpha=1 - level).fit(spans["ended"], observed, entry=entry)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_curve_and_band_equal_those_of_lifelines(seed, level):
    spans = episodes(seed)
    theirs = fitted(spans, level=level)
    ours = survival(flows_of(spans), level=level).set_index("days")
    expected = theirs.survival_function_at_times(ours.index).to_numpy()
    assert ours["survival"].to_numpy() == pytest.approx(expected)
    band = theirs.confidence_interval_.loc[ours.index].to_numpy()
    begun = ours["survival"] < 1
    assert begun.sum() > 40
    assert ours.loc[begun, ["low", "high"]].to_numpy() == pytest.approx(band[begun])
    assert ours.loc[~begun, ["low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize("seed", range(4))
def test_the_median_and_its_interval_equal_those_of_lifelines(seed):
    spans = episodes(seed)
    [row] = time_to_removal(flows_of(spans), by=None).to_dict("records")
    from lifelines.utils import median_survival_times

    theirs = fitted(spans)
    [[low, high]] = median_survival_times(theirs.confidence_interval_).to_numpy()
    estimates = [row[name] for name in ("median_days", "median_low", "median_high")]
    expected = [theirs.median_survival_time_, low, high]
    assert [np.inf if pd.isna(days) else days for days in estimates] == expected
    assert row["never"] == pytest.approx(float(theirs.predict(500)))


@pytest.mark.parametrize("seed", range(3))
def test_open_listings_go_on_as_the_curves_of_lifelines_say(seed):
    """Of n of an age a, n S(a + h) / S(a) are open h days later: each kind with its own curve."""
    kinds = [episodes(seed), episodes(100 + seed)]
    tables = [flows_of(spans, left_censored=first) for spans, first in zip(kinds, (False, True), strict=True)]
    table = forecast(records((1, "discovered", 400, 400)), pd.concat(tables), back(), at=NOW, days=[1, 7, 60])
    curves = [fitted(spans, ended=("removed", "vanished")) for spans in kinds]
    for row in table.itertuples():
        expected = 0.0
        for spans, curve in zip(kinds, curves, strict=True):
            ages = spans.loc[(spans["how"] == "open") & (spans["ended"] < 500), "ended"]
            then = curve.survival_function_at_times(ages + row.days).to_numpy()
            expected += (then / curve.survival_function_at_times(ages).to_numpy()).sum()
        # The two that outlast all are beyond; nothing ended for so long that they are as good as sure to stay.
        assert row.beyond == 2
        assert row.of_open == pytest.approx(expected + 2, abs=0.3)
        assert row.open_now == sum((spans["how"] == "open").sum() for spans in kinds)


HALVES = [(age, 2 ** (50 - age)) for age in range(1, 51)]  # of 2**50: half of what is left ends each day
QUARTERS = [
    1024,
    768,
    576,
    432,
    324,
    243,
]  # of 4,096: a quarter of what is left comes back each day; 729 stay


def a_chain(*, censored=False, still=1):
    ended = [(age, ("removed", "vanished")[age % 2], censored, n) for age, n in HALVES]
    episodes = flows((0, "entered", censored, 2**50 + still), *ended, (6, "open", censored, still))
    gone = records(*[(1, ("removed", "vanished")[k % 2], 300, 6) for k in range(729)])
    return gone, episodes, back(*np.repeat(np.arange(1.0, 7.0), QUARTERS))


def opened(days):
    """The share that is open so many days after being opened, of such as end with 1/2 and come back with 1/4 a day."""
    return (1 + 2 * 0.25**days) / 3


@pytest.mark.parametrize("days", [1, 2, 5, 30])
def test_open_and_gone_listings_go_on_as_the_chain_does(days):
    [row] = forecast(*a_chain(), at=NOW, days=[days]).to_dict("records")
    assert row["of_open"] == pytest.approx(opened(days))
    assert row["of_gone"] == pytest.approx(729 * (1 - 0.25**days) / 3)
    assert (row["open_now"], row["beyond"]) == (1, 0)


@pytest.mark.parametrize("days", [1, 2, 5, 30])
def test_listings_of_the_first_load_have_their_own_curve(days):
    gone, baseline, relisted = a_chain(censored=True)
    new = a_chain(still=10)[1]
    [row] = forecast(gone, pd.concat([baseline, new]), relisted, at=NOW, days=[days]).to_dict("records")
    assert row["of_open"] == pytest.approx(11 * opened(days))
    assert row["open_now"] == 11


def test_a_relisting_within_a_day_has_a_gap_of_one():
    gone, episodes, relisted = a_chain()
    expected = forecast(gone, episodes, relisted, at=NOW)
    jitter = np.where(np.arange(len(relisted)) % 2, 0.3, -0.3)
    table = forecast(gone, episodes, back(*(relisted["gone_days"] + jitter), np.nan), at=NOW)
    pd.testing.assert_frame_equal(table, expected)


STAY = flows(
    (0, "entered", False, 11), (3, "open", False, 10), (120, "open", False, 1)
)  # none is ever removed


def back_after_first_load(*days):
    """Relistings of listings that were removed at the first load, by days since then."""
    return back(*days).assign(gone_days=np.nan)


def test_listings_removed_at_first_return_at_their_own_rate():
    """Of 750, five came back each day for 90 days: an ever larger share of those left."""
    came_back = back_after_first_load(*np.repeat(np.arange(1, 91), 5))
    [row] = forecast(removed_at_first(300, 90), STAY, came_back, at=NOW, days=[30]).to_dict("records")
    assert 300 * (1 - (1 - 5 / 415) ** 30) < row["of_gone"] < 5 * 30
    assert row["of_open"] == pytest.approx(row["open_now"], abs=0.5)


def test_listings_removed_at_first_are_not_freshly_removed():
    """Of those whose removal was observed, half return after five days; of those removed at first, none did."""
    observed = records(*[(1, "removed", 90, 60)] * 40, *[(1, "removed", 90, 1)] * 20)
    all_of_them = pd.concat([observed, removed_at_first(200, 90)])
    alone, among = (
        forecast(gone, STAY, back(*[5] * 40), at=NOW, days=[30]) for gone in (observed, all_of_them)
    )
    assert alone["of_gone"].tolist() == pytest.approx([10], abs=1)
    assert among["of_gone"].tolist() == pytest.approx([10], abs=1)


def test_a_forecast_counts_the_listings_removed_at_first():
    gone = pd.concat([records((1, "removed", 90, 60)), removed_at_first(2, 90)])
    [why] = forecast(gone, STAY, back(), at=NOW, days=[30])["reason"]
    assert why == "age unknown for listings already removed at the first load: 2"
    [both] = forecast(gone, STAY, back(), at=NOW, days=[40])["reason"]
    assert both == f"rough: 40 days are more than a third of the history; {why}"
    assert forecast(gone[:1], STAY, back(), at=NOW, days=[30])["reason"].isna().all()


def peak_bytes(days):
    gone = records((1, "removed", 90, 60))
    tracemalloc.start()
    try:
        table = forecast(gone, STAY, back(), at=NOW, days=days)
        return tracemalloc.get_traced_memory()[1], table["reason"].iloc[-1]
    finally:
        tracemalloc.stop()


def test_a_horizon_beyond_the_history_costs_no_memory():
    peak_bytes([30])  # what is imported on first use
    (possible, _), (both, reason) = peak_bytes([30]), peak_bytes([30, 1_200])
    assert reason.startswith("1200 days ahead require 2400 days of history")
    assert both < 1.5 * possible


def sites(*rows):
    """Flows of listings of the first load: (site, age at which so many were removed, how many), 60 days ago."""
    table = pd.concat(
        [
            flows(
                (0, "entered", True, n + still),
                *((age, "removed", True, 1) for age in ages),
                (60, "open", True, still),
            )
            .assign(site=site)
            .replace({"n": {0: 0}})
            for site, ages, still in rows
            for n in [len(ages)]
        ]
    )
    return table[table["n"] > 0]


def test_older_listings_continue_at_the_rate_of_the_later_half():
    """One a day of 120: as many in the second 30 days as in the first, of fewer."""
    episodes = with_one(sites(("Seekfolk", range(1, 60), 61)))
    [row] = forecast(records((1, "removed", 60, 60)), episodes, back(), at=NOW, days=[30]).to_dict("records")
    rate = 30 / (60 * 30 + 30 * 31 / 2)
    assert row["of_open"] == pytest.approx(61 * (1 - rate) ** 30 + 1, rel=0.12)
    assert row["of_open"] < 61 * (1 - rate) ** 30 + 1  # the rate rises
    assert row["beyond"] == 61


def test_a_small_site_continues_at_the_rate_of_all_sites():
    quick, slow = ("Quick", [*range(30, 60)] * 4, 40), ("Slow", [35, 50], 160)
    gone, returned = records((1, "removed", 60, 60)).assign(site="Another"), back().assign(site="")
    ended = [
        forecast(gone, with_one(table), returned, at=NOW, days=[20])["of_open"].sum()
        for table in (sites(quick, slow), sites(quick, slow).assign(site="both"))
    ]
    by_site, together = ended
    assert by_site > together + 10  # most of what is open is at the slow site


def with_one(episodes):
    """With a listing that is not older than any: where all are, there is no forecast."""
    one = flows((0, "entered", False, 3), (60, "removed", False, 2), (3, "open", False, 1))
    return pd.concat([episodes, one.assign(site="Another")])


def site_flows(site, *, removed, still):
    """Flows of a site: of the listings of the last 60 days, so many were removed after five days; the others stayed."""
    rows = (
        (0, "entered", False, removed + still),
        (5, "removed", False, removed),
        (20, "open", False, still - 1),
    )
    return flows(*rows, (60, "removed", False, 1)).assign(site=site)


def two_sites(closed_at):
    """Half of the listings of two sites are removed; one relists all after ten days, the other none.

    50 have been removed for a day at `closed_at`, and 50 for two months at the site that relists none.
    """
    lately, long_ago = (records(*[(1, "removed", 90, days)] * 50) for days in (1, 60))
    gone = pd.concat([lately.assign(site=closed_at), long_ago.assign(site="Never")])
    episodes = pd.concat([site_flows(site, removed=100, still=50) for site in ("Relists", "Never")])
    return gone, episodes, back(*[10] * 100).assign(site="Relists")


@pytest.mark.parametrize(("site", "low", "high"), [("Relists", 45, 50), ("Never", 0, 3)])
def test_removed_listings_return_at_the_rate_of_their_site(site, low, high):
    [row] = forecast(*two_sites(site), at=NOW, days=[12]).to_dict("records")
    assert low <= row["of_gone"] <= high


def test_without_sites_all_listings_have_the_same_rates():
    tables = {site: two_sites(site) for site in ("Relists", "Never")}
    expected = forecast(*(table.assign(site="") for table in tables["Never"]), at=NOW, days=[12])
    assert 20 < expected["of_gone"].sum() < 40
    for n, site in product(range(3), tables):
        some = [table.drop(columns="site") if n == at else table for at, table in enumerate(tables[site])]
        pd.testing.assert_frame_equal(forecast(*some, at=NOW, days=[12]), expected)


def test_sites_may_be_text_or_categories():
    gone, *others = two_sites("Relists")
    as_categories = gone.assign(site=pd.Categorical(gone["site"], ["Unused", "Never", "Relists"]))
    expected = forecast(gone, *others, at=NOW, days=[12])
    pd.testing.assert_frame_equal(forecast(as_categories, *others, at=NOW, days=[12]), expected)


def test_relisted_listings_are_removed_at_the_rate_of_their_site():
    """At one site all are removed after five days and relisted after ten; at the other all stay."""
    gone = records(*[(1, "removed", 90, 8.5)] * 50).assign(site="Relists")
    stay = flows((0, "entered", False, 300), (40, "open", False, 300)).assign(site="Stay")
    episodes = pd.concat([site_flows("Relists", removed=100, still=1), stay])
    relisted = back(*[10] * 100).assign(site="Relists")
    now, later = forecast(gone, episodes, relisted, at=NOW, days=[3, 9])["of_gone"]
    assert now > 45
    assert later < 5


def test_beyond_is_what_will_be_older_than_the_oldest():
    episodes = flows(
        (0, "entered", False, 10), (6, "open", False, 5), (8, "open", False, 3), (10, "removed", False, 1),
        (10, "open", False, 1),
    )  # fmt: skip
    table = forecast(records((1, "odd", 10, 10)), episodes, back(), at=NOW, days=[1, 2, 3, 4, 5])
    assert table["beyond"].tolist() == [1, 1, 4, 4, 9]


def test_slow_sites_have_listings_beyond_where_other_sites_ended():
    gone, returned = records((1, "removed", 60, 60)).assign(site="Another"), back().assign(site="")
    quick = flows((0, "entered", True, 2**50 - 1), *((age, "removed", True, n) for age, n in HALVES))
    slow = sites(("Slow", [5, 35], 50))
    table = with_one(pd.concat([quick.assign(site="Quick"), slow]))
    [beyond] = forecast(gone, table, returned, at=NOW, days=[20])["beyond"]
    assert beyond == 50


def test_nothing_is_beyond_where_every_observed_listing_ended():
    episodes = flows((0, "entered", False, 9), (6, "open", False, 8), (10, "removed", False, 1))
    assert forecast(records((1, "odd", 10, 10)), episodes, back(), at=NOW, days=[9])["beyond"].tolist() == [0]


def registered(*days):
    """People by how many days ago they registered."""
    since = pd.Series([NOW - timedelta(days=day + 0.5) for day in days]).astype("datetime64[us, UTC]")
    return pd.DataFrame({"user_id": range(1, len(days) + 1), "watched_from": since})


def never_removed(records):
    """Flows of listings that all stay."""
    age = ((NOW - records["first_seen_at"]) // DAY).astype("int64")
    still = pd.DataFrame({"days": age, "flow": "open", "left_censored": False, "n": 1})
    return pd.concat([still.assign(days=0, flow="entered"), still]).astype(FLOWS)


def coming(came, people, **options):
    return forecast(came, never_removed(came), back(), people=people, at=NOW, **options)


def test_first_listings_of_people_who_were_clean_are_expected():
    """100 people without a listing, and each day one of them gets a first one: 60 then, and 90 in 30 days."""
    came = records(*[(user, "discovered", 60 - user + 0.5, 60 - user + 0.5) for user in range(1, 61)])
    [row] = coming(came, registered(*[60] * 100), days=[30]).to_dict("records")
    assert (row["open_now"], row["of_new"], row["open"]) == pytest.approx((60, 30, 90), abs=1.5)
    assert row["low"] <= 90 <= row["high"]


def test_a_first_listing_comes_only_to_people_without_one():
    came = records(*[(user, "discovered", 60 - user + 0.5, 60 - user + 0.5) for user in range(1, 61)])
    [row] = coming(came, registered(*[60] * 64), days=[30]).to_dict("records")
    assert row["of_new"] == pytest.approx(4, abs=0.2)


def test_new_listings_arrive_at_the_observed_rate():
    """To two people, followed for 53 days beyond their first week, six new listings: one of them is a first one."""
    ages = (50, 40, 30, 20, 10)
    came = records((1, "odd", 60.1, 60), *[(1, "odd", days + 0.1, days) for days in ages], (2, "odd", 5.1, 5))
    [row] = coming(came, registered(60, 60), days=[1]).to_dict("records")
    assert row["of_new"] == pytest.approx(5 / 53)  # nobody is left to whom a first one could come
    three = coming(came, registered(60, 60, 60), days=[1])
    assert three["of_new"].tolist() == pytest.approx([6 / 53])
    lately = coming(came, registered(60, 60), days=[1], arrivals_days=8)
    assert lately["of_new"].tolist() == [0]


def test_registrations_continue_and_bring_listings():
    """Every other day somebody registers with three listings."""
    days = range(0, 90, 2)
    came = records(
        *[(user, "discovered", day + 0.2, day + 0.2) for user, day in enumerate(days, 2) for _ in range(3)]
    )
    [row] = coming(came, registered(90, *days), days=[30]).to_dict("records")
    assert row["of_new"] == pytest.approx(45, abs=1)
    assert row["low"] <= row["open_now"] + 45 <= row["high"]


def test_bursts_widen_the_interval():
    """As many listings, evenly and in six bursts."""
    even = records((1, "odd", 90, 90), *[(1, "odd", day + 0.1, day) for day in range(80) for _ in range(3)])
    bursts = records(
        (1, "odd", 90, 90), *[(1, "odd", day + 0.1, day) for day in range(5, 80, 14) for _ in range(40)]
    )
    assert len(even) == len(bursts)
    narrow, wide = (coming(came, registered(90), days=[30]).loc[0] for came in (even, bursts))
    assert wide["of_new"] == pytest.approx(narrow["of_new"], rel=0.01)
    assert wide["high"] - wide["low"] > 3 * (narrow["high"] - narrow["low"])


def test_the_interval_has_no_negative_numbers():
    [row] = forecast(*a_chain(), at=NOW, days=[30]).to_dict("records")
    small = forecast(records((1, "removed", 300, 3)), a_chain()[1], back(), at=NOW, days=[30])
    assert (small["low"].tolist(), row["low"] > 0) == ([0], True)


def test_more_observations_narrow_the_interval():
    def ended(n):
        return flows(
            (0, "entered", False, 4 * n + 500),
            *((age, "removed", False, n) for age in (5, 25, 45)),
            (60, "unknown", False, n),
            (2, "open", False, 500),
        )

    gone = records(*[(1, "removed", 300, 200)] * 200)
    few, many = (forecast(gone, ended(n), back(), at=NOW, days=[30]).loc[0] for n in (5, 500))
    assert few["high"] - few["low"] > 2 * (many["high"] - many["low"])


def test_a_higher_level_is_a_wider_interval():
    usual, other = (forecast(*a_chain(), at=NOW, days=[30], level=level) for level in (0.95, 0.5))
    assert (usual["high"] - usual["low"] > 2 * (other["high"] - other["low"])).all()
    pd.testing.assert_frame_equal(usual[["days", *EXPECTED]], other[["days", *EXPECTED]])


NUMBERS = [*EXPECTED, "open", "low", "high"]


def reason(table):
    [row] = table.to_dict("records")
    assert pd.isna(row["open"]) == all(pd.isna(row[name]) for name in NUMBERS)
    return pd.isna(row["open"]), row["reason"]


@pytest.mark.parametrize(
    ("days", "ahead", "required"),
    [(14, 30, 60), (59, 30, 60), (60, 30, None), (7, 1, 30), (29, 1, 30), (30, 1, None)],
)
def test_a_history_shorter_than_required_gives_no_number(days, ahead, required):
    """Twice the horizon, and at least a month."""
    came = records((1, "odd", days + 0.5, 1), (2, "odd", 3.2, 3))
    lacks, why = reason(coming(came, registered(days, days), days=[ahead]))
    assert lacks == bool(required)
    expected = f"{ahead} days ahead require {required} days of history, and listings were observed for {days}"
    assert (why == expected) == bool(required)


def test_a_horizon_beyond_a_third_of_the_history_warns():
    came = records((1, "odd", 89.5, 1), (2, "odd", 3.2, 3))
    assert reason(coming(came, registered(89, 89), days=[30])) == (
        False,
        "rough: 30 days are more than a third of the history",
    )
    [row] = coming(came, registered(90, 90), days=[30]).to_dict("records")
    assert pd.isna(row["reason"])


def test_where_every_open_listing_is_beyond_there_is_no_number():
    episodes = flows((0, "entered", True, 12), (120, "open", True, 12))
    listings = records(*[(user, "discovered", 120, 120) for user in range(12)])
    lacks, why = reason(forecast(listings, episodes, back(), at=NOW, days=[30]))
    assert lacks
    assert why == "in 30 days every open listing will be older than any observed so far"


@pytest.mark.parametrize(
    ("days", "ahead", "bursts", "is_short"),
    [
        (90, 30, (10, 30, 50), True),
        (59, 7, (5, 10, 20, 30, 40, 45), True),
        (60, 7, (5, 10, 20, 30, 40, 45), False),
    ],
)
def test_too_few_bursts_of_new_listings_give_no_forecast(days, ahead, bursts, is_short):
    came = [(1, "odd", day + 0.1, day) for day in bursts for _ in range(20)]
    table = coming(records((1, "odd", days + 0.5, days), *came), registered(days), days=[ahead])
    lacks, why = reason(table)
    assert lacks == is_short
    message = "new listings arrived in bursts of about 20, and there were too few bursts to estimate a rate"
    assert (why == message) == is_short


@pytest.mark.parametrize(("size", "is_short"), [(10, False), (70, True)])
def test_weekly_runs_are_no_bursts(size, is_short):
    """Nine weekly runs found ten listings each, or each second one seventy together."""
    weeks = [*range(1, 10)] if size == 10 else [2, 5, 7]
    came = [(1, "odd", 7 * week + 0.1, 7 * week) for week in weeks for _ in range(size)]
    runs = pd.DataFrame({"finished_at": [NOW - timedelta(days=7 * week + 0.1) for week in range(12)]})
    table = coming(records((1, "odd", 77.5, 77), *came), registered(77), days=[30], runs=runs)
    lacks, why = reason(table)
    assert (lacks, "bursts of about 70" in why) == (is_short, is_short)


@pytest.mark.parametrize(("runs", "is_short"), [(3, True), (4, True), (5, False)])
def test_few_runs_give_no_forecast(runs, is_short):
    days = [30 * number for number in range(runs)]
    came = [(1, "odd", day + 0.1, day) for day in days[:-1] for _ in range(3)]
    finished = pd.DataFrame({"finished_at": [NOW - timedelta(days=day + 0.1) for day in days]})
    table = coming(records((1, "odd", days[-1] + 0.5, days[-1]), *came), registered(days[-1]), runs=finished)
    lacks, why = reason(table.iloc[:1])
    assert lacks == is_short
    assert (why == "runs are 30 days apart: a forecast needs at least 5") == is_short


def test_arrivals_are_counted_over_four_runs_at_least():
    came = [(1, "odd", 7 * week + 0.1, 7 * week) for week in range(1, 10) for _ in range(5)]
    listed = records((1, "odd", 77.5, 77), *came)
    runs = pd.DataFrame({"finished_at": [NOW - timedelta(days=7 * week + 0.1) for week in range(12)]})
    few, four = (coming(listed, registered(77), days=[7], arrivals_days=days, runs=runs) for days in (2, 28))
    pd.testing.assert_frame_equal(few, four)
    assert few["of_new"].tolist() == pytest.approx([5 * 3 / 4], rel=0.01)  # none in the newest week


def test_records_of_people_who_left_are_left_out():
    episodes = flows((0, "entered", False, 2), (20, "open", False, 1), (20, "unknown", False, 1))
    here = [(1, "discovered", 50, 50), (1, "removed", 9, 5)]
    left = [(2, "unknown", 50, 30), (2, "vanished", 9, 5), (2, "unknown", 5, 3)]
    table = forecast(records(*here, *left), episodes, back(3), at=NOW, days=[10])
    pd.testing.assert_frame_equal(table, forecast(records(*here), episodes, back(3), at=NOW, days=[10]))


def test_without_records_there_is_no_number():
    table = forecast(records(), flows(), back(), at=NOW)
    assert (shape(table), table["days"].tolist()) == (FORECAST, [30, 60, 90])
    assert table[NUMBERS].isna().all(axis=None)
    assert table["reason"].notna().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"days": days}, "days must be at least 1") for days in ([], [0], [30, -1])),
        *(({"level": level}, "level between 0 and 1") for level in (0, 1, -1, 95, float("nan"))),
        ({"arrivals_days": 0}, "arrivals_days: it must be at least 1"),
    ],
    ids=str,
)
def test_an_option_out_of_range_is_an_error(options, message):
    with pytest.raises(InvalidArgument, match=message):
        forecast(*a_chain(), at=NOW, **options)


def test_horizons_retain_their_order_and_naive_instants_are_utc():
    expected = forecast(*a_chain(), at=NOW, days=(90, 30))
    assert expected["days"].tolist() == [90, 30]
    again = forecast(*a_chain(), at=NOW.replace(tzinfo=None), days=(90, 30))
    pd.testing.assert_frame_equal(again, expected)
    alone = forecast(*a_chain(), at=NOW, days=[30])
    pd.testing.assert_frame_equal(alone, expected.iloc[[1]].reset_index(drop=True))


AHEADS = {7: 0.7, 30: 0.7, 60: 0.35}  # horizons, and the least share of worlds with a number at each
LEAST = 0.9  # of the true numbers within a 95% interval
CHANCE = 1e-3  # that a forecast which covers so many fails a test


def calibrated(worlds, every=1):
    """Calibrate every kind of world at two ages, in so many worlds each, with a run every so many days."""
    tables = [
        calibration(kind, [age + -age % every], aheads=[*AHEADS], every=every, worlds=worlds, first_seed=seed)
        for kind in KINDS
        for seed, age in ((0, 60), (4, 120))
    ]
    return pd.concat(tables, ignore_index=True)


def enough(numbers):
    """Return the fewest true numbers within the intervals that chance allows: a quantile of the binomial."""
    fewer = accumulate(comb(numbers, n) * LEAST**n * (1 - LEAST) ** (numbers - n) for n in range(numbers + 1))
    return next(n for n, chance in enumerate(fewer) if chance >= CHANCE)


def check_coverage(table):
    for (ahead,), rows in table.groupby(["ahead"]):
        total = rows[["worlds", "numbers", "inside"]].sum()
        assert total["numbers"] >= AHEADS[ahead] * total["worlds"]
        assert total["inside"] >= enough(int(total["numbers"])), rows.to_string()
    for _, rows in table.groupby(["kind", "ahead"]):
        numbers, inside = rows[["numbers", "inside"]].sum().astype("int64").tolist()
        assert inside >= enough(numbers), rows.to_string()


@pytest.mark.long
@pytest.mark.parametrize("every", [1, 7], ids=["daily runs", "weekly runs"])
def test_intervals_contain_what_came(every):
    """`python tests/support/forecast_calibration.py` prints the table of sixty worlds of every kind."""
    table = calibrated(3, every)
    check_coverage(table)
    numbers = int(table.loc[table["ahead"] == 30, "numbers"].sum())
    assert 0.8 * numbers < enough(numbers)  # coverage of four fifths would fail


@pytest.mark.parametrize("kind", ["slow sites relist", "quick sites relist in time"])
def test_each_part_is_unbiased_where_sites_differ(kind):
    [row] = calibration(kind, [120], worlds=12).to_dict("records")
    assert row["numbers"] == 12
    assert max(abs(row[f"bias_{part}"]) for part in EXPECTED) < 0.03


@pytest.mark.parametrize("kind", ["exponential", "mixed sites"])
def test_a_young_history_gives_no_forecast_for_a_month(kind):
    records, flows, relistings, people, _ = Life(KINDS[kind], 0).tables(20)
    [row] = forecast(records, flows, relistings, people=people, at=AT, days=[30]).to_dict("records")
    assert (pd.isna(row["open"]), "days of history" in row["reason"]) == (True, True)


@pytest.mark.parametrize("sites", [12, 2_000])
def test_a_hundred_thousand_records_are_forecast(sites):
    world = KINDS["mixed sites"]
    life = Life(replace(world, people=2_000, there=45, arrivals=100, sites=sites), 7)
    records, flows, relistings, people, _ = life.tables(120)
    assert len(records) > 95_000
    [row] = forecast(records, flows, relistings, people=people, at=AT, days=[30]).to_dict("records")
    assert row["low"] <= life.open_at(150) <= row["high"]
