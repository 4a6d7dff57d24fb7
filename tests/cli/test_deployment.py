"""What --install-help prints, done as it says: the preparation, the unit as systemd would run it, and the containers.

There is no systemd and no container runtime where the tests run. So the user and the directories are replaced: by a user
without privileges, and by directories that are empty before.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
import pytest
import yaml
from support import postgres
from support.ports import free_port
from support.shell import TIMEOUT_S, Shell, ended, eventually, killed_at_end, line_with, listening
from support.site_definitions import site_definition

from exposurekit.cli.deployment_files import ENVIRONMENT, SETTINGS, STATE, UID, USER
from exposurekit.cli.systemd import program

pytestmark = pytest.mark.long  # processes, and an installation
ROOT = Path(__file__).parents[2]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # as systemd sets it
CHECKOUT = {"PYTHONPATH": os.environ["PYTHONPATH"]} if os.environ.get("PYTHONPATH") else {}


def as_user(uid):
    """The words that run a command as a user without any privilege; for root also without those over files."""
    if os.getuid():
        return []
    user = [f"--reuid={uid}", f"--regid={uid}"] if uid else []
    return ["setpriv", *user, "--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


def service_uid(directory):
    """A user of its own, if the tests are run by root, and others can run its Python and enter the directory."""
    if os.getuid():
        return os.getuid()
    words = ["sh", "-c", f"cd {shlex.quote(str(directory))} && {shlex.quote(str(program()))} --version"]
    run = subprocess.run([*as_user(UID), *words], capture_output=True, check=False)
    return 0 if run.returncode else UID


@dataclass
class Machine:
    """A machine whose directories are within one directory."""

    root: Path
    uid: int = field(init=False)

    def __post_init__(self):
        self.uid = service_uid(self.root)

    def inside(self, text):
        """Replace the user and the directories of a text; those of /run/secrets are files beside compose.yaml."""
        places = {STATE: "state", SETTINGS: "settings", "/source": "source", "/run/secrets": "secrets"}
        for there, here in places.items():
            text = text.replace(there, str(self.root / here))
        # A unit and its files name the user where the commands of the preparation need an id.
        return re.sub(rf"(-o|chown) ({USER}|{UID})\b", rf"\1 {self.uid}", text)

    def as_root(self, commands):
        """Run commands in one shell; return those that failed."""
        commands = [line for line in commands if not line.startswith("useradd ")]
        script = "\n".join(f"{self.inside(line)} || echo {number}" for number, line in enumerate(commands))
        run = subprocess.run(["sh", "-c", script], cwd=self.root, capture_output=True, text=True, check=False)
        return [commands[int(number)] for number in run.stdout.split()]

    @contextmanager
    def started(self, words, *, directory, environment, files_max=None):
        """A process of the service's user, with nothing of this one's environment."""
        limited = ["sh", "-c", f'ulimit -n {files_max}; exec "$@"', "sh"] if files_max else []
        environment = {
            "PATH": PATH,
            "HOME": str(self.root / "state"),
            "USER": USER,
            **CHECKOUT,
            **environment,
        }
        with killed_at_end(
            [*as_user(self.uid), *limited, *words],
            cwd=directory,
            env=environment,
            umask=0o077,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            yield process

    def run(self, words, **options):
        with self.started(words, **options) as process:
            out, err = process.communicate(timeout=TIMEOUT_S)
            assert process.returncode == 0, err
            return out


@pytest.fixture
def machine():
    with tempfile.TemporaryDirectory(prefix="exposurekit-machine-") as directory:
        Path(directory).chmod(0o755)  # other users may enter, as in /var/lib
        yield Machine(Path(directory))


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


def printed(shell, *words):
    """The printed files by name; `first` are the commands before them."""
    run = shell.here(*words, "--install-help")
    assert (run.returncode, run.stderr) == (0, "")
    parts = re.split(r"^# --- (\S+?),? .*---\n", run.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)) | {"first": parts[0]}


def commented(text):
    """The commands in comments."""
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    return [line for line in lines if re.match(r"useradd|install|mkdir|chown|\(", line)]


def settings_of(unit):
    """The settings of a unit; of one that is repeated, the last."""
    return dict(re.findall(r"^(\w+)=(.*)$", unit, re.MULTILINE))


def variables_of(text):
    """The variables of an environment file, as systemd reads it."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {name: "".join(shlex.split(value)) for name, _, value in (line.partition("=") for line in lines)}


def answers(process):
    base_url = listening(process)
    response = httpx.get(f"{base_url}/health")
    return response.status_code == 200


def snapshot(directory):
    return {file: file.stat().st_mtime_ns for file in directory.rglob("*") if file.is_file()}


@pytest.mark.parametrize("has_run_before", [False, True], ids=["a new service", "a copied service"])
@pytest.mark.parametrize("command", ["serve", "worker"])
def test_the_printed_unit_starts_answers_and_stops(machine, shell, command, has_run_before):
    if has_run_before:
        run = shell.here("integrator", "add", "acme", "--attested-by", "Jo Doe")
        assert run.returncode == 0
    port = ["--port", str(free_port())] if command == "serve" else []
    files = printed(shell, command, *port)
    *commands, new_key = commented(files["first"])
    copies = [line for line in commands if re.match(r"install -o \S+ -m 600", line)]
    # What there is not is not copied; a copied key is not replaced.
    assert machine.as_root([*commands, new_key]) == ([new_key] if has_run_before else copies)
    (machine.root / "settings/sites/seekfolk.yaml").write_text(site_definition())
    environment = machine.inside(files[ENVIRONMENT])
    (machine.root / "settings/exposurekit.env").write_text(environment)
    unit = settings_of(machine.inside(files[f"/etc/systemd/system/exposurekit-{command}.service"]))
    assert unit["User"] == USER
    place = {
        "directory": unit["WorkingDirectory"],
        "environment": variables_of(Path(unit["EnvironmentFile"]).read_text()),
    }
    if not has_run_before:
        [first] = re.findall(
            rf"^# sudo -u {USER} (sh -c .+)$",
            machine.inside(files[f"/etc/systemd/system/exposurekit-{command}.service"]),
            re.MULTILINE,
        )
        created = machine.run(
            shlex.split(first.replace("NAME", "acme").replace("WHO", "DPO")), directory="/", environment={}
        )
        assert "EXPOSUREKIT_API_SECRET=" in created
    settings = snapshot(machine.root / "settings")
    words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(unit["ExecStart"])]
    with machine.started(words, files_max=int(unit["LimitNOFILE"]), **place) as process:
        if command == "serve":
            assert answers(process)
        else:
            assert "sites=1" in line_with(process, "worker=running")
        assert "fault" not in ended(process, signal.SIGTERM)
    assert snapshot(machine.root / "settings") == settings
    written = [file for file in (machine.root / "state").rglob("*") if file.is_file()]
    assert machine.root / "state/service.db" in written
    for file in written:
        assert (file.stat().st_uid, file.stat().st_mode & 0o077) == (machine.uid, 0), file
    assert [str(machine.root / "state")] == shlex.split(unit["ReadWritePaths"])
    listed = machine.run([str(program()), "integrator", "list"], **place)
    assert listed.startswith("acme ")


@contextmanager
def database_server(document, password):
    """The database of a compose file, on a loopback port, which it yields."""
    names = document["services"]["database"]["environment"]
    role, name = names["POSTGRES_USER"], names["POSTGRES_DB"]
    with postgres.a_server() as server:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'")
            connection.execute(f"CREATE DATABASE {name} OWNER {role}")
        port = free_port()
        postgres.listen(server, port)
        yield port


def installed(machine, containerfile):
    """Do what a Containerfile says; return the program."""
    (machine.root / "state").mkdir(mode=0o755)
    environment = machine.root / "venv"
    venv.create(environment, with_pip=True)
    [packages] = environment.glob("lib/python*/site-packages")
    # What the tests have need not be installed again; the package itself is, as this one's editable is not found there.
    (packages / "installed.pth").write_text(
        "\n".join(path for path in sys.path if path.endswith("site-packages"))
    )
    variables = {"PATH": f"{environment}/bin:{PATH}", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    for line in re.sub(r"\\\n", "", containerfile).splitlines():
        instruction, _, words = line.partition(" ")
        if instruction == "COPY":
            *sources, target = shlex.split(machine.inside(words))
            for source in sources:
                copy(ROOT / source, Path(target), into=target.endswith("/"))
        elif instruction == "RUN" and not words.startswith("useradd "):
            run = ["sh", "-ec", machine.inside(words)]
            done = subprocess.run(run, env=variables, cwd="/", capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    [entrypoint] = re.findall(r'^ENTRYPOINT \["(\S+)"\]$', containerfile, re.MULTILINE)
    return shutil.which(entrypoint, path=variables["PATH"])


def copy(source, target, *, into):
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        return
    target.mkdir(parents=True, exist_ok=True) if into else target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


@dataclass
class Containers:
    """The services of a compose file that have the image, as processes of a machine."""

    machine: Machine
    command: str
    document: dict
    host: str  # and port, of the database
    port: str = field(default_factory=lambda: str(free_port()))

    def inside(self, text):
        return self.machine.inside(text).replace("8642", self.port).replace("@database/", f"@{self.host}/")

    def place(self):
        variables = self.document["services"]["serve"]["environment"]
        environment = {name: self.inside(value) for name, value in variables.items()}
        return {"directory": self.machine.root / "state", "environment": environment | {"PYTHONPATH": ""}}

    def started(self, name):
        words = map(self.inside, self.document["services"][name]["command"])
        return self.machine.started([self.command, *words], **self.place())

    def run(self, *words):
        return self.machine.run([self.command, *words], **self.place())

    def is_healthy(self):
        [_, _, *words] = self.document["services"]["serve"]["healthcheck"]["test"]
        return self.machine.run([sys.executable, *map(self.inside, words)], **self.place()) == ""


def mount(machine, document, host):
    """Put the secrets and the definitions where the containers have them."""
    beside = (machine.root / "secrets").rename(machine.root / "beside")
    (machine.root / "secrets").mkdir()
    for name, secret in document["secrets"].items():
        (beside / Path(secret["file"]).name).rename(machine.root / "secrets" / name)
    pgpass = machine.root / "secrets/pgpass"
    pgpass.write_text(pgpass.read_text().replace("database:5432", host))
    (machine.root / "settings").mkdir()
    (machine.root / "sites").rename(machine.root / "settings/sites")
    (machine.root / "settings/sites/seekfolk.yaml").write_text(site_definition())


def test_the_printed_containers_start_answer_and_stop(machine, shell):
    """The image is installed into a fresh environment; the database's host is this machine."""
    files = printed(shell, "serve")
    composed = files["compose.yaml"]
    document = yaml.safe_load(composed)
    command = installed(machine, files["Containerfile"])
    assert not (machine.root / "source").exists()
    assert machine.as_root(commented(composed)) == []
    password = (machine.root / "secrets/postgres_password").read_text().strip()
    with database_server(document, password) as port:
        mount(machine, document, f"127.0.0.1:{port}")
        containers = Containers(machine, command, document, f"127.0.0.1:{port}")
        before = snapshot(machine.root)
        (machine.root / "state").chmod(0o555)  # read_only: true
        with containers.started("serve") as serve, containers.started("worker") as worker:
            assert "sites=1" in line_with(worker, "worker=running")
            line_with(serve, "listening=")
            assert containers.is_healthy()
            [add] = re.findall(r"^# and: +docker compose run --rm serve (.+)$", composed, re.MULTILINE)
            assert "EXPOSUREKIT_API_SECRET=" in containers.run(*shlex.split(add))
            eventually(lambda: "1 worker runs" in containers.run("service", "status"))
            for process in (serve, worker):
                assert "fault" not in ended(process, signal.SIGTERM)
        assert snapshot(machine.root) == before
