"""Queries in unusual cases: ids that change, people who could not be loaded, and the limits of periods."""

import shutil
import warnings
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.histories import Clock, Person, a_delivery, a_link, a_record, an_alert

from exposurekit import analysis, charts
from exposurekit.analysis.selection import NoMatch
from exposurekit.errors import InvalidArgument, MissingColumns, NotFound
from exposurekit.history import History, ReceivedDelivery
from exposurekit.history.engines.duckdb import DuckDB
from exposurekit.history.storage.schema import TABLES

START = datetime(2026, 3, 1, tzinfo=UTC)


def at(day, hour=1):
    return START + timedelta(days=day, hours=hour)


class Collection:
    """A history of a service whose people a test changes."""

    def __init__(self, path, first_runs, service, exposure, by="id"):
        service.clear()
        self.first_runs, self.by, self.is_empty = first_runs, by, True
        self.service, self.exposure, self.clock = service, exposure, Clock()
        self.history = History(path / "history", clock=self.clock, records_by=by)

    def collect(self, day, hour=1, **people):
        """Collect for an hour; ``one=[...]`` are the new records of person 1."""
        for name, records in people.items():
            self.service.people[("nobody", "one", "two", "three").index(name)] = Person(records)
        self.clock.set(at(day, hour), at(day, hour + 1))
        if self.is_empty:
            self.first_runs.collect(self.history, self.exposure, self.service, self.clock, self.by)
        else:
            self.history.collect(self.exposure)
        self.is_empty = False


@pytest.fixture
def collection(first_runs, served_exposure, tmp_path):
    return Collection(tmp_path, first_runs, *served_exposure)


@pytest.fixture
def by_reference(first_runs, served_exposure, tmp_path):
    return Collection(tmp_path, first_runs, *served_exposure, by="reference")


@pytest.fixture(scope="module")
def one_run(first_runs, served_exposure, tmp_path_factory):
    """A history of one run, which no test changes: one record of person 1, two of person 2."""
    collection = Collection(tmp_path_factory.mktemp("one_run"), first_runs, *served_exposure)
    collection.collect(0, one=[a_record(11)], two=[a_record(12), a_record(13)])
    return collection.history


def listing(record_id, status="discovered", site="PeepFinder", reference_id="007", **more):
    return a_record(record_id, status, site, reference_id=reference_id, **more)


class CountingDuckDB(DuckDB):
    """Notes what it is asked."""

    def __init__(self):
        super().__init__(as_written=True)
        self.asked = []

    def ask(self, sql, tables, parameters):
        self.asked.append((sql, *map(str, parameters.values())))
        return super().ask(sql, tables, parameters)


def test_a_pinned_history_reads_tables_once_and_stays(collection):
    collection.collect(0, one=[listing(11)], two=[listing(12)])
    collection.collect(1, one=[listing(11, "removed")])
    collection.collect(2, one=[listing(11)])
    with DuckDB(as_written=True) as plain, CountingDuckDB() as counting:
        history, other = (History(collection.history.path, engine=engine) for engine in (plain, counting))
        pinned = other.pinned().pinned()
        names = (
            "records",
            "alerts",
            "relistings",
            "site_outcomes",
            "failed_removals",
            "precision",
            "forecast",
        )
        before = {name: getattr(history, name)() for name in names}
        assert len(pinned.relistings()) == 1
        collection.collect(3, one=[listing(11, "removed"), listing(13)])
        for name, table in before.items():
            answer = getattr(pinned, name)()
            pd.testing.assert_frame_equal(answer, table)
            answer[answer.columns[0]] = None  # a caller's own copy
            pd.testing.assert_frame_equal(getattr(pinned, name)(), table)
        assert len(counting.asked) == len({*counting.asked})
    assert pinned.last_run().seq == len(pinned.runs()) == len(pinned.collection_runs()) == 3
    assert len(collection.history.records()) == 3


def test_tables_are_selected_as_those_of_an_exposure(one_run):
    records = one_run.records(user=2, site="peepfinder", status=["Discovered", "removed"])
    assert records["record_id"].tolist() == [12, 13]
    assert len(one_run.records(status="open")) == len(one_run.records()) == 3
    assert one_run.records(status="vanished").empty
    assert one_run.links(user=1).empty
    assert len(one_run.alerts(user=[1, 2], source_type=None)) == len(one_run.alerts())
    with pytest.warns(
        UserWarning, match="No listing is on a site named 'peepfindr'. Did you mean 'PeepFinder'"
    ):
        assert one_run.records(site="peepfindr").empty
    with pytest.raises(NotFound, match=r"Nothing was ever collected about these people: \[9\]"):
        one_run.records(user=9)
    for answer in (analysis.by_site, analysis.work_queue, analysis.by_kind, analysis.plan):
        with pytest.raises(InvalidArgument, match="needs a table, not History: pass one of its tables"):
            answer(one_run)


def test_records_without_a_reference_stay_apart(by_reference):
    blanks = {11: "", 12: "", 13: " ", 14: " "}
    by_reference.collect(0, one=[listing(one, reference_id=blank) for one, blank in blanks.items()])
    history = by_reference.history
    assert history.records()["record_id"].tolist() == [*blanks]
    assert history.load_issues()["what"].tolist() == ["registered"]
    assert history.verify() == {}


@pytest.mark.filterwarnings("ignore:responses deviate")
@pytest.mark.parametrize(("by", "other_id"), [("id", 11), ("reference", 11), ("reference", 13)])
def test_two_records_of_one_identity_are_a_load_issue(first_runs, served_exposure, tmp_path, by, other_id):
    collection = Collection(tmp_path, first_runs, *served_exposure, by=by)
    twice = [listing(11), listing(other_id, "removed"), listing(12, reference_id="8")]
    collection.collect(0, one=twice, two=[listing(21, reference_id="9")])
    history = collection.history
    assert sorted(history.records()["record_id"]) == [11, 12, 21]
    assert history.records()["status"].tolist() == ["discovered"] * 3
    issues = history.load_issues().sort_values(["user_id", "what"])
    status_by_page = issues[["user_id", "what"]].to_numpy().tolist()
    assert status_by_page == [[1, "duplicate"], [1, "registered"], [2, "registered"]]
    assert issues["reason"].iloc[0] == "a record is listed more than once: its first entry counts"
    assert history.people()["reason"].isna().all()  # this is no failure
    assert history.runs()["whole"].tolist() == [2]
    collection.collect(1, one=[twice[0], twice[2]])
    assert len(history.load_issues()) == 3
    assert history.verify() == {}


@pytest.mark.filterwarnings("ignore:responses deviate")
def test_every_incomplete_load_has_a_reason(collection):
    collection.collect(0, one=[a_record(11)], two=[a_record(21)], three=[a_record(31)])
    people = collection.service.people
    people[1].scanning, people[1].records = True, [a_record(11), a_record(11)]
    people[2].alerts = None
    del people[3]
    collection.collect(1)
    reasons = {
        (1, "partial"): "a scan was running: listings may be missing",
        (1, "duplicate"): "a record is listed more than once: its first entry counts",
        (2, "partial"): "not readable: alerts (null)",
        (3, "absent"): "not in the service's list of users: gone if the next one lacks them, too",
    }
    history, columns = collection.history, ["user_id", "what", "reason"]
    issues = history.load_issues()
    last = issues.loc[issues["seq"] == 2, columns].itertuples(index=False)
    assert {(user_id, what): reason for user_id, what, reason in last} == reasons
    stale = history.stale()[["user_id", "outcome", "reason"]].itertuples(index=False)
    assert {(user_id, what): why for user_id, what, why in stale}.items() < reasons.items()
    collection.service.miscount = 1
    collection.collect(2)
    assert "the load ended before" in history.people().set_index("user_id")["reason"][3]


def test_annotations_and_deliveries_of_one_instant_have_an_order(collection):
    collection.collect(0, one=[a_record(11), a_record(12)], two=[a_record(21)])
    history = collection.history
    backwards = history.records().sort_values("record_id", ascending=False)
    history.note(backwards, "by post")
    assert history.notes()["key"].tolist() == [11, 12, 21]
    deliveries = [
        a_delivery(user_id, {"listed_again": [{"record": a_record(10 * user_id + 1)}]}) for user_id in (2, 1)
    ]
    received = [ReceivedDelivery(n, at(1), f"msg_{n}", delivery) for n, delivery in enumerate(deliveries, 1)]
    assert history.ingest_deliveries(received, inbox="inbox") == 2
    assert history.deliveries()["user_id"].tolist() == [1, 2]


def site_sets(history):
    """The sites in the result of each query with a site."""
    first = history.runs()["finished_at"].iloc[0]
    diff = history.diff(first)
    tables = {
        "records": history.records(),
        "records before": history.records(as_of=first),
        "alerts": history.alerts(),
        "steps": history.steps(),
        "changes": history.changes(),
        "by_site": history.by_site(),
        "by_site of alerts": history.by_site(kind="alert"),
        "status_over_time": history.status_over_time(by="site"),
        "status_over_time by run": history.status_over_time(by="site", every="run"),
        "diff": diff.changes,
        "diff by site": diff.by_site,
        "time_to_removal": history.time_to_removal(left_censored=True),
        "survival": history.survival(by="site", left_censored=True),
        "life_table": history.life_table("site"),
        "relistings": history.relistings(),
        "site_health": history.site_health(),
        "precision": history.precision(),
        "work_queue": history.work_queue(),
        "labels": history.labels(),
        "ticks": history.ticks(),
        "notes": history.notes(),
    }
    return {name: set(table["site"]) for name, table in tables.items()}


def copied(history, path):
    """A copy of a history, at the same time."""
    return History(shutil.copytree(history.path, path / "copy"), clock=history._clock)


@pytest.fixture(scope="module")
def twice_named(first_runs, served_exposure, tmp_path_factory):
    """Two records whose site has another name from the second day on, and a third record there."""
    collection = Collection(tmp_path_factory.mktemp("twice_named"), first_runs, *served_exposure)
    old = [a_record(11, site="Nosey Heron"), a_record(12, "removed", "Nosey Heron")]
    collection.service.people[1] = Person(old, [], [an_alert("Found", record) for record in old])
    collection.collect(0)
    new = [a_record(11, "removed", "Nosy Heron"), a_record(12, site="Nosy Heron")]
    collection.service.people[1] = Person(
        [*new, a_record(14, site="Nosy Heron")], [], [an_alert("Found", record) for record in new]
    )
    collection.collect(1)
    history = collection.history
    history.label(history.records(), "mine")
    history.tick(history.steps().head(1))
    history.note(history.records().iloc[0], "by post")
    return history


@pytest.fixture
def renamed(twice_named, tmp_path):
    return copied(twice_named, tmp_path)


def test_a_renamed_site_has_its_newest_name_in_every_query(renamed):
    assert set(renamed.records()["site"]) == {"Nosy Heron"}
    assert set(renamed.changes()["site"]) == {
        "Nosey Heron",
        "Nosy Heron",
    }  # the name at the first observation
    renamed.rename_site("Nosey Heron", "Nosy Heron")
    assert set(renamed.changes()["site"]) == {"Nosy Heron"}
    with History(renamed.path, clock=renamed._clock) as history:
        assert {name: sites for name, sites in site_sets(history).items() if sites != {"Nosy Heron"}} == {}
        by_site = history.by_site()
        assert by_site[["open", "removed", "total"]].to_numpy().tolist() == [[2, 1, 3]]
        assert len(history.time_to_removal(left_censored=True)) == 1
        over_time = history.status_over_time(by="site")
        assert over_time["total"].tolist() == [2, 3]
        assert history.diff(at(0, 3)).by_site["open_after"].tolist() == [2]
        assert history.site_names().to_numpy().tolist() == [["Nosey Heron", "Nosy Heron"]]
        assert history.verify() == {}


def test_the_newest_name_of_a_site_counts(renamed):
    renamed.rename_site("Nosey Heron", "Nosy Heron")
    renamed.rename_site("Nosy Heron", "Heron")
    assert set(renamed.changes()["site"]) == set(renamed.records()["site"]) == {"Heron"}
    renamed.rename_site("Heron", "Nosy Heron")
    assert set(renamed.changes()["site"]) == {"Nosy Heron"}
    renamed.rename_site("Nosey Heron", "Nosey Heron")
    assert set(renamed.changes()["site"]) == {"Nosey Heron", "Nosy Heron"}
    renamed.compact()
    assert renamed.site_names().to_numpy().tolist() == [["Heron", "Nosy Heron"]]


def test_only_a_history_by_id_renames_a_site(collection, tmp_path):
    for names in (("", "A"), ("A", " "), ("A", None), (5, "A")):
        with pytest.raises(InvalidArgument, match="A site's name"):
            collection.history.rename_site(*names)
    with pytest.raises(InvalidArgument, match="cannot rename"):
        History(tmp_path / "other", records_by="reference").rename_site("A", "B")
    assert list(tmp_path.iterdir()) == []


def alerting(*records):
    """Person 1 has these records, and an alert about each and about a link."""
    alerts = [an_alert("Found", record) for record in records]
    alerts.append(an_alert("Seen", a_link("https://pages.example/1")))
    return Person([*records], [a_link("https://pages.example/1")], alerts)


def statuses(alerts):
    return [None if pd.isna(status) else status for status in alerts["status"]]


def test_an_alert_has_the_status_of_its_renumbered_record(by_reference):
    elsewhere = {"site": "Elsewhere", "reference_id": "8"}
    by_reference.service.people[1] = alerting(listing(11), listing(12, "removed", **elsewhere))
    by_reference.collect(0)
    by_reference.service.people[1] = alerting(listing(21, "removed"), listing(22, "on hold", **elsewhere))
    by_reference.collect(1)
    history = by_reference.history
    now = history.alerts().sort_values("site")
    assert statuses(now) == ["on hold", "removed", None]
    assert statuses(history.alerts(as_of=at(0, 3)).sort_values("site")) == ["removed", "discovered", None]


def test_an_alert_of_unknown_id_matches_by_page_or_site(by_reference):
    page = {"href": "https://peepfinder.example/p/7"}
    by_reference.collect(0, one=[listing(11, "on hold", **page), listing(12, reference_id="8")])
    by_reference.service.people[1] = alerting(
        listing(21, "on hold", **page), listing(22, reference_id="8"), listing(23, "removed", "Elsewhere")
    )
    by_reference.collect(1)
    alerts = by_reference.history.alerts()
    assert dict(zip(alerts["href"], statuses(alerts), strict=True))[page["href"]] == "on hold"
    assert "removed" in statuses(alerts)


def test_an_alert_that_fits_two_records_has_none(by_reference):
    records = [listing(11, "on hold"), listing(12, reference_id="8")]
    by_reference.collect(0, one=records)
    again = [record | {"id": record["id"] + 10} for record in records]
    by_reference.service.people[1] = Person(again, [], [an_alert("Found", again[0])])
    by_reference.collect(1)
    assert statuses(by_reference.history.alerts()) == [None]


def test_a_relisting_has_its_key_and_its_newest_id(by_reference):
    by_reference.collect(0, one=[listing(11)])
    by_reference.collect(1, one=[listing(21, "removed", age=70)])
    by_reference.collect(2, one=[listing(31)])
    history = by_reference.history
    [row] = history.relistings().to_dict("records")
    assert row["key"] == history.changes()["key"].iloc[0]
    assert row["record_id"] == history.records()["record_id"].iloc[0] == 31
    assert str(history.relistings()["record_id"].dtype) == "Int64"


def test_a_removal_of_the_baseline_has_no_gone_days(collection):
    """The baseline does not tell when a record was removed; one that came and went between two runs is followed."""
    large = 2**62
    collection.collect(0, one=[a_record(11, "removed"), a_record(12)])
    collection.collect(2, one=[a_record(11), a_record(large, "removed")])
    collection.collect(5, one=[a_record(11), a_record(12), a_record(large)])
    relisted = collection.history.relistings()
    assert relisted["key"].tolist() == relisted["record_id"].tolist() == [11, 12, large]
    assert relisted["removed_at"].tolist() == [at(0, 2), at(2, 2), at(2, 2)]
    assert relisted["gone_days"].fillna(-1).tolist() == [-1, 3, 3]
    is_followed = relisted["gone_days"].notna()
    low, days, high = (relisted.loc[is_followed, f"gone_days{end}"] for end in ("_low", "", "_high"))
    assert ((low >= 0) & (low < days) & (days < high)).all()
    assert relisted["gone_days_high"].isna().tolist() == [True, False, False]


def test_a_relisting_has_the_status_of_its_listing(collection):
    collection.collect(0, one=[a_record(11)])
    collection.collect(1, one=[a_record(11, "removed")])
    collection.collect(2, one=[a_record(11)])
    collection.collect(4, one=[a_record(11, "removed")])
    relistings = collection.history.relistings
    assert relistings()["status"].tolist() == ["removed"]
    assert relistings(as_of=at(3))["status"].tolist() == ["discovered"]
    assert relistings(as_of=at(1)).empty
    collection.collect(5, one=[a_record(11)])
    with pytest.warns(UserWarning, match="deviate"):
        collection.collect(6, one=[a_record(11, None)])
    [record] = collection.history.records().itertuples()
    assert relistings()["status"].tolist() == [record.status] * 2
    assert relistings()["status"].dtype == "str"


def test_people_missing_from_a_short_list_are_unseen(collection):
    collection.collect(0, one=[a_record(11)], two=[a_record(12)])
    del collection.service.people[2]
    collection.service.miscount = 1
    collection.collect(1)
    collection.service.miscount = 0
    for day in (2, 3):
        collection.collect(day)
    table = collection.history.status_over_time()
    assert table[["people", "unseen"]].to_numpy().tolist() == [[2, 0], [2, 1], [2, 1], [1, 0]]


def test_selected_people_alone_are_counted_as_people(collection):
    """By each run: who is registered later, fails to load, is missing from a short list, and is no longer registered."""
    collection.collect(0, one=[a_record(11)])
    collection.collect(1, one=[a_record(11)], two=[a_record(12)])
    collection.service.broken = {2: "no user"}
    collection.collect(2)
    collection.service.broken = {}
    del collection.service.people[2]
    collection.service.miscount = 1
    collection.collect(3)
    collection.service.miscount = 0
    for day in (4, 5):
        collection.collect(day)

    def loaded(user):
        counts = collection.history.status_over_time(user=user)[["people", "unseen"]]
        return [*counts.itertuples(index=False, name=None)]

    assert loaded(1) == [(1, 0)] * 6
    assert loaded(2) == [(0, 0), (1, 0), (1, 1), (1, 1), (1, 1), (0, 0)]
    assert loaded([1, 2]) == [(1, 0), (2, 0), (2, 1), (2, 1), (2, 1), (1, 0)]
    assert loaded([1, 2]) == loaded(None)
    figure = charts.status_over_time(collection.history.status_over_time(user=2))
    assert "loaded" not in charts.describe(figure)


def test_a_day_after_the_last_observation_gives_a_warning(collection):
    collection.collect(0, one=[a_record(11)])
    collection.collect(1, one=[a_record(11, "removed")])
    history, last = collection.history, START.date() + timedelta(days=1)
    message = f"Nothing is known of .*: this is the state of {last}, the last day with an observation"
    for later in (last + timedelta(days=1), "2030-01-01", at(400)):
        with pytest.warns(UserWarning, match=message):
            pd.testing.assert_frame_equal(history.records(as_of=later), history.records())
        with pytest.warns(UserWarning, match=message):
            pd.testing.assert_frame_equal(history.survival(as_of="2030-01-01"), history.survival())
    for known in (last, at(1, 23), at(0, 3), None):
        history.records(as_of=known)  # an unexpected warning is an error
    assert len(history.diff(at(0, 3), "2030-01-01").changes) == 1  # until then, nothing else was observed


def test_days_without_a_complete_load_count_until_now(collection):
    collection.collect(0, one=[], two=[])
    collection.service.broken = {2: "no user"}
    collection.collect(1)
    collection.clock.set(at(6))
    table = collection.history.stale()
    assert table[["user_id", "days"]].to_numpy().tolist() == [[2, 6.0]]
    assert collection.history.stale("2026-03-05")["days"].tolist() == [6.0, 5.0]


def by_age(history):
    coverage = history.coverage().set_index("last_complete_load")["people"]
    return {age: n for age, n in coverage.items() if n}


def test_a_clock_that_was_ahead_hides_no_stale_person(collection):
    """Loads do not count until real time has caught up, so the people of that run are not up to date."""
    collection.collect(0, one=[a_record(11)], two=[a_record(12)])
    collection.collect(900)
    collection.clock.set(at(1))
    assert collection.history.stale().empty  # the newest run loaded everyone
    collection.collect(1, three=[a_record(13)])
    stale = collection.history.stale()
    assert stale[["user_id", "outcome"]].to_numpy().tolist() == [[1, "late"], [2, "late"]]
    assert stale["days"].isna().all()
    assert by_age(collection.history) == {"within a day": 1, "longer ago": 2}
    assert collection.history.stale(at(0))["user_id"].tolist() == [1, 2]
    collection.collect(901)
    assert collection.history.stale().empty
    assert by_age(collection.history) == {"within a day": 3}


def test_a_failure_while_the_clock_was_ahead_is_stale(collection):
    collection.collect(0, one=[a_record(11)], two=[a_record(12)])
    collection.service.broken = {2: "no user"}
    collection.collect(900)
    collection.clock.set(at(1))
    assert collection.history.stale()[["user_id", "outcome"]].to_numpy().tolist() == [[2, "failed"]]


@pytest.mark.parametrize("user", [np.int64(1), [np.int64(1)], np.array([1]), pd.Series([1]), (1,), {1}])
def test_any_integers_are_accepted_as_user_ids(one_run, user):
    assert one_run.status_over_time(user=user)["total"].tolist() == [1]


@pytest.mark.parametrize("user", ["1", b"1", True, 1.5, ["x"], [None], 2**63, pd.DataFrame({"user_id": [1]})])
def test_other_values_are_refused_as_user_ids(one_run, user):
    with pytest.raises(InvalidArgument, match="id of a person"):
        one_run.status_over_time(user=user)


def test_counts_require_an_observed_person(collection):
    collection.collect(0, one=[a_record(11)])
    delivery = a_delivery(2, {"discovered_records": [{"record": a_record(12)}]})
    collection.history.ingest_deliveries([ReceivedDelivery(1, at(0, 3), "msg_1", delivery)], inbox="inbox")
    assert collection.history.status_over_time(user=[1, 2])["total"].tolist() == [2]
    assert collection.history.status_over_time(user=2)["discovered"].tolist()[-1] == 1
    with pytest.raises(
        NotFound, match=r"Nothing was ever collected about these people: \[3\]\. history\.people\(\)"
    ):
        collection.history.status_over_time(user=[1, 3])


@pytest.mark.parametrize("every", ["run", "day"])
def test_the_statuses_of_one_site_are_those_of_its_rows(collection, every):
    collection.collect(0, one=[a_record(11, site="Seekfolk"), a_record(12)], two=[a_record(13, "removed")])
    collection.collect(1, one=[a_record(11, "removed", "Seekfolk"), a_record(12)])
    history = collection.history
    by_site = history.status_over_time("site", every)
    for site in ("Seekfolk", "PeepFinder"):
        rows = by_site[by_site["site"] == site].drop(columns="site").reset_index(drop=True)
        table = history.status_over_time(every=every, site=site.upper())
        pd.testing.assert_frame_equal(table[[*rows]], rows)
        [named] = history.status_over_time("site", every, site=site)["site"].unique()
        assert named == site
    both = history.status_over_time(every=every, site=["Seekfolk", "PeepFinder"])
    pd.testing.assert_frame_equal(both, history.status_over_time(every=every))
    assert history.status_over_time(every=every, site="PeepFinder", user=2)["total"].tolist() == [1, 1]


@pytest.mark.parametrize("by", ["id", "reference"])
def test_changes_of_records_join_to_the_records(collection, by_reference, by):
    runs = collection if by == "id" else by_reference
    runs.collect(0, one=[a_record(11, reference_id="A1")], two=[a_record(12, reference_id="A2")])
    runs.collect(1, one=[a_record(11 if by == "id" else 21, "removed", reference_id="A1")])
    history = runs.history
    changes = history.diff(at(0, 3)).changes
    assert changes["record_id"].tolist() == [11]  # a new id alone is not stored
    joined = changes.merge(history.records(), on=["user_id", "record_id"], validate="1:1")
    assert joined["status"].tolist() == changes["after"].tolist() == ["removed"]
    assert "record_id" not in history.diff(at(0, 3), kind="link").changes


def test_an_unknown_site_has_no_counts_and_a_warning(one_run):
    with pytest.warns(
        UserWarning, match=r"No listing is on a site named 'PeepFindr'\. Did you mean 'PeepFinder'\?"
    ):
        table = one_run.status_over_time(site="PeepFindr")
    assert table.empty


def test_a_chart_of_one_site_names_the_site(one_run):
    over_time = one_run.status_over_time(site="peepfinder")
    figure = over_time.exposure.chart("status_over_time", provenance=one_run.provenance)
    subtitle = figure.layout.title.subtitle.text.replace("<br>", " ")
    assert subtitle == f"{one_run.provenance} · PeepFinder"
    assert {trace.name for trace in figure.data} >= {"discovered"}


def test_a_chart_of_one_person_names_the_person(one_run):
    words = {1: "user 1", (2, 1): "users 1, 2"}
    for users, expected in words.items():
        over_time = one_run.status_over_time(user=users)
        figure = over_time.exposure.chart("status_over_time", provenance="History")
        assert figure.layout.title.subtitle.text == f"History · {expected}"


def test_counts_by_person_are_those_of_the_records(collection):
    collection.collect(0, one=[a_record(11), a_record(12, site="Other")], two=[a_record(21)])
    collection.collect(1, one=[a_record(11, "removed")], two=[a_record(21)])
    history = collection.history
    for as_of in (None, at(0, 12)):
        expected = analysis.by_user(history.records(as_of))
        pd.testing.assert_frame_equal(history.by_user(as_of), expected)
    assert history.by_user()["vanished"].tolist() == [0, 1]


def test_a_return_into_scope_counts_once_and_from_then_on(collection):
    collection.collect(0, one=[])
    collection.collect(1, one=[a_record(11)])
    person = collection.service.people.pop(1)
    for day in (2, 3):
        collection.collect(day)
    collection.service.people[1] = person
    collection.collect(6)
    collection.collect(9, one=[a_record(11, "removed")])
    [row] = collection.history.time_to_removal(by=None).to_dict("records")
    assert [row[name] for name in ("n", "removed", "unknown", "open", "left_out")] == [1, 1, 1, 0, 0]
    flows = collection.history.life_table()
    assert sorted(zip(flows["days"], flows["flow"], strict=True)) == [
        (0, "entered"),
        (2, "unknown"),
        (5, "returned"),
        (8, "removed"),
    ]


def test_a_first_run_record_returning_the_same_day_counts_once(collection):
    collection.collect(0, 1, one=[a_record(11)])
    person = collection.service.people.pop(1)
    for hour in (3, 5):
        collection.collect(0, hour)
    collection.service.people[1] = person
    collection.collect(0, 7)
    collection.collect(4, one=[a_record(11, "removed")])
    history = collection.history
    counted = history.time_to_removal(by=None, left_censored=True)
    assert counted[["n", "removed", "unknown"]].to_numpy().tolist() == [[1, 1, 1]]
    assert history.time_to_removal(by=None)["left_out"].tolist() == [1]


def test_removed_out_of_scope_and_back_begins_anew(collection):
    collection.collect(0, one=[a_record(11, "removed")])
    person = collection.service.people.pop(1)
    for day in (1, 2):
        collection.collect(day)
    person.records = [a_record(11)]
    collection.service.people[1] = person
    collection.collect(4)
    assert collection.history.time_to_removal()[["n", "open"]].to_numpy().tolist() == [[1, 1]]


def test_durations_run_to_the_end_of_a_day(collection):
    collection.collect(0, one=[])
    collection.collect(1, one=[a_record(11)])
    collection.collect(3)
    for query in (collection.history.time_to_removal, collection.history.survival):
        for instant in (at(2), "2026-03-03T12:00Z", pd.Timestamp("2026-03-03")):
            with pytest.raises(InvalidArgument, match="as_of must be a day, such as 2026-11-13"):
                query(as_of=instant)
        pd.testing.assert_frame_equal(query(as_of=date(2026, 3, 3)), query(as_of="2026-03-03"))
        assert not query(as_of="2026-03-03").equals(query())
        with pytest.warns(UserWarning, match="the state of 2026-03-04"):
            pd.testing.assert_frame_equal(query(as_of="2030-01-01"), query())


@pytest.mark.parametrize(
    "when",
    [
        *("9999-12-31", date.max, "9999-12-31T23:59:59.999999Z", datetime.max.replace(tzinfo=UTC), pd.NaT),
        *(np.nan, 20261113, True, np.int64(20261113), "", "soon", ["2026-03-01", "2026-03-02"], {}),
    ],
)
def test_invalid_times_are_refused_by_every_query(one_run, when):
    for query in (one_run.diff, one_run.records, one_run.by_site, one_run.stale):
        with pytest.raises(InvalidArgument, match="A time is 14d, 2w, 3mo, 1y or 36h"):
            query(when)


def test_collect_refuses_invalid_arguments(collection):
    history, exposure = collection.history, collection.exposure
    for source in ("x", None, exposure.client):
        with pytest.raises(InvalidArgument, match="collect\\(\\) needs an Exposure"):
            history.collect(source)
    with pytest.raises(InvalidArgument, match="The name of a run is plain text"):
        history.collect(exposure, run=5)
    for arguments in ({"shard": 5}, {"shard": "3/2"}, {"shard": "1/2"}, {"only": "x"}, {"only": [1.5]}):
        with pytest.raises(InvalidArgument):
            history.collect(exposure, **arguments)
    assert not history.pending_runs()


def test_a_diff_after_the_last_run_raises_an_error(collection):
    collection.collect(0, one=[a_record(11)])
    collection.collect(1, one=[a_record(11, "removed")])
    history = collection.history
    for a, b in ((at(5), None), ("2026-03-05", "2026-03-07")):
        with pytest.raises(NotFound, match="Nothing was observed after 2026-03-02 02:00 UTC"):
            history.diff(a, b)
    collection.clock.set(at(2))
    with pytest.raises(
        InvalidArgument, match=r"^since \(2026-03-02\) is after until \(2026-03-01\): pass the"
    ):
        history.diff("2026-03-02", "2026-03-01")
    with pytest.raises(InvalidArgument, match=r"^a \(2026-03-02\) is after b \(2026-03-01\): pass the"):
        history.score_changes("2026-03-02", "2026-03-01")


def test_a_diff_from_before_any_observation_has_a_note(collection):
    collection.collect(0)
    collection.collect(1, one=[a_record(11)])
    collection.collect(2, one=[a_record(11, "removed")])
    first, second = (collection.history.diff(at(day, 2)) for day in (0, 1))
    note = "Nothing had been observed by 2026-03-01 02:00 UTC: compare with a later time."
    assert first.note == note
    assert note in repr(first)
    assert note in first._repr_html_()
    assert (second.note, repr(second)) == ("", "Diff(1 removed, 0 still open)")
    assert second.by_site[["open_before", "open_after", "removed"]].to_numpy().tolist() == [[1, 0, 1]]


def test_a_diff_since_a_day_without_listings_has_no_note(collection):
    collection.collect(0, one=[])
    collection.collect(1, one=[a_record(11)])
    since = collection.history.diff(at(0, 2))
    assert (since.note, repr(since)) == ("", "Diff(1 new, 1 still open)")


def test_a_diff_excludes_its_start_and_includes_its_end(collection):
    collection.collect(0, one=[a_record(11)])
    collection.collect(1, one=[a_record(11, "removed")])
    history, moved = collection.history, at(1, 2)
    just_before = moved - timedelta(microseconds=1)
    assert repr(history.diff(at(0, 2), moved)) == "Diff(1 removed, 0 still open)"
    assert repr(history.diff(at(0, 2), just_before)) == "Diff(1 still open)"
    assert repr(history.diff(just_before)) == "Diff(1 removed, 0 still open)"
    assert repr(history.diff(moved)) == "Diff(0 still open)"
    assert repr(history.diff("2026-03-02")) == "Diff(1 removed, 0 still open)"  # today: since its beginning
    collection.clock.set(at(2))
    assert repr(history.diff("2026-03-02")) == "Diff(0 still open)"
    assert repr(history.diff("2026-03-01", "2030-01-01")) == "Diff(1 removed, 0 still open)"


@pytest.fixture(scope="module")
def verified_once(first_runs, served_exposure, tmp_path_factory):
    """Of two records one stays; the other vanishes, and two days later its removal is verified."""
    collection = Collection(tmp_path_factory.mktemp("verified_once"), first_runs, *served_exposure)
    collection.collect(0, one=[])
    collection.collect(1, one=[a_record(11), a_record(12)])
    collection.collect(3, one=[a_record(12)])
    collection.collect(5, one=[a_record(11, "removed"), a_record(12)])
    return collection.history


@pytest.fixture
def verified_later(verified_once, tmp_path):
    return copied(verified_once, tmp_path)


def test_a_removal_verified_after_vanishing_counts_everywhere(verified_later):
    history = verified_later
    runs = history.runs()
    assert runs[["removed", "vanished"]].to_numpy().tolist() == [[0, 0], [0, 0], [0, 1], [1, -1]]
    assert history.last_run().gone == 0
    assert "1 removed" in str(history.last_run())
    assert "vanished" not in str(history.last_run())
    for since, n, n_open in (("2026-03-01", [1, 0], [0, 1]), ("2026-03-05", [1, -1], [1, 1])):
        diff = history.diff(since)
        counts, why = diff.counts.set_index("what")["n"], diff.why.set_index("cause")["n"]
        [site] = diff.by_site.to_dict("records")
        assert [counts["removed"], counts["vanished"]] == n
        assert [why["removed"], why["vanished"]] == [-count for count in n]
        assert [site["removed"], site["vanished"]] == n
        assert [site["open_before"], site["open_after"]] == n_open
        assert diff.why["open"].iloc[[0, -1]].tolist() == n_open
    [row] = history.time_to_removal().to_dict("records")
    assert (row["n"], row["removed"], row["vanished"], row["open"]) == (2, 1, 1, 1)
    steps = history.survival()[["days", "at_risk", "removed", "censored", "survival"]].to_numpy().tolist()
    assert steps == [[0, 2, 0, 0, 1.0], [2, 2, 0, 1, 1.0], [4, 2, 1, 1, 0.5]]
    assert history.verify() == {}


def test_a_run_counted_by_an_earlier_version_is_no_damage(verified_later):
    """Earlier versions counted such a removal in no run."""
    store = verified_later._store
    rows = [
        row | {"removed": 0, "vanished": max(row["vanished"], 0)} for row in store.rows("runs").to_pylist()
    ]
    store.append("runs", pa.Table.from_pylist(rows, TABLES["runs"].schema), overwrite=True)
    assert verified_later.verify() == {}
    rows[-1]["removed"] = 2
    store.append("runs", pa.Table.from_pylist(rows, TABLES["runs"].schema), overwrite=True)
    assert verified_later.verify() == {"a run does not have the changes that it counted": 1}


def test_what_changed_today_counts_since_its_beginning(collection):
    collection.collect(0, one=[a_record(11)])
    collection.collect(1, one=[a_record(11), a_record(12)])
    for today in ("today", "0d", "2026-03-02"):
        assert repr(collection.history.diff(today)) == "Diff(1 new, 2 still open)"


def test_a_diff_counts_new_removed_records_as_both(collection):
    collection.collect(0, one=[a_record(11)])
    collection.collect(1, one=[a_record(11), a_record(12)])
    collection.collect(2, one=[a_record(11), a_record(12, "removed"), a_record(13, "removed")])
    diff = collection.history.diff(at(0, 2))
    assert repr(diff) == "Diff(2 new, 2 removed, 1 still open)"
    assert collection.history.runs()[["new", "removed"]].to_numpy().tolist() == [[0, 0], [1, 0], [1, 2]]
    assert collection.history.verify() == {}
    assert diff.by_site[["open_before", "new", "removed", "open_after"]].to_numpy().tolist() == [[1, 2, 2, 1]]
    assert diff.why.query("n != 0")[["cause", "n"]].to_numpy().tolist()[1:] == [["new", 2], ["removed", -2]]
    assert diff.changes["what"].tolist() == ["new", "removed", "new", "removed"]


def test_alerts_have_the_number_that_the_service_lists(collection):
    records = [a_record(number) for number in (13, 11, 12)]
    alerts = [an_alert("Found", record) for record in records]
    collection.service.people[1] = Person(records, alerts=alerts)
    collection.collect(0)
    collection.service.people[1] = Person(records, alerts=[*alerts[1:], an_alert("Again", records[0])])
    collection.collect(1)
    table, loaded = collection.history.alerts(), collection.exposure.refresh().alerts()
    listed = table[table["presence"] == "listed"]
    for column in ("alert_number", "text", "record_id"):
        assert listed[column].tolist() == loaded[column].tolist()
    assert table["alert_number"].tolist() == [0, 1, 2, 3]
    assert table["presence"].tolist()[-1] == "vanished"


def test_chosen_columns_and_users_are_those_of_everything(collection):
    collection.service.people[1] = alerting(a_record(10), a_record(13, "removed"))
    collection.collect(0, two=[a_record(12)], three=[a_record(14)])
    history = collection.history
    records, alerts = history.records(), history.alerts()
    for reader in (history, history.pinned(), replace(history._reader, max_join_rows=1)):
        few = reader.records(columns=["user_id", "href"])
        assert {"href", "status", "changed_at"} <= {*few}
        assert not {"name", "aliases"} & {*few}
        pd.testing.assert_frame_equal(few, records[[*few]])
        few = reader.alerts(columns=["url"])
        assert {"url", "record_id", "name"} <= {*few}
        assert not {"html", "guide"} & {*few}
        pd.testing.assert_frame_equal(few, alerts[[*few]])
        chosen = (
            {"site": "PeepFinder", "columns": ["href"]},
            {"user": 1, "status": "open", "columns": ["href"]},
        )
        for options in chosen:
            few = reader.records(**options)
            pd.testing.assert_frame_equal(few, reader.records(**options | {"columns": None})[[*few]])
        few = reader.alerts(source_type="record", columns=["url"])
        pd.testing.assert_frame_equal(
            few, alerts.loc[alerts["source_type"] == "record", [*few]].reset_index(drop=True)
        )
        for user in (2, [1, 2]):
            of_users = records[records["user_id"].isin([user] if user == 2 else user)].reset_index(drop=True)
            pd.testing.assert_frame_equal(reader.records(user=user), of_users, check_categorical=False)
    for read in (history.records, history.alerts):
        with pytest.raises(InvalidArgument, match="column"):
            read(columns=["nmae"])


def test_a_pinned_history_answers_alike_after_its_records(one_run):
    pinned = one_run.pinned()
    for read in (pinned.records, pinned.links):
        read()
    for name in ("by_user", "score", "site_outcomes", "failed_removals", "forecast"):
        pd.testing.assert_frame_equal(getattr(pinned, name)(), getattr(one_run, name)())


def test_too_many_keys_are_queried_bucket_by_bucket(collection):
    collection.collect(0, one=[a_record(13), a_record(11)], two=[a_record(12)])
    collection.service.people[1] = alerting(a_record(13), a_record(10), a_record(14, "removed"))
    collection.service.people[2] = alerting(a_record(12, "removed"), a_record(9))
    collection.history._store.shared_rows = 0  # the first run's files have users of all buckets
    collection.collect(1)
    in_parts = replace(collection.history._reader, max_join_rows=1)
    for kind in ("records", "links", "alerts"):
        together = getattr(collection.history, kind)()
        pd.testing.assert_frame_equal(getattr(in_parts, kind)(), together)
        assert together["user_id"].is_monotonic_increasing


def statuses_of(history):
    return history.records().set_index("record_id")["status"].to_dict()


def test_an_unreadable_record_is_not_gone(collection):
    collection.collect(0, one=[a_record(1), a_record(2)])
    unreadable = (None, 7, {"site": "PeepFinder"}, {"record": a_record(2) | {"id": None}})
    for day, value in enumerate(unreadable, 1):
        with pytest.warns(UserWarning, match="deviate"):
            collection.collect(day, one=[a_record(1), value])
        assert statuses_of(collection.history) == {1: "discovered", 2: "discovered"}
    collection.collect(9, one=[a_record(1)])
    assert statuses_of(collection.history) == {1: "discovered", 2: "vanished"}


def test_an_unreadable_list_is_not_empty(collection):
    collection.collect(0, one=[a_record(1)])
    for day, value in enumerate((None, "none", 7), 1):
        with pytest.warns(UserWarning, match="deviate"):
            collection.collect(day, one=value)
        assert statuses_of(collection.history) == {1: "discovered"}


def test_an_unreadable_status_changes_nothing(collection):
    collection.collect(0, one=[a_record(1, "pending removal"), a_record(2, "removed"), a_record(3)])
    with pytest.warns(UserWarning, match="deviate"):
        collection.collect(1, one=[a_record(n) | {"status": None} for n in (1, 2, 4)])
    assert statuses_of(collection.history) == {1: "pending removal", 2: "removed", 3: "vanished", 4: "listed"}
    collection.collect(2, one=[a_record(4)])
    assert statuses_of(collection.history)[4] == "discovered"


def test_scores_are_those_of_the_listed_records_and_links(collection):
    service = collection.service
    service.people[1] = Person([a_record(11), a_record(12, "on hold")], [a_link("https://page.example/1")])
    collection.collect(0, two=[a_record(13, "removed")])
    service.people[1] = Person([a_record(11, "pending removal")], [])
    collection.collect(1, three=[a_record(14)])
    service.people[1] = Person([a_record(11)], [a_link(f"https://page.example/{n}") for n in (1, 2)])
    collection.collect(3, three=[])
    history = collection.history
    weights = {"page": 0.5, "discovered": 2}
    for at in history.runs()["finished_at"]:
        expected = analysis.score(history.records(at), history.links(at), weights=weights)
        pd.testing.assert_frame_equal(history.score(at, weights=weights), expected)
    first, last = history.runs()["finished_at"].iloc[[0, -1]]
    causes = history.score_changes(first, last, weights=weights).set_index("cause")["score"]
    assert causes["score before"] == history.score(first, weights=weights)["score"].sum() > 0
    assert causes["score after"] == history.score(last, weights=weights)["score"].sum() > 0


def requested(history, *columns, **options):
    """Requests, with instants as days since the start."""
    table = history.removal_requests(**options)
    days = {
        name: (table[name] - pd.Timestamp(START)).dt.total_seconds() // 86_400
        for name in ("requested_after", "requested_at", "ended_after", "ended_at", "observed_until")
    }
    return (
        table.assign(**days)[[*columns]]
        .astype("object")
        .where(table[[*columns]].notna(), None)
        .to_numpy()
        .tolist()
    )


def test_removal_requests_lie_between_two_runs(collection):
    """Of one person: removed, pending before the first run, removed between two runs, refused, and asked for again."""
    collection.collect(0, one=[a_record(11), a_record(12, "pending removal"), a_record(13), a_record(14)])
    pending = [a_record(number, "pending removal") for number in (11, 12, 14)]
    collection.collect(2, one=[*pending, a_record(13)])
    collection.collect(5, one=[*pending[:2], a_record(13, "removed"), a_record(14)])
    collection.collect(9, one=[a_record(11, "removed"), *pending[1:], a_record(13, "removed")])
    columns = ("key", "requested_after", "requested_at", "ended_after", "ended_at", "end")
    assert requested(collection.history, *columns) == [
        [11, 0, 2, 5, 9, "removed"],
        [12, None, 0, None, None, None],
        [13, 2, 5, 2, 5, "removed"],
        [14, 0, 2, 2, 5, "discovered"],
        [14, 5, 9, None, None, None],
    ]
    assert requested(collection.history, *columns, as_of=at(3)) == [
        [11, 0, 2, None, None, None],
        [12, None, 0, None, None, None],
        [14, 0, 2, None, None, None],
    ]
    assert {*collection.history.removal_requests(as_of=at(3))["observed_until"]} == {pd.Timestamp(at(2))}
    collection.service.broken = {1: "no user"}
    collection.collect(12)  # a failed load observes nothing
    assert {*collection.history.removal_requests()["observed_until"]} == {pd.Timestamp(at(9))}


def test_a_site_that_nobody_asked_has_no_share_still_listed(collection):
    """None was removed there since none was to be: that is unknown, and not a share of one."""
    listings = [a_record(number, site="Asked" if number < 20 else "Unasked") for number in range(12, 28)]
    collection.collect(0)
    collection.collect(1, one=listings)
    asked = [one | {"status": "pending removal"} if one["site"] == "Asked" else one for one in listings]
    collection.collect(4, one=asked)
    table = collection.history.time_to_removal().set_index("site")
    assert table["requested"].to_dict() == {"Asked": 8, "Unasked": 0}
    assert table["never"].fillna(-1).to_dict() == {"Asked": 1, "Unasked": -1}
    assert table.loc["Unasked", ["never_low", "never_high"]].isna().all()


def test_a_request_of_somebody_who_returns_is_older(collection):
    collection.collect(0, one=[a_record(11)])
    person = collection.service.people.pop(1)
    for day in (1, 2):
        collection.collect(day)
    collection.service.people[1] = person
    collection.collect(6, one=[a_record(11, "pending removal")])
    assert requested(collection.history, "requested_after", "requested_at") == [[None, 6]]


def test_declared_days_are_compared_with_requests(collection):
    history = collection.history
    listings = [a_record(number, site="Slow" if number < 20 else "Quick") for number in range(12, 28)]
    collection.collect(0, one=listings)
    collection.collect(1, one=[one | {"status": "pending removal"} for one in listings])
    quick = [one | {"status": "removed" if one["site"] == "Quick" else "pending removal"} for one in listings]
    collection.collect(4, one=quick)
    collection.collect(20, one=quick)
    with pytest.warns(NoMatch, match="No listing is on a site named 'Other'"):
        assert history.declare_days({"slow": 7, "Quick": 5.5, "Other": 3}, source="their terms") == 3
    assert history.declare_days({"Other": None}) == 1
    table = pd.DataFrame({"site": ["Quick", "Slow"], "declared_days": [4, None], "removal": "form"})
    assert history.declare_days(table, source="definitions") == 1
    declared = history.declared_days()
    assert declared[["site", "declared_days", "source"]].to_numpy().tolist() == [
        ["Quick", 4, "definitions"],
        ["slow", 7, "their terms"],
    ]
    answer = history.declared_vs_observed().set_index("site")
    assert answer["declared_days"].to_dict() == {"Slow": 7, "Quick": 4}
    assert answer[["n", "due", "overdue"]].to_numpy().tolist() == [[8, 8, 8], [8, 8, 0]]
    assert answer["takes_longer"].tolist() == [True, False]
    assert history.declared_vs_observed(at(3))["due"].tolist() == [0, 0]
    history.rename_site("slow", "Slow")
    history.rename_site("Slow", "Sluggish")
    assert history.declared_vs_observed()["site"].tolist() == ["Sluggish", "Quick"]
    assert history.verify() == {}


@pytest.mark.parametrize(
    "days", [{"A": -1}, {"A": 4_000}, {"A": True}, {"A": "7"}, {" ": 7}, {7: 7}, [("A", 7)]]
)
def test_declared_days_are_numbers_by_site(one_run, days):
    with pytest.raises(InvalidArgument):
        one_run.declare_days(days)
    assert one_run.declared_days().empty


def test_an_unlisted_site_is_declared_and_renamed_with_a_warning(renamed):
    listed = str(renamed.records()["site"].dropna().iloc[0])
    with pytest.warns(NoMatch, match=f"No listing is on a site named '{listed}x'. Did you mean '{listed}'"):
        renamed.declare_days({f"{listed}x": 7})
    with pytest.warns(NoMatch, match=f"Did you mean '{listed}'"):
        renamed.rename_site(f"{listed}x", listed)


def test_an_unlisted_site_warns_before_the_lock(renamed, monkeypatch):
    locks = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", lambda *_: locks.append({*renamed._store._locks}))
        renamed.rename_site("Seekfolk", "Seek Folk")
    assert locks == [set()]


def test_records_are_no_life_table(one_run):
    with pytest.raises(MissingColumns, match=r"call history\.time_to_removal\(\)"):
        analysis.time_to_removal(one_run.records())
