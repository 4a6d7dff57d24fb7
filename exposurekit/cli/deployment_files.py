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

from exposurekit.cli.file_templates import fill
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
# With `set -C` the shell overwrites no file: with another key, the database cannot be read.
_NEW_KEY_FILE = "(umask 077; set -C; {new_key} >{key_file}) && "
_COPIES = (
    "# If you have run the service before, stop it and copy its files; a copied key is not replaced below.\n"
)
_COPY = "# install -o {user} -m 600 {source} {target}\n"

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
        "uid": str(UID),
        "new_key": NEW_KEY,
    }
    processes = options.get("processes", 1)
    in_a_container = names | {
        "sites": f"{SETTINGS}/sites",
        "processes": f', --processes, "{processes}"' if processes > 1 else "",
    }
    files = ("preparation.sh", "exposurekit.env", "exposurekit.service")
    containers = ("Containerfile", "compose.yaml")
    return "\n".join(
        [*(fill(name, names) for name in files), *(fill(name, in_a_container) for name in containers)]
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
