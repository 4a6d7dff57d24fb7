"""The inbox on the disk: messages are stored once, in order, quarantined, deleted and erased."""

import hashlib
import json
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, quote_plus

import pytest

from exposurekit.errors import ConfigurationError
from exposurekit.monitor.sqlite import DatabaseUnavailable
from exposurekit.monitor.webhooks.store import (
    BATCH_BYTES,
    DEDUP_TTL,
    DEDUP_WINDOW,
    ErasedMessages,
    InboxStore,
)
from exposurekit.service.clock import FrozenClock

START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


@pytest.fixture
def clock():
    return FrozenClock(START)


@pytest.fixture
def inbox(tmp_path, clock):
    store = InboxStore(tmp_path / "inbox.db", clock=clock.now, busy_s=0.05)
    yield store
    store.close()


def about(user_id, **more):
    return json.dumps({"user_id": user_id, "events": [], **more}).encode()


def numbers(inbox):
    return [message.number for message in inbox.unprocessed()]


def test_a_delivery_is_stored_unchanged_with_its_time(inbox):
    body = bytes(range(256))
    assert inbox.put("msg_1", body) is True
    [message] = inbox.unprocessed()
    assert (message.number, message.received_at, message.webhook_id) == (1, START, "msg_1")
    assert (message.body, inbox.body(1), inbox.body(2)) == (body, body, None)
    assert "body" not in repr(message)


def test_the_file_is_private_and_writes_are_synchronous(inbox, tmp_path):
    assert not list(tmp_path.iterdir())  # created on first use
    inbox.put("msg_1", b"{}")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"inbox.db": 0o600, "inbox.db-wal": 0o600, "inbox.db-shm": 0o600}
    with inbox._database.reading() as connection:
        pragmas = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "secure_delete", "busy_timeout")
        ]
    assert pragmas == ["wal", 2, 1, 50]


def test_the_identity_lasts_unless_numbers_would_be_repeated(inbox, tmp_path):
    again, other = InboxStore(tmp_path / "inbox.db"), InboxStore(tmp_path / "other.db")
    assert inbox.identity == again.identity != other.identity
    again.close()
    other.close()
    assert inbox.reset_identity(0) is False
    inbox.put_all([("msg_1", b"{}"), ("msg_2", about(12))])
    inbox.erase(12)
    before = inbox.identity
    assert inbox.reset_identity(2) is False  # the number was used, though its message is erased
    assert inbox.identity == before
    assert inbox.reset_identity(3) is True
    assert inbox.identity != before
    assert numbers(inbox) == [1]


def test_only_the_same_id_and_bytes_are_one_delivery(inbox, clock):
    assert inbox.put_all([("msg_1", b"{}"), ("msg_1", b"[]"), ("msg_1", b"{}")]) == [True, True, False]
    assert [message.body for message in inbox.unprocessed()] == [b"{}", b"[]"]
    clock.advance(DEDUP_TTL - MOMENT)
    inbox.discard_processed(1)
    assert inbox.put("msg_1", b"{}") is False
    clock.advance(2 * MOMENT)
    inbox.discard_processed(1)
    assert inbox.put("msg_1", b"{}") is True


def test_without_an_id_equal_bytes_are_one_delivery_while_retried(inbox, clock):
    assert timedelta(minutes=46) <= DEDUP_WINDOW
    assert inbox.put_all([(None, b"{}"), (None, b"{}"), ("msg_1", b"{}")]) == [True, False, True]
    clock.advance(DEDUP_WINDOW - MOMENT)
    inbox.discard_processed(2)
    assert inbox.put(None, b"{}") is False
    clock.advance(MOMENT)
    assert inbox.put(None, b"{}") is True


def test_deliveries_come_in_order_in_bounded_batches(inbox):
    inbox.put_all([(f"msg_{number}", b"%d" % number) for number in range(1, 8)])
    assert [message.number for message in inbox.unprocessed(2, 3)] == [3, 4, 5]
    large = b"x" * (BATCH_BYTES // 2)
    inbox.put_all([(f"large_{number}", large) for number in range(3)])
    inbox.put("larger", large * 3)
    assert [message.number for message in inbox.unprocessed(7)] == [8, 9]
    assert [message.number for message in inbox.unprocessed(10)] == [11]


def test_quarantined_deliveries_are_listed_without_bodies_and_never_deleted(inbox):
    inbox.put_all([("msg_1", b"secret"), ("msg_2", b"{}"), ("msg_3", b"{}")])
    inbox.quarantine(1, "not JSON")
    [quarantined] = inbox.quarantined()
    assert (quarantined.number, quarantined.reason, quarantined.size) == (1, "not JSON", 6)
    assert "secret" not in repr(quarantined)
    assert numbers(inbox) == [2, 3]
    inbox.discard_processed(2)
    assert numbers(inbox) == [3]
    assert (inbox.body(1), inbox.body(2)) == (b"secret", None)
    counts = inbox.counts()
    assert (counts.waiting, counts.quarantined, counts.processed) == (1, 1, 1)


def test_a_number_is_never_used_again(inbox, clock):
    inbox.put("msg_1", b"{}")
    clock.advance(DEDUP_TTL + MOMENT)
    inbox.discard_processed(1)
    inbox.put("msg_2", b"{}")
    assert inbox.counts().processed == 0
    assert numbers(inbox) == [2]


def test_a_locked_file_is_an_error_and_stores_nothing(inbox, tmp_path):
    inbox.put("msg_1", b"{}")
    other = sqlite3.connect(tmp_path / "inbox.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseUnavailable, match="SQLITE_BUSY"):
        inbox.put_all([("msg_2", b"{}"), ("msg_3", b"{}")])
    other.close()
    assert inbox.put_all([("msg_2", b"{}"), ("msg_3", b"{}")]) == [True, True]


def test_a_moved_file_is_not_written_again(inbox, tmp_path):
    inbox.put("msg_1", b"{}")
    before = inbox.identity
    for file in tmp_path.iterdir():
        file.rename(tmp_path / f"moved-{file.name}")
    assert inbox.put("msg_1", b"{}") is True
    assert inbox.identity != before


def test_a_log_without_its_inbox_is_left_alone(inbox, tmp_path):
    """A new file would delete the log, and with it deliveries that were acknowledged."""
    inbox.put("msg_1", b"{}")
    file, log = tmp_path / "inbox.db", tmp_path / "inbox.db-wal"
    before = log.read_bytes()
    file.rename(tmp_path / "moved.db")
    for store in (inbox, InboxStore(file)):
        with pytest.raises(ConfigurationError, match="the inbox is missing or empty, but the log beside it"):
            store.put("msg_2", b"{}")
    assert (file.exists(), log.read_bytes()) == (False, before)
    (tmp_path / "moved.db").rename(file)
    assert [message.webhook_id for message in inbox.unprocessed()] == ["msg_1"]


@pytest.mark.parametrize("content", [b"not a database, but sixteen bytes and more", None])
def test_another_or_unusable_file_is_an_error(tmp_path, content):
    file = tmp_path / "other.db"
    if content is None:
        with sqlite3.connect(file) as other:
            other.execute("CREATE TABLE mine (x)")
        other.close()
    else:
        file.write_bytes(content)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match="for the inbox is a different kind of file"):
        InboxStore(file).counts()
    assert content is None or file.read_bytes() == before
    with pytest.raises(ConfigurationError, match="No such file or directory"):
        InboxStore(tmp_path / "nowhere" / "inbox.db").counts()


def test_two_openings_share_a_file_and_count_new_deliveries_once(tmp_path):
    stores = [InboxStore(tmp_path / "inbox.db") for _ in range(2)]
    stores[0].counts()

    def put(store):
        return [store.put(f"msg_{number}", b"{}") for number in range(20)]

    with ThreadPoolExecutor(4) as pool:
        results = [is_new for news in pool.map(put, stores * 2) for is_new in news]
    assert (len(results), sum(results)) == (80, 20)
    assert stores[0].counts().waiting == 20
    for store in stores:
        store.close()


NAME, STREET, MAIL = "Zoë Quillfeather", "1 Fern/Row & Co", "juniper@mail.example"
VALUES = (NAME, STREET, MAIL, " ")
ABOUT_12 = {
    "json": about(12, note=f"{NAME} {STREET}"),
    "json, id as text": about("12"),
    "json, not a delivery": json.dumps({"user_id": 12, "who": NAME}, ensure_ascii=False).encode(),
    "xml": b"<hash><user-id type='integer'>12</user-id><events type='array'/></hash>",
    "cut, the id": b'{"user_id": 12, "events": [',
    "cut, a name": f'{{"name": "{NAME}'.encode(),
    "cut, an escaped name": json.dumps(NAME)[:-1].encode(),
    "cut, escaped in capitals": rb'"ZO\u00CB QUILLFEATHER',
    "cut, a slash escaped": rb'"1 Fern\/Row & Co',
    "a form": f"name={quote_plus(NAME)}".encode(),
    "percent": quote(MAIL).lower().encode() + b"&",
    "XML references": b"<a>1 Fern/Row &amp; Co",
    "XML numbers": b"<a>Zo&#xEB; Quillfeather",
    "UTF-16": NAME.encode("utf-16"),
    "UTF-16 after a byte": b'"' + NAME.encode("utf-16-le"),
    "Latin-1": NAME.encode("latin-1"),
    "no user_id": json.dumps({"user": {"id": 12}}).encode(),
    "emoji": json.dumps(f"{NAME} \U0001f600").encode(),
}
NOT_ABOUT_12 = {
    "another": about(13, note="number 12"),
    "a longer number": b'{"user_id": 112, "x": 1205',
    "nothing": b"",
    "blanks": b"    ",
}


@pytest.mark.parametrize("quarantined", [False, True])
def test_deliveries_about_a_person_are_erased_in_any_format(inbox, quarantined):
    inbox.put_all([(f"msg_{number}", body) for number, body in enumerate(ABOUT_12.values())])
    inbox.put_all([(f"other_{number}", body) for number, body in enumerate(NOT_ABOUT_12.values())])
    for number in range(1, len(ABOUT_12) + 1 if quarantined else 1):
        inbox.quarantine(number, "not a delivery")
    assert inbox.erase(12, VALUES).total == len(ABOUT_12)
    bodies = [inbox.body(number + 1) for number in range(len(ABOUT_12) + len(NOT_ABOUT_12))]
    assert bodies == [None] * len(ABOUT_12) + [*NOT_ABOUT_12.values()]


ADDRESS = ("12 kite ln", "mothgate")  # as `street_and_town` returns it


@pytest.mark.parametrize(
    ("text", "is_about"),
    [
        ("12 Kite Lane, Mothgate, CT", True),
        ('{"address1": "12 KITE LN.", "city": "Mothgate"', True),
        (r'"12 Kite Ln\nMothgate"', True),
        ("address1=12+Kite+Lane&city=Mothgate", True),
        ("Mothgate, CT 06099", False),
        ("12 Kite Lane, Oakmere, CT", False),
        ("112 Kite Lane, Mothgate, CT", False),
        ("12 Kite Lane, Mothgateville, CT", False),
    ],
)
def test_street_and_town_together_identify_a_person(inbox, text, is_about):
    inbox.put("msg_1", text.encode())
    assert inbox.erase(7, addresses={ADDRESS}) == ErasedMessages(int(is_about), int(is_about))


NUMBERS = {
    "an age": b'{"events": ["new_alerts"], "new_alerts": [{"text": "Seekfolk lists Ann Lee, age 12"}]}',
    "a count": b'{"count": 12, "paid": 12, "valid": 12, "x',
    "a status": b"<status>12</status>",
    "a price": b"they paid 12 dollars",
}
IDS = {
    "a URL": b"GET /users/12/records",
    "a form": b"x=1&user_id=12&y=2",
    "a log": b"user 12: no events",
    "camel case": b'{"userId": "12"',
    "escaped twice": rb'"{\"id\": 12}"',
    "an attribute": b'<user id="12">',
    "one of several": b'{"user_ids": [12',
}


def test_a_short_number_is_an_id_only_after_its_name(inbox):
    """Ages and counts coincide with small ids all the time."""
    inbox.put_all([(f"msg_{number}", body) for number, body in enumerate([*NUMBERS.values(), *IDS.values()])])
    assert inbox.erase(12) == ErasedMessages(len(IDS), 0, unclear=len(NUMBERS))
    assert numbers(inbox) == [1, 2, 3, 4]
    assert inbox.erase(12, also_numbers=True) == ErasedMessages(len(NUMBERS), 0)


def test_a_long_number_is_an_id_anywhere(inbox):
    inbox.put("msg_1", b"case 1200345, closed")
    assert inbox.erase(1_200_345) == ErasedMessages(1, 0)


def test_values_of_few_characters_identify_no_one(inbox):
    inbox.put_all([("msg_1", b"a page, Fernon"), ("msg_2", b"user=12, Fernon"), ("msg_3", b"Fernon X")])
    assert inbox.erase(12, ["a", " Ferno ", "Fernon x"]) == ErasedMessages(2, 1)
    assert numbers(inbox) == [1]
    inbox.put("msg_4", json.dumps("Ada W. \U0001f600")[:-1].encode())  # a surrogate pair
    assert inbox.erase(12, ["ada w. \U0001f600"]) == ErasedMessages(1, 1)


def test_no_file_contains_an_erased_person(inbox, tmp_path):
    """Not even processed messages, whose bodies were deleted before."""
    canary = "Quillfeather"
    inbox.put_all([(f"msg_{number}", about(12 + number % 2, text=canary * 900)) for number in range(60)])
    inbox.put_all([(f"cut_{number}", canary.encode() * 900) for number in range(9)])
    for number in range(61, 70):
        inbox.quarantine(number, "not JSON")
    inbox.discard_processed(20)
    remaining = len(inbox.unprocessed())
    assert inbox.erase(12, [canary]) == ErasedMessages(20 + 9, 9, quarantined=9)
    assert inbox.erase(13) == ErasedMessages(remaining - 20, 0)
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert set(files) == {"inbox.db", "inbox.db-wal", "inbox.db-shm"}
    assert files["inbox.db-wal"] == b""
    assert [name for name, content in files.items() if canary.encode() in content] == []
    assert inbox.put("msg_0", b"{}") is True


def test_a_reader_that_blocks_an_erasure_is_an_error(inbox, tmp_path):
    inbox.put("msg_1", about(12, text="Quillfeather"))
    reader = sqlite3.connect(tmp_path / "inbox.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM messages").fetchone()
    with pytest.raises(DatabaseUnavailable, match=r"Erase again|SQLITE_"):
        inbox.erase(12)
    reader.close()
    assert inbox.erase(12) == ErasedMessages(0, 0)
    assert all(b"Quillfeather" not in file.read_bytes() for file in tmp_path.iterdir())


INBOX_VERSION_0 = (
    "CREATE TABLE about (identity TEXT NOT NULL)",
    "INSERT INTO about VALUES ('0123456789abcdef')",
    """CREATE TABLE letters (number INTEGER PRIMARY KEY AUTOINCREMENT, webhook_id TEXT, digest BLOB NOT NULL,
        received_at INTEGER NOT NULL, body BLOB, reason TEXT)""",
    "CREATE UNIQUE INDEX once ON letters (webhook_id, digest) WHERE webhook_id IS NOT NULL",
    "CREATE INDEX alike ON letters (digest, received_at) WHERE webhook_id IS NULL",
    "CREATE INDEX kept ON letters (number) WHERE body IS NOT NULL",
    "CREATE INDEX known ON letters (received_at) WHERE body IS NULL",
    "PRAGMA application_id = 1163414345",
)


@pytest.fixture
def version_0(tmp_path):
    """An inbox of the first version: one message processed, one waiting, one quarantined, one erased."""
    file = tmp_path / "inbox.db"
    rows = [(1, "msg_1", None, None), (2, "msg_2", b"{}", None), (3, None, b"?", "not JSON")]
    rows.append((4, None, b"", None))
    with sqlite3.connect(file) as connection:
        for statement in INBOX_VERSION_0:
            connection.execute(statement)
        connection.executemany(
            "INSERT INTO letters VALUES (?, ?, ?, 1767323045678901, ?, ?)",
            [
                (number, webhook_id, hashlib.sha256(body or b"[]").digest(), body, reason)
                for number, webhook_id, body, reason in rows
            ],
        )
        connection.execute("DELETE FROM letters WHERE number = 4")
    connection.close()
    return file


def schema_of(file):
    connection = sqlite3.connect(file)
    rows = connection.execute("SELECT type, name, tbl_name FROM sqlite_master ORDER BY name").fetchall()
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return version, rows


def test_an_older_inbox_is_upgraded_with_its_data(version_0, clock, tmp_path):
    store = InboxStore(version_0, clock=clock.now)
    assert store.identity == "0123456789abcdef"
    assert (store.counts().waiting, store.counts().quarantined, store.counts().processed) == (1, 1, 1)
    assert [(one.number, one.received_at, one.body) for one in store.unprocessed()] == [(2, START, b"{}")]
    assert store.quarantined()[0].reason == "not JSON"
    assert store.put_all([("msg_1", b"[]"), ("msg_2", b"{}"), ("msg_5", b"{}")]) == [False, False, True]
    assert store.unprocessed()[-1].number > 4  # the number of the erased message is not assigned again
    store.close()
    new = InboxStore(tmp_path / "new.db")
    new.counts()
    new.close()
    assert schema_of(version_0) == schema_of(tmp_path / "new.db")


def test_an_upgrade_that_fails_changes_nothing(version_0):
    with sqlite3.connect(version_0) as connection:
        connection.execute("DROP INDEX known")
    connection.close()
    before = schema_of(version_0)
    with pytest.raises(DatabaseUnavailable):
        InboxStore(version_0).counts()
    assert schema_of(version_0) == before


def test_an_inbox_of_a_later_version_is_rejected(version_0):
    InboxStore(version_0).counts()
    with sqlite3.connect(version_0) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigurationError, match="a later version of exposurekit: upgrade exposurekit"):
        InboxStore(version_0).counts()
