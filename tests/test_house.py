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
    "markup": 0,
    "places": 0,
    "spelled": 0,
    "cards": 1,
    "cells": 1,
    "keyed": 1,
    "keyfiles": 1,
    "readings": 1,
    "writings": 2,
    "leaks": 3,
    "pseudonyms": 2,
    "serving": 2,
    "contract": 2,
    "client": 3,
    "frames": 3,
    "service": 3,
    "analysis": 4,
    "look": 4,
    "redaction": 4,
    "tables": 5,
    "exposure": 6,
    "charts": 5,
    "history": 5,
    "reports": 7,
    "monitor": 7,
    "widgets": 7,
    "accessor": 7,
    "demonstration": 8,
    "exports": 8,
    "notebook": 8,
    "cli": 9,
}
SEES_BOTH_WINGS = {"demonstration", "cli"}
SERVICE_STANDS_ON = {"errors", "markup", "places", "spelled", "keyfiles", "serving", "contract", "service"}
FACE = "__init__"  # loads every room, lazily; may be asked by cli for the version

# A package and the rooms that may let it in; the name of a room covers all that is inside it.
DOORS = {
    "httpx": {"client.over_httpx", "client.over_aiohttp"},
    "aiohttp": {"client.over_aiohttp", "service.outbound"},
    "yarl": {"client.over_aiohttp", "service.outbound", "service.asked"},
    "pydantic_settings": {"client.environment"},
    "plotly": {"charts", "widgets.living"},
    "pyarrow": {"frames", "look", "history", "exports"},
    "pandas": {
        "frames",
        "exposure",
        "tables",
        "look",
        "analysis",
        "history",
        "charts",
        "reports",
        "exports",
        "monitor.causes",
        "cells",
        "client.probe",
        "keyed",
        "demonstration",
        "accessor",
        "redaction",
        "notebook",
        "cli",
        "widgets",
    },
    "deltalake": {"history.store"},
    "duckdb": {"history.engines"},
    "pyspark": {"history.spark"},
    "pydantic": {
        "contract",
        "history.marks",
        "monitor.rules",
        "client.calls",
        "client.details",
        "client.environment",
        "client.wire",
        "service.items",
        "service.front.openapi",
        "service.scalars",
        "service.front.schemas",
        "service.scanning.sites",
        "service.scanning.catalogue",
    },
    "pydantic_core": {"contract", "reports.content", "service", "monitor.reading"},
    "IPython": {"charts.embedding", "notebook", "widgets.panel"},
    "ipywidgets": {"widgets"},
    "anywidget": {"widgets"},
    "httpx_aiohttp": set(),
    "tqdm": {"client.progress"},
    "nh3": {"markup"},
    "idna": {"markup"},
    "jinja2": {"reports.page"},
    "markupsafe": {"reports.page"},
    "html": {"markup"},
    "click": {"cli"},
    "starlette": {"service"},
    "uvicorn": {"serving"},
    "sqlalchemy": {"service"},
    "cryptography": {"service.vault"},
    "xml": {"contract.xml"},
    "yaml": {"service.scanning.catalogue", "monitor.ruletext"},
    "apprise": {"monitor.telling"},
    "icalendar": {"exports"},
    "selectolax": {"service.scanning.pages", "service.scanning.reading"},
    "jmespath": {"service.scanning.reading"},
    "rapidfuzz": {"service.scanning.spellings"},
    "nicknames": {"service.scanning.spellings"},
    "nameparser": {"service.scanning.spellings"},
    "phonenumbers": {"service.scanning.spellings"},
    "alembic": {"service.migrations"},
    "cachetools": {"service.front.memory"},
    "limits": {"service.front.limits"},
    "protego": {"service.scanning.manners"},
    "sqlite3": {"monitor.database", "monitor.letters", "service.stores"},
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
