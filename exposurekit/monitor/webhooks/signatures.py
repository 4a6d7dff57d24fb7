"""Verify Standard Webhooks signatures, in constant time; `verify_webhook` is for receivers of one's own."""

import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from exposurekit.contract.webhooks import SECRET_PREFIX, Delivery, decode_secret, sign
from exposurekit.errors import ConfigurationError, InvalidArgument, InvalidSignature
from exposurekit.monitor.webhooks.parsing import parse_delivery
from exposurekit.system.clock import utc_now

TOLERANCE = timedelta(minutes=5)  # senders sign each attempt again, so a retry is as fresh as a first attempt
SECRET_BYTES_MIN = 16
_NAMES = (b"webhook-id", b"webhook-timestamp", b"webhook-signature")
_SECONDS = re.compile(rb"\d{1,12}")


@dataclass(frozen=True, slots=True)
class SignatureHeaders:
    """The three signature headers of a request."""

    webhook_id: bytes
    timestamp: bytes
    signatures: bytes = field(repr=False)

    @classmethod
    def read(cls, headers: Mapping[bytes, bytes], now: datetime) -> "SignatureHeaders":
        """Read them from all headers, whose names are in lower case; raises `InvalidSignature` if they are not current."""
        if missing := [name.decode() for name in _NAMES if name not in headers]:
            raise InvalidSignature(f"the webhook is not signed: {', '.join(missing)} is missing")
        signature = cls(*(headers[name] for name in _NAMES))
        if not signature.is_fresh(now):
            raise InvalidSignature("the webhook was not signed within the last five minutes")
        return signature

    def check(self, body: bytes, keys: Iterable[bytes]) -> None:
        """Raise `InvalidSignature` if none of the keys has signed the body."""
        if not is_signed(self, body, keys):
            raise InvalidSignature("the webhook is signed with another secret, or its body was changed")

    def is_fresh(self, now: datetime) -> bool:
        """Whether the timestamp is within `TOLERANCE` of `now`."""
        if not _SECONDS.fullmatch(self.timestamp):
            return False
        return abs(now.timestamp() - int(self.timestamp)) <= TOLERANCE.total_seconds()


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str] | Mapping[bytes, bytes] | Iterable[tuple[bytes, bytes]],
    secret: str | Iterable[str],
    *,
    now: datetime | None = None,
) -> Delivery:
    """Check the signature of a webhook that your own program received, and parse its body.

    A delivery may come twice: its header ``webhook-id`` is the same then.

    Args:
        body: The bytes of the request, as they came.
        headers: The headers of the request, in any case: a mapping, or pairs as in ASGI; of strings or bytes.
        secret: The signing secret, or during a rotation several.
        now: The time to compare the signature's with; without a zone it is UTC. None: the current time.

    Returns:
        The delivery: ``user_id``, ``events``, and a list for each event.

    Raises:
        InvalidSignature: It is not signed, not with this secret, or not within five minutes: respond with 401.
        InvalidResponse: The body is not a delivery.
        ConfigurationError: There is no secret, or it is not one.
        InvalidArgument: An argument has another type.

    >>> import time
    >>> from exposurekit.contract.webhooks import sign
    >>> body, timestamp = b'{"user_id": 12, "events": []}', str(int(time.time()))
    >>> signature = sign(b"twenty-four bytes of key", b"msg_1", timestamp.encode(), body).decode()
    >>> headers = {"webhook-id": "msg_1", "webhook-timestamp": timestamp, "webhook-signature": signature}
    >>> ek.verify_webhook(body, headers, "whsec_dHdlbnR5LWZvdXIgYnl0ZXMgb2Yga2V5").user_id
    12
    """
    if not isinstance(body, bytes | bytearray):
        raise InvalidArgument("body must be the bytes of the request, as they came")
    keys = decode_secrets(_secrets(secret))
    if not keys:
        raise ConfigurationError("no signing secret")
    now = now or utc_now()
    signature = SignatureHeaders.read(_received(headers), now if now.tzinfo else now.replace(tzinfo=UTC))
    signature.check(bytes(body), keys)
    return parse_delivery(bytes(body))


def _secrets(secret: Any) -> list[str]:
    is_iterable = isinstance(secret, Iterable) and not isinstance(secret, str)
    secrets = list(secret) if is_iterable else [secret]
    if not all(isinstance(one, str) for one in secrets):
        raise InvalidArgument("secret must be a string, or several")
    return secrets


def _received(headers: Any) -> dict[bytes, bytes]:
    """Return the headers with names in lower case."""
    try:
        pairs = headers.items() if hasattr(headers, "items") else headers
        return {_bytes(name).lower(): _bytes(value) for name, value in pairs}
    except (TypeError, ValueError):
        problem = "headers must be a mapping or pairs, of strings or bytes"
    raise InvalidArgument(problem)


def _bytes(text: str | bytes) -> bytes:
    return text.encode("utf-8", "replace") if isinstance(text, str) else bytes(memoryview(text))


def decode_secrets(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """Decode signing secrets, with or without ``whsec_``, into keys; the message of an error does not contain one."""
    return tuple(map(_decode, secrets))


def _decode(secret: str) -> bytes:
    text = secret.strip().removeprefix(SECRET_PREFIX).rstrip("=")
    try:
        key = decode_secret(text + "=" * (-len(text) % 4))
    except ValueError:  # its message could contain the secret
        key = b""
    if len(key) >= SECRET_BYTES_MIN:
        return key
    raise ConfigurationError(
        f"a signing secret must be base64 of at least {SECRET_BYTES_MIN} bytes, with or without the prefix {SECRET_PREFIX}"
    )


def is_signed(headers: SignatureHeaders, body: bytes, keys: Iterable[bytes]) -> bool:
    """Whether one of the signatures matches the body under one of the keys."""
    expected = [sign(key, headers.webhook_id, headers.timestamp, body) for key in keys]
    signatures = headers.signatures.split(b" ")
    # a list, not a generator: any() would stop at the first match and leak its position through timing
    matches = [hmac.compare_digest(signature, digest) for signature in signatures for digest in expected]
    return any(matches)
