"""Charts as widgets: redrawn in place, with click handlers."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anywidget
import plotly
import plotly.graph_objects as go
import traitlets
from ipywidgets import HTML, VBox, Widget, widget_serialization

from exposurekit import charts
from exposurekit.charts.theme import CLEAR
from exposurekit.text.sanitize import escaped

_HEIGHT_PX = 420  # of a chart that states none
_EMPTY = (
    '<div class="empty"><strong>Nothing to draw</strong>'
    "<span>Nothing matches the filters and the day. Clear them, or pick others.</span></div>"
)
_DIM = 0.25  # of a bar that is not marked, where others are
_CHARACTER_PX, _RIGHT_MAX_PX = (
    6.5,
    130,
)  # room for the text behind the longest bar, however narrow the chart is
_TOP_PX = 12  # above a chart, whose title is not within it
# anywidget waits two seconds for a script, and drops messages to a widget whose script came later. A busy browser needs
# longer for the five megabytes of Plotly, and would draw a chart without its data and with all its buttons. So the
# script of each chart is small, Plotly is sent once for all charts of a page, and a chart asks again for what it missed.
_SCRIPT = """
const PATIENCE_MS = 3000;
async function loaded(model) {
  const library = await model.widget_manager.get_model(model.get("_library").replace("IPY_MODEL_", ""));
  const url = URL.createObjectURL(new Blob([library.get("code")], { type: "text/javascript" }));
  try {
    const { default: widget } = await import(url);
    return { widget, Plotly: globalThis.Plotly };  // of this version: another one may take that name later
  } finally { URL.revokeObjectURL(url); }
}
function plotly(model) {
  const once = (globalThis.exposurekitPlotly ??= {}), version = model.get("_plotly");
  once[version] ??= loaded(model).catch((error) => { delete once[version]; throw error; });
  return once[version];
}
// Plotly's own listener of a model: it misses what came before it listens.
async function followed(model, views) {
  const { widget, Plotly } = await plotly(model), follower = widget();
  const edited = model.get("_last_layout_edit_id") > 0 || model.get("_last_trace_edit_id") > 0;
  await new Promise((done) => {
    let follows = false;
    const follow = () => { if (!follows) { follows = true; follower.initialize({ model }); done(); } };
    if (!edited) { follow(); return; }
    model.on("msg:custom", (message) => {
      if (!message.whole) return;
      if (follows) views.forEach((draw) => draw()); else follow();
    });
    model.send({ whole: true });
    setTimeout(follow, PATIENCE_MS);  // the kernel may not answer, or not yet
  });
  return { follower, Plotly };
}
// Plotly follows the window alone. A sidebar, a tab or a hidden output changes only the place of the chart. And it takes
// the height from an element that may have none yet, as its cell is not in view: the element gets that of the layout.
function fitted(Plotly, el) {
  const tall = el.layout?.height, { width: drawn, height } = el._fullLayout ?? {}, width = el.clientWidth;  // 0: hidden
  if (tall) el.style.minHeight = `${tall}px`;
  const isOff = Math.abs(drawn - width) > 1 || (tall && Math.abs(height - tall) > 1);
  return drawn && width && isOff ? Plotly.Plots.resize(el) : null;
}
// Where a chart is narrow, long labels of rows and texts behind bars take two lines, so that the plot has half of the width.
const NARROW_PX = 420, CHARACTER_PX = 6.5, GAP_PX = 14, LABELS = 0.31, TEXTS = 0.14, TICK_PX = 11;
function twoLines(text, room, isCut = true) {
  const characters = (line) => line.match(/&[^;\\s]+;|./gu) ?? [];  // an escaped one is one
  const [first, ...words] = text.trim().split(" ");
  if (characters(text).length <= room) return text;
  const lines = [first];
  for (const word of words) {
    if (lines.length < 2 && characters(`${lines[0]} ${word}`).length > room) lines.push(word);
    else lines[lines.length - 1] += ` ${word}`;
  }
  const tail = lines.at(-1).match(/ ?\\([^)]*\\)$/)?.[0] ?? "";  // such as (n = 12): it is not cut
  function cut(line) {
    const end = line.endsWith(tail) ? tail : "", words = characters(line.slice(0, line.length - end.length));
    const left = Math.max(room - characters(end).length, 4);
    return isCut && words.length > left ? `${words.slice(0, left - 1).join("").trimEnd()}…${end}` : line;
  }
  return lines.map(cut).join("<br>");
}
const longest = (texts) => Math.max(0, ...texts.flatMap((text) => String(text).split("<br>")).map((line) => line.length));
function narrowed(el, originals) {
  const { yaxis, margin } = el.layout ?? {}, rows = yaxis?.ticktext, width = el.clientWidth, isNarrow = width < NARROW_PX;
  if (!rows || !margin || !width) return false;
  let changed = false;
  // What was set last is not what came from the kernel: that is remembered, and comes back where there is room.
  function set(holder, name, change) {
    const states = originals.get(holder) ?? {};
    originals.set(holder, states);
    const state = states[name], current = JSON.stringify(holder[name]);
    const whole = state && state.drawn === current ? state.whole : holder[name];
    const value = isNarrow ? change(whole) : whole, drawn = JSON.stringify(value);
    states[name] = { whole, drawn };
    if (drawn === current) return;
    if (value === undefined) delete holder[name]; else holder[name] = value;
    changed = true;
  }
  const room = Math.max(Math.floor((LABELS * width - GAP_PX) / CHARACTER_PX), 6);
  const behind = Math.max(Math.floor(TEXTS * width / CHARACTER_PX), 5);
  set(yaxis, "ticktext", (whole) => whole.map((text) => twoLines(text, room)));
  const isLong = longest(originals.get(yaxis).ticktext.whole) > room;
  const left = Math.ceil(CHARACTER_PX * longest(yaxis.ticktext)) + GAP_PX;
  set(yaxis, "automargin", (whole) => isLong ? false : whole);
  set(yaxis, "tickfont", (whole) => isLong ? { ...whole, size: TICK_PX } : whole);
  set(margin, "l", (whole) => isLong ? Math.min(left, Math.ceil(LABELS * width)) : whole);
  const texts = (el.data ?? []).filter((trace) => Array.isArray(trace.text) && (trace.mode === "text" || trace.orientation === "h"));
  const halved = (text) => twoLines(text, Math.max(behind, Math.ceil(text.trim().length / 2)), false);
  const indented = (text) => text.match(/^ */)[0] + halved(text).trim().replace("<br>", "<br>" + text.match(/^ */)[0]);
  for (const trace of texts) set(trace, "text", (whole) => whole.map((text) => text && indented(text)));
  if (texts.length) set(margin, "r", (whole) => Math.min(whole, Math.ceil(CHARACTER_PX * Math.max(...texts.map((trace) => longest(trace.text))))));
  const { xaxis, xaxis2 } = el.layout;
  for (const axis of [xaxis, xaxis2].filter((one) => one?.title?.text && one.domain)) {  // of two panels
    const share = axis.domain[1] - axis.domain[0];
    set(axis.title, "text", (whole) => twoLines(whole, Math.floor(share * width / 2 / CHARACTER_PX), false));
  }
  return changed;
}
// Where a chart is narrow, Plotly cuts long labels of bars at their beginning, which tells them apart.
function shortened(el) {
  const { left } = el.getBoundingClientRect();
  for (const text of el.querySelectorAll(".yaxislayer-above .ytick text")) {
    if (text.children.length || text.getBoundingClientRect().left >= left) continue;
    const words = text.textContent, title = document.createElementNS(text.namespaceURI, "title");
    let length = words.length;
    do text.textContent = `${words.slice(0, --length).trimEnd()}…`;
    while (length > 4 && text.getBoundingClientRect().left < left);
    title.textContent = words;
    text.append(title);
  }
}
export default () => {
  const views = new Set(), handlers = [];  // what Plotly's listener and its views listen to
  let base = null, follower = null;
  return {
    // A view's own model ends with that view: the listener of all views uses this one.
    initialize({ model }) {
      base = { ...model, on(name, act) { model.on(name, act); handlers.push([name, act]); } };
    },
    async render({ el }) {
      let end = () => {}, ended = false, width = 0;
      el.classList.add("exposurekit-loading");
      // Plotly follows the window alone: a chart is hidden, shown and resized for other reasons, too.
      const sizes = new ResizeObserver(() => {
        if (el.clientWidth === width) return;
        width = el.clientWidth;
        if (width) requestAnimationFrame(() => window.dispatchEvent(new Event("resize")));
      });
      sizes.observe(el);
      const draw = async () => {
        const { follower: drawing, Plotly } = await (follower ??= followed(base, views));
        if (ended) return;
        end();
        el.classList.remove("exposurekit-loading");
        el.replaceChildren();
        handlers.length = 0;
        const purge = drawing.render({ model: base, el }), mine = handlers.splice(0);
        let isFitting = false;
        const originals = new WeakMap();
        const fit = async () => {
          if (isFitting) return;
          isFitting = true;
          try { await fitted(Plotly, el); if (narrowed(el, originals)) await Plotly.redraw(el); } catch { /* hidden meanwhile: fitted when it is visible */ } finally { isFitting = false; }
          shortened(el);
        };
        el.on?.("plotly_afterplot", fit);
        const place = new ResizeObserver(fit);
        place.observe(el);
        end = () => { place.disconnect(); mine.forEach(([name, act]) => base.off(name, act)); purge(); };
      };
      views.add(draw);
      draw().catch(() => { follower = null; el.classList.remove("exposurekit-loading"); el.textContent = "Plotly could not be loaded: run the cell again."; });
      return () => { ended = true; sizes.disconnect(); views.delete(draw); end(); };
    },
  };
};
"""


class Library(anywidget.AnyWidget):
    """Plotly's widget code, sent once for all charts of a kernel."""

    _esm = "export default { render() {} };"
    code = traitlets.Unicode().tag(sync=True)


class FigureView(go.FigureWidget):  # type: ignore[misc]  # Plotly has no types
    """A chart as a widget, with the buttons of `charts`."""

    _esm = _SCRIPT
    _library = traitlets.Instance(Widget).tag(sync=True, **widget_serialization)
    _plotly = traitlets.Unicode(plotly.__version__).tag(sync=True)
    content: Mapping[str, Any] | None = None  # declared here, as Plotly allows no other attributes

    def __init__(self, figure: Mapping[str, Any]) -> None:
        self._is_ready = False
        super().__init__(figure)
        self._config: dict[str, Any] = {**self._config, **charts.CONFIG, "responsive": True}
        self.on_msg(lambda _widget, content, _buffers: self._receive(content))
        self._is_ready = True
        self.open()

    def open(self) -> None:
        """Open the connection to the browser once the figure is complete."""
        if self._is_ready:
            super().open()

    @traitlets.default("_library")
    def _default_library(self) -> Library:
        return _library()

    def _receive(self, content: Any) -> None:
        if isinstance(content, dict) and content.get("whole"):
            figure = self.to_plotly_json()
            self._widget_data, self._widget_layout = figure["data"], figure["layout"]
            self.send({"whole": True})


_libraries: list[Library] = []


def _library() -> Library:
    if not _libraries or _libraries[-1].comm is None:  # closing all widgets closes it, too
        _libraries[:] = [Library(code=str(go.FigureWidget._esm))]  # noqa: SLF001  Plotly has no public name for it
    return _libraries[-1]


def create_view(figure: charts.Chart) -> FigureView:
    """Create a widget of a chart, on the background of the page."""
    view = FigureView({"data": figure.data, "layout": _layout(figure)})
    view.content = _without_marks(figure)
    return view


def redraw(view: FigureView, figure: charts.Chart) -> None:
    """Display another chart in its place, and remove the click handlers.

    If the two charts differ only in their marks, the bars and the handlers stay.
    """
    content = _without_marks(figure)
    if content == view.content:
        with view.batch_update():
            for old, new in zip(view.data, figure.data, strict=True):
                if isinstance(new, go.Bar):
                    old.marker.opacity = new.marker.opacity
        return
    with view.batch_update():
        view.data = []
        view.add_traces(figure.data)
        view.layout = _layout(figure)
    view.content = content


def align(figures: Sequence[charts.Chart]) -> None:
    """Make charts that stand side by side equally tall below their titles."""
    tops = [figure.layout.margin.t or 0 for figure in figures]
    heights = [figure.layout.height or _HEIGHT_PX for figure in figures]
    tallest = max(height - top for height, top in zip(heights, tops, strict=True))
    for figure, top in zip(figures, tops, strict=True):
        figure.update_layout(height=tallest + top)


def mark(figure: go.Figure, is_marked: Sequence[bool]) -> None:
    """Dim the bars of unmarked rows; without any mark, no bar is dimmed.

    Args:
        figure: A chart with a bar of each trace in every row.
        is_marked: For each row, from the first; later rows are unmarked.
    """
    for bar in figure.select_traces({"type": "bar"}):
        rows = [*is_marked, *[False] * (len(bar.y) - len(is_marked))]
        bar.marker.opacity = [1 if one else _DIM for one in rows] if any(is_marked) else [1] * len(rows)


def _without_marks(figure: go.Figure) -> dict[str, Any]:
    """The chart without the opacity of its bars."""
    content: dict[str, Any] = json.loads(figure.to_json(validate=False, engine="json"))
    for trace in content["data"]:
        if trace["type"] == "bar":
            trace["marker"].pop("opacity", None)
    return content


def _layout(figure: charts.Chart) -> dict[str, Any]:
    """The layout without the title, which stands above the chart: Plotly would not wrap it."""
    top = figure.layout.margin.t or 0
    texts = [
        len(str(text))
        for trace in figure.data
        if (trace.type == "bar" and trace.orientation == "h") or getattr(trace, "mode", None) == "text"
        for text in (trace.text if trace.text is not None and not isinstance(trace.text, str) else ())
    ]
    right = max(figure.layout.margin.r or 0, _CHARACTER_PX * max(texts, default=0))
    layout: dict[str, Any] = figure.layout.to_plotly_json()
    layout |= {
        "title": {"text": ""},
        "margin": layout.get("margin", {}) | {"t": _TOP_PX, "r": min(right, _RIGHT_MAX_PX)},
        "height": layout.get("height", _HEIGHT_PX) - max(top - _TOP_PX, 0),
        "paper_bgcolor": CLEAR,
    }
    return layout


class ChartCard(VBox):  # type: ignore[misc]  # ipywidgets has no types
    """A chart below its finding and its provenance.

    Args:
        figure: The chart.
        controls: Widgets above it.

    Attributes:
        view: The chart as a widget.
    """

    def __init__(self, figure: charts.Chart, *controls: Widget) -> None:
        self.view, self._head, self._controls = create_view(figure), HTML(), controls
        self._parts: tuple[Widget, ...] = ()
        self._empty = HTML(_EMPTY)
        super().__init__()
        self._dom_classes = ("exposurekit-chart-card",)
        self._show(figure)

    def show(self, figure: charts.Chart) -> None:
        """Display another chart, and remove the click handlers."""
        redraw(self.view, figure)
        self._show(figure)

    def show_error(self, message: str) -> None:
        """Display an error in the place of the chart."""
        self._head.value = (
            '<div class="empty" role="alert"><strong>This chart could not be drawn</strong>'
            f"<span>{escaped(message)}</span></div>"
        )
        self._parts = self.children = (*self._controls, self._head)

    def _show(self, figure: charts.Chart) -> None:
        children = (*self._controls, self._head, self.view if figure.data else self._empty)
        if children != self._parts:
            self._parts = self.children = children
        meta = figure.layout.meta
        self._head.value = (
            f'<h2 class="headline">{escaped(meta["finding"])}</h2>'
            f'<p class="label">{escaped(meta["provenance"])}</p>'
            f'<p class="visually-hidden">{escaped(charts.describe(figure))}</p>'
        )


def on_click(view: FigureView, action: Callable[[int, Any], None]) -> None:
    """Call with the row and the x of the first clicked point.

    Plotly calls the handler of every trace for one click: at the last trace all points are known.
    """
    clicked: list[tuple[int, Any]] = []

    def handle(_trace: Any, points: Any, _state: Any) -> None:
        clicked.extend(zip(points.point_inds, points.xs, strict=True))
        if points.trace_index == len(view.data) - 1 and clicked:
            first, clicked[:] = clicked[0], []
            action(*first)

    for trace in view.data:
        trace.on_click(handle)
