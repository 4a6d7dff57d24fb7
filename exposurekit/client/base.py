"""What both clients are made of: where and how to ask, how patiently, and what a failure means. Sends nothing."""

from typing import TYPE_CHECKING, TypedDict, TypeVar

from exposurekit.client import log_filter
from exposurekit.client.calls import Call
from exposurekit.client.config import (
    BodyEncoding,
    ClientConfig,
    CredentialLocation,
    Format,
    Lists,
    credentials,
)
from exposurekit.client.retry import Result, RetryPolicy
from exposurekit.contract.models import Reply
from exposurekit.errors import ConfigurationError

if TYPE_CHECKING:
    import httpx  # loaded with the first call

    Transport = httpx.BaseTransport | httpx.AsyncBaseTransport

R = TypeVar("R", bound=Reply)
T = TypeVar("T")

SCAN_S = 60.0  # a service may scan that long before it answers Create user

log_filter.mask()


class Settings(TypedDict, total=False):
    """The keyword arguments that every connection takes; `BaseClient` documents them."""

    integration_name: str | None
    api_key: str | None
    api_secret: str | None
    format: Format
    credentials_in: CredentialLocation | None
    body_encoding: BodyEncoding
    lists: Lists
    strict: bool
    timeout: float
    retries: int | RetryPolicy
    transport: "Transport | None"


class BaseClient:
    """What both clients are made of: where and how to ask, how patiently, and through what."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        integration_name: str | None = None,
        api_key: str | None = None,
        api_secret: str | None = None,
        format: Format = "json",  # noqa: A002  the specification's word
        credentials_in: CredentialLocation | None = None,
        body_encoding: BodyEncoding = "json",
        lists: Lists = "objects",
        strict: bool = False,
        timeout: float = 30.0,
        retries: int | RetryPolicy = 3,
        transport: "Transport | None" = None,
    ) -> None:
        """Connect to a service; what is not given comes from the environment or a ``.env`` file.

        Args:
            base_url: What precedes ``/api/``; else ``EXPOSUREKIT_BASE_URL``.
            integration_name: The integrator's name; else ``EXPOSUREKIT_INTEGRATION_NAME``.
            api_key: The access key; else ``EXPOSUREKIT_API_KEY``.
            api_secret: The integrator's secret; else ``EXPOSUREKIT_API_SECRET``.
            format: ``"json"``, or ``"xml"``, which costs 15 times as much to read.
            credentials_in: Where ``api_secret`` and ``secret`` travel: None for the query on GET and the body
                on POST and PUT; ``"query"``; ``"body"`` (where there is one); ``"header"``.
            body_encoding: ``"json"``, or ``"form"`` for Rails-style fields.
            lists: ``"objects"``, or ``"csv"``: aliases, e-mails and phones as comma-separated strings.
            strict: Whether an answer that deviates from the specification is an error. False: a field that is null,
                missing or of another type costs that field alone.
            timeout: Seconds that one try of a call may take; a `Client` that blocks ends it after as many
                without a byte, too, but not while an answer's head comes in drop by drop.
            retries: Further tries of a call that may be repeated, or a `RetryPolicy`.
            transport: An httpx transport, blocking or async: a proxy's, a test's. What is under way on one that
                blocks is waited for when a load is stopped.

        Raises:
            ConfigurationError: A setting is missing or makes no sense.
        """
        self.config = ClientConfig(
            **credentials(base_url, integration_name, api_key, api_secret),
            format=format,
            credentials_in=credentials_in,
            body_encoding=body_encoding,
            lists=lists,
            strict=strict,
        )
        if not isinstance(timeout, int | float) or timeout <= 0:
            raise ConfigurationError("timeout is a number of seconds, more than zero")
        if not isinstance(retries, int | RetryPolicy):
            raise ConfigurationError("retries is a number, or a RetryPolicy")
        self.timeout = timeout
        self.retry_policy = retries if isinstance(retries, RetryPolicy) else RetryPolicy(retries)
        self.transport = transport

    def __repr__(self) -> str:
        access = self.config
        return f"{type(self).__name__}({access.base_url!r}, integration_name={access.integration_name!r})"

    def seconds(self, call: Call[R, T]) -> float:
        """Seconds that one try of this call may take."""
        return self.timeout + (SCAN_S if call.waits_for_scan else 0)

    def wait_s(self, call: Call[R, T], outcome: Result, tries: int) -> float | None:
        """Seconds to wait before the next try, or None where the outcome is final."""
        return self.retry_policy.wait_s(outcome, tries=tries, repeatable=call.repeatable)
