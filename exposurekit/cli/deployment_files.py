"""Files that install the service, with systemd or in containers: what `serve --install-help` and `worker --install-help` print.

The files are examples to read and adapt. Secrets are in files of their own, never in the environment or on a command line.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from exposurekit.cli.systemd import program
from exposurekit.system import paths

USER, UID = "exposurekit", 10001
STATE, SETTINGS = "/var/lib/exposurekit", "/etc/exposurekit"
KEY_FILE, ENVIRONMENT = f"{SETTINGS}/service.key", f"{SETTINGS}/exposurekit.env"
DEFAULT_DATABASE = "sqlite:///service.db"
_SQLITE = "sqlite:///"
# As SQLAlchemy reads it: up to the first @, whatever is before it; then what follows an @ that was not escaped.
_PASSWORD = re.compile(r"(?<=://)([^:/@]*):[^@]*@(?:[^/?]*@)?")
# Parameters of libpq without a secret. Others, such as sslpassword, are left out.
_CONNECTION_PARAMETERS = {
    *("host", "hostaddr", "port", "user", "dbname", "passfile", "application_name", "connect_timeout"),
    *("channel_binding", "require_auth", "load_balance_hosts", "target_session_attrs", "tcp_user_timeout"),
    *("keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval"),
    *("sslmode", "sslnegotiation", "sslrootcert", "sslcert", "sslcertmode", "sslkey", "sslcrl", "sslsni"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version", "gssencmode", "krbsrvname"),
}
# These are in the environment file, or belong to the first start.
_NOT_IN_A_UNIT = {"database", "key_file", "install_help", "create", "sites_directory"}
_CHOSEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
NEW_KEY = "head -c 32 /dev/urandom | base64 | tr '+/' '-_'"
_PREPARATION = """# As root, once: the user, the key (keep a copy elsewhere) and the directory of the site definitions.
# useradd --system --home-dir {state} --shell /usr/sbin/nologin {user}
# install -d -o {user} -m 700 {state} && install -d -m 755 {settings} {sites}
{copies}# {new_key_file}chown {user} {key_file}
"""
# With `set -C` the shell overwrites no file: with another key, the database cannot be read.
_NEW_KEY_FILE = "(umask 077; set -C; {new_key} >{key_file}) && "
_COPIES = (
    "# If you have run the service before, stop it and copy its files; a copied key is not replaced below.\n"
)
_COPY = "# install -o {user} -m 600 {source} {target}\n"
_ENVIRONMENT = """# --- {environment} ---
# No secrets: the key and, for PostgreSQL, the password are in files that only {user} can read.
# Parameters of the URL that may be secret are left out.
EXPOSUREKIT_DATABASE={database}
EXPOSUREKIT_SERVICE_KEY_FILE={key_file}
EXPOSUREKIT_SITES={quoted_sites}
# The settings of the mailbox. {user} must be able to read the file, and the password file that it names.
{mail}
# A line database:port:name:user:password, as libpq reads it; chmod 600.
PGPASSFILE={settings}/pgpass
"""
_UNIT = """# --- /etc/systemd/system/exposurekit-{command}.service ---
[Unit]
Description=exposurekit {command}: {summary}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
User={user}
WorkingDirectory={state}
EnvironmentFile={environment}
ExecStart={words}
Restart=always
RestartSec=5
# Time to finish requests and to release jobs; nothing is lost if it is shorter.
TimeoutStopSec=60
LimitNOFILE=8192
# With --processes, a process that the kernel kills for lack of memory is replaced; the others keep running.
OOMPolicy=continue
UMask=0077
ReadWritePaths={writable}
ProtectSystem=strict
ProtectHome=read-only
ProtectProc=invisible
ProtectClock=true
ProtectHostname=true
ProtectControlGroups=true
ProtectKernelLogs=true
ProtectKernelModules=true
ProtectKernelTunables=true
PrivateDevices=true
PrivateTmp=true
NoNewPrivileges=true
CapabilityBoundingSet=
LockPersonality=true
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target

# Every other command needs the same environment and user. The first one creates the database:
# sudo -u {user} sh -c 'set -a; . {environment}; {program} integrator add NAME --attested-by WHO'
# then: systemctl daemon-reload && systemctl enable --now exposurekit-{command}
"""
_CONTAINERFILE = """# --- Containerfile, in a checkout of exposurekit ---
FROM python:3.13-slim
RUN useradd --system --uid {uid} --home-dir {state} --create-home {user}
# Not all of the directory: the secrets would be in the image.
COPY pyproject.toml README.md /source/
COPY exposurekit /source/exposurekit
RUN pip install --no-cache-dir '/source[service,postgres]' && rm -r /source
USER {uid}
WORKDIR {state}
ENTRYPOINT ["exposurekit"]
"""
_COMPOSE = """# --- compose.yaml, beside it ---
# Once, as root, beside this file: the secrets (keep a copy of service.key elsewhere) and the directory of the definitions.
# mkdir -p sites secrets && chmod 700 secrets && umask 077
# (set -C; {new_key} >secrets/service.key)
# (set -C; head -c 24 /dev/urandom | base64 | tr '+/' '-_' >secrets/postgres_password)
# (set -C; echo "database:5432:exposure:exposure:$(cat secrets/postgres_password)" >secrets/pgpass)
# chown {uid} secrets/service.key secrets/pgpass
# then: docker compose up --detach --build
# and:  docker compose run --rm serve integrator add acme --no-attestation
name: exposurekit

x-exposurekit: &exposurekit
  build: {{context: ., dockerfile: Containerfile}}
  image: exposurekit
  restart: unless-stopped
  environment:
    EXPOSUREKIT_DATABASE: postgresql+psycopg://exposure@database/exposure
    EXPOSUREKIT_SERVICE_KEY_FILE: /run/secrets/service_key
    PGPASSFILE: /run/secrets/pgpass
  secrets: [service_key, pgpass]
  depends_on:
    database: {{condition: service_healthy}}
  read_only: true
  tmpfs: [/tmp]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]

services:
  database:
    image: postgres:18
    restart: unless-stopped
    environment:
      POSTGRES_USER: exposure
      POSTGRES_DB: exposure
      POSTGRES_PASSWORD_FILE: /run/secrets/postgres_password
    secrets: [postgres_password]
    volumes: ["database:/var/lib/postgresql"]
    healthcheck:
      test: [CMD, pg_isready, --username, exposure, --dbname, exposure]
      interval: 5s
      retries: 20
  serve:
    <<: *exposurekit
    # Reached through a TLS proxy on this machine. All its clients share one address, and the limits of an address.
    command: [serve, --no-worker, --host, 0.0.0.0, --port, "8642"{processes}]
    ports: ["127.0.0.1:8642:8642"]
    healthcheck:
      test: [CMD, python, -c, "import urllib.request as r; r.urlopen('http://127.0.0.1:8642/health', timeout=5)"]
      interval: 30s
  worker:
    <<: *exposurekit
    # With a mailbox, append --mail, {settings}/mail/mail.yaml and mount ./mail:{settings}/mail:ro, with the password file.
    command: [worker, --sites, {sites}]
    volumes: ["./sites:{sites}:ro"]

secrets:
  service_key: {{file: ./secrets/service.key}}
  pgpass: {{file: ./secrets/pgpass}}
  postgres_password: {{file: ./secrets/postgres_password}}

volumes:
  database: {{}}
"""

install_help_option = click.option(
    "--install-help",
    is_flag=True,
    help="Print a systemd unit with these options, a Containerfile and a compose file with PostgreSQL, and exit.",
)


def install_instructions(context: click.Context) -> str:
    """Return the files for a command with the options that it was called with."""
    command, options = str(context.command.name), context.params
    database, state = _database(options["database"])
    mail_file: Path | None = options["mail_file"]
    mail = f"# EXPOSUREKIT_MAIL={SETTINGS}/mail.yaml"
    if mail_file is not None:
        mail = f"EXPOSUREKIT_MAIL={shlex.quote(str(mail_file))}"
    sites = (
        f"{SETTINGS}/sites"
        if options["sites_directory"] is None
        else str(options["sites_directory"].resolve())
    )
    words = [str(program()), command, *_words(context)]
    if not options.get("no_worker"):
        words += ["--sites", sites]
    key_file = Path(KEY_FILE) if options["key_file"] is None else options["key_file"].resolve()
    quoted_key_file = shlex.quote(str(key_file))
    new_key_file = _NEW_KEY_FILE.format(new_key=NEW_KEY, key_file=quoted_key_file)
    names = {
        "command": command,
        "summary": "API of the service" if command == "serve" else "scans, removals and webhook deliveries",
        "words": " ".join(_escaped(word) for word in words),
        "writable": " ".join(map(_escaped, [state, *_mail_directory(mail_file)])),
        "program": shlex.quote(str(program())),
        "database": shlex.quote(database),
        "key_file": quoted_key_file,
        "copies": _copies(options),
        "quoted_sites": shlex.quote(sites),
        "mail": mail,
        "new_key_file": "" if _exists(key_file) else new_key_file,
        "sites": sites,
        "environment": ENVIRONMENT,
        "settings": SETTINGS,
        "state": STATE,
        "user": USER,
        "uid": UID,
        "new_key": NEW_KEY,
    }
    processes = options.get("processes", 1)
    in_a_container = names | {
        "sites": f"{SETTINGS}/sites",
        "processes": f', --processes, "{processes}"' if processes > 1 else "",
    }
    files = (_PREPARATION, _ENVIRONMENT, _UNIT)
    return "\n".join(
        [
            *(text.format_map(names) for text in files),
            *(text.format_map(in_a_container) for text in (_CONTAINERFILE, _COMPOSE)),
        ]
    )


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except PermissionError:  # the commands for root see it
        return False


def _copies(options: Mapping[str, Any]) -> str:
    """Return the commands that copy the key and the database of a first try to where the unit expects them."""
    copies = {}
    if options["key_file"] is None:
        copies[paths.config_dir() / "service.key"] = KEY_FILE
    if options["database"] == DEFAULT_DATABASE:
        copies[Path("service.db").resolve()] = f"{STATE}/service.db"
    lines = [
        _COPY.format(user=USER, source=shlex.quote(str(source)), target=target)
        for source, target in copies.items()
    ]
    return "".join([_COPIES, *lines]) if lines else ""


def _mail_directory(mail_file: Path | None) -> list[str]:
    """Return the directory of messages that settings of a mailbox name, in which the service deletes what it stored."""
    from exposurekit.service.mail import settings

    # The files to print are for another machine, perhaps, on which the settings are.
    directory = settings.load(mail_file).directory if mail_file is not None and mail_file.exists() else None
    return [] if directory is None else [str(directory.resolve())]


def _database(url: str) -> tuple[str, str]:
    """Return the URL for the environment file, without secrets, and the directory that the service writes to."""
    if url == DEFAULT_DATABASE:
        return f"{_SQLITE}{STATE}/service.db", STATE
    if url.startswith(_SQLITE):
        file = Path(url.removeprefix(_SQLITE)).resolve()
        return f"{_SQLITE}{file}", str(file.parent)
    address, _, query = _PASSWORD.sub(r"\1@", url).partition("?")
    parameters = [one for one in query.split("&") if one.partition("=")[0] in _CONNECTION_PARAMETERS]
    return "?".join([address, "&".join(parameters)]).removesuffix("?"), STATE


def _words(context: click.Context) -> Iterator[str]:
    """Yield the options of the command line again."""
    for param in context.command.params:
        name = str(param.name)
        is_option = isinstance(param, click.Option) and name not in _NOT_IN_A_UNIT
        if not is_option or context.get_parameter_source(name) not in _CHOSEN:
            continue
        value = context.params[name]
        if isinstance(value, bool):
            yield param.opts[0]
            continue
        for one in value if isinstance(value, tuple) else (value,):
            yield param.opts[0]
            yield str(one)


def _escaped(word: str) -> str:
    """Quote a word for a unit, where % and $ have a meaning."""
    word = word.replace("%", "%%").replace("$", "$$")
    return word if shlex.quote(word.replace("$", "")) == word.replace("$", "") else f'"{_in_quotes(word)}"'


def _in_quotes(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"')
