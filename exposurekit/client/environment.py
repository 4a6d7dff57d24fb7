"""The settings that the environment or a ``.env`` file gives. Never shows a key or a secret."""

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Environment(BaseSettings):
    """The settings that the environment or a ``.env`` file may give, as ``EXPOSUREKIT_BASE_URL`` and so on."""

    model_config = SettingsConfigDict(
        env_prefix="EXPOSUREKIT_", env_file=".env", extra="ignore", hide_input_in_errors=True
    )

    base_url: str | None = None
    integration_name: str | None = None
    api_key: SecretStr | None = None
    api_secret: SecretStr | None = None


def settings() -> dict[str, str | None]:
    """The four settings by name; None where one is not set."""
    found = dict(Environment())
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in found.items()
    }
