"""Charts and a table over one set of records: what is picked, by whatever way, filters all of them."""

import json
import re
from dataclasses import replace
from datetime import date, timedelta

import comm
import ipywidgets
import pandas as pd
import plotly.graph_objects as go
import pytest
from support import controls as kit
from support.histories import DAWN, Clock, Person, a_record, seen_through

from exposurekit import analysis, charts
from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.frames.person_lookup import COMPLETIONS_MAX, People
from exposurekit.history import History
from exposurekit.widgets import Dashboard, Explorer
from exposurekit.widgets.figure_widget import ChartCard
from exposurekit.widgets.multi_select import MultiSelect
from exposurekit.widgets.scope import CHANGES_DAYS, Scope
from exposurekit.widgets.table_filter import Filter
from exposurekit.widgets.textbox import TextBox

FIRST = DAWN.date()


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    """An exposure, and a history of three days; on the second a site is gone, and on the third person 4 comes."""
    service, clock = kit.three_people(), Clock()
    service.people[3].records.append(a_record(39, "discovered", "Gone"))
    history = History(tmp_path_factory.mktemp("looked") / "history", clock=clock)
    with seen_through(service) as exposure:
        for day in range(3):
            if day == 1:
                service.people[3].records.pop()
            if day == 2:
                service.people[4] = Person([a_record(41, "discovered", "Elsewhere")])
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        yield exposure.refresh(), history


@pytest.fixture(params=["exposure", "history", "both"])
def dashboard(request, looked):
    exposure, history = looked
    arguments = {"exposure": (exposure, None), "history": (None, history), "both": (exposure, history)}
    return Dashboard(*arguments[request.param])


@pytest.fixture
def dated(looked):
    return Dashboard(history=looked[1])


def figures(dashboard):
    return [one for one in kit.within(dashboard) if isinstance(one, go.FigureWidget)]


def heads(dashboard):
    """What stands above each chart, in words."""
    cards = [one for one in kit.within(dashboard) if isinstance(one, ChartCard)]
    return [kit.Read(kit.html_of(card)).words for card in cards]


def bar_of(dashboard, user):
    """What the bar of a person is called."""
    return f"user {user}" if dashboard._scope.exposure is None else labels(dashboard)[user]


def click(figure, trace, index):
    """A click on a point, as plotly says it."""
    of = figure.data[trace]
    figure._js2py_pointsCallback = {
        "event_type": "plotly_click",
        "points": {
            "trace_indexes": [trace],
            "point_indexes": [index],
            "xs": [str(of.x[index])],
            "ys": [str(of.y[index])],
        },
        "device_state": {
            "alt": False,
            "ctrl": False,
            "meta": False,
            "shift": False,
            "button": 0,
            "buttons": 1,
        },
        "selector": None,
    }


def row(figure, site):
    """The place of a site's bar."""
    [row_index] = [
        row_index for row_index, text in enumerate(figure.layout.yaxis.ticktext) if text.startswith(site)
    ]
    return row_index


def total(figure):
    """How many listings the bars are of."""
    return sum(sum(bar.x) for bar in figure.data if bar.type == "bar")


def counts(dashboard):
    """What the chart over time is drawn of."""
    return dashboard._scope.over_time(dashboard._over_time)


CONTROLS = {
    "sites": (MultiSelect, "Sites", ("PeepFinder", "Elsewhere"), ()),
    "statuses": (MultiSelect, "Statuses", ("removed",), ()),
    "users": (TextBox, "Person", "2", ""),
}


def labels(dashboard):
    return dashboard._people.labels


@pytest.mark.parametrize("what", CONTROLS)
def test_a_pick_by_control_is_a_pick_by_attribute(dashboard, what):
    kind, described, moved, none = CONTROLS[what]
    picked = (int(moved),) if what == "users" else moved
    before = dashboard.records
    kit.the(dashboard, kind, described).value = moved
    assert dashboard.error is None
    assert getattr(dashboard, what) == picked
    by_control = dashboard.records
    assert 0 < len(by_control) < len(before)
    kit.press(dashboard, "Clear", 0)
    assert kit.the(dashboard, kind, described).value == none
    pd.testing.assert_frame_equal(dashboard.records, before)
    dashboard.pick(**{"user" if what == "users" else what: picked})
    assert kit.the(dashboard, kind, described).value == (labels(dashboard)[2] if what == "users" else moved)
    pd.testing.assert_frame_equal(dashboard.records, by_control)


def test_picks_add_up_and_charts_and_table_are_of_them(dashboard):
    dashboard.pick(sites=["PeepFinder", "Elsewhere"])
    kit.the(dashboard, MultiSelect, "Statuses").value = ("discovered",)
    kit.the(dashboard, TextBox, "Person").value = "2"
    assert dashboard.sites == ("PeepFinder", "Elsewhere")
    records = dashboard.records
    assert records[["user_id", "site", "status"]].to_numpy().tolist() == [[2, "PeepFinder", "discovered"]]
    bars = figures(dashboard)[0]
    assert {*bars.layout.yaxis.ticktext} == {"PeepFinder", "Thirdplace"}  # where user 2 has open listings
    assert [lit(bars, site) for site in ("PeepFinder", "Thirdplace")] == [True, False]
    assert len(kit.grid(dashboard).rows) == 1
    [status_line, *_] = kit.statuses(dashboard)
    assert f"Dashboard: {status_line}" == repr(dashboard)
    assert status_line.startswith("1 of ")
    assert status_line.endswith(", user 2, sites: PeepFinder, Elsewhere, statuses: discovered")


def test_the_bars_are_those_of_the_question(dashboard):
    table = analysis.by_site(dashboard.records)
    wanted = charts.by_site(table, provenance=dashboard._scope.provenance)
    assert [list(bar.x) for bar in figures(dashboard)[0].data] == [list(bar.x) for bar in wanted.data]
    assert figures(dashboard)[0].layout.yaxis.ticktext == wanted.layout.yaxis.ticktext
    assert total(figures(dashboard)[0]) == len(dashboard.records)


def lit(figure, called):
    """Whether all bars of a row are full, or all are dimmed."""
    [full] = {bar.marker.opacity[row(figure, called)] == 1 for bar in figure.data if bar.type == "bar"}
    return full


def test_a_click_selects_a_bar_and_another_adds_or_removes(dashboard):
    everything, sites = dashboard.records, ("PeepFinder", "Elsewhere", "Thirdplace")
    chart, picker = figures(dashboard)[0], kit.the(dashboard, MultiSelect, "Sites")
    bars = [list(bar.x) for bar in chart.data]
    for clicked, marked in (
        ("PeepFinder", ("PeepFinder",)),
        ("Thirdplace", ("PeepFinder", "Thirdplace")),
        ("PeepFinder", ("Thirdplace",)),
        ("Thirdplace", ()),
    ):
        click(chart, 0, row(chart, clicked))
        assert dashboard.error is None
        assert {*dashboard.sites} == {*picker.value} == {*marked}
        assert {*dashboard.records["site"]} == {*(marked or everything["site"])}
        assert [lit(chart, site) for site in sites] == [site in (marked or sites) for site in sites]
        assert [list(bar.x) for bar in chart.data] == bars
    pd.testing.assert_frame_equal(dashboard.records, everything)


def test_a_site_that_is_picked_by_name_is_marked(dashboard):
    kit.the(dashboard, MultiSelect, "Sites").value = ("Elsewhere",)
    chart = figures(dashboard)[0]
    assert [lit(chart, site) for site in ("PeepFinder", "Elsewhere")] == [False, True]


def test_a_click_on_a_person_marks_them_and_another_adds(dashboard):
    chart = figures(dashboard)[-1]
    first, second, third = (bar_of(dashboard, user) for user in (1, 2, 3))
    for user in (second, third):
        click(chart, 0, row(chart, user))
    assert dashboard.error is None
    assert dashboard.users == (2, 3)
    assert {*dashboard.records["user_id"]} == {2, 3}
    assert [lit(chart, user) for user in (first, second, third)] == [False, True, True]
    assert labels(dashboard)[3] in " ".join(kit.statuses(dashboard))
    click(chart, 0, row(chart, second))
    assert dashboard.users == (3,)
    assert kit.the(dashboard, TextBox, "Person").value == labels(dashboard)[3]


def test_a_click_keeps_what_else_is_picked(dashboard):
    dashboard.pick(statuses=["discovered"], user=1)
    chart = figures(dashboard)[0]
    click(chart, 0, row(chart, "Thirdplace"))
    assert (dashboard.sites, dashboard.statuses, dashboard.users) == (("Thirdplace",), ("discovered",), (1,))
    assert len(dashboard.records) == 1


def test_clear_clears_everything(dated):
    everything = dated.records
    kit.tell(kit.grid(dated), {"row": 1, "selected": True})
    dated.pick(sites=["PeepFinder"], statuses=["discovered"], user=[1, 2], day=FIRST)
    kit.the(dated, TextBox, "Search").value = "peep"
    table = next(one for one in kit.within(dated) if isinstance(one, Explorer))
    table.choose("status", ["discovered"])
    kit.tell(kit.grid(dated), {"sort": "site"})
    kit.press(dated, "Clear", 0)
    assert dated.error is None
    assert (dated.sites, dated.statuses, dated.users, dated.day) == ((), (), (), None)
    assert table.filter == Filter()
    assert kit.grid(dated).selected == []
    assert [kit.the(dated, TextBox, name).value for name in ("Person", "Search")] == ["", ""]
    assert kit.the(dated, ipywidgets.SelectionSlider, "Day").value == "now"
    assert {lit(figures(dated)[0], site) for site in ("PeepFinder", "Elsewhere")} == {True}
    pd.testing.assert_frame_equal(dated.records, everything)
    assert len(kit.grid(dated).rows) == len(everything)


def test_a_click_on_the_rest_picks_nothing(looked):
    dashboard = Dashboard(looked[0])
    dashboard._scope = replace(dashboard._scope, all_records=kit.records(2_400))
    dashboard.pick()
    chart = figures(dashboard)[0]
    assert len(chart.layout.yaxis.ticktext) == charts.MAX_ROWS + 1
    click(chart, 0, charts.MAX_ROWS)
    assert dashboard.sites == ()
    click(chart, 0, charts.MAX_ROWS - 1)
    assert dashboard.sites == (chart.layout.yaxis.ticktext[charts.MAX_ROWS - 1],)
    assert dashboard.error is None


def test_a_click_on_a_day_picks_the_day(dated):
    over_time = figures(dated)[1]
    click(over_time, 0, 0)
    assert dated.error is None
    assert dated.day == FIRST
    assert "Gone" in {*dated.records["site"]}
    assert len(dated.records) == 10
    assert kit.the(dated, ipywidgets.SelectionSlider, "Day").value == FIRST
    assert "Gone" in [value for _, value in kit.the(dated, MultiSelect, "Sites").options]


def test_the_slider_moves_to_a_day_and_back_to_now(dated):
    now = dated.records
    slider = kit.the(dated, ipywidgets.SelectionSlider, "Day")
    slider.value = FIRST + timedelta(days=1)
    assert dated.day == FIRST + timedelta(days=1)
    assert (len(now), len(dated.records)) == (11, 10)
    assert f"as of {dated.day}" in dated.to_html()
    slider.value = "now"
    assert dated.day is None
    pd.testing.assert_frame_equal(dated.records, now)


def test_now_is_the_service_and_a_day_the_history(looked):
    dashboard = Dashboard(*looked)
    assert "vanished" not in {*dashboard.records["status"]}
    dashboard.pick(day=FIRST + timedelta(days=2), statuses=["vanished"])
    assert {*dashboard.records["site"]} == {"Gone"}


@pytest.mark.parametrize(
    "day", ["2026-03-01", FIRST, pd.Timestamp(DAWN), "0d"], ids=["text", "date", "instant", "back"]
)
def test_a_day_is_picked_in_any_form(dated, day):
    if day == "0d":
        day = f"{(dated._scope.history._clock().date() - FIRST).days}d"
    dated.pick(day=day)
    assert dated.day == FIRST


def test_changes_count_from_the_day_that_is_picked(dated):
    dated.ask("changes")
    since = kit.the(dated, ipywidgets.Dropdown, "Changes since")
    assert f"since {FIRST}" in dated.to_html()
    later = FIRST + timedelta(days=1)
    dated.pick(since=later)
    assert dated.error is None
    assert f"since {later}" in dated.to_html()
    assert since.value == later
    kit.the(dated, MultiSelect, "Statuses").value = ("removed",)
    assert f"since {later}, everyone" in dated.to_html()
    since.value = None
    assert f"since {FIRST}" in dated.to_html()


def test_changes_count_from_two_weeks_before_by_default(looked):
    scope = Scope(None, looked[1], looked[1].records(), day=FIRST + timedelta(days=30))
    assert scope.changes_since == FIRST + timedelta(days=30 - CHANGES_DAYS)


def test_the_static_html_says_what_each_chart_is_of(dated):
    dated.pick(sites=["PeepFinder"])
    words = kit.Read(dated.to_html()).words
    assert (
        "else everyone, everywhere"
        not in words.partition("Listings by site")[0].split("sites: PeepFinder")[0]
    )
    assert words.count("sites: PeepFinder") > 1


@pytest.mark.parametrize(
    "picked",
    [{"day": "someday"}, {"since": "someday"}, {"sites": "PeepFinder"}, {"statuses": "removed"}],
    ids=str,
)
def test_a_pick_of_no_such_form_is_refused(dated, picked):
    with pytest.raises(InvalidArgument):
        dated.pick(**picked)
    assert (dated.day, dated.sites, dated.statuses) == (None, (), ())


def test_a_day_outside_the_slider_survives_other_selections(dated):
    later = FIRST + timedelta(days=9)
    dated.pick(day=later)
    kit.the(dated, MultiSelect, "Statuses").value = ("removed",)
    assert (dated.day, dated.statuses) == (later, ("removed",))


def test_a_site_that_is_gone_stays_selected(looked):
    dashboard = Dashboard(*looked)
    dashboard.pick(day=FIRST, sites=["Gone"])
    kit.the(dashboard, ipywidgets.SelectionSlider, "Day").value = "now"
    assert dashboard.sites == ("Gone",)
    assert kit.the(dashboard, MultiSelect, "Sites").value == ("Gone",)
    assert dashboard.records.empty


@pytest.mark.parametrize(
    "picked",
    [{"user": 2}, {"user": [1, 2]}, {"sites": ["Thirdplace"]}, {"user": 2, "sites": ["Thirdplace"]}],
    ids=str,
)
def test_counts_over_time_are_of_the_selected_people_and_sites(dated, picked):
    dated.pick(**picked)
    counted = counts(dated)
    assert counted["total"].iloc[-1] == len(dated.records) > 0
    wanted = charts.status_over_time(counted).data
    assert [repr(one.y) for one in figures(dated)[1].data] == [repr(one.y) for one in wanted]
    assert dated.error is None


def test_counts_over_time_end_with_the_day(dated):
    dated.pick(day=FIRST + timedelta(days=1))
    assert len(counts(dated)) == 2
    assert counts(dated)["total"].iloc[-1] == 9


def test_a_day_without_a_history_is_a_clear_error(looked):
    dashboard = Dashboard(looked[0])
    with pytest.raises(InvalidArgument, match="a day needs a history"):
        dashboard.pick(day="2026-03-01", sites=["PeepFinder"])
    assert (dashboard.day, dashboard.sites) == (None, ())


def test_a_day_before_all_runs_is_an_error(dated):
    with pytest.raises(NotFound):
        dated.pick(day=FIRST - timedelta(days=1))
    assert dated.day is None
    assert len(dated.records) == 11


def test_somebody_who_was_never_seen_changes_nothing(dated):
    for unknown in (999, "Zebedee", [1, 999]):
        with pytest.raises(NotFound, match="No person here has this id or name"):
            dated.pick(user=unknown)
    assert dated.users == ()
    assert len(dated.records) == len(kit.grid(dated).rows) == 11


def test_an_unknown_person_is_reported_and_nothing_is_filtered(dashboard):
    everything = dashboard.records
    box = kit.the(dashboard, TextBox, "Person")
    box.value = "2"
    for typed in ("Zebedee", "999", "1.5", "-1", "²", "1" * 5_000):
        box.value = typed
        assert kit.alerted(dashboard) == "No person here has this name or id. Everyone is shown."
        assert dashboard.users == ()
        pd.testing.assert_frame_equal(dashboard.records, everything)
    kit.the(dashboard, MultiSelect, "Statuses").value = ("removed",)
    assert (box.value, kit.alerted(dashboard)[:9]) == (typed, "No person")
    box.value = ""
    assert kit.alerted(dashboard) == ""
    assert dashboard.error is None


def test_a_person_is_found_by_name_while_it_is_typed(looked):
    dashboard = Dashboard(*looked)
    label = labels(dashboard)[2]
    name = label.removesuffix(" (2)")
    box = kit.the(dashboard, TextBox, "Person")
    assert label in box.options
    shared = next(part for part in name.split() if all(part in one for one in labels(dashboard).values()))
    box.value = shared
    assert dashboard.users == ()
    assert f"{len(box.options)} people match" in " ".join(kit.statuses(dashboard))
    for typed in (label, label.lower(), " 2 "):
        box.value = typed
        assert dashboard.users == (2,)
        assert box.value == typed  # what somebody types stays as they type it
        assert name not in repr(dashboard)
        box.value = shared
    dashboard.pick(user=label)
    assert (dashboard.users, box.value) == ((2,), label)
    with pytest.raises(InvalidArgument, match="people match this name: give the id"):
        dashboard.pick(user=shared)
    assert dashboard.users == (2,)


def test_completions_narrow_where_people_are_many():
    many = People({one: f"Jo Doe{one:04} ({one})" for one in range(3 * COMPLETIONS_MAX)})
    assert len(many.completions("")) == COMPLETIONS_MAX
    assert many.completions("doe1499") == ["Jo Doe1499 (1499)"]
    assert many.matching("jo doe1499") == [1499]


@pytest.mark.parametrize(
    ("typed", "user_ids"),
    [
        ("12", [12]),
        ("1", [1]),
        ("jose", [1]),
        ("JOSÉ  doe", [1]),
        ("ann lee", [12]),
        ("lee", [12, 13]),
        ("x", []),
    ],
)
def test_whom_a_text_means(typed, user_ids):
    assert (
        People({1: "José Doe (1)", 12: "Ann Lee (12)", 13: "Joann Leeson (13)"}).matching(typed) == user_ids
    )


QUESTIONS = {
    "exposure": {
        *("by_user", "user_by_site", "by_state", "by_kind", "blockers", "best_next_fields", "work_queue"),
        "score",
    },
    "history": {
        *("by_user", "user_by_site", "by_state", "by_kind", "changes", "time_to_removal", "survival"),
        *("relistings", "work_queue", "precision", "site_health", "forecast", "score", "score_changes"),
    },
}  # fmt: skip


@pytest.mark.long
def test_the_third_chart_answers_any_question(looked, subtests):
    for dashboard, questions in (
        (Dashboard(looked[0]), QUESTIONS["exposure"]),
        (Dashboard(history=looked[1]), QUESTIONS["history"]),
        (Dashboard(*looked), QUESTIONS["exposure"] | QUESTIONS["history"]),
    ):
        picker = kit.the(dashboard, ipywidgets.Dropdown, "Chart")
        assert {value for _, value in picker.options} == questions
        for question in sorted(questions):
            with subtests.test(question, dashboard=repr(dashboard)):
                picker.value = question
                assert dashboard.error is None
                assert dashboard.question == question
                assert heads(dashboard)[-1].startswith(dashboard._drawn[-1].layout.meta["finding"])
                assert charts.describe(dashboard._drawn[-1]) in kit.Read(dashboard.to_html()).words


def test_a_day_drives_every_question(dated, subtests):
    """What was not seen yet on the first day is in no chart of it."""
    now = {}
    for question in sorted(QUESTIONS["history"]):
        dated.ask(question)
        now[question] = heads(dated)[-1], figures(dated)[-1].to_json()
    dated.pick(day=FIRST)
    for question in sorted(now):
        with subtests.test(question):
            dated.ask(question)
            assert dated.error is None
            assert f"as of {FIRST}" in heads(dated)[-1]
            assert (heads(dated)[-1], figures(dated)[-1].to_json()) != now[question]


def test_a_chart_that_cannot_heed_a_pick_says_so(dated):
    dated.ask("time_to_removal")
    dated.pick(user=2, sites=["Thirdplace"])
    title = heads(dated)[-1]
    assert "sites: Thirdplace" in title
    assert "user 2" not in title
    assert "else everyone" in title


def test_a_question_that_is_none_changes_nothing(dated):
    with pytest.raises(InvalidArgument, match="question is one of: by_user"):
        dated.ask("by_moon")
    with pytest.raises(InvalidArgument):
        dated.ask("blockers")
    assert dated.question == "by_user"


def test_no_figure_uploads(dashboard):
    for _ in range(2):
        for figure in figures(dashboard):
            assert charts.CONFIG.items() <= figure._config.items()
            assert figure._config["showSendToCloud"] is False
            assert figure._config["plotlyServerURL"] == ""
        dashboard.pick(user=1)


def test_a_browser_gets_a_whole_chart_and_plotly_once(looked, monkeypatch):
    """What is told after a widget was opened may come too late, and its script is five megabytes."""
    opened, create = [], comm.create_comm
    monkeypatch.setattr(
        comm, "create_comm", lambda **options: opened.append(options["data"]["state"]) or create(**options)
    )
    figures_shown = [figure for _ in range(2) for figure in figures(Dashboard(history=looked[1]))]
    states = [state for state in opened if "_widget_data" in state]
    assert [len(state["_widget_data"]) for state in states] == [len(figure.data) for figure in figures_shown]
    assert [state["_widget_layout"]["height"] for state in states] == [
        one.layout.height for one in figures_shown
    ]
    assert all(charts.CONFIG.items() <= state["_config"].items() for state in states)
    assert {state["_library"] for state in states} == {f"IPY_MODEL_{figures_shown[0]._library.model_id}"}
    assert sum(len(json.dumps(state, default=str)) > 1_000_000 for state in opened) <= 1


def test_a_chart_tells_all_of_itself_when_it_is_asked(dated, monkeypatch):
    [figure, *_] = figures(dated)
    dated.pick(user=1)
    sent = []
    monkeypatch.setattr(type(figure), "send", lambda _, content: sent.append(content))
    figure._handle_custom_msg({"whole": True}, [])
    assert sent == [{"whole": True}]
    now = figure.to_plotly_json()
    assert [trace["name"] for trace in figure._widget_data] == [trace["name"] for trace in now["data"]]
    assert figure._widget_layout["height"] == now["layout"]["height"]


def test_a_service_without_records_works():
    service = kit.three_people()
    for person in service.people.values():
        person.records, person.alerts = [], []
    with seen_through(service) as exposure:
        dashboard = Dashboard(exposure)
        dashboard.pick(statuses=["removed"])
        kit.the(dashboard, TextBox, "Person").value = "1"
        assert dashboard.error is None
        assert repr(dashboard).startswith("Dashboard: 0 of 0 records, now, user 1")
        assert "<caption>" in dashboard.to_html()


def test_a_history_without_records_works(tmp_path):
    service = kit.three_people()
    for person in service.people.values():
        person.records, person.alerts = [], []
    with seen_through(service) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
    dashboard = Dashboard(history=history)
    dashboard.pick(day=FIRST, sites=["Gone"])
    assert dashboard.records.empty
    assert dashboard.error is None


def test_neither_service_nor_history_and_an_empty_history_are_refused(tmp_path):
    for wrong in ({"exposure": pd.DataFrame()}, {"exposure": "history"}, {"history": 7}):
        with pytest.raises(InvalidArgument, match="Give an exposure"):
            Dashboard(**wrong)
    with pytest.raises(InvalidArgument, match="Give an exposure"):
        Dashboard()
    with pytest.raises(NotFound):
        Dashboard(history=History(tmp_path / "nothing"))


def test_days_are_those_of_the_history(dated):
    [*days, (_, now)] = kit.the(dated, ipywidgets.SelectionSlider, "Day").options
    assert [value for _, value in days] == [FIRST + timedelta(days=n) for n in range(3)]
    assert now == "now"
    assert isinstance(days[0][1], date)


def metrics_of(dashboard):
    """The figures above the charts."""
    [markup] = [
        one.value
        for one in kit.within(dashboard)
        if isinstance(one, ipywidgets.HTML) and '<ul class="metrics">' in one.value
    ]
    values = re.findall(r'<span class="label">([^<]+)</span><strong>([^<]+)</strong>', markup)
    return dict(values), markup


def test_the_figures_follow_what_is_picked(looked):
    dashboard = Dashboard(*looked)
    figures, markup = metrics_of(dashboard)
    exposure = looked[0]
    score = analysis.score(exposure.records(), exposure.links())["score"].sum()
    assert figures == {
        "Open": "7",
        "Removed": "30%",
        "Pending removal": "0",
        "People exposed": "4",
        "Pages with data": "3",
        "Score": f"{score:.0f}",
    }
    assert markup.count("<polyline") == 3
    dashboard.pick(user=1, sites=["Elsewhere"])
    assert metrics_of(dashboard)[0]["Open"] == "0"
    assert metrics_of(dashboard)[0]["Removed"] == "100%"
    assert metrics_of(dashboard)[0]["Pages with data"] == "1"
    dashboard.pick(statuses=["removed"])
    assert "<polyline" not in metrics_of(dashboard)[1]  # the history counts all statuses


def test_options_are_counted_under_the_other_filters(looked):
    dashboard = Dashboard(*looked)
    dashboard.pick(sites=["PeepFinder"], statuses=["discovered"])
    counted = {label: n for label, n, _ in kit.the(dashboard, MultiSelect, "Statuses").items}
    assert counted == {"discovered": 3, "removed": 0}
    sites = {label: n for label, n, _ in kit.the(dashboard, MultiSelect, "Sites").items}
    assert sites == {"Elsewhere": 1, "PeepFinder": 3, "Thirdplace": 3}


def test_a_chart_without_anything_to_draw_says_so(looked):
    dashboard = Dashboard(*looked)
    dashboard.pick(sites=["PeepFinder"], statuses=["removed"], user=1)
    assert "Nothing to draw for this selection." in kit.html_of(dashboard)
    dashboard.clear()
    assert "Nothing to draw" not in kit.html_of(dashboard)
