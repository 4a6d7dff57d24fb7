"""Reports from a shell."""

import json

import pytest
from support import controls as kit
from support.histories import Clock, seen_through
from support.shell import Shell, error_of

from exposurekit.analysis.tasks import NO_VALUES
from exposurekit.cli.history import DEMO_MARKER

pytestmark = pytest.mark.long  # processes of their own


@pytest.fixture
def shell(tmp_path):
    """A shell beside a history of one look at three people."""
    with seen_through(kit.three_people()) as exposure:
        kit.a_history(tmp_path, exposure, Clock())
        yield Shell(tmp_path, EXPOSUREKIT_HISTORY=str(tmp_path / "history"))


@pytest.mark.parametrize(
    ("words", "title"),
    [((), "Exposure"), (("--user", "2"), "Exposure of user 2"), (("--kind", "sites"), "Sites")],
    ids=str,
)
def test_a_report_is_written_and_says_its_finding(shell, tmp_path, words, title):
    run = shell("report", *words, "--out", str(tmp_path / "page.html"))
    assert run.returncode == 0, run.stderr
    assert "still open" in run.stdout
    assert "Wrote" in run.stdout
    page = (tmp_path / "page.html").read_text()
    assert f"<title>{title}" in page
    assert "connect-src" in page


def test_what_is_so_now_needs_no_history(tmp_path):
    with seen_through(kit.three_people()) as exposure:
        access = exposure.client.config
        shell = Shell(
            tmp_path,
            EXPOSUREKIT_BASE_URL=access.base_url,
            EXPOSUREKIT_INTEGRATION_NAME=access.integration_name,
            EXPOSUREKIT_API_KEY=access.api_key,
            EXPOSUREKIT_API_SECRET=access.api_secret,
        )
        run = shell.here("report", "--live", "--share-safe", "--out", "page.html")
        assert run.returncode == 0, run.stderr
        assert "<title>Exposure" in (tmp_path / "page.html").read_text()
        named = shell.here("report", "--live", "--history", "nowhere", "--out", "page.html")
        assert "There is no history in nowhere" in error_of(named)


def test_what_is_shared_names_nobody(shell, tmp_path):
    run = shell("report", "--share-safe", "--user", "2", "--out", str(tmp_path / "page.html"))
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "page.html").read_text()
    assert "<title>Exposure of user " in page
    assert not [one for one in kit.PERSONAL if one != "https://" and one in page]


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
def test_manual_work_without_names_says_how_to_get_them(shell, tmp_path, words, message):
    run = shell.here(*words)
    assert run.returncode == 0, run.stderr
    assert run.stderr == message
    assert (NO_VALUES in (tmp_path / words[-1]).read_text()) == bool(message)


@pytest.mark.parametrize("name", ["queue.xlsx", "queue.md", "queue.ics"])
def test_a_queue_without_rows_says_why(shell, name):
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


def test_the_ids_are_listed_as_the_error_says(shell):
    run = shell.here("history", "show", "--group-by", "user_id")
    assert run.returncode == 0, run.stderr
    assert "user id" in run.stdout


def test_with_live_the_manual_work_has_names(shell, tmp_path):
    with seen_through(kit.three_people()) as exposure:
        access = exposure.client.config
        shell.environment |= {
            "EXPOSUREKIT_BASE_URL": access.base_url,
            "EXPOSUREKIT_INTEGRATION_NAME": access.integration_name,
            "EXPOSUREKIT_API_KEY": access.api_key,
            "EXPOSUREKIT_API_SECRET": access.api_secret,
        }
        for words in (("report", "--out", "a.html"), ("export", "queue", "--personal", "--out", "a.md")):
            run = shell.here(*words, "--live")
            assert run.returncode == 0, run.stderr
            assert "are missing" not in run.stderr + (tmp_path / words[-1]).read_text()


def test_as_json_it_is_the_content(shell, tmp_path):
    run = shell("report", "--json", "--out", str(tmp_path / "page.html"))
    content = json.loads(run.stdout)
    assert content["kind"] == "fleet"
    assert {"name", "value", "qualifier", "change", "trend", "definition"} == {*content["facts"][0]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "nowhere/page.html"), "no such directory"),
        (("--out", "."), "is a directory"),
        (
            ("--out", "page.html", "--user", "99"),
            "[99]. history.people() lists the ids; on the command line: exposurekit history show",
        ),
        (("--out", "page.html", "--history", "elsewhere"), "There is no history in elsewhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_one_line_and_no_file(shell, tmp_path, words, message):
    run = shell("report", *words)
    assert run.returncode == 1
    assert message in error_of(run)
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kind", "person"), "--kind person needs --user ID"),
        (("--kind", "changes"), "--kind changes needs --since TIME"),
        (("--kind", "fleet", "--user", "1"), "--user ID needs --kind person"),
        (("--kind", "sites", "--since", "2026-11-13"), "--since TIME needs --kind changes"),
        (("--user", "1", "--since", "2026-11-13"), "not both"),
        (("--since", "lastweek"), "Invalid value for '--since': A time is 14d, 2w or 36h"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_does_not_go_together_is_a_wrong_call(shell, tmp_path, words, message):
    run = shell("report", "--out", str(tmp_path / "page.html"), *words)
    assert run.returncode == 2
    assert message in run.stderr
    assert not (tmp_path / "page.html").exists()


FORGED = "a\nError: forged\x1bc"
ESCAPED_ERROR = "a Error: forgedc"


@pytest.mark.parametrize(
    ("words", "end"), [(("report",), ".html"), (("export", "records"), ".csv")], ids=["report", "export"]
)
def test_a_file_is_named_on_one_line_whatever_its_name(shell, tmp_path, words, end):
    run = shell(*words, "--out", f"{FORGED}{end}")
    assert run.returncode == 0, run.stderr
    assert f"Wrote {ESCAPED_ERROR}{end}, " in run.stdout
    assert "\x1b" not in run.stdout
    assert (tmp_path / f"{FORGED}{end}").exists()
    shell.environment["PYTHONIOENCODING"] = "utf-8:strict"
    run = shell(*words, "--out", f"\udcff{end}")
    assert run.returncode == 0, run.stderr
    assert f"Wrote \ufffd{end}, " in run.stdout


@pytest.mark.parametrize(
    "words",
    [("--out", f"{FORGED}/a.html"), ("--out", f"{FORGED}.txt"), ("--history", FORGED, "--out", "a.html")],
)
def test_an_error_names_it_so_too(shell, words):
    message = error_of(shell.here("report", *words))
    assert ESCAPED_ERROR in message
    assert "\x1b" not in message


@pytest.fixture
def browser(shell, tmp_path):
    """A program that stands for a browser: it notes what it is given to open."""
    opened, program = tmp_path / "seen.txt", tmp_path / "browser.sh"
    program.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    program.chmod(0o700)
    shell.environment |= {"BROWSER": f"{program} %s", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    return opened


def test_a_page_opens_and_is_forgotten_when_somebody_is_erased(shell, browser, tmp_path):
    page = tmp_path / "cache" / "exposurekit" / "opened.html"
    run = shell("open", "--user", "2")
    assert run.returncode == 0, run.stderr
    assert f"Opened {page} in the browser." in run.stderr
    assert browser.read_text().split() == [page.as_uri()]
    assert page.stat().st_mode & 0o077 == 0
    run = shell("history", "erase", "3")
    assert "Removed the page that exposurekit open wrote to your cache" in run.stdout
    assert not page.exists()


def test_a_report_opens_where_it_was_written(shell, browser, tmp_path):
    run = shell("report", "--open", "--out", "page.html")
    assert run.returncode == 0, run.stderr
    assert browser.read_text().split() == [(tmp_path / "page.html").as_uri()]


def test_without_a_browser_it_is_said_where_the_page_lies(shell, browser, tmp_path):
    shell.environment |= {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "PATH": "/nowhere"}
    run = shell("open")
    assert run.returncode == 1
    page = tmp_path / "cache" / "exposurekit" / "opened.html"
    assert error_of(run) == f"Error: no browser can be started here. Open {page} on a machine that has one"
    assert page.exists()
