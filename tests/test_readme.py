"""The README and the manuals, run on a demo: Python, shell lines, files, links and pictures."""

import ast
import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import apprise
import pytest
import yaml
from support import jupyter, postgres
from support.imap_server import an_imap_server
from support.ipython import Notebook
from support.notification_receivers import a_receiver
from support.saved_pages import saved_page
from support.shell import Shell, read_until

import exposurekit as ek

ROOT = Path(__file__).parent.parent
PACKAGES_WITH_MANUAL = ("history", "reports", "notebook", "monitor", "client", "service")
MANUALS = {
    name: (ROOT / name).read_text()
    for name in (
        "README.md",
        *(f"exposurekit/{package}/README.md" for package in PACKAGES_WITH_MANUAL),
        "exposurekit/service/ASVS.md",
        "tests/README.md",
        "notebooks/pictures/comparison/README.md",
    )
}
FIRST_REMOVAL = (ROOT / "exposurekit" / "service" / "FIRST_REMOVAL.md").read_text()
README_LINES_MAX = 200


def blocks(kind):
    """Return the fenced blocks of a kind in all manuals, without their indentation."""
    matches = re.findall(
        rf"^( *)```{kind}\n(.*?)^ *```", "\n".join(MANUALS.values()), re.DOTALL | re.MULTILINE
    )
    return ["\n".join(line.removeprefix(margin) for line in text.splitlines()) for margin, text in matches]


PYTHON, YAML, IPYTHON = blocks("python"), blocks("yaml"), blocks("ipython")
SHELL = [line for block in blocks("sh") for line in block.splitlines()]
[SITE] = [block for block in YAML if "listings:" in block]
[BROKER] = [block for block in blocks("json") if "optOutUrl" in block]
[PERSON] = [block for block in YAML if block.startswith("first_name:")]
[MARA] = [block for block in blocks("json") if "Thornbury" in block]
[RULES] = [block for block in YAML if "send_to:" in block]
MAILBOX, MAIL = (block for block in YAML if "imap:" in block)  # without and with a server for sending
OPT_OUTS = [block for block in YAML if "confirm:" in block or "method: email" in block]
# Run by the gate: each makes an environment of its own.
INSTALLS = "python -m venv .venv && .venv/bin/pip install -e "
# Minutes each: that they exist and have help is tested, their results are in the README.
MEASURES = ".venv/bin/python tests/"
TYPED = {"exposurekit users find": "Juniper Quill\n"}  # what a person types at a prompt
LASTS = re.compile(r"exposurekit (demo --serve|serve|worker|inbox run|watch run)")
STATUS = "exposurekit watch status --history exposure-history"
STARTED = {"demo": "ek.connect(", "watch": "watching "}
PICTURE = re.compile(r"!\[([^]]*)\]\((\S+)\)")
LINK = re.compile(r"(?<!!)\[[^]]*\]\(([^)\s]+)\)")
NEW_LAYOUT = """<html><body>
<section data-reference="000123"><h2><a href="/p/1">Resident Seekfolk</a></h2><i class="years">43</i>
  <p><b class="home">Oakmere, CA</b> <b class="home">Larkspur, NV</b></p></section>
<section data-reference="000456"><h2><a href="/p/2">Resident Seekfolk</a></h2><i class="years">71</i></section>
<a class="next" href="?page=2">Next</a></body></html>
"""
# What readers replace by their own.
THEIRS = {
    "--port 8642": "--port 0",
    "--port 8787": "--port 0",
    "--receive 8787": "--receive 0",
    "--host 10.0.0.5": "--host 127.0.0.1",
}


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=5, days=3) as demo:  # five, so that steps may be shared
        yield demo


@pytest.fixture
def working_directory(demo, monkeypatch, tmp_path):
    """A directory with a connection in `.env`, a history and a site."""
    monkeypatch.chdir(tmp_path)
    connection = {f"EXPOSUREKIT_{name.upper()}": value for name, value in demo.connection.items()}
    for name in connection:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in connection.items()))
    shutil.copytree(demo.history.path, tmp_path / "exposure-history")
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "seekfolk.yaml").write_text(SITE)
    (tmp_path / "seekfolk.example.json").write_text(BROKER)
    (tmp_path / "listed.yaml").write_text(PERSON)
    (tmp_path / "mara.json").write_text(MARA)
    (tmp_path / "listed.html").write_text(NEW_LAYOUT)
    (tmp_path / "absent.html").write_text("<html><body>Nobody of that name</body></html>")
    return tmp_path


@pytest.mark.long
def test_the_python_blocks_run(demo, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)  # a history is created in the current directory
    for name, value in demo.connection.items():
        monkeypatch.setenv(f"EXPOSUREKIT_{name.upper()}", value)
    scope = {}
    for block in PYTHON:
        small = block.replace("ek.demo(people=10, ", "ek.demo(people=1, days=2, ")
        small = small.replace("ek.demo(people=3, ", "ek.demo(people=1, ")
        exec(compile(ast.parse(small), "README.md", "exec"), scope)  # noqa: S102  the README's own text
    scope["client"].close()
    output = capsys.readouterr().out
    [table] = blocks("text")
    assert table.splitlines()[0].split() in [line.split() for line in output.splitlines()]
    assert "listings found on people-search sites are still open" in output
    assert "Get user failed (401" in output


@pytest.mark.long
def test_the_ipython_lines_run(working_directory):
    notebook = Notebook()
    [block] = IPYTHON
    for line in block.splitlines():
        notebook(line)


class Reader(Shell):
    """Types the lines of the README, with their own values where the line has an example."""

    def __init__(self, directory, receiver, database, **environment):
        super().__init__(directory, EXPOSUREKIT_DATABASE="sqlite:///service.db", **environment)
        self.failed = {}
        hook = f"http://127.0.0.1:{receiver.port}/hook --callback-network 127.0.0.0/8"
        first_day = environment["FIRST_DAY"]
        self._own = THEIRS | {
            "postgresql+psycopg://exposure@db/exposure": database,
            "https://globex.example/hook": hook,
            "2026-11-13": first_day,
            "--since 7d": f"--since {first_day}",
        }

    def types(self, line):
        """Run a line; a process that stays is stopped after its first output."""
        own = line
        for example, value in self._own.items():
            own = own.replace(example, value)
        own = own.replace(".venv/bin/", "")
        if own.startswith("export "):
            name, _, self.environment[name] = own.removeprefix("export ").partition("=")
            return
        words = shlex.split(own)
        if words[0] != "exposurekit":
            subprocess.run(own, shell=True, check=True, env=self.environment)  # noqa: S602
        elif LASTS.match(own):
            self._start_and_stop(line, words[1:])
        elif line != STATUS:  # which runs while there is a watch
            # What starts a browser does not wait for it, as a process of its own may.
            self._note(
                line,
                self(*words[1:]) if words[1] == "open" else self.here(*words[1:], stdin=TYPED.get(line, "")),
            )

    def _note(self, line, run):
        if run.returncode != 0:
            self.failed[line] = run.stdout + run.stderr

    def _start_and_stop(self, line, words):
        is_demo = words[0] == "demo"
        words = [*words, "--people", "2", "--days", "0"] if is_demo else words
        with self.started(*words) as process:
            read_until(process, STARTED.get(words[0], ""), "stdout" if is_demo else "stderr")
            if "--receive" in words:
                self._note(STATUS, self.here(*shlex.split(STATUS)[1:]))
            process.send_signal(signal.SIGTERM)
            _, error = process.communicate(timeout=60)
        if process.returncode != 0:
            self.failed[line] = error


def _own_mail(server):
    """The settings of the manual, with another server."""
    mail = yaml.safe_load(MAILBOX)
    files = {
        "password_file": str(server.directory / "password"),
        "ca_file": str(server.directory / "cert.pem"),
    }
    return mail | {"imap": mail["imap"] | files | {"host": "127.0.0.1", "port": server.port}}


@pytest.mark.long
def test_the_shell_lines_run(working_directory, demo):
    jupyter.needs_browser()  # a report is printed as a PDF
    with postgres.a_server() as server, a_receiver() as receiver, an_imap_server() as imap_server:
        (working_directory / "mail.yaml").write_text(yaml.safe_dump(_own_mail(imap_server)))
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
            PGHOST=re.search(r"host=([^&]+)", server.get_uri())[1],
            PGUSER="postgres",
        )
        # A database is created before it is used, although the text mentions it later.
        for line in sorted(SHELL, key=lambda line: not line.startswith("createuser")):
            if not line.startswith((INSTALLS, MEASURES)):
                reader.types(line)
    assert STATUS in SHELL
    assert reader.failed == {}
    assert len(receiver.messages) > 0
    written = {path.name for path in working_directory.iterdir()}
    assert {"fleet.html", "week.html", "week.pdf", "queue.xlsx", "queue.ics", "service.db"} <= written


LISTED = """<ul><li class=person data-reference=r7><a href="/p/r7"><h2>Mara Thornbury</h2></a>
  <b class=age>Age {age}</b><i class=town>Oakmere, CA</i></li></ul>"""
OFFERED = """until exposurekit users opt-outs --json | grep -q '"id"'; do sleep 0.2; done"""  # by a job of the server


def _first_removal(server, port):
    """The blocks of the page as one script, with another mail server and port."""
    born = date.fromisoformat(re.search(r"^birth_date: (.*)", FIRST_REMOVAL, re.MULTILINE)[1])
    today = datetime.now(UTC).date()
    age = today.year - born.year - ((today.month, today.day) < (born.month, born.day))
    address = "https://seekfolk.example/search?name=Mara+Thornbury&state=CA"
    page = saved_page(LISTED.format(age=age), address)
    own = {
        "host: imap.privacy.example": f"host: 127.0.0.1, port: {server.port}, ca_file: {server.directory}/cert.pem",
        "8642": str(port),
    }
    script = ["set -e; trap 'kill %1; wait' EXIT"]  # the server, at the end
    for block in re.findall(r"^```sh\n(.*?)^```", FIRST_REMOVAL, re.DOTALL | re.MULTILINE):
        for example, value in own.items():
            block = block.replace(example, value)  # noqa: PLW2901
        if "users scan" in block:
            script.append(f"printf %s {shlex.quote(page)} > results.mhtml")
        if "users opt-outs" in block:
            script.append(OFFERED)
        script.append(block)
    return "\n".join(script)


@pytest.mark.long
def test_the_page_of_the_first_removal_runs(tmp_path):
    """Registration, mailbox, site, server, saved page and opt-out, in one shell as a person types them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EXPOSUREKIT_")}
    environment |= {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"}
    with an_imap_server() as server:
        script = _first_removal(server, jupyter.free_port())
        password = f"{(server.directory / 'password').read_text()}\n"
        options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
        run = subprocess.run(["bash", "-c", script], input=password, timeout=300, check=False, **options)
    assert run.returncode == 0, run.stderr
    for line in (
        "ok: the mailbox of optout@privacy.example has 0 messages.",
        "ok: sites/seekfolk.yaml: Seekfolk is valid.",
        "records discovered 1,",
        "    Type: Address of the listing = https://seekfolk.example/p/r7\n",
        "    Type: Email = optout+",
        "Listings pending removal: 1.\nSeekfolk: waits for the site's message until ",
    ):
        assert line in run.stdout


def test_the_first_removal_reports_a_server_that_does_not_start(tmp_path):
    """Another program that answers on the port must not pass for the service."""
    start, _, _, serve, *_ = re.findall(r"^```sh\n(.*?)^```", FIRST_REMOVAL, re.DOTALL | re.MULTILINE)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EXPOSUREKIT_")}
    environment |= {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"}
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        script = f"set -e\n{start}\nunset EXPOSUREKIT_MAIL\n{serve}".replace("8642", port)
        options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
        run = subprocess.run(["bash", "-c", script], timeout=120, check=True, **options)
    assert run.stdout == (
        f"Error: cannot listen on 127.0.0.1 port {port}: it is in use: stop the other program, or choose another port\n"
    )
    assert stat.S_IMODE((tmp_path / "removals").stat().st_mode) == 0o700


def test_the_first_removal_takes_ten_minutes_on_one_page():
    minutes = re.findall(r"^\*\*\d\. .*\((.*?) minutes?\)\.\*\*", FIRST_REMOVAL, re.MULTILINE)
    assert sum(0.5 if one == "half a" else int(one) for one in minutes) == 10
    assert len(FIRST_REMOVAL.splitlines()) <= 110
    assert (
        len(re.sub(r"```.*?```", "", FIRST_REMOVAL, flags=re.DOTALL).split()) <= 450
    )  # two or three minutes to read


def test_the_gate_installs_what_the_readme_installs():
    gate = (ROOT / ".ci" / "run").read_text()
    installed = [line for line in SHELL if line.startswith(INSTALLS)]
    assert len(installed) == 2
    for line in installed:
        [what] = re.findall(r"'(\.\[\w+\])'", line)
        assert what in gate


@pytest.mark.parametrize("line", [line for line in SHELL if line.startswith(MEASURES)])
def test_each_measuring_script_exists(line):
    words = shlex.split(line)
    assert (ROOT / words[1]).is_file()


WITH_HELP = [line for line in SHELL if re.match(rf"{MEASURES}(support|sharing|crash)/", line)]
# Runs each script as Python would, but the libraries are imported once; what the scripts share is imported by each.
HELP_OF_ALL = """
import contextlib, io, json, runpy, sys
from pathlib import Path
output, path, own = {}, sys.path[1:], str(Path(sys.argv[1]).parents[1])
for script in sys.argv[1:]:
    sys.argv, sys.path[:] = [script, "--help"], [str(Path(script).parent), *path]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as ended:
            output[script] = [ended.code or 0, out.getvalue()]
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(own):
            del sys.modules[name]
print(json.dumps(output))
"""


@pytest.fixture(scope="module")
def help_of_all():
    """By script, its exit code and what it prints."""
    scripts = dict.fromkeys(str(ROOT / shlex.split(line)[1]) for line in WITH_HELP)
    command = [sys.executable, "-c", HELP_OF_ALL, *scripts]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(run.stdout)


@pytest.mark.long
@pytest.mark.parametrize("line", WITH_HELP)
def test_each_measuring_script_has_help(line, help_of_all):
    code, output = help_of_all[str(ROOT / shlex.split(line)[1])]
    assert code == 0
    assert {word for word in line.split() if word.startswith("--")} <= set(re.findall(r"--\w[\w-]*", output))


def test_the_site_definition_is_valid():
    from exposurekit.service.sites.loader import parsed

    assert parsed(SITE).name == "Seekfolk"


def test_the_mail_settings_and_opt_outs_are_valid(tmp_path):
    from exposurekit.service.mail.settings import load, supports
    from exposurekit.service.sites.loader import parsed

    for text in (MAILBOX, MAIL):
        (tmp_path / "mail.yaml").write_text(text)
        settings = load(tmp_path / "mail.yaml")
        assert settings.imap.password_file == tmp_path / "mail-password"
    assert settings.smtp.requires_approval
    before, _, after = SITE.partition("removal:\n")
    rest = re.sub(r"\A(  .*\n)+", "", after)
    assert len(OPT_OUTS) == 2
    assert all(supports(settings, parsed(f"{before}{text}\n{rest}")) for text in OPT_OUTS)
    assert not any(supports(None, parsed(f"{before}{text}\n{rest}")) for text in OPT_OUTS)


def test_the_addresses_of_mail_servers_use_tls():
    manual = MANUALS["exposurekit/monitor/README.md"]
    urls = [url.replace("${MAIL_PASSWORD}", "pa55word") for url in re.findall(r"mailto\w*://\S+\w", manual)]
    servers = [apprise.Apprise.instantiate(url) for url in urls]
    modes = {(one.smtp_host, one.port, one.secure_mode) for one in servers}
    assert modes == {
        ("mail.example", 587, "starttls"),
        ("mail.example", 465, "ssl"),
        ("smtp.mail.example", 2525, "starttls"),
    }


def test_the_broker_file_becomes_a_draft(tmp_path):
    from exposurekit.service.sites.import_formats import read

    file = tmp_path / "seekfolk.example.json"
    file.write_text(BROKER)
    [draft] = read(file)
    assert (draft.name, draft.method, draft.to_write) == ("Seekfolk", "manual", ())
    assert [one.field for one in draft.lost] == ["scan.navigate.url age", "optOut.selectors"]


def test_the_rules_are_valid():
    from exposurekit.monitor.notifications.notifier import check_addresses
    from exposurekit.monitor.notifications.rules import parse_rules

    rules = parse_rules(
        RULES, {"MAIL_PASSWORD": "pa55word", "SLACK_TOKEN": "T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"}
    )
    check_addresses(rules)
    assert (len(rules.notifications), len(rules.reports)) == (7, 1)


def test_readme_has_at_most_200_lines():
    assert len(MANUALS["README.md"].splitlines()) <= README_LINES_MAX


@pytest.mark.parametrize("name", [*MANUALS, "exposurekit/service/FIRST_REMOVAL.md"])
def test_links_resolve(name):
    for target in LINK.findall((ROOT / name).read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent / (path or Path(name).name)
        assert file.is_file(), target
        headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE) if anchor else []
        assert not anchor or anchor in {heading.lower().replace(" ", "-") for heading in headings}, target


def test_pictures_exist_are_small_and_have_alternative_text():
    pictures = {
        ((ROOT / name).parent / path).resolve(): alternative
        for name, text in MANUALS.items()
        for alternative, path in PICTURE.findall(text)
    }
    assert set((ROOT / "notebooks" / "pictures").rglob("*.png")) == set(pictures)
    for path, alternative in pictures.items():
        content = path.read_bytes()
        width, height = struct.unpack(">II", content[16:24])
        assert len(alternative) > 30, path
        assert content.startswith(b"\x89PNG")
        assert (600 <= width <= 2000, height <= 1600, len(content) < 300_000) == (True, True, True)
