"""A page with charts and tables in one file. Loads nothing from anywhere, and runs no script but its own."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
import plotly.io
import plotly.offline
from pydantic_core import to_json

from exposurekit import charts
from exposurekit.markup import escaped

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid #8884; text-align: right; }
th:first-child, td:first-child { text-align: left; }
caption, footer { color: #767676; text-align: left; }
.wide { overflow-x: auto; }
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A chart, what it shows in words, and its numbers."""

    title: str
    figure: go.Figure
    table: pd.DataFrame


def page(title: str, sections: Sequence[Section], *, provenance: str) -> str:
    """The page as HTML, about 5 MB: Plotly is inside.

    A Content-Security-Policy names the page's own scripts by their hash: nothing else runs, and no request
    leaves. All text is escaped.

    >>> "connect-src 'none'" in page("Exposure", [], provenance="nowhere")
    True
    """
    scripts = [
        plotly.offline.get_plotlyjs(),
        *(_draw(place, one.figure) for place, one in enumerate(sections)),
    ]
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "font-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    body = "\n".join(_section(place, one) for place, one in enumerate(sections))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escaped(title)}</h1>
{body}
<footer>{escaped(provenance)}</footer>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def _section(place: int, section: Section) -> str:
    words = escaped(charts.describe(section.figure))
    return f"""<section>
<h2>{escaped(section.title)}</h2>
<p>{words}</p>
<div id="chart-{place}" role="img" aria-label="{words}"></div>
<div class="wide">{_table(section)}</div>
</section>"""


def _table(section: Section) -> str:
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in section.table.columns)
    rows = (
        "".join(f"<td>{escaped(value)}</td>" for value in row)
        for row in section.table.itertuples(index=False)
    )
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    caption = f"<caption>{escaped(section.title)}, in numbers</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _draw(place: int, figure: go.Figure) -> str:
    figure = go.Figure(figure).update_layout(title=None, margin_t=40)  # the page says it, and wraps it
    # Inside a script element "</" and "<!--" end or hide the script: no "<" may stand in the data.
    data = plotly.io.to_json(figure, validate=False, engine="json").replace("<", "\\u003c")
    config = to_json(charts.CONFIG).decode()
    return (
        f'{{const figure = {data}; Plotly.newPlot("chart-{place}", figure.data, figure.layout, {config});}}'
    )


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
