"""Charts over time: gaps without runs, causes that add up, and forecasts with their interval."""

import io
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from support.chart_tables import title
from support.histories import DAWN, Clock, Person, Service, a_record, seen_through

from exposurekit import analysis, charts
from exposurekit.errors import InvalidArgument
from exposurekit.history import History

DAY = np.timedelta64(1, "D")
WHY = (
    *("open before", "new", "entered scope", "listed again"),
    *("removed", "vanished", "left scope", "open after"),
)


def days(*numbers):
    return pd.to_datetime([f"2026-03-{number:02}" for number in numbers], utc=True)


def counted(periods, discovered=4, removed=1, **more):
    """A table over time with these numbers in each period."""
    table = pd.DataFrame(
        {"period": periods, "at": periods, "discovered": discovered, "removed": removed, "other": 0}
    )
    table["total"] = table["discovered"] + table["removed"]
    return table.assign(open=table["discovered"], vanished=0, unknown=0, **more)


def by_site(n, periods=3):
    """Sites of which the first has the most open; each has one removed."""
    at = days(*range(1, periods + 1))
    tables = [counted(at, n - number, site=f"Site {number:03}") for number in range(n)]
    return pd.concat(tables).sort_values(["period", "site"], ignore_index=True)


def why(*n):
    table = pd.DataFrame({"cause": WHY, "n": [*n, 0]})
    return table.assign(open=table["n"].cumsum())


def expected(**more):
    row = {
        "open_now": 9,
        "of_open": 4.0,
        "of_gone": 1.0,
        "of_new": 2.0,
        "open": 7.0,
        "low": 3.0,
        "high": 12.0,
    }
    horizons = [{"days": ahead, **row, "beyond": 0, "reason": None, **more} for ahead in (30, 60, 90)]
    table = pd.DataFrame(horizons).astype({"reason": "str"})
    table.attrs["level"] = 0.95
    return table


def named(figure, name):
    return [trace for trace in figure.data if trace.name == name]


def covered(trace):
    """Return the days on which an outline has any width, from its corners."""
    x, y = np.array(trace.x, "M8[s]"), np.array(trace.y, "float64")
    covered_days = set()
    for left, right in zip(range(len(x) - 1), range(1, len(x)), strict=True):
        if not np.isnan([y[left], y[right]]).any() and x[left] < x[right]:
            covered_days |= set(np.arange(x[left], x[right], DAY).astype("M8[D]").tolist())
    return covered_days


def test_a_day_without_a_run_leaves_a_gap():
    figure = charts.status_over_time(counted(days(2, 3, 7)))
    discovered, _ = named(figure, "discovered")
    assert {day.day for day in covered(discovered)} == {2, 3, 7}
    [gap] = named(figure, "no observations")
    assert {day.day for day in covered(gap)} == {4, 5, 6}
    assert "3 days without a run" in charts.describe(figure)
    whole = charts.status_over_time(counted(days(2, 3, 4)))
    assert named(whole, "no observations") == []
    assert "without gaps" in charts.describe(whole)


def test_areas_are_stacked():
    figure = charts.status_over_time(counted(days(2, 3), [4, 6], [1, 2]))
    edges = [trace for trace in figure.data if trace.hovertemplate]
    assert [trace.y[:2].tolist() for trace in edges] == [[4, 6], [5, 8]]
    assert [trace.customdata[:2].tolist() for trace in edges] == [[4, 6], [1, 2]]


def test_incomplete_runs_are_marked():
    figure = charts.status_over_time(counted(days(2, 3, 4), people=[3, 3, 3], unseen=[0, 1, 0]))
    [marks] = named(figure, "incomplete run")
    assert [*marks.x] == ["2026-03-03T00:00:00"]
    assert [*marks.customdata] == ["1 of 3 people not loaded completely"]
    assert "the last run loaded 3 of 3 people completely; 1 incomplete run" in charts.describe(figure)


def test_before_the_first_run_people_are_not_mentioned():
    unknown = pd.array([None, None], dtype="Int64")
    figure = charts.status_over_time(counted(days(2, 3), people=unknown, unseen=unknown))
    assert "people" not in charts.describe(figure)


def rows_of(figure):
    """The edges of the rows of groups, first at the top."""
    return [trace for trace in figure.data if trace.yaxis and trace.hovertemplate]


def test_absent_records_are_drawn_where_there_are_any():
    table = counted(days(2, 3))
    assert named(charts.status_over_time(table), "vanished") == []
    figure = charts.status_over_time(table.assign(vanished=[0, 2], unknown=[1, 0], other=[0, 1]))
    assert all(named(figure, name) for name in ("vanished", "unknown", "other"))


def test_the_finding_states_the_peak():
    figure = charts.status_over_time(counted(days(1, 2, 3), [8, 9, 4]))
    assert title(figure) == "4 of 5 listings are open; peak of 9 on 2026-03-02"
    began = "4 of 5 listings are open; down from 9 when monitoring began on 2026-03-02"
    assert title(charts.status_over_time(counted(days(2, 3), [9, 4]))) == began
    before_anyone = counted(days(1, 2, 3), [0, 9, 4], people=[0, 3, 3]).assign(total=[0, 9, 9])
    figure = charts.status_over_time(before_anyone)
    assert title(figure) == began.replace("of 5", "of 9")
    assert min(pd.Timestamp(at) for trace in figure.data for at in trace.x) >= days(2)[0].tz_localize(None)
    links = counted(days(2, 3)).drop(columns="removed").rename(columns={"discovered": "listed"})
    assert title(charts.status_over_time(links.assign(total=links["listed"]))) == "4 listed"


@pytest.mark.parametrize(("before", "words"), [(9, "5 fewer than"), (3, "1 more than"), (4, "as many as")])
def test_the_finding_compares_with_four_weeks_before(before, words):
    """Whole weeks: where a service finds once a week, other days before are of another weekday."""
    figure = charts.status_over_time(counted(days(1, 2, 29), [before, 11, 4]))
    assert title(figure) == f"4 of 5 listings are open, {words} 28 days before; peak of 11 on 2026-03-02"


def test_the_finding_does_not_compare_with_a_time_without_people():
    figure = charts.status_over_time(counted(days(1, 2, 29), [0, 11, 4], people=[0, 3, 3]))
    assert title(figure) == "4 of 5 listings are open; peak of 11 on 2026-03-02"


def test_of_many_sites_eight_have_rows_and_the_rest_one():
    table = by_site(500)
    figure = charts.status_over_time(table)
    names = [*(f"Site {number:03}" for number in range(8)), "492 more sites"]
    assert [trace.name for trace in rows_of(figure)] == names
    last = [trace.y[2] for trace in rows_of(figure)]
    assert sum(last) == table.loc[table["period"] == table["period"].max(), "open"].sum()
    assert "500 sites" in charts.describe(figure)


def test_sites_with_most_open_have_rows_then_the_changed():
    steady, cleared = by_site(3), by_site(9).assign(discovered=0, open=0)
    cleared["site"] = "Cleared " + cleared["site"]
    cleared.loc[cleared["period"] == cleared["period"].min(), "open"] = 30
    cleared.loc[cleared["site"] == "Cleared Site 000", "open"] = [2, 0, 0]
    figure = charts.status_over_time(pd.concat([cleared, steady], ignore_index=True))
    names = [trace.name for trace in rows_of(figure)]
    assert names[:3] == ["Site 000", "Site 001", "Site 002"]
    assert all(name.startswith("Cleared") for name in names[3:8])
    assert "Cleared Site 000" not in names
    assert names[8] == "4 more sites"


def test_the_site_that_the_title_names_has_a_row():
    at = days(1, 2, 3)
    busy = [counted(at, site=f"Busy {n}").assign(open=[40, 20, n % 2]) for n in range(9)]
    steady = counted(at, 15, site="Nosy Heron")
    figure = charts.status_over_time(pd.concat([*busy, steady], ignore_index=True))
    assert title(figure) == "19 are open; Nosy Heron has the most open: 15"
    assert rows_of(figure)[0].name == "Nosy Heron"
    assert "Open at the end: Nosy Heron 15; Busy 1 1" in charts.describe(figure)


def test_rows_of_groups_share_one_scale_and_have_labels():
    figure = charts.status_over_time(by_site(9))
    axes = [figure.layout[f"yaxis{number}".replace("yaxis1", "yaxis")] for number in range(9, 0, -1)]
    assert {axis.range for axis in axes} == {(0, 9)}
    assert [axis.ticktext for axis in axes] == [(trace.name,) for trace in rows_of(figure)]
    assert all(upper.domain[0] > lower.domain[1] for upper, lower in pairwise(axes))
    newest = [note.text for note in figure.layout.annotations]
    assert newest == [str(int(trace.y[2])) for trace in rows_of(figure)]
    assert figure.layout.xaxis.title.text == "Open listings, each row from 0 to 9; UTC"


def test_a_group_has_no_line_before_its_first_period():
    table = by_site(2)
    later = table[(table["site"] == "Site 000") | (table["period"] > table["period"].min())]
    figure = charts.status_over_time(later)
    line = rows_of(figure)[1]
    assert np.isnan(line.y[0])
    assert line.y[1] == 1
    [area] = [trace for trace in figure.data if trace.fill and trace.yaxis == line.yaxis]
    assert np.isnan(area.y[0])


def test_gaps_are_hatched_over_all_rows():
    at = days(1, 2, 9)
    figure = charts.status_over_time(pd.concat([counted(at, site=name) for name in "ab"]))
    [gap] = named(figure, "no observations")
    assert gap.yaxis == "y3"
    assert figure.layout.yaxis3.domain == (0, 1)
    assert {day.day for day in covered(gap)} == {*range(3, 9)}


def test_people_are_named_by_id_in_any_order():
    table = by_site(9)
    shuffled = table.sample(frac=1, random_state=7)
    assert charts.status_over_time(shuffled).to_json() == charts.status_over_time(table).to_json()
    ids = table["site"].str[-1:].astype("int64")
    people = table.assign(user_id=ids).drop(columns="site").query("user_id < 2")
    assert [trace.name for trace in rows_of(charts.status_over_time(people))] == ["user 0", "user 1"]


def test_a_thousand_days_have_as_few_traces_as_one():
    at = pd.date_range("2024-01-01", periods=1000, tz="UTC")
    one, many = (charts.status_over_time(counted(some)) for some in (at[:1], at))
    assert len(one.data) == len(many.data)


def lengths(figure):
    """From where to where the bar of each row goes, by the label of the row."""
    labels = figure.layout.yaxis.ticktext
    return {
        labels[row]: (trace.base or 0, n)
        for trace in figure.data
        for row, n in zip(trace.y, trace.x, strict=True)
    }


def test_bars_of_causes_begin_at_zero_and_add_up():
    """A removal of 6 of 44 is as long as 6, and not down to the edge of the chart; what did not occur has no bar."""
    figure = charts.changes(why(44, 3, 0, 3, -5, -1, 0))
    total = "net change: 44 to 44"
    bars = lengths(figure)
    assert [*figure.layout.yaxis.ticktext] == ["new", "listed again", "removed", "vanished", total]
    assert bars == {
        "new": (0, 3),
        "listed again": (0, 3),
        "removed": (0, -5),
        "vanished": (0, -1),
        total: (0, 0),
    }
    start, end = figure.layout.xaxis.range
    assert start < -5
    assert end > 3
    assert lengths(charts.changes(why(44, 0, 0, 0, 0, 0, 0))) == {total: (0, 0)}
    assert charts.changes(why(4, 2, 0, 0, 0, 0, 0)).layout.xaxis.range[0] == 0


def test_changes_of_scope_are_separate():
    figure = charts.changes(why(10, 3, 2, 1, -5, -2, -1))
    [view] = named(figure, "change of scope")
    assert [*view.text] == ["+2", "\N{MINUS SIGN}1"]
    entered, left = (text.replace("<br>", " ") for text in view.customdata)
    note = "already listed when monitoring of its user began or resumed; not a new listing"
    assert entered == f"entered scope: +2 ({note})"
    assert left.startswith("left scope: \N{MINUS SIGN}1 (the service no longer lists the user")
    assert "Changes of scope account for +1" in charts.describe(figure)


def test_vanished_is_not_removed():
    figure = charts.changes(why(10, 0, 0, 0, -5, -2, 0))
    assert [*named(figure, "removed")[0].text] == ["\N{MINUS SIGN}5"]
    assert [*named(figure, "vanished")[0].text] == ["\N{MINUS SIGN}2"]
    assert title(figure) == "3 are open, 7 fewer than before: 5 removed, 2 vanished"
    same, none = (charts.changes(why(n, 0, 0, 0, 0, 0, 0)) for n in (4, 0))
    assert title(same) == "4 are open, as many as before"
    assert "no changes" in charts.describe(same)
    assert title(none) == "0 are open, as many as before"


def test_causes_of_a_score_are_in_points():
    causes = ["score before", "new", "removed", "score after"]
    table = pd.DataFrame({"cause": causes, "points": [228, 9, -80, 0], "score": [228, 237, 157, 157]})
    finding = "157 points in total, 71 fewer than before: 80 points for removed items, 9 for new items"
    assert title(charts.score_changes(table)) == finding


def test_periods_as_text_are_refused_with_the_conversion():
    table = pd.read_csv(io.StringIO(counted(days(1, 2)).to_csv(index=False)))
    with pytest.raises(InvalidArgument, match=r"period must be dates: pd.to_datetime\(table\['period'\]"):
        charts.status_over_time(table)


def test_a_forecast_is_a_fan_that_opens_from_now():
    figure = charts.forecast(expected())
    [band] = named(figure, "95% interval")
    assert [*zip(band.x, band.y, strict=True)][:4] == [(0, 9), (30, 3), (60, 3), (90, 3)]
    assert [*band.y[4:]] == [12, 12, 12, 9]
    [line] = named(figure, "expected")
    assert [*line.y] == [9, 7, 7, 7]
    assert [*line.text] == ["9 now", "7", "7", "7"]
    assert "4 open now, still open<br>1 gone now, listed again<br>2 new" in line.customdata[1]
    assert title(figure).startswith(
        "Forecast for 90 days ahead: 7 open listings (95% interval: 3\N{EN DASH}12)"
    )
    assert "In 30 days: 7 open listings (95% interval: 3\N{EN DASH}12)" in charts.describe(figure)
    assert [*figure.layout.xaxis.ticktext] == ["now", "+30", "+60", "+90"]


def test_a_forecast_begins_with_the_past():
    table = expected()
    table.attrs["past"] = [(-400, 1), (-179.5, 40), (-12, 5), (0, 9)]
    figure = charts.forecast(table)
    [line] = named(figure, "open so far")
    assert [*zip(line.x, line.y, strict=True)] == [(-179.5, 40), (-12, 5), (0, 9)]
    assert figure.layout.xaxis.range[0] == -179.5
    assert [*figure.layout.xaxis.ticktext][:3] == ["\N{MINUS SIGN}120", "\N{MINUS SIGN}60", "now"]
    assert figure.layout.yaxis.range[1] > 40


def test_the_past_of_a_history_ends_at_the_forecast(tmp_path):
    """And begins when somebody is first observed."""
    service, clock = Service({}), Clock()
    with seen_through(service) as exposure, History(tmp_path / "history", clock=clock) as history:
        clock.set(DAWN - timedelta(days=1))
        history.collect(exposure, progress=False)
        service.people = {1: Person([a_record(11)])}
        for day in range(3):
            clock.set(DAWN + timedelta(days=day))
            service.people[1].records += [a_record(20 + day)]
            history.collect(exposure.refresh(), progress=False)
        hours = -4 / 24  # from the run to the end of its day
        expected = [(pytest.approx(hours - 2 + day, abs=0.01), 2 + day) for day in range(3)]
        assert history.forecast().attrs["past"] == expected
        assert history.forecast(as_of=(DAWN + timedelta(days=1)).date()).attrs["past"][-1][1] == 3


def test_without_a_forecast_the_chart_states_the_reason():
    why = "30 days ahead require 60 days of history"
    missing = dict.fromkeys(("of_open", "of_gone", "of_new", "open", "low", "high"), np.nan)
    figure = charts.forecast(expected(**missing, reason=why))
    assert named(figure, "95% interval") == named(figure, "expected") == []
    assert title(figure).startswith(f"No forecast: {why}")
    assert f"In 60 days: no forecast ({why})." in charts.describe(figure)
    [note] = figure.layout.annotations
    assert (note.text, note.x) == ("no forecast", 60)
    table = expected()
    table.loc[2, [*missing]] = np.nan
    message = "Forecast for 60 days ahead: 7 open listings"  # of the longest with a number
    assert title(charts.forecast(table)).startswith(message)


def test_records_older_than_any_observed_are_stated():
    figure = charts.forecast(expected(beyond=4))
    assert named(figure, "expected")[0].customdata[1].endswith("<br>4 older than any observed")
    assert "4 older than any observed" in charts.describe(figure)


def test_of_many_horizons_some_are_named():
    table = pd.concat([expected().head(1)] * 90).assign(days=range(1, 91))
    figure = charts.forecast(table)
    assert len(figure.layout.xaxis.ticktext) <= 13
    assert "+90" in figure.layout.xaxis.ticktext
    assert len(charts.describe(figure)) < 3000


def test_counts_of_the_analysis_are_drawn():
    moved = pd.DataFrame({"at": days(2, 5), "prev_status": [None, "discovered"], "n": [5, 2]})
    moved["status"] = ["discovered", "removed"]
    runs = pd.DataFrame({"at": days(2, 5), "people": 3, "unseen": 0})
    figure = charts.status_over_time(analysis.status_over_time(moved, runs))
    assert title(figure) == "3 of 5 listings are open; down from 5 when monitoring began on 2026-03-02"
    assert {day.day for day in covered(named(figure, "no observations")[0])} == {3, 4}
