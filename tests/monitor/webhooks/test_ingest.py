"""Ingestion of deliveries into a history: each once and in order; unreadable ones are quarantined."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from exposurekit.contract import codec
from exposurekit.history import History
from exposurekit.history.storage.delta import HistoryLocked
from exposurekit.monitor.webhooks.ingest import InboxResult, process_inbox
from exposurekit.monitor.webhooks.store import InboxStore
from exposurekit.service.clock import FrozenClock

START = datetime(2026, 1, 2, tzinfo=UTC)
RECORD = {
    "id": 7,
    "name": "Juniper Quillfeather",
    "site": "Seekfolk",
    "status": "discovered",
    "relations": [],
    "aliases": [],
    "locations": [],
    "reference_id": "0042",
}
CANARY = "Quillfeather"


class RecordingHistory(History):
    """A history that records what it ingests, and may fail.

    Attributes:
        numbers: The numbers of the ingested deliveries, in order.
        interrupted: ``before`` or ``after`` an ingestion; None: never.
        errors: Raised at the delivery about a user; None stands for any call.
        synced: Calls of `sync`.
    """

    def __init__(self, path):
        super().__init__(path)
        self.numbers, self.ingested, self.errors = [], [], {}
        self.interrupted = None
        self.synced = 0

    def ingest_deliveries(self, deliveries, inbox):
        if self.interrupted == "before":
            raise KeyboardInterrupt
        for user_id in (None, *(one.delivery.user_id for one in deliveries)):
            if user_id in self.errors:
                raise self.errors[user_id]
        last_number = self.last_delivery(inbox)
        new = super().ingest_deliveries(deliveries, inbox)
        added = [one for one in deliveries if one.number > last_number]
        self.ingested += [(inbox, one) for one in added]
        self.numbers += [one.number for one in added]
        if self.interrupted == "after":
            raise KeyboardInterrupt
        return new

    def sync(self):
        self.synced += 1
        super().sync()


@pytest.fixture
def history(tmp_path):
    with RecordingHistory(tmp_path / "history") as recorder:
        yield recorder


@pytest.fixture
def clock():
    return FrozenClock(START)


@pytest.fixture
def inbox(tmp_path, clock):
    store = InboxStore(tmp_path / "inbox.db", clock=clock.now)
    yield store
    store.close()


def about(user_id, **groups):
    return json.dumps({"user_id": user_id, "events": list(groups), **groups}).encode()


def test_each_delivery_is_ingested_once_in_order(inbox, clock, history):
    for number in range(1, 8):
        inbox.put(f"msg_{number}" if number > 1 else None, about(number % 3, number=[number]))
        clock.advance(timedelta(seconds=1))
    assert process_inbox(inbox, history, batch_size=3) == InboxResult(7, 0, frozenset({0, 1, 2}))
    assert history.numbers == [1, 2, 3, 4, 5, 6, 7]
    assert {inbox_id for inbox_id, _ in history.ingested} == {inbox.identity}
    assert [one.webhook_id for _, one in history.ingested[:2]] == ["", "msg_2"]
    assert history.ingested[6][1].received_at == START + timedelta(seconds=6)
    assert (inbox.counts().waiting, inbox.counts().processed) == (0, 7)
    assert process_inbox(inbox, history) == InboxResult()


def test_xml_and_unknown_groups_are_ingested(inbox, history):
    removed = RECORD | {"status": "removed"}
    body = {"user_id": 12, "events": ["removed_records"], "removed_records": [{"record": removed}]}
    inbox.put("msg_1", b"\n" + codec.encode(body, "xml"))
    inbox.put("msg_2", about(13, listed_again=[{"record": RECORD}]))
    assert process_inbox(inbox, history).user_ids == {12, 13}
    (_, as_xml), (_, unknown) = history.ingested
    assert as_xml.delivery.removed_records[0].reference_id == "0042"
    assert [(name, shape) for name, shape, _ in unknown.delivery.groups()] == [("listed_again", "records")]
    records = history.records().query("user_id == 12")
    assert records[["user_id", "status"]].to_numpy().tolist() == [[12, "removed"]]


UNREADABLE = {
    "nothing": (b"", "not JSON"),
    "text": (CANARY.encode(), "not JSON"),
    "deep": (b'{"a":' * 100_000, "not JSON"),
    "deep, closed": (b"[" * 100_000 + b"]" * 100_000, "not JSON"),
    "NUL": (b"\x00" * 9, "not JSON"),
    "not UTF-8": (b'{"user_id": 12, "events": ["' + CANARY.encode() + b'\xff"]}', "not JSON"),
    "half a pair": (b'{"user_id": 12, "events": ["\\ud800"]}', "not JSON"),
    "a huge number": (b'{"user_id": ' + b"9" * 5_000 + b', "events": []}', "not JSON"),
    "an infinite number": (b'{"user_id": 1e999, "events": []}', "number out of range"),
    "a number past 64 bits": (b'{"user_id": 9223372036854775808, "events": []}', "user_id "),
    "a negative number": (b'{"user_id": -1, "events": []}', "user_id "),
    "a record's number past 64 bits": (
        about(12, removed_records=[RECORD | {"id": 2**63}]),
        "removed_records.id does not match the specification",
    ),
    "a list": (b"[" + about(12) + b"]", "it is not an object"),
    "no person": (b'{"events": ["' + CANARY.encode() + b'"]}', "user_id is missing"),
    "a person by name": (about(CANARY), "user_id "),
    "a web page": (f"<html><p>{CANARY}</p></html>".encode(), "web page"),
    "a DTD": (b'<!DOCTYPE a [<!ENTITY e "x">]><hash>&e;</hash>', "not XML"),
    "XML that is cut": (f"<hash><user-id>12</user-id><a>{CANARY}".encode(), "not XML"),
}


def test_unreadable_bodies_are_quarantined_for_an_anonymous_reason(inbox, history):
    inbox.put_all([(f"msg_{number}", body) for number, (body, _) in enumerate(UNREADABLE.values())])
    inbox.put("last", about(12))
    assert process_inbox(inbox, history) == InboxResult(1, len(UNREADABLE), frozenset({12}))
    for quarantined, name in zip(inbox.quarantined(), UNREADABLE, strict=True):
        body, reason = UNREADABLE[name]
        assert reason in quarantined.reason, name
        assert CANARY not in quarantined.reason
        assert len(quarantined.reason) < 200
        assert inbox.body(quarantined.number) == body
    assert process_inbox(inbox, history) == InboxResult()


def test_quarantined_deliveries_are_not_processed_again(inbox, history):
    inbox.put_all([("msg_1", about(12)), ("msg_2", b"?")])
    assert process_inbox(inbox, history, batch_size=1) == InboxResult(1, 1, frozenset({12}))
    inbox.put("msg_3", about(13))
    assert process_inbox(inbox, history) == InboxResult(1, 0, frozenset({13}))
    assert history.numbers == [1, 3]


@pytest.mark.parametrize("when", ["before", "after"])
def test_interrupted_processing_continues_without_loss_or_repetition(inbox, history, when):
    """Bodies are deleted only after the history is synced."""
    inbox.put_all([(f"msg_{number}", about(number)) for number in range(1, 7)])
    history.interrupted = when
    with pytest.raises(KeyboardInterrupt):
        process_inbox(inbox, history, batch_size=4)
    assert (inbox.counts().waiting, history.synced) == (6, 0)
    history.interrupted = None
    assert process_inbox(inbox, history, batch_size=4).ingested == (6 if when == "before" else 2)
    assert history.numbers == [1, 2, 3, 4, 5, 6]
    assert (inbox.counts().waiting, history.synced) == (0, 2)
    process_inbox(inbox, history)  # nothing to delete
    assert history.synced == 2


def test_bodies_are_deleted_only_if_the_history_has_them(inbox, tmp_path):
    class Failing(RecordingHistory):
        def last_delivery(self, _inbox):
            return 0

    inbox.put("msg_1", about(12))
    with Failing(tmp_path / "history") as failing:
        process_inbox(inbox, failing)
    assert inbox.counts().waiting == 1


@pytest.mark.parametrize("error", [pa.ArrowInvalid(CANARY), OverflowError(CANARY)], ids=["arrow", "python"])
def test_only_deliveries_that_fail_alone_are_quarantined(inbox, history, error):
    inbox.put_all([(f"msg_{user_id}", about(user_id)) for user_id in range(1, 8)])
    history.errors = {3: error, 6: error}
    assert process_inbox(inbox, history) == InboxResult(5, 2, frozenset({1, 2, 4, 5, 7}))
    assert history.numbers == [1, 2, 4, 5, 7]
    reason = f"the history cannot ingest it: {type(error).__name__}"
    assert [(one.number, one.reason) for one in inbox.quarantined()] == [(3, reason), (6, reason)]
    assert inbox.body(3) == about(3)
    assert process_inbox(inbox, history) == InboxResult()


def test_an_unwritable_or_damaged_history_quarantines_nothing(inbox, history):
    inbox.put_all([("msg_1", about(1)), ("msg_2", about(2))])
    failures = [(user_id, error) for user_id in (None, 2) for error in (HistoryLocked("busy"), OSError(28))]
    for user_id, error in (*failures, (None, ValueError("damaged"))):
        history.errors = {user_id: error}
        with pytest.raises(type(error)):
            process_inbox(inbox, history)
        assert (inbox.counts().waiting, inbox.counts().quarantined) == (2, 0)


def test_new_deliveries_of_a_restored_inbox_are_ingested(inbox, history, tmp_path):
    inbox.put("msg_1", about(1))
    inbox.close()
    shutil.copy(tmp_path / "inbox.db", tmp_path / "copy.db")
    inbox.put_all([("msg_2", about(2)), ("msg_3", about(3))])
    process_inbox(inbox, history)
    before = inbox.identity
    inbox.close()
    shutil.copy(tmp_path / "copy.db", tmp_path / "inbox.db")
    inbox.put("msg_4", about(4))
    assert process_inbox(inbox, history).user_ids == {1, 4}
    after = inbox.identity
    assert after != before
    assert [inbox.body(number) for number in (1, 2)] == [None, None]
    inbox.put("msg_5", about(5))
    assert process_inbox(inbox, history).user_ids == {5}
    assert inbox.identity == after
