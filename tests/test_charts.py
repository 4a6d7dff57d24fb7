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


def test_the_title_says_the_finding():
    figure = figure_of(
        ("Near", "discovered", 1), ("Near", "removed", 2), ("Far", "discovered", 1), ("Near", "odd", 1)
    )
    assert figure.layout.title.text == "3 listings are not removed yet; Near holds most, 2"


def test_all_removed_is_a_finding_of_its_own():
    assert figure_of(("Near", "removed", 1)).layout.title.text == "All 1 listings are removed"


def test_no_listings_is_a_figure_too():
    figure = figure_of()
    assert figure.layout.title.text == "No listings"
    assert charts.describe(figure) == "No listings. No listings."


def test_each_status_is_told_apart_without_colour():
    figure = figure_of(*((site, status, 1) for site in "AB" for status in ("discovered", "removed", "odd")))
    shapes = [bar.marker.pattern.shape for bar in figure.data]
    assert len(set(shapes)) == len(figure.data) == 4


def test_other_is_shown_only_where_there_is_other():
    assert [bar.name for bar in figure_of(("A", "discovered", 1)).data] == [
        "discovered",
        "pending removal",
        "removed",
    ]


def test_many_sites_stand_together_and_none_is_lost():
    rows = [(f"Site {number:03}", "discovered", number) for number in range(200)]
    figure = figure_of(*rows)
    assert len(figure.data[0].y) == charts.SHOWN + 1
    assert figure.layout.yaxis.ticktext[-1] == "175 more sites"
    assert sum(sum(bar.x) for bar in figure.data) == 200


def test_text_from_outside_is_text():
    figure = figure_of((HOSTILE, "discovered", 1), provenance=HOSTILE)
    visible = {**figure.to_plotly_json()["layout"], "meta": None}
    assert "<span" not in json.dumps(visible, default=list)
    assert "<a " not in json.dumps(visible, default=list)
    assert "<span" not in "".join([*figure.layout.yaxis.ticktext, *figure.data[0].customdata])
    assert all(HOSTILE[:10] not in bar.hovertemplate for bar in figure.data)


def test_a_long_name_is_cut_and_a_control_character_gone():
    [name] = figure_of(("x\x1b[31m" + "y" * 100, "discovered", 1)).layout.yaxis.ticktext
    assert "\x1b" not in name
    assert len(name) == charts.LABEL_MAX


def test_two_sites_that_are_cut_alike_keep_their_own_bars():
    figure = figure_of(("y" * 100 + "1", "discovered", 1), ("y" * 100 + "2", "discovered", 1))
    assert len(set(figure.data[0].y)) == len(figure.layout.yaxis.tickvals) == 2


def test_the_background_is_left_to_the_theme():
    layout = figure_of(("A", "discovered", 1)).layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_nothing_is_uploaded_from_a_figure():
    assert charts.CONFIG["showSendToCloud"] is False
    assert charts.CONFIG["plotlyServerURL"] == ""


def test_a_table_without_a_column_says_which():
    with pytest.raises(MissingColumns, match=r"charts\.by_site needs the columns total"):
        charts.by_site(analysis.by_site(records(("A", "discovered", 1))).drop(columns="total"))
