"""Exports: each form contains the table, no text becomes a formula, and personal data is written only on request."""

import csv
import html
import inspect
import io
import re
import stat
import sys
import warnings
import zipfile
from collections import Counter
from datetime import UTC, date, datetime

import duckdb
import icalendar
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from support import hostile_demo
from support import widget_controls as kit
from support.full_disk import file_size_limit
from support.histories import Clock, Person, Service, a_record, an_alert, seen_through
from support.hostile_texts import PAYLOADS
from support.shared_worlds import a_world, leaked_values

import exposurekit as ek
from exposurekit import exports, frames
from exposurekit.analysis.manual_tasks import NO_VALUES
from exposurekit.analysis.step_requirements import MAILBOX
from exposurekit.errors import ConfigurationError, DiskFull, InvalidArgument, Leak
from exposurekit.history import History

FORMS = (".csv", ".xlsx", ".parquet")


@pytest.fixture(scope="module")
def world():
    return a_world(5)


@pytest.fixture(scope="module")
def exposure(world):
    with seen_through(world) as exposure:
        yield exposure


@pytest.fixture(scope="module")
def three():
    """An exposure of three people."""
    with seen_through(kit.three_people()) as exposure:
        yield exposure


@pytest.fixture(scope="module")
def history(three, tmp_path_factory):
    return kit.a_history(tmp_path_factory.mktemp("history"), three, Clock())


@pytest.fixture
def personal(tmp_path):
    """Export with personal data to a file of this name."""

    def export(of, name, **options):
        return ek.export(of, tmp_path / name, include_personal=True, **options)

    return export


def part_of(file, name):
    with zipfile.ZipFile(file) as book:
        return book.read(f"xl/{name}").decode()


def sheet(file):
    """The number of rows of a workbook's first sheet, and all of its texts; a formula would be another element."""
    cells = part_of(file, "worksheets/sheet1.xml")
    assert "<f>" not in cells
    texts = re.findall(r"<si>(.*?)</si>", part_of(file, "sharedStrings.xml"), re.DOTALL)
    return len(re.findall(r"<row [^>]*>", cells)), [re.sub("<[^>]*>", "", text) for text in texts]


def tasks_of(file):
    return icalendar.Calendar.from_ical(file.read_bytes())


def markdown(file):
    return file.read_text().replace("\\", "")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["records", "users", "alerts", "steps", "service_history", "on_file"])
def test_every_table_is_exported_in_every_form(exposure, personal, name, form):
    table = exposure[name]
    file = personal(table, f"table{form}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if form == ".xlsx":
        assert sheet(file)[0] == len(table) + 1
        return
    again = pd.read_parquet(file) if form == ".parquet" else pd.read_csv(file)
    assert [*again.columns] == [*table.columns]
    assert again["user_id"].tolist() == table["user_id"].tolist()


@pytest.mark.parametrize("name", ["records", "users", "alerts", "steps", "service_history", "on_file"])
def test_parquet_is_read_again_as_it_was(exposure, personal, name):
    table = exposure[name]
    file = personal(table, "table.parquet")
    lists = {frames.LISTS_DTYPE.pyarrow_dtype: frames.LISTS_DTYPE}
    again = pq.read_table(file).to_pandas(types_mapper=lists.get)
    pd.testing.assert_frame_equal(again, table)
    alone = pd.read_parquet(file)
    is_list = table.dtypes == frames.LISTS_DTYPE
    assert (alone.dtypes == table.dtypes)[~is_list].all()


def test_tables_of_polars_and_duckdb_are_exported(exposure, personal):
    counts = exposure.records().groupby("site", observed=True).size().rename("n").reset_index()
    counts = counts.astype({"site": "str"})
    for table in (pl.from_pandas(counts), duckdb.sql("SELECT * FROM counts ORDER BY site")):
        assert pd.read_csv(personal(table, "counts.csv")).to_dict("records") == counts.to_dict("records")


def test_lists_in_csv_can_be_split_again(exposure, personal):
    alerts = exposure.alerts()
    again = pd.read_csv(personal(alerts, "alerts.csv"), keep_default_na=False)
    for name in ("opt_out_procedure", "form_values", "locations"):
        lists = [
            [] if cell is None else [*cell] for cell in alerts[name].astype("object").replace(pd.NA, None)
        ]
        assert max(map(len, lists)) > 1
        assert [cell.split("; ") if cell else [] for cell in again[name]] == lists


def tables_of(source):
    """The tables that the methods of an exposure or a history return without an argument."""
    for name, method in inspect.getmembers(type(source), inspect.isfunction):
        signature = inspect.signature(method)
        parameters = [*signature.parameters.values()][1:]
        is_bare = all(one.default is not one.empty or one.kind is one.VAR_KEYWORD for one in parameters)
        if (
            is_bare
            and not name.startswith("_")
            and signature.return_annotation in (pd.DataFrame, "pd.DataFrame")
        ):
            yield name, getattr(source, name)()


def test_columns_left_out_are_always_named(three, history, tmp_path):
    written = {}
    for name, table in [*tables_of(three), *tables_of(history)]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            header = ek.export(table, tmp_path / "t.csv").read_text().partition("\n")[0].split(",")
        left_out = [one for one in table.columns if one not in header]
        if left_out:
            [message] = [str(one.message) for one in caught if "left out" in str(one.message)]
            assert f"{len(left_out)} of {len(table.columns)} columns" in message, name
            assert f" left out ({', '.join(left_out)}): " in message, name
            assert ("column is" in message or "columns is" in message) == (len(left_out) == 1), name
        written[name] = left_out

    assert {"site_outcomes", "relistings", "runs", "records", "stale"} <= {*written}
    assert written["site_outcomes"] == []
    assert {*written["runs"]} <= {"run", "source", "inbox", "inbox_until"}
    assert written["relistings"] == ["key"]


def test_exposure_and_source_are_not_confused(exposure, history, tmp_path):
    with pytest.raises(InvalidArgument, match="the origin of a table is source"):
        ek.export(exposure.records(), tmp_path / "t.csv", exposure=exposure)
    with pytest.raises(InvalidArgument, match="for the manual work of a history, pass exposure="):
        ek.export(history, tmp_path / "t.md", source=exposure)
    for what, beside in ((exposure, exposure), (history, history)):
        with pytest.raises(
            InvalidArgument, match=r"ek\.export\(history, 'queue\.xlsx', exposure=exposure\)$"
        ):
            ek.export(what, tmp_path / "t.md", exposure=beside)
    with pytest.raises(InvalidArgument, match=r"^\.md is for the manual work: .* \.csv, \.xlsx, \.parquet$"):
        ek.export(exposure.records(), tmp_path / "t.md")


def test_lists_from_csv_are_counted_as_lists(exposure, personal):
    records, links, on_file = exposure.records(), exposure.links(), exposure.on_file()
    tables = {"r": records, "l": links, "a": exposure.alerts()}
    text = {name: pd.read_csv(personal(table, f"{name}.csv")) for name, table in tables.items()}
    for question, table, again, more in (
        (ek.analysis.blockers, records, text["r"], (on_file,)),
        (ek.analysis.by_state, records, text["r"], ()),
        (ek.analysis.by_kind, links, text["l"], ()),
    ):
        pd.testing.assert_frame_equal(question(again, *more), question(table, *more))
    numbered = ["alert_number", "step_number", "step"]
    steps = frames.steps_from_alerts(text["a"])[numbered]
    pd.testing.assert_frame_equal(steps, exposure.steps()[numbered], check_dtype=False)
    unknown = text["a"].assign(opt_out_procedure=float("nan"))
    assert frames.steps_from_alerts(unknown).empty


@pytest.mark.parametrize("form", FORMS)
def test_export_without_personal_data_is_the_default(exposure, world, tmp_path, form):
    for name in ("records", "users", "links", "alerts", "steps", "addresses"):
        with pytest.warns(
            UserWarning, match=r"columns are left out \(.*\): include_personal=True also writes"
        ):
            file = ek.export(exposure[name], tmp_path / f"{name}{form}")
        if form == ".xlsx":
            text = str(sheet(file))
        else:
            text = (pd.read_parquet(file) if form == ".parquet" else pd.read_csv(file)).to_csv()
        assert leaked_values(text, world) == 0
    assert "name" not in text


def test_a_sheet_has_the_name_of_its_table(exposure, personal):
    def sheet_name(what, name):
        return re.findall('<sheet name="([^"]*)"', part_of(personal(what, name), "workbook.xml"))

    assert sheet_name(exposure.records(), "records.xlsx") == ["records", "about"]
    assert sheet_name(exposure.records(), "Jo Doe's: all.xlsx") == ["table", "about"]
    assert sheet_name(exposure, "monday.xlsx") == ["manual work", "about"]


@pytest.mark.parametrize("is_named", [True, False])
def test_a_workbook_says_as_of_when_it_is(exposure, tmp_path, is_named):
    file = tmp_path / "records.xlsx"
    exports.write_table(exposure.records(), file, name="records", include_personal=is_named, source=exposure)
    about = {*sheet(file)[1]}
    assert {"as of", f"{exposure.as_of:%Y-%m-%d %H:%M} UTC"} <= about
    assert (exposure.provenance in about) == is_named


def test_formulas_are_text_in_a_spreadsheet(personal):
    sites = ["=1+1", "+2", "-3", "@x", "|y", "plain", "https://site.example"]
    table = pd.DataFrame({"site": sites, "n": range(7)})
    csv = pd.read_csv(personal(table, "t.csv"))
    assert not [cell for cell in csv["site"] if cell.startswith(("=", "+", "-", "@", "|"))]
    rows, texts = sheet(personal(table, "t.xlsx"))
    assert rows == 8
    assert {"=1+1", "+2", "https://site.example"} <= set(texts)


def test_excel_has_links_widths_a_frozen_header_and_provenance(exposure, personal, tmp_path):
    table = pd.DataFrame(
        {
            "href": ["https://site.example/p/7", "javascript:alert(1)", "file:///etc/passwd", None],
            "guide": ["Write a letter. " * 20, "https://site.example/other", "", None],
        }
    )
    file = personal(table, "t.xlsx", source=exposure)
    cells = part_of(file, "worksheets/sheet1.xml")
    links = re.findall('Target="([^"]*)"', part_of(file, "worksheets/_rels/sheet1.xml.rels"))
    assert links == ["https://site.example/p/7"]
    assert 'wrapText="1"' in part_of(file, "styles.xml")
    assert 'state="frozen"' in cells
    narrow, wide = (float(width) for width in re.findall(r'<col [^>]*width="([\d.]+)"', cells))
    assert 20 < narrow < wide < 70
    assert exposure.provenance in sheet(file)[1]
    with pytest.warns(UserWarning, match="columns are left out"):
        without = ek.export(exposure.records(), tmp_path / "shared.xlsx", source=exposure)
    assert exposure.provenance not in sheet(without)[1]
    assert {"server", "as of", "made with"} <= {*sheet(personal(exposure, "queue.xlsx"))[1]}


def test_lists_and_early_instants_are_text_in_excel(personal):
    early = pd.to_datetime(["1850-01-01T10:30+02:00"], utc=True)
    _, texts = sheet(personal(pd.DataFrame({"at": early, "fields": [["email", "zip"]]}), "t.xlsx"))
    assert {"email; zip", "1850-01-01 08:30:00"} <= {*texts}


def test_keys_beyond_the_precision_of_excel_are_text(personal):
    """A spreadsheet would round them, and what it returns would name another item."""
    keys = pd.Series([1234567890123456789, None, 7], dtype="Int64")
    _, cells = sheet(personal(pd.DataFrame({"key": keys, "n": [1, 2, 3]}), "t.xlsx"))
    assert {"1234567890123456789", "7"} <= {*cells}


def test_a_date_of_birth_is_a_day_in_csv(tmp_path):
    days = pd.to_datetime(["1987-02-17", None, "1932-02-10"], utc=True)
    table = pd.DataFrame({"birth_date": days, "first_seen_at": days})
    file = ek.export(table, tmp_path / "t.csv", include_personal=True)
    assert file.read_text().splitlines()[1:3] == ["1987-02-17,1987-02-17 00:00:00+00:00", ","]
    again = pd.read_csv(file)
    assert pd.to_datetime(again["birth_date"], utc=True).tolist()[::2] == days.tolist()[::2]
    ek.export(table, tmp_path / "t.parquet", include_personal=True)
    assert (pd.read_parquet(tmp_path / "t.parquet")["birth_date"].dtype, table["birth_date"].dtype) == (
        days.dtype,
    ) * 2
    timed = table.assign(birth_date=days + pd.Timedelta(hours=6))
    file = ek.export(timed, tmp_path / "timed.csv", include_personal=True)
    assert "1987-02-17 06:00:00+00:00" in file.read_text()


def test_table_beyond_the_row_limit_of_excel_is_refused(tmp_path):
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
    ids=["text", "two-unit characters", "list", "category", "name"],
)
def test_text_that_excel_would_truncate_is_refused(tmp_path, table):
    table = pd.DataFrame({"n": 1, **table})
    with pytest.raises(InvalidArgument, match=r"32,767 characters.*column 2 .*\.csv") as refused:
        ek.export(table, tmp_path / "t.xlsx", include_personal=True)
    assert "xx" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
    assert ek.export(table, tmp_path / "t.csv", include_personal=True).stat().st_size > 32_768


def test_longest_text_of_a_cell_is_written_completely(personal):
    text = "x" * 32_767
    assert text in sheet(personal(pd.DataFrame({"site": [text]}), "t.xlsx"))[1]


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
    assert (
        part_of(file, "worksheets/sheet1.xml").count("<v>61</v>") == 1
    )  # the first day that it counts rightly


@pytest.mark.parametrize(
    ("kind", "name", "options", "message"),
    [
        ("table", "t.pdf", {}, ".csv, .xlsx, .parquet"),
        ("exposure", "t.parquet", {}, ".md, .ics, .xlsx, .csv"),
        ("nothing", "t.csv", {}, "Pass a DataFrame; or an Exposure or a History"),
        ("table", "nowhere/t.csv", {}, "cannot be written"),
        ("table", "t.csv", {"user": 1}, "user goes with the manual work"),
        ("mixed", "t.parquet", {"include_personal": True}, "values of several kinds"),
        ("huge", "t.parquet", {"include_personal": True}, "integers of more than 64 bits"),
        ("joined", "t.parquet", {"include_personal": True}, "Two columns of the table have the same name"),
        ("joined", "t.xlsx", {"include_personal": True}, "Two columns of the table have the same name"),
        ("joined", "t.parquet", {}, "Two columns of the table have the same name"),
        ("joined", "t.xlsx", {}, "Two columns of the table have the same name"),
        ("born", "t.xlsx", {"include_personal": True}, "Two columns of the table have the same name"),
    ],
)
def test_unsupported_export_is_refused_with_a_hint(*, exposure, tmp_path, kind, name, options, message):
    mixed = pd.DataFrame({"site": [1, "Zinnia"]}, dtype=object)
    of = {"table": exposure.records(), "exposure": exposure, "nothing": None, "mixed": mixed}
    of |= {"huge": pd.DataFrame({"n": [10**20]}, dtype=object), "joined": pd.concat([mixed, mixed], axis=1)}
    born = pd.DataFrame({"birth_date": pd.to_datetime(["1980-02-29"], utc=True)})
    of |= {"born": pd.concat([born, born], axis=1)}
    with pytest.raises((ConfigurationError, InvalidArgument), match=re.escape(message)) as refused:
        ek.export(of[kind], tmp_path / name, **options)
    assert "Zinnia" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_joined_table_in_csv_has_both_columns_of_a_name(tmp_path):
    born = pd.to_datetime(["1980-02-29", None], utc=True)
    one = pd.DataFrame({"site": ["Seekfolk", "x.example"], "kind": ["record", "link"], "birth_date": born})
    one = one.assign(name=["Odalys Fennimoor", None], address1=["12 Kite Lane", None])
    joined = pd.concat([one, one.assign(name="Juniper Otterwick")], axis=1)
    with pytest.warns(UserWarning, match="6 of 10 columns are left out"):
        shared = ek.export(joined, tmp_path / "shared.csv").read_text()
    assert shared == "site,kind,site,kind\nSeekfolk,record,Seekfolk,record\n,link,,link\n"
    whole = ek.export(joined, tmp_path / "whole.csv", include_personal=True).read_text()
    assert whole.count("1980-02-29,") == 2
    with pytest.warns(UserWarning, match="2 of 3 columns"):  # neither name is left
        ek.export(joined[["name"]].assign(n=1), tmp_path / "names.xlsx")
    for named in ("Odalys Fennimoor", "Juniper Otterwick"):
        with pytest.raises(Leak):
            ek.export(joined.assign(n=1, label=named), tmp_path / "leak.csv")


@pytest.mark.parametrize("name", ["all.csv", "all.xlsx", "all.parquet", "queue.md", "fleet.html"])
def test_a_full_disk_is_one_plain_error_and_leaves_nothing(exposure, tmp_path, monkeypatch, name):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a module that is imported here would be cut
    path = tmp_path / name
    writes = {
        "queue.md": lambda: ek.export(exposure, path, include_personal=True),
        "fleet.html": lambda: ek.report(exposure, path, sections=["by_site"]),
    }
    write = writes.get(name, lambda: ek.export(exposure.records(), path, include_personal=True))
    message = f"No space is left for {path}: free some space, and try again"
    with file_size_limit(100), pytest.raises(DiskFull, match=f"^{re.escape(message)}$"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_work_queue_in_markdown_is_a_checklist(exposure, personal):
    text = personal(exposure, "queue.md").read_text()
    assert text.startswith("# Manual work\n")
    queue = ek.analysis.work_queue(exposure.steps())
    assert text.count("- [ ] ") == len(queue) > 10
    plain_text = text.replace("\\", "")
    labels = ("email", "phone", "full address")
    for row in queue[queue["site"].notna()].to_dict("records"):
        assert all(f"{row[name]}" in plain_text for name in ("person", "name", "reference_id"))
    assert all(f"Only if the form asks: {label}" in plain_text for label in labels)
    assert not any(f"Enter {label}: " in plain_text for label in labels)  # the sites do not require them


def test_personal_queue_is_marked_as_confidential(exposure, personal, tmp_path):
    notices = {
        "queue.md": "Confidential: this file contains personal data.",
        "queue.ics": "X-WR-CALNAME:Manual removals (confidential: personal data)",
    }
    for name, notice in notices.items():
        assert personal(exposure, name).read_text().count(notice) == 1
        shared = ek.export(exposure, tmp_path / f"shared-{name}").read_text()
        assert "onfidential" not in shared


def test_markdown_lists_what_is_on_file_once_per_person(exposure, personal):
    """An item of a person whose values stand above says so."""
    text = markdown(personal(exposure, "queue.md"))
    queue = ek.analysis.work_queue(exposure.steps()).dropna(subset="site")
    said = Counter(re.findall(r"Only if the form asks: full address(?: as listed)?: (.+)", text))
    assert 1 in said.values()
    assert sum(said.values()) < len(queue)
    assert text.count("Only if the form asks: see above") >= len(queue) - queue["user_id"].nunique()


def test_markdown_names_a_shared_address_to_begin_once_per_site(exposure, personal):
    text = markdown(personal(exposure, "queue.md"))
    removals = [part.partition("- [ ]") for part in text.split("\n## ")[1:]]
    starts = [(head.count("Begin at "), rest.count("Begin at: ")) for head, _, rest in removals]
    assert (1, 0) in starts
    assert all(not of_site or not of_items for of_site, of_items in starts)


def test_work_queue_in_excel_has_numbered_steps_and_values(exposure, personal, tmp_path):
    queue = ek.analysis.work_queue(exposure.steps())
    _, texts = sheet(personal(exposure, "queue.xlsx"))
    for name in ("reference_id", "name", "href", "guide"):
        assert {html.escape(one, quote=False) for one in queue[name].dropna()} <= {*texts}
    assert any(one.startswith("full name: ") or "\nfull name: " in one for one in texts)
    _, of_table = sheet(personal(queue, "table.xlsx"))
    assert any("\nemail: " in one for one in of_table)
    for one in (texts, of_table):
        assert any(text.startswith("1. ") and "\n2. " in text for text in one)
    _, shared = sheet(ek.export(exposure, tmp_path / "shared.xlsx"))
    assert not {*queue["reference_id"].dropna(), *queue["name"].dropna(), *queue["href"].dropna()} & {*shared}
    assert any(one.startswith("user ") for one in shared)


def test_work_queue_in_csv_joins_to_its_table(exposure, personal):
    queue = ek.analysis.work_queue(exposure.steps())
    file = personal(exposure, "work.csv")
    written = pd.read_csv(file, dtype={"record_id": "Int64"})
    assert len(written) == len(queue) > 1
    listings = written.dropna(subset="record_id").merge(queue, on=["user_id", "record_id"], validate="1:1")
    assert len(queue) > len(listings) == queue["record_id"].notna().sum() > 1  # there are pages, too
    assert pd.read_csv(file, dtype="str")["record_id"].dropna().str.isdecimal().all()
    assert (listings["site_x"] == listings["site_y"]).all()
    assert (listings["person_x"] == listings["person_y"]).all()
    assert (listings["minutes_x"] - listings["minutes_y"]).abs().max() < 1  # whole ones, which add up:
    assert written["minutes"].sum() == round(queue["minutes"].sum())
    assert (written["steps"].str.startswith("1. ")).all()
    rows, texts = sheet(personal(exposure, "work.xlsx"))
    assert rows == len(written) + 1
    assert {*written} <= {*texts}


def test_shared_work_queue_in_csv_has_pseudonyms_and_no_ids(exposure, world, tmp_path):
    with pytest.warns(UserWarning, match="^11 kinds of removals are omitted, .* include_personal=True"):
        file = ek.export(exposure, tmp_path / "shared.csv")
    shared = pd.read_csv(file)
    assert shared["person"].str.startswith("user ").all()
    assert len(shared) > 1
    assert shared[["user_id", "record_id", "minutes"]].isna().all(axis=None)
    assert leaked_values(file.read_text(), world) == 0


def test_history_queue_with_an_exposure_has_values_to_enter(three, history, personal):
    alone = personal(history, "alone.md").read_text()
    both = personal(history, "both.md", exposure=three).read_text()
    assert "Only if the form asks: email" not in alone
    assert (alone.count(NO_VALUES), both.count(NO_VALUES)) == (1, 0)
    assert "Only if the form asks: email" in both


def test_queued_page_has_its_contents_and_no_values(personal):
    page = {"url": "https://pages.example/1", "title": "A page"}
    person = Person(links=[page | {"contains": ["email", "phone"]}], alerts=[an_alert("Seen", page)])
    with seen_through(Service({1: person})) as exposure:
        text = markdown(personal(exposure, "queue.md"))
        html_page = ek.report(exposure).to_html()
    assert "- Contains: email, phone\n" in text
    assert "- On file full name: " in text
    assert "- On file email: " in text
    assert "full address" not in text  # the page does not contain it
    assert "Enter " not in text
    assert "email, phone</span>" in html_page
    assert "Enter: " not in html_page


def test_queued_listing_has_its_warnings(personal):
    record = a_record(1, name="Fenimoor Odalys")
    alert = an_alert("Found", record) | {"opt_out_procedure": ["Open the email and click the link."]}
    with seen_through(Service({7: Person(records=[record], alerts=[alert])})) as exposure:
        lines = markdown(personal(exposure, "queue.md"))
        _, texts = sheet(personal(exposure, "queue.xlsx"))
    assert "- Note: differs: name Fenimoor Odalys, on file " in lines
    assert lines.count(MAILBOX) == 1
    assert any("differs: name Fenimoor Odalys" in text and MAILBOX in text for text in texts)


def test_each_form_states_missing_values_once(history, personal, tmp_path):
    calendar = tasks_of(personal(history, "queue.ics"))
    _, texts = sheet(personal(history, "queue.xlsx"))
    with pytest.warns(UserWarning, match="0 rows"):
        shared = ek.export(history, tmp_path / "shared.md").read_text()
    assert str(calendar["COMMENT"]) == NO_VALUES
    assert not [task for task in calendar.walk("VTODO") if "missing" in str(task["DESCRIPTION"])]
    assert texts.count(NO_VALUES) == 1
    assert NO_VALUES not in shared


def test_work_queue_in_icalendar_has_tasks_with_stable_ids(exposure, personal):
    tasks, again = ([*tasks_of(personal(exposure, name)).walk("VTODO")] for name in ("a.ics", "b.ics"))
    assert len({str(task["UID"]) for task in tasks}) == len(tasks) > 5
    assert [task["UID"] for task in tasks] == [task["UID"] for task in again]
    assert "1. " in str(tasks[0]["DESCRIPTION"])
    assert {str(task["STATUS"]) for task in tasks} == {"NEEDS-ACTION"}
    priorities = [int(task["PRIORITY"]) for task in tasks]
    assert priorities == sorted(priorities)


def test_a_calendar_task_keeps_its_id_when_ages_change(tmp_path):
    def uid(name, **listing):
        record = a_record(11, href="https://seekfolk.example/11") | listing
        service = Service({1: Person([record], alerts=[an_alert("Found", record)])})
        with seen_through(service) as exposure:
            calendar = tasks_of(ek.export(exposure, tmp_path / name, include_personal=True))
        [task] = calendar.walk("VTODO")
        return str(task["UID"])

    first = uid("a.ics", age=45, locations=["Oakmere, CA"])
    assert uid("b.ics", age=46, locations=["Oakmere, CA", "Tall Pines, OR"]) == first
    assert uid("c.ics", href="https://seekfolk.example/12") != first


def test_listings_without_address_and_reference_have_own_ids(personal):
    listings = [a_record(number, href="", reference_id="") for number in (11, 12)]
    service = Service({1: Person(listings, alerts=[an_alert("Found", one) for one in listings])})
    with seen_through(service) as exposure:
        todos = tasks_of(personal(exposure, "queue.ics")).walk("VTODO")
    assert len({str(task["UID"]) for task in todos}) == len(todos) == 2


@pytest.mark.parametrize("name", ["queue.md", "queue.ics"])
def test_shared_queue_names_nobody_and_states_omissions(exposure, world, tmp_path, name):
    text = ek.export(exposure, tmp_path / name).read_text()
    assert leaked_values(text.replace("\n ", ""), world) == 0
    assert "Open the form." in text
    assert "omitted" in text


def test_queue_without_rows_warns_why(three, tmp_path):
    with pytest.warns(UserWarning, match="0 rows: .* fewer than five people .* include_personal=True"):
        ek.export(three, tmp_path / "queue.xlsx")


def test_hostile_texts_remain_text(personal):
    people = {number: hostile_demo.hostile(number, text) for number, text in enumerate(PAYLOADS, 1)}
    with seen_through(Service(people)) as exposure:
        text = personal(exposure, "queue.md").read_text()
        file = personal(exposure, "queue.ics")
    assert not re.search(r"<(?!https?://)|\]\(|!\[", re.sub(r"\\.", "", text))
    assert {component.name for component in tasks_of(file).walk()} == {"VCALENDAR", "VTODO"}
    assert not re.search(r"^(ATTACH|URL|VALARM|BEGIN:VEVENT)", file.read_text(), re.MULTILINE)


def test_name_in_a_shared_text_is_a_leak(tmp_path):
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


def test_history_queue_omits_ticked_steps(three, personal, tmp_path):
    history = kit.a_history(tmp_path, three, Clock())
    first = personal(history, "a.md").read_text()
    for _, step in history.steps().iterrows():
        history.tick(step)
    assert "- [ ] " in first
    assert "- [ ] " not in personal(history, "b.md").read_text()


def test_the_warning_names_only_columns_of_our_tables(tmp_path):
    table = pd.DataFrame({"site": ["Seekfolk"], "Zinnia Quill": [1], "href": ["https://seekfolk.example/1"]})
    with pytest.warns(UserWarning, match=r"^2 of 3 columns are left out \(href\): ") as warned:
        ek.export(table, tmp_path / "t.csv")
    assert "Zinnia" not in str(warned[0].message)
    ek.export(table[["site"]], tmp_path / "t.csv")  # nothing is left out, and there is no warning


def test_table_with_a_name_from_its_source_is_a_leak(exposure, tmp_path):
    name = exposure.records()["name"].dropna().iloc[0]
    named = ek.analysis.by_site(exposure.records()).assign(site=f"{name} Finder")
    with pytest.raises(Leak):
        ek.export(named, tmp_path / "sites.csv", source=exposure)
    assert not (tmp_path / "sites.csv").exists()


@pytest.mark.parametrize(
    "text", ["=1+1", "\u200b=1", "\x00=1", "\uff1d1+1", "x;=HYPERLINK(1)", "x\t@SUM(A1)"]
)
def test_no_csv_text_is_a_formula_in_any_program(tmp_path, text):
    table = pd.DataFrame({"site": [text], text: [1]})
    written = ek.export(table, tmp_path / "t.csv", include_personal=True).read_text()
    for separator in (",", ";", "\t"):
        for row in csv.reader(io.StringIO(written), delimiter=separator):
            assert not [cell for cell in row if re.match(r"[\s\x00\u200b]*[=+@|%\uff1d-]", cell)]


def test_index_is_searched_for_leaks_too(tmp_path):
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
            records.set_index("name").exposure.redact()  # the removed index contains the site's name
        named = records.exposure.user_by_site()
        named.index = pd.Index([f"{who.profile['last_name']} {n}" for n in named.index], name="user_id")
        assert named.exposure.redact().index.tolist() == [*range(len(named))]
    assert list(tmp_path.iterdir()) == []


def test_lists_are_joined_by_semicolons_in_every_source(exposure, personal, tmp_path):
    with History(tmp_path / "history") as history:
        history.collect(exposure, progress=False)
        for table in (exposure.records(), history.records()):
            text = personal(table, "t.csv").read_text()
            _, cells = sheet(personal(table, "t.xlsx"))
            assert {"; ".join(places) for places in table["locations"]} <= {*cells, ""}
            assert "['" not in " ".join(cells)
            assert all("; ".join(places) in text for places in table["locations"])
            assert "['" not in text
