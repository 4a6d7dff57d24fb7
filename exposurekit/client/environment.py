"""The settings that the environment or a ``.env`` file gives. Never shows a key or a secret."""

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

_WHERE = SettingsConfigDict(
    env_prefix="EXPOSUREKIT_", env_file=".env", extra="ignore", hide_input_in_errors=True
)


class Environment(BaseSettings):
    """The settings that the environment or a ``.env`` file may give, as ``EXPOSUREKIT_BASE_URL`` and so on."""

    model_config = _WHERE

    base_url: str | None = None
    integration_name: str | None = None
    api_key: SecretStr | None = None
    api_secret: SecretStr | None = None


class Webhooks(BaseSettings):
    """What lets senders into an inbox of webhooks: ``EXPOSUREKIT_WEBHOOK_PATH_SECRET`` and ``_SIGNING_SECRET``."""

    model_config = _WHERE

    webhook_path_secret: SecretStr = SecretStr("")
    webhook_signing_secret: SecretStr = SecretStr("")


def webhook_secrets() -> tuple[str | None, tuple[str, ...]]:
    """The path secret, None where it is not set; and the signing secrets, which stand separated by blanks."""
    found = Webhooks()
    signing = found.webhook_signing_secret.get_secret_value().split()
    return found.webhook_path_secret.get_secret_value() or None, tuple(signing)


def settings() -> dict[str, str | None]:
    """The four settings by name; None where one is not set."""
    found = dict(Environment())
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in found.items()
    }
