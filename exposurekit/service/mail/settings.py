"""Settings of the operator's mailbox, from a YAML file; its password is in a file of its own or in the environment."""

import os
import re
import secrets
import ssl
import stat
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from exposurekit.errors import ConfigurationError
from exposurekit.service.sites.definition import Definition
from exposurekit.service.sites.loader import problem_of
from exposurekit.system.named_files import read_text
from exposurekit.text import plain_yaml
from exposurekit.text.plain_yaml import InvalidYaml
from exposurekit.text.sanitize import plain

PASSWORD_VARIABLE = "EXPOSUREKIT_MAIL_PASSWORD"  # noqa: S105  the variable's name
INVALID_CERTIFICATE = "the server's certificate or its TLS is not valid: if an authority of your own issued it, name its file with ca_file"
NO_TLS = "the server has no TLS from the first byte on this port"
LOGIN_REFUSED = "the server refused the login (user or password)"
SIZE_MAX = 20_000
TOKEN_BYTES = 16
LOCAL_PART_MAX = 64 - 1 - 2 * TOKEN_BYTES  # with "+" and a token it is at most 64 characters long
_ADDRESS = re.compile(
    r"([a-z0-9][a-z0-9._-]*)@((?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9])"
)
_TOKEN = re.compile(f"[0-9a-f]{{{2 * TOKEN_BYTES}}}")


def _own_address(text: str) -> str:
    match = _ADDRESS.fullmatch(text)
    if not match or len(text) > 200:  # noqa: PLR2004
        raise ValueError("is not an email address in lower case without a plus sign")
    if len(match[1]) > LOCAL_PART_MAX:
        raise ValueError(
            f"has more than {LOCAL_PART_MAX} characters before the @, which leaves no room for a token"
        )
    return text


OwnAddress = Annotated[str, AfterValidator(_own_address)]
Port = Annotated[int, Field(ge=1, le=65535)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Login(_Part):
    """A mail server, with TLS from the first byte, and the login there."""

    host: Annotated[str, Field(min_length=1)]
    port: Port
    user: Annotated[str, Field(min_length=1)]
    password_file: Path | None = None
    ca_file: Path | None = None  # certificates of authorities beyond the system's

    def password(self) -> str:
        """Return the password; raises `ConfigurationError` if there is none, or if others can read its file."""
        if password := os.environ.get(PASSWORD_VARIABLE):
            return password
        if self.password_file is None:
            raise ConfigurationError(
                f"no password for the mail server: set password_file or {PASSWORD_VARIABLE}"
            )
        try:
            if os.name == "posix" and stat.S_IMODE(self.password_file.stat().st_mode) & 0o077:
                raise ConfigurationError(
                    f"{self._password_file_named()} is readable by others: run chmod 600 on it"
                )
            return self.password_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigurationError(f"{self._password_file_named()} cannot be read: {reason}")

    def _password_file_named(self) -> str:
        return f"the mail server's password file {plain(self.password_file)}"

    def tls_context(self) -> ssl.SSLContext:
        """Return the context for TLS; raises `ConfigurationError` if `ca_file` has no certificates."""
        try:
            return ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except ssl.SSLError:
            reason = "has no certificates in PEM form"
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
        raise ConfigurationError(f"the mail server's ca_file {plain(self.ca_file)} {reason}")


class Imap(Login):
    """An IMAP server and the folder that messages arrive in."""

    port: Port = 993
    folder: str = "INBOX"


class Smtp(Login):
    """An SMTP server that opt-outs by email are sent with, and how many."""

    port: Port = 465
    starttls: bool = False  # true: TLS begins after the connection, as on port 587
    requires_approval: bool = True  # false: opt-outs are sent without a person's approval
    per_day: Annotated[int, Field(ge=1, le=10_000)] = 20
    per_site_per_day: Annotated[int, Field(ge=1, le=10_000)] = 5


class MailSettings(_Part):
    """The operator's mailbox: its address, and where its messages are.

    Each opt-out request gets an address of its own: with a plus sign and a token before the @.
    """

    address: OwnAddress
    imap: Imap | None = None
    directory: Path | None = None  # .eml files, or a Maildir
    smtp: Smtp | None = None  # None: no opt-out is sent by email
    check_every_s: Annotated[int, Field(ge=10, le=86_400)] = 120

    @model_validator(mode="after")
    def _has_one_mailbox(self) -> Self:
        if (self.imap is None) == (self.directory is None):
            raise ValueError("name either imap or directory")
        return self

    def request_address(self, token: str) -> str:
        """Return the address of the request with a token."""
        local, _, domain = self.address.partition("@")
        return f"{local}+{token}@{domain}"

    def message_id(self, token: str) -> str:
        """Return the Message-ID of the opt-out with a token."""
        return f"<{token}@{self.address.partition('@')[2]}>"

    def token_of_reference(self, message_id: str) -> str | None:
        """Return the token in a Message-ID; None: it is not one of ours."""
        token = message_id.removeprefix("<").partition("@")[0]
        return token if _TOKEN.fullmatch(token) and message_id == self.message_id(token) else None

    def token_in(self, address: str) -> str | None:
        """Return the token in an address; None: it is not a request's."""
        local, _, domain = self.address.partition("@")
        text = address.lower()
        token = text.removeprefix(f"{local}+").removesuffix(f"@{domain}")
        return token if _TOKEN.fullmatch(token) and text == self.request_address(token) else None


def tls_problem(error: ssl.SSLError) -> str:
    """Say why TLS with a mail server failed."""
    return NO_TLS if error.reason == "WRONG_VERSION_NUMBER" else INVALID_CERTIFICATE


def supports(mail: MailSettings | None, site: Definition) -> bool:
    """Return whether there is the mailbox, and the server for sending, that a site's opt-out needs; None: no settings."""
    if mail is None:
        return not site.needs_mailbox
    return mail.smtp is not None or not site.sends_email


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_hex(TOKEN_BYTES)


def load(path: Path) -> MailSettings:
    """Load the settings in a file; paths in it are relative to its directory.

    Raises:
        ConfigurationError: The file cannot be read or is invalid; the message has a line for each problem, never a value.
    """
    text = read_text(path, SIZE_MAX)
    try:
        document = plain_yaml.read(text[:SIZE_MAX])
        settings = MailSettings.model_validate(document.value)
    except InvalidYaml as error:
        raise ConfigurationError(f"{plain(path)}, line {error.line}: {error.explained}") from None
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        problems = [problem_of(MailSettings, document, one, whole="the file") for one in details]
        lines = [f"{plain(path)}, line {line}: {problem}" for line, problem in problems]
        raise ConfigurationError("\n".join(lines)) from None
    return _resolved(settings, path.parent)


def _resolved(settings: MailSettings, directory: Path) -> MailSettings:
    def resolved(path: Path | None) -> Path | None:
        return None if path is None else directory / path.expanduser()

    changed: dict[str, object] = {"directory": resolved(settings.directory)}
    for name, login in (("imap", settings.imap), ("smtp", settings.smtp)):
        if login is not None:
            files = {"password_file": resolved(login.password_file), "ca_file": resolved(login.ca_file)}
            changed[name] = login.model_copy(update=files)
    return settings.model_copy(update=changed)
