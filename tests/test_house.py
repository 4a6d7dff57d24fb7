"""The plan of the house: who may stand on whom, and which heavy package comes in by which door."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "exposurekit"

# From the ground up. A room may import rooms of lower floors, and of its own floor only where that is itself.
FLOORS = {
    "errors": 0,
    "text": 0,
    "contract": 1,
    "system": 1,
    "frames": 2,
    "client": 2,
    "service": 2,
    "analysis": 3,
    "privacy": 4,
    "snapshot": 4,
    "tables": 4,
    "exposure": 5,
    "charts": 5,
    "history": 5,
    "monitor": 6,
    "reports": 6,
    "widgets": 6,
    "notebook": 7,
    "sandbox": 7,
    "exports": 7,
    "cli": 8,
}
SEES_BOTH_WINGS = {"sandbox", "cli"}
SERVICE_STANDS_ON = {"errors", "text", "system", "contract", "service"}
FACE = "__init__"  # loads every room, lazily; may be asked by cli for the version

# A package and the rooms that may let it in; the name of a room covers all that is inside it.
DOORS = {
    "httpx": {"client.transports.httpx", "client.transports.aiohttp"},
    "aiohttp": {"client.transports.aiohttp", "service.http.client"},
    "yarl": {"client.transports.aiohttp", "service.http.client", "service.http.request"},
    "pydantic_settings": {"client.environment"},
    "plotly": {"charts", "widgets.figure_widget"},
    "pyarrow": {"frames", "snapshot", "history", "exports"},
    "pandas": {
        "frames",
        "exposure",
        "tables",
        "snapshot",
        "analysis",
        "history",
        "charts",
        "reports",
        "exports",
        "monitor.notifications.evaluate",
        "text.formatting",
        "client.probe",
        "frames.key_access",
        "sandbox",
        "notebook.accessor",
        "privacy.redaction",
        "notebook",
        "cli",
        "widgets",
    },
    "deltalake": {"history.storage.delta"},
    "duckdb": {"history.engines.duckdb"},
    "pyspark": {"history.engines.spark"},
    "pydantic": {
        "contract",
        "history.annotations",
        "monitor.notifications.rules",
        "client.calls",
        "client.payloads",
        "client.environment",
        "client.protocol",
        "service.accounts.list_inputs",
        "service.api.openapi",
        "service.accounts.inputs",
        "service.api.schemas",
        "service.sites.definition",
        "service.sites.loader",
    },
    "pydantic_core": {"contract", "reports.model", "service", "monitor.webhooks.parsing"},
    "IPython": {"charts.embedding", "notebook", "widgets.panel"},
    "ipywidgets": {"widgets"},
    "anywidget": {"widgets"},
    "httpx_aiohttp": set(),
    "tqdm": {"client.progress"},
    "nh3": {"text.sanitize"},
    "idna": {"text.sanitize"},
    "jinja2": {"reports.html"},
    "markupsafe": {"reports.html"},
    "html": {"text.sanitize"},
    "click": {"cli"},
    "starlette": {"service", "sandbox"},
    "uvicorn": {"system.asgi_server"},
    "sqlalchemy": {"service"},
    "cryptography": {"service.storage.encryption"},
    "xml": {"contract.xml"},
    "yaml": {"service.sites.loader", "monitor.notifications.rules_file"},
    "apprise": {"monitor.notifications.notifier"},
    "icalendar": {"exports"},
    "selectolax": {"service.scanning.html_text", "service.scanning.extraction", "service.sites.selectors"},
    "jmespath": {"service.scanning.extraction", "service.sites.selectors"},
    "rapidfuzz": {"service.scanning.normalize"},
    "nicknames": {"service.scanning.normalize"},
    "nameparser": {"service.scanning.normalize"},
    "phonenumbers": {"service.scanning.normalize"},
    "alembic": {"service.storage.migrations"},
    "cachetools": {"service.api.cache"},
    "limits": {"service.api.rate_limits"},
    "protego": {"service.scanning.politeness"},
    "sqlite3": {"monitor.sqlite", "monitor.webhooks.store", "service.storage.backends"},
    "unittest": set(),
}
HEAVY = (
    "pandas",
    "httpx",
    "plotly",
    "ipywidgets",
    "pyarrow",
    "duckdb",
    "deltalake",
    "numpy",
    "pydantic",
    "aiohttp",
    "starlette",
)


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def dotted(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or FACE


def imports(path, *, types=True):
    """Every module that a file imports, wherever in it, or not for its types alone: (full name, line)."""
    tree = ast.parse(path.read_text())
    for node in [*ast.walk(tree)]:
        if not types and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body.clear()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno} imports relatively"
            yield node.module, node.lineno
            for name in node.names:
                yield f"{node.module}.{name.name}", node.lineno


def rooms_asked(path):
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "exposurekit" and len(parts) > 1 and parts[1] in FLOORS:
            yield parts[1], line


def covers(door, room):
    return room == door or room.startswith(f"{door}.")


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_no_step_runs_back_up(path):
    room = dotted(path).split(".")[0]
    if room == FACE:
        return
    assert room in FLOORS, f"{room} is not in the plan: DESIGN and FLOORS say where it stands"
    for asked, line in rooms_asked(path):
        below = FLOORS[asked] < FLOORS[room] or asked == room
        assert below, f"{path.name}:{line}: {room} stands below {asked}"


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_the_wings_meet_only_over_http(path):
    room = dotted(path).split(".")[0]
    asked = {name for name, _ in rooms_asked(path)}
    if room == "service":
        assert asked <= SERVICE_STANDS_ON
    elif room not in SEES_BOTH_WINGS | {FACE}:
        assert "service" not in asked


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_heavy_packages_come_in_by_their_doors(path):
    room = dotted(path)
    for name, line in imports(path, types=False):
        package = name.split(".")[0]
        if package in DOORS:
            assert any(covers(door, room) for door in DOORS[package]), (
                f"{path.name}:{line}: {room} lets in {package}"
            )


def test_no_room_goes_in_a_circle():
    """Within a room too: a module's imports at its top lead to no module that leads back to it."""
    # A package's own file passes names on; what stands in its rooms is told by the rooms.
    known = {dotted(path): path for path in modules() if path.name != "__init__.py"}
    asks = {
        room: {name.removeprefix("exposurekit.") for name, _ in imports(path)} & known.keys()
        for room, path in known.items()
    }

    def reaches(room, goal, seen):
        return any(
            asked == goal or (asked not in seen and not seen.add(asked) and reaches(asked, goal, seen))
            for asked in asks[room]
        )

    circles = [room for room in known if reaches(room, room, set())]
    assert circles == []


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path.name} has no header"


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_no_room_is_crowded(path):
    assert len(path.read_text().splitlines()) <= 400, f"{path.name} is two rooms"


def test_the_top_level_holds_the_five_entries():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tops = {line.split("/")[0] for line in listed.splitlines()}
    allowed = {"pyproject.toml", "README.md", "exposurekit", "notebooks", "tests"}
    assert {top for top in tops if not top.startswith(".")} <= allowed


def test_importing_exposurekit_loads_nothing_heavy():
    code = f"import exposurekit, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[]"
