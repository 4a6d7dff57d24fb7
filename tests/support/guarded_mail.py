"""Mail servers between the service and the guarded web: real SMTP and IMAP on loopback."""

import smtplib
import ssl
from contextlib import ExitStack
from pathlib import Path

from support.imap_server import PASSWORD, an_imap_server
from support.smtp_server import an_smtp_server


class Post:
    """One server takes the sites' messages and puts them into the mailbox; one takes the service's to the sites."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        for_sites, for_service = directory / "for_sites", directory / "for_service"
        for one in (for_sites, for_service):
            one.mkdir()
        self._smtp = stack.enter_context(an_smtp_server(for_sites))
        self._imap = stack.enter_context(an_imap_server())
        self._context = ssl.create_default_context(cafile=str(for_sites / "cert.pem"))
        self.to_sites = stack.enter_context(an_smtp_server(for_service))
        sending = self.to_sites.settings(requires_approval=False)
        self.settings = self._imap.settings("optout").model_copy(update={"smtp": sending})

    def __call__(self, message: bytes) -> None:
        """Take a site's message."""
        with smtplib.SMTP_SSL("127.0.0.1", self._smtp.port, context=self._context) as client:
            client.login("optout", PASSWORD)
            client.sendmail("sites@sites.example", ["optout@privacy.example"], message)
        received = [envelope.content for envelope in self._smtp.envelopes]
        self._smtp.envelopes.clear()
        self._imap.deliver("optout", *received)
