"""Filters of `Exposure`, how its tables print, and charts of the wrong table."""

import re
import warnings

import pandas as pd
import pytest
from support.demos import small_demo

from exposurekit import analysis, charts
from exposurekit.analysis.selection import select
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument, MissingColumns
from exposurekit.notebook.commands import verbs
from exposurekit.questions import QUESTIONS

CHARTS = sorted({*charts.__all__} & {*analysis.__all__})


@pytest.fixture(scope="module")
def demo():
    return small_demo()


@pytest.fixture(scope="module")
def exposure(demo):
    return demo.exposure


@pytest.mark.parametrize("table", ["records", "alerts", "steps"])
@pytest.mark.parametrize("status", [REMOVED, "Pending Removal", [DISCOVERED, PENDING_REMOVAL], []])
def test_a_status_selects_rows_whatever_its_case(exposure, table, status):
    whole = exposure[table]
    wanted = [status.casefold()] if isinstance(status, str) else status
    expected = whole[whole["status"].isin(wanted)].reset_index(drop=True)
    pd.testing.assert_frame_equal(getattr(exposure, table)(status=status), expected)


def test_open_is_every_open_status(exposure):
    records = exposure.records()
    expected = records[analysis.is_open(records["status"])].reset_index(drop=True)
    assert 0 < len(expected) < len(records)
    pd.testing.assert_frame_equal(exposure.records(status="Open"), expected)
    alerts = exposure.alerts(status="open", source_type="record")
    assert 0 < len(alerts) < len(exposure.alerts(status="open"))  # pages have no status, and are there
    rows, warnings_shown = select(records.head(0), {"status": "open"})
    assert (len(rows), warnings_shown) == (0, [])


@pytest.mark.parametrize("table", ["records", "alerts", "steps"])
def test_site_status_and_user_select_together(exposure, table):
    whole = exposure[table]
    of = whole.dropna(subset=["site", "status"]).iloc[0]
    selected = getattr(exposure, table)(int(of["user_id"]), site=of["site"].upper(), status=of["status"])
    same = (whole[["user_id", "site", "status"]] == of[["user_id", "site", "status"]]).all(axis=1)
    assert len(selected) == same.sum() > 0
    assert not selected.equals(getattr(exposure, table)(int(of["user_id"])))


def test_links_are_selected_by_contents(exposure):
    links = exposure.links()
    for kind in ("email", "Phone", ["address", "phone"]):
        wanted = {kind.lower()} if isinstance(kind, str) else {*kind}
        expected = [bool(wanted & {*contains}) for contains in links["contains"]]
        assert 0 < len(exposure.links(contains=kind)) == sum(expected) < len(links)


def test_alerts_are_selected_by_their_source(exposure):
    assert {*exposure.alerts(source_type="link")["source_type"]} == {"link"}


def test_an_unknown_site_warns_and_names_the_nearest(exposure):
    site = exposure.records()["site"].iloc[0]
    with pytest.warns(UserWarning, match=re.escape(f" Did you mean {site!r}?")):
        assert exposure.records(site=site[:-1] + "zz").empty
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a status that exists but that nothing has right now is no mistake
        assert len(exposure.records(user=exposure.users()["user_id"].iloc[0].item(), status=REMOVED)) >= 0
        assert exposure.records(status="vanished").empty


@pytest.mark.parametrize("wrong", [3, ["a", 3], [None]])
def test_what_is_no_text_is_refused(exposure, wrong):
    with pytest.raises(InvalidArgument, match="site: pass a string or several"):
        exposure.records(site=wrong)


@pytest.mark.parametrize(
    ("column", "typed", "warning"),
    [
        ("site", "Nosy Herron", "No listing is on a site named 'Nosy Herron'. Did you mean 'Nosy Heron'?"),
        (
            "site",
            "Elsewhere",
            "No listing is on a site named 'Elsewhere'. The values are: Nosy Heron, Seekfolk.",
        ),
        ("status", "opne", "No row has the status 'opne'. Did you mean 'open'?"),
        ("status", "pendng", "No row has the status 'pendng'. Did you mean 'pending removal'?"),
        ("site", "Seek", "No listing is on a site named 'Seek'. Did you mean 'Seekfolk'?"),
        ("status", "gone", "No row has the status 'gone'. The values are: discovered."),
    ],
)
def test_a_warning_repeats_what_was_typed_and_lists_values(column, typed, warning):
    table = pd.DataFrame({"site": ["Nosy Heron", "Seekfolk"], "status": "discovered"})
    rows, doubts = select(table, {column: typed})
    assert (len(rows), doubts) == (0, [warning])


def test_a_selection_changes_no_table():
    table = pd.DataFrame({"site": ["A", "B", None], "n": [1, 2, 3]}, index=[7, 8, 9])
    selected, doubts = select(table, {"site": "b"})
    assert (selected.to_dict("list"), doubts) == ({"site": ["B"], "n": [2]}, [])
    assert table.index.tolist() == [7, 8, 9]


def test_the_magic_takes_the_same_filters():
    assert {"site", "status"} <= {*verbs()["records"].options}


def test_head_shows_site_and_status_in_80_columns(exposure, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        output = str(exposure.records().head())
    lines = output.splitlines()
    assert max(map(len, lines)) <= 80
    assert {"site", "status"} <= {*lines[0].split()}
    first = exposure.records().iloc[0]
    assert first["site"] in lines[1]
    assert first["status"] in lines[1]


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_of_another_table_names_the_right_one(demo, exposure, name):
    draw = getattr(charts, name)
    with pytest.raises(InvalidArgument, match=rf"charts\.{name} needs a DataFrame: pass "):
        draw(exposure)
    with pytest.raises(MissingColumns) as refused:
        draw(exposure.users())
    advice = str(refused.value).split(": pass ")[1]
    passed, _, called = advice.partition(", or call ")
    scope = {name: exposure[name] for name in ("records", "links", "steps", "on_file")}
    scope |= {"analysis": analysis, "history": demo.history}
    day = demo.history.runs()["finished_at"].iloc[1].date().isoformat()
    table = eval(passed.replace("2026-11-13", day), scope)  # noqa: S307  the call that it advises
    assert isinstance(draw(table), charts.Chart)
    assert bool(called) == (QUESTIONS[name].inputs != ())
    if called:
        assert charts.describe(eval(called, scope)) == charts.describe(draw(table))  # noqa: S307


def test_a_chart_of_records_names_both_calls(exposure):
    advice = "pass analysis.by_site(records), or call records.exposure.chart('by_site')"
    with pytest.raises(MissingColumns, match=re.escape(advice)):
        charts.by_site(exposure.records())
