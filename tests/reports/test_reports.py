"""Reports: what each kind says, as values and as one page that loads nothing and runs nothing but its own scripts."""

import base64
import hashlib
import json
import re
import stat
import sys
from dataclasses import replace
from datetime import timedelta
from html import unescape

import pandas as pd
import plotly.graph_objects as go
import pytest
from support import controls as kit
from support import hostile_demo
from support.histories import DAWN, Clock, Service, a_record, seen_through
from support.hostile_texts import PAYLOADS

import exposurekit as ek
from exposurekit import analysis
from exposurekit.analysis.removal_warnings import DOCUMENT, MAILBOX
from exposurekit.analysis.tasks import NO_VALUES, FormValue, Task
from exposurekit.analysis.work_queue import work_queue
from exposurekit.charts import describe
from exposurekit.errors import ConfigurationError, InvalidArgument, NotFound
from exposurekit.history import History
from exposurekit.reports import write
from exposurekit.reports.manual_steps import removals
from exposurekit.reports.model import ROWS_MAX, Removal
from exposurekit.text.sanitize import escaped

FIRST = DAWN.date()
KINDS = {
    "fleet": {},
    "person": {"user": 2},
    "changes": {"since": FIRST},
    "sites": {"kind": "sites"},
}


def collected_history(directory, service, days=4, broken=None):
    """An exposure of a service, and a history of some days in which somebody's listing goes and comes back."""
    clock = Clock()
    history = History(directory / "history", clock=clock)
    with seen_through(service) as exposure:
        for day in range(days):
            first = service.people[1].records
            first[0] |= {"status": "removed" if day in (1, 2) else "discovered"}
            clock.set(DAWN + timedelta(days=day))
            service.broken = broken or {} if day == days - 1 else {}
            history.collect(exposure.refresh(), progress=False)
        yield exposure.refresh(), history


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    yield from collected_history(tmp_path_factory.mktemp("looked"), kit.three_people())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A service of which every text is hostile."""
    service = Service()
    service.people = {number: hostile_demo.hostile(number, text) for number, text in enumerate(PAYLOADS, 1)}
    yield from collected_history(tmp_path_factory.mktemp("hostile"), service, days=2)


@pytest.fixture(scope="module")
def fleet(looked):
    """The report of everyone, of a history alone."""
    return ek.report(looked[1])


@pytest.fixture(scope="module")
def page(fleet):
    """Its page without its scripts, the scripts that run, and its data."""
    return page_of(fleet)


def page_of(report):
    html = report.to_html()
    running = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL)
    return re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL), running, data


# --- what it says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_asked_implies_the_kind(looked, kind):
    exposure, history = looked
    report = ek.report(history, exposure=exposure, **KINDS[kind])
    assert report.kind == kind
    assert report.finding.endswith(".")
    assert report.data == json.loads(report.to_json())
    assert len({section.key for section in report.sections}) == len(report.sections)


def test_a_fleet_is_told_in_the_order_of_need(looked):
    exposure, history = looked
    keys = [section.key for section in ek.report(history, exposure=exposure).sections]
    assert keys == [
        *(
            "by_site",
            "score",
            "status_over_time",
            "time_to_removal",
            "relistings",
            "blockers",
            "best_next_fields",
        ),
        *("work_queue", "coverage"),
    ]


def test_its_tables_are_those_of_the_questions(looked):
    exposure, history = looked
    sections = {section.key: section for section in ek.report(history, exposure=exposure).sections}
    pd.testing.assert_frame_equal(sections["by_site"].table, analysis.by_site(history.records()))
    pd.testing.assert_frame_equal(sections["time_to_removal"].table, history.time_to_removal())
    pd.testing.assert_frame_equal(sections["coverage"].table, history.coverage())
    score = sections["score"].table
    pd.testing.assert_frame_equal(score.drop(columns="person"), history.score())
    users = exposure.users().set_index("user_id")
    assert (
        score["person"].tolist()[0].split()
        == users.loc[score["user_id"][0], ["first_name", "last_name"]].tolist()
    )
    pd.testing.assert_frame_equal(
        sections["status_over_time"].table, history.status_over_time().drop(columns="at")
    )


def test_the_facts_are_counted(looked, fleet):
    facts = {fact.name: fact for fact in fleet.facts}
    assert facts["open listings"].value == "6"
    assert facts["open listings"].qualifier == "all 3 people were observed in the last run"
    assert facts["removed"].value == "3"
    assert facts["pages with their data"].value == "3"
    assert float(facts["score"].value) == looked[1].score()["score"].sum() > 0
    assert facts["removals by hand"].value == "3"


@pytest.mark.long
def test_who_was_not_seen_is_told_beside_the_figure(tmp_path):
    service = kit.three_people()
    for _, history in collected_history(tmp_path, service, days=2, broken={2: "no user"}):
        report = ek.report(history, kind="sites")
        assert report.facts[0].qualifier == "1 of 3 people were not observed completely in the last run"
        assert "1 not observed completely" in report.provenance["people"]


def test_a_figure_has_its_trend_and_its_weekly_change(tmp_path):
    service = kit.three_people()
    for _, history in collected_history(tmp_path, service, days=9):
        fact = next(fact for fact in ek.report(history).facts if fact.name == "open listings")
        n = history.status_over_time()["open"].tolist()
    assert fact.trend == tuple(n)
    assert fact.change == f"{abs(n[-1] - n[1])} in 7 days".rjust(
        len(fact.change), "±+\u2212"[(n[-1] > n[1]) - (n[-1] < n[1])]
    )
    assert fact.value == str(n[-1])


def test_the_next_actions_are_the_first_manual_work(looked):
    exposure, history = looked
    report = ek.report(history, exposure=exposure)
    [work] = [section for section in report.sections if section.key == "work_queue"]
    sites = [removal for removal in work.removals if removal.site]
    assert 1 <= len(report.actions) <= 3
    assert sites[0].site in report.actions[0].text
    assert f"Remove {sites[0].listings} listing" in report.actions[0].text
    assert report.actions[0].section == f"work_queue-{work.removals.index(sites[0]) + 1}"
    html = report.to_html()
    assert all(f'id="{action.section}"' in html for action in report.actions)


def test_a_section_of_the_callers_own_is_drawn_and_escaped(looked, tmp_path):
    figure = go.Figure(go.Bar(x=["<img src=x onerror=alert(1)>", "b"], y=[1, 2], name="<b>bold</b>"))
    own = ek.Section("Our <targets>", figure=figure, table=pd.DataFrame({"<i>": ["<script>"]}), text="<u>")
    report = ek.report(looked[1], sections=["by_site", own], title="Board <pack>")
    assert [section.key for section in report.sections] == ["by_site", "our_targets"]
    assert report.table("our_targets").equals(own.table)
    assert report.figure("our_targets").data[0].x[0] == "&lt;img src=x onerror=alert(1)&gt;"
    assert report.figure("our_targets").data[0].name == "<b>bold</b>"
    html, _, _ = page_of(report)
    assert "Our &lt;targets&gt;" in html
    assert "<h1>Board &lt;pack&gt;</h1>" in html
    assert '<td class="left">&lt;script&gt;</td>' in html
    with pytest.raises(NotFound, match="it has: by_site, our_targets"):
        report.table("by_moon")


def test_sections_of_one_title_are_told_apart(looked):
    own = [ek.Section(title, text=title) for title in ("Work queue", "Targets", "Targets")]
    report = ek.report(looked[1], sections=[*own, "work_queue"])
    keys = [section.key for section in report.sections]
    assert keys == ["work_queue_2", "targets", "targets_2", "work_queue"]


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ({"title": " "}, "needs a title"),
        ({"title": "Empty"}, "needs a figure, a table or a text"),
        ({"title": "Globe", "figure": go.Figure(go.Scattergeo())}, "cannot draw scattergeo"),
    ],
)
def test_a_section_that_cannot_be_drawn_is_refused(looked, section, problem):
    with pytest.raises(InvalidArgument, match=problem):
        ek.report(looked[1], sections=[ek.Section(**section)])


def test_a_logo_and_a_colour_are_inside_the_page(looked, tmp_path):
    (tmp_path / "logo.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    html = ek.report(looked[1], logo=tmp_path / "logo.svg", accent="#7a1f5c").to_html()
    assert '<img class="logo" src="data:image/svg+xml;base64,' in html
    assert 'style="--brand:#7a1f5c"' in html
    with pytest.raises(InvalidArgument, match="six hexadecimal digits"):
        ek.report(looked[1], accent="red;background:url(//x.example)")
    with pytest.raises(InvalidArgument, match=r"ends in \.png"):
        ek.report(looked[1], logo=tmp_path / "logo.html")


def test_a_person_is_told_alone(looked):
    exposure, history = looked
    for report in (ek.report(history, user=2, exposure=exposure), ek.report(exposure, user=2)):
        sections = {section.key: section for section in report.sections}
        assert len(sections["records"].table) == 3
        assert report.title == "Exposure of user 2"
        assert "pages.example/1" not in report.to_json()
        assert "pages.example/2" in report.to_json()


def test_what_changed_is_told_from_an_instant_on(looked):
    report = ek.report(looked[1], since=FIRST + timedelta(days=2))
    [why, counts, sites, points, things, _] = report.sections
    assert report.provenance["since"] == str(FIRST + timedelta(days=2))
    assert report.finding == "6 listings are open, 1 more than before."
    assert things.table["what"].tolist() == ["listed again"]
    assert why.table["open"].tolist()[-1] == 6
    assert points.table["score"].tolist()[-1] == looked[1].score()["score"].sum()
    assert counts.table["n"].tolist()[-1] == sites.table["open_after"].sum() == 6


def test_without_a_history_nothing_over_time_is_told(looked):
    keys = {section.key for section in ek.report(looked[0]).sections}
    assert keys == {"by_site", "score", "blockers", "best_next_fields", "work_queue", "failures"} & keys
    assert "status_over_time" not in keys


def test_without_an_exposure_what_is_on_file_is_unknown(fleet):
    [blockers] = [section for section in fleet.sections if section.key == "blockers"]
    assert "does not store what people have on file" in blockers.text
    assert blockers.table is None


def test_every_alert_that_needs_somebody_has_its_guide_and_steps(looked, fleet, page):
    _, history = looked
    [work] = [section for section in fleet.sections if section.key == "work_queue"]
    alerts = history.alerts()
    assert sum(removal.listings for removal in work.removals) == len(work.table) == 3
    steps = {tuple(alert) for alert in alerts["opt_out_procedure"] if len(alert)}
    assert {removal.steps for removal in work.removals} <= steps
    for removal in work.removals:
        assert all(f"<li>{step}</li>" in page[0] for step in removal.steps)


def test_alerts_that_ask_for_the_same_stand_together():
    alerts = pd.DataFrame(
        {
            "user_id": [1, 2, 3],
            "alert_number": [0, 0, 0],
            "site": ["A", "A", "A"],
            "guide": ["Free.", "Free.", None],
            "opt_out_procedure": [["Open it.", "Press it."], ["Open it.", "Press it."], []],
            "url": ["https://a.example/1", "https://a.example/2", None],
        }
    )
    queue = alerts.assign(state=["open", "started", "done"], minutes=[4.0, 2.0, 0.0])
    [removal] = removals(queue)
    assert (removal.listings, removal.people, removal.minutes) == (2, 2, 6.0)
    assert removal.steps == ("Open it.", "Press it.")
    assert [task.begin for task in removal.tasks] == ["https://a.example/1", "https://a.example/2"]
    assert removal.heading == "Same steps for 2 listings"
    [capped] = removals(queue, limit=1)
    assert (len(capped.tasks), capped.omitted, capped.listings) == (1, 1, 2)


def test_every_listing_has_a_checkbox_and_its_values(fleet):
    tasks = tuple(
        Task(
            f"Jo Doe (user {number})",
            "A",
            facts=(("Name as listed", "DOE JO"), ("Reference", f"000{number}")),
            address=f"https://a.example/{number}",
            entries=(FormValue("email", "jo@example.com", required=True), FormValue("phone_number", None)),
        )
        for number in range(500)
    )
    removal = Removal("A", None, ("Write.",), tasks, 500, 500, 9.0)
    [work] = [section for section in fleet.sections if section.key == "work_queue"]
    report = replace(fleet, sections=(replace(work, removals=(removal,)),))
    html = report.to_html()
    assert html.count('<input type="checkbox">') == 500
    assert all(f'<code class="unbroken">000{number}</code>' in html for number in range(500))
    assert html.count('<span class="label">email</span> <code class="unbroken">jo@example.com</code>') == 500
    assert '<span class="label">phone</span>' not in html  # none is on file, and the form does not require it
    assert "not on this page" not in html
    more = replace(report, sections=(replace(work, removals=(replace(removal, listings=900),)),)).to_html()
    assert "400 more are not on this page" in more


def page_with(fleet, *tasks):
    """The page of a report whose manual work is these tasks."""
    [work] = [section for section in fleet.sections if section.key == "work_queue"]
    removal = Removal(tasks[0].site, None, ("Open a.example/out and wait.",), tasks, len(tasks), 1, 9.0)
    return page_of(replace(fleet, sections=(replace(work, removals=(removal,)),)))[0]


def test_an_item_says_what_to_enter_and_what_is_missing(fleet):
    email = (
        FormValue("email", "a@example.com", True, is_first_choice=True),
        FormValue("email", "b@example.com", True, True),
    )
    ready = Task(
        "user 1",
        "A",
        facts=(("Name as listed", "DOE"),),
        entries=(*email, FormValue("phone_number", "555", is_first_choice=True)),
        cautions=("differs: age 74, on file 73",),
    )
    blocked = Task(
        "user 2", "A", facts=(("Name as listed", "ROE"),), entries=(FormValue("email", None, True),)
    )
    html = page_with(fleet, ready, blocked)
    assert '<span class="label">email (use this one)</span>' in html
    assert '<span class="label">or email</span>' in html
    assert "To enter (required):" in html
    assert "Also on file, only if the form asks:" in html
    assert '<p class="warning">differs: age 74, on file 73</p>' in html
    assert '<span class="label">phone (use this one)</span>' in html  # as in the checklist
    assert html.count('<p class="warning">Waits for a value: no email on file.') == 1
    assert html.count('class="task blocked"') == 1


def test_an_address_in_a_step_is_a_link(fleet):
    html = page_with(fleet, Task("user 1", "A"))
    assert '<li>Open <a href="https://a.example/out"' in html
    assert ">a.example/out</a> and wait.</li>" in html


def test_web_pages_are_grouped_by_host_with_their_values(fleet):
    values = (FormValue("name", "Jo Doe"), FormValue("email", "jo@example.com"))
    facts = (("Title of the page", "<script>x"), ("Contains", "email"))
    urls = ("https://a.example/jo?x=1", "https://b.example/", "https://a.example/2")
    html = page_with(
        fleet,
        *(
            Task("user 1", None, facts=facts, address=url, entries=values, cautions=("Suspicious page: x.",))
            for url in urls
        ),
    )
    assert re.findall(r'<li class="host"><strong>(.*?)</strong>', html) == ["a.example", "b.example"]
    assert re.findall(r">([^<]*)</a> <span", html.partition("<main>")[2]) == [
        "a.example/jo?x=1",
        "a.example/2",
        "b.example",
    ]
    assert html.count("On file; check which one is on the page.") == 1
    assert html.count(">On file: ") == 3
    assert "jo@example.com" in html
    assert "Jo Doe" not in html
    assert html.count("Suspicious page") == 3
    assert "&lt;script&gt;x" in html


def test_steps_that_need_the_person_say_so_once(fleet):
    [work] = [section for section in fleet.sections if section.key == "work_queue"]
    steps = ("Open the e-mail and click the link.", "Send a copy of a bill.")
    removal = Removal("A", None, steps, (Task("user 1", "A"), Task("user 2", "A")), 2, 2, 9.0)
    html = page_of(replace(fleet, sections=(replace(work, removals=(removal,)),)))[0]
    assert [unescape(html).count(text) for text in (MAILBOX, DOCUMENT)] == [1, 1]


def test_items_that_cannot_start_come_last():
    values = (["email: not on file"], ["email: jo@example.com"])
    rows = [
        {"user_id": number, "form_values": form_values}
        | {"alert_number": 0, "site": "A", "guide": None, "opt_out_procedure": ["Write."], "url": None}
        | {"user_fields_required_for_removal": ["email"], "state": "open", "minutes": 2.0}
        for number, form_values in enumerate(values, 1)
    ]
    steps = pd.DataFrame(rows).assign(step="Write.", step_number=1, status="discovered")
    ready, waiting = removals(work_queue(steps.assign(record_id=steps["user_id"])))
    assert [(one.tasks[0].user_id, one.reason) for one in (ready, waiting)] == [
        (2, None),
        (1, "email is not on file"),
    ]
    assert "Reason to wait: email is not on file." in waiting.amount
    assert waiting.tasks[0].missing_values == ("email",)


def test_a_single_value_has_a_sentence_and_no_chart(looked):
    exposure, history = looked
    for section in ek.report(history, exposure=exposure).sections:
        if section.key in ("blockers", "best_next_fields") and section.rows == 1:
            assert section.figure is None
            assert section.finding


def test_people_are_named_where_the_report_may(looked):
    exposure, history = looked
    [score] = [
        section for section in ek.report(history, exposure=exposure).sections if section.key == "score"
    ]
    [alone] = [section for section in ek.report(history).sections if section.key == "score"]
    user = exposure.users().iloc[0]
    assert (
        f"{user['first_name']} {user['last_name']} ({user['user_id']})" in score.figure.layout.yaxis.ticktext
    )
    assert f"user {user['user_id']}" in alone.figure.layout.yaxis.ticktext


def test_without_data_on_file_a_report_says_how_to_load(looked):
    _, history = looked
    assert NO_VALUES in page_of(ek.report(history))[0]


def test_a_card_separates_a_figure_from_its_note(fleet):
    assert "0 removed" not in fleet._repr_html_()
    assert f"{fleet.facts[0].value} \u00b7 {fleet.facts[0].qualifier}" in fleet._repr_html_()


def test_status_over_time_has_one_column_of_time(fleet):
    [section] = [one for one in fleet.sections if one.key == "status_over_time"]
    assert [name for name in ("period", "at") if name in section.table] == ["period"]


def test_the_name_of_a_site_stays_on_one_line(looked):
    report = ek.report(looked[0], kind="sites")
    assert re.search(r'<td class="unbroken left">[A-Z][a-z]+', report.to_html())


def test_a_long_table_says_how_much_more_there_is():
    service = Service()
    service.people[1] = kit.three_people().people[1]
    service.people[1].records = [a_record(number, site=f"Site {number}") for number in range(ROWS_MAX + 5)]
    with seen_through(service) as many:
        report = ek.report(many)
    [by_site] = [section for section in report.sections if section.key == "by_site"]
    assert (len(by_site.table), by_site.rows) == (ROWS_MAX, ROWS_MAX + 5)
    assert f"the first {ROWS_MAX} of 2,005" in page_of(report)[0]


@pytest.mark.parametrize(
    "options",
    [
        {"kind": "moon"},
        {"kind": "changes"},
        {"kind": "person"},
        {"kind": "fleet", "since": FIRST},
        {"kind": "sites", "user": 2},
        {"kind": "changes", "user": 2, "since": FIRST},
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(looked, options):
    with pytest.raises(InvalidArgument):
        ek.report(looked[1], **options)


def test_wrong_sources_and_unknown_users_are_refused(looked, tmp_path):
    with pytest.raises(InvalidArgument, match="an Exposure or a History"):
        ek.report(pd.DataFrame())
    with pytest.raises(NotFound):
        ek.report(looked[1], user=99)
    with pytest.raises(NotFound):
        ek.report(History(tmp_path / "nothing"))
    with pytest.raises(InvalidArgument, match="An exposure has no past"):
        ek.report(looked[0], since=FIRST)


def test_nobody_is_a_report_too():
    with seen_through(Service()) as exposure:
        report = ek.report(exposure)
    assert report.finding == "No listing is open, of 0 that were found."
    assert report.to_html()


# --- the page ---------------------------------------------------------------------------------------------


def test_the_policy_names_each_script_by_its_hash(page):
    html, running, _ = page
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html).group(1).replace("&#39;", "'")
    own = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in running]
    assert re.findall(r"'sha256-([^']*)'", policy) == own
    assert len(own) == 3
    for rule in ("default-src 'none'", "connect-src 'none'", "base-uri 'none'", "form-action 'none'"):
        assert rule in policy


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_text_from_outside_runs_nothing(hostile, kind):
    exposure, history = hostile
    html, running, data = page_of(ek.report(history, exposure=exposure, **KINDS[kind]))
    assert len(running) == 3
    assert not any("<" in one for one in data)
    body = html[html.index("<body ") :]
    read = kit.Read("")
    read.feed(body)
    allowed = {"body", "header", "nav", "main", "article", "h1", "h2", "h3", "dl", "dt", "dd", "span", "html"}
    allowed |= {"details", "summary", "label", "input", "dfn", "svg", "polygon", "polyline", "progress", "em"}
    named = {
        "class",
        "role",
        "open",
        "type",
        "title",
        "id",
        "aria-labelledby",
        "aria-describedby",
        "aria-label",
        "tabindex",
        "data-name",
        "data-report",
    }
    assert {one for one in read.foreign if one not in allowed | named and not one.startswith("#")} == set()


def test_nothing_is_loaded_from_outside(page):
    assert not re.search(r"<(?:link|img|iframe|object|embed|script src)", page[0])
    assert not re.search(r'src="|@import|url\(', page[0])


def test_no_chart_offers_an_upload(page):
    _, _, data = page
    drawn = [chart for chart in map(json.loads, data) if isinstance(chart, dict)]
    assert len(drawn) >= 5
    for chart in drawn:
        assert chart["config"]["showSendToCloud"] is False
        assert chart["config"]["plotlyServerURL"] == ""


def test_every_chart_has_its_text(fleet, page):
    drawn = [section for section in fleet.sections if section.figure is not None]
    assert len(drawn) >= 5
    for section in drawn:
        assert f'id="{section.key}-chart" role="group"' in page[0]
        assert f'aria-describedby="{section.key}-description"' in page[0]
        assert f">{escaped(describe(section.figure))}</p>" in page[0]
        assert section.finding


def test_the_same_gives_the_same_bytes(looked, fleet):
    assert ek.report(looked[1]).to_html() == fleet.to_html()


def test_the_first_chart_is_drawn_before_the_tables_are_read(fleet):
    html = fleet.to_html()
    assert html.index("draw(places()[0])") < html.index("<table>")


def test_a_page_without_a_chart_holds_no_bundle(looked):
    bare = replace(ek.report(looked[1]), sections=())
    html, running, _ = page_of(bare)
    assert len(running) == 1
    assert html.count("sha256-") == 1
    assert len(bare.to_html()) < 50_000


def test_each_csv_is_inside_and_is_the_table(fleet, page):
    _, _, data = page
    tables = [section.table for section in fleet.sections if section.table is not None]
    csv_texts = [one for one in map(json.loads, data) if isinstance(one, str)]
    assert [csv.count("\n") - 1 for csv in csv_texts] == [len(table) for table in tables]
    assert csv_texts[0].splitlines()[0] == ",".join(tables[0].columns)


# --- the file ---------------------------------------------------------------------------------------------


def test_a_file_is_whole_and_for_its_owner(looked, tmp_path):
    path = tmp_path / "fleet.html"
    report = ek.report(looked[0], path)
    assert path.read_text("utf-8") == report.to_html()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [path]


def test_an_unwritable_file_is_an_error_and_leaves_nothing(looked, tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be written"):
        ek.report(looked[0], tmp_path / "nowhere" / "fleet.html")
    (tmp_path / "taken.html").mkdir()
    with pytest.raises(ConfigurationError, match="cannot be written"):
        ek.report(looked[0], tmp_path / "taken.html")
    with pytest.raises(InvalidArgument, match=r"must end in \.html, \.htm or \.pdf: .*fleet\.docx"):
        ek.report(looked[0], tmp_path / "fleet.docx")
    assert [one.name for one in tmp_path.iterdir()] == ["taken.html"]


@pytest.mark.parametrize(
    "moment", [("c_return", "open"), ("c_call", "write"), ("c_call", "replace")], ids=" ".join
)
def test_an_interrupted_write_leaves_nothing(tmp_path, moment):
    file, files = tmp_path / "page.html", []

    def stopping(_, event, called):
        if (event, getattr(called, "__name__", "")) == moment:
            files.extend(tmp_path.iterdir())
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(stopping)
    try:
        with pytest.raises(KeyboardInterrupt):
            write(file, b"Juniper")
    finally:
        sys.setprofile(before)
    assert len(files) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_alert_of_a_page_is_told_as_one(tmp_path):
    service = kit.three_people()
    service.people[1].alerts[1] |= {"opt_out_procedure": ["Write to the webmaster."]}
    with seen_through(service) as exposure:
        html, *_ = page_of(ek.report(exposure))
    assert "<h3>Web pages</h3>" in html
    assert "<li>Write to the webmaster.</li>" in html


def test_finished_rows_of_the_manual_work_are_named(tmp_path):
    with seen_through(kit.three_people()) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
        first = history.steps().groupby(["user_id", "alert_number"]).ngroup() == 0
        history.tick(history.steps()[first], "done")
        [work] = [one for one in ek.report(history, exposure=exposure).sections if one.key == "work_queue"]
    n_open = sum(removal.listings for removal in work.removals)
    assert work.rows == n_open + 1
    assert work.text.endswith("The table below also has 1 done.")


def test_text_stands_left_and_a_flag_is_yes_or_no(fleet):
    """Numbers stand right, below each other."""
    table = pd.DataFrame({"user_id": [1], "site": ["A"], "is_profile_field": [True], "n": [7]})
    section = replace(fleet.sections[0], table=table, rows=1)
    html = replace(fleet, sections=(section,)).to_html()
    assert '<td class="unbroken left">A</td><td class="left">yes</td><td class="unbroken">7</td>' in html
    assert re.search(r'<th scope="col" class="left"[^>]*>site</th>', html)
