"""A real SMTP server on loopback, with TLS and a login, that keeps what it receives."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope
from support.imap_server import PASSWORD, certificate
from support.ports import free_port

from exposurekit.service.mail.settings import Smtp


@dataclass
class SmtpServer:
    """A running server. A test may set the answer to a recipient or to a message; None: the connection is cut.

    `deliver` gets each recipient of a message, and the message, before the answer.
    """

    directory: Path
    envelopes: list[Envelope] = field(default_factory=list)
    answer_to_recipient: str = "250 OK"
    answer_to_message: str | None = "250 OK"
    port: int = 0
    deliver: Callable[[str, bytes], None] | None = None

    def settings(self, **changed: Any) -> Smtp:
        login = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": "optout",
            "ca_file": self.directory / "cert.pem",
        }
        return Smtp.model_validate(login | {"password_file": self.directory / "password"} | changed)

    @property
    def messages(self) -> list[EmailMessage]:
        return [message_from_bytes(one.content, policy=policy.default) for one in self.envelopes]

    @property
    def recipients(self) -> list[str]:
        """Every address to which a message was accepted, or tried."""
        return [address for one in self.envelopes for address in one.rcpt_tos]

    async def handle_RCPT(self, _server, _session, envelope, address, _options):  # noqa: N802  of aiosmtpd
        if self.answer_to_recipient.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.answer_to_recipient

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        assert session.authenticated
        self.envelopes.append(envelope)
        for address in envelope.rcpt_tos if self.deliver else ():
            self.deliver(address, envelope.content)
        if self.answer_to_message is None:
            server.transport.abort()
            return "451 cut"
        return self.answer_to_message


def _authenticate(_server, _session, _envelope, _mechanism, data) -> AuthResult:
    is_right = data.login == b"optout" and data.password == PASSWORD.encode()
    return AuthResult(success=is_right, handled=is_right)


@contextmanager
def an_smtp_server(directory: Path, *, starttls: bool = False) -> Iterator[SmtpServer]:
    certificate(directory)
    (directory / "password").write_text(PASSWORD)
    (directory / "password").chmod(0o600)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
    server = SmtpServer(directory)
    tls = {"tls_context": context} if starttls else {"ssl_context": context}
    controller = Controller(
        server,
        hostname="127.0.0.1",
        port=free_port(),
        authenticator=_authenticate,
        auth_required=starttls,
        auth_require_tls=starttls,
        **tls,
    )
    controller.start()
    try:
        server.port = controller.port
        yield server
    finally:
        controller.stop()
