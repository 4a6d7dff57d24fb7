"""Removal times and forecasts from a history, compared with the true listings of the demo's world."""

from datetime import timedelta

import numpy as np
import pytest

import exposurekit as ek
from exposurekit.sandbox.evaluation import GRACE_PERIOD

pytestmark = pytest.mark.long  # two months are simulated
DAYS, FOLLOWED = 63, 28  # no site relists anyone within a month
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=15, days=DAYS, seed=7) as demo:  # that of the notebooks, which may be cached
        yield demo


def run_times(demo):
    return [at.to_pydatetime() for at in demo.history.runs()["finished_at"]]


def true_duration(demo, record, until):
    """The days for which a listing was up after it was first seen, and whether it was gone by then."""
    at = record.first_seen_at.to_pydatetime()
    while at <= until:
        if not demo.world.is_listed(record.site, record.reference_id, at):
            return (at - record.first_seen_at).days, True
        at += DAY
    return (until - record.first_seen_at).days, False


def test_removals_are_reported_within_two_runs_and_never_early(demo):
    """A weekly scan verifies a removal twice: the curve lies between the truth and the truth two weeks before."""
    from lifelines import KaplanMeierFitter

    until = run_times(demo)[FOLLOWED]
    records = demo.history.records(as_of=until.date())
    fitted = KaplanMeierFitter().fit(
        *np.array([true_duration(demo, record, until) for record in records.itertuples()]).T
    )

    def truth(day):
        return float(fitted.predict(day)) if day >= 0 else 1.0

    curve = demo.history.survival(as_of=until.date(), left_censored=True)
    survival_by_age = {row.days: row.survival for row in curve.itertuples()}
    assert len(records) > 50
    assert 0.1 < truth(FOLLOWED - GRACE_PERIOD.days) < 0.6
    for day in range(FOLLOWED - 7):  # later, few are followed
        reported = survival_by_age[max(age for age in survival_by_age if age <= day)]
        assert truth(day) - 0.02 <= reported <= truth(day - GRACE_PERIOD.days) + 0.02


def test_forecast_intervals_contain_what_happened(demo):
    """95% intervals contain the later number of open records; a young history has no forecast."""
    counts = demo.history.status_over_time(every="run")
    open_counts = (counts["total"] - counts["removed"]).tolist()
    ends = run_times(demo)
    [young] = demo.history.forecast([30], as_of=ends[14].date()).itertuples()
    assert np.isnan(young.open)
    assert "30 days ahead require 60 days of history, and listings were observed for " in young.reason
    within = []
    for day in range(24, 45, 4):
        forecasts = demo.history.forecast([7, 14], as_of=ends[day].date())
        for ahead, expected in zip((7, 14), forecasts.itertuples(), strict=True):
            if not np.isnan(expected.open):
                within.append(expected.low <= open_counts[day + ahead] <= expected.high)
    assert len(within) >= 8
    assert sum(within) >= len(within) - 2


def test_one_site_of_a_demo_takes_longer_than_it_declares(demo):
    declared = demo.history.declared_days().set_index("site")["declared_days"]
    times = demo.history.declared_vs_observed().set_index("site")
    assert declared.to_dict() == demo.world.declared_days
    assert times.index[times["takes_longer"].fillna(value=False)].tolist() == ["Doorbell Almanac"]
    assert times.loc["Doorbell Almanac", "declared_days"] == 7
    assert times.loc["Tattleberry", "due"] > 5
    assert not times.loc["Tattleberry", "takes_longer"]


def test_a_report_names_the_sites_that_removed_nothing(demo):
    table = demo.history.time_to_removal()
    is_idle = table["removed"] + table["first_removed"] == 0
    never, unrequested = (
        table.loc[is_idle & rows, "site"].astype("str").tolist()
        for rows in (table["requested"] > 0, table["requested"] == 0)
    )
    [section] = [one for one in ek.report(demo.history).sections if one.key == "time_to_removal"]
    assert never
    assert len(unrequested) > 1
    idle = table[table["site"].isin(never)]
    n, others = idle["requested"].sum(), idle["n"].sum() - idle["requested"].sum()
    begin = f"No removals were observed on {' or '.join(never)}, although {n} were requested; "
    assert others > 1
    beginnings = (
        f"{begin}{others} other listings there had no request, ",
        f"No requests have been seen on {', '.join(unrequested[:-1])} or ",
    )
    assert all(any(point.startswith(words) for point in section.points) for words in beginnings)
