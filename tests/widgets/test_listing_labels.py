"""Records are labelled one by one; labels are stored, and records without one come first."""

import shutil
from datetime import UTC, datetime

import ipywidgets
import pytest
from support import widget_controls as kit
from support.histories import Clock, Person, Service, a_record, seen_through

from exposurekit.errors import ExposureError, InvalidArgument
from exposurekit.history import History
from exposurekit.widgets import RecordLabels


@pytest.fixture(scope="module")
def records(exposure):
    return exposure.records()


@pytest.fixture
def labels(records, history):
    return RecordLabels(records, history)


def reason(labels):
    return kit.the(labels, ipywidgets.Text, "Reason")


def in_order(records):
    """The ids of records in the order in which they are displayed: open ones first."""
    is_open = ~records["status"].isin(["removed", "vanished"])
    return [*records.loc[is_open, "record_id"], *records.loc[~is_open, "record_id"]]


def step_through(labels):
    """The ids of all records, in the order of the button Skip."""
    ids = []
    for _ in range(len(labels.records)):
        ids.append(int(labels.record["record_id"]))
        kit.press(labels, "Skip")
    return ids


def test_label_and_reason_are_stored_and_restored(records, labels, history):
    first = labels.record["record_id"]
    reason(labels).value = " another birth date "
    kit.press(labels, "This is somebody else")
    assert labels.error is None
    assert reason(labels).value == ""
    assert history.labels()[["value", "key"]].to_numpy().tolist() == [["not mine", first]]
    again = RecordLabels(records, History(history.path))
    row = again.records[again.records["record_id"] == first].iloc[0]
    assert (row["label"], row["label_reason"]) == ("not mine", "another birth date")
    assert repr(again) == "RecordLabels: 1 of 9 records labelled"
    assert "another birth date" in again.to_html()


def test_static_html_begins_with_labelled_records(records, history):
    history.label(records.iloc[[8]], "mine", reason="the same phone")
    words = kit.Read(RecordLabels(records, history).to_html()).words
    assert words.index("the same phone") < words.index("PeepFinder")


def test_records_without_a_label_come_first(records, history):
    history.label(records.iloc[[0, 2]], "mine")
    ids, labelled = in_order(records), records["record_id"].iloc[[0, 2]].tolist()
    expected = [one for one in ids if one not in labelled] + [one for one in ids if one in labelled]
    assert step_through(RecordLabels(records, history)) == expected


def test_keys_label_and_move_on(records, labels, history):
    second = in_order(records)[1]
    for key, label in (("m", "mine"), ("n", "not mine"), ("u", "unsure")):
        kit.strike(labels, key)
        assert history.labels()["value"].tolist() == [label]
        assert labels.record["record_id"] == second
        kit.strike(labels, "k")
        assert f">labelled {label} (" in kit.html_of(labels)
    kit.strike(labels, "j")
    assert labels.record["record_id"] == second


def test_navigation_stops_at_either_end(records, labels):
    ids = in_order(records)
    kit.press(labels, "Back")
    assert labels.record["record_id"] == ids[0]
    assert step_through(labels) == ids
    kit.press(labels, "Skip")
    assert labels.record["record_id"] == ids[-1]
    assert kit.statuses(labels)[0].startswith("9 of 9 ·")


def test_unknown_label_raises_error_and_moves_nothing(records, labels):
    with pytest.raises(InvalidArgument):
        labels.label("perhaps")
    assert labels.record["record_id"] == in_order(records)[0]
    assert repr(labels) == "RecordLabels: 0 of 9 records labelled"


def test_table_without_records_has_nothing_to_label(history):
    labels = RecordLabels(kit.empty("records"), history)
    kit.strike(labels, "j")
    assert labels.error is None
    assert "No records." in kit.html_of(labels)
    kit.strike(labels, "m")
    assert kit.alerted(labels) == "There is no record to show"
    assert isinstance(labels.error, InvalidArgument)
    assert repr(labels) == "RecordLabels: 0 of 0 records labelled"


def test_anything_but_a_table_of_records_raises_error(exposure, history):
    for wrong in (None, [], "records"):
        with pytest.raises(InvalidArgument, match="records is a table"):
            RecordLabels(wrong, history)
    with pytest.raises(ExposureError):
        RecordLabels(exposure.emails(), history)


PROFILE = {
    "first_name": "Odalys",
    "last_name": "Fennimoor",
    "birth_date": f"{datetime.now(UTC).year - 46}-01-01",
}
ADDRESS = {"address1": "1 Elm St", "address2": "Apt 37", "city": "Tall Pines", "state": "CA", "zip": "90210"}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """Records that agree with what is on file (1, 3), differ from it (2), or nearly agree (4); and their history."""
    agrees = {"name": "FENNIMOOR ODALYS Q", "age": 46, "locations": ["TALL PINES, CA"], "aliases": []}
    differs = {"name": "Odette Fennimoor", "age": 71, "locations": ["Oakmere, OR"], "aliases": []}
    nearly = {"name": "O. Harrowgate", "age": 45, "aliases": ["Odalys Fennimoor"], "locations": []}
    records = [a_record(1, "removed", **agrees), a_record(2, **differs), a_record(3, **agrees)]
    profile = PROFILE | {"addresses": [{"id": 1} | ADDRESS]}
    service = Service({7: Person(records=[*records, a_record(4, **nearly)], profile=profile)})
    with seen_through(service) as exposure:
        yield exposure, kit.a_history(tmp_path_factory.mktemp("profiled"), exposure, Clock()).path


@pytest.fixture
def beside(profiled, tmp_path):
    """Labels of these records beside the person, from a row on."""
    exposure, path = profiled
    history = History(shutil.copytree(path, tmp_path / "profiled"))
    return lambda *rows: RecordLabels(exposure.records().iloc[[*rows]], history, exposure=exposure)


def marks(labels):
    return [word for word in ("✓ agrees", "✗ differs") for _ in range(kit.html_of(labels).count(word))]


def test_person_is_displayed_beside_each_record(beside):
    labels = beside(0, 1, 2)
    html = kit.html_of(labels)
    assert labels.record["record_id"] == 2
    assert marks(labels) == ["✗ differs"] * 3
    assert "Is this Odalys Wren Fennimoor?" in html
    assert all(one in html for one in ("1 Elm St, Apt 37, Tall Pines, CA, 90210", "46 (born "))
    labels.step(1)
    assert marks(labels) == ["✓ agrees"] * 3
    labels.step(-1)
    assert step_through(labels) == [2, 3, 1]  # open records come before closed ones


def test_age_within_a_year_and_alias_agree(beside):
    labels = beside(3)
    html = kit.html_of(labels)
    assert "✓ agrees within 1 year" in html
    assert "✓ an alias agrees" in html
    assert "name ✓ an alias agrees; age ✓ agrees within 1 year" in kit.Read(labels.to_html()).words


def test_stored_reason_survives_a_new_label(records, history):
    history.label(records.iloc[[0]], "not mine", reason="another birth date")
    labels = RecordLabels(records.head(1), history)
    assert reason(labels).value == "another birth date"
    kit.press(labels, "Unsure")
    assert history.labels()[["value", "note"]].to_numpy().tolist() == [["unsure", "another birth date"]]


def test_without_an_exposure_a_hint_replaces_the_person(profiled):
    exposure, path = profiled
    assert "pass exposure=" in kit.html_of(RecordLabels(exposure.records(), History(path)))
    assert "Odalys" not in kit.html_of(RecordLabels(exposure.records().iloc[[1]], History(path)))
