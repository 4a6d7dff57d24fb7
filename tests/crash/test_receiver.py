"""A short run of the inbox's crash test; and its verdict detects every violation."""

import hashlib
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from crash.receiver_run import Load, judge

from exposurekit.monitor.webhooks.store import InboxStore

pytestmark = pytest.mark.long  # starts processes

RUN = Path(__file__).with_name("receiver_run.py")


def test_acknowledged_deliveries_are_stored_once_despite_kills():
    command = [sys.executable, RUN, "--kills", "2"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "BROKEN" not in run.stdout


class Inbox:
    """An inbox with three acknowledged deliveries, after one kill."""

    def __init__(self, file):
        self.file, self.deaths, self.kills = file, [], 1
        self.load = Load("", "", 1, answers=Counter({"204": 3, "none": 1}))
        store = InboxStore(file)
        for number in range(3):
            store.put(f"msg_{number}", b"%d" % number)
            self.load.acknowledged[f"msg_{number}"] = hashlib.sha256(b"%d" % number).digest()
        store.close()

    def broken(self):
        _, rules = judge(self.file, self.load, self.deaths, (self.kills, 1))
        return {name for name, violations in rules.items() if violations}


@pytest.fixture
def inbox(tmp_path):
    return Inbox(tmp_path / "inbox.db")


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("DELETE FROM messages WHERE number = 2", "acknowledged, and lost"),
        (
            "INSERT INTO messages SELECT 9, webhook_id, x'00', received_at, body, reason FROM messages LIMIT 1",
            "stored more than once",
        ),
        ("UPDATE messages SET webhook_id = 'msg_9' WHERE number = 1", "stored, and never acknowledged"),
        ("UPDATE messages SET body = CAST('9' AS BLOB) WHERE number = 3", "stored with different bytes"),
        ("UPDATE messages SET digest = x'00' WHERE number = 3", "digests that differ from their bodies"),
    ],
)
def test_verdict_detects_each_violation_in_the_inbox(inbox, statement, rule):
    assert inbox.broken() == set()
    connection = sqlite3.connect(inbox.file)
    with connection:
        connection.execute(statement)
    connection.close()
    assert rule in inbox.broken()


def test_verdict_detects_violations_outside_the_inbox(inbox):
    inbox.deaths.append("ended with 1")
    inbox.kills = 0
    inbox.load.answers["500"] += 1
    expected = {"ended by itself, or not cleanly", "answers other than 204", "missing preconditions"}
    assert inbox.broken() == expected
