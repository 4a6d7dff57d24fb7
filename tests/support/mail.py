"""Mail for the tests: signed messages of invented sites, their keys in a DNS of our own, and a drop directory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from itertools import count
from pathlib import Path
from typing import Any

import dkim
from support.small_web import House

from exposurekit.sandbox.world.site_mail import key_of
from exposurekit.service.mail import opt_out_emails, opt_out_requests
from exposurekit.service.mail.dkim_signature import DnsUnavailable
from exposurekit.service.mail.settings import MailSettings
from exposurekit.service.storage import tables
from exposurekit.service.storage.database import Session

MAILBOX = "optout@privacy.example"
SIGNED = ("from", "to", "subject", "date", "message-id", "content-type")
LINK = "http://seekfolk.example/confirm?t=8f1e"
CONFIRM = {  # the message of a site that has this link, in its definition
    "from": "no-reply@seekfolk.example",
    "subject": "confirm your opt-out",
    "link_host": "seekfolk.example",
    "link_path": "/confirm",
    "accepted": "Your removal is confirmed",
}
_numbers = count()


@dataclass
class Zone:
    """A DNS with the keys of the domains that have signed, or changed ones."""

    records: dict[str, bytes | None] = field(default_factory=dict)
    is_down: bool = False
    questions: list[str] = field(default_factory=list)

    def __call__(self, name: bytes, **_: float) -> bytes | None:
        text = name.decode().rstrip(".")
        self.questions.append(text)
        if self.is_down:
            raise DnsUnavailable("DNS did not answer")
        if text in self.records:
            return self.records[text]
        selector, _, domain = text.partition("._domainkey.")
        return key_of(domain)[1] if selector == "s1" else None


def unsigned(
    to: str,
    link: str = "",
    *,
    sender: str = "no-reply@seekfolk.example",
    subject: str = "Please confirm your opt-out",
    text: str | None = None,
    html: str | None = None,
    headers: Mapping[str, str] = {},
) -> EmailMessage:
    """A message as a site sends one."""
    message = EmailMessage()
    message["From"] = sender
    message["To"] = to
    message["Subject"] = subject
    message["Date"] = "Fri, 02 Jan 2026 03:04:05 +0000"
    message["Message-ID"] = f"<{next(_numbers)}@seekfolk.example>"
    for name, value in headers.items():
        message[name] = value
    message.set_content(f"You asked us to remove a listing.\n\n{link}\n" if text is None else text)
    if html is not None:
        message.add_alternative(html, subtype="html")
    return message


def signed(
    message: EmailMessage | bytes,
    domain: str = "seekfolk.example",
    *,
    headers: tuple[str, ...] = SIGNED,
    key: tuple[bytes, bytes] | None = None,
    selector: str = "s1",
    **options: Any,
) -> bytes:
    """The message with a DKIM signature of a domain."""
    content = message if isinstance(message, bytes) else message.as_bytes().replace(b"\n", b"\r\n")
    private, _ = key or key_of(domain)
    signature = dkim.sign(
        content, selector.encode(), domain.encode(), private, include_headers=list(headers), **options
    )
    return signature + content


@dataclass
class Drop:
    """A drop directory: what a mail server delivers into it, and what is left there."""

    directory: Path

    @property
    def settings(self) -> MailSettings:
        return MailSettings(address=MAILBOX, directory=self.directory, check_every_s=86_400)

    def deliver(self, *messages: bytes) -> None:
        for message in messages:
            name = f"{next(_numbers):06}"
            (self.directory / name).write_bytes(message)
            (self.directory / name).rename(self.directory / f"{name}.eml")

    def left(self) -> list[str]:
        return sorted(file.name for file in self.directory.iterdir())


def request_states(house: House) -> list[str]:
    return [row.state for row in house.rows(tables.mail_requests)]


def message_states(house: House) -> list[tuple[str, str | None]]:
    """What became of each message: its state and the reason."""
    return [(row.state, row.reason) for row in house.rows(tables.mail_messages)]


def approve_drafts(house: House) -> None:
    """Approve every opt-out by email, and do what is due."""

    async def approved(work: Session) -> None:
        for one in await opt_out_requests.emails(work, state="draft", limit=100):
            await opt_out_emails.approve(work, one.id)

    house.work(approved)
    house.idle()
