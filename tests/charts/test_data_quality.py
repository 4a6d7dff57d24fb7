"""Charts of data quality: precision, coverage and sites that look broken."""

import pandas as pd
import pytest
from support.chart_tables import title

from exposurekit import analysis, charts

NOW = pd.Timestamp("2026-03-31T12:00Z")


def labelled(**sites):
    rows = [(site, label) for site, labels in sites.items() for label in labels]
    return analysis.precision(pd.DataFrame(rows, columns=["site", "label"]))


def people(*rows):
    table = pd.DataFrame(rows, columns=["days", "outcome"])
    last_complete = NOW - pd.to_timedelta(table["days"], unit="D")
    return analysis.coverage(table.assign(listed=True, last_complete_at=last_complete), at=NOW)


def health(**sites):
    """Of each site how many are open, and how many vanished at one instant."""
    rows = [
        (site, status, NOW - pd.Timedelta(days=3))
        for site, (still, gone) in sites.items()
        for status in ["discovered"] * still + ["vanished"] * gone
    ]
    table = pd.DataFrame(rows, columns=["site", "status", "changed_at"])
    return analysis.site_health(table.assign(first_seen_at=table["changed_at"]), at=NOW)


def words(figure):
    return [text.strip() for trace in figure.data if trace.mode == "text" for text in trace.text]


def bars(figure):
    return {trace.name: [*trace.x] for trace in figure.data if trace.type == "bar"}


def behind(figure):
    """The text behind each bar."""
    return [text.strip() for text in figure.data[-1].text]


def test_a_share_has_its_interval_and_number():
    table = labelled(Near=["mine"] * 9 + ["not mine", None])
    figure = charts.precision(table)
    whiskers, dot, _ = figure.data
    assert [*dot.x] == [0.9]
    assert [*whiskers.x][:2] == [table["low"][0], table["high"][0]]
    assert figure.layout.yaxis.ticktext == ("Near (10 labels)",)
    assert "90% (95% interval: 60\N{EN DASH}98%), n = 10 labels, 1 unlabelled" in charts.describe(figure)


def test_a_site_without_labels_has_no_share():
    figure = charts.precision(labelled(Near=["mine"], Far=[None, None], Other=["unsure", None]))
    assert [*figure.data[1].y] == [0]
    assert words(figure) == ["2 unlabelled", "1 unsure, 1 unlabelled"]
    assert "Precision not known on 2 sites" in charts.describe(figure)


@pytest.mark.parametrize(
    ("figure", "finding"),
    [
        (
            charts.precision(labelled(Near=["mine"] * 3, Far=["mine", "not mine"])),
            "Precision 80% (4 of 5 labelled listings); lowest on Far, 50%",
        ),
        (charts.precision(labelled(Near=[None, None])), "No listing is labelled yet (2 unlabelled)"),
        (
            charts.coverage(people((0.1, "whole"), (0.2, "partial"))),
            "The data of all 2 people is complete and less than a day old",
        ),
        (charts.coverage(people((1, "whole")).assign(people=0)), "No people to load"),
        (
            charts.site_health(health(Near=(5, 1), Far=(5, 2))),
            "No site looks broken; at most 2 vanished in one run, on Far",
        ),
        (charts.site_health(health(Near=(5, 0))), "No site looks broken"),
    ],
)
def test_the_title_is_the_finding(figure, finding):
    assert title(figure) == finding
    assert charts.describe(figure).startswith(finding)


def test_people_are_grouped_by_age_and_outcome_of_their_load():
    figure = charts.coverage(people((0.5, "whole"), (3, "failed"), (None, "failed"), (40, "missed")))
    assert bars(figure) == {"whole": [1, 0, 0, 0, 0], "failed": [0, 1, 0, 0, 1], "missed": [0, 0, 0, 1, 0]}
    assert behind(figure) == ["1", "1", "0", "1", "1"]
    assert title(figure) == "1 of 4 people was loaded completely within a day; 1 never"
    assert "Outcome of the last load: 1 whole, 2 failed, 1 missed." in charts.describe(figure)


def test_a_suspect_site_is_marked_by_pattern_and_word():
    figure = charts.site_health(health(Near=(5, 1), Broken=(2, 9)))
    assert figure.layout.yaxis.ticktext == ("Broken (doubtful)", "Near")
    assert bars(figure) == {
        "open": [2, 5],
        "vanished in one run": [0, 1],
        "vanished in one run, doubtful": [9, 0],
    }
    assert behind(figure) == ["2 open, 9 vanished", "5 open, 1 vanished"]
    shapes = [trace.marker.pattern.shape for trace in figure.data if trace.type == "bar"]
    assert len(set(shapes)) == len(shapes)
    assert title(figure) == "1 site looks broken: Broken"


def test_records_that_vanished_in_other_runs_are_separate():
    table = health(Near=(5, 2)).assign(vanished=6)
    assert bars(charts.site_health(table))["vanished in other runs"] == [4]


def test_of_many_sites_the_first_are_drawn_and_three_named():
    many = charts.precision(labelled(**{f"site_{number:03}": ["mine"] for number in range(500)}))
    figure = charts.site_health(health(**{f"site_{number:03}": (0, 9) for number in range(60)}))
    assert title(figure).endswith("site_000, site_001, site_002 and 57 more")
    for drawn, rest in ((many, 488), (figure, 48)):
        assert drawn.layout.yaxis.ticktext[charts.MAX_ROWS :] == (f"{rest} more sites",)
        assert f"The chart shows 12 sites; the table has all {12 + rest}." in charts.describe(drawn)
