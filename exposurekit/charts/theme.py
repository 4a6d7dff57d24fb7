"""What every chart has in common: its words, its colours, and a figure that shows itself and sends nothing anywhere."""

import json
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from exposurekit.analysis import NOT_STATED, OTHER, UNKNOWN, VANISHED
from exposurekit.analysis.definitions import definition
from exposurekit.charts.embedding import embedded, in_terminal
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.text.sanitize import escaped, label, plain

# Okabe and Ito's colours, told apart by all; the pattern, or the dash, says the same without colour.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#7F7F7F"  # of lines and marks: seen on white and on black
INK, PAPER = (
    "#444444",
    "#FFFFFF",
)  # of text: no one colour reads at 4.5:1 on white and on JupyterLab's dark #111111
PALE = "rgba(127,127,127,0.25)"
SERIES = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
SHAPES = ("", "/", ".", "x", "\\", "-")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
COLOURS = {
    DISCOVERED: VERMILION,
    PENDING_REMOVAL: ORANGE,
    REMOVED: GREEN,
    VANISHED: SKY,
    OTHER: "#8C8C8C",
    UNKNOWN: "#BDBDBD",
}
PATTERNS = {DISCOVERED: "", PENDING_REMOVAL: "/", REMOVED: ".", VANISHED: "\\", OTHER: "x", UNKNOWN: "-"}
LABEL_MAX = 40
TITLE_WIDTH, PROVENANCE_WIDTH = 66, 84  # letters a line: Plotly breaks no title by itself
_HOVER_WIDTH = 60
_TITLE_PX, _PROVENANCE_PX, _LEGEND_PX = 21, 16, 20
_LETTER_PX, _SIGN_PX, _WIDTH_PX = (
    7,
    46,
    500,
)  # of a legend: a letter, its sign, and the width that it surely has
NOT_KNOWN = "not known"
_FEW = 8  # counts up to which each has its tick

# Plotly's own button uploads the figure's data; no figure of ours has it. Nor does text become a formula. And no figure
# is "responsive": JupyterLab resizes a figure by itself, and one that is responsive has no height then but 29 pixels.
CONFIG = {
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "displaylogo": False,
    "typesetMath": False,
}
MIME = "application/vnd.plotly.v1+json"


class Chart(go.Figure):  # type: ignore[misc]  # Plotly tells no types
    """A Plotly figure that a notebook shows, and a terminal tells in one line; it opens no browser.

    A notebook that is exported to HTML draws it as well, without a network; where no script runs, its words stand there.

    >>> table = analysis.by_site(exposure.records())
    >>> charts.by_site(table)
    Chart('... listings are open; ...')
    """

    _ipython_display_ = None  # Plotly's own would open a browser in a terminal

    def __repr__(self) -> str:
        return f"Chart({_meta(self)['finding']!r})"

    def _repr_html_(self) -> str:
        return f"<p>{escaped(describe(self))}</p>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **_: Any) -> dict[str, Any]:  # noqa: ARG002
        drawn = json.loads(self.to_json(validate=False, engine="json")) | {"config": CONFIG}
        html = self._repr_html_() if in_terminal() else embedded(drawn, self._repr_html_())
        # What draws the MIME type cannot follow the theme.
        on_paper = drawn | {"layout": drawn["layout"] | {"paper_bgcolor": PAPER}}
        return {MIME: on_paper, "text/html": html, "text/plain": repr(self)}


def chart(
    traces: Iterable[Any],
    *,
    finding: str,
    summary: str,
    provenance: str = "",
    height: int = 420,
    **layout: Any,
) -> Chart:
    """A chart in the house's look.

    Args:
        traces: What is drawn. No text from outside stands in a template: it goes into ``customdata``, by `label_text`.
        finding: The one thing that it says; becomes the title.
        summary: Its numbers in words, for those who do not see it.
        provenance: Where the figures come from and as of when; stands below the title.
        height: Pixels.
        layout: More of Plotly's layout.
    """
    drawn = [*traces]
    above = 0 if "legend" in layout else _legend_rows(drawn)
    figure = Chart(drawn, layout=_layout(finding, provenance, height, above))
    figure.update_layout(
        meta={"finding": finding, "summary": summary, "provenance": plain(provenance)}, **layout
    )
    return figure


def describe(figure: go.Figure) -> str:
    """The figure in words, for those who do not see it: its finding, then its numbers.

    >>> table = analysis.by_site(exposure.records())
    >>> f"{table['total'].sum()} listings on " in charts.describe(charts.by_site(table))
    True
    """
    said = _meta(figure)
    return f"{said['finding']}. {said['summary']}" if said["finding"] else ""


def empty_chart(finding: str, *, summary: str = "", provenance: str = "") -> Chart:
    """The figure of a table that has nothing to show, which says so."""
    figure = chart([], finding=finding, summary=summary or f"{finding}.", provenance=provenance, height=200)
    hidden = {"visible": False}
    said = {
        "text": escape(f"{finding}."),
        "showarrow": False,
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": 0.5,
    }
    figure.update_layout(xaxis=hidden, yaxis=hidden, annotations=[said])
    return figure


def explained(figure: str) -> str:
    """What a figure means, as further lines of what is shown on hover; nothing where its name says it all.

    >>> from exposurekit.charts.theme import explained
    >>> explained("removed")
    '<br>(the service verified that the listing is gone)'
    """
    words = definition(figure)
    return f"<br>({'<br>'.join(textwrap.wrap(words, _HOVER_WIDTH))})" if words else ""


def label_text(text: object) -> str:
    """A text from outside as Plotly may have it: short, one line, no tags."""
    return escape(short(text))


def escape(text: object) -> str:
    """A text as Plotly shows it and does nothing else with it: no tag, no ``%{...}`` that it fills in, no formula.

    In a title, or the name of a trace, Plotly would put the figure's own summary in place of ``%{meta.summary}``, and
    read tags in that.

    >>> from exposurekit.charts.theme import escape
    >>> escape("<b>%{meta.summary}"), escape("$a$")
    ('&lt;b&gt;%&#123;meta.summary}', '&#36;a&#36;')
    """
    return label(text).replace("%{", "%&#123;").replace("$", "&#36;")


def short(text: object) -> str:
    """A text from outside in words of ours: one line, not too long; what is missing is not told."""
    found = NOT_STATED if pd.isna(text) else plain(text)  # type: ignore[call-overload]  # anything that a cell holds
    return found if len(found) <= LABEL_MAX else found[: LABEL_MAX - 1] + "…"


def count_axis(title: str, most: float, *, room: float = 1.08) -> dict[str, Any]:
    """An axis of counts: from zero, in whole numbers, with room for what stands behind the longest bar."""
    few = {"dtick": 1} if most <= _FEW else {}
    return {"title": {"text": title}, "range": [0, max(most, 1) * room], "tickformat": ",d", **few}


def interval(low: float, high: float, said: Callable[[float], str]) -> str:
    """An interval in words, behind its number."""
    if pd.isna(low) and pd.isna(high):
        return f" (interval {NOT_KNOWN})"
    ends = (NOT_KNOWN if pd.isna(end) else said(end) for end in (low, high))
    return f" ({' to '.join(ends)})"


def pluralize(n: int, one: str, many: str = "") -> str:
    """``1 listing``, ``2 listings``.

    >>> from exposurekit.charts.theme import pluralize
    >>> pluralize(1, "listing"), pluralize(1200, "person", "people")
    ('1 listing', '1,200 people')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def format_duration(minutes: float) -> str:
    """How long something takes, in words.

    >>> from exposurekit.charts.theme import format_duration
    >>> format_duration(1), format_duration(119.6), format_duration(390)
    ('1 minute', '2.0 hours', '6.5 hours')
    """
    whole = round(minutes)
    return pluralize(whole, "minute") if whole < 2 * 60 else f"{minutes / 60:,.1f} hours"


def percent(share: float) -> str:
    """A share in words; only none is 0%, and only all is 100%.

    >>> from exposurekit.charts.theme import percent
    >>> percent(0.254), percent(0.001), percent(0.999), percent(float("nan"))
    ('25%', 'under 1%', 'over 99%', 'not known')
    """
    if pd.isna(share):
        return NOT_KNOWN
    if 0 < share < 0.005:  # noqa: PLR2004  what would be rounded to none
        return "under 1%"
    return "over 99%" if 0.995 <= share < 1 else f"{share:.0%}"  # noqa: PLR2004  and to all


def patterned(colour: str, shape: str) -> dict[str, Any]:
    """The marker of a bar: a colour, and a pattern that says the same."""
    return {
        "color": colour,
        "pattern": {"shape": shape, "bgcolor": colour, "fgcolor": "white", "solidity": 0.2},
    }


def _meta(figure: go.Figure) -> dict[str, str]:
    meta = figure.layout.meta
    return {"finding": "", "summary": ""} | (meta if isinstance(meta, dict) else {})


def _lines(text: str, width: int) -> list[str]:
    return [escape(line) for line in textwrap.wrap(plain(text), width)]


def _legend_rows(traces: list[Any]) -> int:
    """How many rows a legend takes above the plot: where one is not enough, Plotly gives all names the width of the longest."""
    names = [trace.name for trace in traces if trace.name and trace.showlegend is not False]
    wide = [_SIGN_PX + _LETTER_PX * len(name) for name in names]
    if len(names) < 2 or sum(wide) <= _WIDTH_PX:  # noqa: PLR2004  a single trace has no legend
        return int(len(names) > 1)
    return -(-len(names) // max(_WIDTH_PX // max(wide), 1))


def _layout(finding: str, provenance: str, height: int, legend: int) -> dict[str, Any]:
    title, below = _lines(finding, TITLE_WIDTH), _lines(provenance, PROVENANCE_WIDTH)
    top = 40 + _TITLE_PX * len(title) + _PROVENANCE_PX * len(below) + _LEGEND_PX * legend
    axis = {"gridcolor": PALE, "zeroline": False, "linecolor": PALE, "automargin": True}
    return {
        "template": "none",
        "title": {
            "text": "<br>".join(title),
            "subtitle": {"text": "<br>".join(below)},
            "font": {"size": 16},
            "x": 0,
            "y": 1,
            "yanchor": "top",
            "pad": {"l": 16, "t": 16 if len(title) < 2 else 28},  # noqa: PLR2004  a second line lifts the first
        },
        "height": height + top - 112,
        "margin": {"l": 16, "r": 28, "t": top, "b": 48},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "family": "system-ui, sans-serif"},
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": GREY, "font": {"color": INK}},
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"},
        "xaxis": axis | {"ticklabelstandoff": 4},  # a wide first label keeps off the other axis
        "yaxis": axis,
        "showlegend": legend > 0,
        "bargap": 0.25,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": GREY},
    }
