import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from jupyter_kit import CHROMIUM, NO_BROWSER
from service_kit import STORES, Service, a_service, stored_in

LONGEST = (  # of all, then of those that are not long
    *("test_notebooks", "test_history_crash", "test_browser_payloads", "test_browser_widgets", "test_crash"),
    *("test_cli", "test_browser_reports", "test_scan", "test_openapi", "test_cli_watch", "test_engines"),
    *("test_docs", "test_widgets_dashboard", "test_history_weighing", "test_faults", "test_watch"),
)
WITHOUT = str(Path(__file__).parent / "without")  # for the processes that tests start, too
WHOLLY_LONG = "\npytestmark = pytest.mark.long"
SERVER = "postgresql"  # in the name of each test that is run on it

# How long an example takes is the machine's affair, and no test's.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """What is cached, and keys, stay apart from a user's own; the processes of one run share them."""
    # A shell has what it starts in the background ignore Ctrl-C, and so would all that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        place = tempfile.mkdtemp(prefix="exposurekit-tests-")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (WITHOUT, os.environ.get("PYTHONPATH"))))
        os.environ |= {"XDG_CACHE_HOME": f"{place}/cache", "XDG_CONFIG_HOME": f"{place}/config"}
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of nothing but long tests is not even read where these are left out: to make them takes seconds."""
    if config.option.markexpr != "not long" or collection_path.suffix != ".py":
        return None
    return True if WHOLLY_LONG in collection_path.read_text() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A Spark cluster or a PostgreSQL makes a test a long one: the same promise is kept on what is embedded, too.

    The files that take longest begin first: each is done by one process, and no other waits for it at the end.
    """
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()) or "[spark" in item.name or SERVER in item.name:
            item.add_marker("long")


def pytest_collection_finish() -> None:
    """Ten thousand tests live to the end: nobody need look through them again and again for what is gone."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_report_header() -> list[str]:
    """Where there is no browser, one line says what that leaves out, and how to get it."""
    return [] if CHROMIUM else [f"browser tests are skipped: {NO_BROWSER}"]


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of database: the same tests on each."""
    with stored_in(request.param):
        yield request.param


@pytest.fixture(scope="module")
def service(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("service")) as service:
        yield service
