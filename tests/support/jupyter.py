"""A real JupyterLab or Notebook 7 on loopback, and a real Chromium that reaches nothing else: what leaves is counted."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.ports import free_port

# The headless shell draws the same with a fifth less CPU.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
NO_BROWSER = "no Chromium: apt-get install chromium"
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
TOKEN = "loopback-only"  # of a server that this test alone reaches
PATIENCE_MS = 120_000
POLLING_MS = 50
WIDTH = 1300
_READY = (
    "() => { const context = window.jupyterapp?.shell?.currentWidget?.context?.sessionContext;"
    " return context?.isReady && context?.session?.kernel?.status === 'idle'; }"
)
# Whether the pointer is on a point of a chart, which has a label then.
_LABELLED = "() => document.querySelector('.js-plotly-plot .hoverlayer > *') !== null"
# A widget sends its next change when the one before is answered: what was typed is answered after a few answers.
_ANSWERED = """async () => {
  const {kernel} = window.jupyterapp.shell.currentWidget.context.sessionContext.session;
  for (let n = 0; n < 4; n++) await kernel.requestExecute({code: "", silent: true}).done;
}"""
_ENDED = "() => globalThis.started.hasEnded"  # the last command
_OVERRIDES = "default_setting_overrides.json"
# No question about news, and every cell is drawn, in view or not.
_SETTINGS = {
    "page_config.json": {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}},
    _OVERRIDES: {"@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"}},
}
# In a workspace of its own: the lab would open again what was open before.
FRONTS = {"lab": ("lab", "lab/workspaces/{stem}/tree"), "notebook": ("notebook", "notebooks")}


def needs_browser():
    """Skip where there is no browser; where the gate runs there is one, or it fails."""
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)


@contextlib.contextmanager
def jupyter(directory: Path, front: str, *, windowed: bool = False):
    """The address of a Jupyter server over a directory, for as long as the block lasts.

    Args:
        directory: Its root.
        front: One of `FRONTS`.
        windowed: Whether it draws only the cells in view, as it does by default.
    """
    port, log = free_port(), directory / f"{front}.log"
    private = {
        name: str(directory / ".jupyter" / name)
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    command = [
        *(sys.executable, "-m", "jupyter", FRONTS[front][0], "--no-browser", "--allow-root"),
        *(f"--port={port}", "--ip=127.0.0.1", "--ServerApp.port_retries=0"),
        *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={directory}"),
        "--LabApp.expose_app_in_browser=True",
        "--JupyterNotebookApp.expose_app_in_browser=True",
    ]
    settings = Path(private["JUPYTER_CONFIG_DIR"], "labconfig")
    settings.mkdir(parents=True, exist_ok=True)
    for name, value in _SETTINGS.items():
        if not (windowed and name == _OVERRIDES):
            (settings / name).write_text(json.dumps(value))
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=os.environ | private, stdout=out, stderr=out)
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/status?token={TOKEN}", process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(PATIENCE_MS / 1_000)


def _wait_for(address, process, log):
    for _ in range(1_200):
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address, timeout=2).close()  # noqa: S310  of loopback
            return
        assert process.poll() is None, log.read_text()[-2000:]
        time.sleep(0.1)  # until another process listens
    raise AssertionError(log.read_text()[-2000:])


@dataclass
class Sight:
    """What a browser did by itself: requests to other hosts, dialogs, errors."""

    left: list = field(default_factory=list)
    dialogs: list = field(default_factory=list)
    errors: list = field(default_factory=list)

    def clear(self):
        for events in (self.left, self.dialogs, self.errors):
            events.clear()


@dataclass
class Desk:
    """One page of a front end, loaded once, that opens one notebook after another.

    Attributes:
        directory: The directory of the notebook.
        sight: What the browser did since the notebook was opened.
    """

    directory: Path
    address: str
    front: str
    page: Any
    sight: "Sight"
    _is_open: bool = False

    @property
    def path(self) -> Path:
        return self.directory / "desk.ipynb"

    def shows(self, *cells: str, height: int = 1400):
        """Open a notebook with these cells, with the kernel of the last one, and run it; the page."""
        written(self.path, *cells)
        return self.runs(height=height)

    def runs(self, *, height: int = 1400):
        """Open the notebook as its file is now, and run it; the page."""
        self.sight.clear()
        self.page.set_viewport_size({"width": WIDTH, "height": height})
        if self._is_open:
            self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.revert()")
            self.page.wait_for_function(_READY)
        else:
            opened(self.page, self.address, self.front, self.path.name)
            self._is_open = True
        run_all(self.page)
        return self.page


@contextlib.contextmanager
def desk(directory: Path, front: str, *, windowed: bool = False):
    """A Jupyter server over a directory, and a desk there; ``windowed`` as of `jupyter`."""
    with jupyter(directory, front, windowed=windowed) as address, browsing() as (page, sight):
        yield Desk(directory, address, front, page, sight)


_browsers: list[Any] = []


@contextlib.contextmanager
def chromium():
    """A running Chromium; within the block of another one, that one."""
    if _browsers:
        yield _browsers[-1]
        return
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-quic"]
    with sync_playwright() as playwright:
        _browsers.append(playwright.chromium.launch(executable_path=CHROMIUM, args=arguments))
        try:
            yield _browsers[-1]
        finally:
            _browsers.pop().close()


@contextlib.contextmanager
def browsing(*, dark=False, width=WIDTH, height=1400, file=None):
    """A page that reaches loopback, and one file if one is named, and nothing else; and what the browser observed."""
    uri = None if file is None else Path(file).resolve().as_uri()
    with chromium() as browser:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        page, sight = new_page(context), Sight()
        context.route(
            lambda address: urlsplit(address).hostname not in LOOPBACK and address.partition("#")[0] != uri,
            _blocking(sight),
        )
        page.on("dialog", lambda dialog: (sight.dialogs.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: sight.errors.append(str(error)))
        try:
            yield page, sight
        finally:
            context.close()


def new_page(context):
    """A page that waits patiently: by default, Playwright would have every frame drawn to look whether it may go on."""
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.wait_for_function = partial(page.wait_for_function, polling=POLLING_MS)
    return page


def _blocking(sight):
    def block(route):
        if not route.request.url.startswith(("data:", "blob:")):
            sight.left.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    return block


def written(path: Path, *cells: str) -> Path:
    """A notebook with these cells."""
    import nbformat  # slow to import, and every process of the tests has this file

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


def opened(page, address: str, front: str, name: str):
    """Open a notebook, and wait until its kernel is idle."""
    within = FRONTS[front][1].format(stem=Path(name).stem)
    page.goto(f"{address}/{within}/{name}?token={TOKEN}")
    page.wait_for_selector(".jp-Notebook")
    page.wait_for_function(_READY)


def run_all(page):
    """Run every cell, and wait for the last."""
    run_command(page, "notebook:run-all-cells")
    page.wait_for_function(_ENDED)
    page.wait_for_function(
        "() => { const all = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputPrompt')];"
        " return all.length && all.every(one => /\\[\\d+\\]/.test(one.textContent)); }"
    )


def wait_for_kernel(page):
    """Wait until the kernel has answered what was pressed."""
    page.evaluate(_ANSWERED)


def run_command(page, command: str):
    """Run a command of the application, without waiting for its result: some have none."""
    page.evaluate(
        "(command) => { const started = globalThis.started = {};"
        " window.jupyterapp.commands.execute(command).finally(() => { started.hasEnded = true; }); }",
        command,
    )


def sidebar_toggled(page, front: str):
    """Open or close the left sidebar of a front end."""
    bar = page.locator("#jp-left-stack")
    was_open = bar.is_visible()
    run_command(page, {"lab": "application:toggle-left-area", "notebook": "toc:toggle-panel"}[front])
    bar.wait_for(state="hidden" if was_open else "visible")


def restarted(page):
    """Restart the kernel, and clear what it displayed."""
    kernel_restarted(page)
    run_command(page, "notebook:clear-all-cell-outputs")


def kernel_restarted(page):
    """Restart the kernel, confirm it, and wait until it is idle."""
    run_command(page, "notebook:restart-kernel")
    page.locator(".jp-Dialog .jp-mod-accept").click()
    page.wait_for_function(_ENDED)
    page.wait_for_function(_READY)


def clicked(page, shape, *, across=0.5):
    """Click a bar of a chart, or what is drawn above it, once Plotly has found what is under the pointer.

    Args:
        across: Where, as a share of the width.
    """
    page.mouse.move(0, 0)
    page.wait_for_function(f"() => !({_LABELLED})()")
    shape.scroll_into_view_if_needed()  # Notebook 7 scrolls a long output within itself
    box = settled(page, shape)
    page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] / 2, steps=4)
    page.wait_for_function(_LABELLED)
    page.mouse.down()
    page.mouse.up()


def settled(page, shape):
    """The position of a shape once it does not change: charts are laid out more than once."""
    before, box = None, shape.bounding_box()
    while box is None or box != before:
        page.wait_for_timeout(250)
        before, box = box, shape.bounding_box()
    return box


def hovered(page, chart):
    """Move the pointer down over a chart, near its left, where bars begin."""
    chart.scroll_into_view_if_needed()
    box = settled(page, chart)
    left, top = box["x"] + box["width"] / 3, box["y"] + 90
    page.mouse.move(left, top)
    page.mouse.move(left + 30, box["y"] + box["height"] - 60, steps=12)


def wait_for_images(page):
    """Wait until every image has loaded, or failed to: what it requested is recorded."""
    page.wait_for_function("() => [...document.images].every((image) => image.complete)")


@dataclass(frozen=True)
class AccessibleNode:
    """An element of a page as a screen reader receives it."""

    role: str
    name: str
    is_reached: bool


def accessible_nodes(page, selector: str) -> list[AccessibleNode]:
    """The accessibility tree within some elements, as a screen reader receives it."""
    session = page.context.new_cdp_session(page)
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    nodes = []
    for within in session.send("DOM.querySelectorAll", {"nodeId": root, "selector": selector})["nodeIds"]:
        for node in session.send("Accessibility.queryAXTree", {"nodeId": within})["nodes"]:
            if not node.get("ignored"):
                properties = {one["name"]: one["value"].get("value") for one in node.get("properties", ())}
                is_reached = bool(properties.get("focusable")) or bool(properties.get("disabled"))
                role, name = (str(node.get(part, {}).get("value", "")) for part in ("role", "name"))
                nodes.append(AccessibleNode(role, name.strip(), is_reached))
    return nodes


def saved(page, path: Path) -> dict:
    """Save the notebook; what its file then holds."""
    run_command(page, "docmanager:save")
    page.wait_for_function(_ENDED)
    return json.loads(path.read_text())


def outputs(notebook: dict, mime: str) -> list:
    """Everything of one kind that a notebook's outputs hold."""
    cell_outputs = [
        output["data"][mime]
        for cell in notebook["cells"]
        for output in cell.get("outputs", [])
        if mime in output.get("data", {})
    ]
    return ["".join(one) if isinstance(one, list) else one for one in cell_outputs]
