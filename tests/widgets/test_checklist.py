"""The steps of manual removals: ticks and notes are kept, and what is done stands last."""

import shutil
from datetime import timedelta

import ipywidgets
import pandas as pd
import pytest
from support import controls as kit
from support.histories import DAWN, Clock, Person, Service, a_link, a_record, an_alert, seen_through

import exposurekit as ek
from exposurekit.analysis.removal_warnings import DOCUMENT, MAILBOX
from exposurekit.errors import ExposureError, InvalidArgument, NotFound
from exposurekit.history import History
from exposurekit.text.sanitize import escaped
from exposurekit.widgets import OptOutChecklist
from exposurekit.widgets.copy_button import CopyTable
from exposurekit.widgets.task_list import TaskList
from exposurekit.widgets.textbox import TextBox


@pytest.fixture(scope="module")
def exposure():
    with kit.served_exposure() as exposure:
        yield exposure


@pytest.fixture(scope="module")
def alerts(exposure):
    return exposure.alerts()


@pytest.fixture
def history(exposure, tmp_path):
    return kit.a_history(tmp_path, exposure, Clock())


def rows(checklist):
    """The controls of each step that is shown: its box, whether it cannot be done, and the note."""
    boxes = [
        [kind for kind in one.children if type(kind) in (Box, Toggle, ipywidgets.Text)]
        for one in kit.within(checklist)
        if isinstance(one, ipywidgets.HBox)
    ]
    return [row for row in boxes if len(row) == 3]


Box, Toggle = ipywidgets.Checkbox, ipywidgets.ToggleButton


def listed(checklist):
    """The alerts in the list, each as it reads: site, person, facts, minutes, state."""
    items = kit.the(checklist, TaskList).items
    return [" | ".join(map(str, (*item[1:5], item[8]))) for item in items]


def step_states(checklist):
    """How far each step that is shown is."""
    of = checklist.steps[
        (checklist.steps["user_id"] == checklist.alert["user_id"])
        & (checklist.steps["alert_number"] == checklist.alert["alert_number"])
    ]
    return [None if pd.isna(tick) else tick for tick in of["tick"]]


def test_a_step_is_a_box_with_its_number_and_words(alerts):
    boxes = [row[0].description for row in rows(OptOutChecklist(alerts))]
    assert boxes == ["1. Open the listing.", "2. Choose remove."]


def test_ticks_and_notes_are_there_again(alerts, history):
    checklist = OptOutChecklist(alerts, history)
    (done, _, note), (_, unable, _) = rows(checklist)
    done.value = True
    note.value = "by phone"
    unable.value = True
    assert checklist.error is None
    assert sorted(history.ticks()["value"]) == ["done", "unable"]
    user = checklist.alert["user_id"]
    again = OptOutChecklist(alerts, History(history.path))
    kit.the(again, ipywidgets.Dropdown, "Show").value = "all"
    while again.alert["user_id"] != user or not rows(again):
        again.step(1)
    (done, unable, note), (other, cannot, _) = rows(again)
    assert (done.value, unable.value, note.value) == (True, False, "by phone")
    assert (other.value, cannot.value) == (False, True)
    assert "by phone" in again.to_html()


def test_done_and_unable_exclude_each_other(alerts, history):
    checklist = OptOutChecklist(alerts, history)
    done, unable, _ = rows(checklist)[0]
    for control, other, state in ((done, unable, "done"), (unable, done, "unable"), (done, unable, "done")):
        control.value = True
        assert other.value is False
        assert step_states(checklist) == [state, None]
        assert history.ticks()["value"].tolist() == [state]
    done.value = False
    assert step_states(checklist) == ["open", None]
    assert "done" not in history.ticks()["value"].tolist()


def test_a_note_alone_leaves_the_step_open(alerts, history):
    checklist = OptOutChecklist(alerts, history)
    rows(checklist)[0][2].value = "asked for a form"
    assert step_states(checklist) == ["open", None]
    assert checklist.steps["tick_note"].dropna().tolist() == ["asked for a form"]


def test_a_finished_alert_comes_last_of_its_group(alerts, history):
    checklist = OptOutChecklist(alerts, history)
    first = checklist.order[0]
    assert repr(checklist) == "OptOutChecklist: 0 of 3 alerts finished; 6 alerts in all"
    for done, _, _ in rows(checklist):
        done.value = True
    assert repr(checklist) == "OptOutChecklist: 1 of 3 alerts finished; 6 alerts in all"
    again = OptOutChecklist(alerts, history)
    assert again.order[2] == first
    assert again.order[0] != first
    assert sorted(again.order) == [*range(6)]


def test_progress_is_told_and_drawn(alerts):
    checklist = OptOutChecklist(alerts)
    assert '<progress max="2" value="0" aria-label="steps done">' in kit.html_of(checklist)
    rows(checklist)[0][0].value = True
    assert '<progress max="2" value="1" aria-label="steps done">' in kit.html_of(checklist)
    rows(checklist)[1][1].value = True
    [status_line] = kit.statuses(checklist)
    assert status_line.startswith("1 of 2 steps done, 1 marked unable; 0 of 3 alerts")
    assert listed(checklist)[0].endswith("1 of 2 steps done, 1 marked unable")


def test_the_counter_says_what_is_cleared_and_what_is_left(alerts):
    checklist = OptOutChecklist(alerts)
    assert "0 of 3 cleared · about 15 minutes to do" in kit.Read(kit.html_of(checklist)).words
    assert listed(checklist)[0].split(" | ")[3] == "5 min"
    checklist.tick_all(checklist.order[:1])
    assert "1 of 3 cleared · about 10 minutes to do" in kit.Read(kit.html_of(checklist)).words
    assert '<progress max="3" value="1" aria-label="alerts cleared">' in kit.html_of(checklist)
    checklist.tick_all(checklist.order[:3])
    assert "3 of 3 cleared · nothing left to do" in kit.Read(checklist.to_html()).words


def test_without_a_history_the_widget_says_that_nothing_is_kept(alerts, history):
    assert "No history was given" in kit.statuses(OptOutChecklist(alerts))[0]
    assert "No history was given" not in kit.statuses(OptOutChecklist(alerts, history))[0]


def test_an_alert_without_steps_says_so(alerts):
    checklist = OptOutChecklist(alerts)
    pick = kit.the(checklist, TaskList)
    kit.the(checklist, ipywidgets.Dropdown, "Show").value = "all"
    pick.value = 5
    assert checklist.error is None
    assert not len(checklist.alert["opt_out_procedure"])
    assert rows(checklist) == []
    assert "has no steps" in kit.html_of(checklist)
    assert "has no steps" in checklist.to_html()
    assert kit.statuses(checklist)[0].startswith("no steps; ")


def test_the_next_alert_comes_by_key_button_and_picker(alerts):
    checklist = OptOutChecklist(alerts)
    kit.the(checklist, ipywidgets.Dropdown, "Show").value = "all"
    pick = kit.the(checklist, TaskList)
    ways = [
        (lambda: kit.strike(checklist, "n"), 1),
        (lambda: kit.press(checklist, "Next alert"), 2),
        (lambda: kit.strike(checklist, "p"), 1),
        (lambda: kit.press(checklist, "Previous alert"), 0),
        (lambda: kit.strike(checklist, "p"), 0),
        (lambda: setattr(pick, "value", 5), 5),
        (lambda: kit.strike(checklist, "n"), 5),
        (lambda: kit.strike(checklist, "x"), 5),
    ]
    for way, position in ways:
        way()
        assert pick.value == position
        assert checklist.alert.name == checklist.order[position]


def test_a_table_without_alerts_works(history):
    checklist = OptOutChecklist(kit.empty("alerts"), history)
    for key in "np":
        kit.strike(checklist, key)
    assert checklist.error is None
    assert "No alerts." in kit.html_of(checklist)
    assert repr(checklist) == "OptOutChecklist: 0 of 0 alerts finished; 0 alerts in all"
    with pytest.raises(InvalidArgument, match="no alert"):
        _ = checklist.alert


def test_a_tick_that_cannot_be_saved_is_reported_and_unset(alerts, history, tmp_path):
    checklist = OptOutChecklist(alerts, history)
    shutil.rmtree(history.path)
    (tmp_path / "history").write_text("a file stands here")
    rows(checklist)[0][0].value = True
    assert checklist.error is not None
    assert type(checklist.error).__name__ in kit.alerted(checklist) or str(checklist.error) in kit.alerted(
        checklist
    )
    assert str(tmp_path) not in kit.alerted(checklist)
    assert step_states(checklist) == [None, None]


def test_a_history_that_is_not_there_is_told_at_once(alerts, tmp_path):
    with pytest.raises(NotFound, match="no history there yet"):
        OptOutChecklist(alerts, History(tmp_path / "another"))


@pytest.mark.parametrize("alerts", [None, [], "alerts"])
def test_what_is_no_table_is_refused(alerts):
    with pytest.raises(InvalidArgument, match="not a table of alerts"):
        OptOutChecklist(alerts)


def test_another_table_is_refused():
    with pytest.raises(ExposureError):
        OptOutChecklist(kit.empty("records"))


# --- which listing, whose, and what to enter ----------------------------------------------------------------


def shown_details(checklist):
    """What can be copied of the alert that is shown, by its label."""
    [table] = [one for one in kit.within(checklist) if isinstance(one, CopyTable)]
    return {row[0]: row[1] for _, _, rows in table.sections for row in rows}


def listing(number, steps=("Name the listing.", "Send it.")):
    record = a_record(number, name="FENNIMOOR ODALYS", age=40 + number, locations=["Tall Pines, CA"])
    return an_alert("Found", record) | {"guide": "Write to them.", "opt_out_procedure": [*steps]}


@pytest.fixture
def alike(tmp_path):
    """Three listings of one site that need the same steps, and one that needs others."""
    alerts = [listing(1), listing(2), listing(3), listing(4, ["Call them."])]
    records = [alert["source"]["record"] for alert in alerts]
    service = Service({7: Person(records=records, alerts=alerts)})
    with seen_through(service) as exposure:
        yield exposure, kit.a_history(tmp_path, exposure, Clock())


def test_each_alert_has_its_listing_user_and_values(alike):
    exposure, _ = alike
    checklist = OptOutChecklist(exposure.alerts())
    heads = set()
    for _ in range(4):
        alert, details = checklist.alert, shown_details(checklist)
        assert details["Name as listed"] == "FENNIMOOR ODALYS"
        assert (details["Reference"], details["Age"]) == (alert["reference_id"], str(alert["age"]))
        assert f"{alert['person']} (user 7)" in kit.html_of(checklist)
        assert {text for label, text in details.items() if "email" in label} <= {
            *exposure.emails()["address"]
        }
        heads.add(tuple(details.items()))
        checklist.step(1)
    assert len(heads) == 4
    labels = listed(checklist)
    assert len({*labels}) == 4


def test_the_static_html_shows_the_same(alike):
    exposure, _ = alike
    checklist = OptOutChecklist(exposure.alerts())
    html = checklist.to_html()
    assert kit.Read(html).foreign == []
    assert html.count("<details open><summary>PeepFinder") == 1
    for text in shown_details(checklist).values():
        assert text.removeprefix("https://") in kit.Read(html).words


def test_listings_with_the_same_steps_are_ticked_together(alike):
    exposure, history = alike
    checklist = OptOutChecklist(exposure.alerts(), history)
    assert "Same steps for 3 listings on this site: this one and 2 more" in kit.html_of(checklist)
    kit.press(checklist, "Tick all 3")
    assert checklist.error is None
    assert history.ticks()["value"].tolist() == ["done"] * 6
    assert repr(checklist).startswith("OptOutChecklist: 3 of 4 alerts")


def test_while_searching_only_matching_listings_are_ticked_together(alike):
    exposure, history = alike
    checklist = OptOutChecklist(exposure.alerts(), history)
    first = checklist.order[0]
    checklist._find.value = exposure.alerts()["reference_id"].iloc[first]
    assert checklist.error is None
    assert "Same steps for" not in kit.html_of(checklist)
    assert not any(getattr(part, "description", "").startswith("Tick all") for part in kit.within(checklist))
    checklist._find.value = ""
    assert "Same steps for 3 listings on this site: this one and 2 more" in kit.html_of(checklist)


def test_one_checkbox_ticks_all_steps_and_leaves_notes(alike):
    exposure, history = alike
    checklist = OptOutChecklist(exposure.alerts(), history)
    rows(checklist)[0][2].value = "by post"
    whole = kit.the(checklist, Box, "All steps are done for this listing")
    whole.value = True
    assert step_states(checklist) == ["done", "done"]
    assert checklist.steps["tick_note"].dropna().tolist().count("by post") == 1
    rows(checklist)[1][0].value = False
    assert whole.value is False
    assert step_states(checklist) == ["done", "open"]
    whole.value = True
    whole.value = False
    assert step_states(checklist) == ["done", "open"]


def test_the_box_of_a_listing_leaves_what_is_unable_alone(alike):
    exposure, history = alike
    checklist = OptOutChecklist(exposure.alerts(), history)
    rows(checklist)[1][1].value = True
    whole = kit.the(checklist, Box, "All steps are done for this listing")
    whole.value = True
    assert step_states(checklist) == ["done", "unable"]
    whole.value = False
    assert step_states(checklist) == [None, "unable"]
    assert "done" not in history.ticks()["value"].tolist()


def test_undo_restores_the_ticks_before(alike):
    exposure, history = alike
    checklist = OptOutChecklist(exposure.alerts(), history)
    rows(checklist)[0][0].value = True
    rows(checklist)[1][2].value = "asked by post"
    before = checklist.steps["tick"].fillna("open").tolist()
    kit.press(checklist, "Tick all 3")
    assert "3 ticked" in kit.html_of(checklist)
    assert checklist.steps["tick"].tolist().count("done") == 6
    kit.press(checklist, "Undo")
    assert checklist.error is None
    assert checklist.steps["tick"].fillna("open").tolist() == before
    assert "asked by post" in checklist.steps["tick_note"].tolist()
    assert history.ticks()["value"].tolist().count("done") == 1
    assert "ticked" not in kit.html_of(checklist)


def needs(number, field):
    """An alert whose site requires a field."""
    alert = listing(number)
    alert["source"]["record"]["user_fields_required_for_removal"] = [field]
    return alert


def test_an_alert_without_a_required_value_comes_last_and_unticked(tmp_path):
    alerts = [needs(1, "phone"), needs(2, "first_name"), needs(3, "first_name")]
    records = [alert["source"]["record"] for alert in alerts]
    service = Service({7: Person(records=records, alerts=alerts, profile={"phone_numbers": []})})
    with seen_through(service) as exposure:
        checklist = OptOutChecklist(exposure.alerts(), kit.a_history(tmp_path, exposure, Clock()))
    assert checklist.order[2] == 0
    assert repr(checklist).startswith("OptOutChecklist: 0 of 3 alerts finished, 1 waits for a value;")
    labels = listed(checklist)
    assert [label.endswith("waits for a value") for label in labels] == [False, False, True]
    kit.press(checklist, "Tick all 2 that can start")
    assert checklist.steps["tick"].tolist().count("done") == 4
    checklist.step(2)
    assert "Waits for a value: no phone on file. Ask the person for it." in kit.html_of(checklist)
    own = kit.the(checklist, Box, "All steps are done for this listing")
    boxes = [own, *(done for done, _, _ in rows(checklist))]
    assert [box.disabled for box in boxes] == [True] * 3
    assert "off, because a required value is not on file" in kit.html_of(checklist)
    kit.press(checklist, "Do it anyway")
    assert [done.disabled for done, _, _ in rows(checklist)] == [False, False]
    kit.the(checklist, Box, "All steps are done for this listing").value = True
    assert checklist.error is None
    assert repr(checklist).startswith("OptOutChecklist: 3 of 3 alerts finished;")


def test_a_finished_alert_leaves_the_open_ones(alike):
    exposure, history = alike
    checklist = OptOutChecklist(exposure.alerts(), history)
    show, pick = (kit.the(checklist, ipywidgets.Dropdown, "Show"), kit.the(checklist, TaskList))
    assert [label for label, _ in show.options] == ["With steps to do (4)", "All alerts (4)"]
    kit.the(checklist, Box, "All steps are done for this listing").value = True
    assert [label for label, _ in show.options] == ["With steps to do (3)", "All alerts (4)"]
    assert (show.value, len(pick.items)) == (
        "waiting",
        4,
    )  # the displayed one stays until another is picked
    kit.press(checklist, "Next alert")
    assert [item[0] for item in pick.items] == [1, 2, 3]
    show.value = "all"
    assert len(pick.items) == 4


def test_an_exposure_or_a_history_is_enough(exposure, history):
    of_table = OptOutChecklist(exposure.alerts(), history)
    assert repr(OptOutChecklist(exposure)) == repr(OptOutChecklist(exposure, history)) == repr(of_table)
    alone = OptOutChecklist(history)
    alone.tick(0, "done", "")
    assert repr(alone).startswith("OptOutChecklist: ")
    assert history.ticks()["value"].tolist() == ["done"]


def test_a_site_that_removes_nothing_comes_last(tmp_path):
    alerts = [needs(number, "first_name") for number in (1, 2, 3, 4)]
    for alert in alerts:
        alert["source"]["record"]["site"] = "Barrier"
    late = [a_record(number, "pending removal", site="Barrier") for number in (11, 12, 13)]
    records = [*(alert["source"]["record"] for alert in alerts), *late]
    other = needs(5, "first_name")
    service = Service({7: Person(records=[*records, other["source"]["record"]], alerts=[*alerts, other])})
    clock = Clock()
    with seen_through(service) as exposure:
        history = kit.a_history(tmp_path, exposure, clock)
        assert OptOutChecklist(exposure, history).order[0] == 0
        clock.set(DAWN + timedelta(days=14))
        history.collect(exposure.refresh(), progress=False)
        assert OptOutChecklist(exposure, history).order[0] == 4


def test_a_listing_labelled_not_mine_is_no_open_work(alike):
    exposure, history = alike
    records = exposure.records()
    history.label(records[records["record_id"] == 2].iloc[0], "not mine")
    checklist = OptOutChecklist(exposure.alerts(), history)
    assert repr(checklist) == "OptOutChecklist: 0 of 3 alerts finished; 4 alerts in all"
    kit.the(checklist, ipywidgets.Dropdown, "Show").value = "all"
    labels = listed(checklist)
    assert labels[3].endswith("labelled not mine")
    checklist.step(3)
    assert "Nothing to do: the listing is labelled not mine." in kit.html_of(checklist)


def test_alerts_are_filtered_by_site_person_or_listing(alike):
    exposure, history = alike
    checklist = OptOutChecklist(exposure.alerts(), history)
    reference = checklist.alert["reference_id"]
    checklist.step(1)
    find, pick = kit.the(checklist, TextBox), kit.the(checklist, TaskList)
    find.value = reference
    assert checklist.error is None
    assert checklist.alert["reference_id"] == reference
    assert len(pick.items) == 1
    find.value = "no such listing"
    assert "No alert matches." in kit.html_of(checklist)
    assert (rows(checklist), shown_details(checklist), reference in kit.html_of(checklist)) == ([], {}, False)
    find.value = ""
    assert len(pick.items) == 4
    assert rows(checklist)


def test_an_alert_has_its_reason_or_that_nothing_is_due(tmp_path):
    record = a_record(1, "removed")
    alert = an_alert("Opt-out accepted: the listing is removed.", record)
    with seen_through(Service({7: Person(records=[record], alerts=[alert])})) as exposure:
        checklist = OptOutChecklist(exposure.alerts(), kit.a_history(tmp_path, exposure, Clock()))
    assert "Opt-out accepted: the listing is removed." in kit.html_of(checklist)
    assert "Nothing to do: already removed." in kit.html_of(checklist)


def test_a_box_of_another_listing_ticks_that_one(alike):
    exposure, history = alike
    checklist = OptOutChecklist(exposure.alerts(), history)
    [other, _] = [
        one for one in kit.within(checklist) if isinstance(one, Box) and "reference" in one.description
    ]
    other.value = True
    assert step_states(checklist) == [None, None]
    assert len(history.ticks()) == 2


def test_of_a_history_the_values_come_with_an_exposure(alike):
    exposure, history = alike
    alone = OptOutChecklist(history.alerts(), history)
    assert "Pass exposure=" in kit.html_of(alone)
    assert shown_details(alone)["Reference"]
    both = OptOutChecklist(history.alerts(), history, exposure=exposure)
    assert "Pass exposure=" not in kit.html_of(both)
    assert "full name" in shown_details(both)


def test_the_static_html_has_every_alert_that_needs_somebody(tmp_path):
    alerts = [listing(number) for number in range(1, 36)]
    service = Service({7: Person(records=[one["source"]["record"] for one in alerts], alerts=alerts)})
    with seen_through(service) as exposure:
        checklist = OptOutChecklist(exposure.alerts(), kit.a_history(tmp_path, exposure, Clock()))
        references = {*exposure.records()["reference_id"]}
    assert len(references) == 35
    assert [one for one in references if one not in checklist.to_html()] == []
    assert checklist.to_html().count("☑") == 0
    assert "<details open>" not in checklist.to_html()
    checklist.tick_all([checklist.order[3]])
    assert checklist.to_html().count("☑") == 2


def test_an_alert_about_a_page_says_what_the_page_contains(tmp_path):
    link = a_link("https://pages.example/odalys")
    service = Service({7: Person(links=[link], alerts=[an_alert("Seen", link)])})
    with seen_through(service) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
        for checklist in (
            OptOutChecklist(exposure.alerts(), history),
            OptOutChecklist(exposure.alerts(), exposure=exposure),
        ):
            assert shown_details(checklist)["Contains"] == "email"


def test_an_alert_warns_in_the_words_of_the_report(tmp_path):
    record = a_record(1, name="Fenimoor Odalys", age=3)
    link = a_link("https://pages.example/odalys") | {"title": "<script>Odalys"}
    alerts = [an_alert("Found", record), an_alert("Seen", link)]
    alerts[0]["opt_out_procedure"] = ["Open the email and click the link.", "Send a copy of a bill."]
    with seen_through(Service({7: Person(records=[record], links=[link], alerts=alerts)})) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
        checklist = OptOutChecklist(exposure.alerts(), history, exposure=exposure)
        [work] = [one for one in ek.report(history, exposure=exposure).sections if one.key == "work_queue"]
    warnings = [text for removal in work.removals for task in removal.tasks for text in task.warnings]
    assert [text.partition(" ")[0] for text in warnings] == ["differs:", "differs:", "Suspicious"]
    for text in (*warnings, MAILBOX, DOCUMENT):
        assert escaped(text) in checklist.to_html()
    assert all(escaped(text) in kit.html_of(checklist) for text in (*warnings[:2], MAILBOX, DOCUMENT))
