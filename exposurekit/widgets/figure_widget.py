"""Figures that are drawn anew where they stand, and tell of clicks. Knows nothing of what they show."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anywidget
import plotly
import plotly.graph_objects as go
import traitlets
from ipywidgets import Widget, widget_serialization

from exposurekit import charts

_CLEAR = "rgba(0,0,0,0)"
_DIM = 0.25  # of a bar that is not marked, where others are
_PAD_PX = 28  # a second line lifts the first
# anywidget gives a script two seconds to be there, and passes on no message to a widget whose script was later: of
# Plotly's five megabytes a busy browser is later, and then draws a chart without its data, and with every button that
# it has. So what is there at once is small, Plotly comes once for all charts of a page, and what a chart was told in
# the meantime is asked for again.
_SCRIPT = """
const PATIENCE_MS = 3000;
async function loaded(model) {
  const library = await model.widget_manager.get_model(model.get("_library").replace("IPY_MODEL_", ""));
  const url = URL.createObjectURL(new Blob([library.get("code")], { type: "text/javascript" }));
  try { return (await import(url)).default; } finally { URL.revokeObjectURL(url); }
}
function plotly(model) {
  const once = (globalThis.exposurekitPlotly ??= {}), version = model.get("_plotly");
  once[version] ??= loaded(model).catch((error) => { delete once[version]; throw error; });
  return once[version];
}
// Plotly's own follower of a model: of what came before it follows it knows nothing.
async function followed(model, views) {
  const follower = (await plotly(model))();
  const edited = model.get("_last_layout_edit_id") > 0 || model.get("_last_trace_edit_id") > 0;
  await new Promise((done) => {
    let follows = false;
    const follow = () => { if (!follows) { follows = true; follower.initialize({ model }); done(); } };
    if (!edited) { follow(); return; }
    model.on("msg:custom", (told) => {
      if (!told.whole) return;
      if (follows) views.forEach((draw) => draw()); else follow();
    });
    model.send({ whole: true });
    setTimeout(follow, PATIENCE_MS);  // nobody may be there to answer, or not yet
  });
  return follower;
}
export default () => {
  const views = new Set(), heard = [];  // of these, what Plotly's follower and its views listen to
  let kept = null, follower = null;
  return {
    // A view's own model ends with that view: the follower of all of them has this one.
    initialize({ model }) {
      kept = { ...model, on(name, act) { model.on(name, act); heard.push([name, act]); } };
    },
    async render({ el }) {
      let end = () => {}, ended = false;
      const draw = async () => {
        const drawing = await (follower ??= followed(kept, views));
        if (ended) return;
        end();
        el.replaceChildren();
        heard.length = 0;
        const purge = drawing.render({ model: kept, el }), mine = heard.splice(0);
        end = () => { mine.forEach(([name, act]) => kept.off(name, act)); purge(); };
      };
      views.add(draw);
      draw().catch(() => { follower = null; el.textContent = "Plotly could not be loaded: run the cell again."; });
      return () => { ended = true; views.delete(draw); end(); };
    },
  };
};
"""


class Library(anywidget.AnyWidget):
    """Plotly as widgets have it, for all charts of a kernel."""

    _esm = "export default { render() {} };"
    code = traitlets.Unicode().tag(sync=True)


class FigureView(go.FigureWidget):  # type: ignore[misc]  # Plotly tells no types
    """A figure as a widget, with the buttons of a chart."""

    _esm = _SCRIPT
    _library = traitlets.Instance(Widget).tag(sync=True, **widget_serialization)
    _plotly = traitlets.Unicode(plotly.__version__).tag(sync=True)
    shown: Mapping[str, Any] | None = None  # Plotly lets nothing be set that its class does not have

    def __init__(self, figure: go.Figure) -> None:
        self._is_whole = False
        super().__init__(figure)
        self._config: dict[str, Any] = {**self._config, **charts.CONFIG, "responsive": True}
        self.on_msg(lambda _widget, content, _buffers: self._heard(content))
        self._is_whole = True
        self.open()

    def open(self) -> None:
        """Tell the browser of it, once there is all of it to tell: what is told later may come too late."""
        if self._is_whole:
            super().open()

    @traitlets.default("_library")
    def _its_library(self) -> Library:
        return _library()

    def _heard(self, content: Any) -> None:
        """A browser asks for all of the figure, as it is now."""
        if isinstance(content, dict) and content.get("whole"):
            now = self.to_plotly_json()
            self._widget_data, self._widget_layout = now["data"], now["layout"]
            self.send({"whole": True})


_libraries: list[Library] = []


def _library() -> Library:
    if not _libraries or _libraries[-1].comm is None:  # whoever closes all widgets closes it, too
        _libraries[:] = [Library(code=str(go.FigureWidget._esm))]  # noqa: SLF001  it has no other name
    return _libraries[-1]


def create_view(figure: charts.Chart) -> FigureView:
    """The figure as a widget, on the background of the page."""
    living = FigureView(go.Figure(figure).update_layout(title=_title(figure), paper_bgcolor=_CLEAR))
    living.shown = _apart_from_marks(figure)
    return living


def redraw(living: FigureView, figure: charts.Chart) -> None:
    """Show another figure in its place; what listened to clicks does so no longer.

    Where the two differ only in what is marked, the bars stay where they are, and so does what listens.
    """
    shown = _apart_from_marks(figure)
    if shown == living.shown:
        with living.batch_update():
            for old, new in zip(living.data, figure.data, strict=True):
                if isinstance(new, go.Bar):
                    old.marker.opacity = new.marker.opacity
        return
    with living.batch_update():
        living.data = []
        living.add_traces(figure.data)
        living.layout = figure.layout
        living.update_layout(title=_title(figure), paper_bgcolor=_CLEAR)
    living.shown = shown


def mark(figure: go.Figure, is_marked: Sequence[bool]) -> None:
    """Dim the bars in the rows that are not marked; where none is, all bars are full.

    Args:
        figure: A chart with a bar of each trace in every row.
        is_marked: For each row, from the first; rows beyond these are not marked.
    """
    for bar in figure.select_traces({"type": "bar"}):
        rows = [*is_marked, *[False] * (len(bar.y) - len(is_marked))]
        bar.marker.opacity = [1 if one else _DIM for one in rows] if any(is_marked) else [1] * len(rows)


def _apart_from_marks(figure: go.Figure) -> dict[str, Any]:
    """All that is drawn but for how full each bar is."""
    drawn: dict[str, Any] = json.loads(figure.to_json(validate=False, engine="json"))
    for trace in drawn["data"]:
        if trace["type"] == "bar":
            trace["marker"].pop("opacity", None)
    return drawn


def _title(figure: charts.Chart) -> dict[str, Any]:
    """The title with the provenance below it as lines of one text.

    A subtitle of its own is put where the title ends, and while a widget is drawn unseen that is nowhere.
    """
    title = figure.layout.title
    below = f'<span style="font-size:12px">{title.subtitle.text}</span>' if title.subtitle.text else None
    lines = [line for line in (title.text, below) if line]
    pad = title.pad.to_plotly_json() | ({"t": _PAD_PX} if len(lines) > 1 else {})
    return {"text": "<br>".join(lines), "subtitle": {"text": ""}, "pad": pad}


def on_click(living: FigureView, act: Callable[[int, Any], None]) -> None:
    """Call with the place and the x of the first point that was clicked.

    Plotly tells every trace of a click, one after the other: only at the last one may there be others.
    """
    clicked: list[tuple[int, Any]] = []

    def told(_trace: Any, points: Any, _state: Any) -> None:
        clicked.extend(zip(points.point_inds, points.xs, strict=True))
        if points.trace_index == len(living.data) - 1 and clicked:
            first, clicked[:] = clicked[0], []
            act(*first)

    for trace in living.data:
        trace.on_click(told)
