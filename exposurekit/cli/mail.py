"""`exposurekit mail`: messages that the service did not act on, and a check of the mailbox."""

import sys
from pathlib import Path
from typing import Any

import click

from exposurekit.cli import output, session
from exposurekit.cli.options import ID, json_option, limit_option, mail_option
from exposurekit.cli.sections import Group
from exposurekit.cli.session import ServiceDatabase, service_options
from exposurekit.errors import ConfigurationError
from exposurekit.text.sanitize import plain

_LINES_MAX = 500


@click.group(cls=Group)
def mail() -> None:
    """Show messages that were not acted on; try the mailbox."""


@mail.command("list")
@click.option("--all", "every_state", is_flag=True, help="Also those that wait, or confirmed an opt-out.")
@limit_option
@service_options
@json_option
def mail_list(*, every_state: bool, limit: int, database: ServiceDatabase, as_json: bool) -> None:
    """List the newest messages whose link was not followed, and why.

    Without their content, which mail show prints.

    Example: exposurekit mail list --limit 20
    """
    from exposurekit.service.mail import messages

    state = None if every_state else messages.REJECTED
    listed = database.read(lambda db: messages.newest(db, state=state, limit=limit))
    names = ("id", "received_at", "user_id", "record_id", "site", "state", "reason")
    output.print_rows([output.fields(one, *names) for one in listed], as_json=as_json, none="No messages.")


@mail.command("show")
@click.argument("message_id", metavar="ID", type=ID)
@service_options
def mail_show(*, message_id: int, database: ServiceDatabase) -> None:
    """Print a message as text, with its links.

    The output contains personal data. Open a link only if you trust the message: the service did not.

    Example: exposurekit mail show 3
    """
    from exposurekit.service.mail import messages, mime

    message, content = database.read(lambda db: messages.find(db, message_id))
    click.echo(f"Message {message.id}, {message.state}: {plain(message.reason or 'no problem')}")
    if content is None:
        click.echo("Its content was deleted when it had confirmed the opt-out.")
        return
    try:
        parsed = mime.parse(content)
    except mime.UnreadableMessage:
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
    from exposurekit.service.audit import Action
    from exposurekit.service.mail import messages

    if bool(message_ids) is discard_all:
        raise click.UsageError("name the messages, or use --all")

    async def discard(db: Any) -> tuple[int, Action]:
        if discard_all:
            count = await messages.discard_all(db)
            return count, Action("mail discard", details={"messages": count})
        ids = tuple(dict.fromkeys(message_ids))
        await messages.discard(db, ids)
        return len(ids), Action("mail discard", details={"message_ids": ids})

    click.echo(f"Messages deleted: {database.write(discard):,}.")


@mail.command("check")
@mail_option
@json_option
def mail_check(*, mail_file: Path | None, as_json: bool) -> None:
    """Try the mailbox, and count the messages in it.

    Nothing is changed there. Exits with 1 if it cannot be read.

    Example: exposurekit mail check --mail mail.yaml
    """
    from exposurekit.service.mail import mailboxes

    settings = session.mail_settings(mail_file)
    if settings is None:
        raise ConfigurationError("no mailbox is configured: name the settings with --mail")
    try:
        with mailboxes.opened(settings) as mailbox:
            count = mailbox.count()
    except mailboxes.MailboxUnavailable as error:
        problem = f"the mailbox cannot be read: {error}"
    else:
        if as_json:
            output.print_json({"address": settings.address, "messages": count})
        else:
            click.echo(f"ok: the mailbox of {plain(settings.address)} has {count:,} messages.")
        return
    if as_json:
        output.print_json({"address": settings.address, "problem": problem})
        sys.exit(1)
    raise ConfigurationError(problem)


def _print_text(text: str) -> None:
    lines = text.splitlines()
    for line in lines[:_LINES_MAX]:
        click.echo(plain(line))
    if len(lines) > _LINES_MAX:
        click.echo(f"({len(lines) - _LINES_MAX:,} lines more)")
