"""Charts of trust: no silence counts as a yes, and a site that looks broken says so."""

import pandas as pd

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
    return {trace.name: [*trace.x] for trace in figure.data}


def test_a_share_stands_with_its_interval_and_its_number():
    table = labelled(Near=["mine"] * 9 + ["not mine", None])
    figure = charts.precision(table)
    whiskers, dot, _ = figure.data
    assert [*dot.x] == [0.9]
    assert [*whiskers.x][:2] == [table["low"][0], table["high"][0]]
    assert figure.layout.yaxis.ticktext == ("Near (n = 10)",)
    assert "90% (95 % interval: 60%\N{EN DASH}98%), n = 10, 1 unlabelled" in charts.describe(figure)


def test_a_site_without_labels_has_no_share():
    figure = charts.precision(labelled(Near=["mine"], Far=[None, None], Other=["unsure", None]))
    assert [*figure.data[1].y] == [0]
    assert words(figure) == ["2 unlabelled", "1 unsure, 1 unlabelled"]
    assert "Precision not known on 2 sites" in charts.describe(figure)


def test_the_site_with_the_fewest_of_the_person_is_named():
    figure = charts.precision(labelled(Near=["mine"] * 3, Far=["mine", "not mine"]))
    assert figure.layout.title.text == "Precision 80% (4 of 5 labelled listings); lowest on Far, 50%"


def test_without_any_label_it_is_said():
    figure = charts.precision(labelled(Near=[None, None]))
    assert figure.layout.title.text == "No listing is labelled yet (2 unlabelled)"


def test_of_five_hundred_sites_the_first_have_a_share():
    figure = charts.precision(labelled(**{f"site_{number:03}": ["mine"] for number in range(500)}))
    assert len(figure.layout.yaxis.ticktext) == charts.MAX_ROWS
    assert "Not drawn: 488 more sites." in charts.describe(figure)


def test_people_are_grouped_by_age_and_outcome_of_their_load():
    figure = charts.coverage(people((0.5, "whole"), (3, "failed"), (None, "failed"), (40, "missed")))
    assert bars(figure) == {"whole": [1, 0, 0, 0, 0], "failed": [0, 1, 0, 0, 1], "missed": [0, 0, 0, 1, 0]}
    assert (
        figure.layout.title.text.replace("<br>", " ")
        == "1 of 4 people has a complete load within a day; 1 never had one"
    )
    assert "Outcome of the last load: 1 whole, 2 failed, 1 missed." in charts.describe(figure)


def test_everybody_seen_lately_is_a_finding():
    figure = charts.coverage(people((0.1, "whole"), (0.2, "partial")))
    assert figure.layout.title.text == "All 2 people have a complete load within a day"


def test_without_anybody_there_is_nothing_to_see():
    table = people((1, "whole"))
    figure = charts.coverage(table.assign(people=0))
    assert charts.describe(figure) == "No people to load. No people to load."


def test_a_suspect_site_is_marked_by_pattern_and_word():
    figure = charts.site_health(health(Near=(5, 1), Broken=(2, 9)))
    assert figure.layout.yaxis.ticktext == ("Broken (doubtful)", "Near")
    assert bars(figure) == {
        "open": [2, 5],
        "vanished in one run": [0, 1],
        "vanished in one run, doubtful": [9, 0],
    }
    shapes = [trace.marker.pattern.shape for trace in figure.data]
    assert len(set(shapes)) == len(shapes)
    assert figure.layout.title.text == "1 site looks broken: Broken"


def test_without_a_suspect_site_the_largest_drop_is_named():
    figure = charts.site_health(health(Near=(5, 1), Far=(5, 2)))
    assert figure.layout.title.text == "No site looks broken; at most 2 vanished in one run, on Far"
    assert charts.site_health(health(Near=(5, 0))).layout.title.text == "No site looks broken"


def test_what_vanished_at_other_times_is_told_apart():
    table = health(Near=(5, 2)).assign(vanished=6)
    assert bars(charts.site_health(table))["vanished in other runs"] == [4]


def test_of_many_broken_sites_three_are_named():
    figure = charts.site_health(health(**{f"site_{number:03}": (0, 9) for number in range(60)}))
    assert figure.layout.title.text.replace("<br>", " ").endswith("site_000, site_001, site_002 and 57 more")
    assert len(figure.layout.yaxis.ticktext) == charts.MAX_ROWS
    assert "Not drawn: 48 more sites." in charts.describe(figure)
