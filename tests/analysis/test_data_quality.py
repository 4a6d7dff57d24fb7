"""Data quality: intervals as published, the limits of each age, and sites that look broken."""

import math
from datetime import UTC, datetime, timedelta
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.payloads import TEXT
from support.tables import rows, shape

from exposurekit.analysis import coverage, precision, site_health
from exposurekit.errors import InvalidArgument

NOW = datetime(2026, 3, 8, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
HOSTILE = ["<b>x</b>", "nan", "None", "", " ", "\u202eevil", "a\x00", "unlabelled", "mine", "site"]
PRECISION = {
    "site": "str",
    **dict.fromkeys(["mine", "not mine", "unsure", "unlabelled"], "int64"),
    **dict.fromkeys(["precision", "low", "high"], "float64"),
}
AGES = ["within a day", "within a week", "within a month", "longer ago", "never"]
WENT = ["whole", "partial", "failed", "missed", "other"]
COVERAGE = {"last_complete_load": "str", **dict.fromkeys([*WENT, "people"], "int64")}
HEALTH = {
    "site": "str",
    **dict.fromkeys(["open", "vanished", "vanished_at_once"], "int64"),
    **dict.fromkeys(["newest_at", "changed_at"], "datetime64[us, UTC]"),
    "quiet_days": "float64",
    "is_doubtful": "bool",
}


def labelled(*findings):
    """Findings as (site, label)."""
    table = pd.DataFrame(findings, columns=["site", "label"], dtype="object")
    return table.astype({"site": "category", "label": "str"})


@pytest.mark.parametrize(
    ("mine", "of", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_interval_is_the_published_one(mine, of, low, high):
    """Newcombe, Stat. Med. 17 (1998), 857, table I, method 3."""
    table = precision(labelled(*[("A", "mine")] * mine, *[("A", "not mine")] * (of - mine)))
    assert table["precision"].tolist() == [mine / of]
    assert (table["low"].iloc[0], table["high"].iloc[0]) == pytest.approx((low, high), abs=0.00005)


def test_each_label_has_a_column_and_unsure_is_ignored():
    table = precision(labelled(("A", "mine"), ("A", "not mine"), ("A", "unsure"), ("A", None), ("B", None)))
    assert shape(table) == PRECISION
    assert rows(table)[0][:6] == ("A", 1, 1, 1, 1, 0.5)
    assert rows(table)[1][:5] == ("B", 0, 0, 0, 1)
    assert table.loc[1, ["precision", "low", "high"]].isna().all()
    assert table.loc[0, "low"] == pytest.approx(1 - table.loc[0, "high"])


def test_sites_sort_by_number_of_labels_then_name():
    labels = {"c": ["mine"], "b": ["not mine", "mine"], "a": ["unsure"] * 2, "d": ["mine"], "B": [None]}
    table = precision(labelled(*((site, label) for site, some in labels.items() for label in some)))
    assert table["site"].tolist() == ["b", "c", "d", "B", "a"]


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["A", "B"]) | TEXT | st.sampled_from(HOSTILE),
            st.sampled_from(["mine", "not mine", "unsure", None]),
        ),
        max_size=15,
    ),
    st.floats(0.01, 0.999),
)
def test_the_interval_solves_wilsons_equation(findings, level):
    """Its limits are the shares p at which |share - p| = z sqrt(p (1 - p) / n)."""
    table = precision(labelled(*findings), level=level)
    z = NormalDist().inv_cdf((1 + level) / 2)
    assert sorted(table["site"]) == sorted({site for site, _ in findings})
    for row in table.to_dict("records"):
        labels = [label for site, label in findings if site == row["site"]]
        counts = [labels.count(label) for label in ("mine", "not mine", "unsure", None)]
        assert [row[name] for name in [*PRECISION][1:5]] == counts
        n = counts[0] + counts[1]
        for limit in (row["low"], row["high"]) if n else ():
            assert abs(row["precision"] - limit) == pytest.approx(
                z * math.sqrt(limit * (1 - limit) / n), abs=1e-6
            )
            assert 0 <= row["low"] <= row["precision"] <= row["high"] <= 1


def people(*entries):
    """People as (time of the last complete load, outcome of the last load, whether they are listed)."""
    table = pd.DataFrame(
        [(*one, True)[:3] for one in entries], columns=["last_complete_at", "outcome", "listed"]
    )
    kinds = {"last_complete_at": "datetime64[us, UTC]", "outcome": "str", "listed": "bool"}
    return table.astype(kinds)


@pytest.mark.parametrize(
    ("age", "row_index"),
    [
        (timedelta(0), 0),
        (-TICK, 0),  # a run that began just now
        (DAY, 0),
        (DAY + TICK, 1),
        (7 * DAY, 1),
        (7 * DAY + TICK, 2),
        (30 * DAY, 2),
        (30 * DAY + TICK, 3),
        (9_999 * DAY, 3),
        (None, 4),
        (-DAY, 0),
        (-DAY - TICK, 3),  # a clock was ahead
    ],
    ids=str,
)
def test_each_age_has_its_borders(age, row_index):
    table = coverage(people((None if age is None else NOW - age, "whole")), at=NOW)
    assert shape(table) == COVERAGE
    assert table["last_complete_load"].tolist() == AGES
    assert table["people"].tolist() == [int(row == row_index) for row in range(5)]


@pytest.mark.parametrize("outcome", [*WENT[:4], "absent", "reported", "Whole", "", "<b>whole</b>", None])
def test_each_outcome_of_the_last_load_has_a_column(outcome):
    table = coverage(people((NOW, outcome)), at=NOW)
    column = outcome if outcome in WENT else "other"
    assert rows(table.head(1)) == [("within a day", *(int(name == column) for name in WENT), 1)]


def test_people_who_are_not_listed_do_not_count():
    table = coverage(people((NOW, "whole", False), (None, "failed", False), (NOW, "whole")), at=NOW)
    assert table["people"].tolist() == [1, 0, 0, 0, 0]


def test_an_instant_without_a_zone_is_utc():
    loads = people((NOW - DAY, "whole"), (NOW - DAY - TICK, "failed"))
    expected = coverage(loads, at=NOW)
    elsewhere = NOW.astimezone(datetime.strptime("+0530", "%z").tzinfo)
    for at in (NOW.replace(tzinfo=None), pd.Timestamp(NOW), elsewhere):
        pd.testing.assert_frame_equal(coverage(loads, at=at), expected)
    with pytest.raises(InvalidArgument, match="the instant must be a datetime, ") as caught:
        coverage(loads, at="sometime")
    assert "sometime" not in str(caught.value)


def test_without_people_the_five_rows_are_zero():
    for none in (people(), people().astype("object"), people((NOW, "whole", False))):
        table = coverage(none, at=NOW)
        assert shape(table) == COVERAGE
        assert rows(table) == [(age, *[0] * 6) for age in AGES]


@settings(max_examples=20)
@given(
    st.lists(st.tuples(st.integers(-1, 40) | st.none(), st.sampled_from([*WENT, "absent"]), st.booleans()))
)
def test_every_listed_person_counts_once(loads):
    table = coverage(people(*((None if d is None else NOW - d * DAY, *more) for d, *more in loads)), at=NOW)
    listed = [(days, outcome) for days, outcome, is_listed in loads if is_listed]
    assert int(table["people"].sum()) == len(listed)
    assert (table[WENT].sum(axis=1) == table["people"]).all()
    assert table["whole"].sum() == sum(outcome == "whole" for _, outcome in listed)
    assert table["people"].iloc[1] == sum(days is not None and 1 < days <= 7 for days, _ in listed)


def records(*entries):
    """Records as (site, status, first day, day of the last change, how many)."""
    rows = [one[:4] for one in entries for _ in range((*one, 1)[4])]
    table = pd.DataFrame(rows, columns=["site", "status", "first_seen_at", "changed_at"], dtype="object")
    for name in ("first_seen_at", "changed_at"):
        table[name] = pd.to_datetime(pd.Series([NOW + day * DAY for day in table[name]]), utc=True).astype(
            HEALTH["newest_at"]
        )
    return table.astype({"site": "category", "status": "category"})


def doubtful(*entries):
    return site_health(records(*(("A", *one) for one in entries)), at=NOW)["is_doubtful"].tolist()


def test_a_site_has_its_record_counts_and_its_last_change():
    table = site_health(
        records(
            ("A", "discovered", -9, -9, 2),
            ("A", "vanished", -8, -3, 2),
            ("A", "vanished", -8, -4),
            ("A", "removed", -7, -2),
            ("A", "pending removal", -6, -2.5),
            ("A", "unknown", -9, -5),
        ),
        at=NOW,
    )
    assert shape(table) == HEALTH
    assert rows(table) == [("A", 3, 3, 2, NOW - 6 * DAY, NOW - 2 * DAY, 2.0, False)]


@pytest.mark.parametrize(
    ("vanished", "stayed", "expected"),
    [(5, 0, True), (4, 0, False), (5, 5, True), (5, 6, False), (50, 50, True), (50, 51, False)],
)
def test_a_site_losing_half_its_records_at_once_is_suspect(vanished, stayed, expected):
    both = [("vanished", -9, -1, vanished), ("discovered", -9, -9, stayed)]
    assert doubtful(*both) == [expected]


def test_gradual_vanishing_is_not_suspect():
    assert doubtful(*(("vanished", -30, -day) for day in range(1, 20))) == [False]


def test_a_drop_is_compared_with_records_open_then():
    gone = ("vanished", -9, -5, 5)
    assert doubtful(gone, ("removed", -9, -3, 6)) == [False]  # these were open until later
    assert doubtful(gone, ("vanished", -9, -3, 6)) == [True]  # the second time, all that was left
    assert doubtful(gone, ("vanished", -9, -3, 4), ("vanished", -9, -2), ("vanished", -9, -1)) == [False]
    assert doubtful(gone, ("removed", -9, -7, 6)) == [True]  # these had ended before
    assert doubtful(gone, ("discovered", -4, -4, 60)) == [True]  # these came later, as under other names


def test_a_site_that_was_once_doubtful_stays_so():
    assert doubtful(("vanished", -90, -80, 5), ("vanished", -20, -10, 9), ("discovered", -20, -20, 50)) == [
        True
    ]


def test_each_site_is_judged_alone_and_suspect_ones_come_first():
    fine, broken = ("discovered", -9, -9, 9), ("vanished", -9, -1, 5)
    table = site_health(records(("a", *fine), ("c", *broken), ("b", *broken), ("B", *fine)), at=NOW)
    assert table["site"].tolist() == ["b", "c", "B", "a"]
    assert table["is_doubtful"].tolist() == [True, True, False, False]


@pytest.mark.parametrize("site", HOSTILE)
def test_a_site_may_have_any_name(site):
    assert site_health(records((site, "<i>odd</i>", -1, -1)), at=NOW)[["site", "open"]].values.tolist() == [
        [site, 1]
    ]
    assert precision(labelled((site, "mine")))["site"].tolist() == [site]


def test_a_hundred_thousand_records_are_judged():
    n, chance = 100_000, np.random.default_rng(7)
    site = chance.integers(0, 500, n)
    labels = pd.DataFrame(
        {
            "site": pd.Categorical.from_codes(site, [f"Site {k:03}" for k in range(500)]),
            "label": pd.Series(chance.choice(["mine", "not mine", "unsure"], n), dtype="str"),
            "status": pd.Categorical(
                np.where(site == 7, "vanished", chance.choice(["discovered", "vanished"], n))
            ),
            "first_seen_at": NOW - 300 * DAY,
            "changed_at": NOW - pd.to_timedelta(np.where(site == 7, 3, chance.integers(0, 200, n)), unit="D"),
        }
    )
    assert int(precision(labels)[["mine", "not mine", "unsure"]].to_numpy().sum()) == n
    health = site_health(labels, at=NOW)
    assert health.loc[health["is_doubtful"], "site"].tolist() == ["Site 007"]
    assert int(health["open"].sum() + health["vanished"].sum()) == n
