"""What is worked out from a history, beside what the world of the demo knows: when listings were really gone, and stay."""

from datetime import timedelta

import numpy as np
import pytest

import exposurekit as ek
from exposurekit.sandbox.evaluation import GRACE_PERIOD

pytestmark = pytest.mark.long  # two months pass
DAYS, FOLLOWED = 63, 28  # sites list nobody again within a month
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=15, days=DAYS, seed=7) as demo:  # that of the notebooks, which may be cached
        yield demo


def run_times(demo):
    """When each day ended."""
    return [at.to_pydatetime() for at in demo.history.runs()["finished_at"]]


def really(demo, record, until):
    """For how many days a listing was there from when it was first seen, and whether it was gone by then."""
    at = record.first_seen_at.to_pydatetime()
    while at <= until:
        if not demo.world.is_listed(record.site, record.reference_id, at):
            return (at - record.first_seen_at).days, True
        at += DAY
    return (until - record.first_seen_at).days, False


def share_left(days, gone):
    """The share that is still there after so many days, by somebody else's Kaplan-Meier."""
    from lifelines import KaplanMeierFitter

    fitted = KaplanMeierFitter().fit(days, gone)
    return lambda at: float(fitted.predict(at)) if at >= 0 else 1.0


def test_removals_are_reported_within_two_runs_and_never_early(demo):
    """A service scans weekly, and looks twice: what is told lies between the truth, and the truth two weeks before."""
    until = run_times(demo)[FOLLOWED]
    records = demo.history.records(as_of=until.date())
    days, gone = np.array([really(demo, record, until) for record in records.itertuples()]).T
    truth = share_left(days, gone)
    curve = demo.history.survival(as_of=until.date(), left_censored=True)
    survival_by_age = {row.days: row.survival for row in curve.itertuples()}
    assert len(records) > 50
    assert 0.1 < truth(FOLLOWED - GRACE_PERIOD.days) < 0.6  # there is something to be told
    for day in range(FOLLOWED - 7):  # by then most are followed no longer
        left = survival_by_age[max(age for age in survival_by_age if age <= day)]
        assert truth(day) - 0.02 <= left <= truth(day - GRACE_PERIOD.days) + 0.02


def test_what_was_forecast_came(demo):
    """Where there is a number, its 95 % interval holds what the world came to; a young history gives none."""
    by_day = demo.agreement_by_day().set_index("at")
    ends = run_times(demo)
    [young] = demo.history.forecast([30], as_of=ends[14].date()).itertuples()
    assert np.isnan(young.open)
    assert "30 days ahead require 60 days of history" in young.reason
    within = []
    for day in range(24, 45, 4):
        for ahead in (7, 14):
            [expected] = demo.history.forecast([ahead], as_of=ends[day].date()).itertuples()
            if not np.isnan(expected.open):
                came = by_day.loc[ends[day + ahead], "open"]
                within.append(expected.low <= came <= expected.high)
    assert len(within) >= 8
    assert sum(within) >= len(within) - 2
