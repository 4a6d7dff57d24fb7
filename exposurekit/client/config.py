"""The client's settings: arguments, environment variables, ``.env``. No repr shows a key or a secret."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from exposurekit.contract.operations import FORMATS, PREFIX
from exposurekit.errors import ConfigurationError, warn
from exposurekit.text.sanitize import plain

Format = Literal["json", "xml"]
CredentialLocation = Literal["query", "body", "header"]
BodyEncoding = Literal["json", "form"]
Lists = Literal["objects", "csv"]

NAMES = ("base_url", "integration_name", "api_key", "api_secret")
_CHOICES = {
    "format": FORMATS,
    "credentials_in": (None, "query", "body", "header"),
    "body_encoding": ("json", "form"),
    "lists": ("objects", "csv"),
}
_ENV_PREFIX = "EXPOSUREKIT_"


@dataclass(frozen=True)
class ClientConfig:
    """The address, the credentials, and how requests are encoded."""

    base_url: str
    integration_name: str
    api_key: str = field(repr=False)
    api_secret: str = field(repr=False)
    format: Format = "json"
    credentials_in: CredentialLocation | None = None
    body_encoding: BodyEncoding = "json"
    lists: Lists = "objects"
    strict: bool = False
    service_name: str = ""
    ended: str = ""  # why the service is gone for good, as a demo is after its end; every call raises it

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigurationError(f"{name} must be one of {', '.join(map(str, choices))}")
        if self.lists == "csv" and self.body_encoding != "form":
            raise ConfigurationError('lists="csv" needs body_encoding="form"')
        _check_base_url(self.base_url, self.api_key)

    @cached_property
    def url_prefix(self) -> str:
        """The URL that precedes every operation's path. It contains the key: use it in requests only."""
        name, key = quote(self.integration_name, safe=""), quote(self.api_key, safe="")
        return self.base_url.rstrip("/") + PREFIX.format(integration_name=name, api_key=key)

    @property
    def service(self) -> str:
        """What texts call the service: its name, or else its address."""
        return self.service_name or self.base_url


def environment_settings() -> dict[str, str | None]:
    """The four connection settings from the environment or ``.env``; None for each that is not set."""
    return _from_environment(NAMES)


def webhook_secrets() -> tuple[str | None, tuple[str, ...]]:
    """The path secret (None if it is not set) and the signing secrets, which are separated by spaces."""
    path_secret, signing_secrets = _from_environment(
        ("webhook_path_secret", "webhook_signing_secret")
    ).values()
    return path_secret or None, tuple((signing_secrets or "").split())


def display_name(name: str | None, base_url: str | None) -> str:
    """The name of the service; an address that is passed is not that of the service in the environment."""
    if name is None and base_url is None:
        [name] = _from_environment(("service_name",)).values()
    return plain(name or "").strip()


def _from_environment(names: Iterable[str]) -> dict[str, str | None]:
    from pydantic import create_model  # slow to import, and not needed where all settings are arguments
    from pydantic_settings import BaseSettings, SettingsConfigDict

    class Environment(BaseSettings):
        model_config = SettingsConfigDict(
            env_prefix=_ENV_PREFIX, env_file=".env", extra="ignore", hide_input_in_errors=True
        )

    fields: dict[str, Any] = dict.fromkeys(names, (str | None, None))
    try:
        values = dict(create_model("Environment", __base__=Environment, **fields)())
        # A secret mounted as a file ends with a line end.
        return {name: value and value.strip() for name, value in values.items()}
    except OSError as error:
        problem = f".env cannot be read: {error.strerror}"
    except UnicodeDecodeError:  # it holds what the file does
        problem = ".env is not UTF-8: save it as UTF-8 text"
    raise ConfigurationError(problem)


def credentials(
    base_url: str | None, integration_name: str | None, api_key: str | None, api_secret: str | None
) -> dict[str, str]:
    """The four connection settings, each from its argument or else from the environment."""
    arguments = dict(zip(NAMES, (base_url, integration_name, api_key, api_secret), strict=True))
    fallback = {} if all(arguments.values()) else environment_settings()
    settings = {name: value or fallback[name] for name, value in arguments.items()}
    present = {name: value for name, value in settings.items() if value}
    if missing := [name for name in settings if name not in present]:
        variables = ", ".join(_ENV_PREFIX + name.upper() for name in missing)
        raise ConfigurationError(
            f"Not connected: set {variables} in the environment or in a .env file, or pass {', '.join(missing)} in Python."
            " To try it on a sandbox, run: exposurekit demo --serve"
        )
    return present


def _check_base_url(base_url: str, api_key: str) -> None:
    try:
        parts = urlsplit(base_url)
        host = parts.hostname or ""
        is_usable = parts.scheme in {"http", "https"} and bool(host) and parts.port != 0
        # A repr would show a key in it, and requests would repeat it.
        is_usable &= api_key not in parts.path.split("/")
    except ValueError:
        is_usable = False
    if not base_url.lower().startswith(("http://", "https://")):
        raise ConfigurationError("base_url must begin with http:// or https://")
    if is_usable and f"{parts.path.rstrip('/')}/".endswith("/api/"):
        raise ConfigurationError("base_url is the part before /api/: leave out /api/ and what follows")
    if not is_usable or parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError(
            "base_url is the part before /api/, such as https://service.example, without credentials, query or fragment"
        )
    if parts.scheme == "http" and not _is_loopback(host):
        warn("base_url is plain HTTP: keys and secrets travel unencrypted; use https")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
