"""What is shared tells nobody: no value that is known, no small group; and a value that is planted is found."""

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
from support.histories import DAWN, Clock, a_link, seen_through
from support.shared_worlds import PEOPLE, STATUSES, a_world, leaked_values, reports_of

import exposurekit as ek
from exposurekit.analysis.tasks import Task
from exposurekit.errors import Leak
from exposurekit.history import History
from exposurekit.privacy import pseudonyms
from exposurekit.privacy.detector import PersonalDataSearch
from exposurekit.privacy.normalize import words
from exposurekit.privacy.redaction import redacted
from exposurekit.privacy.vocabulary import is_common
from exposurekit.reports import leak_check
from exposurekit.reports.model import Fact, Removal
from exposurekit.reports.share_safe import FEW, FEW_HOSTS, FEW_SITES, sharing

SEEDS = range(2)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_no_known_value_is_in_a_shared_report(seed, tmp_path):
    service = a_world(seed)
    reports = list(reports_of(service, tmp_path))
    assert len(reports) == 5
    assert {kind: leaked_values(page + data, service) for kind, page, data in reports} == dict.fromkeys(
        (kind for kind, _, _ in reports), 0
    )


NOBODY = (
    pd.DataFrame({"site": pd.Series(dtype="str"), "user_id": pd.Series(dtype="int64")}),
    pd.DataFrame(columns=["user_id", "site", "guide", "opt_out_procedure"]),
)


@pytest.fixture(scope="module")
def world():
    return a_world(0)


@pytest.fixture(scope="module")
def exposure(world):
    with seen_through(world) as exposure:
        yield exposure


@pytest.fixture(scope="module")
def shared(exposure):
    return ek.report(exposure, share_safe=True, rows=True)


def test_the_search_of_the_tests_finds_what_is_not_shared(exposure, world):
    assert leaked_values(ek.report(exposure).to_html(), world) > 20


def test_a_page_titled_like_a_heading_blocks_nothing():
    world = a_world(3)
    first = next(iter(world.people.values()))
    first.links.append(a_link("https://page.example/1", "Manual work"))
    with seen_through(world) as exposure:
        assert ek.report(exposure, share_safe=True).sections


def test_a_report_says_at_its_top_who_may_see_it(exposure, shared):
    for report, first in ((shared, "Share-safe: you may pass"), (ek.report(exposure), "Confidential: ")):
        assert report.notice.startswith(first)
        assert report.data["notice"] == report.notice
        assert report.data["share_safe"] is report.is_share_safe
        header = report.to_html().partition("<header>")[2].partition("</header>")[0]
        assert header.index(report.notice) < header.index("<h1>")
        assert report.notice in report._repr_html_()
    assert "--share-safe" in ek.report(exposure).notice


# --- what is planted is found ------------------------------------------------------------------------------

WAYS = {
    "as it stands": str,
    "in capitals": str.upper,
    "escaped in JSON": lambda value: "".join(f"\\u{ord(one):04x}" for one in value),
    "escaped in HTML": lambda value: "".join(f"&#{ord(one)};" for one in value),
    "as in an address": lambda value: quote(value, safe=""),
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


@pytest.mark.parametrize("way", WAYS)
def test_each_kind_of_value_is_found_however_it_is_written(exposure, way):
    texts = {kind: f"x {WAYS[way](value)} y" for kind, value in values(exposure).items()}
    search = PersonalDataSearch(texts.values())
    leak_check.find_all(search, exposure, None)
    assert [kind for kind, text in texts.items() if text not in search.matching_texts] == []


def planted(report, section, where, value):
    """The report with a value in one part of one section."""
    if where in ("finding", "text"):
        changed = replace(section, **{where: f"{getattr(section, where)} {value}"})
    elif where == "table":
        changed = replace(section, table=section.table.assign(site=value))
    elif where == "chart":
        chart = type(section.figure)(section.figure)
        changed = replace(section, figure=chart.add_annotation(text=value))
    else:
        changed = replace(section, removals=(Removal(None, value, (), (), 1, 1, 1.0),))
    return replace(report, sections=tuple(changed if one is section else one for one in report.sections))


def test_a_value_planted_in_any_section_is_detected(exposure, shared):
    boundary = sharing(pseudonyms.load_pseudonyms(), exposure.records(), exposure.alerts())
    leak_check.assert_shareable(shared, boundary, exposure, None)
    value, detected = values(exposure)["name"], []
    for section in shared.sections:
        parts = {
            "finding": True,
            "text": True,
            "table": section.table is not None,
            "chart": section.figure is not None,
            "removals": True,
        }
        for where in (part for part, is_there in parts.items() if is_there):
            with pytest.raises(Leak) as refused:
                leak_check.assert_shareable(planted(shared, section, where, value), boundary, exposure, None)
            assert value not in str(refused.value)
            assert section.key in str(refused.value)
            detected.append((section.key, where))
    assert len(detected) > 2 * len(shared.sections)


@pytest.mark.parametrize("part", ["title", "finding", "fact", "provenance"])
def test_what_is_planted_around_the_sections_is_found(exposure, shared, part):
    value = values(exposure)["email"]
    changed = {
        "title": {"title": value},
        "finding": {"finding": value},
        "fact": {"facts": (*shared.facts, Fact("open", "1", value))},
        "provenance": {"provenance": {"server": value}},
    }
    boundary = sharing(pseudonyms.load_pseudonyms(), exposure.records(), exposure.alerts())
    with pytest.raises(Leak):
        leak_check.assert_shareable(replace(shared, **changed[part]), boundary, exposure, None)


def test_a_report_that_would_tell_is_not_written(tmp_path, world):
    told_to_all = a_world(1)
    name = "{first_name} {last_name}".format_map(told_to_all.people[1].profile)
    for person in told_to_all.people.values():
        person.records[0] |= {"site": f"{name} Finder"}
    with seen_through(told_to_all) as exposure, pytest.raises(Leak, match="was not written") as refused:
        ek.report(exposure, tmp_path / "shared.html", share_safe=True)
    assert name not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_phone_number_in_a_charts_array_is_found(exposure, shared):
    digits = int(exposure.phone_numbers()["number"].iloc[0])
    section = next(section for section in shared.sections if section.figure is not None)
    chart = type(section.figure)(section.figure).add_scatter(x=np.array([1, digits]), y=np.array([1, 2]))
    report = replace(shared, sections=(replace(section, figure=chart),))
    boundary = sharing(pseudonyms.load_pseudonyms(), exposure.records(), exposure.alerts())
    with pytest.raises(Leak, match="phone"):
        leak_check.assert_shareable(report, boundary, exposure, None)


def test_every_text_is_searched_or_has_common_words_only(shared):
    searched = "\n".join(itertools.chain.from_iterable(leak_check.texts_by_section(shared).values()))
    page = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", "\n", shared.to_html(), flags=re.DOTALL)
    page = re.sub(r"\b[a-z2-7]{5}-[a-z2-7]{5}\b", "", page)  # pseudonyms
    texts = {text.strip() for text in html.unescape(page).splitlines()}
    unsearched = {text for text in texts if text not in searched}
    assert len(texts) > 2 * len(unsearched) > 0
    assert {word for text in unsearched for word in words(text) if not is_common(word)} == set()


@pytest.mark.parametrize("number", [0, 12, 23, 29, 36, 43])
def test_an_awkward_name_holds_no_report_up(number):
    counts = awkward_names.run(number)
    assert counts["reports"] == len(awkward_names.KINDS)
    assert counts["refused"] == counts["dependent"] == counts["leaks"] == 0


def test_the_search_runs_over_many_listings(capsys):
    assert leak_search.main(["--records", "2000"]) == 0
    assert "ratio" in capsys.readouterr().out


# --- what it tells instead ---------------------------------------------------------------------------------


def test_people_have_the_same_pseudonym_in_every_report(exposure, shared):
    called = {pseudonyms.load_pseudonyms().of(user_id) for user_id in exposure.users()["user_id"]}
    scores = next(section for section in shared.sections if section.key == "score").table
    assert set(scores["user_id"]) <= called
    assert (
        ek.report(exposure, share_safe=True, user=3).title
        == f"Exposure of user {pseudonyms.load_pseudonyms().of(3)}"
    )


def test_ages_are_decades_and_places_are_states(exposure):
    report = ek.report(exposure, share_safe=True, user=3)
    table = report.sections[0].table
    whole = exposure.records(3)
    assert [*table.columns] == ["site", "status", "age", "states"]
    lower = whole["age"] // 10 * 10
    assert table["age"].tolist() == [f"{age}-{age + 9}" for age in lower]
    assert all(len(state) == 2 for state in table["states"])


def test_sites_of_few_people_do_not_stand_alone(exposure, shared):
    people = exposure.records().groupby("site", observed=True)["user_id"].nunique()
    few = set(people.index[people < FEW])
    assert few
    table = shared.sections[0].table
    assert not few & set(table["site"])
    assert table["site"].iloc[-1] == FEW_SITES
    assert pd.isna(table["people"].iloc[-1])
    assert table["total"].sum() == len(exposure.records())
    assert not any(site in shared.to_html() for site in few)


def test_steps_stand_there_where_many_are_told_the_same(shared):
    queue = next(section for section in shared.sections if section.key == "work_queue")
    assert queue.removals
    of_record, of_link = ("Open the form.", "Send it."), ("Open the listing.", "Choose remove.")
    assert {removal.steps for removal in queue.removals} == {of_record, of_link}
    tasks = [task for removal in queue.removals for task in removal.tasks]
    assert tasks
    assert all(task.person.startswith("user ") for task in tasks)
    assert not any(task.facts or task.entries or task.address or task.begin or task.user_id for task in tasks)


def test_a_field_that_few_people_lack_is_not_named(shared):
    blockers = next(section for section in shared.sections if section.key == "blockers")
    table = blockers.table
    if table is None:
        assert blockers.text == f"Not shown: fewer than {FEW} people lack the same field."
    else:
        assert table.groupby("field")["user_id"].nunique().min() >= FEW


def test_shared_work_is_counted_per_person_without_boxes(shared):
    page = shared.to_html()
    queue = next(section for section in shared.sections if section.key == "work_queue")
    assert '<input type="checkbox">' not in page
    for removal in queue.removals:
        for person, n in removal.tasks_per_person:
            assert f"{person}: {n}<" in page
        assert sum(n for _, n in removal.tasks_per_person) == len(removal.tasks)


def shared_table(table):
    return sharing(pseudonyms.Pseudonyms(b"k" * 32), *NOBODY).table(table)


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


def test_places_with_few_people_are_merged_with_their_work():
    told = shared_table(LISTINGS)
    assert told["group"].tolist() == [*[FEW_HOSTS] * 3, "c.example", *[FEW_HOSTS] * 3]
    few = told[told["group"] == FEW_HOSTS]
    assert few["items"].unique().tolist() == [4 + 2 + 3 + 1]
    assert (few["items"] / few["items_per_minute"]).round(9).unique().tolist() == [8 + 8]
    # None tells how many share its place.
    assert few["minutes"].round(9).tolist() == [*[round(16 / 3, 9)] * 3, 0, 0, 0]
    assert few["people"].isna().all()


def test_listings_and_pages_at_small_places_are_merged_apart():
    told = shared_table(pd.concat([LISTINGS, PAGES], ignore_index=True))
    few = told[told["group"] == FEW_HOSTS]
    assert few.groupby("kind")["items"].unique().map(list).to_dict() == {"listing": [10], "page": [10 + 9]}
    # One place alone would follow from the total of its kind.
    assert told.loc[told["kind"] == "page", "group"].tolist() == [FEW_HOSTS, FEW_HOSTS, "r.example"]


def test_a_shared_work_queue_names_the_sites_of_many_people(exposure, shared):
    queue, records = shared.table("work_queue"), exposure.records()
    people = records.groupby("site", observed=True)["user_id"].nunique()
    is_listing = queue["kind"] == "listing"
    assert queue.loc[is_listing, "site"].notna().all()
    assert queue.loc[~is_listing, "site"].isna().all()
    named = {*queue.loc[is_listing, "site"]} - {FEW_SITES}
    assert named
    assert named <= {*people.index[people >= FEW]}


def test_what_is_shared_tells_of_as_much_work(exposure, shared):
    words = [
        next(section for section in report.sections if section.key == "work_queue").text
        for report in (ek.report(exposure), shared)
    ]
    # Which group is first may differ: a shared report joins the small ones.
    whole, shared_total = (
        re.search(r"\d+ items in all: [^.]+; about [\d.]+ hours", text).group() for text in words
    )
    assert whole == shared_total


def test_where_few_people_are_known_no_site_is_named():
    world = a_world(2)
    world.people = {number: person for number, person in world.people.items() if number < FEW}
    with seen_through(world) as exposure:
        report = ek.report(exposure, share_safe=True)
    assert set(report.sections[0].table["site"]) == {FEW_SITES}
    assert "most on" not in report.finding
    assert PEOPLE > FEW


def test_the_server_is_not_told(shared, exposure):
    assert "server" not in shared.provenance
    assert exposure.client.config.base_url not in json.dumps(shared.data)


def test_who_knows_all_ids_learns_nothing_from_the_order(tmp_path):
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
        reports = [
            ek.report(history, exposure=exposure, share_safe=True, rows=True),
            ek.report(history, since=first, share_safe=True, rows=True),
        ]
    called = {pseudonyms.load_pseudonyms().of(user_id): user_id for user_id in ids.values()}
    tables = {
        part.key: part.table for report in reports for part in report.sections if part.table is not None
    }
    shared_tables = {name: table for name, table in tables.items() if "user_id" in table}
    assert {"open_before", "new", "removed", "open_after"} <= {*tables["diff_by_site"]}
    assert {"diff", "work_queue", "score"} <= shared_tables.keys()
    for name, table in shared_tables.items():
        order = table["user_id"].drop_duplicates()
        assert set(order) <= called.keys()
        assert order.map(called).is_monotonic_increasing is False, name
    assert shared_tables["diff"]["user_id"].is_monotonic_increasing  # by what people are called
    assert shared_tables["score"]["score"].is_monotonic_decreasing
    alike = shared_tables["score"].groupby("score")["user_id"]
    assert all(called.is_monotonic_increasing for _, called in alike)
    assert shared_tables["work_queue"]["rank"].tolist() == [*range(1, len(shared_tables["work_queue"]) + 1)]


def test_how_many_wait_is_not_told_where_they_are_few(exposure, tmp_path):
    steps = exposure.steps()
    of_pages = steps[steps["record_id"].isna()]
    waiting = of_pages["user_id"].unique()
    with History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        assert _of_pages(history).people == len(waiting) >= FEW
        history.tick(of_pages[of_pages["user_id"].isin(waiting[FEW - 1 :])], "done")
        few, alone = _of_pages(history), _of_pages(history, user=int(waiting[0]))
        with pytest.warns(UserWarning, match="0 rows"):
            text = ek.export(history, tmp_path / "queue.md").read_text()
    assert (few.listings, few.people, few.minutes) == (None, None, None)
    assert alone.people == 1  # it is told whom it is about
    assert "Open the listing." in text
    assert few.amount in text
    assert f"{FEW - 1} people" not in text


def _of_pages(history, **about):
    report = ek.report(history, share_safe=True, **about)
    manual = next(part for part in report.sections if part.key == "work_queue").removals
    return next(one for one in manual if one.site is None)


def test_the_row_of_few_people_holds_at_least_so_many():
    records = pd.DataFrame(
        {
            "user_id": [*range(6), *range(7), 6, 7],
            "site": [*["Larder"] * 6, *["Teapot"] * 7, "Kettle", "Bramble"],
            "status": "discovered",
        }
    )
    shared_table = sharing(pseudonyms.Pseudonyms(b"k" * 32), records, NOBODY[1]).table(
        ek.analysis.by_site(records)
    )
    assert shared_table["site"].tolist() == ["Teapot", FEW_SITES]
    assert shared_table["total"].tolist() == [7, 8]


def test_rows_of_people_are_left_out_unless_asked_for(exposure, shared):
    report = ek.report(exposure, share_safe=True)
    assert [section.key for section in report.sections] == [section.key for section in shared.sections]
    tables = [section.table for section in report.sections if section.table is not None]
    assert tables
    assert not any("user_id" in table for table in tables)
    names = pseudonyms.load_pseudonyms()
    assert not any(names.of(user_id) in report.to_html() for user_id in exposure.users()["user_id"])
    assert any("user_id" in section.table for section in shared.sections if section.table is not None)


def test_no_hidden_count_follows_from_the_sums_of_a_page():
    totals = sum(map(small_cells.page, range(15)), Counter())
    assert totals["with_hidden"] > 5
    assert totals["with_hidden_work"] > 5
    assert (totals["recovered"], totals["recovered_work"]) == (0, 0)


def test_the_attacker_recovers_what_a_total_gives():
    records = small_cells.records_of(1)
    removals = small_cells.removals_of(records, 1)
    people = records.groupby("site")["user_id"].nunique()
    naive = replace(
        sharing(pseudonyms.Pseudonyms(b"k" * 32), records, NOBODY[1]),
        sites=frozenset(people.index) - {people.idxmin()},
    )
    assert people.min() < FEW
    assert small_cells.recovered(records, removals, naive)


def test_manual_work_of_few_takes_another_group_with_it():
    """By the total of all listings, a single hidden group is what the others lack."""
    sizes = {"Crumbs": 4, "Heron": 15, "Bramble": 6}
    work = tuple(
        Removal(
            site, None, ("Ask.",), tuple(Task("user", site, user_id=one) for one in range(n)), n, n, 2.0 * n
        )
        for site, n in sizes.items()
    )
    boundary = replace(
        sharing(pseudonyms.Pseudonyms(b"k" * 32), *NOBODY),
        sites=frozenset(sizes),
        texts=frozenset((site, None, ("Ask.",)) for site in sizes),
    )
    published = boundary.removals(work, None)
    assert [one.listings for one in published] == [None, 15, None]
    assert small_cells.recovered_work(work, published) == set()
    naive = [replace(one, listings=6) if one.site == "Bramble" else one for one in published]
    assert small_cells.recovered_work(work, naive) == {str(("Crumbs", ("Ask.",)))}


def test_a_small_group_takes_a_second_one_with_it():
    boundary = sharing(pseudonyms.Pseudonyms(b"k" * 32), *NOBODY)
    boundary = replace(boundary, sites=frozenset("abcd"))
    table = pd.DataFrame({"site": [*"abcd"], "n": [9, 2, 7, 30]})
    assert boundary.table(table)["site"].tolist() == ["a", "d"]


def test_a_shared_forecast_says_why_it_has_no_figure(exposure, tmp_path):
    with History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        reasons = history.forecast()["reason"]
        report = ek.report(history, share_safe=True, sections=["forecast"])
    assert reasons.notna().all()
    assert report.table("forecast")["reason"].tolist() == reasons.tolist()


def test_the_reason_of_an_item_of_work_is_redacted(exposure):
    queue = ek.analysis.work_queue(exposure.steps()).assign(reason="the form asks for a passport")
    assert "reason" not in redacted(queue)


@pytest.mark.parametrize(
    ("people", "shown"),
    [
        ([9, 7, 4, 3, 2], ["S0", "S1"]),
        ([9, 7, 4], ["S0"]),  # one hidden row would follow from the total
        ([9, 7, 1, 1], ["S0"]),  # and so would two people
        ([9, 7], ["S0", "S1"]),
        ([4, 2], []),
    ],
)
@pytest.mark.parametrize(("name", "counted"), [("state", "listings"), ("kind", "links")])
def test_states_and_kinds_of_few_people_are_left_out(people, shown, name, counted):
    names = [f"S{number}" for number in range(len(people))]
    table = pd.DataFrame({name: pd.Series(names, dtype="str"), counted: [20] * len(people), "people": people})
    assert shared_table(table)[name].tolist() == shown
    alone = sharing(pseudonyms.Pseudonyms(b"k" * 32), *NOBODY).table(table, is_alone=True)
    assert len(alone) == len(table)


def test_a_section_without_small_groups_says_so(exposure, tmp_path):
    with History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        report = ek.report(history, exposure=exposure, share_safe=True, sections=["by_state"])
    [section] = report.sections
    people = exposure.records().exposure.by_state()["people"]
    assert (people < FEW).any()
    assert section.table is None or section.table["people"].min() >= FEW
    assert section.text.startswith("Not shown: ")


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
    told = shared_table(COVERAGE)
    assert told["last_complete_load"].tolist() == [
        "within a day",
        "within a week or never",
        "within a month",
        "longer ago",
    ]
    assert told["people"].tolist() == [96, 10, 0, 0]
    assert told[["whole", "failed", "other"]].to_numpy().tolist()[:2] == [[90, 6, 0], [0, 0, 10]]
    assert told.dtypes.equals(COVERAGE.dtypes)
    assert shared_table(COVERAGE.tail(2)).empty
    enough = COVERAGE.head(2)
    pd.testing.assert_frame_equal(shared_table(enough), enough)


def test_a_survival_curve_ends_before_few_are_followed():
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


def test_a_small_number_of_missed_people_is_hidden(tmp_path):
    world = a_world(0)
    world.people[1].scanning = True
    with seen_through(world) as exposure, History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        confidential, report = ek.report(history), ek.report(history, share_safe=True)
    assert confidential.facts[0].qualifier.startswith("1 of ")
    assert report.facts[0].qualifier.startswith(f"fewer than {FEW} of ")
    assert f"fewer than {FEW} not observed completely" in report.provenance["people"]


def test_a_matrix_names_neither_small_sites_nor_ids(exposure):
    report = ek.report(exposure, share_safe=True, rows=True, sections=["user_by_site"])
    records = exposure.records()
    matrix, table = records.exposure.user_by_site(), report.table("user_by_site")
    named = {*report.table("user_by_site")} - {FEW_SITES}
    people = records.groupby("site", observed=True)["user_id"].nunique()
    assert named
    assert (people[[*named]] >= FEW).all()
    assert table.to_numpy().sum() == matrix.to_numpy().sum()
    called = {f"user {pseudonyms.load_pseudonyms().of(user_id)}": user_id for user_id in matrix.index}
    figure = report.figure("user_by_site")
    drawn = [*figure.layout.yaxis.ticktext]
    assert len(drawn) > FEW
    assert {*drawn} <= {*called}
    totals = matrix.loc[[called[name] for name in drawn]].sum(axis=1).tolist()
    assert totals == table.sum(axis=1).tolist()[: len(drawn)]
    assert not any(site in report.to_html() for site in people.index[people < FEW])


def followed(world, directory):
    """A history of a world in which all listings are removed, and found again, at times."""
    clock = Clock()
    history = History(directory / "history", clock=clock)
    with seen_through(world) as exposure:
        for day in range(6):
            for person in world.people.values():
                for number, record in enumerate(person.records):
                    record["status"] = STATUSES[(day + number) % len(STATUSES)]
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
    return history


def test_times_of_few_people_are_not_shown(tmp_path):
    world = a_world(2)
    world.people = {number: person for number, person in world.people.items() if number < FEW}
    with followed(world, tmp_path) as history:
        assert history.time_to_removal()["n"].sum() >= FEW
        [section] = ek.report(history, share_safe=True, sections=["time_to_removal"]).sections
    assert (section.finding, section.text) == ("", f"Not shown: fewer than {FEW} listings per site.")


def test_times_say_what_is_left_out_and_their_level(tmp_path):
    with followed(a_world(2), tmp_path) as history:
        n = int(history.time_to_removal(by=None)["n"].iloc[0])
        report = ek.report(history, share_safe=True)
        [survival] = ek.report(history, share_safe=True, sections=["survival"]).sections
    shown = int(report.table("time_to_removal")["n"].sum())
    section = next(section for section in report.sections if section.key == "time_to_removal")
    assert f"They have {n - shown} of {n} listings followed." in section.text
    assert n - shown >= FEW
    assert f"over {n} listings followed" in next(
        fact.qualifier for fact in report.facts if fact.name == "half removed within"
    )
    for figure in (section.figure, survival.figure):
        assert "95 % interval" in figure.layout.meta["summary"]


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 9])  # 4 and 12 people
def test_nothing_hidden_follows_from_built_reports(seed):
    assert small_cells.built(seed) == []
