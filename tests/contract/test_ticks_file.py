"""A file of ticks may come from anybody: it is one, or it is refused in words."""

import json

import pytest

from exposurekit.contract.ticks_file import BYTES_MAX, parse_ticks
from exposurekit.errors import InvalidArgument

ITEM = {"user_id": "7", "item": "-9223372036854775808", "ticked_at": "2026-03-01T09:00:00.000Z"}
FILE = {"format": "exposurekit ticks 1", "ticks": [ITEM]}


def test_file_of_ticks_is_parsed():
    [item] = parse_ticks(json.dumps(FILE).encode())
    assert (item.user_id, item.item) == (7, -(2**63))
    assert item.ticked_at.isoformat() == "2026-03-01T09:00:00+00:00"
    assert parse_ticks(json.dumps(FILE | {"ticks": []}).encode()) == []


HOSTILE = {
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "a list": b"[1]",
    "too large": json.dumps(FILE).encode() + b" " * BYTES_MAX,
    "another format": FILE | {"format": "exposurekit ticks 2"},
    "more": FILE | {"run": "rm"},
    "no item": FILE | {"ticks": [{"user_id": "7", "ticked_at": ITEM["ticked_at"]}]},
    "a long key": FILE | {"ticks": [ITEM | {"item": "9" * 10_000}]},
    "a key of 65 bits": FILE | {"ticks": [ITEM | {"item": str(2**63)}]},
    "a word": FILE | {"ticks": [ITEM | {"item": "Zebedee"}]},
    "a negative user": FILE | {"ticks": [ITEM | {"user_id": "-1"}]},
    "no zone": FILE | {"ticks": [ITEM | {"ticked_at": "2026-03-01T09:00:00"}]},
    "no instant": FILE | {"ticks": [ITEM | {"ticked_at": "Zebedee"}]},
    "more of an item": FILE | {"ticks": [ITEM | {"note": "Zebedee"}]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_anything_else_is_refused_without_its_content(name):
    content = HOSTILE[name]
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(InvalidArgument, match="not a file of ticks") as refused:
        parse_ticks(body)
    assert "Zebedee" not in str(refused.value)
    assert refused.value.__cause__ is None
