"""Minutes of a step: learned from ticks, drawn to the default while there are few, and without pauses."""

import numpy as np
import pandas as pd
import pytest

from exposurekit.analysis import minutes_spent, step_minutes, work_queue
from exposurekit.analysis.step_minutes import STEP_MINUTES
from exposurekit.errors import InvalidArgument

START = pd.Timestamp("2026-03-01T09:00Z")


def ticked(*ticks):
    """Timed ticks, each right after the other: site, minutes."""
    sites, minutes = zip(*ticks, strict=True)
    at = START + pd.to_timedelta(np.cumsum(minutes), unit="min")
    keys = range(len(ticks))
    return pd.DataFrame(
        {"user_id": 1, "kind": "record", "key": keys, "site": sites, "minutes": minutes, "marked_at": at}
    )


def learned(*ticks):
    table = step_minutes(ticked(*ticks)).set_index("site")
    return table["minutes"].to_dict(), table["ticks"].to_dict()


def test_many_ticks_outweigh_the_default_and_few_do_not():
    minutes, n = learned(("Near", 9.0), *[("Near", 0.5)] * 200)
    assert n == {"Near": 200}
    assert minutes["Near"] == pytest.approx(0.5, rel=0.05)
    minutes, n = learned(("Near", 9.0), ("Near", 0.5))
    assert n == {"Near": 1}
    assert 0.7 < minutes["Near"] < STEP_MINUTES


def test_sites_are_told_apart_by_their_ticks():
    """Steps of a lognormal duration with means of one and six minutes."""
    rng = np.random.default_rng(1)
    means = {"Quick": 1.0, "Slow": 6.0}
    ticks = [
        (site, mean * duration) for site, mean in means.items() for duration in rng.lognormal(-0.08, 0.4, 80)
    ]
    minutes, _ = learned(*ticks)
    assert minutes == {site: pytest.approx(mean, rel=0.15) for site, mean in means.items()}


def test_what_says_nothing_about_a_step_is_dropped():
    """The first tick of a visit, a pause, and ticks that catch up."""
    ticks = [("Near", 20.0), ("Far", 20.0), ("Near", 20.0), ("Near", 31.0), ("Near", 0.01)]
    assert learned(*ticks) == ({}, {})
    minutes, n = learned(*ticks, ("Near", 1.0))
    assert n == {"Near": 1}
    assert 1 < minutes["Near"] < STEP_MINUTES
    assert minutes_spent(ticked(*ticks)) == (pytest.approx(60.01), 4)
    # Three steps that were ticked at once in 45 minutes: a pause.
    at_once = ticked(*[("Near", 15.0)] * 3).assign(marked_at=START)
    assert minutes_spent(at_once) == (0, 0)
    assert step_minutes(
        pd.concat([ticked(("Near", 1.0)), at_once.assign(marked_at=START + pd.Timedelta(hours=1))])
    ).empty


def test_steps_ticked_at_once_are_one_tick():
    first = ticked(("Near", 1.0)).assign(marked_at=START)
    listing = ticked(*[("Near", 2.0)] * 5).assign(marked_at=START + pd.Timedelta(minutes=10))
    assert step_minutes(pd.concat([first, listing]))["ticks"].tolist() == [1]
    # One of them has a note, and is saved right after the others.
    noted = listing.assign(marked_at=listing["marked_at"] + pd.to_timedelta([0, 0, 0, 0, 9], unit="us"))
    assert step_minutes(noted).empty
    assert step_minutes(pd.concat([first, noted]))["ticks"].tolist() == [1]


def test_a_work_queue_takes_minutes_by_site():
    columns = {"user_id": 1, "step_number": 1, "status": "discovered", "url": "https://seekfolk.example/1"}
    steps = pd.DataFrame({"alert_number": [0, 1], "site": ["Near", "Far"], "record_id": [1, 2]})
    steps = steps.assign(**columns, label="mine")  # so that no listing has to be checked
    minutes = work_queue(steps, step_minutes={"Near": 0.5}).set_index("site")["minutes"]
    assert minutes.to_dict() == {"Near": 3.5, "Far": 5.0}
    assert work_queue(steps, step_minutes={})["minutes"].tolist() == [5, 5]
    for wrong in ({"Near": -1.0}, {"Near": np.inf}, -1.0):
        with pytest.raises(InvalidArgument, match="step_minutes"):
            work_queue(steps, step_minutes=wrong)
    with pytest.raises(InvalidArgument, match="default"):
        step_minutes(ticked(("Near", 1.0)), default=0)
