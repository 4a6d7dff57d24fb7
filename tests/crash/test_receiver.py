"""A short run of the receiver's crash test, and that its verdict notices what is wrong."""

import argparse
import hashlib
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from crash.receiver_run import Load, Receiver, _judged

from exposurekit.monitor.webhooks.store import InboxStore

pytestmark = pytest.mark.long  # processes of their own

RUN = Path(__file__).with_name("receiver_run.py")
PATIENCE_S = 200


def test_under_kills_each_acknowledged_delivery_is_stored_once():
    run = subprocess.run(
        [sys.executable, RUN, "--kills", "3"], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "BROKEN" not in run.stdout


@pytest.fixture
def aftermath(tmp_path):
    """An inbox of three letters, each acknowledged, after one kill."""
    receiver = Receiver(tmp_path, 9, "", kills=1)
    receiver.inbox.parent.mkdir()
    inbox = InboxStore(receiver.inbox)
    load = Load("", "", 1, answers=Counter({"204": 3, "none": 1}))
    for number in range(3):
        inbox.put(f"msg_{number}", b"%d" % number)
        load.acknowledged[f"msg_{number}"] = hashlib.sha256(b"%d" % number).digest()
    inbox.close()
    return argparse.Namespace(receiver=receiver, load=load)


def broken(aftermath):
    return {
        name for name, violations in _judged(aftermath.receiver, aftermath.load, 1)[1].items() if violations
    }


def test_where_nothing_went_wrong_every_rule_holds(aftermath):
    assert broken(aftermath) == set()


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("DELETE FROM messages WHERE number = 2", "acknowledged, and lost"),
        (
            "INSERT INTO messages SELECT 9, webhook_id, x'00', received_at, body, reason FROM messages LIMIT 1",
            "kept more than once",
        ),
        ("UPDATE messages SET webhook_id = 'msg_9' WHERE number = 1", "kept, and never acknowledged"),
        ("UPDATE messages SET body = CAST('9' AS BLOB) WHERE number = 3", "kept with other bytes"),
        ("UPDATE messages SET digest = x'00' WHERE number = 3", "digests that are not their bodies'"),
    ],
)
def test_what_is_wrong_in_the_inbox_is_noticed(aftermath, statement, rule):
    with sqlite3.connect(aftermath.receiver.inbox) as inbox:
        inbox.execute(statement)
    inbox.close()
    assert rule in broken(aftermath)


def test_what_is_wrong_beside_the_inbox_is_noticed(aftermath):
    aftermath.receiver.deaths.append("ended with 1")
    aftermath.receiver.kills = 0
    aftermath.load.answers["500"] += 1
    assert broken(aftermath) == {
        "ended by itself, or not in peace",
        "answers other than 204",
        "what had to happen, and did not",
    }
