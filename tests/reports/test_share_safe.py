"""A share-safe report contains no personal value and no count of few people; a planted value is detected."""

import base64
import html
import itertools
import json
import re
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
from benchmarks import leak_search
from sharing import awkward_names, small_cells
from support.histories import DAWN, Clock, Person, Service, a_link, a_record, an_alert, seen_through
from support.report_sections import section_alone, statements
from support.shared_worlds import PEOPLE, STATUSES, a_world, leaked_values, reports_of

import exposurekit as ek
from exposurekit.analysis.manual_tasks import Task
from exposurekit.charts.theme import chart
from exposurekit.errors import Leak
from exposurekit.history import History
from exposurekit.privacy import pseudonyms
from exposurekit.privacy.normalize import words
from exposurekit.privacy.personal_data_search import PersonalDataSearch
from exposurekit.privacy.redaction import redacted
from exposurekit.privacy.vocabulary import is_common
from exposurekit.reports import leak_check
from exposurekit.reports.data import ReportSource
from exposurekit.reports.kinds import build_report, needed_tables
from exposurekit.reports.leak_check import _chart_texts
from exposurekit.reports.model import Fact, Removal
from exposurekit.reports.share_safe import FEW, FEW_HOSTS, FEW_SITES, sharing

NO_RECORDS = pd.DataFrame({"site": pd.Series(dtype="str"), "user_id": pd.Series(dtype="int64")})
NO_ALERTS = pd.DataFrame(columns=["user_id", "site", "guide", "opt_out_procedure"])


def boundary_of(records=NO_RECORDS, alerts=NO_ALERTS, **changes):
    return replace(sharing(pseudonyms.Pseudonyms(b"k" * 32), records, alerts), **changes)


def shared_table(table, **options):
    return boundary_of().table(table, **options)


@pytest.mark.long
def test_no_known_value_is_in_a_shared_report(tmp_path):
    service = a_world(0)
    reports = list(reports_of(service, tmp_path))
    assert len(reports) == 5
    assert leaked_values("".join(page + data for _, page, data in reports), service) == 0


@pytest.fixture(scope="module")
def world():
    return a_world(0)


@pytest.fixture(scope="module")
def exposure(world):
    with seen_through(world) as exposure:
        yield exposure


@pytest.fixture(scope="module")
def history(exposure, tmp_path_factory):
    with History(tmp_path_factory.mktemp("shared") / "history") as history:
        history.collect(exposure, progress=False)
        yield history


@pytest.fixture(scope="module")
def confidential(exposure):
    return ek.report(exposure)


@pytest.fixture(scope="module")
def shared(exposure):
    return ek.report(exposure, share_safe=True, rows=True)


@pytest.fixture(scope="module")
def without_rows(exposure):
    return ek.report(exposure, share_safe=True)


@pytest.fixture(scope="module")
def of_a_person(exposure):
    return ek.report(exposure, share_safe=True, user=3)


@pytest.fixture(scope="module")
def assert_shareable(exposure):
    boundary = sharing(pseudonyms.load_pseudonyms(), exposure.records(), exposure.alerts())
    return lambda report: leak_check.assert_shareable(report, boundary, exposure, None)


def section_of(report, key):
    return next(section for section in report.sections if section.key == key)


def small_and_large_sites(exposure):
    people = exposure.records().groupby("site", observed=True)["user_id"].nunique()
    return {*people.index[people < FEW]}, {*people.index[people >= FEW]}


@pytest.mark.filterwarnings("ignore:responses deviate:UserWarning")
@pytest.mark.parametrize("user", [None, 1])
def test_states_of_unknown_locations_are_unknown(user, tmp_path):
    """A web page has none, and a service may leave out those of a listing."""
    listings = [a_record(1, locations=None), a_record(2, locations=["Oakmere, CA"])]
    page = a_link("https://choir.example/members")
    service = Service({1: Person(listings, [page], [an_alert("A page", page)])})
    with seen_through(service) as exposure, History(tmp_path / "history", clock=Clock()) as history:
        history.collect(exposure, progress=False)
        report = ek.report(
            history, exposure=exposure, sections=["plan", "records"], share_safe=True, rows=True, user=user
        )
    assert sorted(report.table("records")["states"].fillna("unknown")) == ["CA", "unknown"]
    assert report.table("plan")["states"].isna().all()


def test_search_for_leaks_finds_them_in_a_confidential_report(confidential, world):
    assert leaked_values(confidential.to_html(), world) > 20


def test_page_titled_like_a_heading_blocks_nothing():
    world = a_world(3)
    next(iter(world.people.values())).links.append(a_link("https://page.example/1", "Manual work"))
    with seen_through(world) as exposure:
        assert ek.report(exposure, share_safe=True).sections


def test_report_says_at_its_top_who_may_see_it(confidential, shared):
    for report, first in ((shared, "Share-safe: you may pass"), (confidential, "Confidential: ")):
        assert report.notice.startswith(first)
        assert report.data["notice"] == report.notice
        assert report.data["share_safe"] is report.is_share_safe
        header = report.to_html().partition("<header>")[2].partition("</header>")[0]
        assert header.index(report.notice) < header.index("<h1>")
        assert report.notice in report._repr_html_()
    assert any("--share-safe" in one for code in confidential.code.values() for one in code)
    assert not shared.code


def test_only_a_confidential_page_saves_ticks(confidential, shared):
    words = ('<input type="checkbox" value=', ">Save ticks<")
    assert all(one in confidential.to_html() for one in words)
    assert not any(one in shared.to_html() for one in words)
    tasks = [task for section in shared.sections for work in section.removals for task in work.tasks]
    assert {task.item_key for task in tasks} == {None}


WAYS = {
    "unchanged": str,
    "in capitals": str.upper,
    "escaped in JSON": lambda value: "".join(f"\\u{ord(one):04x}" for one in value),
    "escaped in HTML": lambda value: "".join(f"&#{ord(one)};" for one in value),
    "as in a URL": lambda value: quote(value, safe=""),
    "in base64": lambda value: base64.b64encode(f"of {value} alone".encode()).decode(),
    "with tags between": lambda value: value.replace(" ", "</b> <i>"),
}


def values(exposure):
    """One value of each kind."""
    user = exposure.users().iloc[0]
    record = exposure.records().iloc[0]
    return {
        "name": f"{user['first_name']} {user['last_name']}",
        "name, last first": f"{user['last_name']}, {user['first_name']}",
        "email": exposure.emails()["address"].iloc[0],
        "phone": exposure.phone_numbers()["number"].iloc[0],
        "street": exposure.addresses()["address1"].iloc[0],
        "key": exposure.key(1).secret,
        "address of a page": record["href"],
        "reference": record["reference_id"],
        "alias": next(" ".join(one) for one in exposure.aliases()[["first_name", "last_name"]].to_numpy()),
        "relative": record["relations"][0],
        "birth date": f"{exposure.users()['birth_date'].dropna().iloc[0]:%B %d, %Y}",
        "title": exposure.links()["title"].iloc[0],
    }


def test_each_kind_of_value_is_detected_in_any_spelling(exposure):
    texts = {
        (kind, way): f"x {spell(value)} y"
        for kind, value in values(exposure).items()
        for way, spell in WAYS.items()
    }
    search = PersonalDataSearch(texts.values())
    leak_check.find_all(search, exposure, None)
    assert [key for key, text in texts.items() if text not in search.matching_texts] == []


def annotated(chart, value):
    return type(chart)(chart).add_annotation(text=value)


PLANTED = {  # what changes in a section when a value is planted in one of its parts
    "finding": lambda section, value: {"finding": f"{section.finding} {value}"},
    "text": lambda section, value: {"text": f"{section.text} {value}"},
    "points": lambda section, value: {"points": (*section.points, value)},
    "table": lambda section, value: section.table is not None and {"table": section.table.assign(site=value)},
    "chart": lambda section, value: section.figure and {"figure": annotated(section.figure, value)},
    "removals": lambda _, value: {"removals": (Removal(None, value, (), (), 1, 1, 1.0),)},
}


@pytest.mark.parametrize("part", PLANTED)
def test_value_planted_in_any_section_is_detected(exposure, shared, assert_shareable, part):
    value = values(exposure)["name"]
    changes = {section.key: PLANTED[part](section, value) or {} for section in shared.sections}
    sections = tuple(replace(section, **changes[section.key]) for section in shared.sections)
    with pytest.raises(Leak) as refused:
        assert_shareable(replace(shared, sections=sections))
    assert value not in str(refused.value)
    changed = {key for key, change in changes.items() if change}
    assert changed
    assert changed <= {*re.findall(r"\w+", str(refused.value))}


@pytest.mark.parametrize("part", ["title", "finding", "fact", "detail", "provenance"])
def test_value_planted_around_the_sections_is_detected(exposure, shared, assert_shareable, part):
    assert_shareable(shared)
    value = values(exposure)["email"]
    changes = {
        "title": {"title": value},
        "finding": {"finding": value},
        "fact": {"facts": (*shared.facts, Fact("open", "1", value))},
        "detail": {"facts": (*shared.facts, Fact("open", "1", detail=value))},
        "provenance": {"provenance": {"server": value}},
    }
    with pytest.raises(Leak):
        assert_shareable(replace(shared, **changes[part]))


def test_report_with_a_leak_is_not_written(tmp_path):
    world = a_world(1)
    name = "{first_name} {last_name}".format_map(world.people[1].profile)
    for person in world.people.values():
        person.records[0] |= {"site": f"{name} Finder"}
    with seen_through(world) as exposure, pytest.raises(Leak, match="was not written") as refused:
        ek.report(exposure, tmp_path / "shared.html", share_safe=True)
    assert name not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("title", ["Our targets", "{name}"])
def test_personal_data_in_an_own_section_names_the_section(exposure, shared, assert_shareable, title):
    name = values(exposure)["name"]
    own = ek.Section(title.format(name=name), text=f"Ask {name}.", key="ours")
    with pytest.raises(Leak, match="contains personal data in ") as refused:
        assert_shareable(replace(shared, sections=(*shared.sections, own)))
    assert name not in str(refused.value)
    assert ("your section 'Our targets'" in str(refused.value)) == (title == "Our targets")


def test_phone_number_in_the_array_of_a_chart_is_detected(exposure, shared, assert_shareable):
    digits = int(exposure.phone_numbers()["number"].iloc[0])
    section = next(section for section in shared.sections if section.figure is not None)
    chart = type(section.figure)(section.figure).add_scatter(x=np.array([1, digits]), y=np.array([1, 2]))
    with pytest.raises(Leak, match="phone"):
        assert_shareable(replace(shared, sections=(replace(section, figure=chart),)))


def test_every_text_is_searched_or_has_common_words_only(shared):
    searched = "\n".join(itertools.chain.from_iterable(leak_check.texts_by_section(shared).values()))
    page = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", "\n", shared.to_html(), flags=re.DOTALL)
    page = re.sub(r"\b[a-z2-7]{5}-[a-z2-7]{5}\b", "", page)  # pseudonyms
    texts = {text.strip() for text in html.unescape(page).splitlines()}
    unsearched = {text for text in texts if text not in searched}
    assert len(texts) > 2 * len(unsearched) > 0
    assert {word for text in unsearched for word in words(text) if not is_common(word)} == set()


@pytest.mark.parametrize("number", [12, 36])  # in 12, two sites have the names of people
def test_awkward_names_neither_block_nor_change_reports(number):
    counts = awkward_names.run(number)
    assert counts["reports"] == len(awkward_names.KINDS)
    assert counts["planted"] == 1
    assert counts["refused"] == counts["dependent"] == counts["leaks"] == 0


def test_leak_search_scales_to_many_listings(capsys):
    assert leak_search.main(["--records", "2000"]) == 0
    assert "ratio" in capsys.readouterr().out


def test_people_have_the_same_pseudonym_in_every_report(exposure, shared, of_a_person):
    names = pseudonyms.load_pseudonyms()
    every_name = {*map(names.of, exposure.users()["user_id"])}
    assert {*section_of(shared, "score").table["user_id"]} <= every_name
    assert of_a_person.title == f"Exposure of user {names.of(3)}"


def test_ages_are_decades_and_addresses_are_states(exposure, of_a_person):
    table = of_a_person.sections[0].table
    assert [*table.columns] == ["site", "status", "age", "states"]
    lower = exposure.records(3)["age"] // 10 * 10
    assert table["age"].tolist() == [f"{age}-{age + 9}" for age in lower]
    assert all(len(state) == 2 for state in table["states"])


def test_sites_of_few_people_share_one_row(exposure, shared):
    few, _ = small_and_large_sites(exposure)
    table = shared.sections[0].table
    assert few
    assert not few & {*table["site"]}
    assert table["site"].iloc[-1] == FEW_SITES
    assert pd.isna(table["people"].iloc[-1])
    assert table["total"].sum() == len(exposure.records())
    assert not any(site in shared.to_html() for site in few)


def test_only_steps_for_many_people_are_listed(shared):
    queue = section_of(shared, "work_queue")
    of_record, of_link = ("Open the form.", "Send it."), ("Open the listing.", "Choose remove.")
    assert {removal.steps for removal in queue.removals} == {of_record, of_link}
    tasks = [task for removal in queue.removals for task in removal.tasks]
    assert tasks
    assert all(task.person.startswith("user ") for task in tasks)
    assert not any(task.facts or task.entries or task.address or task.begin or task.user_id for task in tasks)


def test_field_that_few_people_lack_is_not_named(exposure):
    [blockers] = ek.report(exposure, share_safe=True, sections=["blockers"]).sections
    if blockers.table is None:
        assert blockers.text == f"Not shown: fewer than {FEW} people lack the same field."
    else:
        assert blockers.table.groupby("field")["user_id"].nunique().min() >= FEW


def test_shared_work_is_counted_per_person_without_checkboxes(shared):
    page = shared.to_html()
    assert '<input type="checkbox">' not in page
    for removal in section_of(shared, "work_queue").removals:
        assert all(f"{person}: {n}<" in page for person, n in removal.tasks_per_person)
        assert sum(n for _, n in removal.tasks_per_person) == len(removal.tasks)


def work_of(kind, hosts):
    """Rows of a work queue, all of one kind: (user, host, people, items of the host, minutes of the row)."""
    queue = pd.DataFrame(hosts, columns=["user_id", "group", "people", "items", "minutes"])
    site = pd.Series(None, queue.index, dtype="str")
    return queue.assign(kind=kind, site=site, items_per_minute=queue["items"] / 10)


LISTINGS = work_of(
    "listing",
    [
        (1, "a.example", 2, 4, 8.0),
        (2, "b.example", 1, 2, 4.0),
        (2, "b.example", 1, 2, 4.0),
        (3, "c.example", FEW, 30, 15.0),
        (4, "d.example", 2, 3, 0.0),
        (5, "e.example", 0, 0, 0.0),
        (6, None, 1, 1, 0.0),
    ],
)
PAGES = work_of(
    "page", [(1, "p.example", 4, 10, 6.0), (5, "q.example", FEW, 9, 6.0), (6, "r.example", 9, 9, 6.0)]
)


def test_hosts_with_few_people_are_merged_with_their_work():
    table = shared_table(LISTINGS)
    assert table["group"].tolist() == [*[FEW_HOSTS] * 3, "c.example", *[FEW_HOSTS] * 3]
    few = table[table["group"] == FEW_HOSTS]
    assert few["items"].unique().tolist() == [4 + 2 + 3 + 1]
    assert (few["items"] / few["items_per_minute"]).round(9).unique().tolist() == [8 + 8]
    assert few["minutes"].round(9).tolist() == [*[round(16 / 3, 9)] * 3, 0, 0, 0]
    assert few["people"].isna().all()
    table = shared_table(pd.concat([LISTINGS, PAGES], ignore_index=True))
    few = table[table["group"] == FEW_HOSTS]
    assert few.groupby("kind")["items"].unique().map(list).to_dict() == {"listing": [10], "page": [10 + 9]}
    # One host alone would follow from the total of its kind.
    assert table.loc[table["kind"] == "page", "group"].tolist() == [FEW_HOSTS, FEW_HOSTS, "r.example"]


def test_verdicts_on_sites_of_few_people_are_hidden(history):
    """Nor does a sentence count their outcomes, and nobody learns since when they wait."""
    section = section_alone("by_site", history, pseudonyms=pseudonyms.load_pseudonyms())
    outcomes = history.site_outcomes().set_index("site")
    *named, last = section.table["site"]
    verdicts = section.table["verdict"].tolist()
    assert last == FEW_SITES
    assert verdicts[:-1] == outcomes.loc[named, "verdict"].tolist()
    assert pd.isna(verdicts[-1])
    assert "waiting_since" not in section.table
    # A ranking of the named ones says so, and tells nothing about the others.
    assert "open. Most open listings of the named sites: " in section.finding
    assert not any(site in section.finding for site in outcomes.index.difference(named))
    without_relisting = (outcomes["not_listed_again"] > 0) & (outcomes["listed_again"] == 0)
    assert f"On {without_relisting[named].sum()} of {len(named)} sites" in statements(section)
    assert without_relisting.sum() > without_relisting[named].sum() > 0


def test_shared_work_queue_names_only_sites_of_many_people(exposure, shared):
    queue, (_, many) = shared.table("work_queue"), small_and_large_sites(exposure)
    named = {*queue["site"].dropna()} - {FEW_SITES}  # a page has none
    assert named
    assert named <= many


def test_shared_report_has_as_much_work_as_the_confidential_one(confidential, shared):
    # Which group is first may differ: a shared report joins the small ones.
    total = re.compile(r"\d+ items in all: [^.]+; about \d+ h( \d+ min)?")
    whole, shared_total = (
        total.search(section_of(report, "work_queue").text)[0] for report in (confidential, shared)
    )
    assert whole == shared_total
    assert confidential.half_hour.startswith("If you have 30 min, check and remove ")
    assert shared.half_hour == ""  # it has no list to work through


@pytest.fixture(scope="module")
def blocked(tmp_path_factory):
    """A history of eight people on two sites, on the first of which two removals failed, and on two of few people."""
    service = Service()
    for number in range(1, 9):
        *_, small = sites = ["Wall", "Gate", "Nook" if number < FEW else "Cave"]
        listed = [a_record(10 * number + at, site=site) for at, site in enumerate(sites)]
        steps = {site: [f"Open {site.lower()}.example/leave.", "Send it."] for site in sites}
        steps["Gate"].append("Write to them.")
        steps[small] += ["Write to them.", "Write again."]
        alerts = [an_alert("Listed", one) | {"opt_out_procedure": steps[one["site"]]} for one in listed]
        page = a_link(f"https://choir{number}.example/members")
        service.people[number] = Person(listed, [page], [*alerts, an_alert("A page", page)])
    with (
        seen_through(service) as exposure,
        History(tmp_path_factory.mktemp("blocked") / "history") as history,
    ):
        history.collect(exposure, progress=False)
        steps = history.steps()
        failed = steps[(steps["site"] == "Wall") & steps["user_id"].isin([1, 2])]
        history.tick(failed, "unable", note="the form wants a fax")
        yield history.pinned(), exposure


def order_of_work(report):
    """The sites of many people in the actions, the chart and the list, and whether they come later."""
    queue = section_of(report, "work_queue")
    actions = [
        (site[1], action.is_later)
        for action in report.actions
        if (site := re.search(r" on (Gate|Wall) by hand", action.text))
    ]
    names = [] if queue.figure is None else queue.figure.layout.yaxis.ticktext
    drawn = [name for name in names if "Gate" in name or "Wall" in name]
    listed = [(one.site, one.reason is not None) for one in queue.removals]
    return actions, drawn, [one for one in listed if one[0] in ("Gate", "Wall", None)]


def test_shared_work_has_the_order_of_the_confidential_one(blocked):
    """A site that refuses comes later in both; why may be about few people."""
    history, exposure = blocked
    own = ek.report(history, exposure=exposure)
    actions, drawn, listed = order_of_work(own)
    assert actions == [("Gate", False), ("Wall", True)]
    assert drawn == ["Gate", "Wall (later)"]
    [wall] = [action for action in own.actions if " on Wall " in action.text]
    assert "could not be done: the form wants a fax. " in wall.effect
    assert wall.effect.endswith(" The 2 marked unable are not included.")
    for rows in (False, True):
        shared = ek.report(history, exposure=exposure, share_safe=True, rows=rows)
        assert order_of_work(shared) == (actions, drawn if rows else [], listed)
        assert "fax" not in shared.to_html() + shared.to_json()
        assert "could not be done" not in shared.to_json()


def test_shared_report_on_a_person_names_sites_alike_everywhere(blocked):
    """A site or host is named if many people in the data were found there, though the figures are of one."""
    history, exposure = blocked
    report = ek.report(history, exposure=exposure, share_safe=True, user=3)
    queue, own = section_of(report, "work_queue"), ek.report(history, exposure=exposure, user=3)
    table, listed = queue.table.set_index("site"), {one.site: one for one in queue.removals}
    for site in ("Wall", "Gate"):
        assert table.loc[site, "group"] == f"{site.lower()}.example"
        assert table.loc[site, "minutes"] == round(listed[site].minutes)
        assert any(site in name for name in queue.figure.layout.yaxis.ticktext)
    assert table.loc[FEW_SITES, "group"] == FEW_HOSTS
    assert {*queue.table.loc[queue.table["site"].isna(), "group"]} == {FEW_HOSTS}
    page = report.to_html()
    assert not any(text in page for text in ("Nook", "nook.example", "choir3"))
    assert section_of(own, "work_queue").finding == queue.finding
    assert "wall.example" in page


def test_missing_field_of_one_person_is_not_named(exposure):
    named = {"sections": ["records", "blockers", "best_next_fields"]}
    with pytest.warns(UserWarning, match="a share-safe report has no such data$"):
        report = ek.report(exposure, share_safe=True, user=3, **named)
    assert [section.key for section in report.sections] == ["records"]
    assert "blockers" in [section.key for section in ek.report(exposure, user=3, **named).sections]


def test_server_is_not_named(shared, exposure):
    assert "server" not in shared.provenance
    assert exposure.client.config.base_url not in json.dumps(shared.data)


def test_order_reveals_nothing_to_a_reader_with_all_ids(tmp_path):
    world = a_world(3)
    ids = {number: 7 * number + number % 3 for number in world.people}
    world.people = {ids[number]: person for number, person in world.people.items()}
    with seen_through(world) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        first = history.last_run().finished_at
        for person in world.people.values():
            for record in person.records:
                record["status"] = "removed" if record["status"] != "removed" else "discovered"
        history.collect(exposure.refresh(), progress=False)
        shared = {"pseudonyms": pseudonyms.load_pseudonyms(), "has_rows": True}
        options = {name: {"exposure": exposure} for name in ("score", "work_queue")}
        options |= {name: {"since": first} for name in ("diff", "diff_by_site")}
        tables = {
            name: section_alone(name, history, **shared, **more).table for name, more in options.items()
        }
    id_of = {pseudonyms.load_pseudonyms().of(user_id): user_id for user_id in ids.values()}
    assert {"open_before", "new", "removed", "open_after"} <= {*tables["diff_by_site"]}
    for name in ("diff", "work_queue", "score"):
        order = tables[name]["user_id"].drop_duplicates()
        assert {*order} <= id_of.keys()
        assert not order.map(id_of).is_monotonic_increasing, name
    assert tables["diff"]["user_id"].is_monotonic_increasing  # in the order of pseudonyms
    assert tables["score"]["score"].is_monotonic_decreasing
    assert all(users.is_monotonic_increasing for _, users in tables["score"].groupby("score")["user_id"])
    assert tables["work_queue"]["rank"].tolist() == [*range(1, len(tables["work_queue"]) + 1)]


def test_counts_of_few_people_with_work_are_hidden(exposure, history, tmp_path):
    def work_on_pages(**options):
        names = pseudonyms.load_pseudonyms()
        work = section_alone("work_queue", history, pseudonyms=names, **options)
        return next(one for one in work.removals if one.site is None)

    steps = exposure.steps()
    of_pages = steps[steps["record_id"].isna()]
    users = of_pages["user_id"].unique()
    assert work_on_pages().people == len(users) >= FEW
    finished = of_pages[of_pages["user_id"].isin(users[FEW - 1 :])]
    history.tick(finished, "done")
    few, alone = work_on_pages(), work_on_pages(user=int(users[0]))
    with pytest.warns(UserWarning, match="0 rows"):
        text = ek.export(history, tmp_path / "queue.md").read_text()
    history.tick(finished, "open")
    assert (few.listings, few.people, few.minutes) == (None, None, None)
    assert alone.people == 1  # the title names this person
    assert "Open the listing." in text
    assert few.amount in text
    assert f"{FEW - 1} people" not in text


def test_shared_actions_do_not_count_what_they_leave_open():
    """Of eight listings one is pending removal; another might as well lack a value."""
    service = Service()
    for number in range(1, 9):
        record = a_record(number, "pending removal" if number == 8 else "discovered")
        service.people[number] = Person([record], [], [an_alert("Listed", record)])
    with seen_through(service) as exposure:
        own, shared = (ek.report(exposure, share_safe=is_shared).actions for is_shared in (False, True))
    assert own[0].text == "Remove 7 of 8 open listings on PeepFinder by hand"
    assert shared[0].text == "Remove 7 listings on PeepFinder by hand"


def test_combined_row_of_few_people_has_at_least_five():
    users = {"Larder": range(6), "Teapot": range(7), "Kettle": [6], "Bramble": [7]}
    rows = [(user_id, site, "discovered") for site, ids in users.items() for user_id in ids]
    records = pd.DataFrame(rows, columns=["user_id", "site", "status"])
    table = boundary_of(records).table(ek.analysis.by_site(records))
    assert table["site"].tolist() == ["Teapot", FEW_SITES]
    assert table["total"].tolist() == [7, 8]


def test_sums_of_a_table_reveal_no_hidden_site():
    """Small sites are one row, of at least two sites and five people, so a sum less the rows reveals no site."""
    users = {"Larder": range(6), "Teapot": range(7), "Kettle": [6], "Bramble": [7]}
    rows = [(user_id, site, "discovered") for site, ids in users.items() for user_id in ids]
    boundary = boundary_of(pd.DataFrame(rows, columns=["user_id", "site", "status"]))
    sites = pd.DataFrame({"site": [*users], "failed": [1, 2, 3, 4], "requested": [9, 9, 8, 7]})
    table = boundary.with_other_sites(sites)
    assert table.to_numpy().tolist() == [["Teapot", 2, 9], [FEW_SITES, 8, 24]]
    assert table["failed"].sum() == sites["failed"].sum()


def test_rows_of_people_are_left_out_by_default(exposure, shared, without_rows):
    keys = [section.key for section in shared.sections]
    assert [section.key for section in without_rows.sections] == keys
    score, of_people = section_of(without_rows, "score"), section_of(shared, "score")
    assert score.table.to_dict("records") == [of_people.totals]
    assert score.finding.startswith(f"{of_people.totals['score']} points in total: ")
    tables = [section.table for section in without_rows.sections if section.table is not None]
    assert tables
    assert not any("user_id" in table for table in tables)
    names, page = pseudonyms.load_pseudonyms(), without_rows.to_html()
    assert not any(names.of(user_id) in page for user_id in exposure.users()["user_id"])
    assert any("user_id" in section.table for section in shared.sections if section.table is not None)


def test_no_hidden_count_follows_from_sums_of_a_page():
    totals = sum(map(small_cells.page, range(12)), Counter())
    assert totals["with_hidden"] > 5
    assert totals["with_hidden_work"] > 5
    assert (totals["recovered"], totals["recovered_work"]) == (0, 0)


def test_attacker_recovers_a_count_that_a_total_reveals():
    records = small_cells.records_of(1)
    people = records.groupby("site")["user_id"].nunique()
    naive = boundary_of(records, sites=frozenset(people.index) - {people.idxmin()})
    assert people.min() < FEW
    assert small_cells.recovered(records, small_cells.removals_of(records, 1), naive)


def test_small_group_hides_a_second_one():
    """By the total of all listings, a single hidden group is what the others lack."""
    table = pd.DataFrame({"site": [*"abcd"], "n": [9, 2, 7, 30]})
    assert boundary_of(sites=frozenset("abcd")).table(table)["site"].tolist() == ["a", "d"]
    sizes = {"Crumbs": 4, "Heron": 15, "Bramble": 6}
    work = tuple(
        Removal(site, None, ("Ask.",), tuple(Task("user", site, user_id=one) for one in range(n)), n, n, n)
        for site, n in sizes.items()
    )
    texts = frozenset((site, None, ("Ask.",)) for site in sizes)
    published = boundary_of(sites=frozenset(sizes), texts=texts).removals(work, None)
    assert [one.listings for one in published] == [None, 15, None]
    assert small_cells.recovered_work(work, published) == set()
    naive = [replace(one, listings=6) if one.site == "Bramble" else one for one in published]
    assert small_cells.recovered_work(work, naive) == {str(("Crumbs", ("Ask.",)))}


def test_sections_explain_missing_figures_and_small_groups(exposure, history):
    options = {"exposure": exposure, "pseudonyms": pseudonyms.load_pseudonyms()}
    forecast, by_state = (section_alone(name, history, **options) for name in ("forecast", "by_state"))
    reasons = history.forecast()["reason"]
    assert reasons.notna().all()
    assert forecast.table["reason"].tolist() == reasons.tolist()
    people = exposure.records().exposure.by_state()["people"]
    assert (people < FEW).any()
    assert by_state.table is None or by_state.table["people"].min() >= FEW
    assert by_state.text.startswith("Not shown: ")


def test_reason_of_an_item_of_work_is_redacted(exposure):
    queue = ek.analysis.work_queue(exposure.steps()).assign(reason="the form asks for a passport")
    assert "reason" not in redacted(queue)


@pytest.mark.parametrize(
    ("people", "visible"),
    [
        ([9, 7, 4, 3, 2], ["S0", "S1"]),
        ([9, 7, 4], ["S0"]),  # one hidden row would follow from the total
        ([9, 7, 1, 1], ["S0"]),  # and so would two people
        ([9, 7], ["S0", "S1"]),
        ([4, 2], []),
    ],
)
@pytest.mark.parametrize(("name", "counted"), [("state", "listings"), ("kind", "links")])
def test_states_and_kinds_of_few_people_are_left_out(people, visible, name, counted):
    names = [f"S{number}" for number in range(len(people))]
    table = pd.DataFrame({name: pd.Series(names, dtype="str"), counted: [20] * len(people), "people": people})
    assert shared_table(table)[name].tolist() == visible
    assert len(shared_table(table, is_alone=True)) == len(table)


COVERAGE = pd.DataFrame(
    {
        "last_complete_load": ["within a day", "within a week", "within a month", "longer ago", "never"],
        "whole": [90, 8, 0, 0, 0],
        "partial": [0, 0, 0, 0, 0],
        "failed": [6, 0, 0, 0, 2],
        "missed": [0, 0, 0, 0, 0],
        "other": [0, 0, 0, 0, 0],
        "people": [96, 8, 0, 0, 2],
    }
)


def test_coverage_combines_rows_and_outcomes_of_few_people():
    table = shared_table(COVERAGE)
    loads = ["within a day", "within a week or never", "within a month", "longer ago"]
    assert table["last_complete_load"].tolist() == loads
    assert table["people"].tolist() == [96, 10, 0, 0]
    assert table[["whole", "failed", "other"]].to_numpy().tolist()[:2] == [[90, 6, 0], [0, 0, 10]]
    assert table.dtypes.equals(COVERAGE.dtypes)
    assert shared_table(COVERAGE.tail(2)).empty
    enough = COVERAGE.head(2)
    pd.testing.assert_frame_equal(shared_table(enough), enough)


def test_survival_curve_ends_before_few_are_followed():
    curve = pd.DataFrame(
        {
            "days": [0, 3, 5, 8, 9],
            "at_risk": [30, 20, 9, 4, 1],
            "removed": [8, 9, 3, 2, 1],
            "censored": [2, 2, 2, 1, 0],
            "survival": [0.7, 0.4, 0.3, 0.1, 0.0],
        }
    )
    # The 9 of day 5, less 3 and 2, are the 4 of day 8.
    assert shared_table(curve)["days"].tolist() == [0, 3]
    ends = curve.head(3).assign(censored=[2, 2, 6])
    assert shared_table(ends)["days"].tolist() == [0, 3, 5]


def test_matrix_names_neither_small_sites_nor_ids(exposure):
    report = ek.report(exposure, share_safe=True, rows=True, sections=["user_by_site"])
    few, many = small_and_large_sites(exposure)
    matrix, table = exposure.records().exposure.user_by_site(), report.table("user_by_site")
    named = {*table} - {FEW_SITES}
    assert named
    assert named <= many
    assert table.to_numpy().sum() == matrix.to_numpy().sum()
    id_of = {f"user {pseudonyms.load_pseudonyms().of(user_id)}": user_id for user_id in matrix.index}
    drawn = [*report.figure("user_by_site").layout.yaxis.ticktext]
    assert len(drawn) > FEW
    assert {*drawn} <= {*id_of}
    totals = matrix.loc[[id_of[name] for name in drawn]].sum(axis=1).tolist()
    assert totals == table.sum(axis=1).tolist()[: len(drawn)]
    assert not any(site in report.to_html() for site in few)


def history_of_removals(world, directory):
    """A history in which every listing is removed at times, and comes back."""
    clock = Clock()
    history = History(directory / "history", clock=clock)
    with seen_through(world) as exposure:
        for day in range(4):
            for person in world.people.values():
                for number, record in enumerate(person.records):
                    record["status"] = STATUSES[(day + number) % len(STATUSES)]
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
    return history


def test_sites_and_times_of_few_people_are_hidden(tmp_path):
    world = a_world(2)
    world.people = {number: person for number, person in world.people.items() if number < FEW}
    with history_of_removals(world, tmp_path) as history:
        assert history.time_to_removal()["n"].sum() >= FEW
        report = ek.report(history, share_safe=True, sections=["by_site", "time_to_removal"])
    by_site, times = report.sections
    assert {*by_site.table["site"]} == {FEW_SITES}
    assert "most on" not in report.finding
    assert (times.finding, times.text) == ("", f"Not shown: fewer than {FEW} listings per site.")
    assert PEOPLE > FEW


@pytest.fixture(scope="module")
def removals_history(tmp_path_factory):
    world = a_world(2)
    world.people[1].scanning = True
    with history_of_removals(world, tmp_path_factory.mktemp("removals")) as history:
        yield history


@pytest.fixture(scope="module")
def shared_removals(removals_history):
    sections = ["by_site", "coverage", "time_to_removal", "survival"]
    return ek.report(removals_history, share_safe=True, sections=sections)


@pytest.mark.parametrize(
    ("is_shared", "begin", "where"),
    [
        (
            False,
            "Of the 18.0 expected removals, none",
            "Gate (30 days declared), Nook (30 days declared) and Wall (30 days declared)",
        ),
        (True, "If all manual work is done now, no removal", "sites that declare 30 days or more"),
    ],
)
def test_outlook_of_a_shared_report_names_no_small_site(blocked, is_shared, begin, where):
    history, exposure = blocked
    shared = {"pseudonyms": pseudonyms.load_pseudonyms(), "has_rows": False}
    source = ReportSource(history, exposure=exposure, **(shared if is_shared else {}))
    data = source.load(needed_tables("fleet"))
    numbers = {"open": 35.2, "low": 24.0, "high": 48.0, "of_open": 30.4, "of_gone": 3.4, "of_new": 1.4}
    queue = data["work_queue"]
    parts = {
        "next_forecast": data["next_forecast"].assign(**numbers),
        "site_outcomes": data["site_outcomes"].assign(declared_days=30),
        "work_queue": queue[queue["site"].isin(["Gate", "Nook", "Wall"])].assign(success_rate=1.0),
    }
    report = build_report("fleet", replace(data, tables=data.tables | parts))
    assert (
        report.outlook
        == f"{begin} comes within 30 days (35 open listings then); about 18 come later, on {where}."
    )


def test_times_to_removal_state_omissions_and_confidence_level(removals_history, shared_removals):
    n, report = int(removals_history.time_to_removal(by=None)["n"].iloc[0]), shared_removals
    hidden = n - int(report.table("time_to_removal")["n"].sum())
    assert hidden >= FEW
    times, survival = (section_of(report, name) for name in ("time_to_removal", "survival"))
    assert f"They have {hidden} of {n} listings followed." in statements(times)
    [median] = [fact for fact in report.facts if fact.name == "half removed within"]
    assert f"of {n} listings found" in median.detail
    for section in (times, survival):
        assert "95% interval" in section.figure.layout.meta["summary"]


def test_declared_days_of_sites_with_few_requests_are_hidden(removals_history):
    answer = removals_history.declared_vs_observed()
    removals_history.declare_days(dict.fromkeys(answer["site"], 1.0))
    names = pseudonyms.load_pseudonyms()
    section = section_alone("declared_vs_observed", removals_history, pseudonyms=names)
    table = section.table
    assert (answer["n"] < FEW).any()
    assert (table["n"] >= FEW).all()
    assert {*table["site"]} < {*answer["site"]}
    assert "sites with fewer than" in statements(section)
    requested = answer["site"][(answer["n"] > 0) | (answer["left_out"] > 0)]
    hidden = len(requested) - requested.isin(table["site"]).sum()
    assert re.search(r"(\d+) more (?:is|are) left out because the report is shared\.$", section.text)[
        1
    ] == str(hidden)


def test_small_number_of_incomplete_people_is_hidden(removals_history, shared_removals):
    confidential, report = ek.report(removals_history, sections=["coverage"]), shared_removals
    assert confidential.facts[0].qualifier.startswith("1 of ")
    assert report.facts[0].qualifier.startswith(f"fewer than {FEW} of ")
    assert f"fewer than {FEW} not observed completely" in report.provenance["people"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:Sections are left out")
@pytest.mark.parametrize("seed", [1, 9])  # 4 and 12 people
def test_nothing_hidden_follows_from_built_reports(seed):
    assert small_cells.built(seed) == []


@pytest.mark.parametrize(
    "name",
    ["Odalys Quillfeather Fennimoor", "Odalys Quillfeather-Fennimoor-Bracegirdle", "Quillfeather" * 4],
)
def test_a_title_is_checked_across_its_lines(name):
    drawn = chart([], finding=f"A finding that names {name}, who is on many sites", summary="")
    drawn.layout.meta = None  # it has the finding in one line
    assert "<br>" in drawn.layout.title.text
    assert any(name in text for text in _chart_texts(drawn))
