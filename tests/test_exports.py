"""Exports: each form holds the table, no text becomes a formula, and nothing personal is written unless it is asked for."""

import csv
import html
import io
import re
import stat
import zipfile
from datetime import UTC, date, datetime

import icalendar
import pandas as pd
import pytest
from support import controls as kit
from support import hostile_demo
from support.histories import Clock, Person, Service, a_record, an_alert, seen_through
from support.hostile_texts import PAYLOADS
from support.shared_worlds import a_world, leaked_values

import exposurekit as ek
from exposurekit.analysis.removal_warnings import MAILBOX
from exposurekit.analysis.tasks import NO_VALUES
from exposurekit.errors import ConfigurationError, InvalidArgument, Leak
from exposurekit.history import History

FORMS = (".csv", ".xlsx", ".parquet")


@pytest.fixture(scope="module")
def world():
    return a_world(5)


@pytest.fixture(scope="module")
def exposure(world):
    with seen_through(world) as exposure:
        yield exposure


def read_again(file):
    """A table file as another program reads it."""
    if file.suffix == ".csv":
        return pd.read_csv(file, keep_default_na=False, dtype=str)
    if file.suffix == ".parquet":
        return pd.read_parquet(file)
    return sheet(file)


def sheet(file):
    """The rows of a workbook's first sheet, and all of its texts; a formula would be an element of its own."""
    with zipfile.ZipFile(file) as book:
        cells = book.read("xl/worksheets/sheet1.xml").decode()
        texts = re.findall(r"<si>(.*?)</si>", book.read("xl/sharedStrings.xml").decode(), re.DOTALL)
    assert "<f>" not in cells
    rows = re.findall(r"<row [^>]*>(.*?)</row>", cells, re.DOTALL)
    return [len(rows), [re.sub("<[^>]*>", "", text) for text in texts]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["records", "users", "alerts", "steps", "service_history", "on_file"])
def test_every_table_goes_into_every_form(exposure, tmp_path, name, form):
    table = exposure[name]
    file = ek.export(table, tmp_path / f"table{form}", include_personal=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = read_again(file)
    if form == ".xlsx":
        assert again[0] == len(table) + 1
        return
    assert [*again.columns] == [*table.columns]
    assert len(again) == len(table)
    if form == ".parquet":
        assert again["user_id"].tolist() == table["user_id"].tolist()


@pytest.mark.parametrize("form", FORMS)
def test_without_being_asked_nothing_personal_is_written(exposure, world, tmp_path, form):
    for name in ("records", "users", "links", "alerts", "steps", "addresses"):
        file = ek.export(exposure[name], tmp_path / f"{name}{form}")
        again = read_again(file)
        text = str(again) if form == ".xlsx" else again.to_csv()
        assert leaked_values(text, world) == 0
    assert "name" not in text


def test_formulas_are_text_in_a_spreadsheet(tmp_path):
    table = pd.DataFrame(
        {"site": ["=1+1", "+2", "-3", "@x", "|y", "plain", "https://site.example"], "n": range(7)}
    )
    csv = pd.read_csv(ek.export(table, tmp_path / "t.csv", include_personal=True))
    assert not [cell for cell in csv["site"] if cell.startswith(("=", "+", "-", "@", "|"))]
    rows, texts = sheet(ek.export(table, tmp_path / "t.xlsx", include_personal=True))
    assert rows == 8
    assert {"=1+1", "+2", "https://site.example"} <= set(texts)


def test_excel_has_links_widths_a_frozen_header_and_the_source(exposure, tmp_path):
    table = pd.DataFrame(
        {
            "href": ["https://site.example/p/7", "javascript:alert(1)", "file:///etc/passwd", None],
            "guide": ["Write a letter. " * 20, "https://site.example/other", "", None],
        }
    )
    file = ek.export(table, tmp_path / "t.xlsx", include_personal=True, source=exposure)
    with zipfile.ZipFile(file) as book:
        cells = book.read("xl/worksheets/sheet1.xml").decode()
        links = book.read("xl/worksheets/_rels/sheet1.xml.rels").decode()
        assert 'wrapText="1"' in book.read("xl/styles.xml").decode()
    assert re.findall('Target="([^"]*)"', links) == ["https://site.example/p/7"]
    assert 'state="frozen"' in cells
    narrow, wide = (float(width) for width in re.findall(r'<col [^>]*width="([\d.]+)"', cells))
    assert 20 < narrow < wide < 70
    texts = sheet(file)[1]
    assert exposure.provenance in texts
    without = ek.export(exposure.records(), tmp_path / "shared.xlsx", source=exposure)
    assert exposure.provenance not in sheet(without)[1]
    queue = sheet(ek.export(exposure, tmp_path / "queue.xlsx", include_personal=True))[1]
    assert {"server", "as of", "made with"} <= {*queue}


def test_instants_in_excel_are_utc_and_lists_are_text(tmp_path):
    table = pd.DataFrame(
        {"at": pd.to_datetime(["2026-03-01T20:00+02:00"], utc=True), "fields": [["email", "zip"]], "n": [1]}
    )
    _, texts = sheet(ek.export(table, tmp_path / "t.xlsx", include_personal=True))
    assert "email, zip" in texts


def test_a_table_that_excel_cannot_hold_is_told(tmp_path):
    with pytest.raises(InvalidArgument, match=r"1,048,575 rows.*\.csv"):
        ek.export(pd.DataFrame({"n": range(1_048_576)}), tmp_path / "t.xlsx", include_personal=True)
    assert not (tmp_path / "t.xlsx").exists()


@pytest.mark.parametrize(
    "table",
    [
        {"site": ["a", "x" * 32_768]},
        {"site": ["\U0001f600" * 16_384]},
        {"fields": [["x" * 20_000, "y" * 20_000]]},
        {"site": pd.Categorical(["x" * 40_000])},
        {"x" * 32_768: [1]},
    ],
    ids=["text", "letters of two units", "list", "category", "name"],
)
def test_a_text_that_excel_would_truncate_is_refused(tmp_path, table):
    table = pd.DataFrame({"n": 1, **table})
    with pytest.raises(InvalidArgument, match=r"32,767 characters.*column 2 .*\.csv") as refused:
        ek.export(table, tmp_path / "t.xlsx", include_personal=True)
    assert "xx" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
    assert ek.export(table, tmp_path / "t.csv", include_personal=True).stat().st_size > 32_768


def test_the_longest_text_of_a_cell_is_written_whole(tmp_path):
    _, texts = sheet(
        ek.export(pd.DataFrame({"site": ["x" * 32_767]}), tmp_path / "t.xlsx", include_personal=True)
    )
    assert "x" * 32_767 in texts


@pytest.mark.parametrize(
    "days",
    [
        pd.to_datetime(["1850-01-01", "1900-02-28", "1900-03-01", None], utc=True),
        pd.to_datetime(["1850-01-01", "1900-02-28", "1900-03-01", None]),
        pd.array([date(1850, 1, 1), date(1900, 2, 28), date(1900, 3, 1), None], dtype=object),
        pd.array([datetime(1850, 1, 1, tzinfo=UTC), "1900-02-28", datetime(1900, 3, 1, tzinfo=UTC)], object),
        pd.Categorical(pd.to_datetime(["1850-01-01", "1900-02-28", "1900-03-01", None])),
    ],
    ids=["instants", "without a zone", "days", "of several kinds", "category"],
)
def test_days_before_the_calendar_of_excel_are_text(tmp_path, days):
    file = ek.export(pd.DataFrame({"birth_date": days}), tmp_path / "t.xlsx", include_personal=True)
    assert sheet(file)[1][:4] == ["birth_date", "1850-01-01", "1900-02-28", "about"]
    with zipfile.ZipFile(file) as book:
        cells = book.read("xl/worksheets/sheet1.xml").decode()
    assert cells.count("<v>61</v>") == 1  # the first day that it counts rightly


def test_an_early_instant_keeps_its_time_of_day(tmp_path):
    table = pd.DataFrame({"at": pd.to_datetime(["1850-01-01T10:30+02:00"], utc=True)})
    assert "1850-01-01 08:30:00" in sheet(ek.export(table, tmp_path / "t.xlsx", include_personal=True))[1]


@pytest.mark.parametrize(
    ("what", "name", "message"),
    [
        ("table", "t.pdf", ".csv, .xlsx, .parquet"),
        ("exposure", "t.csv", ".md, .ics"),
        ("nothing", "t.csv", "Pass a table; or an Exposure or a History"),
        ("table", "nowhere/t.csv", "cannot be written"),
    ],
)
def test_what_cannot_be_is_told(exposure, tmp_path, what, name, message):
    of = {"table": exposure.records(), "exposure": exposure, "nothing": None}
    with pytest.raises((ConfigurationError, InvalidArgument), match=re.escape(message)):
        ek.export(of[what], tmp_path / name)


# --- the manual work ---------------------------------------------------------------------------------------


def test_the_manual_work_is_a_list_to_tick_off(exposure, tmp_path):
    text = ek.export(exposure, tmp_path / "queue.md", include_personal=True).read_text()
    assert text.startswith("# Manual work\n")
    assert text.count("- [ ] ") > 10
    queue = ek.analysis.work_queue(exposure.steps())
    assert text.count("- [ ] ") == len(queue)
    plain_text = text.replace("\\", "")
    for row in queue[queue["site"].notna()].to_dict("records"):
        assert all(f"{row[name]}" in plain_text for name in ("person", "name", "reference_id"))
        labels = ("email", "phone", "full address")
        assert all(f"only if the form asks: {label}" in plain_text for label in labels)
        assert not any(f"Enter {label}: " in plain_text for label in labels)  # the sites do not require them


def test_the_manual_work_is_rows_of_excel(exposure, tmp_path):
    queue = ek.analysis.work_queue(exposure.steps())
    _, texts = sheet(ek.export(exposure, tmp_path / "queue.xlsx", include_personal=True))
    for name in ("reference_id", "name", "href", "guide"):
        assert {html.escape(one, quote=False) for one in queue[name].dropna()} <= {*texts}
    assert any(one.startswith("1. ") and "\n2. " in one for one in texts)
    assert any(one.startswith("full name: ") or "\nfull name: " in one for one in texts)
    _, shared = sheet(ek.export(exposure, tmp_path / "shared.xlsx"))
    assert not {*queue["reference_id"].dropna(), *queue["name"].dropna(), *queue["href"].dropna()} & {*shared}
    assert any(one.startswith("user ") for one in shared)


def test_a_table_in_excel_numbers_its_steps(exposure, tmp_path):
    queue = ek.analysis.work_queue(exposure.steps())
    _, texts = sheet(ek.export(queue, tmp_path / "queue.xlsx", include_personal=True))
    assert any(one.startswith("1. ") and "\n2. " in one for one in texts)
    assert any("\nemail: " in one for one in texts)


def test_of_a_history_an_exposure_adds_what_to_enter(tmp_path):
    with seen_through(kit.three_people()) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
        alone = ek.export(history, tmp_path / "alone.md", include_personal=True).read_text()
        both = ek.export(history, tmp_path / "both.md", include_personal=True, source=exposure).read_text()
    assert "only if the form asks: email" not in alone
    assert alone.count(NO_VALUES) == 1
    assert NO_VALUES not in both
    assert "only if the form asks: email" in both


def test_a_queued_page_has_its_contents_and_no_values(tmp_path):
    service, url = Service(), "https://pages.example/1"
    page = {"url": url, "title": "A page"}
    service.people[1] = Person(
        links=[page | {"contains": ["email", "phone"]}], alerts=[an_alert("Seen", page)]
    )
    with seen_through(service) as exposure:
        text = ek.export(exposure, tmp_path / "queue.md", include_personal=True).read_text().replace("\\", "")
        html_page = ek.report(exposure).to_html()
    assert "- Contains: email, phone\n" in text
    assert "- On file full name: " in text
    assert "- On file email: " in text
    assert "full address" not in text  # the page does not contain it
    assert "Enter " not in text
    assert "email, phone</span>" in html_page
    assert "Enter: " not in html_page


def test_a_queued_listing_has_its_warnings(tmp_path):
    record = a_record(1, name="Fenimoor Odalys")
    alert = an_alert("Found", record) | {"opt_out_procedure": ["Open the email and click the link."]}
    with seen_through(Service({7: Person(records=[record], alerts=[alert])})) as exposure:
        lines = (
            ek.export(exposure, tmp_path / "queue.md", include_personal=True).read_text().replace("\\", "")
        )
        _, texts = sheet(ek.export(exposure, tmp_path / "queue.xlsx", include_personal=True))
    assert "- Note: differs: name Fenimoor Odalys, on file " in lines
    assert lines.count(MAILBOX) == 1
    assert any("differs: name Fenimoor Odalys" in text and MAILBOX in text for text in texts)


def test_each_form_of_the_queue_has_missing_values_once(tmp_path):
    with seen_through(kit.three_people()) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
        calendar = icalendar.Calendar.from_ical(
            ek.export(history, tmp_path / "queue.ics", include_personal=True).read_bytes()
        )
        _, texts = sheet(ek.export(history, tmp_path / "queue.xlsx", include_personal=True))
        with pytest.warns(UserWarning, match="0 rows"):
            shared = ek.export(history, tmp_path / "shared.md").read_text()
    assert str(calendar["COMMENT"]) == NO_VALUES
    assert not [task for task in calendar.walk("VTODO") if "missing" in str(task["DESCRIPTION"])]
    assert texts.count(NO_VALUES) == 1
    assert NO_VALUES not in shared


def test_the_manual_work_is_tasks(exposure, tmp_path):
    calendar = icalendar.Calendar.from_ical(
        ek.export(exposure, tmp_path / "queue.ics", include_personal=True).read_bytes()
    )
    tasks = [*calendar.walk("VTODO")]
    assert len({str(task["UID"]) for task in tasks}) == len(tasks) > 5
    assert "1. " in str(tasks[0]["DESCRIPTION"])
    assert {str(task["STATUS"]) for task in tasks} == {"NEEDS-ACTION"}
    priorities = [int(task["PRIORITY"]) for task in tasks]
    assert priorities == sorted(priorities)


@pytest.mark.parametrize("name", ["queue.md", "queue.ics"])
def test_shared_it_tells_nobody_and_says_what_is_left_out(exposure, world, tmp_path, name):
    text = ek.export(exposure, tmp_path / name).read_text()
    assert leaked_values(text.replace("\n ", ""), world) == 0
    assert "Open the form." in text
    assert "omitted" in text


def test_a_queue_without_rows_says_why(tmp_path):
    with (
        seen_through(kit.three_people()) as exposure,
        pytest.warns(UserWarning, match="0 rows: .* fewer than five people .* include_personal=True"),
    ):
        ek.export(exposure, tmp_path / "queue.xlsx")


def test_the_same_work_has_the_same_name_in_later_exports(exposure, tmp_path):
    first, second = (
        re.findall(
            r"UID:(\S+)", ek.export(exposure, tmp_path / f"{n}.ics", include_personal=True).read_text()
        )
        for n in "ab"
    )
    assert first == second


@pytest.mark.parametrize("name", ["queue.md", "queue.ics"])
def test_hostile_texts_are_text(tmp_path, name):
    service = Service()
    service.people = {number: hostile_demo.hostile(number, text) for number, text in enumerate(PAYLOADS, 1)}
    with seen_through(service) as exposure:
        text = ek.export(exposure, tmp_path / name, include_personal=True).read_text()
    if name.endswith(".md"):
        bare = re.sub(r"\\.", "", text)
        assert not re.search(r"<(?!https?://)|\]\(|!\[", bare)
    else:
        calendar = icalendar.Calendar.from_ical(text)
        assert {component.name for component in calendar.walk()} == {"VCALENDAR", "VTODO"}
        assert not re.search(r"^(ATTACH|URL|VALARM|BEGIN:VEVENT)", text, re.MULTILINE)


def test_a_name_in_what_everybody_is_told_is_found(tmp_path):
    service = a_world(6)
    name = "{first_name} {last_name}".format_map(service.people[1].profile)
    for person in service.people.values():
        for alert in person.alerts:
            alert |= {"guide": f"Ask for {name}.", "opt_out_procedure": ["Ask."]}
            alert["source"].get("record", {}).update(site="Teapot Finder")
    with seen_through(service) as exposure, pytest.raises(Leak) as refused:
        ek.export(exposure, tmp_path / "queue.md")
    assert name not in str(refused.value)
    assert not (tmp_path / "queue.md").exists()


def test_of_a_history_it_is_what_is_not_ticked(tmp_path):
    with seen_through(kit.three_people()) as exposure:
        history = kit.a_history(tmp_path, exposure, Clock())
        first = ek.export(history, tmp_path / "a.md", include_personal=True).read_text()
        for _, step in history.steps().iterrows():
            history.tick(step)
        second = ek.export(history, tmp_path / "b.md", include_personal=True).read_text()
    assert "- [ ] " in first
    assert "- [ ] " not in second


def test_a_table_is_searched_for_everyone_it_comes_from(exposure, tmp_path):
    name = exposure.records()["name"].dropna().iloc[0]
    named = ek.analysis.by_site(exposure.records()).assign(site=f"{name} Finder")
    with pytest.raises(Leak):
        ek.export(named, tmp_path / "sites.csv", source=exposure)
    assert not (tmp_path / "sites.csv").exists()


def test_what_parquet_cannot_hold_is_told_without_its_values(tmp_path):
    table = pd.DataFrame({"site": [1, "Zinnia"]}, dtype=object)
    with pytest.raises(InvalidArgument, match="values of several kinds") as refused:
        ek.export(table, tmp_path / "t.parquet", include_personal=True)
    assert "Zinnia" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_user_goes_with_the_work_alone(tmp_path):
    with pytest.raises(InvalidArgument, match="user goes with the manual work"):
        ek.export(pd.DataFrame({"site": ["a"]}), tmp_path / "t.csv", user=1)


@pytest.mark.parametrize(
    "text", ["=1+1", "\u200b=1", "\x00=1", "\uff1d1+1", "x;=HYPERLINK(1)", "x\t@SUM(A1)"]
)
def test_no_csv_text_is_a_formula_in_any_program(tmp_path, text):
    table = pd.DataFrame({"site": [text], text: [1]})
    written = ek.export(table, tmp_path / "t.csv", include_personal=True).read_text()
    for separator in (",", ";", "\t"):
        for row in csv.reader(io.StringIO(written), delimiter=separator):
            assert not [cell for cell in row if re.match(r"[\s\x00\u200b]*[=+@|%\uff1d-]", cell)]


def test_what_stands_in_an_index_is_searched_too(tmp_path):
    service = a_world(0)
    who = next(iter(service.people.values()))
    for person in service.people.values():
        person.records[0]["site"] = f"{who.profile['first_name']} {who.profile['last_name']} Finder"
    with seen_through(service) as exposure:
        records = exposure.records()
        counts = records.groupby("site", observed=True).size().rename("n").to_frame()
        for table in (records.set_index("site"), counts):
            with pytest.raises(Leak):
                ek.export(table, tmp_path / "table.csv", source=exposure)
        with pytest.raises(Leak):
            records.set_index("site").exposure.redact()
        with pytest.raises(Leak):
            records.set_index("name").exposure.redact()  # what went with the index says what the site is
        named = records.exposure.user_by_site()
        named.index = pd.Index([f"{who.profile['last_name']} {n}" for n in named.index], name="user_id")
        assert named.exposure.redact().index.tolist() == [*range(len(named))]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
def test_lists_are_text_with_commas_wherever_the_table_is_from(exposure, tmp_path, ending):
    with History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        for name, table in (("loaded", exposure.records()), ("remembered", history.records())):
            path = ek.export(table, tmp_path / f"{name}{ending}", include_personal=True)
            text = (
                path.read_text()
                if ending == ".csv"
                else zipfile.ZipFile(path).read("xl/sharedStrings.xml").decode()
            )
            assert all(", ".join(places) in text for places in table["locations"])
            assert "['" not in text
