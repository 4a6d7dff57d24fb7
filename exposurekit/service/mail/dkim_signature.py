"""DKIM: whether a domain has signed a message, by the key that it publishes in DNS."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from exposurekit.errors import ExposureError

if TYPE_CHECKING:
    import dkim

# Returns the TXT record of a name, None if there is none; raises `DnsUnavailable`. The argument `timeout` is in seconds.
ResolveTxt = Callable[..., bytes | None]

_DNS_TIMEOUT_S = 10
_SIGNATURES_MAX = 10  # of one message
_ALGORITHMS = {
    b"rsa-sha256"
}  # RFC 8301; Ed25519 needs another package, and every domain that uses it signs with RSA, too
# Whoever could change one of these would change what the message says.
_SIGNED_HEADERS = {b"from", b"to", b"subject"}
_silent = logging.getLogger("exposurekit.service.dkim")
_silent.disabled = True  # the library logs keys and headers


class DnsUnavailable(ExposureError):
    """DNS did not answer: the signature may be valid, and can be checked later."""


def system_txt(name: bytes, timeout: float = _DNS_TIMEOUT_S) -> bytes | None:
    """Return the TXT record of a name as the system's name servers answer; None: there is none."""
    # Imported here: it takes time, and a service without a mailbox does not need it.
    import dns.exception
    import dns.resolver

    try:
        answer = dns.resolver.resolve(name.decode("ascii"), "TXT", lifetime=timeout, search=False)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer, UnicodeDecodeError):
        return None
    except dns.exception.DNSException:
        pass
    else:
        return b"".join(answer[0].strings)
    raise DnsUnavailable("DNS did not answer")


def is_signed(content: bytes, domain: str, resolve_txt: ResolveTxt) -> bool:
    """Return whether a domain has signed the message: its body and its From, To and Subject.

    A signature of a part of the body does not count, nor one with SHA-1, with a key under 1024 bits, or by a domain that
    is only testing DKIM. Blocks while DNS is asked; raises `DnsUnavailable` if it does not answer.
    """
    import dkim

    try:
        message = dkim.DKIM(content, logger=_silent, minkey=1024, timeout=_DNS_TIMEOUT_S)
    except dkim.DKIMException:
        return False
    return any(_verifies(message, number, domain.encode(), resolve_txt) for number in range(_SIGNATURES_MAX))


def _verifies(message: "dkim.DKIM", number: int, domain: bytes, resolve_txt: ResolveTxt) -> bool:
    try:
        fields = message.verify_headerprep(number)
        if (
            not fields
            or not _is_acceptable(fields[0], domain)
            or not {*message.include_headers} >= _SIGNED_HEADERS
        ):
            return False
        return bool(
            message.verify(number, dnsfunc=lambda name, timeout: _key(resolve_txt(name, timeout=timeout)))
        )
    except DnsUnavailable:
        raise
    except Exception:  # noqa: BLE001  the library raises many kinds for a malformed signature
        return False


def _is_acceptable(signature: dict[bytes, bytes], domain: bytes) -> bool:
    return signature[b"d"].lower() == domain and signature[b"a"] in _ALGORITHMS and b"l" not in signature


def _key(record: bytes | None) -> bytes | None:
    """Return a key's record, unless it says that the domain is testing DKIM."""
    tags = dict(tag.split(b"=", 1) for tag in (record or b"").split(b";") if b"=" in tag)
    flags = next((value for name, value in tags.items() if name.strip() == b"t"), b"")
    return None if b"y" in {flag.strip() for flag in flags.split(b":")} else record
