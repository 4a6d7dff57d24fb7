"""Makes the pictures that the README shows, anew: the report, the dashboard and the checklist of three months of the demo.

    .venv/bin/python tests/pictures.py [report] [dashboard] [checklist] [after]

``after`` makes the newer half of the comparison. ``before`` makes the older one, with an older checkout in PYTHONPATH.
Everybody in them is invented.
"""

import base64
import json
import shutil
import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from support import jupyter as kit

import exposurekit as ek

PICTURES = Path(__file__).parent.parent / "notebooks" / "pictures"
WIDTH = 1100
PADDING = 16
HEIGHT_MAX = 1_600
TABLES = """
import json, pandas as pd, exposurekit as ek
alerts = pd.read_pickle("alerts.pickle")
exposure = ek.connect(**json.load(open("connection.json")))
history = ek.History("history")
"""
WIDGETS = {
    "dashboard": ("ek.widgets.Dashboard(exposure, history)", ".exposurekit-charts"),
    "checklist": (
        "ek.widgets.OptOutChecklist(alerts[alerts['opt_out_procedure'].list.len() > 3], history)",
        ".exposurekit-steps",
    ),
}
COMPARISON = PICTURES / "comparison"
REPORTS: dict[str, dict[str, Any]] = {
    "fleet": {},
    "person": {"user": 1},
    "changes": {"since": "14d"},
    "sites": {"kind": "sites"},
}
# Charts, by the reports that have them, and the sections that they are in.
CHARTS = {"fleet": ("by_site", "status_over_time", "time_to_removal"), "changes": ("changes",)}
CELLS = {
    "dashboard": WIDGETS["dashboard"][0],
    "checklist": WIDGETS["checklist"][0],
    "explorer": "ek.widgets.Explorer(exposure.records(), name='records')",
}
# The width of the window: its width in the picture, and the height that is in it.
SHOTS = {1280: (800, 1500), 390: (293, 1250)}
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def main() -> int:
    """Write the pictures that are named, or all; 0."""
    PICTURES.mkdir(exist_ok=True)
    names = sys.argv[1:] or ["report", *WIDGETS, "after"]
    with ek.demo(people=15, days=63, seed=7) as demo, tempfile.TemporaryDirectory() as room:
        if "report" in names:
            page = Path(room, "fleet.html")
            ek.report(demo.history, page, exposure=demo.exposure)
            _report(page)
        demo.exposure.alerts().to_pickle(Path(room, "alerts.pickle"))
        Path(room, "connection.json").write_text(json.dumps(demo.connection))
        shutil.copytree(demo.history.path, Path(room, "history"))
        halves = [name for name in names if name in {"before", "after"}]
        for half in halves:
            for name, options in REPORTS.items():
                page = Path(room, f"{name}.html")
                ek.report(demo.history, page, exposure=demo.exposure, **options)
                _compared_report(page, half)
        with kit.desk(Path(room), "notebook") as desk:
            for name, (cell, last) in ((name, WIDGETS[name]) for name in names if name in WIDGETS):
                _widget(desk, cell, last, PICTURES / f"{name}.png")
            for half in halves:
                for name, cell in CELLS.items():
                    _compared_widget(desk, name, cell, half)
    return 0


def _compared_report(file: Path, half: str) -> None:
    """One kind of report, and its charts, on a desk and on a phone, in both themes."""
    for theme in THEMES:
        parts: dict[str, list[bytes]] = {}
        for width, (_, height) in SHOTS.items():
            with kit.browsing(width=width, height=height, file=file, dark=theme == "dark") as (page, _):
                page.goto(file.as_uri())
                page.wait_for_timeout(2_000)  # until the charts are drawn
                parts.setdefault(file.stem, []).append(page.screenshot())
                for key in CHARTS.get(file.stem, ()):
                    section = page.locator(f"section#{key}")
                    section.scroll_into_view_if_needed()
                    section.locator(".main-svg").first.wait_for()
                    page.wait_for_timeout(500)
                    box = section.bounding_box()
                    clip = {name: box[name] for name in ("x", "y", "width")}
                    clip |= {"y": box["y"] + page.evaluate("scrollY"), "height": min(box["height"], height)}
                    parts.setdefault(f"chart_{key}", []).append(page.screenshot(clip=clip, full_page=True))
        for name, shots in parts.items():
            _compose(shots, theme, COMPARISON / f"{name}-{theme}-{half}.png")


def _compared_widget(desk: Any, name: str, cell: str, half: str) -> None:
    """A widget on a desk and on a phone, in both themes."""
    page = desk.shows(TABLES, cell, height=3_600)
    panel = page.locator(".exposurekit-panel").first
    panel.wait_for()
    for theme, front_theme in THEMES.items():
        page.evaluate(
            "(theme) => { window.jupyterapp.commands.execute('apputils:change-theme', { theme }); }",
            front_theme,
        )
        shots = []
        for width, (_, height) in SHOTS.items():
            page.set_viewport_size({"width": width, "height": 3_600})
            page.wait_for_timeout(3_000)  # charts are laid out more than once
            panel.evaluate("(panel) => panel.closest('.jp-Cell-outputWrapper').scrollIntoView()")
            box = panel.bounding_box()
            clip = {"x": max(box["x"], 0), "y": max(box["y"], 0), "width": box["width"]}
            shots.append(page.screenshot(clip=clip | {"height": min(box["height"], height)}))
        _compose(shots, theme, COMPARISON / f"{name}-{theme}-{half}.png")


def _compose(shots: list[bytes], theme: str, picture: Path) -> None:
    """A picture with the shots side by side, as large as `SHOTS` says."""
    COMPARISON.mkdir(exist_ok=True)
    images = "".join(
        f"<img width={width} src='data:image/png;base64,{base64.b64encode(shot).decode()}'>"
        for shot, (width, _) in zip(shots, SHOTS.values(), strict=True)
    )
    paper = {"light": "#ffffff", "dark": "#111111"}[theme]
    style = f"margin:0;padding:8px;display:inline-flex;gap:16px;align-items:start;background:{paper}"
    with kit.browsing(width=WIDTH + 40, height=1_000) as (page, _):
        page.set_content(f"<body style='margin:0'><main style='{style}'>{images}</main></body>")
        kit.wait_for_images(page)
        whole = Image.open(BytesIO(page.locator("main").screenshot())).convert("RGB")
    whole.quantize(256).save(picture, optimize=True)  # a third of the size


def _report(page: Path) -> None:
    with kit.browsing(width=WIDTH, height=900, file=page) as (browser_page, _):
        browser_page.goto(page.as_uri())
        browser_page.locator(".js-plotly-plot .bars").first.wait_for()
        browser_page.wait_for_timeout(500)
        browser_page.screenshot(path=PICTURES / "report.png")
        section = browser_page.locator("section", has=browser_page.locator("#status_over_time-chart"))
        section.scroll_into_view_if_needed()
        chart = section.locator("#status_over_time-chart")
        chart.locator(".main-svg").first.wait_for()
        browser_page.wait_for_timeout(1_000)
        chart.screenshot(path=PICTURES / "status_over_time.png")


def _widget(desk: Any, cell: str, last: str, picture: Path) -> None:
    """A widget from its top to the end of one of its parts."""
    page = desk.shows(TABLES, cell, height=3_600)
    panel = page.locator(".exposurekit-panel").first
    panel.wait_for()
    page.wait_for_timeout(3_000)  # charts are laid out more than once
    box, end = panel.bounding_box(), page.locator(last).first.bounding_box()
    height = min(end["y"] + end["height"] + PADDING - box["y"], HEIGHT_MAX)
    page.screenshot(
        path=picture,
        clip={"x": box["x"], "y": box["y"], "width": box["width"], "height": height},
    )


if __name__ == "__main__":
    sys.exit(main())
