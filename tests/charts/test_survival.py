"""Charts of removal: medians, curves and relistings, without what is not known."""

import numpy as np
import pandas as pd
import pytest
from support.chart_tables import declared, requests, title

from exposurekit import analysis, charts


def flows(*rows):
    return pd.DataFrame(rows, columns=["site", "days", "flow", "n"]).assign(left_censored=False)


def quick(site="Near"):
    return flows(
        (site, 0, "entered", 40), (site, 2, "removed", 15), (site, 5, "removed", 15), (site, 9, "open", 10)
    )


def slow(site="Far"):
    return flows((site, 0, "entered", 10), (site, 3, "removed", 1), (site, 20, "open", 9))


def timed(*tables):
    return analysis.time_to_removal(pd.concat(tables))


def dots(figure, symbol):
    marks = [trace for trace in figure.data if trace.type == "scatter" and trace.mode == "markers"]
    [matching] = [trace for trace in marks if trace.marker.symbol == symbol]
    return dict(zip(matching.y, matching.x, strict=True))


def words(figure):
    return [
        text.strip()
        for trace in figure.data
        if trace.type == "scatter" and trace.mode == "text"
        for text in trace.text
    ]


def segments(trace):
    """What a trace of whiskers draws: the row, from where, to where."""
    ends = [*zip(trace.y, trace.x, strict=True)]
    return {row: (low, high) for (row, low), (_, high) in zip(ends[::3], ends[1::3], strict=True)}


def returned(*rows):
    return pd.DataFrame(rows, columns=["site", "previous_status", "gone_days"])


def test_a_median_has_its_interval():
    table = timed(quick())
    figure = charts.time_to_removal(table)
    assert dots(figure, "circle") == {0: 5}
    assert segments(figure.data[0]) == {0: (table["median_low"][0], table["median_high"][0])}
    assert title(figure) == "Median time to removal: 5 days (95% interval: 2\N{EN DASH}5; n = 40)"


def test_an_unreached_median_is_a_reason_without_a_number():
    """The axis ends at twice the longest median, so that a site without one does not squeeze the others."""
    figure = charts.time_to_removal(timed(quick(), slow()))
    assert dots(figure, "circle") == {0: 5}
    assert max(figure.layout.xaxis.tickvals) == 10 < figure.layout.xaxis.range[1] < 15
    assert {*segments(figure.data[0])} == {0}
    assert words(figure)[:2] == ["5 days", "not within 20 days"]
    assert "Far: median not reached in 20 days" in charts.describe(figure)
    assert title(figure) == ("Median time to removal: 5 days on 1 of 2 sites; not reached on 1 (n = 50)")


def test_an_interval_beyond_the_axis_names_its_limit():
    """The arrow is beyond the last day: at the end of the axis, it would be read as that day."""
    table = timed(quick()).assign(median_high=45.0, followed_days=60)
    figure = charts.time_to_removal(table)
    arrows = dots(figure, "triangle-right")
    assert segments(figure.data[0]) == {0: (table["median_low"][0], arrows[0])}
    assert max(figure.layout.xaxis.tickvals) == 10 < arrows[0] < figure.layout.xaxis.range[1]
    assert "median 5 days (to 45)" in words(figure)
    endless = charts.time_to_removal(table.assign(median_high=np.nan))
    assert dots(endless, "triangle-right") == arrows
    assert "median 5 days" in words(endless)


def test_a_number_far_from_its_dot_is_named_a_median():
    """Beside the end of a long interval, or a late declared day, it would be read as the day where it stands."""
    times = timed(quick(), quick("Far")).assign(median_high=[5.5, 9.0])
    assert words(charts.time_to_removal(times))[:2] == ["5 days", "median 5 days"]
    table = analysis.declared_vs_observed(requests(), declared())
    for days, texts in ((20.0, ["19 days"]), (40.0, ["median 19 days"])):
        figure = charts.declared_vs_observed(table.assign(declared_days=days, takes_longer=False).head(1))
        assert words(figure) == texts


def test_sites_without_a_request_are_apart_from_those_that_refuse():
    """Both removed nothing, but only one was asked to."""
    table = timed(slow("Mute"), quick(), slow()).assign(requested=[40, 10, 0])
    table.loc[table["site"] != "Near", "removed"] = 0
    figure = charts.time_to_removal(table)
    assert figure.layout.yaxis.ticktext == (
        "Near (listed 40 times)",
        "Far (listed 10 times)",
        "Mute (listed 10 times)",
    )
    drawn = [dots(figure, symbol).keys() for symbol in ("circle", "triangle-right", "diamond")]
    assert drawn == [{0}, set(), {0, 1}]
    assert words(figure)[3:] == ["25%", "90%", "9 of 10 open"]
    assert [text for text in words(figure) if "request" in text] == ["no removal request seen yet"]
    assert "not reached on 1; no removal request seen yet on 1" in title(figure)
    alone = charts.time_to_removal(table[table["site"] == "Mute"])
    assert title(alone) == "Median time to removal: no removal request seen yet (n = 10)"


def test_start_of_days_and_end_of_shares_are_named():
    """Some sites are followed for longer than others, so their shares are not after the same number of days."""
    figure = charts.time_to_removal(timed(quick(), slow()))
    assert figure.layout.xaxis.title.text == "days from first observation"
    words_of_ends = (
        "Each share still listed is as of the longest time observed in its row; these times differ."
    )
    assert words_of_ends in charts.describe(figure)
    assert words_of_ends not in charts.describe(charts.time_to_removal(timed(quick(), quick("Far"))))


def test_few_listings_have_no_arrow_and_no_share():
    few = flows(("Few", 0, "entered", 3), ("Few", 2, "removed", 2), ("Few", 20, "open", 1))
    figure = charts.time_to_removal(timed(quick(), few))
    drawn = [dots(figure, symbol).keys() for symbol in ("circle", "triangle-right", "diamond")]
    assert drawn == [{0}, set(), {0}]
    assert "fewer than 5 listings" in words(figure)
    assert "Few: fewer than 5 listings, estimated share still listed: " in charts.describe(figure)


def test_the_share_never_removed_is_drawn_beside_it():
    figure = charts.time_to_removal(timed(quick(), slow()))
    never = dots(figure, "diamond")
    assert never[0] == pytest.approx(0.25)
    assert never[1] == pytest.approx(0.9)
    assert {"25%", "90%"} <= set(words(figure))
    assert figure.layout.yaxis.ticktext == ("Near (listed 40 times)", "Far (listed 10 times)")


def test_a_site_with_only_first_run_records_has_no_number():
    alone = slow().assign(left_censored=True)
    figure = charts.time_to_removal(timed(alone))
    assert dots(figure, "circle") == dots(figure, "diamond") == {}
    assert "no data, 10 left-censored" in words(figure)
    assert title(figure) == "Median time to removal: no listing was observed from its start"
    assert "10 listings already present at the first load excluded" in charts.describe(figure)


def test_all_sites_and_the_whole_are_summed_up():
    figure = charts.time_to_removal(timed(slow("Far"), slow("Near")))
    assert title(figure) == "Median time to removal: not reached on any of 2 sites (n = 20)"
    figure = charts.time_to_removal(analysis.time_to_removal(quick(), by=None))
    assert figure.layout.yaxis.ticktext == ("all listings (listed 40 times)",)


def test_the_quickest_site_is_first_and_marks_are_explained():
    table = timed(slow("Far"), slow("Farther"), quick("Near"))
    table.loc[table["site"] == "Farther", "n"] = 100  # most listings come first in the table
    figure = charts.time_to_removal(table)
    assert figure.layout.yaxis.ticktext == (
        "Near (listed 40 times)",
        "Far (listed 10 times)",
        "Farther (listed 100 times)",
    )
    legend = [trace.name for trace in figure.data if trace.showlegend]
    assert legend == [
        "95% interval",
        "median",
        "estimated share still listed",
    ]
    unreached = charts.time_to_removal(timed(slow("Far")))
    assert [trace.name for trace in unreached.data if trace.showlegend] == legend[2:]


def test_of_500_sites_the_first_are_drawn():
    table = timed(*(quick(f"Site {number:03}") for number in range(500)))
    figure = charts.time_to_removal(table)
    assert figure.layout.yaxis.ticktext[charts.MAX_ROWS :] == ("488 more sites",)
    assert figure.data[-1].text == ("  not drawn",)
    assert "The chart shows 12 sites; the table has all 500." in charts.describe(figure)
    assert "on 500 of 500 sites" in charts.describe(figure)
    assert len(charts.describe(figure)) < 2000


def test_a_curve_falls_in_steps_from_one():
    figure = charts.survival(analysis.survival(quick()))
    [line] = [trace for trace in figure.data if trace.name]
    assert line.line.shape == "hv"
    assert [*line.x] == [0, 2, 5, 9]
    assert [*line.y] == pytest.approx([1, 0.625, 0.25, 0.25])
    assert title(figure) == "25% of listings are not removed by day 9 (n = 40)"
    assert "median 5 days" in charts.describe(figure)
    without_first_day = analysis.survival(quick()).query("days > 0")
    [line] = [trace for trace in charts.survival(without_first_day).data if trace.name]
    assert (line.x[0], line.y[0]) == (0, 1)


def test_an_unknown_band_is_a_gap():
    table = analysis.survival(quick())
    table.loc[table["days"] == 2, ["low", "high"]] = np.nan
    [band] = [trace for trace in charts.survival(table).data if trace.fill == "toself"]
    assert [one for one in band.x if one is not None] == [5, 9, 9, 5, 9, 9, 9, 9]
    assert "(95% interval not known)" in charts.survival(table).data[1].customdata[1]


def test_of_many_curves_the_six_largest_are_drawn():
    table = analysis.survival(
        pd.concat(
            quick(f"Site {number}").assign(n=lambda rows, number=number: rows["n"] * (number + 1))
            for number in range(9)
        ),
        by="site",
    )
    figure = charts.survival(table)
    lines = [trace for trace in figure.data if trace.name]
    assert [line.name for line in lines] == [f"Site {number}" for number in (8, 7, 6, 5, 4, 3)]
    assert len({line.line.dash for line in lines}) == len({line.line.color for line in lines}) == 6
    assert "The chart shows 6 groups; the table has all 9." in charts.describe(figure)


def test_curves_are_compared_where_they_end():
    figure = charts.survival(analysis.survival(pd.concat([quick(), slow()]), by="site"))
    assert title(figure) == "Share not removed at the end: 25% (Near) to 90% (Far)"
    same = analysis.survival(pd.concat([quick("A"), quick("B")]), by="site")
    assert "25% in every group" in title(charts.survival(same))


def test_relistings_are_separated_by_previous_status():
    figure = charts.relistings(
        returned(("Near", "removed", 4), ("Near", "vanished", 8), ("Far", "removed", 1))
    )
    removed, vanished = figure.data[:2]
    assert ([*removed.x], [*vanished.x]) == ([1, 1], [1, 0])
    assert dots(figure, "circle") == {0: 6, 1: 1}
    assert segments(figure.data[3]) == {0: (4, 8), 1: (1, 1)}
    assert [removed.name, vanished.name] == ["after a verified removal", "without a verified removal"]
    assert removed.customdata[0] == "Near<br>1 relisting after a verified removal"
    assert words(figure) == ["2", "1", "median 6 days", "1 day"]
    assert title(figure) == "3 relistings, 2 after a verified removal; Near has the most relistings: 2"
    unknown = charts.relistings(returned(("Near", "removed", np.nan)))
    assert (dots(unknown, "circle"), words(unknown)) == ({}, ["1", "not known"])
    assert title(unknown) == "1 relisting, after a verified removal"
    assert "days gone: not known" in charts.describe(unknown)


def test_relistings_beyond_the_first_sites_are_summed_up():
    rows = [
        (f"Site {number:03}", "removed", number)
        for number in range(100)
        for _ in range(2 if number < charts.MAX_ROWS else 1)
    ]
    figure = charts.relistings(returned(*rows))
    assert figure.layout.yaxis.ticktext[-1] == "88 more sites"
    assert sum(figure.data[0].x) == 100 + charts.MAX_ROWS
    assert dots(figure, "circle")[charts.MAX_ROWS] == 55.5


def test_numbers_still_followed_are_below_the_curves():
    table = analysis.survival(pd.concat([quick(), slow()]), by="site")
    figure = charts.survival(table)
    [numbers] = [trace for trace in figure.data if trace.mode == "text"]
    assert [*figure.layout.xaxis.tickvals] == [0, 5, 10, 15, 20]
    assert [*numbers.text] == ["40", "25", "0", "0", "0", "10", "9", "9", "9", "9"]
    assert [*figure.layout.yaxis2.ticktext] == ["Near", "Far"]
    assert figure.layout.yaxis2.domain[1] < figure.layout.yaxis.domain[0]
    [one] = [trace for trace in charts.survival(analysis.survival(quick())).data if trace.mode == "text"]
    assert [*one.text] == ["40", "40", "25", "10", "10"]


def test_declared_site_without_a_request_is_not_drawn():
    table = analysis.declared_vs_observed(requests(), declared())
    assert "Other" in table["site"].tolist()
    figure = charts.declared_vs_observed(table)
    assert [label.partition(" (")[0] for label in figure.layout.yaxis.ticktext] == ["Near", "Far"]
    assert charts.describe(figure).endswith("Not drawn: 1 site without a request.")
    nobody = charts.declared_vs_observed(analysis.declared_vs_observed(requests().head(0), declared()))
    assert title(nobody) == "No removal was requested yet"


@pytest.mark.parametrize(
    ("takes_longer", "finding"),
    [
        ([True], "The only site that can be judged is slower than it declares: A"),
        ([False, None], "The only site that can be judged is not slower than it declares"),
        ([False, False], "None of the 2 sites that can be judged is slower than it declares"),
        ([True, False, None], "Of the 2 sites that can be judged, 1 is slower than it declares: A"),
        ([True, True, False], "Of the 3 sites that can be judged, 2 are slower than they declare: A and B"),
        ([None], "Declared vs observed days: too few requests to judge any site"),
    ],
)
def test_slow_sites_are_of_those_that_can_be_judged(takes_longer, finding):
    near = analysis.declared_vs_observed(requests(), declared()).head(1)
    table = pd.concat([near] * len(takes_longer), ignore_index=True).assign(
        site=[*"ABC"[: len(takes_longer)]], takes_longer=pd.array(takes_longer, dtype="boolean")
    )
    assert title(charts.declared_vs_observed(table)) == finding


def test_range_of_days_gone_is_that_of_the_table():
    """The table and the lead have the days between two observations; what may lie between runs is words alone."""
    table = returned(("A", "removed", 10), ("A", "removed", 4), ("A", "removed", None))
    bounds = table.assign(gone_days_low=[8.0, 1.0, 0.0], gone_days_high=[12.0, np.nan, np.nan])
    alone, bounded = charts.relistings(table), charts.relistings(bounds)
    for figure in (alone, bounded):
        [(_, drawn)] = segments(next(one for one in figure.data if one.name == "range")).items()
        assert drawn == (4, 10)
    assert charts.describe(alone).endswith("median 7, range 4\N{EN DASH}10.")
    between = "median 7, range 4\N{EN DASH}10 (1\N{EN DASH}12 with the time between two runs)."
    assert charts.describe(bounded).endswith(between)
