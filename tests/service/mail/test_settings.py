"""Settings of the mailbox: read from a file, without a secret in it or in an error."""

import pytest

from exposurekit.errors import ConfigurationError
from exposurekit.service.mail.settings import MailSettings, load, new_token

IMAP = """address: optout@privacy.example
imap:
  host: imap.privacy.example
  user: optout
  password_file: password
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "mail.yaml"
        path.write_text(text)
        return path

    return write


def test_paths_are_relative_to_the_file(file, tmp_path):
    settings = load(file(IMAP))
    assert (settings.imap.port, settings.imap.folder) == (993, "INBOX")
    assert settings.imap.password_file == tmp_path / "password"
    directory = load(file("{address: a@privacy.example, directory: drop}")).directory
    assert directory == tmp_path / "drop"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "address: Optout@privacy.example\ndirectory: x",
            "line 1: address: is not an email address in lower case",
        ),
        (
            "address: a+b@privacy.example\ndirectory: x",
            "line 1: address: is not an email address in lower case",
        ),
        (
            f"address: {'a' * 32}@privacy.example\ndirectory: x",
            "line 1: address: has more than 31 characters",
        ),
        ("address: a@privacy.example", "line 1: the file: name either imap or directory"),
        (IMAP + "directory: x", "line 1: the file: name either imap or directory"),
        (IMAP + "  port: 0", "line 6: imap.port: should be greater"),
        (
            IMAP + "  password: pa55word",
            "line 6: imap.password is not a known key; did you mean password_file?",
        ),
        ("adress: a@privacy.example", "line 1: adress is not a known key; did you mean address?"),
        ("directory: x", "line 1: address is missing"),
        ("- pa55word", "line 1: the file: should have keys and values"),
        ("address: [", "line 1: is not YAML"),
    ],
)
def test_a_problem_is_reported_with_its_line(file, text, problem):
    with pytest.raises(ConfigurationError) as caught:
        load(file(text))
    assert f"mail.yaml, {problem}" in str(caught.value)
    assert "pa55word" not in str(caught.value)


def test_the_password_comes_from_its_file_or_the_environment(file, tmp_path, monkeypatch):
    imap = load(file(IMAP)).imap
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        imap.password()
    (tmp_path / "password").write_text("pa55word\n")
    (tmp_path / "password").chmod(0o644)
    with pytest.raises(ConfigurationError, match="run chmod 600"):
        imap.password()
    (tmp_path / "password").chmod(0o600)
    assert imap.password() == "pa55word"
    monkeypatch.setenv("EXPOSUREKIT_MAIL_PASSWORD", "0ther")
    assert imap.password() == "0ther"
    assert "0ther" not in repr(imap)


def test_an_address_leads_to_its_request_alone():
    settings = MailSettings(address="optout@privacy.example", directory="x")
    token = new_token()
    address = settings.request_address(token)
    assert settings.token_in(address) == settings.token_in(address.upper()) == token
    assert len({new_token() for _ in range(100)}) == 100
    others = (f"x{address}", f"{address}x", address.replace("+", "-"), "optout@privacy.example", "")
    assert {settings.token_in(other) for other in others} == {None}
