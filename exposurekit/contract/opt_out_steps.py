"""Opt-out steps: read an alert's ``opt_out_procedure``, whether it is a list or one numbered text."""

import re

# 1. and 1) and 1:, then 1 - (but not 2 - 3 days), then (1). A text has one of them: "1. Send (2) copies. 2. Wait."
_NUMBERS = (r"(\d{1,2})[.):]\s+", r"(\d{1,2})\s*[-\u2013\u2014]\s+(?!\d)", r"\((\d{1,2})\)\s+")
# Numbers at the start of a line are more reliable than elsewhere: "1. Send form 7.\n2. Keep a copy."
_CLOSE_NUMBER = r"(\d{1,2})[.):](?=[^\W\d_])"  # 1.Open, only there: elsewhere it may be a part of an address
_NUMBERED = tuple(
    re.compile(f"{begin}(?:step\\s+)?{number}", re.IGNORECASE | re.MULTILINE)
    for begin, numbers in ((r"^\s*", (*_NUMBERS, _CLOSE_NUMBER)), (r"(?:^|(?<=\s))", _NUMBERS))
    for number in numbers
)


def split_steps(procedure: list[str] | str | None) -> list[str]:
    """Split an ``opt_out_procedure`` into steps; it is a list, a string or null.

    A string is one step unless it clearly numbers its steps 1, 2, ... A blank item, such as of an empty line, is no step.
    """
    if procedure is None:
        return []
    if isinstance(procedure, list):
        return [step for step in procedure if step.strip()]
    for numbered in _NUMBERED:
        if steps := _numbered(procedure, list(numbered.finditer(procedure))):
            return steps
    return [procedure] if procedure.strip() else []


def _numbered(procedure: str, marks: list[re.Match[str]]) -> list[str]:
    """Return the parts after the marks if these count 1, 2, ... and no text precedes the first."""
    ends = [*(mark.start() for mark in marks[1:]), len(procedure)]
    steps = [procedure[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=False)]
    in_order = [int(mark[1]) for mark in marks] == list(range(1, len(marks) + 1))
    plain = len(marks) > 1 and in_order and all(steps) and not procedure[: marks[0].start()].strip()
    return steps if plain else []
