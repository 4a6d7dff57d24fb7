"""The architecture: import order, entry points of heavy packages, names, and references that resolve."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from operator import itemgetter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "exposurekit"

# A package imports only from packages with a lower number, and from itself.
LAYERS = {
    "errors": 0,
    "text": 1,
    "contract": 2,
    "system": 2,
    "frames": 3,
    "client": 3,
    "service": 3,
    "analysis": 4,
    "privacy": 5,
    "snapshot": 5,
    "exposure": 6,
    "charts": 6,
    "evidence": 6,
    "history": 6,
    "monitor": 7,
    "questions": 7,
    "reports": 8,
    "widgets": 8,
    "notebook": 9,
    "sandbox": 9,
    "exports": 9,
    "cli": 10,
    "__main__": 11,
}
USES_TOOLKIT_AND_SERVICE = {"sandbox", "cli"}
SERVICE_IMPORTS = {"errors", "text", "system", "contract", "service"}
TOP = "__init__"  # loads the public names lazily; cli reads the version from it

# A third-party package, and the modules that may import it; a package name covers everything inside it.
ENTRY_POINTS = {
    "httpx": {"client.transports.httpx"},
    "aiohttp": {"client.transports.aiohttp", "service.http.client"},
    "yarl": {"client.transports.aiohttp", "service.http.client", "service.http.request"},
    "pydantic_settings": {"client.config"},
    "plotly": {"charts"},
    "pyarrow": {"frames", "snapshot", "history", "exports", "system.file_store"},
    "pandas": {
        "frames",
        "exposure",
        "evidence",
        "questions",
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
        "client.created_user",
        "client.protocol",
        "service.api.openapi",
        "service.api.parameters",
        "service.sites.definition",
        "service.sites.duckduckgo",
        "service.sites.loader",
        "service.mail.settings",
        "service.scanning.listed_person",
        "sandbox.world.data_files",
        "sandbox.world.opt_outs",
    },
    "pydantic_core": {"contract", "reports.model", "service", "monitor.webhooks.parsing"},
    "IPython": {"charts.embedding", "client.progress", "notebook", "widgets.panel"},
    "ipywidgets": {"widgets"},
    "anywidget": {"widgets"},
    "httpx_aiohttp": set(),
    "tqdm": {"client.progress"},
    "platformdirs": {"system.paths"},
    "nh3": {"text.sanitize"},
    "idna": {"text.sanitize"},
    "jinja2": {"reports.html"},
    "markupsafe": {"reports.html"},
    "rjsmin": {"reports.html"},
    "html": {"text.sanitize"},
    "click": {"cli"},
    "wcwidth": {"cli.output"},
    "starlette": {"service", "sandbox"},
    "uvicorn": {"system.asgi_server", "system.connection_limits"},
    "sqlalchemy": {"service"},
    "cryptography": {"service.storage.encryption", "contract.evidence_roots", "sandbox.world.site_mail"},
    "dkim": {"service.mail.dkim_signature", "sandbox.world.site_mail"},
    "dns": {"service.mail.dkim_signature"},
    "imaplib": {"service.mail.mailboxes"},
    "smtplib": {"service.mail.smtp"},
    "xml": {"contract.xml"},
    "yaml": {"text.plain_yaml"},
    "apprise": {"monitor.notifications.notifier"},
    "icalendar": {"exports"},
    "selectolax": {
        *("service.scanning.html_text", "service.scanning.extraction", "service.scanning.page_tree"),
        "service.sites.selectors",
    },
    "jmespath": {"service.scanning.extraction", "service.sites.selectors"},
    "rapidfuzz": {"service.matching.name_matching"},
    "nicknames": {"service.matching.name_matching"},
    "nameparser": {"service.matching.name_matching"},
    "phonenumbers": {"service.matching.phone_numbers"},
    "alembic": {"service.storage.migrations"},
    "cachetools": {"service.scanning.politeness"},
    "prometheus_client": {"service.api.metrics"},
    "protego": {"service.scanning.politeness"},
    "sqlite3": {
        "monitor.sqlite",
        "monitor.webhooks.store",
        "service.storage.backends",
        "service.storage.backup",
        "service.storage.database_faults",
    },
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


@cache
def modules():
    return sorted(PACKAGE.rglob("*.py"))


def dotted(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__") or TOP


@cache
def syntax(path):
    """Every node of a file's syntax, and those that only type checkers read."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    guarded = (
        node for node in nodes if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    return nodes, {id(inner) for node in guarded for part in node.body for inner in ast.walk(part)}


@cache
def imports(path, *, types=True):
    """Every module that a file imports, wherever in it, or not for its types alone: (full name, line)."""
    nodes, for_types = syntax(path)
    imported = []
    for node in nodes:
        if not types and id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            imported += [(name.name, node.lineno) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno} imports relatively"
            imported += [
                (name, node.lineno)
                for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names))
            ]
    return imported


def imported_packages(path):
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "exposurekit" and len(parts) > 1 and parts[1] in LAYERS:
            yield parts[1], line


def covers(entry_point, module):
    return module == entry_point or module.startswith(f"{entry_point}.")


def package_of(path):
    return dotted(path).split(".")[0]


def test_every_package_has_a_layer():
    assert {package_of(path) for path in modules()} - {TOP} == {*LAYERS}


# Inside the service, likewise; a part without a number may be imported anywhere in it.
SERVICE_LAYERS = {
    "storage": 1,
    "accounts": 2,
    "http": 2,
    "matching": 3,
    "webhooks": 3,
    "findings": 4,
    "sites": 5,
    "mail": 6,
    "scanning": 7,
    "worker": 8,
    "api": 9,
}


def test_imports_in_the_service_go_down():
    for path in modules():
        package, _, part = dotted(path).partition(".")
        layer = SERVICE_LAYERS.get(part.split(".")[0])
        if package != "service" or layer is None:
            continue
        for name, line in imports(path):
            imported = name.removeprefix("exposurekit.service.").split(".")[0]
            if name.startswith("exposurekit.service.") and imported != part.split(".")[0]:
                assert SERVICE_LAYERS.get(imported, 0) < layer, (
                    f"{path}:{line}: {part} is not above {imported}"
                )


def test_imports_go_down():
    assert [
        f"{path}:{line}: {package_of(path)} is not above {imported}"
        for path in modules()
        for imported, line in imported_packages(path)
        if package_of(path) not in {TOP, imported} and LAYERS[imported] >= LAYERS[package_of(path)]
    ] == []


def test_toolkit_and_service_meet_only_over_http():
    for path in modules():
        package = package_of(path)
        imported = {name for name, _ in imported_packages(path)}
        if package == "service":
            assert imported <= SERVICE_IMPORTS, path
        elif package not in USES_TOOLKIT_AND_SERVICE | {TOP}:
            assert "service" not in imported, path


def test_entry_points_are_still_needed():
    imported = {(dotted(path), name.split(".")[0]) for path in modules() for name, _ in imports(path)}
    assert [
        (package, entry)
        for package, entries in ENTRY_POINTS.items()
        for entry in entries
        if not any(name == package and covers(entry, module) for module, name in imported)
    ] == []


def test_heavy_packages_are_imported_in_one_place():
    assert [
        f"{path}:{line} imports {name}"
        for path in modules()
        for name, line in imports(path, types=False)
        if (entries := ENTRY_POINTS.get(name.split(".")[0])) is not None
        and not any(covers(entry, dotted(path)) for entry in entries)
    ] == []


# Text from outside must not become code, an object or a command, and a secret must not be guessable.
DANGEROUS = {
    *("subprocess", "multiprocessing", "ctypes", "pickle", "marshal", "shelve", "random", "uuid"),
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "os.fork"),
    *("hashlib.md5", "hashlib.sha1", "hashlib.new", "'md5'", "'sha1'", "ssl.CERT_NONE"),
}


def dangers_in(path):
    yield from imports(path)
    for node in syntax(path)[0]:
        if isinstance(node, ast.Name | ast.Attribute | ast.Constant):
            yield ast.unparse(node), node.lineno


def test_the_service_neither_runs_commands_nor_evaluates_text():
    paths = [path for path in modules() if package_of(path) in SERVICE_IMPORTS]
    assert [
        f"{path}:{line} {name}" for path in paths for name, line in dangers_in(path) if name in DANGEROUS
    ] == []


def test_dangerous_calls_and_imports_are_seen(tmp_path):
    path = tmp_path / "one.py"
    path.write_text(
        "from subprocess import run\nos.system(eval('x'))\nre.compile(hmac.new(key, b'y', 'md5'))\n"
    )
    assert {name for name, _ in dangers_in(path)} & DANGEROUS == {"subprocess", "os.system", "eval", "'md5'"}


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


# A module under 100 lines that only one other imports is folded into it, unless it stands for an idea of its own.
SMALL_MAX = 100
IDEAS = {
    "analysis.by_kind": "a question",
    "charts.score": "the chart of a question",
    "client.created_user": "the key of a new user, from any body",
    "cli.completion": "a command",
    "cli.open": "a command",
    "cli.webhooks": "a command",
    "contract.ticks_file": "the format of a file",
    "client.background": "a coroutine that runs beside a notebook's event loop",
    "client.log_filter": "removes secrets from the logs of other packages",
    "contract.opt_out_steps": "the steps of an alert",
    "history.content_hash": "what makes an item the same, or changed",
    "history.storage.checksums": "finds changed files",
    "monitor.notifications.apprise_errors": "what went wrong, read from Apprise's logs",
    "monitor.webhooks.ingest": "moves messages into a history, each once",
    "monitor.webhooks.writer": "one thread that writes for all requests",
    "notebook.magic": "registration in IPython",
    "privacy.vocabulary": "words that are no personal data",
    "service.accounts.person_file": "the format of a file",
    "service.database_check": "every encrypted value is readable, and the file is intact",
    "service.mail.confirmation": "which link of a message may be followed",
    "service.scanning.person_search": "finds the person of an erasure request",
    "service.webhooks.delivery": "one attempt to send a delivery",
    "snapshot": "the tables of one load",
    "widgets.connection": "a widget",
    "widgets.copy_button": "a table of values to copy, with its script",
    "widgets.data_grid": "a page of a table, with its script",
    "widgets.slider": "a slider, with its script",
    "widgets.tabs": "tabs, with their script",
    "widgets.task_list": "a list with a picked row",
}


def test_a_small_module_with_one_importer_has_a_reason():
    imported_by = defaultdict(set)
    for path in modules():
        for name, _ in imports(path):
            imported_by[name.removeprefix("exposurekit.")].add(dotted(path))
    small = {
        dotted(path)
        for path in modules()
        if path.name not in {"__init__.py", "__main__.py"}
        and "versions" not in path.parts
        and len(path.read_text().splitlines()) < SMALL_MAX
        and len(imported_by[dotted(path)]) == 1
    }
    assert small == {*IDEAS}  # a reason that no module needs is deleted


def test_the_contract_renders_no_html():
    assert [
        f"{path}:{line}"
        for path in modules()
        if package_of(path) == "contract"
        for name, line in names_in(path)
        if name in {"repr_html", "html_card"}
    ] == []


def test_every_module_has_a_docstring():
    assert [path for path in modules() if not ast.get_docstring(ast.parse(path.read_text()))] == []


# --- names ------------------------------------------------------------------------------------------------

# A past participle or an everyday verb says what happened to a thing, not what the thing is.
BANNED = {
    *("told", "asked", "answered", "said", "kept", "known", "held", "found", "made"),
    *("given", "shown", "seen", "look", "looks", "looking", "twin", "letter", "letters"),
    *("manners", "vigil", "standing", "keeping", "leaving", "door", "at_once"),
}
GEOGRAPHY = (
    "cli.sites",
    "service.accounts",
    "service.matching",
    "service.scanning",
    "sandbox",
    "text.us_addresses",
    "privacy",
)


# A banned word may be part of these names.
COMPOUNDS = {
    "allow_not_found": "an argument of Arrow's file systems",
    "ascii_letters": "of Python's string module",
    "assert_held": "a lease is held",
    "autoinstall_known_extensions": "a setting of DuckDB",
    "autoload_known_extensions": "a setting of DuckDB",
    "connection_made": "a method of asyncio's protocols",
    "exposure_found": "an alert of the specification",
    "found_by": "in ciphertexts of earlier versions",
    "first_seen_at": "first seen, last seen: how the field dates observations",
    "known_from": "in histories of format 1",
    "known_listings": "the listings of the last scan",
    "known_status": "the last status that was not unknown",
    "not_found": "the status 404",
    "not_seen": "a condition of rules: last seen so many days ago",
    "seen_at": "first seen, last seen: how the field dates observations",
    "seen_before": "the same, of the previous observation",
}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SQL_NAME = re.compile(
    r"\b(?:AS|(?<!ALTER )TABLE|TO)\s+([a-z_]\w*)|\b([a-z_]\w*)\s+(?:INTEGER|TEXT|BLOB|REAL)\b"
)


@cache
def names_in(path):
    """Every identifier of a file, also in f-strings and SQL, and every string that may name a column, with its line."""
    docstrings = {id(node.value) for node in syntax(path)[0] if isinstance(node, ast.Expr)}
    every = set()
    for node in syntax(path)[0]:
        names = [node.__dict__.get(field) for field in ("id", "attr", "arg", "name", "asname")]
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            is_name = "_" in node.value and _IDENTIFIER.fullmatch(node.value)
            names += (
                [node.value] if is_name else [name for pair in _SQL_NAME.findall(node.value) for name in pair]
            )
        for name in names:
            if isinstance(name, str):
                every |= {(part.strip("_").lower(), node.lineno) for part in name.split(".")}
    return sorted(every, key=itemgetter(1))


def is_banned(name, banned):
    return name in banned or (
        "_" in name and name not in COMPOUNDS and not banned.isdisjoint(name.split("_"))
    )


def banned_in(path):
    banned = BANNED if dotted(path).startswith(GEOGRAPHY) else BANNED | {"place", "places"}
    return [f"{path}:{line} {name}" for name, line in names_in(path) if is_banned(name, banned)]


def test_identifiers_are_the_words_of_the_field():
    released = PACKAGE / "service/storage/migrations/versions"  # has the names before a renaming
    paths = [path for path in modules() if path.parent != released]
    assert [line for path in paths for line in banned_in(path)] == []


def test_reasons_for_names_are_still_needed():
    names = {name for path in modules() for name, _ in names_in(path)}
    assert COMPOUNDS.keys() - names == set()
    assert {name for name in COMPOUNDS if BANNED.isdisjoint(name.split("_"))} == set()


def test_names_in_strings_and_nested_code_are_seen(tmp_path):
    path = tmp_path / "one.py"
    path.write_text(
        'f"{told_x} {a:{kept}}"\nddl = "told_of TEXT NOT NULL"\nsql = "SELECT 1 AS what_said"\nColumn("made_at")\ndef f(a_look): pass\n'
    )
    names = {name for name, _ in names_in(path) if is_banned(name, BANNED)}
    assert names == {"told_x", "kept", "told_of", "what_said", "made_at", "a_look"}


def test_no_parameter_is_a_preposition():
    assert [
        f"{path}:{argument.lineno}"
        for path in modules()
        for node in syntax(path)[0]
        if isinstance(node, ast.arguments)
        for argument in (*node.posonlyargs, *node.args, *node.kwonlyargs)
        if argument.arg == "of"
    ] == []


def test_no_file_has_a_banned_name():
    assert [path for path in modules() if path.stem in BANNED | {"place", "utils", "helpers", "common"}] == []


# Two modules may share a base name where one of these reasons holds.
SHARED_NAMES = {
    "base": "an abstract class's own module",
    "client": "the toolkit's; the service's outgoing HTTP",
    "clock": "of the machine; of the service, which can be frozen",
    "counts": "a question and its chart",
    "diff": "the tables; the value that displays them",
    "evidence": "bundles as tables; the entries of the service",
    "errors": "the toolkit's; the API's",
    "ingest": "of runs into tables; of deliveries into a history",
    "models": "of the contract; of the service",
    "outbox": "of notifications; of webhooks",
    "schema": "of frames; of the history's tables; of the API",
}


def test_no_base_name_twice_without_a_reason():
    named = defaultdict(set)
    for path in modules():
        if path.name not in {"__init__.py", "__main__.py"} and "versions" not in path.parts:
            parts = dotted(path).split(".")
            named[path.stem].add(".".join(parts[:-1][:2]) if parts[0] == "service" else parts[0])
    twice = {name: packages for name, packages in named.items() if len(packages) > 1}
    question = {"analysis", "charts"}
    unexplained = {
        name: packages
        for name, packages in twice.items()
        if name not in SHARED_NAMES and not packages <= question and "cli" not in packages
    }
    assert unexplained == {}
    assert SHARED_NAMES.keys() - twice.keys() == set()


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


def test_email_is_spelled_in_one_way():
    texts = [name for name in tracked_files() if name.endswith((".py", ".md", ".yaml", ".html"))]
    texts = [name for name in texts if not name.startswith("tests/")]  # a service spells as it likes
    assert [name for name in texts if re.search("(?i)e-mail", (ROOT / name).read_text())] == []


def test_top_level_holds_five_entries():
    tops = {line.split("/")[0] for line in tracked_files()}
    allowed = {"pyproject.toml", "README.md", "exposurekit", "notebooks", "tests"}
    assert {top for top in tops if not top.startswith(".")} <= allowed


AT_THE_TOP = {
    *(
        "architecture",
        "docs",
        "errors",
        "evidence",
        "exports",
        "exposure",
        "public_names",
        "questions",
        "readme",
        "types",
    )
}


def test_the_tests_mirror_the_package():
    mirrored = {
        "benchmarks",
        "browser",
        "crash",
        "load",
        *(path.parent.relative_to(PACKAGE).as_posix() for path in modules()),
    }
    tests = [path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")]
    top = {path.stem.removeprefix("test_") for path in tests if len(path.parts) == 1}
    assert top == AT_THE_TOP
    assert {path.parent.as_posix() for path in tests} <= mirrored


def test_names_of_tests_have_at_most_ten_words():
    paths = (ROOT / "tests").rglob("test_*.py")
    names = [
        name
        for path in paths
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    ]
    assert len(names) > 1000
    assert [name for name in names if name.count("_") > 10] == []


@pytest.mark.parametrize("module", ["exposurekit", "exposurekit.cli.main"])
def test_importing_loads_nothing_heavy(module):
    """Each command imports what it needs when it runs: a line of help is there at once."""
    code = f"import {module}, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded.strip() == "[]"
