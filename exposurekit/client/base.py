"""The base class of both clients: settings, timeout and retry policy."""

import copy
from collections.abc import Callable
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar

from exposurekit.client import log_filter, protocol
from exposurekit.client.calls import Call
from exposurekit.client.config import (
    BodyEncoding,
    ClientConfig,
    CredentialLocation,
    Format,
    Lists,
    credentials,
    display_name,
)
from exposurekit.client.retry import Result, RetryPolicy
from exposurekit.contract.models import Reply
from exposurekit.errors import ConfigurationError, ConnectionFailed

if TYPE_CHECKING:
    import httpx  # loaded with the first call

    Transport = httpx.BaseTransport | httpx.AsyncBaseTransport

R = TypeVar("R", bound=Reply)
T = TypeVar("T")

SCAN_S = 60.0  # how long a service may scan before it responds to a synchronous Create user

log_filter.mask()


class Settings(TypedDict, total=False):
    """The keyword arguments of both clients; `BaseClient` documents them."""

    integration_name: str | None
    api_key: str | None
    api_secret: str | None
    format: Format
    credentials_in: CredentialLocation | None
    body_encoding: BodyEncoding
    lists: Lists
    strict: bool
    service_name: str | None
    timeout: float
    retries: int | RetryPolicy
    transport: "Transport | None"


class Connections:
    """The connections of a client, which those of its `with_config` use, too."""

    def __init__(self) -> None:
        self.is_closed = False
        self.sender: Any = None
        self._lock = Lock()

    def opened(self, open_sender: Callable[[], Any]) -> Any:
        """Return what sends requests; the first call opens it."""
        with self._lock:
            if self.sender is None:
                self.sender = open_sender()
            return self.sender

    def close(self) -> Any:
        """Refuse further requests, and return the sender for its connections to be closed; None: it has none."""
        self.is_closed = True
        sender, self.sender = self.sender, None
        return sender


class BaseClient:
    """Settings, timeout and retry policy of a client."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        integration_name: str | None = None,
        api_key: str | None = None,
        api_secret: str | None = None,
        format: Format = "json",  # noqa: A002  the specification's name
        credentials_in: CredentialLocation | None = None,
        body_encoding: BodyEncoding = "json",
        lists: Lists = "objects",
        strict: bool = False,
        service_name: str | None = None,
        timeout: float = 30.0,
        retries: int | RetryPolicy = 3,
        transport: "Transport | None" = None,
    ) -> None:
        """Create a client. Settings that are not passed are read from the environment or a ``.env`` file.

        Args:
            base_url: The part of the URL before ``/api/``; default: ``EXPOSUREKIT_BASE_URL``.
            integration_name: The integrator's name; default: ``EXPOSUREKIT_INTEGRATION_NAME``.
            api_key: The access key; default: ``EXPOSUREKIT_API_KEY``.
            api_secret: The integrator's secret; default: ``EXPOSUREKIT_API_SECRET``.
            format: ``"json"``, or ``"xml"``, which takes 15 times as long to parse.
            credentials_in: Where ``api_secret`` and ``secret`` are sent. None: in the query of GET, in the body of
                POST and PUT; or ``"query"``, ``"body"`` (if the request has one), ``"header"``.
            body_encoding: ``"json"``, or ``"form"`` for Rails-style form fields.
            lists: ``"objects"``, or ``"csv"``: aliases, emails and phone numbers as comma-separated strings.
            strict: Whether a response that deviates from the specification is an error. If False, a field that is
                null, missing or of another type is dropped, and the rest is read.
            service_name: What reports, charts and widgets call the service, instead of its address; default:
                ``EXPOSUREKIT_SERVICE_NAME``, if the address is from the environment, too.
            timeout: Seconds that one try of a call may take. The blocking `Client` applies it to each read of the
                response's head, and to the body as a whole.
            retries: Maximum number of retries of a call that may be repeated, or a `RetryPolicy`.
            transport: An httpx transport, blocking or async, for example for a proxy or a test. When a load is
                stopped, requests on a blocking transport are completed first.

        Raises:
            ConfigurationError: A setting is missing or invalid.
        """
        self.config = ClientConfig(
            **credentials(base_url, integration_name, api_key, api_secret),
            format=format,
            credentials_in=credentials_in,
            body_encoding=body_encoding,
            lists=lists,
            strict=strict,
            service_name=display_name(service_name, base_url),
        )
        if not isinstance(timeout, int | float) or timeout <= 0:
            raise ConfigurationError("timeout must be a number of seconds greater than 0")
        if not isinstance(retries, int | RetryPolicy):
            raise ConfigurationError("retries must be an int or a RetryPolicy")
        self.timeout = timeout
        self.retry_policy = retries if isinstance(retries, RetryPolicy) else RetryPolicy(retries)
        self.transport = transport
        self._connections = Connections()

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, or a client that uses the same connections."""
        return self._connections.is_closed

    def with_config(self, **changes: Any) -> Self:
        """Return this client with other values in its `config`; both use the same connections."""
        client = copy.copy(self)
        client.config = replace(self.config, **changes)
        return client

    def __repr__(self) -> str:
        config = self.config
        return f"{type(self).__name__}({config.service!r}, integration_name={config.integration_name!r})"

    def request(self, call: Call[R, T]) -> protocol.Request:
        """Build the request of a call; a closed client has none."""
        request = protocol.request(call, self.config)
        if self.is_closed:
            title = call.operation.title
            message = f"{title} failed: this client is closed. Create another one."
            raise ConnectionFailed(message, operation=title, maybe_received=False)
        return request

    def timeout_s(self, call: Call[R, T]) -> float:
        """Return the timeout of one try of this call."""
        return self.timeout + (SCAN_S if call.waits_for_scan else 0)

    def wait_s(self, call: Call[R, T], result: Result, tries: int) -> float | None:
        """Return the seconds to wait before the next try, or None if the result is final."""
        return self.retry_policy.wait_s(result, tries=tries, repeatable=call.repeatable)
