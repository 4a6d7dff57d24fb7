"""The doctor, the check, the exports and other small commands."""

import base64
import json
import shlex
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support import faults
from support import widget_controls as kit
from support.clients import json_response, many
from support.histories import DAWN, Clock, seen_through
from support.shell import Shell, connection, error_of
from support.watches import KEY, SECRET, Fleet

from exposurekit.history import History
from exposurekit.system.clock import utc_now

SO_MANY_DAYS = f"{(datetime.now(UTC).date() - DAWN.date()).days - 1}d"  # since it was removed
DEFINITIONS = Path(__file__).parents[2] / "exposurekit" / "sandbox" / "world" / "definitions"
CREDENTIALS = ("acme", KEY, SECRET)


@pytest.fixture(scope="module")
def relisted(tmp_path_factory):
    """A history in which a listing is removed and returns."""
    path = tmp_path_factory.mktemp("relisted") / "history"
    service, clock = kit.three_people(), Clock()
    with History(path, clock=clock) as history, seen_through(service) as exposure:
        for day, status in enumerate(("discovered", "removed", "discovered")):
            service.people[1].records[0] |= {"status": status}
            clock.set(DAWN + timedelta(days=day))
            history.collect(exposure.refresh(), progress=False)
    return path


@pytest.fixture
def history_copy(relisted, tmp_path):
    return Path(shutil.copytree(relisted, tmp_path / "history"))


@pytest.fixture
def shell(tmp_path):
    cache = str(tmp_path / "cache")
    return Shell(tmp_path, EXPOSUREKIT_HISTORY="history", XDG_CACHE_HOME=cache, **connection("", "", "", ""))


def examined(shell):
    run = shell.here("doctor", "--json")
    return run.returncode, {one["check"]: one for one in json.loads(run.stdout)}


def test_without_settings_each_check_names_a_remedy(shell):
    code, checks = examined(shell)
    assert code == 0
    assert checks["credentials"]["message"].startswith("EXPOSUREKIT_BASE_URL, EXPOSUREKIT_INTEGRATION_NAME")
    assert "exposurekit demo" in checks["credentials"]["fix"]
    assert checks["history"]["fix"] == "exposurekit collect"
    assert "duckdb" in checks["versions"]["message"]
    assert checks["JupyterLab"]["message"].endswith("runs the widgets")
    assert checks["Notebook"]["message"].endswith("runs the widgets")
    assert "VS Code" in checks["front ends"]["message"]
    assert all(one["fix"] for one in checks.values() if one["state"] != "ok")


def test_a_working_setup_passes_every_check(shell, tmp_path):
    with faults.running(Fleet(utc_now)) as server:
        shell.environment |= connection(server.base_url, *CREDENTIALS)
        assert shell.here("collect").returncode == 0
        code, checks = examined(shell)
    assert code == 0
    assert "accepts the credentials" in checks["service"]["message"]
    assert "not damaged" in checks["history"]["message"]
    assert checks["people"]["state"] == "ok"


def test_answers_that_deviate_are_reported(shell):
    user = faults.BODIES["get_user"]["user"] | {"id": 1, "middle_name": None}

    def meddle(request, _number):
        return json_response({"user": user}) if request.operation == "get_user" else None

    with faults.running(many([1], meddle)) as server:
        shell.environment |= connection(server.base_url, *CREDENTIALS)
        _, checks = examined(shell)
    assert checks["responses"]["state"] == "warn"
    assert "Get user: middle_name null" in checks["responses"]["message"]
    assert "exposure.deviations()" in checks["responses"]["fix"]


def test_each_problem_has_a_remedy_and_shows_no_secret(shell):
    with faults.running(lambda _request: faults.refused(401)) as server:
        shell.environment |= connection(server.base_url, *CREDENTIALS)
        run = shell.here("doctor")
    assert run.returncode == 1
    assert "fail  credentials: " in run.stdout
    assert "-> check integration name" in run.stdout
    shell.environment |= connection("http://127.0.0.1:9", *CREDENTIALS)
    gone = shell.here("doctor")
    assert "fail  service: " in gone.stdout
    for secret in (KEY, SECRET):
        assert secret not in run.stdout + gone.stdout + run.stderr + gone.stderr


def test_a_wrong_clock_fails(shell):
    late = datetime.now(UTC) - timedelta(hours=2)
    date = ("Date", late.strftime("%a, %d %b %Y %H:%M:%S GMT"))
    dated = faults.Answer(status=200, headers=(date,), body=b'{"count": 0, "users": []}')
    with faults.running(lambda _request: dated) as server:
        shell.environment |= connection(server.base_url, *CREDENTIALS)
        code, checks = examined(shell)
    assert code == 1
    assert checks["clock"]["message"].startswith("this machine's clock and the service's are 7,2")


@pytest.fixture
def own_service(shell, tmp_path):
    """A service's database, a definition and a mailbox, which the environment names."""
    (tmp_path / "sites").mkdir()
    shutil.copy(DEFINITIONS / "seekfolk.yaml", tmp_path / "sites")
    (tmp_path / "mail").mkdir()
    (tmp_path / "mail.yaml").write_text("address: optout@privacy.example\ndirectory: mail\n")
    files = {"DATABASE": "sqlite:///service.db", "SITES": "sites", "MAIL": "mail.yaml"}
    shell.environment |= {f"EXPOSUREKIT_{name}": value for name, value in files.items()}
    assert shell.here("integrator", "add", "acme", "--no-attestation").returncode == 0
    return tmp_path


OWN = ("key", "database", "worker", "sites", "mailbox")


def runs(directory, ago=timedelta()):
    """Note that a worker runs, or ran a while ago."""
    with sqlite3.connect(directory / "service.db") as database:
        row = ("worker: a", (datetime.now(UTC) - ago).isoformat())
        database.execute("insert or replace into metadata (name, value) values (?, ?)", row)


def test_a_service_of_ones_own_is_checked(shell, own_service):
    code, checks = examined(shell)
    assert (code, checks["worker"]["state"]) == (0, "warn")
    assert checks["worker"]["message"].startswith("none runs, so no scan, removal or webhook begins; ")
    runs(own_service)
    code, checks = examined(shell)
    assert (code, {checks[name]["state"] for name in OWN}) == (0, {"ok"})
    assert checks["worker"]["message"] == "1 worker runs, and 0 jobs now; no site was scanned yet"
    assert checks["sites"]["message"] == "valid definitions: 1"
    for name in ("EXPOSUREKIT_DATABASE", "EXPOSUREKIT_SITES", "EXPOSUREKIT_MAIL"):
        shell.environment[name] = ""
    assert not {*OWN} & {*examined(shell)[1]}


def test_each_problem_of_ones_own_service_has_a_remedy(shell, own_service, monkeypatch):
    now = datetime.now(UTC).replace(tzinfo=None)
    with sqlite3.connect(own_service / "service.db") as database:
        row = (now.isoformat(" "), (now - timedelta(hours=3)).isoformat(" "))
        database.execute(
            "insert into users (integrator_id, secret_ciphertext, ciphertext, is_scanning, identification_on_file, "
            "created_at, due_at) values (1, '', '', 0, 0, ?, ?)",
            row,
        )
    (own_service / "sites" / "seekfolk.yaml").write_text("name: Seekfolk\npolitenes: {}\n")
    (own_service / "mail.yaml").write_text("address: optout@privacy.example\ndirectory: nowhere\n")
    code, checks = examined(shell)
    assert code == 1
    message = "none runs, so no scan, removal or webhook begins; a job has been due for 3 hours; "
    assert checks["worker"]["message"].startswith(message)
    assert [checks[name]["state"] for name in OWN] == ["ok", "ok", "warn", "fail", "fail"]
    assert any("did you mean politeness?" in problem for problem in checks["sites"]["problems"])
    runs(own_service, ago=timedelta(minutes=4))
    assert "; one was last seen 4 minutes ago; " in examined(shell)[1]["worker"]["message"]
    runs(own_service)
    assert examined(shell)[1]["worker"] == {
        "check": "worker",
        "state": "warn",
        "message": "1 worker runs, but no job, and one has been due for 3 hours; no site was scanned yet",
        "fix": "the worker's log says why",
        "problems": [],
    }
    (own_service / "mail.yaml").write_text("adress: optout@privacy.example\ndirectory: .\n")
    mailbox = examined(shell)[1]["mailbox"]
    assert mailbox["message"].endswith("line 1: address is missing")
    [unknown] = mailbox["problems"]
    assert unknown.endswith("line 1: adress is not a known key; did you mean address?")
    before = (own_service / "service.db").read_bytes()
    shell.environment["EXPOSUREKIT_SERVICE_KEY"] = base64.urlsafe_b64encode(bytes(32)).decode()
    code, checks = examined(shell)
    assert "created with another key" in checks["database"]["message"]
    shell.environment |= {"EXPOSUREKIT_DATABASE": "sqlite:///other.db", "EXPOSUREKIT_SERVICE_KEY": ""}
    code, checks = examined(shell)
    assert checks["database"]["message"] == "there is no database sqlite:///other.db"
    assert "exposurekit integrator add NAME" in checks["database"]["fix"]
    assert not (own_service / "other.db").exists()
    assert (own_service / "service.db").read_bytes() == before
    (own_service / "other.db").touch()
    assert examined(shell)[1]["database"]["message"] == "the file of sqlite:///other.db is empty"
    monkeypatch.setitem(
        sys.modules, "exposurekit.service.clock", None
    )  # as without the packages of the service
    code, checks = examined(shell)
    assert (code, checks["own service"]["fix"]) == (1, "pip install 'exposurekit[service]'")


def test_a_key_that_cannot_be_read_has_its_own_remedy(shell, own_service):
    key = own_service / "config" / "exposurekit" / "service.key"
    key.chmod(0o644)
    result = examined(shell)[1]["key"]
    assert (result["state"], result["fix"]) == ("fail", "run chmod 600 on it")
    assert result["message"].endswith("service.key is readable by others")
    key.unlink()
    key.mkdir(mode=0o700)
    result = examined(shell)[1]["key"]
    assert result["message"].endswith("service.key cannot be read or created (Is a directory)")
    assert result["fix"] == "correct its path, owner or permissions"
    other = own_service / "a: b.key"
    other.write_text("short")
    other.chmod(0o600)
    shell.environment["EXPOSUREKIT_SERVICE_KEY_FILE"] = other.name
    result = examined(shell)[1]["key"]
    assert result["message"] == "a: b.key is not the base64url form of 32 bytes"
    assert result["fix"] == "set EXPOSUREKIT_SERVICE_KEY_FILE to the key of the database"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://root:pa55word@db.example/service",
        "sqlite://root:pa55word@/service.db",
        "sqlite:///service.db?password=pa55word",
        "postgresql+psycopg://root:pa55word@127.0.0.1:9/service",
        "postgresql+psycopg://127.0.0.1:9/service?user=root&password=pa55word",
        "postgresql+psycopg://root:and@pa55word@127.0.0.1:9/service",
        "postgresql+psycopg://root:and/or?pa55word@127.0.0.1:9/service",
        "postgresql+psycopg://root:pa55word",
    ],
)
def test_no_password_of_a_database_is_printed(shell, own_service, url):
    shell.environment["EXPOSUREKIT_DATABASE"] = url
    code, checks = examined(shell)
    status = shell.here("service", "status")
    assert (code, checks["database"]["state"], status.returncode) == (1, "fail", 1)
    assert "pa55word" not in str(checks) + status.stdout + status.stderr


def test_an_old_history_warns_and_a_damaged_one_fails(shell, history_copy):
    code, checks = examined(shell)
    assert (code, checks["history"]["state"]) == (0, "warn")
    assert "3 runs, the last " in checks["history"]["message"]
    for file in history_copy.rglob("*.parquet"):
        file.write_bytes(b"not what was written")
    code, checks = examined(shell)
    assert (code, checks["history"]["state"]) == (1, "fail")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("relisted",), 3, "matched: 1 relisted listing (PeepFinder)\n"),
        (
            ("relisted", "--json"),
            3,
            '[{"condition": "relisted", "number": null, "n": 1, "where": ["PeepFinder"]}]',
        ),
        (("removed",), 0, "ok: no removed listings"),
        (("removed,stuck:30",), 3, "with the same status for 30 days"),
        (("refused,site-broken", "--since", str(DAWN.date())), 0, "ok"),
        (("score:1000",), 0, "ok"),
        (("relisted", "--since", SO_MANY_DAYS), 3, "1 relisted listing (PeepFinder)"),
        (("relisted", "--since", "yesterday"), 0, "ok: no relisted listings"),
    ],
    ids=str,
)
def test_a_check_exits_with_its_result(shell, history_copy, words, code, message):
    run = shell.here("check", "--fail-on", *words)
    assert (run.returncode, run.stderr) == (code, "")
    assert message in run.stdout


WRONG = {  # by its exit code, each command line, and what the error says
    1: {
        "check --fail-on new --history elsewhere": "There is no history in elsewhere",
        "check --fail-on new --history \udcff": "A history's path is not UTF-8",
        "export records --out t.pdf": ".csv, .xlsx, .parquet",
        "export queue --out t.parquet": ".md, .ics",
        "export work_queue --out t.md": "list use exposurekit export queue (.md, .ics, .xlsx or .csv)",
        "export users --out t.csv": "EXPOSUREKIT_BASE_URL",
    },
    2: {
        "check --fail-on sometimes": "a condition is one of: new",
        "check --fail-on new,relistd": "there is no 'relistd': a condition is one of: new, relisted,",
        "check --fail-on relistd,new": "; did you mean relisted?",
        "check --fail-on stuck": "stuck takes days: stuck:30",
        "check --fail-on stuck:soon": "stuck takes days",
        "check --fail-on stuck:-1": "stuck takes days",
        "check --fail-on score:inf": "score takes points",
        "check --fail-on relisted:3": "relisted takes no number",
        "check --fail-on collection-failed": "a condition is one of: new",
        "check --fail-on ,": "Invalid value for '--fail-on': name at least one condition",
        "check --fail-on ''": "name at least one condition",
        "check --fail-on new --since soon": "Invalid value for '--since': A time is 14d, 2w, 3mo, 1y or 36h",
        "export nothing --out t.csv": "there is no table 'nothing'; the tables are records, links, ",
        "export recrods --out t.csv": "there is no table 'recrods'; did you mean records?",
        "export listings --out t.csv": "there is no table 'listings'; did you mean records?",
        "export records --user 1 --out t.csv": "only with queue: exposurekit export queue --user ID",
        "export records --live --out t.csv": "--live adds names, which are personal data",
        "export by_site --status open --out t.csv": "by_site has no status in its rows",
        "export queue --status open --out t.md": "work_queue is a table that takes --site",
    },
}


@pytest.mark.parametrize(("line", "code"), [(line, code) for code in WRONG for line in WRONG[code]])
def test_a_wrong_check_or_export_is_explained(shell, history_copy, line, code):
    run = shell.here(*shlex.split(line))
    assert run.returncode == code
    assert WRONG[code][line] in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("table", ["records", "status_over_time", "work_queue", "score", "runs", "people"])
def test_an_exported_table_has_nothing_personal(shell, history_copy, tmp_path, table):
    run = shell.here("export", table, "--out", "table.csv")
    assert run.returncode == 0, run.stderr
    assert "Nothing personal is in it" in run.stdout
    text = (tmp_path / "table.csv").read_text()
    assert len(text.splitlines()) > 1
    assert not [value for value in kit.PERSONAL if value in text]


def test_an_exported_sheet_has_the_name_of_the_table(shell, history_copy, tmp_path):
    for table in ("by_site", "runs"):
        assert shell.here("export", table, "--out", "t.xlsx").returncode == 0
        with zipfile.ZipFile(tmp_path / "t.xlsx") as book:
            assert f'<sheet name="{table}"' in book.read("xl/workbook.xml").decode()


def test_the_whole_queue_is_written_where_requested(shell, history_copy, tmp_path):
    assert shell.here("export", "queue", "--out", "queue.md", "--personal").returncode == 0
    assert "- [ ] " in (tmp_path / "queue.md").read_text()
    assert ".md, .ics, .xlsx or .csv" in " ".join(shell.here("export", "--help").stdout.split())


@pytest.mark.parametrize("kind", ["bash", "zsh", "fish"])
def test_a_shell_completes_words(shell, kind):
    run = shell.here("completion", kind)
    assert run.returncode == 0
    assert "_EXPOSUREKIT_COMPLETE" in run.stdout
    if kind == "bash":
        subprocess.run(["bash", "-n"], input=run.stdout, text=True, check=True)


def test_each_result_is_printed_as_its_check_ends(shell):
    """The service accepts the connection and never responds."""
    with faults.running(lambda _request: faults.BlackHole()) as server:
        shell.environment |= connection(server.base_url, *CREDENTIALS)
        with shell.started("doctor") as process:
            assert process.stdout.readline().startswith("ok    versions: ")
            assert process.poll() is None
            process.kill()
            process.wait()


def test_an_installation_without_options_has_the_defaults(shell, tmp_path):
    text = shell.here("watch", "install").stdout
    assert "\nExecStart=" in text
    assert f" watch run --history {tmp_path / 'history'} --every 6h" in text
    assert "crontab -e" in text
    assert not (tmp_path / "history").exists()


@pytest.mark.parametrize(
    ("every", "schedule"),
    [
        *(("30m", "*/30 * * * *"), ("2h", "17 */2 * * *"), ("1d", "17 3 * * *")),
        *((every, None) for every in ("90s", "45m", "5h", "3d")),
    ],
)
def test_the_installation_passes_on_options_without_secrets(shell, tmp_path, every, schedule):
    """Cron runs at the interval itself, or the text says that it cannot."""
    (tmp_path / "rules.yaml").touch()
    (tmp_path / ".env").write_text("EXPOSUREKIT_BASE_URL=http://127.0.0.1:9\n")
    words = ("--receive", "8787", "--rules", "rules.yaml", "--signing-secret", "whsec_c2VjcmV0")
    text = shell.here("watch", "install", "--every", every, *words).stdout
    assert f"--every {every} --receive 8787 --host 127.0.0.1 --rules {tmp_path / 'rules.yaml'}\n" in text
    assert f"EnvironmentFile={tmp_path / '.env'}" in text
    line = f"\n{schedule} cd {tmp_path} && set -a && . {tmp_path / '.env'} && "
    assert (line in text) is (schedule is not None)
    assert (f"Cron cannot collect every {every}" in text) is (schedule is None)
    assert ("only collects: no webhooks, notifications or reports" in text) is (schedule is not None)
    assert "c2VjcmV0" not in text


def test_a_cron_line_has_the_options_of_a_collection(shell):
    words = ("--record-key", "reference", "--auto-compact", "off")
    [line] = [
        line
        for line in shell.here("watch", "install", *words).stdout.splitlines()
        if " collect --history " in line
    ]
    assert f" {' '.join(words)} >>collect.log" in line


def test_missing_rules_are_not_installed(shell):
    run = shell.here("watch", "install", "--rules", "nowhere.yaml")
    assert (run.returncode, run.stdout) == (1, "")
    assert "--rules: no such file: nowhere.yaml" in error_of(run)


def test_rules_are_read_before_a_watch_begins(shell, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("send_to: {me: 'nosuch://pa55word'}\nrules: [{when: new, send: me}]")
    rules.chmod(0o600)
    shell.environment |= connection("http://127.0.0.1:9", *CREDENTIALS)
    for words in (("notifications", "test"), ("watch", "run")):
        run = shell.here(*words, "--rules", str(rules))
        assert run.returncode == 1
        assert "send_to, me: Apprise does not support this address" in error_of(run)
        assert "pa55word" not in run.stderr
