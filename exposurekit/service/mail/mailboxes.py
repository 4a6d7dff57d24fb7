"""The operator's mailbox: a folder on an IMAP server, or a directory. What was stored is deleted there.

All functions here block.
"""

import imaplib
import os
import re
import ssl
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from exposurekit.errors import ExposureError
from exposurekit.service.mail.settings import LOGIN_REFUSED, Imap, MailSettings, tls_problem
from exposurekit.text.sanitize import plain

MESSAGE_BYTES_MAX = 1_000_000  # a larger message is cut off, and only a person reads it
HEAD_BYTES = 64_000  # of a larger message
_TIMEOUT_S = 30
_SIZE = re.compile(rb"RFC822\.SIZE (\d+)")


class MailboxUnavailable(ExposureError):
    """The mailbox cannot be read; the text is the reason, and the server or directory of the settings."""


@dataclass(frozen=True, slots=True)
class RawMessage:
    """A message as it arrived, and its key in the mailbox."""

    key: str
    content: bytes = field(repr=False)
    is_cut: bool = False


class Mailbox(Protocol):
    """A mailbox that is open."""

    def count(self) -> int:
        """Return the number of messages; raises `MailboxUnavailable`."""

    def fetch(self, limit: int) -> list[RawMessage]:
        """Return the oldest messages; raises `MailboxUnavailable`."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete messages that were fetched; raises `MailboxUnavailable`."""


@contextmanager
def opened(settings: MailSettings) -> Iterator[Mailbox]:
    """Open the mailbox of the settings; raises `MailboxUnavailable`."""
    if settings.imap is None:
        yield _Directory(settings.directory or Path())
        return
    server = f"{settings.imap.host}, port {settings.imap.port}"
    with _failures(server):
        connection = _logged_in(settings.imap)
    try:
        yield _ImapFolder(connection, server)
    finally:
        with suppress(imaplib.IMAP4.error, OSError):
            connection.logout()


def _logged_in(imap: Imap) -> imaplib.IMAP4_SSL:
    password = imap.password()
    context = imap.tls_context()
    connection = imaplib.IMAP4_SSL(imap.host, imap.port, ssl_context=context, timeout=_TIMEOUT_S)
    try:
        _log_in(connection, imap.user, password)
        folder = imap.folder.replace("\\", "\\\\").replace('"', '\\"')
        _check(connection.select(f'"{folder}"')[0])
    except BaseException:
        with suppress(imaplib.IMAP4.error, OSError):
            connection.shutdown()
        raise
    return connection


def _log_in(connection: imaplib.IMAP4_SSL, user: str, password: str) -> None:
    try:
        connection.login(user, password)
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error:
        raise MailboxUnavailable(LOGIN_REFUSED) from None


class _ImapFolder:
    def __init__(self, connection: imaplib.IMAP4_SSL, server: str) -> None:
        self._connection, self._server = connection, server

    def count(self) -> int:
        with _failures(self._server):
            return len(self._uids())

    def fetch(self, limit: int) -> list[RawMessage]:
        with _failures(self._server):
            messages = (self._message(uid) for uid in self._uids())
            return list(islice(filter(None, messages), limit))

    def delete(self, keys: Sequence[str]) -> None:
        if keys:
            with _failures(self._server):
                self._uid("STORE", ",".join(keys), "+FLAGS.SILENT", r"(\Deleted)")
                if "UIDPLUS" in self._connection.capabilities:
                    self._uid("EXPUNGE", ",".join(keys))
                else:
                    self._connection.expunge()

    def _uids(self) -> list[str]:
        return b" ".join(map(_head, self._uid("SEARCH", "UNDELETED"))).decode().split()

    def _message(self, uid: str) -> RawMessage | None:
        sizes = [
            match for one in self._uid("FETCH", uid, "(RFC822.SIZE)") if (match := _SIZE.search(_head(one)))
        ]
        if not sizes:  # deleted meanwhile
            return None
        is_cut = int(sizes[0][1]) > MESSAGE_BYTES_MAX
        section = f"BODY.PEEK[]<0.{HEAD_BYTES}>" if is_cut else "BODY.PEEK[]"
        bodies = [one[1] for one in self._uid("FETCH", uid, f"({section})") if isinstance(one, tuple)]
        return RawMessage(uid, bodies[0][:MESSAGE_BYTES_MAX], is_cut) if bodies else None

    def _uid(self, command: str, *arguments: str) -> list[bytes | tuple[bytes, bytes]]:
        kind, answer = self._connection.uid(command, *arguments)
        _check(kind)
        return answer or []


def _check(kind: str) -> None:
    if kind != "OK":
        raise MailboxUnavailable("the server refused a command, or has no such folder")


def _head(answer: bytes | tuple[bytes, bytes] | None) -> bytes:
    return answer[0] if isinstance(answer, tuple) else answer or b""


class _Directory:
    """Files that end in .eml, and those in the folders new and cur of a Maildir. A writer renames a finished file into it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def count(self) -> int:
        with _failures(self._path):
            return len(self._files())

    def fetch(self, limit: int) -> list[RawMessage]:
        with _failures(self._path):
            return list(islice(filter(None, map(self._message, self._files())), limit))

    def delete(self, keys: Sequence[str]) -> None:
        with _failures(self._path):
            for key in keys:
                (self._path / key).unlink(missing_ok=True)

    def _files(self) -> list[str]:
        names = [file.name for file in self._path.iterdir() if file.suffix == ".eml"]
        for folder in ("new", "cur"):
            with suppress(FileNotFoundError, NotADirectoryError):
                names += [f"{folder}/{file.name}" for file in (self._path / folder).iterdir()]
        return sorted(name for name in names if not Path(name).name.startswith("."))

    def _message(self, name: str) -> RawMessage | None:
        try:
            descriptor = os.open(self._path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # a link, or deleted meanwhile
            return None
        with closing(os.fdopen(descriptor, "rb")) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            content = file.read(MESSAGE_BYTES_MAX + 1)
        is_cut = len(content) > MESSAGE_BYTES_MAX
        return RawMessage(name, content[:HEAD_BYTES] if is_cut else content, is_cut)


@contextmanager
def _failures(mailbox: object) -> Iterator[None]:
    """Turn errors into `MailboxUnavailable`, which names the mailbox: their own texts may hold a name or a message."""
    try:
        yield
    except imaplib.IMAP4.abort:
        reason = "the server ended the connection"
    except imaplib.IMAP4.error:
        reason = "the server refused a command"
    except ssl.SSLError as error:
        reason = tls_problem(error)
    except TimeoutError:
        reason = "the server did not answer in time"
    except OSError as error:
        reason = error.strerror or "the server cannot be reached"
    except MailboxUnavailable as error:
        reason = str(error)
    else:
        return
    raise MailboxUnavailable(f"{reason} ({plain(mailbox)})")
