"""The table of ASVS requirements: well-formed numbers, a verdict in each row, and tests that exist."""

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
DOCUMENT = (TESTS.parent / "exposurekit" / "service" / "ASVS.md").read_text()
CHAPTERS, _, REST = DOCUMENT.partition("## What does not apply")
VERDICTS = {"met", "partly", "not met", "operator"}
TEST = re.compile(r"`(\S+\.py)::(\w+)`")
LINK = re.compile(r"\[[^]]+\]\([^)]+\)")


@dataclass(frozen=True)
class Row:
    chapter: str
    number: str
    name: str
    level: str
    verdict: str
    how: str
    shown_by: str


def rows():
    for part in re.split(r"^## V", CHAPTERS, flags=re.MULTILINE)[1:]:
        for line in part.splitlines():
            if line.startswith("| V"):
                requirement, *cells = [cell.strip() for cell in line.strip("|").split("|")]
                number, _, name = requirement.partition(" ")
                yield Row(part.split()[0], number, name, *cells)


ROWS = list(rows())


def parts_of(number):
    match = re.fullmatch(r"V([1-9]\d*)\.([1-9]\d*)\.([1-9]\d*)", number)
    assert match, number
    return tuple(map(int, match.groups()))


def inapplicable():
    """Every number of the table of what does not apply; a range is of one section."""
    table, _, _ = REST.partition("\n## ")
    for line in table.splitlines():
        for one in line.split("|")[1].split(",") if line.startswith("| V") else ():
            first, _, last = one.strip().partition("\N{EN DASH}")
            *section, low = parts_of(first)
            *last_section, high = parts_of(last or first)
            assert section == last_section, one
            yield from ((*section, number) for number in range(low, high + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_a_row_has_a_name_level_verdict_and_reason(row):
    assert parts_of(row.number)[0] == int(row.chapter)
    assert 3 <= len(row.name.split()) <= 8
    assert row.level in {"1", "2"}
    assert row.verdict in VERDICTS
    assert row.how.endswith(".")


@pytest.mark.parametrize("row", [one for one in ROWS if one.verdict == "met"], ids=lambda row: row.number)
def test_a_met_requirement_names_what_shows_it(row):
    assert TEST.search(row.shown_by) or LINK.search(row.shown_by)


def test_each_number_appears_once_and_in_order():
    numbers = [parts_of(row.number) for row in ROWS]
    others = list(inapplicable())
    assert len(numbers) > 80
    assert numbers == sorted(set(numbers))
    assert len(others) == len(set(others))
    assert set(numbers).isdisjoint(others)


@cache
def functions(file):
    nodes = ast.walk(ast.parse((TESTS / file).read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_named_test_exists():
    named = TEST.findall(DOCUMENT)
    assert len(named) > 80
    assert [f"{file}::{name}" for file, name in named if name not in functions(file)] == []
    assert {name for _, name in named if not name.startswith("test_")} == set()
