"""Makes the pictures that the README shows, anew: the report, the dashboard and the checklist of three months of the demo.

    .venv/bin/python tests/pictures.py [report] [dashboard] [checklist]

Everybody in them is invented.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

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


def main() -> int:
    """Write the pictures that are named, or all; 0."""
    PICTURES.mkdir(exist_ok=True)
    names = sys.argv[1:] or ["report", *WIDGETS]
    with ek.demo(people=15, days=63, seed=7) as demo, tempfile.TemporaryDirectory() as room:
        if "report" in names:
            page = Path(room, "fleet.html")
            ek.report(demo.history, page, exposure=demo.exposure)
            _report(page)
        demo.exposure.alerts().to_pickle(Path(room, "alerts.pickle"))
        Path(room, "connection.json").write_text(json.dumps(demo.connection))
        shutil.copytree(demo.history.path, Path(room, "history"))
        with kit.desk(Path(room), "notebook") as desk:
            for name, (cell, last) in ((name, WIDGETS[name]) for name in names if name in WIDGETS):
                _widget(desk, cell, last, PICTURES / f"{name}.png")
    return 0


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
