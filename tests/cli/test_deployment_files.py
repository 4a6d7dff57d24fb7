"""The files that --install-help prints: checked by systemd, by a YAML parser, by a shell and by the commands themselves."""

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from exposurekit.cli.deployment_files import KEY_FILE, NEW_KEY, SETTINGS, STATE, USER
from exposurekit.cli.main import cli
from exposurekit.cli.systemd import program
from exposurekit.service.storage.encryption import KEY_FILE_VARIABLE, load_key

ROOT = Path(__file__).parents[2]
COMMANDS = ("serve", "worker")


def files(shell, command, *words):
    """The printed files by name."""
    before = [*shell.directory.iterdir()]
    run = shell.here(command, *words, "--install-help")
    assert (run.returncode, run.stderr) == (0, "")
    assert [*shell.directory.iterdir()] == before  # it only prints
    parts = re.split(r"^# --- (\S+?),? .*---\n", run.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)) | {"first": parts[0]}


def unit_of(printed, command):
    return printed[f"/etc/systemd/system/exposurekit-{command}.service"]


def words_of(unit):
    [line] = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)]


def options_of(words):
    """Parse a command line as the command would; raises for an unknown option or a wrong value."""
    command = cli.commands[words[0]]
    return command.make_context(words[0], list(words[1:])).params


def unit_of_watch(shell):
    run = shell.here("watch", "install", "--receive", "8787")
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout.partition("\n# 2. ")[0]


@pytest.mark.long
@pytest.mark.parametrize("command", [*COMMANDS, "watch"])
def test_systemd_accepts_the_unit(shell, command):
    """Where the gate runs there is systemd-analyze, or this fails."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None and not os.environ.get("CI"):
        pytest.skip("there is no systemd-analyze")
    assert analyze is not None
    text = unit_of_watch(shell) if command == "watch" else unit_of(files(shell, command), command)
    file = shell.directory / f"exposurekit-{command}.service"
    # The program's file may be missing here.
    file.write_text(text.replace(str(program()), "/bin/true"))
    run = subprocess.run([analyze, "verify", "--man=no", file], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    run = subprocess.run(
        [analyze, "security", "--offline=true", "--threshold=25", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout  # 2.5 of 10: exposed little


def test_the_unit_has_the_options_that_were_given(shell):
    words = [
        "--host",
        "10.0.0.5",
        "--port",
        "9000",
        "--no-worker",
        "--metrics-port",
        "9464",
        "--log-format",
        "json",
        "--processes",
        "3",
    ]
    words += ["--trusted-proxy", "10.0.0.1", "--trusted-proxy", "10.1.0.0/16", "--requests-per-second", "0"]
    printed = files(shell, "serve", *words)
    command = yaml.safe_load(printed["compose.yaml"])["services"]["serve"]["command"]
    assert options_of(command)["processes"] == 3
    unit = unit_of(printed, "serve")
    assert words_of(unit)[:2] == [str(program()), "serve"]
    given = options_of(["serve", *words])
    assert options_of(words_of(unit)[1:]) == given
    search = "http://127.0.0.1:8888/search?a=%20&b=$x y"
    unit = unit_of(files(shell, "worker", "--search-engine", search, "--sites", "my sites"), "worker")
    given = options_of(words_of(unit)[1:])
    assert (given["search_engine"], given["sites_directory"]) == (search, shell.directory / "my sites")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_environment_names_variables_that_are_read(shell, command):
    printed = files(shell, command)[f"{SETTINGS}/exposurekit.env"]
    run = subprocess.run(
        ["sh", "-c", f"set -a; {printed}\nenv"], capture_output=True, text=True, check=True, env={}
    )
    values = dict(line.split("=", 1) for line in run.stdout.splitlines())
    assert values["EXPOSUREKIT_DATABASE"] == f"sqlite:///{STATE}/service.db"
    assert values[KEY_FILE_VARIABLE] == KEY_FILE
    read = {option.envvar for option in cli.commands[command].params} | {"PGPASSFILE", "PWD", "_", "SHLVL"}
    assert values["EXPOSUREKIT_SITES"] == f"{SETTINGS}/sites"
    assert values.keys() <= read
    assert f"EnvironmentFile={SETTINGS}/exposurekit.env\n" in unit_of(files(shell, command), command)


@pytest.mark.parametrize(
    ("mailbox", "deletes"), [("directory: incoming mail", True), ("imap: {host: a, user: b}", False)]
)
def test_the_unit_may_delete_mail_in_its_directory(shell, mailbox, deletes):
    """The service deletes there what it has stored, and everything else is read-only."""
    file = shell.directory / "mail.yaml"
    file.write_text(f"address: optout@privacy.example\n{mailbox}\n")
    printed = files(shell, "worker", "--mail", "mail.yaml")
    incoming = f' "{shell.directory}/incoming mail"' if deletes else ""
    assert f"\nReadWritePaths={STATE}{incoming}\n" in unit_of(printed, "worker")
    assert f"\nEXPOSUREKIT_MAIL={file}\n" in printed[f"{SETTINGS}/exposurekit.env"]


def test_the_mail_settings_need_not_exist_yet(shell):
    printed = files(shell, "worker", "--mail", "later.yaml")
    assert f"\nEXPOSUREKIT_MAIL={shell.directory / 'later.yaml'}\n" in printed[f"{SETTINGS}/exposurekit.env"]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_command_of_the_unit_is_accepted(file_operator, command):
    [words] = re.findall(
        r" (integrator add .+)'$", unit_of(files(file_operator, command), command), re.MULTILINE
    )
    assert file_operator.here(*words.split()).returncode == 0


def test_an_existing_key_and_database_are_copied_first(shell):
    """With a new key, the database of somebody who has run the service cannot be read."""
    lines = files(shell, "serve")["first"].splitlines()
    key, database = (line.split()[-2:] for line in lines if line.startswith("# install -o"))
    assert key == [str(shell.directory / "config/exposurekit/service.key"), KEY_FILE]
    assert database == [str(shell.directory / "service.db"), f"{STATE}/service.db"]
    options = ("--key-file", "own.key", "--database", "sqlite:///own.db")  # used where they are
    assert "install -o exposurekit -m 600" not in files(shell, "serve", *options)["first"]
    creation = next(n for n, line in enumerate(lines) if NEW_KEY in line)
    assert creation > max(n for n, line in enumerate(lines) if line.startswith("# install -o"))


@pytest.mark.parametrize(
    ("url", "expected", "writable"),
    [
        (
            "postgresql+psycopg://jo:hunter2@db:5433/exposure",
            "postgresql+psycopg://jo@db:5433/exposure",
            STATE,
        ),
        ("postgresql+psycopg://db/x?user=jo&password=hunter2", "postgresql+psycopg://db/x?user=jo", STATE),
        (
            "postgresql+psycopg://jo@db/x?sslmode=verify-full&sslkey=/etc/db.key&sslpassword=hunter2&p%61ssword=hunter2",
            "postgresql+psycopg://jo@db/x?sslmode=verify-full&sslkey=/etc/db.key",
            STATE,
        ),
        ("postgresql+psycopg://jo:a/hunter2?hunter2#hunter2@db/x", "postgresql+psycopg://jo@db/x", STATE),
        (
            "postgresql+psycopg://jo:a@hunter2@db/x?host=/run/a@b",
            "postgresql+psycopg://jo@db/x?host=/run/a@b",
            STATE,
        ),
        ("postgresql+psycopg://jo@db/x?password=a#hunter2", "postgresql+psycopg://jo@db/x", STATE),
        ("sqlite:////srv/my data/a.db", "sqlite:////srv/my data/a.db", '"/srv/my data"'),
    ],
    ids=[
        "before the host",
        "in the query",
        "other secrets in the query",
        "unescaped delimiters",
        "an unescaped @",
        "a fragment",
        "a file",
    ],
)
def test_a_database_is_named_without_its_secrets(shell, url, expected, writable):
    printed = files(shell, "serve", "--database", url)
    assert f"EXPOSUREKIT_DATABASE={shlex.quote(expected)}\n" in printed[f"{SETTINGS}/exposurekit.env"]
    assert f"\nReadWritePaths={writable}\n" in unit_of(printed, "serve")
    assert "hunter2" not in json.dumps(printed)


@pytest.fixture
def compose(shell):
    text = files(shell, "serve")["compose.yaml"]
    return text, yaml.safe_load(text)


def test_the_containers_run_commands_that_exist(compose, tmp_path):
    services = compose[1]["services"]
    assert set(services) == {"database", "serve", "worker"}
    (tmp_path / "sites").mkdir()
    serve, worker = (options_of(services[name]["command"]) for name in COMMANDS)
    assert (serve["no_worker"], serve["host"]) == (True, "0.0.0.0")  # noqa: S104  in a container
    [published] = services["serve"]["ports"]
    assert published == f"127.0.0.1:{serve['port']}:{serve['port']}"
    assert f"127.0.0.1:{serve['port']}/health" in services["serve"]["healthcheck"]["test"][-1]
    [mounted] = services["worker"]["volumes"]
    assert mounted == f"./sites:{worker['sites_directory']}:ro"


def test_the_containers_get_secrets_as_files(compose):
    document = compose[1]
    for name, one in document["services"].items():
        assert set(one["secrets"]) <= document["secrets"].keys()
        for variable, value in one["environment"].items():
            is_secret = "KEY" in variable or "PASS" in variable
            assert not is_secret or value in {f"/run/secrets/{secret}" for secret in one["secrets"]}, variable
        if name != "database":
            assert (one["read_only"], one["cap_drop"]) == (True, ["ALL"])
            variables = {option.envvar for option in cli.commands[name].params}
            assert one["environment"].keys() <= variables | {"PGPASSFILE"}
            assert one["depends_on"]["database"]["condition"] == "service_healthy"
    assert document["services"]["database"]["environment"]["POSTGRES_PASSWORD_FILE"]
    url = document["services"]["serve"]["environment"]["EXPOSUREKIT_DATABASE"]
    assert url == "postgresql+psycopg://exposure@database/exposure"


def secrets_script(compose_file):
    """The commands of the comments; only the change of the owner needs root."""
    lines = [line.removeprefix("# ") for line in compose_file.splitlines() if line.startswith("# ")]
    script = [line for line in lines if line.startswith(("mkdir", "(set"))]
    assert len(script) == 4
    return "\n".join(script)


def test_the_commands_of_the_comments_create_the_secrets(compose, tmp_path):
    text, document = compose
    subprocess.run(["sh", "-ec", secrets_script(text)], cwd=tmp_path, check=True)
    for secret in document["secrets"].values():
        file = tmp_path / secret["file"]
        assert file.stat().st_mode & 0o077 == 0
        assert file.read_text().strip()
    assert len(load_key(tmp_path / "secrets/service.key", create=False)) == 32
    password = (tmp_path / "secrets/postgres_password").read_text().strip()
    pgpass = (tmp_path / "secrets/pgpass").read_text().strip()
    assert pgpass.split(":") == ["database", "5432", "exposure", "exposure", password]
    assert len(password) == 32


def test_repeated_commands_of_the_comments_keep_the_secrets(compose, tmp_path):
    text, document = compose
    files = [tmp_path / secret["file"] for secret in document["secrets"].values()]
    written = []
    for _ in range(2):
        run = subprocess.run(
            ["sh", "-c", secrets_script(text)], cwd=tmp_path, capture_output=True, check=False
        )
        written.append([file.read_text() for file in files])
    assert written[0] == written[1]
    assert len(run.stderr.splitlines()) == len(files)  # each refusal is visible
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0


def test_the_image_has_the_package_and_no_secret(shell):
    lines = files(shell, "worker")["Containerfile"].splitlines()
    copied = {word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [package] = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert copied == {"pyproject.toml", project["project"]["readme"], package}
    [extras] = re.findall(r"/source\[([a-z,]+)\]", "\n".join(lines))
    assert set(extras.split(",")) <= project["project"]["optional-dependencies"].keys()
    assert 'ENTRYPOINT ["exposurekit"]' in lines
    assert "exposurekit" in project["project"]["scripts"]
    [uid] = [line.split()[1] for line in lines if line.startswith("USER")]
    assert f"--uid {uid} " in "\n".join(lines)
    assert f"chown {uid} secrets/service.key" in files(shell, "worker")["compose.yaml"]


def key_command(printed):
    """The last command of the preparation, without the change of the owner, which needs root."""
    creation, _, change_of_owner = printed["first"].strip().splitlines()[-1].rpartition("chown ")
    return creation.removeprefix("# ").removesuffix(" && "), change_of_owner


@pytest.mark.parametrize("command", COMMANDS)
def test_repeated_preparations_keep_the_first_key(shell, command):
    """Also if the commands were printed before there was a key."""
    file = shell.directory / "service key"
    creation, change_of_owner = key_command(files(shell, command, "--key-file", str(file)))
    assert change_of_owner == f"{USER} '{file}'"
    subprocess.run(["sh", "-ec", creation], check=True)
    key = load_key(file, create=False)
    assert len(key) == 32
    assert file.stat().st_mode & 0o077 == 0
    assert subprocess.run(["sh", "-ec", creation], capture_output=True, check=False).returncode
    assert load_key(file, create=False) == key


@pytest.mark.parametrize("command", COMMANDS)
def test_no_key_is_created_beside_an_existing_one(shell, command):
    assert NEW_KEY in key_command(files(shell, command))[0]
    file = shell.directory / "service.key"
    file.write_text("a key")
    assert key_command(files(shell, command, "--key-file", str(file))) == ("", f"{USER} {file}")
