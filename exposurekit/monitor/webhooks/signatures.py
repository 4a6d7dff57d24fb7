"""Verify Standard Webhooks signatures, in constant time."""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from exposurekit.contract.webhooks import SECRET_PREFIX, decode_secret, sign
from exposurekit.errors import ConfigurationError

TOLERANCE = timedelta(minutes=5)  # senders sign each attempt anew, so a retry is as fresh as a first attempt
SECRET_BYTES_MIN = 16
_SECONDS = re.compile(rb"\d{1,12}")


@dataclass(frozen=True, slots=True)
class SignatureHeaders:
    """The three signature headers of a request."""

    webhook_id: bytes
    timestamp: bytes
    signatures: bytes = field(repr=False)

    def is_fresh(self, now: datetime) -> bool:
        """Whether the timestamp is within `TOLERANCE` of `now`."""
        if not _SECONDS.fullmatch(self.timestamp):
            return False
        return abs(now.timestamp() - int(self.timestamp)) <= TOLERANCE.total_seconds()


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
