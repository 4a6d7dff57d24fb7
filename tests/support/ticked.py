"""Files of ticks as the page of a report saves them, without a browser."""

import json
import re

_BOX = re.compile(r'<input type="checkbox" value="(\d+ -?\d+)">')


def items(page: str) -> list[str]:
    """What the page of a report knows each item by that can be ticked: its user and its key."""
    return _BOX.findall(page)


def ticks_file(ticked, at="2026-03-01T09:00:00.000Z") -> str:
    """What the page saves after some of its `items` were ticked at an instant."""
    ticks = [dict(zip(("user_id", "item"), one.split(), strict=True)) | {"ticked_at": at} for one in ticked]
    return json.dumps({"format": "exposurekit ticks 1", "ticks": ticks}, indent=1)
