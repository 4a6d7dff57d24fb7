"""Who is erased, and what is known of them when the service lists them still."""

from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from support.histories import DAWN, Clock, Person, Service, a_link, a_record, an_alert, seen_through

from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.history import History

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def served_exposure():
    service = Service()
    with seen_through(service) as exposure:
        yield service, exposure


def person(user_id, status="discovered"):
    record = a_record(10 * user_id, status)
    return Person([record], [a_link(f"https://page.example/{user_id}")], [an_alert("Look", record)])


@pytest.fixture(scope="module")
def shared_history(served_exposure, tmp_path_factory):
    """A history of persons 1 and 2, which no test changes."""
    service, exposure = served_exposure
    service.people = {1: person(1), 2: person(2)}
    with History(tmp_path_factory.mktemp("known") / "history") as history:
        history.collect(exposure, progress=False)
        yield history


@pytest.fixture
def erasable(served_exposure, tmp_path):
    """Two looks at persons 1 and 2, on two days; and what makes one on another day."""
    service, exposure = served_exposure
    service.people = {1: person(1), 2: person(2)}
    clock = Clock()
    history = History(tmp_path / "history", clock=clock)

    def collect(day, **more):
        clock.set(DAWN + day * DAY)
        return history.collect(exposure, progress=False, **more)

    collect(0)
    collect(1)
    return history, service, clock, collect


@pytest.mark.parametrize(
    "user_id",
    [2.7, 2.0, True, np.True_, np.float64(2), None, [2], (2,), "2", -1, 2**63, pd.NA, np.array([2])],
)
def test_only_a_whole_number_is_a_person(shared_history, user_id):
    before = shared_history.changes()
    for ask in (shared_history.erase, shared_history.personal_values):
        with pytest.raises(InvalidArgument, match="A user id is an integer"):
            ask(user_id)
    assert shared_history.changes().equals(before)


def test_a_key_of_a_person_is_no_id(shared_history, served_exposure):
    _, exposure = served_exposure
    with pytest.raises(InvalidArgument):
        shared_history.erase(exposure.key(2))


@pytest.mark.parametrize("kind", [int, np.int64, np.uint8, np.int32])
def test_whole_numbers_of_any_make_are_ids(erasable, kind):
    history, *_ = erasable
    assert history.personal_values(kind(2))
    assert history.erase(kind(2)) > 0
    assert set(history.changes()["user_id"]) == {1}
    assert history.erase(kind(0)) == 0


def test_whom_the_service_lists_still_comes_back_as_a_baseline(erasable):
    """None of it is news: nothing tells any more that it was seen before, nor that it was not."""
    history, service, clock, collect = erasable
    clock.set(DAWN + 2 * DAY)
    history.erase(2)
    run = collect(3)
    counted = {name: run.counts[name] for name in ("new", "entered_scope", "links_new", "alerts_new")}
    assert counted == {"new": 0, "entered_scope": 1, "links_new": 0, "alerts_new": 0}
    back = history.changes().query("user_id == 2")
    assert back["left_censored"].all()
    assert back["not_before"].isna().all()
    service.people[2] = person(2, "removed")
    collect(4)
    moved = history.diff(DAWN + DAY).counts.set_index("what")["n"]
    assert moved[["new", "removed", "entered scope"]].tolist() == [0, 1, 1]
    assert history.time_to_removal(by=None)["removed"].sum() == 0
    assert history.verify() == {}


def test_registering_after_a_run_begun_after_the_erasure_is_new(erasable):
    history, service, clock, collect = erasable
    clock.set(DAWN + 2 * DAY)
    history.erase(2)
    del service.people[2]
    service.people[3] = person(3)
    assert collect(3).new == 0  # unseen before as far as is known; who was erased is not known
    service.people[4] = person(4)
    assert collect(4).new == 1
    changes_by_user = history.changes().query("kind == 'record'").set_index("user_id")
    assert changes_by_user["left_censored"].to_dict() == {1: True, 3: True, 4: False}
    assert changes_by_user.loc[4, "not_before"] == DAWN + 3 * DAY


def test_a_run_begun_before_the_erasure_reports_nobody_as_new(erasable):
    history, _, clock, collect = erasable
    collect(2, run="shared", shard="1/2")
    clock.set(DAWN + 3 * DAY)
    history.erase(1)
    assert collect(3, run="shared", shard="2/2").seq == 3
    assert collect(4).new == 0
    assert history.changes().query("user_id == 1")["left_censored"].all()


def test_the_instant_of_an_erasure_is_kept_and_nobodys_id(erasable, tmp_path):
    history, _, clock, _ = erasable
    clock.set(DAWN + 2 * DAY)
    history.erase(2)
    manifest = (tmp_path / "history" / "history.json").read_text()
    assert manifest == '{"records_by": "id", "format": 3, "erased_at": "2026-03-03T20:00:00+00:00"}'
    (tmp_path / "history" / "history.json").write_text('{"records_by": "id", "erased_at": "soon"}')
    with pytest.raises(ConfigurationError, match="put it back from a copy"):
        History(tmp_path / "history")
