"""Charts of counts: findings, bars and escaped text."""

import json

import pandas as pd
import pytest
from support.chart_tables import title

from exposurekit import analysis, charts

HOSTILE = '<span style="background:url(https://beacon.example/x)">A</span><a href="javascript:x()">&'


def records(*rows):
    return pd.DataFrame(rows, columns=["site", "status", "user_id"])


def figure_of(*rows, provenance=""):
    return charts.by_site(analysis.by_site(records(*rows)), provenance=provenance)


def bars(figure):
    return [trace for trace in figure.data if trace.type == "bar"]


@pytest.mark.parametrize(
    ("rows", "finding"),
    [
        (
            "Near discovered, Near removed, Far discovered, Near odd",
            "3 listings are open; Near has the most open listings: 2",
        ),
        ("Near removed", "The only listing is removed"),
        ("Near removed, Near removed", "All 2 listings are removed"),
        ("", "No listings"),
        ("A x, A x, B x, B x", "4 listings are open; each of 2 sites has 2 open listings"),
        ("A x, A x, B x, B x, C x", "5 listings are open; A and B have the most open listings: 2 each"),
        (
            "A x, A x, B x, B x, C x, C x, D x",
            "7 listings are open; 3 sites have the most open listings: 2 each",
        ),
    ],
)
def test_the_title_is_the_finding_without_a_tied_winner(rows, finding):
    figure = figure_of(*((*row.split(), 1) for row in rows.split(", ") if row))
    assert title(figure) == finding
    assert rows or charts.describe(figure) == "No listings."


def test_the_finding_names_the_three_largest_sites_and_ties():
    rows = [(site, "discovered", 1) for site in "AAABBCDE"] + [("Z", "removed", 1)] * 9
    assert charts.describe(figure_of(*rows)).endswith(" Most open: A 3; B 2; C 1; and 2 more with 1.")


def test_a_site_without_a_name_is_not_stated():
    figure = figure_of(*[("", "discovered", 1)] * 2, ("A", "discovered", 1), (" ", "removed", 1))
    assert charts.describe(figure).startswith(
        "3 listings are open; not stated has the most open listings: 2."
    )
    assert charts.describe(figure).endswith(" Most open: not stated 2; A 1.")
    assert [*figure.layout.yaxis.ticktext] == ["not stated", "A", "not stated"]


def test_each_bar_is_labelled_with_its_open_listings():
    figure = figure_of(*[("A", "removed", 1)] * 4, ("A", "discovered", 1), ("B", "pending removal", 1))
    [behind] = [trace for trace in figure.data if trace.type == "scatter"]
    assert [text.strip() for text in behind.text] == ["1 of 5 open", "1 of 1 open"]
    assert [*behind.x] == [5, 1]
    assert all("1 open in total" in hover_text for bar in bars(figure) for hover_text in bar.customdata)


def test_each_status_has_a_pattern_of_its_own():
    figure = figure_of(*((site, status, 1) for site in "AB" for status in ("discovered", "removed", "odd")))
    shapes = [bar.marker.pattern.shape for bar in bars(figure)]
    assert len(set(shapes)) == len(shapes) == 4


def test_other_is_drawn_only_if_there_is_any():
    statuses = ["discovered", "pending removal", "removed"]
    assert [bar.name for bar in bars(figure_of(("A", "discovered", 1)))] == statuses


def test_the_sites_beyond_the_first_are_summed_up():
    rows = [(f"Site {number:03}", "discovered", number) for number in range(200)]
    figure = figure_of(*rows)
    assert len(figure.data[0].y) == charts.MAX_ROWS + 1
    assert figure.layout.yaxis.ticktext[-1] == "188 more sites"
    figure = figure_of(*rows[: charts.MAX_ROWS + 2])
    assert sum(sum(bar.x) for bar in bars(figure)) == charts.MAX_ROWS + 2


def test_a_bar_that_would_dwarf_all_others_is_a_number():
    rows = [(f"Site {number:03}", "discovered", number) for number in range(200)]
    figure = figure_of(*rows)
    assert [sum(bar.x) for bar in bars(figure) if any(bar.x)] == [charts.MAX_ROWS]
    assert figure.layout.xaxis.range[1] < 2
    [behind] = [trace for trace in figure.data if trace.type == "scatter"]
    assert behind.text[-1].strip() == "188 of 188 open, not drawn"


def test_hostile_text_is_escaped():
    figure = figure_of((HOSTILE, "discovered", 1), provenance=HOSTILE)
    visible = {**figure.to_plotly_json()["layout"], "meta": None}
    assert "<span" not in json.dumps(visible, default=list)
    assert "<a " not in json.dumps(visible, default=list)
    assert "<span" not in "".join([*figure.layout.yaxis.ticktext, *figure.data[0].customdata])
    assert all(HOSTILE[:10] not in bar.hovertemplate for bar in bars(figure))


def test_a_long_name_is_shortened_without_control_characters():
    [name] = figure_of(("x\x1b[31m" + "y" * 100, "discovered", 1)).layout.yaxis.ticktext
    assert "\x1b" not in name
    assert len(name) == charts.LABEL_MAX


def test_sites_with_equal_short_names_have_their_own_bars():
    figure = figure_of(("y" * 100 + "1", "discovered", 1), ("y" * 100 + "2", "discovered", 1))
    assert len(set(figure.data[0].y)) == len(figure.layout.yaxis.tickvals) == 2


def by_state(*places):
    table = pd.DataFrame(
        {"locations": [[location] for location in places], "status": "discovered", "user_id": 1}
    )
    return title(charts.by_state(analysis.by_state(table)))


@pytest.mark.parametrize(
    ("places", "finding"),
    [
        (["A, CA", "B, CA", "C, TX"], "Open listings name CA most often (2)"),
        (["A, CA", "B, TX"], "Open listings name CA and TX most often (1 each)"),
        (["A, CA", "B, TX", "C, NY"], "Open listings name 3 states most often (1 each)"),
        (
            ["A, CA", "Paris", "Rome"],
            "The state of 2 open listings is not recognised; the others name CA most often (1)",
        ),
        (["Paris"], "The state of 1 open listing is not recognised"),
        ([], "No open listings"),
    ],
)
def test_the_finding_counts_listings_without_a_state_first(places, finding):
    assert by_state(*places) == finding


def test_the_finding_counts_pages_without_content_first():
    links = pd.DataFrame({"contains": [["email"], [], None], "user_id": 1})
    finding = "2 links do not state their contents; the others show email most often (1)"
    assert title(charts.by_kind(analysis.by_kind(links))) == finding


@pytest.mark.parametrize("by", ["site", "user_id"])
def test_the_title_of_some_rows_says_so(by):
    rows = [("A", "discovered", 1)] * 3 + [("B", "discovered", 2), ("C", "removed", 3), ("C", "removed", 4)]
    is_site = by == "site"
    count, draw = (analysis.by_site, charts.by_site) if is_site else (analysis.by_user, charts.by_user)
    table = count(records(*rows, ("D", "discovered", 5)))
    leader = f"{'A' if is_site else 'user 1'} has the most open listings: 3"
    these, this = ("on these 2 sites", "on this site") if is_site else ("of these 2 people", "of this person")
    assert title(draw(table)) == title(draw(table.head(3))) == f"5 listings are open; {leader}"
    assert title(draw(table.head(2))) == f"4 of 5 open listings are {these}; of these, {leader}"
    assert title(draw(table.iloc[[1]])) == f"1 of 5 open listings is {this}"
    assert charts.describe(draw(table.iloc[[1]])).split(". ")[1].startswith("1 listing ")
    removed = f"All 2 listings {this} are removed" if is_site else f"The only listing {this} is removed"
    assert title(draw(table.iloc[[3]])) == removed


def test_people_are_labelled_by_name_but_not_in_a_repr():
    table = records(*[("A", "discovered", 7)] * 3, ("B", "discovered", 8), ("B", "discovered", 9))
    names = {7: "Tess Mallow", 8: "Ann Lee", 9: "Ann Lee"}
    counts, links = analysis.by_user(table), pd.DataFrame({"user_id": []}, dtype="int64")
    matrix = analysis.user_by_site(table)
    score = analysis.score(table, links)
    named_matrix = matrix.assign(person=matrix.index.map(names))[["person", *matrix]]
    figures = {
        charts.by_user: (counts, counts.assign(person=counts["user_id"].map(names))),
        charts.score: (score, score.assign(person=score["user_id"].map(names))),
        charts.user_by_site: (matrix, named_matrix),
    }
    for draw, (bare, named) in figures.items():
        figure = draw(named)
        assert [*figure.layout.yaxis.ticktext] == ["Tess Mallow", "Ann Lee (user 8)", "Ann Lee (user 9)"]
        assert "Tess Mallow has the most" in charts.describe(figure)
        assert repr(figure) == repr(draw(bare))
        assert "user 7 has the most" in charts.describe(draw(bare)).replace("User", "user")
