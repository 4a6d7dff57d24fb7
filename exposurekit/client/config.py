"""Where the service is and how to ask it: arguments, environment, ``.env``. Never shows a key or a secret."""

import ipaddress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal
from urllib.parse import quote, urlsplit

from exposurekit.contract.codec import MEDIA_TYPES
from exposurekit.contract.operations import FORMATS, PREFIX
from exposurekit.errors import ConfigurationError, warn

Format = Literal["json", "xml"]
Place = Literal["query", "body", "header"]
BodyEncoding = Literal["json", "form"]
Lists = Literal["objects", "csv"]

NAMES = ("base_url", "integration_name", "api_key", "api_secret")
_CHOICES = {
    "format": FORMATS,
    "credentials_in": (None, "query", "body", "header"),
    "body_encoding": ("json", "form"),
    "lists": ("objects", "csv"),
}


@dataclass(frozen=True)
class ClientConfig:
    """What every call needs to know: the address, the credentials, and the manner of asking."""

    base_url: str
    integration_name: str
    api_key: str = field(repr=False)
    api_secret: str = field(repr=False)
    format: Format = "json"
    credentials_in: Place | None = None
    body_encoding: BodyEncoding = "json"
    lists: Lists = "objects"
    strict: bool = False

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigurationError(f"{name} is one of {', '.join(map(str, choices))}")
        if self.lists == "csv" and self.body_encoding != "form":
            raise ConfigurationError('lists="csv" needs body_encoding="form"')
        _check_address(self.base_url, self.api_key)

    @cached_property
    def address(self) -> str:
        """Where every path of the operations begins. It holds the key: for requests alone."""
        name, key = quote(self.integration_name, safe=""), quote(self.api_key, safe="")
        return self.base_url.rstrip("/") + PREFIX.format(integration_name=name, api_key=key)

    @cached_property
    def headers(self) -> dict[str, str]:
        """What every request says of itself."""
        return {"Accept": MEDIA_TYPES[self.format], "Accept-Encoding": "gzip", "User-Agent": "exposurekit"}


def credentials(
    base_url: str | None, integration_name: str | None, api_key: str | None, api_secret: str | None
) -> dict[str, str]:
    """The four settings, each from its argument or else from the environment.

    Raises:
        ConfigurationError: One or more are nowhere to be found; the message says which and what to do.
    """
    found = dict(zip(NAMES, (base_url, integration_name, api_key, api_secret), strict=True))
    if not all(found.values()):
        from exposurekit.client.environment import settings

        found = {name: value or settings()[name] for name, value in found.items()}
    settled = {name: value for name, value in found.items() if value}
    if missing := [name for name in found if name not in settled]:
        variables = ", ".join(f"EXPOSUREKIT_{name.upper()}" for name in missing)
        raise ConfigurationError(
            f"Not connected: give {', '.join(missing)} or set {variables} (a .env file will do);"
            " for a service to try it on, run: exposurekit demo --serve"
        )
    return settled


def _check_address(base_url: str, api_key: str) -> None:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        usable = parts.scheme in {"http", "https"} and bool(host) and parts.port != 0
        usable &= api_key not in parts.path.split("/")  # else it would be shown, and stand there twice
    except ValueError:
        usable = False
    if not usable or parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError(
            "base_url is what precedes /api/, such as https://service.example; no credentials, query or fragment"
        )
    if parts.scheme == "http" and not _is_loopback(host):
        warn("base_url is plain http: keys and secrets travel unprotected; use https")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
