"""What a history answers at its borders: where ids change, where nobody looked, and where a time is no day."""

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from history_kit import Clock, Person, Service, a_delivery, a_link, a_record, an_alert, seen_through

from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.history import History, ReceivedDelivery, reader

START = datetime(2026, 3, 1, tzinfo=UTC)


def at(day, hour=1):
    return START + timedelta(days=day, hours=hour)


@pytest.fixture(scope="module")
def seen():
    """A service, and an exposure of it."""
    service = Service()
    with seen_through(service) as exposure:
        yield service, exposure


class Remembered:
    """A history of a service whose people a test changes."""

    def __init__(self, path, service, exposure, by="id"):
        service.clear()
        self.service, self.exposure, self.clock = service, exposure, Clock()
        self.history = History(path / "history", clock=self.clock, records_by=by)

    def look(self, day, hour=1, **people):
        """An hour's look, at these people: ``one=[...]`` are the records of person 1."""
        for name, records in people.items():
            self.service.people[("nobody", "one", "two").index(name)] = Person(records)
        self.clock.set(at(day, hour), at(day, hour + 1))
        self.history.collect(self.exposure)


@pytest.fixture
def remembered(seen, tmp_path):
    return Remembered(tmp_path, *seen)


@pytest.fixture
def by_reference(seen, tmp_path):
    return Remembered(tmp_path, *seen, by="reference")


# --- where ids change ---------------------------------------------------------------------------------


def listing(record_id, status="discovered", site="PeepFinder", reference_id="007", **more):
    return a_record(record_id, status, site, reference_id=reference_id, **more)


def alerting(*records):
    """Person 1 has these records, and an alert about each and about a link."""
    alerts = [an_alert("Found", record) for record in records]
    alerts.append(an_alert("Seen", a_link("https://pages.example/1")))
    return Person([*records], [a_link("https://pages.example/1")], alerts)


def statuses(alerts):
    return [None if pd.isna(status) else status for status in alerts["status"]]


def test_an_alert_says_the_status_of_its_record_where_ids_change(by_reference):
    elsewhere = {"site": "Elsewhere", "reference_id": "8"}
    by_reference.service.people[1] = alerting(listing(11), listing(12, "removed", **elsewhere))
    by_reference.look(0)
    by_reference.service.people[1] = alerting(listing(21, "removed"), listing(22, "on hold", **elsewhere))
    by_reference.look(1)
    history = by_reference.history
    now = history.alerts().sort_values("site")
    assert statuses(now) == ["on hold", "removed", None]
    assert statuses(history.alerts(as_of=at(0, 3)).sort_values("site")) == ["removed", "discovered", None]


def test_an_alert_about_an_id_that_no_record_was_written_with_is_found_by_its_page_or_site(by_reference):
    page = {"href": "https://peepfinder.example/p/7"}
    by_reference.look(0, one=[listing(11, "on hold", **page), listing(12, reference_id="8")])
    by_reference.service.people[1] = alerting(
        listing(21, "on hold", **page), listing(22, reference_id="8"), listing(23, "removed", "Elsewhere")
    )
    by_reference.look(1)
    found = dict(
        zip(by_reference.history.alerts()["href"], statuses(by_reference.history.alerts()), strict=True)
    )
    assert found[page["href"]] == "on hold"
    assert "removed" in statuses(by_reference.history.alerts())


def test_an_alert_that_may_be_about_either_of_two_records_is_about_none(by_reference):
    records = [listing(11, "on hold"), listing(12, reference_id="8")]
    by_reference.look(0, one=records)
    again = [record | {"id": record["id"] + 10} for record in records]
    by_reference.service.people[1] = Person(again, [], [an_alert("Found", again[0])])
    by_reference.look(1)
    assert statuses(by_reference.history.alerts()) == [None]


def test_what_was_listed_again_has_its_key_and_the_newest_id_known(by_reference):
    by_reference.look(0, one=[listing(11)])
    by_reference.look(1, one=[listing(21, "removed", age=70)])
    by_reference.look(2, one=[listing(31)])
    history = by_reference.history
    [row] = history.relistings().to_dict("records")
    assert row["key"] == history.changes()["key"].iloc[0]
    assert row["record_id"] == history.records()["record_id"].iloc[0] == 31
    assert str(history.relistings()["record_id"].dtype) == "Int64"


def test_what_was_listed_again_has_its_id(remembered):
    for day, status in enumerate(("discovered", "removed", "discovered")):
        remembered.look(day, one=[a_record(2**62, status)])
    assert remembered.history.relistings()[["record_id", "key"]].to_numpy().tolist() == [[2**62, 2**62]]


# --- who was not seen ---------------------------------------------------------------------------------


def test_whom_the_list_lacked_was_not_seen(remembered):
    remembered.look(0, one=[a_record(11)], two=[a_record(12)])
    del remembered.service.people[2]
    remembered.service.miscount = 1
    remembered.look(1)
    remembered.service.miscount = 0
    for day in (2, 3):
        remembered.look(day)
    table = remembered.history.status_over_time()
    assert table[["people", "unseen"]].to_numpy().tolist() == [[2, 0], [2, 1], [2, 1], [1, 0]]


def test_days_without_a_good_look_count_until_now(remembered):
    remembered.look(0, one=[], two=[])
    remembered.service.broken = {2: "no user"}
    remembered.look(1)
    remembered.clock.set(at(6))
    table = remembered.history.stale()
    assert table[["user_id", "days"]].to_numpy().tolist() == [[2, 6.0]]
    assert remembered.history.stale("2026-03-05")["days"].tolist() == [6.0, 5.0]


@pytest.mark.parametrize("user", [np.int64(1), [np.int64(1)], np.array([1]), pd.Series([1]), (1,), {1}])
def test_a_person_is_asked_about_by_any_whole_number(remembered, user):
    remembered.look(0, one=[a_record(11)], two=[a_record(12), a_record(13)])
    assert remembered.history.status_over_time(user=user)["total"].tolist() == [1]


@pytest.mark.parametrize("user", ["1", b"1", True, 1.5, ["x"], [None], 2**63, pd.DataFrame({"user_id": [1]})])
def test_what_is_no_id_is_told(remembered, user):
    remembered.look(0, one=[a_record(11)])
    with pytest.raises(InvalidArgument, match="id of a person"):
        remembered.history.status_over_time(user=user)


def test_of_whom_nothing_was_seen_nothing_is_counted(remembered):
    remembered.look(0, one=[a_record(11)])
    told = a_delivery(2, {"discovered_records": [{"record": a_record(12)}]})
    remembered.history.ingest_deliveries([ReceivedDelivery(1, at(0, 3), "msg_1", told)], inbox="inbox")
    assert remembered.history.status_over_time(user=[1, 2])["total"].tolist() == [2]
    assert remembered.history.status_over_time(user=2)["discovered"].tolist()[-1] == 1
    with pytest.raises(
        NotFound, match=r"Nothing was ever collected of these people: \[3\]\. history\.people\(\)"
    ):
        remembered.history.status_over_time(user=[1, 3])


# --- durations ----------------------------------------------------------------------------------------


def test_who_came_back_into_view_counts_once_and_is_watched_from_then_on(remembered):
    remembered.look(0, one=[])
    remembered.look(1, one=[a_record(11)])
    person = remembered.service.people.pop(1)
    for day in (2, 3):
        remembered.look(day)
    remembered.service.people[1] = person
    remembered.look(6)
    remembered.look(9, one=[a_record(11, "removed")])
    [row] = remembered.history.time_to_removal(by=None).to_dict("records")
    assert [row[name] for name in ("n", "removed", "unknown", "open", "left_out")] == [1, 1, 1, 0, 0]
    flows = remembered.history.life_table()
    assert sorted(zip(flows["days"], flows["flow"], strict=True)) == [
        (0, "entered"),
        (2, "unknown"),
        (5, "returned"),
        (8, "removed"),
    ]


def test_what_was_there_at_first_and_came_back_the_same_day_counts_once(remembered):
    remembered.look(0, 1, one=[a_record(11)])
    person = remembered.service.people.pop(1)
    for hour in (3, 5):
        remembered.look(0, hour)
    remembered.service.people[1] = person
    remembered.look(0, 7)
    remembered.look(4, one=[a_record(11, "removed")])
    history = remembered.history
    counted = history.time_to_removal(by=None, left_censored=True)
    assert counted[["n", "removed", "unknown"]].to_numpy().tolist() == [[1, 1, 1]]
    assert history.time_to_removal(by=None)["left_out"].tolist() == [1]


def test_what_was_removed_when_out_of_view_and_is_back_began_anew(remembered):
    remembered.look(0, one=[a_record(11, "removed")])
    person = remembered.service.people.pop(1)
    for day in (1, 2):
        remembered.look(day)
    person.records = [a_record(11)]
    remembered.service.people[1] = person
    remembered.look(4)
    assert remembered.history.time_to_removal()[["n", "open"]].to_numpy().tolist() == [[1, 1]]


@pytest.mark.parametrize("question", ["time_to_removal", "survival"])
def test_a_duration_is_asked_for_until_the_end_of_a_day(remembered, question):
    remembered.look(0, one=[])
    remembered.look(1, one=[a_record(11)])
    remembered.look(3)
    ask = getattr(remembered.history, question)
    for instant in (at(2), "2026-03-03T12:00Z", pd.Timestamp("2026-03-03")):
        with pytest.raises(InvalidArgument, match="as_of must be a day, such as 2026-11-13"):
            ask(as_of=instant)
    pd.testing.assert_frame_equal(ask(as_of=date(2026, 3, 3)), ask(as_of="2026-03-03"))
    assert not ask(as_of="2026-03-03").equals(ask())
    pd.testing.assert_frame_equal(ask(as_of="2030-01-01"), ask())


@pytest.mark.parametrize(
    "when",
    [
        *(
            "9999-12-31",
            date.max,
            "9999-12-31T23:59:59.999999Z",
            datetime.max.replace(tzinfo=UTC),
            pd.NaT,
            np.nan,
            20261113,
            True,
        ),
        *(np.int64(20261113), "", "soon", ["2026-03-01", "2026-03-02"], {}),
    ],
)
def test_what_is_no_time_is_refused_by_every_question(remembered, when):
    remembered.look(0, one=[a_record(11)])
    history = remembered.history
    for ask in (history.diff, history.records, history.by_site, history.stale):
        with pytest.raises(InvalidArgument, match="A time is 14d, 2w or 36h"):
            ask(when)


def test_what_nobody_can_be_seen_through_is_refused(remembered):
    history, exposure = remembered.history, remembered.exposure
    for source in ("x", None, exposure.client):
        with pytest.raises(InvalidArgument, match="collect\\(\\) needs an Exposure"):
            history.collect(source)
    with pytest.raises(InvalidArgument, match="The name of a run is plain text"):
        history.collect(exposure, run=5)
    for given in ({"shard": 5}, {"shard": "3/2"}, {"shard": "1/2"}, {"only": "x"}, {"only": [1.5]}):
        with pytest.raises(InvalidArgument):
            history.collect(exposure, **given)
    assert not history.pending_runs()


# --- the borders of a diff ----------------------------------------------------------------------------


def test_a_diff_from_after_the_last_look_says_what_is_known_until_when(remembered):
    remembered.look(0, one=[a_record(11)])
    remembered.look(1, one=[a_record(11, "removed")])
    history = remembered.history
    for a, b in ((at(5), None), ("2026-03-05", "2026-03-07")):
        with pytest.raises(NotFound, match="Nothing was observed after 2026-03-02 02:00 UTC"):
            history.diff(a, b)
    with pytest.raises(InvalidArgument, match="b must not be before a"):
        history.diff("2026-03-02", "2026-03-01")


def test_a_diff_begins_after_its_first_instant_and_ends_with_its_last(remembered):
    remembered.look(0, one=[a_record(11)])
    remembered.look(1, one=[a_record(11, "removed")])
    history, moved = remembered.history, at(1, 2)
    just_before = moved - timedelta(microseconds=1)
    assert repr(history.diff(at(0, 2), moved)) == "Diff(1 removed)"
    assert repr(history.diff(at(0, 2), just_before)) == "Diff(1 unchanged)"
    assert repr(history.diff(just_before)) == "Diff(1 removed)"
    assert repr(history.diff(moved)) == "Diff(1 unchanged)"
    assert repr(history.diff("2026-03-02")) == "Diff(1 unchanged)"
    assert repr(history.diff("2026-03-01", "2030-01-01")) == "Diff(1 removed)"


@pytest.mark.parametrize("kind", ["records", "links", "alerts"])
def test_things_that_are_too_many_at_once_are_asked_of_bucket_by_bucket(remembered, monkeypatch, kind):
    remembered.look(0, one=[a_record(13), a_record(11)], two=[a_record(12)])
    remembered.service.people[1] = alerting(a_record(13), a_record(10), a_record(14, "removed"))
    remembered.service.people[2] = alerting(a_record(12, "removed"), a_record(9))
    remembered.look(1)
    together = getattr(remembered.history, kind)()
    monkeypatch.setattr(reader, "MAX_JOIN_ROWS", 1)
    pd.testing.assert_frame_equal(getattr(remembered.history, kind)(), together)
    assert together["user_id"].is_monotonic_increasing


# --- what could not be read is not gone ---------------------------------------------------------------


def statuses_of(history):
    return history.records().set_index("record_id")["status"].to_dict()


@pytest.mark.parametrize("odd", [None, 7, {"site": "PeepFinder"}, {"record": a_record(2) | {"id": None}}])
def test_a_record_that_cannot_be_read_is_not_gone(remembered, odd):
    remembered.look(0, one=[a_record(1), a_record(2)])
    with pytest.warns(UserWarning, match="deviate"):
        remembered.look(1, one=[a_record(1), odd])
    assert statuses_of(remembered.history) == {1: "discovered", 2: "discovered"}
    remembered.look(2, one=[a_record(1)])
    assert statuses_of(remembered.history) == {1: "discovered", 2: "vanished"}


@pytest.mark.parametrize("odd", [None, "none", 7])
def test_a_list_that_cannot_be_read_is_not_empty(remembered, odd):
    remembered.look(0, one=[a_record(1)])
    with pytest.warns(UserWarning, match="deviate"):
        remembered.look(1, one=odd)
    assert statuses_of(remembered.history) == {1: "discovered"}


def test_a_status_that_cannot_be_read_changes_nothing(remembered):
    remembered.look(0, one=[a_record(1, "pending removal"), a_record(2, "removed"), a_record(3)])
    with pytest.warns(UserWarning, match="deviate"):
        remembered.look(1, one=[a_record(n) | {"status": None} for n in (1, 2, 4)])
    assert statuses_of(remembered.history) == {
        1: "pending removal",
        2: "removed",
        3: "vanished",
        4: "listed",
    }
    remembered.look(2, one=[a_record(4)])
    assert statuses_of(remembered.history)[4] == "discovered"
