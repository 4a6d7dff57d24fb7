"""A mail server and a receiver of webhooks on loopback, which may fail."""

import email
import email.policy
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from support.ports import free_port


@dataclass
class Mailbox:
    """Received mails, as subjects and texts, and the files attached to them by name."""

    port: int = 0
    mails: list[tuple[str, str]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802  aiosmtpd's own
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        body = message.get_body(("plain", "html"))
        assert body is not None
        self.mails.append((str(message["Subject"]), body.get_content().replace("\r\n", "\n")))
        self.files |= {
            str(one.get_filename()): one.get_payload(decode=True) for one in message.iter_attachments()
        }
        return "250 OK"

    @property
    def url(self) -> str:
        return f"mailto://127.0.0.1:{self.port}/?from=watch@example.com&to=analyst@example.com&mode=insecure"


@contextmanager
def a_mailbox(*, refuses: bool = False) -> Iterator[Mailbox]:
    """A mail server on loopback, which may reject every password."""
    box = Mailbox(free_port())
    doubts: dict[str, Any] = {
        "authenticator": lambda *_: AuthResult(success=False, handled=False),
        "auth_require_tls": False,
    }
    controller = Controller(box, hostname="127.0.0.1", port=box.port, **(doubts if refuses else {}))
    controller.start()
    try:
        yield box
    finally:
        controller.stop(no_assert=True)


@dataclass
class Receiver:
    """Received webhooks; ``status`` is that of the responses, and redirects lead to the receiver itself."""

    port: int = 0
    status: int = 200
    tries: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.port}/hook"


@contextmanager
def a_receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.tries += 1
            if receiver.status == 200:
                receiver.messages.append(json.loads(body))
            self.send_response(receiver.status)
            if 300 <= receiver.status < 400:
                self.send_header("Location", f"http://127.0.0.1:{receiver.port}/elsewhere")
            self.end_headers()

        def do_GET(self) -> None:
            receiver.tries += 1
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
