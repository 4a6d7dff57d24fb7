"""The report and open commands."""

import json
import re
import shutil

import pandas as pd
import pytest
from support import widget_controls as kit
from support.evidence_bundles import Installation
from support.histories import Clock, seen_through
from support.shell import Shell, connection, error_of

from exposurekit.analysis.manual_tasks import NO_VALUES
from exposurekit.cli.history import DEMO_MARKER
from exposurekit.history import History

pytestmark = pytest.mark.long  # processes of their own


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """A history of one run with three people."""
    directory = tmp_path_factory.mktemp("collected")
    with seen_through(kit.three_people()) as exposure:
        kit.a_history(directory, exposure, Clock()).close()
    return directory / "history"


@pytest.fixture
def shell(collected, tmp_path):
    shutil.copytree(collected, tmp_path / "history")
    return Shell(tmp_path, EXPOSUREKIT_HISTORY=str(tmp_path / "history"))


@pytest.mark.parametrize(
    ("words", "title"),
    [((), "Exposure"), (("--user", "2"), "Exposure of user 2"), (("--kind", "sites"), "Exposure on ")],
    ids=str,
)
def test_a_report_is_written_and_its_finding_printed(shell, tmp_path, words, title):
    run = shell.here("report", *words, "--out", str(tmp_path / "page.html"))
    assert run.returncode == 0, run.stderr
    assert "still open" in run.stdout
    assert "Wrote" in run.stdout
    assert re.search(r" People: [13]\.$", run.stdout.splitlines()[0])
    page = (tmp_path / "page.html").read_text()
    assert f"<title>{title}" in page
    assert "connect-src" in page


def test_a_report_has_the_evidence_of_a_bundle(shell, tmp_path):
    home = Installation(b"h" * 32, pairs=1)
    (tmp_path / "bundle.zip").write_bytes(home.bundles()[2])
    (tmp_path / "key.pem").write_bytes(home.vault.public_key.pem)
    words = ("report", "--user", "2", "--evidence", "bundle.zip", "--evidence-key", "key.pem")
    run = shell.here(*words, "--out", "page.html")
    assert run.returncode == 0, run.stderr
    assert "verified with the service" in (tmp_path / "page.html").read_text()
    (tmp_path / "bundle.zip").write_bytes(b"none")
    run = shell.here(*words, "--out", "other.html")
    assert (run.returncode, error_of(run)[:32]) == (1, "Error: the file is not a bundle,")
    assert not (tmp_path / "other.html").exists()


def connect(shell, exposure):
    access = exposure.client.config
    credentials = (access.integration_name, access.api_key, access.api_secret)
    shell.environment |= connection(access.base_url, *credentials)


def test_a_live_report_needs_no_history(tmp_path):
    shell = Shell(tmp_path)
    with seen_through(kit.three_people()) as exposure:
        connect(shell, exposure)
        run = shell.here("report", "--live", "--share-safe", "--out", "page.html")
        assert run.returncode == 0, run.stderr
        assert "<title>Exposure" in (tmp_path / "page.html").read_text()
        missing = shell.here("report", "--live", "--history", "nowhere", "--out", "page.html")
        assert "There is no history in nowhere" in error_of(missing)


def test_a_share_safe_report_names_nobody(shell, tmp_path):
    run = shell.here("report", "--share-safe", "--user", "2", "--out", str(tmp_path / "page.html"))
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "page.html").read_text()
    assert "<title>Exposure of user " in page
    assert not [one for one in kit.PERSONAL if one != "https://" and one in page]


NO_NAMES = (NO_VALUES, "Names on file and the values to enter are missing")  # in an export, in a report
MISSING = (
    "Names and what to enter are missing, because a history does not store what users have on file. "
    "Add --live to load them from the service.\n"
)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("report", "--out", "page.html"), MISSING),
        (("export", "queue", "--personal", "--out", "queue.md"), MISSING),
        (("report", "--kind", "sites", "--out", "page.html"), ""),  # no manual work is in it
        (("report", "--share-safe", "--out", "page.html"), ""),
        (("export", "queue", "--out", "queue.md"), ""),
        (("export", "work_queue", "--personal", "--out", "queue.csv"), ""),
    ],
    ids=" ".join,
)
def test_manual_work_without_names_names_the_remedy(shell, tmp_path, words, message):
    run = shell.here(*words)
    assert run.returncode == 0, run.stderr
    assert run.stderr == message
    assert any(text in (tmp_path / words[-1]).read_text() for text in NO_NAMES) == bool(message)


@pytest.mark.parametrize("name", ["queue.xlsx", "queue.md", "queue.ics"])
def test_a_queue_without_rows_states_the_reason(shell, name):
    """Three people are fewer than the five who have to share steps."""
    message = " ".join(shell.here("export", "queue", "--out", name).stdout.split())
    assert "0 rows: 1 kind of removal is omitted, because fewer than five people share the steps." in message
    assert message.endswith("To write everything, add --personal.")
    assert "0 rows" not in shell.here("export", "queue", "--personal", "--out", name).stdout


def test_a_demo_history_hints_at_a_service_that_runs(shell, tmp_path):
    (tmp_path / "history" / DEMO_MARKER).touch()
    run = shell.here("report", "--out", "page.html")
    assert (
        "run exposurekit demo --serve, set the variables that it prints, and add --live to load" in run.stderr
    )


def test_a_demo_that_is_connected_needs_only_live(shell, tmp_path):
    (tmp_path / "history" / DEMO_MARKER).touch()
    shell.environment |= connection("http://127.0.0.1:9", "demo", "key", "secret")
    assert shell.here("report", "--out", "page.html").stderr == MISSING


def test_the_command_of_the_error_lists_the_ids(shell):
    run = shell.here("history", "show", "--group-by", "user_id")
    assert run.returncode == 0, run.stderr
    assert "user id" in run.stdout


def test_with_live_the_manual_work_has_names(shell, tmp_path):
    with seen_through(kit.three_people()) as exposure:
        connect(shell, exposure)
        for words in (("report", "--out", "a.html"), ("export", "queue", "--personal", "--out", "a.md")):
            run = shell.here(*words, "--live")
            assert run.returncode == 0, run.stderr
            assert "are missing" not in run.stderr + (tmp_path / words[-1]).read_text()


def test_open_listings_are_exported_with_the_names_on_file(shell, tmp_path):
    words = ("export", "records", "--status", "open", "--site", "peepfinder")
    with seen_through(kit.three_people()) as exposure:
        connect(shell, exposure)
        assert shell.here(*words, "--personal", "--live", "--out", "open.csv").returncode == 0
        expected = exposure.with_people(exposure.records(status="open", site="PeepFinder"))
        assert shell.here("export", "steps", "--personal", "--live", "--out", "steps.csv").returncode == 0
        assert shell.here("export", "user_by_site", "--personal", "--live", "--out", "m.csv").returncode == 0
        refused = shell.here("export", "by_site", "--personal", "--live", "--out", "t.csv")
    written = pd.read_csv(tmp_path / "open.csv")
    assert len(written) == len(expected) > 0
    for name in ("record_id", "person", "status"):
        assert sorted(written[name].astype("str")) == sorted(expected[name].astype("str"))
    assert pd.read_csv(tmp_path / "steps.csv")["form_values"].notna().all()
    assert pd.read_csv(tmp_path / "m.csv").columns[:2].tolist() == ["user_id", "person"]
    assert refused.returncode == 2
    assert "by_site has no people in its rows" in refused.stderr
    assert shell.here(*words, "--out", "open.csv").returncode == 0
    text = (tmp_path / "open.csv").read_text()
    assert len(text.splitlines()) == len(expected) + 1
    assert not [one for one in kit.PERSONAL if one in text]


@pytest.mark.parametrize("table", ["records", "by_site", "queue"])
def test_a_table_is_written_to_standard_output_as_csv(shell, tmp_path, table):
    assert shell.here("export", table, "--personal", "--out", "t.csv").returncode == 0
    run = shell.here("export", table, "--personal", "--out", "-")
    assert (run.returncode, run.stdout) == (0, (tmp_path / "t.csv").read_text())
    assert run.stdout.splitlines()[1:]
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("words", [("report", "--out", "t.html"), ("open",)])
def test_one_person_and_changes_exclude_each_other(shell, words):
    run = shell.here(*words, "--user", "1", "--since", "7d")
    assert run.returncode == 2
    assert "use --user (one person) or --since (everyone), not both" in run.stderr


def test_a_site_that_does_not_occur_is_not_exported(shell, tmp_path):
    for table in ("records", "status_over_time"):
        run = shell.here("export", table, "--site", "PeepFindr", "--out", "t.csv")
        assert run.returncode == 1
        assert error_of(run).startswith("Error: No listing is on a site named 'PeepFindr'.")
        assert "Did you mean 'PeepFinder'?" in run.stderr
    unknown = shell.here("export", "records", "--status", "opne", "--out", "t.csv")
    assert (unknown.returncode, "Did you mean 'open'?" in unknown.stderr) == (1, True)
    assert not (tmp_path / "t.csv").exists()
    words = ("export", "status_over_time", "--out", "t.csv", "--site")
    assert shell.here(*words, "peepfinder").returncode == 0
    of_site = History(tmp_path / "history").status_over_time(site="PeepFinder")
    assert pd.read_csv(tmp_path / "t.csv")["total"].tolist() == of_site["total"].tolist()


def test_a_report_as_json_has_its_content(shell, tmp_path):
    run = shell.here("report", "--json", "--out", str(tmp_path / "page.html"))
    content = json.loads(run.stdout)
    assert content["kind"] == "fleet"
    assert {"name", "value", "qualifier", "detail", "change", "trend", "definition"} == {*content["facts"][0]}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--out", "nowhere/page.html"), 1, "no such directory"),
        (("--out", "."), 1, "is a directory"),
        (
            ("--user", "99"),
            1,
            "[99]. history.people() lists the ids; on the command line: exposurekit history show",
        ),
        (("--history", "elsewhere"), 1, "There is no history in elsewhere"),
        (("--kind", "person"), 2, "--kind person needs --user ID"),
        (("--kind", "changes"), 2, "--kind changes needs --since TIME"),
        (("--kind", "fleet", "--user", "1"), 2, "--user ID needs --kind person"),
        (("--kind", "sites", "--since", "2026-11-13"), 2, "--since TIME needs --kind changes"),
        (("--user", "1", "--since", "2026-11-13"), 2, "not both"),
        (("--since", "lastweek"), 2, "Invalid value for '--since': A time is 14d, 2w, 3mo, 1y or 36h"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_option_is_an_error_and_writes_no_file(shell, tmp_path, words, code, message):
    run = shell.here("report", "--out", "page.html", *words)
    assert run.returncode == code
    assert message in (error_of(run) if code == 1 else run.stderr)
    assert not (tmp_path / "page.html").exists()


FORGED = "a\nError: forged\x1bc"
ESCAPED = "a Error: forgedc"


@pytest.mark.parametrize(
    ("words", "end"), [(("report",), ".html"), (("export", "records"), ".csv")], ids=["report", "export"]
)
def test_a_file_name_is_printed_on_one_line(shell, tmp_path, words, end):
    run = shell.here(*words, "--out", f"{FORGED}{end}")
    assert run.returncode == 0, run.stderr
    assert f"Wrote {ESCAPED}{end}, " in run.stdout
    assert "\x1b" not in run.stdout
    assert (tmp_path / f"{FORGED}{end}").exists()


def test_a_file_name_that_is_no_text_is_printed(shell):
    shell.environment["PYTHONIOENCODING"] = "utf-8:strict"
    run = shell("export", "records", "--out", "\udcff.csv")
    assert run.returncode == 0, run.stderr
    assert "Wrote \ufffd.csv, " in run.stdout


@pytest.mark.parametrize(
    "words",
    [("--out", f"{FORGED}/a.html"), ("--out", f"{FORGED}.txt"), ("--history", FORGED, "--out", "a.html")],
)
def test_an_error_escapes_a_file_name(shell, words):
    message = error_of(shell.here("report", *words))
    assert ESCAPED in message
    assert "\x1b" not in message


@pytest.fixture
def browser(shell, tmp_path):
    """A program in place of a browser, which records the addresses."""
    opened, program = tmp_path / "opened.txt", tmp_path / "browser.sh"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    program.chmod(0o700)
    shell.environment |= {"BROWSER": f"{program} %s", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return opened


def test_an_opened_page_is_deleted_when_somebody_is_erased(shell, browser, tmp_path):
    page = tmp_path / "cache" / "exposurekit" / "opened.html"
    run = shell("open", "--user", "2")
    assert run.returncode == 0, run.stderr
    assert f"Opened {page} in the browser." in run.stderr
    assert browser.read_text().split() == [page.as_uri()]
    assert page.stat().st_mode & 0o077 == 0
    run = shell.here("history", "erase", "3")
    assert "Removed the page that exposurekit open wrote to your cache" in run.stdout
    assert not page.exists()


def test_a_report_opens_where_it_was_written(shell, browser, tmp_path):
    run = shell("report", "--open", "--out", "page.html")
    assert run.returncode == 0, run.stderr
    assert browser.read_text().split() == [(tmp_path / "page.html").as_uri()]


def test_without_a_browser_the_error_names_the_page(shell, browser, tmp_path):
    shell.environment |= {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "PATH": "/nowhere"}
    run = shell("open")
    assert run.returncode == 1
    page = tmp_path / "cache" / "exposurekit" / "opened.html"
    assert error_of(run) == f"Error: no browser can be started here. Open {page} on a machine that has one"
    assert page.exists()
