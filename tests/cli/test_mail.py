"""The mail commands: what a person sees of a message, and the check of the mailbox."""

import json

import pytest
from sqlalchemy import select
from support.mail import MAILBOX, Drop, unsigned
from support.shell import error_of

from exposurekit.service.mail import messages
from exposurekit.service.mail.mailboxes import RawMessage
from exposurekit.service.mail.messages import Arrival
from exposurekit.service.storage import tables


@pytest.fixture
def office(operator):
    assert operator.here("integrator", "add", "acme", "--attested-by", "Jo").returncode == 0
    return operator


def store(operator, *contents, recipients=()):
    """Store messages as the worker does. Return their ids."""
    settings = Drop(operator.directory).settings

    async def stored(db):
        for content in contents:
            await messages.store(db, Arrival(RawMessage("key", content), recipients), settings)
        return [
            row.id
            for row in await db.all(select(tables.mail_messages.c.id).order_by(tables.mail_messages.c.id))
        ]

    return operator.work(stored)


def message(text="Hello", **options):
    return unsigned(MAILBOX, text, **options).as_bytes()


def test_messages_are_listed_shown_and_discarded(office):
    first, second = store(office, message("https://seekfolk.example/confirm?t=1"), message("two"))
    rows = json.loads(office.here("mail", "list", "--json").stdout)
    assert [(row["id"], row["reason"]) for row in rows] == [
        (id_, messages.NO_REQUEST) for id_ in (second, first)
    ]
    assert {row["state"] for row in rows} == {"rejected"}
    output = office.here("mail", "show", str(first)).stdout
    assert "From: no-reply@seekfolk.example\nTo: optout@privacy.example\n" in output
    assert output.endswith("Link: https://seekfolk.example/confirm?t=1\n")
    assert office.here("mail", "discard", str(first)).stdout == "Messages deleted: 1.\n"
    assert [row["id"] for row in json.loads(office.here("mail", "list", "--json").stdout)] == [second]
    assert office.here("mail", "discard", "--all").stdout == "Messages deleted: 1.\n"
    assert error_of(office.here("mail", "list")) == "No messages."
    audited = office.here("service", "audit", "show").stdout
    assert audited.count("mail discard") == 2


def test_what_a_list_prints_is_not_personal(office):
    store(office, message("planted", subject="planted", sender="planted@seekfolk.example"))
    assert "planted" not in office.here("mail", "list", "--all").stdout


def test_a_hostile_message_is_shown_as_plain_text(office):
    [hostile, broken] = store(
        office,
        message("\x1b[2Jred\u202e", subject="=?utf-8?b?G1syShtdMDtvd25lZAc=?="),
        b"From: \xff\r\nContent-Type: text/plain; charset=" + b"x" * 9_000 + b"\r\n\r\n\x1b]0;owned\x07\r\n",
    )
    for number in (hostile, broken):
        output = office.here("mail", "show", str(number)).stdout
        assert output.replace("\n", "").isprintable()


@pytest.mark.parametrize("words", [("show", "99"), ("discard", "99")])
def test_an_unknown_message_is_an_error(office, words):
    run = office.here("mail", *words)
    assert (run.returncode, error_of(run)) == (1, "Error: no message has the id 99")


def test_a_discard_is_all_or_nothing(office):
    [number] = store(office, message())
    assert office.here("mail", "discard", str(number), "99").returncode == 1
    assert len(json.loads(office.here("mail", "list", "--json").stdout)) == 1
    assert office.here("mail", "discard").returncode == 2
    assert office.here("mail", "discard", str(number), "--all").returncode == 2


def test_the_number_of_messages_to_nobody_is_limited(office, monkeypatch):
    monkeypatch.setattr(messages, "UNADDRESSED_MAX", 3)
    numbers = store(office, *(message(f"number {number}") for number in range(5)))
    assert len(numbers) == 3
    assert min(numbers) == 3


def test_a_mailbox_is_checked(office):
    (office.directory / "mail.yaml").write_text("{address: optout@privacy.example, directory: mail}")
    run = office.here("mail", "check", "--mail", "mail.yaml")
    assert (run.returncode, error_of(run)) == (
        1,
        "Error: the mailbox cannot be read: No such file or directory",
    )
    (office.directory / "mail").mkdir()
    Drop(office.directory / "mail").deliver(message())
    run = office.here("mail", "check", "--mail", "mail.yaml")
    assert run.stdout == "ok: the mailbox of optout@privacy.example has 1 messages.\n"
    assert json.loads(office.here("mail", "check", "--mail", "mail.yaml", "--json").stdout)["messages"] == 1
    assert len(Drop(office.directory / "mail").left()) == 1
    assert "no mailbox is configured" in error_of(office.here("mail", "check"))


def test_a_service_check_reads_every_message(office):
    store(office, message())
    assert "Checked 1 stored values." in office.here("service", "check").stdout

    async def spoil(db):
        await db.run(tables.mail_messages.update().values(ciphertext=b"\x01" + bytes(40)))

    office.work(spoil)
    assert "mail_messages" in office.here("service", "check").stdout
