"""Figures: what they show, what they say, and that no text from outside becomes markup in them."""

import json

import pandas as pd
import pytest

from exposurekit import analysis, charts
from exposurekit.errors import MissingColumns

HOSTILE = '<span style="background:url(https://beacon.example/x)">A</span><a href="javascript:x()">&'


def records(*rows):
    return pd.DataFrame(rows, columns=["site", "status", "user_id"])


def figure_of(*rows, provenance=""):
    return charts.by_site(analysis.by_site(records(*rows)), provenance=provenance)


def bars(figure):
    return [trace for trace in figure.data if trace.type == "bar"]


def test_the_title_says_the_finding():
    figure = figure_of(
        ("Near", "discovered", 1), ("Near", "removed", 2), ("Far", "discovered", 1), ("Near", "odd", 1)
    )
    assert figure.layout.title.text == "3 listings are open; Near has the most, 2"


def test_all_removed_is_a_finding_of_its_own():
    assert figure_of(("Near", "removed", 1)).layout.title.text == "The only listing is removed"
    assert figure_of(*[("Near", "removed", 1)] * 2).layout.title.text == "All 2 listings are removed"


@pytest.mark.parametrize(
    ("sites", "title"),
    [
        ("AABB", "4 listings are open; each of 2 sites has 2"),
        ("AABBC", "5 listings are open; A and B have the most, 2 each"),
        ("AABBCCD", "7 listings are open; 3 sites have the most, 2 each"),
    ],
)
def test_a_tie_has_no_winner(sites, title):
    assert figure_of(*((site, "discovered", 1) for site in sites)).layout.title.text == title


def test_the_finding_names_the_three_largest_sites_and_ties():
    rows = [(site, "discovered", 1) for site in "AAABBCDE"] + [("Z", "removed", 1)] * 9
    assert charts.describe(figure_of(*rows)).endswith(" Most open: A 3; B 2; C 1; and 2 more with 1.")


def test_behind_each_bar_stands_how_many_are_open():
    figure = figure_of(*[("A", "removed", 1)] * 4, ("A", "discovered", 1), ("B", "pending removal", 1))
    [behind] = [trace for trace in figure.data if trace.type == "scatter"]
    assert [text.strip() for text in behind.text] == ["1 of 5 open", "1 of 1 open"]
    assert [*behind.x] == [5, 1]
    assert all("1 open in total" in hover_text for bar in bars(figure) for hover_text in bar.customdata)


def test_no_listings_is_a_figure_too():
    figure = figure_of()
    assert figure.layout.title.text == "No listings"
    assert charts.describe(figure) == "No listings. No listings."


def test_each_status_is_told_apart_without_colour():
    figure = figure_of(*((site, status, 1) for site in "AB" for status in ("discovered", "removed", "odd")))
    shapes = [bar.marker.pattern.shape for bar in bars(figure)]
    assert len(set(shapes)) == len(shapes) == 4


def test_other_is_shown_only_where_there_is_other():
    assert [bar.name for bar in bars(figure_of(("A", "discovered", 1)))] == [
        "discovered",
        "pending removal",
        "removed",
    ]


def test_many_sites_stand_together_and_none_is_lost():
    rows = [(f"Site {number:03}", "discovered", number) for number in range(200)]
    figure = figure_of(*rows)
    assert len(figure.data[0].y) == charts.MAX_ROWS + 1
    assert figure.layout.yaxis.ticktext[-1] == "188 more sites"
    assert sum(sum(bar.x) for bar in bars(figure)) == 200


def test_text_from_outside_is_text():
    figure = figure_of((HOSTILE, "discovered", 1), provenance=HOSTILE)
    visible = {**figure.to_plotly_json()["layout"], "meta": None}
    assert "<span" not in json.dumps(visible, default=list)
    assert "<a " not in json.dumps(visible, default=list)
    assert "<span" not in "".join([*figure.layout.yaxis.ticktext, *figure.data[0].customdata])
    assert all(HOSTILE[:10] not in bar.hovertemplate for bar in bars(figure))


def test_a_long_name_is_cut_and_a_control_character_gone():
    [name] = figure_of(("x\x1b[31m" + "y" * 100, "discovered", 1)).layout.yaxis.ticktext
    assert "\x1b" not in name
    assert len(name) == charts.LABEL_MAX


def test_two_sites_that_are_cut_alike_keep_their_own_bars():
    figure = figure_of(("y" * 100 + "1", "discovered", 1), ("y" * 100 + "2", "discovered", 1))
    assert len(set(figure.data[0].y)) == len(figure.layout.yaxis.tickvals) == 2


def test_the_background_is_left_to_the_theme():
    layout = figure_of(("A", "discovered", 1)).layout
    assert layout.template.layout.paper_bgcolor == layout.template.layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_nothing_is_uploaded_from_a_figure():
    assert charts.CONFIG["showSendToCloud"] is False
    assert charts.CONFIG["plotlyServerURL"] == ""


def test_a_table_without_a_column_says_which():
    with pytest.raises(MissingColumns, match=r"charts\.by_site needs the columns total"):
        charts.by_site(analysis.by_site(records(("A", "discovered", 1))).drop(columns="total"))


def by_state(*places):
    table = pd.DataFrame(
        {"locations": [[location] for location in places], "status": "discovered", "user_id": 1}
    )
    return charts.by_state(analysis.by_state(table)).layout.title.text.replace("<br>", " ")


@pytest.mark.parametrize(
    ("places", "title"),
    [
        (["A, CA", "B, CA", "C, TX"], "Open listings name CA most often (2)"),
        (["A, CA", "B, TX"], "Open listings name CA and TX most often (1 each)"),
        (["A, CA", "B, TX", "C, NY"], "Open listings name 3 states most often (1 each)"),
        (
            ["A, CA", "Paris", "Rome"],
            "2 open listings name no state; the others name CA most often (1)",
        ),
        (["Paris"], "1 open listing names no state"),
        ([], "No open listings"),
    ],
)
def test_the_finding_counts_listings_without_a_state_first(places, title):
    assert by_state(*places) == title


def test_the_finding_counts_pages_without_content_first():
    links = pd.DataFrame({"contains": [["email"], [], None], "user_id": 1})
    title = "2 links do not state their contents; the others show email most often (1)"
    assert charts.by_kind(analysis.by_kind(links)).layout.title.text.replace("<br>", " ") == title
