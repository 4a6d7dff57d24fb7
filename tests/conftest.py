import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Each process would compile what others have compiled; hundreds are started.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Threads of BLAS wait for each other in a loop: several processes share the cores, and the matrices are small.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from support.jupyter import CHROMIUM, NO_BROWSER  # noqa: E402
from support.services import STORES, Service, a_service, stored_in  # noqa: E402

HERE = Path(__file__).parent
LONGEST = (  # of all, then of those that are not long
    *("history/test_engines", "notebook/test_shipped_notebooks", "browser/test_jupyter"),
    *("browser/test_hostile_texts", "crash/test_collector", "crash/test_service", "test_readme"),
    *("cli/test_commands", "cli/test_processes", "benchmarks/test_benchmarks", "analysis/test_forecast"),
    *("browser/test_reports", "cli/test_watch", "cli/test_report", "cli/test_server_processes"),
    *("service/api/test_openapi", "load/test_run", "history/test_s3", "browser/test_charts"),
    *("sandbox/test_evaluation", "sandbox/test_demo", "sandbox/test_cache", "service/scanning/test_scan"),
    *("sandbox/test_simulated_person", "cli/test_history", "service/storage/test_migrations"),
    *(
        "reports/test_reports",
        "reports/test_figures",
        "system/test_connection_limits",
        "history/test_queries",
    ),
    *("reports/test_share_safe", "widgets/test_dashboard", "reports/test_weekly", "test_docs", "test_types"),
    *("history/test_annotated_queries", "history/test_reference_model", "widgets/test_checklist"),
    *("monitor/test_watch", "client/test_connection_faults", "privacy/test_logs_and_errors"),
    *("monitor/notifications/test_notifier", "service/scanning/test_incoming_mail_job"),
    *("history/test_annotations", "history/test_upgrade", "history/test_verify", "widgets/test_sql_rows"),
    *("test_exports", "analysis/test_plan", "cli/test_operator", "notebook/test_magic"),
    *("widgets/test_explorer", "widgets/test_panel", "history/test_erase", "test_exposure"),
    *("notebook/test_accessor", "history/test_maintenance", "cli/test_wrong_input", "cli/test_doctor"),
    "analysis/test_work_queue",
)
WHOLLY_LONG = "\npytestmark = pytest.mark.long"
MAY_BE_LONG = re.compile(r"mark\.long|cluster|spark")
SERVER = "postgresql"  # in the name of each test that is run on it
# What the service asks of its database is tested on PostgreSQL, too: each statement, lock and type. A scan asks little
# more: one month of it is. Tests that repeat the statements of others are not.
ON_POSTGRESQL = (
    *("cli/", "crash/", "service/accounts/", "service/sites/", "service/storage/"),
    *(f"service/findings/test_{name}" for name in ("candidates", "evidence", "findings")),
    *(f"service/findings/test_removals.py::test_{name}" for name in ("changed_at", "two_absences")),
    *(
        f"service/webhooks/test_outbox.py::test_{name}"
        for name in (
            *(
                "a_window",
                "an_event_closes",
                "concurrent_events",
                "every_event",
                "two_workers",
                "integrators",
            ),
            *("a_delivery_is_dead", "a_replayed", "replay_all", "deliveries_are_listed", "old_deliveries"),
            *("an_interrupted", "a_stopped_worker", "a_worker", "alert_change", "purging", "a_user_purged"),
            *("a_callback_changed", "removing_a_callback", "an_unknown_integrator", "logs_and_database"),
        )
    ),
    *(
        "service/test_audit",
        "service/test_person_export",
        "service/test_worker",
        "service/api/test_reference_model",
        "service/api/test_metrics",
    ),
    *(
        f"service/api/test_app.py::test_{name}"
        for name in ("an_invalid_id", "an_invalid_record_id", "a_user_may_be_created", "health", "a_locked")
    ),
    "service/scanning/test_scan.py::test_a_month_in_the_world",
    "service/scanning/test_incoming_mail_job.py::test_a_confirmed_opt_out_is_verified",
    "service/scanning/test_incoming_mail_job.py::test_a_second_message",
    "service/scanning/test_incoming_mail_job.py::test_a_kill_neither",
    "service/scanning/test_assisted_opt_outs.py::test_reports_in_opposite",
    "service/scanning/test_assisted_opt_outs.py::test_the_service_waits",
    "service/scanning/test_assisted_opt_outs.py::test_a_site_that_removes",
    "service/mail/test_follow_ups.py::test_one_email",
    "service/mail/test_follow_ups.py::test_a_listing_that_is_back",
    "service/mail/test_follow_ups.py::test_a_kill_and_a_missing_field",
    "service/scanning/test_email_opt_outs.py::test_a_sending_that_a_kill",
    "service/scanning/test_email_opt_outs.py::test_without_approval",
    "service/scanning/test_email_opt_outs.py::test_an_answer",
)

# How long an example takes is the machine's affair, and no test's.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
if "PYTEST_XDIST_WORKER" in os.environ:
    gc.disable()  # until all tests are collected: they and what they import live to the end


def pytest_configure(config: pytest.Config) -> None:
    """What is cached, and keys, stay apart from a user's own; the processes of one run share them."""
    # A shell has what it starts in the background ignore Ctrl-C, and so would all that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        directory = tempfile.mkdtemp(prefix="exposurekit-tests-")
        os.environ |= {"XDG_CACHE_HOME": f"{directory}/cache", "XDG_CONFIG_HOME": f"{directory}/config"}
        config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file without a test that is asked for is not imported: each process would take seconds for all of them."""
    if collection_path.suffix != ".py":
        return None
    if config.option.markexpr == "not long":
        return True if WHOLLY_LONG in collection_path.read_text() else None
    if config.option.markexpr == "long" and not _is_on_postgresql(
        collection_path.relative_to(HERE).as_posix()
    ):
        return None if MAY_BE_LONG.search(collection_path.read_text()) else True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each process compiles a share of the tests, and then reads what the others have compiled."""
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None or len(config.args) != 1 or Path(config.args[0]).resolve() != HERE:
        return
    files = [path for path in sorted(HERE.rglob("test_*.py")) if not pytest_ignore_collect(path, config)]
    for path in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        try:
            _ = pytest.Module.from_parent(session, path=path).obj
        except (Exception, pytest.skip.Exception):  # noqa: BLE001  it is reported when the file is collected
            _forget(path)


def _forget(path: Path) -> None:
    """Let a file that raised an error be imported again."""
    for name, module in [*sys.modules.items()]:
        if getattr(module, "__file__", None) == str(path):
            del sys.modules[name]


def _is_on_postgresql(path: str) -> bool:
    return any(path.startswith(name.partition(".py")[0]) for name in ON_POSTGRESQL)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    is_set = any(mark.args[0] == "store" for mark in metafunc.definition.iter_markers("parametrize"))
    if "store" in metafunc.fixturenames and not is_set:
        is_on_both = metafunc.definition.nodeid.removeprefix("tests/").startswith(ON_POSTGRESQL)
        metafunc.parametrize("store", STORES if is_on_both else STORES[:1], indirect=True, scope="module")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A Spark cluster or a PostgreSQL makes a test a long one: the same promise is kept on what is embedded, too.

    The files that take longest begin first: each is done by one process, and no other waits for it at the end.
    """
    rank = {HERE / f"{name}.py": number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))
    for item in items:
        if "cluster" in getattr(item, "fixturenames", ()) or "[spark" in item.name or SERVER in item.name:
            item.add_marker("long")


def pytest_collection_finish() -> None:
    """Ten thousand tests live to the end: nobody need look through them again and again for what is gone."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


def pytest_report_header() -> list[str]:
    """Where there is no browser, one line says what that leaves out, and how to get it."""
    return [] if CHROMIUM else [f"browser tests are skipped: {NO_BROWSER}"]


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of database, of those in which the test is run."""
    with stored_in(request.param):
        yield request.param


@pytest.fixture(scope="module")
def service(store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with a_service(tmp_path_factory.mktemp("service")) as service:
        yield service
