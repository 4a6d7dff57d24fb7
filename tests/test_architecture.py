"""The architecture: import order, entry points of heavy packages, names, and references that resolve."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "exposurekit"

# A package imports only from packages with a lower number, and from itself.
LAYERS = {
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
USES_TOOLKIT_AND_SERVICE = {"sandbox", "cli"}
SERVICE_IMPORTS = {"errors", "text", "system", "contract", "service"}
TOP = "__init__"  # loads the public names lazily; cli reads the version from it

# A third-party package, and the modules that may import it; a package name covers everything inside it.
ENTRY_POINTS = {
    "httpx": {"client.transports.httpx", "client.transports.aiohttp"},
    "aiohttp": {"client.transports.aiohttp", "service.http.client"},
    "yarl": {"client.transports.aiohttp", "service.http.client", "service.http.request"},
    "pydantic_settings": {"client.config"},
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
        "client.config",
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
    return ".".join(part for part in parts if part != "__init__") or TOP


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


def imported_packages(path):
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "exposurekit" and len(parts) > 1 and parts[1] in LAYERS:
            yield parts[1], line


def covers(entry_point, module):
    return module == entry_point or module.startswith(f"{entry_point}.")


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_imports_go_down(path):
    package = dotted(path).split(".")[0]
    if package == TOP:
        return
    assert package in LAYERS, f"{package} has no layer: add it to LAYERS"
    for imported, line in imported_packages(path):
        below = LAYERS[imported] < LAYERS[package] or imported == package
        assert below, f"{path.name}:{line}: {package} is below {imported}"


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_toolkit_and_service_meet_only_over_http(path):
    package = dotted(path).split(".")[0]
    imported = {name for name, _ in imported_packages(path)}
    if package == "service":
        assert imported <= SERVICE_IMPORTS
    elif package not in USES_TOOLKIT_AND_SERVICE | {TOP}:
        assert "service" not in imported


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_heavy_packages_are_imported_in_one_place(path):
    module = dotted(path)
    for name, line in imports(path, types=False):
        package = name.split(".")[0]
        if package in ENTRY_POINTS:
            assert any(covers(entry, module) for entry in ENTRY_POINTS[package]), (
                f"{path.name}:{line}: {module} imports {package}"
            )


def importers():
    """Each module, and the modules that import it at their top."""
    # A package's own file only passes names on.
    paths = {dotted(path): path for path in modules() if path.name != "__init__.py"}
    return {
        module: {name.removeprefix("exposurekit.") for name, _ in imports(path)} & paths.keys()
        for module, path in paths.items()
    }


def test_no_import_cycle():
    imported = importers()

    def reaches(module, goal, visited):
        return any(
            name == goal or (name not in visited and not visited.add(name) and reaches(name, goal, visited))
            for name in imported[module]
        )

    assert [module for module in imported if reaches(module, module, set())] == []


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_every_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path.name} has no docstring"


# --- names ------------------------------------------------------------------------------------------------

# A past participle or an everyday verb says what happened to a thing, not what the thing is.
BANNED = {
    *("told", "asked", "answered", "said", "kept", "known", "held", "found", "made"),
    *("given", "shown", "seen", "look", "looks", "looking", "twin", "letter", "letters"),
    *("manners", "vigil", "standing", "keeping", "leaving", "door", "at_once"),
}
GEOGRAPHY = ("cli.sites", "service.accounts", "service.scanning", "sandbox", "text.us_addresses", "privacy")


def names_in(path):
    """Every identifier of a file, with its line."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type == tokenize.NAME:
            yield token.string.strip("_").lower(), token.start[0]


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_identifiers_are_the_words_of_the_field(path):
    banned = BANNED if dotted(path).startswith(GEOGRAPHY) else BANNED | {"place", "places"}
    assert [f"{path.name}:{line} {name}" for name, line in names_in(path) if name in banned] == []
    parameters = [
        (argument.arg, argument.lineno)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.arguments)
        for argument in (*node.posonlyargs, *node.args, *node.kwonlyargs)
    ]
    assert [line for name, line in parameters if name == "of"] == []


def test_no_file_has_a_banned_name():
    assert [path for path in modules() if path.stem in BANNED | {"place", "utils", "helpers", "common"}] == []


# Two modules may share a base name where one of these reasons holds.
SHARED_NAMES = {
    "base": "an abstract class's own module",
    "cache": "of responses; of demos",
    "client": "the toolkit's; the service's outgoing HTTP",
    "collector": "of a history; of the sandbox's history",
    "counts": "a question and its chart",
    "diff": "the tables; the value that displays them",
    "errors": "the toolkit's; the API's",
    "ingest": "of runs into tables; of deliveries into a history",
    "inputs": "of the contract; of the service's tables",
    "listings": "of the invented sites; how a widget draws one",
    "models": "of the contract; of the service",
    "normalize": "of personal data in texts; of names on sites",
    "outbox": "of notifications; of webhooks",
    "people": "who are invented; how a widget finds one",
    "schema": "of frames; of the history's tables; of the API",
    "tables": "of an exposure; of the service's database",
}


def test_no_base_name_twice_without_a_reason():
    named = defaultdict(set)
    for path in modules():
        if path.name not in {"__init__.py", "__main__.py"} and "versions" not in path.parts:
            named[path.stem].add(dotted(path).split(".")[0])
    twice = {name: packages for name, packages in named.items() if len(packages) > 1}
    question = {"analysis", "charts"}
    unexplained = {
        name: packages
        for name, packages in twice.items()
        if name not in SHARED_NAMES and not packages <= question and "cli" not in packages
    }
    assert unexplained == {}


# --- references -------------------------------------------------------------------------------------------


def tracked_files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return listed.splitlines()


def test_no_reference_to_a_document_that_is_not_here():
    files = tracked_files()
    names = {Path(name).name for name in files}
    for name in files:
        if name.endswith((".py", ".md")):
            text = (ROOT / name).read_text()
            missing = {
                document for document in re.findall(r"\b[A-Z][A-Z_]{3,}\.md\b", text) if document not in names
            }
            assert not missing, f"{name}: {missing}"


def test_top_level_holds_five_entries():
    tops = {line.split("/")[0] for line in tracked_files()}
    allowed = {"pyproject.toml", "README.md", "exposurekit", "notebooks", "tests"}
    assert {top for top in tops if not top.startswith(".")} <= allowed


def test_importing_exposurekit_loads_nothing_heavy():
    code = f"import exposurekit, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded.strip() == "[]"
