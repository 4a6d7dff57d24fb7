"""The README and the manuals, run as they stand on a demo: Python, shell lines, files, links and pictures."""

import ast
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support import jupyter, postgres
from support.ipython import Notebook
from support.notification_receivers import a_receiver
from support.shell import Shell

import exposurekit as ek

ROOT = Path(__file__).parent.parent
PACKAGES_WITH_MANUAL = ("history", "reports", "notebook", "monitor", "client", "service")
MANUALS = {
    name: (ROOT / name).read_text()
    for name in (
        "README.md",
        *(f"exposurekit/{package}/README.md" for package in PACKAGES_WITH_MANUAL),
        "tests/README.md",
    )
}
README_LINES_MAX = 200


def blocks(kind):
    """The fenced blocks of a kind in all manuals, without their indentation."""
    matches = re.findall(
        rf"^( *)```{kind}\n(.*?)^ *```", "\n".join(MANUALS.values()), re.DOTALL | re.MULTILINE
    )
    return ["\n".join(line.removeprefix(margin) for line in text.splitlines()) for margin, text in matches]


PYTHON, YAML, IPYTHON = blocks("python"), blocks("yaml"), blocks("ipython")
SHELL = [line for block in blocks("sh") for line in block.splitlines()]
[SITE] = [block for block in YAML if "listings:" in block]
[RULES] = [block for block in YAML if "send_to:" in block]
# The gate runs these: each makes an environment of its own.
INSTALLS = "python -m venv .venv && .venv/bin/pip install -e "
# Minutes each. That they are there and say what they do is tested; what they came to stands in the README.
MEASURES = ".venv/bin/python tests/"
LASTS = re.compile(r"exposurekit (demo --serve|serve|worker|inbox run|watch run)")
STATUS = "exposurekit watch status --history exposure-history"
SAYS_THAT_IT_IS_THERE = {"demo": "ek.connect(", "watch": "watching "}
PICTURE = re.compile(r"!\[([^]]*)\]\((\S+)\)")
LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)")
# What a reader puts their own in place of.
THEIRS = {
    "--port 8642": "--port 0",
    "--port 8787": "--port 0",
    "--receive 8787": "--receive 0",
    "--host 10.0.0.5": "--host 127.0.0.1",
}


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=5, days=3) as demo:
        yield demo


@pytest.fixture
def working_directory(demo, monkeypatch, tmp_path):
    """A directory of a reader's: their connection in `.env`, a history, a site, rules."""
    monkeypatch.chdir(tmp_path)
    connection = {f"EXPOSUREKIT_{name.upper()}": value for name, value in demo.connection.items()}
    for name in connection:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in connection.items()))
    shutil.copytree(demo.history.path, tmp_path / "exposure-history")
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "seekfolk.yaml").write_text(SITE)
    return tmp_path


@pytest.mark.long
def test_its_python_runs_as_it_stands(demo, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)  # a history is made where one stands
    for name, value in demo.connection.items():
        monkeypatch.setenv(f"EXPOSUREKIT_{name.upper()}", value)
    scope = {}
    for block in PYTHON:
        exec(compile(ast.parse(block), "README.md", "exec"), scope)  # noqa: S102  the README's own text
    scope["client"].close()
    output = capsys.readouterr().out
    assert "listings of" in output
    assert "Get user failed (401" in output


@pytest.mark.long
def test_its_lines_for_ipython_run(working_directory):
    notebook = Notebook()
    [block] = IPYTHON
    for line in block.splitlines():
        notebook(line)


class Reader(Shell):
    """Somebody who types what the README says, and puts their own where it is about their own."""

    def __init__(self, directory, receiver, database, **environment):
        super().__init__(directory, EXPOSUREKIT_DATABASE="sqlite:///service.db", **environment)
        self._receiver, self._database, self.died = receiver, database, {}

    def types(self, line):
        """Do what a line says: what lasts is told to end once it has said something."""
        if line.startswith("export "):
            name, _, value = line.removeprefix("export ").partition("=")
            self.environment[name] = self._theirs(value)
            return
        words = shlex.split(self._theirs(line).replace(".venv/bin/", ""))
        if words[0] != "exposurekit":
            subprocess.run(self._theirs(line), shell=True, check=True, env=self.environment)  # noqa: S602
        elif LASTS.match(line.replace(".venv/bin/", "")):
            self._lasts(line, words[1:])
        elif line != STATUS:  # asked while there is one
            # What starts a browser does not wait for it, as a process of its own may.
            self._ended(line, self(*words[1:]) if words[1] == "open" else self.here(*words[1:]))

    def _ended(self, line, run):
        if run.returncode != 0:
            self.died[line] = run.stdout + run.stderr

    def _theirs(self, line):
        hook = f"http://127.0.0.1:{self._receiver.port}/hook --callback-network 127.0.0.0/8"
        its_own = {
            "postgresql+psycopg://exposure@db/exposure": self._database,
            "https://globex.example/hook": hook,
        }
        for placeholder, put in (THEIRS | its_own).items():
            line = line.replace(placeholder, put)
        # A day of their history.
        return line.replace("2026-11-13", self.environment["FIRST_DAY"]).replace(
            "--since 7d", f"--since {self.environment['FIRST_DAY']}"
        )

    def _lasts(self, line, words):
        words = [*words, "--people", "2", "--days", "0"] if words[0] == "demo" else words
        with self.started(*words) as process:
            lines = process.stdout if words[0] == "demo" else process.stderr
            line_printed = next((one for one in lines if SAYS_THAT_IT_IS_THERE.get(words[0], "") in one), "")
            if "--receive" in words:
                self._ended(STATUS, self.here(*shlex.split(STATUS)[1:]))
            process.send_signal(signal.SIGTERM)
            _, error = process.communicate(timeout=60)
        if process.returncode != 0 or not line_printed:
            self.died[line] = error


@pytest.mark.long
def test_its_shell_runs_line_by_line(working_directory, demo):
    jupyter.needs_browser()  # a report is printed as a PDF
    with postgres.a_server() as server, a_receiver() as receiver:
        rules = re.sub(r"(me|chat): \S+", rf"\1: {receiver.url}", RULES)
        (working_directory / "rules.yaml").write_text(rules)
        (working_directory / "rules.yaml").chmod(0o600)
        reader = Reader(
            working_directory,
            receiver,
            server.get_uri("exposure").replace("postgresql://postgres:", "postgresql+psycopg://exposure:"),
            BROWSER="true",
            FIRST_DAY=f"{demo.history.runs()['finished_at'].iloc[0]:%Y-%m-%d}",
            PATH=f"{server.bin_path}:{os.environ['PATH']}",
            **of_server(server),
        )
        # A database is made before it is used, though it is told of later.
        for line in sorted(SHELL, key=lambda line: not line.startswith("createuser")):
            if not line.startswith((INSTALLS, MEASURES)):
                reader.types(line)
    assert STATUS in SHELL
    assert reader.died == {}
    assert len(receiver.messages) > 0
    written = {path.name for path in working_directory.iterdir()}
    assert {"fleet.html", "week.html", "week.pdf", "queue.xlsx", "queue.ics", "service.db"} <= written


def of_server(server):
    """What a client of PostgreSQL's own takes from its environment."""
    host = re.search(r"host=([^&]+)", server.get_uri())
    return {"PGHOST": host.group(1), "PGUSER": "postgres"}


def test_what_it_installs_is_what_the_gate_installs():
    gate = (ROOT / ".ci" / "run").read_text()
    installed = [line for line in SHELL if line.startswith(INSTALLS)]
    assert len(installed) == 2
    for line in installed:
        [what] = re.findall(r"'(\.\[\w+\])'", line)
        assert what in gate


@pytest.mark.parametrize("line", [line for line in SHELL if line.startswith(MEASURES)])
def test_what_it_measures_with_is_there(line):
    words = shlex.split(line)
    assert (ROOT / words[1]).is_file()


@pytest.mark.long
@pytest.mark.parametrize(
    "line", [line for line in SHELL if re.match(rf"{MEASURES}(support|sharing|crash)/", line)]
)
def test_each_measure_says_how_it_is_run(line):
    command = [sys.executable, ROOT / shlex.split(line)[1], "--help"]
    help_output = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert {word for word in line.split() if word.startswith("--")} <= set(
        re.findall(r"--\w[\w-]*", help_output.stdout)
    )


def test_its_site_definition_is_one():
    from exposurekit.service.sites.loader import parsed

    assert parsed(SITE).name == "Seekfolk"


def test_its_rules_are_rules():
    from exposurekit.monitor.notifications.notifier import check_addresses
    from exposurekit.monitor.notifications.rules import parse_rules

    rules = parse_rules(
        RULES, {"MAIL_PASSWORD": "pa55word", "SLACK_TOKEN": "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"}
    )
    check_addresses(rules)
    assert len(rules.rules) == 7


def test_readme_has_at_most_200_lines():
    assert len(MANUALS["README.md"].splitlines()) <= README_LINES_MAX


@pytest.mark.parametrize("name", MANUALS)
def test_links_resolve(name):
    for target in LINK.findall(MANUALS[name]):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / path
        assert file.is_file(), target
        headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if anchor else []
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}, target


def test_pictures_exist_are_small_and_have_alternative_text():
    pictures = {
        ((ROOT / name).parent / path).resolve(): alternative
        for name, text in MANUALS.items()
        for alternative, path in PICTURE.findall(text)
    }
    assert set((ROOT / "notebooks" / "pictures").iterdir()) == set(pictures)
    for path, alternative in pictures.items():
        content = path.read_bytes()
        width, height = struct.unpack(">II", content[16:24])
        assert len(alternative) > 30, path
        assert content.startswith(b"\x89PNG")
        assert (600 <= width <= 2000, height <= 1600, len(content) < 300_000) == (True, True, True)
