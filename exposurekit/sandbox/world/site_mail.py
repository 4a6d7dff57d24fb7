"""Mail of the guarded web: signed messages that confirm an opt-out, and those that only look like one."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from functools import cache
from pathlib import Path

import dkim
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from exposurekit.sandbox.world.formats import digest
from exposurekit.sandbox.world.guarded_sites import OWNERS, SUBJECT, Owner
from exposurekit.service.mail.settings import MailSettings

PHISHING_LINK = "ref"  # a parameter that only links in phishing messages have
_SELECTOR, _KEY_BITS = "s1", 1024
_HEADERS = ["from", "to", "subject", "date", "message-id", "content-type"]


@dataclass
class DropDirectory:
    """The mailbox of the demo's operator: a directory into which the sites' messages are delivered."""

    directory: Path
    _delivered: int = 0

    @property
    def settings(self) -> MailSettings:
        """The settings with which the service reads it."""
        self.directory.mkdir(exist_ok=True)
        return MailSettings(address="optout@privacy.example", directory=self.directory, check_every_s=86_400)

    def deliver(self, message: bytes) -> None:
        """Deliver a message."""
        self._delivered += 1
        draft = self.directory / f"{self._delivered:06}"
        draft.write_bytes(message)
        draft.rename(draft.with_suffix(".eml"))


class SiteMail:
    """The messages of one world, and the DNS in which their signatures' keys are."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._sent = 0
        self._lookalikes = {f"{owner.name.lower()}-privacy.example": owner for owner in OWNERS}

    def is_phishing(self, host: str) -> bool:
        """Return whether a host is one that phishing messages link to."""
        return host in self._lookalikes

    def resolve_txt(self, name: bytes, timeout: float = 0) -> bytes | None:  # noqa: ARG002  a resolver's signature
        """Return the TXT record of a name: the key with which a domain signs; every domain here has one."""
        selector, _, domain = name.decode().rstrip(".").partition("._domainkey.")
        return key_of(domain)[1] if selector == _SELECTOR and domain.endswith(".example") else None

    def confirmation(self, owner: Owner, to: str, link: str) -> bytes:
        """Return an owner's message with the link that confirms a request."""
        return _signed(self._message(f"no-reply@{owner.domain}", to, link), owner.domain)

    def phishing(self, owner: Owner, to: str, key: str) -> Sequence[bytes]:
        """Return messages to a request's address that its owner has not sent, with a link that must not be followed."""
        lookalike = f"{owner.name.lower()}-privacy.example"
        sender = f"no-reply@{owner.domain}"
        own = f"http://{owner.host}/confirm?key={digest(self._seed, key)}&{PHISHING_LINK}=1"
        other = f"http://{lookalike}/confirm?key={key}"
        return (
            self._message(sender, to, own).as_bytes().replace(b"\n", b"\r\n"),  # unsigned
            _signed(self._message(f"no-reply@{lookalike}", to, other), lookalike),
            _signed(self._message(sender, to, own), lookalike),  # by another domain
            _signed(self._message(sender, to, other), owner.domain),  # an account there was stolen
            _signed(self._message(sender, _of_another_request(to, key), own), owner.domain),
        )

    def _message(self, sender: str, to: str, link: str) -> EmailMessage:
        self._sent += 1
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = sender, to, SUBJECT
        message["Date"] = "Fri, 02 Jan 2026 03:04:05 +0000"
        message["Message-ID"] = f"<{digest(self._seed, self._sent)}@{sender.partition('@')[2]}>"
        message.set_content(f"You asked us to remove a listing. Open this link:\n\n{link}\n")
        return message


def _of_another_request(to: str, key: str) -> str:
    """Return a request's address that differs from another in its token."""
    local, _, domain = to.partition("@")
    token = (digest(key) * 2)[:32]
    return f"{local.partition('+')[0]}+{token}@{domain}"


def _signed(message: EmailMessage, domain: str) -> bytes:
    content = message.as_bytes().replace(b"\n", b"\r\n")
    key, _ = key_of(domain)
    signature: bytes = dkim.sign(content, _SELECTOR.encode(), domain.encode(), key, include_headers=_HEADERS)
    return signature + content


@cache
def key_of(domain: str) -> tuple[bytes, bytes]:  # noqa: ARG001  each domain has its own
    """Return the private key of a domain, and the record with the public one; the same each time."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem, b"v=DKIM1; k=rsa; p=" + base64.b64encode(public)
