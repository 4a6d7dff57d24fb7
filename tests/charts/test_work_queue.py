"""Charts of manual work: missing fields, requests to people, and the queue."""

import numpy as np
import pandas as pd
import pytest
from support.chart_tables import title

from exposurekit import analysis, charts

NOTHING_FILLED = pd.DataFrame({"user_id": pd.Series([], dtype="int64"), "field": pd.Series([], dtype="str")})


def waiting(*rows):
    """Records that wait: whose they are, and what they require."""
    table = pd.DataFrame(rows, columns=["user_id", "user_fields_required_for_removal"])
    return table.assign(site="Near", status="discovered")


def blocked(*rows):
    return charts.blockers(analysis.blockers(waiting(*rows), NOTHING_FILLED))


def asks_chart(*rows, **options):
    return charts.best_next_fields(analysis.best_next_fields(waiting(*rows), NOTHING_FILLED, **options))


def queue(*rows):
    table = pd.DataFrame(rows, columns=["group", "state", "listings", "people", "minutes"])
    ranks = range(1, len(table) + 1)
    return table.assign(rank=ranks, user_id=ranks, kind="listing", site=None)


def test_cells_hold_the_removals_that_a_field_alone_lets_start():
    figure = blocked((1, ["birth_date"]), (1, ["birth_date"]), (1, ["zip", "email"]), (2, ["birth_date"]))
    assert figure.layout.xaxis.ticktext == ("birth_date", "email", "zip")
    assert figure.layout.yaxis.ticktext == ("user 1", "user 2")
    assert [[*row] for row in figure.data[0].z] == [[2, 0, 0], [1, None, None]]
    assert title(figure) == "Adding birth date would let 3 removals start, for 2 people"


def test_fields_outside_the_profile_are_separate_and_grey():
    figure = blocked((1, ["birth_date"]), (1, ["pet"]), (1, ["pet"]))
    listed, other = figure.data
    assert figure.layout.xaxis.ticktext == ("birth_date", "pet<br>(not in the profile)")
    assert [[*row] for row in listed.z] == [[1, None]]
    assert [[*row] for row in other.z] == [[None, 2]]
    assert listed.colorscale != other.colorscale
    assert "pet: alone unlocks 2 removals" in charts.describe(figure)
    assert "may be on file" in charts.describe(figure)
    assert title(figure) == "Adding birth date would let 1 removal start"


@pytest.mark.parametrize(
    ("field", "words"),
    [("address1", "street"), ("usa_state", "usa state"), ("identification", "identification")],
)
def test_the_title_names_a_field_by_its_label(field, words):
    assert title(blocked((1, [field]))) == f"Adding {words} would let 1 removal start"


def test_without_a_helpful_single_field_the_title_says_so():
    figure = blocked((1, ["zip", "email"]))
    assert title(figure) == "No single field unlocks a removal; email is missing for 1 listing"


def test_of_100_people_the_first_have_rows_of_their_own():
    figure = blocked(*((user, ["zip"]) for user in range(100)))
    assert len(figure.layout.yaxis.ticktext) == charts.MAX_ROWS + 1
    assert figure.layout.yaxis.ticktext[-1] == "88 more people"
    assert [row[0] for row in figure.data[0].z][-2:] == [1, 88]
    assert figure.data[0].zmax == 1


@pytest.mark.parametrize(
    ("figure", "rest"),
    [
        (
            asks_chart(*((user, ["zip"]) for user in range(100)), asks=100),
            "12 requests; the table has all 100",
        ),
        (
            charts.work_queue(queue(*((f"{number:03}.example", "open", 1, 1, 0.2) for number in range(500)))),
            "12 groups; the table has all 500",
        ),
    ],
    ids=["requests", "groups"],
)
def test_of_many_requests_and_groups_the_first_are_drawn(figure, rest):
    assert len(figure.data[0].x) == charts.MAX_ROWS
    assert f"The chart shows {rest}." in charts.describe(figure)
    assert rest.endswith("500") or "100 requests unlock 100 removals" in charts.describe(figure)


def test_of_a_hundred_fields_the_most_helpful_are_drawn():
    figure = blocked(*((1, [f"field_{number:03}"]) for number in range(100)))
    assert len(figure.layout.xaxis.ticktext) == charts.MAX_ROWS
    assert "The chart shows 12 fields; the table has all 100." in charts.describe(figure)


def test_asks_add_up():
    figure = asks_chart((1, ["birth_date"]), (1, ["birth_date"]), (2, ["birth_date"]), (3, ["zip", "email"]))
    before, new = figure.data
    assert ([*before.x], [*new.x], [*new.text]) == ([0, 2, 3], [2, 1, 1], ["2", "3", "4"])
    assert title(figure) == "Ask 2 people for birth_date: this unlocks 3 removals"
    assert "3 requests unlock 4 removals" in charts.describe(figure)


def test_a_queue_begins_where_its_table_begins():
    table = queue(
        ("near.example", "open", 2, 2, 5.5),
        ("near.example", "started", 2, 2, 2.5),
        ("far.example", "open", 1, 1, 5.0),
        ("far.example", "done", 1, 1, 0.0),
    )
    figure = charts.work_queue(table)
    assert figure.layout.yaxis.ticktext == ("near.example", "far.example")
    states = {trace.name: [*trace.x] for trace in figure.data if trace.type == "bar"}
    assert states == {
        "started": [1, 0],
        "to do": [1, 1],
        "later": [0, 0],
        "unable": [0, 0],
        "done": [0, 1],
        "minutes": [8, 5],
    }
    assert title(figure) == "Start with near.example: 2 listings of 2 people, about 8 min"
    [items] = [trace for trace in figure.data if trace.type == "scatter"]
    assert [text.strip() for text in items.text] == ["2", "2"]
    assert "about 13 min in total" in charts.describe(figure)


def test_the_start_leaves_out_doubtful_records():
    table = queue(
        ("near.example", "open", 1, 1, 5.0),
        ("near.example", "open", 1, 1, 6.0),
        ("near.example", "open", 1, 1, 7.0),
    ).assign(reason=[None, None, "email is not on file"])
    assert (
        title(charts.work_queue(table)) == "Start with near.example: 2 of 3 listings, 2 people, about 11 min"
    )
    doubtful = charts.work_queue(table.assign(reason="none removed"))
    assert title(doubtful) == "Start with near.example: 3 listings of 3 people, about 18 min"


def test_what_cannot_be_done_yet_is_marked_as_later():
    """A bar of its own, which says why on hover; a group of nothing else has it in its label."""
    table = queue(
        *(("near.example", "open", 2, 2, 5.0), ("near.example", "open", 2, 2, 5.0)),
        *(("far.example", "started", 1, 1, 5.0), ("far.example", "done", 1, 1, 0.0)),
    ).assign(reason=[None, "email is <b>not</b> on file", "none removed", None])
    figure = charts.work_queue(table)
    assert figure.layout.yaxis.ticktext == ("near.example", "far.example (later)")
    later = next(trace for trace in figure.data if trace.name == "later")
    assert ([*later.x], later.showlegend) == ([1, 1], True)
    assert later.customdata[0].endswith("<br>1 later: email is &lt;b&gt;not&lt;/b&gt; on file")
    assert later.customdata[1].endswith("<br>1 later: none removed")
    assert next(trace for trace in figure.data if trace.name == "started").x == (0, 0)
    assert "4 listings and 0 web pages: 1 to do, 2 later, 1 done" in charts.describe(figure)


def test_a_group_of_one_site_has_its_name():
    table = queue(
        ("near.example", "open", 2, 2, 5.0),
        ("near.example", "open", 2, 2, 5.0),
        ("shared.example", "open", 2, 2, 6.0),
        ("shared.example", "open", 2, 2, 6.0),
        ("club.example", "open", 1, 1, 7.0),
    ).assign(site=["Near", "Near", "Far", "Farther", None])
    figure = charts.work_queue(table)
    assert figure.layout.yaxis.ticktext == ("Near", "shared.example", "club.example")


def test_beside_listings_web_pages_are_one_group_in_its_place():
    table = queue(
        ("near.example", "open", 2, 2, 70.0),
        ("near.example", "open", 2, 2, 80.0),
        ("club.example", "open", 1, 1, 3.0),
        ("fair.example", "open", 1, 1, 4.0),
        ("late.example", "open", 1, 1, 5.0),
    ).assign(kind=["listing", "listing", "page", "page", "listing"])
    figure = charts.work_queue(table)
    assert figure.layout.yaxis.ticktext == ("near.example", "Web pages", "late.example")
    minutes = next(trace for trace in figure.data if trace.name == "minutes")
    assert ([*minutes.x], [*minutes.text]) == ([150, 7, 5], ["2 h 30 min", "7 min", "5 min"])
    pages = charts.work_queue(table[table["kind"] == "page"])
    assert pages.layout.yaxis.ticktext == ("club.example", "fair.example")


def test_groups_without_a_unique_site_are_named_by_host():
    table = queue(("a.example", "open", 1, 1, 5.0), ("b.example", "open", 1, 1, 5.0)).assign(site="Near")
    assert charts.work_queue(table).layout.yaxis.ticktext == ("a.example", "b.example")
    unknown = charts.work_queue(queue((np.nan, "open", 1, 1, 0.2)))
    assert unknown.layout.yaxis.ticktext == ("not stated",)


def test_the_chart_of_a_diff_is_named_in_the_error():
    with pytest.raises(AttributeError, match=r"charts\.changes\(diff\.why\)"):
        charts.diff  # noqa: B018


def test_states_have_patterns_of_their_own():
    rows = [("near.example", state, 1, 1, 0.2) for state in ("started", "open", "unable", "done")]
    figure = charts.work_queue(queue(*rows))
    shapes = [trace.marker.pattern.shape for trace in figure.data if trace.showlegend is not False]
    assert len(set(shapes)) == len(shapes) == 4


def test_the_legend_names_what_is_drawn():
    figures = charts.work_queue(queue(("near.example", "open", 1, 1, 0.2))), asks_chart((1, ["zip"]))
    for figure, name in zip(figures, ("to do", "this request"), strict=True):
        assert [trace.name for trace in figure.data if trace.showlegend is not False] == [name]
    single = next(trace for trace in figures[1].data if trace.name == "this request")
    assert not single.marker.pattern.shape
    assert figures[1].layout.bargap == 0.6


def test_a_finished_queue_has_its_own_title():
    figure = charts.work_queue(
        queue(("near.example", "done", 0, 0, 0.0), ("far.example", "unable", 0, 0, 0.0))
    )
    assert title(figure) == "All manual work is done or marked unable"
    assert "1 unable, 1 done" in charts.describe(figure)


def test_a_filtered_queue_says_how_much_is_left_out():
    one = queue(*(("near.example", "open", 8, 8, 2.375) for _ in range(8))).head(1)
    figure = charts.work_queue(one)
    assert title(figure) == "Start with near.example: 1 listing, about 2 min"
