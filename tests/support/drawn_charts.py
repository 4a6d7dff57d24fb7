"""What a browser drew of charts: heights, widths, trace types, and labels that overlap or are cut off."""

from dataclasses import dataclass
from pathlib import Path

from support.chart_tables import TABLES, draw

COUNT = len(TABLES)
SLACK_PX = 2  # of a line of text, which may touch its neighbour
# The width of a chart's drawing, which follows that of its layout.
DRAWN = """const drawn = (one) =>
    one.querySelector("svg.main-svg")?.getBoundingClientRect().width / (one.currentCSSZoom ?? 1);"""
# Each chart fills its container, and has not changed since the last call.
SETTLED = f"""(count) => {{
  {DRAWN}
  const all = [...document.querySelectorAll(".js-plotly-plot")].filter((one) => one._fullLayout && one.clientWidth);
  const now = JSON.stringify(all.map((one) => [one._fullLayout.width, one._fullLayout.height, drawn(one)]));
  const before = globalThis.drawnBefore;
  globalThis.drawnBefore = now;
  return all.length >= count && now === before && all.every((one) => {{
    const container = one.parentElement.getBoundingClientRect(), {{ left, right }} = one.getBoundingClientRect();
    return Math.abs(one._fullLayout.width - (right - left)) < 2 && Math.abs(drawn(one) - (right - left)) < 2
      && right < container.right + 1 && right > container.right - 40;
  }});
}}"""
MEASURE = (Path(__file__).parent / "browser_scripts/drawn_charts.js").read_text()


@dataclass(frozen=True)
class Drawn:
    """A chart as a browser drew it; lengths in pixels."""

    title: str
    height: float
    described_height: float
    width: float
    room: float
    visible_height: float
    types: list[str]
    drawn_types: list[str]
    overlapping: list[str]
    repeated: list[str]
    outside: list[str]


def assert_well_drawn(drawn, count=COUNT):
    """Each chart has the height and the types that were described, and neither it nor a label is cut or covered."""
    assert len(drawn) == count
    assert [(one.title, one.width, one.room) for one in drawn if one.width > one.room + 1] == []
    assert [one.title for one in drawn if abs(one.height - one.described_height) > 1] == []
    assert [one.title for one in drawn if one.visible_height < one.height - 1] == []
    assert [one.title for one in drawn if one.types != one.drawn_types] == []
    overlapping = [(one.title, one.overlapping) for one in drawn if one.overlapping]
    assert overlapping == [], overlapping
    outside = [(one.title, one.outside) for one in drawn if one.outside]
    assert outside == [], outside
    assert [(one.title, one.repeated) for one in drawn if one.repeated] == []


def every_chart(provenance="As of 2026-03-31"):
    """Each chart of `ek.charts`, of small tables."""
    return {name: draw(name, table(), provenance=provenance) for name, table in TABLES.items()}


def cells_of_charts():
    """The code of a notebook that displays each of them."""
    tests = str(Path(__file__).parents[1])
    opening = f"""
import sys
sys.path.insert(0, {tests!r})
from support import drawn_charts
every = drawn_charts.every_chart()
"""
    return [opening, *(f"every[{name!r}]" for name in TABLES)]


# So many charts are drawn, each as wide as its container: one that is not will be drawn again.
FITTED = f"""(count) => {{
  {DRAWN}
  const all = [...document.querySelectorAll(".js-plotly-plot")];
  return all.length >= count && all.every((one) => one._fullLayout?.width === one.clientWidth
    && Math.abs(drawn(one) - one.clientWidth) < 2);
}}"""


def fitted(page, count=COUNT):
    """All charts of a page without a notebook, once they are drawn."""
    as_fitted = f"([count, slack]) => ({FITTED})(count) && ({MEASURE})(slack)"
    handle = page.wait_for_function(as_fitted, arg=[count, SLACK_PX])
    return [Drawn(**one) for one in handle.json_value()]


def settled(page, count=COUNT):
    """All charts of a page, once they stay as they are."""
    page.evaluate("() => { globalThis.drawnBefore = null; }")  # the state before a change
    as_settled = f"([count, slack]) => ({SETTLED})(count) && ({MEASURE})(slack)"
    handle = page.wait_for_function(as_settled, arg=[count, SLACK_PX], polling=500)
    return [Drawn(**one) for one in handle.json_value()]


def measured(page):
    """All charts that a page has drawn, from the top down."""
    return [Drawn(**one) for one in page.evaluate(MEASURE, SLACK_PX)]
