"""Whether a request is signed as Standard Webhooks has it. Decides on plain values; compares in constant time."""

import base64
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from exposurekit.errors import ConfigurationError

PREFIX = "whsec_"
TOLERANCE = timedelta(minutes=5)  # each attempt is signed anew, so a retry is as fresh as a first attempt
SECRET_BYTES_MIN = 16
_SECONDS = re.compile(rb"\d{1,12}")


@dataclass(frozen=True, slots=True)
class Signed:
    """What the three headers of a request say."""

    webhook_id: bytes
    timestamp: bytes
    signatures: bytes = field(repr=False)

    def is_fresh(self, now: datetime) -> bool:
        """Whether it was signed within `TOLERANCE` of an instant, before or after.

        >>> from datetime import UTC
        >>> Signed(b"msg_1", b"60", b"v1,").is_fresh(datetime(1970, 1, 1, 0, 6, 0, tzinfo=UTC))
        True
        """
        if not _SECONDS.fullmatch(self.timestamp):
            return False
        return abs(now.timestamp() - int(self.timestamp)) <= TOLERANCE.total_seconds()


def keys_of(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """The keys of signing secrets, with ``whsec_`` before them or without.

    Raises:
        ConfigurationError: One is not base64 of at least 16 bytes; the message does not hold it.

    >>> keys_of(["whsec_MDEyMzQ1Njc4OWFiY2RlZg=="])
    (b'0123456789abcdef',)
    """
    return tuple(map(_key, secrets))


def _key(secret: str) -> bytes:
    bare = secret.strip().removeprefix(PREFIX).rstrip("=")
    try:
        key = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except ValueError:  # its own words could hold the secret
        key = b""
    if len(key) >= SECRET_BYTES_MIN:
        return key
    raise ConfigurationError(
        f"a signing secret is base64 of at least {SECRET_BYTES_MIN} bytes, with {PREFIX} before it or without"
    )


def is_signed(signed: Signed, body: bytes, keys: Iterable[bytes]) -> bool:
    """Whether one of the signatures was made with one of the keys, over these very bytes.

    >>> is_signed(Signed(b"msg_1", b"60", b"v1,AAAA v1a,BBBB"), b"{}", [b"0123456789abcdef"])
    False
    """
    content = b".".join((signed.webhook_id, signed.timestamp, body))
    wanted = [b"v1," + base64.b64encode(hmac.digest(key, content, "sha256")) for key in keys]
    found = [hmac.compare_digest(one, want) for one in signed.signatures.split(b" ") for want in wanted]
    return any(found)
