"""Reports from a shell."""

import json

import pytest
import widgets_kit as kit
from cli_kit import Shell, error_of
from history_kit import Clock, seen_through

pytestmark = pytest.mark.long  # processes of their own


@pytest.fixture
def shell(tmp_path):
    """A shell beside a history of one look at three people."""
    with seen_through(kit.three_people()) as exposure:
        kit.a_history(tmp_path, exposure, Clock())
        yield Shell(tmp_path, EXPOSUREKIT_HISTORY=str(tmp_path / "history"))


@pytest.mark.parametrize(
    ("words", "title"),
    [((), "Exposure"), (("--user", "2"), "Exposure of user 2"), (("--kind", "sites"), "The sites")],
    ids=str,
)
def test_a_report_is_written_and_says_its_finding(shell, tmp_path, words, title):
    run = shell("report", *words, "--out", str(tmp_path / "page.html"))
    assert run.returncode == 0, run.stderr
    assert "still open" in run.stdout
    assert "Wrote" in run.stdout
    page = (tmp_path / "page.html").read_text()
    assert f"<title>{title}</title>" in page
    assert "connect-src" in page


def test_what_is_shared_names_nobody(shell, tmp_path):
    run = shell("report", "--share-safe", "--user", "2", "--out", str(tmp_path / "page.html"))
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "page.html").read_text()
    assert "<title>Exposure of person " in page
    assert not [one for one in kit.PERSONAL if one != "https://" and one in page]


def test_as_json_it_is_the_content(shell, tmp_path):
    run = shell("report", "--json", "--out", str(tmp_path / "page.html"))
    told = json.loads(run.stdout)
    assert told["kind"] == "fleet"
    assert {"name", "value", "sure"} == {*told["facts"][0]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "nowhere/page.html"), "there is no directory"),
        (("--out", "."), "is a directory"),
        (("--out", "page.html", "--user", "99"), "99"),
        (("--out", "page.html", "--since", "yesterday"), "2026-11-13"),
        (("--out", "page.html", "--kind", "person"), "user"),
        (("--out", "page.html", "--history", "elsewhere"), "There is no history there"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_one_line_and_no_file(shell, tmp_path, words, said):
    run = shell("report", *words)
    assert run.returncode == 1
    assert said in error_of(run)
    assert not (tmp_path / "page.html").exists()
