"""Reports load what their sections declare, once; sections are pure functions of it."""

from dataclasses import replace

import pytest

import exposurekit as ek
from exposurekit.cli import report as report_command
from exposurekit.errors import InvalidArgument
from exposurekit.questions import QUESTIONS
from exposurekit.reports.data import ReportSource
from exposurekit.reports.sections import KINDS, build_report, needed_tables

ARGUMENTS = {"fleet": {}, "person": {"user": 1}, "changes": {"since": "1d"}, "sites": {}}


@pytest.fixture(scope="module")
def demo():
    with ek.demo(people=3, days=2, progress=False) as demo:
        yield demo


class ReadTables(dict):
    """Tables by name; notes which ones are read."""

    def __init__(self, *args):
        super().__init__(*args)
        self.read = set()

    def __getitem__(self, name):
        self.read.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_loads_exactly_what_its_sections_read(demo, kind):
    source = ReportSource(demo.history, exposure=demo.exposure, **ARGUMENTS[kind])
    data = source.load(needed_tables(kind))
    tables = ReadTables(data.tables)
    build_report(kind, replace(data, tables=tables))
    unread = {"failures"} if kind == "fleet" else set()  # of an exposure alone
    assert {*tables} - tables.read == unread


def test_the_command_offers_every_kind():
    assert tuple(KINDS) == report_command.KINDS


def test_each_table_is_loaded_once(demo):
    source = ReportSource(demo.history)
    first = source.load(needed_tables("fleet")).tables
    assert all(
        source.load(needed_tables("sites")).tables[name] is first[name] for name in ("records", "by_site")
    )


def test_sections_make_no_query():
    """They give the same report when the service and the history are gone."""
    with ek.demo(people=2, days=1, progress=False) as demo:
        source = ReportSource(demo.history, exposure=demo.exposure)
        data = source.load(needed_tables("fleet"))
        before = build_report("fleet", data).to_json()
    assert build_report("fleet", data).to_json() == before


def test_every_question_is_a_section_by_its_name(demo):
    for since in (None, "1d"):
        names = [name for name, question in QUESTIONS.items() if bool(question.required) == bool(since)]
        report = ek.report(demo.history, exposure=demo.exposure, since=since, sections=names)
        assert [section.key for section in report.sections] == names
        assert [section.title for section in report.sections] == [QUESTIONS[name].title for name in names]
        page = report.to_html()
        assert all(f'id="{name}"' in page for name in names)


@pytest.mark.parametrize(
    ("name", "problem"),
    [("by_moon", "sections are names of: .*by_site"), ("changes", "needs a history and since")],
)
def test_a_section_that_cannot_be_made_says_why(demo, name, problem):
    with pytest.raises(InvalidArgument, match=problem):
        ek.report(demo.history, sections=[name])
