"""Labels, ticks and notes stay with what they were said of, also where a service gives everything another id."""

from datetime import timedelta

import pytest
from support.histories import DAWN, Clock, Person, Service, a_link, a_record, an_alert, seen_through

from exposurekit.errors import InvalidArgument
from exposurekit.history import History

TABLES = {"record": "records", "link": "links", "alert": "alerts"}


@pytest.fixture(scope="module")
def served_exposure():
    """A service, and an exposure of it."""
    service = Service()
    with seen_through(service) as exposure:
        yield service, exposure


def holding(status, more=0):
    """Person 1, with ids that are as many more."""
    records = [
        a_record(11 + more, status, reference_id="007"),
        a_record(12 + more, "on hold", "Elsewhere", reference_id="8", href="https://elsewhere.example/8"),
    ]
    links = [a_link("https://pages.example/1"), a_link(None, "No address")]
    alerts = [an_alert("Found", record) for record in records] + [an_alert("Seen", links[0])]
    return Person(records, links, alerts)


@pytest.fixture(params=["id", "reference"])
def marked(request, served_exposure, tmp_path):
    """A history of three looks, between which a record is removed and listed again; by reference, with other ids."""
    service, exposure = served_exposure
    service.clear()
    clock = Clock()
    history = History(tmp_path / "history", clock=clock, records_by=request.param)
    for day, status in enumerate(("discovered", "removed", "discovered")):
        service.people[1] = holding(status, 10 * day if request.param == "reference" else 0)
        clock.set(DAWN + timedelta(days=day))
        history.collect(exposure)
    return history, service, exposure, clock


def placed(table):
    return {(row["user_id"], row["kind"], row["key"]) for row in table.to_dict("records")}


@pytest.mark.parametrize("kind", TABLES)
def test_a_mark_is_kept_by_the_key_of_the_thing(marked, kind):
    history, *_ = marked
    changes = history.changes()
    things = placed(changes[changes["kind"] == kind])
    assert history.label(getattr(history, TABLES[kind])(), "unsure") == len(things)
    assert placed(history.labels()) == things


def test_own_kind_and_key_columns_are_used(marked):
    history, _, _, clock = marked
    changes = history.changes()
    history.label(changes, "mine")
    assert placed(history.labels()) == placed(changes)
    clock.set(DAWN + timedelta(days=4))
    moved = history.diff(DAWN, DAWN + timedelta(days=1)).changes
    assert history.label(moved.iloc[0], "not mine") == 1
    labels = history.labels()
    assert placed(labels[labels["value"] == "not mine"]) == placed(moved.head(1))
    history.note(labels, "looked at again")
    assert placed(history.notes()) == placed(labels)


def test_a_listing_again_is_labelled_as_its_record(marked):
    history, *_ = marked
    again = history.relistings()
    assert history.label(again.iloc[0], "not mine") == 1
    assert placed(history.labels()) == {(1, "record", again["key"].iloc[0])}
    assert placed(history.labels()) < placed(history.changes())


def test_a_tick_outlives_the_next_scan(marked):
    history, service, exposure, clock = marked
    for more in (30, 40):
        if history._records_by == "reference":
            service.people[1] = holding("discovered", more)
        steps = exposure.refresh().steps()
        history.tick(steps)
    assert len(history.ticks()) == len(steps) > 3
    clock.set(DAWN + timedelta(days=4))
    history.tick(steps.iloc[0], "unable")
    assert sorted(history.ticks()["value"]) == ["done"] * (len(steps) - 1) + ["unable"]
    history.note(history.ticks(), "by phone")
    assert placed(history.notes()) == placed(history.ticks())
    assert sorted(history.notes()["step_number"]) == sorted(steps["step_number"])


def test_annotations_show_what_they_are_about(marked):
    history, _, exposure, _ = marked
    record = history.records().iloc[0]
    steps = exposure.refresh().steps()
    history.label(record, "mine")
    history.tick(steps)
    history.note(history.links().iloc[0], "a blog")
    ticks = history.ticks(exposure=exposure)
    columns = ["site", "reference_id", "step_number", "step"]
    for table in (ticks, steps):
        table["site"] = table["site"].astype("str")
    assert sorted(ticks[columns].to_numpy("str").tolist()) == sorted(steps[columns].to_numpy("str").tolist())
    if history._records_by == "id":
        assert ticks["record_id"].dropna().isin(exposure.records()["record_id"]).all()
    assert set(ticks.loc[ticks["site"] == record["site"], "label"]) == {"mine"}
    assert ticks["person"].notna().all()
    [label] = history.labels()[["site", "reference_id"]].to_numpy().tolist()
    assert label == [record["site"], record["reference_id"]]
    assert history.notes()["site"].isna().all()


def test_annotations_are_listed_before_the_first_run(tmp_path):
    history = History(tmp_path / "history")
    history.label({"user_id": 1, "record_id": 11}, "mine")
    assert history.labels()["value"].tolist() == ["mine"]
    assert len(history.ticks()) == 0


@pytest.mark.parametrize(
    ("table", "lacking"),
    [
        ("records", "reference_id"),
        ("records", "site"),
        ("alerts", "href"),
        ("alerts", "site"),
        ("steps", "url"),
        ("steps", "site"),
        ("records", "user_id"),
    ],
)
def test_a_row_that_identifies_nothing_is_refused(served_exposure, tmp_path, table, lacking):
    service, exposure = served_exposure
    service.clear()
    service.people[1] = holding("discovered")
    history = History(tmp_path / "history", records_by="reference")
    whole = getattr(exposure.refresh(), table)()
    mark = history.tick if table == "steps" else history.label
    with pytest.raises(InvalidArgument, match=f"no {lacking}"):
        mark(whole.drop(columns=lacking), *(["mine"] if table != "steps" else []))
    assert list(tmp_path.iterdir()) == []


def test_records_without_a_reference_are_labelled_by_their_ids(served_exposure, tmp_path):
    service, exposure = served_exposure
    service.clear()
    blanks = [a_record(11, reference_id="\t"), a_record(12, reference_id=""), a_record(13, reference_id=" ")]
    service.people[1] = Person(blanks)
    history = History(tmp_path / "history", records_by="reference")
    history.collect(exposure)
    records = history.records()
    assert records["record_id"].tolist() == [11, 12, 13]
    assert history.label(records.iloc[1], "not mine") == 1
    assert history.with_labels()["label"].fillna("none").tolist() == ["none", "not mine", "none"]


@pytest.mark.parametrize("words", [5, None, ["a"], b"a"])
def test_what_is_no_text_is_neither_reason_nor_note(tmp_path, words):
    history, row = History(tmp_path / "history"), {"user_id": 1, "record_id": 11}
    step = {"user_id": 1, "record_id": 11, "url": None, "step_number": 1, "step": "Call them"}
    marks = (
        lambda: history.label(row, "mine", reason=words),
        lambda: history.note(row, words),
        lambda: history.tick(step, note=words),
    )
    for mark in marks:
        with pytest.raises(InvalidArgument, match="is text, such as"):
            mark()
    assert list(tmp_path.iterdir()) == []


def test_a_note_that_says_nothing_is_refused(tmp_path):
    for nothing in ("", " \n"):
        with pytest.raises(InvalidArgument, match="A note must not be empty"):
            History(tmp_path / "history").note({"user_id": 1, "record_id": 11}, nothing)
    assert list(tmp_path.iterdir()) == []


def test_a_kind_that_is_none_is_refused(tmp_path):
    history = History(tmp_path / "history")
    with pytest.raises(InvalidArgument, match="kind is one of: record, link, alert, step"):
        history.label({"user_id": 1, "kind": "person", "key": 7}, "mine")


def test_the_newest_tick_counts_while_the_clock_stands_still(marked):
    history, _, exposure, clock = marked
    step = exposure.steps().iloc[0]
    for state in ("done", "unable", "open", "unable", "done", "unable"):
        history.tick(step, state, note=state)
    clock.set(DAWN)  # set back
    history.tick(step, "done", note="last")
    for fresh in (history, History(history.path, records_by=history._records_by)):
        [tick] = fresh.ticks().to_dict("records")
        assert (tick["value"], tick["note"]) == ("done", "last")
