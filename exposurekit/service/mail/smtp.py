"""Sending by SMTP with TLS: one message to one address. All functions here block."""

import smtplib
import ssl
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from exposurekit.errors import ExposureError
from exposurekit.service.mail.settings import LOGIN_REFUSED, NO_TLS, Smtp, tls_problem
from exposurekit.text.sanitize import plain

TIMEOUT_S = 60.0


class NotSent(ExposureError):
    """The server did not accept the message; the text is the reason, and perhaps the server of the settings."""


class PerhapsSent(ExposureError):
    """The connection ended while the message was sent: nobody knows whether the server accepted it."""


def compose(
    *, sender: str, reply_to: str, to: str, subject: str, message_id: str, date: datetime, text: str
) -> EmailMessage:
    """Return a message of plain text with the headers that RFC 5322 requires."""
    message = EmailMessage(policy=SMTP)
    message["From"], message["Reply-To"], message["To"] = sender, reply_to, to
    message["Subject"], message["Message-ID"] = subject, message_id
    message["Date"] = format_datetime(date)
    message.set_content(text)
    return message


def send(
    smtp: Smtp, message: EmailMessage, *, envelope_sender: str, to: str, timeout_s: float = TIMEOUT_S
) -> None:
    """Send a message to one address; raises `NotSent` or `PerhapsSent`."""
    client = _connected(smtp, timeout_s)
    try:
        client.send_message(message, envelope_sender, [to])
    except smtplib.SMTPResponseException as error:  # an answer: it was not accepted
        reason = f"the server answered {error.smtp_code}"
    except smtplib.SMTPRecipientsRefused:
        reason = "the server refused the recipient"
    except (OSError, smtplib.SMTPException):
        raise PerhapsSent("the connection ended while the message was sent") from None
    else:
        return
    finally:
        with suppress(OSError, smtplib.SMTPException):
            client.quit()
    raise NotSent(reason)


def check(smtp: Smtp) -> None:
    """Connect and log in, and send nothing; raises `NotSent`."""
    client = _connected(smtp, TIMEOUT_S)
    with suppress(OSError, smtplib.SMTPException):
        client.quit()


def _connected(smtp: Smtp, timeout_s: float) -> smtplib.SMTP:
    context = smtp.tls_context()
    password = smtp.password()
    client: smtplib.SMTP | None = None
    try:
        if smtp.starttls:
            client = smtplib.SMTP(smtp.host, smtp.port, timeout=timeout_s)
            client.starttls(context=context)
        else:
            client = smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=timeout_s, context=context)
        client.login(smtp.user, password)
    except smtplib.SMTPAuthenticationError:
        reason = LOGIN_REFUSED
    except ssl.SSLError as error:
        reason = tls_problem(error)
        reason += ": set starttls: true" if reason == NO_TLS else ""
    except TimeoutError:
        reason = "the server did not answer in time"
    except smtplib.SMTPException:  # an OSError, with the server's text
        reason = "the server refused a command, or ended the connection"
    except OSError as error:
        reason = error.strerror or "the server cannot be reached"
    else:
        return client
    if client is not None:
        client.close()
    raise NotSent(f"{reason} ({plain(smtp.host)}, port {smtp.port})")
