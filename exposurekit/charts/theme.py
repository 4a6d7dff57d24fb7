"""Chart theme: palette, number and label formats, and the `Chart` figure class."""

import json
import re
import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import pandas as pd
import plotly.graph_objects as go
import plotly.io as pio
from plotly.basedatatypes import BaseFigure

from exposurekit.analysis import NOT_STATED, OTHER, UNKNOWN, VANISHED
from exposurekit.analysis.definitions import definition
from exposurekit.charts.embedding import embed_figure, embed_html, in_terminal
from exposurekit.contract.types import DISCOVERED, PENDING_REMOVAL, REMOVED
from exposurekit.errors import InvalidArgument
from exposurekit.text.formatting import NO_VALUE
from exposurekit.text.sanitize import escaped, isolated, label, plain, with_isolates

# Okabe and Ito's colour-blind safe palette, in two parts: a colour of `COLOURS` means its status and nothing else.
# Everything else is blue, if it is the main measure, or what is to do; purple, if it stands beside that; and grey, if it
# stands back. Patterns and dashes carry the same distinction without colour; patterns are visible only on paper and in
# `Chart.with_patterns`.
BLUE, PURPLE, BLACK = "#0072B2", "#CC79A7", "#000000"
GREY = "#7F7F7F"  # visible on white and on black
PALE_BLUE, PALE_PURPLE, PALE_GREY = "#A3C6DF", "#E6BCD3", "#C4C9CF"  # the same, but later or finished
BROWN, VIOLET, OLIVE = "#9A6B45", "#7B61C4", "#9C8A00"  # of further series
# Text needs a background of its own: no colour has a contrast of 4.5:1 on both white and JupyterLab's dark #111111.
INK, PAPER = "#1B2430", "#FFFFFF"
_ANYWHERE = "#767676"  # of text where the front end states no colour: 4.5:1 on white, and legible on black
_THEMED = f'<span style="color:var(--jp-ui-font-color1,var(--vscode-foreground,{_ANYWHERE}))">'
PALE, CLEAR = "rgba(127,127,127,0.2)", "rgba(0,0,0,0)"
SERIES = (BLUE, PURPLE, GREY, BROWN, VIOLET, OLIVE)
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
COLOURS = {
    DISCOVERED: "#D55E00",
    PENDING_REMOVAL: "#E69F00",
    REMOVED: "#009E73",
    VANISHED: "#56B4E9",
    OTHER: "#8C8C8C",
    UNKNOWN: "#BDBDBD",
}
PATTERNS = {DISCOVERED: "", PENDING_REMOVAL: "/", REMOVED: ".", VANISHED: "\\", OTHER: "x", UNKNOWN: "-"}
LABEL_MAX = 40
MINUS = "\N{MINUS SIGN}"
Figure: TypeAlias = go.Figure
# Characters per line. Plotly does not wrap titles, and a figure does not know its width: these fit into 370 pixels.
TITLE_WIDTH, PROVENANCE_WIDTH = 38, 52
_HOVER_WIDTH = 60
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
_PATTERN = 0.2  # the share of a visible pattern that is lines
_TITLE_PX, _PROVENANCE_PX, _LEGEND_PX = 21, 16, 20  # heights of a line
_CHARACTER_PX, _SYMBOL_PX, _WIDTH_PX = 7, 46, 500  # of a legend: a character, a symbol, and the minimum width
_MAX_SINGLE_TICKS = 8  # up to this count every integer has a tick

# Plotly's cloud button would upload the figure's data, so it is off, and so is LaTeX in text. Figures are not
# "responsive": JupyterLab resizes them itself, and shrinks a responsive one to a height of 29 pixels.
CONFIG = {
    "showSendToCloud": False,
    "plotlyServerURL": "",
    "displaylogo": False,
    "typesetMath": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
}
HOVER = "%{customdata}<extra></extra>"
MIME = "application/vnd.plotly.v1+json"


class Chart(go.Figure):  # type: ignore[misc]  # Plotly is untyped
    """A Plotly figure for notebooks; in a terminal it prints its title instead of opening a browser.

    Notebooks exported to HTML draw it offline; without JavaScript they show its alternative text.

    >>> table = analysis.by_site(exposure.records())
    >>> charts.by_site(table)
    Chart('... listings are open; ...')
    """

    _ipython_display_ = None  # Plotly's would open a browser in a terminal

    def with_patterns(self) -> "Chart":
        """Return a copy in which bars and areas have patterns, for print without colour.

        >>> chart = charts.by_site(analysis.by_site(exposure.records()))
        >>> chart.with_patterns().data[1].marker.pattern.solidity > 0
        True
        """
        figure = Chart(self)
        figure.for_each_trace(
            lambda bar: bar.update(marker={"pattern": {"solidity": _PATTERN}}), {"type": "bar"}
        )
        figure.for_each_trace(
            lambda area: area.update(fillpattern={"solidity": _PATTERN}) if area.fillpattern.shape else None,
            {"type": "scatter"},
        )
        return figure

    def __repr__(self) -> str:
        meta = _meta(self)
        return f"Chart({meta.get('repr', meta['finding'])!r})"  # without the names of people

    def _repr_html_(self) -> str:
        return f"<p>{isolated(describe(self))}</p>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **_: Any) -> dict[str, Any]:  # noqa: ARG002
        figure = figure_json(self)
        html = self._repr_html_() if in_terminal() else embed_html(figure, self._repr_html_())
        return {MIME: _in_colours_of_front_end(figure), "text/html": html, "text/plain": repr(self)}


_AXIS = {
    "gridcolor": PALE,
    "zeroline": False,
    "linecolor": PALE,
    "automargin": True,
    "title": {"font": {"size": 12}},
}
X_AXIS = {"ticklabelstandoff": 4}  # keeps a wide first label off the other axis
TEMPLATE = go.layout.Template(
    layout={
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "colorway": [*SERIES],
        "font": {"color": INK, "family": _FONT, "size": 12},
        "title": {
            "font": {"size": 16, "weight": 600},
            "subtitle": {"font": {"size": 12}},
            "x": 0,
            "xanchor": "left",
            "pad": {"l": 16},
        },
        "hoverlabel": {"bgcolor": PAPER, "bordercolor": PALE, "font": {"color": INK}},
        "xaxis": _AXIS,
        "yaxis": _AXIS | {"ticklabelstandoff": 6, "title": {"font": {"size": 12}, "standoff": 12}},
        "bargap": 0.35,
        "modebar": {  # upright at the right edge, as a row of buttons would cover the title
            "bgcolor": CLEAR,
            "color": GREY,
            "activecolor": GREY,
            "orientation": "v",
        },
    }
)
pio.templates["exposurekit"] = TEMPLATE  # so that other figures can have this design: template="exposurekit"


def chart(
    traces: Iterable[Any],
    *,
    finding: str,
    summary: str,
    provenance: str = "",
    height: int = 420,
    **layout: Any,
) -> Chart:
    """Create a chart with the common layout.

    Args:
        traces: Plotly traces. External text belongs in ``customdata``, escaped by `label_text`, never in a template.
        finding: The main result in one sentence; the title.
        summary: The numbers in words; the alternative text.
        provenance: Source and date of the data, shown below the title.
        height: Height in pixels.
        layout: More options of Plotly's layout.
    """
    trace_list = [*traces]
    legend_rows = 0 if "legend" in layout else _legend_rows(trace_list)
    meta = {"finding": finding, "summary": summary, "provenance": plain(provenance)}
    whole = _with_options(_layout(finding, provenance, height, legend_rows), {"meta": meta, **layout})
    return Chart(trace_list, layout=whole)


def describe(figure: go.Figure) -> str:
    """Return the alternative text of a chart: its finding, then its numbers; of another figure, its title and its kind.

    >>> table = analysis.by_site(exposure.records())
    >>> f"{table['total'].sum()} listings on " in charts.describe(charts.by_site(table))
    True
    """
    meta = _meta(figure)
    sentences = dict.fromkeys((f"{meta['finding']}.", meta["summary"]))  # an empty chart's are the same
    return " ".join(sentences).strip() if meta["finding"] else _without_finding(figure)


def _without_finding(figure: go.Figure) -> str:
    """The alternative text of a figure that is none of this package."""
    title = plain(figure.layout.title.text or "").strip()
    kinds = [f"{trace.type} ({plain(trace.name)})" if trace.name else trace.type for trace in figure.data]
    kind = f"A chart of {', '.join(kinds)}." if kinds else "An empty chart."
    return f"{title}. {kind}" if title else kind


def embed(figure: Chart, fallback: str) -> str:
    """Return HTML that draws a chart in a notebook with plotly.js, and shows the fallback elsewhere.

    Args:
        figure: The chart.
        fallback: HTML whose first paragraph is the alternative text.
    """
    return fallback if in_terminal() else embed_figure(figure_json(figure), fallback)


def empty_chart(finding: str, *, summary: str = "", provenance: str = "") -> Chart:
    """Create a chart without data, with the finding as its text."""
    hidden = {"visible": False}
    message = {
        "text": escape(f"{finding}."),
        "showarrow": False,
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": 0.5,
    }
    return chart(
        [],
        finding=finding,
        summary=summary or f"{finding}.",
        provenance=provenance,
        height=200,
        xaxis=hidden,
        yaxis=hidden,
        annotations=[message],
    )


def definition_lines(figure: str) -> str:
    """The definition of a figure as further lines of a hover text; empty if it has none.

    >>> from exposurekit.charts.theme import definition_lines
    >>> definition_lines("removed")
    '<br>(the service verified that the listing is gone)'
    """
    text = definition(figure)
    return f"<br>({'<br>'.join(textwrap.wrap(text, _HOVER_WIDTH))})" if text else ""


def label_text(text: object, *, max_length: int = LABEL_MAX) -> str:
    """Shorten and escape external text for Plotly: one line of at most so many characters, no tags."""
    return escape(short(text, max_length=max_length))


def escape(text: object) -> str:
    """Escape text for Plotly: tags, ``%{...}`` placeholders and LaTeX; words from right to left are isolated.

    In a title, or the name of a trace, Plotly would replace ``%{meta.summary}`` by the figure's own summary and
    interpret its tags.

    >>> from exposurekit.charts.theme import escape
    >>> escape("<b>%{meta.summary}"), escape("$a$")
    ('&lt;b&gt;%&#123;meta.summary}', '&#36;a&#36;')
    """
    return with_isolates(label(text)).replace("%{", "%&#123;").replace("$", "&#36;")


def short(text: object, *, max_length: int = LABEL_MAX) -> str:
    """Shorten external text to one line of at most so many characters; a missing or blank text is ``not stated``."""
    line = "" if pd.isna(text) else plain(text)  # type: ignore[call-overload]  # any cell value
    if not line.strip():
        return NOT_STATED
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


def count_axis(title: str, most: float, *, room: float = 1.08) -> dict[str, Any]:
    """An axis of counts from 0, in whole numbers; `room` times the maximum leaves space for text behind the bars."""
    return {"title": {"text": title}, "range": [0, max(most, 1) * room], **count_ticks(most)}


def count_ticks(most: float) -> dict[str, Any]:
    """Ticks of counts up to a maximum: whole numbers, none of them twice."""
    return {"tickformat": ",d", **({"dtick": 1} if most <= _MAX_SINGLE_TICKS else {})}


def interval_label(table: pd.DataFrame) -> str:
    """The name of a table's intervals, with the confidence level that `analysis` stored with it.

    >>> from exposurekit.charts.theme import interval_label
    >>> interval_label(history.survival()), interval_label(pd.DataFrame())
    ('95% interval', 'interval')
    """
    level = table.attrs.get("level")
    return f"{100 * level:.10g}% interval" if level else "interval"


def format_interval(low: float, high: float, format_value: Callable[[float], str], label: str) -> str:
    """Format an interval to stand behind its estimate; either end may be missing, and a percent sign stands once.

    >>> from exposurekit.charts.theme import format_interval
    >>> from exposurekit.text.formatting import percent
    >>> format_interval(3, float("nan"), str, "95% interval")
    ' (95% interval: from 3)'
    >>> format_interval(0.12, 0.22, percent, "range").count("%")
    1
    """
    if pd.isna(low) and pd.isna(high):
        return f" ({label} {NO_VALUE})"
    if pd.isna(high):
        return f" ({label}: from {format_value(low)})"
    if pd.isna(low):
        return f" ({label}: up to {format_value(high)})"
    first, last = format_value(low), format_value(high)
    begin = first.removesuffix("%") if last.endswith("%") else first
    return f" ({label}: {begin}\N{EN DASH}{last})"


def format_duration(minutes: float) -> str:
    """Format a duration in whole minutes, so that parts add up to their total.

    >>> from exposurekit.charts.theme import format_duration
    >>> format_duration(1), format_duration(59.6), format_duration(390)
    ('1 min', '1 h', '6 h 30 min')
    """
    hours, rest = divmod(round(minutes), 60)
    if not hours:
        return f"{rest} min"
    return f"{hours:,} h {rest} min" if rest else f"{hours:,} h"


def adopt_figure(figure: Figure, title: str) -> Chart:
    """A figure of somebody else's in the design of this package, with its texts made safe.

    Args:
        figure: Any Plotly figure. Tags other than line breaks, bold and italics are displayed as text.
        title: Its title, if it has none.

    Raises:
        InvalidArgument: It is no figure, or a trace is of a kind that the bundled plotly.js cannot draw.
    """
    if isinstance(figure, Chart):
        return figure
    if not isinstance(figure, BaseFigure):
        raise InvalidArgument(f"A figure must be a Plotly figure, not {type(figure).__name__}")
    if unknown := {trace.type for trace in figure.data} - _DRAWABLE:
        raise InvalidArgument(
            f"A report cannot draw {', '.join(sorted(unknown))}; it draws {', '.join(sorted(_DRAWABLE))}"
        )
    content = _safe_texts(figure.to_plotly_json())
    layout = content["layout"]
    text = (layout.get("title") or {}).get("text") or escape(title)
    retained = {name: part for name, part in layout.items() if name not in _REPLACED}
    adopted = Chart(content["data"], layout=retained)
    height = int(figure.layout.height or 420)
    margin = {"l": 16, "r": 28, "t": 40 + _TITLE_PX, "b": 68}
    meta = {"finding": plain(figure.layout.title.text or title), "summary": "", "provenance": ""}
    adopted.update_layout(template=TEMPLATE, title={"text": text}, height=height, margin=margin, meta=meta)
    return adopted


_DRAWABLE = {
    "scatter",
    "bar",
    "pie",
    "heatmap",
    "histogram",
    "histogram2d",
    "histogram2dcontour",
    "contour",
    "box",
}
_REPLACED = {"template", "title", "height", "width", "margin", "meta", "images", "mapbox", "map"}
_TAGS = re.compile(r"&lt;(/?(?:b|i|br|sub|sup|extra)/?)&gt;")


def _safe_texts(part: Any) -> Any:
    if isinstance(part, str):
        return _TAGS.sub(r"<\1>", escaped(part)) if "<" in part else part
    if isinstance(part, dict):
        return {name: _safe_texts(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [_safe_texts(value) for value in part]
    if hasattr(part, "dtype") and part.dtype == object:
        return [_safe_texts(value) for value in part.tolist()]
    return part


def filled(x: Any, y: Any, fillcolor: str, **options: Any) -> go.Scatter:
    """Create a filled shape without an outline and without hover text."""
    outline = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    return go.Scatter(x=x, y=y, fill="toself", fillcolor=fillcolor, **outline, **options)


def fill_pattern(shape: str, colour: str, foreground: str = "white", **options: Any) -> dict[str, Any]:
    """The pattern of an area or a bar; invisible, unless `options` give it a solidity."""
    return {"shape": shape, "bgcolor": colour, "fgcolor": foreground, "solidity": 0, **options}


def bar_marker(colour: str, shape: str) -> dict[str, Any]:
    """The marker of a bar: a colour and a pattern."""
    return {"color": colour, "pattern": fill_pattern(shape, colour), "cornerradius": 2}


def figure_json(figure: Chart) -> dict[str, Any]:
    """The ``data``, ``layout`` and ``config`` of a chart, as plotly.js receives them.

    >>> from exposurekit.charts.theme import figure_json
    >>> sorted(figure_json(charts.by_site(analysis.by_site(exposure.records()))))
    ['config', 'data', 'layout']
    """
    content: dict[str, Any] = json.loads(figure.to_json(validate=False, engine="json"))
    return content | {"config": CONFIG}


def _in_colours_of_front_end(figure: dict[str, Any]) -> dict[str, Any]:
    """A figure whose texts have the colour of the texts around it.

    Renderers of Plotly's MIME type do not know the theme of a notebook, and a figure can have no variable as a colour;
    the style of a part of a text can.
    """

    def themed(text: Any) -> Any:
        return f"{_THEMED}{text}</span>" if isinstance(text, str) and text else text

    def titled(part: dict[str, Any]) -> dict[str, Any]:
        title = part.get("title", {})
        texts = {name: themed(text) for name, text in title.items() if name == "text"}
        below = {"subtitle": titled({"title": title["subtitle"]})["title"]} if "subtitle" in title else {}
        return part | {"title": title | texts | below}

    def axis(part: dict[str, Any]) -> dict[str, Any]:
        labels = part.get("ticktext") or _labels(part)
        around = {
            "tickprefix": f"{_THEMED}{part.get('tickprefix', '')}",
            "ticksuffix": f"{part.get('ticksuffix', '')}</span>",
        }
        return titled(part) | ({"ticktext": [*map(themed, labels)]} if labels else around)

    layout = titled(figure["layout"])
    axes = {name: axis(part) for name, part in layout.items() if name[1:].startswith("axis")}
    notes = [note | {"text": themed(note.get("text"))} for note in layout.get("annotations", ())]
    font = layout.get("font", {}) | {"color": _ANYWHERE}
    data = [
        trace
        | {
            name: [*map(themed, text)] if isinstance(text, list) else themed(text)
            for name, text in trace.items()
            if name in ("name", "text")
        }
        for trace in figure["data"]
    ]
    return figure | {"data": data, "layout": layout | axes | {"annotations": notes, "font": font}}


def _labels(axis: dict[str, Any]) -> list[str]:
    """The labels of an axis with marks of its own, which have no prefix; none where only Plotly knows the format."""
    values, as_text = axis.get("tickvals"), axis.get("tickformat", "")
    if not isinstance(values, list):  # of an array, packed
        return []
    try:
        return [format(round(one) if as_text.endswith("d") else one, as_text) for one in values]
    except (TypeError, ValueError):
        return []


def _meta(figure: go.Figure) -> dict[str, str]:
    meta = figure.layout.meta
    return {"finding": "", "summary": ""} | (meta if isinstance(meta, dict) else {})


def _lines(text: str, width: int) -> list[str]:
    """Wrap a text into as few lines as possible, of about the same length.

    A line ends at a space only: `fitting.js` and the check of a report join the lines by one.
    """
    text = plain(text)
    wrap = partial(textwrap.wrap, text, break_on_hyphens=False, break_long_words=False)
    lines = wrap(width)
    if len(lines) > 1:
        narrower = (wrap(shorter) for shorter in range(len(text) // len(lines), width))
        lines = next((candidate for candidate in narrower if len(candidate) == len(lines)), lines)
    return [escape(line) for line in lines]


def _legend_rows(traces: list[Any]) -> int:
    """The number of rows of the legend; beyond one row, Plotly gives every entry the width of the longest."""
    names = [trace.name for trace in traces if trace.name and trace.showlegend is not False]
    widths = [_SYMBOL_PX + _CHARACTER_PX * len(name) for name in names]
    if len(names) < 2 or sum(widths) <= _WIDTH_PX:  # noqa: PLR2004  a single trace has no legend
        return int(len(names) > 1)
    return -(-len(names) // max(_WIDTH_PX // max(widths), 1))


def _with_options(layout: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """A layout with more options, part by part: Plotly takes twice as long to update a figure as to create it whole."""
    parts = {
        name: _with_options(layout[name], value)
        if isinstance(layout.get(name), dict) and isinstance(value, dict)
        else value
        for name, value in options.items()
    }
    return layout | parts


def _layout(finding: str, provenance: str, height: int, legend_rows: int) -> dict[str, Any]:
    title, subtitle = _lines(finding, TITLE_WIDTH), _lines(provenance, PROVENANCE_WIDTH)
    top = 40 + _TITLE_PX * len(title) + _PROVENANCE_PX * len(subtitle)
    bottom = 48 + _LEGEND_PX * legend_rows
    return {
        "template": TEMPLATE,
        "title": {
            "text": "<br>".join(title),
            "subtitle": {"text": "<br>".join(subtitle)},
            "x": 0,
            "y": 1,
            "yanchor": "top",
            "pad": {"l": 16, "t": 16 if len(title) < 2 else 28},  # noqa: PLR2004  a second line raises the first
        },
        "height": height + top + bottom - 160,
        "margin": {"l": 16, "r": 28, "t": top, "b": bottom},
        # Below the plot: above it, further rows in a narrow window would cover the provenance.
        "legend": {
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "traceorder": "normal",
        },
        "xaxis": X_AXIS,
        "showlegend": legend_rows > 0,
    }
