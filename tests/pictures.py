"""Makes the pictures that the README shows, anew: the report, the dashboard and the checklist of three months of the demo.

    .venv/bin/python tests/pictures.py

Everybody in them is invented.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from support import jupyter as kit

import exposurekit as ek

PLACE = Path(__file__).parent.parent / "notebooks" / "pictures"
WIDTH = 1100
TABLES = """
import pandas as pd, exposurekit as ek
alerts = pd.read_pickle("alerts.pickle")
history = ek.History("history")
"""
WIDGETS = {
    "dashboard": ("ek.widgets.Dashboard(history=history)", 760),
    "checklist": (
        "ek.widgets.OptOutChecklist(alerts[alerts['opt_out_procedure'].list.len() > 3], history)",
        560,
    ),
}


def main() -> int:
    """Write every picture; 0."""
    PLACE.mkdir(exist_ok=True)
    with ek.demo(people=15, days=63, seed=7) as demo, tempfile.TemporaryDirectory() as room:
        page = Path(room, "fleet.html")
        ek.report(demo.history, page, exposure=demo.exposure)
        _report(page)
        demo.exposure.alerts().to_pickle(Path(room, "alerts.pickle"))
        shutil.copytree(demo.history.path, Path(room, "history"))
        with kit.desk(Path(room), "notebook") as desk:
            for name, (cell, height) in WIDGETS.items():
                _widget(desk, cell, height, PLACE / f"{name}.png")
    return 0


def _report(page: Path) -> None:
    with kit.browsing(width=WIDTH, height=900, file=page) as (shown, _):
        shown.goto(page.as_uri())
        shown.locator(".js-plotly-plot .bars").first.wait_for()
        shown.wait_for_timeout(500)
        shown.screenshot(path=PLACE / "report.png")
        section = shown.locator("section", has=shown.locator("#status_over_time-chart"))
        section.scroll_into_view_if_needed()
        chart = section.locator("#status_over_time-chart")
        chart.locator(".main-svg").first.wait_for()
        shown.wait_for_timeout(1_000)
        chart.screenshot(path=PLACE / "status_over_time.png")


def _widget(desk: Any, cell: str, height: int, picture: Path) -> None:
    page = desk.shows(TABLES, cell, height=3_600)  # Notebook 7 scrolls what is higher than its window
    panel = page.locator(".exposurekit-panel").first
    panel.wait_for()
    page.wait_for_timeout(3_000)  # charts are laid out more than once
    place = panel.bounding_box()
    page.screenshot(
        path=picture,
        clip={
            "x": place["x"],
            "y": place["y"],
            "width": place["width"],
            "height": min(height, place["height"]),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
