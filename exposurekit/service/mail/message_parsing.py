"""Read a message: its addresses, subject and texts. A message is outside text: whatever is odd in it makes it unreadable."""

import email
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from email import policy
from email.headerregistry import AddressHeader
from email.message import EmailMessage
from typing import cast

from exposurekit.errors import ExposureError
from exposurekit.text.sanitize import unescaped

# Parsing takes more than linear time, so what is parsed is short.
_HEADER_MAX, _PARTS_MAX = 4_000, 50
_TYPES_MAX = 200  # parts within parts, of which the parser reads each line again
_PARSED_HEADERS = frozenset(
    {
        "from",
        "to",
        "cc",
        "subject",
        "return-path",
        "auto-submitted",
        "in-reply-to",
        "references",
        "message-id",
    }
    | {"content-type", "content-disposition", "content-transfer-encoding", "mime-version", "date"}
)
SINGLE_HEADERS = frozenset({"from", "to", "subject"})
_MAIL_SYSTEM = frozenset({"mailer-daemon", "postmaster"})
_URL = re.compile(r"https?://[^\s<>\"']+", re.IGNORECASE)
_MESSAGE_ID = re.compile(r"<[^<>\s]{3,200}>")
_URL_MAX = 2_000
_AFTER_URL = ".,;:!?)]}*_"  # that end a sentence, not a URL
_HREF = re.compile(
    r"""<a\s[^<>]*?(?<![\w-])href\s*+=\s*+(?:"([^"<>]*+)"|'([^'<>]*+)'|([^\s"'<>]++))""", re.IGNORECASE
)


class UnreadableMessage(ExposureError):
    """The message is damaged, or too unusual to be read safely."""


@dataclass(frozen=True, slots=True)
class Mail:
    """A message. Addresses are in lower case."""

    senders: tuple[str, ...] = field(repr=False)
    recipients: tuple[str, ...] = field(repr=False)  # To
    references: tuple[str, ...] = field(repr=False)  # Message-IDs of those that it answers
    subject: str = field(repr=False)
    date: str = field(repr=False)
    is_report: bool  # of a mail system or a mail reader
    is_bounce: bool  # a report that mail was not delivered
    is_automatic: bool  # no person wrote it
    repeated: frozenset[str]  # headers that must occur once and do not, by name
    text: str = field(repr=False)
    html: str = field(repr=False)

    def links(self) -> tuple[str, ...]:
        """Return the different links: of the HTML text, or of the plain text if there is none in it."""
        targets = [unescaped(next(filter(None, match), "")).strip() for match in _HREF.findall(self.html)]
        links = [link for link in targets if link.lower().startswith(("http://", "https://"))]
        links = links or [match.rstrip(_AFTER_URL) for match in _URL.findall(self.text)]
        return tuple(dict.fromkeys(link for link in links if len(link) <= _URL_MAX))


def parse(content: bytes) -> Mail:
    """Read a message; raises `UnreadableMessage`."""
    if content.lower().count(b"content-type:") > _TYPES_MAX:
        raise UnreadableMessage("it has too many parts")
    try:
        message = email.message_from_bytes(content, policy=policy.default)
        headers = Counter(name.lower() for name, _ in message.raw_items())
        _check_headers(message)
        parts = list(_parts(message))
        senders = _addresses(message, "from")
        is_from_system = any(sender.partition("@")[0] in _MAIL_SYSTEM for sender in senders)
        is_report = message.get_content_type() == "multipart/report" or is_from_system
        return Mail(
            senders=senders,
            recipients=_addresses(message, "to"),
            references=tuple(
                _MESSAGE_ID.findall(f"{message.get('in-reply-to', '')} {message.get('references', '')}")
            ),
            subject=str(message.get("subject", "")),
            date=str(message.get("date", "")),
            is_report=is_report,
            is_bounce=is_report and _is_bounce(message, is_from_system=is_from_system),
            is_automatic=is_report or _is_automatic(message),
            repeated=frozenset(name for name in SINGLE_HEADERS if headers[name] != 1),
            text="\n".join(_text(part) for part in parts if part.get_content_type() == "text/plain"),
            html="\n".join(_text(part) for part in parts if part.get_content_type() == "text/html"),
        )
    except UnreadableMessage:
        raise
    except Exception:  # noqa: BLE001, S110  the parser raises many kinds, whose texts hold the message
        pass
    raise UnreadableMessage("unreadable")


def _is_bounce(message: EmailMessage, *, is_from_system: bool) -> bool:
    """Whether a report says that delivery failed; one of delivery without an action does, as bounces without one do."""
    reports = [part for part in message.iter_parts() if part.get_content_type() == "message/delivery-status"]
    blocks = [block for part in reports for block in part.iter_parts()]
    actions = {
        str(value).split(maxsplit=1)[0].lower()
        for block in blocks
        for name, value in block.raw_items()
        if name.lower() == "action" and str(value).strip()
    }
    return "failed" in actions if actions else bool(reports) or is_from_system


def _is_automatic(message: EmailMessage) -> bool:
    value, _, _ = str(message.get("auto-submitted", "no")).partition(";")  # RFC 3834, section 5
    return value.strip().lower() not in {"", "no"}


def _check_headers(message: EmailMessage) -> None:
    if any(
        name.lower() in _PARSED_HEADERS and len(str(value)) > _HEADER_MAX
        for name, value in message.raw_items()
    ):
        raise UnreadableMessage("a header is too long")


def _parts(message: EmailMessage) -> Iterator[EmailMessage]:
    """The parts that a person reads: neither attachments nor messages within the message."""
    waiting, count = [message], 0
    while waiting:
        part = waiting.pop(0)
        count += 1
        if count > _PARTS_MAX:
            raise UnreadableMessage("it has too many parts")
        _check_headers(part)
        if part.get_content_maintype() == "multipart":
            waiting += cast("list[EmailMessage]", list(part.iter_parts()))
        elif part.get_content_maintype() == "text" and not part.is_attachment():
            yield part


def _text(part: EmailMessage) -> str:
    content = part.get_payload(decode=True)
    data = content if isinstance(content, bytes) else b""
    with suppress(LookupError):
        return data.decode(part.get_content_charset("utf-8"), "replace")
    return data.decode("utf-8", "replace")


def _addresses(message: EmailMessage, name: str) -> tuple[str, ...]:
    header = message.get(name)
    if not isinstance(header, AddressHeader):
        return ()
    return tuple(address.addr_spec.lower() for address in header.addresses)
