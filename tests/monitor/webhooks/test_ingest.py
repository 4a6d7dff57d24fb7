"""Letters into a history: each once, in order, whatever happens between; what cannot be read is set apart."""

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


class Taken(History):
    """A history that notes what it took in, may be interrupted before or after it has it, and may refuse people.

    Attributes:
        told: What it took in, in order, and of which inbox.
        interrupted: ``before`` or ``after`` it takes in; None: never.
        refused: Whom it cannot take in, and what it raises then; None stands for whatever is handed over.
        synced: Calls of `sync`.
    """

    def __init__(self, path):
        super().__init__(path)
        self.ingested = []
        self.interrupted = None
        self.refused = {}
        self.synced = 0

    def ingest_deliveries(self, deliveries, inbox):
        if self.interrupted == "before":
            raise KeyboardInterrupt
        for user_id in (None, *(one.delivery.user_id for one in deliveries)):
            if user_id in self.refused:
                raise self.refused[user_id]
        last_number = self.last_delivery(inbox)
        new = super().ingest_deliveries(deliveries, inbox)
        self.ingested += [(inbox, one) for one in deliveries if one.number > last_number]
        if self.interrupted == "after":
            raise KeyboardInterrupt
        return new

    def sync(self):
        self.synced += 1
        super().sync()

    @property
    def numbers(self):
        return [one.number for _, one in self.ingested]


@pytest.fixture
def history(tmp_path):
    with Taken(tmp_path / "history") as recorder:
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


def test_unknown_groups_are_kept(inbox, history):
    inbox.put("msg_1", about(12, listed_again=[{"record": RECORD}]))
    process_inbox(inbox, history)
    [(_, delivery)] = history.ingested
    assert [(name, shape) for name, shape, _ in delivery.delivery.groups()] == [("listed_again", "records")]


def test_a_delivery_as_xml_is_read_after_the_same_shape(inbox, history):
    body = {"user_id": 12, "events": ["removed_records"], "removed_records": [{"record": RECORD}]}
    inbox.put("msg_1", b"\n" + codec.encode(body, "xml"))
    assert process_inbox(inbox, history).user_ids == {12}
    [(_, delivery)] = history.ingested
    assert delivery.delivery.removed_records[0].reference_id == "0042"


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


@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_bodies_are_quarantined_for_an_anonymous_reason(inbox, history, name):
    body, reason = UNREADABLE[name]
    inbox.put("msg_1", body)
    inbox.put("msg_2", about(12))
    assert process_inbox(inbox, history) == InboxResult(1, 1, frozenset({12}))
    [quarantined] = inbox.quarantined()
    assert reason in quarantined.reason
    assert CANARY not in quarantined.reason
    assert len(quarantined.reason) < 200
    assert inbox.body(1) == body
    assert process_inbox(inbox, history) == InboxResult()


def test_numbers_that_end_with_quarantine_are_not_looked_at_again(inbox, history):
    inbox.put_all([("msg_1", about(12)), ("msg_2", b"?")])
    assert process_inbox(inbox, history, batch_size=1) == InboxResult(1, 1, frozenset({12}))
    inbox.put("msg_3", about(13))
    assert process_inbox(inbox, history) == InboxResult(1, 0, frozenset({13}))
    assert history.numbers == [1, 3]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_draining_goes_on_where_it_stood(inbox, history, when):
    """What the history has not is still there; what it has is not given twice."""
    inbox.put_all([(f"msg_{number}", about(number)) for number in range(1, 7)])
    history.interrupted = when
    with pytest.raises(KeyboardInterrupt):
        process_inbox(inbox, history, batch_size=4)
    assert inbox.counts().waiting == 6
    history.interrupted = None
    assert process_inbox(inbox, history, batch_size=4).ingested == (6 if when == "before" else 2)
    assert history.numbers == [1, 2, 3, 4, 5, 6]


def test_a_history_that_ingests_nothing_leaves_every_body(inbox, tmp_path):
    """Bodies are dropped by what the history says, and not by what it was given."""

    class Forgetful(Taken):
        def last_delivery(self, _inbox):
            return 0

    inbox.put("msg_1", about(12))
    process_inbox(inbox, Forgetful(tmp_path / "history"))
    assert inbox.counts().waiting == 1


def test_a_real_history_takes_each_delivery_in_once(inbox, tmp_path):
    history = History(tmp_path / "history")
    inbox.put("msg_1", about(12, removed_records=[{"record": RECORD | {"status": "removed"}}]))
    inbox.put("msg_2", b"?")
    inbox.put("msg_3", about(13))
    assert process_inbox(inbox, history) == InboxResult(2, 1, frozenset({12, 13}))
    assert history.last_delivery(inbox.identity) == 3
    inbox.put("msg_3", about(13))
    assert process_inbox(inbox, history) == InboxResult()
    records = history.records()
    assert records[["user_id", "status"]].to_numpy().tolist() == [[12, "removed"]]


REFUSED = (pa.ArrowInvalid(CANARY), OverflowError(CANARY), TypeError(CANARY))


@pytest.mark.parametrize("error", REFUSED, ids=lambda error: type(error).__name__)
def test_a_delivery_that_fails_alone_is_quarantined_alone(inbox, history, error):
    inbox.put_all([(f"msg_{user_id}", about(user_id)) for user_id in range(1, 8)])
    history.refused = {3: error, 6: error}
    assert process_inbox(inbox, history) == InboxResult(5, 2, frozenset({1, 2, 4, 5, 7}))
    assert history.numbers == [1, 2, 4, 5, 7]
    reason = f"the history cannot ingest it: {type(error).__name__}"
    assert [(one.number, one.reason) for one in inbox.quarantined()] == [(3, reason), (6, reason)]
    assert inbox.body(3) == about(3)
    assert process_inbox(inbox, history) == InboxResult()


@pytest.mark.parametrize("whom", [None, 2])
@pytest.mark.parametrize("error", [HistoryLocked("busy"), OSError(28, "full")], ids=["busy", "full"])
def test_a_history_that_cannot_be_written_sets_no_delivery_apart(inbox, history, whom, error):
    inbox.put_all([("msg_1", about(1)), ("msg_2", about(2))])
    history.refused = {whom: error}
    with pytest.raises(type(error)):
        process_inbox(inbox, history)
    assert (inbox.counts().waiting, inbox.counts().quarantined) == (2, 0)


def test_a_failure_without_deliveries_is_no_deliverys_fault(inbox, history):
    inbox.put_all([("msg_1", about(1)), ("msg_2", about(2))])
    history.refused = {None: ValueError("damaged")}
    with pytest.raises(ValueError, match="damaged"):
        process_inbox(inbox, history)
    assert (inbox.counts().waiting, inbox.counts().quarantined) == (2, 0)


def test_bodies_are_deleted_only_after_the_history_is_written(inbox, history):
    inbox.put("msg_1", about(1))
    history.interrupted = "after"
    with pytest.raises(KeyboardInterrupt):
        process_inbox(inbox, history)
    assert (inbox.counts().waiting, history.synced) == (1, 0)
    history.interrupted = None
    process_inbox(inbox, history)
    assert (inbox.counts().waiting, history.synced) == (0, 1)
    inbox.put("msg_2", about(2))
    process_inbox(inbox, history)
    process_inbox(inbox, history)  # nothing to drop
    assert (inbox.counts().waiting, history.synced) == (0, 2)


def test_from_a_restored_inbox_every_new_delivery_is_ingested(inbox, history, tmp_path):
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
