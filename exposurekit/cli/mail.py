"""`exposurekit mail`: messages for a person to read, opt-outs by email for a person to approve, and a check of the mailbox."""

import sys
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, session
from exposurekit.cli.help_groups import Group
from exposurekit.cli.options import ID, json_option, limit_option, mail_option, sites_option
from exposurekit.cli.session import ServiceDatabase, action, service_options
from exposurekit.errors import ConfigurationError
from exposurekit.text.plurals import pluralize
from exposurekit.text.sanitize import plain

EMAIL_STATES = ("draft", "approved", "sending", "sent", "answered", "returned", "ended")
_LINES_MAX, _APPROVED_AT_A_TIME = 500, 1_000


@click.group(cls=Group)
def mail() -> None:
    """Show messages; approve opt-outs by email; try the mailbox."""


@mail.command("list")
@click.option("--all", "every_state", is_flag=True, help="Also those that wait, or confirmed an opt-out.")
@limit_option
@service_options
@json_option
def mail_list(*, every_state: bool, limit: int, database: ServiceDatabase, as_json: bool) -> None:
    """List the newest messages for a person, and why.

    Their link was not followed, or they answer an opt-out by email. Without their content, which mail show prints.

    Example: exposurekit mail list --limit 20
    """
    from exposurekit.service.mail import message_store

    states = message_store.STATES if every_state else message_store.TO_READ
    listed = database.read(lambda db: message_store.newest(db, states=states, limit=limit))
    names = ("id", "received_at", "request_id", "user_id", "record_id", "site", "state", "reason")
    output.print_rows([output.fields(one, *names) for one in listed], as_json=as_json, none="No messages.")


@mail.command("show")
@click.argument("message_id", metavar="ID", type=ID)
@service_options
def mail_show(*, message_id: int, database: ServiceDatabase) -> None:
    """Print a message as text, with its links.

    The output contains personal data. Open a link only if you trust the message: the service did not.

    Example: exposurekit mail show 3
    """
    from exposurekit.service.mail import message_parsing, message_store

    message, content = database.read(lambda db: message_store.find(db, message_id))
    click.echo(f"Message {message.id}, {message.state}: {plain(message.reason or 'no problem')}")
    if content is None:
        click.echo("Its content was deleted when it had confirmed the opt-out.")
        return
    try:
        parsed = message_parsing.parse(content)
    except message_parsing.UnreadableMessage:
        click.echo("It cannot be read safely. As it arrived:\n")
        _print_text(content.decode("utf-8", "replace"))
        return
    click.echo(f"From: {plain(', '.join(parsed.senders))}")
    click.echo(f"To: {plain(', '.join(parsed.recipients))}")
    click.echo(f"Date: {plain(parsed.date)}")
    click.echo(f"Subject: {plain(parsed.subject)}\n")
    _print_text(parsed.text or "(no plain text)")
    for link in parsed.links():
        click.echo(f"Link: {plain(link)}")


@mail.command("discard")
@click.argument("message_ids", metavar="[ID]...", nargs=-1, type=ID)
@click.option("--all", "discard_all", is_flag=True, help="Discard every message that mail list shows.")
@service_options
def mail_discard(*, message_ids: tuple[int, ...], discard_all: bool, database: ServiceDatabase) -> None:
    """Delete messages that were not acted on.

    If one of them cannot be deleted, none is. Without this they are deleted after 90 days.

    Example: exposurekit mail discard 3 4
    """
    from exposurekit.service.mail import message_store

    if bool(message_ids) is discard_all:
        raise click.UsageError("name the messages, or use --all")

    if discard_all:
        count = database.write(
            message_store.discard_all, lambda count: action("mail discard", messages=count)
        )
    else:
        ids = tuple(dict.fromkeys(message_ids))
        database.write(
            lambda db: message_store.discard(db, ids), lambda _: action("mail discard", message_ids=ids)
        )
        count = len(ids)
    click.echo(f"Messages deleted: {count:,}.")


@mail.command("confirmed")
@click.argument("message_id", metavar="ID", type=ID)
@sites_option
@service_options
def mail_confirmed(*, message_id: int, sites_directory: Path | None, database: ServiceDatabase) -> None:
    """Report that you opened the link of a rejected message.

    Use it for a message that an opt-out waits for, once the site's page has confirmed the removal. The
    service does not open the link itself. The message's content is deleted, and scans verify the removal.

    Example: exposurekit mail confirmed 3 --sites ./sites
    """
    from exposurekit.service.scanning import incoming_mail_job

    definitions = session.needed_definitions(sites_directory)
    record_id = database.write(
        lambda db: incoming_mail_job.confirm(db, message_id, definitions),
        lambda record_id: action("mail confirmed", message_id=message_id, record_id=record_id),
    )
    click.echo(f"Message {message_id} counts as a confirmation: record {record_id} is pending removal.")


@mail.command("check")
@mail_option
@json_option
def mail_check(*, mail_file: Path | None, as_json: bool) -> None:
    """Try the mailbox, and count the messages in it.

    Also the login at the server for sending, if there is one. Nothing is changed or sent. Exits with 1 if a server
    cannot be used.

    Example: exposurekit mail check --mail mail.yaml
    """
    from exposurekit.service.mail import mailboxes, smtp

    settings = session.mail_settings(mail_file)
    if settings is None:
        raise ConfigurationError("no mailbox is configured: name the settings with --mail")
    count, problem = 0, None
    try:
        with mailboxes.opened(settings) as mailbox:
            count = mailbox.count()
        if settings.smtp is not None:
            smtp.check(settings.smtp)
    except mailboxes.MailboxUnavailable as error:
        problem = f"the mailbox cannot be read: {error}"
    except smtp.NotSent as error:
        problem = f"nothing can be sent: {error}"
    if as_json:
        output.print_json({"address": settings.address, "messages": count, "problem": problem})
        sys.exit(1 if problem else 0)
    if problem:
        raise ConfigurationError(problem)
    sending = "" if settings.smtp is None else ", and the server for sending accepts the login"
    click.echo(f"ok: the mailbox of {plain(settings.address)} has {pluralize(count, 'message')}{sending}.")


@mail.command("emails")
@click.option("--state", type=click.Choice(EMAIL_STATES), help="Only those in this state.")
@click.option("--overdue", is_flag=True, help="Only those without an answer in time.")
@limit_option
@sites_option
@service_options
@json_option
def mail_emails(
    *,
    state: str | None,
    overdue: bool,
    limit: int,
    sites_directory: Path | None,
    database: ServiceDatabase,
    as_json: bool,
) -> None:
    """List the newest opt-outs by email.

    A draft waits for mail approve. One that was being sent when the worker stopped is a draft again. "follows" is what came
    of an earlier opt-out for the listing, if there was one; "new record": the site's owner had removed others. It needs the
    definitions. Without "answer by", "sent at" is when it may have been sent.

    Example: exposurekit mail emails --overdue
    """
    from exposurekit.service.mail import follow_ups, opt_out_requests

    definitions = session.usable_definitions(sites_directory)[0]

    async def read(db: Any) -> list[dict[str, Any]]:
        listed = await opt_out_requests.emails(db, state=state, overdue=overdue, limit=limit)
        failures, now = await follow_ups.failures(db, listed, definitions), db.clock.now()
        names = ("id", "user_id", "record_id", "site", "state", "created_at", "sent_at", "answer_by")
        return [
            output.fields(one, *names)
            | {"overdue": "yes" if one.is_overdue(now) else "no"}
            | {"follows": failures[one.id].event.value if one.id in failures else None}
            for one in listed
        ]

    output.print_rows(database.read(read), as_json=as_json, none="No opt-outs by email.")


@mail.command("preview")
@click.argument("request_id", metavar="ID", type=ID)
@mail_option
@sites_option
@service_options
def mail_preview(
    *, request_id: int, mail_file: Path | None, sites_directory: Path | None, database: ServiceDatabase
) -> None:
    """Print an opt-out by email as it is sent.

    The output contains personal data.

    Example: exposurekit mail preview 4 --mail mail.yaml --sites ./sites
    """
    from exposurekit.service.mail import opt_out_emails

    settings, definitions = session.mail_settings(mail_file), session.needed_definitions(sites_directory)
    if settings is None:
        raise ConfigurationError("no mailbox is configured: name the settings with --mail")
    message = database.read(lambda db: opt_out_emails.preview(db, request_id, settings, definitions))
    for name in ("From", "To", "Reply-To", "Subject"):
        click.echo(f"{name}: {plain(message[name])}")
    click.echo()
    _print_text(message.get_content())


@mail.command("approve")
@click.argument("request_ids", metavar="[ID]...", nargs=-1, type=ID)
@click.option("--all", "approve_all", is_flag=True, help="Approve every draft.")
@service_options
def mail_approve(*, request_ids: tuple[int, ...], approve_all: bool, database: ServiceDatabase) -> None:
    """Approve opt-outs by email.

    They are sent within the limits of the settings. If one of them cannot be approved, none is.

    Example: exposurekit mail approve 4 5
    """
    from exposurekit.service.mail import opt_out_emails, opt_out_requests

    if bool(request_ids) is approve_all:
        raise click.UsageError("name the opt-outs, or use --all")

    async def approve(db: Any) -> list[int]:
        ids = [*dict.fromkeys(request_ids)]
        if approve_all:
            drafts = await opt_out_requests.emails(
                db, state=opt_out_requests.DRAFT, limit=_APPROVED_AT_A_TIME
            )
            ids = [one.id for one in drafts]
        for one in ids:
            await opt_out_emails.approve(db, one)
        return ids

    ids = database.write(approve, lambda ids: action("mail approve", request_ids=ids))
    click.echo(f"Opt-outs approved: {len(ids):,}.")


@mail.command("answered")
@click.argument("request_id", metavar="ID", type=ID)
@service_options
def mail_report_reply(*, request_id: int, database: ServiceDatabase) -> None:
    """Report that a site answered an opt-out by email.

    Use it for an answer that counted as an automatic message, as some ticket systems mark what people write, or that came
    another way, such as by post. The ID is that of mail emails, or the request ID of mail list. The opt-out is
    then no longer overdue. Repeating it changes nothing.

    Example: exposurekit mail answered 4
    """
    from exposurekit.service.mail import opt_out_emails

    changed = database.write(
        lambda db: opt_out_emails.record_reply(db, request_id),
        lambda changed: action("mail answered", request_id=request_id, changed=changed),
    )
    if changed:
        click.echo(f"Opt-out {request_id} is answered.")
    else:
        click.echo(f"Opt-out {request_id} was answered before; nothing changed.", err=True)


@mail.command("complaint")
@click.argument("request_id", metavar="ID", type=ID)
@sites_option
@service_options
def mail_complaint(*, request_id: int, sites_directory: Path | None, database: ServiceDatabase) -> None:
    """Draft a complaint about a site that did not answer in time.

    The text is for the person to check, sign and send; nothing is sent. It contains personal data.

    Example: exposurekit mail complaint 4 --sites ./sites
    """
    from exposurekit.service.mail import opt_out_emails

    definitions = session.needed_definitions(sites_directory)
    text = database.read(lambda db: opt_out_emails.complaint(db, request_id, definitions))
    _print_text(text)


def _print_text(text: str) -> None:
    lines = text.splitlines()
    for line in lines[:_LINES_MAX]:
        click.echo(plain(line))
    if len(lines) > _LINES_MAX:
        click.echo(f"({len(lines) - _LINES_MAX:,} lines more)")
