"""The checklist stores ticks and notes, and lists finished and blocked alerts last."""

import shutil
from datetime import timedelta

import ipywidgets
import pandas as pd
import pytest
from support import widget_controls as kit
from support.histories import DAWN, Clock, Person, Service, a_link, a_record, an_alert, seen_through

import exposurekit as ek
from exposurekit import analysis
from exposurekit.analysis.manual_tasks import WHICH_NAME
from exposurekit.analysis.step_requirements import DOCUMENT, MAILBOX
from exposurekit.errors import ExposureError, InvalidArgument, NotFound
from exposurekit.history import History
from exposurekit.text.sanitize import escaped
from exposurekit.widgets import OptOutChecklist
from exposurekit.widgets.copy_button import CopyTable
from exposurekit.widgets.task_list import TaskList
from exposurekit.widgets.textbox import TextBox

Box, Toggle = ipywidgets.Checkbox, ipywidgets.ToggleButton
ALL_STEPS = "All steps are done for this listing"
SAME_STEPS = "Same steps for 3 listings on this site: this one and 2 more"


@pytest.fixture(scope="module")
def alerts(exposure):
    return exposure.alerts()


def rows(checklist):
    """The controls of each step of the current alert: done, unable, note."""
    boxes = [
        [control for control in one.children if type(control) in (Box, Toggle, ipywidgets.Text)]
        for one in kit.within(checklist)
        if isinstance(one, ipywidgets.HBox)
    ]
    return [row for row in boxes if len(row) == 3]


def show_all(checklist):
    kit.the(checklist, ipywidgets.Dropdown, "Show").value = "all"


def listed(checklist):
    """The alerts in the list: site, person, facts, minutes, state."""
    items = kit.the(checklist, TaskList).items
    return [" | ".join(map(str, (*item[1:5], item[8]))) for item in items]


def step_states(checklist):
    """The tick of each step of the current alert."""
    steps, alert = checklist.steps, checklist.alert
    is_current = (steps["user_id"] == alert["user_id"]) & (steps["alert_number"] == alert["alert_number"])
    return [None if pd.isna(tick) else tick for tick in steps.loc[is_current, "tick"]]


def details(checklist):
    """What can be copied of the current alert, by its label."""
    [table] = [one for one in kit.within(checklist) if isinstance(one, CopyTable)]
    return {row[0]: row[1] for _, _, rows in table.sections for row in rows}


def test_ticks_and_notes_are_restored(alerts, history):
    checklist = OptOutChecklist(alerts, history)
    assert [row[0].description for row in rows(checklist)] == ["1. Open the listing.", "2. Choose remove."]
    (done, _, note), (_, unable, _) = rows(checklist)
    done.value = True
    note.value = "by phone"
    unable.value = True
    assert checklist.error is None
    assert sorted(history.ticks()["value"]) == ["done", "unable"]
    user = checklist.alert["user_id"]
    again = OptOutChecklist(alerts, History(history.path))
    show_all(again)
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


def test_a_history_and_an_exposure_are_not_mistaken(exposure, history):
    for arguments in ({"alerts": history, "history": exposure}, {"alerts": exposure, "exposure": history}):
        with pytest.raises(
            InvalidArgument, match="history must be a History, and exposure an Exposure: OptOut"
        ):
            OptOutChecklist(**arguments)


class Stopwatch:
    """Seconds that a test lets pass."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def test_minutes_of_ticks_are_stored_only_if_wanted(alerts, history):
    usual = OptOutChecklist(alerts, history)
    usual.tick_all(usual.order[2:3])
    assert history.timed_steps().empty
    stopwatch = Stopwatch()
    checklist = OptOutChecklist(alerts, history, learn_minutes=True, clock=stopwatch)
    stopwatch.now_s = 90
    rows(checklist)[0][0].value = True
    stopwatch.now_s += 30
    rows(checklist)[1][1].value = True  # a step that cannot be done has no minutes
    stopwatch.now_s += 31 * 60
    rows(checklist)[1][0].value = True  # nor has one after a pause
    kit.strike(checklist, "n")
    stopwatch.now_s += 120
    checklist.tick_all([checklist.alert.name])
    checklist.tick_all([checklist.alert.name])  # they are done already
    assert checklist.error is None
    timed = history.timed_steps()
    assert timed["minutes"].tolist() == [1.5, 1, 1]
    assert timed["step_number"].tolist() == [1, 1, 2]
    assert len(timed[["user_id", "kind", "key"]].drop_duplicates()) == 2
    assert {*timed["site"]} <= {*history.records()["site"]}
    with pytest.raises(InvalidArgument, match="learn_minutes needs a history"):
        OptOutChecklist(alerts, learn_minutes=True)


def test_learned_minutes_are_those_of_the_list(alerts, history):
    clock = Clock()
    clock.set(history.last_run().finished_at)
    history = History(history.path, clock=clock)
    listing = history.steps().head(1)
    for _ in range(12):
        clock.set(clock() + timedelta(minutes=8))
        history.tick(listing, "open", minutes=8)
    [learned] = history.step_minutes()["minutes"]
    assert 5 < learned < 9
    checklist = OptOutChecklist(alerts, history)
    queue = history.work_queue().set_index(["user_id", "alert_number"])["minutes"]
    for position, item in zip(checklist.order, kit.the(checklist, TaskList).items, strict=False):
        alert = checklist._alerts.iloc[position]
        assert item[4] == f"{round(queue[alert['user_id'], alert['alert_number']])} min"
    assert queue.max() > 2 * learned


def test_minutes_left_are_those_of_the_work_queue(alerts, history):
    """After each tick, too: the visit that several alerts share is left until the last of them is done."""
    checklist = OptOutChecklist(alerts, history)
    for position in [None, *checklist.order[:3]]:
        if position is not None:
            checklist.tick_all([position])
        queue = analysis.work_queue(checklist.steps[checklist.steps["label"] != "not mine"])
        left = sum(checklist._minutes(one) for one in checklist.order)
        assert left == pytest.approx(queue["minutes"].sum())
    assert left == 0


def test_note_alone_leaves_the_step_open(alerts, history):
    checklist = OptOutChecklist(alerts, history)
    assert "No history was given" not in kit.statuses(checklist)[0]
    rows(checklist)[0][2].value = "asked for a form"
    assert step_states(checklist) == ["open", None]
    assert checklist.steps["tick_note"].dropna().tolist() == ["asked for a form"]


def test_finished_alert_comes_last_of_its_group(alerts, history):
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


def test_progress_and_remaining_work_are_displayed(alerts):
    checklist = OptOutChecklist(alerts)
    assert "No history was given" in kit.statuses(checklist)[0]
    assert "0 of 3 alerts finished · about 21 min to do" in kit.Read(kit.html_of(checklist)).words
    assert listed(checklist)[0].split(" | ")[3] == "7 min"  # a check of two minutes, a step, and a visit
    rows(checklist)[0][0].value = True
    assert '<progress max="2" value="1" aria-label="steps done">' in kit.html_of(checklist)
    rows(checklist)[1][1].value = True
    assert kit.statuses(checklist)[0].startswith("1 of 2 steps done, 1 marked unable; 0 of 3 alerts")
    assert listed(checklist)[0].endswith("1 of 2 steps done, 1 marked unable")
    checklist.tick_all(checklist.order[1:2])
    assert "1 of 3 alerts finished · about " in kit.Read(kit.html_of(checklist)).words
    assert '<progress max="3" value="1" aria-label="alerts done">' in kit.html_of(checklist)
    checklist = OptOutChecklist(alerts)
    checklist.tick_all(checklist.order[:3])
    assert "3 of 3 alerts finished · nothing left to do" in kit.Read(checklist.to_html()).words


def test_alert_without_steps_has_a_message(alerts):
    checklist = OptOutChecklist(alerts)
    show_all(checklist)
    kit.the(checklist, TaskList).value = 5
    assert checklist.error is None
    assert not len(checklist.alert["opt_out_procedure"])
    assert rows(checklist) == []
    assert "has no steps" in kit.html_of(checklist)
    assert "has no steps" in checklist.to_html()
    assert kit.statuses(checklist)[0].startswith("no steps; ")


def test_keys_buttons_and_list_change_the_alert(alerts):
    checklist = OptOutChecklist(alerts)
    show_all(checklist)
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


def test_table_without_alerts_works(history):
    checklist = OptOutChecklist(kit.empty("alerts"), history)
    for key in "np":
        kit.strike(checklist, key)
    assert checklist.error is None
    assert "No alerts." in kit.html_of(checklist)
    assert repr(checklist) == "OptOutChecklist: 0 of 0 alerts finished; 0 alerts in all"
    with pytest.raises(InvalidArgument, match="no alert"):
        _ = checklist.alert


def test_unsaved_tick_is_reported_and_reverted(alerts, history, tmp_path):
    checklist = OptOutChecklist(alerts, history)
    shutil.rmtree(history.path)
    (tmp_path / "history").write_text("a file in its way")
    rows(checklist)[0][0].value = True
    message = kit.alerted(checklist)
    assert checklist.error is not None
    assert type(checklist.error).__name__ in message or str(checklist.error) in message
    assert str(tmp_path) not in message
    assert step_states(checklist) == [None, None]


@pytest.mark.parametrize("alerts", [None, [], "alerts"])
def test_anything_but_a_table_raises_error(alerts):
    with pytest.raises(InvalidArgument, match="not a table of alerts"):
        OptOutChecklist(alerts)


def test_another_table_or_a_missing_history_raises_error(alerts, tmp_path):
    with pytest.raises(ExposureError):
        OptOutChecklist(kit.empty("records"))
    with pytest.raises(NotFound, match="no history there yet"):
        OptOutChecklist(alerts, History(tmp_path / "another"))


def listing(number, steps=("Name the listing.", "Send it."), fields=None):
    """An alert about a listing, for whose removal the site may require fields."""
    record = a_record(number, name="FENNIMOOR ODALYS", age=40 + number, locations=["Tall Pines, CA"])
    record |= {} if fields is None else {"user_fields_required_for_removal": fields}
    return an_alert("Found", record) | {"guide": "Write to them.", "opt_out_procedure": [*steps]}


def of_one_person(*alerts, more=(), profile=None):
    """An exposure of one person with these alerts about listings, and more listings."""
    records = [*(alert["source"]["record"] for alert in alerts), *more]
    return seen_through(Service({7: Person(records=records, alerts=[*alerts], profile=profile or {})}))


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    """An exposure of three listings on one site that need the same steps and one that needs others; its history."""
    with of_one_person(listing(1), listing(2), listing(3), listing(4, ["Call them."])) as exposure:
        yield exposure, kit.a_history(tmp_path_factory.mktemp("alike"), exposure, Clock()).path


@pytest.fixture
def alike_history(alike, tmp_path):
    return History(shutil.copytree(alike[1], tmp_path / "alike"))


@pytest.fixture
def checklist(alike, alike_history):
    return OptOutChecklist(alike[0].alerts(), alike_history)


def test_each_alert_has_its_listing_user_and_values(alike, checklist):
    heads = set()
    for _ in range(4):
        alert, copied = checklist.alert, details(checklist)
        assert copied["Name as listed"] == "FENNIMOOR ODALYS"
        assert (copied["Reference"], copied["Age"]) == (alert["reference_id"], str(alert["age"]))
        assert f"{alert['person']} (user 7)" in kit.html_of(checklist)
        emails = {text for label, text in copied.items() if "email" in label}
        assert emails <= {*alike[0].emails()["address"]}
        heads.add(tuple(copied.items()))
        checklist.step(1)
    assert len(heads) == len({*listed(checklist)}) == 4


def test_static_html_has_the_same_details(checklist):
    html = checklist.to_html()
    assert kit.Read(html).foreign == []
    assert html.count("<details open><summary>PeepFinder") == 1
    for text in details(checklist).values():
        assert text.removeprefix("https://") in kit.Read(html).words


def test_listings_with_the_same_steps_are_ticked_together(checklist, alike_history):
    assert SAME_STEPS in kit.html_of(checklist)
    kit.press(checklist, "Tick all 3")
    assert checklist.error is None
    assert alike_history.ticks()["value"].tolist() == ["done"] * 6
    assert repr(checklist).startswith("OptOutChecklist: 3 of 4 alerts")


def test_search_limits_which_listings_are_ticked_together(alike, checklist):
    checklist._find.value = alike[0].alerts()["reference_id"].iloc[checklist.order[0]]
    assert checklist.error is None
    assert "Same steps for" not in kit.html_of(checklist)
    assert not any(getattr(part, "description", "").startswith("Tick all") for part in kit.within(checklist))
    checklist._find.value = ""
    assert SAME_STEPS in kit.html_of(checklist)


def test_one_checkbox_ticks_all_steps_and_preserves_notes(checklist):
    rows(checklist)[0][2].value = "by post"
    whole = kit.the(checklist, Box, ALL_STEPS)
    whole.value = True
    assert step_states(checklist) == ["done", "done"]
    assert checklist.steps["tick_note"].dropna().tolist().count("by post") == 1
    rows(checklist)[1][0].value = False
    assert whole.value is False
    assert step_states(checklist) == ["done", "open"]
    whole.value = True
    whole.value = False
    assert step_states(checklist) == ["done", "open"]


def test_one_checkbox_leaves_unable_steps_alone(checklist, alike_history):
    rows(checklist)[1][1].value = True
    whole = kit.the(checklist, Box, ALL_STEPS)
    whole.value = True
    assert step_states(checklist) == ["done", "unable"]
    whole.value = False
    assert step_states(checklist) == [None, "unable"]
    assert "done" not in alike_history.ticks()["value"].tolist()


def test_button_says_which_listings_it_ticks(checklist):
    rows(checklist)[1][1].value = True
    labels = [getattr(part, "description", "") for part in kit.within(checklist)]
    assert [label for label in labels if label.startswith("Tick all")] == ["Tick all 2 unfinished"]


def test_undo_restores_the_previous_ticks(checklist, alike_history):
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
    assert alike_history.ticks()["value"].tolist().count("done") == 1
    assert "ticked" not in kit.html_of(checklist)


def test_alert_without_a_required_value_is_last_and_unticked(tmp_path):
    fields = ("phone", "first_name", "first_name")
    alerts = [listing(number, fields=[field]) for number, field in enumerate(fields, 1)]
    with of_one_person(*alerts, profile={"phone_numbers": []}) as exposure:
        checklist = OptOutChecklist(exposure.alerts(), kit.a_history(tmp_path, exposure, Clock()))
    assert checklist.order[2] == 0
    assert repr(checklist).startswith("OptOutChecklist: 0 of 3 alerts finished, 1 cannot start yet;")
    assert [label.endswith("cannot start yet") for label in listed(checklist)] == [False, False, True]
    kit.press(checklist, "Tick all 2 that can start")
    assert checklist.steps["tick"].tolist().count("done") == 4
    checklist.step(2)
    assert "Cannot start yet: no phone on file. Ask the person for it." in kit.html_of(checklist)
    boxes = [kit.the(checklist, Box, ALL_STEPS), *(done for done, _, _ in rows(checklist))]
    assert [box.disabled for box in boxes] == [True] * 3
    assert "off, because a required value is not on file" in kit.html_of(checklist)
    kit.press(checklist, "Do it anyway")
    assert [done.disabled for done, _, _ in rows(checklist)] == [False, False]
    kit.the(checklist, Box, ALL_STEPS).value = True
    assert checklist.error is None
    assert repr(checklist).startswith("OptOutChecklist: 3 of 3 alerts finished;")


def test_finished_alert_leaves_the_open_ones(checklist):
    show, pick = kit.the(checklist, ipywidgets.Dropdown, "Show"), kit.the(checklist, TaskList)
    assert [label for label, _ in show.options] == ["With steps to do (4)", "All alerts (4)"]
    kit.the(checklist, Box, ALL_STEPS).value = True
    assert [label for label, _ in show.options] == ["With steps to do (3)", "All alerts (4)"]
    assert (show.value, len(pick.items)) == ("waiting", 4)  # the current one stays until another is picked
    kit.press(checklist, "Next alert")
    assert [item[0] for item in pick.items] == [1, 2, 3]
    show.value = "all"
    assert len(pick.items) == 4


def test_exposure_or_history_alone_is_enough(exposure, history):
    of_table = OptOutChecklist(exposure.alerts(), history)
    assert repr(OptOutChecklist(exposure)) == repr(OptOutChecklist(exposure, history)) == repr(of_table)
    alone = OptOutChecklist(history)
    alone.tick(0, "done", "")
    assert repr(alone).startswith("OptOutChecklist: ")
    assert history.ticks()["value"].tolist() == ["done"]


def test_site_that_removes_nothing_comes_last(tmp_path):
    alerts = [listing(number, fields=["first_name"]) for number in (1, 2, 3, 4, 5)]
    for alert in alerts[:4]:
        alert["source"]["record"]["site"] = "Barrier"
    late = [a_record(number, "pending removal", site="Barrier") for number in (11, 12, 13)]
    clock = Clock()
    with of_one_person(*alerts, more=late) as exposure:
        history = kit.a_history(tmp_path, exposure, clock)
        assert OptOutChecklist(exposure, history).order[0] == 0
        clock.set(DAWN + timedelta(days=14))
        history.collect(exposure.refresh(), progress=False)
        assert OptOutChecklist(exposure, history).order[0] == 4


def test_listing_labelled_not_mine_is_no_open_work(alike, alike_history):
    exposure, _ = alike
    records = exposure.records()
    alike_history.label(records[records["record_id"] == 2].iloc[0], "not mine")
    checklist = OptOutChecklist(exposure.alerts(), alike_history)
    assert repr(checklist) == "OptOutChecklist: 0 of 3 alerts finished; 4 alerts in all"
    show_all(checklist)
    assert listed(checklist)[3].endswith("labelled not mine")
    checklist.step(3)
    assert "Nothing to do: the listing is labelled not mine." in kit.html_of(checklist)


def test_alerts_are_filtered_by_site_person_or_listing(checklist):
    reference = checklist.alert["reference_id"]
    checklist.step(1)
    find, pick = kit.the(checklist, TextBox), kit.the(checklist, TaskList)
    find.value = reference
    assert checklist.error is None
    assert checklist.alert["reference_id"] == reference
    assert len(pick.items) == 1
    find.value = "no such listing"
    assert "No alert matches." in kit.html_of(checklist)
    assert (rows(checklist), details(checklist), reference in kit.html_of(checklist)) == ([], {}, False)
    find.value = ""
    assert len(pick.items) == 4
    assert rows(checklist)


def test_removed_listing_states_its_reason_and_no_work(tmp_path):
    accepted = "Opt-out accepted: the listing is removed."
    with of_one_person(an_alert(accepted, a_record(1, "removed"))) as exposure:
        checklist = OptOutChecklist(exposure.alerts(), kit.a_history(tmp_path, exposure, Clock()))
    assert accepted in kit.html_of(checklist)
    assert "Nothing to do: already removed." in kit.html_of(checklist)


def test_checkbox_of_another_listing_ticks_that_listing(checklist, alike_history):
    boxes = [one for one in kit.within(checklist) if isinstance(one, Box)]
    [other, _] = [box for box in boxes if "reference" in box.description]
    other.value = True
    assert step_states(checklist) == [None, None]
    assert len(alike_history.ticks()) == 2


def test_exposure_adds_values_to_alerts_of_a_history(alike, alike_history):
    alone = OptOutChecklist(alike_history.alerts(), alike_history)
    assert "Pass exposure=" in kit.html_of(alone)
    assert details(alone)["Reference"]
    both = OptOutChecklist(alike_history.alerts(), alike_history, exposure=alike[0])
    assert "Pass exposure=" not in kit.html_of(both)
    assert "full name" in details(both)


def test_static_html_has_every_alert_with_work():
    with of_one_person(*map(listing, range(1, 36))) as exposure:
        checklist = OptOutChecklist(exposure.alerts())
        references = {*exposure.records()["reference_id"]}
    html = checklist.to_html()
    assert len(references) == 35
    assert [one for one in references if one not in html] == []
    assert html.count("☑") == 0
    assert "<details open>" not in html
    checklist.tick_all([checklist.order[3]])
    assert checklist.to_html().count("☑") == 2


def test_static_html_says_once_per_site_what_all_need():
    with of_one_person(*map(listing, range(1, 4))) as exposure:
        checklist = OptOutChecklist(exposure.alerts(), exposure=exposure)
    html = checklist.to_html()
    assert html.count("<article") == 3
    assert html.count(escaped(WHICH_NAME)) == 1
    assert html.index(escaped(WHICH_NAME)) < html.index("<article")
    assert html.count("alerts finished") == 1
    assert kit.html_of(checklist).count(escaped(WHICH_NAME)) == 1


def test_static_html_counts_web_pages_in_the_plural():
    link = a_link("https://pages.example/odalys")
    with seen_through(Service({7: Person(links=[link], alerts=[an_alert("Seen", link)])})) as exposure:
        html = OptOutChecklist(exposure.alerts()).to_html()
    assert "<summary>Web pages: 0 of 1 finished</summary>" in html


def test_alert_about_a_page_lists_what_the_page_contains(tmp_path):
    link = a_link("https://pages.example/odalys")
    with seen_through(Service({7: Person(links=[link], alerts=[an_alert("Seen", link)])})) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
        for options in ({"history": history}, {"exposure": exposure}):
            assert details(OptOutChecklist(exposure.alerts(), **options))["Contains"] == "email"


def test_alert_has_the_warnings_of_the_report(tmp_path):
    record = a_record(1, name="Fenimoor Odalys", age=3)
    link = a_link("https://pages.example/odalys") | {"title": "<script>Odalys"}
    alerts = [an_alert("Found", record), an_alert("Seen", link)]
    alerts[0]["opt_out_procedure"] = ["Open the email and click the link.", "Send a copy of a bill."]
    with seen_through(Service({7: Person(records=[record], links=[link], alerts=alerts)})) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
        checklist = OptOutChecklist(exposure.alerts(), history, exposure=exposure)
        listing = OptOutChecklist(exposure.alerts().head(1), history, exposure=exposure)
        [work] = ek.report(history, exposure=exposure, sections=["work_queue"]).sections
    warnings = [text for removal in work.removals for task in removal.tasks for text in task.warnings]
    kinds = [text.partition(" ")[0] for text in warnings]
    assert kinds == ["differs:", "differs:", "Suspicious"]  # the document of the listing can be asked for now
    assert all(escaped(text) in checklist.to_html() for text in (*warnings, MAILBOX, DOCUMENT))
    assert all(escaped(text) in kit.html_of(listing) for text in (*warnings[:2], MAILBOX, DOCUMENT))
