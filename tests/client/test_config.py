"""The sources of the settings, and the errors for invalid ones."""

import os
import re
import warnings

import pytest

from exposurekit.client import AsyncClient, Client
from exposurekit.client.config import ClientConfig, credentials
from exposurekit.errors import ConfigurationError
from exposurekit.exposure import Exposure

SETTINGS = {
    "base_url": "https://service.example",
    "integration_name": "acme",
    "api_key": "key-1",
    "api_secret": "secret-1",
}


@pytest.fixture(autouse=True)
def empty_directory(tmp_path, monkeypatch):
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


def test_settings_are_read_from_every_source(empty_directory, monkeypatch):
    assert resolved_settings(**SETTINGS) == SETTINGS
    with monkeypatch.context() as environment:
        to_environment(environment, SETTINGS)
        assert resolved_settings() == SETTINGS
    to_file(empty_directory, SETTINGS)
    assert resolved_settings() == SETTINGS


def test_blanks_around_a_setting_of_the_environment_do_not_count(monkeypatch):
    """A secret that is mounted as a file, or pasted, often ends with a line end."""
    to_environment(monkeypatch, {name: f" {value}\r\n" for name, value in SETTINGS.items()})
    assert resolved_settings() == SETTINGS
    to_environment(monkeypatch, {"api_key": "\n"})
    with pytest.raises(ConfigurationError, match="EXPOSUREKIT_API_KEY"):
        resolved_settings()


def test_arguments_outrank_environment_and_file(empty_directory, monkeypatch):
    to_file(empty_directory, SETTINGS)
    to_environment(monkeypatch, {"api_key": "key-2", "api_secret": "secret-2"})
    assert resolved_settings(api_secret="secret-3") == SETTINGS | {
        "api_key": "key-2",
        "api_secret": "secret-3",
    }


def test_service_has_its_name_or_else_its_address(monkeypatch):
    def origin(**settings):
        with Client(**settings) as client:
            assert "service.example" not in repr(client) or not client.config.service_name
            return Exposure(client).origin

    assert origin(**SETTINGS) == "https://service.example · acme"
    assert origin(**SETTINGS, service_name="Acme's\u202e service\n") == "Acme's service · acme"
    to_environment(monkeypatch, SETTINGS | {"service_name": "Acme's own"})
    assert origin() == "Acme's own · acme"
    assert origin(base_url="http://127.0.0.1:8642") == "http://127.0.0.1:8642 · acme"


@pytest.mark.parametrize("missing", SETTINGS)
@pytest.mark.parametrize("is_blank", [True, False])
def test_missing_or_blank_setting_is_named_with_its_variable(monkeypatch, missing, is_blank):
    to_environment(monkeypatch, {name: SETTINGS[name] for name in SETTINGS if name != missing})
    if is_blank:
        monkeypatch.setenv(f"EXPOSUREKIT_{missing.upper()}", "")
    with pytest.raises(ConfigurationError) as caught:
        resolved_settings()
    assert f"set EXPOSUREKIT_{missing.upper()} in the environment" in str(caught.value)
    assert f"or pass {missing} in Python" in str(caught.value)


def test_an_env_file_in_another_encoding_is_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_bytes(b"EXPOSUREKIT_API_SECRET=s3cr\xe9t\n")
    with pytest.raises(ConfigurationError, match=r"^\.env is not UTF-8: save it as UTF-8 text$") as caught:
        Client()
    assert caught.value.__context__ is None


def test_error_without_settings_lists_what_to_set():
    with pytest.raises(ConfigurationError) as caught:
        Client()
    assert str(caught.value) == (
        "Not connected: set EXPOSUREKIT_BASE_URL, EXPOSUREKIT_INTEGRATION_NAME, EXPOSUREKIT_API_KEY,"
        " EXPOSUREKIT_API_SECRET in the environment or in a .env file, or pass base_url, integration_name, api_key,"
        " api_secret in Python. To try it on a sandbox, run: exposurekit demo --serve"
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
def test_unknown_style_is_refused_with_the_valid_ones(settings, message):
    with pytest.raises(ConfigurationError, match=re.escape(message) + "$"):
        ClientConfig(**SETTINGS, **settings)


@pytest.mark.parametrize(
    "base_url",
    [
        *("https://", "https:///api", "https://[::1"),
        *("https://user:pass@service.example", "https://user@service.example"),
        *("https://service.example?x=1", "https://service.example#there", "https://service.example:0"),
        *("https://service.example:port", "https://service.example:99999"),
        "https://service.example/api/acme/key-1/v2",
    ],
)
def test_invalid_base_url_is_refused_without_repeating_it(base_url):
    with pytest.raises(ConfigurationError, match=r"^base_url is the part before /api/, such as") as caught:
        ClientConfig(**SETTINGS | {"base_url": base_url})
    assert not {"user", "pass", "acme", "key-1"} & set(re.findall(r"[\w-]+", str(caught.value)))


@pytest.mark.parametrize(
    ("base_url", "message"),
    [
        ("localhost:99", "base_url must begin with http:// or https://"),
        ("service.example", "base_url must begin with http:// or https://"),
        ("ftp://service.example", "base_url must begin with http:// or https://"),
        ("https://service.example/api", "leave out /api/ and what follows"),
        ("https://service.example/api/", "leave out /api/ and what follows"),
    ],
)
def test_invalid_base_url_says_what_to_change(base_url, message):
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        ClientConfig(**SETTINGS | {"base_url": base_url})


@pytest.mark.parametrize(
    "base_url",
    [
        *("https://service.example", "https://service.example/", "https://service.example:8443/mounted/here"),
        *("http://127.0.0.1:8642", "http://127.8.8.8", "http://[::1]:8642", "http://localhost:8642"),
        "http://service.localhost",
    ],
)
def test_https_and_loopback_are_accepted_silently(base_url):
    assert ClientConfig(**SETTINGS | {"base_url": base_url}).base_url == base_url


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("host", ["service.example", "10.0.0.7", "localhost.example"])
def test_plain_http_to_a_remote_host_warns(kind, host):
    with pytest.warns(
        UserWarning, match="base_url is plain HTTP: keys and secrets travel unencrypted"
    ) as warnings_raised:
        kind(**SETTINGS | {"base_url": f"http://{host}"})
    assert [warning.filename for warning in warnings_raised] == [__file__]


def test_a_load_does_not_warn_of_plain_http_again():
    with pytest.warns(UserWarning, match="plain HTTP"):
        client = Client(**SETTINGS | {"base_url": "http://service.example"})
    with warnings.catch_warnings(record=True) as again:
        client.as_async()
    assert again == []


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_repr_of_a_client_contains_no_secrets(kind):
    expected = f"{kind.__name__}('https://service.example', integration_name='acme')"
    assert repr(kind(**SETTINGS)) == expected
    access = repr(kind(**SETTINGS).config)
    assert "key-1" not in access
    assert "secret-1" not in access


@pytest.mark.parametrize("setting", [{"timeout": 0}, {"timeout": None}, {"retries": None}, {"retries": "3"}])
def test_invalid_timeout_or_retries_are_refused(setting):
    with pytest.raises(ConfigurationError, match=f"{next(iter(setting))} must be an?"):
        Client(**SETTINGS, **setting)
