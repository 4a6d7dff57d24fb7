"""Mailboxes: a directory, and a folder on a real IMAP server with TLS."""

import os

import pytest
from support.imap_server import an_imap_server
from support.mail import Drop, unsigned

from exposurekit.errors import ConfigurationError
from exposurekit.service.mail import mailboxes
from exposurekit.service.mail.mailboxes import HEAD_BYTES, MESSAGE_BYTES_MAX, MailboxUnavailable

TO = "optout@privacy.example"


@pytest.fixture(scope="module")
def server():
    with an_imap_server() as server:
        yield server


@pytest.fixture
def drop(tmp_path):
    return Drop(tmp_path)


def message(text):
    return unsigned(TO, text).as_bytes().replace(b"\n", b"\r\n")


def large():
    return message("x\r\n" * (MESSAGE_BYTES_MAX // 3))


def fetch(settings, limit=20):
    with mailboxes.opened(settings) as mailbox:
        return mailbox.fetch(limit)


def delete(settings, keys):
    with mailboxes.opened(settings) as mailbox:
        mailbox.delete(keys)
        return mailbox.count()


def check_order_and_deletion(settings, deliver):
    messages = [message(f"number {number}") for number in range(5)]
    deliver(*messages)
    first = fetch(settings, limit=2)
    assert [one.content for one in first] == messages[:2]
    assert delete(settings, [one.key for one in first]) == 3
    assert [one.content for one in fetch(settings)] == messages[2:]
    assert delete(settings, []) == 3


def check_large_messages(settings, deliver):
    deliver(large(), message("small"))
    cut, whole = fetch(settings)
    assert (cut.is_cut, len(cut.content), whole.is_cut) == (True, HEAD_BYTES, False)
    assert large().partition(b"Message-ID")[0] in cut.content


def test_files_are_read_in_order_and_deleted(drop):
    check_order_and_deletion(drop.settings, drop.deliver)


def test_a_large_file_is_cut_off(drop):
    check_large_messages(drop.settings, drop.deliver)


def test_the_folders_of_a_maildir_are_read(drop):
    for folder in ("new", "cur", "tmp"):
        (drop.directory / folder).mkdir()
        (drop.directory / folder / "1.a.host").write_bytes(folder.encode())
    messages = fetch(drop.settings)
    assert {one.content for one in messages} == {b"new", b"cur"}
    assert delete(drop.settings, [one.key for one in messages]) == 0
    assert (drop.directory / "tmp" / "1.a.host").exists()


def test_only_complete_regular_files_are_read(drop, tmp_path_factory):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("secret")
    (drop.directory / "link.eml").symlink_to(secret)
    (drop.directory / "folder.eml").mkdir()
    os.mkfifo(drop.directory / "pipe.eml")
    (drop.directory / ".hidden.eml").write_text("unfinished")
    (drop.directory / "unfinished").write_text("unfinished")
    drop.deliver(b"whole")
    assert [one.content for one in fetch(drop.settings, limit=1)] == [b"whole"]


def test_a_missing_directory_is_unavailable(drop):
    settings = drop.settings.model_copy(update={"directory": drop.directory / "none"})
    with pytest.raises(MailboxUnavailable, match="No such file or directory"):
        fetch(settings)


@pytest.mark.long
def test_a_folder_is_read_in_order_and_emptied(server):
    check_order_and_deletion(server.settings("order"), lambda *messages: server.deliver("order", *messages))


@pytest.mark.long
def test_a_large_message_of_a_folder_is_cut_off(server):
    check_large_messages(server.settings("large"), lambda *messages: server.deliver("large", *messages))


@pytest.mark.long
def test_reading_a_folder_changes_nothing_in_it(server):
    server.deliver("reading", message("one"))
    assert fetch(server.settings("reading")) == fetch(server.settings("reading"))
    flags = [
        file.name.partition(":2,")[2] for file in (server.directory / "mail" / "reading").glob("[cn]*/*")
    ]
    assert flags == [""]


@pytest.mark.long
def test_a_login_or_folder_that_is_not_there_is_unavailable(server, monkeypatch):
    with pytest.raises(MailboxUnavailable, match="refused a command, or has no such folder"):
        fetch(server.settings("jo", folder='No "such'))
    monkeypatch.setenv("EXPOSUREKIT_MAIL_PASSWORD", "wr0ng")
    with pytest.raises(MailboxUnavailable, match="refused the login"):
        fetch(server.settings("jo"))
    monkeypatch.delenv("EXPOSUREKIT_MAIL_PASSWORD")
    with pytest.raises(ConfigurationError, match="no password for the mail server"):
        fetch(server.settings("jo", password_file=None))


@pytest.mark.long
def test_a_server_whose_certificate_nobody_vouches_for_is_refused(server):
    with pytest.raises(MailboxUnavailable, match="certificate"):
        fetch(server.settings("jo", ca_file=None))
    with pytest.raises(MailboxUnavailable, match="certificate"):
        fetch(server.settings("jo", host="localhost"))


@pytest.mark.long
def test_a_server_that_is_not_there_is_unavailable(server):
    with pytest.raises(MailboxUnavailable, match="refused"):
        fetch(server.settings("jo", port=9))
