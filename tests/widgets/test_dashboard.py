"""Charts and a table of the same records: any kind of selection filters all of them."""

import json
import re
import warnings
from dataclasses import replace
from datetime import timedelta

import comm
import ipywidgets
import pandas as pd
import pytest
from support import widget_controls as kit
from support.chart_tables import title
from support.clients import stopped
from support.histories import DAWN, Clock, Person, a_record, seen_through

import exposurekit as ek
from exposurekit import analysis, charts
from exposurekit.charts.embedding import without_meta
from exposurekit.charts.theme import figure_json
from exposurekit.errors import InvalidArgument, NotFound
from exposurekit.frames.person_names import COMPLETIONS_MAX, People
from exposurekit.history import History
from exposurekit.widgets import Dashboard, Explorer, figure_widget
from exposurekit.widgets.dashboard_metrics import measure
from exposurekit.widgets.dashboard_scope import CHANGES_DAYS, Scope, draw
from exposurekit.widgets.figure_widget import ChartCard, FigureView
from exposurekit.widgets.multi_select import MultiSelect
from exposurekit.widgets.slider import Slider
from exposurekit.widgets.table_filter import Filter
from exposurekit.widgets.tabs import Tabs
from exposurekit.widgets.textbox import TextBox

FIRST = DAWN.date()


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """An exposure, and a history of three days; on the second a site is gone, and on the third person 4 comes."""
    service, clock = kit.three_people(), Clock()
    service.people[3].records.append(a_record(39, "discovered", "Gone"))
    history = History(tmp_path_factory.mktemp("sources") / "history", clock=clock)
    with seen_through(service) as exposure:
        for day in range(3):
            if day == 1:
                service.people[3].records.pop()
            if day == 2:
                service.people[4] = Person([a_record(41, "discovered", "Elsewhere")])
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
        yield exposure.refresh(), history


@pytest.fixture(scope="module")
def dashboards(sources):
    """A dashboard of each source, cleared after each test."""
    exposure, history = sources
    return {
        "exposure": Dashboard(exposure),
        "history": Dashboard(history=history),
        "both": Dashboard(*sources),
    }


def cleared(dashboard):
    fresh = repr(dashboard)
    yield dashboard
    if dashboard.question != "by_user":
        dashboard.ask("by_user")
    if repr(dashboard) != fresh or kit.the(dashboard, TextBox, "Person").value:
        dashboard.clear()


@pytest.fixture(params=["exposure", "history"])
def dashboard(request, dashboards):
    yield from cleared(dashboards[request.param])


@pytest.fixture
def dated(dashboards):
    yield from cleared(dashboards["history"])


@pytest.fixture
def both(dashboards):
    yield from cleared(dashboards["both"])


def figures(dashboard):
    return [one for one in kit.within(dashboard) if isinstance(one, FigureView)]


def heads(dashboard):
    """The words above each chart."""
    cards = [one for one in kit.within(dashboard) if isinstance(one, ChartCard)]
    return [kit.Read(kit.html_of(card)).words for card in cards]


def labels(dashboard):
    return dashboard._people.labels


def click(figure, trace, index):
    """Send the message that the browser sends when somebody clicks a point."""
    x = figure.chart.data[trace].x
    kit.tell(figure, {"row": index, "x": str(x[index]) if index < len(x) else None})


def row(figure, label):
    """The number of the bar whose label begins so."""
    [number] = [n for n, text in enumerate(figure.chart.layout.yaxis.ticktext) if text.startswith(label)]
    return number


def click_bar(dashboard, chart, label):
    click(chart, 0, row(chart, label))
    assert dashboard.error is None


def is_full(figure, label):
    """Whether all bars of a row are full; otherwise all are dimmed."""
    [full] = {bar.marker.opacity[row(figure, label)] == 1 for bar in figure.chart.data if bar.type == "bar"}
    return full


CONTROLS = {
    "sites": (MultiSelect, "Sites", ("PeepFinder", "Elsewhere"), ()),
    "statuses": (MultiSelect, "Statuses", ("removed",), ()),
    "users": (TextBox, "Person", "2", ""),
}


@pytest.mark.parametrize(
    ("dashboard", "what"),
    [("history", "sites"), ("exposure", "statuses"), ("exposure", "users"), ("history", "users")],
    indirect=["dashboard"],
)
def test_controls_and_arguments_select_the_same(dashboard, what):
    kind, name, moved, none = CONTROLS[what]
    picked = (int(moved),) if what == "users" else moved
    before = dashboard.records
    kit.the(dashboard, kind, name).value = moved
    assert dashboard.error is None
    assert getattr(dashboard, what) == picked
    by_control = dashboard.records
    assert 0 < len(by_control) < len(before)
    kit.press(dashboard, "Clear", 0)
    assert kit.the(dashboard, kind, name).value == none
    pd.testing.assert_frame_equal(dashboard.records, before)
    dashboard.pick(**{"user" if what == "users" else what: picked})
    assert kit.the(dashboard, kind, name).value == (labels(dashboard)[2] if what == "users" else moved)
    pd.testing.assert_frame_equal(dashboard.records, by_control)


@pytest.mark.parametrize("dashboard", ["exposure"], indirect=True)
def test_the_table_names_each_person(dashboard):
    names = dashboard._scope.exposure.with_people(dashboard._scope.exposure.records())
    pd.testing.assert_frame_equal(dashboard.records, names)
    assert names["person"].notna().all()
    assert names["person"].iloc[0] in str(kit.grid(dashboard).rows[0])
    dashboard.pick(user=int(names["user_id"].iloc[0]))
    assert {*dashboard.records["person"]} == {names["person"].iloc[0]}


@pytest.mark.parametrize("dashboard", ["history"], indirect=True)
def test_the_table_of_a_history_has_no_names(dashboard):
    assert "person" not in dashboard.records


@pytest.mark.parametrize("dashboard", ["exposure"], indirect=True)
def test_selections_add_up_in_charts_and_table(dashboard):
    dashboard.pick(sites=["PeepFinder", "Elsewhere"])
    kit.the(dashboard, MultiSelect, "Statuses").value = ("discovered",)
    kit.the(dashboard, TextBox, "Person").value = "2"
    assert dashboard.sites == ("PeepFinder", "Elsewhere")
    records = dashboard.records
    assert records[["user_id", "site", "status"]].to_numpy().tolist() == [[2, "PeepFinder", "discovered"]]
    bars = figures(dashboard)[0]
    assert {*bars.chart.layout.yaxis.ticktext} == {
        "PeepFinder",
        "Thirdplace",
    }  # where user 2 has open listings
    assert [is_full(bars, site) for site in ("PeepFinder", "Thirdplace")] == [True, False]
    assert len(kit.grid(dashboard).rows) == 1
    [status_line, *_] = kit.statuses(dashboard)
    assert f"Dashboard: {status_line}" == repr(dashboard)
    assert status_line.startswith("1 of ")
    assert status_line.endswith(", user 2, sites: PeepFinder, Elsewhere, statuses: discovered")


def test_bars_are_those_of_the_question(dashboard):
    bars, records = figures(dashboard)[0], dashboard.records
    wanted = charts.by_site(analysis.by_site(records), provenance=dashboard._scope.provenance)
    assert [list(bar.x) for bar in bars.chart.data] == [list(bar.x) for bar in wanted.data]
    assert bars.chart.layout.yaxis.ticktext == wanted.layout.yaxis.ticktext
    assert sum(sum(bar.x) for bar in bars.chart.data if bar.type == "bar") == len(records)


@pytest.mark.parametrize("dashboard", ["history"], indirect=True)
def test_clicks_on_bars_select_and_deselect_sites(dashboard):
    everything, sites = dashboard.records, ("PeepFinder", "Elsewhere", "Thirdplace")
    chart, picker = figures(dashboard)[0], kit.the(dashboard, MultiSelect, "Sites")
    bars = [list(bar.x) for bar in chart.chart.data]
    for clicked, marked in (
        ("PeepFinder", ("PeepFinder",)),
        ("Thirdplace", ("PeepFinder", "Thirdplace")),
        ("PeepFinder", ("Thirdplace",)),
        ("Thirdplace", ()),
    ):
        click_bar(dashboard, chart, clicked)
        assert {*dashboard.sites} == {*picker.value} == {*marked}
        assert {*dashboard.records["site"]} == {*(marked or everything["site"])}
        assert [is_full(chart, site) for site in sites] == [site in (marked or sites) for site in sites]
        assert [list(bar.x) for bar in chart.chart.data] == bars
    pd.testing.assert_frame_equal(dashboard.records, everything)


def test_clicks_on_people_add_and_remove_them(dashboard):
    chart, names = figures(dashboard)[-1], labels(dashboard)
    is_named = dashboard._scope.exposure is not None
    bars = dashboard._people.distinct_names([1, 2, 3])
    first, second, third = bars if is_named else (f"user {user}" for user in (1, 2, 3))
    for user in (second, third):
        click_bar(dashboard, chart, user)
    assert dashboard.users == (2, 3)
    assert {*dashboard.records["user_id"]} == {2, 3}
    assert [is_full(chart, user) for user in (first, second, third)] == [False, True, True]
    assert names[3] in " ".join(kit.statuses(dashboard))
    click_bar(dashboard, chart, second)
    assert dashboard.users == (3,)
    assert kit.the(dashboard, TextBox, "Person").value == names[3]


def test_click_preserves_the_other_selections(both):
    both.pick(statuses=["discovered"], user=1)
    click_bar(both, figures(both)[0], "Thirdplace")
    assert (both.sites, both.statuses, both.users) == (("Thirdplace",), ("discovered",), (1,))
    assert len(both.records) == 1


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
    assert kit.the(dated, Slider, "Day").value == "now"
    assert {is_full(figures(dated)[0], site) for site in ("PeepFinder", "Elsewhere")} == {True}
    pd.testing.assert_frame_equal(dated.records, everything)
    assert len(kit.grid(dated).rows) == len(everything)


def test_click_on_the_bar_of_other_sites_selects_nothing(sources):
    dashboard = Dashboard(sources[0])
    dashboard._scope = replace(dashboard._scope, all_records=kit.records(2_400))
    dashboard.pick()
    chart = figures(dashboard)[0]
    assert len(chart.chart.layout.yaxis.ticktext) == charts.MAX_ROWS + 1
    click(chart, 0, charts.MAX_ROWS)
    assert dashboard.sites == ()
    click(chart, 0, charts.MAX_ROWS - 1)
    assert dashboard.sites == (chart.chart.layout.yaxis.ticktext[charts.MAX_ROWS - 1],)
    assert dashboard.error is None


def test_clicks_and_slider_select_days(dated):
    now, slider = dated.records, kit.the(dated, Slider, "Day")
    assert slider.options == [*(str(FIRST + timedelta(days=n)) for n in range(3)), "now"]
    click(figures(dated)[1], 0, 0)
    assert dated.error is None
    assert dated.day == FIRST
    assert slider.value == str(FIRST)
    assert "Gone" in {*dated.records["site"]}
    assert len(dated.records) == 10
    assert "Gone" in [value for _, value in kit.the(dated, MultiSelect, "Sites").options]
    slider.value = str(FIRST + timedelta(days=1))
    assert dated.day == FIRST + timedelta(days=1)
    assert (len(now), len(dated.records)) == (11, 10)
    assert f"as of {dated.day}" in dated.to_html()
    slider.value = "tomorrow"  # not offered: a browser may send any
    assert slider.value == str(dated.day)
    slider.value = "now"
    assert dated.day is None
    pd.testing.assert_frame_equal(dated.records, now)


def test_now_is_the_service_and_a_day_the_history(both):
    assert "vanished" not in {*both.records["status"]}
    both.pick(day=FIRST + timedelta(days=2), statuses=["vanished"])
    assert {*both.records["site"]} == {"Gone"}


def test_day_is_accepted_in_any_form(dated):
    days_ago = (dated._scope.history._clock().date() - FIRST).days
    for day in ("2026-03-01", FIRST, pd.Timestamp(DAWN), f"{days_ago}d"):
        dated.pick(day=day)
        assert dated.day == FIRST


def test_changes_count_from_the_selected_day(dated):
    scope = Scope(None, dated._scope.history, dated.records, day=FIRST + timedelta(days=30))
    assert scope.changes_since == FIRST + timedelta(days=30 - CHANGES_DAYS)  # by default
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


def test_static_html_names_the_selection_of_each_chart(dated):
    dated.pick(sites=["PeepFinder"])
    words = kit.Read(dated.to_html()).words
    first = words.partition("Listings by site")[0].split("sites: PeepFinder")[0]
    assert "not filtered by" not in first
    assert words.count("sites: PeepFinder") > 1


def test_day_outside_the_slider_survives_other_selections(dated):
    later = FIRST + timedelta(days=9)
    with pytest.warns(UserWarning, match="the last day with an observation"):
        dated.pick(day=later)
    with pytest.warns(UserWarning, match="the last day with an observation"):
        kit.the(dated, MultiSelect, "Statuses").value = ("removed",)
    assert (dated.day, dated.statuses) == (later, ("removed",))
    assert kit.the(dated, Slider, "Day").value == "now"


def test_site_without_listings_now_stays_selected(both):
    both.pick(day=FIRST, sites=["Gone"])
    kit.the(both, Slider, "Day").value = "now"
    assert both.sites == ("Gone",)
    assert kit.the(both, MultiSelect, "Sites").value == ("Gone",)
    assert both.records.empty


def test_counts_over_time_follow_the_selection(dated):
    for picked in ({"user": [1, 2]}, {"sites": ["Thirdplace"]}, {"user": 2, "sites": ["Thirdplace"]}):
        dated.pick(**picked)
        counts = dated._scope.over_time(dated._over_time)
        assert counts["total"].iloc[-1] == len(dated.records) > 0
        wanted = charts.status_over_time(counts).data
        assert [repr(one.y) for one in figures(dated)[1].chart.data] == [repr(one.y) for one in wanted]
    dated.pick(day=FIRST + timedelta(days=1))
    counts = dated._scope.over_time(dated._over_time)
    assert (len(counts), counts["total"].iloc[-1]) == (2, 9)


def test_each_change_updates_the_static_version_once(dated):
    """Though it sets several controls."""
    with kit.published(dated) as outputs:
        displayed = len(outputs)
        dated.pick(user=2, sites=["PeepFinder"], day=FIRST)
        assert len(outputs) == displayed + 1
        kit.the(dated, MultiSelect, "Statuses").value = ("removed",)
        assert len(outputs) == displayed + 2
        assert f"{len(dated.records):,} of " in outputs[-1]["data"]["text/html"]


def test_only_a_site_without_listings_is_counted_without_a_warning(dated):
    class WarningHistory(History):
        def status_over_time(self, **selection):
            warnings.warn("of another kind", stacklevel=1)
            return super().status_over_time(**selection)

    scope = replace(dated._scope, users=(2,), sites=("Gone",), day=None)
    assert scope.over_time(dated._over_time).empty
    with WarningHistory(scope.history.path) as history, pytest.warns(UserWarning, match="of another kind"):
        assert replace(scope, history=history).over_time(dated._over_time).empty


def test_a_question_of_a_history_says_that_it_needs_one(exposure):
    for typed in ("relistings", "relisting"):
        with pytest.raises(InvalidArgument, match="relistings needs a history"):
            Dashboard(exposure).ask(typed)
    with pytest.raises(InvalidArgument, match=r"question is one of: .*; did you mean by_state\?"):
        Dashboard(exposure).ask("by_stat")


def test_wrong_selections_raise_errors_and_change_nothing(dated, dashboards):
    forms = ({"day": "someday"}, {"since": "someday"}, {"sites": "PeepFinder"}, {"statuses": "removed"})
    unknown = ({"day": FIRST - timedelta(days=1)}, *({"user": one} for one in (999, "Zebedee", [1, 999])))
    for picked, error in (*((one, InvalidArgument) for one in forms), *((one, NotFound) for one in unknown)):
        with pytest.raises(error):
            dated.pick(**picked)
        assert (dated.day, dated.sites, dated.statuses, dated.users) == (None, (), (), ())
    with pytest.raises(NotFound, match="Nobody has this id or name"):
        dated.pick(user=999)
    assert len(dated.records) == len(kit.grid(dated).rows) == 11
    with pytest.raises(InvalidArgument, match="question is one of: by_user"):
        dated.ask("by_moon")
    with pytest.raises(InvalidArgument, match=r"blockers needs an exposure: Dashboard\(exposure, history\)"):
        dated.ask("blockers")
    with pytest.raises(InvalidArgument, match=r"; did you mean relistings\?"):
        dated.ask("relisting")
    assert dated.question == "by_user"
    with pytest.raises(InvalidArgument, match="a day needs a history"):
        dashboards["exposure"].pick(day="2026-03-01", sites=["PeepFinder"])
    assert (dashboards["exposure"].day, dashboards["exposure"].sites) == (None, ())


@pytest.mark.parametrize("dashboard", ["exposure"], indirect=True)
def test_unknown_person_is_reported_and_filters_nothing(dashboard):
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


def test_person_is_selected_by_name_while_typing(both):
    label = labels(both)[2]
    name = label.removesuffix(" (2)")
    box = kit.the(both, TextBox, "Person")
    assert label in box.options
    shared = next(part for part in name.split() if all(part in one for one in labels(both).values()))
    box.value = shared
    assert both.users == ()
    assert f"{len(box.options)} people match" in " ".join(kit.statuses(both))
    for typed in (label, label.lower(), " 2 "):
        box.value = typed
        assert both.users == (2,)
        assert box.value == typed
        assert name not in repr(both)
        box.value = shared
    both.pick(user=label)
    assert (both.users, box.value) == ((2,), label)
    with pytest.raises(InvalidArgument, match="people match this name: give the id"):
        both.pick(user=shared)
    assert both.users == (2,)


def test_text_matches_ids_and_names():
    people = People(
        {
            1: "José Doe (user 1)",
            12: "Ann Lee (user 12)",
            13: "Joann Leeson (user 13)",
            14: "Seán O\u2019Brien (user 14)",
            15: "Łucja-Ann Ørsted (user 15)",
        }
    )
    matching = {
        "12": [12],
        "1": [1],
        "jose": [1],
        "JOSÉ  doe": [1],
        "ann lee": [12],
        "lee": [12, 13],
        "Lee, Ann": [12],
        "doe,josé": [1],
        "Lee, MD": [],
        "Lee, 3rd": [],
        "sean o'brien": [14],
        "obrien": [14],
        "lucja ann orsted": [15],
        "x": [],
    }
    assert {typed: people.matching(typed) for typed in matching} == matching
    assert people.distinct_names([1, 12]) == ["José Doe", "Ann Lee"]
    twice = People({7: "Ann Lee (user 7)", 12: "Ann Lee (user 12)", 13: "13"})
    assert twice.distinct_names([12, 7, 13]) == ["Ann Lee (user 12)", "Ann Lee (user 7)", "13"]
    many = People({one: f"Jo Doe{one:04} (user {one})" for one in range(3 * COMPLETIONS_MAX)})
    assert len(many.completions("")) == COMPLETIONS_MAX
    assert many.completions("doe1499") == ["Jo Doe1499 (user 1499)"]
    assert many.matching("jo doe1499") == [1499]


QUESTIONS = {
    "exposure": {
        *("by_user", "user_by_site", "by_state", "by_kind", "blockers", "best_next_fields", "work_queue"),
        *("score", "missed"),
    },
    "history": {
        *("by_user", "user_by_site", "by_state", "by_kind", "changes", "time_to_removal", "survival"),
        *("relistings", "work_queue", "precision", "site_health", "forecast", "score", "score_changes"),
        *("declared_vs_observed", "missed"),
    },
}  # fmt: skip


@pytest.mark.long
def test_third_chart_answers_any_question(dashboards, subtests):
    of_history = QUESTIONS["history"]
    by_source = QUESTIONS | {"both": QUESTIONS["exposure"] | of_history}
    for source, questions in by_source.items():
        dashboard = dashboards[source]
        picker = kit.the(dashboard, Tabs)
        assert {value for *_, value in picker.options} == questions
        for question in sorted(questions - of_history if source == "both" else questions):
            with subtests.test(question, dashboard=repr(dashboard)):
                picker.value = question
                assert dashboard.error is None
                assert dashboard.question == question
                assert heads(dashboard)[-1].startswith(dashboard._drawn[-1].layout.meta["finding"])
                assert charts.describe(dashboard._drawn[-1]) in kit.Read(dashboard.to_html()).words
        dashboard.ask("by_user")


def test_a_failing_question_says_so_in_its_card(dated, monkeypatch):
    tabs, card = kit.the(dated, Tabs), dated._cards[-1]
    drawing = type(dated)._third_chart

    def fails(self):
        if self.question == "relistings":
            raise NotFound("the history has no such run")
        return drawing(self)

    monkeypatch.setattr(type(dated), "_third_chart", fails)
    tabs.value = "relistings"
    assert "This chart could not be drawn the history has no such run" in " ".join(
        kit.Read(card._head.value.replace("</strong>", " ")).words.split()
    )
    assert card.view not in card.children
    assert (tabs.displayed, dated.question, type(dated.error)) == ("relistings", "by_user", NotFound)
    tabs.value = "forecast"
    assert card.view in card.children
    assert (tabs.displayed, dated.question, dated.error) == ("forecast", "forecast", None)
    tabs.value = "no question"
    assert tabs.value == "forecast"


def test_charts_side_by_side_are_equally_tall(dated):
    first, second = (card.view.figure["layout"]["height"] for card in dated._cards[:2])
    assert first == second


def test_day_changes_the_chart_of_every_question(dated):
    now = {question: draw(question, dated._scope) for question in sorted(QUESTIONS["history"])}
    dated.pick(day=FIRST)
    for question, chart in now.items():
        of_day = draw(question, dated._scope)
        assert f"as of {FIRST}" in of_day.layout.meta["provenance"], question
        assert of_day.to_json() != chart.to_json(), question
    dated.ask("relistings")
    assert dated.error is None
    assert f"as of {FIRST}" in dated._source.value  # once, and not in each card
    assert "as of" not in "".join(heads(dated))


def test_chart_names_only_the_selections_it_follows(dated):
    dated.ask("time_to_removal")
    dated.pick(user=2, sites=["Thirdplace"])
    title = heads(dated)[-1]
    followed, _, ignored = title.partition("not filtered by ")
    assert "sites: Thirdplace" in followed
    assert "user 2" not in followed
    assert ignored.startswith("user 2")


def test_no_figure_offers_an_upload(both):
    for _ in range(2):
        for figure in figures(both):
            config = figure.figure["config"]
            assert charts.CONFIG.items() <= config.items()
            assert config["showSendToCloud"] is False
            assert config["plotlyServerURL"] == ""
        both.pick(user=1)


def test_browser_receives_a_whole_chart_and_plotly_once(sources, monkeypatch):
    """Plotly is more than a megabyte, and a chart asks for it by the version of its code."""
    messages, create = [], comm.create_comm
    monkeypatch.setattr(figure_widget, "_libraries", [])
    monkeypatch.setattr(
        comm, "create_comm", lambda **options: messages.append(options["data"]["state"]) or create(**options)
    )
    drawn = [figure for _ in range(2) for figure in figures(Dashboard(history=sources[1]))]
    states = [state for state in messages if "figure" in state]
    assert [len(state["figure"]["data"]) for state in states] == [len(figure.chart.data) for figure in drawn]
    heights = [state["figure"]["layout"]["height"] for state in states]
    assert heights == [figure.figure["layout"]["height"] for figure in drawn]
    assert all(charts.CONFIG.items() <= state["figure"]["config"].items() for state in states)
    assert {state["_library"] for state in states} == {f"IPY_MODEL_{drawn[0]._library.model_id}"}
    assert len({state["_version"] for state in states}) == 1
    assert sum(len(json.dumps(state, default=str)) > 1_000_000 for state in messages) == 1


def test_version_of_a_chart_is_of_all_its_code(monkeypatch):
    """A page may have charts of two kernels, one of them with newer code."""
    versions = [figure_widget._version.__wrapped__()]
    for name, value in (("_SCRIPT", "other"), ("_code", lambda: "other")):
        monkeypatch.setattr(figure_widget, name, value)
        versions.append(figure_widget._version.__wrapped__())
    assert len({*versions}) == 3


def test_browser_has_the_whole_chart_after_each_change(dated):
    """What a page opened later receives is the state, whatever messages it has missed."""
    [figure, *_] = figures(dated)
    before = figure.figure
    dated.pick(user=1)
    now = figure.get_state("figure")["figure"]
    assert now != before
    assert [trace["name"] for trace in now["data"]] == [trace.name for trace in figure.chart.data]
    assert figure.chart.layout.title.text
    assert "title" not in now["layout"]  # it stands above the chart


def test_clicks_of_another_form_do_nothing(dated):
    [figure, *_] = figures(dated)
    for content in (None, {}, {"row": "0"}, {"row": -1}, {"row": True}):
        kit.tell(figure, content)
    assert (dated.error, dated.sites) == (None, ())


def test_findings_name_people_as_the_axis_does():
    service = kit.three_people()
    service.people[2].records.append(a_record(29, "discovered", "Fourth"))
    with seen_through(service) as exposure:
        dashboard = Dashboard(exposure)
        [name, *_] = dashboard._drawn[-1].layout.yaxis.ticktext
        assert dashboard.question == "by_user"
        drawn = dashboard._drawn[-1]
        most = f"{name} has the most open listings: 3"
        assert most in heads(dashboard)[-1]
        assert most in charts.describe(drawn)
        assert most in title(drawn)
        assert drawn.data[0].customdata[0].startswith(f"{name}<br>")
        texts = charts.describe(drawn) + json.dumps(without_meta(figure_json(drawn)))
        assert not re.search(r"(?<!\()\buser \d", texts)
        assert "user 2 has the most" in repr(drawn)
        assert name not in repr(drawn)


def test_service_and_history_without_records_work(tmp_path):
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
        dashboard = Dashboard(history=kit.a_history(tmp_path, exposure, Clock()))
    dashboard.pick(day=FIRST, sites=["Gone"])
    assert dashboard.records.empty
    assert dashboard.error is None


def test_missing_wrong_and_empty_sources_raise_errors(tmp_path):
    for wrong in ({}, {"exposure": pd.DataFrame()}, {"exposure": "history"}, {"history": 7}):
        with pytest.raises(InvalidArgument, match="Give an exposure"):
            Dashboard(**wrong)
    for empty in ({"exposure": History(tmp_path / "nothing")}, {"history": History(tmp_path / "nothing")}):
        with pytest.raises(NotFound):
            Dashboard(**empty)


def test_static_html_says_once_that_there_is_nothing(tmp_path):
    with seen_through(kit.three_people()) as exposure:
        dashboard = Dashboard(kit.a_history(tmp_path, exposure, Clock()))
    dashboard.ask("relistings")
    assert kit.Read(dashboard.to_output_html()).words.count("No relistings") == 1


def metrics_of(dashboard):
    """The figures above the charts."""
    texts = [one.value for one in kit.within(dashboard) if isinstance(one, ipywidgets.HTML)]
    [markup] = [text for text in texts if '<ul class="metrics">' in text]
    values = re.findall(r'<span class="label">([^<]+)</span><strong>([^<]+)</strong>', markup)
    return dict(values), markup


def test_course_of_a_figure_begins_with_the_first_observation(sources):
    records, links = (getattr(sources[0], name)() for name in ("records", "links"))
    counts = pd.DataFrame({"total": [0, 4, 5], "people": [0, 2, 2], "unseen": 0, "open": [0, 4, 3]})
    assert measure(records, links, counts)[0].course == (4.0, 3.0)
    assert measure(records, links, counts.head(2))[0].course == ()


def test_figures_follow_the_selection(both, sources):
    figures, markup = metrics_of(both)
    exposure = sources[0]
    score = analysis.score(exposure.records(), exposure.links())["score"].sum()
    assert figures == {
        "Open listings": "7",
        "Removed": "3",
        "Pending removal": "0",
        "People exposed": "4",
        "Web pages": "3",
        "Score": f"{score:.0f}",
    }
    assert markup.count("<polyline") == 3
    pages = "points, with all these pages"
    both.pick(user=1)
    assert pages not in metrics_of(both)[1]
    facts = {fact.name: fact for fact in ek.report(exposure, sections=["by_site"]).facts}
    for name in ("open listings", "removed", "web pages", "score"):  # in the form that they have in a report
        assert figures[name.capitalize()] == facts[name].value
    for name in ("open listings", "removed"):
        assert f'<span class="label">{facts[name].line}</span>' in markup
    both.pick(user=1, sites=["Elsewhere"])
    figures, markup = metrics_of(both)
    assert pages in markup  # which no site has
    assert [figures[name] for name in ("Open listings", "Removed", "Web pages")] == ["0", "1", "1"]
    both.pick(statuses=["removed"])
    assert "<polyline" not in metrics_of(both)[1]  # the history counts all statuses


def test_title_counts_people_without_listings(tmp_path):
    """As the line below each chart does."""
    service, clock = kit.three_people(), Clock()
    service.people[2].records = []
    with seen_through(service) as exposure:
        history = History(tmp_path / "history", clock=clock)
        history.collect(exposure, progress=False)
        service.people[4] = Person([])
        clock.set(DAWN + timedelta(days=1))
        history.collect(exposure.refresh(), progress=False)
        titles = [
            re.sub("<.*?>", "", board._title.value)
            for board in (Dashboard(exposure), Dashboard(history), Dashboard(exposure, history))
        ]
        assert titles == ["Exposure of 4 people"] * 3
        board = Dashboard(exposure, history)
        board.pick(day=str(FIRST))
        assert "Exposure of 3 people" in board._title.value
        board.pick(user=[1, 2])
        assert "Exposure of 2 people" in board._title.value


def test_options_are_counted_under_the_other_filters(both):
    both.pick(sites=["PeepFinder"], statuses=["discovered"])
    statuses, sites = (
        {label: n for label, n, _ in kit.the(both, MultiSelect, name).items} for name in ("Statuses", "Sites")
    )
    assert statuses == {"discovered": 3, "removed": 0}
    assert sites == {"Elsewhere": 1, "PeepFinder": 3, "Thirdplace": 3}


def test_chart_without_data_displays_a_message(both):
    both.pick(sites=["PeepFinder"], statuses=["removed"], user=1)
    assert "Nothing matches the filters and the day." in kit.html_of(both)
    both.clear()
    assert "Nothing to draw" not in kit.html_of(both)
    both.ask("relistings")
    assert "No such event has been observed yet." in kit.html_of(both)


@pytest.mark.filterwarnings("ignore:16 of 25 people")
def test_headline_says_that_the_load_was_stopped():
    with stopped(16, 25) as exposure:
        board = Dashboard(exposure)
        assert "Exposure of 16 of 25 people: the load was stopped" in board._title.value
        assert replace(board._scope, users=(3,)).stopped == ""
