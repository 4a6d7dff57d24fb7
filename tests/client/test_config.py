"""Where the settings come from, and what is said when they make no sense."""

import os
import re

import pytest

from exposurekit.client import AsyncClient, Client
from exposurekit.client.config import ClientConfig, credentials
from exposurekit.errors import ConfigurationError

SETTINGS = {
    "base_url": "https://service.example",
    "integration_name": "acme",
    "api_key": "key-1",
    "api_secret": "secret-1",
}


@pytest.fixture(autouse=True)
def empty_place(tmp_path, monkeypatch):
    """A working directory without a .env file, and an environment without our variables."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.upper().startswith("EXPOSUREKIT_")]:
        monkeypatch.delenv(name)
    return tmp_path


def to_environment(monkeypatch, settings):
    for name, value in settings.items():
        monkeypatch.setenv(f"EXPOSUREKIT_{name.upper()}", value)


def to_file(directory, settings):
    lines = [f"EXPOSUREKIT_{name.upper()}={value}" for name, value in settings.items()]
    (directory / ".env").write_text("\n".join(["# settings", "UNRELATED=1", *lines]), encoding="utf-8")


def resolved_settings(**arguments):
    return credentials(**({name: None for name in SETTINGS} | arguments))  # noqa: C420  dict.fromkeys reads no better


def test_settings_come_from_arguments():
    assert resolved_settings(**SETTINGS) == SETTINGS


def test_settings_come_from_the_environment(monkeypatch):
    to_environment(monkeypatch, SETTINGS)
    assert resolved_settings() == SETTINGS


def test_settings_come_from_a_dotenv_file(empty_place):
    to_file(empty_place, SETTINGS)
    assert resolved_settings() == SETTINGS


def test_arguments_outrank_the_environment_and_the_environment_the_file(empty_place, monkeypatch):
    to_file(empty_place, SETTINGS)
    to_environment(monkeypatch, {"api_key": "key-2", "api_secret": "secret-2"})
    assert resolved_settings(api_secret="secret-3") == SETTINGS | {
        "api_key": "key-2",
        "api_secret": "secret-3",
    }


def test_a_blank_setting_is_a_missing_one(monkeypatch):
    to_environment(monkeypatch, SETTINGS | {"api_key": ""})
    with pytest.raises(ConfigurationError, match=r"pass api_key, or set EXPOSUREKIT_API_KEY "):
        resolved_settings()


@pytest.mark.parametrize("missing", SETTINGS)
def test_a_missing_setting_is_named_with_its_variable(missing):
    remaining = {name: value for name, value in SETTINGS.items() if name != missing}
    with pytest.raises(ConfigurationError) as caught:
        resolved_settings(**remaining)
    assert f"pass {missing}, or set EXPOSUREKIT_{missing.upper()} " in str(caught.value)


def test_without_settings_one_line_says_what_to_set():
    with pytest.raises(ConfigurationError) as caught:
        Client()
    assert str(caught.value) == (
        "Not connected: pass base_url, integration_name, api_key, api_secret, or set EXPOSUREKIT_BASE_URL,"
        " EXPOSUREKIT_INTEGRATION_NAME, EXPOSUREKIT_API_KEY, EXPOSUREKIT_API_SECRET in the environment"
        " or in a .env file. To try it on a sandbox, run: exposurekit demo --serve"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"format": "yaml"}, "format must be one of json, xml"),
        ({"credentials_in": "cookie"}, "credentials_in must be one of None, query, body, header"),
        ({"body_encoding": "xml"}, "body_encoding must be one of json, form"),
        ({"lists": "yaml"}, "lists must be one of objects, csv"),
        ({"lists": "csv"}, 'lists="csv" needs body_encoding="form"'),
    ],
)
def test_an_unknown_credentials_style_is_refused_with_the_known_ones(settings, message):
    with pytest.raises(ConfigurationError, match=re.escape(message) + "$"):
        ClientConfig(**SETTINGS, **settings)


@pytest.mark.parametrize(
    "base_url",
    [
        "service.example",
        "ftp://service.example",
        "https://",
        "https:///api",
        "https://user:pass@service.example",
        "https://user@service.example",
        "https://service.example?x=1",
        "https://service.example#there",
        "https://service.example:0",
        "https://service.example:port",
        "https://service.example:99999",
        "https://[::1",
        "https://service.example/api/acme/key-1/v2",
    ],
)
def test_an_invalid_base_url_is_refused_without_repeating_it(base_url):
    with pytest.raises(ConfigurationError, match=r"^base_url is the part before /api/, such as") as caught:
        ClientConfig(**SETTINGS | {"base_url": base_url})
    assert not {"user", "pass", "acme", "key-1"} & set(re.findall(r"[\w-]+", str(caught.value)))


@pytest.mark.parametrize(
    "base_url",
    [
        "https://service.example",
        "https://service.example/",
        "https://service.example:8443/mounted/here",
        "http://127.0.0.1:8642",
        "http://127.8.8.8",
        "http://[::1]:8642",
        "http://localhost:8642",
        "http://service.localhost",
    ],
)
def test_https_and_loopback_are_taken_in_silence(base_url):
    assert ClientConfig(**SETTINGS | {"base_url": base_url}).base_url == base_url


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("host", ["service.example", "10.0.0.7", "localhost.example"])
def test_plain_http_to_elsewhere_warns_where_the_client_is_made(kind, host):
    with pytest.warns(
        UserWarning, match="base_url is plain HTTP: keys and secrets travel unencrypted"
    ) as warnings_raised:
        kind(**SETTINGS | {"base_url": f"http://{host}"})
    assert [warning.filename for warning in warnings_raised] == [__file__]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_clients_repr_has_its_address_and_integrator_only(kind):
    expected = f"{kind.__name__}('https://service.example', integration_name='acme')"
    assert repr(kind(**SETTINGS)) == expected
    access = repr(kind(**SETTINGS).config)
    assert "key-1" not in access
    assert "secret-1" not in access


@pytest.mark.parametrize("setting", [{"timeout": 0}, {"timeout": None}, {"retries": None}, {"retries": "3"}])
def test_invalid_timeout_or_retries_are_refused(setting):
    with pytest.raises(ConfigurationError, match=f"{next(iter(setting))} must be an?"):
        Client(**SETTINGS, **setting)
