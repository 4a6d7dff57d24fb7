"""Is this the person? What is said stays said, and what nobody said comes first."""

from datetime import UTC, datetime

import ipywidgets
import pytest
from support import controls as kit
from support.histories import Clock, Person, Service, a_record, seen_through

from exposurekit.errors import ExposureError, InvalidArgument
from exposurekit.history import History
from exposurekit.widgets import RecordLabels


@pytest.fixture(scope="module")
def exposure():
    with kit.served_exposure() as exposure:
        yield exposure


@pytest.fixture(scope="module")
def records(exposure):
    return exposure.records()


@pytest.fixture
def history(exposure, tmp_path):
    return kit.a_history(tmp_path, exposure, Clock())


def in_turn(records):
    """The ids of findings in the order in which they are shown: open ones first."""
    is_open = ~records["status"].isin(["removed", "vanished"])
    return [*records.loc[is_open, "record_id"], *records.loc[~is_open, "record_id"]]


def test_a_label_and_its_reason_are_kept_and_there_again(records, history):
    labels = RecordLabels(records, history)
    first = labels.record["record_id"]
    kit.the(labels, ipywidgets.Text, "Reason").value = " another birth date "
    kit.press(labels, "This is somebody else")
    assert labels.error is None
    assert kit.the(labels, ipywidgets.Text, "Reason").value == ""
    assert history.labels()[["value", "key"]].to_numpy().tolist() == [["not mine", first]]
    again = RecordLabels(records, History(history.path))
    row = again.records[again.records["record_id"] == first].iloc[0]
    assert (row["label"], row["label_reason"]) == ("not mine", "another birth date")
    assert repr(again) == "RecordLabels: 1 of 9 records labelled"
    assert "another birth date" in again.to_html()


def test_what_nobody_labelled_comes_first(records, history):
    history.label(records.iloc[[0, 2]], "mine")
    labels = RecordLabels(records, history)
    record_ids = []
    for _ in range(len(records)):
        record_ids.append(int(labels.record["record_id"]))
        kit.press(labels, "Skip")
    ids = in_turn(records)
    marked = records["record_id"].iloc[[0, 2]].tolist()
    assert record_ids == [one for one in ids if one not in marked] + [one for one in ids if one in marked]


@pytest.mark.parametrize(("key", "label"), [("m", "mine"), ("n", "not mine"), ("u", "unsure")])
def test_a_key_labels_and_goes_on(records, history, key, label):
    labels = RecordLabels(records, history)
    kit.strike(labels, key)
    assert history.labels()["value"].tolist() == [label]
    assert labels.record["record_id"] == in_turn(records)[1]
    kit.strike(labels, "k")
    assert f">labelled {label} (" in kit.html_of(labels)
    kit.strike(labels, "j")
    assert labels.record["record_id"] == in_turn(records)[1]


def test_at_either_end_it_stays(records, history):
    labels = RecordLabels(records, history)
    kit.press(labels, "Back")
    assert labels.record["record_id"] == in_turn(records)[0]
    for _ in range(20):
        kit.press(labels, "Skip")
    assert labels.record["record_id"] == in_turn(records)[-1]
    assert kit.statuses(labels)[0].startswith("9 of 9 ·")


def test_a_label_that_is_none_is_refused_and_nothing_moves(records, history):
    labels = RecordLabels(records, history)
    with pytest.raises(InvalidArgument):
        labels.label("perhaps")
    assert labels.record["record_id"] == in_turn(records)[0]
    assert repr(labels) == "RecordLabels: 0 of 9 records labelled"


def test_a_table_without_records_works_and_unknown_labels_are_errors(history):
    labels = RecordLabels(kit.empty("records"), history)
    kit.strike(labels, "j")
    assert labels.error is None
    assert "No records." in kit.html_of(labels)
    kit.strike(labels, "m")
    assert kit.alerted(labels) == "There is no record to show"
    assert isinstance(labels.error, InvalidArgument)
    assert repr(labels) == "RecordLabels: 0 of 0 records labelled"


@pytest.mark.parametrize("records", [None, [], "records"])
def test_what_is_no_table_is_refused(records, history):
    with pytest.raises(InvalidArgument, match="records is a table"):
        RecordLabels(records, history)


def test_another_table_is_refused(exposure, history):
    with pytest.raises(ExposureError):
        RecordLabels(exposure.emails(), history)


# --- beside what is on file ---------------------------------------------------------------------------------


@pytest.fixture
def beside(tmp_path):
    """Two findings of a person whose name, birth date and places are on file: one agrees, one differs; one is closed."""
    old = datetime.now(UTC).year - 46
    profile = {"first_name": "Odalys", "last_name": "Fennimoor", "birth_date": f"{old}-01-01"}
    profile |= {
        "addresses": [
            {
                "id": 1,
                "address1": "1 Elm St",
                "address2": "Apt 37",
                "city": "Tall Pines",
                "state": "CA",
                "zip": "90210",
            }
        ]
    }
    agrees = {"name": "FENNIMOOR ODALYS Q", "age": 46, "locations": ["TALL PINES, CA"], "aliases": []}
    differs = {"name": "Odette Fennimoor", "age": 71, "locations": ["Oakmere, OR"], "aliases": []}
    records = [a_record(1, "removed", **agrees), a_record(2, **differs), a_record(3, **agrees)]
    with seen_through(Service({7: Person(records=records, profile=profile)})) as exposure:
        yield exposure, kit.a_history(tmp_path, exposure, Clock())


def marks(labels):
    return [word for word in ("✓ agrees", "✗ differs") for _ in range(kit.html_of(labels).count(word))]


def test_the_person_is_beside_the_finding_with_agreements_and_differences(beside):
    exposure, history = beside
    labels = RecordLabels(exposure.records(), history, exposure=exposure)
    html = kit.html_of(labels)
    assert labels.record["record_id"] == 2
    assert marks(labels) == ["✗ differs"] * 3
    assert "Is this Odalys Wren Fennimoor?" in html
    assert all(one in html for one in ("1 Elm St, Apt 37, Tall Pines, CA, 90210", "46 (born "))
    labels.step(1)
    assert marks(labels) == ["✓ agrees"] * 3


def test_an_age_within_a_year_and_an_alias_agree(tmp_path):
    old = datetime.now(UTC).year - 46
    profile = {"first_name": "Odalys", "last_name": "Fennimoor", "birth_date": f"{old}-01-01"}
    record = a_record(1, name="O. Harrowgate", age=45, aliases=["Odalys Fennimoor"], locations=[])
    with seen_through(Service({7: Person(records=[record], profile=profile)})) as exposure:
        labels = RecordLabels(
            exposure.records(), kit.a_history(tmp_path, exposure, Clock()), exposure=exposure
        )
        html = kit.html_of(labels)
        assert "✓ agrees within 1 year" in html
        assert "✓ an alias agrees" in html
        assert "name ✓ an alias agrees; age ✓ agrees within 1 year" in kit.Read(labels.to_html()).words


def test_the_stored_reason_is_there_and_stays_when_labelled_again(records, history):
    history.label(records.iloc[[0]], "not mine", reason="another birth date")
    labels = RecordLabels(records.head(1), history)
    assert kit.the(labels, ipywidgets.Text, "Reason").value == "another birth date"
    kit.press(labels, "Unsure")
    assert history.labels()[["value", "note"]].to_numpy().tolist() == [["unsure", "another birth date"]]


def test_the_static_html_begins_with_labelled_records(records, history):
    history.label(records.iloc[[8]], "mine", reason="the same phone")
    words = kit.Read(RecordLabels(records, history).to_html()).words
    assert words.index("the same phone") < words.index("PeepFinder")


def test_open_findings_come_before_closed_ones(beside):
    exposure, history = beside
    labels = RecordLabels(exposure.records(), history, exposure=exposure)
    record_ids = []
    for _ in range(3):
        record_ids.append(int(labels.record["record_id"]))
        labels.step(1)
    assert record_ids == [2, 3, 1]


def test_without_an_exposure_it_says_how_to_see_the_person(beside):
    exposure, history = beside
    assert "pass exposure=" in kit.html_of(RecordLabels(exposure.records(), history))
    assert "Odalys" not in kit.html_of(RecordLabels(exposure.records().head(2).tail(1), history))
