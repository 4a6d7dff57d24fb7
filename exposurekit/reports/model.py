"""A report as typed values: a finding, figures, and sections with text, charts, tables and manual steps."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd
from pydantic_core import to_json, to_jsonable_python

from exposurekit.analysis.definitions import definition
from exposurekit.analysis.diff import AGAIN
from exposurekit.analysis.manual_tasks import Task
from exposurekit.analysis.step_requirements import NEEDS_DOCUMENT, preparations, worded_steps
from exposurekit.analysis.work_queue import UNKNOWN_RATE
from exposurekit.charts import describe
from exposurekit.charts.theme import Figure, format_duration
from exposurekit.errors import NotFound
from exposurekit.text.formatting import percent, pluralize
from exposurekit.text.urls import host

SHARE_SAFE = (
    "Share-safe: you may pass this report on. It contains no name, address, contact detail or link of the people it is "
    "about. They have pseudonyms, dates have no time of day, and ages and places, where they appear, are rounded to ten "
    "years and the state. A site or host is named only if at least five people in the data are or were found there, and a "
    "missing field only if at least five lack it; the figures beside a name may count fewer. "
    "Tables with one row per listing or person, where they appear, are pseudonymised and not anonymous."
)
CONFIDENTIAL = (
    "Confidential: this report contains personal data. Show it only to people who need it for these removals. "
    "For anybody else, ask an analyst for a share-safe report."
)
PER_PAGE = "less if one message names all pages of a host"  # what estimated minutes count
OPERATOR = "you"
OPERATOR_AND_PERSON = f"{OPERATOR} and the person listed"
TASKS_MAX = 800  # items of manual work on a page: more make it slow to open
_ONE_REMOVAL = 0.75  # with less expected, it is said how many requests make one
TILES_MAX = 6  # figures that are read at a glance
# The manual work has the pages, its own section the points, and the card of removals what was listed again.
_REPEATED = (AGAIN, "web pages", "score")
_CLAUSE_END = re.compile(r"[;.] ")
ROWS_MAX = 1_000  # rows of a table on a page: more make it large, and are for an export


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure with its qualifier.

    Attributes:
        name: What is counted.
        value: The figure as text.
        qualifier: Its interval, base or date: in a few words, up to a semicolon or the end of a sentence, and then more.
        detail: How it is counted or estimated, if that takes more words; empty: the qualifier says it all.
        change: How it differs from a week before, such as ``-8 in 7 days``, or ``-8 since 2026-11-11`` if it was not
            observed then; empty if that is unknown.
        trend: The figure at the end of each period, oldest first, to draw as a sparkline; empty if it is unknown.
    """

    name: str
    value: str
    qualifier: str = ""
    change: str = ""
    trend: tuple[float, ...] = ()
    detail: str = ""

    @property
    def definition(self) -> str:
        """The definition in `analysis.DEFINITIONS`; empty if the name needs none.

        >>> report.facts[0].definition[:38]
        'listings whose removal is not verified'
        """
        return definition(self.name)

    @property
    def line(self) -> str:
        """The few words that stand below the figure.

        >>> report.facts[0].line[:3]
        'of '
        """
        return self._lines[0]

    @property
    def more(self) -> str:
        """The rest of the qualifier and the detail, as sentences; empty if there is no more.

        >>> report.facts[0].more[:4]
        'All '
        """
        rest = self._lines[1] if len(self._lines) > 1 else ""
        return ". ".join(f"{part[:1].upper()}{part[1:]}" for part in (rest, self.detail) if part)

    @property
    def explanation(self) -> str:
        """The definition and `more`: what the page says of how the figure is counted; empty if nothing."""
        return f"{self.definition} {self.more}".strip()

    @property
    def _lines(self) -> list[str]:
        return _CLAUSE_END.split(self.qualifier, maxsplit=1)


def expected_removals(n: float, requests: int) -> str:
    """How many removals to expect of some requests, in words; of one request, its chance."""
    if requests == 1:
        chance = "even" if n == UNKNOWN_RATE else percent(n)
        return f"{'an' if chance.startswith(('even', '8', '11', '18')) else 'a'} {chance} chance of success"
    if n < _ONE_REMOVAL:
        return f"about 1 in {requests / n:,.0f} requests expected to succeed"
    whole = max(round(n), 1)
    return f"{'' if n == whole else 'about '}{pluralize(whole, 'removal')} expected"


@dataclass(frozen=True, slots=True)
class Removal:
    """The manual steps that one or more listings or pages need, and these items.

    Attributes:
        site: The people-search site; None for web pages.
        guide: The service's description of the removal.
        steps: The ``opt_out_procedure``, in order.
        tasks: The items: which listing, whose, and what to enter; at most the first `TASKS_MAX` of a report.
        listings: The number of items; None if it is not shown, like the next two, because it concerns few people.
        people: The number of people.
        minutes: The estimated time.
        reason: Why these items come later than others; None if they do not.
        expected: How many removals to expect of them; None if nothing is known of that.
    """

    site: str | None
    guide: str | None
    steps: tuple[str, ...]
    tasks: tuple[Task, ...] = field(repr=False)
    listings: int | None
    people: int | None
    minutes: float | None
    reason: str | None = None
    expected: float | None = None

    @property
    def omitted(self) -> int:
        """The number of items that are not in `tasks`."""
        return 0 if self.listings is None else self.listings - len(self.tasks)

    @property
    def heading(self) -> str:
        """The heading of the list of items."""
        n = len(self.tasks) + self.omitted
        item = "web page" if self.site is None else "listing"
        return f"One {item}" if n == 1 else f"Same steps for {pluralize(n, item)}"

    @property
    def amount(self) -> str:
        """The number of items and people, and the time, as a sentence."""
        if self.listings is None or self.people is None or self.minutes is None:
            return "The number of items is not shown, so that no group of fewer than five people can be worked out."
        items = pluralize(self.listings, "web page" if self.site is None else "listing")
        people = pluralize(self.people, "person", "people")
        later = f" Reason to wait: {self.reason}." if self.reason and not self.waits_for_document else ""
        one_each = f", {PER_PAGE}" if self.site is None and self.listings > 1 else ""
        time = f"about {format_duration(self.minutes)}{one_each}"
        return f"{items} of {people}; {'; '.join(filter(None, (time, self.expected_removals)))}.{later}"

    @property
    def expected_removals(self) -> str:
        """How many removals to expect, in words; empty if nothing is known of that."""
        return (
            ""
            if self.expected is None or not self.listings
            else expected_removals(self.expected, self.listings)
        )

    @property
    def preparations(self) -> tuple[str, ...]:
        """What the steps need from the person."""
        return preparations(self.steps)

    @property
    def worded_steps(self) -> tuple[str, ...]:
        """The steps in words that say which of them only the person can do."""
        return worded_steps(self.steps)

    @property
    def waits_for_document(self) -> bool:
        """Whether these items come later because they need a document: the preparations say which."""
        return self.reason == NEEDS_DOCUMENT

    @property
    def who(self) -> str:
        """Who acts: the operator alone, or with the person, who has to read a message or send a document."""
        return OPERATOR_AND_PERSON if self.preparations else OPERATOR

    @property
    def begin(self) -> str:
        """The address where every item begins; empty if there is none, or several."""
        addresses = {task.begin or "" for task in self.tasks}
        return addresses.pop() if len(addresses) == 1 else ""

    @property
    def site_host(self) -> str:
        """The host where the items of a site are opted out of; empty for web pages and if none is stated."""
        task = next(iter(self.tasks), None)
        return host(task.begin or task.address) if self.site and task else ""

    @property
    def tasks_by_host(self) -> tuple[tuple[str, tuple[Task, ...]], ...]:
        """The items of web pages under their hosts, in order; those of a site under no host."""
        hosts: dict[str, list[Task]] = {}
        for task in self.tasks:
            hosts.setdefault("" if self.site else host(task.address), []).append(task)
        return tuple((host, tuple(tasks)) for host, tasks in hosts.items())

    @property
    def tasks_per_person(self) -> tuple[tuple[str, int], ...]:
        """The number of items of each person, most first."""
        counts = Counter(task.person for task in self.tasks)
        return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do next.

    Attributes:
        text: What to do.
        effect: How much it removes, and how long it takes.
        section: The part of the page that has the details: the key of a section; for a group of manual work, with its
            number, such as ``work_queue-1``; empty if the page has no such part.
        who: Who does it, such as ``you``; empty if nobody has to.
        is_later: Whether it has to wait; the text says until when, or the effect why.
        listings: How many listings it asks to remove.
        minutes: The estimated time; None if it takes none of its own, or that is not known.
        expected: How many removals to expect; None if nothing is known of that, as of web pages.
        low: The lower end of its 95% interval: see `analysis.expected_removals`.
        high: The upper end.
        basis: What the expectation rests on, such as what came of the requests so far, or that it is assumed.
        site: The people-search site; empty for web pages, and if it is none's.
    """

    text: str
    effect: str
    section: str
    who: str
    is_later: bool = False
    listings: int = 0
    minutes: float | None = None
    expected: float | None = None
    low: int | None = None
    high: int | None = None
    basis: str = ""
    site: str = ""

    @property
    def time(self) -> str:
        """The estimated time in words; empty if it is not known."""
        return "" if self.minutes is None else format_duration(self.minutes)

    @property
    def removals(self) -> str:
        """The expected removals with their interval, without the words around them; empty if they are not known."""
        if self.expected is None:
            return ""
        return f"{self.expected:,.1f} ({self.low:,}\N{EN DASH}{self.high:,})"

    @property
    def per_minute(self) -> float | None:
        """The expected removals per minute; None if they, or the time, are not known."""
        return None if self.expected is None or not self.minutes else self.expected / self.minutes


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a report; also a section of your own, for `report(sections=[...])`.

    Attributes:
        title: Its heading.
        figure: A chart, or any Plotly figure of bars, lines, areas, points, pies, heat maps, histograms or boxes; None.
        table: A table, of which a page has at most the first `ROWS_MAX` rows; None.
        text: Its text: one paragraph above the chart, of at most two sentences in the sections of this package.
        points: More sentences, as a list; below a chart, the list is folded.
        finding: The main result in one sentence, which stands in the heading.
        key: Its name in data, file names and links; empty: made from the title.
        rows: The number of rows of the whole table.
        totals: The sums of columns, for the last row of the table; empty: it has none.
        removals: The manual work.

    >>> section = ek.Section("Our targets", text="Half of all listings are removed by June.")
    >>> ek.report(exposure, sections=["by_site", section]).sections[1].key
    'our_targets'
    """

    title: str
    figure: Figure | None = field(default=None, repr=False, kw_only=True)
    table: pd.DataFrame | None = field(default=None, repr=False, kw_only=True)
    text: str = field(default="", kw_only=True)
    points: tuple[str, ...] = field(default=(), kw_only=True)
    finding: str = field(default="", kw_only=True)
    key: str = field(default="", kw_only=True)
    rows: int = field(default=0, kw_only=True)
    totals: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    removals: tuple[Removal, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class Report:
    """A report as values, rendered on demand.

    Attributes:
        kind: ``fleet``, ``person``, ``changes`` or ``sites``.
        title: Its heading.
        finding: The main result, and the site with the most open listings: at most two sentences.
        parts: What the open listings are made of, a phrase each.
        facts: The main figures.
        actions: What to do next, at most four, and then at most four that have to wait; see `table` for the numbers.
        totals: The manual work that no action names, if there is any, and the sum of all; empty if there is only one row.
        sections: Its sections, in order.
        provenance: The source of the data: ``server``, ``as of``, ``runs``, ``people``, ``filters``, ``made with``.
        is_share_safe: Whether it was made for people who may not know whom it is about.
        logo: An image as a ``data:`` address; empty: none.
        accent: The colour of the line above the title, such as ``#0b5cad``; empty: the default.
        half_hour: What clears most in half an hour, one sentence; empty if nothing can be done by hand in that time.
        outlook: How many of the expected removals come within the time of the forecast, one sentence; empty without one.
        caveat: How many matches nobody has checked, one sentence; empty if all were, or the report does not tell.
        code: What analysts can do about the report, and the code for it: in Python, and for a shell if there is a command;
            empty in a share-safe report.

    >>> report = ek.report(exposure)
    >>> report.kind, report.facts[0].name
    ('fleet', 'open listings')
    >>> report.notice
    'Confidential: ...'
    """

    kind: str
    title: str
    finding: str
    facts: tuple[Fact, ...] = field(repr=False)
    sections: tuple[Section, ...] = field(repr=False)
    provenance: Mapping[str, str] = field(repr=False)
    is_share_safe: bool = False
    actions: tuple[Action, ...] = field(default=(), repr=False)
    logo: str = field(default="", repr=False)
    accent: str = ""
    half_hour: str = ""
    outlook: str = ""
    caveat: str = ""
    code: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    parts: tuple[str, ...] = ()
    totals: tuple[Action, ...] = field(default=(), repr=False)

    @property
    def notice(self) -> str:
        """Who may see the report; the banner of the page and the PDF."""
        return SHARE_SAFE if self.is_share_safe else CONFIDENTIAL

    @property
    def tiles(self) -> tuple[Fact, ...]:
        """The figures that stand large at the top: of many, those that no other part of the page has.

        >>> [fact.name for fact in report.tiles][:3]
        ['open listings', 'removed', 'to do by hand']
        """
        if len(self.facts) <= TILES_MAX:
            return self.facts
        return tuple(fact for fact in self.facts if fact.name not in _REPEATED)

    @property
    def data(self) -> dict[str, Any]:
        """The content as plain values: text, numbers and lists; instants in ISO 8601, missing values as None.

        >>> report.data["kind"]
        'fleet'
        """
        return {
            "kind": self.kind,
            "title": self.title,
            "share_safe": self.is_share_safe,
            "notice": self.notice,
            "finding": self.finding,
            "parts": [*self.parts],
            "facts": [
                asdict(fact) | {"definition": fact.definition, "trend": [*fact.trend]} for fact in self.facts
            ],
            "actions": [asdict(action) for action in self.actions],
            "totals": [asdict(action) for action in self.totals],
            "half_hour": self.half_hour,
            "outlook": self.outlook,
            "caveat": self.caveat,
            "code": {what: [*code] for what, code in self.code.items()},
            "sections": [_plain(section) for section in self.sections],
            "provenance": dict(self.provenance),
        }

    def figure(self, section: str) -> Figure:
        """Return the chart of a section, as it stands in the report.

        Raises:
            NotFound: The report has no such section, or the section has no chart.

        >>> report.figure("by_site")
        Chart('... listings are open; ...')
        """
        return self._part(section, "figure")

    def table(self, section: str) -> pd.DataFrame:
        """Return the table of a section, as it stands in the report: at most `ROWS_MAX` rows; a copy.

        ``actions`` is what to do next, and, if there are several rows, their sum: ``action``, ``who`` (text), ``minutes``, ``expected``
        (removals), ``low``, ``high``, ``per_minute`` (float64; missing: not known), ``basis`` (text) and ``is_later``.

        Raises:
            NotFound: The report has no such section, or the section has no table.

        >>> report.table("by_site").columns[0]
        'site'
        """
        if section == "actions":
            return _actions_table((*self.actions, *self.totals))
        table: pd.DataFrame = self._part(section, "table")
        return table.copy()

    def _part(self, key: str, part: str) -> Any:
        values = {
            section.key: value for section in self.sections if (value := getattr(section, part)) is not None
        }
        if key not in values:
            raise NotFound(f"The report has no {part} of that name; it has: {', '.join(values) or 'none'}")
        return values[key]

    def to_json(self) -> str:
        """`data` as JSON; the same report gives the same text.

        >>> '"kind": "fleet"' in report.to_json()
        True
        """
        return to_json(self.data, indent=1).decode()

    def to_html(self) -> str:
        """The report as one self-contained HTML file of about 1.6 MB plus its data.

        >>> report.to_html().startswith("<!DOCTYPE html>")
        True
        """
        from exposurekit.reports.html import page

        return page(self)

    def _repr_html_(self) -> str:
        from exposurekit.text.html_cards import html_card

        facts = {
            fact.name: " \u00b7 ".join(filter(None, (fact.value, fact.qualifier))) for fact in self.facts
        }
        finding = {"finding": self.finding} | (
            {"open listings by reason": "; ".join(self.parts)} if self.parts else {}
        )
        return html_card(self.title, finding | facts | {"who may see this": self.notice})


def _actions_table(actions: Sequence[Action]) -> pd.DataFrame:
    """Actions as a table, a row each."""
    numbers = ("minutes", "expected", "low", "high", "per_minute")
    return pd.DataFrame(
        {
            "action": pd.Series([one.text for one in actions], dtype="str"),
            "who": pd.Series([one.who for one in actions], dtype="str"),
            **{name: pd.Series([getattr(one, name) for one in actions], dtype="float64") for name in numbers},
            "basis": pd.Series([one.basis for one in actions], dtype="str"),
            "is_later": pd.Series([one.is_later for one in actions], dtype="bool"),
        }
    )


def _plain(section: Section) -> dict[str, Any]:
    names = ("key", "title", "finding", "text")
    values: dict[str, Any] = {name: getattr(section, name) for name in names}
    if section.points:
        values["points"] = [*section.points]
    if section.figure is not None:
        values["chart"] = describe(section.figure)
    if section.table is not None:
        values |= {"rows": section.rows, "table": _rows(section.table)}
    if section.totals:
        values["totals"] = dict(section.totals)
    if section.removals:
        values["removals"] = to_jsonable_python([asdict(removal) for removal in section.removals])
    return values


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as dicts of plain values."""
    columns = {str(name): [_value(cell) for cell in table[name].tolist()] for name in table}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _value(cell: Any) -> Any:
    if isinstance(cell, (list, tuple)):
        return [str(item) for item in cell]
    if hasattr(cell, "isoformat"):
        return None if pd.isna(cell) else cell.isoformat()
    return None if pd.isna(cell) else cell
