"""Observations together with annotations: steps with ticks, records with labels, and what depends on them."""

import shutil
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from support.histories import DAWN, Clock, Person, a_link, a_record, an_alert

from exposurekit import analysis, frames
from exposurekit.errors import EmptyHistory, InvalidArgument, MissingColumns, NotFound
from exposurekit.history import History

TICKS = {"tick": "str", "tick_note": "str", "ticked_at": "datetime64[us, UTC]"}
LABELS = {"label": "str", "label_reason": "str", "labelled_at": "datetime64[us, UTC]"}
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


LISTED = {
    "one": [a_record(11, reference_id="1"), a_record(12, site="Other", reference_id="2")],
    "two": [a_record(11, reference_id="1")],
}


class Story:
    """A history that is collected day by day."""

    def __init__(self, path, service, exposure, by="id", first_runs=None):
        service.clear()
        self.first_runs = first_runs
        self.service, self.exposure, self.clock = service, exposure, Clock()
        self.history = History(path / "history", clock=self.clock, records_by=by)

    def register(self, **people):
        """``one=[...]`` are the records of person 1, who has an alert about each."""
        for name, records in people.items():
            alerts = [an_alert("Found", record) for record in records]
            person = Person(records, [a_link("https://pages.example/1")], alerts)
            self.service.people[("nobody", "one", "two").index(name)] = person

    def collect(self, day, **people):
        """Collect for an hour."""
        self.register(**people)
        self.clock.set(DAWN + timedelta(days=day), DAWN + timedelta(days=day, hours=1))
        if self.first_runs is None:
            self.history.collect(self.exposure)
        else:
            self.first_runs.collect(self.history, self.exposure, self.service, self.clock)
            self.first_runs = None


@pytest.fixture(scope="module", params=["id", "reference"])
def base(request, served_exposure, tmp_path_factory):
    path = tmp_path_factory.mktemp("base")
    Story(path, *served_exposure, by=request.param).collect(0, **LISTED)
    return path / "history", request.param


@pytest.fixture
def story(base, served_exposure, tmp_path):
    """One run of `LISTED`, by id and by reference."""
    shutil.copytree(base[0], tmp_path / "history")
    story = Story(tmp_path, *served_exposure, by=base[1])
    story.register(**LISTED)
    return story


@pytest.fixture
def by_id(first_runs, served_exposure, tmp_path):
    return Story(tmp_path, *served_exposure, first_runs=first_runs)


def cells(table, *columns):
    rows = table[[*columns]].itertuples(index=False)
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in rows]


def shape(table, names):
    return {name: str(table[name].dtype) for name in names}


def test_steps_are_those_of_the_listed_alerts(by_id):
    """Specification, "Alert", ``opt_out_procedure``."""
    by_id.collect(0, one=[a_record(11), a_record(12)], two=[a_record(21, "on hold")])
    by_id.collect(1, one=[a_record(12), a_record(13)])
    steps = by_id.history.steps()
    plain = by_id.exposure.refresh().steps()
    assert steps.columns.tolist() == [*plain.columns, "first_seen_at", *TICKS, "label"]
    columns = ["user_id", "step_number", "step", "record_id", "site", "status", "url"]
    assert sorted(cells(steps, *columns)) == sorted(cells(plain, *columns))
    assert shape(steps, plain.columns) == shape(plain, plain.columns)
    assert shape(steps, TICKS) == TICKS
    assert steps[[*TICKS]].isna().all(axis=None)
    ages = {DAWN + timedelta(hours=1): {12, 21}, DAWN + timedelta(days=1, hours=1): {13}}
    assert {at: {*of["record_id"]} for at, of in steps.groupby("first_seen_at")} == ages
    assert {*by_id.history.steps(as_of="2026-03-01")["record_id"]} == {11, 12, 21}


def test_a_step_has_its_newest_tick(story):
    history = story.history
    steps = history.steps()
    history.tick(steps, "done", note="all at once")
    story.clock.set(DAWN + timedelta(days=3))
    history.tick(steps.iloc[0], "open", note=HOSTILE)
    history.tick(steps.iloc[3], "unable")
    ticked = history.steps()
    assert ticked["tick"].tolist() == ["open", "done", "done", "unable", "done", "done"]
    assert ticked["tick_note"].tolist()[:4] == [HOSTILE, "all at once", "all at once", ""]
    assert ticked["ticked_at"].dt.floor("ms").tolist()[::3] == [DAWN + timedelta(days=3)] * 2
    assert shape(ticked, TICKS) == TICKS
    earlier = history.steps(as_of="2026-03-01")
    assert earlier["tick"].tolist() == ticked["tick"].tolist()  # ticks are always the newest


def test_a_tick_belongs_to_its_step_after_ids_change(served_exposure, tmp_path):
    story = Story(tmp_path, *served_exposure, by="reference")
    story.collect(0, one=[a_record(11, reference_id="1"), a_record(12, site="Other", reference_id="2")])
    story.history.tick(story.history.steps().iloc[1], "done")
    story.collect(1, one=[a_record(31, reference_id="1"), a_record(32, site="Other", reference_id="2")])
    assert cells(story.history.steps(), "site", "step_number", "tick") == [
        ("PeepFinder", 1, None),
        ("PeepFinder", 2, "done"),
        ("Other", 1, None),
        ("Other", 2, None),
    ]


@pytest.mark.parametrize("base", ["reference"], indirect=True)
def test_ticks_are_added_to_steps_in_any_order(story):
    steps = story.exposure.refresh().steps()
    unticked = story.history.with_ticks(steps)
    story.history.tick(steps.iloc[1], "done")
    assert shape(story.history.with_ticks(steps), TICKS) == shape(unticked, TICKS) == TICKS
    for rows in (steps[::-1], pd.concat([steps, steps]), steps.set_index("step", drop=False), steps.head(0)):
        before, ticked = rows.copy(deep=True), story.history.with_ticks(rows)
        pd.testing.assert_frame_equal(ticked[[*rows.columns]], before)
        pd.testing.assert_frame_equal(rows, before)
        steps_of_rows = cells(rows, "user_id", "record_id", "step_number")
        assert cells(ticked, "tick") == [("done" if step == (1, 11, 2) else None,) for step in steps_of_rows]
    assert unticked["tick"].isna().all()


@pytest.mark.parametrize("base", ["id"], indirect=True)
def test_rows_of_another_kind_are_refused(story):
    history, exposure = story.history, story.exposure.refresh()
    for _ in range(2):  # without and with annotations
        for other in (exposure.records(), exposure.links(), exposure.alerts()):
            with pytest.raises(InvalidArgument, match="These rows are not steps: pass rows of steps"):
                history.with_ticks(other)
        for other in (exposure.steps(), exposure.links(), exposure.alerts()):
            with pytest.raises(InvalidArgument, match="These rows are not records: pass rows of records"):
                history.with_labels(other)
        with pytest.raises(InvalidArgument, match="The row is not of records"):
            history.with_labels(exposure.records()[["user_id", "name"]])
        history.tick(exposure.steps())
        history.label(exposure.records(), "mine")


def test_a_record_has_its_newest_label(story):
    history = story.history
    history.label(history.records(), "unsure")
    story.clock.set(DAWN + timedelta(days=3))
    records = history.records()
    history.label(
        records[(records["user_id"] == 1) & (records["record_id"] == 11)], "not mine", reason=HOSTILE
    )
    history.label(history.links().iloc[0], "mine")  # a page is no record
    labelled = history.with_labels().sort_values(["user_id", "record_id"])
    assert cells(labelled, "user_id", "record_id", "label", "label_reason") == [
        (1, 11, "not mine", HOSTILE),
        (1, 12, "unsure", ""),
        (2, 11, "unsure", ""),
    ]
    assert labelled["labelled_at"].iloc[0] == DAWN + timedelta(days=3)
    assert shape(labelled, LABELS) == LABELS
    pd.testing.assert_frame_equal(history.with_labels().drop(columns=[*LABELS]), history.records())


@pytest.mark.parametrize("base", ["id"], indirect=True)
def test_labels_are_added_to_records_in_any_order(story):
    records = story.exposure.refresh().records()
    unlabelled = story.history.with_labels(records)
    assert shape(unlabelled, LABELS) == LABELS
    assert unlabelled["label"].isna().all()
    story.history.label(records.iloc[1], "mine")
    by_name = records.set_index("name", drop=False)
    for table in (records, records[::-1], pd.concat([records] * 2), by_name, records.head(0)):
        labelled = story.history.with_labels(table)
        assert cells(labelled, "record_id", "label") == [
            (record, "mine" if record == 12 else None) for record in table["record_id"]
        ]
        pd.testing.assert_frame_equal(labelled[[*table.columns]], table)


@pytest.mark.parametrize("base", ["reference"], indirect=True)
def test_an_annotation_is_of_one_person_alone(story):
    history = story.history
    records, steps = history.records(), history.steps()
    history.label(records[records["user_id"] == 2], "mine")
    history.tick(steps[steps["user_id"] == 2].iloc[0])
    assert cells(history.with_labels(), "user_id", "label") == [(1, None), (1, None), (2, "mine")]
    assert cells(history.steps(), "user_id", "tick") == [*[(1, None)] * 4, (2, "done"), (2, None)]


def test_precision_is_of_labelled_records(by_id):
    by_id.collect(0, one=[a_record(11), a_record(12), a_record(13, site="Other")])
    history = by_id.history
    assert cells(history.precision(), "site", "unlabelled", "precision") == [
        ("Other", 1, None),
        ("PeepFinder", 2, None),
    ]
    history.label(history.records().iloc[0], "mine")
    history.label(history.records().iloc[1], "not mine")
    assert cells(history.precision(), "site", "mine", "not mine", "unlabelled", "precision") == [
        ("PeepFinder", 1, 1, 0, 0.5),
        ("Other", 0, 0, 1, None),
    ]


def test_ticks_and_labels_change_the_work_queue(by_id):
    by_id.collect(0, one=[a_record(11), a_record(12, "removed")], two=[a_record(21)])
    history = by_id.history
    assert cells(history.work_queue(), "record_id", "state") == [(11, "open"), (21, "open")]
    steps = history.steps()
    history.tick(steps[steps["record_id"] == 11], "done")
    history.tick(steps[steps["record_id"] == 21].head(1), "done")
    assert cells(history.work_queue(), "record_id", "state", "done") == [(21, "started", 1), (11, "done", 2)]
    assert (history.work_queue()["first_seen_at"] == DAWN + timedelta(hours=1)).all()
    pd.testing.assert_frame_equal(history.work_queue(), analysis.work_queue(history.steps()))
    records = history.records()
    history.label(records[records["record_id"] == 21], "not mine")
    assert cells(history.work_queue(), "record_id") == [(11,)]


def test_coverage_counts_from_now(by_id):
    by_id.collect(0, one=[a_record(11)], two=[a_record(21)])
    by_id.service.broken[2] = "no user"
    by_id.collect(3)
    # The run began an hour ago.
    assert cells(by_id.history.coverage(), "last_complete_load", "whole", "failed", "people")[:2] == [
        ("within a day", 1, 0, 1),
        ("within a week", 0, 1, 1),
    ]
    by_id.clock.set(DAWN + timedelta(days=40))
    assert by_id.history.coverage()["people"].tolist() == [0, 0, 0, 2, 0]


def test_a_site_whose_records_vanish_together_is_doubtful(by_id):
    fine = [a_record(50 + number, site="Fine") for number in range(2)]
    by_id.collect(0, one=[*fine, *(a_record(number) for number in range(1, 7))])
    assert not by_id.history.site_health()["is_doubtful"].any()
    by_id.collect(4, one=[*fine, a_record(6)])
    by_id.clock.set(DAWN + timedelta(days=6, hours=1))
    columns = ["site", "open", "vanished", "vanished_at_once", "quiet_days", "is_doubtful"]
    assert cells(by_id.history.site_health(), *columns) == [
        ("PeepFinder", 1, 5, 5, 2.0, True),
        ("Fine", 2, 0, 0, 6.0, False),
    ]


@pytest.fixture(scope="module")
def weeks(served_exposure, tmp_path_factory):
    """Runs four days apart, which no test changes: records come, are removed, vanish and come back."""
    story = Story(tmp_path_factory.mktemp("weeks"), *served_exposure)
    first = a_record(1)
    listed = [first]
    story.collect(0, one=listed)
    for day in range(4, 44, 4):
        listed = [*listed[-3:], a_record(100 + day, site="Other" if day % 8 else "PeepFinder")]
        if day == 20:
            listed[1] |= {"status": "removed"}
        if day == 28:
            listed.append(first)
        story.collect(day, one=listed)
    story.clock.set(DAWN + timedelta(days=70))  # queries are as of the last run all the same
    return story.history


def test_a_life_table_counts_episodes_by_age(by_id):
    by_id.collect(0, one=[a_record(11), a_record(12)])
    by_id.collect(2, one=[a_record(11), a_record(12, "removed"), a_record(13), a_record(14, "removed")])
    by_id.collect(5, one=[a_record(11), a_record(14, "removed")])
    flows = by_id.history.life_table()
    dtypes = {"days": "int64", "flow": "str", "left_censored": "bool", "gap_days": "int64", "n": "int64"}
    assert shape(flows, flows.columns) == dtypes
    assert sorted(cells(flows, "days", "flow", "left_censored", "gap_days", "n")) == [
        (0, "entered", False, 2, 2),
        (0, "entered", True, 0, 2),
        (0, "first_removed", False, 0, 1),
        (2, "removed", True, 0, 1),
        (3, "vanished", False, 0, 1),
        (5, "open", True, 0, 1),
    ]
    early = by_id.history.life_table(as_of="2026-03-02")
    assert sorted(cells(early, "days", "flow", "n")) == [(0, "entered", 2), (1, "open", 2)]


def test_a_life_table_by_site_sums_to_the_whole(weeks):
    apart, together = weeks.life_table("site"), weeks.life_table()
    assert {*apart["site"]} == {"PeepFinder", "Other"}
    keys = ["days", "flow", "left_censored", "gap_days"]
    summed = apart.groupby(keys)["n"].sum()
    assert summed.to_dict() == together.set_index(keys)["n"].to_dict()
    times = weeks.time_to_removal()
    expected = analysis.time_to_removal(apart)
    is_unrequested = (times["requested"] == 0) & (times["removed"] == 0)
    assert is_unrequested.tolist() == [True, False]
    expected.loc[is_unrequested, ["never", "never_low", "never_high"]] = np.nan
    pd.testing.assert_frame_equal(times.drop(columns="requested"), expected)
    requested = weeks.failed_removals().set_index("site")["requested"].reindex(times["site"]).fillna(0)
    assert times["requested"].tolist() == requested.tolist()
    assert weeks.time_to_removal(by=None)["requested"].tolist() == [requested.sum()]


def test_a_life_table_refuses_other_groups_and_instants(weeks):
    for by in ("user_id", "status", ""):
        with pytest.raises(InvalidArgument, match="by is one of: None, site"):
            weeks.life_table(by)
    with pytest.raises(InvalidArgument, match="as_of must be a day"):
        weeks.life_table(as_of="2026-03-09T12:00Z")
    with pytest.raises(NotFound, match="Nothing was observed by then"):
        weeks.life_table(as_of="2026-01-01")


def test_the_forecast_is_of_the_newest_run(weeks):
    table = weeks.forecast()
    assert table["days"].tolist() == [30, 60, 90]
    still = analysis.is_open(weeks.records()["status"]).sum()
    assert table["open_now"].tolist() == [still] * 3
    end = datetime(2026, 4, 10, 23, 59, 59, 999_999, tzinfo=UTC)
    tables = weeks.records(), weeks.life_table("site"), weeks.relistings()
    assert len(tables[2]) == 1
    first = weeks.runs()["finished_at"].iloc[0]
    people = weeks.people()[["user_id"]].assign(watched_from=first)
    observed = {"people": people, "runs": weeks.runs(), "at": end}
    pd.testing.assert_frame_equal(table, analysis.forecast(*tables, **observed))
    predicted = weeks.forecast([5, 1], arrivals_days=9, level=0.5)
    pd.testing.assert_frame_equal(
        predicted, analysis.forecast(*tables, **observed, days=[5, 1], arrivals_days=9, level=0.5)
    )
    # A new record every four days, without the first week.
    assert weeks.forecast([1])["of_new"].tolist() == pytest.approx([8 / 32], rel=0.15)


def test_a_forecast_takes_one_horizon_or_several(weeks):
    assert weeks.forecast(7).equals(weeks.forecast(days=[7]))


def test_after_one_run_there_is_no_forecast(by_id):
    by_id.collect(0, one=[a_record(11)])
    table = by_id.history.forecast([30])
    assert cells(table, "open_now", "of_open", "of_new", "open", "low", "beyond") == [
        (1, None, None, None, None, 1)
    ]
    assert table["reason"].tolist() == [
        "30 days ahead require 60 days of history, and listings were observed for 0"
    ]


def test_people_without_a_record_count_in_a_forecast(by_id):
    """Those who had none for six weeks lower the rate of new records."""
    for user in range(1, 11):
        by_id.service.people[user] = Person()
    for day in (0, 10, 20, 30, 40, 42):
        if day in (20, 30, 40):
            by_id.service.people[day // 10].records = [a_record(day)]
        by_id.collect(day)
    table = by_id.history.forecast([14])
    assert table["of_new"].tolist() == pytest.approx([3 / 35 * 14], rel=0.1)
    assert table["reason"].isna().all()
    del by_id.service.people[9]
    assert len(by_id.history.people()) == 10


def test_a_record_removed_at_first_has_no_age(by_id):
    for day in range(0, 43, 7):
        by_id.collect(day, one=[a_record(11, "removed"), a_record(12 + day // 4)])
    assert by_id.history.forecast([14])["reason"].tolist() == [
        "age unknown for listings already removed at the first load: 1"
    ]
    by_id.collect(43, one=[a_record(11), a_record(22)])
    assert by_id.history.forecast([14])["reason"].isna().all()


def test_queries_of_an_empty_history_raise_an_error(tmp_path):
    history = History(tmp_path / "history")
    for query in ("steps", "with_labels", "work_queue", "precision", "site_health", "life_table", "forecast"):
        with pytest.raises(NotFound, match=r"collect\(\)"):
            getattr(history, query)()
    history.ingest_deliveries([], inbox="mine")  # now it exists, without a run
    for query in ("last_run", "records", "work_queue", "forecast"):
        with pytest.raises(EmptyHistory, match=r"collect\(\)"):
            getattr(history, query)()


def test_people_without_items_make_empty_tables(by_id):
    by_id.service.people[1] = Person()
    by_id.collect(0)
    history = by_id.history
    for query in ("steps", "with_labels", "work_queue", "precision", "site_health", "life_table"):
        assert len(getattr(history, query)()) == 0
    assert history.coverage()["people"].sum() == 1
    assert history.forecast()["open_now"].tolist() == [0, 0, 0]


def test_steps_of_each_alert_are_numbered_from_one(by_id):
    both = [an_alert("Found", a_record(11)), an_alert("Found", a_record(12)), an_alert("Page", a_link(None))]
    both[1] |= {"opt_out_procedure": "1. Open it. 2. Press Remove. 3. Keep a copy."}
    both[2] |= {"opt_out_procedure": []}
    by_id.service.people = {
        7: Person(alerts=both),
        9: Person(alerts=[both[0] | {"opt_out_procedure": [HOSTILE, "", "Wait."]}]),
    }
    exposure = by_id.exposure.refresh()
    alerts = exposure.alerts()
    steps = frames.steps_from_alerts(alerts)
    pd.testing.assert_frame_equal(steps, exposure.steps())
    numbers = steps.groupby(["user_id", "alert_number"])["step_number"].agg(list).tolist()
    assert numbers == [[1, 2], [1, 2, 3], [1, 2]]
    assert steps["step"].tolist()[-4:] == ["Press Remove.", "Keep a copy.", HOSTILE, "Wait."]
    pd.testing.assert_frame_equal(
        frames.steps_from_alerts(alerts[alerts["user_id"] == 9]),
        steps[steps["user_id"] == 9].reset_index(drop=True),
    )
    beside = frames.steps_from_alerts(alerts, beside=["text", "guide"])
    pd.testing.assert_frame_equal(beside.drop(columns="text"), steps)
    assert beside["text"].notna().all()


def test_no_alerts_have_the_same_columns_of_steps():
    alerts, steps = frames.frame("alerts", []), frames.frame("steps", [])
    assert shape(frames.steps_from_alerts(alerts), steps.columns) == shape(steps, steps.columns)
    columns = frames.steps_from_alerts(alerts, beside=["text"]).columns.tolist()
    assert columns == [*steps.columns, "href", "link_title", "link_url", "guide", "text"]
    with pytest.raises(
        MissingColumns, match=r"^steps_from_alerts needs the columns opt_out_procedure, url, seen_at, and"
    ):
        frames.steps_from_alerts(alerts.drop(columns=["opt_out_procedure", "url"]), beside=["seen_at"])


@pytest.mark.long
@pytest.mark.parametrize("by", ["id", "reference"])
def test_a_query_as_of_a_day_equals_that_days_result(served_exposure, tmp_path, by):
    story = Story(tmp_path, *served_exposure, by=by)
    queries = {
        "relistings": History.relistings,
        "work_queue": History.work_queue,
        "precision": History.precision,
        "forecast": lambda history, day: history.forecast([7, 30], as_of=day),
        "site_health": History.site_health,
    }
    changes = {
        3: [a_record(11)],
        5: [],
        9: [a_record(11), a_record(12)],
        16: [a_record(12, "removed")],
        18: [a_record(11)],
    }
    results = {}
    records = [a_record(11), a_record(12), a_record(13, "removed")]
    for day in (0, 2, 3, 5, 9, 12, 16, 18):
        records = changes.get(day, records)
        story.collect(day, one=records)
        if day in (2, 12):
            as_of = DAWN.date() + timedelta(days=day)
            results[as_of] = {name: query(story.history, as_of) for name, query in queries.items()}
    for as_of, tables in results.items():
        for name, query in queries.items():
            pd.testing.assert_frame_equal(query(story.history, as_of), tables[name], obj=f"{name}, {as_of}")
    assert len(tables["relistings"]) == 2
    assert len(story.history.relistings()) == 3


def test_a_day_before_the_first_run_raises_an_error(weeks):
    for query in ("relistings", "work_queue", "precision", "site_health", "forecast"):
        with pytest.raises(NotFound, match="Nothing was observed by then"):
            getattr(weeks, query)(as_of=DAWN.date() - timedelta(days=1))
