"""Labels, ticks and notes belong to their item, also if the service changes its id."""

import shutil
from datetime import timedelta

import pytest
from support import ticked
from support.histories import DAWN, Clock, Person, Service, a_link, a_record, an_alert, seen_through

import exposurekit as ek
from exposurekit.analysis.work_queue import CHECK_MINUTES
from exposurekit.errors import ConfigurationError, InvalidArgument
from exposurekit.history import History
from exposurekit.history.record_keys import link_key

TABLES = {"record": "records", "link": "links", "alert": "alerts"}


def listing(status, more=0):
    """Person 1, with greater ids."""
    records = [
        a_record(11 + more, status, reference_id="007"),
        a_record(12 + more, "on hold", "Elsewhere", reference_id="8", href="https://elsewhere.example/8"),
    ]
    links = [a_link("https://pages.example/1"), a_link(None, "No address")]
    alerts = [an_alert("Found", record) for record in records] + [an_alert("Seen", links[0])]
    return Person(records, links, alerts)


@pytest.fixture(scope="module", params=["id", "reference"])
def base(request, served_exposure, tmp_path_factory):
    service, exposure = served_exposure
    clock, directory = Clock(), tmp_path_factory.mktemp("base") / "history"
    with History(directory, clock=clock, records_by=request.param) as history:
        for day, status in enumerate(("discovered", "removed", "discovered")):
            service.people = {1: listing(status, 10 * day if request.param == "reference" else 0)}
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure)
    return directory, clock, service.people


@pytest.fixture
def collected(base, served_exposure, tmp_path):
    """Three runs: a record is removed and listed again; by reference its ids change, too."""
    directory, clock, people = base
    service, exposure = served_exposure
    service.people = dict(people)
    clock.set(DAWN + timedelta(days=2))
    history = History(shutil.copytree(directory, tmp_path / "history"), clock=clock)
    return history, service, exposure.refresh(), clock


def keys(table):
    return {(row["user_id"], row["kind"], row["key"]) for row in table.to_dict("records")}


def test_an_annotation_has_the_key_of_its_item(collected):
    history, *_ = collected
    changes = history.changes()
    for kind, table in TABLES.items():
        expected = keys(changes[changes["kind"] == kind])
        assert history.note(getattr(history, table)(), "checked") == len(expected)
        notes = history.notes()
        assert keys(notes[notes["kind"] == kind]) == expected


@pytest.mark.parametrize("table", ["alerts", "steps", "work_queue"])
def test_labelling_an_alert_labels_its_listing_or_page(collected, table):
    history, *_ = collected
    alerts, changes = history.alerts(), history.changes()
    assert len(alerts) == len(history.work_queue()) == 3
    rows = getattr(history, table)()
    assert history.label(rows, "not mine") == len(rows)
    assert {(one["kind"], one["key"]) for one in history.labels().to_dict("records")} == {
        *changes.loc[changes["kind"] == "record", ["kind", "key"]].itertuples(index=False, name=None),
        ("link", link_key(alerts["link_url"].dropna().item(), alerts["link_title"].dropna().item())),
    }
    assert history.precision()["not mine"].tolist() == [1, 1]
    assert history.work_queue().empty


def test_own_kind_and_key_columns_are_used(collected):
    history, _, _, clock = collected
    changes = history.changes()
    history.label(changes, "mine")
    assert keys(history.labels()) == keys(changes)
    clock.set(DAWN + timedelta(days=4))
    moved = history.diff(DAWN, DAWN + timedelta(days=1)).changes
    assert history.label(moved.iloc[0], "not mine") == 1
    labels = history.labels()
    assert keys(labels[labels["value"] == "not mine"]) == keys(moved.head(1))
    history.note(labels, "checked again")
    assert keys(history.notes()) == keys(labels)


@pytest.mark.parametrize("base", ["reference"], indirect=True)
def test_a_relisting_is_labelled_as_its_record(collected):
    history, *_ = collected
    again = history.relistings()
    assert history.label(again.iloc[0], "not mine") == 1
    assert keys(history.labels()) == {(1, "record", again["key"].iloc[0])}
    assert keys(history.labels()) < keys(history.changes())


def test_a_tick_outlives_the_next_scan(collected):
    history, service, exposure, clock = collected
    for more in (30, 40):
        if history._records_by == "reference":
            service.people[1] = listing("discovered", more)
        steps = exposure.refresh().steps()
        history.tick(steps)
    assert len(history.ticks()) == len(steps) > 3
    clock.set(DAWN + timedelta(days=4))
    history.tick(steps.iloc[0], "unable")
    assert sorted(history.ticks()["value"]) == ["done"] * (len(steps) - 1) + ["unable"]
    history.note(history.ticks(), "by phone")
    assert keys(history.notes()) == keys(history.ticks())
    assert sorted(history.notes()["step_number"]) == sorted(steps["step_number"])


def test_annotations_have_the_columns_of_their_item(collected):
    history, _, exposure, _ = collected
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
    ("table", "columns"),
    [
        ("records", ["reference_id", "site", "user_id"]),
        ("alerts", ["href", "site"]),
        ("steps", ["url", "site"]),
    ],
)
def test_a_row_without_an_identity_is_refused(served_exposure, tmp_path, table, columns):
    service, exposure = served_exposure
    service.people = {1: listing("discovered")}
    history = History(tmp_path / "history", records_by="reference")
    rows = getattr(exposure.refresh(), table)()
    for column in columns:
        with pytest.raises(InvalidArgument, match=f"no {column}"):
            history.tick(rows.drop(columns=column)) if table == "steps" else history.note(
                rows.drop(columns=column), "checked"
            )
        if column in {"site", "reference_id", "user_id"}:
            with pytest.raises(InvalidArgument, match=f"no {column}"):
                history.label(rows.drop(columns=column), "mine")
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


def test_invalid_texts_and_kinds_are_refused(tmp_path):
    history, row = History(tmp_path / "history"), {"user_id": 1, "record_id": 11}
    step = {"user_id": 1, "record_id": 11, "url": None, "step_number": 1, "step": "Call them"}
    for text in (5, None, ["a"], b"a"):
        with pytest.raises(InvalidArgument, match="is text, such as"):
            history.label(row, "mine", reason=text)
        with pytest.raises(InvalidArgument, match="is text, such as"):
            history.note(row, text)
        with pytest.raises(InvalidArgument, match="is text, such as"):
            history.tick(step, note=text)
    for empty in ("", " \n"):
        with pytest.raises(InvalidArgument, match="A note must not be empty"):
            history.note(row, empty)
    with pytest.raises(InvalidArgument, match="kind is one of: record, link, alert, step"):
        history.label({"user_id": 1, "kind": "person", "key": 7}, "mine")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("base", ["id"], indirect=True)
def test_the_newest_tick_counts_though_the_clock_stops(collected):
    history, _, exposure, clock = collected
    step = exposure.steps().iloc[0]
    for state in ("done", "unable", "open", "unable", "done", "unable"):
        history.tick(step, state, note=state)
    clock.set(DAWN)  # set back
    history.tick(step, "done", note="last")
    for fresh in (history, History(history.path, records_by=history._records_by)):
        [tick] = fresh.ticks().to_dict("records")
        assert (tick["value"], tick["note"]) == ("done", "last")


@pytest.mark.parametrize("base", ["id"], indirect=True)
def test_a_tick_of_a_queue_row_covers_its_steps(collected):
    history, *_ = collected
    with pytest.raises(InvalidArgument, match="no steps: pass rows of steps"):
        history.tick(history.records())
    assert history.ticks().empty
    queue = history.work_queue()
    assert {*queue["kind"]} == {"listing", "page"}
    for position, row in enumerate(queue.itertuples(), 1):
        assert history.tick(row, minutes=4.0) == row.steps > 1
        done = history.work_queue()
        assert (done["state"] == "done").sum() == position
    assert (done["done"] == done["steps"]).all()
    assert history.tick(history.alerts(), "open") == queue["steps"].sum() == history.tick(queue)
    assert history.timed_steps()["minutes"].sum() == 4.0 * len(queue)


@pytest.mark.parametrize("base", ["reference"], indirect=True)
def test_timed_ticks_belong_to_their_listing(collected):
    """Steps of one listing, or page, share its key; sites have their newest names; the person takes them along."""
    history, _, exposure, _ = collected
    steps = exposure.steps()
    assert history.timed_steps().empty
    assert history.tick(steps, minutes=2.0 * len(steps)) == len(steps)
    history.tick(steps.head(1), "open")
    timed = history.timed_steps()
    assert timed["minutes"].tolist() == [2.0] * len(steps)
    assert timed["step_number"].sum() == steps["step_number"].sum()
    records, links = history.records(), history.changes().query("kind == 'link'")
    assert keys(timed) <= keys(history.changes())
    assert {*timed.loc[timed["kind"] == "record", "site"]} == {*records["site"]}
    assert {*timed.loc[timed["kind"] == "link", "site"]} == {"pages.example"}
    assert {*timed.loc[timed["kind"] == "link", "key"]} <= {*links["key"]}
    assert history.step_minutes().empty  # no tick follows another
    assert len(history.ticks()) == len(steps)
    for minutes in (-1, True, "2", float("nan"), float("inf"), 10_080):
        with pytest.raises(InvalidArgument, match="minutes are a number from 0 to 10,079"):
            history.tick(steps.head(1), minutes=minutes)
    history.erase(1)
    assert history.timed_steps().empty


def test_minutes_on_a_page_without_address_belong_to_its_title(tmp_path):
    step = {"user_id": 1, "record_id": None, "url": "https://pages.example/out", "link_url": None}
    step |= {"site": None, "link_title": "Page 1", "step_number": 1, "step": "Write."}
    history = History(tmp_path / "history")
    history.tick(step, minutes=2.0)
    history.label(step, "mine")
    assert keys(history.timed_steps()) == keys(history.labels())


def test_label_of_a_page_counts_in_the_work_queue(tmp_path):
    """A labelled page takes no check, and one that shows somebody else no work."""
    links = [a_link(f"https://pages.example/{number}", f"Page {number}") for number in (1, 2)]
    alerts = [an_alert(link["title"], link) | {"url": link["url"]} for link in links]
    service = Service({1: Person(links=links, alerts=alerts)})
    with seen_through(service) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        queue, pages = history.work_queue(), history.links()
        history.label(pages.iloc[0], "mine")
        labelled = history.work_queue()
        history.label(pages.iloc[1], "not mine")
        assert history.work_queue()["link_url"].tolist() == [pages["url"].iloc[0]]
    assert len(queue) == len(labelled) == 2
    assert queue["minutes"].sum() - labelled["minutes"].sum() == CHECK_MINUTES


def boxes(history):
    """The items that a page of manual work alone offers to tick."""
    return ticked.items(ek.report(history, sections=["work_queue"]).to_html())


def saved(tmp_path, items, at):
    file = tmp_path / "ticks.json"
    file.write_text(ticked.ticks_file(items, at.isoformat()))
    return file


@pytest.mark.parametrize("base", ["reference"], indirect=True)
def test_ticks_of_a_report_count_once(collected, tmp_path):
    history, _, exposure, clock = collected
    items = ticked.items(ek.report(history, exposure=exposure).to_html())
    assert len(items) == 3
    file = saved(tmp_path, items[1:], clock() - timedelta(hours=1))
    assert str(history.import_ticks(file)) == "2 items marked as done"
    ticks = history.ticks()
    assert (ticks["value"] == "done").all()
    assert (ticks["marked_at"] == clock() - timedelta(hours=1)).all()
    assert (len(ticks), ticks["step"].isna().sum()) == (2 * len(ticks["step"].unique()), 0)
    again = history.import_ticks(file)
    assert str(again) == "0 items marked as done; 2 unchanged: done before, or marked later"
    assert len(history._annotations.every("tick")) == len(ticks)
    assert boxes(history) == items[:1]


@pytest.mark.parametrize("base", ["id"], indirect=True)
def test_imported_tick_yields_to_a_later_mark(collected, tmp_path):
    history, _, _, clock = collected
    items = boxes(history)[:1]
    file = saved(tmp_path, items, clock() - timedelta(days=1))
    history.import_ticks(file)
    history.tick(history.ticks(), "open", note="the form failed")
    assert history.import_ticks(file).unchanged == 1
    assert {*history.ticks()["value"]} == {"open"}
    clock.set(clock() + timedelta(hours=1))
    ahead = saved(tmp_path, items, clock() + timedelta(days=400))  # a browser's clock may be wrong
    assert history.import_ticks(ahead).new == 1
    ticks = history.ticks()
    assert {*ticks["value"]} == {"done"}
    assert (ticks["marked_at"] == clock()).all()


@pytest.mark.parametrize("base", ["id"], indirect=True)
def test_unknown_ticked_items_are_counted_or_refused(collected, tmp_path):
    history, _, _, clock = collected
    [item, *_] = boxes(history)
    others = ["1 5", f"2 {item.split()[1]}"]  # no such item, and that of another person
    assert str(history.import_ticks(saved(tmp_path, [item, *others], clock()))) == (
        "1 item marked as done; 2 not in this history, or changed since the report"
    )
    before = len(history.ticks())
    with pytest.raises(InvalidArgument, match="The history has none of the 2 ticked items: "):
        history.import_ticks(saved(tmp_path, others, clock()))
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        history.import_ticks(tmp_path / "nothing.json")
    assert len(history.ticks()) == before
    assert history.import_ticks(saved(tmp_path, [], clock())).new == 0


@pytest.mark.parametrize("base", ["reference"], indirect=True)
def test_changed_steps_are_not_ticked_by_an_older_report(collected, tmp_path):
    history, service, exposure, clock = collected
    items = boxes(history)
    for alert in service.people[1].alerts:
        alert["opt_out_procedure"] = [*alert["opt_out_procedure"], "Then call them."]
    history.collect(exposure.refresh())
    with pytest.raises(InvalidArgument, match="changed since"):
        history.import_ticks(saved(tmp_path, items, clock()))
    assert history.ticks().empty
