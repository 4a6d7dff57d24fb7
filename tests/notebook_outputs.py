"""Runs the shipped notebooks anew, and writes them with their outputs and a picture of each chart.

    .venv/bin/python tests/notebook_outputs.py [NAME ...]

Everybody in them is invented. A code host shows the pictures; a live notebook draws the charts.
"""

import base64
import gzip
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from support import jupyter as kit

from exposurekit.charts.embedding import plotly_js
from exposurekit.charts.theme import MIME, PAPER
from exposurekit.text.sanitize import escaped

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
WIDTH = 900
WIDGET = "application/vnd.jupyter.widget-view+json"
SVG = "image/svg+xml"
LIBRARY = '<script type="text/plain" class="exposurekit-drawing">'
FIGURE = re.compile(
    r'<figure class="exposurekit-chart"[^>]*><p>(.*?)</p>.*?<script type="text/plain">(.*?)</script></figure><script>.*?</script>',
    re.DOTALL,
)
PICTURE = """async ({ data, layout, width }) => {
  const place = document.body.appendChild(document.createElement("div"));
  await Plotly.newPlot(place, data, { ...layout, width });
  const url = await Plotly.toImage(place, { format: "svg", width, height: layout.height });
  const drawn = new DOMParser().parseFromString(decodeURIComponent(url.slice(url.indexOf(",") + 1)), "image/svg+xml");
  const svg = drawn.documentElement, { finding, summary } = layout.meta ?? {};
  svg.setAttribute("role", "img");
  if (finding) svg.setAttribute("aria-label", `${finding}. ${summary}`);
  svg.style.maxWidth = "100%";
  place.remove();
  return new XMLSerializer().serializeToString(svg);
}"""
# What is another on each machine, and in each run.
CHANGING = (
    (re.compile(r"(/[\w.-]+)+/exposurekit-demo-\w+"), "/tmp/exposurekit-demo"),  # noqa: S108  not a place to write to
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:8000"),
)


def main(names: list[str]) -> int:
    """Write every notebook, or those named; 0."""
    chosen = [path for path in sorted(NOTEBOOKS.glob("*.ipynb")) if not names or path.stem in names]
    with kit.browsing(width=WIDTH + 100) as (page, _):
        page.set_content("<body></body>")
        page.add_script_tag(content=plotly_js())
        for path in chosen:
            path.write_text(nbformat.writes(_run(path, page)) + "\n", "utf-8")
            sys.stdout.write(f"{path.name}: {path.stat().st_size:,} bytes\n")
    return 0


def _run(path: Path, page: Any) -> Any:
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as room:
        resources = {"metadata": {"path": room}}
        client = NotebookClient(
            notebook, timeout=900, resources=resources, store_widget_state=False, record_timing=False
        )
        client.execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):
        cell.metadata = {}
        cell.outputs = [
            _sanitized(output, f"{path.stem[:2]}{number:02}{index:02}", page)
            for index, output in enumerate(cell.outputs)
            if output.get("name") != "stderr" and not _is_for_kernel(output)
        ]
    return notebook


def _is_for_kernel(output: Any) -> bool:
    """Whether it is a live widget, a progress bar that has ended, or the library that draws a widget's charts."""
    data = output.get("data", {})
    html = data.get("text/html")
    return WIDGET in data or html == "" or str(html).startswith(LIBRARY)


def _sanitized(output: Any, name: str, page: Any) -> Any:
    """An output without what only a running kernel can show, and with a picture where it is a chart."""
    data = output.get("data", {})
    if MIME in data:
        figure = data[MIME]
        svg = page.evaluate(PICTURE, {"data": figure["data"], "layout": figure["layout"], "width": WIDTH})
        output.data = _shown(figure, _named(svg, name), data["text/plain"])
    elif "text/html" in data:
        data["text/html"] = FIGURE.sub(lambda match: _picture(match, name, page), data["text/html"])
    steady = json.dumps(output)
    for changing, instead in CHANGING:
        steady = changing.sub(instead, steady)
    return nbformat.from_dict(json.loads(steady))


def _picture(match: re.Match[str], name: str, page: Any) -> str:
    """A chart in a widget's static HTML as a picture."""
    words, packed = match.groups()
    figure = json.loads(gzip.decompress(base64.b64decode(packed)))
    layout = figure["layout"] | {"paper_bgcolor": PAPER}
    svg = page.evaluate(PICTURE, {"data": figure["data"], "layout": layout, "width": WIDTH})
    return _image(_named(svg, f"{name}{match.start():06}"), words)


def _image(svg: str, words: str) -> str:
    source = f"data:{SVG};base64,{base64.b64encode(svg.encode()).decode()}"
    return f'<img alt="{words}" src="{source}" style="max-width:100%">'


def _shown(figure: dict[str, Any], svg: str, line: str) -> dict[str, Any]:
    """A chart, and its picture twice: nbconvert gives a picture of its own no alternative text, and takes HTML first."""
    meta = figure["layout"].get("meta", {})
    words = escaped(f"{meta.get('finding', '')}. {meta.get('summary', '')}")
    return {MIME: figure, "text/html": _image(svg, words), SVG: svg, "text/plain": line}


def _named(svg: str, name: str) -> str:
    """A picture whose parts are called by its own name, and not by a random one: pictures stand on one page."""
    random = re.search(r'id="defs-([0-9a-f]{6})"', svg)
    return svg.replace(random[1], name) if random else svg


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
