"""A report as one page that stands alone: loads nothing, and runs no script but its own. Trusts no text."""

import base64
import hashlib
import json
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from exposurekit import charts
from exposurekit.analysis.definitions import definition
from exposurekit.charts.embedding import drawing_js, plotly_js
from exposurekit.text import formatting
from exposurekit.text.sanitize import escaped, link, plain

_INSIDE = Markup  # what was made here, and not told from outside


def page(report: Any) -> str:
    """A `Report` as HTML.

    A Content-Security-Policy names the page's own scripts by their hash: nothing else runs, and no request leaves. All
    text is escaped. The same report gives the same bytes.

    >>> from exposurekit.reports.html import page
    >>> "connect-src" in page(ek.report(exposure))
    True
    """
    first = next((one.key for one in report.sections if one.chart is not None), None)
    drawing = [plotly_js(), _charts_js()] if first else []
    reading = _file("templates/report.js")
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in (*drawing, reading))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "font-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    told: str = _template().render(
        report=report,
        policy=policy,
        style=_INSIDE(_file("templates/report.css")),
        # Where the first chart stands, and not at the end: it is drawn before the tables below it are even read.
        first=first,
        drawing=[_INSIDE(script) for script in drawing],
        reading=_INSIDE(reading),
    )
    return told


def without_scripts(html: str) -> str:
    """What of a page is not the same in all: its text and its data.

    >>> from exposurekit.reports.html import without_scripts
    >>> len(without_scripts(ek.report(exposure).to_html())) < 1_000_000
    True
    """
    for shared in (plotly_js(), _charts_js(), _file("templates/report.js"), _file("templates/report.css")):
        html = html.replace(shared, "")
    return html


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("exposurekit.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        # Before it is escaped: no control character, nothing that turns the line around it.
        finalize=lambda value: value if isinstance(value, Markup) else plain(value),
    )
    environment.filters |= {
        "linked": lambda url: _INSIDE(link(url)),
        "body": _body,
        "defined": _defined,
        "meaning": _meaning,
        "drawn": lambda chart: _data(_charts_json(chart)),
        "csv": lambda table: _data(formatting.as_csv(table)),
    }
    return environment.get_template("report.html")


def _meaning(name: str) -> Markup:
    """A figure's definition as what an element shows on hover; nothing where there is none."""
    words = definition(name)
    return _INSIDE(f' title="{escaped(words)}"') if words else _INSIDE("")


def _defined(name: str) -> Markup:
    """A figure's name, which shows its definition on hover and tells it to who cannot see it."""
    if not definition(name):
        return _INSIDE(escaped(name))
    said = escaped(f"{name}: {definition(name)}")
    return _INSIDE(f'<dfn tabindex="0"{_meaning(name)} aria-label="{said}">{escaped(name)}</dfn>')


def _body(table: pd.DataFrame) -> Markup:
    """The rows of a table: a loop of the template's would take as long as all else."""
    told: dict[str, str] = {}  # many a cell is as another
    rows = [
        "".join(f"<td>{told.get(cell) or told.setdefault(cell, escaped(cell))}</td>" for cell in row)
        for row in formatting.rows(table)
    ]
    return _INSIDE("\n".join(f"<tr>{row}</tr>" for row in rows))


def _charts_json(chart: charts.Chart) -> dict[str, Any]:
    figure: dict[str, Any] = json.loads(chart.to_json(validate=False, engine="json"))
    # The page says the title, and wraps it.
    layout = figure["layout"] | {"title": None, "margin": figure["layout"].get("margin", {}) | {"t": 40}}
    layout.pop("meta", None)
    return {"data": figure["data"], "layout": layout, "config": charts.CONFIG}


def _data(value: Any) -> Markup:
    """JSON inside a script element: "</" and "<!--" would end or hide it, so no "<" stands in it."""
    told = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _INSIDE(told.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


@cache
def _charts_js() -> str:
    return f'(() => {{\n"use strict";\n{drawing_js()}{_file("templates/charts.js")}}})();\n'


@cache
def _file(name: str) -> str:
    return files("exposurekit.reports").joinpath(name).read_text("utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
