"""A real IMAP server on loopback: Dovecot with TLS, as an ordinary user, for as long as a block lasts."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.ports import free_port

from exposurekit.service.mail.settings import Imap, MailSettings

PROGRAM = "/usr/sbin/dovecot"
PASSWORD = "pa55word"
STARTS_WITHIN_S, ENDS_WITHIN_S = 60, 60
_CONFIG = (Path(__file__).parent / "data/dovecot.conf").read_text()
_numbers = count()


def certificate(directory: Path, host: str = "127.0.0.1") -> None:
    """Write a certificate for an address and its key."""
    import ipaddress

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Mail of the tests")])
    now = datetime.now(UTC)
    made_out = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (directory / "cert.pem").write_bytes(made_out.public_bytes(serialization.Encoding.PEM))
    (directory / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


@dataclass(frozen=True)
class ImapServer:
    """A running server; any user has a mailbox there."""

    directory: Path
    port: int

    def settings(self, user: str, **changed: object) -> MailSettings:
        login = {"host": "127.0.0.1", "port": self.port, "user": user, "ca_file": self.directory / "cert.pem"}
        password_file = self.directory / "password"
        imap = Imap.model_validate(login | {"password_file": password_file} | changed)
        return MailSettings(address="optout@privacy.example", imap=imap, check_every_s=86_400)

    def deliver(self, user: str, *messages: bytes) -> None:
        """Deliver messages as a mail transfer agent does."""
        maildir = self.directory / "mail" / user
        for folder in ("tmp", "new", "cur"):
            (maildir / folder).mkdir(parents=True, exist_ok=True)
        for message in messages:
            name = f"{time.time_ns()}.{next(_numbers)}.tests"
            (maildir / "tmp" / name).write_bytes(message)
            (maildir / "tmp" / name).rename(maildir / "new" / name)
        _give_to_user(maildir)

    def left(self, user: str) -> int:
        """The number of messages in a mailbox."""
        return sum(
            1 for folder in ("new", "cur") for _ in (self.directory / "mail" / user / folder).glob("*")
        )


def _user() -> tuple[str, str]:
    """Who runs the server: nobody, if root runs the tests."""
    import grp

    entry = pwd.getpwuid(os.getuid()) if os.getuid() else pwd.getpwnam("nobody")
    return entry.pw_name, grp.getgrgid(entry.pw_gid).gr_name


def _give_to_user(path: Path) -> None:
    if os.getuid() == 0:
        for one in (path.parent, path, *path.rglob("*")):
            shutil.chown(one, *_user())


@contextmanager
def an_imap_server() -> Iterator[ImapServer]:
    """Run a server; without the program the test is skipped, but never in the gate."""
    if not Path(PROGRAM).exists():
        if os.environ.get("CI"):
            raise AssertionError("the gate installs dovecot-imapd")
        pytest.skip("Dovecot is not installed: apt-get install dovecot-imapd")
    user, group = _user()
    # Not in the directory of the tests, which only their user may enter.
    with tempfile.TemporaryDirectory(
        prefix="exposurekit-imap-", dir="/tmp", ignore_cleanup_errors=True
    ) as name:
        directory = Path(name)
        for folder in ("run", "state", "mail"):
            (directory / folder).mkdir()
        certificate(directory)
        (directory / "password").write_text(PASSWORD)
        port = free_port()
        values = {"directory": directory, "user": user, "group": group, "port": port, "password": PASSWORD}
        (directory / "dovecot.conf").write_text(_CONFIG.format(**values))
        _give_to_user(directory / "mail")
        for path in directory.iterdir():
            _give_to_user(path)
        (directory / "password").chmod(0o600)
        words = [PROGRAM, "-F", "-c", str(directory / "dovecot.conf")]
        if os.getuid() == 0:
            words = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", *words]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _wait_until_ready(process, directory, port)
            yield ImapServer(directory, port)
        finally:
            process.terminate()
            process.communicate(timeout=ENDS_WITHIN_S)


def _wait_until_ready(process: subprocess.Popen[str], directory: Path, port: int) -> None:
    until = time.monotonic() + STARTS_WITHIN_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            log = directory / "log"
            if process.poll() is not None or time.monotonic() > until:
                text = log.read_text() if log.exists() else ""
                raise AssertionError(f"Dovecot did not start: {text}") from None
            time.sleep(0.05)
