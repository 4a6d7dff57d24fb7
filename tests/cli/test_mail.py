"""The mail commands: what a person sees of a message, and the check of the mailbox."""

import json
import re
from datetime import timedelta

import pytest
from sqlalchemy import select
from support.mail import MAILBOX, Drop, unsigned
from support.ports import free_port
from support.services import JANE, LISTING, SITE
from support.shell import error_of
from support.site_definitions import site_definition
from support.smtp_server import an_smtp_server

from exposurekit.contract.inputs import AddressItem
from exposurekit.service.accounts import consent, integrators, users
from exposurekit.service.findings import removals
from exposurekit.service.findings.findings import discover_record
from exposurekit.service.mail import message_store, opt_out_requests
from exposurekit.service.mail.mailboxes import HEAD_BYTES, RawMessage
from exposurekit.service.mail.message_store import Arrival
from exposurekit.service.mail.settings import INVALID_CERTIFICATE, LOGIN_REFUSED, NO_TLS
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
            await message_store.store(db, Arrival(RawMessage("key", content), recipients), settings)
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
        (id_, message_store.NO_REQUEST) for id_ in (second, first)
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
    assert (run.returncode, error_of(run)) == (
        1,
        "Error: no message has the id 99: exposurekit mail list --all shows them",
    )


def test_a_discard_is_all_or_nothing(office):
    [number] = store(office, message())
    assert office.here("mail", "discard", str(number), "99").returncode == 1
    assert len(json.loads(office.here("mail", "list", "--json").stdout)) == 1
    assert office.here("mail", "discard").returncode == 2
    assert office.here("mail", "discard", str(number), "--all").returncode == 2


def test_the_number_of_messages_to_nobody_is_limited(office, monkeypatch):
    monkeypatch.setattr(message_store, "UNADDRESSED_MAX", 3)
    numbers = store(office, *(message(f"number {number}") for number in range(5)))
    assert len(numbers) == 3
    assert min(numbers) == 3


def test_only_the_beginning_is_stored_of_messages_to_nobody(office):
    [number] = store(office, message("x\n" * 100_000))
    _, content = office.work(lambda db: message_store.find(db, number))
    assert len(content) == HEAD_BYTES


def test_a_mailbox_is_checked(office):
    (office.directory / "mail.yaml").write_text("{address: optout@privacy.example, directory: mail}")
    run = office.here("mail", "check", "--mail", "mail.yaml")
    assert (run.returncode, error_of(run)) == (
        1,
        f"Error: the mailbox cannot be read: No such file or directory ({office.directory / 'mail'})",
    )
    (office.directory / "mail").mkdir()
    Drop(office.directory / "mail").deliver(message())
    run = office.here("mail", "check", "--mail", "mail.yaml")
    assert run.stdout == "ok: the mailbox of optout@privacy.example has 1 message.\n"
    assert json.loads(office.here("mail", "check", "--mail", "mail.yaml", "--json").stdout)["problem"] is None
    assert len(Drop(office.directory / "mail").left()) == 1
    assert "no mailbox is configured" in error_of(office.here("mail", "check"))


def test_a_service_check_reads_every_message(office):
    store(office, message())
    assert "Checked 1 stored values. None is damaged." in office.here("service", "check").stdout

    async def spoil(db):
        await db.run(tables.mail_messages.update().values(ciphertext=b"\x01" + bytes(40)))

    office.work(spoil)
    assert "mail_messages" in office.here("service", "check").stdout


def test_the_status_shows_whether_the_mailbox_is_read(office):
    assert "Messages:" not in office.here("service", "status").stdout
    row = {"address": MAILBOX, "problem": "the server did not answer in time"}
    office.work(lambda db: db.run(tables.mailboxes.insert(), row))
    store(office, message())
    output = office.here("service", "status").stdout
    assert "Messages: 0 received, 0 following, 0 confirmed, 1 rejected, 0 answer.\n" in output
    assert re.search(rf"{MAILBOX} +- +the server did not answer in time\n", output)


# --- opt-outs by email ----------------------------------------------------------------------------------

SITES = site_definition(
    "https://places.example",
    name="People & Places",
    opt_out_procedure="[Write to them.]",
    removal="{method: email, email: {to: privacy@places.example, template: gdpr}}",
)


@pytest.fixture
def drafted(office):
    """An office with the draft of an opt-out."""
    (office.directory / "sites").mkdir()
    (office.directory / "sites" / "places.yaml").write_text(SITES)
    (office.directory / "mail.yaml").write_text("{address: optout@privacy.example, directory: mail}")

    async def draft(db):
        record_id = await listed_jane(db)
        await opt_out_requests.issue_email(db, 1, record_id, SITE.name, requires_approval=True)

    office.work(draft)
    return office


async def listed_jane(db):
    """Register Jane, and discover her listing."""
    acme = await integrators.find(db, "acme")
    address = AddressItem(city="Oakmere", state="CA", address1="", address2="", zip="")
    user = await users.create(db, acme.id, JANE | {"addresses": [address]})
    assert user.id == 1
    await consent.consent(db, user.id, granted_by="Jane, in writing")
    return await discover_record(db, user.id, LISTING, SITE)


def emails(office, *words):
    return json.loads(office.here("mail", "emails", "--json", *words).stdout)


def test_an_opt_out_is_previewed_and_approved(drafted):
    [row] = emails(drafted)
    assert (row["id"], row["state"], row["site"], row["overdue"]) == (1, "draft", SITE.name, "no")
    assert row["follows"] is None
    run = drafted.here("mail", "preview", "1", "--mail", "mail.yaml", "--sites", "sites")
    assert "To: privacy@places.example\nReply-To: optout+" in run.stdout
    assert "Jane Q. Doe, https://places.example/jane" in run.stdout
    assert "our record of it names Jo." in run.stdout
    assert drafted.here("mail", "approve", "1").stdout == "Opt-outs approved: 1.\n"
    assert [one["state"] for one in emails(drafted)] == ["approved"]
    assert emails(drafted, "--state", "draft") == emails(drafted, "--overdue") == []
    assert "request 1 is approved: only a draft can be approved" in error_of(
        drafted.here("mail", "approve", "1")
    )


def test_a_follow_up_says_what_it_follows(office):
    assisted = SITES.replace("{method: email,", "{method: assisted,")
    (office.directory / "sites").mkdir()
    (office.directory / "sites" / "places.yaml").write_text(assisted)
    (office.directory / "mail.yaml").write_text("{address: optout@privacy.example, directory: mail}")

    async def refused(db):
        record_id = await listed_jane(db)
        await removals.refuse_removal(db, record_id, SITE)
        await opt_out_requests.issue_email(db, 1, record_id, SITE.name, requires_approval=True)

    office.work(refused)
    [row] = emails(office, "--sites", "sites")
    assert row["follows"] == "opt-out refused"
    text = office.here("mail", "preview", "1", "--mail", "mail.yaml", "--sites", "sites").stdout
    assert "was sent to you. You refused it." in " ".join(text.split())
    [record] = json.loads(office.here("users", "records", "1", "--sites", "sites", "--json").stdout)
    assert record["email_state"] == "draft"
    (office.directory / "sites" / "places.yaml").write_text(SITES)  # whose only opt-outs are emails
    [row] = emails(office, "--sites", "sites")
    assert row["follows"] is None


def test_a_complaint_is_drafted_once_the_answer_is_overdue(drafted):
    run = drafted.here("mail", "complaint", "1", "--sites", "sites")
    assert (run.returncode, error_of(run)) == (1, "Error: request 1 is draft, and its answer is not overdue")

    async def sent(db):
        request = await opt_out_requests.get(db, 1)
        await opt_out_requests.change_state(db, request.id, "sending", before="draft")
        await opt_out_requests.record_sent(db, request.id, answer_by=db.clock.now() - timedelta(days=1))

    drafted.work(sent)
    assert [one["overdue"] for one in emails(drafted, "--overdue")] == ["yes"]
    text = drafted.here("mail", "complaint", "1", "--sites", "sites").stdout
    assert text.startswith("To the data protection authority in charge:\n")
    assert "Article 17" in text


def test_an_answer_is_reported_once(drafted):
    run = drafted.here("mail", "answered", "1")
    expected = "Error: request 1 is draft: only one that was sent can be answered"
    assert (run.returncode, error_of(run)) == (1, expected)
    assert "no opt-out by email has the id 9" in error_of(drafted.here("mail", "answered", "9"))

    async def sent(db):
        await opt_out_requests.change_state(db, 1, "sending", before="draft")
        await opt_out_requests.record_sent(db, 1, answer_by=db.clock.now() - timedelta(days=1))

    drafted.work(sent)
    assert drafted.here("mail", "answered", "1").stdout == "Opt-out 1 is answered.\n"
    assert [(one["state"], one["overdue"]) for one in emails(drafted)] == [("answered", "no")]
    run = drafted.here("mail", "answered", "1")
    assert (run.returncode, run.stdout) == (0, "")
    assert error_of(run) == "Opt-out 1 was answered before; nothing changed."
    audited = drafted.here("service", "audit", "show", "--json").stdout
    assert audited.count("mail answered") == 2


def test_an_unknown_opt_out_is_an_error(office):
    run = office.here("mail", "approve", "9")
    assert error_of(run) == "Error: no opt-out by email has the id 9: exposurekit mail emails shows them"
    assert office.here("mail", "approve").returncode == 2


def test_the_server_for_sending_is_checked_too(office):
    (office.directory / "mail").mkdir()
    with an_smtp_server(office.directory) as server:
        login = {"host": "127.0.0.1", "port": server.port, "user": "optout", "ca_file": "cert.pem"}
        values = {"address": MAILBOX, "directory": "mail", "smtp": login | {"password_file": "password"}}
        (office.directory / "mail.yaml").write_text(json.dumps(values))
        run = office.here("mail", "check", "--mail", "mail.yaml")
        assert "0 messages, and the server for sending accepts the login." in run.stdout
        (office.directory / "password").write_text("wr0ng")
        run = office.here("mail", "check", "--mail", "mail.yaml")
        where = f"(127.0.0.1, port {server.port})"
        assert error_of(run) == f"Error: nothing can be sent: {LOGIN_REFUSED} {where}"
        assert server.envelopes == []


def test_a_server_with_starttls_needs_the_setting(office):
    """A server that begins without TLS is told from one whose certificate is not trusted."""
    with an_smtp_server(office.directory, starttls=True) as server:
        login = {"host": "127.0.0.1", "port": server.port, "user": "optout", "password_file": "password"}
        where = f"(127.0.0.1, port {server.port})"
        for starttls, block, problem in (
            (False, "smtp", f"nothing can be sent: {NO_TLS}: set starttls: true"),
            (True, "smtp", f"nothing can be sent: {INVALID_CERTIFICATE}"),
            (None, "imap", f"the mailbox cannot be read: {NO_TLS}"),
        ):
            settings = {"directory": "."} if block == "smtp" else {}
            settings[block] = login if starttls is None else login | {"starttls": starttls}
            (office.directory / "mail.yaml").write_text(json.dumps({"address": MAILBOX} | settings))
            run = office.here("mail", "check", "--mail", "mail.yaml")
            assert error_of(run) == f"Error: {problem} {where}"


def test_an_unreachable_mailbox_is_named(office):
    """A missing password file is reported before the server is contacted."""
    port = free_port()
    login = {"host": "127.0.0.1", "port": port, "user": "optout", "password_file": "password"}
    for values in ({"imap": login}, {"directory": ".", "smtp": login}):
        (office.directory / "mail.yaml").write_text(json.dumps({"address": MAILBOX} | values))
        (office.directory / "password").unlink(missing_ok=True)
        run = office.here("mail", "check", "--mail", "mail.yaml")
        assert "/password cannot be read: No such file" in error_of(run)
        (office.directory / "password").write_text("pa55word")
        (office.directory / "password").chmod(0o600)
        run = office.here("mail", "check", "--mail", "mail.yaml")
        assert error_of(run).endswith(f": Connection refused (127.0.0.1, port {port})")
    (office.directory / "mail.yaml").write_text(
        json.dumps({"address": MAILBOX, "imap": login | {"ca_file": "ca.pem"}})
    )
    run = office.here("mail", "check", "--mail", "mail.yaml")
    assert "/ca.pem cannot be read: No such file" in error_of(run)
